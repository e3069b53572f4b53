//! From a data directory as a stop or a crash left it to partitions that can be opened. Blocking:
//! at start, before any core runs.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use millstream_io::batch::RecordBatchHeader;
use millstream_io::checkpoint::{StateError, read_blob, read_state};
use millstream_io::data_dir::{Layout, set_aside};
use millstream_io::disk::{Disk, DiskError, DiskFile, OpenHow};
use millstream_io::journal::frame::JournalId;
use millstream_io::journal::ring::RingStart;
use millstream_io::journal::{JournalDamage, RingLimits};
use millstream_io::limits::RESERVE_BYTES;
use millstream_io::partition_state::{CleanerCheckpoint, PRODUCER_SNAPSHOT, producer_snapshot_in};
use millstream_io::recovery::replay::Home;
use millstream_io::recovery::{
    BatchVisitor, PartitionInput, RecoveredPartition, RecoveryError, RecoveryReport, Replayed,
    finish_journals, recover_partition, replay,
};
use millstream_io::reserve;
use millstream_io::segment::SegmentFile;
use millstream_io::segment_reader::BatchPlace;
use millstream_io::units::{FilePosition, Offset, ShardId, TimestampMs, TopicPartition};

use crate::leader_epochs::LeaderEpochs;
use crate::message::OpenPartition;
use crate::partition_log::RecoveredLog;
use crate::position::LogPosition;
use crate::producers::{Producers, Replayed as FoundBatch};
use crate::segments::{FileState, Index, Segment, Segments};

/// What to recover, and how.
#[derive(Clone, Debug)]
pub struct RecoverConfig {
    pub layout: Layout,
    /// Shards of this start. Partitions are placed among them anew.
    pub shard_count: u16,
    pub ring: RingLimits,
    /// Partitions that are recovered at the same time.
    pub threads: usize,
    /// Wall time: producers found in the log count as seen now.
    pub now: TimestampMs,
}

/// Everything that a start needs: the partitions with their logs, and a journal for each shard.
#[derive(Debug)]
pub struct Recovered {
    pub logs: Vec<(OpenPartition, RecoveredLog)>,
    pub journals: Vec<RingStart>,
    /// Size of each journal, as they were made ready.
    pub ring: RingLimits,
    pub report: StartReport,
}

/// What recovery did and found, for the log and the operator.
#[derive(Debug, Default)]
pub struct StartReport {
    /// Partitions of which there is something to say.
    pub partitions: Vec<(PathBuf, RecoveryReport)>,
    /// Directories that nobody claims, and where they are now.
    pub set_aside: Vec<(PathBuf, PathBuf)>,
    pub journal_damage: Vec<(ShardId, JournalDamage)>,
    /// Bytes put back from the journals, and bytes of log read.
    pub bytes_replayed: u64,
    pub bytes_scanned: u64,
}

/// Why a start cannot go on. Nothing was cut or emptied; run it again when the cause is gone.
#[derive(Debug)]
pub enum RecoverError {
    Journal(RecoveryError),
    Partition { at: TopicPartition, dir: PathBuf, error: RecoveryError },
    NoRandom(std::io::Error),
}

/// Replays the journals, recovers every partition, and starts the journals empty.
///
/// `partitions` are those that the metadata knows; a directory without one is not looked at, and a
/// partition without a directory is empty.
///
/// # Errors
/// [`RecoverError`]. Damage within a partition is no error: it is in the report.
pub fn recover<D: Disk>(
    disk: &D,
    config: &RecoverConfig,
    partitions: Vec<OpenPartition>,
) -> Result<Recovered, RecoverError> {
    let layout = &config.layout;
    let names: HashMap<TopicPartition, Arc<str>> =
        partitions.iter().map(|open| (open.at, open.topic_name.clone())).collect();
    let home = |at: TopicPartition| {
        let topic = names.get(&at)?.to_string();
        Some(Home { dir: layout.partition(&topic, at.partition), topic })
    };
    let replayed = replay(disk, layout, config.threads, home).map_err(RecoverError::Journal)?;
    let mut report = StartReport {
        set_aside: replayed.set_aside.clone(),
        journal_damage: replayed.damage().collect(),
        bytes_replayed: replayed.bytes_applied,
        ..StartReport::default()
    };
    let mut logs = Vec::with_capacity(partitions.len());
    for (open, found) in recover_all(disk, config, &replayed, partitions)? {
        report.bytes_scanned += found.report.bytes_scanned;
        if found.report.is_notable() {
            report.partitions.push((found.dir, found.report));
        }
        report.set_aside.extend(found.set_aside);
        logs.push((open, found.log));
    }
    let mut random = Ok(());
    let id = || {
        JournalId::random().unwrap_or_else(|error| {
            random = Err(error);
            JournalId::new(0)
        })
    };
    let journals = finish_journals(disk, layout, &replayed, config.shard_count, config.ring, id)
        .map_err(RecoverError::Journal)?;
    random.map_err(RecoverError::NoRandom)?;
    // A disk too full for it is served all the same.
    let _ = reserve::keep(disk, &layout.reserve(), RESERVE_BYTES);
    Ok(Recovered { logs, journals, ring: config.ring, report })
}

struct Found {
    log: RecoveredLog,
    dir: PathBuf,
    report: RecoveryReport,
    set_aside: Option<(PathBuf, PathBuf)>,
}

/// Recovers partitions on several threads; a slow or damaged one delays no other.
fn recover_all<D: Disk>(
    disk: &D,
    config: &RecoverConfig,
    replayed: &Replayed,
    partitions: Vec<OpenPartition>,
) -> Result<Vec<(OpenPartition, Found)>, RecoverError> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<Result<Found, RecoverError>>>> =
        Mutex::new((0..partitions.len()).map(|_| None).collect());
    let worker = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(open) = partitions.get(i) else { return };
            let found = recover_one(disk, config, replayed, open);
            done.lock().unwrap_or_else(PoisonError::into_inner)[i] = Some(found);
        }
    };
    let threads = config.threads.clamp(1, partitions.len().max(1));
    if threads == 1 {
        worker();
    } else {
        std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(worker))));
    }
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let pair = |(open, found): (OpenPartition, Option<Result<Found, RecoverError>>)| match found {
        Some(found) => found.map(|found| (open, found)),
        None => panic!("{}: a recovery thread ended early", open.at),
    };
    partitions.into_iter().zip(done).map(pair).collect()
}

fn recover_one<D: Disk>(
    disk: &D,
    config: &RecoverConfig,
    replayed: &Replayed,
    open: &OpenPartition,
) -> Result<Found, RecoverError> {
    let dir = config.layout.partition(&open.topic_name, open.at.partition);
    let fail = |error| RecoverError::Partition { at: open.at, dir: dir.clone(), error };
    let moved = |error: DiskError| fail(RecoveryError::Disk(error));
    match recover_in(disk, config, replayed, open, &dir) {
        Ok((log, report)) => Ok(Found { log, dir, report, set_aside: None }),
        Err(RecoveryError::Foreign { .. }) => {
            // Another topic's left-overs under our name are moved aside, never adopted.
            let to = set_aside(disk, &config.layout, &dir).map_err(moved)?;
            let (log, report) = recover_in(disk, config, replayed, open, &dir).map_err(&fail)?;
            Ok(Found { log, report, set_aside: Some((dir.clone(), to)), dir })
        }
        Err(error) => Err(fail(error)),
    }
}

fn recover_in<D: Disk>(
    disk: &D,
    config: &RecoverConfig,
    replayed: &Replayed,
    open: &OpenPartition,
    dir: &std::path::Path,
) -> Result<(RecoveredLog, RecoveryReport), RecoveryError> {
    let input = |visit_from| PartitionInput {
        dir,
        partition: open.at,
        topic: &open.topic_name,
        evidence: replayed.evidence(open.at),
        visit_from,
    };
    let (producers, taken_at) = read_producers(disk, dir)?;
    let mut visitor = Rebuild { producers, taken_at, now: config.now };
    let mut found = recover_partition(disk, &input(taken_at), &mut visitor)?;
    if taken_at > found.end {
        // The snapshot speaks of records that are lost: only the log counts.
        visitor = Rebuild { producers: Producers::new(), taken_at: Offset::ZERO, now: config.now };
        found = recover_partition(disk, &input(Offset::ZERO), &mut visitor)?;
    }
    let report = found.report.clone();
    let mut log = recovered_log(&found, visitor.producers, config.now);
    date_untimed(disk, dir, &mut log.segments);
    log.first_dirty = read_first_dirty(disk, dir)?.min(log.log_end);
    Ok((log, report))
}

/// Up to where the log is compacted; its beginning when nothing says so.
fn read_first_dirty<D: Disk>(disk: &D, dir: &std::path::Path) -> Result<Offset, RecoveryError> {
    match read_state::<_, CleanerCheckpoint>(disk, dir) {
        Ok(checkpoint) => Ok(checkpoint.map_or(Offset::ZERO, |found| found.first_dirty_offset)),
        Err(StateError::Damaged { .. }) => Ok(Offset::ZERO),
        Err(error) => Err(error.into()),
    }
}

/// The producers of the last snapshot, and the offset from which batches must be added. A damaged
/// or missing snapshot costs a look at the whole log.
fn read_producers<D: Disk>(
    disk: &D,
    dir: &std::path::Path,
) -> Result<(Producers, Offset), RecoveryError> {
    let blob = match read_blob(disk, &producer_snapshot_in(dir), PRODUCER_SNAPSHOT) {
        Ok(blob) => blob,
        Err(StateError::Damaged { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let decoded = blob.and_then(|(version, payload)| Producers::decode(version, &payload).ok());
    Ok(decoded.unwrap_or_default())
}

/// Adds the batches behind the snapshot to the producers' states.
struct Rebuild {
    producers: Producers,
    taken_at: Offset,
    now: TimestampMs,
}

impl BatchVisitor for Rebuild {
    fn batch(&mut self, place: &BatchPlace, bytes: &[u8]) {
        let Some(header) = RecordBatchHeader::view(bytes) else {
            panic!("a batch at {} was shown without its header", place.at);
        };
        if place.base < self.taken_at {
            return;
        }
        if let Some(stamp) = header.producer() {
            let found = FoundBatch {
                base: place.base,
                next: place.next,
                // Producers' clocks say nothing about when we last saw them.
                at: self.now,
                position: LogPosition::new(place.at.get()),
                attributes: header.attributes(),
                bytes,
            };
            self.producers.replay(stamp, &found);
        }
    }
}

/// Segments of which no record has a timestamp are as old as their files.
fn date_untimed<D: Disk>(disk: &D, dir: &std::path::Path, segments: &mut Segments) {
    for segment in segments.iter_mut().filter(|segment| segment.max_timestamp.get() < 0) {
        let path = segment.id.path(dir, SegmentFile::Log);
        // Who cannot tell says that they are new: they stay the longer.
        let modified = disk.open(&path, OpenHow::READ).ok().and_then(|file| file.modified());
        segment.appended_at = modified.unwrap_or(segment.appended_at);
    }
}

fn recovered_log(
    found: &RecoveredPartition,
    mut producers: Producers,
    now: TimestampMs,
) -> RecoveredLog {
    let mut segments = Segments::new();
    let mut epochs = LeaderEpochs::new();
    let mut start = LogPosition::ZERO;
    for meta in &found.segments {
        // Each epoch opens a segment of its own, so the names alone tell where epochs begin.
        epochs.assign(meta.id.epoch, meta.id.base);
        segments.push(Segment {
            id: meta.id,
            start,
            bytes: meta.log_bytes.get(),
            span: None,
            next: meta.next,
            max_timestamp: meta.max_timestamp,
            first_timestamp: TimestampMs::NONE,
            opened_at: now,
            appended_at: now,
            index: Index::File(None),
            file: FileState::Sealed,
            closed: true,
        });
        start = start.add(meta.log_bytes.since(FilePosition::ZERO));
    }
    epochs.delete_before(found.log_start);
    producers.delete_before(found.log_start);
    producers.relocate(|open| {
        // Where its segment is deleted, the log begins behind it.
        let segment = segments.at_offset(open.first).filter(|held| held.id.base <= open.first);
        segment
            .map_or(LogPosition::ZERO, |held| held.start.add(open.position.get()).min(held.end()))
    });
    // Before a segment's file is made the names above it are: without one, a life that ended early
    // may have left them to be lost.
    let home_made = !segments.is_empty()
        && found
            .manifest
            .as_ref()
            .is_some_and(|manifest| manifest.log_start_offset == found.log_start);
    RecoveredLog {
        log_start: found.log_start,
        log_end: found.end,
        epochs,
        producers,
        segments,
        home_made,
        first_dirty: Offset::ZERO,
    }
}

impl StartReport {
    /// One line for each thing worth a log line.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (shard, damage) in &self.journal_damage {
            lines.push(format!("journal of shard {shard}: {damage}"));
        }
        for (from, to) in &self.set_aside {
            let (from, to) = (from.display(), to.display());
            lines.push(format!("{from} belongs to no topic of ours and was moved to {to}"));
        }
        for (dir, report) in &self.partitions {
            lines.extend(report.lines(dir));
        }
        lines
    }
}

impl fmt::Display for RecoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecoverError::Journal(error) => write!(f, "the journal cannot be replayed: {error}"),
            RecoverError::Partition { at, dir, error } => {
                write!(f, "partition {at} in {} cannot be recovered: {error}", dir.display())
            }
            RecoverError::NoRandom(error) => write!(f, "the kernel gave no random bytes: {error}"),
        }
    }
}

impl std::error::Error for RecoverError {}
