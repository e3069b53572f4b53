"""Fixtures of the fault bench; whatever a test leaves behind is taken away."""

import faulthandler
import os
import sys
import tempfile

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
sys.path.insert(0, os.path.dirname(__file__))

import broker as broker_module  # noqa: E402
import loop_disk as loop_disk_module  # noqa: E402


@pytest.fixture
def work_dir():
    """A directory for one test; kept, with the broker's logs, if MILLSTREAM_KEEP is set."""
    keep = os.environ.get("MILLSTREAM_KEEP")
    path = tempfile.mkdtemp(prefix="millstream-fault-", dir=keep or None)
    yield path
    broker_module.kill_all()
    if not keep:
        import shutil
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def make_broker(work_dir):
    """Makes brokers that end with the test; `make_broker(**settings)` is started, on `<work>/data`."""
    def make(data_dir=None, start=True, settings=None, **how):
        made = broker_module.Broker(data_dir or os.path.join(work_dir, "data"), work_dir, settings=settings, **how)
        return made.start() if start else made
    yield make
    for disk in loop_disk_module._live:
        if disk.frozen:
            disk.thaw()
    broker_module.kill_all()


@pytest.fixture
def make_disk(make_broker, work_dir):
    """Makes loop disks that go with the test (after its brokers)."""
    made = []

    def make(megabytes, **how):
        made.append(loop_disk_module.LoopDisk(megabytes, **how))
        return made[-1]
    yield make
    for disk in made:
        if disk.frozen:
            disk.thaw()
    broker_module.kill_all()
    for disk in made:
        disk.close()


def pytest_sessionfinish():
    for disk in loop_disk_module._live:
        if disk.frozen:
            disk.thaw()
    broker_module.kill_all()
    loop_disk_module.close_all()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test shows the last words of its brokers."""
    outcome = yield
    report = outcome.get_result()
    if report.when == "call" and report.failed:
        for name, made in broker_module.latest(item.funcargs.get("work_dir")):
            report.sections.append((f"broker log {name}", made))
        report.sections.append(("brokers", broker_module.states()))


faulthandler.enable()
