"""A group of the consumer protocol grows and shrinks while it reads and commits: `scaling.py HOST:PORT [--long]`.

Members (confluent-kafka, half of them by a regular expression) come in tens and
go again, over and over, while records keep coming; meanwhile a topic is created
that the expression matches, and one is deleted. No partition may have two
owners at a time, every record must be seen, commits must be taken or refused
with an error that says to try again, no partition may stand still for long, and
in the end the committed offsets are the ends (field case F14).
"""

import argparse
import collections
import sys
import threading
import time

GROUP = "scaling"
RECORDS_PER_SECOND = 2000
SETTLE_SECONDS_MAX = 60
STALL_SECONDS_MAX = 15  # heartbeats come each second; the rest is room for a busy machine
CREATE, DELETE = "scaling-created", "scaling-deleted"


class Wrong(Exception):
    """A check failed, for this reason."""


class Book:
    """Who owns what, and what was read; shared by all members."""

    def __init__(self):
        self.lock = threading.Lock()
        self.owner, self.read_at, self.seen = {}, {}, collections.Counter()
        self.faults, self.commit_errors = [], collections.Counter()
        self.stall_max = 0.0

    def assigned(self, member, partitions):
        with self.lock:
            for partition in partitions:
                other = self.owner.get(partition)
                if other not in (None, member):
                    self.faults.append(f"{partition} is given to member {member} while {other} owns it")
                self.owner[partition] = member

    def released(self, member, partitions):
        with self.lock:
            for partition in partitions:
                if self.owner.get(partition) == member:
                    del self.owner[partition]

    def read(self, partition, offset):
        now = time.monotonic()
        with self.lock:
            self.seen[partition, offset] += 1
            self.stall_max = max(self.stall_max, now - self.read_at.get(partition, now))
            self.read_at[partition] = now


class Member(threading.Thread):
    def __init__(self, number, book, bootstrap, topics):
        super().__init__(name=f"member-{number}", daemon=True)
        self.number, self.book, self.bootstrap, self.topics = number, book, bootstrap, topics
        self.leaving = threading.Event()

    def run(self):
        try:
            self._live()
        except Exception as error:  # pylint: disable=broad-except
            self.book.faults.append(f"member {self.number}: {type(error).__name__}: {error}")

    def _live(self):
        from confluent_kafka import Consumer, KafkaError, KafkaException
        again = {KafkaError.STALE_MEMBER_EPOCH, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.FENCED_MEMBER_EPOCH,
                 KafkaError.ILLEGAL_GENERATION, KafkaError._NO_OFFSET, KafkaError._STATE, KafkaError.UNKNOWN_TOPIC_OR_PART}
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": GROUP, "group.protocol": "consumer",
                             "enable.auto.commit": False, "auto.offset.reset": "earliest", "log_level": 0})
        names = lambda partitions: [(p.topic, p.partition) for p in partitions]  # noqa: E731
        gone = lambda _, partitions: self.book.released(self.number, names(partitions))  # noqa: E731

        def commit(**what):
            try:
                consumer.commit(asynchronous=False, **what)
            except KafkaException as error:
                code = error.args[0].code()
                self.book.commit_errors[error.args[0].name()] += 1
                if code not in again:
                    raise

        def revoked(_, partitions):
            commit()
            self.book.released(self.number, names(partitions))

        consumer.subscribe(self.topics, on_assign=lambda _, p: self.book.assigned(self.number, names(p)),
                           on_revoke=revoked, on_lost=gone)
        read = 0
        while not self.leaving.is_set():
            message = consumer.poll(0.2)
            if message is None:
                continue
            if message.error():
                if message.error().code() not in again:
                    raise Wrong(str(message.error()))
                continue
            self.book.read((message.topic(), message.partition()), message.offset())
            read += 1
            if read % 100 == 0:
                commit()
        commit()
        consumer.close()


def produce(bootstrap, partitions, ends, stop, faults):
    """A record to each partition of the main topic in turn; `ends` counts those that were acknowledged."""
    from confluent_kafka import Producer
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})

    def done(error, message):
        if error is not None:
            faults.append(f"producer: {error}")
        else:
            ends[message.partition()] = max(ends[message.partition()], message.offset() + 1)
    number, began = 0, time.monotonic()
    while not stop.is_set():
        while number < (time.monotonic() - began) * RECORDS_PER_SECOND:
            producer.produce(GROUP, str(number), partition=number % partitions, on_delivery=done)
            number += 1
        producer.poll(0.01)
    producer.flush(30)


def settle(book, members, partitions, what):
    """Until every partition has an owner and every member of those that are here owns about its share."""
    end = time.monotonic() + SETTLE_SECONDS_MAX
    while True:
        with book.lock:
            mine = collections.Counter(owner for (topic, _), owner in book.owner.items() if topic == GROUP)
            if book.faults:
                raise Wrong(book.faults[0])
        if sum(mine.values()) == partitions and set(mine) == {member.number for member in members}:
            return
        if time.monotonic() > end:
            raise Wrong(f"{what}: after {SETTLE_SECONDS_MAX} s {len(mine)} of {len(members)} members own"
                        f" {sum(mine.values())} of {partitions} partitions")
        time.sleep(0.1)


def scale(bootstrap, partitions, most, rounds):
    from confluent_kafka import Consumer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic
    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [NewTopic(GROUP, partitions, 1), NewTopic(DELETE, 2, 1)]
    for future in admin.create_topics(topics).values():
        future.result(30)
    book, ends, stop = Book(), [0] * partitions, threading.Event()
    producer = threading.Thread(target=produce, args=(bootstrap, partitions, ends, stop, book.faults), daemon=True)
    producer.start()
    members, number = [], 0
    for turn in range(rounds):
        for wanted in (5, most):
            while len(members) > wanted:
                members.pop(0).leaving.set()
            while len(members) < wanted:
                by_pattern = number % 2
                members.append(Member(number, book, bootstrap, ["^" + GROUP + ".*" if by_pattern else GROUP]))
                members[-1].start()
                number += 1
            settle(book, members, partitions, f"round {turn + 1}, {wanted} members")
            print(f"round {turn + 1}: {wanted} members own {partitions} partitions, {sum(book.seen.values())} records read", flush=True)
        if turn == 0:
            admin.create_topics([NewTopic(CREATE, 2, 1)])[CREATE].result(30)
            admin.delete_topics([DELETE])[DELETE].result(30)
    stop.set()
    producer.join()
    end = time.monotonic() + SETTLE_SECONDS_MAX
    while any((((GROUP, p), ends[p] - 1) not in book.seen) for p in range(partitions)) and time.monotonic() < end:
        time.sleep(0.1)
    for member in members:
        member.leaving.set()
    for member in members:
        member.join(SETTLE_SECONDS_MAX)
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP})
    found = reader.committed([TopicPartition(GROUP, p) for p in range(partitions)], timeout=30)
    reader.close()
    judge(book, ends, {row.partition: row.offset for row in found})


def judge(book, ends, committed):
    if book.faults:
        raise Wrong(f"{len(book.faults)} faults, first: {book.faults[0]}")
    lost = [(p, offset) for p, end in enumerate(ends) for offset in range(end) if ((GROUP, p), offset) not in book.seen]
    if lost:
        raise Wrong(f"{len(lost)} records were never read, first {lost[:3]}")
    behind = {p: (committed[p], end) for p, end in enumerate(ends) if committed[p] != end}
    if behind:
        raise Wrong(f"committed is not the end: {dict(list(behind.items())[:3])}")
    if book.stall_max > STALL_SECONDS_MAX:
        raise Wrong(f"a partition stood still for {book.stall_max:.1f} s")
    twice = sum(count - 1 for count in book.seen.values())
    print(f"{sum(ends)} records, {twice} read again behind a commit that was refused, longest pause of a partition"
          f" {book.stall_max:.1f} s, commits refused: {dict(book.commit_errors) or 'none'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bootstrap")
    parser.add_argument("--long", action="store_true", help="200 partitions, 40 members, ten times")
    options = parser.parse_args()
    size = (200, 40, 10) if options.long else (60, 20, 2)
    try:
        scale(options.bootstrap, *size)
        print("PASS scaling")
    except Wrong as error:
        print(f"FAIL scaling: {error}")
        sys.exit(1)


if __name__ == "__main__":
    main()
