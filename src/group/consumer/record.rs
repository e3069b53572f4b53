//! What a group writes to its log: plain values that mirror the records of Apache Kafka's
//! `__consumer_offsets` for the new protocol. The key's group id is the group's own.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::epoch::Epoch;
use super::member::{CurrentAssignment, MemberMetadata, Partitions};

/// One record. `None` as a value is a tombstone.
///
/// A value that Kafka's record holds and this does not is informational and this broker reads it
/// nowhere: version and timestamp of a resolved regular expression, the time of an assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConsumerRecord {
    /// ConsumerGroupMetadata, key version 3.
    GroupMetadata(Option<GroupMetadata>),
    /// ConsumerGroupPartitionMetadata, key version 4. Kafka 4.0 wrote what a group knew of its
    /// topics; since 4.1 there is the hash in the group's metadata, and only tombstones are written.
    PartitionMetadata { is_tombstone: bool },
    /// ConsumerGroupMemberMetadata, key version 5.
    MemberMetadata { member: Arc<str>, value: Option<MemberMetadata> },
    /// ConsumerGroupTargetAssignmentMetadata, key version 6.
    TargetAssignmentMetadata(Option<Epoch>),
    /// ConsumerGroupTargetAssignmentMember, key version 7.
    TargetAssignmentMember { member: Arc<str>, value: Option<Partitions> },
    /// ConsumerGroupCurrentMemberAssignment, key version 8.
    CurrentMemberAssignment { member: Arc<str>, value: Option<CurrentAssignment> },
    /// ConsumerGroupRegularExpression, key version 16: the names that a pattern matches.
    RegularExpression { pattern: Arc<str>, value: Option<BTreeSet<Arc<str>>> },
}

impl ConsumerRecord {
    /// Whether it only takes something away.
    pub fn is_tombstone(&self) -> bool {
        match self {
            ConsumerRecord::GroupMetadata(value) => value.is_none(),
            ConsumerRecord::PartitionMetadata { is_tombstone } => *is_tombstone,
            ConsumerRecord::MemberMetadata { value, .. } => value.is_none(),
            ConsumerRecord::TargetAssignmentMetadata(value) => value.is_none(),
            ConsumerRecord::TargetAssignmentMember { value, .. } => value.is_none(),
            ConsumerRecord::CurrentMemberAssignment { value, .. } => value.is_none(),
            ConsumerRecord::RegularExpression { value, .. } => value.is_none(),
        }
    }
}

/// Value of [`ConsumerRecord::GroupMetadata`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMetadata {
    pub epoch: Epoch,
    /// Stands for names, ids and partition counts of all topics the group subscribes to; 0 when
    /// there are none. Each broker's own: nobody else can tell anything from it.
    pub metadata_hash: i64,
}
