//! Batches that are built, and compressed, once, and stamped for each sending.
//!
//! The first value of a batch begins with a stamp: which run, which producer, the number of the batch,
//! when it was due. Only the stamp and thirty bytes of the header differ from one sending to the next,
//! and a CRC is linear: what a change in the front does to the checksum of the whole is found in a table,
//! however long the batch is.

use std::sync::Arc;

use anyhow::{Result, ensure};

use super::codec::{Codec, pack};
use super::{CRC_AT, CRC_FROM, HEADER_BYTES, put_record};

/// Bytes of a stamp; no value that carries one is shorter.
pub const STAMP_BYTES: usize = 24;
/// Timestamps, producer id, epoch, sequence.
pub const FIELDS_AT: usize = 27;
/// Behind them.
pub const FIELDS_END: usize = 57;
/// Set in the attributes of batches that belong to a transaction.
pub const TRANSACTIONAL: u8 = 0x10;
/// Set in the number of a stamp whose transaction will be aborted.
pub const ABORTED: u64 = 1 << 63;

/// Who sent a batch, and when it was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Same for all batches of a run, different from other runs on the same broker.
    pub run: u32,
    pub producer: u32,
    /// Counts the batches of this producer to this partition, from 0. [`ABORTED`] may be set in it.
    pub number: u64,
    /// Nanoseconds since the run began.
    pub due_ns: u64,
}

impl Stamp {
    /// As it stands in the value.
    pub fn to_bytes(self) -> [u8; STAMP_BYTES] {
        let mut out = [0; STAMP_BYTES];
        out[..4].copy_from_slice(&self.run.to_be_bytes());
        out[4..8].copy_from_slice(&self.producer.to_be_bytes());
        out[8..16].copy_from_slice(&self.number.to_be_bytes());
        out[16..].copy_from_slice(&self.due_ns.to_be_bytes());
        out
    }

    /// From the value.
    pub fn from_bytes(bytes: &[u8; STAMP_BYTES]) -> Stamp {
        let long = |at: usize| {
            bytes[at..at + 8].iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))
        };
        let first = long(0);
        Stamp {
            run: (first >> 32) as u32,
            producer: first as u32,
            number: long(8),
            due_ns: long(16),
        }
    }
}

/// Fields of the header that differ from sending to sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    pub timestamp_ms: i64,
    /// -1, with the next two, for a producer without an id.
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub sequence: i32,
}

impl Fields {
    /// Of a producer without an id.
    pub const fn plain(timestamp_ms: i64) -> Fields {
        Fields { timestamp_ms, producer_id: -1, producer_epoch: -1, sequence: -1 }
    }

    fn to_bytes(self) -> [u8; FIELDS_END - FIELDS_AT] {
        let mut out = [0; FIELDS_END - FIELDS_AT];
        out[..8].copy_from_slice(&self.timestamp_ms.to_be_bytes());
        out[8..16].copy_from_slice(&self.timestamp_ms.to_be_bytes());
        out[16..24].copy_from_slice(&self.producer_id.to_be_bytes());
        out[24..26].copy_from_slice(&self.producer_epoch.to_be_bytes());
        out[26..].copy_from_slice(&self.sequence.to_be_bytes());
        out
    }
}

/// What a change so many bytes before the end does to a CRC-32C.
pub struct Shift([[u32; 256]; 4]);

impl Shift {
    /// For changes that end `behind` bytes before the end.
    pub fn new(behind: usize) -> Shift {
        let mut table = [[0; 256]; 4];
        let mut bits = [0; 32];
        for (bit, value) in bits.iter_mut().enumerate() {
            *value = crc32c::crc32c_combine(1 << bit, 0, behind);
        }
        for (byte, row) in table.iter_mut().enumerate() {
            for (value, slot) in row.iter_mut().enumerate() {
                let set = (0..8).filter(|bit| value >> bit & 1 == 1);
                *slot = set.fold(0, |sum, bit| sum ^ bits[byte * 8 + bit]);
            }
        }
        Shift(table)
    }

    /// The difference of the checksums, for the difference of the bytes.
    pub fn difference(&self, bytes: &[u8]) -> u32 {
        // A register that begins at zero: the library begins and ends inverted.
        let raw = !crc32c::crc32c_append(!0, bytes);
        let [a, b, c, d] = raw.to_le_bytes().map(usize::from);
        self.0[0][a] ^ self.0[1][b] ^ self.0[2][c] ^ self.0[3][d]
    }
}

/// What the records of a batch hold.
#[derive(Clone, Debug)]
pub struct Content<'a> {
    /// One record each; `None`: a record without a key.
    pub keys: &'a [Option<[u8; 8]>],
    pub value_bytes: usize,
    /// How much of each value is random, from 0 to 1; the rest is zeros.
    pub random: f64,
    pub seed: u64,
    pub transactional: bool,
}

/// A batch that waits for its stamp.
pub struct Template {
    bytes: Arc<Vec<u8>>,
    codec: Codec,
    /// Records in it.
    pub records: u32,
    /// Checksum while the stamp and the fields are all zeros.
    pub crc_bare: u32,
    /// Where the bytes that the codec stores begin.
    head_at: usize,
    stamp_at: usize,
    fields: Arc<Shift>,
    stamp: Arc<Shift>,
}

impl Template {
    /// Builds one.
    ///
    /// # Errors
    /// When values cannot hold a stamp, without a record, and what the compressor says.
    pub fn build(content: &Content<'_>, codec: Codec) -> Result<Template> {
        ensure!(
            content.value_bytes >= STAMP_BYTES,
            "messages of {} bytes: each batch carries a stamp of {STAMP_BYTES} bytes in its first \
             message, by which it is known again",
            content.value_bytes
        );
        let records = i32::try_from(content.keys.len())?;
        ensure!(records > 0, "a batch without a record");
        let (raw, stamp_end) = content.records();
        let (head, rest) = raw.split_at(stamp_end);
        let (packed, at) = pack(codec, head, rest)?;
        let mut bytes = vec![0; HEADER_BYTES];
        bytes.extend_from_slice(&packed);
        let head_at = HEADER_BYTES + at;
        let stamp_at = head_at + stamp_end - STAMP_BYTES;
        let trailer_at = stamp_at + STAMP_BYTES;
        bytes[trailer_at..trailer_at + codec.trailer_bytes()].fill(0);
        bytes[8..12]
            .copy_from_slice(&i32::try_from(packed.len() + HEADER_BYTES - 12)?.to_be_bytes());
        bytes[12..16].copy_from_slice(&(-1i32).to_be_bytes());
        bytes[16] = 2;
        bytes[22] = codec as u8 | if content.transactional { TRANSACTIONAL } else { 0 };
        bytes[23..27].copy_from_slice(&(records - 1).to_be_bytes());
        bytes[57..61].copy_from_slice(&records.to_be_bytes());
        let crc_bare = crc32c::crc32c(&bytes[CRC_FROM..]);
        let behind = bytes.len() - trailer_at - codec.trailer_bytes();
        Ok(Template {
            fields: Arc::new(Shift::new(bytes.len() - FIELDS_END)),
            stamp: Arc::new(Shift::new(behind)),
            bytes: Arc::new(bytes),
            codec,
            records: records.unsigned_abs(),
            crc_bare,
            head_at,
            stamp_at,
        })
    }

    /// Bytes on the wire.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Never: a batch has at least its header.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Where the stamp stands.
    pub fn stamp_at(&self) -> usize {
        self.stamp_at
    }

    /// How many bytes differ from sending to sending, from [`Template::stamp_at`] on.
    pub fn stamp_bytes(&self) -> usize {
        STAMP_BYTES + self.codec.trailer_bytes()
    }

    /// Tables for the two places that differ: header fields, stamp.
    pub fn shifts(&self) -> (&Arc<Shift>, &Arc<Shift>) {
        (&self.fields, &self.stamp)
    }

    /// Appends the stamped front. [`Template::rest`] follows it.
    pub fn front(&self, fields: Fields, stamp: Stamp, out: &mut Vec<u8>) {
        let start = out.len();
        let end = self.stamp_at + self.stamp_bytes();
        out.extend_from_slice(&self.bytes[..end]);
        let front = &mut out[start..];
        let fields = fields.to_bytes();
        front[FIELDS_AT..FIELDS_END].copy_from_slice(&fields);
        let (before, behind) = front.split_at_mut(self.stamp_at);
        behind[..STAMP_BYTES].copy_from_slice(&stamp.to_bytes());
        if self.codec.trailer_bytes() > 0 {
            let trailer = self.codec.trailer(&[&before[self.head_at..], &behind[..STAMP_BYTES]]);
            behind[STAMP_BYTES..].copy_from_slice(&trailer);
        }
        let crc = self.crc_bare ^ self.fields.difference(&fields) ^ self.stamp.difference(behind);
        front[CRC_AT..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
    }

    /// The bytes that never change, and from where on.
    pub fn rest(&self) -> (&Arc<Vec<u8>>, usize) {
        (&self.bytes, self.stamp_at + self.stamp_bytes())
    }

    /// A whole batch.
    pub fn whole(&self, fields: Fields, stamp: Stamp) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len());
        self.front(fields, stamp, &mut out);
        let (bytes, from) = self.rest();
        out.extend_from_slice(&bytes[from..]);
        out
    }
}

impl Content<'_> {
    /// The records, and where the stamp of the first ends.
    fn records(&self) -> (Vec<u8>, usize) {
        let mut state = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let random = (self.value_bytes as f64 * self.random.clamp(0.0, 1.0)) as usize;
        let mut out = Vec::with_capacity((self.value_bytes + 24) * self.keys.len());
        let mut stamp_end = 0;
        let mut value = Vec::with_capacity(self.value_bytes);
        for (delta, key) in (0..).zip(self.keys) {
            value.clear();
            if delta == 0 {
                value.resize(STAMP_BYTES, 0);
            }
            while value.len() < random {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let left = (random - value.len()).min(8);
                value.extend_from_slice(&state.to_le_bytes()[..left]);
            }
            value.resize(self.value_bytes, 0);
            put_record(&mut out, delta, key.as_ref().map(<[u8; 8]>::as_slice), &value);
            if delta == 0 {
                // Behind the value stands only the number of headers, one byte.
                stamp_end = out.len() - 1 - self.value_bytes + STAMP_BYTES;
            }
        }
        (out, stamp_end)
    }
}
