//! The embedded protocol "consumer", in which members of the classic protocol say what they want and
//! are told what they get, from and to plain values.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use millstream_io::units::{PartitionIndex, TopicPartition};

use super::answer::by_topic;
use super::member::Partitions;
use super::topics::TopicsView;
use crate::wire::messages::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions, decode_prefixed,
    encode_prefixed, version_to_write,
};

/// What a member wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subscription {
    pub topic_names: BTreeSet<Arc<str>>,
    /// What it has not let go of; of topics that are.
    pub owned: Partitions,
    /// In which it got them; -1 where it does not say.
    pub generation: i32,
    pub rack_id: Option<Arc<str>>,
}

/// Why a member's bytes are of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EmbeddedError {
    Malformed,
    /// An assignor of the client's own has sent words of its own along, which nobody else can.
    HasUserData,
}

/// # Errors
/// [`EmbeddedError::Malformed`].
pub(super) fn subscription(
    bytes: &[u8],
    topics: &dyn TopicsView,
) -> Result<Subscription, EmbeddedError> {
    let read: ConsumerProtocolSubscription<'_> =
        decode_prefixed(bytes).map_err(|_| EmbeddedError::Malformed)?;
    Ok(Subscription {
        topic_names: read.topics.iter().map(|name| Arc::from(*name)).collect(),
        owned: existing(&read.owned_partitions, topics),
        generation: read.generation_id,
        rack_id: read.rack_id.filter(|rack| !rack.is_empty()).map(Arc::from),
    })
}

/// # Errors
/// [`EmbeddedError`].
pub(super) fn assignment(
    bytes: &[u8],
    topics: &dyn TopicsView,
) -> Result<Partitions, EmbeddedError> {
    if bytes.is_empty() {
        return Ok(Partitions::new());
    }
    let read: ConsumerProtocolAssignment<'_> =
        decode_prefixed(bytes).map_err(|_| EmbeddedError::Malformed)?;
    match read.user_data {
        None | Some(&[]) => Ok(existing(&read.assigned_partitions, topics)),
        Some(_) => Err(EmbeddedError::HasUserData),
    }
}

/// An assignment in the version in which the member wrote its subscription. Topics that are no more
/// are left out.
///
/// # Errors
/// [`EmbeddedError::Malformed`]: the subscription is.
pub(super) fn assignment_bytes<'p>(
    partitions: impl IntoIterator<Item = &'p TopicPartition>,
    subscription: &[u8],
    topics: &dyn TopicsView,
) -> Result<Bytes, EmbeddedError> {
    let named = |(id, partitions)| Some((topics.name_of(id)?, partitions));
    let named: Vec<(Arc<str>, Vec<i32>)> = by_topic(partitions).filter_map(named).collect();
    let all = named.iter();
    let all = all
        .map(|(name, partitions)| TopicPartitions { topic: name, partitions: partitions.clone() });
    let value = ConsumerProtocolAssignment { assigned_partitions: all.collect(), user_data: None };
    let version = version_to_write::<ConsumerProtocolAssignment<'_>>(subscription);
    let version = version.map_err(|_| EmbeddedError::Malformed)?;
    let bytes = encode_prefixed(&value, version).map_err(|_| EmbeddedError::Malformed)?;
    Ok(Bytes::from(bytes))
}

/// Those that exist.
fn existing(named: &[TopicPartitions<'_>], topics: &dyn TopicsView) -> Partitions {
    let of_topic = |named: &TopicPartitions<'_>| {
        let facts = topics.by_name(named.topic)?;
        let partitions = named.partitions.iter();
        let known = partitions
            .filter(|index| u32::try_from(**index).is_ok_and(|index| index < facts.partitions))
            .filter_map(|index| PartitionIndex::new(*index))
            .map(|partition| TopicPartition { topic: facts.id, partition });
        Some(known.collect::<Vec<TopicPartition>>())
    };
    named.iter().filter_map(of_topic).flatten().collect()
}

#[cfg(test)]
#[path = "embedded_tests.rs"]
mod tests;
