"""Apache Kafka's VerifiableConsumer under rebalances, and ConsumerPerformance: `verifiable.py HOST:PORT`.

With each group protocol: members come one by one while a producer writes, one
leaves, one is killed, one that was killed comes back. What the members tell of
themselves must cover every record; what two of them took, the first must not
have committed.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import rawkafka  # noqa: E402
import tools  # noqa: E402
from rawgroups import committed, wait_for_groups  # noqa: E402

PARTITIONS = 12
RECORDS_A_SECOND = 600
SETTLE_SECONDS_MAX = 60
END_SECONDS_MAX = 60
TOOLS = "org.apache.kafka.tools."


class Wrong(Exception):
    """A check failed, for this reason."""


class Program:
    """A running tool that tells what happens in lines of JSON."""

    def __init__(self, name, *args):
        self.process = subprocess.Popen(tools.java_command(TOOLS + name, *args, heap="192m"), text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        self.seen = []
        self.reader = threading.Thread(target=self._listen, daemon=True)
        self.reader.start()

    def _listen(self):
        for line in self.process.stdout:
            try:
                said = json.loads(line)
            except ValueError:
                continue  # cut off by a kill, or a word of the client's log
            self.seen.append(said)
            self.take(said)

    def take(self, said):
        pass

    def end(self, how):
        self.process.send_signal(how)
        try:
            self.process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Wrong(f"a program did not end within {END_SECONDS_MAX} s of signal {how}; it said last {self.seen[-3:]}") from None
        self.reader.join(10)


class Member(Program):
    """One VerifiableConsumer: its partitions, what it took and what it committed."""

    def __init__(self, bootstrap, topic, group, protocol):
        self.owned, self.taken, self.commits, self.lost = set(), [], {}, []
        more = [] if protocol == "consumer" else ["--session-timeout", "6000"]
        super().__init__("VerifiableConsumer", "--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group,
                         "--group-protocol", protocol, "--reset-policy", "earliest", *more)

    def take(self, said):
        rows = said.get("partitions", [])
        if said["name"] == "partitions_assigned":
            self.owned |= {row["partition"] for row in rows}
        elif said["name"] == "partitions_revoked":
            self.owned -= {row["partition"] for row in rows}
        elif said["name"] == "records_consumed":
            self.taken += [(row["partition"], row["minOffset"], row["maxOffset"] + 1) for row in rows]
        elif said["name"] == "offsets_committed":
            for row in said["offsets"]:
                if said["success"]:
                    self.commits[row["partition"]] = max(row["offset"], self.commits.get(row["partition"], 0))
                else:
                    self.lost.append((row["partition"], row["offset"]))


def settled(members):
    """Waits until the members have all partitions, each once."""
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while True:
        owned = [sorted(member.owned) for member in members]
        if all(owned) and sorted(sum(owned, [])) == list(range(PARTITIONS)):
            return
        if time.monotonic() > deadline:
            raise Wrong(f"not settled within {SETTLE_SECONDS_MAX} s: {owned}")
        if any(member.process.poll() is not None for member in members):
            raise Wrong("a member ended by itself")
        time.sleep(0.1)


def ends(admin, topic):
    """Where the partitions end that have records."""
    found = {p: rawkafka.offsets(admin, topic, p)[1] for p in range(PARTITIONS)}
    return {p: end for p, end in found.items() if end}


def judge(members, end):
    """Every record below `end` was taken; what was taken twice had not been committed by all but one."""
    for partition, upto in end.items():
        pieces = sorted((start, stop, member) for member in range(len(members))
                        for p, start, stop in members[member].taken if p == partition)
        reached = 0
        for start, stop, member in pieces:
            if start > reached:
                raise Wrong(f"nobody read {reached} to {start} of partition {partition}")
            again = [m for s, e, m in pieces if (s, e, m) != (start, stop, member) and s < stop and start < e]
            safe = [m for m in again + [member] if members[m].commits.get(partition, 0) >= stop
                    and not any(p == partition and o >= stop for p, o in members[m].lost)]
            if again and len(safe) > 1:
                raise Wrong(f"{start} to {stop} of partition {partition} were read twice, and committed before")
            reached = max(reached, stop)
        if reached < upto:
            raise Wrong(f"nobody read {reached} to {upto} of partition {partition}")


def rebalances(bootstrap, protocol):
    topic = group = f"verifiable-{protocol}-{os.getpid()}"
    members, gone = [], []
    with rawkafka.Connection(bootstrap, timeout=30) as admin:
        rawkafka.create_topic_and_wait(admin, topic, PARTITIONS)
        wait_for_groups(admin, topic)
        producer = Program("VerifiableProducer", "--bootstrap-server", bootstrap, "--topic", topic, "--throughput",
                           str(RECORDS_A_SECOND), "--acks", "-1")

        def add():
            members.append(Member(bootstrap, topic, group, protocol))

        def remove(how):
            gone.append(members.pop(0))
            gone[-1].end(how)
        try:
            for _ in range(3):
                add()
                settled(members)
            for how in (signal.SIGTERM, signal.SIGKILL):
                remove(how)
                settled(members)
                time.sleep(1)
            add()
            settled(members)
            producer.end(signal.SIGTERM)
            told = [said for said in producer.seen if said["name"] == "tool_data"]
            sent = sum(said["name"] == "producer_send_success" for said in producer.seen)
            end, deadline = ends(admin, topic), time.monotonic() + END_SECONDS_MAX
            if any(said["name"] == "producer_send_error" for said in producer.seen) or sum(end.values()) != sent or not told:
                raise Wrong(f"{sent} records were acknowledged, the logs hold {sum(end.values())}; {told}")
            while (now := committed(admin, group, topic, end)) != end:
                if time.monotonic() > deadline:
                    raise Wrong(f"committed after {END_SECONDS_MAX} s is {now}, the ends are {end}")
                time.sleep(0.2)
            while members:
                remove(signal.SIGTERM)
                if gone[-1].seen[-1]["name"] != "shutdown_complete":
                    raise Wrong(f"no orderly end: {gone[-1].seen[-3:]}")
            if (now := committed(admin, group, topic, end)) != end:
                raise Wrong(f"the end of the members moved their commits to {now}, the ends are {end}")
            judge(gone, end)
            return f"{sent} records, {sum(len(m.taken) for m in gone)} pieces"
        finally:
            for program in [producer, *members]:
                program.process.kill()


def classic(bootstrap):
    """VerifiableConsumer, classic protocol: members come, leave and are killed; every record read, none twice once committed"""
    return rebalances(bootstrap, "classic")


def consumer(bootstrap):
    """VerifiableConsumer, consumer protocol: members come, leave and are killed; every record read, none twice once committed"""
    return rebalances(bootstrap, "consumer")


def performance(bootstrap):
    """kafka-consumer-perf-test reads all that kafka-producer-perf-test wrote, with both protocols"""
    topic, count = f"verifiable-perf-{os.getpid()}", 200_000
    with rawkafka.Connection(bootstrap) as admin:
        rawkafka.create_topic_and_wait(admin, topic, 6)
    run("ProducerPerformance", "--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(count), "--record-size", "100",
        "--throughput", "-1")
    for protocol in ("classic", "consumer"):
        found = run("ConsumerPerformance", "--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(count), "--group",
                    f"{topic}-{protocol}", "--command-property", f"group.protocol={protocol}")
        row = re.search(r"(?m)^\d{4}-[^,]+, \d{4}-[^,]+, ([\d.]+), [\d.]+, (\d+), ", found)
        if not row or int(row[2]) < count:
            raise Wrong(f"{protocol}: {found[-600:]}")
    return f"{count} records"


def run(name, *args):
    done = subprocess.run(tools.java_command(TOOLS + name, *args, heap="256m"), capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise Wrong(f"{name} ended with code {done.returncode}: {(done.stdout + done.stderr)[-600:]}")
    return done.stdout


def main():
    failed = 0
    for check in (classic, consumer, performance):
        started = time.monotonic()
        try:
            note = check(sys.argv[1])
            print(f"PASS {check.__doc__} ({note}, {time.monotonic() - started:.1f} s)", flush=True)
        except (Wrong, subprocess.TimeoutExpired, KeyError) as error:
            failed += 1
            print(f"FAIL {check.__doc__}: {' '.join(repr(error).split())}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
