//! The segments of one partition: which bytes and offsets each holds, and how far its file is.

use std::collections::VecDeque;
use std::sync::Arc;

use millstream_io::indexes::Indexes;
use millstream_io::segment::SegmentMeta;
use millstream_io::sparse_index::BatchStart;
use millstream_io::units::{FilePosition, Offset, SegmentId, TimestampMs, bytes_u64, bytes_usize};

use crate::position::LogPosition;

/// The segments from the log start to the log end, without a gap. Lives on the owner's core.
///
/// Only the last one grows, and only if this process opened it: a segment found by recovery is
/// never appended to again.
#[derive(Debug, Default)]
pub struct Segments {
    list: VecDeque<Segment>,
}

/// One segment.
#[derive(Debug)]
pub struct Segment {
    pub id: SegmentId,
    /// Where its first byte stands in the log.
    pub start: LogPosition,
    /// Exact length of its batches, those still in memory included.
    pub bytes: u64,
    /// What it takes of the run of positions, when that is not its length: a cleaned segment keeps the
    /// place of those that it stands for, so that no position behind it moves. Within it, a position is
    /// a byte of its file, as far as those go that there are.
    pub span: Option<u64>,
    /// Offset behind its last record.
    pub next: Offset,
    /// No record of it has a later timestamp.
    pub max_timestamp: TimestampMs,
    /// Largest timestamp of its first batch; none when this process did not open it.
    pub first_timestamp: TimestampMs,
    /// The owner's time at its first record.
    pub opened_at: TimestampMs,
    /// The owner's time at its last record.
    pub appended_at: TimestampMs,
    pub index: Index,
    pub file: FileState,
    /// No more is appended to it.
    pub closed: bool,
}

/// Where a segment's index is.
#[derive(Debug)]
pub enum Index {
    /// Growing with the segment, or waiting for the segment to be sealed.
    Memory(Indexes),
    /// In its file; a copy is kept while the cache has room.
    File(Option<Arc<Indexes>>),
}

/// How far the file of a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileState {
    /// It has no file yet: its bytes are in memory and in the journal.
    Missing,
    /// Making the file failed half-way: it may exist, empty, under a name that is not durable.
    Tried,
    /// The file exists, and its name is durable.
    Made,
    /// Exact length, indexes written, all of it synced. It never changes again.
    Sealed,
}

impl Segment {
    pub fn end(&self) -> LogPosition {
        self.start.add(self.span.unwrap_or(self.bytes))
    }

    /// Its index, if that is in memory.
    pub fn index(&self) -> Option<&Indexes> {
        match &self.index {
            Index::Memory(index) => Some(index),
            Index::File(index) => index.as_deref(),
        }
    }

    /// The byte of the file that holds the log's byte at `at`. The end of a cleaned segment is the end
    /// of its file, be that shorter or, with delete horizons in it, longer than its place.
    pub fn file_position(&self, at: LogPosition) -> FilePosition {
        if at == self.end() {
            return FilePosition::new(self.bytes);
        }
        FilePosition::new(at.since(self.start).min(self.bytes))
    }

    /// Where the batch that ends at byte `end` of its file ends in the log.
    pub fn position_behind(&self, end: FilePosition) -> LogPosition {
        if end.get() == self.bytes { self.end() } else { self.start.add(end.get()) }
    }
}

/// A stretch of the log within one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub segment: SegmentId,
    pub position: FilePosition,
    pub from: LogPosition,
    pub to: LogPosition,
}

impl Piece {
    pub fn len(&self) -> usize {
        bytes_usize(self.to.since(self.from))
    }

    pub fn is_empty(&self) -> bool {
        self.from == self.to
    }
}

/// Files that hold refused bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// Files to be removed.
    pub remove: Vec<SegmentId>,
    /// The file to be cut, and its length then.
    pub cut: Option<(SegmentId, FilePosition)>,
}

impl Repair {
    pub fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.cut.is_none()
    }
}

impl Segments {
    pub fn new() -> Segments {
        Segments::default()
    }

    /// Takes a segment that recovery found behind those it already has.
    ///
    /// # Panics
    /// When there is a gap or an overlap.
    pub fn push(&mut self, segment: Segment) {
        if let Some(last) = self.list.back_mut() {
            assert!(
                last.end() == segment.start && last.next <= segment.id.base,
                "segment {} starts at {:?}, the one before ends at {:?} with offset {}",
                segment.id,
                segment.start,
                last.end(),
                last.next
            );
            last.closed = true;
        }
        self.list.push_back(segment);
    }

    /// Opens the next segment at the log end. One that never got a byte makes room.
    pub fn open(&mut self, id: SegmentId, start: LogPosition, now: TimestampMs) {
        if self.list.back().is_some_and(|last| last.bytes == 0 && last.file == FileState::Missing) {
            self.list.pop_back();
        }
        self.push(Segment {
            id,
            start,
            bytes: 0,
            span: None,
            next: id.base,
            max_timestamp: TimestampMs::NONE,
            first_timestamp: TimestampMs::NONE,
            opened_at: now,
            appended_at: now,
            index: Index::Memory(Indexes::new(id)),
            file: FileState::Missing,
            closed: false,
        });
    }

    /// Adds a batch to the last segment, at the owner's time `now`.
    ///
    /// # Panics
    /// When that is closed, or there is none.
    pub fn append(
        &mut self,
        base: Offset,
        next: Offset,
        len: usize,
        max_timestamp: TimestampMs,
        now: TimestampMs,
    ) {
        let Some(segment) = self.list.back_mut().filter(|segment| !segment.closed) else {
            panic!("offset {base} is appended without an open segment");
        };
        let Index::Memory(index) = &mut segment.index else {
            panic!("open segment {} has its index in a file", segment.id);
        };
        let batch = BatchStart { base, at: FilePosition::new(segment.bytes) };
        index.note(batch, max_timestamp);
        if segment.bytes == 0 {
            (segment.first_timestamp, segment.opened_at) = (max_timestamp, now);
        }
        segment.appended_at = now;
        segment.max_timestamp = segment.max_timestamp.max(max_timestamp);
        segment.bytes += bytes_u64(len);
        segment.next = next;
    }

    pub fn last(&self) -> Option<&Segment> {
        self.list.back()
    }

    pub fn first(&self) -> Option<&Segment> {
        self.list.front()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.list.iter()
    }

    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Segment> {
        self.list.iter_mut()
    }

    /// Segments that are not sealed, oldest first. Costs a step for each of them.
    pub fn unsealed(&self) -> impl Iterator<Item = &Segment> {
        let is_open = |segment: &&Segment| segment.file < FileState::Sealed;
        let count = self.list.iter().rev().take_while(is_open).count();
        self.list.range(self.list.len() - count..)
    }

    pub fn get(&self, id: SegmentId) -> Option<&Segment> {
        let i = self.list.partition_point(|segment| segment.id < id);
        self.list.get(i).filter(|segment| segment.id == id)
    }

    pub fn get_mut(&mut self, id: SegmentId) -> Option<&mut Segment> {
        let i = self.list.partition_point(|segment| segment.id < id);
        self.list.get_mut(i).filter(|segment| segment.id == id)
    }

    /// The segment that holds the byte at `at`, or, at the log end, the last one.
    pub fn at_position(&self, at: LogPosition) -> Option<&Segment> {
        let i = self.list.partition_point(|segment| segment.end() <= at);
        self.list.get(i).or_else(|| self.list.back().filter(|last| last.end() == at))
    }

    /// The segment whose offsets include `offset`, or the first one behind it.
    pub fn at_offset(&self, offset: Offset) -> Option<&Segment> {
        let i = self.list.partition_point(|segment| segment.next <= offset);
        self.list.get(i)
    }

    /// Bytes of all segments.
    pub fn bytes(&self) -> u64 {
        self.list.iter().map(|segment| segment.bytes).sum()
    }

    /// The last block boundary at or below `at`, in the file of the segment that `at` is in. The
    /// end of a closed segment counts as a boundary: its last block is written once, padded.
    pub fn block_floor(&self, at: LogPosition) -> LogPosition {
        match self.at_position(at) {
            Some(segment) if segment.end() == at && segment.closed => at,
            Some(segment) => {
                let floor = segment.file_position(at).block_floor();
                segment.start.add(floor.get())
            }
            None => at,
        }
    }

    /// `[from, to)` cut at the segments. Nothing has no pieces, also in the middle of a segment.
    pub fn pieces(&self, from: LogPosition, to: LogPosition) -> impl Iterator<Item = Piece> {
        let first = self.list.partition_point(|segment| segment.end() <= from);
        let reached = move |segment: &&Segment| from < to && segment.start < to;
        let within = self.list.range(first..).take_while(reached);
        within.map(move |segment| {
            let (from, to) = (from.max(segment.start), to.min(segment.end()));
            Piece { segment: segment.id, position: segment.file_position(from), from, to }
        })
    }

    /// Forgets the bytes from `end` on, and the segments that began there; says which files must be
    /// put right before anything is written again.
    ///
    /// # Panics
    /// When that would touch a sealed segment: what is sealed is durable.
    pub fn refuse_from(&mut self, end: LogPosition, next: Offset) -> Repair {
        let mut repair = Repair::default();
        while let Some(last) = self.list.back_mut().filter(|last| last.end() > end) {
            assert!(last.file < FileState::Sealed, "sealed segment {} is refused", last.id);
            let made = last.file == FileState::Made;
            if last.start >= end {
                let may_exist = last.file != FileState::Missing;
                repair.remove.extend(may_exist.then_some(last.id));
                self.list.pop_back();
                continue;
            }
            last.bytes = end.since(last.start);
            last.next = next;
            last.closed = false;
            let len = FilePosition::new(last.bytes);
            if let Index::Memory(index) = &mut last.index {
                index.cut(len, next);
            }
            repair.cut = made.then_some((last.id, len));
        }
        repair
    }

    /// Takes the last segment off when it never got a byte.
    pub fn pop_empty(&mut self) {
        if self.list.back().is_some_and(|last| last.bytes == 0) {
            self.list.pop_back();
        }
    }

    /// Puts a cleaned segment in the place of those that it stands for. Says where that ends.
    ///
    /// # Panics
    /// When those are not sealed neighbours, or do not end where it ends.
    pub fn replace(
        &mut self,
        old: &[SegmentId],
        new: &SegmentMeta,
        index: Index,
    ) -> (LogPosition, Offset) {
        let first = old.first().map(|first| self.list.partition_point(|held| held.id < *first));
        let Some(first) = first else { panic!("segment {} takes nobody's place", new.id) };
        let range = first..first + old.len();
        let held = || self.list.range(range.clone()).map(|held| held.id);
        assert!(
            range.end <= self.list.len() && held().eq(old.iter().copied()),
            "segment {} is to stand for {old:?}, of which some are gone",
            new.id
        );
        let (oldest, newest) = (&self.list[first], &self.list[range.end - 1]);
        let (start, end, next) = (oldest.start, newest.end(), newest.next);
        assert!(
            newest.file == FileState::Sealed && next == new.next && oldest.id.base == new.id.base,
            "segment {} ends at {} and is to stand for {old:?} up to {next}",
            new.id,
            new.next
        );
        let segment = Segment {
            id: new.id,
            start,
            bytes: new.log_bytes.get(),
            span: Some(end.since(start)),
            next,
            max_timestamp: new.max_timestamp,
            first_timestamp: oldest.first_timestamp,
            opened_at: oldest.opened_at,
            appended_at: newest.appended_at,
            index,
            file: FileState::Sealed,
            closed: true,
        };
        drop(self.list.drain(range));
        self.list.insert(first, segment);
        (end, next)
    }

    /// Takes the oldest segment off: its records were given up.
    pub fn pop_first(&mut self) -> Option<Segment> {
        self.list.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_io::units::LeaderEpoch;

    #[test]
    fn nothing_has_no_pieces_wherever_it_lies() {
        let (now, mut segments) = (TimestampMs::new(1), Segments::default());
        let base = Offset::at(0);
        segments.open(SegmentId::new(LeaderEpoch::at(0), base), LogPosition::ZERO, now);
        segments.append(base, Offset::at(1), 4096, now, now);
        segments.append(Offset::at(1), Offset::at(2), 100, now, now);
        let cut = |from, to| {
            let at = |bytes| LogPosition::ZERO.add(bytes);
            segments.pieces(at(from), at(to)).map(|piece| piece.len()).collect::<Vec<_>>()
        };
        assert_eq!(cut(0, 4096), [4096]);
        for at in [0, 4096, 4196] {
            assert_eq!(cut(at, at), [] as [usize; 0], "a large run ends there, with more behind");
        }
    }
}
