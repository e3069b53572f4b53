"""Floods: many, slow, silent and deaf clients, each bounded in count and time."""

import socket
import struct
import time

from messages import encode_request
from rawkafka import Closed, Connection, Silent, batch, request_header

IDLE_CONNECTIONS = 400
PIPELINED = 200


def idle_connections(bench):
    """Connections that say nothing do not keep others out."""
    held = [Connection(bench.bootstrap) for _ in range(IDLE_CONNECTIONS)]
    try:
        bench.control_works()
        with bench.connect() as fresh:
            fresh.versions()
    finally:
        for connection in held:
            connection.close()


def slow_sender(bench):
    """A request that comes byte by byte is answered all the same."""
    payload = request_header(18, 0, 1)
    with bench.connect() as connection:
        for byte in struct.pack(">i", len(payload)) + payload:
            connection.send(bytes([byte]))
            time.sleep(0.02)
        connection.correlation = 1
        connection.response(18, 0)


def answers_in_order(bench):
    """Pipelined requests of several kinds are answered in their order."""
    kinds = [(18, 0, b""), (3, 4, encode_request(3, 4, {"topics": []})[0]),
             (0, 7, encode_request(0, 7, {"topics": [{"name": bench.topic, "partitions": [
                 {"index": 0, "records": batch([b"p"])}]}]})[0])]
    with bench.connect(20) as connection:
        for i in range(PIPELINED):
            key, version, body = kinds[i % len(kinds)]
            connection.request(key, version, body)
        for i in range(PIPELINED):
            got = struct.unpack(">i", connection.receive()[:4])[0]
            assert got == i + 1, f"answer {i + 1} carries correlation id {got}"


def deaf_reader(bench):
    """A client that asks for much and never reads fills its own pipe only."""
    big = batch([b"x" * 900_000])
    bench.control.call(0, 7, topics=[{"name": bench.topic, "partitions": [{"index": 0, "records": big}]}])
    end = bench.control.call(2, 1, topics=[{"name": bench.topic, "partitions": [{"index": 0, "timestamp": -1}]}])
    offset = end["topics"][0]["partitions"][0]["offset"] - 1
    body, _ = encode_request(1, 11, {"max_wait_ms": 0, "topics": [{"name": bench.topic, "partitions": [
        {"index": 0, "fetch_offset": offset}]}]})
    with bench.connect(2) as connection:
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        try:
            for _ in range(300):
                connection.request(1, 11, body)
        except (Closed, TimeoutError):
            pass  # the broker stopped reading, or hung up: both are right
        for _ in range(5):
            bench.control_works()
            time.sleep(0.2)


def half_closed(bench):
    """A client that shuts its writing side is answered or closed, not kept."""
    with bench.connect() as connection:
        connection.request(18, 0, b"")
        connection.sock.shutdown(socket.SHUT_WR)
        try:
            connection.response(18, 0)
            connection.receive()
        except Closed:
            return
        raise AssertionError("the connection stays open")


def resets(bench):
    """Clients that vanish in the middle of a request."""
    body, _ = encode_request(0, 7, {"topics": [{"name": bench.topic, "partitions": [
        {"index": 0, "records": batch([b"x" * 50_000])}]}]})
    for cut in range(0, len(body), 997):
        connection = bench.connect()
        head = request_header(0, 7, 1)
        connection.send(struct.pack(">i", len(head) + len(body)) + head + body[:cut])
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()


def many_topics(bench):
    """Metadata for 100,000 names that do not exist."""
    body, _ = encode_request(3, 4, {"topics": [{"name": f"no-such-topic-{i}"} for i in range(100_000)],
                                    "allow_auto_topic_creation": False})
    with bench.connect(30) as connection:
        try:
            connection.exchange(3, 4, body)
        except Closed:
            pass  # a typed bound or a closed connection are both right


def big_frames_at_once(bench):
    """Forty frames that promise 90 MiB each and send little of it."""
    held = []
    for _ in range(40):
        connection = bench.connect()
        connection.send(struct.pack(">i", 90 << 20) + request_header(0, 7, 1) + b"\0" * 4096)
        held.append(connection)
    try:
        bench.control_works()
    finally:
        for connection in held:
            connection.close()


def long_polls_do_not_block(bench):
    """A hundred fetches that wait for ever, and a control client beside them."""
    body, _ = encode_request(1, 11, {"max_wait_ms": 0x7FFFFFFF, "min_bytes": 0x7FFFFFFF, "topics": [
        {"name": bench.topic, "partitions": [{"index": 0, "fetch_offset": 0}]}]})
    held = []
    for _ in range(100):
        connection = bench.connect()
        connection.request(1, 11, body)
        held.append(connection)
    try:
        bench.control_works()
    finally:
        for connection in held:
            connection.close()


FLOODS = [idle_connections, slow_sender, answers_in_order, deaf_reader, half_closed, resets, many_topics,
          big_frames_at_once, long_polls_do_not_block]


# Apache Kafka takes memory by the declared size: with a small heap this ends it.
KILLS_THE_REFERENCE = (big_frames_at_once,)


def judge(bench, reference, only):
    """Yields (name, reason or None)."""
    for flood in FLOODS:
        name = "flood: " + flood.__doc__.split("\n")[0].rstrip(".")
        if only not in name or reference and flood in KILLS_THE_REFERENCE:
            continue
        try:
            flood(bench)
            yield name, None
        except (AssertionError, Closed, Silent, OSError, ValueError) as error:
            yield name, repr(error)
