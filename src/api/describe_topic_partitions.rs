//! DescribeTopicPartitions (key 75): topics page by page. KIP-966.

use super::limits::PARTITIONS_PER_BREATH;
use super::topics::{is_internal, uuid};
use super::{Answer, Call, Close};
use crate::authorizer::Resource;
use crate::cluster::image::{MetadataImage, Topic};
use crate::cluster::topic_name::check_topic_name;
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::describe_topic_partitions::{
    Cursor, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use millstream_io::runtime::breathe;
use std::collections::BTreeSet;
use std::sync::Arc;

type Described<'a> = DescribeTopicPartitionsResponseTopic<'a>;

/// Answers in the order of names, from the cursor on, as many partitions as client and broker
/// allow; at least one, so that a client with an odd limit gets on.
pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: DescribeTopicPartitionsRequest<'_> = call.request()?;
    let image = call.image();
    let from = request.cursor.as_ref();
    if from.is_some_and(|cursor| cursor.partition_index < 0) {
        return call.respond(&refused_cursor(&request));
    }
    let mut page = Page {
        call,
        image: &image,
        room: page_size(request.response_partition_limit, image.broker.described_partitions_max),
        topics: Vec::new(),
        next: None,
        hidden: Vec::new(),
    };
    let start = from.map_or("", |cursor| cursor.topic_name);
    let first = |name: &str| match from {
        Some(cursor) if cursor.topic_name == name => cursor.partition_index.unsigned_abs(),
        _ => 0,
    };
    if request.topics.is_empty() {
        for (index, topic) in image.topics_from(start).enumerate() {
            let is_shown =
                call.may_see(&image, AclOperation::Describe, Resource::Topic(&topic.name));
            if is_shown && !page.add(&topic.name, Some(topic), first(&topic.name)) {
                break;
            }
            if index % PARTITIONS_PER_BREATH == PARTITIONS_PER_BREATH - 1 {
                breathe().await;
            }
        }
    } else {
        let names: BTreeSet<&str> = request.topics.iter().map(|topic| topic.name).collect();
        let may = |name| call.may(&image, AclOperation::Describe, Resource::Topic(name));
        let (names, hidden): (Vec<&str>, Vec<&str>) =
            names.range(start..).copied().partition(|name| may(name));
        page.hidden = hidden;
        for name in names {
            if !page.add(name, image.topic_by_name(name), first(name)) {
                break;
            }
        }
    }
    let Page { mut topics, next, hidden, .. } = page;
    // Whether they exist is not told.
    topics
        .extend(hidden.into_iter().map(|name| refused(name, ErrorCode::TopicAuthorizationFailed)));
    call.respond(&DescribeTopicPartitionsResponse {
        topics,
        next_cursor: next,
        ..Default::default()
    })
}

fn page_size(asked: i32, allowed: u32) -> u32 {
    u32::try_from(asked).unwrap_or(0).clamp(1, allowed.max(1))
}

fn refused_cursor<'r>(
    request: &DescribeTopicPartitionsRequest<'r>,
) -> DescribeTopicPartitionsResponse<'r> {
    let refused = |topic: &crate::wire::messages::describe_topic_partitions::TopicRequest<'r>| {
        let error_code = ErrorCode::InvalidRequest.into();
        Described { error_code, name: Some(topic.name), ..Default::default() }
    };
    let topics = request.topics.iter().map(refused).collect();
    DescribeTopicPartitionsResponse { topics, ..Default::default() }
}

/// The answer as far as it is filled.
struct Page<'a> {
    call: &'a Call,
    image: &'a MetadataImage,
    room: u32,
    topics: Vec<Described<'a>>,
    next: Option<Cursor<'a>>,
    /// Names that were asked for and that the caller may not describe.
    hidden: Vec<&'a str>,
}

impl<'a> Page<'a> {
    /// Adds a topic from partition `first` on; false when the page is full.
    fn add(&mut self, name: &'a str, topic: Option<&'a Arc<Topic>>, first: u32) -> bool {
        let Some(topic) = topic else {
            let code = match check_topic_name(name) {
                Ok(()) => ErrorCode::UnknownTopicOrPartition,
                Err(_) => ErrorCode::InvalidTopicException,
            };
            self.topics.push(refused(name, code));
            return true;
        };
        let left = topic.partitions.saturating_sub(first);
        if self.room == 0 && left > 0 {
            self.next = Some(cursor(name, first));
            return false;
        }
        let taken = left.min(self.room);
        self.topics.push(described(self, topic, first, taken));
        self.room -= taken;
        if taken < left {
            self.next = Some(cursor(name, first + taken));
            return false;
        }
        true
    }
}

fn cursor(topic_name: &str, partition: u32) -> Cursor<'_> {
    Cursor { topic_name, partition_index: i32::try_from(partition).unwrap_or(i32::MAX) }
}

fn refused(name: &str, code: ErrorCode) -> Described<'_> {
    Described { error_code: code.into(), name: Some(name), ..Default::default() }
}

fn described<'a>(page: &Page<'_>, topic: &'a Topic, first: u32, count: u32) -> Described<'a> {
    let node = page.image.node_id().get();
    let skip = usize::try_from(first).unwrap_or(usize::MAX);
    let take = usize::try_from(count).unwrap_or(usize::MAX);
    let partition =
        |at: millstream_io::units::TopicPartition| DescribeTopicPartitionsResponsePartition {
            partition_index: at.partition.get(),
            leader_id: node,
            leader_epoch: topic.leader_epoch.get(),
            replica_nodes: vec![node],
            isr_nodes: vec![node],
            eligible_leader_replicas: Some(Vec::new()),
            last_known_elr: Some(Vec::new()),
            ..Default::default()
        };
    Described {
        name: Some(&topic.name),
        topic_id: uuid(topic.id),
        is_internal: is_internal(&topic.name),
        partitions: topic.all_partitions().skip(skip).take(take).map(partition).collect(),
        topic_authorized_operations: page.call.rights_on(page.image, Resource::Topic(&topic.name)),
        ..Default::default()
    }
}
