"""A disk that hangs: no ok, no lie, observers answer, and when it comes back so does produce.

`fsfreeze` blocks every writer in the kernel; nothing fails, nothing returns.
"""

import signal
import threading
import time

from admin import Admin
from bench import (Ledger, Producer, Silent, fetch_from, load, log_end, needs_loop_disk, one_batch, produce_batch,
                   read_topic, topic_made, until)
from hotpath import build_batch
from ledger import payload

pytestmark = needs_loop_disk
TOPIC, PARTITIONS = "hung", 6
OBSERVER_SECONDS_MAX = 1.0
WATCHDOG_SECONDS = 30


def _frozen(make_disk, make_broker, admin=None):
    disk, ledger = make_disk(2048), Ledger()
    broker = make_broker(disk.data_dir, settings=admin.settings if admin else None)
    with broker.connect() as connection:
        topic_made(connection, TOPIC, PARTITIONS)
        for partition in range(PARTITIONS):
            one_batch(connection, ledger, TOPIC, partition, 10)
    return disk, broker, ledger


def _observe(broker, ledger, seconds, admin):
    """High watermarks, metadata and tail reads, metrics and health answer quickly, all the time.

    Returns the slowest answer to a client.
    """
    slowest, end = 0.0, time.monotonic() + seconds
    with broker.connect(timeout=10) as connection:
        while time.monotonic() < end:
            for partition in range(PARTITIONS):
                began = time.monotonic()
                high = log_end(connection, TOPIC, partition)
                assert fetch_from(connection, TOPIC, partition, 0).high_watermark == high
                connection.call(3, 4, topics=[{"name": TOPIC}], allow_auto_topic_creation=False)
                slowest = max(slowest, time.monotonic() - began)
            assert admin.sum("millstream_core_up") > 0 and admin.health()["phase"] == "running"
            time.sleep(0.05)
    return slowest


def test_hung_disk_gives_no_ok_observers_answer_and_everything_comes_back(make_disk, make_broker):
    admin = Admin()
    disk, broker, ledger = _frozen(make_disk, make_broker, admin)
    producers = [Producer(ledger, broker.address, TOPIC, PARTITIONS, "plain", rate=100, timeout=60),
                 Producer(ledger, broker.address, TOPIC, PARTITIONS, "idem", idempotent=True, rate=100, timeout=60)]
    with load(*producers):
        time.sleep(1)
        disk.freeze()
        frozen_at = time.monotonic()
        slowest = _observe(broker, ledger, 6, admin)
        early = [a for p in producers for a in p.acks_at if frozen_at + 0.2 < a[0]]
        disk.thaw()
        thawed_at = time.monotonic()
        until("produce is answered after the thaw", lambda: all(
            p.acks_at and p.acks_at[-1][1] > thawed_at for p in producers))
        for producer in producers:
            producer.finish()
    admin.assert_quick()
    assert not early, f"{len(early)} requests sent to a hung disk got an ok"
    assert slowest < OBSERVER_SECONDS_MAX, f"an observer waited {slowest:.2f} s on a hung disk"
    ledger.verify(read_topic(broker.address, TOPIC, PARTITIONS))


def test_watchdog_answers_what_waits_too_long_and_nothing_of_it_is_told_as_stored(make_disk, make_broker):
    """After 30 s pending and new produces get a retriable error; after the thaw all is well again or after a restart."""
    admin = Admin()
    disk, broker, ledger = _frozen(make_disk, make_broker, admin)
    assert admin.health()["state"] == "ok" and admin.get("/readyz") == (200, "ready\n")
    answers = []

    def produce_one():
        ids = ledger.ids(1, 0, threading.current_thread().name)  # each thread is a producer of its own
        with broker.connect(timeout=WATCHDOG_SECONDS + 15) as connection:
            began = time.monotonic()
            try:
                code, base, _ = produce_batch(connection, TOPIC, 0, build_batch([payload(ids[0])]), timeout_ms=120_000)
            except Silent:
                code, base = None, None
            answers.append((code, time.monotonic() - began))
            if code == 0:
                ledger.ack(ids, 0, base)

    disk.freeze()
    pending = [threading.Thread(target=produce_one) for _ in range(3)]
    for thread in pending:
        thread.start()
    slowest = _observe(broker, ledger, WATCHDOG_SECONDS + 5, admin)
    health = admin.health()
    assert health["storage_stalled"] and health["directories"][0]["state"] == "stalled", health
    status, reason = admin.get("/readyz")
    assert status == 503 and "hangs" in reason, reason
    until("the metrics say so too", lambda: admin.sum("millstream_storage_stalled") >= 1)
    for thread in pending:
        thread.join(60)
    assert all(code not in (0, None) for code, _ in answers), f"answers on a hung disk (code, seconds): {answers}"
    began = time.monotonic()
    produce_one()
    assert answers[-1][0] not in (0, None) and time.monotonic() - began < 5, f"a new produce while stalled: {answers[-1]}"
    assert slowest < OBSERVER_SECONDS_MAX, f"an observer waited {slowest:.2f} s on a hung disk"
    until("the refusal is counted", lambda: admin.sum("millstream_append_refused_total", "storage_stalled") >= 1)
    admin.assert_quick()
    disk.thaw()
    time.sleep(1)
    ledger.verify(read_topic(broker.address, TOPIC, PARTITIONS))
    produce_one()
    if answers[-1][0] != 0:
        broker.kill9()
        broker.start()
        produce_one()
    assert admin.health()["state"] == "ok" and admin.get("/readyz")[0] == 200
    assert answers[-1][0] == 0, "produce does not come back after the thaw, nor after a restart"
    ledger.verify(read_topic(broker.address, TOPIC, PARTITIONS))


def test_killed_while_the_disk_hangs_the_ledger_holds(make_disk, make_broker):
    disk, broker, ledger = _frozen(make_disk, make_broker)
    producer = Producer(ledger, broker.address, TOPIC, PARTITIONS, "idem", idempotent=True, rate=100)
    with load(producer):
        time.sleep(1)
        disk.freeze()
        time.sleep(1)
        broker.process.kill()
        disk.thaw()
        broker.kill9()
        broker.start()
        time.sleep(1)
        producer.finish()
    ledger.verify(read_topic(broker.address, TOPIC, PARTITIONS))


def test_broker_that_cannot_end_its_stop_says_that_it_is_not_ready(make_disk, make_broker):
    admin = Admin()
    disk, broker, ledger = _frozen(make_disk, make_broker, admin)
    producer = Producer(ledger, broker.address, TOPIC, PARTITIONS, "idem", idempotent=True, rate=100)
    with load(producer):
        time.sleep(1)
        disk.freeze()
        time.sleep(0.5)
        broker.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        assert admin.get("/readyz") == (503, "stopping\n")
        assert admin.health()["phase"] == "stopping"
        disk.thaw()
        assert broker.process.wait(60) == 0
        broker.kill9()
        broker.start()
        until("it is ready again", lambda: admin.get("/readyz")[0] == 200)
        producer.finish()
    ledger.verify(read_topic(broker.address, TOPIC, PARTITIONS))
