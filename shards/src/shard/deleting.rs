//! Deletions of a shard: asked for, written down, answered, and the space given back.

use millstream_io::disk::DiskError;
use millstream_io::runtime::Promise;
use millstream_io::units::{IdMap, Offset, TopicPartition, bytes_u64};

use crate::deletion::{DeleteError, Deletion};
use crate::limits::DELETIONS_WAITING_MAX;
use crate::table::Slot;

use super::{Job, RemoveJob, ShardState, TrimJob, Trimmed};

/// Who waits for log starts to be durable, by partition. Lives on the owner's core.
#[derive(Default)]
pub(super) struct Deletes {
    of: IdMap<Slot, Vec<Waiting>>,
    count: usize,
}

struct Waiting {
    /// The log start that was asked for.
    to: Offset,
    promise: DeletePromise,
}

impl Deletes {
    /// Takes one more, if there is room for it.
    fn add(&mut self, slot: Slot, waiting: Waiting) -> Result<(), Waiting> {
        if self.count >= DELETIONS_WAITING_MAX {
            self.of.values_mut().for_each(|all| all.retain(|one| !one.promise.is_abandoned()));
            self.of.retain(|_, all| !all.is_empty());
            self.count = self.of.values().map(Vec::len).sum();
        }
        if self.count >= DELETIONS_WAITING_MAX {
            return Err(waiting);
        }
        self.of.entry(slot).or_default().push(waiting);
        self.count += 1;
        Ok(())
    }

    /// Answers those who wait for a log start of this partition up to `to`.
    fn answer(&mut self, slot: Slot, to: Offset, answer: &Result<Offset, DeleteError>) {
        let Some(all) = self.of.get_mut(&slot) else { return };
        for waiting in all.extract_if(.., |waiting| waiting.to <= to) {
            self.count -= 1;
            // Nobody may be waiting any more.
            let _ = waiting.promise.send(answer.clone());
        }
        if all.is_empty() {
            self.of.remove(&slot);
        }
    }
}

impl std::fmt::Debug for Deletes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Deletes({} in {} partitions)", self.count, self.of.len())
    }
}

/// Where the log start goes, or why there is no new one.
pub type DeletePromise = Promise<Result<Offset, DeleteError>>;

impl ShardState {
    /// Deletes the records of a partition below an offset. `promise` is kept when the new log start
    /// is durable and readers see it; the files go later.
    pub fn delete_before(&mut self, deletion: &Deletion, promise: DeletePromise) {
        let (slot, to) = match self.order_deletion(deletion) {
            Ok((slot, to, log_start)) if to > log_start => (slot, to),
            // Nobody may be waiting any more.
            Ok((_, _, log_start)) => return drop(promise.send(Ok(log_start))),
            Err(error) => return drop(promise.send(Err(error))),
        };
        match self.deletes.add(slot, Waiting { to, promise }) {
            Ok(()) => self.consider_work(slot),
            Err(Waiting { promise, .. }) => {
                let limit = DELETIONS_WAITING_MAX;
                let _ = promise.send(Err(DeleteError::TooManyWaiting { limit }));
            }
        }
    }

    /// The partition, the offset up to which records go, and the present log start.
    fn order_deletion(
        &mut self,
        deletion: &Deletion,
    ) -> Result<(Slot, Offset, Offset), DeleteError> {
        let at = deletion.at;
        if let Some(failed) = self.deletions_failed() {
            return Err(failed);
        }
        if self.health.stopping {
            return Err(DeleteError::Stopping);
        }
        let Some((slot, log)) = self.partitions.find_mut(at).filter(|(_, log)| !log.dropping)
        else {
            return Err(DeleteError::UnknownPartition { at });
        };
        let to = log.delete_before(deletion.before)?;
        Ok((slot, to, log.marks.log_start()))
    }

    /// What is to be done for a partition's deletions. Also on a full disk: it gives space back.
    pub(super) fn trim_job_of(&mut self, slot: Slot) -> Option<Job> {
        let how = (self.health.full, self.limits.removed_in_one_max);
        let log = self.partitions.get_mut(slot)?;
        if let Some(job) = log.plan_trim(slot, &self.layout) {
            return Some(Job::Trim(Box::new(job)));
        }
        let job = log.plan_removal(slot, &self.layout, how)?;
        // Closed while the files have names: the last to close one without would pay for its
        // removal, on the core.
        self.forget_segments(slot, &job.segments);
        self.metrics.producers_forgotten_total += u64::from(job.forget_producers);
        Some(Job::Remove(job))
    }

    pub(super) fn trim_done(&mut self, job: &TrimJob, result: Result<Trimmed, DiskError>) {
        // Another core may have found the directory failing: nothing is acknowledged after that.
        let failed = self.deletions_failed();
        let Some(log) = self.partitions.get_mut(job.slot) else { return };
        log.trimmed(job, result.is_ok() && failed.is_none());
        match (result, failed) {
            (Ok(how), None) => {
                let log_start = log.marks.log_start();
                self.metrics.deletions_total += 1;
                // A reader below the log start shall learn of it.
                self.waiters.changed(job.slot);
                self.deletes.answer(job.slot, log_start, &Ok(log_start));
                if how == Trimmed::FromReserve {
                    self.disk_is_full();
                }
            }
            (Ok(_), Some(failed)) => self.fail_deletions(&failed),
            (Err(error), _) => {
                let (directory, cause) = (self.health.directory.path().clone(), error.kind);
                let refused = DeleteError::NoRoom { directory, cause };
                if super::may_be_retried(&error) {
                    self.deletes.answer(job.slot, job.log_start, &Err(refused));
                }
                self.storage_error(error, Vec::new());
            }
        }
        self.consider_work(job.slot);
    }

    pub(super) fn remove_done(&mut self, job: &RemoveJob, result: Result<(), DiskError>) {
        let well = result.is_ok();
        if let Some(log) = self.partitions.get_mut(job.slot) {
            log.removed(job, well);
        }
        match result {
            Ok(()) => self.metrics.segments_deleted_total += bytes_u64(job.segments.len()),
            Err(error) => self.storage_error(error, Vec::new()),
        }
        self.consider_work(job.slot);
    }

    /// Nothing can be promised any more: everybody who waits is told so.
    pub(super) fn fail_deletions(&mut self, error: &DeleteError) {
        for waiting in std::mem::take(&mut self.deletes).of.into_values().flatten() {
            let _ = waiting.promise.send(Err(error.clone()));
        }
    }

    /// The partition is gone: so is what was asked of it.
    pub(super) fn forget_deletions(&mut self, slot: Slot, at: TopicPartition) {
        let gone = DeleteError::UnknownPartition { at };
        self.deletes.answer(slot, Offset::MAX, &Err(gone));
    }

    /// There is space again: removals that failed are tried once more.
    pub(super) fn retry_removals(&mut self) {
        self.partitions.iter_mut().for_each(|(_, log)| log.retry_removal());
        self.look_for_removals();
    }

    /// Lists every partition that has something to remove.
    pub(super) fn look_for_removals(&mut self) {
        let disk_full = self.health.full;
        let due = self.partitions.iter().filter(|(_, log)| log.needs_trim(disk_full));
        let slots: Vec<Slot> = due.map(|(slot, _)| slot).collect();
        slots.into_iter().for_each(|slot| self.consider_work(slot));
    }

    /// Why no deletion can be promised, when the directory has failed.
    pub(super) fn deletions_failed(&self) -> Option<DeleteError> {
        let cause = self.health.directory.failure()?.kind;
        Some(DeleteError::Storage { directory: self.health.directory.path().clone(), cause })
    }
}
