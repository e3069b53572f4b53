//! Ten thousand partitions: what one costs in memory while nobody uses it, how soon a broker that has
//! them stops and starts, and what it reads after a kill.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::start::mib;
use super::{Report, Setup, Target, VALUE_BYTES, now_ms};
use crate::batch::Batch;
use crate::client::{Admin, Driver, Topic};
use crate::load::{Shot, check_ends};
use crate::process::{Broker, pause};

const PARTITIONS: i32 = 10_000;
/// Produce requests, each with a batch for every partition.
const ROUNDS: u64 = 3;
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// How long the broker is left alone before its memory is looked at.
const REST: Duration = Duration::from_secs(2);

pub fn measure(setup: &Setup, report: &mut Report) -> Result<()> {
    if setup.attached.is_some() {
        return Ok(());
    }
    let broker = setup.launch.start()?;
    let mut admin = Admin::connect(broker.address)?;
    let bare = broker.rss()?;
    let begun = Instant::now();
    let topic = setup.topic(&mut admin, "partitions", PARTITIONS)?;
    let made = begun.elapsed().as_secs_f64() * 1e3;
    report.row(
        format!("creation of a topic of {PARTITIONS} partitions"),
        "ms",
        Target::None,
        vec![made],
        "until each is led",
    );
    pause(REST);
    per_partition(report, "without a record", &broker, bare, Target::AtMost(20.0))?;
    write(&broker, &mut admin, &topic, ROUNDS)?;
    pause(REST);
    per_partition(report, "with records", &broker, bare, Target::AtMost(20.0))?;

    let (stopped, data) = stop(broker)?;
    report.row(
        format!("SIGTERM to exit, {PARTITIONS} written partitions"),
        "ms",
        Target::ElapsedAtMost(15_000.0),
        vec![stopped],
        "all sealed and saved, the journal empty; half of the time that a stop may take",
    );
    let broker = setup.launch.start_on(data)?;
    let clean = started(&broker);
    report.row(
        format!("start after a clean stop, {PARTITIONS} partitions"),
        "ms",
        Target::ElapsedAtMost(3000.0),
        vec![clean],
        format!("{:.1} MiB read, journal and state files among them", mib(broker.read()?)),
    );
    let log = broker.recovered_log_bytes();
    report.row("log read after a clean stop", "MiB", Target::Exactly(0.0), vec![mib(log)], "");
    let mut admin = Admin::connect(broker.address)?;
    pause(REST);
    per_partition(report, "after a start", &broker, bare, Target::AtMost(20.0))?;
    write(&broker, &mut admin, &topic, ROUNDS)?;
    let data = broker.kill()?;
    let broker = setup.launch.start_on(data)?;
    report.row(
        format!("start after a kill, {PARTITIONS} partitions"),
        "ms",
        Target::None,
        vec![started(&broker)],
        format!("{:.1} MiB read, journal and state files among them", mib(broker.read()?)),
    );
    let log = broker.recovered_log_bytes();
    report.row("log read after a kill", "MiB", Target::CountAtMost(64.0), vec![mib(log)], "");
    let mut admin = Admin::connect(broker.address)?;
    check(&mut admin, &topic, 2 * ROUNDS)?;
    Ok(())
}

/// Memory a partition, over what the broker had before there was one.
fn per_partition(
    report: &mut Report,
    when: &str,
    broker: &Broker,
    bare: u64,
    target: Target,
) -> Result<()> {
    let rss = broker.rss()?;
    let each = rss.saturating_sub(bare) as f64 / 1024.0 / f64::from(PARTITIONS);
    let note = format!("RSS {:.0} MiB, {} descriptors", mib(rss), broker.descriptors()?);
    report.row(format!("memory of an idle partition, {when}"), "KiB", target, vec![each], note);
    Ok(())
}

/// Writes a batch of one record to every partition, `rounds` times.
fn write(broker: &Broker, admin: &mut Admin, topic: &Topic, rounds: u64) -> Result<()> {
    let before = admin.ends(topic)?;
    let all: Vec<i32> = (0..topic.partitions).collect();
    let batch = Batch::filled(1, VALUE_BYTES, 6, now_ms());
    let shot = Shot::new(admin.versions, topic, &all, &batch)?;
    let mut driver = Driver::connect(broker.address, 1)?;
    for _ in 0..rounds {
        driver.outputs().send(0, shot.frame(), 0);
        driver.drain(ANSWER_LIMIT, &mut |response, _| {
            shot.check(admin.versions.produce, response.bytes)
        })?;
    }
    check_ends(&admin.ends(topic)?, &before, &vec![rounds; all.len()])
}

fn check(admin: &mut Admin, topic: &Topic, records: u64) -> Result<()> {
    let starts = vec![0; usize::try_from(topic.partitions)?];
    check_ends(&admin.ends(topic)?, &starts, &vec![records; starts.len()])
}

fn stop(mut broker: Broker) -> Result<(f64, tempfile::TempDir)> {
    let (took, data) = broker.stop_keeping()?;
    let Some(data) = data else { anyhow::bail!("the broker is not ours") };
    Ok((took.as_secs_f64() * 1e3, data))
}

fn started(broker: &Broker) -> f64 {
    broker.ready_after.map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
}
