"""The power goes at random moments of a steady load, again and again: the ledger holds.

The whole data directory lies on a loop disk; un-synced bytes really vanish.
Each load shape drives another path: small batches go through the commit
journal, large ones straight to the segments, small segments roll all the time.
"""

import random
import time

import pytest

from bench import Ledger, budget, load, needs_loop_disk, read_topic, topic_made
from test_kill_loop import READY_SECONDS_MAX, crowd, finish

pytestmark = needs_loop_disk
SEED = 13


@pytest.mark.parametrize("shape, partitions, config, rate", [
    ("through the journal", 30, {}, 80),
    ("rolling segments", 6, {"segment.bytes": "262144"}, 60),
    ("one partition", 1, {"segment.bytes": "1048576"}, 60),
], ids=["through the journal", "rolling segments", "one partition"])
def test_ledger_holds_over_power_cuts_at_random_moments(shape, partitions, config, rate, make_disk, make_broker):
    ledger, chance, topic = Ledger(), random.Random(f"{SEED}-{shape}"), "cut"
    disk = make_disk(8192)
    broker = make_broker(disk.data_dir)
    with broker.connect() as connection:
        topic_made(connection, topic, partitions, config)
    threads = crowd(ledger, broker.address, topic, partitions, SEED, rate)
    end = time.monotonic() + budget(22, 600)
    number = 0
    with load(*threads):
        while time.monotonic() < end:
            time.sleep(chance.choice((0.05, 0.3, 0.8, 1.5)) * chance.uniform(0.5, 1.5))
            disk.cut_power()
            if chance.random() < 0.5:
                time.sleep(chance.uniform(0, 0.1))  # the broker meets the failing disk before it dies
            broker.kill9()
            disk.remount()
            broker.start(timeout=READY_SECONDS_MAX)
            number += 1
            for thread in threads:
                assert thread.fatal is None, f"seed {SEED}, power cut {number}: {thread.name}: {thread.fatal}"
        finish(threads, ledger)
    assert number >= 5, f"only {number} power cuts within the time budget"
    ledger.verify(read_topic(broker.address, topic, partitions))
