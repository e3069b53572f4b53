//! How many connections there may be, over all cores together and from one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Counts connections. One for the process; each core holds a reference. Locked for a few
/// instructions at the beginning and the end of a connection only.
#[derive(Clone, Default)]
pub struct Admission(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    total: u32,
    accepted: u64,
    refused: u64,
    by_address: HashMap<IpAddr, u32>,
}

/// What is allowed at this moment.
#[derive(Clone, Copy, Debug)]
pub struct Allowed {
    pub total: u32,
    pub per_address: u32,
}

/// Why a connection is closed at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooMany {
    Total { allowed: u32 },
    FromAddress { allowed: u32 },
}

impl std::fmt::Display for TooMany {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Total { allowed } => write!(
                f,
                "there are {allowed} connections, as many as may be (max.connections, or the \
                 descriptors that `ulimit -n` leaves)"
            ),
            Self::FromAddress { allowed } => write!(
                f,
                "there are {allowed} connections from this address, as many as may be \
                 (max.connections.per.ip)"
            ),
        }
    }
}

impl Admission {
    /// Counts a connection from `address`, until the ticket is dropped.
    ///
    /// # Errors
    /// [`TooMany`]; nothing was counted.
    pub fn enter(&self, address: IpAddr, allowed: Allowed) -> Result<Ticket, TooMany> {
        let address = address.to_canonical();
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.total >= allowed.total {
            counts.refused += 1;
            return Err(TooMany::Total { allowed: allowed.total });
        }
        let here = counts.by_address.get(&address).copied().unwrap_or(0);
        if here >= allowed.per_address {
            counts.refused += 1;
            return Err(TooMany::FromAddress { allowed: allowed.per_address });
        }
        counts.total += 1;
        counts.accepted += 1;
        counts.by_address.insert(address, here + 1);
        Ok(Ticket { admission: self.clone(), address })
    }

    pub fn connections(&self) -> Connections {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Counts { total, accepted, refused, .. } = *counts;
        Connections { now: total, accepted, refused }
    }
}

/// Connections of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    pub now: u32,
    /// Since the start.
    pub accepted: u64,
    pub refused: u64,
}

/// A counted connection.
pub struct Ticket {
    admission: Admission,
    address: IpAddr,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut counts = self.admission.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.total -= 1;
        match counts.by_address.get_mut(&self.address) {
            Some(1) | None => {
                counts.by_address.remove(&self.address);
            }
            Some(count) => *count -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_in_total_and_per_address_and_places_come_free() {
        let admission = Admission::default();
        let allowed = Allowed { total: 3, per_address: 2 };
        let one: IpAddr = "10.0.0.1".parse().unwrap();
        let same: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        let other: IpAddr = "10.0.0.2".parse().unwrap();
        let first = admission.enter(one, allowed).unwrap();
        let _second = admission.enter(same, allowed).unwrap();
        let full = admission.enter(one, allowed).err();
        assert_eq!(full, Some(TooMany::FromAddress { allowed: 2 }));
        let _third = admission.enter(other, allowed).unwrap();
        assert_eq!(admission.enter(other, allowed).err(), Some(TooMany::Total { allowed: 3 }));
        drop(first);
        assert!(admission.enter(one, allowed).is_ok());
        assert_eq!(admission.connections(), Connections { now: 2, accepted: 4, refused: 2 });
    }
}
