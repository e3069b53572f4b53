//! DeleteRecords (key 21): the oldest records of partitions, up to an offset. KIP-107, KIP-204.
//!
//! Every topic is one to delete from; those that are compacted only, which Apache Kafka refuses with
//! POLICY_VIOLATION, cannot be made here.

use super::topics::{is_internal, named, partition};
use super::{Answer, Call, Close, error_codes};
use crate::cluster::image::Topic;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::delete_records::{
    DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse,
    DeleteRecordsTopicResult,
};
use millstream_io::units::Offset;
use millstream_shards::deletion::{DeleteBefore, Deletion};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: DeleteRecordsRequest<'_> = call.request()?;
    let image = call.image();
    let topics = merged(&request);
    let mut deletions = Vec::new();
    let mut planned = Vec::new();
    for topic in &topics {
        let found = named(call, &image, AclOperation::Delete, topic.name);
        for (index, offset) in &topic.partitions {
            let deletion = deletion(found, *index, *offset);
            planned.push(deletion.map(|deletion| deletions.push(deletion)));
        }
    }
    // As elsewhere zero and less is for as long as it takes.
    let patience = u64::try_from(request.timeout_ms).ok().filter(|ms| *ms > 0);
    let patience = patience.map(Duration::from_millis);
    let mut deleted = call.core.router.delete_before(deletions, patience).await.into_iter();
    let mut answers = planned.into_iter().map(|planned| {
        planned?;
        let deleted = deleted.next().ok_or(ErrorCode::UnknownServerError)?;
        deleted.map_err(|error| error_codes::of_delete(&error))
    });
    let topics = topics.iter().map(|topic| DeleteRecordsTopicResult {
        name: topic.name,
        partitions: topic
            .partitions
            .iter()
            .zip(answers.by_ref())
            .map(|((index, _), answer)| described(*index, answer))
            .collect(),
    });
    call.respond(&DeleteRecordsResponse { topics: topics.collect(), ..Default::default() })
}

/// A topic with what is asked of its partitions: number and offset.
struct Asked<'a> {
    name: &'a str,
    partitions: Vec<(i32, i64)>,
}

/// Each topic once and each partition once, as Apache Kafka reads them: of several offsets for one
/// partition the last counts.
fn merged<'a>(request: &DeleteRecordsRequest<'a>) -> Vec<Asked<'a>> {
    let mut topics: Vec<Asked<'a>> = Vec::new();
    let mut topic_places: HashMap<&str, usize> = HashMap::new();
    let mut places: HashMap<(usize, i32), usize> = HashMap::new();
    for topic in request.topics.iter().filter(|topic| !topic.partitions.is_empty()) {
        let at = *topic_places.entry(topic.name).or_insert_with(|| {
            topics.push(Asked { name: topic.name, partitions: Vec::new() });
            topics.len() - 1
        });
        let partitions = &mut topics[at].partitions;
        for asked in &topic.partitions {
            let place = *places.entry((at, asked.partition_index)).or_insert_with(|| {
                partitions.push((asked.partition_index, asked.offset));
                partitions.len() - 1
            });
            partitions[place].1 = asked.offset;
        }
    }
    topics
}

fn deletion(
    topic: Result<&Arc<Topic>, ErrorCode>,
    index: i32,
    offset: i64,
) -> Result<Deletion, ErrorCode> {
    let at = partition(topic, index)?;
    if is_internal(&topic?.name) {
        return Err(ErrorCode::InvalidTopicException);
    }
    let before = match offset {
        HIGH_WATERMARK => DeleteBefore::HighWatermark,
        _ => DeleteBefore::Offset(Offset::new(offset).ok_or(ErrorCode::OffsetOutOfRange)?),
    };
    Ok(Deletion { at, before })
}

fn described(
    partition_index: i32,
    answer: Result<Offset, ErrorCode>,
) -> DeleteRecordsPartitionResult {
    let low_watermark = answer.map_or(NO_WATERMARK, |log_start| log_start.get());
    let error_code = answer.err().unwrap_or(ErrorCode::None).into();
    DeleteRecordsPartitionResult { partition_index, low_watermark, error_code }
}

/// Stands for the HighWatermark in a request.
const HIGH_WATERMARK: i64 = -1;

/// The low watermark where there is an error.
const NO_WATERMARK: i64 = -1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::messages::delete_records::{DeleteRecordsPartition, DeleteRecordsTopic};

    fn topic<'a>(name: &'a str, partitions: &[(i32, i64)]) -> DeleteRecordsTopic<'a> {
        let partition = |(partition_index, offset): &(i32, i64)| DeleteRecordsPartition {
            partition_index: *partition_index,
            offset: *offset,
        };
        DeleteRecordsTopic { name, partitions: partitions.iter().map(partition).collect() }
    }

    #[test]
    fn what_is_named_twice_is_done_once_and_its_last_offset_counts() {
        let topics = vec![
            topic("a", &[(0, 1), (1, 2), (0, 3)]),
            topic("empty", &[]),
            topic("b", &[(0, 4)]),
            topic("a", &[(1, 5), (2, 6)]),
        ];
        let merged = merged(&DeleteRecordsRequest { topics, timeout_ms: 1 });
        let found: Vec<_> = merged.iter().map(|t| (t.name, &t.partitions[..])).collect();
        let expected: [(&str, &[(i32, i64)]); 2] =
            [("a", &[(0, 3), (1, 5), (2, 6)]), ("b", &[(0, 4)])];
        assert_eq!(found, expected);
    }
}
