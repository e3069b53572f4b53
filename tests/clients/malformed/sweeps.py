"""Sweeps: a rule over many inputs, one check per API and version.

The rules, as Apache Kafka 4.3.1 keeps them: a request that is not served is
answered by the closing of its connection (ApiVersions alone gets an answer); so
is every strict prefix of a request, and every count or length that does not fit
into the bytes that follow. Other damage may be answered or closed, but it must
be answered at once and in the shape of the request's version.
"""

import random
import struct

from bench import describe
from messages import MESSAGES, encode_request
from rawkafka import Closed, Silent, batch, request_header

BEYOND = range(0, 101)  # the API keys looked at


def valid(bench):
    """{key: fields} of one request each that is right in every version."""
    where = {"name": bench.topic, "topic_id": bench.topic_id}
    part = [{"index": 0, "fetch_offset": 0, "timestamp": -1, "leader_epoch": 0, "offset": 0,
             "records": batch([b"sweep"], base_timestamp=1_700_000_000_000)}]
    named = [dict(where, partitions=part)]
    listed = [dict(where, partitions=[0])]
    nobody = {"transactional_id": "sweep", "producer_id": 1 << 40, "producer_epoch": 0}
    resource = [{"resource_type": 2, "resource_name": bench.topic, "keys": ["retention.ms"],
                 "configs": [{"name": "retention.ms", "value": "604800000"}]}]
    return {
        0: {"topics": named, "transactional_id": None, "acks": -1},
        1: {"topics": named, "max_wait_ms": 0, "rack_id": "r"},
        2: {"topics": named},
        3: {"topics": [{"name": bench.topic}], "allow_auto_topic_creation": False},
        8: {"group_id": "sweep", "topics": [dict(where, partitions=[{"index": 0, "offset": 1, "metadata": "m"}])]},
        9: {"group_id": "sweep", "topics": listed, "groups": [{"group_id": "sweep", "topics": listed}]},
        10: {"key": "sweep", "coordinator_keys": ["sweep"]},
        # Of a member that is not there, or the sweep would wait for members that it made.
        11: {"group_id": "sweep", "member_id": "nobody", "protocols": [{"name": "range", "metadata": b"m"}], "reason": "r"},
        12: {"group_id": "sweep", "member_id": "nobody"},
        13: {"group_id": "sweep", "member_id": "nobody", "members": [{"member_id": "nobody", "group_instance_id": "i"}]},
        14: {"group_id": "sweep", "member_id": "nobody", "protocol_type": "consumer", "protocol_name": "range",
             "assignments": [{"member_id": "nobody", "assignment": b"a"}]},
        15: {"groups": ["sweep"]},
        16: {"states_filter": ["Empty"], "types_filter": ["classic"]},
        17: {"mechanism": "PLAIN"},
        18: {},
        19: {"topics": [{"name": bench.topic, "configs": [{"name": "retention.ms", "value": "1"}]}], "validate_only": True},
        20: {"topics": [{"name": "no-such-topic"}], "topic_names": ["no-such-topic"]},
        21: {"topics": named},
        22: {"transactional_id": None},
        23: {"topics": named},
        # Of a producer that is not there.
        24: dict(nobody, topics=listed, transactions=[dict(nobody, verify_only=True, topics=listed)]),
        25: dict(nobody, group_id="sweep"),
        26: dict(nobody, committed=True),
        27: {"markers": [dict(nobody, topics=[dict(where, partitions=[99])], coordinator_epoch=1)]},
        28: dict(nobody, group_id="sweep", member_id="nobody", group_instance_id="i",
                 topics=[dict(where, partitions=[{"index": 0, "offset": 1, "metadata": "m"}])]),
        32: {"resources": resource},
        33: {"resources": resource, "validate_only": True},
        34: {"dirs": [{"path": "/no/such", "topics": listed}]},
        35: {"topics": listed},
        36: {"auth_bytes": b"token"},
        37: {"topics": [{"name": bench.topic, "count": 2, "assignments": [{"broker_ids": [1]}]}], "validate_only": True},
        42: {"groups_names": ["sweep-none"]},
        43: {"topics": listed},
        44: {"resources": resource, "validate_only": True},
        45: {"topics": [dict(where, partitions=[{"index": 0, "replicas": None}])]},
        46: {"topics": listed},
        47: {"group_id": "sweep", "topics": [dict(where, partitions=[{"index": 0}])]},
        50: {"users": [{"name": "sweep-none"}]},
        51: {"deletions": [{"name": "sweep-none", "mechanism": 1}], "upsertions": [
            {"name": "", "mechanism": 1, "iterations": 1, "salt": b"s", "salted_password": b"p"}]},
        60: {},
        61: {"topics": listed},
        65: {"transactional_ids": ["sweep"]},
        66: {"state_filters": ["Ongoing"], "producer_id_filters": [1 << 40], "transactional_id_pattern": "sweep.*"},
        68: {"group_id": "sweep", "member_id": "nobody", "member_epoch": 1, "instance_id": "i", "rack_id": "r", "server_assignor": "range",
             "subscribed_topic_names": [bench.topic], "subscribed_topic_regex": "a.*",
             "topic_partitions": [{"topic_id": bench.topic_id, "partitions": [0]}]},
        69: {"group_ids": ["sweep"]},
        74: {"resource_types": [2, 4, 32]},
        75: {"topics": [{"name": bench.topic}], "cursor": {"topic_name": bench.topic, "partition_index": 0}},
    }


def answered(bench, key, version, payload, wait=3.0):
    """"closed", "silent", "answer ..." or "garbage ..." for one framed payload."""
    with bench.connect(wait) as connection:
        try:
            connection.send_frame(payload)
            connection.correlation = 1
            return describe(key, version, connection.response(key, version))
        except Closed:
            return "closed"
        except Silent:
            return "silent"
        except (ValueError, struct.error) as error:
            return f"garbage ({error})"


def unserved(bench):
    """Keys and versions that nobody offered."""
    for key in BEYOND:
        low, high = bench.versions.get(key, (1, 0))
        wrong = {-1, -32768, 32767, low - 1, high + 1} if key in bench.versions else {0, 1, 7, 32767, -1}
        if key == 18:
            continue  # the one with an answer: see rows_frame
        for version in sorted(v for v in wrong if not low <= v <= high and -32768 <= v <= 32767):
            yield key, version
    for key in (-1, -32768, 255, 1000, 32767):
        yield key, 0


def judge_unserved(bench):
    """Everything unserved at once: one connection each, all must close."""
    open_ended = []
    for key, version in unserved(bench):
        got = answered(bench, key, version, request_header(key, version, 1) + b"\0" * 8)
        if got != "closed":
            open_ended.append(f"API {key} v{version}: {got}")
    return "; ".join(open_ended[:5]) or None


def judge_prefixes(bench, key, version, fields):
    """Header whole, body cut at every byte."""
    body, _ = encode_request(key, version, fields)
    head = request_header(key, version, 1)
    for n in range(len(body)):
        got = answered(bench, key, version, head + body[:n])
        if got != "closed":
            return f"cut to {n} of {len(body)} bytes: {got}"
    return None


def judge_counts(bench, key, version, fields, reference):
    """Every length and count in the body, replaced by what cannot be."""
    body, marks = encode_request(key, version, fields)
    head = request_header(key, version, 1)
    for at, kind, width in marks:
        left = len(body) - at - width
        for raw, must_close in spoiled(kind, left):
            got = answered(bench, key, version, head + body[:at] + raw + body[at + width:])
            if reference and key == 0 and got == "silent":
                continue  # Kafka never answers null records
            if got == "silent" or got.startswith("garbage") or must_close and got != "closed":
                return f"length at byte {at} as {raw.hex()}: {got}"
    return None


def spoiled(kind, left):
    """(bytes, whether the connection must close) for one length field."""
    if kind == "uvarint":
        yield b"\xff\xff\xff\xff\x07", True  # 2^31-1
        yield b"\xff\xff\xff\xff\x0f", False  # 2^32-1, that is -2 once one is taken off
        yield b"\x80" * 5 + b"\x01", True  # a varint of six bytes
        yield b"\xff" * 10, True
        yield _compact(left + 1), True
    else:
        width = ">h" if kind == "i16" else ">i"
        top = 32767 if kind == "i16" else 0x7FFFFFFF
        yield struct.pack(width, top), True
        yield struct.pack(width, min(left + 1, top)), True
        yield struct.pack(width, -1), False
        yield struct.pack(width, -2), False
        yield struct.pack(width, -top - 1), False


def _compact(n):
    from messages import uvarint
    return uvarint(n + 1)


def judge_flips(bench, key, version, fields, thorough, seed=7):
    """Every byte inverted, and one random bit of it (or each): any answer, no silence."""
    body, _ = encode_request(key, version, fields)
    head = request_header(key, version, 1)
    chance = random.Random(seed)
    for at in range(len(body)):
        for mask in (0xFF, *(1 << bit for bit in (range(8) if thorough else [chance.randrange(8)]))):
            spoilt = body[:at] + bytes([body[at] ^ mask]) + body[at + 1:]
            wait = 0.3 if key in (0, 1) else 3.0  # acks or max_wait may have been hit
            got = answered(bench, key, version, head + spoilt, wait)
            if got.startswith("garbage") or got == "silent" and key not in (0, 1):
                return f"byte {at} of {body.hex()} xor {mask:#x} (seed {seed}): {got}"
    return None


def judge(bench, reference, only, thorough):
    """Yields (name, reason or None)."""
    if only in "sweep: unserved APIs and versions are closed":
        yield "sweep: unserved APIs and versions are closed", judge_unserved(bench)
    requests = valid(bench)
    for key, (low, high) in sorted(bench.versions.items()):
        if key not in requests:
            continue
        name, first, last = MESSAGES[key][0], max(low, MESSAGES[key][1]), min(high, MESSAGES[key][2])
        for version in range(first, last + 1):
            whole = encode_request(key, version, requests[key])[0]
            checks = [("well-formed request is answered", lambda: None if answered(
                bench, key, version, request_header(key, version, 1) + whole).startswith("answer") else "no answer"),
                ("every prefix is closed", lambda: judge_prefixes(bench, key, version, requests[key])),
                ("impossible lengths are closed", lambda: judge_counts(bench, key, version, requests[key], reference))]
            if thorough or version in (first, last):
                checks.append(("flipped bytes are answered or closed",
                               lambda: judge_flips(bench, key, version, requests[key], thorough)))
            for label, check in checks:
                title = f"sweep: {name} v{version}: {label}"
                if only in title:
                    yield title, check()
