//! From plans to a framed response: who is answered, and where the records lie.

use super::super::fetch_session::{Context, NO_SESSION, Told, TopicLabel, Wanted};
use super::super::{Answer, Call, Close};
use super::Outcome;
use crate::cluster::image::MetadataImage;
use crate::wire::fetch_response::frame_in_pieces;
use crate::wire::messages::fetch::{
    AbortedTransaction, EpochEndOffset, FetchResponse, FetchableTopicResponse, LeaderIdAndEpoch,
    NodeEndpoint, PartitionData,
};
use crate::wire::{ErrorCode, Records, Uuid};
use millstream_shards::message::{Aborted, Chunk, ReadPlan};

/// The whole request is refused. Versions before 7 have no place for that: their partitions would
/// have to say it, and no such error concerns them.
pub fn refused(call: &Call, code: ErrorCode) -> Result<Answer, Close> {
    if call.version < 7 {
        return call.respond(&FetchResponse::default());
    }
    call.respond(&FetchResponse { error_code: code.into(), ..Default::default() })
}

/// Answers every partition of a full fetch, and of an incremental one those with news.
pub fn respond(call: &Call, context: &Context, outcomes: Vec<Outcome>) -> Result<Answer, Close> {
    let (session_id, wanted, places) = match context {
        Context::Sessionless(wanted) => (NO_SESSION, wanted, None),
        Context::Full { session_id, wanted } => (*session_id, wanted, None),
        Context::Incremental { session_id, wanted, places } => {
            (*session_id, wanted, Some(places.as_slice()))
        }
    };
    let image = call.image();
    let mut response = Building::default();
    for (index, (wanted, outcome)) in wanted.iter().zip(outcomes).enumerate() {
        let is_wanted = match places {
            Some(places) => remember(call, session_id, places[index], &outcome),
            None => {
                remember_new(call, session_id, wanted, &outcome);
                true
            }
        };
        if is_wanted {
            response.add(call, &image, wanted, outcome);
        }
    }
    response.finish(call, &image, session_id)
}

/// Whether an answer is news to the session.
fn remember(call: &Call, session_id: i32, place: usize, outcome: &Outcome) -> bool {
    let mut sessions = call.core.fetch_sessions.borrow_mut();
    match outcome {
        Ok(plan) => {
            let has_records = !plan.chunks.is_empty();
            if has_records {
                sessions.rotate(session_id, place);
            }
            sessions.tell(session_id, place, told(plan), has_records || plan.diverging.is_some())
        }
        Err(_) => {
            sessions.tell_error(session_id, place);
            true
        }
    }
}

/// Notes what the first answer of a session says.
fn remember_new(call: &Call, session_id: i32, wanted: &Wanted, outcome: &Outcome) {
    if session_id == NO_SESSION {
        return;
    }
    let place = call.core.fetch_sessions.borrow().place_of(session_id, wanted);
    if let Some(place) = place {
        remember(call, session_id, place, outcome);
    }
}

fn told(plan: &ReadPlan) -> Told {
    Told {
        high_watermark: plan.high_watermark.get(),
        last_stable_offset: plan.last_stable_offset.get(),
        log_start: plan.log_start.get(),
    }
}

/// A response under construction.
#[derive(Default)]
struct Building<'w> {
    topics: Vec<FetchableTopicResponse<'w>>,
    /// The chunks of each partition whose records lie elsewhere, in order.
    records: Vec<Vec<Chunk>>,
    names_leader: bool,
}

impl<'w> Building<'w> {
    fn add(&mut self, call: &Call, image: &MetadataImage, wanted: &'w Wanted, outcome: Outcome) {
        let mut data = PartitionData { partition_index: wanted.partition, ..Default::default() };
        match outcome {
            Ok(plan) => self.fill(call, &mut data, plan),
            Err(code) => {
                data.error_code = code.into();
                data.high_watermark = -1;
                data.aborted_transactions = Some(Vec::new());
                self.name_leader(call, image, wanted, code, &mut data);
            }
        }
        let (name, id) = match &wanted.topic {
            TopicLabel::Name(name) => (&**name, Uuid::ZERO),
            TopicLabel::Id(id) => ("", *id),
        };
        match self.topics.last_mut() {
            Some(last) if last.topic == name && last.topic_id == id => last.partitions.push(data),
            _ => self.topics.push(FetchableTopicResponse {
                topic: name,
                topic_id: id,
                partitions: vec![data],
            }),
        }
    }

    fn fill(&mut self, call: &Call, data: &mut PartitionData<'w>, plan: ReadPlan) {
        data.high_watermark = plan.high_watermark.get();
        data.last_stable_offset = plan.last_stable_offset.get();
        data.log_start_offset = plan.log_start.get();
        data.aborted_transactions =
            plan.aborted.as_ref().map(|aborted| aborted.iter().map(aborted_entry).collect());
        if let Some(end) = plan.diverging
            && call.version >= 12
        {
            data.diverging_epoch =
                EpochEndOffset { epoch: end.epoch.get(), end_offset: end.end.get() };
        }
        let bytes = plan.bytes();
        if bytes > 0 {
            let Ok(len) = usize::try_from(bytes) else {
                panic!("a read plan of {bytes} bytes passed the limits of a fetch");
            };
            data.records = Records::Elsewhere(len);
            self.records.push(plan.chunks);
        }
    }

    /// From version 12 on, a client whose view of the leader is old is told the leader.
    fn name_leader(
        &mut self,
        call: &Call,
        image: &MetadataImage,
        wanted: &Wanted,
        code: ErrorCode,
        data: &mut PartitionData<'_>,
    ) {
        let is_stale =
            matches!(code, ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch);
        let topic = match &wanted.topic {
            TopicLabel::Name(name) => image.topic_by_name(name),
            TopicLabel::Id(id) => image.topic_by_id(super::super::topics::topic_id(*id)),
        };
        if let Some(topic) = topic
            && is_stale
            && call.version >= 12
        {
            let (leader_id, leader_epoch) = (image.node_id().get(), topic.leader_epoch.get());
            data.current_leader = LeaderIdAndEpoch { leader_id, leader_epoch };
            self.names_leader = call.version >= 16;
        }
    }

    fn finish(self, call: &Call, image: &MetadataImage, session_id: i32) -> Result<Answer, Close> {
        let mut response = FetchResponse { responses: self.topics, ..Default::default() };
        if call.version >= 7 {
            response.session_id = session_id;
        }
        if self.names_leader {
            response.node_endpoints = endpoints(call, image);
        }
        let framed = frame_in_pieces(&response, call.version, call.correlation_id, Vec::new())?;
        Ok(Answer::Pieces { framed, records: self.records })
    }
}

fn aborted_entry(aborted: &Aborted) -> AbortedTransaction {
    AbortedTransaction {
        producer_id: aborted.producer.get(),
        first_offset: aborted.first_offset.get(),
    }
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
