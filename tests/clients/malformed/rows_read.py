"""Fetch, ListOffsets, Metadata and their relatives."""

from bench import Row
from messages import NIL_UUID, encode_request

MAX = 0x7FFFFFFF


def fetch(name, expect, version=11, part=None, topic=None, wait=5.0, why=None, ours=None, **request):
    def make(bench):
        where = {"topic_id": bench.topic_id} if version >= 13 else {"name": bench.topic}
        where.update(topic or {})
        partition = dict({"index": 0, "fetch_offset": 0}, **(part or {}))
        fields = dict({"max_wait_ms": 0, "topics": [dict(where, partitions=[partition])]}, **request)
        return encode_request(1, version, fields)[0]
    return Row(name, 1, version, make, expect, wait=wait, why=why, ours=ours)


ROWS = [
    fetch("fetch: well-formed", "answer 0,0"),
    fetch("fetch: well-formed, v4", "answer 0", version=4),
    fetch("fetch: well-formed, v13", "answer 0,0", version=13),
    fetch("fetch: offset -1", "answer 0,1", part={"fetch_offset": -1}),
    fetch("fetch: offset above the end", "answer 0,1", part={"fetch_offset": 1 << 40}),
    fetch("fetch: offset 2^63-1", "answer 0,1", part={"fetch_offset": (1 << 63) - 1}),
    fetch("fetch: offset -2^63", "answer 0,1", part={"fetch_offset": -(1 << 63)}),
    fetch("fetch: unknown partition", "answer 0,3", part={"index": 99}),
    fetch("fetch: negative partition", "answer 0,3", part={"index": -1}),
    fetch("fetch: unknown topic", "answer 0,3", topic={"name": "no-such-topic"}),
    fetch("fetch: illegal topic name", "answer 0,3", topic={"name": "a/b"}),
    fetch("fetch: empty topic name", "answer 0,3", topic={"name": ""}),
    fetch("fetch: unknown topic id", "answer 0,100", version=13, topic={"topic_id": b"\x07" * 16}),
    fetch("fetch: zero topic id", "answer 0,100", version=13, topic={"topic_id": NIL_UUID}),
    fetch("fetch: partition max bytes 0", "answer 0,0", part={"partition_max_bytes": 0}),
    fetch("fetch: partition max bytes -1", "answer 0,-1", part={"partition_max_bytes": -1},
          ours=("answer 0,0", "answer 0,42", "answer 42"), why="Kafka's -1 is a stray exception; a limit below 0 is as good as 0"),
    fetch("fetch: max bytes 0", "answer 0,0", max_bytes=0),
    fetch("fetch: max bytes -1", "answer 0,-1", max_bytes=-1,
          ours=("answer 0,0", "answer 0,42", "answer 42"), why="Kafka's -1 is a stray exception; a limit below 0 is as good as 0"),
    fetch("fetch: min bytes above max bytes", "answer 0,0", min_bytes=MAX, max_wait_ms=200),
    fetch("fetch: min bytes -1, max wait 2^31-1", "answer 0,0", min_bytes=-1, max_wait_ms=MAX),
    fetch("fetch: max wait -1", "answer 0,0", max_wait_ms=-1),
    fetch("fetch: min bytes and max wait 2^31-1", "silent", min_bytes=MAX, max_wait_ms=MAX, wait=1.0),
    fetch("fetch: isolation level 9", "answer -1,-1", isolation_level=9,
          ours=("answer 42", "answer 42,42", "answer 0,42"), why="Kafka's -1 is a stray exception; the request is what is wrong"),
    fetch("fetch: session id unknown", "answer 70", session_id=12345, session_epoch=1),
    fetch("fetch: session epoch -2", "answer 70", session_id=12345, session_epoch=-2),
    fetch("fetch: session id 0 with epoch 5", "answer 70", session_id=0, session_epoch=5),
    fetch("fetch: close of an unknown session", "answer 0,0", session_id=12345, session_epoch=-1),
    fetch("fetch: leader epoch above ours", "answer 0,75", part={"current_leader_epoch": 999}),
    fetch("fetch: leader epoch -2", "answer 0,0", part={"current_leader_epoch": -2}),
    fetch("fetch: last fetched epoch above ours, v12", "answer 0,1", version=12, part={"last_fetched_epoch": 999}),
    fetch("fetch: replica id 5 is no replica", "answer 0,6", replica_id=5),
    fetch("fetch: no topics", "answer 0", topics=[]),
]


def same_partition_twice(bench):
    part = {"index": 0, "fetch_offset": 0}
    return encode_request(1, 11, {"max_wait_ms": 0, "topics": [{"name": bench.topic, "partitions": [part, part]}]})[0]


def list_offsets(name, expect, version=7, timestamp=-1, topic=None, index=0, **part):
    def make(bench):
        row = dict({"index": index, "timestamp": timestamp}, **part)
        return encode_request(2, version, {"topics": [{"name": topic or bench.topic, "partitions": [row]}]})[0]
    return Row(name, 2, version, make, expect)


def two_listings(bench):
    row = {"index": 0, "timestamp": -1}
    return encode_request(2, 7, {"topics": [{"name": bench.topic, "partitions": [row, row]}]})[0]


def metadata(name, expect, topics, version=9, **more):
    return Row(name, 3, version, lambda bench: encode_request(3, version, {
        "topics": topics, "allow_auto_topic_creation": False})[0], expect, **more)


def by_name_and_id(bench):
    return encode_request(3, 12, {"topics": [{"name": bench.topic, "topic_id": bench.topic_id}]})[0]


def epoch_end(name, expect, version=4, topic=None, index=0, **part):
    def make(bench):
        row = dict({"index": index, "leader_epoch": 0}, **part)
        return encode_request(23, version, {"topics": [{"name": topic or bench.topic, "partitions": [row]}]})[0]
    return Row(name, 23, version, make, expect)


ROWS += [
    Row("fetch: one partition twice", 1, 11, same_partition_twice, "answer 0,0"),
    list_offsets("list offsets: latest", "answer 0"),
    list_offsets("list offsets: unknown partition", "answer 3", index=99),
    list_offsets("list offsets: negative partition", "answer 3", index=-1),
    list_offsets("list offsets: unknown topic", "answer 3", topic="no-such-topic"),
    list_offsets("list offsets: illegal topic", "answer 3", topic="a/b"),
    list_offsets("list offsets: timestamp -99", "answer 35", timestamp=-99),
    list_offsets("list offsets: timestamp -2^63", "answer 35", timestamp=-(1 << 63)),
    list_offsets("list offsets: max timestamp before v7", "answer 35", version=6, timestamp=-3),
    list_offsets("list offsets: earliest local before v8", "answer 35", version=7, timestamp=-4),
    list_offsets("list offsets: earliest local", "answer 0", version=8, timestamp=-4),
    list_offsets("list offsets: latest tiered", "answer 0", version=9, timestamp=-5),
    list_offsets("list offsets: timestamp 2^63-1", "answer 0", timestamp=(1 << 63) - 1),
    list_offsets("list offsets: leader epoch above ours", "answer 75", current_leader_epoch=99),
    list_offsets("list offsets: leader epoch -2", "answer 74", current_leader_epoch=-2),
    Row("list offsets: one partition twice", 2, 7, two_listings, "answer 42"),
    metadata("metadata: unknown topic", "answer 3", [{"name": "no-such-topic"}]),
    metadata("metadata: illegal name", "answer 17", [{"name": "a/b"}]),
    metadata("metadata: name ..", "answer 17", [{"name": ".."}]),
    metadata("metadata: empty name", "answer 17", [{"name": ""}]),
    metadata("metadata: name of 250 bytes", "answer 17", [{"name": "a" * 250}]),
    metadata("metadata: name of 32000 bytes", "answer 17", [{"name": "a" * 32000}]),
    metadata("metadata: no topics", "answer ", []),
    metadata("metadata: same unknown topic twice", "answer 3", [{"name": "no-such"}, {"name": "no-such"}]),
    metadata("metadata: unknown topic id", "answer 100", [{"topic_id": b"\x07" * 16, "name": None}], version=12),
    metadata("metadata: zero topic id, null name", "answer -1", [{"name": None}], version=12,
             ours=("answer 42", "answer 100", "answer 3", "answer 17"), why="Kafka trips over the null; the request is what is wrong"),
    metadata("metadata: null name before v12", "answer 42", [{"name": None}], version=10),
    Row("metadata: name and id together", 3, 12, by_name_and_id, "answer 0,0"),
    epoch_end("epoch end: known epoch", "answer 0"),
    epoch_end("epoch end: unknown partition", "answer 3", index=9),
    epoch_end("epoch end: unknown topic", "answer 3", topic="no-such-topic"),
    epoch_end("epoch end: epoch above ours", "answer 0", leader_epoch=99),
    epoch_end("epoch end: epoch -2", "answer 0", leader_epoch=-2),
    epoch_end("epoch end: current epoch above ours", "answer 75", current_leader_epoch=99),
    Row("describe producers: unknown partition", 61, 0, lambda bench: encode_request(61, 0, {"topics": [
        {"name": bench.topic, "partitions": [0, 99]}]})[0], "answer 0,3"),
    Row("describe producers: unknown topic", 61, 0, lambda bench: encode_request(61, 0, {"topics": [
        {"name": "no-such-topic", "partitions": [0]}]})[0], "answer 3"),
    Row("describe log dirs: unknown topic", 35, 4, lambda bench: encode_request(35, 4, {"topics": [
        {"name": "no-such-topic", "partitions": [0]}]})[0], "answer 0,0"),
    Row("describe log dirs: no topics", 35, 4, lambda bench: encode_request(35, 4, {"topics": []})[0], "answer 0,0"),
    Row("describe topic partitions: unknown topic", 75, 0, lambda bench: encode_request(75, 0, {"topics": [
        {"name": "no-such-topic"}]})[0], "answer 3"),
    Row("describe topic partitions: limit -1", 75, 0, lambda bench: encode_request(75, 0, {
        "topics": [{"name": bench.topic}], "response_partition_limit": -1})[0], "answer 0,0"),
    Row("describe topic partitions: cursor with partition -1", 75, 0, lambda bench: encode_request(75, 0, {
        "topics": [{"name": bench.topic}], "cursor": {"topic_name": bench.topic, "partition_index": -1}})[0], "answer 42"),
    Row("describe cluster: endpoint type 9", 60, 1, lambda bench: encode_request(60, 1, {"endpoint_type": 9})[0],
        "answer 115"),
    Row("describe cluster: endpoint type controllers", 60, 1, lambda bench: encode_request(60, 1, {
        "endpoint_type": 2})[0], "answer 114"),
]
