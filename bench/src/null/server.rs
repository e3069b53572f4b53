//! The answers of the server that does nothing.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use millstream::wire::frame::append_response;
use millstream::wire::messages::{
    api_versions as av, create_topics as ct, end_txn as et, fetch as f, list_offsets as lo,
    metadata as md, produce as p,
};
use millstream::wire::{ApiKey, Reader, Records, Request, RequestHeader, Response, Uuid};

use super::Lies;
use super::log::Log;
use super::transactions::{self, Producers};
use crate::process::pause;

const SERVED: [ApiKey; 10] = [
    ApiKey::Produce,
    ApiKey::Fetch,
    ApiKey::ListOffsets,
    ApiKey::Metadata,
    ApiKey::CreateTopics,
    ApiKey::ApiVersions,
    ApiKey::FindCoordinator,
    ApiKey::InitProducerId,
    ApiKey::AddPartitionsToTxn,
    ApiKey::EndTxn,
];

/// All that it knows.
pub struct Server {
    topics: Vec<Known>,
    address: SocketAddr,
    lies: Lies,
    produced: u64,
    batches: u64,
    producers: Producers,
}

struct Known {
    name: String,
    id: Uuid,
    parts: Vec<Log>,
}

impl Server {
    pub fn new(address: SocketAddr, lies: Lies) -> Server {
        Server {
            topics: Vec::new(),
            address,
            lies,
            produced: 0,
            batches: 0,
            producers: Producers::default(),
        }
    }

    /// Answers one request. False, and nothing written: it waits for records, already `waited`.
    pub fn answer(&mut self, frame: &[u8], waited: Duration, out: &mut Vec<u8>) -> Result<bool> {
        let mut reader = Reader::new(frame);
        let header = RequestHeader::decode(&mut reader)?;
        let reply = Reply { correlation: header.correlation_id, version: header.api_version };
        match header.api_key {
            ApiKey::Fetch => return self.fetch(&mut reader, reply, waited, out),
            ApiKey::Produce => self.produce(&mut reader, reply, out)?,
            ApiKey::ListOffsets => self.ends(&mut reader, reply, out)?,
            ApiKey::Metadata => self.metadata(&mut reader, reply, out)?,
            ApiKey::CreateTopics => self.create(&mut reader, reply, out)?,
            ApiKey::ApiVersions => {
                versions(reply, if self.lies.old_transactions { 1 } else { 2 }, out)?;
            }
            ApiKey::FindCoordinator => transactions::find(&mut reader, reply, out)?,
            ApiKey::InitProducerId => self.producers.init(&mut reader, reply, out)?,
            ApiKey::AddPartitionsToTxn => transactions::add(&mut reader, reply, out)?,
            ApiKey::EndTxn => self.end_transaction(&mut reader, reply, out)?,
            other => bail!("{} is not served", other.name()),
        }
        Ok(true)
    }

    fn produce(&mut self, reader: &mut Reader<'_>, reply: Reply, out: &mut Vec<u8>) -> Result<()> {
        let request: p::ProduceRequest<'_> = decode(reader, reply.version)?;
        self.produced += 1;
        if let Some((after, time)) = self.lies.stall
            && self.produced == after
        {
            pause(time);
        }
        let mut responses = Vec::with_capacity(request.topic_data.len());
        for topic in &request.topic_data {
            let mut partition_responses = Vec::with_capacity(topic.partition_data.len());
            for part in &topic.partition_data {
                let batch = part.records.unwrap_or_default();
                self.batches += 1;
                let due = |every: u64| every > 0 && self.batches.is_multiple_of(every);
                let copies =
                    if due(self.lies.lose) { 0 } else { 1 + usize::from(due(self.lies.repeat)) };
                let log = log_of(&mut self.topics, topic.name, topic.topic_id, part.index)?;
                let base_offset = log.end();
                for _ in 0..copies {
                    log.append(batch)?;
                }
                partition_responses.push(p::PartitionProduceResponse {
                    index: part.index,
                    base_offset,
                    ..p::PartitionProduceResponse::default()
                });
            }
            responses.push(p::TopicProduceResponse {
                name: topic.name,
                topic_id: topic.topic_id,
                partition_responses,
            });
        }
        if request.acks == 0 {
            return Ok(());
        }
        let response = p::ProduceResponse { responses, ..p::ProduceResponse::default() };
        reply.write(&response, out)
    }

    fn fetch(
        &mut self,
        reader: &mut Reader<'_>,
        reply: Reply,
        waited: Duration,
        out: &mut Vec<u8>,
    ) -> Result<bool> {
        let request: f::FetchRequest<'_> = decode(reader, reply.version)?;
        let committed = request.isolation_level == 1;
        let mut answers = Vec::new();
        for topic in &request.topics {
            for part in &topic.partitions {
                let room = usize::try_from(part.partition_max_bytes)?;
                let log = log_of(&mut self.topics, topic.topic, topic.topic_id, part.partition)?;
                let mut bytes = log.read(part.fetch_offset, room, committed);
                if self.lies.flip > 0 && !bytes.is_empty() {
                    self.produced += 1;
                    if self.produced.is_multiple_of(self.lies.flip) {
                        let last = bytes.len() - 1;
                        bytes[last] ^= 1;
                    }
                }
                let aborted =
                    (committed && !self.lies.hide_aborts).then(|| log.aborted(part.fetch_offset));
                answers.push((bytes, aborted, log.end(), log.stable()));
            }
        }
        let empty = answers.iter().all(|(bytes, ..)| bytes.is_empty());
        let patience = Duration::from_millis(u64::try_from(request.max_wait_ms)?);
        if empty && request.min_bytes > 0 && waited < patience {
            return Ok(false);
        }
        let mut answers = answers.iter();
        let mut responses = Vec::new();
        for topic in &request.topics {
            let part = |part: &f::FetchPartition| {
                let (bytes, aborted, end, stable) = answers.next()?;
                Some(f::PartitionData {
                    partition_index: part.partition,
                    high_watermark: *end,
                    last_stable_offset: *stable,
                    aborted_transactions: aborted.clone(),
                    records: Records::Bytes(bytes),
                    ..f::PartitionData::default()
                })
            };
            responses.push(f::FetchableTopicResponse {
                topic: topic.topic,
                topic_id: topic.topic_id,
                partitions: topic.partitions.iter().map_while(part).collect(),
            });
        }
        let response = f::FetchResponse { responses, ..f::FetchResponse::default() };
        reply.write(&response, out)?;
        Ok(true)
    }

    fn end_transaction(
        &mut self,
        reader: &mut Reader<'_>,
        reply: Reply,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let request: et::EndTxnRequest<'_> = decode(reader, reply.version)?;
        for log in self.topics.iter_mut().flat_map(|topic| &mut topic.parts) {
            log.end_transaction(request.producer_id, request.committed)?;
        }
        self.producers.end(&request, reply, out)
    }

    fn ends(&mut self, reader: &mut Reader<'_>, reply: Reply, out: &mut Vec<u8>) -> Result<()> {
        let request: lo::ListOffsetsRequest<'_> = decode(reader, reply.version)?;
        let mut topics = Vec::new();
        for topic in &request.topics {
            let mut partitions = Vec::new();
            for part in &topic.partitions {
                let log = log_of(&mut self.topics, topic.name, Uuid::ZERO, part.partition_index)?;
                partitions.push(lo::ListOffsetsPartitionResponse {
                    partition_index: part.partition_index,
                    offset: log.end(),
                    ..lo::ListOffsetsPartitionResponse::default()
                });
            }
            topics.push(lo::ListOffsetsTopicResponse { name: topic.name, partitions });
        }
        let response = lo::ListOffsetsResponse { topics, ..lo::ListOffsetsResponse::default() };
        reply.write(&response, out)
    }

    fn metadata(&mut self, reader: &mut Reader<'_>, reply: Reply, out: &mut Vec<u8>) -> Result<()> {
        let request: md::MetadataRequest<'_> = decode(reader, reply.version)?;
        let mut topics = Vec::new();
        for topic in request.topics.iter().flatten() {
            let known = find(&mut self.topics, topic.name.unwrap_or_default(), topic.topic_id)?;
            let part = |index: usize| md::MetadataResponsePartition {
                partition_index: i32::try_from(index).unwrap_or(i32::MAX),
                leader_id: 1,
                ..md::MetadataResponsePartition::default()
            };
            topics.push(md::MetadataResponseTopic {
                name: topic.name,
                topic_id: known.id,
                partitions: (0..known.parts.len()).map(part).collect(),
                ..md::MetadataResponseTopic::default()
            });
        }
        let host = self.address.ip().to_string();
        let broker = md::MetadataResponseBroker {
            node_id: 1,
            host: &host,
            port: i32::from(self.address.port()),
            ..md::MetadataResponseBroker::default()
        };
        let response = md::MetadataResponse {
            brokers: vec![broker],
            topics,
            ..md::MetadataResponse::default()
        };
        reply.write(&response, out)
    }

    fn create(&mut self, reader: &mut Reader<'_>, reply: Reply, out: &mut Vec<u8>) -> Result<()> {
        let request: ct::CreateTopicsRequest<'_> = decode(reader, reply.version)?;
        let mut topics = Vec::new();
        for topic in &request.topics {
            let mut id = Uuid::ZERO;
            id.0[15] = 1;
            id.0[..8].copy_from_slice(&(self.topics.len() as u64 + 1).to_be_bytes());
            let parts = vec![Log::default(); usize::try_from(topic.num_partitions)?];
            self.topics.push(Known { name: topic.name.to_owned(), id, parts });
            topics.push(ct::CreatableTopicResult {
                name: topic.name,
                topic_id: id,
                ..ct::CreatableTopicResult::default()
            });
        }
        reply.write(&ct::CreateTopicsResponse { topics, ..Default::default() }, out)
    }
}

fn find<'a>(topics: &'a mut [Known], name: &str, id: Uuid) -> Result<&'a mut Known> {
    let same = |known: &&mut Known| known.name == name || (known.id == id && !id.is_zero());
    topics.iter_mut().find(same).context("an unknown topic")
}

fn log_of<'a>(
    topics: &'a mut [Known],
    name: &str,
    id: Uuid,
    partition: i32,
) -> Result<&'a mut Log> {
    let parts = &mut find(topics, name, id)?.parts;
    parts.get_mut(usize::try_from(partition)?).context("an unknown partition")
}

/// Where an answer goes.
#[derive(Clone, Copy)]
pub struct Reply {
    correlation: i32,
    pub version: i16,
}

impl Reply {
    /// Appends it.
    pub fn write<'a, R: Response<'a>>(self, response: &R, out: &mut Vec<u8>) -> Result<()> {
        let buffer = std::mem::take(out);
        *out = append_response(response, self.version, self.correlation, buffer)?;
        Ok(())
    }
}

fn versions(reply: Reply, transactions: i16, out: &mut Vec<u8>) -> Result<()> {
    let row = |key: ApiKey| av::ApiVersion {
        api_key: key.number(),
        min_version: key.versions().min,
        max_version: key.versions().max,
    };
    let response = av::ApiVersionsResponse {
        api_keys: SERVED.map(row).to_vec(),
        finalized_features_epoch: 1,
        finalized_features: vec![av::FinalizedFeatureKey {
            name: "transaction.version",
            max_version_level: transactions,
            min_version_level: transactions,
        }],
        ..av::ApiVersionsResponse::default()
    };
    reply.write(&response, out)
}

/// A request's body.
pub fn decode<'a, R: Request<'a>>(reader: &mut Reader<'a>, version: i16) -> Result<R> {
    Ok(R::decode(reader, version)?)
}
