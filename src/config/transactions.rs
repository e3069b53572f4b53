//! The settings of the broker that concern transactions.

use super::broker::{NO_MAX, live, parsed, start};
use super::setting::{Allowed, ConfigType, Setting};

/// Part of the broker's table of settings.
pub(super) const TRANSACTION_SETTINGS: &[Setting] = &[
    start(
        "add.partitions.to.txn.retry.backoff.max.ms",
        Allowed::Int { min: 0, max: NO_MAX },
        Some("100"),
        "How long a batch, an offset or a request that adds partitions to a transaction waits for \
         the last one of its producer to be complete; then the producer is told to come again.",
    ),
    start(
        "add.partitions.to.txn.retry.backoff.ms",
        Allowed::Int { min: 1, max: NO_MAX },
        Some("20"),
        "How often the coordinator is asked anew for such a batch meanwhile. It answers as soon as \
         the last transaction is complete.",
    ),
    start(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        Allowed::Int { min: 1, max: NO_MAX },
        Some("10000"),
        "How often transactions are looked at that are open for longer than their producers' \
         transaction.timeout.ms. They are aborted, and their producers fenced.",
    ),
    start(
        "transaction.max.timeout.ms",
        Allowed::Int { min: 1, max: NO_MAX },
        Some("900000"),
        "The longest transaction.timeout.ms that a producer may ask for.",
    ),
    live(
        "transaction.partition.verification.enable",
        Allowed::Bool,
        Some("true"),
        "Whether the coordinator of a transaction is asked, before the first batch in a partition is \
         taken, whether the partition belongs to the transaction. It concerns producers that say so \
         in a request of its own; those of transactions v2 always have their partitions added.",
    ),
    start(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        Allowed::Int { min: 1, max: NO_MAX },
        Some("3600000"),
        "How often transactional ids are looked at that may have expired.",
    ),
    start(
        "transaction.state.log.num.partitions",
        Allowed::Int { min: 1, max: 10_000 },
        Some("50"),
        "The partitions of the internal topic that keeps transactions. It counts when that topic is \
         made, with the first transactional id.",
    ),
    start(
        "transaction.state.log.replication.factor",
        Allowed::Only {
            kind: ConfigType::Short,
            value: "1",
            why: "a topic has one replica on this node",
        },
        Some("1"),
        "The replication factor of the internal topic of transactions.",
    ),
    start(
        "transaction.state.log.segment.bytes",
        Allowed::Int { min: 16_384, max: NO_MAX },
        Some("104857600"),
        "segment.bytes of the internal topic of transactions, when it is made.",
    ),
    start(
        "transactional.id.expiration.ms",
        Allowed::Int { min: 1, max: NO_MAX },
        Some("604800000"),
        "How long a transactional id is remembered that no producer uses. One with an open \
         transaction does not expire.",
    ),
];

/// Those in force, parsed. Times in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionConfig {
    pub add_retry_ms: u64,
    pub add_retry_ms_max: u64,
    pub abort_check_ms: u64,
    pub partitions: u32,
    pub segment_bytes: u32,
    pub timeout_ms_max: i32,
    pub verification: bool,
    pub id_check_ms: u64,
    pub id_expiration_ms: i64,
}

impl TransactionConfig {
    pub(super) fn resolve(value: &impl Fn(&'static str) -> Option<String>) -> TransactionConfig {
        TransactionConfig {
            add_retry_ms: parsed(value, "add.partitions.to.txn.retry.backoff.ms"),
            add_retry_ms_max: parsed(value, "add.partitions.to.txn.retry.backoff.max.ms"),
            abort_check_ms: parsed(value, ABORT_CHECK),
            partitions: parsed(value, "transaction.state.log.num.partitions"),
            segment_bytes: parsed(value, "transaction.state.log.segment.bytes"),
            timeout_ms_max: parsed(value, "transaction.max.timeout.ms"),
            verification: parsed(value, "transaction.partition.verification.enable"),
            id_check_ms: parsed(value, EXPIRY_CHECK),
            id_expiration_ms: parsed(value, "transactional.id.expiration.ms"),
        }
    }
}

const ABORT_CHECK: &str = "transaction.abort.timed.out.transaction.cleanup.interval.ms";
const EXPIRY_CHECK: &str = "transaction.remove.expired.transaction.cleanup.interval.ms";
