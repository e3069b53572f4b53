//! Workload files of the OpenMessaging Benchmark, and those that come with this program.

mod named;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::batch::codec::Codec;
use crate::run::{Plan, Reading, Transactions};

pub use named::NAMED;

/// Batching of a driver file that says nothing, as the OpenMessaging Benchmark's own for Kafka has it.
const LINGER_MS: f64 = 1.0;
const BATCH_BYTES: f64 = 131_072.0;

/// A workload file: the fields of the OpenMessaging Benchmark, and what it cannot say under `load`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    name: String,
    #[serde(default = "one")]
    topics: usize,
    #[serde(default = "one_i32")]
    partitions_per_topic: i32,
    key_distributor: Option<String>,
    message_size: usize,
    #[serde(default)]
    use_randomized_payloads: bool,
    random_bytes_ratio: Option<f64>,
    randomized_payload_pool_size: Option<u64>,
    payload_file: Option<String>,
    #[serde(default)]
    subscriptions_per_topic: usize,
    #[serde(default = "one")]
    producers_per_topic: usize,
    #[serde(default)]
    consumer_per_subscription: usize,
    #[serde(default)]
    producer_rate: f64,
    producer_start_rate: Option<f64>,
    #[serde(default, rename = "consumerBacklogSizeGB")]
    consumer_backlog_size_gb: f64,
    backlog_drain_ratio: Option<f64>,
    #[serde(default)]
    test_duration_minutes: f64,
    warmup_duration_minutes: Option<f64>,
    log_dir: Option<String>,
    #[serde(default)]
    load: Load,
}

/// What is this program's own.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Load {
    records_per_batch: Option<u32>,
    partitions_per_request: Option<usize>,
    acks: Option<String>,
    codec: Option<String>,
    in_flight: Option<usize>,
    reading: Option<String>,
    idle_connections: Option<usize>,
    requests_per_transaction: Option<u32>,
    abort_every: Option<u64>,
    seconds: Option<f64>,
    warm_up_seconds: Option<f64>,
    interval_seconds: Option<f64>,
    #[serde(rename = "backlogMB")]
    backlog_mb: Option<f64>,
}

/// A driver file of the OpenMessaging Benchmark; only the producer's settings matter here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DriverFile {
    name: Option<String>,
    /// Java properties.
    #[serde(default)]
    producer_config: String,
}

/// What of a driver file is obeyed.
#[derive(Clone, Debug)]
pub struct Batching {
    pub name: String,
    acks: Option<String>,
    codec: Option<String>,
    linger_ms: f64,
    batch_bytes: f64,
    in_flight: Option<usize>,
}

fn one() -> usize {
    1
}

fn one_i32() -> i32 {
    1
}

/// A workload by its name, or by the path of its file. `notes` gets what the file says and nobody obeys.
pub fn load(name: &str, batching: &Batching, notes: &mut Vec<String>) -> Result<Plan> {
    let text = match NAMED.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => (*text).to_owned(),
        None if Path::new(name).exists() => {
            std::fs::read_to_string(name).with_context(|| name.to_owned())?
        }
        None => {
            let names: Vec<&str> = NAMED.iter().map(|(name, _)| *name).collect();
            bail!("`{name}` is no file and none of {}", names.join(", "))
        }
    };
    parse(&text, batching, notes).with_context(|| format!("workload {name}"))
}

/// Reads the text of a workload file.
pub fn parse(text: &str, batching: &Batching, notes: &mut Vec<String>) -> Result<Plan> {
    let file: File = serde_saphyr::from_str(text)?;
    file.plan(batching, notes)
}

impl File {
    fn plan(self, batching: &Batching, notes: &mut Vec<String>) -> Result<Plan> {
        self.note(notes);
        let load = &self.load;
        let keyed = match self.key_distributor.as_deref() {
            None | Some("NO_KEY") => false,
            Some("KEY_ROUND_ROBIN" | "RANDOM_NANO") => true,
            Some(other) => bail!("keyDistributor {other}"),
        };
        let seconds = load.seconds.unwrap_or(self.test_duration_minutes * 60.0);
        ensure!(seconds > 0.0, "testDurationMinutes is missing");
        let warm_up = load
            .warm_up_seconds
            .or(self.warmup_duration_minutes.map(|minutes| minutes * 60.0))
            .unwrap_or((seconds / 5.0).clamp(1.0, 60.0).round());
        let backlog =
            load.backlog_mb.map(|mb| mb * 1e6).unwrap_or(self.consumer_backlog_size_gb * 1e9);
        let consumers = self.subscriptions_per_topic * self.consumer_per_subscription;
        let codec: Codec = match load.codec.as_ref().or(batching.codec.as_ref()) {
            Some(text) => text.parse()?,
            None => Codec::None,
        };
        let acks = load.acks.as_ref().or(batching.acks.as_ref());
        let random = if self.use_randomized_payloads || self.random_bytes_ratio.is_some() {
            self.random_bytes_ratio.unwrap_or(1.0)
        } else {
            1.0
        };
        let mut plan = Plan {
            topics: self.topics,
            partitions: self.partitions_per_topic,
            producers: self.producers_per_topic,
            consumers,
            subscriptions: self.subscriptions_per_topic.max(1),
            message_bytes: self.message_size,
            spread: load.partitions_per_request.unwrap_or(1),
            keyed,
            random,
            codec,
            acks: acks.map_or(Ok(-1), |text| parse_acks(text))?,
            in_flight: load.in_flight.or(batching.in_flight).unwrap_or(5),
            rate: self.producer_rate,
            reading: match load.reading.as_deref() {
                None if consumers > 0 => Some(Reading::Tail),
                None => None,
                Some(text) => parse_reading(text)?,
            },
            backlog_bytes: backlog as u64,
            idle: load.idle_connections.unwrap_or(0),
            transactions: load.requests_per_transaction.map(|requests| Transactions {
                requests,
                abort_every: load.abort_every.unwrap_or(0),
            }),
            warm_up: Duration::from_secs_f64(warm_up),
            length: Duration::from_secs_f64(seconds),
            interval: Duration::from_secs_f64(load.interval_seconds.unwrap_or(1.0)),
            name: self.name.clone(),
            ..Plan::default()
        };
        plan.records = load.records_per_batch.unwrap_or_else(|| batching.records(&plan));
        if keyed && load.partitions_per_request.is_none() {
            // A batch's worth of messages falls to as many partitions as their keys choose.
            plan.spread = usize::try_from(plan.records)?;
            plan.records = 1;
        }
        Ok(plan)
    }

    fn note(&self, notes: &mut Vec<String>) {
        for (given, text) in [
            (self.payload_file.is_some(), "payloadFile is not read: values are made here"),
            (
                self.randomized_payload_pool_size.is_some(),
                "randomizedPayloadPoolSize is not obeyed: eight different batches are sent in turn",
            ),
            (
                self.producer_start_rate.is_some(),
                "producerStartRate is not obeyed: without a producerRate it is as fast as possible",
            ),
            (self.backlog_drain_ratio.is_some(), "backlogDrainRatio is not obeyed"),
            (self.log_dir.is_some(), "logDir is not used"),
        ] {
            if given {
                notes.push(format!("{}: {text}", self.name));
            }
        }
    }
}

/// `0`, `1`, `-1` or `all`.
pub fn parse_acks(text: &str) -> Result<i16> {
    match text {
        "0" => Ok(0),
        "1" => Ok(1),
        "-1" | "all" => Ok(-1),
        other => bail!("acks cannot be `{other}`: 0, 1, all"),
    }
}

/// `tail`, `backfill` or `none`.
pub fn parse_reading(text: &str) -> Result<Option<Reading>> {
    match text {
        "none" => Ok(None),
        "tail" => Ok(Some(Reading::Tail)),
        "backfill" => Ok(Some(Reading::Backfill)),
        other => bail!("reading cannot be `{other}`: tail, backfill, none"),
    }
}

impl Batching {
    /// From a driver file, or as the defaults are.
    pub fn load(path: Option<&Path>) -> Result<Batching> {
        let file: DriverFile = match path {
            None => DriverFile::default(),
            Some(path) => {
                let text =
                    std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
                serde_saphyr::from_str(&text).with_context(|| path.display().to_string())?
            }
        };
        let setting = |name: &str| {
            file.producer_config.lines().find_map(|line| {
                let (key, value) = line.trim().split_once('=')?;
                (key.trim() == name).then(|| value.trim().to_owned())
            })
        };
        let number = |name: &str| -> Result<Option<f64>> {
            setting(name).map(|text| text.parse().with_context(|| name.to_owned())).transpose()
        };
        Ok(Batching {
            name: file.name.clone().unwrap_or_else(|| "Kafka protocol".to_owned()),
            acks: setting("acks"),
            codec: setting("compression.type"),
            linger_ms: number("linger.ms")?.unwrap_or(LINGER_MS),
            batch_bytes: number("batch.size")?.unwrap_or(BATCH_BYTES),
            in_flight: setting("max.in.flight.requests.per.connection")
                .map(|text| text.parse().context("max.in.flight.requests.per.connection"))
                .transpose()?,
        })
    }

    /// Messages of a batch: what one producer gathers for one partition while it lingers, at most what
    /// fills a batch; full batches when it sends as fast as it can.
    fn records(&self, plan: &Plan) -> u32 {
        let most = (self.batch_bytes / plan.message_bytes.max(1) as f64).max(1.0);
        let producers = (plan.producers * plan.topics).max(1) as f64;
        let gathered = match plan.rate {
            rate if rate > 0.0 => rate / producers * self.linger_ms / 1000.0,
            _ => most,
        };
        gathered.clamp(1.0, most).round() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batching() -> Batching {
        Batching::load(None).unwrap()
    }

    #[test]
    fn a_file_of_the_openmessaging_benchmark_is_taken_as_it_is() {
        let text = "\
name: 1 topic / 16 partitions / 1Kb

topics: 1
partitionsPerTopic: 16
keyDistributor: \"NO_KEY\"
messageSize: 1024
payloadFile: \"payload/payload-1Kb.data\"
subscriptionsPerTopic: 1
consumerPerSubscription: 4
producersPerTopic: 2
producerRate: 50000
consumerBacklogSizeGB: 0
testDurationMinutes: 15
";
        let mut notes = Vec::new();
        let plan = parse(text, &batching(), &mut notes).unwrap();
        assert_eq!((plan.partitions, plan.producers, plan.consumers), (16, 2, 4));
        assert_eq!((plan.rate, plan.length.as_secs(), plan.records), (50_000.0, 900, 25));
        assert_eq!(plan.reading, Some(Reading::Tail));
        assert_eq!(notes.len(), 1, "{notes:?}");
        plan.check().unwrap();
        let wrong = text.replace("producerRate", "producerrate");
        let error = parse(&wrong, &batching(), &mut notes).unwrap_err();
        assert!(format!("{error:#}").contains("producerrate"), "{error:#}");
    }

    #[test]
    fn a_driver_file_gives_acks_codec_and_batches() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kafka.yaml");
        let text = "name: Kafka\ndriverClass: x\nreplicationFactor: 3\nproducerConfig: |\n  \
                    acks=1\n  linger.ms=10\n  batch.size=1000\n  compression.type=lz4\n";
        std::fs::write(&path, text).unwrap();
        let batching = Batching::load(Some(&path)).unwrap();
        let text = "{name: x, messageSize: 100, testDurationMinutes: 1, producerRate: 500000, \
                    keyDistributor: RANDOM_NANO}";
        let plan = parse(text, &batching, &mut Vec::new()).unwrap();
        assert_eq!((plan.acks, plan.codec, batching.name.as_str()), (1, Codec::Lz4, "Kafka"));
        assert_eq!((plan.spread, plan.records, plan.keyed), (10, 1, true), "a batch is full");
    }

    #[test]
    fn every_named_workload_can_be_run() {
        for (name, _) in NAMED {
            let mut notes = Vec::new();
            let plan = load(name, &batching(), &mut notes).unwrap();
            plan.check().unwrap_or_else(|error| panic!("{name}: {error:#}"));
            assert_eq!(plan.name, *name);
            assert!(notes.is_empty(), "{notes:?}");
        }
        assert!(load("nothing", &batching(), &mut Vec::new()).is_err());
    }
}
