//! Reads of a shard: planning, and what is kept between them.

use std::collections::VecDeque;
use std::sync::Arc;

use millstream_io::disk::DiskErrorKind;
use millstream_io::indexes::Indexes;
use millstream_io::units::{SegmentId, TopicPartition};

use crate::checked::Checked;
use crate::cold::{ColdAnswer, ColdError, ColdSource};
use crate::message::{OpenSegment, Read, ReadError, ReadLimits, ReadPlan, Want, Woken};
use crate::read::{ColdAsk, ColdFound, Planned, Room};
use crate::segments::Index;
use crate::table::Slot;
use crate::waiters::Wait;

use super::ShardState;

/// Segment files open for readers, longest unused first, and sealed indexes in memory, oldest
/// first. Lives on the owner's core.
#[derive(Debug, Default)]
pub(super) struct ReadCache {
    files: VecDeque<OpenFile>,
    indexes: VecDeque<(Slot, SegmentId, u64)>,
    index_bytes: u64,
}

/// A segment file that is kept open.
#[derive(Debug)]
struct OpenFile {
    slot: Slot,
    segment: SegmentId,
    file: Arc<OpenSegment>,
    checked: Checked,
}

impl OpenFile {
    fn is_of(&self, slot: Slot, segment: SegmentId) -> bool {
        (self.slot, self.segment) == (slot, segment)
    }
}

/// A look into a file that a read needs, and the partition it is for.
#[derive(Debug)]
pub struct ColdLook {
    slot: Slot,
    at: TopicPartition,
    pub ask: ColdAsk,
    pub source: ColdSource,
}

/// A planned read, or the look it needs first.
pub type ReadStep = Result<Result<ReadPlan, Box<ColdLook>>, ReadError>;

impl ShardState {
    /// Plans one read. `Err(look)` within names what must be looked up in a file first; then
    /// [`ShardState::finish_read`].
    pub fn plan_read(&mut self, read: &Read, limits: &ReadLimits, room: Room) -> ReadStep {
        self.metrics.reads_total += 1;
        let Some((slot, log)) = self.partitions.find_mut(read.at) else {
            return Err(ReadError::UnknownPartition { at: read.at });
        };
        match log.plan_read(read, limits.isolation, room)? {
            Planned::Ready(plan) => {
                self.metrics.read_memory_bytes_total += plan.bytes();
                self.list_for_eviction(slot);
                Ok(Ok(plan))
            }
            Planned::Cold(ask) => {
                if let Some((found, file)) = self.find_checked(slot, &ask)
                    && let Some(log) = self.partitions.get_mut(slot)
                {
                    let plan = log.finish_cold(ask, found, file);
                    self.metrics.read_file_bytes_total += plan.bytes();
                    self.metrics.checked_reads_total += 1;
                    return Ok(Ok(plan));
                }
                self.metrics.cold_reads_total += 1;
                let source = self.cold_source(slot, &ask);
                Ok(Err(Box::new(ColdLook { slot, at: read.at, ask, source })))
            }
        }
    }

    /// Completes a read with what was found in the file.
    pub fn finish_read(
        &mut self,
        look: ColdLook,
        answer: Result<ColdAnswer, ColdError>,
    ) -> Result<ReadPlan, ReadError> {
        let ColdLook { slot, at, ask, source } = look;
        let Some(log) = self.partitions.get(slot) else {
            return Err(ReadError::UnknownPartition { at });
        };
        // Records may have been deleted meanwhile, and the file with them.
        log.check_offset(ask.target)?;
        let answer = answer.map_err(|error| self.read_error(at, &ask, &source, error))?;
        self.keep_open(slot, ask.segment, &answer);
        if let Some(index) = answer.index {
            self.keep_index(slot, ask.segment, index);
        }
        let Some(log) = self.partitions.get_mut(slot) else {
            return Err(ReadError::UnknownPartition { at });
        };
        let plan = log.finish_cold(ask, answer.found, answer.file);
        self.metrics.read_file_bytes_total += plan.bytes();
        Ok(plan)
    }

    /// True when the segment that was to be looked into is not there any more, but its partition is:
    /// others took its place, or its records were deleted. A new plan says where they are.
    pub fn has_moved(&self, look: &ColdLook) -> bool {
        let log = self.partitions.get(look.slot);
        log.is_some_and(|log| log.segments.get(look.ask.segment).is_none())
    }

    /// Registers a long poll on the partitions it wants from this shard.
    pub fn wait_for(&mut self, wants: &[Want], wait: &Arc<Wait>) {
        for want in wants {
            let Some((slot, log)) = self.partitions.find_mut(want.at) else {
                wait.end(Woken::Changed);
                return;
            };
            let now = log.readable_end(want.isolation).0;
            // What became readable between the plan and now counts too.
            let over = match now.checked_sub(want.seen.0) {
                Some(grown) => wait.grow(grown),
                None => {
                    wait.end(Woken::Changed);
                    true
                }
            };
            if over {
                return;
            }
            self.waiters.add(slot, want.isolation, wait.clone());
        }
    }

    /// Closes the longest unused files, when the process has no descriptor left.
    pub fn close_read_files(&mut self) {
        let half = self.reads.files.len().div_ceil(2);
        self.reads.files.drain(..half);
    }

    /// Lets go of what is kept of segments that are deleted: files and indexes.
    pub(super) fn forget_segments(&mut self, slot: Slot, segments: &[SegmentId]) {
        let is_gone = |held: Slot, id: &SegmentId| held == slot && segments.contains(id);
        self.reads.files.retain(|open| !is_gone(open.slot, &open.segment));
        let mut freed = 0;
        self.reads.indexes.retain(|(held, id, bytes)| {
            let gone = is_gone(*held, id);
            freed += if gone { *bytes } else { 0 };
            !gone
        });
        self.reads.index_bytes -= freed;
    }

    /// Lets go of the files of a partition that is dropped: they take space while they are open.
    pub(super) fn forget_read_files(&mut self, slot: Slot) {
        self.reads.files.retain(|open| open.slot != slot);
    }

    /// The file of a segment, if it is open; the last to be closed now.
    fn open_file(&mut self, slot: Slot, segment: SegmentId) -> Option<&mut OpenFile> {
        let files = &mut self.reads.files;
        let found = files.iter().position(|open| open.is_of(slot, segment))?;
        let open = files.remove(found)?;
        files.push_back(open);
        files.back_mut()
    }

    /// What `ask` looks for, when that is known without a look: the batch at which it begins is, the
    /// index has one that follows within the limit, all bytes up to there were checked before, and
    /// they are in memory, so that they are what was checked. Costs a look through the open files and
    /// one system call.
    fn find_checked(&mut self, slot: Slot, ask: &ColdAsk) -> Option<(ColdFound, Arc<OpenSegment>)> {
        let found = self.partitions.get(slot)?.found_by_index(ask)?;
        let open = self.open_file(slot, ask.segment)?;
        let is_known = open.checked.holds(found.start, found.end)
            && open.file.is_resident(found.start, found.end);
        is_known.then(|| (found, open.file.clone()))
    }

    fn cold_source(&mut self, slot: Slot, ask: &ColdAsk) -> ColdSource {
        let file = self.open_file(slot, ask.segment).map(|open| open.file.clone());
        let Some(log) = self.partitions.get(slot) else { panic!("{slot:?} was just found") };
        let index = match log.segments.get(ask.segment).map(|segment| &segment.index) {
            Some(Index::File(index)) => index.clone(),
            Some(Index::Memory(_)) | None => None,
        };
        ColdSource { dir: self.layout.partition(log.topic_name(), log.at.partition), file, index }
    }

    fn keep_open(&mut self, slot: Slot, segment: SegmentId, answer: &ColdAnswer) {
        // Of one that was deleted or replaced during the look the space would not come back.
        let log = self.partitions.get(slot);
        if log.is_none_or(|log| log.segments.get(segment).is_none()) {
            return;
        }
        let ColdFound { start, end, .. } = answer.found;
        let files = &mut self.reads.files;
        if let Some(open) = files.iter_mut().find(|open| open.is_of(slot, segment)) {
            // Another look may have opened it a second time: it is the same file.
            open.checked.add(start, end);
            return;
        }
        if files.len() >= self.limits.read_files_max {
            files.pop_front();
        }
        let (file, mut checked) = (answer.file.clone(), Checked::default());
        checked.add(start, end);
        files.push_back(OpenFile { slot, segment, file, checked });
    }

    fn keep_index(&mut self, slot: Slot, id: SegmentId, index: Arc<Indexes>) {
        let Some(log) = self.partitions.get_mut(slot) else { return };
        let Some(segment) = log.segments.get_mut(id) else { return };
        let Index::File(held @ None) = &mut segment.index else { return };
        let bytes = index.memory_bytes();
        *held = Some(index);
        self.note_index(slot, id, bytes);
    }

    /// A sealed segment's index is in memory: others may have to go.
    pub(super) fn note_index(&mut self, slot: Slot, id: SegmentId, bytes: u64) {
        self.reads.indexes.push_back((slot, id, bytes));
        self.reads.index_bytes += bytes;
        while self.reads.index_bytes > self.limits.index_bytes_max {
            let Some((slot, id, bytes)) = self.reads.indexes.pop_front() else { return };
            self.reads.index_bytes -= bytes;
            let segment = self.partitions.get_mut(slot).and_then(|log| log.segments.get_mut(id));
            if let Some(Index::File(held)) = segment.map(|segment| &mut segment.index) {
                *held = None;
            }
        }
    }

    fn read_error(
        &mut self,
        at: TopicPartition,
        ask: &ColdAsk,
        source: &ColdSource,
        error: ColdError,
    ) -> ReadError {
        match error {
            ColdError::Damaged { offset, readable_from } => {
                self.metrics.read_corrupt_total += 1;
                ReadError::Corrupt { at, offset, readable_from }
            }
            ColdError::Disk(error) => match error.kind {
                DiskErrorKind::TooManyFiles => ReadError::TooManyFiles { at },
                DiskErrorKind::Stopped => ReadError::Stopping,
                _ => {
                    let path =
                        ask.segment.path(&source.dir, millstream_io::segment::SegmentFile::Log);
                    ReadError::Storage { at, path, reason: error.to_string() }
                }
            },
        }
    }
}
