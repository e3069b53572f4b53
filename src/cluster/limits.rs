//! Bounds of the control plane, each with what happens when it is reached.

use std::time::Duration;

/// Partitions of one topic; more are refused with INVALID_PARTITIONS.
pub const PARTITIONS_PER_TOPIC_MAX: u32 = 10_000;

/// Partitions that one CreateTopics or CreatePartitions may ask for in all, as in Kafka; more are
/// refused with POLICY_VIOLATION.
pub const PARTITIONS_PER_REQUEST_MAX: u32 = 10_000;

/// Changes that may wait for the controller; more are refused with a retriable error.
pub const CHANGES_WAITING_MAX: usize = 256;

/// Producer ids taken from the store at a time (as in Kafka); a restart gives up what is left.
pub const PRODUCER_IDS_PER_BLOCK: i64 = 1000;

/// Blocks of producer ids a core keeps ahead of use.
pub const PRODUCER_ID_BLOCKS_KEPT_MAX: usize = 2;

/// Groups that may have settings of their own, since every core holds them; for more of them changes
/// are refused with POLICY_VIOLATION.
pub const GROUPS_WITH_SETTINGS_MAX: usize = 10_000;

/// Longest id of a group that may have settings: what every version of a request can carry. Longer
/// ones are refused with INVALID_REQUEST.
pub const GROUP_ID_BYTES_MAX: usize = i16::MAX as usize;

/// Access rules that there may be. They are held by every core together, copied whole at each change,
/// and a broad filter looks at each; more are refused with POLICY_VIOLATION.
pub const RULES_MAX: usize = 50_000;

/// Bytes of the texts of all access rules; more are refused with POLICY_VIOLATION.
pub const RULES_TEXT_BYTES_MAX: usize = 32 << 20;

/// Bytes of the texts of one access rule: a group's id as long as any may be, and a certificate's name.
/// Longer ones are refused with INVALID_REQUEST.
pub const RULE_TEXT_BYTES_MAX: usize = 64 << 10;

/// Access rules that one request may make, and filters that it may delete by, as in Kafka; more are
/// refused with POLICY_VIOLATION.
pub const RULE_CHANGES_PER_REQUEST_MAX: usize = 10_000;

/// How long an order to a core may be under way before a line in the log says so.
pub const CORE_ORDER_SLOW: Duration = Duration::from_secs(5);

const _: () = {
    assert!(PARTITIONS_PER_TOPIC_MAX <= i32::MAX as u32);
    assert!(PRODUCER_IDS_PER_BLOCK > 0);
};
