//! What an operator can set for consumer groups, and the bounds that nobody sets.

use super::assignor::Assignor;
use crate::config::MigrationPolicy;

/// Settings of consumer groups, in the names of Apache Kafka's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerSettings {
    pub times: MemberTimes,
    /// `group.consumer.max.size`, in members.
    pub members_max: usize,
    /// `group.consumer.assignors`: those that members may ask for; the first is the default.
    pub assignors: Vec<Assignor>,
    /// `group.consumer.migration.policy`
    pub migration: MigrationPolicy,
    /// `group.max.size`: a group of more members does not become a classic one.
    pub classic_members_max: usize,
}

/// What members of the consumer protocol keep to. A group may have its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberTimes {
    /// `consumer.session.timeout.ms`, or else the broker's `group.consumer.session.timeout.ms`.
    pub session_timeout_ms: u32,
    /// `consumer.heartbeat.interval.ms`, or else the broker's
    /// `group.consumer.heartbeat.interval.ms`.
    pub heartbeat_interval_ms: u32,
}

impl Default for ConsumerSettings {
    fn default() -> ConsumerSettings {
        ConsumerSettings {
            times: MemberTimes { session_timeout_ms: 45_000, heartbeat_interval_ms: 5_000 },
            members_max: usize::MAX,
            assignors: vec![Assignor::Uniform, Assignor::Range],
            migration: MigrationPolicy::default(),
            classic_members_max: usize::MAX,
        }
    }
}

/// Topics of the cluster are matched with a group's patterns again at most this often, unless a
/// pattern is new.
pub const PATTERN_REFRESH_INTERVAL_MS: u64 = 10_000;

/// Longest text of a pattern, in bytes. Longer ones are refused.
pub const PATTERN_BYTES_MAX: usize = 4096;

/// Longest pattern that may name classes of Unicode, which are costly to build.
pub const PATTERN_UNICODE_BYTES_MAX: usize = 256;

/// Compiled sizes that patterns are tried at, in bytes, each with what a match costs in units of
/// [`PATTERN_UNITS_PER_CALL`]. What does not fit the last is refused.
pub const PATTERN_SIZES: [(usize, u32); 3] = [(16 << 10, 1), (64 << 10, 4), (256 << 10, 16)];

/// Matching done in one call on a group. In the worst case a unit is some 50 microseconds (a long
/// topic name against a pattern made for slowness), commonly a tenth of one.
pub const PATTERN_UNITS_PER_CALL: u32 = 256;

/// Steps that the search for a better balance may take in one assignment, when members subscribe
/// to different topics. When it is used up the assignment is whole, but may be less even.
pub const BALANCE_STEPS_MAX: usize = 2_000_000;

/// Members whose time is up that one tick removes; the next removes more.
pub const EXPIRED_PER_TICK_MAX: usize = 256;

const _: () = assert!(PATTERN_SIZES[2].1 <= PATTERN_UNITS_PER_CALL, "one match fits a call");
