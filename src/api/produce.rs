//! Produce (key 0): appends batches. KIP-98, KIP-110, KIP-467, KIP-516, KIP-951.
//!
//! Stage one ends when the batches stand in order before their owners; the connection then reads
//! on. Stage two waits until they are durable.

mod transactional;

use super::topics::{by_id, by_name, is_internal};
use super::{Answer, Call, Close, deep_validation, error_codes};
use crate::authorizer::Resource;
use crate::cluster::image::{MetadataImage, Topic};
use crate::wire::ErrorCode;
use crate::wire::apis::AclOperation;
use crate::wire::messages::produce::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceData,
    PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceData,
    TopicProduceResponse,
};
use millstream_io::batch::{BatchError, CheckedBatch, Codec, Origin};
use millstream_io::clock::Clock;
use millstream_io::units::TimestampMs;
use millstream_shards::message::{Append, AppendError, Appended};
use std::collections::HashSet;
use std::sync::Arc;

/// In-sync replicas of every partition: this node.
const REPLICAS: u32 = 1;

/// How far the partitions of a request have come, in their order.
enum Planned {
    /// On its way to its owner.
    Sent,
    Refused(RefusedBatch),
    /// The same partition comes again further down, and the last one counts.
    Superseded,
}

/// Why a batch is not taken, as the client is told.
#[derive(Debug)]
pub struct RefusedBatch {
    pub code: ErrorCode,
    pub message: Option<String>,
    /// The records at fault, by their place in the batch, where single ones are.
    pub records: Vec<(i32, String)>,
}

impl RefusedBatch {
    pub fn new(code: ErrorCode, message: Option<String>) -> RefusedBatch {
        RefusedBatch { code, message, records: Vec::new() }
    }
}

/// What a partition is answered with.
enum Outcome {
    Appended(Appended),
    Refused(RefusedBatch),
}

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: ProduceRequest<'_> = call.request()?;
    let image = call.image();
    let now = call.core.clock.wall();
    let mut appends = Vec::with_capacity(partition_count(&request));
    let mut plan = plan(call, &request, &image, now, &mut appends).await;
    transactional::admit(call, request.transactional_id, &mut plan, &mut appends).await;
    let ticket = call.core.router.append(appends).await;
    call.fix_order();
    let answers = ticket.await;
    let outcomes = outcomes(plan, answers, call.version);
    if request.acks == 0 {
        return acks_zero(&outcomes);
    }
    respond(call, &request, &image, &outcomes)
}

fn partition_count(request: &ProduceRequest<'_>) -> usize {
    request.topic_data.iter().map(|topic| topic.partition_data.len()).sum()
}

/// Checks every partition's batch; what may be appended goes to `appends`.
async fn plan(
    call: &Call,
    request: &ProduceRequest<'_>,
    image: &MetadataImage,
    now: TimestampMs,
    appends: &mut Vec<Append>,
) -> Vec<Planned> {
    let superseded = superseded(request);
    let refused = refused_whole(call, image, request);
    let mut plan = Vec::with_capacity(partition_count(request));
    for (topic_at, topic_data) in request.topic_data.iter().enumerate() {
        let topic = writable(call, image, topic_data);
        for (at, data) in topic_data.partition_data.iter().enumerate() {
            plan.push(match refused {
                _ if superseded.contains(&(topic_at, at)) => Planned::Superseded,
                Some(code) => Planned::Refused(RefusedBatch::new(code, None)),
                None => match checked(call, topic, request.acks, data, now).await {
                    Ok(append) => {
                        appends.push(append);
                        Planned::Sent
                    }
                    Err(refused) => Planned::Refused(refused),
                },
            });
        }
    }
    plan
}

/// A topic that the caller may write to. Whether one that it may not write to exists is not told.
fn writable<'i>(
    call: &Call,
    image: &'i MetadataImage,
    asked: &TopicProduceData<'_>,
) -> Result<&'i Arc<Topic>, ErrorCode> {
    let found = match call.version {
        13.. => Some(by_id(image, asked.topic_id)?),
        _ => image.topic_by_name(asked.name),
    };
    let name = found.map_or(asked.name, |topic| &topic.name);
    call.allowed(image, AclOperation::Write, Resource::Topic(name))?;
    found.ok_or(ErrorCode::UnknownTopicOrPartition)
}

/// What is wrong with the request as a whole, so that every partition is refused.
fn refused_whole(
    call: &Call,
    image: &MetadataImage,
    request: &ProduceRequest<'_>,
) -> Option<ErrorCode> {
    let mut batches = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
    if batches.any(transactional) {
        let may = |id| call.may(image, AclOperation::Write, Resource::TransactionalId(id));
        if !request.transactional_id.is_some_and(may) {
            return Some(ErrorCode::TransactionalIdAuthorizationFailed);
        }
    }
    (!matches!(request.acks, -1..=1)).then_some(ErrorCode::InvalidRequiredAcks)
}

/// Whether a batch says that it belongs to a transaction; looks at its attributes only.
fn transactional(data: &PartitionProduceData<'_>) -> bool {
    let header = data.records.and_then(millstream_io::batch::RecordBatchHeader::view);
    header.is_some_and(|h| h.magic() == 2 && h.attributes().is_transactional())
}

/// One batch for one known partition, sound as far as the topic wants it looked at.
async fn checked(
    call: &Call,
    topic: Result<&Arc<Topic>, ErrorCode>,
    acks: i16,
    data: &PartitionProduceData<'_>,
    now: TimestampMs,
) -> Result<Append, RefusedBatch> {
    let bare = |code| RefusedBatch::new(code, None);
    let topic = topic.map_err(bare)?;
    if is_internal(&topic.name) {
        // Its coordinator alone may write there, and knows only what it wrote itself.
        let message = format!("{} is the broker's own topic", topic.name);
        return Err(RefusedBatch::new(ErrorCode::InvalidTopicException, Some(message)));
    }
    let at = topic.partition(data.index).ok_or(bare(ErrorCode::UnknownTopicOrPartition))?;
    let needed = topic.config.min_insync_replicas;
    if acks == -1 && needed > REPLICAS {
        let message = format!("{REPLICAS} in-sync replica, and min.insync.replicas is {needed}");
        return Err(RefusedBatch::new(ErrorCode::NotEnoughReplicas, Some(message)));
    }
    let records = match data.records {
        Some(records) => call.frame.slice_ref(records),
        None => return Err(refused(&BatchError::Empty)),
    };
    let batch = CheckedBatch::parse(records, Origin::Client).map_err(|error| refused(&error))?;
    if batch.codec() == Codec::Zstd && call.version < 7 {
        let message = "zstd needs Produce version 7 or later (KIP-110)".to_owned();
        return Err(RefusedBatch::new(ErrorCode::UnsupportedCompressionType, Some(message)));
    }
    let batch = deep_validation::fit(call, &topic.config, batch, now).await?;
    Ok(Append { at, current: None, batch, transaction: None, now })
}

fn refused(error: &BatchError) -> RefusedBatch {
    RefusedBatch::new(error_codes::of_batch(error), Some(error.to_string()))
}

/// Places of partitions that the request names again further down.
fn superseded(request: &ProduceRequest<'_>) -> HashSet<(usize, usize)> {
    let mut superseded = HashSet::new();
    if partition_count(request) < 2 {
        return superseded;
    }
    // Clients send a topic's partitions in ascending order: then one look at each is enough.
    if let [topic] = &request.topic_data[..]
        && topic.partition_data.is_sorted_by(|before, next| before.index < next.index)
    {
        return superseded;
    }
    let mut seen = HashSet::with_capacity(partition_count(request));
    for (topic_at, topic) in request.topic_data.iter().enumerate().rev() {
        for (at, data) in topic.partition_data.iter().enumerate().rev() {
            if !seen.insert((topic.name, topic.topic_id, data.index)) {
                superseded.insert((topic_at, at));
            }
        }
    }
    superseded
}

/// Brings answers and refusals into the order of the request; `None` for what is not answered.
fn outcomes(
    plan: Vec<Planned>,
    answers: Vec<Result<Appended, AppendError>>,
    version: i16,
) -> Vec<Option<Outcome>> {
    let mut answers = answers.into_iter();
    let outcomes = plan
        .into_iter()
        .map(|planned| match planned {
            Planned::Superseded => None,
            Planned::Refused(refused) => Some(Outcome::Refused(refused)),
            Planned::Sent => Some(match answers.next() {
                Some(Ok(appended)) => Outcome::Appended(appended),
                Some(Err(error)) => Outcome::Refused(RefusedBatch::new(
                    error_codes::of_append(&error, version),
                    Some(error.to_string()),
                )),
                None => panic!("the router answered fewer batches than it was given"),
            }),
        })
        .collect();
    assert!(answers.next().is_none(), "the router answered more batches than it was given");
    outcomes
}

/// Without a response there is one way to tell of an error: closing the connection.
fn acks_zero(outcomes: &[Option<Outcome>]) -> Result<Answer, Close> {
    let failed = outcomes.iter().flatten().find_map(|outcome| match outcome {
        Outcome::Refused(refused) => Some(refused.code),
        Outcome::Appended(_) => None,
    });
    match failed {
        Some(code) => Err(Close::AcksZero { code }),
        None => Ok(Answer::Nothing),
    }
}

fn respond(
    call: &Call,
    request: &ProduceRequest<'_>,
    image: &MetadataImage,
    outcomes: &[Option<Outcome>],
) -> Result<Answer, Close> {
    let mut outcomes = outcomes.iter();
    let mut responses = Vec::with_capacity(request.topic_data.len());
    let mut names_leader = false;
    for topic in &request.topic_data {
        let outcomes = outcomes.by_ref().take(topic.partition_data.len());
        let answered = topic.partition_data.iter().zip(outcomes);
        let partitions: Vec<_> = answered
            .filter_map(|(data, outcome)| {
                let response = partition_response(call, data.index, outcome.as_ref()?);
                Some(with_leader(call, image, topic, response, &mut names_leader))
            })
            .collect();
        if !partitions.is_empty() || topic.partition_data.is_empty() {
            responses.push(TopicProduceResponse {
                name: topic.name,
                topic_id: topic.topic_id,
                partition_responses: partitions,
            });
        }
    }
    let node_endpoints = if names_leader { endpoints(call, image) } else { Vec::new() };
    call.respond(&ProduceResponse { responses, node_endpoints, ..Default::default() })
}

fn partition_response<'o>(
    call: &Call,
    index: i32,
    outcome: &'o Outcome,
) -> PartitionProduceResponse<'o> {
    match outcome {
        Outcome::Appended(appended) => PartitionProduceResponse {
            index,
            base_offset: appended.base_offset.get(),
            log_append_time_ms: appended.log_append_time.map_or(-1, TimestampMs::get),
            log_start_offset: appended.log_start.get(),
            ..Default::default()
        },
        Outcome::Refused(refused) => PartitionProduceResponse {
            index,
            error_code: refused.code.number(),
            base_offset: -1,
            record_errors: if call.version >= 8 { record_errors(refused) } else { Vec::new() },
            error_message: refused.message.as_deref(),
            ..Default::default()
        },
    }
}

fn record_errors(refused: &RefusedBatch) -> Vec<BatchIndexAndErrorMessage<'_>> {
    let records = refused.records.iter();
    records
        .map(|(batch_index, message)| BatchIndexAndErrorMessage {
            batch_index: *batch_index,
            batch_index_error_message: Some(message),
        })
        .collect()
}

/// From version 10 on, a client whose view of the leader is old is told the leader (KIP-951).
fn with_leader<'r>(
    call: &Call,
    image: &MetadataImage,
    topic: &TopicProduceData<'_>,
    mut response: PartitionProduceResponse<'r>,
    names_leader: &mut bool,
) -> PartitionProduceResponse<'r> {
    let stale = [ErrorCode::NotLeaderOrFollower.number(), ErrorCode::FencedLeaderEpoch.number()];
    if call.version < 10 || !stale.contains(&response.error_code) {
        return response;
    }
    let found = match call.version {
        13.. => by_id(image, topic.topic_id),
        _ => by_name(image, topic.name),
    };
    if let Ok(topic) = found {
        let (leader_id, leader_epoch) = (image.node_id().get(), topic.leader_epoch.get());
        response.current_leader = LeaderIdAndEpoch { leader_id, leader_epoch };
        *names_leader = true;
    }
    response
}

fn endpoints<'i>(call: &Call, image: &'i MetadataImage) -> Vec<NodeEndpoint<'i>> {
    let endpoint = |broker: &'i crate::cluster::image::Broker| {
        let endpoint = call.endpoint(broker);
        NodeEndpoint {
            node_id: broker.id.get(),
            host: &endpoint.host,
            port: i32::from(endpoint.port),
            rack: broker.rack.as_deref(),
        }
    };
    image.start.brokers.iter().map(endpoint).collect()
}
