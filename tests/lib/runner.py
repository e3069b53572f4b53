"""Runs the stages of stages.py one by one and counts their checks.

A stage's output goes to target/judges/logs/<stage>.log. Client stages print
`PASS name`, `FAIL name: reason` or `SKIP name: reason` per check; cargo's test
summaries are counted as they are. Exit code 1 if anything failed.

Most judges wait for timers. So those that a stage's `lane` puts side by side are
run by two processes of this program, a lane each, which tell of their stages in a
file. What builds or measures runs alone.
"""

import argparse
import atexit
import fcntl
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time

import tools
from broker import Broker, Kafka
from stages import BY_NAME, STAGES

LOGS = os.path.join(tools.HOME, "logs")
CHECK = re.compile(r"^(PASS|FAIL|SKIP) (.*)$", re.M)
CARGO_TESTS = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.M)
SHOWN_FAILURES = 40


class Result:
    """The counts of one stage."""

    def __init__(self, stage):
        self.stage, self.passed, self.failed, self.skipped, self.seconds = stage, 0, 0, 0, 0.0
        self.lines = []  # FAIL and SKIP lines, to be repeated at the end

    def note(self, kind, text):
        self.passed += kind == "PASS"
        self.failed += kind == "FAIL"
        self.skipped += kind == "SKIP"
        if kind != "PASS":
            self.lines.append(f"{kind} {self.stage.name}: {text}")

    def take(self, log, code, timed_out):
        """Counts a finished command's log."""
        with open(log, encoding="utf-8", errors="replace") as source:
            text = source.read()
        if self.stage.rust:
            for passed, failed, ignored in CARGO_TESTS.findall(text):
                self.passed += int(passed)
                self.failed += int(failed)
                self.skipped += int(ignored)
            if self.passed + self.failed == 0:
                self.note("PASS" if code == 0 else "FAIL", f"exit code {code}")
            elif code and not self.failed:
                self.note("FAIL", f"exit code {code}")
        else:
            for kind, what in CHECK.findall(text):
                self.note(kind, what)
            if code and not self.failed and not timed_out:
                last = [line for line in text.splitlines() if line.strip()][-1:]
                self.note("FAIL", f"exit code {code}: {' '.join(last)}")
            if code == 0 and self.passed + self.skipped == 0:
                self.note("FAIL", "no check was made")
        if timed_out:
            self.note("FAIL", f"not done within {self.stage.timeout} s")


def run_stage(stage, options):
    result, started = Result(stage), time.monotonic()
    if stage.root and os.geteuid() != 0:
        result.note("SKIP", "needs root")
        return result
    log = os.path.join(LOGS, f"{stage.name}.log")
    open(log, "w", encoding="utf-8").close()
    try:
        command = prepared(stage, log)
    except (tools.Missing, subprocess.CalledProcessError) as error:
        result.note("SKIP" if isinstance(error, tools.Missing) else "FAIL", str(error))
        return result
    broker = None
    try:
        if stage.settings is not None and not options.bootstrap:
            broker = start_broker(stage, options)
        words = [fill(word, broker, options) for word in command if word != "{reference}" or options.reference]
        code, timed_out = execute(words, log, stage.timeout)
        result.take(log, code, timed_out)
    except RuntimeError as error:
        result.note("FAIL", str(error))
    finally:
        if broker:
            trouble = broker.stop()
            result.note("FAIL" if trouble else "PASS", trouble or "the broker ran to the end and stopped cleanly")
            if not result.failed:
                broker.forget()
    result.seconds = time.monotonic() - started
    return result


def prepared(stage, log):
    """The stage's command; what it installs is logged."""
    sys.stdout.flush()
    screen = os.dup(1)
    with open(log, "ab") as sink:
        os.dup2(sink.fileno(), 1)
        try:
            with open(os.path.join(LOGS, "installing.lock"), "w", encoding="ascii") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                return stage.command()
        finally:
            sys.stdout.flush()
            os.dup2(screen, 1)
            os.close(screen)


def start_broker(stage, options):
    data = os.path.join(tools.HOME, "data", stage.name)
    kind = Kafka if options.reference else Broker
    broker = kind(options.binary, data, os.path.join(LOGS, f"{stage.name}.broker.log"), dict(stage.settings))
    broker.forget()
    open(broker.log, "wb").close()
    return broker.start()


def fill(word, broker, options):
    return (word.replace("{bootstrap}", options.bootstrap or (broker.bootstrap if broker else ""))
            .replace("{pid}", str(broker.process.pid) if broker else "0")
            .replace("{reference}", "--reference")
            .replace("{data}", broker.data if broker else "").replace("{binary}", options.binary))


def execute(command, log, timeout):
    """(exit code, whether time ran out) of a command in a process group of its own."""
    with open(log, "ab") as sink:
        sink.write(("+ " + " ".join(command) + "\n").encode())
        sink.flush()
        child = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                 cwd=tools.ROOT, start_new_session=True, env=dict(os.environ, PYTHONUNBUFFERED="1"))
        try:
            return child.wait(timeout), False
        except subprocess.TimeoutExpired:
            return -1, True
        finally:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()


class Builders:
    """What later stages need built, one after the other, at low priority. It holds a lock while it is at work."""

    LOCK = os.path.join(LOGS, "builders.lock")

    def __init__(self, stages):
        commands = [stage.built_by for stage in stages if stage.built_by]
        script = "; ".join(shlex.join(command) for command in commands)
        self.child = None
        if commands:
            with open(os.path.join(LOGS, "builders.log"), "wb") as sink, open(self.LOCK, "w", encoding="ascii") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self.child = subprocess.Popen(["nice", "-n", "19", "sh", "-c", script], stdout=sink, stderr=subprocess.STDOUT,
                                              stdin=subprocess.DEVNULL, cwd=tools.ROOT, start_new_session=True,
                                              pass_fds=(lock.fileno(),))

    @classmethod
    def wait(cls):
        """A build that failed is done again by its stage, which then tells of it."""
        with open(cls.LOCK, "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)

    def end(self):
        if self.child and self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait()


class Lane:
    """A process of this program that runs some stages, one after the other."""

    def __init__(self, name, stages, options):
        self.stages, self.report = stages, os.path.join(LOGS, f"{name}.lane.json")
        if os.path.exists(self.report):
            os.unlink(self.report)
        command = [sys.executable, os.path.abspath(__file__), "--binary", options.binary, "--report", self.report]
        for stage in stages:
            command += ["--only", stage.name]
        self.child = subprocess.Popen(command + ["--reference"] * options.reference, stdin=subprocess.DEVNULL)
        atexit.register(self.end)

    def results(self):
        """Of all its stages, also of those that it did not come to."""
        code = self.child.wait()
        told = {}
        if os.path.exists(self.report):
            with open(self.report, encoding="utf-8") as source:
                told = json.load(source)
        results = []
        for stage in self.stages:
            result = Result(stage)
            if stage.name in told:
                result.__dict__.update(told[stage.name])
            else:
                result.note("FAIL", f"its lane ended before it, with code {code}")
            results.append(result)
        return results

    def end(self):
        if self.child.poll() is None:
            self.child.terminate()
            self.child.wait()


def side_by_side(stages, options):
    """Runs the lanes of these stages; their results in the order of the stages."""
    names = sorted({stage.lane for stage in stages})
    lanes = [Lane(name, [stage for stage in stages if stage.lane == name], options) for name in names]
    results = [result for lane in lanes for result in lane.results()]
    return sorted(results, key=lambda result: stages.index(result.stage))


def one_by_one(stages, options):
    """Runs these stages; ends with a build that fails, since there is nothing to judge then."""
    results = []
    for stage in stages:
        print(f"== {stage.name}: {stage.about}", flush=True)
        if stage.built_by:
            Builders.wait()
        results.append(run_stage(stage, options))
        last = results[-1]
        for line in last.lines[:SHOWN_FAILURES]:
            print(f"   {line}")
        if last.failed:
            print(f"   the whole story: {os.path.join(LOGS, stage.name)}.log")
        sys.stdout.flush()
        if stage.name == "build" and last.failed:
            break
        if options.report:
            tell(results, options.report)
    return results


def tell(results, path):
    """Writes down what is known so far."""
    with open(path + ".new", "w", encoding="utf-8") as out:
        json.dump({r.stage.name: {key: value for key, value in r.__dict__.items() if key != "stage"} for r in results}, out)
    os.replace(path + ".new", path)


def chosen(options):
    if options.only:
        return [BY_NAME[name] for name in options.only]
    return [stage for stage in STAGES if options.long or not stage.long]


def parse():
    parser = argparse.ArgumentParser(prog="tests/run", description="Runs everything that must pass.")
    parser.add_argument("--only", action="append", metavar="STAGE", help="run this stage alone; may be repeated")
    parser.add_argument("--long", action="store_true", help="also the soaks")
    parser.add_argument("--list", action="store_true", help="name the stages and end")
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="judge this running broker instead of starting one")
    parser.add_argument("--binary", default=os.path.join(tools.TARGET, "release", "millstream"), help="the broker's program")
    parser.add_argument("--reference", action="store_true", help="judge Apache Kafka instead: this judges the judges")
    parser.add_argument("--report", help=argparse.SUPPRESS)  # where a lane tells of its stages
    options = parser.parse_args()
    for name in options.only or []:
        if name not in BY_NAME:
            parser.error(f"no stage {name!r}; there are {', '.join(BY_NAME)}")
    return options


def main():
    options = parse()
    if options.list:
        for stage in STAGES:
            print(f"{stage.name:12} {stage.about}{' (long)' if stage.long else ''}{' (root)' if stage.root else ''}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that brokers and stages end with us
    os.makedirs(LOGS, exist_ok=True)
    stages, results = chosen(options), []
    apart = not options.only and not options.bootstrap
    for in_lanes, group in itertools.groupby(stages, lambda stage: bool(apart and stage.lane)):
        group = list(group)
        results += side_by_side(group, options) if in_lanes else one_by_one(group, options)
        if results[-1].stage.name == "build":
            if results[-1].failed:
                break
            builders = Builders(stages)
            atexit.register(builders.end)
    if options.report:
        return 0
    failures = [line for r in results for line in r.lines if line.startswith("FAIL")]
    print(f"\n{'stage':12} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}")
    for r in results:
        print(f"{r.stage.name:12} {r.passed:7} {r.failed:7} {r.skipped:8} {r.seconds:8.0f}")
    passed, failed, skipped = (sum(getattr(r, kind) for r in results) for kind in ("passed", "failed", "skipped"))
    for line in failures[:SHOWN_FAILURES]:
        print(line)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
