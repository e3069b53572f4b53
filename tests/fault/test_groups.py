"""Groups over kills, power cuts and failed disks: a commit that was answered is there, never an older one.

Also: groups and their static members come back, members find back within
seconds whatever state their group was in, a failed disk gives commits an error
and never an ok, thousands of groups are loaded soon.
"""

import random
import re
import threading
import time

import pytest

from bench import Closed, Connection, Silent, budget, needs_loop_disk, topic_made, until
from rawgroups import WAIT_ERRORS, Member, commit_alone, committed, described, form, state

TOPIC, PARTITIONS = "grouped", 8
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}
SEED = 12
BACK_SECONDS_MAX = 5
LOAD_SECONDS_MAX = 2
UNKNOWN_MEMBER, ILLEGAL_GENERATION, REBALANCE, FENCED = 25, 22, 27, 82
TROUBLE = (OSError, Closed, Silent)


class Committer(threading.Thread):
    """Commits rising offsets of every partition in groups of its own, alone or as a member, over any fault.

    Knows for each (group, partition) the last offset that was answered and the last that was sent.
    """

    def __init__(self, address, lane, groups, seed, as_member=False, timeout=10.0):
        super().__init__(name=f"committer-{lane}", daemon=True)
        self.address, self.lane, self.as_member, self.timeout = address, lane, as_member, timeout
        self.groups = [f"{lane}-{number}" for number in range(groups)]
        self.random = random.Random(f"{seed}-{lane}")
        self.acked, self.sent = {}, {}
        self.acks_at, self.errors, self.silences, self.joins = [], {}, 0, 0
        self.fatal = None
        self.stopping = threading.Event()

    def run(self):
        try:
            while not self.stopping.is_set():
                try:
                    self._session()
                except TROUBLE as error:
                    self.silences += isinstance(error, Silent)
                    self.stopping.wait(0.02)
        except Exception as error:  # pylint: disable=broad-except
            self.fatal = f"{type(error).__name__}: {error}"

    def _session(self):
        group = self.random.choice(self.groups)
        with Member(self.address, group, timeout=self.timeout, session_ms=3000, rebalance_ms=1000) as member:
            if self.as_member:
                self._join(member)
                self.joins += 1
            for _ in range(self.random.randrange(1, 20)):
                if self.stopping.is_set():
                    break
                if not self._commit(member, group):
                    return
            if self.as_member:
                member.leave()

    @staticmethod
    def _join(member):
        """Alone: who was here before the fault is waited for."""
        try:
            member.join().joined()
            member.sync({m["member_id"]: b"x" for m in member.answer["members"]}).synced()
        except ValueError as error:  # a coordinator that is not ready yet
            raise Closed(str(error)) from error

    def _commit(self, member, group):
        """Whether it was taken; some partitions in one request."""
        wanted = self.random.sample(range(PARTITIONS), self.random.randrange(1, PARTITIONS))
        offsets = {p: self.sent.get((group, p), 0) + 1 for p in wanted}
        for partition, offset in offsets.items():
            self.sent[group, partition] = offset
        began = time.monotonic()
        codes = member.commit(TOPIC, offsets)
        for partition, code in codes.items():
            if code:
                self.errors[code] = self.errors.get(code, 0) + 1
            else:
                self.acked[group, partition] = offsets[partition]
        if not any(codes.values()):
            self.acks_at.append((began, time.monotonic()))
            return True
        return False

    def finish(self):
        self.stopping.set()
        self.join(self.timeout + 10)
        assert not self.is_alive(), f"{self.name} hangs"
        assert self.fatal is None, f"{self.name}: {self.fatal}"

    def verify(self, connection):
        """Every offset is the last answered one, or one that was sent after it and got no answer."""
        faults = []
        for group in self.groups:
            found = committed(connection, group, TOPIC, range(PARTITIONS))
            for partition, offset in found.items():
                least, most = self.acked.get((group, partition), -1), self.sent.get((group, partition), -1)
                if not least <= offset <= most:
                    faults.append(f"{group} partition {partition}: committed {offset}, answered {least}, sent {most}")
                self.acked[group, partition] = self.sent[group, partition] = offset
        assert not faults, f"{len(faults)} faults: {faults[:8]}"


def _started(make_broker, data_dir=None):
    broker = make_broker(data_dir, settings=SETTINGS)
    with broker.connect() as connection:
        topic_made(connection, TOPIC, PARTITIONS)
        _ready(connection)
    return broker


def _ready(connection, group="ready"):
    """Until the coordinator takes a commit; returns the seconds it took."""
    began = time.monotonic()
    connection.call(10, 0, key=group)
    until("commits are taken", lambda: commit_alone(connection, group, TOPIC, {0: 0}) == {0: 0}, BACK_SECONDS_MAX, pause=0.02)
    return time.monotonic() - began


def _crowd(address):
    return [Committer(address, "alone", 6, SEED), Committer(address, "member", 3, SEED, as_member=True),
            Committer(address, "single", 1, SEED), Committer(address, "many", 200, SEED)]


def _verify(crowd, address):
    with Connection(address, timeout=20) as connection:
        for committer in crowd:
            committer.verify(connection)


def _rounds(crowd, broker, chance, rounds, fault):
    """`fault()` at random moments of joins and commits; judged after each, with the load paused."""
    for number in range(rounds):
        for index, committer in enumerate(crowd):
            crowd[index] = _next_life(committer)
            crowd[index].start()
        time.sleep(chance.choice((0.05, 0.3, 1.0)) * chance.uniform(0.5, 1.5))
        fault()
        for committer in crowd:
            committer.finish()
        broker.start()
        try:
            _verify(crowd, broker.address)
        except AssertionError as error:
            raise AssertionError(f"seed {SEED}, round {number}: {error}") from error
    assert sum(len(c.acks_at) for c in crowd) > 20 * rounds, f"hardly any commit: {[len(c.acks_at) for c in crowd]}"
    assert crowd[1].joins, "no member ever joined"


def _next_life(committer):
    """The same knowledge in a new thread."""
    new = Committer(committer.address, committer.lane, len(committer.groups), committer.random.random(), committer.as_member)
    for name in ("acked", "sent", "acks_at", "errors", "joins"):
        setattr(new, name, getattr(committer, name))
    return new


def test_answered_commits_are_there_after_kills_at_random_moments(make_broker):
    broker = _started(make_broker)
    _rounds(_crowd(broker.address), broker, random.Random(SEED), budget(10, 100), broker.kill9)


@needs_loop_disk
def test_answered_commits_are_there_after_power_cuts_at_random_moments(make_disk, make_broker):
    disk = make_disk(4096)
    broker = _started(make_broker, disk.data_dir)

    def cut():
        disk.cut_power()
        broker.kill9()
        disk.remount()
    _rounds(_crowd(broker.address), broker, random.Random(SEED), budget(8, 100), cut)


def test_answered_commits_are_there_after_clean_stops_under_load(make_broker):
    broker = _started(make_broker)
    _rounds(_crowd(broker.address), broker, random.Random(SEED), budget(3, 20), lambda: broker.stop() == 0)


def _restart(broker, how):
    """kill -9 or a clean stop, then a start."""
    if how == "killed":
        broker.kill9()
    else:
        assert broker.stop() == 0
    broker.start()


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_stable_group_goes_on_over_a_restart(how, make_broker):
    """Members reconnect, and are members still: no rebalance, same assignments, commits go on."""
    broker = _started(make_broker)
    members = [Member(broker.address, "stable", instance=instance, session_ms=20_000) for instance in (None, "i")]
    form(members[0])
    members[1].join()
    until("a rebalance", lambda: members[0].heartbeat() == REBALANCE)
    form_again(members)
    assert members[0].commit(TOPIC, {0: 5}) == {0: 0}
    before = described(members[0].connection, "stable")
    for member in members:
        member.close()
    _restart(broker, how)
    began = time.monotonic()
    again = [_same(broker, member) for member in members]
    for old, member in zip(members, again):
        assert _patient(lambda m=member: m.heartbeat()) == 0, "a member is not known after the restart"
        assert member.sync().synced()["assignment"] == old.assignment, "the assignment is another one"
    assert again[0].commit(TOPIC, {1: 6}) == {1: 0}
    assert time.monotonic() - began < BACK_SECONDS_MAX
    after = described(again[0].connection, "stable")
    assert after == before, f"described before and after the restart: {before}, {after}"
    assert committed(again[0].connection, "stable", TOPIC, [0, 1]) == {0: 5, 1: 6}


def form_again(members):
    """The round that is open: the first joins again, all sync."""
    members[0].join()
    for member in members:
        member.joined()
    leader = next(m for m in members if m.is_leader)
    for member in members:
        member.sync({m.member_id: b"part %d" % i for i, m in enumerate(members)} if member is leader else None)
    for member in members:
        member.synced()


def _same(broker, member):
    """The same member on a new connection."""
    new = Member(broker.address, member.group, instance=member.instance, session_ms=member.session_ms, member_id=member.member_id,
                 rebalance_ms=member.rebalance_ms)
    new.generation, new.answer = member.generation, member.answer
    return new


def _patient(call):
    """The first answer that is not "come again"."""
    return until("the coordinator answers", lambda: (code := call()) not in WAIT_ERRORS and (code,), BACK_SECONDS_MAX)[0]


@pytest.mark.parametrize("how", ["killed", "stopped"])
@pytest.mark.parametrize("where", ["Empty", "PreparingRebalance", "CompletingRebalance"])
def test_members_find_back_whatever_state_the_group_was_in(where, how, make_broker):
    broker = _started(make_broker)
    first, second = (Member(broker.address, "torn", session_ms=3000, rebalance_ms=1000) for _ in range(2))
    form(first)
    assert first.commit(TOPIC, {0: 5}) == {0: 0}
    if where == "Empty":
        assert first.leave() == 0
    else:
        second.join()
        until("a rebalance", lambda: first.heartbeat() == REBALANCE)
        if where == "CompletingRebalance":
            first.join()
            first.joined(), second.joined()
            second.sync()
    with broker.connect() as connection:
        assert state(connection, "torn") == where
    _restart(broker, how)
    for waiting in [second] if where != "Empty" else []:
        with pytest.raises(TROUBLE):  # either the answer of a stopping broker, or the end of the connection
            code = waiting.connection.receive()
            raise Closed(f"answered at the stop: {code.hex()}")
    first.close(), second.close()
    began = time.monotonic()
    with broker.connect() as connection:
        assert committed(connection, "torn", TOPIC, [0]) == {0: 5}
    newcomers = [Member(broker.address, "torn", session_ms=3000, rebalance_ms=1000) for _ in range(2)]
    threads = [threading.Thread(target=_settle, args=(member, began + BACK_SECONDS_MAX + 3)) for member in newcomers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    took = time.monotonic() - began
    with broker.connect() as connection:
        row = described(connection, "torn")
    assert row["group_state"] == "Stable" and {m["member_id"] for m in row["members"]} == {m.member_id for m in newcomers}, row
    # Members of before may have to be waited for: a session (3 s) or a rebalance (1 s).
    assert took < 3 + BACK_SECONDS_MAX, f"the members were back after {took:.1f} s"
    assert _patient(lambda: newcomers[0].commit(TOPIC, {0: 6})[0]) == 0


def _settle(member, deadline):
    """Joins as a client would, until the group has been stable with two members for a moment."""
    quiet = 0
    while quiet < 5 and time.monotonic() < deadline:
        code = member.heartbeat() if member.generation >= 0 else UNKNOWN_MEMBER
        if code == 0 and len(described(member.connection, member.group)["members"]) == 2:
            quiet += 1
            time.sleep(0.05)
            continue
        quiet = 0
        if code in (UNKNOWN_MEMBER, ILLEGAL_GENERATION, REBALANCE):
            if code == UNKNOWN_MEMBER and member.generation >= 0:
                member.member_id = ""
            if member.join().joined(None)["error_code"] == 0:
                member.sync({m["member_id"]: b"x" for m in member.answer["members"]}).synced(None)
        time.sleep(0.05)


def test_static_members_keep_their_places_over_a_restart(make_broker):
    """F12 d: the broker restarts while a static member is away; it comes back to its generation and its part."""
    broker = _started(make_broker)
    members = [Member(broker.address, "static", instance=name, session_ms=20_000) for name in "ab"]
    form(members[0])
    members[1].join()
    until("a rebalance", lambda: members[0].heartbeat() == REBALANCE)
    form_again(members)
    away = members[1]
    for member in members:
        member.close()
    broker.kill9()
    broker.start()
    stayed = _same(broker, members[0])
    assert _patient(lambda: stayed.heartbeat()) == 0
    back = Member(broker.address, "static", instance="b", session_ms=20_000)
    back.join().joined()
    assert (back.generation, stayed.heartbeat()) == (2, 0), "the restart of a static member disturbed the group"
    assert back.sync().synced()["assignment"] == away.assignment
    old = _same(broker, away)
    assert old.heartbeat() == FENCED


def test_sessions_run_out_after_a_restart_too(make_broker):
    """Members that do not come back hold their group for their session, not for ever."""
    broker = _started(make_broker)
    gone = [Member(broker.address, f"gone-{i}", session_ms=2000, rebalance_ms=1000) for i in range(5)]
    for member in gone:
        form(member)
        member.close()
    broker.kill9()
    broker.start()
    with broker.connect() as connection:
        began = time.monotonic()
        until("all groups are empty", lambda: all(state(connection, m.group) == "Empty" for m in gone), 8)
        assert time.monotonic() - began < 6
        answer = connection.call(42, 2, groups_names=[m.group for m in gone])
        assert {r["error_code"] for r in answer["results"]} == {0}, answer


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_deleted_groups_and_offsets_stay_deleted(how, make_broker):
    broker = _started(make_broker)
    with broker.connect() as connection:
        for number in range(20):
            assert commit_alone(connection, f"g-{number}", TOPIC, {0: 5, 1: 6}) == {0: 0, 1: 0}
        doomed = [f"g-{n}" for n in range(10)]
        assert {r["error_code"] for r in connection.call(42, 2, groups_names=doomed)["results"]} == {0}
        assert connection.call(47, 0, group_id="g-15", topics=[{"name": TOPIC, "partitions": [{"index": 0}]}])["error_code"] == 0
    _restart(broker, how)
    with broker.connect() as connection:
        _ready(connection)
        names = {g["group_id"] for g in connection.call(16, 4)["groups"]}
        assert names == {"ready", *(f"g-{n}" for n in range(10, 20))}
        assert committed(connection, "g-15", TOPIC, [0, 1]) == {0: -1, 1: 6}
        assert committed(connection, "g-0", TOPIC, [0, 1]) == {0: -1, 1: -1}


# --- a disk that fails (F04) ---------------------------------------------------

@needs_loop_disk
def test_no_commit_is_answered_with_ok_after_the_disk_failed(make_disk, make_broker):
    """No ok, an error soon, no silence; after the restart every answered commit is there, and groups work."""
    disk = make_disk(2048)
    broker = _started(make_broker, disk.data_dir)
    crowd = _crowd(broker.address)
    for committer in crowd:
        committer.start()
    time.sleep(2)
    disk.cut_power()
    cut_at = time.monotonic()
    time.sleep(budget(6, 30))
    late = [began for c in crowd for began, _ in c.acks_at if began > cut_at + 0.05]
    assert not late, f"{len(late)} commits sent after the disk failed got an ok, first {late[0] - cut_at:.2f} s after"
    assert all(len(c.acks_at) > 10 for c in crowd), f"hardly any commit before: {[len(c.acks_at) for c in crowd]}"
    if broker.running():
        _joins_get_no_ok(broker)
    for committer in crowd:
        committer.finish()
    if broker.running():
        assert any(c.errors for c in crowd), "no commit got an error"
        assert not sum(c.silences for c in crowd), "commits had no answer within 10 s"
    broker.kill9()
    disk.remount()
    broker.start()
    _verify(crowd, broker.address)
    with broker.connect() as connection:
        _ready(connection)
        assert commit_alone(connection, "alone-0", TOPIC, {0: 1 << 40}) == {0: 0}
        assert committed(connection, "alone-0", TOPIC, [0]) == {0: 1 << 40}


def _joins_get_no_ok(broker):
    """What a group decides is stored before it is told: on a failed disk no assignment is handed out."""
    try:
        with Member(broker.address, "after-the-failure", timeout=10, session_ms=3000) as member:
            if member.join().joined(None)["error_code"] == 0:
                code = member.sync({member.member_id: b"x"}).synced(None)["error_code"]
                assert code, "SyncGroup handed out an assignment on a failed disk"
    except (ValueError, Closed):
        pass  # refused already at the first step, or hung up


# --- many groups ---------------------------------------------------------------

@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_two_thousand_groups_are_loaded_soon(how, make_broker):
    groups = budget(2000, 20_000)
    broker = _started(make_broker)
    threads = [threading.Thread(target=_commit_each, args=(broker.address, range(lane, groups, 8))) for lane in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _restart(broker, how)
    began = time.monotonic()
    with broker.connect() as connection:
        listed = until("all groups are loaded", lambda: _names(connection), 30, pause=0.01)
        took = time.monotonic() - began
        assert len(listed) == groups + 1, f"{len(listed)} groups came back of {groups + 1}"
        for number in random.Random(SEED).sample(range(groups), 200):
            assert committed(connection, f"many-{number}", TOPIC, [number % PARTITIONS]) == {number % PARTITIONS: number}
    partitions = len(re.findall(r"loaded a partition of the offsets topic", broker.log_text()))
    assert partitions >= 40, f"only {partitions} partitions of the offsets topic say that they were loaded"
    print(f"{groups} groups in {partitions} partitions: listed {took:.2f} s after the start, which took {broker.ready_seconds:.2f} s")
    assert took < budget(LOAD_SECONDS_MAX, 10 * LOAD_SECONDS_MAX), f"{groups} groups took {took:.2f} s"


def _commit_each(address, numbers):
    with Connection(address, timeout=20) as connection:
        for number in numbers:
            codes = commit_alone(connection, f"many-{number}", TOPIC, {number % PARTITIONS: number})
            assert set(codes.values()) == {0}, codes


def _names(connection):
    """All group names, or None while some are not loaded."""
    answer = connection.call(16, 4)
    return None if answer["error_code"] else {g["group_id"] for g in answer["groups"]}
