//! Producers: batches of all sizes, each record with its producer and number.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{Shared, lock};
use crate::batch::Batch;
use crate::client::{Driver, produce, read_produce};

/// Requests in flight of one producer.
const IN_FLIGHT: usize = 4;
const TURN: Duration = Duration::from_millis(5);
const SILENCE_LIMIT: Duration = Duration::from_secs(60);
/// Records and value bytes of the batches in turn: mostly small, some large enough to go straight
/// to the segment, one record alone.
const SIZES: [(u32, usize); 7] =
    [(1, 20), (10, 100), (100, 100), (3, 1000), (1, 4080), (200, 1000), (17, 333)];
/// Bytes before the filling of a value: producer u32, number u64.
pub const STAMP_BYTES: usize = 12;

/// A producer's batch under way.
struct Sent {
    at: Instant,
    records: u32,
    bytes: u64,
}

pub fn run(shared: &Shared) -> Result<()> {
    let plan = &shared.plan;
    let mut driver = Driver::connect(shared.broker, plan.producers)?;
    let mut numbers = vec![0u64; plan.producers];
    let mut batches = vec![0usize; plan.producers];
    let mut open: Vec<std::collections::VecDeque<Sent>> =
        (0..plan.producers).map(|_| Default::default()).collect();
    let mut acked = vec![0u64; plan.producers];
    let (mut queued_bytes, begun) = (0u64, Instant::now());
    let mut last = Instant::now();
    loop {
        let stopping = shared.stopping();
        for connection in 0..plan.producers {
            let allowed = begun.elapsed().as_secs_f64() * plan.bytes_per_second;
            let room = driver.outputs().open_on(connection) < IN_FLIGHT;
            if stopping || !room || queued_bytes as f64 > allowed {
                continue;
            }
            let (records, value_bytes) = SIZES[(batches[connection] + connection) % SIZES.len()];
            batches[connection] += 1;
            let batch = stamped(connection, numbers[connection], records, value_bytes);
            numbers[connection] += u64::from(records);
            let partition = i32::try_from(connection)? % plan.partitions;
            let parts = [(partition, batch.bytes.as_slice())];
            let frame = Rc::new(produce(shared.versions, &shared.topic, &parts)?);
            let bytes = batch.bytes.len() as u64;
            queued_bytes += bytes;
            open[connection].push_back(Sent { at: Instant::now(), records, bytes });
            driver.outputs().send(connection, &frame, 0);
        }
        let answers = driver.turn(TURN, &mut |response, _| {
            let mut parts = 0;
            read_produce(shared.versions.produce, response.bytes, |_| {
                parts += 1;
                Ok(())
            })?;
            ensure!(parts == 1, "{parts} partitions answered for one");
            if let Some(sent) = open[response.connection].pop_front() {
                shared.waited("a Produce", sent.at.elapsed(), Duration::ZERO);
                acked[response.connection] += u64::from(sent.records);
                shared.acked_records.fetch_add(u64::from(sent.records), Ordering::Relaxed);
                shared.acked_bytes.fetch_add(sent.bytes, Ordering::Relaxed);
            }
            Ok(())
        })?;
        let waiting = driver.outputs().open();
        if answers > 0 || waiting == 0 {
            last = Instant::now();
        }
        ensure!(last.elapsed() < SILENCE_LIMIT, "no Produce is answered for {SILENCE_LIMIT:?}");
        if stopping && waiting == 0 {
            ensure!(acked == numbers, "an answer is missing");
            *lock(&shared.acked) = acked;
            return Ok(());
        }
    }
}

fn stamped(producer: usize, first: u64, records: u32, value_bytes: usize) -> Batch {
    let values: Vec<Vec<u8>> = (0..u64::from(records))
        .map(|index| {
            let number = first + index;
            let mut value = Vec::with_capacity(value_bytes.max(STAMP_BYTES));
            value.extend_from_slice(&(producer as u32).to_be_bytes());
            value.extend_from_slice(&number.to_be_bytes());
            value.resize(value_bytes.max(STAMP_BYTES), filling(producer, number));
            value
        })
        .collect();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_ms = i64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(i64::MAX);
    Batch::build(values.iter().map(Vec::as_slice), now_ms)
}

/// The byte that fills the values of a record.
pub fn filling(producer: usize, number: u64) -> u8 {
    (number as u8) ^ (producer as u8).rotate_left(4)
}
