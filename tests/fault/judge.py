"""Runs the fault bench for `tests/run`: one PASS, FAIL or SKIP line a test.

    python3 judge.py BROKER-BINARY [PYTEST-ARGUMENT ...]

Without arguments, two files of tests run at a time.
"""

import concurrent.futures
import os
import subprocess
import sys

import pytest

TEST_SECONDS_MAX = "300"
PARALLEL = 2
PORTS_FROM, PORTS_EACH = 24000, 100  # each file of tests has ports of its own
LONG = {"test_power_cut_loop.py", "test_groups.py", "test_hung_disk.py", "test_f30_many_partitions.py", "test_kill_loop.py",
        "test_f03_disk_full.py", "test_f35_metrics.py", "test_f13_offsets_expire.py", "test_delete_records.py"}


class Lines:
    """Prints what became of each test as a line of its own."""

    @staticmethod
    def pytest_runtest_logreport(report):
        name = report.nodeid.split("/")[-1]
        if report.skipped:
            print(f"\nSKIP {name}: {_sentence(report.longrepr)}", flush=True)
        elif report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = crash.message if crash else str(report.longrepr)
            print(f"\nFAIL {name}: {' '.join(reason.split())[:300]}", flush=True)
        elif report.when == "call":
            print(f"\nPASS {name}", flush=True)


def _sentence(longrepr):
    """The reason of a skip."""
    text = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    return text.removeprefix("Skipped: ")


def side_by_side(binary, here):
    """Two files of tests at a time, the long ones first: most of them wait. The worst exit code."""
    files = sorted(name for name in os.listdir(here) if name.startswith("test_") and name.endswith(".py"))
    files.sort(key=lambda name: name not in LONG)

    def run(name):
        first = PORTS_FROM + PORTS_EACH * files.index(name)
        done = subprocess.run([sys.executable, os.path.abspath(__file__), binary, os.path.join(here, name)], check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, errors="replace",
                              env=dict(os.environ, MILLSTREAM_PORTS=f"{first}-{first + PORTS_EACH - 1}"))
        print(done.stdout, end="", flush=True)
        return done.returncode
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        return max(pool.map(run, files))


def main(argv):
    binary, *arguments = argv
    os.environ["MILLSTREAM_BIN"] = os.path.abspath(binary)
    here = os.path.dirname(os.path.abspath(__file__))
    if not arguments:
        return side_by_side(binary, here)
    if not any(os.path.exists(argument.split("::")[0]) for argument in arguments):
        arguments.append(here)
    return pytest.main(["-q", "-p", "no:cacheprovider", "--timeout", TEST_SECONDS_MAX, *arguments], plugins=[Lines()])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
