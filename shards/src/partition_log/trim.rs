//! Deleting the oldest records of a partition: first the log start is written down, then it rises,
//! then the segments that lie wholly below it go.
//!
//! In this order a crash takes no log start back that somebody saw, and brings no record back: a
//! start finds the log start in the manifest and removes whatever file below it is still there.
//! Behind it a crash finds all there was, since nothing is removed that holds a record at or behind
//! the log start that is written down.

use std::time::Duration;

use millstream_io::data_dir::Layout;
use millstream_io::units::{Offset, SegmentId};

use crate::deletion::{DeleteBefore, DeleteError};
use crate::limits::SEGMENTS_REMOVED_AT_ONCE;
use crate::position::LogPosition;
use crate::segments::{FileState, Segment};
use crate::shard::{Aside, RemoveJob, TrimJob};
use crate::table::Slot;

use super::PartitionLog;

/// What is due or under way of a partition's deletions.
#[derive(Debug, Default)]
pub struct Trim {
    /// The log start that is asked for; not above the present one when nothing is.
    pub(super) asked: Offset,
    /// A log start is being written down.
    writing: bool,
    /// Taken off the list of segments: their files are to be removed, in this order.
    gone: Vec<SegmentId>,
    /// Where the last ended that held deleted records.
    gone_to: LogPosition,
    removing: bool,
    /// The last removal failed: it is tried again when the disk has recovered.
    failed: bool,
}

impl Trim {
    pub(super) fn is_under_way(&self) -> bool {
        self.writing || self.removing
    }
}

impl PartitionLog {
    /// Orders the log start to rise; says how far. At or below the present one nothing is ordered.
    ///
    /// # Errors
    /// [`DeleteError::OutOfRange`] behind the HighWatermark.
    pub fn delete_before(&mut self, before: DeleteBefore) -> Result<Offset, DeleteError> {
        let (log_start, high_watermark) = (self.marks.log_start(), self.marks.high_watermark());
        let asked = match before {
            DeleteBefore::HighWatermark => high_watermark,
            DeleteBefore::Offset(got) if got > high_watermark => {
                let at = self.at;
                return Err(DeleteError::OutOfRange { at, got, log_start, high_watermark });
            }
            DeleteBefore::Offset(offset) => offset,
        };
        self.trim.asked = self.trim.asked.max(asked);
        Ok(asked)
    }

    /// True when a log start is to be written down.
    pub fn is_trim_due(&self) -> bool {
        self.trim.asked > self.marks.log_start() && !self.dropping
    }

    /// True when [`PartitionLog::plan_trim`] or [`PartitionLog::plan_removal`] may find something.
    pub fn needs_trim(&self, disk_full: bool) -> bool {
        let removable = !self.trim.gone.is_empty() || self.may_go(disk_full);
        let remove = removable && !self.trim.removing && !self.trim.failed;
        !self.dropping && (remove || (self.is_trim_due() && !self.trim.writing))
    }

    /// The next log start to be written down. One write of the manifest at a time: a second could
    /// put the first one's content back.
    pub fn plan_trim(&mut self, slot: Slot, layout: &Layout) -> Option<TrimJob> {
        if !self.is_trim_due() || self.trim.writing || self.tasks.is_manifest_in_work() {
            return None;
        }
        let log_start = self.trim.asked;
        let home_made = self.tasks.is_home_made();
        let home = self.home_with(log_start, layout);
        self.trim.writing = true;
        Some(TrimJob { slot, home, log_start, home_made, reserve: layout.reserve() })
    }

    /// The new log start is in force, or could not be written down.
    pub fn trimmed(&mut self, job: &TrimJob, well: bool) {
        assert!(self.trim.writing, "{}: a log start was written that nobody ordered", self.at);
        self.trim.writing = false;
        self.tasks.manifest_written(well);
        if !well {
            if self.trim.asked == job.log_start {
                self.trim.asked = self.marks.log_start();
            }
            return;
        }
        self.marks.delete_before(job.log_start);
        self.epochs.delete_before(job.log_start);
        self.producers.delete_before(job.log_start);
    }

    /// Takes the segments that lie wholly below the log start off the list, and says which files
    /// are to be removed. Not while the state files are being written.
    ///
    /// Producers must not be forgotten with the segments: their state is saved before. On a full
    /// disk, where the space counts more, the older state is removed instead: a start then takes a
    /// producer of deleted records for a new one, and not for one that left records out.
    ///
    /// Logs larger than `in_one_max` are left to the remover.
    pub fn plan_removal(
        &mut self,
        slot: Slot,
        layout: &Layout,
        (disk_full, in_one_max): (bool, u64),
    ) -> Option<RemoveJob> {
        if self.tasks.is_saving() || self.trim.is_under_way() || self.dropping {
            return None;
        }
        while self.trim.gone.len() < SEGMENTS_REMOVED_AT_ONCE && self.may_go(disk_full) {
            let Some(segment) = self.segments.pop_first() else { break };
            self.trim.gone_to = segment.end();
            self.trim.gone.push(segment.id);
        }
        if self.trim.gone.is_empty() {
            return None;
        }
        self.trim.removing = true;
        self.trim.failed = false;
        let forget_producers = self.trim.gone_to > self.tasks.saved_to();
        self.tasks.save_due |= forget_producers;
        let dir = layout.partition(&self.topic_name, self.at.partition);
        let aside = self.aside(layout, (disk_full, in_one_max));
        let segments = self.trim.gone.clone();
        // By the name of the next one a start knows that those before it were removed, and are not
        // to be taken from the journal again.
        let next = self.segments.first().map(|first| first.id);
        Some(RemoveJob { slot, at: self.at, dir, segments, next, forget_producers, aside })
    }

    /// Files that stay for a time all wait with the remover; else only those that it is to shorten. On a
    /// full disk nobody writes who would have to wait, and all go at once.
    fn aside(&self, layout: &Layout, (disk_full, in_one_max): (bool, u64)) -> Aside {
        let delay_ms = if disk_full { 0 } else { self.config.file_delete_delay_ms };
        let larger_than = match delay_ms {
            0 if disk_full => u64::MAX,
            0 => in_one_max,
            _ => 0,
        };
        Aside { dir: layout.deleted(), larger_than, delay: Duration::from_millis(delay_ms) }
    }

    /// The files were removed, or not all of them.
    pub fn removed(&mut self, job: &RemoveJob, well: bool) {
        assert!(self.trim.removing, "{}: a removal ended that had not begun", self.at);
        self.trim.removing = false;
        self.trim.failed = !well;
        let made = job.next.as_slice();
        if well {
            self.trim.gone.retain(|id| !job.segments.contains(id));
            self.files_made(made, FileState::Made);
        } else {
            self.files_made(made, FileState::Tried);
        }
    }

    /// Segments that a cleaned one stands for, durably: their files are to be removed.
    pub(super) fn remove_replaced(&mut self, segments: &[SegmentId]) {
        self.trim.gone.extend_from_slice(segments);
    }

    /// A removal that failed is due again.
    pub fn retry_removal(&mut self) {
        self.trim.failed = false;
    }

    /// True when the oldest segment only waits for the producers' state to be saved.
    pub fn waits_for_save(&self) -> bool {
        let dead = self.dead_front().filter(|_| !self.dropping);
        dead.is_some_and(|segment| segment.end() > self.tasks.saved_to())
    }

    fn may_go(&self, disk_full: bool) -> bool {
        self.dead_front().is_some_and(|oldest| disk_full || oldest.end() <= self.tasks.saved_to())
    }

    /// The oldest segment when it lies wholly below the log start and its file will never be touched
    /// again. Never the only one: by its end, or by the name of the next one, a start knows the log's.
    fn dead_front(&self) -> Option<&Segment> {
        let oldest = self.segments.first()?;
        if oldest.next > self.marks.log_start() || oldest.file != FileState::Sealed {
            return None;
        }
        let held = self.is_held_by_cleaning(oldest.id);
        let is_free = self.is_free_of_writes(oldest.end()) && !held;
        let has_next = oldest.end() < self.committed() || self.segments.len() > 1;
        (is_free && has_next).then_some(oldest)
    }
}
