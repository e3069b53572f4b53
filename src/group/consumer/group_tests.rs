//! Time, loading and deletion of whole groups.

use super::testing::{Beat, Bench};
use super::{ConsumerGroup, ConsumerRecord, ConsumerSettings, GroupState};
use crate::wire::ErrorCode;

#[test]
fn silent_member_is_removed_when_its_session_is_over() {
    let mut bench = Bench::new(&[("t", 2)]);
    bench.ok(&Beat::join("m1", &["t"]));
    bench.now += 10_000;
    bench.ok(&Beat::join("m2", &["t"]));
    bench.settle_all(&["m1", "m2"]);
    assert_eq!(bench.group.next_deadline(), Some(bench.now + 45_000));
    bench.now += 40_000;
    bench.settle("m2");
    bench.pass(4_999);
    assert_eq!(bench.group.member_count(), 2);
    bench.pass(1);
    assert_eq!(bench.group.member_count(), 1);
    assert_eq!(bench.group.state(), GroupState::Assigning);
    bench.settle("m2");
    assert_eq!(bench.assigned("m2"), bench.topics.all(&["t"]));
    assert_eq!(bench.refused(&Beat::new("m1", 2)).code(), ErrorCode::UnknownMemberId);
}

#[test]
fn static_member_that_is_away_is_removed_when_its_session_is_over() {
    let mut bench = Bench::new(&[("t", 2)]);
    bench.ok(&Beat::join("m1", &["t"]).instance("i"));
    bench.now += 5_000;
    bench.ok(&Beat::new("m1", -2).instance("i"));
    bench.pass(39_999);
    assert_eq!(bench.group.member_count(), 1);
    bench.pass(1);
    assert!(bench.group.is_empty());
    bench.ok(&Beat::join("m2", &["t"]).instance("i"));
}

#[test]
fn member_that_does_not_let_go_within_its_rebalance_timeout_is_removed() {
    let mut bench = Bench::new(&[("t", 2)]);
    let all = bench.topics.all(&["t"]);
    bench.ok(&Beat { rebalance_timeout_ms: 7_000, ..Beat::join("m1", &["t"]) });
    bench.ok(&Beat::join("m2", &["t"]));
    bench.ok(&Beat::new("m1", 1).owns(&all));
    assert_eq!(bench.group.next_deadline(), Some(bench.now + 7_000));
    bench.pass(6_999);
    bench.ok(&Beat::new("m1", 1).owns(&all));
    bench.pass(1);
    assert_eq!(bench.refused(&Beat::new("m1", 1)).code(), ErrorCode::UnknownMemberId);
    bench.settle("m2");
    assert_eq!(bench.assigned("m2"), all);
}

#[test]
fn member_that_lets_go_in_time_stays() {
    let mut bench = Bench::new(&[("t", 2)]);
    bench.ok(&Beat { rebalance_timeout_ms: 7_000, ..Beat::join("m1", &["t"]) });
    bench.ok(&Beat::join("m2", &["t"]));
    bench.ok(&Beat::new("m1", 1));
    bench.settle("m1");
    bench.pass(7_000);
    assert_eq!(bench.group.member_count(), 2);
    assert_eq!(bench.group.next_deadline(), Some(bench.now + 38_000));
}

#[test]
fn negative_rebalance_timeout_is_over_at_once() {
    let mut bench = Bench::new(&[("t", 2)]);
    bench.ok(&Beat { rebalance_timeout_ms: i32::MIN, ..Beat::join("m1", &["t"]) });
    bench.ok(&Beat::join("m2", &["t"]));
    bench.ok(&Beat::new("m1", 1));
    bench.pass(0);
    assert_eq!(bench.group.member_count(), 1);
}

#[test]
fn crowd_whose_time_is_up_goes_in_bounded_steps() {
    let mut bench = Bench::new(&[("t", 2)]);
    let count = super::settings::EXPIRED_PER_TICK_MAX + 10;
    for index in 0..count {
        bench.ok(&Beat::join(&format!("m{index}"), &["t"]));
    }
    let epoch = bench.group.epoch();
    bench.pass(60_000);
    assert_eq!((bench.group.member_count(), bench.group.epoch()), (10, epoch.next()));
    assert!(bench.group.next_deadline().unwrap() <= bench.now);
    bench.pass(0);
    assert!(bench.group.is_empty());
    assert_eq!(bench.tick(), []);
}

#[test]
fn loaded_group_is_the_same_and_its_members_have_a_fresh_session() {
    let mut bench = Bench::new(&[("t", 2), ("eu-1", 1)]);
    let all = bench.topics.all(&["t"]);
    bench.ok(&Beat { rebalance_timeout_ms: 9_000, ..Beat::join("m1", &["t"]) });
    bench.ok(&Beat::join("m2", &["t"]));
    bench.ok(&Beat::join_by_regex("m3", "eu-.*").instance("i"));
    bench.ok(&Beat::new("m1", 1).owns(&all));
    let state = bench.group.state.clone();
    bench.now += 1_000_000;
    bench.reload();
    assert_eq!(bench.group.state, state);
    assert_eq!(bench.group.next_deadline(), Some(bench.now + 9_000), "it must still let go");
    bench.settle_all(&["m1", "m2", "m3"]);
    assert_eq!(bench.group.next_deadline(), Some(bench.now + 45_000));
    assert_eq!(bench.group.state(), GroupState::Stable);
}

#[test]
fn tombstones_leave_nothing_of_a_group() {
    let mut bench = Bench::new(&[("t", 2), ("eu-1", 1)]);
    bench.ok(&Beat::join("m1", &["t"]).instance("i"));
    bench.ok(&Beat::join_by_regex("m2", "eu-.*"));
    bench.log.push(ConsumerRecord::PartitionMetadata { is_tombstone: false });
    bench.reload();
    for record in bench.group.tombstones() {
        bench.group.replay(&record);
    }
    let empty = ConsumerGroup::new(ConsumerSettings::default());
    assert_eq!(bench.group.state, empty.state);
}

#[test]
fn thinned_log_gives_the_same_group() {
    // Goal: what compaction keeps is enough. Method: of each key only the last record is replayed.
    let mut bench = Bench::new(&[("t", 5), ("eu-1", 2)]);
    bench.ok(&Beat::join("m1", &["t"]));
    bench.ok(&Beat::join("m2", &["t"]).instance("i"));
    bench.ok(&Beat::join_by_regex("m3", "eu-.*|t"));
    bench.settle_all(&["m1", "m2", "m3"]);
    bench.ok(&Beat::new("m1", -1));
    bench.ok(&Beat::new("m2", -2).instance("i"));
    bench.ok(&Beat::join("m4", &["t"]).instance("i"));
    bench.settle_all(&["m3", "m4"]);
    let key = |record: &ConsumerRecord| match record {
        ConsumerRecord::GroupMetadata(_) => (3, String::new()),
        ConsumerRecord::PartitionMetadata { .. } => (4, String::new()),
        ConsumerRecord::MemberMetadata { member, .. } => (5, member.to_string()),
        ConsumerRecord::TargetAssignmentMetadata(_) => (6, String::new()),
        ConsumerRecord::TargetAssignmentMember { member, .. } => (7, member.to_string()),
        ConsumerRecord::CurrentMemberAssignment { member, .. } => (8, member.to_string()),
        ConsumerRecord::RegularExpression { pattern, .. } => (16, pattern.to_string()),
    };
    let kept: Vec<ConsumerRecord> = (0..bench.log.len())
        .filter(|at| bench.log[at + 1..].iter().all(|later| key(later) != key(&bench.log[*at])))
        .map(|at| bench.log[at].clone())
        .collect();
    assert!(kept.len() < bench.log.len());
    let state = bench.group.state.clone();
    bench.log = kept;
    bench.reload();
    assert_eq!(bench.group.state, state);
}
