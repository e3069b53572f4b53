//! What every core knows about the cluster: replaced whole, never changed in place.

use super::group_configs::GroupConfigs;
use super::store::MetadataChange;
use super::store::{BrokerScope, Stored, TopicRecord};
use super::topic_name::{collision_form, is_internal};
use crate::authorizer::Rules;
use crate::config::{BrokerConfig, Config, TopicConfig, broker_setting};
use crate::login::scram::users::ScramUsers;
use millstream_io::runtime::log;
use millstream_io::units::{LeaderEpoch, NodeId, PartitionIndex, TopicId, TopicPartition};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

/// One topic as clients see it.
#[derive(Clone, Debug)]
pub struct Topic {
    pub id: TopicId,
    pub name: Arc<str>,
    pub partitions: u32,
    pub created_at_start: u64,
    /// The epoch under which this node leads each of its partitions.
    pub leader_epoch: LeaderEpoch,
    /// The settings given to this topic, as given.
    pub own: BTreeMap<String, String>,
    /// The settings in force.
    pub config: TopicConfig,
}

impl Topic {
    /// The partition with this number, if the topic has it.
    pub fn partition(&self, index: i32) -> Option<TopicPartition> {
        let partition = PartitionIndex::new(index)?;
        (index.unsigned_abs() < self.partitions)
            .then_some(TopicPartition { topic: self.id, partition })
    }

    /// All partitions, in order.
    pub fn all_partitions(&self) -> impl Iterator<Item = TopicPartition> + use<> {
        let topic = self.id;
        let count = i32::try_from(self.partitions).unwrap_or(i32::MAX);
        (0..count).map(move |index| TopicPartition { topic, partition: PartitionIndex::at(index) })
    }

    /// What the store keeps of it.
    pub fn record(&self) -> TopicRecord {
        TopicRecord {
            name: self.name.to_string(),
            partitions: self.partitions,
            created_at_start: self.created_at_start,
            configs: self.own.clone(),
        }
    }
}

/// An address of a broker that clients of one listener are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvertisedEndpoint {
    pub listener: String,
    pub host: String,
    pub port: u16,
}

/// A broker as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    pub id: NodeId,
    pub rack: Option<String>,
    pub endpoints: Vec<AdvertisedEndpoint>,
}

/// Where the value of a broker setting comes from; the strongest that is set wins (KIP-226).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerSource {
    DynamicNode,
    DynamicAll,
    Static,
    Default,
}

/// What this broker was started with: part of every image.
#[derive(Clone, Debug)]
pub struct Start {
    pub cluster_id: String,
    pub config: Config,
    pub brokers: Vec<Broker>,
    pub starts: u64,
}

/// The whole of the metadata at one moment. Shared by reference count; a core holds the newest one
/// and drops the one before.
#[derive(Clone, Debug)]
pub struct MetadataImage {
    pub start: Arc<Start>,
    /// Rises with every change.
    pub version: u64,
    /// The broker's settings in force.
    pub broker: Arc<BrokerConfig>,
    broker_dynamic: Arc<BTreeMap<BrokerScope, BTreeMap<String, String>>>,
    groups: Arc<GroupConfigs>,
    scram: Arc<ScramUsers>,
    rules: Arc<Rules>,
    by_id: HashMap<TopicId, Arc<Topic>>,
    by_name: BTreeMap<Arc<str>, Arc<Topic>>,
    /// Collision form of each name.
    forms: HashMap<String, Arc<str>>,
    partitions: u64,
    topics_removed: u64,
}

impl MetadataImage {
    /// The image of what the store holds at start.
    pub fn new(start: Arc<Start>, stored: &Stored) -> MetadataImage {
        let broker_dynamic = Arc::new(stored.broker_configs.clone());
        let node = start.config.node_id;
        let value = |name: &'static str| {
            let (value, _) = strongest(&start.config, &broker_dynamic, node, name);
            value
        };
        let broker = Arc::new(BrokerConfig::resolve(value));
        let mut image = MetadataImage {
            scram: Arc::new(scram_users(stored)),
            groups: Arc::new(GroupConfigs::new(&stored.group_configs, &broker)),
            rules: Arc::new(Rules::new(stored.rules.iter().cloned())),
            broker,
            start: start.clone(),
            version: 0,
            broker_dynamic: broker_dynamic.clone(),
            by_id: HashMap::new(),
            by_name: BTreeMap::new(),
            forms: HashMap::new(),
            partitions: 0,
            topics_removed: 0,
        };
        for (id, record) in &stored.topics {
            image.put(*id, record);
        }
        image
    }

    pub fn node_id(&self) -> NodeId {
        match NodeId::new(self.start.config.node_id) {
            Some(id) => id,
            None => panic!("node.id {} passed its check", self.start.config.node_id),
        }
    }

    pub fn topic_by_name(&self, name: &str) -> Option<&Arc<Topic>> {
        self.by_name.get(name)
    }

    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<Topic>> {
        self.by_id.get(&id)
    }

    /// The topic whose name collides with `name`, itself included.
    pub fn colliding_name(&self, name: &str) -> Option<&Arc<str>> {
        self.forms.get(&collision_form(name))
    }

    /// All topics by name.
    pub fn topics(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.by_name.values()
    }

    /// Topics by name, from `from` on.
    pub fn topics_from<'a>(&'a self, from: &'a str) -> impl Iterator<Item = &'a Arc<Topic>> {
        let from = (Bound::Included(from), Bound::Unbounded);
        self.by_name.range::<str, _>(from).map(|(_, topic)| topic)
    }

    pub fn topic_count(&self) -> usize {
        self.by_name.len()
    }

    /// Partitions of all topics.
    pub fn partition_count(&self) -> u64 {
        self.partitions
    }

    /// Puts a topic in, or in the place of the one with its id.
    pub fn put(&mut self, id: TopicId, record: &TopicRecord) {
        self.take(id);
        let topic = Arc::new(self.topic(id, record));
        self.forms.insert(collision_form(&topic.name), topic.name.clone());
        let before = self.by_name.insert(topic.name.clone(), topic.clone());
        assert!(before.is_none(), "two topics are called {}", topic.name);
        self.partitions += u64::from(topic.partitions);
        self.by_id.insert(id, topic);
    }

    /// How often a topic was removed: whoever keeps something of topics looks when it rises.
    pub fn topics_removed(&self) -> u64 {
        self.topics_removed
    }

    pub fn remove(&mut self, id: TopicId) -> Option<Arc<Topic>> {
        let topic = self.take(id)?;
        self.topics_removed += 1;
        Some(topic)
    }

    fn take(&mut self, id: TopicId) -> Option<Arc<Topic>> {
        let topic = self.by_id.remove(&id)?;
        self.by_name.remove(&topic.name);
        self.forms.remove(&collision_form(&topic.name));
        self.partitions -= u64::from(topic.partitions);
        Some(topic)
    }

    /// Replaces what clients have set on brokers; gives the topics whose settings in force changed.
    pub fn set_broker_dynamic(
        &mut self,
        dynamic: BTreeMap<BrokerScope, BTreeMap<String, String>>,
    ) -> Vec<Arc<Topic>> {
        self.broker_dynamic = Arc::new(dynamic);
        let resolved = BrokerConfig::resolve(|name| self.broker_value(name).0);
        self.broker = Arc::new(resolved);
        let mut changed = Vec::new();
        for topic in self.by_id.values().cloned().collect::<Vec<_>>() {
            let config = self.resolve(&topic.name, &topic.own);
            if config != topic.config {
                let topic = Arc::new(Topic { config, ..(*topic).clone() });
                self.by_id.insert(topic.id, topic.clone());
                self.by_name.insert(topic.name.clone(), topic.clone());
                changed.push(topic);
            }
        }
        changed
    }

    pub fn broker_dynamic(&self) -> &BTreeMap<BrokerScope, BTreeMap<String, String>> {
        &self.broker_dynamic
    }

    /// The settings of groups that have some. Shared by all images until one changes.
    pub fn group_configs(&self) -> &Arc<GroupConfigs> {
        &self.groups
    }

    /// Replaces all the settings of a group.
    pub fn set_group_config(&mut self, group: &str, own: BTreeMap<String, String>) {
        Arc::make_mut(&mut self.groups).put(group, own, &self.broker);
    }

    /// The users with SCRAM credentials. Shared by all images until one changes.
    pub fn scram(&self) -> &Arc<ScramUsers> {
        &self.scram
    }

    /// Puts in and takes out credentials, as these changes say.
    pub fn change_scram(&mut self, changes: &[MetadataChange]) {
        let users = Arc::make_mut(&mut self.scram);
        for change in changes {
            match change {
                MetadataChange::PutScram { user, mechanism, credential } => {
                    users.put(*mechanism, user, Some(credential.clone()));
                }
                MetadataChange::RemoveScram { user, mechanism } => {
                    users.put(*mechanism, user, None);
                }
                _ => {}
            }
        }
    }

    /// The access rules. Shared by all images until one changes.
    pub fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// Says in the log when there are access rules and nothing that obeys them.
    pub fn tell_of_idle_rules(&self) {
        if self.broker.authorizer.is_none() && !self.rules.is_empty() {
            log::warn("cluster", "access rules have no effect: authorizer.class.name is empty")
                .field("rules", self.rules.len())
                .emit();
        }
    }

    pub fn set_rules(&mut self, rules: Arc<Rules>) {
        self.rules = rules;
    }

    /// The value in force of a broker setting, and where it comes from.
    pub fn broker_value(&self, name: &str) -> (Option<String>, BrokerSource) {
        let config = &self.start.config;
        strongest(config, &self.broker_dynamic, config.node_id, name)
    }

    /// Every value that is set for a broker setting, the strongest first, the default, if it has one,
    /// last.
    pub fn broker_layers(&self, name: &str) -> Vec<(Option<String>, BrokerSource)> {
        let config = &self.start.config;
        let mut layers = dynamic_layers(&self.broker_dynamic, config.node_id, name);
        if let Some(set) = config.set.get(name) {
            layers.push((Some(set.clone()), BrokerSource::Static));
        }
        let default = broker_setting(name).and_then(|setting| setting.default);
        layers.extend(default.map(|default| (Some(default.to_owned()), BrokerSource::Default)));
        layers
    }

    /// The settings in force for a topic of this name with these of its own. What the broker's own
    /// topics hold goes when their coordinators say so, and never for its age.
    fn resolve(&self, name: &str, own: &BTreeMap<String, String>) -> TopicConfig {
        let config = TopicConfig::resolve(own, |name| self.broker_value(name).0);
        match is_internal(name) {
            true => {
                TopicConfig { compaction: None, retention_ms: -1, retention_bytes: -1, ..config }
            }
            false => config,
        }
    }

    fn topic(&self, id: TopicId, record: &TopicRecord) -> Topic {
        let (starts, created) = (self.start.starts, record.created_at_start);
        assert!(created <= starts, "topic {} was made at start {created} of {starts}", record.name);
        let Ok(epoch) = i32::try_from(starts - created) else {
            panic!("{starts} starts leave no leader epoch for topic {}", record.name);
        };
        Topic {
            id,
            name: record.name.as_str().into(),
            partitions: record.partitions,
            created_at_start: created,
            leader_epoch: LeaderEpoch::at(epoch),
            own: record.configs.clone(),
            config: self.resolve(&record.name, &record.configs),
        }
    }
}

/// The users with SCRAM credentials, as they are stored.
pub fn scram_users(stored: &Stored) -> ScramUsers {
    let mut users = ScramUsers::new(stored.salt_secret.clone());
    for ((user, mechanism), credential) in &stored.scram {
        users.put(*mechanism, user, Some(credential.clone()));
    }
    users
}

fn strongest(
    config: &Config,
    dynamic: &BTreeMap<BrokerScope, BTreeMap<String, String>>,
    node: i32,
    name: &str,
) -> (Option<String>, BrokerSource) {
    if let Some(strongest) = dynamic_layers(dynamic, node, name).into_iter().next() {
        return strongest;
    }
    let is_static = config.set.contains_key(name);
    let source = if is_static { BrokerSource::Static } else { BrokerSource::Default };
    (config.static_value(name), source)
}

/// What clients have set for a broker setting, the strongest first. A stored value that is no
/// longer valid counts as not set.
fn dynamic_layers(
    dynamic: &BTreeMap<BrokerScope, BTreeMap<String, String>>,
    node: i32,
    name: &str,
) -> Vec<(Option<String>, BrokerSource)> {
    let Some(setting) = broker_setting(name) else { return Vec::new() };
    let scopes = [
        (BrokerScope::Node(node), BrokerSource::DynamicNode),
        (BrokerScope::All, BrokerSource::DynamicAll),
    ];
    let set = scopes.into_iter().filter_map(|(scope, source)| {
        let stored = dynamic.get(&scope)?.get(name)?;
        Some((Some(setting.check(stored).ok()?), source))
    });
    set.collect()
}

#[cfg(test)]
#[path = "image_tests.rs"]
pub(crate) mod tests;
