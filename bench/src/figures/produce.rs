//! CPU of the broker for a produced message: in large batches, and in requests of one record. And
//! what the client reaches against a server that does nothing.

use std::time::Instant;

use anyhow::Result;

use super::{BATCH_RECORDS, Report, Setup, Target, VALUE_BYTES, now_ms};
use crate::batch::Batch;
use crate::client::{Admin, Driver, Expect, Topic};
use crate::host::micros;
use crate::load::{FetchLoop, ProduceLoop, Shot, Span, Tally, check_ends};
use crate::process::Broker;

use super::start::mib;

/// Large batches: partitions, one connection each.
const LANES: i32 = 4;
/// Large batches in flight on each connection.
const BATCHES_IN_FLIGHT: usize = 3;
/// Requests in flight on a connection that pipelines.
const PIPELINE: usize = 8;

/// Requests that a window holds at the least: with fewer, the broker's idle work and the resolution
/// of its CPU time would be most of the figure.
const SINGLES_MIN: u64 = 5_000;

/// One load of one-record requests.
struct Single {
    connections: i32,
    in_flight: usize,
}

const SINGLES: [Single; 4] = [
    Single { connections: 16, in_flight: 1 },
    Single { connections: 64, in_flight: 1 },
    Single { connections: 16, in_flight: PIPELINE },
    Single { connections: 64, in_flight: PIPELINE },
];

/// Where the broker runs: on one core, judged, or on all, where half of the requests cross cores
/// and the client takes its share of the same CPUs: reported.
#[derive(Clone, Copy)]
struct Place {
    name: &'static str,
    judged: bool,
}

const ONE_CORE: Place = Place { name: "", judged: true };
const ALL_CORES: Place = Place { name: ", all cores", judged: false };

impl Place {
    fn target(self, most: f64) -> Target {
        if self.judged { Target::AtMost(most) } else { Target::None }
    }
}

pub fn measure(setup: &Setup, report: &mut Report) -> Result<()> {
    let broker = setup.broker()?;
    let memory = mib(broker.rss()?);
    let mut admin = Admin::connect(broker.address)?;
    batched(setup, report, &broker, &mut admin, ONE_CORE)?;
    let quiet = broker.settle(std::time::Duration::from_secs(1), super::SETTLE_LIMIT)?;
    report.row(
        "memory after large batches (RSS)",
        "MiB",
        Target::None,
        vec![mib(broker.rss()?)],
        format!("{memory:.0} MiB before{}", if quiet { "" } else { "; still writing" }),
    );
    for single in SINGLES {
        singles(setup, report, &broker, &mut admin, &single, ONE_CORE)?;
    }
    report.row(
        "memory after single records (RSS)",
        "MiB",
        Target::None,
        vec![mib(broker.rss()?)],
        "",
    );
    if setup.attached.is_none() {
        let took = broker.stop()?;
        let ms = took.as_secs_f64() * 1e3;
        report.row("SIGTERM to exit, after load", "ms", Target::None, vec![ms], "");
    }
    Ok(())
}

/// The same on all cores.
pub fn all_cores(setup: &Setup, report: &mut Report) -> Result<()> {
    if setup.attached.is_some() || setup.cpus.broker.is_empty() {
        return Ok(());
    }
    let mut launch = setup.launch.clone();
    launch.cores = "all".to_owned();
    launch.cpus = setup.cpus.broker.iter().chain(&setup.cpus.client).copied().collect();
    let broker = launch.start()?;
    let mut admin = Admin::connect(broker.address)?;
    batched(setup, report, &broker, &mut admin, ALL_CORES)?;
    for single in [&SINGLES[1], &SINGLES[3]] {
        singles(setup, report, &broker, &mut admin, single, ALL_CORES)?;
    }
    broker.stop()?;
    Ok(())
}

fn batched(
    setup: &Setup,
    report: &mut Report,
    broker: &Broker,
    admin: &mut Admin,
    place: Place,
) -> Result<()> {
    let (topic, mut load) = batch_load(setup, broker, admin)?;
    load.run_up_to(setup.window / 2, setup.window_bytes / 2)?;
    let (mut cpu, mut total, mut seconds) = (Vec::new(), Tally::default(), 0.0);
    for _ in 0..setup.windows {
        let (before, begun) = (broker.cpu()?, Instant::now());
        let done = load.run_up_to(setup.window, setup.window_bytes)?;
        cpu.push(micros(broker.cpu()? - before) / done.records as f64);
        seconds += begun.elapsed().as_secs_f64();
        total.records += done.records;
        total.bytes += done.bytes;
    }
    load.drain()?;
    check_ends(&admin.ends(&topic)?, &vec![0; load.acked.len()], &load.acked)?;
    report.row(
        format!("broker CPU a produced message, {BATCH_RECORDS} a batch, acks=all{}", place.name),
        "us",
        place.target(0.15),
        cpu,
        rate(total, seconds),
    );
    Ok(())
}

fn singles(
    setup: &Setup,
    report: &mut Report,
    broker: &Broker,
    admin: &mut Admin,
    single: &Single,
    place: Place,
) -> Result<()> {
    let (topic, mut load) = single_load(setup, broker, admin, single)?;
    load.run(setup.window / 2, 0)?;
    let (mut cpu, mut total, mut seconds) = (Vec::new(), Tally::default(), 0.0);
    for _ in 0..setup.windows {
        let (before, begun) = (broker.cpu()?, Instant::now());
        let done = load.run(setup.window, SINGLES_MIN)?;
        cpu.push(micros(broker.cpu()? - before) / done.requests as f64);
        seconds += begun.elapsed().as_secs_f64();
        total.requests += done.requests;
    }
    load.drain()?;
    check_ends(&admin.ends(&topic)?, &vec![0; load.acked.len()], &load.acked)?;
    report.row(
        format!(
            "broker CPU a one-record request, {} connections x {} in flight{}",
            single.connections, single.in_flight, place.name
        ),
        "us",
        place.target(40.0),
        cpu,
        format!("{:.0} requests/s", total.requests as f64 / seconds),
    );
    Ok(())
}

/// Rates of this client against the null server: the same loads, the same checks.
pub fn ceiling(setup: &Setup, report: &mut Report) -> Result<()> {
    let server = setup.launch.start_null()?;
    let mut admin = Admin::connect(server.address)?;
    let seconds = setup.window.as_secs_f64();
    let (topic, mut load) = batch_load(setup, &server, &mut admin)?;
    let done = load.run(setup.window, 0)?;
    load.drain()?;
    let ends = admin.ends(&topic)?;
    check_ends(&ends, &vec![0; ends.len()], &load.acked)?;
    let millions = |tally: Tally| vec![tally.records as f64 / seconds / 1e6];
    let note = "against a server that does nothing";
    report.row("client ceiling, large batches", "M/s", Target::None, millions(done), note);

    let spans = vec![vec![Span { partition: 0, from: 0, to: ends[0] }]];
    let mut expect = Expect::default();
    expect.add(&large_batch(0));
    let driver = Driver::connect(server.address, 1)?;
    let mut fetch = FetchLoop::new(driver, admin.versions, &topic, expect, spans, 1 << 20)?;
    let done = fetch.run(setup.window)?;
    report.row("client ceiling, consuming", "M/s", Target::None, millions(done), note);

    for single in SINGLES {
        let (_, mut load) = single_load(setup, &server, &mut admin, &single)?;
        let done = load.run(setup.window, 0)?;
        load.drain()?;
        report.row(
            format!(
                "client ceiling, one-record requests, {} x {}",
                single.connections, single.in_flight
            ),
            "k/s",
            Target::None,
            vec![done.requests as f64 / seconds / 1e3],
            note,
        );
    }
    Ok(())
}

/// The large batch of a lane; its timestamp is fixed so that readers can expect it.
pub fn large_batch(lane: i32) -> Batch {
    Batch::filled(BATCH_RECORDS, VALUE_BYTES, u64::from(lane.unsigned_abs()), 1_700_000_000_000)
}

/// A load of large batches: [`LANES`] connections, each to its partition.
pub fn batch_load(
    setup: &Setup,
    broker: &Broker,
    admin: &mut Admin,
) -> Result<(Topic, ProduceLoop)> {
    let topic = setup.topic(admin, "batches", LANES)?;
    let shots: Result<Vec<Vec<Shot>>> = (0..LANES)
        .map(|lane| Ok(vec![Shot::new(admin.versions, &topic, &[lane], &large_batch(lane))?]))
        .collect();
    let driver = Driver::connect(broker.address, usize::try_from(LANES)?)?;
    let load = ProduceLoop::new(driver, admin.versions, LANES, shots?, BATCHES_IN_FLIGHT)?;
    Ok((topic, load))
}

fn single_load(
    setup: &Setup,
    broker: &Broker,
    admin: &mut Admin,
    single: &Single,
) -> Result<(Topic, ProduceLoop)> {
    let topic = setup.topic(admin, "singles", single.connections)?;
    let batch = Batch::filled(1, VALUE_BYTES, 3, now_ms());
    let shots: Result<Vec<Vec<Shot>>> = (0..single.connections)
        .map(|lane| Ok(vec![Shot::new(admin.versions, &topic, &[lane], &batch)?]))
        .collect();
    let connections = usize::try_from(single.connections)?;
    let driver = Driver::connect(broker.address, connections)?;
    let load =
        ProduceLoop::new(driver, admin.versions, single.connections, shots?, single.in_flight)?;
    Ok((topic, load))
}

/// Messages and bytes a second, for a note.
pub fn rate(tally: Tally, seconds: f64) -> String {
    format!(
        "{:.2} M messages/s, {:.0} MiB/s",
        tally.records as f64 / seconds / 1e6,
        mib(tally.bytes) / seconds
    )
}
