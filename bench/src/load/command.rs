//! The `load` command: one closed loop of any shape against a broker that runs, for profilers.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

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
        length: Duration::from_secs(options.value("seconds", 5)?),
    };
    let fetch = options.flag("fetch");
    options.finish()?;
    ensure!(shape.connections > 0 && shape.partitions > 0, "nothing to send");
    host::raise_descriptors()?;
    on_cpus(&Cpus::apart()?.client, || drive(&shape, &broker, fetch))??;
    Ok(true)
}

fn drive(shape: &Shape, broker: &Broker, fetch: bool) -> Result<()> {
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
    let (cpu, begun) = (broker.cpu()?, Instant::now());
    let done = load.run(length, 1)?;
    print("produce", done, broker.cpu()? - cpu, begun.elapsed());
    load.drain()?;
    let ends = admin.ends(&topic)?;
    check_ends(&ends, &vec![0; load.acked.len()], &load.acked)?;
    if fetch {
        let mut expect = Expect::default();
        expect.add(&batch);
        read(shape, broker, &admin, &topic, &ends, expect)?;
    }
    Ok(())
}

fn read(
    shape: &Shape,
    broker: &Broker,
    admin: &Admin,
    topic: &Topic,
    ends: &[i64],
    expect: Expect,
) -> Result<()> {
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
    print("fetch", done, broker.cpu()? - cpu, begun.elapsed());
    Ok(())
}

fn print(what: &str, done: super::Tally, cpu: Duration, elapsed: Duration) {
    println!(
        "{what}: {:.0} requests/s, {:.0} records/s; broker CPU {:.2} us a request, {:.3} us a \
         record, {:.0} % of a core",
        done.requests as f64 / elapsed.as_secs_f64(),
        done.records as f64 / elapsed.as_secs_f64(),
        micros(cpu) / done.requests as f64,
        micros(cpu) / done.records as f64,
        cpu.as_secs_f64() / elapsed.as_secs_f64() * 100.0
    );
}
