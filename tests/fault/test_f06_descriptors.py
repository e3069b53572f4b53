"""F06: few file descriptors slow nothing down in silence and damage nothing.

`ulimit -n 512`: many partitions with small segments, then many idle
connections, then restart after restart; a control client works throughout.
"""

import socket
import threading
import time

from bench import (Ledger, budget, create_topic, data_files, load, log_end, one_batch, read_topic, topic_made, until,
                   Producer)

NOFILE = 512
CONTROL = "control"


class Control(threading.Thread):
    """Produces and reads one record at a time on a connection that was open from the start."""

    def __init__(self, broker, ledger):
        super().__init__(name="control", daemon=True)
        self.broker, self.ledger, self.stopping, self.fatal, self.count, self.slowest = (
            broker, ledger, threading.Event(), None, 0, 0.0)

    def run(self):
        try:
            with self.broker.connect(timeout=10) as connection:
                while not self.stopping.is_set():
                    began = time.monotonic()
                    base = one_batch(connection, self.ledger, CONTROL, 0, 1)
                    assert log_end(connection, CONTROL, 0) == base + 1
                    self.slowest = max(self.slowest, time.monotonic() - began)
                    self.count += 1
                    self.stopping.wait(0.02)
        except Exception as error:  # pylint: disable=broad-except
            self.fatal = f"control client: {type(error).__name__}: {error}"

    def finish(self):
        self.stopping.set()
        self.join(20)
        assert self.fatal is None, self.fatal
        assert self.count > 0, "the control client did nothing"


def _start(make_broker):
    broker, ledger = make_broker(nofile=f"{NOFILE}:{NOFILE}"), Ledger()
    with broker.connect() as connection:
        topic_made(connection, CONTROL)
    return broker, ledger


def test_six_hundred_partitions_with_rolling_segments_under_512_descriptors(make_broker):
    """Either a partition is served, or its creation was refused with an error; nothing in between."""
    broker, control_ledger = _start(make_broker)
    ledger, control = Ledger(), Control(broker, control_ledger)
    made, refused = [], 0
    with load(control):
        with broker.connect(timeout=30) as connection:
            for number in range(30):
                if create_topic(connection, f"t{number}", 20, {"segment.bytes": "16384"}) == 0:
                    made.append(f"t{number}")
                else:
                    refused += 1
            assert made, "no topic at all could be created"
            present = [t["name"] for t in connection.call(3, 4, topics=None, allow_auto_topic_creation=False)["topics"]]
            assert sorted(present) == sorted([*made, CONTROL]), "a refused topic is half there, or a made one is not"
            for _ in range(3):  # three rounds of 9 kB: every partition rolls
                for topic in made:
                    for partition in range(20):
                        one_batch(connection, ledger, topic, partition, 9, value_bytes=1000)
        assert broker.fds() <= NOFILE
        control.finish()
    assert control.slowest < 5, f"the control client once waited {control.slowest:.1f} s"
    assert len(data_files(broker.data_dir, made[0], ".log")) > 20, "no partition rolled: the test proves nothing"
    for kill in (True, False):
        broker.kill9() if kill else broker.stop()
        broker.start()
        for topic in made[:budget(3, 30)]:
            places = {i: place for i, place in ledger.acked.items()}
            read = read_topic(broker.address, topic, 20)
            found = {i: (p, offset) for p, records in read.items() for offset, i in records}
            assert all(places[i] == place for i, place in found.items()), f"{topic}: records moved"
            assert len(found) == 20 * 27, f"{topic}: {len(found)} of {20 * 27} records after the restart"
        assert "corrupt" not in broker.log_text().lower(), "something was marked corrupt for want of a descriptor"
    control_ledger.verify(read_topic(broker.address, CONTROL, 1))


def test_idle_connections_never_starve_the_files(make_broker):
    """600 connections against a limit of 512: they are shed, storage and old clients go on, and all heals."""
    broker, ledger = _start(make_broker)
    with broker.connect(timeout=30) as connection:
        topic_made(connection, "many", 100, {"segment.bytes": "16384"})
    many, control = Ledger(), Control(broker, ledger)
    producer = Producer(many, broker.address, "many", 100, "steady", idempotent=True, rate=100, value_bytes=1000)
    idle = []
    with load(control, producer):
        time.sleep(0.5)
        before = producer.reconnects
        for _ in range(600):
            peer = socket.socket()
            peer.settimeout(5)
            try:
                peer.connect(("127.0.0.1", broker.port))
            except OSError:
                pass
            idle.append(peer)
        time.sleep(1)
        assert broker.fds() <= NOFILE
        cpu, began = broker.cpu_seconds(), time.monotonic()
        acked = len(producer.acks_at)
        time.sleep(3)
        busy = (broker.cpu_seconds() - cpu) / (time.monotonic() - began)
        assert busy < 0.9, f"the accept loop spins: {busy:.2f} cores busy under a load of 150 small requests a second"
        assert len(producer.acks_at) > acked + 30, "produce to rolling segments stopped under connection pressure"
        assert producer.reconnects == before, "a working connection was dropped for idle ones"
        for peer in idle:
            peer.close()

        def connects():
            try:
                with broker.connect(timeout=2) as connection:
                    return log_end(connection, CONTROL, 0) > 0
            except Exception:
                return False
        until("new connections are taken again", connects, timeout=20)
        control.finish()
        producer.finish()
    many.verify(read_topic(broker.address, "many", 100))


def test_restarts_do_not_leak_descriptors(make_broker):
    broker, ledger = _start(make_broker)
    with broker.connect() as connection:
        topic_made(connection, "held", 100, {"segment.bytes": "16384"})
        for partition in range(100):
            for _ in range(3):
                one_batch(connection, ledger, "held", partition, 9, value_bytes=1000)
    counts = []
    for number in range(5):
        broker.kill9() if number % 2 else broker.stop()
        broker.start()
        ledger.verify({p: r for p, r in read_topic(broker.address, "held", 100).items()})
        with broker.connect() as connection:
            for partition in range(0, 100, 9):
                one_batch(connection, ledger, "held", partition, 1)
        time.sleep(0.3)
        counts.append(broker.fds())
    assert max(counts) <= min(counts) + 40, f"descriptors after each restart: {counts}"


def test_a_low_limit_is_told_at_start(make_broker):
    """The soft limit is raised to the hard one; a hard limit this low is worth a warning."""
    broker = make_broker(nofile=f"{NOFILE}:{NOFILE}")
    assert "512" in broker.words(), f"the limit of open files is not told:\n{broker.words()}"
    other = make_broker(broker.data_dir + "-2", nofile="300:4096")
    with open(f"/proc/{other.pid()}/limits") as limits:
        row = next(line for line in limits if line.startswith("Max open files")).split()
    assert row[3] == "4096", f"the soft limit was left at {row[3]}"
