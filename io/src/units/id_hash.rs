//! A hash for keys that we made ourselves.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map whose keys no stranger chooses: topic ids (random, given by this broker), partition
/// indexes, slots.
///
/// The standard library's hash resists keys that are chosen to collide, and costs several times as
/// much; a request of many partitions pays it for each of them more than once. Never use this for
/// names, client ids or anything else that comes from the wire.
pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Multiply and rotate, eight bytes at a time (the scheme of Firefox's and rustc's hash tables).
#[derive(Clone, Copy, Debug, Default)]
pub struct IdHasher(u64);

/// 2^64 divided by the golden ratio, made odd: spreads consecutive indexes over the whole range.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl IdHasher {
    #[inline]
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(SPREAD);
    }
}

impl Hasher for IdHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            let mut whole = [0; 8];
            whole.copy_from_slice(word);
            self.mix(u64::from_le_bytes(whole));
        }
        let rest = words.remainder();
        if !rest.is_empty() {
            let mut whole = [0; 8];
            whole[..rest.len()].copy_from_slice(rest);
            self.mix(u64::from_le_bytes(whole));
        }
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.mix(u64::from(value));
    }

    #[inline]
    fn write_i32(&mut self, value: i32) {
        self.mix(u64::from(value.cast_unsigned()));
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.mix(super::bytes_u64(value));
    }

    /// The high bits are the good ones, and tables look at the low ones first.
    #[inline]
    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{PartitionIndex, TopicId, TopicPartition};
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    /// Neither the low bits (the bucket) nor the high seven (the tag within it) may bunch up.
    #[test]
    fn partitions_of_a_topic_and_topics_of_a_broker_spread_over_a_table() {
        let hash = |at: TopicPartition| BuildHasherDefault::<IdHasher>::default().hash_one(at);
        let at = |topic: u8, partition: i32| {
            let topic = TopicId::from_bytes([topic; 16]);
            hash(TopicPartition { topic, partition: PartitionIndex::at(partition) })
        };
        let many_partitions: Vec<u64> = (0..4096).map(|partition| at(7, partition)).collect();
        let many_topics: Vec<u64> = (0..=255).map(|topic| at(topic, 0)).collect();
        for (name, hashes) in [("partitions", many_partitions), ("topics", many_topics)] {
            let count = hashes.len();
            let buckets: HashSet<u64> = hashes.iter().map(|hash| hash % count as u64).collect();
            // Random hashes fill 63 % of as many buckets.
            assert!(buckets.len() * 100 > count * 55, "{name}: {} of {count}", buckets.len());
            let tags: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
            assert!(tags.len() > 90, "{name}: {} of 128 tags", tags.len());
            let whole: HashSet<&u64> = hashes.iter().collect();
            assert_eq!(whole.len(), count, "{name}: whole hashes collide");
        }
    }
}
