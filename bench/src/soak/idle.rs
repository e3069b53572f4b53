//! Connections that mostly rest and must still be served at once, and others that come and go.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use millstream::wire::messages::metadata::MetadataRequest;

use super::Shared;
use crate::client::{Admin, Driver, Frame};

/// Every idle connection is asked something once in so many turns of a second.
const TURNS: usize = 30;
/// Connections opened, greeted and closed in a second.
const VISITS: usize = 10;

pub fn run(shared: &Shared) -> Result<()> {
    let mut driver = Driver::connect(shared.broker, shared.plan.idle)?;
    let hello = Rc::new(Frame::request(&MetadataRequest::default(), 12)?);
    let mut turn = 0;
    while !shared.stopping() {
        let begun = Instant::now();
        for connection in (turn % TURNS..shared.plan.idle).step_by(TURNS) {
            driver.outputs().send(connection, &hello, 0);
        }
        turn += 1;
        let limit = Duration::from_secs(60);
        driver.drain(limit, &mut |_, _| {
            shared.pokes.fetch_add(1, Ordering::Relaxed);
            shared.waited("an idle connection's request", begun.elapsed(), Duration::ZERO);
            Ok(())
        })?;
        for _ in 0..VISITS {
            let begun = Instant::now();
            drop(Admin::connect(shared.broker)?);
            shared.waited("a new connection", begun.elapsed(), Duration::ZERO);
        }
        while begun.elapsed() < Duration::from_secs(1) && !shared.stopping() {
            let left = Duration::from_secs(1).saturating_sub(begun.elapsed());
            let answers = driver.turn(left.min(Duration::from_millis(100)), &mut |_, _| Ok(()))?;
            ensure!(answers == 0, "an answer that nobody asked for");
        }
    }
    Ok(())
}
