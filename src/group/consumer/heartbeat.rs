//! ConsumerGroupHeartbeat: joins, keeps and leaves.

use std::collections::BTreeSet;
use std::sync::Arc;

use millstream_io::units::{PartitionIndex, TopicId, TopicPartition};

use super::ConsumerGroup;
use super::answer::HeartbeatAnswer;
use super::epoch::Epoch;
use super::member::{CurrentAssignment, Member, MemberMetadata, MemberState, Partitions};
use super::pattern::Pattern;
use super::reconcile::Step;
use super::record::ConsumerRecord;
use super::request::{self, Caller, HeartbeatError};
use super::timers::Revocation;
use super::topics::TopicsView;
use crate::wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;

/// A member that may go on: who it is, and what was known of it.
pub(super) struct Admitted {
    pub id: Arc<str>,
    /// The member with this id, or the one whose place it takes.
    pub before: Option<Member>,
    /// The static member whose place it takes.
    pub replaces: Option<Arc<str>>,
}

impl ConsumerGroup {
    /// Takes a heartbeat. The answer may be sent when the records are in the log, and durable.
    ///
    /// # Errors
    /// [`HeartbeatError`]; nothing has changed then, and there is nothing to write.
    pub fn heartbeat(
        &mut self,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        caller: &Caller<'_>,
        topics: &dyn TopicsView,
        now: u64,
    ) -> Result<(HeartbeatAnswer, Vec<ConsumerRecord>), HeartbeatError> {
        request::check(request, caller.version, &self.settings)?;
        if request.member_epoch < 0 {
            return self.leave(request, topics);
        }
        if self.state.epoch >= Epoch::LAST {
            return Err(HeartbeatError::EpochsUsedUp { epoch: self.state.epoch });
        }
        let owned = request.topic_partitions.as_ref().map(|_| owned_partitions(request));
        let admitted = self.admit(request, caller, owned.as_ref())?;
        let metadata = updated_metadata(admitted.before.as_ref(), request, caller);
        self.check_pattern(admitted.before.as_ref(), &metadata)?;

        let mut records = Vec::new();
        let id = admitted.id.clone();
        self.update_member(admitted, metadata, topics, now, &mut records);
        self.soft.timers.set_guest(&id, None, None);
        let (before, after) = self.reconcile(&id, owned.as_ref(), now, &mut records);

        let is_lost_answer = request.member_epoch < before.epoch.get();
        let is_full = request.member_epoch == 0
            || (request.rebalance_timeout_ms != -1
                && (request.subscribed_topic_names.is_some()
                    || request.subscribed_topic_regex.is_some())
                && request.topic_partitions.is_some());
        let has_changed = !before.assigned.keys().eq(after.assigned.keys());
        let assignment: Option<Partitions> = (is_full || has_changed || is_lost_answer)
            .then(|| after.assigned.keys().copied().collect());
        let answer = HeartbeatAnswer {
            member_id: id,
            member_epoch: after.epoch,
            heartbeat_interval_ms: self.settings.times.heartbeat_interval_ms,
            assignment,
        };
        Ok((answer, records))
    }

    /// Finds the member, or a place for it.
    fn admit(
        &self,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        caller: &Caller<'_>,
        owned: Option<&Partitions>,
    ) -> Result<Admitted, HeartbeatError> {
        let is_join = request.member_epoch == 0;
        let has_id = !request.member_id.trim().is_empty();
        let member_id = if has_id { request.member_id } else { caller.fresh_member_id };
        let incumbent = request.instance_id.and_then(|instance| self.static_member(instance));
        let known = self.state.members.get_key_value(member_id);

        let members_max = self.settings.members_max;
        let takes_a_place = known.is_none() && !(is_join && incumbent.is_some());
        if takes_a_place && self.state.members.len() >= members_max {
            return Err(HeartbeatError::GroupIsFull { members_max });
        }
        match (request.instance_id, incumbent) {
            (Some(instance), None) if !is_join => {
                let instance_id = instance.to_owned();
                return Err(HeartbeatError::UnknownInstance { instance_id });
            }
            (Some(instance), Some((owner, member))) if **owner != *member_id => {
                let (instance_id, owner_id) = (instance.to_owned(), owner.to_string());
                if !is_join {
                    return Err(HeartbeatError::FencedInstance { instance_id, owner: owner_id });
                }
                // A member of the classic protocol gives its place up without leaving first.
                if !member.is_away() && !member.uses_classic_protocol() {
                    return Err(HeartbeatError::UnreleasedInstance {
                        instance_id,
                        owner: owner_id,
                    });
                }
                let (before, replaces) = (Some(member.clone()), Some(owner.clone()));
                return Ok(Admitted { id: member_id.into(), before, replaces });
            }
            (Some(_), _) | (None, _) => {}
        }
        match known {
            Some((id, member)) => {
                check_epoch(member, Epoch::new(request.member_epoch), owned)?;
                Ok(Admitted { id: id.clone(), before: Some(member.clone()), replaces: None })
            }
            None if is_join => Ok(Admitted { id: member_id.into(), before: None, replaces: None }),
            None => Err(HeartbeatError::UnknownMember { member_id: member_id.to_owned() }),
        }
    }

    /// The member with an instance id.
    pub(super) fn static_member(&self, instance: &str) -> Option<(&Arc<str>, &Member)> {
        let id = self.state.statics.get(instance)?;
        self.state.members.get_key_value(id)
    }

    /// A pattern that is new to the group must be valid.
    fn check_pattern(
        &self,
        before: Option<&Member>,
        metadata: &MemberMetadata,
    ) -> Result<(), HeartbeatError> {
        let Some(pattern) = metadata.pattern() else { return Ok(()) };
        let before = before.and_then(|member| member.metadata.pattern());
        if before == Some(pattern) || self.state.pattern_subscribers.contains_key(pattern) {
            return Ok(());
        }
        match Pattern::new(pattern) {
            Ok(_) => Ok(()),
            Err(error) => Err(HeartbeatError::Pattern { text: pattern.to_string(), error }),
        }
    }

    /// Writes down what a member wants, and looks whether the group needs another target for it.
    pub(super) fn update_member(
        &mut self,
        admitted: Admitted,
        metadata: MemberMetadata,
        topics: &dyn TopicsView,
        now: u64,
        records: &mut Vec<ConsumerRecord>,
    ) {
        let Admitted { id, before, replaces } = admitted;
        let wanted = before.as_ref().map(|member| &member.metadata);
        let given_up = self.state.members.get(&id).map(|member| &member.metadata);
        let mut old_patterns: Vec<Arc<str>> = Vec::new();
        old_patterns.extend(wanted.and_then(|wanted| wanted.pattern()).cloned());
        old_patterns.extend(given_up.and_then(|wanted| wanted.pattern()).cloned());
        // A member that takes over another's place gives up its own, so its target is free.
        let mut must = replaces.is_some() && given_up.is_some();
        if let (Some(old), Some(member)) = (&replaces, &before) {
            self.replace(old, &id, member, records);
        }
        must |= wanted.is_none_or(|wanted| {
            wanted.topic_names != metadata.topic_names || wanted.pattern() != metadata.pattern()
        });
        if self.state.members.get(&id).is_none_or(|member| member.metadata != metadata) {
            let value = Some(metadata);
            self.put(ConsumerRecord::MemberMetadata { member: id.clone(), value }, records);
        }
        for pattern in &old_patterns {
            self.forget_pattern(pattern, records);
        }
        must |= self.resolve_patterns(topics, now, records);
        self.bump_epoch_if(must, topics, records);
        self.assign_if_due(topics, records);
        let session = now.saturating_add(self.session_timeout_ms(&id));
        self.soft.timers.set_session(&id, session);
    }

    /// Puts a static member that is back under another id in the place of the one that left.
    fn replace(
        &mut self,
        old: &Arc<str>,
        id: &Arc<str>,
        member: &Member,
        records: &mut Vec<ConsumerRecord>,
    ) {
        let target = self.state.targets.get(old).cloned().unwrap_or_default();
        self.remove(old, records);
        let metadata = Some(member.metadata.clone());
        self.put(ConsumerRecord::MemberMetadata { member: id.clone(), value: metadata }, records);
        let value = Some(target);
        self.put(ConsumerRecord::TargetAssignmentMember { member: id.clone(), value }, records);
        let value = Some(CurrentAssignment {
            epoch: Epoch::ZERO,
            previous_epoch: Epoch::ZERO,
            ..member.current.clone()
        });
        self.put(ConsumerRecord::CurrentMemberAssignment { member: id.clone(), value }, records);
    }

    /// Brings a member nearer to its target; gives its assignment before and after.
    pub(super) fn reconcile(
        &mut self,
        id: &Arc<str>,
        owned: Option<&Partitions>,
        now: u64,
        records: &mut Vec<ConsumerRecord>,
    ) -> (CurrentAssignment, CurrentAssignment) {
        let Some(member) = self.state.members.get(id) else {
            panic!("member {id} is reconciled and not in the group");
        };
        let stored = member.current.clone();
        let mut current = stored.clone();
        if member.is_away() {
            (current.epoch, current.previous_epoch) = (Epoch::ZERO, Epoch::ZERO);
        }
        let none = Partitions::new();
        let step = Step {
            current: &current,
            target_epoch: self.state.assignment_epoch,
            target: self.state.targets.get(id).unwrap_or(&none),
            owned,
            is_free: |partition: &TopicPartition| {
                self.state.owners.get(partition).is_none_or(|owner| owner == id)
            },
        };
        let after = step.next();
        if after != stored {
            self.assert_nobody_else_holds(id, &after);
            let rebalance_timeout_ms = member.metadata.rebalance_timeout_ms;
            // A member of the classic protocol has its time to join again instead.
            let is_timed = !member.uses_classic_protocol();
            let must_let_go = after.state == MemberState::UnrevokedPartitions;
            let revocation = (is_timed && must_let_go).then(|| {
                let timeout = u64::try_from(rebalance_timeout_ms).unwrap_or(0);
                Revocation { at: now.saturating_add(timeout), epoch: after.epoch }
            });
            self.soft.timers.set_revocation(id, revocation);
            let value = Some(after.clone());
            let member = id.clone();
            self.put(ConsumerRecord::CurrentMemberAssignment { member, value }, records);
        }
        (current, after)
    }

    fn assert_nobody_else_holds(&self, id: &Arc<str>, after: &CurrentAssignment) {
        for partition in after.held() {
            let owner = self.state.owners.get(partition);
            assert!(
                owner.is_none_or(|owner| owner == id),
                "{partition} is given to {id} and held by {owner:?}"
            );
        }
    }
}

/// Whether a known member may come with this epoch.
///
/// It may come with its epoch; with the one before, when it owns nothing beyond its assignment, as
/// then only an answer was lost; and with 0 at any time, having given up everything.
fn check_epoch(
    member: &Member,
    got: Epoch,
    owned: Option<&Partitions>,
) -> Result<(), HeartbeatError> {
    let current = &member.current;
    let owns_only_assigned =
        || owned.is_some_and(|owned| owned.iter().all(|p| current.assigned.contains_key(p)));
    let is_retry = || got < current.epoch && got == current.previous_epoch && owns_only_assigned();
    if got == Epoch::ZERO || got == current.epoch || is_retry() {
        return Ok(());
    }
    Err(HeartbeatError::FencedEpoch { got, current: current.epoch })
}

/// What the member says it owns. Numbers below 0 are of no partition; one of them stands for all,
/// as something that no assignment holds.
fn owned_partitions(request: &ConsumerGroupHeartbeatRequest<'_>) -> Partitions {
    let topics = request.topic_partitions.iter().flatten();
    topics
        .flat_map(|owned| {
            let topic = TopicId::from_bytes(owned.topic_id.0);
            owned.partitions.iter().map(move |index| match PartitionIndex::new(*index) {
                Some(partition) => TopicPartition { topic, partition },
                None => NO_PARTITION,
            })
        })
        .collect()
}

/// A partition of a topic that cannot be.
const NO_PARTITION: TopicPartition =
    TopicPartition { topic: TopicId::ZERO, partition: PartitionIndex::at(0) };

/// The member's metadata with what the request changes; what it leaves out stays.
fn updated_metadata(
    before: Option<&Member>,
    request: &ConsumerGroupHeartbeatRequest<'_>,
    caller: &Caller<'_>,
) -> MemberMetadata {
    let before = before.map(|member| member.metadata.clone());
    let mut metadata =
        before.unwrap_or_else(|| MemberMetadata { rebalance_timeout_ms: -1, ..Default::default() });
    let set = |field: &mut Option<Arc<str>>, given: Option<&str>| {
        if let Some(given) = given {
            *field = Some(given.into());
        }
    };
    set(&mut metadata.instance_id, request.instance_id);
    set(&mut metadata.rack_id, request.rack_id);
    set(&mut metadata.topic_regex, request.subscribed_topic_regex);
    set(&mut metadata.server_assignor, request.server_assignor);
    if request.rebalance_timeout_ms != -1 {
        metadata.rebalance_timeout_ms = request.rebalance_timeout_ms;
    }
    if let Some(names) = &request.subscribed_topic_names {
        let names: BTreeSet<Arc<str>> = names.iter().map(|name| Arc::from(*name)).collect();
        metadata.topic_names = names;
    }
    metadata.client_id = caller.client_id.into();
    metadata.client_host = caller.client_host.into();
    metadata.classic = None;
    metadata
}

#[cfg(test)]
#[path = "heartbeat_tests.rs"]
mod tests;
