use super::super::testing::*;
use super::super::*;

#[test]
fn silent_member_is_dropped_at_the_end_of_its_session() {
    let mut scene = Scene::stable(2);
    scene.pass_with_heartbeats(SESSION_MS - 1_000, &["client-1"]);
    assert_eq!(scene.group.members(), 2);
    scene.pass_with_heartbeats(1_000, &["client-1"]);
    assert_eq!((scene.group.members(), scene.group.state()), (1, State::PreparingRebalance));
}

#[test]
fn group_whose_members_all_vanish_is_empty_after_their_sessions() {
    let mut scene = Scene::stable(5);
    scene.pass(SESSION_MS);
    scene.durable();
    assert_eq!((scene.group.state(), scene.group.generation()), (State::Empty, 2));
    assert!(scene.group.is_removable());
    assert_eq!(scene.group.next_deadline(), None);
}

#[test]
fn member_that_waits_in_a_round_of_joins_is_alive_however_long_it_takes() {
    let mut scene = Scene::stable(2);
    let leader = scene.join(join("client-1"));
    scene.pass_with_heartbeats(REBALANCE_MS - 1_000, &["client-2"]);
    assert!(scene.is_waiting(leader));
    let _ = scene.join(join("client-2"));
    assert_eq!(scene.joined(leader).members.len(), 2);
}

#[test]
fn member_that_waits_for_the_leader_is_alive_however_long_it_takes() {
    let mut scene = Scene::stable(2);
    let (_, _) = (scene.join(join("client-1")), scene.join(join("client-2")));
    let waiting = scene.sync(sync("client-2", 2, &[]));
    scene.pass_with_heartbeats(5 * SESSION_MS, &["client-1"]);
    assert!(scene.is_waiting(waiting));
    let _ = scene.sync(sync("client-1", 2, &[("client-2", "two")]));
    scene.durable();
    assert_eq!(scene.synced(waiting).assignment, bytes("two"));
    scene.pass_with_heartbeats(SESSION_MS - 1_000, &["client-1"]);
    assert_eq!(scene.group.members(), 2, "its session began with the answer");
}

#[test]
fn first_join_of_a_member_waits_five_minutes_at_most() {
    let mut scene = Scene::stable(1);
    let long = JoinRequest { rebalance_timeout_ms: i32::MAX, ..join("client-1") };
    let _ = scene.join(long);
    let first = scene.sync(sync("client-1", 2, &[]));
    scene.durable();
    let _ = scene.synced(first);
    let newcomer = scene.join(old_join());
    scene.pass_with_heartbeats(299_000, &["client-1"]);
    assert!(scene.is_waiting(newcomer));
    scene.pass_with_heartbeats(1_000, &["client-1"]);
    let answer = scene.join_answer(newcomer);
    assert_eq!((answer.error, &*answer.member_id), (ErrorCode::UnknownMemberId, ""));
    assert_eq!(scene.group.members(), 1);
}

#[test]
fn leader_that_never_syncs_is_dropped_though_it_is_alive() {
    let mut scene = Scene::stable(5);
    let ids = ["client-1", "client-2", "client-3", "client-4", "client-5"];
    let joins: Vec<_> = ids.iter().map(|id| scene.join(join(id))).collect();
    assert_eq!(&*scene.joined(joins[1]).leader, "client-1");
    let waiting: Vec<_> = ids[1..].iter().map(|id| scene.sync(sync(id, 2, &[]))).collect();
    scene.pass_with_heartbeats(REBALANCE_MS - 1_000, &ids);
    assert!(waiting.iter().all(|ticket| scene.is_waiting(*ticket)));
    scene.pass_with_heartbeats(1_000, &ids);
    for ticket in waiting {
        assert_eq!(scene.sync_answer(ticket).error, ErrorCode::RebalanceInProgress);
    }
    let joins: Vec<_> = ids[1..].iter().map(|id| scene.join(join(id))).collect();
    assert_eq!(scene.joined(joins[0]).generation, 3, "one extra round");
    scene.sync_all(&ids[1..].iter().map(|id| name(id)).collect::<Vec<_>>());
    assert_eq!(scene.heartbeat("client-1"), Err(ErrorCode::UnknownMemberId));
}

#[test]
fn follower_that_never_syncs_is_dropped_from_the_stable_group() {
    let mut scene = Scene::stable(2);
    let (_, _) = (scene.join(join("client-1")), scene.join(join("client-2")));
    let _ = scene.sync(sync("client-1", 2, &[("client-1", "all")]));
    scene.durable();
    assert_eq!(scene.group.state(), State::Stable);
    scene.pass_with_heartbeats(REBALANCE_MS - 1_000, &["client-1", "client-2"]);
    assert_eq!(scene.group.state(), State::Stable);
    scene.pass_with_heartbeats(1_000, &["client-1", "client-2"]);
    assert_eq!((scene.group.members(), scene.group.state()), (1, State::PreparingRebalance));
}

#[test]
fn static_member_that_restarted_instead_of_syncing_is_not_dropped_for_it() {
    let mut scene = Scene::new();
    let (a, b) = (scene.join(static_join("a")), scene.join(static_join("b")));
    scene.pass(2 * DELAY_MS);
    let (a, b) = (scene.joined(a).member_id, scene.joined(b).member_id);
    let _ = scene.sync(sync(&a, 1, &[(&b, "two")]));
    scene.durable();
    scene.pass_with_heartbeats(REBALANCE_MS - 5_000, &[&a, &b]);
    let restarted = scene.join(static_join("b"));
    scene.pass_with_heartbeats(6_000, &[&a]);
    scene.durable();
    scene.group.assert_sound();
    let ticket = scene.sync(sync(&scene.joined(restarted).member_id, 1, &[]));
    assert_eq!(scene.synced(ticket).assignment, bytes("two"));
}

#[test]
fn time_to_sync_is_not_extended_by_late_calls() {
    let mut scene = Scene::stable(2);
    let (_, _) = (scene.join(join("client-1")), scene.join(join("client-2")));
    for _ in 0..11 {
        scene.pass_with_heartbeats(5_000, &["client-1", "client-2"]);
        let _ = scene.sync(sync("client-2", 2, &[]));
        let _ = scene.join(join("client-1"));
    }
    assert_eq!(scene.group.state(), State::CompletingRebalance);
    scene.pass_with_heartbeats(5_000, &["client-1", "client-2"]);
    assert_eq!((scene.group.members(), scene.group.state()), (1, State::PreparingRebalance));
}

#[test]
fn deadline_is_never_later_than_what_is_due_and_heartbeats_cost_no_look() {
    let mut scene = Scene::stable(3);
    let before = scene.group.next_deadline().unwrap();
    for _ in 0..5 {
        scene.now_ms += 1_000;
        for id in ["client-1", "client-2", "client-3"] {
            assert_eq!(scene.heartbeat(id), Ok(()));
        }
        assert_eq!(scene.group.next_deadline(), Some(before));
        scene.group.assert_sound();
    }
    scene.now_ms = before;
    let out = scene.group.tick(scene.now());
    scene.take(out);
    assert_eq!(scene.group.members(), 3);
    assert!(scene.group.next_deadline().unwrap() > before);
}
