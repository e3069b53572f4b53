"""Access rules call by call: `aclrules.py HOST:PORT`.

The broker has StandardAuthorizer, no super user, and allows what no rule
concerns. The operator comes from 127.0.0.1 and first gives that host every
right on everything, which leaves nothing to the subject, who comes from
127.0.0.2. Each row is a request of the subject: without rights it is refused
by the code that is written here, with exactly the rights of the row it is not,
and with any one of these missing it is refused again. Apache Kafka does the
same: `tests/run --reference --only acl-rules`.
"""

import argparse
import os
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from messages import MESSAGES  # noqa: E402
from rawkafka import Closed, Connection, Silent, batch, create_topic_and_wait  # noqa: E402

OPERATOR, SUBJECT = "127.0.0.1", "127.0.0.2"
TOPIC, GROUP, CLUSTER, TXN = 2, 3, 4, 5
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = range(2, 13)
DENY, ALLOW = 2, 3
REFUSALS = {29: TOPIC, 30: GROUP, 31: CLUSTER, 53: TXN}
NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TXN = 29, 30, 31, 53
NAME = f"acl-{int(time.time() * 1000) % 100_000_000}"
KAFKA_CLUSTER = "kafka-cluster"


class From(Connection):
    """A connection from an address of this machine."""

    def __init__(self, bootstrap, source, timeout=15.0):
        host, port = bootstrap.rsplit(":", 1)
        self.sock = socket.create_connection((host, int(port)), timeout=timeout, source_address=(source, 0))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client_id, self.correlation = "judge", 0


def rule(operation, kind, name, host=SUBJECT, permission=ALLOW, pattern=LITERAL, principal="User:ANONYMOUS"):
    return {"resource_type": kind, "resource_name": name, "resource_pattern_type": pattern, "principal": principal,
            "host": host, "operation": operation, "permission_type": permission}


def as_filter(one):
    return {"resource_type_filter": one["resource_type"], "resource_name_filter": one["resource_name"],
            "pattern_type_filter": one["resource_pattern_type"], "principal_filter": one["principal"],
            "host_filter": one["host"], "operation": one["operation"], "permission_type": one["permission_type"]}


def codes(value):
    """Every error code in an answer."""
    if isinstance(value, dict):
        found = {v for k, v in value.items() if k.endswith("error_code")}
        return found.union(*(codes(v) for v in value.values()))
    return set().union(*(codes(v) for v in value)) if isinstance(value, list) else set()


def refusals(answer):
    return codes(answer) & set(REFUSALS)


class Bench:
    def __init__(self, bootstrap):
        self.bootstrap, self.failed, self.passed = bootstrap, [], 0
        self.operator, self.subject = From(bootstrap, OPERATOR), From(bootstrap, SUBJECT)
        self.serves = self.operator.versions()

    def create(self, *rules):
        answer = self.operator.call(30, 2, creations=list(rules))
        assert codes(answer) <= {0}, answer

    def delete(self, *rules):
        answer = self.operator.call(31, 2, filters=[as_filter(one) for one in rules])
        assert codes(answer) <= {0}, answer

    def check(self, label, holds, seen):
        if holds:
            self.passed += 1
        else:
            self.failed.append(label)
            print(f"FAIL {label}: {str(seen)[:400]}", flush=True)

    def ask(self, key, version, fields):
        return self.subject.call(key, version, **fields)


def settle(seen, seconds=5.0):
    """Kafka's broker follows its controller: a rule counts a moment after it was answered."""
    deadline = time.monotonic() + seconds
    while True:
        answer, holds = seen()
        if holds or time.monotonic() > deadline:
            return answer, holds
        time.sleep(0.02)


def one(name=NAME, **fields):
    return {"topics": [{"name": name, "partitions": [dict({"index": 0}, **fields)]}]}


def listed(name=NAME):
    return [{"name": name, "partitions": [0]}]


def configs(kind, whose, **config):
    return {"resources": [{"resource_type": kind, "resource_name": whose, "keys": None, "configs": [config] if config else []}]}


MEMBER = {"generation_id": 1, "member_id": "nobody"}
PRODUCER = {"producer_id": 1 << 40, "producer_epoch": 0}
RECORDS = batch()
TXN_RECORDS = batch(attributes=0x10, producer_id=1 << 40, producer_epoch=0, base_sequence=0)


def rows():
    """Label, key, version, fields, the code without rights, and the rights that are enough."""
    topic, group, txn = NAME, f"{NAME}-g", f"{NAME}-x"
    cluster = KAFKA_CLUSTER
    yield "produce", 0, 9, one(records=RECORDS), NO_TOPIC, [(WRITE, TOPIC, topic)]
    yield "produce in a transaction", 0, 9, dict(one(records=TXN_RECORDS), transactional_id=txn), NO_TXN, [(WRITE, TXN, txn), (WRITE, TOPIC, topic)]
    yield "fetch", 1, 12, dict(one(fetch_offset=0), max_wait_ms=0), NO_TOPIC, [(READ, TOPIC, topic)]
    yield "fetch as a replica", 1, 12, dict(one(fetch_offset=0), max_wait_ms=0, replica_id=1), NO_TOPIC, [(CLUSTER_ACTION, CLUSTER, cluster)]
    yield "list offsets", 2, 6, one(timestamp=-1), NO_TOPIC, [(DESCRIBE, TOPIC, topic)]
    for verb, right in (("read", READ), ("write", WRITE), ("delete", DELETE), ("alter", ALTER)):
        yield f"list offsets of what one may {verb}", 2, 6, one(timestamp=-1), NO_TOPIC, [(right, TOPIC, topic)]
    yield "list offsets of what is not there", 2, 6, one(f"{NAME}-none", timestamp=-1), NO_TOPIC, [(DESCRIBE, TOPIC, f"{NAME}-none")]
    yield "metadata", 3, 9, {"topics": [{"name": topic}]}, NO_TOPIC, [(DESCRIBE, TOPIC, topic)]
    yield "metadata of what is not there", 3, 9, {"topics": [{"name": f"{NAME}-none"}], "allow_auto_topic_creation": False}, NO_TOPIC, [
        (DESCRIBE, TOPIC, f"{NAME}-none")]
    yield "metadata that creates", 3, 9, {"topics": [{"name": f"{NAME}-new"}]}, NO_TOPIC, [(DESCRIBE, TOPIC, f"{NAME}-new"), (CREATE, TOPIC, f"{NAME}-new")]
    yield "metadata that creates for who may create any", 3, 9, {"topics": [{"name": f"{NAME}-any"}]}, NO_TOPIC, [
        (DESCRIBE, TOPIC, f"{NAME}-any"), (CREATE, CLUSTER, cluster)]
    for version in (8, 9):
        offsets = one(offset=1, metadata="")
        yield f"commit offsets, version {version}", 8, version, dict(offsets, group_id=group), NO_GROUP, [(READ, GROUP, group), (READ, TOPIC, topic)]
    yield "fetch offsets", 9, 7, {"group_id": group, "topics": listed()}, NO_GROUP, [(DESCRIBE, GROUP, group), (DESCRIBE, TOPIC, topic)]
    yield "fetch offsets of many groups", 9, 8, {"groups": [{"group_id": group, "topics": listed()}]}, NO_GROUP, [
        (DESCRIBE, GROUP, group), (DESCRIBE, TOPIC, topic)]
    yield "fetch all offsets", 9, 8, {"groups": [{"group_id": group, "topics": None}]}, NO_GROUP, [(DESCRIBE, GROUP, group)]
    for version in (3, 4):
        yield f"find a coordinator of a group, version {version}", 10, version, {"key": group, "coordinator_keys": [group]}, NO_GROUP, [(DESCRIBE, GROUP, group)]
        yield f"find a coordinator of transactions, version {version}", 10, version, {"key": txn, "key_type": 1, "coordinator_keys": [txn]}, NO_TXN, [
            (DESCRIBE, TXN, txn)]
    yield "join a group", 11, 7, {"group_id": group, "member_id": "nobody", "protocols": [{"name": "range", "metadata": b"m"}]}, NO_GROUP, [
        (READ, GROUP, group)]
    yield "heartbeat", 12, 4, dict(MEMBER, group_id=group), NO_GROUP, [(READ, GROUP, group)]
    yield "leave a group", 13, 4, {"group_id": group, "members": [{"member_id": "nobody"}]}, NO_GROUP, [(READ, GROUP, group)]
    yield "sync a group", 14, 5, dict(MEMBER, group_id=group, protocol_type="consumer", protocol_name="range"), NO_GROUP, [(READ, GROUP, group)]
    yield "describe a group", 15, 5, {"groups": [group]}, NO_GROUP, [(DESCRIBE, GROUP, group)]
    yield "create a topic", 19, 7, {"topics": [{"name": f"{NAME}-c"}], "validate_only": True}, NO_TOPIC, [
        (CREATE, TOPIC, f"{NAME}-c"), (DESCRIBE_CONFIGS, TOPIC, f"{NAME}-c")]
    yield "create any topic", 19, 4, {"topics": [{"name": f"{NAME}-c"}], "validate_only": True}, NO_TOPIC, [(CREATE, CLUSTER, cluster)]
    yield "delete a topic", 20, 5, {"topic_names": [f"{NAME}-none"]}, NO_TOPIC, [(DELETE, TOPIC, f"{NAME}-none")]
    yield "delete any topic", 20, 6, {"topics": [{"name": f"{NAME}-none"}]}, NO_TOPIC, [(DELETE, CLUSTER, cluster)]
    yield "delete records", 21, 2, one(offset=0), NO_TOPIC, [(DELETE, TOPIC, topic)]
    yield "a producer id", 22, 4, {}, NO_CLUSTER, [(IDEMPOTENT_WRITE, CLUSTER, cluster)]
    yield "a producer id for who may write anywhere", 22, 4, {}, NO_CLUSTER, [(WRITE, TOPIC, f"{NAME}-wherever")]
    yield "a transactional id", 22, 4, {"transactional_id": txn}, NO_TXN, [(WRITE, TXN, txn)]
    yield "epoch ends", 23, 4, one(leader_epoch=0), NO_TOPIC, [(DESCRIBE, TOPIC, topic)]
    yield "epoch ends as a broker", 23, 4, one(leader_epoch=0), NO_TOPIC, [(CLUSTER_ACTION, CLUSTER, cluster)]
    yield "add partitions", 24, 3, dict(PRODUCER, transactional_id=txn, topics=listed()), NO_TXN, [(WRITE, TXN, txn), (WRITE, TOPIC, topic)]
    yield "add partitions as a broker", 24, 5, {"transactions": [dict(PRODUCER, transactional_id=txn, topics=listed(), verify_only=True)]}, NO_CLUSTER, [
        (CLUSTER_ACTION, CLUSTER, cluster)]
    yield "add offsets", 25, 3, dict(PRODUCER, transactional_id=txn, group_id=group), NO_TXN, [(WRITE, TXN, txn), (READ, GROUP, group)]
    yield "end a transaction", 26, 3, dict(PRODUCER, transactional_id=txn, committed=True), NO_TXN, [(WRITE, TXN, txn)]
    for right, who in ((ALTER, "operator"), (CLUSTER_ACTION, "broker")):
        yield f"write markers as a {who}", 27, 1, {"markers": [dict(PRODUCER, committed=False, coordinator_epoch=0, topics=listed(f"{NAME}-none"))]}, NO_CLUSTER, [
            (right, CLUSTER, cluster)]
    yield "commit offsets in a transaction", 28, 3, dict(PRODUCER, **one(offset=1, metadata=""), transactional_id=txn, group_id=group), NO_TXN, [
        (WRITE, TXN, txn), (READ, GROUP, group), (READ, TOPIC, topic)]
    everything = {"resource_type_filter": ANY, "pattern_type_filter": ANY, "operation": 1, "permission_type": 1}
    yield "describe access rules", 29, 2, everything, NO_CLUSTER, [(DESCRIBE, CLUSTER, cluster)]
    yield "create an access rule", 30, 2, {"creations": [rule(READ, TOPIC, f"{NAME}-none")]}, NO_CLUSTER, [(ALTER, CLUSTER, cluster)]
    yield "delete an access rule", 31, 2, {"filters": [as_filter(rule(READ, TOPIC, f"{NAME}-none"))]}, NO_CLUSTER, [(ALTER, CLUSTER, cluster)]
    for label, kind, name, where, refused in (("topic", 2, topic, (TOPIC, topic), NO_TOPIC), ("broker", 4, "1", (CLUSTER, cluster), NO_CLUSTER),
                                              ("group", 32, group, (GROUP, group), NO_GROUP)):
        yield f"describe the settings of a {label}", 32, 4, configs(kind, name), refused, [(DESCRIBE_CONFIGS, *where)]
        yield f"describe the settings that one may alter of a {label}", 32, 4, configs(kind, name), refused, [(ALTER_CONFIGS, *where)]
        key = {"topic": "retention.ms", "broker": "log.retention.ms", "group": "consumer.session.timeout.ms"}[label]
        yield f"alter the settings of a {label}", 44, 1, dict(configs(kind, name, name=key, op=0, value="50000"), validate_only=True), refused, [
            (ALTER_CONFIGS, *where)]
    yield "alter all settings of a topic", 33, 1, dict(configs(2, topic, name="retention.ms", value="50000"), validate_only=True), NO_TOPIC, [
        (ALTER_CONFIGS, TOPIC, topic)]
    yield "move a replica", 34, 2, {"dirs": [{"path": "/no/such/directory", "topics": listed()}]}, NO_CLUSTER, [(ALTER, CLUSTER, cluster)]
    yield "describe directories", 35, 3, {"topics": listed()}, NO_CLUSTER, [(DESCRIBE, CLUSTER, cluster)]
    yield "create partitions", 37, 3, {"topics": [{"name": topic, "count": 9}], "validate_only": True}, NO_TOPIC, [(ALTER, TOPIC, topic)]
    yield "delete a group", 42, 2, {"groups_names": [f"{NAME}-g-none"]}, NO_GROUP, [(DELETE, GROUP, f"{NAME}-g-none")]
    yield "elect leaders", 43, 2, {"topics": listed()}, NO_CLUSTER, [(ALTER, CLUSTER, cluster)]
    yield "reassign partitions", 45, 0, {"topics": [{"name": topic, "partitions": [{"index": 0, "replicas": None}]}]}, NO_CLUSTER, [(ALTER, CLUSTER, cluster)]
    yield "list reassignments", 46, 0, {"topics": None}, NO_CLUSTER, [(DESCRIBE, CLUSTER, cluster)]
    yield "forget offsets", 47, 0, {"group_id": group, "topics": [{"name": topic, "partitions": [{"index": 9}]}]}, NO_GROUP, [
        (DELETE, GROUP, group), (READ, TOPIC, topic)]
    yield "describe credentials", 50, 0, {"users": [{"name": f"{NAME}-nobody"}]}, NO_CLUSTER, [(DESCRIBE, CLUSTER, cluster)]
    yield "delete a credential", 51, 0, {"deletions": [{"name": f"{NAME}-nobody", "mechanism": 1}]}, NO_CLUSTER, [(ALTER, CLUSTER, cluster)]
    yield "describe producers", 61, 0, {"topics": listed()}, NO_TOPIC, [(READ, TOPIC, topic)]
    yield "describe a transaction", 65, 0, {"transactional_ids": [txn]}, NO_TXN, [(DESCRIBE, TXN, txn)]
    beat = {"group_id": f"{NAME}-g8", "member_id": "me", "member_epoch": 0, "rebalance_timeout_ms": 60000, "topic_partitions": []}
    yield "heartbeat of the consumer protocol", 68, 1, dict(beat, subscribed_topic_names=[topic]), NO_GROUP, [(READ, GROUP, f"{NAME}-g8"), (DESCRIBE, TOPIC, topic)]
    yield "describe a group of the consumer protocol", 69, 1, {"group_ids": [f"{NAME}-g8"]}, NO_GROUP, [(DESCRIBE, GROUP, f"{NAME}-g8"), (DESCRIBE, TOPIC, topic)]
    yield "list what has settings", 74, 1, {"resource_types": [2]}, NO_CLUSTER, [(DESCRIBE_CONFIGS, CLUSTER, cluster)]
    yield "describe partitions", 75, 0, {"topics": [{"name": topic}]}, NO_TOPIC, [(DESCRIBE, TOPIC, topic)]


# What is asked by nobody's leave, or only leaves out what one may not see.
OTHERWISE = {3, 16, 17, 18, 36, 60, 66}


def judge_row(bench, label, key, version, fields, refused, rights):
    answer = bench.ask(key, version, fields)
    bench.check(f"{label}: without rights {refused}", refusals(answer) == {refused}, answer)
    needed = [rule(*right) for right in rights]
    bench.create(*needed)
    answer, holds = settle(lambda: (lambda found: (found, not refusals(found)))(bench.ask(key, version, fields)))
    bench.check(f"{label}: with exactly {len(rights)} right(s) none is missed", holds, answer)
    # What is created once is there.
    for missing in needed if len(needed) > 1 and "that creates" not in label else []:
        bench.delete(missing)
        answer, holds = settle(lambda: (lambda found: (found, bool(refusals(found))))(bench.ask(key, version, fields)))
        expected = {code for code, kind in REFUSALS.items() if kind == missing["resource_type"]}
        if missing["resource_type"] == CLUSTER:
            expected = {NO_TOPIC}  # the cluster's right stood for the topic's
        bench.check(f"{label}: without one of the rights {expected}", refusals(answer) == expected, answer)
        bench.create(missing)
        settle(lambda: (None, not refusals(bench.ask(key, version, fields))))
    denied = rule(needed[0]["operation"], needed[0]["resource_type"], needed[0]["resource_name"], permission=DENY)
    bench.create(denied)
    answer, holds = settle(lambda: (lambda found: (found, bool(refusals(found))))(bench.ask(key, version, fields)))
    bench.check(f"{label}: a rule that denies is stronger", holds or needed[0]["operation"] in (READ, WRITE, DELETE, ALTER, ALTER_CONFIGS), answer)
    bench.delete(denied, *needed)
    answer, holds = settle(lambda: (lambda found: (found, refusals(found) == {refused}))(bench.ask(key, version, fields)))
    bench.check(f"{label}: and without them refused again", holds, answer)


def judge_creation_by_the_way(bench):
    """Whoever may describe a topic that is not there, and not create it, is told of that."""
    name = f"{NAME}-not"
    needed = rule(DESCRIBE, TOPIC, name)
    bench.create(needed)
    for creates, expected in ((False, {3, 0}), (True, {NO_TOPIC, 0}), (False, {3, 0})):
        fields = {"topics": [{"name": name}], "allow_auto_topic_creation": creates}
        answer, holds = settle(lambda: (lambda found: (found, codes(found) | {0} == expected))(bench.ask(3, 9, fields)))  # noqa: B023
        bench.check(f"metadata of a topic one may not create, creation {creates}: {expected}", holds, answer)
    bench.delete(needed)


def judge_lists(bench):
    """Lists leave out what one may not see, and say nothing of it."""
    topic, group, txn = NAME, f"{NAME}-g", f"{NAME}-x"
    def mine(names):
        return {name for name in names if name and name.startswith(NAME)}
    lists = (
        ("topics by metadata", 3, 9, {"topics": None}, lambda a: mine(t["name"] for t in a["topics"]), (DESCRIBE, TOPIC, topic), {topic}),
        ("topics by pages", 75, 0, {"topics": []}, lambda a: mine(t["name"] for t in a["topics"]), (DESCRIBE, TOPIC, topic), {topic}),
        ("groups", 16, 5, {}, lambda a: mine(g["group_id"] for g in a["groups"]), (DESCRIBE, GROUP, group), {group}),
        ("transactional ids", 66, 1, {}, lambda a: mine(t["transactional_id"] for t in a["transactions"]), (DESCRIBE, TXN, txn), {txn}))
    for label, key, version, fields, names, right, expected in lists:
        answer = bench.ask(key, version, fields)
        bench.check(f"{label}: none without rights", names(answer) == set() and not refusals(answer), answer)
        needed = rule(*right)
        bench.create(needed)
        answer, holds = settle(lambda: (lambda found: (found, names(found) == expected))(bench.ask(key, version, fields)))  # noqa: B023
        bench.check(f"{label}: those one may describe", holds, answer)
        bench.delete(needed)
        settle(lambda: (None, names(bench.ask(key, version, fields)) == set()))  # noqa: B023
    needed = rule(DESCRIBE, CLUSTER, KAFKA_CLUSTER)
    bench.create(needed)
    answer, holds = settle(lambda: (lambda found: (found, group in {g["group_id"] for g in found["groups"]}))(bench.ask(16, 5, {})))
    bench.check("groups: all for who may describe the cluster", holds, answer)
    bench.delete(needed)


def bits(*operations):
    return sum(1 << operation for operation in operations)


def judge_told_rights(bench):
    """KIP-430: what the caller is told that it may do is what the rules say."""
    topic, group = NAME, f"{NAME}-g"
    asked = {"topics": [{"name": topic}], "include_topic_authorized_operations": True, "include_cluster_authorized_operations": True}
    needed = [rule(READ, TOPIC, topic), rule(ALTER_CONFIGS, TOPIC, topic), rule(DESCRIBE, CLUSTER, KAFKA_CLUSTER), rule(DELETE, GROUP, group)]
    bench.create(*needed)
    def by_metadata():
        found = bench.ask(3, 9, asked)
        told = found["topics"][0]["topic_authorized_operations"], found["cluster_authorized_operations"]
        return told, told == (bits(READ, DESCRIBE, ALTER_CONFIGS, DESCRIBE_CONFIGS), bits(DESCRIBE))
    told, holds = settle(by_metadata)
    bench.check("metadata tells the rights on topic and cluster", holds, told)
    told = bench.ask(75, 0, {"topics": [{"name": topic}]})["topics"][0]["topic_authorized_operations"]
    bench.check("pages tell the rights on a topic", told == bits(READ, DESCRIBE, ALTER_CONFIGS, DESCRIBE_CONFIGS), told)
    told = bench.ask(60, 0, {"include_cluster_authorized_operations": True})["cluster_authorized_operations"]
    bench.check("describing the cluster tells the rights on it", told == bits(DESCRIBE), told)
    told = bench.ask(15, 5, {"groups": [group], "include_authorized_operations": True})["groups"][0]["authorized_operations"]
    bench.check("describing a group tells the rights on it", told == bits(DELETE, DESCRIBE), told)
    bench.delete(*needed)
    found = settle(lambda: (lambda found: (found, found["cluster_authorized_operations"] == 0))(bench.ask(60, 0, {"include_cluster_authorized_operations": True})))
    bench.check("whoever may not describe the cluster is told of no rights on it", found[1], found[0])


def judge_patterns(bench):
    """Prefixes, wildcards, hosts and everybody; what denies wins however it is written."""
    def may():
        return not refusals(bench.ask(2, 6, one(timestamp=-1)))
    for label, allowing in (("a prefix", rule(DESCRIBE, TOPIC, NAME[:-2], pattern=PREFIXED)), ("every topic", rule(DESCRIBE, TOPIC, "*")),
                            ("everybody", rule(DESCRIBE, TOPIC, NAME, principal="User:*")), ("every operation", rule(ALL, TOPIC, NAME))):
        bench.create(allowing)
        _, holds = settle(lambda: (None, may()))
        bench.check(f"allowed by {label}", holds, allowing)
        for what, denying in (("a prefix", rule(DESCRIBE, TOPIC, NAME[:3], permission=DENY, pattern=PREFIXED)),
                              ("every topic", rule(ALL, TOPIC, "*", permission=DENY)),
                              ("everybody", rule(DESCRIBE, TOPIC, NAME, permission=DENY, principal="User:*"))):
            bench.create(denying)
            _, holds = settle(lambda: (None, not may()))
            bench.check(f"allowed by {label}, denied by {what}", holds, denying)
            bench.delete(denying)
            settle(lambda: (None, may()))
        bench.delete(allowing)
        settle(lambda: (None, not may()))
    for label, other in (("another host", rule(DESCRIBE, TOPIC, NAME, host="127.0.0.3")), ("another user", rule(DESCRIBE, TOPIC, NAME, principal="User:other")),
                         ("a longer prefix", rule(DESCRIBE, TOPIC, NAME + "0", pattern=PREFIXED)), ("another kind", rule(DESCRIBE, GROUP, NAME))):
        bench.create(other)
        time.sleep(0.05)
        bench.check(f"not allowed by {label}", not may(), other)
        bench.delete(other)


def judge_rules_themselves(bench, filter_word):
    """What CreateAcls refuses, entry by entry; filters; doubles. `filter_word`: the code for a word that only a filter
    may hold. Apache Kafka's is UNKNOWN_SERVER_ERROR, for the whole request, and tells nothing."""
    good = rule(READ, TOPIC, f"{NAME}-r")
    entries = (("a good one", good, 0), ("the same again", good, 0), ("no name", dict(good, resource_name=""), 42),
               ("another cluster", rule(READ, CLUSTER, "mine"), 42), ("any kind", dict(good, resource_type=1), filter_word),
               ("any pattern", dict(good, resource_pattern_type=ANY), filter_word), ("the pattern match", dict(good, resource_pattern_type=MATCH), filter_word),
               ("any operation", dict(good, operation=1), filter_word), ("any permission", dict(good, permission_type=1), filter_word),
               ("an unknown kind", dict(good, resource_type=99), 42), ("an unknown operation", dict(good, operation=99), 42),
               ("a principal without a kind", dict(good, principal="alice"), 42))
    for label, entry, expected in entries:
        answer = bench.operator.call(30, 2, creations=[entry])
        bench.check(f"create {label}: {expected}", codes(answer) == {expected}, answer)
    bench.create(rule(READ, TOPIC, f"{NAME}-r", pattern=PREFIXED), rule(WRITE, TOPIC, f"{NAME}-r"))
    def found(**fields):
        asked = dict({"resource_type_filter": TOPIC, "resource_name_filter": f"{NAME}-r", "pattern_type_filter": ANY, "operation": 1,
                      "permission_type": 1}, **fields)
        answer = bench.operator.call(29, 2, **asked)
        return sum(len(resource["acls"]) for resource in answer["resources"] if resource["resource_name"].startswith(NAME))
    for label, fields, count in (("any pattern", {}, 3), ("literal ones", {"pattern_type_filter": LITERAL}, 2), ("prefixed ones", {"pattern_type_filter": PREFIXED}, 1),
                                 ("what concerns a name", {"resource_name_filter": f"{NAME}-rest", "pattern_type_filter": MATCH}, 1),
                                 ("one operation", {"operation": WRITE}, 1), ("one host", {"host_filter": SUBJECT}, 3),
                                 ("another principal", {"principal_filter": "User:other"}, 0), ("an unknown kind", {"resource_type_filter": 99}, 0)):
        _, holds = settle(lambda: (None, found(**fields) == count), 2.0)  # noqa: B023
        bench.check(f"describe {label}: {count}", holds, found(**fields))
    both = dict(as_filter(good), operation=1, resource_name_filter=f"{NAME}-r", pattern_type_filter=ANY)
    answer = bench.operator.call(31, 2, filters=[both, as_filter(good), dict(both, resource_type_filter=99), dict(both, operation=99)])
    counts = [(found["error_code"], len(found["matching_acls"])) for found in answer["filter_results"]]
    bench.check("delete by filters, of which two match the same", counts == [(0, 3), (0, 1), (42, 0), (42, 0)], counts)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("--only", default="", help="rows that contain this")
    parser.add_argument("--reference", action="store_true", help="this is Apache Kafka")
    args = parser.parse_args()
    bench = Bench(args.bootstrap)
    create_topic_and_wait(bench.operator, NAME)
    assert not refusals(bench.ask(2, 6, one(timestamp=-1))), "what no rule concerns is everybody's"
    for key_type, key in ((0, f"{NAME}-g"), (1, f"{NAME}-x")):  # makes the internal topics
        settle(lambda: (lambda found: (found, codes(found) == {0}))(bench.operator.call(10, 4, key_type=key_type, coordinator_keys=[key])), 20)  # noqa: B023
    committed = settle(lambda: (lambda found: (found, codes(found) == {0}))(
        bench.operator.call(8, 8, group_id=f"{NAME}-g", **one(offset=1, metadata=""))), 20)
    assert committed[1], committed
    began = settle(lambda: (lambda found: (found, found["error_code"] == 0))(bench.operator.call(22, 4, transactional_id=f"{NAME}-x")), 20)
    assert began[1], began
    beat = {"group_id": f"{NAME}-g8", "member_id": "other", "member_epoch": 0, "rebalance_timeout_ms": 60000, "topic_partitions": [],
            "subscribed_topic_names": [NAME]}
    joined = settle(lambda: (lambda found: (found, found["error_code"] == 0))(bench.operator.call(68, 1, **beat)), 20)
    assert joined[1], joined
    own = [rule(ALL, kind, name, host=OPERATOR) for kind, name in ((CLUSTER, KAFKA_CLUSTER), (TOPIC, "*"), (GROUP, "*"), (TXN, "*"))]
    bench.create(*own)
    settle(lambda: (None, refusals(bench.ask(42, 2, {"groups_names": ["none"]})) == {NO_GROUP}))
    all_rows = list(rows())
    tested = {key for _, key, *_ in all_rows} | OTHERWISE
    lacking = {MESSAGES[key][0] for key in bench.serves if key in MESSAGES and key not in tested and not 0 <= bench.serves[key][1] < MESSAGES[key][1]}
    if not args.reference:
        bench.check("every API that is served is asked for", not lacking, lacking)
    for row in all_rows:
        if args.only in row[0]:
            before = len(bench.failed)
            try:
                judge_row(bench, *row)
            except (Closed, Silent) as error:
                bench.check(f"{row[0]}: it is answered", False, error)
                bench.subject = From(args.bootstrap, SUBJECT)
            if len(bench.failed) == before:
                print(f"PASS {row[0]}", flush=True)
    if not args.only:
        for judge in (judge_creation_by_the_way, judge_lists, judge_told_rights, judge_patterns,
                      lambda bench: judge_rules_themselves(bench, -1 if args.reference else 42)):
            before, passed = len(bench.failed), bench.passed
            judge(bench)
            if len(bench.failed) == before:
                print(f"PASS {bench.passed - passed} checks more", flush=True)
    bench.delete(*own)
    print(f"{bench.passed} checks passed, {len(bench.failed)} failed")
    sys.exit(1 if bench.failed else 0)


if __name__ == "__main__":
    main()
