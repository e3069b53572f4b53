//! FindCoordinator (key 10): which broker coordinates a group. KIP-699.
//!
//! The internal topic of groups is made on the way, with the first group that is looked for, and so is
//! that of transactions. Share groups have no coordinator here, and are refused with a reason.

use super::{Answer, Call, Close, groups, transactions};
use crate::authorizer::Resource;
use crate::cluster::image::MetadataImage;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::find_coordinator::{
    Coordinator, FindCoordinatorRequest, FindCoordinatorResponse,
};

/// Version from which one request asks for many keys (KIP-699).
const MANY_KEYS_SINCE: i16 = 4;
/// `key_type` of a group, of a transactional id, and of a partition of a share group.
const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;
const REASON: &str = "share groups are not served by this broker";

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: FindCoordinatorRequest<'_> = call.request()?;
    let image = call.image();
    let may = |key: &str| may_ask(call, &image, request.key_type, key);
    let asked = match call.version {
        MANY_KEYS_SINCE.. => &request.coordinator_keys[..],
        _ => std::slice::from_ref(&request.key),
    };
    let allowed: Vec<Result<(), ErrorCode>> = asked.iter().map(|key| may(key)).collect();
    // What makes an internal topic is the first question that is allowed.
    let found = match allowed.iter().any(Result::is_ok) || asked.is_empty() {
        true => find(call, request.key_type).await,
        false => Ok(()),
    };
    let image = call.image();
    let us = image.start.brokers.iter().find(|broker| broker.id == image.node_id());
    let answer = |key, allowed: Result<(), ErrorCode>| match (allowed.and(found), us) {
        (Ok(()), Some(broker)) => {
            let endpoint = call.endpoint(broker);
            Coordinator {
                key,
                node_id: broker.id.get(),
                host: &endpoint.host,
                port: i32::from(endpoint.port),
                error_code: ErrorCode::None.number(),
                error_message: None,
            }
        }
        (found, _) => {
            let code = found.err().unwrap_or(ErrorCode::CoordinatorNotAvailable);
            let reason = (request.key_type == SHARE).then_some(REASON);
            let error_code = code.number();
            Coordinator { key, node_id: -1, host: "", port: -1, error_code, error_message: reason }
        }
    };
    let response = if call.version >= MANY_KEYS_SINCE {
        let answered = request.coordinator_keys.iter().zip(&allowed);
        let coordinators = answered.map(|(key, allowed)| answer(*key, *allowed)).collect();
        FindCoordinatorResponse { coordinators, ..Default::default() }
    } else {
        let one = answer(request.key, allowed.first().copied().unwrap_or(Ok(())));
        FindCoordinatorResponse {
            error_code: one.error_code,
            error_message: one.error_message,
            node_id: one.node_id,
            host: one.host,
            port: one.port,
            ..Default::default()
        }
    };
    call.respond(&response)
}

/// Whether the caller may look for the coordinator of `key`.
fn may_ask(call: &Call, image: &MetadataImage, key_type: i8, key: &str) -> Result<(), ErrorCode> {
    let resource = match key_type {
        GROUP => Resource::Group(key),
        TRANSACTION => Resource::TransactionalId(key),
        _ => return Ok(()),
    };
    call.allowed(image, AclOperation::Describe, resource)
}

/// Before version 4 the refusal is COORDINATOR_NOT_AVAILABLE, from then on UNSUPPORTED_VERSION,
/// which clients hand to the application at once.
async fn find(call: &Call, key_type: i8) -> Result<(), ErrorCode> {
    match key_type {
        GROUP => groups::make_offsets_topic(call).await,
        TRANSACTION => transactions::make_transactions_topic(call).await,
        SHARE if call.version < MANY_KEYS_SINCE => Err(ErrorCode::CoordinatorNotAvailable),
        SHARE => Err(ErrorCode::UnsupportedVersion),
        _ => Err(ErrorCode::InvalidRequest),
    }
}
