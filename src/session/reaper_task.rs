//! Ends idle and slow connections. One task a core instead of a timer a connection.

use super::door::Door;
use super::limits::REAPER_BEAT;
use super::marks::Overdue;
use crate::api::logins::now_ms;
use crate::login;
use millstream_io::runtime::sleep;
use millstream_io::{log_limited, runtime::log};
use std::rc::Rc;

/// Beats until it is cancelled.
pub async fn run(door: Rc<Door>) {
    loop {
        sleep(REAPER_BEAT).await;
        door.beat.set(door.beat.get().saturating_add(1));
        door.refusals.set(0);
        if door.has_connections() {
            reap(&door);
        }
    }
}

fn reap(door: &Door) {
    let idle_ms = door.core.metadata.get().broker.sockets.idle_ms_max;
    let idle_s_max = idle_ms.div_ceil(1000);
    let now_ms = now_ms(&door.core);
    for session in door.sessions() {
        match session.caller.login.as_ref().and_then(|login| login.look(now_ms)) {
            Some(login::Overdue::Login) => {
                log_limited!(
                    log::warn("session", "closed a connection")
                        .field("peer", session.peer())
                        .field("reason", "its login took too long")
                );
                session.closer.shutdown_read();
            }
            // Its next request ends it.
            Some(login::Overdue::Session) => door.core.logins.count_expired(),
            None => {}
        }
        let is_idle = session.pipeline.is_idle();
        match session.marks.overdue(door.beat.get(), idle_s_max, is_idle) {
            Some(overdue @ Overdue::SlowRequest) => {
                log_limited!(
                    log::warn("session", "closed a connection")
                        .field("peer", session.peer())
                        .field("reason", overdue)
                );
                session.closer.shutdown_read();
            }
            Some(Overdue::Idle) => session.closer.shutdown_read(),
            None => {}
        }
    }
}

/// Ends the reading side of every connection: what is under way is answered, nothing new begins.
pub fn end_all(door: &Door) {
    door.sessions().iter().for_each(|session| session.closer.shutdown_read());
}
