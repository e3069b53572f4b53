use bytes::Bytes;
use proptest::prelude::*;

use super::testing::BatchBuilder;
use super::*;
use crate::limits::RECORD_BYTES_MIN;

fn parse(bytes: Bytes) -> Result<CheckedBatch, BatchError> {
    CheckedBatch::parse(bytes, Origin::Client)
}

fn good() -> BatchBuilder {
    BatchBuilder::of_values(["a", "b", "c"])
}

/// The bytes of a batch with one record, worked out by hand from the protocol page.
#[test]
fn header_is_read_where_the_protocol_puts_it() {
    let batch = BatchBuilder::of_values(["hi"]).from_producer(7, 1, 9).at_offset(5, 3).build();
    let golden: &[u8] = &[
        0, 0, 0, 0, 0, 0, 0, 5, // base offset
        0, 0, 0, 58, // length = 49 + 9
        0, 0, 0, 3, // leader epoch
        2, // magic
    ];
    assert_eq!(&batch[..17], golden);
    let rest: &[u8] = &[
        0, 0, // attributes
        0, 0, 0, 0, // last offset delta
        0, 0, 1, 0x8b, 0xcf, 0xe5, 0x68, 0, // base timestamp 1.7e12
        0, 0, 1, 0x8b, 0xcf, 0xe5, 0x68, 0, // max timestamp
        0, 0, 0, 0, 0, 0, 0, 7, // producer id
        0, 1, // producer epoch
        0, 0, 0, 9, // base sequence
        0, 0, 0, 1, // count
        16, 0, 0, 0, 1, 4, b'h', b'i', 0, // the record
    ];
    assert_eq!(&batch[21..], rest);
    let header = RecordBatchHeader::view(&batch).expect("61 bytes");
    assert_eq!(header.base_offset(), Some(Offset::at(5)));
    assert_eq!(header.next_offset(), Some(Offset::at(6)));
    assert_eq!(header.total_bytes(), Some(batch.len()));
    assert_eq!(header.leader_epoch(), Some(LeaderEpoch::at(3)));
    assert_eq!(header.crc(), crc_of(&batch));
    let producer = header.producer().expect("a producer");
    assert_eq!((producer.id.get(), producer.epoch.get()), (7, 1));
    assert_eq!(producer.first, Sequence::new(9));
}

#[test]
fn good_batch_passes_and_keeps_its_bytes() {
    let bytes = good().build();
    let batch = parse(bytes.clone()).expect("a good batch");
    assert_eq!(batch.bytes(), &bytes);
    assert_eq!(batch.record_count(), 3);
    assert_eq!(batch.codec(), Codec::None);
}

#[test]
fn records_field_must_hold_exactly_one_batch() {
    let one = good().build();
    assert_eq!(parse(Bytes::new()).unwrap_err(), BatchError::Empty);
    let two = Bytes::from([&one[..], &one[..]].concat());
    assert_eq!(parse(two).unwrap_err(), BatchError::MoreThanOne { extra: one.len() });
    let tail = Bytes::from([&one[..], &[0]].concat());
    assert_eq!(parse(tail).unwrap_err(), BatchError::MoreThanOne { extra: 1 });
    for cut in 1..one.len() {
        let error = parse(one.slice(..cut)).unwrap_err();
        assert!(matches!(error, BatchError::Truncated { got, .. } if got == cut), "{cut}: {error}");
    }
}

#[test]
fn impossible_lengths_and_formats_are_told_apart() {
    let mut short = good().build().to_vec();
    short[at::LENGTH..at::LEADER_EPOCH].copy_from_slice(&13i32.to_be_bytes());
    assert_eq!(parse(short.into()).unwrap_err(), BatchError::Length { length: 13 });
    let mut negative = good().build().to_vec();
    negative[at::LENGTH..at::LEADER_EPOCH].copy_from_slice(&(-1i32).to_be_bytes());
    assert_eq!(parse(negative.into()).unwrap_err(), BatchError::Length { length: -1 });
    let mut header_cut = good().build().to_vec();
    header_cut[at::LENGTH..at::LEADER_EPOCH].copy_from_slice(&48i32.to_be_bytes());
    assert_eq!(parse(header_cut.into()).unwrap_err(), BatchError::TooShort { total: 60 });
    let old = BatchBuilder { magic: 1, ..good() }.build();
    assert_eq!(parse(old).unwrap_err(), BatchError::OldMagic { magic: 1 });
    let new = BatchBuilder { magic: 3, ..good() }.build();
    assert_eq!(parse(new).unwrap_err(), BatchError::UnknownMagic { magic: 3 });
    let minus = BatchBuilder { magic: 0xff, ..good() }.build();
    assert_eq!(parse(minus).unwrap_err(), BatchError::UnknownMagic { magic: 0xff });
}

#[test]
fn any_flipped_bit_under_the_crc_is_seen() {
    let bytes = good().build();
    for at in at::CRC..bytes.len() {
        let mut flipped = bytes.to_vec();
        flipped[at] ^= 0x10;
        assert!(matches!(parse(flipped.into()), Err(BatchError::Crc { .. })), "byte {at}");
    }
}

#[test]
fn each_broken_rule_has_its_own_error() {
    let cases: Vec<(BatchBuilder, BatchError)> = vec![
        (good().at_offset(1, -1), BatchError::BaseOffset { base_offset: 1 }),
        (BatchBuilder { attributes: 5, ..good() }, BatchError::UnknownCodec { codec: 5 }),
        (BatchBuilder { attributes: 0x80, ..good() }, BatchError::Attributes { bits: 0x80 }),
        (BatchBuilder { attributes: 0x40, ..good() }, BatchError::Attributes { bits: 0x40 }),
        (BatchBuilder { attributes: 0x20, ..good() }, BatchError::Control),
        (BatchBuilder { attributes: 0x08, ..good() }, BatchError::LogAppendTime),
        (BatchBuilder { record_count: Some(0), ..good() }, BatchError::Count { count: 0 }),
        (BatchBuilder { record_count: Some(-1), ..good() }, BatchError::Count { count: -1 }),
        (
            BatchBuilder { record_count: Some(4), ..good() },
            BatchError::CountMismatch { count: 4, last_offset_delta: 2 },
        ),
        (
            BatchBuilder { last_offset_delta: Some(-1), ..good() },
            BatchError::CountMismatch { count: 3, last_offset_delta: -1 },
        ),
        (
            BatchBuilder {
                record_count: Some(i32::MAX),
                last_offset_delta: Some(i32::MAX - 1),
                ..good()
            },
            BatchError::CountImpossible { count: i32::MAX, payload: 3 * (RECORD_BYTES_MIN + 1) },
        ),
        (good().from_producer(-2, 0, 0), BatchError::Producer { id: -2, epoch: 0 }),
        (good().from_producer(4, -1, 0), BatchError::Producer { id: 4, epoch: -1 }),
        (good().from_producer(4, 0, -1), BatchError::Sequence { sequence: -1 }),
        (BatchBuilder { attributes: 0x10, ..good() }, BatchError::TransactionalWithoutProducer),
    ];
    for (builder, expected) in cases {
        assert_eq!(parse(builder.build()).unwrap_err(), expected);
    }
}

#[test]
fn coordinator_may_write_control_batches() {
    let marker = BatchBuilder { attributes: 0x30, ..good() }.from_producer(4, 0, -1).build();
    assert_eq!(parse(marker.clone()).unwrap_err(), BatchError::Control);
    CheckedBatch::parse(marker, Origin::Coordinator).expect("a marker of our own");
}

#[test]
fn placing_a_batch_leaves_its_crc_valid() {
    let mut bytes = good().build().to_vec();
    stamp::place(&mut bytes, Offset::at(77), LeaderEpoch::at(5));
    let header = stored::whole(&bytes).expect("still whole");
    assert_eq!(header.base_offset(), Some(Offset::at(77)));
    assert_eq!(header.leader_epoch(), Some(LeaderEpoch::at(5)));
    assert_eq!(header.next_offset(), Some(Offset::at(80)));
}

#[test]
fn append_time_stamp_sets_type_and_time_under_a_valid_crc() {
    let mut bytes = good().build().to_vec();
    let base = RecordBatchHeader::view(&bytes).map(|h| h.base_timestamp());
    stamp::log_append_time(&mut bytes, TimestampMs::new(42));
    let header = stored::whole(&bytes).expect("summed up again");
    assert_eq!(header.max_timestamp(), TimestampMs::new(42));
    assert_eq!(header.attributes().timestamp_type(), TimestampType::LogAppendTime);
    assert_eq!(Some(header.base_timestamp()), base);
}

#[test]
fn stored_rules_refuse_zeros_and_allow_compacted_batches() {
    use stored::StoredError;
    assert_eq!(stored::whole(&[0; 4096]).unwrap_err(), StoredError::Magic { magic: 0 });
    let compacted = BatchBuilder { last_offset_delta: Some(9), ..good() }.at_offset(10, 0);
    let bytes = compacted.build();
    let header = stored::whole(&bytes).expect("records may be gone");
    assert_eq!(header.next_offset(), Some(Offset::at(20)));
    let backwards = BatchBuilder { last_offset_delta: Some(-1), ..good() }.build();
    assert!(matches!(stored::frame(&backwards), Err(StoredError::Offsets { .. })));
    let overflow = good().at_offset(i64::MAX, 0).build();
    assert!(matches!(stored::frame(&overflow), Err(StoredError::Offsets { .. })));
}

proptest! {
    #[test]
    fn no_bytes_make_the_door_panic(bytes: Vec<u8>) {
        let _ = parse(bytes.clone().into());
        let _ = stored::whole(&bytes);
    }

    #[test]
    fn no_damaged_batch_makes_the_door_panic(at in 0usize..61, byte: u8, resum: bool) {
        let mut bytes = good().build().to_vec();
        bytes[at] = byte;
        if resum {
            let crc = crc_of(&bytes);
            bytes[at::CRC..at::ATTRIBUTES].copy_from_slice(&crc.to_be_bytes());
        }
        let _ = stored::whole(&bytes);
        if let Ok(batch) = parse(bytes.into()) {
            prop_assert!(batch.record_count() >= 1);
            let _ = (batch.codec(), batch.producer(), batch.max_timestamp());
        }
    }
}
