//! The way into the shards from a core: one router a core, which knows every shard's lanes.

mod collect;

use std::num::NonZeroU16;
use std::rc::Rc;
use std::time::Duration;

use millstream_io::runtime::{Post, Promise, Reply, oneshot, timeout};
use millstream_io::units::{Offset, ShardId, TopicId, TopicPartition};

pub use collect::AppendTicket;

use crate::clean_task::CleanerConfig;
use crate::delete_task;
use crate::deletion::{DeleteError, Deletion};
use crate::mesh::{AppendOrder, Appends, Ask, LocalShard, drop_topic, open_all, wait_for_room};
use crate::message::{
    Append, AppendError, DroppedTopic, EpochEnd, Marker, OpenError, OpenPartition, PartitionConfig,
    Read, ReadError, ReadLimits, ReadPlan, TransactionQuery, TransactionState, Want, Woken,
};
use crate::metrics::{Levels, Metrics};
use crate::placement;
use crate::query::{
    ActiveProducer, EpochQuery, MarksPiece, OffsetFound, OffsetQuery, PartitionSize, QueryError,
};
use crate::shard::Shard;
use crate::waiters::Wait;

use collect::{Split, gather};

/// Routes what a door wants to the shards that own the partitions. Lives on one core (`!Send`),
/// cheap to clone. What concerns the core's own shard is done at once, without a message; other
/// cores get one message each, whatever the number of partitions.
#[derive(Clone)]
pub struct Router(Rc<Inner>);

struct Inner {
    shards: NonZeroU16,
    id: ShardId,
    shard: Shard,
    local: Rc<dyn LocalShard>,
    appends: Post<AppendOrder>,
    asks: Post<Ask>,
}

impl Router {
    pub(crate) fn new(
        shards: NonZeroU16,
        id: ShardId,
        shard: Shard,
        local: Rc<dyn LocalShard>,
        posts: (Post<AppendOrder>, Post<Ask>),
    ) -> Router {
        let (appends, asks) = posts;
        Router(Rc::new(Inner { shards, id, shard, local, appends, asks }))
    }

    /// How many shards the process runs.
    pub fn shard_count(&self) -> NonZeroU16 {
        self.0.shards
    }

    /// The shard of this core.
    pub fn shard(&self) -> ShardId {
        self.0.id
    }

    /// The shard that owns a partition, whether it exists or not.
    pub fn owner(&self, at: TopicPartition) -> ShardId {
        placement::owner(at, self.0.shards)
    }

    /// Adds batches to their logs.
    ///
    /// When this returns, the order is fixed: batches of a later call come behind these in every
    /// partition. It waits while an owner has no room (that is the back-pressure: do not read the
    /// socket meanwhile). The ticket resolves when every batch is durable or refused; dropping it
    /// does not undo the append.
    pub async fn append(&self, batches: Vec<Append>) -> AppendTicket {
        self.append_all(batches, |batch| batch.at, Appends::Batches).await
    }

    /// Ends transactions in their partitions; answers with the offsets of the markers, in input
    /// order, when they are durable. Behaves as [`Router::append`]: what was appended before in a
    /// partition stands before the marker.
    pub async fn write_markers(&self, markers: Vec<Marker>) -> Vec<Result<Offset, AppendError>> {
        let ticket = self.append_all(markers, |marker| marker.at, Appends::Markers).await;
        let written = ticket.await;
        written.into_iter().map(|marker| marker.map(|marker| marker.base_offset)).collect()
    }

    async fn append_all<T>(
        &self,
        items: Vec<T>,
        at: impl Fn(&T) -> TopicPartition,
        what: impl Fn(Vec<T>) -> Appends,
    ) -> AppendTicket {
        let mut ticket = AppendTicket::of(items.len());
        for (shard, places, items) in Split::of(items, self, at).parts {
            let (promise, reply) = oneshot();
            let order = AppendOrder { what: what(items), promise };
            if shard == self.0.id {
                wait_for_room(&self.0.shard).await;
                order.stage(&self.0.shard);
            } else {
                // A closed mailbox drops the promise: the ticket says that the shard stops.
                let _ = self.0.appends.send(shard, order).await;
            }
            ticket.wait_for(places, reply);
        }
        ticket
    }

    /// Asks partitions whether a producer has a transaction open there; gives out the guard with
    /// which its first batch must come, once the transaction's coordinator has agreed. Answers in
    /// input order.
    pub async fn transactions(
        &self,
        queries: Vec<TransactionQuery>,
    ) -> Vec<Result<TransactionState, QueryError>> {
        let local =
            |all: &[TransactionQuery]| self.0.shard.with_mut(|shard| shard.transactions(all));
        self.query(queries, |query| query.at, local, Ask::Transactions).await
    }

    /// Plans a read of each partition; answers in input order. Never waits for records to come: see
    /// [`Router::wait_readable`].
    pub async fn read(
        &self,
        reads: Vec<Read>,
        limits: ReadLimits,
    ) -> Vec<Result<ReadPlan, ReadError>> {
        let bytes_max: Vec<u64> = reads.iter().map(|read| read.bytes_max).collect();
        let count = reads.len();
        let mut local = None;
        let mut replies = Vec::new();
        for (shard, places, reads) in Split::of(reads, self, |read| read.at).parts {
            if shard == self.0.id {
                local = Some((places, self.0.local.read(reads, limits)));
            } else {
                let reply = self.ask(shard, |promise| Ask::Read(reads, limits, promise)).await;
                replies.push((places, reply));
            }
        }
        let mut answers: Vec<Option<Result<ReadPlan, ReadError>>> = vec![None; count];
        if let Some((places, reading)) = local {
            collect::place(&mut answers, places, reading.await);
        }
        for (places, reply) in replies {
            let stopping = vec![Err(ReadError::Stopping); places.len()];
            collect::place(&mut answers, places, reply.await.unwrap_or(stopping));
        }
        let plans = answers.into_iter().map(|plan| plan.unwrap_or(Err(ReadError::Stopping)));
        collect::share_limit(plans.collect(), &bytes_max, limits.bytes_max)
    }

    /// Waits until the partitions together have `bytes_min` more readable bytes than the plans
    /// saw, or one of them changed, or the time is over. Nothing is held meanwhile.
    pub async fn wait_readable(
        &self,
        wants: Vec<Want>,
        bytes_min: u64,
        patience: Duration,
    ) -> Woken {
        let (wait, reply) = Wait::new(bytes_min);
        for (shard, _, wants) in Split::of(wants, self, |want| want.at).parts {
            if shard == self.0.id {
                self.0.shard.with_mut(|shard| shard.wait_for(&wants, &wait));
            } else if self.0.asks.send(shard, Ask::Wait(wants, wait.clone())).await.is_err() {
                return Woken::Changed;
            }
        }
        match timeout(patience, reply).await {
            Ok(Ok(woken)) => woken,
            Ok(Err(_)) => Woken::Changed,
            Err(_) => Woken::Deadline,
        }
    }

    /// Offsets by position or by time; answers in input order.
    pub async fn offset_for(
        &self,
        queries: Vec<OffsetQuery>,
    ) -> Vec<Result<OffsetFound, QueryError>> {
        let (count, mut replies) = (queries.len(), Vec::new());
        let mut local = None;
        for (shard, places, queries) in Split::of(queries, self, |query| query.at).parts {
            if shard == self.0.id {
                local = Some((places, self.0.local.offsets(queries)));
            } else {
                let reply = self.ask(shard, |promise| Ask::Offsets(queries, promise)).await;
                replies.push((places, reply));
            }
        }
        let local = match local {
            Some((places, looking)) => Some((places, looking.await)),
            None => None,
        };
        gather(count, local, replies, || Err(QueryError::Stopping)).await
    }

    /// Ends of leader epochs; `None` when the epoch is not known. Answers in input order.
    pub async fn epoch_end(
        &self,
        queries: Vec<EpochQuery>,
    ) -> Vec<Result<Option<EpochEnd>, QueryError>> {
        let local = |queries: &[EpochQuery]| self.0.shard.with(|shard| shard.epoch_ends(queries));
        self.query(queries, |query| query.at, local, Ask::EpochEnds).await
    }

    /// The producers each partition remembers; answers in input order.
    pub async fn producers(
        &self,
        partitions: Vec<TopicPartition>,
    ) -> Vec<Result<Vec<ActiveProducer>, QueryError>> {
        let local = |all: &[TopicPartition]| self.0.shard.with(|shard| shard.producers(all));
        self.query(partitions, |at| *at, local, Ask::Producers).await
    }

    /// Bytes each partition takes; answers in input order.
    pub async fn sizes(
        &self,
        partitions: Vec<TopicPartition>,
    ) -> Vec<Result<PartitionSize, QueryError>> {
        let local = |all: &[TopicPartition]| self.0.shard.with(|shard| shard.sizes(all));
        self.query(partitions, |at| *at, local, Ask::Sizes).await
    }

    /// Deletes the oldest records of each partition; answers with the log starts, in input order. When
    /// this returns, the new log starts are durable and in force; the space is given back later.
    /// Without `patience` it waits for as long as the disk takes.
    pub async fn delete_before(
        &self,
        deletions: Vec<Deletion>,
        patience: Option<Duration>,
    ) -> Vec<Result<Offset, DeleteError>> {
        let (count, mut local, mut replies) = (deletions.len(), None, Vec::new());
        for (shard, places, deletions) in Split::of(deletions, self, |delete| delete.at).parts {
            if shard == self.0.id {
                local = Some((places, deletions));
            } else {
                let ask = |promise| Ask::DeleteBefore(deletions, patience, promise);
                replies.push((places, self.ask(shard, ask).await));
            }
        }
        let own = match local {
            Some((places, deletions)) => Some((
                places,
                delete_task::delete_before(&self.0.shard, &deletions, patience).await,
            )),
            None => None,
        };
        gather(count, own, replies, || Err(DeleteError::Stopping)).await
    }

    /// Makes new partitions, or takes them over under a newer epoch, on their shards. Touches no
    /// disk: a partition's directory comes with its first bytes.
    ///
    /// # Errors
    /// The first refusal; other partitions of the call may be open then: drop their topic.
    pub async fn open(&self, partitions: Vec<OpenPartition>) -> Result<(), OpenError> {
        let mut replies = Vec::new();
        let mut opened = Ok(());
        for (shard, _, partitions) in Split::of(partitions, self, |open| open.at).parts {
            if shard == self.0.id {
                opened = open_all(&self.0.shard, &partitions);
            } else {
                replies.push(self.ask(shard, |promise| Ask::Open(partitions, promise)).await);
            }
        }
        for reply in replies {
            opened = opened.and(reply.await.unwrap_or(Err(OpenError::Stopping)));
        }
        opened
    }

    /// Gives a topic's partitions new settings, on all shards.
    pub async fn configure(&self, topic: TopicId, config: PartitionConfig) {
        let mut replies = Vec::new();
        for shard in self.others() {
            let ask = |promise| Ask::Configure(topic, config.clone(), promise);
            replies.push(self.ask(shard, ask).await);
        }
        self.0.shard.with_mut(|shard| shard.configure(topic, &config));
        for reply in replies {
            // A shard that stops has no use for new settings.
            let _ = reply.await;
        }
    }

    /// Closes a topic's partitions on all shards: what is on its way to the disk ends first, later
    /// appends find no partition. Removes no file: that is the caller's next step.
    pub async fn drop_topic(&self, topic: TopicId) -> DroppedTopic {
        let mut replies = Vec::new();
        for shard in self.others() {
            replies.push(self.ask(shard, |promise| Ask::DropTopic(topic, promise)).await);
        }
        let mut partitions = drop_topic(&self.0.shard, topic).await;
        for reply in replies {
            partitions += reply.await.unwrap_or(0);
        }
        DroppedTopic { topic, partitions }
    }

    /// Counters and levels of every shard that answers, in shard order.
    pub async fn counts(&self) -> Vec<(ShardId, Metrics, Levels)> {
        let mut replies = Vec::new();
        for shard in self.others() {
            replies.push((shard, self.ask(shard, Ask::Counts).await));
        }
        let own = self.0.shard.with(|shard| (self.0.id, shard.metrics, shard.levels()));
        let mut counts = vec![own];
        for (shard, reply) in replies {
            if let Ok((metrics, levels)) = reply.await {
                counts.push((shard, metrics, levels));
            }
        }
        counts.sort_by_key(|(shard, ..)| *shard);
        counts
    }

    /// Counters and levels of this core's shard alone.
    pub fn own_counts(&self) -> (Metrics, Levels) {
        self.0.shard.with(|shard| (shard.metrics, shard.levels()))
    }

    /// Sets how long the partitions of this core's shard remember a silent producer
    /// (`producer.id.expiration.ms`).
    pub fn set_own_producer_expiry(&self, ms: i64) {
        self.0.shard.with_mut(|shard| shard.limits.producer_expiry_ms = ms);
    }

    /// Sets how this core compacts (`log.cleaner.*`).
    pub fn set_own_cleaner(&self, cleaner: CleanerConfig) {
        self.0.shard.with_mut(|shard| shard.cleaner = cleaner);
    }

    /// A piece of a walk over the partitions of this core's shard, from place `from` on.
    pub fn own_marks(&self, from: u32) -> MarksPiece {
        self.0.shard.with(|shard| shard.marks_piece(from))
    }

    /// A question that no disk is needed for.
    async fn query<Q, A: 'static>(
        &self,
        queries: Vec<Q>,
        at: impl Fn(&Q) -> TopicPartition,
        local: impl Fn(&[Q]) -> Vec<Result<A, QueryError>>,
        ask: impl Fn(Vec<Q>, Promise<Vec<Result<A, QueryError>>>) -> Ask,
    ) -> Vec<Result<A, QueryError>> {
        let (count, mut own, mut replies) = (queries.len(), None, Vec::new());
        for (shard, places, queries) in Split::of(queries, self, at).parts {
            if shard == self.0.id {
                own = Some((places, local(&queries)));
            } else {
                let reply = self.ask(shard, |promise| ask(queries, promise)).await;
                replies.push((places, reply));
            }
        }
        gather(count, own, replies, || Err(QueryError::Stopping)).await
    }

    /// Sends a question to another core. When that stops, the reply says that nobody answers.
    async fn ask<T>(&self, shard: ShardId, ask: impl FnOnce(Promise<T>) -> Ask) -> Reply<T> {
        let (promise, reply) = oneshot();
        let _ = self.0.asks.send(shard, ask(promise)).await;
        reply
    }

    fn others(&self) -> impl Iterator<Item = ShardId> {
        let own = self.0.id;
        (0..self.0.shards.get()).map(ShardId::new).filter(move |shard| *shard != own)
    }
}
