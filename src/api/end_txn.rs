//! EndTxn (key 26): commits or aborts a transaction. KIP-98, KIP-890.
//!
//! The answer comes when the outcome is durable. Readers of committed records see it when the markers
//! are, which follow; until then the next transaction is told CONCURRENT_TRANSACTIONS.

use super::transactions::{ask_for_identity, fenced_as, identity};
use super::{Answer, Call, Close};
use crate::authorizer::Resource;
use crate::txn::ask::{Ask, End};
use crate::txn::transaction::{Identity, Outcome, Protocol};
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::end_txn::{EndTxnRequest, EndTxnResponse};

/// Version from which clients know PRODUCER_FENCED.
const FENCED_SINCE: i16 = 2;
/// Version from which the epoch is bumped, and the new one told.
const BUMPS_SINCE: i16 = 5;

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: EndTxnRequest<'_> = call.request()?;
    call.respond(&match end(call, &request).await {
        Ok(identity) => EndTxnResponse {
            producer_id: identity.producer.get(),
            producer_epoch: identity.epoch.get(),
            ..Default::default()
        },
        Err(code) => EndTxnResponse {
            error_code: fenced_as(code, call.version, FENCED_SINCE).into(),
            ..Default::default()
        },
    })
}

async fn end(call: &Call, request: &EndTxnRequest<'_>) -> Result<Identity, ErrorCode> {
    let id = Resource::TransactionalId(request.transactional_id);
    call.allowed(&call.image(), AclOperation::Write, id)?;
    if request.transactional_id.is_empty() {
        return Err(ErrorCode::InvalidRequest);
    }
    let by = identity(request.producer_id, request.producer_epoch)?;
    let outcome = if request.committed { Outcome::Commit } else { Outcome::Abort };
    let protocol = if call.version >= BUMPS_SINCE { Protocol::V2 } else { Protocol::V0 };
    let ask = |fresh, reply| Ask::End(End { by, outcome, protocol, fresh }, reply);
    ask_for_identity(call, request.transactional_id, ask).await
}
