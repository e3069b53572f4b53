//! Why a batch is refused at the door.

use std::fmt;

/// One variant a cause, with what was found. Kafka's code for each is chosen by the API layer; the
/// comment names the one that Apache Kafka answers with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BatchError {
    /// The records field is missing, null or empty. (INVALID_RECORD)
    Empty,
    /// The batch says it is longer than the field that holds it. (INVALID_RECORD)
    Truncated { needed: usize, got: usize },
    /// Shorter than the header of its format. (CORRUPT_MESSAGE)
    TooShort { total: usize },
    /// The length field is negative or so small that no format fits. (CORRUPT_MESSAGE)
    Length { length: i32 },
    /// Message format 0 or 1, which is refused and never stored. (INVALID_RECORD)
    OldMagic { magic: u8 },
    /// No format of this number exists. (CORRUPT_MESSAGE)
    UnknownMagic { magic: u8 },
    /// More bytes behind the batch: a second batch, or rubbish. (INVALID_RECORD)
    MoreThanOne { extra: usize },
    /// The bytes are not those that the producer summed up. (CORRUPT_MESSAGE)
    Crc { stored: u32, computed: u32 },
    /// Codec bits 5 to 7. (Apache answers UNKNOWN_SERVER_ERROR)
    UnknownCodec { codec: u8 },
    /// Attribute bits that are not a producer's to set. (INVALID_RECORD)
    Attributes { bits: u16 },
    /// A producer's batch whose base offset is not 0. (INVALID_RECORD)
    BaseOffset { base_offset: i64 },
    /// No record, or fewer. (INVALID_RECORD)
    Count { count: i32 },
    /// Count and last offset delta do not agree. (INVALID_RECORD)
    CountMismatch { count: i32, last_offset_delta: i32 },
    /// More records than the uncompressed bytes could hold. (INVALID_RECORD)
    CountImpossible { count: i32, payload: usize },
    /// A control batch from outside. (INVALID_RECORD)
    Control,
    /// Stamped LogAppendTime by a producer. (INVALID_TIMESTAMP)
    LogAppendTime,
    /// A producer id below -1, or a real one with a negative epoch. (INVALID_RECORD)
    Producer { id: i64, epoch: i16 },
    /// A real producer id with a negative sequence. (INVALID_RECORD)
    Sequence { sequence: i32 },
    /// Transactional, but without a producer id. (INVALID_RECORD)
    TransactionalWithoutProducer,
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            BatchError::Empty => f.write_str("no record batch"),
            BatchError::Truncated { needed, got } => {
                write!(f, "the batch needs {needed} bytes and {got} came")
            }
            BatchError::TooShort { total } => {
                write!(f, "a batch of {total} bytes is shorter than its header")
            }
            BatchError::Length { length } => write!(f, "batch length {length} is impossible"),
            BatchError::OldMagic { magic } => {
                write!(f, "message format {magic} is not supported; use format 2 (client 0.11 on)")
            }
            BatchError::UnknownMagic { magic } => write!(f, "message format {magic} is unknown"),
            BatchError::MoreThanOne { extra } => {
                write!(f, "{extra} bytes behind the batch; send exactly one batch a partition")
            }
            BatchError::Crc { stored, computed } => {
                write!(f, "CRC-32C is {computed:08x} and the batch says {stored:08x}")
            }
            BatchError::UnknownCodec { codec } => write!(f, "compression codec {codec} is unknown"),
            BatchError::Attributes { bits } => {
                write!(f, "attribute bits {bits:#06x} are not a producer's to set")
            }
            BatchError::BaseOffset { base_offset } => {
                write!(f, "base offset is {base_offset}; a producer's batch starts at 0")
            }
            BatchError::Count { count } => write!(f, "the batch says it has {count} records"),
            BatchError::CountMismatch { count, last_offset_delta } => {
                write!(f, "{count} records do not fit a last offset delta of {last_offset_delta}")
            }
            BatchError::CountImpossible { count, payload } => {
                write!(f, "{count} records cannot be in {payload} bytes")
            }
            BatchError::Control => f.write_str("a producer may not write control batches"),
            BatchError::LogAppendTime => {
                f.write_str("a producer may not set the timestamp type to LogAppendTime")
            }
            BatchError::Producer { id, epoch } => {
                write!(f, "producer id {id} with epoch {epoch} is impossible")
            }
            BatchError::Sequence { sequence } => {
                write!(f, "base sequence {sequence} is negative though a producer id is set")
            }
            BatchError::TransactionalWithoutProducer => {
                f.write_str("a transactional batch needs a producer id")
            }
        }
    }
}

impl std::error::Error for BatchError {}
