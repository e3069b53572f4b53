//! The transactions of one partition: which are open, which have ended, and what that means for
//! readers of committed records (KIP-98).
//!
//! A transaction keeps the LastStableOffset at its first record until its marker is durable: before,
//! a crash could take the marker back. What was staged and is not durable is a list of *steps*, so
//! that a refusal can undo them, newest first, and a snapshot can leave them out.

use std::collections::{BTreeMap, VecDeque};

use millstream_io::units::{Offset, ProducerId};

use super::state::{OpenTransaction, Transactional};
use crate::aborted::{AbortedTransaction, AbortedTransactions};
use crate::message::{Aborted, Outcome};
use crate::position::LogPosition;

/// Lives on the owner's core, within [`super::Producers`].
#[derive(Clone, Debug, Default)]
pub(super) struct Transactions {
    /// By first offset: open, or ended by a marker that is not durable.
    unstable: BTreeMap<Offset, LogPosition>,
    /// Not durable, in log order.
    steps: VecDeque<Step>,
    /// All steps in front of this were settled.
    settled_to: Offset,
    pub aborted: AbortedTransactions,
}

/// A change that one batch made to the transactional state of its producer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Base offset of the batch.
    pub offset: Offset,
    pub producer: ProducerId,
    pub before: Option<Transactional>,
    /// The batch is the first of a transaction.
    pub opens: Option<OpenTransaction>,
    /// The batch is a marker, which ends the transaction that began there.
    pub ends: Option<(Offset, Outcome)>,
}

impl Transactions {
    /// Transactions that keep the LastStableOffset back.
    pub fn unstable(&self) -> usize {
        self.unstable.len()
    }

    /// The oldest transaction that is open, or ended by a marker that is not durable.
    pub fn first_unstable(&self) -> Option<OpenTransaction> {
        let (first, position) = self.unstable.first_key_value()?;
        Some(OpenTransaction { first: *first, position: *position })
    }

    pub fn staged(&mut self, step: Step) {
        if let Some(open) = step.opens {
            self.unstable.insert(open.first, open.position);
        }
        self.steps.push_back(step);
    }

    /// Everything in front of `durable_end` is durable.
    #[inline]
    pub fn settle(&mut self, durable_end: Offset) {
        self.settled_to = durable_end;
        while let Some(step) = self.steps.front()
            && step.offset < durable_end
        {
            let step = *step;
            self.steps.pop_front();
            if let Some(ended) = step.ends {
                self.end(step.producer, ended, step.offset);
            }
        }
    }

    /// Takes the newest step back if it stands at or behind `log_end`.
    pub fn undo(&mut self, log_end: Offset) -> Option<Step> {
        let step = *self.steps.back().filter(|step| step.offset >= log_end)?;
        self.steps.pop_back();
        if let Some(open) = step.opens {
            self.unstable.remove(&open.first);
        }
        Some(step)
    }

    /// Steps at or behind `offset`, newest first.
    ///
    /// # Panics
    /// When steps behind it were settled, and so forgotten.
    pub fn steps_behind(&self, offset: Offset) -> impl Iterator<Item = &Step> {
        let settled_to = self.settled_to;
        assert!(settled_to <= offset, "{offset} is asked for, and {settled_to} is settled");
        self.steps.iter().rev().take_while(move |step| step.offset >= offset)
    }

    /// Where a transaction that keeps the LastStableOffset back begins in the log.
    pub fn position(&self, first: Offset) -> Option<LogPosition> {
        self.unstable.get(&first).copied()
    }

    /// A transaction that a snapshot tells of.
    pub fn restore(&mut self, open: OpenTransaction) {
        self.unstable.insert(open.first, open.position);
    }

    /// Gives every open transaction another position.
    pub fn relocate(&mut self, to: &impl Fn(OpenTransaction) -> LogPosition) {
        for (first, position) in &mut self.unstable {
            *position = to(OpenTransaction { first: *first, position: *position });
        }
    }

    fn end(
        &mut self,
        producer: ProducerId,
        (first_offset, outcome): (Offset, Outcome),
        at: Offset,
    ) {
        let was_open = self.unstable.remove(&first_offset);
        assert!(
            was_open.is_some(),
            "the transaction of producer {producer} from offset {first_offset} ends twice, at {at}"
        );
        if outcome == Outcome::Abort {
            // Whatever is aborted by a later marker began there or behind.
            let behind = at.add(1);
            let stable = self.unstable.first_key_value().map_or(behind, |(o, _)| behind.min(*o));
            let aborted = Aborted { producer, first_offset };
            self.aborted.closed(AbortedTransaction { aborted, marker: at, stable });
        }
    }
}
