use super::super::assignor::Assignor;
use super::super::testing::{Beat, Bench};
use super::super::{ConsumerRecord, ConsumerSettings, Epoch, GroupState};
use super::*;
use crate::wire::ErrorCode;

fn code(error: HeartbeatError) -> ErrorCode {
    assert!(!error.to_string().is_empty());
    error.code()
}

#[test]
fn first_member_gets_everything_at_once() {
    let mut bench = Bench::new(&[("t", 3), ("other", 2)]);
    let answer = bench.ok(&Beat::join("m1", &["t"]));
    assert_eq!((&*answer.member_id, answer.member_epoch.get()), ("m1", 1));
    assert_eq!(answer.heartbeat_interval_ms, 5_000);
    assert_eq!(answer.assignment, Some(bench.topics.all(&["t"])));
    assert_eq!(bench.group.state(), GroupState::Stable);
    let response = answer.response();
    assert_eq!(response.assignment.unwrap().topic_partitions[0].partitions, [0, 1, 2]);
}

#[test]
fn members_of_version_0_are_given_an_id_and_those_of_version_1_bring_one() {
    let mut bench = Bench::new(&[("t", 1)]);
    let without_id = Beat { version: 0, ..Beat::join("", &["t"]) };
    assert_eq!(&*bench.ok(&without_id).member_id, "fresh");
    let error = bench.refused(&Beat::join("", &["t"]));
    assert_eq!(code(error), ErrorCode::InvalidRequest);
    assert_eq!(&*bench.ok(&Beat { version: 0, ..Beat::join("own", &["t"]) }).member_id, "own");
}

#[test]
fn assignment_is_told_when_it_changed_or_was_asked_for_and_not_otherwise() {
    let mut bench = Bench::new(&[("t", 2)]);
    let all = bench.topics.all(&["t"]);
    bench.ok(&Beat::join("m1", &["t"]));
    assert_eq!(bench.ok(&Beat::new("m1", 1)).assignment, None);
    assert_eq!(bench.ok(&Beat::new("m1", 1).owns(&all)).assignment, None);
    let full = Beat { rebalance_timeout_ms: 30_000, ..Beat::new("m1", 1).owns(&all) };
    assert_eq!(bench.ok(&full.clone().names(&["t"])).assignment, Some(all.clone()));
    let by_regex = Beat { regex: Some(String::new()), ..full };
    assert_eq!(bench.ok(&by_regex).assignment, Some(all));
    bench.ok(&Beat::join("m2", &["t"]));
    let told = bench.ok(&Beat::new("m1", 1)).assignment.expect("a changed assignment");
    assert_eq!(told.len(), 1);
}

#[test]
fn partition_goes_to_its_new_member_only_when_the_old_one_let_it_go() {
    let mut bench = Bench::new(&[("t", 2)]);
    let all = bench.topics.all(&["t"]);
    bench.ok(&Beat::join("m1", &["t"]));
    // The second member waits.
    let answer = bench.ok(&Beat::join("m2", &["t"]));
    assert_eq!((answer.member_epoch.get(), answer.assignment), (2, Some(Partitions::new())));
    assert_eq!(bench.member("m2").current.state, MemberState::UnreleasedPartitions);
    // The first is told to let go, and stays in its epoch until it says it has.
    let answer = bench.ok(&Beat::new("m1", 1).owns(&all));
    let keeps = answer.assignment.expect("what it keeps");
    assert_eq!((keeps.len(), answer.member_epoch.get()), (1, 1));
    assert_eq!(bench.member("m1").current.state, MemberState::UnrevokedPartitions);
    for beat in [Beat::new("m1", 1), Beat::new("m1", 1).owns(&all)] {
        assert_eq!(bench.ok(&beat).member_epoch.get(), 1);
        assert_eq!(bench.ok(&Beat::new("m2", 2)).assignment, None, "it is still owned");
    }
    assert_eq!(bench.group.state(), GroupState::Reconciling);
    // It acknowledges; only then the second has it.
    assert_eq!(bench.ok(&Beat::new("m1", 1).owns(&keeps)).member_epoch.get(), 2);
    let gets = bench.ok(&Beat::new("m2", 2)).assignment.expect("what it gets");
    assert_eq!(gets, &all - &keeps);
    assert_eq!(bench.group.state(), GroupState::Stable);
}

#[test]
fn member_that_rejoins_with_epoch_0_has_let_go_of_everything_and_gets_its_own_again() {
    let mut bench = Bench::new(&[("t", 4)]);
    bench.ok(&Beat::join("m1", &["t"]));
    bench.ok(&Beat::join("m2", &["t"]));
    bench.ok(&Beat::new("m1", 1));
    assert_eq!(bench.member("m1").current.state, MemberState::UnrevokedPartitions);
    let answer = bench.ok(&Beat::join("m1", &["t"]));
    assert_eq!(answer.member_epoch, bench.group.epoch());
    assert_eq!(answer.assignment, Some(bench.target("m1")));
    assert_eq!(bench.group.epoch().get(), 2, "nothing is assigned anew for it");
    // And again, stable as it is.
    let answer = bench.ok(&Beat::join("m1", &["t"]));
    assert_eq!(answer.assignment, Some(bench.target("m1")));
}

#[test]
fn epoch_before_is_taken_when_only_an_answer_was_lost() {
    let mut bench = Bench::new(&[("t", 2)]);
    let all = bench.topics.all(&["t"]);
    bench.ok(&Beat::join("m1", &["t"]));
    bench.topics.grow("t", 3);
    let lost = bench.ok(&Beat::new("m1", 1).owns(&all));
    assert_eq!(lost.member_epoch.get(), 2);
    // It does not say what it owns, or owns what it has not.
    assert_eq!(code(bench.refused(&Beat::new("m1", 1))), ErrorCode::FencedMemberEpoch);
    let mut more = all.clone();
    more.insert(NO_PARTITION);
    assert_eq!(code(bench.refused(&Beat::new("m1", 1).owns(&more))), ErrorCode::FencedMemberEpoch);
    let again = bench.ok(&Beat::new("m1", 1).owns(&all));
    assert_eq!(again.member_epoch.get(), 2);
    assert_eq!(again.assignment, lost.assignment, "it never heard of it");
}

#[test]
fn wrong_epochs_and_unknown_members_are_refused() {
    let mut bench = Bench::new(&[("t", 2)]);
    bench.ok(&Beat::join("m1", &["t"]));
    assert_eq!(code(bench.refused(&Beat::new("m1", 2))), ErrorCode::FencedMemberEpoch);
    assert_eq!(code(bench.refused(&Beat::new("nobody", 1))), ErrorCode::UnknownMemberId);
    assert_eq!(code(bench.refused(&Beat::new("nobody", -1))), ErrorCode::UnknownMemberId);
    let unknown = Beat::new("m1", 1).instance("i");
    assert_eq!(code(bench.refused(&unknown)), ErrorCode::UnknownMemberId);
    let unknown = Beat::new("m1", -2).instance("i");
    assert_eq!(code(bench.refused(&unknown)), ErrorCode::UnknownMemberId);
}

#[test]
fn full_group_takes_no_new_member_but_a_static_one_that_is_back() {
    let settings = ConsumerSettings { members_max: 2, ..Default::default() };
    let mut bench = Bench::with_settings(&[("t", 2)], settings);
    bench.ok(&Beat::join("m1", &["t"]));
    bench.ok(&Beat::join("m2", &["t"]).instance("i"));
    assert_eq!(code(bench.refused(&Beat::join("m3", &["t"]))), ErrorCode::GroupMaxSizeReached);
    bench.ok(&Beat::join("m1", &["t"]));
    bench.ok(&Beat::new("m2", -2).instance("i"));
    bench.ok(&Beat::join("m3", &["t"]).instance("i"));
    assert_eq!(bench.group.member_count(), 2);
}

#[test]
fn static_member_comes_back_under_another_id_to_its_place_without_a_rebalance() {
    let mut bench = Bench::new(&[("t", 4)]);
    bench.ok(&Beat::join("m1", &["t"]).instance("i"));
    bench.ok(&Beat::join("m2", &["t"]));
    bench.settle_all(&["m1", "m2"]);
    let (epoch, had) = (bench.group.epoch(), bench.assigned("m1"));
    let taken = bench.refused(&Beat::join("m3", &["t"]).instance("i"));
    assert_eq!(code(taken), ErrorCode::UnreleasedInstanceId);

    let answer = bench.ok(&Beat::new("m1", -2).instance("i"));
    assert_eq!((answer.member_epoch, answer.assignment), (Epoch::LEAVE_STATIC, None));
    assert_eq!(bench.group.state(), GroupState::Reconciling);
    bench.settle("m2");
    assert_eq!(bench.assigned("m1"), had, "its partitions wait for it");

    let answer = bench.ok(&Beat::join("m3", &["t"]).instance("i"));
    assert_eq!((answer.member_epoch, bench.group.epoch()), (epoch, epoch));
    assert_eq!(answer.assignment, Some(had));
    assert_eq!(bench.group.state(), GroupState::Stable);
    let fenced = bench.refused(&Beat::new("m1", epoch.get()).instance("i"));
    assert_eq!(code(fenced), ErrorCode::FencedInstanceId);
    let fenced = bench.refused(&Beat::new("m1", -1).instance("i"));
    assert_eq!(code(fenced), ErrorCode::FencedInstanceId);
    assert_eq!(bench.group.member_count(), 2);
}

#[test]
fn static_member_that_is_away_may_come_back_under_its_own_id() {
    let mut bench = Bench::new(&[("t", 2)]);
    bench.ok(&Beat::join("m1", &["t"]).instance("i"));
    bench.ok(&Beat::new("m1", -2).instance("i"));
    let fenced = bench.refused(&Beat::new("m1", 1).instance("i"));
    assert_eq!(code(fenced), ErrorCode::FencedMemberEpoch);
    let answer = bench.ok(&Beat::join("m1", &["t"]).instance("i"));
    assert_eq!(answer.assignment, Some(bench.topics.all(&["t"])));
    assert_eq!(bench.group.state(), GroupState::Stable);
    // A static member whose answer was lost, or that was fenced, joins again too.
    bench.ok(&Beat::join("m1", &["t"]).instance("i"));
}

#[test]
fn member_that_takes_over_a_static_place_gives_up_its_own() {
    let mut bench = Bench::new(&[("t", 4), ("u", 1)]);
    bench.ok(&Beat::join("m1", &["t"]).instance("i"));
    bench.ok(&Beat::join_by_regex("m2", "u.*"));
    bench.settle_all(&["m1", "m2"]);
    bench.ok(&Beat::new("m1", -2).instance("i"));
    bench.ok(&Beat::join("m2", &["t"]).instance("i"));
    bench.settle("m2");
    assert_eq!(bench.assigned("m2"), bench.topics.all(&["t"]));
    assert_eq!(bench.group.member_count(), 1);
    assert!(bench.group.state.patterns.is_empty(), "it is another member now");
}

#[test]
fn leaving_frees_partitions_and_the_last_to_leave_empties_the_group() {
    let mut bench = Bench::new(&[("t", 2)]);
    bench.ok(&Beat::join("m1", &["t"]));
    bench.ok(&Beat::join("m2", &["t"]));
    bench.settle_all(&["m1", "m2"]);
    let answer = bench.ok(&Beat::new("m2", -1));
    assert_eq!((answer.member_epoch, answer.heartbeat_interval_ms), (Epoch::LEAVE, 0));
    assert_eq!(bench.group.state(), GroupState::Assigning);
    bench.settle("m1");
    assert_eq!(bench.assigned("m1"), bench.topics.all(&["t"]));
    bench.ok(&Beat::new("m1", -1));
    assert_eq!(bench.group.state(), GroupState::Empty);
    assert!(bench.group.is_empty());
    assert_eq!(bench.group.next_deadline(), None);
    assert_eq!(bench.group.state.metadata_hash, 0);
}

#[test]
fn changed_subscription_moves_the_group_on_and_the_same_one_does_not() {
    let mut bench = Bench::new(&[("t", 2), ("u", 2)]);
    bench.ok(&Beat::join("m1", &["t"]));
    bench.ok(&Beat::new("m1", 1).names(&["t", "t"]));
    assert_eq!(bench.group.epoch().get(), 1);
    let answer = bench.ok(&Beat::new("m1", 1).names(&["u"]));
    assert_eq!((answer.member_epoch.get(), answer.assignment), (1, Some(Partitions::new())));
    let answer = bench.ok(&Beat::new("m1", 1).owns(&Partitions::new()));
    assert_eq!(answer.member_epoch.get(), 2);
    assert_eq!(answer.assignment, Some(bench.topics.all(&["u"])));
}

#[test]
fn fields_left_out_stay_as_they_were() {
    let mut bench = Bench::new(&[("t", 2)]);
    let join = Beat { rack: Some("r1".to_owned()), ..Beat::join("m1", &["t"]) };
    bench.ok(&join.assignor("range").instance("i"));
    let before = bench.member("m1").clone();
    bench.ok(&Beat::new("m1", 1));
    assert_eq!(*bench.member("m1"), before);
    let metadata = &before.metadata;
    assert_eq!(metadata.rack_id.as_deref(), Some("r1"));
    assert_eq!(metadata.instance_id.as_deref(), Some("i"));
    assert_eq!(metadata.server_assignor.as_deref(), Some("range"));
    assert_eq!(metadata.rebalance_timeout_ms, 30_000);
    bench.ok(&Beat { rack: Some("r2".to_owned()), ..Beat::new("m1", 1) });
    assert_eq!(bench.member("m1").metadata.rack_id.as_deref(), Some("r2"));
    assert_eq!(bench.group.epoch().get(), 1, "a rack asks for no other assignment");
}

#[test]
fn created_grown_and_deleted_topics_move_the_group_on() {
    let mut bench = Bench::new(&[("t", 1)]);
    bench.ok(&Beat::join("m1", &["t", "later"]));
    bench.topics.create("unrelated", 5);
    bench.settle("m1");
    assert_eq!(bench.group.epoch().get(), 1);
    bench.topics.create("later", 2);
    bench.settle("m1");
    assert_eq!((bench.group.epoch().get(), bench.assigned("m1").len()), (2, 3));
    bench.topics.grow("t", 4);
    bench.settle("m1");
    assert_eq!((bench.group.epoch().get(), bench.assigned("m1").len()), (3, 6));
    bench.topics.delete("later");
    bench.settle("m1");
    assert_eq!((bench.group.epoch().get(), bench.assigned("m1").len()), (4, 4));
    // One of the same name and size is another topic.
    bench.topics.create("t", 4);
    bench.settle("m1");
    assert_eq!((bench.group.epoch().get(), bench.assigned("m1")), (5, bench.topics.all(&["t"])));
}

#[test]
fn quiet_heartbeat_writes_nothing_and_looks_at_no_topic() {
    struct Blind(u64);
    impl TopicsView for Blind {
        fn version(&self) -> u64 {
            self.0
        }
        fn by_name(&self, name: &str) -> Option<crate::group::consumer::TopicFacts> {
            panic!("looked at {name}")
        }
        fn name_of(&self, _: TopicId) -> Option<Arc<str>> {
            panic!("looked at a topic")
        }
        fn names_after(&self, _: Option<&str>, _: &mut dyn FnMut(&Arc<str>) -> bool) {
            panic!("looked at all topics")
        }
    }
    let mut bench = Bench::new(&[("t", 1)]);
    bench.ok(&Beat::join("m1", &["t"]));
    bench.ok(&Beat::join_by_regex("m2", "t.*"));
    bench.settle_all(&["m1", "m2"]);
    let (epoch, version) = (bench.group.epoch().get(), bench.topics.version());
    let beat = Beat::new("m1", epoch);
    let caller =
        Caller { version: 1, client_id: "client", client_host: "/127.0.0.1", fresh_member_id: "f" };
    let blind = Blind(version);
    let quiet = bench.group.heartbeat(&beat.request(), &caller, &blind, bench.now).unwrap();
    assert_eq!(quiet.1, []);
}

#[test]
fn assignor_with_the_most_votes_is_used_and_the_first_of_the_settings_without_any() {
    let mut bench = Bench::new(&[("t", 4)]);
    bench.ok(&Beat::join("m1", &["t"]));
    assert_eq!(bench.group.assignor(), Assignor::Uniform);
    bench.ok(&Beat::join("m2", &["t"]).assignor("range"));
    assert_eq!(bench.group.assignor(), Assignor::Range);
    bench.ok(&Beat::new("m1", 1).assignor("uniform"));
    assert_eq!(bench.group.assignor(), Assignor::Uniform, "of equals the first");
    let refused = bench.refused(&Beat::join("m3", &["t"]).assignor("sticky"));
    assert_eq!(code(refused), ErrorCode::UnsupportedAssignor);
    let only_range =
        ConsumerSettings { assignors: vec![Assignor::Range], ..ConsumerSettings::default() };
    bench.group.set_settings(only_range);
    let refused = bench.refused(&Beat::join("m3", &["t"]).assignor("uniform"));
    assert_eq!(code(refused), ErrorCode::UnsupportedAssignor);
}

#[test]
fn joining_writes_kafkas_records_in_kafkas_order() {
    let mut bench = Bench::new(&[("t", 1)]);
    bench.ok(&Beat::join("m1", &["t"]));
    let kinds: Vec<&str> = bench
        .log
        .iter()
        .map(|record| match record {
            ConsumerRecord::MemberMetadata { .. } => "member",
            ConsumerRecord::GroupMetadata(_) => "group",
            ConsumerRecord::TargetAssignmentMember { .. } => "target of member",
            ConsumerRecord::TargetAssignmentMetadata(_) => "target",
            ConsumerRecord::CurrentMemberAssignment { .. } => "current",
            ConsumerRecord::PartitionMetadata { .. } => "partitions",
            ConsumerRecord::RegularExpression { .. } => "regex",
        })
        .collect();
    assert_eq!(kinds, ["member", "group", "target of member", "target", "current"]);
}

#[test]
fn group_at_its_last_epoch_refuses_heartbeats_and_can_be_left() {
    let mut bench = Bench::new(&[("t", 1)]);
    bench.ok(&Beat::join("m1", &["t"]));
    let last = ConsumerRecord::GroupMetadata(Some(crate::group::consumer::record::GroupMetadata {
        epoch: Epoch::LAST,
        metadata_hash: 0,
    }));
    bench.log.push(last);
    bench.reload();
    let caller = Caller { version: 1, client_id: "", client_host: "", fresh_member_id: "" };
    let mut beat =
        |beat: Beat| bench.group.heartbeat(&beat.request(), &caller, &bench.topics, bench.now);
    let error = beat(Beat::new("m1", 1)).unwrap_err();
    assert_eq!(error, HeartbeatError::EpochsUsedUp { epoch: Epoch::LAST });
    beat(Beat::new("m1", -1)).unwrap();
}

#[test]
fn log_that_no_group_wrote_is_healed_by_the_next_heartbeat() {
    let mut bench = Bench::new(&[("t", 2)]);
    bench.ok(&Beat::join("m1", &["t"]));
    bench.log.push(ConsumerRecord::TargetAssignmentMetadata(Some(Epoch::new(70))));
    bench.log.push(ConsumerRecord::CurrentMemberAssignment {
        member: "m1".into(),
        value: Some(CurrentAssignment { epoch: Epoch::new(90), ..Default::default() }),
    });
    bench.reload();
    let caller = Caller { version: 1, client_id: "", client_host: "", fresh_member_id: "" };
    let request = Beat::new("m1", 90);
    let (answer, _) = bench
        .group
        .heartbeat(&request.request(), &caller, &bench.topics, bench.now)
        .expect("a heartbeat");
    assert_eq!(answer.member_epoch.get(), 91);
    assert_eq!(answer.assignment, Some(bench.topics.all(&["t"])));
}

#[test]
fn names_of_nothing_and_negative_partitions_do_no_harm() {
    let mut bench = Bench::new(&[("t", 1)]);
    bench.ok(&Beat::join("m1", &["", "no such topic", "\u{0}"]));
    assert_eq!(bench.target("m1"), Partitions::new());
    let beat = Beat::new("m1", 1);
    let mut request = beat.request();
    request.topic_partitions =
        Some(vec![crate::wire::messages::consumer_group_heartbeat::TopicPartitions {
            topic_id: crate::wire::Uuid([9; 16]),
            partitions: vec![-1, i32::MIN, i32::MAX],
        }]);
    let caller = Caller { version: 1, client_id: "", client_host: "", fresh_member_id: "" };
    bench.group.heartbeat(&request, &caller, &bench.topics, bench.now).unwrap();
}
