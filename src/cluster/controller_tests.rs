//! The controller against a store in memory and cores that only remember.

use super::super::change::{ConfigOp, ConfigOpKind};
use super::super::image::tests::image;
use super::super::limits::GROUPS_WITH_SETTINGS_MAX;
use super::super::store::{MemoryStore, Stored};
use super::*;
use std::sync::Mutex;

#[derive(Default)]
struct Seen {
    open: Vec<TopicPartition>,
    configured: Vec<(TopicId, TopicConfig)>,
    dropped: Vec<TopicId>,
    published: Vec<Arc<MetadataImage>>,
    aside: Vec<String>,
    room: usize,
    directories_fail: bool,
}

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Seen>>);

impl Fake {
    fn see<T>(&self, look: impl FnOnce(&mut Seen) -> T) -> T {
        look(&mut self.0.lock().unwrap())
    }
}

impl Cores for Fake {
    fn open(&mut self, partitions: Vec<NewPartition>) -> Result<(), String> {
        self.see(|seen| {
            let room = seen.room.saturating_sub(seen.open.len());
            seen.open.extend(partitions.iter().take(room).map(|partition| partition.at));
            if partitions.len() > room { Err("no room".to_owned()) } else { Ok(()) }
        })
    }

    fn configure(&mut self, topic: TopicId, config: TopicConfig) {
        self.see(|seen| seen.configured.push((topic, config)));
    }

    fn drop_topic(&mut self, topic: TopicId) {
        self.see(|seen| {
            seen.dropped.push(topic);
            seen.open.retain(|at| at.topic != topic);
        });
    }

    fn publish(&mut self, image: Arc<MetadataImage>) {
        self.see(|seen| seen.published.push(image));
    }
}

impl TopicDirectories for Fake {
    fn set_aside(&mut self, name: &str, _: TopicId, _: Duration) -> Result<(), String> {
        self.see(|seen| {
            if seen.directories_fail {
                return Err("no".to_owned());
            }
            seen.aside.push(name.to_owned());
            Ok(())
        })
    }
}

fn controller() -> (Controller<MemoryStore, Fake, Fake>, Fake) {
    let store = MemoryStore { stored: Stored { starts: 3, ..Stored::default() }, failure: None };
    let fake = Fake::default();
    fake.see(|seen| seen.room = 10_000);
    let image = image(&store.stored);
    let stored = store.stored.clone();
    (Controller::new(store, fake.clone(), fake.clone(), image, &stored), fake)
}

fn new(name: &str, partitions: i32) -> NewTopic {
    let name = name.to_owned();
    NewTopic { name, partitions, replication_factor: -1, ..NewTopic::default() }
}

fn with_config(name: &str, key: &str, value: &str) -> NewTopic {
    let configs = vec![(key.to_owned(), Some(value.to_owned()))];
    NewTopic { configs, ..new(name, 1) }
}

fn op(kind: ConfigOpKind, key: &str, value: Option<&str>) -> ConfigOp {
    ConfigOp { key: key.to_owned(), kind, value: value.map(str::to_owned) }
}

fn topic(name: &str) -> ConfigTarget {
    ConfigTarget::Topic(name.to_owned())
}

#[test]
fn created_topic_is_committed_open_and_published_before_the_answer() {
    let (mut controller, fake) = controller();
    let answers = controller.create_topics(&[new("a", 3), new("b", -1)], false);
    let id = answers[0].as_ref().unwrap().id;
    assert_eq!(answers[1].as_ref().unwrap().partitions, 1);
    assert_eq!(controller.store.stored.topics[&id].partitions, 3);
    fake.see(|seen| {
        assert_eq!(seen.open.len(), 4);
        assert_eq!(seen.published.last().unwrap().topic_by_name("a").unwrap().id, id);
    });
}

#[test]
fn each_bad_topic_fails_alone() {
    let (mut controller, fake) = controller();
    assert!(controller.create_topics(&[new("there", 1)], false)[0].is_ok());
    let assigned = |assignments: &[(i32, Vec<i32>)]| NewTopic {
        assignments: assignments.to_vec(),
        ..new("assigned", -1)
    };
    let bad: Vec<(NewTopic, &str)> = vec![
        (new("there", 1), "TopicExists"),
        (new("a/b", 1), "BadName"),
        (new("x", 0), "Partitions"),
        (new("x", -2), "Partitions"),
        (new("x", 10_001), "Partitions"),
        (NewTopic { replication_factor: 2, ..new("x", 1) }, "ReplicationFactor"),
        (NewTopic { replication_factor: 0, ..new("x", 1) }, "ReplicationFactor"),
        (with_config("x", "retention.mss", "1"), "TopicConfig"),
        (with_config("x", "segment.bytes", "7d"), "TopicConfig"),
        (with_config("x", "cleanup.policy", "compact,compact"), "TopicConfig"),
        (with_config("x", "min.cleanable.dirty.ratio", "2"), "TopicConfig"),
        (assigned(&[(0, vec![2])]), "Assignment"),
        (assigned(&[(1, vec![1])]), "Assignment"),
        (assigned(&[(0, vec![])]), "Assignment"),
        (assigned(&[(0, vec![1, 1])]), "Assignment"),
        (NewTopic { partitions: 1, ..assigned(&[(0, vec![1])]) }, "Request"),
    ];
    for (bad, expected) in bad {
        let published = fake.see(|seen| seen.published.len());
        let good = new(&format!("good-{published}"), 1);
        let answers = controller.create_topics(&[bad.clone(), good], false);
        let refused = answers[0].as_ref().unwrap_err();
        assert!(format!("{refused:?}").starts_with(expected), "{bad:?}: {refused:?}");
        assert!(answers[1].is_ok());
    }
    let answers = controller.create_topics(&[assigned(&[(1, vec![1]), (0, vec![1])])], false);
    assert_eq!(answers[0].as_ref().unwrap().partitions, 2);
}

#[test]
fn names_that_collide_within_one_request_are_refused() {
    let (mut controller, _) = controller();
    let answers = controller.create_topics(&[new("a.b", 1), new("a_b", 1)], false);
    assert!(answers[0].is_ok());
    assert!(matches!(answers[1], Err(Refused::NameCollides { .. })));
    let answers = controller.create_topics(&[new("c", 1), new("c", 1)], false);
    assert!(answers.iter().all(|answer| matches!(answer, Err(Refused::Request { .. }))));
}

#[test]
fn validate_only_changes_nothing() {
    let (mut controller, fake) = controller();
    assert!(controller.create_topics(&[new("a", 1)], true)[0].is_ok());
    assert!(controller.create_topics(&[new("a", 1)], false)[0].is_ok());
    let more = MorePartitions { name: "a".into(), count: 5, assignments: None };
    assert_eq!(controller.create_partitions(&[more], true), [Ok(())]);
    let set = ConfigChange::Some(vec![op(ConfigOpKind::Set, "segment.ms", Some("5"))]);
    assert_eq!(controller.alter_configs(&[(topic("a"), set)], true), [Ok(())]);
    fake.see(|seen| assert_eq!((seen.open.len(), seen.published.len()), (1, 1)));
    assert_eq!(controller.image().topic_by_name("a").unwrap().partitions, 1);
}

#[test]
fn failed_commit_leaves_no_open_partition_and_no_image() {
    let (mut controller, fake) = controller();
    controller.store.failure =
        Some(StoreError::Full { path: "p".into(), needed_bytes: 2, free_bytes: 1 });
    let answers = controller.create_topics(&[new("a", 3)], false);
    assert!(matches!(answers[0], Err(Refused::Store(StoreError::Full { .. }))));
    fake.see(|seen| {
        assert!(seen.open.is_empty() && seen.published.is_empty());
    });
    assert!(matches!(controller.producer_ids(), Err(Refused::Store(_))));
    controller.store.failure = None;
    assert!(controller.create_topics(&[new("a", 3)], false)[0].is_ok());
    assert_eq!(controller.producer_ids().unwrap(), 0..1000);
    assert_eq!(controller.producer_ids().unwrap(), 1000..2000);
    assert_eq!(controller.store.stored.next_producer_id, 2000);
}

#[test]
fn topic_that_does_not_fit_is_refused_whole() {
    let (mut controller, fake) = controller();
    fake.see(|seen| seen.room = 4);
    let answers = controller.create_topics(&[new("a", 3), new("b", 3), new("c", 1)], false);
    assert!(answers[0].is_ok() && answers[2].is_ok());
    assert!(matches!(answers[1], Err(Refused::TooMany { .. })));
    fake.see(|seen| assert_eq!(seen.open.len(), 4, "a part of the refused topic stayed open"));
    assert_eq!(controller.store.stored.topics.len(), 2);
    let huge: Vec<_> = (0..11).map(|index| new(&format!("h{index}"), 1000)).collect();
    let answers = controller.create_topics(&huge, false);
    assert!(answers.iter().all(|answer| matches!(answer, Err(Refused::TooMany { .. }))));
}

#[test]
fn deleted_topic_leaves_a_tombstone_until_its_directory_is_aside() {
    let (mut controller, fake) = controller();
    controller.create_topics(&[new("a", 1), new("b", 1)], false);
    fake.see(|seen| seen.directories_fail = true);
    let name = |name: &str| TopicRef::Name(name.to_owned());
    let answers = controller.delete_topics(&[name("a"), name("nope")]);
    assert_eq!(&*answers[0].as_ref().unwrap().name, "a");
    assert_eq!(answers[1].as_ref().unwrap_err(), &Refused::UnknownTopic);
    assert_eq!(controller.store.stored.tombstones.len(), 1);
    fake.see(|seen| {
        seen.directories_fail = false;
        assert!(seen.published.last().unwrap().topic_by_name("a").is_none());
        assert_eq!(seen.open.len(), 1);
    });
    fake.see(|seen| seen.directories_fail = true);
    let again = controller.create_topics(&[new("a", 1)], false);
    assert!(matches!(again[0], Err(Refused::NameNotFree { .. })), "it would meet the old files");
    fake.see(|seen| seen.directories_fail = false);
    assert!(controller.create_topics(&[new("a", 1)], false)[0].is_ok());
    assert_eq!(controller.store.stored.tombstones.len(), 0);
    let id = controller.image().topic_by_name("b").unwrap().id;
    assert!(controller.delete_topics(&[TopicRef::Id(id)])[0].is_ok());
    assert_eq!(controller.store.stored.tombstones.len(), 0);
    fake.see(|seen| assert_eq!(seen.aside, ["a", "b"]));
    let again = controller.delete_topics(&[TopicRef::Id(id)]);
    assert!(matches!(again[0], Err(Refused::UnknownTopicId { .. })));
    let new_id = controller.create_topics(&[new("b", 1)], false)[0].as_ref().unwrap().id;
    assert_ne!(new_id, id);
}

#[test]
fn partitions_only_grow() {
    let (mut controller, fake) = controller();
    controller.create_topics(&[new("a", 2)], false);
    let more = |name: &str, count, assignments| MorePartitions {
        name: name.to_owned(),
        count,
        assignments,
    };
    let ask = |controller: &mut Controller<_, _, _>, change| {
        controller.create_partitions(&[change], false).remove(0)
    };
    assert_eq!(ask(&mut controller, more("a", 4, None)), Ok(()));
    for count in [4, 3, 0, -1, i32::MAX] {
        let refused = ask(&mut controller, more("a", count, None)).unwrap_err();
        assert!(matches!(refused, Refused::Partitions { .. }), "{count}: {refused:?}");
    }
    assert_eq!(ask(&mut controller, more("x", 4, None)), Err(Refused::UnknownTopic));
    let refused = ask(&mut controller, more("a", 6, Some(vec![vec![1]])));
    assert!(matches!(refused, Err(Refused::Assignment { .. })));
    assert_eq!(ask(&mut controller, more("a", 6, Some(vec![vec![1], vec![1]]))), Ok(()));
    fake.see(|seen| {
        assert_eq!(seen.open.len(), 6);
        assert_eq!(seen.published.last().unwrap().topic_by_name("a").unwrap().partitions, 6);
    });
}

#[test]
fn settings_change_one_by_one_and_reach_the_cores() {
    let (mut controller, fake) = controller();
    controller.create_topics(&[with_config("a", "segment.ms", "9")], false);
    let ask = |controller: &mut Controller<_, _, _>, ops| {
        controller.alter_configs(&[(topic("a"), ConfigChange::Some(ops))], false).remove(0)
    };
    let set = op(ConfigOpKind::Set, "segment.bytes", Some("1048576"));
    let delete = op(ConfigOpKind::Delete, "segment.ms", None);
    assert_eq!(ask(&mut controller, vec![set, delete]), Ok(()));
    fake.see(|seen| {
        let (_, config) = seen.configured.last().unwrap();
        assert_eq!((config.segment_bytes, config.segment_ms), (1_048_576, 604_800_000));
        let image = seen.published.last().unwrap();
        assert_eq!(image.topic_by_name("a").unwrap().own.len(), 1);
    });
    let bad = [
        vec![op(ConfigOpKind::Set, "nope", Some("1"))],
        vec![op(ConfigOpKind::Set, "segment.ms", Some("-1"))],
        vec![op(ConfigOpKind::Set, "segment.ms", None)],
        vec![op(ConfigOpKind::Append, "segment.ms", Some("1"))],
        vec![op(ConfigOpKind::Append, "cleanup.policy", Some("keep"))],
        vec![
            op(ConfigOpKind::Set, "min.compaction.lag.ms", Some("2")),
            op(ConfigOpKind::Set, "max.compaction.lag.ms", Some("1")),
        ],
        vec![op(ConfigOpKind::Subtract, "cleanup.policy", Some("delete"))],
        vec![op(ConfigOpKind::Delete, "nope", None)],
        // The good one before a bad one is not applied.
        vec![
            op(ConfigOpKind::Set, "segment.ms", Some("1")),
            op(ConfigOpKind::Set, "nope", Some("1")),
        ],
        vec![
            op(ConfigOpKind::Set, "segment.ms", Some("1")),
            op(ConfigOpKind::Set, "segment.ms", Some("2")),
        ],
    ];
    for ops in bad {
        assert!(ask(&mut controller, ops.clone()).is_err(), "{ops:?}");
    }
    assert_eq!(controller.image().topic_by_name("a").unwrap().own.len(), 1);
    let append = vec![op(ConfigOpKind::Append, "cleanup.policy", Some("delete"))];
    assert_eq!(ask(&mut controller, append), Ok(()));
    let all = ConfigChange::All(vec![("max.message.bytes".into(), Some("5".into()))]);
    assert_eq!(controller.alter_configs(&[(topic("a"), all)], false), [Ok(())]);
    let own = &controller.image().topic_by_name("a").unwrap().own;
    assert_eq!(own.keys().collect::<Vec<_>>(), ["max.message.bytes"]);
}

#[test]
fn leftover_setting_blocks_no_other_change_and_can_be_deleted() {
    let (mut controller, _) = controller();
    let id = TopicId::from_bytes([7; 16]);
    let record = TopicRecord {
        name: "a".into(),
        partitions: 1,
        created_at_start: 1,
        configs: [("gone.setting".to_owned(), "1".to_owned())].into(),
    };
    controller.store.stored.topics.insert(id, record.clone());
    controller.image.put(id, &record);
    let set = ConfigChange::Some(vec![op(ConfigOpKind::Set, "segment.ms", Some("5"))]);
    let delete = ConfigChange::Some(vec![op(ConfigOpKind::Delete, "gone.setting", None)]);
    assert_eq!(controller.alter_configs(&[(topic("a"), set)], false), [Ok(())]);
    assert_eq!(controller.image().topic_by_id(id).unwrap().own.len(), 2);
    assert_eq!(controller.alter_configs(&[(topic("a"), delete)], false), [Ok(())]);
    assert_eq!(controller.image().topic_by_id(id).unwrap().own.len(), 1);
}

const SESSION: &str = "consumer.session.timeout.ms";
const HEARTBEAT: &str = "consumer.heartbeat.interval.ms";

fn group(name: &str) -> ConfigTarget {
    ConfigTarget::Group(name.to_owned())
}

#[test]
fn settings_of_groups_are_stored_and_published_for_groups_that_need_not_exist() {
    let (mut controller, fake) = controller();
    let ask = |controller: &mut Controller<_, _, _>, ops, validate_only| {
        let change = (group("g"), ConfigChange::Some(ops));
        controller.alter_configs(&[change], validate_only).remove(0)
    };
    let set = |key, value| op(ConfigOpKind::Set, key, Some(value));
    let both = || vec![set(SESSION, "50000"), set(HEARTBEAT, " 6000")];
    assert_eq!(ask(&mut controller, both(), true), Ok(()));
    assert!(controller.store.stored.group_configs.is_empty());
    assert_eq!(ask(&mut controller, both(), false), Ok(()));
    let stored = controller.store.stored.group_configs["g"].clone();
    assert_eq!((&*stored[SESSION], &*stored[HEARTBEAT]), ("50000", "6000"));
    fake.see(|seen| {
        let in_force = seen.published.last().unwrap().group_configs().in_force("g").unwrap();
        assert_eq!((in_force.session_ms, in_force.heartbeat_ms), (50_000, 6_000));
    });
    // What was published stays as it is: a core may still read it.
    assert_eq!(ask(&mut controller, vec![op(ConfigOpKind::Delete, SESSION, None)], false), Ok(()));
    fake.see(|seen| {
        let session =
            |image: &MetadataImage| image.group_configs().in_force("g").unwrap().session_ms;
        assert_eq!(
            seen.published.iter().map(|image| session(image)).collect::<Vec<_>>(),
            [50_000, 45_000]
        );
    });
    let all = |pairs: Vec<(String, Option<String>)>| [(group("g"), ConfigChange::All(pairs))];
    let one = all(vec![(SESSION.into(), Some("46000".into()))]);
    assert_eq!(controller.alter_configs(&one, false), [Ok(())]);
    assert_eq!(controller.store.stored.group_configs["g"].len(), 1);
    assert_eq!(controller.alter_configs(&all(vec![]), false), [Ok(())]);
    assert!(controller.store.stored.group_configs.is_empty());
    assert!(controller.image().group_configs().is_empty());
}

#[test]
fn bad_settings_of_groups_are_refused_whole() {
    let (mut controller, fake) = controller();
    let set = |key, value| op(ConfigOpKind::Set, key, value);
    for (name, ops, expected) in [
        ("", vec![set(SESSION, Some("50000"))], "Request"),
        ("g", vec![set("share.isolation.level", Some("x"))], "GroupConfig(Unknown"),
        ("g", vec![op(ConfigOpKind::Delete, "nope", None)], "GroupConfig(Unknown"),
        ("g", vec![set(SESSION, Some("1h"))], "BadValue"),
        ("g", vec![set(SESSION, Some("44999"))], "GroupConfig(Bad"),
        ("g", vec![set(SESSION, None)], "Request"),
        ("g", vec![op(ConfigOpKind::Append, SESSION, Some("50000"))], "TopicConfig(NotAList"),
        ("g", vec![set(SESSION, Some("50000")), set(SESSION, Some("50000"))], "Request"),
        ("g", vec![set(HEARTBEAT, Some("6000")), set("nope", Some("1"))], "GroupConfig(Unknown"),
    ] {
        let change = (group(name), ConfigChange::Some(ops));
        let refused = controller.alter_configs(&[change], false).remove(0).unwrap_err();
        assert!(format!("{refused:?}").starts_with(expected), "{refused:?} for {expected}");
    }
    let long = group(&"g".repeat(40_000));
    let change = ConfigChange::Some(vec![set(SESSION, Some("50000"))]);
    assert!(controller.alter_configs(&[(long, change.clone())], false)[0].is_err());
    assert!(controller.store.stored.group_configs.is_empty());
    fake.see(|seen| assert!(seen.published.is_empty()));
    controller.store.failure = Some(StoreError::Failed { path: "p".into(), what: "EIO".into() });
    let answers = controller.alter_configs(&[(group("g"), change)], false);
    assert!(matches!(answers[0], Err(Refused::Store(_))));
    assert!(controller.image().group_configs().is_empty());
}

/// A restart with other bounds makes stored values impossible: the nearest ones are in force, and the
/// next change stores them.
#[test]
fn leftover_setting_of_a_group_blocks_no_other_change() {
    let (mut controller, _) = controller();
    let own = [(SESSION, "1000"), ("gone.setting", "1")];
    let own: BTreeMap<String, String> =
        own.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    controller.store.stored.group_configs.insert("g".into(), own.clone());
    controller.image.set_group_config("g", own);
    assert_eq!(controller.image().group_configs().in_force("g").unwrap().session_ms, 45_000);
    let ask = |controller: &mut Controller<MemoryStore, _, _>, op| {
        let change = (group("g"), ConfigChange::Some(vec![op]));
        assert_eq!(controller.alter_configs(&[change], false), [Ok(())]);
        let stored = controller.store.stored.group_configs.get("g").cloned().unwrap_or_default();
        stored.into_keys().collect::<Vec<_>>()
    };
    let set = op(ConfigOpKind::Set, HEARTBEAT, Some("6000"));
    assert_eq!(ask(&mut controller, set), [HEARTBEAT, SESSION, "gone.setting"]);
    assert_eq!(controller.store.stored.group_configs["g"][SESSION], "45000");
    let delete = op(ConfigOpKind::Delete, SESSION, None);
    assert_eq!(ask(&mut controller, delete), [HEARTBEAT, "gone.setting"]);
    let delete = op(ConfigOpKind::Delete, "gone.setting", None);
    assert_eq!(ask(&mut controller, delete), [HEARTBEAT]);
    let delete = op(ConfigOpKind::Delete, HEARTBEAT, None);
    assert!(ask(&mut controller, delete).is_empty());
}

#[test]
fn only_so_many_groups_have_settings() {
    let (mut controller, _) = controller();
    let own: BTreeMap<String, String> = [(SESSION.to_owned(), "50000".to_owned())].into();
    for number in 0..GROUPS_WITH_SETTINGS_MAX {
        controller.image.set_group_config(&format!("g{number}"), own.clone());
    }
    let set = ConfigChange::Some(vec![op(ConfigOpKind::Set, SESSION, Some("46000"))]);
    let answers =
        controller.alter_configs(&[(group("one more"), set.clone()), (group("g7"), set)], false);
    assert!(matches!(answers[0], Err(Refused::TooMany { .. })));
    assert_eq!(answers[1], Ok(()));
    let delete = ConfigChange::Some(vec![op(ConfigOpKind::Delete, SESSION, None)]);
    assert_eq!(controller.alter_configs(&[(group("one more"), delete)], false), [Ok(())]);
}

#[test]
fn broker_settings_change_while_running_only_where_they_can() {
    let (mut controller, fake) = controller();
    controller.create_topics(&[new("a", 1)], false);
    let set =
        |key: &str, value: &str| ConfigChange::Some(vec![op(ConfigOpKind::Set, key, Some(value))]);
    let mut ask = |id, change| {
        controller.alter_configs(&[(ConfigTarget::Broker(id), change)], false).remove(0)
    };
    assert_eq!(ask(Some(1), set("message.max.bytes", "77")), Ok(()));
    assert_eq!(ask(None, set("max.connections", "5")), Ok(()));
    assert!(matches!(
        ask(Some(2), set("max.connections", "5")),
        Err(Refused::UnknownBroker { .. })
    ));
    assert!(matches!(ask(None, set("num.partitions", "5")), Err(Refused::Request { .. })));
    let near = ask(None, set("max.conections", "5")).unwrap_err().to_string();
    assert!(near.contains("Did you mean max.connections?"), "{near}");
    assert!(ask(None, set("max.connections", "0")).is_err());
    fake.see(|seen| {
        let image = seen.published.last().unwrap();
        assert_eq!(image.broker.sockets.connections_max, 5);
        assert_eq!(image.topic_by_name("a").unwrap().config.max_message_bytes, 77);
        assert_eq!(seen.configured.last().unwrap().1.max_message_bytes, 77);
    });
}
