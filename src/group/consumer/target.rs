//! What a group subscribes to, and the target assignment that follows from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millstream_io::units::TopicId;

use super::ConsumerGroup;
use super::assignor::{Assignor, GroupSpec, MemberSpec};
use super::member::{Member, Partitions};
use super::record::{ConsumerRecord, GroupMetadata};
use super::state::State;
use super::topics::{TopicFacts, TopicsView};

impl ConsumerGroup {
    /// Looks whether the topics that the group subscribes to have changed, and raises the group's
    /// epoch when they have or `must` says so.
    pub(super) fn bump_epoch_if(
        &mut self,
        must: bool,
        topics: &dyn TopicsView,
        records: &mut Vec<ConsumerRecord>,
    ) {
        let must = must || self.soft.must_bump;
        if !must && self.soft.seen_version == Some(topics.version()) {
            return;
        }
        self.soft.seen_version = Some(topics.version());
        let metadata_hash = subscribed_hash(&self.state, topics);
        if must || metadata_hash != self.state.metadata_hash {
            // A log whose beginning is lost could hold later epochs than the group's own.
            let members = self.state.members.values().map(|member| member.current.epoch);
            let past = members.max().unwrap_or_default().max(self.state.assignment_epoch);
            let epoch = self.state.epoch.max(past).next();
            let value = GroupMetadata { epoch, metadata_hash };
            self.put(ConsumerRecord::GroupMetadata(Some(value)), records);
            self.soft.must_bump = false;
        }
    }

    /// Computes the target for the group's epoch, if that is newer than the target's.
    pub(super) fn assign_if_due(
        &mut self,
        topics: &dyn TopicsView,
        records: &mut Vec<ConsumerRecord>,
    ) {
        if self.state.epoch <= self.state.assignment_epoch {
            return;
        }
        for record in new_targets(&self.state, self.assignor(), topics) {
            self.put(record, records);
        }
        let epoch = self.state.epoch;
        self.put(ConsumerRecord::TargetAssignmentMetadata(Some(epoch)), records);
    }

    /// Stands for the topics that the group subscribes to, as its metadata has it.
    pub(super) fn subscribed_hash(&self, topics: &dyn TopicsView) -> i64 {
        subscribed_hash(&self.state, topics)
    }

    /// The assignor that most members ask for; the first of the settings when none does, or before
    /// others with as many votes.
    pub(super) fn assignor(&self) -> Assignor {
        let voted = |member: &Member| {
            member.metadata.server_assignor.as_deref().and_then(Assignor::from_name)
        };
        let votes: Vec<Assignor> = self.state.members.values().filter_map(voted).collect();
        let count = |assignor: &Assignor| votes.iter().filter(|vote| *vote == assignor).count();
        // Of equals `max_by_key` takes the last.
        let offered = self.settings.assignors.iter().rev().copied();
        offered.max_by_key(count).unwrap_or(Assignor::Uniform)
    }
}

/// Records that turn the targets of `state` into those of its epoch: only what changes.
fn new_targets(state: &State, assignor: Assignor, topics: &dyn TopicsView) -> Vec<ConsumerRecord> {
    let none = Partitions::new();
    let target = |id: &Arc<str>| state.targets.get(id).unwrap_or(&none);
    let mut found = Found::new(topics);
    let subscriptions: Vec<Subscription> =
        state.members.values().map(|member| found.subscription(state, member)).collect();
    let members = state.members.iter().zip(&subscriptions);
    let members = members.map(|((id, member), subscription)| MemberSpec {
        id,
        instance_id: member.metadata.instance_id.as_ref(),
        topics: subscription.clone(),
        before: target(id),
    });
    let group = GroupSpec { members: members.collect(), topics: found.counts() };
    let assigned = assignor.assign(&group);

    let gone = state.targets.keys().filter(|id| !state.members.contains_key(*id));
    let gone = gone.map(|id| (id, None));
    let changed = state.members.keys().zip(assigned).filter_map(|(id, partitions)| {
        let is_same = state.targets.get(id) == Some(&partitions);
        (!is_same).then_some((id, Some(partitions)))
    });
    gone.chain(changed)
        .map(|(id, value)| ConsumerRecord::TargetAssignmentMember { member: id.clone(), value })
        .collect()
}

/// Topics that a member subscribes to and that exist, in ascending order.
type Subscription = Arc<[TopicId]>;

/// Topics looked up once for all members.
struct Found<'a> {
    topics: &'a dyn TopicsView,
    by_name: BTreeMap<Arc<str>, Option<TopicFacts>>,
    /// The last subscription, which most often is the next member's too.
    last: Option<Subscription>,
}

impl<'a> Found<'a> {
    fn new(topics: &'a dyn TopicsView) -> Found<'a> {
        Found { topics, by_name: BTreeMap::new(), last: None }
    }

    fn subscription(&mut self, state: &State, member: &Member) -> Subscription {
        let names = subscribed_names(state, member);
        let ids: BTreeSet<TopicId> = names.filter_map(|name| Some(self.facts(name)?.id)).collect();
        let ids: Vec<TopicId> = ids.into_iter().collect();
        match &self.last {
            Some(last) if **last == *ids => last.clone(),
            _ => self.last.insert(ids.into()).clone(),
        }
    }

    fn facts(&mut self, name: &Arc<str>) -> Option<TopicFacts> {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        let facts = self.topics.by_name(name);
        self.by_name.insert(name.clone(), facts);
        facts
    }

    fn counts(&self) -> BTreeMap<TopicId, u32> {
        self.by_name.values().flatten().map(|facts| (facts.id, facts.partitions)).collect()
    }
}

/// Names a member subscribes to, by themselves and by its pattern as far as that is resolved.
fn subscribed_names<'a>(
    state: &'a State,
    member: &'a Member,
) -> impl Iterator<Item = &'a Arc<str>> {
    let pattern = member.metadata.pattern();
    let matched = pattern.and_then(|pattern| state.patterns.get(pattern));
    member.metadata.topic_names.iter().chain(matched.into_iter().flatten())
}

/// Stands for all topics the group subscribes to that exist; 0 when there are none.
fn subscribed_hash(state: &State, topics: &dyn TopicsView) -> i64 {
    let names: BTreeSet<&Arc<str>> =
        state.members.values().flat_map(|member| subscribed_names(state, member)).collect();
    let mut hash = Fnv::default();
    for name in names {
        if let Some(facts) = topics.by_name(name) {
            hash.write(name.as_bytes());
            hash.write(facts.id.as_bytes());
            hash.write(&facts.partitions.to_be_bytes());
        }
    }
    hash.finish()
}

/// FNV-1a in 64 bits: the same number in every version of this program. The id and the count that
/// follow each name have fixed lengths, so no two lists of topics feed it the same bytes but by
/// names that hold such bytes, which names of topics cannot.
#[derive(Default)]
struct Fnv(Option<u64>);

impl Fnv {
    fn write(&mut self, bytes: &[u8]) {
        let mut hash = self.0.unwrap_or(0xcbf2_9ce4_8422_2325);
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self.0 = Some(hash);
    }

    fn finish(self) -> i64 {
        i64::from_be_bytes(self.0.unwrap_or(0).to_be_bytes())
    }
}
