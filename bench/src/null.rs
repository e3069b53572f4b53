//! A server that answers and does nothing: it keeps one batch of each partition and counts. What
//! the client reaches against it is the client's own ceiling, same requests, same checks.

use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use anyhow::{Context, Result, bail, ensure};
use millstream::wire::frame::append_response;
use millstream::wire::messages::{
    api_versions as av, create_topics as ct, fetch as f, list_offsets as lo, metadata as md,
    produce as p,
};
use millstream::wire::{ApiKey, Reader, Records, Request, RequestHeader, Response, Uuid};
use rustix::event::epoll;

use crate::options::Options;

const LISTENER: u64 = u64::MAX;
const READ_BYTES: usize = 256 * 1024;

/// The `null` command: serves until the process ends.
pub fn run(mut options: Options) -> Result<bool> {
    let address: SocketAddr = options.value("listen", SocketAddr::from(([127, 0, 0, 1], 0)))?;
    options.finish()?;
    let listener = TcpListener::bind(address)?;
    println!("ready on {}", listener.local_addr()?);
    serve(listener)?;
    Ok(true)
}

/// Serves on `listener` until the process ends.
pub fn serve(listener: TcpListener) -> Result<()> {
    let address = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut server = Server { topics: Vec::new(), address };
    let mut peers: HashMap<u64, Peer> = HashMap::new();
    let mut number = 0;
    let mut events = Vec::with_capacity(256);
    loop {
        events.clear();
        match epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno).context("epoll_wait"),
        }
        for event in &events {
            let (data, flags) = (event.data, event.flags);
            let key = data.u64();
            if key == LISTENER {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                epoll::add(
                    &epoll,
                    &stream,
                    epoll::EventData::new_u64(number),
                    epoll::EventFlags::IN,
                )?;
                peers.insert(number, Peer::new(stream));
                number += 1;
                continue;
            }
            let Some(peer) = peers.get_mut(&key) else { continue };
            if peer.serve(&mut server, &epoll, key, flags).is_err() {
                peers.remove(&key);
            }
        }
    }
}

struct Server {
    topics: Vec<Known>,
    address: SocketAddr,
}

struct Known {
    name: String,
    id: Uuid,
    parts: Vec<Part>,
}

#[derive(Clone, Default)]
struct Part {
    end: i64,
    batch: Vec<u8>,
    records: i64,
}

struct Peer {
    stream: TcpStream,
    input: Vec<u8>,
    have: usize,
    output: Vec<u8>,
    sent: usize,
    wants_write: bool,
}

impl Peer {
    fn new(stream: TcpStream) -> Peer {
        Peer {
            stream,
            input: vec![0; READ_BYTES],
            have: 0,
            output: Vec::new(),
            sent: 0,
            wants_write: false,
        }
    }

    /// Reads, answers, writes. An error ends the connection, as does its end.
    fn serve(
        &mut self,
        server: &mut Server,
        epoll: &OwnedFd,
        key: u64,
        flags: epoll::EventFlags,
    ) -> Result<()> {
        if flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::HUP) {
            self.receive(server)?;
        }
        let done = self.send()?;
        if done == self.wants_write {
            self.wants_write = !done;
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, !done);
            epoll::modify(epoll, &self.stream, epoll::EventData::new_u64(key), flags)?;
        }
        Ok(())
    }

    fn receive(&mut self, server: &mut Server) -> Result<()> {
        match self.stream.read(&mut self.input[self.have..]) {
            Ok(0) => bail!("end of stream"),
            Ok(read) => self.have += read,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let mut from = 0;
        while let Some((length, rest)) = self.input[from..self.have].split_first_chunk::<4>() {
            let length = usize::try_from(i32::from_be_bytes(*length))?;
            if rest.len() < length {
                let need = length + 4;
                if self.input.len() < need {
                    self.input.resize(need, 0);
                }
                break;
            }
            server.answer(&rest[..length], &mut self.output)?;
            from += 4 + length;
        }
        self.input.copy_within(from..self.have, 0);
        self.have -= from;
        Ok(())
    }

    fn send(&mut self) -> Result<bool> {
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(written) => self.sent += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        self.output.clear();
        self.sent = 0;
        Ok(true)
    }
}

impl Server {
    fn answer(&mut self, frame: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let mut reader = Reader::new(frame);
        let header = RequestHeader::decode(&mut reader)?;
        let reply = Reply { correlation: header.correlation_id, version: header.api_version };
        match header.api_key {
            ApiKey::Produce => self.produce(&mut reader, reply, out),
            ApiKey::Fetch => self.fetch(&mut reader, reply, out),
            ApiKey::ListOffsets => self.ends(&mut reader, reply, out),
            ApiKey::Metadata => self.metadata(&mut reader, reply, out),
            ApiKey::CreateTopics => self.create(&mut reader, reply, out),
            ApiKey::ApiVersions => versions(reply, out),
            other => bail!("{} is not served", other.name()),
        }
    }

    fn produce(&mut self, reader: &mut Reader<'_>, reply: Reply, out: &mut Vec<u8>) -> Result<()> {
        let request: p::ProduceRequest<'_> = decode(reader, reply.version)?;
        let mut responses = Vec::with_capacity(request.topic_data.len());
        for topic in &request.topic_data {
            let known = self.find(topic.name, topic.topic_id)?;
            let mut partition_responses = Vec::with_capacity(topic.partition_data.len());
            for part in &topic.partition_data {
                let batch = part.records.unwrap_or_default();
                ensure!(batch.len() > 61, "no batch");
                let mut count = [0; 4];
                count.copy_from_slice(&batch[57..61]);
                let slot = slot(known, part.index)?;
                if slot.batch.is_empty() {
                    slot.batch = batch.to_vec();
                    slot.records = i64::from(i32::from_be_bytes(count));
                }
                partition_responses.push(p::PartitionProduceResponse {
                    index: part.index,
                    base_offset: slot.end,
                    ..p::PartitionProduceResponse::default()
                });
                slot.end += i64::from(i32::from_be_bytes(count));
            }
            responses.push(p::TopicProduceResponse {
                name: topic.name,
                topic_id: topic.topic_id,
                partition_responses,
            });
        }
        let response = p::ProduceResponse { responses, ..p::ProduceResponse::default() };
        reply.write(&response, out)
    }

    /// Answers with the partition's one batch, as often as fits, under the offsets asked for.
    fn fetch(&mut self, reader: &mut Reader<'_>, reply: Reply, out: &mut Vec<u8>) -> Result<()> {
        let request: f::FetchRequest<'_> = decode(reader, reply.version)?;
        let mut bodies: Vec<Vec<u8>> = Vec::new();
        for topic in &request.topics {
            let known = self.find(topic.topic, topic.topic_id)?;
            for part in &topic.partitions {
                let slot = slot(known, part.partition)?;
                let room = usize::try_from(part.partition_max_bytes)?;
                let mut body = Vec::new();
                let mut offset = part.fetch_offset;
                while offset < slot.end
                    && (body.is_empty() || body.len() + slot.batch.len() <= room)
                {
                    let at = body.len();
                    body.extend_from_slice(&slot.batch);
                    body[at..at + 8].copy_from_slice(&offset.to_be_bytes());
                    offset += slot.records;
                }
                bodies.push(body);
            }
        }
        let mut bodies = bodies.iter();
        let mut responses = Vec::new();
        for topic in &request.topics {
            let known = self.find(topic.topic, topic.topic_id)?;
            let mut partitions = Vec::new();
            for part in &topic.partitions {
                let end = slot(known, part.partition)?.end;
                let body = bodies.next().map_or(&[][..], Vec::as_slice);
                partitions.push(f::PartitionData {
                    partition_index: part.partition,
                    high_watermark: end,
                    last_stable_offset: end,
                    records: Records::Bytes(body),
                    ..f::PartitionData::default()
                });
            }
            responses.push(f::FetchableTopicResponse {
                topic: topic.topic,
                topic_id: topic.topic_id,
                partitions,
            });
        }
        let response = f::FetchResponse { responses, ..f::FetchResponse::default() };
        reply.write(&response, out)
    }

    fn ends(&mut self, reader: &mut Reader<'_>, reply: Reply, out: &mut Vec<u8>) -> Result<()> {
        let request: lo::ListOffsetsRequest<'_> = decode(reader, reply.version)?;
        let mut topics = Vec::new();
        for topic in &request.topics {
            let known = self.find(topic.name, Uuid::ZERO)?;
            let mut partitions = Vec::new();
            for part in &topic.partitions {
                partitions.push(lo::ListOffsetsPartitionResponse {
                    partition_index: part.partition_index,
                    offset: slot(known, part.partition_index)?.end,
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
            let known = self.find(topic.name.unwrap_or_default(), topic.topic_id)?;
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
            let parts = vec![Part::default(); usize::try_from(topic.num_partitions)?];
            self.topics.push(Known { name: topic.name.to_owned(), id, parts });
            topics.push(ct::CreatableTopicResult {
                name: topic.name,
                topic_id: id,
                ..ct::CreatableTopicResult::default()
            });
        }
        reply.write(&ct::CreateTopicsResponse { topics, ..Default::default() }, out)
    }

    fn find(&mut self, name: &str, id: Uuid) -> Result<&mut Known> {
        let same = |known: &&mut Known| known.name == name || (known.id == id && !id.is_zero());
        self.topics.iter_mut().find(same).context("an unknown topic")
    }
}

#[derive(Clone, Copy)]
struct Reply {
    correlation: i32,
    version: i16,
}

impl Reply {
    fn write<'a, R: Response<'a>>(self, response: &R, out: &mut Vec<u8>) -> Result<()> {
        let buffer = std::mem::take(out);
        *out = append_response(response, self.version, self.correlation, buffer)?;
        Ok(())
    }
}

fn versions(reply: Reply, out: &mut Vec<u8>) -> Result<()> {
    let row = |key: ApiKey| av::ApiVersion {
        api_key: key.number(),
        min_version: key.versions().min,
        max_version: key.versions().max,
    };
    let response = av::ApiVersionsResponse {
        api_keys: [ApiKey::Produce, ApiKey::Fetch, ApiKey::ListOffsets, ApiKey::Metadata]
            .map(row)
            .to_vec(),
        ..av::ApiVersionsResponse::default()
    };
    reply.write(&response, out)
}

fn decode<'a, R: Request<'a>>(reader: &mut Reader<'a>, version: i16) -> Result<R> {
    Ok(R::decode(reader, version)?)
}

fn slot(known: &mut Known, partition: i32) -> Result<&mut Part> {
    known.parts.get_mut(usize::try_from(partition)?).context("an unknown partition")
}
