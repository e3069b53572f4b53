"""Compacted topics as real clients see them: `compaction.py BINARY [--reference]`.

Starts a broker of its own, writes the same keys over and over with every codec, some of them as
tombstones, and waits until the log has been compacted. Then librdkafka, kafka-python and Apache Kafka's
console consumer must see the newest record of each key at the offset where it was put, and little
besides, also after a kill; and Apache Kafka's dump tool must find every batch of every file valid.
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import rawkafka  # noqa: E402
import tools  # noqa: E402
from broker import Broker, Kafka  # noqa: E402
from confluent_kafka import Consumer, Producer, TopicPartition  # noqa: E402
from kafka import KafkaConsumer  # noqa: E402
from kafka import TopicPartition as PythonPartition  # noqa: E402

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
KEYS, RECORDS, SEGMENT_BYTES = 150, 5000, 1_048_576
# What the open segment may hold of records that are replaced already, and one that just closed.
SPARE = 2 * SEGMENT_BYTES // 900
PATIENCE = 120


class Wrong(Exception):
    """A check failed, for this reason."""


def write(bootstrap, topic, codec):
    """{key: (offset, value)} of the newest record of each key."""
    chance, newest = random.Random(codec), {}
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20,
                         "batch.size": 16384,
                         "enable.idempotence": codec != "gzip"})

    def placed(key, value):
        def note(error, message):
            if error:
                raise Wrong(f"{topic}: {error}")
            newest[key] = (message.offset(), value)
        return note

    for _ in range(RECORDS):
        key = f"key {chance.randrange(KEYS)}".encode()
        # Half of it compresses.
        value = None if chance.random() < 0.1 else chance.randbytes(500) + b"." * 500
        producer.produce(topic, key=key, value=value, partition=0, on_delivery=placed(key, value))
        producer.poll(0)
    producer.flush(60)
    return newest


def by_librdkafka(bootstrap, topic):
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "c", "enable.auto.commit": False,
                         "enable.partition.eof": True, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen, deadline = [], time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():
            consumer.close()
            return seen
        seen.append((message.offset(), message.key(), message.value()))
    raise Wrong(f"{topic}: librdkafka comes to no end")


def by_kafka_python(bootstrap, topic):
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="earliest")
    at, seen, deadline = PythonPartition(topic, 0), [], time.monotonic() + PATIENCE
    consumer.assign([at])
    consumer.seek_to_beginning(at)
    end = consumer.end_offsets([at])[at]
    while consumer.position(at) < end:
        if time.monotonic() > deadline:
            raise Wrong(f"{topic}: kafka-python stays at {consumer.position(at)} of {end}")
        for records in consumer.poll(1000).values():
            seen += [(record.offset, record.key, record.value) for record in records]
    consumer.close()
    return seen


def by_console(bootstrap, topic):
    """Offsets and keys as the Java consumer gives them; the values are not for a terminal."""
    done = subprocess.run(tools.java_command(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", bootstrap, "--topic", topic,
        "--from-beginning", "--timeout-ms", "8000", "--formatter-property", "print.offset=true",
        "--formatter-property", "print.key=true", "--formatter-property", "print.value=false"),
        capture_output=True, timeout=PATIENCE, check=False)
    found = re.findall(rb"(?m)^Offset:(\d+)\t(key \d+)$", done.stdout)
    if not found:
        raise Wrong(f"{topic}: the console consumer saw nothing: {done.stderr[-300:]}")
    return [(int(offset), key) for offset, key in found]


def judge(topic, newest, seen):
    """The newest of each key, at its offset; in order; little besides."""
    offsets = [record[0] for record in seen]
    if offsets != sorted(set(offsets)):
        raise Wrong(f"{topic}: offsets come out of order")
    last = {record[1]: record for record in seen}
    for key, (offset, value) in newest.items():
        found = last.get(key)
        if found is None and value is None:
            continue
        if found is None or found[0] != offset or (len(found) > 2 and found[2] != value):
            raise Wrong(f"{topic}: {key} is {found and found[0]} and was put at {offset}")
    return len(seen) - len(last)


def compacted(bootstrap, topic, newest):
    deadline = time.monotonic() + PATIENCE
    while (more := judge(topic, newest, by_librdkafka(bootstrap, topic))) > SPARE:
        if time.monotonic() > deadline:
            raise Wrong(f"{topic}: {more} replaced records are left, {SPARE} may be")
        time.sleep(1)


def dump(data, topic, reference):
    """Apache Kafka's tool reads every file of the partition."""
    directory = os.path.join(data, f"{topic}-0" if reference else os.path.join("topics", topic, "0"))
    names = sorted(name for name in os.listdir(directory) if name.endswith(".log"))
    cleaned = [name for name in names if name.count("-") == 3]
    if not reference and not cleaned:
        raise Wrong(f"{topic}: no file was cleaned: {names}")
    with tempfile.TemporaryDirectory() as scratch:
        files = []
        for number, name in enumerate(names):
            os.mkdir(os.path.join(scratch, str(number)))
            base = re.search(r"\d{20}", name)[0]
            files.append(os.path.join(scratch, str(number), f"{base}.log"))
            shutil.copy(os.path.join(directory, name), files[-1])
        done = subprocess.run(tools.java_command("org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files",
                                                 ",".join(files)), capture_output=True, text=True, timeout=90, check=False)
    batches = re.findall(r"(?m)^(?:\| )?baseOffset: .*isvalid: (\w+)", done.stdout)
    if done.returncode or not batches or set(batches) != {"true"}:
        raise Wrong(f"{topic}: {done.returncode}, {batches.count('false')} of {len(batches)} batches are not valid")
    return f"{len(batches)} batches in {len(names)} files, {len(cleaned)} of them cleaned"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--reference", action="store_true")
    args = parser.parse_args()
    kind = Kafka if args.reference else Broker
    data, log = os.path.join(tools.HOME, "data", "compaction"), os.path.join(tools.HOME, "logs", "compaction.broker.log")
    broker = kind(args.binary, data, log, {"log.cleaner.backoff.ms": "200"})
    broker.forget()
    failed = 0

    def step(name, check):
        nonlocal failed
        try:
            print(f"PASS {name}: {check() or 'well'}", flush=True)
        except (Wrong, subprocess.SubprocessError, OSError) as wrong:
            failed += 1
            print(f"FAIL {name}: {wrong}", flush=True)

    broker.start()
    newest = {}
    settings = {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES), "min.cleanable.dirty.ratio": "0.01",
                "delete.retention.ms": "1000"}
    with rawkafka.Connection(broker.bootstrap) as admin:
        for codec in CODECS:
            rawkafka.create_topic_and_wait(admin, f"compacted-{codec}", 1, settings)
    for codec in CODECS:
        topic = f"compacted-{codec}"
        newest[topic] = write(broker.bootstrap, topic, codec)
    for topic, expected in newest.items():
        step(f"{topic} shrinks", lambda: compacted(broker.bootstrap, topic, expected))
    for round_name in ("before a kill", "after a kill"):
        for topic, expected in newest.items():
            for reader in (by_librdkafka, by_kafka_python, by_console):
                step(f"{topic} {round_name}, {reader.__name__}",
                     lambda: f"{judge(topic, expected, reader(broker.bootstrap, topic))} replaced records are left")
        if round_name == "before a kill":
            broker.kill()
            broker.start()
    step("the stop", broker.stop)
    for topic in newest:
        step(f"{topic}, DumpLogSegments", lambda: dump(data, topic, args.reference))
    broker.forget()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
