//! Who gets which partitions: the question that every server-side assignor answers.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use millstream_io::units::{PartitionIndex, TopicId, TopicPartition};

use super::member::Partitions;
use super::{range, uniform};

/// An assignor that members may ask for by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assignor {
    /// Even numbers for all, moving as little as it can.
    Uniform,
    /// Neighbouring partitions of each topic, so that topics of one size are cut alike.
    Range,
}

impl Assignor {
    pub const fn name(self) -> &'static str {
        match self {
            Assignor::Uniform => "uniform",
            Assignor::Range => "range",
        }
    }

    /// The assignor with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Assignor> {
        [Assignor::Uniform, Assignor::Range].into_iter().find(|assignor| assignor.name() == name)
    }

    /// Gives every partition of every subscribed topic to one of its subscribers.
    pub(super) fn assign(self, group: &GroupSpec<'_>) -> Vec<Partitions> {
        let assigned = match self {
            Assignor::Uniform => uniform::assign(group),
            Assignor::Range => range::assign(group),
        };
        assert_eq!(assigned.len(), group.members.len(), "members of an assignment");
        assigned
    }
}

impl fmt::Display for Assignor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A group as an assignor sees it.
pub(super) struct GroupSpec<'a> {
    /// In the order of their ids.
    pub members: Vec<MemberSpec<'a>>,
    /// Partition counts of all topics that any member subscribes to.
    pub topics: BTreeMap<TopicId, u32>,
}

/// A member as an assignor sees it.
pub(super) struct MemberSpec<'a> {
    pub id: &'a Arc<str>,
    pub instance_id: Option<&'a Arc<str>>,
    /// Topics it subscribes to that exist, in ascending order.
    pub topics: Arc<[TopicId]>,
    /// What it had in the target before.
    pub before: &'a Partitions,
}

impl MemberSpec<'_> {
    pub fn subscribes(&self, topic: TopicId) -> bool {
        self.topics.binary_search(&topic).is_ok()
    }
}

impl GroupSpec<'_> {
    /// Partitions of a topic, in order.
    pub fn partitions(&self, topic: TopicId) -> impl Iterator<Item = TopicPartition> + use<> {
        let count = self.topics.get(&topic).copied().unwrap_or(0);
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        (0..count).map(move |index| TopicPartition { topic, partition: PartitionIndex::at(index) })
    }

    /// All partitions to be assigned, in order.
    pub fn all_partitions(&self) -> impl Iterator<Item = TopicPartition> {
        self.topics.keys().flat_map(|topic| self.partitions(*topic))
    }

    /// What each member had and may still have. Where two had the same (a log can say so), the
    /// first has it.
    pub fn retained(&self) -> Vec<Vec<TopicPartition>> {
        let mut taken = HashSet::new();
        let retained = |member: &MemberSpec<'_>| {
            let keeps = |partition: &&TopicPartition| {
                member.subscribes(partition.topic)
                    && self.has(partition)
                    && taken.insert(**partition)
            };
            member.before.iter().filter(keeps).copied().collect()
        };
        self.members.iter().map(retained).collect()
    }

    fn has(&self, partition: &TopicPartition) -> bool {
        let count = self.topics.get(&partition.topic).copied().unwrap_or(0);
        partition.partition.get().unsigned_abs() < count
    }
}

#[cfg(test)]
#[path = "assignor_tests.rs"]
pub(super) mod tests;
