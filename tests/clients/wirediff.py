"""The same requests to Apache Kafka and to this broker: `wirediff.py HOST:PORT [--other HOST:PORT]`.

Starts Apache Kafka (or takes the broker at --other), sends one sequence of
valid requests, in every version that both serve, to both, and compares the
decoded answers field by field, apart from what must differ: ids, addresses,
sizes of the disk, the wording of messages. Differences on purpose are listed
in ON_PURPOSE with their reason.
"""

import argparse
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import tools  # noqa: E402
from broker import Kafka  # noqa: E402
from messages import MESSAGES  # noqa: E402
from rawgroups import wait_for_groups  # noqa: E402
from rawkafka import HEADER_BYTES, Closed, Connection, Silent, batch, batches, offsets, record  # noqa: E402
from rawtxn import CONTROL, TRANSACTIONAL, wait_for_transactions  # noqa: E402

STAMP = int(time.time()) * 1000 - 3_600_000
TOPIC = 2

# What belongs to the machine or the moment.
OWN = {"topic_id", "cluster_id", "host", "port", "node_id", "controller_id", "leader_id", "log_dir", "total_bytes",
       "usable_bytes", "throttle_time_ms", "start_time_ms", "producer_id", "last_timestamp", "broker_id", "partition_size", "rack",
       "finalized_features_epoch", "cluster_authorized_operations", "topic_authorized_operations", "documentation"}
COUNTED = {"replica_nodes", "isr_nodes", "replicas", "brokers"}  # lists of nodes: only how many
SORTED = {"groups": "group_id", "topics": "name", "partitions": "index", "configs": "name", "results": "resource_name", "responses": "name",
          "credential_infos": "mechanism"}

# (part of the label, end of the field's path): why it may differ.
ON_PURPOSE = {
    ("", "configs[min.insync.replicas].config_source"): "Kafka shows its replica feature's own default",
    ("", "configs[min.insync.replicas].synonyms"): "Kafka shows its replica feature's own default",
    ("find a coordinator", "error_message"): "Kafka gives NONE for the message of a success",
    ("", "eligible_leader_replicas"): "null and empty both say that there is none",
    ("", "last_known_elr"): "null and empty both say that there is none",
    ("beyond the end", "aborted_transactions"): "Kafka gives null here and an empty list in other errors",
    ("fetch from the start when", "aborted_transactions"): "Kafka gives null here and an empty list in other errors",
    ("list offsets for -3 when all", "leader_epoch"): "Kafka names a record that is deleted",
    ("list offsets for -3 when all", "offset"): "Kafka names a record that is deleted",
    ("list offsets for -3 when all", "timestamp"): "Kafka names a record that is deleted",
    ("in a transaction", "log_start_offset"): "Kafka tells it with errors of sequences and states too, which no client asks",
    ("in a transaction", "error_message"): "ours says what is wrong, Kafka only gives the code",
    ("produce in the next transaction", "log_append_time_ms"): "Kafka gives the producer's own time, to a retry alone",
    ("bad CRC", "error_message"): "ours says what is wrong, Kafka only gives the code",
    ("", "configs[flush.messages].value"): "every acknowledged record is on the disk unless the topic relaxes it",
    ("", "configs[flush.messages].synonyms"): "every acknowledged record is on the disk unless the topic relaxes it",
    ("", "configs[batch.validation]"): "a setting of ours",
    ("", "configs[file.delete.delay.ms].value"): "files go at once, and whoever reads them keeps them open",
    ("", "configs[file.delete.delay.ms].synonyms"): "files go at once, and whoever reads them keeps them open",
}


def one(value=b"value", **over):
    return batch([value], base_timestamp=STAMP, **over)


def requests(name):
    """(label, key, fields, first version or None) of the whole sequence, in order.

    "{}" in a label stands for the version: a topic per version keeps them apart.
    """
    def part(**fields):
        return {"topics": [{"name": name, "topic_id": "ID", "partitions": [dict({"index": 0}, **fields)]}]}

    def resource(**fields):
        return {"resources": [dict({"resource_type": TOPIC, "resource_name": name}, **fields)]}

    three = batch([b"a", b"b", b"c"], base_timestamp=STAMP, max_timestamp=STAMP + 2000,
                  payload=b"".join(record(i, key=b"k", value=b"v%d" % i, timestamp_delta=i * 1000,
                                          headers=[(b"h", None), (b"i", b"")]) for i in range(3)))
    yield "produce one record", 0, part(records=one()), None
    yield "produce three records", 0, part(records=three), None
    yield "produce gzip", 0, part(records=one(attributes=1)), None
    yield "produce with acks 1", 0, dict(part(records=one()), acks=1), None
    yield "produce a bad CRC", 0, part(records=one(crc=1)), None
    yield "produce to an unknown partition", 0, part(records=one(), index=9), None
    yield "fetch from the start", 1, dict(part(fetch_offset=0), max_wait_ms=0), None
    yield "fetch from within a batch", 1, dict(part(fetch_offset=2), max_wait_ms=0), None
    yield "fetch one byte", 1, dict(part(fetch_offset=0, partition_max_bytes=1), max_wait_ms=0), None
    yield "fetch at the end", 1, dict(part(fetch_offset="END"), max_wait_ms=0), None
    yield "fetch beyond the end", 1, dict(part(fetch_offset=10_000), max_wait_ms=0), None
    yield "fetch read_committed", 1, dict(part(fetch_offset=0), max_wait_ms=0, isolation_level=1), None
    yield "fetch an unknown partition", 1, dict(part(fetch_offset=0, index=9), max_wait_ms=0), None
    for timestamp, first in ((-1, None), (-2, None), (-3, 7), (-4, 8), (-5, 9), (0, None), (STAMP + 1500, None), (STAMP * 2, None)):
        label = "a second in" if timestamp == STAMP + 1500 else "the far future" if timestamp > STAMP else timestamp
        yield f"list offsets for {label}", 2, part(timestamp=timestamp), first
    yield "list offsets read_committed", 2, dict(part(timestamp=-1), isolation_level=1), 2
    yield "metadata by name", 3, {"topics": [{"name": name}], "allow_auto_topic_creation": False}, None
    yield "metadata of no topic", 3, {"topics": [], "allow_auto_topic_creation": False}, 1
    yield "metadata of an unknown topic", 3, {"topics": [{"name": "wd-none"}], "allow_auto_topic_creation": False}, 4
    yield "metadata by id", 3, {"topics": [{"topic_id": "ID", "name": None}], "allow_auto_topic_creation": False}, 12
    yield "metadata of an unknown id", 3, {"topics": [{"topic_id": b"\x09" * 16, "name": None}]}, 12
    yield "epoch end", 23, part(leader_epoch=0), None
    yield "epoch end of an epoch to come", 23, part(leader_epoch=5), None
    yield "describe some configs", 32, resource(keys=["cleanup.policy", "max.message.bytes", "segment.bytes", "message.timestamp.type", "no.such"]), None
    yield "describe some configs with synonyms", 32, dict(resource(keys=["max.message.bytes", "segment.bytes", "min.insync.replicas"]),
                                                          include_synonyms=True), None
    yield "describe all configs", 32, resource(keys=None), None
    yield "describe all configs with synonyms", 32, dict(resource(keys=None), include_synonyms=True), None
    yield "alter a config", 44, resource(configs=[{"name": "max.message.bytes", "op": 0, "value": "800000"}]), None
    yield "alter an unknown config", 44, resource(configs=[{"name": "no.such", "op": 0, "value": "1"}]), None
    for label, key, op, value in (
            ("validate only", "retention.ms", 0, "1000"), ("a number too small", "retention.ms", 0, "-2"), ("no number", "segment.ms", 0, "soon"),
            ("a word unknown", "compression.type", 0, "zip"), ("a level too high", "compression.gzip.level", 0, "10"),
            ("a level between", "compression.gzip.level", 0, "0"), ("null", "retention.ms", 0, None), ("append to a number", "retention.ms", 2, "1"),
            ("subtract from a number", "retention.ms", 3, "1"), ("append what is there", "cleanup.policy", 2, "delete"),
            ("append a word unknown", "cleanup.policy", 2, "shred"), ("subtract what is not there", "cleanup.policy", 3, "compact"),
            ("delete what is not set", "segment.jitter.ms", 1, None), ("no replicas", "min.insync.replicas", 0, "0")):
        yield f"alter a config: {label}", 44, dict(resource(configs=[{"name": key, "op": op, "value": value}]),
                                                   validate_only=label == "validate only"), None
    for key, value in (("retention.ms", "86400000"), ("retention.bytes", "1000000000"), ("segment.ms", "86400000"), ("segment.jitter.ms", "1000"),
                       ("compression.type", "zstd"), ("compression.zstd.level", "19"), ("compression.gzip.level", "9"), ("flush.ms", "1000")):
        yield f"alter {key}", 44, resource(configs=[{"name": key, "op": 0, "value": value}]), None
        yield f"describe {key} altered", 32, dict(resource(keys=[key]), include_synonyms=True), None
    for key in ("retention.ms", "retention.bytes", "segment.ms", "segment.jitter.ms", "flush.ms"):
        yield f"alter {key} back", 44, resource(configs=[{"name": key, "op": 1, "value": None}]), None
    # Not read: two encoders of one codec need not write the same bytes.
    yield "produce gzip where zstd is forced", 0, part(records=one(attributes=1), index=1), None
    yield "alter compression back", 44, resource(configs=[{"name": f"compression.{key}", "op": 1, "value": None}
                                                          for key in ("type", "zstd.level", "gzip.level")]), None
    for whose, which in (("all brokers", ""), ("one broker", "1")):
        def of_brokers(**fields):
            return {"resources": [dict({"resource_type": 4, "resource_name": which}, **fields)]}  # noqa: B023
        for key, value in (("log.retention.ms", "7200000"), ("message.max.bytes", "2000000"), ("compression.type", "gzip")):
            topics = {"log.retention.ms": "retention.ms", "message.max.bytes": "max.message.bytes"}.get(key, key)
            yield f"alter {key} of {whose}", 44, of_brokers(configs=[{"name": key, "op": 0, "value": value}]), None
            yield f"describe {key} of {whose}", 32, dict(of_brokers(keys=[key]), include_synonyms=True), None
            yield f"describe {topics} under {whose}", 32, dict(resource(keys=[topics]), include_synonyms=True), None
            yield f"alter {key} of {whose} back", 44, of_brokers(configs=[{"name": key, "op": 1, "value": None}]), None
        yield f"alter the time of producers of {whose}", 44, of_brokers(configs=[{"name": "producer.id.expiration.ms", "op": 0, "value": "9000"}]), None
        yield f"alter it back for {whose}", 44, of_brokers(configs=[{"name": "producer.id.expiration.ms", "op": 1, "value": None}]), None
        yield f"alter no number of {whose}", 44, of_brokers(configs=[{"name": "log.retention.ms", "op": 0, "value": "soon"}]), None
        yield f"alter what is set at start of {whose}", 44, of_brokers(configs=[{"name": "num.partitions", "op": 0, "value": "2"}]), None
    for label, name_of in (("an unknown broker", "77"), ("no number", "one")):
        yield f"describe {label}", 32, {"resources": [{"resource_type": 4, "resource_name": name_of, "keys": None}]}, None
    yield "describe the settings of times of a broker", 32, {"include_synonyms": True, "resources": [
        {"resource_type": 4, "resource_name": "1", "keys": ["log.retention.hours", "log.retention.minutes", "log.retention.ms",
                                                            "log.roll.hours", "log.roll.jitter.hours", "log.roll.ms", "log.roll.jitter.ms"]}]}, None
    yield "describe the altered config", 32, dict(resource(keys=["max.message.bytes"]), include_synonyms=True), None
    yield "alter configs as a whole", 33, resource(configs=[{"name": "max.message.bytes", "value": "700000"}]), None
    yield "create partitions", 37, {"topics": [{"name": name, "count": "MORE"}]}, None
    yield "create no more partitions", 37, {"topics": [{"name": name, "count": 1}]}, None
    yield "describe log dirs", 35, {"topics": [{"name": name, "partitions": [0, 1]}]}, None
    yield "describe producers", 61, {"topics": [{"name": name, "partitions": [0, 1]}]}, None
    yield "describe cluster", 60, {}, None
    yield "list reassignments", 46, {"topics": None}, None
    yield "describe topic partitions", 75, {"topics": [{"name": name}]}, None
    yield "describe topic partitions, one at a time", 75, {"topics": [{"name": name}], "response_partition_limit": 1}, None
    rule = {"resource_type": TOPIC, "resource_name": name, "principal": "User:a", "host": "*", "operation": 3, "permission_type": 3}
    any_rule = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    yield "describe all access rules", 29, any_rule, None
    yield "create access rules", 30, {"creations": [rule, dict(rule, resource_name="b")]}, None
    yield "create no access rules", 30, {"creations": []}, None
    yield "delete all access rules", 31, {"filters": [any_rule, dict(any_rule, resource_name_filter=name)]}, None
    for label, election in (("a preferred leader", 0), ("any leader", 1), ("a leader in a way unknown", 7)):
        first = 1 if election else None
        yield f"elect {label}", 43, {"election_type": election, "topics": [
            {"name": name, "partitions": [0, 9]}, {"name": "wd-none", "partitions": [0]}]}, first
    for label, asked in (("none, which stops a move", {"replicas": None}), ("no broker at all", {"replicas": []}), ("an unknown broker", {"replicas": [99]}),
                         ("one broker twice", {"replicas": ["NODE", "NODE"]}), ("where it is", {"replicas": ["NODE"]})):
        yield f"reassign to {label}", 45, {"topics": [{"name": name, "partitions": [dict(asked, index=0)]}]}, None
    yield "reassign an unknown partition", 45, {"topics": [{"name": name, "partitions": [{"index": 9, "replicas": ["NODE"]}]}]}, None
    yield "reassign an unknown topic", 45, {"topics": [{"name": "wd-none", "partitions": [{"index": 0, "replicas": ["NODE"]}]}]}, None
    for label, path in (("an unknown directory", "/no/such/directory"), ("where it is", "DIR")):
        yield f"move a replica to {label}", 34, {"dirs": [{"path": path, "topics": [{"name": name, "partitions": [0]}]}]}, None
        yield f"move an unknown replica to {label}", 34, {"dirs": [{"path": path, "topics": [
            {"name": name, "partitions": [9]}]}]}, None
        yield f"move a replica of an unknown topic to {label}", 34, {"dirs": [{"path": path, "topics": [
            {"name": "wd-none", "partitions": [0]}]}]}, None
    yield "choose a login where there is none", 17, {"mechanism": "SCRAM-SHA-256"}, None
    yield "log in where there is no login", 36, {"auth_bytes": b"token"}, None
    user = {"name": "wd-user", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"p" * 32}
    for label, over in (("", {}), (" again", {"iterations": 8192}), (" of another mechanism", {"mechanism": 2, "salted_password": b"p" * 64}),
                        (" too weak", {"iterations": 4095}), (" too strong", {"iterations": 16385}), (" of no mechanism", {"mechanism": 7}),
                        (" of nobody", {"name": ""})):
        yield f"set a credential{label}", 51, {"upsertions": [dict(user, **over)]}, None
    yield "set two credentials of one user", 51, {"upsertions": [user, dict(user, mechanism=2, salted_password=b"p" * 64)]}, None
    for label, users in (("a user's", [{"name": "wd-user"}]), ("an unknown user's", [{"name": "wd-none"}]), ("all", None),
                         ("no", []), ("one user's twice", [{"name": "wd-user"}, {"name": "wd-user"}])):
        yield f"describe {label} credentials", 50, {"users": users}, None
    for mechanism in (1, 2, 1, 7):
        yield f"delete credential {mechanism} of a user", 51, {"deletions": [{"name": "wd-user", "mechanism": mechanism}]}, None
    yield from of_groups(name)
    yield "init producer id", 22, {}, None
    for label, offset in (("nothing", 0), ("within a batch", 3), ("below the log start", 1), ("beyond the end", 10_000), ("before -2", -2)):
        yield f"delete {label}", 21, part(offset=offset), None
    yield "delete of an unknown partition", 21, part(offset=0, index=9), None
    yield "delete of an unknown topic", 21, {"topics": [{"name": "wd-none", "partitions": [{"index": 0, "offset": 0}]}]}, None
    yield "delete of the broker's own topic", 21, {"topics": [{"name": "__consumer_offsets", "partitions": [{"index": 0, "offset": 0}]}]}, None
    yield "delete the same twice", 21, {"topics": [{"name": name, "partitions": [
        {"index": 0, "offset": 10_000}, {"index": 0, "offset": 4}]}]}, None
    for label, key, fields, first in afterwards(part):
        yield f"{label} when records are deleted", key, fields, first
    yield "delete all", 21, part(offset=-1), None
    for label, key, fields, first in afterwards(part):
        yield f"{label} when all records are deleted", key, fields, first
    yield "API versions", 18, {}, None


def of_groups(name):
    """A group that nobody is a member of, from its first commit to its end, and groups that are not there."""
    group = "wd-group"

    def rows(key, **fields):
        return [{"name": name, "topic_id": "ID", "partitions": [dict({key: 0}, **fields), dict({key: 9}, **fields)]}]
    listed = [{"name": name, "topic_id": "ID", "partitions": [0, 1, 9]}]
    yield "find a coordinator", 10, {"key": group, "coordinator_keys": [group]}, None
    yield "find a coordinator of a kind unknown", 10, {"key": group, "key_type": 9, "coordinator_keys": [group]}, 1
    yield "commit alone", 8, {"group_id": group, "topics": rows("index", offset=7, leader_epoch=0, metadata="words")}, None
    yield "commit alone, another partition", 8, {"group_id": group, "topics": [{"name": name, "topic_id": "ID", "partitions": [
        {"index": 1, "offset": 7, "metadata": ""}]}]}, None
    yield "commit as a member that is not there", 8, {"group_id": group, "generation_id": 3, "member_id": "nobody",
                                                      "topics": rows("index", offset=8, metadata="")}, None
    yield "commit too many words", 8, {"group_id": group, "topics": rows("index", offset=8, metadata="w" * 5000)}, None
    for label, which in (("some", listed), ("all", None)):
        yield f"fetch {label} offsets", 9, {"group_id": group, "topics": which, "groups": [{"group_id": group, "topics": which}]}, 2
    yield "fetch offsets of an unknown group", 9, {"group_id": "wd-none", "topics": listed, "groups": [
        {"group_id": "wd-none", "topics": listed}]}, None
    yield "join without a member id", 11, {"group_id": "", "protocols": [{"name": "range", "metadata": b"m"}]}, None
    yield "join as a member that is not there", 11, {"group_id": group, "member_id": "nobody", "protocols": [
        {"name": "range", "metadata": b"m"}]}, None
    yield "join with a session too short", 11, {"group_id": group, "session_timeout_ms": 1, "protocols": [
        {"name": "range", "metadata": b"m"}]}, None
    for label, which in (("a group", group), ("an unknown group", "wd-none"), ("no group", "")):
        yield f"sync as nobody in {label}", 14, {"group_id": which, "generation_id": 1, "member_id": "nobody",
                                                 "protocol_type": "consumer", "protocol_name": "range"}, None
        yield f"heartbeat as nobody in {label}", 12, {"group_id": which, "generation_id": 1, "member_id": "nobody"}, None
        yield f"leave as nobody in {label}", 13, {"group_id": which, "member_id": "nobody", "members": [
            {"member_id": "nobody"}, {"member_id": "", "group_instance_id": "static"}]}, None
        yield f"describe {label}", 15, {"groups": [which]}, None
        yield f"describe {label} as one of the consumer protocol", 69, {"group_ids": [which]}, None
        yield f"forget offsets of {label}", 47, {"group_id": which, "topics": rows("index")}, None
        yield f"heartbeat of the consumer protocol as nobody in {label}", 68, {
            "group_id": which, "member_id": "nobody", "member_epoch": 5}, None
    yield "list groups that are empty", 16, {"states_filter": ["Empty"]}, 4
    yield "list groups of a type unknown", 16, {"types_filter": ["odd"]}, 5
    for label, which in (("an unknown group", "wd-none"), ("no group", "")):
        yield f"delete {label}", 42, {"groups_names": [which]}, None
    yield "delete a group", 42, {"groups_names": [group]}, None


def of_transactions(name):
    """A transactional producer from its first id to a transaction that is aborted; functions are called with the side."""
    def rows(*partitions, **fields):
        return [{"name": name, "topic_id": "ID", "partitions": [dict(fields, index=p) for p in partitions]}]

    def producer(**over):
        return dict({"transactional_id": name, "producer_id": lambda side: side.producer()[0],
                     "producer_epoch": lambda side: side.producer()[1]}, **over)

    def add(*partitions, **over):
        one = producer(topics=[{"name": name, "partitions": list(partitions)}], **over)
        return dict(one, transactions=[one])

    def produce(**over):
        def made(side):
            pid, epoch = side.producer()
            side.sequence += 1
            fields = {"attributes": 0x10, "producer_id": pid, "producer_epoch": epoch, "base_sequence": side.sequence - 1}
            return one(**dict(fields, **over))
        return {"transactional_id": name, "topics": rows(0, records=made)}

    def commit(**over):
        offsets_of = [{"name": name, "partitions": [{"index": p, "offset": 5, "metadata": "m"} for p in (0, 9)]}]
        return producer(group_id="wd-txn-group", topics=offsets_of, **over)
    stable = {"group_id": "wd-txn-group", "require_stable": True, "topics": rows_of_group(name),
              "groups": [{"group_id": "wd-txn-group", "topics": rows_of_group(name)}]}
    nobody = {"transactional_id": "wd-none", "producer_id": 1 << 40, "producer_epoch": 3}
    read = {"max_wait_ms": 0, "isolation_level": 1, "topics": rows(0, fetch_offset="END1")}
    yield "find a coordinator of transactions", 10, {"key": name, "key_type": 1, "coordinator_keys": [name, "other"]}, 1
    yield "init a transactional id", 22, {"transactional_id": name}, None
    yield "init a transactional id for too long", 22, {"transactional_id": name, "transaction_timeout_ms": 0x7FFFFFFF}, None
    yield "init a transactional id that is empty", 22, {"transactional_id": ""}, None
    yield "init a transactional id again, as itself", 22, producer(), 3
    yield "init a transactional id as another", 22, producer(producer_id=1 << 40), 3
    yield "add partitions of nobody", 24, add(0, **nobody), None
    yield "add an unknown partition", 24, add(0, 9), None
    yield "add partitions", 24, add(0, 1), None
    yield "add partitions as an epoch to come", 24, add(0, producer_epoch=1000), None
    yield "add offsets of nobody", 25, dict(nobody, group_id="wd-txn-group"), None
    yield "commit in a transaction of nobody", 28, commit(**nobody), None
    yield "produce in a transaction", 0, produce(), None
    yield "produce in a transaction with a gap", 0, produce(base_sequence=500), None
    yield "produce in a transaction as nobody", 0, dict(produce(producer_id=1 << 40, base_sequence=0), transactional_id="wd-none"), None
    yield "produce a plain batch in a transaction", 0, dict(produce(attributes=0), transactional_id=None), None
    yield "fetch read_committed of an open transaction", 1, read, None
    yield "list offsets read_committed of an open transaction", 2, {"isolation_level": 1, "topics": rows(0, timestamp=-1)}, 2
    yield "describe producers of an open transaction", 61, {"topics": [{"name": name, "partitions": [0, 9]}]}, None
    yield "describe transactions", 65, {"transactional_ids": [name, "wd-none", ""]}, None
    yield "list open transactions", 66, {"state_filters": ["Ongoing", "Odd"], "producer_id_filters": [lambda side: side.producer()[0]]}, None
    yield "list transactions that are open for long", 66, {"duration_filter_ms": 10_000_000, "producer_id_filters": [lambda side: side.producer()[0]]}, 1
    yield "list transactions by a pattern", 66, {"transactional_id_pattern": name[:-1] + "."}, 2
    yield "add offsets", 25, producer(group_id="wd-txn-group"), None
    yield "commit in a transaction", 28, commit(), None
    yield "fetch offsets that are not stable", 9, stable, 7
    yield "end a transaction of nobody", 26, dict(nobody, committed=True), None
    yield "end a transaction as an epoch to come", 26, producer(committed=True, producer_epoch=1000), None
    yield "commit a transaction", 26, producer(committed=True), None
    yield "abort a transaction that was committed", 26, producer(committed=False), None
    yield "fetch read_committed when it is committed", 1, read, None
    yield "fetch offsets when it is committed", 9, stable, 7
    yield "describe transactions when it is committed", 65, {"transactional_ids": [name]}, None
    yield "add partitions to the next transaction", 24, add(0), None
    yield "produce in the next transaction", 0, produce(base_sequence=0), None
    yield "abort a transaction", 26, producer(committed=False), None
    yield "fetch read_committed when it is aborted", 1, read, None
    yield "describe producers when it is aborted", 61, {"topics": [{"name": name, "partitions": [0]}]}, None
    for label, topics in (("an unknown topic", [{"name": "wd-none", "partitions": [0]}]), ("an unknown partition", [{"name": name, "partitions": [9]}])):
        yield f"write markers for {label}", 27, {"markers": [{"producer_id": 1 << 40, "producer_epoch": 0, "topics": topics, "coordinator_epoch": 0}]}, None
    yield "write markers of an older epoch", 27, {"markers": [{
        "producer_id": lambda side: side.producer()[0], "producer_epoch": 0, "topics": [{"name": name, "partitions": [0]}], "coordinator_epoch": 0}]}, None


def rows_of_group(name):
    return [{"name": name, "topic_id": "ID", "partitions": [0, 1]}]


def afterwards(part):
    """What readers ask of a log whose start has moved."""
    yield "fetch from the start", 1, dict(part(fetch_offset=0), max_wait_ms=0), None
    yield "fetch from the log start", 1, dict(part(fetch_offset="START"), max_wait_ms=0), None
    for timestamp, first in ((-1, None), (-2, None), (-3, 7), (-4, 8), (0, None)):
        yield f"list offsets for {timestamp}", 2, part(timestamp=timestamp), first
    yield "epoch end", 23, part(leader_epoch=0), None


def creations(name):
    """The CreateTopics requests of one version."""
    yield "create a topic", {"topics": [{"name": name, "num_partitions": 2, "configs": [
        {"name": "max.message.bytes", "value": "900000"}]}]}
    yield "create a topic that exists", {"topics": [{"name": name}]}
    yield "create a topic, validate only", {"topics": [{"name": name + "-only"}], "validate_only": True}
    yield "create a bad name and no partitions", {"topics": [{"name": "a/b"}, {"name": name + "-0", "num_partitions": 0}]}


class Side:
    """One of the two brokers."""

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap
        self.connection = Connection(bootstrap)
        self.versions = self.connection.versions()
        self.ids, self.sequence, self.transactional_id = {}, 0, None

    def producer(self):
        """(producer id, epoch) of the transactional producer, as the coordinator knows them."""
        found = self.connection.call(65, 0, transactional_ids=[self.transactional_id])["transactions"][0]
        return found["producer_id"], found["producer_epoch"]

    def settled(self):
        """Waits until no transaction is on its way to its end."""
        while self.connection.call(65, 0, transactional_ids=[self.transactional_id])["transactions"][0]["state"].startswith("Prepare"):
            time.sleep(0.02)

    def ask(self, key, version, fields, name):
        """The decoded answer, or "closed", "silent", "garbage"; fills in START, END, MORE and ID."""
        filled = self.fill(fields, name)
        try:
            return self.connection.call(key, version, **filled)
        except (Closed, Silent, ValueError) as error:
            self.connection.close()
            self.connection = Connection(self.bootstrap)
            return f"{type(error).__name__}: {error}"

    def fill(self, value, name):
        if isinstance(value, dict):
            return {k: self.fill(v, name) for k, v in value.items()}
        if isinstance(value, list):
            return [self.fill(v, name) for v in value]
        if callable(value):
            return value(self)
        if value == "END1":
            return max(offsets(self.connection, name, 0)[1] - 3, 0)
        if value == "END":
            return offsets(self.connection, name, 0)[1]
        if value == "START":
            return offsets(self.connection, name, 0, -2)[1]
        if value == "NODE":
            return self.connection.call(60, 0)["brokers"][0]["node_id"]
        if value == "DIR":
            return self.connection.call(35, 1, topics=[])["results"][0]["log_dir"]
        if value == "ID":
            return self.ids[name]
        if value == "MORE":
            return len(self.connection.call(3, 4, topics=[{"name": name}])["topics"][0]["partitions"]) + 1
        return value

    def wait(self, name, partitions):
        for _ in range(200):
            topic = self.connection.call(3, 12, topics=[{"name": name}], allow_auto_topic_creation=False)["topics"][0]
            if len(topic["partitions"]) >= partitions and all(
                    offsets(self.connection, name, p)[0] == 0 for p in range(partitions)):
                self.ids[name] = topic["topic_id"]
                return
            time.sleep(0.02)
        raise ValueError(f"{self.bootstrap}: no leaders for {name}")


def plain(value, key=None):
    """An answer without what must differ, and with records as batches."""
    if isinstance(value, dict):
        return {k: plain(v, k) for k, v in value.items() if k not in OWN}
    if isinstance(value, list):
        if key in COUNTED:
            return len(value)
        rows = [plain(v) for v in value]
        if key == "partitions" and all(isinstance(row, int) for row in rows):
            return sorted(rows)
        name = SORTED.get(key)
        return sorted(rows, key=lambda row: row.get(name) or 0 if isinstance(row, dict) else row) if name and all(
            isinstance(row, dict) and name in row for row in rows) else rows
    if key == "records":
        return [plain_batch(found) for found in batches(value or b"")]
    if key == "error_message":
        return value is not None and value != ""
    return value


def plain_batch(found):
    """A stored batch with its bytes; of a transaction's without the producer, of markers without the time."""
    own, start = {"bytes", "leader_epoch"}, 21
    if found["attributes"] & TRANSACTIONAL:
        own, start = own | {"producer_id"}, HEADER_BYTES
    if found["attributes"] & CONTROL:
        own |= {"base_timestamp", "max_timestamp"}
    return {k: v for k, v in found.items() if k not in own} | {"tail": found["bytes"][start:].hex()}


def differences(ours, theirs, path=""):
    """(path, ours, theirs) wherever two plain answers differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(set(ours) | set(theirs)):
            yield from differences(ours.get(key, "absent"), theirs.get(key, "absent"), f"{path}.{key}" if path else key)
    elif isinstance(ours, list) and isinstance(theirs, list):
        named = all(isinstance(row, dict) and "name" in row for row in ours + theirs)
        if named:
            a, b = ({row["name"]: row for row in rows} for rows in (ours, theirs))
            for name in sorted(set(a) | set(b)):
                yield from differences(a.get(name, "absent"), b.get(name, "absent"), f"{path}[{name}]")
        elif len(ours) != len(theirs):
            yield path, f"{len(ours)} entries", f"{len(theirs)} entries"
        else:
            for i, (a, b) in enumerate(zip(ours, theirs)):
                yield from differences(a, b, f"{path}[{i}]")
    elif ours != theirs:
        yield path, ours, theirs


def excused(label, path, *_):
    return any(part in label and field in path for part, field in ON_PURPOSE)


def compare(label, ours, theirs):
    """Prints the line of one check; whether it passed."""
    found = [d for d in differences(plain(ours), plain(theirs)) if not excused(label, *d)]
    if not found:
        print(f"PASS {label}", flush=True)
        return True
    shown = "; ".join(f"{path or 'answer'}: ours {json.dumps(a, default=str)[:120]}, Kafka {json.dumps(b, default=str)[:120]}"
                      for path, a, b in found[:6])
    print(f"FAIL {label}: {shown}{f' and {len(found) - 6} more' if len(found) > 6 else ''}", flush=True)
    return False


def common(ours, theirs, key):
    """The versions of an API that both sides and our codec know."""
    if key not in ours.versions or key not in theirs.versions:
        return range(0)
    low = max(ours.versions[key][0], theirs.versions[key][0], MESSAGES[key][1])
    return range(low, min(ours.versions[key][1], theirs.versions[key][1], MESSAGES[key][2]) + 1)


def judge(ours, theirs, only):
    while theirs.ask(22, 0, {}, "")["error_code"] == 14:
        time.sleep(0.1)  # Kafka waits for its first block of producer ids
    failed, stamp = 0, f"{os.getpid()}"
    for version in common(ours, theirs, 19):
        name = f"wd-create-{stamp}-{version}"
        for label, fields in creations(name):
            answers = [side.ask(19, version, fields, name) for side in (ours, theirs)]
            failed += not compare(f"CreateTopics v{version}: {label}", *answers)
            if label == "create a topic":
                for side in (ours, theirs):
                    side.wait(name, 2)
    subject = f"wd-subject-{stamp}"
    for side in (ours, theirs):
        side.ask(19, 5, {"topics": [{"name": subject, "num_partitions": 2}]}, subject)
        side.wait(subject, 2)
        wait_for_groups(side.connection, subject)
    failed += judge_rows(ours, theirs, requests(subject), subject, only)
    subject += "-txn"
    for side in (ours, theirs):
        side.ask(19, 5, {"topics": [{"name": subject, "num_partitions": 2}]}, subject)
        side.wait(subject, 2)
        side.transactional_id = subject
        wait_for_transactions(side.connection)
    failed += judge_rows(ours, theirs, of_transactions(subject), subject, only)
    for version in common(ours, theirs, 20):
        name = f"wd-create-{stamp}-{version}"
        for label, doomed in (("delete a topic", name), ("delete it again", name)):
            fields = {"topics": [{"name": doomed}], "topic_names": [doomed]}
            answers = [side.ask(20, version, fields, name) for side in (ours, theirs)]
            failed += not compare(f"DeleteTopics v{version}: {label}", *answers)
            time.sleep(0.3)
    return failed


def judge_rows(ours, theirs, rows, subject, only):
    """Sends each row in all its versions to both; the number of those that differ."""
    failed = 0
    for label, key, fields, first in rows:
        for version in common(ours, theirs, key):
            title = f"{MESSAGES[key][0]} v{version}: {label}"
            if version < (first or 0) or only not in title:
                continue
            answers = [side.ask(key, version, fields, subject) for side in (ours, theirs)]
            if key == 18:
                answers = [served(answer) for answer in answers]
            failed += not compare(title, *answers)
            if key == 37:
                for side in (ours, theirs):
                    side.wait(subject, 3)
            if key == 26:
                for side in (ours, theirs):
                    side.settled()
    return failed


def served(answer):
    """ApiVersions: only its shape, since the offers differ; features are ours to choose."""
    return {"error_code": answer["error_code"]} if isinstance(answer, dict) else answer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("--other", help="a running Apache Kafka, instead of starting one")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    kafka = None
    if not args.other:
        kafka = Kafka("", os.path.join(tools.HOME, "data", "wirediff-kafka"), os.path.join(tools.HOME, "logs", "wirediff.kafka.log"),
                      {"auto.create.topics.enable": "false"})
        kafka.forget()
        kafka.start()
    try:
        failed = judge(Side(args.bootstrap), Side(args.other or kafka.bootstrap), args.only)
    finally:
        if kafka:
            kafka.stop()
            kafka.forget()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
