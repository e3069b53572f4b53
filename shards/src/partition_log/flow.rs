//! How the bytes of a partition flow from memory to the journal and to the segment files.
//!
//! A block of a segment is written when it is full, once. Only to let an old journal file go is an
//! unfinished last block written, padded; it will be written again with more in it. Were that
//! second write torn, the bytes of the first could be lost with it. So from then on the *guard* is
//! up: the next run in the journal begins at the start of that block, and until it is durable
//! nothing is written to the segment.

use millstream_io::gather::Gather;
use millstream_io::units::{FilePosition, Offset, SegmentId, TopicPartition};

use crate::limits::WRITE_PIECE_BYTES;
use crate::message::Isolation;
use crate::position::LogPosition;
use crate::segments::{FileState, Piece};

use super::PartitionLog;

/// The positions of one partition's flow, and who is at work on it.
#[derive(Debug)]
pub(super) struct Flow {
    /// Durable in segment files; a block boundary of its segment, or a segment's end.
    synced: LogPosition,
    /// In segment files; likewise.
    written: LogPosition,
    /// Durable, in the journal where not synced; a batch boundary.
    committed: LogPosition,
    /// Where readers of committed records stopped before the last round.
    stable: LogPosition,
    /// What the round in flight commits, if this partition is in it.
    in_flight: Option<(LogPosition, Offset)>,
    /// A write to the segment files is under way.
    writing: bool,
    /// The last write planned touches no file that ends at or below this.
    writing_from: LogPosition,
    /// The group commit has this partition in its list.
    dirty: bool,
    /// Start of the unfinished block that is, or is being, written padded.
    guard: Option<LogPosition>,
    /// End of what a padded write made durable in a segment file; at most `committed`.
    padded: LogPosition,
    /// The last batch boundary at or below what is durable in segment files.
    synced_end: (Offset, LogPosition),
    pub(super) needs_repair: bool,
}

/// What a partition puts in a commit round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitShare {
    /// Nothing is staged.
    Nothing,
    /// `[from, to)` goes into the journal frame, and nothing stays behind.
    Journal { from: LogPosition, to: LogPosition },
    /// `[from, to)`, committed already, is repeated to take the guard down; what is staged waits
    /// for the next round.
    Repeat { from: LogPosition, to: LogPosition },
    /// The full blocks up to `from` go straight to the segment files; only `[from, to)` goes into
    /// the frame.
    Direct { from: LogPosition, to: LogPosition },
}

/// What became durable with a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Bytes that became readable.
    pub bytes: u64,
    /// Bytes that became readable for readers of committed records.
    pub stable_bytes: u64,
    pub durable_end: Offset,
}

/// How far a write to the segment files goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteMode {
    /// The full blocks of what is committed, to give memory back; not synced.
    Relief,
    /// Everything committed, synced, to let journal files go. While this partition is in a round
    /// in flight only the full blocks.
    Checkpoint,
    /// The full blocks up to the end of a direct run, synced.
    Direct { to: LogPosition },
}

/// A write to segment files: make, write the pieces, then sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritePlan {
    /// Whole blocks, cut at segments and at the size of a write; the last may need padding.
    pub pieces: Vec<Piece>,
    /// Segments whose files must be made first, in order.
    pub make: Vec<SegmentId>,
    /// Segments whose files must be synced at the end, in order.
    pub sync: Vec<SegmentId>,
    /// Everything below this offset is durable in the segments then, if something is synced.
    pub end: Offset,
    /// Position of the batch that starts, or will start, at `end`.
    end_at: LogPosition,
    to: LogPosition,
    /// `to` without an unfinished block.
    floor: LogPosition,
}

impl WritePlan {
    /// Bytes of log in it.
    pub fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.to.since(piece.from)).sum()
    }
}

impl Flow {
    /// Everything below `end` is synced, and nothing is behind it.
    pub(super) fn at(end: LogPosition, next: Offset) -> Flow {
        Flow {
            synced: end,
            written: end,
            committed: end,
            stable: LogPosition::ZERO,
            in_flight: None,
            writing: false,
            writing_from: end,
            dirty: false,
            guard: None,
            padded: end,
            synced_end: (next, end),
            needs_repair: false,
        }
    }

    pub(super) fn committed(&self) -> LogPosition {
        self.committed
    }

    /// Readers of committed records come at least so far.
    pub(super) fn stable(&self) -> LogPosition {
        self.stable
    }

    pub(super) fn is_in_flight_below(&self, end: Offset) -> bool {
        self.in_flight.is_some_and(|(_, in_flight_end)| end <= in_flight_end)
    }

    #[track_caller]
    pub(super) fn assert_idle(&self, at: TopicPartition) {
        assert!(self.in_flight.is_none(), "{at}: a round is in flight: {self:?}");
    }
}

impl PartitionLog {
    /// What the next round should carry of this partition; a run of `direct_bytes` goes straight to
    /// the segments. Changes nothing.
    pub fn commit_share(&self, direct_bytes: u64) -> CommitShare {
        let Flow { committed, guard, writing, .. } = self.flow;
        let to = self.tail.end();
        if to == committed {
            return CommitShare::Nothing;
        }
        let from = guard.unwrap_or(committed);
        if to.since(committed) < direct_bytes || writing {
            return CommitShare::Journal { from, to };
        }
        if guard.is_some() {
            return CommitShare::Repeat { from, to: committed };
        }
        CommitShare::Direct { from: self.segments.block_floor(to), to }
    }

    /// True when nothing is staged, and nothing is on its way.
    pub fn has_nothing_to_commit(&self) -> bool {
        !self.is_in_flight() && self.staged_bytes() == 0
    }

    /// The share was taken into a round.
    ///
    /// # Panics
    /// When a round with this partition is in flight.
    pub fn commit_begun(&mut self, share: CommitShare) {
        self.flow.assert_idle(self.at);
        self.flow.in_flight = match share {
            CommitShare::Nothing => panic!("{}: a round was begun with nothing of it", self.at),
            CommitShare::Repeat { to, .. } => Some((to, self.marks.durable_end())),
            CommitShare::Journal { to, .. } | CommitShare::Direct { to, .. } => {
                assert!(to == self.tail.end(), "{}: {to:?} of {:?}", self.at, self.tail.end());
                self.flow.dirty = false;
                Some((to, self.marks.log_end()))
            }
        };
    }

    /// The round in flight made this partition's share durable. `from` is where its run in the
    /// journal frame began.
    ///
    /// # Panics
    /// When no round with this partition is in flight.
    pub fn commit_done(&mut self, from: LogPosition) -> Committed {
        let Some((to, durable_end)) = self.flow.in_flight.take() else {
            panic!("{}: a round ended that this partition was not in", self.at);
        };
        self.flow.guard = self.flow.guard.filter(|block| from > *block);
        let bytes = to.since(self.flow.committed);
        let stable = self.readable(Isolation::ReadCommitted).1;
        (self.flow.committed, self.flow.stable) = (to, stable);
        self.producers.settle(durable_end);
        let first_unstable = self.producers.first_unstable().map(|open| open.first);
        self.marks.durable(durable_end, first_unstable);
        let stable_bytes = self.readable(Isolation::ReadCommitted).1.since(stable);
        Committed { bytes, stable_bytes, durable_end }
    }

    /// The round in flight failed for this partition: its share is staged as before.
    pub fn commit_failed(&mut self) {
        self.flow.in_flight = None;
    }

    /// End offset of the share in the round in flight.
    ///
    /// # Panics
    /// When this partition is in none.
    pub fn in_flight_end(&self) -> Offset {
        match self.flow.in_flight {
            Some((_, end)) => end,
            None => panic!("{}: no round is in flight", self.at),
        }
    }

    /// Bytes that a crash would lose.
    pub fn staged_bytes(&self) -> u64 {
        self.tail.end().since(self.flow.committed)
    }

    /// Durable bytes that are in memory and in the journal, but in no segment file.
    pub fn unwritten_bytes(&self) -> u64 {
        self.flow.committed.get().saturating_sub(self.flow.written.get())
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

    /// True when no write under way touches files below `end`, the end of a sealed segment.
    pub fn is_free_of_writes(&self, end: LogPosition) -> bool {
        !self.flow.writing || end <= self.flow.writing_from
    }

    /// True when nothing is staged, in flight, or only in the journal.
    pub fn is_settled(&self) -> bool {
        let Flow { synced, padded, committed, writing, in_flight, .. } = &self.flow;
        let durable = *synced.max(padded) == *committed;
        durable && !writing && in_flight.is_none() && self.staged_bytes() == 0
    }

    /// A write to the segment files, to be ended by [`PartitionLog::write_done`]. `None` when there
    /// is nothing to do, a write is under way, the guard is up, or the directory is being made.
    pub fn plan_write(&mut self, mode: WriteMode) -> Option<WritePlan> {
        let Flow { synced, written: from, committed, .. } = self.flow;
        let must_wait = self.tasks.must_wait_for_home();
        if self.flow.writing || self.flow.guard.is_some() || must_wait {
            return None;
        }
        let in_flight = self.flow.in_flight.is_some();
        let to = match mode {
            WriteMode::Direct { to } => to,
            WriteMode::Checkpoint if !in_flight => committed,
            WriteMode::Relief | WriteMode::Checkpoint => self.segments.block_floor(committed),
        };
        let synced_from = if mode == WriteMode::Relief { from } else { synced };
        if to <= synced_from {
            return None;
        }
        let floor = self.segments.block_floor(to);
        let (end, end_at) = self.boundary_below(to);
        let mut plan = WritePlan {
            pieces: Vec::new(),
            make: Vec::new(),
            sync: Vec::new(),
            end,
            end_at,
            to,
            floor,
        };
        self.list_pieces(from.min(to), to, &mut plan);
        if mode != WriteMode::Relief {
            plan.sync = self.segments.pieces(synced, to).map(|piece| piece.segment).collect();
        }
        self.flow.writing = true;
        self.flow.writing_from = synced.min(from);
        self.flow.guard = (floor < to).then_some(floor);
        Some(plan)
    }

    /// The bytes of a piece of a write plan: whole blocks, padded with zeros.
    pub fn gather(&mut self, piece: Piece) -> Gather {
        self.tail.gather(piece.from, piece.to)
    }

    /// The files of these segments are at least so far.
    pub fn files_made(&mut self, segments: &[SegmentId], state: FileState) {
        for id in segments {
            if let Some(segment) = self.segments.get_mut(*id) {
                segment.file = segment.file.max(state);
            }
        }
    }

    /// A planned write has ended, well or badly.
    ///
    /// # Panics
    /// When none was under way.
    pub fn write_done(&mut self, plan: &WritePlan, well: bool) {
        assert!(self.flow.writing, "{}: a write ended that had not begun", self.at);
        self.flow.writing = false;
        if !well {
            // The journal has not been told of a sync, so it still holds the block.
            self.flow.guard = None;
            return;
        }
        self.flow.written = self.flow.written.max(plan.floor);
        if !plan.sync.is_empty() {
            self.flow.synced = self.flow.synced.max(plan.floor);
            self.flow.padded = self.flow.padded.max(plan.to);
            self.note_synced(plan.end, plan.end_at);
        }
        // An end between two segments is final: the last one was closed, though nothing follows yet.
        let committed = self.flow.committed;
        if self.tasks.is_closed() || self.segments.block_floor(committed) == committed {
            self.settle_padded();
        }
    }

    /// A segment is sealed, and so are all before it: it is durable up to its end.
    pub(super) fn note_sealed(&mut self, end: LogPosition, next: Offset) {
        self.flow.synced = self.flow.synced.max(end);
        self.note_synced(next, end);
    }

    /// Nothing is appended to the last bytes any more: an unfinished block that was written padded is
    /// final. Not while a round is in flight, which takes the guard down itself and needs the bytes.
    pub(super) fn settle_padded(&mut self) {
        if self.flow.guard.is_some()
            && self.flow.padded == self.flow.committed
            && !self.flow.writing
            && self.flow.in_flight.is_none()
        {
            self.flow.guard = None;
            self.flow.written = self.flow.padded;
            self.flow.synced = self.flow.padded;
        }
    }

    /// What is durable in segment files, at a batch boundary.
    pub fn synced_end(&self) -> (Offset, LogPosition) {
        self.flow.synced_end
    }

    /// True when everything below `end`, the end of a segment, is durable in segment files.
    pub(super) fn is_synced_to(&self, end: LogPosition) -> bool {
        self.flow.synced >= end
    }

    pub fn committed(&self) -> LogPosition {
        self.flow.committed
    }

    pub fn is_in_flight(&self) -> bool {
        self.flow.in_flight.is_some()
    }

    /// The group commit has taken the partition off its list.
    pub fn clear_dirty(&mut self) {
        self.flow.dirty = false;
    }

    fn note_synced(&mut self, next: Offset, at: LogPosition) {
        if at > self.flow.synced_end.1 {
            self.flow.synced_end = (next, at);
        }
    }

    /// The last batch boundary at or below `to`.
    fn boundary_below(&self, to: LogPosition) -> (Offset, LogPosition) {
        if to == self.flow.committed {
            return (self.marks.durable_end(), to);
        }
        let start = self.tail.start();
        assert!(start <= to, "{}: {to:?} was given back, the tail starts at {start:?}", self.at);
        let at = self.tail.cut(start, to);
        (self.tail.offset_at(at), at)
    }

    fn list_pieces(&self, from: LogPosition, to: LogPosition, plan: &mut WritePlan) {
        for piece in self.segments.pieces(from, to) {
            assert!(
                piece.position.is_block_aligned(),
                "{}: a write to segment {} would begin at {}, within a block",
                self.at,
                piece.segment,
                piece.position
            );
            let segment = self.segments.get(piece.segment);
            if segment.is_some_and(|segment| segment.file < FileState::Made) {
                plan.make.push(piece.segment);
            }
            plan.pieces.extend(cut(piece));
        }
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
