//! Positions in a partition's log as one run of bytes, across its segments.

use std::fmt;

use millstream_io::units::bytes_u64;

/// Bytes since the first segment that was there when the log was opened. A record keeps its
/// position for as long as the log is open; a restart counts anew.
///
/// One number orders everything the owner must compare (staged, committed, written, synced),
/// whatever segments lie between.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LogPosition(u64);

impl LogPosition {
    pub const ZERO: LogPosition = LogPosition(0);

    #[inline]
    pub const fn new(bytes: u64) -> LogPosition {
        LogPosition(bytes)
    }

    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// # Panics
    /// Past 2^64 bytes.
    #[inline]
    #[track_caller]
    pub const fn add(self, bytes: u64) -> LogPosition {
        match self.0.checked_add(bytes) {
            Some(sum) => LogPosition(sum),
            None => panic!("log position overflow"),
        }
    }

    /// # Panics
    /// Past 2^64 bytes.
    #[inline]
    #[track_caller]
    pub const fn add_len(self, len: usize) -> LogPosition {
        self.add(bytes_u64(len))
    }

    /// Bytes in `[earlier, self)`.
    ///
    /// # Panics
    /// When `earlier` is behind `self`.
    #[inline]
    #[track_caller]
    pub fn since(self, earlier: LogPosition) -> u64 {
        match self.0.checked_sub(earlier.0) {
            Some(bytes) => bytes,
            None => panic!("log position {self:?} lies before {earlier:?}"),
        }
    }
}

impl fmt::Debug for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "~{}", self.0)
    }
}
