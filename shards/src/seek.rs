//! Finding the batch of a timestamp in one partition.

use bytes::Bytes;
use millstream_io::sparse_index::BatchStart;
use millstream_io::units::{FilePosition, Offset, SegmentId, TimestampMs};

use crate::message::Isolation;
use crate::partition_log::PartitionLog;
use crate::position::LogPosition;
use crate::segments::Segment;
use crate::tail_cache::max_timestamp_of;

/// What a reader looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seek {
    /// The first record of this time or later...
    pub time: TimestampMs,
    /// ... at this offset or behind.
    pub from: Offset,
    pub isolation: Isolation,
}

/// The next step of a search.
#[derive(Debug)]
pub enum SeekStep {
    /// The first batch that may hold the record.
    Found(Bytes),
    /// There is none.
    Nothing,
    /// Look into a file; when nothing is there, go on behind it.
    Cold(SeekAsk),
}

/// What to look for in a segment file. Owned, for the helper pool.
#[derive(Clone, Debug)]
pub struct SeekAsk {
    pub segment: SegmentId,
    pub time: TimestampMs,
    pub from: Offset,
    /// Where to begin to walk, when the indexes are in memory.
    pub start: Option<BatchStart>,
    /// Bytes of the file that may be read.
    pub end: FilePosition,
    /// Offset behind those bytes: where to go on.
    pub next: Offset,
}

impl PartitionLog {
    /// The largest timestamp of readable records, as far as segments know: the true one is this or
    /// earlier ([`PartitionLog::latest`]).
    pub fn max_timestamp(&self) -> Option<TimestampMs> {
        let live = self.segments.iter().filter(|segment| segment.next > self.marks.log_start());
        live.map(|segment| segment.max_timestamp).max().filter(|time| !time.is_none())
    }

    /// Goes on with a search: names the first batch at or behind `seek.from` whose largest
    /// timestamp is `seek.time` or later.
    pub fn seek(&self, seek: &Seek) -> SeekStep {
        let (end_offset, end) = self.readable(seek.isolation);
        let from = seek.from.max(self.marks.log_start());
        let candidate = |segment: &&Segment| {
            segment.next > from
                && segment.max_timestamp >= seek.time
                && segment.id.base < end_offset
        };
        for segment in self.segments.iter().filter(candidate) {
            let from = from.max(segment.id.base);
            if from < self.tail.base() {
                return SeekStep::Cold(self.ask_seek(segment, seek.time, from, end));
            }
            let Some(first) = self.tail.find(from) else { continue };
            let batches = self.tail.batches_from(first.start);
            let within = batches.take_while(|(b, _)| b.end <= segment.end().min(end));
            let mut late = within.filter(|(_, bytes)| max_timestamp_of(bytes) >= seek.time);
            if let Some((_, bytes)) = late.next() {
                return SeekStep::Found(Bytes::copy_from_slice(bytes));
            }
        }
        SeekStep::Nothing
    }

    fn ask_seek(
        &self,
        segment: &Segment,
        time: TimestampMs,
        from: Offset,
        readable: LogPosition,
    ) -> SeekAsk {
        let index = segment.index();
        // What memory holds of this segment is looked at in memory, in the next step.
        let end = segment.end().min(self.tail.start()).min(readable.max(segment.start));
        SeekAsk {
            segment: segment.id,
            time,
            from,
            start: index.map(|index| index.offsets.floor(index.times.floor(time).max(from))),
            end: segment.file_position(end),
            next: segment.next.min(self.tail.base()),
        }
    }
}
