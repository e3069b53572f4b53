//! Newtypes for every number that crosses a function.
//!
//! All conversions between widths and signs live in this module; each one that could fail either
//! returns an `Option`, or is proved by a constant assertion beside it. No conversion saturates.

mod id_hash;
mod ids;
mod producer;
mod serde_forms;
mod topic_id;

pub use id_hash::{IdHasher, IdMap};
pub use ids::{
    Cleaned, JournalSeq, LeaderEpoch, NodeId, ParseSegmentIdError, PartitionIndex, RoundNumber,
    SegmentId, ShardId, TopicPartition,
};
pub use producer::{ProducerEpoch, ProducerId, ProducerStamp, Sequence};
pub use topic_id::{ParseTopicIdError, TopicId};

use std::fmt;

use crate::limits;

// `usize` and `u64` are the same width on every machine we run on; both conversions below rest on it.
const _: () = assert!(usize::BITS == u64::BITS, "Millstream needs a 64-bit machine");

/// Widens an in-memory length to a file length. Lossless on the 64-bit machines we run on.
#[inline]
pub const fn bytes_u64(len: usize) -> u64 {
    len as u64
}

/// Narrows a file length to an in-memory length. Lossless on the 64-bit machines we run on.
///
/// This says nothing about whether it is wise to hold that many bytes: bound first, then convert.
#[inline]
pub const fn bytes_usize(len: u64) -> usize {
    len as usize
}

/// Position of a record in its partition: 0, 1, 2, ... without gaps at append.
///
/// Never negative: the wire's -1 and -2 are queries, not offsets, and are told apart at the door.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Offset(i64);

impl Offset {
    /// The first offset of every partition.
    pub const ZERO: Offset = Offset(0);
    /// The largest offset the format can carry.
    pub const MAX: Offset = Offset(i64::MAX);

    /// An offset from the wire or from a file; `None` when negative.
    #[inline]
    pub const fn new(value: i64) -> Option<Offset> {
        if value < 0 { None } else { Some(Offset(value)) }
    }

    /// An offset of our own making.
    ///
    /// # Panics
    /// When `value` is negative: we never compute one.
    #[inline]
    #[track_caller]
    pub const fn at(value: i64) -> Offset {
        assert!(value >= 0, "an offset is never negative");
        Offset(value)
    }

    #[inline]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// `self + records`, or `None` past the end of the format.
    #[inline]
    pub const fn checked_add(self, records: u64) -> Option<Offset> {
        match self.0.checked_add_unsigned(records) {
            Some(value) => Some(Offset(value)),
            None => None,
        }
    }

    /// `self + records`.
    ///
    /// # Panics
    /// Past 2^63 - 1, which a partition reaches after 292 years at a billion records a second.
    #[inline]
    #[track_caller]
    pub const fn add(self, records: u64) -> Offset {
        match self.checked_add(records) {
            Some(offset) => offset,
            None => panic!("offset overflow"),
        }
    }

    /// The offset behind this one.
    #[inline]
    #[track_caller]
    pub const fn next(self) -> Offset {
        self.add(1)
    }

    /// How many records lie in `[earlier, self)`; `None` when `earlier` is the later one.
    #[inline]
    pub const fn checked_since(self, earlier: Offset) -> Option<u64> {
        if self.0 < earlier.0 { None } else { Some(self.0.abs_diff(earlier.0)) }
    }

    /// How many records lie in `[earlier, self)`.
    ///
    /// # Panics
    /// When `earlier` is behind `self`.
    #[inline]
    #[track_caller]
    pub fn since(self, earlier: Offset) -> u64 {
        match self.checked_since(earlier) {
            Some(records) => records,
            None => panic!("offset {self} lies before {earlier}"),
        }
    }

    /// The 32-bit distance an index entry stores; `None` when it does not fit or is negative.
    #[inline]
    pub fn relative_to(self, base: Offset) -> Option<u32> {
        u32::try_from(self.checked_since(base)?).ok()
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}

/// Byte position in one file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FilePosition(u64);

impl FilePosition {
    pub const ZERO: FilePosition = FilePosition(0);

    #[inline]
    pub const fn new(bytes: u64) -> FilePosition {
        FilePosition(bytes)
    }

    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// `self + bytes`, or `None` past the largest file (2^63 - 1 bytes).
    #[inline]
    pub const fn checked_add(self, bytes: u64) -> Option<FilePosition> {
        match self.0.checked_add(bytes) {
            Some(sum) if sum <= i64::MAX as u64 => Some(FilePosition(sum)),
            _ => None,
        }
    }

    /// `self + bytes`.
    ///
    /// # Panics
    /// Past the largest file the kernel knows; our files are bounded far below.
    #[inline]
    #[track_caller]
    pub const fn add(self, bytes: u64) -> FilePosition {
        match self.checked_add(bytes) {
            Some(position) => position,
            None => panic!("file position overflow"),
        }
    }

    /// `self + len` for a length in memory.
    ///
    /// # Panics
    /// As [`FilePosition::add`].
    #[inline]
    #[track_caller]
    pub const fn add_len(self, len: usize) -> FilePosition {
        self.add(bytes_u64(len))
    }

    /// Bytes in `[earlier, self)`.
    ///
    /// # Panics
    /// When `earlier` is behind `self`.
    #[inline]
    #[track_caller]
    pub fn since(self, earlier: FilePosition) -> u64 {
        match self.0.checked_sub(earlier.0) {
            Some(bytes) => bytes,
            None => panic!("file position {self} lies before {earlier}"),
        }
    }

    /// The start of the block this position lies in.
    #[inline]
    pub const fn block_floor(self) -> FilePosition {
        FilePosition(self.0 - self.0 % limits::BLOCK_BYTES_U64)
    }

    /// The first block boundary at or behind this position.
    ///
    /// # Panics
    /// As [`FilePosition::add`].
    #[inline]
    #[track_caller]
    pub const fn block_ceil(self) -> FilePosition {
        let over = self.0 % limits::BLOCK_BYTES_U64;
        if over == 0 { self } else { self.add(limits::BLOCK_BYTES_U64 - over) }
    }

    /// Bytes between the start of the block this position lies in and the position.
    #[inline]
    pub const fn block_offset(self) -> usize {
        bytes_usize(self.0 % limits::BLOCK_BYTES_U64)
    }

    #[inline]
    pub const fn is_block_aligned(self) -> bool {
        self.0.is_multiple_of(limits::BLOCK_BYTES_U64)
    }

    /// The 32-bit position an index entry stores; `None` when it does not fit.
    #[inline]
    pub fn to_u32(self) -> Option<u32> {
        u32::try_from(self.0).ok()
    }
}

impl From<u32> for FilePosition {
    fn from(bytes: u32) -> FilePosition {
        FilePosition(u64::from(bytes))
    }
}

impl fmt::Display for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for FilePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{}", self.0)
    }
}

/// Milliseconds since 1970-01-01 UTC, as producers and records carry it; -1 means "no timestamp".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimestampMs(i64);

impl TimestampMs {
    /// The wire's value for "this record has no timestamp".
    pub const NONE: TimestampMs = TimestampMs(-1);
    pub const ZERO: TimestampMs = TimestampMs(0);

    #[inline]
    pub const fn new(ms: i64) -> TimestampMs {
        TimestampMs(ms)
    }

    #[inline]
    pub const fn get(self) -> i64 {
        self.0
    }

    #[inline]
    pub const fn is_none(self) -> bool {
        self.0 == Self::NONE.0
    }

    /// `self + ms`, kept within the range of the type: a distance such as "for ever" stays one.
    #[inline]
    pub const fn plus(self, ms: i64) -> TimestampMs {
        TimestampMs(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to `self` (negative when `earlier` is the later one).
    #[inline]
    pub const fn since_ms(self, earlier: TimestampMs) -> i64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for TimestampMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for TimestampMs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_refuses_negative_and_overflow() {
        assert_eq!(Offset::new(-1), None);
        assert_eq!(Offset::new(0), Some(Offset::ZERO));
        assert_eq!(Offset::MAX.checked_add(1), None);
        assert_eq!(Offset::ZERO.checked_add(u64::MAX), None);
        assert_eq!(Offset::at(7).since(Offset::at(3)), 4);
        assert_eq!(Offset::at(3).checked_since(Offset::at(7)), None);
        assert_eq!(Offset::at(1 << 40).relative_to(Offset::ZERO), None);
        assert_eq!(Offset::at(9).relative_to(Offset::at(4)), Some(5));
    }

    #[test]
    fn file_position_rounds_to_blocks() {
        let block = limits::BLOCK_BYTES_U64;
        assert_eq!(FilePosition::new(0).block_ceil(), FilePosition::new(0));
        assert_eq!(FilePosition::new(1).block_ceil(), FilePosition::new(block));
        assert_eq!(FilePosition::new(block).block_ceil(), FilePosition::new(block));
        assert_eq!(FilePosition::new(block + 1).block_floor(), FilePosition::new(block));
        assert_eq!(FilePosition::new(u64::MAX / 2).checked_add(1), None);
    }

    #[test]
    fn timestamp_distance_never_wraps() {
        assert_eq!(TimestampMs::new(5).plus(i64::MAX).get(), i64::MAX);
        assert_eq!(TimestampMs::new(i64::MAX).since_ms(TimestampMs::new(i64::MIN)), i64::MAX);
        assert!(TimestampMs::NONE.is_none());
    }
}
