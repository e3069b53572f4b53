//! One producer: its requests by turns, so many in flight, each counted from when it was due.

use std::collections::VecDeque;

use anyhow::{Context, Result, ensure};
use millstream::wire::messages::produce as p;

use super::shape::Shape;
use super::shared::Shared;
use super::stats::{Stats, record};
use crate::batch::template::{Fields, Stamp};
use crate::client::{Outputs, Response, body};

/// When requests are due, in nanoseconds since the run's origin.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    pub first_ns: u64,
    pub period_ns: f64,
}

impl Schedule {
    /// When number `index` is due.
    pub fn at(&self, index: u64) -> u64 {
        self.first_ns + (index as f64 * self.period_ns) as u64
    }
}

/// A producer and its connection.
pub struct Producer {
    pub id: u32,
    pub topic: usize,
    connection: usize,
    shapes: Vec<Shape>,
    /// By turns with `shapes`: what the backlog is written by; empty when by the same.
    others: Vec<Shape>,
    /// Partition of each slot.
    partitions: Vec<i32>,
    /// Next number of a batch, by slot.
    numbers: Vec<u64>,
    /// Records that were acknowledged (with acks=0: sent), by slot.
    acked: Vec<u64>,
    open: VecDeque<Open>,
    turn: usize,
    schedule: Option<Schedule>,
    /// Requests that became due, and those of them that were sent.
    due: u64,
    sent: u64,
    /// Without a schedule: go on sending.
    eager: bool,
}

struct Open {
    shape: usize,
    due_ns: u64,
    sent_ns: u64,
}

impl Producer {
    /// A producer that sends these requests in turn; their slots are below `slots`.
    pub fn new(
        (id, topic, connection): (u32, usize, usize),
        shapes: Vec<Shape>,
        slots: usize,
    ) -> Producer {
        let mut partitions = vec![-1; slots];
        for part in shapes.iter().flat_map(|shape| &shape.parts) {
            partitions[part.slot] = part.partition;
        }
        Producer {
            id,
            topic,
            connection,
            // Producers with the same requests do not begin with the same one.
            turn: if shapes.is_empty() { 0 } else { id as usize % shapes.len() },
            shapes,
            others: Vec::new(),
            partitions,
            numbers: vec![0; slots],
            acked: vec![0; slots],
            open: VecDeque::new(),
            schedule: None,
            due: 0,
            sent: 0,
            eager: false,
        }
    }

    /// Writes by these requests first, until [`Producer::swap`].
    pub fn fill_by(mut self, shapes: Vec<Shape>) -> Producer {
        self.others = shapes;
        self.swap();
        self
    }

    /// Where it sends.
    pub fn connection(&self) -> usize {
        self.connection
    }

    /// Takes the other requests, where there are any. Nothing may be in flight.
    ///
    /// # Panics
    /// When a request is: its answer would be held against another.
    pub fn swap(&mut self) {
        assert!(self.open.is_empty(), "{} requests are in flight", self.open.len());
        if !self.others.is_empty() {
            std::mem::swap(&mut self.shapes, &mut self.others);
            self.turn = self.id as usize % self.shapes.len();
        }
    }

    /// From now on sends by a schedule, or as fast as possible.
    pub fn begin(&mut self, schedule: Option<Schedule>) {
        (self.due, self.sent) = (0, 0);
        self.eager = schedule.is_none();
        self.schedule = schedule;
    }

    /// Nothing more becomes due.
    pub fn end(&mut self) {
        self.eager = false;
    }

    /// One more request is due.
    pub fn fall_due(&mut self) {
        self.due += 1;
    }

    /// Requests that are due and were not sent, or have no answer.
    pub fn unfinished(&self) -> u64 {
        self.due.saturating_sub(self.sent) + self.open.len() as u64
    }

    /// Sends what is due and has room.
    pub fn fill(&mut self, shared: &Shared, outputs: &mut Outputs, stats: &mut Stats) {
        let unanswered = shared.plan.acks == 0;
        loop {
            let ready = self.eager || self.sent < self.due;
            // Without answers the socket says when there is room.
            let room = if unanswered {
                !outputs.queued(self.connection)
            } else {
                self.open.len() < shared.plan.in_flight
            };
            if !ready || !room {
                return;
            }
            let sent_ns = shared.now_ns();
            let due_ns = self.schedule.map_or(sent_ns, |schedule| schedule.at(self.sent));
            self.sent += 1;
            let shape = self.turn;
            self.turn = (self.turn + 1) % self.shapes.len();
            self.send(shared, outputs, shape, due_ns);
            if unanswered {
                self.count(shape, stats);
                record(&mut stats.delay, sent_ns.saturating_sub(due_ns));
                if self.eager {
                    // One request, then the sockets of the others.
                    return;
                }
            } else {
                self.open.push_back(Open { shape, due_ns, sent_ns });
            }
        }
    }

    fn send(&mut self, shared: &Shared, outputs: &mut Outputs, shape: usize, due_ns: u64) {
        let tag = (shared.plan.acks != 0).then_some(0);
        let fields = Fields::plain(shared.wall_ms(due_ns));
        let (id, run, numbers) = (self.id, shared.run, &mut self.numbers);
        outputs.compose(self.connection, tag, |composer| {
            self.shapes[shape].compose(composer, |part| {
                let number = numbers[part.slot];
                numbers[part.slot] += 1;
                (fields, Stamp { run, producer: id, number, due_ns })
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
        let now = shared.now_ns();
        let open = self.open.pop_front().context("an answer to nothing")?;
        record(&mut stats.due, now.saturating_sub(open.due_ns));
        record(&mut stats.sent, now.saturating_sub(open.sent_ns));
        record(&mut stats.delay, open.sent_ns.saturating_sub(open.due_ns));
        let asked = self.shapes[open.shape].parts.len();
        let (answered, refused) = read(shared.versions.produce, response.bytes)?;
        ensure!(answered == asked, "{answered} of {asked} partitions were answered");
        if let Some(refused) = refused {
            stats.errors += 1;
            shared.complain(|| format!("Produce was refused: {refused}"));
            return Ok(());
        }
        self.count(open.shape, stats);
        Ok(())
    }

    fn count(&mut self, shape: usize, stats: &mut Stats) {
        let shape = &self.shapes[shape];
        stats.requests += 1;
        stats.records += shape.records;
        stats.bytes += shape.bytes;
        for part in &shape.parts {
            self.acked[part.slot] += u64::from(part.template.records);
        }
    }

    /// Partition and records that were acknowledged.
    pub fn acked(&self) -> impl Iterator<Item = (i32, u64)> {
        self.partitions.iter().copied().zip(self.acked.iter().copied())
    }
}

/// Partitions in a Produce answer, and the first refusal.
pub fn read(version: i16, bytes: &[u8]) -> Result<(usize, Option<Refusal>)> {
    let response: p::ProduceResponse<'_> = body(version, bytes)?;
    let mut refused = None;
    let mut answered = 0;
    for part in response.responses.iter().flat_map(|topic| &topic.partition_responses) {
        answered += 1;
        if part.error_code != 0 && refused.is_none() {
            refused = Some(Refusal {
                partition: part.index,
                code: part.error_code,
                text: part.error_message.unwrap_or_default().to_owned(),
            });
        }
    }
    Ok((answered, refused))
}

/// Why a partition took nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub partition: i32,
    /// As the wire has it.
    pub code: i16,
    pub text: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "partition {}: error {} {}", self.partition, self.code, self.text)
    }
}
