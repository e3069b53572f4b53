"""Every client writes, others read: `matrix.py HOST:PORT [--writers A,B] [--readers A,B]`.

Each writer sends the record set (lib/recordset.py) with each codec that it
knows to a topic of three partitions. The stored batches must carry that codec,
and the offsets that the writer was told must be those stored. Then the writer
itself and other clients in turn read the topic by assignment, and must show
every record unchanged. A client that cannot be installed is skipped.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import clients  # noqa: E402
import rawkafka  # noqa: E402
import recordset  # noqa: E402
import tools  # noqa: E402

SECONDS_MAX = 90
OTHERS = 2  # readers of each topic besides its writer


class Wrong(Exception):
    """A check failed, for this reason."""


def run(command):
    """Standard output of a client program; its failure is the check's failure."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired as error:
        raise Wrong(f"{os.path.basename(command[0])} did not end within {SECONDS_MAX} s: {tail(error.stderr)}") from error
    if done.returncode:
        raise Wrong(f"exit code {done.returncode}: {tail(done.stderr)}")
    return done.stdout


def tail(text):
    text = text.decode(errors="replace") if isinstance(text, bytes) else text or ""
    return " | ".join(line.strip() for line in text.strip().splitlines()[-6:])[-1500:]


def write(writer, bootstrap, topic, codec, rows):
    """Produces, then checks the told offsets and the stored codec."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as source:
        source.writelines(json.dumps(row) + "\n" for row in rows)
        source.flush()
        told = [json.loads(line) for line in run(writer.command("produce", bootstrap, topic, codec, source.name)).splitlines()]
    expected, following = [], {}
    for row in rows:
        following[row["p"]] = following.get(row["p"], -1) + 1
        expected.append({"p": row["p"], "o": following[row["p"]]})
    if len(told) != len(rows):
        raise Wrong(f"{len(told)} records acknowledged of {len(rows)}")
    for got, want in zip(told, expected):
        if got["o"] is not None and got != want:
            raise Wrong(f"acknowledged as {got}, expected {want}")
    found = rawkafka.codecs(bootstrap, topic)
    # A client may send a batch that compression would not shrink as it is.
    if codec not in found or set(found) - {codec, "none"} or found[codec] < found.get("none", 0):
        raise Wrong(f"stored batches are {found}")


def read(reader, bootstrap, topic, rows, writer):
    """Consumes and compares record by record."""
    got = {}
    for line in run(reader.command("consume", bootstrap, topic)).splitlines():
        row = json.loads(line)
        got.setdefault(row["p"], []).append(row)
    for partition in range(recordset.PARTITIONS):
        wanted = [row for row in rows if row["p"] == partition]
        shown = sorted(got.get(partition, []), key=lambda row: row["o"])
        if [row["o"] for row in shown] != list(range(len(wanted))):
            raise Wrong(f"partition {partition}: offsets {[row['o'] for row in shown][:5]}.. ({len(shown)}),"
                        f" expected 0..{len(wanted) - 1}")
        for want, row in zip(wanted, shown):
            compare(want, row, reader, writer)


def compare(want, row, reader, writer):
    needs = set(want["features"])
    for field in ("ts", "k", "v", "h"):
        if field == "ts" and "timestamp" in writer.lacks or field == "h" and needs & reader.blind:
            continue
        if want[field] != row[field]:
            raise Wrong(f"offset {row['o']} of partition {row['p']}: {field} is {str(row[field])[:200]},"
                        f" expected {str(want[field])[:200]}")


def readers_of(turn, writer, readers, rows, codec):
    """The writer itself and the next ones in turn, without those that choke on a row or do not know the codec."""
    used = {feature for row in rows for feature in row["features"]}
    chosen = [writer] if writer in readers else []
    others = [client for client in readers if client is not writer and not client.chokes & used and codec in client.reads]
    for i in range(min(OTHERS, len(others))):
        chosen.append(others[(turn + i) % len(others)])
    return chosen


def available(names):
    """The clients of that name that are here or can be brought in."""
    found = []
    for client in clients.ALL:
        if names and client.name not in names:
            continue
        try:
            client.command("produce")
            found.append(client)
        except (tools.Missing, subprocess.CalledProcessError) as error:
            print(f"SKIP client {client.name}: {error}", flush=True)
    return found


def check(name, action):
    """Prints the line of one check; whether it passed."""
    started = time.monotonic()
    try:
        action()
    except Wrong as wrong:
        print(f"FAIL {name}: {wrong}", flush=True)
        return False
    print(f"PASS {name} ({time.monotonic() - started:.1f} s)", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("--writers", type=lambda text: text.split(","), default=[])
    parser.add_argument("--readers", type=lambda text: text.split(","), default=[])
    args = parser.parse_args()
    writers = available(args.writers)
    readers = [client for client in available(args.readers) if "consume" in client.verbs]
    stamp, turn, failed = f"{os.getpid()}-{int(time.time())}", 0, 0
    with rawkafka.Connection(args.bootstrap) as admin:
        for writer in writers:
            rows = recordset.records(writer.lacks)
            for codec in writer.codecs:
                topic = f"matrix-{writer.name}-{codec}-{stamp}"
                rawkafka.create_topic_and_wait(admin, topic, recordset.PARTITIONS)
                ok = check(f"{writer.name} writes {codec}", lambda: write(writer, args.bootstrap, topic, codec, rows))
                failed += not ok
                for reader in readers_of(turn, writer, readers, rows, codec) if ok else []:
                    failed += not check(f"{reader.name} reads {codec} of {writer.name}",
                                        lambda: read(reader, args.bootstrap, topic, rows, writer))
                turn += OTHERS
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
