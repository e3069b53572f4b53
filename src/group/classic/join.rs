//! JoinGroup.

use super::calls::{Caller, JoinAnswer, JoinRequest, Name};
use super::limits::{FIRST_JOIN_MS_MAX, MEMBER_ID_PREFIX_BYTES_MAX};
use super::members::{self, Member, protocol_bytes, timeout_ms};
use super::{ClassicGroup, Now, Outcome, Phase, State};
use crate::wire::error_code::ErrorCode;

impl<W> ClassicGroup<W> {
    /// Takes a member in, or in again. The answer may come from a later call.
    ///
    /// The session timeout was checked ([`super::Settings::check_session_timeout`]), and a member
    /// that brings an id to a group that does not exist was refused without one being made.
    pub fn join(&mut self, mut request: JoinRequest, waiter: W, now: Now) -> Outcome<W> {
        let mut out = Outcome::nothing();
        request.protocols = members::without_doubles(request.protocols);
        if let Err(error) = self.check_join(&request) {
            let mut member_id = request.member_id;
            if error == ErrorCode::GroupMaxSizeReached {
                self.drop_surplus(&member_id, now, &mut out);
                member_id = Name::from("");
            }
            out.join(waiter, JoinAnswer::refused(error, member_id));
        } else if !request.member_id.is_empty() {
            self.join_with_id(request, waiter, now, &mut out);
        } else {
            self.join_without_id(request, waiter, now, &mut out);
        }
        out
    }

    fn check_join(&self, request: &JoinRequest) -> Result<(), ErrorCode> {
        if self.state == State::Dead {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        if !self.has_room_for(request) {
            return Err(ErrorCode::GroupMaxSizeReached);
        }
        if !self.can_follow(request) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        Ok(())
    }

    /// While members rejoin, the first to come keep their places: the count is then of those that
    /// wait, so that a group above a lowered `group.max.size` shrinks.
    fn has_room_for(&self, request: &JoinRequest) -> bool {
        let known = self.known_as(request).and_then(|id| self.members.get(id));
        let has_place = match self.state {
            State::Empty | State::Dead => true,
            State::PreparingRebalance => {
                known.is_some_and(Member::is_joining)
                    || self.members.joining() < self.settings.size_max
            }
            State::CompletingRebalance | State::Stable => {
                known.is_some() || self.members.len() < self.settings.size_max
            }
        };
        let names = request.member_id.len() + request.client_id.len() + request.client_host.len();
        let grows = names + protocol_bytes(&request.protocols);
        let shrinks = known.map_or(0, |member| protocol_bytes(member.protocols()));
        has_place && self.members.bytes() + grows <= self.settings.bytes_max + shrinks
    }

    /// The member that the request comes from, as the group knows it.
    fn known_as<'a>(&'a self, request: &'a JoinRequest) -> Option<&'a Name> {
        if !request.member_id.is_empty() {
            return Some(&request.member_id);
        }
        self.members.of_instance(request.instance_id.as_deref()?)
    }

    fn can_follow(&self, request: &JoinRequest) -> bool {
        if self.state == State::Empty {
            return !request.protocol_type.is_empty() && !request.protocols.is_empty();
        }
        self.protocol_type.as_ref() == Some(&request.protocol_type)
            && self.members.share_one_of(&request.protocols)
    }

    /// A member that found no place is none any more, so that nobody waits for it.
    fn drop_surplus(&mut self, member_id: &str, now: Now, out: &mut Outcome<W>) {
        let is_surplus = match self.state {
            State::PreparingRebalance => {
                self.members.get(member_id).is_some_and(|member| !member.is_joining())
            }
            State::Empty | State::CompletingRebalance | State::Stable | State::Dead => false,
        };
        let was_pending = self.pending.remove(member_id).is_some();
        if is_surplus {
            self.remove_member(member_id, out);
        }
        if is_surplus || was_pending {
            self.complete_join_if_all_are_in(now, out);
        }
    }

    fn join_without_id(
        &mut self,
        mut request: JoinRequest,
        waiter: W,
        now: Now,
        out: &mut Outcome<W>,
    ) {
        let prefix = request.instance_id.as_ref().unwrap_or(&request.client_id);
        let new_id = new_member_id(prefix, &request.new_member_uuid);
        request.member_id = new_id.clone();
        if let Some(instance_id) = &request.instance_id {
            match self.members.of_instance(instance_id).cloned() {
                Some(id) => self.replace_static(&id, request, waiter, now, out),
                None => self.add_member(request, waiter, now, out),
            }
        } else if !request.rules.requires_known_member_id {
            self.add_member(request, waiter, now, out);
        } else if self.pending.len() >= self.settings.pending_max {
            let error = ErrorCode::GroupMaxSizeReached;
            out.join(waiter, JoinAnswer::refused(error, Name::from("")));
        } else {
            let until = now.ms + timeout_ms(request.session_timeout_ms);
            self.pending.insert(new_id.clone(), until);
            self.look_at_sessions_by(until);
            out.join(waiter, JoinAnswer::refused(ErrorCode::MemberIdRequired, new_id));
        }
    }

    fn join_with_id(&mut self, request: JoinRequest, waiter: W, now: Now, out: &mut Outcome<W>) {
        let id = request.member_id.clone();
        // An id that waits to be used was given to a dynamic member.
        if request.instance_id.is_none() && self.pending.contains_key(&id) {
            self.add_member(request, waiter, now, out);
            return;
        }
        let caller = Caller { member_id: &id, instance_id: request.instance_id.as_deref() };
        if let Err(error) = self.members.check(caller) {
            out.join(waiter, JoinAnswer::refused(error, id));
            return;
        }
        let is_changed =
            self.members.get(&id).is_some_and(|member| member.protocols() != request.protocols);
        let starts_over = match self.state {
            State::PreparingRebalance => true,
            // Unchanged, it may have missed the answer to its join.
            State::CompletingRebalance => is_changed,
            // A leader joins again for what its metadata does not show, such as new partitions.
            State::Stable => is_changed || self.is_leader(&id),
            State::Empty | State::Dead => panic!("{id} is a member of a {:?} group", self.state),
        };
        if !starts_over {
            let answer = self.joined(&id);
            out.join(waiter, answer);
            return;
        }
        self.members.update(&id, request);
        if let Some(former) = self.members.wait_for_join(&id, waiter) {
            // The same client, which no longer listens there, or twice the same id: it asks again.
            out.join(former, JoinAnswer::refused(ErrorCode::RebalanceInProgress, id));
        }
        self.rebalance_or_complete_join(now, out);
    }

    fn add_member(&mut self, request: JoinRequest, waiter: W, now: Now, out: &mut Outcome<W>) {
        let id = request.member_id.clone();
        if let Phase::Gathering { has_newcomers, .. } = &mut self.phase {
            *has_newcomers = true;
        }
        if self.members.is_empty() {
            self.protocol_type = Some(request.protocol_type.clone());
        }
        self.pending.remove(&id);
        let mut member = Member::new(request);
        member.expires = now.ms + FIRST_JOIN_MS_MAX;
        self.look_at_sessions_by(member.expires);
        self.members.insert(id.clone(), member);
        let former = self.members.wait_for_join(&id, waiter);
        assert!(former.is_none(), "{id} waited before it was a member");
        if self.leader.is_none() {
            self.leader = Some(id);
        }
        self.rebalance_or_complete_join(now, out);
    }

    /// The answer to a join that belongs to the current generation.
    pub(super) fn joined(&self, id: &Name) -> JoinAnswer {
        let members = match self.is_leader(id) {
            true => self.members.as_leader_sees(self.protocol.as_deref()),
            false => Vec::new(),
        };
        JoinAnswer {
            error: ErrorCode::None,
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            skip_assignment: false,
            member_id: id.clone(),
            members,
        }
    }
}

fn new_member_id(prefix: &str, uuid: &str) -> Name {
    let fits = |(at, c): &(usize, char)| at + c.len_utf8() <= MEMBER_ID_PREFIX_BYTES_MAX;
    let prefix: String = prefix.char_indices().take_while(fits).map(|(_, c)| c).collect();
    Name::from(format!("{prefix}-{uuid}"))
}

#[cfg(test)]
#[path = "join_tests.rs"]
mod tests;
