//! The way into the shards from a core: one router a core, which knows every shard's inbox.

use std::future::Future;
use std::num::NonZeroU16;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use millstream_io::units::{ShardId, TopicId, TopicPartition};

use crate::message::{
    Append, AppendError, Appended, DroppedTopic, EpochEnd, OpenError, OpenPartition,
    PartitionConfig, Read, ReadError, ReadLimits, ReadPlan, Want, Woken,
};
use crate::placement;
use crate::query::{
    ActiveProducer, EpochQuery, OffsetFound, OffsetQuery, PartitionSize, QueryError,
};

/// Routes what a door wants to the shards that own the partitions. Lives on one core (`!Send`),
/// cheap to clone; a call to the core's own shard sends no message.
#[derive(Clone)]
pub struct Router {
    shards: NonZeroU16,
    local: std::rc::Rc<ShardId>,
}

impl Router {
    /// How many shards the process runs.
    pub fn shard_count(&self) -> NonZeroU16 {
        self.shards
    }

    /// The shard of this core.
    pub fn shard(&self) -> ShardId {
        *self.local
    }

    /// The shard that owns a partition, whether it exists or not.
    pub fn owner(&self, at: TopicPartition) -> ShardId {
        placement::owner(at, self.shards)
    }

    /// Adds batches to their logs.
    ///
    /// When this returns, the order is fixed: batches of a later call come behind these in every
    /// partition. It waits while an owner has no room (that is the back-pressure: do not read the
    /// socket meanwhile). The ticket resolves when every batch is durable or refused; dropping it
    /// does not undo the append.
    pub async fn append(&self, batches: Vec<Append>) -> AppendTicket {
        let _ = batches;
        unimplemented!("lands with the mesh")
    }

    /// Plans a read of each partition; answers in input order. One message a core, none for this
    /// core's own partitions. Never waits for records to come: see [`Router::wait_readable`].
    pub async fn read(
        &self,
        reads: Vec<Read>,
        limits: ReadLimits,
    ) -> Vec<Result<ReadPlan, ReadError>> {
        let _ = (reads, limits);
        unimplemented!("lands with the mesh")
    }

    /// Waits until the partitions together have `bytes_min` more readable bytes than the plans
    /// saw, or one of them changed, or the time is over. No credit is held meanwhile.
    pub async fn wait_readable(
        &self,
        wants: Vec<Want>,
        bytes_min: u64,
        patience: Duration,
    ) -> Woken {
        let _ = (wants, bytes_min, patience);
        unimplemented!("lands with the mesh")
    }

    /// Offsets by position or by time; answers in input order.
    pub async fn offset_for(
        &self,
        queries: Vec<OffsetQuery>,
    ) -> Vec<Result<OffsetFound, QueryError>> {
        let _ = queries;
        unimplemented!("lands with the mesh")
    }

    /// Ends of leader epochs; `None` when the epoch is not known. Answers in input order.
    pub async fn epoch_end(
        &self,
        queries: Vec<EpochQuery>,
    ) -> Vec<Result<Option<EpochEnd>, QueryError>> {
        let _ = queries;
        unimplemented!("lands with the mesh")
    }

    /// The producers each partition remembers; answers in input order.
    pub async fn producers(
        &self,
        partitions: Vec<TopicPartition>,
    ) -> Vec<Result<Vec<ActiveProducer>, QueryError>> {
        let _ = partitions;
        unimplemented!("lands with the mesh")
    }

    /// Bytes each partition takes; answers in input order.
    pub async fn sizes(
        &self,
        partitions: Vec<TopicPartition>,
    ) -> Vec<Result<PartitionSize, QueryError>> {
        let _ = partitions;
        unimplemented!("lands with the mesh")
    }

    /// Makes new partitions, or takes them over under a newer epoch, on their shards. Touches no
    /// disk: a partition's directory comes with its first bytes.
    pub async fn open(&self, partitions: Vec<OpenPartition>) -> Result<(), OpenError> {
        let _ = partitions;
        unimplemented!("lands with the mesh")
    }

    /// Gives a topic's partitions new settings, on all shards.
    pub async fn configure(&self, topic: TopicId, config: PartitionConfig) {
        let _ = (topic, config);
        unimplemented!("lands with the mesh")
    }

    /// Closes a topic's partitions on all shards: pending appends are answered first, later ones
    /// find no partition. Removes no file: that is the caller's next step.
    pub async fn drop_topic(&self, topic: TopicId) -> DroppedTopic {
        let _ = topic;
        unimplemented!("lands with the mesh")
    }
}

/// Resolves to one answer a batch, in input order, when all are durable or refused.
#[must_use = "the batches are durable only when the ticket has resolved"]
pub struct AppendTicket {
    done: Option<Vec<Result<Appended, AppendError>>>,
}

impl Future for AppendTicket {
    type Output = Vec<Result<Appended, AppendError>>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        match self.done.take() {
            Some(answers) => Poll::Ready(answers),
            None => Poll::Pending,
        }
    }
}
