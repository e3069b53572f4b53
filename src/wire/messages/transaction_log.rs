//! What the transaction coordinator writes to `__transaction_state`: key and value of its records, in
//! Apache Kafka's own schemas. Type and version stand in front as in
//! [`super::group_log`](crate::wire::messages::group_log).

use crate::wire::declare::wire;

wire! {
    /// Type 0: a transactional id.
    data TransactionLogKey<'a> versions 0-0 {
        transactional_id: &'a str;
    }

    /// Value of [`TransactionLogKey`].
    data TransactionLogValue<'a> versions 0-1, flexible 1 {
        producer_id: i64;
        /// The id before the last change (KIP-890).
        previous_producer_id: i64 = -1, in 1+, tag 0, else ignored;
        /// The id that the producer goes on with, when the epochs of the present one are used up.
        next_producer_id: i64 = -1, in 1+, tag 1, else ignored;
        producer_epoch: i16;
        transaction_timeout_ms: i32;
        transaction_status: i8;
        /// Null in state Empty.
        transaction_partitions: Option<Vec<PartitionsSchema<'a>>>;
        transaction_last_update_timestamp_ms: i64;
        transaction_start_timestamp_ms: i64;
        client_transaction_version: i16, in 1+, tag 2, else ignored;
    }

    /// An element of `transaction_partitions` in [`TransactionLogValue`].
    struct PartitionsSchema<'a> {
        topic: &'a str;
        partition_ids: Vec<i32>;
    }
}
