"""Lists of what may fail of a suite that others wrote, each line with its reason.

A line is a name, two spaces or more, and the reason. Such a list only shrinks:
a line whose test passes, or names none, is a failure.
"""

import re


def read(path):
    """{name: reason}"""
    with open(path, encoding="ascii") as source:
        rows = [line.strip() for line in source if line.strip() and not line.startswith("#")]
    return dict(re.split(r"\s{2,}", row, maxsplit=1) for row in rows)


def verdict(name, outcome, why, excused):
    """(outcome, text) to print for a test that had `outcome` (PASS, FAIL or SKIP)."""
    excuse = excused.get(name)
    if excuse is None:
        return outcome, why
    if outcome == "FAIL":
        return "SKIP", f"{excuse} ({why[:200]})"
    return "FAIL", f"stands in the allow-list ({excuse}), but the outcome is {outcome}: take it out"


def show(name, outcome, why):
    """One line for the runner; whether it is a failure."""
    print(f"{outcome} {name}{': ' if why else ''}{why}", flush=True)
    return outcome == "FAIL"
