//! LeaveGroup, and the end of a group.

use super::calls::{Answer, Caller, LeaveAnswer, Leaving, Left};
use super::{ClassicGroup, Now, Outcome, State, Store};
use crate::wire::error_code::ErrorCode;

impl<W> ClassicGroup<W> {
    /// Takes members out, each by its member id, its instance id, or both. The answer to the last
    /// member waits until the group's end is durable.
    pub fn leave(&mut self, leaving: Vec<Leaving>, waiter: W, now: Now) -> Outcome<W> {
        let mut out = Outcome::nothing();
        if self.state == State::Dead {
            let answer = LeaveAnswer::refused(ErrorCode::CoordinatorNotAvailable);
            out.answers.push((waiter, Answer::Leave(answer)));
            return out;
        }
        let members_before = self.members.len();
        let mut members = Vec::with_capacity(leaving.len());
        for member in leaving {
            let error = match self.leave_one(&member, &mut out) {
                Ok(()) => ErrorCode::None,
                Err(error) => error,
            };
            members.push(Left { member, error });
        }
        if self.members.len() < members_before {
            self.rebalance_or_complete_join(now, &mut out);
        } else {
            self.complete_join_if_all_are_in(now, &mut out);
        }
        let answer = Answer::Leave(LeaveAnswer { error: ErrorCode::None, members });
        match &out.store {
            Store::Group { number, .. } => self.held.push((*number, waiter, answer)),
            Store::Nothing | Store::Tombstone => out.answers.push((waiter, answer)),
        }
        out
    }

    fn leave_one(&mut self, leaving: &Leaving, out: &mut Outcome<W>) -> Result<(), ErrorCode> {
        let instance_id = leaving.instance_id.as_deref();
        let member_id = if leaving.member_id.is_empty() {
            // An administrator removes whoever has the instance id.
            let of_instance = instance_id.and_then(|id| self.members.of_instance(id));
            of_instance.cloned().ok_or(ErrorCode::UnknownMemberId)?
        } else {
            leaving.member_id.clone()
        };
        if self.pending.remove(&member_id).is_some() {
            return Ok(());
        }
        self.members.check(Caller { member_id: &member_id, instance_id })?;
        self.remove_member(&member_id, out);
        Ok(())
    }

    /// True when the group has neither members nor anybody who is about to become one. Whether it
    /// has offsets its caller knows.
    pub fn is_removable(&self) -> bool {
        self.state == State::Empty && self.pending.is_empty() && self.held.is_empty()
    }

    /// Ends the group, for DeleteGroups or because its last offset expired. From now on it answers
    /// COORDINATOR_NOT_AVAILABLE to everything, until it is dropped: at once when there is nothing
    /// to store, else when the tombstone is durable.
    ///
    /// # Errors
    /// NON_EMPTY_GROUP with members; GROUP_ID_NOT_FOUND when it was ended before.
    pub fn forget(&mut self, now: Now) -> Result<Outcome<W>, ErrorCode> {
        self.check_delete()?;
        let mut out = Outcome::nothing();
        self.pending.clear();
        self.sessions_from = None;
        self.enter(State::Dead, now);
        if self.is_on_disk {
            out.store = Store::Tombstone;
        }
        Ok(out)
    }

    /// # Errors
    /// As [`ClassicGroup::forget`], without its doing anything.
    pub fn check_delete(&self) -> Result<(), ErrorCode> {
        match self.state {
            State::Empty => Ok(()),
            State::PreparingRebalance | State::CompletingRebalance | State::Stable => {
                Err(ErrorCode::NonEmptyGroup)
            }
            State::Dead => Err(ErrorCode::GroupIdNotFound),
        }
    }
}

#[cfg(test)]
#[path = "leave_tests.rs"]
mod tests;
