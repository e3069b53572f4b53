//! The settings of a topic: checked by name, and resolved to what is in force.

use super::setting::{BadValue, Setting};
use super::topic_table::coarser;
use super::{kafka_names, nearest::nearest};
use std::collections::BTreeMap;
use std::fmt;

pub use super::topic_table::TOPIC_SETTINGS;
use millstream_io::batch::Codec;
pub use millstream_io::batch::TimestampType;
use millstream_io::records::recompress::Compression;

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
    pub segment_jitter_ms: i64,
    /// `cleanup.policy` names `compact`.
    pub compaction: Option<CompactionConfig>,
    /// -1 is no limit, or that `cleanup.policy` does not name `delete`.
    pub retention_ms: i64,
    pub retention_bytes: i64,
    pub file_delete_delay_ms: i64,
    pub min_insync_replicas: u32,
    pub timestamp_type: TimestampType,
    pub timestamp_before_max_ms: i64,
    pub timestamp_after_max_ms: i64,
    pub batch_validation: BatchValidation,
    /// What stored batches are compressed with, unless it is their producers' choice.
    pub compression: Option<Compression>,
}

/// How a topic is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionConfig {
    /// `min.cleanable.dirty.ratio` in millionths.
    pub min_cleanable_ppm: u32,
    pub min_lag_ms: i64,
    pub max_lag_ms: i64,
    pub delete_retention_ms: i64,
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
    /// `min.compaction.lag.ms` is larger than `max.compaction.lag.ms`.
    Conflict {
        min: i64,
        max: i64,
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
            Self::Conflict { min, max } => write!(
                f,
                "Conflicting topic configs: min.compaction.lag.ms ({min}) is larger than \
                 max.compaction.lag.ms ({max})"
            ),
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
        broker_value: impl Fn(&'static str) -> Option<String>,
    ) -> TopicConfig {
        let value = |name| in_force(served(name), own, &broker_value);
        let policy = value("cleanup.policy");
        let has = |word| policy.split(',').any(|named| named == word);
        let compaction = has("compact").then(|| CompactionConfig {
            min_cleanable_ppm: millionths(&value("min.cleanable.dirty.ratio")),
            min_lag_ms: number(&value("min.compaction.lag.ms")),
            max_lag_ms: number(&value("max.compaction.lag.ms")),
            delete_retention_ms: number(&value("delete.retention.ms")),
        });
        let kept = |name| if has("delete") { number(&value(name)) } else { -1 };
        TopicConfig {
            compaction,
            max_message_bytes: number(&value("max.message.bytes")),
            segment_bytes: number(&value("segment.bytes")),
            segment_index_bytes: number(&value("segment.index.bytes")),
            segment_ms: number(&value("segment.ms")),
            segment_jitter_ms: number(&value("segment.jitter.ms")),
            retention_ms: kept("retention.ms"),
            retention_bytes: kept("retention.bytes"),
            file_delete_delay_ms: number(&value("file.delete.delay.ms")),
            min_insync_replicas: number(&value("min.insync.replicas")),
            timestamp_type: match value("message.timestamp.type").as_str() {
                "LogAppendTime" => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            timestamp_before_max_ms: number(&value("message.timestamp.before.max.ms")),
            timestamp_after_max_ms: number(&value("message.timestamp.after.max.ms")),
            compression: compression(&value),
            batch_validation: match value("batch.validation").as_str() {
                "deep" => BatchValidation::Deep,
                _ => BatchValidation::Header,
            },
        }
    }
}

/// `compression.type` with its level.
fn compression(value: &impl Fn(&'static str) -> String) -> Option<Compression> {
    let codec = match value("compression.type").as_str() {
        "uncompressed" => Codec::None,
        "gzip" => Codec::Gzip,
        "snappy" => Codec::Snappy,
        "lz4" => Codec::Lz4,
        "zstd" => Codec::Zstd,
        _ => return None,
    };
    let level = match codec {
        Codec::Gzip => Some(number(&value("compression.gzip.level"))).filter(|level| *level != -1),
        Codec::Zstd => Some(number(&value("compression.zstd.level"))),
        Codec::None | Codec::Snappy | Codec::Lz4 => None,
    };
    Some(Compression { codec, level })
}

/// The value of a topic setting in force: the topic's own, or the broker's, or the default. Of what
/// the broker has in several units the finest counts, as with Apache Kafka.
pub fn in_force(
    setting: &Setting,
    own: &BTreeMap<String, String>,
    broker_value: impl Fn(&'static str) -> Option<String>,
) -> String {
    let own = own.get(setting.name).and_then(|value| setting.check(value).ok());
    let of_broker = || {
        let value = broker_value(setting.broker_name?)?;
        assert!(setting.check(&value).is_ok(), "{} has the bad default {value}", setting.name);
        Some(value)
    };
    let of_coarser = || {
        coarser(setting.name).iter().find_map(|(name, unit_ms)| {
            let value: i64 = number(&broker_value(name)?);
            Some(value.saturating_mul(*unit_ms).max(-1).to_string())
        })
    };
    let default = || setting.default.unwrap_or_default().to_owned();
    own.or_else(of_broker).or_else(of_coarser).unwrap_or_else(default)
}

/// Holds settings of a topic to each other.
///
/// # Errors
/// [`TopicSettingError::Conflict`]
pub fn check_together(own: &BTreeMap<String, String>) -> Result<(), TopicSettingError> {
    let lag = |name| own.get(name).and_then(|value| value.parse::<i64>().ok());
    match (lag("min.compaction.lag.ms"), lag("max.compaction.lag.ms")) {
        (Some(min), Some(max)) if min > max => Err(TopicSettingError::Conflict { min, max }),
        _ => Ok(()),
    }
}

/// A ratio that `check` has passed, as whole millionths.
fn millionths(value: &str) -> u32 {
    let ratio: f64 = number(value);
    assert!((0.0..=1.0).contains(&ratio), "{value} passed the check of a ratio");
    (ratio * 1e6) as u32
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

    fn defaults(name: &'static str) -> Option<String> {
        super::super::broker_setting(name).unwrap().default.map(str::to_owned)
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
        let text = check_topic_setting("message.format.version", "2.0").unwrap_err().to_string();
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

    #[test]
    fn codec_and_level_of_stored_batches_are_the_topics() {
        let compression = |own: &[(&str, &str)]| {
            let own = own.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            TopicConfig::resolve(&own.collect(), defaults).compression
        };
        let of = |codec, level| Some(Compression { codec, level });
        assert_eq!(compression(&[]), None);
        assert_eq!(compression(&[("compression.type", "uncompressed")]), of(Codec::None, None));
        let gzip = ("compression.type", "gzip");
        assert_eq!(compression(&[gzip]), of(Codec::Gzip, None));
        let level = ("compression.gzip.level", "9");
        assert_eq!(compression(&[gzip, level]), of(Codec::Gzip, Some(9)));
        let zstd = ("compression.type", "zstd");
        assert_eq!(compression(&[zstd]), of(Codec::Zstd, Some(3)));
        assert_eq!(
            compression(&[zstd, ("compression.zstd.level", "-5")]),
            of(Codec::Zstd, Some(-5))
        );
        for (key, bad) in [
            ("compression.gzip.level", "0"),
            ("compression.gzip.level", "10"),
            ("compression.gzip.level", "-2"),
            ("compression.zstd.level", "23"),
            ("compression.type", "none"),
        ] {
            assert!(check_topic_setting(key, bad).is_err(), "{key}={bad}");
        }
    }

    #[test]
    fn finest_unit_that_the_broker_has_set_gives_the_default() {
        let retention = |set: &[(&str, &str)]| {
            let value = |name: &'static str| {
                let set = set.iter().find(|(set, _)| *set == name);
                set.map(|(_, value)| (*value).to_owned()).or_else(|| defaults(name))
            };
            TopicConfig::resolve(&BTreeMap::new(), value).retention_ms
        };
        assert_eq!(retention(&[]), 168 * 3_600_000);
        assert_eq!(retention(&[("log.retention.hours", "1")]), 3_600_000);
        assert_eq!(retention(&[("log.retention.hours", "-1")]), -1);
        let minutes = ("log.retention.minutes", "7");
        assert_eq!(retention(&[("log.retention.hours", "1"), minutes]), 420_000);
        assert_eq!(retention(&[minutes, ("log.retention.ms", "5")]), 5);
        assert_eq!(retention(&[("log.retention.hours", "2147483647")]), 2_147_483_647 * 3_600_000);
    }

    #[test]
    fn setting_that_has_no_effect_is_refused_with_the_reason_and_shown_as_it_is() {
        for (key, kept, other) in [
            ("flush.messages", "1", "1000"),
            ("compression.lz4.level", "9", "1"),
            ("remote.storage.enable", "false", "true"),
            ("follower.replication.throttled.replicas", "", "0:1"),
            ("unclean.leader.election.enable", "false", "true"),
        ] {
            assert_eq!(check_topic_setting(key, kept).unwrap(), kept);
            let text = check_topic_setting(key, other).unwrap_err().to_string();
            assert!(text.contains(key) && text.contains("only"), "{text}");
        }
    }
}
