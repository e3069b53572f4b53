"""Runs the fault bench for `tests/run`: one PASS, FAIL or SKIP line a test.

    python3 judge.py BROKER-BINARY [PYTEST-ARGUMENT ...]
"""

import os
import sys

import pytest

TEST_SECONDS_MAX = "300"


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


def main(argv):
    binary, *arguments = argv
    os.environ["MILLSTREAM_BIN"] = os.path.abspath(binary)
    here = os.path.dirname(os.path.abspath(__file__))
    return pytest.main([here, "-q", "-p", "no:cacheprovider", "--timeout", TEST_SECONDS_MAX, *arguments], plugins=[Lines()])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
