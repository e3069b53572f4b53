//! The answer to a heartbeat, owned, and as the wire carries it.

use std::sync::Arc;

use millstream_io::units::{TopicId, TopicPartition};

use super::epoch::Epoch;
use super::member::Partitions;
use crate::wire::Uuid;
use crate::wire::messages::consumer_group_heartbeat::{
    Assignment, ConsumerGroupHeartbeatResponse, TopicPartitions,
};

/// What a member is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatAnswer {
    pub member_id: Arc<str>,
    pub member_epoch: Epoch,
    /// 0 for a member that left.
    pub heartbeat_interval_ms: u32,
    /// All partitions that the member may use; `None` when that is what it was told before.
    pub assignment: Option<Partitions>,
}

impl HeartbeatAnswer {
    pub fn response(&self) -> ConsumerGroupHeartbeatResponse<'_> {
        let assignment = self.assignment.as_ref();
        ConsumerGroupHeartbeatResponse {
            member_id: Some(&self.member_id),
            member_epoch: self.member_epoch.get(),
            heartbeat_interval_ms: i32::try_from(self.heartbeat_interval_ms).unwrap_or(i32::MAX),
            assignment: assignment.map(|partitions| Assignment {
                topic_partitions: by_topic(partitions)
                    .map(|(topic, partitions)| TopicPartitions {
                        topic_id: Uuid(*topic.as_bytes()),
                        partitions,
                    })
                    .collect(),
            }),
            ..Default::default()
        }
    }
}

/// Partitions gathered by topic; they come in their order.
pub(super) fn by_topic<'a>(
    partitions: impl IntoIterator<Item = &'a TopicPartition>,
) -> impl Iterator<Item = (TopicId, Vec<i32>)> {
    let mut partitions = partitions.into_iter().peekable();
    std::iter::from_fn(move || {
        let topic = partitions.peek()?.topic;
        let mut indexes = Vec::new();
        while let Some(one) = partitions.next_if(|next| next.topic == topic) {
            indexes.push(one.partition.get());
        }
        Some((topic, indexes))
    })
}
