"""F31: three thousand clients come at once, come back after a restart, and nobody is lost.

Plaintext part: storms from several loopback addresses, half-open ones, a
churn of connect and close, limits in all and per address. TLS, SCRAM, groups
and MQTT have no tests here.
"""

import resource
import selectors
import socket
import struct
import threading
import time

import pytest

from bench import Ledger, Producer, budget, load, read_topic, topic_made, until
from rawkafka import request_header

STORM = 3000
SOURCES = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
TOPIC, PARTITIONS = "control", 4
ASK = struct.pack(">i", len(request_header(18, 0, 1))) + request_header(18, 0, 1)


@pytest.fixture(autouse=True)
def many_files():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 8192:
        if hard != resource.RLIM_INFINITY and hard < 8192:
            pytest.skip(f"left out: only {hard} open files are allowed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (8192, hard))
    yield


class Storm:
    """Many sockets, driven by one selector: connect, ask ApiVersions, count the answers."""

    def __init__(self, port, count, speak=True, sources=SOURCES):
        self.selector, self.peers = selectors.DefaultSelector(), []
        self.answered, self.refused, self.speak = set(), set(), speak
        for number in range(count):
            peer = socket.socket()
            peer.setblocking(False)
            peer.bind((sources[number % len(sources)], 0))
            peer.connect_ex(("127.0.0.1", port))
            self.selector.register(peer, selectors.EVENT_WRITE)
            self.peers.append(peer)
            if number % 200 == 199:
                self.turn(0)

    def turn(self, seconds):
        """Handles what is ready, for at most some seconds."""
        end = time.monotonic() + seconds
        while True:
            for key, events in self.selector.select(max(0, min(0.05, end - time.monotonic()))):
                self._ready(key.fileobj, events)
            if time.monotonic() >= end:
                return

    def _ready(self, peer, events):
        try:
            if events & selectors.EVENT_WRITE:
                if self.speak:
                    peer.send(ASK)
                self.selector.modify(peer, selectors.EVENT_READ)
            elif peer.recv(65536):
                self.answered.add(peer)
            else:
                raise ConnectionError("closed")
        except OSError:
            self.refused.add(peer)
            self.selector.unregister(peer)

    def until_answered(self, count, seconds):
        end = time.monotonic() + seconds
        while len(self.answered) < count and time.monotonic() < end:
            self.turn(0.1)
        return len(self.answered)

    def close(self):
        for peer in self.peers:
            peer.close()
        self.selector.close()


def _control(make_broker, settings=None):
    """(broker, ledger, running producers of the control group)."""
    broker, ledger = make_broker(settings=settings), Ledger()
    with broker.connect() as connection:
        topic_made(connection, TOPIC, PARTITIONS)
    group = [Producer(ledger, broker.address, TOPIC, PARTITIONS, f"c{n}", idempotent=True, records=2, rate=20) for n in range(10)]
    return broker, ledger, group


def _judge(group, since):
    took = sorted(answered - sent for p in group for sent, answered in p.acks_at if sent >= since)
    assert len(took) > 100, f"the control group got only {len(took)} ok's in the storm"
    p99 = took[len(took) * 99 // 100]
    print(f"control group: {len(took)} ok's, p99 {p99 * 1000:.0f} ms")
    assert p99 < 2, f"the control group's p99 was {p99:.2f} s"
    for producer in group:
        producer.check()


def test_three_thousand_clients_in_two_seconds_are_all_served_and_nobody_else_suffers(make_broker):
    broker, ledger, group = _control(make_broker)
    with load(*group):
        time.sleep(1)
        fds, rss, began = broker.fds(), broker.rss_bytes(), time.monotonic()
        reconnects = sum(p.reconnects for p in group)
        speaking, silent = Storm(broker.port, STORM * 2 // 3), Storm(broker.port, STORM // 3, speak=False)
        served = speaking.until_answered(STORM * 2 // 3, 60)
        took = time.monotonic() - began
        grown = broker.rss_bytes() - rss
        reconnects = sum(p.reconnects for p in group) - reconnects
        time.sleep(1)
        _judge(group, began)
        speaking.close()
        silent.close()
        assert served == STORM * 2 // 3, f"{served} of {STORM * 2 // 3} clients were answered within 60 s"
        assert reconnects == 0, "the control group lost connections"
        print(f"{served} served after {took:.1f} s, {grown >> 10} KiB more")
        assert grown < STORM * 48 * 1024, f"{STORM} connections cost {grown >> 10} KiB"
        until("descriptors of closed connections are given back", lambda: broker.fds() <= fds + 20, timeout=20)
        for producer in group:
            producer.finish()
    ledger.verify(read_topic(broker.address, TOPIC, PARTITIONS))


def test_churn_and_a_restart_in_the_middle_of_it(make_broker):
    broker, ledger, group = _control(make_broker)
    stop = threading.Event()

    def churn(source):
        while not stop.is_set():
            peer = socket.socket()
            try:
                peer.settimeout(1)
                peer.bind((source, 0))
                peer.connect(("127.0.0.1", broker.port))
                peer.sendall(ASK[:7])
            except OSError:
                stop.wait(0.01)
            finally:
                peer.close()

    threads = [threading.Thread(target=churn, args=(source,), daemon=True) for source in SOURCES]
    with load(*group):
        for thread in threads:
            thread.start()
        time.sleep(budget(3, 15))
        fds = broker.fds()
        broker.stop()
        broker.start()
        storm = Storm(broker.port, STORM // 3)
        assert storm.until_answered(STORM // 3, 60) == STORM // 3, "not all clients came back after the restart"
        back = time.monotonic()
        time.sleep(budget(3, 15))
        _judge(group, back)
        storm.close()
        stop.set()
        for thread in threads:
            thread.join(5)
        until("descriptors are given back", lambda: broker.fds() <= fds + 20, timeout=20)
        for producer in group:
            producer.finish()
    assert len(broker.log_text().splitlines()) < 500, "the churn filled the log"
    ledger.verify(read_topic(broker.address, TOPIC, PARTITIONS))


def _held(storm, seconds=3):
    """How many of a storm's connections are answered and still open."""
    storm.turn(seconds)
    return len(storm.answered - storm.refused)


def test_limits_hold_over_all_cores_together_and_per_address(make_broker):
    broker = make_broker(settings={"max.connections": "200", "max.connections.per.ip": "80"})
    one = Storm(broker.port, 150, sources=("127.0.0.5",))
    assert _held(one) == 80, f"{_held(one, 0)} connections of one address are served, 80 are allowed"
    others = Storm(broker.port, 300, sources=("127.0.0.6", "127.0.0.7", "127.0.0.8"))
    assert _held(others) == 120, f"{_held(others, 0)} more are served, 200 are allowed in all"
    assert len(one.answered - one.refused) == 80, "older connections were closed for newer ones"
    one.close()

    def taken_again():
        again = Storm(broker.port, 60, sources=("127.0.0.5",))
        held = _held(again, 1)
        again.close()
        return held == 60
    until("closed connections make room", taken_again, timeout=20)
    others.close()
    lines = [line for line in broker.log_text().splitlines() if "max.connections" in line]
    assert lines, f"no log line says that a limit was met:\n{broker.log_text()}"
    assert len(lines) < 60, f"each refused connection wrote a line: {len(lines)}"
