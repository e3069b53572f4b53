use super::super::testing::{Beat, Bench};
use super::*;

fn by(member_id: &str, epoch: i32) -> Committer<'_> {
    Committer { member_id, instance_id: None, epoch, is_transactional: false, version: 9 }
}

fn refusal<T: fmt::Debug>(result: Result<T, OffsetError>) -> ErrorCode {
    let error = result.expect_err("refused");
    assert!(!error.to_string().is_empty());
    error.code()
}

#[test]
fn administrator_commits_while_the_group_is_empty_and_not_after() {
    let mut bench = Bench::new(&[("t", 1)]);
    let partition = bench.topics.partition("t", 0);
    let leave = bench.group.validate_commit(&by("", -1)).expect("leave");
    leave.check(&partition).expect("this too");
    bench.ok(&Beat::join("m1", &["t"]));
    assert_eq!(refusal(bench.group.validate_commit(&by("", -1))), ErrorCode::UnknownMemberId);
    bench.ok(&Beat::new("m1", -1));
    bench.group.validate_commit(&by("", -1)).expect("leave again");
}

#[test]
fn member_commits_in_its_epoch_and_strangers_do_not() {
    let mut bench = Bench::new(&[("t", 1)]);
    bench.ok(&Beat::join("m1", &["t"]));
    let group = &bench.group;
    group.validate_commit(&by("m1", 1)).expect("its epoch");
    assert_eq!(refusal(group.validate_commit(&by("m1", 2))), ErrorCode::StaleMemberEpoch);
    assert_eq!(refusal(group.validate_commit(&by("m1", -1))), ErrorCode::StaleMemberEpoch);
    assert_eq!(refusal(group.validate_commit(&by("m2", 1))), ErrorCode::UnknownMemberId);
    let old = Committer { version: 8, ..by("m1", 1) };
    assert_eq!(refusal(group.validate_commit(&old)), ErrorCode::UnsupportedVersion);
}

#[test]
fn member_that_is_behind_commits_for_what_it_has_had_since() {
    let mut bench = Bench::new(&[("t", 1), ("u", 1)]);
    bench.ok(&Beat::join("m1", &["t"]));
    bench.ok(&Beat::new("m1", 1).names(&["t", "u"]));
    assert_eq!(bench.member("m1").current.epoch.get(), 2);
    let leave = bench.group.validate_commit(&by("m1", 1)).expect("leave");
    leave.check(&bench.topics.partition("t", 0)).expect("had it in epoch 1");
    let of_new = leave.check(&bench.topics.partition("u", 0));
    assert_eq!(refusal(of_new), ErrorCode::StaleMemberEpoch);
    // What it is letting go of is its own still.
    bench.ok(&Beat::new("m1", 2).names(&["u"]));
    bench.ok(&Beat::join("m2", &["t"]));
    let leave = bench.group.validate_commit(&by("m1", 1)).expect("leave");
    leave.check(&bench.topics.partition("t", 0)).expect("not let go yet");
}

#[test]
fn transaction_commits_without_a_member_or_for_one() {
    let mut bench = Bench::new(&[("t", 1)]);
    bench.ok(&Beat::join("m1", &["t"]));
    let transactional = |committer| Committer { is_transactional: true, version: 3, ..committer };
    let group = &bench.group;
    group.validate_commit(&transactional(by("", -1))).expect("no member named");
    group.validate_commit(&transactional(by("m1", 1))).expect("its epoch");
    let stale = group.validate_commit(&transactional(by("m1", 5)));
    assert_eq!(refusal(stale), ErrorCode::StaleMemberEpoch);
    let named = Committer { instance_id: Some("i"), ..transactional(by("", -1)) };
    assert_eq!(refusal(group.validate_commit(&named)), ErrorCode::UnknownMemberId);
}

#[test]
fn offsets_are_fetched_by_anybody_or_by_a_member_in_its_epoch() {
    let mut bench = Bench::new(&[("t", 1)]);
    bench.ok(&Beat::join("m1", &["t"]));
    let group = &bench.group;
    group.validate_fetch(None, -1).expect("anybody");
    group.validate_fetch(Some(""), -1).expect("anybody");
    group.validate_fetch(Some("m1"), 1).expect("its epoch");
    assert_eq!(refusal(group.validate_fetch(Some("m1"), 0)), ErrorCode::StaleMemberEpoch);
    assert_eq!(refusal(group.validate_fetch(Some("m1"), -1)), ErrorCode::StaleMemberEpoch);
    assert_eq!(refusal(group.validate_fetch(Some("m2"), 1)), ErrorCode::UnknownMemberId);
    assert_eq!(refusal(group.validate_fetch(None, 1)), ErrorCode::UnknownMemberId);
}

#[test]
fn group_with_members_is_not_deleted_nor_are_offsets_of_its_topics() {
    let mut bench = Bench::new(&[("t", 1), ("eu-1", 1), ("free", 1)]);
    bench.group.validate_delete().expect("empty");
    bench.ok(&Beat::join_by_regex("m1", "eu-.*").names(&["t"]));
    assert_eq!(refusal(bench.group.validate_delete()), ErrorCode::NonEmptyGroup);
    assert!(bench.group.is_subscribed_to("t"));
    assert!(bench.group.is_subscribed_to("eu-1"));
    assert!(!bench.group.is_subscribed_to("free"));
}
