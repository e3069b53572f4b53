//! What needs a member in good standing: heartbeats and offset commits.

use super::calls::{Caller, CommitKind};
use super::{ClassicGroup, Now, State};
use crate::wire::error_code::ErrorCode;

impl<W> ClassicGroup<W> {
    /// Keeps a member's session alive.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION; REBALANCE_IN_PROGRESS when the
    /// member is to join again, which keeps its session alive, too.
    pub fn heartbeat(
        &mut self,
        caller: Caller<'_>,
        generation: i32,
        now: Now,
    ) -> Result<(), ErrorCode> {
        self.check_member(caller, generation)?;
        self.start_session(caller.member_id, now);
        match self.state {
            State::PreparingRebalance => Err(ErrorCode::RebalanceInProgress),
            // A member may send heartbeats as soon as its join is answered.
            State::CompletingRebalance | State::Stable => Ok(()),
            State::Empty | State::Dead => {
                panic!("{} is a member of a {:?} group", caller.member_id, self.state)
            }
        }
    }

    /// Says whether a commit of offsets is to be taken. One of a member keeps its session alive.
    ///
    /// A generation below 0 comes from a tool or from a consumer that chose its partitions itself:
    /// it may commit while the group has no members. Members may commit what they have done while
    /// they are asked to join again, but not before they know what is theirs.
    ///
    /// # Errors
    /// As [`ClassicGroup::heartbeat`]. Transactional commits of old clients name no member and are
    /// taken; those that name one are checked whatever the group is about.
    pub fn validate_commit(
        &mut self,
        caller: Caller<'_>,
        generation: i32,
        kind: CommitKind,
        now: Now,
    ) -> Result<(), ErrorCode> {
        if self.state == State::Dead {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        if generation < 0 && self.state == State::Empty {
            return Ok(());
        }
        let names_a_member =
            generation >= 0 || !caller.member_id.is_empty() || caller.instance_id.is_some();
        match (names_a_member, kind) {
            (true, _) => self.check_member(caller, generation)?,
            (false, CommitKind::Plain) => return Err(ErrorCode::UnknownMemberId),
            (false, CommitKind::Transactional) => return Ok(()),
        }
        match (kind, self.state) {
            (CommitKind::Plain, State::CompletingRebalance) => Err(ErrorCode::RebalanceInProgress),
            (CommitKind::Plain, _) => {
                self.start_session(caller.member_id, now);
                Ok(())
            }
            (CommitKind::Transactional, _) => Ok(()),
        }
    }

    fn check_member(&self, caller: Caller<'_>, generation: i32) -> Result<(), ErrorCode> {
        if self.state == State::Dead {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        self.members.check(caller)?;
        if generation == self.generation { Ok(()) } else { Err(ErrorCode::IllegalGeneration) }
    }
}

#[cfg(test)]
#[path = "heartbeat_tests.rs"]
mod tests;
