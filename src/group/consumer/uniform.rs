//! The uniform assignor: every member gets as many partitions as the others, give or take one, and
//! as few as can be change hands.

use std::collections::HashSet;
use std::sync::Arc;

use millstream_io::units::{TopicId, TopicPartition};

use super::assignor::GroupSpec;
use super::member::Partitions;

mod mixed;

pub(super) fn assign(group: &GroupSpec<'_>) -> Vec<Partitions> {
    let mut takers = group.members.iter().enumerate().filter(|(_, m)| !m.topics.is_empty());
    let Some((_, first)) = takers.next() else {
        return vec![Partitions::new(); group.members.len()];
    };
    let topics: &Arc<[TopicId]> = &first.topics;
    if takers.all(|(_, member)| member.topics == *topics) {
        assign_alike(group)
    } else {
        mixed::assign(group)
    }
}

/// All members that subscribe to anything subscribe to the same.
///
/// Shares are whole and one more for some; those who had more than the smaller share get the
/// larger one first. Then nothing is taken from anybody but what exceeds its share, and the rest
/// goes to those who are below theirs: no assignment as even moves less.
fn assign_alike(group: &GroupSpec<'_>) -> Vec<Partitions> {
    let retained = group.retained();
    let takers: Vec<usize> =
        (0..retained.len()).filter(|at| !group.members[*at].topics.is_empty()).collect();
    let total = group.all_partitions().count();
    let (share, extra) = (total / takers.len(), total % takers.len());
    let (mut first, last): (Vec<usize>, Vec<usize>) =
        takers.iter().partition(|at| retained[**at].len() > share);
    first.extend(last);
    let mut shares = vec![0; retained.len()];
    for (place, member) in first.into_iter().enumerate() {
        shares[member] = share + usize::from(place < extra);
    }

    let mut kept: HashSet<TopicPartition> = HashSet::new();
    let mut assigned: Vec<Partitions> = Vec::with_capacity(retained.len());
    for (partitions, share) in retained.iter().zip(&shares) {
        let keeps: Partitions = partitions.iter().take(*share).copied().collect();
        kept.extend(&keeps);
        assigned.push(keeps);
    }
    let mut free = group.all_partitions().filter(|partition| !kept.contains(partition));
    for (partitions, share) in assigned.iter_mut().zip(&shares) {
        let room = share - partitions.len();
        partitions.extend(free.by_ref().take(room));
    }
    assert_eq!(free.next(), None, "a partition without a member");
    assigned
}

#[cfg(test)]
#[path = "uniform_tests.rs"]
mod tests;
