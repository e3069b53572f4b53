"""confluent-kafka (the newest librdkafka). Usage: see common.py."""

import json
import sys

from common import Digest, Stopped, lines, main, records, show, show_record
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition


def producer(bootstrap, codec, failures):
    def failed(error):
        failures.append(str(error))
    return Producer({
        "bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True, "linger.ms": 20,
        "batch.size": 500_000, "queue.buffering.max.messages": 400_000, "queue.buffering.max.kbytes": 400_000,
        "message.max.bytes": 1_000_000, "message.timeout.ms": 60_000, "error_cb": failed})


def produce(bootstrap, topic, codec, path):
    failures, wanted = [], list(records(path))
    client = producer(bootstrap, codec, failures)
    offsets = [None] * len(wanted)

    def delivered(index):
        def callback(error, message):
            if error:
                failures.append(str(error))
            else:
                offsets[index] = message.offset()
        return callback

    for i, (partition, timestamp, key, value, headers) in enumerate(wanted):
        client.produce(topic, value=value, key=key, partition=partition, timestamp=timestamp, headers=headers,
                       on_delivery=delivered(i))
        client.poll(0)
    left = client.flush(60)
    if failures or left:
        raise KafkaException(f"{left} undelivered, {failures[:3]}")
    for (partition, *_), offset in zip(wanted, offsets):
        print(json.dumps({"p": partition, "o": offset}))


def load(bootstrap, topic, codec, path):
    failures, digest = [], Digest()
    client = producer(bootstrap, codec, failures)

    def delivered(error, _message):
        if error:
            failures.append(str(error))

    for partition, line in lines(path):
        while True:
            try:
                client.produce(topic, value=line, partition=partition, on_delivery=delivered)
                break
            except BufferError:
                client.poll(0.1)
        digest.add(partition, line)
        if digest.count % 1000 == 0:
            client.poll(0)
    left = client.flush(120)
    if failures or left:
        raise KafkaException(f"{left} undelivered, {failures[:3]}")
    return digest


def messages(bootstrap, topic):
    """All messages of a topic, partition by partition in step, to the ends seen at the start."""
    client = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False,
                       "auto.offset.reset": "error", "fetch.wait.max.ms": 100, "check.crcs": True})
    try:
        found = client.list_topics(topic, timeout=20).topics[topic]
        if found.error:
            raise KafkaException(found.error)
        ends = {}
        for partition in found.partitions:
            low, high = client.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)
            if high > low:
                ends[partition] = (low, high)
        client.assign([TopicPartition(topic, p, low) for p, (low, _) in ends.items()])
        left, idle = {p: high for p, (_, high) in ends.items()}, 0
        while left:
            batch = client.consume(10_000, timeout=0.2)
            idle = 0 if batch else idle + 1
            if idle == 100:
                raise KafkaException(f"nothing came for 20 s, still waiting for {left}")
            for message in batch:
                if message.error():
                    raise KafkaException(message.error())
                yield message
                if message.offset() + 1 >= left.get(message.partition(), 1 << 62):
                    del left[message.partition()]
    finally:
        client.close()


def consume(bootstrap, topic):
    for m in messages(bootstrap, topic):
        show_record(m.partition(), m.offset(), m.timestamp()[1], m.key(), m.value(), m.headers() or [])


def drain(bootstrap, topic):
    digest = Digest()
    for message in messages(bootstrap, topic):
        digest.add(message.partition(), message.value())
    return digest


def group(bootstrap, topic, name, instance="-", protocol="classic"):
    stopped = Stopped()
    how = {"partition.assignment.strategy": "range", "session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
    if protocol == "cooperative":
        how["partition.assignment.strategy"] = "cooperative-sticky"
    if protocol == "consumer":
        how = {"group.protocol": protocol}
    if instance != "-":
        how["group.instance.id"] = instance
    client = Consumer({"bootstrap.servers": bootstrap, "group.id": name, "enable.auto.commit": False, "auto.offset.reset": "earliest",
                       "max.poll.interval.ms": 10_000, "fetch.wait.max.ms": 200, **how})
    ends = {}

    def commit():
        if ends:
            client.commit(offsets=[TopicPartition(topic, p, o) for p, o in ends.items()], asynchronous=False)
            show(committed=ends)
            ends.clear()

    def revoked(_, parts):
        commit()
        show(revoked=[p.partition for p in parts])

    client.subscribe([topic], on_assign=lambda _, parts: show(assigned=[p.partition for p in parts]), on_revoke=revoked)
    while not stopped:
        for message in client.consume(500, timeout=0.2):
            if message.error():
                # Who waits in a join while the group changes its protocol is told so, and joins again.
                if message.error().code() == KafkaError.REBALANCE_IN_PROGRESS:
                    continue
                raise KafkaException(message.error())
            show(record=[message.partition(), message.offset()])
            ends[message.partition()] = message.offset() + 1
        try:
            commit()
        except KafkaException as error:
            # Reading goes on during a cooperative rebalance: it is committed in the next round, or before a partition goes.
            if protocol != "cooperative" or error.args[0].code() not in (KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS):
                raise
    client.close()


if __name__ == "__main__":
    main(sys.modules[__name__])
