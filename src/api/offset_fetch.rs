//! OffsetFetch (key 9): what groups have committed. KIP-709 (many groups), KIP-848.

use super::groups::{allowed, ask, name};
use super::topics::{by_id, uuid};
use super::{Answer, Call, Close};
use crate::authorizer::Resource;
use crate::cluster::image::MetadataImage;
use crate::group::ask::{Ask, FetchedBy, Shown, TopicOffsets, Wanted};
use crate::group::classic::Name;
use crate::wire::apis::AclOperation;
use crate::wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse,
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use crate::wire::{ErrorCode, Uuid};

/// Version from which one request asks for many groups.
const MANY_GROUPS_SINCE: i16 = 8;
/// Version from which topics go by id.
const IDS_SINCE: i16 = 10;
/// Version from which an error of the group has a place of its own.
const GROUP_ERROR_SINCE: i16 = 2;

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: OffsetFetchRequest<'_> = call.request()?;
    if call.version >= MANY_GROUPS_SINCE {
        many(call, &request).await
    } else {
        one(call, &request).await
    }
}

async fn one(call: &Call, request: &OffsetFetchRequest<'_>) -> Result<Answer, Close> {
    let asked = request.topics.as_ref().map(|topics| {
        topics.iter().map(|topic| (name(topic.name), topic.partition_indexes.clone())).collect()
    });
    let image = call.image();
    let (wanted, hidden) = shown_to(call, &image, asked.clone());
    // Before version 9 nobody says which member asks.
    let by = FetchedBy { member_id: None, epoch: -1, require_stable: request.require_stable };
    let (topics, hidden, error) = match fetched(call, request.group_id, wanted, by).await {
        Ok(topics) => (topics, nothing(Some(hidden)), ErrorCode::None),
        Err(error) if call.version < GROUP_ERROR_SINCE => (nothing(asked), Vec::new(), error),
        Err(error) => (Vec::new(), Vec::new(), error),
    };
    let in_each = if call.version < GROUP_ERROR_SINCE { error } else { ErrorCode::None };
    let of_topic = |topic, error| response_topic(topic, error);
    let shown = topics.iter().filter(|topic| request.topics.is_some() || sees(call, &image, topic));
    let shown = shown.map(|topic| of_topic(topic, in_each));
    let hidden = hidden.iter().map(|topic| of_topic(topic, ErrorCode::TopicAuthorizationFailed));
    let topics = shown.chain(hidden);
    call.respond(&OffsetFetchResponse {
        topics: topics.collect(),
        error_code: error.number(),
        ..Default::default()
    })
}

fn response_topic(topic: &TopicOffsets, error: ErrorCode) -> OffsetFetchResponseTopic<'_> {
    OffsetFetchResponseTopic {
        name: &topic.topic,
        partitions: topic.partitions.iter().map(|found| partition(found, error)).collect(),
    }
}

/// Topics with partitions of theirs.
type Asked = Vec<(Name, Vec<i32>)>;

/// Of what is asked for, what the caller may see, and what not.
fn shown_to(call: &Call, image: &MetadataImage, asked: Wanted) -> (Wanted, Asked) {
    let Some(asked) = asked else { return (None, Vec::new()) };
    let may = |name: &str| call.may(image, AclOperation::Describe, Resource::Topic(name));
    let (seen, hidden) = asked.into_iter().partition(|(name, _)| may(name));
    (Some(seen), hidden)
}

/// Of all offsets of a group, whether the caller may see those of a topic.
fn sees(call: &Call, image: &MetadataImage, topic: &TopicOffsets) -> bool {
    call.may_see(image, AclOperation::Describe, Resource::Topic(&topic.topic))
}

fn partition((index, shown): &(i32, Shown), error: ErrorCode) -> OffsetFetchResponsePartition<'_> {
    let (committed, error) = match shown {
        Shown::Committed(committed) => (Some(committed), error),
        Shown::Nothing => (None, error),
        Shown::Unstable => (None, ErrorCode::UnstableOffsetCommit),
    };
    OffsetFetchResponsePartition {
        partition_index: *index,
        committed_offset: committed.map_or(-1, |c| c.offset),
        committed_leader_epoch: committed.map_or(-1, |c| c.leader_epoch),
        metadata: Some(committed.map_or("", |c| &c.metadata)),
        error_code: error.number(),
    }
}

/// Offsets of a group. Before any group was used here, none has committed anything.
async fn fetched(
    call: &Call,
    group: &str,
    wanted: Wanted,
    by: FetchedBy,
) -> Result<Vec<TopicOffsets>, ErrorCode> {
    allowed(call, AclOperation::Describe, group)?;
    if call.core.groups.partition(group).is_none() {
        return Ok(nothing(wanted));
    }
    ask(call, group, |reply| Ask::Offsets(wanted, by, reply)).await?
}

fn nothing(wanted: Wanted) -> Vec<TopicOffsets> {
    let topics = wanted.into_iter().flatten();
    topics
        .map(|(topic, partitions)| TopicOffsets {
            topic,
            partitions: partitions.into_iter().map(|index| (index, Shown::Nothing)).collect(),
        })
        .collect()
}

/// One group's answer, to be shown.
struct Fetched {
    topics: Vec<(Uuid, TopicOffsets, ErrorCode)>,
    error: ErrorCode,
}

async fn many(call: &Call, request: &OffsetFetchRequest<'_>) -> Result<Answer, Close> {
    let image = call.image();
    let mut all = Vec::with_capacity(request.groups.len());
    for group in &request.groups {
        all.push(of_group(call, &image, group, request.require_stable).await);
    }
    let groups = request.groups.iter().zip(&all).map(|(group, fetched)| OffsetFetchResponseGroup {
        group_id: group.group_id,
        topics: fetched.topics.iter().map(shown).collect(),
        error_code: fetched.error.number(),
    });
    call.respond(&OffsetFetchResponse { groups: groups.collect(), ..Default::default() })
}

async fn of_group(
    call: &Call,
    image: &MetadataImage,
    group: &OffsetFetchRequestGroup<'_>,
    require_stable: bool,
) -> Fetched {
    let by_ids = call.version >= IDS_SINCE;
    let mut unknown = Vec::new();
    let wanted: Wanted = group.topics.as_ref().map(|topics| {
        let mut known = Vec::with_capacity(topics.len());
        for topic in topics {
            match asked_name(call, image, topic, by_ids) {
                Ok(found) => known.push((name(found), topic.partition_indexes.clone())),
                Err(error) => {
                    let asked = (name(topic.name), topic.partition_indexes.clone());
                    let offsets = nothing(Some(vec![asked]));
                    unknown.extend(offsets.into_iter().map(|o| (topic.topic_id, o, error)));
                }
            }
        }
        known
    });
    let member_id = group.member_id.map(name);
    let by = FetchedBy { member_id, epoch: group.member_epoch, require_stable };
    let topics = match fetched(call, group.group_id, wanted, by).await {
        Ok(topics) => topics,
        Err(error) => return Fetched { topics: Vec::new(), error },
    };
    let is_all = group.topics.is_none();
    let seen = topics.into_iter().filter(|topic| !is_all || sees(call, image, topic));
    let with_id = seen.filter_map(|topic| {
        let id = image.topic_by_name(&topic.topic).map(|topic| uuid(topic.id));
        // Of all offsets, those of topics that are gone have no id to be shown by.
        let shown = !by_ids || id.is_some();
        shown.then(|| (id.unwrap_or_default(), topic, ErrorCode::None))
    });
    let topics = with_id.chain(unknown).collect();
    Fetched { topics, error: ErrorCode::None }
}

fn asked_name<'n>(
    call: &Call,
    image: &'n MetadataImage,
    topic: &OffsetFetchRequestTopics<'n>,
    by_ids: bool,
) -> Result<&'n str, ErrorCode> {
    let name = match by_ids {
        true => &*by_id(image, topic.topic_id)?.name,
        false => topic.name,
    };
    call.allowed(image, AclOperation::Describe, Resource::Topic(name))?;
    Ok(name)
}

fn shown(
    (topic_id, offsets, error): &(Uuid, TopicOffsets, ErrorCode),
) -> OffsetFetchResponseTopics<'_> {
    let one = |found| {
        let of = partition(found, *error);
        OffsetFetchResponsePartitions {
            partition_index: of.partition_index,
            committed_offset: of.committed_offset,
            committed_leader_epoch: of.committed_leader_epoch,
            metadata: of.metadata,
            error_code: of.error_code,
        }
    };
    OffsetFetchResponseTopics {
        name: &offsets.topic,
        topic_id: *topic_id,
        partitions: offsets.partitions.iter().map(one).collect(),
    }
}
