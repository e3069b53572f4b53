//! What is to be done for a partition behind its journal: sealing complete segments, saving its
//! state, closing at the stop.

use millstream_io::data_dir::Layout;
use millstream_io::index_footer::Coverage;
use millstream_io::indexes::Indexes;
use millstream_io::partition_state::{Manifest, RecoveryCheckpoint};
use millstream_io::sparse_index::BatchStart;
use millstream_io::units::{FilePosition, Offset, SegmentId};

use std::sync::Arc;

use crate::position::LogPosition;
use crate::segments::{FileState, Index, Segment};
use crate::shard::{Home, Made, SaveJob};
use crate::table::Slot;

use super::PartitionLog;

/// What is under way or due for a partition.
#[derive(Debug, Default)]
pub struct Tasks {
    /// In the shard's queue.
    pub queued: bool,
    /// In the shard's queue of those with something to delete.
    pub trim_queued: bool,
    /// The state files should be written.
    pub save_due: bool,
    pub saving: bool,
    sealing: bool,
    /// The directory stands, and its manifest says what it should.
    home_made: bool,
    /// A job that writes the manifest is planned or under way. There is one at a time.
    manifest_in_work: bool,
    /// Everything in front of this is in the last state files that were written.
    saved_to: LogPosition,
    /// Where the log was at the last checkpoint.
    checkpoint_at: LogPosition,
    /// Something was appended since the state files were last written.
    changed: bool,
    /// The stop has begun: the next save is the last.
    closed: bool,
}

/// A segment to be sealed, and what is known about it.
#[derive(Debug)]
pub struct SealPlan {
    pub segment: SegmentId,
    pub indexes: Indexes,
    pub coverage: Coverage,
    /// All of its log is durable in its file.
    pub synced: bool,
}

impl Tasks {
    /// For a log that recovery has just put in order, or a new one.
    pub(super) fn recovered(end: LogPosition, home_made: bool) -> Tasks {
        Tasks { home_made, checkpoint_at: end, ..Tasks::default() }
    }

    pub(crate) fn note_append(&mut self) {
        self.changed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(super) fn is_saving(&self) -> bool {
        self.saving
    }

    pub(super) fn is_home_made(&self) -> bool {
        self.home_made
    }

    pub(super) fn saved_to(&self) -> LogPosition {
        self.saved_to
    }

    #[cfg(test)]
    pub(super) fn pretend_saved(&mut self, to: LogPosition) {
        (self.saved_to, self.save_due) = (to, false);
    }

    pub(super) fn is_manifest_in_work(&self) -> bool {
        self.manifest_in_work
    }

    /// The job that wrote the manifest has ended.
    pub(super) fn manifest_written(&mut self, well: bool) {
        self.manifest_in_work = false;
        self.home_made |= well;
    }

    /// The directory is needed, and somebody else is making it.
    pub(super) fn must_wait_for_home(&self) -> bool {
        !self.home_made && self.manifest_in_work
    }
}

impl PartitionLog {
    /// True when [`crate::shard::ShardState::take_job`] would find something to do here.
    pub fn needs_work(&self, behind_bytes: u64, checkpoint_bytes: u64) -> bool {
        self.unwritten_bytes() >= behind_bytes
            || self.has_unwritten_closed()
            || self.is_checkpoint_due(checkpoint_bytes)
            || self.sealable().is_some()
            || self.tasks.save_due
            || self.waits_for_save()
    }

    /// True when something of it is under way: it may not be dropped.
    pub fn is_busy(&self) -> bool {
        self.is_writing()
            || self.tasks.sealing
            || self.tasks.saving
            || self.is_in_flight()
            || self.trim.is_under_way()
            || self.cleaning.is_at_work()
    }

    /// True when the state files are due, and nobody else is at files that belong to them. Rounds and
    /// writes do not count: under steady load there would never be a time between them.
    pub fn may_save(&self) -> bool {
        let complete =
            !self.tasks.closed || (self.is_settled() && self.segments.unsealed().next().is_none());
        // What the checkpoint passes by is sealed for good.
        let sealing = self.tasks.sealing || self.sealable().is_some();
        let held = sealing || self.tasks.saving || self.trim.is_under_way();
        self.tasks.save_due && !held && !self.tasks.must_wait_for_home() && complete
    }

    /// True when nothing is under way and nothing due.
    pub fn is_at_rest(&self) -> bool {
        let due = self.tasks.save_due
            || self.has_unwritten_closed()
            || self.sealable().is_some()
            || self.is_trim_due()
            || self.needs_trim(false)
            || self.waits_for_save();
        !self.is_busy() && !due && (!self.tasks.closed || self.is_settled())
    }

    pub fn is_checkpoint_due(&self, every: u64) -> bool {
        self.readable(crate::message::Isolation::ReadUncommitted).1.get()
            >= self.tasks.checkpoint_at.get().saturating_add(every)
    }

    /// True when a checkpoint is due, and large runs have synced all but a little for it. It needs no
    /// write of its own then, which would find no time between them, and whose padded last block would
    /// send the next run through the journal.
    pub fn is_checkpoint_synced(&self, every: u64) -> bool {
        let nearly = self.tasks.checkpoint_at.get().saturating_add(every - every / 8);
        self.is_checkpoint_due(every) && self.synced_end().1.get() >= nearly
    }

    /// True when a closed segment has committed bytes that are in no file yet.
    pub fn has_unwritten_closed(&self) -> bool {
        let (written, committed) = (self.evictable(), self.committed());
        let mut unsealed = self.segments.unsealed();
        unsealed.any(|s| s.closed && s.end() > written && s.end() <= committed)
    }

    /// The segment to be sealed next, if one is complete in its file. Not while a save is on its
    /// way, which may be writing the same indexes.
    pub fn plan_seal(&mut self) -> Option<SealPlan> {
        if self.tasks.sealing || self.tasks.saving {
            return None;
        }
        let segment = self.sealable()?;
        let Index::Memory(index) = &segment.index else {
            panic!("{}: unsealed segment {} has its index in a file", self.at, segment.id);
        };
        let log_bytes = FilePosition::new(segment.bytes);
        let coverage = crate::shard::coverage(index, log_bytes, segment.next, true);
        let synced = self.is_synced_to(segment.end());
        let plan = SealPlan { segment: segment.id, indexes: index.clone(), coverage, synced };
        self.tasks.sealing = true;
        Some(plan)
    }

    /// The seal of a segment has ended.
    pub fn sealed(&mut self, id: SegmentId, indexes: Indexes, well: bool) {
        self.tasks.sealing = false;
        let Some(segment) = self.segments.get_mut(id).filter(|_| well) else { return };
        segment.file = FileState::Sealed;
        segment.index = Index::File(Some(Arc::new(indexes)));
        let (end, next) = (segment.end(), segment.next);
        self.note_sealed(end, next);
    }

    /// Where its files live; with the manifest when that must be written.
    pub fn home(&mut self, layout: &Layout) -> Home {
        if self.tasks.home_made {
            let dir = layout.partition(&self.topic_name, self.at.partition);
            return Home { at: self.at, dir, manifest: None };
        }
        self.home_with(self.marks.log_start(), layout)
    }

    /// Where its files live, with a manifest that names `log_start`.
    ///
    /// # Panics
    /// When a manifest is being written already.
    pub(super) fn home_with(&mut self, log_start: Offset, layout: &Layout) -> Home {
        let in_work = std::mem::replace(&mut self.tasks.manifest_in_work, true);
        assert!(!in_work, "{}: two jobs are to write its manifest", self.at);
        let manifest = Manifest {
            topic_id: self.at.topic,
            topic: self.topic_name.to_string(),
            partition: self.at.partition,
            leader_epoch: self.epoch,
            high_watermark: self.marks.high_watermark(),
            log_start_offset: log_start,
        };
        let dir = layout.partition(&self.topic_name, self.at.partition);
        Home { at: self.at, dir, manifest: Some(manifest) }
    }

    /// What was made of the directory with its manifest, and of the files of `segments` in it.
    pub fn home_made(&mut self, home: &Home, segments: &[SegmentId], made: Made) {
        if let Some(manifest) = &home.manifest {
            let (written, log_start) = (manifest.log_start_offset, self.marks.log_start());
            assert!(
                written == log_start,
                "{}: a manifest with log start {written} was written at {log_start}",
                self.at
            );
            self.tasks.manifest_written(made == Made::Durably);
        }
        match made {
            Made::Nothing => {}
            Made::Perhaps => self.files_made(segments, FileState::Tried),
            Made::Durably => self.files_made(segments, FileState::Made),
        }
    }

    /// The state files as of what is synced; `None` when there is nothing to say.
    pub fn plan_save(&mut self, slot: Slot, layout: &Layout) -> Option<SaveJob> {
        self.tasks.save_due = false;
        let synced = self.synced_end();
        let (offset, position) = synced;
        let segment = self.segment_below(position)?;
        let byte_pos = segment.file_position(position);
        let indexes = match &segment.index {
            Index::Memory(index) if segment.file == FileState::Made => {
                Some(cut_at(index, byte_pos, offset))
            }
            Index::Memory(_) | Index::File(_) => None,
        };
        let clean = self.tasks.closed && offset == self.marks.log_end();
        let saved_to = position;
        let checkpoint = RecoveryCheckpoint {
            segment_epoch: segment.id.epoch,
            segment_base: segment.id.base,
            byte_pos: byte_pos.get(),
            offset,
            log_start_offset: self.marks.log_start(),
            clean,
        };
        // All that is durable comes back, whatever of it is in the segments.
        let producers = self.producers.encode(self.marks.durable_end(), |open| {
            let segment = self.segments.at_offset(open.first);
            let held = segment.filter(|segment| segment.start <= open.position);
            held.map_or(LogPosition::ZERO, |segment| {
                LogPosition::new(segment.file_position(open.position).get())
            })
        });
        self.tasks.saving = true;
        self.tasks.changed = offset < self.marks.log_end();
        self.tasks.checkpoint_at = position;
        let home = self.home(layout);
        Some(SaveJob { slot, home, indexes, producers, checkpoint, saved_to })
    }

    /// The state files were written, or not.
    pub fn saved(&mut self, job: &SaveJob, well: bool) {
        self.tasks.saving = false;
        self.home_made(&job.home, &[], if well { Made::Durably } else { Made::Perhaps });
        if well {
            self.tasks.saved_to = self.tasks.saved_to.max(job.saved_to);
        } else {
            self.tasks.save_due = true;
        }
    }

    /// Nothing is appended any more: all there is gets written, sealed and saved.
    pub fn close(&mut self) {
        // One that never got a byte is not needed: its name, where it has one, stays until a start.
        self.segments.pop_empty();
        if let Some(last) = self.segments.iter_mut().next_back() {
            last.closed = true;
        }
        self.settle_padded();
        self.tasks.closed = true;
        self.tasks.save_due |= self.tasks.changed;
    }

    fn sealable(&self) -> Option<&Segment> {
        let written = self.evictable();
        let oldest = self.segments.unsealed().next()?;
        let complete = oldest.closed && oldest.file == FileState::Made && oldest.end() <= written;
        complete.then_some(oldest)
    }

    /// The segment that holds the byte before `position`.
    fn segment_below(&self, position: LogPosition) -> Option<&Segment> {
        self.segments.iter().rev().find(|segment| segment.start < position)
    }
}

fn cut_at(index: &Indexes, end: FilePosition, next: Offset) -> (Indexes, Coverage) {
    let mut index = index.clone();
    index.cut(end, next);
    let coverage = crate::shard::coverage(&index, end, next, false);
    debug_assert!(index.offsets.last().at <= end, "{:?}", BatchStart { base: next, at: end });
    (index, coverage)
}
