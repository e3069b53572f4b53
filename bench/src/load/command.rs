//! The `load` command: one closed loop of any shape against a broker that runs, for profilers.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{FetchLoop, ProduceLoop, Shot, Span, check_ends};
use crate::batch::Batch;
use crate::client::{Admin, Driver, Expect, Topic};
use crate::host::{self, Cpus, micros, on_cpus};
use crate::options::Options;
use crate::process::Broker;

struct Shape {
    connections: usize,
    in_flight: usize,
    /// Partitions of one request; each connection has its own.
    partitions: i32,
    records: u32,
    value_bytes: usize,
    warm_up: Duration,
    length: Duration,
}

/// Flags of this command.
pub const FLAGS: &[&str] = &["fetch"];

/// Produces (and with `--fetch` then reads the last of it over and over) and prints the broker's
/// CPU time for a request and for a record.
pub fn run(mut options: Options) -> Result<bool> {
    let address = options.text("attach").context("--attach HOST:PORT names the broker")?;
    let broker = Broker::attach(
        address.parse().context("--attach takes HOST:PORT")?,
        options.value("pid", std::process::id())?,
    )?;
    let shape = Shape {
        connections: options.value("connections", 1)?,
        in_flight: options.value("in-flight", 1)?,
        partitions: options.value("partitions", 1)?,
        records: options.value("records", 1)?,
        value_bytes: options.value("size", 100)?,
        warm_up: Duration::from_secs(options.value("warm-up", 1)?),
        length: Duration::from_secs(options.value("seconds", 5)?),
    };
    let (fetch, out) = (options.flag("fetch"), options.text("out").map(PathBuf::from));
    options.finish()?;
    ensure!(shape.connections > 0 && shape.partitions > 0, "nothing to send");
    host::raise_descriptors()?;
    let report = on_cpus(&Cpus::apart()?.client, || drive(&shape, &broker, fetch))??;
    if let Some(path) = out {
        let text = serde_json::to_string_pretty(&report)?;
        std::fs::write(&path, text + "\n").with_context(|| path.display().to_string())?;
    }
    Ok(true)
}

fn drive(shape: &Shape, broker: &Broker, fetch: bool) -> Result<Value> {
    let mut admin = Admin::connect(broker.address)?;
    let all = shape.partitions * i32::try_from(shape.connections)?;
    let unique = std::process::id();
    let topic = admin.create(&format!("load-{unique}"), all, &[])?;
    let batch = Batch::filled(shape.records, shape.value_bytes, 6, 1_700_000_000_000);
    let partitions: Vec<i32> = (0..all).collect();
    let own = partitions.chunks(usize::try_from(shape.partitions)?);
    let shots: Result<Vec<Vec<Shot>>> =
        own.map(|part| Ok(vec![Shot::new(admin.versions, &topic, part, &batch)?])).collect();
    let driver = Driver::connect(broker.address, shape.connections)?;
    let mut load = ProduceLoop::new(driver, admin.versions, all, shots?, shape.in_flight)?;
    let length = if fetch { Duration::from_secs(1) } else { shape.length };
    load.time_requests()?;
    load.run(shape.warm_up, 1)?;
    load.time_requests()?;
    let (cpu, begun) = (broker.cpu()?, Instant::now());
    let done = load.run(length, 1)?;
    let mut report = print("produce", done, broker.cpu()? - cpu, begun.elapsed());
    if let Some(latency) = load.latency() {
        let at = |quantile| latency.value_at_quantile(quantile);
        let (p50, p99, p999) = (at(0.5), at(0.99), at(0.999));
        println!("latency: us p50 {p50} p99 {p99} p99.9 {p999} max {}", latency.max());
        report["latency_us"] =
            json!({ "p50": p50, "p99": p99, "p99.9": p999, "max": latency.max() });
    }
    load.drain()?;
    let ends = admin.ends(&topic)?;
    check_ends(&ends, &vec![0; load.acked.len()], &load.acked)?;
    if fetch {
        let mut expect = Expect::default();
        expect.add(&batch);
        report["fetch"] = read(shape, broker, &admin, &topic, &ends, expect)?;
    }
    Ok(report)
}

fn read(
    shape: &Shape,
    broker: &Broker,
    admin: &Admin,
    topic: &Topic,
    ends: &[i64],
    expect: Expect,
) -> Result<Value> {
    let back = 2 * i64::from(shape.records);
    let span = |(partition, to): (usize, &i64)| -> Result<Span> {
        Ok(Span { partition: i32::try_from(partition)?, from: (to - back).max(0), to: *to })
    };
    let spans: Result<Vec<Span>> = ends.iter().enumerate().map(span).collect();
    let lists = spans?.chunks(usize::try_from(shape.partitions)?).map(<[Span]>::to_vec).collect();
    let driver = Driver::connect(broker.address, shape.connections)?;
    let mut load = FetchLoop::new(driver, admin.versions, topic, expect, lists, 1 << 20)?;
    let (cpu, begun) = (broker.cpu()?, Instant::now());
    let done = load.run(shape.length)?;
    Ok(print("fetch", done, broker.cpu()? - cpu, begun.elapsed()))
}

fn print(what: &str, done: super::Tally, cpu: Duration, elapsed: Duration) -> Value {
    println!(
        "{what}: {:.0} requests/s, {:.0} records/s; broker CPU {:.2} us a request, {:.3} us a \
         record, {:.0} % of a core",
        done.requests as f64 / elapsed.as_secs_f64(),
        done.records as f64 / elapsed.as_secs_f64(),
        micros(cpu) / done.requests as f64,
        micros(cpu) / done.records as f64,
        cpu.as_secs_f64() / elapsed.as_secs_f64() * 100.0
    );
    let seconds = elapsed.as_secs_f64();
    json!({
        "requests_per_second": done.requests as f64 / seconds,
        "records_per_second": done.records as f64 / seconds,
        "mb_per_second": done.bytes as f64 / seconds / 1e6,
        "broker_cpu_us_per_request": micros(cpu) / done.requests as f64,
        "broker_cpu_us_per_record": micros(cpu) / done.records as f64,
    })
}
