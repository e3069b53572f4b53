//! ConsumerGroupHeartbeat (key 68): joins, keeps and leaves a group of the consumer protocol.
//! KIP-848, KIP-1082.

use super::groups::{allowed, ask, fresh_uuid, name};
use super::{Answer, Call, Close};
use crate::authorizer::Resource;
use crate::group::ask::{Ask, ConsumerHeartbeat, Refusal};
use crate::group::topics::Searcher;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
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
    let image = call.image();
    allowed(call, AclOperation::Read, request.group_id)?;
    let may = |name: &&str| call.may(&image, AclOperation::Describe, Resource::Topic(name));
    if !request.subscribed_topic_names.iter().flatten().all(may) {
        return Err(ErrorCode::TopicAuthorizationFailed.into());
    }
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
        searcher: image.broker.authorizer.is_some().then(|| Searcher {
            principal: (*call.caller.principal()).clone(),
            host: call.caller.host.to_canonical(),
            image,
        }),
    };
    ask(call, request.group_id, |reply| Ask::ConsumerHeartbeat(beat, reply)).await?
}
