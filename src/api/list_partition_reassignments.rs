//! ListPartitionReassignments (key 46): what moves between brokers. KIP-455.

use super::rights::REFUSED;
use super::{Answer, Call, Close};
use crate::authorizer::Resource;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::list_partition_reassignments::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};

/// Nothing ever moves on a single node, so the list is empty, which is the truth.
pub fn handle(call: &Call) -> Result<Answer, Close> {
    let _: ListPartitionReassignmentsRequest<'_> = call.request()?;
    let refused = call.allowed(&call.image(), AclOperation::Describe, Resource::Cluster).err();
    call.respond(&ListPartitionReassignmentsResponse {
        error_code: refused.map_or(0, ErrorCode::number),
        error_message: refused.map(|_| REFUSED),
        ..Default::default()
    })
}
