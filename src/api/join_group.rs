//! JoinGroup (key 11): becomes a member of a classic group. KIP-62, KIP-345, KIP-394, KIP-814.

use super::groups::{allowed, ask_patiently, fresh_uuid, name, named};
use super::{Answer, Call, Close};
use crate::group::ask::Ask;
use crate::group::classic::{
    self, JoinAnswer, JoinRequest, JoinRules, JoinedMember, Protocol, Settings,
};
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::join_group::{
    JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember,
};

/// The answer comes when all members have joined.
pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: JoinGroupRequest<'_> = call.request()?;
    let joined = match checked(call, &request) {
        Ok(join) => {
            let ask = |waiter| Ask::Join(join, waiter);
            match ask_patiently(call, request.group_id, ask).await {
                Some(Ok(classic::Answer::Join(answer))) => Ok(answer),
                Some(Ok(other)) => {
                    panic!("a join of {:?} is answered by {other:?}", request.group_id)
                }
                Some(Err(error)) => Err(error),
                None => return Ok(Answer::Nothing),
            }
        }
        Err(error) => Err(error),
    };
    let answer = joined.unwrap_or_else(|error| JoinAnswer::refused(error, name(request.member_id)));
    respond(call, &answer)
}

fn checked(call: &Call, request: &JoinGroupRequest<'_>) -> Result<JoinRequest, ErrorCode> {
    allowed(call, AclOperation::Read, request.group_id)?;
    named(request.group_id)?;
    let broker = &call.image().broker;
    let bounds = Settings {
        session_ms_min: broker.group_session_ms_min,
        session_ms_max: broker.group_session_ms_max,
        ..Settings::default()
    };
    bounds.check_session_timeout(request.session_timeout_ms)?;
    let protocol = |protocol: &crate::wire::messages::join_group::JoinGroupRequestProtocol<'_>| {
        Protocol { name: name(protocol.name), metadata: call.share(protocol.metadata) }
    };
    let rebalance = match call.version {
        0 => request.session_timeout_ms,
        _ => request.rebalance_timeout_ms,
    };
    Ok(JoinRequest {
        member_id: name(request.member_id),
        instance_id: request.group_instance_id.map(name),
        client_id: name(call.client_id()),
        client_host: name(&call.client_host()),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms: rebalance,
        protocol_type: name(request.protocol_type),
        protocols: request.protocols.iter().map(protocol).collect(),
        new_member_uuid: fresh_uuid()?,
        rules: JoinRules::of_version(call.version),
    })
}

fn respond(call: &Call, answer: &JoinAnswer) -> Result<Answer, Close> {
    // A missing name is "" to clients that know no null there.
    let protocol_name = match (answer.protocol.as_deref(), call.version) {
        (None, ..7) => Some(""),
        (protocol, _) => protocol,
    };
    call.respond(&JoinGroupResponse {
        error_code: answer.error.number(),
        generation_id: answer.generation,
        protocol_type: answer.protocol_type.as_deref(),
        protocol_name,
        leader: &answer.leader,
        skip_assignment: answer.skip_assignment,
        member_id: &answer.member_id,
        members: answer.members.iter().map(member_response).collect(),
        ..Default::default()
    })
}

fn member_response(member: &JoinedMember) -> JoinGroupResponseMember<'_> {
    JoinGroupResponseMember {
        member_id: &member.member_id,
        group_instance_id: member.instance_id.as_deref(),
        metadata: &member.metadata,
    }
}
