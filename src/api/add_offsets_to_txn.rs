//! AddOffsetsToTxn (key 25): adds the partition that keeps a group's offsets to a transaction. KIP-98.

use super::groups::{allowed, make_offsets_topic};
use super::transactions::{fenced_as, identity, patience};
use super::{Answer, Call, Close};
use crate::authorizer::Resource;
use crate::group::placement::{OFFSETS_TOPIC, partition_of};
use crate::txn::ask::Add;
use crate::txn::transaction::Protocol;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::add_offsets_to_txn::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};
use std::num::NonZeroU32;

/// Version from which clients know PRODUCER_FENCED.
const FENCED_SINCE: i16 = 2;

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: AddOffsetsToTxnRequest<'_> = call.request()?;
    let code = add(call, &request).await.unwrap_or_else(|code| code);
    let error_code = fenced_as(code, call.version, FENCED_SINCE).into();
    call.respond(&AddOffsetsToTxnResponse { error_code, ..Default::default() })
}

async fn add(call: &Call, request: &AddOffsetsToTxnRequest<'_>) -> Result<ErrorCode, ErrorCode> {
    let id = Resource::TransactionalId(request.transactional_id);
    call.allowed(&call.image(), AclOperation::Write, id)?;
    allowed(call, AclOperation::Read, request.group_id)?;
    if request.transactional_id.is_empty() {
        return Err(ErrorCode::InvalidRequest);
    }
    make_offsets_topic(call).await?;
    let count = call.image().topic_by_name(OFFSETS_TOPIC).map_or(0, |topic| topic.partitions);
    let count = NonZeroU32::new(count).ok_or(ErrorCode::CoordinatorNotAvailable)?;
    let partitions = vec![(OFFSETS_TOPIC.into(), partition_of(request.group_id, count))];
    let by = identity(request.producer_id, request.producer_epoch)?;
    let add = Add { by, partitions, protocol: Protocol::V0 };
    let patience = patience(&call.image());
    call.core.transactions.add(request.transactional_id, add, patience).await
}
