"""Malformed input: `judge.py HOST:PORT [--pid PID] [--reference] [--only TEXT] [--thorough]`.

Every row's outcome was first seen on Apache Kafka 4.3.1; `--reference` judges
such a broker (it ignores the rows' `ours`). `--pid` adds the memory check.
Prints `PASS name` or `FAIL name: reason` a check; exits 1 on any failure.
"""

import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "lib"))
import floods  # noqa: E402
import rows_admin  # noqa: E402
import rows_frame  # noqa: E402
import rows_groups  # noqa: E402
import rows_produce  # noqa: E402
import rows_read  # noqa: E402
import rows_txn  # noqa: E402
import sweeps  # noqa: E402
from bench import Bench, NotOffered, resident_kib  # noqa: E402
from rawkafka import offsets  # noqa: E402
from rawtxn import wait_for_transactions  # noqa: E402

GROWTH_KIB_MAX = 256 * 1024


def judge_rows(bench, reference, only):
    """Yields (name, reason or None) for each row of the tables."""
    for row in rows_frame.ROWS + rows_produce.ROWS + rows_read.ROWS + rows_admin.ROWS + rows_groups.ROWS + rows_txn.ROWS:
        if only not in row.name:
            continue
        if not row.raw and row.key not in bench.versions:
            yield row.name, (f"SKIP {row.key} is not served" if not reference else f"API {row.key} is missing")
            continue
        if not row.raw and not bench.versions[row.key][0] <= row.version <= bench.versions[row.key][1]:
            yield row.name, f"version {row.version} of API {row.key} is not served: {bench.versions[row.key]}"
            continue
        before = offsets(bench.control, bench.topic, 0)[1] if row.leo is not None else 0
        try:
            got, wanted = bench.outcome(row), row.wanted(reference)
        except NotOffered as missing:
            yield row.name, f"SKIP {missing}"
            continue
        reason = None if got in wanted else f"expected {' or '.join(wanted)}, got {got}"
        if reason is None and row.leo is not None:
            rose = offsets(bench.control, bench.topic, 0)[1] - before
            if (rose > 0) != row.leo:
                reason = f"log end moved by {rose}"
        yield row.name, reason


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("--pid", type=int)
    parser.add_argument("--reference", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--thorough", action="store_true", help="flip every bit of every request of every version")
    args = parser.parse_args()

    bench = Bench(args.bootstrap, args.reference)
    bench.wait_for_groups()
    wait_for_transactions(bench.control)
    before = resident_kib(args.pid) if args.pid else 0
    failed = 0
    for source in (judge_rows(bench, args.reference, args.only), sweeps.judge(bench, args.reference, args.only, args.thorough),
                   floods.judge(bench, args.reference, args.only)):
        for name, reason in source:
            if reason is None:
                try:
                    bench.control_works()
                except Exception as error:  # the control client is the point: any trouble fails the row
                    reason = f"afterwards the control client failed: {error!r}"
                    bench = Bench(args.bootstrap, args.reference)
            skipped = reason and reason.startswith("SKIP")
            failed += bool(reason) and not skipped
            if skipped:
                print(f"SKIP {name}: {reason.removeprefix('SKIP ')}", flush=True)
            else:
                print(f"FAIL {name}: {reason}" if reason else f"PASS {name}", flush=True)
    if args.pid and not args.reference:
        grown = resident_kib(args.pid) - before
        ok = grown <= GROWTH_KIB_MAX
        failed += not ok
        print(f"{'PASS' if ok else 'FAIL'} memory after all rows{'' if ok else ': grown'} by {grown} KiB"
              f" (bound {GROWTH_KIB_MAX} KiB)")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
