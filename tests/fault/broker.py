"""The broker process under test: start, wait for ready, kill, stop, measure."""

import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

from rawkafka import Connection

REPOSITORY = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
READY_SECONDS = 60
_starts = itertools.count(1)
_ports = itertools.count(0)
_running = set()


class StartFailed(Exception):
    """The process ended, or did not get ready in time; the text holds its last words."""


def binary():
    """The broker's path: MILLSTREAM_BIN, else this repository's release build."""
    path = os.environ.get("MILLSTREAM_BIN")
    if path is None:
        target = os.environ.get("CARGO_TARGET_DIR", os.path.join(REPOSITORY, "target"))
        path = os.path.join(target, "release", "millstream")
    if not os.access(path, os.X_OK):
        sys.exit(f"no broker at {path}: build it with `cargo build --release`, or set MILLSTREAM_BIN to its path")
    return path


def free_port():
    """A loopback port from MILLSTREAM_PORTS (`first-last`, default 24000-24099) that nobody listens on."""
    first, last = map(int, os.environ.get("MILLSTREAM_PORTS", "24000-24099").split("-"))
    for _ in range(last - first + 1):
        port = first + next(_ports) % (last - first + 1)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise RuntimeError(f"all ports {first}-{last} are taken")


class Broker:
    """One data directory's broker; start and stop it as often as needed, always on one port.

    `settings` become `--set key=value`; `nofile` and `memlock` are resource
    limits (numbers or `soft:hard`); `wrapper` is put in front of the command.
    """

    def __init__(self, data_dir, work_dir, settings=None, port=None, listen=None, nofile=None, memlock=None,
                 wrapper=()):
        self.data_dir, self.work_dir = str(data_dir), str(work_dir)
        self.settings = dict(settings or {})
        self.port = free_port() if port is None else port
        self.listen = f"127.0.0.1:{self.port}" if listen is None else listen
        self.address = f"127.0.0.1:{self.port}"
        self.nofile, self.memlock, self.wrapper = nofile, memlock, list(wrapper)
        self.process, self.log_path, self.out_path = None, None, None
        self.ready_seconds = None
        os.makedirs(self.work_dir, exist_ok=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill9()

    def command(self):
        limits = [f"--{name}={value}" for name, value in (("nofile", self.nofile), ("memlock", self.memlock)) if value]
        prefix = ["setpriv", "--pdeathsig", "KILL", "--"] + (["prlimit", *limits, "--"] if limits else [])
        args = ["--data-dir", self.data_dir, "--listen", self.listen]
        for key, value in {"admin.listener": "", **self.settings}.items():
            args += ["--set", f"{key}={value}"]
        return prefix + self.wrapper + [binary(), *args]

    def spawn(self):
        """Starts the process and does not wait."""
        assert not self.running(), "this broker is already running"
        stem = os.path.join(self.work_dir, f"broker-{next(_starts):04d}")
        self.out_path, self.log_path = stem + ".out", stem + ".log"
        with open(self.out_path, "wb") as out, open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=out, stderr=log)
        _running.add(self)
        return self

    def start(self, timeout=READY_SECONDS):
        """Starts and waits for the line on stdout that says it is ready."""
        began = time.monotonic()
        self.spawn()
        while time.monotonic() < began + timeout:
            if READY.search(self.out_text()):
                self.ready_seconds = time.monotonic() - began
                return self
            if self.process.poll() is not None:
                _running.discard(self)
                raise StartFailed(f"exit code {self.process.returncode}\n{self.words()}")
            time.sleep(0.01)
        self.kill9()
        raise StartFailed(f"not ready within {timeout} s\n{self.words()}")

    def refuse(self, timeout=20):
        """Starts, expects it to give up by itself; returns (exit code, everything it said)."""
        self.spawn()
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise AssertionError(f"still running after {timeout} s; it should have refused\n{self.words()}") from None
        _running.discard(self)
        return code, self.words()

    def kill9(self):
        """SIGKILL, and wait for the end."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)
        _running.discard(self)

    def stop(self, timeout=30):
        """SIGTERM, the clean stop; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise AssertionError(f"no end within {timeout} s of SIGTERM\n{self.words()}") from None
        _running.discard(self)
        return code

    def running(self):
        return self.process is not None and self.process.poll() is None

    def connect(self, timeout=15.0, client_id="fault"):
        return Connection(self.address, timeout=timeout, client_id=client_id)

    # What it said

    def out_text(self):
        return _text(self.out_path)

    def log_text(self):
        """Stderr of the latest start."""
        return _text(self.log_path)

    def words(self, limit=4000):
        return (self.out_text() + self.log_text())[-limit:]

    # What it costs

    def pid(self):
        return self.process.pid

    def rss_bytes(self):
        return int(re.search(r"VmRSS:\s+(\d+) kB", _text(f"/proc/{self.pid()}/status")).group(1)) * 1024

    def fds(self):
        return len(os.listdir(f"/proc/{self.pid()}/fd"))

    def threads(self):
        return len(os.listdir(f"/proc/{self.pid()}/task"))

    def cpu_seconds(self):
        """User and system time so far."""
        fields = _text(f"/proc/{self.pid()}/stat").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def bytes_written(self):
        """What the kernel counts as sent towards a device."""
        return int(re.search(r"^write_bytes: (\d+)", _text(f"/proc/{self.pid()}/io"), re.M).group(1))


READY = re.compile(r"ready", re.I)


def kill_all():
    """Ends every broker that this process started."""
    for broker in list(_running):
        broker.kill9()


def states():
    """One line for each broker that was running when last heard of: whether it still is."""
    lines = [f"{b.address} {'runs' if b.running() else f'ended by itself with code {b.process.returncode}'}" for b in _running]
    return "\n".join(lines) or "none was running"


def latest(work_dir, limit=3000):
    """(name, last words) of the brokers that were started in a work directory, newest last; at most three."""
    if work_dir is None or not os.path.isdir(work_dir):
        return []
    names = sorted(name for name in os.listdir(work_dir) if name.endswith(".log"))[-3:]
    return [(name, _text(os.path.join(work_dir, name))[-limit:]) for name in names]


def copy_data(source, target):
    """A copy of a data directory; preallocated files stay sparse."""
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run(["cp", "-a", "--sparse=always", source, target], check=True)
    return target


def _text(path):
    if path is None or not os.path.exists(path):
        return ""
    with open(path, "rb") as file:
        return file.read().decode(errors="replace")
