//! InitProducerId (key 22): an id for an idempotent producer, or the say over a transactional id.
//! KIP-98, KIP-360.

use super::transactions::{ask_for_identity, fenced_as, fresh_id};
use super::{Answer, Call, Close};
use crate::authorizer::{Resource, ResourceKind};
use crate::txn::ask::{Ask, Init};
use crate::txn::transaction::Identity;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use millstream_io::units::{ProducerEpoch, ProducerId};

/// Version from which clients know PRODUCER_FENCED.
const FENCED_SINCE: i16 = 4;

/// Without a transactional id it gives a new id and epoch 0. An id that the client names is not taken
/// up again then: there is nothing to know it by, and Apache Kafka gives a new one too.
pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: InitProducerIdRequest<'_> = call.request()?;
    let one_without_other = (request.producer_id == -1) != (request.producer_epoch == -1);
    let result = match request.transactional_id {
        id if !may(call, id) => match id {
            Some(_) => Err(ErrorCode::TransactionalIdAuthorizationFailed),
            None => Err(ErrorCode::ClusterAuthorizationFailed),
        },
        _ if one_without_other => Err(ErrorCode::InvalidRequest),
        Some("") => Err(ErrorCode::InvalidRequest),
        Some(transactional_id) => take_over(call, transactional_id, &request).await,
        None => {
            fresh_id(call).await.map(|producer| Identity { producer, epoch: ProducerEpoch::ZERO })
        }
    };
    call.respond(&match result {
        Ok(identity) => InitProducerIdResponse {
            producer_id: identity.producer.get(),
            producer_epoch: identity.epoch.get(),
            ..Default::default()
        },
        Err(code) => InitProducerIdResponse {
            error_code: fenced_as(code, call.version, FENCED_SINCE).into(),
            producer_epoch: -1,
            ..Default::default()
        },
    })
}

/// An idempotent producer may write somewhere, whatever it is (KIP-679), or has the older right.
fn may(call: &Call, transactional_id: Option<&str>) -> bool {
    let image = call.image();
    match transactional_id {
        Some(id) => call.may(&image, AclOperation::Write, Resource::TransactionalId(id)),
        None => {
            call.may_see(&image, AclOperation::IdempotentWrite, Resource::Cluster)
                || call.may_with_any(&image, AclOperation::Write, ResourceKind::Topic)
        }
    }
}

async fn take_over(
    call: &Call,
    transactional_id: &str,
    request: &InitProducerIdRequest<'_>,
) -> Result<Identity, ErrorCode> {
    let timeout_ms = request.transaction_timeout_ms;
    let named = (request.producer_id, request.producer_epoch);
    let expected = match (ProducerId::new(named.0), ProducerEpoch::new(named.1)) {
        (Some(producer), Some(epoch)) => Some(Identity { producer, epoch }),
        _ if named == (-1, -1) => None,
        // Nobody was ever called so.
        _ => return Err(ErrorCode::ProducerFenced),
    };
    let ask = |fresh, reply| Ask::Init(Init { expected, timeout_ms, fresh }, reply);
    ask_for_identity(call, transactional_id, ask).await
}
