//! ConsumerGroupHeartbeat (key 68): joins, keeps and leaves a group of the consumer protocol.
//! KIP-848, KIP-1082.

use super::groups::{ask, fresh_uuid, name};
use super::{Answer, Call, Close};
use crate::group::ask::{Ask, ConsumerHeartbeat, Refusal};
use crate::wire::ErrorCode;
use crate::wire::messages::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
};

/// The answer comes when what it says is durable.
pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: ConsumerGroupHeartbeatRequest<'_> = call.request()?;
    match beat(call, &request).await {
        Ok(answer) => call.respond(&answer.response()),
        Err(Refusal { code, message }) => call.respond(&ConsumerGroupHeartbeatResponse {
            error_code: code.number(),
            error_message: (!message.is_empty()).then_some(&*message),
            ..Default::default()
        }),
    }
}

async fn beat(
    call: &Call,
    request: &ConsumerGroupHeartbeatRequest<'_>,
) -> Result<crate::group::consumer::HeartbeatAnswer, Refusal> {
    if request.group_id.trim().is_empty() {
        let message = "group id must not be empty".to_owned();
        return Err(Refusal { code: ErrorCode::InvalidRequest, message });
    }
    let beat = ConsumerHeartbeat {
        body: call.body(),
        version: call.version,
        client_id: name(call.client_id()),
        client_host: name(&call.client_host()),
        fresh_member_id: fresh_uuid()?,
    };
    ask(call, request.group_id, |reply| Ask::ConsumerHeartbeat(beat, reply)).await?
}
