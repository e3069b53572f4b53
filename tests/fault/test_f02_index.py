"""F02: indexes and other derived files are rebuilt, never believed against the log.

Each kind of damage to each kind of file gets a partition of its own, so that
one start meets them all; every partition must answer as before.
"""

import os
import random
import re
import shutil
import struct

import pytest

import disk_files
import hotpath
from bench import Broker, Ledger, copy_data, data_files, read_batches, read_topic, topic_dir, topic_made
from ledger import payload
from rawkafka import offsets

TOPIC, PARTITIONS = "indexed", 90
BATCHES, RECORDS, VALUE_BYTES = 60, 4, 1000
T0, STEP_MS = 1_700_000_000_000, 1000
CONFIG = {"segment.bytes": "65536", "retention.ms": "-1"}
BUILT_AGAIN = re.compile(r"rebuilt indexes|built again from the log")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """(data directory, ledger) after a clean stop: several segments in each of 90 partitions."""
    home = tmp_path_factory.mktemp("f02")
    ledger = Ledger()
    with Broker(home / "data", home).start() as broker:
        with broker.connect(timeout=60) as connection:
            topic_made(connection, TOPIC, PARTITIONS, CONFIG)
            for number in range(BATCHES):
                _one_round(connection, ledger, number)
        assert broker.stop() == 0
    assert len(disk_files.logs(home / "data", TOPIC, 0)) >= 3
    return str(home / "data"), ledger


def _one_round(connection, ledger, number):
    """One batch to every partition, in one request; record timestamps are T0 + number * STEP_MS."""
    batches, sent = [], []
    for partition in range(PARTITIONS):
        ids = ledger.ids(RECORDS, partition)
        sent.append(ids)
        batches.append((partition, hotpath.build_batch([payload(i, VALUE_BYTES) for i in ids], T0 + number * STEP_MS)))
    connection.correlation += 1
    connection.send(hotpath.produce_frame(connection.correlation, TOPIC, batches))
    _, answers = hotpath.produce_answer(connection.receive())
    for partition, ids in enumerate(sent):
        code, base, message = answers[partition]
        assert code == 0, f"partition {partition}: error {code} ({message})"
        ledger.ack(ids, partition, base)


def _delete(path):
    os.unlink(path)


def _empty(path):
    os.truncate(path, 0)


def _odd(path):
    size = os.path.getsize(path)
    os.truncate(path, size - 3 if size > 3 else size + 3)


def _zeros(path):
    size = os.path.getsize(path)
    with open(path, "wb") as file:
        file.write(b"\0" * max(size, 24))


def _random(path):
    size = os.path.getsize(path)
    with open(path, "wb") as file:
        file.write(random.Random(path).randbytes(max(size, 24)))


def _past_the_end(path):
    """One entry more, in the form of the file's kind, that points far behind the log."""
    entry = (struct.pack(">II", 1 << 20, 1 << 28) if path.endswith(".index")
             else struct.pack(">qI", T0 + 10 ** 9, 1 << 20))
    disk_files.append(path, entry)


def _swapped(path):
    """Trades places with the same kind of file of another segment."""
    other = next(f for f in sorted(os.listdir(os.path.dirname(path))) if f.endswith(path[-6:]) and f != os.path.basename(path))
    other = os.path.join(os.path.dirname(path), other)
    os.rename(path, path + ".x")
    os.rename(other, path)
    os.rename(path + ".x", other)


DAMAGE = {"deleted": _delete, "emptied": _empty, "cut to an odd length": _odd, "zeros": _zeros, "random bytes": _random,
          "an entry past the end": _past_the_end, "swapped between segments": _swapped}


def _plan(data):
    """[(partition, path, damage name)]: every kind of file, in its first and last segment, with every damage."""
    first = [f for f in data_files(topic_dir(data, TOPIC, 0)) if not f.endswith(".log")]
    kinds = []
    for path in first:
        name = os.path.basename(path)
        same = [f for f in first if os.path.splitext(f)[1] == os.path.splitext(path)[1]]
        by_segment = re.match(r"[0-9a-f]{8}-\d{20}\.", name)
        if not by_segment or path in (same[0], same[-1]):
            kinds.append(name)
    plan, partition = [], 0
    for name in kinds:
        indexed = name.endswith((".index", ".timeindex"))
        for damage in DAMAGE:
            if damage in ("an entry past the end", "swapped between segments") and not indexed:
                continue
            plan.append((partition, os.path.join(topic_dir(data, TOPIC, partition), name), damage))
            partition += 1
    assert partition < PARTITIONS, f"{partition} kinds of damage need more than {PARTITIONS} partitions"
    return plan


def _check_answers(broker, ledger, partitions):
    """What differs from the ledger, as sentences: whole content, 20 offsets and 20 timestamps a partition."""
    faults, chance = [], random.Random(2)
    count = BATCHES * RECORDS
    with broker.connect(timeout=30) as connection:
        for partition, what in partitions:
            try:
                faults += [f"{what}: {f}" for f in ledger.faults(read_topic(broker.address, TOPIC, [partition]))[:3]
                           if f"partition {partition} " in f]
                for offset in (chance.randrange(count) for _ in range(20)):
                    batch = next(read_batches(connection, TOPIC, partition, offset, max_bytes=8192))
                    if not batch.base_offset <= offset <= batch.last_offset:
                        faults.append(f"{what}: offset {offset} gave a batch at {batch.base_offset}")
                for number in (chance.randrange(BATCHES) for _ in range(20)):
                    found = offsets(connection, TOPIC, partition, T0 + number * STEP_MS - chance.randrange(STEP_MS))
                    if found != (0, number * RECORDS):
                        faults.append(f"{what}: time of batch {number} gave {found}, expected {number * RECORDS}")
                if offsets(connection, TOPIC, partition, T0 + BATCHES * STEP_MS) != (0, -1):
                    faults.append(f"{what}: a time behind the last record gave an offset")
            except AssertionError as error:
                faults.append(f"{what}: {error}")
    return faults


def test_every_damage_to_a_derived_file_leaves_every_answer_as_before(stopped, make_broker, work_dir):
    data, ledger = stopped
    copy = copy_data(data, os.path.join(work_dir, "data"))
    plan = _plan(copy)
    for _, path, damage in plan:
        DAMAGE[damage](path)
    broker = make_broker(copy)
    what = {partition: f"{os.path.basename(path)} {damage}" for partition, path, damage in plan}
    faults = _check_answers(broker, ledger, [(p, what.get(p, "undamaged")) for p in range(PARTITIONS)])
    assert not faults, f"{len(faults)} faults:\n" + "\n".join(faults[:30])
    assert BUILT_AGAIN.search(broker.log_text()), f"no log line says that an index was rebuilt:\n{broker.words()}"


def test_a_restore_without_any_index_file_starts_and_is_whole_after_the_next_stop(stopped, make_broker, work_dir):
    data, ledger = stopped
    copy = copy_data(data, os.path.join(work_dir, "data"))
    for path in data_files(copy, TOPIC):
        if path.endswith(("index",)):
            os.unlink(path)
    broker = make_broker(copy)
    assert not _check_answers(broker, ledger, [(p, "all indexes deleted") for p in range(5)])
    assert broker.stop() == 0
    broker.start()
    assert not BUILT_AGAIN.search(broker.log_text()), f"the second start rebuilt again:\n{broker.words()}"
    assert not _check_answers(broker, ledger, [(p, "after the rebuild") for p in range(5)])


def test_indexes_ahead_of_the_log_after_a_kill_do_not_refuse_the_partition(make_broker, work_dir):
    """An index entry for bytes that the log does not have, beside an unclean end."""
    ledger = Ledger()
    broker = make_broker()
    with broker.connect(timeout=60) as connection:
        topic_made(connection, TOPIC, PARTITIONS, CONFIG)
        for number in range(20):
            _one_round(connection, ledger, number)
    broker.kill9()
    for partition in range(PARTITIONS):
        for path in data_files(topic_dir(broker.data_dir, TOPIC, partition), suffix="index"):
            _past_the_end(path)
    broker.start()
    ledger.verify(read_topic(broker.address, TOPIC, PARTITIONS))
    shutil.rmtree(work_dir, ignore_errors=True)
