//! One thread of a run: its share of producers, consumers and idle connections over one epoll set.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use millstream::wire::messages::metadata::MetadataRequest;

use super::consumer::Consumer;
use super::plan::Reading;
use super::producer::{Producer, Schedule};
use super::roles::{Lane, Roles};
use super::shape::Wrapping;
use super::shared::{Message, Phase, Shared};
use super::stats::{Stats, nanos};
use super::transactor::Transactor;
use crate::client::{Driver, Frame};

/// One wait for events; bounds how late phases and intervals are noticed.
const TURN: Duration = Duration::from_millis(10);
/// A run without an answer for so long has hung.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);
/// What consumers did not get for so long after everything was written does not come.
const CATCH_UP: Duration = Duration::from_secs(15);
/// Each idle connection is asked once in so many seconds.
const POKE_SECONDS: f64 = 30.0;

/// The thread.
pub struct Worker<'a> {
    shared: &'a Shared,
    out: Sender<Message>,
    driver: Driver,
    lanes: Vec<Lane>,
    roles: Roles,
    idle: Vec<usize>,
    poked: u64,
    /// Requests that became due on this thread.
    due: u64,
    schedules: Vec<Schedule>,
}

impl<'a> Worker<'a> {
    /// Opens the connections of thread `number`.
    pub fn connect(shared: &'a Shared, number: usize, out: Sender<Message>) -> Result<Worker<'a>> {
        let mut worker = Worker {
            shared,
            out,
            driver: Driver::connect(shared.address, 0)?,
            lanes: Vec::new(),
            roles: Roles {
                producers: Vec::new(),
                transactors: Vec::new(),
                consumers: Vec::new(),
                stats: Stats::new()?,
            },
            idle: Vec::new(),
            poked: 0,
            due: 0,
            schedules: Vec::new(),
        };
        let plan = &shared.plan;
        let mut turn = 0;
        let mut mine = || {
            turn += 1;
            (turn - 1) % plan.threads == number
        };
        for topic in 0..plan.topics {
            for place in 0..plan.producers {
                if mine() {
                    worker.producer(topic, place)?;
                }
            }
            for place in 0..plan.consumers {
                if mine() {
                    worker.consumer(topic, place)?;
                }
            }
        }
        for _ in 0..plan.idle {
            if mine() {
                let connection = worker.lane(Lane::Idle)?;
                worker.idle.push(connection);
            }
        }
        Ok(worker)
    }

    /// All phases.
    pub fn work(mut self) -> Result<()> {
        self.tell(Message::Ready)?;
        if self.shared.plan.backlog_bytes > 0 {
            self.shared.await_phase(Phase::Fill)?;
            self.write_backlog()?;
        }
        self.shared.await_phase(Phase::Go)?;
        self.measure()?;
        let acked = self.acked();
        self.tell(Message::Drained(acked))?;
        self.catch_up()
    }

    fn lane(&mut self, lane: Lane) -> Result<usize> {
        let connection = self
            .driver
            .add(self.shared.address)
            .with_context(|| format!("connection {} of this thread", self.lanes.len() + 1))?;
        self.lanes.push(lane);
        Ok(connection)
    }

    fn producer(&mut self, topic: usize, place: usize) -> Result<()> {
        let (shared, plan) = (self.shared, &self.shared.plan);
        let id = u32::try_from(topic * plan.producers + place)?;
        let name = format!("{}-{}-{id}", shared.topics[topic].name, shared.run);
        let wrapping = Wrapping {
            topic: &shared.topics[topic],
            version: Transactor::produce_version(shared),
            acks: plan.acks,
            transactional_id: plan.transactions.map(|_| name.as_str()),
        };
        let (shapes, slots) = shared.pool.shapes(plan, place, wrapping)?;
        if plan.transactions.is_some() {
            let connection = self.lane(Lane::Transactor(self.roles.transactors.len()))?;
            let transactor = Transactor::new((id, topic, connection), name, shapes, slots);
            self.roles.transactors.push(transactor);
        } else {
            let connection = self.lane(Lane::Producer(self.roles.producers.len()))?;
            let fill = shared.pool.fill_shapes(plan, place, wrapping)?;
            let producer = Producer::new((id, topic, connection), shapes, slots);
            self.roles.producers.push(producer.fill_by(fill));
        }
        Ok(())
    }

    fn consumer(&mut self, topic: usize, place: usize) -> Result<()> {
        let plan = &self.shared.plan;
        // Each subscription shares the partitions out among its consumers.
        let each = plan.consumers.div_ceil(plan.subscriptions).max(1);
        let (place, of) = (place % each, each);
        let partitions: Vec<i32> =
            (0..plan.partitions).filter(|p| *p as usize % of == place).collect();
        let connection = self.lane(Lane::Consumer(self.roles.consumers.len()))?;
        self.roles.consumers.push(Consumer::new((topic, connection), &partitions));
        Ok(())
    }

    fn write_backlog(&mut self) -> Result<()> {
        let goal = self.shared.plan.backlog_bytes;
        self.begin(None);
        let mut last = Instant::now();
        while self.shared.filled.load(Ordering::Relaxed) < goal {
            let before = self.roles.stats.bytes;
            self.fill();
            self.turn(TURN)?;
            let more = self.roles.stats.bytes - before;
            if more > 0 {
                last = Instant::now();
            }
            self.shared.filled.fetch_add(more, Ordering::Relaxed);
            self.alive(last)?;
        }
        self.end();
        self.drain(last)?;
        for producer in &mut self.roles.producers {
            producer.swap();
        }
        self.roles.stats = Stats::new()?;
        self.tell(Message::Filled)
    }

    fn measure(&mut self) -> Result<()> {
        let (shared, plan) = (self.shared, &self.shared.plan);
        let go = shared.go_ns();
        if plan.reading == Some(Reading::Backfill) {
            let ends = shared.ends().clone();
            for consumer in &mut self.roles.consumers {
                consumer.repeat(&ends[consumer.topic()]);
            }
        }
        for consumer in &mut self.roles.consumers {
            consumer.ask(shared, self.driver.outputs())?;
        }
        self.begin(plan.period().map(|period| (go, period)));
        let end = go + nanos(plan.warm_up + plan.length);
        let interval = nanos(plan.interval);
        let mut next_interval = 1;
        let mut last = Instant::now();
        loop {
            let now = shared.now_ns();
            while now.saturating_sub(go) >= next_interval as u64 * interval {
                self.sample(next_interval - 1)?;
                next_interval += 1;
            }
            if now >= end {
                break;
            }
            self.fall_due(now, end);
            self.poke(now - go)?;
            self.fill();
            let wait = self.wait(end, plan.spin);
            if self.turn(wait)? > 0 || self.driver.outputs().open() == 0 {
                last = Instant::now();
            }
            self.alive(last)?;
        }
        self.fall_due(end, end);
        self.end();
        self.drain(last)?;
        if plan.reading == Some(Reading::Backfill) {
            for consumer in &mut self.roles.consumers {
                consumer.stop();
            }
        }
        self.sample(next_interval)
    }

    /// What is left to read, once the ends are known; then the verdict of the consumers.
    fn catch_up(mut self) -> Result<()> {
        let tail = self.shared.plan.reading == Some(Reading::Tail);
        if tail {
            self.read_to_the_ends()?;
        } else {
            self.shared.await_phase(Phase::CatchUp)?;
        }
        let ends = self.shared.ends().clone();
        let mut faults = super::ledger::Faults::default();
        let (mut passes, mut unread) = (0, 0);
        for consumer in &self.roles.consumers {
            faults.add(consumer.faults());
            passes += consumer.passes;
            unread += if tail { consumer.behind(&ends) } else { 0 };
        }
        // Latencies of what was read late count.
        self.sample(usize::MAX)?;
        self.tell(Message::Done { faults, passes, unread })
    }

    fn read_to_the_ends(&mut self) -> Result<()> {
        let mut last = Instant::now();
        loop {
            if self.shared.has_entered(Phase::CatchUp) {
                let ends = self.shared.ends().clone();
                if self.roles.consumers.iter().all(|consumer| consumer.reached(&ends)) {
                    return Ok(());
                }
            } else {
                last = Instant::now();
            }
            let before = self.roles.stats.read_records;
            self.turn(TURN)?;
            if self.roles.stats.read_records > before {
                last = Instant::now();
            }
            self.shared.still_on()?;
            if last.elapsed() > CATCH_UP {
                // What is not there after so long is lost, and told so.
                return Ok(());
            }
        }
    }

    fn begin(&mut self, schedule: Option<(u64, Duration)>) {
        self.due = 0;
        self.schedules.clear();
        let all = (self.shared.plan.producers * self.shared.plan.topics) as f64;
        let schedule = |id: u32| {
            schedule.map(|(first, period)| {
                let period_ns = period.as_secs_f64() * 1e9;
                let offset = (period_ns * f64::from(id) / all) as u64;
                Schedule { first_ns: first + offset, period_ns }
            })
        };
        for producer in &mut self.roles.producers {
            self.schedules.extend(schedule(producer.id));
            producer.begin(schedule(producer.id));
        }
        for transactor in &mut self.roles.transactors {
            self.schedules.extend(schedule(transactor.id));
            transactor.begin(schedule(transactor.id));
        }
    }

    fn end(&mut self) {
        for producer in &mut self.roles.producers {
            producer.end();
        }
        for transactor in &mut self.roles.transactors {
            transactor.end();
        }
    }

    /// When the next request of this thread is due, and whose it is.
    fn next_due(&self) -> Option<(u64, usize)> {
        let count = self.schedules.len() as u64;
        let who = usize::try_from(self.due.checked_rem(count)?).ok()?;
        Some((self.schedules[who].at(self.due / count), who))
    }

    fn fall_due(&mut self, now: u64, end: u64) {
        while let Some((at, who)) = self.next_due()
            && at <= now
            && at < end
        {
            self.due += 1;
            let roles = &mut self.roles;
            match roles.producers.get_mut(who) {
                Some(producer) => {
                    producer.fall_due();
                    producer.fill(self.shared, self.driver.outputs(), &mut roles.stats);
                }
                None => roles.transactors[who].fall_due(),
            }
        }
    }

    /// Lets everybody send who may without an answer: at the start, without acknowledgements, and after
    /// a pause.
    fn fill(&mut self) {
        let unanswered = self.shared.plan.acks == 0;
        let outputs = self.driver.outputs();
        let roles = &mut self.roles;
        if unanswered || roles.stats.requests == 0 {
            for producer in &mut roles.producers {
                producer.fill(self.shared, outputs, &mut roles.stats);
            }
        }
        for transactor in &mut roles.transactors {
            transactor.advance(self.shared, outputs, &mut roles.stats);
        }
    }

    fn poke(&mut self, since_go: u64) -> Result<()> {
        let per_ns = self.idle.len() as f64 / (POKE_SECONDS * 1e9);
        let due = (since_go as f64 * per_ns) as u64;
        while self.poked < due {
            let connection = self.idle[usize::try_from(self.poked)? % self.idle.len()];
            self.poked += 1;
            let request =
                MetadataRequest { topics: Some(Vec::new()), ..MetadataRequest::default() };
            let frame = Rc::new(Frame::request(&request, self.shared.versions.metadata)?);
            self.driver.outputs().send(connection, &frame, 0);
        }
        Ok(())
    }

    fn wait(&self, end: u64, spin: bool) -> Duration {
        let eager = self.shared.plan.acks == 0 && self.schedules.is_empty();
        if spin || (eager && !self.roles.producers.is_empty()) {
            return Duration::ZERO;
        }
        let due = self.next_due().map_or(end, |(at, _)| at.min(end));
        Duration::from_nanos(due.saturating_sub(self.shared.now_ns())).min(TURN)
    }

    fn turn(&mut self, wait: Duration) -> Result<usize> {
        let (shared, lanes, roles) = (self.shared, &self.lanes, &mut self.roles);
        let wait = if roles.transactors.iter().any(Transactor::pauses) {
            wait.min(Duration::from_millis(1))
        } else {
            wait
        };
        self.driver.turn(wait, &mut |response, outputs| {
            roles.answer(shared, lanes[response.connection], &response, outputs)
        })
    }

    /// Until every request that was due is sent and answered. Consumers go on meanwhile.
    fn drain(&mut self, mut last: Instant) -> Result<()> {
        while self.left() > 0 {
            self.fill();
            let before = self.left();
            self.turn(TURN)?;
            if self.left() < before {
                last = Instant::now();
            }
            self.alive(last)?;
        }
        Ok(())
    }

    /// Requests that are due or open, and connections that have not sent everything.
    fn left(&mut self) -> u64 {
        let outputs = self.driver.outputs();
        let queued = |producer: &&Producer| outputs.queued(producer.connection());
        self.roles.unfinished() + self.roles.producers.iter().filter(queued).count() as u64
    }

    fn alive(&self, last: Instant) -> Result<()> {
        self.shared.still_on()?;
        ensure!(
            last.elapsed() < SILENCE_LIMIT,
            "no answer for {SILENCE_LIMIT:?}, {} requests are due or open",
            self.roles.unfinished()
        );
        Ok(())
    }

    fn acked(&self) -> Vec<(usize, i32, u64)> {
        let mut out = Vec::new();
        for producer in &self.roles.producers {
            out.extend(producer.acked().map(|(part, records)| (producer.topic, part, records)));
        }
        for transactor in &self.roles.transactors {
            out.extend(transactor.acked().map(|(part, records)| (transactor.topic, part, records)));
        }
        out.retain(|(_, partition, _)| *partition >= 0);
        out
    }

    fn sample(&mut self, index: usize) -> Result<()> {
        let stats = std::mem::replace(&mut self.roles.stats, Stats::new()?);
        self.tell(Message::Sample(index, Box::new(stats)))
    }

    fn tell(&self, message: Message) -> Result<()> {
        self.out.send(message).ok().context("nobody conducts this run any more")
    }
}
