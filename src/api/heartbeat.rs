//! Heartbeat (key 12): keeps a member of a classic group alive.

use super::groups::{allowed, ask, name, named};
use super::{Answer, Call, Close};
use crate::group::ask::{Ask, Heartbeat};
use crate::wire::apis::AclOperation;
use crate::wire::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: HeartbeatRequest<'_> = call.request()?;
    let heartbeat = Heartbeat {
        member_id: name(request.member_id),
        instance_id: request.group_instance_id.map(name),
        generation: request.generation_id,
    };
    let checked = allowed(call, AclOperation::Read, request.group_id);
    let answered = match checked.and_then(|()| named(request.group_id)) {
        Ok(group) => ask(call, group, |reply| Ask::Heartbeat(heartbeat, reply)).await,
        Err(error) => Err(error),
    };
    let error_code = answered.unwrap_or_else(|error| error).number();
    call.respond(&HeartbeatResponse { error_code, ..Default::default() })
}
