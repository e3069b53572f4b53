//! One blocking connection for what is asked once: versions, topics, offsets.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use millstream::wire::messages::{
    api_versions as av, create_topics as ct, list_offsets as lo, metadata as md,
};
use millstream::wire::{ApiKey, Request, Uuid};

use super::frame::{Frame, Versions, body};

/// A topic as requests name it.
#[derive(Clone, Debug)]
pub struct Topic {
    pub name: String,
    pub id: Uuid,
    pub partitions: i32,
}

/// A blocking client.
pub struct Admin {
    stream: TcpStream,
    correlation: i32,
    /// What this client and the broker both speak.
    pub versions: Versions,
    /// API key -> lowest and highest version of the broker.
    served: BTreeMap<i16, (i16, i16)>,
    /// Features that are in force, with their levels (KIP-584).
    features: BTreeMap<String, i16>,
}

const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// How long a new topic may take to be led (Kafka needs some milliseconds).
const LEADER_LIMIT: Duration = Duration::from_secs(30);

impl Admin {
    /// Connects and agrees on versions.
    pub fn connect(address: SocketAddr) -> Result<Admin> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(10))
            .with_context(|| format!("no broker listens at {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        let mut admin = Admin {
            stream,
            correlation: 0,
            versions: Versions::NEWEST,
            served: BTreeMap::new(),
            features: BTreeMap::new(),
        };
        admin.agree()?;
        admin.versions = Versions {
            produce: admin.version(ApiKey::Produce, Versions::NEWEST.produce)?,
            fetch: admin.version(ApiKey::Fetch, Versions::NEWEST.fetch)?,
            metadata: admin.version(ApiKey::Metadata, Versions::NEWEST.metadata)?,
        };
        Ok(admin)
    }

    /// The newest version that the broker serves and that is not above `ours`.
    ///
    /// # Errors
    /// When the broker has none.
    pub fn version(&self, key: ApiKey, ours: i16) -> Result<i16> {
        match self.served.get(&key.number()) {
            Some((least, newest)) if *least <= ours => Ok(ours.min(*newest)),
            _ => bail!("the broker does not serve {} up to version {ours}", key.name()),
        }
    }

    /// The level of a feature that is in force, 0 without.
    pub fn feature(&self, name: &str) -> i16 {
        self.features.get(name).copied().unwrap_or(0)
    }

    /// Sends a request and waits for its answer, whose bytes are handed to `read`.
    pub fn ask<'q, Q: Request<'q>, T>(
        &mut self,
        request: &Q,
        version: i16,
        read: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        self.correlation += 1;
        let frame = Frame::request(request, version)?.whole(self.correlation);
        self.stream.write_all(&frame)?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).with_context(|| format!("no answer to {}", Q::NAME))?;
        let length = usize::try_from(i32::from_be_bytes(length))?;
        ensure!((4..1 << 28).contains(&length), "an answer of {length} bytes to {}", Q::NAME);
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer)?;
        ensure!(answer[..4] == self.correlation.to_be_bytes(), "another request was answered");
        read(&answer)
    }

    /// Creates a topic with settings and waits until all of its partitions have a leader. Its records
    /// stay, however old their timestamps are.
    pub fn create(
        &mut self,
        name: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> Result<Topic> {
        let request = ct::CreateTopicsRequest {
            topics: vec![ct::CreatableTopic {
                name,
                num_partitions: partitions,
                replication_factor: 1,
                configs: [("retention.ms", "-1")]
                    .iter()
                    .chain(configs)
                    .map(|(name, value)| ct::CreatableTopicConfig { name, value: Some(value) })
                    .collect(),
                ..ct::CreatableTopic::default()
            }],
            ..ct::CreateTopicsRequest::default()
        };
        let version = self.version(ApiKey::CreateTopics, 7)?;
        self.ask(&request, version, |bytes| {
            let response: ct::CreateTopicsResponse<'_> = body(version, bytes)?;
            for topic in &response.topics {
                ensure!(
                    topic.error_code == 0,
                    "topic {} was not created: error {} {}",
                    topic.name,
                    topic.error_code,
                    topic.error_message.unwrap_or_default()
                );
            }
            Ok(())
        })?;
        self.await_leaders(name, partitions)
    }

    /// End offset of each partition.
    pub fn ends(&mut self, topic: &Topic) -> Result<Vec<i64>> {
        let request = lo::ListOffsetsRequest {
            replica_id: -1,
            topics: vec![lo::ListOffsetsTopic {
                name: &topic.name,
                partitions: (0..topic.partitions)
                    .map(|partition_index| lo::ListOffsetsPartition {
                        partition_index,
                        timestamp: -1,
                        ..lo::ListOffsetsPartition::default()
                    })
                    .collect(),
            }],
            ..lo::ListOffsetsRequest::default()
        };
        let mut ends = vec![-1; usize::try_from(topic.partitions)?];
        let version = self.version(ApiKey::ListOffsets, 7)?;
        self.ask(&request, version, |bytes| {
            let response: lo::ListOffsetsResponse<'_> = body(version, bytes)?;
            for part in response.topics.iter().flat_map(|topic| &topic.partitions) {
                ensure!(part.error_code == 0, "ListOffsets: error {}", part.error_code);
                ends[usize::try_from(part.partition_index)?] = part.offset;
            }
            Ok(())
        })?;
        ensure!(ends.iter().all(|end| *end >= 0), "ListOffsets left out a partition: {ends:?}");
        Ok(ends)
    }

    fn agree(&mut self) -> Result<()> {
        let request = av::ApiVersionsRequest {
            client_software_name: "millstream-bench",
            client_software_version: env!("CARGO_PKG_VERSION"),
        };
        let (served, features) = self.ask(&request, 3, |bytes| {
            let response: av::ApiVersionsResponse<'_> = body(3, bytes)?;
            ensure!(response.error_code == 0, "ApiVersions: error {}", response.error_code);
            let keys = response.api_keys.iter();
            let features = response.finalized_features.iter();
            Ok((
                keys.map(|row| (row.api_key, (row.min_version, row.max_version))).collect(),
                features.map(|row| (row.name.to_owned(), row.max_version_level)).collect(),
            ))
        })?;
        (self.served, self.features) = (served, features);
        Ok(())
    }

    fn await_leaders(&mut self, name: &str, partitions: i32) -> Result<Topic> {
        let begun = Instant::now();
        loop {
            // Kafka answers Metadata before the leader serves; ListOffsets asks the leader itself.
            if let Some(topic) = self.find(name, partitions)?
                && self.ends(&topic).is_ok()
            {
                return Ok(topic);
            }
            ensure!(begun.elapsed() < LEADER_LIMIT, "topic {name} is not led after {begun:?}");
            crate::process::pause(Duration::from_millis(20));
        }
    }

    fn find(&mut self, name: &str, partitions: i32) -> Result<Option<Topic>> {
        let request = md::MetadataRequest {
            topics: Some(vec![md::MetadataRequestTopic {
                name: Some(name),
                ..md::MetadataRequestTopic::default()
            }]),
            allow_auto_topic_creation: false,
            ..md::MetadataRequest::default()
        };
        let version = self.version(ApiKey::Metadata, 12)?;
        self.ask(&request, version, |bytes| {
            let response: md::MetadataResponse<'_> = body(version, bytes)?;
            let led = |topic: &md::MetadataResponseTopic<'_>| {
                topic.error_code == 0
                    && topic.partitions.len() == usize::try_from(partitions).unwrap_or(0)
                    && topic.partitions.iter().all(|p| p.error_code == 0 && p.leader_id >= 0)
            };
            Ok(response.topics.iter().find(|topic| led(topic)).map(|topic| Topic {
                name: name.to_owned(),
                id: topic.topic_id,
                partitions,
            }))
        })
    }
}
