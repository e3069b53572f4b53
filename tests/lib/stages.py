"""The stages of tests/run, in their order. Each is one row; see tests/README.md."""

import os
import shutil

import clients
import tools

PYTHON = "python3"

# What builds for all the others, and what measures.
ALONE = ("fmt", "clippy", "unit", "build", "figures", "guard")
# What could use all of a machine by itself: never two of them at a time.
BUSY = ("sim", "groups", "corpus", "fault")


class Stage:
    """One command with a time limit.

    `command` is a list, or a function that gives one and may raise
    tools.Missing. In it {bootstrap}, {pid}, {data} and {binary} stand for the
    broker's address, process, directory and program; a word {reference} becomes
    --reference or vanishes. `settings` not None: a
    broker of its own is started with these. `rust`: the output is cargo's.
    `built_by`: a command that may run, at low priority, during earlier stages,
    most of which wait for timers; this stage waits for its end. `lane`: in a
    whole run, the stages of one lane run beside those of the other.
    """

    def __init__(self, name, about, command, timeout, settings=None, rust=False, long=False, root=False, built_by=None):
        self.name, self.about, self._command, self.timeout = name, about, command, timeout
        self.settings, self.rust, self.long, self.root, self.built_by = settings, rust, long, root, built_by
        self.lane = None if long or name in ALONE else "busy" if name in BUSY else "calm"

    def command(self):
        return self._command() if callable(self._command) else list(self._command)


def cargo(*words):
    return lambda: tools.rust_command(*words)


def client(path):
    return os.path.join(tools.CLIENTS, path)


def with_fault_venv(path, *args):
    """A script of the fault bench, which starts its own brokers."""
    return lambda: [tools.fault_python(), os.path.join(tools.ROOT, "tests", "fault", path), *args]


def fault_bench(*args):
    """All of it. Without strace, which only root can install, its tests are skipped and say so."""
    def command():
        if not shutil.which("strace"):
            try:
                tools.apt("strace")
            except tools.Missing as missing:
                print(missing)
        return with_fault_venv("judge.py", *args)()
    return command


def guard():
    """Instruction counts. Without valgrind, which only root can install, they are skipped and say so."""
    if not shutil.which("valgrind"):
        try:
            tools.apt("valgrind")
        except tools.Missing as missing:
            print(missing)
    return [PYTHON, os.path.join(tools.ROOT, "bench", "guard", "run")]


def with_clients(path, *args):
    """A script that uses all client programs; they are brought in before its time runs."""
    def command():
        for known in clients.ALL:
            try:
                known.command("produce")
            except tools.Missing as missing:
                print(missing)  # the script will skip it and say so
        return [tools.python(), client(path), *args]
    return command


def with_transactors(*args):
    """Its programs are of four languages; those that are not here it will skip, and say so."""
    def command():
        for bring in (tools.java, tools.go, tools.node):
            try:
                bring()
            except tools.Missing as missing:
                print(missing)
        return [tools.python(), client("transactions.py"), *args]
    return command


def with_librdkafka(*args):
    def command():
        tools.rust_command()
        tools.librdkafka_needs()
        return [PYTHON, client("librdkafka_suite.py"), "{bootstrap}", *args, "{reference}"]
    return command


def with_kafka_python_suite():
    tools.kafka_python_suite()
    return [PYTHON, client("kafka_python_suite.py"), "{bootstrap}", "{reference}"]


def with_kgo(*args):
    """It is built before its time runs, unless that was done beside earlier stages."""
    def command():
        tools.call([PYTHON, client("kgo_suite.py"), "--build"])
        return [PYTHON, client("kgo_suite.py"), "{bootstrap}", *args, "{reference}"]
    return command


def with_rust_suite(path, *args):
    def command():
        tools.rust_command()
        tools.call([PYTHON, client(path), "--build"])
        return [PYTHON, client(path), "{bootstrap}", *args]
    return command


def builder(path):
    return [PYTHON, client(path), "--build"]


def with_java(path, *args):
    def command():
        tools.java()
        return [PYTHON, client(path), *args]
    return command


# Requests carry timestamps of some day: nothing is deleted for its age meanwhile.
ONLINE = {"auto.create.topics.enable": "false", "log.retention.ms": "-1"}
GROUPS = dict(ONLINE, **{"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100",
                         "group.consumer.min.session.timeout.ms": "1000", "group.consumer.session.timeout.ms": "6000",
                         "group.consumer.min.heartbeat.interval.ms": "500", "group.consumer.heartbeat.interval.ms": "1000"})

# Timeouts that a test can wait for.
TRANSACTIONS = dict(GROUPS, **{"transaction.max.timeout.ms": "60000",
                               "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"})

# Nobody is above the rules, and what no rule concerns is everybody's: so the first one can make them.
AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer", "allow.everyone.if.no.acl.found": "true"}
ACCESS = GROUPS | AUTHORIZER | {"auto.create.topics.enable": "true"}

# Members that come together are in the first generation together: some of its tests count on it.
LIBRDKAFKA = {"num.partitions": "4", "group.initial.rebalance.delay.ms": "1000"} | AUTHORIZER

SASL = {"num.partitions": "4", "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT", "sasl.enabled.mechanisms": "PLAIN",
        "connections.max.reauth.ms": "10000", "listener.name.plaintext.plain.sasl.jaas.config":
        'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret";'}

RDKAFKA = {"num.partitions": "3", "node.id": "0"}

# As its own fixtures set the brokers up that they start.
KAFKA_PYTHON = {"num.partitions": "4", "node.id": "0", "advertised.listeners": "PLAINTEXT://{bootstrap}",
                "group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"} | AUTHORIZER

KGO = {"group.initial.rebalance.delay.ms": "0"}

STAGES = [
    Stage("fmt", "the Rust sources are formatted", cargo("fmt", "--all", "--check"), 120, rust=True),
    Stage("clippy", "no lint is left", cargo("clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"), 1200, rust=True),
    Stage("unit", "the Rust tests", cargo("test", "--workspace", "--locked", "--quiet", "--no-fail-fast"), 1800, rust=True),
    Stage("build", "the release build", cargo("build", "--release", "--workspace", "--locked"), 1800, rust=True),
    Stage("sim", "ten thousand seeds of crashes, faults and recoveries of a shard",
          cargo("test", "--release", "--locked", "--quiet", "-p", "millstream-shards", "--test", "sim", "--", "--ignored"), 1800, rust=True),
    Stage("malformed", "malformed input is answered as Apache Kafka answers it, or for a stated reason better",
          [PYTHON, client("malformed/judge.py"), "{bootstrap}", "--pid", "{pid}", "{reference}"], 600, settings=ONLINE),
    Stage("promises", "what clients rely on, seen from the wire: order, retries, opaque bytes, topics at once",
          [PYTHON, client("promises.py"), "{bootstrap}", "{reference}"], 400, settings=ONLINE),
    Stage("group-rules", "groups call by call: joining, assignments, fencing, commits, operators' requests, silent members, both protocols",
          [PYTHON, client("grouprules.py"), "{bootstrap}", "{reference}"], 400, settings=GROUPS),
    Stage("acl-rules", "access rules call by call: what each request is refused without, and that it needs no more",
          [PYTHON, client("aclrules.py"), "{bootstrap}", "{reference}"], 400, settings=ACCESS),
    Stage("groups", "clients of every kind in one group: they come, go, restart and are killed; every record once, commits exact",
          with_clients("groups.py", "{bootstrap}"), 1400, settings=GROUPS),
    Stage("txn-rules", "what transactional producers, readers of committed records and operators may rely on, call by call",
          [PYTHON, client("txnrules.py"), "{bootstrap}", "{reference}"], 600, settings=TRANSACTIONS),
    Stage("transactions", "clients of five kinds transact, and carry records exactly once over kills of theirs and of the broker",
          with_transactors("{binary}", "{reference}"), 800),
    Stage("copier", "Kafka's TransactionalMessageCopier carries records exactly once over kills of it and of the broker",
          with_java("copier.py", "{binary}", "{reference}"), 1400),
    Stage("scaling", "a group of the consumer protocol grows and shrinks while it reads and commits",
          with_clients("scaling.py", "{bootstrap}"), 800, settings=GROUPS),
    Stage("matrix", "every client writes with every codec it has, others read every record unchanged",
          with_clients("matrix.py", "{bootstrap}"), 1200, settings=GROUPS),
    Stage("corpus", "100 MB of real text, line by line, through five clients and five codecs",
          with_clients("corpus.py", "{bootstrap}"), 1500, settings=ONLINE),
    Stage("rskafka", "rskafka's own test suite", with_rust_suite("rskafka_suite.py"), 600, settings=GROUPS, built_by=builder("rskafka_suite.py")),
    Stage("kafka-python-suite", "kafka-python's own integration tests", with_kafka_python_suite, 600, settings=KAFKA_PYTHON),
    Stage("rust-rdkafka-suite", "rust-rdkafka's own tests", with_rust_suite("rdkafka_suite.py", "{reference}"), 600, settings=RDKAFKA,
          built_by=builder("rdkafka_suite.py")),
    Stage("kgo", "franz-go's own tests of its client, with its chains of groups that hand records on exactly once", with_kgo(), 600,
          settings=KGO, built_by=builder("kgo_suite.py")),
    Stage("librdkafka", "librdkafka's own test suite", with_librdkafka(), 900, settings=LIBRDKAFKA, long=True),
    Stage("librdkafka-consumer", "what of librdkafka's tests concerns groups, with the consumer protocol",
          with_librdkafka("--when", "consumer"), 900, settings=LIBRDKAFKA, long=True),
    Stage("librdkafka-noauto", "those of librdkafka's tests that want no topics to be created by the way",
          with_librdkafka("--when", "noauto"), 300, settings=LIBRDKAFKA | ONLINE, long=True),
    Stage("librdkafka-sasl", "those of librdkafka's tests that log in, and do so again and again",
          with_librdkafka("--when", "sasl"), 300, settings=SASL, long=True),
    Stage("java-tools", "Apache Kafka's command line tools, and Admin, Producer and Consumer scenarios",
          with_java("javatools.py", "{bootstrap}"), 1200, settings=GROUPS | AUTHORIZER),
    Stage("logins", "clients log in by every mechanism, are refused with a wrong password, and renew their logins",
          with_clients("logins.py", "{binary}"), 600),
    Stage("verifiable", "Kafka's VerifiableConsumer under rebalances with both protocols, and its performance tools",
          with_java("verifiable.py", "{bootstrap}"), 800, settings=GROUPS),
    Stage("wirediff", "the same requests to Apache Kafka and to this broker are answered alike",
          with_java("wirediff.py", "{bootstrap}"), 600, settings={"auto.create.topics.enable": "false"}),
    Stage("dumplog", "Apache Kafka's own tool reads our log files", with_clients("dumplog.py", "{binary}", "{reference}"), 600),
    Stage("compaction", "real clients and Apache Kafka's own tool read compacted logs, also over a kill",
          with_clients("compaction.py", "{binary}", "{reference}"), 800),
    Stage("fault", "kills, power cuts, full and failing disks, damaged files, strangers and storms take nothing back",
          fault_bench("{binary}"), 1500),
    Stage("figures", "CPU a message, commits over many partitions, idle and start, with a tolerance for busy machines",
          [os.path.join(tools.TARGET, "release", "millstream-bench"), "figures", "--quick", "--assert"], 1200),
    Stage("guard", "the instructions of every step on the way of a message, against a stored baseline", guard, 900),
    Stage("limits-long", "fetches against plain TCP, batches against the device, memory while a log passes, writers beside a backfill",
          [os.path.join(tools.TARGET, "release", "millstream-bench"), "limits", "--quick", "--assert"], 900, long=True),
    Stage("soak-long", "the cores under calls, sockets, durable writes and work at once, for ten minutes",
          cargo("test", "--release", "-p", "millstream-io", "--test", "soak", "--locked", "--quiet", "--", "--ignored"),
          3000, rust=True, long=True),
    Stage("measure-long", "the figures of the runtime's README, in its log",
          cargo("test", "--release", "-p", "millstream-io", "--lib", "--locked", "--quiet", "--", "--ignored",
                "--nocapture", "--test-threads=1", "_measured"), 3000, rust=True, long=True),
    Stage("librdkafka-long", "those of librdkafka's tests that measure time, one by one",
          with_librdkafka("--when", "long"), 300, settings=LIBRDKAFKA, long=True),
    Stage("kgo-long", "the same, half a million records through every chain", with_kgo("--long"), 1800, settings=KGO, long=True),
    Stage("txn-rules-long", "a producer id uses up its epochs",
          [PYTHON, client("txnrules.py"), "{bootstrap}", "--long", "--only", "worn_out", "{reference}"], 1800, settings=TRANSACTIONS, long=True),
    Stage("transactions-long", "the same for eight times as long, through every reader",
          with_transactors("{binary}", "--long", "{reference}"), 1800, long=True),
    Stage("copier-long", "the same for twelve times as long", with_java("copier.py", "{binary}", "--long", "{reference}"), 1800, long=True),
    Stage("scaling-long", "the same with 40 members on 200 partitions, ten times",
          with_clients("scaling.py", "{bootstrap}", "--long"), 1800, settings=GROUPS, long=True),
    Stage("malformed-long", "every bit of every request of every version flipped",
          [PYTHON, client("malformed/judge.py"), "{bootstrap}", "--pid", "{pid}", "--thorough", "--only", "sweep", "{reference}"],
          7200, settings=ONLINE, long=True),
    Stage("corpus-long", "the corpus through every client that reads",
          with_clients("corpus.py", "{bootstrap}", "--every-reader"), 10800, settings=ONLINE, long=True),
]
BY_NAME = {stage.name: stage for stage in STAGES}
