//! From the files that a crash left to the log that was acknowledged.
//!
//! Three steps, all blocking, all generic over the disk:
//!
//! 1. [`replay`](replay::replay) puts the runs of every journal back into the segments they belong
//!    to. Segments may miss anything behind their last sync; the journal still holds it.
//! 2. [`recover_partition`](partition::recover_partition) finds the end of one partition's log,
//!    shows its batches to a visitor, builds indexes that are missing or wrong, cuts what was never
//!    acknowledged and reports damage. Partitions may be recovered in parallel.
//! 3. [`finish_journals`](replay::finish_journals) starts the journals empty, once every partition
//!    is recovered and synced.
//!
//! Each step may be cut by a crash and run again.
//!
//! How the end of a log is judged. Bytes that are not the batch that is due end the log: zeros, half
//! a batch, a well-formed left-over of older data. Whether what stands behind them may be cut
//! depends on the *floor*, the highest offset known to have been acknowledged (from the journal, its
//! state file and the partition's checkpoint):
//!
//! | valid batches behind | floor | verdict |
//! |---|---|---|
//! | no | any | cut, unless the checkpoint says that it was acknowledged: then damage, reported and never cut, and the log goes on behind it. Missing offsets below the floor are reported as lost |
//! | yes | known, and the log reaches it | cut: a write that was on its way and reached the disk out of order |
//! | yes | not reached, or not known | damage: reported, never cut; the log goes on behind it |

pub mod partition;
pub mod replay;
mod search;
pub(crate) mod segment_scan;
mod visit;

use std::fmt;
use std::path::{Path, PathBuf};

use crate::batch::stored::StoredError;
use crate::checkpoint::StateError;
use crate::disk::DiskError;
use crate::index_footer::IndexDamage;
use crate::journal::scan::ScanError;
use crate::partition_state::Manifest;
use crate::segment::SegmentMeta;
use crate::segment_reader::BatchPlace;
use crate::units::{FilePosition, Offset, SegmentId, TopicId, TopicPartition};

pub use partition::{PartitionInput, recover_partition};
pub use replay::{Replayed, finish_journals, replay};

/// What is known about how far a partition was acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Evidence {
    /// Everything in front of this was acknowledged.
    pub floor: Offset,
    /// Nothing behind the larger of this floor and the checkpoint's was acknowledged. False when a
    /// journal or its state is damaged or missing.
    pub complete: bool,
}

/// Looks at the batches of a log in offset order, to rebuild what is derived from them.
pub trait BatchVisitor {
    /// One batch. `bytes` is the whole batch when it is a control batch, else at least its header.
    fn batch(&mut self, place: &BatchPlace, bytes: &[u8]);
}

/// A visitor for those who need none.
impl BatchVisitor for () {
    fn batch(&mut self, _: &BatchPlace, _: &[u8]) {}
}

/// A partition whose log is whole again: synced, indexed, and its segments sealed. The next append
/// opens a new segment at `end`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecoveredPartition {
    /// As it was found; `None` when it was missing or damaged.
    pub manifest: Option<Manifest>,
    pub log_start: Offset,
    /// Offset behind the last record.
    pub end: Offset,
    /// By base offset. Empty ones were removed.
    pub segments: Vec<SegmentMeta>,
    pub report: RecoveryReport,
}

/// What recovery did and found. All zero and empty after a clean stop.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecoveryReport {
    /// Bytes of log read and checked.
    pub bytes_scanned: u64,
    /// Bytes cut off behind the end of the log, block padding not counted.
    pub bytes_cut: u64,
    pub damage: Vec<Damage>,
    /// Offsets that were acknowledged and are in no file: from, to.
    pub lost: Vec<(Offset, Offset)>,
    /// Segments whose indexes were built again, and why.
    pub indexes_rebuilt: Vec<(SegmentId, IndexDamage)>,
    /// Segments removed: empty, deleted before the crash, or never acknowledged.
    pub segments_removed: Vec<SegmentId>,
    /// Segments whose last block a power cut had torn, and whose seal had kept a copy of it.
    pub blocks_restored: Vec<SegmentId>,
    /// State files that were missing or damaged beside segments, and what was wrong.
    pub state_damaged: Vec<StateError>,
    /// The disk is full, so that indexes or checkpoints are not written. They are written later.
    pub disk_full: bool,
}

/// Bytes of an acknowledged part of the log that are not what was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damage {
    pub segment: SegmentId,
    pub from: FilePosition,
    /// Where a valid batch stands again, or the end of the segment.
    pub to: FilePosition,
    /// Offsets that are unreadable: from, to.
    pub offsets: (Offset, Offset),
    pub error: StoredError,
}

/// Why a partition or a journal could not be recovered. Nothing was cut then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RecoveryError {
    Disk(DiskError),
    /// A file was written by a newer version of the program.
    Newer {
        path: PathBuf,
        found: u32,
        known: u32,
    },
    /// The directory belongs to another topic or partition, and must be set aside.
    Foreign {
        dir: PathBuf,
        found: TopicId,
        expected: TopicPartition,
    },
    /// A state file that cannot be done without is damaged.
    State(StateError),
}

impl RecoveryReport {
    /// True when there is something an operator should read.
    pub fn is_notable(&self) -> bool {
        let RecoveryReport { bytes_scanned: _, segments_removed: _, .. } = self;
        self.bytes_cut > 0
            || !self.damage.is_empty()
            || !self.lost.is_empty()
            || !self.indexes_rebuilt.is_empty()
            || !self.blocks_restored.is_empty()
            || !self.state_damaged.is_empty()
            || self.disk_full
    }

    /// One line for each thing worth a log line. `dir` is the partition's.
    pub fn lines(&self, dir: &Path) -> Vec<String> {
        let dir = dir.display();
        let mut lines = Vec::new();
        if self.bytes_cut > 0 {
            let bytes = self.bytes_cut;
            lines.push(format!("{dir}: cut {bytes} bytes that were never acknowledged"));
        }
        lines.extend(self.damage.iter().map(|damage| format!("{dir}: {damage}")));
        for (from, to) in &self.lost {
            lines.push(format!(
                "{dir}: offsets {from} to {to} (exclusive) were acknowledged and are in no file; \
                 restore them from a replica or a backup"
            ));
        }
        for (segment, why) in &self.indexes_rebuilt {
            lines.push(format!("{dir}: built the indexes of segment {segment} again: {why}"));
        }
        for segment in &self.blocks_restored {
            lines.push(format!(
                "{dir}: put the last block of segment {segment} back, torn by a power cut"
            ));
        }
        lines.extend(self.state_damaged.iter().map(|e| format!("{dir}: {e}; it is made again")));
        if self.disk_full {
            lines
                .push(format!("{dir}: the disk is full, indexes and checkpoints were not written"));
        }
        lines
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = self.offsets;
        write!(
            f,
            "segment {} is damaged from byte {} to {}: offsets {from} to {to} (exclusive) cannot be \
             read; the log goes on behind them: {}",
            self.segment, self.from, self.to, self.error
        )
    }
}

impl From<DiskError> for RecoveryError {
    fn from(error: DiskError) -> RecoveryError {
        RecoveryError::Disk(error)
    }
}

impl From<StateError> for RecoveryError {
    fn from(error: StateError) -> RecoveryError {
        match error {
            StateError::Disk(error) => RecoveryError::Disk(error),
            StateError::Newer { path, found, known } => RecoveryError::Newer { path, found, known },
            StateError::Damaged { .. } => RecoveryError::State(error),
        }
    }
}

impl From<ScanError> for RecoveryError {
    fn from(error: ScanError) -> RecoveryError {
        match error {
            ScanError::Disk(error) => RecoveryError::Disk(error),
            ScanError::Newer { path, found, known } => RecoveryError::Newer { path, found, known },
        }
    }
}

impl fmt::Display for RecoveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoveryError::Disk(error) => error.fmt(f),
            RecoveryError::Newer { path, found, known } => {
                let (path, found, known) = (path.clone(), *found, *known);
                StateError::Newer { path, found, known }.fmt(f)
            }
            RecoveryError::Foreign { dir, found, expected } => write!(
                f,
                "{} belongs to topic id {found}, and {expected} was expected there",
                dir.display()
            ),
            RecoveryError::State(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RecoveryError {}

#[cfg(test)]
#[path = "recovery/recovery_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "recovery/crash_tests.rs"]
mod crash_tests;
