"""Promises seen from the wire: `promises.py HOST:PORT [--reference]`.

What clients may rely on here, in part beyond Apache Kafka (those checks are
left out with --reference): a created topic is at once usable on every
connection, a deleted one at once unknown, stored bytes are the producer's
bytes, retries of idempotent producers are answered as the first time.
"""

import argparse
import gzip
import os
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
from messages import decode_response, encode_request, uvarint  # noqa: E402
from rawkafka import (Connection, batch, create_topic, create_topic_and_wait, delete_records, delete_topic, offsets, produce, record,  # noqa: E402
                      stored_batches)

TOPICS = 40


class Bench:
    def __init__(self, bootstrap):
        self.bootstrap, self.count = bootstrap, 0
        self.admin = Connection(bootstrap)

    def topic(self):
        name = self.name()
        create_topic_and_wait(self.admin, name)
        return name

    def name(self):
        self.count += 1
        return f"promise-{os.getpid()}-{self.count}"

    def connect(self):
        return Connection(self.bootstrap)


def equal(got, want, what):
    assert got == want, f"{what} is {got}, expected {want}"


def usable_at_once(bench):
    """A created topic is at once usable on connections that are open and new."""
    with bench.connect() as open_before:
        for _ in range(TOPICS):
            name = bench.name()
            equal(create_topic(bench.admin, name, 4), 0, "error of CreateTopics")
            with bench.connect() as fresh:
                for connection in (open_before, fresh):
                    for partition in range(4):
                        equal(produce(connection, name, partition, batch())["error_code"], 0, f"error of produce to {name}-{partition}")
                        equal(offsets(connection, name, partition)[0], 0, "error of ListOffsets")
                found = fresh.call(3, 9, topics=[{"name": name}], allow_auto_topic_creation=False)["topics"][0]
                equal((found["error_code"], len(found["partitions"])), (0, 4), "metadata")


def unknown_at_once(bench):
    """A deleted topic is at once unknown on every connection."""
    with bench.connect() as other:
        for _ in range(TOPICS // 2):
            name = bench.name()
            create_topic(bench.admin, name)
            produce(other, name, 0, batch())
            equal(delete_topic(bench.admin, name), 0, "error of DeleteTopics")
            equal(produce(other, name, 0, batch())["error_code"], 3, "error of produce to a deleted topic")
            found = other.call(3, 9, topics=[{"name": name}], allow_auto_topic_creation=False)["topics"][0]
            equal(found["error_code"], 3, "error of metadata of a deleted topic")


def bytes_stay(bench):
    """Fetched batches are the produced bytes, but for base offset and leader epoch."""
    name = bench.topic()
    plain = b"".join(record(i, key=b"k%d" % i, value=b"v" * 100) for i in range(50))
    sent = [batch([b"x"] * 50, payload=plain), batch([b"x"] * 50, payload=gzip.compress(plain), attributes=1),
            batch([b"x"] * 50, payload=snappy_literal(plain), attributes=2),
            batch([b"x"] * 50, payload=lz4_literal(plain), attributes=3),
            batch([b"x"] * 50, payload=zstd_raw(plain), attributes=4)]
    for raw in sent:
        equal(produce(bench.admin, name, 0, raw)["error_code"], 0, "error of produce")
    found = list(stored_batches(bench.admin, name, 0))
    equal([f["base_offset"] for f in found], [0, 50, 100, 150, 200], "base offsets")
    for raw, got in zip(sent, found):
        equal(got["bytes"][8:12], raw[8:12], "length")
        equal(got["bytes"][16:], raw[16:], f"bytes of the {got['codec']} batch behind the leader epoch")


def snappy_literal(raw):
    """One raw snappy block made of a single literal."""
    return uvarint(len(raw)) + bytes([61 << 2]) + (len(raw) - 1).to_bytes(2, "little") + raw


def lz4_literal(raw):
    """An LZ4 frame with one block that is stored as it is."""
    descriptor = b"\x60\x40"
    return b"\x04\x22\x4d\x18" + descriptor + bytes([_xxh32(descriptor) >> 8 & 0xFF]) + (
        len(raw) | 0x80000000).to_bytes(4, "little") + raw + bytes(4)


def _xxh32(raw):
    """xxHash32 of fewer than four bytes."""
    mask = 0xFFFFFFFF
    value = 374761393 + len(raw) & mask
    for byte in raw:
        value = value + byte * 374761393 & mask
        value = (value << 11 | value >> 21) * 2654435761 & mask
    value = (value ^ value >> 15) * 2246822519 & mask
    value = (value ^ value >> 13) * 3266489917 & mask
    return value ^ value >> 16


def zstd_raw(raw):
    """A zstd frame of one raw block."""
    header = b"\x28\xb5\x2f\xfd" + b"\x60" + (len(raw) - 256).to_bytes(2, "little")
    return header + (len(raw) << 3 | 1).to_bytes(3, "little") + raw


def producer_id(connection):
    for _ in range(100):
        answer = connection.call(22, 4)
        if answer["error_code"] == 0:
            return answer["producer_id"]
        time.sleep(0.1)
    raise AssertionError(f"no producer id: {answer}")


def sequenced(pid, sequence, count=1, epoch=0):
    return batch([b"s"] * count, producer_id=pid, producer_epoch=epoch, base_sequence=sequence)


def duplicates(bench):
    """A retry of one of the last five batches is answered as the first time, and stored once."""
    name, pid = bench.topic(), producer_id(bench.admin)
    first = [produce(bench.admin, name, 0, sequenced(pid, 3 * i, 3)) for i in range(8)]
    equal([a["base_offset"] for a in first], [3 * i for i in range(8)], "base offsets")
    for i in range(3, 8):
        again = produce(bench.admin, name, 0, sequenced(pid, 3 * i, 3))
        equal((again["error_code"], again["base_offset"]), (0, 3 * i), f"answer to the retry of batch {i}")
    equal(offsets(bench.admin, name, 0)[1], 24, "log end")


def gaps(bench):
    """A gap in the sequence is 45, an older epoch 47, a new epoch starts at 0."""
    name, pid = bench.topic(), producer_id(bench.admin)
    equal(produce(bench.admin, name, 0, sequenced(pid, 0))["error_code"], 0, "first batch")
    equal(produce(bench.admin, name, 0, sequenced(pid, 5))["error_code"], 45, "error of a gap")
    equal(produce(bench.admin, name, 0, sequenced(pid, 1))["error_code"], 0, "the right next")
    equal(produce(bench.admin, name, 0, sequenced(pid, 7, epoch=1))["error_code"], 45, "a new epoch at sequence 7")
    equal(produce(bench.admin, name, 0, sequenced(pid, 0, epoch=1))["error_code"], 0, "a new epoch at sequence 0")
    equal(produce(bench.admin, name, 0, sequenced(pid, 2))["error_code"], 47, "error of the old epoch")
    equal(offsets(bench.admin, name, 0)[1], 3, "log end")


def wrap(bench):
    """Sequence 0 follows 2147483647, also inside a batch."""
    name, pid = bench.topic(), producer_id(bench.admin)
    equal(produce(bench.admin, name, 0, sequenced(pid, 2147483640, 8))["error_code"], 0, "up to the largest")
    equal(produce(bench.admin, name, 0, sequenced(pid, 1))["error_code"], 45, "1 after the largest")
    equal(produce(bench.admin, name, 0, sequenced(pid, 0))["error_code"], 0, "0 after the largest")
    name, pid = bench.topic(), producer_id(bench.admin)
    for expected in (0, 0):
        equal(produce(bench.admin, name, 0, sequenced(pid, 2147483645, 6))["base_offset"], expected, "wrapping inside, and its retry")
    equal(produce(bench.admin, name, 0, sequenced(pid, 3))["error_code"], 0, "after a wrap inside")


def unique_ids(bench):
    """Ten connections get producer ids without a repeat."""
    found, lock = [], threading.Lock()

    def take():
        with bench.connect() as connection:
            mine = [producer_id(connection) for _ in range(200)]
        with lock:
            found.extend(mine)

    takers = [threading.Thread(target=take) for _ in range(10)]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join()
    equal(len(set(found)), 2000, "number of different ids of 2000")


def concurrent_offsets(bench):
    """Sixteen producers on one partition: their offsets touch, and each record is its sender's."""
    name, acked, lock = bench.topic(), [], threading.Lock()

    def send(who):
        with bench.connect() as connection:
            for i in range(50):
                values = [b"%d-%d-%d" % (who, i, j) for j in range(who % 5 + 1)]
                base = produce(connection, name, 0, batch(values))["base_offset"]
                with lock:
                    acked.append((base, values))

    senders = [threading.Thread(target=send, args=(who,)) for who in range(16)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    following, stored = 0, {f["base_offset"]: f["bytes"][61:] for f in stored_batches(bench.admin, name, 0)}
    for base, values in sorted(acked):
        equal(base, following, "next base offset")
        equal(stored[base], b"".join(record(i, value=v) for i, v in enumerate(values)), f"records at {base}")
        following += len(values)
    equal(offsets(bench.admin, name, 0)[1], following, "log end")


def long_poll(bench):
    """A fetch at the end waits for data, ends soon after it came, and not before."""
    name = bench.topic()
    with bench.connect() as reader:
        wanted = [{"name": name, "partitions": [{"index": 0, "fetch_offset": 0}]}]
        started = time.monotonic()
        equal(len(reader.call(1, 11, max_wait_ms=300, topics=wanted)["topics"][0]["partitions"][0]["records"] or b""), 0, "bytes")
        waited = time.monotonic() - started
        assert 0.25 <= waited <= 2, f"an empty fetch of 300 ms took {waited:.3f} s"
        reader.request(1, 11, encode_request(1, 11, {"max_wait_ms": 10_000, "topics": wanted})[0])
        time.sleep(0.3)
        produce(bench.admin, name, 0, batch([b"wake"]))
        acked = time.monotonic()
        answer = decode_response(1, 11, reader.response(1, 11))
        late = time.monotonic() - acked
        assert answer["topics"][0]["partitions"][0]["records"], "the fetch came back empty"
        assert late <= 1, f"the fetch came {late:.3f} s after the data"


def deleted_records(bench):
    """Deleted records are gone for every reader, and the low watermark is where the log starts."""
    name = bench.topic()
    for _ in range(10):
        produce(bench.admin, name, 0, batch([b"x"] * 10))
    with bench.connect() as reader:
        def fetch(offset):
            return reader.call(1, 11, max_wait_ms=0, topics=[{"name": name, "partitions": [
                {"index": 0, "fetch_offset": offset}]}])["topics"][0]["partitions"][0]
        for before, low in ((0, 0), (25, 25), (7, 25), (-1, 100)):
            equal(delete_records(bench.admin, name, 0, before), (0, low), f"answer to the deletion before {before}")
            equal(offsets(reader, name, 0, -2), (0, low), "earliest")
            got = fetch(low)
            equal((got["error_code"], got["log_start_offset"]), (0, low), "fetch at the log start")
            if low:
                equal(fetch(low - 1)["error_code"], 1, "error of fetch below the log start")
        for beyond in (101, -2):
            equal(delete_records(bench.admin, name, 0, beyond), (1, -1), f"answer to the deletion before {beyond}")
        equal(produce(bench.admin, name, 0, batch())["base_offset"], 100, "next offset")


BEYOND_KAFKA = (usable_at_once, unknown_at_once)
CHECKS = [usable_at_once, unknown_at_once, bytes_stay, duplicates, gaps, wrap, unique_ids, concurrent_offsets, long_poll,
          deleted_records]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("--reference", action="store_true")
    args = parser.parse_args()
    bench, failed = Bench(args.bootstrap), 0
    for check in CHECKS:
        if args.reference and check in BEYOND_KAFKA:
            continue
        name = check.__doc__.rstrip(".")
        try:
            check(bench)
            print(f"PASS {name}", flush=True)
        except Exception as error:  # whatever it was, the promise was not kept
            failed += 1
            print(f"FAIL {name}: {error!r}", flush=True)
            bench = Bench(args.bootstrap)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
