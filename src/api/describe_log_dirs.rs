//! DescribeLogDirs (key 35): bytes on disk. KIP-113, KIP-827.

use super::{Answer, Call, Close, error_codes};
use crate::authorizer::Resource;
use crate::cluster::image::Topic;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::describe_log_dirs::{
    DescribeLogDirsPartition, DescribeLogDirsRequest, DescribeLogDirsResponse,
    DescribeLogDirsResult, DescribeLogDirsTopic,
};
use millstream_io::units::TopicPartition;
use std::sync::Arc;

/// Names all partitions when none are named; unknown ones are left out, as in Apache Kafka.
pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: DescribeLogDirsRequest<'_> = call.request()?;
    let image = call.image();
    if let Err(code) = call.allowed(&image, AclOperation::Describe, Resource::Cluster) {
        return call.respond(&refused(call, code));
    }
    let wanted: Vec<(Arc<Topic>, Vec<TopicPartition>)> = match &request.topics {
        None => image.topics().map(|t| (t.clone(), t.all_partitions().collect())).collect(),
        Some(topics) => topics
            .iter()
            .filter_map(|asked| {
                let topic = image.topic_by_name(asked.topic)?;
                let found = asked.partitions.iter().filter_map(|index| topic.partition(*index));
                Some((topic.clone(), found.collect()))
            })
            .collect(),
    };
    let all: Vec<TopicPartition> = wanted.iter().flat_map(|(_, found)| found).copied().collect();
    let mut sizes = call.core.router.sizes(all).await.into_iter();
    let mut error = ErrorCode::None;
    let mut topics = Vec::new();
    for (topic, found) in &wanted {
        let mut partitions = Vec::new();
        for (at, size) in found.iter().zip(sizes.by_ref()) {
            match size {
                Ok(size) => partitions.push(DescribeLogDirsPartition {
                    partition_index: at.partition.get(),
                    partition_size: i64::try_from(size.bytes).unwrap_or(i64::MAX),
                    ..Default::default()
                }),
                Err(refused) => match error_codes::of_query(&refused) {
                    ErrorCode::KafkaStorageError => error = ErrorCode::KafkaStorageError,
                    // Deleted since the image was looked at: no longer a part of the answer.
                    _ => continue,
                },
            }
        }
        if !partitions.is_empty() {
            topics.push(DescribeLogDirsTopic { name: &topic.name, partitions });
        }
    }
    let space = match call.version {
        4.. => call.core.free_space.ask().await,
        _ => None,
    };
    let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let log_dir = call.core.data_dir.to_string_lossy();
    let result = DescribeLogDirsResult {
        error_code: error.into(),
        log_dir: &log_dir,
        topics,
        total_bytes: space.map_or(-1, |(total, _)| bytes(total)),
        usable_bytes: space.map_or(-1, |(_, usable)| bytes(usable)),
    };
    call.respond(&DescribeLogDirsResponse { results: vec![result], ..Default::default() })
}

/// Before version 3 there is no place for the error, and the answer has no directory.
fn refused(call: &Call, code: ErrorCode) -> DescribeLogDirsResponse<'static> {
    let code = if call.version < 3 { ErrorCode::None } else { code };
    DescribeLogDirsResponse { error_code: code.into(), ..Default::default() }
}
