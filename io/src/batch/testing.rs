//! Making batches for tests, here and on the floors above (feature `testing`).

use bytes::{BufMut, Bytes, BytesMut};

pub use super::compose::put_varlong;
use super::compose::{put_len, put_nullable};
use super::{Attributes, MAGIC, at, crc_of};

/// Builds one batch; every field may be set to nonsense. Start from `BatchBuilder::default()`.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    pub base_offset: i64,
    pub leader_epoch: i32,
    pub magic: u8,
    pub attributes: u16,
    pub last_offset_delta: Option<i32>,
    pub base_timestamp: i64,
    pub max_timestamp: Option<i64>,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub record_count: Option<i32>,
    /// Key, value and timestamp delta of each record.
    pub records: Vec<TestRecord>,
    /// Used in place of the encoded `records` when set, as for compressed payloads.
    pub payload: Option<Vec<u8>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TestRecord {
    pub timestamp_delta: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Default for BatchBuilder {
    fn default() -> BatchBuilder {
        BatchBuilder {
            base_offset: 0,
            leader_epoch: -1,
            magic: MAGIC,
            attributes: 0,
            last_offset_delta: None,
            base_timestamp: 1_700_000_000_000,
            max_timestamp: None,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            record_count: None,
            records: Vec::new(),
            payload: None,
        }
    }
}

impl BatchBuilder {
    /// A batch with one record for each value.
    pub fn of_values<V: AsRef<[u8]>>(values: impl IntoIterator<Item = V>) -> BatchBuilder {
        let record = |v: V| TestRecord { value: Some(v.as_ref().to_vec()), ..Default::default() };
        BatchBuilder { records: values.into_iter().map(record).collect(), ..Default::default() }
    }

    pub fn at_offset(self, base_offset: i64, leader_epoch: i32) -> BatchBuilder {
        BatchBuilder { base_offset, leader_epoch, ..self }
    }

    pub fn from_producer(self, id: i64, epoch: i16, base_sequence: i32) -> BatchBuilder {
        BatchBuilder { producer_id: id, producer_epoch: epoch, base_sequence, ..self }
    }

    /// Sets the codec bits and the already compressed records.
    pub fn compressed(self, codec: super::Codec, payload: Vec<u8>) -> BatchBuilder {
        let attributes = self.attributes & !Attributes::CODEC_MASK | u16::from(codec.bits());
        BatchBuilder { attributes, payload: Some(payload), ..self }
    }

    /// The records, encoded and not compressed.
    pub fn encode_records(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (delta, record) in (0..).zip(&self.records) {
            encode_record(delta, record, &mut out);
        }
        out
    }

    pub fn build(&self) -> Bytes {
        let count = i32::try_from(self.records.len()).unwrap_or(i32::MAX);
        let payload = self.payload.clone().unwrap_or_else(|| self.encode_records());
        let delta_max = self.records.iter().map(|r| r.timestamp_delta).max().unwrap_or(0);
        let mut b = BytesMut::with_capacity(at::RECORDS + payload.len());
        b.put_i64(self.base_offset);
        b.put_i32(i32::try_from(at::RECORDS - 12 + payload.len()).unwrap_or(i32::MAX));
        b.put_i32(self.leader_epoch);
        b.put_u8(self.magic);
        b.put_u32(0);
        b.put_u16(self.attributes);
        b.put_i32(self.last_offset_delta.unwrap_or(count - 1));
        b.put_i64(self.base_timestamp);
        b.put_i64(self.max_timestamp.unwrap_or(self.base_timestamp.wrapping_add(delta_max)));
        b.put_i64(self.producer_id);
        b.put_i16(self.producer_epoch);
        b.put_i32(self.base_sequence);
        b.put_i32(self.record_count.unwrap_or(count));
        b.extend_from_slice(&payload);
        let crc = crc_of(&b);
        b[at::CRC..at::ATTRIBUTES].copy_from_slice(&crc.to_be_bytes());
        b.freeze()
    }
}

fn encode_record(offset_delta: i64, record: &TestRecord, out: &mut Vec<u8>) {
    let mut body = vec![0];
    put_varlong(record.timestamp_delta, &mut body);
    put_varlong(offset_delta, &mut body);
    put_nullable(record.key.as_deref(), &mut body);
    put_nullable(record.value.as_deref(), &mut body);
    put_len(record.headers.len(), &mut body);
    for (key, value) in &record.headers {
        put_nullable(Some(key), &mut body);
        put_nullable(value.as_deref(), &mut body);
    }
    put_len(body.len(), out);
    out.extend_from_slice(&body);
}
