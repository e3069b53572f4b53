"""Deleted records stay deleted, and nothing behind them goes, whatever ends the broker.

Deletions run at once with producers over small segments; each asker notes what
it asked for and what got an ok. Power cuts and kills come at random. After each
the log starts where an ok said at least, and at most where somebody asked for;
all that stands behind is there, and what lies below is refused.
"""

import random
import threading
import time

import pytest
from bench import (Closed, Connection, Ledger, Producer, Silent, budget, delete_records, load, log_end, log_start,
                   needs_loop_disk, read_partition, topic_made)
from hotpath import fetch

pytestmark = needs_loop_disk
TOPIC, PARTITIONS = "trimmed", 3
OFFSET_OUT_OF_RANGE = 1
SEED = 21


class Deleter(threading.Thread):
    """Deletes records up to offsets between the log start and the end."""

    def __init__(self, address):
        super().__init__(name="deleter", daemon=True)
        self.address, self.random = address, random.Random(SEED)
        self.stopping = threading.Event()
        self.asked, self.acked = [0] * PARTITIONS, [0] * PARTITIONS
        self.done, self.wrong = 0, []

    def run(self):
        while not self.stopping.is_set():
            try:
                with Connection(self.address, timeout=15, client_id="deleter") as connection:
                    while not self.stopping.wait(self.random.uniform(0, 0.1)):
                        self.step(connection)
            except (OSError, Closed, Silent, AssertionError):
                self.stopping.wait(0.02)

    def step(self, connection):
        partition = self.random.randrange(PARTITIONS)
        end = log_end(connection, TOPIC, partition)
        start = self.acked[partition]
        before = self.random.choice((-1, start, start + (end - start) // 2, end - (end - start) // 10))
        # Of -1 the broker knows the end, and that rises meanwhile.
        self.asked[partition] = max(self.asked[partition], before if before >= 0 else end + 1_000_000)
        code, low = delete_records(connection, TOPIC, partition, before)
        if code == 0:
            if low < max(before, start):
                self.wrong.append(f"deleted before {before} from {start}: low watermark {low}")
            self.acked[partition] = max(self.acked[partition], low)
            self.asked[partition] = self.acked[partition]
            self.done += 1


@pytest.mark.parametrize("how", ["power", "kill"])
def test_deleted_records_stay_deleted_and_the_others_stay(how, make_disk, make_broker):
    disk, ledger, chance = make_disk(4096), Ledger(), random.Random(f"{SEED}-{how}")
    broker = make_broker(disk.data_dir)
    with broker.connect() as connection:
        topic_made(connection, TOPIC, PARTITIONS, {"segment.bytes": "1048576"})
    producers = [Producer(ledger, broker.address, TOPIC, PARTITIONS, "large", records=100, value_bytes=1000, rate=30, seed=SEED),
                 Producer(ledger, broker.address, TOPIC, PARTITIONS, "idem", rate=100, idempotent=True, seed=SEED)]
    deleter, cuts = Deleter(broker.address), 0
    end = time.monotonic() + budget(12, 300)
    with load(*producers, deleter):
        while time.monotonic() < end:
            time.sleep(chance.uniform(0.2, 1.5))
            if how == "power":
                disk.cut_power()
            broker.kill9()
            asked, acked = list(deleter.asked), list(deleter.acked)
            if how == "power":
                disk.remount()
            broker.start()
            cuts += 1
            with broker.connect() as connection:
                for partition in range(PARTITIONS):
                    start = log_start(connection, TOPIC, partition)
                    assert acked[partition] <= start, f"{how} {cuts}: an ok was for {acked[partition]}, the log starts at {start}"
                    assert start <= max(asked[partition], deleter.asked[partition]), f"{how} {cuts}: nobody asked for {start}"
        deleter.stopping.set()
        for thread in producers:
            thread.finish()
    deleter.join(20)
    assert deleter.done > 20 and not deleter.wrong, f"{deleter.done} deletions: {deleter.wrong[:5]}"
    with broker.connect() as connection:
        read, starts = {}, {}
        for partition in range(PARTITIONS):
            starts[partition] = log_start(connection, TOPIC, partition)
            read[partition] = read_partition(connection, TOPIC, partition)
            assert starts[partition] > 0
            assert fetch(connection, TOPIC, partition, starts[partition] - 1).error == OFFSET_OUT_OF_RANGE
    ledger.verify(read, starts)
