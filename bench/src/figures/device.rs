//! Bytes written to storage for each byte produced, until the broker has come to rest.

use std::time::Duration;

use anyhow::Result;

use super::produce::batch_load;
use super::{Report, Setup, Target, VALUE_BYTES, now_ms};
use crate::batch::Batch;
use crate::client::{Admin, Driver};
use crate::load::{ProduceLoop, Shot, Tally};
use crate::process::Broker;

const CONNECTIONS: i32 = 64;

pub fn measure(setup: &Setup, report: &mut Report) -> Result<()> {
    let broker = setup.broker()?;
    let mut admin = Admin::connect(broker.address)?;

    let (_, load) = batch_load(setup, &broker, &mut admin)?;
    report_bytes(setup, report, &broker, load, "batches of 1 MB")?;

    for (records, what) in
        [(100, "batches of 100 records, 64 connections"), (1, "single records, 64 connections")]
    {
        let topic = setup.topic(&mut admin, "small", CONNECTIONS)?;
        let batch = Batch::filled(records, VALUE_BYTES, 5, now_ms());
        let shots: Result<Vec<Vec<Shot>>> = (0..CONNECTIONS)
            .map(|lane| Ok(vec![Shot::new(admin.versions, &topic, &[lane], &batch)?]))
            .collect();
        let driver = Driver::connect(broker.address, usize::try_from(CONNECTIONS)?)?;
        let load = ProduceLoop::new(driver, admin.versions, CONNECTIONS, shots?, 1)?;
        report_bytes(setup, report, &broker, load, what)?;
    }
    if setup.attached.is_none() {
        broker.stop()?;
    }
    Ok(())
}

fn report_bytes(
    setup: &Setup,
    report: &mut Report,
    broker: &Broker,
    mut load: ProduceLoop,
    what: &str,
) -> Result<()> {
    broker.settle(Duration::from_secs(1), super::SETTLE_LIMIT)?;
    let before = broker.written()?;
    load.run_up_to(setup.window, setup.window_bytes)?;
    load.drain()?;
    let Tally { requests, bytes, .. } = load.tally;
    let at_once = (broker.written()? - before) as f64 / bytes as f64;
    let settled = broker.settle(Duration::from_secs(2), super::SETTLE_LIMIT)?;
    let written = (broker.written()? - before) as f64;
    report.row(
        format!("bytes written a byte produced, {what}"),
        "x",
        Target::None,
        vec![written / bytes as f64],
        format!(
            "{:.1} MB in {requests} requests; {at_once:.2} x at the last answer{}",
            bytes as f64 / 1e6,
            if settled { "" } else { "; still writing" }
        ),
    );
    Ok(())
}
