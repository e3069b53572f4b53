"""CreateTopics, DeleteTopics, CreatePartitions, configs, InitProducerId."""

from bench import Row
from messages import NIL_UUID, encode_request

TOPIC, BROKER, GROUP = 2, 4, 32


def create(name, expect, topics, version=5, ours=None, why=None, **more):
    def make(bench):
        rows = topics(bench) if callable(topics) else topics
        return encode_request(19, version, dict({"topics": rows}, **more))[0]
    return Row(name, 19, version, make, expect, ours=ours, why=why)


def config(key, value):
    return [{"name": "judge-new", "configs": [{"name": key, "value": value}]}]


ROWS = [
    create(f"create topics: {label}", "answer 17", [{"name": name}]) for label, name in (
        ("empty name", ""), ("name .", "."), ("name ..", ".."), ("name with /", "a/b"), ("name with a space", "a b"),
        ("name with a newline", "a\n"), ("name of 250 bytes", "a" * 250), ("non-ASCII name", "é"), ("NUL in the name", "a\0b"))]
ROWS += [
    create("create topics: exists", "answer 36", lambda bench: [{"name": bench.topic}]),
    create("create topics: exists, validate only", "answer 36", lambda bench: [{"name": bench.topic}], validate_only=True),
    create("create topics: names collide by . and _, validate only", "answer 0,0", lambda bench: [{"name": "a.b_c"}, {"name": "a_b.c"}],
           validate_only=True,
           ours="answer 0,17", why="Kafka compares with the topics that exist only, and would create both"),
    create("create topics: partitions 0", "answer 37", [{"name": "judge-new", "num_partitions": 0}]),
    create("create topics: partitions -2", "answer 37", [{"name": "judge-new", "num_partitions": -2}]),
    create("create topics: partitions 2^31-1", "answer 44", [{"name": "judge-new", "num_partitions": 0x7FFFFFFF}],
           ours=("answer 44", "answer 37"), why="the bound is this broker's own, and either code names it"),
    create("create topics: replication factor 0", "answer 38", [{"name": "judge-new", "replication_factor": 0}]),
    create("create topics: replication factor -2", "answer 38", [{"name": "judge-new", "replication_factor": -2}]),
    create("create topics: replication factor 3 on one broker", "answer 38", [{"name": "judge-new", "replication_factor": 3}]),
    create("create topics: same name twice", "answer 42", [{"name": "judge-new"}, {"name": "judge-new"}]),
    create("create topics: unknown config", "answer 40", config("no.such.config", "1")),
    create("create topics: config value null", "answer 40", config("retention.ms", None)),
    create("create topics: config value not a number", "answer 40", config("retention.ms", "soon")),
    create("create topics: config value out of range", "answer 40", config("segment.bytes", "1")),
    create("create topics: cleanup.policy unknown", "answer 40", config("cleanup.policy", "shred")),
    create("create topics: compression.type unknown", "answer 40", config("compression.type", "brotli")),
    create("create topics: assignment and partitions", "answer 42", [
        {"name": "judge-new", "num_partitions": 2, "assignments": [{"partition_index": 0, "broker_ids": [1]}]}]),
    create("create topics: assignment to an unknown broker", "answer 39", [
        {"name": "judge-new", "num_partitions": -1, "replication_factor": -1,
         "assignments": [{"partition_index": 0, "broker_ids": [99]}]}]),
    create("create topics: assignment starts at 1", "answer 39", [
        {"name": "judge-new", "num_partitions": -1, "replication_factor": -1,
         "assignments": [{"partition_index": 1, "broker_ids": [1]}]}]),
    create("create topics: assignment without replicas", "answer 39", [
        {"name": "judge-new", "num_partitions": -1, "replication_factor": -1,
         "assignments": [{"partition_index": 0, "broker_ids": []}]}]),
    create("create topics: none", "answer ", []),
    create("create topics: one good, one bad, validate only", "answer 0,17", [{"name": "judge-new"}, {"name": "."}],
           validate_only=True),
]


def simple(name, key, version, expect, ours=None, why=None, **fields):
    return Row(name, key, version, lambda bench: encode_request(key, version, {
        k: v(bench) if callable(v) else v for k, v in fields.items()})[0], expect, ours=ours, why=why)


def credential(label, expect, ours=None, why=None, **over):
    row = dict({"name": "judge-user", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"p" * 32}, **over)
    return simple(f"alter scram: {label}", 51, 0, expect, ours=ours, why=why, deletions=[], upsertions=[row])


ROWS += [
    simple("delete topics: unknown", 20, 5, "answer 3", topic_names=["no-such-topic"]),
    simple("delete topics: illegal name", 20, 5, "answer 3", topic_names=["a/b"]),
    simple("delete topics: twice in one request", 20, 5, "answer 42", topic_names=["no-such", "no-such"]),
    simple("delete topics: none", 20, 5, "answer ", topic_names=[]),
    simple("delete topics: unknown id", 20, 6, "answer 100", topics=[{"name": None, "topic_id": b"\x07" * 16}]),
    simple("delete topics: name and id", 20, 6, "answer 42", topics=[{"name": "no-such", "topic_id": b"\x07" * 16}]),
    simple("delete topics: neither name nor id", 20, 6, "answer 42", topics=[{"name": None, "topic_id": NIL_UUID}]),
    simple("create partitions: unknown topic", 37, 1, "answer 3", topics=[{"name": "no-such-topic", "count": 5}]),
    simple("create partitions: not more than there are", 37, 1, "answer 37",
           topics=lambda bench: [{"name": bench.topic, "count": 1}]),
    simple("create partitions: 0", 37, 1, "answer 37", topics=lambda bench: [{"name": bench.topic, "count": 0}]),
    simple("create partitions: 2^31-1", 37, 1, "answer -1", ours=("answer 37", "answer 44"),
           why="Kafka runs out of memory bounds here; ours names its limit", topics=lambda bench: [
        {"name": bench.topic, "count": 0x7FFFFFFF}]),
    simple("create partitions: same topic twice", 37, 1, "answer 42", topics=lambda bench: [
        {"name": bench.topic, "count": 3}, {"name": bench.topic, "count": 4}]),
    simple("create partitions: wrong number of assignments", 37, 1, "answer 39", topics=lambda bench: [
        {"name": bench.topic, "count": 3, "assignments": [{"broker_ids": [1]}]}]),
    simple("create partitions: unknown broker", 37, 1, "answer 39", topics=lambda bench: [
        {"name": bench.topic, "count": 2, "assignments": [{"broker_ids": [99]}]}]),
    simple("create partitions: none", 37, 1, "answer ", topics=[]),
    simple("describe configs: unknown topic", 32, 2, "answer 3", resources=[
        {"resource_type": TOPIC, "resource_name": "no-such-topic"}]),
    simple("describe configs: illegal topic", 32, 2, "answer 17", resources=[
        {"resource_type": TOPIC, "resource_name": "a/b"}]),
    simple("describe configs: resource type 99", 32, 2, "answer 42", resources=[{"resource_type": 99, "resource_name": "x"}]),
    simple("describe configs: resource type 0", 32, 2, "answer 42", resources=[{"resource_type": 0, "resource_name": "x"}]),
    simple("describe configs: broker id not a number", 32, 2, "answer 42", resources=[
        {"resource_type": BROKER, "resource_name": "x"}]),
    simple("describe configs: another broker", 32, 2, "answer 42", resources=[
        {"resource_type": BROKER, "resource_name": "99"}]),
    simple("describe configs: unknown key", 32, 2, "answer 0", resources=lambda bench: [
        {"resource_type": TOPIC, "resource_name": bench.topic, "keys": ["no.such.config"]}]),
    simple("describe configs: group without a name", 32, 2, "answer 42", resources=[{"resource_type": GROUP, "resource_name": ""}]),
    simple("describe configs: group that does not exist", 32, 2, "answer 0", resources=[
        {"resource_type": GROUP, "resource_name": "no-such-group"}]),
    simple("list config resources: unknown type", 74, 1, "answer 35", resource_types=[TOPIC, 64]),
    simple("list config resources: type 0", 74, 1, "answer 35", resource_types=[0]),
    simple("list config resources: loggers and metrics of clients", 74, 1, "answer 0", resource_types=[8, 16]),
    simple("list config resources: metrics of clients, as they were once", 74, 0, "answer 0"),
    simple("describe configs: none", 32, 2, "answer ", resources=[]),
    simple("alter configs: unknown topic", 33, 1, "answer 3", resources=[
        {"resource_type": TOPIC, "resource_name": "no-such-topic"}]),
    simple("alter configs: unknown key", 33, 1, "answer 40", resources=lambda bench: [
        {"resource_type": TOPIC, "resource_name": bench.topic, "configs": [{"name": "no.such", "value": "1"}]}]),
    simple("alter configs: group, null value", 33, 1, "answer 42", resources=[
        {"resource_type": GROUP, "resource_name": "judge", "configs": [{"name": "consumer.session.timeout.ms", "value": None}]}]),
    simple("alter configs: group, nothing", 33, 1, "answer 0", resources=[{"resource_type": GROUP, "resource_name": "judge"}]),
    simple("alter configs: same topic twice", 33, 1, "silent", ours=("answer 42,42", "answer 42"),
           why="Kafka never answers this", resources=lambda bench: [
        {"resource_type": TOPIC, "resource_name": bench.topic}] * 2),
]


def alter(name, expect, configs, topic=None, kind=TOPIC, **more):
    return simple(name, 44, 0, expect, resources=lambda bench: [
        {"resource_type": kind, "resource_name": topic(bench) if callable(topic) else topic or bench.topic, "configs": configs}], **more)


ROWS += [
    alter("incremental alter: unknown topic", "answer 3", [{"name": "retention.ms", "value": "1"}], topic="no-such-topic"),
    alter("incremental alter: unknown key", "answer 40", [{"name": "no.such.config", "value": "1"}]),
    alter("incremental alter: not a number", "answer 40", [{"name": "retention.ms", "value": "soon"}]),
    alter("incremental alter: null value", "answer 42", [{"name": "retention.ms", "value": None}]),
    alter("incremental alter: operation 9", "answer -1", [{"name": "retention.ms", "op": 9, "value": "1"}],
          ours="answer 42", why="Kafka's -1 is a stray exception; the request is what is wrong"),
    alter("incremental alter: append to a number", "answer 40", [{"name": "retention.ms", "op": 2, "value": "1"}]),
    alter("incremental alter: same key twice", "answer 42", [{"name": "retention.ms", "value": "1000"}] * 2),
    alter("incremental alter: append to a list, validate only", "answer 0", [
        {"name": "cleanup.policy", "op": 2, "value": "compact"}], topic=lambda bench: bench.compact, validate_only=True),
    alter("incremental alter: delete what is not set", "answer 0", [{"name": "retention.ms", "op": 1, "value": None}]),
    alter("incremental alter: unknown broker", "answer 42", [{"name": "log.retention.ms", "value": "1000"}],
          topic="99", kind=BROKER),
    alter("incremental alter: group without a name", "answer 42", [{"name": "consumer.session.timeout.ms", "value": "50000"}],
          kind=GROUP, topic=lambda bench: ""),
    alter("incremental alter: group, unknown key", "answer 40", [{"name": "no.such.config", "value": "1"}], kind=GROUP),
    alter("incremental alter: group, not a number", "answer 40", [{"name": "consumer.session.timeout.ms", "value": "soon"}], kind=GROUP),
    alter("incremental alter: group, above the broker's bounds", "answer 40", [
        {"name": "consumer.heartbeat.interval.ms", "value": "15001"}], kind=GROUP),
    alter("incremental alter: group, below the broker's bounds", "answer 40", [
        {"name": "consumer.session.timeout.ms", "value": "999"}], kind=GROUP),
    alter("incremental alter: group, append to a number", "answer 40", [
        {"name": "consumer.session.timeout.ms", "op": 2, "value": "50000"}], kind=GROUP),
    alter("incremental alter: group, null value", "answer 42", [{"name": "consumer.session.timeout.ms", "value": None}], kind=GROUP),
    alter("incremental alter: group, in the broker's bounds, validate only", "answer 0", [
        {"name": "consumer.session.timeout.ms", "value": "50000"}], kind=GROUP, validate_only=True),
    simple("init producer id: empty transactional id", 22, 4, "answer 42", transactional_id=""),
    simple("init producer id: no id", 22, 4, "answer 0"),
    simple("init producer id: no id, timeout -1", 22, 4, "answer 0", transaction_timeout_ms=-1),
    simple("init producer id: producer id without epoch", 22, 4, "answer 42", producer_id=5, producer_epoch=-1),
    simple("init producer id: epoch without producer id", 22, 4, "answer 42", producer_id=-1, producer_epoch=5),
    simple("init producer id: no transactional id, known id and epoch", 22, 4, "answer 0", producer_id=5, producer_epoch=5),
    simple("init producer id: producer id -5", 22, 4, "answer 0", producer_id=-5, producer_epoch=1),
    simple("sasl handshake: no login here", 17, 1, "answer 34", mechanism="PLAIN"),
    simple("sasl handshake: no login here, no mechanism", 17, 0, "answer 34", mechanism=""),
    simple("sasl authenticate: no login here", 36, 2, "answer 34", auth_bytes=b"\0user\0password"),
    simple("sasl authenticate: no login here, no token", 36, 0, "answer 34", auth_bytes=b""),
    simple("describe scram: unknown user", 50, 0, "answer 0,91", users=[{"name": "judge-none"}]),
    simple("describe scram: one user twice", 50, 0, "answer 0,92", users=[{"name": "judge-none"}, {"name": "judge-none"}]),
    simple("describe scram: no name", 50, 0, "answer 0,91", users=[{"name": ""}]),
    simple("alter scram: nothing", 51, 0, "answer ", deletions=[], upsertions=[]),
    simple("alter scram: delete an unknown user", 51, 0, "answer 91", deletions=[{"name": "judge-none", "mechanism": 1}]),
    simple("alter scram: delete by an unknown mechanism", 51, 0, "answer 33", deletions=[{"name": "judge-none", "mechanism": 9}]),
    credential("no name", "answer 93", name=""),
    credential("mechanism 0", "answer 33", mechanism=0),
    credential("mechanism 3", "answer 33", mechanism=3),
    credential("4095 iterations", "answer 93", iterations=4095),
    credential("16385 iterations", "answer 93", iterations=16385),
    credential("iterations -1", "answer 93", iterations=-1),
    credential("no salt", "answer 0", ours="answer 93", why="clients refuse to log in without a salt", salt=b""),
    credential("a salted password too short", "answer 0", ours="answer 93", why="nobody could log in with it",
               salted_password=b"short"),
    simple("alter scram: one user twice", 51, 0, "answer 92", upsertions=[
        {"name": "judge-twice", "mechanism": mechanism, "iterations": 4096, "salt": b"salt", "salted_password": b"p" * 32 * mechanism}
        for mechanism in (1, 2)]),
    simple("delete records: unknown topic", 21, 1, "answer 3", topics=[
        {"name": "no-such-topic", "partitions": [{"index": 0, "offset": 0}]}]),
    simple("delete records: unknown partition", 21, 1, "answer 3", topics=lambda bench: [
        {"name": bench.topic, "partitions": [{"index": 99, "offset": 0}]}]),
    simple("delete records: offset -2", 21, 1, "answer 1", topics=lambda bench: [
        {"name": bench.topic, "partitions": [{"index": 0, "offset": -2}]}]),
    simple("delete records: offset above the end", 21, 1, "answer 1", topics=lambda bench: [
        {"name": bench.topic, "partitions": [{"index": 0, "offset": 1 << 40}]}]),
]
