//! Settings of the broker that concern logs and are no setting of topics.

use super::broker::{NO_MAX, live, start};
use super::setting::{Allowed, Setting};

/// By name.
pub(super) const LOG_SETTINGS: &[Setting] = &[
    live(
        "log.cleaner.backoff.ms",
        Allowed::Long { min: 1, max: i64::MAX },
        Some("15000"),
        "How long a core waits that has nothing to compact before it looks again.",
    ),
    live(
        "log.cleaner.dedupe.buffer.size",
        Allowed::Long { min: 1024 * 1024, max: i64::MAX },
        Some("134217728"),
        "Memory for the keys of the partitions that are being compacted, over all cores: about 32 bytes a \
         key, shared by log.cleaner.threads. A partition with more new keys takes several passes.",
    ),
    start(
        "log.cleaner.enable",
        Allowed::Bool,
        Some("true"),
        "Whether topics are compacted that ask for it.",
    ),
    live(
        "log.cleaner.io.max.bytes.per.second",
        Allowed::Decimal { min: 1, max: None },
        Some("1.7976931348623157E308"),
        "How many bytes compaction reads and writes a second, over all cores.",
    ),
    live(
        "log.cleaner.threads",
        Allowed::Int { min: 0, max: 256 },
        Some("1"),
        "Partitions that are compacted at the same time, over all cores. The work is done by the \
         helper threads, in small steps.",
    ),
    start(
        "log.retention.check.interval.ms",
        Allowed::Long { min: 1, max: i64::MAX },
        Some("300000"),
        "How often partitions are looked at for segments that retention gives up.",
    ),
    start(
        "log.retention.clock.step.grace.ms",
        Allowed::Long { min: 0, max: i64::MAX },
        Some("3600000"),
        "How long a clock that is ahead of the time that passed, because it stepped or because the \
         broker was off, must stay so before records are old by it. Meanwhile they age as time \
         passes. This setting is Millstream's own.",
    ),
    start(
        "log.retention.hours",
        Allowed::Int { min: -1, max: NO_MAX },
        Some("168"),
        "The default of `retention.ms` of topics in hours, when neither log.retention.ms nor \
         log.retention.minutes is set; -1 is for ever.",
    ),
    start(
        "log.retention.minutes",
        Allowed::Int { min: -1, max: NO_MAX },
        None,
        "The default of `retention.ms` of topics in minutes, when log.retention.ms is not set; -1 \
         is for ever.",
    ),
    start(
        "log.roll.hours",
        Allowed::Int { min: 1, max: NO_MAX },
        Some("168"),
        "The default of `segment.ms` of topics in hours, when log.roll.ms is not set.",
    ),
    start(
        "log.roll.jitter.hours",
        Allowed::Int { min: 0, max: NO_MAX },
        Some("0"),
        "The default of `segment.jitter.ms` of topics in hours, when log.roll.jitter.ms is not set.",
    ),
];
