use std::io::Write;

use proptest::prelude::*;

use super::lookup::{Found, first_at_or_after, largest_timestamp};
use super::recompress::{Compression, recompress};
use super::validate::{BadRecord, DeepError, Fault, Rules, validate};
use super::*;
use crate::batch::testing::{BatchBuilder, TestRecord, put_varlong};
use crate::batch::{Attributes, CheckedBatch, Origin};

const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

fn record(delta: i64, key: Option<&str>, value: Option<&str>) -> TestRecord {
    let bytes = |text: &str| text.as_bytes().to_vec();
    TestRecord {
        timestamp_delta: delta,
        key: key.map(bytes),
        value: value.map(bytes),
        headers: vec![(b"h".to_vec(), None), (Vec::new(), Some(b"x".to_vec()))],
    }
}

fn sample() -> BatchBuilder {
    let records = vec![
        record(5, Some("k0"), Some("v0")),
        record(-3, None, Some("")),
        record(9, Some(""), None),
        record(9, Some("k3"), Some("v3")),
    ];
    BatchBuilder { records, base_timestamp: 1000, ..Default::default() }
}

/// The payload of a batch under a codec, made by the codec's library and not by our own sink.
fn compress(codec: Codec, plain: &[u8]) -> Vec<u8> {
    match codec {
        Codec::None => plain.to_vec(),
        Codec::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        Codec::Snappy => snap::raw::Encoder::new().compress_vec(plain).unwrap(),
        Codec::Lz4 => {
            let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        }
        Codec::Zstd => zstd::stream::encode_all(plain, 3).unwrap(),
    }
}

fn under(codec: Codec, builder: BatchBuilder) -> BatchBuilder {
    let payload = compress(codec, &builder.encode_records());
    builder.compressed(codec, payload)
}

fn checked(builder: &BatchBuilder) -> CheckedBatch {
    CheckedBatch::parse(builder.build(), Origin::Client).unwrap()
}

fn read(batch: &[u8], keep: Keep) -> Result<Vec<TestRecord>, RecordsError> {
    let base = RecordBatchHeader::view(batch).unwrap().base_timestamp();
    let mut records = Records::open(batch, keep)?;
    let mut all = Vec::new();
    while let Some(record) = records.next_record()? {
        let kept = headers(record.header_bytes, record.headers);
        all.push(TestRecord {
            timestamp_delta: record.timestamp.since_ms(base),
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            headers: kept.map(|(k, v)| (k.to_vec(), v.map(<[u8]>::to_vec))).collect(),
        });
    }
    Ok(all)
}

#[test]
fn records_of_every_codec_come_back_whole() {
    for codec in CODECS {
        let batch = under(codec, sample()).at_offset(100, 1).build();
        assert_eq!(read(&batch, Keep::All).unwrap(), sample().records, "{codec}");
        let mut records = Records::open(&batch, Keep::Keys).unwrap();
        let first = records.next_record().unwrap().unwrap();
        assert_eq!((first.offset, first.timestamp), (Offset::at(100), TimestampMs::new(1005)));
        assert_eq!((first.key, first.value), (Some(&b"k0"[..]), None));
        assert_eq!((first.key_bytes, first.value_bytes, first.headers), (Some(2), Some(2), 2));
        let second = records.next_record().unwrap().unwrap();
        assert_eq!((second.key_bytes, second.value_bytes), (None, Some(0)));
    }
}

#[test]
fn java_framing_of_snappy_is_read_block_by_block() {
    let plain = sample().encode_records();
    let mut payload = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
    for block in plain.chunks(7) {
        let block = snap::raw::Encoder::new().compress_vec(block).unwrap();
        payload.extend_from_slice(&(block.len() as u32).to_be_bytes());
        payload.extend_from_slice(&block);
    }
    let batch = sample().compressed(Codec::Snappy, payload).build();
    assert_eq!(read(&batch, Keep::All).unwrap(), sample().records);
}

#[test]
fn foreign_dresses_of_lz4_and_zstd_are_read() {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    let values: Vec<_> = (0..2000).map(|i| format!("value {i} and some more of it")).collect();
    let builder = BatchBuilder::of_values(&values);
    let plain = builder.encode_records();
    for mode in [BlockMode::Independent, BlockMode::Linked] {
        let info = FrameInfo::new()
            .block_mode(mode)
            .block_size(BlockSize::Max64KB)
            .content_checksum(true)
            .block_checksums(true);
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(&plain).unwrap();
        let payload = encoder.finish().unwrap();
        let batch = builder.clone().compressed(Codec::Lz4, payload).build();
        assert_eq!(read(&batch, Keep::All).unwrap(), builder.records);
    }
    let mut frames = Vec::new();
    for piece in plain.chunks(10_000) {
        frames.extend(zstd::stream::encode_all(piece, 19).unwrap());
    }
    let batch = builder.clone().compressed(Codec::Zstd, frames).build();
    assert_eq!(read(&batch, Keep::All).unwrap(), builder.records);
}

#[test]
fn log_append_time_is_every_record_s_time() {
    let attributes = Attributes::LOG_APPEND_TIME;
    let batch = BatchBuilder { attributes, max_timestamp: Some(77), ..sample() }.build();
    let mut records = Records::open(&batch, Keep::Nothing).unwrap();
    while let Some(record) = records.next_record().unwrap() {
        assert_eq!(record.timestamp, TimestampMs::new(77));
    }
}

#[test]
fn lookups_by_time_are_exact_in_every_codec() {
    for codec in CODECS {
        let batch = under(codec, sample()).at_offset(50, 1).build();
        let first = |from, target| {
            let found = first_at_or_after(&batch, Offset::at(from), TimestampMs::new(target));
            found.unwrap().map(|f| (f.offset.get(), f.timestamp.get()))
        };
        assert_eq!(first(0, 0), Some((50, 1005)));
        assert_eq!(first(51, 0), Some((51, 997)));
        assert_eq!(first(0, 1006), Some((52, 1009)));
        assert_eq!(first(53, 1006), Some((53, 1009)));
        assert_eq!(first(0, 1010), None);
        let found = Found { offset: Offset::at(52), timestamp: TimestampMs::new(1009) };
        assert_eq!(largest_timestamp(&batch, Offset::ZERO).unwrap(), Some(found));
        assert_eq!(largest_timestamp(&batch, Offset::at(54)).unwrap(), None);
    }
}

#[test]
fn deep_validation_names_the_bad_records() {
    for codec in CODECS {
        let batch = checked(&under(codec, sample()));
        assert_eq!(validate(&batch, Rules::default()), Ok(TimestampMs::new(1009)));
        let keyed = Rules { keys_required: true, ..Rules::default() };
        let bad = BadRecord { index: 1, fault: Fault::Keyless };
        assert_eq!(validate(&batch, keyed), Err(DeepError::Bad(vec![bad])));
        let window = (TimestampMs::new(1000), TimestampMs::new(1008));
        let timed = Rules { timestamps: Some(window), ..Rules::default() };
        let Err(DeepError::Bad(bad)) = validate(&batch, timed) else { panic!("all in time") };
        assert_eq!(bad.iter().map(|b| b.index).collect::<Vec<_>>(), [1, 2, 3]);
    }
    let lying = checked(&BatchBuilder { max_timestamp: Some(5000), ..sample() });
    assert_eq!(validate(&lying, Rules::default()), Ok(TimestampMs::new(1009)));
}

/// One record by hand: the bytes behind its length.
fn raw(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_varlong(body.len() as i64, &mut bytes);
    bytes.extend_from_slice(body);
    bytes
}

#[test]
fn broken_records_have_their_own_errors() {
    let error = |payload: Vec<u8>, count: i32| {
        let batch = BatchBuilder {
            payload: Some(payload),
            record_count: Some(count),
            last_offset_delta: Some(count - 1),
            ..Default::default()
        };
        read(&batch.build(), Keep::All).unwrap_err()
    };
    // attributes, timestamp delta, offset delta, key length, value length, header count
    let good = raw(&[0, 0, 0, 1, 1, 0]);
    let index = 0;
    assert_eq!(error(good[..4].to_vec(), 1), RecordsError::Ends { index });
    assert_eq!(error([&good[..], &[0]].concat(), 1), RecordsError::Trailing);
    assert_eq!(error(good.clone(), 2), RecordsError::Ends { index: 1 });
    assert_eq!(
        error([&good[..], &good].concat(), 2),
        RecordsError::OffsetDelta { index: 1, delta: 0 }
    );
    assert_eq!(error(vec![1; 9], 1), RecordsError::Length { index, length: -1 });
    assert_eq!(error(vec![8; 9], 1), RecordsError::Length { index, length: 4 });
    assert_eq!(error(vec![0xff; 9], 1), RecordsError::Varint { index });
    assert_eq!(error(raw(&[0, 0, 0, 3, 1, 0]), 1), RecordsError::Field { index });
    assert_eq!(error(raw(&[0, 0, 0, 20, 1, 0]), 1), RecordsError::Field { index });
    assert_eq!(error(raw(&[0, 0, 0, 1, 1, 2]), 1), RecordsError::Field { index });
    assert_eq!(error(raw(&[0, 0, 0, 1, 1, 1]), 1), RecordsError::Field { index });
    assert_eq!(error(raw(&[0, 0, 0, 1, 1, 2, 1, 0]), 1), RecordsError::Field { index });
    assert_eq!(error(raw(&[0, 0, 0, 1, 1, 0, 9]), 1), RecordsError::Slack { index });
    assert_eq!(error(raw(&[0, 0, 2, 1, 1, 0]), 1), RecordsError::OffsetDelta { index, delta: 1 });
}

#[test]
fn truncated_compressed_data_is_an_error_at_every_byte() {
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let plain = sample().encode_records();
        let payload = compress(codec, &plain);
        for cut in 0..payload.len() {
            let batch = sample().compressed(codec, payload[..cut].to_vec()).build();
            let outcome = read(&batch, Keep::All);
            // The last bytes of some formats are marks and checksums that carry no record.
            let complete = outcome.as_ref().is_ok_and(|records| *records == sample().records);
            assert!(outcome.is_err() || complete, "{codec} cut at {cut}: {outcome:?}");
            assert!(outcome.is_err() || cut + 13 > payload.len(), "{codec} cut at {cut}");
        }
    }
}

/// A MiB that says it is GiBs costs no memory and stops at the bound.
#[test]
fn compression_bomb_is_refused_with_bounded_output() {
    // One record of 3 GiB, declared honestly: longer than any record may be.
    let mut head = Vec::new();
    put_varlong(3 << 30, &mut head);
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    encoder.write_all(&head).unwrap();
    encoder.write_all(&vec![0; 1 << 20]).unwrap();
    let payload = encoder.finish().unwrap();
    let batch =
        BatchBuilder { record_count: Some(1), last_offset_delta: Some(0), ..Default::default() };
    let error = read(&batch.compressed(Codec::Zstd, payload).build(), Keep::All).unwrap_err();
    assert!(matches!(error, RecordsError::Varint { .. } | RecordsError::Length { .. }), "{error}");

    // A snappy block that declares 4 GiB.
    let batch =
        BatchBuilder { record_count: Some(1), last_offset_delta: Some(0), ..Default::default() };
    let batch = batch.compressed(Codec::Snappy, vec![0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0]);
    let error = read(&batch.build(), Keep::All).unwrap_err();
    assert!(matches!(error, RecordsError::Compressed { .. }), "{error}");
}

#[test]
fn recompressed_batch_has_the_same_records_under_another_codec() {
    let values: Vec<_> = (0..3000).map(|i| format!("value {}", i % 7)).collect();
    for from in CODECS {
        for to in CODECS {
            let batch =
                checked(&under(from, BatchBuilder::of_values(&values).from_producer(5, 1, 9)));
            let other = recompress(&batch, to.into(), None, u64::MAX).unwrap();
            assert_eq!(other.codec(), to);
            assert_eq!(other.producer(), batch.producer());
            let (a, b) = (read(batch.bytes(), Keep::All), read(other.bytes(), Keep::All));
            assert_eq!(a.unwrap(), b.unwrap(), "{from} to {to}");
            assert!(validate(&other, Rules::default()).is_ok());
        }
    }
}

#[test]
fn levels_of_gzip_and_zstd_are_obeyed_and_the_bound_of_the_new_batch_holds() {
    let values: Vec<_> =
        (0..3000u32).map(|i| format!("value {}", i.wrapping_mul(i) % 9973)).collect();
    let batch = checked(&under(Codec::Lz4, BatchBuilder::of_values(&values)));
    for codec in [Codec::Gzip, Codec::Zstd] {
        let bytes = |level| {
            let to = Compression { codec, level };
            let other = recompress(&batch, to, None, u64::MAX).unwrap();
            assert_eq!(
                read(batch.bytes(), Keep::All).unwrap(),
                read(other.bytes(), Keep::All).unwrap()
            );
            other.len()
        };
        assert!(bytes(Some(1)) > bytes(Some(9)), "{codec}");
        assert!(bytes(Some(1)) > bytes(None), "{codec}");
    }
    for codec in CODECS.into_iter().filter(|codec| *codec != Codec::Lz4) {
        let fits = recompress(&batch, codec.into(), None, u64::MAX).unwrap().len() as u64;
        assert!(recompress(&batch, codec.into(), None, fits).is_ok());
        let error = recompress(&batch, codec.into(), None, fits - 1).unwrap_err();
        assert_eq!(error, RecordsError::TooLarge { limit: fits - 1 }, "{codec}");
    }
    let time = TimestampMs::new(77);
    let other = recompress(&batch, Codec::None.into(), Some(time), u64::MAX).unwrap();
    assert_eq!(other.max_timestamp(), time);
}

fn any_record() -> impl Strategy<Value = TestRecord> {
    let bytes = || proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40));
    let header = (proptest::collection::vec(any::<u8>(), 0..9), bytes());
    let headers = proptest::collection::vec(header, 0..4);
    (-1000i64..1000, bytes(), bytes(), headers).prop_map(
        |(timestamp_delta, key, value, headers)| TestRecord {
            timestamp_delta,
            key,
            value,
            headers,
        },
    )
}

proptest! {
    #[test]
    fn any_records_round_trip(records in proptest::collection::vec(any_record(), 1..30), codec in 0usize..5) {
        let builder = BatchBuilder { records: records.clone(), ..Default::default() };
        let batch = under(CODECS[codec], builder).build();
        prop_assert_eq!(read(&batch, Keep::All).unwrap(), records);
    }

    #[test]
    fn no_payload_makes_the_reader_panic(
        payload in proptest::collection::vec(any::<u8>(), 0..300),
        codec in 0usize..5,
        count in 0i32..50,
        compressed: bool,
    ) {
        let payload = if compressed { compress(CODECS[codec], &payload) } else { payload };
        let batch = BatchBuilder {
            record_count: Some(count),
            last_offset_delta: Some(count - 1),
            ..Default::default()
        };
        let batch = batch.compressed(CODECS[codec], payload).build();
        for keep in [Keep::Nothing, Keep::All] {
            let _ = read(&batch, keep);
        }
    }

    #[test]
    fn no_flipped_byte_makes_the_reader_panic(at in 0usize..200, byte: u8, codec in 0usize..5) {
        let mut payload = compress(CODECS[codec], &sample().encode_records());
        let at = at % payload.len();
        payload[at] = byte;
        let _ = read(&sample().compressed(CODECS[codec], payload).build(), Keep::All);
    }
}
