//! Bounds of the transaction coordinator.

/// Longest transactional id: what a record of the log can carry. Longer ones are refused with
/// INVALID_REQUEST.
pub const TRANSACTIONAL_ID_BYTES_MAX: usize = i16::MAX as usize;

/// Transactional ids of one partition, at most. A new one is refused with COORDINATOR_NOT_AVAILABLE.
pub const IDS_PER_PARTITION_MAX: usize = 100_000;

/// Additions of partitions to one transaction that wait for a step of it, at most. Further ones are
/// told CONCURRENT_TRANSACTIONS. Clients have 5 requests in flight; each may ask again meanwhile.
pub const ADDING_MAX: usize = 16;

/// Ids that one step of a walk over all of them looks at: some hundred microseconds at most.
pub const VISITED_AT_ONCE: usize = 512;

/// Transactions of one partition whose markers are written at the same time; further ones wait for
/// one of these to be complete.
pub const COMPLETING_MAX: usize = 256;

/// First and longest pause before a marker that could not be written is tried again.
pub const MARKER_AGAIN_MS: u64 = 20;
pub const MARKER_AGAIN_MS_MAX: u64 = 1000;
