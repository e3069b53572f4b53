use super::super::testing::*;
use super::super::*;

fn with_timeouts(request: JoinRequest, session_ms: i32, rebalance_ms: i32) -> JoinRequest {
    JoinRequest { session_timeout_ms: session_ms, rebalance_timeout_ms: rebalance_ms, ..request }
}

#[test]
fn first_round_waits_for_the_delay_and_longer_while_members_come() {
    let mut scene = Scene::new();
    let one = scene.join(old_join());
    scene.pass(DELAY_MS - 1);
    let two = scene.join(old_join());
    scene.pass(1);
    assert!(scene.is_waiting(one), "a member came: one more delay");
    scene.pass(DELAY_MS - 1);
    assert!(scene.is_waiting(two));
    scene.pass(1);
    assert_eq!((scene.joined(one).generation, scene.joined(two).generation), (1, 1));
}

#[test]
fn first_round_ends_at_the_rebalance_timeout_however_many_come() {
    let mut scene = Scene::new();
    let short = |request| with_timeouts(request, 10_000, 7_000);
    let first = scene.join(short(old_join()));
    for _ in 0..6 {
        scene.pass(1_000);
        let _ = scene.join(short(old_join()));
    }
    assert!(scene.is_waiting(first));
    scene.pass(1_000);
    assert_eq!(scene.joined(first).members.len(), 7);
}

#[test]
fn first_round_ends_at_once_without_a_delay() {
    let mut scene = Scene::with(Settings { initial_delay_ms: 0, ..settings() });
    let one = scene.join(old_join());
    assert_eq!(scene.joined(one).generation, 1);
}

#[test]
fn round_ends_as_soon_as_everybody_has_joined_again() {
    let mut scene = Scene::stable(3);
    let leader = scene.join(join("client-1"));
    let second = scene.join(join("client-2"));
    assert!(scene.is_waiting(leader) && scene.is_waiting(second));
    let third = scene.join(join("client-3"));
    for ticket in [leader, second, third] {
        assert_eq!(scene.joined(ticket).generation, 2);
    }
}

#[test]
fn round_waits_for_a_member_that_was_given_an_id() {
    let mut scene = Scene::stable(1);
    let pending = scene.join(join(""));
    let id = scene.join_answer(pending).member_id;
    let leader = scene.join(join("client-1"));
    assert!(scene.is_waiting(leader));
    let newcomer = scene.join(join(&id));
    assert_eq!(scene.joined(leader).members.len(), 2);
    assert_eq!(scene.joined(newcomer).generation, 2);
}

#[test]
fn round_goes_on_when_an_id_that_was_given_expires() {
    let mut scene = Scene::stable(1);
    let _ = scene.join(join(""));
    let leader = scene.join(join("client-1"));
    scene.pass(SESSION_MS);
    assert_eq!(scene.joined(leader).members.len(), 1);
}

#[test]
fn rebalance_timeout_is_the_largest_of_the_members() {
    let mut scene = Scene::new();
    let _ = scene.join(with_timeouts(old_join(), 100_000, 20_000));
    let _ = scene.join(with_timeouts(old_join(), 100_000, 50_000));
    scene.pass(2 * DELAY_MS);
    scene.sync_all(&[name("client-1"), name("client-2")]);
    let leader = scene.join(with_timeouts(join("client-1"), 100_000, 20_000));
    scene.pass(49_999);
    assert!(scene.is_waiting(leader));
    scene.pass(1);
    assert_eq!(scene.joined(leader).members.len(), 1);
}

#[test]
fn dynamic_member_that_does_not_join_again_is_dropped_though_it_is_alive() {
    let mut scene = Scene::stable(2);
    let leader = scene.join(join("client-1"));
    scene.pass_with_heartbeats(REBALANCE_MS, &["client-2"]);
    assert_eq!(scene.joined(leader).members.len(), 1);
    assert_eq!(scene.heartbeat("client-2"), Err(ErrorCode::UnknownMemberId));
}

#[test]
fn time_of_a_round_is_not_extended_by_calls_within_it() {
    let mut scene = Scene::stable(2);
    let mut leader = scene.join(join("client-1"));
    for _ in 0..11 {
        scene.pass_with_heartbeats(5_000, &["client-2"]);
        leader = scene.join(join("client-1"));
    }
    assert!(scene.is_waiting(leader));
    scene.pass_with_heartbeats(5_000, &["client-2"]);
    assert_eq!(scene.joined(leader).members.len(), 1);
}

#[test]
fn leader_that_does_not_join_again_is_replaced_by_one_that_did() {
    let mut scene = Scene::stable(2);
    let follower = scene.join(with_protocols(join("client-2"), &[("range", "changed")]));
    scene.pass_with_heartbeats(REBALANCE_MS, &["client-1"]);
    let answer = scene.joined(follower);
    assert_eq!((&*answer.leader, answer.members.len()), ("client-2", 1));
}

#[test]
fn static_member_that_is_away_keeps_its_place_over_a_round_but_not_the_lead() {
    let long = |request| with_timeouts(request, 100_000, 5_000);
    let mut scene = Scene::new();
    let (a, b) = (scene.join(long(static_join("a"))), scene.join(long(static_join("b"))));
    scene.pass(2 * DELAY_MS);
    let ids = [scene.joined(a).member_id, scene.joined(b).member_id];
    scene.sync_all(&ids);
    let back = JoinRequest { instance_id: Some(name("b")), ..long(join(&ids[1])) };
    let b = scene.join(with_protocols(back, &[("range", "changed")]));
    scene.pass(5_000);
    let answer = scene.joined(b);
    assert_eq!((&answer.leader, answer.members.len()), (&ids[1], 2));
    assert_eq!(answer.members[0].member_id, ids[0]);
}

#[test]
fn round_that_nobody_joins_waits_for_sessions_and_does_not_spin() {
    let (mut scene, ids) = Scene::stable_static(&["a", "b"]);
    let a = Leaving { member_id: ids[0].clone(), instance_id: Some(name("a")) };
    let _ = scene.leave(&[a]);
    assert_eq!(scene.group.state(), State::PreparingRebalance);
    scene.pass_with_heartbeats(3 * REBALANCE_MS, &[&ids[1]]);
    assert_eq!((scene.group.state(), scene.group.members()), (State::PreparingRebalance, 1));
    scene.pass(SESSION_MS);
    scene.durable();
    assert_eq!((scene.group.state(), scene.group.members()), (State::Empty, 0));
}

#[test]
fn protocol_is_the_common_one_that_most_members_like_best() {
    let mut scene = Scene::new();
    let a = scene.join(with_protocols(old_join(), &[("range", "1"), ("sticky", "2")]));
    let b =
        scene.join(with_protocols(old_join(), &[("mine", "0"), ("sticky", "3"), ("range", "4")]));
    let c = scene.join(with_protocols(old_join(), &[("sticky", "5"), ("range", "6")]));
    scene.pass(2 * DELAY_MS);
    for ticket in [a, b, c] {
        assert_eq!(scene.joined(ticket).protocol, Some(name("sticky")));
    }
    let metadata: Vec<_> = scene.joined(a).members.iter().map(|m| m.metadata.clone()).collect();
    assert_eq!(metadata, [bytes("2"), bytes("3"), bytes("5")]);
}

#[test]
fn negative_and_zero_timeouts_end_at_once_and_do_not_spin() {
    let mut scene = Scene::new();
    let odd = scene.join(with_timeouts(old_join(), -1, i32::MIN));
    scene.pass(REBALANCE_MS);
    assert_eq!(scene.joined(odd).generation, 1);
    scene.durable();
    assert_eq!(scene.group.state(), State::Empty);
}

#[test]
fn generations_only_go_up() {
    let mut scene = Scene::stable(1);
    for generation in 2..10 {
        let wants = format!("topics of {generation}");
        let ticket = scene.join(with_protocols(join("client-1"), &[("range", &wants)]));
        assert_eq!(scene.joined(ticket).generation, generation);
    }
    assert_eq!(super::next_generation(i32::MAX), 1);
}
