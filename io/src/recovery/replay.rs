//! Putting the runs of the journals back into the segments they belong to.
//!
//! Bytes of a log never change once they have a place, so writing them again where they stand
//! already changes nothing: a replay may be cut at any point and run again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::{Evidence, RecoveryError};
use crate::checkpoint::{StateError, read_state, write_state};
use crate::data_dir::{Layout, journal_shards, set_aside};
use crate::disk::{Disk, DiskError, DiskFile, OpenHow, create_dir_durable};
use crate::journal::files::reset;
use crate::journal::scan::{ScanReport, scan};
use crate::journal::{Frame, JournalDamage, JournalId, RingLimits, RingStart, Run};
use crate::partition_state::{Manifest, RecoveryCheckpoint};
use crate::segment::{Listing, SegmentFile};
use crate::units::{Offset, SegmentId, ShardId, TopicPartition, bytes_u64};

/// What a replay did and learned.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Replayed {
    /// By shard, this start's or an earlier one's.
    pub journals: BTreeMap<ShardId, ScanReport>,
    /// Bytes written into segments.
    pub bytes_applied: u64,
    /// Runs of topics that the metadata does not know any more.
    pub runs_unknown: u64,
    /// Directories of other topics that stood in the way, and where they are now.
    pub set_aside: Vec<(PathBuf, PathBuf)>,
    /// There are topics, and no journal at all: somebody removed them.
    pub journals_missing: bool,
    floors: HashMap<TopicPartition, Offset>,
}

impl Replayed {
    /// What the journals say about how far a partition was acknowledged.
    pub fn evidence(&self, partition: TopicPartition) -> Evidence {
        Evidence {
            floor: self.floors.get(&partition).copied().unwrap_or_default(),
            complete: !self.journals_missing && self.journals.values().all(ScanReport::is_sound),
        }
    }

    /// Damage in any journal.
    pub fn damage(&self) -> impl Iterator<Item = (ShardId, JournalDamage)> + '_ {
        let of = |(shard, report): (&ShardId, &ScanReport)| {
            let shard = *shard;
            report.damage.clone().into_iter().map(move |damage| (shard, damage))
        };
        self.journals.iter().flat_map(of)
    }
}

/// Where a partition lives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Home {
    pub topic: String,
    pub dir: PathBuf,
}

/// Replays the journals of all shards that ever were. `home` says where a partition lives; `None`
/// when its topic is gone, and then its runs are passed over. Directories that many partitions of one
/// frame need are made on `threads` threads at the same time.
///
/// When it returns, every acknowledged byte is in its segment, synced.
///
/// # Errors
/// [`RecoveryError`]. Run it again then.
pub fn replay<D: Disk>(
    disk: &D,
    layout: &Layout,
    threads: usize,
    home: impl FnMut(TopicPartition) -> Option<Home>,
) -> Result<Replayed, RecoveryError> {
    let mut replay = Replay {
        disk,
        layout,
        threads,
        home,
        partitions: HashMap::new(),
        open: HashMap::new(),
        named: BTreeSet::new(),
        touched: 0,
        replayed: Replayed::default(),
    };
    let shards = journal_shards(disk, layout)?;
    replay.replayed.journals_missing = shards.is_empty() && has_topics(disk, layout)?;
    for shard in shards {
        replay.journal(shard)?;
    }
    replay.sync()?;
    Ok(replay.replayed)
}

/// Starts the journals of shards `0 .. shard_count` empty and removes those of other shards. Call it
/// when every partition is recovered.
///
/// # Errors
/// [`RecoveryError`]. Run the whole recovery again then.
pub fn finish_journals<D: Disk>(
    disk: &D,
    layout: &Layout,
    replayed: &Replayed,
    shard_count: u16,
    limits: RingLimits,
    mut new_id: impl FnMut() -> JournalId,
) -> Result<Vec<RingStart>, RecoveryError> {
    let mut starts = Vec::new();
    for shard in (0..shard_count).map(ShardId::new) {
        let dir = layout.journal(shard);
        create_dir_durable(disk, layout.root(), &dir)?;
        let next_round = replayed.journals.get(&shard).map(|r| r.next_round).unwrap_or_default();
        starts.push(reset(disk, &dir, (shard, new_id()), next_round, limits)?);
    }
    let old = replayed.journals.keys().filter(|shard| shard.get() >= shard_count);
    for shard in old {
        disk.remove_dir_all(&layout.journal(*shard))?;
        disk.sync_dir(&layout.journals())?;
    }
    Ok(starts)
}

struct Replay<'a, D: Disk, H> {
    disk: &'a D,
    layout: &'a Layout,
    threads: usize,
    home: H,
    /// One entry for each partition that a journal mentions.
    partitions: HashMap<TopicPartition, Option<Target>>,
    open: HashMap<PathBuf, D::File>,
    /// Directories in which files were made.
    named: BTreeSet<PathBuf>,
    /// Files written and closed again.
    touched: u64,
    replayed: Replayed,
}

/// Where the runs of one partition go.
struct Target {
    dir: PathBuf,
    listing: Listing,
    deleted: Deleted,
    checkpoint: Option<RecoveryCheckpoint>,
}

/// Which segments of a partition were deleted: they lie wholly below the log start, and are not
/// there any more.
#[derive(Default)]
struct Deleted {
    /// Base of a segment that is there, at or below the log start: those before it lie below.
    below: Offset,
    /// Those of them that are there all the same, ascending.
    kept: Vec<SegmentId>,
}

/// Most segment files open at a time.
const OPEN_MAX: usize = 64;

impl<D: Disk, H: FnMut(TopicPartition) -> Option<Home>> Replay<'_, D, H> {
    fn journal(&mut self, shard: ShardId) -> Result<(), RecoveryError> {
        let dir = self.layout.journal(shard);
        let disk = self.disk;
        // Runs of the last frame whose other bytes went straight to the segment: known to be
        // durable only when a later frame exists.
        let mut undecided: Vec<(TopicPartition, Offset)> = Vec::new();
        let mut failed = None;
        let report = scan(disk, &dir, shard, |frame| {
            for (partition, end) in undecided.drain(..) {
                raise(&mut self.replayed.floors, partition, end);
            }
            match self.frame(frame, &mut undecided) {
                Ok(()) => Ok(()),
                Err(RecoveryError::Disk(error)) => Err(error),
                Err(error) => {
                    let stop = DiskError::new(
                        crate::disk::DiskErrorKind::Stopped,
                        crate::disk::DiskOp::Read,
                        &dir,
                    );
                    failed = Some(error);
                    Err(stop)
                }
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let report = report?;
        for (partition, end) in &report.floors {
            raise(&mut self.replayed.floors, *partition, *end);
        }
        self.replayed.journals.insert(shard, report);
        Ok(())
    }

    fn frame(
        &mut self,
        frame: &Frame<'_>,
        undecided: &mut Vec<(TopicPartition, Offset)>,
    ) -> Result<(), RecoveryError> {
        self.find_targets(frame)?;
        for (run, bytes) in frame.runs() {
            if run.direct {
                undecided.push((run.partition, run.end));
            } else {
                raise(&mut self.replayed.floors, run.partition, run.end);
            }
            self.run(&run, bytes)?;
        }
        Ok(())
    }

    fn run(&mut self, run: &Run, bytes: &[u8]) -> Result<(), RecoveryError> {
        let Some(Some(target)) = self.partitions.get(&run.partition) else {
            self.replayed.runs_unknown += 1;
            return Ok(());
        };
        // What was removed would come back for nothing. Deleted records of a segment that is there
        // are put back: it has no holes, and tells of producers.
        let gone = target.deleted.has(run.segment);
        if bytes.is_empty() || gone || target.listing.replacement(run.segment).is_some() {
            return Ok(());
        }
        let path = run.segment.path(&target.dir, SegmentFile::Log);
        let end = run.at.add_len(bytes.len());
        let synced = target.checkpoint.is_some_and(|c| is_synced(&c, run.segment, end.get()));
        if synced && file_len(self.disk, &path)?.is_some_and(|len| len >= end.get()) {
            return Ok(());
        }
        let dir = target.dir.clone();
        let file = self.file(&dir, &path)?;
        file.write_at(bytes, run.at)?;
        self.replayed.bytes_applied += bytes_u64(bytes.len());
        Ok(())
    }

    /// Finds where the runs of a frame go, for those partitions that no frame before has mentioned.
    fn find_targets(&mut self, frame: &Frame<'_>) -> Result<(), RecoveryError> {
        let mut sought: Vec<(Run, Home)> = Vec::new();
        for (run, _) in frame.runs() {
            if self.partitions.contains_key(&run.partition) {
                continue;
            }
            // Until it is found it counts as unknown, so that it is sought once.
            self.partitions.insert(run.partition, None);
            let home = (self.home)(run.partition);
            sought.extend(home.map(|home| (run, home)));
        }
        let (disk, layout) = (self.disk, self.layout);
        let found = at_once(self.threads, &sought, |(run, home)| target(disk, layout, run, home));
        for ((run, _), found) in sought.iter().zip(found) {
            let (target, aside) = found?;
            self.replayed.set_aside.extend(aside.map(|aside| (target.dir.clone(), aside)));
            self.partitions.insert(run.partition, Some(target));
        }
        Ok(())
    }

    fn file(&mut self, dir: &Path, path: &Path) -> Result<&D::File, RecoveryError> {
        if !self.open.contains_key(path) {
            if self.open.len() >= OPEN_MAX {
                self.touched += bytes_u64(self.open.len());
                self.open.clear();
            }
            let known = self.disk.kind(path)?.is_some();
            let file = self.disk.open(path, OpenHow::CREATE)?;
            if !known {
                self.named.insert(dir.to_path_buf());
            }
            self.open.insert(path.to_path_buf(), file);
        }
        match self.open.get(path) {
            Some(file) => Ok(file),
            None => panic!("{} was opened just now", path.display()),
        }
    }

    /// Makes all that was written durable, and the names of new files: one by one when they are few, else
    /// at once.
    fn sync(&mut self) -> Result<(), RecoveryError> {
        if self.touched > 0 {
            self.disk.sync_fs(self.layout.root())?;
        } else {
            for dir in &self.named {
                self.disk.sync_dir(dir)?;
            }
            for file in self.open.values() {
                file.sync_data()?;
            }
        }
        self.open.clear();
        Ok(())
    }
}

/// Finds the directory of a partition, and makes it again when a power cut took it. Also says where
/// another topic's directory went that stood in its place.
fn target<D: Disk>(
    disk: &D,
    layout: &Layout,
    run: &Run,
    home: &Home,
) -> Result<(Target, Option<PathBuf>), RecoveryError> {
    let dir = home.dir.clone();
    let mut manifest = match read_state::<_, Manifest>(disk, &dir) {
        Ok(manifest) => manifest,
        // Recovery of the partition reports it.
        Err(StateError::Damaged { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let mut aside = None;
    if manifest.as_ref().is_some_and(|m| m.topic_partition() != run.partition) {
        aside = Some(set_aside(disk, layout, &dir)?);
        manifest = None;
    }
    // A power cut took the directory, or a replay was cut between making it and its manifest.
    let listing = Listing::read(disk, &dir)?;
    if manifest.is_none() && listing.segments.is_empty() {
        create_dir_durable(disk, layout.root(), &dir)?;
        write_state(
            disk,
            &dir,
            &Manifest {
                topic_id: run.partition.topic,
                topic: home.topic.clone(),
                partition: run.partition.partition,
                leader_epoch: run.segment.epoch,
                high_watermark: Offset::ZERO,
                log_start_offset: Offset::ZERO,
            },
        )?;
    }
    let checkpoint = match read_state::<_, RecoveryCheckpoint>(disk, &dir) {
        Ok(checkpoint) => checkpoint,
        Err(StateError::Damaged { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let starts = [manifest.map(|m| m.log_start_offset), checkpoint.map(|c| c.log_start_offset)];
    let log_start = starts.into_iter().flatten().max().unwrap_or_default();
    let deleted = match log_start {
        Offset::ZERO => Deleted::default(),
        log_start => Deleted::of(listing.segments.clone(), log_start),
    };
    Ok((Target { dir, listing, deleted, checkpoint }, aside))
}

/// What `work` makes of each item, in their order, on several threads when there are enough of them.
fn at_once<T: Sync, R: Send>(threads: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = threads.min(items.len() / ITEMS_PER_THREAD_MIN);
    if threads <= 1 {
        return items.iter().map(work).collect();
    }
    let work = &work;
    let share = items.len().div_ceil(threads);
    std::thread::scope(|scope| {
        let shares = items.chunks(share);
        let begun: Vec<_> = shares
            .map(|share| scope.spawn(|| share.iter().map(work).collect::<Vec<R>>()))
            .collect();
        let done = begun.into_iter().map(|thread| match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        done.flatten().collect()
    })
}

/// Fewer are not worth a thread.
const ITEMS_PER_THREAD_MIN: usize = 4;

impl Deleted {
    fn of(mut segments: Vec<SegmentId>, log_start: Offset) -> Deleted {
        segments.retain(|id| id.base <= log_start);
        let below = segments.last().map(|last| last.base).unwrap_or_default();
        segments.retain(|id| id.base < below);
        Deleted { below, kept: segments }
    }

    fn has(&self, segment: SegmentId) -> bool {
        segment.base < self.below && self.kept.binary_search(&segment).is_err()
    }
}

fn has_topics<D: Disk>(disk: &D, layout: &Layout) -> Result<bool, DiskError> {
    match disk.list(&layout.topics()) {
        Ok(entries) => Ok(!entries.is_empty()),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

fn raise(floors: &mut HashMap<TopicPartition, Offset>, partition: TopicPartition, end: Offset) {
    let floor = floors.entry(partition).or_insert(end);
    *floor = end.max(*floor);
}

/// Whether what ends at `end` was synced by the checkpoint, and is never written again: of the block
/// in which the synced part ends that is not said. It is written again with more in it, and where
/// that was torn only the journal has what was synced before.
fn is_synced(checkpoint: &RecoveryCheckpoint, segment: SegmentId, end: u64) -> bool {
    let whole = checkpoint.position().block_floor();
    segment < checkpoint.segment() || (segment == checkpoint.segment() && end <= whole.get())
}

fn file_len<D: Disk>(disk: &D, path: &Path) -> Result<Option<u64>, DiskError> {
    match disk.open(path, OpenHow::READ) {
        Ok(file) => file.len().map(Some),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::BLOCK_BYTES_U64;
    use crate::units::LeaderEpoch;

    #[test]
    fn block_in_which_the_synced_part_ends_is_put_back() {
        let segment = |base| SegmentId::new(LeaderEpoch::ZERO, Offset::at(base));
        let checkpoint = RecoveryCheckpoint {
            segment_epoch: LeaderEpoch::ZERO,
            segment_base: Offset::at(50),
            byte_pos: 2 * BLOCK_BYTES_U64 + 700,
            offset: Offset::at(70),
            log_start_offset: Offset::ZERO,
            clean: false,
        };
        let synced = |base, end| is_synced(&checkpoint, segment(base), end);
        assert!(synced(0, 100 * BLOCK_BYTES_U64), "a segment before");
        assert!(synced(50, 2 * BLOCK_BYTES_U64));
        assert!(!synced(50, 2 * BLOCK_BYTES_U64 + 700), "it may be torn when it is written again");
        assert!(!synced(90, 1), "a segment behind");
    }
}
