//! Consumers at the tail: every record of every producer, in order, none twice, none missing.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::produce::{STAMP_BYTES, filling};
use super::{CATCH_UP, MAX_WAIT, Shared, lock};
use crate::batch::walk;
use crate::client::{Driver, FetchAnswer, Frame, fetch, read_fetch};

const TURN: Duration = Duration::from_millis(50);

/// What was read so far.
struct Readers {
    /// Next offset of each partition.
    next: Vec<i64>,
    /// Next number of each producer.
    numbers: Vec<u64>,
}

/// One connection for each two partitions, so that requests span partitions of several cores.
pub fn run(shared: &Shared) -> Result<()> {
    let partitions: Vec<i32> = (0..shared.plan.partitions).collect();
    let groups: Vec<&[i32]> = partitions.chunks(2).collect();
    let mut readers =
        Readers { next: vec![0; partitions.len()], numbers: vec![0; shared.plan.producers] };
    let mut driver = Driver::connect(shared.broker, groups.len())?;
    let mut sent = vec![Instant::now(); groups.len()];
    let mut catching_up = None;
    loop {
        let ends = shared.final_ends()?;
        if let Some(ends) = &ends {
            let since = *catching_up.get_or_insert_with(Instant::now);
            if readers.next == *ends {
                break;
            }
            ensure!(
                since.elapsed() < CATCH_UP,
                "the logs end at {ends:?}, and consumers are at {:?}",
                readers.next
            );
        }
        for (connection, group) in groups.iter().enumerate() {
            if driver.outputs().open_on(connection) == 0 {
                sent[connection] = Instant::now();
                driver.outputs().send(connection, &request(shared, group, &readers.next)?, 0);
            }
        }
        driver.turn(TURN, &mut |response, _| {
            shared.waited("a Fetch", sent[response.connection].elapsed(), MAX_WAIT);
            read_fetch(shared.versions.fetch, response.bytes, |part| readers.accept(shared, &part))
        })?;
        for at in &sent {
            ensure!(at.elapsed() < Duration::from_secs(60), "a Fetch has no answer for a minute");
        }
    }
    let acked = lock(&shared.acked).clone();
    ensure!(
        readers.numbers == acked,
        "acknowledged for each producer {acked:?}, read {:?}",
        readers.numbers
    );
    Ok(())
}

impl Readers {
    fn accept(&mut self, shared: &Shared, answer: &FetchAnswer<'_>) -> Result<()> {
        let index = usize::try_from(answer.partition)?;
        let numbers = &mut self.numbers;
        let mut records = 0;
        let next = walk(answer.records, self.next[index], |batch| {
            for (delta, value) in batch.values().enumerate() {
                check(shared, numbers, answer.partition, value?)
                    .with_context(|| format!("offset {}", batch.base_offset + delta as i64))?;
            }
            records += u64::from(batch.records);
            Ok(())
        })
        .with_context(|| format!("partition {}", answer.partition))?;
        self.next[index] = next;
        shared.read_records.fetch_add(records, Ordering::Relaxed);
        Ok(())
    }
}

fn check(shared: &Shared, numbers: &mut [u64], partition: i32, value: &[u8]) -> Result<()> {
    ensure!(value.len() >= STAMP_BYTES, "a value of {} bytes", value.len());
    let (producer, rest) = value.split_at(4);
    let producer = producer.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let (number, filler) = rest.split_at(8);
    let number = number.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let expected = numbers.get_mut(producer).context("a producer that does not exist")?;
    ensure!(
        producer as i32 % shared.plan.partitions == partition,
        "a record of producer {producer} in partition {partition}"
    );
    ensure!(number == *expected, "producer {producer}: record {number} where {expected} is next");
    let fill = filling(producer, number);
    ensure!(filler.iter().all(|byte| *byte == fill), "record {number} has another content");
    *expected += 1;
    Ok(())
}

fn request(shared: &Shared, group: &[i32], next: &[i64]) -> Result<Rc<Frame>> {
    let parts: Vec<(i32, i64)> =
        group.iter().map(|index| (*index, next[index.unsigned_abs() as usize])).collect();
    let wait = i32::try_from(MAX_WAIT.as_millis())?;
    Ok(Rc::new(fetch(shared.versions, &shared.topic, &parts, wait, 1 << 20)?))
}
