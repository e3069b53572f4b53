//! Reading a journal back after a crash.
//!
//! Recycled files still hold whole, valid frames of earlier rounds. A frame counts only if it carries
//! the journal's id and the number of the file it stands in, and its round follows the one before.
//! The first that does not, or whose checksum fails, ends the journal, since at most one round is
//! ever in flight. Unless frames of *later* rounds stand behind it: then acknowledged bytes are
//! damaged, which is reported, and the later frames count too.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::checkpoint::StateError;
use crate::disk::{Disk, DiskError, DiskFile, OpenHow};
use crate::journal::files;
use crate::journal::frame::{Frame, FrameError, FrameHead, FrameId, JournalId};
use crate::journal::state::JournalState;
use crate::limits::BLOCK_BYTES;
use crate::read_ahead::ReadAhead;
use crate::units::{
    FilePosition, JournalSeq, Offset, RoundNumber, ShardId, TopicPartition, bytes_u64,
};

/// Rounds that are damaged although they were acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JournalDamage {
    pub seq: JournalSeq,
    /// Where the first of them should stand.
    pub at: FilePosition,
    /// First round that is missing.
    pub missing_from: RoundNumber,
    /// First round that is there again.
    pub found: RoundNumber,
}

/// What a scan found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScanReport {
    /// Frames given to the visitor.
    pub frames: u64,
    /// Bytes of those frames.
    pub bytes: u64,
    /// Round behind the last one found.
    pub next_round: RoundNumber,
    pub damage: Vec<JournalDamage>,
    /// What the state file says about partitions that no frame mentions.
    pub floors: Vec<(TopicPartition, Offset)>,
    /// False when the state file is missing beside journal files, or damaged: then `floors` and the
    /// start of the journal are not to be relied upon.
    pub state_known: bool,
}

impl ScanReport {
    /// True when nothing that was acknowledged can be missing from what the visitor saw.
    pub fn is_sound(&self) -> bool {
        self.state_known && self.damage.is_empty()
    }
}

/// Why a journal could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScanError {
    Disk(DiskError),
    /// Written by a newer version of the program.
    Newer {
        path: PathBuf,
        found: u32,
        known: u32,
    },
}

/// Reads the journal of `shard` in `dir` and shows each frame that counts, in round order.
///
/// Holds one frame in memory at a time.
///
/// # Errors
/// [`ScanError`], also whatever the visitor returns.
pub fn scan<D: Disk>(
    disk: &D,
    dir: &Path,
    shard: ShardId,
    mut visit: impl FnMut(&Frame<'_>) -> Result<(), DiskError>,
) -> Result<ScanReport, ScanError> {
    let seqs = files::list(disk, dir)?;
    let state = match JournalState::read(disk, dir) {
        Ok(state) => state,
        Err(StateError::Disk(error)) => return Err(error.into()),
        Err(StateError::Newer { path, found, known }) => {
            return Err(ScanError::Newer { path, found, known });
        }
        Err(StateError::Damaged { .. }) => None,
    };
    let state_known = state.is_some() || seqs.is_empty();
    let (known_id, known_start) =
        (state.as_ref().map(|s| s.journal), state.as_ref().map(|s| s.replay_from));
    let state = state.unwrap_or_default();
    let mut report = ScanReport {
        next_round: state.replay_from,
        floors: state.floors,
        state_known,
        ..ScanReport::default()
    };
    let skip_below = state.replay_from;
    let mut chain = Chain { shard, journal: known_id, expected: known_start, skip_below };
    for seq in seqs {
        let path = files::path(dir, seq);
        let file = disk.open(&path, OpenHow::READ)?;
        let mut reader = ReadAhead::new(&file, FilePosition::new(file.len()?));
        scan_file(&mut reader, seq, &path, &mut chain, &mut report, &mut visit)?;
    }
    Ok(report)
}

/// Which frame is due.
struct Chain {
    shard: ShardId,
    /// `None` until the first frame, when no state file says it. The first bytes of a file are
    /// always a frame's, never a producer's.
    journal: Option<JournalId>,
    /// The round that must come next; `None` until the first frame, when no state file says it.
    expected: Option<RoundNumber>,
    /// Rounds in front of this are in synced segments.
    skip_below: RoundNumber,
}

fn scan_file<F: DiskFile>(
    reader: &mut ReadAhead<'_, F>,
    seq: JournalSeq,
    path: &Path,
    chain: &mut Chain,
    report: &mut ScanReport,
    visit: &mut impl FnMut(&Frame<'_>) -> Result<(), DiskError>,
) -> Result<(), ScanError> {
    let mut at = FilePosition::ZERO;
    // Where the frames of this file stopped making sense, if they did.
    let mut broken_at: Option<FilePosition> = None;
    while at < reader.end() {
        let frame = match frame_at(reader, at, |id| chain.is_due(id, seq, at))? {
            Ok(frame) => frame,
            Err(FrameError::Newer { found, known }) if at == FilePosition::ZERO => {
                let (found, known) = (u32::from(found), u32::from(known));
                return Err(ScanError::Newer { path: path.to_path_buf(), found, known });
            }
            Err(_) => {
                broken_at = broken_at.or(Some(at));
                at = at.add_len(BLOCK_BYTES);
                continue;
            }
        };
        let (round, bytes) = (frame.id.round, frame.padded());
        chain.journal = Some(frame.id.journal);
        if round >= chain.skip_below {
            if let Some(missing_from) = chain.expected.filter(|expected| round > *expected) {
                let at = broken_at.unwrap_or(at);
                report.damage.push(JournalDamage { seq, at, missing_from, found: round });
            }
            visit(&frame)?;
            report.frames += 1;
            report.bytes += bytes_u64(bytes);
            chain.expected = Some(round.next());
            report.next_round = round.next();
        }
        broken_at = None;
        at = at.add_len(bytes);
    }
    Ok(())
}

impl Chain {
    /// True when a frame of this id may stand in file `seq` at `at`: a frame of this journal, which
    /// is either in front of the replay or not in front of the round that is due.
    fn is_due(&self, id: FrameId, seq: JournalSeq, at: FilePosition) -> bool {
        let ours = match self.journal {
            Some(journal) => id.journal == journal,
            None => at == FilePosition::ZERO,
        };
        let in_order = self.expected.is_none_or(|e| id.round >= e || id.round < self.skip_below);
        ours && id.shard == self.shard && id.seq == seq && in_order
    }
}

/// The frame at `at`, if one stands there whose id is due; only then its bytes are summed up.
fn frame_at<'r, F: DiskFile>(
    reader: &'r mut ReadAhead<'_, F>,
    at: FilePosition,
    is_due: impl Fn(FrameId) -> bool,
) -> Result<Result<Frame<'r>, FrameError>, DiskError> {
    let head = match FrameHead::read(reader.get(at, BLOCK_BYTES)?) {
        Ok(head) if is_due(head.id) => head,
        Ok(_) => return Ok(Err(FrameError::Magic)),
        Err(error) => return Ok(Err(error)),
    };
    Ok(Frame::parse(reader.get(at, head.length)?))
}

impl From<DiskError> for ScanError {
    fn from(error: DiskError) -> ScanError {
        ScanError::Disk(error)
    }
}

impl fmt::Display for ScanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScanError::Disk(error) => error.fmt(f),
            ScanError::Newer { path, found, known } => write!(
                f,
                "{} has format version {found} and this program knows versions up to {known}; \
                 start a newer version of the program",
                path.display()
            ),
        }
    }
}

impl std::error::Error for ScanError {}

impl fmt::Display for JournalDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "journal file {} is damaged at byte {}: rounds {} to {} are missing and round {} is there",
            self.seq,
            self.at,
            self.missing_from,
            self.found.get().saturating_sub(1),
            self.found
        )
    }
}
