"""Transactions of real clients: `transactions.py BINARY [--reference] [--long] [--clients A,B] [--only TEXT] [--seed N]`.

Starts brokers of its own and kills them. Every client writes transactions that
commit and abort, every reader of committed records sees the committed ones
alone, before and after a kill -9 of the broker; each client that can carries
records from topic to topic, exactly once, while it and the broker are killed
again and again, and while it stands still for longer than its transaction may
last; Apache Kafka's kafka-transactions finds and aborts what hangs. `--seed`
repeats the moments of the kills.
"""

import argparse
import collections
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import tools  # noqa: E402
from broker import Broker, Kafka  # noqa: E402
from rawgroups import wait_for_groups  # noqa: E402
from rawkafka import Closed, Connection, Silent, batch, create_topic_and_wait  # noqa: E402
from rawtxn import (READ_COMMITTED, READ_UNCOMMITTED, Transactional, end_offset, read, state_of, until_state,  # noqa: E402
                    wait_for_transactions)
from stages import TRANSACTIONS  # noqa: E402

PARTITIONS, COUNT = 3, 9
WRITE_SECONDS_MAX, READ_SECONDS_MAX, DRAIN_SECONDS_MAX, STOP_SECONDS_MAX = 120, 60, 120, 40
CLIENT_KILL_SECONDS, BROKER_KILL_SECONDS = 3, 4
FREEZE_SECONDS, CLOSED_SECONDS_MAX = 12, 5  # their transactions may last ten


class Wrong(Exception):
    """A promise was not kept, for this reason."""


class Client:
    """A program with the verbs of python/txn_common.py.

    `pipes`, `writes`: which of them it has. `unshaken`: it is exactly once over a kill of the broker, too. Others are not,
    with Apache Kafka 4.3.1 either: aiokafka and kafkajs do not ask for stable offsets (KIP-447), and may read one
    whose commit is on its way; franz-go was seen to repeat a transaction whose commit got no answer.
    `wants_order`: it takes the list of aborted transactions to be in the order of their first offsets, which
    Apache Kafka's is not.
    """

    def __init__(self, name, command, pipes=True, unshaken=False, wants_order=False, writes=True):
        self.name, self._command, self.pipes, self.writes = name, command, pipes, writes
        self.unshaken, self.wants_order = unshaken, wants_order

    def command(self, verb, *args):
        return self._command() + [verb, *map(str, args)]


def _python(name):
    return lambda: [tools.python(), os.path.join(HERE, "python", name)]


CLIENTS = [
    Client("java", lambda: tools.java_command("Transact", heap="128m"), unshaken=True),
    Client("java-in-a-consumer-group", lambda: tools.java_command("-Dgroup.protocol=consumer", "Transact", heap="128m"), unshaken=True,
           writes=False),
    Client("confluent-kafka", _python("txn_confluent.py"), unshaken=True),
    Client("aiokafka", _python("txn_aio.py")),
    Client("kafka-python", _python("txn_kafkapython.py"), pipes=False),
    Client("kafkajs", lambda: ["node", os.path.join(tools.node(18), "txn_kafkajs.mjs")], wants_order=True),
    Client("franz-go", lambda: [os.path.join(tools.go(), "franztxn")]),
]


class House:
    """The broker under test, which is killed and started as often as a check wants."""

    def __init__(self, args, name, settings):
        kind = Kafka if args.reference else Broker
        self.broker = kind(args.binary, os.path.join(tools.HOME, "data", f"transactions-{name}"),
                           os.path.join(tools.HOME, "logs", f"transactions.{name}.broker.log"), settings)
        self.broker.forget()
        self.reference, self.count = args.reference, 0
        self.broker.start()
        with self.connect() as admin:
            wait_for_transactions(admin)
            wait_for_groups(admin, self.topic())

    @property
    def bootstrap(self):
        return self.broker.bootstrap

    def connect(self):
        return Connection(self.bootstrap, timeout=30)

    def topic(self, name="topic"):
        self.count += 1
        name = f"transactions-{name}-{self.count}"
        with self.connect() as admin:
            create_topic_and_wait(admin, name, PARTITIONS)
        return name

    def killed(self):
        """kill -9, and a start."""
        self.broker.kill()
        self.broker.start()
        with self.connect() as admin:
            wait_for_transactions(admin)


def said(text):
    """[(what, value)] of JSON lines; one that a kill cut off is left out."""
    rows = []
    for line in text.splitlines():
        try:
            rows += json.loads(line).items()
        except ValueError:
            pass
    return rows


# --- committed is seen, aborted is not -----------------------------------------

def written(house, clients, topic):
    """All clients at once write their transactions; returns {partition: {client: committed values in order}} and the aborted values."""
    running = [(c, subprocess.Popen(c.command("transact", house.bootstrap, topic, c.name, COUNT), stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)) for c in clients]
    values, aborted = {p: {} for p in range(PARTITIONS)}, set()
    deadline = time.monotonic() + WRITE_SECONDS_MAX
    try:
        for client, process in running:
            try:
                out, err = process.communicate(timeout=max(deadline - time.monotonic(), 1))
            except subprocess.TimeoutExpired as late:
                raise Wrong(f"{client.name} did not write its transactions within {WRITE_SECONDS_MAX} s") from late
            if process.returncode:
                raise Wrong(f"{client.name} ended with {process.returncode}: {err.strip()[-600:]}")
            ends = said(out)
            want = [("aborted" if i % 3 == 2 else "committed", i) for i in range(COUNT)]
            if ends != want:
                raise Wrong(f"{client.name} told {ends}")
            for p in range(PARTITIONS):
                values[p][client.name] = [f"{client.name}:{i}:{p}" for what, i in want if what == "committed"]
                aborted |= {f"{client.name}:{i}:{p}" for what, i in want if what == "aborted"}
    finally:
        for _, process in running:
            process.kill()
            process.wait()
    return values, aborted


def judged(reader, records, values):
    """`records` ([partition, offset, value]) are the committed ones, each once and in the order of its writer."""
    at = [(p, o) for p, o, _ in records]
    if len(set(at)) != len(at):
        raise Wrong(f"{reader} saw an offset twice")
    for p, of_clients in values.items():
        seen = collections.defaultdict(list)
        for _, _, value in sorted(r for r in records if r[0] == p):
            seen[value.split(":")[0]].append(value)
        if seen != of_clients:
            name = next(c for c in {**of_clients, **seen} if seen.get(c) != of_clients.get(c))
            raise Wrong(f"{reader} saw of {name} in partition {p}: {seen.get(name)}, committed are {of_clients.get(name)}")


def seen_by(house, client, topic, count):
    command = client.command("committed", house.bootstrap, topic, count)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=READ_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired as late:
        raise Wrong(f"{client.name} did not end within {READ_SECONDS_MAX} s") from late
    if done.returncode:
        raise Wrong(f"{client.name} ended with {done.returncode}: {done.stderr.strip()[-600:]}")
    return [value for what, value in said(done.stdout) if what == "record"]


def raw_records(house, topic, isolation):
    with house.connect() as connection:
        return [[p, o, v.decode()] for p in range(PARTITIONS) for o, v in read(connection, topic, p, isolation)]


def all_readers(house, clients, topic, values, aborted, when):
    """One check a reader."""
    count = sum(len(one) for of in values.values() for one in of.values())
    with check(f"a raw reader sees what was committed, and all with read_uncommitted, {when}") as going:
        if going:
            judged("the raw reader", raw_records(house, topic, READ_COMMITTED), values)
            everything = {v for _, _, v in raw_records(house, topic, READ_UNCOMMITTED)}
            if lacking := aborted - everything:
                raise Wrong(f"aborted records are not in the log: {sorted(lacking)[:4]}")
    for client in clients:
        if house.reference and client.wants_order:
            continue
        with check(f"{client.name} with read_committed sees what was committed of each client and nothing else, {when}") as going:
            if going:
                judged(client.name, seen_by(house, client, topic, count), values)


def survives(house):
    """what was open at a kill -9 of the broker is open afterwards, can be committed, or is aborted when its time is over"""
    topic = house.topic()
    one, two, three = (Transactional(house.bootstrap, f"survivor-{i}", timeout_ms=ms) for i, ms in enumerate((60_000, 60_000, 4000)))
    for producer in (one, two, three):
        producer.initialise().sent(topic, 0, [b"%s" % producer.id.encode()])
    two.ended(False)
    with house.connect() as admin:
        until_state(admin, two.id, "CompleteAbort")
    house.killed()
    with house.connect() as admin:
        stable = end_offset(admin, topic, 0, READ_COMMITTED)
        if stable != 0 or state_of(admin, one.id) != "Ongoing":
            raise Wrong(f"last stable offset {stable} and state {state_of(admin, one.id)} after the kill")
        for producer in (one, three):
            producer.connection = house.connect()
        one.sent(topic, 0, [b"more"])
        one.ended(True)
        until_state(admin, one.id, "CompleteCommit")
        until_state(admin, three.id, "CompleteAbort")
        deadline = time.monotonic() + 10
        while end_offset(admin, topic, 0, READ_COMMITTED) != end_offset(admin, topic) and time.monotonic() < deadline:
            time.sleep(0.05)
        if (found := [v for _, v in read(admin, topic)]) != [b"survivor-0", b"more"]:
            raise Wrong(f"committed records {found}")
    house.killed()
    with house.connect() as admin:
        if (found := [v for _, v in read(admin, topic)]) != [b"survivor-0", b"more"]:
            raise Wrong(f"committed records after another kill {found}")
        two.connection = house.connect()
        two.initialise()
        if two.producer_id < 0 or two.epoch < 1:
            raise Wrong(f"the producer that had ended is {two.producer_id} with epoch {two.epoch}")


# --- exactly once ------------------------------------------------------------------

class Feed(threading.Thread):
    """Writes numbers to all partitions of a topic, each once whatever happens to the broker, until told to end."""

    def __init__(self, house, topic):
        super().__init__(daemon=True)
        self.house, self.topic, self.stopping, self.failed = house, topic, threading.Event(), None
        self.ends = dict.fromkeys(range(PARTITIONS), 0)
        self.connection = house.connect()
        self.producer_id = self.connection.call(22, 4)["producer_id"]

    def run(self):
        try:
            while not self.stopping.is_set():
                for partition in self.ends:
                    self._three(partition)
                self.stopping.wait(0.05)
        except Exception as error:  # pylint: disable=broad-except
            self.failed = error

    def _three(self, partition):
        first = self.ends[partition]
        raw = batch([b"%d-%d" % (partition, first + i) for i in range(3)], producer_id=self.producer_id, producer_epoch=0, base_sequence=first)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                answer = self.connection.call(0, 7, topics=[{"name": self.topic, "partitions": [{"index": partition, "records": raw}]}])
                row = answer["topics"][0]["partitions"][0]
                if row["error_code"] == 0:
                    self.ends[partition] += 3
                    return
                if row["error_code"] not in (3, 6):
                    raise Wrong(f"the feed got error {row['error_code']}")
            except (Closed, Silent, OSError):
                self.connection.close()
            time.sleep(0.05)
            try:
                self.connection = self.house.connect()
            except OSError:
                pass
        raise Wrong("the feed got no answer for 60 s")

    def finish(self):
        self.stopping.set()
        self.join(70)
        if self.failed:
            raise Wrong(f"the feed failed: {self.failed!r}")


class Pipe:
    """One client that carries a topic's records to another, is killed and started again."""

    def __init__(self, house, client):
        self.house, self.client = house, client
        self.source, self.target = house.topic(f"{client.name}-from"), house.topic(f"{client.name}-to")
        self.feed = Feed(house, self.source)
        self.process, self.starts, self.words = None, 0, tempfile.TemporaryFile()
        self.feed.start()
        self.start()

    def start(self):
        self.starts += 1
        command = self.client.command("pipe", self.house.bootstrap, self.source, self.target, f"{self.client.name}-group", f"{self.client.name}-pipe")
        self.process = subprocess.Popen(command, stdout=self.words, stderr=self.words)

    def kept_running(self):
        """Starts it again if trouble, or we, ended it."""
        if self.process.poll() is not None:
            self.start()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def open_ends(self, seconds):
        """{partition: (last stable offset, end)} where they differ, for at most so long."""
        deadline = time.monotonic() + seconds
        with self.house.connect() as admin:
            while True:
                ends = {p: (end_offset(admin, self.target, p, READ_COMMITTED), end_offset(admin, self.target, p)) for p in range(PARTITIONS)}
                ends = {p: found for p, found in ends.items() if found[0] != found[1]}
                if not ends or time.monotonic() > deadline:
                    return ends
                time.sleep(0.1)

    def last_words(self):
        self.words.seek(0)
        return " | ".join(line.strip() for line in self.words.read().decode(errors="replace").splitlines()
                          if not line.startswith('{"committed"'))[-700:]

    def drained(self):
        """Waits until everything is through, and judges it."""
        self.feed.finish()
        deadline = time.monotonic() + DRAIN_SECONDS_MAX
        with self.house.connect() as admin:
            while any(len(read(admin, self.target, p)) < end for p, end in self.feed.ends.items()):
                self.kept_running()
                if time.monotonic() > deadline:
                    got = {p: (len(read(admin, self.target, p)), end) for p, end in self.feed.ends.items()}
                    raise Wrong(f"through and sent after {DRAIN_SECONDS_MAX} s: {got}; started {self.starts} times; {self.last_words()}")
                time.sleep(0.2)
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.kill()
            for p, end in self.feed.ends.items():
                got, want = [v for _, v in read(admin, self.target, p)], [b"%d-%d" % (p, i) for i in range(end)]
                if got != want:
                    twice = [v for v, n in collections.Counter(got).items() if n > 1]
                    first = next((i for i, pair in enumerate(zip(got, want)) if pair[0] != pair[1]), len(want))
                    raise Wrong(f"partition {p}: {len(got)} records of {len(want)}, the first wrong one is number {first}, twice came {twice[:5]}")


def piped(house, clients, seconds, chance, broker_too):
    """All pipes at once under kills of the clients, and of the broker if `broker_too`; one check each."""
    pipes = [Pipe(house, client) for client in clients]
    try:
        until_at_work(pipes)
        began = time.monotonic()
        kills = collections.Counter()
        due = {id(pipe): began + CLIENT_KILL_SECONDS * chance.uniform(0.5, 1.5) for pipe in pipes}
        broker_due = began + BROKER_KILL_SECONDS * chance.uniform(0.5, 1.5)
        while (now := time.monotonic()) < began + seconds:
            for pipe in pipes:
                if now >= due[id(pipe)]:
                    pipe.kill()
                    kills[pipe.client.name] += 1
                    due[id(pipe)] = now + CLIENT_KILL_SECONDS * chance.uniform(0.5, 1.5) + 2  # some time to get to work
                pipe.kept_running()
            if broker_too and now >= broker_due:
                house.broker.kill()
                house.broker.start()
                kills["broker"] += 1
                broker_due = time.monotonic() + BROKER_KILL_SECONDS * chance.uniform(0.5, 1.5)
            time.sleep(0.05)
        for pipe in pipes:
            name = pipe.client.name
            over = f"{kills[name]} kills of it" + (f" and {kills['broker']} of the broker" if broker_too else "")
            with check(f"{name} carries every record exactly once, in order, over {over}") as going:
                if going:
                    pipe.drained()
                    print(f"     {name}: {sum(pipe.feed.ends.values())} records, started {pipe.starts} times", flush=True)
    finally:
        for pipe in pipes:
            pipe.feed.stopping.set()
            pipe.kill()


def frozen(house, clients, chance):
    """F11: pipes that stand still for longer than their transactions, and their places in the group, last; one check each."""
    pipes = [Pipe(house, client) for client in clients]
    try:
        until_at_work(pipes)
        for pipe in pipes:
            time.sleep(chance.uniform(0, 0.2))  # somewhere in a transaction
            pipe.kept_running()
            pipe.process.send_signal(signal.SIGSTOP)
        time.sleep(FREEZE_SECONDS)
        open_ends = {pipe.client.name: pipe.open_ends(CLOSED_SECONDS_MAX) for pipe in pipes}
        for pipe in pipes:
            pipe.process.send_signal(signal.SIGCONT)
        time.sleep(2)
        for pipe in pipes:
            with check(f"{pipe.client.name} carries every record exactly once, in order, over a sleep that outlasts its transaction") as going:
                if going:
                    if found := open_ends[pipe.client.name]:
                        raise Wrong(f"partitions with last stable offset and end before it woke up: {found}")
                    pipe.drained()
                    print(f"     {pipe.client.name}: {sum(pipe.feed.ends.values())} records, started {pipe.starts} times", flush=True)
    finally:
        for pipe in pipes:
            pipe.feed.stopping.set()
            pipe.kill()


def until_at_work(pipes):
    """Each has committed something, or had a minute for it."""
    deadline = time.monotonic() + 60
    while any(not re.search(rb'"committed"', words_of(pipe)) for pipe in pipes) and time.monotonic() < deadline:
        for pipe in pipes:
            pipe.kept_running()
        time.sleep(0.1)


def words_of(pipe):
    return os.pread(pipe.words.fileno(), 4096, 0)


# --- kafka-transactions ---------------------------------------------------------------

class Desk:
    """Runs Apache Kafka's own tool."""

    def __init__(self, house):
        self.house = house

    def run(self, *args, code=0):
        command = tools.java_command("org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", self.house.bootstrap, *args, heap="128m")
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if (done.returncode != 0) != (code != 0):
            raise Wrong(f"{' '.join(args)}: exit code {done.returncode}: {(done.stdout + done.stderr).strip()[-600:]}")
        return done.stdout + done.stderr

    def rows(self, *args):
        """The table that it prints: [{column: text}]."""
        lines = [line for line in self.run(*args).splitlines() if line.strip()]
        head = next((i for i, line in enumerate(lines) if re.match(r"(TransactionalId|CoordinatorId|ProducerId|Topic)\s", line)), None)
        if head is None:
            raise Wrong(f"{' '.join(args)} printed no table: {lines[-5:]}")
        names = lines[head].split()
        return [dict(zip(names, line.split())) for line in lines[head + 1:]]


def operators(house):
    """kafka-transactions: list, describe, describe-producers, find-hanging, abort"""
    desk, topic = Desk(house), house.topic()
    with house.connect() as admin, Transactional(house.bootstrap, "desk", timeout_ms=60_000) as one:
        one.initialise().sent(topic, 1, [b"v"])
        row = next((r for r in desk.rows("list") if r["TransactionalId"] == "desk"), None)
        if row is None or row["ProducerId"] != str(one.producer_id) or row["TransactionState"] != "Ongoing":
            raise Wrong(f"list shows {row}")
        if [r["TransactionalId"] for r in desk.rows("list", "--duration-filter", "50000")].count("desk"):
            raise Wrong("list --duration-filter shows a young transaction")
        row = desk.rows("describe", "--transactional-id", "desk")[0]
        if (row["ProducerId"], row["ProducerEpoch"], row["TransactionState"]) != (str(one.producer_id), str(one.epoch), "Ongoing"):
            raise Wrong(f"describe shows {row}")
        row = next(r for r in desk.rows("describe-producers", "--topic", topic, "--partition", "1") if r["ProducerId"] == str(one.producer_id))
        if row["CurrentTransactionStartOffset"] != "0":
            raise Wrong(f"describe-producers shows {row}")
        one.ended(True)
        until_state(admin, one.id, "CompleteCommit")
        # A batch that no coordinator knows of hangs, once it is older than the tool is told (in minutes).
        two = Transactional(house.bootstrap, "lost", v2=False).initialise()
        answer = two.send(topic, 0)
        if answer["error_code"]:
            raise Wrong(f"the hanging batch got error {answer['error_code']}; is transaction.partition.verification.enable=false in force?")
        for where in (("--topic", topic, "--partition", "0"), ("--topic", topic), ("--broker-id", str(admin.call(60, 0)["brokers"][0]["node_id"]))):
            rows = [r for r in desk.rows("find-hanging", *where, "--max-transaction-timeout", "0") if r["Topic"] == topic]
            if [(r["Partition"], r["ProducerId"], r["StartOffset"]) for r in rows] != [("0", str(two.producer_id), "0")]:
                raise Wrong(f"find-hanging {where} shows {rows}")
        if (stable := end_offset(admin, topic, 0, READ_COMMITTED)) != 0:
            raise Wrong(f"last stable offset {stable} while the transaction hangs")
        desk.run("abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
        if (ends := (end_offset(admin, topic, 0, READ_COMMITTED), read(admin, topic))) != (2, []):
            raise Wrong(f"last stable offset and committed records after the abort: {ends}")
        if rows := desk.rows("find-hanging", "--topic", topic, "--max-transaction-timeout", "0"):
            raise Wrong(f"find-hanging still shows {rows}")
        two.close()


# --- the run ---------------------------------------------------------------------------

class check:  # pylint: disable=invalid-name
    """Prints the line of one check; what goes wrong within it stays within it. `as` gives whether it is wanted."""

    only, failed = "", 0

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.began = time.monotonic()
        return check.only in self.name

    def __exit__(self, kind, error, _):
        if check.only not in self.name:
            return False
        if kind is None:
            print(f"PASS {self.name} ({time.monotonic() - self.began:.1f} s)", flush=True)
        elif issubclass(kind, Exception):
            check.failed += 1
            print(f"FAIL {self.name}: {error if kind is Wrong else repr(error)}", flush=True)
        return kind is None or issubclass(kind, Exception)


def available(names):
    found = []
    for client in CLIENTS:
        if names and client.name not in names:
            continue
        try:
            client.command("transact")
            found.append(client)
        except (tools.Missing, subprocess.CalledProcessError) as error:
            print(f"SKIP client {client.name}: {error}", flush=True)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--reference", action="store_true")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--clients", type=lambda text: text.split(","), default=[])
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    args = parser.parse_args()
    check.only = args.only
    clients, chance = available(args.clients), random.Random(args.seed)
    print(f"--seed {args.seed}", flush=True)
    house = House(args, "clients", TRANSACTIONS)
    try:
        with check("all clients write transactions at once") as going:
            if going or check.only in " sees what was committed":
                topic = house.topic()
                writers = [c for c in clients if c.writes]
                values, aborted = written(house, writers, topic)
                all_readers(house, writers, topic, values, aborted, "at first")
                house.killed()
                last = writers if args.long else writers[:2]
                all_readers(house, last, topic, values, aborted, "after a kill -9 of the broker")
        with check(survives.__doc__) as going:
            if going:
                survives(house)
        if not args.only or "exactly once" in args.only:
            for unshaken, seconds in ((True, 15), (False, 8)):
                if pipes := [c for c in clients if c.pipes and c.unshaken == unshaken]:
                    piped(house, pipes, seconds * (8 if args.long else 1), chance, unshaken)
            if pipes := [c for c in clients if c.pipes and c.unshaken]:
                frozen(house, pipes, chance)
    finally:
        house.broker.kill()
    if args.only in operators.__doc__:
        desk = House(args, "desk", dict(TRANSACTIONS, **{"transaction.partition.verification.enable": "false"}))
        try:
            with check(operators.__doc__):
                operators(desk)
        finally:
            desk.broker.kill()
        desk.broker.forget()
    if not check.failed:
        house.broker.forget()
    sys.exit(1 if check.failed else 0)


if __name__ == "__main__":
    main()
