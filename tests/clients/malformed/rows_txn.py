"""Transactions: ids, partitions and offsets of a transaction, its end, markers, and the APIs of operators."""

from bench import Row
from messages import encode_request
from rawkafka import batch

INIT, ADD, ADD_OFFSETS, END, MARK, COMMIT, DESCRIBE, LIST = 22, 24, 25, 26, 27, 28, 65, 66
NO_EPOCH = "an epoch that nobody can have is fenced before anybody is looked for"
STRAY = "Kafka's -1 is a stray exception; the request is what is wrong"
NOBODY = {"transactional_id": "malformed-none", "producer_id": 1 << 40, "producer_epoch": 0}


def call(name, key, version, expect, ours=None, why=None, wait=5.0, **fields):
    """A row; functions among the fields are called with the bench."""
    def make(bench):
        return encode_request(key, version, {k: v(bench) if callable(v) else v for k, v in fields.items()})[0]
    return Row(name, key, version, make, expect, ours=ours, why=why, wait=wait)


def init(name, expect, version=5, **fields):
    return call(f"init producer id: {name}", INIT, version, expect, **fields)


def add(name, expect, version=3, topics=None, **fields):
    topics = topics or (lambda bench: [{"name": bench.topic, "partitions": [0]}])
    return call(f"add partitions: {name}, v{version}", ADD, version, expect, **dict(NOBODY, topics=topics, **fields))


def add_many(name, expect, transactions, **how):
    return call(f"add partitions: {name}, v5", ADD, 5, expect, transactions=transactions, **how)


def transaction(bench, **fields):
    return dict(NOBODY, topics=[{"name": bench.topic, "partitions": [0]}], **fields)


def add_offsets(name, expect, version=4, **fields):
    return call(f"add offsets: {name}, v{version}", ADD_OFFSETS, version, expect, **dict(dict(NOBODY, group_id="malformed"), **fields))


def end(name, expect, version=5, **fields):
    return call(f"end transaction: {name}, v{version}", END, version, expect, **dict(dict(NOBODY, committed=True), **fields))


def mark(name, expect, version=2, topics=None, ours=None, why=None, **fields):
    topics = topics or (lambda bench: [{"name": bench.topic, "partitions": [0]}])

    def make(bench):
        one = dict({"producer_id": 1 << 41, "producer_epoch": 0, "coordinator_epoch": 0}, **fields)
        return encode_request(MARK, version, {"markers": [dict(one, topics=topics(bench))]})[0]
    return Row(f"write markers: {name}, v{version}", MARK, version, make, expect, ours=ours, why=why)


def commit(name, expect, version=5, part=None, topic=None, **fields):
    def topics(bench):
        return [dict({"name": bench.topic}, **(topic or {}), partitions=[dict({"index": 0, "offset": 1, "metadata": ""}, **(part or {}))])]
    return call(f"transactional commit: {name}, v{version}", COMMIT, version, expect, **dict(dict(NOBODY, group_id="malformed", topics=topics), **fields))


def produce(name, expect, version=12, transactional_id="malformed-none", ours=None, why=None, **over):
    fields = dict({"attributes": 0x10, "producer_id": 1 << 40, "producer_epoch": 0, "base_sequence": 0}, **over)

    def make(bench):
        raw = batch([b"v"], **fields)
        return encode_request(0, version, {"transactional_id": transactional_id, "topics": [
            {"name": bench.topic, "topic_id": bench.topic_id, "partitions": [{"index": 0, "records": raw}]}]})[0]
    return Row(f"produce: transactional, {name}, v{version}", 0, version, make, expect, ours=ours, why=why, leo=False)


ROWS = [
    init("transactional id, timeout 0", "answer 50", transactional_id="malformed-t", transaction_timeout_ms=0),
    init("transactional id, timeout -1", "answer 50", transactional_id="malformed-t", transaction_timeout_ms=-1),
    init("transactional id, timeout -2^31", "answer 50", transactional_id="malformed-t", transaction_timeout_ms=-(1 << 31)),
    init("transactional id, timeout 2^31-1", "answer 50", transactional_id="malformed-t", transaction_timeout_ms=0x7FFFFFFF),
    init("transactional id of 32767 bytes", "answer 0", version=1, transactional_id="t" * 32767),
    # The first of these makes the id, for which the others are wrong.
    init("transactional id, producer id -5", ("answer 0", "answer 90"), transactional_id="malformed-t", producer_id=-5, producer_epoch=1),
    init("transactional id, epoch -5", ("answer 90", "answer 0"), transactional_id="malformed-t", producer_id=5, producer_epoch=-5),
    init("transactional id, epoch 32767", ("answer 90", "answer 0"), transactional_id="malformed-t", producer_id=5, producer_epoch=32767),
    *[add("nobody's", "answer 49", version=v) for v in (0, 3)],
    *[add("empty transactional id", "answer 42", version=v, transactional_id="") for v in (0, 3)],
    add("no topics", "answer 49", topics=[]),
    add("no partitions", "answer ", topics=lambda b: [{"name": b.topic, "partitions": []}]),
    add("unknown topic", "answer 3", topics=[{"name": "no-such-topic", "partitions": [0]}]),
    add("empty topic name", "answer 3", topics=[{"name": "", "partitions": [0]}]),
    add("negative partition", "answer 3", topics=lambda b: [{"name": b.topic, "partitions": [-1]}]),
    add("one partition twice", "answer 49,49", topics=lambda b: [{"name": b.topic, "partitions": [0, 0]}]),
    add("one topic twice", "answer 49,49", topics=lambda b: [{"name": b.topic, "partitions": [0]}] * 2),
    add("the broker's own topic", "answer 29", topics=[{"name": "__consumer_offsets", "partitions": [0]}]),
    add("producer id -1", "answer 49", producer_id=-1),
    add("epoch -1", "answer 49", producer_epoch=-1, ours="answer 90", why=NO_EPOCH),
    add_many("no transactions", "silent", [], ours="answer 0", why="Kafka forgets to answer; the request asks for nothing"),
    add_many("nobody's", "answer 0,49", lambda b: [transaction(b)]),
    add_many("empty transactional id", "answer 0,42", lambda b: [transaction(b) | {"transactional_id": ""}]),
    add_many("one transaction twice", "answer 0,49,49", lambda b: [transaction(b)] * 2),
    add_many("verify only, unknown topic", "answer 0,3", lambda b: [transaction(b, verify_only=True) | {"topics": [{"name": "no-such-topic", "partitions": [0]}]}]),
    *[add_offsets("nobody's", "answer 49", version=v) for v in (0, 4)],
    add_offsets("empty transactional id", "answer 42", transactional_id=""),
    add_offsets("empty group id", "answer 49", group_id=""),
    add_offsets("producer id -1", "answer 49", producer_id=-1),
    *[end("nobody's", "answer 49", version=v) for v in (0, 3, 4, 5)],
    *[end("empty transactional id", "answer 42", version=v, transactional_id="") for v in (0, 5)],
    end("producer id -1", "answer 49", producer_id=-1),
    end("epoch -1", "answer 49", producer_epoch=-1, ours="answer 90", why=NO_EPOCH),
    call("write markers: none", MARK, 2, "answer "),
    mark("no topics", "answer ", topics=lambda b: []),
    mark("no partitions", "answer ", topics=lambda b: [{"name": b.topic, "partitions": []}]),
    mark("unknown topic", "answer 3", topics=lambda b: [{"name": "no-such-topic", "partitions": [0]}]),
    mark("unknown partition", "answer 3", topics=lambda b: [{"name": b.topic, "partitions": [99]}]),
    mark("negative partition", "answer 3", topics=lambda b: [{"name": b.topic, "partitions": [-1]}]),
    mark("epoch -1", "answer -1", producer_epoch=-1, ours="answer 42", why=STRAY),
    mark("producer id -1", "answer -1", producer_id=-1, ours="answer 42", why=STRAY),
    mark("transaction version 9", "answer 0", transaction_version=9),
    mark("transaction version -1", "answer -1", transaction_version=-1, ours="answer 0", why="a version that is none binds as little as 9 does"),
    mark("one partition twice", "silent", topics=lambda b: [{"name": b.topic, "partitions": [0, 0]}],
         ours=("answer 0", "answer 0,0"), why="Kafka waits for an answer too many of its own and never gives one"),
    commit("nobody's", "answer 49"),
    commit("nobody's", "answer 49", version=0),
    commit("nobody's", "answer 49", version=4),
    commit("empty transactional id", "answer 42", transactional_id=""),
    commit("empty group id", "answer 24", group_id=""),
    commit("producer id -1", "answer 49", producer_id=-1),
    commit("unknown topic", "answer 3", topic={"name": "no-such-topic"}),
    commit("unknown partition", "answer 3", part={"index": 99}),
    commit("metadata of 4097 bytes", "answer 49", part={"metadata": "m" * 4097}, ours="answer 12",
           why="what is to be stored is looked at before its transaction is"),
    commit("no topics", "answer ", topics=[]),
    commit("generation 1 without a member", "answer 49", generation_id=1),
    call("describe transactions: none", DESCRIBE, 0, "answer "),
    call("describe transactions: unknown", DESCRIBE, 0, "answer 105", transactional_ids=["malformed-none"]),
    call("describe transactions: empty id", DESCRIBE, 0, "answer 42", transactional_ids=[""]),
    call("describe transactions: one twice", DESCRIBE, 0, "answer 105,105", transactional_ids=["malformed-none"] * 2),
    call("list transactions: unknown state", LIST, 2, "answer 0", state_filters=["Sleeping"]),
    call("list transactions: empty state", LIST, 2, "answer 0", state_filters=[""]),
    call("list transactions: producer id -1", LIST, 2, "answer 0", producer_id_filters=[-1]),
    call("list transactions: duration -5", LIST, 2, "answer 0", duration_filter_ms=-5, producer_id_filters=[1 << 40]),
    call("list transactions: duration 2^63-1", LIST, 2, "answer 0", duration_filter_ms=(1 << 63) - 1),
    call("list transactions: a pattern that is none", LIST, 2, "answer 128", transactional_id_pattern="["),
    call("list transactions: a pattern of 32 KB", LIST, 2, "answer -1", transactional_id_pattern="(a*)*" * 6500,
         ours=("answer 0", "answer 128"), why="in Kafka the pattern overflows the stack; here it is taken, or refused as one"),
    produce("nobody's", "answer 49"),
    produce("nobody's", "answer 49", version=11),
    produce("nobody's", "answer 49", version=3),
    produce("empty transactional id", "answer 42", transactional_id=""),
    *[produce(name, "answer 49", ours="answer 87", why="a batch is looked at before its transaction is", **over) for name, over in (
        ("epoch -1", {"producer_epoch": -1}), ("sequence -1", {"base_sequence": -1}), ("control batch", {"attributes": 0x30}))],
]
