//! CPU of the broker for a consumed message: from the tail in memory, and from segment files.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::produce::{batch_load, large_batch, rate};
use super::{Report, Setup, Target};
use crate::client::{Admin, Driver, Expect, Topic};
use crate::host::micros;
use crate::load::{FetchLoop, Span, Tally, check_ends};
use crate::process::Broker;

/// What a consumer asks of a partition at a time (`max.partition.fetch.bytes`).
const PARTITION_BYTES: i32 = 1 << 20;
/// Bytes of each partition that count as its tail: the last few batches.
const TAIL_BATCHES: i64 = 2;

pub fn measure(setup: &Setup, report: &mut Report) -> Result<()> {
    let broker = setup.broker()?;
    let mut admin = Admin::connect(broker.address)?;
    let (topic, mut load) = batch_load(setup, &broker, &mut admin)?;
    load.run_up_to(Duration::from_secs(60), setup.window_bytes)?;
    load.drain()?;
    let ends = admin.ends(&topic)?;
    check_ends(&ends, &vec![0; ends.len()], &load.acked)?;
    drop(load);
    broker.settle(Duration::from_secs(1), super::SETTLE_LIMIT)?;

    let per_batch = i64::from(super::BATCH_RECORDS);
    let spans = |from: &dyn Fn(i64) -> i64, to: &dyn Fn(i64) -> i64| -> Vec<Span> {
        let span = |(index, end): (usize, &i64)| Span {
            partition: i32::try_from(index).unwrap_or(i32::MAX),
            from: from(*end),
            to: to(*end),
        };
        ends.iter().enumerate().map(span).collect()
    };
    let tail = spans(&|end| end - TAIL_BATCHES * per_batch, &|end| end);
    let old = spans(&|_| 0, &|end| end / 2 / per_batch * per_batch);
    ensure!(old.iter().all(|span| span.to > 0), "too little was produced: {ends:?}");

    let case = Case { setup, broker: &broker, admin: &admin, topic: &topic };
    case.rows(report, "from the tail in memory", tail)?;
    case.rows(report, "from files", old)?;
    if setup.attached.is_none() {
        broker.stop()?;
    }
    Ok(())
}

struct Case<'a> {
    setup: &'a Setup,
    broker: &'a Broker,
    admin: &'a Admin,
    topic: &'a Topic,
}

impl Case<'_> {
    /// One consumer a partition, each on its own connection, reading its span again and again.
    fn rows(&self, report: &mut Report, place: &str, spans: Vec<Span>) -> Result<()> {
        let mut expect = Expect::default();
        for span in &spans {
            expect.add(&large_batch(span.partition));
        }
        let driver = Driver::connect(self.broker.address, spans.len())?;
        let lists = spans.into_iter().map(|span| vec![span]).collect();
        let versions = self.admin.versions;
        let mut load =
            FetchLoop::new(driver, versions, self.topic, expect, lists, PARTITION_BYTES)?;
        let (before, begun) = (self.broker.cpu()?, Instant::now());
        let first = load.run_once()?;
        let first_cpu = micros(self.broker.cpu()? - before) / first.records as f64;
        let first_rate = rate(first, begun.elapsed().as_secs_f64());
        let (mut cpu, mut total, mut seconds) = (Vec::new(), Tally::default(), 0.0);
        for _ in 0..self.setup.windows {
            let (before, begun) = (self.broker.cpu()?, Instant::now());
            let done = load.run(self.setup.window)?;
            cpu.push(micros(self.broker.cpu()? - before) / done.records as f64);
            seconds += begun.elapsed().as_secs_f64();
            total.records += done.records;
            total.bytes += done.bytes;
        }
        report.row(
            format!("broker CPU a consumed message, {place}"),
            "us",
            Target::AtMost(0.15),
            cpu,
            format!("{}; first pass {first_cpu:.3} us, {first_rate}", rate(total, seconds)),
        );
        Ok(())
    }
}
