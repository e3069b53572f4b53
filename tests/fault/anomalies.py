"""What a history of sends, polls and transactions may not show.

A history holds operations of processes. One operation is a transaction, or a
lone send or poll: a list of `Send(key, value, offset)` and `Poll(key, [(offset,
value)])`, with an outcome: OK (it was answered, or committed), FAILED (it was
refused, or aborted, and everybody knows) or UNKNOWN. A key is one partition;
values are numbers, each sent once. The version order of a key is its values by
their offsets, as far as anybody saw or was told of them; offsets of markers and
of what was aborted leave gaps.

`anomalies(history)` gives the names of Kyle Kingsbury's checker for Kafka. All
of them are forbidden here, since every reader reads by assignment:

- inconsistent offsets: two values at one offset
- duplicate: one value at two offsets
- lost write: an acknowledged value below one that was read, and nobody read it
- unseen: an acknowledged value that nobody had read in the end
- aborted read (G1a): a value that was read, of an operation that failed
- precommitted read: a transaction polls what it writes itself
- torn transaction: of one with an unknown outcome a part was read, and a part was not
- nonmonotonic send: a later send of one process got a lower offset; also within one operation
- poll skip: a process polled on and left out a value; also within one poll
- nonmonotonic poll: it went back; also within one poll
- circular reads (G1c): transactions that read each other's writes in a circle

Not judged, since Kafka does not promise them: the order of writes between
transactions (G0), what others write between two sends of one, and when a
committed record is first seen.
"""

import collections
import threading

OK, FAILED, UNKNOWN = "ok", "failed", "unknown"
Send = collections.namedtuple("Send", "key value offset")
Poll = collections.namedtuple("Poll", "key records")


class Operation:
    """One line of a history; `process` is a name that is not used again after a crash."""

    __slots__ = ("process", "parts", "outcome")

    def __init__(self, process, parts, outcome):
        self.process, self.parts, self.outcome = process, list(parts), outcome

    def sends(self):
        return [part for part in self.parts if isinstance(part, Send)]

    def polls(self):
        return [part for part in self.parts if isinstance(part, Poll)]

    def __repr__(self):
        return f"{self.process} {self.outcome} {self.parts}"


class History:
    """Operations in the order in which they ended, from any thread."""

    def __init__(self):
        self._lock, self.operations, self._value = threading.Lock(), [], 0

    def value(self):
        """A number that nobody sent yet."""
        with self._lock:
            self._value += 1
            return self._value

    def add(self, process, parts, outcome):
        with self._lock:
            self.operations.append(Operation(process, parts, outcome))

    def counts(self):
        """{outcome: number of operations} of those that sent something, and the number of records polled."""
        found = collections.Counter(one.outcome for one in self.operations if one.sends())
        return dict(found, polled=sum(len(poll.records) for one in self.operations for poll in one.polls()))


def anomalies(operations):
    """[(name, sentence)], worst first; empty if all is well."""
    return list(_Judge(operations).found())


class _Judge:
    def __init__(self, operations):
        self.operations = operations
        self.writer = {part.value: one for one in operations for part in one.sends()}
        self.read = collections.defaultdict(dict)  # key -> {offset: value} as polled
        self.known = collections.defaultdict(dict)  # the same, with what producers were told
        self.clashes = []
        for one in operations:
            for part in one.polls():
                for offset, value in part.records:
                    self.read[part.key][offset] = value
                    self._place(part.key, offset, value, one)
            if one.outcome != FAILED:
                for part in one.sends():
                    if part.offset is not None and one.outcome == OK:
                        self._place(part.key, part.offset, part.value, one)
        self.seen = {value for values in self.read.values() for value in values.values()}
        self.order = {key: sorted(values) for key, values in self.read.items()}

    def _place(self, key, offset, value, one):
        before = self.known[key].setdefault(offset, value)
        if before != value:
            self.clashes.append(f"key {key} offset {offset}: {before}, and {value} in {one}")

    def found(self):
        for sentence in self.clashes:
            yield "inconsistent offsets", sentence
        yield from self._duplicates()
        yield from self._lost()
        yield from self._of_writers()
        yield from self._sends()
        yield from self._polls()
        yield from self._circles()

    def _duplicates(self):
        places = collections.defaultdict(set)
        for key, values in self.known.items():
            for offset, value in values.items():
                places[value].add((key, offset))
        for value, found in places.items():
            if len(found) > 1:
                yield "duplicate", f"value {value} is at {sorted(found)}"

    def _lost(self):
        for one in self.operations:
            if one.outcome != OK:
                continue
            for part in one.sends():
                if part.value not in self.seen:
                    last = max(self.read[part.key], default=-1)
                    name = "lost write" if part.offset is not None and part.offset < last else "unseen"
                    yield name, f"value {part.value} at key {part.key} offset {part.offset} (read up to {last}) of {one}"

    def _of_writers(self):
        for one in self.operations:
            own = {part.value for part in one.sends()}
            for poll in one.polls():
                if both := own & {value for _, value in poll.records}:
                    yield "precommitted read", f"values {sorted(both)} in {one}"
            there = own & self.seen
            if there and one.outcome == FAILED:
                yield "aborted read", f"values {sorted(there)} of {one}"
            if there and one.outcome == UNKNOWN and there != own:
                yield "torn transaction", f"values {sorted(there)} are there, {sorted(own - there)} are not, of {one}"
        for value in self.seen - set(self.writer):
            yield "aborted read", f"value {value}, which nobody sent"

    def _sends(self):
        last = {}
        for one in self.operations:
            for part in one.sends():
                if part.offset is None:
                    continue
                before = last.get((one.process, part.key), (-1, None))
                if part.offset <= before[0]:
                    yield "nonmonotonic send", f"key {part.key}: offset {part.offset} of value {part.value} after {before} of {one.process}"
                last[one.process, part.key] = (part.offset, part.value)

    def _polls(self):
        """Each reader takes the values of a key in the version order, none left out from its first poll on."""
        index = {key: {offset: i for i, offset in enumerate(offsets)} for key, offsets in self.order.items()}
        last = {}
        for one in self.operations:
            for poll in one.polls():
                for offset, value in poll.records:
                    at, before = index[poll.key][offset], last.get((one.process, poll.key), -1)
                    if at <= before:
                        yield "nonmonotonic poll", f"key {poll.key}: offset {offset} of value {value} again or later than others, in {one.process}"
                    elif at > before + 1:
                        left = self.order[poll.key][before + 1:at]
                        yield "poll skip", f"key {poll.key}: offsets {left[:5]} ({len(left)}) in front of {offset}, in {one.process}"
                    last[one.process, poll.key] = at

    def _circles(self):
        """Strongly connected transactions under "reads what the other wrote"."""
        reads = {}
        for one in self.operations:
            found = {id(self.writer[value]) for poll in one.polls() for _, value in poll.records if value in self.writer}
            reads[id(one)] = found - {id(one)} if one.sends() else set()
        numbers = {id(one): one for one in self.operations}
        for circle in _components(reads):
            if len(circle) > 1:
                yield "circular reads", "; ".join(repr(numbers[i])[:200] for i in circle[:4])


def _components(edges):
    """Tarjan's strongly connected components, without recursion."""
    order, low, on, stack, found, count = {}, {}, set(), [], [], 0
    for root in edges:
        if root in order:
            continue
        work = [(root, iter(edges.get(root, ())))]
        order[root] = low[root] = count
        count += 1
        stack.append(root)
        on.add(root)
        while work:
            node, rest = work[-1]
            for following in rest:
                if following not in order:
                    order[following] = low[following] = count
                    count += 1
                    stack.append(following)
                    on.add(following)
                    work.append((following, iter(edges.get(following, ()))))
                    break
                if following in on:
                    low[node] = min(low[node], order[following])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    circle = []
                    while True:
                        member = stack.pop()
                        on.discard(member)
                        circle.append(member)
                        if member == node:
                            break
                    found.append(circle)
    return found
