//! What is asked of a transactional id from any core, owned, and by what each asker waits.

use super::state::State;
use super::transaction::{Identity, Outcome, Participant, Protocol, Refusal};
use crate::wire::ErrorCode;
use millstream_io::runtime::Promise;
use millstream_io::units::{ProducerId, TimestampMs};

/// One question to one transactional id.
#[derive(Debug)]
pub enum Ask {
    Init(Init, Promise<Result<Identity, Refusal>>),
    Add(Add, Promise<ErrorCode>),
    /// Which partitions belong to the open transaction: one answer for each, in order.
    Verify(Identity, Vec<Participant>, Promise<Result<Vec<bool>, ErrorCode>>),
    End(End, Promise<Result<Identity, Refusal>>),
    Describe(Promise<Result<Description, ErrorCode>>),
}

/// InitProducerId.
#[derive(Debug)]
pub struct Init {
    /// Who the client says it was (KIP-360).
    pub expected: Option<Identity>,
    pub timeout_ms: i32,
    /// A producer id that nobody has, if one is at hand.
    pub fresh: Option<ProducerId>,
}

/// AddPartitionsToTxn, or a request that adds its partitions by itself (KIP-890).
#[derive(Debug)]
pub struct Add {
    pub by: Identity,
    pub partitions: Vec<Participant>,
    pub protocol: Protocol,
}

/// EndTxn.
#[derive(Debug)]
pub struct End {
    pub by: Identity,
    pub outcome: Outcome,
    pub protocol: Protocol,
    /// As in [`Init`].
    pub fresh: Option<ProducerId>,
}

/// A transactional id as DescribeTransactions tells it (KIP-664).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    pub identity: Identity,
    pub state: State,
    pub timeout_ms: i32,
    pub started_at: Option<TimestampMs>,
    /// In order.
    pub partitions: Vec<Participant>,
}

/// A line of ListTransactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    pub transactional_id: std::sync::Arc<str>,
    pub producer: ProducerId,
    pub state: State,
    pub started_at: Option<TimestampMs>,
}

/// Which transactional ids ListTransactions is about. Empty lists are for all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub producers: Vec<i64>,
    /// Names of states; those that are none match nothing.
    pub states: Vec<String>,
    /// Open since before this, if it says so. What never was open counts as open since ever.
    pub open_for_more_than_ms: Option<i64>,
}

impl Filter {
    pub fn takes(&self, listed: &Listed, now: TimestampMs) -> bool {
        let age = now.since_ms(listed.started_at.unwrap_or(TimestampMs::NONE));
        (self.producers.is_empty() || self.producers.contains(&listed.producer.get()))
            && (self.states.is_empty() || self.states.iter().any(|s| s == listed.state.name()))
            && self.open_for_more_than_ms.is_none_or(|least| age > least)
    }
}

impl Ask {
    /// Refuses whatever is asked.
    pub fn refuse(self, error: ErrorCode) {
        // Nobody may be waiting any more, who then needs no answer.
        match self {
            Ask::Init(_, reply) | Ask::End(_, reply) => {
                let _ = reply.send(Err(error.into()));
            }
            Ask::Add(_, reply) => {
                let _ = reply.send(error);
            }
            Ask::Verify(_, _, reply) => {
                let _ = reply.send(Err(error));
            }
            Ask::Describe(reply) => {
                let _ = reply.send(Err(error));
            }
        }
    }
}
