//! One producer as a partition remembers it.

use std::collections::VecDeque;

use millstream_io::units::{Offset, ProducerEpoch, Sequence, TimestampMs};

use crate::limits;
use crate::position::LogPosition;

/// One batch of a producer in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerBatch {
    pub epoch: ProducerEpoch,
    /// Sequence of the first record.
    pub first: Sequence,
    /// Records in the batch, at least 1. The last sequence follows (with wrap at 2^31 - 1).
    pub records: u32,
    pub base_offset: Offset,
    /// The owner's time when the batch was appended, or the batch's own when rebuilt from a log.
    pub at: TimestampMs,
}

impl ProducerBatch {
    pub fn last(&self) -> Sequence {
        self.first.add(self.records - 1)
    }

    pub fn end_offset(&self) -> Offset {
        self.base_offset.add(u64::from(self.records))
    }
}

/// One producer's recent batches, oldest first, and its transactions.
///
/// Five batches are kept for the recognition of retries. More are kept only while they are not
/// durable, so that a refusal of staged batches can go back to the state before them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProducerState {
    pub batches: VecDeque<ProducerBatch>,
    /// What only producers of transactions have.
    pub transactional: Option<Box<Transactional>>,
}

/// What transactions add to a producer's state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Transactional {
    /// The last batch in its name that took no sequence: a marker, or one of a coordinator.
    pub last: Option<Sequenceless>,
    /// Of the last marker.
    pub coordinator_epoch: Option<i32>,
    /// First offset of the transaction that has records here and no marker.
    pub open: Option<Offset>,
}

/// A batch without a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sequenceless {
    pub epoch: ProducerEpoch,
    /// The offset behind it.
    pub next: Offset,
    pub at: TimestampMs,
}

/// Where a transaction begins that readers of committed records wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenTransaction {
    /// Offset of its first record.
    pub first: Offset,
    /// Where the batch with that record starts.
    pub position: LogPosition,
}

/// The newest that is known of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Newest {
    pub epoch: ProducerEpoch,
    pub at: TimestampMs,
    /// The offset behind its newest batch.
    pub next: Offset,
}

impl ProducerState {
    /// True when nothing is left that is worth remembering.
    pub fn is_empty(&self) -> bool {
        let has_last = self.transactional.as_ref().is_some_and(|t| t.last.is_some());
        self.batches.is_empty() && !has_last
    }

    pub fn newest(&self) -> Newest {
        let of_batch =
            |b: &ProducerBatch| Newest { epoch: b.epoch, at: b.at, next: b.end_offset() };
        let batch = self.batches.back().map(of_batch);
        let Some(last) = self.transactional.as_ref().and_then(|t| t.last) else {
            match batch {
                Some(batch) => return batch,
                None => panic!("a remembered producer has no batch"),
            }
        };
        let last = Newest { epoch: last.epoch, at: last.at, next: last.next };
        batch.filter(|batch| batch.next > last.next).unwrap_or(last)
    }

    pub fn open(&self) -> Option<Offset> {
        self.transactional.as_ref()?.open
    }

    pub fn coordinator_epoch(&self) -> Option<i32> {
        self.transactional.as_ref()?.coordinator_epoch
    }

    /// The last sequence of `epoch`, if the newest batch with a sequence is of that epoch.
    pub fn last_sequence(&self, epoch: ProducerEpoch) -> Option<Sequence> {
        self.batches.back().filter(|batch| batch.epoch == epoch).map(ProducerBatch::last)
    }

    /// The batch in the log that a batch with these numbers repeats.
    pub fn find(
        &self,
        epoch: ProducerEpoch,
        first: Sequence,
        records: u32,
    ) -> Option<&ProducerBatch> {
        let same =
            |b: &&ProducerBatch| b.epoch == epoch && b.first == first && b.records == records;
        self.batches.iter().rev().find(same)
    }

    /// True when it may be forgotten for having been silent since before `before`: nothing of it is
    /// open, and all of it is durable.
    pub fn may_expire(&self, before: TimestampMs, durable_end: Offset) -> bool {
        let newest = self.newest();
        newest.at < before && newest.next <= durable_end && self.open().is_none()
    }

    /// Keeps the last five, all that is not durable, and at least one durable batch if there is one.
    pub fn forget_old(&mut self, durable_end: Offset) {
        while self.batches.len() > limits::PRODUCER_BATCHES_KEPT
            && self.batches.get(1).is_some_and(|second| second.end_offset() <= durable_end)
        {
            self.batches.pop_front();
        }
    }

    /// Puts `transactional` in place, with an allocation for the first one only.
    pub fn set_transactional(&mut self, transactional: Option<Transactional>) {
        match (&mut self.transactional, transactional) {
            (Some(held), Some(next)) => **held = next,
            (held, next) => *held = next.map(Box::new),
        }
    }
}
