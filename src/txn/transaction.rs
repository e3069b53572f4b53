//! What is known of one transactional id, and every step from one state to the next.
//!
//! A step takes what is in force and gives what is to be in force once it is stored; nothing is
//! changed in place. Whether a step is under way is for the caller to know
//! ([`super::partition::TransactionPartition`]).

use super::state::State;
use crate::wire::ErrorCode;
pub use millstream_io::batch::Outcome;
use millstream_io::units::{ProducerEpoch, ProducerId, TimestampMs};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A partition as transactions name it: by its topic's name, as their log does.
pub type Participant = (Arc<str>, i32);

/// A producer id with its incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    pub producer: ProducerId,
    pub epoch: ProducerEpoch,
}

/// The protocol of transactions that a producer follows. From 2 on each end of a transaction bumps
/// the epoch (KIP-890).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Protocol(u8);

impl Protocol {
    pub const V0: Protocol = Protocol(0);
    pub const V2: Protocol = Protocol(2);

    /// `None` for versions of `transaction.version` from tomorrow.
    pub const fn new(version: i16) -> Option<Protocol> {
        match version {
            0..=2 => Some(Protocol(version as u8)),
            _ => None,
        }
    }

    pub const fn number(self) -> u8 {
        self.0
    }

    pub const fn bumps_epoch(self) -> bool {
        self.0 >= 2
    }
}

/// Why a step is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    Code(ErrorCode),
    /// The epochs of the producer id are used up: ask again with a fresh id at hand.
    NeedsProducerId,
}

impl From<ErrorCode> for Refusal {
    fn from(code: ErrorCode) -> Refusal {
        Refusal::Code(code)
    }
}

/// What the answer to a request that ends a transaction rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The transaction ended so before: the answer was lost, and is given again.
    Already(Identity),
    /// This is to be stored.
    Step(Transaction),
}

/// One transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    pub producer: ProducerId,
    /// The id before the last step.
    pub previous: Option<ProducerId>,
    /// The id that the producer goes on with when the transaction is complete.
    pub next: Option<ProducerId>,
    pub epoch: ProducerEpoch,
    /// The epoch before the last bump, if its holder may ask for the bump again (KIP-360).
    pub last_epoch: Option<ProducerEpoch>,
    pub timeout_ms: i32,
    pub state: State,
    pub partitions: Arc<BTreeSet<Participant>>,
    /// When the first partition was added.
    pub started_at: Option<TimestampMs>,
    pub updated_at: TimestampMs,
    pub protocol: Protocol,
}

/// Epochs from here on are not given to clients, so that whoever holds one can still be fenced.
const EXHAUSTED_FROM: i16 = i16::MAX - 1;

fn is_exhausted(epoch: ProducerEpoch) -> bool {
    epoch.get() >= EXHAUSTED_FROM
}

/// The last epoch only fences: its holder could not be fenced in turn.
fn may_be_given(epoch: ProducerEpoch) -> bool {
    epoch.get() <= EXHAUSTED_FROM
}

/// The epoch behind, or the last one.
fn bumped(epoch: ProducerEpoch) -> ProducerEpoch {
    epoch.next().unwrap_or(epoch)
}

impl Transaction {
    /// Of an id that was not known before.
    pub fn new(producer: ProducerId, timeout_ms: i32, now: TimestampMs) -> Transaction {
        Transaction {
            producer,
            previous: Some(producer),
            next: None,
            epoch: ProducerEpoch::ZERO,
            last_epoch: None,
            timeout_ms,
            state: State::Empty,
            partitions: Arc::default(),
            started_at: None,
            updated_at: now,
            protocol: Protocol::V0,
        }
    }

    pub fn identity(&self) -> Identity {
        Identity { producer: self.producer, epoch: self.epoch }
    }

    /// The transaction is open for longer than its producer wanted.
    pub fn is_timed_out(&self, now: TimestampMs) -> bool {
        let age = self.started_at.map_or(0, |started| now.since_ms(started));
        self.state == State::Ongoing && age > i64::from(self.timeout_ms)
    }

    /// Nothing is open, and nothing happened for `expiration_ms`.
    pub fn is_expired(&self, now: TimestampMs, expiration_ms: i64) -> bool {
        self.state.is_at_rest() && now.since_ms(self.updated_at) >= expiration_ms
    }

    /// InitProducerId while no transaction is open: a new epoch, which fences all before it.
    /// `expected` is who the client says it was (KIP-360), `fresh` an unused producer id, if the
    /// caller has one.
    ///
    /// # Errors
    /// PRODUCER_FENCED for one that was replaced; a need for a fresh id.
    ///
    /// # Panics
    /// While a transaction is open.
    pub fn initialised(
        &self,
        expected: Option<Identity>,
        fresh: Option<ProducerId>,
        timeout_ms: i32,
        now: TimestampMs,
    ) -> Result<Transaction, Refusal> {
        assert!(self.state.is_at_rest(), "InitProducerId in state {}", self.state);
        let mut next = Transaction {
            previous: Some(self.producer),
            timeout_ms,
            state: State::Empty,
            partitions: Arc::default(),
            started_at: None,
            updated_at: now,
            ..self.clone()
        };
        let expected_epoch = expected.map(|identity| identity.epoch);
        if expected_epoch.is_none_or(|epoch| epoch == self.epoch) {
            next.last_epoch = expected_epoch;
            if is_exhausted(self.epoch) {
                next.producer = fresh.ok_or(Refusal::NeedsProducerId)?;
                next.epoch = ProducerEpoch::ZERO;
            } else {
                next.epoch = bumped(self.epoch);
            }
            Ok(next)
        } else if expected_epoch == self.last_epoch {
            // The client did not get the answer of the bump: it is given again.
            if !may_be_given(self.epoch) {
                next.producer = fresh.ok_or(Refusal::NeedsProducerId)?;
                next.epoch = ProducerEpoch::ZERO;
            }
            Ok(next)
        } else {
            Err(ErrorCode::ProducerFenced.into())
        }
    }

    /// Whether a client may go on as `expected`. An id that was given up for want of epochs counts
    /// with its last one: the client did not get the answer that names the new id.
    pub fn may_go_on(&self, expected: Identity) -> bool {
        expected.producer == self.producer
            || (Some(expected.producer) == self.previous && is_exhausted(expected.epoch))
    }

    /// Adds partitions; `None` when all of them belong to the transaction already.
    ///
    /// # Errors
    /// INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, and CONCURRENT_TRANSACTIONS while the last
    /// transaction is not complete.
    pub fn added(
        &self,
        by: Identity,
        partitions: &[Participant],
        protocol: Protocol,
        now: TimestampMs,
    ) -> Result<Option<Transaction>, ErrorCode> {
        self.check_owner(by)?;
        if self.state.is_prepared() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        let is_open = self.state == State::Ongoing;
        if is_open && partitions.iter().all(|partition| self.partitions.contains(partition)) {
            return Ok(None);
        }
        let mut all = (*self.partitions).clone();
        all.extend(partitions.iter().cloned());
        Ok(Some(Transaction {
            previous: Some(self.producer),
            state: State::Ongoing,
            partitions: Arc::new(all),
            started_at: if is_open { self.started_at } else { Some(now) },
            updated_at: now,
            protocol,
            ..self.clone()
        }))
    }

    /// Whether a partition belongs to the transaction of `by`.
    ///
    /// # Errors
    /// As [`Transaction::added`].
    pub fn verified(&self, by: Identity, partition: &Participant) -> Result<bool, ErrorCode> {
        self.check_owner(by)?;
        if self.state.is_prepared() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        Ok(self.partitions.contains(partition))
    }

    fn check_owner(&self, by: Identity) -> Result<(), ErrorCode> {
        if by.producer != self.producer {
            Err(ErrorCode::InvalidProducerIdMapping)
        } else if by.epoch != self.epoch {
            Err(ErrorCode::ProducerFenced)
        } else {
            Ok(())
        }
    }

    /// EndTxn before version 5: the epoch stays.
    ///
    /// # Errors
    /// INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, INVALID_TXN_STATE, and CONCURRENT_TRANSACTIONS
    /// while it is being ended so.
    pub fn ended(&self, by: Identity, outcome: Outcome, now: TimestampMs) -> Result<End, Refusal> {
        self.check_owner(by)?;
        match (self.state, outcome) {
            (State::Ongoing, _) => {
                let next = Transaction { protocol: Protocol::V0, ..self.prepared(outcome, now) };
                Ok(End::Step(next))
            }
            (State::CompleteCommit, Outcome::Commit) | (State::CompleteAbort, Outcome::Abort) => {
                Ok(End::Already(self.identity()))
            }
            (State::PrepareCommit, Outcome::Commit) | (State::PrepareAbort, Outcome::Abort) => {
                Err(ErrorCode::ConcurrentTransactions.into())
            }
            _ => Err(ErrorCode::InvalidTxnState.into()),
        }
    }

    /// EndTxn from version 5 on: the epoch is bumped, so that nothing sent late can join the next
    /// transaction (KIP-890). A retry is known by the epoch before. An abort needs no partition: the
    /// client may not know whether it wrote to any.
    ///
    /// # Errors
    /// As [`Transaction::ended`]; a need for a fresh id.
    pub fn ended_with_bump(
        &self,
        by: Identity,
        outcome: Outcome,
        fresh: Option<ProducerId>,
        now: TimestampMs,
    ) -> Result<End, Refusal> {
        // Only an end that bumped can be asked for again by the epoch before: else an owner that was
        // replaced would be given the epoch of the one that replaced it.
        let has_bumped = self.protocol.bumps_epoch() && !matches!(self.state, State::Empty);
        let is_over_ids = has_bumped
            && Some(by.producer) == self.previous
            && by.epoch.get() == EXHAUSTED_FROM
            && self.epoch == ProducerEpoch::ZERO
            && by.producer != self.producer;
        if by.producer != self.producer && !is_over_ids {
            return Err(ErrorCode::InvalidProducerIdMapping.into());
        }
        let is_over_epochs = has_bumped
            && by.producer == self.producer
            && by.epoch.next().is_some_and(|next| next == self.epoch);
        let is_retry = is_over_epochs || is_over_ids;
        let is_current = by.producer == self.producer && by.epoch == self.epoch;
        let is_valid = match self.state {
            State::PrepareCommit | State::PrepareAbort => is_over_epochs,
            State::CompleteCommit | State::CompleteAbort => is_retry || is_current,
            _ => is_current,
        };
        if !is_valid || (is_retry && !may_be_given(self.identity_behind().epoch)) {
            return Err(ErrorCode::ProducerFenced.into());
        }
        match (self.state, outcome) {
            (State::Ongoing, _) => self.step_with_bump(outcome, fresh, now),
            (State::CompleteCommit, Outcome::Commit) | (State::CompleteAbort, Outcome::Abort)
                if is_retry =>
            {
                Ok(End::Already(self.identity()))
            }
            (State::Empty | State::CompleteCommit | State::CompleteAbort, Outcome::Abort)
                if !is_retry =>
            {
                self.step_with_bump(outcome, fresh, now)
            }
            (State::PrepareCommit, Outcome::Commit) | (State::PrepareAbort, Outcome::Abort) => {
                Err(ErrorCode::ConcurrentTransactions.into())
            }
            _ => Err(ErrorCode::InvalidTxnState.into()),
        }
    }

    fn step_with_bump(
        &self,
        outcome: Outcome,
        fresh: Option<ProducerId>,
        now: TimestampMs,
    ) -> Result<End, Refusal> {
        let next = match is_exhausted(self.epoch) {
            true => Some(fresh.ok_or(Refusal::NeedsProducerId)?),
            false => None,
        };
        Ok(End::Step(Transaction { next, ..self.prepared_with_bump(outcome, now) }))
    }

    /// Aborts the open transaction for another producer's sake, or because its time is over. The
    /// epoch is one that no client is given.
    ///
    /// # Panics
    /// When none is open.
    pub fn fenced(&self, now: TimestampMs) -> Transaction {
        assert_eq!(self.state, State::Ongoing, "what is not open cannot be aborted");
        self.prepared_with_bump(Outcome::Abort, now)
    }

    fn prepared_with_bump(&self, outcome: Outcome, now: TimestampMs) -> Transaction {
        Transaction {
            epoch: bumped(self.epoch),
            last_epoch: Some(self.epoch),
            protocol: Protocol::V2,
            ..self.prepared(outcome, now)
        }
    }

    fn prepared(&self, outcome: Outcome, now: TimestampMs) -> Transaction {
        let state = match outcome {
            Outcome::Commit => State::PrepareCommit,
            Outcome::Abort => State::PrepareAbort,
        };
        let started_at = if self.state == State::Ongoing { self.started_at } else { Some(now) };
        Transaction {
            previous: Some(self.producer),
            next: None,
            state,
            started_at,
            updated_at: now,
            ..self.clone()
        }
    }

    /// How the transaction is being ended.
    pub fn outcome(&self) -> Option<Outcome> {
        match self.state {
            State::PrepareCommit => Some(Outcome::Commit),
            State::PrepareAbort => Some(Outcome::Abort),
            _ => None,
        }
    }

    /// Every partition has its marker.
    ///
    /// # Panics
    /// When the transaction was not being ended.
    pub fn completed(&self, now: TimestampMs) -> Transaction {
        let state = match self.outcome() {
            Some(Outcome::Commit) => State::CompleteCommit,
            Some(Outcome::Abort) => State::CompleteAbort,
            None => panic!("markers of a transaction in state {}", self.state),
        };
        let Identity { producer, epoch } = self.identity_behind();
        Transaction {
            producer,
            epoch,
            previous: Some(self.producer),
            next: None,
            state,
            partitions: Arc::default(),
            updated_at: now,
            ..self.clone()
        }
    }

    /// Who the producer is once the transaction that is being ended is complete.
    pub fn identity_behind(&self) -> Identity {
        match self.next {
            Some(producer) if self.protocol.bumps_epoch() => {
                Identity { producer, epoch: ProducerEpoch::ZERO }
            }
            _ => self.identity(),
        }
    }
}

#[cfg(test)]
#[path = "transaction/transaction_tests.rs"]
mod tests;
