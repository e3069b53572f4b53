//! Latency of acknowledged produces at a constant rate.
//!
//! Open loop: request k is due at start + k / rate, whatever became of the ones before it, and its
//! latency counts from then. A broker that stops for a second is charged for every request that was
//! due in that second.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::batch::Batch;
use crate::client::{Admin, Driver, Topic};
use crate::host::{self, Cpus, SyncCost, micros, on_cpus};
use crate::load::{Shot, check_ends};
use crate::options::Options;
use crate::process::{Broker, data_root, default_broker, one_core};

/// Flags of this command.
pub const FLAGS: &[&str] = &["spin"];

/// Latencies above this are counted as this.
const MICROS_MAX: u64 = 600_000_000;
/// An answer that takes longer ends the run.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);

const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("max", 1.0)];

struct Plan {
    rate: f64,
    connections: usize,
    partitions: i32,
    records: u32,
    value_bytes: usize,
    warm_up: Duration,
    length: Duration,
    spin: bool,
}

/// Runs the load and prints the percentiles. With `--broker` or nothing it starts its own broker;
/// with `--attach HOST:PORT` it uses one that runs.
pub fn run(mut options: Options) -> Result<bool> {
    let plan = Plan {
        rate: options.value("rate", 1000.0)?,
        connections: options.value("connections", 16)?,
        partitions: options.value("partitions", 16)?,
        records: options.value("records", 1)?,
        value_bytes: options.value("size", 100)?,
        warm_up: Duration::from_secs(options.value("warm-up", 2)?),
        length: Duration::from_secs(options.value("seconds", 20)?),
        spin: options.flag("spin"),
    };
    let program = options.text("broker").map_or_else(default_broker, PathBuf::from);
    let data = data_root(options.text("data").map(PathBuf::from))?;
    let cores = options.value("cores", "1".to_owned())?;
    let (attach, pid) = (options.text("attach"), options.value("pid", 1)?);
    let out = options.text("out").map(PathBuf::from);
    options.finish()?;
    ensure!(plan.rate > 0.0 && plan.connections > 0 && plan.partitions > 0, "nothing to send");

    host::raise_descriptors()?;
    let cpus = if cores == "1" { Cpus::apart()? } else { Cpus { broker: vec![], client: vec![] } };
    let broker = match attach {
        Some(text) => Broker::attach(text.parse().context("--attach takes HOST:PORT")?, pid)?,
        None => {
            let mut launch = one_core(&program, &data, &cpus);
            launch.cores = cores;
            launch.start()?
        }
    };
    let facts = host::facts(&data, SyncCost::measure(&data, 500)?);
    let result = on_cpus(&cpus.client, || drive(&plan, &broker))??;
    let report = result.json(&plan, facts);
    result.print(&plan);
    if let Some(path) = out {
        let text = serde_json::to_string_pretty(&report)?;
        std::fs::write(&path, text + "\n").with_context(|| path.display().to_string())?;
    }
    broker.stop()?;
    Ok(true)
}

struct Outcome {
    intended: Histogram<u64>,
    sent: Histogram<u64>,
    achieved: f64,
}

fn drive(plan: &Plan, broker: &Broker) -> Result<Outcome> {
    let mut admin = Admin::connect(broker.address)?;
    let unique = std::process::id();
    let topic = admin.create(&format!("latency-{unique}"), plan.partitions, &[])?;
    let shots = shots(plan, &admin, &topic)?;
    let mut driver = Driver::connect(broker.address, plan.connections)?;
    let version = admin.versions.produce;

    let mut outcome = Outcome { intended: histogram()?, sent: histogram()?, achieved: 0.0 };
    let mut acked = vec![0u64; shots.len()];
    let interval = 1e9 / plan.rate;
    let begun = Instant::now();
    let end = plan.warm_up + plan.length;
    // Due time and sending time of each open request, found again by its tag.
    let mut times: Vec<(u64, u64)> = Vec::new();
    let mut free: Vec<u64> = Vec::new();
    let (mut sent, mut answered, mut last_answer) = (0u64, 0u64, Instant::now());
    loop {
        let now = nanos(begun.elapsed());
        let due = |index: u64| (index as f64 * interval) as u64;
        let over = begun.elapsed() >= end;
        while !over && due(sent) <= now {
            let slot = free.pop().unwrap_or_else(|| {
                times.push((0, 0));
                times.len() as u64 - 1
            });
            times[usize::try_from(slot)?] = (due(sent), now);
            let shot = usize::try_from(sent % shots.len() as u64)?;
            let connection = usize::try_from(sent % plan.connections as u64)?;
            let tag = slot << 32 | shot as u64;
            driver.outputs().send(connection, shots[shot].frame(), tag);
            sent += 1;
        }
        if over && driver.outputs().open() == 0 {
            break;
        }
        let wait = if plan.spin || over {
            Duration::from_millis(u64::from(over))
        } else {
            Duration::from_nanos(due(sent).saturating_sub(nanos(begun.elapsed())))
        };
        let answers = driver.turn(wait, &mut |response, _| {
            let at = nanos(begun.elapsed());
            let slot = response.tag >> 32;
            let shot = usize::try_from(response.tag & 0xffff_ffff)?;
            shots[shot].check(version, response.bytes)?;
            acked[shot] += u64::from(plan.records);
            let (due, sent) = times[usize::try_from(slot)?];
            free.push(slot);
            if u128::from(due) >= plan.warm_up.as_nanos() {
                outcome.intended.saturating_record((at - due) / 1000);
                outcome.sent.saturating_record((at - sent) / 1000);
                answered += 1;
            }
            Ok(())
        })?;
        if answers > 0 {
            last_answer = Instant::now();
        }
        let waiting = driver.outputs().open() > 0 && last_answer.elapsed() > SILENCE_LIMIT;
        ensure!(!waiting, "no answer for {SILENCE_LIMIT:?}");
    }
    let measured = begun.elapsed().saturating_sub(plan.warm_up);
    outcome.achieved = answered as f64 / measured.as_secs_f64();
    check_ends(&admin.ends(&topic)?, &vec![0; acked.len()], &acked)?;
    Ok(outcome)
}

/// One prebuilt request a partition.
fn shots(plan: &Plan, admin: &Admin, topic: &Topic) -> Result<Vec<Shot>> {
    let batch = Batch::filled(plan.records, plan.value_bytes, 9, 1_700_000_000_000);
    (0..plan.partitions).map(|index| Shot::new(admin.versions, topic, &[index], &batch)).collect()
}

impl Outcome {
    fn print(&self, plan: &Plan) {
        println!(
            "{:.0} requests/s intended, {:.0} answered; {} connections, {} partitions, {} x {} B",
            plan.rate,
            self.achieved,
            plan.connections,
            plan.partitions,
            plan.records,
            plan.value_bytes
        );
        println!("{:>10} {:>14} {:>14}", "", "from due, us", "from sent, us");
        for (name, quantile) in QUANTILES {
            println!(
                "{name:>10} {:>14} {:>14}",
                self.intended.value_at_quantile(quantile),
                self.sent.value_at_quantile(quantile)
            );
        }
    }

    fn json(&self, plan: &Plan, host: Value) -> Value {
        let quantiles = |histogram: &Histogram<u64>| -> Value {
            QUANTILES
                .iter()
                .map(|(name, q)| ((*name).to_owned(), json!(histogram.value_at_quantile(*q))))
                .collect::<serde_json::Map<String, Value>>()
                .into()
        };
        json!({
            "host": host,
            "rate": plan.rate,
            "achieved": self.achieved,
            "connections": plan.connections,
            "partitions": plan.partitions,
            "records": plan.records,
            "value_bytes": plan.value_bytes,
            "spin": plan.spin,
            "requests": self.intended.len(),
            "from_due_us": quantiles(&self.intended),
            "from_sent_us": quantiles(&self.sent),
            "mean_from_due_us": self.intended.mean(),
            "warm_up_us": micros(plan.warm_up),
        })
    }
}

fn histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, MICROS_MAX, 3).context("a histogram of microseconds")
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
