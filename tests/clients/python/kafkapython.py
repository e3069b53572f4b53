"""kafka-python 3. Usage: see common.py."""

import json
import sys

from common import Digest, Stopped, lines, main, records, show, show_record
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import CommitFailedError, IllegalGenerationError, RebalanceInProgressError


def producer(bootstrap, codec):
    return KafkaProducer(bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec,
                         linger_ms=20, batch_size=262_144, max_request_size=1_000_000,
                         enable_idempotence=True)


def produce(bootstrap, topic, codec, path):
    client = producer(bootstrap, codec)
    sent = [(partition, client.send(topic, value=value, key=key, headers=headers, partition=partition,
                                    timestamp_ms=timestamp))
            for partition, timestamp, key, value, headers in records(path)]
    client.flush(timeout=60)
    for partition, future in sent:
        print(json.dumps({"p": partition, "o": future.get(timeout=30).offset}))
    client.close()


def load(bootstrap, topic, codec, path):
    client, digest, failures = producer(bootstrap, codec), Digest(), []
    for partition, line in lines(path):
        client.send(topic, value=line, partition=partition).add_errback(failures.append)
        digest.add(partition, line)
    client.flush(timeout=180)
    client.close()
    if failures:
        raise failures[0]
    return digest


def polled(bootstrap, topic):
    """All records of a topic, by assignment, to the ends seen at the start."""
    client = KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="none",
                           fetch_max_wait_ms=100, max_poll_records=5000, check_crcs=True,
                           max_partition_fetch_bytes=1 << 20, fetch_max_bytes=16 << 20)
    try:
        wanted = [TopicPartition(topic, p) for p in sorted(client.partitions_for_topic(topic))]
        client.assign(wanted)
        begins, ends = client.beginning_offsets(wanted), client.end_offsets(wanted)
        for where in wanted:
            client.seek(where, begins[where])
        left = {where: end for where, end in ends.items() if end > begins[where]}
        while left:
            found = client.poll(timeout_ms=20_000)
            if not found:
                raise TimeoutError(f"nothing came for 20 s, still waiting for {left}")
            for where, batch in found.items():
                yield from batch
                if batch[-1].offset + 1 >= left.get(where, 1 << 62):
                    del left[where]
    finally:
        client.close()


def consume(bootstrap, topic):
    for r in polled(bootstrap, topic):
        show_record(r.partition, r.offset, r.timestamp, r.key, r.value, r.headers)


def drain(bootstrap, topic):
    digest = Digest()
    for record in polled(bootstrap, topic):
        digest.add(record.partition, record.value)
    return digest


class Told(ConsumerRebalanceListener):
    """Shows what comes and goes, and commits before it goes."""

    def __init__(self, client):
        self.client, self.ends = client, {}

    def commit(self):
        if self.ends:
            self.client.commit({where: OffsetAndMetadata(end, "", -1) for where, end in self.ends.items()})
            show(committed={where.partition: end for where, end in self.ends.items()})
            self.ends.clear()

    def on_partitions_assigned(self, assigned):
        show(assigned=sorted(where.partition for where in assigned))

    def on_partitions_revoked(self, revoked):
        self.commit()
        show(revoked=sorted(where.partition for where in revoked))


def group(bootstrap, topic, name, instance="-", protocol="classic"):
    stopped = Stopped()
    assignor = CooperativeStickyAssignor if protocol == "cooperative" else RangePartitionAssignor
    client = KafkaConsumer(bootstrap_servers=bootstrap, group_id=name, enable_auto_commit=False, auto_offset_reset="earliest",
                           partition_assignment_strategy=[assignor], session_timeout_ms=6000,
                           heartbeat_interval_ms=500, max_poll_interval_ms=10_000, fetch_max_wait_ms=200,
                           **({"group_instance_id": instance} if instance != "-" else {}))
    told = Told(client)
    client.subscribe([topic], listener=told)
    while not stopped:
        found = client.poll(timeout_ms=200)
        for where, batch in found.items():
            for record in batch:
                show(record=[where.partition, record.offset])
        told.ends.update({where: batch[-1].offset + 1 for where, batch in found.items()})
        try:
            told.commit()
        except (CommitFailedError, IllegalGenerationError, RebalanceInProgressError):
            if protocol != "cooperative":
                raise  # there, reading goes on during a rebalance: it is committed after the next poll, or in it
    client.close()


if __name__ == "__main__":
    main(sys.modules[__name__])
