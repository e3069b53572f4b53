//! The blocking jobs: what runs on the helper pool.

use std::path::{Path, PathBuf};
use std::time::Duration;

use millstream_io::checkpoint::{StateError, write_blob, write_state};
use millstream_io::data_dir::Layout;
use millstream_io::disk::{
    CoreDisk, Disk, DiskError, DiskErrorKind, DiskFile, DiskOp, OpenHow, parent_of,
};
use millstream_io::journal::{Prepare, files};
use millstream_io::limits::RESERVE_BYTES;
use millstream_io::partition_state::{PRODUCER_SNAPSHOT, producer_snapshot_in};
use millstream_io::reserve;
use millstream_io::sealing;
use millstream_io::segment::{SegmentFile, remove_segment};
use millstream_io::units::{FilePosition, JournalSeq, SegmentId};

use crate::limits::FREE_BYTES_TO_RESUME;
use crate::shard::{
    Home, Job, JobOutcome, RemoveJob, RepairJob, SaveJob, SealJob, TrimJob, Trimmed,
};

use super::DiskShell;

impl<D: CoreDisk> DiskShell<D> {
    /// Does one job of the shard and tells it how that went.
    pub async fn run_job(&self, job: Job) {
        let outcome = match job {
            Job::Write(job) => {
                let (made, result) = self.write_plan(job.slot, &job.home, &job.plan).await;
                JobOutcome::Write { job, made, result }
            }
            Job::Seal(job) => {
                // Sealed files are not written again; a direct handle would only hold a descriptor.
                self.close_segment(job.slot, job.segment).await;
                let (job, result) = self.run(job, seal).await;
                JobOutcome::Seal { job, result }
            }
            Job::Save(job) => {
                let (job, result) = self.run(job, |disk, job| save(disk, job)).await;
                JobOutcome::Save { job, result }
            }
            Job::Repair(job) => {
                for segment in job.repair.remove.iter().copied() {
                    self.close_segment(job.slot, segment).await;
                }
                let (job, result) = self.run(job, repair).await;
                JobOutcome::Repair { job, result }
            }
            Job::Trim(job) => {
                let (job, result) = self.run(job, |disk, job| trim(disk, job)).await;
                JobOutcome::Trim { job, result }
            }
            Job::Remove(job) => {
                // A sync of the segment may have opened it again behind its seal.
                for segment in job.segments.iter().copied() {
                    self.close_segment(job.slot, segment).await;
                }
                let (job, aside) = self.run(job, remove).await;
                let result = match aside {
                    Ok(aside) => self.give_removals(aside, job.aside.delay).await,
                    Err(error) => Err(error),
                };
                JobOutcome::Remove { job, result }
            }
            Job::Prepare(job) => JobOutcome::Prepare(self.prepare(job).await),
            Job::Probe => {
                let layout = self.shard.with(|shard| shard.layout.clone());
                let (_, has_space) = self.run(layout, probe).await;
                JobOutcome::Probe { has_space: has_space.is_ok_and(|has_space| has_space) }
            }
        };
        self.shard.with_mut(|shard| shard.job_done(outcome));
    }

    /// Makes a partition's directory with its manifest, and the files of `segments` in it; when
    /// this returns, all the names are durable.
    pub(super) async fn make_files(
        &self,
        home: &Home,
        segments: &[SegmentId],
    ) -> Result<(), DiskError> {
        let job = (home.clone(), segments.to_vec());
        self.run(job, |disk, (home, segments)| make(disk, home, segments)).await.1
    }

    /// Hands what was moved aside to the remover. Where that has too much to do already, it is removed
    /// here, in one go.
    async fn give_removals(&self, aside: Vec<PathBuf>, delay: Duration) -> Result<(), DiskError> {
        let give = |path| self.removals.give(path, delay).err();
        let refused: Vec<PathBuf> = aside.into_iter().filter_map(give).collect();
        if refused.is_empty() {
            return Ok(());
        }
        self.run(refused, |disk, paths| {
            paths.iter().try_for_each(|path| gone(disk.remove_file(path)))
        })
        .await
        .1
    }

    async fn prepare(&self, job: Prepare) -> Result<FilePosition, (DiskError, Option<JournalSeq>)> {
        let (dir, file_bytes) = (self.journal_dir.clone(), self.ring_limits.file_bytes);
        let disk = self.disk.blocking();
        let work = move || {
            files::prepare(&disk, &dir, &job, file_bytes)
                .map_err(|error| (disk_error(error), files::name_after_failure(&disk, &dir, &job)))
        };
        match self.disk.run(work).await {
            Ok(result) => result,
            Err(stopped) => Err((stopped, None)),
        }
    }

    /// Runs `body` on the pool over something that is given back with the result.
    async fn run<J, T>(
        &self,
        job: J,
        body: fn(&D::Blocking, &J) -> Result<T, DiskError>,
    ) -> (J, Result<T, DiskError>)
    where
        J: Send + Sync + 'static,
        T: Send + 'static,
    {
        let disk = self.disk.blocking();
        let kept = std::sync::Arc::new(job);
        let given = kept.clone();
        let result = self.disk.run(move || body(&disk, &given)).await.and_then(|result| result);
        match std::sync::Arc::try_unwrap(kept) {
            Ok(job) => (job, result),
            Err(_) => panic!("a job of the pool has ended and still holds its input"),
        }
    }
}

fn make<D: Disk>(disk: &D, home: &Home, segments: &[SegmentId]) -> Result<(), DiskError> {
    if let Some(manifest) = &home.manifest {
        disk.create_dir_all(&home.dir)?;
        write_state(disk, &home.dir, manifest).map_err(disk_error)?;
        // From the partition's name in the topic's directory up to the root.
        let mut dir = parent_of(&home.dir);
        for _ in 0..LEVELS {
            disk.sync_dir(&dir)?;
            dir = parent_of(&dir);
        }
    }
    if segments.is_empty() {
        return Ok(());
    }
    for segment in segments {
        disk.open(&segment.path(&home.dir, SegmentFile::Log), OpenHow::CREATE)?;
    }
    disk.sync_dir(&home.dir)
}

fn seal<D: Disk>(disk: &D, job: &SealJob) -> Result<(), DiskError> {
    sealing::seal(disk, &job.dir, &job.indexes, job.coverage, job.synced)
}

fn save<D: Disk>(disk: &D, job: &SaveJob) -> Result<(), DiskError> {
    make(disk, &job.home, &[])?;
    let dir = &job.home.dir;
    if let Some((indexes, coverage)) = &job.indexes {
        indexes.write(disk, dir, *coverage, &[])?;
    }
    write_blob(disk, &producer_snapshot_in(dir), PRODUCER_SNAPSHOT, &job.producers)
        .map_err(disk_error)?;
    write_state(disk, dir, &job.checkpoint).map_err(disk_error)
}

fn repair<D: Disk>(disk: &D, job: &RepairJob) -> Result<(), DiskError> {
    for segment in &job.repair.remove {
        remove_segment(disk, &job.dir, *segment)?;
    }
    if !job.repair.remove.is_empty() {
        disk.sync_dir(&job.dir)?;
    }
    if let Some((segment, len)) = job.repair.cut {
        let log = disk.open(&segment.path(&job.dir, SegmentFile::Log), OpenHow::WRITE)?;
        if log.len()? > len.get() {
            log.set_len(len.get())?;
            log.sync_data()?;
        }
    }
    Ok(())
}

/// Writes a log start down. On a full disk once more without the reserve.
fn trim<D: Disk>(disk: &D, job: &TrimJob) -> Result<Trimmed, DiskError> {
    let write = || match &job.home.manifest {
        Some(manifest) if job.home_made => {
            write_state(disk, &job.home.dir, manifest).map_err(disk_error)
        }
        Some(_) | None => make(disk, &job.home, &[]),
    };
    match write() {
        Ok(()) => Ok(Trimmed::Well),
        Err(error) if error.kind == DiskErrorKind::Full && reserve::give_up(disk, &job.reserve) => {
            write().map(|()| Trimmed::FromReserve)
        }
        Err(error) => Err(error),
    }
}

/// Removes the files of deleted segments, or moves them aside; says which are there, durably, and wait
/// for the remover.
fn remove<D: Disk>(disk: &D, job: &RemoveJob) -> Result<Vec<PathBuf>, DiskError> {
    if let Some(next) = job.next {
        disk.open(&next.path(&job.dir, SegmentFile::Log), OpenHow::CREATE)?;
    }
    if job.forget_producers {
        gone(disk.remove_file(&producer_snapshot_in(&job.dir)))?;
    }
    disk.sync_dir(&job.dir)?;
    let mut aside = Vec::new();
    for segment in &job.segments {
        aside.extend(move_aside(disk, job, *segment)?);
        remove_segment(disk, &job.dir, *segment)?;
    }
    if !aside.is_empty() {
        disk.sync_dir(&job.aside.dir)?;
    }
    disk.sync_dir(&job.dir)?;
    Ok(aside)
}

/// Moves the log of a segment out of its partition's directory, if the remover is to have it. Says
/// where it is, also when a job before this one has moved it.
fn move_aside<D: Disk>(
    disk: &D,
    job: &RemoveJob,
    segment: SegmentId,
) -> Result<Option<PathBuf>, DiskError> {
    let log = segment.path(&job.dir, SegmentFile::Log);
    let to = job.aside.dir.join(format!("{}-{}", job.at, segment.file_name(SegmentFile::Log)));
    match disk.open(&log, OpenHow::READ) {
        Ok(file) if file.len()? <= job.aside.larger_than => return Ok(None),
        Ok(_) => {}
        Err(error) if error.is_not_found() => return Ok(disk.kind(&to)?.map(|_| to)),
        Err(error) => return Err(error),
    }
    match make_aside(disk, &job.aside.dir).and_then(|()| disk.rename(&log, &to)) {
        Ok(()) => Ok(Some(to)),
        // No room for a name more: what gives space back may not fail for that.
        Err(error) if error.kind == DiskErrorKind::Full => Ok(None),
        Err(error) => Err(error),
    }
}

fn make_aside<D: Disk>(disk: &D, dir: &Path) -> Result<(), DiskError> {
    if disk.kind(dir)?.is_some() {
        return Ok(());
    }
    disk.create_dir_all(dir)?;
    disk.sync_dir(&parent_of(dir))
}

fn gone(removed: Result<(), DiskError>) -> Result<(), DiskError> {
    match removed {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Whether appends may be taken again. Then the reserve is made up again too.
fn probe<D: Disk>(disk: &D, layout: &Layout) -> Result<bool, DiskError> {
    let has_space = disk.free_bytes(layout.root())? >= FREE_BYTES_TO_RESUME;
    if has_space {
        // Without it a deletion may be refused on the next full disk, and nothing else.
        let _ = reserve::keep(disk, &layout.reserve(), RESERVE_BYTES);
    }
    Ok(has_space)
}

/// The error of the disk behind one of a state file. Writing knows no other.
fn disk_error(error: StateError) -> DiskError {
    match error {
        StateError::Disk(error) => error,
        StateError::Damaged { path, .. } | StateError::Newer { path, .. } => {
            DiskError::new(DiskErrorKind::WrongKind, DiskOp::Write, &path)
        }
    }
}

/// Directories above a partition's whose names must be durable: topic, topics, root.
const LEVELS: usize = 3;
