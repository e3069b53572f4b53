//! The part of a group that its log holds: replaying all of its records gives it again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use millstream_io::units::TopicPartition;

use super::epoch::Epoch;
use super::member::{CurrentAssignment, Member, MemberMetadata, Partitions};
use super::record::{ConsumerRecord, GroupMetadata};

/// Changes in [`State::apply`] alone, live and at replay, so that both ways lead to the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    pub epoch: Epoch,
    pub metadata_hash: i64,
    pub assignment_epoch: Epoch,
    pub members: BTreeMap<Arc<str>, Member>,
    /// Member id of each instance id.
    pub statics: HashMap<Arc<str>, Arc<str>>,
    pub targets: BTreeMap<Arc<str>, Partitions>,
    /// Who holds each partition, assigned or not yet let go. The epoch of a partition is that of
    /// its owner.
    pub owners: HashMap<TopicPartition, Arc<str>>,
    /// Names that each pattern matches, as far as that is known.
    pub patterns: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// How many members subscribe to each pattern.
    pub pattern_subscribers: BTreeMap<Arc<str>, usize>,
    /// The log holds a record of Kafka 4.0 that a deletion must remove.
    pub has_partition_metadata: bool,
}

impl State {
    /// Takes one record. Total: a log that a compaction thinned out, or that lacks its beginning,
    /// is taken as it is, and the last word on a partition's owner counts.
    pub fn apply(&mut self, record: &ConsumerRecord) {
        match record {
            ConsumerRecord::GroupMetadata(value) => {
                let GroupMetadata { epoch, metadata_hash } =
                    value.unwrap_or(GroupMetadata { epoch: Epoch::ZERO, metadata_hash: 0 });
                (self.epoch, self.metadata_hash) = (epoch, metadata_hash);
            }
            ConsumerRecord::PartitionMetadata { is_tombstone } => {
                self.has_partition_metadata = !is_tombstone;
            }
            ConsumerRecord::MemberMetadata { member, value: Some(value) } => {
                self.set_metadata(member, value.clone());
            }
            ConsumerRecord::MemberMetadata { member, value: None } => self.remove_member(member),
            ConsumerRecord::TargetAssignmentMetadata(epoch) => {
                self.assignment_epoch = epoch.unwrap_or_default();
            }
            ConsumerRecord::TargetAssignmentMember { member, value: Some(value) } => {
                self.targets.insert(member.clone(), value.clone());
            }
            ConsumerRecord::TargetAssignmentMember { member, value: None } => {
                self.targets.remove(member);
            }
            ConsumerRecord::CurrentMemberAssignment { member, value: Some(value) } => {
                self.set_current(member, value.clone());
            }
            ConsumerRecord::CurrentMemberAssignment { member, value: None } => {
                if self.members.contains_key(member) {
                    self.set_current(member, CurrentAssignment::default());
                }
            }
            ConsumerRecord::RegularExpression { pattern, value: Some(value) } => {
                self.patterns.insert(pattern.clone(), value.clone());
            }
            ConsumerRecord::RegularExpression { pattern, value: None } => {
                self.patterns.remove(pattern);
            }
        }
    }

    fn set_metadata(&mut self, id: &Arc<str>, value: MemberMetadata) {
        self.forget_metadata(id);
        if let Some(instance) = &value.instance_id {
            self.statics.insert(instance.clone(), id.clone());
        }
        if let Some(pattern) = value.pattern() {
            *self.pattern_subscribers.entry(pattern.clone()).or_default() += 1;
        }
        self.members.entry(id.clone()).or_default().metadata = value;
    }

    fn remove_member(&mut self, id: &Arc<str>) {
        self.forget_metadata(id);
        if let Some(member) = self.members.remove(id) {
            self.release(id, &member.current);
        }
    }

    /// Takes out of the tables what the metadata of a member put in.
    fn forget_metadata(&mut self, id: &Arc<str>) {
        let Some(member) = self.members.get(id) else { return };
        if let Some(instance) = &member.metadata.instance_id
            && self.statics.get(instance) == Some(id)
        {
            self.statics.remove(instance);
        }
        if let Some(pattern) = member.metadata.pattern()
            && let Some(count) = self.pattern_subscribers.get_mut(pattern)
        {
            *count -= 1;
            if *count == 0 {
                self.pattern_subscribers.remove(pattern);
            }
        }
    }

    fn set_current(&mut self, id: &Arc<str>, value: CurrentAssignment) {
        let member = self.members.entry(id.clone()).or_default();
        let before = std::mem::replace(&mut member.current, value.clone());
        self.release(id, &before);
        for partition in value.held() {
            self.owners.insert(*partition, id.clone());
        }
    }

    fn release(&mut self, id: &Arc<str>, current: &CurrentAssignment) {
        for partition in current.held() {
            if self.owners.get(partition) == Some(id) {
                self.owners.remove(partition);
            }
        }
    }
}
