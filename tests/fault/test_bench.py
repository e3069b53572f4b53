"""The bench judges itself: it passes an honest broker and catches every lie.

No broker binary is needed here. `MILLSTREAM_REFERENCE=host:port` names a real
Apache Kafka, against which the same load and the same ledger must hold.
"""

import os
import time

import hotpath
import pytest
from bench import (ClientProducer, Connection, Ledger, LoopDisk, Producer, Watcher, load, needs_loop_disk, payload,
                   produce_many, read_topic, topic_made)
from fake_broker import LIES, FakeBroker
from ledger import id_of
from rawkafka import batch as slow_batch
from rawkafka import batches as slow_batches


def _ledger_of_three():
    ledger = Ledger()
    ids = ledger.ids(3, 0)
    ledger.ack(ids, 0, 0)
    return ledger, [(0, 0), (1, 1), (2, 2)]


def test_ledger_passes_what_was_promised():
    ledger, records = _ledger_of_three()
    (late,) = ledger.ids(1, 0)
    assert ledger.faults({0: records}) == []
    assert ledger.faults({0: records + [(3, late)]}) == [], "an unanswered record may be there"


@pytest.mark.parametrize("what, read", [
    ("LOST", [(0, 0), (1, 1)]),
    ("LOST", [(0, 0), (1, 2), (2, 1)]),
    ("TWICE", [(0, 0), (1, 1), (2, 2), (3, 2)]),
    ("GAP", [(0, 0), (2, 2)]),
    ("NEVER SENT", [(0, 0), (1, 1), (2, 2), (3, 99)]),
])
def test_ledger_names_each_breach(what, read):
    ledger, _ = _ledger_of_three()
    assert any(fault.startswith(what) for fault in ledger.faults({0: read})), ledger.faults({0: read})


def test_ledger_refuses_the_refused_the_taken_back_and_a_second_offset():
    ledger, records = _ledger_of_three()
    (refused,) = ledger.ids(1, 0)
    ledger.refuse([refused], 0)
    assert any(f.startswith("REFUSED") for f in ledger.faults({0: records + [(3, refused)]}))
    (open_id,) = ledger.ids(1, 0)
    ledger.see(0, 3, open_id)
    assert any(f.startswith("TAKEN BACK") for f in ledger.faults({0: records}))
    with pytest.raises(AssertionError, match="acknowledged at"):
        ledger.ack([0], 0, 7)
    with pytest.raises(AssertionError, match="showed id"):
        ledger.see(0, 3, 0)


def test_ledger_lets_only_a_declared_resend_appear_twice():
    ledger = Ledger()
    (i,) = ledger.ids(1, 0)
    assert ledger.faults({0: [(0, i), (1, i)]})
    ledger.resend([i])
    assert ledger.faults({0: [(0, i), (1, i)]}) == []


def test_a_changed_byte_in_a_record_is_noticed():
    value = payload(77, 100)
    assert id_of(value) == 77
    with pytest.raises(AssertionError, match="other bytes"):
        id_of(value[:60] + b"!" + value[61:])


def test_fast_batches_are_the_batches_of_the_independent_codec():
    values = [payload(i, 40 + 90 * (i % 3)) for i in range(70)]
    fast = hotpath.build_batch(values, timestamp_ms=1700000000000, producer_id=9, producer_epoch=2, sequence=5)
    assert fast == slow_batch(values, base_timestamp=1700000000000, producer_id=9, producer_epoch=2, base_sequence=5)
    (parsed,) = hotpath.split_batches(fast)
    (slow,) = slow_batches(fast)
    assert parsed.values() == values and slow["crc_ok"] and parsed.last_offset == slow["last_offset"] == 69


def _run_against(address, topic, seconds, fault=None):
    """Some seconds of load with a fault in the middle; returns the ledger's findings."""
    ledger = Ledger()
    with Connection(address) as connection:
        topic_made(connection, topic, 3)
    producers = [Producer(ledger, address, topic, 3, "plain", rate=300, timeout=3),
                 Producer(ledger, address, topic, 3, "idem", idempotent=True, rate=300, timeout=3)]
    watcher = Watcher(ledger, address, topic, 3)
    found = []
    with load(*producers, watcher):
        time.sleep(seconds / 2)
        if fault:
            fault()
        time.sleep(seconds / 2)
        for thread in (*producers, watcher):
            try:
                thread.finish(timeout=5) if thread is not watcher else thread.finish()
            except AssertionError as error:
                found.append(str(error))
    try:
        found += ledger.faults(read_topic(address, topic, 3))
    except AssertionError as error:
        found.append(str(error))
    assert ledger.counts()["acked"] > 500, f"hardly any load: {ledger.counts()}"
    return found


def test_honest_broker_passes_also_over_lost_connections_and_answers():
    with FakeBroker(cut_every=29) as fake:
        assert _run_against(fake.address, "t", 1.0, fault=fake.restart) == []


@pytest.mark.parametrize("lie", LIES)
def test_bench_catches_the_liar(lie):
    # A broker that forgets which sequences it saw is found out by retries only, so answers must get lost.
    with FakeBroker(lie, cut_every=29 if lie == "forget-dedupe" else None) as fake:
        assert _run_against(fake.address, "t", 1.0), f"a broker that lies by {lie!r} passed"


def test_bench_catches_a_broker_that_forgets_at_a_power_cut():
    with FakeBroker() as fake:
        found = _run_against(fake.address, "t", 1.0, fault=lambda: fake.restart(forget=2))
    assert any("LOST" in f or "TAKEN BACK" in f or "out of range" in f or "showed id" in f for f in found), found


@needs_loop_disk
def test_power_cut_keeps_what_was_synced_and_takes_what_was_not():
    with LoopDisk(64) as disk:
        synced, lost = (os.path.join(disk.mount_point, name) for name in ("synced", "lost"))
        for path, sync in ((synced, True), (lost, False)):
            with open(path, "wb") as file:
                file.write(b"x" * 8192)
                file.flush()
                if sync:
                    os.fsync(file.fileno())
        disk.cut_power()
        with pytest.raises(OSError):
            open(os.path.join(disk.mount_point, "new"), "wb")
        disk.remount()
        assert os.path.getsize(synced) == 8192
        assert not os.path.exists(lost) or os.path.getsize(lost) == 0


@needs_loop_disk
def test_filled_disk_is_full_and_a_frozen_one_hangs_until_thawed():
    with LoopDisk(64) as disk:
        path = disk.fill()
        with pytest.raises(OSError), open(os.path.join(disk.mount_point, "more"), "wb") as file:
            file.write(b"x" * (1 << 20))
            os.fsync(file.fileno())
        os.unlink(path)
        disk.freeze()
        disk.thaw()
        assert disk.counters()["writes"] > 0


@pytest.mark.skipif("MILLSTREAM_REFERENCE" not in os.environ, reason="left out: MILLSTREAM_REFERENCE names no Apache Kafka")
def test_bench_passes_apache_kafka():
    address = os.environ["MILLSTREAM_REFERENCE"]
    assert _run_against(address, f"bench-{os.getpid()}", 4.0) == []
    ledger, topic = Ledger(), f"bench-client-{os.getpid()}"
    with Connection(address) as connection:
        topic_made(connection, topic, 2)
        time.sleep(1)
        produce_many(connection, ledger, topic, 1, 5000)
    client = ClientProducer(ledger, address, topic, 2)
    with load(client):
        time.sleep(2)
        client.finish()
    ledger.verify(read_topic(address, topic, 2))
