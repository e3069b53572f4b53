"""kafka-python's own integration tests, from its source distribution: `kafka_python_suite.py HOST:PORT`.

The distribution comes through pip and is unpacked under target/judges; what it
lacks (a package file, a service class, a folder) is put beside it. Tests in
kafka-python/suite.allow may fail, and must. Without a broker none of them passes.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as xml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import allowlist  # noqa: E402
import tools  # noqa: E402

OURS = os.path.join(HERE, "kafka-python")
LIKE_KAFKA = "4.1.0"  # what the client takes the broker for; older ones leave a test out
REFERENCE_LIKE = "4.3.0"
SECONDS_MAX = 60
# A race in the client: a consumer asks for metadata as it is made, and only then says which topics it wants. If that
# request is on its way by then, its answer counts as the answer for these topics too, and without a group nothing asks
# again for five minutes (a group's leader does). The fast broker and the busy machine are the likelier to hit it.
# These are the tests with a consumer that subscribes without a group; they are run again, alone, and one run must pass.
RACE_RUNS = 3
RACES = {
    "test_consumer_integration::test_kafka_consumer",
    "test_consumer_integration::test_kafka_consumer_max_bytes_simple",
    "test_consumer_integration::test_kafka_consumer_unsupported_encoding",
    "test_producer_integration::test_end_to_end",
    "test_producer_integration::test_idempotent_producer_max_in_flight",
    # No consumer: it gives each send one second, also the first, which makes the topic; a busy machine may need more.
    "test_producer_integration::test_idempotent_producer",
}
NEEDS = {"test_sasl_integration": "needs a SASL listener", "test_ssl_integration": "needs a TLS listener"}
SERVICE = '''"""What the fixtures want of a broker that runs already."""


class SpawnedService:
    pass


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def close(self):
        pass
'''


def sources(python):
    """The unpacked distribution, made complete."""
    wanted = os.path.join(OURS, "sdist.txt")
    directory, fresh, mark = tools.built("kafka-python", wanted, os.path.abspath(__file__))
    if fresh:
        return directory
    shutil.rmtree(directory)
    with tempfile.TemporaryDirectory() as folder:
        tools.call([python, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--require-hashes",
                    "--no-binary", "kafka-python", "--no-build-isolation", "-d", folder, "-r", wanted])
        (archive,) = os.listdir(folder)
        with tarfile.open(os.path.join(folder, archive)) as content:
            content.extractall(folder, filter="data")
        shutil.move(os.path.join(folder, archive.removesuffix(".tar.gz")), directory)
    open(os.path.join(directory, "test", "__init__.py"), "wb").close()
    with open(os.path.join(directory, "test", "service.py"), "w", encoding="ascii") as out:
        out.write(SERVICE)
    for version in (LIKE_KAFKA, REFERENCE_LIKE):
        os.makedirs(os.path.join(directory, "servers", version, "kafka-bin"))
    mark()
    return directory


def run(python, directory, args, *tests):
    """[(name, outcome, why)] of all tests that were run; `tests` are pytest's arguments that choose them."""
    report = os.path.join(tools.HOME, "logs", "kafka-python-suite.xml")
    if os.path.exists(report):
        os.unlink(report)
    environment = dict(os.environ, KAFKA_URI=f"kafka://{args.bootstrap}",
                       KAFKA_VERSION=REFERENCE_LIKE if args.reference else LIKE_KAFKA)
    # A method of its own would end the whole run at the first test that takes too long.
    command = [python, "-m", "pytest", *tests, "-p", "no:cacheprovider", f"--junitxml={report}",
               "--tb=short", f"--timeout={SECONDS_MAX}", "--timeout-method=signal", "-o", "log_level=WARNING", "-W", "ignore"]
    for module in NEEDS:
        command.append(f"--ignore=test/integration/{module}.py")
    subprocess.run(command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, check=False)
    if not os.path.exists(report):
        sys.exit("pytest ended without a report")
    return [outcome(case) for case in xml.parse(report).iter("testcase")]


def outcome(case):
    name = f"{case.get('classname').rpartition('.')[2]}::{case.get('name')}"
    for kind, meaning in (("failure", "FAIL"), ("error", "FAIL"), ("skipped", "SKIP")):
        found = case.find(kind)
        if found is not None:
            return name, meaning, " ".join((found.get("message") or kind).split())[:400]
    return name, "PASS", ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bootstrap")
    parser.add_argument("--only", default="", help="an expression of pytest's -k")
    parser.add_argument("--reference", action="store_true", help="nothing may fail but what it is not set up for")
    args = parser.parse_args()
    excused = {} if args.reference else allowlist.read(os.path.join(OURS, "suite.allow"))
    python = tools.kafka_python_suite()
    failed, seen = 0, set()
    directory = sources(python)
    for name, what, why in run(python, directory, args, "test/integration", "-k", args.only):
        seen.add(name)
        for _ in range(RACE_RUNS if name.partition("[")[0] in RACES else 0):
            if what != "FAIL":
                break
            print(f"   once more, alone: {name} ({why[:80]})")
            alone = run(python, directory, args, f"test/integration/{name.replace('::', '.py::')}")
            what, why = next((rest for found, *rest in alone if found == name), (what, why))
        failed += allowlist.show(name, *allowlist.verdict(name, what, why, excused))
    for module, why in NEEDS.items():
        allowlist.show(module, "SKIP", why)
    for name in set() if args.only else set(excused) - seen:
        failed += allowlist.show(name, "FAIL", "stands in the allow-list, but there is no such test")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
