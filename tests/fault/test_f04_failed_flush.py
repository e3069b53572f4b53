"""F04: a failed write or flush is final: no ok of any kind after it, and no silence either.

The ext4 shutdown ioctl makes each write and sync fail with EIO under load on
20 partitions. Kafka-client part of the case; commits of groups are in
test_groups.py, transactions have no tests here.
"""

import time

from admin import Admin
from bench import (KAFKA_STORAGE_ERROR, Closed, ClientProducer, Connection, Ledger, Producer, Silent, Watcher, budget,
                   create_topic, load, log_end, needs_loop_disk, produce_batch, read_topic, topic_made, until)
from hotpath import build_batch
from ledger import payload

pytestmark = needs_loop_disk
TOPIC, PARTITIONS = "flush", 20
SILENCE_SECONDS_MAX = 10
GRACE_SECONDS = 0.05  # an answer may already be on its way when the ioctl returns


def _start(make_disk, make_broker, admin=None):
    disk = make_disk(2048)
    broker = make_broker(disk.data_dir, settings=admin.settings if admin else None)
    with broker.connect() as connection:
        topic_made(connection, TOPIC, PARTITIONS)
    return disk, broker


def test_no_ok_after_the_first_failed_flush_no_silence_and_the_ledger_holds(make_disk, make_broker):
    admin = Admin()
    disk, broker = _start(make_disk, make_broker, admin)
    ledger = Ledger()
    raw = [Producer(ledger, broker.address, TOPIC, PARTITIONS, name, timeout=SILENCE_SECONDS_MAX, **{"rate": 150, **how})
           for name, how in (("all", {}), ("one", {"acks": 1}), ("idem", {"idempotent": True}),
                             ("big", {"records": 200, "value_bytes": 1000, "rate": 20}))]
    client = ClientProducer(ledger, broker.address, TOPIC, PARTITIONS, rate=100)
    watcher = Watcher(ledger, broker.address, TOPIC, [0, 1])
    with load(*raw, client, watcher):
        time.sleep(2)
        disk.cut_power()
        cut_at = time.monotonic()
        time.sleep(budget(SILENCE_SECONDS_MAX + 1, 30))
        late = [a for p in raw for a in p.acks_at if a[0] > cut_at + GRACE_SECONDS]
        assert not late, f"{len(late)} requests that were sent after the disk failed got an ok, first {late[0][0] - cut_at:.2f} s after"
        assert all(len(p.acks_at) > 20 for p in raw), f"hardly any load before the cut: {ledger.counts()}"
        if broker.running():
            _answers_storage_errors(broker)
            _tells_the_failure(admin)
            assert all(p.silences == 0 for p in raw), f"requests without an answer within {SILENCE_SECONDS_MAX} s"
            assert all(any(f[2] == KAFKA_STORAGE_ERROR for f in p.failed_at) for p in raw), (
                f"no KAFKA_STORAGE_ERROR seen: {[p.errors for p in raw]}")
        else:
            assert broker.process.returncode != 0, "the broker ended with exit code 0 after an I/O error"
        assert "error" in broker.log_text().lower(), "the log does not say that the disk failed"
        for thread in (*raw, client):
            thread.abandon()
        watcher.finish()
    broker.kill9()
    disk.remount()
    broker.start()
    ledger.verify(read_topic(broker.address, TOPIC, PARTITIONS))


def _answers_storage_errors(broker):
    """Every partition refuses with 56, also on the second try; the observers answer; no topic can be made."""
    with broker.connect(timeout=SILENCE_SECONDS_MAX) as connection:
        for _ in range(2):
            for partition in range(PARTITIONS):
                code, _, message = produce_batch(connection, TOPIC, partition, build_batch([b"after"]))
                assert code == KAFKA_STORAGE_ERROR, f"partition {partition}: error {code} ({message}), expected {KAFKA_STORAGE_ERROR}"
        began = time.monotonic()
        for partition in range(PARTITIONS):
            log_end(connection, TOPIC, partition)
        connection.call(3, 4, topics=None, allow_auto_topic_creation=False)
        assert time.monotonic() - began < 2, "observers are slow on a failed disk"
        assert create_topic(connection, "after-the-failure", 1) != 0, "CreateTopics got an ok on a failed disk"


def _tells_the_failure(admin):
    """Health, readiness and metrics name the failure, at once."""
    for _ in range(20):
        health = admin.health()
        assert health["state"] == "failed" and health["directories"][0]["state"] == "failed", health
        assert not health["storage_stalled"], health
        status, reason = admin.get("/readyz")
        assert status == 503 and "restart" in reason, reason
    until("the metrics say so too", lambda: admin.sum("millstream_storage_failed") >= 1)
    until("refusals are counted", lambda: admin.sum("millstream_append_refused_total", "storage_failed") >= PARTITIONS)
    admin.assert_quick()


def test_metadata_writes_alone_notice_the_failed_disk(make_disk, make_broker):
    """The broker's own store is the first writer that meets the error: no ok, no hang, and a restart is clean."""
    disk, broker = _start(make_disk, make_broker)
    disk.cut_power()
    try:
        with broker.connect(timeout=SILENCE_SECONDS_MAX) as connection:
            assert create_topic(connection, "never", 3) != 0, "CreateTopics got an ok on a failed disk"
    except Closed:
        pass
    except Silent as error:
        raise AssertionError(f"CreateTopics on a failed disk: {error}") from error
    broker.kill9()
    disk.remount()
    broker.start()
    with broker.connect() as connection:
        names = [t["name"] for t in connection.call(3, 4, topics=None, allow_auto_topic_creation=False)["topics"]]
        assert names == [TOPIC], f"after the restart the topics are {names}"
        topic_made(connection, "never", 3)


def test_a_restart_ends_the_storage_error(make_disk, make_broker):
    disk, broker = _start(make_disk, make_broker)
    disk.cut_power()
    try:
        with Connection(broker.address, timeout=SILENCE_SECONDS_MAX) as connection:
            code, _, _ = produce_batch(connection, TOPIC, 0, build_batch([payload(1)]))
            assert code != 0
    except Closed:
        pass
    broker.kill9()
    disk.remount()
    broker.start()
    with broker.connect() as connection:
        end = log_end(connection, TOPIC, 0)
        code, base, message = produce_batch(connection, TOPIC, 0, build_batch([payload(2)]))
        assert (code, base) == (0, end), message
