use super::super::testing::*;
use super::super::*;
use crate::wire::messages::consumer_protocol::ConsumerProtocolSubscription;
use crate::wire::schema::Message;
use crate::wire::writer::Writer;

fn fenced(scene: &mut Scene, id: &str, instance_id: &str) {
    let caller = Caller { member_id: id, instance_id: Some(instance_id) };
    let generation = scene.group.generation();
    let heartbeat = scene.group.heartbeat(caller, generation, scene.now());
    assert_eq!(heartbeat, Err(ErrorCode::FencedInstanceId));
    let commit = scene.group.validate_commit(caller, generation, CommitKind::Plain, scene.now());
    assert_eq!(commit, Err(ErrorCode::FencedInstanceId));
    let instance_id = Some(name(instance_id));
    let request = SyncRequest { instance_id: instance_id.clone(), ..sync(id, generation, &[]) };
    let ticket = scene.sync(request);
    assert_eq!(scene.sync_answer(ticket).error, ErrorCode::FencedInstanceId);
    let ticket = scene.join(JoinRequest { instance_id, ..join(id) });
    assert_eq!(scene.join_answer(ticket).error, ErrorCode::FencedInstanceId);
}

#[test]
fn restarted_member_of_a_stable_group_takes_its_place_without_a_rebalance() {
    let (mut scene, ids) = Scene::stable_static(&["a", "b"]);
    let before = scene.group.generation();
    let restarted = scene.join(static_join("b"));
    assert!(scene.is_waiting(restarted), "the new id is not durable yet");
    let record = scene.durable().remove(0);
    let answer = scene.joined(restarted);
    assert_ne!(answer.member_id, ids[1]);
    assert_eq!((answer.generation, &answer.leader), (before, &ids[0]));
    assert_eq!((answer.skip_assignment, answer.members.len()), (false, 0));
    assert_eq!(scene.group.state(), State::Stable);
    let stored = record.members.iter().find(|m| m.instance_id == Some(name("b"))).unwrap();
    assert_eq!(stored.member_id, answer.member_id);
    assert_eq!(stored.assignment, bytes(&format!("share of {}", ids[1])));
    let ticket = scene.sync(sync(&answer.member_id, before, &[]));
    assert_eq!(scene.synced(ticket).assignment, bytes(&format!("share of {}", ids[1])));
    fenced(&mut scene, &ids[1], "b");
}

#[test]
fn restarted_leader_is_told_to_skip_the_assignment() {
    let (mut scene, _) = Scene::stable_static(&["a", "b"]);
    let restarted = scene.join(static_join("a"));
    scene.durable();
    let answer = scene.joined(restarted);
    assert_eq!((answer.skip_assignment, answer.members.len()), (true, 2));
    assert_eq!(answer.leader, answer.member_id);
    assert_eq!(answer.members[0].member_id, answer.member_id);
}

#[test]
fn restarted_leader_that_cannot_skip_the_assignment_does_not_learn_that_it_leads() {
    let (mut scene, ids) = Scene::stable_static(&["a", "b"]);
    let rules = JoinRules::of_version(8);
    let restarted = scene.join(JoinRequest { rules, ..static_join("a") });
    scene.durable();
    let answer = scene.joined(restarted);
    assert_eq!((answer.skip_assignment, answer.members.len()), (false, 0));
    assert_eq!(answer.leader, ids[0], "the id that it had before");
}

#[test]
fn member_that_prefers_another_protocol_now_makes_the_group_rebalance() {
    let mut scene = Scene::new();
    let both = [("range", "topics"), ("sticky", "topics")];
    let first = scene.join(with_protocols(static_join("a"), &both));
    scene.pass(DELAY_MS);
    let id = scene.joined(first).member_id;
    scene.sync_all(&[id]);
    let other = scene.join(with_protocols(static_join("a"), &[("sticky", "topics")]));
    let answer = scene.joined(other);
    assert_eq!((answer.generation, answer.protocol), (2, Some(name("sticky"))));
    assert_eq!(scene.group.state(), State::CompletingRebalance);
    assert!(scene.records.is_empty());
}

fn subscription(topic: &str, owned: &str) -> Bytes {
    let data = ConsumerProtocolSubscription {
        topics: vec![topic],
        user_data: Some(owned.as_bytes()),
        ..Default::default()
    };
    let mut writer = Writer::new();
    writer.i16(1);
    data.encode(&mut writer, 1).unwrap();
    writer.into_bytes().into()
}

#[test]
fn member_that_subscribes_to_other_topics_makes_the_group_rebalance() {
    let mut scene = Scene::new();
    let wants = |topic, owned| {
        let metadata = subscription(topic, owned);
        vec![Protocol { name: name("range"), metadata }]
    };
    let request = |topic, owned| JoinRequest { protocols: wants(topic, owned), ..static_join("a") };
    let first = scene.join(request("t", "p0"));
    scene.pass(DELAY_MS);
    let id = scene.joined(first).member_id;
    scene.sync_all(&[id]);
    let restarted = scene.join(request("t", "nothing owned"));
    scene.durable();
    assert_eq!(scene.joined(restarted).generation, 1, "the same topics: no rebalance");
    let changed = scene.join(request("other", "nothing owned"));
    assert_eq!(scene.joined(changed).generation, 2);
}

#[test]
fn former_process_that_waits_in_a_round_of_joins_is_fenced() {
    let (mut scene, _) = Scene::stable_static(&["a", "b"]);
    let _ = scene.join(old_join());
    let former = scene.join(static_join("a"));
    let newer = scene.join(static_join("a"));
    assert_eq!(scene.join_answer(former).error, ErrorCode::FencedInstanceId);
    assert!(scene.is_waiting(newer));
    scene.group.assert_sound();
}

#[test]
fn restart_between_join_and_sync_fences_the_wait_and_begins_a_new_round() {
    let mut scene = Scene::new();
    let (a, b) = (scene.join(static_join("a")), scene.join(static_join("b")));
    scene.pass(2 * DELAY_MS);
    let (a, b) = (scene.joined(a).member_id, scene.joined(b).member_id);
    let waiting = scene.sync(sync(&b, 1, &[]));
    let restarted = scene.join(static_join("b"));
    assert_eq!(scene.sync_answer(waiting).error, ErrorCode::FencedInstanceId);
    assert!(scene.is_waiting(restarted));
    assert_eq!(scene.group.state(), State::PreparingRebalance);
    assert_eq!(scene.heartbeat(&a), Err(ErrorCode::RebalanceInProgress));
}

#[test]
fn of_two_processes_with_one_instance_id_the_last_to_arrive_stays() {
    let (mut scene, ids) = Scene::stable_static(&["a"]);
    let first = scene.join(static_join("a"));
    let second = scene.join(static_join("a"));
    assert!(scene.is_waiting(first) && scene.is_waiting(second));
    scene.durable();
    assert_eq!(scene.join_answer(first).error, ErrorCode::FencedInstanceId);
    let stays = scene.joined(second).member_id;
    assert_eq!(scene.heartbeat(&stays), Ok(()));
    fenced(&mut scene, &ids[0], "a");
    assert_eq!(scene.group.members(), 1);
}

#[test]
fn rebalance_takes_along_a_replaced_member_whose_id_is_not_durable_yet() {
    let (mut scene, ids) = Scene::stable_static(&["a", "b"]);
    let restarted = scene.join(static_join("b"));
    let leader = scene.join(JoinRequest { instance_id: Some(name("a")), ..join(&ids[0]) });
    assert_eq!(scene.joined(leader).generation, 2);
    assert_eq!(scene.joined(restarted).generation, 2);
    scene.durable();
    assert_eq!(scene.group.state(), State::CompletingRebalance);
}

#[test]
fn static_member_keeps_its_place_while_it_is_away_for_less_than_its_session() {
    let (mut scene, ids) = Scene::stable_static(&["a", "b"]);
    scene.pass_with_heartbeats(SESSION_MS - 1_000, &[&ids[0]]);
    assert_eq!((scene.group.members(), scene.group.state()), (2, State::Stable));
    scene.pass_with_heartbeats(2_000, &[&ids[0]]);
    assert_eq!((scene.group.members(), scene.group.state()), (1, State::PreparingRebalance));
    let back = scene.join(static_join("b"));
    let _ = scene.join(JoinRequest { instance_id: Some(name("a")), ..join(&ids[0]) });
    assert_eq!(scene.joined(back).generation, 2);
}
