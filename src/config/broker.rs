//! The settings of the broker: only those that are in force.

use super::authorizer::{self, AUTHORIZER_SETTINGS};
use super::group::{Bounded, HEARTBEAT_NAMES, SESSION_NAMES};
use super::log_table::LOG_SETTINGS;
use super::logins::LOGIN_SETTINGS;
use super::migration::MigrationPolicy;
use super::setting::{Allowed, Change, ConfigType, Setting};
use super::sockets::{SOCKET_SETTINGS, SocketConfig};
use super::topic_table::{TOPIC_SETTINGS, coarser};
use super::transactions::{TRANSACTION_SETTINGS, TransactionConfig};
use super::{kafka_names, nearest::nearest};
use crate::authorizer::Policy;
use std::sync::LazyLock;

pub(super) const NO_MAX: i64 = i32::MAX as i64;

/// Settings that are the broker's alone; the defaults of topic settings come beside them.
const OWN_SETTINGS: &[Setting] = &[
    start(
        "admin.listener",
        Allowed::Text,
        Some("127.0.0.1:9644"),
        "Where metrics and health are told over HTTP, as HOST:PORT; port 0 takes a free port, and \
         nothing switches it off. The default is left out with a warning when another process has \
         its port; one that is set must be free. This setting is Millstream's own.",
    ),
    start(
        "admin.metrics.detail.max",
        Allowed::Int { min: 0, max: NO_MAX },
        Some("10000"),
        "The most partitions, topics, groups, or committed offsets that have metrics of their own. \
         When there are more of a kind, only sums of them are told. This setting is Millstream's \
         own.",
    ),
    start(
        "advertised.listeners",
        Allowed::List,
        None,
        "The address that clients are told, as [NAME://]HOST:PORT, for each listener. Unset, it is \
         the address of the listener.",
    ),
    start(
        "advertised.listeners.resolve",
        Allowed::Bool,
        Some("true"),
        "Whether a start is refused when this machine cannot resolve an advertised host name. Set \
         to false when only clients can resolve it. This setting is Millstream's own.",
    ),
    start(
        "auto.create.topics.enable",
        Allowed::Bool,
        Some("true"),
        "Whether a topic is created when a client that allows it asks for its metadata.",
    ),
    start("broker.rack", Allowed::Text, None, "The rack that Metadata names for this node."),
    start(
        "cores",
        Allowed::Text,
        Some("all"),
        "The CPUs to run on, one executor each: all, a number of them, or a list such as 0,2-3. \
         This setting is Millstream's own.",
    ),
    start(
        "default.replication.factor",
        Allowed::Only {
            kind: ConfigType::Int,
            value: "1",
            why: "a topic has one replica on this node",
        },
        Some("1"),
        "The replication factor of topics created without one.",
    ),
    start("delete.topic.enable", Allowed::Bool, Some("true"), "Whether DeleteTopics is allowed."),
    start(
        "fetch.max.bytes",
        Allowed::Int { min: 1024, max: NO_MAX },
        Some("57671680"),
        "The most bytes of records in the answer to one Fetch, whatever the client asks for. The \
         first batch is always sent whole.",
    ),
    start(
        "group.consumer.heartbeat.interval.ms",
        Allowed::Int { min: 1, max: NO_MAX },
        Some("5000"),
        "How often members of groups of the consumer protocol send a heartbeat. It lies between \
         group.consumer.min.heartbeat.interval.ms and group.consumer.max.heartbeat.interval.ms, and \
         below group.consumer.session.timeout.ms.",
    ),
    start(
        "group.consumer.max.heartbeat.interval.ms",
        Allowed::Int { min: 1, max: NO_MAX },
        Some("15000"),
        "The longest heartbeat interval that a group of the consumer protocol may be given.",
    ),
    start(
        "group.consumer.max.session.timeout.ms",
        Allowed::Int { min: 1, max: NO_MAX },
        Some("60000"),
        "The longest session timeout that a group of the consumer protocol may be given.",
    ),
    start(
        "group.consumer.max.size",
        Allowed::Int { min: 1, max: NO_MAX },
        Some("2147483647"),
        "The most members of one group of the consumer protocol; more are refused.",
    ),
    start(
        "group.consumer.migration.policy",
        Allowed::OneOf(&MigrationPolicy::WORDS),
        Some("bidirectional"),
        "Which groups change their protocol while they have members: from classic to consumer when \
         a member of the consumer protocol joins (upgrade), back when the last one has gone \
         (downgrade), both, or none.",
    ),
    start(
        "group.consumer.min.heartbeat.interval.ms",
        Allowed::Int { min: 1, max: NO_MAX },
        Some("5000"),
        "The shortest heartbeat interval that a group of the consumer protocol may be given.",
    ),
    start(
        "group.consumer.min.session.timeout.ms",
        Allowed::Int { min: 1, max: NO_MAX },
        Some("45000"),
        "The shortest session timeout that a group of the consumer protocol may be given.",
    ),
    start(
        "group.consumer.session.timeout.ms",
        Allowed::Int { min: 1, max: NO_MAX },
        Some("45000"),
        "A member of a group of the consumer protocol that is silent for this long is out. It lies \
         between group.consumer.min.session.timeout.ms and group.consumer.max.session.timeout.ms.",
    ),
    start(
        "group.initial.rebalance.delay.ms",
        Allowed::Int { min: 0, max: NO_MAX },
        Some("3000"),
        "How long a new group waits for more members before its first assignment.",
    ),
    start(
        "group.max.session.timeout.ms",
        Allowed::Int { min: 1, max: NO_MAX },
        Some("1800000"),
        "The longest session timeout that a member of a classic group may ask for.",
    ),
    start(
        "group.max.size",
        Allowed::Int { min: 1, max: NO_MAX },
        Some("2147483647"),
        "The most members of one classic group; more are refused.",
    ),
    start(
        "group.min.session.timeout.ms",
        Allowed::Int { min: 1, max: NO_MAX },
        Some("6000"),
        "The shortest session timeout that a member of a classic group may ask for.",
    ),
    start(
        "listeners",
        Allowed::List,
        Some("127.0.0.1:9092"),
        "Where to listen, as [NAME://]HOST:PORT, separated by commas. Port 0 takes a free port. What \
         a listener speaks says listener.security.protocol.map.",
    ),
    start(
        "log.dirs",
        Allowed::Text,
        Some("./millstream-data"),
        "The data directory. This broker keeps everything in one.",
    ),
    start(
        "max.incremental.fetch.session.cache.slots",
        Allowed::Int { min: 0, max: 1_000_000 },
        Some("1000"),
        "The most incremental fetch sessions, shared evenly by the cores. A consumer without a \
         session sends its whole list of partitions each time.",
    ),
    start(
        "max.request.partition.size.limit",
        Allowed::Int { min: 1, max: NO_MAX },
        Some("2000"),
        "The most partitions in the answer to one DescribeTopicPartitions.",
    ),
    start(
        "node.id",
        Allowed::Int { min: 0, max: NO_MAX },
        Some("1"),
        "The number of this node. It is written into the data directory at its first start.",
    ),
    start(
        "num.partitions",
        Allowed::Int { min: 1, max: 10_000 },
        Some("1"),
        "The partitions of a topic created without a number of them.",
    ),
    start(
        "offset.metadata.max.bytes",
        Allowed::Int { min: 0, max: 32_767 },
        Some("4096"),
        "The longest text that a client may store with a committed offset. It counts characters, \
         as Java does in UTF-16, whatever its name says.",
    ),
    start(
        "offsets.retention.check.interval.ms",
        Allowed::Long { min: 1, max: i64::MAX },
        Some("600000"),
        "How often committed offsets are looked at that may have expired.",
    ),
    start(
        "offsets.retention.minutes",
        Allowed::Int { min: 1, max: NO_MAX },
        Some("10080"),
        "How long committed offsets stay after their group lost its last member, or, of a group \
         that only stores offsets, after the commit.",
    ),
    start(
        "offsets.topic.num.partitions",
        Allowed::Int { min: 1, max: 10_000 },
        Some("50"),
        "The partitions of the internal topic that keeps groups and their offsets. It counts when \
         that topic is made, with the first group.",
    ),
    start(
        "offsets.topic.replication.factor",
        Allowed::Only {
            kind: ConfigType::Short,
            value: "1",
            why: "a topic has one replica on this node",
        },
        Some("1"),
        "The replication factor of the internal topic of groups.",
    ),
    live(
        "producer.id.expiration.ms",
        Allowed::Int { min: 1, max: NO_MAX },
        Some("86400000"),
        "How long a partition remembers a producer that sends nothing. Its next batch is then \
         taken whatever its sequence.",
    ),
    start(
        "storage.direct",
        Allowed::Bool,
        Some("true"),
        "Whether writes pass the page cache by (O_DIRECT). Set to false on a file system that \
         cannot. This setting is Millstream's own.",
    ),
];

/// Every setting a broker has, by name: its own, and the defaults of topic settings.
pub static BROKER_SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(|| {
    let mut settings = [
        OWN_SETTINGS,
        AUTHORIZER_SETTINGS,
        LOG_SETTINGS,
        LOGIN_SETTINGS,
        SOCKET_SETTINGS,
        TRANSACTION_SETTINGS,
    ]
    .concat();
    for topic in TOPIC_SETTINGS {
        if let Some(name) = topic.broker_name {
            // What has a name in another unit too is not set, so that that one counts. So is flush.ms,
            // as with Apache Kafka.
            let is_set = coarser(topic.name).is_empty() && topic.name != "flush.ms";
            let default = topic.default.filter(|_| is_set);
            settings.push(Setting { name, default, broker_name: None, ..*topic });
        }
    }
    settings.sort_by_key(|setting| setting.name);
    settings
});

/// The row of `name`.
pub fn broker_setting(name: &str) -> Option<&'static Setting> {
    let settings: &'static [Setting] = &BROKER_SETTINGS;
    let index = settings.binary_search_by(|setting| setting.name.cmp(name)).ok()?;
    Some(&settings[index])
}

/// Whether Kafka has a broker setting of this name that this broker does not act on.
pub fn is_other_kafka_name(name: &str) -> bool {
    kafka_names::OTHER_BROKER_NAMES.contains(&name)
}

/// The known name that a mistyped one is nearest to.
pub fn nearest_broker_name(typed: &str) -> Option<&'static str> {
    let settings: &'static [Setting] = &BROKER_SETTINGS;
    nearest(typed, settings.iter().map(|setting| setting.name))
}

/// The broker's settings in force, parsed. Replaced whole when a setting changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerConfig {
    pub auto_create_topics: bool,
    /// `None` when nobody is asked for rights.
    pub authorizer: Option<Policy>,
    pub sockets: SocketConfig,
    pub broker_rack: Option<String>,
    pub failed_login_delay_ms: u64,
    pub login_request_bytes_max: u32,
    pub delete_topic: bool,
    pub fetch_bytes_max: u32,
    pub fetch_sessions_max: u32,
    pub consumer_heartbeat_ms: Bounded,
    pub consumer_session_ms: Bounded,
    pub consumer_group_size_max: u32,
    pub consumer_migration: MigrationPolicy,
    pub group_initial_delay_ms: u64,
    pub group_session_ms_min: i32,
    pub group_session_ms_max: i32,
    pub group_size_max: u32,
    pub described_partitions_max: u32,
    pub offset_metadata_chars_max: u32,
    pub offsets_check_ms: u64,
    pub offsets_retention_ms: u64,
    pub offsets_partitions: u32,
    pub partitions_default: u32,
    pub producer_expiry_ms: i64,
    /// None when nothing is compacted.
    pub cleaner_threads: usize,
    pub cleaner_dedupe_bytes: u64,
    /// `None` is no bound.
    pub cleaner_io_bytes_per_second: Option<u64>,
    pub cleaner_backoff_ms: u64,
    pub retention_check_ms: u64,
    pub retention_grace_ms: u64,
    pub transactions: TransactionConfig,
}

impl BrokerConfig {
    /// Parses the checked values that `value` gives by name.
    pub fn resolve(value: impl Fn(&'static str) -> Option<String>) -> BrokerConfig {
        BrokerConfig {
            auto_create_topics: parsed(&value, "auto.create.topics.enable"),
            authorizer: match authorizer::read(&value) {
                Ok(policy) => policy,
                Err(what) => panic!("a setting passed the check at start: {what}"),
            },
            sockets: SocketConfig::resolve(&value),
            broker_rack: value("broker.rack").filter(|rack| !rack.is_empty()),
            failed_login_delay_ms: parsed(&value, "connection.failed.authentication.delay.ms"),
            login_request_bytes_max: parsed(&value, "sasl.server.max.receive.size"),
            delete_topic: parsed(&value, "delete.topic.enable"),
            fetch_bytes_max: parsed(&value, "fetch.max.bytes"),
            fetch_sessions_max: parsed(&value, "max.incremental.fetch.session.cache.slots"),
            described_partitions_max: parsed(&value, "max.request.partition.size.limit"),
            consumer_heartbeat_ms: Bounded::resolve(&value, HEARTBEAT_NAMES),
            consumer_session_ms: Bounded::resolve(&value, SESSION_NAMES),
            consumer_group_size_max: parsed(&value, "group.consumer.max.size"),
            consumer_migration: parsed(&value, "group.consumer.migration.policy"),
            group_initial_delay_ms: parsed(&value, "group.initial.rebalance.delay.ms"),
            group_session_ms_min: parsed(&value, "group.min.session.timeout.ms"),
            group_session_ms_max: parsed(&value, "group.max.session.timeout.ms"),
            group_size_max: parsed(&value, "group.max.size"),
            offset_metadata_chars_max: parsed(&value, "offset.metadata.max.bytes"),
            offsets_check_ms: parsed(&value, "offsets.retention.check.interval.ms"),
            offsets_retention_ms: parsed::<u64>(&value, "offsets.retention.minutes") * 60_000,
            offsets_partitions: parsed(&value, "offsets.topic.num.partitions"),
            partitions_default: parsed(&value, "num.partitions"),
            producer_expiry_ms: parsed(&value, "producer.id.expiration.ms"),
            cleaner_threads: match parsed(&value, "log.cleaner.enable") {
                true => parsed(&value, "log.cleaner.threads"),
                false => 0,
            },
            cleaner_dedupe_bytes: parsed(&value, "log.cleaner.dedupe.buffer.size"),
            cleaner_io_bytes_per_second: whole(parsed(
                &value,
                "log.cleaner.io.max.bytes.per.second",
            )),
            cleaner_backoff_ms: parsed(&value, "log.cleaner.backoff.ms"),
            retention_check_ms: parsed(&value, "log.retention.check.interval.ms"),
            retention_grace_ms: parsed(&value, "log.retention.clock.step.grace.ms"),
            transactions: TransactionConfig::resolve(&value),
        }
    }
}

/// A rate of 1 or more without its fraction; `None` when it is more than any disk does.
fn whole(rate: f64) -> Option<u64> {
    // As much as a float counts one by one.
    const MAX: f64 = 9_007_199_254_740_992.0;
    (rate < MAX).then_some(rate as u64)
}

/// # Panics
/// The value was not checked.
pub(super) fn parsed<T: std::str::FromStr>(
    value: &impl Fn(&'static str) -> Option<String>,
    name: &'static str,
) -> T {
    let text = value(name).unwrap_or_default();
    match text.parse() {
        Ok(parsed) => parsed,
        Err(_) => panic!("setting {name} passed its check with the value {text:?}"),
    }
}

pub(super) const fn start(
    name: &'static str,
    allowed: Allowed,
    default: Option<&'static str>,
    doc: &'static str,
) -> Setting {
    Setting { name, allowed, default, change: Change::AtStart, broker_name: None, doc }
}

pub(super) const fn live(
    name: &'static str,
    allowed: Allowed,
    default: Option<&'static str>,
    doc: &'static str,
) -> Setting {
    Setting { name, allowed, default, change: Change::AnyTime, broker_name: None, doc }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_default_is_allowed() {
        assert!(BROKER_SETTINGS.windows(2).all(|pair| pair[0].name < pair[1].name));
        for setting in BROKER_SETTINGS.iter() {
            assert!(!is_other_kafka_name(setting.name), "{}", setting.name);
            if let Some(default) = setting.default {
                assert_eq!(setting.check(default).unwrap(), default, "{}", setting.name);
            }
        }
        let config = BrokerConfig::resolve(|name| broker_setting(name)?.default.map(str::to_owned));
        assert_eq!(config.sockets.request_bytes_max, 100 << 20);
        assert!(config.auto_create_topics);
    }

    #[test]
    fn mistyped_broker_setting_finds_its_name() {
        assert_eq!(nearest_broker_name("log.segment.byte"), Some("log.segment.bytes"));
        assert_eq!(nearest_broker_name("max.conections"), Some("max.connections"));
        assert!(is_other_kafka_name("zookeeper.connect"));
    }
}
