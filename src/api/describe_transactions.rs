//! DescribeTransactions (key 65): transactional ids as they are. KIP-664.

use super::{Answer, Call, Close};
use crate::authorizer::Resource;
use crate::txn::ask::{Ask, Description};
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::describe_transactions::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, TopicData, TransactionState,
};
use millstream_io::units::TimestampMs;

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: DescribeTransactionsRequest<'_> = call.request()?;
    let mut found = Vec::with_capacity(request.transactional_ids.len());
    for id in &request.transactional_ids {
        let mut described = describe(call, id).await;
        if let Ok(described) = &mut described {
            let image = call.image();
            let may =
                |topic: &str| call.may_see(&image, AclOperation::Describe, Resource::Topic(topic));
            described.partitions.retain(|(topic, _)| may(topic));
        }
        found.push((*id, described));
    }
    let states = found.iter().map(|(id, found)| state(id, found));
    let transaction_states = states.collect();
    call.respond(&DescribeTransactionsResponse { transaction_states, ..Default::default() })
}

async fn describe(call: &Call, id: &str) -> Result<Description, ErrorCode> {
    call.allowed(&call.image(), AclOperation::Describe, Resource::TransactionalId(id))?;
    if id.is_empty() {
        return Err(ErrorCode::InvalidRequest);
    }
    call.core.transactions.ask(id, Ask::Describe).await?
}

fn state<'s>(id: &'s str, found: &'s Result<Description, ErrorCode>) -> TransactionState<'s> {
    let found = match found {
        Ok(found) => found,
        Err(code) => {
            return TransactionState {
                transactional_id: id,
                error_code: code.number(),
                ..Default::default()
            };
        }
    };
    let mut topics: Vec<TopicData<'_>> = Vec::new();
    for (topic, partition) in &found.partitions {
        match topics.last_mut() {
            Some(last) if last.topic == &**topic => last.partitions.push(*partition),
            _ => topics.push(TopicData { topic, partitions: vec![*partition] }),
        }
    }
    TransactionState {
        error_code: ErrorCode::None.number(),
        transactional_id: id,
        transaction_state: found.state.name(),
        transaction_timeout_ms: found.timeout_ms,
        transaction_start_time_ms: found.started_at.map_or(-1, TimestampMs::get),
        producer_id: found.identity.producer.get(),
        producer_epoch: found.identity.epoch.get(),
        topics,
    }
}
