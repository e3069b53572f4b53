"""librdkafka's own test suite, from the crate that carries its sources: `librdkafka_suite.py HOST:PORT`.

The sources come through cargo and are built under target/judges, without
optimisation. librdkafka/suite.tests lists what is run, each line in a process
of its own with a time limit; its output goes to target/judges/librdkafka-logs.
Lines of librdkafka/suite.allow may fail, and must: one that passes is to be
taken out.
"""

import argparse
import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import allowlist  # noqa: E402
import tools  # noqa: E402

OURS = os.path.join(HERE, "librdkafka")
LOGS = os.path.join(tools.HOME, "librdkafka-logs")
PACKAGE = "rdkafka-sys"
SECONDS_MAX = 300
PARALLEL = 10  # they mostly wait
LIKE_KAFKA = "4.0.0"  # newer versions want share groups, older ones batches of format 1
CONFIGURE = ["--disable-optimization", "--disable-debug-symbols", "--disable-gssapi", "--disable-curl",
             "--disable-syslog"]
# What the suite takes for granted and one broker with segments of 1 MiB or more has not: file, text, its stead.
EDITS = (("0098-consumer-txn.cpp", ", 3, 5000)", ", 1, 5000)"), ("0103-transactions.c", ", 3, 5000)", ", 1, 5000)"),
         ("0107-topic_recreate.c", ", 3, 5000)", ", 1, 5000)"),
         ("0142-reauthentication.c", ", 1, 3, 5000)", ", 1, 1, 5000)"), ("0111-delay_create_topics.cpp", ", 1, 3)", ", 1, 1)"), ("0129-fetch_aborted_msgs.c", '"20000"', '"1048576"'))
JAVA = {"0098"}  # they let a Java producer write, too
WHENS = ("default", "consumer", "noauto", "long", "sasl")
# Whom a broker lets in for `sasl`; lib/stages.py starts it so.
SASL = "security.protocol=SASL_PLAINTEXT\nsasl.mechanisms=PLAIN\nsasl.username=alice\nsasl.password=secret\n"
OUTCOME = re.compile(r"^\|\s*(\d{4}_\w+)\s*\|\s*(\w+)\s*\|\s*([\d.]+)s\s*\|(.*)$", re.M)
FAILED = re.compile(r"^### Test .*? failed at (.*?) at .*###\n(.*)$", re.M)


class Row:
    """A line of suite.tests."""

    def __init__(self, line):
        words = line.split(None, 2)
        self.number, self.whens = words[0], words[1].split(",")
        self.part = words[2] if len(words) > 2 else ""
        self.name = f"{self.number} {self.part}".strip()

    def file(self, when, ending):
        return os.path.join(LOGS, when, re.sub(r"\W+", "-", self.name).strip("-") + ending)


def lines(name):
    with open(os.path.join(OURS, name), encoding="ascii") as source:
        return [line.rstrip() for line in source if line.strip() and not line.startswith("#")]


def sources():
    """The suite's folder, copied from cargo's own and built; a minute the first time."""
    manifest, lock = os.path.join(OURS, "Cargo.toml"), os.path.join(OURS, "Cargo.lock")
    origin = tools.crate(manifest, PACKAGE)
    directory, fresh, mark = tools.built("librdkafka", lock, os.path.abspath(__file__))
    if not fresh:
        shutil.rmtree(directory)
        shutil.copytree(os.path.join(origin, "librdkafka"), directory)
        for name, old, new in EDITS:
            tools.edit(os.path.join(directory, "tests", name), old, new)
        build(directory)
        mark()
    return os.path.join(directory, "tests")


def build(directory):
    for name in ("configure", "lds-gen.py"):
        os.chmod(os.path.join(directory, name), 0o755)
    make = ["make", f"-j{os.cpu_count() or 1}"]
    with open(os.path.join(LOGS, "build.log"), "wb") as log:
        for command in (["./configure", *CONFIGURE], [*make, "libs"], [*make, "-C", "tests", "test-runner"]):
            tools.call(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)


def configuration(row, when, bootstrap):
    """A file of settings. Each line gets names of its own: the library's first client seeds the chance that
    names come from with the milliseconds of the clock, so of a hundred processes some take the same names."""
    with open(row.file(when, ".conf"), "w", encoding="ascii") as out:
        out.write(f"bootstrap.servers={bootstrap}\nbroker.address.family=v4\nenable.random.seed=false\n"
                  f"{SASL if when == 'sasl' else ''}test.topic.random=true\ntest.topic.prefix=rdkafkatest-{os.path.basename(row.file(when, ''))}\n")
    return out.name


def run(row, when, where, bootstrap):
    """("PASS", ""), ("SKIP", why) or ("FAIL", why)."""
    if row.number in JAVA:
        try:
            tools.java()
        except tools.Missing as missing:
            return "SKIP", str(missing)
    environment = dict(os.environ, LD_LIBRARY_PATH="../src:../src-cpp", TESTS=row.number,
                       RDKAFKA_TEST_CONF=configuration(row, when, bootstrap), TEST_KAFKA_VERSION=LIKE_KAFKA, TEST_LEVEL="2",
                       KAFKA_PATH=OURS, KAFKA_JARS=os.path.join(tools.HOME, "jars"), BROKERS=bootstrap)
    if row.part:
        environment["SUBTESTS"] = row.part
    if when == "consumer":
        environment["TEST_CONSUMER_GROUP_PROTOCOL"] = "consumer"
    command = ["./test-runner", "-p1", "-L", "-s", "noautocreate" if when == "noauto" else "default"]
    with open(row.file(when, ".log"), "wb") as log:
        child = subprocess.Popen(command, cwd=where, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                                 stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = child.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()
    with open(row.file(when, ".log"), encoding="utf-8", errors="replace") as log:
        return judged(row, code, re.sub(r"\x1b\[[0-9;]*m", "", log.read()))


def judged(row, code, log):
    if code is None:
        return "FAIL", f"not done within {SECONDS_MAX} s"
    if code:
        said = [f"{where}: {what}" for where, what in FAILED.findall(log)]
        return "FAIL", (said or [f"exit code {code}"])[0][:400]
    outcomes = OUTCOME.findall(log)
    passed = [float(seconds) for _, outcome, seconds, _ in outcomes if outcome == "PASSED"]
    if not passed:
        why = next((why.strip() for _, outcome, _, why in outcomes if outcome == "SKIPPED"), "")
        return ("SKIP", why) if why else ("FAIL", "there is no such test")
    if max(passed) == 0 or (row.part and ": PASS (" not in log):
        return "FAIL", "nothing was tested"
    return "PASS", ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("--when", choices=WHENS, default="default", help="which lines of suite.tests")
    parser.add_argument("--only", default="", help="lines that contain this")
    parser.add_argument("--reference", action="store_true", help="nothing may fail")
    args = parser.parse_args()
    excused = {} if args.reference else allowlist.read(os.path.join(OURS, "suite.allow"))
    rows = [row for row in map(Row, lines("suite.tests")) if args.when in row.whens and args.only in row.name]
    os.makedirs(os.path.join(LOGS, args.when), exist_ok=True)
    where, failed = sources(), 0
    with concurrent.futures.ThreadPoolExecutor(1 if args.when == "long" else PARALLEL) as pool:
        jobs = {pool.submit(run, row, args.when, where, args.bootstrap): row for row in rows}
        for job in concurrent.futures.as_completed(jobs):
            name = jobs[job].name
            failed += allowlist.show(name, *allowlist.verdict(name, *job.result(), excused))
    for name in os.listdir(where):
        if name.startswith("stats_"):
            os.unlink(os.path.join(where, name))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
