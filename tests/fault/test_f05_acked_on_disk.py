"""F05: "acknowledged" means on disk, for every kind of write, at any moment of a power cut.

Kafka-client part: Produce with acks=all and acks=1, CreateTopics, DeleteTopics,
CreatePartitions, IncrementalAlterConfigs and InitProducerId run at once; each
client notes the moment of the ok; the power is cut at random, again and again.
Commits of groups are in test_groups.py; transactions, ACLs, credentials and
MQTT have no tests here.
"""

import collections
import random
import statistics
import threading
import time

from bench import (Closed, Connection, Ledger, Producer, Silent, Watcher, budget, load, log_end, needs_loop_disk,
                   one_batch, read_topic, topic_made)

pytestmark = needs_loop_disk
TOPIC, PARTITIONS = "data", 8
SEED = 5


class Admin(threading.Thread):
    """Makes topics, widens, alters and deletes them, takes producer ids; knows what got an ok."""

    def __init__(self, address, lane, seed):
        super().__init__(name=f"admin-{lane}", daemon=True)
        self.address, self.lane = address, lane
        self.random = random.Random(seed)
        self.stopping = threading.Event()
        self.number = 0
        self.present = {}     # name -> partitions, by an ok
        self.settings = {}    # name -> max.message.bytes, by an ok
        self.gone = set()     # deleted, by an ok
        self.doubtful = collections.defaultdict(list)  # name -> what was tried without an answer
        self.producer_ids = []
        self.done = collections.Counter()
        self.refused = []

    def run(self):
        while not self.stopping.is_set():
            try:
                with Connection(self.address, timeout=15, client_id="admin") as connection:
                    while not self.stopping.is_set():
                        self.step(connection)
            except (OSError, Closed, Silent):
                self.stopping.wait(0.02)

    def step(self, connection):
        what = self.random.choice(("create", "create", "alter", "widen", "producer", "delete"))
        name = self.random.choice(sorted(self.present)) if self.present else None
        if what == "producer":
            answer = connection.call(22, 1)
            if self._ok(what, answer["error_code"]):
                self.producer_ids.append(answer["producer_id"])
        elif what == "create" or name is None:
            self._create(connection)
        elif self.doubtful[name]:
            return
        elif what == "alter":
            value = self.random.randrange(10_000, 1_000_000)
            self._try(name, what, value, lambda: connection.call(44, 0, resources=[{
                "resource_type": 2, "resource_name": name,
                "configs": [{"name": "max.message.bytes", "op": 0, "value": str(value)}]}])["responses"][0],
                lambda: self.settings.update({name: value}))
        elif what == "widen":
            count = self.present[name] + 1
            self._try(name, what, count, lambda: connection.call(37, 0, topics=[
                {"name": name, "count": count, "assignments": None}])["results"][0],
                lambda: self.present.update({name: count}))
        else:
            self._try(name, what, None, lambda: connection.call(20, 1, topic_names=[name])["responses"][0],
                      lambda: (self.present.pop(name), self.settings.pop(name, None), self.gone.add(name)))

    def _create(self, connection):
        self.number += 1
        name, size = f"{self.lane}-{self.number}", self.random.randrange(20_000, 900_000)
        self._try(name, "create", size, lambda: connection.call(19, 2, topics=[{
            "name": name, "num_partitions": 2, "replication_factor": 1,
            "configs": [{"name": "max.message.bytes", "value": str(size)}]}])["topics"][0],
            lambda: (self.present.update({name: 2}), self.settings.update({name: size})))

    def _try(self, name, what, value, send, apply):
        """Doubtful until answered."""
        self.doubtful[name].append((what, value))
        code = send()["error_code"]
        self.doubtful[name].clear()
        if self._ok(f"{what} {name}", code):
            apply()
            self.done[what] += 1

    def _ok(self, what, code):
        if code:
            self.refused.append((what, code))
        return code == 0

    def judge(self, topics, settings):
        """What differs from the ok's, as sentences; adopts whatever a doubtful operation came to."""
        for name in set(self.present) | {n for n, tries in self.doubtful.items() if tries}:
            tries = {what: value for what, value in self.doubtful[name]}
            self.doubtful[name].clear()
            if name not in topics:
                if name in self.present and "delete" not in tries:
                    yield f"LOST: topic {name}, created with an ok, is gone"
                self.present.pop(name, None)
                self.settings.pop(name, None)
                continue
            wanted = self.present.get(name, 2)
            if topics[name] not in {wanted, tries.get("widen", wanted)}:
                yield f"topic {name}: {topics[name]} partitions, ok was for {wanted}, open was {tries}"
            size = self.settings.get(name, tries.get("create"))
            if settings[name] not in {size, tries.get("alter", size)}:
                yield f"topic {name}: max.message.bytes {settings[name]}, ok was for {size}, open was {tries}"
            self.present[name], self.settings[name] = topics[name], settings[name]
        for name in self.gone & set(topics):
            yield f"BACK AGAIN: topic {name}, deleted with an ok, is there"


def _state(connection, lanes):
    """({topic: partitions}, {topic: max.message.bytes}) of the admins' topics."""
    found = connection.call(3, 4, topics=None, allow_auto_topic_creation=False)["topics"]
    topics = {t["name"]: len(t["partitions"]) for t in found if t["name"].rsplit("-", 1)[0] in lanes}
    if not topics:
        return {}, {}
    answer = connection.call(32, 1, resources=[
        {"resource_type": 2, "resource_name": name, "keys": ["max.message.bytes"]} for name in topics])
    return topics, {row["resource_name"]: int(row["configs"][0]["value"]) for row in answer["results"]}


def test_every_ok_before_a_power_cut_is_in_force_after_it(make_disk, make_broker):
    disk = make_disk(4096)
    broker = make_broker(disk.data_dir)
    with broker.connect() as connection:
        topic_made(connection, TOPIC, PARTITIONS)
    ledger, chance = Ledger(), random.Random(SEED)
    data = [Producer(ledger, broker.address, TOPIC, PARTITIONS, "all", rate=100, seed=SEED),
            Producer(ledger, broker.address, TOPIC, PARTITIONS, "one", rate=100, acks=1, seed=SEED),
            Producer(ledger, broker.address, TOPIC, PARTITIONS, "idem", rate=100, idempotent=True, seed=SEED),
            Watcher(ledger, broker.address, TOPIC, PARTITIONS)]
    admins = [Admin(broker.address, f"adm{n}", SEED + n) for n in range(2)]
    lanes = {admin.lane for admin in admins}
    with load(*data, *admins):
        for number in range(budget(8, 100)):
            time.sleep(chance.uniform(0.3, 1.5))
            disk.cut_power()
            for admin in admins:
                admin.stopping.set()
            broker.kill9()
            for admin in admins:
                admin.join(20)
            disk.remount()
            broker.start()
            with broker.connect(timeout=30) as connection:
                topics, settings = _state(connection, lanes)
            for index, admin in enumerate(admins):
                own = {t: n for t, n in topics.items() if t.startswith(admin.lane + "-")}
                faults = list(admin.judge(own, settings))
                assert not faults, f"seed {SEED}, power cut {number}: {len(faults)} faults: {faults[:8]}"
                admins[index] = _next_life(admin)
                admins[index].start()
        for admin in admins:
            admin.stopping.set()
            admin.join(20)
        for thread in data:
            thread.finish()
    ledger.verify(read_topic(broker.address, TOPIC, PARTITIONS))
    given = [i for admin in admins for i in admin.producer_ids]
    assert len(given) == len(set(given)), "a producer id was given twice"
    done = sum((admin.done for admin in admins), collections.Counter())
    assert all(done[what] for what in ("create", "alter", "widen", "delete")), f"an operation was never tried: {done}"


def _next_life(admin):
    """The same knowledge in a new thread."""
    new = Admin(admin.address, admin.lane, admin.random.random())
    for name in ("number", "present", "settings", "gone", "doubtful", "producer_ids", "done", "refused"):
        setattr(new, name, getattr(admin, name))
    return new


def test_an_ack_alone_comes_after_one_flush_and_no_waiting_window(make_broker):
    """Idle broker, one small record at a time: nothing but a flush lies between request and ok."""
    broker, ledger = make_broker(), Ledger()
    with broker.connect() as connection:
        topic_made(connection, TOPIC)
        took = []
        for _ in range(100):
            time.sleep(0.01)
            began = time.monotonic()
            one_batch(connection, ledger, TOPIC, 0, 1)
            took.append(time.monotonic() - began)
        assert log_end(connection, TOPIC, 0) == 100
    assert statistics.median(took) < 0.05, f"median {statistics.median(took) * 1000:.1f} ms for one record alone"


def test_the_promise_is_visible_in_the_settings(make_broker):
    """flush.messages is 1 and says so; a weaker value is refused, not taken and ignored."""
    broker = make_broker()
    with broker.connect() as connection:
        topic_made(connection, TOPIC)
        answer = connection.call(32, 1, resources=[
            {"resource_type": 2, "resource_name": TOPIC, "keys": ["flush.messages"]}])
        (row,) = answer["results"][0]["configs"]
        assert row["value"] == "1", row
        code = connection.call(44, 0, resources=[{"resource_type": 2, "resource_name": TOPIC, "configs": [
            {"name": "flush.messages", "op": 0, "value": "1000"}]}])["responses"][0]["error_code"]
        assert code == 40, f"flush.messages=1000: error {code}, expected INVALID_CONFIG (40)"
