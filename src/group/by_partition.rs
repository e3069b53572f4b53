//! Something for each partition of topics that go by their names, in order.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Values by topic name and partition. No topic without a value stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByPartition<V> {
    by_topic: BTreeMap<Arc<str>, BTreeMap<i32, V>>,
    count: usize,
}

impl<V> Default for ByPartition<V> {
    fn default() -> ByPartition<V> {
        ByPartition { by_topic: BTreeMap::new(), count: 0 }
    }
}

impl<V> ByPartition<V> {
    pub fn get(&self, topic: &str, partition: i32) -> Option<&V> {
        self.by_topic.get(topic)?.get(&partition)
    }

    pub fn get_mut(&mut self, topic: &str, partition: i32) -> Option<&mut V> {
        self.by_topic.get_mut(topic)?.get_mut(&partition)
    }

    /// Replaces the value that was there before.
    pub fn put(&mut self, topic: &str, partition: i32, value: V) {
        let partitions = match self.by_topic.get_mut(topic) {
            Some(partitions) => partitions,
            None => self.by_topic.entry(Arc::from(topic)).or_default(),
        };
        self.count += usize::from(partitions.insert(partition, value).is_none());
    }

    /// The value that is there, or a new one.
    pub fn get_or_new(&mut self, topic: &str, partition: i32, new: impl FnOnce() -> V) -> &mut V {
        let partitions = match self.by_topic.contains_key(topic) {
            true => self.by_topic.get_mut(topic),
            false => Some(self.by_topic.entry(Arc::from(topic)).or_default()),
        };
        let Some(partitions) = partitions else { panic!("topic {topic:?} was just there") };
        partitions.entry(partition).or_insert_with(|| {
            self.count += 1;
            new()
        })
    }

    pub fn remove(&mut self, topic: &str, partition: i32) -> Option<V> {
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

    /// Values, over all topics.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Topics in the order of their names, each with its partitions in order.
    pub fn topics(&self) -> impl Iterator<Item = (&Arc<str>, &BTreeMap<i32, V>)> {
        self.by_topic.iter()
    }

    /// The same from a topic on.
    pub fn topics_from(
        &self,
        from: Option<&str>,
    ) -> impl Iterator<Item = (&Arc<str>, &BTreeMap<i32, V>)> {
        let from = (from.map_or(Bound::Unbounded, Bound::Included), Bound::Unbounded);
        self.by_topic.range::<str, _>(from)
    }

    /// The partitions of one topic.
    pub fn topic(&self, topic: &str) -> Option<&BTreeMap<i32, V>> {
        self.by_topic.get(topic)
    }

    /// Everything, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, i32, &V)> {
        self.by_topic.iter().flat_map(|(topic, partitions)| {
            partitions.iter().map(move |(partition, value)| (topic, *partition, value))
        })
    }

    /// Everything, in order, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Arc<str>, i32, &mut V)> {
        self.by_topic.iter_mut().flat_map(|(topic, partitions)| {
            partitions.iter_mut().map(move |(partition, value)| (topic, *partition, value))
        })
    }

    /// Places of those for which `wanted` says so.
    pub fn select(&self, wanted: impl Fn(&str, i32, &V) -> bool) -> Vec<(Arc<str>, i32)> {
        let all = self.iter();
        all.filter(|(topic, partition, value)| wanted(topic, *partition, value))
            .map(|(topic, partition, _)| (topic.clone(), partition))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_value_counts_and_removed_topics_leave_nothing() {
        let mut values = ByPartition::default();
        values.put("b", 1, 5);
        values.put("a", 0, 1);
        values.put("b", 1, 6);
        assert_eq!((values.len(), values.get("b", 1)), (2, Some(&6)));
        *values.get_or_new("b", 1, || 0) += 1;
        *values.get_or_new("c", 4, || 8) += 1;
        let all: Vec<_> = values.iter().map(|(t, p, v)| (t.to_string(), p, *v)).collect();
        assert_eq!(all, [("a".to_owned(), 0, 1), ("b".to_owned(), 1, 7), ("c".to_owned(), 4, 9)]);
        assert_eq!(values.select(|topic, _, _| topic == "a"), [("a".into(), 0)]);
        assert_eq!(values.len(), 3);
        assert!(values.remove("a", 0).is_some());
        assert!(values.remove("a", 0).is_none());
        assert!(values.remove("b", 1).is_some() && values.remove("c", 4).is_some());
        assert!(values.is_empty() && values.topics().next().is_none());
    }
}
