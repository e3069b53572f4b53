"""Processes that send, poll and transact over any fault, and write down what became of it (see anomalies.py).

Modes: `plain` producers send once and take no answer for an unknown outcome;
`idempotent` ones repeat a batch until it is answered; `transactional` ones do
several sends and polls in one transaction, which they commit, abort, or leave
behind by a crash; `compacted` ones do so in a topic that is compacted all the
time, with a key of its own for each record: markers, aborted records and
tombstones go, and nothing else may. Readers of transactional topics read
committed records.
"""

import random
import threading
import time

from anomalies import FAILED, OK, UNKNOWN, Poll, Send
from rawkafka import Closed, Connection, Raw, Silent, batch, batches, record
from rawtxn import (CONCURRENT, CONTROL, LOADING, NOT_AVAILABLE, NOT_COORDINATOR, READ_COMMITTED, READ_UNCOMMITTED, Refused, Transactional,
                    committed_records, end_offset, fetched, values_of)

TROUBLE = (OSError, Closed, Silent)
PLAIN, IDEMPOTENT, TRANSACTIONAL, COMPACTED = "plain", "idempotent", "transactional", "compacted"
MODES = (PLAIN, IDEMPOTENT, TRANSACTIONAL, COMPACTED)
AGAIN = {3, 6, 7, 19, CONCURRENT, LOADING, NOT_AVAILABLE, NOT_COORDINATOR, 56}  # not there yet, not now
ANSWER_SECONDS, PATIENCE_SECONDS = 8.0, 40.0
TIMEOUT_MS = 6000


class Worker(threading.Thread):
    """One process after the other: a crash gives it another name, and new positions."""

    def __init__(self, history, address, topic, keys, mode, name, seed, v2=True):
        super().__init__(name=f"{mode}-{name}", daemon=True)
        self.history, self.address, self.topic, self.keys, self.mode, self.v2 = history, address, topic, keys, mode, v2
        self.random = random.Random(f"{seed}-{mode}-{name}")
        self.stopping, self.fatal, self.lives = threading.Event(), None, 0
        self.transacts = mode in (TRANSACTIONAL, COMPACTED)
        self.isolation = READ_COMMITTED if self.transacts else READ_UNCOMMITTED
        self.connection = self.producer = None
        self.positions, self.pid, self.sequences = {}, -1, {}

    @property
    def process(self):
        return f"{self.name}-{self.lives}"

    def run(self):
        try:
            self.born()
            while not self.stopping.is_set():
                self.step()
                self.stopping.wait(self.random.uniform(0, 0.01))
        except Exception as error:  # pylint: disable=broad-except
            import traceback
            self.fatal = f"{error!r}\n{traceback.format_exc()[-1500:]}"

    def born(self):
        """A new process: nothing is known, all is read from the start."""
        self.lives += 1
        self.positions = dict.fromkeys(self.keys, 0)
        self.hang_up()
        if self.transacts:
            self.initialise()
        elif self.mode == IDEMPOTENT:
            self.pid = self.patiently(self.fresh_id)
            self.sequences = dict.fromkeys(self.keys, 0)

    @staticmethod
    def fresh_id(connection):
        answer = connection.call(22, 4)
        return answer["producer_id"] if answer["error_code"] == 0 else None

    def initialise(self):
        """The transactional producer's own connection is this worker's."""
        def ask(connection):
            self.producer.connection = connection
            self.producer.initialise()
            return True
        if self.producer is None:
            self.producer = Transactional.__new__(Transactional)
            self.producer.__dict__.update(bootstrap=self.address, id=self.name, timeout_ms=TIMEOUT_MS, v2=self.v2, producer_id=-1, epoch=-1,
                                          sequences={}, connection=None)
        self.patiently(ask)

    # Connections

    def hang_up(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def connected(self):
        if self.connection is None:
            self.connection = Connection(self.address, timeout=ANSWER_SECONDS, client_id=self.name)
        return self.connection

    def patiently(self, call):
        """What `call(connection)` gives, once it is not None; over any trouble."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                found = call(self.connected())
                if found is not None:
                    return found
            except TROUBLE:
                self.hang_up()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.process} got no answer for {PATIENCE_SECONDS} s")
            time.sleep(0.02)

    # What it does

    def step(self):
        if self.transacts:
            self.transaction()
        elif self.random.random() < 0.5:
            self.poll_alone()
        else:
            self.send_alone()
        if not self.transacts and self.random.random() < 0.01:
            self.born()

    def poll(self, connection):
        """One Fetch of one key, from where this process is."""
        key = self.random.choice(self.keys)
        row = fetched(connection, self.topic, key, self.positions[key], self.isolation, wait_ms=20,
                      max_bytes=self.random.choice((1, 300, 1 << 20)))
        found = list(batches(row["records"] or b""))
        if self.isolation == READ_COMMITTED:
            records = committed_records(row)
        else:
            records = [pair for one in found if not one["attributes"] & CONTROL for pair in values_of(one)]
        at = self.positions[key]
        if found:
            self.positions[key] = max(at, found[-1]["last_offset"] + 1)
        return Poll(key, [(offset, int(value)) for offset, value in records if offset >= at])

    def polled(self):
        """A poll, or None where there was trouble."""
        try:
            return self.poll(self.connected())
        except TROUBLE:
            self.hang_up()
        except Refused as refused:
            if refused.code not in AGAIN:
                raise
        return None

    def poll_alone(self):
        if poll := self.polled():
            self.history.add(self.process, [poll], OK)

    def send_alone(self):
        key, values = self.random.choice(self.keys), [self.history.value() for _ in range(self.random.randrange(1, 4))]
        how = {}
        if self.mode == IDEMPOTENT:
            how = {"producer_id": self.pid, "producer_epoch": 0, "base_sequence": self.sequences[key]}
        raw = batch([b"%d" % value for value in values], **how)

        def send(connection):
            answer = connection.call(0, 8, topics=[{"name": self.topic, "partitions": [{"index": key, "records": raw}]}])
            row = answer["topics"][0]["partitions"][0]
            return None if self.mode == IDEMPOTENT and row["error_code"] in AGAIN else row
        try:
            row = self.patiently(send) if self.mode == IDEMPOTENT else send(self.connected())
        except TROUBLE:
            self.hang_up()
            self.history.add(self.process, [Send(key, value, None) for value in values], UNKNOWN)
            return
        if row["error_code"] == 0:
            if self.mode == IDEMPOTENT:
                self.sequences[key] += len(values)
            self.history.add(self.process, [Send(key, value, row["base_offset"] + i) for i, value in enumerate(values)], OK)
        elif row["error_code"] in AGAIN:
            self.history.add(self.process, [Send(key, value, None) for value in values], UNKNOWN)
        else:
            raise AssertionError(f"{self.process}: Produce to {key}: error {row['error_code']}")

    def transaction(self):
        """Some sends and polls; then commit, abort, or crash. Only an EndTxn of ours can commit it."""
        parts, end = [], self.random.choices(("commit", "abort", "crash"), (80, 15, 5))[0]
        try:
            for _ in range(self.random.randrange(1, 5)):
                if self.random.random() < 0.4:
                    if poll := self.polled():
                        parts.append(poll)
                else:
                    self.send_within(parts)
            if end == "crash":
                self.history.add(self.process, parts, FAILED)
                self.born()
                return
            if not any(isinstance(part, Send) for part in parts):
                self.history.add(self.process, parts, OK)
                return
        except Refused as refused:
            # Fenced by the end of its time, or told to abort: it did not commit, so it never will be.
            self.history.add(self.process, parts, FAILED)
            self.ended_by_error(refused)
            return
        try:
            code = self.patiently(lambda c: self.end(c, end == "commit"))
        except TimeoutError:
            self.history.add(self.process, parts, UNKNOWN)
            raise
        if end == "abort":
            self.history.add(self.process, parts, FAILED)
        else:
            self.history.add(self.process, parts, OK if code == 0 else UNKNOWN)
        if code:
            self.ended_by_error(Refused("EndTxn", code))

    def send_within(self, parts):
        key, values = self.random.choice(self.keys), [self.history.value() for _ in range(self.random.randrange(1, 3))]
        at = len(parts)
        parts += [Send(key, value, None) for value in values]

        def send(connection):
            self.producer.connection = connection
            try:
                return self.producer.sent(self.topic, key, self.records(values))
            except Refused as refused:
                if refused.code in AGAIN:
                    return None
                raise
        base = self.patiently(send)
        parts[at:] = [Send(key, value, base + i) for i, value in enumerate(values)]

    def records(self, values):
        texts = [b"%d" % value for value in values]
        if self.mode == COMPACTED:
            return [Raw(record(i, key=text, value=text)) for i, text in enumerate(texts)]
        return texts

    def end(self, connection, commit):
        """The error code of EndTxn once there is one that stays."""
        self.producer.connection = connection
        code = self.producer.end(commit)
        return None if code in AGAIN else code

    def ended_by_error(self, refused):
        """Errors after which a client begins anew: invalid epoch, state, fenced, abortable, gap, unknown id."""
        assert refused.code in (45, 47, 48, 49, 59, 90, 120), f"{self.process}: {refused}"
        self.initialise()

    # The end

    def finish(self):
        self.stopping.set()
        self.join(PATIENCE_SECONDS + 10)
        assert not self.is_alive(), f"{self.name} hangs"
        assert self.fatal is None, f"{self.name}: {self.fatal}"

    def last_polls(self):
        """Reads all there is; call it when every worker has finished and no transaction is open."""
        with Connection(self.address, timeout=ANSWER_SECONDS) as connection:
            ends = {key: end_offset(connection, self.topic, key, self.isolation) for key in self.keys}
            deadline = time.monotonic() + PATIENCE_SECONDS
            while any(self.positions[key] < end for key, end in ends.items()):
                assert time.monotonic() < deadline, f"{self.process} is at {self.positions}, the ends are {ends}"
                self.history.add(self.process, [self.poll(connection)], OK)


def closed(workers):
    """Ends what is open, and waits until the last stable offset is the end everywhere: no transaction is stuck."""
    for worker in workers:
        if worker.transacts:
            worker.initialise()
    first = workers[0]
    with Connection(first.address, timeout=ANSWER_SECONDS) as connection:
        deadline = time.monotonic() + TIMEOUT_MS / 1000 + 10
        for worker in workers:
            for key in worker.keys:
                while (stable := end_offset(connection, worker.topic, key, READ_COMMITTED)) < (end := end_offset(connection, worker.topic, key)):
                    assert time.monotonic() < deadline, f"{worker.topic}-{key}: last stable offset {stable}, end {end}: a transaction is stuck"
                    time.sleep(0.05)
