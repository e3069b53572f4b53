//! What a partition remembers of each idempotent producer, so that a retried batch is stored once
//! (KIP-98, KIP-360), and of its transactions (KIP-98, KIP-890).

mod snapshot;
mod state;
mod transactions;
mod verification;

pub use snapshot::SnapshotError;
pub use state::{OpenTransaction, ProducerBatch};

use std::collections::HashMap;

use millstream_io::batch::{Attributes, EndMarker, Origin};
use millstream_io::units::{
    Offset, ProducerEpoch, ProducerId, ProducerStamp, Sequence, TimestampMs,
};

use crate::aborted::AbortedTransactions;
use crate::cleaning::filter::LastOfProducer;
use crate::limits;
use crate::message::{InvalidTxnState, TransactionQuery, TransactionState, VerificationGuard};
use crate::position::LogPosition;
use crate::query::ActiveProducer;

use state::{ProducerState, Sequenceless, Transactional};
use transactions::{Step, Transactions};
use verification::Verifications;

/// Producer states of one partition. Lives on the owner's core.
///
/// Costs one hash look-up for the check and one for the record of a batch, and no allocation once
/// a producer is known. A transactional batch may cost one more for its guard; what opens or ends a
/// transaction also costs a step in an ordered map.
///
/// Bounded by [`limits::PRODUCERS_PER_PARTITION_MAX`]: when full, the eighth that has been silent
/// longest is forgotten, and a forgotten producer is taken on again at any sequence, as Apache Kafka
/// does. A producer with an open transaction is never forgotten; there are at most
/// [`limits::OPEN_TRANSACTIONS_PER_PARTITION_MAX`] of those.
#[derive(Clone, Debug, Default)]
pub struct Producers {
    states: HashMap<ProducerId, ProducerState>,
    transactions: Transactions,
    verifications: Verifications,
}

/// A batch with a producer, as it asks to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Incoming {
    pub stamp: ProducerStamp,
    pub records: u32,
    pub transactional: bool,
    pub origin: Origin,
    pub guard: Option<VerificationGuard>,
}

/// Where a batch was staged, and when.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub base: Offset,
    pub position: LogPosition,
    pub at: TimestampMs,
    /// Batches below can no longer be refused.
    pub durable_end: Offset,
}

/// What to do with a batch whose producer was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// It continues the stream: store it.
    Next,
    /// It is in the log already: answer with the original, once that is durable.
    Duplicate(ProducerBatch),
}

/// Why a batch or a marker does not fit what is known of its producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProducerError {
    /// INVALID_PRODUCER_EPOCH (47).
    Fenced { current: ProducerEpoch },
    /// OUT_OF_ORDER_SEQUENCE_NUMBER (45).
    OutOfOrder { expected: Sequence },
    /// INVALID_TXN_STATE (48).
    Transaction(InvalidTxnState),
    /// TRANSACTION_COORDINATOR_FENCED (52).
    CoordinatorFenced { current: i32 },
    /// No more transactions can be remembered.
    TooMany { limit: usize },
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

    /// Judges a batch before it is stored; changes nothing.
    ///
    /// An unknown producer may start anywhere; so may one that was silent since before
    /// `forget_before`. A known one must go on where it stopped, or start at 0 under a newer epoch.
    /// A transactional batch needs an open transaction of its epoch, or the guard of this partition.
    /// The order of the checks is that of Apache Kafka.
    ///
    /// # Errors
    /// [`ProducerError`]; the batch is not to be stored.
    pub fn check(
        &self,
        batch: &Incoming,
        forget_before: TimestampMs,
    ) -> Result<Checked, ProducerError> {
        let ProducerStamp { id, epoch, first } = batch.stamp;
        let known = self.states.get(&id);
        let known = known.filter(|state| !state.may_expire(forget_before, Offset::MAX));
        if let (Some(state), Some(first)) = (known, first)
            && let Some(original) = state.find(epoch, first, batch.records)
            && state.newest().epoch == epoch
        {
            return Ok(Checked::Duplicate(*original));
        }
        if batch.transactional {
            self.check_transaction(known, batch)?;
        }
        let newest = known.map(|state| (state, state.newest()));
        if let Some((_, newest)) = newest
            && epoch < newest.epoch
        {
            return Err(ProducerError::Fenced { current: newest.epoch });
        }
        if let Some(first) = first {
            self.check_verified_sequence(known, id, first)?;
            match newest {
                Some((_, newest)) if epoch > newest.epoch => starts_at(first, Sequence::ZERO)?,
                Some((state, _)) => {
                    let last = state.last_sequence(epoch);
                    starts_at(first, last.map_or(Sequence::ZERO, Sequence::next))?;
                }
                None => {}
            }
        }
        match known.and_then(ProducerState::open) {
            Some(first) if !batch.transactional => {
                Err(ProducerError::Transaction(InvalidTxnState::Open { first }))
            }
            _ => Ok(Checked::Next),
        }
    }

    /// A transaction goes on, or a verified one begins.
    fn check_transaction(
        &self,
        known: Option<&ProducerState>,
        batch: &Incoming,
    ) -> Result<(), ProducerError> {
        let ProducerStamp { id, epoch, .. } = batch.stamp;
        if let Some(state) = known {
            let current = state.newest().epoch;
            if epoch < current {
                return Err(ProducerError::Fenced { current });
            }
            if epoch == current && state.open().is_some() {
                return Ok(());
            }
        }
        let is_good = match batch.guard {
            Some(guard) => {
                let held = self.verifications.get(id);
                held.is_some_and(|held| held.guard == guard && held.epoch == epoch)
            }
            None => batch.origin == Origin::Coordinator,
        };
        if !is_good {
            return Err(ProducerError::Transaction(InvalidTxnState::NotVerified));
        }
        let limit = limits::OPEN_TRANSACTIONS_PER_PARTITION_MAX;
        if self.transactions.unstable() >= limit {
            return Err(ProducerError::TooMany { limit });
        }
        let limit = limits::ABORTED_PER_PARTITION_MAX;
        if self.transactions.aborted.len() + self.transactions.unstable() >= limit {
            return Err(ProducerError::TooMany { limit });
        }
        Ok(())
    }

    /// While a transaction is being verified, a batch must not come in front of a lower one that was
    /// asked for, nor begin in the middle when its epoch is its transaction's own.
    fn check_verified_sequence(
        &self,
        known: Option<&ProducerState>,
        id: ProducerId,
        first: Sequence,
    ) -> Result<(), ProducerError> {
        let Some(held) = self.verifications.get(id) else { return Ok(()) };
        if held.bumps_epoch && known.is_none() {
            starts_at(first, Sequence::ZERO)?;
        }
        match held.lowest {
            Some(lowest) if first.is_behind(lowest) => {
                Err(ProducerError::OutOfOrder { expected: lowest })
            }
            _ => Ok(()),
        }
    }

    /// Says whether a producer's next transactional batch needs the coordinator's word, and gives
    /// out the guard for it. A stale epoch needs none: it is refused as such before anything else is
    /// asked, so that a client learns that it was aborted, not that it forgot to add a partition
    /// (KAFKA-19690).
    pub fn transaction(&mut self, query: &TransactionQuery) -> TransactionState {
        let is_decided = self.states.get(&query.producer).is_some_and(|state| {
            let newest = state.newest().epoch;
            query.epoch < newest || (query.epoch == newest && state.open().is_some())
        });
        if is_decided {
            TransactionState::Open
        } else {
            TransactionState::Unverified(self.verifications.begin(query))
        }
    }

    /// Judges a marker before it is stored; changes nothing.
    ///
    /// # Errors
    /// [`ProducerError::Fenced`], [`ProducerError::CoordinatorFenced`].
    pub fn check_marker(
        &self,
        marker: &EndMarker,
        transaction_version: u8,
    ) -> Result<(), ProducerError> {
        let Some(state) = self.states.get(&marker.producer) else { return Ok(()) };
        let (current, got) = (state.newest().epoch, marker.epoch);
        let is_stale = if transaction_version >= 2 { got <= current } else { got < current };
        // Of transactions v2 a marker that repeats itself ends nothing, and does no harm.
        let repeats = got == current && state.open().is_none();
        if is_stale && !repeats {
            return Err(ProducerError::Fenced { current });
        }
        match state.coordinator_epoch() {
            Some(current) if current > marker.coordinator_epoch => {
                Err(ProducerError::CoordinatorFenced { current })
            }
            _ => Ok(()),
        }
    }

    /// Remembers a batch that was staged, or found by recovery.
    pub fn staged(&mut self, batch: &Incoming, place: Place) {
        let ProducerStamp { id, epoch, first } = batch.stamp;
        if let Some(first) = first {
            let (records, Place { base: base_offset, at, durable_end, .. }) =
                (batch.records, place);
            let batch = ProducerBatch { epoch, first, records, base_offset, at };
            self.record(id, batch, durable_end);
        }
        if batch.transactional {
            self.join(batch, place);
        }
    }

    /// Remembers a marker that was staged, or found by recovery.
    pub fn marked(&mut self, marker: &EndMarker, place: Place) {
        self.verifications.clear(marker.producer);
        let state = self.known_or_new(marker.producer, place.durable_end);
        let before = state.transactional.as_deref().copied();
        let next = place.base.add(1);
        let after = Transactional {
            last: Some(Sequenceless { epoch: marker.epoch, next, at: place.at }),
            coordinator_epoch: Some(marker.coordinator_epoch),
            open: None,
        };
        state.set_transactional(Some(after));
        let ends = before.and_then(|before| before.open).map(|first| (first, marker.outcome));
        let (offset, producer) = (place.base, marker.producer);
        self.transactions.staged(Step { offset, producer, before, opens: None, ends });
    }

    /// A transactional batch was stored: its transaction is open.
    fn join(&mut self, batch: &Incoming, place: Place) {
        let ProducerStamp { id, epoch, first } = batch.stamp;
        let Place { base, position, at, durable_end } = place;
        self.verifications.clear(id);
        let state = self.known_or_new(id, durable_end);
        let before = state.transactional.as_deref().copied();
        let mut after = before.unwrap_or_default();
        let opens = after.open.is_none().then_some(OpenTransaction { first: base, position });
        if opens.is_none() && first.is_some() {
            return;
        }
        after.open = after.open.or(Some(base));
        if first.is_none() {
            let next = base.add(u64::from(batch.records));
            after.last = Some(Sequenceless { epoch, next, at });
        }
        state.set_transactional(Some(after));
        self.transactions.staged(Step { offset: base, producer: id, before, opens, ends: None });
    }

    /// Everything in front of `durable_end` is durable: markers there count now.
    #[inline]
    pub fn settle(&mut self, durable_end: Offset) {
        self.transactions.settle(durable_end);
    }

    /// The oldest transaction that is open, or whose marker is not durable.
    #[inline]
    pub fn first_unstable(&self) -> Option<OpenTransaction> {
        self.transactions.first_unstable()
    }

    /// The transactions that readers of committed records must skip.
    pub fn aborted(&self) -> &AbortedTransactions {
        &self.transactions.aborted
    }

    /// The log now starts at `log_start`. Producers stay, and open transactions too: their markers
    /// are still to come.
    pub fn delete_before(&mut self, log_start: Offset) {
        self.transactions.aborted.delete_before(log_start);
    }

    /// Gives the transactions that recovery found their positions: `to` is told what the snapshot or
    /// the log said, a position within the segment that holds the first offset.
    pub fn relocate(&mut self, to: impl Fn(OpenTransaction) -> LogPosition) {
        self.transactions.relocate(&to);
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
                newest.next <= batch.base_offset,
                "producer {id} goes back from offset {} to {}",
                newest.next,
                batch.base_offset
            );
            state.batches.push_back(batch);
            state.forget_old(durable_end);
            return;
        }
        self.known_or_new(id, durable_end).batches.push_back(batch);
    }

    /// The state of a producer, empty when it was not known.
    fn known_or_new(&mut self, id: ProducerId, durable_end: Offset) -> &mut ProducerState {
        let full = self.states.len() >= limits::PRODUCERS_PER_PARTITION_MAX;
        if full && !self.states.contains_key(&id) {
            self.forget_most_silent(durable_end);
        }
        self.states.entry(id).or_default()
    }

    /// Takes a batch found in the log by recovery, where everything is durable. `position` is the
    /// batch's within its segment. A batch that is no part of a transaction and has no sequence
    /// tells nothing.
    pub fn replay(&mut self, stamp: ProducerStamp, found: &Replayed<'_>) {
        let Replayed { base, next, at, position, attributes, bytes } = *found;
        let place = Place { base, position, at, durable_end: Offset::MAX };
        if attributes.is_control() {
            if let Some(marker) = EndMarker::read(bytes) {
                self.marked(&marker, place);
            }
        } else {
            let records = u32::try_from(next.since(base)).unwrap_or(u32::MAX);
            let (transactional, origin) = (attributes.is_transactional(), Origin::Coordinator);
            self.staged(&Incoming { stamp, records, transactional, origin, guard: None }, place);
        }
        self.settle(next);
    }

    /// Staged batches from `log_end` on were refused: goes back to the state before them.
    pub fn refuse_from(&mut self, log_end: Offset) {
        while let Some(step) = self.transactions.undo(log_end) {
            if let Some(state) = self.states.get_mut(&step.producer) {
                state.set_transactional(step.before);
            }
        }
        self.states.retain(|_, state| {
            while state.batches.back().is_some_and(|b| b.base_offset >= log_end) {
                state.batches.pop_back();
            }
            !state.is_empty()
        });
    }

    /// Forgets producers whose last batch is durable and older than `before`, and that have no
    /// transaction open.
    pub fn expire(&mut self, before: TimestampMs, durable_end: Offset) {
        self.states.retain(|_, state| !state.may_expire(before, durable_end));
    }

    /// The producers known now, in no order.
    pub fn active(&self) -> Vec<ActiveProducer> {
        let one = |(id, state): (&ProducerId, &ProducerState)| {
            let newest = state.newest();
            ActiveProducer {
                id: *id,
                epoch: newest.epoch,
                last_sequence: state.last_sequence(newest.epoch),
                last_timestamp: newest.at,
                coordinator_epoch: state.coordinator_epoch(),
                transaction_start: state.open(),
            }
        };
        self.states.iter().map(one).collect()
    }

    /// The last durable batch of each producer, for compaction: what stands behind `durable_end` may
    /// yet be refused, or lost in a crash, and then that one is the last.
    pub fn last_batches(
        &self,
        durable_end: Offset,
    ) -> impl Iterator<Item = (ProducerId, LastOfProducer)> {
        self.states.iter().map(move |(id, state)| {
            let last = state.batches.iter().rev().find(|batch| batch.end_offset() <= durable_end);
            let data = last.map(|last| last.base_offset.add(u64::from(last.records - 1)));
            (*id, LastOfProducer { epoch: state.newest().epoch, data })
        })
    }

    /// Forgets the aborted transactions of these markers: compaction left no batch of them. True when
    /// there were some.
    pub fn forget_aborted(&mut self, markers: &[Offset]) -> bool {
        self.transactions.aborted.forget(markers)
    }

    /// Drops the eighth of the producers that has been silent longest, sparing those with batches
    /// that are not durable yet, and those with an open transaction.
    fn forget_most_silent(&mut self, durable_end: Offset) {
        let may_go =
            |state: &&ProducerState| state.may_expire(TimestampMs::new(i64::MAX), durable_end);
        let mut ages: Vec<TimestampMs> =
            self.states.values().filter(may_go).map(|state| state.newest().at).collect();
        if ages.is_empty() {
            return;
        }
        let nth = ages.len() / 8;
        let (_, oldest_kept, _) = ages.select_nth_unstable(nth);
        let behind = oldest_kept.plus(1);
        let mut quota = nth.max(1);
        self.states.retain(|_, state| {
            let forget = quota > 0 && state.may_expire(behind, durable_end);
            quota -= usize::from(forget);
            !forget
        });
    }
}

/// A batch that recovery found.
#[derive(Clone, Copy, Debug)]
pub struct Replayed<'a> {
    pub base: Offset,
    pub next: Offset,
    pub at: TimestampMs,
    /// Within its segment.
    pub position: LogPosition,
    pub attributes: Attributes,
    /// The whole batch, if it is a control batch.
    pub bytes: &'a [u8],
}

fn starts_at(got: Sequence, expected: Sequence) -> Result<(), ProducerError> {
    if got == expected { Ok(()) } else { Err(ProducerError::OutOfOrder { expected }) }
}

#[cfg(test)]
#[path = "producers/producers_tests.rs"]
mod producers_tests;

#[cfg(test)]
#[path = "producers/transactions_tests.rs"]
mod transactions_tests;
