//! A log that is there before the measurement: large batches, as fast as the broker takes them.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::batch::Batch;
use crate::client::{Admin, Driver, Topic};
use crate::host::now_ms;
use crate::load::{ProduceLoop, Shot, check_ends};

/// Records of a batch: about a megabyte.
pub const RECORDS: u32 = 900;
/// Bytes of the value of a record.
pub const VALUE_BYTES: usize = 1000;

/// A log of so many bytes takes no longer.
const FILL_LIMIT: Duration = Duration::from_secs(600);
/// Batches in flight on each connection.
const IN_FLIGHT: usize = 3;

/// A batch as they are written here; another for each seed.
pub fn batch(seed: u64) -> Batch {
    Batch::filled(RECORDS, VALUE_BYTES, seed, now_ms())
}

/// Writes so many bytes into an empty topic, `batches` in turn to each partition, and says where the
/// partitions end then.
pub fn fill(
    address: SocketAddr,
    admin: &mut Admin,
    topic: &Topic,
    gb: f64,
    batches: &[Batch],
) -> Result<Vec<i64>> {
    let begun = Instant::now();
    let mut load = load(address, admin, topic, batches, IN_FLIGHT)?;
    load.run_up_to(FILL_LIMIT, (gb * 1e9) as u64)?;
    load.drain()?;
    let (bytes, seconds) = (load.tally.bytes as f64 / 1e9, begun.elapsed().as_secs_f64());
    eprintln!("  {}: {bytes:.1} GB written in {seconds:.0} s", topic.name);
    ensure!(bytes >= gb, "{bytes:.1} of {gb} GB were written in {seconds:.0} s");
    let ends = admin.ends(topic)?;
    check_ends(&ends, &vec![0; ends.len()], &load.acked)?;
    Ok(ends)
}

/// A load of such batches: a connection for each partition, each with so many requests in flight.
pub fn load(
    address: SocketAddr,
    admin: &Admin,
    topic: &Topic,
    batches: &[Batch],
    in_flight: usize,
) -> Result<ProduceLoop> {
    let shots: Result<Vec<Vec<Shot>>> = (0..topic.partitions)
        .map(|part| batches.iter().map(|b| Shot::new(admin.versions, topic, &[part], b)).collect())
        .collect();
    let driver = Driver::connect(address, usize::try_from(topic.partitions)?)?;
    ProduceLoop::new(driver, admin.versions, topic.partitions, shots?, in_flight)
}
