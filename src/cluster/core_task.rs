//! What a core does for the controller: takes images, opens, configures and closes partitions.

use super::controller::{Cores, NewPartition};
use super::image::MetadataImage;
use super::limits::CORE_ORDER_SLOW;
use super::view::MetadataView;
use crate::config::{BrokerConfig, TopicConfig};
use millstream_io::runtime::{ForeignPost, Mailbox, Promise, Reply, log, oneshot};
use millstream_io::units::{ShardId, TopicId};
use millstream_shards::clean_task::CleanerConfig;
use millstream_shards::message::{Compaction, OpenError, OpenPartition, PartitionConfig};
use millstream_shards::router::Router;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One order of the controller to one core; the promise is kept when it is done.
pub enum CoreOrder {
    Publish(Arc<MetadataImage>, Promise<()>),
    Open(Vec<OpenPartition>, Promise<Result<(), OpenError>>),
    Configure(TopicId, PartitionConfig, Promise<()>),
    DropTopic(TopicId, Promise<()>),
}

/// Carries out orders until it is cancelled, and calls `changed` after each new image. One task a
/// core.
pub async fn run(
    mut mailbox: Mailbox<CoreOrder>,
    router: Router,
    view: MetadataView,
    changed: impl Fn(),
) {
    loop {
        for order in mailbox.receive().await {
            carry_out(order, &router, &view, &changed).await;
        }
    }
}

/// An abandoned promise means that the controller is gone, so nobody misses the answer.
async fn carry_out(order: CoreOrder, router: &Router, view: &MetadataView, changed: &impl Fn()) {
    match order {
        CoreOrder::Publish(image, done) => {
            router.set_own_producer_expiry(image.broker.producer_expiry_ms);
            router.set_own_cleaner(cleaner_config(&image.broker));
            view.replace(image);
            changed();
            let _ = done.send(());
        }
        CoreOrder::Open(partitions, done) => {
            let _ = done.send(router.open(partitions).await);
        }
        CoreOrder::Configure(topic, config, done) => {
            router.configure(topic, config).await;
            let _ = done.send(());
        }
        CoreOrder::DropTopic(topic, done) => {
            router.drop_topic(topic).await;
            let _ = done.send(());
        }
    }
}

/// The core that carries out what concerns partitions.
const FIRST: ShardId = ShardId::new(0);

/// The cores, as the controller's thread reaches them. Partitions are opened and closed through
/// the router of core 0, which passes on what belongs to others.
pub struct CoreLinks {
    post: ForeignPost<CoreOrder>,
}

impl CoreLinks {
    pub fn new(post: ForeignPost<CoreOrder>) -> CoreLinks {
        CoreLinks { post }
    }

    fn ask<T>(&self, core: ShardId, order: impl FnOnce(Promise<T>) -> CoreOrder) -> Option<T> {
        let begun = Instant::now();
        let answer = self.order(core, order)?.wait().ok();
        if begun.elapsed() > CORE_ORDER_SLOW {
            log::warn("cluster", "a core took long to carry out a change of the metadata")
                .field("core", core)
                .field("seconds", begun.elapsed().as_secs())
                .emit();
        }
        answer
    }

    fn order<T>(
        &self,
        core: ShardId,
        order: impl FnOnce(Promise<T>) -> CoreOrder,
    ) -> Option<Reply<T>> {
        let (promise, reply) = oneshot();
        self.post.send(core, order(promise)).ok()?;
        Some(reply)
    }
}

/// A core that is gone answers nothing: the broker is stopping, and so does the controller.
impl Cores for CoreLinks {
    fn open(&mut self, partitions: Vec<NewPartition>) -> Result<(), String> {
        let partitions = partitions.into_iter().map(open_partition).collect();
        match self.ask(FIRST, |done| CoreOrder::Open(partitions, done)) {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(error.to_string()),
            None => Err("the broker is stopping".to_owned()),
        }
    }

    fn configure(&mut self, topic: TopicId, config: TopicConfig) {
        let config = partition_config(&config);
        self.ask(FIRST, |done| CoreOrder::Configure(topic, config, done));
    }

    fn drop_topic(&mut self, topic: TopicId) {
        self.ask(FIRST, |done| CoreOrder::DropTopic(topic, done));
    }

    fn publish(&mut self, image: Arc<MetadataImage>) {
        let cores = u16::try_from(self.post.cores()).unwrap_or(u16::MAX);
        let publish =
            |core| self.order(ShardId::new(core), |done| CoreOrder::Publish(image.clone(), done));
        let replies: Vec<_> = (0..cores).filter_map(publish).collect();
        for reply in replies {
            let _ = reply.wait();
        }
    }
}

/// What the shards need to open a partition.
pub fn open_partition(partition: NewPartition) -> OpenPartition {
    OpenPartition {
        at: partition.at,
        topic_name: partition.topic_name,
        epoch: partition.epoch,
        config: partition_config(&partition.config),
    }
}

/// The settings of the broker that compaction acts on.
pub fn cleaner_config(broker: &BrokerConfig) -> CleanerConfig {
    CleanerConfig {
        threads: broker.cleaner_threads,
        dedupe_bytes: broker.cleaner_dedupe_bytes,
        io_bytes_per_second: broker.cleaner_io_bytes_per_second,
        backoff: Duration::from_millis(broker.cleaner_backoff_ms),
    }
}

/// The settings of a topic that its partitions act on.
pub fn partition_config(config: &TopicConfig) -> PartitionConfig {
    let compaction = config.compaction.map(|compaction| Compaction {
        min_cleanable_ppm: compaction.min_cleanable_ppm,
        min_lag_ms: compaction.min_lag_ms.unsigned_abs(),
        max_lag_ms: compaction.max_lag_ms.unsigned_abs(),
        delete_retention_ms: compaction.delete_retention_ms,
    });
    let segment_ms = match config.compaction {
        // What is compacted must be closed first.
        Some(compaction) => config.segment_ms.min(compaction.max_lag_ms),
        None => config.segment_ms,
    };
    PartitionConfig {
        compaction,
        segment_bytes: u64::from(config.segment_bytes),
        segment_index_bytes: u64::from(config.segment_index_bytes),
        segment_ms: segment_ms.unsigned_abs(),
        segment_jitter_ms: config.segment_jitter_ms.unsigned_abs(),
        message_bytes_max: u64::from(config.max_message_bytes),
        timestamp_type: config.timestamp_type,
        timestamp_before_max_ms: config.timestamp_before_max_ms.unsigned_abs(),
        timestamp_after_max_ms: config.timestamp_after_max_ms.unsigned_abs(),
        retention_ms: u64::try_from(config.retention_ms).ok(),
        retention_bytes: u64::try_from(config.retention_bytes).ok(),
        file_delete_delay_ms: config.file_delete_delay_ms.unsigned_abs(),
    }
}
