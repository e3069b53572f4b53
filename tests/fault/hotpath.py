"""Produce and Fetch at speed: batches built from cached parts, hand-cut frames.

`tests/lib/rawkafka.py` speaks every message; this speaks two of them fast
enough for a steady load from Python (tens of thousands of records a second).
Only non-flexible versions are used here: Produce 8 and Fetch 11.
"""

import functools
import struct
import time

from crc32c import crc32c
from rawkafka import varint

PRODUCE_VERSION = 8
FETCH_VERSION = 11
HEADER_BYTES = 61

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CHECKED = struct.Struct(">hiqqqhii")
_TAIL = b"\0"  # no record headers


@functools.lru_cache(maxsize=1 << 16)
def _record_prefix(value_bytes, delta):
    """Everything of a record in front of its value (null key, timestamp delta 0)."""
    middle = b"\0\0" + varint(delta) + varint(-1) + varint(value_bytes)
    return varint(len(middle) + value_bytes + len(_TAIL)) + middle


def build_batch(values, timestamp_ms=None, producer_id=-1, producer_epoch=-1, sequence=-1):
    """An uncompressed v2 batch of `values` (bytes), base offset 0, as a producer sends it."""
    now = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms
    parts = []
    for delta, value in enumerate(values):
        parts.append(_record_prefix(len(value), delta))
        parts.append(value)
        parts.append(_TAIL)
    checked = _CHECKED.pack(0, len(values) - 1, now, now, producer_id, producer_epoch, sequence, len(values))
    checked += b"".join(parts)
    return struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc32c(checked)) + checked


class Batch:
    """One whole v2 batch as it came from the broker."""

    __slots__ = ("base_offset", "leader_epoch", "attributes", "count", "producer_id", "producer_epoch",
                 "sequence", "base_timestamp", "max_timestamp", "last_offset", "raw")

    def __init__(self, raw):
        (self.base_offset, _, self.leader_epoch, magic, crc, self.attributes, last_delta, self.base_timestamp,
         self.max_timestamp, self.producer_id, self.producer_epoch, self.sequence, self.count) = _HEADER.unpack_from(raw)
        assert magic == 2, f"batch at offset {self.base_offset}: magic {magic}"
        found = crc32c(raw[21:])
        assert found == crc, f"batch at offset {self.base_offset}: CRC {crc:08x} in the header, {found:08x} computed"
        self.last_offset = self.base_offset + last_delta
        self.raw = raw

    @property
    def is_control(self):
        return bool(self.attributes & 0x20)

    def values(self):
        """The record values, for an uncompressed batch."""
        assert self.attributes & 7 == 0, f"batch at {self.base_offset} is compressed"
        return list(record_values(self.raw, HEADER_BYTES, self.count))


def record_values(raw, at, count):
    """Values of `count` records that start at byte `at`; keys and headers are skipped."""
    for _ in range(count):
        length, at = _varint(raw, at)
        end = at + length
        _, at = _varint(raw, at + 1)  # behind attributes: timestamp delta
        _, at = _varint(raw, at)  # offset delta
        key, at = _varint(raw, at)
        if key > 0:
            at += key
        size, at = _varint(raw, at)
        yield None if size < 0 else raw[at:at + size]
        at = end


def _varint(raw, at):
    """(signed value, position behind it)."""
    byte = raw[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + 1
        shift += 7


def split_batches(raw):
    """The whole batches of a records field; a cut tail is left out."""
    at = 0
    while at + HEADER_BYTES <= len(raw):
        end = at + 12 + struct.unpack_from(">i", raw, at + 8)[0]
        if end > len(raw):
            return
        yield Batch(raw[at:end])
        at = end


def produce_frame(correlation, topic, partitions, acks=-1, timeout_ms=30000, client_id=b"bench"):
    """A framed Produce request: `partitions` is [(index, batch bytes)]."""
    name = topic.encode()
    head = struct.pack(">hhih", 0, PRODUCE_VERSION, correlation, len(client_id)) + client_id
    head += struct.pack(">hhiih", -1, acks, timeout_ms, 1, len(name)) + name + struct.pack(">i", len(partitions))
    body = b"".join([part for index, batch in partitions for part in (struct.pack(">ii", index, len(batch)), batch)])
    return struct.pack(">i", len(head) + len(body)) + head + body


def produce_answer(payload):
    """(correlation id, {partition: (error code, base offset, message)}) of a Produce response with one topic."""
    correlation, topics, name_bytes = struct.unpack_from(">iih", payload)
    assert topics == 1, f"Produce response carries {topics} topics, one was sent"
    at = 10 + name_bytes
    (count,) = struct.unpack_from(">i", payload, at)
    at += 4
    answers = {}
    for _ in range(count):
        index, code, base = struct.unpack_from(">ihq", payload, at)
        at += 30  # index, error, base offset, append time, log start
        (errors,) = struct.unpack_from(">i", payload, at)
        at += 4
        for _ in range(max(errors, 0)):
            at += 4
            _, at = _string(payload, at)
        message, at = _string(payload, at)
        answers[index] = (code, base, message)
    return correlation, answers


def _string(payload, at):
    (size,) = struct.unpack_from(">h", payload, at)
    if size < 0:
        return None, at + 2
    return payload[at + 2:at + 2 + size].decode(), at + 2 + size


def fetch_body(topic, partition, offset, max_bytes=4 << 20, wait_ms=0, min_bytes=1, leader_epoch=-1):
    """A sessionless Fetch request body of one partition."""
    name = topic.encode()
    return (struct.pack(">iiiibii", -1, wait_ms, min_bytes, max_bytes, 0, 0, -1)
            + struct.pack(">ih", 1, len(name)) + name
            + struct.pack(">iiiqqi", 1, partition, leader_epoch, offset, -1, max_bytes)
            + struct.pack(">ih", 0, 0))


class Fetched:
    """A Fetch answer of one partition."""

    __slots__ = ("error", "high_watermark", "last_stable", "log_start", "records")

    def __init__(self, body):
        _, error, _, topics = struct.unpack_from(">ihii", body)
        assert error == 0, f"Fetch: error {error} for the whole request"
        assert topics == 1, f"Fetch response carries {topics} topics, one was asked"
        (name_bytes,) = struct.unpack_from(">h", body, 14)
        at = 16 + name_bytes
        count, _, self.error, self.high_watermark, self.last_stable, self.log_start, aborted = struct.unpack_from(
            ">iihqqqi", body, at)
        assert count == 1, f"Fetch response carries {count} partitions, one was asked"
        at += 38 + 16 * max(aborted, 0) + 4
        (size,) = struct.unpack_from(">i", body, at)
        self.records = body[at + 4:at + 4 + size] if size > 0 else b""


def fetch(connection, topic, partition, offset, **how):
    """One Fetch on a `rawkafka.Connection`."""
    return Fetched(connection.exchange(1, FETCH_VERSION, fetch_body(topic, partition, offset, **how)))
