//! WriteTxnMarkers (key 27): ends transactions in single partitions. KIP-98, KIP-664, KIP-1228.
//!
//! Between brokers it is a coordinator's word. Here the coordinators need no request for that, so it is
//! an administrator's, who ends what hangs (`kafka-transactions.sh abort`).

use super::topics::{by_name, partition};
use super::{Answer, Call, Close, error_codes};
use crate::authorizer::Resource;
use crate::group::ask::{EndError, Ending};
use crate::group::placement::OFFSETS_TOPIC;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::write_txn_markers::{
    WritableTxnMarker, WritableTxnMarkerPartitionResult, WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult, WriteTxnMarkersRequest, WriteTxnMarkersResponse,
};
use millstream_io::clock::Clock;
use millstream_io::units::{ProducerEpoch, ProducerId, TopicPartition};
use millstream_shards::message::{AppendError, Marker, Outcome};

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: WriteTxnMarkersRequest<'_> = call.request()?;
    let mut markers = Vec::with_capacity(request.markers.len());
    for marker in &request.markers {
        let mut codes = write(call, marker).await.into_iter();
        let one = |index: &i32, code: Option<ErrorCode>| WritableTxnMarkerPartitionResult {
            partition_index: *index,
            error_code: code.unwrap_or(ErrorCode::UnknownServerError).into(),
        };
        let mut topics = Vec::with_capacity(marker.topics.len());
        for topic in &marker.topics {
            let indexes = topic.partition_indexes.iter();
            let partitions = indexes.map(|index| one(index, codes.next())).collect();
            topics.push(WritableTxnMarkerTopicResult { name: topic.name, partitions });
        }
        markers.push(WritableTxnMarkerResult { producer_id: marker.producer_id, topics });
    }
    call.respond(&WriteTxnMarkersResponse { markers })
}

/// Writes one marker into all its partitions; one answer for each, in the order of the request.
async fn write(call: &Call, marker: &WritableTxnMarker<'_>) -> Vec<ErrorCode> {
    let image = call.image();
    let may_alter = call.may_see(&image, AclOperation::Alter, Resource::Cluster);
    if !may_alter && !call.may(&image, AclOperation::ClusterAction, Resource::Cluster) {
        let count = marker.topics.iter().map(|topic| topic.partition_indexes.len()).sum();
        return vec![ErrorCode::ClusterAuthorizationFailed; count];
    }
    let asked: Vec<(bool, Result<TopicPartition, ErrorCode>)> = marker
        .topics
        .iter()
        .flat_map(|topic| {
            let found = by_name(&image, topic.name);
            let is_of_groups = topic.name == OFFSETS_TOPIC;
            let indexes = topic.partition_indexes.iter();
            indexes.map(move |index| (is_of_groups, partition(found, *index)))
        })
        .collect();
    let (Some(producer), Some(epoch)) =
        (ProducerId::new(marker.producer_id), ProducerEpoch::new(marker.producer_epoch))
    else {
        return vec![ErrorCode::InvalidRequest; asked.len()];
    };
    let outcome = if marker.transaction_result { Outcome::Commit } else { Outcome::Abort };
    let transaction_version = u8::try_from(marker.transaction_version).unwrap_or(0);
    let coordinator_epoch = marker.coordinator_epoch;
    let ending = Ending { producer, epoch, outcome, coordinator_epoch, transaction_version };
    let now = call.core.clock.wall();
    let of =
        |at| Marker { at, producer, epoch, outcome, coordinator_epoch, transaction_version, now };
    let in_logs = asked.iter().filter(|(is_of_groups, _)| !is_of_groups);
    let in_logs = in_logs.filter_map(|(_, at)| at.ok().map(of)).collect();
    let mut written = call.core.router.write_markers(in_logs).await.into_iter();
    let mut codes = Vec::with_capacity(asked.len());
    for (is_of_groups, at) in asked {
        codes.push(match at {
            Err(code) => code,
            Ok(at) if is_of_groups => match call.core.groups.end_transaction(at, ending).await {
                Ok(()) => ErrorCode::None,
                Err(EndError::NotReady) => ErrorCode::NotLeaderOrFollower,
                Err(EndError::Refused(error)) => code(&error),
            },
            Ok(_) => match written.next() {
                Some(Ok(_)) => ErrorCode::None,
                Some(Err(error)) => code(&error),
                None => ErrorCode::UnknownServerError,
            },
        });
    }
    codes
}

fn code(error: &AppendError) -> ErrorCode {
    /// Of a Produce that knows all codes.
    const NEWEST: i16 = i16::MAX;
    error_codes::of_append(error, NEWEST)
}
