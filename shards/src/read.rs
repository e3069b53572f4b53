//! The read verb: what to send for one partition.

use std::sync::Arc;

use millstream_io::sparse_index::BatchStart;
use millstream_io::units::{FilePosition, LeaderEpoch, Offset, SegmentId};

use crate::message::{Chunk, EpochEnd, Isolation, OpenSegment, Read, ReadError, ReadPlan};
use crate::partition_log::PartitionLog;
use crate::position::LogPosition;
use crate::segments::Index;

/// What a request has left when it comes to a partition.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub bytes_left: u64,
    /// No partition before gave anything: the first batch is given even when it is too large.
    pub whole_first: bool,
}

/// The outcome of planning a read.
#[derive(Debug)]
pub enum Planned {
    /// Complete: memory only, or nothing to send.
    Ready(ReadPlan),
    /// The offset lies in a segment file: find and check its batches off the core, then
    /// [`PartitionLog::finish_cold`].
    Cold(ColdAsk),
}

/// What to look for in a segment file. Owned, for the helper pool.
#[derive(Clone, Debug)]
pub struct ColdAsk {
    pub segment: SegmentId,
    /// The batch that holds this offset comes first.
    pub target: Offset,
    /// A batch at or before it, from which to walk; `None` when the index must be asked, which is
    /// not in memory.
    pub from: Option<BatchStart>,
    /// Bytes of the file that are written and may be read.
    pub end: FilePosition,
    pub bytes_max: u64,
    pub whole_first: bool,
    /// Base of the segment behind, to name where reading works again if the rest is damaged.
    pub next_segment: Option<Offset>,
    /// The plan so far: watermarks and aborted list, without chunks.
    pub plan: ReadPlan,
}

/// The batches found for a [`ColdAsk`], all checked: `[start, end)` of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColdFound {
    pub start: FilePosition,
    pub end: FilePosition,
    /// Offset behind them.
    pub next: Offset,
    pub over_limit: bool,
}

impl PartitionLog {
    /// Plans one read. From memory the plan is complete; of a file it says what to look for.
    ///
    /// A sequential reader of the tail costs one look at the cursors and one allocation for the
    /// plan; another costs a binary search and a walk over the headers of one chunk.
    ///
    /// # Errors
    /// [`ReadError`] of the epoch and of the offset's range.
    pub fn plan_read(
        &mut self,
        read: &Read,
        isolation: Isolation,
        room: Room,
    ) -> Result<Planned, ReadError> {
        self.check_reader(read)?;
        let mut plan = self.empty_plan(isolation);
        if let Some(epoch) = read.last_fetched {
            plan.diverging = self.diverging(epoch, read.offset)?;
        }
        let (end_offset, end) = self.readable(isolation);
        let bytes_max = read.bytes_max.min(room.bytes_left);
        let nothing = read.offset >= end_offset || (bytes_max == 0 && !room.whole_first);
        if nothing || plan.diverging.is_some() {
            return Ok(Planned::Ready(plan));
        }
        let room = Room { bytes_left: bytes_max, ..room };
        if read.offset >= self.tail.base() {
            self.read_tail(read.offset, end, room, &mut plan);
            return Ok(Planned::Ready(plan));
        }
        Ok(Planned::Cold(self.ask_cold(read.offset, end, room, plan)))
    }

    /// What `ask` looks for, as far as it is known here: from a batch that begins with the offset that is
    /// asked for to the last one that fits of those that the index names. `None` when one of the two is
    /// not known. Nothing of it was checked.
    pub fn found_by_index(&self, ask: &ColdAsk) -> Option<ColdFound> {
        let start = ask.from.filter(|from| from.base == ask.target)?.at;
        let segment = self.segments.get(ask.segment)?;
        let limit = start.add(ask.bytes_max).min(ask.end);
        let (end, next) = if limit.get() == segment.bytes {
            (limit, segment.next)
        } else {
            let last = segment.index()?.offsets.floor_position(limit);
            (last.at, last.base)
        };
        (end > start).then_some(ColdFound { start, end, next, over_limit: false })
    }

    /// Completes a plan with what was found in the file; `file` is open to read.
    pub fn finish_cold(
        &mut self,
        ask: ColdAsk,
        found: ColdFound,
        file: Arc<OpenSegment>,
    ) -> ReadPlan {
        let mut plan = ask.plan;
        let len = found.end.since(found.start);
        if len == 0 {
            plan.aborted = plan.aborted.map(|_| Vec::new());
            return plan;
        }
        if let Some(segment) = self.segments.get(ask.segment) {
            self.cursors.moved(ask.target, found.next, segment.position_behind(found.end));
        }
        plan.over_limit = found.over_limit;
        plan.chunks.push(Chunk::File { file, position: found.start, len });
        if let Some(aborted) = &mut plan.aborted {
            aborted.retain(|aborted| aborted.first_offset < found.next);
        }
        plan
    }

    fn check_reader(&self, read: &Read) -> Result<(), ReadError> {
        let (at, current) = (self.at, self.epoch);
        match read.current {
            Some(got) if got < current => return Err(ReadError::FencedEpoch { at, current, got }),
            Some(got) if got > current => return Err(ReadError::UnknownEpoch { at, current, got }),
            _ => {}
        }
        self.check_offset(read.offset)
    }

    /// True offsets lie between the log start and the log end.
    ///
    /// # Errors
    /// [`ReadError::OffsetOutOfRange`].
    pub fn check_offset(&self, got: Offset) -> Result<(), ReadError> {
        let (log_start, log_end) = (self.marks.log_start(), self.marks.log_end());
        if got < log_start || got > log_end {
            return Err(ReadError::OffsetOutOfRange { at: self.at, got, log_start, log_end });
        }
        Ok(())
    }

    fn empty_plan(&self, isolation: Isolation) -> ReadPlan {
        ReadPlan {
            chunks: Vec::new(),
            high_watermark: self.marks.high_watermark(),
            last_stable_offset: self.marks.last_stable(),
            log_start: self.marks.log_start(),
            aborted: (isolation == Isolation::ReadCommitted).then(Vec::new),
            diverging: None,
            readable_end: self.readable_end(isolation),
            over_limit: false,
        }
    }

    /// Where the reader's log left ours: the end of its last epoch here, if it has read further
    /// than that, or an epoch we do not have (KIP-595).
    ///
    /// # Errors
    /// [`ReadError::OffsetOutOfRange`] for an epoch above all of ours: no end of it is known here,
    /// so the reader must look for a new place.
    fn diverging(
        &self,
        last_fetched: LeaderEpoch,
        offset: Offset,
    ) -> Result<Option<EpochEnd>, ReadError> {
        let Some(ours) = self.epochs.end_of(last_fetched, self.marks.durable_end()) else {
            let (log_start, log_end) = (self.marks.log_start(), self.marks.log_end());
            return Err(ReadError::OffsetOutOfRange {
                at: self.at,
                got: offset,
                log_start,
                log_end,
            });
        };
        Ok((ours.epoch < last_fetched || ours.end < offset).then_some(ours))
    }

    fn read_tail(&mut self, offset: Offset, end: LogPosition, room: Room, plan: &mut ReadPlan) {
        let known = self.cursors.find(offset).filter(|at| *at >= self.tail.start() && *at < end);
        let Some(start) = known.or_else(|| self.tail.find(offset).map(|batch| batch.start)) else {
            return;
        };
        let limit = start.add(room.bytes_left).min(end);
        let mut cut = self.tail.cut(start, limit);
        if cut == start {
            if !room.whole_first {
                return;
            }
            cut = self.tail.batch_at(start).end;
            plan.over_limit = true;
        }
        assert!(cut <= end, "{}: a read to {cut:?} passes the readable end {end:?}", self.at);
        let next = self.tail.offset_at(cut);
        self.tail.share(start, cut, |bytes| plan.chunks.push(Chunk::Memory(bytes)));
        self.cursors.moved(offset, next, cut);
        self.list_aborted(offset, next, plan);
    }

    fn ask_cold(
        &self,
        target: Offset,
        end: LogPosition,
        room: Room,
        mut plan: ReadPlan,
    ) -> ColdAsk {
        let readable = self.evictable().min(end);
        let Some(segment) = self.segments.at_offset(target) else {
            panic!(
                "{}: no segment holds offset {target} below the tail {:?}",
                self.at,
                self.tail.base()
            );
        };
        let known = self
            .cursors
            .find(target)
            .filter(|at| (segment.start..segment.end()).contains(at) && *at < readable);
        let from = match (known, &segment.index) {
            (Some(at), _) => Some(BatchStart { base: target, at: segment.file_position(at) }),
            (None, Index::Memory(index)) => Some(index.offsets.floor(target)),
            (None, Index::File(Some(index))) => Some(index.offsets.floor(target)),
            (None, Index::File(None)) => None,
        };
        let next_segment = self.segments.at_offset(segment.next).map(|next| next.id.base);
        // As of now: what is in the file may be compacted away before somebody looks, and with it what
        // was known of its aborted transactions.
        self.list_aborted(target, segment.next, &mut plan);
        ColdAsk {
            segment: segment.id,
            target,
            from,
            end: segment.file_position(segment.end().min(readable)),
            bytes_max: room.bytes_left,
            whole_first: room.whole_first,
            next_segment,
            plan,
        }
    }

    fn list_aborted(&self, from: Offset, to: Offset, plan: &mut ReadPlan) {
        if let Some(aborted) = &mut plan.aborted {
            *aborted = self.producers.aborted().overlapping(from, to);
        }
    }
}
