"""F28: size limits agree with each other, and a batch that went in comes out.

Limits of batch, segment, request, fetch; one bad partition among good ones;
many partitions in one fetch. Compaction, re-compression, replication and MQTT
have no tests here.
"""

import struct
import time

import zstandard

import hotpath
from bench import (Closed, Ledger, fetch_from, log_end, one_batch, produce_batch, read_partition, read_topic,
                   topic_made)
from ledger import payload
from rawkafka import batch, record

MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE = 10, 18
KIBIBYTE, MEBIBYTE = 1024, 1 << 20
LIMIT = 100 * KIBIBYTE


def _batch_of(size):
    """An uncompressed batch of exactly `size` bytes with one record."""
    value = size - 80
    while True:
        raw = hotpath.build_batch([b"x" * value])
        if len(raw) == size:
            return raw
        value += size - len(raw)


def _alter(connection, topic, **settings):
    answer = connection.call(44, 0, resources=[{"resource_type": 2, "resource_name": topic, "configs": [
        {"name": key.replace("_", "."), "op": 0, "value": str(value)} for key, value in settings.items()]}])
    assert answer["responses"][0]["error_code"] == 0, answer


def test_the_limit_is_exact_and_counts_the_batch_as_stored(make_broker):
    broker = make_broker()
    with broker.connect() as connection:
        topic_made(connection, "sized", 1, {"max.message.bytes": str(LIMIT)})
        for size, wanted in ((LIMIT - 1, 0), (LIMIT, 0), (LIMIT + 1, MESSAGE_TOO_LARGE), (5 * MEBIBYTE, MESSAGE_TOO_LARGE)):
            code, _, _ = produce_batch(connection, "sized", 0, _batch_of(size))
            assert code == wanted, f"batch of {size} bytes against a limit of {LIMIT}: error {code}"
        packed = zstandard.compress(b"".join(record(n, value=b"word " * 1000) for n in range(1000)))
        raw = batch([b""] * 1000, attributes=4, payload=packed)
        assert len(raw) < 50 * KIBIBYTE
        code, base, _ = produce_batch(connection, "sized", 0, raw)
        assert (code, base) == (0, 2), "5 MiB that compress to less than the limit were refused"
        assert log_end(connection, "sized", 0) == 1002, "a refused batch took offsets"


def test_only_the_bad_partition_of_a_request_is_refused(make_broker):
    broker = make_broker()
    with broker.connect() as connection:
        topic_made(connection, "ten", 10, {"max.message.bytes": str(LIMIT)})
        parts = [(p, _batch_of(LIMIT + 1) if p == 4 else hotpath.build_batch([b"good"])) for p in range(10)]
        connection.correlation += 1
        connection.send(hotpath.produce_frame(connection.correlation, "ten", [*parts, (99, hotpath.build_batch([b"no"]))]))
        _, answers = hotpath.produce_answer(connection.receive())
        codes = {p: code for p, (code, _, _) in answers.items()}
        assert codes == {**dict.fromkeys(range(10), 0), 4: MESSAGE_TOO_LARGE, 99: 3}
        assert [log_end(connection, "ten", p) for p in range(10)] == [1, 1, 1, 1, 0, 1, 1, 1, 1, 1]


def test_a_lowered_limit_leaves_older_batches_readable_also_after_a_restart(make_broker):
    broker = make_broker()
    with broker.connect() as connection:
        topic_made(connection, "lowered")
        for _ in range(5):
            assert produce_batch(connection, "lowered", 0, _batch_of(500_000))[0] == 0
        _alter(connection, "lowered", max_message_bytes=1000)
        assert produce_batch(connection, "lowered", 0, _batch_of(1001))[0] == MESSAGE_TOO_LARGE
        assert produce_batch(connection, "lowered", 0, _batch_of(1000))[0] == 0
    for stop in (lambda: None, broker.kill9, broker.stop):
        stop()
        if not broker.running():
            broker.start()
        with broker.connect() as connection:
            assert len(read_partition(connection, "lowered", 0, check=False)) == 6
            assert produce_batch(connection, "lowered", 0, _batch_of(1001))[0] == MESSAGE_TOO_LARGE


def test_a_batch_larger_than_a_segment_is_refused_and_the_next_one_is_not(make_broker):
    broker = make_broker()
    with broker.connect() as connection:
        topic_made(connection, "small", 1, {"segment.bytes": "65536"})
        assert produce_batch(connection, "small", 0, _batch_of(65536))[0] == 0, "a batch of exactly segment.bytes fits a segment"
        code, _, message = produce_batch(connection, "small", 0, _batch_of(65537))
        assert code == RECORD_LIST_TOO_LARGE, f"error {code} ({message})"
        for _ in range(5):
            assert produce_batch(connection, "small", 0, _batch_of(40_000))[0] == 0
        assert len(read_partition(connection, "small", 0, check=False)) == 6


def test_the_largest_request_is_served_and_one_byte_more_is_closed(make_broker):
    limit = 4 * MEBIBYTE
    broker = make_broker(settings={"socket.request.max.bytes": str(limit)})
    with broker.connect() as connection:
        topic_made(connection, "big", 1, {"max.message.bytes": str(2 * limit)})
    head = len(hotpath.produce_frame(1, "big", [(0, b"")])) - 4
    for over in (-1, 0, 1):
        with broker.connect() as connection:
            frame = hotpath.produce_frame(1, "big", [(0, _batch_of(limit - head + over))])
            assert len(frame) - 4 == limit + over
            try:
                connection.send(frame)
                _, answers = hotpath.produce_answer(connection.receive())
                assert over <= 0, "a request above socket.request.max.bytes was served"
                assert answers[0][0] == 0, answers
            except Closed:
                assert over == 1, f"a request of {over} bytes against the limit was closed"


def test_the_smallest_fetch_limits_still_pass_every_batch(make_broker):
    """KIP-74: the first batch of the first non-empty partition comes whole, and only that one."""
    broker, ledger = make_broker(), Ledger()
    with broker.connect() as connection:
        topic_made(connection, "pass", 3, {"segment.bytes": "1048576"})
        for partition in (1, 2):
            for _ in range(6):
                one_batch(connection, ledger, "pass", partition, 20, value_bytes=20_000)
        offset, answers = 0, 0
        while offset < 120:
            got = fetch_from(connection, "pass", 1, offset, max_bytes=1, wait_ms=2000, min_bytes=100 * MEBIBYTE)
            batches = list(hotpath.split_batches(got.records))
            assert len(batches) == 1, f"{len(batches)} batches at offset {offset} with max_bytes 1"
            assert batches[0].base_offset == offset and len(got.records) == len(batches[0].raw)
            offset, answers = batches[0].last_offset + 1, answers + 1
        assert answers == 6
        answer = connection.call(1, 11, max_wait_ms=500, max_bytes=1, topics=[{"name": "pass", "partitions": [
            {"index": p, "fetch_offset": 0, "partition_max_bytes": 1} for p in range(3)]}])
        sizes = [len(p["records"] or b"") for p in answer["topics"][0]["partitions"]]
        assert sizes[0] == 0 and sizes[1] > 400_000 and sizes[2] == 0, f"bytes by partition: {sizes}"


def test_min_bytes_above_what_there_is_waits_max_wait_and_answers(make_broker):
    broker, ledger = make_broker(), Ledger()
    with broker.connect() as connection:
        topic_made(connection, "wait")
        one_batch(connection, ledger, "wait", 0, 1)
        for min_bytes in (10_000, 100 * MEBIBYTE, 2 ** 31 - 1):
            began = time.monotonic()
            got = fetch_from(connection, "wait", 0, 0, wait_ms=700, min_bytes=min_bytes)
            took = time.monotonic() - began
            assert got.records and 0.6 < took < 3, f"min_bytes {min_bytes}: {took:.2f} s, {len(got.records)} bytes"


def test_fetch_max_bytes_is_shared_over_all_partitions(make_broker):
    """3000 partitions in one request: within the limit, in a few requests everything comes."""
    broker, ledger, partitions = make_broker(), Ledger(), 3000
    with broker.connect(timeout=60) as connection:
        topic_made(connection, "wide", partitions)
        parts = []
        for partition in range(partitions):
            ids = ledger.ids(1, partition)
            parts.append((partition, hotpath.build_batch([payload(ids[0], 1000)])))
        connection.correlation += 1
        connection.send(hotpath.produce_frame(connection.correlation, "wide", parts))
        _, answers = hotpath.produce_answer(connection.receive())
        assert {code for code, _, _ in answers.values()} == {0}, "one produce to 3000 partitions was not taken whole"
        left, seen, rounds, limit = set(range(partitions)), {}, 0, 256 * KIBIBYTE
        while left:
            rounds += 1
            assert rounds < 60, f"{len(left)} partitions starve"
            answer = connection.call(1, 11, max_wait_ms=500, max_bytes=limit, topics=[{"name": "wide", "partitions": [
                {"index": p, "fetch_offset": 0, "partition_max_bytes": MEBIBYTE} for p in sorted(left)]}])
            total = 0
            for row in answer["topics"][0]["partitions"]:
                assert row["error_code"] == 0, row
                if row["records"]:
                    total += len(row["records"])
                    seen[row["index"]] = row["records"]
                    left.discard(row["index"])
            assert total <= limit + 2000, f"{total} bytes of records against a limit of {limit}"
        assert len(seen) == partitions


def test_partition_limit_cuts_on_batch_boundaries(make_broker):
    broker, ledger = make_broker(), Ledger()
    with broker.connect() as connection:
        topic_made(connection, "cut")
        for _ in range(50):
            one_batch(connection, ledger, "cut", 0, 1, value_bytes=1000)
        for limit in (1, 1000, 1100, 2500, 10_000, 33_333):
            got = fetch_from(connection, "cut", 0, 3, max_bytes=limit)
            batches = list(hotpath.split_batches(got.records))
            assert sum(len(b.raw) for b in batches) == len(got.records), f"limit {limit}: the answer ends inside a batch"
            assert len(got.records) <= max(limit, len(batches[0].raw)), f"limit {limit}: {len(got.records)} bytes"
    ledger.verify(read_topic(broker.address, "cut", 1))


def test_a_batch_beside_another_in_one_partition_entry_is_refused(make_broker):
    """Produce v3 and up: one batch a partition; nothing of the two is stored."""
    broker = make_broker()
    with broker.connect() as connection:
        topic_made(connection, "pair")
        two = hotpath.build_batch([b"one"]) + hotpath.build_batch([b"two"])
        code, _, _ = produce_batch(connection, "pair", 0, two)
        assert code == 87, f"error {code}"
        assert log_end(connection, "pair", 0) == 0
        for raw in (b"", two[:30], struct.pack(">qi", 0, 2 ** 31 - 1) + two[12:]):
            code, _, _ = produce_batch(connection, "pair", 0, raw)
            assert code in (2, 87), f"{len(raw)} bytes as a batch: error {code}"
        assert log_end(connection, "pair", 0) == 0
