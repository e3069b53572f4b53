"""The main job on real input: `corpus.py HOST:PORT [--only TEXT] [--every-reader]`.

At least 100 MB of real text goes in line by line through five clients, each
with five codecs, over 16 partitions, and comes out through another client by
assignment. Equal are: the count, the bytes and an order-independent checksum
of all lines; where the writer chose the partition, also a checksum of each
partition in offset order. The codec bits of all stored batches must be the
codec asked for. kafka-python, the slow one, writes a fifth of the corpus with
each codec, so that its five topics hold the whole.
"""

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "lib"), os.path.join(HERE, "python")]
import clients  # noqa: E402
import corpus_files  # noqa: E402
import rawkafka  # noqa: E402
import tools  # noqa: E402
from common import PARTITIONS, Digest, lines  # noqa: E402

SECONDS_MAX = 240
PARALLEL = 2  # topics at a time: a client keeps one core busy at most
# Who reads what who wrote, one per codec; no client reads its own topics here.
READERS = {
    "kcat": ("franz-go", "confluent-kafka", "java", "kafka-python", "confluent-kafka"),
    "confluent-kafka": ("java", "franz-go", "kcat", "franz-go", "java"),
    "franz-go": ("confluent-kafka", "java", "confluent-kafka", "kcat", "kcat"),
    "java-console": ("kcat", "kcat", "franz-go", "confluent-kafka", "franz-go"),
    "kafka-python": ("kcat", "confluent-kafka", "franz-go", "java", "aiokafka"),
}


class Wrong(Exception):
    """A check failed, for this reason."""


def files():
    """{writer: [a file per codec]}."""
    found = corpus_files.build()
    whole = os.path.join(os.path.dirname(found["text"]), "whole")
    if not os.path.exists(whole):
        with open(whole + ".new", "wb") as out:
            for kind in ("text", "binary"):
                with open(found[kind], "rb") as source:
                    out.write(source.read())
        os.rename(whole + ".new", whole)
    every = {writer: [whole] * len(clients.CODECS) for writer in READERS}
    every["java-console"] = [found["text"]] * len(clients.CODECS)  # it reads lines as UTF-8
    every["kafka-python"] = [corpus_files.slice_of(whole, i, 5) for i in range(5)]
    return every


_expected = {}


def expected(path):
    """Our own digest of a file, computed once."""
    if path not in _expected:
        digest = Digest()
        for partition, line in lines(path):
            digest.add(partition, line)
        _expected[path] = digest.show()
    return _expected[path]


def console_producer(bootstrap, topic, codec, path):
    """Kafka's own console producer; it chooses partitions, so it gives no digest."""
    command = tools.java_command(
        "org.apache.kafka.tools.ConsoleProducer", "--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec",
        codec, "--timeout", "20", "--batch-size", "262144", "--max-memory-bytes", "67108864")
    with open(path, "rb") as source:
        run(command, stdin=source)


def run(command, **more):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS_MAX, check=False, **more)
    except subprocess.TimeoutExpired as error:
        raise Wrong(f"not done within {SECONDS_MAX} s") from error
    if done.returncode or b" ERROR " in done.stderr:
        raise Wrong(f"exit code {done.returncode}: {done.stderr.decode(errors='replace')[-1500:]}")
    return done.stdout


def load(writer, bootstrap, topic, codec, path):
    """Writes the file; returns partition digests if the writer knows them."""
    if writer == "java-console":
        console_producer(bootstrap, topic, codec, path)
        return {}
    told = json.loads(run(clients.BY_NAME[writer].command("load", bootstrap, topic, codec, path)))
    if told["sum"] != expected(path)["sum"] or told["count"] != expected(path)["count"]:
        raise Wrong("the writer read another file than we did")
    return told["partitions"]


def drain(reader, bootstrap, topic, path, partitions):
    got, want = json.loads(run(clients.BY_NAME[reader].command("drain", bootstrap, topic))), expected(path)
    for field in ("count", "bytes", "sum"):
        if got[field] != want[field]:
            raise Wrong(f"{field} is {got[field]}, expected {want[field]}")
    for partition, ordered in partitions.items():
        if got["partitions"].get(partition) != ordered:
            raise Wrong(f"partition {partition} is {got['partitions'].get(partition)}, expected {ordered}")


def codecs(bootstrap, topic, codec):
    """The codec bits of what is stored, counted in records."""
    batches, records = {}, {}
    with rawkafka.Connection(bootstrap, timeout=30) as connection:
        for partition in range(PARTITIONS):
            for found in rawkafka.stored_batches(connection, topic, partition):
                batches[found["codec"]] = batches.get(found["codec"], 0) + 1
                records[found["codec"]] = records.get(found["codec"], 0) + found["count"]
    # A client may send a batch that compression would not shrink as it is: franz-go does with its
    # small ones, of a few lines each, the more of them the quicker the broker answers.
    if codec not in records or set(records) - {codec, "none"} or records[codec] < 0.9 * sum(records.values()):
        raise Wrong(f"stored are {batches} batches with {records} records")
    return f"{batches[codec]} batches, {records[codec] / sum(records.values()):.1%} of the records"


def check(name, action):
    """Prints the line of one check; (passed, the action's value)."""
    started = time.monotonic()
    try:
        value = action()
    except (Wrong, ValueError, rawkafka.Closed, rawkafka.Silent) as wrong:
        print(f"FAIL {name}: {wrong}\n", end="", flush=True)
        return False, None
    note = f"{value}, " if isinstance(value, str) else ""
    print(f"PASS {name} ({note}{time.monotonic() - started:.1f} s)\n", end="", flush=True)
    return True, value


def judge(bootstrap, writer, codec, readers, path):
    """One topic: write, look at the codecs, read. The number of failures."""
    topic = f"corpus-{writer}-{codec}-{os.getpid()}"
    megabytes = os.path.getsize(path) / 1e6
    with rawkafka.Connection(bootstrap) as admin:
        rawkafka.create_topic_and_wait(admin, topic, PARTITIONS)
        ok, partitions = check(f"{writer} loads {megabytes:.1f} MB as {codec}",
                               lambda: load(writer, bootstrap, topic, codec, path))
        if not ok:
            return 1
        failed = not check(f"stored as {codec} by {writer}", lambda: codecs(bootstrap, topic, codec))[0]
        for reader in readers:
            failed += not check(f"{reader} drains {codec} of {writer}",
                                lambda: drain(reader, bootstrap, topic, path, partitions))[0]
    with rawkafka.Connection(bootstrap) as admin:
        rawkafka.delete_topic(admin, topic)
    return failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("--only", default="", help="WRITER or WRITER:CODEC")
    parser.add_argument("--every-reader", action="store_true", help="each topic through every client that reads")
    args = parser.parse_args()
    jobs = []
    for writer, paths in files().items():
        for codec, reader, path in zip(clients.CODECS, READERS[writer], paths):
            if not f"{writer}:{codec}".startswith(args.only):
                continue
            readers = [client.name for client in clients.ALL if "drain" in client.verbs and codec in client.reads] if args.every_reader else [reader]
            try:
                needed = "java" if writer == "java-console" else writer
                for name in (needed, *readers):
                    clients.BY_NAME[name].command("drain")
            except tools.Missing as missing:
                print(f"SKIP {writer} to {' '.join(readers)} with {codec}: {missing}", flush=True)
                continue
            expected(path)
            jobs.append((writer, codec, readers, path))
    jobs.sort(key=lambda job: clients.CODECS.index(job[1]))  # so that the slow clients do not meet each other
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        failed = sum(pool.map(lambda job: judge(args.bootstrap, *job), jobs))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
