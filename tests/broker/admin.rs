//! Metrics, health and readiness of a running broker, against what its clients are told.

use crate::groups::{commit, committed, coordinator};
use crate::scrape::{Samples, address, get, is_told, metrics, sum, value, watched};
use crate::support::{Broker, Client, refused};
use crate::topics::delete;
use millstream::wire::messages::{delete_groups, join_group, list_offsets, sync_group};
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// The lag of a group in partition 0 of a topic: for readers of everything, of committed records.
fn lag(samples: &Samples, group: &str, topic: &str) -> (Option<f64>, Option<f64>) {
    let of = |isolation| {
        let labels =
            [("group", group), ("topic", topic), ("partition", "0"), ("isolation", isolation)];
        value(samples, "millstream_group_partition_lag_records", &labels)
    };
    (of("read_uncommitted"), of("read_committed"))
}

/// Scrapes until `holds`: scrapes within a second are told the same.
pub fn until(address: &str, what: &str, holds: impl Fn(&Samples) -> bool) -> Samples {
    let begun = Instant::now();
    loop {
        let samples = metrics(address);
        if holds(&samples) {
            return samples;
        }
        assert!(begun.elapsed() < Duration::from_secs(15), "{what} never came to be: {samples:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn end_of(client: &mut Client, topic: &str, isolation_level: i8) -> i64 {
    let partition = list_offsets::ListOffsetsPartition { timestamp: -1, ..Default::default() };
    let request = list_offsets::ListOffsetsRequest {
        replica_id: -1,
        isolation_level,
        topics: vec![list_offsets::ListOffsetsTopic { name: topic, partitions: vec![partition] }],
        ..Default::default()
    };
    let body = client.call(5, &request);
    let answer: list_offsets::ListOffsetsResponse<'_> = body.decode(5);
    answer.topics[0].partitions[0].offset
}

pub fn delete_group(client: &mut Client, group: &str) -> i16 {
    let request = delete_groups::DeleteGroupsRequest { groups_names: vec![group] };
    let body = client.call(2, &request);
    body.decode::<delete_groups::DeleteGroupsResponse<'_>>(2).results[0].error_code
}

#[test]
fn lag_is_what_the_clients_api_gives_and_goes_with_group_and_topic() {
    let broker = watched(&[]);
    let (at, mut client) = (address(&broker), broker.connect());
    client.create("t", 2);
    client.create("other", 1);
    assert_eq!(client.produce("t", 0, &["a", "b", "c", "d", "e"]), (0, 0));
    coordinator(&mut client, "g");
    assert_eq!(commit(&mut client, "g", "t", 2), 0);
    assert_eq!(commit(&mut client, "ahead", "t", 1000), 0);
    assert_eq!(commit(&mut client, "ahead", "other", 0), 0);
    let samples = until(&at, "the groups", |samples| {
        lag(samples, "g", "t").0.is_some() && lag(samples, "ahead", "other").0.is_some()
    });
    let ends = [0, 1].map(|isolation| end_of(&mut client, "t", isolation));
    let next = committed(&mut client, "g", "t").0;
    let wanted = ends.map(|end| Some((end - next) as f64));
    assert_eq!((wanted[0], wanted[1]), (Some(3.0), Some(3.0)));
    assert_eq!(lag(&samples, "g", "t"), (wanted[0], wanted[1]));
    assert_eq!(lag(&samples, "ahead", "t"), (Some(0.0), Some(0.0)), "committed ahead of the end");
    let labels = [("group", "g"), ("topic", "t"), ("partition", "1")];
    let offsets = "millstream_group_partition_committed_offset";
    assert_eq!(value(&samples, offsets, &labels), None, "nothing was committed there");
    let of = |name, group| value(&samples, name, &[("group", group)]);
    assert_eq!(of("millstream_group_members", "g"), Some(0.0));
    let state = [("group", "g"), ("state", "Empty")];
    assert_eq!(value(&samples, "millstream_group_state", &state), Some(1.0));
    let end = value(
        &samples,
        "millstream_partition_high_watermark",
        &[("topic", "t"), ("partition", "0")],
    );
    assert_eq!(end, Some(5.0));

    assert_eq!(delete_group(&mut client, "g"), 0);
    assert_eq!(delete(&mut client, "other"), 0);
    let samples = until(&at, "the end of group and topic", |samples| {
        !is_told(samples, "group", "g") && !is_told(samples, "topic", "other")
    });
    assert_eq!(lag(&samples, "ahead", "t"), (Some(0.0), Some(0.0)));
}

#[test]
fn lag_follows_records_and_restart() {
    let mut broker = watched(&[]);
    let mut client = broker.connect();
    client.create("t", 1);
    coordinator(&mut client, "g");
    assert_eq!(commit(&mut client, "g", "t", 0), 0);
    client.produce("t", 0, &["a", "b"]);
    until(&address(&broker), "lag", |samples| lag(samples, "g", "t").0 == Some(2.0));
    client.produce("t", 0, &["c"]);
    until(&address(&broker), "more lag", |samples| lag(samples, "g", "t").0 == Some(3.0));
    assert_eq!(commit(&mut client, "g", "t", 3), 0);
    until(&address(&broker), "no lag", |samples| lag(samples, "g", "t").1 == Some(0.0));
    broker.kill();
    broker.start_again();
    let at = address(&broker);
    until(&at, "the group of before", |samples| lag(samples, "g", "t").0 == Some(0.0));
}

#[test]
fn state_members_and_generation_of_a_group_are_told() {
    let broker = watched(&["--set", "group.initial.rebalance.delay.ms=0"]);
    let mut client = broker.connect();
    coordinator(&mut client, "live");
    let join = |member_id| join_group::JoinGroupRequest {
        group_id: "live",
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 30_000,
        member_id,
        protocol_type: "consumer",
        protocols: vec![join_group::JoinGroupRequestProtocol { name: "range", metadata: b"" }],
        ..Default::default()
    };
    let body = client.call(3, &join(""));
    let joined: join_group::JoinGroupResponse<'_> = body.decode(3);
    assert_eq!(joined.error_code, 0);
    let sync = sync_group::SyncGroupRequest {
        group_id: "live",
        generation_id: joined.generation_id,
        member_id: joined.member_id,
        assignments: vec![sync_group::SyncGroupRequestAssignment {
            member_id: joined.member_id,
            assignment: b"x",
        }],
        ..Default::default()
    };
    let body = client.call(3, &sync);
    assert_eq!(body.decode::<sync_group::SyncGroupResponse<'_>>(3).error_code, 0);
    let stable = [("group", "live"), ("state", "Stable")];
    let samples = until(&address(&broker), "the stable group", |samples| {
        value(samples, "millstream_group_state", &stable) == Some(1.0)
    });
    let of = |name| value(&samples, name, &[("group", "live")]);
    assert_eq!(of("millstream_group_members"), Some(1.0));
    assert_eq!(of("millstream_group_epoch"), Some(f64::from(joined.generation_id)));
    let info = [("group", "live"), ("protocol", "classic"), ("protocol_type", "consumer")];
    assert_eq!(value(&samples, "millstream_group_info", &info), Some(1.0));
    assert_eq!(lag(&samples, "live", "t"), (None, None));
    let total = [("protocol", "classic"), ("state", "Stable")];
    assert_eq!(value(&samples, "millstream_groups", &total), Some(1.0));
    assert_eq!(sum(&samples, "millstream_group_rebalances_total"), 1.0);
}

#[test]
fn counters_of_the_cores_follow_what_clients_do() {
    let broker = watched(&[]);
    let (at, mut client) = (address(&broker), broker.connect());
    let before = metrics(&at);
    client.create("t", 1);
    client.produce("t", 0, &["a", "b", "c"]);
    assert_ne!(client.produce("nope", 0, &["a"]).0, 0);
    let after =
        until(&at, "the records", |samples| sum(samples, "millstream_append_records_total") >= 3.0);
    assert_eq!(sum(&after, "millstream_append_batches_total"), 1.0);
    assert!(sum(&after, "millstream_fsync_total") > sum(&before, "millstream_fsync_total"));
    assert_eq!(sum(&after, "millstream_record_decode_total"), 0.0);
    assert_eq!(sum(&after, "millstream_batch_reencode_total"), 0.0);
    assert_eq!(sum(&after, "millstream_connections"), 1.0);
    assert_eq!(sum(&after, "millstream_connections_accepted_total"), 1.0);
    let produced = after.iter().filter(|((name, labels), _)| {
        name == "millstream_requests_total" && labels.contains(&("api".into(), "Produce".into()))
    });
    assert_eq!(produced.map(|(_, count)| count).sum::<f64>(), 2.0);
    assert_eq!(sum(&after, "millstream_core_up"), metrics_cores(&after));
    assert!(sum(&after, "process_resident_memory_bytes") > 1e6);
    assert!(sum(&after, "process_open_fds") > 10.0);
    for (series, counted) in &before {
        if series.0.ends_with("_total") {
            assert!(after[series] >= *counted, "{series:?} went back");
        }
    }
}

fn metrics_cores(samples: &Samples) -> f64 {
    samples.keys().filter(|(name, _)| name == "millstream_staged_bytes").count() as f64
}

#[test]
fn details_are_left_out_beyond_their_bound() {
    let broker = watched(&["--set", "admin.metrics.detail.max=3"]);
    let (at, mut client) = (address(&broker), broker.connect());
    client.create("t", 4);
    let samples = until(&at, "the topic", |samples| {
        value(samples, "millstream_topic_partitions", &[("topic", "t")]) == Some(4.0)
    });
    assert!(!samples.keys().any(|(name, _)| name == "millstream_partition_high_watermark"));
}

#[test]
fn broker_is_well_and_ready_while_it_runs() {
    let mut broker = watched(&[]);
    let at = address(&broker);
    let ready = get(&at, "/readyz");
    assert_eq!((ready.status, &*ready.body), (200, "ready\n"));
    let health = get(&at, "/healthz");
    assert_eq!(health.status, 200);
    let json: serde_json::Value = serde_json::from_str(&health.body).unwrap();
    assert_eq!(json["state"], "ok");
    assert_eq!(json["phase"], "running");
    assert_eq!(json["storage_stalled"], false);
    assert_eq!(json["silent_cores"].as_array().unwrap().len(), 0);
    let path = broker.data.path().join("data").display().to_string();
    assert_eq!(json["directories"][0]["path"], *path);
    assert_eq!(json["directories"][0]["state"], "ok");
    assert!(broker.stop().success());
    assert!(std::net::TcpStream::connect(&at).is_err(), "the listener outlived its broker");
}

#[test]
fn default_port_in_use_is_a_warning_and_one_that_was_asked_for_refuses_the_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let setting = format!("admin.listener={}", taken.local_addr().unwrap());
    let data = tempfile::tempdir().unwrap();
    let (status, said) = refused(data.path(), &["--set", &setting]);
    assert!(!status.success() && said.contains(&setting["admin.listener=".len()..]), "{said}");
    assert!(said.contains("admin.listener"), "{said}");
    let (status, said) = refused(data.path(), &["--set", "admin.listener=9644"]);
    assert!(!status.success() && said.contains("HOST:PORT"), "{said}");

    // Somebody has the default port, be it us or another.
    let _taken = TcpListener::bind("127.0.0.1:9644");
    let broker = Broker::with(&["--set", "admin.metrics.detail.max=10000"]);
    assert_eq!(broker.connect().produce("nope", 0, &["x"]).0, 3, "it serves");
    assert!(broker.logs("admin.listener"), "{}", broker.log());
}

#[test]
fn admin_listener_can_be_switched_off() {
    let broker = Broker::start();
    assert!(!broker.ready.contains("http://"));
}
