//! ConsumerGroupDescribe: a group as an administrator sees it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use millstream_io::units::{TopicId, TopicPartition};

use super::ConsumerGroup;
use super::answer::by_topic;
use super::assignor::Assignor;
use super::epoch::Epoch;
use super::member::{Member, MemberMetadata};
use super::topics::TopicsView;
use crate::wire::Uuid;
use crate::wire::messages::consumer_group_describe as wire;

/// The state of a group of the new protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// It has no members.
    Empty,
    /// It is older than its epoch: the target is to be computed.
    Assigning,
    /// Not all members have come to the target.
    Reconciling,
    Stable,
    /// There is no such group.
    Dead,
}

impl GroupState {
    /// The name that clients are told.
    pub const fn name(self) -> &'static str {
        match self {
            GroupState::Empty => "Empty",
            GroupState::Assigning => "Assigning",
            GroupState::Reconciling => "Reconciling",
            GroupState::Stable => "Stable",
            GroupState::Dead => "Dead",
        }
    }
}

impl fmt::Display for GroupState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A group at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    pub state: GroupState,
    pub epoch: Epoch,
    pub assignment_epoch: Epoch,
    pub assignor: Assignor,
    pub members: Vec<MemberDescription>,
}

/// A member at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberDescription {
    pub id: Arc<str>,
    pub epoch: Epoch,
    pub metadata: MemberMetadata,
    pub assigned: Vec<TopicDescription>,
    pub target: Vec<TopicDescription>,
}

/// Partitions of one topic. Topics that are no more are not described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicDescription {
    pub id: TopicId,
    pub name: Arc<str>,
    pub partitions: Vec<i32>,
}

impl ConsumerGroup {
    pub fn state(&self) -> GroupState {
        let state = &self.state;
        if state.members.is_empty() {
            GroupState::Empty
        } else if state.epoch > state.assignment_epoch {
            GroupState::Assigning
        } else if state.members.values().all(|m| m.is_reconciled_to(state.assignment_epoch)) {
            GroupState::Stable
        } else {
            GroupState::Reconciling
        }
    }

    pub fn describe(&self, topics: &dyn TopicsView) -> GroupDescription {
        let describe = |(id, member): (&Arc<str>, &Member)| {
            let target = self.state.targets.get(id);
            let held: BTreeSet<TopicPartition> = member.current.held().copied().collect();
            MemberDescription {
                id: id.clone(),
                epoch: member.current.epoch,
                metadata: member.metadata.clone(),
                // What it has not let go of is its own still.
                assigned: described(&held, topics),
                target: described(target.into_iter().flatten(), topics),
            }
        };
        GroupDescription {
            state: self.state(),
            epoch: self.state.epoch,
            assignment_epoch: self.state.assignment_epoch,
            assignor: self.assignor(),
            members: self.state.members.iter().map(describe).collect(),
        }
    }
}

fn described<'a>(
    partitions: impl IntoIterator<Item = &'a TopicPartition>,
    topics: &dyn TopicsView,
) -> Vec<TopicDescription> {
    let named = |(id, partitions)| {
        let name = topics.name_of(id)?;
        Some(TopicDescription { id, name, partitions })
    };
    by_topic(partitions).filter_map(named).collect()
}

impl GroupDescription {
    /// The group as the wire carries it; rights and errors are the caller's to add.
    pub fn response<'a>(&'a self, group_id: &'a str) -> wire::DescribedGroup<'a> {
        wire::DescribedGroup {
            group_id,
            group_state: self.state.name(),
            group_epoch: self.epoch.get(),
            assignment_epoch: self.assignment_epoch.get(),
            assignor_name: self.assignor.name(),
            members: self.members.iter().map(MemberDescription::response).collect(),
            ..Default::default()
        }
    }
}

/// Member types of version 1.
const CLASSIC_MEMBER: i8 = 0;
const CONSUMER_MEMBER: i8 = 1;

impl MemberDescription {
    fn response(&self) -> wire::Member<'_> {
        let metadata = &self.metadata;
        let is_classic = metadata.classic.is_some();
        let names = metadata.topic_names.iter().map(|name| &**name);
        wire::Member {
            member_id: &self.id,
            instance_id: metadata.instance_id.as_deref(),
            rack_id: metadata.rack_id.as_deref(),
            member_epoch: self.epoch.get(),
            client_id: &metadata.client_id,
            client_host: &metadata.client_host,
            subscribed_topic_names: names.collect(),
            // Kafka tells of no pattern by an empty one.
            subscribed_topic_regex: Some(metadata.topic_regex.as_deref().unwrap_or_default()),
            assignment: assignment(&self.assigned),
            target_assignment: assignment(&self.target),
            member_type: if is_classic { CLASSIC_MEMBER } else { CONSUMER_MEMBER },
        }
    }
}

fn assignment(topics: &[TopicDescription]) -> wire::Assignment<'_> {
    wire::Assignment { topic_partitions: topics.iter().map(TopicDescription::response).collect() }
}

impl TopicDescription {
    fn response(&self) -> wire::TopicPartitions<'_> {
        wire::TopicPartitions {
            topic_id: Uuid(*self.id.as_bytes()),
            topic_name: &self.name,
            partitions: self.partitions.clone(),
        }
    }
}

#[cfg(test)]
#[path = "describe_tests.rs"]
mod tests;
