//! All transactional ids of one partition of `__transaction_state`: what they decide, without the log
//! itself and without the markers.
//!
//! A call may lead to an [`Entry`]: a record to append. Its caller appends entries in the order in
//! which they came and reports each by [`TransactionPartition::durable`], which answers whoever waits
//! and says which transactions want their markers now; those are reported by
//! [`TransactionPartition::marked`]. One step of an id at a time: while it is under way others are told
//! CONCURRENT_TRANSACTIONS. When an append fails, everything here is thrown away
//! ([`TransactionPartition::abandon`]) and built again from the log, so nothing needs to be taken back.

mod adding;
mod walk;

use super::ask::{Ask, Description, End, Init};
use super::limits::{IDS_PER_PARTITION_MAX, TRANSACTIONAL_ID_BYTES_MAX};
use super::log_record::{self, LogRecord};
use super::metrics::{Tally, TransactionCounts};
use super::state::State;
use super::transaction::{self, Identity, Outcome, Participant, Protocol, Refusal, Transaction};
use crate::wire::ErrorCode;
use adding::Adding;
use millstream_io::batch::NewRecord;
use millstream_io::runtime::Promise;
use millstream_io::units::TimestampMs;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// A transactional id.
pub type Name = Arc<str>;

/// A record to append, and whose it is.
#[derive(Debug)]
pub struct Entry {
    pub id: Name,
    pub record: NewRecord,
}

/// A transaction whose outcome is durable and that wants a marker in each of its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    pub id: Name,
    pub by: Identity,
    pub outcome: Outcome,
    pub protocol: Protocol,
    pub partitions: Arc<BTreeSet<Participant>>,
}

/// What a record's becoming durable leads to.
#[derive(Debug, Default)]
pub struct Outgoing {
    pub entry: Option<Entry>,
    pub completion: Option<Completion>,
}

/// One transactional id.
#[derive(Debug)]
struct Slot {
    /// What the log says; `None` for a new id whose record is on its way.
    current: Option<Transaction>,
    step: Option<Step>,
    /// What came while a step was under way.
    adding: Adding,
}

/// What is under way.
#[derive(Debug)]
enum Step {
    /// This is on its way into the log.
    Storing(Box<Transaction>, Then),
    /// Markers are being written.
    Marking,
    /// The tombstone is on its way into the log.
    Expiring,
}

/// What follows when the record is durable.
#[derive(Debug)]
enum Then {
    Initialised(Promise<Result<Identity, Refusal>>),
    /// For another producer's sake, which asks again until the transaction is aborted.
    FencedFor(Promise<Result<Identity, Refusal>>),
    Added(Vec<Promise<ErrorCode>>),
    Ended(Promise<Result<Identity, Refusal>>),
    /// Nobody waits.
    Nothing,
}

impl Then {
    fn refuse(self, error: ErrorCode) {
        match self {
            Then::Initialised(reply) | Then::FencedFor(reply) | Then::Ended(reply) => {
                let _ = reply.send(Err(error.into()));
            }
            Then::Added(replies) => adding::answer(replies, error),
            Then::Nothing => {}
        }
    }
}

/// Settings of the broker that concern transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `transaction.max.timeout.ms`.
    pub timeout_ms_max: i32,
    /// `transactional.id.expiration.ms`.
    pub expiration_ms: i64,
    /// The largest record that can be appended.
    pub record_bytes_max: usize,
}

/// The transactional ids of one partition. Lives on the core that owns the partition.
#[derive(Debug)]
pub struct TransactionPartition {
    settings: Settings,
    /// In order, so that they can be walked over in steps.
    ids: BTreeMap<Name, Slot>,
    tally: Tally,
    /// Of all partitions of the core.
    counts: Rc<TransactionCounts>,
}

impl TransactionPartition {
    pub fn new(settings: Settings) -> TransactionPartition {
        let (ids, tally, counts) = (BTreeMap::new(), Tally::default(), Rc::default());
        TransactionPartition { settings, ids, tally, counts }
    }

    /// Counts here from now on.
    pub fn count_in(&mut self, counts: Rc<TransactionCounts>) {
        self.counts = counts;
    }

    /// The ids by state, and which transactions are open.
    pub(super) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Goes by other settings from now on.
    pub fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    pub fn len(&self) -> usize {
        self.ids.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Takes a record of the log into account. [`TransactionPartition::loaded`] ends the loading.
    pub fn replay(&mut self, record: LogRecord) {
        let LogRecord::Id { transactional_id, transaction } = record else { return };
        match transaction {
            Some(transaction) => {
                let slot = Slot::new(Some(*transaction));
                self.ids.insert(transactional_id.into(), slot);
            }
            None => drop(self.ids.remove(transactional_id.as_str())),
        }
    }

    /// The whole log was replayed; gives the transactions that were being ended when it was left.
    pub fn loaded(&mut self) -> Vec<Completion> {
        let mut completions = Vec::new();
        for (id, slot) in &mut self.ids {
            if let Some(current) = &slot.current {
                self.tally.enters(id, current);
            }
            if let Some(completion) = completion(id, slot.current.as_ref()) {
                slot.step = Some(Step::Marking);
                completions.push(completion);
            }
        }
        completions
    }

    /// Answers a question, now or when what it changed is durable.
    pub fn ask(&mut self, id: &Name, ask: Ask, now: TimestampMs) -> Option<Entry> {
        if id.is_empty() || id.len() > TRANSACTIONAL_ID_BYTES_MAX {
            ask.refuse(ErrorCode::InvalidRequest);
            return None;
        }
        match ask {
            Ask::Init(init, reply) => self.init(id, &init, reply, now),
            Ask::Add(add, reply) => self.add(id, add, reply, now),
            Ask::End(end, reply) => self.end(id, &end, reply, now),
            Ask::Verify(by, partitions, reply) => {
                let _ = reply.send(self.verify(id, by, &partitions));
                None
            }
            Ask::Describe(reply) => {
                let _ = reply.send(self.describe(id));
                None
            }
        }
    }

    fn init(
        &mut self,
        id: &Name,
        init: &Init,
        reply: Promise<Result<Identity, Refusal>>,
        now: TimestampMs,
    ) -> Option<Entry> {
        match self.initialised(id, init, now) {
            Ok(next) if next.state == State::PrepareAbort => {
                self.store(id, next, Then::FencedFor(reply))
            }
            Ok(next) => self.store(id, next, Then::Initialised(reply)),
            Err(refusal) => {
                let _ = reply.send(Err(refusal));
                None
            }
        }
    }

    fn initialised(
        &self,
        id: &Name,
        init: &Init,
        now: TimestampMs,
    ) -> Result<Transaction, Refusal> {
        if init.timeout_ms <= 0 || init.timeout_ms > self.settings.timeout_ms_max {
            return Err(ErrorCode::InvalidTransactionTimeout.into());
        }
        let Some(slot) = self.ids.get(id) else {
            if self.ids.len() >= IDS_PER_PARTITION_MAX {
                return Err(ErrorCode::CoordinatorNotAvailable.into());
            }
            let producer = init.fresh.ok_or(Refusal::NeedsProducerId)?;
            return Ok(Transaction::new(producer, init.timeout_ms, now));
        };
        let current = slot.at_rest()?;
        if init.expected.is_some_and(|expected| !current.may_go_on(expected)) {
            return Err(ErrorCode::ProducerFenced.into());
        }
        match current.state {
            // The client asks again, and is then given an epoch of its own.
            State::Ongoing => Ok(current.fenced(now)),
            _ => current.initialised(init.expected, init.fresh, init.timeout_ms, now),
        }
    }

    fn verify(
        &self,
        id: &Name,
        by: Identity,
        partitions: &[Participant],
    ) -> Result<Vec<bool>, ErrorCode> {
        // What is under way does not matter: the partition itself looks once more at the append.
        let slot = self.known(id)?;
        let current = slot.current.as_ref().ok_or(ErrorCode::InvalidProducerIdMapping)?;
        partitions.iter().map(|partition| current.verified(by, partition)).collect()
    }

    fn end(
        &mut self,
        id: &Name,
        end: &End,
        reply: Promise<Result<Identity, Refusal>>,
        now: TimestampMs,
    ) -> Option<Entry> {
        match self.ended(id, end, now) {
            Ok(transaction::End::Step(next)) => self.store(id, next, Then::Ended(reply)),
            Ok(transaction::End::Already(identity)) => {
                let _ = reply.send(Ok(identity));
                None
            }
            Err(refusal) => {
                let _ = reply.send(Err(refusal));
                None
            }
        }
    }

    fn ended(&self, id: &Name, end: &End, now: TimestampMs) -> Result<transaction::End, Refusal> {
        let slot = self.known(id)?;
        if end.protocol.bumps_epoch() {
            // The producer may go by the id or epoch that is on its way into the log.
            slot.at_rest()?.ended_with_bump(end.by, end.outcome, end.fresh, now)
        } else {
            let current = slot.current.as_ref().ok_or(ErrorCode::ConcurrentTransactions)?;
            let ended = current.ended(end.by, end.outcome, now);
            match ended {
                Err(Refusal::Code(
                    ErrorCode::InvalidProducerIdMapping | ErrorCode::ProducerFenced,
                )) => ended,
                _ if slot.step.is_some() => Err(ErrorCode::ConcurrentTransactions.into()),
                _ => ended,
            }
        }
    }

    fn describe(&self, id: &Name) -> Result<Description, ErrorCode> {
        let slot = self.ids.get(id).ok_or(ErrorCode::TransactionalIdNotFound)?;
        let current = slot.current.as_ref().ok_or(ErrorCode::TransactionalIdNotFound)?;
        Ok(Description {
            identity: current.identity(),
            state: current.state,
            timeout_ms: current.timeout_ms,
            started_at: current.started_at,
            partitions: current.partitions.iter().cloned().collect(),
        })
    }

    fn known(&self, id: &Name) -> Result<&Slot, ErrorCode> {
        self.ids.get(id).ok_or(ErrorCode::InvalidProducerIdMapping)
    }

    /// Begins the step to `next`.
    ///
    /// # Panics
    /// When another one is under way.
    fn store(&mut self, id: &Name, next: Transaction, then: Then) -> Option<Entry> {
        let record = record(id, Some(&next));
        let slot = self.ids.entry(id.clone()).or_insert_with(|| Slot::new(None));
        assert!(slot.step.is_none(), "{id:?} takes two steps at once: {:?}", slot.step);
        slot.step = Some(Step::Storing(Box::new(next), then));
        Some(Entry { id: id.clone(), record })
    }

    /// The record of the step that `id` is taking is durable.
    ///
    /// # Panics
    /// When none is being stored.
    pub fn durable(&mut self, id: &Name, now: TimestampMs) -> Outgoing {
        let Some(slot) = self.ids.get_mut(id) else { panic!("{id:?} was stored and is not known") };
        match slot.step.take() {
            Some(Step::Storing(next, then)) => {
                let next = *next;
                let identity = next.identity_behind();
                let was = slot.current.take();
                if let Some(was) = &was {
                    self.tally.leaves(id, was);
                }
                self.tally.enters(id, &next);
                let was_open = was.is_some_and(|was| was.state == State::Ongoing);
                if let Some(outcome) = next.outcome().filter(|_| was_open) {
                    self.counts.ended(outcome);
                }
                let completion = completion(id, Some(&next));
                slot.current = Some(next);
                let mut outgoing = Outgoing { entry: None, completion: None };
                match completion {
                    Some(completion) if completion.partitions.is_empty() => {
                        outgoing.entry = self.complete(id, now);
                    }
                    Some(completion) => {
                        slot.step = Some(Step::Marking);
                        outgoing.completion = Some(completion);
                    }
                    None => outgoing.entry = self.add_waiting(id, None, now),
                }
                answer(then, identity);
                outgoing
            }
            Some(Step::Expiring) => {
                if let Some(slot) = self.ids.remove(id) {
                    if let Some(current) = &slot.current {
                        self.tally.leaves(id, current);
                    }
                    slot.adding.refuse(ErrorCode::InvalidProducerIdMapping);
                }
                Outgoing::default()
            }
            step => panic!("{id:?} was stored while {step:?}"),
        }
    }

    /// Every partition of the transaction has its marker.
    pub fn marked(&mut self, id: &Name, now: TimestampMs) -> Option<Entry> {
        let slot = self.ids.get_mut(id)?;
        assert!(matches!(slot.step, Some(Step::Marking)), "markers of {id:?} in {:?}", slot.step);
        slot.step = None;
        self.complete(id, now)
    }

    /// What waits to be added begins the next transaction at once: the record that does so says,
    /// too, that the last one is complete.
    fn complete(&mut self, id: &Name, now: TimestampMs) -> Option<Entry> {
        let complete = self.ids.get(id)?.current.as_ref()?.completed(now);
        self.add_waiting(id, Some(complete), now)
    }

    /// Tells everybody who waits that this partition is lost, and forgets all.
    pub fn abandon(&mut self, error: ErrorCode) {
        self.tally = Tally::default();
        for (_, slot) in std::mem::take(&mut self.ids) {
            slot.adding.refuse(error);
            if let Some(Step::Storing(_, then)) = slot.step {
                then.refuse(error);
            }
        }
    }
}

impl Slot {
    fn new(current: Option<Transaction>) -> Slot {
        Slot { current, step: None, adding: Adding::default() }
    }

    /// The state, if no step is under way.
    fn at_rest(&self) -> Result<&Transaction, ErrorCode> {
        match (&self.current, &self.step) {
            (Some(current), None) => Ok(current),
            _ => Err(ErrorCode::ConcurrentTransactions),
        }
    }
}

/// Says that a record is durable. `identity` is who the producer is from now on.
fn answer(then: Then, identity: Identity) {
    // Whose connection is gone needs no answer.
    match then {
        Then::Initialised(reply) | Then::Ended(reply) => {
            let _ = reply.send(Ok(identity));
        }
        Then::FencedFor(reply) => {
            let _ = reply.send(Err(ErrorCode::ConcurrentTransactions.into()));
        }
        Then::Added(replies) => adding::answer(replies, ErrorCode::None),
        Then::Nothing => {}
    }
}

fn completion(id: &Name, current: Option<&Transaction>) -> Option<Completion> {
    let current = current?;
    Some(Completion {
        id: id.clone(),
        by: current.identity(),
        outcome: current.outcome()?,
        protocol: current.protocol,
        partitions: current.partitions.clone(),
    })
}

/// # Panics
/// With a text that the wire could not have brought.
fn record(id: &str, transaction: Option<&Transaction>) -> NewRecord {
    match log_record::encode(id, transaction) {
        Ok(record) => record,
        Err(error) => panic!("transactional id {id:?} has no record: {error}"),
    }
}

#[cfg(test)]
#[path = "partition/partition_tests.rs"]
mod tests;
#[cfg(test)]
#[path = "partition/walk_tests.rs"]
mod walk_tests;
