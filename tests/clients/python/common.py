"""What the Python client programs share: their verbs and the checksums.

Every client program, whatever its language, is called the same way:

    PROGRAM produce BOOTSTRAP TOPIC CODEC FILE   FILE: JSON lines {p, ts, k, v, h}; prints JSON lines {p, o}
    PROGRAM consume BOOTSTRAP TOPIC              prints JSON lines {p, o, ts, k, v, h}
    PROGRAM load    BOOTSTRAP TOPIC CODEC FILE   line i of FILE goes to partition i mod 16; prints a digest
    PROGRAM drain   BOOTSTRAP TOPIC              reads all partitions to their end; prints a digest
    PROGRAM group   BOOTSTRAP TOPIC GROUP [ID [PROTOCOL]]   reads as a member of a group, until SIGTERM

k, v and header values are hex or null; h is a list of [name, value]. A digest
is {count, bytes, sum, partitions}: `sum` adds the MD5 of every value modulo
2^128, so it does not depend on order; partitions[p] is [count, MD5 over the
MD5s of the values in offset order]. Consumption is by assignment, or, by
clients that know none, by a group of their own. An error ends the program with
a message and exit code 1.

A member of a group is a static one with an ID other than "-". PROTOCOL is
"classic" or, for clients that know it, "consumer" (KIP-848), where the broker
assigns and says when heartbeats are due, or "cooperative", with the
cooperative-sticky assignor (KIP-429). Otherwise it uses the range assignor. A
member has a session of 6 s and a heartbeat every 0.5 s, starts at the earliest record where nothing is committed, and
commits what it took after every batch, before it takes more or gives partitions
away. It prints JSON lines at once: {"assigned": [partition, ...]},
{"revoked": [...] or null for all}, {"record": [partition, offset]} for each
record taken, {"committed": {partition: offset}} when a commit was answered. On
SIGTERM it leaves (a static member only goes) and ends with exit code 0.
"""

import hashlib
import json
import signal
import sys

PARTITIONS = 16


class Digest:
    """Order-independent over all partitions, ordered within each."""

    def __init__(self):
        self.count = self.bytes = self.sum = 0
        self.ordered, self.counts = {}, {}

    def add(self, partition, value):
        digest = hashlib.md5(value).digest()
        self.count += 1
        self.bytes += len(value)
        self.sum += int.from_bytes(digest, "big")
        if partition not in self.ordered:
            self.ordered[partition], self.counts[partition] = hashlib.md5(), 0
        self.ordered[partition].update(digest)
        self.counts[partition] += 1

    def show(self):
        return {"count": self.count, "bytes": self.bytes, "sum": f"{self.sum % (1 << 128):032x}",
                "partitions": {str(p): [self.counts[p], self.ordered[p].hexdigest()] for p in sorted(self.ordered)}}


def lines(path):
    """(partition, line) of a file, without the newlines."""
    with open(path, "rb") as source:
        for i, line in enumerate(source):
            yield i % PARTITIONS, line.rstrip(b"\n")


def records(path):
    """(partition, timestamp, key, value, headers) of a JSON lines file."""
    with open(path, encoding="utf-8") as source:
        for line in source:
            row = json.loads(line)
            yield (row["p"], row["ts"], _bytes(row["k"]), _bytes(row["v"]),
                   [(name, _bytes(value)) for name, value in row["h"]])


def show_record(partition, offset, timestamp, key, value, headers):
    print(json.dumps({"p": partition, "o": offset, "ts": timestamp, "k": _hex(key), "v": _hex(value),
                      "h": [[name, _hex(content)] for name, content in headers]}))


def show(**row):
    """One line, at once."""
    sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


class Stopped:
    """True from SIGTERM on."""

    def __init__(self):
        self.stopped = False
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, *_):
        self.stopped = True

    def __bool__(self):
        return self.stopped


def main(client):
    """Runs the verb that the command line names on `client`, a module or object."""
    verb, *rest = sys.argv[1:]
    try:
        answer = getattr(client, verb)(*rest)
    except Exception as error:
        print(f"{verb} {' '.join(rest)}: {error!r}", file=sys.stderr)
        raise SystemExit(1) from error
    if isinstance(answer, Digest):
        print(json.dumps(answer.show()))


def _bytes(text):
    return None if text is None else bytes.fromhex(text)


def _hex(raw):
    return None if raw is None else raw.hex()
