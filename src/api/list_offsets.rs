//! ListOffsets (key 2): offsets by position or time. KIP-79, KIP-734, KIP-405, KIP-1005.

use super::topics::{current_epoch, firsts, named, partition};
use super::{Answer, Call, Close, error_codes};
use crate::cluster::plan::doubles;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};
use millstream_io::units::TimestampMs;
use millstream_shards::message::Isolation;
use millstream_shards::query::{OffsetFound, OffsetQuery, OffsetSpec};

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: ListOffsetsRequest<'_> = call.request()?;
    let image = call.image();
    let isolation = match request.isolation_level {
        1 => Isolation::ReadCommitted,
        _ => Isolation::ReadUncommitted,
    };
    let asked = || {
        let topics = request.topics.iter();
        topics.flat_map(|topic| topic.partitions.iter().map(|p| (topic.name, p.partition_index)))
    };
    let twice = doubles(asked());
    let mut is_first = firsts(asked()).into_iter();
    let mut queries = Vec::new();
    let mut planned = Vec::new();
    for topic in &request.topics {
        let found = named(call, &image, AclOperation::Describe, topic.name);
        for asked in &topic.partitions {
            let query = match twice.contains(&(topic.name, asked.partition_index)) {
                true => Err(ErrorCode::InvalidRequest),
                false => query(call, partition(found, asked.partition_index), asked, isolation),
            };
            planned.push(query.map(|query| queries.push(query)));
        }
    }
    let mut found = call.core.router.offset_for(queries).await.into_iter();
    let mut planned = planned.into_iter();
    let mut answers = planned.by_ref().map(|planned| {
        planned?;
        let found = found.next().ok_or(ErrorCode::UnknownServerError)?;
        found.map_err(|error| error_codes::of_query(&error))
    });
    let topics: Vec<ListOffsetsTopicResponse<'_>> = request
        .topics
        .iter()
        .map(|topic| ListOffsetsTopicResponse {
            name: topic.name,
            partitions: topic
                .partitions
                .iter()
                .zip(answers.by_ref())
                .zip(is_first.by_ref())
                .filter(|(_, is_first)| *is_first)
                .map(|((asked, answer), _)| described(call, asked.partition_index, answer))
                .collect(),
        })
        .collect();
    call.respond(&ListOffsetsResponse { topics, ..Default::default() })
}

fn query(
    call: &Call,
    at: Result<millstream_io::units::TopicPartition, ErrorCode>,
    asked: &ListOffsetsPartition,
    isolation: Isolation,
) -> Result<OffsetQuery, ErrorCode> {
    let spec = spec(asked.timestamp, call.version)?;
    let at = at?;
    // Only -1 says nothing here; Apache Kafka takes any other negative epoch for an old one.
    if asked.current_leader_epoch < -1 {
        return Err(ErrorCode::FencedLeaderEpoch);
    }
    Ok(OffsetQuery { at, current: current_epoch(asked.current_leader_epoch), isolation, spec })
}

/// The meaning of a timestamp, where the version has it.
fn spec(timestamp: i64, version: i16) -> Result<OffsetSpec, ErrorCode> {
    let (spec, since) = match timestamp {
        -1 => (OffsetSpec::Latest, 1),
        -2 => (OffsetSpec::Earliest, 1),
        -3 => (OffsetSpec::MaxTimestamp, 7),
        -4 => (OffsetSpec::EarliestLocal, 8),
        -5 => (OffsetSpec::LatestTiered, 9),
        0.. => (OffsetSpec::Timestamp(TimestampMs::new(timestamp)), 1),
        _ => return Err(ErrorCode::UnsupportedVersion),
    };
    if version < since { Err(ErrorCode::UnsupportedVersion) } else { Ok(spec) }
}

fn described(
    call: &Call,
    partition_index: i32,
    answer: Result<OffsetFound, ErrorCode>,
) -> ListOffsetsPartitionResponse {
    let found = match answer {
        Ok(found) => found,
        Err(code) => {
            let error_code = code.into();
            return ListOffsetsPartitionResponse {
                partition_index,
                error_code,
                ..Default::default()
            };
        }
    };
    let mut response = ListOffsetsPartitionResponse {
        partition_index,
        timestamp: found.timestamp.map_or(-1, TimestampMs::get),
        offset: found.offset.map_or(-1, |offset| offset.get()),
        ..Default::default()
    };
    if call.version >= 4 {
        response.leader_epoch = found.epoch.map_or(-1, |epoch| epoch.get());
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_special_timestamp_begins_with_its_version() {
        for (timestamp, since) in [(-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9)] {
            assert!(spec(timestamp, since).is_ok());
            let before = spec(timestamp, since - 1);
            assert_eq!(before.is_err(), since > 1 || before.is_err());
            if since > 1 {
                assert_eq!(before.unwrap_err(), ErrorCode::UnsupportedVersion, "{timestamp}");
            }
        }
        for unknown in [-6, -99, i64::MIN] {
            assert_eq!(spec(unknown, 10).unwrap_err(), ErrorCode::UnsupportedVersion);
        }
        assert_eq!(spec(0, 1), Ok(OffsetSpec::Timestamp(TimestampMs::ZERO)));
    }
}
