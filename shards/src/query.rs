//! Questions about a partition that move no records: offsets by time, ends of epochs, producers,
//! sizes.

use std::fmt;
use std::path::PathBuf;

use millstream_io::units::{
    LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs, TopicPartition,
};

use crate::message::Isolation;
use crate::watermarks::Marks;

/// Which offset of one partition is asked for (the ListOffsets API).
#[derive(Clone, Copy, Debug)]
pub struct OffsetQuery {
    pub at: TopicPartition,
    pub current: Option<LeaderEpoch>,
    pub isolation: Isolation,
    pub spec: OffsetSpec,
}

/// What the offset is sought by. The wire's negative timestamps have names here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetSpec {
    /// -2: the log start.
    Earliest,
    /// -1: the HighWatermark, or the LastStableOffset for a reader of committed records.
    Latest,
    /// The first record whose timestamp is at or behind this one.
    Timestamp(TimestampMs),
    /// -3: the first record that carries the largest timestamp (KIP-734).
    MaxTimestamp,
    /// -4: the first offset on this machine's own disk; without tiers the log start (KIP-405).
    EarliestLocal,
    /// -5: the last offset in another tier; without tiers there is none (KIP-1005).
    LatestTiered,
    /// -6: the first offset that waits for another tier; without tiers there is none (KIP-1023).
    EarliestPendingUpload,
}

/// The answer to an [`OffsetQuery`]; all `None` when no record fits (the wire's -1, no error).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffsetFound {
    pub offset: Option<Offset>,
    /// Timestamp of the record, for the two kinds of question about time.
    pub timestamp: Option<TimestampMs>,
    /// Leader epoch of the record at the offset, or of the log's end.
    pub epoch: Option<LeaderEpoch>,
}

/// Where an epoch ends in the log (the OffsetForLeaderEpoch API).
#[derive(Clone, Copy, Debug)]
pub struct EpochQuery {
    pub at: TopicPartition,
    pub current: Option<LeaderEpoch>,
    pub epoch: LeaderEpoch,
}

/// A producer that the partition remembers (the DescribeProducers API).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveProducer {
    pub id: ProducerId,
    pub epoch: ProducerEpoch,
    pub last_sequence: Option<Sequence>,
    pub last_timestamp: TimestampMs,
    /// Of the last marker of a transaction of the producer, if there was one.
    pub coordinator_epoch: Option<i32>,
    /// First offset of the transaction the producer has open, if any.
    pub transaction_start: Option<Offset>,
}

/// Bytes a partition takes (the DescribeLogDirs API).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionSize {
    pub at: TopicPartition,
    /// Bytes of log from the log start to the log end, those still in memory and journal included.
    pub bytes: u64,
}

/// How far a partition has come, and the bytes it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionMarks {
    pub at: TopicPartition,
    pub marks: Marks,
    /// As in [`PartitionSize`].
    pub bytes: u64,
}

/// A piece of a walk over the partitions of one shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarksPiece {
    pub partitions: Vec<PartitionMarks>,
    /// Where the next piece begins; `None` behind the last.
    pub next: Option<u32>,
}

/// Why a question about a partition has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryError {
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
    /// The batch that holds the answer is damaged on disk.
    Corrupt {
        at: TopicPartition,
        offset: Offset,
    },
    /// The file system failed a read.
    Storage {
        at: TopicPartition,
        path: PathBuf,
        reason: String,
    },
    Stopping,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueryError::UnknownPartition { at } => {
                write!(f, "partition {at} is not known here; refresh the metadata")
            }
            QueryError::FencedEpoch { at, current, got } => write!(
                f,
                "leader epoch {got} for {at} is older than the partition's {current}; refresh the metadata"
            ),
            QueryError::UnknownEpoch { at, current, got } => write!(
                f,
                "leader epoch {got} for {at} is newer than the partition's {current}; try again"
            ),
            QueryError::Corrupt { at, offset } => {
                write!(f, "the batch at offset {offset} of {at} is damaged on disk")
            }
            QueryError::Storage { at, path, reason } => {
                write!(f, "reading {} for {at} failed: {reason}", path.display())
            }
            QueryError::Stopping => f.write_str("the broker is stopping; retry elsewhere or later"),
        }
    }
}

impl std::error::Error for QueryError {}
