"""Transactions seen from the wire: `txnrules.py HOST:PORT [--reference] [--only TEXT] [--long]`.

What transactional producers, readers of committed records and operators' tools
may rely on, call by call. Each expectation was seen on Apache Kafka 4.3.1;
`--reference` judges such a broker. The broker must start with
the settings TRANSACTIONS of lib/stages.py: no transaction may last longer than
a minute, and those that are too old are looked for every half second.
"""

import argparse
import os
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from rawgroups import FORGET, Member, commit_alone, form, wait_for_groups  # noqa: E402
from rawgroups import DELETE as DELETE_GROUPS, FETCH as FETCH_OFFSETS, JOIN  # noqa: E402
from rawkafka import (Closed, Connection, Silent, batch, batches, create_topic_and_wait, delete_records, delete_topic, offsets,  # noqa: E402
                      produce)
from rawtxn import (ADD_PARTITIONS, CONCURRENT, COMMIT_OFFSETS, DESCRIBE, DESCRIBE_PRODUCERS, END, FIND, INIT, LIST, LIST_OFFSETS, PRODUCE,  # noqa: E402
                    READ_COMMITTED, READ_UNCOMMITTED, WRITE_MARKERS, Transactional, committed_records, end_offset, fetched, markers,
                    producers, read, state_of, transaction, until_state, wait_for_transactions)

UNKNOWN_TOPIC, METADATA_TOO_LARGE, INVALID_GROUP, ILLEGAL_GENERATION, UNKNOWN_MEMBER, INVALID_REQUEST = 3, 12, 24, 22, 25, 42
OUT_OF_ORDER, INVALID_EPOCH, INVALID_STATE, INVALID_MAPPING, INVALID_TIMEOUT, COORDINATOR_FENCED = 45, 47, 48, 49, 50, 52
NOT_AUTHORIZED, NOT_ATTEMPTED, UNSTABLE, INVALID_RECORD, FENCED, NOT_FOUND, ABORTABLE, INVALID_PATTERN = 53, 55, 88, 87, 90, 105, 120, 128
LONGEST_MS = 60_000  # transaction.max.timeout.ms


class Bench:
    """A connection to look with, topics of four partitions, and names nobody used."""

    def __init__(self, bootstrap):
        self.bootstrap, self.count, self.open = bootstrap, 0, []
        self.admin = Connection(bootstrap)
        wait_for_transactions(self.admin)
        wait_for_groups(self.admin, self.topic())

    def name(self):
        self.count += 1
        return f"txn-{os.getpid()}-{id(self) % 10_000}-{self.count}"

    def topic(self, partitions=4):
        name = self.name()
        create_topic_and_wait(self.admin, name, partitions)
        return name

    def producer(self, name=None, new=True, **how):
        """A producer whose connection is closed after the check; initialised if `new`."""
        self.open.append(Transactional(self.bootstrap, name or self.name(), **how))
        return self.open[-1].initialise() if new else self.open[-1]

    def old(self, **how):
        """A producer that adds its partitions by itself, as all did before KIP-890."""
        return self.producer(v2=False, **how)

    def settled(self, producer, state):
        """Waits until the end of a transaction has reached all its partitions."""
        until_state(self.admin, producer.id, state)

    def commit(self, producer, version=None):
        producer.ended(True, version)
        self.settled(producer, "CompleteCommit")

    def abort(self, producer, version=None):
        producer.ended(False, version)
        self.settled(producer, "CompleteAbort")

    def swept(self):
        """Ends what a check left open, so that nothing of it is in the way."""
        for producer in self.open:
            if producer.producer_id >= 0:
                try:
                    producer.end(False)
                except (OSError, ValueError, Closed, Silent):
                    pass  # its time ends it
            producer.close()
        self.open.clear()


def equal(got, want, what):
    assert got == want, f"{what} is {got}, expected {want}"


def code(answer):
    return answer["error_code"]


def who(answer):
    return answer["error_code"], answer["producer_id"], answer["producer_epoch"]


NOBODY = (-1, -1)


# --- InitProducerId -------------------------------------------------------------

def fresh_ids(bench):
    """InitProducerId: a new id begins at epoch 0, each further call of every version raises the epoch and keeps the id"""
    one = bench.producer(new=False)
    answers = [one.asked_for_id(version) for version in range(6)]
    equal([code(a) for a in answers], [0] * 6, "errors")
    equal([a["producer_epoch"] for a in answers], list(range(6)), "epochs")
    equal(len({a["producer_id"] for a in answers}), 1, "count of producer ids")
    other = bench.producer()
    assert other.producer_id != answers[0]["producer_id"], "two transactional ids have one producer id"
    row = transaction(bench.admin, other.id)
    equal((row["state"], row["timeout_ms"], row["start_time_ms"], row["producer_id"], row["producer_epoch"], row["topics"]),
          ("Empty", 30_000, -1, other.producer_id, 0, []), "described transaction")


def bad_ids(bench):
    """InitProducerId refuses an empty transactional id and timeouts that are none or too long; without an id the timeout says nothing"""
    one = bench.producer(new=False)
    for version in range(6):
        equal(who(one.asked_for_id(version, transactional_id="")), (INVALID_REQUEST, *NOBODY), f"answer to an empty id, v{version}")
        equal([code(one.asked_for_id(version, transaction_timeout_ms=ms)) for ms in (0, -1, LONGEST_MS, LONGEST_MS + 1)],
              [INVALID_TIMEOUT, INVALID_TIMEOUT, 0, INVALID_TIMEOUT], f"errors by timeout, v{version}")
        equal(code(one.asked_for_id(version, transactional_id=None, transaction_timeout_ms=0)), 0, f"error without an id, v{version}")
    one.asked_for_id(5, transaction_timeout_ms=5000)
    equal(transaction(bench.admin, one.id)["timeout_ms"], 5000, "timeout after another one was asked for")


def resumed_ids(bench):
    """InitProducerId with the producer's own id and epoch (KIP-360) raises the epoch, answers a retry alike, and fences all others"""
    for version, wrong in ((3, INVALID_EPOCH), (4, FENCED), (5, FENCED)):
        one = bench.producer()
        one.initialise()
        ask = lambda pid, epoch: one.asked_for_id(version, producer_id=pid, producer_epoch=epoch)  # noqa: E731
        pid, epoch = one.producer_id, one.epoch
        for label, asked, want in (
                ("its own", (pid, epoch), (0, pid, epoch + 1)), ("a retry", (pid, epoch), (0, pid, epoch + 1)),
                ("the one given last", (pid, epoch + 1), (0, pid, epoch + 2)), ("an older epoch", (pid, epoch - 1), (wrong, *NOBODY)),
                ("an epoch to come", (pid, epoch + 9), (wrong, *NOBODY)), ("another id", (pid + 1000, epoch + 2), (wrong, *NOBODY)),
                ("an id without an epoch", (pid, -1), (INVALID_REQUEST, *NOBODY)), ("an epoch without an id", (-1, epoch), (INVALID_REQUEST, *NOBODY))):
            equal(who(ask(*asked)), want, f"answer to {label}, v{version}")


def unknown_resumed(bench):
    """InitProducerId with an id and epoch for a transactional id that is not known (any more) gives out a new producer id at epoch 0"""
    other = bench.producer()
    for pid, epoch in ((1 << 40, 3), (other.producer_id, other.epoch)):
        found = bench.producer(new=False).asked_for_id(5, producer_id=pid, producer_epoch=epoch)
        equal((code(found), found["producer_epoch"]), (0, 0), "error and epoch")
        assert found["producer_id"] not in (pid, other.producer_id), f"the old producer id {pid} was given again"


def takes_over(bench):
    """InitProducerId while a transaction is open aborts it, says so at first, and fences the former producer in every call"""
    for old in (True, False):
        topic, name = bench.topic(), bench.name()
        first = bench.producer(name, v2=not old)
        first.sent(topic, 0, [b"lost"])
        second = bench.producer(name, new=False, v2=not old)
        equal(who(second.asked_for_id()), (CONCURRENT, *NOBODY), "first answer")
        second.initialise()
        equal((second.producer_id, second.epoch), (first.producer_id, first.epoch + 2), "id and epoch of the one that took over")
        equal(state_of(bench.admin, name), "Empty", "state")
        equal([m[1:4] for m in markers(bench.admin, topic)], [(first.producer_id, first.epoch + 1, "abort")], "markers")
        equal(read(bench.admin, topic), [], "committed records")
        equal(code(first.send(topic)), INVALID_EPOCH, "error of the former one's Produce")
        equal([first.end(c, v) for c in (True, False) for v in (0, 1, 2, 3, 4, 5)], [INVALID_EPOCH] * 2 + [FENCED] * 4 + [INVALID_EPOCH] * 2 + [FENCED] * 4,
              "errors of its EndTxn")
        equal([first.add(topic, [1], v)[1] for v in range(4)], [INVALID_EPOCH] * 2 + [FENCED] * 2, "errors of its AddPartitionsToTxn")
        equal([first.add_offsets("g", v) for v in range(5)], [INVALID_EPOCH] * 2 + [FENCED] * 3, "errors of its AddOffsetsToTxn")
        equal(first.commit_offsets(bench.name(), topic, {0: 1}), {0: INVALID_EPOCH}, "error of its TxnOffsetCommit")
        equal(code(first.asked_for_id(5, producer_id=first.producer_id, producer_epoch=first.epoch)), FENCED, "error of its InitProducerId")
        second.sent(topic, 0, [b"kept"])
        bench.commit(second)
        equal([v for _, v in read(bench.admin, topic)], [b"kept"], "committed records at the end")


def resumes_open(bench):
    """InitProducerId with the producer's own id and epoch while its transaction is open aborts it and leaves one epoch more"""
    for old in (True, False):
        topic, one = bench.topic(), bench.producer(v2=not old)
        one.sent(topic)
        pid, epoch = one.producer_id, one.epoch
        equal(code(one.asked_for_id(5, producer_id=pid, producer_epoch=epoch)), CONCURRENT, "error of the first call")
        one.initialise(producer_id=pid, producer_epoch=epoch)
        equal((one.producer_id, one.epoch), (pid, epoch + 1), "id and epoch")
        equal([m[3] for m in markers(bench.admin, topic)], ["abort"], "markers")


def finds_coordinator(bench):
    """FindCoordinator of transactional ids, in every version, also of an empty one"""
    where = bench.bootstrap.rsplit(":", 1)[1]
    for version in range(1, 7):
        answer = bench.admin.call(FIND, version, key="x", key_type=1, coordinator_keys=["x", ""])
        rows = answer["coordinators"] if version >= 4 else [answer]
        equal([(r["error_code"], str(r["port"])) for r in rows], [(0, where)] * len(rows), f"answer, v{version}")


# --- transactions as they were before KIP-890 -----------------------------------

def adds_partitions(bench):
    """AddPartitionsToTxn 0 to 3: opens the transaction, takes all or nothing, and tells who may not add"""
    topic, one = bench.topic(), bench.old()
    equal([one.add(topic, [0, 1], v) for v in range(4)], [{0: 0, 1: 0}] * 4, "errors")
    row = transaction(bench.admin, one.id)
    equal((row["state"], [(t["name"], sorted(t["partitions"])) for t in row["topics"]]), ("Ongoing", [(topic, [0, 1])]), "described transaction")
    assert abs(row["start_time_ms"] / 1000 - time.time()) < 60, f"it began at {row['start_time_ms']}"
    equal(one.add(topic, [2, 9]), {2: NOT_ATTEMPTED, 9: UNKNOWN_TOPIC}, "errors with an unknown partition")
    answer = one.call(ADD_PARTITIONS, 3, **one._self(), topics=[{"name": topic, "partitions": [3]}, {"name": "no-such-topic", "partitions": [0]}])
    equal({t["name"]: t["partitions"][0]["error_code"] for t in answer["topics"]}, {topic: NOT_ATTEMPTED, "no-such-topic": UNKNOWN_TOPIC},
          "errors with an unknown topic")
    equal(sorted(transaction(bench.admin, one.id)["topics"][0]["partitions"]), [0, 1], "partitions after what failed")
    for version in range(4):
        wrong = FENCED if version >= 2 else INVALID_EPOCH
        for label, over, want in (("an epoch to come", {"producer_epoch": one.epoch + 1}, wrong), ("another id", {"producer_id": 1 << 40}, INVALID_MAPPING),
                                  ("an unknown transactional id", {"transactional_id": bench.name()}, INVALID_MAPPING),
                                  ("no transactional id", {"transactional_id": ""}, INVALID_REQUEST)):
            equal(one.add(topic, [0], version, **over), {0: want}, f"error with {label}, v{version}")


def adds_for_many(bench):
    """AddPartitionsToTxn 4 and 5, the brokers' own: several transactions at once, adding or only asking"""
    for version in (4, 5):
        topic, one, two = bench.topic(), bench.old(), bench.old()
        ask = lambda *rows: bench.admin.call(ADD_PARTITIONS, version, transactions=list(rows))  # noqa: E731
        row = lambda p, parts, only, **over: dict(p._self(), verify_only=only, topics=[{"name": topic, "partitions": parts}], **over)  # noqa: E731
        result = lambda answer: {r["transactional_id"]: {p["index"]: p["error_code"] for p in r["topics"][0]["partitions"]}  # noqa: E731
                                 for r in answer["results"]}
        equal(result(ask(row(one, [0, 1], False), row(two, [1], False))), {one.id: {0: 0, 1: 0}, two.id: {1: 0}}, f"errors of adding, v{version}")
        nobody = bench.name()
        answer = ask(row(one, [0, 3], True), row(two, [1], True), row(one, [0], True) | {"transactional_id": nobody})
        equal((answer["error_code"], result(answer)), (0, {one.id: {0: 0, 3: ABORTABLE}, two.id: {1: 0}, nobody: {0: INVALID_MAPPING}}),
              f"errors of asking, v{version}")
        equal(transaction(bench.admin, one.id)["topics"][0]["partitions"].count(3), 0, "partitions that were only asked for")


def produces_what_was_added(bench):
    """Produce below 12: takes transactional batches for partitions that were added, and no others; the versions 3 to 11 alike"""
    topic, one = bench.topic(), bench.old()
    one.add(topic, [0, 1])
    equal(code(one.send(topic, 3)), ABORTABLE, "error for a partition that was not added")
    for i, version in enumerate(range(3, 12)):
        answer = one.send(topic, 0, version=version)
        equal((code(answer), answer["base_offset"]), (0, i), f"error and offset, v{version}")
    equal(code(one.send(topic, 1, transactional_id="")), NOT_AUTHORIZED, "error of a request without a transactional id")
    equal(code(one.send(topic, 0, transactional=False)), INVALID_STATE, "error of a plain batch within the transaction")
    equal(code(one.send(topic, 0, base_sequence=20)), OUT_OF_ORDER, "error of a gap")
    again = one.send(topic, 0, base_sequence=8)
    equal((code(again), again["base_offset"]), (0, 8), "answer to a retry")
    equal(code(one.send(topic, 2, transactional_id=bench.name())), INVALID_MAPPING, "error under an unknown transactional id")
    equal((offsets(bench.admin, topic, 0)[1], offsets(bench.admin, topic, 3)[1]), (9, 0), "log ends")
    bench.commit(one)
    equal(code(one.send(topic, 0)), ABORTABLE, "error after the end")
    one.add(topic, [0])
    equal((code(one.send(topic, 0)), end_offset(bench.admin, topic, 0, READ_COMMITTED)), (0, 10), "error and last stable offset in the next transaction")


def ends(bench):
    """EndTxn 0 to 4: commits and aborts are answered alike when they are repeated, and the other end is refused; the epoch stays"""
    topic, one = bench.topic(), bench.old()
    equal([one.end(c, v) for c in (True, False) for v in range(5)], [INVALID_STATE] * 10, "errors where nothing was begun")
    for commit, state in ((True, "CompleteCommit"), (False, "CompleteAbort")):
        one.sent(topic)
        for version in range(5):
            wrong = FENCED if version >= 2 else INVALID_EPOCH
            for label, over, want in (("an epoch to come", {"producer_epoch": one.epoch + 1}, wrong), ("another id", {"producer_id": 1 << 40}, INVALID_MAPPING),
                                      ("an unknown transactional id", {"transactional_id": bench.name()}, INVALID_MAPPING),
                                      ("no transactional id", {"transactional_id": ""}, INVALID_REQUEST)):
                equal(code(one.asked_to_end(commit, version, **over)), want, f"error with {label}, v{version}")
        one.ended(commit)
        bench.settled(one, state)
        row = transaction(bench.admin, one.id)
        equal((row["producer_epoch"], row["topics"]), (one.epoch, []), "epoch and partitions afterwards")
        equal([one.end(commit, v) for v in range(5)], [0] * 5, "errors of the same end again")
        equal([one.end(not commit, v) for v in range(5)], [INVALID_STATE] * 5, "errors of the other end")
    equal([m[1:] for m in markers(bench.admin, topic)], [(one.producer_id, 0, "commit", 0), (one.producer_id, 0, "abort", 0)], "markers")
    equal(read(bench.admin, topic), [(0, b"v")], "committed records")
    equal(read(bench.admin, topic, isolation=READ_UNCOMMITTED), [(0, b"v"), (2, b"v")], "all records")


def resumed_after_end(bench):
    """An old producer keeps its sequences from one transaction to the next; a retry of an earlier one's batch is answered as such"""
    topic, one = bench.topic(), bench.old()
    one.sent(topic, 0, [b"1"])
    bench.commit(one)
    one.sent(topic, 0, [b"2"])
    for sequence, offset in ((0, 0), (1, 2)):
        again = one.send(topic, 0, [b"again"], base_sequence=sequence)
        equal((code(again), again["base_offset"]), (0, offset), f"answer to a retry of sequence {sequence}")
    bench.commit(one)
    equal(read(bench.admin, topic), [(0, b"1"), (2, b"2")], "committed records")


# --- transactions as of KIP-890 --------------------------------------------------

def adds_by_producing(bench):
    """Produce 12 and 13 add their partitions to the transaction, open it, and refuse those that may not"""
    topic, one = bench.topic(), bench.producer()
    topic_id = bench.admin.call(3, 12, topics=[{"name": topic}], allow_auto_topic_creation=False)["topics"][0]["topic_id"]
    equal(code(one.send(topic, 0)), 0, "error of Produce 12")
    row = transaction(bench.admin, one.id)
    equal((row["state"], row["topics"]), ("Ongoing", [{"name": topic, "partitions": [0]}]), "described transaction")
    answer = one.call(PRODUCE, 13, transactional_id=one.id, topics=[{"topic_id": topic_id, "partitions": [
        {"index": 1, "records": one.records([b"v"], topic, 1)}]}])
    equal(code(answer["topics"][0]["partitions"][0]), 0, "error of Produce 13")
    answer = one.call(PRODUCE, 12, transactional_id=one.id, topics=[
        {"name": "no-such-topic", "partitions": [{"index": 0, "records": one.records([b"v"], topic, 3)}]},
        {"name": topic, "partitions": [{"index": i, "records": one.records([b"v"], topic, i)} for i in (2, 99)]}])
    got = {(t["name"], p["index"]): p["error_code"] for t in answer["topics"] for p in t["partitions"]}
    equal(got, {("no-such-topic", 0): UNKNOWN_TOPIC, (topic, 2): 0, (topic, 99): UNKNOWN_TOPIC}, "errors beside unknown partitions")
    equal(sorted(transaction(bench.admin, one.id)["topics"][0]["partitions"]), [0, 1, 2], "partitions")
    equal(code(one.send(topic, 3, transactional_id="")), NOT_AUTHORIZED, "error without a transactional id")
    equal(code(one.send(topic, 3, transactional_id=bench.name())), INVALID_MAPPING, "error under an unknown transactional id")
    equal(code(one.send(topic, 0, transactional=False)), INVALID_STATE, "error of a plain batch")
    again = one.send(topic, 0, base_sequence=0)
    equal((code(again), again["base_offset"]), (0, 0), "answer to a retry")
    equal(code(one.send(topic, 0, base_sequence=7)), OUT_OF_ORDER, "error of a gap")
    equal([code(one.send(topic, p, producer_epoch=5, base_sequence=0)) for p in (0, 3)], [INVALID_EPOCH] * 2, "errors of an epoch to come")
    stranger = bench.producer(new=False)
    stranger.producer_id, stranger.epoch = 1 << 40, 0
    equal([code(stranger.send(topic, 3, version=v)) for v in (11, 12)], [INVALID_MAPPING] * 2, "errors of a producer that nobody knows")
    equal(offsets(bench.admin, topic, 3)[1], 0, "log end of the partition that got nothing")


def bumps(bench):
    """EndTxn 5 raises the epoch, also of an abort of nothing; a retry is answered alike, older epochs are fenced in every partition"""
    topic, one = bench.topic(), bench.producer()
    one.sent(topic, 0)
    pid = one.producer_id
    equal(code(one.asked_to_end(True, producer_epoch=one.epoch + 1)), FENCED, "error of an epoch to come")
    equal(who(one.asked_to_end(True)), (0, pid, 1), "answer")
    bench.settled(one, "CompleteCommit")
    equal(who(one.asked_to_end(True)), (0, pid, 1), "answer to a retry")
    equal(code(one.asked_to_end(False)), INVALID_STATE, "error of the other end")
    equal([m[1:4] for m in markers(bench.admin, topic)], [(pid, 1, "commit")], "markers")
    row = producers(bench.admin, topic)[pid]
    equal((row["producer_epoch"], row["last_sequence"], row["txn_start_offset"]), (1, -1, -1), "what the partition knows of the producer")
    equal([code(one.send(topic, p, base_sequence=1 - p)) for p in (0, 1)], [INVALID_EPOCH] * 2, "errors of the former epoch")
    one.epoch, one.sequences = 1, {}
    equal(code(one.asked_to_end(True)), INVALID_STATE, "error of a commit of nothing")
    equal(who(one.asked_to_end(False)), (0, pid, 2), "answer to an abort of nothing")
    bench.settled(one, "CompleteAbort")
    one.epoch = 2
    one.sent(topic, 0, [b"x"])
    bench.abort(one)
    equal((one.epoch, transaction(bench.admin, one.id)["producer_epoch"]), (3, 3), "epochs after an abort")
    equal(code(one.send(topic, 0, base_sequence=4)), OUT_OF_ORDER, "error of a new epoch that does not begin at 0")
    equal(read(bench.admin, topic), [(0, b"v")], "committed records")


def both_ways(bench):
    """Old and new calls of one producer mix: EndTxn 5 raises the epoch of what was added by hand, EndTxn 4 keeps that of what was not"""
    topic = bench.topic()
    one = bench.old()
    one.sent(topic)
    equal(who(one.asked_to_end(True, 5)), (0, one.producer_id, 1), "answer of EndTxn 5")
    bench.settled(one, "CompleteCommit")
    two = bench.producer()
    two.sent(topic)
    bench.commit(two, 4)
    equal(transaction(bench.admin, two.id)["producer_epoch"], 0, "epoch after EndTxn 4")
    equal([m[1:4] for m in markers(bench.admin, topic)], [(one.producer_id, 1, "commit"), (two.producer_id, 0, "commit")], "markers")


def straight_on(bench):
    """Transactions in close succession: each next one may begin as soon as the end of the last is answered"""
    topic, one, sent = bench.topic(), bench.producer(), {True: [], False: []}
    for i in range(40):
        for p in range(4):
            one.sent(topic, p, [b"%d" % i])
        one.ended(i % 3 != 0)
        sent[i % 3 != 0].append(b"%d" % i)
    bench.settled(one, "CompleteAbort")
    for p in range(4):
        equal([v for _, v in read(bench.admin, topic, p)], sent[True], f"committed records of partition {p}")
        equal(len(markers(bench.admin, topic, p)), 40, f"count of markers of partition {p}")


def odd_batches(bench):
    """Transactional batches without a sequence, and control batches, are refused"""
    topic, one = bench.topic(), bench.producer()
    equal(code(one.send(topic, 0, base_sequence=-1)), INVALID_RECORD, "error without a sequence")
    equal(code(one.send(topic, 0, attributes=0x30)), INVALID_RECORD, "error of a control batch")
    equal(offsets(bench.admin, topic, 0)[1], 0, "log end")


def plain_afterwards(bench):
    """A producer id of a transactional producer may be used without transactions when none is open"""
    topic, one = bench.topic(), bench.producer()
    one.sent(topic)
    bench.commit(one)
    equal([code(one.send(topic, 0, transactional=False, transactional_id="", version=v)) for v in (11, 12)], [0, 0], "errors")
    equal((end_offset(bench.admin, topic), end_offset(bench.admin, topic, isolation=READ_COMMITTED)), (4, 4), "ends")


# --- what readers see ---------------------------------------------------------------

def last_stable(bench):
    """The last stable offset is the first one of the oldest open transaction, at Fetch and at ListOffsets; nothing behind it is given out"""
    topic, one, two = bench.topic(), bench.producer(), bench.producer()
    produce(bench.admin, topic, 0, batch([b"plain"]))
    one.sent(topic, 0, [b"one"])
    two.sent(topic, 0, [b"two"])
    produce(bench.admin, topic, 0, batch([b"more"]))
    ends = lambda: [end_offset(bench.admin, topic, 0, i) for i in (READ_UNCOMMITTED, READ_COMMITTED)]  # noqa: E731
    equal(ends(), [4, 1], "high watermark and last stable offset")
    for version in (4, 7, 11, 12):
        row = fetched(bench.admin, topic, 0, 0, version=version)
        equal((row["high_watermark"], row["last_stable_offset"], committed_records(row)), (4, 1, [(0, b"plain")]), f"Fetch, v{version}")
        for offset in (1, 3, 4):
            row = fetched(bench.admin, topic, 0, offset, version=version)
            equal(list(batches(row["records"] or b"")), [], f"batches at {offset}, v{version}")
        row = fetched(bench.admin, topic, 0, 0, READ_UNCOMMITTED, version=version)
        equal((row["last_stable_offset"], row["aborted_transactions"], len(list(batches(row["records"])))), (1, None, 4), f"read_uncommitted, v{version}")
    bench.commit(two)
    equal(ends(), [5, 1], "ends when the younger one has ended")
    bench.commit(one)
    equal(ends(), [6, 6], "ends when both have ended")
    equal([v for _, v in read(bench.admin, topic)], [b"plain", b"one", b"two", b"more"], "committed records")


def listed_offsets(bench):
    """ListOffsets with read_committed: nothing at or behind the last stable offset is found by time"""
    topic, one = bench.topic(), bench.producer()
    produce(bench.admin, topic, 0, batch([b"plain"], base_timestamp=1_000_000))
    one.sent(topic, 0, [b"open"], base_timestamp=2_000_000, max_timestamp=2_000_000)
    for label, timestamp, want in (("latest", -1, (2, 1)), ("earliest", -2, (0, 0)), ("an early time", 500_000, (0, 0)), ("a time of what is open", 1_500_000, (1, -1)),
                                   ("a time to come", 1 << 50, (-1, -1))):
        got = tuple(bench.admin.call(LIST_OFFSETS, 7, isolation_level=i, topics=[
            {"name": topic, "partitions": [{"index": 0, "timestamp": timestamp}]}])["topics"][0]["partitions"][0]["offset"] for i in (0, 1))
        equal(got, want, f"offsets for {label}")


def aborted_list(bench):
    """The list of aborted transactions: those that overlap what is fetched, from within them too, whoever they are interleaved with"""
    topic, one, two, three = bench.topic(), bench.producer(), bench.producer(), bench.producer()
    one.sent(topic, 0, [b"a0"])            # 0
    two.sent(topic, 0, [b"b0", b"b1"])     # 1 and 2
    produce(bench.admin, topic, 0, batch([b"plain"]))  # 3
    one.sent(topic, 0, [b"a1"])            # 4
    three.sent(topic, 0, [b"c0"])          # 5
    first = {one.producer_id: 0, two.producer_id: 1}
    bench.abort(two)                       # 6
    equal(end_offset(bench.admin, topic, 0, READ_COMMITTED), 0, "last stable offset while the oldest is open")
    bench.abort(one)                       # 7
    equal(end_offset(bench.admin, topic, 0, READ_COMMITTED), 5, "last stable offset then")
    for offset in range(8):
        row = fetched(bench.admin, topic, 0, offset)
        listed = {a["producer_id"]: a["first_offset"] for a in row["aborted_transactions"] or []}
        equal(listed, first if offset < 5 else {}, f"aborted transactions from {offset}")
        equal(committed_records(row), [(3, b"plain")] if offset <= 3 else [], f"committed records from {offset}")
    bench.commit(three)                    # 8
    for offset, want in ((5, first), (6, first), (7, {one.producer_id: 0}), (8, {})):
        row = fetched(bench.admin, topic, 0, offset)
        equal({a["producer_id"]: a["first_offset"] for a in row["aborted_transactions"] or []}, want, f"aborted transactions from {offset} at the end")
    equal([v for _, v in read(bench.admin, topic)], [b"plain", b"c0"], "committed records")
    for size in (1, 100, 200):
        equal([v for _, v in read(bench.admin, topic, max_bytes=size)], [b"plain", b"c0"], f"committed records in pieces of {size} bytes")


def long_polls(bench):
    """A waiting Fetch of committed records is answered by the end of the transaction, not by its records"""
    topic, one, took = bench.topic(), bench.producer(), []
    one.sent(topic, 0, [b"1"])

    def wait():
        with Connection(bench.bootstrap, timeout=20) as connection:
            began = time.monotonic()
            took.append((committed_records(fetched(connection, topic, 0, 0, wait_ms=15_000)), time.monotonic() - began))
    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.3)
    one.sent(topic, 0, [b"2"])
    time.sleep(0.3)
    assert not took, f"it was answered before the end: {took}"
    one.ended(True)
    thread.join()
    records, seconds = took[0]
    equal([v for _, v in records], [b"1", b"2"], "what it was answered")
    assert seconds < 8, f"it waited {seconds:.1f} s"


def sessions(bench):
    """A fetch session of committed records goes on over the ends of transactions"""
    topic, one = bench.topic(), bench.producer()

    def ask(connection, session, epoch, offset):
        answer = connection.call(1, 11, max_wait_ms=0, isolation_level=1, session_id=session, session_epoch=epoch, topics=[] if offset is None else [
            {"name": topic, "partitions": [{"index": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}]}])
        equal(answer["error_code"], 0, "error of the session")
        return answer["session_id"], [p for t in answer["topics"] for p in t["partitions"]]
    with Connection(bench.bootstrap) as connection:
        session, _ = ask(connection, 0, 0, 0)
        one.sent(topic, 0, [b"1"])
        _, rows = ask(connection, session, 1, None)
        equal([b for r in rows for b in batches(r["records"] or b"")], [], "batches of an open transaction")
        bench.abort(one)
        _, rows = ask(connection, session, 2, None)
        equal([(a["producer_id"], a["first_offset"]) for r in rows for a in r["aborted_transactions"]], [(one.producer_id, 0)], "aborted transactions")
        one.sent(topic, 0, [b"2"])
        bench.commit(one)
        _, rows = ask(connection, session, 3, 2)
        equal([v for r in rows for v in committed_records(r)], [(2, b"2")], "committed records")
        equal(ask(connection, session, 4, 4)[1], [], "partitions at the end")


def deleted_under(bench):
    """Records of an open transaction may be deleted; the last stable offset is never before the log's start"""
    topic, one = bench.topic(), bench.producer()
    one.sent(topic, 0, [b"1"])
    equal(delete_records(bench.admin, topic, 0, -1), (0, 1), "answer of DeleteRecords")
    equal(end_offset(bench.admin, topic, 0, READ_COMMITTED), 1, "last stable offset")
    one.sent(topic, 0, [b"2"])
    bench.commit(one)
    equal((end_offset(bench.admin, topic, 0, READ_COMMITTED), committed_records(fetched(bench.admin, topic, 0, 1))), (3, [(1, b"2")]),
          "last stable offset and committed records at the end")


# --- offsets -------------------------------------------------------------------------

def offset_rows(bench, group, topic, stable, version=7):
    """{partition: (offset, error)} of OffsetFetch."""
    asked = [{"name": topic, "partitions": [0, 1, 2]}]
    answer = bench.admin.call(FETCH_OFFSETS, version, group_id=group, require_stable=stable, topics=asked, groups=[{"group_id": group, "topics": asked}])
    answer = answer["groups"][0] if version >= 8 else answer
    equal(answer["error_code"], 0, "error of OffsetFetch")
    return {p["index"]: (p["offset"], p["error_code"]) for p in answer["topics"][0]["partitions"]}


NONE, PENDING = (-1, 0), (-1, UNSTABLE)


def commits_offsets(bench):
    """TxnOffsetCommit: pending until the end, then committed or dropped; OffsetFetch tells it apart when it must be stable, in all versions"""
    for old in (True, False):
        topic, group, one = bench.topic(), bench.name(), bench.producer(v2=not old)
        if old:
            equal([one.commit_offsets(group, topic, {0: 5}, version=v)[0] for v in range(5)], [INVALID_STATE] * 4 + [ABORTABLE], "errors before the group was added")
            equal([one.add_offsets(group, v) for v in range(5)], [0] * 5, "errors of AddOffsetsToTxn")
        for version in (range(5) if old else (5,)):
            equal(one.commit_offsets(group, topic, {0: 5 + version, 1: 6}, version=version), {0: 0, 1: 0}, f"errors of TxnOffsetCommit, v{version}")
        equal([t["name"] for t in transaction(bench.admin, one.id)["topics"]], ["__consumer_offsets"], "topics of the transaction")
        for version in (7, 8, 9):
            equal(offset_rows(bench, group, topic, True, version), {0: PENDING, 1: PENDING, 2: NONE}, f"stable offsets, v{version}")
            equal(offset_rows(bench, group, topic, False, version), {0: NONE, 1: NONE, 2: NONE}, f"offsets, v{version}")
        bench.commit(one)
        last = 9 if old else 10
        equal(offset_rows(bench, group, topic, True), {0: (last, 0), 1: (6, 0), 2: NONE}, "offsets after the commit")
        if old:
            one.add_offsets(group)
        equal(one.commit_offsets(group, topic, {0: 77}), {0: 0}, "error of another TxnOffsetCommit")
        equal(offset_rows(bench, group, topic, True), {0: PENDING, 1: (6, 0), 2: NONE}, "stable offsets with a pending one")
        equal(offset_rows(bench, group, topic, False), {0: (last, 0), 1: (6, 0), 2: NONE}, "offsets with a pending one")
        bench.abort(one)
        equal(offset_rows(bench, group, topic, True), {0: (last, 0), 1: (6, 0), 2: NONE}, "offsets after the abort")


def commits_of_others(bench):
    """TxnOffsetCommit: errors of its members, groups, partitions and words; AddOffsetsToTxn: of its producers"""
    topic, group, one = bench.topic(), bench.name(), bench.old()
    for label, over, want in (("an epoch to come", {"producer_epoch": 9}, FENCED), ("another id", {"producer_id": 1 << 40}, INVALID_MAPPING),
                              ("an unknown transactional id", {"transactional_id": bench.name()}, INVALID_MAPPING),
                              ("no transactional id", {"transactional_id": ""}, INVALID_REQUEST)):
        equal(one.add_offsets(group, **over), want, f"error of AddOffsetsToTxn with {label}")
    one.add_offsets(group)
    equal(one.commit_offsets(group, topic, {0: 1, 9: 1}), {0: 0, 9: UNKNOWN_TOPIC}, "errors with an unknown partition")
    equal(one.commit_offsets(group, "no-such-topic", {0: 1}), {0: UNKNOWN_TOPIC}, "error of an unknown topic")
    answer = one.call(COMMIT_OFFSETS, 3, **one._self(), group_id=group, topics=[{"name": topic, "partitions": [{"index": 3, "offset": 1, "metadata": "x" * 5000}]}])
    equal(code(answer["topics"][0]["partitions"][0]), METADATA_TOO_LARGE, "error of too many words")
    equal(one.commit_offsets(group, topic, {0: 1}, producer_epoch=9), {0: INVALID_EPOCH}, "error of an epoch to come")
    equal(one.commit_offsets("", topic, {0: 1}), {0: INVALID_GROUP}, "error of an empty group id")
    equal(one.commit_offsets(group, topic, {0: 1}, generation_id=1), {0: UNKNOWN_MEMBER}, "error of a generation without a member")
    new = bench.producer()
    other = bench.name()
    equal(new.commit_offsets(other, topic, {0: 1}, transactional_id=bench.name()), {0: INVALID_MAPPING}, "error of version 5 under an unknown transactional id")
    equal(new.commit_offsets(other, topic, {0: 1}, producer_epoch=9), {0: INVALID_EPOCH}, "error of version 5 with an epoch to come")
    member = Member(bench.bootstrap, bench.name())
    form(member)
    for label, over, want in (("its own", {}, 0), ("an older generation", {"generation_id": member.generation - 1}, ILLEGAL_GENERATION),
                              ("a newer generation", {"generation_id": member.generation + 1}, ILLEGAL_GENERATION),
                              ("an unknown member", {"member_id": "nobody"}, UNKNOWN_MEMBER), ("an unknown instance", {"group_instance_id": "i"}, UNKNOWN_MEMBER)):
        how = dict({"generation_id": member.generation, "member_id": member.member_id}, **over)
        equal(new.commit_offsets(member.group, topic, {0: 1}, **how), {0: want}, f"error with {label}")
    equal(new.commit_offsets(member.group, topic, {0: 2}), {0: 0}, "error without membership, of a group that has members")
    member.close()


def plain_over_pending(bench):
    """A plain commit and a pending one live side by side: the later of the two in the log is what is left after the end"""
    topic, group, one = bench.topic(), bench.name(), bench.producer()
    one.commit_offsets(group, topic, {0: 5, 1: 6})
    equal(commit_alone(bench.admin, group, topic, {1: 100}), {1: 0}, "error of the plain commit")
    equal(offset_rows(bench, group, topic, True), {0: PENDING, 1: PENDING, 2: NONE}, "stable offsets")
    equal(offset_rows(bench, group, topic, False), {0: NONE, 1: (100, 0), 2: NONE}, "offsets")
    bench.commit(one)
    equal(offset_rows(bench, group, topic, True), {0: (5, 0), 1: (100, 0), 2: NONE}, "offsets after the end")


def pending_is_deleted(bench):
    """A group with pending offsets alone is deleted like another; what was pending does not come back with the commit"""
    topic, group, one = bench.topic(), bench.name(), bench.producer()
    one.commit_offsets(group, topic, {0: 5})
    commit_alone(bench.admin, group, topic, {1: 100})
    equal(code(bench.admin.call(DELETE_GROUPS, 2, groups_names=[group])["results"][0]), 0, "error of DeleteGroups")
    equal(bench.admin.call(FORGET, 0, group_id=group, topics=[{"name": topic, "partitions": [{"index": 0}]}])["error_code"], 69, "error of OffsetDelete")
    equal(offset_rows(bench, group, topic, True), {0: NONE, 1: NONE, 2: NONE}, "stable offsets")
    bench.commit(one)
    equal(offset_rows(bench, group, topic, True), {0: NONE, 1: NONE, 2: NONE}, "offsets after the end")


# --- ends without the producer ---------------------------------------------------------

def times_out(bench):
    """A transaction that lasts longer than its timeout is aborted, with an epoch more; the producer may go on after InitProducerId"""
    for old in (True, False):
        topic, one = bench.topic(), bench.producer(v2=not old, timeout_ms=1000)
        one.sent(topic, 0, [b"late"])
        bench.settled(one, "CompleteAbort")
        equal((transaction(bench.admin, one.id)["producer_epoch"], [m[1:4] for m in markers(bench.admin, topic)]),
              (one.epoch + 1, [(one.producer_id, one.epoch + 1, "abort")]), "epoch and markers")
        equal(end_offset(bench.admin, topic, 0, READ_COMMITTED), 2, "last stable offset")
        equal(code(one.send(topic)), INVALID_EPOCH, "error of Produce")
        equal(one.end(True), FENCED if old else INVALID_STATE, "error of EndTxn")
        if old:
            equal([one.add(topic, [0], v)[0] for v in (1, 3)], [INVALID_EPOCH, FENCED], "errors of AddPartitionsToTxn")
        one.initialise(producer_id=one.producer_id, producer_epoch=one.epoch)
        equal(one.epoch, 1, "epoch after InitProducerId")
        one.sent(topic, 0, [b"in time"])
        bench.commit(one)
        equal([v for _, v in read(bench.admin, topic)], [b"in time"], "committed records")


def topic_is_gone(bench):
    """A deleted topic among the participants does not hold the end up, neither of a commit nor of an abort"""
    for old in (True, False):
        for end, state in ((True, "CompleteCommit"), (False, "CompleteAbort")):
            doomed, topic, one = bench.topic(2), bench.topic(), bench.producer(v2=not old)
            one.sent(doomed, 0)
            one.sent(doomed, 1)
            one.sent(topic, 2)
            equal(delete_topic(bench.admin, doomed), 0, "error of DeleteTopics")
            one.ended(end)
            bench.settled(one, state)
            equal(end_offset(bench.admin, topic, 2, READ_COMMITTED), 2, "last stable offset of the other topic")


def topic_comes_again(bench):
    """A topic that is deleted and made anew within a transaction knows nothing of it"""
    topic, one = bench.topic(), bench.producer()
    one.sent(topic, 0, [b"before"])
    delete_topic(bench.admin, topic)
    deadline = time.monotonic() + 20
    while True:
        try:
            create_topic_and_wait(bench.admin, topic, 4)
            break
        except ValueError:
            assert time.monotonic() < deadline, "the topic cannot be made anew"
            time.sleep(0.1)
    produce(bench.admin, topic, 0, batch([b"after"]))
    equal(end_offset(bench.admin, topic, 0, READ_COMMITTED), 1, "last stable offset")
    bench.commit(one)
    equal([v for _, v in read(bench.admin, topic)], [b"after"], "committed records")


# --- operators -------------------------------------------------------------------------

def describes(bench):
    """DescribeTransactions: unknown and empty ids, and each state with its partitions"""
    topic, one, nobody = bench.topic(), bench.producer(), bench.name()
    rows = bench.admin.call(DESCRIBE, 0, transactional_ids=[nobody, "", one.id])["transactions"]
    equal([(r["error_code"], r["transactional_id"], r["state"]) for r in rows],
          [(NOT_FOUND, nobody, ""), (INVALID_REQUEST, "", ""), (0, one.id, "Empty")], "described transactions")
    for p in range(3):
        one.sent(topic, p)
    row = transaction(bench.admin, one.id)
    equal((row["state"], sorted(row["topics"][0]["partitions"]), row["producer_id"]), ("Ongoing", [0, 1, 2], one.producer_id), "an open one")
    bench.commit(one)
    row = transaction(bench.admin, one.id)
    equal((row["state"], row["topics"], row["producer_epoch"]), ("CompleteCommit", [], 1), "one that has ended")


def lists(bench):
    """ListTransactions 0 to 2: by state, producer id, duration and pattern"""
    topic, one, other = bench.topic(), bench.producer(), bench.producer()
    one.sent(topic)
    time.sleep(0.2)
    ask = lambda version, **how: bench.admin.call(LIST, version, **how)  # noqa: E731
    ids = lambda answer: {r["transactional_id"] for r in answer["transactions"]} & {one.id, other.id}  # noqa: E731
    for version in range(3):
        equal(ids(ask(version)), {one.id, other.id}, f"all, v{version}")
        equal(ids(ask(version, state_filters=["Ongoing"])), {one.id}, f"those that are open, v{version}")
        equal(ids(ask(version, state_filters=["Ongoing", "Empty"])), {one.id, other.id}, f"those of two states, v{version}")
        equal(ids(ask(version, producer_id_filters=[one.producer_id, 1 << 40])), {one.id}, f"those of a producer, v{version}")
        equal(ids(ask(version, producer_id_filters=[one.producer_id], state_filters=["Empty"])), set(), f"those of a producer and a state, v{version}")
        answer = ask(version, state_filters=["Odd", "ongoing"])
        equal((answer["error_code"], sorted(answer["unknown_state_filters"]), answer["transactions"]), (0, ["Odd", "ongoing"], []), f"of unknown states, v{version}")
    row = next(r for r in ask(2)["transactions"] if r["transactional_id"] == one.id)
    equal((row["producer_id"], row["state"]), (one.producer_id, "Ongoing"), "the row of one")
    for version in (1, 2):
        equal(ids(ask(version, duration_filter_ms=50, state_filters=["Ongoing"])), {one.id}, f"those that are open for 50 ms, v{version}")
        equal(ids(ask(version, duration_filter_ms=50_000, state_filters=["Ongoing"])), set(), f"those that are open for 50 s, v{version}")
    for pattern, want in ((one.id, {one.id}), (one.id + ".*", {one.id}), (one.id[:-1], set()), ("", {one.id, other.id}), (None, {one.id, other.id})):
        equal(ids(ask(2, transactional_id_pattern=pattern)), want, f"those with the pattern {pattern!r}")
    equal(ask(2, transactional_id_pattern="[")["error_code"], INVALID_PATTERN, "error of a pattern that is none")


def describes_producers(bench):
    """DescribeProducers: the start of an open transaction, and that it has ended; epochs of producer and coordinator"""
    topic, one = bench.topic(), bench.producer()
    produce(bench.admin, topic, 0, batch([b"plain"]))
    one.sent(topic, 0, [b"a", b"b"])
    row = producers(bench.admin, topic)[one.producer_id]
    equal((row["producer_epoch"], row["last_sequence"], row["coordinator_epoch"], row["txn_start_offset"]), (0, 1, -1, 1), "an open transaction")
    bench.commit(one)
    row = producers(bench.admin, topic)[one.producer_id]
    equal((row["producer_epoch"], row["last_sequence"], row["coordinator_epoch"], row["txn_start_offset"]), (1, -1, 0, -1), "one that has ended")
    answer = bench.admin.call(DESCRIBE_PRODUCERS, 0, topics=[{"name": "no-such-topic", "partitions": [0]}, {"name": topic, "partitions": [99]}])
    equal({t["name"]: t["partitions"][0]["error_code"] for t in answer["topics"]}, {"no-such-topic": UNKNOWN_TOPIC, topic: UNKNOWN_TOPIC}, "errors")


def markers_by_hand(bench):
    """WriteTxnMarkers, as kafka-transactions --abort sends it: fences older epochs and coordinators, and frees what hangs"""
    topic, one = bench.topic(), bench.producer()
    one.initialise()
    one.sent(topic, 0, [b"hangs"])

    def mark(version=2, want=0, **over):
        fields = {"producer_id": one.producer_id, "producer_epoch": one.epoch, "committed": False, "coordinator_epoch": 0, "transaction_version": 0,
                  "topics": [{"name": topic, "partitions": [0]}]}
        answer = bench.admin.call(WRITE_MARKERS, version, markers=[dict(fields, **over)])
        equal([p["error_code"] for t in answer["markers"][0]["topics"] for p in t["partitions"]], [want], f"error with {over}, v{version}")
    mark(want=UNKNOWN_TOPIC, topics=[{"name": "no-such-topic", "partitions": [0]}])
    mark(want=UNKNOWN_TOPIC, topics=[{"name": topic, "partitions": [99]}])
    mark(want=INVALID_EPOCH, producer_epoch=one.epoch - 1)
    mark(want=INVALID_EPOCH, transaction_version=2)
    equal((markers(bench.admin, topic), end_offset(bench.admin, topic, 0, READ_COMMITTED)), ([], 0), "markers and last stable offset after what failed")
    mark(coordinator_epoch=-1)
    row = producers(bench.admin, topic)[one.producer_id]
    equal((row["txn_start_offset"], end_offset(bench.admin, topic, 0, READ_COMMITTED), state_of(bench.admin, one.id)), (-1, 2, "Ongoing"),
          "start of the transaction, last stable offset, and state for its coordinator")
    mark(version=1)
    mark(want=COORDINATOR_FENCED, coordinator_epoch=-1)
    equal([m[1:] for m in markers(bench.admin, topic)], [(one.producer_id, 1, "abort", -1), (one.producer_id, 1, "abort", 0)], "markers")
    equal(read(bench.admin, topic), [], "committed records")


# --- long ------------------------------------------------------------------------------

def worn_out(bench):
    """When a producer id has used up its epochs, the transactional id gets another one at epoch 0"""
    one = bench.producer()
    pid = one.producer_id
    for i in range(70_000):
        found = one.asked_for_id(5)
        equal(code(found), 0, f"error of call {i}")
        if found["producer_id"] != pid:
            break
    equal((found["producer_epoch"], i), (0, 32_766), "epoch of the new producer id, and the number of the call")
    topic = bench.topic()
    one.producer_id, one.epoch = found["producer_id"], 0
    one.sent(topic)
    bench.commit(one)
    equal(read(bench.admin, topic), [(0, b"v")], "committed records")


CHECKS = [fresh_ids, bad_ids, resumed_ids, unknown_resumed, takes_over, resumes_open, finds_coordinator,
          adds_partitions, adds_for_many, produces_what_was_added, ends, resumed_after_end,
          adds_by_producing, bumps, both_ways, straight_on, odd_batches, plain_afterwards,
          last_stable, listed_offsets, aborted_list, long_polls, sessions, deleted_under,
          commits_offsets, commits_of_others, plain_over_pending, pending_is_deleted,
          times_out, topic_is_gone, topic_comes_again, describes, lists, describes_producers, markers_by_hand]
LONG_CHECKS = [worn_out]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("--reference", action="store_true", help="the broker is Apache Kafka")
    parser.add_argument("--only", default="")
    parser.add_argument("--long", action="store_true")
    args = parser.parse_args()
    bench, failed = Bench(args.bootstrap), 0
    for check in CHECKS + (LONG_CHECKS if args.long else []):
        if args.only not in check.__name__:
            continue
        began = time.monotonic()
        try:
            check(bench)
            print(f"PASS {check.__name__}: {check.__doc__} ({time.monotonic() - began:.1f} s)", flush=True)
        except Exception as error:  # whatever it was, the rule was not kept
            failed += 1
            print(f"FAIL {check.__name__}: {check.__doc__}: {error!r}", flush=True)
            bench.swept()
            try:
                bench = Bench(args.bootstrap)
            except (OSError, ValueError, Closed, Silent) as gone:
                sys.exit(f"the broker does not answer any more: {gone!r}")
        bench.swept()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
