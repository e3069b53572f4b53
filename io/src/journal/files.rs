//! The blocking work on journal files: for start and for the helper pool.

use std::path::{Path, PathBuf};

use crate::checkpoint::StateError;
use crate::disk::{Disk, DiskError, DiskErrorKind, DiskFile, EntryKind, OpenHow};
use crate::journal::frame::JournalId;
use crate::journal::ring::{Prepare, RingLimits, RingStart};
use crate::journal::state::JournalState;
use crate::units::{FilePosition, JournalSeq, RoundNumber, ShardId};

const EXTENSION: &str = ".wal";

/// Name of a journal file.
pub fn file_name(seq: JournalSeq) -> String {
    format!("{seq}{EXTENSION}")
}

/// Path of a journal file.
pub fn path(dir: &Path, seq: JournalSeq) -> PathBuf {
    dir.join(file_name(seq))
}

/// The number in a file name; `None` when it is not one that we would write.
pub fn seq_of(name: &str) -> Option<JournalSeq> {
    let seq = u64::from_str_radix(name.strip_suffix(EXTENSION)?, 16).ok().map(JournalSeq::new)?;
    (file_name(seq) == name).then_some(seq)
}

/// Numbers of the files of the journal in `dir`, ascending; none when there is no directory.
///
/// # Errors
/// As [`Disk::list`].
pub fn list<D: Disk>(disk: &D, dir: &Path) -> Result<Vec<JournalSeq>, DiskError> {
    let entries = match disk.list(dir) {
        Ok(entries) => entries,
        Err(error) if error.is_not_found() => Vec::new(),
        Err(error) => return Err(error),
    };
    let files = entries.iter().filter(|e| e.kind == EntryKind::File);
    let mut seqs: Vec<JournalSeq> = files.filter_map(|e| seq_of(&e.name)).collect();
    seqs.sort();
    Ok(seqs)
}

/// Does the job that [`JournalRing::prepare`](crate::journal::JournalRing::prepare) gave. When it
/// returns, the file can be opened under its name, and its name is durable. Says where the part of
/// the file begins that was never written.
///
/// # Errors
/// [`StateError`]. Ask [`name_after_failure`] then.
pub fn prepare<D: Disk>(
    disk: &D,
    dir: &Path,
    job: &Prepare,
    file_bytes: u64,
) -> Result<FilePosition, StateError> {
    let blank = match job {
        Prepare::Create { seq } => {
            create(disk, &path(dir, *seq), file_bytes)?;
            FilePosition::ZERO
        }
        Prepare::Recycle { from, to, state } => {
            JournalState::from(state.clone()).write(disk, dir)?;
            let blank = disk.open(&path(dir, *from), OpenHow::READ)?.blank_from()?;
            disk.rename(&path(dir, *from), &path(dir, *to))?;
            blank
        }
    };
    disk.sync_dir(dir)?;
    Ok(blank)
}

/// Which of its two names the file of a failed job has, for
/// [`JournalRing::prepare_failed`](crate::journal::JournalRing::prepare_failed).
pub fn name_after_failure<D: Disk>(disk: &D, dir: &Path, job: &Prepare) -> Option<JournalSeq> {
    let candidates = match job {
        // Half made: removed, so that the next try finds nothing in its way.
        Prepare::Create { seq } => {
            let _ = disk.remove_file(&path(dir, *seq));
            return None;
        }
        Prepare::Recycle { from, to, .. } => [*to, *from],
    };
    candidates.into_iter().find(|seq| matches!(disk.kind(&path(dir, *seq)), Ok(Some(_))))
}

/// Starts the journal in `dir` empty, after a replay or for the first time: from now on a replay
/// begins at `next_round` and looks for frames with the id `journal`, which must be a new one. Left
/// files of earlier starts go into the ring; what is too many goes. The directory must exist.
///
/// # Errors
/// [`StateError`]; the journal is as it was then.
pub fn reset<D: Disk>(
    disk: &D,
    dir: &Path,
    id: (ShardId, JournalId),
    next_round: RoundNumber,
    limits: RingLimits,
) -> Result<RingStart, StateError> {
    let (shard, journal) = id;
    let files = list(disk, dir)?;
    // A damaged state has been reported by the replay; here only the numbers matter.
    let known = match JournalState::read(disk, dir) {
        Ok(state) => state.unwrap_or_default().next_seq,
        Err(StateError::Damaged { .. }) => JournalSeq::ZERO,
        Err(error) => return Err(error),
    };
    let behind = files.last().map_or(JournalSeq::ZERO, |last| last.next());
    let next_seq = known.max(behind);
    JournalState { journal, replay_from: next_round, next_seq, floors: Vec::new() }
        .write(disk, dir)?;
    let mut free = Vec::new();
    for seq in files {
        let whole = disk.open(&path(dir, seq), OpenHow::READ)?.len()? == limits.file_bytes;
        if whole && free.len() < limits.files_max {
            free.push(seq);
        } else {
            disk.remove_file(&path(dir, seq))?;
        }
    }
    disk.sync_dir(dir)?;
    Ok(RingStart { shard, journal, next_seq, next_round, free })
}

fn create<D: Disk>(disk: &D, path: &Path, bytes: u64) -> Result<(), DiskError> {
    let file = disk.open(path, OpenHow::CREATE)?;
    match file.allocate(bytes) {
        // A file system without preallocation: the length alone, and ENOSPC comes with the writes.
        Err(error) if error.kind == DiskErrorKind::Unsupported => file.set_len(bytes)?,
        other => other?,
    }
    file.sync_data()
}
