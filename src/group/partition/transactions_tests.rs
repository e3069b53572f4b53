use super::testing::*;
use super::*;
use crate::group::ask::{FetchedBy, Guard, Shown, Verification};
use crate::group::classic::Leaving;
use millstream_io::runtime::Reply;
use millstream_io::units::{ProducerEpoch, TopicId};
use millstream_shards::message::AppendError;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

fn transaction(producer: i64, epoch: i16) -> InTransaction {
    InTransaction {
        producer: ProducerId::new(producer).unwrap(),
        epoch: ProducerEpoch::new(epoch).unwrap(),
    }
}

type Ended = Reply<Result<(), EndError>>;

impl Bench {
    fn verify(&mut self, of: InTransaction, at: Now) -> Option<Guard> {
        // It is no group's question: any will do to ask it by.
        let mut reply = self.ask("any", at, |reply| Ask::Verify(of, reply));
        match reply.try_take().unwrap().unwrap().unwrap() {
            Verification::Open => None,
            Verification::Needed(guard) => Some(guard),
        }
    }

    /// A commit in a transaction whose coordinator knows of it.
    fn commits_in(
        &mut self,
        of: InTransaction,
        (group, partition): (&str, i32),
        value: i64,
        at: Now,
    ) -> Reply<ErrorCode> {
        let guard = self.verify(of, at);
        let commit = Commit {
            transaction: Some(of),
            guard,
            ..commit("", -1, vec![(name("t"), partition, offset(value, at))])
        };
        self.ask(group, at, |reply| Ask::Commit(commit, reply))
    }

    fn ends(&mut self, of: InTransaction, outcome: TransactionOutcome) -> Ended {
        let InTransaction { producer, epoch } = of;
        let ending =
            Ending { producer, epoch, outcome, coordinator_epoch: 1, transaction_version: 1 };
        let (promise, reply) = millstream_io::runtime::oneshot();
        let entry = self.groups.end_transaction(ending, promise);
        self.waiting.push(entry);
        reply
    }

    /// What is shown of a partition; `None` while the group ends.
    fn shown(&mut self, group: &str, partition: i32, stable: bool, at: Now) -> Option<Shown> {
        let by = FetchedBy { member_id: None, epoch: -1, require_stable: stable };
        let wanted = Some(vec![(name("t"), vec![partition])]);
        let mut reply = self.ask(group, at, |reply| Ask::Offsets(wanted, by, reply));
        let topics = reply.try_take().unwrap().unwrap().ok()?;
        Some(topics[0].partitions[0].1.clone())
    }

    fn value(&mut self, group: &str, partition: i32, at: Now) -> Option<i64> {
        match self.shown(group, partition, false, at)? {
            Shown::Committed(committed) => Some(committed.offset),
            Shown::Nothing => None,
            Shown::Unstable => panic!("nobody asked for stable offsets"),
        }
    }
}

const COMMIT: TransactionOutcome = TransactionOutcome::Commit;
const ABORT: TransactionOutcome = TransactionOutcome::Abort;

/// Goal: offsets of a transaction count from its durable marker on, and not before (KIP-98); who
/// wants stable ones is told so meanwhile (KIP-447). Method: a restart after each step changes
/// nothing.
#[test]
fn offsets_of_a_transaction_count_when_its_marker_is_durable() {
    let (mut bench, at, of) = (Bench::new(), now(0), transaction(7, 0));
    drop(bench.commit("g", at, 0, 1));
    bench.flush(at);
    for outcome in [ABORT, COMMIT] {
        let mut reply = bench.commits_in(of, ("g", 0), 5, at);
        assert!(reply.try_take().is_none());
        assert_eq!(bench.shown("g", 0, true, at), Some(Shown::Unstable), "it is on its way");
        bench.flush(at);
        assert_eq!(reply.try_take(), Some(Ok(ErrorCode::None)));
        for _ in 0..2 {
            assert_eq!(bench.value("g", 0, at), Some(1));
            assert_eq!(bench.shown("g", 0, true, at), Some(Shown::Unstable));
            assert_eq!(bench.shown("g", 1, true, at), Some(Shown::Nothing));
            bench.restart(at);
        }
        let mut ended = bench.ends(of, outcome);
        assert_eq!(bench.shown("g", 0, true, at), Some(Shown::Unstable), "the marker may be lost");
        assert!(ended.try_take().is_none());
        bench.flush(at);
        assert_eq!(ended.try_take(), Some(Ok(Ok(()))));
        let due = if outcome == COMMIT { 5 } else { 1 };
        for _ in 0..2 {
            assert_eq!(bench.value("g", 0, at), Some(due));
            assert_eq!(bench.shown("g", 0, true, at), Some(Shown::Committed(offset(due, at))));
            bench.restart(at);
        }
    }
}

#[test]
fn of_all_commits_the_one_that_stands_last_in_the_log_counts() {
    let (mut bench, at) = (Bench::new(), now(0));
    let (early, late) = (transaction(1, 0), transaction(2, 0));
    drop(bench.commits_in(early, ("g", 0), 10, at));
    drop(bench.commits_in(early, ("g", 1), 11, at));
    bench.flush(at);
    drop(bench.commits_in(late, ("g", 1), 21, at));
    drop(bench.commit("g", at, 0, 30));
    bench.flush(at);
    drop(bench.ends(late, COMMIT));
    drop(bench.ends(early, COMMIT));
    bench.flush(at);
    for _ in 0..2 {
        assert_eq!((bench.value("g", 0, at), bench.value("g", 1, at)), (Some(30), Some(21)));
        bench.restart(at);
    }
}

#[test]
fn group_that_only_an_aborted_transaction_made_is_gone_and_an_open_one_keeps_it() {
    let (mut bench, at, of) = (Bench::new(), now(0), transaction(1, 0));
    drop(bench.commits_in(of, ("new", 0), 10, at));
    drop(bench.commit("new", at, 1, 1));
    bench.flush(at);
    let later = now(1_000_000);
    let over = bench.groups.expire(1_000, later);
    bench.waiting.extend(over);
    bench.flush(later);
    assert_eq!(bench.value("new", 1, later), None);
    assert_eq!(bench.groups.len(), 1, "its transaction is open");
    assert!(bench.groups.expire(1_000, later).is_empty());
    drop(bench.ends(of, ABORT));
    bench.flush(later);
    assert!(bench.groups.is_empty() && bench.reload(later).is_empty());
}

#[test]
fn offset_that_a_transaction_may_replace_does_not_expire() {
    let (mut bench, at, of) = (Bench::new(), now(0), transaction(1, 0));
    drop(bench.commit("g", at, 0, 1));
    drop(bench.commit("g", at, 1, 1));
    bench.flush(at);
    drop(bench.commits_in(of, ("g", 0), 10, at));
    // Neither does one that is being replaced right now.
    drop(bench.commit("g", now(1_000_000), 1, 2));
    assert!(bench.groups.expire(1_000, now(1_000_000)).is_empty());
    bench.flush(now(1_000_000));
    assert!(bench.groups.expire(1_000, now(1_000_000)).is_empty());
    assert_eq!(bench.value("g", 0, at), Some(1));
    assert_eq!(bench.value("g", 1, at), Some(2));
}

#[test]
fn pending_offsets_are_deleted_with_the_others() {
    let (mut bench, at, of) = (Bench::new(), now(0), transaction(1, 0));
    drop(bench.commits_in(of, ("g", 0), 10, at));
    drop(bench.commits_in(of, ("g", 1), 11, at));
    bench.flush(at);
    let wanted = vec![(name("t"), 0)];
    let mut reply = bench.ask("g", at, |reply| Ask::DeleteOffsets(wanted, reply));
    bench.flush(at);
    assert_eq!(reply.try_take(), Some(Ok(Ok(vec![ErrorCode::None]))));
    assert_eq!(bench.shown("g", 0, true, at), Some(Shown::Nothing));
    assert_eq!(bench.shown("g", 1, true, at), Some(Shown::Unstable));
    // The topic goes, and another of its name comes.
    let other = TopicId::from_bytes([8; 16]);
    let gone = bench.groups.topics_gone(|topic, id| (topic, id) == ("t", other), at);
    bench.waiting.extend(gone);
    drop(bench.ends(of, COMMIT));
    bench.flush(at);
    for _ in 0..2 {
        assert_eq!((bench.value("g", 0, at), bench.value("g", 1, at)), (None, None));
        bench.restart(at);
    }
}

/// A commit on its way to the log when its group is deleted stands before the tombstones there, and
/// must not come back with a restart.
#[test]
fn deleted_group_takes_with_it_what_is_pending_and_what_is_on_its_way() {
    let (mut bench, at, of) = (Bench::new(), now(0), transaction(1, 0));
    drop(bench.commits_in(of, ("g", 0), 10, at));
    bench.flush(at);
    drop(bench.commits_in(of, ("g", 1), 11, at));
    let mut committed = bench.commit("g", at, 2, 12);
    let mut deleted = bench.ask("g", at, Ask::Delete);
    let mut late = bench.commits_in(of, ("g", 3), 13, at);
    assert_eq!(late.try_take(), Some(Ok(ErrorCode::CoordinatorNotAvailable)));
    bench.flush(at);
    assert_eq!(committed.try_take(), Some(Ok(ErrorCode::None)));
    assert_eq!(deleted.try_take(), Some(Ok(ErrorCode::None)));
    assert!(bench.groups.is_empty() && bench.reload(at).is_empty());
    drop(bench.ends(of, COMMIT));
    bench.flush(at);
    assert!(bench.groups.is_empty() && bench.reload(at).is_empty());
}

#[test]
fn former_members_commit_nothing_in_transactions() {
    let (mut bench, at, of) = (Bench::new(), now(0), transaction(1, 0));
    let in_transaction = |bench: &mut Bench, member: &str, generation, version| {
        let guard = bench.verify(of, at);
        let offsets = vec![(name("t"), 0, offset(1, at))];
        let commit =
            Commit { transaction: Some(of), guard, version, ..commit(member, generation, offsets) };
        let mut reply = bench.ask("g", at, |reply| Ask::Commit(commit, reply));
        bench.flush(at);
        reply.try_take().unwrap().unwrap()
    };
    for version in [3, 5] {
        let unknown = in_transaction(&mut bench, "m", 3, version);
        assert_eq!(unknown, ErrorCode::IllegalGeneration, "there is no such group");
    }
    assert!(bench.groups.is_empty());
    let (member, generation) = bench.stable("g", at);
    for (who, generation, due) in [
        (&*member, generation - 1, ErrorCode::IllegalGeneration),
        ("other", generation, ErrorCode::UnknownMemberId),
        (&*member, generation, ErrorCode::None),
        // Who does not say for which member it commits (before version 3).
        ("", -1, ErrorCode::None),
    ] {
        assert_eq!(in_transaction(&mut bench, who, generation, 3), due, "{who} {generation}");
    }
    let leaving = vec![Leaving { member_id: member, instance_id: None }];
    drop(bench.ask("g", at, |waiter| Ask::Leave(leaving, waiter)));
    bench.flush(at);
    // The same of a group of the consumer protocol.
    let mut joined = bench.ask("g", at, |reply| Ask::ConsumerHeartbeat(beat("m", 0), reply));
    bench.flush(at);
    let epoch = joined.try_take().unwrap().unwrap().unwrap().member_epoch.get();
    for (who, epoch, due) in [
        ("m", epoch + 1, ErrorCode::IllegalGeneration),
        ("other", epoch, ErrorCode::UnknownMemberId),
        ("m", epoch, ErrorCode::None),
        ("", -1, ErrorCode::None),
    ] {
        assert_eq!(in_transaction(&mut bench, who, epoch, 3), due, "{who} {epoch}");
    }
}

/// Goal: a commit that a marker has overtaken opens no transaction that nobody would end (KIP-890).
#[test]
fn commit_that_comes_after_the_end_of_its_transaction_is_refused() {
    let (mut bench, at, of) = (Bench::new(), now(0), transaction(1, 4));
    let commit_with = |bench: &mut Bench, of, guard| {
        let offsets = vec![(name("t"), 0, offset(1, at))];
        let commit = Commit { transaction: Some(of), guard, ..commit("", -1, offsets) };
        let mut reply = bench.ask("g", at, |reply| Ask::Commit(commit, reply));
        bench.flush(at);
        reply.try_take().unwrap().unwrap()
    };
    assert_eq!(commit_with(&mut bench, of, None), ErrorCode::InvalidTxnState);
    let guard = bench.verify(of, at);
    assert!(guard.is_some());
    drop(bench.ends(of, ABORT));
    assert_eq!(commit_with(&mut bench, of, guard), ErrorCode::InvalidTxnState);
    let guard = bench.verify(of, at);
    assert_eq!(commit_with(&mut bench, of, guard), ErrorCode::None);
    assert_eq!(bench.verify(of, at), None, "it is open");
    bench.restart(at);
    assert_eq!(bench.verify(of, at), None, "after a start too");
    assert_eq!(commit_with(&mut bench, of, None), ErrorCode::None);
    let newer = transaction(1, 5);
    assert_eq!(commit_with(&mut bench, newer, None), ErrorCode::InvalidTxnState);
    assert!(bench.verify(newer, at).is_some());
    // A marker that waits to be written ends it already.
    drop(bench.ends(of, COMMIT));
    assert_eq!(commit_with(&mut bench, of, None), ErrorCode::InvalidTxnState);
    let guard = bench.verify(of, at);
    bench.restart(now(5));
    assert_eq!(commit_with(&mut bench, of, guard), ErrorCode::InvalidTxnState);
    assert!(bench.verify(of, at) > guard, "no guard is given twice");
}

#[test]
fn batch_that_the_log_refuses_leaves_nothing_behind() {
    let (mut bench, at, of) = (Bench::new(), now(0), transaction(1, 0));
    let cause = AppendError::Stopping;
    let mut reply = bench.commits_in(of, ("g", 0), 1, at);
    for then in bench.waiting.remove(0).then {
        bench.groups.refused(then, ErrorCode::InvalidProducerEpoch, &cause);
    }
    assert_eq!(reply.try_take(), Some(Ok(ErrorCode::InvalidProducerEpoch)));
    assert!(bench.groups.is_empty());
    assert!(bench.verify(of, at).is_some(), "nothing is open");
    let mut ended = bench.ends(of, COMMIT);
    for then in bench.waiting.remove(0).then {
        bench.groups.refused(then, ErrorCode::InvalidProducerEpoch, &cause);
    }
    assert_eq!(ended.try_take(), Some(Ok(Err(EndError::Refused(cause)))));
    let (mut committed, mut ended) = (bench.commits_in(of, ("g", 0), 1, at), bench.ends(of, ABORT));
    let entries = std::mem::take(&mut bench.waiting);
    bench.groups.abandon(entries, ErrorCode::NotCoordinator);
    assert_eq!(committed.try_take(), Some(Ok(ErrorCode::NotCoordinator)));
    assert_eq!(ended.try_take(), Some(Ok(Err(EndError::NotReady))));
}

/// Written again behind a pending offset, an old one would pass for newer and win over it.
#[test]
fn compaction_keeps_what_transactions_need_and_gives_up_the_rest_when_they_end() {
    let (mut bench, at) = (Bench::new(), now(0));
    for value in 0..100 {
        drop(bench.commit("g", at, 0, value));
        drop(bench.commit("g", at, 1, value));
        bench.flush(at);
    }
    let of = transaction(1, 0);
    drop(bench.commits_in(of, ("g", 0), 500, at));
    bench.flush(at);
    let kept = bench.log[198].at;
    for lost in [Some(1), None] {
        bench.compact(lost);
        bench.restart(at);
        assert_eq!((bench.value("g", 0, at), bench.value("g", 1, at)), (Some(99), Some(99)));
        assert_eq!(bench.shown("g", 0, true, at), Some(Shown::Unstable));
    }
    assert_eq!(bench.log[0].at, kept, "the offset that may be replaced stays where it is");
    drop(bench.ends(of, COMMIT));
    bench.flush(at);
    assert_eq!((bench.value("g", 0, at), bench.value("g", 1, at)), (Some(500), Some(99)));
    bench.compact(None);
    assert_eq!(bench.log.len(), 1);
    bench.restart(at);
    assert_eq!((bench.value("g", 0, at), bench.value("g", 1, at)), (Some(500), Some(99)));
}

const GROUPS: usize = 2;
const PARTITIONS: usize = 2;
const PRODUCERS: usize = 3;

/// Group, partition.
type Key = (usize, usize);

#[derive(Clone, Debug)]
enum Step {
    Commit(Key, i64),
    CommitIn(usize, Key, i64),
    /// The marker overtakes the commit.
    CommitLate(usize, Key),
    End(usize, bool),
    DeleteOffset(Key),
    Delete(usize),
    Expire,
    /// So many entries become durable.
    Flush(usize),
    /// The log refuses the next entry if that is part of a transaction, or a marker.
    Refuse,
    Compact,
    /// The broker crashes in the middle of a compaction.
    CrashIn(usize),
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || (0..GROUPS, 0..PARTITIONS);
    let step = prop_oneof![
        5 => (key(), 0..1000i64).prop_map(|(key, value)| Step::Commit(key, value)),
        8 => (0..PRODUCERS, key(), 0..1000i64).prop_map(|(p, key, v)| Step::CommitIn(p, key, v)),
        1 => (0..PRODUCERS, key()).prop_map(|(p, key)| Step::CommitLate(p, key)),
        5 => (0..PRODUCERS, any::<bool>()).prop_map(|(p, is_commit)| Step::End(p, is_commit)),
        2 => key().prop_map(Step::DeleteOffset),
        1 => (0..GROUPS).prop_map(Step::Delete),
        1 => Just(Step::Expire),
        8 => (1..6usize).prop_map(Step::Flush),
        1 => Just(Step::Refuse),
        2 => Just(Step::Compact),
        2 => (0..8usize).prop_map(Step::CrashIn),
        2 => Just(Step::Crash),
    ];
    prop::collection::vec(step, 1..120)
}

/// What an entry says, in the words of the model.
#[derive(Clone, Debug)]
enum Said {
    Plain(Key, i64),
    In(usize, Key, i64),
    End(usize, bool),
    Gone(Vec<Key>),
    GroupGone(usize),
}

impl Said {
    fn takes(&self, key: Key) -> bool {
        match self {
            Said::Gone(keys) => keys.contains(&key),
            Said::GroupGone(group) => *group == key.0,
            Said::Plain(..) | Said::In(..) | Said::End(..) => false,
        }
    }

    fn commits(&self, key: Key) -> bool {
        matches!(self, Said::Plain(k, _) | Said::In(_, k, _) if *k == key)
    }
}

/// The log as it was said, never compacted, judged anew from its start each time.
#[derive(Default)]
struct Model {
    durable: Vec<Said>,
    waiting: Vec<Said>,
}

impl Model {
    /// The value that counts, and whether one is pending.
    fn judge(&self, key: Key) -> (Option<i64>, bool) {
        let mut counts: Option<(usize, i64)> = None;
        let mut pending: Vec<(usize, usize, i64)> = Vec::new();
        for (at, said) in self.durable.iter().enumerate() {
            match said {
                Said::Plain(k, value) if *k == key => counts = Some((at, *value)),
                Said::In(producer, k, value) if *k == key => {
                    pending.push((*producer, at, *value));
                }
                Said::End(producer, is_commit) => {
                    let ends = |(by, ..): &(usize, usize, i64)| by == producer;
                    // Of one transaction the last counts.
                    let last = pending.iter().rfind(|p| ends(p)).copied();
                    pending.retain(|p| !ends(p));
                    if let (Some((_, at, value)), true) = (last, *is_commit)
                        && counts.is_none_or(|(before, _)| before < at)
                    {
                        counts = Some((at, value));
                    }
                }
                said if said.takes(key) => (counts, pending) = (None, Vec::new()),
                _ => {}
            }
        }
        (counts.map(|(_, value)| value), !pending.is_empty())
    }
}

struct Walk {
    bench: Bench,
    model: Model,
    at: Now,
}

impl Walk {
    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let at = self.at;
        match *step {
            Step::Commit(key, value) => {
                let reply = self.bench.commit(&key.0.to_string(), at, key.1 as i32, value);
                self.said(reply, Said::Plain(key, value))?;
            }
            Step::CommitIn(producer, key, value) => {
                let (of, place) = (transaction(producer as i64, 0), key.0.to_string());
                let reply = self.bench.commits_in(of, (&place, key.1 as i32), value, at);
                self.said(reply, Said::In(producer, key, value))?;
            }
            Step::CommitLate(producer, key) => {
                let of = transaction(producer as i64, 0);
                let guard = self.bench.verify(of, at);
                self.end(producer, false);
                let offsets = vec![(name("t"), key.1 as i32, offset(1, at))];
                let commit = Commit { transaction: Some(of), guard, ..commit("", -1, offsets) };
                let group = key.0.to_string();
                let mut reply = self.bench.ask(&group, at, |reply| Ask::Commit(commit, reply));
                let refused = [ErrorCode::InvalidTxnState, ErrorCode::CoordinatorNotAvailable];
                prop_assert!(refused.contains(&reply.try_take().unwrap().unwrap()));
            }
            Step::End(producer, is_commit) => self.end(producer, is_commit),
            Step::DeleteOffset(key) => {
                let wanted = vec![(name("t"), key.1 as i32)];
                let count = self.bench.waiting.len();
                let group = key.0.to_string();
                drop(self.bench.ask(&group, at, |reply| Ask::DeleteOffsets(wanted, reply)));
                if self.bench.waiting.len() > count {
                    self.model.waiting.push(Said::Gone(vec![key]));
                }
            }
            Step::Delete(group) => {
                let count = self.bench.waiting.len();
                drop(self.bench.ask(&group.to_string(), at, Ask::Delete));
                if self.bench.waiting.len() > count {
                    self.model.waiting.push(Said::GroupGone(group));
                }
            }
            Step::Expire => self.expire(),
            Step::Flush(count) => {
                for _ in 0..count {
                    self.flush_one();
                }
            }
            Step::Refuse => self.refuse(),
            Step::Compact => self.bench.compact(None),
            Step::CrashIn(written) => {
                self.bench.compact(Some(written));
                self.crash();
            }
            Step::Crash => self.crash(),
        }
        self.check()
    }

    /// A commit was asked for. It waits, unless its group just ends.
    fn said(&mut self, mut reply: Reply<ErrorCode>, said: Said) -> Result<(), TestCaseError> {
        match reply.try_take() {
            None => self.model.waiting.push(said),
            Some(refused) => prop_assert_eq!(refused, Ok(ErrorCode::CoordinatorNotAvailable)),
        }
        Ok(())
    }

    fn end(&mut self, producer: usize, is_commit: bool) {
        let outcome = if is_commit { COMMIT } else { ABORT };
        drop(self.bench.ends(transaction(producer as i64, 0), outcome));
        self.model.waiting.push(Said::End(producer, is_commit));
    }

    /// Everything is old enough, so all goes that nobody is about to change.
    fn expire(&mut self) {
        let entries = self.bench.groups.expire(0, self.at);
        for entry in entries {
            let Some(Then::Forgotten { group, whole, .. }) = entry.then.first() else {
                panic!("{entry:?} forgets nothing");
            };
            let group: usize = group.parse().unwrap();
            let quiet = |partition: &usize| {
                let key = (group, *partition);
                let (counts, is_pending) = self.model.judge(key);
                let is_coming = self.model.waiting.iter().any(|said| said.commits(key));
                counts.is_some() && !is_pending && !is_coming
            };
            let keys = (0..PARTITIONS).filter(quiet).map(|p| (group, p)).collect();
            let said = if *whole { Said::GroupGone(group) } else { Said::Gone(keys) };
            self.model.waiting.push(said);
            self.bench.waiting.push(entry);
        }
    }

    fn flush_one(&mut self) {
        if self.bench.waiting.is_empty() {
            return;
        }
        let rest = self.bench.waiting.split_off(1);
        self.bench.flush(self.at);
        assert!(self.bench.waiting.is_empty(), "an offset leads to no further entry");
        self.bench.waiting = rest;
        let said = self.model.waiting.remove(0);
        self.model.durable.push(said);
    }

    fn refuse(&mut self) {
        let is_refused = |entry: &Entry| entry.content != Content::Plain;
        if self.bench.waiting.first().is_some_and(is_refused) {
            for then in self.bench.waiting.remove(0).then {
                let cause = AppendError::Stopping;
                self.bench.groups.refused(then, ErrorCode::InvalidProducerEpoch, &cause);
            }
            self.model.waiting.remove(0);
        }
    }

    fn crash(&mut self) {
        self.bench.restart(self.at);
        self.model.waiting.clear();
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.bench.waiting.len(), self.model.waiting.len());
        for key in (0..GROUPS).flat_map(|g| (0..PARTITIONS).map(move |p| (g, p))) {
            let (group, partition) = (key.0.to_string(), key.1 as i32);
            let (counts, is_pending) = self.model.judge(key);
            let Some(shown) = self.bench.shown(&group, partition, false, self.at) else { continue };
            let due = counts.map_or(Shown::Nothing, |v| Shown::Committed(offset(v, self.at)));
            prop_assert_eq!(&shown, &due, "{:?} of {:?}", key, &self.model.durable);
            let comes = |said: &Said| matches!(said, Said::In(_, k, _) if *k == key);
            let is_unstable = is_pending || self.model.waiting.iter().any(comes);
            let due = if is_unstable { Shown::Unstable } else { due };
            let shown = self.bench.shown(&group, partition, true, self.at);
            prop_assert_eq!(shown, Some(due), "stable {:?} of {:?}", key, &self.model.durable);
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Goal: whatever commits, transactions, deletions, refusals, compactions and crashes come
    /// together, an offset is shown as the log says it, and as unstable while a transaction may
    /// replace it. Method: the model keeps all that was said and judges it from the start each time.
    #[test]
    fn walk_shows_what_the_whole_log_says(steps in steps()) {
        let mut walk = Walk { bench: Bench::new(), model: Model::default(), at: now(0) };
        for step in &steps {
            walk.step(step)?;
        }
        // All that is open ends, and then nothing is unstable and little is left of the log.
        for producer in 0..PRODUCERS {
            walk.end(producer, producer % 2 == 0);
        }
        while !walk.bench.waiting.is_empty() {
            walk.flush_one();
        }
        walk.check()?;
        walk.bench.compact(None);
        prop_assert!(walk.bench.groups.is_empty() || walk.bench.log.len() == 1);
        walk.crash();
        walk.check()?;
    }
}
