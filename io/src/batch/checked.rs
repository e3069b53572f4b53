//! From the records field of a request to a batch that cannot be wrong.

use bytes::Bytes;

use super::{
    Attributes, BatchError, Codec, LENGTH_OVERHEAD, MAGIC, RecordBatchHeader, TimestampType, at,
    crc_of,
};
use crate::limits::{BATCH_HEADER_BYTES, RECORD_BYTES_MIN};
use crate::units::{ProducerStamp, TimestampMs};

/// Who made the batch, which decides what it may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A stranger on a connection.
    Client,
    /// One of our own coordinators, which may write control batches (transaction markers), and
    /// transactional batches without a sequence (offsets committed in a transaction).
    Coordinator,
}

/// One whole record batch that passed every check that needs no look inside the records: length,
/// magic, CRC, codec, attributes, count, producer fields. Not yet stamped: base offset is 0.
///
/// Owns its bytes by reference count, so it may cross cores. What is not checked here because it
/// hangs on a topic's settings: its size, its timestamps, its producer's state.
#[derive(Clone)]
pub struct CheckedBatch {
    bytes: Bytes,
    origin: Origin,
}

/// The smallest length field of any format, as Kafka reads it.
const LENGTH_MIN_ANY_FORMAT: i32 = 14;

impl CheckedBatch {
    /// Checks the records field of one partition of a Produce request: exactly one batch.
    ///
    /// Takes one pass over the bytes for the CRC and allocates nothing.
    ///
    /// # Errors
    /// One [`BatchError`] for the first thing wrong, in the order in which Apache Kafka looks.
    pub fn parse(records: Bytes, origin: Origin) -> Result<CheckedBatch, BatchError> {
        exactly_one(&records)?;
        let batch = CheckedBatch { bytes: records, origin };
        let header = batch.header();
        if origin == Origin::Client && header.base_offset_raw() != 0 {
            return Err(BatchError::BaseOffset { base_offset: header.base_offset_raw() });
        }
        check_crc(&batch.bytes)?;
        check_attributes(header.attributes(), origin)?;
        check_count(header, batch.bytes.len() - BATCH_HEADER_BYTES)?;
        check_producer(header, origin)?;
        Ok(batch)
    }

    #[inline]
    pub fn header(&self) -> RecordBatchHeader<'_> {
        match RecordBatchHeader::view(&self.bytes) {
            Some(header) => header,
            None => panic!("a checked batch of {} bytes has no header", self.bytes.len()),
        }
    }

    /// Who made it.
    #[inline]
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The whole batch as it came.
    #[inline]
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    #[inline]
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }

    /// Bytes of the whole batch.
    #[inline]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Never: a batch has at least its header.
    #[inline]
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Records in the batch, at least 1.
    #[inline]
    pub fn record_count(&self) -> u32 {
        self.header().record_count().unsigned_abs()
    }

    #[inline]
    pub fn codec(&self) -> Codec {
        match self.header().attributes().codec() {
            Some(codec) => codec,
            None => panic!("a checked batch has no unknown codec"),
        }
    }

    #[inline]
    pub fn attributes(&self) -> Attributes {
        self.header().attributes()
    }

    #[inline]
    pub fn producer(&self) -> Option<ProducerStamp> {
        self.header().producer()
    }

    #[inline]
    pub fn base_timestamp(&self) -> TimestampMs {
        self.header().base_timestamp()
    }

    #[inline]
    pub fn max_timestamp(&self) -> TimestampMs {
        self.header().max_timestamp()
    }
}

impl std::fmt::Debug for CheckedBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.header().fmt(f)
    }
}

fn exactly_one(records: &[u8]) -> Result<(), BatchError> {
    let got = records.len();
    let Some(length) = records.get(at::LENGTH..LENGTH_OVERHEAD).and_then(|b| b.first_chunk())
    else {
        return Err(if got == 0 {
            BatchError::Empty
        } else {
            BatchError::Truncated { needed: BATCH_HEADER_BYTES, got }
        });
    };
    let length = i32::from_be_bytes(*length);
    if length < LENGTH_MIN_ANY_FORMAT {
        return Err(BatchError::Length { length });
    }
    let Some(&magic) = records.get(at::MAGIC) else {
        return Err(BatchError::Truncated { needed: BATCH_HEADER_BYTES, got });
    };
    if magic > MAGIC {
        return Err(BatchError::UnknownMagic { magic });
    }
    let total = LENGTH_OVERHEAD + length.unsigned_abs() as usize;
    if total > got {
        return Err(BatchError::Truncated { needed: total, got });
    }
    if magic < MAGIC {
        return Err(BatchError::OldMagic { magic });
    }
    if total < BATCH_HEADER_BYTES {
        return Err(BatchError::TooShort { total });
    }
    if total < got {
        return Err(BatchError::MoreThanOne { extra: got - total });
    }
    Ok(())
}

fn check_crc(batch: &[u8]) -> Result<(), BatchError> {
    let stored = RecordBatchHeader::view(batch).map_or(0, RecordBatchHeader::crc);
    let computed = crc_of(batch);
    if stored == computed { Ok(()) } else { Err(BatchError::Crc { stored, computed }) }
}

fn check_attributes(attributes: Attributes, origin: Origin) -> Result<(), BatchError> {
    if attributes.codec().is_none() {
        return Err(BatchError::UnknownCodec { codec: attributes.codec_bits() });
    }
    let not_ours = attributes.unknown_bits() | (attributes.bits() & Attributes::DELETE_HORIZON);
    if not_ours != 0 {
        return Err(BatchError::Attributes { bits: not_ours });
    }
    if origin == Origin::Client && attributes.is_control() {
        return Err(BatchError::Control);
    }
    if attributes.timestamp_type() == TimestampType::LogAppendTime {
        return Err(BatchError::LogAppendTime);
    }
    Ok(())
}

fn check_count(header: RecordBatchHeader<'_>, payload: usize) -> Result<(), BatchError> {
    let count = header.record_count();
    let last_offset_delta = header.last_offset_delta();
    if count <= 0 {
        return Err(BatchError::Count { count });
    }
    if last_offset_delta != count - 1 {
        return Err(BatchError::CountMismatch { count, last_offset_delta });
    }
    let plain = header.attributes().codec() == Some(Codec::None);
    if plain && payload / RECORD_BYTES_MIN < count.unsigned_abs() as usize {
        return Err(BatchError::CountImpossible { count, payload });
    }
    Ok(())
}

fn check_producer(header: RecordBatchHeader<'_>, origin: Origin) -> Result<(), BatchError> {
    let id = header.producer_id_raw();
    let epoch = header.producer_epoch_raw();
    let sequence = header.base_sequence_raw();
    let attributes = header.attributes();
    if id < -1 || (id >= 0 && epoch < 0) {
        return Err(BatchError::Producer { id, epoch });
    }
    let needs_sequence = origin == Origin::Client || !attributes.is_transactional();
    if id >= 0 && sequence < 0 && !attributes.is_control() && needs_sequence {
        return Err(BatchError::Sequence { sequence });
    }
    if id < 0 && attributes.is_transactional() {
        return Err(BatchError::TransactionalWithoutProducer);
    }
    Ok(())
}
