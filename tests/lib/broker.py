"""Starts and stops the broker under test, or Apache Kafka as the reference."""

import os
import select
import shutil
import signal
import socket
import subprocess
import time

import tools

START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 30


def free_port(other_than=None):
    """A loopback port that nobody listens on; nothing holds it, so a second one must be told of the first."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port != other_than:
            return port


class Broker:
    """One Millstream process on a directory of its own.

    `settings` are Kafka's broker keys; in a value {bootstrap} stands for the address.
    Standard error and output go to `log`.
    """

    def __init__(self, binary, data, log, settings=None, port=None):
        self.binary, self.data, self.log = binary, data, log
        self.port = port or free_port()
        self.settings = {key: value.replace("{bootstrap}", self.bootstrap) for key, value in (settings or {}).items()}
        self.process = None

    @property
    def bootstrap(self):
        return f"127.0.0.1:{self.port}"

    def start(self):
        """Returns once the broker says that it is ready; raises RuntimeError otherwise."""
        os.makedirs(self.data, exist_ok=True)
        os.makedirs(os.path.dirname(self.log), exist_ok=True)
        command = [self.binary, "--data-dir", self.data, "--listen", self.bootstrap]
        # Brokers of several stages run side by side, and there is one default port.
        for key, value in sorted({"admin.listener": "", **self.settings}.items()):
            command += ["--set", f"{key}={value}"]
        self.sink = open(self.log, "ab")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.sink, stdin=subprocess.DEVNULL)
        ready, _, _ = select.select([self.process.stdout], [], [], START_SECONDS_MAX)
        line = self.process.stdout.readline() if ready else b""
        self.sink.write(line)
        self.sink.flush()
        if not line:
            code = self.process.poll()
            self.kill()
            raise RuntimeError(f"the broker did not get ready (exit code {code}), see {self.log}")
        return self

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def stop(self):
        """SIGTERM; returns None, or what was wrong with the end."""
        if not self.alive():
            return f"the broker had ended before it was told to, with code {self.process.poll()}"
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            return f"the broker did not stop within {STOP_SECONDS_MAX} s"
        self.sink.close()
        return None if code == 0 else f"the broker stopped with code {code}"

    def kill(self):
        """SIGKILL, as a crash would."""
        if self.alive():
            self.process.kill()
            self.process.wait()
        self.sink.close()

    def forget(self):
        shutil.rmtree(self.data, ignore_errors=True)


PROPERTIES = """process.roles=broker,controller
node.id={node}
controller.quorum.voters={node}@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.consumer.min.session.timeout.ms=1000
group.consumer.min.heartbeat.interval.ms=500
"""


class Kafka(Broker):
    """Apache Kafka with a small heap, for judging the judges."""

    def start(self):
        os.makedirs(os.path.dirname(self.data), exist_ok=True)
        os.makedirs(os.path.dirname(self.log), exist_ok=True)
        config = self.data + ".properties"
        with open(config, "w", encoding="ascii") as out:
            out.write(PROPERTIES.format(port=self.port, controller=free_port(self.port), data=self.data,
                                        node=self.settings.get("node.id", "1")))
            out.writelines(f"{key}={value}\n" for key, value in self.settings.items())
        self.sink = open(self.log, "ab")
        if not os.path.exists(self.data):
            subprocess.run(tools.java_command("kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ"[:22],
                                              "-c", config), check=True, stdout=self.sink, stderr=self.sink)
        self.process = subprocess.Popen(tools.java_command("kafka.Kafka", config, heap="1g"), stdout=self.sink,
                                        stderr=self.sink, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline and self.alive():
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    time.sleep(1)  # the listener opens shortly before the broker is unfenced
                    return self
            time.sleep(0.2)
        self.kill()
        raise RuntimeError(f"Apache Kafka did not start, see {self.log}")

    def stop(self):
        if self.alive():
            self.process.terminate()
            self.process.wait(STOP_SECONDS_MAX)
        self.sink.close()
        return None
