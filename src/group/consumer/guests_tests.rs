use super::super::GroupState;
use super::super::testing::{Beat, Bench, assignment, guest_join, guest_sync, subscription};
use super::*;
use crate::config::MigrationPolicy;
use crate::group::classic::JoinRules;
use bytes::Bytes;

/// A member of each protocol that share a topic of four partitions: "new" has two, "old" the others.
fn mixed() -> (Bench, i32) {
    let mut bench = Bench::new(&[("t", 4)]);
    bench.ok(&Beat::join("new", &["t"]));
    let joined = bench.guest_joins(&guest_join("old", subscription(&["t"], &[]))).unwrap();
    bench.guest_syncs(&guest_sync("old", joined.generation)).unwrap();
    bench.settle("new");
    assert_eq!(bench.guest_beats("old", joined.generation), Err(ErrorCode::RebalanceInProgress));
    let joined = bench.guest_joins(&guest_join("old", subscription(&["t"], &[]))).unwrap();
    bench.guest_syncs(&guest_sync("old", joined.generation)).unwrap();
    assert_eq!(bench.group.state(), GroupState::Stable);
    assert_eq!((bench.assigned("new").len(), bench.assigned("old").len()), (2, 2));
    (bench, joined.generation)
}

fn part(bench: &Bench, member: &str) -> Vec<i32> {
    bench.assigned(member).iter().map(|at| at.partition.get()).collect()
}

fn told(partitions: &[i32]) -> Result<Bytes, ErrorCode> {
    Ok(assignment(&[("t", partitions)]))
}

#[test]
fn member_of_the_classic_protocol_joins_and_is_told_what_is_free() {
    let mut bench = Bench::new(&[("t", 4)]);
    bench.ok(&Beat::join("new", &["t"]));
    let request = guest_join("", subscription(&["t"], &[]));
    assert_eq!(bench.guest_joins(&request), Err(ErrorCode::MemberIdRequired));
    let old = JoinRequest { rules: JoinRules::of_version(3), ..request };
    let joined = bench.guest_joins(&old).unwrap();
    assert_eq!((&*joined.member_id, joined.generation), ("fresh", 2));
    assert_eq!(
        (joined.protocol_type.as_deref(), joined.protocol.as_deref()),
        (Some("consumer"), Some("range"))
    );
    assert_eq!((&*joined.leader, joined.members.len(), joined.skip_assignment), ("", 0, false));
    let member = bench.member("fresh");
    assert!(member.uses_classic_protocol());
    assert_eq!(
        (&*member.metadata.client_host, member.metadata.rebalance_timeout_ms),
        ("/127.0.0.2", 7_000)
    );
    // Nothing yet: "new" has it all.
    assert_eq!(bench.guest_syncs(&guest_sync("fresh", 2)), Ok(assignment(&[])));
    assert_eq!(bench.guest_beats("fresh", 2), Ok(()));
    bench.settle("new");
    assert_eq!(
        bench.guest_beats("fresh", 2),
        Err(ErrorCode::RebalanceInProgress),
        "its part is free"
    );
    let joined = bench.guest_joins(&guest_join("fresh", subscription(&["t"], &[]))).unwrap();
    assert_eq!(joined.generation, 2);
    let mine = part(&bench, "fresh");
    assert_eq!(mine.len(), 2);
    assert_eq!(bench.guest_syncs(&guest_sync("fresh", 2)), told(&mine));
    assert_eq!(bench.guest_beats("fresh", 2), Ok(()));
}

#[test]
fn member_that_keeps_its_partitions_lets_go_of_some_before_others_get_them() {
    let (mut bench, generation) = mixed();
    let before = part(&bench, "old");
    bench.ok(&Beat::join("new2", &["t"]));
    bench.ok(&Beat::join("new3", &["t"]));
    let owned = subscription(&["t"], &[("t", &before)]);
    assert_eq!(bench.guest_beats("old", generation), Err(ErrorCode::RebalanceInProgress));
    let joined = bench.guest_joins(&guest_join("old", owned)).unwrap();
    assert_eq!(joined.generation, generation, "it is in its epoch until it has let go");
    let kept = part(&bench, "old");
    assert_eq!(kept.len(), 1);
    assert_eq!(bench.guest_syncs(&guest_sync("old", generation)), told(&kept));
    assert_eq!(bench.guest_beats("old", generation), Err(ErrorCode::RebalanceInProgress));
    for member in ["new", "new2", "new3"] {
        bench.settle(member);
    }
    assert_eq!(bench.assigned("new2").len() + bench.assigned("new3").len(), 1, "from new");
    let joined =
        bench.guest_joins(&guest_join("old", subscription(&["t"], &[("t", &kept)]))).unwrap();
    assert_eq!(joined.generation, bench.group.epoch().get());
    bench.settle_all(&["new", "new2", "new3"]);
    assert_eq!(bench.group.state(), GroupState::Stable);
}

#[test]
fn calls_of_others_and_of_other_generations_are_refused() {
    let (mut bench, generation) = mixed();
    let sync = |member: &str, generation| guest_sync(member, generation);
    assert_eq!(bench.guest_syncs(&sync("old", generation - 1)), Err(ErrorCode::IllegalGeneration));
    assert_eq!(bench.guest_beats("old", generation + 1), Err(ErrorCode::IllegalGeneration));
    for stranger in ["nobody", "new"] {
        assert_eq!(bench.guest_syncs(&sync(stranger, generation)), Err(ErrorCode::UnknownMemberId));
        assert_eq!(bench.guest_beats(stranger, generation), Err(ErrorCode::UnknownMemberId));
    }
    let other = SyncRequest { protocol: Some("sticky".into()), ..sync("old", generation) };
    assert_eq!(bench.guest_syncs(&other), Err(ErrorCode::InconsistentGroupProtocol));
    let other = SyncRequest { protocol_type: Some("connect".into()), ..sync("old", generation) };
    assert_eq!(bench.guest_syncs(&other), Err(ErrorCode::InconsistentGroupProtocol));
    let silent = SyncRequest { protocol_type: None, protocol: None, ..sync("old", generation) };
    assert!(bench.guest_syncs(&silent).is_ok(), "old clients name no protocol");
}

#[test]
fn joins_that_cannot_be_are_refused() {
    let (mut bench, _) = mixed();
    let good = || guest_join("x", subscription(&["t"], &[]));
    let with = |names: &[&str], metadata: &Bytes| {
        let one = |name: &&str| Protocol { name: (*name).into(), metadata: metadata.clone() };
        JoinRequest { protocols: names.iter().map(one).collect(), ..good() }
    };
    let metadata = subscription(&["t"], &[]);
    for request in [
        JoinRequest { protocol_type: "connect".into(), ..good() },
        with(&["unknown"], &metadata),
        with(&[], &metadata),
    ] {
        assert_eq!(bench.guest_joins(&request), Err(ErrorCode::InconsistentGroupProtocol));
    }
    let rubbish = with(&["range"], &Bytes::from_static(b"x"));
    assert_eq!(bench.guest_joins(&rubbish), Err(ErrorCode::UnknownServerError));
    let unknown = JoinRequest { instance_id: Some("i".into()), ..good() };
    assert_eq!(bench.guest_joins(&unknown), Err(ErrorCode::UnknownMemberId));
    bench.group.settings.members_max = 2;
    assert_eq!(bench.guest_joins(&good()), Err(ErrorCode::GroupMaxSizeReached));
    bench.group.settings.migration = MigrationPolicy::Disabled;
    assert_eq!(bench.guest_joins(&good()), Err(ErrorCode::InconsistentGroupProtocol));
    for policy in [MigrationPolicy::Upgrade, MigrationPolicy::Downgrade] {
        bench.group.settings.migration = policy;
        assert!(bench.guest_joins(&guest_join("old", metadata.clone())).is_ok());
    }
}

#[test]
fn static_member_takes_its_place_from_either_protocol_and_fences_the_former() {
    let mut bench = Bench::new(&[("t", 4)]);
    bench.ok(&Beat::join("new", &["t"]).instance("i"));
    bench.ok(&Beat::join("other", &["t"]));
    bench.settle_all(&["new", "other"]);
    let before = bench.assigned("new");
    let epoch = bench.group.epoch();
    let static_join = |id: &str, uuid: &str| JoinRequest {
        instance_id: Some("i".into()),
        new_member_uuid: uuid.into(),
        ..guest_join(id, subscription(&["t"], &[]))
    };
    let joined = bench.guest_joins(&static_join("", "old-1")).unwrap();
    assert_eq!((&*joined.member_id, joined.generation), ("old-1", epoch.get()));
    assert_eq!((bench.assigned("old-1"), bench.group.epoch()), (before.clone(), epoch));
    let former = bench.refused(&Beat::new("new", epoch.get()).instance("i"));
    assert_eq!(former.code(), ErrorCode::FencedInstanceId);
    let joined = bench.guest_joins(&static_join("", "old-2")).unwrap();
    assert_eq!((&*joined.member_id, bench.assigned("old-2")), ("old-2", before));
    assert_eq!(bench.guest_joins(&static_join("old-1", "")), Err(ErrorCode::FencedInstanceId));
    let caller = Caller { member_id: "old-1", instance_id: Some("i") };
    let told = bench.group.classic_heartbeat(caller, epoch.get(), bench.now);
    assert_eq!(told, Err(ErrorCode::FencedInstanceId));
    assert_eq!(bench.group.take_downgrade(), None, "one of the consumer protocol is there");
}

#[test]
fn members_of_both_protocols_are_taken_out_one_by_one() {
    let (mut bench, _) = mixed();
    bench.ok(&Beat::join("s", &["t"]).instance("i"));
    let epoch = bench.group.epoch();
    let errors = bench.leaves(&[
        ("nobody", None),
        ("", Some("none")),
        ("new", Some("i")),
        ("", Some("i")),
        ("old", None),
        ("old", None),
    ]);
    use ErrorCode::{FencedInstanceId, None as Good, UnknownMemberId};
    assert_eq!(errors, [UnknownMemberId, UnknownMemberId, FencedInstanceId, Good, Good, Good]);
    assert_eq!((bench.group.member_count(), bench.group.epoch()), (1, epoch.next()));
    assert_eq!(bench.leaves(&[("nobody", None)]), [UnknownMemberId]);
    assert_eq!(bench.group.epoch(), epoch.next(), "nobody has left");
}

#[test]
fn silent_member_is_removed_after_its_own_session_timeout() {
    let (mut bench, generation) = mixed();
    bench.pass(9_999);
    assert_eq!(bench.guest_beats("old", generation), Ok(()));
    bench.pass(9_999);
    assert_eq!(bench.group.member_count(), 2);
    bench.pass(1);
    assert_eq!(bench.group.member_count(), 1);
    assert_eq!(bench.guest_beats("old", generation), Err(ErrorCode::UnknownMemberId));
}

#[test]
fn member_that_does_not_join_again_or_sync_in_time_is_removed() {
    let (mut bench, generation) = mixed();
    bench.ok(&Beat::join("new2", &["t"]));
    bench.pass(4_000);
    for _ in 0..6 {
        assert_eq!(bench.guest_beats("old", generation), Err(ErrorCode::RebalanceInProgress));
        bench.pass(1_000);
    }
    assert_eq!(bench.group.member_count(), 3, "its time began with the first word of it");
    assert_eq!(bench.guest_beats("old", generation), Err(ErrorCode::RebalanceInProgress));
    bench.pass(1_000);
    assert_eq!(bench.guest_beats("old", generation), Err(ErrorCode::UnknownMemberId));

    let joined = bench.guest_joins(&guest_join("old", subscription(&["t"], &[]))).unwrap();
    bench.pass(6_999);
    assert_eq!(bench.guest_beats("old", joined.generation), Ok(()));
    bench.pass(1);
    let told = bench.guest_beats("old", joined.generation);
    assert_eq!(told, Err(ErrorCode::UnknownMemberId), "it never synced");
    assert_eq!(bench.group.member_count(), 2);
}

#[test]
fn member_that_was_removed_and_reads_on_is_told_that_all_is_lost() {
    let (mut bench, _) = mixed();
    let mine = part(&bench, "old");
    assert_eq!(bench.leaves(&[("old", None)]), [ErrorCode::None]);
    let owning = guest_join("old", subscription(&["t"], &[("t", &mine)]));
    assert_eq!(bench.guest_joins(&owning), Err(ErrorCode::UnknownMemberId));
    assert!(bench.guest_joins(&guest_join("old", subscription(&["t"], &[]))).is_ok());
}

#[test]
fn member_that_changes_to_the_new_protocol_has_no_time_to_sync() {
    let (mut bench, _) = mixed();
    bench.guest_joins(&guest_join("old", subscription(&["t"], &[]))).unwrap();
    bench.ok(&Beat::join("old", &["t"]));
    assert!(!bench.member("old").uses_classic_protocol());
    bench.settle_all(&["new", "old"]);
    bench.pass(8_000);
    assert_eq!(bench.group.member_count(), 2);
}

#[test]
fn mixed_group_is_the_same_after_a_restart() {
    let (mut bench, generation) = mixed();
    let state = bench.group.state.clone();
    bench.reload();
    assert_eq!(bench.group.state, state);
    assert_eq!(bench.guest_beats("old", generation), Ok(()));
    let mine = part(&bench, "old");
    assert_eq!(bench.guest_syncs(&guest_sync("old", generation)), told(&mine));
    bench.pass(10_000);
    assert_eq!(bench.group.member_count(), 1, "it has the session timeout it asked for");
}
