"""Groups seen from the wire: `grouprules.py HOST:PORT [--reference] [--only TEXT]`.

What members, operators' tools and stored offsets may rely on, call by call.
Each expectation was seen on Apache Kafka 4.3.1, but for OWN_CHECKS, where we
keep more than it does; `--reference` judges such a broker. The broker must
start with group.initial.rebalance.delay.ms=0 and
group.min.session.timeout.ms=100.
"""

import argparse
import os
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from messages import encode_request  # noqa: E402
from rawgroups import (COMMIT, DELETE, DESCRIBE, FETCH, FORGET, HEARTBEAT, JOIN, LEAVE, LIST, SYNC, ConsumerMember, Member,  # noqa: E402
                       assigned, assignment, commit_alone, committed, consumer_described, described, form, state, subscription,
                       wait_for_groups)
from rawkafka import Connection, Silent, create_topic_and_wait, delete_topic  # noqa: E402

ILLEGAL_GENERATION, INCONSISTENT_PROTOCOL, UNKNOWN_MEMBER, REBALANCE = 22, 23, 25, 27
NON_EMPTY, NOT_FOUND, ID_REQUIRED, FENCED, SUBSCRIBED = 68, 69, 79, 82, 86
METADATA_TOO_LARGE, STALE_EPOCH = 12, 113


class Bench:
    """A topic of four partitions, a connection to look with, and names nobody used."""

    def __init__(self, bootstrap):
        self.bootstrap, self.count, self.members = bootstrap, 0, []
        self.admin = Connection(bootstrap)
        self.topic = self.name()
        create_topic_and_wait(self.admin, self.topic, 4)
        wait_for_groups(self.admin, self.topic)

    def name(self):
        self.count += 1
        return f"rule-{os.getpid()}-{id(self) % 10_000}-{self.count}"

    def member(self, group, **how):
        """A member whose connection is closed after the check."""
        self.members.append(Member(self.bootstrap, group, **how))
        return self.members[-1]

    def swept(self):
        for member in self.members:
            member.close()
        self.members.clear()


def equal(got, want, what):
    assert got == want, f"{what} is {got}, expected {want}"


def within(seconds, what, condition):
    """Waits until `condition()` holds; returns the seconds it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, f"{what}: not within {seconds} s"
        time.sleep(0.02)
    return time.monotonic() - began


# --- joining ----------------------------------------------------------------

def id_required(bench):
    """A dynamic member is sent away for its id from version 4 on, and before that, or with an instance id, it is not."""
    for version in range(10):
        group = bench.name()
        one = bench.member(group, join_version=version)
        first = one.call(JOIN, version, **one._joining())
        if version < 4:
            equal(first["error_code"], 0, f"error of a join without an id, v{version}")
            continue
        equal((first["error_code"], first["generation_id"], first["members"]), (ID_REQUIRED, -1, []), f"first join, v{version}")
        assert first["member_id"].startswith("judge-"), f"a member id does not start with the client's: {first['member_id']}"
        equal(described(bench.admin, group)["members"], [], "members after an id was given")
        one.member_id = first["member_id"]
        one.join().joined()
        equal((one.generation, one.is_leader), (1, True), f"generation and lead of the second join, v{version}")
    for version in range(5, 10):
        one = bench.member(bench.name(), instance="i", join_version=version)
        one.join().joined()
        equal(one.generation, 1, f"generation of a static member, v{version}")


def leader_alone_sees(bench):
    """The leader gets every member with its metadata and instance id, others an empty list."""
    for version in (0, 1, 2, 5, 6, 7, 9):
        group, static = bench.name(), "static" if version >= 5 else None
        first = bench.member(group, join_version=version, protocol_type="opaque", protocols=[("range", b"first")])
        form(first)
        second = bench.member(group, join_version=version, protocol_type="opaque", instance=static,
                              protocols=[("range", b"\0second\xff")])
        second.join()
        within(5, "a rebalance", lambda: first.heartbeat() == REBALANCE)
        first.join()
        first.joined(), second.joined()
        equal((first.generation, second.generation), (2, 2), f"generations, v{version}")
        equal((first.is_leader, second.is_leader), (True, False), f"leads, v{version}")
        equal(second.answer["leader"], first.member_id, f"leader told to the other, v{version}")
        equal(second.answer["members"], [], f"members told to the other, v{version}")
        found = {m["member_id"]: (m["metadata"], m.get("group_instance_id")) for m in first.answer["members"]}
        equal(found, {first.member_id: (b"first", None), second.member_id: (b"\0second\xff", static)}, f"members told to the leader, v{version}")
        equal(second.answer["protocol_name"], "range", f"protocol, v{version}")
        if version >= 7:
            equal(second.answer["protocol_type"], "opaque", f"protocol type, v{version}")


def exact_bytes(bench):
    """Every member gets exactly the leader's bytes, empty if there are none, in every version; DescribeGroups shows them."""
    for version in range(6):
        passed_on(bench, version, 300_000)


def megabyte(bench):
    """An assignment of a megabyte passes unchanged too, which is more than Apache Kafka's own topic takes."""
    for version in (0, 5):
        passed_on(bench, version, 1 << 20)


def passed_on(bench, version, large):
    """A group whose members get nothing, a byte, four bytes, `large` bytes, and no word at all."""
    sent = [b"", b"\0", b"\xff\xff\xff\xff", os.urandom(large), None]
    group = bench.name()
    members = [bench.member(group, sync_version=version, client_id=f"c{i}", protocol_type="opaque",
                            protocols=[("range", b"meta %d" % i)])
               for i in range(len(sent))]
    grown(members)
    leader = next(m for m in members if m.is_leader)
    given = {m.member_id: raw for m, raw in zip(members, sent) if raw is not None}
    for member in members:
        member.sync(given if member is leader else None)
    for member, raw in zip(members, sent):
        answer = member.synced()
        assert member.assignment == (raw or b""), f"v{version}: {len(member.assignment)} bytes came, {len(raw or b'')} were given"
        if version == 5:
            equal((answer["protocol_type"], answer["protocol_name"]), ("opaque", "range"), "protocol of SyncGroup")
    shown = {m["member_id"]: m for m in described(bench.admin, group)["members"]}
    for i, (member, raw) in enumerate(zip(members, sent)):
        row = shown[member.member_id]
        assert row["assignment"] == (raw or b""), f"DescribeGroups shows {len(row['assignment'])} bytes for {len(raw or b'')}"
        equal((row["metadata"], row["client_id"], row["group_instance_id"]), (b"meta %d" % i, f"c{i}", None), "described member")
        assert row["client_host"] == "/127.0.0.1", f"host {row['client_host']}"
    again = members[0].sync(given if members[0] is leader else None)
    equal(again.synced()["assignment"], sent[0], "assignment of a second SyncGroup")


def grown(members):
    """All of them joined: the first alone, then the others at once."""
    form(members[0])
    for member in members[1:]:
        member.join()
    within(5, "a rebalance", lambda: members[0].heartbeat() == REBALANCE)
    settle()  # all of them are to be in this round
    members[0].join()
    for member in members:
        member.joined()
    equal({m.generation for m in members}, {2}, "generations")


def settle():
    time.sleep(0.2)


def common_protocol(bench):
    """The protocol is one that all know, most want it; a member without a common one is refused, and one of another type."""
    group = bench.name()
    members = [bench.member(group, protocols=[(name, name.encode()) for name in names])
               for names in (("a", "b", "c"), ("c", "b"), ("b", "c"))]
    grown(members)
    equal({m.answer["protocol_name"] for m in members}, {"b"}, "protocol")
    equal({m["metadata"] for m in members[0].answer["members"]}, {b"b"}, "metadata")
    for how in ({"protocols": [("a", b"")]}, {"protocol_type": "connect", "protocols": [("b", b"")]}):
        stranger = bench.member(group, **how)
        equal(stranger.call(JOIN, 9, **stranger._joining())["error_code"], INCONSISTENT_PROTOCOL, f"error of a join with {how}")
    for kind in ("connect", "made up"):
        form(bench.member(bench.name(), protocol_type=kind))


def asked_protocol(bench):
    """A SyncGroup that names another protocol or type than the group's is refused."""
    one = bench.member(bench.name())
    one.join().joined()
    for type_, name in (("connect", "range"), ("consumer", "roundrobin")):
        answer = one.call(SYNC, 5, **one._self(), protocol_type=type_, protocol_name=name)
        equal(answer["error_code"], INCONSISTENT_PROTOCOL, f"error of a SyncGroup for {type_} {name}")
    one.sync({one.member_id: b"a"}).synced()


# --- a member's calls ---------------------------------------------------------

def heartbeats(bench):
    """Heartbeat: in a rebalance, of an old generation, of an unknown member; SyncGroup likewise."""
    group = bench.name()
    one = bench.member(group)
    form(one)
    equal([one.heartbeat(version=v) for v in range(5)], [0] * 5, "errors of heartbeats")
    equal(one.heartbeat(generation_id=0), ILLEGAL_GENERATION, "error with an older generation")
    equal(one.heartbeat(generation_id=2), ILLEGAL_GENERATION, "error with a newer generation")
    equal(one.heartbeat(member_id="nobody"), UNKNOWN_MEMBER, "error of an unknown member")
    other = bench.member(group).join()
    within(5, "a rebalance", lambda: one.heartbeat() == REBALANCE)
    equal(one.sync().synced(None)["error_code"], REBALANCE, "error of SyncGroup in a rebalance")
    one.join()
    one.joined(), other.joined()
    equal(one.heartbeat(generation_id=1), ILLEGAL_GENERATION, "error of the older generation")
    equal(one.heartbeat(), 0, "error while assignments are awaited")
    old = one.call(SYNC, 5, **dict(one._self(), generation_id=1), protocol_type="consumer", protocol_name="range")
    equal(old["error_code"], ILLEGAL_GENERATION, "error of SyncGroup of an older generation")
    equal(one.call(SYNC, 0, group_id=group, generation_id=2, member_id="nobody")["error_code"], UNKNOWN_MEMBER, "error of SyncGroup of nobody")
    other.sync()
    one.sync({one.member_id: b"1", other.member_id: b"2"})
    one.synced(), other.synced()
    equal((one.assignment, other.assignment), (b"1", b"2"), "assignments")


def leaving(bench):
    """LeaveGroup answers member by member; who left is unknown; the last one leaves an empty group."""
    group = bench.name()
    members = [bench.member(group, instance=name) for name in (None, "i", "j")]
    grown(members)
    answer = bench.admin.call(LEAVE, 5, group_id=group, members=[
        {"member_id": "nobody"}, {"member_id": "wrong", "group_instance_id": "i"}, {"member_id": "", "group_instance_id": "j"},
        {"member_id": "", "group_instance_id": "none"}])
    equal((answer["error_code"], [m["error_code"] for m in answer["members"]]), (0, [UNKNOWN_MEMBER, FENCED, 0, UNKNOWN_MEMBER]),
          "answer of LeaveGroup")
    equal([(m["member_id"], m["group_instance_id"]) for m in answer["members"]],
          [("nobody", None), ("wrong", "i"), ("", "j"), ("", "none")], "members named")
    equal(members[2].heartbeat(), UNKNOWN_MEMBER, "error of the one that was taken out")
    equal(members[0].leave(version=2), 0, "error of leaving, v2")
    equal(members[0].heartbeat(), UNKNOWN_MEMBER, "error of the one that left")
    equal(members[0].leave(version=2), UNKNOWN_MEMBER, "error of leaving again")
    equal(members[1].leave(), 0, "error of leaving")
    equal(state(bench.admin, group), "Empty", "state")
    again = bench.member(group)
    form(again)
    assert again.generation > 2, f"generation {again.generation} after 2"


def fenced(bench):
    """Who joins last with an instance id is the member; every call of the former one is fenced."""
    group = bench.name()
    old = bench.member(group, instance="i")
    form(old)
    new = bench.member(group, instance="i")
    new.join().joined()
    equal(new.generation, old.generation, "generation of the one that took over")
    assert new.member_id != old.member_id, "both have one member id"
    equal(old.heartbeat(), FENCED, "error of Heartbeat")
    equal(old.sync({}).synced(None)["error_code"], FENCED, "error of SyncGroup")
    equal(old.commit(bench.topic, {0: 1}), {0: FENCED}, "error of OffsetCommit")
    equal(old.join().joined(None)["error_code"], FENCED, "error of JoinGroup")
    equal(old.leave(), FENCED, "error of LeaveGroup")
    equal(new.heartbeat(), 0, "error of the new one's Heartbeat")
    equal(new.commit(bench.topic, {0: 1}), {0: 0}, "error of the new one's commit")
    equal(new.heartbeat(member_id="", group_instance_id="i"), FENCED, "error without a member id")
    equal(new.heartbeat(group_instance_id="other"), UNKNOWN_MEMBER, "error with an unknown instance id")


def static_restart(bench):
    """A static member that comes back finds its generation and its assignment, and nobody is disturbed."""
    group = bench.name()
    members = [bench.member(group, instance=name, protocols=[("range", name.encode())]) for name in "abc"]
    grown(members)
    leader = next(m for m in members if m.is_leader)
    for m in members:
        m.sync({o.member_id: b"part of " + o.instance.encode() for o in members} if m is leader else None)
    for m in members:
        m.synced()
    for i, who in enumerate(members):
        who.close()
        new = members[i] = bench.member(group, instance=who.instance, protocols=[("range", who.instance.encode())])
        answer = new.join().joined()
        equal(new.generation, 2, f"generation of {who.instance} after its restart")
        if who is leader:
            equal((new.is_leader, answer["skip_assignment"], len(answer["members"])), (True, True, 3), "what the leader that restarted is told")
        else:
            equal((answer["skip_assignment"], answer["members"]), (False, []), "what a member that restarted is told")
        new.sync().synced()
        equal(new.assignment, b"part of " + who.instance.encode(), "assignment after the restart")
        equal([m.heartbeat() for m in members], [0] * 3, "heartbeats of all")


def waits(member):
    """Whether a join is still waiting for others."""
    member.connection.sock.settimeout(0.5)
    try:
        member.joined(None)
        return False
    except Silent:
        return True
    finally:
        member.connection.sock.settimeout(15)


def rejoining(bench):
    """A follower that joins again unchanged changes nothing; a leader, or one with other metadata, begins a round."""
    group = bench.name()
    members = [bench.member(group) for _ in range(2)]
    grown(members)
    leader, follower = sorted(members, key=lambda m: not m.is_leader)
    follower.join().joined()
    equal((follower.generation, follower.answer["members"]), (2, []), "what a follower is told that joins again before the assignment")
    leader.join().joined()
    equal((leader.generation, len(leader.answer["members"])), (2, 2), "what the leader is told that joins again before the assignment")
    form_synced(members)
    follower.join().joined()
    equal((follower.generation, leader.heartbeat()), (2, 0), "generation of an unchanged follower, and the leader's heartbeat")
    follower.sync().synced()
    equal(follower.assignment, b"x", "assignment of an unchanged follower")
    follower.protocols = [("range", b"other")]
    follower.join()
    within(5, "a rebalance", lambda: leader.heartbeat() == REBALANCE)
    leader.join().joined()
    follower.joined()
    equal({m["metadata"] for m in leader.answer["members"]}, {b"m", b"other"}, "metadata told to the leader")
    form_synced(members)
    leader.join()
    within(5, "a rebalance", lambda: follower.heartbeat() == REBALANCE)
    follower.join().joined()
    leader.joined()
    equal({m.generation for m in members}, {4}, "generations")


# --- offsets ------------------------------------------------------------------

def commits_of_strangers(bench):
    """Commits of former members, old generations and outsiders of a live group are refused, and change nothing."""
    group = bench.name()
    one, two = bench.member(group), bench.member(group)
    grown([one, two])
    form_synced([one, two])
    equal(one.commit(bench.topic, {0: 10, 1: 11}), {0: 0, 1: 0}, "error of a member's commit")
    equal(one.commit(bench.topic, {0: 99}, generation_id=1), {0: ILLEGAL_GENERATION}, "error of an older generation")
    equal(one.commit(bench.topic, {0: 99}, generation_id=3), {0: ILLEGAL_GENERATION}, "error of a newer generation")
    equal(one.commit(bench.topic, {0: 99}, member_id="nobody"), {0: UNKNOWN_MEMBER}, "error of an unknown member")
    equal(commit_alone(bench.admin, group, bench.topic, {0: 99}), {0: UNKNOWN_MEMBER}, "error of an outsider")
    equal(two.leave(), 0, "error of leaving")
    equal(two.commit(bench.topic, {0: 99}), {0: UNKNOWN_MEMBER}, "error of the one that left")
    equal(one.commit(bench.topic, {0: 12}), {0: 0}, "error of a commit before the next round")
    one.join().joined()
    equal(one.commit(bench.topic, {0: 99}), {0: REBALANCE}, "error of a commit before the assignment")
    one.sync({one.member_id: b""}).synced()
    equal(one.commit(bench.topic, {0: 13}), {0: 0}, "error of a commit")
    equal(committed(bench.admin, group, bench.topic, range(3)), {0: 13, 1: 11, 2: -1}, "committed offsets")
    equal(one.leave(), 0, "error of leaving")
    equal(commit_alone(bench.admin, group, bench.topic, {0: 14}), {0: 0}, "error of an outsider's commit, group empty")
    equal(one.commit(bench.topic, {0: 99}), {0: UNKNOWN_MEMBER}, "error of a former member, group empty")
    equal(committed(bench.admin, group, bench.topic, [0]), {0: 14}, "committed offset")


def form_synced(members):
    """Assignments for members that have joined."""
    leader = next(m for m in members if m.is_leader)
    for m in members:
        m.sync({o.member_id: b"x" for o in members} if m is leader else None)
    for m in members:
        m.synced()


def unchanged(bench):
    """Offset, leader epoch and metadata come back as they were given, in every version."""
    topic_id = bench.admin.call(3, 12, topics=[{"name": bench.topic}])["topics"][0]["topic_id"]
    given = {0: (0, 0, ""), 1: (1 << 40, 7, "Z\u00fcrich \u2014 \u65e5\u672c"), 2: ((1 << 63) - 1, 0x7FFFFFFF, "m" * 4096), 3: (5, -1, None)}
    for version in range(2, 11):
        group = bench.name()
        rows = [{"index": p, "offset": o, "leader_epoch": e, "metadata": m} for p, (o, e, m) in given.items()]
        answer = bench.admin.call(COMMIT, version, group_id=group, topics=[{"name": bench.topic, "topic_id": topic_id, "partitions": rows}])
        equal({r["error_code"] for r in answer["topics"][0]["partitions"]}, {0}, f"errors of a commit, v{version}")
        for reading in range(1, 11):
            asked = {"name": bench.topic, "topic_id": topic_id, "partitions": [3, 1, 0, 2]}
            answer = bench.admin.call(FETCH, reading, group_id=group, topics=[asked], groups=[{"group_id": group, "topics": [asked]}])
            answer = answer["groups"][0] if reading >= 8 else answer
            equal(answer.get("error_code", 0), 0, f"error of a fetch, v{reading}")
            row = answer["topics"][0]
            equal(row.get("name", bench.topic) if reading < 10 else row["topic_id"], bench.topic if reading < 10 else topic_id, "topic")
            equal([r["index"] for r in row["partitions"]], [3, 1, 0, 2], f"partitions, v{reading}")
            for r in row["partitions"]:
                offset, epoch, metadata = given[r["index"]]
                epoch = epoch if version >= 6 else -1
                equal((r["error_code"], r["offset"], r["metadata"]), (0, offset, metadata or ""), f"commit v{version}, fetch v{reading}")
                equal(r.get("leader_epoch", epoch), epoch, f"leader epoch, commit v{version}, fetch v{reading}")


def nothing_committed(bench):
    """No commit is offset -1 without an error: of a group that is there, that is not, of a topic that is not."""
    group = bench.name()
    commit_alone(bench.admin, group, bench.topic, {0: 3})
    for version in range(1, 10):
        for name, topic, wanted in ((group, bench.topic, [0, 1]), (bench.name(), bench.topic, [0]), (group, "no-such-topic", [0, 7])):
            asked = {"name": topic, "partitions": wanted}
            answer = bench.admin.call(FETCH, version, group_id=name, topics=[asked], groups=[{"group_id": name, "topics": [asked]}])
            answer = answer["groups"][0] if version >= 8 else answer
            equal(answer.get("error_code", 0), 0, f"error of the fetch, v{version}")
            for r in answer["topics"][0]["partitions"]:
                want = 3 if (name, topic, r["index"]) == (group, bench.topic, 0) else -1
                equal((r["error_code"], r["offset"], r["metadata"], r.get("leader_epoch", -1)), (0, want, "", -1), f"answer, v{version}")


def all_offsets(bench):
    """Null topics are all that the group has committed, an empty list is none; many groups in one request."""
    group, other, none = bench.name(), bench.name(), bench.name()
    second = bench.name()
    create_topic_and_wait(bench.admin, second, 2)
    commit_alone(bench.admin, group, bench.topic, {0: 1, 3: 4})
    commit_alone(bench.admin, group, second, {1: 9})
    commit_alone(bench.admin, other, second, {0: 2})
    whole = {bench.topic: {0: 1, 3: 4}, second: {1: 9}}

    def found(topics):
        return {t["name"]: {r["index"]: r["offset"] for r in t["partitions"]} for t in topics}
    for version in range(2, 8):
        equal(found(bench.admin.call(FETCH, version, group_id=group, topics=None)["topics"]), whole, f"all offsets, v{version}")
        equal(bench.admin.call(FETCH, version, group_id=group, topics=[])["topics"], [], f"no offsets, v{version}")
    equal(bench.admin.call(FETCH, 1, group_id=group, topics=[])["topics"], [], "no offsets, v1")
    for version in (8, 9):
        answer = bench.admin.call(FETCH, version, groups=[
            {"group_id": group, "topics": None}, {"group_id": none, "topics": None}, {"group_id": other, "topics": None},
            {"group_id": group, "topics": []}])
        got = [(g["group_id"], g["error_code"], found(g["topics"])) for g in answer["groups"]]
        equal(got, [(group, 0, whole), (none, 0, {}), (other, 0, {second: {0: 2}}), (group, 0, {})], f"many groups, v{version}")


def last_commit_counts(bench):
    """Of commits sent one after the other, also in one request or without waiting, the last counts."""
    group = bench.name()
    answer = bench.admin.call(COMMIT, 8, group_id=group, topics=[{"name": bench.topic, "partitions": [
        {"index": 0, "offset": 9}, {"index": 0, "offset": 6}]}])
    equal([r["error_code"] for r in answer["topics"][0]["partitions"]], [0, 0], "errors")
    equal(committed(bench.admin, group, bench.topic, [0]), {0: 6}, "offset")
    with Connection(bench.bootstrap) as connection:
        for offset in range(100):
            body, _ = encode_request(COMMIT, 8, {"group_id": group, "topics": [{"name": bench.topic, "partitions": [{"index": 1, "offset": offset}]}]})
            connection.request(COMMIT, 8, body)
        answers = [connection.receive() for _ in range(100)]
        numbers = [int.from_bytes(raw[:4], "big") for raw in answers]
        equal(numbers, sorted(numbers), "order of answers")
        equal(committed(bench.admin, group, bench.topic, [1]), {1: 99}, "offset")


def large_metadata(bench):
    """Metadata above 4096 characters of UTF-16, not bytes, is refused for its partition alone."""
    group = bench.name()
    one = bench.member(group)
    form(one)
    got = one.commit(bench.topic, {0: (1, -1, "m" * 4096), 1: (1, -1, "m" * 4097), 2: (1, -1, "\u20ac" * 4096), 3: (1, -1, "\U0001f600" * 2048)})
    equal(got, {0: 0, 1: METADATA_TOO_LARGE, 2: 0, 3: 0}, "errors")
    got = one.commit(bench.topic, {0: (2, -1, "\U0001f600" * 2048 + "m"), 1: (2, -1, "\u20ac" * 4097)})
    equal(got, {0: METADATA_TOO_LARGE, 1: METADATA_TOO_LARGE}, "errors of one unit more")
    equal(committed(bench.admin, group, bench.topic, range(4)), {0: 1, 1: -1, 2: 1, 3: 1}, "offsets")


def topic_deleted(bench):
    """Offsets go with their topic, and a new topic of that name has none."""
    group, topic = bench.name(), bench.name()
    create_topic_and_wait(bench.admin, topic, 2)
    commit_alone(bench.admin, group, topic, {0: 5, 1: 6})
    commit_alone(bench.admin, group, bench.topic, {0: 7})
    equal(delete_topic(bench.admin, topic), 0, "error of DeleteTopics")
    within(5, "offsets are gone", lambda: set(committed(bench.admin, group, topic, [0, 1]).values()) == {-1})
    create_topic_and_wait(bench.admin, topic, 2)
    equal(committed(bench.admin, group, topic, [0, 1]), {0: -1, 1: -1}, "offsets of the new topic")
    equal(committed(bench.admin, group, bench.topic, [0]), {0: 7}, "offset of the other topic")


# --- operators ------------------------------------------------------------------

def deleted_group(bench):
    """DeleteGroups ends an empty group with its offsets; one with members is not touched; one that is gone is not found."""
    group, empty = bench.name(), bench.name()
    one = bench.member(group)
    form(one)
    one.commit(bench.topic, {0: 5})
    commit_alone(bench.admin, empty, bench.topic, {0: 6})
    for version in range(3):
        answer = bench.admin.call(DELETE, version, groups_names=[group])
        equal([(r["group_id"], r["error_code"]) for r in answer["results"]], [(group, NON_EMPTY)], f"answer, v{version}")
    answer = bench.admin.call(DELETE, 2, groups_names=[empty, group, bench.name()])
    equal(sorted(r["error_code"] for r in answer["results"]), [0, NON_EMPTY, NOT_FOUND], "errors")
    equal(committed(bench.admin, empty, bench.topic, [0]), {0: -1}, "offset of a deleted group")
    equal(listed(bench, group, empty), {group: "Stable"}, "groups listed")
    equal(described(bench.admin, empty, 6)["error_code"], NOT_FOUND, "error of describing it")
    equal(committed(bench.admin, group, bench.topic, [0]), {0: 5}, "offset of the live group")
    equal(one.leave(), 0, "error of leaving")
    equal(bench.admin.call(DELETE, 2, groups_names=[group])["results"][0]["error_code"], 0, "error of deleting it when empty")
    equal(commit_alone(bench.admin, group, bench.topic, {0: 1}), {0: 0}, "error of a commit that makes it anew")
    again = bench.member(group)
    form(again)
    equal(again.generation, 1, "generation of a group that was made anew")


def listed(bench, *names, **filters):
    """{group: state} of some groups as ListGroups tells it."""
    answer = bench.admin.call(LIST, 5, **filters)
    equal(answer["error_code"], 0, "error of ListGroups")
    return {g["group_id"]: g["group_state"] for g in answer["groups"] if g["group_id"] in names}


def offset_delete(bench):
    """OffsetDelete forgets offsets, but for topics that the group subscribes to; a live group of another type is not touched."""
    group, second = bench.name(), bench.name()
    create_topic_and_wait(bench.admin, second, 1)
    one = bench.member(group, protocols=[("range", subscription(bench.topic))])
    form(one)
    one.commit(bench.topic, {0: 1, 1: 2})
    one.commit(second, {0: 3})

    def delete(name=group):
        answer = bench.admin.call(FORGET, 0, group_id=name, topics=[
            {"name": bench.topic, "partitions": [{"index": 0}, {"index": 2}]}, {"name": second, "partitions": [{"index": 0}]}])
        return answer["error_code"], [[r["error_code"] for r in t["partitions"]] for t in answer["topics"]]
    equal(delete(), (0, [[SUBSCRIBED, SUBSCRIBED], [0]]), "answer while subscribed")
    equal(committed(bench.admin, group, bench.topic, [0, 1]), {0: 1, 1: 2}, "offsets of the subscribed topic")
    equal(committed(bench.admin, group, second, [0]), {0: -1}, "offset of the other topic")
    one.leave()
    equal(delete(), (0, [[0, 0], [0]]), "answer when empty")
    equal(committed(bench.admin, group, bench.topic, [0, 1]), {0: -1, 1: 2}, "offsets after it")
    other = bench.member(bench.name(), protocol_type="connect")
    form(other)
    equal(delete(other.group), (NON_EMPTY, []), "answer for a live group of another type")


def list_filters(bench):
    """ListGroups by state and type, whatever the case of the letters."""
    names = {wanted: bench.name() for wanted in ("Empty", "Stable", "PreparingRebalance", "CompletingRebalance")}
    commit_alone(bench.admin, names["Empty"], bench.topic, {0: 1})
    form(bench.member(names["Stable"]))
    bench.member(names["CompletingRebalance"]).join().joined()
    waiting = bench.member(names["PreparingRebalance"])
    form(waiting)
    bench.member(names["PreparingRebalance"]).join()
    within(5, "a rebalance", lambda: waiting.heartbeat() == REBALANCE)
    everything = {group: wanted for wanted, group in names.items()}
    equal(listed(bench, *names.values()), everything, "all groups")
    for wanted, group in names.items():
        for text in (wanted, wanted.lower(), wanted.upper()):
            equal(listed(bench, *names.values(), states_filter=[text]), {group: wanted}, f"groups in state {text}")
    both = {names[s]: s for s in ("Empty", "Stable")}
    equal(listed(bench, *names.values(), states_filter=["empty", "Stable", "Nonsense"]), both, "groups in two states")
    equal(listed(bench, *names.values(), types_filter=["Classic"]), everything, "classic groups")
    equal(listed(bench, *names.values(), types_filter=["consumer"]), {}, "groups of the new protocol")
    equal(listed(bench, *names.values(), states_filter=["Dead"]), {}, "dead groups")
    for version in range(6):
        rows = {g["group_id"]: g for g in bench.admin.call(LIST, version)["groups"]}
        equal(rows[names["Stable"]]["protocol_type"], "consumer", f"protocol type, v{version}")
        equal(rows[names["Empty"]]["protocol_type"], "", f"protocol type of a group that only commits, v{version}")


def describing(bench):
    """DescribeGroups: states, protocol, and a missing group (Dead, from version 6 not found)."""
    group = bench.name()
    one = bench.member(group, instance="i", client_id="client", protocols=[("range", b"meta")])
    one.join().joined()
    row = described(bench.admin, group)
    equal((row["error_code"], row["group_state"], row["protocol_type"]), (0, "CompletingRebalance", "consumer"), "group before the assignment")
    one.sync({one.member_id: b"given"}).synced()
    for version in range(7):
        row = described(bench.admin, group, version)
        equal((row["error_code"], row["group_id"], row["group_state"], row["protocol_type"], row["protocol_data"]),
              (0, group, "Stable", "consumer", "range"), f"group, v{version}")
        (found,) = row["members"]
        equal((found["member_id"], found["client_id"], found["metadata"], found["assignment"], found.get("group_instance_id", "i")),
              (one.member_id, "client", b"meta", b"given", "i"), f"member, v{version}")
    one.leave()
    row = described(bench.admin, group)
    equal((row["group_state"], row["protocol_type"], row["protocol_data"], row["members"]), ("Empty", "consumer", "", []), "empty group")
    for version in range(7):
        row = described(bench.admin, bench.name(), version)
        equal((row["error_code"], row["group_state"], row["protocol_type"], row["members"]),
              (NOT_FOUND if version >= 6 else 0, "Dead", "", []), f"missing group, v{version}")
        if version >= 6:
            assert row["error_message"], "no error message"
    answer = bench.admin.call(DESCRIBE, 5, groups=[group, bench.name(), group])
    equal(sorted(g["group_state"] for g in answer["groups"]), ["Dead", "Empty", "Empty"], "states of many")


# --- time -----------------------------------------------------------------------

def others_go_on(bench):
    """A member that stops in the middle of a join delays no other group."""
    stuck = bench.name()
    first = bench.member(stuck, rebalance_ms=20_000, session_ms=20_000)
    form(first)
    second = bench.member(stuck, rebalance_ms=20_000, session_ms=20_000).join()
    within(5, "a rebalance", lambda: first.heartbeat() == REBALANCE)
    slowest, failed = [0.0], []

    def live(number):
        try:
            began = time.monotonic()
            with Member(bench.bootstrap, f"{stuck}-{number}") as member:
                form(member)
                equal(member.commit(bench.topic, {0: number}), {0: 0}, "error of a commit")
                equal(member.heartbeat(), 0, "error of a heartbeat")
                equal(member.leave(), 0, "error of leaving")
            slowest[0] = max(slowest[0], time.monotonic() - began)
        except Exception as error:  # pylint: disable=broad-except
            failed.append(error)
    # More groups than the offsets topic has partitions: some share the stuck one's.
    for start in range(0, 160, 16):
        threads = [threading.Thread(target=live, args=(start + i,)) for i in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failed, f"{len(failed)} of 160 groups: {failed[0]!r}"
    assert slowest[0] < 5, f"the slowest group took {slowest[0]:.1f} s"
    first.join()
    first.joined(), second.joined()


def silent_leader(bench):
    """A leader that sends heartbeats but never the assignment is removed with the rebalance timeout, late calls or not."""
    group = bench.name()
    members = [bench.member(group, rebalance_ms=2000, session_ms=10_000) for _ in range(3)]
    grown(members)
    began = time.monotonic()
    leader = next(m for m in members if m.is_leader)
    others = [m for m in members if m is not leader]
    others[0].sync()
    while time.monotonic() - began < 1.5:
        equal(leader.heartbeat(), 0, "error of the silent leader's heartbeat")
        time.sleep(0.2)
    others[1].sync()  # a late call
    for member in others:
        equal(member.synced(None)["error_code"], REBALANCE, "error of a SyncGroup that waited")
    took = time.monotonic() - began
    assert 1.8 <= took <= 3.5, f"the round ended after {took:.1f} s, expected 2"
    equal(leader.heartbeat(), UNKNOWN_MEMBER, "error of the leader that was removed")
    for member in others:
        member.join()
    for member in others:
        member.joined()
    form_synced(others)
    equal({m.generation for m in others}, {3}, "generations")
    equal(len(described(bench.admin, group)["members"]), 2, "members")


def silent_follower(bench):
    """A follower that never fetches its assignment is removed with the rebalance timeout; the others read on meanwhile."""
    group = bench.name()
    members = [bench.member(group, rebalance_ms=2000, session_ms=10_000) for _ in range(3)]
    grown(members)
    began = time.monotonic()
    leader = next(m for m in members if m.is_leader)
    silent, other = [m for m in members if m is not leader]
    other.sync()
    leader.sync({m.member_id: b"x" for m in members})
    leader.synced(), other.synced()
    assert time.monotonic() - began < 1, "the others had to wait"
    equal(silent.heartbeat(), 0, "error of the silent one's heartbeat")
    took = within(5, "a rebalance", lambda: leader.heartbeat() == REBALANCE)
    assert took < 3.5, f"it took {took:.1f} s"
    equal(silent.heartbeat(), UNKNOWN_MEMBER, "error of the one that was removed")


def never_rejoins(bench):
    """A member that does not rejoin is left behind after the longest rebalance timeout of the members, counted once."""
    group = bench.name()
    gone = bench.member(group, rebalance_ms=2000, session_ms=20_000)
    form(gone)
    new = bench.member(group, rebalance_ms=500, session_ms=20_000).join()
    began = time.monotonic()
    late = None
    while waits(new):
        told = gone.heartbeat()
        if told == UNKNOWN_MEMBER and not waits(new):
            break  # the round ended between the two looks
        equal(told, REBALANCE, "error of the heartbeat of the one that does not come")
        if late is None and time.monotonic() - began > 1:
            late = bench.member(group, rebalance_ms=500, session_ms=20_000).join()
        assert time.monotonic() - began < 6, "the join is not answered"
    took = time.monotonic() - began
    assert 1.5 <= took <= 3.5, f"the round took {took:.1f} s, expected 2"
    late.joined()
    equal((new.answer["error_code"], late.generation), (0, new.answer["generation_id"]), "the new round")
    equal(gone.heartbeat(), UNKNOWN_MEMBER, "error of the one left behind")


def sessions(bench):
    """A member whose session ends is removed, a static one too; a group whose members are all gone is empty, and can be deleted."""
    group = bench.name()
    silent = [bench.member(group, session_ms=1000, rebalance_ms=1000, instance=name) for name in (None, "i")]
    alive = bench.member(group, session_ms=6000, rebalance_ms=1000)
    members = [alive, *silent]
    grown(members)
    form_synced(members)
    for member in silent:
        member.close()
    took = within(5, "a rebalance", lambda: alive.heartbeat() == REBALANCE)
    assert 0.7 <= took <= 3, f"the silent ones were noticed after {took:.1f} s, expected 1"
    settle()
    alive.join().joined()
    form_synced([alive])
    equal(alive.commit(bench.topic, {0: 3}), {0: 0}, "error of a commit")
    doomed = bench.name()
    crowd = [bench.member(doomed, session_ms=1000, rebalance_ms=1000) for _ in range(3)]
    grown(crowd)
    form_synced(crowd)
    for member in crowd:
        member.close()
    took = within(6, "the group is empty", lambda: state(bench.admin, doomed) == "Empty")
    equal(bench.admin.call(DELETE, 2, groups_names=[doomed])["results"][0]["error_code"], 0, "error of deleting it")


def hangs_up_in_join(bench):
    """Who hangs up while its join waits is a member until its session ends, and holds up nobody for longer."""
    group = bench.name()
    first = bench.member(group, session_ms=6000, rebalance_ms=1500)
    form(first)
    second = bench.member(group, session_ms=1000, rebalance_ms=1000).join()
    within(5, "a rebalance", lambda: first.heartbeat() == REBALANCE)
    second.close()
    first.join().joined()
    first.sync({first.member_id: b"all"}).synced()
    began = time.monotonic()
    within(6, "the group is alone again", lambda: alone_again(first))
    assert time.monotonic() - began < 6


def alone_again(member):
    """Follows the rebalances of a member until the group is stable with it alone."""
    if member.heartbeat() == REBALANCE:
        member.join().joined()
        member.sync({m["member_id"]: b"x" for m in member.answer["members"]}).synced()
    return len(described(member.connection, member.group)["members"]) == 1 and member.heartbeat() == 0


def old_requests(bench):
    """The whole life of a member in the oldest versions: join, sync, heartbeat, commit, fetch, leave."""
    group = bench.name()
    one = bench.member(group, join_version=0, sync_version=0)
    form(one)
    equal(one.heartbeat(version=0), 0, "error of Heartbeat v0")
    equal(one.commit(bench.topic, {0: 4}, version=2), {0: 0}, "error of OffsetCommit v2")
    equal(committed(bench.admin, group, bench.topic, [0], version=1), {0: 4}, "offset by OffsetFetch v1")
    equal(one.leave(version=0), 0, "error of LeaveGroup v0")
    equal(bench.admin.call(HEARTBEAT, 0, group_id=group, generation_id=1, member_id=one.member_id)["error_code"], UNKNOWN_MEMBER, "error after it")


# --- both protocols in one group (KIP-848) ------------------------------------

def newcomer(bench, group, member_id, **how):
    """A member of the consumer protocol whose connection is closed after the check."""
    bench.members.append(ConsumerMember(bench.bootstrap, group, member_id, [bench.topic], **how))
    return bench.members[-1]


def consumer(bench, group, owned=(), **how):
    """A member of the classic protocol that reads the topic, with a cooperative member's words."""
    wanted = subscription(bench.topic, version=1, owned=[(bench.topic, list(owned))] if owned else [])
    return bench.member(group, protocols=[("range", wanted), ("sticky", wanted)], **how)


def parts(member, bench):
    """What a member of the classic protocol was assigned of the topic."""
    version, topics = assigned(member.assignment)
    assert version == 1 and set(topics) <= {bench.topic}, f"assignment {member.assignment}"
    return topics.get(bench.topic, [])


def classic_pair(bench, group, **how):
    """A stable classic group of two, with two partitions each."""
    members = [consumer(bench, group, **how) for _ in range(2)]
    grown(members)
    leader = next(m for m in members if m.is_leader)
    shares = {m.member_id: assignment((bench.topic, [2 * i, 2 * i + 1]), version=1) for i, m in enumerate(members)}
    for m in members:
        m.sync(shares if m is leader else None)
    for m in members:
        m.synced()
    return members


def rejoined(member):
    member.join().joined()
    member.sync().synced()


def settled(bench, olds, news):
    """Everybody acts until nobody has anything to do; then all partitions are somebody's."""
    def is_done():
        for new in news:
            new.beat()
        for old in olds:
            if old.heartbeat() == REBALANCE:
                rejoined(old)
        shares = [p for old in olds for p in parts(old, bench)] + [p for new in news for p in new.partitions]
        return sorted(shares) == [0, 1, 2, 3]
    within(10, "all partitions have an owner", is_done)


def types(bench, group):
    row = consumer_described(bench.admin, group)
    return row["group_state"], sorted((m["member_type"] for m in row["members"]))


def upgrade(bench):
    """A classic group of consumers becomes a consumer group when a member of that protocol joins; the others rejoin and read on."""
    group = bench.name()
    olds = classic_pair(bench, group)
    generation = olds[0].generation
    new = newcomer(bench, group, "new")
    new.beat()
    equal((new.epoch, new.partitions), (generation + 1, []), "epoch and share of the one that joins")
    equal(types(bench, group), ("Reconciling", [0, 0, 1]), "state and types of members")
    equal([g["group_type"] for g in bench.admin.call(LIST, 5, states_filter=[], types_filter=[])["groups"] if g["group_id"] == group],
          ["consumer"], "type")
    equal(described(bench.admin, group, version=6)["error_code"], NOT_FOUND, "error of DescribeGroups")
    old = olds[0]
    equal(old.sync().synced(None)["error_code"], REBALANCE, "error of SyncGroup before the join")
    equal([old.heartbeat(), old.heartbeat(generation_id=generation + 1)], [REBALANCE, ILLEGAL_GENERATION], "errors of Heartbeat")
    equal(old.commit(bench.topic, {0: 5}), {0: 0}, "error of a commit")
    equal(old.commit(bench.topic, {0: 6}, generation_id=generation + 1), {0: ILLEGAL_GENERATION}, "error of one of another generation")
    answer = old.join().joined()
    equal((answer["generation_id"], answer["protocol_type"], answer["protocol_name"], answer["leader"], answer["members"]),
          (generation + 1, "consumer", "range", "", []), "answer of JoinGroup")
    equal(old.call(SYNC, 5, **old._self(), protocol_type="consumer", protocol_name="sticky")["error_code"], INCONSISTENT_PROTOCOL,
          "error of SyncGroup for another protocol")
    equal(old.heartbeat(), 0, "error of Heartbeat before SyncGroup")
    old.sync().synced()
    settled(bench, olds, [new])
    equal(types(bench, group), ("Stable", [0, 0, 1]), "state and types of members")
    equal(committed(bench.admin, group, bench.topic, [0]), {0: 5}, "offset")


def keeps_some(bench):
    """A cooperative member that must let go of partitions stays in its generation and is asked to join until it has."""
    group = bench.name()
    old = consumer(bench, group)
    old.join().joined()
    old.sync({old.member_id: assignment((bench.topic, [0, 1, 2, 3]), version=1)}).synced()
    new = newcomer(bench, group, "new")
    new.beat()
    wants = lambda owned: [(n, subscription(bench.topic, version=1, owned=[(bench.topic, owned)])) for n in ("range", "sticky")]
    old.protocols = wants([0, 1, 2, 3])
    equal(old.join().joined()["generation_id"], 1, "generation while it owns too much")
    kept = parts(old, bench) if old.sync().synced() else []
    equal(len(kept), 2, "what it keeps")
    equal(old.heartbeat(), REBALANCE, "error of Heartbeat")
    equal(new.beat()["member_epoch"] and new.partitions, [], "share of the other meanwhile")
    shown = next(m for m in consumer_described(bench.admin, group)["members"] if m["member_type"] == 0)
    equal(shown["assignment"]["topic_partitions"][0]["partitions"], [0, 1, 2, 3], "what it is described to have")
    old.protocols = wants(kept)
    equal(old.join().joined()["generation_id"], 2, "generation when it has let go")
    old.sync().synced()
    new.beat()
    equal(sorted(kept + new.partitions), [0, 1, 2, 3], "shares")


def not_upgraded(bench):
    """A group that is not of consumers, or whose words cannot be read, stays classic and notices nothing."""
    good = subscription(bench.topic)
    for what, kind, wanted, given in (
            ("another type", "connect", good, b""), ("rubbish wanted", "consumer", b"xx", b""), ("nothing wanted", "consumer", b"", b""),
            ("rubbish given", "consumer", good, b"xx"),
            ("user data given", "consumer", good, assignment((bench.topic, [0]), user_data=b"x"))):
        group = bench.name()
        old = bench.member(group, protocol_type=kind, protocols=[("range", wanted)])
        old.join().joined()
        old.sync({old.member_id: given}).synced()
        new = newcomer(bench, group, "new")
        answer = new.beat(None)
        equal((answer["error_code"], bool(answer["error_message"])), (NOT_FOUND, True), f"error and message with {what}")
        equal((old.heartbeat(), described(bench.admin, group)["group_state"]), (0, "Stable"), f"the classic group with {what}")


def waiting_at_upgrade(bench):
    """Who waits in a rebalance when the group is upgraded is told to join again, with the id it was given."""
    group = bench.name()
    first = consumer(bench, group)
    form(first, assignments={})
    second = consumer(bench, group).join()
    within(5, "a rebalance", lambda: first.heartbeat() == REBALANCE)
    new = newcomer(bench, group, "new")
    new.beat()
    answer = second.joined(REBALANCE)
    equal(answer["member_id"], second.member_id, "member id")
    rejoined(second)
    rejoined(first)
    settled(bench, [first, second], [new])


def classic_joins(bench):
    """A classic member may join a consumer group: it must share a protocol with the other classic ones, and wants what can be read."""
    group = bench.name()
    new = newcomer(bench, group, "new")
    new.beat()
    one = consumer(bench, group)
    first = one.call(JOIN, 9, **one._joining())
    equal((first["error_code"], first["generation_id"], bool(first["member_id"])), (ID_REQUIRED, -1, True), "first join")
    rejoined(one)
    equal(parts(one, bench), [], "share while the other has all")
    settled(bench, [one], [new])
    for how in ({"protocols": [("unknown", subscription(bench.topic))]}, {"protocol_type": "connect", "protocols": one.protocols}):
        other = bench.member(group, **how)
        equal(other.call(JOIN, 9, **other._joining())["error_code"], INCONSISTENT_PROTOCOL, f"error with {sorted(how)}")
    other = bench.member(group, protocols=[("sticky", b"xx")], join_version=3)
    equal(other.call(JOIN, 3, **other._joining())["error_code"], -1, "error with words that cannot be read")
    equal([one.heartbeat(member_id=m) for m in ("nobody", "new")], [UNKNOWN_MEMBER] * 2, "errors of Heartbeat for others")
    equal(one.call(SYNC, 5, **dict(one._self(), member_id="new"), protocol_type="consumer", protocol_name="range")["error_code"],
          UNKNOWN_MEMBER, "error of SyncGroup for a member of the other protocol")


def fetches_of_both(bench):
    """OffsetFetch with a member's name checks generation or epoch, each with its own error."""
    group = bench.name()
    old, _ = classic_pair(bench, group)
    new = newcomer(bench, group, "new")
    new.beat()

    def error(member_id, epoch):
        asked = {"group_id": group, "member_id": member_id, "member_epoch": epoch, "topics": [{"name": bench.topic, "partitions": [0]}]}
        return bench.admin.call(FETCH, 9, groups=[asked])["groups"][0]["error_code"]
    equal([error(old.member_id, old.generation + by) for by in (0, -1, 1)], [0, ILLEGAL_GENERATION, ILLEGAL_GENERATION], "errors of the classic one")
    equal([error("new", new.epoch + by) for by in (0, -1)], [0, STALE_EPOCH], "errors of the other")
    equal([error("nobody", 1), error(None, -1)], [UNKNOWN_MEMBER, 0], "errors of others")


def downgrade(bench):
    """When its last member of the consumer protocol leaves, is removed or falls silent, the group is classic again and rebalances."""
    def leaves(new, _):
        equal(new.leave(), 0, "error of leaving")

    def is_removed(new, _):
        answer = bench.admin.call(LEAVE, 5, group_id=new.group, members=[{"member_id": "", "group_instance_id": "i"}])
        equal(answer["members"][0]["error_code"], 0, "error of LeaveGroup for a member of the other protocol")

    def falls_silent(_, old):
        within(10, "the silent one is noticed", lambda: old.heartbeat() == REBALANCE)
    for how in (leaves, is_removed, falls_silent):
        group = bench.name()
        old = consumer(bench, group)
        old.join().joined()
        old.sync({old.member_id: assignment((bench.topic, [0, 1, 2, 3]), version=1)}).synced()
        new = newcomer(bench, group, "new", instance="i")
        new.beat()
        settled(bench, [old], [new])
        how(new, old)
        what = how.__name__
        equal(consumer_described(bench.admin, group)["error_code"], NOT_FOUND, f"error of ConsumerGroupDescribe when one {what}")
        row = described(bench.admin, group)
        equal((row["group_state"], [assigned(m["assignment"])[1] for m in row["members"]]),
              ("PreparingRebalance", [{bench.topic: parts(old, bench)}]), f"state and share when one {what}")
        equal(old.heartbeat(), REBALANCE, f"error of Heartbeat when one {what}")
        generation = old.generation
        old.join().joined()
        equal((old.generation, old.is_leader, len(old.answer["members"])), (generation + 1, True, 1), f"the next round when one {what}")
        old.sync({old.member_id: assignment((bench.topic, [0, 1, 2, 3]), version=1)}).synced()
        equal((old.heartbeat(), state(bench.admin, group)), (0, "Stable"), f"the classic group when one {what}")
        again = newcomer(bench, group, "again")
        again.beat()
        equal(types(bench, group)[1], [0, 1], "types of members when another joins")


def static_changes(bench):
    """A static member takes its place under either protocol, with its partitions; its former self is fenced."""
    group = bench.name()
    olds = classic_pair(bench, group)
    static = consumer(bench, group, instance="i")
    static.join()
    within(5, "a rebalance", lambda: olds[0].heartbeat() == REBALANCE)
    for member in olds:
        member.join()
    members = [*olds, static]
    for member in members:
        member.joined()
    leader = next(m for m in members if m.is_leader)
    given = {m.member_id: assignment((bench.topic, p), version=1) for m, p in zip(members, ([0], [1], [2, 3]))}
    for member in members:
        member.sync(given if member is leader else None)
    for member in members:
        member.synced()
    new = newcomer(bench, group, "new", instance="i")
    new.beat()
    equal((new.partitions, types(bench, group)[1]), ([2, 3], [0, 0, 1]), "share of the one that took over, and types")
    equal([static.heartbeat(), static.sync().synced(None)["error_code"], static.join().joined(None)["error_code"], static.leave()],
          [FENCED] * 4, "errors of its former self")
    settled(bench, olds, [new])
    kept = new.partitions
    equal(new.leave(epoch=-2), 0, "error of leaving for a while")
    equal(types(bench, group)[1], [0, 0, 1], "types while it is away")
    back = consumer(bench, group, instance="i")
    answer = back.join().joined()
    equal((answer["generation_id"], answer["leader"]), (olds[0].generation, ""), "generation and leader of the one that is back")
    equal(state(bench.admin, group), "Stable", "state of the classic group that nobody had to disturb")
    back.sync().synced()
    equal(parts(back, bench), kept, "its share")
    equal([m.heartbeat() for m in (*olds, back)], [0] * 3, "errors of Heartbeat")
    equal(new.beat(None)["error_code"], NOT_FOUND, "error of its former self")


def slow_in_mixed(bench):
    """A classic member of a consumer group that does not rejoin, or sync, within its rebalance timeout is removed."""
    group = bench.name()
    old = consumer(bench, group, rebalance_ms=1000, session_ms=10_000)
    old.join().joined()
    old.sync({old.member_id: assignment((bench.topic, [0, 1, 2, 3]), version=1)}).synced()
    news = [newcomer(bench, group, f"new-{i}") for i in range(2)]
    news[0].beat()
    time.sleep(1.2)
    equal(old.heartbeat(), REBALANCE, "error of Heartbeat; the time begins with it")
    took = within(5, "it is removed", lambda: old.heartbeat() == UNKNOWN_MEMBER)
    assert 0.8 <= took <= 2, f"it was removed after {took:.1f} s, expected 1"
    news[1].beat()
    late = consumer(bench, group, rebalance_ms=1000, session_ms=10_000)
    late.join().joined()
    took = within(5, "it is removed", lambda: late.heartbeat() == UNKNOWN_MEMBER)
    assert 0.8 <= took <= 2, f"without a sync it was removed after {took:.1f} s, expected 1"
    settled(bench, [], news)


# --- where we keep more than Apache Kafka 4.3.1 does ---------------------------

def unsettled_upgrade(bench):
    """A static member that changes its protocol before its group had an assignment gets its partitions."""
    group = bench.name()
    consumer(bench, group, instance="i").join().joined()
    new = newcomer(bench, group, "new", instance="i")
    within(5, "it has all", lambda: new.beat() and new.partitions == [0, 1, 2, 3])


def expired_owner(bench):
    """A classic member that was removed from a consumer group and comes back with partitions is told that they are lost."""
    group = bench.name()
    new = newcomer(bench, group, "new")
    new.beat()
    old = consumer(bench, group, session_ms=1000)
    rejoined(old)
    settled(bench, [old], [new])
    owned = parts(old, bench)
    within(5, "the other has all", lambda: new.beat() and new.partitions == [0, 1, 2, 3])
    old.protocols = [(name, subscription(bench.topic, version=1, owned=[(bench.topic, owned)])) for name in ("range", "sticky")]
    equal(old.join().joined(None)["error_code"], UNKNOWN_MEMBER, "error of its join")
    old.protocols = [(name, subscription(bench.topic, version=1)) for name in ("range", "sticky")]
    rejoined(old)


OWN_CHECKS = [megabyte, unsettled_upgrade, expired_owner]
CHECKS = [id_required, leader_alone_sees, exact_bytes, common_protocol, asked_protocol, rejoining, heartbeats, leaving, fenced, static_restart,
          commits_of_strangers, unchanged, nothing_committed, all_offsets, last_commit_counts, large_metadata, topic_deleted,
          deleted_group, offset_delete, list_filters, describing, others_go_on, silent_leader, silent_follower, never_rejoins,
          sessions, hangs_up_in_join, old_requests, upgrade, keeps_some, not_upgraded, waiting_at_upgrade, classic_joins,
          fetches_of_both, downgrade, static_changes, slow_in_mixed]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("--reference", action="store_true")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    bench, failed = Bench(args.bootstrap), 0
    for check in CHECKS if args.reference else CHECKS + OWN_CHECKS:
        if args.only not in check.__name__:
            continue
        name = check.__doc__.rstrip(".")
        try:
            check(bench)
            print(f"PASS {name}", flush=True)
        except Exception as error:  # whatever it was, the rule was not kept
            failed += 1
            print(f"FAIL {name}: {error!r}", flush=True)
            bench.swept()
            bench = Bench(args.bootstrap)
        bench.swept()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
