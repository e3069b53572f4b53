"""F35: metrics tell the truth about many groups, and their readers cost the clients little.

300 groups, each with offsets in 2,000 partitions; 20 scrapers at once and one
that does not read. Open transactions, access rules and quotas have no tests
here, because the broker does not offer them.
"""

import socket
import threading
import time

from admin import Admin
from bench import (budget, delete_records, delete_topic, log_end, produce_batch, topic_made, until)
from hotpath import build_batch
from rawgroups import commit_alone, wait_for_groups

TOPIC, PARTITIONS, GROUPS = "wide", 2000, 300
SCRAPE_SECONDS_MAX = 2.0  # of 600,000 offsets, from Python beside others; the answer itself is much quicker
PRODUCE_SECONDS_MAX = 0.5
DELETE_GROUPS = 42


def _group(number):
    return f"group-{number:03}"


def _committed(number, partition):
    """Every kind: behind, at the end, and ahead of it."""
    return (number + partition) % 5


def _commit_all(connection, groups):
    for number in groups:
        offsets = {partition: _committed(number, partition) for partition in range(PARTITIONS)}
        errors = set(commit_alone(connection, _group(number), TOPIC, offsets).values())
        assert errors == {0}, f"commit of {_group(number)}: errors {errors}"


def _lag(number, ends):
    return sum(max(0, ends[p] - _committed(number, p)) for p in range(PARTITIONS))


class Loop(threading.Thread):
    """Does one thing again and again, and keeps how long it took."""

    def __init__(self, once, pause=0.0):
        super().__init__(daemon=True)
        self.once, self.pause, self.seconds, self.over, self.error = once, pause, [], threading.Event(), None
        self.start()

    def run(self):
        try:
            while not self.over.is_set():
                began = time.monotonic()
                self.once()
                self.seconds.append(time.monotonic() - began)
                self.over.wait(self.pause)
        except Exception as error:  # pylint: disable=broad-except  (told by `finish`)
            self.error = error

    def finish(self):
        self.over.set()
        self.join(60)
        assert self.error is None, self.error
        assert self.seconds, "nothing was done in all that time"
        return sorted(self.seconds)


def test_three_hundred_groups_are_told_truly_and_scrapers_hold_up_nobody(make_broker):
    admin = Admin()
    broker = make_broker(settings=admin.settings)
    with broker.connect(timeout=60) as connection, broker.connect(timeout=60) as probe:
        topic_made(connection, TOPIC, PARTITIONS)
        topic_made(connection, "probe", 4)
        for partition in range(0, PARTITIONS, 100):
            assert produce_batch(connection, TOPIC, partition, build_batch([b"x"] * 3))[0] == 0
        ends = {p: 3 if p % 100 == 0 else 0 for p in range(PARTITIONS)}
        wait_for_groups(connection, TOPIC)
        _commit_all(connection, range(GROUPS))

        def produce():
            assert produce_batch(probe, "probe", 0, build_batch([b"x"]))[0] == 0

        alone = Loop(produce, 0.002)
        time.sleep(budget(3, 20))
        alone = alone.finish()
        rss = broker.rss_bytes()
        slow = socket.create_connection(("127.0.0.1", admin.port))
        slow.sendall(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n")
        scrapers = [Loop(lambda: admin.get("/metrics"), 1.0) for _ in range(20)]
        healths = Loop(admin.health, 0.2)
        beside = Loop(produce, 0.002)
        time.sleep(budget(8, 60))
        beside = beside.finish()
        scrapes = sorted(seconds for scraper in scrapers for seconds in scraper.finish())
        healths = healths.finish()
        slow.close()
        for number in (0, 7, GROUPS - 1):
            wanted = float(_lag(number, ends))
            until(f"the lag of {_group(number)}", lambda n=number, w=wanted: admin.sum(
                "millstream_group_lag_records", f'group="{_group(n)}",isolation="read_committed"') == w)
        status, text = admin.get("/metrics")
        assert status == 200 and "millstream_group_partition_lag_records{" not in text, "600,000 series of single partitions"
        assert text.count("millstream_group_topic_lag_records{") == 2 * (GROUPS + 1)  # and "ready"
        took = admin.sum("millstream_observation_seconds")
    tell = lambda all_: f"median {all_[len(all_) // 2] * 1e3:.1f} ms, p99 {all_[len(all_) * 99 // 100] * 1e3:.1f} ms, max {all_[-1] * 1e3:.1f} ms"  # noqa: E731
    print(f"\nproduce alone:      {tell(alone)}\nproduce and scrape: {tell(beside)}\nscrapes:            {tell(scrapes)}"
          f"\nhealth:             {tell(healths)}\ncores took {took * 1e3:.1f} ms, text of {len(text) >> 10} KiB")
    assert beside[len(beside) * 99 // 100] < PRODUCE_SECONDS_MAX, f"produce beside scrapers: {tell(beside)}"
    assert scrapes[len(scrapes) * 95 // 100] < SCRAPE_SECONDS_MAX, f"scrapes: {tell(scrapes)}"
    grown = broker.rss_bytes() - rss
    assert grown < 200 << 20, f"memory grew by {grown >> 20} MiB under scrapes"


def test_lag_counts_from_the_commit_also_below_the_log_start_and_survives_restarts(make_broker):
    admin = Admin()
    broker = make_broker(settings={**admin.settings, "cores": "1"})
    lag = lambda group: admin.sum("millstream_group_partition_lag_records", f'group="{group}",topic="t",partition="0",isolation="read_uncommitted"')  # noqa: E731

    def told(group):
        return f'group="{group}"' in admin.get("/metrics")[1]

    with broker.connect(timeout=60) as connection:
        topic_made(connection, "t", 1)
        wait_for_groups(connection, "t")
        produce_batch(connection, "t", 0, build_batch([b"x"] * 10))
        for group, offset in (("start", 0), ("middle", 6), ("end", 10), ("ahead", 99)):
            assert commit_alone(connection, group, "t", {0: offset}) == {0: 0}
        assert delete_records(connection, "t", 0, 8) == (0, 8)
        assert log_end(connection, "t", 0) == 10
    for way in (None, broker.kill9, broker.stop):
        if way:
            way()
            broker.start()
        until("all groups are told", lambda: all(told(group) for group in ("start", "middle", "end", "ahead")))
        assert [lag(group) for group in ("start", "middle", "end", "ahead")] == [10, 4, 0, 0], way
    with broker.connect(timeout=60) as connection:
        connection.call(DELETE_GROUPS, 1, groups_names=["middle"])
        until("the deleted group is gone", lambda: not told("middle"))
        assert lag("start") == 10
        assert delete_topic(connection, "t") == 0
        until("the deleted topic is gone", lambda: 'topic="t"' not in admin.get("/metrics")[1])
