//! What an idle broker costs: a thousand connections and a thousand written partitions, no request.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use millstream::wire::messages::metadata as md;

use super::start::mib;
use super::{Report, Setup, Target, VALUE_BYTES, now_ms};
use crate::batch::Batch;
use crate::client::{Admin, Driver, Frame};
use crate::load::Shot;
use crate::process::pause;

const CONNECTIONS: usize = 1000;
const PARTITIONS: i32 = 1000;

pub fn measure(setup: &Setup, report: &mut Report) -> Result<()> {
    let broker = setup.broker()?;
    let mut admin = Admin::connect(broker.address)?;
    let topic = setup.topic(&mut admin, "idle", PARTITIONS)?;
    let all: Vec<i32> = (0..PARTITIONS).collect();
    let batch = Batch::filled(1, VALUE_BYTES, 4, now_ms());
    let shot = Shot::new(admin.versions, &topic, &all, &batch)?;
    let before = broker.rss()?;
    let mut driver = Driver::connect(broker.address, CONNECTIONS)?;

    let limit = Duration::from_secs(30);
    driver.outputs().send(0, shot.frame(), 0);
    driver.drain(limit, &mut |response, _| shot.check(admin.versions.produce, response.bytes))?;
    let hello = Rc::new(Frame::request(&md::MetadataRequest::default(), 12)?);
    for connection in 0..CONNECTIONS {
        driver.outputs().send(connection, &hello, 0);
    }
    driver.drain(limit, &mut |_, _| Ok(()))?;
    report.row(
        "memory of 1000 connections (RSS)",
        "KiB",
        Target::None,
        vec![(broker.rss()?.saturating_sub(before)) as f64 / 1024.0 / CONNECTIONS as f64],
        "each, after one small request",
    );
    let settled = broker.settle(Duration::from_secs(3), super::SETTLE_LIMIT)?;
    ensure!(settled, "the broker still writes {:?} after the last request", super::SETTLE_LIMIT);

    let length = Duration::from_secs(if setup.quick { 10 } else { 30 });
    let (cpu, written, begun) = (broker.cpu()?, broker.written()?, Instant::now());
    pause(length);
    let elapsed = begun.elapsed();
    let busy = (broker.cpu()? - cpu).as_secs_f64() / elapsed.as_secs_f64() * 100.0;
    let what = format!("1000 connections, 1000 partitions, {:.0} s", elapsed.as_secs_f64());
    report.row("idle: CPU", "% core", Target::AtMost(2.0), vec![busy], what.as_str());
    let wrote = (broker.written()? - written) as f64;
    report.row("idle: bytes written", "bytes", Target::Exactly(0.0), vec![wrote], what.as_str());
    report.row(
        "memory, idle (RSS)",
        "MiB",
        Target::None,
        vec![mib(broker.rss()?)],
        format!("{what}, {} descriptors", broker.descriptors()?),
    );
    for connection in 0..CONNECTIONS {
        driver.outputs().send(connection, &hello, 0);
    }
    driver.drain(limit, &mut |_, _| Ok(()))?;
    // With a thousand written partitions the ordered stop is mostly the disk's time.
    if setup.attached.is_none() && !setup.quick {
        let ms = broker.stop()?.as_secs_f64() * 1e3;
        report.row("SIGTERM to exit, 1000 connections", "ms", Target::None, vec![ms], "");
    }
    Ok(())
}
