//! Compaction of a shard: which partition is next, and what its pass may do.

use millstream_io::disk::{DiskError, DiskOp};
use millstream_io::indexes::Indexes;
use millstream_io::segment::SegmentMeta;
use millstream_io::units::{Offset, SegmentId, TimestampMs, bytes_u64};

use crate::cleaning::pass::{PassCounts, PassPlan};
use crate::partition_log::Dirt;
use crate::table::Slot;

use super::ShardState;

/// How a pass ended.
#[derive(Debug)]
pub struct Cleaned {
    /// How far everything is clean, if it came to its end.
    pub clean_to: Option<Offset>,
    /// Segments that it found damaged.
    pub damaged: Vec<SegmentId>,
    /// It left files behind that only a start can judge.
    pub leaves_files: bool,
}

impl ShardState {
    /// Begins with the partition that most needs to be cleaned; `None` when none does. A partition whose
    /// oldest dirty record is older than its topic allows comes before those that are dirtier.
    ///
    /// Costs a step for each segment of each compacted partition.
    pub fn plan_cleaning(&mut self, now: TimestampMs, map_bytes: u64) -> Option<(Slot, PassPlan)> {
        if self.health.refusal().is_some() || self.health.stopping {
            return None;
        }
        let mut next: Option<((bool, u64), Slot)> = None;
        let mut waits_for_save = Vec::new();
        for (slot, log) in self.partitions.iter_mut() {
            let Some(compaction) = log.config.compaction else { continue };
            let Some(dirt) = log.dirt(now) else { continue };
            if log.tasks.save_due {
                waits_for_save.push(slot);
            }
            let rank = |dirt: Dirt| (dirt.overdue, dirt.ratio_ppm());
            let later = next.as_ref().is_some_and(|(before, _)| *before >= rank(dirt));
            if dirt.is_due(&compaction) && !later {
                next = Some((rank(dirt), slot));
            }
        }
        waits_for_save.into_iter().for_each(|slot| self.consider_work(slot));
        let (_, slot) = next?;
        let plan = self.partitions.get_mut(slot)?.plan_clean(now, map_bytes, &self.layout)?;
        Some((slot, plan))
    }

    /// Counts what a step has done. False when the pass must end now: nobody may wait for it.
    pub fn may_go_on_cleaning(&mut self, slot: Slot, counts: PassCounts) -> bool {
        self.metrics.cleaning.read_bytes += counts.bytes_read;
        self.metrics.cleaning.written_bytes += counts.bytes_written;
        self.metrics.cleaning.rewritten += counts.batches_rewritten;
        self.metrics.cleaning.decoded += counts.batches_decoded;
        let held_up = self.health.full || self.health.stopping || self.has_failed();
        let log = self.partitions.get(slot);
        !held_up && log.is_some_and(|log| log.may_go_on_cleaning())
    }

    /// As [`crate::partition_log::PartitionLog::begin_group`].
    pub fn begin_clean_group(&mut self, slot: Slot, group: &[SegmentId]) -> usize {
        self.partitions.get_mut(slot).map_or(group.len(), |log| log.begin_group(group))
    }

    /// A cleaned segment is durable: readers are sent there, and the files of those that it stands for
    /// are removed.
    pub fn swap_cleaned(
        &mut self,
        slot: Slot,
        meta: &SegmentMeta,
        indexes: Indexes,
        over: &[Offset],
    ) {
        let bytes = indexes.memory_bytes();
        let Some(log) = self.partitions.get_mut(slot) else {
            panic!("slot {slot:?} was dropped while segment {} was written", meta.id);
        };
        let swapped = log.swap(meta, indexes, over);
        self.tail_bytes -= swapped.tail_freed;
        self.metrics.tail_evicted_bytes_total += swapped.tail_freed;
        self.metrics.cleaning.segments += bytes_u64(swapped.gone.len());
        self.forget_segments(slot, &swapped.gone);
        self.note_index(slot, meta.id, bytes);
        self.consider_work(slot);
    }

    /// The pass is done with its group.
    pub fn clean_group_done(&mut self, slot: Slot) {
        if let Some(log) = self.partitions.get_mut(slot) {
            log.group_done();
        }
        // A deletion may have waited for it.
        self.consider_work(slot);
    }

    /// A pass failed: what could not be written or synced is final, as everywhere; what could not be
    /// read, or found no room, costs the pass and nothing else.
    pub fn clean_failed(&mut self, error: DiskError) {
        let reading =
            matches!(error.op, DiskOp::Open | DiskOp::Read | DiskOp::Len | DiskOp::FreeBytes);
        if !reading && !super::may_be_retried(&error) {
            self.storage_error(error, Vec::new());
        }
    }

    /// The pass is over.
    pub fn clean_done(&mut self, slot: Slot, how: &Cleaned) {
        let finished = how.clean_to.is_some();
        self.metrics.cleaning.finished += u64::from(finished);
        self.metrics.cleaning.broken_off += u64::from(!finished);
        self.metrics.cleaning.damaged += bytes_u64(how.damaged.len());
        if let Some(log) = self.partitions.get_mut(slot) {
            log.clean_done(how.clean_to, &how.damaged, how.leaves_files);
        }
        self.consider_work(slot);
        // A drop of the partition, or the stop, may have waited for it.
        self.events.work.signal();
        self.events.room.signal();
    }
}
