//! Accepts connections of one listener on one core and lets them in or not.

use super::connection;
use super::door::Door;
use millstream_io::net::{Conn, Listener};
use millstream_io::runtime::{Gate, Queue, Stop};
use millstream_io::{log_limited, runtime::log};
use std::rc::Rc;

/// Accepts until the word to stop; connections run inside `gate`.
pub async fn run(listener: Listener, name: Rc<str>, door: Rc<Door>, gate: Gate, stop: Stop) {
    listener.accept_until(&stop, |conn| admit(conn, &name, &door, &gate)).await;
}

/// A connection that is one too many is closed at once.
fn admit(conn: Conn, name: &Rc<str>, door: &Rc<Door>, gate: &Gate) {
    let peer = conn.peer();
    match door.admission.enter(peer.ip(), door.allowed()) {
        Ok(ticket) => {
            let serving = connection::serve(conn, door.clone(), name.clone(), ticket);
            // A closed gate means that the broker stops; the connection is dropped with its task.
            let _ = gate.spawn(Queue::Serve, serving);
        }
        Err(too_many) => log_limited!(
            log::warn("session", "refused a connection")
                .field("peer", peer)
                .field("reason", too_many)
        ),
    }
}
