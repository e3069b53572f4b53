//! The settings of a topic: only those that are in force.

use super::setting::{Allowed, BadValue, Change, ConfigType, Setting};
use super::{kafka_names, nearest::nearest};
use std::collections::BTreeMap;
use std::fmt;

const ONE_NODE: &str = "a topic has one replica on this node";
const KEPT: &str = "records are kept until they or their topic are deleted by request";

/// Every setting a topic has, by name. What is not here is refused.
pub const TOPIC_SETTINGS: &[Setting] = &[
    topic(
        "batch.validation",
        "batch.validation",
        Allowed::OneOf(&["header", "deep"]),
        "header",
        "How closely a produced batch is looked at. `header` checks length, magic, CRC, codec and \
         record count and stores the bytes as they came; `deep` also opens the batch, decompresses \
         it within a memory bound and checks every record. This setting is Millstream's own.",
    ),
    topic(
        "cleanup.policy",
        "log.cleanup.policy",
        Allowed::Only {
            kind: ConfigType::List,
            value: "delete",
            why: "compaction is not offered; see retention.ms for what is deleted",
        },
        "delete",
        "What happens to old segments.",
    ),
    topic(
        "compression.type",
        "compression.type",
        Allowed::Only {
            kind: ConfigType::Text,
            value: "producer",
            why: "batches are stored in the producer's own codec",
        },
        "producer",
        "The codec of stored batches: always the one their producer chose.",
    ),
    topic(
        "flush.messages",
        "log.flush.interval.messages",
        Allowed::Only {
            kind: ConfigType::Long,
            value: "1",
            why: "every acknowledged record is on stable storage first",
        },
        "1",
        "How many records may be acknowledged ahead of the flush that makes them durable.",
    ),
    topic(
        "index.interval.bytes",
        "log.index.interval.bytes",
        Allowed::Only {
            kind: ConfigType::Int,
            value: "4096",
            why: "the offset index has one entry each 4096 bytes",
        },
        "4096",
        "The distance in bytes between entries of a segment's offset index.",
    ),
    topic(
        "max.message.bytes",
        "message.max.bytes",
        Allowed::Int { min: 0, max: i32::MAX as i64 },
        "1048588",
        "The largest record batch that is accepted, in bytes as stored (after compression).",
    ),
    topic(
        "message.timestamp.after.max.ms",
        "log.message.timestamp.after.max.ms",
        Allowed::Long { min: 0, max: i64::MAX },
        "3600000",
        "How far a record's CreateTime may lie ahead of the broker's clock. Not used with \
         LogAppendTime.",
    ),
    topic(
        "message.timestamp.before.max.ms",
        "log.message.timestamp.before.max.ms",
        Allowed::Long { min: 0, max: i64::MAX },
        "9223372036854775807",
        "How far a record's CreateTime may lie behind the broker's clock. Not used with \
         LogAppendTime.",
    ),
    topic(
        "message.timestamp.type",
        "log.message.timestamp.type",
        Allowed::OneOf(&["CreateTime", "LogAppendTime"]),
        "CreateTime",
        "Whose clock a record's timestamp is: the producer's (CreateTime) or the broker's at the \
         append (LogAppendTime).",
    ),
    topic(
        "min.insync.replicas",
        "min.insync.replicas",
        Allowed::Only { kind: ConfigType::Int, value: "1", why: ONE_NODE },
        "1",
        "How many in-sync replicas an acks=all write needs.",
    ),
    topic(
        "preallocate",
        "log.preallocate",
        Allowed::Only {
            kind: ConfigType::Boolean,
            value: "false",
            why: "the commit journal is preallocated, segments need not be",
        },
        "false",
        "Whether a new segment file is given its full size at once.",
    ),
    topic(
        "retention.bytes",
        "log.retention.bytes",
        Allowed::Only { kind: ConfigType::Long, value: "-1", why: KEPT },
        "-1",
        "How large a partition may grow before its oldest segments are deleted; -1 is no limit.",
    ),
    topic(
        "retention.ms",
        "log.retention.ms",
        Allowed::Only { kind: ConfigType::Long, value: "-1", why: KEPT },
        "-1",
        "How long records are kept before their segments are deleted; -1 is no limit.",
    ),
    topic(
        "segment.bytes",
        "log.segment.bytes",
        Allowed::Int { min: 16 * 1024, max: i32::MAX as i64 },
        "1073741824",
        "The size at which a segment file is closed and the next one begun. A batch that is \
         larger than this is refused.",
    ),
    topic(
        "segment.index.bytes",
        "log.index.size.max.bytes",
        Allowed::Int { min: 1024, max: i32::MAX as i64 },
        "10485760",
        "The size of its offset index at which a segment is closed and the next one begun.",
    ),
    topic(
        "segment.ms",
        "log.roll.ms",
        Allowed::Long { min: 1, max: i64::MAX },
        "604800000",
        "The age at which a segment file is closed and the next one begun, at the next append.",
    ),
    topic(
        "unclean.leader.election.enable",
        "unclean.leader.election.enable",
        Allowed::Only { kind: ConfigType::Boolean, value: "false", why: ONE_NODE },
        "false",
        "Whether a replica that is not in sync may become leader and so lose records.",
    ),
];

pub use millstream_io::batch::TimestampType;

/// How closely a produced batch is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchValidation {
    Header,
    Deep,
}

/// The settings in force for one topic, parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicConfig {
    pub max_message_bytes: u32,
    pub segment_bytes: u32,
    pub segment_index_bytes: u32,
    pub segment_ms: i64,
    pub timestamp_type: TimestampType,
    pub timestamp_before_max_ms: i64,
    pub timestamp_after_max_ms: i64,
    pub batch_validation: BatchValidation,
}

/// Why a topic setting is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicSettingError {
    /// No such setting anywhere.
    Unknown {
        key: String,
        nearest: Option<&'static str>,
    },
    /// A setting of Kafka that this broker does not act on.
    NotServed {
        key: String,
    },
    Bad(BadValue),
    /// A null value where a topic is created.
    Null {
        key: String,
    },
    /// The same key twice in one list.
    Twice {
        key: String,
    },
    /// Append or subtract on a setting that is not a list.
    NotAList {
        key: String,
    },
}

impl fmt::Display for TopicSettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { key, nearest: Some(nearest) } => {
                write!(f, "Unknown topic config name: {key}. Did you mean {nearest}?")
            }
            Self::Unknown { key, nearest: None } => write!(
                f,
                "Unknown topic config name: {key}. DescribeConfigs on a topic lists the names"
            ),
            Self::NotServed { key } => write!(
                f,
                "Topic config {key} is known to Kafka but this broker does not act on it, so it \
                 is refused; leave it out"
            ),
            Self::Bad(bad) => bad.fmt(f),
            Self::Null { key } => write!(f, "Null value not supported for topic configs: {key}"),
            Self::Twice { key } => write!(f, "Topic config {key} is given twice"),
            Self::NotAList { key } => {
                write!(f, "Config {key} is not a list: it can be set or deleted only")
            }
        }
    }
}

/// The row of `key`, or why there is none.
pub fn topic_setting(key: &str) -> Result<&'static Setting, TopicSettingError> {
    if let Some(setting) = TOPIC_SETTINGS.iter().find(|setting| setting.name == key) {
        return Ok(setting);
    }
    if kafka_names::OTHER_TOPIC_NAMES.contains(&key) {
        return Err(TopicSettingError::NotServed { key: key.to_owned() });
    }
    let nearest = nearest(key, TOPIC_SETTINGS.iter().map(|setting| setting.name));
    let key = if key.len() > 128 { format!("({} bytes)", key.len()) } else { key.to_owned() };
    Err(TopicSettingError::Unknown { key, nearest })
}

/// Checks one setting of a topic; gives its value in its one spelling.
pub fn check_topic_setting(key: &str, value: &str) -> Result<String, TopicSettingError> {
    topic_setting(key)?.check(value).map_err(TopicSettingError::Bad)
}

impl TopicConfig {
    /// Resolves a topic's own settings over the broker's defaults. `own` and `broker_value` hold
    /// checked values; an own value that is no longer valid (left over by another version) counts
    /// as not set, so leftovers never block.
    pub fn resolve(
        own: &BTreeMap<String, String>,
        broker_value: impl Fn(&'static str) -> String,
    ) -> TopicConfig {
        let value = |name: &'static str| {
            let setting = served(name);
            let own = own.get(name).and_then(|value| setting.check(value).ok());
            let broker_name = setting.broker_name;
            own.unwrap_or_else(|| {
                let value = broker_value(broker_name.unwrap_or(name));
                assert!(setting.check(&value).is_ok(), "{name} has the bad default {value}");
                value
            })
        };
        TopicConfig {
            max_message_bytes: number(&value("max.message.bytes")),
            segment_bytes: number(&value("segment.bytes")),
            segment_index_bytes: number(&value("segment.index.bytes")),
            segment_ms: number(&value("segment.ms")),
            timestamp_type: match value("message.timestamp.type").as_str() {
                "LogAppendTime" => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            timestamp_before_max_ms: number(&value("message.timestamp.before.max.ms")),
            timestamp_after_max_ms: number(&value("message.timestamp.after.max.ms")),
            batch_validation: match value("batch.validation").as_str() {
                "deep" => BatchValidation::Deep,
                _ => BatchValidation::Header,
            },
        }
    }
}

const fn topic(
    name: &'static str,
    broker_name: &'static str,
    allowed: Allowed,
    default: &'static str,
    doc: &'static str,
) -> Setting {
    let (default, broker_name) = (Some(default), Some(broker_name));
    Setting { name, allowed, default, change: Change::AnyTime, broker_name, doc }
}

/// The row of a name of our own.
fn served(name: &'static str) -> &'static Setting {
    match topic_setting(name) {
        Ok(setting) => setting,
        Err(error) => panic!("a name in our own code: {error}"),
    }
}

/// A number that `check` has passed.
fn number<T: std::str::FromStr>(value: &str) -> T {
    match value.parse() {
        Ok(number) => number,
        Err(_) => panic!("{value} passed the check of a number setting"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults(name: &'static str) -> String {
        let by_broker_name = TOPIC_SETTINGS.iter().find(|s| s.broker_name == Some(name)).unwrap();
        by_broker_name.default.unwrap().to_owned()
    }

    #[test]
    fn every_default_is_allowed_and_names_are_unique_and_sorted() {
        for setting in TOPIC_SETTINGS {
            let default = setting.default.unwrap();
            assert_eq!(setting.check(default).unwrap(), default, "{}", setting.name);
            assert!(!kafka_names::OTHER_TOPIC_NAMES.contains(&setting.name), "{}", setting.name);
        }
        assert!(TOPIC_SETTINGS.windows(2).all(|pair| pair[0].name < pair[1].name));
    }

    #[test]
    fn unknown_topic_key_is_refused_with_the_nearest_name() {
        let text = check_topic_setting("retention.mss", "1").unwrap_err().to_string();
        assert!(text.contains("retention.mss") && text.contains("retention.ms?"), "{text}");
        let text = check_topic_setting("remote.storage.enable", "false").unwrap_err().to_string();
        assert!(text.contains("does not act on it"), "{text}");
        let text = check_topic_setting(&"k".repeat(9000), "1").unwrap_err().to_string();
        assert!(text.len() < 300);
    }

    #[test]
    fn own_value_wins_over_the_broker_default_and_leftovers_count_as_unset() {
        let mut own = BTreeMap::new();
        own.insert("segment.bytes".to_owned(), "1048576".to_owned());
        own.insert("segment.ms".to_owned(), "minus one".to_owned());
        own.insert("setting.of.another.version".to_owned(), "1".to_owned());
        let config = TopicConfig::resolve(&own, defaults);
        assert_eq!(config.segment_bytes, 1_048_576);
        assert_eq!(config.segment_ms, 604_800_000);
        assert_eq!(config.max_message_bytes, 1_048_588);
        assert_eq!(config.batch_validation, BatchValidation::Header);
    }
}
