"""F11: a producer that was frozen for longer than its transaction may last.

Its transaction is aborted in time, over a kill too; what it sends then is refused and opens nothing that nobody would
end, so readers of committed records go on. tests/clients/transactions.py freezes clients that carry records.
"""

import os
import signal
import subprocess
import sys
import time

import pytest

from bench import topic_made, until
from rawgroups import FETCH, wait_for_groups
from rawkafka import Connection, batch, produce
from rawtxn import (READ_COMMITTED, READ_UNCOMMITTED, Transactional, committed_records, end_offset, fetched, markers, producers, read, transaction,
                    until_state, wait_for_transactions)

OLD_EPOCH, INVALID_STATE, INVALID_TIMEOUT, FENCED, ABORTABLE = 47, 48, 50, 90, 120
TIMEOUT_MS, CHECK_MS = 1500, 200
SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": str(CHECK_MS), "transaction.max.timeout.ms": "60000",
            "group.initial.rebalance.delay.ms": "0"}
PARTITIONS = range(4)
GROUP = "group"
both_ways = pytest.mark.parametrize("v2", [False, True], ids=["added by hand", "added by producing"])


def made(make_broker):
    broker = make_broker(settings=SETTINGS)
    with broker.connect() as connection:
        topic_made(connection, "t", len(PARTITIONS))
        wait_for_transactions(connection)
        wait_for_groups(connection, "t")
    return broker


def nothing_is_open(connection):
    for p in PARTITIONS:
        assert end_offset(connection, "t", p, READ_COMMITTED) == end_offset(connection, "t", p, READ_UNCOMMITTED), f"partition {p}"
        assert all(row["txn_start_offset"] == -1 for row in producers(connection, "t", p).values()), f"partition {p}"


def stable_offset(connection):
    answer = connection.call(FETCH, 7, group_id=GROUP, require_stable=True, topics=[{"name": "t", "partitions": [0]}])
    row = answer["topics"][0]["partitions"][0]
    return row["error_code"], row["offset"]


@both_ways
@pytest.mark.parametrize("restarted", [False, True], ids=["", "over a kill"])
def test_late_batches_open_nothing(make_broker, v2, restarted):
    """Three partitions and an offset are in the transaction, the fourth partition was never added."""
    broker = made(make_broker)
    one = Transactional(broker.address, "frozen", timeout_ms=TIMEOUT_MS, v2=v2).initialise()
    began, epoch = time.monotonic(), one.epoch
    for p in PARTITIONS[:3]:
        one.sent("t", p, [b"frozen"])
    if not v2:
        until("the group is in the transaction", lambda: one.add_offsets(GROUP) == 0)
    until("the offset is taken", lambda: one.commit_offsets(GROUP, "t", {0: 7}) == {0: 0})
    if restarted:
        broker.kill9()
        broker.start()
        one.connection = Connection(broker.address)
    with broker.connect() as connection:
        if restarted:
            wait_for_transactions(connection)
        until_state(connection, "frozen", "CompleteAbort")
        took = time.monotonic() - began
        assert restarted or TIMEOUT_MS / 1000 <= took < TIMEOUT_MS / 1000 + 5, f"aborted after {took:.1f} s"
        assert transaction(connection, "frozen")["producer_epoch"] == epoch + 1
        nothing_is_open(connection)
        assert stable_offset(connection) == (0, -1)

        # It wakes up, and knows of nothing.
        assert [one.send("t", p, [b"late"])["error_code"] for p in PARTITIONS] == [OLD_EPOCH] * 4
        assert one.send("t", 0, [b"late"], base_sequence=0)["error_code"] == OLD_EPOCH
        if not v2:
            assert set(one.add("t", [3]).values()) == {FENCED}
            assert one.add_offsets(GROUP) == FENCED
        assert one.commit_offsets(GROUP, "t", {0: 8}) == {0: OLD_EPOCH}
        assert one.end(True) == (INVALID_STATE if v2 else FENCED)
        nothing_is_open(connection)

        # It begins anew, and again sends where nothing was added.
        one.initialise(producer_id=one.producer_id, producer_epoch=epoch)
        assert one.epoch == epoch + 1
        if not v2:
            assert [one.send("t", p, [b"never added"])["error_code"] for p in PARTITIONS] == [ABORTABLE] * 4
            nothing_is_open(connection)
        for p in PARTITIONS:
            one.sent("t", p, [b"in time"])
        one.ended(True)
        until_state(connection, "frozen", "CompleteCommit")
        nothing_is_open(connection)
        for p in PARTITIONS:
            assert [v for _, v in read(connection, "t", p)] == [b"in time"]
            assert b"late" not in [v for _, v in read(connection, "t", p, READ_UNCOMMITTED)]
        assert [m[3] for m in markers(connection, "t", 0)] == ["abort", "commit"]
        assert one.asked_for_id(transaction_timeout_ms=60_001)["error_code"] == INVALID_TIMEOUT


@both_ways
def test_reader_of_committed_records_goes_on_when_time_is_over(make_broker, v2):
    broker = made(make_broker)
    one = Transactional(broker.address, "frozen", timeout_ms=TIMEOUT_MS, v2=v2).initialise()
    one.sent("t", 0, [b"frozen"])
    with broker.connect(timeout=30) as reader, broker.connect() as connection:
        assert produce(connection, "t", 0, batch([b"plain"]))["error_code"] == 0
        began = time.monotonic()
        row = fetched(reader, "t", 0, 0, READ_COMMITTED, wait_ms=20_000)
        took = time.monotonic() - began
        assert committed_records(row) == [(1, b"plain")]
        assert took < TIMEOUT_MS / 1000 + 5, f"after {took:.1f} s"
        nothing_is_open(connection)


# A transaction over three partitions, a sleep that it does not know of, more records, the end, which fails; an abort,
# if its error lets it, else (librdkafka takes a stale epoch for a newer producer's, against Apache Kafka too) another
# producer; then another transaction. It prints how far it has come.
FROZEN_CLIENT = """
import sys
from confluent_kafka import KafkaException, Producer

def producer():
    made = Producer({"bootstrap.servers": sys.argv[1], "transactional.id": "frozen", "transaction.timeout.ms": int(sys.argv[2])})
    made.init_transactions(30)
    return made

def to_all(client, value):
    client.begin_transaction()
    for p in range(4):
        client.produce("t", value, partition=p)
    client.commit_transaction(30)

one = producer()
one.begin_transaction()
for p in range(3):
    one.produce("t", b"frozen", partition=p)
one.flush(30)
print("sent", flush=True)
sys.stdin.readline()
try:
    for p in range(4):
        one.produce("t", b"late", partition=p)
    one.commit_transaction(30)
    print("committed", flush=True)
except KafkaException as failed:
    error = failed.args[0]
    print("fatal" if error.fatal() else "abortable" if error.txn_requires_abort() else "other", error, flush=True)
    if error.fatal():
        one = producer()
    else:
        one.abort_transaction(30)
    to_all(one, b"in time")
    print("went on", flush=True)
"""


def test_librdkafka_that_was_stopped_is_told_and_goes_on(make_broker):
    broker = made(make_broker)
    child = subprocess.Popen([sys.executable, "-c", FROZEN_CLIENT, broker.address, str(TIMEOUT_MS)], text=True, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert child.stdout.readline() == "sent\n", child.stderr.read()
        os.kill(child.pid, signal.SIGSTOP)
        with broker.connect() as connection:
            until_state(connection, "frozen", "CompleteAbort", TIMEOUT_MS / 1000 + 5)
            nothing_is_open(connection)
            os.kill(child.pid, signal.SIGCONT)
            out, err = child.communicate("on\n", timeout=90)
            assert out.startswith(("abortable", "fatal")) and out.endswith("went on\n"), out + err
            until("all is committed", lambda: all(end_offset(connection, "t", p, READ_COMMITTED) == end_offset(connection, "t", p) for p in PARTITIONS), 5)
            nothing_is_open(connection)
            for p in PARTITIONS:
                assert [v for _, v in read(connection, "t", p)] == [b"in time"]
    finally:
        child.kill()
        child.wait()
