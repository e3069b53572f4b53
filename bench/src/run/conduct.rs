//! The conductor: creates the topics, leads the threads from phase to phase, gathers what they count,
//! and compares at the end what was acknowledged with where the logs end.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::ledger::Faults;
use super::observe::{Look, Observer, Usage};
use super::plan::Plan;
use super::shape::Pool;
use super::shared::{Message, Phase, Shared};
use super::stats::Stats;
use super::transactor::{self, Transactor};
use super::worker::Worker;
use crate::batch::known::Known;
use crate::client::{Admin, Topic};
use crate::process::pause;

/// How long what is not acknowledged may take to appear: records with acks=0, and the markers of
/// transactions, which Kafka writes behind the answer.
const UNANSWERED_LIMIT: Duration = Duration::from_secs(10);

/// One interval of all threads.
pub struct Interval {
    /// Seconds since the load began.
    pub at: f64,
    /// Whether it belongs to the warm-up, and so to no total.
    pub warm_up: bool,
    pub stats: Stats,
    pub usage: Usage,
    /// Records that were acknowledged and not yet read by all subscriptions.
    pub backlog: u64,
}

/// What a run gave.
pub struct Outcome {
    pub plan: Plan,
    pub intervals: Vec<Interval>,
    /// Behind the warm-up; latencies of what was due then and answered later are in it.
    pub total: Stats,
    /// Behind the warm-up.
    pub usage: Usage,
    /// Records that were acknowledged in all phases.
    pub acked: u64,
    pub checks: Checks,
}

/// What was held against what, and did not agree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checks {
    pub faults: Faults,
    /// Offsets that were acknowledged and that the logs do not have.
    pub missing: u64,
    /// Offsets that the logs have beyond what was acknowledged.
    pub surplus: u64,
    /// Records that consumers never got.
    pub unread: u64,
    /// Requests that were refused.
    pub errors: u64,
    /// How often a partition's backlog was read whole.
    pub passes: u64,
    /// The first refusal, in words.
    pub complaint: Option<String>,
}

impl Checks {
    /// Whether all agreed. Without acknowledgements nothing is promised, so nothing can be missing.
    pub fn hold(&self, acks: i16) -> bool {
        let ends = acks == 0 || (self.missing == 0 && self.surplus == 0);
        self.faults.none() && ends && self.unread == 0 && self.errors == 0
    }
}

/// Runs a plan against the broker at `address`, with `note` called for each line of progress.
///
/// # Errors
/// When the broker refuses what has to be, hangs, or closes connections.
pub fn conduct(
    plan: &Plan,
    address: std::net::SocketAddr,
    observer: &Observer<'_>,
    note: &mut dyn FnMut(&str),
) -> Result<Outcome> {
    plan.check()?;
    let mut admin = Admin::connect(address)?;
    let run = run_id();
    let topics: Result<Vec<Topic>> = (0..plan.topics)
        .map(|index| admin.create(&format!("bench-{run:08x}-{index}"), plan.partitions, &[]))
        .collect();
    let topics = topics?;
    if plan.transactions.is_some() {
        transactor::await_coordinator(&mut admin, "bench")?;
    }
    let level = admin.feature("transaction.version");
    let mut known = Known::new(run);
    let pool = Pool::build(plan, &mut known)?;
    let versions = admin.versions;
    let shared = Shared::new(plan.clone(), address, versions, level, topics, pool, known, run);
    ensure!(
        plan.transactions.is_none() || Transactor::produce_version(&shared) >= 3,
        "no version of Produce"
    );
    std::thread::scope(|scope| {
        let (out, messages) = channel();
        for number in 0..plan.threads {
            let (shared, out) = (&shared, out.clone());
            scope.spawn(move || thread(shared, number, out));
        }
        drop(out);
        let mut conductor = Conductor {
            shared: &shared,
            admin,
            observer,
            messages,
            note,
            gathered: Vec::new(),
            late: Stats::new()?,
            acked: 0,
            checks: Checks::default(),
        };
        let outcome = conductor.lead();
        if outcome.is_err() {
            shared.fail();
        }
        outcome
    })
}

fn thread(shared: &Shared, number: usize, out: Sender<Message>) {
    let worked = Worker::connect(shared, number, out.clone()).and_then(Worker::work);
    if let Err(error) = worked {
        // Nobody listens once the conductor has failed itself.
        let _ = out.send(Message::Failed(format!("{error:#}")));
    }
}

struct Conductor<'a> {
    shared: &'a Shared,
    admin: Admin,
    observer: &'a Observer<'a>,
    messages: Receiver<Message>,
    note: &'a mut dyn FnMut(&str),
    gathered: Vec<Gathered>,
    late: Stats,
    acked: u64,
    checks: Checks,
}

/// An interval that threads are still telling of.
struct Gathered {
    stats: Stats,
    threads: usize,
    look: Option<Look>,
}

impl Conductor<'_> {
    fn lead(&mut self) -> Result<Outcome> {
        let plan = self.shared.plan.clone();
        self.await_all(|message| matches!(message, Message::Ready))?;
        if plan.backlog_bytes > 0 {
            let begun = Instant::now();
            self.shared.enter(Phase::Fill);
            self.await_all(|message| matches!(message, Message::Filled))?;
            self.take_ends()?;
            let mib = plan.backlog_bytes as f64 / f64::from(1 << 20);
            let took = begun.elapsed().as_secs_f64();
            (self.note)(&format!("a backlog of {mib:.0} MiB is written, in {took:.1} s"));
        }
        let before = self.observer.look();
        let begun = Instant::now();
        self.shared.enter(Phase::Go);
        let count = intervals(&plan);
        let mut acked = Vec::new();
        let mut drained = 0;
        while drained < plan.threads {
            let seen = self.gathered.iter().filter(|one| one.look.is_some()).count();
            let boundary = plan.interval * u32::try_from(seen + 1)?;
            let left = boundary.saturating_sub(begun.elapsed());
            match self.messages.recv_timeout(if seen < count { left } else { plan.interval }) {
                Ok(Message::Sample(index, stats)) => self.gather(index, &stats, count)?,
                Ok(Message::Drained(parts)) => {
                    acked.extend(parts);
                    drained += 1;
                }
                Ok(Message::Failed(text)) => bail!(text),
                Ok(_) => bail!("a thread is in another phase"),
                Err(RecvTimeoutError::Timeout) if seen < count => self.look(seen)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => bail!("all threads have ended"),
            }
        }
        self.settle(&acked)?;
        self.shared.enter(Phase::CatchUp);
        self.finish(count)?;
        self.outcome(plan, before, count)
    }

    /// Waits for one such message of every thread.
    fn await_all(&mut self, wanted: impl Fn(&Message) -> bool) -> Result<()> {
        for _ in 0..self.shared.plan.threads {
            match self.messages.recv().context("all threads have ended")? {
                Message::Failed(text) => bail!(text),
                message => ensure!(wanted(&message), "a thread is in another phase"),
            }
        }
        Ok(())
    }

    fn slot(&mut self, index: usize) -> Result<&mut Gathered> {
        while self.gathered.len() <= index {
            self.gathered.push(Gathered { stats: Stats::new()?, threads: 0, look: None });
        }
        Ok(&mut self.gathered[index])
    }

    fn look(&mut self, index: usize) -> Result<()> {
        let look = self.observer.look();
        self.slot(index)?.look = Some(look);
        self.progress(index);
        Ok(())
    }

    fn gather(&mut self, index: usize, stats: &Stats, count: usize) -> Result<()> {
        self.checks.errors += stats.errors;
        if index >= count {
            self.late.add(stats);
            return Ok(());
        }
        let slot = self.slot(index)?;
        slot.stats.add(stats);
        slot.threads += 1;
        self.progress(index);
        Ok(())
    }

    /// One line, once all threads and the kernel have told of the interval.
    fn progress(&mut self, index: usize) {
        let plan = &self.shared.plan;
        let Gathered { stats, threads, look } = &self.gathered[index];
        let Some(look) = look else { return };
        if *threads < plan.threads {
            return;
        }
        let before = index.checked_sub(1).and_then(|at| self.gathered[at].look);
        let seconds = plan.interval.as_secs_f64();
        let usage = before.map(|before| Usage::between(&before, look, seconds));
        let warm = if is_warm_up(plan, index) { ", warm-up" } else { "" };
        let mut line = format!(
            "{:6.0} s: {:.0} msg/s ({:.1} MB/s) acknowledged",
            (index + 1) as f64 * seconds,
            stats.records as f64 / seconds,
            stats.bytes as f64 / seconds / 1e6,
        );
        if plan.transactions.is_some() {
            line += &format!(", {:.0} transactions/s", stats.transactions as f64 / seconds);
        }
        if plan.consumers > 0 {
            line += &format!(", {:.0} msg/s read", stats.read_records as f64 / seconds);
        }
        for (name, histogram) in [("from due", &stats.due), ("end to end", &stats.end_to_end)] {
            if !histogram.is_empty() {
                let at = |q| histogram.value_at_quantile(q) as f64 / 1e3;
                line += &format!(
                    "; {name} ms p50 {:.2} p99 {:.2} max {:.2}",
                    at(0.5),
                    at(0.99),
                    at(1.0)
                );
            }
        }
        if let Some(cores) = usage.and_then(|usage| usage.broker_cores) {
            line += &format!("; broker {:.0} % CPU", cores * 100.0);
        }
        if stats.errors > 0 {
            line += &format!("; {} REFUSED", stats.errors);
        }
        (self.note)(&format!("{line}{warm}"));
    }

    fn take_ends(&mut self) -> Result<()> {
        let topics = &self.shared.topics;
        let ends: Result<Vec<Vec<i64>>> =
            topics.iter().map(|topic| self.admin.ends(topic)).collect();
        *self.shared.ends() = ends?;
        Ok(())
    }

    /// Holds what was acknowledged against where the logs end.
    fn settle(&mut self, acked: &[(usize, i32, u64)]) -> Result<()> {
        let plan = &self.shared.plan;
        let mut expected = vec![vec![0u64; usize::try_from(plan.partitions)?]; plan.topics];
        for (topic, partition, records) in acked {
            expected[*topic][usize::try_from(*partition)?] += records;
        }
        let begun = Instant::now();
        loop {
            self.take_ends()?;
            let (mut missing, mut surplus) = (0, 0);
            for (ends, expected) in self.shared.ends().iter().zip(&expected) {
                for (end, expected) in ends.iter().zip(expected) {
                    missing += expected.saturating_sub(end.unsigned_abs());
                    surplus += end.unsigned_abs().saturating_sub(*expected);
                }
            }
            (self.checks.missing, self.checks.surplus) = (missing, surplus);
            let behind = self.shared.plan.acks == 0 || self.shared.plan.transactions.is_some();
            let awaited = behind && missing > 0;
            if !awaited || begun.elapsed() > UNANSWERED_LIMIT {
                break;
            }
            pause(Duration::from_millis(50));
        }
        self.acked = expected.iter().flatten().sum();
        Ok(())
    }

    fn finish(&mut self, count: usize) -> Result<()> {
        let mut done = 0;
        while done < self.shared.plan.threads {
            match self.messages.recv().context("all threads have ended")? {
                Message::Sample(index, stats) => self.gather(index, &stats, count)?,
                Message::Done { faults, passes, unread } => {
                    done += 1;
                    self.checks.faults.add(&faults);
                    self.checks.passes += passes;
                    self.checks.unread += unread;
                }
                Message::Failed(text) => bail!(text),
                _ => bail!("a thread is in another phase"),
            }
        }
        self.checks.complaint = self.shared.complaint();
        Ok(())
    }

    fn outcome(&mut self, plan: Plan, before: Look, count: usize) -> Result<Outcome> {
        let seconds = plan.interval.as_secs_f64();
        let mut total = Stats::new()?;
        let mut intervals = Vec::new();
        let (mut last, mut first) = (before, before);
        let (mut written, mut read) = (0, 0);
        for (index, gathered) in self.gathered.drain(..).take(count).enumerate() {
            let look = gathered.look.unwrap_or(last);
            let warm_up = is_warm_up(&plan, index);
            if warm_up {
                first = look;
            } else {
                total.add(&gathered.stats);
            }
            written += gathered.stats.records * plan.subscriptions as u64;
            read += gathered.stats.read_records;
            intervals.push(Interval {
                at: (index + 1) as f64 * seconds,
                warm_up,
                usage: Usage::between(&last, &look, seconds),
                stats: gathered.stats,
                backlog: if plan.consumers > 0 { written.saturating_sub(read) } else { 0 },
            });
            last = look;
        }
        total.add_latencies(&self.late);
        let measured = intervals.iter().filter(|one| !one.warm_up).count() as f64 * seconds;
        Ok(Outcome {
            plan,
            intervals,
            total,
            usage: Usage::between(&first, &last, measured),
            acked: self.acked,
            checks: std::mem::take(&mut self.checks),
        })
    }
}

/// Whole intervals of warm-up and measurement.
fn intervals(plan: &Plan) -> usize {
    let all = (plan.warm_up + plan.length).as_secs_f64();
    ((all / plan.interval.as_secs_f64()).round() as usize).max(1)
}

fn is_warm_up(plan: &Plan, index: usize) -> bool {
    (index as f64 + 0.5) * plan.interval.as_secs_f64() < plan.warm_up.as_secs_f64()
}

/// Different for every run of this machine.
fn run_id() -> u32 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanos = now.unwrap_or_default().as_nanos() as u64;
    (nanos.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 ^ std::process::id()
}
