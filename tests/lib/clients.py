"""The client programs, and what each of them cannot do.

`lacks`: features of recordset.py that the client cannot send. `blind`: those
it cannot show when it reads. `chokes`: those that end it with an error when it
reads them, whatever the broker. `codecs`: those it can write and read;
`reads`: those of them that it can read of others.
`instance`: whether its group verb takes an instance id. `next`: whether it
takes the protocol of KIP-848. `cooperative`: whether it has the cooperative-sticky
assignor.
"""

import os

import tools

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
GROUPED = "produce consume load drain group"


class Client:
    def __init__(self, name, about, command, lacks="", blind="", chokes="", codecs=CODECS, verbs="produce consume load drain",
                 reads=None, instance=False, next=False, cooperative=False):
        self.name, self.about, self._command = name, about, command
        self.lacks, self.blind, self.chokes = set(lacks.split()), set(blind.split()), set(chokes.split())
        self.codecs, self.reads, self.verbs = codecs, reads or codecs, verbs.split()
        self.instance, self.next, self.cooperative = instance, next, cooperative

    def command(self, verb, *args):
        """The command line; installs what it needs, or raises tools.Missing."""
        assert verb in self.verbs, f"{self.name} has no verb {verb}"
        return self._command() + [verb, *map(str, args)]


def _python(name):
    return lambda: [tools.python(), os.path.join(tools.CLIENTS, "python", name)]


def _kcat():
    tools.kcat()
    return ["python3", os.path.join(tools.CLIENTS, "kcat", "kcat.py")]


def _java():
    return tools.java_command("Judge", heap="768m")


def _go(name):
    return lambda: [os.path.join(tools.go(), name)]


def _node(name, least):
    return lambda: ["node", os.path.join(tools.node(least), name)]


ALL = [
    Client("kcat", "kcat 1.7.1, librdkafka 2.0.2", _kcat, lacks="timestamp binary binary_header unicode_header nothing empty_key",
           blind="binary_header"),
    Client("confluent-kafka", "confluent-kafka 2.16.1, librdkafka 2.16", _python("confluent.py"), verbs=GROUPED, instance=True,
           next=True, cooperative=True),
    Client("kafka-python", "kafka-python 3.0.12", _python("kafkapython.py"), lacks="nothing null_header", verbs=GROUPED, instance=True,
           cooperative=True),
    Client("aiokafka", "aiokafka 0.14.0", _python("aio.py"), lacks="nothing", verbs=GROUPED),
    Client("rskafka", "rskafka 0.6.0", lambda: [tools.rust()], lacks="dup_header null_header", blind="dup_header",
           chokes="null_header"),
    Client("java", f"kafka-clients {tools.KAFKA}", _java, verbs=GROUPED, instance=True, next=True, cooperative=True),
    Client("franz-go", "franz-go 1.22.3", _go("franz"), verbs=GROUPED, instance=True, cooperative=True),
    Client("sarama", "sarama 1.61.1", _go("sarama"), verbs=GROUPED, instance=True),
    Client("kafkajs", "kafkajs 2.2.4", _node("kafkajs.mjs", 18), lacks="null_header", codecs=("none", "gzip", "snappy"),
           verbs=GROUPED),
    Client("platformatic", "@platformatic/kafka 1.35.0", _node("platformatic.mjs", 20), codecs=("none", "gzip", "snappy", "lz4"),
           reads=("none", "gzip", "lz4")),  # not the framed snappy of Java
]
BY_NAME = {client.name: client for client in ALL}
