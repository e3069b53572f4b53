//! A batch without some of its records, as compaction leaves it (KIP-534 for the delete horizon).
//!
//! Base offset, last offset, producer and leader epoch stay those of the batch that was written, so that
//! offsets never shift and the producer's state can be read off it.

use std::io;

use super::recompress::Sink;
use super::{Keep, Record, Records, RecordsError};
use crate::batch::{
    Attributes, RecordBatchHeader, TimestampType, at, crc_of, put_len, put_nullable, put_varlong,
};
use crate::limits::{BATCH_BYTES_MAX, BATCH_HEADER_BYTES, RECORDS_OUTPUT_BYTES_MAX};
use crate::units::{TimestampMs, bytes_u64};

/// What to leave of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rewrite {
    /// When what may go then is to go: written into the batch unless it has such a time already...
    pub horizon: TimestampMs,
    /// ... and it holds a tombstone, or this says that the batch is to have one in any case.
    pub always: bool,
}

/// What became of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rewritten {
    /// Every record stays, and so does every byte.
    AsItWas,
    /// No record is left.
    Nothing,
    /// Some records stay, or the delete horizon was set.
    Batch(Vec<u8>),
}

/// Leaves the records of `batch` for which `keep` says so. `batch` is one whole batch whose CRC held;
/// its records are read twice, and `keep` must answer the same both times.
///
/// Memory: the output, at most a batch, and the largest record.
///
/// # Errors
/// [`RecordsError`] when the records do not read, or would be too many bytes.
pub fn rewrite(
    batch: &[u8],
    how: Rewrite,
    mut keep: impl FnMut(&Record<'_>) -> bool,
) -> Result<Rewritten, RecordsError> {
    let mut seen = Seen::default();
    let mut records = Records::open(batch, Keep::Keys)?;
    while let Some(record) = records.next_record()? {
        seen.look(&record, keep(&record));
    }
    let attributes = header_of(batch).attributes();
    let set_horizon = !attributes.has_delete_horizon() && (seen.tombstones || how.always);
    let Some((first_timestamp, max_timestamp)) = seen.times else {
        return Ok(Rewritten::Nothing);
    };
    if seen.dropped == 0 && !set_horizon {
        return Ok(Rewritten::AsItWas);
    }
    let mut out = batch[..BATCH_HEADER_BYTES].to_vec();
    let base_timestamp = match (set_horizon, attributes.has_delete_horizon()) {
        (true, _) => how.horizon,
        (false, true) => header_of(batch).base_timestamp(),
        (false, false) => first_timestamp,
    };
    copy_records(batch, base_timestamp, &mut keep, &mut out)?;
    let bits = attributes.bits() | if set_horizon { Attributes::DELETE_HORIZON } else { 0 };
    out[at::ATTRIBUTES..at::LAST_OFFSET_DELTA].copy_from_slice(&bits.to_be_bytes());
    out[at::BASE_TIMESTAMP..at::MAX_TIMESTAMP].copy_from_slice(&base_timestamp.get().to_be_bytes());
    if attributes.timestamp_type() == TimestampType::CreateTime {
        let max = max_timestamp.get().to_be_bytes();
        out[at::MAX_TIMESTAMP..at::PRODUCER_ID].copy_from_slice(&max);
    }
    out[at::RECORD_COUNT..at::RECORDS].copy_from_slice(&seen.kept.to_be_bytes());
    finish(&mut out)?;
    Ok(Rewritten::Batch(out))
}

/// A batch of the same offsets without any record; of the same producer, or of none. `batch` is one
/// whole batch whose CRC held.
pub fn without_records(batch: &[u8], keep_producer: bool) -> Vec<u8> {
    let attributes = header_of(batch).attributes();
    let of_producer = Attributes::TRANSACTIONAL | Attributes::CONTROL;
    let kept = Attributes::LOG_APPEND_TIME | if keep_producer { of_producer } else { 0 };
    let bits = attributes.bits() & kept;
    let mut out = batch[..BATCH_HEADER_BYTES].to_vec();
    out[at::ATTRIBUTES..at::LAST_OFFSET_DELTA].copy_from_slice(&bits.to_be_bytes());
    // Minus one: no record has a time, and nobody shall look for the largest here.
    out[at::BASE_TIMESTAMP..at::PRODUCER_ID].fill(0xff);
    out[at::RECORD_COUNT..at::RECORDS].copy_from_slice(&0_i32.to_be_bytes());
    if !keep_producer {
        // Id, epoch and sequence: -1, as in the batch of a producer without an id.
        out[at::PRODUCER_ID..at::RECORD_COUNT].fill(0xff);
    }
    match finish(&mut out) {
        Ok(()) => out,
        Err(error) => panic!("a header alone makes no batch: {error}"),
    }
}

fn header_of(batch: &[u8]) -> RecordBatchHeader<'_> {
    match RecordBatchHeader::view(batch) {
        Some(header) => header,
        None => panic!("{} bytes are no batch", batch.len()),
    }
}

/// What a first look at the records says.
#[derive(Default)]
struct Seen {
    kept: u32,
    dropped: u32,
    tombstones: bool,
    /// The first and the largest timestamp of what stays.
    times: Option<(TimestampMs, TimestampMs)>,
}

impl Seen {
    fn look(&mut self, record: &Record<'_>, stays: bool) {
        if !stays {
            self.dropped += 1;
            return;
        }
        self.kept += 1;
        self.tombstones |= record.value_bytes.is_none();
        let (first, max) = self.times.unwrap_or((record.timestamp, record.timestamp));
        self.times = Some((first, max.max(record.timestamp)));
    }
}

/// Encodes the records that stay behind the header in `out`, in the batch's own codec.
fn copy_records(
    batch: &[u8],
    base_timestamp: TimestampMs,
    keep: &mut impl FnMut(&Record<'_>) -> bool,
    out: &mut Vec<u8>,
) -> Result<(), RecordsError> {
    let header = header_of(batch);
    let attributes = header.attributes();
    let unknown = RecordsError::UnknownCodec { codec: attributes.codec_bits() };
    let codec = attributes.codec().ok_or(unknown)?;
    let damaged = |e: io::Error| RecordsError::Compressed { codec, reason: e.to_string() };
    let base_offset = header.base_offset_raw();
    let mut sink = Sink::open(codec, out).map_err(damaged)?;
    let mut records = Records::open(batch, Keep::All)?;
    let (mut body, mut framed, mut produced) = (Vec::new(), Vec::new(), 0);
    while let Some(record) = records.next_record()? {
        if !keep(&record) {
            continue;
        }
        encode(&record, base_offset, base_timestamp, &mut body);
        framed.clear();
        put_len(body.len(), &mut framed);
        framed.extend_from_slice(&body);
        produced += bytes_u64(framed.len());
        if produced > RECORDS_OUTPUT_BYTES_MAX {
            return Err(RecordsError::TooLarge { limit: RECORDS_OUTPUT_BYTES_MAX });
        }
        sink.write(&framed).map_err(damaged)?;
    }
    sink.finish().map_err(damaged)
}

/// The fields of a record behind its length.
fn encode(record: &Record<'_>, base_offset: i64, base_timestamp: TimestampMs, body: &mut Vec<u8>) {
    body.clear();
    body.push(0);
    put_varlong(record.timestamp.get().wrapping_sub(base_timestamp.get()), body);
    put_varlong(record.offset.get() - base_offset, body);
    put_nullable(record.key, body);
    put_nullable(record.value, body);
    put_varlong(i64::from(record.headers), body);
    body.extend_from_slice(record.header_bytes);
}

/// Length and CRC.
fn finish(out: &mut [u8]) -> Result<(), RecordsError> {
    let limit = BATCH_BYTES_MAX;
    let length = u32::try_from(out.len() - crate::batch::LENGTH_OVERHEAD).ok();
    let Some(length) = length.filter(|_| out.len() <= limit) else {
        return Err(RecordsError::TooLarge { limit: bytes_u64(limit) });
    };
    out[at::LENGTH..at::LEADER_EPOCH].copy_from_slice(&length.to_be_bytes());
    let crc = crc_of(out);
    out[at::CRC..at::ATTRIBUTES].copy_from_slice(&crc.to_be_bytes());
    Ok(())
}

#[cfg(test)]
#[path = "rewrite_tests.rs"]
mod tests;
