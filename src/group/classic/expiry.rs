//! Deadlines: sessions, the time to join, the time to sync.

use super::members::timeout_ms;
use super::{ClassicGroup, Now, Outcome, Phase, State};

impl<W> ClassicGroup<W> {
    /// When [`ClassicGroup::tick`] has something to do, at the earliest. Costs nothing. Heartbeats
    /// do not move it: a tick may find nothing due, and then this has moved.
    pub fn next_deadline(&self) -> Option<u64> {
        let phase = match self.phase {
            Phase::Untimed => None,
            Phase::Gathering { until, .. }
            | Phase::Joining { until }
            | Phase::Syncing { until } => Some(until),
        };
        match (phase, self.sessions_from) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (one, other) => one.or(other),
        }
    }

    /// Does what is due. Afterwards [`ClassicGroup::next_deadline`] may be due again.
    pub fn tick(&mut self, now: Now) -> Outcome<W> {
        let mut out = Outcome::nothing();
        if self.sessions_from.is_some_and(|from| from <= now.ms) {
            self.expire_sessions(now, &mut out);
            self.sessions_from = self.first_session_end();
        }
        match self.phase {
            Phase::Syncing { until } if until <= now.ms => self.expire_unsynced(now, &mut out),
            Phase::Gathering { until, .. } | Phase::Joining { until } if until <= now.ms => {
                self.end_join_time(now, &mut out);
            }
            Phase::Untimed
            | Phase::Gathering { .. }
            | Phase::Joining { .. }
            | Phase::Syncing { .. } => {}
        }
        out
    }

    /// A member was heard of, or has its answer.
    pub(super) fn start_session(&mut self, id: &str, now: Now) {
        let Some(member) = self.members.get_mut(id) else { return };
        member.expires = now.ms + timeout_ms(member.session_timeout_ms);
        let expires = member.expires;
        self.look_at_sessions_by(expires);
    }

    pub(super) fn look_at_sessions_by(&mut self, deadline: u64) {
        let from = self.sessions_from.map_or(deadline, |from| from.min(deadline));
        self.sessions_from = Some(from);
    }

    fn first_session_end(&self) -> Option<u64> {
        let members = self.members.iter().filter_map(|(_, member)| member.session_end());
        members.chain(self.pending.values().copied()).min()
    }

    fn expire_sessions(&mut self, now: Now, out: &mut Outcome<W>) {
        self.pending.retain(|_, until| *until > now.ms);
        let over =
            self.members.ids_of(|member| member.session_end().is_some_and(|end| end <= now.ms));
        for id in &over {
            self.remove_member(id, out);
        }
        if over.is_empty() {
            self.complete_join_if_all_are_in(now, out);
        } else {
            self.rebalance_or_complete_join(now, out);
        }
    }

    /// Members that never asked for their share are taken out, and the rest begins anew. One that
    /// has just joined again is not gone.
    fn expire_unsynced(&mut self, now: Now, out: &mut Outcome<W>) {
        assert!(
            matches!(self.state, State::CompletingRebalance | State::Stable),
            "syncs are due in {:?}",
            self.state
        );
        self.phase = Phase::Untimed;
        let silent = self.members.ids_of(|member| member.has_to_sync() && !member.is_joining());
        for id in &silent {
            self.remove_member(id, out);
        }
        if silent.is_empty() {
            self.members.nobody_has_to_sync();
        } else {
            self.begin_rebalance(now, out);
        }
    }
}

#[cfg(test)]
#[path = "expiry_tests.rs"]
mod tests;
