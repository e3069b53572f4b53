//! Bounds of the ground floor, each with its reason and with what happens when it is reached.
//!
//! Settings that an operator may change are checked against these; the relations between them are
//! proved at compile time.

use crate::units::{bytes_u64, bytes_usize};

/// Unit of direct writes, of journal frames and of index spacing.
///
/// A file system block and a memory page on the machines we run on; any logical block size a disk
/// reports (512 or 4096) divides it.
pub const BLOCK_BYTES: usize = 4096;
/// [`BLOCK_BYTES`] as a file length.
pub const BLOCK_BYTES_U64: u64 = bytes_u64(BLOCK_BYTES);

/// Unit a disk tears at: a write cut by a power loss is whole or missing per sector.
pub const SECTOR_BYTES: usize = 512;

/// Bytes of the header of a version 2 record batch.
pub const BATCH_HEADER_BYTES: usize = 61;

/// Largest record batch this floor handles, whatever a topic allows (`max.message.bytes`).
///
/// Kept at what one request may carry: a larger one cannot arrive, so a larger length in a file is
/// damage. Bigger batches are refused at the door with MESSAGE_TOO_LARGE.
pub const BATCH_BYTES_MAX: usize = 100 * 1024 * 1024;

/// Least bytes a record takes: length, attributes, two deltas, key, value and header count.
pub const RECORD_BYTES_MIN: usize = 7;

/// Most bytes one batch may decompress to before deep validation or a lookup by time gives up.
///
/// The output is streamed, so this bounds time, not memory.
pub const RECORDS_OUTPUT_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Buffer through which the decompressed records of one batch stream.
pub const RECORDS_INPUT_BYTES: usize = 64 * 1024;

/// Largest block of snappy data: the format decompresses only whole blocks, and some clients put a
/// whole batch in one. A larger one is refused as damaged.
pub const SNAPPY_BLOCK_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes a byte of snappy data can stand for at most: an element of 3 bytes copies 64.
pub const SNAPPY_RATIO_MAX: usize = 22;

/// Largest window of zstd data, as a power of two: what every consumer's library accepts unasked, and
/// what the highest levels of producers declare. Memory is touched only as far as the output goes.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// Largest segment file: positions in an index are 32 bits, and Kafka's `segment.bytes` is an i32.
pub const SEGMENT_BYTES_MAX: u64 = 0x7fff_ffff;

/// One sparse index entry is written for about so many bytes of log (`index.interval.bytes`).
pub const INDEX_INTERVAL_BYTES: u64 = BLOCK_BYTES_U64;

/// Space kept for the small writes by which records are deleted on a full disk: a manifest and,
/// at the worst, the directories above it. Where it is gone too, the deletion is refused.
pub const RESERVE_BYTES: u64 = 32 * BLOCK_BYTES_U64;

/// Bytes of one entry of a `.index` file.
pub const INDEX_ENTRY_BYTES: usize = 8;
/// Bytes of one entry of a `.timeindex` file.
pub const TIME_INDEX_ENTRY_BYTES: usize = 12;

/// Most entries of a sparse index: one for each interval of the largest segment.
pub const INDEX_ENTRIES_MAX: usize = bytes_usize(SEGMENT_BYTES_MAX / INDEX_INTERVAL_BYTES) + 1;

/// Size of one journal file. Preallocated, and recycled for as long as the broker runs.
pub const JOURNAL_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Size of one journal file on a disk with little space. Holds several runs of [`DIRECT_RUN_BYTES`].
pub const JOURNAL_FILE_BYTES_MIN: u64 = 1024 * 1024;

/// A round that reaches a part of a journal file that was never written first fills what lies behind
/// its frame with zeros, up to the next multiple of this. Writing to reserved space changes what the file
/// system knows of it, which the write has to make durable too: the first round here pays for those
/// that follow.
pub const JOURNAL_BLANK_BYTES: u64 = 256 * 1024;

/// Most journal files of one shard. When all are held back, appends wait (back-pressure) and the
/// checkpointer frees the oldest.
pub const JOURNAL_FILES_MAX: usize = 8;

/// Largest frame of one commit round, header and padding included. What does not fit waits for the
/// next round.
pub const JOURNAL_FRAME_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A run of one partition in one round from this size on skips the journal: its full blocks go
/// straight to its segment, so that big batches are not written twice.
pub const DIRECT_RUN_BYTES: usize = 128 * 1024;

/// Write-behind starts for a partition that has so many bytes only in the journal and in memory.
pub const WRITE_BEHIND_BYTES: u64 = 256 * 1024;

/// A segment is checkpointed (synced, its indexes and the recovery checkpoint written) each so many
/// bytes, which bounds what a restart after a crash has to scan.
pub const CHECKPOINT_BYTES: u64 = 64 * 1024 * 1024;

/// Largest small state file (manifest, checkpoints, snapshots, `meta.properties`). A larger one is
/// damage and is not read into memory.
pub const STATE_FILE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Piece size of sequential reads: recovery scans, verification, copies.
pub const SCAN_CHUNK_BYTES: usize = 1024 * 1024;

/// Bytes that a helper thread reads of a file with one system call. Kernels that are built for servers
/// do not take the CPU from a thread within one, and the core that shares it waits that long.
pub const READ_PIECE_BYTES: usize = 32 * 1024;

/// Bytes that a helper thread has the system begin to read with one call; see [`READ_PIECE_BYTES`].
/// Smaller ones would be smaller requests to the device.
pub const READ_AHEAD_PIECE_BYTES: u64 = 256 * 1024;

/// How far behind damage recovery looks for valid batches before it calls the rest a torn tail.
///
/// A crash tears at most what was not yet synced: one checkpoint interval and one largest batch.
pub const DAMAGE_SEARCH_BYTES_MAX: u64 = SEGMENT_BYTES_MAX;

const _: () = {
    assert!(BLOCK_BYTES.is_power_of_two());
    assert!(BLOCK_BYTES.is_multiple_of(SECTOR_BYTES), "a block is whole sectors");
    assert!(JOURNAL_FILE_BYTES.is_multiple_of(BLOCK_BYTES_U64), "journal files are whole blocks");
    assert!(JOURNAL_FRAME_BYTES_MAX.is_multiple_of(BLOCK_BYTES), "frames are whole blocks");
    assert!(bytes_u64(JOURNAL_FRAME_BYTES_MAX) * 2 <= JOURNAL_FILE_BYTES, "two frames fit a file");
    assert!(JOURNAL_FILE_BYTES_MIN.is_multiple_of(BLOCK_BYTES_U64));
    assert!(bytes_u64(DIRECT_RUN_BYTES) * 4 <= JOURNAL_FILE_BYTES_MIN, "a small file bundles runs");
    assert!(JOURNAL_FILES_MAX >= 3, "one filling, one full, one being freed");
    assert!(DIRECT_RUN_BYTES.is_multiple_of(BLOCK_BYTES));
    assert!(DIRECT_RUN_BYTES * 4 <= JOURNAL_FRAME_BYTES_MAX, "a frame bundles many runs");
    assert!(bytes_u64(BATCH_BYTES_MAX) < SEGMENT_BYTES_MAX, "a batch fits a segment");
    assert!(SEGMENT_BYTES_MAX <= u32::MAX as u64, "index positions are 32 bits");
    assert!(INDEX_ENTRIES_MAX * INDEX_ENTRY_BYTES <= STATE_FILE_BYTES_MAX);
    assert!(SCAN_CHUNK_BYTES.is_multiple_of(BLOCK_BYTES));
    assert!(SCAN_CHUNK_BYTES > BATCH_HEADER_BYTES);
    assert!(CHECKPOINT_BYTES <= SEGMENT_BYTES_MAX);
};
