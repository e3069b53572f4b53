//! Long polls and incremental fetch sessions.

use crate::support::{Broker, Client, PATIENCE, fetch_request};
use millstream::wire::messages::*;
use millstream::wire::{ErrorCode, Uuid};
use std::time::{Duration, Instant};

fn waiting(topic: &str, wait_ms: i32, min_bytes: i32) -> FetchRequest<'_> {
    FetchRequest { max_wait_ms: wait_ms, min_bytes, ..fetch_request(topic, 0, 0) }
}

#[test]
fn long_poll_is_woken_by_the_first_record_and_ends_empty_in_time() {
    let broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 1);
    let begun = Instant::now();
    let body = client.call(12, &waiting("t", 300, 1));
    assert!(begun.elapsed() >= Duration::from_millis(300));
    let response: FetchResponse<'_> = body.decode(12);
    assert!(response.responses[0].partitions[0].records.is_empty());
    let correlation_id = client.send(12, &waiting("t", 20_000, 1));
    std::thread::sleep(Duration::from_millis(200));
    let begun = Instant::now();
    broker.connect().produce("t", 0, &["x"]);
    let body = client.receive::<FetchRequest<'_>>(12, correlation_id);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    let response: FetchResponse<'_> = body.decode(12);
    assert_eq!(response.responses[0].partitions[0].high_watermark, 1);
}

#[test]
fn long_poll_waits_for_enough_bytes_and_not_at_all_for_none() {
    let broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 1);
    broker.connect().produce("t", 0, &["x"]);
    let begun = Instant::now();
    client.call(12, &waiting("t", 400, 1_000_000));
    assert!(begun.elapsed() >= Duration::from_millis(400));
    let begun = Instant::now();
    client.call(12, &waiting("t", 20_000, 0));
    client.call(12, &waiting("t", 20_000, 1));
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn error_of_a_partition_ends_the_wait() {
    let broker = Broker::start();
    let mut client = broker.connect();
    let begun = Instant::now();
    let body = client.call(12, &waiting("nope", 20_000, 1));
    assert!(begun.elapsed() < Duration::from_secs(5));
    let response: FetchResponse<'_> = body.decode(12);
    assert_eq!(response.responses[0].partitions[0].error_code, 3);
}

/// A client that goes away in a long poll leaves nothing behind that waits for days.
#[test]
fn client_that_goes_in_a_long_poll_is_let_go() {
    let broker = Broker::start();
    broker.connect().create("t", 1);
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", broker.pid())).unwrap().count();
    let before = descriptors();
    for _ in 0..20 {
        let mut client = broker.connect();
        client.send(12, &waiting("t", i32::MAX, i32::MAX));
    }
    let begun = Instant::now();
    while descriptors() > before && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(descriptors() <= before, "{} descriptors before, {} after", before, descriptors());
}

/// Name and id of a new topic with four partitions.
fn topic(client: &mut Client) -> Uuid {
    client.create("t", 4);
    let name = metadata::MetadataRequestTopic { name: Some("t"), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![name]), ..Default::default() };
    let body = client.call(12, &request);
    body.decode::<MetadataResponse<'_>>(12).topics[0].topic_id
}

fn by_id(topic_id: Uuid, session: (i32, i32), offsets: &[(i32, i64)]) -> FetchRequest<'static> {
    let partition = |(partition, fetch_offset): &(i32, i64)| fetch::FetchPartition {
        partition: *partition,
        fetch_offset: *fetch_offset,
        partition_max_bytes: 1 << 20,
        ..Default::default()
    };
    let partitions: Vec<_> = offsets.iter().map(partition).collect();
    let topics = match partitions.is_empty() {
        true => Vec::new(),
        false => vec![fetch::FetchTopic { topic_id, partitions, ..Default::default() }],
    };
    FetchRequest {
        session_id: session.0,
        session_epoch: session.1,
        topics,
        max_bytes: 10 << 20,
        ..Default::default()
    }
}

/// Error code, session id, and the partitions answered.
fn ask(client: &mut Client, request: &FetchRequest<'_>) -> (i16, i32, Vec<i32>) {
    let body = client.call(17, request);
    let response: FetchResponse<'_> = body.decode(17);
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    let partitions = partitions.map(|partition| partition.partition_index).collect();
    (response.error_code, response.session_id, partitions)
}

#[test]
fn incremental_session_answers_only_what_changed() {
    let broker = Broker::start();
    let mut client = broker.connect();
    let id = topic(&mut client);
    let all = [(0, 0), (1, 0), (2, 0), (3, 0)];
    let (code, session, partitions) = ask(&mut client, &by_id(id, (0, 0), &all));
    assert_eq!((code, partitions), (0, vec![0, 1, 2, 3]));
    assert!(session > 0);
    assert_eq!(ask(&mut client, &by_id(id, (session, 1), &[])), (0, session, vec![]));
    client.produce("t", 2, &["x"]);
    assert_eq!(ask(&mut client, &by_id(id, (session, 2), &[])), (0, session, vec![2]));
    assert_eq!(ask(&mut client, &by_id(id, (session, 3), &[(2, 1)])), (0, session, vec![]));
    let wrong = ErrorCode::InvalidFetchSessionEpoch.number();
    assert_eq!(ask(&mut client, &by_id(id, (session, 3), &[])).0, wrong);
    assert_eq!(ask(&mut client, &by_id(id, (session, 4), &[])).0, 0);
    let unknown = ErrorCode::FetchSessionIdNotFound.number();
    assert_eq!(ask(&mut client, &by_id(id, (session ^ 1, 5), &[])).0, unknown);
    assert_eq!(ask(&mut client, &by_id(id, (session, -1), &all)).2, [0, 1, 2, 3]);
    assert_eq!(ask(&mut client, &by_id(id, (session, 5), &[])).0, unknown);
}

#[test]
fn session_of_a_deleted_topic_tells_of_it() {
    let broker = Broker::start();
    let mut client = broker.connect();
    let id = topic(&mut client);
    let (_, session, _) = ask(&mut client, &by_id(id, (0, 0), &[(0, 0)]));
    let state = delete_topics::DeleteTopicState { name: Some("t"), ..Default::default() };
    let request = DeleteTopicsRequest { topics: vec![state], ..Default::default() };
    client.call(6, &request);
    let body = client.call(17, &by_id(id, (session, 1), &[]));
    let response: FetchResponse<'_> = body.decode(17);
    let code = response.responses[0].partitions[0].error_code;
    assert_eq!(code, ErrorCode::UnknownTopicId.number());
}
