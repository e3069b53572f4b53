use super::super::codec_error::{DecodeError, EncodeError};
use super::super::reader::{DECODED_BYTES_FLOOR, DECODED_BYTES_RATIO, Reader};
use super::super::writer::Writer;
use super::Uuid;

fn uvarint(bytes: &[u8]) -> Result<u32, DecodeError> {
    Reader::new(bytes).unsigned_varint()
}

fn written(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::new();
    write(&mut writer);
    writer.into_bytes()
}

#[test]
fn numbers_are_big_endian_and_round_trip() {
    let bytes = written(|w| {
        w.bool(true);
        w.i8(-2);
        w.i16(-3);
        w.u16(0xfffe);
        w.i32(-4);
        w.u32(0xffff_fffd);
        w.i64(-5);
        w.f64(1.5);
        w.uuid(Uuid([7; 16]));
    });
    assert_eq!(bytes[..6], [1, 0xfe, 0xff, 0xfd, 0xff, 0xfe]);
    let mut r = Reader::new(&bytes);
    assert_eq!((r.bool(), r.i8(), r.i16()), (Ok(true), Ok(-2), Ok(-3)));
    assert_eq!((r.u16(), r.i32(), r.u32()), (Ok(0xfffe), Ok(-4), Ok(0xffff_fffd)));
    assert_eq!((r.i64(), r.f64(), r.uuid()), (Ok(-5), Ok(1.5), Ok(Uuid([7; 16]))));
    assert_eq!(r.remaining(), 0);
}

#[test]
fn varints_round_trip_at_every_edge() {
    for value in [0u32, 1, 127, 128, 16_383, 16_384, 1 << 21, 1 << 28, u32::MAX] {
        let bytes = written(|w| w.unsigned_varint(value));
        assert_eq!(uvarint(&bytes), Ok(value));
    }
    for value in [0i32, -1, 1, 63, -64, 64, i32::MAX, i32::MIN] {
        let bytes = written(|w| w.varint(value));
        assert_eq!(Reader::new(&bytes).varint(), Ok(value));
    }
    for value in [0i64, -1, 1, 1 << 40, i64::MAX, i64::MIN] {
        let bytes = written(|w| w.varlong(value));
        assert_eq!(Reader::new(&bytes).varlong(), Ok(value));
    }
}

#[test]
fn over_long_varints_are_refused() {
    let too_long = DecodeError::VarintTooLong { offset: 0, expected_bytes_max: 5 };
    assert_eq!(uvarint(&[0x80; 6]), Err(too_long));
    assert_eq!(uvarint(&[0x80, 0x80, 0x80, 0x80, 0x01]), Ok(1 << 28));
    let too_long = DecodeError::VarintTooLong { offset: 0, expected_bytes_max: 10 };
    assert_eq!(Reader::new(&[0xff; 11]).varlong(), Err(too_long));
}

#[test]
fn negative_lengths_are_null_and_null_is_refused_where_it_must_not_be() {
    let classic = [0xff, 0xff, 0xff, 0xff];
    assert_eq!(Reader::new(&classic).nullable_string(false), Ok(None));
    assert_eq!(Reader::new(&classic).nullable_bytes(false), Ok(None));
    assert_eq!(Reader::new(&classic).count(false), Ok(None));
    // Compact: 0 is null; so is a varint that wraps below zero.
    for compact in [&[0][..], &[0xff, 0xff, 0xff, 0xff, 0x0f][..]] {
        assert_eq!(Reader::new(compact).nullable_string(true), Ok(None));
        assert_eq!(Reader::new(compact).nullable_bytes(true), Ok(None));
        assert_eq!(Reader::new(compact).count(true), Ok(None));
    }
    let null = |offset, expected| DecodeError::UnexpectedNull { offset, expected };
    assert_eq!(Reader::new(&classic).string(false), Err(null(2, "a string")));
    assert_eq!(Reader::new(&[0]).bytes(true), Err(null(1, "bytes")));
}

#[test]
fn lengths_beyond_the_frame_are_refused() {
    let declared = i32::MAX.to_be_bytes();
    let mut reader = Reader::new(&declared);
    let beyond =
        DecodeError::CountBeyondFrame { offset: 0, expected_max: 0, got: i32::MAX as usize };
    assert_eq!(reader.count(false), Err(beyond));
    assert_eq!(
        Reader::new(&declared).bytes(false),
        Err(DecodeError::Truncated { offset: 4, expected: i32::MAX as usize, got: 0 })
    );
    assert_eq!(
        Reader::new(&[0, 9, b'x']).string(false),
        Err(DecodeError::Truncated { offset: 2, expected: 9, got: 1 })
    );
}

#[test]
fn strings_are_at_most_32767_bytes_of_utf8() {
    let mut bytes = written(|w| w.unsigned_varint(0x8001));
    bytes.resize(0x9000, b'a');
    assert_eq!(
        Reader::new(&bytes).string(true),
        Err(DecodeError::StringTooLong { offset: 0, expected_max: 0x7fff, got: 0x8000 })
    );
    assert_eq!(
        Reader::new(&[0, 3, b'a', 0xff, b'b']).string(false),
        Err(DecodeError::NotUtf8 { offset: 3, got: 0xff })
    );
    let long = "a".repeat(0x8000);
    let refused = Writer::new().nullable_string(Some(&long), true);
    assert_eq!(
        refused,
        Err(EncodeError::TooLong { what: "a string", expected_max: 0x7fff, got: 0x8000 })
    );
}

#[test]
fn arrays_cost_at_most_the_budget() {
    // One-byte elements (empty compact strings) of 16 bytes each: twice the ratio of 8.
    let count = 1 << 20;
    let mut frame = written(|w| w.unsigned_varint(count + 1));
    frame.resize(frame.len() + count as usize, 1);
    let decoded = Reader::new(&frame).nullable_array(true, |r| r.string(true));
    match decoded {
        Err(DecodeError::BudgetExhausted { expected_max, got, .. }) => {
            assert_eq!(expected_max, frame.len() * DECODED_BYTES_RATIO + DECODED_BYTES_FLOOR);
            assert!(got > expected_max);
        }
        other => panic!("decoded {:?} elements", other.map(|array| array.map(|array| array.len()))),
    }
    // The same elements in a short frame fit the floor.
    let decoded = Reader::new(&[4, 1, 1, 1]).nullable_array(true, |r| r.string(true));
    assert_eq!(decoded, Ok(Some(vec!["", "", ""])));
}

#[test]
fn unknown_tagged_fields_are_skipped_and_known_ones_measured() {
    let frame = [3, 5, 2, 0xaa, 0xbb, 6, 1, 42, 9, 0, 0x77];
    let mut found = None;
    let mut reader = Reader::new(&frame);
    reader
        .tagged_fields(|tag, reader| {
            if tag == 6 {
                found = Some(reader.i8()?);
            }
            Ok(tag == 6)
        })
        .unwrap();
    assert_eq!((found, reader.remaining()), (Some(42), 1));

    let mut reader = Reader::new(&[1, 6, 2, 42, 42]);
    let refused = reader.tagged_fields(|_, reader| reader.i8().map(|_| true));
    let wrong = DecodeError::TaggedFieldLength { offset: 3, tag: 6, expected: 2, got: 1 };
    assert_eq!(refused, Err(wrong));

    // A known field cannot read beyond its own length.
    let mut reader = Reader::new(&[1, 6, 1, 42, 42]);
    let refused = reader.tagged_fields(|_, reader| reader.i16().map(|_| true));
    assert_eq!(refused, Err(DecodeError::Truncated { offset: 3, expected: 2, got: 1 }));
}

#[test]
fn tagged_fields_of_any_length_carry_their_length_in_front() {
    for len in [0usize, 1, 127, 128, 20_000] {
        let payload = vec![0x5a; len];
        let bytes = written(|w| {
            w.u8(1);
            w.tagged_field(300, |w| {
                w.raw(&payload);
                Ok(())
            })
            .unwrap();
        });
        let mut seen = None;
        Reader::new(&bytes)
            .tagged_fields(|tag, reader| {
                seen = Some((tag, reader.take(len)?));
                Ok(true)
            })
            .unwrap();
        assert_eq!(seen, Some((300, &payload[..])));
    }
}

#[test]
#[should_panic(expected = "kept elsewhere")]
fn bytes_with_holes_cannot_be_taken_for_whole() {
    let mut writer = Writer::new();
    writer.cut(10);
    writer.into_bytes();
}

#[test]
fn uuids_print_in_the_usual_groups() {
    let uuid = Uuid([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
    assert_eq!(format!("{uuid:?}"), "00010203-0405-0607-0809-0a0b0c0d0e0f");
    assert!(Uuid::default().is_zero() && !uuid.is_zero());
}
