"""F30: two thousand partitions idle for nothing, commit together, start soon.

Flushes are counted by the block layer of a loop disk of our own. Latencies
measured from Python on a shared machine get wide limits; `bench/` measures.
"""

import os
import random
import threading
import time

import hotpath
from bench import (Ledger, Producer, budget, create_topic, delete_topic, load, log_end, needs_loop_disk, one_batch,
                   read_topic, topic_made, until)
from ledger import payload

TOPIC, PARTITIONS = "thin", 2000


def _filled(broker, ledger, rounds=1):
    """The topic, with one record a round in each partition."""
    with broker.connect(timeout=60) as connection:
        topic_made(connection, TOPIC, PARTITIONS)
        for _ in range(rounds):
            _to_each(connection, ledger)


def _directories(broker):
    """Topics that have a directory; there is none before the first write behind."""
    path = os.path.join(broker.data_dir, "topics")
    return os.listdir(path) if os.path.isdir(path) else []


def _to_each(connection, ledger):
    parts = []
    for partition in range(PARTITIONS):
        (i,) = ledger.ids(1, partition)
        parts.append((partition, i))
    connection.correlation += 1
    connection.send(hotpath.produce_frame(connection.correlation, TOPIC, [
        (p, hotpath.build_batch([payload(i, 100)])) for p, i in parts]))
    _, answers = hotpath.produce_answer(connection.receive())
    for partition, i in parts:
        code, base, message = answers[partition]
        assert code == 0, f"partition {partition}: error {code} ({message})"
        ledger.ack([i], partition, base)


@needs_loop_disk
def test_idle_partitions_cost_no_cpu_and_no_disk_write(make_disk, make_broker):
    disk, ledger = make_disk(4096), Ledger()
    broker = make_broker(disk.data_dir)
    _filled(broker, ledger)
    time.sleep(3)  # what was begun may end
    os.sync()
    cpu, disk_before, began = broker.cpu_seconds(), disk.counters(), time.monotonic()
    time.sleep(budget(12, 120))
    took = time.monotonic() - began
    busy = (broker.cpu_seconds() - cpu) / took
    written = broker.bytes_written(), disk.counters()
    assert busy < 0.03, f"{busy * 100:.1f} % of a core while idle with {PARTITIONS} partitions"
    time.sleep(2)
    assert broker.bytes_written() == written[0], "the idle broker writes"
    grown = {name: written[1][name] - disk_before[name] for name in disk_before}
    assert grown["flushes"] <= 2, f"an idle disk saw {grown}"


@needs_loop_disk
def test_flushes_follow_the_commits_not_the_partitions(make_disk, make_broker):
    """Small batches to random partitions from many producers: one flush serves many partitions."""
    disk, ledger = make_disk(4096), Ledger()
    broker = make_broker(disk.data_dir)
    _filled(broker, ledger)
    producers = [Producer(ledger, broker.address, TOPIC, PARTITIONS, f"p{n}", records=1, window=16, rate=budget(100, 200))
                 for n in range(10)]
    with load(*producers):
        time.sleep(1)
        before, acked = disk.counters(), sum(len(p.acks_at) for p in producers)
        time.sleep(6)
        flushes = disk.counters()["flushes"] - before["flushes"]
        requests = sum(len(p.acks_at) for p in producers) - acked
        for producer in producers:
            producer.finish()
    took = sorted(answered - sent for p in producers for sent, answered in p.acks_at)
    p99 = took[len(took) * 99 // 100]
    print(f"{requests} requests, {flushes} flushes, p99 {p99 * 1000:.0f} ms")
    assert requests > 1500, f"hardly any load: {requests} requests in 6 s"
    assert flushes < requests * 1.5, f"{flushes} flushes for {requests} requests"
    assert p99 < 0.5, f"p99 {p99 * 1000:.0f} ms at {requests / 6:.0f} requests a second"
    ledger.verify(read_topic(broker.address, TOPIC, PARTITIONS))


@needs_loop_disk
def test_one_request_to_two_thousand_partitions_is_a_few_flushes(make_disk, make_broker):
    disk, ledger = make_disk(4096), Ledger()
    broker = make_broker(disk.data_dir)
    _filled(broker, ledger)
    with broker.connect(timeout=60) as connection:
        before, began = disk.counters(), time.monotonic()
        for _ in range(10):
            _to_each(connection, ledger)
        took = time.monotonic() - began
    flushes = disk.counters()["flushes"] - before["flushes"]
    print(f"10 requests of {PARTITIONS} partitions: {flushes} flushes, {took:.2f} s")
    assert flushes < 400, f"{flushes} flushes for 10 requests of {PARTITIONS} partitions"
    assert took < 10


def test_restart_is_soon_clean_and_after_a_kill(make_broker):
    broker, ledger = make_broker(), Ledger()
    _filled(broker, ledger, rounds=3)
    took = {}
    for how in ("clean stop", "kill -9"):
        broker.stop() if how == "clean stop" else broker.kill9()
        began = time.monotonic()
        broker.start()
        with broker.connect(timeout=30) as connection:
            one_batch(connection, ledger, TOPIC, 1234, 1)
        took[how] = time.monotonic() - began
    print(f"first ok after {took}")
    assert took["clean stop"] < 10 and took["kill -9"] < 10, f"seconds until the first ok: {took}"
    ledger.verify(read_topic(broker.address, TOPIC, PARTITIONS))


def test_making_and_deleting_wide_topics_gives_the_memory_back(make_broker):
    broker = make_broker()
    sizes = []
    with broker.connect(timeout=60) as connection:
        for number in range(budget(4, 10)):
            topic_made(connection, f"wide-{number}", PARTITIONS)
            ledger = Ledger()
            for partition in random.Random(number).sample(range(PARTITIONS), 50):
                one_batch(connection, ledger, f"wide-{number}", partition, 10)
            assert delete_topic(connection, f"wide-{number}") == 0
            time.sleep(0.5)
            sizes.append(broker.rss_bytes())
        until("the files of deleted topics are gone", lambda: not [
            name for name in _directories(broker) if name.startswith("wide-")], timeout=20)
    shown = [size >> 20 for size in sizes]
    assert sizes[-1] <= sizes[0] * 1.2 + (4 << 20), f"MiB after each round of {PARTITIONS} partitions: {shown}"


def test_metadata_of_everything_a_hundred_times_stalls_nobody(make_broker):
    broker, ledger = make_broker(), Ledger()
    with broker.connect(timeout=60) as connection:
        topic_made(connection, TOPIC, PARTITIONS)
        topic_made(connection, "other", 1)
    faults = []

    def ask():
        try:
            with broker.connect(timeout=30) as connection:
                for _ in range(5):
                    connection.request(3, 4, b"\xff\xff\xff\xff\0")
                    connection.response(3, 4)
        except Exception as error:  # pylint: disable=broad-except
            faults.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=ask) for _ in range(20)]
    with broker.connect() as connection:
        slowest = 0.0
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            began = time.monotonic()
            one_batch(connection, ledger, "other", 0, 1)
            slowest = max(slowest, time.monotonic() - began)
    assert not faults, faults[:3]
    assert slowest < 1, f"a produce beside 100 full Metadata answers waited {slowest:.2f} s"


def test_many_topics_are_listed_and_deleted_whole(make_broker):
    """Five hundred topics, half of them deleted, then a kill: exactly the other half is there."""
    broker = make_broker()
    names = [f"many-{n}" for n in range(budget(200, 500))]
    with broker.connect(timeout=30) as connection:
        for name in names:
            assert create_topic(connection, name, 2) == 0
        for name in names[::2]:
            assert delete_topic(connection, name) == 0
    broker.kill9()
    broker.start()
    with broker.connect(timeout=30) as connection:
        found = {t["name"] for t in connection.call(3, 4, topics=None, allow_auto_topic_creation=False)["topics"]}
        assert found == set(names[1::2])
        for name in names[1::50]:
            assert log_end(connection, name, 1) == 0
    until("directories of deleted topics are gone", lambda: not set(_directories(broker)) & set(names[::2]))
