//! Records that are deleted: what is answered, what readers see, and what a kill leaves.

use crate::support::{Broker, Client, values};
use millstream::wire::messages::*;

/// Error code and low watermark of each partition, in the order of the answer.
fn delete(client: &mut Client, version: i16, asked: &[(&str, i32, i64)]) -> Vec<(i16, i64)> {
    let topic = |(name, partition_index, offset): &(&'_ str, i32, i64)| {
        let (partition_index, offset) = (*partition_index, *offset);
        let partition = delete_records::DeleteRecordsPartition { partition_index, offset };
        (name.to_string(), partition)
    };
    let asked: Vec<_> = asked.iter().map(topic).collect();
    let topics = asked.iter().map(|(name, partition)| delete_records::DeleteRecordsTopic {
        name,
        partitions: vec![partition.clone()],
    });
    let request = DeleteRecordsRequest { topics: topics.collect(), timeout_ms: 30_000 };
    let body = client.call(version, &request);
    let response: DeleteRecordsResponse<'_> = body.decode(version);
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    partitions.map(|p| (p.error_code, p.low_watermark)).collect()
}

fn offset(client: &mut Client, partition: i32, timestamp: i64) -> i64 {
    let asked = list_offsets::ListOffsetsPartition {
        partition_index: partition,
        timestamp,
        ..Default::default()
    };
    let topic = list_offsets::ListOffsetsTopic { name: "t", partitions: vec![asked] };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    let body = client.call(9, &request);
    body.decode::<ListOffsetsResponse<'_>>(9).topics[0].partitions[0].offset
}

#[test]
fn deleted_records_are_gone_for_every_reader_and_for_ever() {
    let mut broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 3);
    for partition in 0..3 {
        for value in ["a", "b", "c", "d", "e", "f"] {
            assert_eq!(client.produce("t", partition, &[value]).0, 0);
        }
    }
    let asked = [("t", 0, 2), ("t", 1, -1), ("t", 2, 0)];
    assert_eq!(delete(&mut client, 2, &asked), [(0, 2), (0, 6), (0, 0)]);
    let seen = |client: &mut Client| {
        assert_eq!(client.fetch("t", 0, 1).0, 1, "OFFSET_OUT_OF_RANGE below the log start");
        let (code, high_watermark, records) = client.fetch("t", 0, 2);
        assert_eq!((code, high_watermark), (0, 6));
        let expected = [(2, "c"), (3, "d"), (4, "e"), (5, "f")].map(|(o, v)| (o, v.to_owned()));
        assert_eq!(values(&records), expected);
        assert_eq!(client.fetch("t", 1, 5).0, 1);
        assert_eq!(client.fetch("t", 1, 6), (0, 6, vec![]), "nothing is left");
        let starts = [0, 1, 2].map(|partition| offset(client, partition, -2));
        assert_eq!(starts, [2, 6, 0], "earliest");
        assert_eq!(offset(client, 0, 0), 2, "by time");
    };
    seen(&mut client);
    broker.kill();
    broker.start_again();
    let mut client = broker.connect();
    seen(&mut client);
    assert_eq!(client.produce("t", 1, &["g"]), (0, 6), "the numbering stays");
    assert!(broker.stop().success());
    broker.start_again();
    let mut client = broker.connect();
    assert_eq!([0, 1, 2].map(|partition| offset(&mut client, partition, -2)), [2, 6, 0]);
    assert_eq!(values(&client.fetch("t", 1, 6).2), [(6, "g".to_owned())]);
}

#[test]
fn each_partition_has_its_own_answer_in_every_version() {
    let broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 8);
    for version in 0..=2 {
        for partition in 0..8 {
            assert_eq!(client.produce("t", partition, &["a", "b"]).0, 0);
        }
        let end = i64::from(version + 1) * 2;
        let asked = [
            ("t", 0, end - 1),
            ("t", 1, end + 1),
            ("t", 2, -2),
            ("t", 8, 0),
            ("t", -1, 0),
            ("nope", 0, 0),
            ("t", 3, end),
            ("t", 3, end - 2),
        ];
        let expected = [(0, end - 1), (1, -1), (1, -1), (3, -1), (3, -1), (0, end - 2), (3, -1)];
        let mut answers = delete(&mut client, version, &asked);
        answers.sort_unstable();
        let mut expected = expected.to_vec();
        expected.sort_unstable();
        assert_eq!(answers, expected, "version {version}");
        // Below the log start nothing is changed, and it is told.
        assert_eq!(delete(&mut client, version, &[("t", 0, 0)]), [(0, end - 1)]);
    }
}

/// Segments of 1 MiB: those below the log start go, and no open file keeps their space.
#[test]
fn space_of_deleted_records_is_given_back() {
    let broker = Broker::start();
    let mut client = broker.connect();
    assert_eq!(client.create_with("t", 1, &[("segment.bytes", "1048576")]), 0);
    let large = "x".repeat(300_000);
    for _ in 0..20 {
        assert_eq!(client.produce("t", 0, &[&large]).0, 0);
        client.fetch("t", 0, 0);
    }
    let dir = broker.data.path().join("data/topics/t/0");
    let files = || {
        let named = std::fs::read_dir(&dir).unwrap().flatten().map(|entry| entry.path());
        let held = std::fs::read_dir(format!("/proc/{}/fd", broker.pid())).unwrap();
        let held = held.flatten().filter_map(|fd| std::fs::read_link(fd.path()).ok());
        let held = held
            .filter(|file| file.starts_with(&dir) && file.to_string_lossy().contains("(deleted)"));
        named.chain(held).filter(|file| file.to_string_lossy().contains(".log")).count()
    };
    let before = files();
    assert!(before >= 5, "{before}");
    assert_eq!(delete(&mut client, 2, &[("t", 0, 19)]), [(0, 19)]);
    let begun = std::time::Instant::now();
    while files() > 2 && begun.elapsed() < crate::support::PATIENCE {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(files() <= 2, "{} of {before} segments are left", files());
    assert_eq!(client.fetch("t", 0, 19).0, 0);
}

/// Goal: the files of deleted records stay for `file.delete.delay.ms`, out of the way, and a start waits
/// for nothing; without a delay they go at once.
#[test]
fn files_of_deleted_records_stay_as_long_as_their_topic_says() {
    let mut broker = Broker::start();
    let mut client = broker.connect();
    let segment = ("segment.bytes", "16384");
    assert_eq!(client.create_with("t", 1, &[segment, ("file.delete.delay.ms", "3600000")]), 0);
    assert_eq!(client.create_with("now", 1, &[segment]), 0);
    let value = "x".repeat(9000);
    for topic in ["t", "now"] {
        for _ in 0..6 {
            assert_eq!(client.produce(topic, 0, &[&value]).0, 0);
        }
    }
    let root = broker.data.path().join("data");
    let names = |dir: &str| {
        let entries = std::fs::read_dir(root.join(dir)).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|e| e.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let logs = |dir: &str| names(dir).iter().filter(|name| name.ends_with(".log")).count();
    assert_eq!(delete(&mut client, 2, &[("t", 0, 5), ("now", 0, 5)]), [(0, 5), (0, 5)]);
    wait("the files go", || logs("topics/t/0") <= 2 && logs("topics/now/0") <= 2);
    let aside = names("__deleted");
    assert!(aside.len() >= 4 && aside.iter().all(|name| name.ends_with(".log")), "{aside:?}");
    assert!(aside.iter().all(|name| name.contains("-0-00000")), "{aside:?}");
    // Those of a deleted topic likewise.
    let request = DeleteTopicsRequest {
        topics: ["t", "now"]
            .map(|name| delete_topics::DeleteTopicState { name: Some(name), ..Default::default() })
            .into(),
        timeout_ms: 30_000,
        ..Default::default()
    };
    client.call(6, &request);
    wait("the topics go", || names("topics").is_empty());
    wait("one topic is left aside", || names("__deleted").len() == aside.len() + 1);
    broker.kill();
    broker.start_again();
    wait("nothing is left", || names("__deleted").is_empty());
}

fn wait(what: &str, holds: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !holds() {
        assert!(
            begun.elapsed() < crate::support::PATIENCE,
            "{what}: not after {:?}",
            begun.elapsed()
        );
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}
