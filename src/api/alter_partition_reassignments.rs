//! AlterPartitionReassignments (key 45): moves replicas between brokers, or stops that. KIP-455.

use super::rights::REFUSED;
use super::{Answer, Call, Close, error_codes};
use crate::authorizer::Resource;
use crate::cluster::image::MetadataImage;
use crate::cluster::plan::check_replicas;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ReassignablePartition,
    ReassignablePartitionResponse, ReassignableTopicResponse,
};

/// A partition can be moved to where it is already, to the only broker; nothing ever is on its way.
pub fn handle(call: &Call) -> Result<Answer, Close> {
    let request: AlterPartitionReassignmentsRequest<'_> = call.request()?;
    let image = call.image();
    let may = call.allowed(&image, AclOperation::Alter, Resource::Cluster);
    let outcomes: Vec<Vec<(ErrorCode, Option<String>)>> = request
        .topics
        .iter()
        .map(|topic| {
            let outcome = |asked| match may {
                Ok(()) => outcome(&image, topic.name, asked),
                Err(code) => (code, Some(REFUSED.to_owned())),
            };
            topic.partitions.iter().map(outcome).collect()
        })
        .collect();
    let topics = request.topics.iter().zip(&outcomes).map(|(topic, outcomes)| {
        let partitions = topic.partitions.iter().zip(outcomes);
        ReassignableTopicResponse {
            name: topic.name,
            partitions: partitions
                .map(|(asked, (code, message))| ReassignablePartitionResponse {
                    partition_index: asked.partition_index,
                    error_code: code.number(),
                    error_message: message.as_deref(),
                })
                .collect(),
        }
    });
    call.respond(&AlterPartitionReassignmentsResponse {
        allow_replication_factor_change: request.allow_replication_factor_change,
        error_code: may.err().map_or(0, ErrorCode::number),
        error_message: may.is_err().then_some(REFUSED),
        responses: topics.collect(),
        ..Default::default()
    })
}

fn outcome(
    image: &MetadataImage,
    name: &str,
    asked: &ReassignablePartition,
) -> (ErrorCode, Option<String>) {
    let index = asked.partition_index;
    let unknown = |message| (ErrorCode::UnknownTopicOrPartition, Some(message));
    let Some(topic) = image.topic_by_name(name) else {
        return unknown(format!("Unable to find a topic named {name}."));
    };
    if topic.partition(index).is_none() {
        return unknown(format!("Unable to find partition {name}:{index}."));
    }
    let Some(replicas) = &asked.replicas else {
        return (ErrorCode::NoReassignmentInProgress, None);
    };
    match check_replicas(image, replicas) {
        Ok(()) => (ErrorCode::None, None),
        Err(refused) => (error_codes::of_refused(&refused), Some(refused.to_string())),
    }
}
