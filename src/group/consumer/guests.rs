//! Members of the classic protocol in a group of the new one: JoinGroup, SyncGroup, Heartbeat and
//! LeaveGroup (KIP-848).
//!
//! Such a member is brought to its target in the same steps as others. A JoinGroup is its heartbeat:
//! it says what the member wants and still owns. A SyncGroup tells it what it has now, and a
//! Heartbeat tells it to join again when its next step is due. Its generation is its epoch. Nobody
//! leads: the coordinator assigns.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ConsumerGroup;
use super::embedded::{self, Subscription};
use super::epoch::Epoch;
use super::heartbeat::Admitted;
use super::member::{ClassicMember, Member, MemberMetadata, MemberState};
use super::record::ConsumerRecord;
use super::topics::TopicsView;
use crate::group::classic::{
    CONSUMER_PROTOCOL_TYPE, Caller, JoinAnswer, JoinRequest, Leaving, Left, Protocol, SyncAnswer,
    SyncRequest,
};
use crate::wire::ErrorCode;

impl ConsumerGroup {
    /// Takes a member of the classic protocol in, or brings one nearer to its target. The answer may
    /// be sent when the records are durable.
    ///
    /// # Errors
    /// The answer that refuses; nothing has changed then.
    pub fn join(
        &mut self,
        request: &JoinRequest,
        topics: &dyn TopicsView,
        now: u64,
    ) -> Result<(JoinAnswer, Vec<ConsumerRecord>), JoinAnswer> {
        let refuse = |error| JoinAnswer::refused(error, Arc::from(""));
        self.check_join(request).map_err(refuse)?;
        if request.member_id.is_empty()
            && request.instance_id.is_none()
            && request.rules.requires_known_member_id
        {
            let id = request.new_member_uuid.clone();
            return Err(JoinAnswer::refused(ErrorCode::MemberIdRequired, id));
        }
        let admitted = self.admit_guest(request).map_err(refuse)?;
        let Some(first) = request.protocols.first() else {
            return Err(refuse(ErrorCode::InconsistentGroupProtocol));
        };
        let Ok(wanted) = embedded::subscription(&first.metadata, topics) else {
            return Err(refuse(ErrorCode::UnknownServerError));
        };
        // An id that is new here was given out just now, or is that of a member whose time was up. Such
        // a one may read on what others have got: unlike Apache Kafka we tell it that all is lost.
        let was_removed = admitted.before.is_none() && !request.member_id.is_empty();
        if was_removed && !wanted.owned.is_empty() {
            return Err(refuse(ErrorCode::UnknownMemberId));
        }
        let owned = wanted.owned.clone();
        let metadata = guest_metadata(admitted.before.as_ref(), request, wanted);
        let replaced = admitted.replaces.as_ref().and(admitted.before.as_ref());
        let takes_over = replaced.is_some_and(|member| !member.uses_classic_protocol());

        let mut records = Vec::new();
        let id = admitted.id.clone();
        self.update_member(admitted, metadata, topics, now, &mut records);
        let (_, after) = self.reconcile(&id, Some(&owned), now, &mut records);
        let sync_by = now.saturating_add(timeout_ms(request.rebalance_timeout_ms));
        self.soft.timers.set_guest(&id, None, Some(sync_by));
        if takes_over {
            self.look_whether_classic_members_are_left();
        }
        let answer = JoinAnswer {
            error: ErrorCode::None,
            generation: after.epoch.get(),
            protocol_type: Some(Arc::from(CONSUMER_PROTOCOL_TYPE)),
            protocol: Some(first.name.clone()),
            leader: Arc::from(""),
            skip_assignment: false,
            member_id: id,
            members: Vec::new(),
        };
        Ok((answer, records))
    }

    /// Tells a member what it has.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL;
    /// REBALANCE_IN_PROGRESS when it is to join again first.
    pub fn sync(
        &mut self,
        request: &SyncRequest,
        topics: &dyn TopicsView,
        now: u64,
    ) -> Result<SyncAnswer, ErrorCode> {
        let instance_id = request.instance_id.as_deref();
        let caller = Caller { member_id: &request.member_id, instance_id };
        let (id, member, guest) = self.guest(caller)?;
        check_generation(member, request.generation)?;
        let Some((protocol, metadata)) = guest.protocols.first() else {
            return Err(ErrorCode::InconsistentGroupProtocol);
        };
        let is_other =
            |told: &Option<Arc<str>>, own: &str| told.as_deref().is_some_and(|told| told != own);
        if is_other(&request.protocol_type, CONSUMER_PROTOCOL_TYPE)
            || is_other(&request.protocol, protocol)
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        // One that lets go of partitions has joined already, and is to say so first.
        let is_late = member.current.epoch < self.state.epoch
            && member.current.state != MemberState::UnrevokedPartitions;
        if is_late {
            self.soft.timers.set_rejoin_if_none(&id, now.saturating_add(rebalance_ms(member)));
            return Err(ErrorCode::RebalanceInProgress);
        }
        let assigned = member.current.assigned.keys();
        let assignment = embedded::assignment_bytes(assigned, metadata, topics)
            .map_err(|_| ErrorCode::UnknownServerError)?;
        self.soft.timers.set_guest(&id, None, None);
        self.extend_session(&id, now);
        Ok(SyncAnswer {
            error: ErrorCode::None,
            protocol_type: request.protocol_type.clone(),
            protocol: request.protocol.clone(),
            assignment,
        })
    }

    /// Keeps a member's session alive.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION; REBALANCE_IN_PROGRESS when the
    /// member is to join again, which keeps its session alive, too.
    pub fn classic_heartbeat(
        &mut self,
        caller: Caller<'_>,
        generation: i32,
        now: u64,
    ) -> Result<(), ErrorCode> {
        let (id, member, _) = self.guest(caller)?;
        check_generation(member, generation)?;
        let is_due = match member.current.state {
            _ if member.current.epoch < self.state.epoch => true,
            MemberState::UnrevokedPartitions => true,
            MemberState::UnreleasedPartitions => !self.waits_for_others(&id, member),
            MemberState::Stable => false,
        };
        let rejoin_by = now.saturating_add(rebalance_ms(member));
        self.extend_session(&id, now);
        if is_due {
            self.soft.timers.set_rejoin_if_none(&id, rejoin_by);
            return Err(ErrorCode::RebalanceInProgress);
        }
        Ok(())
    }

    /// Takes members out, each by its member id, its instance id, or both; of either protocol.
    pub fn leave_classic(
        &mut self,
        leaving: Vec<Leaving>,
        topics: &dyn TopicsView,
    ) -> (Vec<Left>, Vec<ConsumerRecord>) {
        let mut gone = BTreeMap::new();
        let mut left = Vec::with_capacity(leaving.len());
        for member in leaving {
            let error = match self.leaving_guest(&member) {
                Ok((id, uses_classic)) => {
                    gone.insert(id, uses_classic);
                    ErrorCode::None
                }
                Err(error) => error,
            };
            left.push(Left { member, error });
        }
        let mut records = Vec::new();
        for id in gone.keys() {
            self.remove_for_good(id, &mut records);
        }
        if !gone.is_empty() {
            let has_left = gone.values().any(|uses_classic| !uses_classic);
            self.go_on_without(has_left, topics, &mut records);
        }
        (left, records)
    }

    fn leaving_guest(&self, leaving: &Leaving) -> Result<(Arc<str>, bool), ErrorCode> {
        let found = match leaving.instance_id.as_deref() {
            None => self.state.members.get_key_value(&leaving.member_id),
            Some(instance) => self.static_member(instance),
        };
        let (id, member) = found.ok_or(ErrorCode::UnknownMemberId)?;
        // An administrator removes whoever has the instance id.
        if !leaving.member_id.is_empty() && *id != leaving.member_id {
            return Err(ErrorCode::FencedInstanceId);
        }
        Ok((id.clone(), member.uses_classic_protocol()))
    }

    fn check_join(&self, request: &JoinRequest) -> Result<(), ErrorCode> {
        if !self.settings.migration.upgrades() && !self.settings.migration.downgrades() {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        if self.state.epoch >= Epoch::LAST {
            return Err(ErrorCode::UnknownServerError);
        }
        let incumbent = request.instance_id.as_deref().and_then(|i| self.static_member(i));
        let is_known = self.state.members.contains_key(&request.member_id) || incumbent.is_some();
        if !is_known && self.state.members.len() >= self.settings.members_max {
            return Err(ErrorCode::GroupMaxSizeReached);
        }
        if *request.protocol_type != *CONSUMER_PROTOCOL_TYPE
            || !request.protocols.iter().any(|protocol| self.all_guests_follow(&protocol.name))
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        Ok(())
    }

    /// Finds the member, or a place for it.
    fn admit_guest(&self, request: &JoinRequest) -> Result<Admitted, ErrorCode> {
        let has_id = !request.member_id.is_empty();
        let id = if has_id { &request.member_id } else { &request.new_member_uuid };
        let incumbent = request.instance_id.as_deref().map(|i| self.static_member(i));
        let (before, replaces) = match incumbent {
            Some(None) if has_id => return Err(ErrorCode::UnknownMemberId),
            Some(Some((owner, _))) if has_id && *owner != *id => {
                return Err(ErrorCode::FencedInstanceId);
            }
            Some(Some((owner, member))) if *owner != *id => (Some(member), Some(owner.clone())),
            Some(_) | None => (self.state.members.get(id), None),
        };
        Ok(Admitted { id: id.clone(), before: before.cloned(), replaces })
    }

    /// Whether all members of the classic protocol follow one of theirs.
    pub(super) fn all_guests_follow(&self, protocol: &str) -> bool {
        let guests = self.state.members.values().filter_map(|m| m.metadata.classic.as_ref());
        guests.into_iter().all(|guest| guest.protocols.iter().any(|(name, _)| **name == *protocol))
    }

    /// The member that calls, if it uses the classic protocol.
    fn guest(&self, caller: Caller<'_>) -> Result<(Arc<str>, &Member, &ClassicMember), ErrorCode> {
        let found = match caller.instance_id {
            None => self.state.members.get_key_value(caller.member_id),
            Some(instance) => self.static_member(instance),
        };
        let (id, member) = found.ok_or(ErrorCode::UnknownMemberId)?;
        if **id != *caller.member_id {
            return Err(ErrorCode::FencedInstanceId);
        }
        let guest = member.metadata.classic.as_ref().ok_or(ErrorCode::UnknownMemberId)?;
        Ok((id.clone(), member, guest))
    }

    /// Whether any partition of its target is still another's.
    fn waits_for_others(&self, id: &Arc<str>, member: &Member) -> bool {
        let target = self.state.targets.get(id);
        target.into_iter().flatten().any(|partition| {
            !member.current.assigned.contains_key(partition)
                && self.state.owners.get(partition).is_some_and(|owner| owner != id)
        })
    }

    fn extend_session(&mut self, id: &Arc<str>, now: u64) {
        let session = now.saturating_add(self.session_timeout_ms(id));
        self.soft.timers.set_session(id, session);
    }
}

fn check_generation(member: &Member, generation: i32) -> Result<(), ErrorCode> {
    if member.current.epoch == Epoch::new(generation) {
        Ok(())
    } else {
        Err(ErrorCode::IllegalGeneration)
    }
}

fn rebalance_ms(member: &Member) -> u64 {
    timeout_ms(member.metadata.rebalance_timeout_ms)
}

/// A timeout of a client's; a negative one ends at once.
fn timeout_ms(ms: i32) -> u64 {
    u64::from(ms.max(0).unsigned_abs())
}

fn guest_metadata(
    before: Option<&Member>,
    request: &JoinRequest,
    wanted: Subscription,
) -> MemberMetadata {
    let before = before.map(|member| member.metadata.clone()).unwrap_or_default();
    MemberMetadata {
        instance_id: request.instance_id.clone().or(before.instance_id),
        rack_id: wanted.rack_id.or(before.rack_id),
        client_id: request.client_id.clone(),
        client_host: request.client_host.clone(),
        topic_names: wanted.topic_names,
        topic_regex: None,
        rebalance_timeout_ms: request.rebalance_timeout_ms,
        server_assignor: before.server_assignor,
        classic: Some(classic_member(request.session_timeout_ms, &request.protocols)),
    }
}

/// What is kept of a member of the classic protocol.
pub(super) fn classic_member(session_timeout_ms: i32, protocols: &[Protocol]) -> ClassicMember {
    let kept = |protocol: &Protocol| (protocol.name.clone(), Arc::from(&*protocol.metadata));
    ClassicMember { session_timeout_ms, protocols: protocols.iter().map(kept).collect() }
}

#[cfg(test)]
#[path = "guests_tests.rs"]
mod tests;
