//! AddPartitionsToTxn (key 24): adds partitions to a transaction, or tells whether they belong to it.
//! KIP-98, KIP-890.
//!
//! Up to version 3 a client speaks of its own transaction. From version 4 on brokers speak of those of
//! their clients, many at a time.

use super::topics::{by_name, is_internal, named, partition};
use super::transactions::{fenced_as, identity, patience};
use super::{Answer, Call, Close};
use crate::authorizer::Resource;
use crate::cluster::image::{MetadataImage, Topic};
use crate::txn::ask::{Add, Ask};
use crate::txn::transaction::{Identity, Participant, Protocol};
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::add_partitions_to_txn::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult, AddPartitionsToTxnTopic, AddPartitionsToTxnTopicResult,
};
use std::sync::Arc;

/// Version from which clients know PRODUCER_FENCED.
const FENCED_SINCE: i16 = 2;
/// Version from which it is brokers who ask.
const BROKERS_SINCE: i16 = 4;

/// What one transaction is asked for.
struct Wanted<'r, 'a> {
    transactional_id: &'a str,
    producer: (i64, i16),
    verify_only: bool,
    topics: &'r [AddPartitionsToTxnTopic<'a>],
}

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: AddPartitionsToTxnRequest<'_> = call.request()?;
    if call.version < BROKERS_SINCE {
        let wanted = Wanted {
            transactional_id: request.v3_and_below_transactional_id,
            producer: (request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
            verify_only: false,
            topics: &request.v3_and_below_topics,
        };
        let results_by_topic_v3_and_below = results(call, &wanted).await;
        return call.respond(&AddPartitionsToTxnResponse {
            results_by_topic_v3_and_below,
            ..Default::default()
        });
    }
    let by_broker = AclOperation::ClusterAction;
    if let Err(code) = call.allowed(&call.image(), by_broker, Resource::Cluster) {
        let error_code = code.into();
        return call.respond(&AddPartitionsToTxnResponse { error_code, ..Default::default() });
    }
    let mut results_by_transaction = Vec::with_capacity(request.transactions.len());
    for transaction in &request.transactions {
        let wanted = Wanted {
            transactional_id: transaction.transactional_id,
            producer: (transaction.producer_id, transaction.producer_epoch),
            verify_only: transaction.verify_only,
            topics: &transaction.topics,
        };
        results_by_transaction.push(AddPartitionsToTxnResult {
            transactional_id: transaction.transactional_id,
            topic_results: results(call, &wanted).await,
        });
    }
    call.respond(&AddPartitionsToTxnResponse { results_by_transaction, ..Default::default() })
}

async fn results<'a>(
    call: &Call,
    wanted: &Wanted<'_, 'a>,
) -> Vec<AddPartitionsToTxnTopicResult<'a>> {
    let mut codes = codes(call, wanted).await.into_iter();
    let one = |index: &i32, code: Option<ErrorCode>| AddPartitionsToTxnPartitionResult {
        partition_index: *index,
        partition_error_code: code.unwrap_or(ErrorCode::UnknownServerError).into(),
    };
    let topic = |topic: &AddPartitionsToTxnTopic<'a>| AddPartitionsToTxnTopicResult {
        name: topic.name,
        results_by_partition: topic
            .partitions
            .iter()
            .map(|index| one(index, codes.next()))
            .collect(),
    };
    wanted.topics.iter().map(topic).collect()
}

/// One for each partition, in the order of the request. One partition that cannot be added keeps all
/// others out.
async fn codes(call: &Call, wanted: &Wanted<'_, '_>) -> Vec<ErrorCode> {
    let partitions = participants(wanted.topics);
    let image = call.image();
    if call.version < BROKERS_SINCE {
        let id = Resource::TransactionalId(wanted.transactional_id);
        if let Err(code) = call.allowed(&image, AclOperation::Write, id) {
            return vec![code; partitions.len()];
        }
    }
    let mut unknown: Vec<ErrorCode> = Vec::with_capacity(partitions.len());
    for topic in wanted.topics {
        let found = writable(call, &image, topic.name);
        unknown.extend(
            topic
                .partitions
                .iter()
                .map(|index| partition(found, *index).err().unwrap_or(ErrorCode::None)),
        );
    }
    if unknown.iter().any(|code| !code.is_none()) {
        for code in unknown.iter_mut().filter(|code| code.is_none()) {
            *code = ErrorCode::OperationNotAttempted;
        }
        return unknown;
    }
    let count = partitions.len();
    let by = match identity(wanted.producer.0, wanted.producer.1) {
        _ if wanted.transactional_id.is_empty() => Err(ErrorCode::InvalidRequest),
        by => by,
    };
    let all = match by {
        Ok(by) if wanted.verify_only => verified(call, wanted, by, partitions).await,
        Ok(by) => added(call, wanted, by, partitions).await.map(|code| vec![code; count]),
        Err(code) => Err(code),
    };
    let all = all.unwrap_or_else(|code| vec![code; count]);
    all.into_iter().map(|code| fenced_as(code, call.version, FENCED_SINCE)).collect()
}

fn participants(topics: &[AddPartitionsToTxnTopic<'_>]) -> Vec<Participant> {
    let all = topics.iter().flat_map(|topic| {
        let name: std::sync::Arc<str> = topic.name.into();
        topic.partitions.iter().map(move |index| (name.clone(), *index))
    });
    all.collect()
}

/// A topic that a client may write to; never one of the broker's own. Brokers ask for clients that were
/// asked for their rights.
fn writable<'i>(
    call: &Call,
    image: &'i MetadataImage,
    topic: &str,
) -> Result<&'i Arc<Topic>, ErrorCode> {
    match call.version {
        BROKERS_SINCE.. => by_name(image, topic),
        _ if is_internal(topic) => Err(ErrorCode::TopicAuthorizationFailed),
        _ => named(call, image, AclOperation::Write, topic),
    }
}

async fn added(
    call: &Call,
    wanted: &Wanted<'_, '_>,
    by: Identity,
    partitions: Vec<Participant>,
) -> Result<ErrorCode, ErrorCode> {
    let protocol = if call.version < BROKERS_SINCE { Protocol::V0 } else { Protocol::V2 };
    let add = Add { by, partitions, protocol };
    let patience = patience(&call.image());
    call.core.transactions.add(wanted.transactional_id, add, patience).await
}

async fn verified(
    call: &Call,
    wanted: &Wanted<'_, '_>,
    by: Identity,
    partitions: Vec<Participant>,
) -> Result<Vec<ErrorCode>, ErrorCode> {
    let verify = |reply| Ask::Verify(by, partitions, reply);
    let known = call.core.transactions.ask(wanted.transactional_id, verify).await??;
    let code = |is_in| if is_in { ErrorCode::None } else { ErrorCode::TransactionAbortable };
    Ok(known.into_iter().map(code).collect())
}
