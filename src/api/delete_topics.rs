//! DeleteTopics (key 20): by name, and from version 6 on by id. KIP-516.

use super::topics::{firsts, topic_id, uuid};
use super::{Answer, Call, Close, error_codes};
use crate::authorizer::{Resource, ResourceKind};
use crate::cluster::change::{Refused, TopicRef};
use crate::cluster::image::Topic;
use crate::cluster::plan::doubles;
use crate::wire::apis::AclOperation;
use crate::wire::messages::delete_topics::{
    DeletableTopicResult, DeleteTopicState, DeleteTopicsRequest, DeleteTopicsResponse,
};
use crate::wire::{ErrorCode, Uuid};
use std::sync::Arc;

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: DeleteTopicsRequest<'_> = call.request()?;
    let timeout_ms = request.timeout_ms;
    let asked: Vec<DeleteTopicState<'_>> = match call.version {
        ..=5 => {
            let by_name = |name| DeleteTopicState { name: Some(name), topic_id: Uuid::ZERO };
            request.topic_names.into_iter().map(by_name).collect()
        }
        _ => request.topics,
    };
    let mut checked = checked(call, &asked);
    let shown_names = refuse_what_may_not_be_deleted(call, &asked, &mut checked);
    let refs: Vec<TopicRef> = checked.iter().flatten().cloned().collect();
    let change = call.core.controller.delete_topics(refs.clone());
    let deleted = match call.in_time(timeout_ms, change).await {
        Ok(deleted) => deleted,
        Err(refused) => vec![Err(refused); refs.len()],
    };
    let mut deleted = deleted.into_iter();
    let results: Vec<Result<Arc<Topic>, Refused>> = checked
        .into_iter()
        .map(|checked| checked.and_then(|_| deleted.next().unwrap_or(Err(Refused::Stopping))))
        .collect();
    let messages: Vec<Option<String>> =
        results.iter().map(|result| result.as_ref().err().map(Refused::to_string)).collect();
    let is_first = firsts(asked.iter().map(|asked| (asked.name, asked.topic_id)));
    let answered = asked.iter().zip(&results).zip(&messages).zip(&shown_names).zip(is_first);
    let answered = answered.filter(|(_, is_first)| *is_first);
    let responses = answered.map(|((((asked, result), message), shown), _)| {
        let topic = result.as_ref().ok();
        let name = asked.name.or_else(|| topic.map(|topic| &*topic.name)).or(shown.as_deref());
        DeletableTopicResult {
            name: if call.version >= 6 { name } else { Some(name.unwrap_or_default()) },
            topic_id: topic.map_or(asked.topic_id, |topic| uuid(topic.id)),
            error_code: result.as_ref().err().map_or(ErrorCode::None, |r| code(r, call)).into(),
            error_message: message.as_deref(),
        }
    });
    call.respond(&DeleteTopicsResponse { responses: responses.collect(), ..Default::default() })
}

/// What each entry means, or why it means nothing. A topic that is named twice, also by name and
/// by id, is refused each time.
fn checked(call: &Call, asked: &[DeleteTopicState<'_>]) -> Vec<Result<TopicRef, Refused>> {
    let image = call.image();
    let id_of = |state: &DeleteTopicState<'_>| match state.name {
        Some(name) => image.topic_by_name(name).map(|topic| topic.id),
        None => Some(topic_id(state.topic_id)),
    };
    let same_names = doubles(asked.iter().filter_map(|state| state.name));
    let same_ids = doubles(asked.iter().filter_map(id_of));
    let request = |what: &str| Err(Refused::Request { what: what.to_owned() });
    let one = |state: &DeleteTopicState<'_>| match (state.name, state.topic_id.is_zero()) {
        (Some(_), false) => request("You may not specify both topic name and topic id."),
        (None, true) => request("Neither topic name nor id were specified."),
        (Some(name), true) if same_names.contains(name) => request("Duplicate topic name."),
        (name, _) if id_of(state).is_some_and(|id| same_ids.contains(&id)) => match name {
            Some(_) => request("The provided topic name maps to an ID that was already supplied."),
            None => request("Duplicate topic id."),
        },
        (Some(name), true) => Ok(TopicRef::Name(name.to_owned())),
        (None, false) => Ok(TopicRef::Id(topic_id(state.topic_id))),
    };
    asked.iter().map(one).collect()
}

/// Refuses in `checked` what the caller may not delete: the cluster's right stands for all. Gives the
/// names of refused topics that were asked for by id and that the caller may see. Whether a topic
/// exists that it may not see is not told of its name.
fn refuse_what_may_not_be_deleted(
    call: &Call,
    asked: &[DeleteTopicState<'_>],
    checked: &mut [Result<TopicRef, Refused>],
) -> Vec<Option<Arc<str>>> {
    let image = call.image();
    let mut shown = vec![None; asked.len()];
    if call.may_see(&image, AclOperation::Delete, Resource::Cluster) {
        return shown;
    }
    for ((state, checked), shown) in asked.iter().zip(checked).zip(&mut shown) {
        let by_id = match (&*checked, state.name) {
            (Err(_), _) => continue,
            (Ok(_), Some(name)) => {
                let may = |operation| call.may(&image, operation, Resource::Topic(name));
                let is_there = image.topic_by_name(name).is_some();
                if !may(AclOperation::Describe) || is_there && !may(AclOperation::Delete) {
                    *checked = Err(Refused::NotAllowed { kind: ResourceKind::Topic });
                }
                continue;
            }
            (Ok(_), None) => image.topic_by_id(topic_id(state.topic_id)),
        };
        let Some(topic) = by_id else { continue };
        let resource = Resource::Topic(&topic.name);
        if !call.may(&image, AclOperation::Delete, resource) {
            let may_see = call.may_see(&image, AclOperation::Describe, resource);
            *shown = may_see.then(|| topic.name.clone());
            *checked = Err(Refused::NotAllowed { kind: ResourceKind::Topic });
        }
    }
    shown
}

/// Clients of version 1 and 2 do not know TOPIC_DELETION_DISABLED.
fn code(refused: &Refused, call: &Call) -> ErrorCode {
    match error_codes::of_refused(refused) {
        ErrorCode::TopicDeletionDisabled if call.version < 3 => ErrorCode::InvalidRequest,
        code => code,
    }
}
