//! Additions of partitions to a transaction.
//!
//! One that comes while a step of its id is under way waits for the end of the step, since it is soon
//! over: a producer that begins its next transaction need not come again. Who has waited long enough
//! drops its half of the answer, and adds nothing then.

use super::{Entry, Name, Then, TransactionPartition};
use crate::txn::ask::Add;
use crate::txn::limits::ADDING_MAX;
use crate::txn::log_record;
use crate::txn::transaction::Transaction;
use crate::wire::ErrorCode;
use millstream_io::runtime::Promise;
use millstream_io::units::TimestampMs;

/// Additions that wait, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Adding(Vec<(Add, Promise<ErrorCode>)>);

impl Adding {
    /// When too many wait it is told to come again.
    fn push(&mut self, add: Add, reply: Promise<ErrorCode>) {
        self.0.retain(|(_, reply)| !reply.is_abandoned());
        if self.0.len() < ADDING_MAX {
            self.0.push((add, reply));
        } else {
            let _ = reply.send(ErrorCode::ConcurrentTransactions);
        }
    }

    pub fn refuse(self, error: ErrorCode) {
        answer(self.0.into_iter().map(|(_, reply)| reply), error);
    }
}

/// Whose connection is gone needs no answer.
pub(super) fn answer(replies: impl IntoIterator<Item = Promise<ErrorCode>>, code: ErrorCode) {
    for reply in replies {
        let _ = reply.send(code);
    }
}

impl TransactionPartition {
    pub(super) fn add(
        &mut self,
        id: &Name,
        add: Add,
        reply: Promise<ErrorCode>,
        now: TimestampMs,
    ) -> Option<Entry> {
        let Some(slot) = self.ids.get_mut(id) else {
            let _ = reply.send(ErrorCode::InvalidProducerIdMapping);
            return None;
        };
        slot.adding.push(add, reply);
        if slot.step.is_some() { None } else { self.add_waiting(id, None, now) }
    }

    /// Adds all that waits: to `base`, which is then stored in any case, or to what is in force.
    pub(super) fn add_waiting(
        &mut self,
        id: &Name,
        base: Option<Transaction>,
        now: TimestampMs,
    ) -> Option<Entry> {
        let bytes_max = self.settings.record_bytes_max;
        let slot = self.ids.get_mut(id)?;
        let (mut next, mut replies) = (base, Vec::new());
        for (add, reply) in std::mem::take(&mut slot.adding).0 {
            if reply.is_abandoned() {
                continue;
            }
            let from = next.as_ref().or(slot.current.as_ref());
            let added = from.ok_or(ErrorCode::InvalidProducerIdMapping).and_then(|from| {
                let added = from.added(add.by, &add.partitions, add.protocol, now)?;
                let is_fit = added.as_ref().is_none_or(|next| is_fit(id, next, bytes_max));
                if is_fit { Ok(added) } else { Err(ErrorCode::InvalidRequest) }
            });
            match added {
                Ok(Some(added)) => {
                    next = Some(added);
                    replies.push(reply);
                }
                // Another has just added them, and its record is not durable yet.
                Ok(None) if !replies.is_empty() => replies.push(reply),
                Ok(None) => answer([reply], ErrorCode::None),
                Err(error) => answer([reply], error),
            }
        }
        let then = if replies.is_empty() { Then::Nothing } else { Then::Added(replies) };
        next.and_then(|next| self.store(id, next, then))
    }
}

/// Whether the log can hold it.
fn is_fit(id: &str, next: &Transaction, bytes_max: usize) -> bool {
    log_record::encode(id, Some(next)).is_ok_and(|record| record.bytes_max() <= bytes_max)
}
