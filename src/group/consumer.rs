//! Consumer groups of the new protocol (KIP-848), as Apache Kafka 4's group coordinator keeps them.
//!
//! The coordinator holds, for each group, who its members are and what they subscribe to; from that
//! an assignor computes the *target* assignment, one for each *group epoch*. Heartbeat by heartbeat
//! each member is brought from what it has to its target: first it lets go of what it shall not
//! keep, then it gets what others have let go of. So a partition never has two owners, and members
//! that keep their partitions notice nothing.
//!
//! What stands where: [`epoch`] and [`member`] the words, `state` what the log holds and
//! [`record`] the log's records, [`heartbeat`](ConsumerGroup::heartbeat) joining and staying,
//! `leave` going, `guests` members that speak the classic protocol, with `embedded` their words,
//! `migration` a group that changes its protocol with its members, `reconcile` one member's next step, `target` when there is a new target and
//! [`assignor`] with `uniform` and `range` which, `pattern` and `scan` subscriptions by regular
//! expression, [`validate`] offsets, [`describe`] administrators.

pub mod answer;
pub mod assignor;
pub mod describe;
mod embedded;
pub mod epoch;
mod guests;
mod heartbeat;
mod leave;
pub mod member;
mod migration;
mod pattern;
mod range;
mod reconcile;
pub mod record;
pub mod request;
mod scan;
pub mod settings;
mod state;
mod target;
mod timers;
pub mod topics;
mod uniform;
pub mod validate;

pub use answer::HeartbeatAnswer;
pub use describe::{GroupDescription, GroupState};
pub use epoch::Epoch;
pub use migration::{Downgrade, UpgradeError};
pub use pattern::{Pattern, PatternError};
pub use record::ConsumerRecord;
pub use request::{Caller, HeartbeatError};
pub use settings::{ConsumerSettings, MemberTimes};
pub use topics::{TopicFacts, TopicsView};
pub use validate::{CommitLeave, Committer, OffsetError};

use std::sync::Arc;

use member::MemberState;
use record::GroupMetadata;
use scan::Scan;
use state::State;
use timers::{Revocation, Timers};

/// One consumer group. Lives on the core that owns its partition of `__consumer_offsets`.
///
/// Changes happen in memory at once and are told as records. Whoever drives the group writes them
/// in order, answers when they are durable, and when a write fails throws the group away and loads
/// it again: [`new`](ConsumerGroup::new), [`replay`](ConsumerGroup::replay) of every record,
/// [`loaded`](ConsumerGroup::loaded). Time is an argument: milliseconds of a clock that never goes
/// back.
#[derive(Debug)]
pub struct ConsumerGroup {
    settings: ConsumerSettings,
    state: State,
    soft: Soft,
}

/// What is not in the log.
#[derive(Debug, Default)]
struct Soft {
    timers: Timers,
    /// Version of the topics that the group's hash was last computed from.
    seen_version: Option<u64>,
    /// Version of the topics that all patterns were last matched with, and when.
    scanned: Option<(u64, u64)>,
    scan: Option<Scan>,
    /// The log says what no group says: a member or a target ahead of the group.
    must_bump: bool,
    /// Members of the classic protocol were left alone in it.
    downgrade: Option<Downgrade>,
}

impl ConsumerGroup {
    /// A group without members and without records.
    pub fn new(settings: ConsumerSettings) -> ConsumerGroup {
        ConsumerGroup { settings, state: State::default(), soft: Soft::default() }
    }

    /// Takes a record of the log, in the log's order.
    pub fn replay(&mut self, record: &ConsumerRecord) {
        self.state.apply(record);
    }

    /// All records were replayed: members have a session from now on, and those that must let go
    /// of partitions their whole time for it.
    pub fn loaded(&mut self, now: u64) {
        self.soft = Soft::default();
        let state = &self.state;
        self.soft.must_bump = state.assignment_epoch > state.epoch
            || state.members.values().any(|member| member.current.epoch > state.assignment_epoch);
        for (id, member) in &state.members {
            let session = now.saturating_add(self.session_timeout_ms(id));
            self.soft.timers.set_session(id, session);
            let must_let_go = member.current.state == MemberState::UnrevokedPartitions;
            if must_let_go && !member.is_away() && !member.uses_classic_protocol() {
                let timeout = u64::try_from(member.metadata.rebalance_timeout_ms).unwrap_or(0);
                let at = now.saturating_add(timeout);
                let epoch = member.current.epoch;
                self.soft.timers.set_revocation(id, Some(Revocation { at, epoch }));
            }
        }
    }

    /// Sets what an operator changed. Deadlines that run stay as they are.
    pub fn set_settings(&mut self, settings: ConsumerSettings) {
        self.settings = settings;
    }

    /// Sets what members keep to. Each member has the changed session from its next heartbeat on.
    pub fn set_times(&mut self, times: MemberTimes) {
        self.settings.times = times;
    }

    /// Whether it has no members, and so may be deleted when its offsets are gone.
    pub fn is_empty(&self) -> bool {
        self.state.members.is_empty()
    }

    pub fn member_count(&self) -> usize {
        self.state.members.len()
    }

    pub fn epoch(&self) -> Epoch {
        self.state.epoch
    }

    /// Tombstones for every record that the log may still hold of this group. The group is to be
    /// dropped with them.
    pub fn tombstones(&self) -> Vec<ConsumerRecord> {
        let ids = || self.state.members.keys().cloned();
        let target_ids = self.state.targets.keys().cloned();
        let patterns = self.state.patterns.keys().cloned();
        let mut records: Vec<ConsumerRecord> = ids()
            .map(|member| ConsumerRecord::CurrentMemberAssignment { member, value: None })
            .collect();
        records.extend(
            target_ids.map(|member| ConsumerRecord::TargetAssignmentMember { member, value: None }),
        );
        records.push(ConsumerRecord::TargetAssignmentMetadata(None));
        records.extend(ids().map(|member| ConsumerRecord::MemberMetadata { member, value: None }));
        records.extend(
            patterns.map(|pattern| ConsumerRecord::RegularExpression { pattern, value: None }),
        );
        if self.state.has_partition_metadata {
            records.push(ConsumerRecord::PartitionMetadata { is_tombstone: true });
        }
        records.push(ConsumerRecord::GroupMetadata(None));
        records
    }

    /// Records that, replayed into a new group, give this one again.
    pub fn records(&self) -> Vec<ConsumerRecord> {
        let state = &self.state;
        let group = GroupMetadata { epoch: state.epoch, metadata_hash: state.metadata_hash };
        let mut records = vec![ConsumerRecord::GroupMetadata(Some(group))];
        records.extend(state.members.iter().map(|(id, member)| ConsumerRecord::MemberMetadata {
            member: id.clone(),
            value: Some(member.metadata.clone()),
        }));
        records.extend(state.patterns.iter().map(|(pattern, names)| {
            ConsumerRecord::RegularExpression {
                pattern: pattern.clone(),
                value: Some(names.clone()),
            }
        }));
        records.push(ConsumerRecord::TargetAssignmentMetadata(Some(state.assignment_epoch)));
        records.extend(state.targets.iter().map(|(id, target)| {
            ConsumerRecord::TargetAssignmentMember {
                member: id.clone(),
                value: Some(target.clone()),
            }
        }));
        records.extend(state.members.iter().map(|(id, member)| {
            ConsumerRecord::CurrentMemberAssignment {
                member: id.clone(),
                value: Some(member.current.clone()),
            }
        }));
        records
    }

    /// Makes a change: in memory, and for the log.
    fn put(&mut self, record: ConsumerRecord, records: &mut Vec<ConsumerRecord>) {
        self.state.apply(&record);
        records.push(record);
    }

    fn session_timeout_ms(&self, id: &Arc<str>) -> u64 {
        let member = self.state.members.get(id);
        match member.and_then(|member| member.metadata.classic.as_ref()) {
            Some(classic) => u64::try_from(classic.session_timeout_ms).unwrap_or(0),
            None => u64::from(self.settings.times.session_timeout_ms),
        }
    }
}

#[cfg(test)]
#[path = "consumer/group_tests.rs"]
mod group_tests;
#[cfg(test)]
#[path = "consumer/testing.rs"]
pub(super) mod testing;
#[cfg(test)]
#[path = "consumer/walk_tests.rs"]
mod walk_tests;
