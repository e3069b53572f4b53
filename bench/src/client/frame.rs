//! Requests as prebuilt frames, and answers read back.

use anyhow::{Context, Result, ensure};
use millstream::wire::frame::{decode_response, encode_request};
use millstream::wire::messages::{fetch as f, produce as p};
use millstream::wire::{Records, Request, Response};

use super::Topic;

/// Client id of every request.
const CLIENT_ID: &str = "millstream-bench";

/// Versions of the APIs on the hot paths, agreed with the broker at the start.
#[derive(Clone, Copy, Debug)]
pub struct Versions {
    pub produce: i16,
    pub fetch: i16,
    pub metadata: i16,
}

impl Versions {
    /// The newest this client speaks: topic ids, as today's clients send them.
    pub const NEWEST: Versions = Versions { produce: 13, fetch: 17, metadata: 12 };
}

/// A request, whole, with its length, sent any number of times under new correlation ids.
#[derive(Debug)]
pub struct Frame {
    bytes: Vec<u8>,
}

impl Frame {
    /// Length, API key, version and correlation id: what is not shared between two sendings.
    pub const HEAD_BYTES: usize = 12;

    /// Encodes a request at a version.
    pub fn request<'a, R: Request<'a>>(request: &R, version: i16) -> Result<Frame> {
        Ok(Frame { bytes: encode_request(request, version, 0, CLIENT_ID)? })
    }

    /// Bytes on the wire.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Never: a frame has at least its head.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The first bytes, with a correlation id of their own.
    pub fn head(&self, correlation: i32) -> [u8; Self::HEAD_BYTES] {
        let mut head = [0; Self::HEAD_BYTES];
        head.copy_from_slice(&self.bytes[..Self::HEAD_BYTES]);
        head[8..].copy_from_slice(&correlation.to_be_bytes());
        head
    }

    /// What follows the head.
    pub fn tail(&self) -> &[u8] {
        &self.bytes[Self::HEAD_BYTES..]
    }

    /// The whole frame under a correlation id.
    pub fn whole(&self, correlation: i32) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes[8..12].copy_from_slice(&correlation.to_be_bytes());
        bytes
    }
}

/// A Produce request with one batch for each of the partitions, acks=all.
pub fn produce(versions: Versions, topic: &Topic, parts: &[(i32, &[u8])]) -> Result<Frame> {
    let request = p::ProduceRequest {
        transactional_id: None,
        acks: -1,
        timeout_ms: 30_000,
        topic_data: vec![p::TopicProduceData {
            name: &topic.name,
            topic_id: topic.id,
            partition_data: parts
                .iter()
                .map(|(index, batch)| p::PartitionProduceData {
                    index: *index,
                    records: Some(batch),
                })
                .collect(),
        }],
    };
    Frame::request(&request, versions.produce)
}

/// One partition of a Produce answer, success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProduceAnswer {
    pub partition: i32,
    pub base_offset: i64,
}

/// Reads a Produce answer and hands out each partition.
///
/// # Errors
/// On any error code: a load has no use for a partly refused request.
pub fn read_produce(
    version: i16,
    bytes: &[u8],
    mut each: impl FnMut(ProduceAnswer) -> Result<()>,
) -> Result<()> {
    let response: p::ProduceResponse<'_> = body(version, bytes)?;
    for topic in &response.responses {
        for part in &topic.partition_responses {
            ensure!(
                part.error_code == 0,
                "Produce to partition {} was refused with error {}{}",
                part.index,
                part.error_code,
                part.error_message.map_or(String::new(), |text| format!(": {text}"))
            );
            each(ProduceAnswer { partition: part.index, base_offset: part.base_offset })?;
        }
    }
    Ok(())
}

/// A Fetch request without a session for partitions of one topic, each from its offset.
pub fn fetch(
    versions: Versions,
    topic: &Topic,
    parts: &[(i32, i64)],
    max_wait_ms: i32,
    partition_bytes: i32,
) -> Result<Frame> {
    let request = f::FetchRequest {
        max_wait_ms,
        min_bytes: 1,
        max_bytes: 64 * 1024 * 1024,
        topics: vec![f::FetchTopic {
            topic: &topic.name,
            topic_id: topic.id,
            partitions: parts
                .iter()
                .map(|(partition, fetch_offset)| f::FetchPartition {
                    partition: *partition,
                    fetch_offset: *fetch_offset,
                    partition_max_bytes: partition_bytes,
                    ..f::FetchPartition::default()
                })
                .collect(),
        }],
        ..f::FetchRequest::default()
    };
    Frame::request(&request, versions.fetch)
}

/// One partition of a Fetch answer, success.
#[derive(Clone, Copy, Debug)]
pub struct FetchAnswer<'a> {
    pub partition: i32,
    pub high_watermark: i64,
    pub records: &'a [u8],
}

/// Reads a Fetch answer and hands out each partition.
///
/// # Errors
/// On any error code.
pub fn read_fetch<'a>(
    version: i16,
    bytes: &'a [u8],
    mut each: impl FnMut(FetchAnswer<'a>) -> Result<()>,
) -> Result<()> {
    let response: f::FetchResponse<'a> = body(version, bytes)?;
    ensure!(response.error_code == 0, "Fetch was refused with error {}", response.error_code);
    for topic in response.responses {
        for part in topic.partitions {
            ensure!(
                part.error_code == 0,
                "Fetch from partition {} was refused with error {}",
                part.partition_index,
                part.error_code
            );
            let records = match part.records {
                Records::Bytes(bytes) => bytes,
                Records::Null | Records::Elsewhere(_) => &[],
            };
            each(FetchAnswer {
                partition: part.partition_index,
                high_watermark: part.high_watermark,
                records,
            })?;
        }
    }
    Ok(())
}

/// Reads the body of an answer, given as its frame without the length.
pub fn body<'a, R: Response<'a>>(version: i16, frame: &'a [u8]) -> Result<R> {
    let (_, body) = decode_response(frame, version)
        .with_context(|| format!("the answer is no {} v{version}", R::NAME))?;
    Ok(body)
}
