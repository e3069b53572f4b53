//! A look inside a record batch: its records one by one, decompressed as they are read.
//!
//! Produce and Fetch never come here. What does is named: exact offsets by time, deep validation
//! (`batch.validation=deep`), compaction, and the broker's own control batches and internal topics.
//! The work may take long, so it belongs on the helper pool for anything but small batches.
//!
//! ```text
//! record (all integers are zigzag varints unless said)
//!   length             bytes behind this field
//!   attributes         1 byte, no meaning yet
//!   timestamp delta    to the batch's base timestamp
//!   offset delta       to the batch's base offset
//!   key length         -1 when there is no key
//!   key
//!   value length       -1 when there is no value
//!   value
//!   header count
//!   headers            key length, key, value length (-1: none), value
//! ```
//! Memory is bounded whatever the bytes say: one input buffer, the window of the codec, and what a
//! caller asked to keep of the record at hand. So is the output. Nothing is reserved because a length
//! field says so. No allocation is made for a record.

mod input;
pub mod lookup;
pub mod recompress;
pub mod rewrite;
mod source;
pub mod validate;

use std::fmt;

use crate::batch::{Codec, RecordBatchHeader, TimestampType};
use crate::limits::{BATCH_BYTES_MAX, BATCH_HEADER_BYTES, RECORD_BYTES_MIN};
use crate::units::{Offset, TimestampMs};
use input::Input;
use source::Source;

/// What to keep of each record besides its numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    Nothing,
    Keys,
    KeysAndValues,
    /// Keys, values and headers.
    All,
}

/// One record. Borrows from its reader until the next one is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'r> {
    /// Place in the batch: 0, 1, 2, ... over the records that are there.
    pub index: u32,
    pub offset: Offset,
    /// The broker's time on a batch stamped with LogAppendTime, else the producer's.
    pub timestamp: TimestampMs,
    /// Bytes of the key; `None` when there is no key.
    pub key_bytes: Option<u32>,
    /// Bytes of the value; `None` for a tombstone.
    pub value_bytes: Option<u32>,
    pub headers: u32,
    /// Bytes of the whole record, its length field not counted.
    pub bytes: u32,
    /// The key, if it was to be kept and there is one.
    pub key: Option<&'r [u8]>,
    /// The value, if it was to be kept and there is one.
    pub value: Option<&'r [u8]>,
    /// The headers as they stand in the record, behind their count; empty when not kept.
    pub header_bytes: &'r [u8],
}

/// Why the records of a batch could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RecordsError {
    /// The codec bits name no codec.
    UnknownCodec { codec: u8 },
    /// The compressed bytes are damaged.
    Compressed { codec: Codec, reason: String },
    /// The bytes end within record `index`.
    Ends { index: u32 },
    /// A number of record `index` is longer than its kind may be.
    Varint { index: u32 },
    /// The length of record `index` is none that a record can have.
    Length { index: u32, length: i64 },
    /// A field of record `index` has a negative length, or reaches past its end.
    Field { index: u32 },
    /// Record `index` is shorter than its length says.
    Slack { index: u32 },
    /// Offset deltas do not rise, or go past the batch's last.
    OffsetDelta { index: u32, delta: i64 },
    /// Bytes behind the last record.
    Trailing,
    /// The batch decompresses to more than is allowed.
    TooLarge { limit: u64 },
}

/// Reads the records of one batch.
pub struct Records<'a> {
    header: RecordBatchHeader<'a>,
    base: Offset,
    input: Input<'a>,
    keep: Keep,
    kept: Vec<u8>,
    count: u32,
    next_index: u32,
    last_delta: i64,
}

impl<'a> Records<'a> {
    /// Over the records of `batch`, which must be one whole batch whose CRC held.
    ///
    /// # Errors
    /// [`RecordsError::UnknownCodec`], or `Compressed` when the codec's own header is damaged.
    ///
    /// # Panics
    /// When `batch` is shorter than a header.
    pub fn open(batch: &'a [u8], keep: Keep) -> Result<Records<'a>, RecordsError> {
        let Some(header) = RecordBatchHeader::view(batch) else {
            panic!("{} bytes are no batch", batch.len());
        };
        let attributes = header.attributes();
        let unknown = RecordsError::UnknownCodec { codec: attributes.codec_bits() };
        let codec = attributes.codec().ok_or(unknown)?;
        let source = Source::open(codec, &batch[BATCH_HEADER_BYTES..])?;
        Ok(Records {
            header,
            base: header.base_offset().unwrap_or(Offset::ZERO),
            input: Input::new(source, codec),
            keep,
            kept: Vec::new(),
            count: u32::try_from(header.record_count()).unwrap_or(0),
            next_index: 0,
            last_delta: -1,
        })
    }

    /// Records in the batch, as its header says.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The next record; `None` behind the last, when nothing follows it.
    ///
    /// # Errors
    /// [`RecordsError`]: the first thing wrong. Do not go on then.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, RecordsError> {
        let index = self.next_index;
        if index == self.count {
            return if self.input.is_at_end()? { Ok(None) } else { Err(RecordsError::Trailing) };
        }
        self.input.begin(index);
        let length = self.input.varint()?;
        let possible = u32::try_from(length).ok().filter(|n| {
            let n = *n as usize;
            (RECORD_BYTES_MIN - 1..=BATCH_BYTES_MAX).contains(&n)
        });
        let bytes = possible.ok_or(RecordsError::Length { index, length })?;
        self.input.enclose(bytes);
        self.input.skip(1)?;
        let timestamp = self.timestamp()?;
        let offset = self.offset(index)?;
        self.kept.clear();
        let key = self.field(self.keep != Keep::Nothing)?;
        let value = self.field(matches!(self.keep, Keep::KeysAndValues | Keep::All))?;
        let (headers, header_bytes) = self.headers(index)?;
        if self.input.left() != 0 {
            return Err(RecordsError::Slack { index });
        }
        self.next_index = index + 1;
        Ok(Some(Record {
            index,
            offset,
            timestamp,
            key_bytes: key.map(|field| field.bytes),
            value_bytes: value.map(|field| field.bytes),
            headers,
            bytes,
            key: key.and_then(|field| field.kept(&self.kept)),
            value: value.and_then(|field| field.kept(&self.kept)),
            header_bytes: &self.kept[header_bytes..],
        }))
    }

    fn timestamp(&mut self) -> Result<TimestampMs, RecordsError> {
        let delta = self.input.varlong()?;
        Ok(match self.header.attributes().timestamp_type() {
            TimestampType::LogAppendTime => self.header.max_timestamp(),
            TimestampType::CreateTime => {
                TimestampMs::new(self.header.base_timestamp().get().wrapping_add(delta))
            }
        })
    }

    fn offset(&mut self, index: u32) -> Result<Offset, RecordsError> {
        let delta = self.input.varint()?;
        let wrong = RecordsError::OffsetDelta { index, delta };
        let rises = delta > self.last_delta;
        if !rises || delta > i64::from(self.header.last_offset_delta()) {
            return Err(wrong);
        }
        self.last_delta = delta;
        self.base.checked_add(delta.unsigned_abs()).ok_or(wrong)
    }

    /// A nullable run of bytes, kept or passed over.
    fn field(&mut self, keep: bool) -> Result<Option<Field>, RecordsError> {
        let Some(bytes) = self.input.nullable_len()? else { return Ok(None) };
        let start = self.kept.len();
        if keep {
            self.input.take(bytes, &mut self.kept)?;
        } else {
            self.input.skip(bytes)?;
        }
        Ok(Some(Field { start, bytes, kept: keep }))
    }

    /// Number of headers, and where their bytes start in what is kept.
    fn headers(&mut self, index: u32) -> Result<(u32, usize), RecordsError> {
        let count = self.input.varint()?;
        // A header takes two bytes at least.
        let possible = u32::try_from(count).ok().filter(|n| *n <= self.input.left() / 2);
        let count = possible.ok_or(RecordsError::Field { index })?;
        let start = self.kept.len();
        if self.keep == Keep::All {
            let left = self.input.left();
            self.input.take(left, &mut self.kept)?;
            let mut headers = headers(&self.kept[start..], count);
            if headers.by_ref().count() != count as usize {
                return Err(RecordsError::Field { index });
            }
            let slack = !headers.rest.is_empty();
            return if slack { Err(RecordsError::Slack { index }) } else { Ok((count, start)) };
        }
        for _ in 0..count {
            let key = self.input.nullable_len()?.ok_or(RecordsError::Field { index })?;
            self.input.skip(key)?;
            if let Some(value) = self.input.nullable_len()? {
                self.input.skip(value)?;
            }
        }
        Ok((count, start))
    }
}

/// The headers of a record that were kept: [`Record::header_bytes`] and [`Record::headers`].
pub fn headers(bytes: &[u8], count: u32) -> Headers<'_> {
    Headers { rest: bytes, left: count }
}

/// Key and value of each header of a record. Ends early where the bytes make no sense.
#[derive(Clone, Debug)]
pub struct Headers<'a> {
    rest: &'a [u8],
    left: u32,
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let key = self.run()??;
        Some((key, self.run()?))
    }
}

impl<'a> Headers<'a> {
    /// A nullable run of bytes; the outer `None` when it makes no sense.
    fn run(&mut self) -> Option<Option<&'a [u8]>> {
        let (len, used) = input::varint_of(self.rest)?;
        let rest = &self.rest[used..];
        if len == -1 {
            self.rest = rest;
            return Some(None);
        }
        let (bytes, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
        self.rest = rest;
        Some(Some(bytes))
    }
}

/// Where a field of the record at hand stands in what is kept.
#[derive(Clone, Copy)]
struct Field {
    start: usize,
    bytes: u32,
    kept: bool,
}

impl Field {
    fn kept(self, kept: &[u8]) -> Option<&[u8]> {
        self.kept.then(|| &kept[self.start..self.start + self.bytes as usize])
    }
}

impl fmt::Display for RecordsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordsError::UnknownCodec { codec } => {
                write!(f, "compression codec {codec} is unknown")
            }
            RecordsError::Compressed { codec, reason } => {
                write!(f, "the {codec} data is damaged: {reason}")
            }
            RecordsError::Ends { index } => write!(f, "the data ends within record {index}"),
            RecordsError::Varint { index } => {
                write!(f, "record {index} has a number that is too long")
            }
            RecordsError::Length { index, length } => {
                write!(f, "record {index} has the impossible length {length}")
            }
            RecordsError::Field { index } => {
                write!(f, "record {index} has a field that reaches past its end")
            }
            RecordsError::Slack { index } => {
                write!(f, "record {index} is shorter than its length says")
            }
            RecordsError::OffsetDelta { index, delta } => {
                write!(f, "record {index} has the offset delta {delta}, which is out of order")
            }
            RecordsError::Trailing => f.write_str("bytes stand behind the last record"),
            RecordsError::TooLarge { limit } => {
                write!(f, "the batch decompresses to more than {limit} bytes")
            }
        }
    }
}

impl std::error::Error for RecordsError {}

#[cfg(test)]
#[path = "records/records_tests.rs"]
mod tests;
