"""F18, F19, F21: old records go by time and by size, and nothing else goes, whatever the clock does and whatever ends the broker."""

import os
import random
import time

import pytest
from admin import Admin
from bench import (Ledger, Producer, budget, data_files, delete_records, fetch_from, load, log_end, log_start, needs_loop_disk,
                   one_batch, produce_batch, produce_many, read_batches, read_partition, topic_made, until)
from rawkafka import batch, produce
from rawtxn import CONTROL, TRANSACTIONAL, Transactional, wait_for_transactions
from test_f03_disk_full import PARTITIONS, TOPIC, _full, _until_refused
from test_f20_offsets_by_time import PACK, packed
from test_f34_settings import DELETE, SET, _alter
from wrong_clock import WrongClock

CHECKS = {"log.retention.check.interval.ms": "200"}
HOUR, DAY = 3600, 86_400
INVALID_TIMESTAMP, OFFSET_OUT_OF_RANGE = 32, 1
LOG_APPEND_TIME = 0x08
SEED = 18


def now_ms():
    return int(time.time() * 1000)


def put(connection, topic, *stamps, partition=0):
    """One batch a stamp; the error code of the last."""
    code = 0
    for stamp in stamps:
        sent = batch([b"v" * 100], base_timestamp=stamp, max_timestamp=stamp)
        code, _, _ = produce_batch(connection, topic, partition, sent)
    return code


def emptied(connection, topic, end, partition=0):
    """Waits until the log starts at its end, which stays."""
    until(f"{topic}-{partition} is empty", lambda: log_start(connection, topic, partition) == end)
    assert log_end(connection, topic, partition) == end, "the numbering stays"
    if end > 0:
        assert fetch_from(connection, topic, partition, end - 1).error == OFFSET_OUT_OF_RANGE


def log_bytes(broker, topic, partition=0):
    """Bytes of the log files of a partition; one may go while they are counted."""
    total = 0
    for path in data_files(broker.data_dir, topic, ".log"):
        if f"/{partition}/" in path:
            try:
                total += os.path.getsize(path)
            except FileNotFoundError:
                pass
    return total


def stay(seconds, *checks):
    """For so long each check holds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for check in checks:
            assert check()
        time.sleep(0.1)


def test_records_of_a_quiet_topic_go_in_time_and_their_numbering_stays(make_broker):
    broker = make_broker(settings=CHECKS)
    topics = [f"quiet-{n}" for n in range(50)]
    with broker.connect() as connection:
        for topic in topics:
            topic_made(connection, topic, configs={"retention.ms": "2000"})
            assert put(connection, topic, *[now_ms()] * 3) == 0
        topic_made(connection, "kept")
        assert put(connection, "kept", now_ms()) == 0
        for topic in topics:
            emptied(connection, topic, 3)
        # Their space comes back too: a name without a byte tells where the log goes on.
        until("the files are gone", lambda: all(log_bytes(broker, topic) == 0 for topic in topics))
        assert log_start(connection, "kept", 0) == 0
    broker.kill9()
    broker.start()
    with broker.connect() as connection:
        for topic in topics:
            emptied(connection, topic, 3)
        assert put(connection, topics[0], now_ms()) == 0
        assert (log_start(connection, topics[0], 0), log_end(connection, topics[0], 0)) == (3, 4)
        emptied(connection, topics[0], 4)
    assert broker.stop() == 0
    broker.start()
    with broker.connect() as connection:
        emptied(connection, topics[0], 4)
        emptied(connection, topics[1], 3)
        assert log_end(connection, "kept", 0) == 1


def test_policy_changes_on_the_fly_and_records_are_judged_by_their_own_stamps(make_broker):
    broker = make_broker(settings=CHECKS)
    with broker.connect() as connection:
        topic_made(connection, "t", configs={"retention.ms": "-1", "segment.bytes": "16384"})
        old = now_ms() - 2 * HOUR * 1000
        assert put(connection, "t", old, old) == 0
        stay(1, lambda: log_start(connection, "t", 0) == 0)
        assert _alter(connection, "t", ("retention.ms", SET, str(HOUR * 1000)))[0] == 0
        emptied(connection, "t", 2)
        assert put(connection, "t", now_ms()) == 0
        stay(1, lambda: (log_start(connection, "t", 0), log_end(connection, "t", 0)) == (2, 3))
        assert _alter(connection, "t", ("retention.ms", DELETE, None))[0] == 0
        # Cluster-wide, and for this broker alone.
        for name in ("", "1"):
            assert put(connection, "t", now_ms() - 2000) == 0
            start = log_start(connection, "t", 0)
            answer = connection.call(44, 1, resources=[{"resource_type": 4, "resource_name": name, "configs": [
                {"name": "log.retention.ms", "op": SET, "value": "1000"}]}])
            assert answer["responses"][0]["error_code"] == 0, answer
            emptied(connection, "t", log_end(connection, "t", 0))
            assert log_start(connection, "t", 0) > start
            connection.call(44, 1, resources=[{"resource_type": 4, "resource_name": name, "configs": [
                {"name": "log.retention.ms", "op": DELETE, "value": None}]}])


def test_size_keeps_at_least_its_bound_and_at_most_a_segment_more(make_broker):
    broker = make_broker(settings=CHECKS)
    with broker.connect() as connection:
        topic_made(connection, "sized", configs={"retention.ms": "-1", "retention.bytes": "200000", "segment.bytes": "16384"})
        produce_many(connection, Ledger(), "sized", 0, 2000, records=4, value_bytes=1000)
        until("the size settles", lambda: 200_000 <= log_bytes(broker, "sized") <= 200_000 + 3 * 16_384, timeout=30)
        start, end = log_start(connection, "sized", 0), log_end(connection, "sized", 0)
        assert end == 2000 and read_partition(connection, "sized", 0, check=False)[0][0] == start
        stay(1, lambda: log_start(connection, "sized", 0) == start)


def test_step_of_the_clock_deletes_nothing_until_it_has_stayed(make_broker, work_dir):
    clock = WrongClock(work_dir)
    admin = Admin()
    settings = {**CHECKS, **admin.settings, "log.retention.clock.step.grace.ms": "6000"}
    broker = make_broker(settings=settings, wrapper=clock.wrapper)
    with broker.connect() as connection:
        topic_made(connection, "week")
        assert put(connection, "week", now_ms()) == 0
        everything = lambda: (log_start(connection, "week", 0), log_end(connection, "week", 0)) == (0, 1)  # noqa: E731
        clock.set(365 * DAY)
        stay(3, everything)
        assert "the clock is ahead" in broker.log_text() and admin.sum("millstream_retention_clock_held") >= 1
        clock.set(0)
        stay(2, everything)
        clock.set(-30 * DAY)
        stay(1, everything)
        clock.set(0)
        stay(7, everything)
        assert admin.sum("millstream_retention_clock_held") == 0
        # What the step makes old is all that goes.
        topic_made(connection, "month", configs={"retention.ms": str(30 * DAY * 1000)})
        assert put(connection, "month", now_ms()) == 0
        clock.set(8 * DAY)
        stay(4, everything)
        emptied(connection, "week", 1)
        assert log_start(connection, "month", 0) == 0


def test_clock_that_stepped_while_the_broker_was_off_is_not_believed_at_once(make_broker, work_dir):
    clock = WrongClock(work_dir)
    settings = {**CHECKS, "log.retention.clock.step.grace.ms": "4000"}
    broker = make_broker(settings=settings, wrapper=clock.wrapper)
    with broker.connect() as connection:
        topic_made(connection, "week")
        assert put(connection, "week", now_ms()) == 0
    broker.kill9()
    clock.set(365 * DAY)
    broker.start()
    with broker.connect() as connection:
        stay(2, lambda: log_start(connection, "week", 0) == 0)
        emptied(connection, "week", 1)


def test_records_of_the_future_are_refused_or_hold_their_partition_where_size_and_deletion_still_work(make_broker):
    admin = Admin()
    broker = make_broker(settings={**CHECKS, **admin.settings})
    unchecked = {"message.timestamp.after.max.ms": str(2**63 - 1), "segment.ms": str(2**63 - 1), "retention.ms": "1000"}
    with broker.connect() as connection:
        topic_made(connection, "checked", configs={"retention.ms": "1000"})
        assert put(connection, "checked", now_ms() + 2 * HOUR * 1000) == INVALID_TIMESTAMP
        assert log_end(connection, "checked", 0) == 0
        topic_made(connection, "future", configs=unchecked)
        assert put(connection, "future", now_ms(), now_ms() + 10 * 365 * DAY * 1000, 2**63 - 1) == 0
        stay(2.5, lambda: log_start(connection, "future", 0) == 0)
        assert admin.sum("millstream_retention_future_partitions") == 1
        latest = connection.call(2, 7, topics=[{"name": "future", "partitions": [{"index": 0, "timestamp": -3}]}])
        assert latest["topics"][0]["partitions"][0]["offset"] == 2, "lookups by time stay right"
        assert _alter(connection, "future", ("retention.bytes", SET, "0"))[0] == 0
        emptied(connection, "future", 3)
        topic_made(connection, "deleted", configs=unchecked)
        assert put(connection, "deleted", 2**63 - 1) == 0
        assert delete_records(connection, "deleted", 0, -1) == (0, 1)
        # Records without a timestamp are as old as their append.
        topic_made(connection, "none", configs={"retention.ms": "1500"})
        assert put(connection, "none", -1) == 0
        emptied(connection, "none", 1)


def test_brokers_own_stamps_count_where_the_topic_has_them(make_broker):
    broker = make_broker(settings=CHECKS)
    with broker.connect() as connection:
        topic_made(connection, "stamped", configs={"message.timestamp.type": "LogAppendTime", "retention.ms": "2000"})
        for stamp in (now_ms() + 3650 * DAY * 1000, 0, now_ms() - 3650 * DAY * 1000):
            assert put(connection, "stamped", stamp) == 0
        assert log_start(connection, "stamped", 0) == 0, "ten years ago by the client's clock, and not old"
        emptied(connection, "stamped", 3)


@needs_loop_disk
def test_lower_retention_frees_a_full_disk_and_producing_goes_on(make_disk, make_broker):
    admin = Admin()
    admin.settings.update(CHECKS)
    _, broker, ledger, _ = _full(make_disk, make_broker, 60, admin)
    with broker.connect(timeout=40) as connection:
        _until_refused(connection, ledger, TOPIC, PARTITIONS)
        assert log_start(connection, "ballast", 0) == 0
        assert _alter(connection, "ballast", ("retention.bytes", SET, str(4 << 20)))[0] == 0
        until("old records go", lambda: log_start(connection, "ballast", 0) > 0)
        until("there is space again", lambda: admin.health()["state"] == "ok", timeout=60)
        one_batch(connection, ledger, TOPIC, 0, 10)
        ledger.verify({p: read_partition(connection, TOPIC, p) for p in range(PARTITIONS)})


@pytest.mark.parametrize("how", ["kill", pytest.param("power", marks=needs_loop_disk)])
def test_nothing_younger_goes_and_nothing_comes_back_whatever_ends_the_broker(how, make_disk, make_broker, work_dir):
    disk = make_disk(2048) if how == "power" else None
    chance, ledger = random.Random(f"{SEED}-{how}"), Ledger()
    broker = make_broker(disk.data_dir if disk else None, settings={**CHECKS, "log.retention.clock.step.grace.ms": "0"})
    configs = {"segment.bytes": "131072", "retention.bytes": "1000000", "retention.ms": "-1"}
    with broker.connect() as connection:
        topic_made(connection, "t", 2, configs)
    producers = [Producer(ledger, broker.address, "t", 2, "large", records=50, value_bytes=1000, rate=40, seed=SEED),
                 Producer(ledger, broker.address, "t", 2, "idem", rate=100, idempotent=True, seed=SEED)]
    starts = {0: 0, 1: 0}
    end = time.monotonic() + budget(15, 300)
    with load(*producers):
        while time.monotonic() < end:
            time.sleep(chance.uniform(0.3, 2.0))
            if disk:
                disk.cut_power()
            broker.kill9()
            if disk:
                disk.remount()
            broker.start()
            with broker.connect() as connection:
                for partition, before in starts.items():
                    start = log_start(connection, "t", partition)
                    assert start >= before, f"the log start of {partition} went back from {before} to {start}"
                    starts[partition] = start
        for producer in producers:
            producer.finish()
    with broker.connect() as connection:
        until("old records go", lambda: all(log_start(connection, "t", p) > 0 for p in starts))
        # No other check comes between the two looks, and no record either.
        read, kept = {}, {}
        for partition in starts:
            kept[partition] = log_start(connection, "t", partition)
            read[partition] = read_partition(connection, "t", partition, start=kept[partition])
            assert log_bytes(broker, "t", partition) >= 1_000_000
    ledger.verify(read, kept)


@pytest.mark.parametrize("codec", PACK)
def test_each_batch_keeps_the_clock_it_was_written_by_and_its_bytes(codec, make_broker):
    """F19: stamps ten years off, every codec, idempotent and transactional; the type is switched with data there, and a restart."""
    chance, year = random.Random(f"{SEED}-{codec}"), 365 * DAY * 1000
    broker = make_broker()
    with broker.connect(timeout=30) as connection, Transactional(broker.address, f"f19-{codec}", timeout=30) as producer:
        wait_for_transactions(connection)
        topic_made(connection, "t", configs={"message.timestamp.type": "LogAppendTime", "message.timestamp.after.max.ms": "1000",
                                             "message.timestamp.before.max.ms": "1000", "retention.ms": "-1"})
        producer.initialise()
        stamps = [[now_ms() + 10 * year, 0, now_ms() - 10 * year], [0, 1, 2]]
        sent, began = [], now_ms()
        for row in stamps:
            sent.append(packed(codec, row, chance))
            answer = produce(connection, "t", 0, sent[-1])
            assert answer["error_code"] == 0, answer
            assert began <= answer["log_append_time_ms"] <= now_ms(), "the answer tells the time of the append"
        sent.append(packed(codec, stamps[0], chance, attributes=TRANSACTIONAL, producer_id=producer.producer_id,
                           producer_epoch=producer.epoch, base_sequence=0))
        answer = producer.call(0, 12, acks=-1, transactional_id=producer.id,
                               topics=[{"name": "t", "partitions": [{"index": 0, "records": sent[-1]}]}])
        assert answer["topics"][0]["partitions"][0]["error_code"] == 0, answer
        producer.ended()
        ended = now_ms()
        assert _alter(connection, "t", ("message.timestamp.type", SET, "CreateTime"))[0] == 0
        answer = produce(connection, "t", 0, packed(codec, stamps[0], chance))
        assert answer["error_code"] == INVALID_TIMESTAMP, "by the client's clock the bounds hold again"
        sent.append(packed(codec, [now_ms() - 5, now_ms(), now_ms() - 3], chance))
        answer = produce(connection, "t", 0, sent[-1])
        assert (answer["error_code"], answer["log_append_time_ms"]) == (0, -1), answer
    for how in (broker.stop, broker.kill9):
        how()
        broker.start()
        with broker.connect(timeout=30) as connection:
            until("the marker is there", lambda: log_end(connection, "t", 0) == 13)
            stored = [one for one in read_batches(connection, "t", 0) if not one.attributes & CONTROL]
            for one, raw in zip(stored, sent, strict=True):
                broker_time = one.base_offset < 9
                assert bool(one.attributes & LOG_APPEND_TIME) == broker_time, one.attributes
                assert one.attributes & ~LOG_APPEND_TIME == int.from_bytes(raw[21:23]), "codec and transaction stay"
                assert one.raw[61:] == raw[61:], "the records are stored as they came"
                assert not broker_time or began <= one.max_timestamp <= ended, "the batch has the broker's time"
            for target, offset in ((began, 0), (0, 0), (now_ms() + HOUR, -1)):
                assert log_end(connection, "t", 0, target) == offset


def test_negative_stamps_are_taken_as_apache_kafka_takes_them(make_broker):
    """F18: -1 is no stamp; others before 1970 are stamps, which the bounds may refuse."""
    broker = make_broker()
    with broker.connect() as connection:
        topic_made(connection, "t", configs={"retention.ms": "-1"})
        assert put(connection, "t", -1, -5) == 0
        assert log_end(connection, "t", 0, 0) == -1, "none is of 1970 or later"
        topic_made(connection, "bounded", configs={"retention.ms": "-1", "message.timestamp.before.max.ms": str(HOUR * 1000)})
        assert put(connection, "bounded", -1) == 0
        assert put(connection, "bounded", -5) == INVALID_TIMESTAMP
        assert log_end(connection, "bounded", 0) == 1
