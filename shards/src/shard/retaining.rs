//! Retention of a shard: a walk over its partitions in pieces.

use millstream_io::units::TimestampMs;

use crate::limits::RETAIN_STEPS_AT_ONCE;

use super::ShardState;

/// What one piece of the walk did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetainPiece {
    /// Where the next piece begins; `None` behind the last.
    pub next: Option<u32>,
    /// Partitions that records from the future keep.
    pub from_future: u64,
}

/// What the last walk found. Lives on the owner's core.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Retention {
    pub(super) from_future: u64,
    pub(super) clock_held: bool,
}

impl ShardState {
    /// Orders what retention gives up at `now`, and forgets producers that were silent for too long, in the partitions from place `from` on, as many as
    /// make a piece. Also on a full disk, which it gives space. Partitions that come and go between
    /// two pieces may be missed until the next walk.
    pub fn retain_piece(&mut self, from: u32, now: TimestampMs) -> RetainPiece {
        let mut piece = RetainPiece::default();
        if self.health.stopping || self.deletions_failed().is_some() {
            return piece;
        }
        let mut slots = Vec::new();
        let mut steps = 0;
        for (place, slot, log) in self.partitions.slots_from(from) {
            if steps >= RETAIN_STEPS_AT_ONCE {
                piece.next = Some(place);
                break;
            }
            steps += 1 + log.segments.len() + log.producers.len() / PRODUCERS_PER_STEP;
            slots.push(slot);
        }
        let forget_after_ms = self.limits.producer_expiry_ms;
        for slot in slots {
            let Some(log) = self.partitions.get_mut(slot) else { continue };
            log.expire_producers(now.plus(-forget_after_ms));
            let retained = log.retain(now);
            piece.from_future += u64::from(retained.from_future);
            self.metrics.retention_by_time_total += u64::from(retained.by_time);
            self.metrics.retention_by_size_total += u64::from(retained.by_size);
            if retained.rolled || retained.by_time || retained.by_size {
                self.consider_work(slot);
            }
        }
        piece
    }

    /// A walk has ended; gives the number of partitions that the one before found kept by records
    /// from the future.
    pub fn retention_looked(&mut self, from_future: u64, clock_held: bool) -> u64 {
        let before = std::mem::replace(&mut self.retention, Retention { from_future, clock_held });
        before.from_future
    }
}

/// Producers that are looked at in the time of one segment.
const PRODUCERS_PER_STEP: usize = 16;
