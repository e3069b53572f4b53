//! Which core owns a partition.
//!
//! A pure function of (topic id, partition index, shard count), so that every core, and every start
//! with the same number of cores, agrees without asking. A start with another number of cores
//! places the partitions anew; recovery replays the journals of all old cores first.

use std::num::NonZeroU16;

use millstream_io::units::{ShardId, TopicPartition};

/// The shard that owns `partition` among `shards` of them.
///
/// The hash of the topic id chooses where the topic starts, and its partitions follow one shard
/// after the other: a topic with as many partitions as there are cores loads every core alike.
/// The result never changes for the same arguments (golden-tested); it runs on any core.
pub fn owner(at: TopicPartition, shards: NonZeroU16) -> ShardId {
    if shards == NonZeroU16::MIN {
        return ShardId::new(0);
    }
    let start = fnv1a(at.topic.as_bytes());
    let step = u64::from(at.partition.get().unsigned_abs());
    let place = start.wrapping_add(step) % u64::from(shards.get());
    match u16::try_from(place) {
        Ok(shard) => ShardId::new(shard),
        Err(_) => unreachable!("{place} was taken modulo a u16"),
    }
}

/// A number for something of a partition that is spread evenly over partitions and over `salt`.
pub fn spread(at: TopicPartition, salt: u64) -> u64 {
    let mut bytes = [0; 16 + 4 + 8];
    bytes[..16].copy_from_slice(at.topic.as_bytes());
    bytes[16..20].copy_from_slice(&at.partition.get().to_be_bytes());
    bytes[20..].copy_from_slice(&salt.to_be_bytes());
    fnv1a(&bytes)
}

/// FNV-1a over 64 bits with a final mix (Fowler, Noll, Vo; the mix is the finaliser of splitmix64),
/// so that ids which differ in one bit start on unrelated shards.
fn fnv1a(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_io::units::{PartitionIndex, TopicId};

    fn at(topic: u128, partition: i32) -> TopicPartition {
        TopicPartition {
            topic: TopicId::from_bytes(topic.to_be_bytes()),
            partition: PartitionIndex::at(partition),
        }
    }

    fn count(shards: u16) -> NonZeroU16 {
        NonZeroU16::new(shards).expect("not zero")
    }

    /// Golden values, worked out by another program from the definition: a partition that moved between cores by an edit here would be recovered on
    /// one core and looked for on another.
    #[test]
    fn placement_never_changes() {
        let golden = |topic, partition| {
            [1, 2, 3, 8, 64].map(|shards| owner(at(topic, partition), count(shards)).get())
        };
        assert_eq!(golden(0, 0), GOLDEN[0]);
        assert_eq!(golden(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef, 0), GOLDEN[1]);
        assert_eq!(golden(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef, 1), GOLDEN[2]);
        assert_eq!(golden(u128::MAX, i32::MAX), GOLDEN[3]);
    }

    const GOLDEN: [[u16; 5]; 4] =
        [[0, 1, 2, 7, 63], [0, 1, 0, 3, 35], [0, 0, 1, 4, 36], [0, 0, 1, 0, 48]];

    /// Goal: no core is left idle by a topic that could use it. Method: count partitions a core.
    #[test]
    fn partitions_of_a_topic_spread_evenly() {
        for shards in [1, 2, 3, 7, 16] {
            let mut held = vec![0; usize::from(shards)];
            for partition in 0..i32::from(shards) * 5 {
                held[owner(at(77, partition), count(shards)).to_usize()] += 1;
            }
            assert!(held.iter().all(|n| *n == 5), "{shards} shards: {held:?}");
        }
    }

    /// Goal: topics of one partition do not crowd on few cores.
    #[test]
    fn single_partition_topics_spread_over_cores() {
        let mut held = [0u32; 8];
        for topic in 0..8_000u128 {
            held[owner(at(topic, 0), count(8)).to_usize()] += 1;
        }
        assert!(held.iter().all(|n| (800..1200).contains(n)), "{held:?}");
    }
}
