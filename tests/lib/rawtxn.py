"""Transactions by hand: a producer whose every call is a call of its own, and what a reader makes of a partition.

`Transactional` knows its id, epoch and sequences, and nothing else: which call
comes next, in which version, is the test's affair.
"""

import struct
import time

from rawkafka import Connection, batch, batches, varint  # noqa: F401  (varint: for records made by hand)

PRODUCE, FETCH, LIST_OFFSETS, FIND, INIT = 0, 1, 2, 10, 22
ADD_PARTITIONS, ADD_OFFSETS, END, WRITE_MARKERS, COMMIT_OFFSETS = 24, 25, 26, 27, 28
DESCRIBE_PRODUCERS, DESCRIBE, LIST = 61, 65, 66
CONCURRENT, INVALID_STATE, LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 51, 48, 14, 15, 16
TRANSACTIONAL, CONTROL = 0x10, 0x20
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
PATIENCE_SECONDS = 30


class Refused(Exception):
    """An answer with an error code where none was wanted."""

    def __init__(self, what, code):
        super().__init__(f"{what}: error {code}")
        self.code = code


class Transactional:
    """One transactional producer on a connection of its own. `v2`: it leaves AddPartitionsToTxn out (KIP-890)."""

    def __init__(self, bootstrap, transactional_id, timeout_ms=30_000, v2=True, timeout=15.0):
        self.bootstrap, self.id, self.timeout_ms, self.v2 = bootstrap, transactional_id, timeout_ms, v2
        self.producer_id, self.epoch, self.sequences = -1, -1, {}
        self.connection = Connection(bootstrap, timeout=timeout, client_id="txn")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Hangs up, without ending anything."""
        self.connection.close()

    def call(self, key, version, /, **fields):
        return self.connection.call(key, version, **fields)

    # Beginnings

    def initialise(self, version=5, **over):
        """InitProducerId, as often as it takes until no transaction is in the way; the producer is new then."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            answer = self.asked_for_id(version, **over)
            if answer["error_code"] not in (CONCURRENT, LOADING, NOT_AVAILABLE, NOT_COORDINATOR):
                break
            if time.monotonic() > deadline:
                raise Refused(f"InitProducerId of {self.id} for {PATIENCE_SECONDS} s", answer["error_code"])
            if answer["error_code"] in (NOT_AVAILABLE, NOT_COORDINATOR):
                self.call(FIND, 3, key=self.id, key_type=1)
            time.sleep(0.02)
        if answer["error_code"]:
            raise Refused(f"InitProducerId of {self.id}", answer["error_code"])
        self.producer_id, self.epoch, self.sequences = answer["producer_id"], answer["producer_epoch"], {}
        return self

    def asked_for_id(self, version=5, **over):
        """One InitProducerId, as it is answered."""
        return self.call(INIT, version, **dict({"transactional_id": self.id, "transaction_timeout_ms": self.timeout_ms}, **over))

    # Within a transaction

    def add(self, topic, partitions=(0,), version=3, **over):
        """{partition: error} of AddPartitionsToTxn."""
        fields = dict(self._self(), topics=[{"name": topic, "partitions": list(partitions)}], **over)
        answer = self.call(ADD_PARTITIONS, version, **(fields if version < 4 else {"transactions": [fields]}))
        topics = answer["topics"] if version < 4 else answer["results"][0]["topics"]
        return {row["index"]: row["error_code"] for row in topics[0]["partitions"]}

    def records(self, values, topic, partition, transactional=True, **over):
        """The next batch of this producer for a partition."""
        fields = {"producer_id": self.producer_id, "producer_epoch": self.epoch, "attributes": TRANSACTIONAL if transactional else 0,
                  "base_sequence": self.sequences.get((topic, partition), 0)}
        return batch(values, **dict(fields, **over))

    def send(self, topic, partition=0, values=(b"v",), version=None, transactional_id=None, **over):
        """The partition's answer to one batch; after a success the sequence has moved."""
        raw = self.records(values, topic, partition, **over)
        if version is None:
            version = 12 if self.v2 else 11
        answer = self.call(PRODUCE, version, acks=-1, transactional_id=self.id if transactional_id is None else transactional_id or None,
                           topics=[{"name": topic, "partitions": [{"index": partition, "records": raw}]}])
        row = answer["topics"][0]["partitions"][0]
        if row["error_code"] == 0 and "base_sequence" not in over:
            self.sequences[topic, partition] = self.sequences.get((topic, partition), 0) + len(values)
        return row

    def sent(self, topic, partition=0, values=(b"v",), **how):
        """The base offset of one batch, added to the transaction before if need be. Waits while the last one is being ended."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            code = 0 if self.v2 else self.add(topic, [partition])[partition]
            row = {"error_code": code}
            if not code:
                row = self.send(topic, partition, values, **how)
            if row["error_code"] not in (CONCURRENT, LOADING) or time.monotonic() > deadline:
                break
            time.sleep(0.01)
        if row["error_code"]:
            raise Refused(f"Produce of {self.id} to {topic}-{partition}", row["error_code"])
        return row["base_offset"]

    def add_offsets(self, group, version=3, **over):
        return self.call(ADD_OFFSETS, version, **dict(self._self(), group_id=group, **over))["error_code"]

    def commit_offsets(self, group, topic, offsets, version=None, **over):
        """{partition: error} of TxnOffsetCommit of {partition: offset}."""
        rows = [{"index": p, "offset": o, "metadata": ""} for p, o in offsets.items()]
        fields = dict(self._self(), group_id=group, topics=[{"name": topic, "partitions": rows}])
        answer = self.call(COMMIT_OFFSETS, version if version is not None else 5 if self.v2 else 3, **dict(fields, **over))
        return {row["index"]: row["error_code"] for row in answer["topics"][0]["partitions"]}

    # Ends

    def asked_to_end(self, commit=True, version=None, **over):
        """EndTxn, as it is answered; nothing is learned from it."""
        return self.call(END, version if version is not None else 5 if self.v2 else 4, **dict(self._self(), committed=commit, **over))

    def end(self, commit=True, version=None, **over):
        """The error of EndTxn. With version 5 the producer goes on with what it is told."""
        answer = self.asked_to_end(commit, version, **over)
        if answer["error_code"] == 0 and "producer_id" in answer and answer["producer_id"] >= 0:
            self.producer_id, self.epoch, self.sequences = answer["producer_id"], answer["producer_epoch"], {}
        return answer["error_code"]

    def ended(self, commit=True, version=None):
        """Ends the transaction; an error is wrong."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (code := self.end(commit, version)) in (CONCURRENT, LOADING) and time.monotonic() < deadline:
            time.sleep(0.01)
        if code:
            raise Refused(f"EndTxn of {self.id}", code)

    def _self(self):
        return {"transactional_id": self.id, "producer_id": self.producer_id, "producer_epoch": self.epoch}


# --- what is there ------------------------------------------------------------

def transaction(connection, transactional_id):
    return connection.call(DESCRIBE, 0, transactional_ids=[transactional_id])["transactions"][0]


def state_of(connection, transactional_id):
    row = transaction(connection, transactional_id)
    return row["state"] if row["error_code"] == 0 else row["error_code"]


def until_state(connection, transactional_id, wanted, seconds=PATIENCE_SECONDS):
    deadline = time.monotonic() + seconds
    while (found := state_of(connection, transactional_id)) != wanted:
        if time.monotonic() > deadline:
            raise ValueError(f"{transactional_id} is {found} after {seconds} s, expected {wanted}")
        time.sleep(0.02)


def producers(connection, topic, partition=0):
    """{producer id: row} of DescribeProducers."""
    answer = connection.call(DESCRIBE_PRODUCERS, 0, topics=[{"name": topic, "partitions": [partition]}])
    row = answer["topics"][0]["partitions"][0]
    if row["error_code"]:
        raise Refused(f"DescribeProducers of {topic}-{partition}", row["error_code"])
    return {found["producer_id"]: found for found in row["active_producers"]}


def end_offset(connection, topic, partition=0, isolation=READ_UNCOMMITTED, version=5):
    """The high watermark, or with READ_COMMITTED the last stable offset, as ListOffsets tells it."""
    answer = connection.call(LIST_OFFSETS, version, isolation_level=isolation, topics=[
        {"name": topic, "partitions": [{"index": partition, "timestamp": -1}]}])
    row = answer["topics"][0]["partitions"][0]
    if row["error_code"]:
        raise Refused(f"ListOffsets of {topic}-{partition}", row["error_code"])
    return row["offset"]


def fetched(connection, topic, partition=0, offset=0, isolation=READ_COMMITTED, version=11, max_bytes=4 << 20, wait_ms=0, min_bytes=1):
    """The partition's part of one Fetch answer; an error is wrong."""
    answer = connection.call(FETCH, version, max_wait_ms=wait_ms, min_bytes=min_bytes, isolation_level=isolation, topics=[
        {"name": topic, "partitions": [{"index": partition, "fetch_offset": offset, "partition_max_bytes": max_bytes}]}])
    row = answer["topics"][0]["partitions"][0]
    if answer.get("error_code") or row["error_code"]:
        raise Refused(f"Fetch of {topic}-{partition} at {offset}", answer.get("error_code") or row["error_code"])
    return row


def committed_records(row):
    """[(offset, value)] that a reader of committed records takes from a Fetch answer, as Java's client decides it."""
    waiting = sorted(row["aborted_transactions"] or [], key=lambda one: one["first_offset"], reverse=True)
    aborted, found = set(), []
    for one in batches(row["records"] or b""):
        while waiting and waiting[-1]["first_offset"] <= one["last_offset"]:
            aborted.add(waiting.pop()["producer_id"])
        if one["attributes"] & CONTROL:
            if control_type(one) == 0:
                aborted.discard(one["producer_id"])
            continue
        if not (one["attributes"] & TRANSACTIONAL and one["producer_id"] in aborted):
            found += values_of(one)
    return found


def read(connection, topic, partition=0, isolation=READ_COMMITTED, **how):
    """[(offset, value)] of a whole partition, as far as the isolation lets one read."""
    end, at, found = end_offset(connection, topic, partition, isolation), 0, []
    while at < end:
        row = fetched(connection, topic, partition, at, isolation, **how)
        got = committed_records(row) if isolation == READ_COMMITTED else [
            pair for one in batches(row["records"] or b"") if not one["attributes"] & CONTROL for pair in values_of(one)]
        found += [(offset, value) for offset, value in got if at <= offset]
        last = [one["last_offset"] for one in batches(row["records"] or b"")]
        if not last or last[-1] < at:
            raise ValueError(f"no progress at {topic}-{partition} offset {at} of {end}: {last}")
        at = last[-1] + 1
    return found


def markers(connection, topic, partition=0):
    """[(offset, producer id, epoch, "commit" or "abort", coordinator epoch)] of a partition."""
    found, at, end = [], 0, end_offset(connection, topic, partition)
    while at < end:
        for one in batches(fetched(connection, topic, partition, at, READ_UNCOMMITTED)["records"] or b""):
            if one["attributes"] & CONTROL:
                found.append((one["base_offset"], one["producer_id"], one["producer_epoch"],
                              {0: "abort", 1: "commit"}.get(control_type(one)), struct.unpack_from(">i", _record(one)[1], 2)[0]))
            at = one["last_offset"] + 1
    return found


def control_type(one):
    """0 abort, 1 commit; the key of the batch's only record."""
    version, kind = struct.unpack(">hh", _record(one)[0])
    if version != 0 or one["count"] != 1:
        raise ValueError(f"a marker of version {version} with {one['count']} records")
    return kind


def values_of(one):
    """[(offset, value)] of an uncompressed batch."""
    if one["attributes"] & 7:
        raise ValueError(f"the batch at {one['base_offset']} is compressed")
    return [(one["base_offset"] + delta, value) for delta, _, value in _records(one)]


def _record(one):
    return next((key, value) for _, key, value in _records(one))


def _records(one):
    """(offset delta, key, value) of each record."""
    raw, at = one["bytes"], 61
    for _ in range(one["count"]):
        size, at = _varint(raw, at)
        end = at + size
        _, at = _varint(raw, at + 1)
        delta, at = _varint(raw, at)
        key, at = _blob(raw, at)
        value, at = _blob(raw, at)
        yield delta, key, value
        at = end


def _blob(raw, at):
    size, at = _varint(raw, at)
    return (None, at) if size < 0 else (raw[at:at + size], at + size)


def _varint(raw, at):
    """(signed value, position behind it)"""
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def wait_for_transactions(connection, seconds=60):
    """Until ids are given out: Apache Kafka's topic for them takes a while at first."""
    deadline = time.monotonic() + seconds
    while True:
        connection.call(FIND, 3, key="ready", key_type=1)
        answer = connection.call(INIT, 4, transactional_id="ready")
        if answer["error_code"] == 0:
            return
        if time.monotonic() > deadline:
            raise ValueError(f"no coordinator of transactions after {seconds} s: {answer}")
        time.sleep(0.1)
