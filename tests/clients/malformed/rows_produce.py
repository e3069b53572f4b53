"""Produce: what is wrong with the request, the batch, the records."""

import struct

from bench import Row
from messages import encode_request
from rawkafka import Raw, batch, crc32c, record, varint

NOW = 1_700_000_000_000


def produce(name, records, expect, version=7, leo=False, acks=-1, index=0, topic=None, **more):
    """One partition of the bench's topic, `records` as bytes or a maker of them."""
    def make(bench):
        raw = records(bench) if callable(records) else records
        where = {"topic_id": bench.topic_id} if version >= 13 else {"name": topic(bench) if topic else bench.topic}
        return encode_request(0, version, {"acks": acks, "topics": [
            dict(where, partitions=[{"index": index, "records": raw}])]})[0]
    return Row(name, 0, version, make, expect, leo=leo, **more)


def flipped(raw, at):
    return raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1:]


def one(**over):
    return batch([b"value"], base_timestamp=NOW, **over)


def compressed(codec, payload):
    return one(attributes=codec, payload=payload)


def bad_record(raw):
    return batch([Raw(raw)], base_timestamp=NOW)


GOOD = one()
TWO = batch([b"a", b"b"], base_timestamp=NOW)
ROWS = [
    produce("produce: well-formed batch", GOOD, "answer 0", leo=True),
    produce("produce: well-formed batch, v3", GOOD, "answer 0", version=3, leo=True),
    produce("produce: well-formed batch, v13", GOOD, "answer 0", version=13, leo=True),
    produce("produce: acks 5", GOOD, "answer 21", acks=5),
    produce("produce: acks -2", GOOD, "answer 21", acks=-2),
    produce("produce: acks 0", GOOD, "silent", acks=0, leo=True, wait=1.0),
    produce("produce: acks 0 to an unknown partition", GOOD, "closed", acks=0, index=99),
    produce("produce: acks 0 with a bad CRC", one(crc=1), "closed", acks=0),
    produce("produce: unknown partition", GOOD, "answer 3", index=99),
    produce("produce: negative partition", GOOD, "answer 3", index=-1),
    produce("produce: illegal topic name", GOOD, "answer 3", topic=lambda bench: "a/b"),
    produce("produce: empty topic name", GOOD, "answer 3", topic=lambda bench: ""),
    produce("produce: null records", None, "silent", ours="answer 87",
            why="Kafka trips over the null and never answers; a client deserves the answer of empty records"),
    produce("produce: empty records", b"", "answer 87"),
    produce("produce: records of 11 bytes", GOOD[:11], "answer 87"),
    produce("produce: records of 17 bytes", GOOD[:17], "answer 87"),
    produce("produce: batch cut short", GOOD[:-1], "answer 87"),
    produce("produce: rubbish after the batch", GOOD + b"rubbish", "answer 0", leo=None, ours="answer 87",
            why="Kafka drops a tail shorter than a batch header unseen; here a records field is one whole batch or refused"),
    produce("produce: two batches", GOOD + GOOD, "answer 87"),
    produce("produce: magic 0", one(magic=0), "answer 87"),
    produce("produce: magic 1", one(magic=1), "answer 87"),
    produce("produce: magic 3", one(magic=3), "answer 2"),
    produce("produce: magic -1", one(magic=-1), "answer 2"),
    produce("produce: batch length 0", one(length=0), "answer 2"),
    produce("produce: batch length -1", one(length=-1), "answer 2"),
    produce("produce: batch length 13", one(length=13), "answer 2"),
    produce("produce: batch length 48 (one below a header)", one(length=48), "answer 2"),
    produce("produce: batch length 2^31-1", one(length=0x7FFFFFFF), "answer -1", ours=("answer 87", "answer 2"),
            why="in Kafka the length overflows an int; the fault is the client's, so it gets the code of a cut batch"),
    produce("produce: bad CRC", one(crc=1), "answer 2"),
    produce("produce: one bit of the value flipped", flipped(GOOD, len(GOOD) - 2), "answer 2"),
    produce("produce: base offset 5", one(base_offset=5), "answer 87"),
    produce("produce: base offset -1", one(base_offset=-1), "answer 87"),
    produce("produce: base offset 2^63-1", one(base_offset=(1 << 63) - 1), "answer 87"),
    produce("produce: leader epoch 7 is overwritten", one(leader_epoch=7), "answer 0", leo=True),
    produce("produce: zstd before v7", one(attributes=4), "answer 76", version=6),
    produce("produce: count 0", one(count=0), "answer 87"),
    produce("produce: count -1", one(count=-1), "answer 87"),
    produce("produce: last offset delta 5 of one record", one(last_offset_delta=5), "answer 87"),
    produce("produce: last offset delta -1", one(last_offset_delta=-1), "answer 87"),
    produce("produce: no record at all, delta 0", batch([], count=0, last_offset_delta=0), "answer 87"),
    produce("produce: control batch", one(attributes=0x20), "answer 87"),
    produce("produce: transactional without an id", one(attributes=0x10, producer_id=1, producer_epoch=0,
                                                         base_sequence=0), "answer 53"),
    produce("produce: producer id with sequence -1", one(producer_id=7, producer_epoch=0, base_sequence=-1), "answer 87"),
    produce("produce: producer id with epoch -1", one(producer_id=8, producer_epoch=-1, base_sequence=0), "answer 0", leo=None,
            ours=("answer 0", "answer 87"), why="an epoch below 0 means no epoch: to refuse it is as good"),
    produce("produce: no producer id but a sequence", one(producer_id=-1, producer_epoch=0, base_sequence=0), "answer 0",
            leo=True),
    produce("produce: unknown producer id, sequence 9", one(producer_id=990, producer_epoch=0, base_sequence=9),
            "answer 0", leo=True),
    produce("produce: attribute bits that have no meaning", one(attributes=0x7F00), "answer 0", leo=None, ours="answer 87",
            why="stored bytes are wire bytes here: what no reader understands is refused, not kept for good"),
    produce("produce: delete horizon flag", one(attributes=0x40), "answer 0", leo=None, ours="answer 87",
            why="only a broker's compaction sets it, and it changes what the base timestamp means"),
    produce("produce: LogAppendTime flag from a client", one(attributes=0x08), "answer 0", leo=None, ours="answer 32",
            why="Kafka rewrites the batch; here it stays as it came, so it must not claim the broker's clock"),
    produce("produce: batch over max.message.bytes", batch([b"x" * 1_048_600], base_timestamp=NOW), "answer 10"),
    produce("produce: value of 900 KB", batch([b"x" * 900_000], base_timestamp=NOW), "answer 0", leo=True),
    produce("produce: no key on a compacted topic", GOOD, "answer 87", topic=lambda bench: bench.compact, version=8),
    produce("produce: timestamp far in the future", batch([b"v"], base_timestamp=NOW * 1000), "answer 32", version=8),
    produce("produce: timestamp -1", batch([b"v"], base_timestamp=-1), "answer 0", leo=True),
    produce("produce: timestamp -2", batch([b"v"], base_timestamp=-2), "answer 0", leo=True),
    produce("produce: max timestamp below base timestamp", one(max_timestamp=1), "answer 0", leo=True),
]
ROWS += [produce(f"produce: unknown codec {codec}, v{version}", one(attributes=codec), "answer -1", version=version,
                 ours=("answer 87", "answer 76"), why="Kafka's -1 is a stray exception; the batch is what is wrong")
         for codec in (5, 6, 7) for version in (3, 7, 9)]
ROWS += [produce(f"produce: {name}, v{version}", raw, expect, version=version)
         for version in (9, 12) for name, raw, expect in (
             ("bad CRC", one(crc=1), "answer 2"), ("empty records", b"", "answer 87"), ("two batches", TWO + TWO, "answer 87"),
             ("magic 1", one(magic=1), "answer 87"), ("batch length 13", one(length=13), "answer 2"))]

# A header check cannot see these: they lie inside the records. Kafka opens every
# batch; this broker does so for topics whose `batch.validation` is `deep`.
DEEP = [
    ("record length -1", varint(-1) + b"\0" * 8, "answer 87"),
    ("record length 2^31-1", varint(0x7FFFFFFF) + record(0)[1:], "answer 87"),
    ("record length one short", bytes([record(0)[0] - 2]) + record(0)[1:], "answer 87"),
    ("record length over-long varint", b"\x80" * 6 + b"\1" + record(0)[1:], "answer -1"),
    ("key length -2", varint(9) + b"\0\0\0" + varint(-2) + varint(1) + b"v" + varint(0) + b"\0\0", "answer 87"),
    ("value length past the end", varint(8) + b"\0\0\0" + varint(-1) + varint(500) + b"v" + varint(0), "answer 87"),
    ("header count -1", varint(7) + b"\0\0\0" + varint(-1) + varint(1) + b"v" + varint(-1), "answer 87"),
    ("header count 2^31-1", varint(11) + b"\0\0\0" + varint(-1) + varint(1) + b"v" + varint(0x7FFFFFFF), "answer 87"),
    ("null header name", varint(9) + b"\0\0\0" + varint(-1) + varint(1) + b"v" + varint(1) + varint(-1) + varint(0),
     "answer 87"),
    ("rubbish in place of the record", b"\xff" * 20, "answer -1"),
    ("offset delta 3 of the only record", record(3), "answer 0"),
]
DEEP = [(name, bad_record(raw), expect) for name, raw, expect in DEEP] + [
    ("count 2, one record", one(count=2, last_offset_delta=1), "answer 87"),
    ("count 1, two records", batch([b"a", b"b"], count=1, last_offset_delta=0), "answer 87"),
    ("count 2^31-1", one(count=0x7FFFFFFF, last_offset_delta=0x7FFFFFFE), "answer 87"),
] + [(f"{name} payload is rubbish", compressed(codec, b"\x07rubbish" * 4), "answer -1")
     for name, codec in (("gzip", 1), ("snappy", 2), ("lz4", 3), ("zstd", 4))
] + [(f"{name} payload is empty", compressed(codec, b""), expect)
     for name, codec, expect in (("gzip", 1, "answer -1"), ("snappy", 2, "answer -1"), ("lz4", 3, "answer -1"),
                                 ("zstd", 4, "answer 87"))]
ROWS += [produce(f"produce: {name}", raw, expect, leo=None, ours=("answer 0", "answer 87"),
                 why="records are opened only where batch.validation is deep; the default checks the header")
         for name, raw, expect in DEEP]
ROWS += [produce(f"produce: {name}, batch.validation deep", raw, expect, leo=None, topic=lambda bench: bench.deep,
                 ours=("answer 87", "answer 2"), why="where Kafka answers -1 or takes it, the client's fault is named")
         for name, raw, expect in DEEP]


def duplicate_partition(bench):
    part = {"index": 0, "records": GOOD}
    return encode_request(0, 7, {"topics": [{"name": bench.topic, "partitions": [part, part]}]})[0]


def duplicate_topic(bench):
    topic = {"name": bench.topic, "partitions": [{"index": 0, "records": GOOD}]}
    return encode_request(0, 7, {"topics": [topic, topic]})[0]


def mixed(bench):
    parts = [{"index": 0, "records": GOOD}, {"index": 5, "records": GOOD}]
    return encode_request(0, 7, {"topics": [{"name": bench.topic, "partitions": parts}]})[0]


def no_topics(bench):
    return encode_request(0, 7, {"topics": []})[0]


def unknown_id(bench):
    return encode_request(0, 13, {"topics": [{"topic_id": b"\x07" * 16, "partitions": [
        {"index": 0, "records": GOOD}]}]})[0]


def old_version(version):
    return lambda bench: struct.pack(">hi", -1, 30000) + struct.pack(">i", 0)


ROWS += [
    Row("produce: one partition twice", 0, 7, duplicate_partition, "answer 0"),
    Row("produce: one topic twice", 0, 7, duplicate_topic, "answer 0"),
    Row("produce: one good and one unknown partition", 0, 7, mixed, "answer 0,3", leo=True),
    Row("produce: no topics", 0, 7, no_topics, "answer "),
    Row("produce: unknown topic id", 0, 13, unknown_id, "answer 100"),
] + [Row(f"produce: v{v} is advertised and refused", 0, v, old_version(v), "closed") for v in (0, 1, 2)]
assert crc32c(b"123456789") == 0xE3069283
