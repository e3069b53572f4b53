//! Watching a shard from beside: a round that hangs, a disk that is full.

use std::time::Duration;

use millstream_io::runtime::{log, sleep};

use crate::shard::Shard;

/// How often a round in flight is looked at. An idle shard is not looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Declares the shard stalled when one round takes longer than `patience`: whoever waits is told
/// so, and new appends are refused until the round ends.
pub(super) async fn rounds(shard: Shard, patience: Duration) {
    let event = shard.events().commit.clone();
    let mut watched = None;
    let mut waited = Duration::ZERO;
    loop {
        let seen = event.seen();
        let (busy, round) = shard.with(|s| (s.commit.is_in_flight(), s.commit.rounds()));
        if !busy {
            (watched, waited) = (None, Duration::ZERO);
            event.since(seen).await;
            continue;
        }
        waited = if watched == Some(round) { waited } else { Duration::ZERO };
        watched = Some(round);
        let look = LOOK_EVERY.min(patience);
        sleep(look).await;
        waited += look;
        if waited >= patience && shard.with_mut(|shard| shard.stall(round, waited)) {
            log::error("shards", "the device does not finish a flush; producers are refused")
                .field("shard", shard.with(|shard| shard.id))
                .field("seconds", waited.as_secs())
                .emit();
        }
    }
}

/// Looks once a second whether a full disk has space again. Sleeps otherwise.
pub(super) async fn full_disk(shard: Shard) {
    let event = shard.events().full.clone();
    loop {
        let seen = event.seen();
        if shard.with(|shard| shard.health.full) {
            sleep(LOOK_EVERY).await;
            shard.with_mut(|shard| shard.tick());
        } else {
            event.since(seen).await;
        }
    }
}
