//! Which partition of `__transaction_state` a transactional id belongs to. As in Apache Kafka, so that
//! tools that look for its records find them.

pub use crate::group::placement::partition_of;

/// The internal topic of transactions.
pub const TRANSACTIONS_TOPIC: &str = "__transaction_state";
