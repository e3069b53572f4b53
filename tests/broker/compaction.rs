//! Compacted topics: what readers see, what a kill leaves, and what is refused.

use crate::config::alter;
use crate::support::{Broker, Client, produce_request};
use millstream::wire::messages::*;
use millstream_io::batch::RecordBatchHeader;
use millstream_io::batch::testing::{BatchBuilder, TestRecord};
use millstream_io::records::{Keep, Records};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The kind of the broker in requests about settings.
const BROKER: i8 = 4;

const QUICK: &[&str] = &["--set", "log.cleaner.backoff.ms=50"];

const COMPACTED: &[(&str, &str)] = &[
    ("cleanup.policy", "compact"),
    ("segment.bytes", "16384"),
    ("min.cleanable.dirty.ratio", "0.01"),
];

/// Offset, key and value of every record.
type Seen = Vec<(i64, String, Option<String>)>;

fn keyed(records: &[(String, Option<String>)]) -> BatchBuilder {
    let record = |(key, value): &(String, Option<String>)| TestRecord {
        key: Some(key.clone().into_bytes()),
        value: value.clone().map(String::into_bytes),
        ..TestRecord::default()
    };
    BatchBuilder { records: records.iter().map(record).collect(), ..BatchBuilder::default() }
}

/// Reads a partition from the start to its end as clients do: each fetch goes on behind the last
/// batch of the one before.
fn read_all(client: &mut Client, topic: &str) -> Seen {
    let (mut seen, mut next) = (Seen::new(), 0);
    loop {
        let (code, high_watermark, bytes) = client.fetch(topic, 0, next);
        assert_eq!(code, 0, "at offset {next}");
        if next >= high_watermark {
            return seen;
        }
        assert!(!bytes.is_empty(), "nothing at {next} of {high_watermark}");
        let mut rest = &bytes[..];
        while let Some(len) = RecordBatchHeader::view(rest).and_then(|h| h.total_bytes()) {
            let Some(batch) = rest.get(..len) else { break };
            let mut records = Records::open(batch, Keep::KeysAndValues).unwrap();
            while let Some(record) = records.next_record().unwrap() {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                if record.offset.get() >= next {
                    seen.push((
                        record.offset.get(),
                        record.key.map(text).unwrap(),
                        record.value.map(text),
                    ));
                }
            }
            next = RecordBatchHeader::view(batch).unwrap().next_offset().unwrap().get();
            rest = &rest[len..];
        }
    }
}

/// What stands in the log besides the newest record of each key.
fn replaced(seen: &Seen) -> usize {
    let newest: BTreeMap<&String, i64> = seen.iter().map(|(at, key, _)| (key, *at)).collect();
    seen.len() - newest.len()
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(120), "{what} takes too long");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn compacted_topic_keeps_the_newest_record_of_each_key_at_its_offset_also_over_a_kill() {
    let mut broker = Broker::with(QUICK);
    let mut client = broker.connect();
    assert_eq!(client.create_with("t", 1, COMPACTED), 0);
    let mut newest = BTreeMap::new();
    let filler = "x".repeat(200);
    let mut offset = 0;
    for round in 0..60 {
        let records: Vec<(String, Option<String>)> = (0..20)
            .map(|i| (format!("k{}", (round * 7 + i) % 40), Some(format!("{round}-{filler}"))))
            .collect();
        let (code, base) = client.produce_batch("t", 0, &keyed(&records).build(), -1);
        assert_eq!((code, base), (0, offset));
        for (at, (key, value)) in (base..).zip(records) {
            newest.insert(key, (at, value));
        }
        offset += 20;
    }
    // All but what is in the open segment: 16 KiB hold three batches.
    until("compaction", || replaced(&read_all(&mut client, "t")) < 100);
    let check = |client: &mut Client| {
        let seen = read_all(client, "t");
        let latest: BTreeMap<String, (i64, Option<String>)> =
            seen.into_iter().map(|(at, key, value)| (key, (at, value))).collect();
        assert_eq!(latest, newest, "the newest of each key stands where it was put");
        assert_eq!(client.fetch("t", 0, 0).1, 1200, "no offset is given back");
    };
    check(&mut client);
    broker.kill();
    broker.start_again();
    let mut client = broker.connect();
    check(&mut client);
    assert_eq!(client.produce_batch("t", 0, &keyed(&[("k".into(), None)]).build(), -1), (0, 1200));
    assert!(broker.stop().success());
    broker.start_again();
    let seen = read_all(&mut broker.connect(), "t");
    assert!(replaced(&seen) < 120, "{} records are left", seen.len());
    assert_eq!(seen.last().unwrap().0, 1200);
}

#[test]
fn cleaner_settings_act_while_the_broker_runs() {
    let broker = Broker::with(&[QUICK, &["--set", "log.cleaner.threads=0"]].concat());
    let mut client = broker.connect();
    assert_eq!(client.create_with("t", 1, COMPACTED), 0);
    let record = ("key".to_owned(), Some("x".repeat(1000)));
    for _ in 0..60 {
        assert_eq!(
            client.produce_batch("t", 0, &keyed(std::slice::from_ref(&record)).build(), -1).0,
            0
        );
    }
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(replaced(&read_all(&mut client, "t")), 59, "nobody compacts");
    let settings = [
        ("log.cleaner.threads", 0, Some("2")),
        ("log.cleaner.io.max.bytes.per.second", 0, Some("100000000")),
        ("log.cleaner.dedupe.buffer.size", 0, Some("2097152")),
        ("log.cleaner.backoff.ms", 0, Some("20")),
    ];
    assert_eq!(alter(&mut client, BROKER, "", &settings), (0, String::new()));
    until("compaction", || replaced(&read_all(&mut client, "t")) < 30);
}

#[test]
fn tombstone_takes_its_key_and_then_itself_out_of_the_log() {
    let broker = Broker::with(QUICK);
    let mut client = broker.connect();
    let settings = [COMPACTED, &[("delete.retention.ms", "1")]].concat();
    assert_eq!(client.create_with("t", 1, &settings), 0);
    let records = [("gone".to_owned(), Some("value".to_owned())), ("gone".to_owned(), None)];
    assert_eq!(client.produce_batch("t", 0, &keyed(&records).build(), -1).0, 0);
    let filler = "x".repeat(6000);
    let mut n = 0;
    until("the end of the key", || {
        // A segment that is written is never compacted: others must follow.
        n += 1;
        let record = (format!("filler {}", n % 3), Some(filler.clone()));
        assert_eq!(client.produce_batch("t", 0, &keyed(&[record]).build(), -1).0, 0);
        read_all(&mut client, "t").iter().all(|(_, key, _)| key != "gone")
    });
    assert_eq!(client.fetch("t", 0, 0).0, 0, "offset 0 is no error: the next batch is given");
}

#[test]
fn record_without_a_key_is_refused_with_its_place_in_the_batch() {
    let broker = Broker::start();
    let mut client = broker.connect();
    assert_eq!(client.create_with("t", 1, COMPACTED), 0);
    let mut builder = keyed(&[("a".into(), None), ("b".into(), None), ("c".into(), None)]);
    builder.records[1].key = None;
    let batch = builder.build();
    let body = client.call(9, &produce_request("t", 0, &batch, -1));
    let response: ProduceResponse<'_> = body.decode(9);
    let partition = &response.responses[0].partition_responses[0];
    assert_eq!((partition.error_code, partition.base_offset), (87, -1));
    let errors: Vec<i32> = partition.record_errors.iter().map(|error| error.batch_index).collect();
    assert_eq!(errors, [1]);
    builder.records[1].key = Some(b"b".to_vec());
    assert_eq!(client.produce_batch("t", 0, &builder.build(), -1), (0, 0), "nothing was stored");
}

#[test]
fn settings_of_compaction_are_checked_and_described() {
    let broker = Broker::start();
    let mut client = broker.connect();
    for good in ["compact", "delete", "compact,delete", "delete, compact"] {
        let name = good.replace([',', ' '], "-");
        assert_eq!(client.create_with(&name, 1, &[("cleanup.policy", good)]), 0, "{good}");
    }
    for bad in [
        [("cleanup.policy", "keep"), ("segment.ms", "1")],
        [("cleanup.policy", "compact,compact"), ("segment.ms", "1")],
        [("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "1.5")],
        [("min.compaction.lag.ms", "2"), ("max.compaction.lag.ms", "1")],
    ] {
        assert_eq!(client.create_with("bad", 1, &bad), 40, "{bad:?}");
    }
}
