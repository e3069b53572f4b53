use proptest::prelude::*;

use super::*;
use crate::batch::testing::{BatchBuilder, TestRecord};
use crate::batch::{CheckedBatch, Codec, Origin, stamp, stored};
use crate::records::recompress::recompress;
use crate::units::{LeaderEpoch, Offset};

const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
const NEVER: Rewrite = Rewrite { horizon: TimestampMs::new(5_000_000), always: false };

/// Everything a consumer sees of a record.
type Plain = (i64, i64, Option<Vec<u8>>, Option<Vec<u8>>, Vec<u8>, u32);

fn records_of(batch: &[u8]) -> Vec<Plain> {
    let mut reader = Records::open(batch, Keep::All).unwrap();
    let mut out = Vec::new();
    while let Some(r) = reader.next_record().unwrap() {
        let (key, value) = (r.key.map(<[u8]>::to_vec), r.value.map(<[u8]>::to_vec));
        out.push((
            r.offset.get(),
            r.timestamp.get(),
            key,
            value,
            r.header_bytes.to_vec(),
            r.headers,
        ));
    }
    out
}

/// As it stands in a log: stamped.
fn placed(builder: &BatchBuilder, codec: Codec, base: i64) -> Vec<u8> {
    let plain = CheckedBatch::parse(builder.build(), Origin::Coordinator).unwrap();
    let mut batch = recompress(&plain, codec.into(), None, u64::MAX).unwrap().bytes().to_vec();
    stamp::place(&mut batch, Offset::at(base), LeaderEpoch::at(3));
    batch
}

fn some_record() -> impl Strategy<Value = TestRecord> {
    let bytes = || prop::option::of(prop::collection::vec(any::<u8>(), 0..40));
    let header = (prop::collection::vec(any::<u8>(), 0..5), bytes());
    let headers = prop::collection::vec(header, 0..3);
    (-50_i64..50, bytes(), bytes(), headers).prop_map(|(timestamp_delta, key, value, headers)| {
        TestRecord { timestamp_delta, key, value, headers }
    })
}

proptest! {
    /// What stays is, record by record, what stood there: at its offset, with its time, key, value and
    /// headers, under every codec, also when the batch is rewritten again.
    #[test]
    fn records_that_stay_are_what_they_were(
        records in prop::collection::vec(some_record(), 1..12),
        (mask, again) in (any::<u16>(), any::<u16>()),
        codec in prop::sample::select(CODECS.to_vec()),
        append_time in any::<bool>(),
        (base, horizon) in (0..1_i64 << 40, 0..1_i64 << 42),
    ) {
        let builder = BatchBuilder { records, ..Default::default() }.from_producer(7, 2, 40);
        let mut batch = placed(&builder, codec, base);
        if append_time {
            stamp::log_append_time(&mut batch, TimestampMs::new(77));
        }
        let mut due = records_of(&batch);
        let mut horizon_due = None;
        for mask in [mask, again] {
            let how = Rewrite { horizon: TimestampMs::new(horizon), always: false };
            let keep = |record: &Record<'_>| mask >> (record.offset.get() - base) & 1 == 1;
            let before = due.clone();
            due.retain(|r| mask >> (r.0 - base) & 1 == 1);
            let tombstones = due.iter().any(|r| r.3.is_none());
            let sets = tombstones && horizon_due.is_none();
            match rewrite(&batch, how, keep).unwrap() {
                Rewritten::AsItWas => prop_assert!(before == due && !sets),
                Rewritten::Nothing => {
                    prop_assert!(due.is_empty());
                    batch = without_records(&batch, true);
                }
                Rewritten::Batch(new) => {
                    prop_assert!(!due.is_empty() && (before != due || sets));
                    batch = new;
                    horizon_due = horizon_due.or(sets.then_some(horizon));
                }
            }
            let header = stored::whole(&batch).unwrap();
            prop_assert_eq!(records_of(&batch), due.clone());
            prop_assert_eq!(header.base_offset_raw(), base);
            prop_assert_eq!(header.last_offset_delta() as usize, builder.records.len() - 1);
            prop_assert_eq!(header.leader_epoch_raw(), 3);
            let producer = header.producer().unwrap();
            prop_assert_eq!((producer.id.get(), producer.first.unwrap().get()), (7, 40));
            if due.is_empty() {
                break;
            }
            prop_assert_eq!(header.attributes().has_delete_horizon(), horizon_due.is_some());
            if let Some(horizon) = horizon_due {
                prop_assert_eq!(header.base_timestamp().get(), horizon);
            }
            let latest = due.iter().map(|r| r.1).max().unwrap();
            prop_assert!(header.max_timestamp().get() == latest);
        }
    }
}

#[test]
fn batch_of_which_all_stays_keeps_every_byte() {
    let batch = placed(&BatchBuilder::of_values(["a", "b"]), Codec::Lz4, 10);
    assert_eq!(rewrite(&batch, NEVER, |_| true), Ok(Rewritten::AsItWas));
}

#[test]
fn marker_gets_a_horizon_when_that_is_asked_for_and_only_once() {
    let control = Attributes::CONTROL | Attributes::TRANSACTIONAL;
    let builder = BatchBuilder { attributes: control, ..BatchBuilder::of_values(["m"]) };
    let batch = placed(&builder.from_producer(9, 1, -1), Codec::None, 10);
    let always = Rewrite { always: true, ..NEVER };
    let Ok(Rewritten::Batch(with)) = rewrite(&batch, always, |_| true) else {
        panic!("no horizon was set");
    };
    let header = stored::whole(&with).unwrap();
    assert!(header.attributes().has_delete_horizon() && header.attributes().is_control());
    assert_eq!(header.base_timestamp(), NEVER.horizon);
    let later = Rewrite { horizon: TimestampMs::new(9_000_000), always: true };
    assert_eq!(rewrite(&with, later, |_| true), Ok(Rewritten::AsItWas));
}

#[test]
fn batch_without_records_tells_of_its_producer_and_its_offsets() {
    let attributes = Attributes::TRANSACTIONAL;
    let builder = BatchBuilder { attributes, ..BatchBuilder::of_values(["a", "b", "c"]) };
    let batch = placed(&builder.from_producer(9, 1, 30), Codec::Zstd, 100);
    let empty = without_records(&batch, true);
    let header = stored::whole(&empty).unwrap();
    assert_eq!((empty.len(), header.record_count()), (BATCH_HEADER_BYTES, 0));
    assert_eq!(header.next_offset(), Some(Offset::at(103)));
    assert_eq!(header.producer(), header_of(&batch).producer());
    assert_eq!(header.attributes().bits(), Attributes::TRANSACTIONAL, "no codec is left");
    assert_eq!(header.max_timestamp(), TimestampMs::NONE);
    assert_eq!(records_of(&empty), []);
    let nobodys = without_records(&batch, false);
    let header = stored::whole(&nobodys).unwrap();
    assert_eq!((header.next_offset(), header.producer()), (Some(Offset::at(103)), None));
    assert_eq!((header.attributes().bits(), header.base_sequence_raw()), (0, -1));
}
