"""F27: codecs of every framing are stored as they came; bombs and lies are bounded.

With `batch.validation=header` (the default) the payload is opaque: a broken
one under a valid CRC is stored as any other. With `deep` it is refused. Both
are tested. Batches made by other languages' clients are in `tests/clients`.
"""

import gzip
import struct
import time

import cramjam
import lz4.frame
import pytest
import zstandard

from bench import Closed, log_end, read_batches, topic_made
from rawkafka import batch, produce, record

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
CORRUPT_MESSAGE, INVALID_RECORD, UNSUPPORTED_COMPRESSION = 2, 87, 76
REFUSED = (CORRUPT_MESSAGE, INVALID_RECORD)
RECORDS = 20
PLAIN = b"".join(record(n, value=b"value %d " % n * 40) for n in range(RECORDS))


def _xerial(raw, block=512):
    """Snappy in the Java framing, with many blocks."""
    out = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    for at in range(0, len(raw), block):
        piece = bytes(cramjam.snappy.compress_raw(raw[at:at + block]))
        out += struct.pack(">i", len(piece)) + piece
    return out


def _zstd(raw, **how):
    return zstandard.ZstdCompressor(**how).compress(raw)


def _zstd_frames(raw):
    half = len(raw) // 2
    return _zstd(raw[:half]) + _zstd(raw[half:])


def _zstd_unsized(raw):
    return _zstd(raw, write_content_size=False)


def _zstd_long(raw):
    window = zstandard.ZstdCompressionParameters(window_log=23, enable_ldm=True)
    return zstandard.ZstdCompressor(compression_params=window).compress(raw)


def _lz4(raw, **how):
    return lz4.frame.compress(raw, **how)


PACKED = {
    "gzip": (GZIP, gzip.compress(PLAIN)),
    "gzip level 1": (GZIP, gzip.compress(PLAIN, 1)),
    "gzip of two members": (GZIP, gzip.compress(PLAIN[:500]) + gzip.compress(PLAIN[500:])),
    "snappy raw": (SNAPPY, bytes(cramjam.snappy.compress_raw(PLAIN))),
    "snappy xerial, many blocks": (SNAPPY, _xerial(PLAIN)),
    "lz4 linked blocks": (LZ4, _lz4(PLAIN, block_linked=True)),
    "lz4 independent blocks": (LZ4, _lz4(PLAIN, block_linked=False)),
    "lz4 content checksum": (LZ4, _lz4(PLAIN, content_checksum=True, block_checksum=True)),
    "lz4 no content size": (LZ4, _lz4(PLAIN, store_size=False)),
    "zstd": (ZSTD, _zstd(PLAIN)),
    "zstd level 19": (ZSTD, _zstd(PLAIN, level=19)),
    "zstd two frames": (ZSTD, _zstd_frames(PLAIN)),
    "zstd no content size": (ZSTD, _zstd_unsized(PLAIN)),
    "zstd long window": (ZSTD, _zstd_long(PLAIN)),
}


def _packed(codec, payload, count=RECORDS, **over):
    return batch([b""] * count, attributes=codec, payload=payload, **over)


def _topic(make_broker, validation="header"):
    broker = make_broker()
    connection = broker.connect(timeout=30)
    topic_made(connection, "t", 2, {"batch.validation": validation} if validation != "header" else {})
    return broker, connection


@pytest.mark.parametrize("validation", ["header", "deep"])
def test_every_framing_is_stored_and_served_byte_for_byte(validation, make_broker):
    _, connection = _topic(make_broker, validation)
    sent = []
    for name, (codec, payload) in PACKED.items():
        raw = _packed(codec, payload)
        answer = produce(connection, "t", 0, raw)
        assert answer["error_code"] == 0, f"{name} under {validation}: {answer}"
        sent.append(raw)
    got = [b.raw for b in read_batches(connection, "t", 0)]
    assert [raw[21:] for raw in got] == [raw[21:] for raw in sent]


def _broken():
    """Payloads that no reader can open, under a valid CRC."""
    for name, (codec, payload) in PACKED.items():
        if name in ("gzip", "snappy raw", "lz4 content checksum", "zstd"):
            yield f"{name}, cut in half", codec, payload[:len(payload) // 2]
            yield f"{name}, empty", codec, b""
            yield f"{name}, rubbish", codec, b"\xee" * len(payload)
            yield f"{name}, other codec's bytes", codec % 4 + 1, payload


@pytest.mark.parametrize("validation", ["header", "deep"])
def test_broken_payload_under_a_valid_crc_is_opaque_by_default_and_refused_when_deep(validation, make_broker):
    broker, connection = _topic(make_broker, validation)
    faults, stored = [], 0
    for name, codec, payload in _broken():
        code = produce(connection, "t", 0, _packed(codec, payload))["error_code"]
        stored += code == 0
        if validation == "deep" and code not in REFUSED:
            faults.append(f"{name}: error {code}")
        if validation == "header" and code:
            faults.append(f"{name}: error {code}, the payload should be opaque")
    assert not faults, "\n".join(faults)
    assert log_end(connection, "t", 0) == stored * RECORDS, "a refused batch took offsets"
    assert broker.running()


def test_cut_payload_at_every_byte_is_refused_when_deep(make_broker):
    """Nothing panics, hangs or is stored, wherever the compressed bytes end."""
    broker, connection = _topic(make_broker, "deep")
    for name, (codec, payload) in PACKED.items():
        step = max(1, len(payload) // 25)
        for end in range(1, len(payload) - 12, step):
            code = produce(connection, "t", 0, _packed(codec, payload[:end]))["error_code"]
            members = name in ("gzip of two members", "zstd two frames")
            assert code in REFUSED, f"{name} cut at {end} of {len(payload)}{' (whole members are too short)' if members else ''}: {code}"
    assert log_end(connection, "t", 0) == 0
    assert broker.running() and "panicked" not in broker.log_text()


@pytest.mark.parametrize("over, why", [
    ({"count": RECORDS + 1}, "more records declared than the offsets span"),
    ({"count": RECORDS - 1}, "fewer records declared than the offsets span"),
    ({"count": 0}, "no record"),
    ({"count": -1}, "negative count"),
    ({"last_offset_delta": 0}, "offsets span one record"),
    ({"last_offset_delta": 2 ** 31 - 1}, "offsets span 2^31 records"),
])
def test_count_in_the_header_must_match_the_offsets_it_spans(over, why, make_broker):
    _, connection = _topic(make_broker)
    code = produce(connection, "t", 0, batch([b"v"] * RECORDS, **over))["error_code"]
    assert code in REFUSED, f"{why}: error {code}"
    assert log_end(connection, "t", 0) == 0


@pytest.mark.parametrize("name", ["gzip", "snappy raw", "lz4 no content size", "zstd"])
def test_record_count_that_the_payload_does_not_hold_is_refused_when_deep(name, make_broker):
    _, connection = _topic(make_broker, "deep")
    codec, payload = PACKED[name]
    for count in (RECORDS - 1, RECORDS + 1, 1_000_000):
        code = produce(connection, "t", 0, batch(
            [b""] * RECORDS, attributes=codec, payload=payload, count=count, last_offset_delta=count - 1))["error_code"]
        assert code in REFUSED, f"{count} declared, {RECORDS} packed: error {code}"
    assert log_end(connection, "t", 0) == 0


def _bombs():
    """About a megabyte that expands to gigabytes."""
    chunk = b"\0" * (1 << 20)
    packer = zstandard.ZstdCompressor(level=19).compressobj()
    yield "zstd", ZSTD, b"".join(packer.compress(chunk) for _ in range(4096)) + packer.flush()
    member = gzip.compress(chunk * 64)
    yield "gzip", GZIP, member * 15


def test_bombs_are_refused_in_bounded_memory_and_time_and_neighbours_do_not_feel_them(make_broker):
    """With deep validation; under `header` nobody opens the payload at all."""
    broker, connection = _topic(make_broker, "deep")
    rss = broker.rss_bytes()
    with broker.connect(timeout=30) as neighbour:
        produce(neighbour, "t", 1, batch([b"before"]))
        for name, codec, payload in _bombs():
            began = time.monotonic()
            frame = _packed(codec, payload, count=1)
            assert len(frame) < 1_048_588, f"{name}: the bomb of {len(frame)} bytes would be refused for its size"
            connection.request(0, 7, _produce_body("t", 0, frame))
            slowest = 0.0
            for _ in range(20):
                at = time.monotonic()
                assert produce(neighbour, "t", 1, batch([b"neighbour"]))["error_code"] == 0
                slowest = max(slowest, time.monotonic() - at)
            raw = connection.response(0, 7)
            code = struct.unpack_from(">h", raw, 4 + 2 + 1 + 4 + 4)[0]
            took = time.monotonic() - began
            assert code in (*REFUSED, 10), f"{name} bomb: error {code}"
            assert took < 20, f"{name} bomb took {took:.1f} s"
            assert slowest < 2, f"{name} bomb: a neighbour waited {slowest:.2f} s"
            grown = broker.rss_bytes() - rss
            assert grown < 128 << 20, f"{name} bomb: memory grew by {grown >> 20} MiB"
    assert log_end(connection, "t", 0) == 0


def _produce_body(topic, partition, records):
    name = topic.encode()
    return (struct.pack(">hhiih", -1, -1, 30_000, 1, len(name)) + name
            + struct.pack(">iii", 1, partition, len(records)) + records)


@pytest.mark.parametrize("version", range(3, 7))
def test_zstd_below_produce_7_is_an_unsupported_compression_type(version, make_broker):
    _, connection = _topic(make_broker)
    code = produce(connection, "t", 0, _packed(ZSTD, PACKED["zstd"][1]), version=version)["error_code"]
    assert code == UNSUPPORTED_COMPRESSION, f"Produce v{version}: error {code}"
    assert log_end(connection, "t", 0) == 0
    assert produce(connection, "t", 0, _packed(LZ4, PACKED["lz4 linked blocks"][1]), version=version)["error_code"] == 0


@pytest.mark.parametrize("version", range(4, 12))
def test_fetch_of_a_zstd_topic_answers_in_every_version(version, make_broker):
    """Below v10: error 76 or the bytes; never a hang."""
    _, connection = _topic(make_broker)
    raw = _packed(ZSTD, PACKED["zstd"][1])
    assert produce(connection, "t", 0, raw)["error_code"] == 0
    answer = connection.call(1, version, max_wait_ms=500, topics=[{"name": "t", "partitions": [
        {"index": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]}])
    part = answer["topics"][0]["partitions"][0]
    if version < 10 and part["error_code"]:
        assert part["error_code"] == UNSUPPORTED_COMPRESSION
    else:
        assert part["error_code"] == 0 and part["records"][21:] == raw[21:]


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codec_is_refused(codec, make_broker):
    broker, connection = _topic(make_broker)
    try:
        code = produce(connection, "t", 0, _packed(codec, b"whatever"))["error_code"]
        assert code not in (0, 3), f"codec {codec}: error {code}"
    except Closed:
        pass
    with broker.connect() as fresh:
        assert log_end(fresh, "t", 0) == 0
