//! What transactions of one core have done, and what they are at one moment.

use super::state::State;
use super::transaction::{Outcome, Transaction};
use crate::coordinator::load_times::Loads;
use millstream_io::units::TimestampMs;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Totals since the start of the core. Its partitions share it.
#[derive(Debug, Default)]
pub struct TransactionCounts(Cell<TransactionTotals>);

/// A copy of [`TransactionCounts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionTotals {
    /// Transactions whose outcome became durable.
    pub committed: u64,
    pub aborted: u64,
    /// Those of the aborted ones that were open for too long.
    pub timed_out: u64,
    pub loads: Loads,
}

impl TransactionCounts {
    pub fn get(&self) -> TransactionTotals {
        self.0.get()
    }

    pub(super) fn ended(&self, outcome: Outcome) {
        self.change(|totals| match outcome {
            Outcome::Commit => totals.committed += 1,
            Outcome::Abort => totals.aborted += 1,
        });
    }

    pub(super) fn timed_out(&self) {
        self.change(|totals| totals.timed_out += 1);
    }

    pub(super) fn loaded(&self, took: Duration) {
        self.change(|totals| totals.loads.add(took));
    }

    fn change(&self, change: impl FnOnce(&mut TransactionTotals)) {
        let mut totals = self.0.get();
        change(&mut totals);
        self.0.set(totals);
    }
}

/// The transactional ids of one core at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionLevels {
    /// Ids, in the order of [`State::STORED`].
    pub by_state: [u64; State::STORED.len()],
    /// When the transaction was begun that is open longest.
    pub oldest_open: Option<TimestampMs>,
    /// Transactions that are ended and want markers.
    pub completing: u64,
    /// Partitions of the log that are not loaded.
    pub loading: u64,
}

impl TransactionLevels {
    /// Takes in what one partition has.
    pub(super) fn add(&mut self, tally: &Tally) {
        for (sum, count) in self.by_state.iter_mut().zip(tally.by_state) {
            *sum += count;
        }
        let oldest = tally.open.first().map(|(started_at, _)| *started_at);
        self.oldest_open = self.oldest_open.into_iter().chain(oldest).min();
    }
}

/// The ids of one partition by state, and those with an open transaction by its beginning.
#[derive(Debug, Default)]
pub(super) struct Tally {
    by_state: [u64; State::STORED.len()],
    open: BTreeSet<(TimestampMs, Arc<str>)>,
}

impl Tally {
    pub fn enters(&mut self, id: &Arc<str>, is: &Transaction) {
        if let Some(count) = self.count(is.state) {
            *count += 1;
        }
        if is.state == State::Ongoing {
            self.open.insert((began(is), id.clone()));
        }
    }

    pub fn leaves(&mut self, id: &Arc<str>, was: &Transaction) {
        if let Some(count) = self.count(was.state) {
            *count -= 1;
        }
        if was.state == State::Ongoing {
            self.open.remove(&(began(was), id.clone()));
        }
    }

    /// Those with an open transaction, the oldest first.
    pub fn open(&self) -> &BTreeSet<(TimestampMs, Arc<str>)> {
        &self.open
    }

    fn count(&mut self, state: State) -> Option<&mut u64> {
        let place = State::STORED.iter().position(|stored| *stored == state)?;
        self.by_state.get_mut(place)
    }
}

/// An open transaction knows when it began.
fn began(transaction: &Transaction) -> TimestampMs {
    transaction.started_at.unwrap_or(transaction.updated_at)
}
