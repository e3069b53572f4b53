//! All groups of one partition of `__consumer_offsets`: what they decide, without the log itself.
//!
//! A call may lead to an [`Entry`]: records to append, and what follows once they are durable. Its
//! caller appends entries in the order in which they came and reports each by
//! [`GroupPartition::durable`]. When an append fails, everything here is thrown away
//! ([`GroupPartition::abandon`]) and built again from the log, so nothing needs to be taken back.

mod classic;
mod consumer;
mod entry;
mod group;
mod migration;
mod offsets;
mod transactions;
mod walk;
mod watch;

use super::ask::{
    Ask, Commit, EndError, Ending, GroupKind, Heartbeat, InTransaction, Refusal, Waiter,
};
use super::classic::ClassicGroup;
use super::classic::{
    Answer, Caller, GroupSnapshot, JoinAnswer, JoinRequest, LeaveAnswer, Leaving, Left, Name, Now,
    Outcome, Settings, Store, SyncAnswer, SyncRequest,
};
use super::consumer::{ConsumerRecord, ConsumerSettings, HeartbeatAnswer, MemberTimes, TopicsView};
use super::limits::GROUPS_PER_PARTITION_MAX;
use super::log_record::{self, LogRecord};
use super::metrics::GroupCounts;
use super::offsets::{CommittedOffset, GroupOffsets, Stored};
use crate::cluster::group_configs::GroupConfigs;
use crate::coordinator::walk::Walk;
use crate::wire::ErrorCode;
pub use entry::{Content, Entry, Then};
use group::{Group, Kind};
use millstream_io::batch::{NewRecord, Outcome as TransactionOutcome};
use millstream_io::runtime::Promise;
use millstream_io::units::{Offset, ProducerId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;
use std::sync::Arc;
pub use transactions::Logged;
use transactions::Transactions;

/// Settings of the broker that concern groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupSettings {
    pub classic: Settings,
    pub consumer: ConsumerSettings,
}

/// The groups of one partition. Lives on the core that owns the partition.
#[derive(Debug)]
pub struct GroupPartition {
    settings: GroupSettings,
    /// What single groups have instead.
    configs: Arc<GroupConfigs>,
    /// The largest batch of records that can be appended.
    append_bytes_max: usize,
    /// In the order of their names, so that they can be listed in pieces.
    groups: BTreeMap<Name, Group>,
    /// Transactions that are open in the log.
    transactions: Transactions,
    deadlines: BinaryHeap<Reverse<(u64, Name)>>,
    /// Of all partitions of the core.
    counts: Rc<GroupCounts>,
}

impl GroupPartition {
    pub fn new(settings: GroupSettings, append_bytes_max: usize) -> GroupPartition {
        GroupPartition {
            settings,
            configs: Arc::default(),
            append_bytes_max,
            groups: BTreeMap::new(),
            transactions: Transactions::default(),
            deadlines: BinaryHeap::new(),
            counts: Rc::default(),
        }
    }

    /// Counts here from now on.
    pub fn count_in(&mut self, counts: Rc<GroupCounts>) {
        self.counts = counts;
    }

    /// Goes by these settings of single groups from now on: each heartbeat looks at them.
    pub fn set_configs(&mut self, configs: &Arc<GroupConfigs>) {
        if !Arc::ptr_eq(&self.configs, configs) {
            self.configs = configs.clone();
        }
    }

    pub fn len(&self) -> usize {
        self.groups.len()
    }

    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Takes what stands at `at` in the log into account. [`GroupPartition::loaded`] ends the
    /// loading.
    pub fn replay(&mut self, read: Logged, at: Offset, now: Now) {
        let (record, by) = match read {
            Logged::Record { record, by } => (record, by),
            Logged::End { producer, outcome } => {
                self.transactions.closed(producer);
                self.end(producer, outcome);
                return;
            }
        };
        if let Some(transaction) = by {
            self.transactions.opened(transaction);
        }
        match *record {
            LogRecord::Offset { group, topic, partition, committed } => {
                let (name, topic) = (Name::from(group), Name::from(topic));
                match committed {
                    Some(committed) => {
                        let stored = Stored { committed, at };
                        self.keep(&name, (&topic, partition), by, stored, now);
                    }
                    None => {
                        let group = self.group_or_new(&name, now);
                        group.offsets.remove(&topic, partition);
                    }
                }
            }
            LogRecord::Group { group, snapshot } => {
                let settings = self.settings.classic;
                self.group_or_new(&Name::from(group), now).replay(snapshot, settings, now);
            }
            LogRecord::Consumer { group, record } => {
                let settings = self.settings.clone();
                let group = self.group_or_new(&Name::from(group), now);
                group.replay_consumer(&record, &settings, now);
            }
            LogRecord::Other { .. } => {}
        }
    }

    /// The whole log was replayed.
    pub fn loaded(&mut self, now: Now) {
        self.transactions.begin_guards(now.ms);
        self.groups.retain(|_, group| group.is_on_disk || !group.offsets.is_empty());
        let names: Vec<Name> = self.groups.keys().cloned().collect();
        for name in names {
            let times = self.member_times(&name);
            if let Some(Group { kind: Kind::Consumer(consumer), .. }) = self.groups.get_mut(&name) {
                consumer.set_times(times);
                consumer.loaded(now.ms);
            }
            if let Some(group) = self.groups.get_mut(&name) {
                group.counted = group.epoch();
            }
            self.arm(&name, now.ms);
        }
    }

    /// Answers a question, now or when what it changed is durable.
    pub fn ask(
        &mut self,
        name: &Name,
        ask: Ask,
        topics: &dyn TopicsView,
        now: Now,
    ) -> Option<Entry> {
        if self.groups.get(name).is_some_and(|group| group.ending) {
            ask.refuse(ErrorCode::CoordinatorNotAvailable);
            return None;
        }
        let entry = match ask {
            Ask::Join(request, waiter) => self.join(name, request, waiter, topics, now),
            Ask::Sync(request, waiter) => self.sync(name, request, waiter, topics, now),
            Ask::Heartbeat(heartbeat, reply) => {
                let _ = reply.send(self.heartbeat(name, &heartbeat, now));
                None
            }
            Ask::Leave(leaving, waiter) => self.leave(name, leaving, waiter, topics, now),
            Ask::Commit(commit, reply) => self.commit(name, commit, reply, now),
            Ask::Verify(transaction, reply) => {
                let _ = reply.send(Ok(self.transactions.verify(transaction)));
                None
            }
            Ask::Offsets(wanted, by, reply) => {
                let _ = reply.send(self.offsets(name, wanted, &by));
                None
            }
            Ask::Describe(reply) => {
                let group = self.classic(name);
                let _ = reply.send(group.map(|group| group.describe()));
                None
            }
            Ask::ConsumerHeartbeat(beat, reply) => {
                self.consumer_heartbeat(name, &beat, reply, topics, now)
            }
            Ask::ConsumerDescribe(reply) => {
                let described = match self.groups.get(name).map(|group| &group.kind) {
                    Some(Kind::Consumer(group)) => Some(group.describe(topics)),
                    Some(Kind::Classic(_)) | None => None,
                };
                let _ = reply.send(described);
                None
            }
            Ask::Delete(reply) => self.delete(name, reply, now),
            Ask::DeleteOffsets(offsets, reply) => self.delete_offsets(name, offsets, reply),
        };
        self.count_rebalance(name);
        self.arm(name, now.ms);
        self.drop_if_nothing(name);
        entry
    }

    /// What an entry wanted is durable, in the batch at `at`.
    pub fn durable(&mut self, then: Then, at: Offset, now: Now) -> Option<Entry> {
        match then {
            Then::Stored { group: name, era, number } => {
                if self.groups.get(&name)?.era != era {
                    return None;
                }
                let outcome = self.classic(&name)?.stored(number, now);
                let entry = self.settle(&name, outcome);
                self.count_rebalance(&name);
                self.arm(&name, now.ms);
                entry
            }
            Then::Committed { group: name, offsets, by, reply } => {
                self.counts.committed(offsets.len());
                for (topic, partition, committed) in offsets {
                    let group = self.group_or_new(&name, now);
                    group.on_the_way.arrived(&topic, partition, by.is_some());
                    let stored = Stored { committed, at };
                    self.keep(&name, (&topic, partition), by, stored, now);
                }
                let _ = reply.send(ErrorCode::None);
                None
            }
            Then::Ended { producer, outcome, reply } => {
                self.end(producer, outcome);
                let _ = reply.send(Ok(()));
                None
            }
            Then::Forgotten { group: name, offsets, whole } => {
                let group = self.groups.get_mut(&name)?;
                for (topic, partition) in offsets {
                    group.offsets.remove(&topic, partition);
                }
                if whole {
                    // It took no more, and what was on its way to the log came before.
                    self.groups.remove(&name);
                }
                None
            }
            Then::Reply(reply) => {
                let _ = reply.send(ErrorCode::None);
                None
            }
            Then::Answer(waiter, answer) => {
                let _ = waiter.send(answer);
                None
            }
            Then::Beat(reply, answer) => {
                let _ = reply.send(Ok(answer));
                None
            }
            Then::ReplyEach(reply, answers) => {
                let _ = reply.send(Ok(answers));
                None
            }
        }
    }

    /// Does what is due by the clock.
    pub fn tick(&mut self, topics: &dyn TopicsView, now: Now) -> Vec<Entry> {
        let mut entries = Vec::new();
        while let Some(Reverse((due, _))) = self.deadlines.peek()
            && *due <= now.ms
        {
            let Some(Reverse((due, name))) = self.deadlines.pop() else { break };
            let Some(group) = self.groups.get_mut(&name) else { continue };
            if group.armed != Some(due) {
                continue;
            }
            group.armed = None;
            let entry = match &mut group.kind {
                Kind::Classic(classic) => {
                    let outcome = classic.tick(now);
                    self.settle(&name, outcome)
                }
                Kind::Consumer(consumer) => {
                    let records = consumer.tick(topics, now.ms);
                    self.consumer_entry(&name, records, Vec::new(), topics, now)
                }
            };
            entries.extend(entry);
            self.count_rebalance(&name);
            // What is left to do is done at the next tick, so that no group holds up the others.
            self.arm(&name, now.ms + 1);
            self.drop_if_nothing(&name);
        }
        entries
    }

    /// When [`GroupPartition::tick`] has something to do.
    pub fn next_deadline(&self) -> Option<u64> {
        self.deadlines.peek().map(|Reverse((due, _))| *due)
    }

    /// Tells everybody who waits that this partition is lost, and forgets all.
    pub fn abandon(&mut self, entries: Vec<Entry>, error: ErrorCode) {
        self.deadlines.clear();
        self.transactions = Transactions::default();
        for then in entries.into_iter().flat_map(|entry| entry.then) {
            then.refuse(error);
        }
        for (_, group) in std::mem::take(&mut self.groups) {
            if let Kind::Classic(classic) = group.kind {
                send_all(classic.abandon(error));
            }
        }
    }

    /// What [`GroupPartition::records_step`] gave is durable, the first of it at `at`.
    pub fn written_again(&mut self, at: Offset) {
        for group in self.groups.values_mut() {
            group.offsets.written_again(at);
        }
    }

    /// From where on the log is needed besides what [`GroupPartition::records_step`] gives: the first offset of an open
    /// transaction, or of a commit that one is to replace.
    pub fn first_to_keep(&self) -> Option<Offset> {
        let replaced = self.groups.values().filter_map(|group| group.offsets.first_to_keep());
        replaced.chain(self.transactions.first()).min()
    }

    /// Ends a group without members, with all its offsets.
    fn delete(&mut self, name: &Name, reply: Promise<ErrorCode>, now: Now) -> Option<Entry> {
        let ended = match self.groups.get_mut(name) {
            None => Err(ErrorCode::GroupIdNotFound),
            Some(group) => group.end(name, now),
        };
        match ended {
            Ok(mut entry) => {
                let places = entry.then.iter().map(|then| match then {
                    Then::Forgotten { offsets, .. } => offsets.len(),
                    _ => 0,
                });
                self.counts.deleted(places.sum());
                entry.then.push(Then::Reply(reply));
                Some(entry)
            }
            Err(error) => {
                let _ = reply.send(error);
                None
            }
        }
    }

    /// The group, if it is a classic one.
    fn classic(&mut self, name: &Name) -> Option<&mut ClassicGroup<Waiter>> {
        match self.groups.get_mut(name).map(|group| &mut group.kind) {
            Some(Kind::Classic(classic)) => Some(classic),
            Some(Kind::Consumer(_)) | None => None,
        }
    }

    fn group_or_new(&mut self, name: &Name, now: Now) -> &mut Group {
        let settings = self.settings.classic;
        self.groups.entry(name.clone()).or_insert_with(|| Group::new(settings, now))
    }

    /// Sends what may be sent now, and says what is to be stored.
    fn settle(&mut self, name: &Name, outcome: Outcome<Waiter>) -> Option<Entry> {
        send_all(outcome.answers);
        match outcome.store {
            Store::Nothing => None,
            Store::Group { number, content } => {
                if let Some(group) = self.groups.get_mut(name) {
                    group.is_on_disk = true;
                    group.last = Some(content.clone());
                }
                let era = self.groups.get(name).map_or(0, |group| group.era);
                let then = vec![Then::Stored { group: name.clone(), era, number }];
                Some(Entry::plain(vec![group_record(name, Some(&content))], then))
            }
            Store::Tombstone => Some(Entry::plain(vec![group_record(name, None)], Vec::new())),
        }
    }

    /// A new generation or epoch was begun since the last look.
    fn count_rebalance(&mut self, name: &Name) {
        let Some(group) = self.groups.get_mut(name) else { return };
        let epoch = group.epoch();
        if group.counted != epoch {
            group.counted = epoch;
            match group.kind {
                Kind::Classic(_) => self.counts.rebalanced(GroupKind::Classic),
                Kind::Consumer(_) => self.counts.rebalanced(GroupKind::Consumer),
            }
        }
    }

    /// Puts the group's next deadline, not before `from`, into the heap when none that early is
    /// there.
    fn arm(&mut self, name: &Name, from: u64) {
        let Some(group) = self.groups.get_mut(name) else { return };
        let Some(due) = group.next_deadline() else { return };
        let due = due.max(from);
        if group.armed.is_none_or(|armed| due < armed) {
            group.armed = Some(due);
            self.deadlines.push(Reverse((due, name.clone())));
        }
    }

    /// A group of which nothing is in the log, and nobody is in it, was never there.
    fn drop_if_nothing(&mut self, name: &Name) {
        if self.groups.get(name).is_some_and(Group::is_nothing) {
            self.groups.remove(name);
        }
    }
}

fn send_all(answers: Vec<(Waiter, Answer)>) {
    for (waiter, answer) in answers {
        // Whose connection is gone needs no answer.
        let _ = waiter.send(answer);
    }
}

/// # Panics
/// With a text that the wire could not have brought.
fn group_record(name: &str, snapshot: Option<&GroupSnapshot>) -> NewRecord {
    match log_record::group(name, snapshot) {
        Ok(record) => record,
        Err(error) => panic!("group {name:?} has no record: {error}"),
    }
}

/// # Panics
/// As [`group_record`].
fn offset_record(
    name: &str,
    topic: &str,
    partition: i32,
    committed: Option<&CommittedOffset>,
) -> NewRecord {
    match log_record::offset(name, topic, partition, committed) {
        Ok(record) => record,
        Err(error) => panic!("an offset of group {name:?} has no record: {error}"),
    }
}

#[cfg(test)]
#[path = "partition/config_tests.rs"]
mod config_tests;
#[cfg(test)]
#[path = "partition/migration_tests.rs"]
mod migration_tests;
#[cfg(test)]
#[path = "partition/mixed_walk_tests.rs"]
mod mixed_walk_tests;
#[cfg(test)]
mod testing;
#[cfg(test)]
#[path = "partition/partition_tests.rs"]
mod tests;
#[cfg(test)]
#[path = "partition/transactions_tests.rs"]
mod transactions_tests;
