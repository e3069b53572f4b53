"""Clients of every kind in one group: `groups.py HOST:PORT [--clients A,B]`.

All join one group on one topic while records keep coming. One joins late, one
leaves, one is killed, static ones restart. Every partition must have one owner
in the end, every record must be seen, none twice but for those behind the last
commit of one that was killed, and the committed offsets must be the ends. The
members are told to use the range assignor, which all of them share; those that
have the cooperative-sticky one form groups of it too. A client that cannot be
installed is skipped by name.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import clients  # noqa: E402
import rawkafka  # noqa: E402
import tools  # noqa: E402
from rawgroups import committed, consumer_described, described, wait_for_groups  # noqa: E402

PARTITIONS = 24
SETTLE_SECONDS_MAX = 90  # ends what hangs, on a busy machine too; the line of a check says how long it took
READ_SECONDS_MAX = 20
STOP_SECONDS_MAX = 20
SESSION_SECONDS = 6
RESTARTS_MAX = 8
PARALLEL = 2  # crews at a time: their members wait most of the time
QUIET_SECONDS = 4  # eight heartbeats: a rebalance would have shown


class Wrong(Exception):
    """A check failed, for this reason."""


class Member:
    """One running client program, and what it has said."""

    def __init__(self, client, crew, instance=None, protocol=""):
        words = [protocol] if protocol else []
        self.client, self.name, self.instance = client, client.name, instance
        self.adds = bool(protocol)  # it tells what is added, not what it has
        self.owned = None  # the partitions it says it has; None before the first
        self.records, self.commits, self.changes = [], {}, 0
        self.ended_at = None  # when it was told to end, or killed
        self.said = tempfile.TemporaryFile("w+b")
        self.process = subprocess.Popen(
            client.command("group", crew.bootstrap, crew.topic, crew.group, *([instance or "-"] if instance or words else []), *words),
            stdout=subprocess.PIPE, stderr=self.said, stdin=subprocess.DEVNULL)
        self.reader = threading.Thread(target=self._listen, daemon=True)
        self.reader.start()

    def _listen(self):
        for line in self.process.stdout:
            try:
                ((what, value),) = json.loads(line).items()
            except ValueError:
                continue  # cut off by a kill
            if what == "record":
                self.records.append(tuple(value))
            elif what == "committed":
                for partition, offset in value.items():
                    self.commits[int(partition)] = offset
            elif what == "assigned":
                self.owned = set(value) | (self.owned or set() if self.adds else set())
                self.changes += 1
            elif what == "revoked":
                self.owned = set() if value is None else (self.owned or set()) - set(value)

    def running(self):
        return self.process.poll() is None

    def words(self):
        self.said.seek(0)
        lines = self.said.read().decode(errors="replace").strip().splitlines()
        return " | ".join(line.strip() for line in lines[-8:])[-1200:]

    def stop(self):
        """SIGTERM, its way to leave; raises Wrong if it does not end well."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Wrong(f"{self.name} did not end within {STOP_SECONDS_MAX} s of SIGTERM: {self.words()}") from None
        self.reader.join(5)
        if code:
            raise Wrong(f"{self.name} ended with code {code}: {self.words()}")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.reader.join(5)


class Feed(threading.Thread):
    """Produces to all partitions until told to end; knows how many records each has."""

    def __init__(self, bootstrap, topic):
        super().__init__(daemon=True)
        self.connection, self.topic = rawkafka.Connection(bootstrap), topic
        self.ends, self.stopping, self.failed = dict.fromkeys(range(PARTITIONS), 0), threading.Event(), None

    def run(self):
        try:
            while not self.stopping.is_set():
                for partition in self.ends:
                    values = [b"%d-%d" % (partition, self.ends[partition] + i) for i in range(3)]
                    answer = rawkafka.produce(self.connection, self.topic, partition, rawkafka.batch(values))
                    if answer["error_code"] or answer["base_offset"] != self.ends[partition]:
                        raise ValueError(f"produce: {answer}")
                    self.ends[partition] += 3
                self.stopping.wait(0.05)
        except Exception as error:  # pylint: disable=broad-except
            self.failed = error

    def finish(self):
        self.stopping.set()
        self.join(10)
        if self.failed:
            raise Wrong(f"the producer failed: {self.failed!r}")
        return self.ends


class Crew:
    """The members of one group, those that are gone, and the records that come meanwhile."""

    def __init__(self, bootstrap, admin, name, protocol=""):
        self.bootstrap, self.admin, self.protocol = bootstrap, admin, protocol
        self.topic = self.group = f"groups-{name}-{os.getpid()}"
        self.members, self.gone, self.killed = [], [], []
        rawkafka.create_topic_and_wait(admin, self.topic, PARTITIONS)
        self.feed = Feed(bootstrap, self.topic)
        self.feed.start()

    def add(self, client, instance=None, protocol=None):
        """One more member, of the crew's protocol or another."""
        self.members.append(Member(client, self, instance, self.protocol if protocol is None else protocol))
        return self.members[-1]

    def settle(self, seconds=SETTLE_SECONDS_MAX):
        """Waits until the group is stable and its members' partitions are all, each once."""
        deadline = time.monotonic() + seconds
        while True:
            told = self.described()
            if told["group_state"] == "Stable" and len(told["members"]) == len(self.members) and self._shared():
                return
            for member in self.members:
                if not member.running():
                    raise Wrong(f"{member.name} ended by itself with code {member.process.returncode}: {member.words()}")
            if time.monotonic() > deadline:
                owned = {m.name: sorted(m.owned or ()) for m in self.members}
                raise Wrong(f"not settled within {seconds} s: {told['group_state']} with {len(told['members'])} of"
                            f" {len(self.members)} members; {owned}; {self.members[-1].name} said: {self.members[-1].words()}")
            time.sleep(0.1)

    def described(self):
        """State and members, as the API of the protocol tells them that the group follows now."""
        found = consumer_described(self.admin, self.group)
        return found if found["error_code"] == 0 else described(self.admin, self.group)

    def kind(self):
        rows = self.admin.call(16, 5, states_filter=[], types_filter=[])["groups"]
        return next((row["group_type"] for row in rows if row["group_id"] == self.group), None)

    def _shared(self):
        owned = sorted(p for m in self.members for p in m.owned or ())
        return owned == list(range(PARTITIONS)) and all(m.owned for m in self.members)

    def remove(self, member, kill=False):
        """Ends a member, once it has seen a record: else it would prove nothing."""
        deadline = time.monotonic() + READ_SECONDS_MAX
        while not member.records and member.running() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.members.remove(member)
        member.ended_at = time.monotonic()
        if kill:
            self.killed.append(member)
            member.kill()
        else:
            self.gone.append(member)
            member.stop()

    def unmoved(self, seconds=QUIET_SECONDS):
        """Nobody is given another assignment for some time."""
        before = [(m.changes, m.owned) for m in self.members]
        time.sleep(seconds)
        after = [(m.changes, m.owned) for m in self.members]
        moved = [m.name for m, was, now in zip(self.members, before, after) if was != now]
        if moved:
            raise Wrong(f"a rebalance moved {moved}: before {before}, after {after}")

    def finish(self):
        """Ends the load, lets all be read, stops everybody, and judges what was seen."""
        ends = self.feed.finish()
        deadline = time.monotonic() + READ_SECONDS_MAX
        while (now := committed(self.admin, self.group, self.topic, ends)) != ends:
            if time.monotonic() > deadline:
                behind = {p: (now[p], end) for p, end in ends.items() if now[p] != end}
                raise Wrong(f"committed and end after {READ_SECONDS_MAX} s: {behind}")
            time.sleep(0.1)
        wrong = []
        for member in list(self.members):
            try:
                self.remove(member)
            except Wrong as error:
                wrong.append(str(error))
        if wrong:
            raise Wrong("; ".join(wrong))
        if (now := committed(self.admin, self.group, self.topic, ends)) != ends:
            raise Wrong(f"committed offsets changed when the members left: {now}")
        self._judge(ends)

    def _judge(self, ends):
        seen = collections.Counter(r for m in self.gone + self.killed for r in m.records)
        missing = [(p, o) for p, end in ends.items() for o in range(end) if (p, o) not in seen]
        if missing:
            raise Wrong(f"{len(missing)} records were not seen, first {missing[:5]}")
        # What a killed one took behind its last commit comes again, to somebody else, who may be killed too.
        spare = collections.Counter(r for m in self.killed for r in set(m.records) if r[1] >= m.commits.get(r[0], 0))
        twice = [r for r, count in seen.items() if count > 1 + spare[r]]
        if twice:
            who = {r: [m.name for m in self.gone + self.killed if r in m.records] for r in sorted(twice)[:5]}
            raise Wrong(f"{len(twice)} records were seen twice: {who}")
        for member in self.gone + self.killed:
            if not member.records:
                raise Wrong(f"{member.name} saw no record at all")

    def kill_all(self):
        self.feed.stopping.set()
        for member in self.members:
            member.kill()
        self.members.clear()


def mixed(crew, kinds):
    """all kinds in one group; one joins late, one leaves, one is killed: all records once, commits exact"""
    for kind in kinds[:-1]:
        crew.add(kind)
    crew.settle()
    late = crew.add(kinds[-1])
    crew.settle()
    time.sleep(1)
    crew.remove(crew.members[0])
    crew.settle()
    crew.remove(crew.members[0], kill=True)
    crew.settle(SESSION_SECONDS + SETTLE_SECONDS_MAX)
    if not late.running():
        raise Wrong(f"{late.name} ended")
    crew.finish()


def next_protocol(crew, kinds):
    """members of the consumer protocol (KIP-848): one joins late, one leaves, one is killed: all records once, commits exact"""
    for kind in kinds * 2:
        crew.add(kind)
    crew.settle()
    crew.add(kinds[0])
    crew.settle()
    time.sleep(1)
    crew.remove(crew.members[0])
    crew.settle()
    crew.remove(crew.members[0], kill=True)
    crew.settle(SESSION_SECONDS + SETTLE_SECONDS_MAX)
    crew.finish()


def rolled(crew, kinds):
    """members are rolled one by one to the consumer protocol and back (KIP-848): all records once, commits exact"""
    for kind in kinds * 2:
        crew.add(kind)
    crew.settle()
    for protocol, kind_of_group in (("consumer", "consumer"), ("", "classic")):
        for member in list(crew.members):
            crew.remove(member)
            crew.add(member.client, protocol=protocol)
            crew.settle()
            time.sleep(0.5)
        if crew.kind() != kind_of_group:
            raise Wrong(f"the group is {crew.kind()} in the end, expected {kind_of_group}")
    crew.finish()


def hosted(crew, kinds):
    """all kinds with the classic protocol, joined by members of the consumer protocol that leave again: all records once, commits exact"""
    for kind in kinds:
        crew.add(kind)
    crew.settle()
    guests = [kind for kind in kinds if kind.next]
    joined = []
    for kind in guests:
        joined.append(crew.add(kind, protocol="consumer"))
        crew.settle()
    if crew.kind() != "consumer":
        raise Wrong(f"the group is {crew.kind()} with members of both protocols")
    late = crew.add(kinds[0])
    crew.settle()
    time.sleep(1)
    crew.remove(late, kill=True)
    crew.settle(SESSION_SECONDS + SETTLE_SECONDS_MAX)
    for member in joined:
        crew.remove(member)
        crew.settle()
    if crew.kind() != "classic":
        raise Wrong(f"the group is {crew.kind()} with members of the classic protocol")
    crew.finish()


def each_leads(crew, kinds):
    """every kind once as the first of the group, and so its leader, with every other as its followers; it is killed in the end"""
    first = crew.add(kinds[0])
    crew.settle()
    for kind in kinds[1:]:
        crew.add(kind)
    crew.settle()
    leader = described(crew.admin, crew.group)
    for member in leader["members"]:
        if not member["assignment"]:
            raise Wrong(f"{member['client_id']} has an empty assignment of {first.name}")
    time.sleep(0.5)
    crew.remove(first, kill=True)
    crew.settle(SESSION_SECONDS + SETTLE_SECONDS_MAX)
    crew.finish()


def _restarted_in_time(crew, member, kill):
    """Restarts a static member: (it before, it now, what it had, (others, changes each had told)).

    When it is back only after its session is over, nothing is promised to it, and others may have been moved: once more."""
    for _ in range(RESTARTS_MAX):
        parts, others = member.owned, [(m, m.changes) for m in crew.members if m is not member]
        crew.remove(member, kill=kill)
        again = crew.add(member.client, member.instance)
        crew.settle()
        if time.monotonic() - member.ended_at < SESSION_SECONDS - 0.5:  # it is heard of every half second
            return member, again, parts, others
        member = again
    raise Wrong(f"{member.name} was not back within {SESSION_SECONDS} s in {RESTARTS_MAX} restarts")


def static(crew, kinds):
    """static members of all kinds that know them restart one by one, and nobody is moved"""
    for kind in kinds:
        crew.add(kind, instance=f"static-{kind.name}")
    crew.settle()
    for i, member in enumerate(list(crew.members)):
        member, again, parts, others = _restarted_in_time(crew, member, kill=i % 2 == 0)
        if again.owned != parts:
            raise Wrong(f"{member.name} came back to {again.owned}, it had {parts}")
        moved = [m.name for m, changes in others if m.changes != changes]
        if moved:
            raise Wrong(f"the restart of {member.name} moved {moved}")
    crew.finish()


def each_first(kinds):
    """(kind, all kinds with that one as the first)"""
    return [(kind, kinds[i:] + kinds[:i]) for i, kind in enumerate(kinds)]


def available(names):
    """The clients with a group verb that are here or can be brought in."""
    found = []
    for client in clients.ALL:
        if "group" not in client.verbs or names and client.name not in names:
            continue
        try:
            client.command("group")
            found.append(client)
        except (tools.Missing, subprocess.CalledProcessError) as error:
            print(f"SKIP client {client.name}: {error}", flush=True)
    return found


def check(name, bootstrap, label, action, kinds, protocol):
    """Prints the line of one check; whether it passed."""
    started = time.monotonic()
    with rawkafka.Connection(bootstrap, timeout=30) as admin:
        crew = Crew(bootstrap, admin, label, protocol)
        try:
            action(crew, kinds)
        except Wrong as wrong:
            print(f"FAIL {name}: {wrong}\n", end="", flush=True)
            return False
        finally:
            crew.kill_all()
    print(f"PASS {name} ({time.monotonic() - started:.1f} s)\n", end="", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("--clients", type=lambda text: text.split(","), default=[])
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    kinds = available(args.clients)
    with rawkafka.Connection(args.bootstrap, timeout=30) as admin:
        probe = f"groups-probe-{os.getpid()}"
        rawkafka.create_topic_and_wait(admin, probe)
        wait_for_groups(admin, probe)
        jobs = [("mixed", mixed.__doc__, mixed, kinds, ""), ("static", static.__doc__, static, [k for k in kinds if k.instance], "")]
        if 68 in admin.versions():
            next = [k for k in kinds if k.next]
            jobs[1:1] = [("next", next_protocol.__doc__, next_protocol, next, "consumer"),
                         ("rolled", rolled.__doc__, rolled, next, ""),
                         ("hosted", hosted.__doc__, hosted, kinds if next else [], "")]
        for kind, crew_kinds in each_first(kinds):
            jobs.append((f"lead-{kind.name}", f"{kind.name} leads, all others follow, also when it is killed", each_leads, crew_kinds, ""))
        for kind, crew_kinds in each_first([k for k in kinds if k.cooperative]):
            name = f"{kind.name} leads all others that know the cooperative-sticky assignor, also when it is killed"
            jobs.append((f"cooperative-{kind.name}", name, each_leads, crew_kinds, "cooperative"))
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        checks = [pool.submit(check, name, args.bootstrap, label, action, crew_kinds, protocol)
                  for label, name, action, crew_kinds, protocol in jobs if args.only in label and crew_kinds]
        passed = [check.result() for check in checks]
    sys.exit(0 if all(passed) else 1)


if __name__ == "__main__":
    main()
