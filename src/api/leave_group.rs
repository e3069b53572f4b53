//! LeaveGroup (key 13): takes members out of a classic group. KIP-345.

use super::groups::{allowed, ask, name, named};
use super::{Answer, Call, Close};
use crate::group::ask::Ask;
use crate::group::classic::{self, LeaveAnswer, Leaving, Left};
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::leave_group::{LeaveGroupRequest, LeaveGroupResponse, MemberResponse};

/// Version from which many members may leave at once.
const MANY_SINCE: i16 = 3;

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: LeaveGroupRequest<'_> = call.request()?;
    let leaving = if call.version >= MANY_SINCE {
        let members = request.members.iter();
        let one = |member: &crate::wire::messages::leave_group::MemberIdentity<'_>| Leaving {
            member_id: name(member.member_id),
            instance_id: member.group_instance_id.map(name),
        };
        members.map(one).collect()
    } else {
        vec![Leaving { member_id: name(request.member_id), instance_id: None }]
    };
    let checked = allowed(call, AclOperation::Read, request.group_id);
    let answered = match checked.and_then(|()| named(request.group_id)) {
        Ok(group) => ask(call, group, |waiter| Ask::Leave(leaving, waiter)).await,
        Err(error) => Err(error),
    };
    let answer = match answered {
        Ok(classic::Answer::Leave(answer)) => answer,
        Ok(other) => panic!("a leave of {:?} is answered by {other:?}", request.group_id),
        Err(error) => LeaveAnswer::refused(error),
    };
    respond(call, &answer)
}

fn respond(call: &Call, answer: &LeaveAnswer) -> Result<Answer, Close> {
    if call.version < MANY_SINCE {
        let of_one = answer.members.first().map_or(ErrorCode::None, |left| left.error);
        let error = if answer.error == ErrorCode::None { of_one } else { answer.error };
        let error_code = error.number();
        return call.respond(&LeaveGroupResponse { error_code, ..Default::default() });
    }
    let members = answer.members.iter().map(member_response).collect();
    let error_code = answer.error.number();
    call.respond(&LeaveGroupResponse { error_code, members, ..Default::default() })
}

fn member_response(left: &Left) -> MemberResponse<'_> {
    MemberResponse {
        member_id: &left.member.member_id,
        group_instance_id: left.member.instance_id.as_deref(),
        error_code: left.error.number(),
    }
}
