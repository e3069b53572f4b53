//! The range assignor: each topic is cut into as many ranges of neighbouring partitions as it has
//! subscribers, the first ones longer by one where it does not divide.
//!
//! Members stand in one order for all topics, static ones first by instance id, so topics with
//! equal partition counts and equal subscribers are cut alike, and a static member that comes back
//! under another id finds its range again.

use millstream_io::units::TopicId;

use super::assignor::{GroupSpec, MemberSpec};
use super::member::Partitions;

pub(super) fn assign(group: &GroupSpec<'_>) -> Vec<Partitions> {
    let mut order: Vec<usize> = (0..group.members.len()).collect();
    order.sort_by_key(|index| rank(&group.members[*index]));
    let mut assigned = vec![Partitions::new(); group.members.len()];
    for topic in group.topics.keys() {
        let subscribers: Vec<usize> =
            order.iter().copied().filter(|at| group.members[*at].subscribes(*topic)).collect();
        cut(group, *topic, &subscribers, &mut assigned);
    }
    assigned
}

/// Static members first, by instance id; then the others by member id.
fn rank<'a>(member: &MemberSpec<'a>) -> (bool, &'a str) {
    match member.instance_id {
        Some(instance) => (false, instance),
        None => (true, member.id),
    }
}

fn cut(group: &GroupSpec<'_>, topic: TopicId, subscribers: &[usize], assigned: &mut [Partitions]) {
    if subscribers.is_empty() {
        return;
    }
    let mut partitions = group.partitions(topic);
    let count = group.partitions(topic).count();
    let (share, longer) = (count / subscribers.len(), count % subscribers.len());
    for (place, member) in subscribers.iter().enumerate() {
        let length = share + usize::from(place < longer);
        assigned[*member].extend(partitions.by_ref().take(length));
    }
    assert_eq!(partitions.next(), None, "a range of topic {topic} without a member");
}

#[cfg(test)]
#[path = "range_tests.rs"]
mod tests;
