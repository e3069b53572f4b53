//! Walking over the headers of batches in memory. They are our own copies of checked batches, so
//! what does not parse is a broken promise, not an error.

use millstream_io::batch::RecordBatchHeader;
use millstream_io::units::{Offset, TimestampMs, bytes_usize};

use super::{FoundBatch, TailCache};
use crate::position::LogPosition;

impl TailCache {
    /// The batch that holds `offset`, or the first one behind it; `None` when the tail ends before.
    ///
    /// Costs a binary search over the chunks and a walk over the headers of one.
    pub fn find(&self, offset: Offset) -> Option<FoundBatch> {
        if offset < self.base() {
            return None;
        }
        let above = self.frozen.partition_point(|chunk| chunk.base <= offset);
        let open = !self.open.is_empty() && self.open_base <= offset;
        let i = if open { self.frozen.len() } else { above.checked_sub(1)? };
        self.batches_of(i, 0).find(|batch| offset < batch.next).or_else(|| self.first_of(i + 1))
    }

    /// The batch that starts at `at`.
    ///
    /// # Panics
    /// When no batch of this tail starts there.
    pub fn batch_at(&self, at: LogPosition) -> FoundBatch {
        let i = self.chunk_of(at).unwrap_or(self.frozen.len());
        let (start, _) = self.piece(i);
        match self.batches_of(i, bytes_usize(at.since(start))).next() {
            Some(batch) => batch,
            None => panic!("no batch at {at:?}, the tail ends at {:?}", self.end()),
        }
    }

    /// The offset of the record that stands, or will stand, at the batch boundary `at`.
    ///
    /// # Panics
    /// When `at` is not a boundary within the tail.
    pub fn offset_at(&self, at: LogPosition) -> Offset {
        if at < self.end() {
            return self.batch_at(at).base;
        }
        assert!(at == self.end(), "{at:?} lies behind the tail's end {:?}", self.end());
        self.next
    }

    /// The last batch boundary in `[from, limit]`, where `from` is one, and the offset there.
    /// `limit` may lie behind the end of the tail.
    pub fn cut(&self, from: LogPosition, limit: LogPosition) -> LogPosition {
        let limit = limit.min(self.end());
        if limit <= from {
            return from;
        }
        // The chunk that holds the byte before the limit is the only one to be walked.
        let first = self.chunk_of(from).unwrap_or(self.frozen.len());
        let cut_in = self.frozen.partition_point(|chunk| chunk.end() < limit);
        let (start, bytes) = self.piece(cut_in);
        if limit == start.add_len(bytes.len()) {
            return limit;
        }
        let skip = if cut_in == first { bytes_usize(from.since(start)) } else { 0 };
        let whole = self.batches_of(cut_in, skip).take_while(|batch| batch.end <= limit);
        whole.last().map_or(start.max(from), |batch| batch.end)
    }

    /// Batches from `at` (a boundary) on, in log order.
    pub fn batches_from(&self, at: LogPosition) -> impl Iterator<Item = (FoundBatch, &[u8])> {
        let first = self.chunk_of(at).unwrap_or(self.frozen.len());
        (first..=self.frozen.len()).flat_map(move |i| {
            let (start, bytes) = self.piece(i);
            let skip = if i == first { bytes_usize(at.since(start)) } else { 0 };
            self.batches_of(i, skip).map(move |batch| {
                let range =
                    bytes_usize(batch.start.since(start))..bytes_usize(batch.end.since(start));
                (batch, &bytes[range])
            })
        })
    }

    fn first_of(&self, i: usize) -> Option<FoundBatch> {
        (i..=self.frozen.len()).find_map(|i| self.batches_of(i, 0).next())
    }

    /// The batches of chunk `i` from byte `skip` on.
    fn batches_of(&self, i: usize, mut skip: usize) -> impl Iterator<Item = FoundBatch> {
        let (start, bytes) = self.piece(i);
        std::iter::from_fn(move || {
            if skip == bytes.len() {
                return None;
            }
            let at = start.add_len(skip);
            let (header, len) = header_at(&bytes[skip..], at);
            skip += len;
            let (Some(base), Some(next)) = (header.base_offset(), header.next_offset()) else {
                panic!("the batch at {at:?} of the tail has no offsets: {header:?}");
            };
            Some(FoundBatch { start: at, base, next, end: at.add_len(len) })
        })
    }
}

/// The largest timestamp of the batch that `bytes` is.
pub fn max_timestamp_of(bytes: &[u8]) -> TimestampMs {
    header_at(bytes, LogPosition::ZERO).0.max_timestamp()
}

/// Base offset of the batch that `bytes` starts with.
pub(super) fn base_at(bytes: &[u8]) -> Offset {
    let (header, _) = header_at(bytes, LogPosition::ZERO);
    match header.base_offset() {
        Some(base) => base,
        None => panic!("a staged batch has a negative offset: {header:?}"),
    }
}

fn header_at(bytes: &[u8], at: LogPosition) -> (RecordBatchHeader<'_>, usize) {
    let header = RecordBatchHeader::view(bytes);
    let len = header.and_then(RecordBatchHeader::total_bytes);
    match (header, len) {
        (Some(header), Some(len)) if len <= bytes.len() => (header, len),
        _ => panic!("no whole batch at {at:?} of the tail, {} bytes are left there", bytes.len()),
    }
}
