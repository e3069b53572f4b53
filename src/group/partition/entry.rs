//! What is to be written for groups, and what follows when it is durable.

use crate::group::ask::{EndError, Ending, InTransaction, Refusal, Waiter};
use crate::group::classic::{Answer, Name, StoreNumber};
use crate::group::consumer::HeartbeatAnswer;
use crate::group::offsets::CommittedOffset;
use crate::wire::ErrorCode;
use millstream_io::batch::{NewRecord, Outcome as TransactionOutcome};
use millstream_io::runtime::Promise;
use millstream_io::units::ProducerId;
use std::sync::Arc;

/// Records that belong into one batch, or a marker, and what follows when it is durable.
#[derive(Debug, Default)]
pub struct Entry {
    pub content: Content,
    pub records: Vec<NewRecord>,
    pub then: Vec<Then>,
}

/// What is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// The records as the coordinator's own.
    #[default]
    Plain,
    /// The records as part of a producer's transaction.
    Transactional(InTransaction),
    /// No records: the end of a transaction.
    Marker(Ending),
}

impl Entry {
    /// Records of the coordinator's own.
    pub fn plain(records: Vec<NewRecord>, then: Vec<Then>) -> Entry {
        Entry { content: Content::Plain, records, then }
    }

    /// Bytes of the records, at most, or of the marker.
    pub fn bytes(&self) -> usize {
        match self.content {
            Content::Plain | Content::Transactional(_) => {
                self.records.iter().map(NewRecord::bytes_max).sum()
            }
            Content::Marker(_) => MARKER_BYTES,
        }
    }

    /// Parts of at most `bytes_max` each. What follows comes with the last. Only the tombstones of
    /// very many offsets need it.
    pub fn split(mut self, bytes_max: usize) -> Vec<Entry> {
        let mut parts = Vec::new();
        while self.bytes() > bytes_max && self.records.len() > 1 {
            let half = self.records.split_off(self.records.len() / 2);
            let records = std::mem::replace(&mut self.records, half);
            let part = Entry { content: self.content, records, then: Vec::new() };
            parts.extend(part.split(bytes_max));
        }
        parts.push(self);
        parts
    }
}

/// What a marker takes in the log, and room to spare.
const MARKER_BYTES: usize = 128;

/// What follows when an entry is durable.
#[derive(Debug)]
pub enum Then {
    /// A record of a classic group, of the era that it was in.
    Stored {
        group: Name,
        era: u64,
        number: StoreNumber,
    },
    Answer(Waiter, Answer),
    Committed {
        group: Name,
        offsets: Vec<(Name, i32, CommittedOffset)>,
        /// Whose transaction it is part of.
        by: Option<InTransaction>,
        reply: Promise<ErrorCode>,
    },
    /// A transaction has ended.
    Ended {
        producer: ProducerId,
        outcome: TransactionOutcome,
        reply: Promise<Result<(), EndError>>,
    },
    /// Offsets are gone, and with `whole` the group too.
    Forgotten {
        group: Name,
        offsets: Vec<(Arc<str>, i32)>,
        whole: bool,
    },
    Reply(Promise<ErrorCode>),
    Beat(Promise<Result<HeartbeatAnswer, Refusal>>, HeartbeatAnswer),
    ReplyEach(Promise<Result<Vec<ErrorCode>, ErrorCode>>, Vec<ErrorCode>),
}

impl Then {
    /// Tells whoever waits that it did not come to pass.
    pub(super) fn refuse(self, error: ErrorCode) {
        match self {
            Then::Stored { .. } | Then::Forgotten { .. } => {}
            Then::Answer(waiter, answer) => {
                let _ = waiter.send(answer.refused(error));
            }
            Then::Committed { reply, .. } | Then::Reply(reply) => {
                let _ = reply.send(error);
            }
            Then::ReplyEach(reply, _) => {
                let _ = reply.send(Err(error));
            }
            Then::Beat(reply, _) => {
                let _ = reply.send(Err(error.into()));
            }
            Then::Ended { reply, .. } => {
                let _ = reply.send(Err(EndError::NotReady));
            }
        }
    }
}
