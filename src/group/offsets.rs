//! The offsets of one group: those that it has committed, and those that transactions have not
//! ended yet (KIP-98, KIP-447).

use super::by_partition::ByPartition;
use millstream_io::units::{Offset, ProducerId, TimestampMs, TopicId};
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

/// A commit with the place of its record in the log, by which it is told which of two is newer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub committed: CommittedOffset,
    pub at: Offset,
}

/// Offsets of a group, by topic name and partition. Lives on the group's core.
///
/// Of a partition's commits the one counts that stands last in the log, whether it was made in a
/// transaction or not: one of a transaction that ends later than a plain commit behind it is skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupOffsets {
    committed: ByPartition<Stored>,
    /// By each producer the last, in no order. Never an empty list.
    pending: ByPartition<Vec<(ProducerId, Stored)>>,
}

impl GroupOffsets {
    /// What is committed, without what is pending.
    pub fn committed(&self) -> &ByPartition<Stored> {
        &self.committed
    }

    /// Takes a commit outside of a transaction. It replaces what was committed before.
    pub fn put(&mut self, topic: &str, partition: i32, stored: Stored) {
        self.committed.put(topic, partition, stored);
    }

    /// Takes a commit in a transaction, which counts once that is committed.
    pub fn put_pending(&mut self, topic: &str, partition: i32, by: ProducerId, stored: Stored) {
        let pending = self.pending.get_or_new(topic, partition, Vec::new);
        match pending.iter_mut().find(|(producer, _)| *producer == by) {
            Some((_, before)) => *before = stored,
            None => pending.push((by, stored)),
        }
    }

    /// The transaction of `by` is committed.
    pub fn commit(&mut self, topic: &str, partition: i32, by: ProducerId) {
        let Some(stored) = self.take(topic, partition, by) else { return };
        let newer = self.committed.get(topic, partition).is_none_or(|now| now.at < stored.at);
        if newer {
            self.committed.put(topic, partition, stored);
        }
    }

    /// The transaction of `by` is aborted.
    pub fn abort(&mut self, topic: &str, partition: i32, by: ProducerId) {
        drop(self.take(topic, partition, by));
    }

    fn take(&mut self, topic: &str, partition: i32, by: ProducerId) -> Option<Stored> {
        let pending = self.pending.get_mut(topic, partition)?;
        let place = pending.iter().position(|(producer, _)| *producer == by)?;
        let (_, stored) = pending.swap_remove(place);
        if pending.is_empty() {
            self.pending.remove(topic, partition);
        }
        Some(stored)
    }

    /// Forgets what is committed and what is pending. True when there was something.
    pub fn remove(&mut self, topic: &str, partition: i32) -> bool {
        let committed = self.committed.remove(topic, partition).is_some();
        self.pending.remove(topic, partition).is_some() || committed
    }

    /// Whether something is committed or pending.
    pub fn has(&self, topic: &str, partition: i32) -> bool {
        self.committed.get(topic, partition).is_some() || self.is_pending(topic, partition)
    }

    pub fn is_pending(&self, topic: &str, partition: i32) -> bool {
        self.pending.get(topic, partition).is_some()
    }

    /// Whether nothing is committed and nothing pending.
    pub fn is_empty(&self) -> bool {
        self.committed.is_empty() && self.pending.is_empty()
    }

    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Places of committed and pending offsets for one of which `wanted` says so, each once.
    pub fn select(&self, wanted: impl Fn(&str, &CommittedOffset) -> bool) -> Vec<(Arc<str>, i32)> {
        let mut places = self.committed.select(|topic, _, stored| wanted(topic, &stored.committed));
        let any = |topic: &str, _, pending: &Vec<(ProducerId, Stored)>| {
            pending.iter().any(|(_, stored)| wanted(topic, &stored.committed))
        };
        places.extend(self.pending.select(any));
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Committed offsets that may be written again at the end of the log. Not those that a pending
    /// one is to replace: written behind it they would pass for newer.
    pub fn to_write_again(&self) -> impl Iterator<Item = (&Arc<str>, i32, &CommittedOffset)> {
        let all = self.committed.iter();
        all.filter(|(topic, partition, stored)| !self.is_to_be_replaced(topic, *partition, stored))
            .map(|(topic, partition, stored)| (topic, partition, &stored.committed))
    }

    /// They were, from `at` on.
    pub fn written_again(&mut self, at: Offset) {
        for (topic, partition, stored) in self.committed.iter_mut() {
            if !is_newer(self.pending.get(topic, partition), stored.at) {
                stored.at = at;
            }
        }
    }

    /// The first place in the log of those that may not be written again.
    pub fn first_to_keep(&self) -> Option<Offset> {
        let pending = self.pending.iter();
        pending
            .filter_map(|(topic, partition, _)| {
                let stored = self.committed.get(topic, partition)?;
                self.is_to_be_replaced(topic, partition, stored).then_some(stored.at)
            })
            .min()
    }

    fn is_to_be_replaced(&self, topic: &str, partition: i32, stored: &Stored) -> bool {
        is_newer(self.pending.get(topic, partition), stored.at)
    }
}

fn is_newer(pending: Option<&Vec<(ProducerId, Stored)>>, at: Offset) -> bool {
    pending.into_iter().flatten().any(|(_, pending)| pending.at > at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(offset: i64, at: i64) -> Stored {
        let committed = CommittedOffset {
            offset,
            leader_epoch: -1,
            metadata: "".into(),
            committed_at: TimestampMs::new(1),
            expires_at: -1,
            topic_id: TopicId::from_bytes([0; 16]),
        };
        Stored { committed, at: Offset::at(at) }
    }

    fn by(producer: i64) -> ProducerId {
        ProducerId::new(producer).unwrap()
    }

    fn value(offsets: &GroupOffsets) -> Option<i64> {
        offsets.committed().get("t", 0).map(|stored| stored.committed.offset)
    }

    #[test]
    fn place_in_the_log_decides_not_the_order_of_the_ends() {
        let mut offsets = GroupOffsets::default();
        offsets.put("t", 0, stored(1, 10));
        offsets.put_pending("t", 0, by(1), stored(2, 20));
        offsets.put_pending("t", 0, by(2), stored(3, 30));
        offsets.put_pending("t", 0, by(1), stored(4, 40));
        offsets.put_pending("t", 0, by(3), stored(5, 5));
        offsets.commit("t", 0, by(1));
        assert_eq!(value(&offsets), Some(4), "of one transaction the last counts");
        offsets.commit("t", 0, by(2));
        assert_eq!(value(&offsets), Some(4));
        assert!(offsets.is_pending("t", 0));
        offsets.commit("t", 0, by(3));
        assert_eq!((value(&offsets), offsets.has_pending()), (Some(4), false));
        offsets.commit("t", 0, by(3));
        offsets.put_pending("t", 0, by(1), stored(6, 60));
        offsets.abort("t", 0, by(1));
        assert_eq!((value(&offsets), offsets.has_pending()), (Some(4), false));
        offsets.put_pending("t", 0, by(1), stored(7, 70));
        assert!(offsets.remove("t", 0) && offsets.is_empty());
        assert!(!offsets.remove("t", 0));
        offsets.commit("t", 0, by(1));
        assert!(offsets.is_empty());
    }

    #[test]
    fn only_what_no_pending_offset_is_to_replace_is_written_again() {
        let mut offsets = GroupOffsets::default();
        for (partition, at) in [(0, 10), (1, 11), (2, 30)] {
            offsets.put("t", partition, stored(at, at));
        }
        for partition in [1, 2, 3] {
            offsets.put_pending("t", partition, by(1), stored(20, 20));
        }
        let again: Vec<i32> = offsets.to_write_again().map(|(_, p, _)| p).collect();
        assert_eq!(again, [0, 2]);
        assert_eq!(offsets.first_to_keep(), Some(Offset::at(11)));
        offsets.written_again(Offset::at(50));
        let places: Vec<i64> = offsets.committed().iter().map(|(_, _, s)| s.at.get()).collect();
        assert_eq!(places, [50, 11, 50]);
        offsets.commit("t", 1, by(1));
        assert_eq!((offsets.first_to_keep(), offsets.to_write_again().count()), (None, 3));
    }
}
