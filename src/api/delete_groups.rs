//! DeleteGroups (key 42): ends groups without members, with their offsets.

use super::groups::{allowed, ask};
use super::topics::firsts;
use super::{Answer, Call, Close};
use crate::group::ask::Ask;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::delete_groups::{
    DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse,
};

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: DeleteGroupsRequest<'_> = call.request()?;
    let mut results = Vec::with_capacity(request.groups_names.len());
    let first = firsts(request.groups_names.iter());
    for (group, _) in request.groups_names.iter().zip(first).filter(|(_, first)| *first) {
        let checked = allowed(call, AclOperation::Delete, group);
        let deleted = match (checked, call.core.groups.partition(group)) {
            (Err(error), _) => error,
            (Ok(()), Some(_)) => ask(call, group, Ask::Delete).await.unwrap_or_else(|error| error),
            (Ok(()), None) => ErrorCode::GroupIdNotFound,
        };
        results.push(DeletableGroupResult { group_id: group, error_code: deleted.number() });
    }
    call.respond(&DeleteGroupsResponse { results, ..Default::default() })
}
