//! The next step of one member towards its target: what it keeps, must let go, and gets.

use std::collections::BTreeMap;

use millstream_io::units::TopicPartition;

use super::epoch::Epoch;
use super::member::{CurrentAssignment, HeldPartitions, MemberState, Partitions};

/// All that decides the next step.
pub(super) struct Step<'a, F> {
    pub current: &'a CurrentAssignment,
    pub target_epoch: Epoch,
    pub target: &'a Partitions,
    /// What the member says it owns; `None` when it did not say.
    pub owned: Option<&'a Partitions>,
    /// Whether nobody else holds a partition.
    pub is_free: F,
}

impl<F: Fn(&TopicPartition) -> bool> Step<'_, F> {
    /// The member's next state; the current one when it can go no further.
    ///
    /// A member moves in two steps. First it is told to keep what its target leaves it, and stays
    /// in its epoch until it owns nothing else. Then it enters the target's epoch with all of the
    /// target that is free; what is not comes with later heartbeats.
    pub fn next(&self) -> CurrentAssignment {
        match self.current.state {
            MemberState::Stable if self.current.epoch == self.target_epoch => self.current.clone(),
            MemberState::Stable | MemberState::UnreleasedPartitions => {
                self.towards_target(self.current.epoch)
            }
            MemberState::UnrevokedPartitions if self.owns_any(&self.current.revoking) => {
                self.current.clone()
            }
            // What it had to let go of is gone, so it is past its epoch, though perhaps not yet in
            // the newest.
            MemberState::UnrevokedPartitions => {
                self.towards_target(self.current.epoch.next().min(self.target_epoch))
            }
        }
    }

    fn towards_target(&self, epoch: Epoch) -> CurrentAssignment {
        let (mut assigned, revoking): (HeldPartitions, HeldPartitions) =
            self.current.assigned.iter().partition(|(held, _)| self.target.contains(held));
        if self.owns_any(&revoking) {
            return self.moved(MemberState::UnrevokedPartitions, epoch, assigned, revoking);
        }
        let mut waits = false;
        for wanted in self.target {
            if assigned.contains_key(wanted) {
                continue;
            }
            if (self.is_free)(wanted) {
                assigned.insert(*wanted, self.target_epoch);
            } else {
                waits = true;
            }
        }
        let state = if waits { MemberState::UnreleasedPartitions } else { MemberState::Stable };
        self.moved(state, self.target_epoch, assigned, BTreeMap::new())
    }

    fn moved(
        &self,
        state: MemberState,
        epoch: Epoch,
        assigned: HeldPartitions,
        revoking: HeldPartitions,
    ) -> CurrentAssignment {
        assert!(
            epoch >= self.current.epoch && epoch <= self.target_epoch,
            "a member of epoch {} goes to {epoch} on its way to {}",
            self.current.epoch,
            self.target_epoch
        );
        let is_same = epoch == self.current.epoch;
        let previous_epoch = if is_same { self.current.previous_epoch } else { self.current.epoch };
        CurrentAssignment { epoch, previous_epoch, state, assigned, revoking }
    }

    /// Whether the member owns, or may own, any of these.
    fn owns_any(&self, partitions: &HeldPartitions) -> bool {
        match self.owned {
            None => !partitions.is_empty(),
            Some(owned) => partitions.keys().any(|partition| owned.contains(partition)),
        }
    }
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
