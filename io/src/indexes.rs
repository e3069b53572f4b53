//! Both indexes of one segment: by offset and by time, in memory and in their files.

use std::fmt;
use std::path::Path;

use crate::disk::{Disk, DiskError, DiskErrorKind, DiskFile, OpenHow};
use crate::index_footer::{Coverage, FOOTER_BYTES, IndexDamage, IndexFooter, IndexKind};
use crate::limits::{INDEX_ENTRY_BYTES, STATE_FILE_BYTES_MAX, TIME_INDEX_ENTRY_BYTES};
use crate::segment::SegmentFile;
use crate::segment_reader::BatchPlace;
use crate::sparse_index::{BatchStart, SparseIndex};
use crate::time_index::TimeIndex;
use crate::units::{FilePosition, Offset, SegmentId, TimestampMs, bytes_u64};

/// Both sparse indexes of one segment, which always cover the same part of its log. Grows with the
/// segment on its owner's core; shared read-only once that is sealed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Indexes {
    pub offsets: SparseIndex,
    pub times: TimeIndex,
}

/// Why indexes were not loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LoadError {
    Disk(DiskError),
    /// They must be built again, unless the damage is [`IndexDamage::Newer`].
    Damaged(IndexDamage),
}

impl Indexes {
    pub fn new(segment: SegmentId) -> Indexes {
        Indexes { offsets: SparseIndex::new(segment), times: TimeIndex::new(segment) }
    }

    pub fn segment(&self) -> SegmentId {
        self.offsets.segment()
    }

    /// Tells both of the next batch and its largest timestamp.
    pub fn note(&mut self, batch: BatchStart, max_timestamp: TimestampMs) {
        self.offsets.note(batch);
        self.times.note(batch, max_timestamp);
    }

    /// As [`Indexes::note`] for the first batch behind damage, which gets an entry in any case.
    pub fn force(&mut self, place: &BatchPlace) {
        self.offsets.force(place.start());
    }

    /// Bytes the larger of the two takes in its file.
    pub fn file_bytes(&self) -> u64 {
        let offsets = self.offsets.len() * INDEX_ENTRY_BYTES;
        bytes_u64(offsets.max(self.times.len() * TIME_INDEX_ENTRY_BYTES))
    }

    /// Memory of both, about.
    pub fn memory_bytes(&self) -> u64 {
        bytes_u64(self.offsets.len() * 8 + self.times.len() * 16)
    }

    /// Forgets what lies at or behind `end`, where the next record gets `next`.
    pub fn cut(&mut self, end: FilePosition, next: Offset) {
        self.offsets.truncate(end);
        self.times.truncate(BatchStart { base: next, at: end });
    }

    /// Reads both files of `segment` in `dir`, whose log is `log_bytes` long.
    ///
    /// # Errors
    /// [`LoadError`]; also when the two do not cover the same.
    pub fn load<D: Disk>(
        disk: &D,
        dir: &Path,
        segment: SegmentId,
        log_bytes: FilePosition,
    ) -> Result<(Indexes, Coverage), LoadError> {
        let bytes = read_file(disk, &segment.path(dir, SegmentFile::Index))?;
        let (offsets, coverage) = SparseIndex::decode(&bytes, segment, log_bytes)?;
        let bytes = read_file(disk, &segment.path(dir, SegmentFile::TimeIndex))?;
        let (times, other) = TimeIndex::decode(&bytes, segment, log_bytes)?;
        if coverage != other {
            return Err(IndexDamage::Checksum.into());
        }
        Ok((Indexes { offsets, times }, coverage))
    }

    /// Writes both files, synced; `copy` is what [`Coverage::copied`] asks for. Their names are not durable before the directory is synced.
    ///
    /// Call it only for a part of the log that is synced itself: a restart goes on reading behind
    /// what the indexes cover. A crash in between leaves files that are known to be damaged and are built again.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn write<D: Disk>(
        &self,
        disk: &D,
        dir: &Path,
        coverage: Coverage,
        copy: &[u8],
    ) -> Result<(), DiskError> {
        let segment = self.offsets.segment();
        let files = [
            (SegmentFile::Index, self.offsets.encode(coverage, copy)),
            (SegmentFile::TimeIndex, self.times.encode(coverage)),
        ];
        for (kind, bytes) in files {
            let file = disk.open(&segment.path(dir, kind), OpenHow::CREATE)?;
            file.set_len(0)?;
            file.write_at(&bytes, FilePosition::ZERO)?;
            file.sync_data()?;
        }
        Ok(())
    }
}

/// What the footers of both index files of a segment say: two small reads, no entry is looked at.
///
/// # Errors
/// [`LoadError`]: the first thing wrong with either.
pub fn read_coverage<D: Disk>(
    disk: &D,
    dir: &Path,
    segment: SegmentId,
    log_bytes: FilePosition,
) -> Result<Coverage, LoadError> {
    let offsets = read_footer(disk, dir, segment, SegmentFile::Index)?;
    let times = read_footer(disk, dir, segment, SegmentFile::TimeIndex)?;
    let covered = offsets.coverage.log_bytes;
    if covered > log_bytes {
        return Err(IndexDamage::BeyondLog { covered: covered.get(), log: log_bytes.get() }.into());
    }
    if offsets.coverage != times.coverage {
        return Err(IndexDamage::Checksum.into());
    }
    Ok(offsets.coverage)
}

fn read_footer<D: Disk>(
    disk: &D,
    dir: &Path,
    segment: SegmentId,
    which: SegmentFile,
) -> Result<IndexFooter, LoadError> {
    let (kind, entry_bytes) = match which {
        SegmentFile::TimeIndex => (IndexKind::Time, TIME_INDEX_ENTRY_BYTES),
        SegmentFile::Index | SegmentFile::Log | SegmentFile::TxnIndex => {
            (IndexKind::Sparse, INDEX_ENTRY_BYTES)
        }
    };
    let file = match disk.open(&segment.path(dir, which), OpenHow::READ) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Err(IndexDamage::Missing.into()),
        Err(error) => return Err(error.into()),
    };
    let len = file.len()?;
    let damaged = IndexDamage::Length { bytes: len };
    let at = len.checked_sub(bytes_u64(FOOTER_BYTES)).ok_or(damaged)?;
    let mut bytes = [0; FOOTER_BYTES];
    if file.read_at(&mut bytes, FilePosition::new(at))? < FOOTER_BYTES {
        return Err(damaged.into());
    }
    let footer = IndexFooter::decode(&bytes, kind, segment)?;
    if footer.bytes_in_front(kind, entry_bytes) != at {
        return Err(damaged.into());
    }
    Ok(footer)
}

fn read_file<D: Disk>(disk: &D, path: &Path) -> Result<Vec<u8>, LoadError> {
    match disk.read_all(path, STATE_FILE_BYTES_MAX) {
        Ok(bytes) => Ok(bytes),
        Err(error) if error.is_not_found() => Err(IndexDamage::Missing.into()),
        Err(error) if error.kind == DiskErrorKind::TooLarge => {
            Err(IndexDamage::Length { bytes: u64::MAX }.into())
        }
        Err(error) => Err(error.into()),
    }
}

impl From<DiskError> for LoadError {
    fn from(error: DiskError) -> LoadError {
        LoadError::Disk(error)
    }
}

impl From<IndexDamage> for LoadError {
    fn from(damage: IndexDamage) -> LoadError {
        LoadError::Damaged(damage)
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Disk(error) => error.fmt(f),
            LoadError::Damaged(damage) => damage.fmt(f),
        }
    }
}

impl std::error::Error for LoadError {}
