//! All groups of one partition of `__consumer_offsets`: what they decide, without the log itself.
//!
//! A call may lead to an [`Entry`]: records to append, and what follows once they are durable. Its
//! caller appends entries in the order in which they came and reports each by
//! [`GroupPartition::durable`]. When an append fails, everything here is thrown away
//! ([`GroupPartition::abandon`]) and built again from the log, so nothing needs to be taken back.

mod offsets;

use super::ask::{Ask, Commit, Heartbeat, Listed, Waiter};
use super::classic::{
    Answer, Caller, ClassicGroup, GroupSnapshot, JoinAnswer, JoinRequest, LeaveAnswer, Leaving,
    Left, Name, Now, Outcome, Settings, Store, StoreNumber, SyncAnswer,
};
use super::limits::GROUPS_PER_PARTITION_MAX;
use super::log_record::{self, LogRecord};
use super::offsets::{CommittedOffset, GroupOffsets};
use crate::wire::ErrorCode;
use millstream_io::batch::NewRecord;
use millstream_io::runtime::Promise;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

/// Records that belong into one batch, and what follows when it is durable.
#[derive(Debug, Default)]
pub struct Entry {
    pub records: Vec<NewRecord>,
    pub then: Vec<Then>,
}

impl Entry {
    /// Bytes of the records, at most.
    pub fn bytes(&self) -> usize {
        self.records.iter().map(NewRecord::bytes_max).sum()
    }

    /// Parts of at most `bytes_max` each. What follows comes with the last. Only the tombstones of
    /// very many offsets need it.
    pub fn split(mut self, bytes_max: usize) -> Vec<Entry> {
        let mut parts = Vec::new();
        while self.bytes() > bytes_max && self.records.len() > 1 {
            let half = self.records.split_off(self.records.len() / 2);
            let records = std::mem::replace(&mut self.records, half);
            parts.extend(Entry { records, then: Vec::new() }.split(bytes_max));
        }
        parts.push(self);
        parts
    }
}

/// What follows when an entry is durable.
#[derive(Debug)]
pub enum Then {
    Stored {
        group: Name,
        number: StoreNumber,
    },
    Committed {
        group: Name,
        offsets: Vec<(Name, i32, CommittedOffset)>,
        reply: Promise<ErrorCode>,
    },
    /// Offsets are gone, and with `whole` the group too.
    Forgotten {
        group: Name,
        offsets: Vec<(Arc<str>, i32)>,
        whole: bool,
    },
    Reply(Promise<ErrorCode>),
    ReplyEach(Promise<Result<Vec<ErrorCode>, ErrorCode>>, Vec<ErrorCode>),
}

impl Then {
    /// Tells whoever waits that it did not come to pass.
    fn refuse(self, error: ErrorCode) {
        match self {
            Then::Stored { .. } | Then::Forgotten { .. } => {}
            Then::Committed { reply, .. } | Then::Reply(reply) => {
                let _ = reply.send(error);
            }
            Then::ReplyEach(reply, _) => {
                let _ = reply.send(Err(error));
            }
        }
    }
}

/// A group with its offsets.
#[derive(Debug)]
struct Group {
    classic: ClassicGroup<Waiter>,
    offsets: GroupOffsets,
    /// Commits on their way to the log.
    committing: usize,
    /// A record of it may be in the log.
    is_on_disk: bool,
    /// The deadline that stands in the heap.
    armed: Option<u64>,
}

/// The groups of one partition. Lives on the core that owns the partition.
#[derive(Debug)]
pub struct GroupPartition {
    settings: Settings,
    /// The largest batch of records that can be appended.
    append_bytes_max: usize,
    groups: HashMap<Name, Group>,
    deadlines: BinaryHeap<Reverse<(u64, Name)>>,
}

impl GroupPartition {
    pub fn new(settings: Settings, append_bytes_max: usize) -> GroupPartition {
        GroupPartition {
            settings,
            append_bytes_max,
            groups: HashMap::new(),
            deadlines: BinaryHeap::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.groups.len()
    }

    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Takes a record of the log into account. [`GroupPartition::loaded`] ends the loading.
    pub fn replay(&mut self, record: LogRecord, now: Now) {
        match record {
            LogRecord::Offset { group, topic, partition, committed } => {
                let group = self.group_or_new(&Name::from(group), now);
                match committed {
                    Some(committed) => group.offsets.put(&topic, partition, committed),
                    None => drop(group.offsets.remove(&topic, partition)),
                }
            }
            LogRecord::Group { group, snapshot } => {
                let (name, settings) = (Name::from(group), self.settings);
                let group = self.group_or_new(&name, now);
                group.is_on_disk = snapshot.is_some();
                group.classic = match snapshot {
                    Some(snapshot) => ClassicGroup::restore(settings, *snapshot, now),
                    None => ClassicGroup::new(settings, now),
                };
            }
            LogRecord::Other { .. } => {}
        }
    }

    /// The whole log was replayed.
    pub fn loaded(&mut self) {
        self.groups.retain(|_, group| group.is_on_disk || !group.offsets.is_empty());
        let names: Vec<Name> = self.groups.keys().cloned().collect();
        for name in names {
            self.arm(&name);
        }
    }

    /// Answers a question, now or when what it changed is durable.
    pub fn ask(&mut self, name: &Name, ask: Ask, now: Now) -> Option<Entry> {
        let entry = match ask {
            Ask::Join(request, waiter) => self.join(name, request, waiter, now),
            Ask::Sync(request, waiter) => match self.groups.get_mut(name) {
                Some(group) => {
                    let outcome = group.classic.sync(request, waiter, now);
                    settle(name, group, outcome)
                }
                None => {
                    let answer = SyncAnswer::refused(ErrorCode::UnknownMemberId);
                    let _ = waiter.send(Answer::Sync(answer));
                    None
                }
            },
            Ask::Heartbeat(heartbeat, reply) => {
                let _ = reply.send(self.heartbeat(name, &heartbeat, now));
                None
            }
            Ask::Leave(leaving, waiter) => self.leave(name, leaving, waiter, now),
            Ask::Commit(commit, reply) => self.commit(name, commit, reply, now),
            Ask::Offsets(wanted, reply) => {
                let _ = reply.send(Ok(self.offsets(name, wanted)));
                None
            }
            Ask::Describe(reply) => {
                let group = self.groups.get(name);
                let _ = reply.send(group.map(|group| group.classic.describe()));
                None
            }
            Ask::Delete(reply) => self.delete(name, reply, now),
            Ask::DeleteOffsets(offsets, reply) => self.delete_offsets(name, offsets, reply),
        };
        self.arm(name);
        self.drop_if_nothing(name);
        entry
    }

    /// What an entry wanted is durable.
    pub fn durable(&mut self, then: Then, now: Now) -> Option<Entry> {
        match then {
            Then::Stored { group: name, number } => {
                let group = self.groups.get_mut(&name)?;
                let outcome = group.classic.stored(number, now);
                let entry = settle(&name, group, outcome);
                self.arm(&name);
                entry
            }
            Then::Committed { group: name, offsets, reply } => {
                let group = self.group_or_new(&name, now);
                group.committing = group.committing.saturating_sub(1);
                for (topic, partition, committed) in offsets {
                    group.offsets.put(&topic, partition, committed);
                }
                let _ = reply.send(ErrorCode::None);
                None
            }
            Then::Forgotten { group: name, offsets, whole } => {
                let group = self.groups.get_mut(&name)?;
                for (topic, partition) in offsets {
                    group.offsets.remove(&topic, partition);
                }
                if whole {
                    // A commit that came in between made no group of its own: it waits behind us.
                    self.groups.remove(&name);
                }
                None
            }
            Then::Reply(reply) => {
                let _ = reply.send(ErrorCode::None);
                None
            }
            Then::ReplyEach(reply, answers) => {
                let _ = reply.send(Ok(answers));
                None
            }
        }
    }

    /// Does what is due by the clock.
    pub fn tick(&mut self, now: Now) -> Vec<Entry> {
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
            let outcome = group.classic.tick(now);
            entries.extend(settle(&name, group, outcome));
            self.arm(&name);
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
        for then in entries.into_iter().flat_map(|entry| entry.then) {
            then.refuse(error);
        }
        for (_, group) in std::mem::take(&mut self.groups) {
            send_all(group.classic.abandon(error));
        }
    }

    /// Every group.
    pub fn list(&self) -> Vec<Listed> {
        let one = |(name, group): (&Name, &Group)| Listed {
            group: name.clone(),
            protocol_type: Name::from(group.classic.protocol_type().unwrap_or("")),
            state: group.classic.state(),
        };
        self.groups.iter().map(one).collect()
    }

    fn join(
        &mut self,
        name: &Name,
        request: JoinRequest,
        waiter: Waiter,
        now: Now,
    ) -> Option<Entry> {
        let refuse = |waiter: Waiter, error| {
            let answer = JoinAnswer::refused(error, request.member_id.clone());
            let _ = waiter.send(Answer::Join(answer));
        };
        if !self.groups.contains_key(name) {
            if !request.member_id.is_empty() {
                refuse(waiter, ErrorCode::UnknownMemberId);
                return None;
            }
            if self.groups.len() >= GROUPS_PER_PARTITION_MAX {
                refuse(waiter, ErrorCode::CoordinatorNotAvailable);
                return None;
            }
        }
        let group = self.group_or_new(name, now);
        let outcome = group.classic.join(request, waiter, now);
        settle(name, group, outcome)
    }

    fn heartbeat(&mut self, name: &Name, heartbeat: &Heartbeat, now: Now) -> ErrorCode {
        let Some(group) = self.groups.get_mut(name) else { return ErrorCode::UnknownMemberId };
        let Heartbeat { member_id, instance_id, generation } = heartbeat;
        let caller = Caller { member_id, instance_id: instance_id.as_deref() };
        match group.classic.heartbeat(caller, *generation, now) {
            Ok(()) => ErrorCode::None,
            Err(error) => error,
        }
    }

    fn leave(
        &mut self,
        name: &Name,
        leaving: Vec<Leaving>,
        waiter: Waiter,
        now: Now,
    ) -> Option<Entry> {
        let Some(group) = self.groups.get_mut(name) else {
            let error = ErrorCode::UnknownMemberId;
            let members = leaving.into_iter().map(|member| Left { member, error }).collect();
            let answer = LeaveAnswer { error: ErrorCode::None, members };
            let _ = waiter.send(Answer::Leave(answer));
            return None;
        };
        let outcome = group.classic.leave(leaving, waiter, now);
        settle(name, group, outcome)
    }

    /// Ends a group without members, with all its offsets.
    fn delete(&mut self, name: &Name, reply: Promise<ErrorCode>, now: Now) -> Option<Entry> {
        let ended = match self.groups.get_mut(name) {
            None => Err(ErrorCode::GroupIdNotFound),
            Some(group) => group.classic.check_delete().and_then(|()| end(name, group, now)),
        };
        match ended {
            Ok(mut entry) => {
                entry.then.push(Then::Reply(reply));
                Some(entry)
            }
            Err(error) => {
                let _ = reply.send(error);
                None
            }
        }
    }

    fn group_or_new(&mut self, name: &Name, now: Now) -> &mut Group {
        let settings = self.settings;
        self.groups.entry(name.clone()).or_insert_with(|| Group {
            classic: ClassicGroup::new(settings, now),
            offsets: GroupOffsets::default(),
            committing: 0,
            is_on_disk: false,
            armed: None,
        })
    }

    /// Puts the group's next deadline into the heap when none that early is there.
    fn arm(&mut self, name: &Name) {
        let Some(group) = self.groups.get_mut(name) else { return };
        let Some(due) = group.classic.next_deadline() else { return };
        if group.armed.is_none_or(|armed| due < armed) {
            group.armed = Some(due);
            self.deadlines.push(Reverse((due, name.clone())));
        }
    }

    /// A group of which nothing is in the log, and nobody is in it, was never there.
    fn drop_if_nothing(&mut self, name: &Name) {
        let is_nothing = self.groups.get(name).is_some_and(|group| {
            !group.is_on_disk
                && group.committing == 0
                && group.offsets.is_empty()
                && group.classic.is_removable()
        });
        if is_nothing {
            self.groups.remove(name);
        }
    }
}

/// Sends what may be sent now, and says what is to be stored.
fn settle(name: &Name, group: &mut Group, outcome: Outcome<Waiter>) -> Option<Entry> {
    send_all(outcome.answers);
    match outcome.store {
        Store::Nothing => None,
        Store::Group { number, content } => {
            group.is_on_disk = true;
            let then = vec![Then::Stored { group: name.clone(), number }];
            Some(Entry { records: vec![group_record(name, Some(&content))], then })
        }
        Store::Tombstone => Some(Entry { records: vec![group_record(name, None)], then: vec![] }),
    }
}

/// The records that end a group, which takes no more calls.
///
/// # Errors
/// It may not be ended.
fn end(name: &Name, group: &mut Group, now: Now) -> Result<Entry, ErrorCode> {
    let outcome = group.classic.forget(now)?;
    let mut entry = settle(name, group, outcome).unwrap_or_default();
    let offsets = group.offsets.select(|_, _, _| true);
    entry.records.extend(offsets.iter().map(|(topic, p)| offset_record(name, topic, *p, None)));
    entry.then.push(Then::Forgotten { group: name.clone(), offsets, whole: true });
    Ok(entry)
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
#[path = "partition/partition_tests.rs"]
mod tests;
