"""aiokafka 0.14, which speaks the oldest versions still served. Usage: see common.py."""

import asyncio
import json
import signal
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.client import AIOKafkaClient
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from common import Digest, lines, main, records, show, show_record


def producer(bootstrap, codec):
    return AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec,
                            linger_ms=20, max_batch_size=262_144, max_request_size=1_000_000, enable_idempotence=True)


async def _produce(bootstrap, topic, codec, path):
    client, sent = producer(bootstrap, codec), []
    await client.start()
    try:
        for partition, timestamp, key, value, headers in records(path):
            sent.append((partition, await client.send(topic, value=value, key=key, headers=headers,
                                                      partition=partition, timestamp_ms=timestamp)))
        await client.flush()
        for partition, future in sent:
            print(json.dumps({"p": partition, "o": (await future).offset}))
    finally:
        await client.stop()


async def _load(bootstrap, topic, codec, path):
    client, digest, sent = producer(bootstrap, codec), Digest(), []
    await client.start()
    try:
        for partition, line in lines(path):
            sent.append(await client.send(topic, value=line, partition=partition))
            digest.add(partition, line)
            if len(sent) == 100_000:
                await asyncio.gather(*sent)
                sent.clear()
        await asyncio.gather(*sent)
    finally:
        await client.stop()
    return digest


async def partitions(bootstrap, topic):
    client = AIOKafkaClient(bootstrap_servers=bootstrap)
    await client.bootstrap()
    try:
        cluster = await client.fetch_all_metadata()
        return [TopicPartition(topic, p) for p in sorted(cluster.partitions_for_topic(topic))]
    finally:
        await client.close()


async def _read(bootstrap, topic, take):
    """Gives every record of a topic to `take`, to the ends seen at the start."""
    client = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, auto_offset_reset="none",
                              fetch_max_wait_ms=100, check_crcs=True)
    wanted = await partitions(bootstrap, topic)
    await client.start()
    try:
        client.assign(wanted)
        begins, ends = await client.beginning_offsets(wanted), await client.end_offsets(wanted)
        for where in wanted:
            client.seek(where, begins[where])
        left = {where: end for where, end in ends.items() if end > begins[where]}
        while left:
            found = await client.getmany(timeout_ms=20_000, max_records=5000)
            if not any(found.values()):
                raise TimeoutError(f"nothing came for 20 s, still waiting for {left}")
            for where, batch in found.items():
                for record in batch:
                    take(record)
                if batch and batch[-1].offset + 1 >= left.get(where, 1 << 62):
                    del left[where]
    finally:
        await client.stop()


def produce(bootstrap, topic, codec, path):
    asyncio.run(_produce(bootstrap, topic, codec, path))


def load(bootstrap, topic, codec, path):
    return asyncio.run(_load(bootstrap, topic, codec, path))


def consume(bootstrap, topic):
    asyncio.run(_read(bootstrap, topic, lambda r: show_record(r.partition, r.offset, r.timestamp, r.key, r.value, r.headers)))


def drain(bootstrap, topic):
    digest = Digest()
    asyncio.run(_read(bootstrap, topic, lambda record: digest.add(record.partition, record.value)))
    return digest


class Told(ConsumerRebalanceListener):
    """Shows what comes and goes, never between a batch and its commit."""

    def __init__(self, busy):
        self.busy = busy

    async def on_partitions_assigned(self, assigned):
        show(assigned=sorted(where.partition for where in assigned))

    async def on_partitions_revoked(self, revoked):
        async with self.busy:
            show(revoked=sorted(where.partition for where in revoked))


async def _group(bootstrap, topic, name):
    stopped, busy = asyncio.Event(), asyncio.Lock()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    client = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=name, enable_auto_commit=False, auto_offset_reset="earliest",
                              partition_assignment_strategy=[RangePartitionAssignor], session_timeout_ms=6000,
                              heartbeat_interval_ms=500, max_poll_interval_ms=10_000, fetch_max_wait_ms=200)
    await client.start()
    client.subscribe([topic], listener=Told(busy))
    while not stopped.is_set():
        found = await client.getmany(timeout_ms=200)  # waits for the end of a rebalance, so not under the lock
        if not found:
            continue
        async with busy:
            for where, batch in found.items():
                for record in batch:
                    show(record=[where.partition, record.offset])
            ends = {where: batch[-1].offset + 1 for where, batch in found.items()}
            await client.commit(ends)
            show(committed={where.partition: end for where, end in ends.items()})
    await client.stop()


def group(bootstrap, topic, name):
    asyncio.run(_group(bootstrap, topic, name))


if __name__ == "__main__":
    main(sys.modules[__name__])
