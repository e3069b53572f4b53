//! One consumer: partitions of one topic over one connection, in a fetch session where the broker has
//! them (KIP-227), every batch held against the books.

use std::collections::HashMap;
use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use millstream::wire::Records;
use millstream::wire::messages::fetch as f;

use super::ledger::{Ledger, Place};
use super::plan::Reading;
use super::shared::Shared;
use super::stats::{Stats, record};
use crate::client::{Frame, Outputs, Response, body};

/// How long a broker may hold a Fetch (`fetch.max.wait.ms` of Kafka's clients).
const WAIT_MS: i32 = 500;
/// Most of an answer and of a partition in it, as Kafka's clients ask by default.
const ANSWER_BYTES: i32 = 50 << 20;
const PARTITION_BYTES: i32 = 1 << 20;
/// FETCH_SESSION_ID_NOT_FOUND and INVALID_FETCH_SESSION_EPOCH: begin a new session.
const SESSION_GONE: [i16; 2] = [70, 71];

/// A consumer and its connection.
pub struct Consumer {
    topic: usize,
    connection: usize,
    places: Vec<Place>,
    /// Partition -> index into `places`.
    index: HashMap<i32, usize>,
    /// Places that moved since the last request.
    changed: Vec<usize>,
    session: Session,
    ledger: Ledger,
    /// Where each partition is left and begun again; empty: never.
    goals: Vec<i64>,
    /// How often a partition was read to its goal.
    pub passes: u64,
    stopped: bool,
}

#[derive(Clone, Copy)]
struct Session {
    id: i32,
    epoch: i32,
}

impl Consumer {
    /// Reads these partitions from their beginning.
    pub fn new((topic, connection): (usize, usize), partitions: &[i32]) -> Consumer {
        let places = partitions.iter().map(|partition| Place { partition: *partition, next: 0 });
        Consumer {
            topic,
            connection,
            places: places.collect(),
            index: partitions.iter().enumerate().map(|(at, part)| (*part, at)).collect(),
            changed: Vec::new(),
            session: Session { id: 0, epoch: 0 },
            ledger: Ledger::default(),
            goals: Vec::new(),
            passes: 0,
            stopped: false,
        }
    }

    /// The topic, by its place in the run.
    pub fn topic(&self) -> usize {
        self.topic
    }

    /// Reads each partition up to where `ends` says, over and over.
    pub fn repeat(&mut self, ends: &[i64]) {
        self.goals = self
            .places
            .iter()
            .map(|place| ends.get(place.partition as usize).copied().unwrap_or(0))
            .collect();
        // What holds nothing is never read to its goal.
        self.places.retain(|place| ends.get(place.partition as usize).is_some_and(|end| *end > 0));
        self.goals.retain(|goal| *goal > 0);
        self.index = self.places.iter().enumerate().map(|(at, p)| (p.partition, at)).collect();
    }

    /// Asks nothing more.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Whether everything up to these ends was read.
    pub fn reached(&self, ends: &[Vec<i64>]) -> bool {
        self.behind(ends) == 0
    }

    /// Records up to these ends that were not read.
    pub fn behind(&self, ends: &[Vec<i64>]) -> u64 {
        let ends = &ends[self.topic];
        let behind =
            |place: &Place| ends[place.partition as usize].saturating_sub(place.next).max(0);
        self.places.iter().map(|place| behind(place).unsigned_abs()).sum()
    }

    /// What was wrong.
    pub fn faults(&self) -> &super::ledger::Faults {
        &self.ledger.faults
    }

    /// Asks for what comes next.
    pub fn ask(&mut self, shared: &Shared, outputs: &mut Outputs) -> Result<()> {
        if self.stopped || self.places.is_empty() {
            return Ok(());
        }
        let in_session = self.session.id != 0;
        let part = |place: &Place| f::FetchPartition {
            partition: place.partition,
            fetch_offset: place.next,
            partition_max_bytes: PARTITION_BYTES,
            ..f::FetchPartition::default()
        };
        let partitions: Vec<f::FetchPartition> = if in_session {
            self.changed.iter().map(|at| part(&self.places[*at])).collect()
        } else {
            self.places.iter().map(part).collect()
        };
        self.changed.clear();
        let topic = &shared.topics[self.topic];
        let sessions = shared.versions.fetch >= 7;
        let request = f::FetchRequest {
            max_wait_ms: WAIT_MS,
            min_bytes: 1,
            max_bytes: ANSWER_BYTES,
            isolation_level: i8::from(shared.plan.transactions.is_some()),
            session_id: self.session.id,
            session_epoch: if sessions { self.session.epoch } else { -1 },
            topics: if partitions.is_empty() {
                Vec::new()
            } else {
                vec![f::FetchTopic { topic: &topic.name, topic_id: topic.id, partitions }]
            },
            ..f::FetchRequest::default()
        };
        let frame = Rc::new(Frame::request(&request, shared.versions.fetch)?);
        outputs.send(self.connection, &frame, 0);
        Ok(())
    }

    /// Takes an answer.
    pub fn answer(
        &mut self,
        shared: &Shared,
        response: &Response<'_>,
        stats: &mut Stats,
    ) -> Result<()> {
        let answer: f::FetchResponse<'_> = body(shared.versions.fetch, response.bytes)?;
        stats.read_requests += 1;
        if SESSION_GONE.contains(&answer.error_code) {
            self.session = Session { id: 0, epoch: 0 };
            return Ok(());
        }
        ensure!(answer.error_code == 0, "Fetch was refused with error {}", answer.error_code);
        self.session.id = answer.session_id;
        self.session.epoch = match answer.session_id {
            0 => 0,
            _ if self.session.epoch == i32::MAX => 1,
            _ => self.session.epoch + 1,
        };
        for part in answer.responses.iter().flat_map(|topic| &topic.partitions) {
            self.take(shared, part, stats)
                .with_context(|| format!("partition {}", part.partition_index))?;
        }
        Ok(())
    }

    fn take(
        &mut self,
        shared: &Shared,
        part: &f::PartitionData<'_>,
        stats: &mut Stats,
    ) -> Result<()> {
        ensure!(part.error_code == 0, "Fetch was refused with error {}", part.error_code);
        let at = *self.index.get(&part.partition_index).context("nobody asked for it")?;
        let Records::Bytes(bytes) = part.records else { return Ok(()) };
        if bytes.is_empty() {
            return Ok(());
        }
        let aborted: Option<Vec<(i64, i64)>> = shared.plan.transactions.map(|_| {
            let list = part.aborted_transactions.iter().flatten();
            list.map(|one| (one.producer_id, one.first_offset)).collect()
        });
        let now = shared.now_ns();
        let tail = shared.plan.reading == Some(Reading::Tail);
        let place = &mut self.places[at];
        let before = place.next;
        let taken =
            self.ledger.enter(&shared.known, place, bytes, aborted.as_deref(), |stamp, _| {
                if tail && stamp.due_ns >= shared.go_ns() {
                    record(&mut stats.end_to_end, now.saturating_sub(stamp.due_ns));
                }
            });
        stats.read_records += taken.records;
        stats.read_bytes += bytes.len() as u64;
        if self.goals.get(at).is_some_and(|goal| place.next >= *goal) {
            place.next = 0;
            self.passes += 1;
            self.ledger.restart(part.partition_index);
        }
        if place.next != before {
            self.changed.push(at);
        }
        Ok(())
    }
}
