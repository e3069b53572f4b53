//! ElectLeaders (key 43): brings back preferred leaders, or any at all. KIP-460.

use super::rights::REFUSED;
use super::{Answer, Call, Close};
use crate::authorizer::Resource;
use crate::cluster::image::MetadataImage;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::elect_leaders::{
    ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult,
};

/// The first replica of each partition is to lead it.
const PREFERRED: i8 = 0;
/// Any replica is to lead the partitions that nobody leads.
const UNCLEAN: i8 = 1;

/// On a single node the only replica of a partition leads it, so no election is needed, which is
/// the answer for each partition that is named. Of all partitions (null) only those are listed that
/// were in need of one.
pub fn handle(call: &Call) -> Result<Answer, Close> {
    let request: ElectLeadersRequest<'_> = call.request()?;
    let image = call.image();
    let known = matches!(request.election_type, PREFERRED | UNCLEAN);
    let may = call.allowed(&image, AclOperation::Alter, Resource::Cluster);
    let error = if known { ErrorCode::None } else { ErrorCode::InvalidRequest };
    let error = may.err().unwrap_or(error);
    let Some(asked) = &request.topic_partitions else {
        if may.is_err() {
            return respond(call, error, Vec::new());
        }
        let topics = image.topics().map(|topic| ReplicaElectionResult {
            topic: &topic.name,
            partition_result: Vec::new(),
        });
        let replica_election_results = topics.collect();
        return call
            .respond(&ElectLeadersResponse { replica_election_results, ..Default::default() });
    };
    let outcomes: Vec<Vec<(i32, ErrorCode, String)>> = asked
        .iter()
        .map(|topic| {
            let outcome = |index: &i32| match known {
                _ if may.is_err() => (*index, error, REFUSED.to_owned()),
                true => outcome(&image, topic.topic, *index),
                false => {
                    let message = format!("Unknown election type {}", request.election_type);
                    (*index, error, message)
                }
            };
            topic.partitions.iter().map(outcome).collect()
        })
        .collect();
    let results = asked.iter().zip(&outcomes).map(|(asked, outcomes)| ReplicaElectionResult {
        topic: asked.topic,
        partition_result: outcomes
            .iter()
            .map(|(partition_id, code, message)| PartitionResult {
                partition_id: *partition_id,
                error_code: code.number(),
                error_message: Some(message),
            })
            .collect(),
    });
    respond(call, error, results.collect())
}

fn respond(
    call: &Call,
    error: ErrorCode,
    replica_election_results: Vec<ReplicaElectionResult<'_>>,
) -> Result<Answer, Close> {
    let error_code = error.number();
    call.respond(&ElectLeadersResponse {
        error_code,
        replica_election_results,
        ..Default::default()
    })
}

fn outcome(image: &MetadataImage, name: &str, index: i32) -> (i32, ErrorCode, String) {
    let unknown = ErrorCode::UnknownTopicOrPartition;
    let (code, message) = match image.topic_by_name(name) {
        None => (unknown, format!("No such topic as {name}")),
        Some(topic) if topic.partition(index).is_none() => {
            (unknown, format!("No such partition as {name}-{index}"))
        }
        Some(_) => {
            let message = "Leader election not needed for topic partition.";
            (ErrorCode::ElectionNotNeeded, message.to_owned())
        }
    };
    (index, code, message)
}
