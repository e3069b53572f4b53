//! Sealing a segment: its exact length, its indexes, all of it durable.
//!
//! The last block of a log in use is padded. The cut to the exact length makes the file system write
//! that block once more, and the journal may have let go of its bytes long ago. So the `.index` takes
//! a copy of them first; where the cut was torn by a power cut, [`restore`] puts them back.

use std::path::Path;

use crate::disk::{Disk, DiskError, DiskFile, DiskOp, OpenHow};
use crate::index_footer::Coverage;
use crate::indexes::Indexes;
use crate::limits::STATE_FILE_BYTES_MAX;
use crate::segment::SegmentFile;
use crate::sparse_index::SparseIndex;
use crate::units::{FilePosition, SegmentId};

/// Seals the segment of `indexes` in `dir`. Its log is complete in its file, and synced when
/// `synced` says so; behind `coverage.log_bytes` is nothing but padding and what may go.
///
/// Blocks; nobody else may write the segment meanwhile. Safe to be cut at any point and done again.
///
/// # Errors
/// [`DiskError`]. Without space for the indexes the log is as it was.
pub fn seal<D: Disk>(
    disk: &D,
    dir: &Path,
    indexes: &Indexes,
    coverage: Coverage,
    synced: bool,
) -> Result<(), DiskError> {
    assert!(coverage.sealed, "{coverage:?} is not that of a sealed segment");
    let path = indexes.segment().path(dir, SegmentFile::Log);
    let log = disk.open(&path, OpenHow::WRITE)?;
    if !synced {
        log.sync_data()?;
    }
    let mut block = vec![0; coverage.copied()];
    let at = coverage.log_bytes.block_floor();
    let got = log.read_at(&mut block, at)?;
    if got < block.len() {
        // Somebody else has cut the file.
        return Err(DiskError::from_errno(libc::ENODATA, DiskOp::Read, &path));
    }
    indexes.write(disk, dir, coverage, &block)?;
    disk.sync_dir(dir)?;
    if log.len()? > coverage.log_bytes.get() {
        log.set_len(coverage.log_bytes.get())?;
        log.sync_data()?;
    }
    Ok(())
}

/// Puts the last block of a log back from the copy that its seal has made, durably. True when the
/// block was another: the cut was torn. Does nothing when there is no copy, or not all of the log.
///
/// # Errors
/// [`DiskError`].
pub fn restore<D: Disk>(disk: &D, dir: &Path, segment: SegmentId) -> Result<bool, DiskError> {
    let index = disk.read_all(&segment.path(dir, SegmentFile::Index), STATE_FILE_BYTES_MAX)?;
    let log = disk.open(&segment.path(dir, SegmentFile::Log), OpenHow::WRITE)?;
    let log_bytes = FilePosition::new(log.len()?);
    let Ok(Some((at, copy))) = SparseIndex::copied_block(&index, segment, log_bytes) else {
        return Ok(false);
    };
    let mut block = vec![0; copy.len()];
    log.read_at(&mut block, at)?;
    let torn = block != copy;
    if torn {
        log.write_at(copy, at)?;
        log.sync_data()?;
    }
    Ok(torn)
}

#[cfg(test)]
#[path = "sealing_tests.rs"]
mod tests;
