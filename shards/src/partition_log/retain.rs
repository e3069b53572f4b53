//! What of a partition's log is too old, or too much: whole segments from the oldest on, as Apache
//! Kafka chooses them.

use millstream_io::units::{SegmentId, TimestampMs};

use crate::deletion::DeleteBefore;
use crate::message::PartitionConfig;
use crate::segments::Segment;

use super::PartitionLog;

/// What retention found in one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    /// The log start was ordered to rise because records are too old.
    pub by_time: bool,
    /// Likewise because they are too much.
    pub by_size: bool,
    /// Its last segment was closed for it.
    pub rolled: bool,
    /// By time nothing can go: the oldest segment has a record from the future.
    pub from_future: bool,
}

impl PartitionLog {
    /// Looks which segments retention gives up at `now`, and orders the log start to rise behind
    /// them. A segment goes when its newest record is older than `retention.ms`, or when the log
    /// stays as large as `retention.bytes` without it, and only if the one in front of it goes. When
    /// the last one goes too, the next append begins another: the log is empty then and keeps its
    /// numbering.
    ///
    /// Costs a step for each segment of the partition.
    pub fn retain(&mut self, now: TimestampMs) -> Retained {
        let mut found = Retained::default();
        let PartitionConfig { retention_ms, retention_bytes, .. } = *self.config;
        if self.dropping || (retention_ms, retention_bytes) == (None, None) {
            return found;
        }
        let (log_start, high_watermark) = (self.marks.log_start(), self.marks.high_watermark());
        let last = self.segments.len().saturating_sub(1);
        // What lies wholly below the log start goes already; the last one stays until it is closed.
        let dead = self.segments.iter().take_while(|segment| segment.next <= log_start).count();
        let dead = dead.min(last);
        let bytes: u64 = self.segments.iter().skip(dead).map(|segment| segment.bytes).sum();
        let mut surplus = retention_bytes.and_then(|max| bytes.checked_sub(max));
        let mut to = log_start;
        let mut roll = false;
        let behind = self.segments.iter().skip(dead + 1).map(|next| next.id.base);
        let behind = behind.chain([self.marks.log_end()]);
        for (i, (segment, end)) in (dead..).zip(self.segments.iter().skip(dead).zip(behind)) {
            let is_last_and_empty = i == last && segment.bytes == 0;
            if is_last_and_empty || end > high_watermark {
                break;
            }
            surplus = surplus.and_then(|surplus| surplus.checked_sub(segment.bytes));
            let by_size = surplus.is_some();
            let age_ms = now.since_ms(newest(segment));
            let by_time =
                retention_ms.is_some_and(|max| u64::try_from(age_ms).is_ok_and(|age| age > max));
            found.from_future |= i == dead && age_ms < 0 && retention_ms.is_some();
            if !by_size && !by_time {
                break;
            }
            found.by_size |= by_size;
            found.by_time |= !by_size;
            (to, roll) = (end, i == last);
        }
        if roll && !self.needs_repair() {
            self.roll(now);
            found.rolled = true;
        }
        if to > log_start && self.delete_before(DeleteBefore::Offset(to)).is_err() {
            panic!("{}: retention would delete up to {to}, behind {high_watermark}", self.at);
        }
        found
    }

    /// Closes the last segment, though nothing is appended now.
    fn roll(&mut self, now: TimestampMs) {
        let (base, end) = (self.marks.log_end(), self.tail.end());
        self.segments.open(SegmentId::new(self.epoch, base), end, now);
        self.settle_padded();
    }
}

/// The time of a segment's newest record. Records without a timestamp are as old as their append.
fn newest(segment: &Segment) -> TimestampMs {
    if segment.max_timestamp.get() >= 0 { segment.max_timestamp } else { segment.appended_at }
}

#[cfg(test)]
#[path = "retain_tests.rs"]
mod tests;
