//! The settings of a group of the consumer protocol: only those that are in force. KIP-848.
//!
//! The broker's settings give what a group has without its own, and the bounds of what it may be
//! given.

use super::broker::{BrokerConfig, parsed};
use super::nearest::nearest;
use super::setting::{Allowed, BadValue, Change, Setting};
use std::collections::BTreeMap;
use std::fmt;

/// Every setting a group has, by name. What is not here is refused.
pub const GROUP_SETTINGS: &[Setting] = &[
    group(
        "consumer.heartbeat.interval.ms",
        HEARTBEAT_NAMES.value,
        "5000",
        "How often the members of this group send a heartbeat, if they speak the consumer protocol. \
         The broker's group.consumer.min.heartbeat.interval.ms and \
         group.consumer.max.heartbeat.interval.ms bound it.",
    ),
    group(
        "consumer.session.timeout.ms",
        SESSION_NAMES.value,
        "45000",
        "A member of this group that speaks the consumer protocol and is silent for this long is \
         out. The broker's group.consumer.min.session.timeout.ms and \
         group.consumer.max.session.timeout.ms bound it; it is above the heartbeat interval. From \
         its next heartbeat on a member has the changed time.",
    ),
];

/// The settings in force for one group, parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    pub heartbeat_ms: u32,
    pub session_ms: u32,
}

/// A setting of the broker that groups may change within bounds, the bounds included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounded {
    pub value: u32,
    pub min: u32,
    pub max: u32,
    names: BoundedNames,
}

/// What its three parts are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoundedNames {
    value: &'static str,
    min: &'static str,
    max: &'static str,
}

pub(super) const HEARTBEAT_NAMES: BoundedNames = BoundedNames {
    value: "group.consumer.heartbeat.interval.ms",
    min: "group.consumer.min.heartbeat.interval.ms",
    max: "group.consumer.max.heartbeat.interval.ms",
};

pub(super) const SESSION_NAMES: BoundedNames = BoundedNames {
    value: "group.consumer.session.timeout.ms",
    min: "group.consumer.min.session.timeout.ms",
    max: "group.consumer.max.session.timeout.ms",
};

/// Why a setting of a group is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupSettingError {
    Unknown {
        key: String,
        nearest: Option<&'static str>,
    },
    Bad(BadValue),
    /// Members would be out before their next heartbeat.
    TooShortSession {
        in_force: GroupConfig,
    },
}

impl fmt::Display for GroupSettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { key, nearest: Some(nearest) } => {
                write!(f, "Unknown group config name: {key}. Did you mean {nearest}?")
            }
            Self::Unknown { key, nearest: None } => write!(
                f,
                "Unknown group config name: {key}. DescribeConfigs on a group lists the names"
            ),
            Self::Bad(bad) => bad.fmt(f),
            Self::TooShortSession { in_force } => write!(
                f,
                "consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms, \
                 and {} is not greater than {}",
                in_force.session_ms, in_force.heartbeat_ms
            ),
        }
    }
}

/// The row of `key`, or why there is none.
pub fn group_setting(key: &str) -> Result<&'static Setting, GroupSettingError> {
    if let Some(setting) = GROUP_SETTINGS.iter().find(|setting| setting.name == key) {
        return Ok(setting);
    }
    let nearest = nearest(key, GROUP_SETTINGS.iter().map(|setting| setting.name));
    let key = if key.len() > 128 { format!("({} bytes)", key.len()) } else { key.to_owned() };
    Err(GroupSettingError::Unknown { key, nearest })
}

impl GroupConfig {
    /// What is in force for a group without settings of its own.
    pub fn of_broker(broker: &BrokerConfig) -> GroupConfig {
        GroupConfig {
            heartbeat_ms: broker.consumer_heartbeat_ms.value,
            session_ms: broker.consumer_session_ms.value,
        }
    }

    /// Checks the settings of a group against the bounds and each other. Names that are not in
    /// [`GROUP_SETTINGS`] are passed over.
    pub fn check(
        own: &BTreeMap<String, String>,
        broker: &BrokerConfig,
    ) -> Result<GroupConfig, GroupSettingError> {
        let mut config = GroupConfig::of_broker(broker);
        for setting in GROUP_SETTINGS {
            if let Some(value) = own.get(setting.name) {
                let (field, bounds) = config.place(setting, broker);
                *field = bounds.check(setting, value).map_err(GroupSettingError::Bad)?;
            }
        }
        if config.session_ms <= config.heartbeat_ms {
            return Err(GroupSettingError::TooShortSession { in_force: config });
        }
        Ok(config)
    }

    /// The settings in force for a group with these of its own.
    pub fn resolve(own: &BTreeMap<String, String>, broker: &BrokerConfig) -> GroupConfig {
        let own = in_force(own, broker);
        GroupConfig::check(&own, broker).unwrap_or_else(|_| GroupConfig::of_broker(broker))
    }

    fn place(&mut self, setting: &Setting, broker: &BrokerConfig) -> (&mut u32, Bounded) {
        let (heartbeat, session) = (broker.consumer_heartbeat_ms, broker.consumer_session_ms);
        match setting.broker_name {
            Some(name) if name == HEARTBEAT_NAMES.value => (&mut self.heartbeat_ms, heartbeat),
            Some(name) if name == SESSION_NAMES.value => (&mut self.session_ms, session),
            _ => panic!("{} is a setting of groups without a field", setting.name),
        }
    }
}

/// A group's own settings as they are in force. What was stored under other bounds is moved to the
/// nearest one, as Kafka does. What another version left and means nothing here, or leaves no session
/// longer than the heartbeat interval, counts as not set.
pub fn in_force(own: &BTreeMap<String, String>, broker: &BrokerConfig) -> BTreeMap<String, String> {
    let mut scratch = GroupConfig::of_broker(broker);
    let mut found = BTreeMap::new();
    for setting in GROUP_SETTINGS {
        let Some(Ok(value)) = own.get(setting.name).map(|value| setting.check(value)) else {
            continue;
        };
        let (_, bounds) = scratch.place(setting, broker);
        found.insert(setting.name.to_owned(), bounds.nearest(&value).to_string());
    }
    match GroupConfig::check(&found, broker) {
        Ok(_) => found,
        Err(_) => BTreeMap::new(),
    }
}

/// Refuses a start with settings for groups that contradict each other, as Kafka does.
///
/// # Errors
/// In one sentence: which, and what is allowed.
pub(super) fn check_start(value: &impl Fn(&'static str) -> Option<String>) -> Result<(), String> {
    let heartbeat = Bounded::resolve(value, HEARTBEAT_NAMES);
    let session = Bounded::resolve(value, SESSION_NAMES);
    heartbeat.check_start()?;
    session.check_start()?;
    if heartbeat.value >= session.value {
        return Err(format!(
            "{} is {} and must be less than {}, which is {}",
            HEARTBEAT_NAMES.value, heartbeat.value, SESSION_NAMES.value, session.value
        ));
    }
    Ok(())
}

impl Bounded {
    pub(super) fn resolve(
        value: &impl Fn(&'static str) -> Option<String>,
        names: BoundedNames,
    ) -> Bounded {
        Bounded {
            value: parsed(value, names.value),
            min: parsed(value, names.min),
            max: parsed(value, names.max),
            names,
        }
    }

    fn check(&self, setting: &Setting, value: &str) -> Result<u32, BadValue> {
        let Bounded { min, max, names, .. } = *self;
        let checked = setting.check(value)?;
        let number = checked.parse().ok().filter(|number| (min..=max).contains(number));
        number.ok_or_else(|| BadValue {
            key: setting.name.to_owned(),
            value: checked,
            allowed: format!(
                "a whole number of milliseconds from {min} ({}) to {max} ({})",
                names.min, names.max
            ),
        })
    }

    /// The value within the bounds that is nearest to a number that passed its setting's check.
    fn nearest(&self, value: &str) -> u32 {
        value.parse::<u32>().map_or(self.value, |number| number.clamp(self.min, self.max))
    }

    fn check_start(&self) -> Result<(), String> {
        let Bounded { value, min, max, names } = *self;
        if min > max {
            return Err(format!(
                "{} is {max} and must be greater than or equal to {}, which is {min}",
                names.max, names.min
            ));
        }
        if value < min {
            return Err(format!(
                "{} is {value} and must be greater than or equal to {}, which is {min}",
                names.value, names.min
            ));
        }
        if value > max {
            return Err(format!(
                "{} is {value} and must be less than or equal to {}, which is {max}",
                names.value, names.max
            ));
        }
        Ok(())
    }
}

const fn group(
    name: &'static str,
    broker_name: &'static str,
    default: &'static str,
    doc: &'static str,
) -> Setting {
    let allowed = Allowed::Int { min: 1, max: i32::MAX as i64 };
    let (default, broker_name) = (Some(default), Some(broker_name));
    Setting { name, allowed, default, change: Change::AnyTime, broker_name, doc }
}

#[cfg(test)]
mod tests {
    use super::super::broker_setting;
    use super::*;

    fn broker(set: &[(&str, &str)]) -> BrokerConfig {
        BrokerConfig::resolve(|name| {
            let set = set.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
            set.or(broker_setting(name)?.default).map(str::to_owned)
        })
    }

    fn own(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn every_default_is_the_brokers_and_lies_in_its_bounds() {
        let broker = broker(&[]);
        assert!(GROUP_SETTINGS.windows(2).all(|pair| pair[0].name < pair[1].name));
        for setting in GROUP_SETTINGS {
            let of_broker = broker_setting(setting.broker_name.unwrap()).unwrap();
            assert_eq!(setting.default, of_broker.default, "{}", setting.name);
            assert_eq!(setting.allowed, of_broker.allowed, "{}", setting.name);
            let own = own(&[(setting.name, setting.default.unwrap())]);
            assert_eq!(GroupConfig::check(&own, &broker), Ok(GroupConfig::of_broker(&broker)));
        }
    }

    #[test]
    fn value_outside_of_the_brokers_bounds_is_refused_with_their_names() {
        let broker = broker(&[]);
        for (key, good, bad) in [
            ("consumer.session.timeout.ms", ["45000", "60000"], ["44999", "60001"]),
            ("consumer.heartbeat.interval.ms", ["5000", "15000"], ["4999", "15001"]),
        ] {
            for good in good {
                assert!(GroupConfig::check(&own(&[(key, good)]), &broker).is_ok(), "{key}={good}");
            }
            for bad in bad.into_iter().chain(["", "x", "-1", "0", "99999999999"]) {
                let text = GroupConfig::check(&own(&[(key, bad)]), &broker).unwrap_err();
                assert!(text.to_string().contains(key), "{text}");
            }
            let text = GroupConfig::check(&own(&[(key, bad[0])]), &broker).unwrap_err().to_string();
            assert!(text.contains("group.consumer.min.") && text.contains(good[1]), "{text}");
        }
    }

    #[test]
    fn session_is_longer_than_the_heartbeat_interval() {
        let broker = broker(&[("group.consumer.min.session.timeout.ms", "1000")]);
        let both = |session, heartbeat| {
            let own = own(&[
                ("consumer.session.timeout.ms", session),
                ("consumer.heartbeat.interval.ms", heartbeat),
            ]);
            GroupConfig::check(&own, &broker)
        };
        assert!(both("6001", "6000").is_ok());
        let text = both("6000", "6000").unwrap_err().to_string();
        assert!(text.contains("must be greater than consumer.heartbeat.interval.ms"), "{text}");
        // Against the broker's heartbeat interval of 5000 too.
        assert!(
            GroupConfig::check(&own(&[("consumer.session.timeout.ms", "5000")]), &broker).is_err()
        );
    }

    #[test]
    fn leftovers_of_other_bounds_are_moved_into_them_and_of_other_versions_not_set() {
        let broker = broker(&[]);
        let stored = own(&[
            ("consumer.heartbeat.interval.ms", "20000"),
            ("consumer.session.timeout.ms", "1000"),
            ("setting.of.another.version", "1"),
        ]);
        let config = GroupConfig::resolve(&stored, &broker);
        assert_eq!(config, GroupConfig { heartbeat_ms: 15_000, session_ms: 45_000 });
        assert_eq!(in_force(&stored, &broker).len(), 2);
        let strange = own(&[("consumer.heartbeat.interval.ms", "often")]);
        assert!(in_force(&strange, &broker).is_empty());
        // Each within its bounds, and together impossible: none of them.
        let broker = self::broker(&[("group.consumer.min.session.timeout.ms", "1000")]);
        let config = GroupConfig::resolve(&stored, &broker);
        assert_eq!(config, GroupConfig { heartbeat_ms: 5000, session_ms: 45_000 });
    }

    #[test]
    fn unknown_key_is_refused_with_the_nearest_name() {
        let text = group_setting("consumer.session.timeout").unwrap_err().to_string();
        assert!(text.contains("Did you mean consumer.session.timeout.ms?"), "{text}");
        let text = group_setting("share.isolation.level").unwrap_err().to_string();
        assert!(text.starts_with("Unknown group config name: share.isolation.level."), "{text}");
        assert!(group_setting(&"k".repeat(9000)).unwrap_err().to_string().len() < 300);
    }
}
