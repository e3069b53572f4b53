//! One transactional producer: begin, produce, end, one after the other.
//!
//! Against a broker with `transaction.version` 2 (KIP-890) a Produce adds its partitions itself and EndTxn
//! gives the next epoch; before that AddPartitionsToTxn comes first.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use millstream::wire::messages::{
    add_partitions_to_txn as ap, end_txn as et, find_coordinator as fc, init_producer_id as ip,
};
use millstream::wire::{ApiKey, Request};

use super::producer::{Schedule, read};
use super::shape::Shape;
use super::shared::Shared;
use super::stats::{Stats, record};
use crate::batch::template::{ABORTED, Fields, Stamp};
use crate::client::{Admin, Frame, Outputs, Response, body};
use crate::process::pause;

const FIND: i16 = 4;
const INIT: i16 = 4;
const ADD: i16 = 3;
/// The newest Produce that does not add partitions by itself, and EndTxn that keeps the epoch.
const PRODUCE_BEFORE_2: i16 = 11;
const END_BEFORE_2: i16 = 4;
const END: i16 = 5;
/// COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR and
/// CONCURRENT_TRANSACTIONS: the same again, a little later.
const RETRIED: [i16; 4] = [14, 15, 16, 51];
/// As Kafka's clients wait for a transaction that is still being completed
/// (`retry.backoff.ms` is 100 ms; for the first partition of the next transaction they wait 20 ms).
const RETRY_AFTER: Duration = Duration::from_millis(20);
const COORDINATOR_LIMIT: Duration = Duration::from_secs(60);
/// `transaction.timeout.ms` of Kafka's clients.
const TIMEOUT_MS: i32 = 60_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// No producer id yet.
    Init,
    /// Between two transactions.
    Rest,
    /// Partitions have to be added.
    Add,
    /// Requests of this transaction that are still to be sent.
    Produce(u32),
    End,
}

/// A transactional producer and its connection.
pub struct Transactor {
    pub id: u32,
    pub topic: usize,
    connection: usize,
    name: String,
    shapes: Vec<Shape>,
    partitions: Vec<i32>,
    /// By slot: next number, next sequence, offsets that are taken (records and markers).
    numbers: Vec<u64>,
    sequences: Vec<i32>,
    taken: Vec<u64>,
    /// Slots of the transaction that is open.
    touched: Vec<usize>,
    turn: usize,
    producer: (i64, i16),
    step: Step,
    busy: bool,
    not_before: Option<Instant>,
    schedule: Option<Schedule>,
    due: u64,
    begun: u64,
    eager: bool,
    /// Of the open transaction.
    due_ns: u64,
    sent_ns: u64,
    aborts: bool,
    /// Transactions that were begun, over all phases.
    count: u64,
}

impl Transactor {
    /// A producer with this transactional id.
    pub fn new(
        (id, topic, connection): (u32, usize, usize),
        name: String,
        shapes: Vec<Shape>,
        slots: usize,
    ) -> Transactor {
        let mut partitions = vec![-1; slots];
        for part in shapes.iter().flat_map(|shape| &shape.parts) {
            partitions[part.slot] = part.partition;
        }
        Transactor {
            id,
            topic,
            connection,
            name,
            shapes,
            partitions,
            numbers: vec![0; slots],
            sequences: vec![0; slots],
            taken: vec![0; slots],
            touched: Vec::new(),
            turn: 0,
            producer: (-1, -1),
            step: Step::Init,
            busy: false,
            not_before: None,
            schedule: None,
            due: 0,
            begun: 0,
            eager: false,
            due_ns: 0,
            sent_ns: 0,
            aborts: false,
            count: 0,
        }
    }

    /// The version of its Produce requests.
    pub fn produce_version(shared: &Shared) -> i16 {
        match shared.plan.transactions {
            Some(_) if !second(shared) => shared.versions.produce.min(PRODUCE_BEFORE_2),
            _ => shared.versions.produce,
        }
    }

    /// From now on begins transactions by a schedule, or as fast as possible.
    pub fn begin(&mut self, schedule: Option<Schedule>) {
        (self.due, self.begun) = (0, 0);
        self.eager = schedule.is_none();
        self.schedule = schedule;
    }

    /// Begins no more.
    pub fn end(&mut self) {
        self.eager = false;
    }

    /// One more transaction is due.
    pub fn fall_due(&mut self) {
        self.due += 1;
    }

    /// Transactions that are due, or begun and not ended.
    pub fn unfinished(&self) -> u64 {
        let open = self.busy || !matches!(self.step, Step::Rest | Step::Init);
        self.due.saturating_sub(self.begun) + u64::from(open)
    }

    /// Whether it waits for time to pass.
    pub fn pauses(&self) -> bool {
        self.not_before.is_some()
    }

    /// Partition and offsets that were taken: by records, and by the ends of transactions.
    pub fn acked(&self) -> impl Iterator<Item = (i32, u64)> {
        self.partitions.iter().copied().zip(self.taken.iter().copied())
    }

    /// Sends the next request, when it is time.
    pub fn advance(&mut self, shared: &Shared, outputs: &mut Outputs, _stats: &mut Stats) {
        if self.busy || self.not_before.is_some_and(|at| Instant::now() < at) {
            return;
        }
        self.not_before = None;
        if self.step == Step::Rest {
            if !self.eager && self.begun >= self.due {
                return;
            }
            self.open(shared);
        }
        match self.request(shared, outputs) {
            Ok(()) => self.busy = true,
            Err(error) => {
                shared.complain(|| format!("a request cannot be written: {error:#}"));
                shared.fail();
            }
        }
    }

    fn open(&mut self, shared: &Shared) {
        self.sent_ns = shared.now_ns();
        self.due_ns = self.schedule.map_or(self.sent_ns, |schedule| schedule.at(self.begun));
        self.begun += 1;
        self.count += 1;
        let Some(plan) = shared.plan.transactions else { return };
        self.aborts = plan.abort_every > 0 && self.count.is_multiple_of(plan.abort_every);
        self.touched.clear();
        for ahead in 0..plan.requests as usize {
            let shape = &self.shapes[(self.turn + ahead) % self.shapes.len()];
            self.touched.extend(shape.parts.iter().map(|part| part.slot));
        }
        self.touched.sort_unstable();
        self.touched.dedup();
        self.step = if second(shared) { Step::Produce(plan.requests) } else { Step::Add };
    }

    fn request(&mut self, shared: &Shared, outputs: &mut Outputs) -> Result<()> {
        let (producer_id, producer_epoch) = self.producer;
        match self.step {
            Step::Init => {
                let request = ip::InitProducerIdRequest {
                    transactional_id: Some(&self.name),
                    transaction_timeout_ms: TIMEOUT_MS,
                    producer_id: -1,
                    producer_epoch: -1,
                };
                self.ask(outputs, &request, INIT)
            }
            Step::Rest => bail!("nothing is due"),
            Step::Add => {
                let request = ap::AddPartitionsToTxnRequest {
                    v3_and_below_transactional_id: &self.name,
                    v3_and_below_producer_id: producer_id,
                    v3_and_below_producer_epoch: producer_epoch,
                    v3_and_below_topics: vec![ap::AddPartitionsToTxnTopic {
                        name: &shared.topics[self.topic].name,
                        partitions: self
                            .touched
                            .iter()
                            .map(|slot| self.partitions[*slot])
                            .collect(),
                    }],
                    ..ap::AddPartitionsToTxnRequest::default()
                };
                self.ask(outputs, &request, ADD)
            }
            Step::Produce(_) => {
                self.produce(shared, outputs);
                Ok(())
            }
            Step::End => {
                let request = et::EndTxnRequest {
                    transactional_id: &self.name,
                    producer_id,
                    producer_epoch,
                    committed: !self.aborts,
                };
                self.ask(outputs, &request, end_version(shared))
            }
        }
    }

    fn ask<'q, Q: Request<'q>>(
        &self,
        outputs: &mut Outputs,
        request: &Q,
        version: i16,
    ) -> Result<()> {
        outputs.send(self.connection, &Rc::new(Frame::request(request, version)?), 0);
        Ok(())
    }

    fn produce(&self, shared: &Shared, outputs: &mut Outputs) {
        let shape = &self.shapes[self.turn % self.shapes.len()];
        let timestamp_ms = shared.wall_ms(self.due_ns);
        let (producer_id, producer_epoch) = self.producer;
        let mark = if self.aborts { ABORTED } else { 0 };
        outputs.compose(self.connection, Some(0), |composer| {
            shape.compose(composer, |part| {
                let fields = Fields {
                    timestamp_ms,
                    producer_id,
                    producer_epoch,
                    sequence: self.sequences[part.slot],
                };
                let number = self.numbers[part.slot] | mark;
                let stamp =
                    Stamp { run: shared.run, producer: self.id, number, due_ns: self.due_ns };
                (fields, stamp)
            });
        });
    }

    /// Takes an answer.
    pub fn answer(
        &mut self,
        shared: &Shared,
        response: &Response<'_>,
        stats: &mut Stats,
    ) -> Result<()> {
        ensure!(self.busy, "an answer to nothing");
        self.busy = false;
        let (bytes, step) = (response.bytes, self.step);
        let code = match step {
            Step::Init => {
                let answer: ip::InitProducerIdResponse = body(INIT, bytes)?;
                self.producer = (answer.producer_id, answer.producer_epoch);
                answer.error_code
            }
            Step::Add => {
                let answer: ap::AddPartitionsToTxnResponse<'_> = body(ADD, bytes)?;
                let parts = answer.results_by_topic_v3_and_below.iter();
                let mut codes = parts.flat_map(|topic| &topic.results_by_partition);
                codes
                    .find(|part| part.partition_error_code != 0)
                    .map_or(0, |p| p.partition_error_code)
            }
            Step::Produce(_) => read(Self::produce_version(shared), bytes)?.1.map_or(0, |r| r.code),
            Step::End => self.ended(shared, bytes)?,
            Step::Rest => bail!("an answer between two transactions"),
        };
        if RETRIED.contains(&code) {
            self.not_before = Some(Instant::now() + RETRY_AFTER);
            return Ok(());
        }
        ensure!(code == 0, "{}: error {code} at {step:?}", self.name);
        self.step = match step {
            Step::Init => Step::Rest,
            Step::Rest | Step::Add => {
                Step::Produce(shared.plan.transactions.map_or(1, |plan| plan.requests))
            }
            Step::Produce(left) => {
                self.stored(stats);
                if left > 1 { Step::Produce(left - 1) } else { Step::End }
            }
            Step::End => {
                let now = shared.now_ns();
                stats.transactions += 1;
                record(&mut stats.due, now.saturating_sub(self.due_ns));
                record(&mut stats.sent, now.saturating_sub(self.sent_ns));
                record(&mut stats.delay, self.sent_ns.saturating_sub(self.due_ns));
                for slot in &self.touched {
                    self.taken[*slot] += 1; // its marker
                }
                Step::Rest
            }
        };
        Ok(())
    }

    fn stored(&mut self, stats: &mut Stats) {
        let shape = &self.shapes[self.turn % self.shapes.len()];
        self.turn += 1;
        stats.requests += 1;
        stats.records += shape.records;
        stats.bytes += shape.bytes;
        for part in &shape.parts {
            let records = part.template.records;
            self.numbers[part.slot] += 1;
            self.sequences[part.slot] =
                ((i64::from(self.sequences[part.slot]) + i64::from(records)) & 0x7fff_ffff) as i32;
            self.taken[part.slot] += u64::from(records);
        }
    }

    fn ended(&mut self, shared: &Shared, bytes: &[u8]) -> Result<i16> {
        let answer: et::EndTxnResponse = body(end_version(shared), bytes)?;
        if answer.error_code == 0 && second(shared) {
            let next = (answer.producer_id, answer.producer_epoch);
            ensure!(next.0 >= 0 && next != self.producer, "EndTxn gave no new epoch: {next:?}");
            self.producer = next;
            self.sequences.fill(0);
        }
        Ok(answer.error_code)
    }
}

fn second(shared: &Shared) -> bool {
    shared.transaction_version >= 2
}

fn end_version(shared: &Shared) -> i16 {
    if second(shared) { END } else { END_BEFORE_2 }
}

/// Waits until the broker coordinates transactions: it makes its log at the first question.
pub fn await_coordinator(admin: &mut Admin, transactional_id: &str) -> Result<()> {
    let begun = Instant::now();
    admin.version(ApiKey::EndTxn, END).context("transactions")?;
    loop {
        let request = fc::FindCoordinatorRequest {
            key_type: 1,
            coordinator_keys: vec![transactional_id],
            ..fc::FindCoordinatorRequest::default()
        };
        let code = admin.ask(&request, FIND, |bytes| {
            let response: fc::FindCoordinatorResponse<'_> = body(FIND, bytes)?;
            Ok(response.coordinators.first().map_or(-1, |found| found.error_code))
        })?;
        if code == 0 {
            return Ok(());
        }
        ensure!(RETRIED.contains(&code), "FindCoordinator: error {code}");
        ensure!(begun.elapsed() < COORDINATOR_LIMIT, "no coordinator of transactions");
        pause(Duration::from_millis(20));
    }
}
