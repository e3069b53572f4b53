//! A cleaned segment on its way: written under a name that no start takes for a segment, and given its
//! own when all of it is durable.

use std::path::{Path, PathBuf};

use millstream_io::disk::{Disk, DiskError, DiskFile, OpenHow};
use millstream_io::index_footer::Coverage;
use millstream_io::indexes::Indexes;
use millstream_io::limits::SEGMENT_BYTES_MAX;
use millstream_io::segment::{SegmentFile, SegmentMeta, remove_segment};
use millstream_io::segment_reader::BatchPlace;
use millstream_io::sparse_index::BatchStart;
use millstream_io::units::{FilePosition, SegmentId, TimestampMs, bytes_u64};

/// The file being written, and what is known of it.
#[derive(Debug)]
pub struct Output<F: DiskFile> {
    id: SegmentId,
    dir: PathBuf,
    file: F,
    /// Bytes in the file, and those that are to follow: of these, the first `taken` are in it already.
    written: FilePosition,
    buffer: Vec<u8>,
    taken: usize,
    indexes: Indexes,
    max_timestamp: TimestampMs,
}

/// A batch did not fit: what was to become of the segments would be longer than a segment may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl<F: DiskFile> Output<F> {
    /// Begins the file of `id` anew.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn create<D: Disk<File = F>>(
        disk: &D,
        dir: &Path,
        id: SegmentId,
    ) -> Result<Output<F>, DiskError> {
        let file = disk.open(&unfinished(dir, id), OpenHow::CREATE)?;
        file.set_len(0)?;
        Ok(Output {
            id,
            dir: dir.to_path_buf(),
            file,
            written: FilePosition::ZERO,
            buffer: Vec::new(),
            taken: 0,
            indexes: Indexes::new(id),
            max_timestamp: TimestampMs::NONE,
        })
    }

    /// Adds the batch that stood at `place`, as it is now. It is in memory, until [`Output::flush`].
    ///
    /// # Errors
    /// [`TooLong`]
    pub fn push(
        &mut self,
        place: &BatchPlace,
        batch: &[u8],
        max_timestamp: TimestampMs,
    ) -> Result<(), TooLong> {
        let at = self.written.add_len(self.waiting());
        if at.add_len(batch.len()).get() > SEGMENT_BYTES_MAX {
            return Err(TooLong);
        }
        self.indexes.note(BatchStart { base: place.base, at }, max_timestamp);
        self.max_timestamp = self.max_timestamp.max(max_timestamp);
        self.buffer.extend_from_slice(batch);
        Ok(())
    }

    /// So much is in memory that it is to be written.
    pub fn is_full(&self) -> bool {
        self.waiting() >= WRITE_BYTES
    }

    /// Bytes that are in memory and not in the file.
    fn waiting(&self) -> usize {
        self.buffer.len() - self.taken
    }

    /// Makes everything durable and gives the segment its name. From then on it stands for those that
    /// its name covers. Counts the bytes that it writes into `written`.
    ///
    /// # Errors
    /// [`DiskError`]. The name may be given or not; then [`Output::abandon`].
    pub fn finish<D: Disk>(
        &mut self,
        disk: &D,
        written: &mut u64,
    ) -> Result<SegmentMeta, DiskError> {
        let Some(next) = self.id.cleaned.map(|cleaned| cleaned.next) else {
            panic!("{} is not the name of a cleaned segment", self.id);
        };
        while self.waiting() > 0 {
            *written += self.flush()?;
        }
        self.file.sync_data()?;
        let (id, log_bytes, max_timestamp) = (self.id, self.written, self.max_timestamp);
        let coverage = Coverage { log_bytes, next, max_timestamp, sealed: true };
        let mut block = vec![0; coverage.copied()];
        self.file.read_at(&mut block, log_bytes.block_floor())?;
        self.indexes.write(disk, &self.dir, coverage, &block)?;
        disk.sync_dir(&self.dir)?;
        disk.rename(&unfinished(&self.dir, id), &id.path(&self.dir, SegmentFile::Log))?;
        disk.sync_dir(&self.dir)?;
        Ok(SegmentMeta { id, log_bytes, next, max_timestamp })
    }

    /// The indexes of what was written.
    pub fn into_indexes(self) -> Indexes {
        self.indexes
    }

    /// Removes what was written so far. False when a segment of this name may be there all the same: it
    /// is whole then, and a start takes it; until then nobody may write another over its offsets.
    pub fn abandon<D: Disk>(self, disk: &D) -> bool {
        let path = unfinished(&self.dir, self.id);
        drop(self.file);
        // A left-over under this name is removed by the next start, or written over.
        let _ = disk.remove_file(&path);
        let removed = remove_segment(disk, &self.dir, self.id);
        removed.and_then(|()| disk.sync_dir(&self.dir)).is_ok()
    }

    /// Writes some of what is in memory. How many bytes these were.
    ///
    /// # Errors
    /// [`DiskError`]
    pub fn flush(&mut self) -> Result<u64, DiskError> {
        let piece = &self.buffer[self.taken..];
        let piece = &piece[..piece.len().min(WRITE_BYTES)];
        let bytes = bytes_u64(piece.len());
        self.file.write_at(piece, self.written)?;
        // Little by little: a sync of all at the end would keep the device from what others sync.
        self.file.begin_write_back(self.written, bytes);
        self.written = self.written.add_len(piece.len());
        self.taken += piece.len();
        if self.taken == self.buffer.len() {
            self.buffer.clear();
            self.taken = 0;
        }
        Ok(bytes)
    }
}

/// The name that the log of a segment has before it is whole.
fn unfinished(dir: &Path, id: SegmentId) -> PathBuf {
    dir.join(format!("{}.tmp", id.file_name(SegmentFile::Log)))
}

/// Size of one write: what others sync next waits for it too.
const WRITE_BYTES: usize = 128 * 1024;
