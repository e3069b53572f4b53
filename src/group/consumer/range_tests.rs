use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::group::consumer::assignor::tests::{Group, check_whole, groups};

fn indexes(assigned: &Partitions, topic: TopicId) -> Vec<i32> {
    assigned.iter().filter(|p| p.topic == topic).map(|p| p.partition.get()).collect()
}

#[test]
fn first_members_get_the_longer_ranges_of_every_topic() {
    let group = Group::alike(2, &[3, 3]);
    let assigned = group.with_spec(assign);
    let topics = group.topic_ids();
    for topic in topics {
        assert_eq!(indexes(&assigned[0], topic), [0, 1]);
        assert_eq!(indexes(&assigned[1], topic), [2]);
    }
}

#[test]
fn static_members_stand_first_by_instance_and_keep_their_range_under_another_id() {
    let mut group = Group::alike(3, &[3]);
    group.members[2].instance = Some("a".into());
    group.members[1].instance = Some("b".into());
    let topic = group.topic_ids()[0];
    let assigned = group.with_spec(assign);
    assert_eq!(indexes(&assigned[2], topic), [0]);
    assert_eq!(indexes(&assigned[1], topic), [1]);
    assert_eq!(indexes(&assigned[0], topic), [2]);
}

#[test]
fn more_members_than_partitions_leave_the_last_without() {
    let group = Group::alike(3, &[2]);
    let assigned = group.with_spec(assign);
    assert_eq!(assigned.iter().map(Partitions::len).collect::<Vec<_>>(), [1, 1, 0]);
}

proptest! {
    #[test]
    fn every_partition_has_one_subscriber_and_every_share_is_a_range(group in groups()) {
        let assigned = group.with_spec(assign);
        check_whole(&group, &assigned);
        for topic in group.topic_ids() {
            let mut sizes = Vec::new();
            for (member, partitions) in assigned.iter().enumerate() {
                let share = indexes(partitions, topic);
                let is_range = share.windows(2).all(|pair| pair[1] == pair[0] + 1);
                prop_assert!(is_range, "{share:?} is no range");
                if group.members[member].topics.contains(&topic) {
                    sizes.push(share.len());
                }
            }
            let (least, most) = (sizes.iter().min(), sizes.iter().max());
            if let (Some(least), Some(most)) = (least, most) {
                prop_assert!(most - least <= 1, "{sizes:?}");
            }
        }
    }

    /// Topics of one size with the same subscribers are cut alike.
    #[test]
    fn topics_of_one_size_are_partitioned_together(members in 1usize..8, count in 0u32..20) {
        let group = Group::alike(members, &[count, count, count]);
        let assigned = group.with_spec(assign);
        for partitions in &assigned {
            let mut by_topic: BTreeMap<TopicId, Vec<i32>> = BTreeMap::new();
            for topic in group.topic_ids() {
                by_topic.insert(topic, indexes(partitions, topic));
            }
            let shares: Vec<&Vec<i32>> = by_topic.values().collect();
            prop_assert!(shares.windows(2).all(|pair| pair[0] == pair[1]));
        }
    }
}
