//! AddPartitionsToTxn (key 24).

use crate::wire::declare::wire;

wire! {
    /// Adds partitions to transactions; from version 4 on brokers verify in batches (KIP-890).
    request AddPartitionsToTxnRequest<'a> for AddPartitionsToTxn, versions 0-5, flexible 3 {
        transactions: Vec<AddPartitionsToTxnTransaction<'a>>, in 4+;
        v3_and_below_transactional_id: &'a str, in 0-3;
        v3_and_below_producer_id: i64, in 0-3;
        v3_and_below_producer_epoch: i16, in 0-3;
        v3_and_below_topics: Vec<AddPartitionsToTxnTopic<'a>>, in 0-3;
    }

    /// An element of `transactions` in [`AddPartitionsToTxnRequest`].
    struct AddPartitionsToTxnTransaction<'a> {
        transactional_id: &'a str;
        producer_id: i64;
        producer_epoch: i16;
        verify_only: bool;
        topics: Vec<AddPartitionsToTxnTopic<'a>>;
    }

    /// An element of `topics` in [`AddPartitionsToTxnTransaction`].
    struct AddPartitionsToTxnTopic<'a> {
        name: &'a str;
        partitions: Vec<i32>;
    }

    /// Answer to [`AddPartitionsToTxnRequest`].
    response AddPartitionsToTxnResponse<'a> for AddPartitionsToTxn, versions 0-5, flexible 3 {
        throttle_time_ms: i32;
        error_code: i16, in 4+, else ignored;
        results_by_transaction: Vec<AddPartitionsToTxnResult<'a>>, in 4+;
        results_by_topic_v3_and_below: Vec<AddPartitionsToTxnTopicResult<'a>>, in 0-3;
    }

    /// An element of `results_by_transaction` in [`AddPartitionsToTxnResponse`].
    struct AddPartitionsToTxnResult<'a> {
        transactional_id: &'a str;
        topic_results: Vec<AddPartitionsToTxnTopicResult<'a>>;
    }

    /// An element of `topic_results` in [`AddPartitionsToTxnResult`].
    struct AddPartitionsToTxnTopicResult<'a> {
        name: &'a str;
        results_by_partition: Vec<AddPartitionsToTxnPartitionResult>;
    }

    /// An element of `results_by_partition` in [`AddPartitionsToTxnTopicResult`].
    struct AddPartitionsToTxnPartitionResult {
        partition_index: i32;
        partition_error_code: i16;
    }
}
