//! FindCoordinator (key 10): which broker coordinates a group. KIP-699.
//!
//! The internal topic of groups is made on the way, with the first group that is looked for, and so is
//! that of transactions. Share groups have no coordinator here, and are refused with a reason.

use super::{Answer, Call, Close, groups, transactions};
use crate::wire::ErrorCode;
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
    let found = find(call, request.key_type).await;
    let image = call.image();
    let us = image.start.brokers.iter().find(|broker| broker.id == image.node_id());
    let answer = |key| match (found, us) {
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
        let coordinators = request.coordinator_keys.iter().map(|key| answer(*key)).collect();
        FindCoordinatorResponse { coordinators, ..Default::default() }
    } else {
        let one = answer(request.key);
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
