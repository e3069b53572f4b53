//! ListTransactions (key 66).

use crate::wire::declare::wire;

wire! {
    /// Lists transactions by state, producer id, age and name (KIP-664, KIP-994).
    request ListTransactionsRequest<'a> for ListTransactions, versions 0-2, flexible 0 {
        state_filters: Vec<&'a str>;
        producer_id_filters: Vec<i64>;
        duration_filter: i64 = -1, in 1+;
        transactional_id_pattern: Option<&'a str> = None, in 2+;
    }

    /// Answer to [`ListTransactionsRequest`].
    response ListTransactionsResponse<'a> for ListTransactions, versions 0-2, flexible 0 {
        throttle_time_ms: i32;
        error_code: i16;
        unknown_state_filters: Vec<&'a str>;
        transaction_states: Vec<TransactionState<'a>>;
    }

    /// An element of `transaction_states` in [`ListTransactionsResponse`].
    struct TransactionState<'a> {
        transactional_id: &'a str;
        producer_id: i64;
        transaction_state: &'a str;
    }
}
