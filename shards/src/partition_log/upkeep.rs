//! What is to be done for a partition behind its journal: sealing complete segments, saving its
//! state, closing at the stop.

use millstream_io::data_dir::Layout;
use millstream_io::index_footer::Coverage;
use millstream_io::partition_state::{EpochCheckpoint, EpochEntry, Manifest, RecoveryCheckpoint};
use millstream_io::sparse_index::BatchStart;
use millstream_io::units::{FilePosition, Offset, SegmentId};

use std::sync::Arc;

use crate::position::LogPosition;
use crate::segments::{FileState, Index, Segment, SegmentIndex};
use crate::shard::{Home, Made, SaveJob};
use crate::table::Slot;

use super::PartitionLog;

/// What is under way or due for a partition.
#[derive(Debug, Default)]
pub struct Tasks {
    /// In the shard's queue.
    pub queued: bool,
    /// The state files should be written.
    pub save_due: bool,
    pub saving: bool,
    sealing: bool,
    /// The directory stands, and its manifest says what it should.
    home_made: bool,
    /// Where the log was at the last checkpoint.
    checkpoint_at: LogPosition,
    /// Something was appended since the state files were last written.
    changed: bool,
    /// The stop has begun: the next save is the last.
    closed: bool,
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

    /// The manifest must say something new before it counts.
    pub(super) fn manifest_changed(&mut self) {
        self.home_made = false;
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
    }

    /// True when something of it is under way: it may not be dropped.
    pub fn is_busy(&self) -> bool {
        self.is_writing() || self.tasks.sealing || self.tasks.saving || self.is_in_flight()
    }

    /// True when the state files are due and would not be outdated at once.
    pub fn may_save(&self) -> bool {
        let complete =
            !self.tasks.closed || (self.is_settled() && self.segments.unsealed().next().is_none());
        self.tasks.save_due && !self.is_busy() && complete
    }

    /// True when nothing is under way and nothing due.
    pub fn is_at_rest(&self) -> bool {
        let due = self.tasks.save_due || self.has_unwritten_closed() || self.sealable().is_some();
        !self.is_busy() && !due && (!self.tasks.closed || self.is_settled())
    }

    pub fn is_checkpoint_due(&self, every: u64) -> bool {
        self.readable(crate::message::Isolation::ReadUncommitted).1.get()
            >= self.tasks.checkpoint_at.get().saturating_add(every)
    }

    /// True when a closed segment has committed bytes that are in no file yet.
    pub fn has_unwritten_closed(&self) -> bool {
        let (written, committed) = (self.evictable(), self.committed());
        let mut unsealed = self.segments.unsealed();
        unsealed.any(|s| s.closed && s.end() > written && s.end() <= committed)
    }

    /// The segment to be sealed next, if one is complete in its file.
    pub fn plan_seal(&mut self) -> Option<(SegmentId, SegmentIndex, Coverage)> {
        if self.tasks.sealing {
            return None;
        }
        let segment = self.sealable()?;
        let Index::Memory(index) = &segment.index else {
            panic!("{}: unsealed segment {} has its index in a file", self.at, segment.id);
        };
        let log_bytes = FilePosition::new(segment.bytes);
        let coverage = crate::shard::coverage(index, log_bytes, segment.next, true);
        let plan = (segment.id, index.clone(), coverage);
        self.tasks.sealing = true;
        Some(plan)
    }

    /// The seal of a segment has ended.
    pub fn sealed(&mut self, id: SegmentId, indexes: SegmentIndex, well: bool) {
        self.tasks.sealing = false;
        let Some(segment) = self.segments.get_mut(id).filter(|_| well) else { return };
        segment.file = FileState::Sealed;
        segment.index = Index::File(Some(Arc::new(indexes)));
        let (end, next) = (segment.end(), segment.next);
        self.note_sealed(end, next);
    }

    /// Where its files live; with the manifest when that must be written.
    pub fn home(&self, layout: &Layout) -> Home {
        let manifest = Manifest {
            topic_id: self.at.topic,
            topic: self.topic_name.to_string(),
            partition: self.at.partition,
            leader_epoch: self.epoch,
            high_watermark: self.marks.high_watermark(),
            log_start_offset: self.marks.log_start(),
        };
        Home {
            at: self.at,
            dir: layout.partition(&self.topic_name, self.at.partition),
            manifest: (!self.tasks.home_made).then_some(manifest),
        }
    }

    /// What was made of the directory with its manifest, and of the files of `segments` in it.
    pub fn home_made(&mut self, home: &Home, segments: &[SegmentId], made: Made) {
        match made {
            Made::Nothing => {}
            Made::Perhaps => self.files_made(segments, FileState::Tried),
            Made::Durably => {
                if let Some(manifest) = &home.manifest {
                    self.tasks.home_made |= manifest.log_start_offset == self.marks.log_start();
                }
                self.files_made(segments, FileState::Made);
            }
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
        let checkpoint = RecoveryCheckpoint {
            segment_epoch: segment.id.epoch,
            segment_base: segment.id.base,
            byte_pos: byte_pos.get(),
            offset,
            log_start_offset: self.marks.log_start(),
            clean,
        };
        let entry = |start: &crate::leader_epochs::EpochStart| EpochEntry {
            epoch: start.epoch,
            start_offset: start.start,
        };
        let epochs = EpochCheckpoint { epochs: self.epochs.starts().iter().map(entry).collect() };
        let producers = self.producers.encode(offset);
        self.tasks.saving = true;
        self.tasks.changed = offset < self.marks.log_end();
        self.tasks.checkpoint_at = position;
        Some(SaveJob { slot, home: self.home(layout), indexes, producers, epochs, checkpoint })
    }

    /// The state files were written, or not.
    pub fn saved(&mut self, job: &SaveJob, well: bool) {
        self.tasks.saving = false;
        if well {
            self.home_made(&job.home, &[], Made::Durably);
        } else {
            self.tasks.save_due = true;
        }
    }

    /// Nothing is appended any more: all there is gets written, sealed and saved.
    pub fn close(&mut self) {
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

fn cut_at(index: &SegmentIndex, end: FilePosition, next: Offset) -> (SegmentIndex, Coverage) {
    let mut index = index.clone();
    index.cut(end, next);
    let coverage = crate::shard::coverage(&index, end, next, false);
    debug_assert!(index.offsets.last().at <= end, "{:?}", BatchStart { base: next, at: end });
    (index, coverage)
}
