//! The image against what the store holds.

use super::*;

pub(crate) fn image(stored: &Stored) -> MetadataImage {
    let config = Config::load(&[]).unwrap();
    let endpoint = AdvertisedEndpoint {
        listener: "PLAINTEXT".to_owned(),
        host: "127.0.0.1".to_owned(),
        port: 9092,
    };
    let broker = Broker { id: NodeId::new(1).unwrap(), rack: None, endpoints: vec![endpoint] };
    let start =
        Start { cluster_id: "c".to_owned(), config, brokers: vec![broker], starts: stored.starts };
    MetadataImage::new(Arc::new(start), stored)
}

fn record(name: &str, created_at_start: u64) -> TopicRecord {
    let configs = BTreeMap::new();
    TopicRecord { name: name.to_owned(), partitions: 2, created_at_start, configs }
}

#[test]
fn leader_epoch_is_starts_since_the_topic_was_made() {
    let mut stored = Stored { starts: 9, ..Stored::default() };
    stored.topics.insert(TopicId::from_bytes([1; 16]), record("old", 4));
    stored.topics.insert(TopicId::from_bytes([2; 16]), record("new", 9));
    let image = image(&stored);
    assert_eq!(image.topic_by_name("old").unwrap().leader_epoch, LeaderEpoch::at(5));
    assert_eq!(image.topic_by_name("new").unwrap().leader_epoch, LeaderEpoch::ZERO);
    assert_eq!(image.partition_count(), 4);
    assert!(image.topic_by_name("old").unwrap().partition(2).is_none());
    assert!(image.topic_by_name("old").unwrap().partition(-1).is_none());
}

#[test]
fn dynamic_broker_value_changes_topics_that_do_not_set_their_own() {
    let mut stored = Stored { starts: 1, ..Stored::default() };
    let (a, b) = (TopicId::from_bytes([1; 16]), TopicId::from_bytes([2; 16]));
    stored.topics.insert(a, record("a", 1));
    let mut own = record("b", 1);
    own.configs.insert("segment.ms".to_owned(), "77".to_owned());
    stored.topics.insert(b, own);
    let mut image = image(&stored);
    let set = |scope, value: &str| (scope, [("log.roll.ms".into(), value.into())].into());
    let changed = image.set_broker_dynamic([set(BrokerScope::All, "50")].into());
    assert_eq!(changed.iter().map(|topic| topic.id).collect::<Vec<_>>(), [a]);
    assert_eq!(image.topic_by_id(a).unwrap().config.segment_ms, 50);
    assert_eq!(image.topic_by_name("b").unwrap().config.segment_ms, 77);
    assert_eq!(image.broker_value("log.roll.ms").1, BrokerSource::DynamicAll);
    image.set_broker_dynamic([set(BrokerScope::Node(1), "60")].into());
    assert_eq!(image.broker_value("log.roll.ms"), (Some("60".into()), BrokerSource::DynamicNode));
    image.set_broker_dynamic([set(BrokerScope::All, "left over")].into());
    assert_eq!(image.broker_value("log.roll.ms").1, BrokerSource::Default);
}
