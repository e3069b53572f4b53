//! Makes changes to the metadata, one after the other, on one ordinary thread.
//!
//! The order of a creation: check, open the partitions on their cores (nobody can name them yet),
//! commit, publish the image to every core and wait until all have it, answer. So what was
//! answered is durable and at once visible on every core, and what failed left nothing.
//!
//! The order of a deletion: commit the removal with a tombstone, publish, close the partitions,
//! move the directory aside, remove the tombstone, answer; the files go in the background.

use super::change::{
    ConfigChange, ConfigTarget, CreatedTopic, MorePartitions, NewTopic, Refused, TopicRef,
};
use super::image::{MetadataImage, Topic};
use super::limits::PRODUCER_IDS_PER_BLOCK;
use super::plan;
use super::store::{BrokerScope, MetadataChange, MetadataStore, StoreError, Stored, TopicRecord};
use crate::authorizer::Rules;
use crate::config::TopicConfig;
use millstream_io::runtime::log;
use millstream_io::units::{LeaderEpoch, TopicId, TopicPartition};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// A partition to open on the core that owns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPartition {
    pub at: TopicPartition,
    pub topic_name: Arc<str>,
    pub epoch: LeaderEpoch,
    pub config: TopicConfig,
}

/// The cores as the controller sees them. Every call returns when all cores concerned are done.
pub trait Cores: Send {
    /// # Errors
    /// The partitions do not fit; some of them may be open.
    fn open(&mut self, partitions: Vec<NewPartition>) -> Result<(), String>;
    fn configure(&mut self, topic: TopicId, config: TopicConfig);
    /// Closes what is open of the topic.
    fn drop_topic(&mut self, topic: TopicId);
    /// Gives the image to every core.
    fn publish(&mut self, image: Arc<MetadataImage>);
}

/// The directories of topics.
pub trait TopicDirectories: Send {
    /// Moves what there is of a deleted topic out of the way, durably, and has it removed in the
    /// background when `delay` has passed. Doing it again is no error.
    ///
    /// # Errors
    /// In words; the tombstone stays, and the next start tries again.
    fn set_aside(&mut self, name: &str, id: TopicId, delay: Duration) -> Result<(), String>;
}

/// The state of the controller. Lives on its thread.
pub struct Controller<S, C, D> {
    store: S,
    cores: C,
    directories: D,
    image: MetadataImage,
    next_producer_id: i64,
    /// Deleted topics whose directories could not be set aside yet.
    tombstones: BTreeMap<TopicId, String>,
}

impl<S: MetadataStore, C: Cores, D: TopicDirectories> Controller<S, C, D> {
    /// `image` is what the cores have been started with; it and `stored` are what `store` holds.
    pub fn new(
        store: S,
        cores: C,
        directories: D,
        image: MetadataImage,
        stored: &Stored,
    ) -> Controller<S, C, D> {
        let next_producer_id = stored.next_producer_id;
        let tombstones = stored.tombstones.clone();
        Controller { store, cores, directories, image, next_producer_id, tombstones }
    }

    /// Creates topics; an answer for each, in order. With `validate_only` nothing happens.
    pub fn create_topics(
        &mut self,
        topics: &[NewTopic],
        validate_only: bool,
    ) -> Vec<Result<CreatedTopic, Refused>> {
        let doubles = plan::doubles(topics.iter().map(|topic| topic.name.as_str()));
        if !validate_only {
            self.free_names(topics);
        }
        // Planned one after the other on a copy, so that two of one request cannot collide.
        let mut scratch = self.image.clone();
        let mut partitions = 0;
        let mut answers = Vec::with_capacity(topics.len());
        for new in topics {
            let planned = match doubles.contains(new.name.as_str()) {
                true => Err(Refused::Request { what: "Duplicate topic name.".to_owned() }),
                false if self.tombstones.values().any(|name| *name == new.name) => {
                    Err(Refused::NameNotFree { name: new.name.clone() })
                }
                false => plan::plan_topic(&scratch, new),
            };
            answers.push(planned.and_then(|record| {
                let id = new_topic_id(&scratch)?;
                scratch.put(id, &record);
                partitions += u64::from(record.partitions);
                Ok((id, record))
            }));
        }
        if let Err(refused) = plan::check_request_size(partitions) {
            return topics.iter().map(|_| Err(refused.clone())).collect();
        }
        if validate_only {
            return answers
                .into_iter()
                .map(|a| a.map(|(_, r)| created(TopicId::ZERO, &r)))
                .collect();
        }
        self.carry_out_creation(answers, &scratch)
    }

    /// Opens, commits and publishes planned topics.
    fn carry_out_creation(
        &mut self,
        planned: Vec<Result<(TopicId, TopicRecord), Refused>>,
        scratch: &MetadataImage,
    ) -> Vec<Result<CreatedTopic, Refused>> {
        let opened: Vec<_> = planned
            .into_iter()
            .map(|answer| {
                let (id, record) = answer?;
                let Some(topic) = scratch.topic_by_id(id) else {
                    panic!("topic {id} was just put in");
                };
                if let Err(what) = self.cores.open(new_partitions(topic, 0)) {
                    self.cores.drop_topic(id); // Some of them may be open.
                    return Err(Refused::TooMany { what });
                }
                Ok((id, record))
            })
            .collect();
        let puts: Vec<_> = opened
            .iter()
            .flatten()
            .map(|(id, record)| MetadataChange::PutTopic(*id, record.clone()))
            .collect();
        if let Err(error) = self.commit(&puts) {
            for (id, _) in opened.iter().flatten() {
                self.cores.drop_topic(*id);
            }
            let failed = |answer: Result<_, Refused>| {
                answer.and_then(|_: (TopicId, TopicRecord)| Err(Refused::Store(error.clone())))
            };
            return opened.into_iter().map(failed).collect();
        }
        if !puts.is_empty() {
            opened.iter().flatten().for_each(|(id, record)| self.image.put(*id, record));
            self.publish();
        }
        opened.into_iter().map(|answer| answer.map(|(id, r)| created(id, &r))).collect()
    }

    /// Deletes topics; for each its name and id, or why not.
    pub fn delete_topics(&mut self, topics: &[TopicRef]) -> Vec<Result<Arc<Topic>, Refused>> {
        let answers: Vec<_> =
            topics.iter().map(|topic| plan::plan_deletion(&self.image, topic)).collect();
        // A topic may be named twice, by name and by id: the doors refuse that, this stays right.
        let mut gone: BTreeMap<TopicId, Arc<Topic>> = BTreeMap::new();
        for topic in answers.iter().flatten() {
            gone.insert(topic.id, topic.clone());
        }
        let removals: Vec<_> = gone.keys().map(|id| MetadataChange::RemoveTopic(*id)).collect();
        if let Err(error) = self.commit(&removals) {
            let failed = |answer: Result<Arc<Topic>, Refused>| {
                answer.and_then(|_| Err(Refused::Store(error.clone())))
            };
            return answers.into_iter().map(failed).collect();
        }
        if removals.is_empty() {
            return answers;
        }
        for id in gone.keys() {
            self.image.remove(*id);
        }
        self.publish();
        let named = |topic: &Arc<Topic>| {
            let delay = Duration::from_millis(topic.config.file_delete_delay_ms.unsigned_abs());
            (topic.id, topic.name.to_string(), delay)
        };
        self.clear_away(gone.values().map(named));
        answers
    }

    /// Tries again to set aside the directories of deleted topics whose names are wanted: a new
    /// topic must never meet the files of an old one.
    fn free_names(&mut self, topics: &[NewTopic]) {
        let is_wanted = |name: &String| topics.iter().any(|topic| topic.name == *name);
        let wanted = self.tombstones.iter().filter(|(_, name)| is_wanted(name));
        let wanted: Vec<_> = wanted.map(|(id, name)| (*id, name.clone(), Duration::ZERO)).collect();
        if !wanted.is_empty() {
            self.clear_away(wanted.into_iter());
        }
    }

    /// Closes deleted topics, moves their directories aside and removes their tombstones. The
    /// deletion is decided already: what fails here is tried again at the next start.
    fn clear_away(&mut self, topics: impl Iterator<Item = (TopicId, String, Duration)>) {
        let mut cleared = Vec::new();
        for (id, name, delay) in topics {
            self.cores.drop_topic(id);
            self.tombstones.insert(id, name.clone());
            match self.directories.set_aside(&name, id, delay) {
                Ok(()) => {
                    self.tombstones.remove(&id);
                    cleared.push(MetadataChange::RemoveTombstone(id));
                }
                Err(reason) => log::warn("cluster", "a deleted topic's files are still in place")
                    .field("topic", &name)
                    .field("id", id)
                    .field("reason", reason)
                    .field("then", "the next start removes them")
                    .emit(),
            }
        }
        if let Err(error) = self.commit(&cleared) {
            log::warn("cluster", "tombstones of deleted topics stay until the next start")
                .field("reason", error)
                .emit();
        }
    }

    /// Adds partitions to topics; an answer for each, in order.
    pub fn create_partitions(
        &mut self,
        changes: &[MorePartitions],
        validate_only: bool,
    ) -> Vec<Result<(), Refused>> {
        let doubles = plan::doubles(changes.iter().map(|change| change.name.as_str()));
        let mut added = 0;
        let planned: Vec<_> = changes
            .iter()
            .map(|change| {
                if doubles.contains(change.name.as_str()) {
                    return Err(Refused::Request { what: "Duplicate topic name.".to_owned() });
                }
                let (topic, record) = plan::plan_partitions(&self.image, change)?;
                added += u64::from(record.partitions - topic.partitions);
                Ok((topic, record))
            })
            .collect();
        if let Err(refused) = plan::check_request_size(added) {
            return changes.iter().map(|_| Err(refused.clone())).collect();
        }
        if validate_only {
            return planned.into_iter().map(|answer| answer.map(|_| ())).collect();
        }
        let answers: Vec<_> = planned
            .into_iter()
            .map(|answer| answer.and_then(|(topic, record)| self.grow(&topic, &record)))
            .collect();
        if answers.iter().any(Result::is_ok) {
            self.publish();
        }
        answers
    }

    /// Opens before it commits. When either fails, new partitions may stay open that no client can
    /// name; a later growth takes them over.
    fn grow(&mut self, topic: &Topic, record: &TopicRecord) -> Result<(), Refused> {
        let mut scratch = self.image.clone();
        scratch.put(topic.id, record);
        let Some(grown) = scratch.topic_by_id(topic.id) else {
            panic!("topic {} was just put in", topic.name);
        };
        self.cores
            .open(new_partitions(grown, topic.partitions))
            .map_err(|what| Refused::TooMany { what })?;
        self.commit(&[MetadataChange::PutTopic(topic.id, record.clone())])?;
        self.image = scratch;
        Ok(())
    }

    /// Changes settings; an answer for each target, in order.
    pub fn alter_configs(
        &mut self,
        changes: &[(ConfigTarget, ConfigChange)],
        validate_only: bool,
    ) -> Vec<Result<(), Refused>> {
        let answers: Vec<_> = changes
            .iter()
            .map(|(target, change)| match target {
                ConfigTarget::Topic(name) => self.alter_topic(name, change, validate_only),
                ConfigTarget::Broker(id) => {
                    let scope = id.map_or(BrokerScope::All, BrokerScope::Node);
                    self.alter_broker(&scope, change, validate_only)
                }
                ConfigTarget::Group(group) => self.alter_group(group, change, validate_only),
            })
            .collect();
        if !validate_only && answers.iter().any(Result::is_ok) {
            self.publish();
        }
        answers
    }

    fn alter_topic(
        &mut self,
        name: &str,
        change: &ConfigChange,
        validate_only: bool,
    ) -> Result<(), Refused> {
        let topic = self.image.topic_by_name(name).ok_or(Refused::UnknownTopic)?.clone();
        let in_force = |setting: &crate::config::Setting| {
            let of_broker = |name| self.image.broker_value(name).0;
            crate::config::topic::in_force(setting, &topic.own, of_broker)
        };
        let configs = plan::plan_topic_configs(&topic, in_force, change)?;
        if validate_only || configs == topic.own {
            return Ok(());
        }
        let record = TopicRecord { configs, ..topic.record() };
        self.commit(&[MetadataChange::PutTopic(topic.id, record.clone())])?;
        self.image.put(topic.id, &record);
        if let Some(changed) = self.image.topic_by_id(topic.id)
            && changed.config != topic.config
        {
            self.cores.configure(topic.id, changed.config);
        }
        Ok(())
    }

    fn alter_broker(
        &mut self,
        scope: &BrokerScope,
        change: &ConfigChange,
        validate_only: bool,
    ) -> Result<(), Refused> {
        let after = plan::plan_broker_configs(&self.image, scope, change)?;
        let mut all = self.image.broker_dynamic().clone();
        let before = all.insert(scope.clone(), after.clone()).unwrap_or_default();
        let removed = before.keys().filter(|key| !after.contains_key(*key));
        let removed =
            removed.map(|key| MetadataChange::RemoveBrokerConfig(scope.clone(), key.clone()));
        let put = after.iter().filter(|(key, value)| before.get(*key) != Some(value));
        let put = put.map(|(key, value)| {
            MetadataChange::PutBrokerConfig(scope.clone(), key.clone(), value.clone())
        });
        let changes: Vec<_> = removed.chain(put).collect();
        if validate_only || changes.is_empty() {
            return Ok(());
        }
        self.commit(&changes)?;
        plan::tell_of_no_effect(&changes);
        for topic in self.image.set_broker_dynamic(all) {
            self.cores.configure(topic.id, topic.config);
        }
        Ok(())
    }

    fn alter_group(
        &mut self,
        group: &str,
        change: &ConfigChange,
        validate_only: bool,
    ) -> Result<(), Refused> {
        let after = plan::plan_group_configs(&self.image, group, change)?;
        let before = self.image.group_configs().own(group).cloned().unwrap_or_default();
        let removed = before.keys().filter(|key| !after.contains_key(*key));
        let removed = removed.map(|key| MetadataChange::RemoveGroupConfig {
            group: group.to_owned(),
            key: key.clone(),
        });
        let put = after.iter().filter(|(key, value)| before.get(*key) != Some(value));
        let put = put.map(|(key, value)| MetadataChange::PutGroupConfig {
            group: group.to_owned(),
            key: key.clone(),
            value: value.clone(),
        });
        let changes: Vec<_> = removed.chain(put).collect();
        if validate_only || changes.is_empty() {
            return Ok(());
        }
        self.commit(&changes)?;
        self.image.set_group_config(group, after);
        Ok(())
    }

    /// A block of producer ids that nobody else gets, now or after any crash.
    pub fn producer_ids(&mut self) -> Result<Range<i64>, Refused> {
        let first = self.next_producer_id;
        let Some(next) = first.checked_add(PRODUCER_IDS_PER_BLOCK) else {
            return Err(Refused::TooMany { what: "all producer ids are used up".to_owned() });
        };
        self.commit(&[MetadataChange::SetNextProducerId(next)])?;
        self.next_producer_id = next;
        Ok(first..next)
    }

    pub fn image(&self) -> &MetadataImage {
        &self.image
    }

    /// Lets credentials that are committed be in force.
    pub(super) fn change_scram(&mut self, changes: &[MetadataChange]) {
        self.image.change_scram(changes);
        self.publish();
    }

    pub(super) fn commit(&mut self, changes: &[MetadataChange]) -> Result<(), StoreError> {
        if changes.is_empty() {
            return Ok(());
        }
        self.store.commit(changes).inspect_err(|error| {
            log::error("cluster", "a change of the metadata was not stored")
                .field("reason", error)
                .emit();
        })
    }

    /// Shows every core these access rules.
    pub(super) fn replace_rules(&mut self, rules: Arc<Rules>) {
        self.image.set_rules(rules);
        self.publish();
    }

    fn publish(&mut self) {
        self.image.version += 1;
        self.cores.publish(Arc::new(self.image.clone()));
    }
}

/// The partitions of a topic from number `from` on.
pub fn new_partitions(topic: &Topic, from: u32) -> Vec<NewPartition> {
    let partition = |at| NewPartition {
        at,
        topic_name: topic.name.clone(),
        epoch: topic.leader_epoch,
        config: topic.config,
    };
    let skip = usize::try_from(from).unwrap_or(usize::MAX);
    topic.all_partitions().skip(skip).map(partition).collect()
}

fn new_topic_id(image: &MetadataImage) -> Result<TopicId, Refused> {
    loop {
        let id = TopicId::random().map_err(|error| Refused::TooMany {
            what: format!("the system has no random bytes for a topic id: {error}"),
        })?;
        if image.topic_by_id(id).is_none() {
            return Ok(id);
        }
    }
}

fn created(id: TopicId, record: &TopicRecord) -> CreatedTopic {
    CreatedTopic { id, partitions: record.partitions, configs: record.configs.clone() }
}

#[cfg(test)]
#[path = "controller_tests.rs"]
mod tests;
