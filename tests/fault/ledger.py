"""The payload ledger: what was promised, against what is there.

Every record carries a unique id. The ledger keeps three sets: *acked* (the
broker said yes, at this offset), *unknown* (an error that may be retried, or
no answer) and *refused* (an error that may not). After any fault:

- each acked id is read back once, at the offset it was acked with;
- an unknown id is there or not, but not twice (unless it was re-sent without
  idempotence, which the producer must say);
- a refused id is never there, nor is one that nobody sent;
- what a consumer saw before the fault is there after it, at the same offset;
- offsets have no gaps, and one producer's records keep their order.
"""

import threading

MARK_BYTES = 32


class Ledger:
    """Thread safe by one lock around whole batches."""

    def __init__(self):
        self._lock = threading.Lock()
        self._next = 0
        self.acked = {}    # id -> (partition, offset)
        self.unknown = {}  # id -> partition
        self.refused = {}  # id -> partition
        self.seen = {}     # (partition, offset) -> id, as consumers saw it
        self.resent = set()  # ids sent more than once without idempotence
        self.lane = {}     # id -> (producer name, number within it): the order of sending

    def ids(self, count, partition, producer="-"):
        """`count` new ids; unknown until told otherwise, so that a crash needs no bookkeeping."""
        with self._lock:
            first = self._next
            self._next += count
            for i in range(first, first + count):
                self.unknown[i] = partition
                self.lane[i] = producer
        return range(first, first + count)

    def ack(self, ids, partition, base_offset):
        with self._lock:
            for delta, i in enumerate(ids):
                assert i not in self.refused, f"id {i} was refused and then acknowledged"
                before = self.acked.get(i)
                now = (partition, base_offset + delta)
                assert before is None or before == now, f"id {i} acknowledged at {before} and again at {now}"
                self.acked[i] = now
                self.unknown.pop(i, None)

    def refuse(self, ids, partition):
        with self._lock:
            for i in ids:
                assert i not in self.acked, f"id {i} was acknowledged and then refused"
                self.refused[i] = partition
                self.unknown.pop(i, None)

    def resend(self, ids):
        """The same ids go out again without idempotence: they may be there more than once."""
        with self._lock:
            self.resent.update(ids)

    def see(self, partition, offset, i):
        with self._lock:
            before = self.seen.setdefault((partition, offset), i)
            assert before == i, f"partition {partition} offset {offset} showed id {before} and later {i}"

    def doubt(self, ids):
        """Acked ids become unknown: the test itself damaged them."""
        with self._lock:
            for i in ids:
                partition, _ = self.acked.pop(i)
                self.unknown[i] = partition

    def counts(self):
        with self._lock:
            return {"acked": len(self.acked), "unknown": len(self.unknown), "refused": len(self.refused),
                    "seen": len(self.seen)}

    def faults(self, read, start=0):
        """What is wrong, as a list of sentences; `read` is {partition: [(offset, id)]}.

        `start` is the first offset that must be there (a number, or one a
        partition): acked and seen records below it are not asked for.
        """
        with self._lock:
            return list(_faults(self, read, start))

    def verify(self, read, start=0):
        """Raises with the first faults found, and how many there are."""
        faults = self.faults(read, start)
        if faults:
            shown = "\n  ".join(faults[:12])
            raise AssertionError(f"{len(faults)} faults against the ledger {self.counts()}:\n  {shown}")


def _faults(ledger, read, start):
    first = start if isinstance(start, dict) else dict.fromkeys(read, start)
    places = {}
    for partition, records in read.items():
        for offset, i in records:
            places.setdefault(i, []).append((partition, offset))
    yield from _gaps(read)
    for i, promised in ledger.acked.items():
        partition, offset = promised
        if partition not in read or offset < first.get(partition, 0):
            continue
        found = places.get(i, [])
        if promised not in found:
            yield f"LOST: id {i} was acknowledged at partition {partition} offset {offset}, found at {found or 'no place'}"
        elif len(found) > 1 and i not in ledger.resent:
            yield f"TWICE: acknowledged id {i} is at {found}"
    for i, found in places.items():
        if i in ledger.acked:
            continue
        if i in ledger.refused:
            yield f"REFUSED BUT THERE: id {i} at {found}"
        elif i not in ledger.unknown:
            yield f"NEVER SENT: id {i} at {found}"
        elif len(found) > 1 and i not in ledger.resent:
            yield f"TWICE: unanswered id {i} is at {found}"
    by_place = {(p, offset): i for p, records in read.items() for offset, i in records}
    for (partition, offset), i in ledger.seen.items():
        if partition in read and offset >= first.get(partition, 0) and by_place.get((partition, offset)) != i:
            yield (f"TAKEN BACK: a consumer saw id {i} at partition {partition} offset {offset}, "
                   f"now there is {by_place.get((partition, offset), 'nothing')}")
    yield from _disorder(ledger, read)


def _gaps(read):
    for partition, records in read.items():
        for (before, _), (after, i) in zip(records, records[1:]):
            if after != before + 1:
                yield f"GAP: partition {partition} goes from offset {before} to {after} (id {i})"


def _disorder(ledger, read):
    """Within a partition, one producer's ids rise (ids are given in sending order)."""
    for partition, records in read.items():
        last = {}
        for offset, i in records:
            if i in ledger.resent:
                continue
            lane = ledger.lane.get(i)
            if lane is not None and last.get(lane, -1) > i:
                yield f"OUT OF ORDER: partition {partition} offset {offset} has id {i} behind {last[lane]} of {lane}"
            last[lane] = max(i, last.get(lane, -1))


def payload(i, size=0):
    """The value of record `i`: its id in 16 hex digits, a marker that no other record has, then padding."""
    mark = b"%016x%016x" % (i, (i * 0x9E3779B97F4A7C15 + 0x1234567) & 0xFFFFFFFFFFFFFFFF)
    return mark.ljust(size, b".")


def id_of(value):
    """The id in a record's value; asserts that the whole marker and the padding are as written."""
    i = int(value[:16], 16)
    assert value == payload(i, len(value)), f"record with id {i} came back with other bytes: {value[:64]!r}"
    return i
