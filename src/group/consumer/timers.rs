//! When members' time is up.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::epoch::Epoch;

/// Deadlines of all members, on the caller's monotonic clock in milliseconds.
#[derive(Debug, Default)]
pub(super) struct Timers {
    members: HashMap<Arc<str>, MemberTimers>,
    /// Each member's next deadline.
    queue: BTreeSet<(u64, Arc<str>)>,
}

#[derive(Clone, Copy, Debug)]
struct MemberTimers {
    session: u64,
    revocation: Option<Revocation>,
}

/// By when a member must have left an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Revocation {
    pub at: u64,
    pub epoch: Epoch,
}

impl MemberTimers {
    fn next(&self) -> u64 {
        self.revocation.map_or(self.session, |revocation| revocation.at.min(self.session))
    }
}

/// What a member's time is up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expired {
    Session,
    Revocation(Epoch),
}

impl Timers {
    /// A member gave a sign of life; its session lasts until `at`.
    pub fn set_session(&mut self, id: &Arc<str>, at: u64) {
        let revocation = self.members.get(id).and_then(|timers| timers.revocation);
        self.set(id, MemberTimers { session: at, revocation });
    }

    /// Sets or lifts the time by which a member must have let go of partitions. Without a session
    /// there is nothing to set.
    pub fn set_revocation(&mut self, id: &Arc<str>, revocation: Option<Revocation>) {
        if let Some(timers) = self.members.get(id) {
            self.set(id, MemberTimers { revocation, ..*timers });
        }
    }

    pub fn remove(&mut self, id: &Arc<str>) {
        if let Some(timers) = self.members.remove(id) {
            self.queue.remove(&(timers.next(), id.clone()));
        }
    }

    /// The earliest deadline.
    pub fn next(&self) -> Option<u64> {
        self.queue.first().map(|(at, _)| *at)
    }

    /// A member whose time is up, and for what. The caller removes it or sets another deadline.
    pub fn expired(&self, now: u64) -> Option<(Arc<str>, Expired)> {
        let (at, id) = self.queue.first()?;
        if *at > now {
            return None;
        }
        let timers = self.members.get(id)?;
        let expired = match timers.revocation {
            Some(revocation) if timers.session > now => Expired::Revocation(revocation.epoch),
            _ => Expired::Session,
        };
        Some((id.clone(), expired))
    }

    fn set(&mut self, id: &Arc<str>, timers: MemberTimers) {
        if let Some(before) = self.members.insert(id.clone(), timers) {
            self.queue.remove(&(before.next(), id.clone()));
        }
        self.queue.insert((timers.next(), id.clone()));
    }
}
