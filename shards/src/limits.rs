//! Bounds of what one core owns, each with its reason and with what happens when it is reached.

use millstream_io::limits::BLOCK_BYTES;
use millstream_io::removal::RemovalPace;
use millstream_io::units::bytes_u64;

/// Batches remembered of each idempotent producer: what its client may have in flight (KIP-98).
/// An older retry is out of order.
pub const PRODUCER_BATCHES_KEPT: usize = 5;

/// Producers one partition remembers. The longest silent are forgotten beyond that.
pub const PRODUCERS_PER_PARTITION_MAX: usize = 50_000;

/// Transactions that one partition holds open: their producers are not forgotten. One more is
/// refused with an error that its client retries.
pub const OPEN_TRANSACTIONS_PER_PARTITION_MAX: usize = 16 * 1024;

const _: () = assert!(OPEN_TRANSACTIONS_PER_PARTITION_MAX * 2 <= PRODUCERS_PER_PARTITION_MAX);

/// Aborted transactions that one partition remembers, until their records are deleted: 32 bytes
/// each. Beyond, no transaction is opened there.
pub const ABORTED_PER_PARTITION_MAX: usize = 1024 * 1024;

/// Guards that one partition has given out and that were not used. Beyond, the oldest is forgotten,
/// and the batch that comes with it is refused.
pub const VERIFICATIONS_PER_PARTITION_MAX: usize = 8 * 1024;

/// Smallest open chunk of a partition's tail: what a partition with a few records costs.
pub const TAIL_CHUNK_BYTES_MIN: usize = 4 * 1024;

/// Largest open chunk of a partition's tail, unless a single batch needs more.
pub const TAIL_CHUNK_BYTES_MAX: usize = 1024 * 1024;

const _: () = assert!(TAIL_CHUNK_BYTES_MIN <= TAIL_CHUNK_BYTES_MAX);

/// Fetches that may wait on one partition. One more is answered at once with what there is.
pub const WAITS_PER_PARTITION_MAX: usize = 10_000;

/// Largest single write to a segment file: 240 pages, each of which may lie anywhere in memory, and devices
/// that take 254 places at a time would need a second request for a mebibyte.
pub const WRITE_PIECE_BYTES: usize = 960 * 1024;

const _: () = assert!(WRITE_PIECE_BYTES.is_multiple_of(BLOCK_BYTES));

/// Partitions one shard holds. More are refused at creation, topic by topic.
pub const PARTITIONS_PER_SHARD_MAX: usize = 50_000;

/// Bounds of one shard that its host's memory sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardLimits {
    /// Bytes staged and not durable: beyond, doors wait before they append.
    pub staged_bytes_max: u64,
    /// Durable bytes in no segment file yet: from half of it on the largest are written, beyond it
    /// doors wait before they append.
    pub unwritten_bytes_max: u64,
    /// Memory of the tails: beyond, the oldest chunks that are in files are given back.
    pub tail_bytes_max: u64,
    /// Staged bytes of one partition from which on a round writes them straight to the segment.
    pub direct_bytes: u64,
    /// Bytes of a partition only in memory and journal, from which on they are written behind.
    pub behind_bytes: u64,
    /// Bytes of log between two checkpoints of a partition: what a crash makes recovery scan.
    pub checkpoint_bytes: u64,
    /// Segment files held open for direct writes, and for readers: the longest unused are closed.
    pub direct_files_max: usize,
    pub read_files_max: usize,
    /// Memory of the indexes of sealed segments: the oldest are given back.
    pub index_bytes_max: u64,
    /// `producer.id.expiration.ms`.
    pub producer_expiry_ms: i64,
    /// Files of deleted segments that are larger are left to the remover, which shortens them in
    /// steps; others are removed in one go.
    pub removed_in_one_max: u64,
}

impl Default for ShardLimits {
    fn default() -> ShardLimits {
        ShardLimits {
            staged_bytes_max: 64 << 20,
            unwritten_bytes_max: 256 << 20,
            tail_bytes_max: 256 << 20,
            direct_bytes: bytes_u64(millstream_io::limits::DIRECT_RUN_BYTES),
            behind_bytes: millstream_io::limits::WRITE_BEHIND_BYTES,
            checkpoint_bytes: millstream_io::limits::CHECKPOINT_BYTES,
            direct_files_max: 128,
            read_files_max: 256,
            index_bytes_max: 32 << 20,
            producer_expiry_ms: 24 * 3600 * 1000,
            removed_in_one_max: RemovalPace::USUAL.step_bytes,
        }
    }
}

/// Writes behind the journal that are planned at once. More partitions wait for the next look.
pub const PLANNED_WRITES_MAX: usize = 64;

/// Partitions whose bytes are given to the segments at once when memory runs short.
pub const PRESSURE_PARTITIONS: usize = 32;

/// Direct writes of one plan that are under way at once.
pub const WRITES_AT_ONCE: usize = 8;

/// Workers behind the journal on one core, each with one partition at a time.
pub const WORKERS: usize = 8;

/// Workers that an ordered stop adds, over all cores: they wait for syncs of small files, which the
/// file system does together.
pub const STOP_WORKERS: usize = 128;

/// Workers that are at deletions at the same time: a request may name thousands of partitions, and
/// what rounds wait for must find a worker.
pub const TRIMS_AT_ONCE: usize = 4;

const _: () = assert!(TRIMS_AT_ONCE < WORKERS);

/// Segments whose files one job removes. The next job of the partition takes the others, so that
/// reads of other partitions come in between on the helper threads.
pub const SEGMENTS_REMOVED_AT_ONCE: usize = 16;

/// Deleted files and directories that wait for the remover. One more is removed at once, in one go.
pub const REMOVALS_WAITING_MAX: usize = 64 * 1024;

/// Deletions of records that wait for the disk on one shard: one request may name every partition.
/// More are refused.
pub const DELETIONS_WAITING_MAX: usize = 2 * PARTITIONS_PER_SHARD_MAX;

/// Partitions that one step of a walk over all of them looks at: some tens of microseconds, behind
/// which the core sees to other things.
pub const MARKS_AT_ONCE: usize = 512;

/// Partitions and segments that one step of retention looks at: some tens of microseconds.
pub const RETAIN_STEPS_AT_ONCE: usize = 1024;

/// Free space from which on a full disk takes appends again.
pub const FREE_BYTES_TO_RESUME: u64 = 4 << 20;
