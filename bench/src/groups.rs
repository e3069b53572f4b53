//! Consumer groups: steady commits of many groups, and how long their coordinator takes to be back.
//!
//! Each member has a connection of its own, joins by the classic protocol, sends heartbeats, and
//! commits one partition. With a rate the loop is open: a commit is due at its time, whatever became
//! of those before it. Without one each member has one commit in flight. At the end OffsetFetch must
//! return what was acknowledged last, of every member.

mod fleet;
mod requests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::client::{Admin, Topic};
use crate::host::{self, Cpus, SyncCost, micros, on_cpus};
use crate::options::Options;
use crate::process::{Broker, Launch, data_root, default_broker, one_core, pause};

use fleet::{Fleet, GROUPS_AT_ONCE};

/// Flags of this command.
pub const FLAGS: &[&str] = &["reload"];

/// Latencies above this are counted as this.
const MICROS_MAX: u64 = 600_000_000;
/// A coordinator that is not back by then is not coming back.
const RELOAD_LIMIT: Duration = Duration::from_secs(120);

/// What is asked of the broker.
#[derive(Clone, Copy, Debug)]
struct Plan {
    groups: usize,
    members: usize,
    /// Commits a second over all members; 0 is as fast as one in flight each allows.
    rate: f64,
    warm_up: Duration,
    length: Duration,
}

/// What the commits cost.
struct Outcome {
    latency: Histogram<u64>,
    commits: u64,
    elapsed: Duration,
    broker_cpu: Duration,
    /// From the first JoinGroup to the last member that is stable.
    joined_in: Duration,
}

/// Runs the load; with `--reload` also stops the broker and times its coordinator's return.
pub fn run(mut options: Options) -> Result<bool> {
    let plan = Plan {
        groups: options.value("groups", 1000)?,
        members: options.value("members", 3)?,
        rate: options.value("rate", 0.0)?,
        warm_up: Duration::from_secs(options.value("warm-up", 2)?),
        length: Duration::from_secs(options.value("seconds", 20)?),
    };
    let program = options.text("broker").map_or_else(default_broker, PathBuf::from);
    let data = data_root(options.text("data").map(PathBuf::from))?;
    let cores = options.value("cores", "1".to_owned())?;
    let (attach, pid) = (options.text("attach"), options.value("pid", 0u32)?);
    let (out, reload) = (options.text("out").map(PathBuf::from), options.flag("reload"));
    options.finish()?;
    ensure!(plan.groups > 0 && plan.members > 0, "no member, no commit");
    ensure!(attach.is_none() || !reload, "--reload restarts the broker: not with --attach");

    host::raise_descriptors()?;
    let cpus = if cores == "1" { Cpus::apart()? } else { Cpus { broker: vec![], client: vec![] } };
    let mut launch = one_core(&program, &data, &cpus);
    launch.cores = cores;
    let mut broker = match attach {
        Some(text) => Broker::attach(text.parse().context("--attach takes HOST:PORT")?, pid)?,
        None => launch.start()?,
    };
    let facts = host::facts(&data, SyncCost::measure(&data, 500)?);
    let outcome = on_cpus(&cpus.client, || drive(&plan, &broker))??;
    outcome.print(&plan);
    let mut report = outcome.json(&plan, facts);
    if reload {
        let (broker, took) = reloaded(&plan, &launch, &mut broker)?;
        println!("{} groups are back {:.0} ms after exec", plan.groups, took.as_secs_f64() * 1e3);
        report["reload_ms"] = json!(took.as_secs_f64() * 1e3);
        broker.stop()?;
    }
    if let Some(path) = out {
        let text = serde_json::to_string_pretty(&report)?;
        std::fs::write(&path, text + "\n").with_context(|| path.display().to_string())?;
    }
    broker.stop()?;
    Ok(true)
}

fn drive(plan: &Plan, broker: &Broker) -> Result<Outcome> {
    let mut admin = Admin::connect(broker.address)?;
    let unique = std::process::id();
    let partitions = i32::try_from(plan.members)?;
    let topic = admin.create(&format!("groups-{unique}"), partitions, &[])?;
    requests::await_coordinator(&mut admin, &group_name(0))?;
    let begun = Instant::now();
    let mut last = None;
    for first in (0..plan.groups).step_by(GROUPS_AT_ONCE) {
        let groups = first..plan.groups.min(first + GROUPS_AT_ONCE);
        let mut fleet = Fleet::join(broker.address, &topic, groups, plan.members)?;
        fleet.commit_once()?;
        fleet.check(&mut admin)?;
        last = Some(fleet);
    }
    let joined_in = begun.elapsed();
    let Some(mut fleet) = last else { unreachable!("a plan has groups") };
    let mut outcome = Outcome {
        latency: Histogram::new_with_bounds(1, MICROS_MAX, 3)?,
        commits: 0,
        elapsed: Duration::ZERO,
        broker_cpu: Duration::ZERO,
        joined_in,
    };
    fleet.run(plan.rate, plan.warm_up, &mut |_| {})?;
    let (cpu, begun) = (broker.cpu()?, Instant::now());
    outcome.commits = fleet.run(plan.rate, plan.length, &mut |latency: Duration| {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(MICROS_MAX);
        outcome.latency.saturating_record(micros);
    })?;
    outcome.elapsed = begun.elapsed();
    outcome.broker_cpu = broker.cpu()? - cpu;
    fleet.check(&mut admin)?;
    Ok(outcome)
}

/// Restarts the broker; the time from exec until every group answers.
fn reloaded(plan: &Plan, launch: &Launch, broker: &mut Broker) -> Result<(Broker, Duration)> {
    let (_, data) = broker.stop_keeping()?;
    let data = data.context("the broker was started here")?;
    let begun = Instant::now();
    let broker = launch.start_on(data)?;
    let topic = format!("groups-{}", std::process::id());
    let mut admin = Admin::connect(broker.address)?;
    for group in 0..plan.groups {
        let name = group_name(group);
        while !requests::is_back(&mut admin, &name, &topic, plan.members)? {
            ensure!(begun.elapsed() < RELOAD_LIMIT, "group {name} is not back");
            pause(Duration::from_millis(1));
        }
    }
    Ok((broker, begun.elapsed()))
}

fn group_name(index: usize) -> String {
    format!("group-{index}")
}

impl Outcome {
    fn rate(&self) -> f64 {
        self.commits as f64 / self.elapsed.as_secs_f64()
    }

    fn micros_of_cpu(&self) -> f64 {
        micros(self.broker_cpu) / self.commits as f64
    }

    fn print(&self, plan: &Plan) {
        let quantile = |q| self.latency.value_at_quantile(q);
        println!(
            "{} groups of {}: {:.0} commits/s; broker CPU {:.1} us a commit, {:.0} % of a core; \
             us p50 {} p99 {} p99.9 {} max {}; joined in {:.1} s",
            plan.groups,
            plan.members,
            self.rate(),
            self.micros_of_cpu(),
            self.broker_cpu.as_secs_f64() / self.elapsed.as_secs_f64() * 100.0,
            quantile(0.5),
            quantile(0.99),
            quantile(0.999),
            self.latency.max(),
            self.joined_in.as_secs_f64()
        );
    }

    fn json(&self, plan: &Plan, host: Value) -> Value {
        let quantile = |q| self.latency.value_at_quantile(q);
        json!({
            "host": host,
            "groups": plan.groups,
            "members": plan.members,
            "rate": plan.rate,
            "commits": self.commits,
            "commits_per_second": self.rate(),
            "broker_cpu_us_per_commit": self.micros_of_cpu(),
            "latency_us": {
                "p50": quantile(0.5), "p99": quantile(0.99), "p99.9": quantile(0.999),
                "max": self.latency.max(),
            },
            "joined_in_s": self.joined_in.as_secs_f64(),
        })
    }
}

/// What the members share.
#[derive(Clone, Debug)]
struct Target {
    address: SocketAddr,
    topic: Topic,
}
