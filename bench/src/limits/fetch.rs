//! What consumers get, from the tail in memory and from files in the page cache, against plain TCP
//! between the same CPUs.

use anyhow::{Result, ensure};

use super::{Case, Subject, cores, loopback, median, ratios};
use crate::batch::Batch;
use crate::client::{Admin, Driver, Expect, Topic};
use crate::figures::{Report, Target};
use crate::fill::{self, fill};
use crate::load::{FetchLoop, Span};

/// Partitions, a connection each.
const PARTITIONS: i32 = 4;
/// What a consumer asks of a partition at a time (`max.partition.fetch.bytes`).
const PARTITION_BYTES: i32 = 1 << 20;
/// The last batches of each partition: its tail.
const TAIL_BATCHES: i64 = 8;
/// Of so many answers one is looked at whole while the clock runs. The first pass over everything,
/// before it, looks at all.
const WHOLE_OF: u64 = 16;
/// Of what plain TCP gives.
const SHARE_MIN: f64 = 0.7;

pub fn measure(case: &Case, report: &mut Report) -> Result<()> {
    let subject = case.start(&[])?;
    let mut admin = Admin::connect(subject.broker.address)?;
    let topic = admin.create("limits-fetch", PARTITIONS, &[])?;
    let batches: Vec<Batch> = (0..4).map(fill::batch).collect();
    let ends = fill(subject.broker.address, &mut admin, &topic, case.log_gb, &batches)?;
    subject.rest()?;
    let mut expect = Expect::default();
    batches.iter().for_each(|batch| expect.add(batch));

    let iperf3 = match loopback::iperf3(&case.cpus, case.window) {
        None => "no iperf3 here".to_owned(),
        Some(Ok(rate)) => format!("iperf3 {:.0} MB/s", rate / 1e6),
        Some(Err(error)) => format!("iperf3 failed: {error:#}"),
    };
    let source = Source { case, subject: &subject, admin: &admin, topic: &topic, expect, iperf3 };
    let (tail, old) = (spans(&ends, tail_of)?, spans(&ends, old_of)?);
    source.row(report, "fetch from memory, against plain TCP", tail, false)?;
    source.row(report, "fetch from files in the page cache, against plain TCP", old, true)?;
    if case.attached.is_none() {
        subject.broker.stop()?;
    }
    Ok(())
}

/// The last batches of a partition that ends there.
fn tail_of(end: i64) -> (i64, i64) {
    ((end - TAIL_BATCHES * i64::from(fill::RECORDS)).max(0), end)
}

/// Its first two fifths, whole batches: far behind what memory holds of it.
fn old_of(end: i64) -> (i64, i64) {
    let batch = i64::from(fill::RECORDS);
    (0, end * 2 / 5 / batch * batch)
}

fn spans(ends: &[i64], of: fn(i64) -> (i64, i64)) -> Result<Vec<Span>> {
    let mut spans = Vec::with_capacity(ends.len());
    for (partition, end) in ends.iter().enumerate() {
        let (from, to) = of(*end);
        ensure!(from < to, "too little was produced: {ends:?}");
        spans.push(Span { partition: i32::try_from(partition)?, from, to });
    }
    Ok(spans)
}

struct Source<'a> {
    case: &'a Case,
    subject: &'a Subject,
    admin: &'a Admin,
    topic: &'a Topic,
    expect: Expect,
    /// What iperf3 says, for the note.
    iperf3: String,
}

impl Source<'_> {
    fn row(
        &self,
        report: &mut Report,
        name: &str,
        spans: Vec<Span>,
        from_files: bool,
    ) -> Result<()> {
        let driver = Driver::connect(self.subject.broker.address, spans.len())?;
        let lists = spans.into_iter().map(|span| vec![span]).collect();
        let (versions, expect) = (self.admin.versions, self.expect.clone());
        let mut load =
            FetchLoop::new(driver, versions, self.topic, expect, lists, PARTITION_BYTES)?;
        // Looks at every byte, and brings what lies in files into the page cache.
        let span_bytes = load.run_once()?.bytes;
        load.drain()?;
        load.look_whole_at_one_of(WHOLE_OF);
        let before = self.subject.count()?;
        let (mut plain, mut fetched, mut usages) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.case.windows {
            plain.push(loopback::rate(&self.case.cpus, self.case.window)?);
            let (done, usage) = self.subject.watch(|| load.run(self.case.window))?;
            // Nobody reads meanwhile, and a broker does not wait for ever.
            load.drain()?;
            fetched.push(done.bytes as f64 / usage.seconds);
            usages.push(usage);
        }
        if let Some(share) = self.subject.count()?.since(before).file_share() {
            let right = if from_files { share } else { 1.0 - share };
            ensure!(right > 0.95, "{name}: {:.0} % of the bytes came from files", share * 100.0);
        }
        let (broker, client) = cores(&usages);
        let note = format!(
            "{:.0} MB/s over and over {:.0} MB, plain TCP {:.0} MB/s, {}; broker {broker:.2} cores, \
             client {client:.2}",
            median(&fetched) / 1e6,
            span_bytes as f64 / 1e6,
            median(&plain) / 1e6,
            self.iperf3,
        );
        report.row(name, "x", Target::AtLeast(SHARE_MIN), ratios(&fetched, &plain), note);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_the_last_batches_and_the_old_part_ends_between_batches() {
        let batch = i64::from(fill::RECORDS);
        assert_eq!(tail_of(100 * batch), (92 * batch, 100 * batch));
        assert_eq!(tail_of(3 * batch), (0, 3 * batch));
        assert_eq!(old_of(9 * batch), (0, 3 * batch));
        assert!(spans(&[9 * batch, 2 * batch], old_of).is_err(), "nothing is left of the second");
    }
}
