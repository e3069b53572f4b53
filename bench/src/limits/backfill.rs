//! Latency of those who write at a constant rate, alone and while others read a backlog from its start to
//! its end as fast as they can.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rustix::fs::{Advice, fadvise};

use super::{Case, Subject, cores, median};
use crate::batch::Batch;
use crate::client::{Admin, Driver, Expect, Topic};
use crate::figures::{Report, Target};
use crate::fill::{self, fill};
use crate::load::{FetchLoop, Span};
use crate::steady::{self, Steady, Window};

/// Partitions of the backlog, a consumer each.
const PARTITIONS: i32 = 4;
const PARTITION_BYTES: i32 = 1 << 20;
/// Of so many answers one is looked at whole while the clock runs: writers and consumers share a CPU.
/// The backlog is read once more at the end, and looked at whole.
const WHOLE_OF: u64 = 16;
/// Once through the backlog takes no longer.
const READ_LIMIT: Duration = Duration::from_secs(300);
const WARM_UP: Duration = Duration::from_secs(2);
/// How many times the latency of the load alone it may be.
const RATIO_MAX: f64 = 1.5;

pub fn measure(case: &Case, report: &mut Report) -> Result<()> {
    let subject = case.start(&[])?;
    let mut admin = Admin::connect(subject.broker.address)?;
    let topic = admin.create("limits-backlog", PARTITIONS, &[])?;
    let batches: Vec<Batch> = (0..4).map(fill::batch).collect();
    let ends = fill(subject.broker.address, &mut admin, &topic, case.backlog_gb, &batches)?;
    subject.rest()?;
    let mut expect = Expect::default();
    batches.iter().for_each(|batch| expect.add(batch));
    let backlog = Backlog { subject: &subject, topic, ends, expect };

    let live = admin.create("limits-live", steady::PARTITIONS, &[])?;
    let mut steady = Steady::new(&admin, subject.broker.address, live, case.rate)?;
    let warm_up = WARM_UP.min(case.window);
    steady.window((warm_up, warm_up), || Ok(false))?;
    let before = subject.count()?;
    let mut alone = vec![steady.window((case.window, case.window), || Ok(false))?];
    let mut passes = Vec::new();
    for _ in 0..case.windows {
        passes.push(backlog.read(&admin, &mut steady)?);
        subject.rest()?;
        alone.push(steady.window((case.window, case.window), || Ok(false))?);
    }
    let files = subject.count()?.since(before).file_share();
    // Its last part is in the memory of the broker.
    ensure!(
        files.is_none_or(|share| share > 0.5),
        "the backlog did not come from files: {files:?}"
    );
    steady.check(&mut admin)?;
    backlog.consumers(&admin)?.run_once()?;
    add_rows(report, &alone, &passes, files);
    if case.attached.is_none() {
        subject.broker.stop()?;
    }
    Ok(())
}

struct Backlog<'a> {
    subject: &'a Subject,
    topic: Topic,
    ends: Vec<i64>,
    expect: Expect,
}

/// Once through the backlog, and the load meanwhile.
struct Pass {
    window: Window,
    bytes: u64,
    usage: crate::run::Usage,
}

impl Backlog<'_> {
    fn read(&self, admin: &Admin, steady: &mut Steady) -> Result<Pass> {
        if let Some(root) = self.subject.broker.data_dir() {
            forget_pages(&root.join("topics").join(&self.topic.name))?;
        }
        let mut reading = self.consumers(admin)?;
        reading.look_whole_at_one_of(WHOLE_OF);
        let begun = Instant::now();
        let (window, usage) = self.subject.watch(|| {
            steady.window((Duration::ZERO, READ_LIMIT), || {
                reading.turn(Duration::ZERO)?;
                Ok(!reading.is_through())
            })
        })?;
        ensure!(reading.is_through(), "the backlog was not read in {:?}", begun.elapsed());
        let bytes = reading.tally.bytes;
        reading.drain()?;
        Ok(Pass { window, bytes, usage })
    }

    fn consumers(&self, admin: &Admin) -> Result<FetchLoop> {
        let span = |(partition, to): (i32, &i64)| vec![Span { partition, from: 0, to: *to }];
        let spans: Vec<Vec<Span>> = (0..).zip(&self.ends).map(span).collect();
        let driver = Driver::connect(self.subject.broker.address, spans.len())?;
        let expect = self.expect.clone();
        FetchLoop::new(driver, admin.versions, &self.topic, expect, spans, PARTITION_BYTES)
    }
}

/// The kernel gives up what it holds of the files of a topic, so that they are read from the device.
fn forget_pages(topic: &Path) -> Result<()> {
    for partition in std::fs::read_dir(topic)? {
        for file in std::fs::read_dir(partition?.path())? {
            let path = file?.path();
            if path.extension().is_some_and(|end| end == "log") {
                fadvise(File::open(path)?, 0, None, Advice::DontNeed)?;
            }
        }
    }
    Ok(())
}

fn add_rows(report: &mut Report, alone: &[Window], passes: &[Pass], files: Option<f64>) {
    let windows: Vec<&Window> = passes.iter().map(|pass| &pass.window).collect();
    let base = add_p99s(report, "produce p99, alone", &alone.iter().collect::<Vec<_>>());
    let during = add_p99s(report, "produce p99, during a backfill", &windows);
    let rates: Vec<f64> =
        passes.iter().map(|pass| pass.bytes as f64 / pass.usage.seconds).collect();
    let usages: Vec<_> = passes.iter().map(|pass| pass.usage).collect();
    let (broker, client) = cores(&usages);
    let note = format!(
        "{:.1} GB at {:.0} MB/s each time, {:.0} % of it from files; broker {broker:.2} cores, \
         client {client:.2}",
        passes.first().map_or(0.0, |pass| pass.bytes as f64 / 1e9),
        median(&rates) / 1e6,
        files.unwrap_or(f64::NAN) * 100.0
    );
    let name = "produce p99 during a full backfill read, against alone";
    report.row(name, "x", Target::AtMost(RATIO_MAX), against(&during, &base), note);
}

fn add_p99s(report: &mut Report, name: &str, windows: &[&Window]) -> Vec<f64> {
    let p99s: Vec<f64> = windows.iter().map(|window| window.p99()).collect();
    let notes: Vec<String> = windows.iter().map(|window| window.note()).collect();
    report.row(name, "us", Target::None, p99s.clone(), notes.join("; "));
    p99s
}

/// Each against the mean of the two windows around it.
fn against(during: &[f64], alone: &[f64]) -> Vec<f64> {
    let around = alone.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0);
    during.iter().zip(around).map(|(one, around)| one / around).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_stands_against_the_windows_before_and_after_it() {
        assert_eq!(against(&[30.0, 8.0], &[10.0, 20.0, 12.0]), [2.0, 0.5]);
        assert!(against(&[], &[1.0]).is_empty());
    }

    #[test]
    fn pages_of_log_files_can_be_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let partition = dir.path().join("0");
        std::fs::create_dir(&partition).unwrap();
        std::fs::write(partition.join("00.log"), [1; 8192]).unwrap();
        forget_pages(dir.path()).unwrap();
        assert_eq!(std::fs::read(partition.join("00.log")).unwrap(), [1; 8192]);
        assert!(forget_pages(&dir.path().join("gone")).is_err());
    }
}
