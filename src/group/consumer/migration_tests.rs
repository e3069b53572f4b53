use super::super::testing::{
    Beat, Bench, Topics, assignment, guest_join, guest_sync, subscription,
};
use super::*;
use crate::config::MigrationPolicy;
use crate::wire::ErrorCode;

fn member(id: &str, owned: &[(&str, &[i32])], assigned: &[(&str, &[i32])]) -> RosterMember {
    RosterMember {
        member_id: id.into(),
        instance_id: None,
        client_id: "client".into(),
        client_host: "/127.0.0.1".into(),
        rebalance_timeout_ms: 7_000,
        session_timeout_ms: 10_000,
        protocols: guest_join(id, subscription(&["t"], owned)).protocols,
        assignment: assignment(assigned),
    }
}

fn roster(members: Vec<RosterMember>) -> Roster {
    Roster { generation: 5, protocol: "sticky".into(), is_settled: true, members }
}

fn upgraded(members: Vec<RosterMember>) -> Result<Bench, UpgradeError> {
    let mut bench = Bench::new(&[("t", 4)]);
    let settings = ConsumerSettings::default();
    let roster = roster(members);
    let group = ConsumerGroup::from_classic(settings, Some(&roster), &bench.topics, bench.now)?;
    bench.begin_with(group);
    Ok(bench)
}

#[test]
fn classic_group_goes_on_in_its_generation_with_what_its_members_have() {
    let first = member("m1", &[], &[("t", &[0, 1])]);
    let mut bench = upgraded(vec![first, member("m2", &[], &[("t", &[2, 3])])]).unwrap();
    assert_eq!(bench.group.epoch().get(), 5);
    assert_eq!(bench.guest_beats("m1", 5), Ok(()));
    let told = bench.guest_syncs(&guest_sync("m2", 5)).unwrap();
    assert_eq!(told, assignment(&[("t", &[2, 3])]));
    bench.ok(&Beat::join("new", &["t"]));
    assert_eq!(bench.group.epoch().get(), 6);
    assert_eq!(bench.guest_beats("m1", 5), Err(ErrorCode::RebalanceInProgress));
    let state = bench.group.state.clone();
    bench.reload();
    assert_eq!(bench.group.state, state, "its records give it again");
}

#[test]
fn what_a_cooperative_member_has_not_let_go_of_is_nobody_elses() {
    // "m1" was to let go of 2 and 3 and has not joined again; "m2" was in before and is not now.
    let first = member("m1", &[("t", &[0, 1, 2, 3])], &[("t", &[0, 1])]);
    let mut bench = upgraded(vec![first, member("m2", &[], &[])]).unwrap();
    let answer = bench.ok(&Beat::join("new", &["t"]));
    assert_eq!(answer.assignment.map(|all| all.len()), Some(0));
    assert_eq!(bench.guest_beats("m1", 5), Err(ErrorCode::RebalanceInProgress));
    let kept = subscription(&["t"], &[("t", &[0, 1])]);
    bench.guest_joins(&guest_join("m1", kept)).unwrap();
    bench.settle("new");
    assert_eq!(bench.assigned("new").len(), 1);
}

#[test]
fn of_two_that_say_they_own_a_partition_the_later_one_does() {
    let claim = |generation: u8| {
        let mut bytes = vec![0, 2, 0, 0, 0, 1, 0, 1, b't', 0xff, 0xff, 0xff, 0xff];
        bytes.extend([0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, generation]);
        Bytes::from(bytes)
    };
    let with = |id, generation| RosterMember {
        protocols: guest_join(id, claim(generation)).protocols,
        ..member(id, &[], &[])
    };
    let bench = upgraded(vec![with("m1", 3), with("m2", 4)]).unwrap();
    let held = |id| bench.member(id).current.held().count();
    assert_eq!((held("m1"), held("m2")), (0, 1));
}

#[test]
fn static_member_that_changes_its_protocol_has_its_partitions_or_gets_some() {
    let join = Beat::join("new", &["t"]).instance("i");
    let static_member = |assigned| {
        let member = member("old", &[], &[("t", assigned)]);
        RosterMember { instance_id: Some("i".into()), ..member }
    };
    let mut bench = upgraded(vec![static_member(&[0, 1, 2, 3])]).unwrap();
    let answer = bench.ok(&join);
    assert_eq!((answer.member_epoch.get(), bench.assigned("new").len()), (5, 4), "no other round");
    // Its group had not come to an assignment for all.
    let mut bench = upgraded(vec![static_member(&[0])]).unwrap();
    let answer = bench.ok(&join);
    assert_eq!((answer.member_epoch.get(), bench.assigned("new").len()), (6, 4));
}

#[test]
fn classic_group_that_cannot_be_one_of_the_new_protocol_stays() {
    let refused = |members| upgraded(members).err();
    let shared = vec![member("m1", &[], &[("t", &[0])]), member("m2", &[], &[("t", &[0])])];
    assert_eq!(refused(shared), Some(UpgradeError::SharedPartition));
    let rubbish = RosterMember { assignment: Bytes::from_static(b"x"), ..member("m", &[], &[]) };
    assert_eq!(refused(vec![rubbish]), Some(UpgradeError::Malformed));
    let none = RosterMember { protocols: Vec::new(), ..member("m", &[], &[]) };
    assert_eq!(refused(vec![none]), Some(UpgradeError::Malformed));
    let topics = Topics::new(&[("t", 4)]);
    let of = |settings, roster: Option<&Roster>| {
        ConsumerGroup::from_classic(settings, roster, &topics, 0).err()
    };
    let good = roster(vec![member("m1", &[], &[]), member("m2", &[], &[])]);
    assert_eq!(of(ConsumerSettings::default(), None), Some(UpgradeError::OtherType));
    let settings = ConsumerSettings { members_max: 1, ..Default::default() };
    assert_eq!(of(settings, Some(&good)), Some(UpgradeError::TooManyMembers));
    for migration in [MigrationPolicy::Disabled, MigrationPolicy::Downgrade] {
        let settings = ConsumerSettings { migration, ..Default::default() };
        assert_eq!(of(settings, Some(&good)), Some(UpgradeError::Disabled));
    }
}

#[test]
fn group_is_its_classic_members_when_the_last_other_has_gone() {
    let first = || vec![member("m1", &[], &[("t", &[0, 1, 2, 3])])];
    let gone: [fn(&mut Bench); 3] = [
        |bench| drop(bench.ok(&Beat::new("new", -1))),
        |bench| {
            for _ in 0..9 {
                bench.pass(5_000);
                let generation = bench.member("m1").current.epoch.get();
                let _ = bench.guest_beats("m1", generation);
            }
        },
        |bench| drop(bench.leaves(&[("new", None)])),
    ];
    for leave in gone {
        let mut bench = upgraded(first()).unwrap();
        bench.ok(&Beat::join("new", &["t"]));
        let joined = bench.guest_joins(&guest_join("m1", subscription(&["t"], &[]))).unwrap();
        bench.guest_syncs(&guest_sync("m1", joined.generation)).unwrap();
        assert_eq!(bench.group.take_downgrade(), None);
        let epoch = bench.group.epoch();
        leave(&mut bench);
        let how = bench.group.take_downgrade().unwrap();
        assert_eq!((how, bench.group.take_downgrade()), (Downgrade { is_settled: false }, None));
        assert_eq!(bench.group.epoch(), epoch, "its generation");
        let roster = bench.group.roster(how, &bench.topics).unwrap();
        assert_eq!((roster.generation, &*roster.protocol), (epoch.get(), "range"));
        let [member] = &roster.members[..] else { panic!("{roster:?}") };
        assert_eq!((member.session_timeout_ms, member.rebalance_timeout_ms), (10_000, 7_000));
        assert_eq!(member.protocols.len(), 2);
        let mine: Vec<i32> = bench.assigned("m1").iter().map(|at| at.partition.get()).collect();
        assert_eq!((mine.len(), &member.assignment), (2, &assignment(&[("t", &mine)])));
    }
}

#[test]
fn group_of_classic_members_alone_goes_on_where_it_may_not_change() {
    for (migration, classic_members_max) in
        [(MigrationPolicy::Upgrade, 10), (MigrationPolicy::Bidirectional, 0)]
    {
        let mut bench = upgraded(vec![member("m1", &[], &[("t", &[0, 1, 2, 3])])]).unwrap();
        bench.group.settings.migration = migration;
        bench.group.settings.classic_members_max = classic_members_max;
        bench.ok(&Beat::join("new", &["t"]));
        bench.ok(&Beat::new("new", -1));
        assert_eq!(bench.group.take_downgrade(), None);
        assert_eq!(bench.guest_beats("m1", 5), Err(ErrorCode::RebalanceInProgress));
        let joined = bench.guest_joins(&guest_join("m1", subscription(&["t"], &[]))).unwrap();
        bench.guest_syncs(&guest_sync("m1", joined.generation)).unwrap();
        assert_eq!(bench.assigned("m1"), bench.topics.all(&["t"]));
        assert_eq!(bench.guest_beats("m1", joined.generation), Ok(()));
    }
}

#[test]
fn group_whose_last_other_member_comes_back_as_a_classic_one_is_settled() {
    let mut bench = upgraded(vec![member("m1", &[], &[("t", &[0, 1, 2, 3])])]).unwrap();
    bench.ok(&Beat::join("new", &["t"]).instance("i"));
    let joined = bench.guest_joins(&guest_join("m1", subscription(&["t"], &[]))).unwrap();
    bench.guest_syncs(&guest_sync("m1", joined.generation)).unwrap();
    bench.settle("new");
    bench.ok(&Beat::new("new", -2).instance("i"));
    assert_eq!(bench.group.take_downgrade(), None, "it keeps its place");
    let request = crate::group::classic::JoinRequest {
        instance_id: Some("i".into()),
        ..guest_join("", subscription(&["t"], &[]))
    };
    let back = bench.guest_joins(&request).unwrap();
    assert_eq!(back.generation, joined.generation);
    assert_eq!(bench.group.take_downgrade(), Some(Downgrade { is_settled: true }));
}
