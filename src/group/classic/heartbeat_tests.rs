use super::super::testing::*;
use super::super::*;

const MEMBER: &str = "client-1";

fn at(caller: Caller<'_>, generation: i32, scene: &mut Scene) -> Result<(), ErrorCode> {
    scene.group.heartbeat(caller, generation, scene.now())
}

#[test]
fn heartbeat_is_checked_for_member_instance_and_generation() {
    let mut scene = Scene::stable(1);
    assert_eq!(at(caller(MEMBER), 1, &mut scene), Ok(()));
    assert_eq!(at(caller("stranger"), 1, &mut scene), Err(ErrorCode::UnknownMemberId));
    for generation in [-1, 0, 2] {
        let answer = at(caller(MEMBER), generation, &mut scene);
        assert_eq!(answer, Err(ErrorCode::IllegalGeneration), "{generation}");
    }
    let (mut scene, ids) = Scene::stable_static(&["a"]);
    let other = Caller { member_id: "a-99", instance_id: Some("a") };
    assert_eq!(at(other, 1, &mut scene), Err(ErrorCode::FencedInstanceId));
    let own = Caller { member_id: &ids[0], instance_id: Some("a") };
    assert_eq!(at(own, 1, &mut scene), Ok(()));
}

#[test]
fn heartbeat_tells_of_the_round_of_joins_but_not_of_the_wait_for_the_leader() {
    let mut scene = Scene::stable(2);
    let _ = scene.join(join("client-1"));
    assert_eq!(scene.heartbeat("client-2"), Err(ErrorCode::RebalanceInProgress));
    let _ = scene.join(join("client-2"));
    assert_eq!(scene.group.state(), State::CompletingRebalance);
    assert_eq!(scene.heartbeat("client-2"), Ok(()));
}

#[test]
fn empty_group_knows_no_member() {
    let mut scene = Scene::new();
    assert_eq!(at(caller(MEMBER), 0, &mut scene), Err(ErrorCode::UnknownMemberId));
}

#[test]
fn commit_without_a_group_member_is_for_empty_groups() {
    let mut scene = Scene::new();
    assert_eq!(scene.commit("", -1), Ok(()));
    assert_eq!(scene.commit("tool", -1), Ok(()));
    assert_eq!(scene.commit(MEMBER, 0), Err(ErrorCode::UnknownMemberId));
    let mut scene = Scene::stable(1);
    assert_eq!(scene.commit("", -1), Err(ErrorCode::UnknownMemberId));
    assert_eq!(scene.commit(MEMBER, -1), Err(ErrorCode::IllegalGeneration));
}

#[test]
fn commit_of_a_member_is_checked_and_taken_until_it_has_joined_anew() {
    let mut scene = Scene::stable(2);
    assert_eq!(scene.commit(MEMBER, 1), Ok(()));
    assert_eq!(scene.commit(MEMBER, 2), Err(ErrorCode::IllegalGeneration));
    assert_eq!(scene.commit("stranger", 1), Err(ErrorCode::UnknownMemberId));
    let _ = scene.join(join("client-1"));
    assert_eq!(scene.commit("client-2", 1), Ok(()), "it may commit before it joins again");
    let _ = scene.join(join("client-2"));
    assert_eq!(scene.commit("client-2", 1), Err(ErrorCode::IllegalGeneration));
    assert_eq!(scene.commit("client-2", 2), Err(ErrorCode::RebalanceInProgress));
}

#[test]
fn transactional_commit_may_name_no_member_and_is_taken_in_any_state() {
    let mut scene = Scene::stable(1);
    let commit = |scene: &mut Scene, id: &str, generation| {
        let kind = CommitKind::Transactional;
        scene.group.validate_commit(caller(id), generation, kind, scene.now())
    };
    assert_eq!(commit(&mut scene, "", -1), Ok(()));
    assert_eq!(commit(&mut scene, MEMBER, 1), Ok(()));
    assert_eq!(commit(&mut scene, MEMBER, 0), Err(ErrorCode::IllegalGeneration));
    assert_eq!(commit(&mut scene, "stranger", 1), Err(ErrorCode::UnknownMemberId));
    let _ = scene.join(join(MEMBER));
    assert_eq!(scene.group.state(), State::CompletingRebalance);
    assert_eq!(commit(&mut scene, MEMBER, 2), Ok(()));
}

#[test]
fn commit_keeps_a_session_alive_and_a_transactional_one_does_not() {
    let mut scene = Scene::stable(1);
    for _ in 0..3 {
        scene.pass(SESSION_MS - 1);
        assert_eq!(scene.commit(MEMBER, 1), Ok(()));
    }
    scene.pass(SESSION_MS - 1);
    let kind = CommitKind::Transactional;
    let taken = scene.group.validate_commit(caller(MEMBER), 1, kind, scene.now());
    assert_eq!(taken, Ok(()));
    scene.pass(1);
    assert_eq!(scene.commit(MEMBER, 1), Err(ErrorCode::UnknownMemberId));
}
