//! InitProducerId (key 22): an id for an idempotent producer. KIP-98, KIP-360.

use super::{Answer, Call, Close, error_codes};
use crate::cluster::change::Refused;
use crate::wire::ErrorCode;
use crate::wire::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use millstream_io::units::ProducerId;
use millstream_io::{log_limited, runtime::log};

/// Gives a new id and epoch 0. An id that the client names is not taken up again: without a
/// transactional id there is nothing to know it by, and Apache Kafka gives a new one too.
///
/// A transactional id is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which clients take as
/// final: transactions are not served.
pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: InitProducerIdRequest<'_> = call.request()?;
    let one_without_other = (request.producer_id == -1) != (request.producer_epoch == -1);
    let result = match request.transactional_id {
        Some("") => Err(ErrorCode::InvalidRequest),
        _ if one_without_other => Err(ErrorCode::InvalidRequest),
        Some(_) => Err(ErrorCode::TransactionalIdAuthorizationFailed),
        None => next_id(call).await.map_err(|refused| code(call.version, &refused)),
    };
    call.respond(&match result {
        Ok(id) => InitProducerIdResponse { producer_id: id.get(), ..Default::default() },
        Err(code) => InitProducerIdResponse {
            error_code: code.into(),
            producer_epoch: -1,
            ..Default::default()
        },
    })
}

async fn next_id(call: &Call) -> Result<ProducerId, Refused> {
    loop {
        let id = call.core.producer_ids.borrow_mut().take();
        if let Some(id) = id {
            return Ok(id);
        }
        let block = call.core.controller.producer_ids().await?;
        call.core.producer_ids.borrow_mut().add(block);
    }
}

/// Clients retry what a moment can heal.
fn code(version: i16, refused: &Refused) -> ErrorCode {
    log_limited!(
        log::warn("producer ids", "no producer id could be given out").field("reason", refused)
    );
    match (refused, error_codes::of_refused(refused)) {
        (Refused::Busy | Refused::Stopping, _) => ErrorCode::CoordinatorLoadInProgress,
        (_, ErrorCode::KafkaStorageError) if version < 2 => ErrorCode::CoordinatorNotAvailable,
        (_, ErrorCode::KafkaStorageError) => ErrorCode::CoordinatorNotAvailable,
        (_, code) => code,
    }
}
