//! What a seed says about its run: sizes, limits, how logs age, and how many clients there are.

use std::path::PathBuf;
use std::sync::Arc;

use millstream_io::data_dir::Layout;
use millstream_io::disk_sim::SimRng;
use millstream_io::journal::RingLimits;
use millstream_io::units::{LeaderEpoch, PartitionIndex, TimestampMs, TopicId, TopicPartition};
use millstream_shards::limits::ShardLimits;
use millstream_shards::message::{Compaction, OpenPartition, PartitionConfig};
use millstream_shards::recover::RecoverConfig;

use super::model::Keys;

pub const ROOT: &str = "/data";
pub const NOW: TimestampMs = TimestampMs::new(1_700_000_000_000);

/// What the seed says about the whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub partitions: usize,
    pub ring: RingLimits,
    pub limits: ShardLimits,
    pub config: PartitionConfig,
    pub value_bytes_max: usize,
    pub workers: usize,
    pub lives: usize,
    pub steps: usize,
    /// Retention comes by now and then.
    pub retain: bool,
    /// Records have keys, and passes run now and then.
    pub compacted: bool,
    /// A fault that is ordered for a life comes within so many operations of the disk.
    pub fault_ops: u64,
    /// Transactional clients, over all partitions.
    pub clients: usize,
}

impl Plan {
    pub fn draw(rng: &mut SimRng) -> Plan {
        let direct_bytes = 4096 + rng.below(20_000);
        let file_bytes = (2 * (direct_bytes + 8192)).next_multiple_of(4096) + 4096 * rng.below(12);
        let limits = ShardLimits {
            staged_bytes_max: 20_000 + rng.below(100_000),
            unwritten_bytes_max: 20_000 + rng.below(200_000),
            tail_bytes_max: rng.below(100_000),
            direct_bytes,
            behind_bytes: 4096 + rng.below(30_000),
            checkpoint_bytes: 10_000 + rng.below(100_000),
            direct_files_max: 1 + rng.index(6),
            read_files_max: 1 + rng.index(4),
            index_bytes_max: rng.below(400),
            removed_in_one_max: rng.below(40_000),
            ..ShardLimits::default()
        };
        let config = PartitionConfig {
            segment_bytes: 32_000 + rng.below(60_000),
            timestamp_after_max_ms: u64::MAX,
            file_delete_delay_ms: if rng.chance(30) { 60_000 } else { 0 },
            ..PartitionConfig::default()
        };
        Plan {
            partitions: 1 + rng.index(5),
            ring: RingLimits { file_bytes, files_max: 2 + rng.index(4) },
            limits,
            config,
            value_bytes_max: 20 + rng.index(900),
            workers: 1 + rng.index(4),
            lives: 2 + rng.index(3),
            steps: 100 + rng.index(1200),
            retain: false,
            compacted: false,
            fault_ops: 400,
            clients: 0,
        }
    }
}

/// Makes the partitions compacted ones, of small segments.
pub fn compact(plan: &mut Plan, rng: &mut SimRng) -> Keys {
    let keys = Keys {
        count: 1 + rng.below(200),
        delete_retention_ms: if rng.chance(70) { rng.below(150) as i64 } else { 1 << 40 },
        min_lag_ms: if rng.chance(30) { rng.below(600) as i64 } else { 0 },
    };
    plan.compacted = true;
    plan.fault_ops = 1200;
    plan.steps *= 2;
    plan.lives += 1;
    plan.partitions = 1 + rng.index(2);
    plan.value_bytes_max = 20 + rng.index(100);
    plan.config.segment_bytes = 4_500 + rng.below(12_000);
    plan.config.compaction = Some(Compaction {
        min_cleanable_ppm: u32::try_from(rng.below(300_000)).expect("small"),
        min_lag_ms: keys.min_lag_ms.unsigned_abs(),
        max_lag_ms: if rng.chance(50) { 0 } else { u64::MAX },
        delete_retention_ms: keys.delete_retention_ms,
    });
    keys
}

pub fn partition_of(index: usize) -> TopicPartition {
    let topic = TopicId::from_bytes([1 + (index % 2) as u8; 16]);
    TopicPartition { topic, partition: PartitionIndex::at((index / 2) as i32) }
}

pub fn opens(plan: &Plan, epoch: i32) -> Vec<OpenPartition> {
    let open = |index| {
        let at = partition_of(index);
        OpenPartition {
            at,
            topic_name: Arc::from(format!("t{}", at.topic.as_bytes()[0])),
            epoch: LeaderEpoch::at(epoch),
            config: plan.config.clone(),
        }
    };
    (0..plan.partitions).map(open).collect()
}

pub fn recover_config(plan: &Plan) -> RecoverConfig {
    RecoverConfig {
        layout: Layout::new(PathBuf::from(ROOT)),
        shard_count: 1,
        ring: plan.ring,
        threads: 1,
        now: NOW,
    }
}
