"""Apache Kafka's own tool reads our log files: `dumplog.py BINARY [--reference]`.

Starts a broker of its own, writes with every codec through old and new
clients, over several segments and two starts, stops it, and gives each `.log`
file under its Kafka name to DumpLogSegments with deep iteration. Every batch
must be valid, offsets must follow each other without a gap, and the records
must be as many as were acknowledged.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import clients  # noqa: E402
import rawkafka  # noqa: E402
import recordset  # noqa: E402
import tools  # noqa: E402
from broker import Broker, Kafka  # noqa: E402

WRITERS = ("confluent-kafka", "kcat", "kafka-python", "rskafka", "franz-go")
OURS = re.compile(r"^[0-9a-f]{8}-(\d{20})\.log$")
KAFKAS = re.compile(r"^(\d{20})\.log$")
BATCH = re.compile(r"^(?:\| )?baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .*isvalid: (\w+)", re.M)
RECORD = re.compile(r"^\| offset: (\d+) ", re.M)
SEGMENT_BYTES = 1_048_576


class Wrong(Exception):
    """A check failed, for this reason."""


def available():
    found = []
    for name in WRITERS:
        try:
            clients.BY_NAME[name].command("produce")
            found.append(clients.BY_NAME[name])
        except tools.Missing as missing:
            print(f"SKIP writer {name}: {missing}", flush=True)
    return found


def write(bootstrap, writers, round_number, counts):
    """One topic per writer and codec; `counts` gathers records per (topic, partition)."""
    for writer in writers:
        rows = recordset.records(writer.lacks)
        for codec in clients.CODECS:
            topic = f"dump-{writer.name}-{codec}"
            if round_number == 0:
                with rawkafka.Connection(bootstrap) as admin:
                    rawkafka.create_topic_and_wait(admin, topic, recordset.PARTITIONS, {"segment.bytes": str(SEGMENT_BYTES)})
            with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as source:
                source.writelines(json.dumps(row) + "\n" for row in rows)
                source.flush()
                subprocess.run(writer.command("produce", bootstrap, topic, codec, source.name), check=True,
                               stdout=subprocess.PIPE, timeout=90)
            for row in rows:
                counts[topic, row["p"]] = counts.get((topic, row["p"]), 0) + 1


def log_files(data, topic, partition, reference):
    """(base offset, path) of a partition's segments, in order."""
    directory = os.path.join(data, f"{topic}-{partition}" if reference else os.path.join("topics", topic, str(partition)))
    pattern = KAFKAS if reference else OURS
    found = []
    for name in os.listdir(directory):
        if match := pattern.match(name):
            found.append((int(match[1]), os.path.join(directory, name)))
    return sorted(found)


def dump(segments):
    """{partition: the tool's output}, of {partition: [(base offset, path)]}, in one run of the tool."""
    with tempfile.TemporaryDirectory() as scratch:
        owner, named = {}, []
        for partition, files in segments.items():
            for base, path in files:
                # The tool wants Kafka's file names, and tells no two files of one name apart.
                directory = os.path.join(scratch, str(len(named)))
                os.mkdir(directory)
                named.append(os.path.join(directory, f"{base:020}.log"))
                shutil.copy(path, named[-1])
                owner[named[-1]] = partition
        done = subprocess.run(tools.java_command("org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files",
                                                 ",".join(named)), capture_output=True, text=True, timeout=90, check=False)
    if done.returncode or "Exception" in done.stderr:
        raise Wrong(f"exit code {done.returncode}: {done.stderr[-800:]}")
    found = dict.fromkeys(segments, "")
    for name, text in re.findall(r"(?ms)^Dumping (\S+)$(.*?)(?=^Dumping |\Z)", done.stdout):
        found[owner[name]] += text
    return found


def judge(text, expected):
    """What the tool said of one partition: offsets without a gap, every batch valid, as many records as were sent."""
    batches, following = BATCH.findall(text), 0
    for base, last, count, valid in batches:
        if valid != "true":
            raise Wrong(f"the batch at offset {base} is not valid")
        if int(base) != following or int(last) - int(base) + 1 != int(count):
            raise Wrong(f"batch {base}..{last} of {count} records where {following} should follow")
        following = int(last) + 1
    records = [int(offset) for offset in RECORD.findall(text)]
    if records != list(range(following)):
        raise Wrong(f"{len(records)} records in batches of {following}")
    if following != expected:
        raise Wrong(f"{following} records, {expected} were acknowledged")
    if strange := re.findall(r"(?m)^(?:Found|Mismatches|Non-consecutive).*$", text):
        raise Wrong(f"the tool says: {strange[:3]}")
    return f"{len(batches)} batches, {following} records"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--reference", action="store_true")
    args = parser.parse_args()
    kind = Kafka if args.reference else Broker
    data, log = os.path.join(tools.HOME, "data", "dumplog"), os.path.join(tools.HOME, "logs", "dumplog.broker.log")
    broker, writers, counts, failed = kind(args.binary, data, log), available(), {}, 0
    broker.forget()
    for round_number in range(2):
        broker.start()
        try:
            write(broker.bootstrap, writers, round_number, counts)
        finally:
            trouble = broker.stop()
        if trouble:
            raise SystemExit(trouble)
    topics = sorted({topic for topic, _ in counts})
    for topic in topics:
        try:
            segments = {p: log_files(data, topic, p, args.reference) for p in range(recordset.PARTITIONS)}
            said = [judge(text, counts[topic, partition]) for partition, text in dump(segments).items()]
            print(f"PASS {topic} ({'; '.join(said)}; {sum(map(len, segments.values()))} segments)", flush=True)
        except (Wrong, OSError) as wrong:
            failed += 1
            print(f"FAIL {topic}: {wrong}", flush=True)
    if not failed:
        broker.forget()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
