//! How requests name topics, and what handlers share in answering about them.

use super::Call;
use crate::authorizer::Resource;
use crate::cluster::image::{MetadataImage, Topic};
pub use crate::cluster::topic_name::is_internal;
use crate::wire::apis::AclOperation;
use crate::wire::{ErrorCode, Uuid};
use millstream_io::units::{LeaderEpoch, TopicId, TopicPartition};
use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

/// The wire's form of a topic id.
pub fn uuid(id: TopicId) -> Uuid {
    Uuid(*id.as_bytes())
}

pub fn topic_id(uuid: Uuid) -> TopicId {
    TopicId::from_bytes(uuid.0)
}

/// A topic by name.
pub fn by_name<'i>(image: &'i MetadataImage, name: &str) -> Result<&'i Arc<Topic>, ErrorCode> {
    image.topic_by_name(name).ok_or(ErrorCode::UnknownTopicOrPartition)
}

/// A topic by name that the caller may do `operation` with. Whether one exists that it may not is not
/// told.
pub fn named<'i>(
    call: &Call,
    image: &'i MetadataImage,
    operation: AclOperation,
    name: &str,
) -> Result<&'i Arc<Topic>, ErrorCode> {
    call.allowed(image, operation, Resource::Topic(name))?;
    by_name(image, name)
}

/// A topic by id that the caller may do `operation` with. An id is no secret.
pub fn with_id<'i>(
    call: &Call,
    image: &'i MetadataImage,
    operation: AclOperation,
    id: Uuid,
) -> Result<&'i Arc<Topic>, ErrorCode> {
    let topic = by_id(image, id)?;
    call.allowed(image, operation, Resource::Topic(&topic.name))?;
    Ok(topic)
}

/// A topic by id.
pub fn by_id(image: &MetadataImage, id: Uuid) -> Result<&Arc<Topic>, ErrorCode> {
    image.topic_by_id(topic_id(id)).ok_or(ErrorCode::UnknownTopicId)
}

/// A partition of a topic that was found, or was not.
pub fn partition(
    topic: Result<&Arc<Topic>, ErrorCode>,
    index: i32,
) -> Result<TopicPartition, ErrorCode> {
    topic?.partition(index).ok_or(ErrorCode::UnknownTopicOrPartition)
}

/// The leader epoch a client believes in; negative means that it does not say (KIP-320).
pub fn current_epoch(epoch: i32) -> Option<LeaderEpoch> {
    LeaderEpoch::new(epoch)
}

/// Whether each item is the first of its kind. What a request names twice is answered once.
pub fn firsts<T: Hash + Eq>(items: impl Iterator<Item = T>) -> Vec<bool> {
    let mut seen = HashSet::new();
    items.map(|item| seen.insert(item)).collect()
}
