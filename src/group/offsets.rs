//! The offsets that one group has committed.

use millstream_io::units::{TimestampMs, TopicId};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// One committed offset. Durable before anybody sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The next record that the group wants.
    pub offset: i64,
    /// Epoch of the last record it has seen; -1 for none.
    pub leader_epoch: i32,
    /// The client's own words, given back unchanged.
    pub metadata: Box<str>,
    /// Wall time of the commit.
    pub committed_at: TimestampMs,
    /// When it expires, from clients that said so (OffsetCommit 2 to 4); -1 for the broker's rule.
    pub expires_at: i64,
    /// The topic's id when it was committed; zero in records that other brokers wrote.
    pub topic_id: TopicId,
}

/// Offsets of a group, by topic name and partition. Lives on the group's core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupOffsets {
    by_topic: BTreeMap<Arc<str>, BTreeMap<i32, CommittedOffset>>,
    count: usize,
}

impl GroupOffsets {
    pub fn get(&self, topic: &str, partition: i32) -> Option<&CommittedOffset> {
        self.by_topic.get(topic)?.get(&partition)
    }

    /// Replaces what was committed before.
    pub fn put(&mut self, topic: &str, partition: i32, committed: CommittedOffset) {
        let partitions = match self.by_topic.get_mut(topic) {
            Some(partitions) => partitions,
            None => self.by_topic.entry(Arc::from(topic)).or_default(),
        };
        self.count += usize::from(partitions.insert(partition, committed).is_none());
    }

    pub fn remove(&mut self, topic: &str, partition: i32) -> Option<CommittedOffset> {
        let partitions = self.by_topic.get_mut(topic)?;
        let removed = partitions.remove(&partition);
        if partitions.is_empty() {
            self.by_topic.remove(topic);
        }
        self.count -= usize::from(removed.is_some());
        removed
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Committed offsets, over all topics.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Topics in the order of their names, each with its partitions in order.
    pub fn topics(&self) -> impl Iterator<Item = (&Arc<str>, &BTreeMap<i32, CommittedOffset>)> {
        self.by_topic.iter()
    }

    /// The same from a topic on.
    pub fn topics_from(
        &self,
        from: Option<&str>,
    ) -> impl Iterator<Item = (&Arc<str>, &BTreeMap<i32, CommittedOffset>)> {
        let from = (from.map_or(Bound::Unbounded, Bound::Included), Bound::Unbounded);
        self.by_topic.range::<str, _>(from)
    }

    /// The partitions of one topic.
    pub fn topic(&self, topic: &str) -> Option<&BTreeMap<i32, CommittedOffset>> {
        self.by_topic.get(topic)
    }

    /// Everything, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, i32, &CommittedOffset)> {
        self.by_topic.iter().flat_map(|(topic, partitions)| {
            partitions.iter().map(move |(partition, committed)| (topic, *partition, committed))
        })
    }

    /// Those for which `gone` says so.
    pub fn select(
        &self,
        gone: impl Fn(&str, i32, &CommittedOffset) -> bool,
    ) -> Vec<(Arc<str>, i32)> {
        let all = self.iter();
        all.filter(|(topic, partition, committed)| gone(topic, *partition, committed))
            .map(|(topic, partition, _)| (topic.clone(), partition))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: i64) -> CommittedOffset {
        CommittedOffset {
            offset,
            leader_epoch: -1,
            metadata: "".into(),
            committed_at: TimestampMs::new(1),
            expires_at: -1,
            topic_id: TopicId::from_bytes([0; 16]),
        }
    }

    #[test]
    fn last_commit_counts_and_removed_topics_leave_nothing() {
        let mut offsets = GroupOffsets::default();
        offsets.put("b", 1, at(5));
        offsets.put("a", 0, at(1));
        offsets.put("b", 1, at(6));
        assert_eq!((offsets.len(), offsets.get("b", 1).map(|c| c.offset)), (2, Some(6)));
        let all: Vec<_> = offsets.iter().map(|(t, p, c)| (t.to_string(), p, c.offset)).collect();
        assert_eq!(all, [("a".to_owned(), 0, 1), ("b".to_owned(), 1, 6)]);
        assert_eq!(offsets.select(|topic, _, _| topic == "a"), [("a".into(), 0)]);
        assert!(offsets.remove("a", 0).is_some());
        assert!(offsets.remove("a", 0).is_none());
        assert!(offsets.remove("b", 1).is_some());
        assert!(offsets.is_empty() && offsets.topics().next().is_none());
    }
}
