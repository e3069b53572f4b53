//! Groups and their offsets, over restarts.

use crate::support::{Broker, Client};
use crate::topics::delete;
use millstream::wire::messages::find_coordinator::{
    FindCoordinatorRequest, FindCoordinatorResponse,
};
use millstream::wire::messages::list_offsets;
use millstream::wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    OffsetCommitResponse,
};
use millstream::wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestTopic, OffsetFetchResponse,
};
use std::collections::VecDeque;

/// Asks for the coordinator, which makes the internal topic on the way.
pub fn coordinator(client: &mut Client, group: &str) -> i16 {
    let request = FindCoordinatorRequest { key: group, ..Default::default() };
    let body = client.call(3, &request);
    let answer: FindCoordinatorResponse<'_> = body.decode(3);
    assert!(answer.error_code != 0 || answer.port > 0, "{answer:?}");
    answer.error_code
}

pub fn commit(client: &mut Client, group: &str, topic: &str, offset: i64) -> i16 {
    let partition = OffsetCommitRequestPartition {
        partition_index: 0,
        committed_offset: offset,
        committed_leader_epoch: 7,
        committed_metadata: Some("words"),
    };
    let request = OffsetCommitRequest {
        group_id: group,
        generation_id_or_member_epoch: -1,
        topics: vec![OffsetCommitRequestTopic {
            name: topic,
            partitions: vec![partition],
            ..Default::default()
        }],
        ..Default::default()
    };
    let body = client.call(8, &request);
    let answer: OffsetCommitResponse<'_> = body.decode(8);
    answer.topics[0].partitions[0].error_code
}

/// Offset, leader epoch and metadata.
pub fn committed(client: &mut Client, group: &str, topic: &str) -> (i64, i32, String) {
    let topics = vec![OffsetFetchRequestTopic { name: topic, partition_indexes: vec![0] }];
    let request =
        OffsetFetchRequest { group_id: group, topics: Some(topics), ..Default::default() };
    let body = client.call(7, &request);
    let answer: OffsetFetchResponse<'_> = body.decode(7);
    assert_eq!(answer.error_code, 0);
    let found = &answer.topics[0].partitions[0];
    assert_eq!(found.error_code, 0);
    (found.committed_offset, found.committed_leader_epoch, found.metadata.unwrap().to_owned())
}

/// Goal: what was answered as committed is what a fetch shows, after any number of kills and stops.
#[test]
fn committed_offsets_survive_kill_and_stop() {
    let mut broker = Broker::start();
    broker.connect().create("t", 1);
    assert_eq!(coordinator(&mut broker.connect(), "g0"), 0);
    for round in 0..4i64 {
        let mut client = broker.connect();
        for group in 0..20 {
            let group = format!("g{group}");
            assert_eq!(commit(&mut client, &group, "t", round * 100), 0);
            assert_eq!(commit(&mut client, &group, "t", round * 100 + 5), 0);
        }
        if round % 2 == 0 {
            broker.kill();
        } else {
            assert!(broker.stop().success());
        }
        broker.start_again();
        let mut client = broker.connect();
        for group in 0..20 {
            let found = committed(&mut client, &format!("g{group}"), "t");
            assert_eq!(found, (round * 100 + 5, 7, "words".to_owned()), "round {round}");
        }
        assert_eq!(committed(&mut client, "nobody", "t"), (-1, -1, String::new()));
    }
}

/// Goal: a log of many commits is said again in few records, its old ones go, and nothing is lost by
/// it, also when a kill comes soon after.
/// Method: commits so large that four of them are worth a compaction; the log's start must rise.
#[test]
fn log_of_many_commits_is_compacted_and_says_the_same() {
    const PARTITIONS: i32 = 1500;
    let words = "x".repeat(4000);
    let mut broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", PARTITIONS);
    coordinator(&mut client, "g");
    assert_eq!(commit(&mut client, "other", "t", 77), 0);
    for round in 0..6 {
        let partition = |index| OffsetCommitRequestPartition {
            partition_index: index,
            committed_offset: i64::from(index) + round,
            committed_leader_epoch: 7,
            committed_metadata: Some(&words),
        };
        let topic = OffsetCommitRequestTopic {
            name: "t",
            partitions: (0..PARTITIONS).map(partition).collect(),
            ..Default::default()
        };
        let request = OffsetCommitRequest {
            group_id: "g",
            generation_id_or_member_epoch: -1,
            topics: vec![topic],
            ..Default::default()
        };
        let body = client.call(8, &request);
        let answer: OffsetCommitResponse<'_> = body.decode(8);
        assert!(answer.topics[0].partitions.iter().all(|partition| partition.error_code == 0));
    }
    let partition = i32::from(b'g') % 50; // The hash of one letter is its number.
    assert!((0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        log_start(&mut client, "__consumer_offsets", partition) > 0
    }));
    for restart in 0..2 {
        if restart == 0 {
            broker.kill();
        } else {
            assert!(broker.stop().success());
        }
        broker.start_again();
        let mut client = broker.connect();
        let topics = vec![OffsetFetchRequestTopic {
            name: "t",
            partition_indexes: (0..PARTITIONS).collect(),
        }];
        let request =
            OffsetFetchRequest { group_id: "g", topics: Some(topics), ..Default::default() };
        let body = client.call(7, &request);
        let answer: OffsetFetchResponse<'_> = body.decode(7);
        for found in &answer.topics[0].partitions {
            assert_eq!(found.committed_offset, i64::from(found.partition_index) + 5);
            assert_eq!(found.metadata, Some(&*words));
        }
        assert_eq!(committed(&mut client, "other", "t").0, 77);
    }
}

fn log_start(client: &mut Client, topic: &str, partition: i32) -> i64 {
    let request = list_offsets::ListOffsetsRequest {
        replica_id: -1,
        topics: vec![list_offsets::ListOffsetsTopic {
            name: topic,
            partitions: vec![list_offsets::ListOffsetsPartition {
                partition_index: partition,
                timestamp: -2,
                ..Default::default()
            }],
        }],
        ..Default::default()
    };
    let body = client.call(5, &request);
    let answer: list_offsets::ListOffsetsResponse<'_> = body.decode(5);
    answer.topics[0].partitions[0].offset
}

/// A topic of the same name is another topic.
#[test]
fn offsets_die_with_their_topic() {
    let mut broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 1);
    coordinator(&mut client, "g");
    assert_eq!(commit(&mut client, "g", "nope", 1), 3);
    assert_eq!(commit(&mut client, "g", "t", 9), 0);
    assert_eq!(delete(&mut client, "t"), 0);
    client.create("t", 1);
    broker.kill();
    broker.start_again();
    let mut client = broker.connect();
    let gone = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        committed(&mut client, "g", "t").0 == -1
    });
    assert!(gone, "the offset of a deleted topic counts for its successor");
}

#[test]
fn clients_write_nothing_to_the_brokers_own_topics() {
    let broker = Broker::start();
    let mut client = broker.connect();
    coordinator(&mut client, "g");
    assert_eq!(client.produce("__consumer_offsets", 0, &["forged"]).0, 17);
}

/// Goal: months of commits keep the internal topic small, and a start finds the last of each.
/// Method: two million commits of a thousand partitions, some 300 MB of records; the files are measured
/// all along. The bound is a segment (100 MiB) that is still written, one that is on its way out, and
/// what two sayings of the same take.
#[test]
fn two_million_commits_take_bounded_space() {
    const PARTITIONS: i32 = 1000;
    const REQUESTS: i64 = 2000;
    const BYTES_MAX: u64 = 2 * (100 << 20) + (48 << 20);
    let mut broker = Broker::with(&["--set", "offsets.topic.num.partitions=1"]);
    let mut client = broker.connect();
    client.create("t", PARTITIONS);
    coordinator(&mut client, "g");
    let (mut open, mut most) = (VecDeque::new(), 0);
    for round in 0..REQUESTS {
        let partition = |index| OffsetCommitRequestPartition {
            partition_index: index,
            committed_offset: i64::from(index) + round,
            committed_leader_epoch: 7,
            committed_metadata: Some("x"),
        };
        let topic = OffsetCommitRequestTopic {
            name: "t",
            partitions: (0..PARTITIONS).map(partition).collect(),
            ..Default::default()
        };
        let request = OffsetCommitRequest {
            group_id: "g",
            generation_id_or_member_epoch: -1,
            topics: vec![topic],
            ..Default::default()
        };
        open.push_back(client.send(8, &request));
        if open.len() >= 8 || round == REQUESTS - 1 {
            for sent in open.drain(..) {
                let body = client.receive::<OffsetCommitRequest<'_>>(8, sent);
                let answer: OffsetCommitResponse<'_> = body.decode(8);
                assert!(answer.topics[0].partitions.iter().all(|p| p.error_code == 0));
            }
        }
        if round % 50 == 0 {
            most = most.max(log_bytes(&broker, "__consumer_offsets"));
        }
    }
    assert!((BYTES_MAX / 8..BYTES_MAX).contains(&most), "{} MiB", most >> 20);
    assert!(log_start(&mut client, "__consumer_offsets", 0) > REQUESTS * i64::from(PARTITIONS) / 2);
    broker.kill();
    broker.start_again();
    let topics =
        vec![OffsetFetchRequestTopic { name: "t", partition_indexes: (0..PARTITIONS).collect() }];
    let request = OffsetFetchRequest { group_id: "g", topics: Some(topics), ..Default::default() };
    let body = broker.connect().call(7, &request);
    let answer: OffsetFetchResponse<'_> = body.decode(7);
    assert_eq!(answer.topics[0].partitions.len(), 1000);
    for found in &answer.topics[0].partitions {
        assert_eq!(found.committed_offset, i64::from(found.partition_index) + REQUESTS - 1);
    }
}

/// Bytes of the log files of a topic, which has none before its first write behind the journal; one may
/// go while they are counted.
fn log_bytes(broker: &Broker, topic: &str) -> u64 {
    let entries = |dir: std::path::PathBuf| std::fs::read_dir(dir).into_iter().flatten().flatten();
    let partitions = entries(broker.data.path().join("data/topics").join(topic));
    let files = partitions.flat_map(|partition| entries(partition.path()));
    let logs = files.filter(|file| file.path().extension().is_some_and(|end| end == "log"));
    logs.filter_map(|file| file.metadata().ok()).map(|meta| meta.len()).sum()
}
