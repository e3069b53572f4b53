//! Looking into a segment file for a reader: finding the batches he asks for and checking each one
//! before it is sent. Blocking: for the helper pool.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use millstream_io::batch::stored;
use millstream_io::disk::{Disk, DiskError, DiskFile, OpenHow};
use millstream_io::indexes::{Indexes, LoadError};
use millstream_io::limits::{BATCH_HEADER_BYTES, SCAN_CHUNK_BYTES};
use millstream_io::records::lookup;
use millstream_io::segment::SegmentFile;
use millstream_io::segment_reader::{Walk, WalkError, read_batch};
use millstream_io::sparse_index::BatchStart;
use millstream_io::units::{FilePosition, Offset, SegmentId, TimestampMs, bytes_u64, bytes_usize};

use crate::latest::{LatestAsk, LatestOf};
use crate::message::OpenSegment;
use crate::read::{ColdAsk, ColdFound};
use crate::seek::SeekAsk;

/// What a look into a file needs besides the question.
#[derive(Clone, Debug)]
pub struct ColdSource {
    pub dir: PathBuf,
    /// The open file, if the core has one.
    pub file: Option<Arc<OpenSegment>>,
    /// The index, if the core has it in memory.
    pub index: Option<Arc<Indexes>>,
}

/// What came of it; file and index are for the core to keep.
#[derive(Debug)]
pub struct ColdAnswer {
    pub found: ColdFound,
    pub file: Arc<OpenSegment>,
    pub index: Option<Arc<Indexes>>,
}

/// Why the batches could not be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColdError {
    Disk(DiskError),
    /// The batch that holds `offset` is damaged; reading works again at `readable_from`.
    Damaged {
        offset: Offset,
        readable_from: Option<Offset>,
    },
}

impl From<DiskError> for ColdError {
    fn from(error: DiskError) -> ColdError {
        ColdError::Disk(error)
    }
}

/// Finds the batches of `ask` in its segment, and checks the CRC of every one it promises. What it
/// has read is in the page cache then, so that `sendfile` does not wait for the device.
///
/// # Errors
/// [`ColdError`]. A damaged batch behind good ones is no error: the good ones are found.
pub fn look<D: Disk>(
    disk: &D,
    source: &ColdSource,
    ask: &ColdAsk,
) -> Result<ColdAnswer, ColdError> {
    let path = ask.segment.path(&source.dir, SegmentFile::Log);
    let file = match &source.file {
        Some(file) => file.clone(),
        None => {
            let file = disk.open(&path, OpenHow::READ)?;
            file.read_only_what_is_asked();
            Arc::new(OpenSegment::new(file))
        }
    };
    let mut index = source.index.clone();
    let from = match ask.from {
        Some(from) => from,
        None => {
            if index.is_none() {
                index = load_index(disk, &source.dir, ask.segment, ask.end)?;
            }
            let start = BatchStart { base: ask.segment.base, at: FilePosition::ZERO };
            index.as_ref().map_or(start, |index| index.offsets.floor(ask.target))
        }
    };
    let found =
        Scan::new(file.file(), ask.end).collect(from, ask).map_err(|broken| match broken {
            Broken::Disk(error) => ColdError::Disk(error),
            Broken::At(at) => {
                let next =
                    index.as_ref().and_then(|index| next_sound(file.file(), index, at, ask.end));
                ColdError::Damaged { offset: ask.target, readable_from: next.or(ask.next_segment) }
            }
        })?;
    // Who reads on finds it there, and the device has a little to do at a time.
    let ahead = found.end.since(found.start).min(ask.end.since(found.end));
    if ahead > 0 {
        file.file().begin_read(found.end, ahead);
    }
    Ok(ColdAnswer { found, file, index })
}

/// Finds the first batch of a segment at or behind an offset whose largest timestamp is late
/// enough, and checks its CRC; `None` when there is none in the bytes that may be read.
///
/// # Errors
/// [`ColdError`]
pub fn seek<D: Disk>(disk: &D, dir: &Path, ask: &SeekAsk) -> Result<Option<Bytes>, ColdError> {
    let file = disk.open(&ask.segment.path(dir, SegmentFile::Log), OpenHow::READ)?;
    let start = match ask.start {
        Some(start) => start,
        None => match load_index(disk, dir, ask.segment, ask.end)? {
            Some(index) => index.offsets.floor(index.times.floor(ask.time).max(ask.from)),
            None => BatchStart { base: ask.segment.base, at: FilePosition::ZERO },
        },
    };
    let damaged = |error| match error {
        WalkError::Disk(error) => ColdError::Disk(error),
        WalkError::Damaged { .. } => ColdError::Damaged { offset: ask.from, readable_from: None },
    };
    let mut walk = Walk::new(&file, start, ask.end);
    while let Some(place) = walk.next_place().map_err(damaged)? {
        if place.next > ask.from && place.max_timestamp >= ask.time {
            return read_batch(&file, &place).map(Some).map_err(damaged);
        }
    }
    Ok(None)
}

/// The largest timestamp of the records that `ask` counts; `None` when there are none.
///
/// # Errors
/// [`ColdError`]
pub fn latest<D: Disk>(
    disk: &D,
    dir: &Path,
    ask: &LatestAsk,
) -> Result<Option<TimestampMs>, ColdError> {
    let damaged = || ColdError::Damaged { offset: ask.from, readable_from: None };
    let inside = |batch: &[u8]| match lookup::largest_timestamp(batch, ask.from) {
        Ok(found) => Ok(found.map(|found| found.timestamp)),
        Err(_) => Err(damaged()),
    };
    let (start, end) = match &ask.of {
        LatestOf::Batch(batch) => return inside(batch),
        LatestOf::File { start, end } => (*start, *end),
    };
    let file = disk.open(&ask.segment.path(dir, SegmentFile::Log), OpenHow::READ)?;
    let start = match start {
        Some(start) => start,
        None => match load_index(disk, dir, ask.segment, end)? {
            Some(index) => index.offsets.floor(ask.from),
            None => BatchStart { base: ask.segment.base, at: FilePosition::ZERO },
        },
    };
    let of_walk = |error| match error {
        WalkError::Disk(error) => ColdError::Disk(error),
        WalkError::Damaged { .. } => damaged(),
    };
    let mut walk = Walk::new(&file, start, end);
    let mut largest = None;
    while let Some(place) = walk.next_place().map_err(of_walk)? {
        if place.base >= ask.from {
            largest = largest.max(Some(place.max_timestamp));
        } else if place.next > ask.from {
            largest = largest.max(inside(&read_batch(&file, &place).map_err(of_walk)?)?);
        }
    }
    Ok(largest)
}

/// The index from its files. A missing or damaged one costs a walk from the segment's start; it is
/// built again at the next start.
fn load_index<D: Disk>(
    disk: &D,
    dir: &Path,
    segment: SegmentId,
    end: FilePosition,
) -> Result<Option<Arc<Indexes>>, DiskError> {
    match Indexes::load(disk, dir, segment, end) {
        Ok((indexes, _)) => Ok(Some(Arc::new(indexes))),
        Err(LoadError::Damaged(_)) => Ok(None),
        Err(LoadError::Disk(error)) => Err(error),
    }
}

/// Why a scan stopped before it found anything.
enum Broken {
    Disk(DiskError),
    /// What stands there is not the batch that is due, or not as it was written.
    At(FilePosition),
}

impl From<DiskError> for Broken {
    fn from(error: DiskError) -> Broken {
        Broken::Disk(error)
    }
}

/// A forward scan through a window that grows to the largest batch met.
struct Scan<'f> {
    file: &'f dyn DiskFile,
    end: FilePosition,
    /// Of these, the first `held` are bytes of the file.
    window: Vec<u8>,
    held: usize,
    window_at: FilePosition,
}

thread_local! {
    /// The window of the last scan of this thread: a new one costs more than what it is filled with.
    static WINDOW: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Drop for Scan<'_> {
    fn drop(&mut self) {
        if self.window.len() <= WINDOW_KEPT_BYTES {
            WINDOW.set(std::mem::take(&mut self.window));
        }
    }
}

impl<'f> Scan<'f> {
    fn new(file: &'f dyn DiskFile, end: FilePosition) -> Scan<'f> {
        Scan { file, end, window: WINDOW.take(), held: 0, window_at: FilePosition::ZERO }
    }

    /// The checked batches from the one that holds the target on, within the limits of `ask`.
    fn collect(&mut self, from: BatchStart, ask: &ColdAsk) -> Result<ColdFound, Broken> {
        let (mut at, mut due) = (from.at, from.base);
        let mut found: Option<ColdFound> = None;
        while at < self.end {
            let wanted = bytes_u64(BATCH_HEADER_BYTES).max(ask.bytes_max.min(SCAN_BYTES));
            let head = self.bytes(at, bytes_usize(wanted))?;
            let (next, len) = match stored::frame(head) {
                Ok((header, len)) if header.base_offset().is_some_and(|base| base >= due) => {
                    (header.next_offset(), len)
                }
                Ok(_) | Err(_) => return found.ok_or(Broken::At(at)),
            };
            let (Some(next), end) = (next, at.add_len(len)) else {
                return found.ok_or(Broken::At(at));
            };
            if end > self.end {
                return found.ok_or(Broken::At(at));
            }
            if next > ask.target {
                let start = found.map_or(at, |found| found.start);
                let fits = end.since(start) <= ask.bytes_max;
                let over_limit = found.is_none() && !fits && ask.whole_first;
                if !fits && !over_limit {
                    let nothing = ColdFound { start: at, end: at, next: ask.target, over_limit };
                    return Ok(found.unwrap_or(nothing));
                }
                if stored::whole(self.bytes(at, len)?).is_err() {
                    return found.ok_or(Broken::At(at));
                }
                let over_limit = over_limit || found.is_some_and(|found| found.over_limit);
                found = Some(ColdFound { start, end, next, over_limit });
                if over_limit {
                    break;
                }
            }
            (at, due) = (end, next);
        }
        let nothing = ColdFound { start: at, end: at, next: ask.target, over_limit: false };
        Ok(found.unwrap_or(nothing))
    }

    /// At least `need` bytes from `at` on, fewer only at the end.
    fn bytes(&mut self, at: FilePosition, need: usize) -> Result<&[u8], DiskError> {
        let left = bytes_usize(self.end.since(at));
        let need = need.min(left);
        let skip = at.get().checked_sub(self.window_at.get()).map(bytes_usize);
        let is_held = skip.is_some_and(|skip| skip + need <= self.held);
        if !is_held {
            let wanted = need.max(SCAN_CHUNK_BYTES.min(left));
            if self.window.len() < wanted {
                self.window.resize(wanted, 0);
            }
            // Nothing is held until the read has ended well.
            self.held = 0;
            self.held = self.file.read_at(&mut self.window[..wanted], at)?;
            self.window_at = at;
        }
        let skip = bytes_usize(at.since(self.window_at));
        Ok(&self.window[skip..self.held])
    }
}

/// The first offset behind the damage at `at` from which on reading works, as far as the index
/// knows batch starts.
fn next_sound(
    file: &dyn DiskFile,
    index: &Indexes,
    at: FilePosition,
    end: FilePosition,
) -> Option<Offset> {
    let mut scan = Scan::new(file, end);
    let mut behind = at;
    loop {
        let start = index.offsets.first_behind(behind)?;
        let head = scan.bytes(start.at, BATCH_HEADER_BYTES).ok()?;
        let len = stored::frame(head).ok().map(|(_, len)| len);
        let sound = len.filter(|len| start.at.add_len(*len) <= end).is_some_and(|len| {
            scan.bytes(start.at, len).is_ok_and(|batch| stored::whole(batch).is_ok())
        });
        if sound {
            return Some(start.base);
        }
        behind = start.at;
    }
}

/// A window that is larger is not kept for the next scan.
const WINDOW_KEPT_BYTES: usize = 4 * SCAN_CHUNK_BYTES;

/// A scan reads ahead at most so much beyond what it looks at.
const SCAN_BYTES: u64 = 4096;
