//! Settings as clients see and change them.

use crate::support::{Broker, Client};
use millstream::wire::ErrorCode;
use millstream::wire::messages::*;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;

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
    assert_eq!(config.synonyms[0].source, config.config_source);
    (config.value.map(str::to_owned), config.config_source)
}

fn alter(
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
        ("cleanup.policy", "compact"),
        ("compression.type", "zstd"),
        ("retention.ms", "1000"),
        ("min.insync.replicas", "2"),
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
