//! Strangers, malformed frames, limits of connections, the stop.

use crate::support::{Broker, Client, PATIENCE, frame_of};
use millstream::wire::messages::*;
use std::io::Write;
use std::time::{Duration, Instant};

#[test]
fn what_is_no_request_closes_its_connection_and_no_other() {
    let broker = Broker::start();
    let mut good = broker.connect();
    good.create("t", 1);
    let whole = frame_of(12, &MetadataRequest::default(), 1);
    let mut cut = whole.clone();
    cut.truncate(whole.len() - 3);
    let shorter = i32::try_from(cut.len() - 4).unwrap();
    cut[..4].copy_from_slice(&shorter.to_be_bytes());
    let mut count = whole.clone();
    let end = count.len();
    count[end - 5..end - 1].copy_from_slice(&[0xff, 0xff, 0xff, 0x0f]);
    let strangers: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3],
        vec![0, 0, 0, 0],
        vec![0xff; 4],
        vec![0x7f, 0xff, 0xff, 0xff],
        (100i32 << 20 | 1).to_be_bytes().to_vec(),
        vec![0, 0, 0, 4, 0, 99, 0, 0],
        vec![0, 0, 0, 8, 0x7f, 0xff, 0, 0, 0, 0, 0, 1],
        frame_with_version(99),
        frame_with_version(-1),
        cut,
        count,
    ];
    for stranger in &strangers {
        let mut client = broker.connect();
        client.stream.write_all(stranger).unwrap();
        assert!(client.is_closed(), "{stranger:?}");
        assert_eq!(good.produce("t", 0, &["x"]).0, 0);
    }
    assert!(broker.logs("HTTP") && broker.logs("TLS"), "{}", broker.log());
    assert!(!broker.log().contains("panicked"), "{}", broker.log());
}

/// A Metadata request that claims another version.
fn frame_with_version(version: i16) -> Vec<u8> {
    let mut frame = frame_of(1, &MetadataRequest::default(), 1);
    frame[6..8].copy_from_slice(&version.to_be_bytes());
    frame
}

#[test]
fn api_versions_of_tomorrow_is_answered_in_the_oldest_form() {
    let broker = Broker::start();
    let mut client = broker.connect();
    for version in [5i16, 99, i16::MAX, -1] {
        let mut frame = frame_of(3, &ApiVersionsRequest::default(), 7);
        frame[6..8].copy_from_slice(&version.to_be_bytes());
        client.stream.write_all(&frame).unwrap();
        let answer = client.read_frame().unwrap();
        assert_eq!(answer, [0, 0, 0, 7, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4], "{version}");
    }
    let request = ApiVersionsRequest { client_software_name: "test", client_software_version: "1" };
    let body = client.call(4, &request);
    let response: ApiVersionsResponse<'_> = body.decode(4);
    assert_eq!(response.error_code, 0);
    let produce = response.api_keys.iter().find(|api| api.api_key == 0).unwrap();
    assert_eq!((produce.min_version, produce.max_version), (0, 13));
    let features: Vec<_> =
        response.finalized_features.iter().map(|f| (f.name, f.max_version_level)).collect();
    assert_eq!(features, [("transaction.version", 2)]);
    let names = |r: &ApiVersionsResponse<'_>| r.supported_features.len();
    assert_eq!((names(&response), names(&client.call(3, &request).decode(3))), (1, 0));
    let request = ApiVersionsRequest { client_software_name: "b ad", ..request };
    let body = client.call(3, &request);
    assert_eq!(body.decode::<ApiVersionsResponse<'_>>(3).error_code, 42);
}

/// Declared lengths cost nothing before their bytes come.
#[test]
fn giant_declared_lengths_take_no_memory() {
    let broker = Broker::start();
    let before = broker.rss();
    let mut strangers = Vec::new();
    for _ in 0..200 {
        let mut client = broker.connect();
        client.stream.write_all(&(100i32 << 20).to_be_bytes()).unwrap();
        client.stream.write_all(&[0; 100]).unwrap();
        strangers.push(client);
    }
    let mut client = broker.connect();
    client.create("t", 1);
    assert_eq!(client.produce("t", 0, &["x"]).0, 0);
    let grown = broker.rss().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes for 200 connections of 104 bytes each");
}

#[test]
fn connections_over_a_limit_are_closed_at_once_and_room_comes_back() {
    let broker = Broker::with(&["--set", "max.connections.per.ip=5"]);
    let mut held: Vec<Client> = (0..5).map(|_| broker.connect()).collect();
    for client in &mut held {
        client.call(0, &ApiVersionsRequest::default());
    }
    assert!(broker.connect().is_closed());
    held.pop();
    let begun = Instant::now();
    loop {
        let mut client = broker.connect();
        client.stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        client.stream.write_all(&frame_of(0, &ApiVersionsRequest::default(), 1)).unwrap();
        if client.read_frame().is_ok() {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "no place came free");
    }
    assert!(broker.logs("max.connections.per.ip"), "{}", broker.log());
}

#[test]
fn idle_connection_is_closed_and_a_busy_one_is_not() {
    let broker = Broker::with(&["--set", "connections.max.idle.ms=1000"]);
    let begun = Instant::now();
    let mut idle = broker.connect();
    let mut busy = broker.connect();
    busy.create("t", 1);
    let fetch = FetchRequest {
        max_wait_ms: 4000,
        min_bytes: 1,
        ..crate::support::fetch_request("t", 0, 0)
    };
    let correlation_id = busy.send(12, &fetch);
    assert!(idle.is_closed());
    assert!(begun.elapsed() >= Duration::from_millis(900), "{:?}", begun.elapsed());
    busy.receive::<FetchRequest<'_>>(12, correlation_id);
}

#[test]
fn stop_answers_what_is_under_way_and_exits_with_zero() {
    let mut broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 1);
    let fetch = FetchRequest {
        max_wait_ms: 60_000,
        min_bytes: 1,
        ..crate::support::fetch_request("t", 0, 0)
    };
    let correlation_id = client.send(12, &fetch);
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    let status = broker.stop();
    assert_eq!(status.code(), Some(0), "{}", broker.log());
    assert!(begun.elapsed() < Duration::from_secs(10));
    client.receive::<FetchRequest<'_>>(12, correlation_id);
    assert!(client.is_closed());
}

/// A client that sends and never reads is stopped by the socket, not by our memory.
#[test]
fn answers_that_nobody_reads_do_not_pile_up() {
    let broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 1000);
    let before = broker.rss();
    let frame = frame_of(12, &MetadataRequest { topics: None, ..Default::default() }, 1);
    client.stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut sent = 0;
    while sent < 100_000 && client.stream.write_all(&frame).is_ok() {
        sent += 1;
    }
    let grown = broker.rss().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes after {sent} requests of 20 kB answers");
    assert_eq!(broker.connect().produce("t", 0, &["x"]).0, 0);
}
