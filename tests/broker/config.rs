//! Settings as clients see and change them.

use crate::groups::coordinator;
use crate::support::{Broker, Client};
use millstream::wire::ErrorCode;
use millstream::wire::messages::*;
use millstream_io::batch::testing::BatchBuilder;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const GROUP: i8 = 32;

/// Value and source of a setting.
fn setting(client: &mut Client, kind: i8, name: &str, key: &str) -> (Option<String>, i8) {
    let resource = describe_configs::DescribeConfigsResource {
        resource_type: kind,
        resource_name: name,
        configuration_keys: Some(vec![key]),
    };
    let request = DescribeConfigsRequest {
        resources: vec![resource],
        include_synonyms: true,
        ..Default::default()
    };
    let body = client.call(4, &request);
    let response: DescribeConfigsResponse<'_> = body.decode(4);
    let result = &response.results[0];
    assert_eq!(result.error_code, 0, "{:?}", result.error_message);
    let config = &result.configs[0];
    let strongest = config.synonyms.first().map_or(5, |synonym| synonym.source);
    assert_eq!(strongest, config.config_source);
    (config.value.map(str::to_owned), config.config_source)
}

pub fn alter(
    client: &mut Client,
    kind: i8,
    name: &str,
    ops: &[(&str, i8, Option<&str>)],
) -> (i16, String) {
    let configs = ops.iter().map(|(name, config_operation, value)| {
        incremental_alter_configs::AlterableConfig {
            name,
            config_operation: *config_operation,
            value: *value,
        }
    });
    let resource = incremental_alter_configs::AlterConfigsResource {
        resource_type: kind,
        resource_name: name,
        configs: configs.collect(),
    };
    let request =
        IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let body = client.call(1, &request);
    let response: IncrementalAlterConfigsResponse<'_> = body.decode(1);
    let answer = &response.responses[0];
    (answer.error_code, answer.error_message.unwrap_or_default().to_owned())
}

#[test]
fn shown_value_is_the_value_in_force_from_its_right_source() {
    let mut broker = Broker::with(&["--set", "log.segment.bytes=1048576"]);
    let mut client = broker.connect();
    assert_eq!(client.create_with("t", 1, &[("segment.ms", "5000")]), 0);
    let shown = |client: &mut Client, key| setting(client, TOPIC, "t", key);
    let value = |text: &str, source| (Some(text.to_owned()), source);
    assert_eq!(shown(&mut client, "segment.ms"), value("5000", 1));
    assert_eq!(shown(&mut client, "segment.bytes"), value("1048576", 4));
    assert_eq!(shown(&mut client, "max.message.bytes"), value("1048588", 5));
    assert_eq!(alter(&mut client, BROKER, "1", &[("message.max.bytes", 0, Some("2000"))]).0, 0);
    assert_eq!(shown(&mut client, "max.message.bytes"), value("2000", 2));
    let large = "x".repeat(3000);
    assert_eq!(client.produce("t", 0, &[&large]).0, ErrorCode::MessageTooLarge.number());
    assert_eq!(alter(&mut client, TOPIC, "t", &[("max.message.bytes", 0, Some("9000"))]).0, 0);
    assert_eq!(client.produce("t", 0, &[&large]).0, 0);
    broker.kill();
    broker.start_again();
    let mut client = broker.connect();
    assert_eq!(shown(&mut client, "max.message.bytes"), value("9000", 1));
    assert_eq!(setting(&mut client, BROKER, "1", "message.max.bytes"), value("2000", 2));
}

#[test]
fn time_that_silent_producers_are_remembered_changes_while_the_broker_runs() {
    let broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 1);
    let from_producer =
        |sequence| BatchBuilder::of_values(["x"]).from_producer(7, 0, sequence).build();
    let gap = ErrorCode::OutOfOrderSequenceNumber.number();
    assert_eq!(client.produce_batch("t", 0, &from_producer(0), -1), (0, 0));
    assert_eq!(client.produce_batch("t", 0, &from_producer(5), -1).0, gap);
    let expiry = "producer.id.expiration.ms";
    assert_eq!(alter(&mut client, BROKER, "", &[(expiry, 0, Some("1"))]).0, 0);
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(client.produce_batch("t", 0, &from_producer(5), -1), (0, 1), "it is unknown by now");
    assert_eq!(alter(&mut client, BROKER, "", &[(expiry, 1, None)]).0, 0);
    assert_eq!(client.produce_batch("t", 0, &from_producer(9), -1).0, gap);
}

#[test]
fn more_replicas_than_there_are_refuse_what_waits_for_them_and_nothing_else() {
    let broker = Broker::start();
    let mut client = broker.connect();
    client.create_with("t", 1, &[("min.insync.replicas", "2")]);
    assert_eq!(client.produce("t", 0, &["x"]).0, ErrorCode::NotEnoughReplicas.number());
    assert_eq!(client.fetch("t", 0, 0).1, 0, "nothing was stored");
    let batch = BatchBuilder::of_values(["one"]).build();
    assert_eq!(client.produce_batch("t", 0, &batch, 1), (0, 0));
    assert_eq!(alter(&mut client, TOPIC, "t", &[("min.insync.replicas", 1, None)]).0, 0);
    assert_eq!(client.produce("t", 0, &["two"]), (0, 1));
}

#[test]
fn bad_settings_are_refused_in_words_and_nothing_is_half_applied() {
    let broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 1);
    let invalid = ErrorCode::InvalidConfig.number();
    let (code, text) = alter(&mut client, TOPIC, "t", &[("segment.mss", 0, Some("1"))]);
    assert!(code == invalid && text.contains("segment.ms?"), "{text}");
    let ops = [("segment.ms", 0, Some("77")), ("segment.bytes", 0, Some("7d"))];
    let (code, text) = alter(&mut client, TOPIC, "t", &ops);
    assert!(code == invalid && text.contains("segment.bytes") && text.contains("7d"), "{text}");
    assert_eq!(setting(&mut client, TOPIC, "t", "segment.ms").1, 5);
    for (key, value) in [
        ("cleanup.policy", "keep"),
        ("compression.type", "none"),
        ("compression.lz4.level", "1"),
        ("retention.ms", "-2"),
        ("min.insync.replicas", "0"),
        ("file.delete.delay.ms", "-1"),
        ("remote.storage.enable", "true"),
        ("flush.messages", "1000"),
    ] {
        assert_eq!(client.create_with("u", 1, &[(key, value)]), invalid, "{key}");
    }
    assert_eq!(client.fetch("u", 0, 0).0, 3);
    let (code, _) = alter(&mut client, TOPIC, "nope", &[("segment.ms", 0, Some("77"))]);
    assert_eq!(code, 3);
    let (code, text) = alter(&mut client, BROKER, "1", &[("num.partitions", 0, Some("7"))]);
    assert!(code == 42 && text.contains("restart"), "{text}");
}

/// What `kafka-topics --describe` and Terraform compare: everything that is described can be set
/// to the value it is described with, and nothing changes by it.
#[test]
fn every_described_topic_setting_takes_its_own_value() {
    let broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 1);
    let resource = describe_configs::DescribeConfigsResource {
        resource_type: TOPIC,
        resource_name: "t",
        configuration_keys: None,
    };
    let request = DescribeConfigsRequest {
        resources: vec![resource],
        include_documentation: true,
        ..Default::default()
    };
    let body = client.call(4, &request);
    let response: DescribeConfigsResponse<'_> = body.decode(4);
    let configs = &response.results[0].configs;
    assert!(configs.len() > 10);
    for config in configs {
        assert!(config.documentation.is_some_and(|text| !text.is_empty()), "{}", config.name);
        let op = [(config.name, 0, config.value)];
        assert_eq!(alter(&mut client, TOPIC, "t", &op).0, 0, "{}", config.name);
        let (value, source) = setting(&mut client, TOPIC, "t", config.name);
        assert_eq!((value.as_deref(), source), (config.value, 1));
        assert_eq!(alter(&mut client, TOPIC, "t", &[(config.name, 1, None)]).0, 0);
    }
}

/// Joins a group of the consumer protocol, or joins again; the answered heartbeat interval.
fn joined_interval_ms(client: &mut Client, group: &str) -> i32 {
    let request = ConsumerGroupHeartbeatRequest {
        group_id: group,
        member_id: "m",
        rebalance_timeout_ms: 1000,
        subscribed_topic_names: Some(vec!["t"]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    let body = client.call(1, &request);
    let answer: ConsumerGroupHeartbeatResponse<'_> = body.decode(1);
    assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
    answer.heartbeat_interval_ms
}

/// Type and name of what has settings, or the error.
fn listed(client: &mut Client, version: i16, types: &[i8]) -> Result<Vec<(i8, String)>, i16> {
    let request = ListConfigResourcesRequest { resource_types: types.to_vec() };
    let body = client.call(version, &request);
    let answer: ListConfigResourcesResponse<'_> = body.decode(version);
    let found = answer.config_resources.iter();
    let found = found.map(|found| (found.resource_type, found.resource_name.to_owned()));
    if answer.error_code == 0 { Ok(found.collect()) } else { Err(answer.error_code) }
}

const SESSION: &str = "consumer.session.timeout.ms";
const HEARTBEAT: &str = "consumer.heartbeat.interval.ms";

/// Goal: what is set for a group is obeyed by the next heartbeat on whichever core, and is there after
/// a kill; without it the broker's value is in force again.
#[test]
fn settings_of_a_group_are_obeyed_at_once_and_survive_a_kill() {
    let mut broker = Broker::with(&["--set", "group.consumer.heartbeat.interval.ms=6000"]);
    let mut client = broker.connect();
    client.create("t", 1);
    coordinator(&mut client, "g0");
    let value = |text: &str, source| (Some(text.to_owned()), source);
    assert_eq!(setting(&mut client, GROUP, "g0", SESSION), value("45000", 5));
    assert_eq!(setting(&mut client, GROUP, "g0", HEARTBEAT), value("6000", 4));
    assert_eq!(joined_interval_ms(&mut client, "g0"), 6000);
    let names: Vec<String> = (0..8).map(|number| format!("g{number}")).collect();
    for name in &names {
        let ops = [(HEARTBEAT, 0, Some("7000")), (SESSION, 0, Some("50000"))];
        assert_eq!(alter(&mut client, GROUP, name, &ops), (0, String::new()));
        assert_eq!(joined_interval_ms(&mut broker.connect(), name), 7000);
    }
    broker.kill();
    broker.start_again();
    let mut client = broker.connect();
    for name in &names {
        assert_eq!(setting(&mut client, GROUP, name, HEARTBEAT), value("7000", 8));
        assert_eq!(setting(&mut client, GROUP, name, SESSION), value("50000", 8));
        assert_eq!(joined_interval_ms(&mut client, name), 7000);
    }
    let groups = names.iter().map(|name| (GROUP, name.clone())).collect();
    assert_eq!(listed(&mut client, 1, &[GROUP]), Ok(groups));
    assert_eq!(alter(&mut client, GROUP, "g0", &[(HEARTBEAT, 1, None)]).0, 0);
    assert_eq!(joined_interval_ms(&mut client, "g0"), 6000);
    assert_eq!(setting(&mut client, GROUP, "g0", HEARTBEAT), value("6000", 4));
    // The older way: what is not named is deleted.
    let resource = alter_configs::AlterConfigsResource {
        resource_type: GROUP,
        resource_name: "g0",
        configs: Vec::new(),
    };
    let request = AlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let body = client.call(2, &request);
    let response: AlterConfigsResponse<'_> = body.decode(2);
    assert_eq!(response.responses[0].error_code, 0);
    assert_eq!(setting(&mut client, GROUP, "g0", SESSION), value("45000", 5));
    assert_eq!(listed(&mut client, 1, &[GROUP]).unwrap().len(), 7);
}

#[test]
fn bad_settings_of_a_group_are_refused_in_words() {
    let broker = Broker::start();
    let mut client = broker.connect();
    let invalid = ErrorCode::InvalidConfig.number();
    for (key, value, part) in [
        (SESSION, "44999", "group.consumer.min.session.timeout.ms"),
        (SESSION, "60001", "group.consumer.max.session.timeout.ms"),
        (HEARTBEAT, "4999", "group.consumer.min.heartbeat.interval.ms"),
        (HEARTBEAT, "soon", "soon"),
        ("share.session.timeout.ms", "50000", "Unknown group config name"),
        ("consumer.session.timeout", "50000", "Did you mean consumer.session.timeout.ms?"),
    ] {
        let (code, text) = alter(&mut client, GROUP, "g", &[(key, 0, Some(value))]);
        assert!(code == invalid && text.contains(part), "{key}={value}: {code} {text}");
    }
    let (code, _) = alter(&mut client, GROUP, "", &[(SESSION, 0, Some("50000"))]);
    assert_eq!(code, ErrorCode::InvalidRequest.number());
    assert_eq!(listed(&mut client, 1, &[GROUP]), Ok(vec![]));
}

#[test]
fn what_has_settings_is_listed_by_type() {
    let broker = Broker::start();
    let mut client = broker.connect();
    client.create("t", 1);
    assert_eq!(alter(&mut client, GROUP, "g", &[(SESSION, 0, Some("50000"))]).0, 0);
    let all = [(GROUP, "g"), (BROKER, "1"), (TOPIC, "t")];
    let all: Vec<_> = all.into_iter().map(|(kind, name)| (kind, name.to_owned())).collect();
    assert_eq!(listed(&mut client, 1, &[]), Ok(all.clone()));
    assert_eq!(listed(&mut client, 1, &[TOPIC, BROKER]), Ok(vec![all[1].clone(), all[2].clone()]));
    // Loggers and metrics of clients are known, and there are none.
    assert_eq!(listed(&mut client, 1, &[8, 16]), Ok(vec![]));
    let unsupported = ErrorCode::UnsupportedVersion.number();
    assert_eq!(listed(&mut client, 1, &[TOPIC, 64]), Err(unsupported));
    assert_eq!(listed(&mut client, 0, &[]), Ok(vec![]));
}
