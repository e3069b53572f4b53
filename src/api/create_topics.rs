//! CreateTopics (key 19). KIP-4, KIP-464, KIP-525.

use super::describe_configs::topic_entry;
use super::topics::{firsts, uuid};
use super::{Answer, Call, Close, error_codes};
use crate::cluster::change::{CreatedTopic, NewTopic, Refused};
use crate::cluster::image::MetadataImage;
use crate::config::TOPIC_SETTINGS;
use crate::wire::ErrorCode;
use crate::wire::messages::create_topics::{
    CreatableTopic, CreatableTopicConfigs, CreatableTopicResult, CreateTopicsRequest,
    CreateTopicsResponse,
};

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: CreateTopicsRequest<'_> = call.request()?;
    let topics: Vec<NewTopic> = request.topics.iter().map(new_topic).collect();
    let count = topics.len();
    let change = call.core.controller.create_topics(topics, request.validate_only);
    let answers = match call.in_time(request.timeout_ms, change).await {
        Ok(answers) => answers,
        Err(refused) => vec![Err(refused); count],
    };
    let image = call.image();
    let described = Described::of(&image, call.version, &answers);
    let firsts = firsts(request.topics.iter().map(|topic| topic.name));
    let results = request.topics.iter().zip(&described).zip(firsts);
    let results = results
        .filter(|(_, is_first)| *is_first)
        .map(|((topic, described), _)| described.result(topic.name));
    call.respond(&CreateTopicsResponse { topics: results.collect(), ..Default::default() })
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
    Created { topic: CreatedTopic, configs: Vec<(&'static str, String, i8)> },
    Refused { code: ErrorCode, message: String },
}

impl Described {
    fn of(
        image: &MetadataImage,
        version: i16,
        answers: &[Result<CreatedTopic, Refused>],
    ) -> Vec<Described> {
        let one = |answer: &Result<CreatedTopic, Refused>| match answer {
            Ok(topic) => {
                let configs = if version >= 5 { configs_of(image, topic) } else { Vec::new() };
                Described::Created { topic: topic.clone(), configs }
            }
            Err(refused) => Described::Refused {
                code: error_codes::of_refused(refused),
                message: refused.to_string(),
            },
        };
        answers.iter().map(one).collect()
    }

    fn result<'d>(&'d self, name: &'d str) -> CreatableTopicResult<'d> {
        match self {
            Described::Created { topic, configs } => {
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
