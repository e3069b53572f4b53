use super::super::testing::*;
use super::super::*;

#[test]
fn each_of_a_batch_is_answered_for_itself() {
    let (mut scene, ids) = Scene::stable_static(&["a", "b", "c"]);
    let ticket = scene.leave(&[
        leaving(&ids[0], None),
        leaving("", Some("b")),
        leaving("", Some("unheard of")),
        leaving("", None),
        leaving("stranger", None),
        leaving("c-99", Some("c")),
        leaving(&ids[0], None),
    ]);
    let (fine, unknown) = (ErrorCode::None, ErrorCode::UnknownMemberId);
    let fenced = ErrorCode::FencedInstanceId;
    assert_eq!(scene.left(ticket), [fine, fine, unknown, unknown, unknown, fenced, unknown]);
    assert_eq!((scene.group.members(), scene.group.state()), (1, State::PreparingRebalance));
    assert_eq!(scene.heartbeat(&ids[2]), Err(ErrorCode::RebalanceInProgress));
}

#[test]
fn last_member_leaves_an_empty_group_of_a_new_generation_behind() {
    let mut scene = Scene::stable(1);
    let ticket = scene.leave(&[leaving("client-1", None)]);
    assert!(scene.is_waiting(ticket), "the end is not durable yet");
    let record = scene.durable().remove(0);
    assert_eq!(scene.left(ticket), [ErrorCode::None]);
    assert_eq!((scene.group.state(), scene.group.generation()), (State::Empty, 2));
    assert_eq!((record.generation, record.members.len(), record.leader), (2, 0, None));
    assert_eq!(record.protocol_type, Some(name("consumer")));
    assert_eq!(record.state_since, Some(scene.now().wall));
    assert!(scene.group.is_removable());
}

#[test]
fn pending_member_leaves_without_a_rebalance() {
    let mut scene = Scene::stable(1);
    let pending = scene.join(join(""));
    let id = scene.join_answer(pending).member_id;
    let ticket = scene.leave(&[leaving(&id, None)]);
    assert_eq!(scene.left(ticket), [ErrorCode::None]);
    assert_eq!((scene.group.state(), scene.group.pending_members()), (State::Stable, 0));
}

#[test]
fn round_ends_when_the_one_it_waits_for_leaves() {
    let mut scene = Scene::stable(2);
    let leader = scene.join(join("client-1"));
    let ticket = scene.leave(&[leaving("client-2", None)]);
    assert_eq!(scene.left(ticket), [ErrorCode::None]);
    assert_eq!(scene.joined(leader).members.len(), 1);
}

#[test]
fn round_ends_when_the_pending_member_it_waits_for_leaves() {
    let mut scene = Scene::stable(1);
    let pending = scene.join(join(""));
    let id = scene.join_answer(pending).member_id;
    let leader = scene.join(join("client-1"));
    assert!(scene.is_waiting(leader));
    let _ = scene.leave(&[leaving(&id, None)]);
    assert_eq!(scene.joined(leader).generation, 2);
}

#[test]
fn who_waits_for_a_member_that_leaves_is_told_that_it_is_unknown() {
    let mut scene = Scene::stable(3);
    let joining = scene.join(join("client-1"));
    let _ = scene.leave(&[leaving("client-1", None)]);
    assert_eq!(scene.join_answer(joining).error, ErrorCode::UnknownMemberId);
    let (_, _) = (scene.join(join("client-2")), scene.join(join("client-3")));
    let syncing = scene.sync(sync("client-3", 2, &[]));
    let _ = scene.leave(&[leaving("client-3", None)]);
    assert_eq!(scene.sync_answer(syncing).error, ErrorCode::UnknownMemberId);
}

#[test]
fn leader_that_leaves_makes_another_the_leader() {
    let mut scene = Scene::stable(2);
    let _ = scene.leave(&[leaving("client-1", None)]);
    let other = scene.join(join("client-2"));
    assert_eq!(&*scene.joined(other).leader, "client-2");
}

#[test]
fn all_may_leave_before_the_first_round_ends() {
    let mut scene = Scene::new();
    let joining = scene.join(old_join());
    let ticket = scene.leave(&[leaving("client-1", None)]);
    assert_eq!(scene.join_answer(joining).error, ErrorCode::UnknownMemberId);
    assert_eq!(scene.left(ticket), [ErrorCode::None]);
    scene.pass(DELAY_MS);
    scene.durable();
    assert_eq!(scene.group.state(), State::Empty);
}

#[test]
fn empty_group_can_be_forgotten_and_answers_nobody_afterwards() {
    let mut scene = Scene::stable(1);
    assert_eq!(scene.group.forget(scene.now()).err(), Some(ErrorCode::NonEmptyGroup));
    let _ = scene.leave(&[leaving("client-1", None)]);
    scene.durable();
    let out = scene.group.forget(scene.now()).unwrap();
    scene.take(out);
    assert_eq!((scene.tombstones, scene.group.state()), (1, State::Dead));
    let (late, sync) = (scene.join(old_join()), scene.sync(sync("client-1", 2, &[])));
    assert_eq!(scene.join_answer(late).error, ErrorCode::CoordinatorNotAvailable);
    assert_eq!(scene.sync_answer(sync).error, ErrorCode::CoordinatorNotAvailable);
    assert_eq!(scene.heartbeat("client-1"), Err(ErrorCode::CoordinatorNotAvailable));
    assert_eq!(scene.commit("", -1), Err(ErrorCode::CoordinatorNotAvailable));
    let leave = scene.leave(&[leaving("client-1", None)]);
    assert!(matches!(&scene.answers[&leave], Answer::Leave(answer)
        if answer.error == ErrorCode::CoordinatorNotAvailable));
    assert_eq!(scene.group.forget(scene.now()).err(), Some(ErrorCode::GroupIdNotFound));
}

#[test]
fn group_that_was_never_stored_leaves_no_tombstone() {
    let mut scene = Scene::new();
    let out = scene.group.forget(scene.now()).unwrap();
    assert_eq!(out.store, Store::Nothing);
}

#[test]
fn everybody_who_waits_is_answered_when_the_partition_is_lost() {
    let mut scene = Scene::stable(2);
    let joining = scene.join(join("client-1"));
    let answers =
        std::mem::replace(&mut scene, Scene::new()).group.abandon(ErrorCode::NotCoordinator);
    assert!(matches!(&answers[..], [(ticket, Answer::Join(answer))]
        if *ticket == joining && answer.error == ErrorCode::NotCoordinator));
    let mut scene = Scene::stable(1);
    let leave = scene.leave(&[leaving("client-1", None)]);
    let answers = scene.group.abandon(ErrorCode::NotCoordinator);
    assert!(matches!(&answers[..], [(ticket, Answer::Leave(answer))]
        if *ticket == leave && answer.error == ErrorCode::NotCoordinator));
}
