//! OffsetCommit (key 8): stores how far a group has come. Durable before the answer.

use super::groups::{allowed, ask, name};
use super::to_commit::{ToCommit, Wish};
use super::topics::{named, with_id};
use super::{Answer, Call, Close};
use crate::group::ask::{Ask, Commit};
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitResponse,
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};

/// Version from which topics go by id (KIP-848).
const IDS_SINCE: i16 = 10;

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: OffsetCommitRequest<'_> = call.request()?;
    let checked = allowed(call, AclOperation::Read, request.group_id);
    let mut sorted = sorted(call, &request, checked);
    let committed = if let Err(refused) = checked {
        refused
    } else if sorted.is_settled() {
        ErrorCode::None
    } else {
        let commit = Commit {
            member_id: name(request.member_id),
            instance_id: request.group_instance_id.map(name),
            generation: request.generation_id_or_member_epoch,
            transaction: None,
            guard: None,
            version: call.version,
            offsets: std::mem::take(&mut sorted.offsets),
        };
        let answered = ask(call, request.group_id, |reply| Ask::Commit(commit, reply)).await;
        answered.unwrap_or_else(|error| error)
    };
    let topics = request.topics.iter().zip(&sorted.refused).map(|(topic, refused)| {
        let one =
            |(partition, refused): (&OffsetCommitRequestPartition<'_>, &Option<ErrorCode>)| {
                let error_code = refused.unwrap_or(committed).number();
                OffsetCommitResponsePartition {
                    partition_index: partition.partition_index,
                    error_code,
                }
            };
        let partitions = topic.partitions.iter().zip(refused).map(one).collect();
        OffsetCommitResponseTopic { name: topic.name, topic_id: topic.topic_id, partitions }
    });
    call.respond(&OffsetCommitResponse { topics: topics.collect(), ..Default::default() })
}

/// Of a group that the caller may not use, every topic is refused as the group is.
fn sorted(
    call: &Call,
    request: &OffsetCommitRequest<'_>,
    checked: Result<(), ErrorCode>,
) -> ToCommit {
    let image = call.image();
    let mut sorted = ToCommit::new(call, request.retention_time_ms);
    for topic in &request.topics {
        let found = checked.and_then(|()| match call.version {
            IDS_SINCE.. => with_id(call, &image, AclOperation::Read, topic.topic_id),
            _ => named(call, &image, AclOperation::Read, topic.name),
        });
        let wishes = topic.partitions.iter().map(|partition| Wish {
            partition: partition.partition_index,
            offset: partition.committed_offset,
            leader_epoch: partition.committed_leader_epoch,
            metadata: partition.committed_metadata,
        });
        sorted.topic(found, wishes);
    }
    sorted
}
