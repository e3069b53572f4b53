//! One member of a group: what it wants, and what it has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millstream_io::units::TopicPartition;

use super::epoch::Epoch;

/// Partitions that a member has or is to have.
pub type Partitions = BTreeSet<TopicPartition>;

/// Partitions that a member was told of, each with the epoch of the assignment that gave it
/// (KIP-1251).
pub type HeldPartitions = BTreeMap<TopicPartition, Epoch>;

/// One member. Its part of the log are its metadata and its current assignment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Member {
    pub metadata: MemberMetadata,
    pub current: CurrentAssignment,
}

impl Member {
    /// Whether it has come to the assignment of `epoch` and waits for nothing.
    pub fn is_reconciled_to(&self, epoch: Epoch) -> bool {
        self.current.state == MemberState::Stable && self.current.epoch == epoch
    }

    /// Whether it has left for a while and keeps its place.
    pub fn is_away(&self) -> bool {
        self.current.epoch == Epoch::LEAVE_STATIC
    }

    pub fn uses_classic_protocol(&self) -> bool {
        self.metadata.classic.is_some()
    }
}

/// What a member said of itself: Kafka's ConsumerGroupMemberMetadataValue.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct MemberMetadata {
    pub instance_id: Option<Arc<str>>,
    pub rack_id: Option<Arc<str>>,
    pub client_id: Arc<str>,
    pub client_host: Arc<str>,
    pub topic_names: BTreeSet<Arc<str>>,
    /// The pattern of topic names it subscribes to. Empty is as good as none.
    pub topic_regex: Option<Arc<str>>,
    pub rebalance_timeout_ms: i32,
    pub server_assignor: Option<Arc<str>>,
    /// Of a member that speaks the classic protocol in this group.
    pub classic: Option<ClassicMember>,
}

impl MemberMetadata {
    /// The pattern it subscribes to, if that is one.
    pub fn pattern(&self) -> Option<&Arc<str>> {
        self.topic_regex.as_ref().filter(|pattern| !pattern.is_empty())
    }
}

/// What is kept of a member that speaks the classic protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicMember {
    pub session_timeout_ms: i32,
    /// Name and metadata of each embedded protocol it supports, as it sent them.
    pub protocols: Vec<(Arc<str>, Arc<[u8]>)>,
}

/// How far a member has come: Kafka's ConsumerGroupCurrentMemberAssignmentValue.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CurrentAssignment {
    pub epoch: Epoch,
    /// Its epoch before this one; it may come again with it when an answer was lost.
    pub previous_epoch: Epoch,
    pub state: MemberState,
    pub assigned: HeldPartitions,
    /// What it was told to let go, and has not.
    pub revoking: HeldPartitions,
}

impl CurrentAssignment {
    /// All that nobody else may get.
    pub fn held(&self) -> impl Iterator<Item = &TopicPartition> {
        self.assigned.keys().chain(self.revoking.keys())
    }
}

/// Where a member is on its way to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MemberState {
    /// It has what its epoch gives it.
    #[default]
    Stable,
    /// It must let go of partitions first.
    UnrevokedPartitions,
    /// It waits for partitions that others have not let go of.
    UnreleasedPartitions,
}

impl MemberState {
    /// The number that Kafka's records carry.
    pub const fn number(self) -> i8 {
        match self {
            MemberState::Stable => 0,
            MemberState::UnrevokedPartitions => 1,
            MemberState::UnreleasedPartitions => 2,
        }
    }

    /// The state with this number; `None` for a number of a later version.
    pub const fn from_number(number: i8) -> Option<MemberState> {
        match number {
            0 => Some(MemberState::Stable),
            1 => Some(MemberState::UnrevokedPartitions),
            2 => Some(MemberState::UnreleasedPartitions),
            _ => None,
        }
    }
}
