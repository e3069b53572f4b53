"""franz-go's own tests of its client, pkg/kgo: `kgo_suite.py HOST:PORT`.

They come through Go's module proxy, as go/go.mod pins them. Those that call a
broker are run, all at once in one process; above all chains of three groups
that hand records on, exactly once, while members come and go, with every
assignor and both group protocols, plain and in transactions. What the suite
itself leaves out counts as a failure, too: kgo/suite.allow names what may fail
and why, and such a line must. Without a broker none of the tests passes.
"""

import argparse
import functools
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import allowlist  # noqa: E402
import tools  # noqa: E402

MODULE, PACKAGE = "github.com/twmb/franz-go", "pkg/kgo"
# Through how many records each of the chains goes; the suite's own number is the long one.
RECORDS, RECORDS_LONG = 25_000, 500_000
SECONDS_MAX, SECONDS_MAX_LONG = 240, 1500
PARALLEL = 6  # the two tests with the chains are at work from the beginning to the end
# A test needs a broker if its text has one of these; the others judge the client alone.
CALLS = re.compile(r"\b(newTestClient|tmp\w*Topic\w*|tmp\w*Group|adm|testChainETL|scramSeeds|oauthSeeds)\b")
# They pass without a broker as well, so they tell nothing of it.
CLIENT_ONLY = {"TestUnknownGroupOffsetFetchPinned", "TestConsumeTopicRetrieval", "TestConsumeTopicRetrieval_Many"}
REFERENCE_LACKS = {
    "TestSCRAMAuth": "needs a SASL listener", "TestSCRAMAuthBadCredentials": "needs a SASL listener", "TestOAuthAuth": "needs a SASL listener",
    "TestIssueProduceBrokerTooOldFailsRecords": "Produce is announced from version 0"}


@functools.cache
def folder():
    """Where Go keeps the package's sources."""
    here = os.path.join(tools.CLIENTS, "go")
    listed = subprocess.run(["go", "list", "-m", "-f", "{{.Dir}}", MODULE], cwd=here, capture_output=True, text=True, check=True)
    return os.path.join(listed.stdout.strip(), PACKAGE)


def build():
    """The tests as a program."""
    tools.go()
    here = os.path.join(tools.CLIENTS, "go")
    directory, fresh, mark = tools.built("kgo", os.path.join(here, "go.mod"), os.path.join(here, "go.sum"))
    program = os.path.join(directory, "kgo.test")
    if not fresh or not os.path.exists(program):
        tools.call(["go", "test", "-c", "-o", program, f"{MODULE}/{PACKAGE}"], cwd=here)
        mark()
    return program


def wanted():
    """The names of the tests that call a broker, in the order of the sources."""
    found = []
    for name in sorted(os.listdir(folder())):
        if name.endswith("_test.go"):
            with open(os.path.join(folder(), name), encoding="utf-8") as source:
                found += [test for test, text in re.findall(r"(?ms)^func (Test\w+)\(.*?\) \{\n(.*?)^\}", source.read()) if CALLS.search(text)]
    return found


class Story:
    """What was said of each test."""

    def __init__(self):
        self.outcomes, self.words, self.trouble = {}, {}, ""

    def take(self, event):
        name, action = event.get("Test"), event["Action"]
        said = event.get("Output", "").strip()
        if said.startswith(("panic:", "fatal error:")):
            self.trouble = self.trouble or said
        if name is None:
            return
        if action == "run":
            self.outcomes.setdefault(name, "FAIL")
        elif action in ("pass", "fail", "skip"):
            self.outcomes[name] = action.upper()
            self.words.setdefault(name, [])
        elif re.match(r"\w+\.go:\d+: |testConsumer sendErr|panic:", said) and "deleting" not in said:
            self.words.setdefault(name, []).append(said)

    def rows(self):
        """(name, outcome, why) of each part of a test, and of each test that has none or failed though none of them did."""
        for name, outcome in self.outcomes.items():
            parts = [other for other in self.outcomes if "/" not in name and other.startswith(name + "/")]
            if parts and (outcome != "FAIL" or any(self.outcomes[part] == "FAIL" for part in parts)):
                continue
            words = self.words.get(name)
            if outcome != "PASS" and words is None:
                yield name, outcome, f"did not come to its end. {self.trouble}"
            else:
                yield name, outcome, " | ".join(words or [])[:600] if outcome != "PASS" else ""


def run(program, names, args):
    story = Story()
    seconds = SECONDS_MAX_LONG if args.long else SECONDS_MAX
    records = args.records or (RECORDS_LONG if args.long else RECORDS)
    environment = dict(os.environ, KGO_SEEDS=args.bootstrap, KGO_TEST_RF="1", KGO_TEST_RECORDS=str(records), KGO_LOG_LEVEL=args.log)
    command = ["go", "tool", "test2json", program, "-test.v=test2json", f"-test.run=^({'|'.join(names)})$", "-test.count=1",
               f"-test.parallel={PARALLEL}", f"-test.timeout={seconds}s"]
    with subprocess.Popen(command, cwd=os.path.dirname(program), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as going:
        for line in going.stdout:
            try:
                event = json.loads(line)
            except ValueError:
                event = {"Action": "output", "Output": line}
            story.take(event)
            if args.log != "none" or event.get("Output", "").startswith("panic:"):
                print("  ", event.get("Output", "").rstrip())
    return story


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap", nargs="?")
    parser.add_argument("--build", action="store_true", help="build the tests only")
    parser.add_argument("--only", default="", help="tests that contain this")
    parser.add_argument("--long", action="store_true", help=f"{RECORDS_LONG} records")
    parser.add_argument("--records", type=int, help="as many as this")
    parser.add_argument("--log", default="none", choices=("none", "info", "debug"), help="what the clients say")
    parser.add_argument("--reference", action="store_true", help="nothing may fail but what it is not set up for")
    args = parser.parse_args()
    program = build()
    if args.build:
        return
    excused = REFERENCE_LACKS if args.reference else allowlist.read(os.path.join(HERE, "kgo", "suite.allow"))
    names, failed, seen = [name for name in wanted() if args.only in name and name not in CLIENT_ONLY], 0, set()
    for name, outcome, why in run(program, names, args).rows():
        seen |= {name, name.partition("/")[0]}
        if outcome == "SKIP":
            outcome, why = "FAIL", f"left out: {why}"
        failed += allowlist.show(name, *allowlist.verdict(name, outcome, why, excused))
    for name in names:
        if name not in seen:
            failed += allowlist.show(name, "FAIL", "was not run")
    for name in set() if args.only else set(excused) - seen:
        failed += allowlist.show(name, "FAIL", "stands in the allow-list, but there is no such test")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
