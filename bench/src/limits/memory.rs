//! Memory of the broker while a log passes through: written, read back at once, deleted by retention.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{Case, Subject, cores};
use crate::batch::Batch;
use crate::client::{Admin, Driver, Expect};
use crate::figures::{Report, Target};
use crate::fill;
use crate::host::bytes_under;
use crate::load::{FetchLoop, Span, check_ends};

const PARTITIONS: i32 = 4;
const IN_FLIGHT: usize = 3;
const PARTITION_BYTES: i32 = 1 << 20;
/// What retention keeps of a partition, in segments of so many bytes.
const RETENTION_BYTES: u64 = 256 << 20;
const SEGMENT_BYTES: u64 = 64 << 20;
/// Written and read back between two looks at the memory.
const STEP_BYTES: u64 = 32 << 20;
/// A step that takes longer has hung.
const STEP_LIMIT: Duration = Duration::from_secs(60);
/// The most that the last quarter may hold, against the end of the first.
const GROWTH_MAX: f64 = 1.1;

pub fn measure(case: &Case, report: &mut Report) -> Result<()> {
    let subject = case.start(&["log.retention.check.interval.ms=500"])?;
    let mut samples = Samples::default();
    samples.add(0, subject.broker.rss()?);
    let (done, usage) = subject.watch(|| pass(case, &subject, &mut samples))?;
    let (broker, client) = cores(&[usage]);
    let note = format!(
        "{}; {:.1} GB written and read in {:.0} s, at most {:.1} GB on the disk; broker {broker:.2} \
         cores, client {client:.2}",
        samples.note(),
        done.bytes as f64 / 1e9,
        done.seconds,
        done.disk_bytes as f64 / 1e9,
    );
    let name = "memory (RSS), most of the last quarter against after the first";
    report.row(name, "x", Target::AtMost(GROWTH_MAX), vec![samples.growth()], note);
    if case.attached.is_none() {
        let name = "disk while the log passes through, at the most";
        let note = "retention keeps 1.1 GB, what is deleted goes at a pace";
        report.row(name, "GB", Target::None, vec![done.disk_bytes as f64 / 1e9], note);
        subject.broker.stop()?;
    }
    Ok(())
}

struct Passed {
    bytes: u64,
    seconds: f64,
    disk_bytes: u64,
}

fn pass(case: &Case, subject: &Subject, samples: &mut Samples) -> Result<Passed> {
    let address = subject.broker.address;
    let mut admin = Admin::connect(address)?;
    let (keep, segment) = (RETENTION_BYTES.to_string(), SEGMENT_BYTES.to_string());
    let configs = [("retention.bytes", keep.as_str()), ("segment.bytes", segment.as_str())];
    let topic = admin.create("limits-memory", PARTITIONS, &configs)?;
    let batches: Vec<Batch> = (0..4).map(fill::batch).collect();
    let mut expect = Expect::default();
    batches.iter().for_each(|batch| expect.add(batch));
    let mut writing = fill::load(address, &admin, &topic, &batches, IN_FLIGHT)?;
    let driver = Driver::connect(address, usize::try_from(PARTITIONS)?)?;
    let spans =
        (0..PARTITIONS).map(|partition| vec![Span { partition, from: 0, to: i64::MAX }]).collect();
    let mut reading =
        FetchLoop::new(driver, admin.versions, &topic, expect, spans, PARTITION_BYTES)?;

    let (total, begun, mut disk_bytes) = ((case.gb * 1e9) as u64, Instant::now(), 0);
    let root = subject.broker.data_dir();
    while writing.tally.bytes < total {
        let step = writing.run_up_to(STEP_LIMIT, STEP_BYTES.min(total))?;
        ensure!(step.bytes > 0, "nothing was acknowledged for {STEP_LIMIT:?}");
        samples.add(writing.tally.bytes, subject.broker.rss()?);
        let ends: Result<Vec<i64>, _> = writing.acked.iter().map(|&n| i64::try_from(n)).collect();
        reading.run_to(&ends?)?;
        samples.add(writing.tally.bytes, subject.broker.rss()?);
        disk_bytes = disk_bytes.max(root.as_deref().map_or(0, bytes_under));
    }
    writing.drain()?;
    let ends = admin.ends(&topic)?;
    check_ends(&ends, &vec![0; ends.len()], &writing.acked)?;
    reading.run_to(&ends)?;
    reading.drain()?;
    Ok(Passed { bytes: writing.tally.bytes, seconds: begun.elapsed().as_secs_f64(), disk_bytes })
}

/// Memory of the broker after so many bytes.
#[derive(Default)]
struct Samples(Vec<(u64, u64)>);

impl Samples {
    fn add(&mut self, bytes: u64, rss: u64) {
        self.0.push((bytes, rss));
    }

    /// The first sample when so many quarters had passed.
    fn after(&self, quarters: u64) -> f64 {
        let total = self.0.last().map_or(0, |(bytes, _)| *bytes);
        let found = self.0.iter().find(|(bytes, _)| bytes * 4 >= total * quarters);
        found.map_or(f64::NAN, |(_, rss)| *rss as f64)
    }

    /// The most behind three quarters.
    fn most_at_last(&self) -> f64 {
        let total = self.0.last().map_or(0, |(bytes, _)| *bytes);
        let last = self.0.iter().filter(|(bytes, _)| bytes * 4 >= total * 3);
        last.map(|(_, rss)| *rss).max().map_or(f64::NAN, |rss| rss as f64)
    }

    fn growth(&self) -> f64 {
        self.most_at_last() / self.after(1)
    }

    fn note(&self) -> String {
        let mib = |bytes: f64| format!("{:.0}", bytes / f64::from(1 << 20));
        let at: Vec<String> = (0..=4).map(|quarters| mib(self.after(quarters))).collect();
        format!("{} MiB at the start, the quarters and the end", at.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_the_most_of_the_last_quarter_against_the_end_of_the_first() {
        let mut samples = Samples::default();
        for (bytes, rss) in
            [(0, 10), (20, 900), (25, 100), (50, 300), (74, 800), (75, 105), (80, 120), (100, 90)]
        {
            samples.add(bytes, rss << 20);
        }
        assert_eq!(samples.growth(), 1.2);
        assert_eq!(
            samples.note(),
            "10, 100, 300, 105, 90 MiB at the start, the quarters and the end"
        );
        assert!(Samples::default().growth().is_nan());
    }
}
