"""F34: unknown, mistyped and impossible settings are refused or reported, never taken in silence.

Topic settings by CreateTopics and IncrementalAlterConfigs; broker settings at
start. Dynamic changes over versions of the broker and CLI tools have no tests
here.
"""

import pytest

from bench import Ledger, log_end, one_batch, topic_made
from test_startup_errors import _refused

INVALID_CONFIG, INVALID_REQUEST = 40, 42
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
TOPIC_OVERRIDE, DEFAULT_SOURCE = 1, 5

# (key, value, words that the message must hold)
BAD = [
    ("retention.mss", "1000", ["retention.mss", "retention.ms"]),
    ("no.such.thing.at.all", "1", ["no.such.thing.at.all"]),
    ("segment.bytes", "7d", ["segment.bytes", "7d"]),
    ("segment.bytes", "-1", ["segment.bytes", "-1"]),
    ("segment.bytes", "99999999999", ["segment.bytes", "99999999999"]),
    ("max.message.bytes", "", ["max.message.bytes"]),
    ("message.timestamp.type", "createtime!", ["message.timestamp.type", "CreateTime"]),
    ("cleanup.policy", "shred", ["cleanup.policy", "shred"]),
    ("min.insync.replicas", "0", ["min.insync.replicas"]),
    ("flush.ms", "-1", ["flush.ms", "-1"]),
    ("flush.messages", "1000", ["flush.messages", "only 1"]),
    ("remote.storage.enable", "true", ["remote.storage.enable", "only false"]),
    ("retention.ms", "-2", ["retention.ms", "-2"]),
    ("compression.type", "zip", ["compression.type", "zip"]),
]


def _create(connection, name, configs, validate_only=False):
    answer = connection.call(19, 2, topics=[{"name": name, "num_partitions": 1, "replication_factor": 1, "configs": [
        {"name": key, "value": value} for key, value in configs]}], validate_only=validate_only)
    return answer["topics"][0]["error_code"], answer["topics"][0]["error_message"]


def _alter(connection, name, *changes, validate_only=False):
    answer = connection.call(44, 0, resources=[{"resource_type": 2, "resource_name": name, "configs": [
        {"name": key, "op": op, "value": value} for key, op, value in changes]}], validate_only=validate_only)
    return answer["responses"][0]["error_code"], answer["responses"][0]["error_message"]


def _settings(connection, name):
    """{key: (value, source)}"""
    answer = connection.call(32, 1, resources=[{"resource_type": 2, "resource_name": name, "keys": None}])
    return {row["name"]: (row["value"], row["config_source"]) for row in answer["results"][0]["configs"]}


def _topics(connection):
    return {t["name"] for t in connection.call(3, 4, topics=None, allow_auto_topic_creation=False)["topics"]}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    from bench import Broker
    home = tmp_path_factory.mktemp("f34")
    with Broker(home / "data", home).start() as broker:
        yield broker


@pytest.mark.parametrize("key, value, words", BAD)
def test_bad_topic_setting_is_refused_in_words_and_nothing_is_created_or_changed(key, value, words, shared):
    name = f"bad-{abs(hash((key, value))) % 10 ** 8}"
    with shared.connect() as connection:
        code, message = _create(connection, name, [(key, value), ("segment.ms", "100000")])
        assert code == INVALID_CONFIG, f"CreateTopics {key}={value}: error {code} ({message})"
        assert all(word.lower() in (message or "").lower() for word in words), f"{words} not in {message!r}"
        assert name not in _topics(connection)
        topic_made(connection, name)
        before = _settings(connection, name)
        code, message = _alter(connection, name, ("segment.ms", SET, "123456"), (key, SET, value))
        assert code == INVALID_CONFIG, f"alter {key}={value}: error {code} ({message})"
        assert _settings(connection, name) == before, "a refused change was half applied"


def test_value_shown_is_the_value_in_force_with_its_source(shared):
    with shared.connect() as connection:
        assert _create(connection, "shown", [("segment.bytes", "65536")])[0] == 0
        found = _settings(connection, "shown")
        assert found["segment.bytes"] == ("65536", TOPIC_OVERRIDE)
        assert found["max.message.bytes"] == ("1048588", DEFAULT_SOURCE)
        assert _alter(connection, "shown", ("segment.bytes", DELETE, None), ("max.message.bytes", SET, "5000"))[0] == 0
        found = _settings(connection, "shown")
        assert found["segment.bytes"] == ("1073741824", DEFAULT_SOURCE)
        assert found["max.message.bytes"] == ("5000", TOPIC_OVERRIDE)


def test_validate_only_changes_nothing_and_finds_the_same_faults(shared):
    with shared.connect() as connection:
        assert _create(connection, "dry", [("segment.bytes", "65536")], validate_only=True)[0] == 0
        assert "dry" not in _topics(connection)
        assert _create(connection, "dry", [("segment.bytes", "x")], validate_only=True)[0] == INVALID_CONFIG
        topic_made(connection, "dry")
        before = _settings(connection, "dry")
        assert _alter(connection, "dry", ("segment.bytes", SET, "65536"), validate_only=True)[0] == 0
        assert _alter(connection, "dry", ("segment.bytes", SET, "x"), validate_only=True)[0] == INVALID_CONFIG
        assert _settings(connection, "dry") == before


def test_append_to_what_is_no_list_and_a_key_twice_are_refused(shared):
    with shared.connect() as connection:
        topic_made(connection, "lists")
        before = _settings(connection, "lists")
        for op in (APPEND, SUBTRACT):
            code, message = _alter(connection, "lists", ("segment.bytes", op, "1"))
            assert code in (INVALID_CONFIG, INVALID_REQUEST), f"op {op}: error {code} ({message})"
        code, message = _alter(connection, "lists", ("segment.ms", SET, "1000"), ("segment.ms", SET, "2000"))
        assert code in (INVALID_CONFIG, INVALID_REQUEST), f"twice: error {code} ({message})"
        code, message = _alter(connection, "lists", ("segment.ms", SET, None))
        assert code in (INVALID_CONFIG, INVALID_REQUEST), f"set to null: error {code} ({message})"
        assert _settings(connection, "lists") == before


@pytest.mark.parametrize("key, value, words", [
    ("log.segment.bytes", "7d", ["log.segment.bytes", "7d"]),
    ("num.partitions", "-3", ["num.partitions", "-3"]),
    ("log.retention.ms", "-2", ["log.retention.ms"]),
    ("auto.create.topics.enable", "maybe", ["auto.create.topics.enable", "maybe"]),
    ("node.id", "", ["node.id"]),
    ("cores", "999", ["cores", "999"]),
    ("cores", "none", ["cores", "none"]),
    ("log.dirs", "/a,/b", ["log.dirs"]),
])
def test_bad_value_of_a_known_broker_setting_refuses_the_start(key, value, words, make_broker):
    _refused(make_broker(start=False, settings={key: value}), *words)


@pytest.mark.parametrize("key, word", [
    ("log.segment.byte", "log.segment.bytes"), ("zookeeper.connect", "zookeeper.connect"), ("fondue", "fondue")])
def test_unknown_broker_setting_is_reported_and_does_not_block(key, word, make_broker):
    broker = make_broker(settings={key: "1"})
    assert word in broker.words(), f"{key} was taken in silence:\n{broker.words()}"
    with broker.connect() as connection:
        topic_made(connection, "t")
        one_batch(connection, Ledger(), "t", 0, 1)
        assert log_end(connection, "t", 0) == 1


def test_default_of_the_broker_is_in_force_for_its_topics(make_broker):
    broker = make_broker(settings={"message.max.bytes": "20000", "num.partitions": "3"})
    with broker.connect() as connection:
        answer = connection.call(19, 4, topics=[{"name": "t", "num_partitions": -1, "replication_factor": -1}])
        assert answer["topics"][0]["error_code"] == 0
        value, source = _settings(connection, "t")["max.message.bytes"]
        assert value == "20000" and source not in (TOPIC_OVERRIDE, DEFAULT_SOURCE), f"{value}, source {source}"
        assert log_end(connection, "t", 2) == 0
