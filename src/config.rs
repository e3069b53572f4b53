//! Settings: what there is, what it may hold, and what holds now.
//!
//! A setting has Kafka's name where Kafka has one. Only settings that are in force are listed;
//! what Kafka knows and this broker does not act on is refused on a topic and reported when it
//! stands in the broker's file, so that nothing is accepted and then ignored.
//!
//! Where a broker setting comes from, the strongest first: the command line, the file, the
//! default. What clients change while the broker runs is stored with the metadata and is stronger
//! than all of these.

mod authorizer;
pub mod broker;
pub mod file;
pub mod group;
mod kafka_names;
pub mod listeners;
mod log_table;
pub mod logins;
pub mod migration;
mod nearest;
pub mod setting;
mod sockets;
pub mod topic;
pub mod topic_table;
mod transactions;

pub use authorizer::STANDARD as STANDARD_AUTHORIZER;
pub use broker::{BROKER_SETTINGS, BrokerConfig, broker_setting};
pub use group::{GROUP_SETTINGS, GroupConfig, GroupSettingError, group_setting};
pub use listeners::{Endpoint, Listener};
use logins::{BadListenerSetting, ListenerSetting, Protocol};
pub use migration::MigrationPolicy;
pub use setting::{Allowed, BadValue, Change, ConfigType, Setting};
pub use topic::{
    BatchValidation, TOPIC_SETTINGS, TimestampType, TopicConfig, TopicSettingError,
    check_topic_setting, topic_setting,
};

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// What the broker was started with, checked.
#[derive(Clone, Debug)]
pub struct Config {
    pub node_id: i32,
    pub data_dir: PathBuf,
    /// `all`, a number, or a list: parsed where the machine's CPUs are known.
    pub cores: String,
    pub listeners: Vec<Listener>,
    pub advertised_resolve: bool,
    /// Where metrics and health are told; `None` for nowhere.
    pub admin: Option<AdminListener>,
    /// `admin.metrics.detail.max`.
    pub admin_detail_max: usize,
    /// Whether writes pass the page cache by.
    pub storage_direct: bool,
    /// What was set by file or command line, checked, by name.
    pub set: BTreeMap<&'static str, String>,
    /// Settings of single listeners by their whole name, checked.
    pub of_listeners: BTreeMap<String, ListenerSetting>,
    /// What the reader of the log should know about the settings.
    pub warnings: Vec<String>,
}

/// Where metrics and health are told over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminListener {
    pub bind: Endpoint,
    /// Somebody asked for it: without it the broker does not start.
    pub given: bool,
}

/// Why the broker cannot start with these settings: one sentence that names place, key and fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError(pub String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

/// Where a group of settings was written.
#[derive(Clone, Debug)]
pub struct Layer {
    /// `file broker.toml` or `the command line`.
    pub place: String,
    /// Name, value, and the line or flag.
    pub settings: Vec<(String, String, String)>,
}

impl Config {
    /// Checks the layers, weakest first, and puts them together.
    pub fn load(layers: &[Layer]) -> Result<Config, ConfigError> {
        let mut set: BTreeMap<&'static str, String> = BTreeMap::new();
        let mut of_listeners = BTreeMap::new();
        let mut warnings = Vec::new();
        for layer in layers {
            let mut here: BTreeMap<&str, &str> = BTreeMap::new();
            for (name, value, at) in &layer.settings {
                let bad = |bad| ConfigError(format!("{bad} (written in {}, {at})", layer.place));
                let known = match broker_setting(name) {
                    Some(setting) => {
                        let checked =
                            setting.check(value).map_err(|wrong| bad(wrong.to_string()))?;
                        set.insert(setting.name, checked);
                        true
                    }
                    None => match ListenerSetting::parse(name, value) {
                        Ok(setting) => {
                            of_listeners.insert(name.clone(), setting);
                            true
                        }
                        Err(BadListenerSetting::Value(wrong)) => return Err(bad(wrong)),
                        Err(BadListenerSetting::Unknown) => false,
                    },
                };
                if !known {
                    warnings.push(unknown(name, &layer.place, at));
                    continue;
                }
                if let Some(first) = here.insert(name, at) {
                    return Err(ConfigError(format!(
                        "{name} is given twice in {}: {first} and {at}; keep one",
                        layer.place
                    )));
                }
            }
        }
        Config::from_set(set, of_listeners, warnings)
    }

    fn from_set(
        set: BTreeMap<&'static str, String>,
        of_listeners: BTreeMap<String, ListenerSetting>,
        mut warnings: Vec<String>,
    ) -> Result<Config, ConfigError> {
        let value = |name| static_value(&set, name);
        let required = |name| value(name).unwrap_or_default();
        let (mut listeners, said) =
            listeners::parse(&required("listeners"), value("advertised.listeners").as_deref())
                .map_err(|error| ConfigError(error.what))?;
        warnings.extend(said);
        set_logins(
            &mut listeners,
            |name: &str| static_value(&set, name),
            &of_listeners,
            &mut warnings,
        )
        .map_err(ConfigError)?;
        let given = set.contains_key("admin.listener");
        let admin = listeners::parse_admin(&required("admin.listener"))
            .map_err(|error| ConfigError(error.what))?
            .map(|bind| AdminListener { bind, given });
        let detail_max = required("admin.metrics.detail.max");
        let Ok(admin_detail_max) = detail_max.parse() else {
            panic!("admin.metrics.detail.max passed its check with the value {detail_max:?}");
        };
        let data_dir = required("log.dirs");
        if data_dir.is_empty() || data_dir.contains(',') {
            return Err(ConfigError(format!(
                "log.dirs says {data_dir:?}: name exactly one data directory"
            )));
        }
        let node_id = required("node.id");
        let Ok(node_id) = node_id.parse() else {
            panic!("node.id passed its check with the value {node_id:?}");
        };
        group::check_start(&value).map_err(ConfigError)?;
        warnings.extend(authorizer::check_start(&value).map_err(ConfigError)?);
        Ok(Config {
            node_id,
            data_dir: PathBuf::from(data_dir),
            cores: required("cores"),
            listeners,
            admin,
            admin_detail_max,
            advertised_resolve: required("advertised.listeners.resolve") == "true",
            storage_direct: required("storage.direct") == "true",
            set,
            of_listeners,
            warnings,
        })
    }

    /// The value given at start, or the default; `None` is null.
    pub fn static_value(&self, name: &str) -> Option<String> {
        static_value(&self.set, name)
    }
}

fn static_value(set: &BTreeMap<&'static str, String>, name: &str) -> Option<String> {
    let set = set.get(name).cloned();
    set.or_else(|| broker_setting(name)?.default.map(str::to_owned))
}

/// Says of each listener whether it asks for a login, and for which.
fn set_logins(
    listeners: &mut [Listener],
    value: impl Fn(&str) -> Option<String>,
    own: &BTreeMap<String, ListenerSetting>,
    warnings: &mut Vec<String>,
) -> Result<(), String> {
    let map = value("listener.security.protocol.map").unwrap_or_default();
    let map = logins::protocols(&map)?;
    for listener in &mut *listeners {
        let name = &listener.bind.name;
        listener.login = match logins::protocol_of(name, &map)? {
            Protocol::Plaintext => None,
            Protocol::SaslPlaintext => Some(logins::rules_of(name, &value, own, warnings)?),
        };
    }
    for (name, setting) in own {
        if listeners.iter().all(|listener| listener.bind.name != setting.listener) {
            warnings.push(format!(
                "{name} has no effect: there is no listener called {}",
                setting.listener
            ));
        }
    }
    Ok(())
}

fn unknown(name: &str, place: &str, at: &str) -> String {
    if logins::is_listener_name(name) {
        return format!(
            "{name} ({place}, {at}) is not a setting that a listener has here; it has no effect"
        );
    }
    if broker::is_other_kafka_name(name) {
        return format!(
            "{name} ({place}, {at}) is a setting of Kafka that this broker does not act on; it has \
             no effect"
        );
    }
    match broker::nearest_broker_name(name) {
        Some(nearest) => format!(
            "{name} ({place}, {at}) is not a setting and has no effect; did you mean {nearest}?"
        ),
        None => format!("{name} ({place}, {at}) is not a setting and has no effect"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(place: &str, settings: &[(&str, &str)]) -> Layer {
        let settings = settings.iter().enumerate().map(|(index, (name, value))| {
            ((*name).to_owned(), (*value).to_owned(), format!("line {}", index + 1))
        });
        Layer { place: place.to_owned(), settings: settings.collect() }
    }

    #[test]
    fn command_line_wins_over_file_and_file_over_default() {
        let file = layer("file a.toml", &[("num.partitions", "3"), ("log.roll.ms", "5")]);
        let line = layer("the command line", &[("num.partitions", "4")]);
        let config = Config::load(&[file, line]).unwrap();
        assert_eq!(config.static_value("num.partitions").unwrap(), "4");
        assert_eq!(config.static_value("log.roll.ms").unwrap(), "5");
        assert_eq!(config.static_value("log.segment.bytes").unwrap(), "1073741824");
        assert_eq!(config.static_value("broker.rack"), None);
        assert!(config.warnings.is_empty());
    }

    #[test]
    fn bad_value_refuses_the_start_with_place_key_value_and_range() {
        let error = Config::load(&[layer("file a.toml", &[("log.roll.ms", "7d")])]).unwrap_err();
        for part in ["log.roll.ms", "7d", "from 1 to", "file a.toml", "line 1"] {
            assert!(error.0.contains(part), "{error}");
        }
        let twice = layer("the command line", &[("node.id", "1"), ("node.id", "2")]);
        assert!(Config::load(&[twice]).unwrap_err().0.contains("given twice"));
        let dirs = layer("file a.toml", &[("log.dirs", "/a,/b")]);
        assert!(Config::load(&[dirs]).unwrap_err().0.contains("exactly one"));
    }

    #[test]
    fn admin_listener_is_parsed_and_says_whether_somebody_asked_for_it() {
        let config = Config::load(&[]).unwrap();
        let admin = config.admin.unwrap();
        assert_eq!((&*admin.bind.host, admin.bind.port, admin.given), ("127.0.0.1", 9644, false));
        let load = |value| Config::load(&[layer("file a.toml", &[("admin.listener", value)])]);
        assert!(load("127.0.0.1:9644").unwrap().admin.unwrap().given);
        assert_eq!(load("").unwrap().admin, None);
        for bad in ["9644", "http://127.0.0.1:9644", "::1:9644", "127.0.0.1:99999"] {
            assert!(load(bad).unwrap_err().0.contains("admin.listener"), "{bad}");
        }
    }

    #[test]
    fn times_of_consumer_groups_that_contradict_each_other_refuse_the_start() {
        let load = |settings: &[(&str, &str)]| Config::load(&[layer("file a.toml", settings)]);
        for (settings, names) in [
            (
                &[("group.consumer.session.timeout.ms", "6000")][..],
                ["session.timeout.ms is 6000", "group.consumer.min.session.timeout.ms"],
            ),
            (
                &[("group.consumer.heartbeat.interval.ms", "20000")],
                ["heartbeat.interval.ms is 20000", "group.consumer.max.heartbeat.interval.ms"],
            ),
            (
                &[("group.consumer.max.session.timeout.ms", "1000")],
                ["max.session.timeout.ms is 1000", "group.consumer.min.session.timeout.ms"],
            ),
            (
                &[
                    ("group.consumer.min.session.timeout.ms", "1"),
                    ("group.consumer.session.timeout.ms", "5000"),
                ],
                ["must be less than group.consumer.session.timeout.ms", "which is 5000"],
            ),
        ] {
            let error = load(settings).unwrap_err();
            assert!(names.iter().all(|name| error.0.contains(name)), "{error}");
        }
        let shorter = [
            ("group.consumer.min.session.timeout.ms", "1000"),
            ("group.consumer.session.timeout.ms", "6000"),
        ];
        assert!(load(&shorter).is_ok());
    }

    #[test]
    fn unknown_and_foreign_names_are_reported_and_have_no_effect() {
        let settings = [("log.retention.mss", "1"), ("zookeeper.connect", "x"), ("fondue", "1")];
        let config = Config::load(&[layer("file a.toml", &settings)]).unwrap();
        assert!(config.warnings[0].contains("did you mean log.retention.ms?"));
        assert!(config.warnings[1].contains("does not act on"));
        assert!(config.warnings[2].contains("is not a setting"));
    }
}
