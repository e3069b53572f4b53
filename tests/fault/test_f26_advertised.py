"""F26: what is advertised decides what old clients do; old formats are refused, never stored.

librdkafka (new through confluent-kafka, old through kcat where installed)
really compresses; Produce v0-v2 and magic 0 and 1 are refused loudly. Whole
tours of the clients are in `tests/clients`.
"""

import shutil
import struct
import subprocess
import zlib

import pytest

from bench import Closed, log_end, read_batches, topic_made
from rawkafka import batch, codecs, produce, request_header

CODEC_NAMES = ["gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_new_librdkafka_really_compresses(codec, make_broker):
    from confluent_kafka import Producer
    broker = make_broker()
    with broker.connect() as connection:
        topic_made(connection, "packed")
    client = Producer({"bootstrap.servers": broker.address, "compression.type": codec, "linger.ms": 200, "log_level": 0})
    for _ in range(200):
        client.produce("packed", b"the same words again and again " * 10, partition=0)
    assert client.flush(20) == 0
    found = codecs(broker.address, "packed")
    assert set(found) == {codec}, f"stored batches by codec: {found}"


@pytest.mark.skipif(shutil.which("kcat") is None, reason="left out: kcat is not installed")
@pytest.mark.parametrize("codec", CODEC_NAMES)
def test_old_librdkafka_of_kcat_really_compresses_and_reads_back(codec, make_broker):
    broker = make_broker()
    with broker.connect() as connection:
        topic_made(connection, "packed")
    lines = "\n".join("the same words again and again " * 5 + str(n) for n in range(200)) + "\n"
    subprocess.run(["kcat", "-P", "-b", broker.address, "-t", "packed", "-p", "0", "-z", codec, "-X", "linger.ms=200"],
                   input=lines, text=True, check=True, timeout=60)
    found = codecs(broker.address, "packed")
    assert set(found) == {codec}, f"stored batches by codec: {found}"
    read = subprocess.run(["kcat", "-C", "-b", broker.address, "-t", "packed", "-p", "0", "-o", "beginning", "-e", "-q"],
                          capture_output=True, text=True, check=True, timeout=60)
    assert read.stdout == lines


def _message_set(magic, attributes=0):
    """One message in the old format."""
    value = b"an old message"
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", 1_700_000_000_000) if magic else b"")
    body += struct.pack(">ii", -1, len(value)) + value
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


def _produce_body(version, records):
    """Produce v0-v7 for topic "old", partition 0."""
    body = struct.pack(">h", -1) if version >= 3 else b""
    return body + struct.pack(">hiih", -1, 10_000, 1, 3) + b"old" + struct.pack(">iii", 1, 0, len(records)) + records


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("version", range(9))
def test_old_message_sets_are_refused_and_never_stored(version, magic, make_broker):
    broker = make_broker()
    with broker.connect() as connection:
        topic_made(connection, "old")
    with broker.connect(timeout=5) as stranger:
        try:
            raw = stranger.exchange(0, version, _produce_body(version, _message_set(magic)))
            code = struct.unpack_from(">h", raw, 4 + 2 + 3 + 4 + 4)[0]
            assert code in (2, 43, 87), f"Produce v{version} with magic {magic}: error {code}"
        except Closed:
            pass
    with broker.connect() as connection:
        assert log_end(connection, "old", 0) == 0, f"magic {magic} was stored by Produce v{version}"


@pytest.mark.parametrize("version", range(3))
def test_produce_below_3_is_advertised_and_closed(version, make_broker):
    broker = make_broker()
    with broker.connect() as connection:
        topic_made(connection, "old")
        assert connection.versions()[0][0] == 0
    with broker.connect(timeout=5) as stranger, pytest.raises(Closed):
        stranger.exchange(0, version, _produce_body(version, batch([b"new format, old request"])))
    with broker.connect() as connection:
        assert log_end(connection, "old", 0) == 0


@pytest.mark.parametrize("version", range(4))
def test_fetch_below_4_is_closed(version, make_broker):
    broker = make_broker()
    with broker.connect() as connection:
        topic_made(connection, "old")
        assert connection.versions()[1][0] == 4, "Fetch must start at 4 exactly: old librdkafka and rskafka test for it"
    body = struct.pack(">iii", -1, 100, 1) + (struct.pack(">i", 1 << 20) if version == 3 else b"")
    body += struct.pack(">ih", 1, 3) + b"old" + struct.pack(">iiqi", 1, 0, 0, 1 << 20)
    with broker.connect(timeout=5) as stranger, pytest.raises(Closed):
        stranger.send_frame(request_header(1, version, 1) + body)
        stranger.receive()


def test_stored_bytes_are_the_producers_in_every_produce_version(make_broker):
    broker = make_broker()
    with broker.connect() as connection:
        topic_made(connection, "same")
        high = connection.versions()[0][1]
        sent = []
        for version in range(3, min(high, 12) + 1):
            sent.append(batch([b"version %d" % version] * 3))
            assert produce(connection, "same", 0, sent[-1], version=version)["error_code"] == 0
        got = [b.raw[21:] for b in read_batches(connection, "same", 0)]
        assert got == [raw[21:] for raw in sent], "bytes behind the CRC field changed on the way"
