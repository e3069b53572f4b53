//! What cores say to each other, and how a core answers for its own shard.
//!
//! Two lanes lead to each core. Appends have their own, because they wait when the owner has no
//! room, and nothing else may wait behind them. Answers travel by promise and never wait, so two
//! cores that are full of each other's requests cannot lock up.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use millstream_io::disk::CoreDisk;
use millstream_io::runtime::{Gate, Mailbox, Promise, Queue};
use millstream_io::units::{Offset, TopicId, TopicPartition};

use crate::deletion::{DeleteError, Deletion};
use crate::message::{
    Append, AppendError, Appended, EpochEnd, Marker, OpenError, OpenPartition, PartitionConfig,
    Read, ReadError, ReadLimits, ReadPlan, TransactionQuery, TransactionState, Want,
};
use crate::metrics::{Levels, Metrics};
use crate::partition_log::RecoveredLog;
use crate::query::{
    ActiveProducer, EpochQuery, OffsetFound, OffsetQuery, PartitionSize, QueryError,
};
use crate::shard::{Shard, ShardState};
use crate::waiters::Wait;
use crate::{delete_task, query_task, read_task};

/// Batches, or markers, on their way to their owner.
pub struct AppendOrder {
    pub what: Appends,
    pub promise: Promise<Vec<Result<Appended, AppendError>>>,
}

/// What is to be added to logs.
pub enum Appends {
    Batches(Vec<Append>),
    Markers(Vec<Marker>),
}

impl AppendOrder {
    /// Stages all of it.
    pub fn stage(self, shard: &Shard) {
        shard.with_mut(|shard| match self.what {
            Appends::Batches(batches) => shard.append(batches, self.promise),
            Appends::Markers(markers) => shard.append_markers(markers, self.promise),
        });
    }
}

/// Everything else that is asked of a shard.
pub enum Ask {
    Read(Vec<Read>, ReadLimits, Promise<Vec<Result<ReadPlan, ReadError>>>),
    Wait(Vec<Want>, Arc<Wait>),
    Offsets(Vec<OffsetQuery>, Promise<Vec<Result<OffsetFound, QueryError>>>),
    EpochEnds(Vec<EpochQuery>, Promise<Vec<Result<Option<EpochEnd>, QueryError>>>),
    Transactions(Vec<TransactionQuery>, Promise<Vec<Result<TransactionState, QueryError>>>),
    Producers(Vec<TopicPartition>, Promise<Vec<Result<Vec<ActiveProducer>, QueryError>>>),
    Sizes(Vec<TopicPartition>, Promise<Vec<Result<PartitionSize, QueryError>>>),
    Open(Vec<OpenPartition>, Promise<Result<(), OpenError>>),
    Configure(TopicId, PartitionConfig, Promise<()>),
    DeleteBefore(Vec<Deletion>, Option<Duration>, Promise<Vec<Result<Offset, DeleteError>>>),
    DropTopic(TopicId, Promise<usize>),
    Counts(Promise<(Metrics, Levels)>),
}

type Answering<T> = Pin<Box<dyn Future<Output = T>>>;

/// The part of a shard that needs its disk to answer, without the disk's type. One a core.
pub trait LocalShard {
    fn read(
        &self,
        reads: Vec<Read>,
        limits: ReadLimits,
    ) -> Answering<Vec<Result<ReadPlan, ReadError>>>;

    fn offsets(&self, queries: Vec<OffsetQuery>)
    -> Answering<Vec<Result<OffsetFound, QueryError>>>;
}

/// A shard with its disk.
pub struct ShardOnDisk<D: CoreDisk> {
    pub shard: Shard,
    pub disk: D,
}

impl<D: CoreDisk> LocalShard for ShardOnDisk<D> {
    fn read(
        &self,
        reads: Vec<Read>,
        limits: ReadLimits,
    ) -> Answering<Vec<Result<ReadPlan, ReadError>>> {
        let (shard, disk) = (self.shard.clone(), self.disk.clone());
        Box::pin(async move { read_task::read(&shard, &disk, &reads, limits).await })
    }

    fn offsets(
        &self,
        queries: Vec<OffsetQuery>,
    ) -> Answering<Vec<Result<OffsetFound, QueryError>>> {
        let (shard, disk) = (self.shard.clone(), self.disk.clone());
        Box::pin(async move { query_task::offsets(&shard, &disk, &queries).await })
    }
}

/// Appends that come from other cores, in the order in which they were sent; waits for room.
pub async fn serve_appends(shard: Shard, mut mailbox: Mailbox<AppendOrder>) {
    loop {
        let bundle = mailbox.receive().await;
        for order in bundle {
            wait_for_room(&shard).await;
            order.stage(&shard);
        }
    }
}

/// What other cores ask, in the order in which they asked; what must look into files is answered
/// by tasks of their own, within `gate`.
pub async fn serve_asks(
    shard: Shard,
    local: Rc<dyn LocalShard>,
    gate: Gate,
    mut mailbox: Mailbox<Ask>,
) {
    loop {
        let bundle = mailbox.receive().await;
        for ask in bundle {
            serve_one(&shard, &local, &gate, ask);
        }
    }
}

/// Waits until the shard takes appends.
pub async fn wait_for_room(shard: &Shard) {
    let event = &shard.events().room;
    loop {
        let seen = event.seen();
        if shard.with(ShardState::has_room) {
            return;
        }
        event.since(seen).await;
    }
}

/// Drops a topic's partitions, each as soon as nothing is being written for it.
pub async fn drop_topic(shard: &Shard, topic: TopicId) -> usize {
    let partitions = shard.with_mut(|shard| shard.begin_drop(topic));
    let event = &shard.events().work;
    for at in &partitions {
        loop {
            let seen = event.seen();
            if shard.with_mut(|shard| shard.try_drop(*at)) {
                break;
            }
            event.since(seen).await;
        }
    }
    partitions.len()
}

/// A promise whose door has gone away is kept in vain, and that is no fault.
fn serve_one(shard: &Shard, local: &Rc<dyn LocalShard>, gate: &Gate, ask: Ask) {
    match ask {
        Ask::Read(reads, limits, promise) => {
            let reading = local.read(reads, limits);
            answer_later(gate, reading, promise);
        }
        Ask::Offsets(queries, promise) => {
            let looking = local.offsets(queries);
            answer_later(gate, looking, promise);
        }
        Ask::Wait(wants, wait) => shard.with_mut(|shard| shard.wait_for(&wants, &wait)),
        Ask::EpochEnds(queries, promise) => {
            let _ = promise.send(shard.with(|shard| shard.epoch_ends(&queries)));
        }
        Ask::Transactions(queries, promise) => {
            let _ = promise.send(shard.with_mut(|shard| shard.transactions(&queries)));
        }
        Ask::Producers(partitions, promise) => {
            let _ = promise.send(shard.with(|shard| shard.producers(&partitions)));
        }
        Ask::Sizes(partitions, promise) => {
            let _ = promise.send(shard.with(|shard| shard.sizes(&partitions)));
        }
        Ask::Open(partitions, promise) => {
            let _ = promise.send(open_all(shard, &partitions));
        }
        Ask::Configure(topic, config, promise) => {
            shard.with_mut(|shard| shard.configure(topic, &config));
            let _ = promise.send(());
        }
        Ask::DeleteBefore(deletions, patience, promise) => {
            let shard = shard.clone();
            let deleting =
                async move { delete_task::delete_before(&shard, &deletions, patience).await };
            answer_later(gate, deleting, promise);
        }
        Ask::DropTopic(topic, promise) => {
            let shard = shard.clone();
            answer_later(gate, async move { drop_topic(&shard, topic).await }, promise);
        }
        Ask::Counts(promise) => {
            let _ = promise.send(shard.with(|shard| (shard.metrics, shard.levels())));
        }
    }
}

/// Opens new partitions; stops at the first that is refused.
pub fn open_all(shard: &Shard, partitions: &[OpenPartition]) -> Result<(), OpenError> {
    shard.with_mut(|shard| {
        partitions.iter().try_for_each(|open| shard.open(open, RecoveredLog::default()))
    })
}

/// Most answers are there at the first look and need no task.
fn answer_later<T: 'static>(
    gate: &Gate,
    answer: impl Future<Output = T> + 'static,
    promise: Promise<T>,
) {
    let task = async move {
        let _ = promise.send(answer.await);
    };
    // A closed gate drops the task, and with it the promise: the asker is told that we stop.
    let _ = gate.spawn(Queue::Serve, task);
}
