//! What the handlers of transaction APIs share.

use super::groups::make_internal_topic;
use super::{Call, error_codes};
use crate::cluster::change::Refused;
use crate::cluster::image::MetadataImage;
use crate::coordinator::limits::MESSAGE_BYTES_MAX;
use crate::txn::ask::Ask;
use crate::txn::placement::TRANSACTIONS_TOPIC;
use crate::txn::transaction::{Identity, Refusal};
use crate::wire::ErrorCode;
use millstream_io::runtime::Promise;
use millstream_io::units::{ProducerEpoch, ProducerId};
use millstream_io::{log_limited, runtime::log};
use std::time::Duration;

/// Asks what is answered with an identity; with an unused producer id at hand when the coordinator
/// says that it needs one.
pub async fn ask_for_identity(
    call: &Call,
    transactional_id: &str,
    ask: impl Fn(Option<ProducerId>, Promise<Result<Identity, Refusal>>) -> Ask,
) -> Result<Identity, ErrorCode> {
    let mut fresh = None;
    loop {
        let answer =
            call.core.transactions.ask(transactional_id, |reply| ask(fresh, reply)).await?;
        match answer {
            Ok(identity) => return Ok(identity),
            Err(Refusal::Code(code)) => return Err(code),
            Err(Refusal::NeedsProducerId) => fresh = Some(fresh_id(call).await?),
        }
    }
}

/// How long an addition of partitions waits for the transaction before.
pub fn patience(image: &MetadataImage) -> Duration {
    Duration::from_millis(image.broker.transactions.add_retry_ms_max)
}

/// The identity that a request names.
///
/// # Errors
/// INVALID_PRODUCER_ID_MAPPING for numbers that no producer has.
pub fn identity(producer: i64, epoch: i16) -> Result<Identity, ErrorCode> {
    match (ProducerId::new(producer), ProducerEpoch::new(epoch)) {
        (Some(producer), Some(epoch)) => Ok(Identity { producer, epoch }),
        (Some(_), None) => Err(ErrorCode::ProducerFenced),
        (None, _) => Err(ErrorCode::InvalidProducerIdMapping),
    }
}

/// Clients of versions before `known_since` do not know PRODUCER_FENCED.
pub fn fenced_as(code: ErrorCode, version: i16, known_since: i16) -> ErrorCode {
    match code {
        ErrorCode::ProducerFenced if version < known_since => ErrorCode::InvalidProducerEpoch,
        code => code,
    }
}

/// A producer id that nobody has.
///
/// # Errors
/// Such as clients retry, where a moment can heal it.
pub async fn fresh_id(call: &Call) -> Result<ProducerId, ErrorCode> {
    loop {
        let id = call.core.producer_ids.borrow_mut().take();
        if let Some(id) = id {
            return Ok(id);
        }
        let block = call.core.controller.producer_ids().await.map_err(|refused| code(&refused))?;
        call.core.producer_ids.borrow_mut().add(block);
    }
}

fn code(refused: &Refused) -> ErrorCode {
    log_limited!(
        log::warn("producer ids", "no producer id could be given out").field("reason", refused)
    );
    match (refused, error_codes::of_refused(refused)) {
        (Refused::Busy | Refused::Stopping, _) => ErrorCode::CoordinatorLoadInProgress,
        (_, ErrorCode::KafkaStorageError) => ErrorCode::CoordinatorNotAvailable,
        (_, code) => code,
    }
}

/// Makes the internal topic of transactions when it is not there yet.
///
/// # Errors
/// COORDINATOR_NOT_AVAILABLE, upon which clients come again.
pub async fn make_transactions_topic(call: &Call) -> Result<(), ErrorCode> {
    let image = call.image();
    let config = &image.broker.transactions;
    let (partitions, segment) = (config.partitions, config.segment_bytes.to_string());
    make_internal_topic(call, TRANSACTIONS_TOPIC, partitions, &segment, MESSAGE_BYTES_MAX).await
}
