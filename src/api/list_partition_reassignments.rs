//! ListPartitionReassignments (key 46): what moves between brokers. KIP-455.

use super::{Answer, Call, Close};
use crate::wire::messages::list_partition_reassignments::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};

/// Nothing ever moves on a single node, so the list is empty, which is the truth.
pub fn handle(call: &Call) -> Result<Answer, Close> {
    let _: ListPartitionReassignmentsRequest<'_> = call.request()?;
    let response = ListPartitionReassignmentsResponse { error_message: None, ..Default::default() };
    call.respond(&response)
}
