//! Batches that come back: whole, unchanged, and whose they are. One pass over the bytes for the
//! checksum, as any client makes it; whether the content is one that was sent follows from the
//! checksum alone, with the stamp and the header fields taken out of it.

use std::collections::HashMap;
use std::sync::Arc;

use super::template::{FIELDS_AT, FIELDS_END, STAMP_BYTES, Shift, Stamp, Template};
use super::{CRC_AT, CRC_FROM, HEADER_BYTES, array, i32_at};

/// All that may come back in one run. Shared by the threads that read.
#[derive(Default)]
pub struct Known {
    run: u32,
    stamp_at: usize,
    stamp_bytes: usize,
    /// By the length of the batch.
    lots: HashMap<usize, Lot>,
}

struct Lot {
    fields: Arc<Shift>,
    stamp: Arc<Shift>,
    /// Bare checksum -> records.
    bare: HashMap<u32, u32>,
}

/// A batch at the front of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub base_offset: i64,
    pub records: u32,
    /// Bytes of the batch.
    pub length: usize,
    pub producer_id: i64,
    /// Whether its transaction still has to be committed for it to count.
    pub transactional: bool,
    pub what: What,
}

/// What a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// One of ours, whole.
    Ours(Stamp),
    /// The end of a transaction; `true` when it was committed.
    Marker(bool),
    /// Sent by another run, or by nobody.
    Foreign,
    /// Its bytes are not what its checksum says, or it is no batch of version 2.
    Corrupt,
}

impl Known {
    /// Nothing yet, for the batches of one run.
    pub fn new(run: u32) -> Known {
        Known { run, ..Known::default() }
    }

    /// Adds what may come back.
    ///
    /// # Panics
    /// When its stamp stands elsewhere than in those before it.
    pub fn add(&mut self, template: &Template) {
        let place = (template.stamp_at(), template.stamp_bytes());
        assert!(
            self.lots.is_empty() || place == (self.stamp_at, self.stamp_bytes),
            "the stamp stands at {place:?} and at {:?}",
            (self.stamp_at, self.stamp_bytes)
        );
        (self.stamp_at, self.stamp_bytes) = place;
        let (fields, stamp) = template.shifts();
        let lot = self.lots.entry(template.len()).or_insert_with(|| Lot {
            fields: Arc::clone(fields),
            stamp: Arc::clone(stamp),
            bare: HashMap::new(),
        });
        lot.bare.insert(template.crc_bare, template.records);
    }

    /// The batch in front, once all of it is there.
    pub fn first(&self, bytes: &[u8]) -> Option<Found> {
        if bytes.len() < HEADER_BYTES {
            return None;
        }
        let length = usize::try_from(i32_at(bytes, 8)).unwrap_or(0) + 12;
        if length > bytes.len() {
            return None;
        }
        let mut found = Found {
            base_offset: i64::from_be_bytes(array(bytes, 0)),
            records: i32_at(bytes, 23).saturating_add(1).unsigned_abs().max(1),
            length: length.max(HEADER_BYTES),
            producer_id: i64::from_be_bytes(array(bytes, 43)),
            transactional: bytes[22] & 0x10 != 0,
            what: What::Corrupt,
        };
        if length >= HEADER_BYTES && bytes[16] == 2 {
            found.what = self.judge(&bytes[..length], found.records);
        }
        Some(found)
    }

    fn judge(&self, batch: &[u8], records: u32) -> What {
        let stored = u32::from_be_bytes(array(batch, CRC_AT));
        if stored != crc32c::crc32c(&batch[CRC_FROM..])
            || i32_at(batch, 57).unsigned_abs() != records
        {
            return What::Corrupt;
        }
        if batch[22] & 0x20 != 0 {
            // Length, attributes, two deltas, length of the key, version, type: all of one byte but
            // the last two, which have two.
            return What::Marker(batch.get(HEADER_BYTES + 8) == Some(&1));
        }
        let Some(lot) = self.lots.get(&batch.len()) else { return What::Foreign };
        let patch = &batch[self.stamp_at..self.stamp_at + self.stamp_bytes];
        let bare = stored
            ^ lot.fields.difference(&batch[FIELDS_AT..FIELDS_END])
            ^ lot.stamp.difference(patch);
        let stamp = Stamp::from_bytes(&array::<STAMP_BYTES>(patch, 0));
        if lot.bare.get(&bare) == Some(&records) && stamp.run == self.run {
            What::Ours(stamp)
        } else {
            What::Foreign
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::codec::Codec;
    use super::super::template::{Content, Fields};
    use super::*;

    fn content(keys: &[Option<[u8; 8]>], seed: u64) -> Content<'_> {
        Content { keys, value_bytes: 100, random: 0.5, seed, transactional: false }
    }

    fn stamp(number: u64) -> Stamp {
        Stamp { run: 7, producer: 3, number, due_ns: 123_456_789 }
    }

    const FIELDS: Fields = Fields {
        timestamp_ms: 1_700_000_000_000,
        producer_id: 4000,
        producer_epoch: 2,
        sequence: 77,
    };

    #[test]
    fn a_stamped_batch_is_known_again_in_every_codec_and_length() {
        for codec in Codec::ALL {
            let mut known = Known::new(7);
            let templates: Vec<Template> = [1usize, 5, 3000]
                .iter()
                .map(|records| {
                    let keys = vec![Some(*b"8 bytes."); *records];
                    Template::build(&content(&keys, *records as u64), codec).unwrap()
                })
                .collect();
            for template in &templates {
                known.add(template);
            }
            for (number, template) in (0..).zip(&templates) {
                for fields in [FIELDS, Fields::plain(5)] {
                    let bytes = template.whole(fields, stamp(number));
                    let found = known.first(&bytes).unwrap();
                    assert_eq!(found.what, What::Ours(stamp(number)), "{codec:?}");
                    assert_eq!((found.records, found.length), (template.records, bytes.len()));
                    assert_eq!(found.producer_id, fields.producer_id);
                }
            }
        }
    }

    #[test]
    fn every_flipped_bit_another_run_and_another_content_are_noticed() {
        let keys = [None; 2];
        let template = Template::build(&content(&keys, 1), Codec::None).unwrap();
        let mut known = Known::new(7);
        known.add(&template);
        let good = template.whole(FIELDS, stamp(9));
        for bit in 16 * 8..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(known.first(&bad).unwrap().what, What::Corrupt, "bit {bit}");
        }
        let elsewhere = template.whole(FIELDS, Stamp { run: 8, ..stamp(9) });
        assert_eq!(known.first(&elsewhere).unwrap().what, What::Foreign);
        let other = Template::build(&content(&keys, 2), Codec::None).unwrap();
        let other = other.whole(FIELDS, stamp(9));
        assert_eq!(known.first(&other).unwrap().what, What::Foreign);
        assert_eq!(known.first(&good[..good.len() - 1]), None, "the end is not there yet");
    }

    #[test]
    fn compressed_batches_are_legal_and_hold_the_records_of_plain_ones() {
        let keys = [Some(*b"abcdefgh"), Some(*b"hgfedcba")];
        let template = Template::build(&content(&keys, 1), Codec::None).unwrap();
        let bytes = template.whole(Fields::plain(1), stamp(1));
        let mut values = Vec::new();
        super::super::walk(&bytes, 0, |seen| {
            values = seen.values().map(|value| value.unwrap().to_vec()).collect();
            Ok(())
        })
        .unwrap();
        assert_eq!(values.len(), 2);
        assert_eq!(values[0][..STAMP_BYTES], stamp(1).to_bytes());
        assert!(values.iter().all(|value| value.len() == 100));
    }

    #[test]
    fn the_end_of_a_transaction_is_no_data() {
        // As Apache Kafka writes it: key (version 0, type), value (version 0, coordinator epoch 0).
        let record = [0x20u8, 0, 0, 0, 8, 0, 0, 0, 1, 12, 0, 0, 0, 0, 0, 0, 0];
        let mut batch = vec![0; HEADER_BYTES];
        batch.extend_from_slice(&record);
        let length = i32::try_from(batch.len() - 12).unwrap();
        batch[8..12].copy_from_slice(&length.to_be_bytes());
        batch[16] = 2;
        batch[22] = 0x30;
        batch[60] = 1;
        for (kind, committed) in [(1, true), (0, false)] {
            batch[HEADER_BYTES + 8] = kind;
            let crc = crc32c::crc32c(&batch[CRC_FROM..]);
            batch[CRC_AT..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
            let found = Known::new(7).first(&batch).unwrap();
            assert_eq!(found.what, What::Marker(committed));
        }
    }
}
