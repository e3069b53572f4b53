//! SyncGroup (key 14): hands in, or picks up, what each member is to read.

use super::groups::{allowed, ask_patiently, name, named};
use super::{Answer, Call, Close};
use crate::group::ask::Ask;
use crate::group::classic::{self, SyncAnswer, SyncRequest};
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};

/// The answer comes when the leader's assignment is durable.
pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: SyncGroupRequest<'_> = call.request()?;
    let synced = match checked(call, &request) {
        Ok(sync) => {
            let ask = |waiter| Ask::Sync(sync, waiter);
            match ask_patiently(call, request.group_id, ask).await {
                Some(Ok(classic::Answer::Sync(answer))) => Ok(answer),
                Some(Ok(other)) => {
                    panic!("a sync of {:?} is answered by {other:?}", request.group_id)
                }
                Some(Err(error)) => Err(error),
                None => return Ok(Answer::Nothing),
            }
        }
        Err(error) => Err(error),
    };
    let answer = synced.unwrap_or_else(SyncAnswer::refused);
    call.respond(&SyncGroupResponse {
        error_code: answer.error.number(),
        protocol_type: answer.protocol_type.as_deref(),
        protocol_name: answer.protocol.as_deref(),
        assignment: &answer.assignment,
        ..Default::default()
    })
}

fn checked(call: &Call, request: &SyncGroupRequest<'_>) -> Result<SyncRequest, ErrorCode> {
    allowed(call, AclOperation::Read, request.group_id)?;
    named(request.group_id)?;
    let names_protocol = request.protocol_type.is_some() && request.protocol_name.is_some();
    if call.version >= 5 && !names_protocol {
        return Err(ErrorCode::InconsistentGroupProtocol);
    }
    let assignments = request.assignments.iter();
    Ok(SyncRequest {
        member_id: name(request.member_id),
        instance_id: request.group_instance_id.map(name),
        generation: request.generation_id,
        protocol_type: request.protocol_type.map(name),
        protocol: request.protocol_name.map(name),
        assignments: assignments.map(|a| (name(a.member_id), call.share(a.assignment))).collect(),
    })
}
