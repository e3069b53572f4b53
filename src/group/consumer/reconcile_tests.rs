use super::*;
use crate::group::consumer::testing::Topics;

fn held(partitions: &Partitions, epoch: i32) -> HeldPartitions {
    partitions.iter().map(|partition| (*partition, Epoch::new(epoch))).collect()
}

fn set(topics: &Topics, indexes: &[i32]) -> Partitions {
    indexes.iter().map(|index| topics.partition("t", *index)).collect()
}

#[test]
fn member_keeps_the_epoch_at_which_each_partition_came() {
    let topics = Topics::new(&[("t", 4)]);
    let current = CurrentAssignment {
        epoch: Epoch::new(3),
        assigned: held(&set(&topics, &[0]), 2),
        ..Default::default()
    };
    let target = set(&topics, &[0, 1]);
    let step = Step {
        current: &current,
        target_epoch: Epoch::new(5),
        target: &target,
        owned: None,
        is_free: |_: &TopicPartition| true,
    };
    let next = step.next();
    assert_eq!((next.epoch.get(), next.previous_epoch.get()), (5, 3));
    let epochs: Vec<i32> = next.assigned.values().map(|epoch| epoch.get()).collect();
    assert_eq!(epochs, [2, 5]);
}

#[test]
fn member_that_let_go_goes_on_to_a_newer_target_by_letting_go_again() {
    let topics = Topics::new(&[("t", 4)]);
    let current = CurrentAssignment {
        epoch: Epoch::new(3),
        previous_epoch: Epoch::new(2),
        state: MemberState::UnrevokedPartitions,
        assigned: held(&set(&topics, &[0, 1]), 1),
        revoking: held(&set(&topics, &[2]), 1),
    };
    let (target, owned) = (set(&topics, &[0, 3]), set(&topics, &[0, 1]));
    let step = Step {
        current: &current,
        target_epoch: Epoch::new(7),
        target: &target,
        owned: Some(&owned),
        is_free: |_: &TopicPartition| true,
    };
    let next = step.next();
    assert_eq!(next.state, MemberState::UnrevokedPartitions);
    assert_eq!((next.epoch.get(), next.previous_epoch.get()), (4, 3));
    assert_eq!(next.revoking, held(&set(&topics, &[1]), 1));
    let owned = set(&topics, &[0]);
    let next = Step {
        current: &next,
        target_epoch: Epoch::new(7),
        target: &target,
        owned: Some(&owned),
        is_free: |_: &TopicPartition| true,
    }
    .next();
    assert_eq!((next.state, next.epoch.get()), (MemberState::Stable, 7));
    assert!(next.revoking.is_empty());
}

#[test]
fn member_that_waits_gets_what_is_free_and_waits_for_the_rest() {
    let topics = Topics::new(&[("t", 3)]);
    let mut current = CurrentAssignment::default();
    let target = set(&topics, &[0, 1, 2]);
    for (free, state) in [
        (set(&topics, &[1]), MemberState::UnreleasedPartitions),
        (set(&topics, &[0, 1]), MemberState::UnreleasedPartitions),
        (set(&topics, &[0, 1, 2]), MemberState::Stable),
    ] {
        current = Step {
            current: &current,
            target_epoch: Epoch::new(1),
            target: &target,
            owned: None,
            is_free: |partition: &TopicPartition| free.contains(partition),
        }
        .next();
        assert_eq!((current.state, current.epoch.get()), (state, 1));
        assert!(current.assigned.keys().eq(free.iter()));
    }
}
