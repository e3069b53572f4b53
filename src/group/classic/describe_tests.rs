use super::super::testing::*;
use super::super::*;
use crate::wire::messages::consumer_protocol::ConsumerProtocolSubscription;
use crate::wire::schema::Message;
use crate::wire::writer::Writer;

#[test]
fn stable_group_is_described_with_metadata_and_assignments() {
    let (scene, ids) = Scene::stable_static(&["a"]);
    let expected = Description {
        state: State::Stable,
        protocol_type: name("consumer"),
        protocol: name("range"),
        members: vec![MemberDescription {
            member_id: ids[0].clone(),
            instance_id: Some(name("a")),
            client_id: name("client"),
            client_host: name("/10.0.0.1"),
            metadata: bytes("topics"),
            assignment: bytes(&format!("share of {}", ids[0])),
        }],
    };
    assert_eq!(scene.group.describe(), expected);
}

#[test]
fn states_are_named_as_kafka_names_them() {
    let mut scene = Scene::new();
    let mut names = vec![scene.group.describe().state.name()];
    let _ = scene.join(old_join());
    names.push(scene.group.describe().state.name());
    scene.pass(DELAY_MS);
    names.push(scene.group.describe().state.name());
    scene.sync_all(&[name("client-1")]);
    names.push(scene.group.describe().state.name());
    let _ = scene.leave(&[leaving("client-1", None)]);
    let _ = scene.group.forget(scene.now());
    names.push(scene.group.describe().state.name());
    let expected = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"];
    assert_eq!(names, expected);
}

#[test]
fn protocol_and_metadata_are_shown_of_stable_groups_only() {
    let mut scene = Scene::stable(1);
    let _ = scene.join(join("client-1"));
    let described = scene.group.describe();
    assert_eq!((described.state, &*described.protocol), (State::CompletingRebalance, ""));
    assert_eq!(described.members[0].metadata, Bytes::new());
    assert_eq!(&*described.protocol_type, "consumer");
}

fn subscription(topics: &[&str]) -> Bytes {
    let topics = topics.to_vec();
    let data = ConsumerProtocolSubscription { topics, ..Default::default() };
    let mut writer = Writer::new();
    writer.i16(0);
    data.encode(&mut writer, 0).unwrap();
    writer.into_bytes().into()
}

fn subscribed(of: &[&[&str]]) -> Scene {
    let mut scene = Scene::new();
    let joins = of.iter().map(|topics| {
        let metadata = subscription(topics);
        JoinRequest { protocols: vec![Protocol { name: name("range"), metadata }], ..old_join() }
    });
    let tickets: Vec<_> = joins.map(|request| scene.join(request)).collect();
    scene.pass(2 * DELAY_MS);
    let ids: Vec<_> = tickets.iter().map(|t| scene.joined(*t).member_id).collect();
    scene.sync_all(&ids);
    scene
}

#[test]
fn topics_of_consumers_are_known_and_others_bytes_are_their_own_affair() {
    let scene = subscribed(&[&["a", "b"], &["b", "c"]]);
    let expected = ["a", "b", "c"].map(name);
    assert_eq!(scene.group.subscribed_topics(), Some(expected.into()));
    assert_eq!(Scene::stable(1).group.subscribed_topics(), None, "not a subscription");
    let mut scene = Scene::new();
    let _ = scene.join(JoinRequest { protocol_type: name("connect"), ..old_join() });
    scene.pass(DELAY_MS);
    assert_eq!(scene.group.subscribed_topics(), None);
}

#[test]
fn offsets_expire_since_the_group_is_empty_or_since_each_commit() {
    let mut scene = Scene::new();
    assert_eq!(scene.group.offset_expiry(), OffsetExpiry::SinceCommit, "a group of offsets alone");
    let _ = scene.join(old_join());
    assert_eq!(scene.group.offset_expiry(), OffsetExpiry::Never);
    let mut scene = subscribed(&[&["a"]]);
    assert_eq!(scene.group.offset_expiry(), OffsetExpiry::SinceCommit);
    let empty_since = scene.now().wall;
    let _ = scene.leave(&[leaving("client-1", None)]);
    scene.pass(1_000_000);
    assert_eq!(scene.group.offset_expiry(), OffsetExpiry::SinceEmpty(empty_since));
    assert_eq!(scene.group.subscribed_topics(), Some([].into()));
    let unreadable = Scene::stable(1);
    assert_eq!(unreadable.group.offset_expiry(), OffsetExpiry::Never);
}

#[test]
fn offsets_may_be_deleted_of_empty_groups_and_of_consumers() {
    assert_eq!(Scene::new().group.check_offset_delete(), Ok(()));
    assert_eq!(Scene::stable(1).group.check_offset_delete(), Ok(()));
    let mut scene = Scene::new();
    let _ = scene.join(JoinRequest { protocol_type: name("connect"), ..old_join() });
    assert_eq!(scene.group.check_offset_delete(), Err(ErrorCode::NonEmptyGroup));
}
