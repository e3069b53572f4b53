//! Bounds of the request handlers, each with what happens when it is reached.

/// Partitions that all fetch sessions of a core may remember together. Full: a fetch is answered
/// without a session, so the client sends its whole list each time.
pub const SESSION_PARTITIONS_MAX: usize = 500_000;

/// A session that was used within this time is not given up for a new one (as in Kafka).
pub const SESSION_EVICTION_MS_MIN: u64 = 120_000;

/// Topics that one Metadata request may have created on the way; the others are answered as
/// unknown, and the client asks again.
pub const AUTO_CREATE_TOPICS_PER_REQUEST_MAX: usize = 100;

/// Steps a loop over a request's partitions takes before it lets others run.
pub const PARTITIONS_PER_BREATH: usize = 2_000;

/// Access rules that one DescribeAcls collects before others run.
pub const RULES_PER_BREATH: usize = 1000;
