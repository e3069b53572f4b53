"""F13: committed offsets live as long as their group does, whatever the clock of day does."""

import time

from bench import topic_made, until
from rawgroups import Member, commit_alone, committed, form, state, subscription, wait_for_groups
from rawkafka import Connection
from wrong_clock import WrongClock

MINUTE, DAY = 60, 86_400
RETENTION = 2 * MINUTE
SETTINGS = {"offsets.retention.minutes": "2", "offsets.retention.check.interval.ms": "1000",
            "group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "100"}
TWO_CHECKS = 2.5
KEPT, GONE = 7, -1


def member_of(broker, group, *topics, session_ms=30_000):
    return Member(broker.address, group, protocols=[("range", subscription(*topics))], session_ms=session_ms)


def live(broker, group, *topics):
    """A group with one member that committed to each of the topics."""
    member = member_of(broker, group, *topics)
    form(member)
    for topic in topics:
        assert member.commit(topic, {0: KEPT}) == {0: 0}
    return member


def leave_empty(broker, group, topic):
    """A group that had a member, who committed and left."""
    with live(broker, group, topic) as member:
        assert member.leave() == 0


def step(clock, seconds, *members):
    """Steps the clock and lets two checks pass, with heartbeats."""
    clock.set(seconds)
    end = time.monotonic() + TWO_CHECKS
    while time.monotonic() < end:
        for member in members:
            assert member.heartbeat() == 0, f"{member.group} lost its member with the clock at {seconds} s"
        time.sleep(0.25)


def offset(broker, group, topic="first"):
    with Connection(broker.address) as connection:
        return committed(connection, group, topic, [0])[0]


def made(make_broker, work_dir):
    clock = WrongClock(work_dir)
    broker = make_broker(settings=SETTINGS, wrapper=clock.wrapper)
    with Connection(broker.address) as connection:
        topic_made(connection, "first")
        topic_made(connection, "second")
        wait_for_groups(connection, "first")
    return broker, clock


def test_offsets_of_a_living_group_stay_whatever_the_clock_does(make_broker, work_dir):
    broker, clock = made(make_broker, work_dir)
    with live(broker, "living", "first") as member:
        for ahead in (RETENTION + MINUTE, 8 * DAY, -8 * DAY, 0):
            step(clock, ahead, member)
            assert offset(broker, "living") == KEPT, f"clock at {ahead} s"
        assert member.commit("first", {0: KEPT + 1}) == {0: 0}
        assert offset(broker, "living") == KEPT + 1


def test_time_without_members_counts_and_nothing_else(make_broker, work_dir):
    broker, clock = made(make_broker, work_dir)
    leave_empty(broker, "left", "first")
    leave_empty(broker, "back", "first")
    with Connection(broker.address) as connection:
        for group in ("alone", "alone-again"):
            assert commit_alone(connection, group, "first", {0: KEPT}) == {0: 0}
        step(clock, MINUTE)
        assert [offset(broker, group) for group in ("left", "back", "alone")] == [KEPT] * 3
        # A member comes back and a lone consumer commits: their time begins anew.
        with member_of(broker, "back", "first") as member:
            form(member)
            assert commit_alone(connection, "alone-again", "first", {0: KEPT}) == {0: 0}
            step(clock, RETENTION + MINUTE // 2, member)
            assert [offset(broker, group) for group in ("back", "alone-again")] == [KEPT] * 2
            assert [offset(broker, group) for group in ("left", "alone")] == [GONE] * 2
            assert state(connection, "left") == "Dead", "a group that lost its last offset goes too"
            step(clock, RETENTION + 2 * MINUTE, member)
            assert (offset(broker, "back"), offset(broker, "alone-again")) == (KEPT, GONE)


def test_topic_that_nobody_subscribes_any_more_expires_alone(make_broker, work_dir):
    broker, clock = made(make_broker, work_dir)
    with live(broker, "turning", "first", "second") as member:
        member.protocols = [("range", subscription("first"))]
        form(member)
        step(clock, RETENTION + MINUTE // 2, member)
        assert (offset(broker, "turning", "first"), offset(broker, "turning", "second")) == (KEPT, GONE)


def test_restart_neither_resets_nor_stops_the_countdown(make_broker, work_dir):
    broker, clock = made(make_broker, work_dir)
    leave_empty(broker, "left", "first")
    step(clock, MINUTE)
    broker.kill9()
    clock.set(MINUTE + MINUTE // 2)
    broker.start()
    step(clock, MINUTE + MINUTE // 2)
    assert offset(broker, "left") == KEPT
    step(clock, RETENTION + MINUTE // 2)
    assert offset(broker, "left") == GONE


def test_sessions_run_on_after_the_clock_went_back(make_broker, work_dir):
    broker, clock = made(make_broker, work_dir)
    with member_of(broker, "silent", "first", session_ms=1500) as member, Connection(broker.address) as connection:
        form(member)
        step(clock, 8 * DAY, member)
        step(clock, -8 * DAY, member)
        until("the silent member is gone", lambda: state(connection, "silent") == "Empty", timeout=6)
        # What is stored now expires by the clock as it is now.
        assert commit_alone(connection, "late", "first", {0: KEPT}) == {0: 0}
        step(clock, -8 * DAY + RETENTION + MINUTE // 2)
        assert offset(broker, "late") == GONE
