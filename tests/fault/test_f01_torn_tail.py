"""F01: a torn tail is cut, and nothing behind the last whole batch comes back to life.

Ten thousand acknowledged records, kill -9, then rubbish at the end of the
newest segment file or of the journal, each on its own copy of the data. After
a kill the journal may hold the tail once more and write over the rubbish; so
the same is done after a clean stop, where the rubbish itself must be cut.
"""

import os
import random
import re

import pytest

import disk_files
from bench import Broker, Ledger, copy_data, log_end, produce_many, read_topic, topic_made
from ledger import MARK_BYTES, payload

TOPIC, RECORDS = "torn", 10_000
RUBBISH = random.Random(1)
CUT_LINE = re.compile(r"cut .* bytes=(\d+)")


def _made(home, end):
    """(data directory, ledger) of a broker that ended in this way after its last ok."""
    ledger = Ledger()
    with Broker(home / "data", home).start() as broker:
        with broker.connect() as connection:
            topic_made(connection, TOPIC)
            produce_many(connection, ledger, TOPIC, 0, RECORDS)
        end(broker)
    return str(home / "data"), ledger


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    return _made(tmp_path_factory.mktemp("f01-killed"), lambda broker: broker.kill9())


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    return _made(tmp_path_factory.mktemp("f01-stopped"), lambda broker: broker.stop())


def _newest(data):
    found = disk_files.logs(data, TOPIC, 0)
    assert found, "no segment file was written for 10,000 records"
    return found[-1]


def _random_behind_the_file(count):
    return lambda data: disk_files.append(_newest(data), RUBBISH.randbytes(count))


def _random_behind_the_last_batch(data):
    log = _newest(data)
    at, size = disk_files.batch_spans(log)[-1]
    disk_files.overwrite(log, at + size, RUBBISH.randbytes(511))


def _half_batch(data):
    log = _newest(data)
    at, size = disk_files.batch_spans(log)[-1]
    disk_files.overwrite(log, at + size, disk_files.read_at(log, at, size // 2))


def _older_batch(data):
    log = _newest(data)
    spans = disk_files.batch_spans(log)
    at, size = spans[-1]
    disk_files.overwrite(log, at + size, disk_files.read_at(log, *spans[len(spans) // 2]))


def _last_batch_cut_in_half(data):
    log = _newest(data)
    at, size = disk_files.batch_spans(log)[-1]
    os.truncate(log, at + size // 2)


SEGMENT_DAMAGE = {
    "1 random byte behind the file": _random_behind_the_file(1),
    "511 random bytes behind the file": _random_behind_the_file(511),
    "4095 random bytes behind the file": _random_behind_the_file(4095),
    "random bytes behind the last batch": _random_behind_the_last_batch,
    "half a batch": _half_batch,
    "a whole batch from the middle": _older_batch,
    "last batch cut in half": _last_batch_cut_in_half,
}


def _journal(data):
    path = disk_files.journal_of(data, RECORDS - 1)
    assert path, "the last record is in no journal file"
    return path


def _journal_random(count):
    def damage(data):
        path = _journal(data)
        disk_files.overwrite(path, disk_files.end_of_frames(path), RUBBISH.randbytes(count))
    return damage


def _journal_older_frame(data):
    path = _journal(data)
    starts = disk_files.frames(path)
    middle = len(starts) // 2
    frame = disk_files.read_at(path, starts[middle], starts[middle + 1] - starts[middle])
    disk_files.overwrite(path, disk_files.end_of_frames(path), frame)


def _journal_half_frame(data):
    """The first block of the last frame once more, as a torn write of the next frame leaves it."""
    path = _journal(data)
    disk_files.overwrite(path, disk_files.end_of_frames(path),
                         disk_files.read_at(path, disk_files.frames(path)[-1], disk_files.BLOCK_BYTES // 2))


JOURNAL_DAMAGE = {
    "1 random byte behind the frames": _journal_random(1),
    "511 random bytes behind the frames": _journal_random(511),
    "a block of random bytes behind the frames": _journal_random(4096),
    "a whole older frame behind the frames": _journal_older_frame,
    "half a frame behind the frames": _journal_half_frame,
}


def _damaged(made, work_dir, damage):
    data, ledger = made
    copy = copy_data(data, os.path.join(work_dir, "data"))
    damage(copy)
    return copy, ledger


@pytest.mark.parametrize("name", [*SEGMENT_DAMAGE, *JOURNAL_DAMAGE])
def test_rubbish_after_a_kill_takes_no_acknowledged_record_and_adds_none(name, killed, make_broker, work_dir):
    copy, ledger = _damaged(killed, work_dir, (SEGMENT_DAMAGE | JOURNAL_DAMAGE)[name])
    broker = make_broker(copy)
    ledger.verify(read_topic(broker.address, TOPIC, 1))
    with broker.connect() as connection:
        assert log_end(connection, TOPIC, 0) == RECORDS


@pytest.mark.parametrize("name", [name for name in SEGMENT_DAMAGE if "cut in half" not in name])
def test_rubbish_behind_a_whole_log_is_cut_and_the_log_says_how_many_bytes(name, stopped, make_broker, work_dir):
    copy, ledger = _damaged(stopped, work_dir, lambda data: None)
    log = _newest(copy)
    whole = os.path.getsize(log)
    SEGMENT_DAMAGE[name](copy)
    added = os.path.getsize(log) - whole
    broker = make_broker(copy)
    ledger.verify(read_topic(broker.address, TOPIC, 1))
    with broker.connect() as connection:
        assert log_end(connection, TOPIC, 0) == RECORDS
    found = CUT_LINE.search(broker.log_text())
    assert found and int(found[1]) == added, f"{added} bytes were added; the log says:\n{broker.log_text()}"
    assert os.path.getsize(log) == whole


@pytest.mark.parametrize("end", ["kill -9", "clean stop"])
@pytest.mark.parametrize("name", ["4095 random bytes behind the file", "a whole batch from the middle",
                                  "a whole older frame behind the frames"])
def test_new_records_go_where_the_valid_log_ended_and_the_next_start_finds_nothing_to_cut(
        name, end, killed, stopped, make_broker, work_dir):
    copy, before = _damaged(killed if name in JOURNAL_DAMAGE else stopped, work_dir, (SEGMENT_DAMAGE | JOURNAL_DAMAGE)[name])
    ledger = Ledger()
    ledger.acked, ledger._next = dict(before.acked), before._next
    broker = make_broker(copy)
    with broker.connect() as connection:
        produce_many(connection, ledger, TOPIC, 0, 1000)
        assert log_end(connection, TOPIC, 0) == RECORDS + 1000
    broker.kill9() if end == "kill -9" else broker.stop()
    broker.start()
    ledger.verify(read_topic(broker.address, TOPIC, 1))
    if end == "clean stop":
        assert not CUT_LINE.search(broker.log_text()), broker.log_text()


def test_a_torn_last_journal_frame_takes_only_its_own_records(killed, make_broker, work_dir):
    """A frame torn in the middle ends the journal; what earlier frames and the segments hold is served."""
    copy, before = _damaged(killed, work_dir, lambda data: None)
    path = _journal(copy)
    start, end = disk_files.frames(path)[-1], disk_files.end_of_frames(path)
    disk_files.overwrite(path, (start + end) // 2, b"\0" * (end - (start + end) // 2))
    kept = disk_files.read_at(path, 0, start)
    for log in disk_files.logs(copy, TOPIC, 0):
        with open(log, "rb") as file:
            kept += file.read()
    ledger = Ledger()
    ledger.acked, ledger._next = dict(before.acked), before._next
    # A large run's full blocks are in the segment already: a batch counts as lost with any record.
    batch_of = 10
    missing = {i // batch_of for i in before.acked if payload(i)[:MARK_BYTES] not in kept}
    ledger.doubt([i for i in before.acked if i // batch_of in missing])
    assert ledger.unknown, "the last frame held no record of its own: the test proves nothing"
    broker = make_broker(copy)
    ledger.verify(read_topic(broker.address, TOPIC, 1))
