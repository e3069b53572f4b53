"""Steady load: producers and consumers as threads that outlive any fault.

A producer never gives up while its test runs: it reconnects, and what had no
answer stays *unknown* in the ledger. An idempotent one sends the same batches
again with the same sequence numbers until each is answered, as real clients
do. Errors go three ways: retriable ones leave the ids unknown, others refuse
them, and what must never happen (a lost sequence, a changed offset) ends the
producer with `fatal` set, which `check` raises.
"""

import collections
import random
import struct
import threading
import time

import hotpath
from ledger import id_of, payload
from rawkafka import Closed, Connection, Silent, offsets

# UNKNOWN_TOPIC_OR_PARTITION (at start), LEADER_NOT_AVAILABLE, NOT_LEADER, REQUEST_TIMED_OUT, NETWORK_EXCEPTION,
# COORDINATOR_LOAD_IN_PROGRESS, NOT_ENOUGH_REPLICAS (and after append), KAFKA_STORAGE_ERROR, THROTTLING
RETRIABLE = {3, 5, 6, 7, 13, 14, 19, 20, 56, 89}
OUT_OF_ORDER_SEQUENCE = 45
WINDOW_IDEMPOTENT_MAX = 5
TROUBLE = (OSError, Closed, Silent)


class _Flight:
    """One Produce request on its way."""

    __slots__ = ("ids", "partition", "batch", "correlation", "sent_at")

    def __init__(self, ids, partition, batch):
        self.ids, self.partition, self.batch = ids, partition, batch
        self.correlation, self.sent_at = 0, 0.0


def _in_order(flights):
    """Flights in the order of their ids, which is that of their sequences."""
    return collections.deque(sorted(flights, key=lambda flight: flight.ids[0]))


class Producer(threading.Thread):
    """Pipelines one-batch requests to random partitions of one topic."""

    def __init__(self, ledger, address, topic, partitions, name="p", idempotent=False, records=10, value_bytes=64,
                 window=4, acks=-1, rate=None, seed=0, timeout=15.0):
        super().__init__(name=f"producer-{name}", daemon=True)
        assert not idempotent or window <= WINDOW_IDEMPOTENT_MAX, f"window {window}: idempotence bears {WINDOW_IDEMPOTENT_MAX}"
        self.ledger, self.address, self.topic = ledger, address, topic
        self.partitions = list(partitions) if not isinstance(partitions, int) else list(range(partitions))
        self.lane, self.idempotent, self.records, self.value_bytes = name, idempotent, records, value_bytes
        self.window, self.acks, self.rate, self.timeout = window, acks, rate, timeout
        self.random = random.Random(f"{seed}-{name}")
        self.producer_id, self.producer_epoch = -1, -1
        self.sequences = dict.fromkeys(self.partitions, 0)
        self.flights = collections.deque()  # sent, not answered, in sending order
        self.waiting = collections.deque()  # idempotent: must be sent again first
        self.errors = collections.Counter()
        self.acks_at = []  # (sent at, answered at) of every acknowledged request
        self.failed_at = []  # (sent at, answered at, code) of every refused one
        self.silences = 0  # requests without an answer within the time limit
        self.reconnects = 0
        self.fatal = None
        self.stopping = threading.Event()
        self.give_up = threading.Event()

    # For the test

    def finish(self, timeout=30):
        """Stops sending, lets what is open be answered, and raises what must not have happened."""
        self.stopping.set()
        self.join(timeout)
        if self.is_alive():
            self.abandon()
        self.check()

    def abandon(self):
        """Ends at once; what is open stays unknown."""
        self.stopping.set()
        self.give_up.set()
        self.join(self.timeout + 5)
        self.check()

    def check(self):
        if self.fatal:
            raise AssertionError(f"{self.name}: {self.fatal}")

    # The thread

    def run(self):
        try:
            while not self.give_up.is_set() and (not self.stopping.is_set() or self.open()):
                try:
                    self._session()
                except TROUBLE as error:
                    self.silences += isinstance(error, Silent)
                    self._connection_lost()
                    if self.stopping.is_set() and not self.idempotent:
                        return
                    self.give_up.wait(0.02)
        except Exception as error:  # pylint: disable=broad-except
            self.fatal = self.fatal or f"{type(error).__name__}: {error}"

    def open(self):
        return len(self.flights) + len(self.waiting)

    def _connection_lost(self):
        self.reconnects += 1
        if self.idempotent:
            # What was refused may be older than what was still on its way.
            self.waiting = _in_order(self.flights + self.waiting)
        self.flights = collections.deque()

    def _session(self):
        with Connection(self.address, timeout=self.timeout, client_id="load") as connection:
            if self.idempotent and self.producer_id < 0:
                answer = connection.call(22, 1)
                if answer["error_code"]:
                    raise Closed(f"InitProducerId: error {answer['error_code']}")
                self.producer_id, self.producer_epoch = answer["producer_id"], answer["producer_epoch"]
            due = time.monotonic()
            while not self.give_up.is_set():
                if self.stopping.is_set() and not self.open():
                    return
                sent = self._send_next(connection, due)
                if sent and self.rate:
                    due = max(due + 1 / self.rate, time.monotonic() - 0.05)
                if self.flights and (len(self.flights) >= self.window or not sent):
                    self._answer(connection)
                elif not sent:
                    self.give_up.wait(max(0.0005, min(due - time.monotonic(), 0.05)))

    def _send_next(self, connection, due):
        """Sends one request if the window, the pace and the retries allow it."""
        if len(self.flights) >= self.window:
            return False
        if self.waiting:
            if self.flights and not self.flights[0].sent_at >= self.rewound_at:
                return False  # answers to what was sent before the rewind come first
            flight = self.waiting.popleft()
        elif self.stopping.is_set() or (self.rate and time.monotonic() < due):
            return False
        else:
            flight = self._next_flight()
        connection.correlation += 1
        flight.correlation, flight.sent_at = connection.correlation, time.monotonic()
        self.flights.append(flight)
        connection.send(hotpath.produce_frame(flight.correlation, self.topic, [(flight.partition, flight.batch)],
                                              acks=self.acks))
        return True

    rewound_at = 0.0

    def _next_flight(self):
        partition = self.random.choice(self.partitions)
        ids = self.ledger.ids(self.records, partition, self.lane)
        values = [payload(i, self.value_bytes) for i in ids]
        if not self.idempotent:
            return _Flight(ids, partition, hotpath.build_batch(values))
        sequence = self.sequences[partition]
        self.sequences[partition] = (sequence + len(ids)) & 0x7FFFFFFF
        return _Flight(ids, partition, hotpath.build_batch(
            values, producer_id=self.producer_id, producer_epoch=self.producer_epoch, sequence=sequence))

    def _answer(self, connection):
        correlation, answers = hotpath.produce_answer(connection.receive())
        flight = self.flights.popleft()
        if correlation != flight.correlation:
            self._die(f"answer {correlation} came where {flight.correlation} was due")
        code, base, message = answers[flight.partition]
        now = time.monotonic()
        if code == 0:
            self.ledger.ack(flight.ids, flight.partition, base)
            self.acks_at.append((flight.sent_at, now))
            return
        self.errors[code] += 1
        self.failed_at.append((flight.sent_at, now, code))
        if self.idempotent:
            self._retry(flight, code, message)
        elif code not in RETRIABLE:
            self.ledger.refuse(flight.ids, flight.partition)

    def _retry(self, flight, code, message):
        """A failed batch and everything behind it goes out again, in order."""
        behind = any(w.partition == flight.partition for w in self.waiting)
        if code not in RETRIABLE and not (code == OUT_OF_ORDER_SEQUENCE and behind):
            self._die(f"partition {flight.partition}, ids {flight.ids}: error {code} ({message}) for the oldest open batch")
        self.waiting.append(flight)
        self.waiting = _in_order(self.waiting)
        self.rewound_at = time.monotonic()
        self.give_up.wait(0.01)

    def _die(self, reason):
        self.fatal = reason
        raise RuntimeError(reason)


class Watcher(threading.Thread):
    """Tails some partitions and tells the ledger each record it saw; goes on after every fault."""

    def __init__(self, ledger, address, topic, partitions, name="w"):
        super().__init__(name=f"watcher-{name}", daemon=True)
        self.ledger, self.address, self.topic = ledger, address, topic
        self.next = dict.fromkeys(partitions if not isinstance(partitions, int) else range(partitions), 0)
        self.stopping = threading.Event()
        self.errors = collections.Counter()
        self.fatal = None

    def run(self):
        try:
            while not self.stopping.is_set():
                try:
                    with Connection(self.address, timeout=10, client_id="watch") as connection:
                        self._tail(connection)
                except TROUBLE:
                    self.stopping.wait(0.02)
        except Exception as error:  # pylint: disable=broad-except
            self.fatal = f"{type(error).__name__}: {error}"

    def _tail(self, connection):
        while not self.stopping.is_set():
            for partition, offset in self.next.items():
                wait = 50 if len(self.next) == 1 else 5
                got = hotpath.fetch(connection, self.topic, partition, offset, wait_ms=wait, max_bytes=1 << 20)
                if got.error:
                    self._refused(connection, partition, offset, got)
                    continue
                for batch in hotpath.split_batches(got.records):
                    for delta, value in enumerate(batch.values()):
                        if batch.base_offset + delta >= offset:
                            self.ledger.see(partition, batch.base_offset + delta, id_of(value))
                    self.next[partition] = max(self.next[partition], batch.last_offset + 1)

    def _refused(self, connection, partition, offset, got):
        self.errors[got.error] += 1
        if got.error == 1:
            raise AssertionError(f"partition {partition}: consumer at {offset} is out of range, log end is "
                                 f"{offsets(connection, self.topic, partition)}: records that it saw are gone")
        self.stopping.wait(0.02)

    def finish(self):
        self.stopping.set()
        self.join(20)
        if self.fatal:
            raise AssertionError(f"{self.name}: {self.fatal}")


class ClientProducer(threading.Thread):
    """The same promise through librdkafka (confluent-kafka), idempotent, with its own retries."""

    def __init__(self, ledger, address, topic, partitions, name="rdkafka", rate=500, value_bytes=64):
        super().__init__(name=f"producer-{name}", daemon=True)
        from confluent_kafka import Producer as Librdkafka
        self.ledger, self.topic, self.lane, self.rate, self.value_bytes = ledger, topic, name, rate, value_bytes
        self.partitions = list(range(partitions)) if isinstance(partitions, int) else list(partitions)
        self.client = Librdkafka({
            "bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 2, "message.timeout.ms": 120000,
            "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "retry.backoff.ms": 20, "log_level": 0,
            "socket.timeout.ms": 15000, "error_cb": lambda error: None})
        self.stopping, self.fatal = threading.Event(), None
        self.errors = collections.Counter()

    def run(self):
        try:
            count = 0
            while not self.stopping.is_set():
                partition = self.partitions[count % len(self.partitions)]
                (i,) = self.ledger.ids(1, partition, self.lane)
                try:
                    self.client.produce(self.topic, payload(i, self.value_bytes), partition=partition,
                                        on_delivery=lambda error, message, i=i: self._delivered(i, error, message))
                except BufferError:
                    self.client.poll(0.05)
                self.client.poll(0)
                count += 1
                self.stopping.wait(1 / self.rate)
        except Exception as error:  # pylint: disable=broad-except
            self.fatal = f"{type(error).__name__}: {error}"

    def _delivered(self, i, error, message):
        if error is None:
            self.ledger.ack([i], message.partition(), message.offset())
        else:
            self.errors[error.name()] += 1
            if error.fatal():
                self.fatal = f"fatal error: {error}"

    def finish(self, timeout=60):
        self.stopping.set()
        self.join(10)
        left = self.client.flush(timeout)
        if self.fatal:
            raise AssertionError(f"{self.name}: {self.fatal}")
        assert left == 0, f"{self.name}: {left} messages had no answer within {timeout} s"

    def abandon(self):
        self.stopping.set()
        self.join(10)
        self.client.purge()


def one_batch(connection, ledger, topic, partition, count, value_bytes=64, timestamps=None, acks=-1):
    """Produces `count` records in one batch and waits for the ok; returns the base offset."""
    ids = ledger.ids(count, partition)
    stamp = None if timestamps is None else timestamps
    batch = hotpath.build_batch([payload(i, value_bytes) for i in ids], timestamp_ms=stamp)
    code, base, message = produce_batch(connection, topic, partition, batch, acks)
    assert code == 0, f"produce to {topic}-{partition}: error {code} ({message})"
    ledger.ack(ids, partition, base)
    return base


def produce_batch(connection, topic, partition, batch, acks=-1, timeout_ms=30000):
    """(error code, base offset, message) for one ready batch."""
    connection.correlation += 1
    connection.send(hotpath.produce_frame(connection.correlation, topic, [(partition, batch)], acks, timeout_ms))
    correlation, answers = hotpath.produce_answer(connection.receive())
    assert correlation == connection.correlation, f"answer {correlation}, expected {connection.correlation}"
    return answers[partition]


def produce_many(connection, ledger, topic, partition, count, records=10, value_bytes=64, window=16):
    """`count` acknowledged records in pipelined batches of `records`, over one connection."""
    flights = collections.deque()
    left = count
    while left or flights:
        if left and len(flights) < window:
            ids = ledger.ids(min(records, left), partition)
            left -= len(ids)
            connection.correlation += 1
            connection.send(hotpath.produce_frame(connection.correlation, topic, [
                (partition, hotpath.build_batch([payload(i, value_bytes) for i in ids]))]))
            flights.append((connection.correlation, ids))
            continue
        correlation, answers = hotpath.produce_answer(connection.receive())
        due, ids = flights.popleft()
        assert correlation == due, f"answer {correlation} came where {due} was due"
        code, base, message = answers[partition]
        assert code == 0, f"produce to {topic}-{partition}: error {code} ({message})"
        ledger.ack(ids, partition, base)


def idle_frame(length):
    """A length prefix that announces `length` bytes."""
    return struct.pack(">i", length)
