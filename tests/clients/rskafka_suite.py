"""rskafka's own test suite, from its crate: `rskafka_suite.py HOST:PORT`.

The crate's sources come through cargo and are built under target/judges with
our lock file. Each test runs in a process of its own with a time limit. Tests
named in rust/rskafka-suite.allow may fail; those that need a JVM downloading
jars, TLS, SASL or a proxy return at once by themselves and are skipped.
"""

import argparse
import concurrent.futures
import fnmatch
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import tools  # noqa: E402

SECONDS_MAX = 60
PARALLEL = 4
SUITES = ("client", "consumer", "produce_consume", "producer")
NEEDS = {"java": "needs a JVM that downloads jars by itself", "test_sasl": "needs a SASL listener",
         "test_tls": "needs a TLS listener", "test_socks5": "needs a SOCKS5 proxy"}


def sources():
    """The crate's folder, copied from cargo's own to where it may be built."""
    manifest = os.path.join(HERE, "rust", "Cargo.toml")
    origin = tools.crate(manifest, "rskafka")
    lock = os.path.join(HERE, "rust", "rskafka-suite.lock")
    directory, fresh, mark = tools.built("rskafka", lock)
    if not fresh:
        shutil.rmtree(directory)
        shutil.copytree(origin, directory)
        os.unlink(os.path.join(directory, "rust-toolchain.toml"))
        shutil.copy(lock, os.path.join(directory, "Cargo.lock"))
        with open(os.path.join(directory, "Cargo.toml"), "a", encoding="utf-8") as out:
            out.write("\n[workspace]\n")
        mark()
    return directory


def build(directory):
    """{suite: executable}; a few minutes the first time, since librdkafka is built too."""
    environment = dict(os.environ, CARGO_TARGET_DIR=os.path.join(tools.HOME, "rskafka-target"), CARGO_PROFILE_DEV_DEBUG="0",
                       CARGO_PROFILE_TEST_DEBUG="0")
    command = ["cargo", "test", "--locked", "--no-run", "--features", "full", "--message-format", "json"]
    for suite in SUITES:
        command += ["--test", suite]
    done = subprocess.run(command, cwd=directory, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found = {}
    for line in done.stdout.splitlines():
        artifact = json.loads(line)
        if artifact.get("executable"):
            found[artifact["target"]["name"]] = artifact["executable"]
    return found


def tests(executable):
    listed = subprocess.run([executable, "--list", "--format", "terse"], capture_output=True, text=True, check=True)
    return [line.removesuffix(": test") for line in listed.stdout.splitlines() if line.endswith(": test")]


def run(executable, name, bootstrap):
    """None, or why the test failed."""
    environment = dict(os.environ, TEST_INTEGRATION="1", TEST_BROKER_IMPL="kafka", KAFKA_CONNECT=bootstrap, RUST_BACKTRACE="0")
    try:
        done = subprocess.run([executable, "--exact", name, "--nocapture"], capture_output=True, text=True,
                              timeout=SECONDS_MAX, check=False, env=environment, errors="replace")
    except subprocess.TimeoutExpired:
        return f"not done within {SECONDS_MAX} s"
    if done.returncode == 0:
        return None
    said = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("note:")]
    return " | ".join(said[-6:])[-800:] or f"exit code {done.returncode}"


def allowed():
    with open(os.path.join(HERE, "rust", "rskafka-suite.allow"), encoding="ascii") as source:
        return dict(line.strip().split(None, 1) for line in source if line.strip() and not line.startswith("#"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap", nargs="?")
    parser.add_argument("--build", action="store_true", help="build the tests only")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    excused, failed, jobs = allowed(), 0, []
    executables = build(sources())
    if args.build:
        return
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        for suite in SUITES:
            for name in tests(executables[suite]):
                why = next((why for part, why in NEEDS.items() if part in name), None)
                if why:
                    print(f"SKIP {suite}::{name}: {why}", flush=True)
                elif args.only in name:
                    jobs.append((suite, name, pool.submit(run, executables[suite], name, args.bootstrap)))
        for suite, name, job in jobs:
            reason = job.result()
            if reason is None:
                print(f"PASS {suite}::{name}", flush=True)
            elif excuse := next((why for pattern, why in excused.items() if fnmatch.fnmatch(name, pattern)), None):
                print(f"SKIP {suite}::{name}: {excuse} ({reason[:200]})", flush=True)
            else:
                failed += 1
                print(f"FAIL {suite}::{name}: {reason}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
