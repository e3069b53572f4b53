//! Members that go: by themselves, for a while, or because their time is up.

use std::sync::Arc;

use super::ConsumerGroup;
use super::answer::HeartbeatAnswer;
use super::epoch::Epoch;
use super::member::{CurrentAssignment, MemberState};
use super::record::ConsumerRecord;
use super::request::HeartbeatError;
use super::settings::EXPIRED_PER_TICK_MAX;
use super::timers::Expired;
use super::topics::TopicsView;
use crate::wire::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;

impl ConsumerGroup {
    /// Removes the members whose time is up and goes on with work that one call could not finish.
    /// The records are to be written; there is nobody to answer.
    pub fn tick(&mut self, topics: &dyn TopicsView, now: u64) -> Vec<ConsumerRecord> {
        let mut records = Vec::new();
        let must = self.resolve_patterns(topics, now, &mut records);
        let (mut removed, mut has_new_protocol_left) = (0, false);
        while removed < EXPIRED_PER_TICK_MAX
            && let Some((id, expired)) = self.soft.timers.expired(now)
        {
            if self.is_up(&id, expired) {
                has_new_protocol_left |= self.uses_new_protocol(&id);
                self.remove_for_good(&id, &mut records);
                removed += 1;
            } else {
                self.soft.timers.set_revocation(&id, None);
            }
        }
        if removed > 0 {
            self.go_on_without(has_new_protocol_left, topics, &mut records);
        } else if must {
            self.bump_epoch_if(true, topics, &mut records);
        }
        records
    }

    /// When [`ConsumerGroup::tick`] has something to do; in the past when that is now.
    pub fn next_deadline(&self) -> Option<u64> {
        if self.soft.scan.is_some() { Some(0) } else { self.soft.timers.next() }
    }

    /// Takes a request with a negative epoch.
    pub(super) fn leave(
        &mut self,
        request: &ConsumerGroupHeartbeatRequest<'_>,
        topics: &dyn TopicsView,
    ) -> Result<(HeartbeatAnswer, Vec<ConsumerRecord>), HeartbeatError> {
        let id = self.leaving_member(request)?;
        let mut records = Vec::new();
        let epoch = Epoch::new(request.member_epoch);
        if epoch == Epoch::LEAVE_STATIC {
            self.leave_for_a_while(&id, &mut records);
        } else {
            let has_new_protocol_left = self.uses_new_protocol(&id);
            self.remove_for_good(&id, &mut records);
            self.go_on_without(has_new_protocol_left, topics, &mut records);
        }
        let answer = HeartbeatAnswer {
            member_id: id,
            member_epoch: epoch,
            heartbeat_interval_ms: 0,
            assignment: None,
        };
        Ok((answer, records))
    }

    fn leaving_member(
        &self,
        request: &ConsumerGroupHeartbeatRequest<'_>,
    ) -> Result<Arc<str>, HeartbeatError> {
        let member_id = request.member_id;
        let Some(instance) = request.instance_id else {
            let known = self.state.members.get_key_value(member_id);
            let unknown = || HeartbeatError::UnknownMember { member_id: member_id.to_owned() };
            return known.map(|(id, _)| id.clone()).ok_or_else(unknown);
        };
        let instance_id = instance.to_owned();
        match self.static_member(instance) {
            None => Err(HeartbeatError::UnknownInstance { instance_id }),
            Some((owner, _)) if **owner != *member_id => {
                Err(HeartbeatError::FencedInstance { instance_id, owner: owner.to_string() })
            }
            Some((owner, _)) => Ok(owner.clone()),
        }
    }

    /// A static member stops and will be back: it keeps its place and its partitions while its
    /// session lasts. What it was to let go of it has.
    fn leave_for_a_while(&mut self, id: &Arc<str>, records: &mut Vec<ConsumerRecord>) {
        let Some(member) = self.state.members.get(id) else { return };
        let value = CurrentAssignment {
            epoch: Epoch::LEAVE_STATIC,
            revoking: Default::default(),
            ..member.current.clone()
        };
        self.soft.timers.set_revocation(id, None);
        let (member, value) = (id.clone(), Some(value));
        self.put(ConsumerRecord::CurrentMemberAssignment { member, value }, records);
    }

    /// Whether a member's time is up in earnest: it may have moved on since a deadline was set.
    fn is_up(&self, id: &Arc<str>, expired: Expired) -> bool {
        match expired {
            Expired::Session | Expired::Rejoin | Expired::Sync => true,
            Expired::Revocation(epoch) => self.state.members.get(id).is_some_and(|member| {
                member.current.epoch == epoch
                    && member.current.state == MemberState::UnrevokedPartitions
            }),
        }
    }

    fn uses_new_protocol(&self, id: &Arc<str>) -> bool {
        self.state.members.get(id).is_some_and(|member| !member.uses_classic_protocol())
    }

    pub(super) fn remove_for_good(&mut self, id: &Arc<str>, records: &mut Vec<ConsumerRecord>) {
        let member = self.state.members.get(id);
        let pattern = member.and_then(|member| member.metadata.pattern()).cloned();
        self.remove(id, records);
        if let Some(pattern) = pattern {
            self.forget_pattern(&pattern, records);
        }
    }

    /// Removes all that the log has of a member, its partitions first.
    pub(super) fn remove(&mut self, id: &Arc<str>, records: &mut Vec<ConsumerRecord>) {
        let member = id.clone();
        self.put(ConsumerRecord::CurrentMemberAssignment { member, value: None }, records);
        let member = id.clone();
        self.put(ConsumerRecord::TargetAssignmentMember { member, value: None }, records);
        let member = id.clone();
        self.put(ConsumerRecord::MemberMetadata { member, value: None }, records);
        self.soft.timers.remove(id);
    }
}
