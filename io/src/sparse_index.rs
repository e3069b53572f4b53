//! The `.index` of a segment: from an offset to a place at or before its batch.
//!
//! ```text
//!  at  bytes  field of one entry (8 bytes, ascending)
//!   0    4    base offset of a batch, relative to the segment's base
//!   4    4    file position at which that batch starts
//! ```
//! behind them the footer of [`crate::index_footer`]. Every entry names the start of a batch, so
//! that a cut of a file range at an entry is a cut between batches. The first batch of the segment
//! has no entry: it is known.

use crate::index_footer::{
    Coverage, FOOTER_BYTES, IndexDamage, IndexKind, seal_entries, split_entries,
};
use crate::limits::{INDEX_ENTRY_BYTES, INDEX_INTERVAL_BYTES};
use crate::units::{FilePosition, Offset, SegmentId};

/// The sparse index of one segment, in memory. Owned by the core that owns the partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SparseIndex {
    segment: SegmentId,
    entries: Vec<Entry>,
}

/// Start of one batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchStart {
    pub base: Offset,
    pub at: FilePosition,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    relative: u32,
    position: u32,
}

impl SparseIndex {
    pub fn new(segment: SegmentId) -> SparseIndex {
        SparseIndex { segment, entries: Vec::new() }
    }

    pub fn segment(&self) -> SegmentId {
        self.segment
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Tells the index of the next batch of the segment. Adds an entry when the last one is an
    /// interval of 4 KiB away; says whether it did.
    ///
    /// # Panics
    /// When offset or position do not rise, or do not fit 32 bits: segments are rolled before.
    pub fn note(&mut self, batch: BatchStart) -> bool {
        let last = self.last();
        assert!(
            batch.base > last.base || batch.at == last.at,
            "{}: batch {batch:?} does not lie behind {last:?}",
            self.segment
        );
        if batch.at.since(last.at) < INDEX_INTERVAL_BYTES {
            return false;
        }
        self.push(batch);
        true
    }

    /// As [`SparseIndex::note`], but adds an entry in any case: behind damage, where a walk from
    /// the entry before cannot pass.
    pub fn force(&mut self, batch: BatchStart) {
        let last = self.last();
        if batch.at > last.at && batch.base >= last.base {
            self.push(batch);
        }
    }

    /// The last noted batch that starts at or before `target`; the start of the segment when no
    /// entry does. The batch that holds `target` starts there or behind.
    pub fn floor(&self, target: Offset) -> BatchStart {
        let Some(relative) = target.checked_since(self.segment.base) else { return self.start() };
        let above = self.entries.partition_point(|e| u64::from(e.relative) <= relative);
        self.before(above)
    }

    /// The last noted batch that starts at or before byte `limit`.
    pub fn floor_position(&self, limit: FilePosition) -> BatchStart {
        let above = self.entries.partition_point(|e| u64::from(e.position) <= limit.get());
        self.before(above)
    }

    /// The first noted batch that starts behind byte `at`.
    pub fn first_behind(&self, at: FilePosition) -> Option<BatchStart> {
        let above = self.entries.partition_point(|e| u64::from(e.position) <= at.get());
        (above < self.entries.len()).then(|| self.before(above + 1))
    }

    /// Forgets batches that start at or behind `end`.
    pub fn truncate(&mut self, end: FilePosition) {
        let keep = self.entries.partition_point(|e| u64::from(e.position) < end.get());
        self.entries.truncate(keep);
    }

    /// Every entry, ascending.
    pub fn entries(&self) -> impl Iterator<Item = BatchStart> + '_ {
        (1..=self.entries.len()).map(|i| self.before(i))
    }

    /// The last entry, or the start of the segment.
    pub fn last(&self) -> BatchStart {
        self.before(self.entries.len())
    }

    /// The whole file. `copy` is the log's last unfinished block, when the segment is sealed.
    ///
    /// # Panics
    /// When it is not as long as the coverage says.
    pub fn encode(&self, coverage: Coverage, copy: &[u8]) -> Vec<u8> {
        let copied = coverage.copied();
        assert!(copy.len() == copied, "{}: {} bytes of {copied}", self.segment, copy.len());
        let bytes = self.entries.len() * INDEX_ENTRY_BYTES + copied + FOOTER_BYTES;
        let mut bytes = Vec::with_capacity(bytes);
        for entry in &self.entries {
            bytes.extend_from_slice(&entry.relative.to_be_bytes());
            bytes.extend_from_slice(&entry.position.to_be_bytes());
        }
        let covers = (coverage, copy);
        seal_entries(bytes, INDEX_ENTRY_BYTES, IndexKind::Sparse, self.segment, covers)
    }

    /// Reads a whole file, which must be the index of `segment`, whose log is `log_bytes` long.
    ///
    /// # Errors
    /// [`IndexDamage`] when it is anything else.
    pub fn decode(
        bytes: &[u8],
        segment: SegmentId,
        log_bytes: FilePosition,
    ) -> Result<(SparseIndex, Coverage), IndexDamage> {
        let kind = IndexKind::Sparse;
        let (footer, raw, _) = split_entries(bytes, INDEX_ENTRY_BYTES, kind, segment, log_bytes)?;
        let mut entries = Vec::with_capacity(raw.len() / INDEX_ENTRY_BYTES);
        let mut last = Entry { relative: 0, position: 0 };
        for (i, raw) in raw.as_chunks::<INDEX_ENTRY_BYTES>().0.iter().enumerate() {
            let entry = Entry {
                relative: u32::from_be_bytes([raw[0], raw[1], raw[2], raw[3]]),
                position: u32::from_be_bytes([raw[4], raw[5], raw[6], raw[7]]),
            };
            // Offsets repeat only where the first batch was damaged.
            let rises = entry.relative >= last.relative && entry.position > last.position;
            let covered = u64::from(entry.position) < footer.coverage.log_bytes.get();
            if !rises || !covered {
                return Err(IndexDamage::Disorder { entry: i });
            }
            entries.push(entry);
            last = entry;
        }
        Ok((SparseIndex { segment, entries }, footer.coverage))
    }

    /// What a whole file, the index of `segment`, keeps of the log's last block, and where that block
    /// starts; `None` when nothing of it was copied.
    ///
    /// # Errors
    /// [`IndexDamage`], entries not looked at.
    pub fn copied_block(
        bytes: &[u8],
        segment: SegmentId,
        log_bytes: FilePosition,
    ) -> Result<Option<(FilePosition, &[u8])>, IndexDamage> {
        let kind = IndexKind::Sparse;
        let (footer, _, copy) = split_entries(bytes, INDEX_ENTRY_BYTES, kind, segment, log_bytes)?;
        let at = footer.coverage.log_bytes.block_floor();
        Ok((!copy.is_empty()).then_some((at, copy)))
    }

    fn start(&self) -> BatchStart {
        BatchStart { base: self.segment.base, at: FilePosition::ZERO }
    }

    /// The entry in front of index `i`.
    fn before(&self, i: usize) -> BatchStart {
        match i.checked_sub(1).map(|i| self.entries[i]) {
            Some(entry) => BatchStart {
                base: self.segment.base.add(u64::from(entry.relative)),
                at: FilePosition::from(entry.position),
            },
            None => self.start(),
        }
    }

    fn push(&mut self, batch: BatchStart) {
        let last = self.last();
        assert!(
            batch.base >= last.base && batch.at > last.at,
            "{}: batch {batch:?} does not lie behind {last:?}",
            self.segment
        );
        let (Some(relative), Some(position)) =
            (batch.base.relative_to(self.segment.base), batch.at.to_u32())
        else {
            panic!("{}: batch {batch:?} does not fit an index entry", self.segment);
        };
        self.entries.push(Entry { relative, position });
    }
}

#[cfg(test)]
#[path = "index_tests.rs"]
mod tests;
