//! DescribeTransactions (key 65).

use crate::wire::declare::wire;

wire! {
    /// Describes transactions by transactional id (KIP-664).
    request DescribeTransactionsRequest<'a> for DescribeTransactions, versions 0-0, flexible 0 {
        transactional_ids: Vec<&'a str>;
    }

    /// Answer to [`DescribeTransactionsRequest`].
    response DescribeTransactionsResponse<'a>
        for DescribeTransactions, versions 0-0, flexible 0
    {
        throttle_time_ms: i32;
        transaction_states: Vec<TransactionState<'a>>;
    }

    /// An element of `transaction_states` in [`DescribeTransactionsResponse`].
    struct TransactionState<'a> {
        error_code: i16;
        transactional_id: &'a str;
        transaction_state: &'a str;
        transaction_timeout_ms: i32;
        transaction_start_time_ms: i64;
        producer_id: i64;
        producer_epoch: i16;
        topics: Vec<TopicData<'a>>;
    }

    /// An element of `topics` in [`TransactionState`].
    struct TopicData<'a> {
        topic: &'a str;
        partitions: Vec<i32>;
    }
}
