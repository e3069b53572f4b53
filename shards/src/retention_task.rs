//! Retention of one shard: looks at every partition now and then, a piece at a time.

use std::time::Duration;

use millstream_io::clock::Clock;
use millstream_io::runtime::{Breather, log, sleep};
use millstream_io::units::{ShardId, TimestampMs};

use crate::retention::{RetentionClock, RetentionTime};
use crate::shard::Shard;

/// How retention runs. Times as the broker's settings of these names.
#[derive(Clone, Copy, Debug)]
pub struct RetentionConfig {
    /// `log.retention.check.interval.ms`.
    pub check_every: Duration,
    /// `log.retention.clock.step.grace.ms`.
    pub step_grace: Duration,
    /// When something was last written to the data directory before this start.
    pub alive: Option<TimestampMs>,
}

/// The first look comes no later than this after the start, as with Apache Kafka.
const FIRST_LOOK: Duration = Duration::from_secs(30);

/// Runs until it is cancelled. Between two pieces the core sees to others.
pub async fn retain(shard: Shard, config: RetentionConfig, clock: impl Clock) {
    let (wall, monotonic) = (clock.wall(), clock.monotonic());
    let mut time = RetentionClock::new(config.alive, wall, monotonic, config.step_grace);
    sleep(config.check_every.min(FIRST_LOOK)).await;
    loop {
        let seen = time.look(clock.wall(), clock.monotonic());
        tell_of_steps(shard.with(|shard| shard.id), seen);
        check(&shard, seen).await;
        sleep(config.check_every).await;
    }
}

async fn check(shard: &Shard, seen: RetentionTime) {
    let mut breather = Breather::new();
    let (mut from, mut future) = (Some(0), 0);
    while let Some(place) = from {
        let piece = shard.with_mut(|shard| shard.retain_piece(place, seen.now));
        future += piece.from_future;
        from = piece.next;
        breather.after(0).await;
    }
    let before = shard.with_mut(|shard| shard.retention_looked(future, seen.ahead_ms.is_some()));
    if future > before {
        log::warn("shards", "records from the future keep partitions from growing old")
            .field("shard", shard.with(|shard| shard.id))
            .field("partitions", future)
            .field("then", "retention.bytes and DeleteRecords still free their space")
            .emit();
    }
}

/// All cores see the same clock; one says so.
fn tell_of_steps(shard: ShardId, seen: RetentionTime) {
    if shard != ShardId::new(0) {
        return;
    }
    if seen.stepped {
        log::warn(
            "shards",
            "the clock is ahead of the time that passed; no record is old by it yet",
        )
        .field("seconds", seen.ahead_ms.unwrap_or_default() / 1000)
        .field("then", "if it stays so for log.retention.clock.step.grace.ms, it is believed")
        .emit();
    }
    if seen.believed {
        log::warn("shards", "the clock stayed ahead; retention follows it from now on").emit();
    }
}
