//! Bounds of the group coordinator.

/// Bytes that one read of a load asks for.
pub const LOAD_READ_BYTES: u64 = 1 << 20;

/// Most bytes of records in one append, where the topic's `max.message.bytes` allows as much. What
/// one request wants stored goes into one batch, so this also bounds a commit: a larger one is
/// refused with INVALID_COMMIT_OFFSET_SIZE.
pub const APPEND_BYTES_MAX: usize = 8 << 20;

/// What a batch has besides its records, and room to spare.
pub const BATCH_OVERHEAD: usize = 1024;

/// `max.message.bytes` of the internal topic as we make it: a group of many members is one record.
pub const OFFSETS_MESSAGE_BYTES_MAX: usize = APPEND_BYTES_MAX + BATCH_OVERHEAD;

/// Requests that wait for a partition to be loaded. More are told COORDINATOR_LOAD_IN_PROGRESS.
pub const WAITING_FOR_LOAD_MAX: usize = 10_000;

/// A partition's log is compacted when it has grown by this, and by twice what would stay.
pub const COMPACT_BYTES_MIN: u64 = 16 << 20;

/// Pause before a partition that could not be loaded is tried again.
pub const LOAD_AGAIN_MS: u64 = 500;

/// Groups of one partition, at most. A new one is refused with COORDINATOR_NOT_AVAILABLE.
pub const GROUPS_PER_PARTITION_MAX: usize = 100_000;

/// Records that wait to be appended to one partition; more requests are told
/// COORDINATOR_NOT_AVAILABLE.
pub const QUEUED_BYTES_MAX: usize = 64 << 20;

/// Offsets in open transactions of one partition of the offsets topic. A commit in a transaction
/// that would go past it is refused with COORDINATOR_NOT_AVAILABLE, until some have ended.
pub const PENDING_OFFSETS_MAX: usize = 1_000_000;

/// Entries that one partition writes at once: each may be a batch of its own, or a marker.
pub const ROUND_PARTS_MAX: usize = 1024;

/// Producers of one partition whose transactions are being verified. The one that began longest ago
/// is forgotten for a further one; its commit is refused with INVALID_TXN_STATE.
pub const VERIFYING_MAX: usize = 10_000;

/// Groups and committed offsets that one step of a walk over all groups looks at, when it may forget
/// them: some hundred microseconds if it forgets them all. A group is looked at as a whole.
pub const VISITED_AT_ONCE: usize = 256;
