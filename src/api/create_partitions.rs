//! CreatePartitions (key 37): more partitions for topics. KIP-195.

use super::topics::firsts;
use super::{Answer, Call, Close, error_codes};
use crate::authorizer::{Resource, ResourceKind};
use crate::cluster::change::{MorePartitions, Refused};
use crate::cluster::plan::doubles;
use crate::wire::apis::AclOperation;
use crate::wire::messages::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic,
    CreatePartitionsTopicResult,
};

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: CreatePartitionsRequest<'_> = call.request()?;
    let allowed = allowed(call, &request);
    let more: Vec<MorePartitions> = request
        .topics
        .iter()
        .zip(&allowed)
        .filter(|(_, may)| **may)
        .map(|(t, _)| more(t))
        .collect();
    let count = more.len();
    let change = call.core.controller.create_partitions(more, request.validate_only);
    let answers = match call.in_time(request.timeout_ms, change).await {
        Ok(answers) => answers,
        Err(refused) => vec![Err(refused); count],
    };
    let mut answers = answers.into_iter();
    let answers: Vec<Result<(), Refused>> = allowed
        .into_iter()
        .map(|may| match may {
            true => answers.next().unwrap_or(Err(Refused::Stopping)),
            false => Err(Refused::NotAllowed { kind: ResourceKind::Topic }),
        })
        .collect();
    let texts: Vec<Option<String>> =
        answers.iter().map(|answer| answer.as_ref().err().map(Refused::to_string)).collect();
    let is_first = firsts(request.topics.iter().map(|topic| topic.name));
    let answered = request.topics.iter().zip(answers).zip(&texts).zip(is_first);
    let results = answered.filter(|(_, is_first)| *is_first).map(|(((topic, answer), text), _)| {
        let code = answer.err().map_or(0, |refused| error_codes::of_refused(&refused).number());
        CreatePartitionsTopicResult {
            name: topic.name,
            error_code: code,
            error_message: text.as_deref(),
        }
    });
    call.respond(&CreatePartitionsResponse { results: results.collect(), ..Default::default() })
}

/// Whether the caller may alter each topic. One that is named twice is refused for that.
fn allowed(call: &Call, request: &CreatePartitionsRequest<'_>) -> Vec<bool> {
    let image = call.image();
    let twice = doubles(request.topics.iter().map(|topic| topic.name));
    let may = |name| call.may(&image, AclOperation::Alter, Resource::Topic(name));
    request.topics.iter().map(|topic| twice.contains(topic.name) || may(topic.name)).collect()
}

fn more(topic: &CreatePartitionsTopic<'_>) -> MorePartitions {
    let assignments = topic.assignments.as_ref();
    let assignments = assignments.map(|all| all.iter().map(|one| one.broker_ids.clone()).collect());
    MorePartitions { name: topic.name.to_owned(), count: topic.count, assignments }
}
