//! Walking a segment by batch headers, to find exactly the batch that an offset, a timestamp or a
//! position asks for.
//!
//! Blocking: for the helper pool, recovery and tools. A walk starts at an index entry, so it reads a
//! few KiB. Nothing it reads is believed before it is checked.

use std::fmt;

use bytes::Bytes;

use crate::batch::RecordBatchHeader;
use crate::batch::stored::{self, StoredError};
use crate::disk::{DiskError, DiskFile};
use crate::limits::{BATCH_HEADER_BYTES, BLOCK_BYTES};
use crate::sparse_index::BatchStart;
use crate::units::{FilePosition, LeaderEpoch, Offset, TimestampMs, bytes_u64, bytes_usize};

/// Where one batch stands in its segment, and what its header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchPlace {
    pub base: Offset,
    /// Offset behind its last record.
    pub next: Offset,
    pub at: FilePosition,
    /// Bytes of the whole batch.
    pub bytes: usize,
    pub max_timestamp: TimestampMs,
    /// The leader that stamped it, as the batch says.
    pub epoch: Option<LeaderEpoch>,
}

impl BatchPlace {
    /// Position behind it.
    pub fn end(&self) -> FilePosition {
        self.at.add_len(self.bytes)
    }

    pub fn start(&self) -> BatchStart {
        BatchStart { base: self.base, at: self.at }
    }
}

/// Why a walk could not go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WalkError {
    Disk(DiskError),
    /// The bytes at this place are not a batch, or not the one that is due.
    Damaged {
        at: FilePosition,
        error: StoredError,
    },
}

/// A walk over the batches of `[at, end)` of one open segment.
///
/// `end` must not lie behind what is durable and complete: within it, whatever is not a batch is
/// damage.
pub struct Walk<'f, F: DiskFile + ?Sized> {
    file: &'f F,
    at: FilePosition,
    end: FilePosition,
    /// Base offset of the next batch at least.
    due: Offset,
    window: Window,
    header: [u8; BATCH_HEADER_BYTES],
    moved: bool,
    gaps: bool,
}

impl<'f, F: DiskFile + ?Sized> Walk<'f, F> {
    /// A walk from the batch that starts at `from` to `end`.
    pub fn new(file: &'f F, from: BatchStart, end: FilePosition) -> Walk<'f, F> {
        let window = Window::default();
        let header = [0; BATCH_HEADER_BYTES];
        Walk { file, at: from.at, end, due: from.base, window, header, moved: false, gaps: true }
    }

    /// Takes a missing offset for damage. For logs that are not compacted: the base offset of a batch
    /// lies outside of its CRC, and only its neighbours tell that it is wrong.
    pub fn without_gaps(self) -> Walk<'f, F> {
        Walk { gaps: false, ..self }
    }

    /// Header of the batch that was found last.
    pub fn header(&self) -> Option<RecordBatchHeader<'_>> {
        self.moved.then(|| RecordBatchHeader::of(&self.header))
    }

    /// Bytes of the header of the batch that was found last; zeros before the first.
    pub fn header_bytes(&self) -> &[u8] {
        &self.header
    }

    /// The offset behind the batch that was found last.
    pub fn due(&self) -> Offset {
        self.due
    }

    /// The next batch, by its header; `None` at the end.
    ///
    /// # Errors
    /// [`WalkError`]; the walk does not move then.
    pub fn next_place(&mut self) -> Result<Option<BatchPlace>, WalkError> {
        if self.at >= self.end {
            return Ok(None);
        }
        let damaged = |error| WalkError::Damaged { at: self.at, error };
        let head = self.window.read(self.file, self.at, self.end)?;
        let (header, bytes) = stored::frame(head).map_err(damaged)?;
        let place = place_of(header, self.at, bytes).map_err(damaged)?;
        let left = self.end.since(self.at);
        if bytes_u64(bytes) > left {
            let got = bytes_usize(left);
            return Err(damaged(StoredError::Short { needed: bytes, got }));
        }
        if place.base < self.due || (place.base > self.due && !self.gaps) {
            let (base_offset, expected) = (place.base, self.due);
            return Err(damaged(StoredError::Unexpected { base_offset, expected }));
        }
        self.header.copy_from_slice(&head[..BATCH_HEADER_BYTES]);
        self.moved = true;
        self.at = place.end();
        self.due = place.next;
        Ok(Some(place))
    }

    /// The batch that holds `target`, or the first behind it when there is none (compaction);
    /// `None` when all lie in front.
    ///
    /// # Errors
    /// As [`Walk::next_place`].
    pub fn find_offset(&mut self, target: Offset) -> Result<Option<BatchPlace>, WalkError> {
        self.find(|place| place.next > target)
    }

    /// The first batch with a record of `target` or later; `None` when there is none.
    ///
    /// # Errors
    /// As [`Walk::next_place`].
    pub fn find_timestamp(&mut self, target: TimestampMs) -> Result<Option<BatchPlace>, WalkError> {
        self.find(|place| place.max_timestamp >= target)
    }

    /// The last batch that ends at or before byte `limit`; `None` when the first is longer.
    ///
    /// # Errors
    /// As [`Walk::next_place`].
    pub fn last_within(&mut self, limit: FilePosition) -> Result<Option<BatchPlace>, WalkError> {
        let mut last = None;
        while let Some(place) = self.next_place()? {
            if place.end() > limit {
                break;
            }
            last = Some(place);
        }
        Ok(last)
    }

    fn find(&mut self, is: impl Fn(&BatchPlace) -> bool) -> Result<Option<BatchPlace>, WalkError> {
        while let Some(place) = self.next_place()? {
            if is(&place) {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }
}

/// Reads one whole batch and checks its CRC.
///
/// # Errors
/// [`WalkError::Damaged`] when it is not what was written.
pub fn read_batch<F: DiskFile + ?Sized>(file: &F, place: &BatchPlace) -> Result<Bytes, WalkError> {
    let damaged = |error| WalkError::Damaged { at: place.at, error };
    // The length was checked against the end of the file when the place was made.
    let mut bytes = vec![0; place.bytes];
    let got = file.read_at(&mut bytes, place.at)?;
    if got < bytes.len() {
        return Err(damaged(StoredError::Short { needed: bytes.len(), got }));
    }
    let header = stored::whole(&bytes).map_err(damaged)?;
    match header.base_offset() {
        Some(base) if base == place.base => Ok(Bytes::from(bytes)),
        base => {
            let (base_offset, expected) = (base.unwrap_or(Offset::ZERO), place.base);
            Err(damaged(StoredError::Unexpected { base_offset, expected }))
        }
    }
}

/// The place of a batch whose header passed [`stored::frame`].
pub(crate) fn place_of(
    header: RecordBatchHeader<'_>,
    at: FilePosition,
    bytes: usize,
) -> Result<BatchPlace, StoredError> {
    let (Some(base), Some(next)) = (header.base_offset(), header.next_offset()) else {
        return Err(StoredError::Offsets {
            base_offset: header.base_offset_raw(),
            last_offset_delta: header.last_offset_delta(),
        });
    };
    let (max_timestamp, epoch) = (header.max_timestamp(), header.leader_epoch());
    Ok(BatchPlace { base, next, at, bytes, max_timestamp, epoch })
}

/// A block or two of the file, so that small batches cost one read for many headers.
#[derive(Default)]
struct Window {
    bytes: Vec<u8>,
    at: FilePosition,
}

const WINDOW_BYTES: usize = 2 * BLOCK_BYTES;

impl Window {
    /// At least a header's bytes from `at` on, fewer only at `end`.
    fn read<F: DiskFile + ?Sized>(
        &mut self,
        file: &F,
        at: FilePosition,
        end: FilePosition,
    ) -> Result<&[u8], DiskError> {
        let have = at.get().checked_sub(self.at.get()).map(bytes_usize);
        let start = match have {
            Some(start) if start + BATCH_HEADER_BYTES <= self.bytes.len() => start,
            _ => {
                let len = bytes_usize(end.since(at).min(bytes_u64(WINDOW_BYTES)));
                self.bytes.resize(len, 0);
                let got = file.read_at(&mut self.bytes, at)?;
                self.bytes.truncate(got);
                self.at = at;
                0
            }
        };
        Ok(&self.bytes[start..])
    }
}

impl From<DiskError> for WalkError {
    fn from(error: DiskError) -> WalkError {
        WalkError::Disk(error)
    }
}

impl fmt::Display for WalkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WalkError::Disk(error) => error.fmt(f),
            WalkError::Damaged { at, error } => write!(f, "damaged at byte {at}: {error}"),
        }
    }
}

impl std::error::Error for WalkError {}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::batch::testing::BatchBuilder;
    use crate::disk::{Disk, OpenHow};
    use crate::disk_sim::{SimDisk, SimFile};

    /// Batches of 3 records; batch `i` starts at offset `3 i` and has timestamp `stamps[i]`.
    fn segment(disk: &SimDisk, stamps: &[i64]) -> (SimFile, Vec<FilePosition>) {
        let file = disk.open(Path::new("/s.log"), OpenHow::CREATE).unwrap();
        let (mut at, mut starts) = (FilePosition::ZERO, Vec::new());
        for (i, stamp) in (0..).zip(stamps) {
            let builder = BatchBuilder::of_values(["x", "y", "z"]).at_offset(3 * i, 1);
            let bytes = BatchBuilder { base_timestamp: *stamp, ..builder }.build();
            file.write_at(&bytes, at).unwrap();
            starts.push(at);
            at = at.add_len(bytes.len());
        }
        starts.push(at);
        (file, starts)
    }

    const START: BatchStart = BatchStart { base: Offset::ZERO, at: FilePosition::ZERO };

    #[test]
    fn every_offset_finds_its_batch() {
        let disk = SimDisk::new();
        let (file, starts) = segment(&disk, &[0; 500]);
        for target in 0..1500 {
            let mut walk = Walk::new(&file, START, starts[500]);
            let place = walk.find_offset(Offset::at(target)).unwrap().unwrap();
            assert_eq!(place.base.get(), target / 3 * 3);
            assert_eq!(place.at, starts[place.base.get() as usize / 3]);
            let bytes = read_batch(&file, &place).unwrap();
            assert_eq!(bytes.len(), place.bytes);
        }
        assert_eq!(Walk::new(&file, START, starts[500]).find_offset(Offset::at(1500)), Ok(None));
    }

    #[test]
    fn first_batch_of_a_time_and_last_batch_within_a_limit_are_found() {
        let disk = SimDisk::new();
        let (file, starts) = segment(&disk, &[5, 9, 2, 12, 3]);
        let by_time = |t| {
            let mut walk = Walk::new(&file, START, starts[5]);
            walk.find_timestamp(TimestampMs::new(t)).unwrap().map(|p| p.base.get() / 3)
        };
        assert_eq!([4, 6, 10, 12, 13].map(by_time), [Some(0), Some(1), Some(3), Some(3), None]);
        let within = |limit| {
            let mut walk = Walk::new(&file, START, starts[5]);
            walk.last_within(limit).unwrap().map(|p| p.base.get() / 3)
        };
        assert_eq!(within(FilePosition::ZERO), None);
        assert_eq!(within(starts[3]), Some(2));
        assert_eq!(within(FilePosition::new(starts[3].get() - 1)), Some(1));
        assert_eq!(within(FilePosition::new(1 << 30)), Some(4));
    }

    #[test]
    fn damage_is_told_with_its_place_and_never_served() {
        let disk = SimDisk::new();
        let (file, starts) = segment(&disk, &[0; 10]);
        let place = {
            let mut walk = Walk::new(&file, START, starts[10]);
            walk.find_offset(Offset::at(12)).unwrap().unwrap()
        };
        disk.flip(Path::new("/s.log"), starts[4].add(70), 1).unwrap();
        let error = read_batch(&file, &place).unwrap_err();
        assert!(
            matches!(error, WalkError::Damaged { at, error: StoredError::Crc { .. } } if at == starts[4])
        );
        disk.flip(Path::new("/s.log"), starts[4].add(16), 1).unwrap();
        let mut walk = Walk::new(&file, START, starts[10]);
        let error = walk.find_offset(Offset::at(20)).unwrap_err();
        assert_eq!(
            error,
            WalkError::Damaged { at: starts[4], error: StoredError::Magic { magic: 3 } }
        );
        let mut cut = Walk::new(&file, START, FilePosition::new(starts[2].get() - 1));
        assert!(cut.find_offset(Offset::at(5)).is_err());
    }
}
