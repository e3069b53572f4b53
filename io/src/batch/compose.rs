//! Batches that the broker itself writes: what its coordinators put in their logs.

use bytes::{BufMut, Bytes, BytesMut};

use super::{Attributes, CheckedBatch, MAGIC, Origin, at, crc_of};
use crate::limits::BATCH_HEADER_BYTES;
use crate::units::{ProducerEpoch, ProducerId, TimestampMs};

/// A record to be written; `value: None` is a tombstone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewRecord {
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
}

impl NewRecord {
    /// Bytes that the record adds to a batch, at most.
    pub fn bytes_max(&self) -> usize {
        let len = |part: &Option<Vec<u8>>| part.as_ref().map_or(0, Vec::len);
        len(&self.key) + len(&self.value) + NUMBERS_BYTES_MAX
    }
}

/// Length, attributes, deltas, two lengths and the number of headers of one record.
const NUMBERS_BYTES_MAX: usize = 30;

/// One batch with `records` in their order, not compressed, all of one timestamp (CreateTime).
///
/// # Panics
/// Without a record, or with more bytes than a batch can hold: callers split before.
pub fn compose(records: &[NewRecord], timestamp: TimestampMs) -> CheckedBatch {
    compose_stamped(records, Stamped { producer: None, control: false, timestamp })
}

/// As [`compose`], as part of a transaction of `producer`: what a coordinator writes in a
/// producer's name (TxnOffsetCommit). It takes no sequence; only batches of the broker's own may
/// do so.
///
/// # Panics
/// As [`compose`].
pub fn compose_transactional(
    records: &[NewRecord],
    timestamp: TimestampMs,
    producer: (ProducerId, ProducerEpoch),
) -> CheckedBatch {
    compose_stamped(records, Stamped { producer: Some(producer), control: false, timestamp })
}

/// What stands in the header besides the records.
#[derive(Clone, Copy)]
pub(super) struct Stamped {
    /// The producer in whose transaction the batch is.
    pub producer: Option<(ProducerId, ProducerEpoch)>,
    pub control: bool,
    pub timestamp: TimestampMs,
}

pub(super) fn compose_stamped(records: &[NewRecord], stamped: Stamped) -> CheckedBatch {
    let Stamped { producer, control, timestamp } = stamped;
    let attributes = match (producer, control) {
        (None, _) => 0,
        (Some(_), false) => Attributes::TRANSACTIONAL,
        (Some(_), true) => Attributes::TRANSACTIONAL | Attributes::CONTROL,
    };
    let (Ok(count), false) = (i32::try_from(records.len()), records.is_empty()) else {
        panic!("{} records make no batch", records.len());
    };
    let mut payload = Vec::with_capacity(records.iter().map(NewRecord::bytes_max).sum());
    for (delta, record) in (0..).zip(records) {
        put_record(delta, record, &mut payload);
    }
    let Ok(length) = i32::try_from(BATCH_HEADER_BYTES - super::LENGTH_OVERHEAD + payload.len())
    else {
        panic!("records of {} bytes make no batch", payload.len());
    };
    let mut batch = BytesMut::with_capacity(BATCH_HEADER_BYTES + payload.len());
    batch.put_i64(0);
    batch.put_i32(length);
    batch.put_i32(-1);
    batch.put_u8(MAGIC);
    batch.put_u32(0);
    batch.put_u16(attributes);
    batch.put_i32(count - 1);
    batch.put_i64(timestamp.get());
    batch.put_i64(timestamp.get());
    batch.put_i64(producer.map_or(-1, |(id, _)| id.get()));
    batch.put_i16(producer.map_or(-1, |(_, epoch)| epoch.get()));
    batch.put_i32(-1);
    batch.put_i32(count);
    batch.extend_from_slice(&payload);
    let crc = crc_of(&batch);
    batch[at::CRC..at::ATTRIBUTES].copy_from_slice(&crc.to_be_bytes());
    checked(batch.freeze())
}

fn checked(bytes: Bytes) -> CheckedBatch {
    match CheckedBatch::parse(bytes, Origin::Coordinator) {
        Ok(batch) => batch,
        Err(error) => panic!("a batch of our own is none: {error}"),
    }
}

fn put_record(offset_delta: i64, record: &NewRecord, out: &mut Vec<u8>) {
    let mut body = vec![0];
    put_varlong(0, &mut body);
    put_varlong(offset_delta, &mut body);
    put_nullable(record.key.as_deref(), &mut body);
    put_nullable(record.value.as_deref(), &mut body);
    put_varlong(0, &mut body);
    put_len(body.len(), out);
    out.extend_from_slice(&body);
}

/// Bytes with their length in front; -1 for none.
pub(crate) fn put_nullable(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    match bytes {
        None => put_varlong(-1, out),
        Some(bytes) => {
            put_len(bytes.len(), out);
            out.extend_from_slice(bytes);
        }
    }
}

pub(crate) fn put_len(len: usize, out: &mut Vec<u8>) {
    put_varlong(i64::try_from(len).unwrap_or(i64::MAX), out);
}

/// Zigzag varint, as records use it for all their integers.
pub fn put_varlong(value: i64, out: &mut Vec<u8>) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Keep, Records};

    #[test]
    fn composed_batch_reads_back_record_by_record() {
        let record = |key: &[u8], value: Option<&[u8]>| NewRecord {
            key: Some(key.to_vec()),
            value: value.map(<[u8]>::to_vec),
        };
        let records =
            [record(b"a", Some(b"one")), record(b"b", None), record(&[7; 300], Some(b""))];
        let batch = compose(&records, TimestampMs::new(77));
        assert_eq!((batch.record_count(), batch.max_timestamp().get()), (3, 77));
        assert!(batch.len() <= 61 + records.iter().map(NewRecord::bytes_max).sum::<usize>());
        let mut reader = Records::open(batch.bytes(), Keep::KeysAndValues).unwrap();
        for (delta, due) in (0..).zip(&records) {
            let found = reader.next_record().unwrap().unwrap();
            assert_eq!(found.offset.get(), delta);
            assert_eq!((found.key, found.value), (due.key.as_deref(), due.value.as_deref()));
        }
        assert!(reader.next_record().unwrap().is_none());
    }
}
