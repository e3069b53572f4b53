//! How the bytes of a partition flow from memory to the journal and to the segment files.

use millstream_io::units::{FilePosition, Offset, SegmentId, TopicPartition, bytes_usize};

use crate::limits::{DIRECT_RUN_BYTES, WRITE_PIECE_BYTES};
use crate::position::LogPosition;
use crate::segments::{FileState, Piece};

use super::PartitionLog;

/// The positions of one partition's flow, and who is at work on it.
#[derive(Debug)]
pub(super) struct Flow {
    synced: LogPosition,
    written: LogPosition,
    committed: LogPosition,
    /// End of the run in the round in flight, if this partition is in it.
    in_flight: Option<(LogPosition, Offset)>,
    /// A write to the segment files is under way.
    writing: bool,
    /// The group commit has this partition in its list.
    pub(super) dirty: bool,
    /// The next run repeats what is not synced, so that older journal files can go.
    repeat: bool,
    pub(super) needs_repair: bool,
}

/// What a partition puts in a commit round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitShare {
    /// Nothing is staged.
    Nothing,
    /// `[from, to)` goes into the journal frame.
    Journal { from: LogPosition, to: LogPosition },
    /// The full blocks up to `from` go straight to the segment files; only `[from, to)` goes into
    /// the frame.
    Direct { from: LogPosition, to: LogPosition },
}

/// What became durable with a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Bytes that became readable.
    pub bytes: u64,
    pub durable_end: Offset,
}

/// Whole blocks to be written to segment files, `[from, to)` cut at segments and at the size of a
/// write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritePlan {
    pub to: LogPosition,
    pub pieces: Vec<Piece>,
    /// Segments whose files must be made first, in order.
    pub make: Vec<SegmentId>,
}

/// Segment files to be synced; then everything below `to` is durable in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyncPlan {
    pub to: LogPosition,
    pub segments: Vec<SegmentId>,
}

impl Flow {
    /// Everything below `end` is synced, and nothing is behind it.
    pub(super) fn at(end: LogPosition) -> Flow {
        Flow {
            synced: end,
            written: end,
            committed: end,
            in_flight: None,
            writing: false,
            dirty: false,
            repeat: false,
            needs_repair: false,
        }
    }

    pub(super) fn committed(&self) -> LogPosition {
        self.committed
    }

    pub(super) fn is_in_flight_below(&self, end: Offset) -> bool {
        self.in_flight.is_some_and(|(_, in_flight_end)| end <= in_flight_end)
    }

    pub(super) fn assert_idle(&self, at: TopicPartition) {
        assert!(self.in_flight.is_none(), "{at}: a round is in flight: {self:?}");
    }
}

impl PartitionLog {
    /// What the next round should carry of this partition. Changes nothing.
    pub fn commit_share(&self) -> CommitShare {
        let (committed, to) = (self.flow.committed, self.tail.end());
        if to == committed && !self.flow.repeat {
            return CommitShare::Nothing;
        }
        if to.since(committed) >= DIRECT_RUN_BYTES && !self.flow.writing {
            let from = self.segments.block_floor(to);
            return CommitShare::Direct { from, to };
        }
        let from = if self.flow.repeat { self.flow.synced } else { committed };
        CommitShare::Journal { from, to }
    }

    /// The share was taken into a round.
    ///
    /// # Panics
    /// When a round with this partition is in flight.
    pub fn commit_begun(&mut self, share: CommitShare) {
        self.flow.assert_idle(self.at);
        let (CommitShare::Journal { to, .. } | CommitShare::Direct { to, .. }) = share else {
            panic!("{}: a round was begun with nothing of it", self.at);
        };
        assert!(
            to == self.tail.end(),
            "{}: a round takes {to:?} of {:?}",
            self.at,
            self.tail.end()
        );
        self.flow.in_flight = Some((to, self.marks.log_end()));
        self.flow.dirty = false;
    }

    /// The round in flight made this partition's run durable. `from` is where its run in the
    /// journal frame began.
    ///
    /// # Panics
    /// When no round with this partition is in flight.
    pub fn commit_done(&mut self, from: LogPosition) -> Committed {
        let Some((to, durable_end)) = self.flow.in_flight.take() else {
            panic!("{}: a round ended that this partition was not in", self.at);
        };
        if from <= self.flow.synced {
            self.flow.repeat = false;
        }
        let bytes = to.since(self.flow.committed);
        self.flow.committed = to;
        self.marks.durable(durable_end, None);
        Committed { bytes, durable_end }
    }

    /// The round in flight failed for this partition: its run is staged as before.
    pub fn commit_failed(&mut self) {
        self.flow.in_flight = None;
    }

    /// Bytes that a crash would lose.
    pub fn staged_bytes(&self) -> u64 {
        self.tail.end().since(self.flow.committed)
    }

    /// Bytes that are in memory and in the journal, but in no segment file.
    pub fn unwritten_bytes(&self) -> u64 {
        self.tail.end().since(self.flow.written)
    }

    /// Position below which segment files are durable.
    pub fn synced(&self) -> LogPosition {
        self.flow.synced
    }

    /// Position below which memory may be given back: readers find it in the files.
    pub fn evictable(&self) -> LogPosition {
        self.flow.written.min(self.flow.committed)
    }

    /// Marks the partition as listed by the group commit; false when it was listed before.
    pub fn mark_dirty(&mut self) -> bool {
        !std::mem::replace(&mut self.flow.dirty, true)
    }

    pub fn is_writing(&self) -> bool {
        self.flow.writing
    }

    /// The write behind the journal: all full blocks of what is committed, or, with `all`, also the
    /// unfinished last block (nothing may be appended afterwards). `None` when there is nothing to
    /// write, or a write is under way.
    pub fn plan_write_behind(&mut self, all: bool) -> Option<WritePlan> {
        let committed = self.flow.committed;
        let to = if all { committed } else { self.segments.block_floor(committed) };
        self.plan_write(to)
    }

    /// The write of a [`CommitShare::Direct`] up to `to`.
    pub fn plan_direct(&mut self, to: LogPosition) -> Option<WritePlan> {
        self.plan_write(to)
    }

    /// Copies a piece of a write plan into `into`, which is whole blocks, and zeroes the padding.
    pub fn fill(&self, piece: Piece, into: &mut [u8]) {
        let (bytes, padding) = into.split_at_mut(piece.len());
        self.tail.copy_to(piece.from, bytes);
        padding.fill(0);
    }

    /// A planned write has ended; when it went well, up to `wrote`.
    ///
    /// # Panics
    /// When none was under way.
    pub fn write_done(&mut self, wrote: Option<LogPosition>) {
        assert!(self.flow.writing, "{}: a write ended that had not begun", self.at);
        self.flow.writing = false;
        if let Some(to) = wrote {
            assert!(to >= self.flow.written, "{}: written goes back to {to:?}", self.at);
            self.flow.written = to;
        }
    }

    /// The files of these segments exist, and their names are durable.
    pub fn files_made(&mut self, made: &[SegmentId]) {
        for id in made {
            if let Some(segment) = self.segments.get_mut(*id)
                && segment.file == FileState::Missing
            {
                segment.file = FileState::Made;
            }
        }
    }

    /// The sync that makes everything written durable; `None` when it is already.
    pub fn plan_sync(&self) -> Option<SyncPlan> {
        let (synced, to) = (self.flow.synced, self.flow.written);
        if synced == to {
            return None;
        }
        let segments = self.segments.pieces(synced, to).map(|piece| piece.segment).collect();
        Some(SyncPlan { to, segments })
    }

    /// Segment files are durable below `to`.
    pub fn sync_done(&mut self, to: LogPosition) {
        assert!(to <= self.flow.written, "{}: synced {to:?} past {:?}", self.at, self.flow.written);
        self.flow.synced = self.flow.synced.max(to);
    }

    /// Asks that the next run repeat everything behind the last sync, so that older journal files
    /// are no longer needed. True when there is something to repeat: the partition must get into a
    /// round.
    pub fn repeat_in_journal(&mut self) -> bool {
        self.flow.repeat = self.flow.synced < self.flow.committed;
        self.flow.repeat
    }

    /// Bytes the next run would repeat.
    pub fn repeat_bytes(&self) -> u64 {
        self.flow.committed.since(self.flow.synced)
    }

    fn plan_write(&mut self, to: LogPosition) -> Option<WritePlan> {
        let from = self.flow.written;
        if to <= from || self.flow.writing {
            return None;
        }
        let mut plan = WritePlan { to, pieces: Vec::new(), make: Vec::new() };
        for piece in self.segments.pieces(from, to) {
            assert!(
                piece.position.is_block_aligned(),
                "{}: a write to segment {} would begin at {}, within a block",
                self.at,
                piece.segment,
                piece.position
            );
            let missing = |segment: &crate::segments::Segment| segment.file == FileState::Missing;
            if self.segments.get(piece.segment).is_some_and(missing) {
                plan.make.push(piece.segment);
            }
            plan.pieces.extend(cut(piece));
        }
        self.flow.writing = true;
        Some(plan)
    }
}

/// Cuts a piece into writes of bounded size.
fn cut(piece: Piece) -> impl Iterator<Item = Piece> {
    let mut from = piece.from;
    std::iter::from_fn(move || {
        if from == piece.to {
            return None;
        }
        let to = piece.to.min(from.add_len(WRITE_PIECE_BYTES));
        let skipped = from.since(piece.from);
        let position = FilePosition::new(piece.position.get() + skipped);
        let part = Piece { segment: piece.segment, position, from, to };
        from = to;
        Some(part)
    })
}

/// Bytes of the buffer that a piece is written from: whole blocks.
pub fn block_bytes(piece: Piece) -> usize {
    bytes_usize(FilePosition::new(piece.to.since(piece.from)).block_ceil().get())
}
