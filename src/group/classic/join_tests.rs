use super::super::testing::*;
use super::super::*;
use super::new_member_id;

#[test]
fn dynamic_member_of_a_new_client_gets_an_id_first_and_joins_with_it() {
    let mut scene = Scene::new();
    let first = scene.join(join(""));
    let answer = scene.join_answer(first);
    assert_eq!((answer.error, &*answer.member_id), (ErrorCode::MemberIdRequired, "client-1"));
    assert_eq!((scene.group.state(), scene.group.pending_members()), (State::Empty, 1));
    let second = scene.join(join("client-1"));
    assert_eq!((scene.group.members(), scene.group.pending_members()), (1, 0));
    scene.pass(DELAY_MS);
    let answer = scene.joined(second);
    assert_eq!(
        (answer.generation, &*answer.leader, &*answer.member_id),
        (1, "client-1", "client-1")
    );
}

#[test]
fn old_clients_and_static_members_join_without_an_id() {
    let mut scene = Scene::new();
    let (old, fixed) = (scene.join(old_join()), scene.join(static_join("rack-7")));
    scene.pass(2 * DELAY_MS);
    assert_eq!(&*scene.joined(old).member_id, "client-1");
    assert_eq!(&*scene.joined(fixed).member_id, "rack-7-2");
}

#[test]
fn id_that_was_given_and_not_used_ends_with_its_session() {
    let mut scene = Scene::new();
    let _ = scene.join(join(""));
    scene.pass(SESSION_MS - 1);
    assert_eq!(scene.group.pending_members(), 1);
    scene.pass(1);
    assert!(scene.group.is_removable());
    let late = scene.join(join("client-1"));
    assert_eq!(scene.join_answer(late).error, ErrorCode::UnknownMemberId);
}

#[test]
fn ids_that_were_given_are_bounded() {
    let mut scene = Scene::with(Settings { pending_max: 1, ..settings() });
    let (first, second) = (scene.join(join("")), scene.join(join("")));
    assert_eq!(scene.join_answer(first).error, ErrorCode::MemberIdRequired);
    assert_eq!(scene.join_answer(second).error, ErrorCode::GroupMaxSizeReached);
}

#[test]
fn member_ids_are_refused_unless_the_group_gave_them() {
    let mut scene = Scene::stable(1);
    let stranger = scene.join(join("stranger"));
    assert_eq!(scene.join_answer(stranger).error, ErrorCode::UnknownMemberId);
    let mut request = join("client-1");
    request.instance_id = Some(name("unheard of"));
    let pretender = scene.join(request);
    assert_eq!(scene.join_answer(pretender).error, ErrorCode::UnknownMemberId);
    assert_eq!(scene.group.state(), State::Stable);
}

#[test]
fn pending_id_is_not_for_static_members() {
    let mut scene = Scene::new();
    let _ = scene.join(join(""));
    let odd = scene.join(JoinRequest { member_id: name("client-1"), ..static_join("i") });
    assert_eq!(scene.join_answer(odd).error, ErrorCode::UnknownMemberId);
}

#[test]
fn empty_protocol_lists_and_types_are_refused() {
    let mut scene = Scene::new();
    let none = scene.join(with_protocols(old_join(), &[]));
    assert_eq!(scene.join_answer(none).error, ErrorCode::InconsistentGroupProtocol);
    let untyped = scene.join(JoinRequest { protocol_type: name(""), ..old_join() });
    assert_eq!(scene.join_answer(untyped).error, ErrorCode::InconsistentGroupProtocol);
    let mut scene = Scene::stable(1);
    let none = scene.join(with_protocols(old_join(), &[]));
    assert_eq!(scene.join_answer(none).error, ErrorCode::InconsistentGroupProtocol);
}

#[test]
fn member_without_a_common_protocol_or_of_another_type_is_refused() {
    let mut scene = Scene::stable(2);
    let other = scene.join(with_protocols(old_join(), &[("sticky", "")]));
    assert_eq!(scene.join_answer(other).error, ErrorCode::InconsistentGroupProtocol);
    let connect = scene.join(JoinRequest { protocol_type: name("connect"), ..old_join() });
    assert_eq!(scene.join_answer(connect).error, ErrorCode::InconsistentGroupProtocol);
    assert_eq!((scene.group.members(), scene.group.state()), (2, State::Stable));
}

#[test]
fn protocol_type_is_free_again_in_an_empty_group() {
    let mut scene = Scene::stable(1);
    let _ = scene.leave(&[leaving("client-1", None)]);
    scene.durable();
    let _ = scene.join(JoinRequest { protocol_type: name("connect"), ..old_join() });
    assert_eq!(scene.group.protocol_type(), Some("connect"));
}

#[test]
fn protocol_named_twice_counts_once_with_its_first_metadata() {
    let mut scene = Scene::new();
    let one = scene.join(with_protocols(old_join(), &[("range", "a"), ("range", "b")]));
    let two = scene.join(old_join());
    scene.group.assert_sound();
    scene.pass(2 * DELAY_MS);
    assert_eq!(scene.joined(one).members[0].metadata, bytes("a"));
    assert_eq!(scene.joined(two).protocol, Some(name("range")));
}

#[test]
fn only_the_leader_gets_the_members_with_metadata_and_instance_ids() {
    let mut scene = Scene::new();
    let leader = scene.join(with_protocols(old_join(), &[("range", "one")]));
    let follower = scene.join(with_protocols(static_join("i"), &[("range", "two")]));
    scene.pass(2 * DELAY_MS);
    let (leader, follower) = (scene.joined(leader), scene.joined(follower));
    let expected = vec![
        JoinedMember { member_id: name("client-1"), instance_id: None, metadata: bytes("one") },
        JoinedMember {
            member_id: name("i-2"),
            instance_id: Some(name("i")),
            metadata: bytes("two"),
        },
    ];
    assert_eq!(leader.members, expected);
    assert_eq!(follower.members, vec![]);
    for answer in [&leader, &follower] {
        assert_eq!((answer.generation, &*answer.leader), (1, "client-1"));
        assert_eq!(answer.protocol_type, Some(name("consumer")));
        assert_eq!(answer.protocol, Some(name("range")));
        assert!(!answer.skip_assignment);
    }
}

#[test]
fn rejoin_during_the_round_of_joins_replaces_the_wait_and_answers_the_former_one() {
    let mut scene = Scene::stable(2);
    let former = scene.join(join("client-1"));
    let newer = scene.join(join("client-1"));
    assert_eq!(scene.join_answer(former).error, ErrorCode::RebalanceInProgress);
    assert!(scene.is_waiting(newer));
    let _ = scene.join(join("client-2"));
    assert_eq!(scene.joined(newer).generation, 2);
}

#[test]
fn unchanged_rejoin_before_the_assignment_gets_the_generation_again() {
    let mut scene = Scene::new();
    let (_, _) = (scene.join(old_join()), scene.join(old_join()));
    scene.pass(2 * DELAY_MS);
    assert_eq!(scene.group.state(), State::CompletingRebalance);
    let (leader, follower) = (scene.join(join("client-1")), scene.join(join("client-2")));
    assert_eq!((scene.joined(leader).generation, scene.joined(leader).members.len()), (1, 2));
    assert_eq!((scene.joined(follower).generation, scene.joined(follower).members.len()), (1, 0));
    assert_eq!(scene.group.state(), State::CompletingRebalance);
}

#[test]
fn changed_rejoin_before_the_assignment_begins_a_new_round() {
    let mut scene = Scene::new();
    let (_, _) = (scene.join(old_join()), scene.join(old_join()));
    scene.pass(2 * DELAY_MS);
    let waiting = scene.sync(sync("client-2", 1, &[]));
    let changed = scene.join(with_protocols(join("client-1"), &[("range", "more topics")]));
    assert_eq!(scene.sync_answer(waiting).error, ErrorCode::RebalanceInProgress);
    assert!(scene.is_waiting(changed));
    assert_eq!(scene.group.state(), State::PreparingRebalance);
}

#[test]
fn leader_of_a_stable_group_always_begins_a_new_round() {
    let mut scene = Scene::stable(2);
    let leader = scene.join(join("client-1"));
    assert!(scene.is_waiting(leader));
    assert_eq!(scene.group.state(), State::PreparingRebalance);
}

#[test]
fn follower_of_a_stable_group_begins_a_new_round_only_with_new_metadata() {
    let mut scene = Scene::stable(2);
    let same = scene.join(join("client-2"));
    let answer = scene.joined(same);
    assert_eq!((answer.generation, &*answer.leader, answer.members.len()), (1, "client-1", 0));
    assert_eq!(scene.group.state(), State::Stable);
    let other = scene.join(with_protocols(join("client-2"), &[("range", "more topics")]));
    assert!(scene.is_waiting(other));
    assert_eq!(scene.group.state(), State::PreparingRebalance);
}

#[test]
fn full_group_refuses_new_members_and_keeps_its_own() {
    let mut scene = Scene::with(Settings { size_max: 2, ..settings() });
    let (one, two) = (scene.join(old_join()), scene.join(old_join()));
    let third = scene.join(old_join());
    assert_eq!(scene.join_answer(third).error, ErrorCode::GroupMaxSizeReached);
    assert_eq!(&*scene.join_answer(third).member_id, "");
    scene.pass(2 * DELAY_MS);
    let ids = [scene.joined(one).member_id, scene.joined(two).member_id];
    scene.sync_all(&ids);
    let fourth = scene.join(old_join());
    assert_eq!(scene.join_answer(fourth).error, ErrorCode::GroupMaxSizeReached);
    let own = scene.join(join(&ids[1]));
    assert_eq!(scene.joined(own).generation, 1);
}

#[test]
fn restarted_static_member_gets_into_a_full_group() {
    let mut scene = Scene::with(Settings { size_max: 1, ..settings() });
    let first = scene.join(static_join("i"));
    scene.pass(DELAY_MS);
    let id = scene.joined(first).member_id;
    scene.sync_all(&[id]);
    let restarted = scene.join(static_join("i"));
    scene.durable();
    assert_eq!(scene.joined(restarted).generation, 1);
}

#[test]
fn group_above_a_lowered_size_keeps_the_first_to_rejoin() {
    let snapshot = Scene::stable(3).group.snapshot();
    let small = Settings { size_max: 2, ..settings() };
    let mut scene = Scene::with(small);
    scene.group = ClassicGroup::restore(small, snapshot, scene.now());
    assert_eq!(scene.group.state(), State::PreparingRebalance);
    let one = scene.join(join("client-3"));
    let two = scene.join(join("client-1"));
    let late = scene.join(join("client-2"));
    assert_eq!(scene.join_answer(late).error, ErrorCode::GroupMaxSizeReached);
    assert_eq!((scene.joined(one).generation, scene.joined(two).generation), (2, 2));
    assert_eq!(scene.group.members(), 2);
}

#[test]
fn memory_of_a_group_is_bounded() {
    let mut scene = Scene::with(Settings { bytes_max: 2_000, ..settings() });
    let small = scene.join(old_join());
    let large = scene.join(with_protocols(old_join(), &[("range", &"x".repeat(2_000))]));
    assert_eq!(scene.join_answer(large).error, ErrorCode::GroupMaxSizeReached);
    assert!(scene.is_waiting(small));
    assert_eq!(scene.group.members(), 1);
}

#[test]
fn session_timeouts_outside_the_bounds_are_refused() {
    let settings = Settings::default();
    for (ms, expected) in [
        (5_999, Err(ErrorCode::InvalidSessionTimeout)),
        (6_000, Ok(())),
        (1_800_000, Ok(())),
        (1_800_001, Err(ErrorCode::InvalidSessionTimeout)),
        (-1, Err(ErrorCode::InvalidSessionTimeout)),
    ] {
        assert_eq!(settings.check_session_timeout(ms), expected, "{ms}");
    }
}

#[test]
fn member_ids_stay_short_whatever_the_client_calls_itself() {
    let long = "ü".repeat(20_000);
    let id = new_member_id(&long, "5");
    assert_eq!(id.len(), 512 + 2);
    assert!(id.ends_with("ü-5"));
}
