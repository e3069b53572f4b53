"""Apache Kafka's TransactionalMessageCopier under kills: `copier.py BINARY [--reference] [--long] [--only TEXT] [--seed N]`.

It is the program of Kafka's own system tests (it comes with kafka-tools): it
carries records from a topic to another in transactions, their offsets with
them, and gives up one in three at random. Several of them work side by side,
each on a partition of its own, or all as members of one group (of the classic
protocol; the program knows no other). They are killed every few seconds, and so
is the broker. In the end the output is the input, each record once and in
order, the group's offsets are the ends of the input, and nothing is left open.
`--seed` repeats the moments of the kills.
"""

import argparse
import collections
import os
import random
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
sys.path.insert(0, HERE)
import tools  # noqa: E402
from rawgroups import committed  # noqa: E402
from rawtxn import LIST, READ_COMMITTED, end_offset, producers, read  # noqa: E402
from stages import TRANSACTIONS  # noqa: E402
from transactions import PARTITIONS, Desk, Feed, House, Wrong, check  # noqa: E402

PROGRAM = "org.apache.kafka.tools.TransactionalMessageCopier"
TRANSACTION_MS = 4000  # so long a killed one's transaction may hide the offsets that the next one asks for
SECONDS, SECONDS_LONG = 25, 300
COPIER_KILL_SECONDS, BROKER_KILL_SECONDS = 5, 8
DRAIN_SECONDS_MAX = 180
MEMBERS = 2


class Copier:
    """One process of it, started again whenever it has ended: it does so at what was the end when it began."""

    def __init__(self, crew, number):
        self.name = f"{crew.name}-{number}"
        self.command = tools.java_command(
            PROGRAM, "--broker-list", crew.house.bootstrap, "--input-topic", crew.source, "--output-topic", crew.target, "--consumer-group", crew.group,
            "--transactional-id", self.name, "--transaction-size", "40", "--transaction-timeout", str(TRANSACTION_MS), "--enable-random-aborts",
            "--input-partition", str(number), *crew.how, heap="96m")
        self.words, self.starts = tempfile.TemporaryFile(), 0
        self.start()

    def start(self):
        self.starts += 1
        self.process = subprocess.Popen(self.command, stdout=self.words, stderr=self.words, stdin=subprocess.DEVNULL)

    def kept_running(self):
        if self.process.poll() is not None:
            self.start()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def last_words(self):
        self.words.seek(0)
        lines = self.words.read().decode(errors="replace").splitlines()
        return f"{self.name}, started {self.starts} times: " + " | ".join(line.strip() for line in lines if "ProcessLoop" not in line)[-400:]


class Crew:
    """The copiers of one topic, what feeds it, and the moments at which they are killed."""

    def __init__(self, house, name, count, chance, *how):
        self.house, self.name, self.how, self.chance = house, name, how, chance
        self.group = f"{name}-group"
        self.source, self.target = house.topic(f"{name}-from"), house.topic(f"{name}-to")
        self.feed = Feed(house, self.source)
        self.feed.start()
        self.copiers = [Copier(self, number) for number in range(count)]

    def under_kills(self, seconds):
        """Counts of kills."""
        with self.house.connect() as admin:
            self.until(lambda: self.through(admin, 1), "at work")
        now, kills = time.monotonic(), collections.Counter()
        end = now + seconds
        due = {copier: now + self.soon(COPIER_KILL_SECONDS) for copier in self.copiers}
        broker_due = now + self.soon(BROKER_KILL_SECONDS)
        while (now := time.monotonic()) < end:
            for copier in self.copiers:
                if now >= due[copier]:
                    copier.kill()
                    kills["copiers"] += 1
                    due[copier] = now + self.soon(COPIER_KILL_SECONDS)
                copier.kept_running()
            if now >= broker_due:
                self.house.broker.kill()
                self.house.broker.start()
                kills["broker"] += 1
                broker_due = time.monotonic() + self.soon(BROKER_KILL_SECONDS)
            time.sleep(0.05)
        return kills

    def soon(self, seconds):
        return seconds * self.chance.uniform(0.5, 1.5)

    def through(self, admin, least=None):
        """Whether each partition's records, or `least` of them, have come out."""
        return all(len(read(admin, self.target, p)) >= (least or end) for p, end in self.feed.ends.items())

    def until(self, holds, what):
        deadline = time.monotonic() + DRAIN_SECONDS_MAX
        while not holds():
            for copier in self.copiers:
                copier.kept_running()
            if time.monotonic() > deadline:
                raise Wrong(f"not {what} within {DRAIN_SECONDS_MAX} s; " + "; ".join(copier.last_words() for copier in self.copiers))
            time.sleep(0.2)

    def judged(self):
        """Waits until everything is through and committed, and compares it."""
        self.feed.finish()
        ends = self.feed.ends
        with self.house.connect() as admin:
            self.until(lambda: self.through(admin), "all through")
            self.until(lambda: committed(admin, self.group, self.source, ends) == ends, "all committed")
            self.kill()
            for p, end in ends.items():
                got, want = [v for _, v in read(admin, self.target, p)], [b"%d-%d" % (p, i) for i in range(end)]
                if got != want:
                    twice = [v for v, n in collections.Counter(got).items() if n > 1]
                    raise Wrong(f"partition {p}: {len(got)} records of {end}, twice came {twice[:5]}, not at all {sorted(set(want) - set(got))[:5]}")
            self.until_closed(admin)
            if (now := committed(admin, self.group, self.source, ends)) != ends:
                raise Wrong(f"committed offsets are {now}, the ends {ends}")
        if rows := Desk(self.house).rows("find-hanging", "--topic", self.target, "--max-transaction-timeout", "0"):
            raise Wrong(f"find-hanging shows {rows}")

    def until_closed(self, admin):
        """What the kill left open is aborted in time; then no partition has an open transaction, and the ends meet."""
        deadline = time.monotonic() + TRANSACTION_MS / 1000 + 5
        while True:
            open_ids = [r for r in admin.call(LIST, 1)["transactions"] if r["transactional_id"].startswith(self.name) and
                        not (r["state"] == "Empty" or r["state"].startswith("Complete"))]
            starts = [row for p in range(PARTITIONS) for row in producers(admin, self.target, p).values() if row["txn_start_offset"] >= 0]
            ends = [(end_offset(admin, self.target, p, READ_COMMITTED), end_offset(admin, self.target, p)) for p in range(PARTITIONS)]
            if not open_ids and not starts and all(stable == high for stable, high in ends):
                return
            if time.monotonic() > deadline:
                raise Wrong(f"still open: {open_ids}, {starts}; last stable offsets and high watermarks {ends}")
            time.sleep(0.1)

    def kill(self):
        self.feed.stopping.set()
        for copier in self.copiers:
            copier.kill()


def copied(house, what, crew, seconds):
    """One check."""
    with check(what) as going:
        if not going:
            return
        crew = crew()
        try:
            kills = crew.under_kills(seconds)
            crew.judged()
            print(f"     {sum(crew.feed.ends.values())} records, {kills['copiers']} kills of copiers and {kills['broker']} of the broker, "
                  f"{sum(copier.starts for copier in crew.copiers)} starts", flush=True)
        finally:
            crew.kill()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--reference", action="store_true")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3), "big"))
    args = parser.parse_args()
    check.only = args.only
    chance, seconds = random.Random(args.seed), SECONDS_LONG if args.long else SECONDS
    print(f"--seed {args.seed}", flush=True)
    house = House(args, "copier", TRANSACTIONS)
    try:
        copied(house, "copiers with a partition each carry every record exactly once, in order, over kills of theirs and of the broker",
               lambda: Crew(house, "apart", PARTITIONS, chance), seconds)
        copied(house, "copiers in one group carry every record exactly once, in order, over kills of theirs and of the broker",
               lambda: Crew(house, "together", MEMBERS, chance, "--group-mode", "--use-group-metadata"), seconds)
    finally:
        house.broker.kill()
    if not check.failed:
        house.broker.forget()
    sys.exit(1 if check.failed else 0)


if __name__ == "__main__":
    main()
