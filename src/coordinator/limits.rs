//! Bounds of every coordinator.

/// Bytes that one read of a load asks for.
pub const LOAD_READ_BYTES: u64 = 1 << 20;

/// Most bytes of records in one append, where the topic's `max.message.bytes` allows as much. What
/// one request wants stored goes into one batch, so this also bounds a request.
pub const APPEND_BYTES_MAX: usize = 8 << 20;

/// What a batch has besides its records, and room to spare.
pub const BATCH_OVERHEAD: usize = 1024;

/// `max.message.bytes` of an internal topic as we make it.
pub const MESSAGE_BYTES_MAX: usize = APPEND_BYTES_MAX + BATCH_OVERHEAD;

/// Most bytes of records in one batch of a compaction, unless one record is larger: to sum it up takes
/// less than a millisecond.
pub const SAY_AGAIN_BYTES_MAX: usize = 1 << 20;

/// Records that wait to be appended to one partition; more requests are told
/// COORDINATOR_NOT_AVAILABLE.
pub const QUEUED_BYTES_MAX: usize = 64 << 20;

/// A partition's log is compacted when it has grown by this, and by twice what would stay.
pub const COMPACT_BYTES_MIN: u64 = 16 << 20;

/// Pause before a partition that could not be loaded is tried again.
pub const LOAD_AGAIN_MS: u64 = 500;
