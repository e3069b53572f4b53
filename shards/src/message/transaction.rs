//! What crosses the boundary of a shard for transactions (KIP-98, KIP-890).
//!
//! Before the first batch of a transaction in a partition, the door asks the partition for a guard
//! ([`TransactionQuery`]), then the transaction's coordinator whether the partition is part of the
//! transaction, and sends the batch with the guard. A marker that came in between has cleared the
//! guard, so the late batch opens no transaction that nobody would end.

use std::fmt;

use millstream_io::units::{
    Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs, TopicPartition,
};

pub use millstream_io::batch::Outcome;

/// Given out by a partition for one producer; good for one batch that opens a transaction, until a
/// marker of that producer is written. Means nothing to any other partition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VerificationGuard(pub(crate) u64);

/// Asks whether a producer's next transactional batch needs the coordinator's word.
#[derive(Clone, Copy, Debug)]
pub struct TransactionQuery {
    pub at: TopicPartition,
    pub producer: ProducerId,
    pub epoch: ProducerEpoch,
    /// Sequence of the first record of the batch that is to be sent; `None` for one that takes no
    /// sequence. Until the transaction is open, no batch behind the lowest one asked for is taken.
    pub first: Option<Sequence>,
    /// The client speaks transactions v2: every transaction has an epoch of its own, so that a
    /// producer the partition does not know must begin at sequence 0.
    pub bumps_epoch: bool,
}

/// What a partition says to a [`TransactionQuery`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransactionState {
    /// The producer has a transaction open here under this epoch, or has begun a newer epoch, for
    /// which the batch is refused whatever the coordinator says: send it without a guard.
    Open,
    /// Neither: ask the coordinator, and send the batch with this guard.
    Unverified(VerificationGuard),
}

/// Ends a producer's transaction in one partition.
#[derive(Clone, Copy, Debug)]
pub struct Marker {
    pub at: TopicPartition,
    pub producer: ProducerId,
    pub epoch: ProducerEpoch,
    pub outcome: Outcome,
    pub coordinator_epoch: i32,
    /// From 2 on the marker's epoch must be newer than that of the records, unless there is no
    /// transaction to end (KIP-890).
    pub transaction_version: u8,
    /// The coordinator's clock: the timestamp of the marker.
    pub now: TimestampMs,
}

/// Why a batch has no place in the state of its producer's transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidTxnState {
    /// Transactional, and the producer has no transaction open here, nor a guard that is good.
    NotVerified,
    /// Not transactional, while the producer's transaction, open since `first`, goes on.
    Open { first: Offset },
}

impl fmt::Display for InvalidTxnState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidTxnState::NotVerified => {
                f.write_str("it belongs to no transaction that is open or verified there")
            }
            InvalidTxnState::Open { first } => {
                write!(f, "it is not transactional, and a transaction is open since offset {first}")
            }
        }
    }
}
