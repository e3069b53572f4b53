//! The round of joins: its begin, its end, and the generation that comes of it.

use super::calls::{JoinAnswer, SyncAnswer};
use super::limits::POSTPONED_JOIN_MS_MIN;
use super::members::Member;
use super::{ClassicGroup, Name, Now, Outcome, Phase, State};
use crate::wire::error_code::ErrorCode;

impl<W> ClassicGroup<W> {
    /// Something changed that the group must be made anew for.
    pub(super) fn rebalance_or_complete_join(&mut self, now: Now, out: &mut Outcome<W>) {
        match self.state {
            State::Empty | State::CompletingRebalance | State::Stable => {
                self.begin_rebalance(now, out);
            }
            State::PreparingRebalance => self.complete_join_if_all_are_in(now, out),
            State::Dead => {}
        }
    }

    /// Asks all members to join again. Who waits for an assignment is told so; the others learn it
    /// from their heartbeats. The time they have counts from here, and nothing extends it.
    pub(super) fn begin_rebalance(&mut self, now: Now, out: &mut Outcome<W>) {
        if self.state == State::CompletingRebalance {
            self.drop_assignment(ErrorCode::RebalanceInProgress, now, out);
        }
        self.members.nobody_has_to_sync();
        self.replaced.clear(); // Their waiters have joined the round.
        let was_empty = self.state == State::Empty;
        self.enter(State::PreparingRebalance, now);
        let timeout_ms = self.members.rebalance_timeout_ms();
        let delay_ms = self.settings.initial_delay_ms;
        if was_empty && delay_ms > 0 {
            let remaining_ms = timeout_ms.saturating_sub(delay_ms);
            let until = now.ms + delay_ms;
            self.phase = Phase::Gathering { until, delay_ms, remaining_ms, has_newcomers: false };
            return;
        }
        self.phase = Phase::Joining { until: now.ms + timeout_ms };
        if was_empty || self.members.is_empty() {
            self.complete_join(now, out);
        } else {
            self.complete_join_if_all_are_in(now, out);
        }
    }

    /// Ends the round of joins if there is one and nobody is missing. That of a group which was
    /// empty is ended by its time alone.
    pub(super) fn complete_join_if_all_are_in(&mut self, now: Now, out: &mut Outcome<W>) {
        let all_are_in = self.members.joining() == self.members.len() && self.pending.is_empty();
        match self.phase {
            Phase::Joining { .. } if all_are_in => self.complete_join(now, out),
            Phase::Untimed
            | Phase::Gathering { .. }
            | Phase::Joining { .. }
            | Phase::Syncing { .. } => {}
        }
    }

    /// The time to join is up: a group that was empty may give more of it to newcomers, up to the
    /// rebalance timeout.
    pub(super) fn end_join_time(&mut self, now: Now, out: &mut Outcome<W>) {
        match self.phase {
            Phase::Gathering { delay_ms, remaining_ms, has_newcomers: true, .. }
                if remaining_ms > 0 =>
            {
                let next_ms = self.settings.initial_delay_ms.min(remaining_ms);
                self.phase = Phase::Gathering {
                    until: now.ms + next_ms,
                    delay_ms: next_ms,
                    remaining_ms: remaining_ms.saturating_sub(delay_ms),
                    has_newcomers: false,
                };
            }
            Phase::Gathering { .. } | Phase::Joining { .. } => self.complete_join(now, out),
            Phase::Untimed | Phase::Syncing { .. } => {}
        }
    }

    /// Ends the round of joins: dynamic members that are missing are dropped, static ones stay
    /// until their session ends.
    fn complete_join(&mut self, now: Now, out: &mut Outcome<W>) {
        let is_missing = |member: &Member<W>| !member.is_joining() && member.instance_id.is_none();
        let missing = self.members.ids_of(is_missing);
        for id in missing {
            self.remove_member(&id, out);
        }
        if self.members.is_empty() {
            self.become_empty(now, out);
        } else if self.members.joining() == 0 {
            // Only static members, all away: sessions decide.
            let timeout_ms = self.members.rebalance_timeout_ms().max(POSTPONED_JOIN_MS_MIN);
            self.phase = Phase::Joining { until: now.ms + timeout_ms };
        } else {
            self.begin_generation(now, out);
        }
    }

    fn become_empty(&mut self, now: Now, out: &mut Outcome<W>) {
        self.generation = next_generation(self.generation);
        self.protocol = None;
        self.phase = Phase::Untimed;
        self.enter(State::Empty, now);
        assert!(self.leader.is_none(), "an empty group is led by {:?}", self.leader);
        self.store(out);
    }

    fn begin_generation(&mut self, now: Now, out: &mut Outcome<W>) {
        self.choose_joined_leader();
        self.generation = next_generation(self.generation);
        self.protocol = self.members.choose_protocol();
        self.enter(State::CompletingRebalance, now);
        self.phase = Phase::Syncing { until: now.ms + self.members.rebalance_timeout_ms() };
        for id in self.members.ids() {
            if let Some(waiter) = self.members.take_join(&id) {
                let answer = self.joined(&id);
                out.join(waiter, answer);
            }
            if let Some(member) = self.members.get_mut(&id) {
                member.is_new = false;
            }
            self.start_session(&id, now);
        }
        self.members.all_have_to_sync();
    }

    /// A leader that did not join again is replaced by a member that did.
    fn choose_joined_leader(&mut self) {
        let leader = self.leader.as_deref().and_then(|id| self.members.get(id));
        if !leader.is_some_and(|member| member.is_joining()) {
            let joined = self.members.iter().find(|(_, member)| member.is_joining());
            self.leader = joined.map(|(id, _)| id.clone());
        }
    }

    /// Forgets the round's assignment and tells those who wait for it.
    pub(super) fn drop_assignment(&mut self, error: ErrorCode, now: Now, out: &mut Outcome<W>) {
        self.storing = None;
        for id in self.members.ids() {
            self.members.set_assignment(&id, bytes::Bytes::new());
            if let Some(waiter) = self.members.take_sync(&id) {
                self.start_session(&id, now);
                out.sync(waiter, SyncAnswer::refused(error));
            }
        }
    }

    /// Takes a member out. Who waits for it is told that it is unknown, so that it joins anew.
    pub(super) fn remove_member(&mut self, id: &str, out: &mut Outcome<W>) {
        let Some(waiters) = self.members.remove(id) else { return };
        let error = ErrorCode::UnknownMemberId;
        if let Some(waiter) = waiters.join {
            out.join(waiter, JoinAnswer::refused(error, Name::from("")));
        }
        if let Some(waiter) = waiters.sync {
            out.sync(waiter, SyncAnswer::refused(error));
        }
        if self.is_leader(id) {
            self.leader = self.members.iter().next().map(|(id, _)| id.clone());
        }
    }
}

fn next_generation(generation: i32) -> i32 {
    generation.checked_add(1).unwrap_or(1)
}

#[cfg(test)]
#[path = "rebalance_tests.rs"]
mod tests;
