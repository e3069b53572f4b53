"""The fault bench in one import: broker, disk, ledger, load, and common errands."""

import contextlib
import os
import time

import pytest

import hotpath
import loop_disk
from broker import Broker, StartFailed, copy_data, free_port  # noqa: F401  (re-exported)
from ledger import Ledger, id_of, payload  # noqa: F401
from load import (ClientProducer, Producer, Watcher, one_batch, produce_batch, produce_many)  # noqa: F401
from loop_disk import LoopDisk  # noqa: F401
from rawkafka import Closed, Connection, Silent, create_topic, delete_records, delete_topic, offsets  # noqa: F401

LONG = os.environ.get("MILLSTREAM_LONG", "") not in ("", "0")
PATIENT = "MILLSTREAM_PATIENT" in os.environ  # set it when the broker under test is Apache Kafka
KAFKA_STORAGE_ERROR = 56

needs_loop_disk = pytest.mark.skipif(loop_disk.missing() is not None, reason=f"left out: {loop_disk.missing()}")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="left out: needs root")


def budget(short, long):
    """Seconds or rounds: `short` by default, `long` under MILLSTREAM_LONG=1."""
    return long if LONG else short


def topic_made(connection, name, partitions=1, configs=None):
    """Creates a topic and insists on it."""
    code = create_topic(connection, name, partitions, configs)
    assert code == 0, f"CreateTopics {name}: error {code}"
    if PATIENT:  # Apache Kafka answers before its leaders are ready
        for partition in range(partitions):
            until(f"{name}-{partition} has a leader", lambda p=partition: offsets(connection, name, p)[0] == 0)
    return name


def read_partition(connection, topic, partition, start=None, check=True):
    """[(offset, id)] from `start` (default: the log start) to the high watermark; batches in `Batch` form are checked.

    Every batch's CRC and order are checked, also that leader epochs never fall.
    """
    records, epoch = [], -1
    for batch in read_batches(connection, topic, partition, start):
        assert batch.leader_epoch >= epoch, (
            f"{topic}-{partition} offset {batch.base_offset}: leader epoch {batch.leader_epoch} behind {epoch}")
        epoch = batch.leader_epoch
        if check:
            records += [(batch.base_offset + delta, id_of(value)) for delta, value in enumerate(batch.values())]
        else:
            records += [(offset, None) for offset in range(batch.base_offset, batch.last_offset + 1)]
    return records


def read_batches(connection, topic, partition, start=None, max_bytes=4 << 20):
    """The batches of a partition, up to the high watermark at each step."""
    code, end = offsets(connection, topic, partition)
    assert code == 0, f"ListOffsets of {topic}-{partition}: error {code}"
    at = offsets(connection, topic, partition, -2)[1] if start is None else start
    while at < end:
        got = hotpath.fetch(connection, topic, partition, at, max_bytes=max_bytes, wait_ms=200)
        assert got.error == 0, f"Fetch of {topic}-{partition} at {at}: error {got.error}"
        before = at
        for batch in hotpath.split_batches(got.records):
            assert batch.base_offset <= at if at == before else batch.base_offset == at, (
                f"{topic}-{partition}: asked for {at}, got a batch at {batch.base_offset}")
            at = batch.last_offset + 1
            yield batch
        assert at > before, f"Fetch of {topic}-{partition} at {at} gave nothing below the log end {end}"


def read_topic(address, topic, partitions, timeout=30.0):
    """{partition: [(offset, id)]} of a whole topic."""
    wanted = range(partitions) if isinstance(partitions, int) else partitions
    with Connection(address, timeout=timeout, client_id="judge") as connection:
        return {p: read_partition(connection, topic, p) for p in wanted}


def log_start(connection, topic, partition):
    return log_end(connection, topic, partition, -2)


def log_end(connection, topic, partition, timestamp=-1):
    code, offset = offsets(connection, topic, partition, timestamp)
    assert code == 0, f"ListOffsets of {topic}-{partition}: error {code}"
    return offset


@contextlib.contextmanager
def load(*threads):
    """Runs threads; on an exception they are abandoned, so that a failed test does not leave load behind."""
    for thread in threads:
        thread.start()
    try:
        yield threads
    except BaseException:
        for thread in threads:
            thread.stopping.set()
            getattr(thread, "give_up", thread.stopping).set()
        raise


def until(what, condition, timeout=20.0, pause=0.05):
    """Waits until `condition()` is true and returns its value."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"{what}: not within {timeout} s"
        time.sleep(pause)


def topic_dir(data_dir, topic, partition=None):
    """Where a topic (or one of its partitions) keeps its files."""
    folder = os.path.join(str(data_dir), "topics", topic)
    return folder if partition is None else os.path.join(folder, str(partition))


def data_files(data_dir, topic=None, suffix=None):
    """Paths below a data directory (or one topic's), sorted; `suffix` like ".log"."""
    root = topic_dir(data_dir, topic) if topic else str(data_dir)
    found = []
    for folder, _, names in os.walk(root):
        found += [os.path.join(folder, name) for name in names if suffix is None or name.endswith(suffix)]
    return sorted(found)


def fetch_from(connection, topic, partition, offset, **how):
    """One Fetch answer (see `hotpath.Fetched`)."""
    return hotpath.fetch(connection, topic, partition, offset, **how)
