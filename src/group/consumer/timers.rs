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
    /// By when a member of the classic protocol must have joined again.
    rejoin: Option<u64>,
    /// By when it must have synced.
    sync: Option<u64>,
}

/// By when a member must have left an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Revocation {
    pub at: u64,
    pub epoch: Epoch,
}

impl MemberTimers {
    fn next(&self) -> u64 {
        let revocation = self.revocation.map(|revocation| revocation.at);
        let others = [revocation, self.rejoin, self.sync];
        others.into_iter().flatten().fold(self.session, u64::min)
    }
}

/// What a member's time is up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expired {
    Session,
    Revocation(Epoch),
    Rejoin,
    Sync,
}

impl Timers {
    /// A member gave a sign of life; its session lasts until `at`.
    pub fn set_session(&mut self, id: &Arc<str>, at: u64) {
        let none = MemberTimers { session: at, revocation: None, rejoin: None, sync: None };
        let timers = self.members.get(id).copied().unwrap_or(none);
        self.set(id, MemberTimers { session: at, ..timers });
    }

    /// Sets or lifts the times by which a member of the classic protocol must have joined again and
    /// have synced.
    pub fn set_guest(&mut self, id: &Arc<str>, rejoin: Option<u64>, sync: Option<u64>) {
        if let Some(timers) = self.members.get(id) {
            self.set(id, MemberTimers { rejoin, sync, ..*timers });
        }
    }

    /// A member of the classic protocol is told to join again; it has been before when a time for
    /// that is set.
    pub fn set_rejoin_if_none(&mut self, id: &Arc<str>, at: u64) {
        if let Some(timers) = self.members.get(id)
            && timers.rejoin.is_none()
        {
            self.set(id, MemberTimers { rejoin: Some(at), ..*timers });
        }
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
        let is_over = |at: Option<u64>| at.is_some_and(|at| at <= now);
        let expired = match timers.revocation {
            _ if timers.session <= now => Expired::Session,
            _ if is_over(timers.rejoin) => Expired::Rejoin,
            _ if is_over(timers.sync) => Expired::Sync,
            Some(revocation) => Expired::Revocation(revocation.epoch),
            None => Expired::Session,
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
