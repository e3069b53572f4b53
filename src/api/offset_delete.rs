//! OffsetDelete (key 47): forgets single offsets of a group. KIP-496.

use super::groups::{ask, name, named};
use super::topics::{by_name, partition};
use super::{Answer, Call, Close};
use crate::group::ask::Ask;
use crate::wire::ErrorCode;
use crate::wire::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteRequestTopic, OffsetDeleteResponse,
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: OffsetDeleteRequest<'_> = call.request()?;
    let image = call.image();
    let is_known = |topic: &OffsetDeleteRequestTopic<'_>, index| {
        partition(by_name(&image, topic.name), index).is_ok()
    };
    let mut wanted = Vec::new();
    for topic in &request.topics {
        let indexes = topic.partitions.iter().map(|partition| partition.partition_index);
        let known = indexes.filter(|index| is_known(topic, *index));
        wanted.extend(known.map(|index| (name(topic.name), index)));
    }
    let asked = match named(request.group_id) {
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
    for topic in &request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for partition in &topic.partitions {
            let error = match is_known(topic, partition.partition_index) {
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
