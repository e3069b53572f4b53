//! What the connections of one core share.

use super::admission::{Admission, Allowed};
use super::limits::{DESCRIPTORS_KEPT_MIN, DESCRIPTORS_KEPT_SHARE, REQUEST_MEMORY_PER_CORE};
use super::marks::{Beat, Marks};
use super::memory::RequestMemory;
use super::pipeline::Pipeline;
use crate::api::logins::now_ms;
use crate::api::{Caller, CoreContext};
use crate::login::Login;
use millstream_io::net::Closer;
use millstream_io::runtime::Pool;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;

/// The doors of one core. Lives there.
pub struct Door {
    pub core: Rc<CoreContext>,
    pub admission: Admission,
    pub memory: RequestMemory,
    /// Fetches file pages that are not in memory.
    pub pool: Pool,
    pub beat: Cell<Beat>,
    /// Connections that were refused since the last beat.
    pub refusals: Cell<u32>,
    connections_by_descriptors: u32,
    connections: RefCell<HashMap<u64, Rc<Session>>>,
    next_connection: Cell<u64>,
}

/// One connection, as its own task and the reaper see it.
pub struct Session {
    /// The peer's port; its address is the caller's host.
    pub port: u16,
    pub caller: Rc<Caller>,
    pub pipeline: Pipeline,
    pub marks: Marks,
    pub closer: Closer,
}

impl Session {
    /// Where it comes from, for the log.
    pub fn peer(&self) -> SocketAddr {
        SocketAddr::new(self.caller.host, self.port)
    }

    /// Whether any request may come: nothing of a login is to be done first.
    pub fn may_send_on(&self) -> bool {
        self.caller.login.as_ref().is_none_or(|login| login.is_open())
    }
}

impl Door {
    /// `descriptors` is how many this process may have open.
    pub fn new(core: Rc<CoreContext>, admission: Admission, pool: Pool, descriptors: u64) -> Door {
        Door {
            core,
            admission,
            memory: RequestMemory::new(REQUEST_MEMORY_PER_CORE),
            pool,
            beat: Cell::new(0),
            refusals: Cell::new(0),
            connections_by_descriptors: for_connections(descriptors),
            connections: RefCell::new(HashMap::new()),
            next_connection: Cell::new(0),
        }
    }

    /// The limits of this moment.
    pub fn allowed(&self) -> Allowed {
        let image = self.core.metadata.get();
        Allowed {
            total: image.broker.sockets.connections_max.min(self.connections_by_descriptors),
            per_address: image.broker.sockets.connections_per_ip_max,
        }
    }

    /// The login that a connection of this listener begins with, if it asks for one.
    pub fn login(&self, listener: &str) -> Option<Box<Login>> {
        let image = self.core.metadata.get();
        let listeners = &image.start.config.listeners;
        let rules = listeners.iter().find(|known| known.bind.name == listener)?.login.clone()?;
        Some(Box::new(Login::new(rules, now_ms(&self.core))))
    }

    /// A number that no other connection of this core has had.
    pub fn number_connection(&self) -> u64 {
        let number = self.next_connection.get();
        self.next_connection.set(number + 1);
        number
    }

    pub fn add(&self, session: Rc<Session>) {
        self.connections.borrow_mut().insert(session.caller.connection, session);
    }

    pub fn remove(&self, connection: u64) {
        self.connections.borrow_mut().remove(&connection);
        self.core.fetch_sessions.borrow_mut().close_connection(connection);
    }

    /// All connections of the core at this moment.
    pub fn sessions(&self) -> Vec<Rc<Session>> {
        self.connections.borrow().values().cloned().collect()
    }

    /// How many there are.
    pub fn connection_count(&self) -> usize {
        self.connections.borrow().len()
    }

    pub fn has_connections(&self) -> bool {
        !self.connections.borrow().is_empty()
    }
}

/// Descriptors that connections may take; the others are kept for files.
fn for_connections(descriptors: u64) -> u32 {
    let kept = (descriptors / DESCRIPTORS_KEPT_SHARE).max(DESCRIPTORS_KEPT_MIN);
    u32::try_from(descriptors.saturating_sub(kept).max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_keep_a_reserve_of_descriptors() {
        assert_eq!(for_connections(512), 384);
        assert_eq!(for_connections(20_000), 15_000);
        assert_eq!(for_connections(100), 1);
        assert_eq!(for_connections(u64::MAX), u32::MAX);
    }
}
