//! Groups for the tests of all assignors.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

/// A group that owns what a [`GroupSpec`] borrows.
#[derive(Clone, Debug)]
pub(in crate::group::consumer) struct Group {
    pub topics: BTreeMap<TopicId, u32>,
    pub members: Vec<GroupMember>,
}

#[derive(Clone, Debug, Default)]
pub(in crate::group::consumer) struct GroupMember {
    pub id: Arc<str>,
    pub instance: Option<Arc<str>>,
    pub topics: BTreeSet<TopicId>,
    pub before: Partitions,
}

fn topic_id(number: usize) -> TopicId {
    TopicId::from_bytes([number as u8 + 1; 16])
}

impl Group {
    /// Members who all subscribe to topics of these sizes.
    pub fn alike(members: usize, sizes: &[u32]) -> Group {
        let topics: BTreeMap<TopicId, u32> =
            sizes.iter().enumerate().map(|(number, size)| (topic_id(number), *size)).collect();
        let mut group = Group { topics, members: Vec::new() };
        for number in 0..members {
            group.join(number);
        }
        group
    }

    /// A member joins that subscribes to all topics.
    pub fn join(&mut self, number: usize) {
        let topics = self.topics.keys().copied().collect();
        let id = format!("m{number:03}").into();
        self.members.push(GroupMember { id, topics, ..Default::default() });
        self.members.sort_by(|a, b| a.id.cmp(&b.id));
    }

    pub fn topic_ids(&self) -> Vec<TopicId> {
        self.topics.keys().copied().collect()
    }

    pub fn with_spec<T>(&self, assign: impl FnOnce(&GroupSpec<'_>) -> T) -> T {
        let members = self.members.iter().map(|member| MemberSpec {
            id: &member.id,
            instance_id: member.instance.as_ref(),
            topics: member.topics.iter().copied().collect::<Vec<_>>().into(),
            before: &member.before,
        });
        let subscribed: BTreeSet<TopicId> =
            self.members.iter().flat_map(|member| member.topics.iter().copied()).collect();
        let topics = self.topics.iter().filter(|(id, _)| subscribed.contains(id));
        assign(&GroupSpec {
            members: members.collect(),
            topics: topics.map(|(id, count)| (*id, *count)).collect(),
        })
    }

    /// Takes an assignment as what members have before the next; gives how many partitions went
    /// from one member to another.
    pub fn take(&mut self, assigned: Vec<Partitions>) -> usize {
        let mut had: BTreeMap<TopicPartition, usize> = BTreeMap::new();
        for (member, spec) in self.members.iter().enumerate() {
            had.extend(spec.before.iter().map(|partition| (*partition, member)));
        }
        let mut moved = 0;
        for (member, partitions) in assigned.into_iter().enumerate() {
            moved += partitions
                .iter()
                .filter(|p| had.get(*p).is_some_and(|before| *before != member))
                .count();
            self.members[member].before = partitions;
        }
        moved
    }
}

/// Every partition of every subscribed topic belongs to exactly one member, who subscribes to it.
pub(in crate::group::consumer) fn check_whole(group: &Group, assigned: &[Partitions]) {
    let mut owners = BTreeMap::new();
    for (member, partitions) in assigned.iter().enumerate() {
        for partition in partitions {
            assert!(group.members[member].topics.contains(&partition.topic), "{partition}");
            let before = owners.insert(*partition, member);
            assert_eq!(before, None, "{partition} belongs to two");
        }
    }
    let all: Partitions = group.with_spec(|spec| spec.all_partitions().collect());
    assert!(owners.keys().eq(all.iter()), "not all partitions, or others, are assigned");
}

/// Groups whose members subscribe to different topics, after some history.
pub(in crate::group::consumer) fn groups() -> impl Strategy<Value = Group> {
    let sizes = prop::collection::vec(0u32..12, 1..6);
    let wants = prop::collection::vec(prop::collection::vec(any::<bool>(), 6), 0..9);
    let had = prop::collection::vec((0usize..9, 0usize..7, 0i32..14), 0..60);
    let statics = prop::collection::vec(any::<bool>(), 9);
    (sizes, wants, had, statics).prop_map(|(sizes, wants, had, statics)| {
        let mut group = Group::alike(wants.len(), &sizes);
        for (member, wants) in wants.iter().enumerate() {
            let wanted = (0..sizes.len()).filter(|topic| wants[*topic]).map(topic_id);
            group.members[member].topics = wanted.collect();
            group.members[member].instance = statics[member].then(|| format!("i{member}").into());
        }
        for (member, topic, index) in had {
            if let Some(member) = group.members.get_mut(member) {
                let partition = PartitionIndex::at(index);
                member.before.insert(TopicPartition { topic: topic_id(topic), partition });
            }
        }
        group
    })
}

#[test]
fn assignors_are_found_by_the_names_that_members_send() {
    for assignor in [Assignor::Uniform, Assignor::Range] {
        assert_eq!(Assignor::from_name(assignor.name()), Some(assignor));
        assert_eq!(Group::alike(0, &[3]).with_spec(|spec| assignor.assign(spec)), []);
    }
    assert_eq!(Assignor::from_name("sticky"), None);
}
