//! Decides what a change does to the metadata: looks at an image, gives records.

mod group;

pub use group::plan_group_configs;

use super::change::{
    ConfigChange, ConfigOp, ConfigOpKind, MorePartitions, NewTopic, Refused, TopicRef,
};
use super::image::{MetadataImage, Topic};
use super::limits::{PARTITIONS_PER_REQUEST_MAX, PARTITIONS_PER_TOPIC_MAX};
use super::store::{BrokerScope, MetadataChange, TopicRecord};
use super::topic_name::check_topic_name;
use crate::config::logins::KERBEROS_NAME;
use crate::config::topic::check_together;
use crate::config::{Change, Setting, TopicSettingError, broker_setting, topic_setting};
use millstream_io::runtime::log;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// What a new topic will be, or why it may not be. The image does not hold it yet.
pub fn plan_topic(image: &MetadataImage, new: &NewTopic) -> Result<TopicRecord, Refused> {
    check_topic_name(&new.name).map_err(Refused::BadName)?;
    if image.topic_by_name(&new.name).is_some() {
        return Err(Refused::TopicExists { name: new.name.clone() });
    }
    if let Some(with) = image.colliding_name(&new.name) {
        return Err(Refused::NameCollides { name: new.name.clone(), with: with.to_string() });
    }
    let configs = plan_new_configs(&new.configs)?;
    let partitions = match new.assignments.is_empty() {
        true => planned_count(image, new)?,
        false => assigned_count(image, new)?,
    };
    let created_at_start = image.start.starts;
    Ok(TopicRecord { name: new.name.clone(), partitions, created_at_start, configs })
}

/// Refuses what one request may not ask for in all.
pub fn check_request_size(partitions: u64) -> Result<(), Refused> {
    if partitions <= u64::from(PARTITIONS_PER_REQUEST_MAX) {
        return Ok(());
    }
    Err(Refused::TooMany {
        what: format!(
            "Excessively large number of partitions per request: {partitions}, at most \
             {PARTITIONS_PER_REQUEST_MAX}; ask for fewer at a time."
        ),
    })
}

/// Names (or ids) that a request gives more than once.
pub fn doubles<T: std::hash::Hash + Eq + Clone>(items: impl Iterator<Item = T>) -> HashSet<T> {
    let mut seen = HashSet::new();
    items.filter(|item| !seen.insert(item.clone())).collect()
}

/// The topic that a deletion means.
pub fn plan_deletion(image: &MetadataImage, topic: &TopicRef) -> Result<Arc<Topic>, Refused> {
    let found = match topic {
        TopicRef::Name(name) => image.topic_by_name(name).ok_or(Refused::UnknownTopic),
        TopicRef::Id(id) => image.topic_by_id(*id).ok_or(Refused::UnknownTopicId { id: *id }),
    }?;
    if !image.broker.delete_topic {
        return Err(Refused::DeletionDisabled);
    }
    Ok(found.clone())
}

/// A topic with more partitions.
pub fn plan_partitions(
    image: &MetadataImage,
    more: &MorePartitions,
) -> Result<(Arc<Topic>, TopicRecord), Refused> {
    let topic = image.topic_by_name(&more.name).ok_or(Refused::UnknownTopic)?;
    let has = topic.partitions;
    let count = match u32::try_from(more.count) {
        Ok(count) if count > has => count,
        Ok(count) if count == has => {
            return partitions(format!("Topic already has {has} partition(s)."));
        }
        _ => {
            return partitions(format!(
                "The topic {} currently has {has} partition(s); {} would not be an increase.",
                more.name, more.count
            ));
        }
    };
    check_topic_size(count)?;
    if let Some(assignments) = &more.assignments {
        let added = u64::from(count - has);
        if u64::try_from(assignments.len()) != Ok(added) {
            return Err(Refused::Assignment {
                what: format!(
                    "Attempted to add {added} additional partition(s), but only {} assignment(s) \
                     were specified.",
                    assignments.len()
                ),
            });
        }
        assignments.iter().try_for_each(|replicas| check_replicas(image, replicas))?;
    }
    Ok((topic.clone(), TopicRecord { partitions: count, ..topic.record() }))
}

/// The own settings of a topic after a change.
pub fn plan_topic_configs(
    topic: &Topic,
    in_force: impl Fn(&Setting) -> String,
    change: &ConfigChange,
) -> Result<BTreeMap<String, String>, Refused> {
    let ops = match change {
        ConfigChange::Some(ops) => ops,
        ConfigChange::All(pairs) => return plan_new_configs(pairs),
    };
    check_single(ops)?;
    let mut own = topic.own.clone();
    for op in ops {
        let leftover = op.kind == ConfigOpKind::Delete && own.contains_key(&op.key);
        let setting = match topic_setting(&op.key) {
            Ok(setting) => setting,
            Err(_) if leftover => {
                own.remove(&op.key);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        match changed_value(setting, op, || in_force(setting))? {
            Some(value) => own.insert(op.key.clone(), value),
            None => own.remove(&op.key),
        };
    }
    check_together(&own)?;
    Ok(own)
}

/// The stored settings of one broker, or of all, after a change.
pub fn plan_broker_configs(
    image: &MetadataImage,
    scope: &BrokerScope,
    change: &ConfigChange,
) -> Result<BTreeMap<String, String>, Refused> {
    if let BrokerScope::Node(id) = scope
        && image.start.brokers.iter().all(|broker| broker.id.get() != *id)
    {
        let expected = image.start.config.node_id;
        return Err(Refused::UnknownBroker { expected, got: *id });
    }
    let stored = image.broker_dynamic().get(scope).cloned().unwrap_or_default();
    let (mut own, ops) = match change {
        ConfigChange::Some(ops) => (stored, ops.clone()),
        ConfigChange::All(pairs) => (BTreeMap::new(), sets(pairs)),
    };
    check_single(&ops)?;
    for op in &ops {
        let Some(setting) = broker_setting(&op.key) else {
            if op.kind == ConfigOpKind::Delete && own.remove(&op.key).is_some() {
                continue;
            }
            return Err(Refused::BrokerConfig { what: unknown_broker_key(&op.key) });
        };
        if setting.change == Change::AtStart {
            return Err(Refused::Request {
                what: format!(
                    "Cannot update {} while the broker runs: set it in the file or on the \
                     command line and restart.",
                    op.key
                ),
            });
        }
        let in_force = || image.broker_value(&op.key).0.unwrap_or_default();
        let changed = changed_value(setting, op, in_force).map_err(|refused| match refused {
            // Apache Kafka tells brokers' settings from topics' here.
            Refused::BadValue(bad) => Refused::Request { what: bad.to_string() },
            refused => refused,
        });
        match changed? {
            Some(value) => own.insert(op.key.clone(), value),
            None => own.remove(&op.key),
        };
    }
    Ok(own)
}

/// Says in the log that a setting was changed which is kept and has no effect.
pub fn tell_of_no_effect(changes: &[MetadataChange]) {
    for change in changes {
        if let MetadataChange::PutBrokerConfig(_, key, value) = change
            && key == KERBEROS_NAME
        {
            log::warn(
                "cluster",
                "a setting was changed that has no effect: Kerberos is not served",
            )
            .field("setting", key)
            .field("value", value)
            .emit();
        }
    }
}

/// Checks the settings of a new topic, or all settings of an old one.
fn plan_new_configs(
    pairs: &[(String, Option<String>)],
) -> Result<BTreeMap<String, String>, Refused> {
    let mut own = BTreeMap::new();
    for (key, value) in pairs {
        let setting = topic_setting(key)?;
        let Some(value) = value else {
            return Err(TopicSettingError::Null { key: key.clone() }.into());
        };
        let value = setting.check(value).map_err(TopicSettingError::Bad)?;
        if own.insert(key.clone(), value).is_some() {
            return Err(TopicSettingError::Twice { key: key.clone() }.into());
        }
    }
    check_together(&own)?;
    Ok(own)
}

/// The value a setting has after `op`; `None` is no value of its own. `in_force` is what append
/// and subtract begin from.
fn changed_value(
    setting: &Setting,
    op: &ConfigOp,
    in_force: impl FnOnce() -> String,
) -> Result<Option<String>, Refused> {
    if op.kind == ConfigOpKind::Delete {
        return Ok(None);
    }
    let Some(value) = &op.value else {
        return Err(Refused::Request { what: format!("Null value not supported for {}", op.key) });
    };
    let value = match op.kind {
        ConfigOpKind::Set | ConfigOpKind::Delete => value.clone(),
        ConfigOpKind::Append | ConfigOpKind::Subtract if !setting.is_list() => {
            return Err(TopicSettingError::NotAList { key: op.key.clone() }.into());
        }
        ConfigOpKind::Append => appended(&in_force(), value),
        ConfigOpKind::Subtract => subtracted(&in_force(), value),
    };
    Ok(Some(setting.check(&value).map_err(Refused::BadValue)?))
}

fn appended(list: &str, more: &str) -> String {
    let mut items: Vec<&str> = items(list);
    for item in self::items(more) {
        if !items.contains(&item) {
            items.push(item);
        }
    }
    items.join(",")
}

fn subtracted(list: &str, less: &str) -> String {
    let less = items(less);
    items(list).into_iter().filter(|item| !less.contains(item)).collect::<Vec<_>>().join(",")
}

fn items(list: &str) -> Vec<&str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty()).collect()
}

fn sets(pairs: &[(String, Option<String>)]) -> Vec<ConfigOp> {
    let set = |(key, value): &(String, Option<String>)| ConfigOp {
        key: key.clone(),
        kind: ConfigOpKind::Set,
        value: value.clone(),
    };
    pairs.iter().map(set).collect()
}

fn check_single(ops: &[ConfigOp]) -> Result<(), Refused> {
    match doubles(ops.iter().map(|op| op.key.as_str())).into_iter().next() {
        Some(key) => {
            Err(Refused::Request { what: format!("Error due to duplicate config keys: {key}") })
        }
        None => Ok(()),
    }
}

fn unknown_broker_key(key: &str) -> String {
    if crate::config::broker::is_other_kafka_name(key) {
        return format!(
            "Broker config {key} is known to Kafka but this broker does not act on it, so it is \
             refused"
        );
    }
    match crate::config::broker::nearest_broker_name(key) {
        Some(nearest) => format!("Unknown broker config name: {key}. Did you mean {nearest}?"),
        None => {
            "Unknown broker config name. DescribeConfigs on a broker lists the names".to_owned()
        }
    }
}

fn planned_count(image: &MetadataImage, new: &NewTopic) -> Result<u32, Refused> {
    let brokers = image.start.brokers.len();
    let factor = new.replication_factor;
    let reachable =
        factor == -1 || usize::try_from(factor).is_ok_and(|f| (1..=brokers).contains(&f));
    if !reachable {
        return Err(Refused::ReplicationFactor { got: factor, brokers });
    }
    let count = match new.partitions {
        -1 => image.broker.partitions_default,
        count => match u32::try_from(count) {
            Ok(count) if count > 0 => count,
            _ => {
                return partitions(format!(
                    "Number of partitions was set to an invalid non-positive value ({count})."
                ));
            }
        },
    };
    check_topic_size(count)?;
    Ok(count)
}

/// A topic whose replicas the client chose: this node for each partition, 0, 1, 2, …
fn assigned_count(image: &MetadataImage, new: &NewTopic) -> Result<u32, Refused> {
    if new.replication_factor != -1 {
        return request(
            "A manual partition assignment was specified, but replication factor was not set \
             to -1.",
        );
    }
    if new.partitions != -1 {
        return request(
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        );
    }
    let mut indexes: Vec<i32> = new.assignments.iter().map(|(index, _)| *index).collect();
    indexes.sort_unstable();
    if indexes.iter().zip(0..).any(|(index, expected)| *index != expected) {
        let what = "partitions should be a consecutive 0-based integer sequence".to_owned();
        return Err(Refused::Assignment { what });
    }
    new.assignments.iter().try_for_each(|(_, replicas)| check_replicas(image, replicas))?;
    let Ok(count) = u32::try_from(indexes.len()) else {
        return partitions("too many partitions".to_owned());
    };
    check_topic_size(count)?;
    Ok(count)
}

/// Whether a partition may have these replicas: on a single node itself, once.
///
/// # Errors
/// [`Refused::Assignment`].
pub fn check_replicas(image: &MetadataImage, replicas: &[i32]) -> Result<(), Refused> {
    let refuse = |what: String| Err(Refused::Assignment { what });
    if replicas.is_empty() {
        return refuse("The manual partition assignment includes an empty replica list.".into());
    }
    if let Some(id) = doubles(replicas.iter()).into_iter().next() {
        return refuse(format!(
            "The manual partition assignment includes the broker {id} more than once."
        ));
    }
    let known = |id: &i32| image.start.brokers.iter().any(|broker| broker.id.get() == *id);
    match replicas.iter().find(|id| !known(id)) {
        Some(id) => refuse(format!(
            "The manual partition assignment includes broker {id}, but no such broker is \
             registered."
        )),
        None => Ok(()),
    }
}

fn check_topic_size(count: u32) -> Result<(), Refused> {
    if count <= PARTITIONS_PER_TOPIC_MAX {
        return Ok(());
    }
    partitions(format!(
        "{count} partitions are too many for one topic; at most {PARTITIONS_PER_TOPIC_MAX}"
    ))
}

fn partitions<T>(what: String) -> Result<T, Refused> {
    Err(Refused::Partitions { what })
}

fn request<T>(what: &str) -> Result<T, Refused> {
    Err(Refused::Request { what: what.to_owned() })
}
