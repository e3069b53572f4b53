//! The way to a group from any core.

use super::ask::{Ask, EndError, Ending, Listed};
use super::classic::Name;
use super::coordinator::Coordinator;
use super::placement::{OFFSETS_TOPIC, partition_of};
use crate::cluster::view::MetadataView;
use crate::wire::ErrorCode;
use millstream_io::runtime::{Mailbox, Post, Promise, oneshot};
use millstream_io::units::{ShardId, TopicPartition};
use millstream_shards::message::AppendError;
use millstream_shards::router::Router;
use std::num::NonZeroU32;

/// What one core asks another's coordinator.
pub enum GroupOrder {
    One(TopicPartition, Name, Ask),
    End(TopicPartition, Ending, Promise<Result<(), EndError>>),
    List(Promise<Result<Vec<Listed>, ErrorCode>>),
}

/// Reaches every group from one core: those of the core itself without a message.
pub struct Groups {
    own: Coordinator,
    post: Post<GroupOrder>,
    router: Router,
    metadata: MetadataView,
}

impl Groups {
    pub fn new(
        own: Coordinator,
        post: Post<GroupOrder>,
        router: Router,
        metadata: MetadataView,
    ) -> Groups {
        Groups { own, post, router, metadata }
    }

    /// The partition of `__consumer_offsets` that a group belongs to; `None` before there is such a
    /// topic.
    pub fn partition(&self, group: &str) -> Option<TopicPartition> {
        let image = self.metadata.get();
        let topic = image.topic_by_name(OFFSETS_TOPIC)?;
        let count = NonZeroU32::new(topic.partitions)?;
        topic.partition(partition_of(group, count))
    }

    /// Asks the group's coordinator and waits for the answer.
    ///
    /// # Errors
    /// NOT_COORDINATOR before groups were ever used here, and when the broker stops.
    pub async fn ask<T>(
        &self,
        group: &str,
        ask: impl FnOnce(Promise<T>) -> Ask,
    ) -> Result<T, ErrorCode> {
        let at = self.partition(group).ok_or(ErrorCode::NotCoordinator)?;
        let (promise, reply) = oneshot();
        let (name, ask) = (Name::from(group), ask(promise));
        let owner = self.router.owner(at);
        if owner == self.router.shard() {
            self.own.ask(at, name, ask);
        } else {
            // A closed mailbox drops the promise: nobody answers.
            let _ = self.post.send(owner, GroupOrder::One(at, name, ask)).await;
        }
        reply.await.map_err(|_| ErrorCode::NotCoordinator)
    }

    /// Ends a producer's transaction in a partition of the offsets topic: resolves when the marker is
    /// durable and what it ends counts, or is forgotten.
    ///
    /// # Errors
    /// [`EndError`]: the transaction is as it was, as far as anybody knows.
    pub async fn end_transaction(
        &self,
        at: TopicPartition,
        ending: Ending,
    ) -> Result<(), EndError> {
        let image = self.metadata.get();
        let offsets = image.topic_by_name(OFFSETS_TOPIC);
        if offsets.and_then(|topic| topic.partition(at.partition.get())) != Some(at) {
            return Err(EndError::Refused(AppendError::UnknownPartition { at }));
        }
        let (promise, reply) = oneshot();
        let owner = self.router.owner(at);
        if owner == self.router.shard() {
            self.own.end_transaction(at, ending, promise);
        } else {
            // A closed mailbox drops the promise: nobody answers.
            let _ = self.post.send(owner, GroupOrder::End(at, ending, promise)).await;
        }
        reply.await.unwrap_or(Err(EndError::NotReady))
    }

    /// All groups of all cores.
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS when a core has not loaded all of them.
    pub async fn list(&self) -> Result<Vec<Listed>, ErrorCode> {
        let own = self.router.shard();
        let mut replies = Vec::new();
        for core in (0..self.router.shard_count().get()).map(ShardId::new) {
            if core != own {
                let (promise, reply) = oneshot();
                let _ = self.post.send(core, GroupOrder::List(promise)).await;
                replies.push(reply);
            }
        }
        let mut all = self.own.list().await?;
        for reply in replies {
            all.extend(reply.await.unwrap_or(Err(ErrorCode::CoordinatorNotAvailable))?);
        }
        Ok(all)
    }
}

/// Serves what other cores ask of this one, until it is cancelled.
pub async fn serve(mut mailbox: Mailbox<GroupOrder>, coordinator: Coordinator) {
    loop {
        for order in mailbox.receive().await {
            match order {
                GroupOrder::One(at, group, ask) => coordinator.ask(at, group, ask),
                GroupOrder::End(at, ending, reply) => {
                    coordinator.end_transaction(at, ending, reply);
                }
                GroupOrder::List(reply) => coordinator.answer_list(reply),
            }
        }
    }
}
