//! Settings that groups have of their own, as every core knows them.

use crate::config::{BrokerConfig, GroupConfig};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The groups that have settings of their own, by id; whether such a group exists is another
/// matter. Part of the image.
#[derive(Clone, Debug, Default)]
pub struct GroupConfigs(BTreeMap<Arc<str>, Own>);

#[derive(Clone, Debug)]
struct Own {
    /// As given. Never empty.
    own: Arc<BTreeMap<String, String>>,
    in_force: GroupConfig,
}

impl GroupConfigs {
    /// `broker` bounds what is in force, from the start on: its settings for groups do not change
    /// while it runs.
    pub fn new(
        stored: &BTreeMap<String, BTreeMap<String, String>>,
        broker: &BrokerConfig,
    ) -> GroupConfigs {
        let mut groups = GroupConfigs::default();
        for (group, own) in stored {
            groups.put(group, own.clone(), broker);
        }
        groups
    }

    /// What is in force for a group, if it has settings of its own.
    pub fn in_force(&self, group: &str) -> Option<GroupConfig> {
        self.0.get(group).map(|own| own.in_force)
    }

    /// The settings that a group was given, as given.
    pub fn own(&self, group: &str) -> Option<&BTreeMap<String, String>> {
        self.0.get(group).map(|own| &*own.own)
    }

    /// The ids of all groups here, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|name| &**name)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces all the settings of one group; it is not here any more when there are none.
    pub fn put(&mut self, group: &str, own: BTreeMap<String, String>, broker: &BrokerConfig) {
        if own.is_empty() {
            self.0.remove(group);
            return;
        }
        let in_force = GroupConfig::resolve(&own, broker);
        self.0.insert(group.into(), Own { own: Arc::new(own), in_force });
    }
}
