//! The version 2 record batch (Kafka message format v2, KIP-98): what producers send, what the log
//! stores, what consumers get. The bytes are the same in all three places.
//!
//! ```text
//!  at  bytes  field                 covered by the CRC
//!   0    8    base offset           no   stamped by the owner of the partition
//!   8    4    batch length          no   bytes behind this field
//!  12    4    partition leader epoch no  stamped by the owner of the partition
//!  16    1    magic = 2             no
//!  17    4    CRC-32C               -    over everything from 21 to the end
//!  21    2    attributes            yes  bits 0-2 codec, 3 LogAppendTime, 4 transactional,
//!                                        5 control, 6 base timestamp is a delete horizon
//!  23    4    last offset delta     yes
//!  27    8    base timestamp        yes
//!  35    8    max timestamp         yes
//!  43    8    producer id           yes  -1 when none
//!  51    2    producer epoch        yes
//!  53    4    base sequence         yes
//!  57    4    record count          yes
//!  61    ..   records, compressed as one piece when the codec says so
//! ```
//! All integers are big-endian.
//!
//! [`RecordBatchHeader`] looks at the first 61 bytes, [`CheckedBatch`] is a batch that passed every
//! check at the door, [`stamp`] writes what the owner decides, [`stored`] judges batches that come
//! back from a file.

mod checked;
mod compose;
mod end_marker;
mod error;
pub mod stamp;
pub mod stored;

pub use checked::{CheckedBatch, Origin};
pub use compose::{NewRecord, compose, compose_transactional};
pub(crate) use compose::{put_len, put_nullable, put_varlong};
pub use end_marker::{EndMarker, Outcome};
pub use error::BatchError;

use std::fmt;

use crate::limits::BATCH_HEADER_BYTES;
use crate::units::{
    LeaderEpoch, Offset, ProducerEpoch, ProducerId, ProducerStamp, Sequence, TimestampMs,
};

/// The only batch format the log holds.
pub const MAGIC: u8 = 2;

/// Where each field starts; see the table at the top.
pub mod at {
    pub const BASE_OFFSET: usize = 0;
    pub const LENGTH: usize = 8;
    pub const LEADER_EPOCH: usize = 12;
    pub const MAGIC: usize = 16;
    pub const CRC: usize = 17;
    pub const ATTRIBUTES: usize = 21;
    pub const LAST_OFFSET_DELTA: usize = 23;
    pub const BASE_TIMESTAMP: usize = 27;
    pub const MAX_TIMESTAMP: usize = 35;
    pub const PRODUCER_ID: usize = 43;
    pub const PRODUCER_EPOCH: usize = 51;
    pub const BASE_SEQUENCE: usize = 53;
    pub const RECORD_COUNT: usize = 57;
    pub const RECORDS: usize = 61;
}

/// Bytes that the length field does not count: base offset and itself.
pub const LENGTH_OVERHEAD: usize = 12;

const _: () = assert!(at::RECORDS == BATCH_HEADER_BYTES);
const _: () = assert!(at::LENGTH + 4 == LENGTH_OVERHEAD);

/// How the records of a batch are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Codec {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Codec {
    /// From the three codec bits; `None` for 5 to 7, which no version of the protocol defines.
    #[inline]
    pub const fn from_bits(bits: u8) -> Option<Codec> {
        match bits {
            0 => Some(Codec::None),
            1 => Some(Codec::Gzip),
            2 => Some(Codec::Snappy),
            3 => Some(Codec::Lz4),
            4 => Some(Codec::Zstd),
            _ => None,
        }
    }

    /// The three codec bits.
    #[inline]
    pub const fn bits(self) -> u8 {
        match self {
            Codec::None => 0,
            Codec::Gzip => 1,
            Codec::Snappy => 2,
            Codec::Lz4 => 3,
            Codec::Zstd => 4,
        }
    }

    /// The name `compression.type` uses.
    pub const fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Who set the timestamps of a batch (KIP-32).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TimestampType {
    CreateTime,
    LogAppendTime,
}

/// The attribute field of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Attributes(u16);

impl Attributes {
    pub const CODEC_MASK: u16 = 0b111;
    pub const LOG_APPEND_TIME: u16 = 1 << 3;
    pub const TRANSACTIONAL: u16 = 1 << 4;
    pub const CONTROL: u16 = 1 << 5;
    pub const DELETE_HORIZON: u16 = 1 << 6;
    /// Bits that some version of the format gives a meaning.
    pub const KNOWN: u16 = 0b111_1111;

    #[inline]
    pub const fn from_bits(bits: u16) -> Attributes {
        Attributes(bits)
    }

    #[inline]
    pub const fn bits(self) -> u16 {
        self.0
    }

    #[inline]
    pub const fn codec_bits(self) -> u8 {
        (self.0 & Self::CODEC_MASK) as u8
    }

    /// `None` when the bits name no codec.
    #[inline]
    pub const fn codec(self) -> Option<Codec> {
        Codec::from_bits(self.codec_bits())
    }

    #[inline]
    pub const fn timestamp_type(self) -> TimestampType {
        if self.0 & Self::LOG_APPEND_TIME == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    #[inline]
    pub const fn is_transactional(self) -> bool {
        self.0 & Self::TRANSACTIONAL != 0
    }

    #[inline]
    pub const fn is_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }

    /// Compaction put the time after which tombstones may go in the base timestamp (KIP-534).
    #[inline]
    pub const fn has_delete_horizon(self) -> bool {
        self.0 & Self::DELETE_HORIZON != 0
    }

    /// The bits that no version of the format knows.
    #[inline]
    pub const fn unknown_bits(self) -> u16 {
        self.0 & !Self::KNOWN
    }
}

/// The first 61 bytes of a batch, read in place. A view: it says what is written, and judges nothing.
#[derive(Clone, Copy)]
pub struct RecordBatchHeader<'a>(&'a [u8; BATCH_HEADER_BYTES]);

impl<'a> RecordBatchHeader<'a> {
    /// `None` when there are fewer than 61 bytes.
    #[inline]
    pub fn view(bytes: &'a [u8]) -> Option<RecordBatchHeader<'a>> {
        bytes.first_chunk::<BATCH_HEADER_BYTES>().map(RecordBatchHeader)
    }

    #[inline]
    pub fn of(bytes: &'a [u8; BATCH_HEADER_BYTES]) -> RecordBatchHeader<'a> {
        RecordBatchHeader(bytes)
    }

    /// As written; negative only in rubbish.
    #[inline]
    pub fn base_offset_raw(self) -> i64 {
        i64::from_be_bytes(self.field(at::BASE_OFFSET))
    }

    /// `None` when negative.
    #[inline]
    pub fn base_offset(self) -> Option<Offset> {
        Offset::new(self.base_offset_raw())
    }

    /// The length field: bytes behind it.
    #[inline]
    pub fn length_raw(self) -> i32 {
        i32::from_be_bytes(self.field(at::LENGTH))
    }

    /// Bytes of the whole batch; `None` when the field says less than a header.
    #[inline]
    pub fn total_bytes(self) -> Option<usize> {
        let length = usize::try_from(self.length_raw()).ok()?;
        let total = length + LENGTH_OVERHEAD;
        if total < BATCH_HEADER_BYTES { None } else { Some(total) }
    }

    /// As written; -1 on a batch that no leader has stamped.
    #[inline]
    pub fn leader_epoch_raw(self) -> i32 {
        i32::from_be_bytes(self.field(at::LEADER_EPOCH))
    }

    /// `None` when no leader has stamped it.
    #[inline]
    pub fn leader_epoch(self) -> Option<LeaderEpoch> {
        LeaderEpoch::new(self.leader_epoch_raw())
    }

    #[inline]
    pub fn magic(self) -> u8 {
        self.0[at::MAGIC]
    }

    #[inline]
    pub fn crc(self) -> u32 {
        u32::from_be_bytes(self.field(at::CRC))
    }

    #[inline]
    pub fn attributes(self) -> Attributes {
        Attributes(u16::from_be_bytes(self.field(at::ATTRIBUTES)))
    }

    #[inline]
    pub fn last_offset_delta(self) -> i32 {
        i32::from_be_bytes(self.field(at::LAST_OFFSET_DELTA))
    }

    /// Offset of the last record the batch ever held; `None` in rubbish.
    #[inline]
    pub fn last_offset(self) -> Option<Offset> {
        let delta = u64::try_from(self.last_offset_delta()).ok()?;
        self.base_offset()?.checked_add(delta)
    }

    /// Offset behind the batch; `None` in rubbish.
    #[inline]
    pub fn next_offset(self) -> Option<Offset> {
        self.last_offset()?.checked_add(1)
    }

    #[inline]
    pub fn base_timestamp(self) -> TimestampMs {
        TimestampMs::new(i64::from_be_bytes(self.field(at::BASE_TIMESTAMP)))
    }

    #[inline]
    pub fn max_timestamp(self) -> TimestampMs {
        TimestampMs::new(i64::from_be_bytes(self.field(at::MAX_TIMESTAMP)))
    }

    #[inline]
    pub fn producer_id_raw(self) -> i64 {
        i64::from_be_bytes(self.field(at::PRODUCER_ID))
    }

    #[inline]
    pub fn producer_epoch_raw(self) -> i16 {
        i16::from_be_bytes(self.field(at::PRODUCER_EPOCH))
    }

    #[inline]
    pub fn base_sequence_raw(self) -> i32 {
        i32::from_be_bytes(self.field(at::BASE_SEQUENCE))
    }

    /// Who wrote it; `None` when it was not an idempotent producer.
    #[inline]
    pub fn producer(self) -> Option<ProducerStamp> {
        Some(ProducerStamp {
            id: ProducerId::new(self.producer_id_raw())?,
            epoch: ProducerEpoch::new(self.producer_epoch_raw())?,
            first: Sequence::new(self.base_sequence_raw()),
        })
    }

    /// Records in the batch now. Compaction may have taken some since it was written.
    #[inline]
    pub fn record_count(self) -> i32 {
        i32::from_be_bytes(self.field(at::RECORD_COUNT))
    }

    #[inline]
    fn field<const N: usize>(self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.0[at..at + N]);
        bytes
    }
}

impl fmt::Debug for RecordBatchHeader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordBatchHeader")
            .field("base_offset", &self.base_offset_raw())
            .field("length", &self.length_raw())
            .field("leader_epoch", &self.leader_epoch_raw())
            .field("magic", &self.magic())
            .field("crc", &format_args!("{:08x}", self.crc()))
            .field("attributes", &format_args!("{:#06x}", self.attributes().bits()))
            .field("last_offset_delta", &self.last_offset_delta())
            .field("base_timestamp", &self.base_timestamp())
            .field("max_timestamp", &self.max_timestamp())
            .field("producer_id", &self.producer_id_raw())
            .field("producer_epoch", &self.producer_epoch_raw())
            .field("base_sequence", &self.base_sequence_raw())
            .field("record_count", &self.record_count())
            .finish()
    }
}

/// CRC-32C over what the batch's CRC covers. `batch` is one whole batch.
///
/// # Panics
/// When `batch` is shorter than a header.
#[inline]
pub fn crc_of(batch: &[u8]) -> u32 {
    crc32c::crc32c(&batch[at::ATTRIBUTES..])
}

#[cfg(any(test, feature = "testing"))]
pub mod testing;

#[cfg(test)]
#[path = "batch/batch_tests.rs"]
mod batch_tests;
