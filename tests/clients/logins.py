"""Real clients log in: `logins.py BINARY`.

A broker with a listener that lets everybody in and one that asks for a login.
Users are made by Apache Kafka's own tool through the first. Each client writes
and reads by each mechanism through the second, and is refused with a wrong
password in words; one writes on while its logins run out again and again.
"""

import argparse
import asyncio
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "lib"))
import tools  # noqa: E402
from broker import Broker, free_port  # noqa: E402

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORDS = {"PLAIN": "pl@in, \"secret\"", "SCRAM-SHA-256": "se=cret256", "SCRAM-SHA-512": "s\u00e9cret512"}
SCRAMS = MECHANISMS[1:]
USER = "alice"
COUNT = 20
SESSION_MS = 3000
SECONDS_MAX = 60
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_%s="%s";'
MODULES = {"PLAIN": "plain.Plain", "SCRAM-SHA-256": "scram.Scram", "SCRAM-SHA-512": "scram.Scram"}


class Wrong(Exception):
    """A check failed, for this reason."""


class Doors(Broker):
    """One listener without logins, one with, and one where they end."""

    def __init__(self, binary, data, log):
        self.outside_port, self.renewed_port, self.admin_port = free_port(), free_port(), free_port()
        quoted = PASSWORDS["PLAIN"].replace('"', '\\"')
        super().__init__(binary, data, log, {
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:SASL_PLAINTEXT,RENEWED:SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "listener.name.renewed.sasl.enabled.mechanisms": ",".join(SCRAMS),
            "listener.name.renewed.connections.max.reauth.ms": str(SESSION_MS),
            "listener.name.outside.plain.sasl.jaas.config": JAAS % (USER, quoted),
            "admin.listener": f"127.0.0.1:{self.admin_port}", "group.initial.rebalance.delay.ms": "0"})

    @property
    def bootstrap(self):
        return f"INSIDE://{self.inside},OUTSIDE://{self.outside},RENEWED://127.0.0.1:{self.renewed_port}"

    @property
    def inside(self):
        return f"127.0.0.1:{self.port}"

    @property
    def outside(self):
        return f"127.0.0.1:{self.outside_port}"

    def logins(self, mechanism, outcome):
        """Logins and re-authentications of all cores."""
        time.sleep(1.1)
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        # Scrapes within a second share one text.
        pattern = rf'^millstream_logins_total{{.*mechanism="{mechanism}",outcome="{outcome}"}} (\d+)$'
        return sum(map(int, re.findall(pattern, text, re.M)))


def confluent_config(broker, mechanism, password, user=USER):
    return {"bootstrap.servers": broker.outside, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism,
            "sasl.username": user, "sasl.password": password}


def confluent(broker, mechanism, password, topic):
    from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
    said, config = [], confluent_config(broker, mechanism, password)
    producer = Producer({**config, "message.timeout.ms": 10000, "error_cb": lambda error: said.append(str(error))})
    for n in range(COUNT):
        producer.produce(topic, str(n), partition=0)
    began = time.monotonic()
    while len(producer) and time.monotonic() < began + 20 and not any("Authentication" in text for text in said):
        producer.poll(0.1)
    if len(producer):
        producer.purge()
        raise KafkaException("; ".join(said))
    consumer = Consumer({**config, "group.id": "logins-confluent", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    read = [m.value().decode() for m in consumer.consume(COUNT, timeout=20) if not m.error()]
    consumer.close()
    return read


def kafka_python(broker, mechanism, password, topic):
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    config = {"bootstrap_servers": broker.outside, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism,
              "sasl_plain_username": USER, "sasl_plain_password": password}
    producer = KafkaProducer(**config, max_block_ms=15000, bootstrap_timeout_ms=5000)
    try:
        for n in range(COUNT):
            producer.send(topic, str(n).encode(), partition=0).get(20)
    finally:
        producer.close(timeout=5)
    consumer = KafkaConsumer(**config, auto_offset_reset="earliest", consumer_timeout_ms=20000)
    consumer.assign([TopicPartition(topic, 0)])
    read = [next(consumer).value.decode() for _ in range(COUNT)]
    consumer.close()
    return read


def aio(broker, mechanism, password, topic):
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    config = {"bootstrap_servers": broker.outside, "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism,
              "sasl_plain_username": USER, "sasl_plain_password": password}

    async def run():
        producer = AIOKafkaProducer(**config)
        try:
            await producer.start()
            for n in range(COUNT):
                await producer.send_and_wait(topic, str(n).encode(), partition=0)
        finally:
            await producer.stop()
        consumer = AIOKafkaConsumer(topic, **config, auto_offset_reset="earliest")
        await consumer.start()
        try:
            return [(await asyncio.wait_for(consumer.getone(), 20)).value.decode() for _ in range(COUNT)]
        finally:
            await consumer.stop()
    return asyncio.run(run())


KAFKAJS = """
import kafkajs from 'kafkajs'
const [bootstrap, mechanism, username, password, topic, count] = process.argv.slice(1)
const { Kafka, logLevel } = kafkajs
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, retry: { retries: 2 }, sasl: { mechanism, username, password } })
const producer = kafka.producer()
await producer.connect()
for (let n = 0; n < count; n++) await producer.send({ topic, messages: [{ value: String(n), partition: 0 }] })
await producer.disconnect()
const consumer = kafka.consumer({ groupId: 'logins-' + topic })
await consumer.connect()
await consumer.subscribe({ topic, fromBeginning: true })
const read = []
await consumer.run({ eachMessage: async ({ message }) => { read.push(message.value.toString()); if (read.length == count) { console.log(read.join(' ')); process.exit(0) } } })
"""


def kafkajs(broker, mechanism, password, topic):
    done = subprocess.run(["node", "--input-type=module", "-e", KAFKAJS, broker.outside, mechanism.lower(), USER, password, topic,
                           str(COUNT)], cwd=tools.node(), capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return done.stdout.split()


def properties(broker, mechanism, password, user=USER):
    """A file of settings for Apache Kafka's tools."""
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    module = f"org.apache.kafka.common.security.{MODULES[mechanism]}LoginModule"
    jaas = f'{module} required username="{user}" password="{quoted}";'.replace("\\", "\\\\")
    escaped = "".join(c if ord(c) < 128 else f"\\u{ord(c):04x}" for c in jaas)
    with tempfile.NamedTemporaryFile("w", suffix=".properties", delete=False) as out:
        out.write(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\nsasl.jaas.config={escaped}\n")
    return out.name


def tool(name, *args, given=None):
    done = subprocess.run(tools.java_command(name, *args, heap="256m"), capture_output=True, text=True, timeout=SECONDS_MAX,
                          input=given, check=False)
    if done.returncode:
        raise RuntimeError((done.stdout + done.stderr).strip()[-1500:])
    return done.stdout


def java(broker, mechanism, password, topic):
    settings = properties(broker, mechanism, password)
    where = ["--bootstrap-server", broker.outside, "--topic", topic, "--command-config", settings]
    tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", broker.outside, "--command-config", settings, "--list")
    if mechanism != MECHANISMS[-1]:
        return [str(n) for n in range(COUNT)]  # a second a tool: one mechanism is enough for these
    tool("org.apache.kafka.tools.ConsoleProducer", *where, given="".join(f"{n}\n" for n in range(COUNT)))
    return tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *where, "--partition", "0", "--from-beginning",
                "--max-messages", str(COUNT), "--timeout-ms", "20000").split()


CLIENTS = {"confluent-kafka": confluent, "kafka-python": kafka_python, "aiokafka": aio, "kafkajs": kafkajs, "java": java}


def made_by_kafka_configs(broker):
    """kafka-configs makes users, tells of them, and deletes them"""
    command = "kafka.admin.ConfigCommand"
    about = ["--bootstrap-server", broker.inside, "--entity-type", "users", "--entity-name"]
    for mechanism in SCRAMS:
        tool(command, *about, USER, "--alter", "--add-config", f"{mechanism}=[iterations=8192,password={PASSWORDS[mechanism]}]")
        tool(command, *about, "gone", "--alter", "--add-config", f"{mechanism}=[password=secret]")
    tool(command, *about, "gone", "--alter", "--delete-config", "SCRAM-SHA-256")
    # The tool's own --describe asks for quotas too, which are not served.
    found = described(broker)
    if found != {USER: [("SCRAM-SHA-256", 8192), ("SCRAM-SHA-512", 8192)], "gone": [("SCRAM-SHA-512", 4096)]}:
        raise Wrong(f"described are {found}")


def described(broker):
    from confluent_kafka.admin import AdminClient
    admin = AdminClient({"bootstrap.servers": broker.inside})  # whose answers go with it
    users = admin.describe_user_scram_credentials().result(20)
    return {user: sorted((f"SCRAM-SHA-{str(info.mechanism).rsplit('_', 1)[1]}", info.iterations) for info in told.scram_credential_infos)
            for user, told in users.items()}


def logs_in(broker, name, mechanism):
    topic = f"{name}-{mechanism.lower()}"
    read = CLIENTS[name](broker, mechanism, PASSWORDS[mechanism], topic)
    if read != [str(n) for n in range(COUNT)]:
        raise Wrong(f"it read {read}")


class Heard(logging.Handler):
    """What a client says in its log."""

    def __init__(self):
        super().__init__()
        self.text = ""

    def emit(self, record):
        self.text += record.getMessage() + "\n"


def is_refused(broker, name, mechanism):
    """The client's own words, or its log, tell that the login failed."""
    before, heard = broker.logins(mechanism, "failed"), Heard()
    logging.getLogger().addHandler(heard)
    try:
        CLIENTS[name](broker, mechanism, "wrong", "refused")
    except Exception as error:  # each client has its own
        logging.getLogger().removeHandler(heard)
        if broker.logins(mechanism, "failed") == before:
            raise Wrong(f"it did not try: {error}") from error
        if not re.search(r"authenticat", f"{type(error).__name__} {error} {heard.text}", re.I):
            raise Wrong(f"unclear: {type(error).__name__} {error}"[:600]) from error
        return
    raise Wrong("it got in")


def renews_its_login(broker):
    """confluent-kafka writes while its login runs out twice, on one connection; a deleted user is out"""
    from confluent_kafka import Producer
    config = confluent_config(broker, "SCRAM-SHA-512", "secret", user="gone")
    config["bootstrap.servers"] = f"127.0.0.1:{broker.renewed_port}"
    failed, errors = [], []
    producer = Producer({**config, "message.timeout.ms": 5000, "log_level": 0, "error_cb": lambda error: errors.append(str(error)),
                         "topic.metadata.refresh.interval.ms": -1})
    before = broker.logins("SCRAM-SHA-512", "ok")

    def write(seconds):
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            producer.produce("renewed", b"x", partition=0, on_delivery=lambda error, _: error and failed.append(str(error)))
            producer.poll(0.1)
    write(2.5 * SESSION_MS / 1000)
    producer.flush(10)
    if failed or errors:
        raise Wrong(f"{len(failed)} lost: {failed[:2]} {errors[:2]}")
    if broker.logins("SCRAM-SHA-512", "ok") < before + 3:
        raise Wrong("it did not log in anew")
    tool("kafka.admin.ConfigCommand", "--bootstrap-server", broker.inside, "--entity-type", "users", "--entity-name", "gone",
         "--alter", "--delete-config", "SCRAM-SHA-512")
    write(1.5 * SESSION_MS / 1000)
    producer.flush(10)
    if not any("Authentication" in error for error in errors):
        raise Wrong(f"the deleted user was not told: {errors[:2]}")


def check(name, what, *args):
    began = time.monotonic()
    try:
        what(*args)
    except tools.Missing as missing:
        print(f"SKIP {name}: {missing}", flush=True)
    except Exception as error:  # a client's own kind, or Wrong
        print(f"FAIL {name}: {type(error).__name__} {' '.join(str(error).split())[:700]}", flush=True)
    else:
        print(f"PASS {name}", flush=True)
    print(f"  {time.monotonic() - began:.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binary")
    parser.add_argument("--only", default="", help="checks whose name contains this")
    args = parser.parse_args()
    checks = [("users by kafka-configs", made_by_kafka_configs)]
    for name in CLIENTS:
        for mechanism in MECHANISMS:
            checks.append((f"{name} logs in by {mechanism}", logs_in, name, mechanism))
        checks.append((f"{name} is refused with a wrong password", is_refused, name, "SCRAM-SHA-256"))
    checks.append(("confluent-kafka renews its login until its user is deleted", renews_its_login))
    with tempfile.TemporaryDirectory(dir=tools.HOME) as directory:
        broker = Doors(args.binary, os.path.join(directory, "data"), os.path.join(directory, "log"))
        broker.start()
        try:
            for name, what, *more in checks:
                if args.only in name or what is made_by_kafka_configs:
                    check(name, what, broker, *more)
        finally:
            trouble = broker.stop()
        with open(broker.log, encoding="utf-8") as log:
            text = log.read()
        leaked = [password for password in PASSWORDS.values() if password in text]
        print(f"FAIL the broker's end: {trouble}" if trouble else "PASS the broker's end")
        print("FAIL log: it holds a password" if leaked else "PASS no password in the log")


if __name__ == "__main__":
    main()
