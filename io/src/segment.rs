//! Segments of a partition: their file names, and what a partition directory holds.
//!
//! ```text
//! topics/<topic>/<partition>/
//!   manifest.json                       whose directory this is, and where its log starts
//!   recovery-checkpoint.json            up to where the log is synced
//!   producer-state.snapshot             what idempotent producers sent last
//!   <epoch:08x>-<base:020>.log          record batches, nothing else
//!   <epoch:08x>-<base:020>.index        from an offset to a place in the .log
//!   <epoch:08x>-<base:020>.timeindex    from a timestamp to an offset
//!   <epoch:08x>-<base:020>.txnindex     aborted transactions: a name kept free, nothing writes it
//!   <epoch:08x>-<base:020>-<next:020>-<generation:08x>.log
//!                                       what compaction left of the segments from base up to next
//!   cleaner-checkpoint.json             up to where the log is compacted
//!   <name>.tmp                          a file on its way, left by a crash
//! ```
//! A segment is named by the leader epoch (hexadecimal) that wrote it and the offset of its first
//! record (decimal).
//!
//! A cleaned segment stands for all segments of its epoch, or older, that begin from its base up to its
//! next and are of a lower generation. Its name is given to it when it is whole and synced, by one
//! rename, and they are removed behind that: whoever reads the directory sees the old ones, or the new
//! one and perhaps what is left of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::disk::{Disk, DiskError, EntryKind};
use crate::units::{FilePosition, Offset, SegmentId, TimestampMs};

/// The files that carry a segment's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SegmentFile {
    /// Record batches, nothing else.
    Log,
    /// Offset to position.
    Index,
    /// Timestamp to offset.
    TimeIndex,
    /// Aborted transactions.
    TxnIndex,
}

/// Every kind of segment file, the log last: it goes last when a segment is removed.
pub const SEGMENT_FILES: [SegmentFile; 4] =
    [SegmentFile::Index, SegmentFile::TimeIndex, SegmentFile::TxnIndex, SegmentFile::Log];

impl SegmentFile {
    pub const fn extension(self) -> &'static str {
        match self {
            SegmentFile::Log => "log",
            SegmentFile::Index => "index",
            SegmentFile::TimeIndex => "timeindex",
            SegmentFile::TxnIndex => "txnindex",
        }
    }
}

impl SegmentId {
    /// Name of one of its files, `<epoch:08x>-<base:020>.<extension>`.
    pub fn file_name(self, file: SegmentFile) -> String {
        format!("{self}.{}", file.extension())
    }

    /// Path of one of its files in a partition directory.
    pub fn path(self, dir: &Path, file: SegmentFile) -> PathBuf {
        dir.join(self.file_name(file))
    }

    /// Takes a file name apart; `None` when it is not exactly one that we would write.
    pub fn of_file_name(name: &str) -> Option<(SegmentId, SegmentFile)> {
        let (stem, extension) = name.split_once('.')?;
        let file = SEGMENT_FILES.into_iter().find(|f| f.extension() == extension)?;
        Some((stem.parse().ok()?, file))
    }
}

/// A segment whose extent is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentMeta {
    pub id: SegmentId,
    /// Length of the log file, without padding.
    pub log_bytes: FilePosition,
    /// Offset behind its last record; its base when it is empty.
    pub next: Offset,
    /// Largest timestamp of its records; [`TimestampMs::NONE`] when there is none.
    pub max_timestamp: TimestampMs,
}

/// What stands in a partition directory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Listing {
    /// Segments that have a log, by base offset; without those that a cleaned one stands for.
    pub segments: Vec<SegmentId>,
    /// Segments that a cleaned one stands for: they may go once the names in the directory are
    /// synced.
    pub replaced: Vec<SegmentId>,
    /// Index files, with or without a log.
    pub derived: Vec<(SegmentId, SegmentFile)>,
    /// Left-overs of an interrupted atomic write (`*.tmp`).
    pub temporary: Vec<String>,
    /// Files of other names. Ours or not, nobody touches them.
    pub others: Vec<String>,
}

impl Listing {
    /// Reads a partition directory; a missing one is an empty one.
    ///
    /// # Errors
    /// As [`Disk::list`].
    pub fn read<D: Disk>(disk: &D, dir: &Path) -> Result<Listing, DiskError> {
        let entries = match disk.list(dir) {
            Ok(entries) => entries,
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut listing = Listing::default();
        for entry in entries.into_iter().filter(|e| e.kind == EntryKind::File) {
            match SegmentId::of_file_name(&entry.name) {
                Some((id, SegmentFile::Log)) => listing.segments.push(id),
                Some(derived) => listing.derived.push(derived),
                None if entry.name.ends_with(".tmp") => listing.temporary.push(entry.name),
                None => listing.others.push(entry.name),
            }
        }
        listing.segments.sort();
        listing.tell_replaced();
        Ok(listing)
    }

    /// Takes the segments out that a cleaned one stands for.
    fn tell_replaced(&mut self) {
        let cleaned: Vec<SegmentId> =
            self.segments.iter().filter(|id| id.cleaned.is_some()).copied().collect();
        if !cleaned.is_empty() {
            let replaced = |id: &mut SegmentId| cleaned.iter().any(|new| new.replaces(*id));
            self.replaced = self.segments.extract_if(.., replaced).collect();
        }
    }

    /// The cleaned segment that stands for `id`, a segment that a journal speaks of.
    pub fn replacement(&self, id: SegmentId) -> Option<SegmentId> {
        let i = self.segments.partition_point(|known| known.base <= id.base);
        // Of an older epoch may be one of the same base.
        self.segments[..i].iter().rev().take(2).find(|known| known.replaces(id)).copied()
    }

    /// Derived files whose segment has no log any more.
    pub fn orphans(&self) -> Vec<(SegmentId, SegmentFile)> {
        let gone = |(id, _): &&(SegmentId, SegmentFile)| {
            self.segments.binary_search(id).is_err() && !self.replaced.contains(id)
        };
        self.derived.iter().filter(gone).copied().collect()
    }

    /// Segments that share a base offset: the older epochs of each, which the newest supersedes.
    pub fn superseded(&self) -> Vec<SegmentId> {
        let mut newest = BTreeMap::new();
        for id in &self.segments {
            newest.insert(id.base, *id);
        }
        let older = |id: &&SegmentId| newest.get(&id.base) != Some(*id);
        self.segments.iter().filter(older).copied().collect()
    }
}

/// Removes all files of a segment, the log last, so that a crash in between leaves a log whose
/// indexes are built again. The names are not durable before the directory is synced.
///
/// # Errors
/// As [`Disk::remove_file`]; a file that is missing is no error.
pub fn remove_segment<D: Disk>(disk: &D, dir: &Path, id: SegmentId) -> Result<(), DiskError> {
    for file in SEGMENT_FILES {
        match disk.remove_file(&id.path(dir, file)) {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::OpenHow;
    use crate::disk_sim::SimDisk;
    use crate::units::{Cleaned, LeaderEpoch};

    fn id(epoch: i32, base: i64) -> SegmentId {
        SegmentId::new(LeaderEpoch::at(epoch), Offset::at(base))
    }

    #[test]
    fn file_names_round_trip() {
        for file in SEGMENT_FILES {
            let name = id(1, 2).file_name(file);
            assert_eq!(SegmentId::of_file_name(&name), Some((id(1, 2), file)));
        }
        let log = "00000001-00000000000000000002.log";
        assert_eq!(id(1, 2).file_name(SegmentFile::Log), log);
        for wrong in ["manifest.json", "00000000000000000002.log", &format!("{log}.tmp"), ".log"] {
            assert_eq!(SegmentId::of_file_name(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn listing_takes_a_cleaned_segment_for_those_it_stands_for() {
        let disk = SimDisk::new();
        let dir = Path::new("/t/0");
        disk.create_dir_all(dir).unwrap();
        let cleaned = |base, next, generation| SegmentId {
            cleaned: Some(Cleaned { next: Offset::at(next), generation }),
            ..id(1, base)
        };
        let old = [cleaned(0, 20, 1), cleaned(20, 30, 2), id(1, 30)];
        let live = [id(0, 0), cleaned(0, 40, 3), id(1, 40)];
        for segment in old.iter().chain(&live) {
            disk.open(&segment.path(dir, SegmentFile::Log), OpenHow::CREATE).unwrap();
            disk.open(&segment.path(dir, SegmentFile::Index), OpenHow::CREATE).unwrap();
        }
        let listing = Listing::read(&disk, dir).unwrap();
        assert_eq!(listing.segments, live[1..]);
        assert_eq!(listing.replaced, [live[0], old[0], old[1], old[2]]);
        assert_eq!(listing.replacement(id(1, 39)), Some(live[1]));
        assert_eq!(listing.replacement(id(1, 40)), None);
        assert_eq!(listing.orphans(), [], "indexes go with what is replaced");
    }

    #[test]
    fn listing_tells_segments_derived_and_foreign_files_apart() {
        let disk = SimDisk::new();
        let dir = Path::new("/t/0");
        assert_eq!(Listing::read(&disk, dir).unwrap(), Listing::default());
        disk.create_dir_all(dir).unwrap();
        disk.create_dir_all(&dir.join("00000000-00000000000000000000.log")).unwrap();
        let touch = |name: &str| disk.open(&dir.join(name), OpenHow::CREATE).unwrap();
        for (epoch, base) in [(5, 0), (1, 100), (2, 100), (2, 50)] {
            touch(&id(epoch, base).file_name(SegmentFile::Log));
        }
        touch(&id(2, 50).file_name(SegmentFile::Index));
        touch(&id(2, 51).file_name(SegmentFile::TxnIndex));
        touch("manifest.json.tmp");
        touch("notes.txt");
        let listing = Listing::read(&disk, dir).unwrap();
        assert_eq!(listing.segments, [id(5, 0), id(2, 50), id(1, 100), id(2, 100)]);
        assert_eq!(listing.superseded(), [id(1, 100)]);
        assert_eq!(listing.orphans(), [(id(2, 51), SegmentFile::TxnIndex)]);
        assert_eq!(listing.temporary, ["manifest.json.tmp"]);
        assert_eq!(listing.others, ["notes.txt"]);
        remove_segment(&disk, dir, id(2, 50)).unwrap();
        let listing = Listing::read(&disk, dir).unwrap();
        assert_eq!(listing.segments, [id(5, 0), id(1, 100), id(2, 100)]);
    }
}
