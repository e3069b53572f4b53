"""A raw Kafka client: sockets and `struct`, nothing between test and wire.

Use it to send any (key, version, body), well formed or not, and to look at
stored batches: `python3 rawkafka.py HOST:PORT codecs TOPIC` prints the codec
of each stored batch, `versions` what the broker serves, `call KEY VERSION
JSON` one request (see messages.py for the fields).
"""

import gzip
import json
import socket
import struct
import sys
import time

from messages import MESSAGES, decode_response, encode_request, is_flexible, uvarint

CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
HEADER_BYTES = 61  # base offset .. record count of a v2 batch


class Closed(Exception):
    """The broker closed the connection."""


class Silent(Exception):
    """The broker did not answer in time."""


class Connection:
    """One TCP connection; `call` for the usual, `send`/`receive` for the rest."""

    def __init__(self, bootstrap, timeout=10.0, client_id="judge"):
        host, port = bootstrap.rsplit(":", 1)
        self.sock = socket.create_connection((host, int(port)), timeout=timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client_id, self.correlation = client_id, 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.sock.close()

    def send(self, raw):
        """Bytes as they are, without a frame."""
        try:
            self.sock.sendall(raw)
        except (ConnectionError, BrokenPipeError) as error:
            raise Closed(str(error)) from error

    def send_frame(self, payload):
        self.send(struct.pack(">i", len(payload)) + payload)

    def receive(self):
        """One frame's payload (correlation id included)."""
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def header(self, key, version):
        """The next request header; advances the correlation id."""
        self.correlation += 1
        return request_header(key, version, self.correlation, self.client_id)

    def request(self, key, version, body):
        """Sends one framed request and does not wait."""
        self.send_frame(self.header(key, version) + body)

    def response(self, key, version):
        """The next response's body, after checking its correlation id."""
        raw = self.receive()
        got = struct.unpack(">i", raw[:4])[0]
        if got != self.correlation:
            raise ValueError(f"correlation id {got}, expected {self.correlation}")
        # ApiVersions answers with response header v0 in every version.
        tagged = is_flexible(key, version) and key != 18
        if tagged and raw[4] != 0:
            raise ValueError("unexpected tagged field in the response header")
        return raw[5 if tagged else 4:]

    def exchange(self, key, version, body):
        self.request(key, version, body)
        return self.response(key, version)

    def call(self, key, version, /, **fields):
        """Encodes, sends, waits, decodes."""
        body, _ = encode_request(key, version, fields)
        return decode_response(key, version, self.exchange(key, version, body))

    def versions(self):
        """{key: (min, max)} as the broker advertises."""
        answer = self.call(18, 0)
        return {k["api_key"]: (k["min_version"], k["max_version"]) for k in answer["api_keys"]}

    def _exactly(self, n):
        out = bytearray()
        while len(out) < n:
            try:
                piece = self.sock.recv(min(n - len(out), 1 << 20))
            except TimeoutError as error:
                raise Silent(f"no answer within {self.sock.gettimeout()} s") from error
            except ConnectionError as error:
                raise Closed(str(error)) from error
            if not piece:
                raise Closed("end of stream")
            out += piece
        return bytes(out)


def request_header(key, version, correlation, client_id="judge"):
    """Request header v1, or v2 (one empty tag section more) for flexible versions."""
    name = b"\xff\xff" if client_id is None else struct.pack(">h", len(client_id)) + client_id.encode()
    tags = b"\0" if is_flexible(key, version) and key != 17 else b""
    return struct.pack(">hhi", key, version, correlation) + name + tags


# --- record batches -------------------------------------------------------

def varint(n):
    """Zig-zag varint."""
    return uvarint(((n << 1) ^ (n >> 63)) & 0xFFFFFFFFFFFFFFFF)


def record(delta, key=None, value=b"v", headers=(), timestamp_delta=0):
    """One record of a v2 batch, length prefix included."""
    def blob(raw):
        return varint(-1) if raw is None else varint(len(raw)) + raw
    body = b"\0" + varint(timestamp_delta) + varint(delta) + blob(key) + blob(value) + varint(len(headers))
    for name, content in headers:
        body += varint(len(name)) + name + blob(content)
    return varint(len(body)) + body


def batch(values=(b"v",), **over):
    """A v2 record batch. Any header field may be overridden by name.

    Overrides: base_offset length leader_epoch magic crc attributes
    last_offset_delta base_timestamp max_timestamp producer_id producer_epoch
    base_sequence count payload (the bytes after the header).
    """
    now = over.get("base_timestamp", int(time.time() * 1000))
    payload = over.get("payload")
    if payload is None:
        payload = b"".join(v if isinstance(v, Raw) else record(i, value=v) for i, v in enumerate(values))
        if over.get("attributes", 0) & 7 == 1:
            payload = gzip.compress(payload)
    tail = struct.pack(
        ">hiqqqhii", over.get("attributes", 0), over.get("last_offset_delta", len(values) - 1), now,
        over.get("max_timestamp", now), over.get("producer_id", -1), over.get("producer_epoch", -1),
        over.get("base_sequence", -1), over.get("count", len(values))) + payload
    crc = over.get("crc", crc32c(tail))
    rest = struct.pack(">ibI", over.get("leader_epoch", -1), over.get("magic", 2), crc & 0xFFFFFFFF) + tail
    return struct.pack(">qi", over.get("base_offset", 0), over.get("length", len(rest))) + rest


class Raw(bytes):
    """A ready-made record for `batch`."""


def batches(raw):
    """The whole v2 batches in a records field, as dicts; a cut tail is left out."""
    at = 0
    while at + HEADER_BYTES <= len(raw):
        base, length = struct.unpack_from(">qi", raw, at)
        end = at + 12 + length
        if end > len(raw):
            return
        epoch, magic, crc, attributes, last_delta = struct.unpack_from(">ibIhi", raw, at + 12)
        base_ts, max_ts, pid, pid_epoch, sequence, count = struct.unpack_from(">qqqhii", raw, at + 27)
        yield {"base_offset": base, "length": length, "leader_epoch": epoch, "magic": magic,
               "crc_ok": crc32c(raw[at + 21:end]) == crc, "attributes": attributes,
               "codec": CODECS.get(attributes & 7, f"codec-{attributes & 7}"), "last_offset": base + last_delta,
               "base_timestamp": base_ts, "max_timestamp": max_ts, "producer_id": pid,
               "producer_epoch": pid_epoch, "base_sequence": sequence, "count": count, "bytes": raw[at:end]}
        at = end


def _crc_table():
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ 0x82F63B78 if i & 1 else i >> 1
        table.append(i)
    return table


_TABLE = _crc_table()


def crc32c(raw):
    """Castagnoli, table driven; uses the C extension where one is installed."""
    if _fast_crc32c:
        return _fast_crc32c(raw)
    crc = 0xFFFFFFFF
    for byte in raw:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


try:
    from crc32c import crc32c as _fast_crc32c
except ImportError:
    _fast_crc32c = None


# --- common errands -------------------------------------------------------

def create_topic(connection, name, partitions=1, configs=None):
    """Creates a topic with replication factor 1; returns its error code."""
    answer = connection.call(19, 2, topics=[{
        "name": name, "num_partitions": partitions, "replication_factor": 1,
        "configs": [{"name": k, "value": v} for k, v in (configs or {}).items()]}])
    return answer["topics"][0]["error_code"]


def create_topic_and_wait(connection, name, partitions=1, configs=None, seconds=10):
    """Creates a topic and waits until every partition has a leader that answers."""
    code = create_topic(connection, name, partitions, configs)
    if code:
        raise ValueError(f"cannot create topic {name}: error {code}")
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = connection.call(3, 4, topics=[{"name": name}], allow_auto_topic_creation=False)["topics"][0]
        if not found["error_code"] and len(found["partitions"]) == partitions:
            if all(offsets(connection, name, p)[0] == 0 for p in range(partitions)):
                return
        time.sleep(0.02)
    raise ValueError(f"topic {name} has no leaders after {seconds} s")


def delete_topic(connection, name):
    return connection.call(20, 1, topic_names=[name])["responses"][0]["error_code"]


def delete_records(connection, topic, partition, before):
    """Deletes the records before an offset, -1 for all; returns (error code, low watermark)."""
    answer = connection.call(21, 1, topics=[{"name": topic, "partitions": [{"index": partition, "offset": before}]}])
    found = answer["topics"][0]["partitions"][0]
    return found["error_code"], found["low_watermark"]


def partition_count(connection, topic):
    topics = connection.call(3, 4, topics=[{"name": topic}], allow_auto_topic_creation=False)["topics"]
    if topics[0]["error_code"]:
        raise ValueError(f"no topic {topic}: error {topics[0]['error_code']}")
    return len(topics[0]["partitions"])


def produce(connection, topic, partition, records, version=7, acks=-1):
    """One batch to one partition; returns the partition's answer."""
    answer = connection.call(0, version, acks=acks, topics=[
        {"name": topic, "partitions": [{"index": partition, "records": records}]}])
    return answer["topics"][0]["partitions"][0]


def offsets(connection, topic, partition, timestamp=-1):
    """(error, offset) of ListOffsets."""
    answer = connection.call(2, 1, topics=[
        {"name": topic, "partitions": [{"index": partition, "timestamp": timestamp}]}])
    row = answer["topics"][0]["partitions"][0]
    return row["error_code"], row["offset"]


def stored_batches(connection, topic, partition, version=11, partition_max_bytes=4 << 20):
    """Every batch of a partition from its log start to the high watermark."""
    offset = offsets(connection, topic, partition, -2)[1]
    while True:
        answer = connection.call(1, version, max_wait_ms=100, topics=[{"name": topic, "partitions": [
            {"index": partition, "fetch_offset": offset, "partition_max_bytes": partition_max_bytes}]}])
        part = answer["topics"][0]["partitions"][0]
        if part["error_code"]:
            raise ValueError(f"fetch of {topic}-{partition} at {offset}: error {part['error_code']}")
        if offset >= part["high_watermark"]:
            return
        before = offset
        for found in batches(part["records"] or b""):
            if found["last_offset"] >= offset:
                yield found
                offset = found["last_offset"] + 1
        if offset >= part["high_watermark"]:
            return
        if offset == before:
            raise ValueError(f"no progress at {topic}-{partition} offset {offset} below {part['high_watermark']}")


def codecs(bootstrap, topic):
    """{codec name: number of stored batches} of a whole topic."""
    seen = {}
    with Connection(bootstrap, timeout=30) as connection:
        for partition in range(partition_count(connection, topic)):
            for found in stored_batches(connection, topic, partition):
                seen[found["codec"]] = seen.get(found["codec"], 0) + 1
    return seen


def main(argv):
    bootstrap, verb, *rest = argv
    if verb == "codecs":
        print(json.dumps(codecs(bootstrap, rest[0])))
    elif verb == "versions":
        with Connection(bootstrap) as connection:
            for key, (low, high) in sorted(connection.versions().items()):
                print(key, MESSAGES[key][0] if key in MESSAGES else "-", low, high)
    elif verb == "call":
        with Connection(bootstrap) as connection:
            answer = connection.call(int(rest[0]), int(rest[1]), **json.loads(rest[2] if len(rest) > 2 else "{}"))
            print(json.dumps(answer, indent=1, default=lambda raw: raw.hex()))


if __name__ == "__main__":
    main(sys.argv[1:])
