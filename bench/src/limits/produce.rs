//! Large batches, durable before they are answered, against the device's own direct writes with
//! flushes at the sizes of the broker's commit rounds.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::counters::Counts;
use super::device::{Probe, Shape, Space};
use super::{Case, Subject, cores, median, ratios};
use crate::batch::Batch;
use crate::client::Admin;
use crate::figures::{Report, Target};
use crate::fill;
use crate::host::on_cpus;
use crate::load::{ProduceLoop, check_ends};

/// Partitions, a connection each.
const PARTITIONS: i32 = 4;
/// Batches in flight on each connection.
const IN_FLIGHT: usize = 4;
/// Of the device's own rate.
const SHARE_MIN: f64 = 0.7;
/// The file that the device is measured with.
const PROBE_BYTES: u64 = 1 << 30;
const PROBE_BYTES_SHORT: u64 = 64 << 20;
/// A broker that is busy for so much of its one core has no more to give.
const CORE_FULL: f64 = 0.9;

pub fn measure(case: &Case, report: &mut Report) -> Result<()> {
    let subject = case.start(&[])?;
    let mut admin = Admin::connect(subject.broker.address)?;
    let topic = admin.create("limits-produce", PARTITIONS, &[])?;
    let batches: Vec<Batch> = (0..4).map(fill::batch).collect();
    let address = subject.broker.address;
    let mut load = fill::load(address, &admin, &topic, &batches, IN_FLIGHT)?;
    let short = case.window < Duration::from_millis(500);
    let file_bytes = if short { PROBE_BYTES_SHORT } else { PROBE_BYTES };
    let probe = Probe::new(&case.launch.data, file_bytes)?;
    // Not measured: files are made, buffers grow.
    window(case, &subject, &mut load)?;

    let mut all = Windows::default();
    for _ in 0..case.windows {
        subject.rest()?;
        let before = subject.count()?;
        let ((bytes, seconds), usage) = subject.watch(|| window(case, &subject, &mut load))?;
        let counts = subject.count()?.since(before);
        let shape = shape(counts, bytes);
        subject.rest()?;
        // Threads that do nothing but write: where they run is where the broker does.
        let direct = |shape, space| {
            on_cpus(&case.cpus.broker, || probe.rate(shape, space, case.window / 2))?
        };
        all.produced.push(bytes as f64 / seconds);
        for (rates, space) in [(&mut all.over, Space::Written), (&mut all.new, Space::New)] {
            rates.at_once.push(direct(shape, space)?);
            rates.one_by_one.push(direct(shape.one_by_one(), space)?);
        }
        all.usages.push(usage);
        all.rounds.push((counts, shape));
    }
    check_ends(&admin.ends(&topic)?, &vec![0; load.acked.len()], &load.acked)?;
    let name = "batched produce, against direct writes to a file that grows";
    let values = ratios(&all.produced, &all.new.best());
    report.row(name, "x", Target::AtLeast(SHARE_MIN), values, all.note(&all.new));
    let name = "batched produce, against direct writes over a file";
    let values = ratios(&all.produced, &all.over.best());
    report.row(name, "x", Target::AtLeast(SHARE_MIN), values, all.note(&all.over));
    if case.attached.is_none() {
        subject.broker.stop()?;
    }
    Ok(())
}

/// Bytes that were acknowledged, and in how many seconds, to the last answer.
fn window(case: &Case, subject: &Subject, load: &mut ProduceLoop) -> Result<(u64, f64)> {
    let (before, begun) = (load.tally, Instant::now());
    load.run_up_to(case.window, case.window_bytes)?;
    load.drain()?;
    let bytes = load.tally.since(before).bytes;
    ensure!(bytes > 0, "{} acknowledged nothing in {:?}", subject.broker.address, case.window);
    Ok((bytes, begun.elapsed().as_secs_f64()))
}

/// The writes of a round. Where nobody counts rounds: as if each held one batch of each partition.
fn shape(counts: Counts, bytes: u64) -> Shape {
    if counts.rounds > 0.0 {
        let each = |of: f64| of / counts.rounds;
        return Shape::of_rounds(each(counts.committed_bytes), each(counts.round_partitions));
    }
    let batch = (fill::RECORDS as usize * fill::VALUE_BYTES) as f64;
    let partitions = f64::from(PARTITIONS);
    Shape::of_rounds((batch * partitions).min(bytes as f64), partitions)
}

#[derive(Default)]
struct Windows {
    /// Bytes a second.
    produced: Vec<f64>,
    over: Rates,
    new: Rates,
    usages: Vec<crate::run::Usage>,
    rounds: Vec<(Counts, Shape)>,
}

/// What the device gave, in bytes a second.
#[derive(Default)]
struct Rates {
    at_once: Vec<f64>,
    one_by_one: Vec<f64>,
}

impl Rates {
    /// The way that the device takes better: a slow one of ours is no excuse.
    fn best(&self) -> Vec<f64> {
        self.at_once.iter().zip(&self.one_by_one).map(|(a, b)| a.max(*b)).collect()
    }
}

impl Windows {
    fn note(&self, device: &Rates) -> String {
        let (broker, client) = cores(&self.usages);
        let sum = |of: fn(&Counts) -> f64| self.rounds.iter().map(|(c, _)| of(c)).sum::<f64>();
        let each = |of: fn(&Counts) -> f64| of_round(sum(of), sum(|counts| counts.rounds));
        let Some((_, shape)) = self.rounds.get(self.rounds.len() / 2) else { return String::new() };
        let limit = if broker >= CORE_FULL { ": its core is the limit" } else { "" };
        format!(
            "{:.0} MB/s in rounds of {} MB from {} partitions with {} flushes; device {:.0} MB/s by \
             {} writes of {:.2} MB at once and a flush, {:.0} MB/s one by one; broker {broker:.2} \
             cores{limit}, client {client:.2}",
            median(&self.produced) / 1e6,
            each(|counts| counts.committed_bytes / 1e6),
            each(|counts| counts.round_partitions),
            each(|counts| counts.flushes),
            median(&device.at_once) / 1e6,
            shape.at_once,
            shape.piece as f64 / 1e6,
            median(&device.one_by_one) / 1e6,
        )
    }
}

/// A figure of a round on average, as far as rounds were counted.
fn of_round(sum: f64, rounds: f64) -> String {
    if rounds > 0.0 { format!("{:.2}", sum / rounds) } else { "?".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_writes_what_a_round_did() {
        let counts = Counts {
            rounds: 10.0,
            round_partitions: 40.0,
            committed_bytes: 75.0 * 1024.0 * 1024.0,
            ..Counts::default()
        };
        assert_eq!(shape(counts, 0), Shape { piece: 960 << 10, at_once: 8 });
        let uncounted = shape(Counts::default(), 1 << 30);
        assert_eq!(uncounted.at_once, 4, "3.6 MB in pieces as the broker writes them");
        assert_eq!(of_round(10.0, 4.0), "2.50");
        assert_eq!(of_round(0.0, 0.0), "?");
    }
}
