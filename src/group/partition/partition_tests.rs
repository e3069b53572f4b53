use super::testing::*;
use super::*;
use crate::group::ask::Shown;
use crate::group::classic::State;
use millstream_io::units::TopicId;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[test]
fn commit_is_answered_and_seen_when_it_is_durable() {
    let (mut bench, at) = (Bench::new(), now(0));
    let mut reply = bench.commit("g", at, 1, 42);
    assert!(reply.try_take().is_none());
    assert_eq!(bench.fetch("g", at), []);
    bench.flush(at);
    assert_eq!(reply.try_take(), Some(Ok(ErrorCode::None)));
    let seen = bench.fetch("g", at);
    assert_eq!(seen[0].partitions, [(1, Shown::Committed(offset(42, at)))]);
    let again = Bench { groups: bench.reload(at), ..Bench::new() }.fetch("g", at);
    assert_eq!(again, seen, "and after a start");
}

#[test]
fn former_members_and_unknown_groups_commit_nothing() {
    let (mut bench, at) = (Bench::new(), now(0));
    let offsets = || vec![(name("t"), 0, offset(1, at))];
    let mut reply = bench.ask("none", at, |r| Ask::Commit(commit("m", 3, offsets()), r));
    assert_eq!(reply.try_take(), Some(Ok(ErrorCode::IllegalGeneration)));
    let (member, generation) = bench.stable("g", at);
    let attempts = [
        (commit(&member, generation - 1, offsets()), ErrorCode::IllegalGeneration),
        (commit("other", generation, offsets()), ErrorCode::UnknownMemberId),
        (commit("", -1, offsets()), ErrorCode::UnknownMemberId),
    ];
    for (attempt, due) in attempts {
        let mut reply = bench.ask("g", at, |reply| Ask::Commit(attempt, reply));
        assert_eq!(reply.try_take(), Some(Ok(due)));
    }
    assert!(bench.waiting.is_empty());
    let mut reply = bench.ask("g", at, |r| Ask::Commit(commit(&member, generation, offsets()), r));
    bench.flush(at);
    assert_eq!(reply.try_take(), Some(Ok(ErrorCode::None)));
}

#[test]
fn commit_too_large_for_a_batch_is_refused_whole() {
    let (mut bench, at) = (Bench::new(), now(0));
    let text: Box<str> = "x".repeat(4000).into();
    let one = |p| (name("t"), p, CommittedOffset { metadata: text.clone(), ..offset(1, at) });
    let offsets = (0..300).map(one).collect();
    let mut reply = bench.ask("g", at, |reply| Ask::Commit(commit("", -1, offsets), reply));
    assert_eq!(reply.try_take(), Some(Ok(ErrorCode::InvalidCommitOffsetSize)));
    assert!(bench.groups.is_empty(), "and leaves no group behind");
}

#[test]
fn only_a_group_without_members_is_deleted_and_then_nothing_is_left() {
    let (mut bench, at) = (Bench::new(), now(0));
    let mut reply = bench.ask("g", at, Ask::Delete);
    assert_eq!(reply.try_take(), Some(Ok(ErrorCode::GroupIdNotFound)));
    let (member, generation) = bench.stable("g", at);
    let offsets = (0..9000).map(|p| (name("t"), p, offset(1, at))).collect::<Vec<_>>();
    for part in offsets.chunks(1000) {
        let part = commit(&member, generation, part.to_vec());
        drop(bench.ask("g", at, |reply| Ask::Commit(part, reply)));
    }
    bench.flush(at);
    let mut reply = bench.ask("g", at, Ask::Delete);
    assert_eq!(reply.try_take(), Some(Ok(ErrorCode::NonEmptyGroup)));
    let later = now(60_000);
    let entries = bench.groups.tick(&Topics, later);
    bench.waiting.extend(entries);
    bench.flush(later);
    let mut reply = bench.ask("g", later, Ask::Delete);
    let parts = std::mem::take(&mut bench.waiting).remove(0).split(100_000);
    assert!(parts.len() > 1 && parts.iter().all(|part| part.bytes() <= 100_000));
    bench.waiting = parts;
    bench.flush(later);
    assert_eq!(reply.try_take(), Some(Ok(ErrorCode::None)));
    assert!(bench.groups.is_empty() && bench.reload(later).is_empty());
}

#[test]
fn stored_group_comes_back_with_its_members_and_their_shares() {
    let (mut bench, at) = (Bench::new(), now(0));
    let (member, generation) = bench.stable("g", at);
    let mut again = Bench { groups: bench.reload(at), ..Bench::new() };
    let mut described = again.ask("g", at, Ask::Describe);
    let described = described.try_take().unwrap().unwrap().unwrap();
    assert_eq!(described.state, State::Stable);
    assert_eq!(described.members[0].member_id, member);
    assert_eq!(described.members[0].assignment, b"all"[..]);
    let heartbeat = Heartbeat { member_id: member, instance_id: None, generation };
    let mut reply = again.ask("g", at, |reply| Ask::Heartbeat(heartbeat, reply));
    assert_eq!(reply.try_take(), Some(Ok(ErrorCode::None)));
    assert!(again.groups.next_deadline().is_some(), "its session runs again");
}

#[test]
fn offsets_expire_when_their_time_is_over_and_not_while_they_are_read() {
    let (mut bench, at) = (Bench::new(), now(0));
    drop(bench.commit("alone", at, 0, 1));
    let (member, generation) = bench.stable("read", at);
    let offsets = vec![(name("t"), 0, offset(5, at))];
    drop(bench.ask("read", at, |r| Ask::Commit(commit(&member, generation, offsets), r)));
    bench.flush(at);
    assert!(bench.groups.expire(1000, now(999)).is_empty());
    let entries = bench.groups.expire(1000, now(1000));
    bench.waiting.extend(entries);
    bench.flush(now(1000));
    assert_eq!((bench.fetch("alone", at).len(), bench.groups.len()), (0, 1));
    // Its subscription cannot be read, so nobody knows that it does not need the topic.
    assert_eq!(bench.fetch("read", at).len(), 1);
    let gone = now(30_000);
    let entries = bench.groups.tick(&Topics, gone);
    bench.waiting.extend(entries);
    bench.flush(gone);
    assert!(bench.groups.expire(1000, now(30_500)).is_empty(), "the time counts from the end");
    let entries = bench.groups.expire(1000, now(31_000));
    bench.waiting.extend(entries);
    bench.flush(now(31_000));
    assert!(bench.groups.is_empty() && bench.reload(gone).is_empty());
}

#[test]
fn offsets_die_with_their_topic_also_when_a_new_one_has_its_name() {
    let (mut bench, at) = (Bench::new(), now(0));
    drop(bench.commit("g", at, 0, 1));
    bench.flush(at);
    assert!(bench.groups.topics_gone(|topic, id| (topic, id) == ("t", TOPIC), at).is_empty());
    let other = TopicId::from_bytes([8; 16]);
    let entries = bench.groups.topics_gone(|topic, id| (topic, id) == ("t", other), at);
    bench.waiting.extend(entries);
    bench.flush(at);
    assert!(bench.groups.is_empty() && bench.reload(at).is_empty());
}

#[test]
fn everybody_is_answered_when_the_partition_is_lost() {
    let (mut bench, at) = (Bench::new(), now(0));
    let mut committed = bench.commit("g", at, 0, 1);
    let (mut deleted, _) = {
        drop(bench.commit("h", at, 0, 1));
        bench.flush(at);
        (bench.ask("h", at, Ask::Delete), ())
    };
    assert_eq!(committed.try_take(), Some(Ok(ErrorCode::None)), "that one was durable");
    let mut committed = bench.commit("g", at, 0, 2);
    let entries = std::mem::take(&mut bench.waiting);
    bench.groups.abandon(entries, ErrorCode::NotCoordinator);
    assert_eq!(committed.try_take(), Some(Ok(ErrorCode::NotCoordinator)));
    assert_eq!(deleted.try_take(), Some(Ok(ErrorCode::NotCoordinator)));
    assert!(bench.groups.is_empty());
}

#[test]
fn member_of_the_consumer_protocol_is_answered_when_its_share_is_durable() {
    let (mut bench, at) = (Bench::new(), now(0));
    let mut early = bench.ask("g", at, |reply| Ask::ConsumerHeartbeat(beat("m", 3), reply));
    let refused = early.try_take().unwrap().unwrap().unwrap_err();
    assert_eq!(refused.code, ErrorCode::GroupIdNotFound);
    let mut joined = bench.ask("g", at, |reply| Ask::ConsumerHeartbeat(beat("m", 0), reply));
    assert!(joined.try_take().is_none());
    bench.flush(at);
    let answer = joined.try_take().unwrap().unwrap().unwrap();
    assert_eq!(answer.assignment.map(|all| all.len()), Some(8));
    let epoch = answer.member_epoch.get();
    let offsets =
        |epoch| Commit { version: 9, ..commit("m", epoch, vec![(name("t"), 2, offset(4, at))]) };
    let mut stale = bench.ask("g", at, |r| Ask::Commit(offsets(epoch + 1), r));
    assert_eq!(stale.try_take(), Some(Ok(ErrorCode::StaleMemberEpoch)));
    let mut taken = bench.ask("g", at, |r| Ask::Commit(offsets(epoch), r));
    bench.flush(at);
    assert_eq!(taken.try_take(), Some(Ok(ErrorCode::None)));
    // After a start the group, its member and its offset are as they were.
    let mut again = Bench { groups: bench.reload(at), ..Bench::new() };
    let mut described = again.ask("g", at, Ask::ConsumerDescribe);
    let described = described.try_take().unwrap().unwrap().unwrap();
    assert_eq!((described.state.name(), described.members.len()), ("Stable", 1));
    assert_eq!(again.fetch("g", at)[0].partitions, [(2, Shown::Committed(offset(4, at)))]);
    assert_eq!(again.groups.list()[0].kind.name(), "consumer");
}

#[test]
fn group_whose_members_cannot_be_read_changes_its_protocol_only_while_it_is_empty() {
    let (mut bench, at) = (Bench::new(), now(0));
    let (member, _) = bench.stable("g", at);
    let mut refused = bench.ask("g", at, |reply| Ask::ConsumerHeartbeat(beat("m", 0), reply));
    let refused = refused.try_take().unwrap().unwrap().unwrap_err();
    assert_eq!(refused.code, ErrorCode::GroupIdNotFound);
    let leaving = vec![Leaving { member_id: member, instance_id: None }];
    drop(bench.ask("g", at, |waiter| Ask::Leave(leaving, waiter)));
    bench.flush(at);
    let mut joined = bench.ask("g", at, |reply| Ask::ConsumerHeartbeat(beat("m", 0), reply));
    bench.flush(at);
    let epoch = joined.try_take().unwrap().unwrap().unwrap().member_epoch.get();
    assert_eq!(bench.reload(at).list()[0].kind.name(), "consumer");
    let join = |waiter| Ask::Join(bench_join(name("")), waiter);
    let mut refused = bench.ask("g", at, join);
    let Some(Ok(Answer::Join(answer))) = refused.try_take() else { panic!("no answer") };
    assert_eq!(answer.error, ErrorCode::UnknownServerError);
    assert!(epoch > 0);
    drop(bench.ask("g", at, |reply| Ask::ConsumerHeartbeat(beat("m", -1), reply)));
    bench.flush(at);
    bench.stable("g", at);
    assert_eq!(bench.reload(at).list()[0].kind.name(), "classic");
    let mut deleted = bench.ask("g", at, Ask::Delete);
    assert_eq!(deleted.try_take(), Some(Ok(ErrorCode::NonEmptyGroup)));
}

#[test]
fn heartbeat_that_is_refused_neither_makes_nor_changes_a_group() {
    let (mut bench, at) = (Bench::new(), now(0));
    let refused = |bench: &mut Bench, beat| {
        let mut answer = bench.ask("g", at, |reply| Ask::ConsumerHeartbeat(beat, reply));
        answer.try_take().unwrap().unwrap().unwrap_err().code
    };
    let unsupported = || reader("m", 0).assignor("none").sent();
    assert_eq!(refused(&mut bench, unsupported()), ErrorCode::UnsupportedAssignor);
    assert!(bench.groups.is_empty());
    assert_eq!(refused(&mut bench, beat("m", -3)), ErrorCode::InvalidRequest);
    assert_eq!(refused(&mut bench, beat("m", -2)), ErrorCode::InvalidRequest);
    assert_eq!(refused(&mut bench, beat("m", -1)), ErrorCode::GroupIdNotFound);
    let (member, generation) = bench.stable("g", at);
    assert_eq!(refused(&mut bench, unsupported()), ErrorCode::UnsupportedAssignor);
    let leaving = vec![Leaving { member_id: member, instance_id: None }];
    drop(bench.ask("g", at, |waiter| Ask::Leave(leaving, waiter)));
    bench.flush(at);
    assert_eq!(refused(&mut bench, unsupported()), ErrorCode::UnsupportedAssignor);
    assert_eq!(bench.groups.list()[0].kind.name(), "classic");
    assert!(bench.stable("g", at).1 > generation);
}

#[test]
fn few_records_say_what_many_said() {
    let (mut bench, at) = (Bench::new(), now(0));
    let (member, generation) = bench.stable("classic", at);
    for n in 0..50 {
        drop(bench.commit("alone", at, 0, n));
        let offsets = vec![(name("t"), 1, offset(n, at))];
        drop(bench.ask("classic", at, |r| Ask::Commit(commit(&member, generation, offsets), r)));
        bench.flush(at);
    }
    let mut joined = bench.ask("g", at, |reply| Ask::ConsumerHeartbeat(beat("m", 0), reply));
    bench.flush(at);
    assert!(joined.try_take().is_some());
    drop(bench.commit("gone", at, 0, 1));
    bench.flush(at);
    drop(bench.ask("gone", at, Ask::Delete));
    bench.flush(at);
    let shown = |groups: GroupPartition| {
        let mut bench = Bench { groups, ..Bench::new() };
        let offsets: Vec<_> = ["alone", "classic", "g", "gone"]
            .map(|group| bench.fetch(group, at))
            .into_iter()
            .collect();
        let mut described = bench.ask("classic", at, Ask::Describe);
        let mut consumer = bench.ask("g", at, Ask::ConsumerDescribe);
        let mut listed = bench.groups.list();
        listed.sort_by(|a, b| a.group.cmp(&b.group));
        (offsets, described.try_take(), consumer.try_take(), listed)
    };
    let before: usize = bench.log.iter().map(|batch| batch.records.len()).sum();
    let long = shown(bench.reload(at));
    bench.compact(None);
    let after: usize = bench.log.iter().map(|batch| batch.records.len()).sum();
    assert!(after < 10 && before > 100, "{after} of {before}");
    assert_eq!(shown(bench.reload(at)), long);
}

#[derive(Clone, Debug)]
enum Step {
    Commit(u8, i32, i64),
    DeleteOffset(u8, i32),
    Delete(u8),
    Flush,
    Compact,
    Reload,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..3u8, 0..3i32, 0..100i64).prop_map(|(g, p, o)| Step::Commit(g, p, o)),
        2 => (0..3u8, 0..3i32).prop_map(|(g, p)| Step::DeleteOffset(g, p)),
        1 => (0..3u8).prop_map(Step::Delete),
        4 => Just(Step::Flush),
        1 => Just(Step::Compact),
        1 => Just(Step::Reload),
    ];
    prop::collection::vec(step, 1..80)
}

proptest! {
    /// Goal: what was answered with success is what a fetch shows, then and after any restart.
    /// Method: a map of what was answered; a restart loses what waits, and its askers know nothing.
    #[test]
    fn walk_shows_what_was_answered(steps in steps()) {
        let (mut bench, at) = (Bench::new(), now(0));
        let mut model: BTreeMap<(u8, i32), i64> = BTreeMap::new();
        for step in steps {
            match step {
                // Each answer is awaited here, so the model need not order what is on its way.
                Step::Commit(g, p, o) => {
                    let mut reply = bench.commit(&g.to_string(), at, p, o);
                    bench.flush(at);
                    prop_assert_eq!(reply.try_take(), Some(Ok(ErrorCode::None)));
                    model.insert((g, p), o);
                }
                Step::DeleteOffset(g, p) => {
                    let wanted = vec![(name("t"), p)];
                    let mut reply =
                        bench.ask(&g.to_string(), at, |r| Ask::DeleteOffsets(wanted, r));
                    bench.flush(at);
                    let known = model.keys().any(|(group, _)| *group == g);
                    let answer = reply.try_take().unwrap().unwrap();
                    if let Ok(answers) = answer {
                        prop_assert_eq!(answers, [ErrorCode::None]);
                        model.remove(&(g, p));
                    } else {
                        prop_assert!(!known);
                    }
                }
                Step::Delete(g) => {
                    let mut reply = bench.ask(&g.to_string(), at, Ask::Delete);
                    bench.flush(at);
                    if reply.try_take() == Some(Ok(ErrorCode::None)) {
                        model.retain(|(group, _), _| *group != g);
                    } else {
                        prop_assert!(!model.keys().any(|(group, _)| *group == g));
                    }
                }
                Step::Flush => bench.flush(at),
                Step::Compact => bench.compact(None),
                Step::Reload => {
                    // On its way, and lost with the power: nobody was told of it.
                    drop(bench.commit("0", at, 2, 999));
                    bench.waiting.clear();
                    bench.groups = bench.reload(at);
                }
            }
            for g in 0..3u8 {
                let shown: BTreeMap<i32, i64> = bench
                    .fetch(&g.to_string(), at)
                    .into_iter()
                    .flat_map(|topic| topic.partitions)
                    .filter_map(|(p, shown)| match shown {
                        Shown::Committed(committed) => Some((p, committed.offset)),
                        Shown::Nothing | Shown::Unstable => None,
                    })
                    .collect();
                let due: BTreeMap<i32, i64> = model
                    .iter()
                    .filter(|((group, _), _)| *group == g)
                    .map(|((_, p), o)| (*p, *o))
                    .collect();
                prop_assert_eq!(shown, due);
            }
        }
    }
}
