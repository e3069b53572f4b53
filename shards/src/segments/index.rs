//! The indexes of one segment, in memory: by offset and by time.

use std::path::Path;

use millstream_io::disk::{Disk, DiskError, DiskFile, OpenHow};
use millstream_io::index_footer::Coverage;
use millstream_io::limits::STATE_FILE_BYTES_MAX;
use millstream_io::segment::SegmentFile;
use millstream_io::sparse_index::{BatchStart, SparseIndex};
use millstream_io::time_index::TimeIndex;
use millstream_io::units::{FilePosition, Offset, SegmentId, TimestampMs, bytes_u64};

/// Both sparse indexes of one segment. Grows with the segment; shared read-only once that is sealed.
#[derive(Clone, Debug)]
pub struct SegmentIndex {
    pub offsets: SparseIndex,
    pub times: TimeIndex,
}

impl SegmentIndex {
    pub fn new(segment: SegmentId) -> SegmentIndex {
        SegmentIndex { offsets: SparseIndex::new(segment), times: TimeIndex::new(segment) }
    }

    /// Tells both of the next batch.
    pub fn note(&mut self, batch: BatchStart, max_timestamp: TimestampMs) {
        self.offsets.note(batch);
        self.times.note(batch, max_timestamp);
    }

    /// Bytes the larger of the two takes in its file.
    pub fn file_bytes(&self) -> u64 {
        let offsets = self.offsets.len() * millstream_io::limits::INDEX_ENTRY_BYTES;
        let times = self.times.len() * millstream_io::limits::TIME_INDEX_ENTRY_BYTES;
        bytes_u64(offsets.max(times))
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

    /// Writes both files, synced. Their names are not durable before the directory is synced.
    pub fn write<D: Disk>(
        &self,
        disk: &D,
        dir: &Path,
        coverage: Coverage,
    ) -> Result<(), DiskError> {
        let segment = self.offsets.segment();
        let files = [
            (SegmentFile::Index, self.offsets.encode(coverage)),
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

    /// Reads both files of `segment` in `dir`, of which at most `log_bytes` are there; `None` when
    /// they are damaged.
    ///
    /// # Errors
    /// [`DiskError`]; also when they are missing.
    pub fn load<D: Disk>(
        disk: &D,
        dir: &Path,
        segment: SegmentId,
        log_bytes: FilePosition,
    ) -> Result<Option<SegmentIndex>, DiskError> {
        let read = |file| disk.read_all(&segment.path(dir, file), STATE_FILE_BYTES_MAX);
        let offsets = SparseIndex::decode(&read(SegmentFile::Index)?, segment, log_bytes);
        let times = TimeIndex::decode(&read(SegmentFile::TimeIndex)?, segment, log_bytes);
        Ok(match (offsets, times) {
            (Ok((offsets, _)), Ok((times, _))) => Some(SegmentIndex { offsets, times }),
            _ => None,
        })
    }

    /// The two files' contents, for the first `log_bytes` of the segment, which end at `next`.
    pub fn encode(
        &self,
        log_bytes: FilePosition,
        next: Offset,
        sealed: bool,
    ) -> (Vec<u8>, Vec<u8>) {
        let max_timestamp = self.times.max_timestamp();
        let coverage = Coverage { log_bytes, next, max_timestamp, sealed };
        (self.offsets.encode(coverage), self.times.encode(coverage))
    }
}
