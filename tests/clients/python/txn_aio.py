"""aiokafka with transactions, in the oldest versions of their calls. Usage: see txn_common.py."""

import asyncio
import signal
import sys
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aio import partitions
from txn_common import MANY, PARTITIONS, TIMEOUT_MS, aborts, main, show

PATIENCE_SECONDS = 30


async def producer(bootstrap, name):
    client = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name, transaction_timeout_ms=TIMEOUT_MS)
    await client.start()
    return client


async def _transact(bootstrap, topic, name, count):
    client = await producer(bootstrap, name)
    for i in range(int(count)):
        await client.begin_transaction()
        for p in PARTITIONS:
            await client.send_and_wait(topic, f"{name}:{i}:{p}".encode(), partition=p)
        if aborts(i):
            await client.abort_transaction()
            show(aborted=i)
        else:
            await client.commit_transaction()
            show(committed=i)
    await client.stop()


async def _committed(bootstrap, topic, count):
    client = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, isolation_level="read_committed", fetch_max_wait_ms=100)
    wanted = await partitions(bootstrap, topic)
    await client.start()
    client.assign(wanted)
    for where in wanted:
        client.seek(where, 0)
    seen, until = 0, time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        for batch in (await client.getmany(timeout_ms=200)).values():
            for record in batch:
                show(record=[record.partition, record.offset, record.value.decode()])
                seen += 1
        if seen >= int(count):
            until = min(until, time.monotonic() + 1)
    await client.stop()


async def _pipe(bootstrap, source, target, group, name):
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    client = await producer(bootstrap, name)
    reader = AIOKafkaConsumer(source, bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False, isolation_level="read_committed",
                              auto_offset_reset="earliest", session_timeout_ms=3000, heartbeat_interval_ms=500, fetch_max_wait_ms=100)
    await reader.start()
    while not stopped.is_set():
        found = await reader.getmany(timeout_ms=200, max_records=MANY)
        if not found:
            continue
        async with client.transaction():  # what goes wrong within it aborts it, and ends this program
            for where, batch in found.items():
                for record in batch:
                    await client.send(target, record.value, partition=where.partition)
            await client.send_offsets_to_transaction({where: batch[-1].offset + 1 for where, batch in found.items()}, group)
        show(committed=sum(map(len, found.values())))
    await reader.stop()
    await client.stop()


def transact(*args):
    asyncio.run(_transact(*args))


def committed(*args):
    asyncio.run(_committed(*args))


def pipe(*args):
    asyncio.run(_pipe(*args))


if __name__ == "__main__":
    main(sys.modules[__name__])
