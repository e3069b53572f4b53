use super::testing::{Bench, Topics, beat, commit, name, now, offset};
use super::*;
use crate::config::MigrationPolicy;
use crate::group::ask::{GroupKind, Shown};
use crate::group::classic::{Description, JoinRules, Protocol, State};
use crate::wire::messages::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions, encode_prefixed,
};
use bytes::Bytes;
use millstream_io::runtime::Reply;

fn join(id: &str) -> JoinRequest {
    let wanted = ConsumerProtocolSubscription { topics: vec!["t"], ..Default::default() };
    let metadata = Bytes::from(encode_prefixed(&wanted, 1).unwrap());
    JoinRequest {
        member_id: name(id),
        instance_id: None,
        client_id: name("client"),
        client_host: name("/127.0.0.1"),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 10_000,
        protocol_type: name("consumer"),
        protocols: vec![Protocol { name: name("range"), metadata }],
        new_member_uuid: name("uuid"),
        rules: JoinRules::of_version(3),
    }
}

fn all_of_it() -> Bytes {
    let topics = vec![TopicPartitions { topic: "t", partitions: (0..8).collect() }];
    let value = ConsumerProtocolAssignment { assigned_partitions: topics, user_data: None };
    encode_prefixed(&value, 1).unwrap().into()
}

fn sync(member: &Name, generation: i32) -> SyncRequest {
    SyncRequest {
        member_id: member.clone(),
        instance_id: None,
        generation,
        protocol_type: None,
        protocol: None,
        assignments: vec![(member.clone(), all_of_it())],
    }
}

impl Bench {
    /// A member of a classic group, with its answer.
    fn joins(&mut self, id: &str, at: Now) -> JoinAnswer {
        let mut reply = self.ask("g", at, |waiter| Ask::Join(join(id), waiter));
        self.flush(at);
        let Some(Ok(Answer::Join(answer))) = reply.try_take() else { panic!("no answer") };
        answer
    }

    fn syncs(&mut self, member: &Name, generation: i32, at: Now) -> SyncAnswer {
        let sync = sync(member, generation);
        let mut reply = self.ask("g", at, |waiter| Ask::Sync(sync, waiter));
        self.flush(at);
        let Some(Ok(Answer::Sync(answer))) = reply.try_take() else { panic!("no answer") };
        answer
    }

    /// A stable classic group of one consumer.
    fn classic(&mut self, at: Now) -> (Name, i32) {
        let joined = self.joins("", at);
        let synced = self.syncs(&joined.member_id, joined.generation, at);
        assert_eq!((joined.error, synced.error), (ErrorCode::None, ErrorCode::None));
        (joined.member_id, joined.generation)
    }

    fn beats(&mut self, member: &str, epoch: i32, at: Now) -> Result<i32, ErrorCode> {
        let mut reply =
            self.ask("g", at, |reply| Ask::ConsumerHeartbeat(beat(member, epoch), reply));
        self.flush(at);
        let answer = reply.try_take().unwrap().unwrap();
        answer.map(|answer| answer.member_epoch.get()).map_err(|refusal| refusal.code)
    }

    fn heartbeat(&mut self, member: &Name, generation: i32, at: Now) -> ErrorCode {
        let beat = Heartbeat { member_id: member.clone(), instance_id: None, generation };
        let mut reply = self.ask("g", at, |reply| Ask::Heartbeat(beat, reply));
        reply.try_take().unwrap().unwrap()
    }

    fn kind(&self) -> GroupKind {
        self.groups.list()[0].kind
    }

    fn described(&mut self, at: Now) -> Option<Description> {
        self.ask("g", at, Ask::Describe).try_take().unwrap().unwrap()
    }
}

#[test]
fn group_goes_to_the_new_protocol_and_back_with_its_members_through_a_restart_at_each_step() {
    let (mut bench, at) = (Bench::new(), now(0));
    let (old, generation) = bench.classic(at);
    bench.restart(at);
    let epoch = bench.beats("new", 0, at).unwrap();
    assert_eq!((epoch, bench.kind()), (generation + 1, GroupKind::Consumer));
    bench.restart(at);
    assert_eq!(bench.kind(), GroupKind::Consumer);
    assert_eq!(bench.described(at), None);
    assert_eq!(bench.heartbeat(&old, generation, at), ErrorCode::RebalanceInProgress);
    let joined = bench.joins(&old, at);
    assert_eq!((joined.error, joined.generation), (ErrorCode::None, epoch));
    bench.restart(at);
    let synced = bench.syncs(&old, epoch, at);
    assert_eq!(synced.error, ErrorCode::None);
    assert!(synced.assignment.len() < all_of_it().len(), "the others are for the new one");
    bench.restart(at);
    let offsets = |generation| commit(&old, generation, vec![(name("t"), 0, offset(7, at))]);
    let mut stale = bench.ask("g", at, |reply| Ask::Commit(offsets(generation), reply));
    assert_eq!(stale.try_take(), Some(Ok(ErrorCode::IllegalGeneration)));
    let mut taken = bench.ask("g", at, |reply| Ask::Commit(offsets(epoch), reply));
    bench.flush(at);
    assert_eq!(taken.try_take(), Some(Ok(ErrorCode::None)));

    assert_eq!(bench.beats("new", -1, at), Ok(-1));
    for _ in 0..2 {
        assert_eq!(bench.kind(), GroupKind::Classic);
        let described = bench.described(at).unwrap();
        assert_eq!((described.state, described.members.len()), (State::PreparingRebalance, 1));
        assert_eq!(described.members[0].assignment, synced.assignment);
        assert_eq!(bench.heartbeat(&old, epoch, at), ErrorCode::RebalanceInProgress);
        bench.restart(at);
    }
    let joined = bench.joins(&old, at);
    assert_eq!((joined.generation, &joined.leader), (epoch + 1, &old));
    assert_eq!(bench.syncs(&old, epoch + 1, at).assignment, all_of_it());
    assert_eq!(bench.described(at).unwrap().state, State::Stable);
    let state = bench.ask("g", at, Ask::Describe).try_take();
    bench.restart(at);
    assert_eq!(bench.ask("g", at, Ask::Describe).try_take(), state);
    assert_eq!(bench.fetch("g", at)[0].partitions, [(0, Shown::Committed(offset(7, at)))]);
}

/// A batch is durable as a whole or not at all; so must be what it says.
#[test]
fn change_of_the_protocol_is_one_batch_and_nobody_is_answered_before_it_is_durable() {
    let (mut bench, at) = (Bench::new(), now(0));
    let (old, _) = bench.classic(at);
    let mut joined = bench.ask("g", at, |r| Ask::ConsumerHeartbeat(beat("new", 0), r));
    assert_eq!(bench.waiting.len(), 1);
    assert!(joined.try_take().is_none());
    bench.flush(at);
    assert!(joined.try_take().unwrap().unwrap().is_ok());
    let mut left = bench.ask("g", at, |r| Ask::ConsumerHeartbeat(beat("new", -1), r));
    assert_eq!(bench.waiting.len(), 1);
    assert!(left.try_take().is_none());
    let before = bench.reload(at);
    assert_eq!(before.list()[0].kind, GroupKind::Consumer);
    bench.flush(at);
    assert_eq!(bench.reload(at).list()[0].kind, GroupKind::Classic);
    assert!(bench.joins(&old, at).error == ErrorCode::None);
}

#[test]
fn who_waits_in_a_classic_group_that_changes_is_told_to_join_again() {
    let (mut bench, at) = (Bench::new(), now(0));
    let (old, generation) = bench.classic(at);
    let other = JoinRequest { new_member_uuid: name("other"), ..join("") };
    let mut waiting: Reply<Answer> = bench.ask("g", at, |waiter| Ask::Join(other, waiter));
    assert!(waiting.try_take().is_none());
    assert!(bench.beats("new", 0, at).is_ok());
    let Some(Ok(Answer::Join(answer))) = waiting.try_take() else { panic!("no answer") };
    assert_eq!(answer.error, ErrorCode::RebalanceInProgress);
    let again = bench.joins(&answer.member_id, at);
    assert_eq!((again.error, again.generation), (ErrorCode::None, generation + 1));
    assert_eq!(bench.heartbeat(&old, generation, at), ErrorCode::RebalanceInProgress);
}

#[test]
fn record_of_a_group_of_before_moves_nothing_in_the_group_of_now() {
    let (mut bench, at) = (Bench::new(), now(0));
    let joined = bench.joins("", at);
    let assigned = sync(&joined.member_id, joined.generation);
    // Its record waits; the group goes there and back before it is durable.
    let mut synced = bench.ask("g", at, |waiter| Ask::Sync(assigned, waiter));
    drop(bench.ask("g", at, |r| Ask::ConsumerHeartbeat(beat("new", 0), r)));
    drop(bench.ask("g", at, |r| Ask::ConsumerHeartbeat(beat("new", -1), r)));
    let Some(Ok(Answer::Sync(answer))) = synced.try_take() else { panic!("no answer") };
    assert_eq!(answer.error, ErrorCode::RebalanceInProgress);
    let state = |bench: &mut Bench| bench.described(at).unwrap().state;
    assert_eq!(state(&mut bench), State::PreparingRebalance);
    bench.flush(at);
    assert_eq!(state(&mut bench), State::PreparingRebalance);
    assert_eq!(bench.joins(&joined.member_id, at).error, ErrorCode::None);
}

#[test]
fn group_stays_classic_where_the_policy_or_its_size_forbid_and_its_members_notice_nothing() {
    let (mut bench, at) = (Bench::new(), now(0));
    let (old, generation) = bench.classic(at);
    let log = bench.log.clone();
    bench.groups.settings.consumer.migration = MigrationPolicy::Downgrade;
    assert_eq!(bench.beats("new", 0, at), Err(ErrorCode::GroupIdNotFound));
    bench.groups.settings.consumer.migration = MigrationPolicy::Upgrade;
    bench.groups.append_bytes_max = 70_000;
    assert!(bench.beats("new", 3, at).is_err());
    bench.groups.append_bytes_max = 100;
    assert_eq!(bench.beats("new", 0, at), Err(ErrorCode::GroupIdNotFound));
    assert_eq!(bench.heartbeat(&old, generation, at), ErrorCode::None);
    assert_eq!(bench.log, log);
    bench.groups.append_bytes_max = 1 << 20;
    assert!(bench.beats("new", 0, at).is_ok());
    // Back again it may not: it goes on as it is.
    assert_eq!(bench.beats("new", -1, at), Ok(-1));
    assert_eq!(bench.kind(), GroupKind::Consumer);
    let joined = bench.joins(&old, at);
    assert_eq!(bench.syncs(&old, joined.generation, at).assignment, all_of_it());
}

#[test]
fn group_too_large_for_a_batch_goes_on_as_one_of_the_new_protocol() {
    let (mut bench, at) = (Bench::new(), now(0));
    let (old, _) = bench.classic(at);
    assert!(bench.beats("new", 0, at).is_ok());
    bench.groups.append_bytes_max = 100;
    assert_eq!(bench.beats("new", -1, at), Ok(-1));
    assert_eq!(bench.kind(), GroupKind::Consumer);
    let joined = bench.joins(&old, at);
    assert_eq!(bench.syncs(&old, joined.generation, at).assignment, all_of_it());
    assert_eq!(bench.reload(at).list()[0].kind, GroupKind::Consumer);
}

#[test]
fn session_of_the_last_member_of_the_new_protocol_ends_and_the_group_is_classic() {
    let (mut bench, at) = (Bench::new(), now(0));
    let (old, _) = bench.classic(at);
    let epoch = bench.beats("new", 0, at).unwrap();
    bench.joins(&old, at);
    bench.syncs(&old, epoch, at);
    for second in 1..=45 {
        let at = now(second * 1_000);
        bench.heartbeat(&old, epoch, at);
        let entries = bench.groups.tick(&Topics, at);
        bench.waiting.extend(entries);
        bench.flush(at);
    }
    assert_eq!(bench.kind(), GroupKind::Classic);
    let at = now(46_000);
    assert_eq!(bench.heartbeat(&old, epoch, at), ErrorCode::RebalanceInProgress);
    assert_eq!(bench.reload(at).list()[0].state, "PreparingRebalance");
}
