"""A small broker in memory that can lie, to prove that the bench catches lies.

It serves ApiVersions, Metadata, CreateTopics, InitProducerId, Produce 8,
Fetch 11 and ListOffsets 1, as far as the bench uses them. `lie` names what it
does wrong; `restart(forget=n)` drops the connections and loses the last n
batches of each partition, as a broker without sync would in a power cut.
"""

import socket
import struct
import threading

import hotpath
from messages import MESSAGES, Reader, Writer, is_flexible

LIES = ("drop", "duplicate", "swap", "wrong-offset", "forget-dedupe", "store-refused", "hole", "flip")
CODE_REFUSED = 87


class FakeBroker:
    """Listens on a loopback port of the kernel's choice; use as a context."""

    def __init__(self, lie=None, every=7, cut_every=None):
        self.lie, self.every, self.count = lie, every, 0
        self.cut_every = cut_every  # after so many stored batches: no answer, the connection is closed
        self.lock = threading.Lock()
        self.topics = {}     # name -> [[batch bytes with its offset]]
        self.producers = {}  # (topic, partition, producer id) -> {first sequence: base offset}
        self.next_producer = 1000
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        self.peers = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        self.restart()

    def restart(self, forget=0):
        """Cuts every connection; `forget` batches of each partition are gone."""
        with self.lock:
            for partitions in self.topics.values():
                for log in partitions:
                    del log[len(log) - forget if forget else len(log):]
            peers, self.peers = self.peers, set()
        for peer in peers:
            peer.close()

    def _accept(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            self.peers.add(peer)
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer):
        stream = peer.makefile("rb")
        try:
            while True:
                head = stream.read(4)
                if len(head) < 4:
                    return
                frame = stream.read(struct.unpack(">i", head)[0])
                key, version, correlation, name = struct.unpack_from(">hhih", frame)
                at = 10 + max(name, 0) + (1 if is_flexible(key, version) else 0)
                reader = Reader(frame[at:], is_flexible(key, version))
                request = reader.fields(MESSAGES[key][3], version)
                writer = Writer(is_flexible(key, version))
                writer.fields(MESSAGES[key][4], getattr(self, f"_api{key}")(request), version)
                tag = b"\0" if is_flexible(key, version) and key != 18 else b""
                out = struct.pack(">i", correlation) + tag + bytes(writer.out)
                peer.sendall(struct.pack(">i", len(out)) + out)
        except (OSError, struct.error, ValueError):
            peer.close()

    # The APIs

    def _api19(self, request):
        for topic in request["topics"]:
            self.topics[topic["name"]] = [[] for _ in range(topic["num_partitions"])]
        return {"topics": [{"name": t["name"], "error_code": 0, "error_message": None} for t in request["topics"]]}

    def _api22(self, _):
        self.next_producer += 1
        return {"producer_id": self.next_producer, "producer_epoch": 0}

    def _api2(self, request):
        topic = request["topics"][0]
        with self.lock:
            rows = [{"partition_index": p["index"] if "index" in p else p["partition_index"], "index": p["index"],
                     "offset": 0 if p["timestamp"] == -2 else self._end(self.topics[topic["name"]][p["index"]]),
                     "timestamp": -1} for p in topic["partitions"]]
        return {"topics": [{"name": topic["name"], "partitions": rows}]}

    def _api1(self, request):
        topic = request["topics"][0]
        part = topic["partitions"][0]
        index = next(v for k, v in part.items() if k in ("index", "partition"))
        with self.lock:
            log = self.topics[topic["topic"] if "topic" in topic else topic["name"]][index]
            end = self._end(log)
            raw = b"".join(b for b in log if _last(b) >= part["fetch_offset"])
        answer = {"index": index, "partition": index, "partition_index": index, "error_code": 0, "high_watermark": end,
                  "last_stable_offset": end, "log_start_offset": 0, "aborted_transactions": None, "records": raw,
                  "preferred_read_replica": -1}
        name = topic.get("topic", topic.get("name"))
        return {"topics": [{"topic": name, "name": name, "partitions": [answer]}],
                "responses": [{"topic": name, "name": name, "partitions": [answer]}]}

    def _api0(self, request):
        topic = request["topics"][0]
        part = topic["partitions"][0]
        with self.lock:
            code, base = self._append(topic["name"], part["index"], part["records"])
            if self.cut_every and self.count % self.cut_every == 0:
                raise OSError("the answer is lost on purpose")
        row = {"index": part["index"], "error_code": code, "base_offset": base, "log_append_time_ms": -1,
               "log_start_offset": 0, "record_errors": [], "error_message": None}
        return {"topics": [{"name": topic["name"], "partitions": [row]}]}

    def _append(self, topic, partition, raw):
        batch = hotpath.Batch(raw)
        log = self.topics[topic][partition]
        self.count += 1
        lying = self.count % self.every == 0
        known = self.producers.setdefault((topic, partition, batch.producer_id), {})
        if batch.producer_id >= 0 and batch.sequence in known and not (self.lie == "forget-dedupe"):
            return 0, known[batch.sequence]
        base = self._end(log)
        stored = struct.pack(">qi", base, len(raw) - 12) + struct.pack(">i", 0) + raw[16:]
        if lying and self.lie == "drop":
            return 0, base
        if lying and self.lie == "store-refused":
            log.append(stored)
            return CODE_REFUSED, -1
        if lying and self.lie == "flip":
            stored = stored[:-3] + bytes([stored[-3] ^ 1]) + stored[-2:]
        if lying and self.lie == "hole":
            stored = struct.pack(">q", base + 1) + stored[8:]
            base += 1
        log.append(stored)
        known[batch.sequence] = base
        if lying and self.lie == "duplicate":
            log.append(struct.pack(">q", self._end(log)) + stored[8:])
        if lying and self.lie == "swap" and len(log) > 1:
            first, second = log[-2], log[-1]
            start = struct.unpack_from(">q", first)[0]
            second = struct.pack(">q", start) + second[8:]
            log[-2:] = [second, struct.pack(">q", _last(second) + 1) + first[8:]]
        return 0, base + (1 if lying and self.lie == "wrong-offset" else 0)

    @staticmethod
    def _end(log):
        return _last(log[-1]) + 1 if log else 0


def _last(raw):
    return struct.unpack_from(">q", raw)[0] + struct.unpack_from(">i", raw, 23)[0]
