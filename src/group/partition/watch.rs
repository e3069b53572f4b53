//! What is told of groups to whoever watches the broker.

use super::super::ask::Listed;
use super::super::metrics::{
    CommitsPiece, GroupFacts, NAMES_AT_ONCE, OFFSETS_AT_ONCE, TopicCommits,
};
use super::super::offsets::Stored;
use super::group::{Group, Kind};
use super::{GroupPartition, Name, TopicsView};
use millstream_io::units::TopicId;
use std::ops::Bound;
use std::sync::Arc;

impl GroupPartition {
    /// At most [`NAMES_AT_ONCE`] names of groups, in order, those behind `last`.
    pub fn names_after(&self, last: Option<&Name>) -> Vec<Name> {
        let from = last.map_or(Bound::Unbounded, |last| Bound::Excluded(&**last));
        let behind = self.groups.range::<str, _>((from, Bound::Unbounded));
        behind.take(NAMES_AT_ONCE).map(|(name, _)| name.clone()).collect()
    }

    /// At most [`NAMES_AT_ONCE`] groups, in the order of their names, those behind `last`.
    pub fn listed_after(&self, last: Option<&Name>) -> Vec<Listed> {
        let from = last.map_or(Bound::Unbounded, |last| Bound::Excluded(&**last));
        let behind = self.groups.range::<str, _>((from, Bound::Unbounded));
        behind.take(NAMES_AT_ONCE).map(|(name, group)| group.listed(name)).collect()
    }

    /// A group without its offsets; `None` when it is gone or about to go.
    pub fn facts(&self, name: &Name) -> Option<GroupFacts> {
        let group = self.groups.get(name).filter(|group| !group.ending)?;
        let Listed { group: name, protocol_type, state, kind } = group.listed(name);
        let members = match &group.kind {
            Kind::Classic(classic) => classic.members(),
            Kind::Consumer(consumer) => consumer.member_count(),
        };
        let epoch = group.epoch();
        let commits = Vec::new();
        Some(GroupFacts { group: name, kind, protocol_type, state, members, epoch, commits })
    }

    /// At most [`OFFSETS_AT_ONCE`] offsets of a group, those behind `last`.
    pub fn commits(
        &self,
        name: &Name,
        last: Option<&(Arc<str>, i32)>,
        topics: &dyn TopicsView,
    ) -> CommitsPiece {
        self.groups.get(name).map_or_else(CommitsPiece::default, |group| piece(group, last, topics))
    }
}

fn piece(group: &Group, last: Option<&(Arc<str>, i32)>, topics: &dyn TopicsView) -> CommitsPiece {
    let none = TopicId::from_bytes([0; 16]);
    let mut piece = CommitsPiece::default();
    let mut room = OFFSETS_AT_ONCE;
    for (topic, partitions) in
        group.offsets.committed().topics_from(last.map(|(topic, _)| &**topic))
    {
        let from = match last {
            Some((name, partition)) if name == topic => partition.saturating_add(1),
            Some(_) | None => i32::MIN,
        };
        // Offsets of a topic that is gone are on their way out.
        let id = topics.by_name(topic).map(|topic| topic.id);
        let mut copied = Vec::new();
        for (partition, Stored { committed, .. }) in partitions.range(from..) {
            if room == 0 {
                break;
            }
            room -= 1;
            piece.last = Some((topic.clone(), *partition));
            if id.is_some_and(|id| committed.topic_id == none || committed.topic_id == id) {
                copied.push((*partition, committed.offset));
            }
        }
        if !copied.is_empty() {
            piece.commits.push(TopicCommits { topic: topic.clone(), partitions: copied });
        }
        if room == 0 {
            return piece;
        }
    }
    piece.last = None;
    piece
}

#[cfg(test)]
mod tests {
    use super::super::super::consumer::TopicFacts;
    use super::super::super::log_record::LogRecord;
    use super::super::super::offsets::CommittedOffset;
    use super::super::{GroupSettings, Logged, Now};
    use super::*;
    use millstream_io::units::{Offset, TimestampMs};

    /// The topics t0 to t3; their ids are their numbers, from 1 on.
    struct Topics;

    impl TopicsView for Topics {
        fn version(&self) -> u64 {
            1
        }

        fn by_name(&self, name: &str) -> Option<TopicFacts> {
            let number: u8 = name.strip_prefix('t')?.parse().ok()?;
            (number < 4).then_some(TopicFacts { id: id(number), partitions: 2000 })
        }

        fn name_of(&self, _: TopicId) -> Option<Arc<str>> {
            None
        }

        fn names_after(&self, _: Option<&str>, _: &mut dyn FnMut(&Arc<str>) -> bool) {}
    }

    fn id(number: u8) -> TopicId {
        TopicId::from_bytes([number + 1; 16])
    }

    fn with(commits: &[(&str, i32, TopicId)]) -> GroupPartition {
        let now = Now { ms: 1, wall: TimestampMs::new(1) };
        let mut groups = GroupPartition::new(GroupSettings::default(), 1 << 20);
        for (topic, partition, topic_id) in commits {
            let committed = Some(CommittedOffset {
                offset: i64::from(*partition) * 10,
                leader_epoch: -1,
                metadata: "".into(),
                committed_at: now.wall,
                expires_at: -1,
                topic_id: *topic_id,
            });
            let (group, topic) = ("g".into(), (*topic).into());
            let record =
                Box::new(LogRecord::Offset { group, topic, partition: *partition, committed });
            groups.replay(Logged::Record { record, by: None }, Offset::ZERO, now);
        }
        groups.loaded(now);
        groups
    }

    fn all(groups: &GroupPartition) -> (usize, GroupFacts) {
        let name = Name::from("g");
        let mut facts = groups.facts(&name).unwrap();
        let (mut last, mut pieces) = (None, 0);
        loop {
            let piece = groups.commits(&name, last.as_ref(), &Topics);
            let copied: usize = piece.commits.iter().map(|topic| topic.partitions.len()).sum();
            assert!(copied <= OFFSETS_AT_ONCE);
            facts.add(piece.commits);
            (last, pieces) = (piece.last, pieces + 1);
            if last.is_none() {
                return (pieces, facts);
            }
        }
    }

    #[test]
    fn pieces_together_are_all_offsets_in_order() {
        let sizes = [("t0", 1500), ("t1", 1), ("t2", 2000), ("t3", 547)];
        let numbered = sizes.iter().zip(0u8..);
        let commits: Vec<_> = numbered
            .flat_map(|((topic, count), number)| (0..*count).map(move |p| (*topic, p, id(number))))
            .collect();
        assert_eq!(commits.len() % OFFSETS_AT_ONCE, 4048 % OFFSETS_AT_ONCE);
        let (pieces, facts) = all(&with(&commits));
        assert_eq!((pieces, facts.commits_len()), (4, commits.len()));
        let found = facts.commits.iter().flat_map(|topic| {
            topic.partitions.iter().map(|(p, offset)| (&*topic.topic, *p, *offset))
        });
        let wanted = commits.iter().map(|(topic, p, _)| (*topic, *p, i64::from(*p) * 10));
        assert!(found.eq(wanted));
        assert_eq!((facts.state, facts.members, facts.epoch), ("Empty", 0, 0));
    }

    /// Goal: no step lists more names than it may, and together they list what was there all along.
    /// Method: between two pieces a group before the last name goes and others come.
    #[test]
    fn names_are_listed_in_pieces_though_groups_come_and_go() {
        let now = Now { ms: 1, wall: TimestampMs::new(1) };
        let mut groups = GroupPartition::new(GroupSettings::default(), 1 << 20);
        let all: Vec<Name> =
            (0..2 * NAMES_AT_ONCE + 1).map(|n| format!("g{n:05}").into()).collect();
        for name in &all {
            groups.group_or_new(name, now);
        }
        let first = groups.names_after(None);
        assert_eq!(first, all[..NAMES_AT_ONCE]);
        groups.groups.remove("g00000");
        groups.groups.remove(first.last().unwrap());
        groups.group_or_new(&Name::from("g00000-later"), now);
        let second = groups.names_after(first.last());
        assert_eq!(second, all[NAMES_AT_ONCE..2 * NAMES_AT_ONCE]);
        assert_eq!(groups.names_after(second.last()), all[2 * NAMES_AT_ONCE..]);
        assert!(groups.names_after(all.last()).is_empty());
    }

    #[test]
    fn offsets_of_topics_that_are_gone_or_came_anew_are_not_told() {
        let none = TopicId::from_bytes([0; 16]);
        let commits = [
            ("t0", 0, id(0)),
            ("t1", 0, id(9)),
            ("t2", 0, none),
            ("gone", 0, id(5)),
            ("gone", 1, none),
        ];
        let (_, facts) = all(&with(&commits));
        let topics: Vec<&str> = facts.commits.iter().map(|topic| &*topic.topic).collect();
        assert_eq!(topics, ["t0", "t2"]);
        assert!(with(&commits).facts(&Name::from("other")).is_none());
    }
}
