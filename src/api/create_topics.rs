//! CreateTopics (key 19). KIP-4, KIP-464, KIP-525.

use super::describe_configs::topic_entry;
use super::rights::refusal;
use super::topics::{firsts, uuid};
use super::{Answer, Call, Close, error_codes};
use crate::authorizer::{Resource, ResourceKind};
use crate::cluster::change::{CreatedTopic, NewTopic, Refused};
use crate::cluster::image::MetadataImage;
use crate::cluster::plan::doubles;
use crate::config::TOPIC_SETTINGS;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::create_topics::{
    CreatableTopic, CreatableTopicConfigs, CreatableTopicResult, CreateTopicsRequest,
    CreateTopicsResponse,
};

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: CreateTopicsRequest<'_> = call.request()?;
    let allowed = allowed(call, &request);
    let topics = request.topics.iter().zip(&allowed).filter(|(_, may)| **may);
    let topics: Vec<NewTopic> = topics.map(|(topic, _)| new_topic(topic)).collect();
    let count = topics.len();
    let change = call.core.controller.create_topics(topics, request.validate_only);
    let answers = match call.in_time(request.timeout_ms, change).await {
        Ok(answers) => answers,
        Err(refused) => vec![Err(refused); count],
    };
    let mut answers = answers.into_iter();
    let answers: Vec<Result<CreatedTopic, Refused>> = allowed
        .into_iter()
        .map(|may| match may {
            true => answers.next().unwrap_or(Err(Refused::Stopping)),
            false => Err(Refused::NotAllowed { kind: ResourceKind::Topic }),
        })
        .collect();
    let image = call.image();
    let shows = |topic: &CreatableTopic<'_>| {
        call.may_see(&image, AclOperation::DescribeConfigs, Resource::Topic(topic.name))
    };
    let shown: Vec<bool> = request.topics.iter().map(shows).collect();
    let described = Described::of(&image, call.version, &answers, &shown);
    let firsts = firsts(request.topics.iter().map(|topic| topic.name));
    let results = request.topics.iter().zip(&described).zip(firsts);
    let results = results
        .filter(|(_, is_first)| *is_first)
        .map(|((topic, described), _)| described.result(topic.name));
    call.respond(&CreateTopicsResponse { topics: results.collect(), ..Default::default() })
}

/// Whether the caller may create each topic, as it may any or that one. One that is named twice is
/// refused for that.
fn allowed(call: &Call, request: &CreateTopicsRequest<'_>) -> Vec<bool> {
    let image = call.image();
    let may_all = call.may_see(&image, AclOperation::Create, Resource::Cluster);
    let twice = doubles(request.topics.iter().map(|topic| topic.name));
    let may = |name| {
        let is_decided = may_all || twice.contains(name);
        is_decided || call.may(&image, AclOperation::Create, Resource::Topic(name))
    };
    request.topics.iter().map(|topic| may(topic.name)).collect()
}

fn new_topic(topic: &CreatableTopic<'_>) -> NewTopic {
    let assignments =
        topic.assignments.iter().map(|one| (one.partition_index, one.broker_ids.clone()));
    let configs =
        topic.configs.iter().map(|one| (one.name.to_owned(), one.value.map(str::to_owned)));
    NewTopic {
        name: topic.name.to_owned(),
        partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: assignments.collect(),
        configs: configs.collect(),
    }
}

/// What one topic is answered with, owning the texts that the response borrows.
enum Described {
    /// `configs` is `None` for a caller who may not see them.
    Created {
        topic: CreatedTopic,
        configs: Option<Vec<(&'static str, String, i8)>>,
    },
    Refused {
        code: ErrorCode,
        message: String,
    },
}

impl Described {
    fn of(
        image: &MetadataImage,
        version: i16,
        answers: &[Result<CreatedTopic, Refused>],
        shown: &[bool],
    ) -> Vec<Described> {
        let one = |(answer, is_shown): (&Result<CreatedTopic, Refused>, &bool)| match answer {
            Ok(topic) => {
                let configs = match version {
                    5.. => is_shown.then(|| configs_of(image, topic)),
                    _ => Some(Vec::new()),
                };
                Described::Created { topic: topic.clone(), configs }
            }
            Err(Refused::NotAllowed { kind }) => Described::Refused {
                code: refusal(*kind),
                message: "Authorization failed.".to_owned(),
            },
            Err(refused) => Described::Refused {
                code: error_codes::of_refused(refused),
                message: refused.to_string(),
            },
        };
        answers.iter().zip(shown).map(one).collect()
    }

    fn result<'d>(&'d self, name: &'d str) -> CreatableTopicResult<'d> {
        match self {
            Described::Created { topic, configs: None } => CreatableTopicResult {
                name,
                topic_id: uuid(topic.id),
                error_message: None,
                topic_config_error_code: ErrorCode::TopicAuthorizationFailed.number(),
                num_partitions: -1,
                replication_factor: -1,
                configs: Some(Vec::new()),
                ..Default::default()
            },
            Described::Created { topic, configs: Some(configs) } => {
                let configs = configs.iter().map(|(name, value, source)| CreatableTopicConfigs {
                    name,
                    value: Some(value),
                    config_source: *source,
                    ..Default::default()
                });
                CreatableTopicResult {
                    name,
                    topic_id: uuid(topic.id),
                    error_message: None,
                    num_partitions: i32::try_from(topic.partitions).unwrap_or(i32::MAX),
                    replication_factor: 1,
                    configs: Some(configs.collect()),
                    ..Default::default()
                }
            }
            Described::Refused { code, message } => CreatableTopicResult {
                name,
                error_code: code.number(),
                error_message: Some(message),
                configs: Some(Vec::new()),
                ..Default::default()
            },
        }
    }
}

/// Every setting of the new topic with where its value comes from.
fn configs_of(image: &MetadataImage, topic: &CreatedTopic) -> Vec<(&'static str, String, i8)> {
    let one = |setting| {
        let entry = topic_entry(image, &topic.configs, setting);
        (setting.name, entry.value.clone().unwrap_or_default(), entry.source())
    };
    TOPIC_SETTINGS.iter().map(one).collect()
}
