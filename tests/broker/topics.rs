//! Topics: created, described, grown, deleted, and what a restart keeps.

use crate::support::{Broker, Client};
use millstream::wire::messages::*;
use millstream::wire::{ErrorCode, Uuid};

/// Name, id, leader epoch of partition 0 and number of partitions of each topic.
fn topics(client: &mut Client) -> Vec<(String, Uuid, i32, usize)> {
    let request = MetadataRequest { topics: None, ..Default::default() };
    let body = client.call(12, &request);
    let response: MetadataResponse<'_> = body.decode(12);
    let one = |topic: &metadata::MetadataResponseTopic<'_>| {
        let epoch = topic.partitions[0].leader_epoch;
        (topic.name.unwrap().to_owned(), topic.topic_id, epoch, topic.partitions.len())
    };
    response.topics.iter().map(one).collect()
}

pub fn delete(client: &mut Client, name: &str) -> i16 {
    let state = delete_topics::DeleteTopicState { name: Some(name), ..Default::default() };
    let request = DeleteTopicsRequest { topics: vec![state], ..Default::default() };
    let body = client.call(6, &request);
    body.decode::<DeleteTopicsResponse<'_>>(6).responses[0].error_code
}

#[test]
fn created_topic_is_at_once_there_on_every_core_and_its_id_is_for_ever() {
    let mut broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 5);
    for _ in 0..8 {
        let mut other = broker.connect();
        assert_eq!(other.produce("t", 4, &["x"]).0, 0);
    }
    let before = topics(&mut client);
    assert_eq!(before[0].2, 0);
    broker.kill();
    broker.start_again();
    let after = topics(&mut broker.connect());
    assert_eq!((&after[0].0, after[0].1, after[0].3), (&before[0].0, before[0].1, 5));
    assert_eq!(after[0].2, 1, "the leader epoch rises with each start");
}

#[test]
fn topic_is_created_on_the_way_where_client_and_broker_allow_it() {
    let ask = |client: &mut Client, allow_auto_topic_creation| {
        let name = metadata::MetadataRequestTopic { name: Some("new"), ..Default::default() };
        let topics = Some(vec![name]);
        let request = MetadataRequest { topics, allow_auto_topic_creation, ..Default::default() };
        let body = client.call(9, &request);
        let response: MetadataResponse<'_> = body.decode(9);
        (response.topics[0].error_code, response.topics[0].partitions.len())
    };
    let broker = Broker::with(&["--set", "num.partitions=3"]);
    let mut client = broker.connect();
    assert_eq!(ask(&mut client, false), (3, 0));
    assert_eq!(ask(&mut client, true), (0, 3));
    assert_eq!(client.produce("new", 2, &["x"]), (0, 0));
    let broker = Broker::with(&["--set", "auto.create.topics.enable=false"]);
    assert_eq!(ask(&mut broker.connect(), true), (3, 0));
}

#[test]
fn deleted_topic_is_gone_and_its_name_begins_anew() {
    let mut broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 2);
    assert_eq!(client.produce("t", 0, &["old"]), (0, 0));
    let id = topics(&mut client)[0].1;
    assert_eq!(delete(&mut client, "t"), 0);
    assert_eq!(delete(&mut client, "t"), 3);
    assert_eq!(client.produce("t", 0, &["x"]).0, 3);
    client.create("t", 1);
    assert_ne!(topics(&mut client)[0].1, id);
    assert_eq!(client.produce("t", 0, &["new"]), (0, 0));
    client.create("gone", 1);
    client.produce("gone", 0, &["x"]);
    assert_eq!(delete(&mut client, "gone"), 0);
    broker.kill();
    broker.start_again();
    let mut client = broker.connect();
    let (_, _, records) = client.fetch("t", 0, 0);
    assert_eq!(crate::support::values(&records), [(0, "new".to_owned())]);
    assert_eq!(topics(&mut client).len(), 1);
}

/// An open file keeps its space after its name is gone, so none may stay open.
#[test]
fn files_of_a_deleted_topic_are_not_held_open() {
    let broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 4);
    let large = "x".repeat(600_000);
    for partition in 0..4 {
        assert_eq!(client.produce("t", partition, &[&large]).0, 0);
        client.fetch("t", partition, 0);
    }
    assert_eq!(delete(&mut client, "t"), 0);
    let held = || {
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", broker.pid())).unwrap();
        let files = descriptors.flatten().filter_map(|fd| std::fs::read_link(fd.path()).ok());
        files.filter(|file| file.to_string_lossy().contains(".log")).count()
    };
    let begun = std::time::Instant::now();
    while held() > 0 && begun.elapsed() < crate::support::PATIENCE {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(held(), 0);
}

#[test]
fn partitions_grow_and_stay_grown() {
    let mut broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 1);
    client.produce("t", 0, &["x"]);
    let topic = create_partitions::CreatePartitionsTopic { name: "t", count: 4, assignments: None };
    let request = CreatePartitionsRequest { topics: vec![topic], ..Default::default() };
    let body = client.call(3, &request);
    assert_eq!(body.decode::<CreatePartitionsResponse<'_>>(3).results[0].error_code, 0);
    assert_eq!(client.produce("t", 3, &["y"]), (0, 0));
    broker.kill();
    broker.start_again();
    let mut client = broker.connect();
    assert_eq!(topics(&mut client)[0].3, 4);
    assert_eq!(client.fetch("t", 3, 0).1, 1);
    assert_eq!(client.fetch("t", 0, 0).1, 1);
}

#[test]
fn offsets_are_listed_by_position_and_time() {
    let broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 1);
    let ask = |client: &mut Client, timestamp| {
        let partition = list_offsets::ListOffsetsPartition { timestamp, ..Default::default() };
        let topic = list_offsets::ListOffsetsTopic { name: "t", partitions: vec![partition] };
        let request =
            ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
        let body = client.call(9, &request);
        let response: ListOffsetsResponse<'_> = body.decode(9);
        let answer = &response.topics[0].partitions[0];
        (answer.error_code, answer.offset)
    };
    assert_eq!(ask(&mut client, -1), (0, 0));
    assert_eq!(ask(&mut client, -2), (0, 0));
    assert_eq!(ask(&mut client, -3), (0, -1));
    for _ in 0..3 {
        client.produce("t", 0, &["a", "b"]);
    }
    assert_eq!(ask(&mut client, -1), (0, 6));
    assert_eq!(ask(&mut client, -2), (0, 0));
    assert_eq!(ask(&mut client, -4), (0, 0));
    assert_eq!(ask(&mut client, -5), (0, -1));
    assert_eq!(ask(&mut client, i64::MAX), (0, -1));
    let unknown = ErrorCode::UnsupportedVersion.number();
    assert_eq!(ask(&mut client, -99), (unknown, -1));
}

#[test]
fn epoch_ends_are_exact_over_restarts() {
    let mut broker = Broker::start();
    broker.connect().create("t", 1);
    for round in 0..3 {
        let mut client = broker.connect();
        assert_eq!(client.produce("t", 0, &["a", "b"]), (0, round * 2));
        if round % 2 == 0 {
            broker.kill()
        } else {
            assert!(broker.stop().success())
        }
        broker.start_again();
    }
    let mut client = broker.connect();
    let mut ask = |current_leader_epoch, leader_epoch| {
        let partition = offset_for_leader_epoch::OffsetForLeaderPartition {
            partition: 0,
            current_leader_epoch,
            leader_epoch,
        };
        let topic = offset_for_leader_epoch::OffsetForLeaderTopic {
            topic: "t",
            partitions: vec![partition],
        };
        let request = OffsetForLeaderEpochRequest { topics: vec![topic], ..Default::default() };
        let body = client.call(4, &request);
        let response: OffsetForLeaderEpochResponse<'_> = body.decode(4);
        let answer = &response.topics[0].partitions[0];
        (answer.error_code, answer.leader_epoch, answer.end_offset)
    };
    assert_eq!(ask(-1, 0), (0, 0, 2));
    assert_eq!(ask(-1, 1), (0, 1, 4));
    assert_eq!(ask(3, 2), (0, 2, 6));
    assert_eq!(ask(-1, 9), (0, -1, -1));
    assert_eq!(ask(2, 1).0, ErrorCode::FencedLeaderEpoch.number());
    assert_eq!(ask(4, 1).0, ErrorCode::UnknownLeaderEpoch.number());
}
