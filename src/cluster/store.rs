//! What the cluster's metadata is made of, and what keeps it.
//!
//! A store is used by one thread at a time, the controller's, and may block it. What it has
//! committed is durable and comes back from [`MetadataStore::load`] after any crash.

use crate::authorizer::Rule;
use crate::login::ScramMechanism;
use crate::login::scram::credential::ScramCredential;
use millstream_io::units::TopicId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A topic as it is stored. Field names are part of the stored format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicRecord {
    pub name: String,
    pub partitions: u32,
    /// The broker's counter of starts when the topic was made. The leader epoch of its partitions
    /// is the present counter minus this, so it begins at 0 and rises with each start.
    pub created_at_start: u64,
    /// The topic's own settings, as given.
    #[serde(default)]
    pub configs: BTreeMap<String, String>,
}

/// Whose settings a stored broker setting belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BrokerScope {
    /// Every broker (DescribeConfigs shows the resource name "").
    All,
    /// The broker with this node id.
    Node(i32),
}

/// All that a store holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    pub cluster_id: Option<String>,
    /// How often the broker was started on this store.
    pub starts: u64,
    /// The first producer id that no block has taken yet.
    pub next_producer_id: i64,
    pub topics: BTreeMap<TopicId, TopicRecord>,
    /// Topics whose deletion is decided and whose files may still be there: id and name.
    pub tombstones: BTreeMap<TopicId, String>,
    pub broker_configs: BTreeMap<BrokerScope, BTreeMap<String, String>>,
    /// Settings of groups by the group's id. No group is here without one.
    pub group_configs: BTreeMap<String, BTreeMap<String, String>>,
    pub scram: BTreeMap<(String, ScramMechanism), ScramCredential>,
    /// What the salts come from that are told of users that do not exist. Empty before the first
    /// start.
    pub salt_secret: Vec<u8>,
    pub rules: BTreeSet<Rule>,
}

/// One change; a commit takes several, all or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MetadataChange {
    SetClusterId(String),
    SetStarts(u64),
    /// Producer ids below this belong to blocks that were handed out.
    SetNextProducerId(i64),
    PutTopic(TopicId, TopicRecord),
    /// Removes the topic and writes a tombstone in its place.
    RemoveTopic(TopicId),
    /// The files of a removed topic are out of the way.
    RemoveTombstone(TopicId),
    PutBrokerConfig(BrokerScope, String, String),
    RemoveBrokerConfig(BrokerScope, String),
    PutGroupConfig {
        group: String,
        key: String,
        value: String,
    },
    RemoveGroupConfig {
        group: String,
        key: String,
    },
    PutScram {
        user: String,
        mechanism: ScramMechanism,
        credential: ScramCredential,
    },
    RemoveScram {
        user: String,
        mechanism: ScramMechanism,
    },
    SetSaltSecret(Vec<u8>),
    PutRule(Rule),
    RemoveRule(Rule),
}

/// Keeps the metadata.
pub trait MetadataStore: Send {
    /// All that is committed.
    ///
    /// # Errors
    /// The store cannot be read, or was written by a newer broker.
    fn load(&mut self) -> Result<Stored, StoreError>;

    /// Makes the changes durable, all of them or none, and returns then.
    ///
    /// # Errors
    /// Nothing of the changes is in force. After [`StoreError::Full`] a later commit may succeed;
    /// after any other error the store takes no more until the broker is restarted.
    fn commit(&mut self, changes: &[MetadataChange]) -> Result<(), StoreError>;
}

/// Why the store cannot do it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreError {
    /// Another process has the store open.
    InUse { path: String },
    /// The store's format is newer than this program knows.
    Newer { path: String, found: u64, known: u64 },
    /// The bytes are not what was written.
    Damaged { path: String, what: String },
    /// No space left. `needed_bytes` are certainly enough.
    Full { path: String, needed_bytes: u64, free_bytes: u64 },
    /// The disk or the file system failed.
    Failed { path: String, what: String },
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { path } => write!(
                f,
                "the metadata store {path} is open in another process; stop that broker first"
            ),
            Self::Newer { path, found, known } => write!(
                f,
                "the metadata store {path} has format {found} and this program knows up to \
                 {known}; nothing was changed; start the newer version again"
            ),
            Self::Damaged { path, what } => write!(
                f,
                "the metadata store {path} is damaged ({what}); restore it from a backup of the \
                 data directory"
            ),
            Self::Full { path, needed_bytes, free_bytes } => write!(
                f,
                "no space left for the metadata store {path}: {free_bytes} bytes are free and \
                 {needed_bytes} bytes are needed; free some space"
            ),
            Self::Failed { path, what } => write!(
                f,
                "the metadata store {path} failed ({what}); check the disk, then restart the \
                 broker"
            ),
        }
    }
}

impl std::error::Error for StoreError {}

impl Stored {
    /// Applies one change to the copy in memory, as every store does to what it keeps.
    pub fn apply(&mut self, change: &MetadataChange) {
        match change {
            MetadataChange::SetClusterId(id) => self.cluster_id = Some(id.clone()),
            MetadataChange::SetStarts(starts) => {
                assert!(*starts > self.starts, "starts went from {} to {starts}", self.starts);
                self.starts = *starts;
            }
            MetadataChange::SetNextProducerId(next) => {
                let now = self.next_producer_id;
                assert!(*next > now, "the next producer id went from {now} to {next}");
                self.next_producer_id = *next;
            }
            MetadataChange::PutTopic(id, record) => {
                self.topics.insert(*id, record.clone());
            }
            MetadataChange::RemoveTopic(id) => {
                if let Some(record) = self.topics.remove(id) {
                    self.tombstones.insert(*id, record.name);
                }
            }
            MetadataChange::RemoveTombstone(id) => {
                self.tombstones.remove(id);
            }
            MetadataChange::PutBrokerConfig(scope, key, value) => {
                let configs = self.broker_configs.entry(scope.clone()).or_default();
                configs.insert(key.clone(), value.clone());
            }
            MetadataChange::RemoveBrokerConfig(scope, key) => {
                if let Some(configs) = self.broker_configs.get_mut(scope) {
                    configs.remove(key);
                }
            }
            MetadataChange::PutGroupConfig { group, key, value } => {
                let configs = self.group_configs.entry(group.clone()).or_default();
                configs.insert(key.clone(), value.clone());
            }
            MetadataChange::RemoveGroupConfig { group, key } => {
                if let Some(configs) = self.group_configs.get_mut(group) {
                    configs.remove(key);
                    if configs.is_empty() {
                        self.group_configs.remove(group);
                    }
                }
            }
            MetadataChange::PutScram { user, mechanism, credential } => {
                self.scram.insert((user.clone(), *mechanism), credential.clone());
            }
            MetadataChange::RemoveScram { user, mechanism } => {
                self.scram.remove(&(user.clone(), *mechanism));
            }
            MetadataChange::SetSaltSecret(secret) => self.salt_secret.clone_from(secret),
            MetadataChange::PutRule(rule) => {
                self.rules.insert(rule.clone());
            }
            MetadataChange::RemoveRule(rule) => {
                self.rules.remove(rule);
            }
        }
    }
}

/// A store in memory, of the same shape as the durable ones: for tests of what stands above it.
#[derive(Debug, Default)]
pub struct MemoryStore {
    pub stored: Stored,
    /// The next commits fail with this.
    pub failure: Option<StoreError>,
}

impl MetadataStore for MemoryStore {
    fn load(&mut self) -> Result<Stored, StoreError> {
        Ok(self.stored.clone())
    }

    fn commit(&mut self, changes: &[MetadataChange]) -> Result<(), StoreError> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        changes.iter().for_each(|change| self.stored.apply(change));
        Ok(())
    }
}
