"""Apache Kafka's command line tools, as an operator types them: `javatools.py HOST:PORT`.

Also runs java/Scenarios.java, the Admin, Producer and Consumer scenarios.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import tools  # noqa: E402

SECONDS_MAX = 60
TOOLS = "org.apache.kafka.tools."


class Wrong(Exception):
    """A check failed, for this reason."""


class Desk:
    """Runs the tools against one broker and one topic of its own."""

    def __init__(self, bootstrap):
        self.bootstrap, self.topic = bootstrap, f"tools-{os.getpid()}"

    def run(self, name, *args, code=0, bootstrap=True, java=()):
        """The output of a tool; another exit code than `code` is wrong, None takes any."""
        where = ["--bootstrap-server", self.bootstrap] if bootstrap else []
        command = tools.java_command(*java, name if "." in name else TOOLS + name, *where, *args, heap="256m")
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        except subprocess.TimeoutExpired as error:
            raise Wrong(f"not done within {SECONDS_MAX} s: {error.stdout} {error.stderr}"[-800:]) from error
        if code is not None and (done.returncode != 0) != (code != 0):
            raise Wrong(f"exit code {done.returncode}: {(done.stdout + done.stderr).strip()[-800:]}")
        return done.stdout + done.stderr

    def topics(self, *args, **more):
        return self.run("TopicCommand", *args, **more)

    def groups(self, *args, **more):
        return self.run(TOOLS + "consumer.group.ConsumerGroupCommand", *args, **more)

    def read_by_group(self, group, count):
        """The values that a console consumer of the group reads; it commits when it ends."""
        found = self.run(TOOLS + "consumer.ConsoleConsumer", "--topic", self.topic, "--group", group, "--max-messages", str(count),
                         "--timeout-ms", "20000", "--command-property", "auto.offset.reset=earliest",
                         "--command-property", "client.id=reader")
        has(found, rf"Processed a total of {count} messages")

    def configs(self, *args, **more):
        return self.run("kafka.admin.ConfigCommand", *args, **more)


def has(text, *wanted):
    for pattern in wanted:
        if not re.search(pattern, text):
            raise Wrong(f"no {pattern!r} in: {text.strip()[-800:]}")


def create(desk):
    """kafka-topics --create"""
    has(desk.topics("--create", "--topic", desk.topic, "--partitions", "3", "--replication-factor", "1",
                    "--config", "max.message.bytes=900000"), "Created topic")


def create_again(desk):
    """kafka-topics --create of a topic that exists fails, and does not with --if-not-exists"""
    has(desk.topics("--create", "--topic", desk.topic, code=1), "already exists")
    desk.topics("--create", "--topic", desk.topic, "--if-not-exists")


def list_topics(desk):
    """kafka-topics --list"""
    has(desk.topics("--list"), rf"(?m)^{desk.topic}$")


def describe(desk):
    """kafka-topics --describe"""
    found = desk.topics("--describe", "--topic", desk.topic)
    has(found, r"PartitionCount: 3", r"ReplicationFactor: 1", r"TopicId: [\w-]{22}", r"max.message.bytes=900000",
        r"Partition: 2\s+Leader: \d+\s+Replicas: \d+\s+Isr: \d+")


def grow(desk):
    """kafka-topics --alter --partitions"""
    desk.topics("--alter", "--topic", desk.topic, "--partitions", "4")
    has(desk.topics("--describe", "--topic", desk.topic), "PartitionCount: 4")
    has(desk.topics("--alter", "--topic", desk.topic, "--partitions", "2", code=1), "InvalidPartitions")


def under_replicated(desk):
    """kafka-topics --describe --under-replicated-partitions shows none"""
    if found := re.findall(r"Topic: .*", desk.topics("--describe", "--under-replicated-partitions")):
        raise Wrong(f"under-replicated: {found[:3]}")


def alter_config(desk):
    """kafka-configs --alter --add-config, --describe, --delete-config"""
    entity = ("--entity-type", "topics", "--entity-name", desk.topic)
    has(desk.configs("--alter", *entity, "--add-config", "max.message.bytes=200000,cleanup.policy=[delete],segment.bytes=2000000"),
        "Completed updating")
    has(desk.configs("--describe", *entity), "max.message.bytes=200000 sensitive=false synonyms=\\{DYNAMIC_TOPIC_CONFIG",
        "cleanup.policy=delete", "segment.bytes=2000000")
    desk.configs("--alter", *entity, "--delete-config", "max.message.bytes,cleanup.policy,segment.bytes")
    if "max.message.bytes" in desk.configs("--describe", *entity):
        raise Wrong("max.message.bytes is still set")
    desk.configs("--alter", *entity, "--add-config", "max.message.bytes=900000")


def all_configs(desk):
    """kafka-configs --describe --all of a topic and of a broker"""
    has(desk.configs("--describe", "--all", "--entity-type", "topics", "--entity-name", desk.topic), "segment.bytes=",
        "max.message.bytes=900000", "compression.type=producer")
    node = re.search(r"Leader: (\d+)", desk.topics("--describe", "--topic", desk.topic))[1]
    has(desk.configs("--describe", "--all", "--entity-type", "brokers", "--entity-name", node), "num.partitions=",
        "log.dirs?=")


def broker_config(desk):
    """kafka-configs --alter of a broker and of all brokers: the closer one wins, and topics obey"""
    node = re.search(r"Leader: (\d+)", desk.topics("--describe", "--topic", desk.topic))[1]
    topic = ("--describe", "--all", "--entity-type", "topics", "--entity-name", desk.topic)
    everywhere, here = ("--entity-type", "brokers", "--entity-default"), ("--entity-type", "brokers", "--entity-name", node)
    try:
        desk.configs("--alter", *everywhere, "--add-config", "log.retention.ms=7200000,compression.type=gzip")
        desk.configs("--alter", *here, "--add-config", "log.retention.ms=3600000")
        has(desk.configs("--describe", *everywhere), "log.retention.ms=7200000 .*DYNAMIC_DEFAULT_BROKER_CONFIG", "compression.type=gzip")
        has(desk.configs("--describe", *here), "log.retention.ms=3600000 .*DYNAMIC_BROKER_CONFIG:log.retention.ms=3600000, "
            "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=7200000")
        has(desk.configs(*topic), "retention.ms=3600000 .*DYNAMIC_BROKER_CONFIG", "compression.type=gzip .*DYNAMIC_DEFAULT_BROKER_CONFIG")
    finally:
        desk.configs("--alter", *here, "--delete-config", "log.retention.ms")
        desk.configs("--alter", *everywhere, "--delete-config", "log.retention.ms,compression.type")
    has(desk.configs(*topic), "compression.type=producer")
    has(desk.configs("--alter", *everywhere, "--add-config", "log.retention.ms=soon", code=1), "log.retention.ms")


def bad_config(desk):
    """kafka-configs refuses what is not a setting or not a value"""
    entity = ("--entity-type", "topics", "--entity-name", desk.topic)
    has(desk.configs("--alter", *entity, "--add-config", "no.such.config=1", code=1), "InvalidConfiguration", "no.such.config")
    has(desk.configs("--alter", *entity, "--add-config", "segment.bytes=many", code=1), "InvalidConfiguration", "segment.bytes")


def performance(desk):
    """kafka-producer-perf-test"""
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        has(desk.run("ProducerPerformance", "--topic", desk.topic, "--num-records", "20000", "--record-size", "100",
                     "--throughput", "-1", "--command-property", f"compression.type={codec}"), r"20000 records sent.*99.9th")


def forced_codec(desk):
    """topics that force a codec: what producers of another one wrote is read"""
    for forced, written in (("gzip", "zstd"), ("snappy", "gzip"), ("lz4", "none"), ("zstd", "snappy"), ("uncompressed", "lz4")):
        topic = f"{desk.topic}-{forced}"
        desk.topics("--create", "--topic", topic, "--config", f"compression.type={forced}")
        has(desk.run("ProducerPerformance", "--topic", topic, "--num-records", "3000", "--record-size", "300", "--throughput", "-1",
                     "--command-property", f"compression.type={written}"), "3000 records sent")
        has(desk.run(TOOLS + "consumer.ConsoleConsumer", "--topic", topic, "--from-beginning", "--max-messages", "3000",
                     "--timeout-ms", "20000"), r"Processed a total of 3000 messages")
        desk.topics("--delete", "--topic", topic)


def verifiable(desk):
    """VerifiableProducer: every record acknowledged"""
    found = desk.run("VerifiableProducer", "--topic", desk.topic, "--max-messages", "2000", "--acks", "-1")
    rows = [json.loads(line) for line in found.splitlines() if line.startswith("{")]
    acked = [(row["partition"], row["offset"]) for row in rows if row["name"] == "producer_send_success"]
    if len(acked) != 2000 or len(set(acked)) != 2000:
        raise Wrong(f"{len(acked)} acknowledged at {len(set(acked))} places")
    has(found, '"sent":2000,"acked":2000')


def get_offsets(desk):
    """kafka-get-offsets: latest, earliest, max-timestamp, by time"""
    def total(*args):
        found = desk.run("GetOffsetShell", "--topic", desk.topic, *args)
        return sum(int(n) for n in re.findall(rf"(?m)^{desk.topic}:\d+:(\d+)$", found)), found
    latest, said = total()
    if latest != 102_000:
        raise Wrong(f"latest adds to {latest}, expected 102000: {said}")
    for name, wanted in (("earliest", 0), ("-2", 0), ("latest", 102_000)):
        got, said = total("--time", name)
        if got != wanted:
            raise Wrong(f"{name} adds to {got}, expected {wanted}: {said}")
    newest, said = total("--time", "max-timestamp")
    if not 0 < newest < 102_000:
        raise Wrong(f"max-timestamp adds to {newest}: {said}")
    got, said = total("--time", "1000")
    if got != 0:
        raise Wrong(f"by an early time adds to {got}: {said}")


def console(desk):
    """kafka-console-consumer --partition: assignment, offset, headers printed"""
    found = desk.run(TOOLS + "consumer.ConsoleConsumer", "--topic", desk.topic, "--partition",
                     "0", "--offset", "10", "--max-messages", "500", "--timeout-ms", "20000",
                     "--formatter-property", "print.offset=true", "--formatter-property", "print.timestamp=true")
    offsets = [int(n) for n in re.findall(r"CreateTime:\d+\tOffset:(\d+)\t", found)]
    if offsets != list(range(10, 510)):
        raise Wrong(f"offsets {offsets[:3]}..{offsets[-3:]} ({len(offsets)}): {found[-300:]}")


def latency(desk):
    """EndToEndLatency, which commits offsets at its end"""
    has(desk.run("EndToEndLatency", desk.bootstrap, desk.topic, "300", "all", "100", bootstrap=False), r"Percentiles: 50th")


def row_of(text, *starts):
    """The columns of the one line that starts with these words."""
    rows = [line.split() for line in text.splitlines() if line.split()[:len(starts)] == list(starts)]
    if len(rows) != 1:
        raise Wrong(f"{len(rows)} lines start with {' '.join(starts)} in: {text.strip()[-800:]}")
    return rows[0]


def committed(desk, group):
    """{partition: (committed, lag)} as kafka-consumer-groups --describe --offsets tells it."""
    found = desk.groups("--describe", "--group", group, "--offsets")
    rows = [line.split() for line in found.splitlines() if line.split()[:2] == [group, desk.topic]]
    return {int(row[2]): (int(row[3]), int(row[5])) for row in rows}


def group_commits(desk):
    """kafka-console-consumer --group commits what it read, and goes on there"""
    group = f"{desk.topic}-g"
    desk.read_by_group(group, 500)
    if (got := sum(offset for offset, _ in committed(desk, group).values())) != 500:
        raise Wrong(f"committed offsets add to {got} after 500 records")
    desk.read_by_group(group, 700)
    found = committed(desk, group)
    if (got := sum(offset for offset, _ in found.values())) != 1200 or set(found) != set(range(4)):
        raise Wrong(f"committed after 1200 records: {found}")
    end = sum(int(n) for n in re.findall(rf"(?m)^{desk.topic}:\d+:(\d+)$", desk.run("GetOffsetShell", "--topic", desk.topic)))
    if (got := sum(offset + lag for offset, lag in found.values())) != end:
        raise Wrong(f"committed and lag add to {got}, expected {end}: {found}")


def group_list(desk):
    """kafka-consumer-groups --list, and --list --state"""
    group = f"{desk.topic}-g"
    has(desk.groups("--list"), rf"(?m)^{group}$")
    row = row_of(desk.groups("--list", "--state"), group)
    if row[-1] != "Empty":
        raise Wrong(f"--list --state says {row}")
    row_of(desk.groups("--list", "--state", "empty"), group)
    if group in desk.groups("--list", "--state", "stable"):
        raise Wrong(f"the empty group {group} is listed as stable")


def group_describe(desk):
    """kafka-consumer-groups --describe --members --verbose, --state, --offsets of a group with a member"""
    group = f"{desk.topic}-live"
    command = tools.java_command(TOOLS + "consumer.ConsoleConsumer", "--bootstrap-server", desk.bootstrap, "--topic", desk.topic,
                                 "--group", group, "--command-property", "client.id=reader", heap="256m")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as reader:
        try:
            deadline = time.monotonic() + SECONDS_MAX
            while (row := state_of(desk, group))[-2:] != ["Stable", "1"]:
                if time.monotonic() > deadline:
                    raise Wrong(f"not stable with one member within {SECONDS_MAX} s: {row}")
            if row[-3] != "range":
                raise Wrong(f"--describe --state says {row}")
            member = row_of(desk.groups("--describe", "--group", group, "--members", "--verbose"), group)
            if not member[1].startswith("reader-") or member[3] != "reader" or member[4] != "4":
                raise Wrong(f"--describe --members says {member}")
            has(" ".join(member), rf"{desk.topic}[:(]0,\s?1,\s?2,\s?3")
            has(desk.groups("--reset-offsets", "--group", group, "--topic", desk.topic, "--to-earliest", "--execute"),
                "inactive|Stable")
            if state_of(desk, group)[-2:] != ["Stable", "1"]:
                raise Wrong("the group is not as it was")
            has(desk.groups("--delete", "--group", group, code=None), "GroupNotEmptyException|not empty")
        finally:
            reader.terminate()
    if (row := state_of(desk, group))[-2:] != ["Empty", "0"]:
        raise Wrong(f"after the member left, --describe --state says {row}")


def state_of(desk, group):
    """The line of --describe --state, or words that say it is not there yet."""
    found = desk.groups("--describe", "--group", group, "--state", code=None)
    rows = [line.split() for line in found.splitlines() if line.startswith(group + " ")]
    return rows[0] if rows else [found.strip()[-200:], "", ""]


def group_reset(desk):
    """kafka-consumer-groups --reset-offsets: --to-offset, --shift-by, --to-latest, dry and executed"""
    group = f"{desk.topic}-g"
    target = ("--reset-offsets", "--group", group, "--topic", f"{desk.topic}:0")
    before = committed(desk, group)
    desk.groups(*target, "--to-offset", "10", "--dry-run")
    if committed(desk, group) != before:
        raise Wrong("a dry run changed offsets")
    for how, wanted in ((("--to-offset", "10"), 10), (("--shift-by", "5"), 15), (("--to-earliest",), 0)):
        row = row_of(desk.groups(*target, *how, "--execute"), group, desk.topic, "0")
        if row[3] != str(wanted) or committed(desk, group)[0][0] != wanted:
            raise Wrong(f"{how}: {row}, then {committed(desk, group)}")
    desk.groups("--reset-offsets", "--group", group, "--all-topics", "--to-latest", "--execute")
    if any(lag for _, lag in committed(desk, group).values()):
        raise Wrong(f"--to-latest left {committed(desk, group)}")
    new = f"{desk.topic}-new"
    desk.groups("--reset-offsets", "--group", new, "--topic", desk.topic, "--to-offset", "7", "--execute")
    if {offset for offset, _ in committed(desk, new).values()} != {7}:
        raise Wrong(f"a reset that makes a group: {committed(desk, new)}")


def group_delete_offsets(desk):
    """kafka-consumer-groups --delete-offsets"""
    group = f"{desk.topic}-g"
    has(desk.groups("--delete-offsets", "--group", group, "--topic", f"{desk.topic}:1"), r"(?i)successful")
    if set(committed(desk, group)) != {0, 2, 3}:
        raise Wrong(f"left are {committed(desk, group)}")
    has(desk.groups("--delete-offsets", "--group", f"{desk.topic}-none", "--topic", desk.topic, code=None), "(?i)not ?found|does not exist|GroupIdNotFound")


def group_delete(desk):
    """kafka-consumer-groups --delete, of a group and of one that is not there"""
    group = f"{desk.topic}-g"
    has(desk.groups("--delete", "--group", group), "(?i)successful")
    if re.search(rf"(?m)^{group}$", desk.groups("--list")):
        raise Wrong("the group is still listed")
    has(desk.groups("--delete", "--group", group, code=None), "GroupIdNotFound|not found")
    has(desk.groups("--describe", "--group", group, code=None), "GroupIdNotFoundException")
def delete_records(desk):
    """kafka-delete-records: to an offset, to the end, and beyond it"""
    def delete(partition, offset, code=0):
        wanted = {"partitions": [{"topic": desk.topic, "partition": partition, "offset": offset}], "version": 1}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(wanted, file)
            file.flush()
            return desk.run("DeleteRecordsCommand", "--offset-json-file", file.name, code=code)
    partition = rf"partition: {desk.topic}-"
    has(delete(0, 100), partition + r"0\s+low_watermark: 100")
    has(delete(1, -1), partition + r"1\s+low_watermark: \d{2,}")
    has(delete(2, 1 << 40), partition + r"2\s+error: .*OffsetOutOfRange")
    found = desk.run("GetOffsetShell", "--topic", desk.topic, "--time", "earliest")
    has(found, rf"(?m)^{desk.topic}:0:100$", rf"(?m)^{desk.topic}:2:0$")


def log_dirs(desk):
    """kafka-log-dirs --describe"""
    found = desk.run("LogDirsCommand", "--describe", "--topic-list", desk.topic)
    answer = json.loads(re.search(r"(?m)^\{.*\}$", found)[0])
    sizes = {p["partition"]: p["size"] for broker in answer["brokers"] for d in broker["logDirs"] for p in d["partitions"]}
    if set(sizes) != {f"{desk.topic}-{p}" for p in range(4)} or sum(sizes.values()) < 100_000:
        raise Wrong(f"sizes {sizes}")


def api_versions(desk):
    """kafka-broker-api-versions"""
    found = desk.run("BrokerApiVersionsCommand")
    has(found, r"Produce\(0\): \d+ to \d+ \[usable: \d+\]", r"Fetch\(1\)", r"Metadata\(3\)", r"ApiVersions\(18\)")
    wrong = [line for line in found.splitlines() if "UNSUPPORTED" in line and any(
        f"({key})" in line for key in (0, 1, 2, 3, 18, 19, 20, 22))]
    if wrong:
        raise Wrong(f"not usable: {wrong}")


def features(desk):
    """kafka-features describe"""
    desk.run("FeatureCommand", "describe")


def cluster_id(desk):
    """kafka-cluster cluster-id and list-endpoints"""
    has(desk.run("ClusterTool", "cluster-id", "--bootstrap-server", desk.bootstrap, bootstrap=False), r"Cluster ID: \S+")
    has(desk.run("ClusterTool", "list-endpoints", "--bootstrap-server", desk.bootstrap, bootstrap=False), desk.bootstrap.split(":")[1])


def producers(desk):
    """kafka-transactions describe-producers"""
    has(desk.run("TransactionsCommand", "describe-producers", "--topic", desk.topic, "--partition", "0"), "ProducerId")


def compatibility(desk):
    """ClientCompatibilityTest: admin, offsets for times, idempotence, too large records"""
    desk.topics("--delete", "--topic", "newtopic", "--if-exists")  # the test's own name
    desk.topics("--create", "--topic", f"{desk.topic}-c", "--partitions", "2")
    desk.run("ClientCompatibilityTest", "--topic", f"{desk.topic}-c", "--num-cluster-nodes", "1",
             "--offsets-for-times-supported", "true", "--cluster-id-supported", "true",
             "--expect-record-too-large-exception", "false", "--create-topics-supported", "true",
             "--describe-acls-supported", "true" if acls(desk) else "false", "--describe-configs-supported", "true",
             "--idempotent-producer-supported", "true")


def acls(desk):
    return "DescribeAcls(29): UNSUPPORTED" not in desk.run("BrokerApiVersionsCommand")


def access_rules(desk):
    """kafka-acls --add, --list, --remove"""
    topic = f"{desk.topic}-acl"
    rule = ["--allow-principal", "User:alice", "--allow-host", "10.0.0.1", "--operation", "Read", "--topic", topic, "--resource-pattern-type", "prefixed"]
    has(desk.run("AclCommand", "--add", *rule), "Adding ACLs for resource")
    desk.run("AclCommand", "--add", "--deny-principal", "User:bob", "--operation", "Write", "--topic", topic)
    listed = desk.run("AclCommand", "--list", "--topic", f"{topic}-1", "--resource-pattern-type", "match")
    has(listed, "principal=User:alice, host=10.0.0.1, operation=READ, permissionType=ALLOW")
    if "User:bob" in listed:
        raise Wrong("a rule about another topic is listed")
    has(desk.run("AclCommand", "--list"), r"principal=User:bob, host=\*, operation=WRITE, permissionType=DENY")
    desk.run("AclCommand", "--remove", "--force", *rule)
    desk.run("AclCommand", "--remove", "--force", "--topic", topic)
    if topic in desk.run("AclCommand", "--list"):
        raise Wrong("rules are listed that were removed")


def delete(desk):
    """kafka-topics --delete"""
    desk.topics("--delete", "--topic", desk.topic)
    if re.search(rf"(?m)^{desk.topic}$", desk.topics("--list")):
        raise Wrong("the topic is still listed")
    has(desk.topics("--describe", "--topic", desk.topic, code=1), "does not exist")


CHECKS = [create, create_again, list_topics, describe, grow, under_replicated, alter_config, all_configs, broker_config, bad_config, performance,
          forced_codec, verifiable, get_offsets, console, latency, group_commits, group_list, group_describe,
          group_reset, group_delete_offsets, group_delete, log_dirs, delete_records, api_versions, features, cluster_id,
          producers, access_rules, compatibility, delete]


def main():
    desk, failed = Desk(sys.argv[1]), 0
    for check in CHECKS:
        try:
            check(desk)
            print(f"PASS {check.__doc__}", flush=True)
        except (Wrong, ValueError, TypeError) as error:
            failed += 1
            print(f"FAIL {check.__doc__}: {' '.join(str(error).split())}", flush=True)
    scenarios = subprocess.run(tools.java_command("Scenarios", desk.bootstrap), check=False, timeout=200)
    sys.exit(1 if failed or scenarios.returncode else 0)


if __name__ == "__main__":
    main()
