"""Members of groups by hand: every call of a member as a call of its own, and what it waits for.

`Member` knows its id and generation; `join` and `sync` only send, so that a
test can let many wait at once, and `joined` and `synced` take the answers.
"""

import struct
import time

from messages import decode_response, encode_request
from rawkafka import Connection

COMMIT, FETCH, FIND, JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, LIST, DELETE, FORGET = 8, 9, 10, 11, 12, 13, 14, 15, 16, 42, 47
BEAT, CONSUMER_DESCRIBE = 68, 69
MEMBER_ID_REQUIRED = 79
WAIT_ERRORS = {14, 15, 16}  # the coordinator loads, is not there yet, is elsewhere


def subscription(*topics, version=0, user_data=None, owned=()):
    """What a member of protocol type "consumer" says about itself; `owned` is [(topic, partitions)]."""
    out = struct.pack(">hi", version, len(topics))
    for topic in topics:
        out += struct.pack(">h", len(topic)) + topic.encode()
    out += struct.pack(">i", -1 if user_data is None else len(user_data)) + (user_data or b"")
    return out + (_partitions(owned) if version >= 1 else b"")


def assignment(*given, version=0, user_data=None):
    """What a leader gives to such a member: (topic, partitions) each."""
    out = struct.pack(">h", version) + _partitions(given)
    return out + struct.pack(">i", -1 if user_data is None else len(user_data)) + (user_data or b"")


def assigned(raw):
    """(version, {topic: partitions}) of an assignment."""
    version, count = struct.unpack_from(">hi", raw)
    at, topics = 6, {}
    for _ in range(count):
        length = struct.unpack_from(">h", raw, at)[0]
        name, at = raw[at + 2:at + 2 + length].decode(), at + 2 + length
        found = struct.unpack_from(">i", raw, at)[0]
        topics[name] = list(struct.unpack_from(f">{found}i", raw, at + 4))
        at += 4 + 4 * found
    return version, topics


def _partitions(of_topics):
    out = struct.pack(">i", len(of_topics))
    for topic, partitions in of_topics:
        out += struct.pack(">h", len(topic)) + topic.encode() + struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return out


class Member:
    """One member on a connection of its own; `group`'s defaults suit a test: short waits, one protocol."""

    def __init__(self, bootstrap, group, instance=None, protocols=(("range", b"m"),), protocol_type="consumer", session_ms=6000,
                 rebalance_ms=6000, join_version=9, sync_version=5, member_id="", timeout=15.0, client_id="judge"):
        self.bootstrap, self.group, self.instance, self.protocols = bootstrap, group, instance, list(protocols)
        self.protocol_type, self.session_ms, self.rebalance_ms = protocol_type, session_ms, rebalance_ms
        self.join_version, self.sync_version = join_version, sync_version
        self.member_id, self.generation, self.answer, self.assignment = member_id, -1, None, None
        self.connection = Connection(bootstrap, timeout=timeout, client_id=client_id)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Hangs up, without leaving."""
        self.connection.close()

    @property
    def is_leader(self):
        return self.answer is not None and self.answer["leader"] == self.member_id

    def call(self, key, version, **fields):
        return self.connection.call(key, version, **fields)

    # Joining

    def join(self):
        """Sends a JoinGroup. A dynamic member asks for its id first."""
        if self.join_version >= 4 and not self.member_id and self.instance is None:
            first = self.call(JOIN, self.join_version, **self._joining())
            if first["error_code"] != MEMBER_ID_REQUIRED:
                raise ValueError(f"JoinGroup without a member id: {first}")
            self.member_id = first["member_id"]
        self.connection.request(JOIN, self.join_version, encode_request(JOIN, self.join_version, self._joining())[0])
        return self

    def _joining(self):
        return {"group_id": self.group, "session_timeout_ms": self.session_ms, "rebalance_timeout_ms": self.rebalance_ms,
                "member_id": self.member_id, "group_instance_id": self.instance, "protocol_type": self.protocol_type,
                "protocols": [{"name": name, "metadata": metadata} for name, metadata in self.protocols]}

    def joined(self, want=0):
        """The answer of `join`; another error than `want` (None: any) is wrong."""
        self.answer = self._answer(JOIN, self.join_version, want)
        if self.answer["error_code"] == 0:
            self.member_id, self.generation = self.answer["member_id"], self.answer["generation_id"]
        return self.answer

    def sync(self, assignments=None):
        """Sends a SyncGroup; `assignments` is {member id: bytes}, of the leader."""
        protocol = None if self.answer is None else self.answer["protocol_name"]
        fields = {"group_id": self.group, "generation_id": self.generation, "member_id": self.member_id,
                  "group_instance_id": self.instance, "protocol_type": self.protocol_type, "protocol_name": protocol,
                  "assignments": [{"member_id": m, "assignment": a} for m, a in (assignments or {}).items()]}
        self.connection.request(SYNC, self.sync_version, encode_request(SYNC, self.sync_version, fields)[0])
        return self

    def synced(self, want=0):
        answer = self._answer(SYNC, self.sync_version, want)
        self.assignment = answer["assignment"]
        return answer

    def _answer(self, key, version, want):
        answer = decode_response(key, version, self.connection.response(key, version))
        if want is not None and answer["error_code"] != want:
            raise ValueError(f"{'JoinGroup' if key == JOIN else 'SyncGroup'} of {self.member_id or 'a new member'}:"
                             f" error {answer['error_code']}, expected {want}")
        return answer

    # A member's life

    def heartbeat(self, version=4, **over):
        """The error code."""
        return self.call(HEARTBEAT, version, **dict(self._self(), **over))["error_code"]

    def commit(self, topic, offsets, version=8, **over):
        """{partition: error} of a commit of {partition: offset or (offset, epoch, metadata)}."""
        rows = []
        for partition, offset in offsets.items():
            offset, epoch, metadata = offset if isinstance(offset, tuple) else (offset, -1, "")
            rows.append({"index": partition, "offset": offset, "leader_epoch": epoch, "metadata": metadata})
        answer = self.call(COMMIT, version, **dict(self._self(), topics=[{"name": topic, "partitions": rows}], **over))
        return {row["index"]: row["error_code"] for row in answer["topics"][0]["partitions"]}

    def leave(self, version=5):
        """The error of this member alone."""
        if version < 3:
            return self.call(LEAVE, version, group_id=self.group, member_id=self.member_id)["error_code"]
        answer = self.call(LEAVE, version, group_id=self.group, members=[
            {"member_id": self.member_id, "group_instance_id": self.instance}])
        return answer["error_code"] or answer["members"][0]["error_code"]

    def _self(self):
        return {"group_id": self.group, "generation_id": self.generation, "member_id": self.member_id,
                "group_instance_id": self.instance}


class ConsumerMember:
    """One member of the consumer protocol (KIP-848). `beat` is one heartbeat, full when it joins."""

    def __init__(self, bootstrap, group, member_id, topics, instance=None, rebalance_ms=6000, timeout=15.0, client_id="judge"):
        self.group, self.member_id, self.topics, self.instance = group, member_id, topics, instance
        self.rebalance_ms, self.epoch, self.owned = rebalance_ms, 0, {}
        self.connection = Connection(bootstrap, timeout=timeout, client_id=client_id)

    def close(self):
        self.connection.close()

    def beat(self, want=0, **over):
        """The answer; the member owns what it was told last. Another error than `want` (None: any) is wrong."""
        fields = {"group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch, "instance_id": self.instance,
                  "topic_partitions": [{"topic_id": t, "partitions": sorted(p)} for t, p in self.owned.items()]}
        if self.epoch == 0:
            fields.update(rebalance_timeout_ms=self.rebalance_ms, subscribed_topic_names=self.topics, topic_partitions=[])
        answer = self.connection.call(BEAT, 1, **dict(fields, **over))
        if want is not None and answer["error_code"] != want:
            raise ValueError(f"heartbeat of {self.member_id}: error {answer['error_code']} ({answer['error_message']}), expected {want}")
        if answer["error_code"] == 0:
            self.epoch = answer["member_epoch"]
            if answer["assignment"] is not None:
                self.owned = {t["topic_id"]: t["partitions"] for t in answer["assignment"]["topic_partitions"]}
        return answer

    def leave(self, epoch=-1):
        return self.beat(None, member_epoch=epoch)["error_code"]

    @property
    def partitions(self):
        return sorted(p for of_topic in self.owned.values() for p in of_topic)


def form(*members, assignments=None):
    """All join and sync, old members first; returns the leader. Each gets its number, or what `assignments` says."""
    for member in members:
        member.join()
    for member in members:
        member.joined()
    leader = next(member for member in members if member.is_leader)
    if assignments is None:
        assignments = {member.member_id: b"assignment %d" % i for i, member in enumerate(members)}
    for member in members:
        member.sync(assignments if member is leader else None)
    for member in members:
        member.synced()
    return leader


def commit_alone(connection, group, topic, offsets, version=8):
    """{partition: error} of a commit without membership, as operators' tools do."""
    rows = [{"index": p, "offset": o, "metadata": ""} for p, o in offsets.items()]
    answer = connection.call(COMMIT, version, group_id=group, topics=[{"name": topic, "partitions": rows}])
    return {row["index"]: row["error_code"] for row in answer["topics"][0]["partitions"]}


def committed(connection, group, topic, partitions, version=7):
    """{partition: offset}; -1 where nothing is committed. An error is wrong."""
    answer = connection.call(FETCH, version, group_id=group, topics=[{"name": topic, "partitions": list(partitions)}])
    if answer.get("error_code"):
        raise ValueError(f"OffsetFetch of {group}: error {answer['error_code']}")
    rows = answer["topics"][0]["partitions"]
    wrong = [row for row in rows if row["error_code"]]
    if wrong:
        raise ValueError(f"OffsetFetch of {group}: {wrong[:3]}")
    return {row["index"]: row["offset"] for row in rows}


def described(connection, group, version=5):
    return connection.call(DESCRIBE, version, groups=[group])["groups"][0]


def state(connection, group):
    return described(connection, group)["group_state"]


def consumer_described(connection, group, version=1):
    return connection.call(CONSUMER_DESCRIBE, version, group_ids=[group])["groups"][0]


def wait_for_groups(connection, topic, seconds=20):
    """Until commits are taken: Apache Kafka's offsets topic takes a while at first."""
    deadline = time.monotonic() + seconds
    while True:
        connection.call(FIND, 0, key="ready")
        codes = commit_alone(connection, "ready", topic, {0: 0})
        if set(codes.values()) == {0}:
            return
        if time.monotonic() > deadline:
            raise ValueError(f"no coordinator after {seconds} s: {codes}")
        time.sleep(0.05)
