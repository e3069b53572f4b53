//! The controller's thread and the handle by which doors reach it.

use super::change::{
    ConfigChange, ConfigTarget, CreatedTopic, MorePartitions, NewTopic, Refused, TopicRef,
};
use super::controller::{Controller, Cores, TopicDirectories};
use super::image::Topic;
use super::limits::CHANGES_WAITING_MAX;
use super::scram_change::ScramAlteration;
use super::store::MetadataStore;
use crate::authorizer::{Rule, RuleFilter};
use millstream_io::runtime::{Promise, oneshot};
use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;

/// What can be asked of the controller.
enum Change {
    CreateTopics(Vec<NewTopic>, bool, Promise<Vec<Result<CreatedTopic, Refused>>>),
    DeleteTopics(Vec<TopicRef>, Promise<Vec<Result<Arc<Topic>, Refused>>>),
    CreatePartitions(Vec<MorePartitions>, bool, Promise<Vec<Result<(), Refused>>>),
    AlterConfigs(Vec<(ConfigTarget, ConfigChange)>, bool, Promise<Vec<Result<(), Refused>>>),
    AlterScram(Vec<ScramAlteration>, Promise<Vec<(String, Result<(), Refused>)>>),
    CreateRules(Vec<Rule>, Promise<Vec<Result<(), Refused>>>),
    DeleteRules(Vec<RuleFilter>, Promise<Vec<Result<Vec<Arc<Rule>>, Refused>>>),
    ProducerIds(Promise<Result<Range<i64>, Refused>>),
}

/// Reaches the controller from any core. When too many changes wait, a call is refused with
/// [`Refused::Busy`]; it never waits for room.
#[derive(Clone)]
pub struct ControllerHandle {
    changes: flume::Sender<Change>,
}

impl ControllerHandle {
    pub async fn create_topics(
        &self,
        topics: Vec<NewTopic>,
        validate_only: bool,
    ) -> Result<Vec<Result<CreatedTopic, Refused>>, Refused> {
        self.ask(|done| Change::CreateTopics(topics, validate_only, done)).await
    }

    pub async fn delete_topics(
        &self,
        topics: Vec<TopicRef>,
    ) -> Result<Vec<Result<Arc<Topic>, Refused>>, Refused> {
        self.ask(|done| Change::DeleteTopics(topics, done)).await
    }

    pub async fn create_partitions(
        &self,
        topics: Vec<MorePartitions>,
        validate_only: bool,
    ) -> Result<Vec<Result<(), Refused>>, Refused> {
        self.ask(|done| Change::CreatePartitions(topics, validate_only, done)).await
    }

    pub async fn alter_configs(
        &self,
        changes: Vec<(ConfigTarget, ConfigChange)>,
        validate_only: bool,
    ) -> Result<Vec<Result<(), Refused>>, Refused> {
        self.ask(|done| Change::AlterConfigs(changes, validate_only, done)).await
    }

    /// An answer for each user.
    pub async fn alter_scram(
        &self,
        alterations: Vec<ScramAlteration>,
    ) -> Result<Vec<(String, Result<(), Refused>)>, Refused> {
        self.ask(|done| Change::AlterScram(alterations, done)).await
    }

    pub async fn create_rules(
        &self,
        rules: Vec<Rule>,
    ) -> Result<Vec<Result<(), Refused>>, Refused> {
        self.ask(|done| Change::CreateRules(rules, done)).await
    }

    pub async fn delete_rules(
        &self,
        filters: Vec<RuleFilter>,
    ) -> Result<Vec<Result<Vec<Arc<Rule>>, Refused>>, Refused> {
        self.ask(|done| Change::DeleteRules(filters, done)).await
    }

    pub async fn producer_ids(&self) -> Result<Range<i64>, Refused> {
        self.ask(Change::ProducerIds).await?
    }

    async fn ask<T>(&self, change: impl FnOnce(Promise<T>) -> Change) -> Result<T, Refused> {
        let (promise, reply) = oneshot();
        self.changes.try_send(change(promise)).map_err(|error| match error {
            flume::TrySendError::Full(_) => Refused::Busy,
            flume::TrySendError::Disconnected(_) => Refused::Stopping,
        })?;
        reply.await.map_err(|_| Refused::Stopping)
    }
}

/// Starts the controller's thread. It ends when every handle is gone; what waits then is done
/// first.
///
/// # Errors
/// The system refuses a thread.
pub fn start<S, C, D>(
    controller: Controller<S, C, D>,
) -> std::io::Result<(ControllerHandle, JoinHandle<()>)>
where
    S: MetadataStore + 'static,
    C: Cores + 'static,
    D: TopicDirectories + 'static,
{
    let (sender, changes) = flume::bounded(CHANGES_WAITING_MAX);
    let thread = std::thread::Builder::new().name("controller".into());
    let thread = thread.spawn(move || run(controller, &changes))?;
    Ok((ControllerHandle { changes: sender }, thread))
}

/// An answer that nobody waits for any more is dropped: the change itself stands.
fn run<S: MetadataStore, C: Cores, D: TopicDirectories>(
    mut controller: Controller<S, C, D>,
    changes: &flume::Receiver<Change>,
) {
    for change in changes.iter() {
        match change {
            Change::CreateTopics(topics, validate_only, done) => {
                let _ = done.send(controller.create_topics(&topics, validate_only));
            }
            Change::DeleteTopics(topics, done) => {
                let _ = done.send(controller.delete_topics(&topics));
            }
            Change::CreatePartitions(topics, validate_only, done) => {
                let _ = done.send(controller.create_partitions(&topics, validate_only));
            }
            Change::AlterConfigs(targets, validate_only, done) => {
                let _ = done.send(controller.alter_configs(&targets, validate_only));
            }
            Change::AlterScram(alterations, done) => {
                let _ = done.send(controller.alter_scram(&alterations));
            }
            Change::CreateRules(rules, done) => {
                let _ = done.send(controller.create_rules(&rules));
            }
            Change::DeleteRules(filters, done) => {
                let _ = done.send(controller.delete_rules(&filters));
            }
            Change::ProducerIds(done) => {
                let _ = done.send(controller.producer_ids());
            }
        }
    }
}
