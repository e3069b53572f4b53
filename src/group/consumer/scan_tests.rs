use super::super::member::Partitions;
use super::super::settings::{PATTERN_REFRESH_INTERVAL_MS, PATTERN_UNITS_PER_CALL};
use super::super::testing::{Beat, Bench};
use super::super::{GroupState, HeartbeatError};
use crate::wire::ErrorCode;

#[test]
fn member_that_joins_by_pattern_gets_what_matches_at_once() {
    let mut bench = Bench::new(&[("eu-1", 2), ("eu-2", 1), ("us-1", 4)]);
    let answer = bench.ok(&Beat::join_by_regex("m1", "eu-.*"));
    assert_eq!(answer.assignment, Some(bench.topics.all(&["eu-1", "eu-2"])));
    assert_eq!(bench.group.state(), GroupState::Stable);
    // The same pattern again is resolved already.
    bench.ok(&Beat::join_by_regex("m2", "eu-.*"));
    bench.settle_all(&["m1", "m2"]);
    assert_eq!(bench.assigned("m1").len() + bench.assigned("m2").len(), 3);
}

#[test]
fn names_and_pattern_of_a_member_count_together() {
    let mut bench = Bench::new(&[("eu-1", 2), ("us-1", 4)]);
    let beat = Beat::join_by_regex("m1", "eu-.*").names(&["us-1"]);
    assert_eq!(bench.ok(&beat).assignment, Some(bench.topics.all(&["eu-1", "us-1"])));
}

#[test]
fn new_topics_are_found_at_most_every_ten_seconds_and_deleted_ones_missed_at_once() {
    let mut bench = Bench::new(&[("eu-1", 1)]);
    bench.ok(&Beat::join_by_regex("m1", "eu-.*"));
    bench.topics.create("eu-2", 1);
    bench.now += PATTERN_REFRESH_INTERVAL_MS - 1;
    bench.settle("m1");
    assert_eq!(bench.assigned("m1"), bench.topics.all(&["eu-1"]));
    bench.now += 1;
    bench.settle("m1");
    assert_eq!(bench.assigned("m1"), bench.topics.all(&["eu-1", "eu-2"]));
    bench.topics.delete("eu-1");
    bench.settle("m1");
    assert_eq!(bench.assigned("m1"), bench.topics.all(&["eu-2"]));
}

#[test]
fn pattern_nobody_subscribes_to_any_more_is_forgotten() {
    let mut bench = Bench::new(&[("eu-1", 1), ("us-1", 1)]);
    bench.ok(&Beat::join_by_regex("m1", "eu-.*"));
    bench.ok(&Beat::join_by_regex("m2", "us-.*"));
    let patterns = |bench: &Bench| -> Vec<String> {
        bench.group.state.patterns.keys().map(|pattern| pattern.to_string()).collect()
    };
    assert_eq!(patterns(&bench), ["eu-.*", "us-.*"]);
    bench.settle("m1");
    let epoch = bench.member("m1").current.epoch.get();
    bench.ok(&Beat { regex: Some("us-.*".to_owned()), ..Beat::new("m1", epoch) });
    assert_eq!(patterns(&bench), ["us-.*"]);
    bench.ok(&Beat::new("m1", -1));
    assert_eq!(patterns(&bench), ["us-.*"]);
    bench.ok(&Beat::new("m2", -1));
    assert!(patterns(&bench).is_empty());
}

#[test]
fn invalid_pattern_is_refused_and_changes_nothing() {
    let mut bench = Bench::new(&[("t", 1)]);
    let error = bench.refused(&Beat::join_by_regex("m1", "("));
    assert_eq!(error.code(), ErrorCode::InvalidRegularExpression);
    assert!(matches!(error, HeartbeatError::Pattern { .. }));
    bench.ok(&Beat::join("m1", &["t"]));
    let changed = Beat { regex: Some("a{".repeat(3000)), ..Beat::new("m1", 1) };
    assert_eq!(bench.refused(&changed).code(), ErrorCode::InvalidRegularExpression);
}

#[test]
fn many_topics_are_matched_piece_by_piece_and_nothing_is_missed() {
    let count = PATTERN_UNITS_PER_CALL as usize * 3;
    let names: Vec<String> = (0..count).map(|index| format!("t-{index:05}")).collect();
    let topics: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let mut bench = Bench::new(&topics);
    let answer = bench.ok(&Beat::join_by_regex("m1", "t-.*[02468]"));
    assert_eq!(answer.assignment, Some(Partitions::new()), "not all were looked at yet");
    // A second pattern that comes meanwhile is taken after the first.
    bench.ok(&Beat::join_by_regex("m2", "t-.*[13579]"));
    let mut ticks = 0;
    while bench.group.next_deadline() == Some(0) {
        bench.tick();
        ticks += 1;
        assert!(ticks < 20, "it never ends");
    }
    assert!(ticks > 3, "{ticks} ticks");
    bench.settle_all(&["m1", "m2"]);
    assert_eq!((bench.assigned("m1").len(), bench.assigned("m2").len()), (count / 2, count / 2));
}

#[test]
fn loaded_group_matches_its_patterns_again() {
    let mut bench = Bench::new(&[("eu-1", 1)]);
    bench.ok(&Beat::join_by_regex("m1", "eu-.*"));
    bench.topics.create("eu-2", 1);
    bench.reload();
    bench.settle("m1");
    assert_eq!(bench.assigned("m1"), bench.topics.all(&["eu-1", "eu-2"]));
}
