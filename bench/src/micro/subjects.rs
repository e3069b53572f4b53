//! The functions under question, with inputs as the broker would give them.

use std::sync::Arc;

use bytes::Bytes;
use millstream::wire::frame::{append_response, encode_request};
use millstream::wire::messages::{fetch as f, produce as p};
use millstream::wire::{EncodeError, Reader, Records, RequestHeader, Uuid};
use millstream_io::batch::{Attributes, CheckedBatch, Origin, at, crc_of};
use millstream_io::sparse_index::{BatchStart, SparseIndex};
use millstream_io::units::{
    FilePosition, LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, SegmentId,
    TimestampMs, TopicId, TopicPartition,
};
use millstream_shards::message::{
    Append, Isolation, Marker, OpenPartition, Outcome, PartitionConfig, Read, ReadPlan,
    TransactionQuery, TransactionState, VerificationGuard,
};
use millstream_shards::partition_log::{CommitShare, PartitionLog, RecoveredLog};
use millstream_shards::read::{Planned, Room};

use crate::batch::Batch;

const NOW: TimestampMs = TimestampMs::new(1_700_000_000_000);
const TOPIC: Uuid = Uuid([7; 16]);
const PRODUCER: i64 = 4000;

/// The one partition of most questions.
pub fn place() -> TopicPartition {
    place_of(0)
}

/// A partition of the one topic of these questions.
pub fn place_of(partition: i32) -> TopicPartition {
    TopicPartition { topic: TopicId::from_bytes(TOPIC.0), partition: PartitionIndex::at(partition) }
}

/// An empty log.
pub fn log() -> PartitionLog {
    let open = OpenPartition {
        at: place(),
        topic_name: Arc::from("micro"),
        epoch: LeaderEpoch::at(0),
        config: PartitionConfig::default(),
    };
    PartitionLog::open(&open, RecoveredLog::default())
}

/// A batch as the door hands it on.
///
/// # Panics
/// When the broker refuses our own well-formed batch.
pub fn append(records: u32, value_bytes: usize) -> Append {
    Append {
        at: place(),
        current: None,
        batch: checked(&batch(records, value_bytes)),
        transaction: None,
        now: NOW,
    }
}

/// A batch of an idempotent producer, or of its transaction.
///
/// # Panics
/// As [`append`].
pub fn append_of_producer(records: u32, sequence: i32, transactional: bool) -> Append {
    let mut bytes = batch(records, 100).to_vec();
    let attributes: u16 = if transactional { Attributes::TRANSACTIONAL } else { 0 };
    bytes[at::ATTRIBUTES..at::LAST_OFFSET_DELTA].copy_from_slice(&attributes.to_be_bytes());
    bytes[at::PRODUCER_ID..at::PRODUCER_EPOCH].copy_from_slice(&PRODUCER.to_be_bytes());
    bytes[at::PRODUCER_EPOCH..at::BASE_SEQUENCE].copy_from_slice(&0i16.to_be_bytes());
    bytes[at::BASE_SEQUENCE..at::RECORD_COUNT].copy_from_slice(&sequence.to_be_bytes());
    let crc = crc_of(&bytes);
    bytes[at::CRC..at::ATTRIBUTES].copy_from_slice(&crc.to_be_bytes());
    Append { batch: checked(&Bytes::from(bytes)), ..append(1, 1) }
}

/// The guard with which the producer's transaction begins; `None` when it is open.
pub fn guard(log: &mut PartitionLog) -> Option<VerificationGuard> {
    let (producer, epoch) = producer();
    let query = TransactionQuery { at: place(), producer, epoch, first: None, bumps_epoch: false };
    match log.transaction(&query) {
        TransactionState::Open => None,
        TransactionState::Unverified(guard) => Some(guard),
    }
}

/// Ends the producer's transaction.
///
/// # Panics
/// When the marker is refused.
pub fn end_transaction(log: &mut PartitionLog) {
    let (producer, epoch) = producer();
    let marker = Marker {
        at: place(),
        producer,
        epoch,
        outcome: Outcome::Abort,
        coordinator_epoch: 0,
        transaction_version: 1,
        now: NOW,
    };
    if let Err(error) = log.append_marker(&marker) {
        panic!("a well-formed marker was refused: {error}");
    }
}

fn producer() -> (ProducerId, ProducerEpoch) {
    match (ProducerId::new(PRODUCER), ProducerEpoch::new(0)) {
        (Some(id), Some(epoch)) => (id, epoch),
        none => panic!("no producer: {none:?}"),
    }
}

/// The bytes of a batch.
pub fn batch(records: u32, value_bytes: usize) -> Bytes {
    Bytes::from(Batch::filled(records, value_bytes, 1, NOW.get()).bytes)
}

/// The door's check.
///
/// # Panics
/// When it refuses.
pub fn checked(bytes: &Bytes) -> CheckedBatch {
    match CheckedBatch::parse(bytes.clone(), Origin::Client) {
        Ok(batch) => batch,
        Err(error) => panic!("a well-formed batch was refused: {error}"),
    }
}

/// Stages a batch.
///
/// # Panics
/// When it is refused.
pub fn stage(log: &mut PartitionLog, append: &Append) {
    if let Err(error) = log.append(append, TimestampMs::new(i64::MIN)) {
        panic!("a well-formed batch was refused: {error}");
    }
}

/// One round that succeeds.
pub fn commit(log: &mut PartitionLog) {
    let share = log.commit_share(128 << 10);
    let from = match share {
        CommitShare::Journal { from, .. }
        | CommitShare::Repeat { from, .. }
        | CommitShare::Direct { from, .. } => from,
        CommitShare::Nothing => return,
    };
    log.commit_begun(share);
    log.commit_done(from);
}

/// Plans a read at the tail.
///
/// # Panics
/// When the offset is not there, or not in memory.
pub fn plan(log: &mut PartitionLog, offset: i64, bytes_max: u64) -> ReadPlan {
    let read = Read {
        at: place(),
        offset: Offset::at(offset),
        bytes_max,
        current: None,
        last_fetched: None,
    };
    let room = Room { bytes_left: bytes_max, whole_first: true };
    match log.plan_read(&read, Isolation::ReadUncommitted, room) {
        Ok(Planned::Ready(plan)) => plan,
        other => panic!("offset {offset} is not in memory: {other:?}"),
    }
}

/// A Produce request with the same batch for each of `partitions`, without its length.
pub fn produce_frame(partitions: i32, records: u32) -> Vec<u8> {
    let batch = batch(records, 100);
    let request = p::ProduceRequest {
        acks: -1,
        timeout_ms: 30_000,
        topic_data: vec![p::TopicProduceData {
            topic_id: TOPIC,
            partition_data: (0..partitions)
                .map(|index| p::PartitionProduceData { index, records: Some(&batch) })
                .collect(),
            ..p::TopicProduceData::default()
        }],
        ..p::ProduceRequest::default()
    };
    frame(encode_request(&request, 13, 1, "micro"))
}

/// A Fetch request for `partitions`, without its length.
pub fn fetch_frame(partitions: i32) -> Vec<u8> {
    let request = f::FetchRequest {
        max_wait_ms: 500,
        min_bytes: 1,
        topics: vec![f::FetchTopic {
            topic_id: TOPIC,
            partitions: (0..partitions)
                .map(|partition| f::FetchPartition {
                    partition,
                    partition_max_bytes: 1 << 20,
                    ..f::FetchPartition::default()
                })
                .collect(),
            ..f::FetchTopic::default()
        }],
        ..f::FetchRequest::default()
    };
    frame(encode_request(&request, 17, 1, "micro"))
}

/// Decodes header and body of a request; returns how many partitions it names.
///
/// # Panics
/// When it is not such a request.
pub fn decode_produce(frame: &[u8]) -> usize {
    let (header, mut reader) = header(frame);
    match <p::ProduceRequest<'_> as millstream::wire::Message<'_>>::decode(
        &mut reader,
        header.api_version,
    ) {
        Ok(request) => request.topic_data.iter().map(|topic| topic.partition_data.len()).sum(),
        Err(error) => panic!("{error}"),
    }
}

/// As [`decode_produce`], for a Fetch.
///
/// # Panics
/// When it is not such a request.
pub fn decode_fetch(frame: &[u8]) -> usize {
    let (header, mut reader) = header(frame);
    match <f::FetchRequest<'_> as millstream::wire::Message<'_>>::decode(
        &mut reader,
        header.api_version,
    ) {
        Ok(request) => request.topics.iter().map(|topic| topic.partitions.len()).sum(),
        Err(error) => panic!("{error}"),
    }
}

/// The answer to a Produce of so many partitions.
pub fn produce_response(partitions: i32) -> p::ProduceResponse<'static> {
    let partition_responses = (0..partitions)
        .map(|index| p::PartitionProduceResponse {
            index,
            base_offset: 77,
            log_start_offset: 0,
            ..p::PartitionProduceResponse::default()
        })
        .collect();
    p::ProduceResponse {
        responses: vec![p::TopicProduceResponse {
            topic_id: TOPIC,
            partition_responses,
            ..p::TopicProduceResponse::default()
        }],
        ..p::ProduceResponse::default()
    }
}

/// The answer to a Fetch of so many partitions, with records that lie elsewhere.
pub fn fetch_response(partitions: i32) -> f::FetchResponse<'static> {
    let partitions = (0..partitions)
        .map(|partition_index| f::PartitionData {
            partition_index,
            high_watermark: 99,
            last_stable_offset: 99,
            log_start_offset: 0,
            records: Records::Elsewhere(1 << 20),
            ..f::PartitionData::default()
        })
        .collect();
    f::FetchResponse {
        responses: vec![f::FetchableTopicResponse {
            topic_id: TOPIC,
            partitions,
            ..f::FetchableTopicResponse::default()
        }],
        ..f::FetchResponse::default()
    }
}

/// Encodes a Produce answer into a buffer that is used again.
///
/// # Panics
/// When the answer does not fit its version.
pub fn encode_produce(response: &p::ProduceResponse<'_>, mut buffer: Vec<u8>) -> Vec<u8> {
    buffer.clear();
    match append_response(response, 13, 1, buffer) {
        Ok(bytes) => bytes,
        Err(error) => panic!("{error}"),
    }
}

/// Frames a Fetch answer into a buffer that is used again.
///
/// # Panics
/// When the answer does not fit its version.
pub fn encode_fetch(response: &f::FetchResponse<'_>, buffer: Vec<u8>) -> Vec<u8> {
    match millstream::wire::fetch_response::frame_in_pieces(response, 17, 1, buffer) {
        Ok(framed) => framed.into_buffer(),
        Err(error) => panic!("{error}"),
    }
}

/// The index of a full segment of 1 GiB: one entry each 4 KiB, 40 records apart.
pub fn index() -> SparseIndex {
    let segment = SegmentId::new(LeaderEpoch::at(0), Offset::ZERO);
    let mut index = SparseIndex::new(segment);
    for entry in 1..(1u64 << 30) / 4096 {
        index.note(BatchStart {
            base: Offset::ZERO.add(entry * 40),
            at: FilePosition::new(entry * 4096),
        });
    }
    index
}

fn header(frame: &[u8]) -> (RequestHeader<'_>, Reader<'_>) {
    let mut reader = Reader::new(frame);
    match RequestHeader::decode(&mut reader) {
        Ok(header) => (header, reader),
        Err(error) => panic!("{error}"),
    }
}

fn frame(encoded: Result<Vec<u8>, EncodeError>) -> Vec<u8> {
    match encoded {
        Ok(mut bytes) => bytes.split_off(4),
        Err(error) => panic!("{error}"),
    }
}
