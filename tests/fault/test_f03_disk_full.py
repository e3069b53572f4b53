"""F03: a full disk refuses produce in words, serves everything else, and goes on by itself.

Plain, idempotent, transactional and librdkafka producers, reads, metadata, settings, commits, groups old
and new; deletion of topics and of records as the ways to free space. Lower retention while full is in
test_retention.py.
"""

import os
import time

from admin import Admin
from bench import (KAFKA_STORAGE_ERROR, Broker, ClientProducer, Ledger, LoopDisk, Producer, StartFailed, Watcher, budget,
                   create_topic, delete_records, delete_topic, load, log_end, log_start, needs_loop_disk, one_batch, produce_batch,
                   produce_many, read_partition, read_topic, topic_made, until)
from hotpath import build_batch
from ledger import payload
from rawgroups import Member, commit_alone, committed, form, wait_for_groups
from rawtxn import Transactional, read, wait_for_transactions
from test_f34_settings import SET, _alter

pytestmark = needs_loop_disk
TOPIC, PARTITIONS = "full", 4
HOLD_SECONDS = budget(8, 60)
# What clients come again upon: loading, not available, not here, timed out, concurrent, storage.
RETRIABLE = {7, 14, 15, 16, 51, KAFKA_STORAGE_ERROR}


def _until_refused(connection, ledger, topic, partitions, batches_max=2048, records=500):
    """Acknowledged batches of kilobyte records until one is refused; returns its (code, message)."""
    for number in range(batches_max):
        partition = number % partitions
        ids = ledger.ids(records, partition)
        code, base, message = produce_batch(connection, topic, partition,
                                            build_batch([payload(i, 1000) for i in ids]))
        if code:
            return code, message
        ledger.ack(ids, partition, base)
    raise AssertionError(f"{batches_max} batches of {records} kB fit on a disk that should be full")


def _everything_else_works(broker, ledger, rss_before):
    """Reads, observers and metadata answer while the disk is full; memory stays."""
    end = time.monotonic() + HOLD_SECONDS
    with broker.connect(timeout=10) as connection:
        while time.monotonic() < end:
            began = time.monotonic()
            for partition in range(PARTITIONS):
                log_end(connection, TOPIC, partition)
            connection.call(3, 4, topics=None, allow_auto_topic_creation=False)
            connection.call(32, 1, resources=[{"resource_type": 2, "resource_name": TOPIC, "keys": None}])
            assert time.monotonic() - began < 2, "observers are slow on a full disk"
            time.sleep(0.5)
    ledger.verify(read_topic(broker.address, TOPIC, PARTITIONS))
    assert broker.running(), f"the broker ended on a full disk:\n{broker.words()}"
    grown = broker.rss_bytes() - rss_before
    assert grown < 200 << 20, f"memory grew by {grown >> 20} MiB while the disk was full"


def _full(make_disk, make_broker, spare_megabytes, admin=None):
    """A broker whose disk has only `spare_megabytes` left after its first records."""
    disk, ledger = make_disk(1024), Ledger()
    broker = make_broker(disk.data_dir, settings=admin.settings if admin else None)
    with broker.connect() as connection:
        topic_made(connection, TOPIC, PARTITIONS)
        topic_made(connection, "ballast", 1, {"segment.bytes": "4194304"})
        produce_many(connection, Ledger(), "ballast", 0, 20_000, records=500, value_bytes=1000)
        for partition in range(PARTITIONS):
            one_batch(connection, ledger, TOPIC, partition, 10)
    filler = disk.fill(spare_megabytes << 20)
    return disk, broker, ledger, filler


def test_full_disk_refuses_with_56_in_words_serves_the_rest_and_resumes(make_disk, make_broker):
    admin = Admin()
    disk, broker, ledger, filler = _full(make_disk, make_broker, 60, admin)
    rss = broker.rss_bytes()
    with broker.connect(timeout=40) as connection:
        code, message = _until_refused(connection, ledger, TOPIC, PARTITIONS)
        assert code == KAFKA_STORAGE_ERROR, f"error {code} ({message}), expected KAFKA_STORAGE_ERROR"
        assert message and any(word in message.lower() for word in ("space", "full")), f"message does not say why: {message!r}"
        assert disk.free_bytes() < 80 << 20
        until("health names the full disk", lambda: admin.health()["state"] == "full")
        until("it is not ready", lambda: admin.get("/readyz")[0] == 503)
        until("the metrics say so too", lambda: admin.sum("millstream_storage_full") >= 1)
        producers = [Producer(ledger, broker.address, TOPIC, PARTITIONS, "plain", records=100, value_bytes=1000, rate=30),
                     Producer(ledger, broker.address, TOPIC, PARTITIONS, "idem", idempotent=True, rate=30),
                     ClientProducer(ledger, broker.address, TOPIC, PARTITIONS, rate=50)]
        watcher = Watcher(ledger, broker.address, TOPIC, PARTITIONS)
        with load(*producers, watcher):
            _everything_else_works(broker, ledger, rss)
            os.unlink(filler)
            freed = time.monotonic()
            _until_accepted(connection, ledger)
            assert time.monotonic() - freed < 30
            until("health names it no more", lambda: admin.health()["state"] == "ok")
            admin.assert_quick()
            time.sleep(2)
            for thread in (*producers, watcher):
                thread.finish()
    ledger.verify(read_topic(broker.address, TOPIC, PARTITIONS))
    broker.kill9()
    broker.start()
    ledger.verify(read_topic(broker.address, TOPIC, PARTITIONS))


def _until_accepted(connection, ledger):
    """Produce resumes by itself when there is space."""
    def accepted():
        ids = ledger.ids(500, 0)
        code, base, _ = produce_batch(connection, TOPIC, 0, build_batch([payload(i, 1000) for i in ids]))
        if code == 0:
            ledger.ack(ids, 0, base)
        return code == 0
    until("produce is accepted again", accepted, timeout=30, pause=0.2)


def test_space_is_freed_by_deleting_a_topic_while_full(make_disk, make_broker):
    disk, broker, ledger, _ = _full(make_disk, make_broker, 40)
    with broker.connect(timeout=40) as connection:
        code, _ = _until_refused(connection, ledger, TOPIC, PARTITIONS)
        assert code == KAFKA_STORAGE_ERROR
        disk.fill(0, "rest")
        assert delete_topic(connection, "ballast") == 0, "a topic cannot be deleted on a full disk"
        _until_accepted(connection, ledger)
    ledger.verify(read_topic(broker.address, TOPIC, PARTITIONS))


def test_space_is_freed_by_deleting_records_while_full(make_disk, make_broker):
    disk, broker, ledger, _ = _full(make_disk, make_broker, 40)
    with broker.connect(timeout=40) as connection:
        code, _ = _until_refused(connection, ledger, TOPIC, PARTITIONS)
        assert code == KAFKA_STORAGE_ERROR
        disk.fill(0, "rest")
        end = log_end(connection, "ballast", 0)
        for start in (end // 2, end):
            assert delete_records(connection, "ballast", 0, start) == (0, start), "records cannot be deleted on a full disk"
        _until_accepted(connection, ledger)
        assert read_partition(connection, "ballast", 0) == []
    ledger.verify(read_topic(broker.address, TOPIC, PARTITIONS))
    broker.kill9()
    broker.start()
    ledger.verify(read_topic(broker.address, TOPIC, PARTITIONS))
    with broker.connect() as connection:
        assert log_start(connection, "ballast", 0) == log_end(connection, "ballast", 0) == end


def test_commits_groups_transactions_and_settings_are_done_or_refused_for_the_time_being(make_disk, make_broker):
    """Nothing that was answered with success is taken back, nothing else is done half, all goes on by itself."""
    disk, broker, ledger, filler = _full(make_disk, make_broker, 60)
    with broker.connect(timeout=40) as connection, Transactional(broker.address, "full", timeout_ms=120_000, timeout=40) as producer, \
            Member(broker.address, "old", session_ms=60_000, timeout=40) as member:
        wait_for_transactions(connection)
        wait_for_groups(connection, TOPIC)
        topic_made(connection, "ledger", 1)
        producer.initialise()
        producer.sent("ledger", values=[b"kept"])
        producer.ended()
        form(member)
        assert member.commit(TOPIC, {0: 1}) == {0: 0}
        producer.sent("ledger", values=[b"open"])
        code, _ = _until_refused(connection, ledger, TOPIC, PARTITIONS)
        assert code == KAFKA_STORAGE_ERROR
        disk.fill(0, "rest")
        row = producer.send("ledger", values=[b"small"])
        assert row["error_code"] in (0, KAFKA_STORAGE_ERROR), row
        wanted = [b"kept", b"open", *([b"small"] if row["error_code"] == 0 else []), b"behind"]
        done = {"member": 1, "alone": -1}
        codes = set()
        for offset in range(2, 12):
            for who, commit in (("member", lambda o: member.commit(TOPIC, {0: o})[0]),
                                ("alone", lambda o: commit_alone(connection, "alone", TOPIC, {0: o})[0])):
                code = commit(offset)
                codes.add(code)
                done[who] = offset if code == 0 else done[who]
            assert member.heartbeat() == 0, "a group that stands is alive while the disk is full"
        assert codes <= RETRIABLE | {0}, f"commits are answered with {codes}"
        with Member(broker.address, "new", session_ms=60_000, timeout=40) as newcomer:
            code = newcomer.join().joined(want=None)["error_code"]
            assert code in RETRIABLE | {0}, f"a new group is answered with {code}"
        described = connection.call(32, 1, resources=[{"resource_type": 2, "resource_name": "ledger", "keys": None}])
        assert described["results"][0]["error_code"] == 0
        code, message = _alter(connection, "ledger", ("retention.bytes", SET, "123456789"))[:2]
        assert code in RETRIABLE | {0}, f"a setting is refused with {code} ({message})"
        answer = producer.asked_to_end(commit=True)
        assert answer["error_code"] in RETRIABLE | {0}, f"EndTxn is answered with {answer}"
        assert broker.running(), broker.words()
        os.unlink(filler)
        os.unlink(os.path.join(disk.mount_point, "rest"))
        _until_accepted(connection, ledger)
        if answer["error_code"] == 0:
            producer.producer_id, producer.epoch, producer.sequences = answer["producer_id"], answer["producer_epoch"], {}
        else:
            producer.ended()
        until("commits are taken", lambda: member.commit(TOPIC, {0: 50}) == {0: 0})
        with Member(broker.address, "new", session_ms=60_000, timeout=40) as newcomer:
            form(newcomer)
            assert newcomer.commit(TOPIC, {0: 7}) == {0: 0}
        producer.sent("ledger", values=[b"behind"])
        producer.ended()
        until("all is committed", lambda: [value for _, value in read(connection, "ledger")] == wanted)
        assert committed(connection, "alone", TOPIC, [0])[0] in (done["alone"], *range(done["alone"], 12))
    broker.kill9()
    broker.start()
    with broker.connect(timeout=40) as connection:
        until("the groups are there", lambda: committed(connection, "old", TOPIC, [0]) == {0: 50})
        assert committed(connection, "new", TOPIC, [0]) == {0: 7}
        assert [value for _, value in read(connection, "ledger")] == wanted
    ledger.verify(read_topic(broker.address, TOPIC, PARTITIONS))


def test_killed_while_full_it_starts_on_the_full_disk_or_says_what_it_needs(make_disk, make_broker):
    disk, broker, ledger, filler = _full(make_disk, make_broker, 40)
    with broker.connect(timeout=40) as connection:
        _until_refused(connection, ledger, TOPIC, PARTITIONS)
    broker.kill9()
    disk.fill(0, "rest")
    try:
        broker.start()
        ledger.verify(read_topic(broker.address, TOPIC, PARTITIONS))
        broker.kill9()
    except StartFailed as error:
        assert disk.data_dir in str(error) and "bytes" in str(error), f"no path and no number of bytes: {error}"
    os.unlink(filler)
    os.unlink(os.path.join(disk.mount_point, "rest"))
    broker.start()
    ledger.verify(read_topic(broker.address, TOPIC, PARTITIONS))


def test_create_topic_on_a_full_disk_is_whole_or_refused(make_disk, make_broker):
    disk, broker, ledger, filler = _full(make_disk, make_broker, 0)
    disk.fill(0, "rest")
    codes = {}
    with broker.connect(timeout=40) as connection:
        for number in range(20):
            codes[f"new-{number}"] = create_topic(connection, f"new-{number}", 10)
        present = {t["name"]: len(t["partitions"]) for t in connection.call(
            3, 4, topics=None, allow_auto_topic_creation=False)["topics"]}
        for name, code in codes.items():
            assert present.get(name, 0) == (10 if code == 0 else 0), f"{name}: error {code}, {present.get(name, 0)} partitions"
        os.unlink(filler)
        os.unlink(os.path.join(disk.mount_point, "rest"))
        for name, code in codes.items():
            if code:
                until(f"{name} can be created", lambda name=name: create_topic(connection, name, 10) == 0)
            one_batch(connection, Ledger(), name, 9, 1)


def test_thin_full_disk_loses_nothing(work_dir):
    """The file system has free blocks, the image below it has none: writes fail where space seems to be.

    One record a batch, so that each answer rests on a journal write of one block: of a larger one the
    loop driver may write a part, and say that all is written.
    """
    with LoopDisk(700) as outer, LoopDisk(2048, image_dir=outer.mount_point) as disk:
        ledger = Ledger()
        with Broker(disk.data_dir, work_dir).start() as broker:
            with broker.connect(timeout=40) as connection:
                topic_made(connection, TOPIC, PARTITIONS)
                one_batch(connection, ledger, TOPIC, 0, 10)
                filler = outer.fill(24 << 20)
                code, message = _until_refused(connection, ledger, TOPIC, PARTITIONS, batches_max=20_000, records=1)
                assert code == KAFKA_STORAGE_ERROR, f"error {code} ({message})"
                log_end(connection, TOPIC, 0)
            broker.kill9()
            os.unlink(filler)
            disk.remount()
            broker.start()
            ledger.verify(read_topic(broker.address, TOPIC, PARTITIONS))
