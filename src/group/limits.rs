//! Bounds of the group coordinator.

/// Requests that wait for a partition to be loaded. More are told COORDINATOR_LOAD_IN_PROGRESS.
pub const WAITING_FOR_LOAD_MAX: usize = 10_000;

/// Groups of one partition, at most. A new one is refused with COORDINATOR_NOT_AVAILABLE.
pub const GROUPS_PER_PARTITION_MAX: usize = 100_000;

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
