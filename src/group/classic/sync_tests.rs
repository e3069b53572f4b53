use super::super::testing::*;
use super::super::*;

/// A group of `members` that have joined and not synced.
fn completing(members: usize) -> Scene {
    let mut scene = Scene::new();
    (0..members).for_each(|_| _ = scene.join(old_join()));
    scene.pass(2 * DELAY_MS);
    assert_eq!(scene.group.state(), State::CompletingRebalance);
    scene
}

#[test]
fn members_wait_for_the_leader_and_the_leader_for_the_log() {
    let mut scene = completing(2);
    let follower = scene.sync(sync("client-2", 1, &[]));
    assert!(scene.is_waiting(follower));
    let leader = scene.sync(sync("client-1", 1, &[("client-1", "one"), ("client-2", "two")]));
    assert!(scene.is_waiting(follower) && scene.is_waiting(leader));
    assert_eq!(scene.group.state(), State::CompletingRebalance);
    let record = scene.durable().remove(0);
    assert_eq!(scene.group.state(), State::Stable);
    assert_eq!(scene.synced(follower).assignment, bytes("two"));
    assert_eq!(scene.synced(leader).assignment, bytes("one"));
    let stored: Vec<_> = record.members.iter().map(|m| m.assignment.clone()).collect();
    assert_eq!(stored, [bytes("one"), bytes("two")]);
    assert_eq!((record.generation, record.leader), (1, Some(name("client-1"))));
}

#[test]
fn every_member_gets_exactly_the_leaders_bytes_and_empty_if_there_are_none() {
    let mut scene = completing(4);
    let large = Bytes::from(vec![0xa5; 1 << 20]);
    let mut request = sync("client-1", 1, &[("client-2", "\0\0\0\0"), ("nobody", "lost")]);
    request.assignments.push((name("client-3"), large.clone()));
    let leader = scene.sync(request);
    let rest: Vec<_> =
        ["client-2", "client-3", "client-4"].iter().map(|m| scene.sync(sync(m, 1, &[]))).collect();
    scene.durable();
    assert_eq!(scene.synced(leader).assignment, Bytes::new());
    assert_eq!(scene.synced(rest[0]).assignment, bytes("\0\0\0\0"));
    assert_eq!(scene.synced(rest[1]).assignment, large);
    assert_eq!(scene.synced(rest[2]).assignment, Bytes::new());
    let described = scene.group.describe();
    assert_eq!(described.members[2].assignment, large);
}

#[test]
fn followers_assignments_are_ignored() {
    let mut scene = completing(2);
    let follower = scene.sync(sync("client-2", 1, &[("client-2", "all mine")]));
    let _ = scene.sync(sync("client-1", 1, &[("client-2", "fair share")]));
    scene.durable();
    assert_eq!(scene.synced(follower).assignment, bytes("fair share"));
}

#[test]
fn stable_group_answers_a_sync_at_once() {
    let mut scene = Scene::stable(2);
    let again = scene.sync(sync("client-2", 1, &[]));
    let answer = scene.synced(again);
    assert_eq!(answer.assignment, bytes("share of client-2"));
    assert_eq!(answer.protocol_type, Some(name("consumer")));
    assert_eq!(answer.protocol, Some(name("range")));
}

#[test]
fn sync_is_checked_for_member_generation_and_protocol() {
    let mut scene = completing(1);
    let good = || sync("client-1", 1, &[]);
    let type_ = Some(name("connect"));
    let instance_id = Some(name("i"));
    for (request, error) in [
        (sync("stranger", 1, &[]), ErrorCode::UnknownMemberId),
        (SyncRequest { instance_id, ..good() }, ErrorCode::UnknownMemberId),
        (sync("client-1", 2, &[]), ErrorCode::IllegalGeneration),
        (SyncRequest { protocol_type: type_, ..good() }, ErrorCode::InconsistentGroupProtocol),
        (
            SyncRequest { protocol: Some(name("sticky")), ..good() },
            ErrorCode::InconsistentGroupProtocol,
        ),
    ] {
        let ticket = scene.sync(request.clone());
        assert_eq!(scene.sync_answer(ticket).error, error, "{request:?}");
    }
    let old = scene.sync(SyncRequest { protocol_type: None, protocol: None, ..good() });
    scene.durable();
    assert_eq!(scene.synced(old).assignment, Bytes::new());
}

#[test]
fn sync_during_the_round_of_joins_is_sent_to_join_again() {
    let mut scene = Scene::stable(2);
    let _ = scene.join(join("client-1"));
    let late = scene.sync(sync("client-2", 1, &[]));
    assert_eq!(scene.sync_answer(late).error, ErrorCode::RebalanceInProgress);
}

#[test]
fn sync_of_an_empty_group_is_from_an_unknown_member() {
    let mut scene = Scene::new();
    let ticket = scene.sync(sync("client-1", 0, &[]));
    assert_eq!(scene.sync_answer(ticket).error, ErrorCode::UnknownMemberId);
}

#[test]
fn second_sync_of_a_member_replaces_its_wait_and_answers_the_former_one() {
    let mut scene = completing(2);
    let former = scene.sync(sync("client-2", 1, &[]));
    let newer = scene.sync(sync("client-2", 1, &[]));
    assert_eq!(scene.sync_answer(former).error, ErrorCode::RebalanceInProgress);
    assert!(scene.is_waiting(newer));
    let _ = scene.sync(sync("client-1", 1, &[("client-2", "two")]));
    scene.durable();
    assert_eq!(scene.synced(newer).assignment, bytes("two"));
}

#[test]
fn second_assignment_while_the_first_is_being_stored_changes_nothing() {
    let mut scene = completing(1);
    let _ = scene.sync(sync("client-1", 1, &[("client-1", "first")]));
    let second = scene.sync(sync("client-1", 1, &[("client-1", "second")]));
    let records = scene.durable();
    assert_eq!((records.len(), &records[0].members[0].assignment), (1, &bytes("first")));
    assert_eq!(scene.synced(second).assignment, bytes("first"));
}

#[test]
fn assignment_that_becomes_durable_after_a_new_round_began_is_not_used() {
    let mut scene = completing(2);
    let leader = scene.sync(sync("client-1", 1, &[("client-1", "old")]));
    let newcomer = scene.join(old_join());
    assert_eq!(scene.sync_answer(leader).error, ErrorCode::RebalanceInProgress);
    scene.durable();
    assert_eq!(scene.group.state(), State::PreparingRebalance);
    let (one, _) = (scene.join(join("client-1")), scene.join(join("client-2")));
    assert_eq!((scene.joined(one).generation, scene.joined(newcomer).generation), (2, 2));
    assert_eq!(scene.group.state(), State::CompletingRebalance);
    assert!(scene.group.describe().members.iter().all(|m| m.assignment.is_empty()));
}

#[test]
fn assignment_too_large_for_the_log_is_refused_and_the_group_goes_on() {
    let mut scene = Scene::with(Settings { record_bytes_max: 10_000, ..settings() });
    let _ = (scene.join(old_join()), scene.join(old_join()));
    scene.pass(2 * DELAY_MS);
    let follower = scene.sync(sync("client-2", 1, &[]));
    let leader = scene.sync(sync("client-1", 1, &[("client-2", &"x".repeat(10_000))]));
    for ticket in [leader, follower] {
        assert_eq!(scene.sync_answer(ticket).error, ErrorCode::UnknownServerError);
    }
    assert!(scene.records.is_empty());
    let _ = (scene.join(join("client-1")), scene.join(join("client-2")));
    scene.sync_all(&[name("client-1"), name("client-2")]);
}

#[test]
#[should_panic(expected = "is stored")]
fn record_that_was_never_asked_for_is_a_broken_promise() {
    let mut scene = Scene::new();
    let _ = scene.group.stored(StoreNumber(1), scene.now());
}
