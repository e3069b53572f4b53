"""F29: leader epochs are checked, remembered, and never go back.

Five restarts of each kind with writes in between; OffsetForLeaderEpoch of
every epoch; fenced and unknown epochs on Fetch and ListOffsets. Epochs stand in
the batches alone; elections have no tests here.
"""

import time

import pytest

import hotpath
from bench import (Ledger, Producer, fetch_from, load, log_end, needs_loop_disk, one_batch, read_batches,
                   read_topic, topic_made)

FENCED, UNKNOWN_EPOCH = 74, 75
TOPIC = "epochs"


def _current(connection):
    """The leader epoch that Metadata tells."""
    found = connection.call(3, 7, topics=[{"name": TOPIC}], allow_auto_topic_creation=False)["topics"][0]
    return found["partitions"][0]["leader_epoch"]


def _end_of(connection, epoch, current=-1):
    """(error, epoch, end offset) of OffsetForLeaderEpoch."""
    row = connection.call(23, 2, topics=[{"name": TOPIC, "partitions": [
        {"index": 0, "current_leader_epoch": current, "leader_epoch": epoch}]}])["topics"][0]["partitions"][0]
    return row["error_code"], row["leader_epoch"], row["end_offset"]


def _list(connection, current, timestamp=-1):
    row = connection.call(2, 4, topics=[{"name": TOPIC, "partitions": [
        {"index": 0, "current_leader_epoch": current, "timestamp": timestamp}]}])["topics"][0]["partitions"][0]
    return row["error_code"], row["offset"]


def _restarts(broker, how, rounds=5):
    """[(epoch by Metadata, log end after writing in it)] over some restarts."""
    seen, ledger = [], Ledger()
    with broker.connect() as connection:
        topic_made(connection, TOPIC)
    for _ in range(rounds):
        with broker.connect() as connection:
            before = log_end(connection, TOPIC, 0)
            for _ in range(3):
                one_batch(connection, ledger, TOPIC, 0, 5)
            assert log_end(connection, TOPIC, 0) == before + 15
            seen.append((_current(connection), before + 15))
        how(broker)
        broker.start()
    ledger.verify(read_topic(broker.address, TOPIC, 1))
    return seen


def _judge_epochs(broker, seen):
    epochs = [epoch for epoch, _ in seen]
    assert epochs == sorted(epochs) and epochs[0] >= 0, f"epochs over restarts: {epochs}"
    with broker.connect() as connection:
        current, end = _current(connection), log_end(connection, TOPIC, 0)
        assert current >= epochs[-1], f"epoch {current} now, {epochs[-1]} before the restart"
        last_end = dict(seen)  # the end of the last life that wrote in an epoch
        for epoch, wanted in last_end.items():
            found = _end_of(connection, epoch)
            assert found == (0, epoch, end if epoch == current else wanted), f"epoch {epoch}: {found}, its end was {wanted}"
        if current > epochs[-1]:
            error, epoch, offset = _end_of(connection, current)
            assert error == 0 and offset == end and epoch <= current, f"current epoch {current}: {(error, epoch, offset)}"
        assert _end_of(connection, current + 1) == (0, -1, -1), "a future epoch is not undefined"
        assert _end_of(connection, -1) == (0, -1, -1), "epoch -1 is not undefined"
        first = epochs[0]
        if first > 0:
            assert _end_of(connection, first - 1)[0] == 0
        for batch in read_batches(connection, TOPIC, 0):
            owner = next(epoch for epoch, upto in seen if batch.last_offset < upto)
            assert batch.leader_epoch == owner, f"batch at {batch.base_offset} carries epoch {batch.leader_epoch}, written in {owner}"


@pytest.mark.parametrize("how", ["clean stop", "kill -9"])
def test_epochs_rise_over_restarts_and_each_end_is_exact(how, make_broker):
    broker = make_broker()
    seen = _restarts(broker, lambda b: b.stop() if how == "clean stop" else b.kill9())
    _judge_epochs(broker, seen)


@needs_loop_disk
def test_epochs_never_go_back_over_power_cuts_also_right_after_a_change(make_disk, make_broker):
    disk = make_disk(2048)
    broker = make_broker(disk.data_dir)

    def cut(running):
        disk.cut_power()
        running.kill9()
        disk.remount()
        running.start()  # a new epoch; cut again at once, before anything is written in it
        disk.cut_power()
        running.kill9()
        disk.remount()
    _judge_epochs(broker, _restarts(broker, cut))


def test_older_epoch_is_fenced_newer_is_unknown_and_minus_one_is_not_checked(make_broker):
    broker, ledger = make_broker(), Ledger()
    with broker.connect() as connection:
        topic_made(connection, TOPIC)
        one_batch(connection, ledger, TOPIC, 0, 5)
    for _ in range(2):
        broker.kill9()
        broker.start()
    with broker.connect() as connection:
        current = _current(connection)
        assert current >= 1, "the epoch did not rise over two restarts, so there is no older one to be fenced"
        for epoch, wanted in ((current - 1, FENCED), (current, 0), (current + 1, UNKNOWN_EPOCH), (-1, 0)):
            assert fetch_from(connection, TOPIC, 0, 0, leader_epoch=epoch).error == wanted, f"Fetch with epoch {epoch} of {current}"
            assert _list(connection, epoch)[0] == wanted, f"ListOffsets with epoch {epoch} of {current}"
            assert _end_of(connection, 0, current=epoch)[0] == wanted, f"OffsetForLeaderEpoch with epoch {epoch} of {current}"
        fenced = fetch_from(connection, TOPIC, 0, 0, leader_epoch=current - 1)
        assert not fenced.records, "a fenced Fetch carries records"


def test_end_of_an_epoch_is_never_below_what_a_client_saw_in_it(make_broker):
    """Kills under load: the high watermark that was seen bounds the epoch's end from below."""
    broker, ledger = make_broker(), Ledger()
    with broker.connect() as connection:
        topic_made(connection, TOPIC)
    producer = Producer(ledger, broker.address, TOPIC, 1, "idem", idempotent=True, rate=200)
    highest = {}
    with load(producer):
        for _ in range(4):
            with broker.connect() as connection:
                epoch, end = _current(connection), time.monotonic() + 0.7
                while time.monotonic() < end:
                    highest[epoch] = fetch_from(connection, TOPIC, 0, 0, max_bytes=1).high_watermark
            broker.kill9()
            broker.start()
        producer.finish()
    with broker.connect() as connection:
        for epoch, high in highest.items():
            error, _, offset = _end_of(connection, epoch)
            assert error == 0 and offset >= high, f"epoch {epoch} ends at {offset}, a client saw {high} in it"
    ledger.verify(read_topic(broker.address, TOPIC, 1))


def test_a_new_topic_of_the_same_name_has_another_id_and_none_of_the_old_records(make_broker):
    broker, ledger = make_broker(), Ledger()
    ids = []
    with broker.connect() as connection:
        for _ in range(3):
            topic_made(connection, TOPIC)
            found = connection.call(3, 12, topics=[{"name": TOPIC}])["topics"][0]
            ids.append(found["topic_id"])
            assert log_end(connection, TOPIC, 0) == 0
            one_batch(connection, Ledger(), TOPIC, 0, 5)
            assert connection.call(20, 1, topic_names=[TOPIC])["responses"][0]["error_code"] == 0
    assert len(set(ids)) == 3 and bytes(16) not in ids
    with broker.connect() as connection:
        topic_made(connection, TOPIC)
        one_batch(connection, ledger, TOPIC, 0, 2)
    broker.kill9()
    broker.start()
    ledger.verify(read_topic(broker.address, TOPIC, 1))
    assert hotpath.FETCH_VERSION == 11
