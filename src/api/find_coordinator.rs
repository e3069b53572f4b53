//! FindCoordinator (key 10): refused with a reason, since there are no groups or transactions yet.
//!
//! It is offered all the same, because librdkafka (all versions up to 2.16) takes its presence as
//! the sign that a broker knows LZ4: without it, producers that ask for LZ4 send uncompressed
//! batches and say nothing. Groups stay off for it, as JoinGroup and its kin are not offered.

use super::{Answer, Call, Close};
use crate::wire::ErrorCode;
use crate::wire::messages::find_coordinator::{
    Coordinator, FindCoordinatorRequest, FindCoordinatorResponse,
};

/// Version from which one request asks for many keys (KIP-699).
const MANY_KEYS_SINCE: i16 = 4;
const REASON: &str = "consumer groups, transactions and share groups are not served by this broker; \
                      consume by assigned partitions";

/// From version 4 on, the answer is UNSUPPORTED_VERSION, which clients hand to the application at
/// once. Before, it is COORDINATOR_NOT_AVAILABLE: librdkafka asks as soon as a group id is set, and
/// its bindings demand one of consumers by assignment too. To them no coordinator matters; the
/// other code would reach them as an error of their consumption.
pub fn handle(call: &Call) -> Result<Answer, Close> {
    let request: FindCoordinatorRequest<'_> = call.request()?;
    let response = if call.version >= MANY_KEYS_SINCE {
        let coordinators = request.coordinator_keys.iter().map(|key| refused(key)).collect();
        FindCoordinatorResponse { coordinators, ..Default::default() }
    } else {
        FindCoordinatorResponse {
            error_code: ErrorCode::CoordinatorNotAvailable.number(),
            error_message: Some(REASON),
            node_id: -1,
            port: -1,
            ..Default::default()
        }
    };
    call.respond(&response)
}

fn refused(key: &str) -> Coordinator<'_> {
    Coordinator {
        key,
        node_id: -1,
        host: "",
        port: -1,
        error_code: ErrorCode::UnsupportedVersion.number(),
        error_message: Some(REASON),
    }
}
