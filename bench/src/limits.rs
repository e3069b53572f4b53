//! How much of what the machine gives does the broker pass on? Fetches against plain TCP between the same
//! two CPUs, large batches against the device's own direct writes, memory while a log passes through,
//! and the latency of writers while others read a backlog. Each is a ratio within one run.

mod backfill;
mod counters;
mod device;
mod fetch;
mod loopback;
mod memory;
mod produce;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::figures::Report;
use crate::host::{self, Cpus, SyncCost, on_cpus};
use crate::options::Options;
use crate::process::{Broker, Launch, data_root, default_broker, free_port, one_core};
use crate::run::{Observer, Usage};
use counters::Counters;

/// Flags of this command.
pub const FLAGS: &[&str] = &["assert", "quick"];

/// How long a broker may take to come to rest after a load.
const SETTLE_LIMIT: Duration = Duration::from_secs(60);

/// How the limits are taken.
pub struct Case {
    pub launch: Launch,
    pub cpus: Cpus,
    /// A server that runs already, with its process: for tests.
    pub attached: Option<(SocketAddr, u32)>,
    /// Length of one measured window, and windows of each kind.
    pub window: Duration,
    pub windows: usize,
    /// Bytes after which a window of large batches ends early.
    pub window_bytes: u64,
    /// Log that is there to be fetched.
    pub log_gb: f64,
    /// What passes through while memory is watched.
    pub gb: f64,
    /// What is read while others write.
    pub backlog_gb: f64,
    /// Requests a second of those who write then.
    pub rate: u32,
}

/// A broker and where it tells its counters.
struct Subject {
    broker: Broker,
    counters: Option<Counters>,
}

type Question = fn(&Case, &mut Report) -> Result<()>;

const QUESTIONS: &[(&str, Question)] = &[
    ("fetch", fetch::measure),
    ("produce", produce::measure),
    ("memory", memory::measure),
    ("backfill", backfill::measure),
];

/// Measures and says whether the targets hold (with `--assert`: within the tolerance).
pub fn run(mut options: Options) -> Result<bool> {
    let (tolerant, quick) = (options.flag("assert"), options.flag("quick"));
    let program = options.text("broker").map_or_else(default_broker, PathBuf::from);
    let data = data_root(options.text("data").map(PathBuf::from))?;
    let (out, only) = (options.text("out").map(PathBuf::from), options.text("only"));
    let usual = |quick_value: f64, value: f64| if quick { quick_value } else { value };
    let cpus = Cpus::apart()?;
    let case = Case {
        launch: one_core(&program, &data, &cpus),
        cpus,
        attached: None,
        window: Duration::from_secs_f64(options.value("seconds", usual(1.0, 4.0))?),
        windows: options.value("windows", if quick { 3 } else { 5 })?,
        window_bytes: if quick { 400 << 20 } else { 1500 << 20 },
        log_gb: usual(0.8, 1.6),
        gb: options.value("gb", usual(2.0, 20.0))?,
        backlog_gb: options.value("backlog-gb", usual(1.0, 4.0))?,
        rate: options.value("rate", 1000)?,
    };
    options.finish()?;
    let known = |word: &str| QUESTIONS.iter().any(|(name, _)| *name == word);
    let words = only.as_deref().map(|only| only.split(',').collect::<Vec<_>>());
    if let Some(stranger) = words.iter().flatten().find(|word| !known(word)) {
        let all: Vec<&str> = QUESTIONS.iter().map(|(name, _)| *name).collect();
        anyhow::bail!("--only {stranger}: choose from {}", all.join(", "));
    }
    case.check()?;
    host::raise_descriptors()?;
    let sync = SyncCost::measure(&data, 200)?;
    let mut report = Report::new(host::facts(&data, sync));
    on_cpus(&case.cpus.client, || case.measure(words.as_deref(), &mut report))?;
    report.after(SyncCost::measure(&data, 200)?);
    print!("{}", report.table(tolerant));
    if tolerant {
        print!("\n{}", report.verdicts(tolerant));
    }
    if let Some(path) = out {
        let text = serde_json::to_string_pretty(&report.json())?;
        std::fs::write(&path, text + "\n").with_context(|| path.display().to_string())?;
    }
    Ok(report.holds(tolerant))
}

impl Case {
    /// Asks all questions, or those that are named. One that cannot be answered counts as missed.
    pub fn measure(&self, only: Option<&[&str]>, report: &mut Report) {
        for (name, question) in QUESTIONS {
            if only.is_none_or(|only| only.contains(name)) {
                eprintln!("measuring {name} ...");
                if let Err(error) = question(self, report) {
                    report.failed(name, &format!("{error:#}"));
                }
            }
        }
    }

    fn check(&self) -> Result<()> {
        ensure!(self.windows > 0 && !self.window.is_zero(), "no window, no figure");
        ensure!(self.gb > 0.0 && self.backlog_gb > 0.0, "nothing to write, nothing to measure");
        let produced = self.window_bytes as f64 * (self.windows + 1) as f64;
        let most = [self.log_gb * 1e9, produced, self.backlog_gb * 1e9, self.gb * 1e9];
        let need = (most.into_iter().fold(0.0, f64::max) * 1.2) as u64 + (4 << 30);
        let (data, free) = (&self.launch.data, host::free_bytes(&self.launch.data)?);
        ensure!(
            free > need,
            "{} has {free} bytes free and this needs {need}: choose --data, --backlog-gb, --quick",
            data.display()
        );
        Ok(())
    }

    /// A broker on an empty directory, with further settings; or the attached one.
    fn start(&self, settings: &[&str]) -> Result<Subject> {
        if let Some((address, pid)) = self.attached {
            return Ok(Subject { broker: Broker::attach(address, pid)?, counters: None });
        }
        let admin = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let mut launch = self.launch.clone();
        launch.settings.push(format!("admin.listener={admin}"));
        launch.settings.extend(settings.iter().map(|text| (*text).to_owned()));
        Ok(Subject { broker: launch.start()?, counters: Some(Counters::at(admin)) })
    }
}

impl Subject {
    /// Does some work; says what it brought, in how many seconds, and the cores that were busy.
    fn watch<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<(T, Usage)> {
        let observer = Observer { broker: Some(&self.broker), device: None };
        let (before, begun) = (observer.look(), Instant::now());
        let done = work()?;
        let seconds = begun.elapsed().as_secs_f64();
        Ok((done, Usage::between(&before, &observer.look(), seconds)))
    }

    /// Counters now; none where nobody tells them.
    fn count(&self) -> Result<counters::Counts> {
        self.counters.as_ref().map_or_else(|| Ok(Default::default()), Counters::read)
    }

    fn rest(&self) -> Result<bool> {
        self.broker.settle(Duration::from_secs(1), SETTLE_LIMIT)
    }
}

/// Cores that broker and client were busy with, on average over some windows.
fn cores(usages: &[Usage]) -> (f64, f64) {
    let seconds: f64 = usages.iter().map(|usage| usage.seconds).sum();
    let share = |of: fn(&Usage) -> Option<f64>| {
        let busy = |usage: &Usage| of(usage).unwrap_or(f64::NAN) * usage.seconds;
        usages.iter().map(busy).sum::<f64>() / seconds
    };
    (share(|usage| usage.broker_cores), share(|usage| usage.client_cores))
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

fn ratios(of: &[f64], to: &[f64]) -> Vec<f64> {
    of.iter().zip(to).map(|(of, to)| of / to).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_windows_weigh_more_in_the_cores_that_were_busy() {
        let usage = |seconds, cores| Usage {
            seconds,
            broker_cores: Some(cores),
            client_cores: None,
            ..Usage::default()
        };
        let (broker, client) = cores(&[usage(1.0, 1.0), usage(3.0, 0.2)]);
        assert!((broker - 0.4).abs() < 1e-9, "{broker}");
        assert!(client.is_nan(), "what was not seen is not made up");
    }

    #[test]
    fn each_window_stands_against_the_one_beside_it() {
        assert_eq!(ratios(&[1.0, 8.0, 9.0], &[2.0, 2.0, 3.0]), [0.5, 4.0, 3.0]);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert!(median(&[]).is_nan());
    }
}
