use proptest::prelude::*;

use super::*;
use crate::group::consumer::assignor::tests::{Group, check_whole, groups};

fn sizes(assigned: &[Partitions]) -> Vec<usize> {
    assigned.iter().map(Partitions::len).collect()
}

fn check_even(assigned: &[Partitions]) {
    let sizes = sizes(assigned);
    let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
    assert!(most - least <= 1, "{sizes:?}");
}

#[test]
fn members_without_a_subscription_get_nothing_and_the_others_even_shares() {
    let mut group = Group::alike(3, &[4, 4]);
    group.members[1].topics.clear();
    assert_eq!(sizes(&group.with_spec(assign)), [4, 0, 4]);
}

#[test]
fn deleted_and_shrunk_topics_are_let_go() {
    let mut group = Group::alike(2, &[4, 4]);
    let assigned = group.with_spec(assign);
    group.take(assigned);
    let topics = group.topic_ids();
    group.topics.remove(&topics[1]);
    group.topics.insert(topics[0], 2);
    group.members.iter_mut().for_each(|member| {
        member.topics.remove(&topics[1]);
    });
    let assigned = group.with_spec(assign);
    check_whole(&group, &assigned);
    assert_eq!(sizes(&assigned), [1, 1]);
}

#[test]
fn partition_that_a_log_gives_to_two_members_goes_to_one() {
    let mut group = Group::alike(2, &[4]);
    let all: Partitions = group.with_spec(|spec| spec.all_partitions().collect());
    group.members.iter_mut().for_each(|member| member.before = all.clone());
    let assigned = group.with_spec(assign);
    check_whole(&group, &assigned);
    check_even(&assigned);
}

#[test]
fn assigning_the_same_again_moves_nothing() {
    let mut group = Group::alike(5, &[7, 3, 11]);
    let first = group.with_spec(assign);
    group.take(first.clone());
    assert_eq!(group.with_spec(assign), first);
}

proptest! {
    #[test]
    fn every_partition_has_exactly_one_subscriber(group in groups()) {
        check_whole(&group, &group.with_spec(assign));
    }

    #[test]
    fn equal_subscribers_have_equal_numbers_give_or_take_one(
        members in 1usize..12,
        counts in prop::collection::vec(0u32..20, 1..5),
    ) {
        let group = Group::alike(members, &counts);
        let assigned = group.with_spec(assign);
        check_whole(&group, &assigned);
        check_even(&assigned);
    }

    /// A member that joins gets the whole part of its share and nothing else moves; of one that
    /// leaves only its own partitions move. No even assignment moves less.
    #[test]
    fn joining_and_leaving_move_as_little_as_can_be(
        counts in prop::collection::vec(0u32..20, 1..5),
        steps in prop::collection::vec((any::<bool>(), 0usize..100), 1..25),
    ) {
        let mut group = Group::alike(1, &counts);
        let assigned = group.with_spec(assign);
        group.take(assigned);
        let total: usize = counts.iter().map(|count| *count as usize).sum();
        for (step, (joins, which)) in steps.into_iter().enumerate() {
            let expected = if joins || group.members.len() == 1 {
                group.join((which + 1) * 10 + step % 10);
                total / group.members.len()
            } else {
                let gone = which % group.members.len();
                group.members.remove(gone);
                0
            };
            let assigned = group.with_spec(assign);
            check_whole(&group, &assigned);
            check_even(&assigned);
            prop_assert_eq!(group.take(assigned), expected, "moved from member to member");
        }
    }

    #[test]
    fn growing_topics_move_no_more_than_evenness_asks(
        members in 1usize..10, before in 0u32..30, more in 0u32..30,
    ) {
        let mut group = Group::alike(members, &[before]);
        let assigned = group.with_spec(assign);
        group.take(assigned);
        let topic = group.topic_ids()[0];
        group.topics.insert(topic, before + more);
        let assigned = group.with_spec(assign);
        check_whole(&group, &assigned);
        check_even(&assigned);
        prop_assert_eq!(group.take(assigned), 0);
    }
}
