"""F10: a transactional id that expired while its producer lives.

The producer is told by INVALID_PRODUCER_ID_MAPPING (49), in every call, which clients take as final; a new one
with the same id begins at once; nothing is left open. What was open when the time came does not expire.
"""

import time

import pytest
from confluent_kafka import KafkaException, Producer

from bench import topic_made, until
from rawgroups import FETCH, wait_for_groups
from rawkafka import Connection
from rawtxn import (READ_COMMITTED, READ_UNCOMMITTED, Transactional, end_offset, producers, read, state_of, wait_for_transactions)

NOT_FOUND, MAPPING, OLD_EPOCH = 105, 49, 47
SETTINGS = {"transactional.id.expiration.ms": "3000", "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200", "group.initial.rebalance.delay.ms": "0"}
GROUP = "group"
both_ways = pytest.mark.parametrize("v2", [False, True], ids=["added by hand", "added by producing"])


def made(make_broker):
    broker = make_broker(settings=SETTINGS)
    with broker.connect() as connection:
        topic_made(connection, "t", 2)
        wait_for_transactions(connection)
        wait_for_groups(connection, "t")
    return broker


def work(producer, value, offset):
    """One transaction with a record and an offset."""
    producer.sent("t", 0, [value])
    if not producer.v2:
        until("the group is in the transaction", lambda: producer.add_offsets(GROUP) == 0)
    until("the offset is taken", lambda: producer.commit_offsets(GROUP, "t", {0: offset}) == {0: 0})
    producer.ended(True)


def expired(connection, name):
    until(f"{name} expires", lambda: state_of(connection, name) == NOT_FOUND, 30)


def told(producer):
    """Every error that its calls get."""
    codes = [producer.commit_offsets(GROUP, "t", {0: 99})[0], producer.end(True), producer.end(False)]
    if producer.v2:
        return codes + [producer.send("t", p, [b"late"])["error_code"] for p in (0, 1)]
    codes += [producer.add("t", [0, 1], version)[p] for version in range(4) for p in (0, 1)]
    codes += [producer.add_offsets(GROUP, version) for version in range(5)]
    codes += [producer.commit_offsets(GROUP, "t", {0: 99}, version=4)[0]]
    return codes + [producer.end(commit, version) for commit in (True, False) for version in range(5)] + [
        producer.send("t", p, [b"late"])["error_code"] for p in (0, 1)]


def committed_offset(connection):
    """The offset of the group that is stable; one that is pending would be an error."""
    answer = connection.call(FETCH, 7, group_id=GROUP, require_stable=True, topics=[{"name": "t", "partitions": [0]}])
    row = answer["topics"][0]["partitions"][0]
    assert row["error_code"] == 0, f"an offset is pending: error {row['error_code']}"
    return row["offset"]


def all_is_closed(connection):
    """Waits for the markers of what has ended; what hangs would never have any."""
    def closed():
        return all(end_offset(connection, "t", p, READ_COMMITTED) == end_offset(connection, "t", p, READ_UNCOMMITTED) and
                   all(row["txn_start_offset"] == -1 for row in producers(connection, "t", p).values()) for p in (0, 1))
    until("the last stable offsets are the ends", closed, 5)


@both_ways
@pytest.mark.parametrize("restarted", [False, True], ids=["", "over a kill"])
def test_producer_of_an_expired_id_is_told_so_and_the_next_begins_at_once(make_broker, v2, restarted):
    """Variant A."""
    broker = made(make_broker)
    one = Transactional(broker.address, "idle", v2=v2).initialise()
    work(one, b"first", 1)
    with broker.connect() as connection:
        expired(connection, "idle")
    if restarted:
        broker.kill9()
        broker.start()
        one.connection = Connection(broker.address)
    with broker.connect() as connection:
        if restarted:
            wait_for_transactions(connection)
        assert set(told(one)) == {MAPPING}, told(one)
        began = time.monotonic()
        again = Transactional(broker.address, "idle", v2=v2).initialise()
        assert again.producer_id != one.producer_id and again.epoch == 0
        work(again, b"second", 2)
        assert time.monotonic() < began + 10
        all_is_closed(connection)
        assert set(told(one)) == {MAPPING}, "of the old one, behind the new one"
        all_is_closed(connection)
        assert [v for _, v in read(connection, "t")] == [b"first", b"second"] == [v for _, v in read(connection, "t", isolation=READ_UNCOMMITTED)]
        assert committed_offset(connection) == 2


@both_ways
def test_zombie_commits_nothing_when_its_id_has_expired(make_broker, v2):
    """Variant B: the first worked up to 4, the second took over and worked up to 5, both slept, and the first goes on.

    A partition that has seen the second one's epoch says that the first one's is old, before it asks who that is; so
    does Apache Kafka, which says so of offsets, too.
    """
    broker = made(make_broker)
    first = Transactional(broker.address, "pair", v2=v2).initialise()
    work(first, b"first", 4)
    second = Transactional(broker.address, "pair", v2=v2).initialise()
    work(second, b"second", 5)
    with broker.connect() as connection:
        expired(connection, "pair")
        *codes, seen, unseen = told(first)
        assert (set(codes), seen, unseen) == ({MAPPING}, OLD_EPOCH, MAPPING)
        assert set(told(second)) == {MAPPING}, told(second)
        all_is_closed(connection)
        assert [v for _, v in read(connection, "t", isolation=READ_UNCOMMITTED)] == [b"first", b"second"]
        assert committed_offset(connection) == 5


@both_ways
def test_id_with_an_open_transaction_does_not_expire(make_broker, v2):
    broker = made(make_broker)
    one, idle = (Transactional(broker.address, name, v2=v2).initialise() for name in ("open", "idle"))
    one.sent("t", 0, [b"v"])
    work(idle, b"idle", 1)
    with broker.connect() as connection:
        expired(connection, "idle")
        time.sleep(0.5)
        assert state_of(connection, "open") == "Ongoing"
        work(one, b"more", 2)
        all_is_closed(connection)
        assert [v for _, v in read(connection, "t")] == [b"v", b"idle", b"more"]


def test_librdkafka_learns_that_its_id_has_expired_and_another_goes_on(make_broker):
    broker = made(make_broker)

    def begun(value):
        producer.begin_transaction()
        producer.produce("t", value, partition=0)

    def client():
        made_one = Producer({"bootstrap.servers": broker.address, "transactional.id": "idle", "transaction.timeout.ms": 5000})
        made_one.init_transactions(30)
        return made_one
    producer = client()
    begun(b"first")
    producer.commit_transaction(30)
    with broker.connect() as connection:
        expired(connection, "idle")
        began = time.monotonic()
        begun(b"lost")
        with pytest.raises(KafkaException) as failed:
            producer.commit_transaction(30)
        error = failed.value.args[0]
        assert error.fatal() or error.txn_requires_abort(), error
        assert not error.retriable(), error
        if error.txn_requires_abort():
            producer.abort_transaction(30)
        producer = client()
        begun(b"second")
        producer.commit_transaction(30)
        assert time.monotonic() < began + 20
        all_is_closed(connection)
        assert [v for _, v in read(connection, "t")] == [b"first", b"second"]
