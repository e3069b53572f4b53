//! OffsetDelete (key 47): forgets single offsets of a group. KIP-496.

use super::groups::{ask, name};
use super::topics::by_name;
use super::{Answer, Call, Close};
use crate::group::ask::Ask;
use crate::wire::ErrorCode;
use crate::wire::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
};

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: OffsetDeleteRequest<'_> = call.request()?;
    let image = call.image();
    let known: Vec<bool> =
        request.topics.iter().map(|topic| by_name(&image, topic.name).is_ok()).collect();
    let wanted = request.topics.iter().zip(&known).filter(|(_, known)| **known);
    let wanted = wanted.flat_map(|(topic, _)| {
        topic.partitions.iter().map(|partition| (name(topic.name), partition.partition_index))
    });
    let wanted = wanted.collect();
    let asked = ask(call, request.group_id, |reply| Ask::DeleteOffsets(wanted, reply)).await;
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
        for partition in &topic.partitions {
            let error = match known {
                true => deleted.next().unwrap_or(ErrorCode::UnknownServerError),
                false => ErrorCode::UnknownTopicOrPartition,
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
