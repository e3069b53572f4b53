"""What every malformed-input row needs: topics, an outcome, a control client."""

import os
import struct
import time

from messages import decode_response, encode_request
from rawkafka import Closed, Connection, Silent, batch, create_topic, offsets, produce


class Row:
    """One input and the outcome that Apache Kafka 4.3.1 was seen to give.

    `make(bench)` gives the bytes of one request body (sent as `key`/`version`
    under a well-formed header), or with `raw=True` the whole stream.
    `expect` is "closed", "silent", "answer CODES" (every error code of the
    decoded answer, depth first, joined by commas) or a tuple of such. `ours`,
    with `why`, replaces it where this broker differs on purpose.
    """

    def __init__(self, name, key, version, make, expect, ours=None, why=None, raw=False, wait=5.0, leo=None):
        assert (ours is None) == (why is None), f"{name}: a difference needs its reason"
        self.name, self.key, self.version, self.make, self.expect = name, key, version, make, expect
        self.ours, self.why, self.raw, self.wait = ours, why, raw, wait
        self.leo = leo  # True: the log end must rise, False: it must not, None: not looked at

    def wanted(self, reference):
        wanted = self.expect if reference or self.ours is None else self.ours
        return (wanted,) if isinstance(wanted, str) else wanted


class NotOffered(Exception):
    """The broker refuses the setting that a row needs."""


class Bench:
    """Topics to shoot at, and a control client that must stay served."""

    def __init__(self, bootstrap, reference):
        self.bootstrap, self.reference = bootstrap, reference
        stamp = f"{os.getpid()}-{int.from_bytes(os.urandom(3), 'big')}"
        self.control = Connection(bootstrap)
        self.topic, self.control_topic = (self.created(f"malformed-{kind}-{stamp}", {}) for kind in ("plain", "control"))
        self.offered = {"compact": self.created(f"malformed-compact-{stamp}", {"cleanup.policy": "compact"}),
                        # Kafka does not know this setting, and always looks into the records.
                        "deep": self.created(f"malformed-deep-{stamp}", {} if reference else {"batch.validation": "deep"})}
        self.wait_for_producer_ids()
        self.versions = self.control.versions()
        self.wait_for_leaders()
        answer = self.control.call(3, 12, topics=[{"name": self.topic}])
        self.topic_id = answer["topics"][0]["topic_id"]

    def created(self, name, configs):
        """The topic's name, or None if its settings are not offered."""
        code = create_topic(self.control, name, 1, configs)
        assert code == 0 or code == 40 and configs, f"cannot create {name}: error {code}"
        return name if code == 0 else None

    @property
    def compact(self):
        return self.require("compact", "cleanup.policy=compact")

    @property
    def deep(self):
        return self.require("deep", "batch.validation=deep")

    def require(self, kind, setting):
        if self.offered[kind] is None:
            raise NotOffered(f"{setting} is not offered")
        return self.offered[kind]

    def wait_for_producer_ids(self):
        """Kafka answers 14 until its first block of producer ids has come."""
        for _ in range(100):
            if self.control.call(22, 0)["error_code"] != 14:
                return
            time.sleep(0.05)

    def wait_for_groups(self):
        """Kafka answers 15 or 16 until the partitions of its offsets topic have leaders."""
        for _ in range(200):
            answer = self.control.call(8, 8, group_id="malformed", topics=[{"name": self.topic, "partitions": [{"index": 0}]}])
            if answer["topics"][0]["partitions"][0]["error_code"] == 0:
                return
            self.control.call(10, 0, key="malformed")
            time.sleep(0.05)
        raise AssertionError("groups got no coordinator")

    def wait_for_leaders(self):
        """Kafka answers 3 or 6 for a moment after a topic was created."""
        for _ in range(100):
            names = [name for name in (self.topic, self.control_topic, *self.offered.values()) if name]
            asked = [{"name": name} for name in names]
            found = self.control.call(3, 4, topics=asked, allow_auto_topic_creation=False)["topics"]
            served = [offsets(self.control, t["name"], 0) for t in found if not t["error_code"]]
            if len(served) == len(names) and all(code == 0 for code, _ in served):
                return
        raise AssertionError("topics got no leader")

    def connect(self, timeout=5.0):
        return Connection(self.bootstrap, timeout=timeout)

    def control_works(self):
        """Produces and reads back one record on the connection that was open from the start."""
        answer = produce(self.control, self.control_topic, 0, batch([b"control"]))
        assert answer["error_code"] == 0, f"control client: produce error {answer['error_code']}"
        code, end = offsets(self.control, self.control_topic, 0)
        assert (code, end) == (0, answer["base_offset"] + 1), f"control client: log end {end}, error {code}"

    def outcome(self, row):
        """Sends the row on a connection of its own and names what came back."""
        body = row.make(self)
        with self.connect(row.wait) as connection:
            try:
                if row.raw:
                    connection.send(body)
                    connection.correlation = 1
                else:
                    connection.request(row.key, row.version, body)
                return describe(row.key, row.version, connection.response(row.key, row.version))
            except Closed:
                return "closed"
            except Silent:
                return "silent"
            except (ValueError, struct.error) as error:
                return f"garbage ({error})"


def describe(key, version, raw):
    """"answer CODES" of a response body."""
    value = decode_response(key, version, raw)
    return "answer " + ",".join(str(code) for code in error_codes(value))


def error_codes(value):
    if isinstance(value, list):
        for item in value:
            yield from error_codes(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name == "error_code":
                yield item
            else:
                yield from error_codes(item)


def body(key, version, **fields):
    """A maker of a well-formed body."""
    return lambda bench: encode_request(key, version, fields)[0]


def resident_kib(pid):
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    raise AssertionError(f"process {pid} shows no VmRSS")
