"""F24: strangers on the port cost what they send, and nothing more.

Absurd lengths, HTTP, TLS, endless arrays; memory is watched, and a control
client works throughout. SASL, PROXY headers and MQTT have no tests here.
"""

import socket
import struct
import time

import pytest

from bench import Ledger, create_topic, log_end, topic_made
from rawkafka import request_header
from test_f06_descriptors import CONTROL, Control

CONNECTIONS = 500
MEBIBYTE = 1 << 20
TLS_HELLO = bytes.fromhex("16030100c4010000c00303") + b"\x5a" * 190
HTTP = b"GET /metrics HTTP/1.1\r\nHost: broker\r\n\r\n"

# name -> (first bytes, must the broker close at once?)
OPENINGS = {
    "length 0": (struct.pack(">i", 0), True),
    "length -1": (struct.pack(">i", -1), True),
    "length 1": (struct.pack(">i", 1) + b"\0", True),
    "length 2^31-1": (struct.pack(">i", 2 ** 31 - 1), True),
    "length 100 MiB + 1": (struct.pack(">i", 100 * MEBIBYTE + 1), True),
    "length 100 MiB, then nothing": (struct.pack(">i", 100 * MEBIBYTE), False),
    "HTTP": (HTTP, True),
    "TLS hello": (TLS_HELLO, True),
    "half a length": (b"\0\0", False),
    "nothing": (b"", False),
}


def _start(make_broker):
    broker, ledger = make_broker(), Ledger()
    with broker.connect() as connection:
        topic_made(connection, CONTROL)
    control = Control(broker, ledger)
    control.start()
    time.sleep(0.2)
    return broker, control


def _open_all(broker, opening, count=CONNECTIONS):
    peers = []
    for _ in range(count):
        peer = socket.create_connection(("127.0.0.1", broker.port), timeout=10)
        try:
            peer.sendall(opening)
        except OSError:
            pass
        peers.append(peer)
    return peers


def _closed(peer, within):
    """Whether the broker closes this connection within some seconds."""
    peer.settimeout(within)
    try:
        while True:
            if not peer.recv(65536):
                return True
    except TimeoutError:
        return False
    except OSError:
        return True


@pytest.mark.parametrize("name", OPENINGS)
def test_five_hundred_strangers_cost_no_memory_and_disturb_nobody(name, make_broker):
    opening, closes = OPENINGS[name]
    broker, control = _start(make_broker)
    rss = broker.rss_bytes()
    peers = _open_all(broker, opening)
    time.sleep(1)
    grown = broker.rss_bytes() - rss
    assert grown < CONNECTIONS * 32 * 1024 + 8 * MEBIBYTE, f"{CONNECTIONS} connections cost {grown >> 10} KiB"
    if closes:
        end = time.monotonic() + 10
        left = sum(not _closed(peer, max(0.01, end - time.monotonic())) for peer in peers)
        assert left == 0, f"{left} of {CONNECTIONS} connections are still open"
    for peer in peers:
        peer.close()
    control.finish()
    assert control.slowest < 2, f"the control client once waited {control.slowest:.2f} s"
    assert "panicked" not in broker.log_text()
    lines = len(broker.log_text().splitlines())
    assert lines < 100, f"{CONNECTIONS} strangers wrote {lines} log lines"


@pytest.mark.parametrize("opening, guess", [(HTTP, "http"), (TLS_HELLO, "tls")])
def test_the_log_guesses_what_the_stranger_speaks(opening, guess, make_broker):
    broker = make_broker()
    (peer,) = _open_all(broker, opening, 1)
    assert _closed(peer, 5)
    time.sleep(0.2)
    assert guess in broker.log_text().lower(), f"no line guesses {guess}:\n{broker.log_text()}"


def test_a_slow_stranger_is_served_at_its_pace(make_broker):
    """One byte at a time is no crime: the request is answered when it is whole, others are not held up."""
    broker, control = _start(make_broker)
    body = request_header(18, 0, 7)
    frame = struct.pack(">i", len(body)) + body
    peers = _open_all(broker, b"", 100)
    for byte in frame:
        for peer in peers:
            peer.sendall(bytes([byte]))
    for peer in peers:
        peer.settimeout(10)
        assert struct.unpack(">i", peer.recv(8)[4:8])[0] == 7
        peer.close()
    control.finish()


# name -> (key, version, body)
COUNT_MAX = struct.pack(">i", 2 ** 31 - 1)
UVARINT_MAX = b"\xff\xff\xff\xff\x07"
BODIES = {
    "Metadata: 2^31-1 topics": (3, 4, COUNT_MAX),
    "Metadata, compact: 2^31-2 topics": (3, 12, UVARINT_MAX),
    "Metadata, compact: varint of 11 bytes": (3, 12, b"\xff" * 10 + b"\x01"),
    "Produce: 2^31-1 topics": (0, 7, struct.pack(">hhi", -1, -1, 1000) + COUNT_MAX),
    "Produce, compact: records of 2^31-2": (0, 9, b"\0" + struct.pack(">hi", -1, 1000) + b"\x02\x02t\x02\0\0\0\0" + UVARINT_MAX),
    "Fetch: 2^31-1 topics": (1, 11, struct.pack(">iiiibii", -1, 0, 1, 1 << 20, 0, 0, -1) + COUNT_MAX),
    "Fetch, compact: 2^31-2 topics": (1, 12, struct.pack(">iiiibii", -1, 0, 1, 1 << 20, 0, 0, -1) + UVARINT_MAX),
    "ListOffsets: 2^31-1 topics": (2, 1, struct.pack(">i", -1) + COUNT_MAX),
    "CreateTopics: 2^31-1 topics": (19, 2, COUNT_MAX),
    "CreateTopics: string past the end": (19, 2, struct.pack(">ih", 1, 32767) + b"x"),
    "DescribeConfigs: 2^31-1 resources": (32, 1, COUNT_MAX),
    "ApiVersions: name past the end": (18, 3, b"\x7fabc"),
    "ApiVersions: 2^31-2 tagged fields": (18, 3, b"\x02a\x02b" + UVARINT_MAX),
    "ApiVersions: tagged field of 2^31-2 bytes": (18, 3, b"\x02a\x02b" + b"\x01\x05" + UVARINT_MAX),
    "Metadata: negative count where null is not allowed": (3, 0, struct.pack(">i", -5)),
    "InitProducerId: string of length -2": (22, 0, struct.pack(">h", -2)),
}


def test_declared_counts_reserve_nothing_and_close_only_the_liar(make_broker):
    broker, control = _start(make_broker)
    rss, faults = broker.rss_bytes(), []
    for name, (key, version, body) in BODIES.items():
        for _ in range(20):
            payload = request_header(key, version, 1) + body
            (peer,) = _open_all(broker, struct.pack(">i", len(payload)) + payload, 1)
            if not _closed(peer, 5):
                faults.append(name)
            peer.close()
            if name in faults:
                break
        assert broker.running(), f"{name}: the broker ended\n{broker.words()}"
    grown = broker.rss_bytes() - rss
    assert not faults, f"still open 5 s after: {faults}"
    assert grown < 16 * MEBIBYTE, f"lies about counts cost {grown >> 10} KiB"
    control.finish()
    with broker.connect() as connection:
        assert create_topic(connection, "still-fine", 1) == 0
        assert log_end(connection, CONTROL, 0) > 0


def test_idle_connections_are_closed_after_their_deadline(make_broker):
    broker = make_broker(settings={"connections.max.idle.ms": "1500"})
    peers = _open_all(broker, b"", 50) + _open_all(broker, b"\0\0", 50)
    began = time.monotonic()
    assert all(_closed(peer, 8) for peer in peers), "idle connections stay open past connections.max.idle.ms"
    assert time.monotonic() - began > 1, "closed long before the deadline"


def test_a_reader_that_never_reads_is_bounded_and_closed(make_broker):
    """Back-pressure: a client that asks and never reads costs its own connection, not the broker's memory."""
    broker = make_broker(settings={"connections.max.write.stall.ms": "2000"})
    with broker.connect() as connection:
        for number in range(200):
            topic_made(connection, f"topic-with-a-rather-long-name-{number}", 5)
    rss, fds = broker.rss_bytes(), broker.fds()
    ask = request_header(3, 4, 1) + struct.pack(">i", -1) + b"\0"
    frame = struct.pack(">i", len(ask)) + ask
    peers = []
    for _ in range(50):
        peer = socket.create_connection(("127.0.0.1", broker.port), timeout=5)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.setblocking(False)
        try:
            for _ in range(300):
                peer.send(frame)
        except (BlockingIOError, ConnectionError):
            pass
        peers.append(peer)
    time.sleep(1.5)
    grown = broker.rss_bytes() - rss
    assert grown < 96 * MEBIBYTE, f"50 clients that do not read cost {grown >> 20} MiB"
    time.sleep(4)
    with broker.connect() as connection:
        topic_made(connection, "others-are-served")
    assert broker.fds() < fds + 20, f"{broker.fds()} descriptors, {fds} before: stalled connections were not closed"
    for peer in peers:
        peer.close()
