//! Appends of a shard: staging, and answering when durable.

use millstream_io::batch::TimestampType;
use millstream_io::runtime::Promise;
use millstream_io::units::{Offset, TopicPartition};

use crate::append::Staged;
use crate::group_commit::Due;
use crate::message::{Append, AppendError, Appended, Marker};
use crate::partition_log::PartitionLog;
use crate::table::Slot;

use super::ShardState;

/// A request's batches for this shard, until all of them are durable or refused.
pub struct PendingAppend {
    answers: Vec<Answer>,
    promise: Promise<Vec<Result<Appended, AppendError>>>,
}

impl std::fmt::Debug for PendingAppend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.answers.fmt(f)
    }
}

/// The answer to one batch, and what it rests on.
#[derive(Debug)]
pub struct Answer {
    result: Result<Appended, AppendError>,
    /// Everything below this offset must be durable first; `None` when it rests on nothing.
    rests_on: Option<RestsOn>,
}

#[derive(Clone, Copy, Debug)]
struct RestsOn {
    at: TopicPartition,
    slot: Slot,
    end: Offset,
}

impl ShardState {
    /// Stages a request's batches in order; `promise` is kept when all are durable or refused.
    ///
    /// Costs two allocations a request (answers and results) besides the promise, which the caller
    /// made, and besides what [`crate::partition_log::PartitionLog::append`] says for each batch.
    pub fn append(
        &mut self,
        batches: Vec<Append>,
        promise: Promise<Vec<Result<Appended, AppendError>>>,
    ) {
        let forget_after_ms = self.limits.producer_expiry_ms;
        self.append_each(
            batches,
            promise,
            |batch| batch.at,
            move |log, batch| log.append(&batch, batch.now.plus(-forget_after_ms)),
        );
    }

    /// Stages markers in order, as [`ShardState::append`] does batches.
    pub fn append_markers(
        &mut self,
        markers: Vec<Marker>,
        promise: Promise<Vec<Result<Appended, AppendError>>>,
    ) {
        let before = self.metrics.append_batches_total;
        self.append_each(
            markers,
            promise,
            |marker| marker.at,
            |log, marker| log.append_marker(&marker),
        );
        let staged = self.metrics.append_batches_total - before;
        self.metrics.transaction_markers_total += staged;
    }

    fn append_each<T>(
        &mut self,
        items: Vec<T>,
        promise: Promise<Vec<Result<Appended, AppendError>>>,
        at: impl Fn(&T) -> TopicPartition,
        write: impl Fn(&mut PartitionLog, T) -> Result<Staged, AppendError>,
    ) {
        let mut due = Due::Now;
        let mut answers = Vec::with_capacity(items.len());
        for item in items {
            let at = at(&item);
            let (answer, answer_due) = self.append_one(at, |log| write(log, item));
            due = due.max(answer_due);
            answers.push(answer);
        }
        let pending = PendingAppend { answers, promise };
        match due {
            Due::Now => pending.keep(),
            due => self.commit.wait(due, pending),
        }
        self.evict_tails();
    }

    fn append_one(
        &mut self,
        at: TopicPartition,
        write: impl FnOnce(&mut PartitionLog) -> Result<Staged, AppendError>,
    ) -> (Answer, Due) {
        match self.try_append(at, write) {
            Ok(taken) => taken,
            Err(error) => {
                self.metrics.refuse(&error);
                let rests_on = self.rests_on(at, &error);
                let due = rests_on.map_or(Due::Now, |rest| self.due(rest));
                (Answer { result: Err(error), rests_on }, due)
            }
        }
    }

    fn try_append(
        &mut self,
        at: TopicPartition,
        write: impl FnOnce(&mut PartitionLog) -> Result<Staged, AppendError>,
    ) -> Result<(Answer, Due), AppendError> {
        if let Some(error) = self.health.refusal() {
            return Err(error);
        }
        let Some((slot, log)) = self.partitions.find_mut(at).filter(|(_, log)| !log.dropping)
        else {
            return Err(AppendError::UnknownPartition { at });
        };
        if log.needs_repair() {
            let directory = self.health.directory.path().clone();
            return Err(AppendError::DiskFull { directory });
        }
        let memory_before = log.tail.memory_bytes();
        let staged = write(log)?;
        self.tail_bytes = self.tail_bytes - memory_before + log.tail.memory_bytes();
        self.staged_bytes += staged.bytes;
        if staged.bytes == 0 {
            self.metrics.append_duplicates_total += 1;
        } else {
            self.metrics.append_batches_total += 1;
            self.metrics.append_records_total += staged.end.since(staged.appended.base_offset);
            self.metrics.append_bytes_total += staged.bytes;
            let stamped = log.config.timestamp_type == TimestampType::LogAppendTime;
            self.metrics.batch_reencode_total += u64::from(stamped);
            self.make_dirty(slot);
            self.list_for_eviction(slot);
        }
        let rests_on = Some(RestsOn { at, slot, end: staged.end });
        Ok((Answer { result: Ok(staged.appended), rests_on }, staged.due))
    }

    /// A refusal that looked at what others have staged may be told only once that is durable,
    /// since a crash could make it wrong.
    fn rests_on(&self, at: TopicPartition, error: &AppendError) -> Option<RestsOn> {
        match error {
            AppendError::OutOfOrderSequence { .. }
            | AppendError::InvalidProducerEpoch { .. }
            | AppendError::InvalidTxnState { .. }
            | AppendError::TransactionCoordinatorFenced { .. } => {
                let slot = self.partitions.slot_of(at)?;
                let end = self.partitions.get(slot)?.marks.log_end();
                Some(RestsOn { at, slot, end })
            }
            AppendError::UnknownPartition { .. }
            | AppendError::FencedEpoch { .. }
            | AppendError::UnknownEpoch { .. }
            | AppendError::TooManyTransactions { .. }
            | AppendError::TooLarge { .. }
            | AppendError::LargerThanSegment { .. }
            | AppendError::InvalidRecord { .. }
            | AppendError::InvalidTimestamp { .. }
            | AppendError::Storage { .. }
            | AppendError::DiskFull { .. }
            | AppendError::Stalled { .. }
            | AppendError::Stopping => None,
        }
    }

    fn due(&self, rest: RestsOn) -> Due {
        self.partitions.get(rest.slot).map_or(Due::Now, |log| log.due(rest.end))
    }

    /// Answers whoever waited for the round that has just ended, or keeps him for the next.
    pub(super) fn settle_round(&mut self) {
        let partitions = &self.partitions;
        self.commit.finish(|mut pending| {
            let open = pending.answers.iter_mut().any(|answer| {
                let Some(rest) = answer.rests_on else { return false };
                match partitions.get(rest.slot) {
                    Some(log) => log.due(rest.end) != Due::Now,
                    None => {
                        answer.fail(&AppendError::UnknownPartition { at: rest.at });
                        false
                    }
                }
            });
            if open {
                return Some(pending);
            }
            pending.keep();
            None
        });
    }

    /// Staged batches of a partition behind `end` were refused: whoever waits for one is told so.
    pub(super) fn fail_behind(&mut self, slot: Slot, end: Offset, error: &AppendError) {
        for pending in self.commit.waiting_mut() {
            for answer in &mut pending.answers {
                if answer.rests_on.is_some_and(|rest| rest.slot == slot && rest.end > end) {
                    answer.fail(error);
                }
            }
        }
    }

    /// Nothing that is waited for can be promised any more: everybody gets `error`. Where a batch
    /// was durable before, its answer stands.
    pub fn fail_waiting(&mut self, error: &AppendError) {
        for mut pending in self.commit.give_up() {
            for answer in &mut pending.answers {
                let Some(rest) = answer.rests_on else { continue };
                let log = self.partitions.get(rest.slot);
                if log.is_none_or(|log| log.due(rest.end) != Due::Now) {
                    answer.fail(error);
                }
            }
            pending.keep();
        }
    }

    /// A partition went away, or lost what was staged: whoever waits for nothing else is answered.
    pub(super) fn settle_idle(&mut self) {
        if self.commit.is_in_flight() {
            return;
        }
        for mut pending in self.commit.give_up() {
            let mut due = Due::Now;
            for answer in &mut pending.answers {
                let Some(rest) = answer.rests_on else { continue };
                match self.partitions.get(rest.slot) {
                    Some(log) => due = due.max(log.due(rest.end)),
                    None => answer.fail(&AppendError::UnknownPartition { at: rest.at }),
                }
            }
            match due {
                Due::Now => pending.keep(),
                due => self.commit.wait(due, pending),
            }
        }
    }
}

impl PendingAppend {
    /// Answers. Nobody may be waiting any more: the append stands nevertheless.
    fn keep(self) {
        let results = self.answers.into_iter().map(|answer| answer.result).collect();
        let _ = self.promise.send(results);
    }
}

impl Answer {
    fn fail(&mut self, error: &AppendError) {
        self.result = Err(error.clone());
        self.rests_on = None;
    }
}
