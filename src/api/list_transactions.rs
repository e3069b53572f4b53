//! ListTransactions (key 66): the transactional ids of this broker. KIP-664, KIP-994, KIP-1152.

use super::{Answer, Call, Close};
use crate::authorizer::Resource;
use crate::group::consumer::Pattern;
use crate::txn::ask::{Filter, Listed};
use crate::txn::state::State;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::list_transactions::{
    ListTransactionsRequest, ListTransactionsResponse, TransactionState,
};

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: ListTransactionsRequest<'_> = call.request()?;
    let unknown = request.state_filters.iter().filter(|name| State::from_name(name).is_none());
    let unknown_state_filters: Vec<&str> = unknown.copied().collect();
    match list(call, &request).await {
        Ok(found) => call.respond(&ListTransactionsResponse {
            unknown_state_filters,
            transaction_states: found.iter().map(state).collect(),
            ..Default::default()
        }),
        Err(code) => call
            .respond(&ListTransactionsResponse { error_code: code.into(), ..Default::default() }),
    }
}

async fn list(
    call: &Call,
    request: &ListTransactionsRequest<'_>,
) -> Result<Vec<Listed>, ErrorCode> {
    let pattern = request.transactional_id_pattern.filter(|pattern| !pattern.is_empty());
    let pattern = pattern.map(Pattern::new).transpose();
    let pattern = pattern.map_err(|_| ErrorCode::InvalidRegularExpression)?;
    let duration = request.duration_filter;
    let filter = Filter {
        producers: request.producer_id_filters.clone(),
        states: request.state_filters.iter().map(|name| (*name).to_owned()).collect(),
        open_for_more_than_ms: (duration >= 0).then_some(duration),
    };
    let mut found = call.core.transactions.list(&filter).await?;
    let image = call.image();
    let may =
        |id: &str| call.may_see(&image, AclOperation::Describe, Resource::TransactionalId(id));
    found.retain(|listed| may(&listed.transactional_id));
    if let Some(pattern) = pattern {
        found.retain(|listed| pattern.matches(&listed.transactional_id));
    }
    Ok(found)
}

fn state(listed: &Listed) -> TransactionState<'_> {
    TransactionState {
        transactional_id: &listed.transactional_id,
        producer_id: listed.producer.get(),
        transaction_state: listed.state.name(),
    }
}
