"""F25: a first request that is newer than the broker, and a version table that is true both ways.

Unsupported ApiVersions gets a v0 body with error 35; unknown tags are skipped;
every advertised key and version parses and answers; everything else closes
its own connection only.
"""

import struct

import pytest

from bench import Closed, topic_made
from hotpath import build_batch
from messages import MESSAGES, decode_response, encode_request, is_flexible, uvarint
from rawkafka import request_header

UNSUPPORTED_VERSION, INVALID_REQUEST = 35, 42


def _raw_answer(connection, key, version, body, tags=b"\0"):
    """Sends with header v2 (for flexible versions) and these tags; returns the payload behind the correlation id."""
    connection.correlation += 1
    head = request_header(key, version, connection.correlation)
    if head.endswith(b"\0") and (is_flexible(key, version) or key == 18):
        head = head[:-1] + tags
    connection.send_frame(head + body)
    raw = connection.receive()
    assert struct.unpack_from(">i", raw)[0] == connection.correlation
    return raw[4:]


def _tags(count, size):
    """A tag section of `count` unknown fields, `size` bytes in all."""
    each = b"x" * (size // count)
    return uvarint(count) + b"".join(uvarint(1000 + n) + uvarint(len(each)) + each for n in range(count))


@pytest.mark.parametrize("version", [5, 6, 99, 32767])
@pytest.mark.parametrize("first", [True, False])
def test_unknown_api_versions_version_gets_a_v0_body_with_35_and_our_range(version, first, make_broker):
    broker = make_broker()
    with broker.connect() as connection:
        low, high = connection.versions()[18]
    with broker.connect() as connection:
        if not first:
            connection.versions()
        connection.correlation += 1
        connection.send_frame(request_header(18, 3, connection.correlation).replace(
            struct.pack(">hh", 18, 3), struct.pack(">hh", 18, version), 1) + b"\x0bnew-client\x021\0")
        raw = connection.receive()
        assert struct.unpack_from(">i", raw)[0] == connection.correlation
        answer = decode_response(18, 0, raw[4:])
        assert answer["error_code"] == UNSUPPORTED_VERSION
        ranges = {row["api_key"]: (row["min_version"], row["max_version"]) for row in answer["api_keys"]}
        assert ranges.get(18) == (low, high), f"the answer does not say which ApiVersions are served: {ranges}"
        assert connection.versions(), "the connection does not go on at a version that is served"


@pytest.mark.parametrize("version", range(5))
def test_every_api_versions_version_has_response_header_v0(version, make_broker):
    broker = make_broker()
    with broker.connect() as connection:
        body, _ = encode_request(18, version, {})
        answer = decode_response(18, version, _raw_answer(connection, 18, version, body))
        assert answer["error_code"] == 0
        assert {0, 1, 2, 3, 18, 19, 20} <= {row["api_key"] for row in answer["api_keys"]}
        if version >= 3:
            for feature in answer.get("finalized_features", []):
                assert feature["min_level"] <= feature["max_level"]


@pytest.mark.parametrize("name, version", [("", "1"), ("bad name", "1"), ("ok", ""), ("ok", "1 2"), ("-x", "1"), ("x\n", "1")])
def test_illegal_client_name_is_an_invalid_request(name, version, make_broker):
    broker = make_broker()
    with broker.connect() as connection:
        answer = connection.call(18, 3, client_software_name=name, client_software_version=version)
        assert answer["error_code"] == INVALID_REQUEST
        assert connection.call(18, 3)["error_code"] == 0, "the connection is of no use after the refusal"


def _minimal(topic):
    """Fields that make a small, meaningful request of each API; the rest takes defaults."""
    part = {"index": 0, "partition": 0, "partition_index": 0}
    return {
        0: {"topics": [{"name": topic, "partitions": [{**part, "records": build_batch([b"v"])}]}]},
        1: {"topics": [{"name": topic, "partitions": [{**part, "fetch_offset": 0}]}], "max_wait_ms": 0},
        2: {"topics": [{"name": topic, "partitions": [{**part, "timestamp": -1}]}]},
        3: {"topics": []},
        8: {"group_id": "g", "topics": [{"name": topic, "partitions": [{**part, "offset": 0}]}]},
        9: {"group_id": "g", "topics": [{"name": topic, "partitions": [0]}], "groups": [
            {"group_id": "g", "topics": [{"name": topic, "partitions": [0]}]}]},
        10: {"key": "g", "coordinator_keys": ["g"]},
        # Of a member that is not there: answered at once, and nobody waits for it.
        11: {"group_id": "g", "member_id": "nobody", "protocols": [{"name": "range", "metadata": b"m"}]},
        12: {"group_id": "g", "member_id": "nobody"},
        13: {"group_id": "g", "member_id": "nobody", "members": [{"member_id": "nobody"}]},
        14: {"group_id": "g", "member_id": "nobody", "assignments": [{"member_id": "nobody", "assignment": b"a"}]},
        15: {"groups": ["g"]},
        42: {"groups_names": ["none"]},
        47: {"group_id": "g", "topics": [{"name": topic, "partitions": [part]}]},
        68: {"group_id": "g", "member_id": "nobody", "member_epoch": 1},
        69: {"group_ids": ["g"]},
        23: {"topics": [{"name": topic, "partitions": [{**part, "leader_epoch": 0}]}]},
        32: {"resources": [{"resource_type": 2, "resource_name": topic, "keys": None}]},
        37: {"topics": [{"name": topic, "count": 1, "assignments": None}], "validate_only": True},
    }


def test_every_advertised_key_and_version_parses_and_answers(make_broker):
    broker = make_broker()
    faults = []
    with broker.connect() as connection:
        topic_made(connection, "table")
        table = connection.versions()
    assert table.get(0, (None,))[0] == 0, f"Produce must be advertised from 0, for old librdkafka: {table.get(0)}"
    for key, (low, high) in sorted(table.items()):
        if key not in MESSAGES:
            faults.append(f"key {key} ({low}-{high}) is advertised, the bench has no message for it")
            continue
        name, first, last = MESSAGES[key][:3]
        if high > last:
            faults.append(f"{name}: advertised to {high}, the bench knows {last}")
        for version in range(max(low, first), min(high, last) + 1):
            with broker.connect(timeout=10) as fresh:
                try:
                    fresh.call(key, version, **_minimal("table").get(key, {}))
                    fresh.versions()
                except Exception as error:  # pylint: disable=broad-except
                    faults.append(f"{name} v{version}: {type(error).__name__}: {error}")
    assert not faults, "\n".join(faults)


def test_versions_outside_the_table_close_their_connection_only(make_broker):
    broker = make_broker()
    with broker.connect() as witness:
        table = witness.versions()
        for key in range(-1, 100):
            low, high = table.get(key, (None, None))
            wrong = [0, 1] if low is None else [v for v in (low - 1, high + 1) if v >= 0]
            if key == 0:
                wrong += [0, 1, 2]
            for version in wrong if key != 18 else []:
                with broker.connect(timeout=5) as stranger:
                    stranger.correlation += 1
                    with pytest.raises(Closed):
                        stranger.send_frame(request_header(key, version, 1) + b"\0" * 64)
                        stranger.receive()
                        raise AssertionError(f"key {key} version {version} got an answer")
        assert witness.versions() == table
    assert "panicked" not in broker.log_text()


def test_unknown_tags_are_skipped_on_every_flexible_api(make_broker):
    """Tag 1000 and up, 10 KiB of them, in the header and at the end of the body."""
    broker = make_broker()
    faults = []
    with broker.connect() as connection:
        topic_made(connection, "tagged")
        table = connection.versions()
    for key, (_, high) in sorted(table.items()):
        if key not in MESSAGES or not is_flexible(key, high) or high > MESSAGES[key][2]:
            continue
        body, _ = encode_request(key, high, _minimal("tagged").get(key, {}))
        assert body.endswith(b"\0")
        for tags in (_tags(1, 1), _tags(100, 10_240)):
            for where in ("header", "body"):
                with broker.connect(timeout=10) as fresh:
                    try:
                        raw = _raw_answer(fresh, key, high, body if where == "header" else body[:-1] + tags,
                                          tags if where == "header" else b"\0")
                        decode_response(key, high, raw[0 if key == 18 else 1:])
                    except Exception as error:  # pylint: disable=broad-except
                        faults.append(f"{MESSAGES[key][0]} v{high}, tags in the {where}: {type(error).__name__}: {error}")
    assert not faults, "\n".join(faults)


def test_null_client_id_is_served(make_broker):
    broker = make_broker()
    with broker.connect(client_id=None) as connection:
        assert connection.versions()
        assert connection.call(3, 4, topics=[])["brokers"]
