//! Metadata (key 3): brokers, topics, leaders. KIP-516, KIP-526.

use super::limits::{AUTO_CREATE_TOPICS_PER_REQUEST_MAX, PARTITIONS_PER_BREATH};
use super::topics::{is_internal, topic_id, uuid};
use super::{Answer, Call, Close, error_codes, rights};
use crate::authorizer::Resource;
use crate::cluster::change::{NewTopic, Refused};
use crate::cluster::image::{MetadataImage, Topic};
use crate::cluster::topic_name::check_topic_name;
use crate::wire::apis::AclOperation;
use crate::wire::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker,
    MetadataResponsePartition, MetadataResponseTopic,
};
use crate::wire::{ErrorCode, Uuid};
use millstream_io::runtime::breathe;
use std::collections::HashSet;

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: MetadataRequest<'_> = call.request()?;
    let asked = asked_topics(call, &request);
    let not_created = match asked {
        Some(asked) => auto_create(call, &request, asked).await,
        None => HashSet::new(),
    };
    let image = call.image();
    let mut topics = Vec::new();
    let mut partitions = 0;
    let with_rights = request.include_topic_authorized_operations;
    match asked {
        None => {
            for topic in image.topics() {
                if !call.may_see(&image, AclOperation::Describe, Resource::Topic(&topic.name)) {
                    breathe_after(1, &mut partitions).await;
                    continue;
                }
                topics.push(described(call, &image, topic, with_rights));
                breathe_after(topic.partitions, &mut partitions).await;
            }
        }
        Some(asked) => {
            let mut seen = HashSet::new();
            for wanted in asked {
                if !seen.insert((wanted.name, wanted.topic_id)) {
                    continue;
                }
                topics.push(answered(call, &image, wanted, with_rights, &not_created));
                let size = topics.last().map_or(0, |topic| topic.partitions.len());
                breathe_after(u32::try_from(size).unwrap_or(u32::MAX).max(1), &mut partitions)
                    .await;
            }
        }
    }
    let brokers = image.start.brokers.iter().map(|broker| {
        let endpoint = call.endpoint(broker);
        MetadataResponseBroker {
            node_id: broker.id.get(),
            host: &endpoint.host,
            port: i32::from(endpoint.port),
            rack: broker.rack.as_deref(),
        }
    });
    let cluster_rights = match call.version {
        8..=10 => call.rights_on_cluster(&image, request.include_cluster_authorized_operations),
        _ => rights::NOT_ASKED,
    };
    call.respond(&MetadataResponse {
        brokers: brokers.collect(),
        cluster_id: Some(&image.start.cluster_id),
        controller_id: image.node_id().get(),
        topics,
        cluster_authorized_operations: cluster_rights,
        ..Default::default()
    })
}

/// `None` asks for all topics: null, and in version 0 the empty list.
fn asked_topics<'r>(
    call: &Call,
    request: &'r MetadataRequest<'r>,
) -> Option<&'r [MetadataRequestTopic<'r>]> {
    match request.topics.as_deref() {
        Some([]) if call.version == 0 => None,
        asked => asked,
    }
}

/// Creates what is asked for and missing, where client and broker allow it; the names of what the
/// client may see, if it were there, and may not create.
async fn auto_create<'r>(
    call: &Call,
    request: &MetadataRequest<'_>,
    asked: &[MetadataRequestTopic<'r>],
) -> HashSet<&'r str> {
    let image = call.image();
    if !request.allow_auto_topic_creation || !image.broker.auto_create_topics {
        return HashSet::new();
    }
    let missing = asked.iter().filter_map(|topic| match topic.topic_id.is_zero() {
        true => topic.name,
        false => None,
    });
    let may = |operation, name| call.may_see(&image, operation, Resource::Topic(name));
    let missing: HashSet<&str> = missing
        .filter(|name| {
            image.topic_by_name(name).is_none()
                && check_topic_name(name).is_ok()
                && !is_internal(name)
                && may(AclOperation::Describe, name)
        })
        .collect();
    let may_all = call.may_see(&image, AclOperation::Create, Resource::Cluster);
    let may_create =
        |name: &&str| may_all || call.may(&image, AclOperation::Create, Resource::Topic(name));
    let (missing, not_allowed): (Vec<&str>, HashSet<&str>) = partition(missing, may_create);
    let names = missing.into_iter().take(AUTO_CREATE_TOPICS_PER_REQUEST_MAX);
    let new = |name: &str| NewTopic {
        name: name.to_owned(),
        partitions: -1,
        replication_factor: -1,
        ..NewTopic::default()
    };
    let topics: Vec<NewTopic> = names.map(new).collect();
    if topics.is_empty() {
        return not_allowed;
    }
    let names: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
    // A topic that could not be made is answered as unknown, and the client asks again.
    match call.core.controller.create_topics(topics, false).await {
        Ok(answers) => {
            let refused = names
                .iter()
                .zip(answers)
                .filter_map(|(name, answer)| answer.err().map(|refused| (name, refused)));
            for (name, refused) in refused {
                if !matches!(refused, Refused::TopicExists { .. }) {
                    log_refused(name, &refused);
                }
            }
        }
        Err(refused) => log_refused(&names[0], &refused),
    }
    not_allowed
}

/// Those that hold, and those that do not.
fn partition<T: std::hash::Hash + Eq>(
    items: HashSet<T>,
    holds: impl Fn(&T) -> bool,
) -> (Vec<T>, HashSet<T>) {
    let (mut hold, mut others) = (Vec::new(), HashSet::new());
    for item in items {
        match holds(&item) {
            true => hold.push(item),
            false => drop(others.insert(item)),
        }
    }
    (hold, others)
}

fn log_refused(name: &str, refused: &Refused) {
    use millstream_io::{log_limited, runtime::log};
    log_limited!(
        log::warn("metadata", "a topic was not created on the way")
            .field("topic", name)
            .field("code", error_codes::of_refused(refused))
            .field("reason", refused)
    );
}

/// The answer for one asked topic: by id when there is one, else by name. Whether a topic exists that
/// the caller may not describe is not told of its name.
fn answered<'r>(
    call: &Call,
    image: &'r MetadataImage,
    wanted: &MetadataRequestTopic<'r>,
    with_rights: bool,
    not_created: &HashSet<&str>,
) -> MetadataResponseTopic<'r> {
    let version = call.version;
    let may = |name| call.may(image, AclOperation::Describe, Resource::Topic(name));
    let denied = ErrorCode::TopicAuthorizationFailed;
    if version >= 12 && !wanted.topic_id.is_zero() {
        let found = image.topic_by_id(topic_id(wanted.topic_id));
        return match found {
            Some(topic) if !may(&topic.name) => refused(None, wanted.topic_id, denied, version),
            Some(topic) => described(call, image, topic, with_rights),
            None => refused(None, wanted.topic_id, ErrorCode::UnknownTopicId, version),
        };
    }
    if !wanted.topic_id.is_zero() {
        // Versions 10 and 11 carry ids that are not to be used yet.
        return refused(wanted.name, wanted.topic_id, ErrorCode::InvalidRequest, version);
    }
    let Some(name) = wanted.name else {
        return refused(None, Uuid::ZERO, ErrorCode::InvalidRequest, version);
    };
    if !may(name) {
        return refused(Some(name), Uuid::ZERO, denied, version);
    }
    match image.topic_by_name(name) {
        Some(topic) => described(call, image, topic, with_rights),
        None if not_created.contains(name) => refused(Some(name), Uuid::ZERO, denied, version),
        None if check_topic_name(name).is_err() => {
            refused(Some(name), Uuid::ZERO, ErrorCode::InvalidTopicException, version)
        }
        None => refused(Some(name), Uuid::ZERO, ErrorCode::UnknownTopicOrPartition, version),
    }
}

fn refused(
    name: Option<&str>,
    topic_id: Uuid,
    code: ErrorCode,
    version: i16,
) -> MetadataResponseTopic<'_> {
    // A null name fits version 12 and later only.
    let name = if version >= 12 { name } else { Some(name.unwrap_or_default()) };
    MetadataResponseTopic { error_code: code.into(), name, topic_id, ..Default::default() }
}

fn described<'i>(
    call: &Call,
    image: &'i MetadataImage,
    topic: &'i Topic,
    with_rights: bool,
) -> MetadataResponseTopic<'i> {
    let node = image.node_id().get();
    let partition = |at: millstream_io::units::TopicPartition| MetadataResponsePartition {
        error_code: ErrorCode::None.into(),
        partition_index: at.partition.get(),
        leader_id: node,
        leader_epoch: topic.leader_epoch.get(),
        replica_nodes: vec![node],
        isr_nodes: vec![node],
        offline_replicas: Vec::new(),
    };
    MetadataResponseTopic {
        error_code: ErrorCode::None.into(),
        name: Some(&topic.name),
        topic_id: uuid(topic.id),
        is_internal: is_internal(&topic.name),
        partitions: topic.all_partitions().map(partition).collect(),
        topic_authorized_operations: match with_rights {
            true => call.rights_on(image, Resource::Topic(&topic.name)),
            false => rights::NOT_ASKED,
        },
    }
}

/// Lets others run each so many partitions.
async fn breathe_after(partitions: u32, counted: &mut usize) {
    *counted += usize::try_from(partitions).unwrap_or(PARTITIONS_PER_BREATH);
    if *counted >= PARTITIONS_PER_BREATH {
        *counted = 0;
        breathe().await;
    }
}
