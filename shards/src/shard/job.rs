//! The jobs behind the journal: what is written, removed or made ready, and how it ended.

use std::path::PathBuf;
use std::time::Duration;

use millstream_io::disk::DiskError;
use millstream_io::index_footer::Coverage;
use millstream_io::indexes::Indexes;
use millstream_io::journal::Prepare;
use millstream_io::partition_state::{Manifest, RecoveryCheckpoint};
use millstream_io::units::{FilePosition, JournalSeq, Offset, SegmentId, TopicPartition};

use crate::partition_log::WritePlan;
use crate::position::LogPosition;
use crate::segments::Repair;
use crate::table::Slot;

/// Something to be done behind the journal. Owned: whoever takes it does it, and tells how it went
/// by [`ShardState::job_done`].
#[derive(Debug)]
pub enum Job {
    /// Make files, write blocks, sync.
    Write(WriteJob),
    /// Give a complete segment its exact length and its indexes.
    Seal(SealJob),
    /// Write a partition's state files, so that recovery need not read what lies before.
    Save(Box<SaveJob>),
    /// Cut refused bytes out of files.
    Repair(RepairJob),
    /// Write a new log start down.
    Trim(Box<TrimJob>),
    /// Remove the files of deleted segments.
    Remove(RemoveJob),
    /// Make the next journal file ready.
    Prepare(Prepare),
    /// Look whether there is space again.
    Probe,
}

/// A write to one partition's segments.
#[derive(Clone, Debug)]
pub struct WriteJob {
    pub slot: Slot,
    pub home: Home,
    pub plan: WritePlan,
    /// Save the state files afterwards.
    pub(super) save: bool,
}

/// Where a partition's files live, and what its directory must say.
#[derive(Clone, Debug)]
pub struct Home {
    pub at: TopicPartition,
    pub dir: PathBuf,
    /// To be written first when the directory is new, or says something older.
    pub manifest: Option<Manifest>,
}

/// What became of the directory and the files that a write needed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// It needed none.
    Nothing,
    /// Making them failed half-way: some may exist, and no name counts as durable.
    Perhaps,
    /// They exist, and their names are durable.
    Durably,
}

/// A segment to be sealed.
#[derive(Debug)]
pub struct SealJob {
    pub slot: Slot,
    pub dir: PathBuf,
    pub segment: SegmentId,
    pub indexes: Indexes,
    pub coverage: Coverage,
    /// All of its log is durable in its file.
    pub synced: bool,
}

/// State files to be written, in this order.
#[derive(Debug)]
pub struct SaveJob {
    pub slot: Slot,
    pub home: Home,
    /// The indexes of the unfinished segment, as far as it is synced.
    pub indexes: Option<(Indexes, Coverage)>,
    pub producers: Vec<u8>,
    pub checkpoint: RecoveryCheckpoint,
    /// Where the checkpoint stands in the log.
    pub saved_to: LogPosition,
}

/// Refused bytes to be cut out of the files of one partition.
#[derive(Clone, Debug)]
pub struct RepairJob {
    pub slot: Slot,
    pub dir: PathBuf,
    pub repair: Repair,
}

/// A new log start to be written down.
#[derive(Debug)]
pub struct TrimJob {
    pub slot: Slot,
    /// With the manifest that names it.
    pub home: Home,
    pub log_start: Offset,
    /// The directory stands: only the manifest is to be written.
    pub home_made: bool,
    /// What is given up when there is no space for it.
    pub reserve: PathBuf,
}

/// Files of segments that lie wholly below the log start, to be removed.
#[derive(Debug)]
pub struct RemoveJob {
    pub slot: Slot,
    pub at: TopicPartition,
    pub dir: PathBuf,
    pub segments: Vec<SegmentId>,
    /// The segment behind them: its name is to be durable first.
    pub next: Option<SegmentId>,
    /// The saved state of the producers is older than the end of these segments and goes first.
    pub forget_producers: bool,
    pub aside: Aside,
}

/// Which deleted files the remover takes, and how they come to it.
#[derive(Clone, Debug)]
pub struct Aside {
    /// Where they wait for it.
    pub dir: PathBuf,
    /// Logs that are larger are moved there; others are removed at once.
    pub larger_than: u64,
    /// How long they stay.
    pub delay: Duration,
}

/// How the write of a log start ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trimmed {
    Well,
    /// There was no space, and then there was: the reserve is used up.
    FromReserve,
}

/// How a job ended.
#[derive(Debug)]
pub enum JobOutcome {
    Write {
        job: WriteJob,
        made: Made,
        result: Result<(), DiskError>,
    },
    Seal {
        job: SealJob,
        result: Result<(), DiskError>,
    },
    Save {
        job: Box<SaveJob>,
        result: Result<(), DiskError>,
    },
    Repair {
        job: RepairJob,
        result: Result<(), DiskError>,
    },
    Trim {
        job: Box<TrimJob>,
        result: Result<Trimmed, DiskError>,
    },
    Remove {
        job: RemoveJob,
        result: Result<(), DiskError>,
    },
    /// `Err` also says which name the file of a failed job has now.
    Prepare(Result<FilePosition, (DiskError, Option<JournalSeq>)>),
    Probe {
        has_space: bool,
    },
}
