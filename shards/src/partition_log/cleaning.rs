//! Compaction of one partition: what may be cleaned, what is dirty, and the segment that takes the
//! place of others.

use millstream_io::data_dir::Layout;
use millstream_io::indexes::Indexes;
use millstream_io::segment::SegmentMeta;
use millstream_io::units::{FilePosition, Offset, SegmentId, TimestampMs};

use crate::cleaning::pass::{Input, PassPlan};
use crate::message::Compaction;
use crate::segments::{FileState, Index, Segment};

use super::PartitionLog;

/// What is known and under way of a partition's compaction.
#[derive(Debug, Default)]
pub struct Cleaning {
    /// Keys of the records in front of this were noted by a pass that was finished.
    first_dirty: Offset,
    /// Segments that are damaged and stay as they are.
    damaged: Vec<SegmentId>,
    /// A pass is under way.
    at_work: bool,
    /// Segments that it is reading.
    held: Vec<SegmentId>,
    /// It must end before its next step.
    ending: bool,
    /// A pass left files behind that only a start can judge: no other begins before.
    blocked: bool,
}

impl Cleaning {
    pub(super) fn recovered(first_dirty: Offset) -> Cleaning {
        Cleaning { first_dirty, ..Cleaning::default() }
    }

    pub(super) fn is_at_work(&self) -> bool {
        self.at_work
    }

    fn holds(&self, id: SegmentId) -> bool {
        self.held.contains(&id)
    }
}

/// How much of a partition waits to be cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirt {
    pub dirty_bytes: u64,
    /// Bytes of everything that may be cleaned.
    pub total_bytes: u64,
    /// Older than `max.compaction.lag.ms` allows.
    pub overdue: bool,
}

impl Dirt {
    /// Millionths of what may be cleaned.
    pub fn ratio_ppm(&self) -> u64 {
        let ppm = u128::from(self.dirty_bytes) * 1_000_000 / u128::from(self.total_bytes.max(1));
        u64::try_from(ppm).unwrap_or(1_000_000)
    }

    /// Whether a topic with these settings wants to be cleaned.
    pub fn is_due(&self, compaction: &Compaction) -> bool {
        let over = self.ratio_ppm() > u64::from(compaction.min_cleanable_ppm);
        self.dirty_bytes > 0 && (self.overdue || over)
    }
}

impl PartitionLog {
    /// What waits to be cleaned; `None` when nothing may be.
    ///
    /// Costs a step for each segment. Orders the state files to be written when cleaning waits for
    /// nothing else.
    pub fn dirt(&mut self, now: TimestampMs) -> Option<Dirt> {
        let compaction = self.config.compaction?;
        let is_free = !self.cleaning.at_work && !self.cleaning.blocked && !self.dropping;
        if !is_free {
            return None;
        }
        // Readers must not be told of a transaction whose marker goes, also not by a start that finds
        // an older state.
        let is_saved = !self.tasks.save_due && !self.tasks.saving;
        let saved_to = self.tasks.saved_to();
        let mut dirt = Dirt { dirty_bytes: 0, total_bytes: 0, overdue: false };
        let mut waits_for_save = false;
        for segment in self.cleanable(&compaction, now) {
            if segment.end() > saved_to {
                waits_for_save = true;
                break;
            }
            dirt.total_bytes += segment.bytes;
            if segment.next > self.cleaning.first_dirty {
                dirt.dirty_bytes += segment.bytes;
                let age = u64::try_from(now.since_ms(oldest(segment))).unwrap_or(0);
                dirt.overdue |= age > compaction.max_lag_ms;
            }
        }
        self.tasks.save_due |= waits_for_save;
        is_saved.then_some(dirt)
    }

    /// Begins a cleaning of what may be cleaned.
    ///
    /// # Panics
    /// When one is under way.
    pub fn plan_clean(
        &mut self,
        now: TimestampMs,
        map_bytes: u64,
        layout: &Layout,
    ) -> Option<PassPlan> {
        assert!(!self.cleaning.at_work, "{}: cleaned twice at a time", self.at);
        let compaction = self.config.compaction?;
        let saved_to = self.tasks.saved_to();
        let cleanable = self.cleanable(&compaction, now);
        let inputs =
            cleanable.take_while(|segment| segment.end() <= saved_to).map(|segment| Input {
                id: segment.id,
                bytes: FilePosition::new(segment.bytes),
                next: segment.next,
                damaged: self.cleaning.damaged.contains(&segment.id),
            });
        let inputs: Vec<Input> = inputs.collect();
        if inputs.is_empty() {
            return None;
        }
        self.cleaning.at_work = true;
        self.cleaning.ending = false;
        Some(PassPlan {
            dir: layout.partition(&self.topic_name, self.at.partition),
            inputs,
            first_dirty: self.cleaning.first_dirty,
            segment_bytes: self.config.segment_bytes,
            aborted: self.producers.aborted().ranges().collect(),
            producers: self.producers.last_batches(self.marks.durable_end()).collect(),
            now,
            delete_retention_ms: compaction.delete_retention_ms,
            map_bytes,
        })
    }

    /// The pass is about to read these segments. Says how many of them, from the first, are gone or are
    /// to go: it must leave those. It must read the others, since it has noted their keys.
    ///
    /// # Panics
    /// When one is gone behind one that is not: records are deleted from the front.
    pub fn begin_group(&mut self, group: &[SegmentId]) -> usize {
        let log_start = self.marks.log_start();
        let live =
            |id: &SegmentId| self.segments.get(*id).is_some_and(|segment| segment.next > log_start);
        let gone = group.iter().take_while(|id| !live(id)).count();
        let left = &group[gone..];
        assert!(left.iter().all(live), "{}: a hole in {left:?}, cleaned now", self.at);
        self.cleaning.held = left.to_vec();
        gone
    }

    /// True when a pass may take its next step.
    pub fn may_go_on_cleaning(&self) -> bool {
        let log_start = self.marks.log_start();
        let deleted = |id: &SegmentId| {
            self.segments.get(*id).is_some_and(|segment| segment.next <= log_start)
        };
        !self.cleaning.ending && !self.dropping && !self.cleaning.held.iter().any(deleted)
    }

    /// A segment is written that stands for those of the group, durably: from now on readers are sent
    /// there. `over` are markers of aborted transactions of which no batch is left.
    ///
    /// # Panics
    /// When the group is not as it was when the pass began with it.
    pub fn swap(&mut self, meta: &SegmentMeta, indexes: Indexes, over: &[Offset]) -> Swapped {
        let gone = std::mem::take(&mut self.cleaning.held);
        self.remove_replaced(&gone);
        let (end, next) = self.segments.replace(&gone, meta, Index::File(Some(indexes.into())));
        self.cursors.forget_below(next);
        let held = self.tail.memory_bytes();
        self.tail.forget_below(end, next);
        let tail_freed = held - self.tail.memory_bytes();
        if self.producers.forget_aborted(over) {
            self.tasks.save_due = true;
        }
        Swapped { gone, tail_freed }
    }

    /// The group was left as it is.
    pub fn group_done(&mut self) {
        self.cleaning.held.clear();
    }

    /// The pass is over. `clean_to` says how far everything is clean if it came to its end;
    /// `leaves_files` that what is on the disk is not known.
    pub fn clean_done(
        &mut self,
        clean_to: Option<Offset>,
        damaged: &[SegmentId],
        leaves_files: bool,
    ) {
        let live = |id: &SegmentId| self.segments.get(*id).is_some();
        let mut known = std::mem::take(&mut self.cleaning.damaged);
        known.extend_from_slice(damaged);
        known.sort_unstable();
        known.dedup();
        known.retain(live);
        let first_dirty = self.cleaning.first_dirty.max(clean_to.unwrap_or_default());
        let blocked = self.cleaning.blocked || leaves_files;
        self.cleaning = Cleaning { first_dirty, damaged: known, blocked, ..Cleaning::default() };
    }

    /// The segment may not be removed: it is being cleaned, and the pass is told to end.
    pub(super) fn is_held_by_cleaning(&self, id: SegmentId) -> bool {
        self.cleaning.holds(id)
    }

    /// Sealed segments whose records may be compacted, oldest first: behind the log start and in front
    /// of the last segment, of every open transaction, and of what is younger than
    /// `min.compaction.lag.ms`.
    fn cleanable<'s>(
        &'s self,
        compaction: &'s Compaction,
        now: TimestampMs,
    ) -> impl Iterator<Item = &'s Segment> {
        let (log_start, stable) = (self.marks.log_start(), self.marks.last_stable());
        let first_dirty = self.cleaning.first_dirty;
        let last = self.segments.last().map(|last| last.id);
        let ripe = move |segment: &&Segment| {
            let age = u64::try_from(now.since_ms(segment.max_timestamp)).unwrap_or(0);
            let young = segment.next > first_dirty && age < compaction.min_lag_ms;
            segment.file == FileState::Sealed
                && Some(segment.id) != last
                && segment.next <= stable
                && self.is_free_of_writes(segment.end())
                && !young
        };
        let live = self.segments.iter().skip_while(move |segment| segment.next <= log_start);
        live.take_while(ripe)
    }
}

/// What a swap asks of the shard.
#[derive(Debug)]
pub struct Swapped {
    /// Segments that nobody is sent to any more.
    pub gone: Vec<SegmentId>,
    /// Memory of the tail that was given back.
    pub tail_freed: u64,
}

/// About when the first record of a segment came. A start forgets it where the record does not tell it,
/// and then the latest one does.
fn oldest(segment: &Segment) -> TimestampMs {
    match (segment.first_timestamp, segment.max_timestamp) {
        (first, _) if !first.is_none() => first,
        (_, latest) if !latest.is_none() => latest.min(segment.opened_at),
        _ => segment.opened_at,
    }
}

#[cfg(test)]
#[path = "cleaning_tests.rs"]
mod tests;
