"""rust-rdkafka's own tests, from its crate: `rdkafka_suite.py HOST:PORT`.

The crate's sources come through cargo and are built under target/judges by the
lock file that comes with them. Each test runs in a process of its own with a
time limit. Tests in rdkafka/suite.allow may fail, and must.
"""

import argparse
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import allowlist  # noqa: E402
import tools  # noqa: E402

OURS = os.path.join(HERE, "rdkafka")
LIKE_KAFKA = "4.0.0"
SECONDS_MAX = 45
PARALLEL = 4
SUITES = ("test_transactions", "test_admin", "test_high_consumers", "test_high_producers", "test_low_consumers",
          "test_low_producers", "test_metadata")
# Where the suite takes for granted that the broker is at localhost:9092: file, text, its stead.
EDITS = (("test_high_producers.rs", '"bootstrap.servers", "localhost"', '"bootstrap.servers", get_bootstrap_server()'),
         ("test_metadata.rs", "broker_metadata[0].port(), 9092",
          'broker_metadata[0].port().to_string(), get_bootstrap_server().rsplit(\':\').next().unwrap()'))
# A race in the client, between assign() and a callback: on a busy machine it is lost against any broker.
RACES = {"test_low_consumers::test_produce_consume_message_queue_nonempty_callback": 3}
# They pass without a broker as well, so they tell nothing of it.
CLIENT_ONLY = {"test_admin::test_event_errors", "test_high_consumers::test_invalid_max_poll_interval",
               "test_high_producers::test_future_producer_send_full", "test_high_producers::test_future_undelivered",
               "test_low_consumers::test_invalid_consumer_position", "test_low_producers::test_base_producer_opaque_arc",
               "test_low_producers::test_base_producer_queue_full", "test_low_producers::test_fatal_errors",
               "test_metadata::test_client_config"}
# It wants a topic's automatic creation to take longer than 0.1 s: what it says is how busy the machine was.
CLOCK_ONLY = {"test_low_producers::test_base_producer_timeout"}


def sources():
    """The crate's folder, copied from cargo's own to where it may be built."""
    origin = tools.crate(os.path.join(OURS, "Cargo.toml"), "rdkafka")
    directory, fresh, mark = tools.built("rdkafka", os.path.join(OURS, "Cargo.lock"), os.path.abspath(__file__))
    if not fresh:
        shutil.rmtree(directory)
        shutil.copytree(origin, directory)
        for name, old, new in EDITS:
            tools.edit(os.path.join(directory, "tests", name), old, new)
        with open(os.path.join(directory, "Cargo.toml"), "a", encoding="utf-8") as out:
            out.write("\n[workspace]\n")
        mark()
    return directory


def build(directory):
    """{suite: executable}; librdkafka is built too the first time."""
    environment = dict(os.environ, CARGO_TARGET_DIR=os.path.join(tools.HOME, "rdkafka-target"), CARGO_PROFILE_DEV_DEBUG="0",
                       CARGO_PROFILE_TEST_DEBUG="0")
    command = ["cargo", "test", "--locked", "--no-run", "--message-format", "json"]
    for suite in SUITES:
        command += ["--test", suite]
    done = subprocess.run(command, cwd=directory, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    artifacts = [json.loads(line) for line in done.stdout.splitlines()]
    return {a["target"]["name"]: a["executable"] for a in artifacts if a.get("executable")}


def tests(executable):
    listed = subprocess.run([executable, "--list", "--format", "terse"], capture_output=True, text=True, check=True)
    return [line.removesuffix(": test") for line in listed.stdout.splitlines() if line.endswith(": test")]


def run(executable, name, bootstrap):
    """("PASS", "") or ("FAIL", why)."""
    environment = dict(os.environ, KAFKA_HOST=bootstrap, KAFKA_VERSION=LIKE_KAFKA, RUST_BACKTRACE="0", RUST_LOG="off")
    try:
        done = subprocess.run([executable, "--exact", name, "--nocapture"], capture_output=True, text=True,
                              timeout=SECONDS_MAX, check=False, env=environment, errors="replace")
    except subprocess.TimeoutExpired:
        return "FAIL", f"not done within {SECONDS_MAX} s"
    if done.returncode == 0:
        return "PASS", ""
    said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("note:")]
    return "FAIL", " | ".join(said[-6:])[-800:] or f"exit code {done.returncode}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap", nargs="?")
    parser.add_argument("--build", action="store_true", help="build the tests only")
    parser.add_argument("--only", default="", help="tests that contain this")
    parser.add_argument("--reference", action="store_true", help="nothing may fail")
    args = parser.parse_args()
    excused = {} if args.reference else allowlist.read(os.path.join(OURS, "suite.allow"))
    executables, jobs, failed = build(sources()), {}, 0
    if args.build:
        return
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        for suite in SUITES:
            for test in tests(executables[suite]):
                name = f"{suite}::{test}"
                if test.startswith("utils::") and suite != SUITES[0]:
                    continue  # each of them carries it
                if name in CLIENT_ONLY:
                    allowlist.show(name, "SKIP", "concerns the client alone")
                elif name in CLOCK_ONLY:
                    allowlist.show(name, "SKIP", "passes only where creating a topic takes longer than 0.1 s")
                elif args.only in name:
                    jobs[name] = pool.submit(run, executables[suite], test, args.bootstrap)
        for name, job in jobs.items():
            outcome, why = job.result()
            suite, test = name.split("::", 1)
            for _ in range(RACES.get(name, 0)):
                if outcome == "FAIL":
                    outcome, why = run(executables[suite], test, args.bootstrap)
            failed += allowlist.show(name, *allowlist.verdict(name, outcome, why, excused))
    for name in set() if args.only else set(excused) - set(jobs):
        failed += allowlist.show(name, "FAIL", "stands in the allow-list, but there is no such test")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
