//! Offsets: commit, fetch, delete, expire.

use super::super::ask::{FetchedBy, Shown, TopicOffsets, Wanted};
use super::super::by_partition::ByPartition;
use super::super::classic::OffsetExpiry;
use super::super::consumer::{Committer, OffsetError};
use super::*;
use millstream_io::units::{PartitionIndex, TimestampMs, TopicId, TopicPartition};

impl GroupPartition {
    pub(super) fn commit(
        &mut self,
        name: &Name,
        commit: Commit,
        reply: Promise<ErrorCode>,
        now: Now,
    ) -> Option<Entry> {
        match self.checked_commit(name, &commit, now) {
            Ok(_) if commit.offsets.is_empty() => {
                let _ = reply.send(ErrorCode::None);
                None
            }
            Ok(records) => {
                let by = commit.transaction;
                if let Some(transaction) = by {
                    self.transactions.opened(transaction);
                }
                let on_the_way = &mut self.group_or_new(name, now).on_the_way;
                for (topic, partition, committed) in &commit.offsets {
                    on_the_way.sent((topic, *partition), committed.topic_id, by.is_some());
                }
                let content = match commit.transaction {
                    Some(transaction) => Content::Transactional(transaction),
                    None => Content::Plain,
                };
                let (group, offsets) = (name.clone(), commit.offsets);
                let then = vec![Then::Committed { group, offsets, by, reply }];
                Some(Entry { content, records, then })
            }
            Err(error) => {
                let _ = reply.send(error);
                None
            }
        }
    }

    /// The records of a commit that may be made.
    fn checked_commit(
        &mut self,
        name: &Name,
        commit: &Commit,
        now: Now,
    ) -> Result<Vec<NewRecord>, ErrorCode> {
        let is_full = self.groups.len() >= GROUPS_PER_PARTITION_MAX;
        match self.groups.get_mut(name) {
            Some(group) => check_committer(group, commit, now)?,
            None if commit.generation >= 0
                && commit.transaction.is_none()
                && commit.version >= MISSING_GROUPS_SINCE =>
            {
                return Err(ErrorCode::GroupIdNotFound);
            }
            None if commit.generation >= 0 => return Err(ErrorCode::IllegalGeneration),
            None if is_full => return Err(ErrorCode::CoordinatorNotAvailable),
            None => {}
        }
        if let Some(transaction) = commit.transaction {
            if !self.transactions.is_verified(transaction, commit.guard) {
                return Err(ErrorCode::InvalidTxnState);
            }
            if self.transactions.is_full(commit.offsets.len()) {
                return Err(ErrorCode::CoordinatorNotAvailable);
            }
        }
        let one = |(topic, partition, committed): &(Name, i32, CommittedOffset)| {
            offset_record(name, topic, *partition, Some(committed))
        };
        let records: Vec<NewRecord> = commit.offsets.iter().map(one).collect();
        let bytes: usize = records.iter().map(NewRecord::bytes_max).sum();
        if bytes > self.append_bytes_max {
            return Err(ErrorCode::InvalidCommitOffsetSize);
        }
        Ok(records)
    }

    /// What is asked for; an unknown group has committed nothing.
    pub(super) fn offsets(
        &self,
        name: &Name,
        wanted: Wanted,
        by: &FetchedBy,
    ) -> Result<Vec<TopicOffsets>, ErrorCode> {
        let group = self.groups.get(name);
        if let Some(Group { kind: Kind::Consumer(consumer), .. }) = group {
            let checked = consumer.validate_fetch(by.member_id.as_deref(), by.epoch);
            checked.map_err(|error| error.code())?;
        }
        let shown = |topic: &str, partition, stored: Option<&Stored>| match (group, stored) {
            (Some(group), _) if by.require_stable && group.is_unstable(topic, partition) => {
                Shown::Unstable
            }
            (_, Some(stored)) => Shown::Committed(stored.committed.clone()),
            (_, None) => Shown::Nothing,
        };
        let committed = group.map(|group| group.offsets.committed());
        Ok(match wanted {
            Some(wanted) => wanted
                .into_iter()
                .map(|(topic, partitions)| {
                    let known = committed.and_then(|committed| committed.topic(&topic));
                    let of = |p: i32| (p, shown(&topic, p, known.and_then(|known| known.get(&p))));
                    let partitions = partitions.into_iter().map(of).collect();
                    TopicOffsets { topic, partitions }
                })
                .collect(),
            None => {
                let all = committed.into_iter().flat_map(ByPartition::topics);
                all.map(|(topic, partitions)| {
                    let of = |(p, stored): (&i32, _)| (*p, shown(topic, *p, Some(stored)));
                    let partitions = partitions.iter().map(of).collect();
                    TopicOffsets { topic: topic.clone(), partitions }
                })
                .collect()
            }
        })
    }

    /// Forgets single offsets, except of topics that the group subscribes to (KIP-496).
    pub(super) fn delete_offsets(
        &mut self,
        name: &Name,
        wanted: Vec<(Name, i32)>,
        reply: Promise<Result<Vec<ErrorCode>, ErrorCode>>,
    ) -> Option<Entry> {
        let Some(group) = self.groups.get(name) else {
            let _ = reply.send(Err(ErrorCode::GroupIdNotFound));
            return None;
        };
        if let Kind::Classic(classic) = &group.kind
            && let Err(error) = classic.check_offset_delete()
        {
            let _ = reply.send(Err(error));
            return None;
        }
        let mut answers = Vec::with_capacity(wanted.len());
        let mut gone = Vec::new();
        for (topic, partition) in wanted {
            if group.reads(&topic) {
                answers.push(ErrorCode::GroupSubscribedToTopic);
                continue;
            }
            answers.push(ErrorCode::None);
            if group.offsets.has(&topic, partition) || group.on_the_way.has(&topic, partition) {
                gone.push((topic, partition));
            }
        }
        if gone.is_empty() {
            let _ = reply.send(Ok(answers));
            return None;
        }
        self.counts.deleted(gone.len());
        let mut entry = forget_offsets(name, gone);
        entry.then.push(Then::ReplyEach(reply, answers));
        Some(entry)
    }

    /// Forgets offsets that were kept long enough, and groups of which nothing is left: one step.
    pub fn expire_step(
        &mut self,
        walk: &mut Walk<Name>,
        retention_ms: u64,
        now: Now,
    ) -> Vec<Entry> {
        let retention = i64::try_from(retention_ms).unwrap_or(i64::MAX);
        let counts = self.counts.clone();
        self.step(walk, |name, group| {
            let over = expired(group, retention, now.wall);
            counts.expired(over.len());
            without(name, group, over, now)
        })
    }

    /// Forgets offsets of topics that `is_there` denies: one step.
    pub fn topics_gone_step(
        &mut self,
        walk: &mut Walk<Name>,
        is_there: impl Fn(&str, TopicId) -> bool,
        now: Now,
    ) -> Vec<Entry> {
        let counts = self.counts.clone();
        self.step(walk, |name, group| {
            let mut gone = group.places(|topic, id| !is_there(topic, id));
            // What is on its way to the topic's successor comes before our tombstone.
            gone.retain(|(topic, p)| !group.on_the_way.is_to(topic, *p, &is_there));
            if gone.is_empty() {
                return None;
            }
            counts.deleted(gone.len());
            without(name, group, gone, now)
        })
    }
}

/// Version of OffsetCommit from which a missing group has an error of its own.
const MISSING_GROUPS_SINCE: i16 = 9;

/// Whether a commit may be made by whoever makes it.
fn check_committer(group: &mut Group, commit: &Commit, now: Now) -> Result<(), ErrorCode> {
    let Commit { member_id, instance_id, generation, .. } = commit;
    match &mut group.kind {
        Kind::Classic(classic) => {
            let caller = Caller { member_id, instance_id: instance_id.as_deref() };
            classic.validate_commit(caller, *generation, commit.kind(), now)
        }
        Kind::Consumer(consumer) => {
            let committer = Committer {
                member_id,
                instance_id: instance_id.as_deref(),
                epoch: *generation,
                is_transactional: commit.transaction.is_some(),
                version: commit.version,
            };
            let code = |error: OffsetError| match error {
                // TxnOffsetCommit knows no other word for it.
                OffsetError::StaleEpoch { .. } if committer.is_transactional => {
                    ErrorCode::IllegalGeneration
                }
                error => error.code(),
            };
            let leave = consumer.validate_commit(&committer).map_err(code)?;
            commit.offsets.iter().try_for_each(|(_, index, committed)| {
                let Some(partition) = PartitionIndex::new(*index) else { return Ok(()) };
                let at = TopicPartition { topic: committed.topic_id, partition };
                leave.check(&at).map_err(code)
            })
        }
    }
}

/// Offsets of a group whose time is over (KIP-211).
fn expired(group: &Group, retention_ms: i64, now: TimestampMs) -> Vec<(Arc<str>, i32)> {
    if group.offsets.is_empty() {
        return Vec::new();
    }
    let since = match &group.kind {
        Kind::Consumer(_) => None,
        Kind::Classic(classic) => match classic.offset_expiry() {
            OffsetExpiry::Never => return Vec::new(),
            OffsetExpiry::SinceCommit => None,
            OffsetExpiry::SinceEmpty(since) => Some(since),
        },
    };
    group.offsets.committed().select(|topic, partition, Stored { committed, .. }| {
        let from = committed.committed_at.max(since.unwrap_or(committed.committed_at));
        let over = match committed.expires_at {
            ..0 => now.since_ms(from) >= retention_ms,
            at => now.get() >= at,
        };
        over && !group.reads(topic)
            && !group.offsets.is_pending(topic, partition)
            && !group.on_the_way.has(topic, partition)
    })
}

/// Removes offsets, and the group when it has nothing else.
fn without(name: &Name, group: &mut Group, gone: Vec<(Arc<str>, i32)>, now: Now) -> Option<Entry> {
    let is_all = gone.len() == group.offsets.committed().len();
    if is_all
        && group.is_removable()
        && let Ok(entry) = group.end(name, now)
    {
        return Some(entry);
    }
    (!gone.is_empty()).then(|| forget_offsets(name, gone))
}

fn forget_offsets(name: &Name, gone: Vec<(Arc<str>, i32)>) -> Entry {
    let records = gone.iter().map(|(topic, p)| offset_record(name, topic, *p, None)).collect();
    let then = Then::Forgotten { group: name.clone(), offsets: gone, whole: false };
    Entry::plain(records, vec![then])
}
