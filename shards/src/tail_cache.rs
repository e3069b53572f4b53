//! The newest bytes of one partition, in memory: staged for the commit, kept for tail readers.

mod walk;

pub(crate) use walk::max_timestamp_of;

use std::collections::VecDeque;

use bytes::{Buf, Bytes, BytesMut};
use millstream_io::gather::{Gather, SHARED_BYTES_MIN};
use millstream_io::limits::{BLOCK_BYTES, BLOCK_BYTES_U64};
use millstream_io::units::{FilePosition, Offset, bytes_u64, bytes_usize};

use crate::limits::{TAIL_CHUNK_BYTES_MAX, TAIL_CHUNK_BYTES_MIN};
use crate::position::LogPosition;

/// Whole batches in log order, `[start, end)` without a gap. Lives on the owner's core; readers
/// share its frozen chunks by reference count.
///
/// The newest chunk is open: a batch is copied into it once and stamped there. When a batch does
/// not fit, or a reader wants its bytes, what is in it is frozen. A new chunk is as large as the
/// partition has lately shown to need. A batch never straddles chunks.
#[derive(Debug)]
pub struct TailCache {
    frozen: VecDeque<TailChunk>,
    open: BytesMut,
    /// Where the open chunk's first byte stands, and the offset of its first batch.
    open_start: LogPosition,
    open_base: Offset,
    /// The next record gets this offset.
    next: Offset,
    capacity_next: usize,
    /// Memory of frozen chunks.
    frozen_bytes: u64,
}

#[derive(Clone, Debug)]
struct TailChunk {
    start: LogPosition,
    base: Offset,
    bytes: Bytes,
}

impl TailChunk {
    fn end(&self) -> LogPosition {
        self.start.add_len(self.bytes.len())
    }
}

/// One batch found by a walk over headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundBatch {
    pub start: LogPosition,
    pub base: Offset,
    /// Offset and position behind the batch.
    pub next: Offset,
    pub end: LogPosition,
}

impl TailCache {
    /// An empty tail of a log that ends at `end`, where the next record gets `next`.
    pub fn new(end: LogPosition, next: Offset) -> TailCache {
        TailCache {
            frozen: VecDeque::new(),
            open: BytesMut::new(),
            open_start: end,
            open_base: next,
            next,
            capacity_next: TAIL_CHUNK_BYTES_MIN,
            frozen_bytes: 0,
        }
    }

    /// Where the oldest byte in memory stands; the end when there is none.
    pub fn start(&self) -> LogPosition {
        self.frozen.front().map_or(self.open_start, |chunk| chunk.start)
    }

    /// Offset of the oldest batch in memory; the log end when there is none.
    pub fn base(&self) -> Offset {
        self.frozen.front().map_or(self.open_base, |chunk| chunk.base)
    }

    /// The log end.
    pub fn end(&self) -> LogPosition {
        self.open_start.add_len(self.open.len())
    }

    /// Memory held: the frozen chunks and the whole open one.
    pub fn memory_bytes(&self) -> u64 {
        self.frozen_bytes + bytes_u64(self.open.capacity())
    }

    /// Copies a batch of offsets `[base, next)` to the end, and gives the copy out to be stamped. It is
    /// to stand at `at` of its file: a large chunk lies in memory as it will in the file, block upon
    /// block, so that it can be written from there.
    ///
    /// Costs the copy, and one allocation a chunk.
    pub fn stage(
        &mut self,
        batch: &[u8],
        (base, next): (Offset, Offset),
        at: FilePosition,
    ) -> &mut [u8] {
        if self.open.capacity() - self.open.len() < batch.len() {
            self.open_next(batch.len(), at);
        }
        if self.open.is_empty() {
            self.open_base = base;
        }
        self.next = next;
        let at = self.open.len();
        self.open.extend_from_slice(batch);
        &mut self.open[at..]
    }

    /// Copies the bytes at `[from, from + into.len())`.
    ///
    /// # Panics
    /// When some of them are not in memory.
    pub fn copy_to(&self, from: LogPosition, into: &mut [u8]) {
        let to = from.add_len(into.len());
        let mut done = 0;
        for slice in self.slices(from, to) {
            into[done..done + slice.len()].copy_from_slice(slice);
            done += slice.len();
        }
        assert!(done == into.len(), "{done} of {} bytes are in the tail", into.len());
    }

    /// The bytes at `[from, to)` for a write to a file, in which the first stands at a block boundary.
    /// What is open is frozen when they are many.
    ///
    /// # Panics
    /// When some of them are not in memory, or there are none.
    pub fn gather(&mut self, from: LogPosition, to: LogPosition) -> Gather {
        if to.since(from) < bytes_u64(SHARED_BYTES_MIN) {
            return Gather::copied(&self.slices(from, to).collect::<Vec<_>>());
        }
        self.freeze_to(self.end());
        let first = self.frozen.partition_point(|chunk| chunk.end() <= from);
        let reached = self.frozen.range(first..).take_while(|chunk| chunk.start < to);
        let piece = |chunk: &TailChunk| {
            let skip = bytes_usize(from.max(chunk.start).since(chunk.start));
            let len = bytes_usize(to.min(chunk.end()).since(chunk.start));
            chunk.bytes.slice(skip..len)
        };
        let pieces: Vec<Bytes> = reached.map(piece).collect();
        let found: usize = pieces.iter().map(Bytes::len).sum();
        assert!(
            self.start() <= from && bytes_u64(found) == to.since(from),
            "{found} of the bytes from {from:?} to {to:?} are in the tail"
        );
        Gather::of(&pieces)
    }

    /// The bytes at `[from, to)` in pieces.
    ///
    /// # Panics
    /// When some of them are not in memory.
    pub fn slices(&self, from: LogPosition, to: LogPosition) -> impl Iterator<Item = &[u8]> {
        assert!(
            self.start() <= from && from <= to && to <= self.end(),
            "bytes {from:?} to {to:?} are asked of a tail that holds {:?} to {:?}",
            self.start(),
            self.end()
        );
        let first = self.chunk_of(from).unwrap_or(self.frozen.len());
        (first..=self.frozen.len()).map_while(move |i| {
            let (start, bytes) = self.piece(i);
            let end = start.add_len(bytes.len());
            let (from, to) = (from.max(start), to.min(end));
            (from < to)
                .then(|| &bytes[bytes_usize(from.since(start))..bytes_usize(to.since(start))])
        })
    }

    /// The bytes at `[from, to)`, shared; both must be batch boundaries. Freezes the open chunk up
    /// to `to` when it reaches into it. Many small chunks are gathered into one.
    ///
    /// # Panics
    /// When some of them are not in memory.
    pub fn share(&mut self, from: LogPosition, to: LogPosition, mut give: impl FnMut(Bytes)) {
        assert!(
            self.start() <= from && from <= to && to <= self.end(),
            "bytes {from:?} to {to:?} are asked of a tail that holds {:?} to {:?}",
            self.start(),
            self.end()
        );
        if from == to {
            return;
        }
        self.freeze_to(to);
        let first = self.frozen.partition_point(|chunk| chunk.end() <= from);
        let last = self.frozen.partition_point(|chunk| chunk.start < to);
        let chunks = bytes_u64(last - first);
        if chunks > GATHER_CHUNKS && to.since(from) / chunks < GATHER_BELOW_BYTES {
            let mut gathered = BytesMut::zeroed(bytes_usize(to.since(from)));
            self.copy_to(from, &mut gathered);
            give(gathered.freeze());
            return;
        }
        for chunk in self.frozen.range(first..last) {
            let skip = bytes_usize(from.max(chunk.start).since(chunk.start));
            let len = bytes_usize(to.min(chunk.end()).since(chunk.start));
            give(chunk.bytes.slice(skip..len));
        }
    }

    /// Forgets the bytes from `end` on, a batch boundary; the next record gets `next`. Nobody has
    /// seen them.
    pub fn refuse_from(&mut self, end: LogPosition, next: Offset) {
        assert!(self.start() <= end && end <= self.end(), "{end:?} is not in the tail");
        self.next = next;
        while let Some(chunk) = self.frozen.back_mut() {
            if chunk.end() <= end {
                break;
            }
            if chunk.start >= end {
                self.frozen_bytes -= bytes_u64(chunk.bytes.len());
                self.frozen.pop_back();
                continue;
            }
            let kept = bytes_usize(end.since(chunk.start));
            self.frozen_bytes -= bytes_u64(chunk.bytes.len() - kept);
            chunk.bytes.truncate(kept);
        }
        if self.open_start < end {
            self.open.truncate(bytes_usize(end.since(self.open_start)));
        } else {
            self.open = BytesMut::new();
            self.open_start = end;
            self.open_base = next;
        }
    }

    pub fn has_frozen(&self) -> bool {
        !self.frozen.is_empty()
    }

    /// Drops the oldest chunk if it lies wholly below `below`; says how many bytes that freed.
    pub fn evict_one(&mut self, below: LogPosition) -> Option<u64> {
        let chunk = self.frozen.front()?;
        if chunk.end() > below {
            return None;
        }
        let len = bytes_u64(chunk.bytes.len());
        self.frozen.pop_front();
        self.frozen_bytes -= len;
        Some(len)
    }

    /// Forgets everything in front of `position`, a batch boundary where the record of `offset` stands
    /// or will stand: readers find it in a file, where it is not the same any more.
    ///
    /// # Panics
    /// When the tail ends before.
    pub fn forget_below(&mut self, position: LogPosition, offset: Offset) {
        if position <= self.start() {
            return;
        }
        assert!(position <= self.end(), "{position:?} lies behind the tail's end {:?}", self.end());
        self.freeze_to(position);
        while let Some(chunk) = self.frozen.front_mut().filter(|chunk| chunk.start < position) {
            let gone = bytes_usize(position.min(chunk.end()).since(chunk.start));
            self.frozen_bytes -= bytes_u64(gone);
            if gone == chunk.bytes.len() {
                self.frozen.pop_front();
                continue;
            }
            let bytes = chunk.bytes.slice(gone..);
            *chunk = TailChunk { start: position, base: offset, bytes };
        }
        if self.open_start == position {
            self.open_base = offset;
        }
    }

    /// Gives back the memory of an open chunk that the partition has stopped filling.
    pub fn shrink(&mut self) {
        self.capacity_next = TAIL_CHUNK_BYTES_MIN;
        let waste = self.open.capacity() - self.open.len();
        if waste >= TAIL_CHUNK_BYTES_MIN {
            let kept = BytesMut::from(&self.open[..]);
            self.open = kept;
        }
    }

    /// Makes room for `len` bytes in a fresh open chunk, whose first is to stand at `at` of its file.
    fn open_next(&mut self, len: usize, at: FilePosition) {
        let filled = !self.open.is_empty();
        self.freeze_to(self.end());
        let capacity = self.capacity_next.max(len);
        if filled {
            self.capacity_next = (self.capacity_next * 2).min(TAIL_CHUNK_BYTES_MAX);
        }
        self.open = if capacity < CHUNK_BYTES_IN_PLACE {
            BytesMut::with_capacity(capacity)
        } else {
            in_place(capacity, at)
        };
    }

    /// Moves the open chunk's bytes below `to` to a frozen chunk of their own.
    fn freeze_to(&mut self, to: LogPosition) {
        if to <= self.open_start {
            return;
        }
        let len = bytes_usize(to.since(self.open_start));
        let bytes = self.open.split_to(len).freeze();
        self.frozen_bytes += bytes_u64(len);
        let chunk = TailChunk { start: self.open_start, base: self.open_base, bytes };
        self.open_start = to;
        if !self.open.is_empty() {
            self.open_base = walk::base_at(&self.open);
        }
        self.frozen.push_back(chunk);
    }

    /// The frozen chunk that holds the byte at `at`; `None` when it is in the open one.
    fn chunk_of(&self, at: LogPosition) -> Option<usize> {
        let i = self.frozen.partition_point(|chunk| chunk.end() <= at);
        (i < self.frozen.len()).then_some(i)
    }

    /// Chunk `i` in log order, the open one last.
    fn piece(&self, i: usize) -> (LogPosition, &[u8]) {
        match self.frozen.get(i) {
            Some(chunk) => (chunk.start, &chunk.bytes),
            None => (self.open_start, &self.open),
        }
    }
}

/// Room for `capacity` bytes, of which the first lies as far behind a block boundary of memory as `at`
/// does in the file.
fn in_place(capacity: usize, at: FilePosition) -> BytesMut {
    let mut room = BytesMut::with_capacity(capacity + BLOCK_BYTES);
    let behind = bytes_usize(at.get() % BLOCK_BYTES_U64);
    let skip = behind.wrapping_sub(room.as_ptr().addr()) % BLOCK_BYTES;
    room.resize(skip, 0);
    room.advance(skip);
    room
}

/// Chunks of this size and more are placed in memory so that they can be written from there.
const CHUNK_BYTES_IN_PLACE: usize = 64 * 1024;

/// More chunks than this in one answer are gathered when they are smaller than
/// [`GATHER_BELOW_BYTES`] on average: a copy costs less than a long vector of tiny writes.
const GATHER_CHUNKS: u64 = 16;
const GATHER_BELOW_BYTES: u64 = 8 * 1024;

#[cfg(test)]
#[path = "tail_cache/tail_cache_tests.rs"]
mod tail_cache_tests;
