//! Every setting that a topic of Apache Kafka 4 has, and those of our own: what they may hold here.
//!
//! What this broker does not act on is in the table too, with the one value by which it always
//! behaves: it is shown, and any other value is refused with the reason.

use super::setting::{Allowed, Change, ConfigType, Setting};

const ONE_NODE: &str = "a topic has one replica on this node";
const ONE_TIER: &str = "everything is kept on this machine's own disk";
const FLUSHED: &str = "every acknowledged record is on stable storage first";

/// The most of 32 and of 64 bits: no bound.
const INT_MAX: i64 = i32::MAX as i64;
const LONG_MAX: i64 = i64::MAX;

/// Every setting a topic has, by name. What is not here is refused.
pub const TOPIC_SETTINGS: &[Setting] = &[
    topic(
        "batch.validation",
        Some("batch.validation"),
        Allowed::OneOf(&["header", "deep"]),
        "header",
        "How closely a produced batch is looked at. `header` checks length, magic, CRC, codec and \
         record count and stores the bytes as they came; `deep` also opens the batch, decompresses \
         it within a memory bound and checks every record. This setting is Millstream's own.",
    ),
    topic(
        "cleanup.policy",
        Some("log.cleanup.policy"),
        Allowed::ListOf(&["compact", "delete"]),
        "delete",
        "What happens to old records: `delete` gives whole segments up by age and size \
         (retention.ms, retention.bytes), `compact` keeps the newest record of each key, and both may be \
         asked for. A compacted topic refuses records without a key.",
    ),
    topic(
        "compression.gzip.level",
        Some("compression.gzip.level"),
        Allowed::IntOr { or: -1, min: 1, max: 9 },
        "-1",
        "How hard gzip works on batches that compression.type has compressed anew: 1 is fastest, 9 \
         smallest, -1 leaves it to gzip.",
    ),
    topic(
        "compression.lz4.level",
        Some("compression.lz4.level"),
        only(ConfigType::Int, "9", "the lz4 of this broker has one level, its fastest"),
        "9",
        "How hard lz4 works on batches that compression.type has compressed anew.",
    ),
    topic(
        "compression.type",
        Some("compression.type"),
        Allowed::OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]),
        "producer",
        "The codec of stored batches. With `producer` they are stored as they came. With any other, \
         batches of another codec have all their records checked and are compressed anew, by threads \
         of their own; that costs much, so let producers use the codec themselves.",
    ),
    topic(
        "compression.zstd.level",
        Some("compression.zstd.level"),
        Allowed::Int { min: -131_072, max: 22 },
        "3",
        "How hard zstd works on batches that compression.type has compressed anew: the higher, the \
         smaller and slower.",
    ),
    topic(
        "delete.retention.ms",
        Some("log.cleaner.delete.retention.ms"),
        Allowed::Long { min: 0, max: LONG_MAX },
        "86400000",
        "How long a tombstone, a record without a value, stays in a compacted topic after compaction \
         has met it first: the time in which a reader from the start learns of the deletion.",
    ),
    topic(
        "file.delete.delay.ms",
        Some("log.segment.delete.delay.ms"),
        Allowed::Long { min: 0, max: LONG_MAX },
        "0",
        "How long the files of a deleted segment or topic stay on the disk, out of the way, before their \
         space is given back. A file that somebody still reads stays as long as he does anyway, so that \
         the default needs no time. A start and a full disk wait for nothing.",
    ),
    topic(
        "flush.messages",
        Some("log.flush.interval.messages"),
        only(ConfigType::Long, "1", FLUSHED),
        "1",
        "How many records may be acknowledged ahead of the flush that makes them durable.",
    ),
    topic(
        "flush.ms",
        Some("log.flush.interval.ms"),
        Allowed::Long { min: 0, max: LONG_MAX },
        "9223372036854775807",
        "The longest that a record may wait for the flush that makes it durable. Any bound is kept: \
         as flush.messages is 1, a record is flushed before it is acknowledged.",
    ),
    topic(
        "follower.replication.throttled.replicas",
        None,
        only(ConfigType::List, "", ONE_NODE),
        "",
        "Replicas that are slowed down while they catch up.",
    ),
    topic(
        "index.interval.bytes",
        Some("log.index.interval.bytes"),
        only(ConfigType::Int, "4096", "the offset index has one entry each 4096 bytes"),
        "4096",
        "The distance in bytes between entries of a segment's offset index.",
    ),
    topic(
        "leader.replication.throttled.replicas",
        None,
        only(ConfigType::List, "", ONE_NODE),
        "",
        "Leaders that are slowed down while others catch up.",
    ),
    topic(
        "local.retention.bytes",
        Some("log.local.retention.bytes"),
        only(ConfigType::Long, "-2", ONE_TIER),
        "-2",
        "How much of a tiered partition stays on the local disk; -2 is as retention.bytes says.",
    ),
    topic(
        "local.retention.ms",
        Some("log.local.retention.ms"),
        only(ConfigType::Long, "-2", ONE_TIER),
        "-2",
        "How long records of a tiered topic stay on the local disk; -2 is as retention.ms says.",
    ),
    topic(
        "max.compaction.lag.ms",
        Some("log.cleaner.max.compaction.lag.ms"),
        Allowed::Long { min: 1, max: LONG_MAX },
        "9223372036854775807",
        "How old a record of a compacted topic may become before compaction is due whatever \
         min.cleanable.dirty.ratio says; a segment is closed at this age too.",
    ),
    topic(
        "max.message.bytes",
        Some("message.max.bytes"),
        Allowed::Int { min: 0, max: INT_MAX },
        "1048588",
        "The largest record batch that is accepted, in bytes as stored (after compression).",
    ),
    topic(
        "message.timestamp.after.max.ms",
        Some("log.message.timestamp.after.max.ms"),
        Allowed::Long { min: 0, max: LONG_MAX },
        "3600000",
        "How far a record's CreateTime may lie ahead of the broker's clock. Not used with \
         LogAppendTime.",
    ),
    topic(
        "message.timestamp.before.max.ms",
        Some("log.message.timestamp.before.max.ms"),
        Allowed::Long { min: 0, max: LONG_MAX },
        "9223372036854775807",
        "How far a record's CreateTime may lie behind the broker's clock. Not used with \
         LogAppendTime.",
    ),
    topic(
        "message.timestamp.type",
        Some("log.message.timestamp.type"),
        Allowed::OneOf(&["CreateTime", "LogAppendTime"]),
        "CreateTime",
        "Whose clock a record's timestamp is: the producer's (CreateTime) or the broker's at the \
         append (LogAppendTime).",
    ),
    topic(
        "min.cleanable.dirty.ratio",
        Some("log.cleaner.min.cleanable.ratio"),
        Allowed::Decimal { min: 0, max: Some(1) },
        "0.5",
        "The share of a compacted partition's closed segments that must be new before it is compacted.",
    ),
    topic(
        "min.compaction.lag.ms",
        Some("log.cleaner.min.compaction.lag.ms"),
        Allowed::Long { min: 0, max: LONG_MAX },
        "0",
        "How long a record of a compacted topic is safe from compaction. The segment that is still \
         written is always.",
    ),
    topic(
        "min.insync.replicas",
        Some("min.insync.replicas"),
        Allowed::Int { min: 1, max: INT_MAX },
        "1",
        "How many in-sync replicas an acks=all write needs. A topic has one replica on this node: \
         with more than 1 such writes are refused with NOT_ENOUGH_REPLICAS, as Apache Kafka does.",
    ),
    topic(
        "preallocate",
        Some("log.preallocate"),
        only(
            ConfigType::Boolean,
            "false",
            "the commit journal is preallocated, segments need not be",
        ),
        "false",
        "Whether a new segment file is given its full size at once.",
    ),
    topic(
        "remote.log.copy.disable",
        None,
        only(ConfigType::Boolean, "false", ONE_TIER),
        "false",
        "Whether a tiered topic stops copying its records away.",
    ),
    topic(
        "remote.log.delete.on.disable",
        None,
        only(ConfigType::Boolean, "false", ONE_TIER),
        "false",
        "Whether a topic's records in another tier go when that is switched off.",
    ),
    topic(
        "remote.storage.enable",
        None,
        only(ConfigType::Boolean, "false", ONE_TIER),
        "false",
        "Whether a topic's records are copied to another tier.",
    ),
    topic(
        "retention.bytes",
        Some("log.retention.bytes"),
        Allowed::Long { min: -1, max: LONG_MAX },
        "-1",
        "How large a partition may grow before its oldest segments are deleted; -1 is no limit. \
         As much as this always stays.",
    ),
    topic(
        "retention.ms",
        Some("log.retention.ms"),
        Allowed::Long { min: -1, max: LONG_MAX },
        "604800000",
        "How long records are kept; -1 is for ever. A segment goes when its newest record is older \
         than this, and the open one is closed for it. Records stamped in the future stay until \
         that time has come.",
    ),
    topic(
        "segment.bytes",
        Some("log.segment.bytes"),
        Allowed::Int { min: 16 * 1024, max: INT_MAX },
        "1073741824",
        "The size at which a segment file is closed and the next one begun. A batch that is \
         larger than this is refused.",
    ),
    topic(
        "segment.index.bytes",
        Some("log.index.size.max.bytes"),
        Allowed::Int { min: 1024, max: INT_MAX },
        "10485760",
        "The size of its offset index at which a segment is closed and the next one begun.",
    ),
    topic(
        "segment.jitter.ms",
        Some("log.roll.jitter.ms"),
        Allowed::Long { min: 0, max: LONG_MAX },
        "0",
        "The most that is taken off segment.ms, differently for each segment, so that not all \
         partitions begin a new one at once.",
    ),
    topic(
        "segment.ms",
        Some("log.roll.ms"),
        Allowed::Long { min: 1, max: LONG_MAX },
        "604800000",
        "How much later than the first record of a segment a record may be before the next segment \
         is begun for it. Records without a timestamp count by the broker's clock.",
    ),
    topic(
        "unclean.leader.election.enable",
        Some("unclean.leader.election.enable"),
        only(ConfigType::Boolean, "false", ONE_NODE),
        "false",
        "Whether a replica that is not in sync may become leader and so lose records.",
    ),
];

/// Broker settings in a coarser unit that give a topic setting its default where the broker's own
/// (`log.retention.ms` for `retention.ms`) is not set: their names, and how many milliseconds one
/// is. The first that is set counts.
pub fn coarser(topic_setting: &str) -> &'static [(&'static str, i64)] {
    match topic_setting {
        "retention.ms" => &[("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)],
        "segment.ms" => &[("log.roll.hours", 3_600_000)],
        "segment.jitter.ms" => &[("log.roll.jitter.hours", 3_600_000)],
        _ => &[],
    }
}

const fn only(kind: ConfigType, value: &'static str, why: &'static str) -> Allowed {
    Allowed::Only { kind, value, why }
}

const fn topic(
    name: &'static str,
    broker_name: Option<&'static str>,
    allowed: Allowed,
    default: &'static str,
    doc: &'static str,
) -> Setting {
    let default = Some(default);
    Setting { name, allowed, default, change: Change::AnyTime, broker_name, doc }
}
