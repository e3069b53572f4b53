//! What one run does, with every choice made.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::batch::codec::Codec;
use crate::batch::template::STAMP_BYTES;

/// What consumers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// They wait at the end of every partition and read each record once.
    Tail,
    /// They read what was written before the measurement, from the beginning, over and over, as fast
    /// as they can.
    Backfill,
}

/// Transactions instead of plain requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transactions {
    /// Produce requests of one transaction.
    pub requests: u32,
    /// Each so manieth transaction is aborted; 0: none.
    pub abort_every: u64,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub name: String,
    pub topics: usize,
    /// Of each topic.
    pub partitions: i32,
    /// Of each topic, each on a connection of its own.
    pub producers: usize,
    /// Of each topic, each on a connection of its own. All of its partitions are read by each
    /// subscription.
    pub consumers: usize,
    pub subscriptions: usize,
    /// Bytes of a value.
    pub message_bytes: usize,
    /// Messages of a batch; of a request with keys, a partition's share on average.
    pub records: u32,
    /// Partitions of a request.
    pub spread: usize,
    /// Messages have keys, and these choose the partitions, by the hash of Kafka's clients.
    pub keyed: bool,
    /// Random share of a value, 0 to 1.
    pub random: f64,
    pub codec: Codec,
    /// 0, 1, or -1 for all.
    pub acks: i16,
    /// Requests of one producer without an answer, at most.
    pub in_flight: usize,
    /// Messages a second over all producers; 0 is as fast as possible.
    pub rate: f64,
    pub reading: Option<Reading>,
    /// Bytes that are written, as fast as possible, before anything else.
    pub backlog_bytes: u64,
    /// Connections that are asked something twice a minute.
    pub idle: usize,
    pub transactions: Option<Transactions>,
    pub warm_up: Duration,
    pub length: Duration,
    pub interval: Duration,
    /// Threads of this client.
    pub threads: usize,
    /// Polls instead of sleeping between sends; wants a CPU of its own for each thread.
    pub spin: bool,
}

/// A producer that may send without a bound has this one: what is due beyond it waits, and the wait is
/// counted.
pub const IN_FLIGHT_MAX: usize = 1000;

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            name: "unnamed".to_owned(),
            topics: 1,
            partitions: 1,
            producers: 1,
            consumers: 0,
            subscriptions: 1,
            message_bytes: 100,
            records: 1,
            spread: 1,
            keyed: false,
            random: 1.0,
            codec: Codec::None,
            acks: -1,
            in_flight: 5,
            rate: 0.0,
            reading: None,
            backlog_bytes: 0,
            idle: 0,
            transactions: None,
            warm_up: Duration::from_secs(2),
            length: Duration::from_secs(20),
            interval: Duration::from_secs(1),
            threads: 1,
            spin: false,
        }
    }
}

impl Plan {
    /// Refuses what cannot be run.
    pub fn check(&self) -> Result<()> {
        ensure!(self.topics > 0 && self.partitions > 0, "no partition, no load");
        ensure!(
            self.producers > 0 || self.consumers > 0 || self.idle > 0,
            "no producer, no consumer and no idle connection"
        );
        ensure!(
            self.message_bytes >= STAMP_BYTES,
            "messages of {} bytes are shorter than the stamp of {STAMP_BYTES} by which they are known \
             again",
            self.message_bytes
        );
        ensure!(self.records > 0, "a batch without a message");
        ensure!((-1..=1).contains(&self.acks), "acks={} is none of 0, 1, all", self.acks);
        ensure!((1..=IN_FLIGHT_MAX).contains(&self.in_flight), "1 to {IN_FLIGHT_MAX} in flight");
        ensure!(self.rate >= 0.0 && self.rate.is_finite(), "a rate of {}", self.rate);
        ensure!((0.0..=1.0).contains(&self.random), "a random share of {}", self.random);
        ensure!(!self.interval.is_zero() && !self.length.is_zero(), "no time to measure in");
        for time in [self.warm_up, self.length] {
            let intervals = time.as_secs_f64() / self.interval.as_secs_f64();
            ensure!(
                (intervals - intervals.round()).abs() < 1e-6,
                "{time:?} is no multiple of the interval {:?}",
                self.interval
            );
        }
        ensure!(self.subscriptions > 0 && self.threads > 0, "0 subscriptions or threads");
        ensure!(
            (self.consumers > 0) == self.reading.is_some(),
            "{} consumers that read {:?}",
            self.consumers,
            self.reading
        );
        if self.reading == Some(Reading::Backfill) {
            ensure!(self.backlog_bytes > 0, "a backfill wants a backlog to read");
        }
        if self.backlog_bytes > 0 {
            ensure!(self.producers > 0, "a backlog is written by producers");
        }
        if let Some(transactions) = self.transactions {
            ensure!(transactions.requests > 0, "a transaction without a request");
            ensure!(self.acks == -1, "transactions want acks=all");
            ensure!(!self.keyed, "transactions with keys are not offered");
        }
        Ok(())
    }

    /// Messages of one request.
    pub fn request_records(&self) -> u64 {
        u64::from(self.records) * self.spread as u64
    }

    /// Time between two requests of one producer; `None`: as fast as possible.
    pub fn period(&self) -> Option<Duration> {
        let requests = match self.transactions {
            // A transaction is what is due.
            Some(transactions) => {
                self.rate / (self.request_records() * u64::from(transactions.requests)) as f64
            }
            None => self.rate / self.request_records() as f64,
        };
        let producers = (self.producers * self.topics) as f64;
        (requests > 0.0).then(|| Duration::from_secs_f64(producers / requests))
    }

    /// All connections of this plan.
    pub fn connections(&self) -> usize {
        self.topics * (self.producers + self.consumers) + self.idle
    }

    /// For the report.
    pub fn json(&self) -> Value {
        json!({
            "name": self.name,
            "topics": self.topics,
            "partitionsPerTopic": self.partitions,
            "producersPerTopic": self.producers,
            "consumersPerTopic": self.consumers,
            "subscriptionsPerTopic": self.subscriptions,
            "messageSize": self.message_bytes,
            "recordsPerBatch": self.records,
            "partitionsPerRequest": self.spread,
            "keyed": self.keyed,
            "randomBytesRatio": self.random,
            "codec": self.codec.name(),
            "acks": if self.acks == -1 { "all".to_owned() } else { self.acks.to_string() },
            "inFlight": self.in_flight,
            "rate": self.rate,
            "reading": match self.reading {
                None => Value::Null,
                Some(Reading::Tail) => "tail".into(),
                Some(Reading::Backfill) => "backfill".into(),
            },
            "backlogBytes": self.backlog_bytes,
            "idleConnections": self.idle,
            "requestsPerTransaction": self.transactions.map(|t| t.requests),
            "abortEvery": self.transactions.map(|t| t.abort_every),
            "warmUpSeconds": self.warm_up.as_secs_f64(),
            "seconds": self.length.as_secs_f64(),
            "intervalSeconds": self.interval.as_secs_f64(),
            "threads": self.threads,
            "spin": self.spin,
        })
    }
}
