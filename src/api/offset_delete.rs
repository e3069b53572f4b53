//! OffsetDelete (key 47): forgets single offsets of a group. KIP-496.

use super::groups::{allowed, ask, name, named};
use super::topics::partition;
use super::{Answer, Call, Close, topics};
use crate::group::ask::Ask;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
};

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: OffsetDeleteRequest<'_> = call.request()?;
    let image = call.image();
    let checked = allowed(call, AclOperation::Delete, request.group_id);
    let mut wanted = Vec::new();
    let mut known: Vec<Vec<Result<(), ErrorCode>>> = Vec::with_capacity(request.topics.len());
    for topic in request.topics.iter().filter(|_| checked.is_ok()) {
        let found = topics::named(call, &image, AclOperation::Read, topic.name);
        let indexes = topic.partitions.iter().map(|partition| partition.partition_index);
        let of_topic = indexes
            .map(|index| partition(found, index).map(|_| wanted.push((name(topic.name), index))));
        known.push(of_topic.collect());
    }
    let asked = match checked.and_then(|()| named(request.group_id)) {
        Ok(group) => ask(call, group, |reply| Ask::DeleteOffsets(wanted, reply)).await,
        Err(error) => Err(error),
    };
    let deleted = match asked.and_then(|answer| answer) {
        Ok(deleted) => deleted,
        Err(error) => {
            let error_code = error.number();
            return call.respond(&OffsetDeleteResponse { error_code, ..Default::default() });
        }
    };
    let mut deleted = deleted.into_iter();
    let mut topics = Vec::with_capacity(request.topics.len());
    for (topic, known) in request.topics.iter().zip(known) {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for (partition, known) in topic.partitions.iter().zip(known) {
            let error = match known {
                Ok(()) => deleted.next().unwrap_or(ErrorCode::UnknownServerError),
                Err(error) => error,
            };
            partitions.push(OffsetDeleteResponsePartition {
                partition_index: partition.partition_index,
                error_code: error.number(),
            });
        }
        topics.push(OffsetDeleteResponseTopic { name: topic.name, partitions });
    }
    call.respond(&OffsetDeleteResponse { topics, ..Default::default() })
}
