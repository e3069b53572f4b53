use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::group::consumer::assignor::tests::{Group, check_whole, groups};

/// Members of an assignment who could give what they have, over any number of others, to one that
/// has two fewer.
fn improvable(group: &Group, assigned: &[Partitions]) -> Option<(usize, usize)> {
    let members = 0..group.members.len();
    members.clone().find_map(|from| {
        let mut reached = BTreeSet::from([from]);
        loop {
            let gives = |member: &usize| assigned[*member].iter().map(|p| p.topic);
            let topics: BTreeSet<TopicId> = reached.iter().flat_map(gives).collect();
            let takes = |m: &usize| topics.iter().any(|t| group.members[*m].topics.contains(t));
            let before = reached.len();
            reached.extend(members.clone().filter(takes));
            if reached.len() == before {
                break;
            }
        }
        let few = |to: &usize| assigned[*to].len() + 2 <= assigned[from].len();
        reached.into_iter().find(few).map(|to| (from, to))
    })
}

#[test]
fn chain_evens_out_what_no_single_move_can() {
    // The first two share a topic, and the last two another.
    let mut group = Group::alike(3, &[2, 1]);
    let topics = group.topic_ids();
    group.members[0].topics.remove(&topics[1]);
    group.members[2].topics.remove(&topics[0]);
    let all: Vec<TopicPartition> = group.with_spec(|spec| spec.all_partitions().collect());
    group.members[0].before = [all[0], all[1]].into();
    group.members[1].before = [all[2]].into();
    let assigned = group.with_spec(assign);
    assert_eq!(assigned.iter().map(Partitions::len).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn topic_with_one_subscriber_is_weighed_against_its_other_topics() {
    let mut group = Group::alike(2, &[4, 4]);
    let topics = group.topic_ids();
    group.members[1].topics.remove(&topics[1]);
    let assigned = group.with_spec(assign);
    check_whole(&group, &assigned);
    assert_eq!(assigned.iter().map(Partitions::len).collect::<Vec<_>>(), [4, 4]);
}

#[test]
fn large_group_is_assigned_in_bounded_time() {
    let mut group = Group::alike(400, &[200; 40]);
    let topics = group.topic_ids();
    for (member, spec) in group.members.iter_mut().enumerate() {
        spec.topics.remove(&topics[member % topics.len()]);
    }
    let all: Partitions = group.with_spec(|spec| spec.all_partitions().collect());
    group.members[0].before = all;
    let begin = Instant::now();
    let assigned = group.with_spec(assign);
    assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
    check_whole(&group, &assigned);
    assert_eq!(improvable(&group, &assigned), None);
}

proptest! {
    #[test]
    fn no_chain_of_moves_makes_it_more_even(group in groups()) {
        let assigned = group.with_spec(assign);
        check_whole(&group, &assigned);
        prop_assert_eq!(improvable(&group, &assigned), None);
    }

    #[test]
    fn assigning_the_same_again_moves_nothing(group in groups()) {
        let mut group = group;
        let first = group.with_spec(assign);
        group.take(first.clone());
        prop_assert_eq!(group.with_spec(assign), first);
    }
}
