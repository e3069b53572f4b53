//! The work behind the journal: what is written to the segments, synced, sealed and saved, and when.

use std::collections::VecDeque;

use millstream_io::disk::DiskError;
use millstream_io::index_footer::Coverage;
use millstream_io::indexes::Indexes;
use millstream_io::units::{FilePosition, TopicPartition, bytes_u64};

use crate::limits::{PLANNED_WRITES_MAX, PRESSURE_PARTITIONS, TRIMS_AT_ONCE};
use crate::partition_log::{SealPlan, WriteMode};
use crate::segments::Repair;
use crate::table::Slot;

use super::rounds::is_passing;
use super::{Job, JobOutcome, Made, RepairJob, SaveJob, SealJob, ShardState, WriteJob};

/// What waits to be done.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// Planned already: these partitions are marked as being written.
    planned: VecDeque<WriteJob>,
    /// Partitions to be looked at, each once.
    queue: VecDeque<Slot>,
    /// Partitions with something to delete, likewise.
    trims: VecDeque<Slot>,
    trims_at_work: usize,
    /// The last job taken was one of these.
    trimmed_last: bool,
    repairs: VecDeque<RepairJob>,
    probe_due: bool,
    /// Jobs taken and not done.
    at_work: usize,
}

impl ShardState {
    /// The next thing to do; `None` when there is nothing now. Journal files come first, since a
    /// round may wait for them.
    pub fn take_job(&mut self) -> Option<Job> {
        if let Some(failed) = self.deletions_failed() {
            self.fail_deletions(&failed);
            return None;
        }
        let job = self.choose_job()?;
        self.work.at_work += 1;
        Some(job)
    }

    /// Partitions that wait to be looked at.
    pub fn partitions_waiting(&self) -> usize {
        self.work.queue.len()
    }

    /// Jobs taken and not done.
    pub fn jobs_at_work(&self) -> usize {
        self.work.at_work
    }

    /// Time has passed (about a second): a full disk is looked at again.
    pub fn tick(&mut self) {
        if self.health.full {
            self.work.probe_due = true;
            self.events.work.signal();
        }
    }

    /// A job has ended.
    pub fn job_done(&mut self, outcome: JobOutcome) {
        self.work.at_work -= 1;
        match outcome {
            JobOutcome::Write { job, made, result } => self.write_done(job, made, result),
            JobOutcome::Seal { job, result } => self.seal_done(job, result),
            JobOutcome::Save { job, result } => self.save_done(&job, result),
            JobOutcome::Repair { job, result } => self.repair_done(job, result),
            JobOutcome::Trim { job, result } => {
                self.work.trims_at_work -= 1;
                self.trim_done(&job, result);
            }
            JobOutcome::Remove { job, result } => {
                self.work.trims_at_work -= 1;
                self.remove_done(&job, result);
            }
            JobOutcome::Prepare(Ok(blank)) => self.ring.prepared(blank),
            JobOutcome::Prepare(Err((error, named))) => {
                self.ring.prepare_failed(named);
                self.storage_error(error, Vec::new());
            }
            JobOutcome::Probe { has_space } => {
                if has_space {
                    self.health.full = false;
                    self.retry_removals();
                    self.events.room.signal();
                }
            }
        }
        self.evict_tails();
        self.events.commit.signal();
        self.events.room.signal();
        self.events.work.signal();
    }

    fn choose_job(&mut self) -> Option<Job> {
        if self.health.full {
            // What gives space back goes on.
            let probe_due = &mut self.work.probe_due;
            let probe = std::mem::take(probe_due).then_some(Job::Probe);
            return probe.or_else(|| self.next_trim());
        }
        if let Some(repair) = self.work.repairs.pop_front() {
            return Some(Job::Repair(repair));
        }
        if let Some(prepare) = self.ring.prepare() {
            return Some(Job::Prepare(prepare));
        }
        if self.work.planned.is_empty() {
            self.plan_under_pressure();
        }
        // Deletions are every second job at most: nobody who commits waits for all of them.
        let trim = if self.work.trimmed_last { None } else { self.next_trim() };
        self.work.trimmed_last = trim.is_some();
        if trim.is_some() {
            return trim;
        }
        if let Some(write) = self.work.planned.pop_front() {
            return Some(Job::Write(write));
        }
        while let Some(slot) = self.work.queue.pop_front() {
            if let Some(log) = self.partitions.get_mut(slot) {
                log.tasks.queued = false;
            }
            if let Some(job) = self.job_of(slot) {
                // There may be more to do for it: the queue gets it back at its end.
                self.consider_work(slot);
                return Some(job);
            }
        }
        self.next_trim()
    }

    /// The next thing to do for deletions, unless enough of them is under way.
    fn next_trim(&mut self) -> Option<Job> {
        if self.work.trims_at_work >= TRIMS_AT_ONCE {
            return None;
        }
        while let Some(slot) = self.work.trims.pop_front() {
            if let Some(log) = self.partitions.get_mut(slot) {
                log.tasks.trim_queued = false;
            }
            if let Some(job) = self.trim_job_of(slot) {
                self.work.trims_at_work += 1;
                return Some(job);
            }
        }
        None
    }

    /// Lists a partition to be looked at, when something is to be done behind its journal.
    pub(super) fn consider_work(&mut self, slot: Slot) {
        let (behind, every) = (self.limits.behind_bytes, self.limits.checkpoint_bytes);
        let disk_full = self.health.full;
        let Some(log) = self.partitions.get_mut(slot) else { return };
        if !log.tasks.trim_queued && log.needs_trim(disk_full) {
            log.tasks.trim_queued = true;
            self.work.trims.push_back(slot);
            self.events.work.signal();
        }
        if !log.tasks.queued && log.needs_work(behind, every) {
            log.tasks.queued = true;
            self.work.queue.push_back(slot);
            self.events.work.signal();
        }
    }

    /// What to do for one partition.
    fn job_of(&mut self, slot: Slot) -> Option<Job> {
        let (behind, every) = (self.limits.behind_bytes, self.limits.checkpoint_bytes);
        let log = self.partitions.get_mut(slot)?;
        if let Some(seal) = log.plan_seal() {
            let dir = self.layout.partition(&log.topic_name, log.at.partition);
            let SealPlan { segment, indexes, coverage, synced } = seal;
            return Some(Job::Seal(SealJob { slot, dir, segment, indexes, coverage, synced }));
        }
        log.tasks.save_due |= log.waits_for_save() || log.is_checkpoint_synced(every);
        if log.may_save()
            && let Some(job) = log.plan_save(slot, &self.layout)
        {
            return Some(Job::Save(Box::new(job)));
        }
        if log.is_checkpoint_due(every)
            && let Some(plan) = log.plan_write(WriteMode::Checkpoint)
        {
            let home = log.home(&self.layout);
            return Some(Job::Write(WriteJob { slot, home, plan, save: true }));
        }
        if (log.unwritten_bytes() >= behind || log.has_unwritten_closed())
            && let Some(plan) = log.plan_write(WriteMode::Relief)
        {
            let home = log.home(&self.layout);
            return Some(Job::Write(WriteJob { slot, home, plan, save: false }));
        }
        None
    }

    /// Plans writes of many partitions at once while the journal or the memory runs short. Called
    /// between rounds, when no partition is in one.
    pub(super) fn plan_under_pressure(&mut self) {
        let room = PLANNED_WRITES_MAX.saturating_sub(self.work.planned.len());
        if room == 0 || self.health.full {
            return;
        }
        let (live, max) = self.ring.files_live();
        if live * 2 > max {
            let mut holders: Vec<TopicPartition> = self.ring.holders().map(|(at, _)| at).collect();
            holders.sort_unstable();
            self.plan_all(holders, WriteMode::Checkpoint, room);
        }
        if self.unwritten_bytes * 2 > self.limits.unwritten_bytes_max {
            let unwritten = self.partitions.iter().filter(|(_, log)| !log.is_writing());
            let mut largest: Vec<(u64, TopicPartition)> =
                unwritten.map(|(_, log)| (log.unwritten_bytes(), log.at)).collect();
            largest.sort_unstable_by(|a, b| b.cmp(a));
            largest.truncate(PRESSURE_PARTITIONS);
            let largest = largest.into_iter().map(|(_, at)| at).collect();
            self.plan_all(largest, WriteMode::Relief, room);
        }
    }

    fn plan_all(&mut self, which: Vec<TopicPartition>, mode: WriteMode, mut room: usize) {
        for at in which {
            let Some((slot, log)) = self.partitions.find_mut(at) else { continue };
            if let Some(plan) = log.plan_write(mode) {
                let home = log.home(&self.layout);
                self.work.planned.push_back(WriteJob { slot, home, plan, save: false });
                room -= 1;
                if room == 0 {
                    return;
                }
            }
        }
    }

    pub(super) fn order_repair(&mut self, slot: Slot, at: TopicPartition, repair: Repair) {
        let Some(log) = self.partitions.get(slot) else { return };
        let dir = self.layout.partition(&log.topic_name, at.partition);
        self.work.repairs.push_back(RepairJob { slot, dir, repair });
        self.events.work.signal();
    }

    /// The disk is full: writes that are planned wait until there is space. Whoever wants to delete
    /// need not wait for them.
    pub(super) fn give_back_planned(&mut self) {
        for job in std::mem::take(&mut self.work.planned) {
            let Some(log) = self.partitions.get_mut(job.slot) else { continue };
            log.home_made(&job.home, &[], Made::Nothing);
            log.write_done(&job.plan, false);
            self.consider_work(job.slot);
        }
    }

    fn write_done(&mut self, job: WriteJob, made: Made, result: Result<(), DiskError>) {
        let well = result.is_ok();
        if let Some(log) = self.partitions.get_mut(job.slot) {
            log.home_made(&job.home, &job.plan.make, made);
            let unwritten = log.unwritten_bytes();
            log.write_done(&job.plan, well);
            self.unwritten_bytes = self.unwritten_bytes - unwritten + log.unwritten_bytes();
            log.tasks.save_due |= job.save && well;
        }
        if well {
            self.metrics.behind_bytes_total += job.plan.bytes();
            if !job.plan.sync.is_empty() {
                self.metrics.fsync_total += bytes_u64(job.plan.sync.len());
                self.ring.synced(job.home.at, job.plan.end);
            }
        }
        self.note(result);
        self.consider_work(job.slot);
    }

    fn seal_done(&mut self, job: SealJob, result: Result<(), DiskError>) {
        let well = result.is_ok();
        let (segment, bytes) = (job.segment, job.indexes.memory_bytes());
        if let Some(log) = self.partitions.get_mut(job.slot) {
            log.sealed(segment, job.indexes, well);
            if well {
                self.ring.synced(log.at, job.coverage.next);
                self.note_index(job.slot, segment, bytes);
            }
        }
        self.metrics.segments_sealed_total += u64::from(well);
        self.note(result);
        self.consider_work(job.slot);
    }

    fn save_done(&mut self, job: &SaveJob, result: Result<(), DiskError>) {
        let well = result.is_ok();
        if let Some(log) = self.partitions.get_mut(job.slot) {
            log.saved(job, well);
        }
        if well {
            self.metrics.checkpoints_total += 1;
            self.ring.checkpointed(job.home.at, job.checkpoint.offset);
        }
        self.note(result);
        self.consider_work(job.slot);
    }

    fn repair_done(&mut self, job: RepairJob, result: Result<(), DiskError>) {
        match result {
            Ok(()) => {
                if let Some(log) = self.partitions.get_mut(job.slot) {
                    log.repaired();
                }
            }
            Err(error) => {
                self.work.repairs.push_back(job);
                self.note(Err(error));
            }
        }
    }

    /// A failed write behind the journal: a passing one leaves everything as it was, to be tried
    /// again; another is final.
    fn note(&mut self, result: Result<(), DiskError>) {
        if let Err(error) = result {
            self.storage_error(error, Vec::new());
        }
    }

    /// True when nothing is left to do but to wait: used by the ordered stop.
    pub fn is_at_rest(&self) -> bool {
        let work = &self.work;
        // What is quickly said comes first: it is asked after every job. On a full disk the queues
        // stand still, whatever is in them.
        let looked_at = self.health.full || (work.queue.is_empty() && work.trims.is_empty());
        work.at_work == 0
            && looked_at
            && work.planned.is_empty()
            && work.repairs.is_empty()
            && !self.commit.is_in_flight()
            && self.partitions.iter().all(|(_, log)| log.is_at_rest())
    }

    /// Closes every segment, so that the ordinary work writes, seals and saves all there is.
    /// Appends must be over, and no round in flight.
    pub fn close_all(&mut self) {
        assert!(self.health.stopping, "segments are closed while appends are taken");
        let slots: Vec<Slot> = self.partitions.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            if let Some(log) = self.partitions.get_mut(slot) {
                log.close();
            }
            self.consider_work(slot);
        }
    }
}

/// The part of a segment that a checkpoint speaks of.
pub(crate) fn coverage(
    indexes: &Indexes,
    log_bytes: FilePosition,
    next: millstream_io::units::Offset,
    sealed: bool,
) -> Coverage {
    Coverage { log_bytes, next, max_timestamp: indexes.times.max_timestamp(), sealed }
}

/// A final error must reach the latch; this names the others for the shells.
pub fn may_be_retried(error: &DiskError) -> bool {
    is_passing(error)
}
