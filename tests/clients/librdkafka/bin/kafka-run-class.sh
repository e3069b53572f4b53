#!/bin/sh
# What librdkafka's tests call to run a Java program of theirs, with CLASSPATH where it lies and KAFKA_JARS.
exec java -Xmx128m -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$CLASSPATH:$KAFKA_JARS/*" "$@"
