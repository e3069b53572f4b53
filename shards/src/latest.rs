//! The largest timestamp of a partition's readable records, exactly.
//!
//! A segment knows the largest of all its records. Of a segment in which the log starts, or of which
//! the end is not readable yet, that may be one that does not count: its batches must be looked at.

use bytes::Bytes;
use millstream_io::sparse_index::BatchStart;
use millstream_io::units::{FilePosition, Offset, SegmentId, TimestampMs};

use crate::message::Isolation;
use crate::partition_log::PartitionLog;
use crate::segments::Segment;
use crate::tail_cache::max_timestamp_of;

/// The largest timestamp as far as memory tells, and what must be looked at besides.
#[derive(Debug, Default)]
pub struct Latest {
    pub known: Option<TimestampMs>,
    pub asks: Vec<LatestAsk>,
}

/// Batches of one segment to be looked at. Owned, for the helper pool.
#[derive(Clone, Debug)]
pub struct LatestAsk {
    pub segment: SegmentId,
    /// Records in front of this do not count.
    pub from: Offset,
    pub of: LatestOf,
}

#[derive(Clone, Debug)]
pub enum LatestOf {
    /// Its file, up to `end`; `start` is where to begin to walk, when an index is in memory.
    File { start: Option<BatchStart>, end: FilePosition },
    /// One batch, which holds records that do not count.
    Batch(Bytes),
}

impl Latest {
    pub fn add(&mut self, time: Option<TimestampMs>) {
        self.known = self.known.max(time);
    }
}

impl PartitionLog {
    /// Costs a step for each segment, and for each batch in memory of at most two of them.
    pub fn latest(&self, isolation: Isolation) -> Latest {
        let end = self.readable(isolation).0;
        let log_start = self.marks.log_start();
        let live = |segment: &&Segment| segment.next > log_start && segment.id.base < end;
        let mut latest = Latest::default();
        for segment in self.segments.iter().filter(live) {
            if segment.id.base >= log_start && segment.next <= end {
                latest.add(Some(segment.max_timestamp));
            } else {
                self.look_into(segment, isolation, &mut latest);
            }
        }
        latest
    }

    fn look_into(&self, segment: &Segment, isolation: Isolation, latest: &mut Latest) {
        let (end_offset, end) = self.readable(isolation);
        let log_start = self.marks.log_start();
        let index = segment.index();
        let mut from = log_start.max(segment.id.base);
        if segment.id.base >= log_start
            && let Some((time, offset)) = index.and_then(|index| index.times.before(end_offset))
        {
            latest.add(Some(time));
            from = offset;
        }
        let id = segment.id;
        if from < self.tail.base() {
            let start = index.map(|index| index.offsets.floor(from));
            let readable = end.max(segment.start);
            let end = segment.file_position(segment.end().min(self.tail.start()).min(readable));
            latest.asks.push(LatestAsk { segment: id, from, of: LatestOf::File { start, end } });
        }
        let Some(first) = self.tail.find(from.max(self.tail.base())) else { return };
        let batches = self.tail.batches_from(first.start);
        for (batch, bytes) in batches.take_while(|(b, _)| b.end <= segment.end().min(end)) {
            if batch.base >= from {
                latest.add(Some(max_timestamp_of(bytes)));
            } else {
                let of = LatestOf::Batch(Bytes::copy_from_slice(bytes));
                latest.asks.push(LatestAsk { segment: id, from, of });
            }
        }
    }
}
