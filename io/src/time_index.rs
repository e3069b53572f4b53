//! The `.timeindex` of a segment: from a timestamp to the first offset worth a look.
//!
//! ```text
//!  at  bytes  field of one entry (12 bytes, ascending)
//!   0    8    the largest timestamp of all records in front of the offset
//!   8    4    base offset of a batch, relative to the segment's base
//! ```
//! behind them the footer of [`crate::index_footer`]. No record in front of an entry's offset has
//! a timestamp above the entry's. Timestamps of producers need not rise, so the answer is a place to
//! start a search, not its result.

use crate::index_footer::{Coverage, IndexDamage, IndexKind, seal_entries, split_entries};
use crate::limits::{INDEX_INTERVAL_BYTES, TIME_INDEX_ENTRY_BYTES};
use crate::sparse_index::BatchStart;
use crate::units::{FilePosition, Offset, SegmentId, TimestampMs};

/// The time index of one segment, in memory. Owned by the core that owns the partition.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimeIndex {
    segment: SegmentId,
    entries: Vec<Entry>,
    /// Largest timestamp of all batches noted so far.
    largest: Option<TimestampMs>,
    /// Where the batch of the last look at the interval starts.
    checked_at: FilePosition,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    largest: TimestampMs,
    relative: u32,
}

impl TimeIndex {
    pub fn new(segment: SegmentId) -> TimeIndex {
        let checked_at = FilePosition::ZERO;
        TimeIndex { segment, entries: Vec::new(), largest: None, checked_at }
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

    /// Tells the index of the next batch of the segment and its largest timestamp.
    ///
    /// # Panics
    /// When offset or position do not rise, or the offset does not fit 32 bits.
    pub fn note(&mut self, batch: BatchStart, max_timestamp: TimestampMs) {
        if batch.at.since(self.checked_at) >= INDEX_INTERVAL_BYTES {
            self.checked_at = batch.at;
            if let Some(largest) = self.largest {
                self.push(largest, batch.base);
            }
        }
        self.largest = Some(self.largest.map_or(max_timestamp, |l| l.max(max_timestamp)));
    }

    /// Forgets entries of batches that start at or behind `end`. The largest timestamp stays, as a
    /// bound from above.
    pub fn truncate(&mut self, end: BatchStart) {
        let behind = end.base.relative_to(self.segment.base);
        let keep = self.entries.partition_point(|e| behind.is_none_or(|end| e.relative < end));
        self.entries.truncate(keep);
        self.checked_at = self.checked_at.min(end.at);
    }

    /// Largest timestamp of the segment; [`TimestampMs::NONE`] while it is empty.
    pub fn max_timestamp(&self) -> TimestampMs {
        self.largest.unwrap_or(TimestampMs::NONE)
    }

    /// An offset in front of which no record has a timestamp of `target` or later: where a search
    /// for the first such record starts.
    pub fn floor(&self, target: TimestampMs) -> Offset {
        let above = self.entries.partition_point(|e| e.largest < target);
        match above.checked_sub(1).map(|i| self.entries[i]) {
            Some(entry) => self.segment.base.add(u64::from(entry.relative)),
            None => self.segment.base,
        }
    }

    /// The largest timestamp of all records in front of an offset, which is `end` or lies in front of
    /// it as little as the index can tell; `None` when it tells nothing.
    pub fn before(&self, end: Offset) -> Option<(TimestampMs, Offset)> {
        let end = end.checked_since(self.segment.base)?;
        let above = self.entries.partition_point(|e| u64::from(e.relative) <= end);
        let entry = self.entries[above.checked_sub(1)?];
        Some((entry.largest, self.segment.base.add(u64::from(entry.relative))))
    }

    /// Every entry, ascending: a timestamp, and the offset in front of which no record is later.
    pub fn entries(&self) -> impl Iterator<Item = (TimestampMs, Offset)> + '_ {
        let entry = |e: &Entry| (e.largest, self.segment.base.add(u64::from(e.relative)));
        self.entries.iter().map(entry)
    }

    /// The whole file.
    pub fn encode(&self, coverage: Coverage) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.entries.len() * TIME_INDEX_ENTRY_BYTES + 64);
        for entry in &self.entries {
            bytes.extend_from_slice(&entry.largest.get().to_be_bytes());
            bytes.extend_from_slice(&entry.relative.to_be_bytes());
        }
        let covers = (coverage, &[][..]);
        seal_entries(bytes, TIME_INDEX_ENTRY_BYTES, IndexKind::Time, self.segment, covers)
    }

    /// Reads a whole file, which must be the time index of `segment`, whose log is `log_bytes` long.
    ///
    /// # Errors
    /// [`IndexDamage`] when it is anything else.
    pub fn decode(
        bytes: &[u8],
        segment: SegmentId,
        log_bytes: FilePosition,
    ) -> Result<(TimeIndex, Coverage), IndexDamage> {
        let kind = IndexKind::Time;
        let (footer, raw, _) =
            split_entries(bytes, TIME_INDEX_ENTRY_BYTES, kind, segment, log_bytes)?;
        let coverage = footer.coverage;
        let covered = coverage.next.checked_since(segment.base).unwrap_or(0);
        let mut entries: Vec<Entry> = Vec::with_capacity(raw.len() / TIME_INDEX_ENTRY_BYTES);
        for (i, raw) in raw.as_chunks::<TIME_INDEX_ENTRY_BYTES>().0.iter().enumerate() {
            let (largest, relative) = raw.split_at(8);
            let entry = Entry {
                largest: TimestampMs::new(i64::from_be_bytes(array(largest))),
                relative: u32::from_be_bytes(array(relative)),
            };
            let rises = entries
                .last()
                .is_none_or(|last| entry.largest > last.largest && entry.relative > last.relative);
            if !rises || u64::from(entry.relative) >= covered {
                return Err(IndexDamage::Disorder { entry: i });
            }
            entries.push(entry);
        }
        let largest = (covered > 0).then_some(coverage.max_timestamp);
        let checked_at = coverage.log_bytes;
        Ok((TimeIndex { segment, entries, largest, checked_at }, coverage))
    }

    fn push(&mut self, largest: TimestampMs, base: Offset) {
        let Some(relative) = base.relative_to(self.segment.base) else {
            panic!("{}: offset {base} does not fit an index entry", self.segment);
        };
        match self.entries.last_mut() {
            // The later offset tells more at the same timestamp.
            Some(last) if last.largest == largest => last.relative = relative,
            last => {
                let before = last.map(|last| last.largest);
                assert!(
                    before.is_none_or(|before| before < largest),
                    "{}: largest timestamp falls from {before:?} to {largest:?}",
                    self.segment
                );
                self.entries.push(Entry { largest, relative });
            }
        }
    }
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(bytes);
    out
}
