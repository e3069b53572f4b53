//! What crosses the boundary of a shard to add records to a log, and to read them back.
//!
//! All types here are plain and owned, so that they may travel between cores. The questions about
//! a log that move no records are in [`crate::query`].

mod transaction;

pub use transaction::{
    InvalidTxnState, Marker, Outcome, TransactionQuery, TransactionState, VerificationGuard,
};

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use millstream_io::batch::{CheckedBatch, TimestampType};
use millstream_io::disk::{DiskErrorKind, DiskFile};
use millstream_io::net::residency::is_resident;
use millstream_io::units::{
    FilePosition, LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs, TopicId,
    TopicPartition,
};

/// One record batch for one partition, checked by the door (length, magic, CRC, count).
///
/// Made on the connection's core, consumed on the owner's core, where its bytes are copied once.
#[derive(Debug)]
pub struct Append {
    pub at: TopicPartition,
    /// The leader epoch the client believes in; `None` is not checked (KIP-320).
    pub current: Option<LeaderEpoch>,
    pub batch: CheckedBatch,
    /// For a transactional batch: the guard that the partition gave out, when it said
    /// [`TransactionState::Unverified`]. A client's batch without one is taken only while its
    /// transaction is open; one of a coordinator of ours is taken, since the coordinator itself
    /// keeps batches and markers in order.
    pub transaction: Option<VerificationGuard>,
    /// The door's clock when the request was read: judges timestamps, stamps LogAppendTime, ages
    /// the segment. The owner reads no clock of its own for an append.
    pub now: TimestampMs,
}

/// Where a batch went. It is on stable storage when this is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the first record. For a retried batch of an idempotent producer this is the
    /// offset of the original (the retry was not stored again).
    pub base_offset: Offset,
    /// The broker's timestamp when the topic uses LogAppendTime.
    pub log_append_time: Option<TimestampMs>,
    pub log_start: Offset,
}

/// Why a batch was not stored. Nothing of it is visible, or ever becomes visible, except under
/// [`AppendError::Storage`] and [`AppendError::Stalled`], where the outcome is open: the device may
/// or may not have kept it (an idempotent producer's retry finds out).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppendError {
    /// This core does not own, or does not know, such a partition.
    UnknownPartition { at: TopicPartition },
    /// The client's epoch is older than the partition's.
    FencedEpoch { at: TopicPartition, current: LeaderEpoch, got: LeaderEpoch },
    /// The client's epoch is newer than the partition's.
    UnknownEpoch { at: TopicPartition, current: LeaderEpoch, got: LeaderEpoch },
    /// The batch does not continue its producer's stream (KIP-98).
    OutOfOrderSequence {
        at: TopicPartition,
        producer: ProducerId,
        expected: Sequence,
        got: Sequence,
    },
    /// The producer id was taken over by a newer incarnation.
    InvalidProducerEpoch {
        at: TopicPartition,
        producer: ProducerId,
        current: ProducerEpoch,
        got: ProducerEpoch,
    },
    /// The batch does not fit the state of its producer's transactions here.
    InvalidTxnState { at: TopicPartition, producer: ProducerId, reason: InvalidTxnState },
    /// A newer coordinator has written a marker of this producer before.
    TransactionCoordinatorFenced {
        at: TopicPartition,
        producer: ProducerId,
        current: i32,
        got: i32,
    },
    /// The partition can remember no more transactions, open or aborted. An aborted one is
    /// remembered until its records are deleted.
    TooManyTransactions { at: TopicPartition, limit: usize },
    /// Larger than the topic's `max.message.bytes`.
    TooLarge { at: TopicPartition, limit: u64, got: u64 },
    /// Larger than the topic's `segment.bytes`, so no segment could hold it.
    LargerThanSegment { at: TopicPartition, limit: u64, got: u64 },
    /// The batch is well formed and still may not be stored.
    InvalidRecord { at: TopicPartition, reason: InvalidRecord },
    /// A timestamp outside of `message.timestamp.before.max.ms` / `after.max.ms`.
    InvalidTimestamp { at: TopicPartition, now: TimestampMs, got: TimestampMs },
    /// The data directory failed a write or a sync; it takes no more until the broker is restarted.
    Storage { directory: Arc<PathBuf>, cause: DiskErrorKind },
    /// No space left. Appends work again by themselves once there is.
    DiskFull { directory: Arc<PathBuf> },
    /// The device has not finished a flush within the watchdog's time.
    Stalled { since_ms: u64 },
    /// This core is stopping and takes no more appends.
    Stopping,
}

/// What is wrong with a batch whose bytes are whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidRecord {
    /// Only the broker writes control batches.
    ControlBatch,
    /// The offsets of the partition are used up.
    OffsetsExhausted,
}

impl fmt::Display for AppendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AppendError::UnknownPartition { at } => {
                write!(f, "partition {at} is not known here; refresh the metadata")
            }
            AppendError::FencedEpoch { at, current, got } => write!(
                f,
                "leader epoch {got} for {at} is older than the partition's {current}; refresh the metadata"
            ),
            AppendError::UnknownEpoch { at, current, got } => write!(
                f,
                "leader epoch {got} for {at} is newer than the partition's {current}; try again"
            ),
            AppendError::OutOfOrderSequence { at, producer, expected, got } => write!(
                f,
                "producer {producer} sent sequence {got} to {at} where {expected} comes next"
            ),
            AppendError::InvalidProducerEpoch { at, producer, current, got } => write!(
                f,
                "producer {producer} of epoch {got} was fenced on {at} by epoch {current}"
            ),
            AppendError::InvalidTxnState { at, producer, reason } => {
                write!(f, "a batch of producer {producer} for {at} was refused: {reason}")
            }
            AppendError::TransactionCoordinatorFenced { at, producer, current, got } => write!(
                f,
                "a marker of producer {producer} for {at} comes from coordinator epoch {got}, and epoch {current} has written one"
            ),
            AppendError::TooManyTransactions { at, limit } => write!(
                f,
                "partition {at} remembers {limit} transactions, its limit; end transactions, or delete records of aborted ones"
            ),
            AppendError::TooLarge { at, limit, got } => write!(
                f,
                "a batch of {got} bytes for {at} is over max.message.bytes={limit}; send smaller batches or raise the limit"
            ),
            AppendError::LargerThanSegment { at, limit, got } => write!(
                f,
                "a batch of {got} bytes for {at} fits no segment of segment.bytes={limit}; raise segment.bytes"
            ),
            AppendError::InvalidRecord { at, reason } => {
                write!(f, "a batch for {at} was refused: {reason}")
            }
            AppendError::InvalidTimestamp { at, now, got } => write!(
                f,
                "timestamp {got} in a batch for {at} is too far from the broker's {now} (message.timestamp.before.max.ms, message.timestamp.after.max.ms)"
            ),
            AppendError::Storage { directory, cause } => write!(
                f,
                "data directory {} takes no writes until it is repaired and the broker is restarted: {cause}",
                directory.display()
            ),
            AppendError::DiskFull { directory } => write!(
                f,
                "no space left in data directory {}; free space and retry",
                directory.display()
            ),
            AppendError::Stalled { since_ms } => {
                write!(f, "the device has not finished a flush for {since_ms} ms; retry")
            }
            AppendError::Stopping => {
                f.write_str("the broker is stopping; retry elsewhere or later")
            }
        }
    }
}

impl std::error::Error for AppendError {}

impl fmt::Display for InvalidRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InvalidRecord::ControlBatch => "clients may not write control batches",
            InvalidRecord::OffsetsExhausted => "the partition has no offsets left",
        })
    }
}

/// How far a reader may see (KIP-98 `isolation_level`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Up to the HighWatermark.
    #[default]
    ReadUncommitted,
    /// Up to the LastStableOffset.
    ReadCommitted,
}

/// One partition to read from.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    pub at: TopicPartition,
    /// The batch that holds this offset is served first, whole.
    pub offset: Offset,
    /// Bytes this partition may give, apart from the first-batch rule of [`ReadLimits`].
    pub bytes_max: u64,
    pub current: Option<LeaderEpoch>,
    /// Epoch of the last record the client has seen, to notice a truncated log (KIP-595);
    /// answered through [`ReadPlan::diverging`].
    pub last_fetched: Option<LeaderEpoch>,
}

/// What one request may get in all.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    /// Bytes over all partitions together. The first batch of the first partition that has one is
    /// given whole even when it is larger (KIP-74).
    pub bytes_max: u64,
    pub isolation: Isolation,
}

/// What to send for one partition: owned, so that the door can send it long after the owner has
/// moved on. Bytes in memory are shared by reference count; file ranges lie wholly below what is
/// durable and are never written again.
#[derive(Clone, Debug, Default)]
pub struct ReadPlan {
    /// Whole batches, in offset order. Empty when nothing is there to read.
    pub chunks: Vec<Chunk>,
    pub high_watermark: Offset,
    pub last_stable_offset: Offset,
    pub log_start: Offset,
    /// Aborted transactions that overlap the chunks, by first offset; `None` under
    /// [`Isolation::ReadUncommitted`].
    pub aborted: Option<Vec<Aborted>>,
    /// Where the client's log left ours, when `last_fetched` showed that it did.
    pub diverging: Option<EpochEnd>,
    /// How much was readable when this plan was made: give it to a [`Want`] to wait for more.
    pub readable_end: ReadableEnd,
    /// The first batch was given although it is larger than the limits.
    pub over_limit: bool,
}

impl ReadPlan {
    /// Bytes of all chunks.
    pub fn bytes(&self) -> u64 {
        self.chunks.iter().map(Chunk::len).sum()
    }
}

/// One contiguous piece of a read.
#[derive(Clone)]
pub enum Chunk {
    /// From the tail of the log, in memory.
    Memory(Bytes),
    /// A range of a segment file. Ask for residency before `sendfile`.
    File { file: Arc<OpenSegment>, position: FilePosition, len: u64 },
}

impl Chunk {
    /// Bytes in this chunk.
    pub fn len(&self) -> u64 {
        match self {
            Chunk::Memory(bytes) => millstream_io::units::bytes_u64(bytes.len()),
            Chunk::File { len, .. } => *len,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Chunk::Memory(bytes) => write!(f, "Memory({} bytes)", bytes.len()),
            Chunk::File { position, len, .. } => write!(f, "File({position} + {len} bytes)"),
        }
    }
}

/// A segment file that is open to read, kept open for as long as somebody reads from it, even when
/// the segment is deleted meanwhile.
pub struct OpenSegment {
    file: Box<dyn DiskFile>,
}

impl OpenSegment {
    pub fn new(file: impl DiskFile) -> OpenSegment {
        OpenSegment { file: Box::new(file) }
    }

    pub fn file(&self) -> &dyn DiskFile {
        &*self.file
    }

    /// All of `[start, end)` is in the page cache, if it has one. False when the kernel cannot tell.
    pub fn is_resident(&self, start: FilePosition, end: FilePosition) -> bool {
        let (at, len) = (start.get(), end.since(start));
        self.file.descriptor().is_none_or(|descriptor| is_resident(descriptor, at, len))
    }
}

impl AsFd for OpenSegment {
    /// # Panics
    /// On a simulated disk, whose files the kernel does not know.
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self.file.descriptor() {
            Some(descriptor) => descriptor,
            None => panic!("{} is no file of the kernel", self.file.path().display()),
        }
    }
}

impl fmt::Debug for OpenSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenSegment({})", self.file.path().display())
    }
}

/// One aborted transaction of a partition (KIP-98): its records lie in `[first_offset, ..]` up to
/// its abort marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aborted {
    pub producer: ProducerId,
    pub first_offset: Offset,
}

/// The end of an epoch in our log: the offset at which the next epoch starts, or the log's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEnd {
    pub epoch: LeaderEpoch,
    pub end: Offset,
}

/// Why a partition could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    UnknownPartition {
        at: TopicPartition,
    },
    FencedEpoch {
        at: TopicPartition,
        current: LeaderEpoch,
        got: LeaderEpoch,
    },
    UnknownEpoch {
        at: TopicPartition,
        current: LeaderEpoch,
        got: LeaderEpoch,
    },
    /// Below the log start or above the log end.
    OffsetOutOfRange {
        at: TopicPartition,
        got: Offset,
        log_start: Offset,
        log_end: Offset,
    },
    /// The batch that holds the offset is damaged on disk. Offsets from `readable_from` on are
    /// sound again.
    Corrupt {
        at: TopicPartition,
        offset: Offset,
        readable_from: Option<Offset>,
    },
    /// The file system failed the read.
    Storage {
        at: TopicPartition,
        path: PathBuf,
        reason: String,
    },
    /// No descriptor was free to open a segment with; try again.
    TooManyFiles {
        at: TopicPartition,
    },
    Stopping,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::UnknownPartition { at } => {
                write!(f, "partition {at} is not known here; refresh the metadata")
            }
            ReadError::FencedEpoch { at, current, got } => write!(
                f,
                "leader epoch {got} for {at} is older than the partition's {current}; refresh the metadata"
            ),
            ReadError::UnknownEpoch { at, current, got } => write!(
                f,
                "leader epoch {got} for {at} is newer than the partition's {current}; try again"
            ),
            ReadError::OffsetOutOfRange { at, got, log_start, log_end } => write!(
                f,
                "offset {got} of {at} lies outside of its log, which holds {log_start} up to {log_end}"
            ),
            ReadError::Corrupt { at, offset, readable_from: Some(next) } => write!(
                f,
                "the batch at offset {offset} of {at} is damaged on disk; reading works again from offset {next}"
            ),
            ReadError::Corrupt { at, offset, readable_from: None } => {
                write!(f, "the batch at offset {offset} of {at} is damaged on disk")
            }
            ReadError::Storage { at, path, reason } => {
                write!(f, "reading {} for {at} failed: {reason}", path.display())
            }
            ReadError::TooManyFiles { at } => write!(
                f,
                "no file descriptor is free to read {at}; retry, or raise the limit on open files"
            ),
            ReadError::Stopping => f.write_str("the broker is stopping; retry elsewhere or later"),
        }
    }
}

impl std::error::Error for ReadError {}

/// How much of a partition was readable at one moment, in bytes since its log was opened: only the
/// difference between two of the same partition means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ReadableEnd(pub(crate) u64);

/// One partition a long poll waits on, with what its last plan saw.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    pub at: TopicPartition,
    pub isolation: Isolation,
    pub seen: ReadableEnd,
}

/// Why a wait for more bytes ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// At least the wanted bytes more are readable.
    Bytes,
    /// A partition went away, changed its leader or lost its storage: read again to learn which.
    Changed,
    /// The time was over first.
    Deadline,
}

/// A partition to make, or to take over, on its shard.
#[derive(Clone, Debug)]
pub struct OpenPartition {
    pub at: TopicPartition,
    /// Names the partition's directory; the topic id decides whose it is.
    pub topic_name: Arc<str>,
    /// Epoch under which this broker leads the partition from now on; never below a former one.
    pub epoch: LeaderEpoch,
    pub config: PartitionConfig,
}

/// The topic's settings that a partition acts on; times in milliseconds, sizes in bytes. Kafka's
/// names with the unit last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionConfig {
    /// `segment.bytes`: a segment is closed before it would grow past this.
    pub segment_bytes: u64,
    /// `segment.ms`: a segment whose first record is older than this is closed by the next append.
    pub segment_ms: u64,
    /// `segment.jitter.ms`: the most that is taken off that, by chance.
    pub segment_jitter_ms: u64,
    /// `segment.index.bytes`: a segment is closed when its index would grow past this.
    pub segment_index_bytes: u64,
    /// `max.message.bytes`: largest batch as stored.
    pub message_bytes_max: u64,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`.
    pub timestamp_before_max_ms: u64,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: u64,
    /// `retention.ms`: segments whose records are all older go; `None` keeps them.
    pub retention_ms: Option<u64>,
    /// `retention.bytes`: the oldest segments go while this much is left; `None` keeps them.
    pub retention_bytes: Option<u64>,
    /// `file.delete.delay.ms`: how long the files of deleted segments stay, out of everybody's way.
    pub file_delete_delay_ms: u64,
    /// `cleanup.policy` says that the topic is compacted.
    pub compaction: Option<Compaction>,
}

/// How a compacted topic is cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compaction {
    /// `min.cleanable.dirty.ratio` in millionths.
    pub min_cleanable_ppm: u32,
    /// `min.compaction.lag.ms`: a younger record is never replaced by a newer one.
    pub min_lag_ms: u64,
    /// `max.compaction.lag.ms`: an older one makes its partition due, however little is dirty.
    pub max_lag_ms: u64,
    /// `delete.retention.ms`: how long a tombstone can be read after a cleaning met it first.
    pub delete_retention_ms: i64,
}

impl Default for PartitionConfig {
    /// The defaults of Apache Kafka 4, but that nothing is deleted.
    fn default() -> PartitionConfig {
        PartitionConfig {
            segment_bytes: 1 << 30,
            segment_ms: 7 * 24 * 3600 * 1000,
            segment_jitter_ms: 0,
            segment_index_bytes: 10 << 20,
            message_bytes_max: 1_048_588,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX.unsigned_abs(),
            timestamp_after_max_ms: 3600 * 1000,
            retention_ms: None,
            retention_bytes: None,
            file_delete_delay_ms: 0,
            compaction: None,
        }
    }
}

/// Why partitions could not be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The shard holds as many partitions as its limits allow.
    TooManyPartitions {
        limit: usize,
    },
    /// The partition is open under another, or a newer, epoch.
    StaleEpoch {
        at: TopicPartition,
        current: LeaderEpoch,
        got: LeaderEpoch,
    },
    Stopping,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::TooManyPartitions { limit } => write!(
                f,
                "a core already holds {limit} partitions, its limit; delete topics or run with more cores"
            ),
            OpenError::StaleEpoch { at, current, got } => {
                write!(f, "partition {at} is open under leader epoch {current}, and {got} is older")
            }
            OpenError::Stopping => f.write_str("the broker is stopping"),
        }
    }
}

impl std::error::Error for OpenError {}

/// What a topic's deletion found on one shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedTopic {
    pub topic: TopicId,
    pub partitions: usize,
}
