"""F20: offsets by time name the record itself, inside compressed and shuffled batches, with the indexes or without.

Held to a plain list of (offset, stamp): the smallest offset at or behind the log start whose stamp is late
enough, -1 when there is none, and for -3 the record with the largest stamp.
"""

import gzip
import os
import random
import time

import pytest
from bench import budget, data_files, delete_records, log_end, log_start, read_batches, topic_made, until
from hotpath import fetch
from rawkafka import Raw, batch, batches, produce, record
from rawtxn import TRANSACTIONAL, Transactional, _records, wait_for_transactions
from test_f27_codecs import GZIP, LZ4, SNAPPY, ZSTD, _lz4, _xerial, _zstd
from test_f34_settings import SET, _alter

PACK = {"none": (0, bytes), "gzip": (GZIP, gzip.compress), "snappy": (SNAPPY, _xerial), "lz4": (LZ4, _lz4), "zstd": (ZSTD, _zstd)}
BASE, RECORDS, BATCHES, SEED = 1_700_000_000_000, 100, 12, 20
LATEST, EARLIEST, LARGEST = -1, -2, -3
COMMITTED = 1


def stamps_of(chance, number):
    """A hundred stamps in no order, some of them equal, that overlap those of the batches around."""
    return [BASE + number * 1000 + chance.randrange(2500) // 3 * 3 for _ in range(RECORDS)]


def packed(codec, stamps, chance, key=None, **over):
    """A batch of records with these stamps."""
    attributes, pack = PACK[codec]
    first = stamps[0]
    rows = [record(n, key=key and key(n), value=chance.randbytes(60), timestamp_delta=stamp - first)
            for n, stamp in enumerate(stamps)]
    return batch([Raw(row) for row in rows], payload=pack(b"".join(rows)), base_timestamp=first,
                 max_timestamp=max(stamps), **{**over, "attributes": attributes | over.get("attributes", 0)})


def answer(connection, topic, timestamp, isolation=0):
    """(offset, stamp, leader epoch) of ListOffsets."""
    row = connection.call(2, 7, isolation_level=isolation, topics=[
        {"name": topic, "partitions": [{"index": 0, "timestamp": timestamp}]}])["topics"][0]["partitions"][0]
    assert row["error_code"] == 0, row
    return row["offset"], row["timestamp"], row["leader_epoch"]


def hold_to(connection, topic, rows, isolation=0, end=None):
    """Stamps and what lies between them, before the first and behind the last, and the three that are no time."""
    start = log_start(connection, topic, 0)
    live = [(offset, stamp) for offset, stamp in rows if offset >= start and (end is None or offset < end)]
    epochs = {}
    for one in read_batches(connection, topic, 0):
        epochs.update(dict.fromkeys(range(one.base_offset, one.last_offset + 1), one.leader_epoch))
    every = sorted({stamp for _, stamp in rows} | {stamp + 1 for _, stamp in rows})
    asked = random.Random(start).sample(every, min(len(every), budget(30, 10_000)))
    for target in [every[0] - 1, *asked, every[-1] - 1, every[-1], every[-1] + 10**9]:
        found = [(offset, stamp) for offset, stamp in live if stamp >= target]
        offset, stamp, epoch = answer(connection, topic, target, isolation)
        wanted = found[0] if found else (-1, -1)
        assert (offset, stamp) == wanted, f"{topic}: at or behind {target}: {(offset, stamp)}, and {wanted} is there"
        assert not found or epoch == epochs[offset], f"{topic}: offset {offset} is of epoch {epochs[offset]}, not {epoch}"
    assert answer(connection, topic, EARLIEST)[0] == start
    assert answer(connection, topic, LATEST)[0] == log_end(connection, topic, 0)
    largest = max(live, key=lambda row: (row[1], -row[0]))
    assert answer(connection, topic, LARGEST, isolation)[:2] == largest


def filled(connection, topic, codec, chance, key=None):
    """The topic with its records; [(offset, stamp)] in order."""
    rows = []
    for number in range(BATCHES):
        stamps = stamps_of(chance, number)
        row = produce(connection, topic, 0, packed(codec, stamps, chance, key))
        assert row["error_code"] == 0, f"{codec}: {row}"
        rows += [(row["base_offset"] + n, stamp) for n, stamp in enumerate(stamps)]
    return rows


@pytest.mark.parametrize("codec", PACK)
def test_answers_are_the_records_themselves_over_restarts_without_indexes_and_deletions(codec, make_broker):
    broker, chance = make_broker(), random.Random(f"{SEED}-{codec}")
    with broker.connect(timeout=30) as connection:
        topic_made(connection, "times", configs={"segment.bytes": "32768", "retention.ms": "-1"})
        rows = filled(connection, "times", codec, chance)
        hold_to(connection, "times", rows)
    assert len(data_files(broker.data_dir, "times", ".log")) > 1, "all in one segment"
    for how in (broker.stop, broker.kill9):
        how()
        for path in data_files(broker.data_dir, "times", ".timeindex"):
            os.unlink(path)
        broker.start()
        with broker.connect(timeout=30) as connection:
            hold_to(connection, "times", rows)
    with broker.connect(timeout=30) as connection:
        # Into a segment, into a batch, and up to the last record.
        for before in (RECORDS * 5 + 50, RECORDS * BATCHES - 1):
            assert delete_records(connection, "times", 0, before) == (0, before)
            hold_to(connection, "times", rows)
    broker.kill9()
    broker.start()
    with broker.connect(timeout=30) as connection:
        hold_to(connection, "times", rows)


def test_readers_of_committed_records_are_told_nothing_of_an_open_transaction(make_broker):
    broker, chance = make_broker(), random.Random(SEED)
    with broker.connect(timeout=30) as connection:
        wait_for_transactions(connection)
        topic_made(connection, "times", configs={"retention.ms": "-1"})
        rows = filled(connection, "times", "gzip", chance)
        with Transactional(broker.address, "teller") as producer:
            producer.initialise()
            stamps = stamps_of(chance, BATCHES + 5)
            raw = packed("lz4", stamps, chance, attributes=TRANSACTIONAL, producer_id=producer.producer_id,
                         producer_epoch=producer.epoch, base_sequence=0)
            row = producer.call(0, 12, acks=-1, transactional_id="teller",
                                topics=[{"name": "times", "partitions": [{"index": 0, "records": raw}]}])
            row = row["topics"][0]["partitions"][0]
            assert row["error_code"] == 0, row
            open_from = row["base_offset"]
            behind = rows + [(open_from + n, stamp) for n, stamp in enumerate(stamps)]
            assert answer(connection, "times", LATEST, COMMITTED)[0] == open_from
            assert answer(connection, "times", max(stamps), COMMITTED)[0] == -1
            for target in (BASE - 1, rows[50][1], rows[-1][1]):
                found = next(offset for offset, stamp in rows if stamp >= target)
                assert answer(connection, "times", target, COMMITTED)[0] == found
            hold_to(connection, "times", behind)
            producer.ended()
        until("the marker is there", lambda: answer(connection, "times", LATEST, COMMITTED)[0] == open_from + RECORDS + 1)
        assert answer(connection, "times", max(stamps), COMMITTED)[0] == open_from + stamps.index(max(stamps))


def test_compaction_leaves_the_answers_to_the_records_that_stay(make_broker):
    broker, chance = make_broker(settings={"log.cleaner.backoff.ms": "50"}), random.Random(SEED)
    with broker.connect(timeout=30) as connection:
        topic_made(connection, "times", configs={"cleanup.policy": "compact", "segment.bytes": "32768", "min.cleanable.dirty.ratio": "0.9"})
        rows = filled(connection, "times", "none", chance, key=lambda n: b"%d" % (n % 40))
        assert _alter(connection, "times", ("min.cleanable.dirty.ratio", SET, "0.01"))[0] == 0
        until("compaction", lambda: len(offsets_left(connection)) < len(rows) * 3 // 4, timeout=60)
        until("it is done", lambda: stands_still(connection), timeout=60)
        kept = set(offsets_left(connection))
        live = [(offset, stamp) for offset, stamp in rows if offset in kept]
        assert 40 <= len(live) < len(rows)
        for target in sorted({stamp for _, stamp in live}):
            found = next((offset, stamp) for offset, stamp in live if stamp >= target)
            assert answer(connection, "times", target)[:2] == found
        assert answer(connection, "times", max(stamp for _, stamp in live) + 1)[0] == -1
        largest = max(live, key=lambda row: (row[1], -row[0]))
        assert answer(connection, "times", LARGEST)[:2] == largest


def offsets_left(connection):
    """Offsets of the records that a reader from the start gets."""
    at, end, left = log_start(connection, "times", 0), log_end(connection, "times", 0), []
    while at < end:
        for one in batches(fetch(connection, "times", 0, at, max_bytes=4 << 20).records):
            left += [one["base_offset"] + delta for delta, _, _ in _records(one)]
            at = one["last_offset"] + 1
    return left


def stands_still(connection, seconds=0.5):
    """Nothing is compacted for so long."""
    before = offsets_left(connection)
    time.sleep(seconds)
    return before == offsets_left(connection)
