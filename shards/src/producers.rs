//! What a partition remembers of each idempotent producer, so that a retried batch is stored once
//! (KIP-98, KIP-360).

mod snapshot;

pub use snapshot::SnapshotError;

use std::collections::{HashMap, VecDeque};

use millstream_io::units::{
    Offset, ProducerEpoch, ProducerId, ProducerStamp, Sequence, TimestampMs,
};

use crate::limits;
use crate::query::ActiveProducer;

/// Producer states of one partition. Lives on the owner's core.
///
/// Costs one hash look-up for the check and one for the record of a batch, and no allocation once
/// a producer is known. Bounded by [`limits::PRODUCERS_PER_PARTITION_MAX`]: when full, the eighth
/// that has been silent longest is forgotten, and a forgotten producer is taken on again at any
/// sequence, as Apache Kafka does.
#[derive(Clone, Debug, Default)]
pub struct Producers {
    states: HashMap<ProducerId, ProducerState>,
}

/// One producer's recent batches, oldest first, never empty.
///
/// Five are kept for the recognition of retries. More are kept only while they are not durable, so
/// that a refusal of staged batches can go back to the state before them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ProducerState {
    batches: VecDeque<ProducerBatch>,
}

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
    fn last(&self) -> Sequence {
        self.first.add(self.records - 1)
    }

    fn end_offset(&self) -> Offset {
        self.base_offset.add(u64::from(self.records))
    }
}

/// What to do with a batch whose producer was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// It continues the stream: store it.
    Next,
    /// It is in the log already: answer with the original, once that is durable.
    Duplicate(ProducerBatch),
}

/// Why a batch does not fit its producer's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SequenceError {
    /// INVALID_PRODUCER_EPOCH (47).
    Fenced { current: ProducerEpoch },
    /// OUT_OF_ORDER_SEQUENCE_NUMBER (45).
    OutOfOrder { expected: Sequence },
}

impl Producers {
    pub fn new() -> Producers {
        Producers::default()
    }

    /// Producers remembered.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Judges a batch of `records` records before it is stored; changes nothing.
    ///
    /// An unknown producer may start anywhere; so may one that was silent since before
    /// `forget_before`. A known one must go on where it stopped, or start at 0 under a newer epoch.
    ///
    /// # Errors
    /// [`SequenceError`]; the batch is not to be stored.
    pub fn check(
        &self,
        id: ProducerId,
        epoch: ProducerEpoch,
        first: Sequence,
        records: u32,
        forget_before: TimestampMs,
    ) -> Result<Checked, SequenceError> {
        let Some(state) = self.states.get(&id) else { return Ok(Checked::Next) };
        let newest = state.newest();
        if newest.at < forget_before {
            return Ok(Checked::Next);
        }
        if epoch < newest.epoch {
            return Err(SequenceError::Fenced { current: newest.epoch });
        }
        if epoch > newest.epoch {
            return starts_at(first, Sequence::ZERO);
        }
        let same =
            |b: &&ProducerBatch| b.epoch == epoch && b.first == first && b.records == records;
        if let Some(original) = state.batches.iter().rev().find(same) {
            return Ok(Checked::Duplicate(*original));
        }
        starts_at(first, newest.last().next())
    }

    /// Remembers a batch that was staged at `batch.base_offset`, or found there by recovery.
    /// Batches below `durable_end` can no longer be refused.
    ///
    /// # Panics
    /// When its offset lies before that of the producer's previous batch.
    pub fn record(&mut self, id: ProducerId, batch: ProducerBatch, durable_end: Offset) {
        assert!(
            batch.records > 0,
            "an empty batch at offset {} of producer {id}",
            batch.base_offset
        );
        if let Some(state) = self.states.get_mut(&id) {
            let newest = state.newest();
            assert!(
                newest.base_offset < batch.base_offset,
                "producer {id} goes back from offset {} to {}",
                newest.base_offset,
                batch.base_offset
            );
            state.batches.push_back(batch);
            state.forget_old(durable_end);
            return;
        }
        if self.states.len() >= limits::PRODUCERS_PER_PARTITION_MAX {
            self.forget_most_silent(durable_end);
        }
        self.states.insert(id, ProducerState { batches: VecDeque::from([batch]) });
    }

    /// Takes a batch found in the log by recovery. Control batches carry no sequence and tell only
    /// the epoch; without transactions there are none.
    pub fn replay(
        &mut self,
        stamp: ProducerStamp,
        records: u32,
        base_offset: Offset,
        at: TimestampMs,
    ) {
        if let Some(first) = stamp.first {
            let batch = ProducerBatch { epoch: stamp.epoch, first, records, base_offset, at };
            self.record(stamp.id, batch, Offset::MAX);
        }
    }

    /// Staged batches from `log_end` on were refused: goes back to the state before them.
    pub fn refuse_from(&mut self, log_end: Offset) {
        self.states.retain(|_, state| {
            while state.batches.back().is_some_and(|b| b.base_offset >= log_end) {
                state.batches.pop_back();
            }
            !state.batches.is_empty()
        });
    }

    /// Forgets producers whose last batch is durable and older than `before`.
    pub fn expire(&mut self, before: TimestampMs, durable_end: Offset) {
        self.states.retain(|_, state| {
            let newest = state.newest();
            newest.at >= before || newest.end_offset() > durable_end
        });
    }

    /// The producers known now, in no order.
    pub fn active(&self) -> Vec<ActiveProducer> {
        let one = |(id, state): (&ProducerId, &ProducerState)| {
            let newest = state.newest();
            ActiveProducer {
                id: *id,
                epoch: newest.epoch,
                last_sequence: Some(newest.last()),
                last_timestamp: newest.at,
                transaction_start: None,
            }
        };
        self.states.iter().map(one).collect()
    }

    /// Drops the eighth of the producers that has been silent longest, sparing those with batches
    /// that are not durable yet.
    fn forget_most_silent(&mut self, durable_end: Offset) {
        let mut ages: Vec<TimestampMs> = self.states.values().map(|s| s.newest().at).collect();
        let nth = ages.len() / 8;
        let (_, oldest_kept, _) = ages.select_nth_unstable(nth);
        let oldest_kept = *oldest_kept;
        let mut quota = nth.max(1);
        self.states.retain(|_, state| {
            let newest = state.newest();
            let forget =
                quota > 0 && newest.at <= oldest_kept && newest.end_offset() <= durable_end;
            quota -= usize::from(forget);
            !forget
        });
    }
}

impl ProducerState {
    fn newest(&self) -> &ProducerBatch {
        match self.batches.back() {
            Some(batch) => batch,
            None => panic!("a remembered producer has no batch"),
        }
    }

    /// Keeps the last five, all that is not durable, and at least one durable batch if there is one.
    fn forget_old(&mut self, durable_end: Offset) {
        while self.batches.len() > limits::PRODUCER_BATCHES_KEPT
            && self.batches.get(1).is_some_and(|second| second.end_offset() <= durable_end)
        {
            self.batches.pop_front();
        }
    }
}

fn starts_at(got: Sequence, expected: Sequence) -> Result<Checked, SequenceError> {
    if got == expected { Ok(Checked::Next) } else { Err(SequenceError::OutOfOrder { expected }) }
}

#[cfg(test)]
#[path = "producers/producers_tests.rs"]
mod producers_tests;
