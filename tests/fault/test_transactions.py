"""Histories of plain, idempotent and transactional clients over faults show nothing that is forbidden (anomalies.py).

The modes run side by side against one broker, each on its own topic; one of
them transacts in a topic that is compacted all the while.
MILLSTREAM_SEED repeats the moments of a run; a failure names it.
"""

import os
import random
import signal
import time

import pytest

import loop_disk
from anomalies import FAILED, OK, UNKNOWN, History, Operation, Poll, Send, anomalies
from bench import budget, load, topic_made, until
from rawkafka import batches
from rawtxn import READ_UNCOMMITTED, end_offset, fetched
from transactors import COMPACTED, MODES, Worker, closed

KEYS = range(3)
WORKERS = 3
SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500", "transaction.max.timeout.ms": "60000",
            "log.cleaner.backoff.ms": "100"}
COMPACTION = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "100"}
SEED = int(os.environ.get("MILLSTREAM_SEED") or int.from_bytes(os.urandom(3), "big"))


def killed(broker, _chance, _disk):
    broker.kill9()
    broker.start()


def paused(broker, chance, _disk):
    os.kill(broker.pid(), signal.SIGSTOP)
    time.sleep(chance.uniform(0.1, 1.0))
    os.kill(broker.pid(), signal.SIGCONT)


def cut_off(broker, chance, disk):
    disk.cut_power()
    if chance.random() < 0.5:
        time.sleep(chance.uniform(0, 0.1))
    broker.kill9()
    disk.remount()
    broker.start()


def stopped(broker, _chance, _disk):
    assert broker.stop() == 0
    broker.start()


FAULTS = {"no fault": None, "kill -9": killed, "a pause": paused, "a clean stop": stopped, "a power cut": cut_off}


@pytest.mark.parametrize("fault", FAULTS)
def test_history_shows_no_anomaly_over(fault, make_broker, make_disk):
    disk = None
    if fault == "a power cut":
        if loop_disk.missing():
            pytest.skip(f"left out: {loop_disk.missing()}")
        disk = make_disk(8192)
    broker = make_broker(disk and disk.data_dir, settings=SETTINGS)
    ready(broker)
    chance, strike = random.Random(f"{SEED}-{fault}"), FAULTS[fault]
    histories = {mode: History() for mode in MODES}
    workers = [Worker(histories[mode], broker.address, topic_of(mode), KEYS, mode, number, SEED, v2=number != 0)
               for mode in MODES for number in range(WORKERS)]
    end, strikes = time.monotonic() + budget(4, 120), 0
    patience = end + 60  # a slow machine does less in that time, and must do enough
    print(f"MILLSTREAM_SEED={SEED}")
    with load(*workers):
        while time.monotonic() < end or not (all(is_busy(history) for history in histories.values()) or time.monotonic() > patience):
            time.sleep(chance.uniform(0.2, 1.6))
            if strike:
                strike(broker, chance, disk)
                strikes += 1
            for worker in workers:
                assert worker.fatal is None, f"seed {SEED}, strike {strikes}: {worker.name}: {worker.fatal}"
        for worker in workers:
            worker.finish()
    judge(workers, histories, f"seed {SEED}, {strikes} times {fault}")
    if strike:
        strike(broker, chance, disk)  # what was read is there afterwards, too
        judge(workers, histories, f"seed {SEED}, {strikes + 1} times {fault}, read again", again=True)
    until("aborted records or markers are cleaned away", lambda: offsets_gone(broker) > 0, 30)
    judge(workers, histories, f"seed {SEED}, {fault}, read when {offsets_gone(broker)} offsets were gone", again=True)


def topic_of(mode):
    return f"history-{mode}"


def ready(broker):
    """The topics are there, and so is the coordinator."""
    with broker.connect() as connection:
        for mode in MODES:
            topic_made(connection, topic_of(mode), len(KEYS), COMPACTION if mode == COMPACTED else None)
        connection.call(10, 3, key="ready", key_type=1)
        until("transactional ids are served", lambda: connection.call(22, 4, transactional_id="ready")["error_code"] == 0, 60)


def is_busy(history):
    """Enough was done that it means something when nothing is wrong."""
    return history.counts().get(OK, 0) > 20


def offsets_gone(broker):
    """Offsets of the compacted topic under which no record and no marker is left."""
    gone = 0
    with broker.connect() as connection:
        for key in KEYS:
            at, end = 0, end_offset(connection, topic_of(COMPACTED), key)
            gone += end
            while at < end:
                found = list(batches(fetched(connection, topic_of(COMPACTED), key, at, READ_UNCOMMITTED)["records"] or b""))
                assert found, f"{topic_of(COMPACTED)}-{key}: nothing at {at} of {end}"
                gone -= sum(one["count"] for one in found)
                at = found[-1]["last_offset"] + 1
    return gone


def judge(workers, histories, when, again=False):
    """Reads everything to its end and looks for anomalies."""
    closed(workers)
    for worker in workers:
        if again:
            worker.lives += 1
            worker.positions = dict.fromkeys(KEYS, 0)
        worker.last_polls()
    for mode, history in histories.items():
        found = anomalies(history.operations)
        shown = "\n  ".join(f"{name}: {sentence}" for name, sentence in found[:8])
        assert not found, f"{when}, {mode}: {len(found)} anomalies in {history.counts()}:\n  {shown}"
        print(when, mode, history.counts())
        assert is_busy(history), f"{when}, {mode}: hardly anything was done: {history.counts()}"


# --- the judge is judged -------------------------------------------------------------

def sent(process, *parts, outcome=OK):
    return Operation(process, [Send(*part) for part in parts], outcome)


def polled(process, key, *records):
    return Operation(process, [Poll(key, list(records))], OK)


GOOD = [
    sent("a", (0, 1, 0), (0, 2, 1)), sent("b", (1, 3, 0)), sent("a", (0, 4, 2), (1, 5, 2), outcome=FAILED), sent("b", (0, 6, 4)),
    sent("c", (0, 7, None), (1, 8, None), outcome=UNKNOWN), sent("c", (0, 9, None), outcome=UNKNOWN),
    polled("r", 0, (0, 1), (1, 2)), polled("r", 0, (4, 6), (6, 7)), polled("r", 1, (0, 3), (4, 8)),
    polled("s", 0, (0, 1)), polled("s", 0, (1, 2), (4, 6)),
]

BAD = {
    "inconsistent offsets": [polled("t", 0, (0, 99))],
    "duplicate": [polled("r", 0, (7, 1))],
    "lost write": [sent("a", (0, 10, 5))],
    "unseen": [sent("a", (0, 10, 9))],
    "aborted read": [polled("r", 0, (8, 4))],
    "torn transaction": [sent("d", (0, 11, None), (1, 12, None), outcome=UNKNOWN), polled("r", 0, (8, 11))],
    "precommitted read": [Operation("d", [Send(1, 11, 6), Poll(1, [(0, 3), (4, 8), (6, 11)])], OK), polled("r", 1, (6, 11))],
    "nonmonotonic send": [sent("b", (0, 11, 3)), polled("t", 0, (0, 1), (1, 2), (3, 11), (4, 6))],
    "poll skip": [polled("t", 0, (0, 1), (4, 6))],
    "nonmonotonic poll": [polled("t", 0, (0, 1), (1, 2)), polled("t", 0, (1, 2))],
    "circular reads": [Operation("d", [Send(2, 11, 0), Poll(3, [(0, 12)])], OK), Operation("e", [Send(3, 12, 0), Poll(2, [(0, 11)])], OK)],
}


def test_good_history_is_passed():
    assert anomalies(GOOD) == []


@pytest.mark.parametrize("name", BAD)
def test_bad_history_is_caught(name):
    found = anomalies(GOOD + BAD[name])
    assert name in {kind for kind, _ in found}, f"not caught; found {found}"
