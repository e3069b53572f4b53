//! Topics that force a codec: what is stored, what is refused, and what is counted.

use crate::support::{Broker, Client};
use millstream::wire::ErrorCode;
use millstream_io::batch::testing::{BatchBuilder, TestRecord};
use millstream_io::batch::{CheckedBatch, Codec, Origin, RecordBatchHeader};
use millstream_io::limits::BATCH_HEADER_BYTES;
use millstream_io::records::recompress::recompress;
use millstream_io::records::{Keep, Records};

const CODECS: [(&str, Codec); 5] = [
    ("uncompressed", Codec::None),
    ("gzip", Codec::Gzip),
    ("snappy", Codec::Snappy),
    ("lz4", Codec::Lz4),
    ("zstd", Codec::Zstd),
];

/// Records that say different times, with keys, without values.
fn plain(mark: u8) -> BatchBuilder {
    let record = |n: u8| TestRecord {
        timestamp_delta: i64::from(n ^ 0x15) * 10,
        key: Some(vec![mark, n]),
        value: (!n.is_multiple_of(3)).then(|| vec![n; 50]),
        headers: vec![(vec![b'h'], Some(vec![mark]))],
    };
    BatchBuilder { records: (0..40).map(record).collect(), ..BatchBuilder::default() }
}

fn under(codec: Codec, builder: &BatchBuilder) -> Vec<u8> {
    let batch = CheckedBatch::parse(builder.build(), Origin::Client).unwrap();
    recompress(&batch, codec.into(), None, u64::MAX).unwrap().bytes().to_vec()
}

/// Offset delta, timestamp, key, value and headers of each record.
type Content = Vec<(i64, i64, Option<Vec<u8>>, Option<Vec<u8>>, Vec<u8>)>;

fn content(batch: &[u8]) -> Content {
    let base = RecordBatchHeader::view(batch).unwrap().base_offset().unwrap().get();
    let mut records = Records::open(batch, Keep::All).unwrap();
    let mut found = Vec::new();
    while let Some(record) = records.next_record().unwrap() {
        let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        let (delta, time) = (record.offset.get() - base, record.timestamp.get());
        let fields = (owned(record.key), owned(record.value), record.header_bytes.to_vec());
        found.push((delta, time, fields.0, fields.1, fields.2));
    }
    found
}

/// The one batch at an offset.
fn stored(client: &mut Client, topic: &str, offset: i64) -> Vec<u8> {
    let (code, _, records) = client.fetch(topic, 0, offset);
    assert_eq!(code, 0);
    let header = RecordBatchHeader::view(&records).unwrap();
    assert_eq!(header.base_offset().unwrap().get(), offset);
    records[..header.total_bytes().unwrap()].to_vec()
}

#[test]
fn batches_are_stored_under_the_codec_of_their_topic_and_say_the_same() {
    let mut broker = Broker::start();
    let mut client = broker.connect();
    for (name, _) in CODECS {
        assert_eq!(client.create_with(name, 1, &[("compression.type", name)]), 0);
        for (place, (_, from)) in (0..).zip(CODECS) {
            let sent = under(from, &plain(1));
            assert_eq!(
                client.produce_batch(name, 0, &sent, -1),
                (0, place * 40),
                "{from} to {name}"
            );
        }
    }
    broker.kill();
    broker.start_again();
    let mut client = broker.connect();
    for (name, to) in CODECS {
        for (place, (_, from)) in (0..).zip(CODECS) {
            let sent = under(from, &plain(1));
            let found = stored(&mut client, name, place * 40);
            let header = RecordBatchHeader::view(&found).unwrap();
            assert_eq!(header.attributes().codec(), Some(to), "{from} to {name}");
            assert_eq!(content(&found), content(&sent), "{from} to {name}");
            if from == to {
                assert_eq!(found[16..], sent[16..], "{from} stays as it came");
            }
        }
    }
}

#[test]
fn producers_codec_stays_without_a_forced_one_and_the_setting_counts_from_the_next_batch() {
    let broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 1);
    let sent = under(Codec::Snappy, &plain(1));
    assert_eq!(client.produce_batch("t", 0, &sent, -1), (0, 0));
    assert_eq!(stored(&mut client, "t", 0)[16..], sent[16..]);
    let ops = [("compression.type", 0, Some("zstd")), ("compression.zstd.level", 0, Some("19"))];
    assert_eq!(crate::config::alter(&mut client, 2, "t", &ops).0, 0);
    assert_eq!(client.produce_batch("t", 0, &sent, -1), (0, 40));
    let found = stored(&mut client, "t", 40);
    let header = RecordBatchHeader::view(&found).unwrap();
    assert_eq!(header.attributes().codec(), Some(Codec::Zstd));
}

#[test]
fn bad_records_and_what_grows_too_large_are_refused_whole() {
    let broker = Broker::start();
    let mut client = broker.connect();
    let zstd = ("compression.type", "zstd");
    client.create_with("t", 1, &[zstd, ("message.timestamp.before.max.ms", "1000")]);
    let old = under(Codec::Gzip, &plain(1));
    assert_eq!(client.produce_batch("t", 0, &old, -1).0, ErrorCode::InvalidTimestamp.number());
    client.create_with("u", 1, &[zstd]);
    let mut payload = plain(1).build()[BATCH_HEADER_BYTES..].to_vec();
    payload[0] ^= 0x40; // The length of the first record.
    let broken = BatchBuilder { payload: Some(payload), ..plain(1) }.build();
    assert_eq!(client.produce_batch("u", 0, &broken, -1).0, ErrorCode::InvalidRecord.number());
    let narrow = [("compression.type", "uncompressed"), ("max.message.bytes", "2000")];
    client.create_with("v", 1, &narrow);
    let repeated = BatchBuilder::of_values([vec![b'x'; 50_000]]);
    let small = under(Codec::Zstd, &repeated);
    assert!(small.len() < 2000);
    assert_eq!(client.produce_batch("v", 0, &small, -1).0, ErrorCode::MessageTooLarge.number());
    let large = repeated.build().to_vec();
    assert_eq!(client.produce_batch("v", 0, &large, -1).0, ErrorCode::MessageTooLarge.number());
    for topic in ["t", "u", "v"] {
        assert_eq!(client.fetch(topic, 0, 0).1, 0, "nothing of {topic} was stored");
    }
}
