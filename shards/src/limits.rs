//! Bounds of what one core owns, each with its reason and with what happens when it is reached.

use millstream_io::limits::BLOCK_BYTES;
use millstream_io::units::bytes_u64;

/// Batches remembered of each idempotent producer: what its client may have in flight (KIP-98).
/// An older retry is out of order.
pub const PRODUCER_BATCHES_KEPT: usize = 5;

/// Producers one partition remembers. The longest silent are forgotten beyond that.
pub const PRODUCERS_PER_PARTITION_MAX: usize = 50_000;

/// Smallest open chunk of a partition's tail: what a partition with a few records costs.
pub const TAIL_CHUNK_BYTES_MIN: usize = 4 * 1024;

/// Largest open chunk of a partition's tail, unless a single batch needs more.
pub const TAIL_CHUNK_BYTES_MAX: usize = 1024 * 1024;

const _: () = assert!(TAIL_CHUNK_BYTES_MIN <= TAIL_CHUNK_BYTES_MAX);

/// Fetches that may wait on one partition. One more is answered at once with what there is.
pub const WAITS_PER_PARTITION_MAX: usize = 10_000;

/// Largest single write to a segment file.
pub const WRITE_PIECE_BYTES: usize = 1024 * 1024;

/// Staged bytes of one partition from which a round writes them straight to the segment.
pub const DIRECT_RUN_BYTES: u64 = bytes_u64(millstream_io::limits::DIRECT_RUN_BYTES);

const _: () = assert!(WRITE_PIECE_BYTES.is_multiple_of(BLOCK_BYTES));
