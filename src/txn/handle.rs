//! The way to a transactional id from any core.

use super::ask::{Add, Ask, Filter, Listed};
use super::coordinator::Coordinator;
use super::partition::Name;
use super::placement::{TRANSACTIONS_TOPIC, partition_of};
use super::transaction::{Identity, Participant, Protocol};
use crate::cluster::view::MetadataView;
use crate::wire::ErrorCode;
use millstream_io::runtime::{Mailbox, Post, Promise, oneshot, timeout};
use millstream_io::units::{ShardId, TopicPartition};
use millstream_shards::router::Router;
use std::num::NonZeroU32;
use std::time::Duration;

/// What one core asks another's coordinator.
pub enum TransactionOrder {
    One(TopicPartition, Name, Ask),
    List(Filter, Promise<Result<Vec<Listed>, ErrorCode>>),
}

/// What a request that writes in a transaction may be answered, and whether it adds its partitions to
/// the transaction itself (KIP-890, KIP-1050).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// The client added them before, and does not know TRANSACTION_ABORTABLE.
    Default,
    /// The client added them before.
    Abortable,
    /// They are added on the way.
    AddPartitions,
}

impl Support {
    /// Of a Produce request.
    pub const fn of_produce(version: i16) -> Support {
        match version {
            ..=10 => Support::Default,
            11 => Support::Abortable,
            _ => Support::AddPartitions,
        }
    }

    /// Of a TxnOffsetCommit request.
    pub const fn of_txn_offset_commit(version: i16) -> Support {
        match version {
            ..=3 => Support::Default,
            4 => Support::Abortable,
            _ => Support::AddPartitions,
        }
    }
}

/// Reaches every transactional id from one core: those of the core itself without a message.
pub struct Transactions {
    own: Coordinator,
    post: Post<TransactionOrder>,
    router: Router,
    metadata: MetadataView,
}

impl Transactions {
    pub fn new(
        own: Coordinator,
        post: Post<TransactionOrder>,
        router: Router,
        metadata: MetadataView,
    ) -> Transactions {
        Transactions { own, post, router, metadata }
    }

    /// The partition of `__transaction_state` that a transactional id belongs to; `None` before there
    /// is such a topic.
    pub fn partition(&self, id: &str) -> Option<TopicPartition> {
        let image = self.metadata.get();
        let topic = image.topic_by_name(TRANSACTIONS_TOPIC)?;
        let count = NonZeroU32::new(topic.partitions)?;
        topic.partition(partition_of(id, count))
    }

    /// Asks the coordinator of a transactional id and waits for the answer.
    ///
    /// # Errors
    /// NOT_COORDINATOR before transactions were ever used here, and when the broker stops.
    pub async fn ask<T>(
        &self,
        id: &str,
        ask: impl FnOnce(Promise<T>) -> Ask,
    ) -> Result<T, ErrorCode> {
        let at = self.partition(id).ok_or(ErrorCode::NotCoordinator)?;
        let (promise, reply) = oneshot();
        let (name, ask) = (Name::from(id), ask(promise));
        let owner = self.router.owner(at);
        if owner == self.router.shard() {
            self.own.ask(at, &name, ask);
        } else {
            // A closed mailbox drops the promise: nobody answers.
            let _ = self.post.send(owner, TransactionOrder::One(at, name, ask)).await;
        }
        reply.await.map_err(|_| ErrorCode::NotCoordinator)
    }

    /// Adds partitions to a transaction. While a step of it is under way the answer is waited for, so
    /// long at most; then, and when too many wait, it is CONCURRENT_TRANSACTIONS.
    ///
    /// # Errors
    /// As [`Transactions::ask`].
    pub async fn add(
        &self,
        id: &str,
        add: Add,
        patience: Duration,
    ) -> Result<ErrorCode, ErrorCode> {
        let answer = self.ask(id, |reply| Ask::Add(add, reply));
        timeout(patience, answer).await.unwrap_or(Ok(ErrorCode::ConcurrentTransactions))
    }

    /// Has it that `partitions` belong to the open transaction of `by`, or learns whether they do, for
    /// a request that writes there; one answer for each, in order. The answers are such as the
    /// client's version understands; CONCURRENT_TRANSACTIONS means: soon. Additions wait for as long
    /// as in [`Transactions::add`].
    pub async fn admit(
        &self,
        id: &str,
        by: Identity,
        partitions: Vec<Participant>,
        (support, patience): (Support, Duration),
    ) -> Vec<Result<(), ErrorCode>> {
        let count = partitions.len();
        if id.is_empty() {
            return vec![Err(ErrorCode::InvalidRequest); count];
        }
        let all = match support {
            Support::AddPartitions => {
                let add = Add { by, partitions, protocol: Protocol::V2 };
                match self.add(id, add, patience).await {
                    Ok(ErrorCode::None) => Ok(vec![true; count]),
                    Ok(error) | Err(error) => Err(error),
                }
            }
            Support::Abortable | Support::Default => self
                .ask(id, |reply| Ask::Verify(by, partitions, reply))
                .await
                .and_then(|verified| verified),
        };
        let missing = match support {
            Support::Default => ErrorCode::InvalidTxnState,
            Support::Abortable | Support::AddPartitions => ErrorCode::TransactionAbortable,
        };
        match all {
            Ok(known) => {
                known.into_iter().map(|is_in| if is_in { Ok(()) } else { Err(missing) }).collect()
            }
            // Who writes is told by the older word.
            Err(ErrorCode::ProducerFenced) => vec![Err(ErrorCode::InvalidProducerEpoch); count],
            Err(error) => vec![Err(error); count],
        }
    }

    /// The transactional ids of all cores that `filter` takes.
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS when a core has not loaded all of them.
    pub async fn list(&self, filter: &Filter) -> Result<Vec<Listed>, ErrorCode> {
        let own = self.router.shard();
        let mut replies = Vec::new();
        for core in (0..self.router.shard_count().get()).map(ShardId::new) {
            if core != own {
                let (promise, reply) = oneshot();
                let order = TransactionOrder::List(filter.clone(), promise);
                let _ = self.post.send(core, order).await;
                replies.push(reply);
            }
        }
        let mut all = self.own.list(filter).await?;
        for reply in replies {
            all.extend(reply.await.unwrap_or(Err(ErrorCode::CoordinatorNotAvailable))?);
        }
        Ok(all)
    }
}

/// Serves what other cores ask of this one, until it is cancelled.
pub async fn serve(mut mailbox: Mailbox<TransactionOrder>, coordinator: Coordinator) {
    loop {
        for order in mailbox.receive().await {
            match order {
                TransactionOrder::One(at, id, ask) => coordinator.ask(at, &id, ask),
                TransactionOrder::List(filter, reply) => coordinator.answer_list(filter, reply),
            }
        }
    }
}
