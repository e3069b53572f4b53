//! Settings that groups have of their own, as every core knows them.

use crate::config::{BrokerConfig, GROUP_SETTINGS, GroupConfig, group};
use millstream_io::runtime::log;
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

    /// Says in the log, in one line, when settings are not in force as they were given: the broker's
    /// bounds were other ones then.
    pub fn tell_of_leftovers(&self, broker: &BrokerConfig) {
        let (count, first) = self.leftovers(broker);
        if let Some(first) = first {
            log::warn("cluster", "stored settings of groups lie outside of the broker's bounds")
                .field("groups", count)
                .field("first", first)
                .field("then", "the nearest values are in force; DescribeConfigs shows them")
                .emit();
        }
    }

    fn leftovers(&self, broker: &BrokerConfig) -> (usize, Option<&str>) {
        let mut left = self.0.iter().filter(|(_, Own { own, .. })| {
            let in_force = group::in_force(own, broker);
            GROUP_SETTINGS.iter().any(|setting| own.get(setting.name) != in_force.get(setting.name))
        });
        let first = left.next().map(|(name, _)| &**name);
        (usize::from(first.is_some()) + left.count(), first)
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

#[cfg(test)]
mod tests {
    use super::super::image::tests::image;
    use super::super::store::Stored;

    #[test]
    fn settings_that_other_bounds_allowed_are_told_of_and_moved_into_the_bounds() {
        let mut stored = Stored { starts: 1, ..Stored::default() };
        let mut set = |group: &str, key: &str, value: &str| {
            let own = [(key.to_owned(), value.to_owned())].into();
            stored.group_configs.insert(group.to_owned(), own);
        };
        set("a", "consumer.session.timeout.ms", "50000");
        set("b", "consumer.session.timeout.ms", "6000");
        set("c", "consumer.heartbeat.interval.ms", "1000");
        set("d", "setting.of.another.version", "1");
        let image = image(&stored);
        let groups = image.group_configs();
        assert_eq!(groups.leftovers(&image.broker), (2, Some("b")));
        let session_ms = |group| groups.in_force(group).unwrap().session_ms;
        assert_eq!(["a", "b", "c", "d"].map(session_ms), [50_000, 45_000, 45_000, 45_000]);
        assert_eq!(groups.in_force("c").unwrap().heartbeat_ms, 5000);
        assert_eq!(groups.in_force("e"), None);
    }
}
