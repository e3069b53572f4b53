"""A start that cannot work says in one sentence what is wrong, where, and what to do; and touches nothing.

Ports and directories in use, newer formats, limits of the machine.
"""

import hashlib
import json
import os
import re
import socket
import subprocess
import sys

import pytest

from bench import Ledger, copy_data, data_files, needs_loop_disk, needs_root, one_batch, read_topic, topic_made

TOPIC = "kept"


def _refused(broker, *words, timeout=20):
    """The broker gives up with a non-zero code and says all `words`, without a panic; returns what it said."""
    code, said = broker.refuse(timeout)
    assert code != 0, f"exit code 0:\n{said}"
    assert code > 0, f"ended by signal {-code}:\n{said}"
    assert "panicked" not in said and "RUST_BACKTRACE" not in said, f"a panic instead of a sentence:\n{said}"
    missing = [word for word in words if str(word).lower() not in said.lower()]
    assert not missing, f"what it said lacks {missing}:\n{said}"
    return said


def _some_data(make_broker):
    """A stopped broker with one acknowledged batch; (broker, ledger)."""
    broker, ledger = make_broker(), Ledger()
    with broker.connect() as connection:
        topic_made(connection, TOPIC)
        one_batch(connection, ledger, TOPIC, 0, 10)
    assert broker.stop() == 0
    return broker, ledger


def _print_of(data_dir):
    """A digest of every file's name and content; the lock file, which says nothing, is left out."""
    digest = hashlib.sha256()
    for path in data_files(data_dir):
        if os.path.basename(path) == ".lock":
            continue
        digest.update(path.encode())
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()


def test_port_in_use_is_named(make_broker):
    broker = make_broker(start=False)
    with socket.create_server(("127.0.0.1", broker.port)):
        _refused(broker, broker.port, "in use")


def test_port_of_another_broker_is_refused_though_reuseport_would_share_it(make_broker, work_dir):
    first = make_broker()
    second = make_broker(os.path.join(work_dir, "other"), start=False, port=first.port)
    _refused(second, first.port, "in use")
    with first.connect() as connection:
        topic_made(connection, TOPIC)


def test_data_directory_in_use_is_named_and_left_alone(make_broker):
    first, ledger = make_broker(), Ledger()
    second = make_broker(first.data_dir, start=False)
    _refused(second, first.data_dir, "another process")
    with first.connect() as connection:
        topic_made(connection, TOPIC)
        one_batch(connection, ledger, TOPIC, 0, 10)
    first.kill9()
    first.start()
    ledger.verify(read_topic(first.address, TOPIC, 1))


def test_data_directory_that_is_a_file_is_refused(make_broker, work_dir):
    path = os.path.join(work_dir, "file")
    with open(path, "w") as file:
        file.write("not a directory")
    _refused(make_broker(path, start=False), path)


def test_foreign_files_in_the_data_directory_are_not_taken_over(make_broker, work_dir):
    """A directory with something else in it (another broker's data) is no data directory of ours."""
    path = os.path.join(work_dir, "foreign")
    os.makedirs(os.path.join(path, "topic-0"))
    with open(os.path.join(path, "meta.properties"), "w") as file:
        file.write("version=1\ncluster.id=QUFBQUFBQUFBQUFBQUFBQQ\nnode.id=1\ndirectory.id=QUFBQUFBQUFBQUFBQUFBQQ\n")
    before = _print_of(path)
    _refused(make_broker(path, start=False), path)
    assert _print_of(path) == before, "the foreign directory was changed"


@needs_loop_disk
def test_read_only_data_directory_is_named(make_disk, make_broker):
    disk = make_disk(512)
    subprocess.run(["mount", "-o", "remount,ro", disk.mount_point], check=True)
    _refused(make_broker(disk.data_dir, start=False), disk.mount_point, "read-only")


def test_newer_meta_properties_is_refused_with_both_numbers_and_nothing_is_touched(make_broker):
    broker, ledger = _some_data(make_broker)
    path = os.path.join(broker.data_dir, "meta.properties")
    with open(path) as file:
        old = file.read()
    new = re.sub(r"(?m)^(\s*\"?[\w.]*version\"?\s*[=:]\s*\"?)(\d+)", lambda m: f"{m[1]}{int(m[2]) + 97}", old, count=1)
    assert new != old, f"no version in meta.properties:\n{old}"
    with open(path, "w") as file:
        file.write(new)
    before = _print_of(broker.data_dir)
    _refused(broker, path, re.search(r"version\D*(\d+)", new)[1], re.search(r"version\D*(\d+)", old)[1])
    assert _print_of(broker.data_dir) == before, "files were touched by a broker that is too old for them"
    with open(path, "w") as file:
        file.write(old)
    broker.start()
    ledger.verify(read_topic(broker.address, TOPIC, 1))


def _raise_version(path):
    """Adds 97 to the first version number of a JSON or key=value state file; (old, new) or None if it has none."""
    with open(path, "rb") as file:
        raw = file.read()
    found = re.search(rb"version\W{0,4}(\d+)", raw, re.I)
    if not found:
        return None
    new = str(int(found[1]) + 97).encode()
    with open(path, "wb") as file:
        file.write(raw[:found.start(1)] + new + raw[found.end(1):])
    return found[1].decode(), new.decode()


def test_newer_state_file_never_loses_a_record(make_broker, work_dir):
    """A state file from the future is refused with both numbers, or (if derived) set aside; never half understood."""
    broker, ledger = _some_data(make_broker)
    for path in data_files(broker.data_dir, TOPIC):
        if path.endswith((".log", "index")):
            continue
        copy = copy_data(broker.data_dir, os.path.join(work_dir, "copy"))
        versions = _raise_version(os.path.join(copy, os.path.relpath(path, broker.data_dir)))
        if versions is None:
            continue
        other = make_broker(copy, start=False)
        try:
            other.start()
        except Exception as error:  # the message is judged, whatever its type
            assert all(v in str(error) for v in versions) and "panicked" not in str(error), f"{path}: {error}"
            continue
        ledger.verify(read_topic(other.address, TOPIC, 1))
        other.kill9()


def test_damaged_meta_properties_is_refused(make_broker):
    broker, _ = _some_data(make_broker)
    path = os.path.join(broker.data_dir, "meta.properties")
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) // 2)
    _refused(broker, path)


@needs_root
def test_too_little_lockable_memory_is_named_with_its_fix(make_broker):
    """A hard RLIMIT_MEMLOCK of 16 KiB, without the capability that ignores it."""
    broker = make_broker(start=False, memlock="16384:16384", wrapper=["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", "--"])
    try:
        broker.start()
    except Exception as error:
        said = str(error)
        assert "panicked" not in said and "memlock" in said.lower(), said
        return
    with broker.connect() as connection:  # newer kernels account ring memory elsewhere: then it must simply work
        topic_made(connection, TOPIC)


def test_forbidden_io_uring_is_named_with_its_fix(make_broker):
    wrapper = [sys.executable, os.path.join(os.path.dirname(__file__), "no_uring.py")]
    said = _refused(make_broker(start=False, wrapper=wrapper), "io_uring")
    assert "seccomp" in said.lower() or "container" in said.lower() or "sysctl" in said.lower(), f"no fix is named:\n{said}"


def test_node_id_that_differs_from_the_directory_is_refused(make_broker):
    broker, _ = _some_data(make_broker)
    broker.settings["node.id"] = 77
    _refused(broker, broker.data_dir, "node", 77)


def test_bad_value_of_a_known_setting_is_refused_and_an_unknown_one_is_reported(make_broker):
    _refused(make_broker(start=False, settings={"log.segment.bytes": "7d"}), "log.segment.bytes", "7d")
    broker = make_broker(settings={"log.segment.byte": "1000000"})
    assert "log.segment.bytes" in broker.words(), "a mistyped setting is not reported with the nearest name"


def test_changed_core_count_keeps_every_record(make_broker):
    broker, ledger = make_broker(settings={"cores": "1"}), Ledger()
    with broker.connect() as connection:
        topic_made(connection, TOPIC, 8)
        for partition in range(8):
            one_batch(connection, ledger, TOPIC, partition, 10)
    for cores in ("2", "1", "all"):
        broker.kill9()
        broker.settings["cores"] = cores
        broker.start()
        ledger.verify(read_topic(broker.address, TOPIC, 8))
        with broker.connect() as connection:
            for partition in range(8):
                one_batch(connection, ledger, TOPIC, partition, 10)
    broker.kill9()
    broker.start()
    ledger.verify(read_topic(broker.address, TOPIC, 8))


def test_ready_is_said_only_when_produce_works(make_broker):
    broker = make_broker()
    with broker.connect(timeout=2) as connection:
        topic_made(connection, TOPIC)
        one_batch(connection, Ledger(), TOPIC, 0, 1)
    assert json.dumps(broker.out_text()) and broker.ready_seconds < 10


@pytest.mark.parametrize("signal_number", [2, 15])
def test_both_stop_signals_end_cleanly(signal_number, make_broker):
    broker = make_broker()
    broker.process.send_signal(signal_number)
    assert broker.process.wait(20) == 0, broker.words()
