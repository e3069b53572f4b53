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

/// A member that may go on.
struct Admitted {
    id: Arc<str>,
    /// The static member whose place it takes.
    replaces: Option<Arc<str>>,
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
        let before = self.before(&admitted);
        let metadata = changed_metadata(before, request, caller);
        self.check_pattern(before, metadata.as_ref())?;

        let mut records = Vec::new();
        let id = admitted.id.clone();
        self.update_member(admitted, metadata, topics, now, &mut records);
        let was_at = self.state.members.get(&id).map(|member| member.current.epoch);
        let has_changed = self.reconcile(&id, owned.as_ref(), now, &mut records);
        let is_lost_answer = was_at.is_some_and(|epoch| request.member_epoch < epoch.get());
        let must_tell = has_changed || is_lost_answer || is_full(request);
        Ok((self.answer(&id, must_tell), records))
    }

    fn answer(&self, id: &Arc<str>, with_assignment: bool) -> HeartbeatAnswer {
        let current = match self.state.members.get(id) {
            Some(member) => &member.current,
            None => panic!("member {id} is answered and not in the group"),
        };
        HeartbeatAnswer {
            member_id: id.clone(),
            member_epoch: current.epoch,
            heartbeat_interval_ms: self.settings.heartbeat_interval_ms,
            assignment: with_assignment.then(|| current.assigned.keys().copied().collect()),
        }
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
                return Ok(Admitted { id: member_id.into(), replaces: Some(owner.clone()) });
            }
            (Some(_), _) | (None, _) => {}
        }
        match known {
            Some((id, member)) => {
                check_epoch(member, Epoch::new(request.member_epoch), owned)?;
                Ok(Admitted { id: id.clone(), replaces: None })
            }
            None if is_join => Ok(Admitted { id: member_id.into(), replaces: None }),
            None => Err(HeartbeatError::UnknownMember { member_id: member_id.to_owned() }),
        }
    }

    /// What is known of the member, or of the one whose place it takes.
    fn before(&self, admitted: &Admitted) -> Option<&Member> {
        self.state.members.get(admitted.replaces.as_ref().unwrap_or(&admitted.id))
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
        metadata: Option<&MemberMetadata>,
    ) -> Result<(), HeartbeatError> {
        let Some(pattern) = metadata.and_then(MemberMetadata::pattern) else { return Ok(()) };
        let before = before.and_then(|member| member.metadata.pattern());
        if before == Some(pattern) || self.state.pattern_subscribers.contains_key(pattern) {
            return Ok(());
        }
        match Pattern::new(pattern) {
            Ok(_) => Ok(()),
            Err(error) => Err(HeartbeatError::Pattern { text: pattern.to_string(), error }),
        }
    }

    /// Writes down what a member wants, where that is new, and looks whether the group needs
    /// another target for it.
    fn update_member(
        &mut self,
        admitted: Admitted,
        metadata: Option<MemberMetadata>,
        topics: &dyn TopicsView,
        now: u64,
        records: &mut Vec<ConsumerRecord>,
    ) {
        let mut must = false;
        if metadata.is_some() || admitted.replaces.is_some() {
            must = self.set_metadata(&admitted, metadata, records);
        }
        must |= self.resolve_patterns(topics, now, records);
        self.bump_epoch_if(must, topics, records);
        self.assign_if_due(topics, records);
        let session = now.saturating_add(self.session_timeout_ms(&admitted.id));
        self.soft.timers.set_session(&admitted.id, session);
    }

    /// Gives whether the group needs another target.
    fn set_metadata(
        &mut self,
        admitted: &Admitted,
        metadata: Option<MemberMetadata>,
        records: &mut Vec<ConsumerRecord>,
    ) -> bool {
        let id = &admitted.id;
        let before = self.before(admitted).cloned();
        let wanted = before.as_ref().map(|member| &member.metadata);
        let given_up = self.state.members.get(id).map(|member| &member.metadata);
        let mut old_patterns: Vec<Arc<str>> = Vec::new();
        old_patterns.extend(wanted.and_then(MemberMetadata::pattern).cloned());
        old_patterns.extend(given_up.and_then(MemberMetadata::pattern).cloned());
        // A member that takes over another's place gives up its own, so its target is free.
        let mut must = admitted.replaces.is_some() && given_up.is_some();
        if let (Some(old), Some(member)) = (&admitted.replaces, &before) {
            self.replace(old, id, member, records);
        }
        if let Some(metadata) = metadata {
            must |= wanted.is_none_or(|wanted| {
                wanted.topic_names != metadata.topic_names || wanted.pattern() != metadata.pattern()
            });
            let (member, value) = (id.clone(), Some(metadata));
            self.put(ConsumerRecord::MemberMetadata { member, value }, records);
        }
        for pattern in &old_patterns {
            self.forget_pattern(pattern, records);
        }
        must
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

    /// Brings a member nearer to its target; gives whether what it may use has changed.
    fn reconcile(
        &mut self,
        id: &Arc<str>,
        owned: Option<&Partitions>,
        now: u64,
        records: &mut Vec<ConsumerRecord>,
    ) -> bool {
        let Some(member) = self.state.members.get(id) else {
            panic!("member {id} is reconciled and not in the group");
        };
        let target_epoch = self.state.assignment_epoch;
        if member.is_reconciled_to(target_epoch) {
            return false;
        }
        let mut current = member.current.clone();
        if member.is_away() {
            (current.epoch, current.previous_epoch) = (Epoch::ZERO, Epoch::ZERO);
        }
        // A log of ours gives no partition to two. Of one that does, the last word counts.
        let is_own = |partition: &TopicPartition| self.state.owners.get(partition) == Some(id);
        current.assigned.retain(|partition, _| is_own(partition));
        current.revoking.retain(|partition, _| is_own(partition));
        let none = Partitions::new();
        let step = Step {
            current: &current,
            target_epoch,
            target: self.state.targets.get(id).unwrap_or(&none),
            owned,
            is_free: |partition: &TopicPartition| {
                self.state.owners.get(partition).is_none_or(|owner| owner == id)
            },
        };
        let after = step.next();
        if after == member.current {
            return false;
        }
        self.assert_nobody_else_holds(id, &after);
        let has_changed = !after.assigned.keys().eq(member.current.assigned.keys());
        let rebalance_timeout_ms = member.metadata.rebalance_timeout_ms;
        let revocation = (after.state == MemberState::UnrevokedPartitions).then(|| {
            let timeout = u64::try_from(rebalance_timeout_ms).unwrap_or(0);
            Revocation { at: now.saturating_add(timeout), epoch: after.epoch }
        });
        self.soft.timers.set_revocation(id, revocation);
        let (member, value) = (id.clone(), Some(after));
        self.put(ConsumerRecord::CurrentMemberAssignment { member, value }, records);
        has_changed
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

/// Whether the request tells all that a member has to tell, as it does after any trouble: then it
/// is told all, too.
fn is_full(request: &ConsumerGroupHeartbeatRequest<'_>) -> bool {
    let subscribes =
        request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some();
    let tells_all = request.rebalance_timeout_ms != -1 && request.topic_partitions.is_some();
    request.member_epoch == 0 || (subscribes && tells_all)
}

/// The member's metadata with what the request changes; what it leaves out stays. `None` when all
/// of it stays.
fn changed_metadata(
    before: Option<&Member>,
    request: &ConsumerGroupHeartbeatRequest<'_>,
    caller: &Caller<'_>,
) -> Option<MemberMetadata> {
    let before = before.map(|member| &member.metadata);
    let says_nothing = request.instance_id.is_none()
        && request.rack_id.is_none()
        && request.rebalance_timeout_ms == -1
        && request.subscribed_topic_names.is_none()
        && request.subscribed_topic_regex.is_none()
        && request.server_assignor.is_none();
    if let Some(before) = before
        && says_nothing
        && *before.client_id == *caller.client_id
        && *before.client_host == *caller.client_host
        && before.classic.is_none()
    {
        return None;
    }
    let mut metadata = before.cloned().unwrap_or_default();
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
    (before != Some(&metadata)).then_some(metadata)
}

#[cfg(test)]
#[path = "heartbeat_tests.rs"]
mod tests;
