"""Groups: FindCoordinator, JoinGroup and its relatives, commits, and the APIs of operators."""

from bench import Row
from messages import NIL_UUID, encode_request

MAX = 0x7FFFFFFF
FIND, COMMIT, FETCH, JOIN, BEAT, LEAVE, SYNC, DESCRIBE, LIST, DELETE, FORGET = 10, 8, 9, 11, 12, 13, 14, 15, 16, 42, 47
BEAT_NEW, DESCRIBE_NEW = 68, 69  # KIP-848
PROTOCOLS = [{"name": "range", "metadata": b"m"}]


def group(name, api, version, expect, ours=None, why=None, wait=5.0, **fields):
    """A row; functions among the fields are called with the bench."""
    def make(bench):
        return encode_request(api, version, {k: v(bench) if callable(v) else v for k, v in fields.items()})[0]
    return Row(name, api, version, make, expect, ours=ours, why=why, wait=wait)


def commit(name, expect, version=8, part=None, topic=None, **fields):
    def topics(bench):
        where = {"topic_id": bench.topic_id} if version >= 10 else {"name": bench.topic}
        return [dict(where, **(topic or {}), partitions=[dict({"index": 0, "offset": 1}, **(part or {}))])]
    return group(f"offset commit: {name}", COMMIT, version, expect, **dict({"group_id": "malformed", "topics": topics}, **fields))


def fetch(name, expect, version=8, **fields):
    of = {"group_id": "malformed-none"}
    if version >= 8:
        return group(f"offset fetch: {name}", FETCH, version, expect, groups=[dict(of, **fields)])
    return group(f"offset fetch: {name}", FETCH, version, expect, **dict(of, **fields))


def join(name, expect, version=9, wait=5.0, **fields):
    return group(f"join group: {name}", JOIN, version, expect, wait=wait,
                 **dict({"group_id": "malformed-join", "protocols": PROTOCOLS}, **fields))


def beat(name, expect, version=1, without=(), **fields):
    """A heartbeat of the new protocol that would join, but for what is wrong with it."""
    right = {"group_id": "malformed-new", "member_id": "A" * 22, "subscribed_topic_names": lambda bench: [bench.topic],
             "topic_partitions": [], "rebalance_timeout_ms": 5000}
    fields = dict({k: v for k, v in right.items() if k not in without}, **fields)
    return group(f"consumer group heartbeat: {name}", BEAT_NEW, version, expect, **fields)


ROWS = [
    group("find coordinator: one group, v0", FIND, 0, "answer 0", key="g"),
    group("find coordinator: no keys", FIND, 4, "answer "),
    group("find coordinator: one key twice", FIND, 4, "answer 0,0", coordinator_keys=["g", "g"]),
    group("find coordinator: empty group id", FIND, 4, "answer 0", coordinator_keys=[""]),
    group("find coordinator: empty group id, v0", FIND, 0, "answer 0", key=""),
    group("find coordinator: group id of 32767 bytes", FIND, 4, "answer 0", coordinator_keys=["g" * 32767]),
    group("find coordinator: key type 9", FIND, 4, "answer 42", key_type=9, coordinator_keys=["g"]),
    group("find coordinator: key type -1, v3", FIND, 3, "answer 42", key_type=-1, key="g"),
    group("find coordinator: key type 2 with a bad share key", FIND, 6, "answer 42", key_type=2, coordinator_keys=["g"],
          ours="answer 35", why="share groups are not served"),
    join("empty group id", "answer 24", group_id=""),
    join("no protocols", "answer 23", protocols=[]),
    join("empty protocol type", "answer 23", protocol_type=""),
    join("session timeout 0", "answer 26", session_timeout_ms=0),
    join("session timeout -1", "answer 26", session_timeout_ms=-1),
    join("session timeout 2^31-1", "answer 26", session_timeout_ms=MAX),
    join("unknown member id", "answer 25", member_id="nobody"),
    join("unknown member id with an instance", "answer 25", member_id="nobody", group_instance_id="i"),
    join("without a member id", "answer 79"),
    join("empty group id, v0", "answer 24", version=0, group_id=""),
    join("empty instance id", "answer 0", group_id="malformed-instance-0", group_instance_id=""),
    join("instance id with a space", "answer 0", group_id="malformed-instance-1", group_instance_id="a b"),
    join("instance id of 250 bytes", "answer 0", group_id="malformed-instance-2", group_instance_id="a" * 250),
    join("instance id ..", "answer 0", group_id="malformed-instance-3", group_instance_id=".."),
    group("sync group: empty group id", SYNC, 5, "answer 24", protocol_type="consumer", protocol_name="range"),
    group("sync group: unknown group", SYNC, 5, "answer 25", group_id="malformed-none", member_id="m", protocol_type="consumer", protocol_name="range"),
    group("sync group: no protocol", SYNC, 5, "answer 23", group_id="malformed-none", member_id="m"),
    group("sync group: unknown group, v0", SYNC, 0, "answer 25", group_id="malformed-none", member_id="m"),
    group("heartbeat: empty group id", BEAT, 4, "answer 24"),
    group("heartbeat: unknown group", BEAT, 4, "answer 25", group_id="malformed-none", member_id="m"),
    group("heartbeat: unknown group with an instance", BEAT, 4, "answer 25", group_id="malformed-none", member_id="m", group_instance_id="i"),
    group("leave group: empty group id", LEAVE, 5, "answer 24", members=[{"member_id": "m"}]),
    group("leave group: unknown group", LEAVE, 5, "answer 0,25,25", group_id="malformed-none", members=[{"member_id": "m"}, {"member_id": "", "group_instance_id": "i"}]),
    group("leave group: nobody", LEAVE, 5, "answer 0", group_id="malformed-none"),
    group("leave group: unknown group, v2", LEAVE, 2, "answer 25", group_id="malformed-none", member_id="m"),
    commit("as an application without membership", "answer 0"),
    commit("empty group id", "answer 0", group_id=""),
    commit("unknown topic", "answer 3", topic={"name": "no-such-topic"}),
    commit("illegal topic name", "answer 3", topic={"name": "a/b"}),
    commit("empty topic name", "answer 3", topic={"name": ""}),
    commit("zero topic id", "answer 100", version=10, topic={"topic_id": NIL_UUID}),
    commit("unknown topic id", "answer 100", version=10, topic={"topic_id": b"\x07" * 16}),
    commit("unknown partition", "answer 3", part={"index": 99}),
    commit("negative partition", "answer 3", part={"index": -1}),
    commit("offset -1", "answer 0", part={"offset": -1}),
    commit("offset -2^63", "answer 0", part={"offset": -(1 << 63)}),
    commit("offset 2^63-1", "answer 0", part={"offset": (1 << 63) - 1}),
    commit("leader epoch -2", "answer 0", part={"leader_epoch": -2}),
    commit("null metadata", "answer 0", part={"metadata": None}),
    commit("metadata of 4096 bytes", "answer 0", part={"metadata": "m" * 4096}),
    commit("metadata of 4097 bytes", "answer 12", part={"metadata": "m" * 4097}),
    commit("no topics", "answer ", topics=[]),
    commit("no topics, of a member that is not there", "answer ", topics=[], generation_id=1, member_id="m"),
    commit("one partition twice", "answer 0,0", topics=lambda bench: [{"name": bench.topic, "partitions": [
        {"index": 0, "offset": 5}, {"index": 0, "offset": 6}]}]),
    commit("generation 1 of no group", "answer 22", group_id="malformed-none", generation_id=1, member_id="m"),
    commit("generation 1 of no group, v9", "answer 69", version=9, group_id="malformed-none", generation_id=1, member_id="m"),
    commit("generation 1 without a member", "answer 25", generation_id=1),
    commit("member without a generation", "answer 0", member_id="m"),
    commit("generation -2", "answer 0", generation_id=-2),
    commit("retention -2, v2", "answer 0", version=2, retention_time_ms=-2),
    commit("retention 2^63-1, v2", "answer 0", version=2, retention_time_ms=(1 << 63) - 1),
    fetch("unknown group", "answer 0,0", topics=[{"name": "t", "partitions": [0]}]),
    fetch("empty group id", "answer 0,0", group_id="", topics=[{"name": "t", "partitions": [0]}]),
    fetch("empty group id, v1", "answer 0", version=1, group_id="", topics=[{"name": "t", "partitions": [0]}]),
    fetch("no topics", "answer 0", topics=[]),
    fetch("all topics of an unknown group", "answer 0", topics=None),
    fetch("no topics, v7", "answer 0", version=7, topics=[]),
    fetch("negative partition", "answer 0,0,0,0", topics=[{"name": "t", "partitions": [-1, 0, 0]}]),
    fetch("unknown topic id", "answer 100,0", version=10, topics=[{"topic_id": b"\x07" * 16, "partitions": [0]}]),
    fetch("member epoch of an unknown group", "answer 0,0", version=9, member_id="m", member_epoch=1, topics=[{"name": "t", "partitions": [0]}]),
    group("offset fetch: no groups", FETCH, 8, "answer "),
    group("offset fetch: one group twice", FETCH, 8, "answer 0,0", groups=[{"group_id": "malformed-none"}] * 2),
    group("describe groups: none", DESCRIBE, 6, "answer "),
    group("describe groups: empty id", DESCRIBE, 6, "answer 0", groups=[""]),
    group("describe groups: unknown, v6", DESCRIBE, 6, "answer 69", groups=["malformed-none"]),
    group("describe groups: unknown, v5", DESCRIBE, 5, "answer 0", groups=["malformed-none"]),
    group("describe groups: one twice", DESCRIBE, 5, "answer 0,0", groups=["malformed-none"] * 2),
    group("list groups: unknown state", LIST, 5, "answer 0", states_filter=["Sleeping"]),
    group("list groups: empty state", LIST, 5, "answer 0", states_filter=[""]),
    group("list groups: unknown type", LIST, 5, "answer 0", types_filter=["club"]),
    group("delete groups: none", DELETE, 2, "answer "),
    group("delete groups: unknown", DELETE, 2, "answer 69", groups_names=["malformed-none"]),
    group("delete groups: empty id, which a commit made", DELETE, 2, "answer 0", groups_names=[""]),
    group("delete groups: unknown, twice", DELETE, 2, "answer 69", groups_names=["malformed-none"] * 2),
    group("offset delete: unknown group", FORGET, 0, "answer 69", group_id="malformed-none", topics=[{"name": "t", "partitions": [{"index": 0}]}]),
    group("offset delete: empty group id", FORGET, 0, "answer 24", topics=[{"name": "t", "partitions": [{"index": 0}]}]),
    group("offset delete: unknown topic", FORGET, 0, "answer 0,3", group_id="malformed", topics=[{"name": "no-such-topic", "partitions": [{"index": 0}]}]),
    group("offset delete: unknown partition", FORGET, 0, "answer 0,3", group_id="malformed", topics=lambda b: [{"name": b.topic, "partitions": [{"index": 99}]}]),
    group("offset delete: no topics", FORGET, 0, "answer 0", group_id="malformed"),
    beat("empty group id", "answer 42", group_id=""),
    beat("empty member id", "answer 42", member_id=""),
    beat("no topics", "answer 42", without=["subscribed_topic_names"]),
    beat("no rebalance timeout", "answer 42", without=["rebalance_timeout_ms"]),
    beat("null partitions", "answer 42", without=["topic_partitions"]),
    beat("partitions of a member that joins", "answer 42", topic_partitions=lambda b: [{"topic_id": b.topic_id, "partitions": [0]}]),
    beat("unknown assignor", "answer 112", server_assignor="magic"),
    beat("empty assignor", "answer 112", server_assignor=""),
    beat("pattern that is none", "answer 128", without=["subscribed_topic_names"], subscribed_topic_regex="["),
    beat("empty instance id", "answer 42", instance_id=""),
    beat("empty rack", "answer 42", rack_id=""),
    beat("epoch 1 of an unknown group", "answer 69", member_epoch=1),
    beat("epoch -2 without an instance", "answer 42", member_epoch=-2),
    beat("epoch -3", "answer 42", member_epoch=-3),
    beat("leaves an unknown group", "answer 69", member_epoch=-1),
    beat("leaves an unknown group for a while", "answer 69", member_epoch=-2, instance_id="i"),
    group("consumer group describe: none", DESCRIBE_NEW, 1, "answer "),
    group("consumer group describe: unknown", DESCRIBE_NEW, 1, "answer 69", group_ids=["malformed-none"]),
    group("consumer group describe: empty id", DESCRIBE_NEW, 1, "answer 24", group_ids=[""]),
]
