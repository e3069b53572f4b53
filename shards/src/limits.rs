//! Bounds of what one core owns, each with its reason and with what happens when it is reached.

/// Batches remembered of each idempotent producer: what its client may have in flight (KIP-98).
/// An older retry is out of order.
pub const PRODUCER_BATCHES_KEPT: usize = 5;

/// Producers one partition remembers. The longest silent are forgotten beyond that.
pub const PRODUCERS_PER_PARTITION_MAX: usize = 50_000;
