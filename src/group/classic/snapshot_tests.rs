use super::super::testing::*;
use super::super::*;

fn restored(snapshot: GroupSnapshot) -> Scene {
    let mut scene = Scene::new();
    scene.group = ClassicGroup::restore(settings(), snapshot, scene.now());
    scene.group.assert_sound();
    scene
}

#[test]
fn stable_group_comes_back_as_it_was_with_fresh_sessions() {
    let (scene, ids) = Scene::stable_static(&["a", "b"]);
    let snapshot = scene.group.snapshot();
    let mut scene = restored(snapshot.clone());
    assert_eq!(scene.group.snapshot(), snapshot);
    assert_eq!((scene.group.state(), scene.group.generation()), (State::Stable, 1));
    scene.pass(SESSION_MS - 1);
    assert_eq!(scene.heartbeat(&ids[0]), Ok(()));
    let ticket = scene.sync(sync(&ids[1], 1, &[]));
    assert_eq!(scene.synced(ticket).assignment, bytes(&format!("share of {}", ids[1])));
    scene.pass(1);
    assert_eq!((scene.group.members(), scene.group.state()), (1, State::PreparingRebalance));
}

#[test]
fn static_member_takes_its_place_after_the_coordinator_restarted_too() {
    let (scene, ids) = Scene::stable_static(&["a", "b"]);
    let mut scene = restored(scene.group.snapshot());
    let restarted = scene.join(static_join("b"));
    scene.durable();
    assert_eq!((scene.joined(restarted).generation, scene.group.state()), (1, State::Stable));
    let former = Caller { member_id: &ids[1], instance_id: Some("b") };
    let answer = scene.group.heartbeat(former, 1, scene.now());
    assert_eq!(answer, Err(ErrorCode::FencedInstanceId));
}

#[test]
fn empty_group_comes_back_empty_with_its_generation_and_time() {
    let mut scene = Scene::stable(1);
    let _ = scene.leave(&[leaving("client-1", None)]);
    let record = scene.durable().remove(0);
    let scene = restored(record.clone());
    assert_eq!((scene.group.state(), scene.group.generation()), (State::Empty, 2));
    assert_eq!(scene.group.snapshot(), record);
    assert_eq!(scene.group.next_deadline(), None);
}

#[test]
fn record_of_a_group_is_not_believed_where_it_contradicts_itself() {
    let mut snapshot = Scene::stable_static(&["a", "b"]).0.group.snapshot();
    snapshot.members.push(snapshot.members[0].clone());
    snapshot.members[1].instance_id = Some(name("a"));
    snapshot.leader = Some(name("nobody"));
    let scene = restored(snapshot);
    assert_eq!(scene.group.members(), 1);
    let leader = scene.group.snapshot().leader;
    assert_eq!(leader, Some(scene.group.snapshot().members[0].member_id.clone()));
}

#[test]
fn member_of_a_restored_group_may_have_more_protocols_than_its_record() {
    let mut scene = restored(Scene::stable(1).group.snapshot());
    let both = [("sticky", "topics"), ("range", "topics")];
    let ticket = scene.join(with_protocols(join("client-1"), &both));
    assert_eq!(scene.joined(ticket).protocol, Some(name("sticky")));
}
