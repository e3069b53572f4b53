"""What strace and /proc see of the data path: direct, durable journal writes, and sendfile.

The journal and the segments are open with O_DIRECT and the journal with O_DSYNC
(/proc/PID/fdinfo); each commit round is one pwritev to the journal; large runs are
whole blocks to the segment and a sync of it; a fetch of what is no longer in memory is
sent from the segment file by sendfile, and one of the tail is not.
"""

import glob
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from bench import Ledger, fetch_from, log_end, one_batch, produce_many, read_partition, topic_made, until

O_DIRECT, O_DSYNC = 0o40000, 0o10000
CALL = re.compile(r"^(?:\d+\s+)?(\w+)\((.*)\)\s+= (-?\d+)")


class Strace:
    """Follows the threads of a broker for some calls; `calls()` ends it."""

    def __init__(self, broker, work_dir, *names):
        # A file a thread (-ff): in one file the calls of threads cut each other in two.
        self.path = os.path.join(work_dir, f"strace-{time.monotonic_ns()}")
        self.process = subprocess.Popen(
            ["strace", "-ff", "-y", "-e", "trace=" + ",".join(names), "-o", self.path, "-p", str(broker.process.pid)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        first = self.process.stderr.readline()
        if "attached" not in first:
            self.process.wait(10)
            pytest.skip(f"strace may not follow the broker here: {first.strip()}")

    def calls(self):
        """[(name, arguments, result)] of what was done since."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(20)
        self.process.stderr.close()
        calls = []
        for path in glob.glob(self.path + ".*"):
            with open(path, encoding="utf-8", errors="replace") as lines:
                calls += [(found[1], found[2], int(found[3])) for found in map(CALL.match, lines) if found]
        return calls


@pytest.fixture
def strace(work_dir):
    if not shutil.which("strace"):
        pytest.skip("strace is not installed (apt-get install strace)")
    return lambda broker, *names: Strace(broker, work_dir, *names)


def open_flags(broker, suffix):
    """{path: flags} of the broker's open files with that suffix."""
    flags = {}
    for link in glob.glob(f"/proc/{broker.process.pid}/fd/*"):
        try:
            path = os.readlink(link)
            with open(link.replace("/fd/", "/fdinfo/"), encoding="ascii") as info:
                words = info.read().split()
        except FileNotFoundError:
            continue
        # Recovery and cold reads open segments to read them; only writers count.
        found = int(words[words.index("flags:") + 1], 8)
        if path.endswith(suffix) and found & os.O_ACCMODE != os.O_RDONLY:
            flags.setdefault(path, []).append(found)
    return flags


def test_journal_and_segments_are_written_past_the_page_cache(make_broker, strace):
    broker = make_broker()
    with broker.connect() as connection:
        topic_made(connection, "direct", 1)
        one_batch(connection, Ledger(), "direct", 0, 1)
        trace = strace(broker, "pwrite64", "pwritev", "pwritev2", "write", "fdatasync", "fsync")
        rounds = 20
        for _ in range(rounds):
            one_batch(connection, Ledger(), "direct", 0, 1)
        calls = trace.calls()
        journal = [(name, result) for name, words, result in calls if ".wal>" in words]
        assert {name for name, _ in journal} == {"pwritev"}, f"the journal is written by {journal}"
        assert len(journal) == rounds, f"{len(journal)} journal writes for {rounds} rounds of one request"
        assert all(result > 0 and result % 4096 == 0 for _, result in journal), f"not whole blocks: {journal}"
        flags = open_flags(broker, ".wal")
        assert flags, "no journal file is open"
        for path, found in flags.items():
            assert all(f & O_DIRECT and f & O_DSYNC for f in found), f"{path} is open with {[oct(f) for f in found]}"
        # A large run goes straight to the segment.
        trace = strace(broker, "pwritev", "fdatasync")
        produce_many(connection, Ledger(), "direct", 0, 200, records=20, value_bytes=10_000)
        segment = [(name, result) for name, words, result in trace.calls() if ".log>" in words]
        written = [result for name, result in segment if name == "pwritev"]
        assert sum(written) >= 1_500_000, f"2 MB were sent, and {sum(written)} bytes written to the segment"
        assert all(result > 0 and result % 4096 == 0 for result in written), f"not whole blocks: {written}"
        assert ("fdatasync", 0) in segment, f"the segment is not synced: {segment}"
        flags = {path: found for path, found in open_flags(broker, ".log").items() if "/topics/" in path}
        assert flags, "no segment file is open for writing"
        for path, found in flags.items():
            assert all(f & O_DIRECT for f in found), f"{path} is open with {[oct(f) for f in found]}"


def test_cold_fetch_is_sent_by_sendfile_and_the_tail_is_not(make_broker, strace):
    broker = make_broker()
    with broker.connect() as connection:
        topic_made(connection, "cold", 1)
        produce_many(connection, Ledger(), "cold", 0, 3_000, records=10, value_bytes=2_000)
        end = log_end(connection, "cold", 0)
        trace = strace(broker, "sendfile")
        fetch_from(connection, "cold", 0, end - 1)
        assert not trace.calls(), "the tail in memory needs no file"
    assert broker.stop() == 0
    broker.start()
    with broker.connect() as connection:
        until("the topic is back", lambda: log_end(connection, "cold", 0) == end)
        trace = strace(broker, "sendfile", "pread64")
        seen = sum(1 for _ in read_partition(connection, "cold", 0))
        calls = trace.calls()
    assert seen == end, f"{seen} records of {end} came back"
    files = [result for name, words, result in calls if name == "sendfile" and ".log>" in words]
    sent = sum(result for result in files if result > 0)
    assert sent > 3_000 * 2_000 * 0.99, f"{sent} bytes in {len(files)} sendfile calls, of about {3_000 * 2_000}"
    # Nobody takes the CPU from a helper within a call: the core that shares it waits so long.
    reads = [result for name, words, result in calls if name == "pread64" and ".log>" in words]
    assert reads and max(reads) <= 32 << 10, f"a helper reads up to {max(reads, default=0)} bytes with one call"
