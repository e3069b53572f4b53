"""confluent-kafka (librdkafka) with transactions. Usage: see txn_common.py."""

import signal
import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from txn_common import MANY, PARTITIONS, TIMEOUT_MS, Stopped, aborts, main, show

PATIENCE_SECONDS, QUIET_SECONDS = 30, 35


# Of librdkafka 2.16: when its only broker was away it looks for brokers anew, closes the handle of the one it knew, and
# keeps it as the coordinator all the same ("Handle is terminating" a thousand times a second), so that calls never end.
STAYS = {"metadata.recovery.strategy": "none"}


def producer(bootstrap, name):
    client = Producer({**STAYS, "bootstrap.servers": bootstrap, "transactional.id": name, "transaction.timeout.ms": TIMEOUT_MS, "linger.ms": 0})
    client.init_transactions(PATIENCE_SECONDS)
    return client


def transact(bootstrap, topic, name, count):
    client = producer(bootstrap, name)
    for i in range(int(count)):
        client.begin_transaction()
        for p in PARTITIONS:
            client.produce(topic, value=f"{name}:{i}:{p}".encode(), partition=p)
        if client.flush(PATIENCE_SECONDS):
            raise TimeoutError("undelivered records")
        if aborts(i):
            client.abort_transaction(PATIENCE_SECONDS)
            show(aborted=i)
        else:
            client.commit_transaction(PATIENCE_SECONDS)
            show(committed=i)


def committed(bootstrap, topic, count):
    client = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "isolation.level": "read_committed",
                       "auto.offset.reset": "earliest", "fetch.wait.max.ms": 100})
    found = client.list_topics(topic, timeout=20).topics[topic]
    client.assign([TopicPartition(topic, p, 0) for p in found.partitions])
    seen, until = 0, time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        for message in client.consume(1000, timeout=0.2):
            if message.error():
                raise KafkaException(message.error())
            show(record=[message.partition(), message.offset(), message.value().decode()])
            seen += 1
            if seen == int(count):
                until = time.monotonic() + 1
    client.close()


def pipe(bootstrap, source, target, group, name):
    stopped = Stopped()
    client = producer(bootstrap, name)
    reader = Consumer({**STAYS, "bootstrap.servers": bootstrap, "group.id": group, "group.instance.id": name, "enable.auto.commit": False,
                       "isolation.level": "read_committed", "auto.offset.reset": "earliest", "session.timeout.ms": 6000,
                       "heartbeat.interval.ms": 500, "fetch.wait.max.ms": 100, "partition.assignment.strategy": "range"})
    reader.subscribe([source])
    signal.alarm(QUIET_SECONDS)  # ends the program, whatever call it stands in
    while not stopped:
        found = reader.consume(MANY, timeout=0.2)
        # What concerns connections passes; the client connects again by itself.
        wrong = [m.error() for m in found if m.error() and m.error().fatal()]
        if wrong:
            raise KafkaException(wrong[0])
        records = [m for m in found if not m.error()]
        if not records:
            continue
        try:
            client.begin_transaction()
            for message in records:
                client.produce(target, value=message.value(), partition=message.partition())
            ends = {m.partition(): m.offset() + 1 for m in records}
            client.send_offsets_to_transaction([TopicPartition(source, p, end) for p, end in ends.items()], reader.consumer_group_metadata(),
                                               PATIENCE_SECONDS)
            client.commit_transaction(PATIENCE_SECONDS)
            show(committed=len(records))
            signal.alarm(QUIET_SECONDS)
        except KafkaException as error:
            if error.args[0].code() == KafkaError._STATE or not error.args[0].txn_requires_abort():
                raise
            client.abort_transaction(PATIENCE_SECONDS)
            back(reader)
    reader.close()


def back(reader):
    """To what is committed."""
    for where in reader.committed(reader.assignment(), timeout=PATIENCE_SECONDS):
        where.offset = max(where.offset, 0)
        reader.seek(where)


if __name__ == "__main__":
    main(sys.modules[__name__])
