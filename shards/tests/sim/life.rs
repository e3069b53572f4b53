//! One life of a shard, from its recovery to its end: clients, readers, faults, and the tasks under
//! test, all driven by the seed.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use millstream_io::batch::{CheckedBatch, Origin};
use millstream_io::data_dir::Layout;
use millstream_io::disk_sim::{Fault, SimDisk, SimRng};
use millstream_io::journal::{JournalRing, JournalState, RingLimits};
use millstream_io::runtime::{Reply, oneshot};
use millstream_io::segment::Listing;
use millstream_io::units::{
    LeaderEpoch, Offset, PartitionIndex, ProducerEpoch, ProducerId, SegmentId, Sequence, ShardId,
    TimestampMs, TopicId, TopicPartition,
};
use millstream_shards::clean_task::{CleanerConfig, Cleaners, clean_next};
use millstream_shards::commit_task::commit;
use millstream_shards::deletion::{DeleteBefore, DeleteError, Deletion};
use millstream_shards::disk_shell::DiskShell;
use millstream_shards::health::{DirectoryHealth, Health};
use millstream_shards::housekeeping_task::work;
use millstream_shards::limits::ShardLimits;
use millstream_shards::message::{
    Append, AppendError, Appended, Chunk, Isolation, Marker, OpenPartition, Outcome,
    PartitionConfig, Read, ReadError, ReadLimits, ReadPlan, TransactionQuery, TransactionState,
};
use millstream_shards::metrics::Metrics;
use millstream_shards::read_task;
use millstream_shards::recover::{RecoverConfig, Recovered};
use millstream_shards::shard::{Shard, ShardState};

use super::executor::Executor;
use super::model::{BatchId, Model, Sure, Verdict};
use super::transactions::{Client, Ledger, Phase};

pub const ROOT: &str = "/data";
const NOW: TimestampMs = TimestampMs::new(1_700_000_000_000);

/// What the seed says about the whole run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub partitions: usize,
    pub ring: RingLimits,
    pub limits: ShardLimits,
    pub config: PartitionConfig,
    pub value_bytes_max: usize,
    pub workers: usize,
    pub lives: usize,
    pub steps: usize,
    /// Retention comes by now and then.
    pub retain: bool,
    /// Records have keys, and passes run now and then.
    pub compacted: bool,
    /// Transactional clients, over all partitions.
    pub clients: usize,
}

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The power goes, or the process is killed.
    Crash,
    /// The ordered stop.
    Stop,
}

/// An idempotent producer of one partition.
#[derive(Debug)]
pub struct Producer {
    pid: i64,
    partition: usize,
    next_sequence: i32,
    /// In order, from the first that is not acknowledged: connections answer in order, so a client
    /// has no more than five batches beyond that.
    window: VecDeque<Sent>,
    /// Something went wrong: what is in the window is sent again, one after the other.
    retry: bool,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    id: BatchId,
    state: SentState,
    /// It was refused as out of order while the answer to this earlier one was still to come: that
    /// answer must then be a refusal too.
    behind: Option<BatchId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SentState {
    Waiting,
    Failed,
    Acked,
}

/// A request on its way.
struct Outstanding {
    reply: Reply<Vec<Result<Appended, AppendError>>>,
    batches: Vec<(BatchId, Option<usize>)>,
}

/// A batch or a marker of a transactional client on its way.
struct InTransaction {
    reply: Reply<Vec<Result<Appended, AppendError>>>,
    client: usize,
    id: BatchId,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Batch,
    Retry,
    /// Of a producer that does not know that its transaction has ended.
    Late,
    Marker,
}

/// A read that has ended: partition, offset, isolation, what was sure when it began.
type ReadResult = (usize, i64, Isolation, Sure, Result<ReadPlan, ReadError>);

/// A deletion on its way.
struct Deleting {
    reply: Reply<Result<Offset, DeleteError>>,
    partition: usize,
    /// The log start asked for, and the one that was sure before.
    to: i64,
    before: i64,
    in_range: bool,
}

pub struct Life<'a> {
    plan: &'a Plan,
    disk: SimDisk,
    shard: Shard,
    shell: DiskShell<SimDisk>,
    executor: Executor,
    outstanding: Vec<Outstanding>,
    in_transactions: Vec<InTransaction>,
    reads: Rc<RefCell<Vec<ReadResult>>>,
    reading: usize,
    deleting: Vec<Deleting>,
    /// A pass is under way.
    cleaning: Rc<Cell<bool>>,
    cleaners: Cleaners,
    /// Where the last reader of a compacted partition stopped: another goes on there.
    stopped: HashMap<usize, i64>,
    /// Reads that were told that their records are deleted.
    pub reads_refused: u64,
}

pub fn partition_of(index: usize) -> TopicPartition {
    let topic = TopicId::from_bytes([1 + (index % 2) as u8; 16]);
    TopicPartition { topic, partition: PartitionIndex::at((index / 2) as i32) }
}

pub fn opens(plan: &Plan, epoch: i32) -> Vec<OpenPartition> {
    let open = |index| {
        let at = partition_of(index);
        OpenPartition {
            at,
            topic_name: Arc::from(format!("t{}", at.topic.as_bytes()[0])),
            epoch: LeaderEpoch::at(epoch),
            config: plan.config.clone(),
        }
    };
    (0..plan.partitions).map(open).collect()
}

pub fn recover_config(plan: &Plan) -> RecoverConfig {
    RecoverConfig {
        layout: Layout::new(PathBuf::from(ROOT)),
        shard_count: 1,
        ring: plan.ring,
        threads: 1,
        now: NOW,
    }
}

impl Producer {
    pub fn new(pid: i64, partition: usize) -> Producer {
        Producer { pid, partition, next_sequence: 0, window: VecDeque::new(), retry: false }
    }

    /// The broker was started again: nobody will answer, so everything is sent again.
    pub fn reconnect(&mut self) {
        for sent in &mut self.window {
            if sent.state == SentState::Waiting {
                sent.state = SentState::Failed;
            }
            sent.behind = None;
        }
        self.retry = !self.window.is_empty();
    }

    fn forget_acked(&mut self) {
        while self.window.front().is_some_and(|sent| sent.state == SentState::Acked) {
            self.window.pop_front();
        }
        self.retry &= self.window.iter().any(|sent| sent.state == SentState::Failed);
    }
}

impl<'a> Life<'a> {
    pub fn start(plan: &'a Plan, disk: SimDisk, mut recovered: Recovered) -> Life<'a> {
        let layout = Layout::new(PathBuf::from(ROOT));
        let id = ShardId::new(0);
        let journal = recovered.journals.pop().expect("one shard has one journal");
        let ring = JournalRing::new(journal, plan.ring);
        let health = Health::new(DirectoryHealth::new(PathBuf::from(ROOT)));
        let state = ShardState::new(id, layout.clone(), ring, health, plan.limits);
        let shard = Shard::new(state);
        for (open, log) in recovered.logs {
            shard.with_mut(|shard| shard.open(&open, log)).expect("it was recovered");
        }
        disk.stepped();
        let shell = DiskShell::new(disk.clone(), shard.clone(), &layout, id, plan.ring);
        let mut executor = Executor::default();
        executor.spawn(commit(shell.clone()));
        (0..plan.workers).for_each(|_| executor.spawn(work(shell.clone())));
        Life {
            plan,
            disk,
            shard,
            shell,
            executor,
            outstanding: Vec::new(),
            in_transactions: Vec::new(),
            reads: Rc::default(),
            reading: 0,
            deleting: Vec::new(),
            cleaning: Rc::default(),
            cleaners: Cleaners::new(CleanerConfig {
                dedupe_bytes: 200 + plan.limits.tail_bytes_max / 8,
                ..CleanerConfig::default()
            }),
            stopped: HashMap::new(),
            reads_refused: 0,
        }
    }

    /// Reads everything and hands it to the judge.
    pub fn audit(&mut self, model: &mut Model, rng: &mut SimRng) -> Verdict {
        for partition in 0..self.plan.partitions {
            let start = self.find_log_start(partition, model, rng)?;
            let mut next = start;
            loop {
                let all = Isolation::ReadUncommitted;
                let plan = self.read_now(partition, next, all, model, rng)?;
                let plan = plan.map_err(|e| format!("p{partition} @{next}: {e}"))?;
                let bytes = bytes_of(&plan);
                if bytes.is_empty() {
                    if next != plan.high_watermark.get() {
                        return Err(format!("p{partition}: nothing to read at @{next}"));
                    }
                    break;
                }
                let sure = model.sure(partition);
                next = model.saw(partition, next, &bytes, sure)?;
            }
            model.recovered(partition, next)?;
            model.complete(partition, start)?;
            if self.plan.clients > 0 && !model.producers_forgotten {
                self.audit_transactions(partition, model, rng)?;
            }
        }
        Ok(())
    }

    /// Judges what readers of committed records were told in the last life, what they are told now,
    /// and which transactions the partition thinks are open.
    fn audit_transactions(
        &mut self,
        partition: usize,
        model: &mut Model,
        rng: &mut SimRng,
    ) -> Verdict {
        let mut next = model.log_start(partition);
        loop {
            let plan = self.read_now(partition, next, Isolation::ReadCommitted, model, rng)?;
            let plan = plan.map_err(|e| format!("p{partition} @{next}: {e}"))?;
            let bytes = bytes_of(&plan);
            let sure = model.sure(partition);
            let to = model.saw(partition, next, &bytes, sure)?;
            model.claims.add(partition, (next, to), &plan)?;
            if bytes.is_empty() {
                break;
            }
            next = to;
        }
        let ledger = Ledger::of(model, partition);
        model.claims.judge(&ledger, partition)?;
        let Some(truth) = ledger.at(self.high_watermark(partition)) else { return Ok(()) };
        let active = self.shard.with(|shard| shard.producers(&[partition_of(partition)]));
        let active = active.into_iter().next().expect("asked for one").expect("open");
        let open = active.iter().filter_map(|p| Some((p.id.get(), p.transaction_start?.get())));
        let open = open.collect();
        if truth.open != open {
            return Err(format!("p{partition}: open are {:?}, not {open:?}", truth.open));
        }
        Ok(())
    }

    /// Asks for the first record and learns where the log starts; what was asked for before and did
    /// not come to pass is known by now.
    fn find_log_start(
        &mut self,
        partition: usize,
        model: &mut Model,
        rng: &mut SimRng,
    ) -> Result<i64, String> {
        let before = model.log_start(partition);
        let all = Isolation::ReadUncommitted;
        let start = match self.read_now(partition, 0, all, model, rng)? {
            Ok(plan) => plan.log_start,
            Err(ReadError::OffsetOutOfRange { log_start, .. }) => log_start,
            Err(error) => return Err(format!("p{partition} @0: {error}")),
        };
        model.saw_log_start(partition, start.get(), before)?;
        model.settle_log_start(partition);
        Ok(start.get())
    }

    fn read_now(
        &mut self,
        partition: usize,
        offset: i64,
        isolation: Isolation,
        model: &Model,
        rng: &mut SimRng,
    ) -> Result<Result<ReadPlan, ReadError>, String> {
        self.read(partition, offset, isolation, 1 << 20, model);
        self.drain(rng)?;
        self.reading -= 1;
        let (.., result) = self.reads.borrow_mut().pop().expect("the read has ended");
        Ok(result)
    }

    /// Runs the life to its end.
    pub fn run(
        &mut self,
        model: &mut Model,
        producers: &mut [Producer],
        rng: &mut SimRng,
    ) -> Result<End, String> {
        self.order_faults(rng);
        // Of their own, so that the others do the same with and without them.
        let mut theirs = SimRng::new(model.batches.len() as u64 ^ self.disk.ops() << 20);
        let steps = 1 + rng.index(self.plan.steps);
        for _ in 0..steps {
            self.act(model, producers, rng)?;
            if self.plan.clients > 0 {
                self.act_in_transactions(model, &mut theirs)?;
            }
            if !self.disk.is_powered() {
                return Ok(End::Crash);
            }
        }
        if rng.chance(40) && !self.has_failed() {
            self.disk.clear_faults();
            self.disk.set_capacity(None);
            self.settle(model, producers, rng)?;
            if self.has_failed() || !self.disk.is_powered() {
                return Ok(End::Crash);
            }
            if rng.chance(60) {
                self.stop(model, producers, rng)?;
                return Ok(if self.disk.is_powered() { End::Stop } else { End::Crash });
            }
        }
        Ok(End::Crash)
    }

    fn order_faults(&self, rng: &mut SimRng) {
        let ahead = self.disk.ops() + 1 + rng.below(400);
        match rng.below(10) {
            0..4 => self.disk.power_off_at(ahead),
            4 => self.disk.fault(Fault::at_op(ahead, libc::EIO)),
            5 => self
                .disk
                .fault(Fault { times: 1 + rng.below(4), ..Fault::at_op(ahead, libc::ENOSPC) }),
            _ => {}
        }
        if rng.chance(10) {
            let used = (self.plan.ring.file_bytes * 3).max(200_000);
            self.disk.set_capacity(Some(used + rng.below(400_000)));
        }
    }

    /// One step of somebody.
    fn act(&mut self, model: &mut Model, producers: &mut [Producer], rng: &mut SimRng) -> Verdict {
        let failed_before = self.has_failed();
        match rng.below(100) {
            0..14 => self.send(model, producers, rng),
            14..17 => self.read_somewhere(model, rng),
            17..19 if self.plan.retain && rng.chance(30) => self.retain(model, rng),
            17..19 => self.delete_somewhere(model, rng),
            19..56 => {
                self.executor.step(rng);
            }
            56..99 => {
                self.disk.complete_any(rng);
            }
            _ => {
                if rng.chance(20) {
                    self.disk.set_capacity(None);
                }
                self.shard.with_mut(ShardState::tick);
            }
        }
        if self.plan.compacted && rng.chance(3) {
            self.clean();
        }
        self.take_reads(model)?;
        self.take_deletions(model, failed_before)?;
        self.take_answers(model, producers, failed_before)
    }

    /// Begins a pass, unless one is under way.
    fn clean(&mut self) {
        if self.cleaning.replace(true) {
            return;
        }
        let (shell, cleaners, busy) =
            (self.shell.clone(), self.cleaners.clone(), self.cleaning.clone());
        self.executor.spawn(async move {
            clean_next(&shell, &cleaners, NOW, |_| std::future::ready(())).await;
            busy.set(false);
        });
    }

    fn send(&mut self, model: &mut Model, producers: &mut [Producer], rng: &mut SimRng) {
        if !self.shard.with(ShardState::has_room) {
            return;
        }
        let mut batches: Vec<(BatchId, usize, Option<usize>)> = Vec::new();
        for _ in 0..1 + rng.index(3) {
            let used: Vec<usize> = batches.iter().map(|(_, partition, _)| *partition).collect();
            batches.extend(self.choose(model, producers, &used, rng));
        }
        if batches.is_empty() {
            return;
        }
        let append = |(id, partition, _): &(BatchId, usize, Option<usize>)| Append {
            at: partition_of(*partition),
            current: None,
            batch: CheckedBatch::parse(model.send(*id), Origin::Client).expect("a good batch"),
            transaction: None,
            now: NOW,
        };
        let appends = batches.iter().map(append).collect();
        let (promise, reply) = oneshot();
        for (id, _, producer) in &batches {
            if let Some(window) = producer.map(|p| &mut producers[p].window) {
                let sent =
                    window.iter_mut().find(|sent| sent.id == *id).expect("chosen from there");
                (sent.state, sent.behind) = (SentState::Waiting, None);
            }
        }
        let batches = batches.into_iter().map(|(id, _, producer)| (id, producer)).collect();
        self.shard.with_mut(|shard| shard.append(appends, promise));
        self.outstanding.push(Outstanding { reply, batches });
    }

    /// The next batch of some client: id, partition, producer.
    fn choose(
        &self,
        model: &mut Model,
        producers: &mut [Producer],
        used: &[usize],
        rng: &mut SimRng,
    ) -> Option<(BatchId, usize, Option<usize>)> {
        let records = 1 + rng.index(4);
        let value_bytes = match rng.below(12) {
            0 => self.plan.value_bytes_max * 8,
            n if n < 5 => 1 + rng.index(40),
            _ => 1 + rng.index(self.plan.value_bytes_max),
        };
        if rng.chance(25) {
            let partition = rng.index(self.plan.partitions);
            if used.contains(&partition) {
                return None;
            }
            return Some((model.new_batch(partition, records, value_bytes, None), partition, None));
        }
        let p = rng.index(producers.len());
        let producer = &mut producers[p];
        let partition = producer.partition;
        if used.contains(&partition) {
            return None;
        }
        if producer.retry {
            // One after the other, and only when every answer is in.
            let is = |state| move |sent: &&Sent| sent.state == state;
            let mut waiting = producer.window.iter().filter(is(SentState::Waiting));
            let mut failed = producer.window.iter().filter(is(SentState::Failed));
            let next = failed.next().filter(|_| waiting.next().is_none());
            return next.map(|sent| (sent.id, partition, Some(p)));
        }
        if rng.chance(5) {
            // A duplicate of something that was acknowledged, or is on its way.
            let sent = producer.window.back()?;
            return Some((sent.id, partition, Some(p)));
        }
        if producer.window.len() >= 5 {
            return None;
        }
        let named = Some((producer.pid, producer.next_sequence));
        let id = model.new_batch(partition, records, value_bytes, named);
        producer.next_sequence += records as i32;
        producer.window.push_back(Sent { id, state: SentState::Waiting, behind: None });
        Some((id, partition, Some(p)))
    }

    /// One step of a transactional client, or of a reader of committed records.
    fn act_in_transactions(&mut self, model: &mut Model, rng: &mut SimRng) -> Verdict {
        let failed_before = self.has_failed();
        match rng.below(100) {
            0..12 => {
                let client = rng.index(model.clients.len());
                if self.shard.with(ShardState::has_room) {
                    self.step_client(client, model, rng)?;
                }
            }
            12..16 if self.reading < 4 => {
                let partition = rng.index(self.plan.partitions);
                let from = model.log_start(partition);
                let left = (self.high_watermark(partition) - from).unsigned_abs();
                let offset = from + rng.below(left + 1) as i64;
                let isolation = Isolation::ReadCommitted;
                self.read(partition, offset, isolation, 1 + rng.below(30_000), model);
            }
            _ => {}
        }
        self.take_transactional(model, failed_before)
    }

    fn step_client(&mut self, client: usize, model: &mut Model, rng: &mut SimRng) -> Verdict {
        match model.clients[client].phase {
            Phase::Idle => self.send_in_transaction(client, Kind::Batch, model, rng),
            Phase::Open { waiting: 0, failed: true } => {
                let epoch = model.clients[client].epoch + 1;
                self.send_marker(client, Outcome::Abort, epoch, model);
                Ok(())
            }
            Phase::Open { failed: true, .. } => Ok(()),
            Phase::Open { waiting, .. } if waiting < 2 && rng.chance(60) => {
                let kind = if rng.chance(8) { Kind::Retry } else { Kind::Batch };
                self.send_in_transaction(client, kind, model, rng)
            }
            Phase::Open { waiting: 0, .. } => {
                let outcome = if rng.chance(50) { Outcome::Commit } else { Outcome::Abort };
                let bumps = model.clients[client].version >= 2
                    || (outcome == Outcome::Abort && rng.chance(30));
                let epoch = model.clients[client].epoch + i16::from(bumps);
                self.send_marker(client, outcome, epoch, model);
                Ok(())
            }
            Phase::Open { .. } => Ok(()),
            Phase::Ending { waiting: true, .. } if rng.chance(20) => {
                self.send_in_transaction(client, Kind::Late, model, rng)
            }
            Phase::Ending { waiting: true, .. } => Ok(()),
            Phase::Ending { outcome, epoch, .. } => {
                self.send_marker(client, outcome, epoch, model);
                Ok(())
            }
        }
    }

    /// Sends a batch as a door does: it asks the partition, and has the coordinator's word.
    fn send_in_transaction(
        &mut self,
        client: usize,
        kind: Kind,
        model: &mut Model,
        rng: &mut SimRng,
    ) -> Verdict {
        let is_last_of = |(_, batch): &(usize, &super::model::Batch)| {
            let Client { pid, epoch, .. } = model.clients[client];
            let builder = &batch.builder;
            (builder.producer_id, builder.producer_epoch) == (pid, epoch)
        };
        let last = model.batches.iter().enumerate().rev().find(is_last_of);
        let id = match (kind, last) {
            (Kind::Retry, Some((id, batch))) if batch.acked => id as BatchId,
            (Kind::Retry, _) => return Ok(()),
            _ => {
                let size = (client, 1 + rng.index(3), 1 + rng.index(self.plan.value_bytes_max));
                model.new_transactional(size)
            }
        };
        let Client { pid, partition, epoch, sequence, version, phase } = model.clients[client];
        let query = TransactionQuery {
            at: partition_of(partition),
            producer: ProducerId::new(pid).expect("not negative"),
            epoch: ProducerEpoch::new(epoch).expect("not negative"),
            first: Sequence::new(sequence),
            bumps_epoch: version >= 2,
        };
        let mut guard = None;
        if kind == Kind::Batch {
            let answer = self.shard.with_mut(|shard| shard.transactions(&[query]).remove(0));
            match answer.map_err(|error| error.to_string())? {
                TransactionState::Open => {}
                TransactionState::Unverified(_)
                    if phase == (Phase::Open { waiting: 0, failed: false })
                        && !model.producers_forgotten =>
                {
                    return Err(format!("the open transaction of {pid} is forgotten"));
                }
                TransactionState::Unverified(given) => guard = Some(given),
            }
            let records = model.batches[id as usize].records;
            let client = &mut model.clients[client];
            client.sequence = query.first.expect("not negative").add(records).get();
            client.phase = match client.phase {
                Phase::Open { waiting, failed } => Phase::Open { waiting: waiting + 1, failed },
                _ => Phase::Open { waiting: 1, failed: false },
            };
        }
        let append = Append {
            at: partition_of(partition),
            current: None,
            batch: CheckedBatch::parse(model.send(id), Origin::Client).expect("a good batch"),
            transaction: guard,
            now: NOW,
        };
        let (promise, reply) = oneshot();
        self.shard.with_mut(|shard| shard.append(vec![append], promise));
        self.in_transactions.push(InTransaction { reply, client, id, kind });
        Ok(())
    }

    fn send_marker(&mut self, client: usize, outcome: Outcome, epoch: i16, model: &mut Model) {
        let Client { partition, version, .. } = model.clients[client];
        let end = model.clients[client].marker(outcome, epoch);
        let (id, now) = model.new_marker(partition, &end);
        let marker = Marker {
            at: partition_of(partition),
            producer: end.producer,
            epoch: end.epoch,
            outcome,
            coordinator_epoch: end.coordinator_epoch,
            transaction_version: version,
            now,
        };
        model.clients[client].phase = Phase::Ending { outcome, epoch, waiting: true };
        let (promise, reply) = oneshot();
        self.shard.with_mut(|shard| shard.append_markers(vec![marker], promise));
        self.in_transactions.push(InTransaction { reply, client, id, kind: Kind::Marker });
    }

    fn take_transactional(&mut self, model: &mut Model, failed_before: bool) -> Verdict {
        let mut i = 0;
        while i < self.in_transactions.len() {
            let Some(answer) = self.in_transactions[i].reply.try_take() else {
                i += 1;
                continue;
            };
            let InTransaction { client, id, kind, .. } = self.in_transactions.remove(i);
            let answer = answer.map_err(|_| "a promise was dropped".to_owned())?.remove(0);
            if answer.is_ok() && failed_before {
                return Err(format!("batch {id} is acknowledged after the directory failed"));
            }
            if let Ok(appended) = &answer {
                model.acked(id, appended.base_offset.get())?;
            }
            let phase = model.clients[client].phase;
            let fault = || Err(format!("{kind:?} {id} in {phase:?}: {answer:?}"));
            let well = answer.is_ok();
            match (&answer, kind) {
                (Ok(_), _) => {}
                (Err(error), _) if is_open(error) => {}
                (Err(AppendError::OutOfOrderSequence { .. }), Kind::Batch)
                    if matches!(phase, Phase::Open { waiting: 2.., .. })
                        || matches!(phase, Phase::Open { failed: true, .. }) => {}
                (Err(AppendError::InvalidTxnState { .. }), Kind::Batch)
                    if matches!(phase, Phase::Open { failed: true, .. }) => {}
                // A disk without room for their snapshot: the transaction begins in its middle now.
                (Err(AppendError::OutOfOrderSequence { .. }), Kind::Batch)
                    if model.producers_forgotten => {}
                (
                    Err(
                        AppendError::InvalidProducerEpoch { .. }
                        | AppendError::InvalidTxnState { .. }
                        | AppendError::OutOfOrderSequence { .. },
                    ),
                    Kind::Late,
                ) => {}
                // Behind more than five others, or behind its marker.
                (Err(_), Kind::Retry) => {}
                _ => return fault(),
            }
            let client = &mut model.clients[client];
            match kind {
                Kind::Batch => client.batch_answered(well),
                Kind::Marker => client.marker_answered(well),
                Kind::Retry | Kind::Late => {}
            }
        }
        Ok(())
    }

    fn read_somewhere(&mut self, model: &Model, rng: &mut SimRng) {
        if self.reading > 3 {
            return;
        }
        let partition = rng.index(self.plan.partitions);
        let from = if rng.chance(80) { model.log_start(partition) } else { 0 };
        let left = self.high_watermark(partition) - from;
        let offset = match self.stopped.get(&partition) {
            Some(stopped) if rng.chance(60) => *stopped,
            _ => from + rng.below(left.unsigned_abs() + 1) as i64,
        };
        self.read(partition, offset, Isolation::ReadUncommitted, 1 + rng.below(30_000), model);
    }

    fn high_watermark(&self, partition: usize) -> i64 {
        let end = self.shard.with(|shard| {
            let slot = shard.partitions.slot_of(partition_of(partition)).expect("open");
            shard.partitions.get(slot).expect("open").readable(Isolation::ReadUncommitted).0
        });
        end.get()
    }

    /// Asks for the deletion of some records, of all, or of more than there are.
    fn delete_somewhere(&mut self, model: &mut Model, rng: &mut SimRng) {
        let partition = rng.index(self.plan.partitions);
        let (before, end) = (model.log_start(partition), self.high_watermark(partition));
        let left = (end - before).unsigned_abs();
        let (to, order) = match rng.below(10) {
            0 | 1 => (end, DeleteBefore::HighWatermark),
            2 => (end + 1, DeleteBefore::Offset(Offset::at(end + 1))),
            3 => (before / 2, DeleteBefore::Offset(Offset::at(before / 2))),
            n => {
                let share = if n < 6 { left } else { left / 4 };
                let to = before + rng.below(share + 1) as i64;
                (to, DeleteBefore::Offset(Offset::at(to)))
            }
        };
        let in_range = to <= end;
        if in_range {
            model.asks_deletion(partition, to);
        }
        let (promise, reply) = oneshot();
        let deletion = Deletion { at: partition_of(partition), before: order };
        self.shard.with_mut(|shard| shard.delete_before(&deletion, promise));
        self.deleting.push(Deleting { reply, partition, to, before, in_range });
    }

    /// Looks for what is too old, at some time between the first batch and behind the last.
    fn retain(&mut self, model: &mut Model, rng: &mut SimRng) {
        for partition in 0..self.plan.partitions {
            model.asks_deletion(partition, self.high_watermark(partition));
        }
        let now = NOW.plus(rng.below(model.batch_count() * 2) as i64);
        let mut from = Some(0);
        while let Some(place) = from {
            from = self.shard.with_mut(|shard| shard.retain_piece(place, now)).next;
        }
    }

    fn read(
        &mut self,
        partition: usize,
        offset: i64,
        isolation: Isolation,
        bytes_max: u64,
        model: &Model,
    ) {
        let sure = model.sure(partition);
        let at = partition_of(partition);
        let start = Offset::at(offset);
        let read = Read { at, offset: start, bytes_max, current: None, last_fetched: None };
        let limits = ReadLimits { bytes_max, isolation };
        let (shard, disk, results) = (self.shard.clone(), self.disk.clone(), self.reads.clone());
        self.reading += 1;
        self.executor.spawn(async move {
            let result = read_task::read(&shard, &disk, &[read], limits).await.remove(0);
            results.borrow_mut().push((partition, offset, isolation, sure, result));
        });
    }

    fn take_reads(&mut self, model: &mut Model) -> Verdict {
        for (partition, offset, isolation, sure, result) in self.reads.take() {
            self.reading -= 1;
            match result {
                Ok(plan) => {
                    if offset < sure.log_start {
                        let start = sure.log_start;
                        return Err(format!("p{partition}: @{offset} is served below @{start}"));
                    }
                    model.saw_log_start(partition, plan.log_start.get(), sure.log_start)?;
                    // The power may have gone since: what was promised is gone with it.
                    if self.disk.is_powered() {
                        let to = model.saw(partition, offset, &bytes_of(&plan), sure)?;
                        if self.plan.compacted {
                            self.stopped.insert(partition, to);
                        }
                        if isolation == Isolation::ReadCommitted && !model.producers_forgotten {
                            model.claims.add(partition, (offset, to), &plan)?;
                        }
                    }
                }
                Err(ReadError::OffsetOutOfRange { log_start, .. }) if offset < log_start.get() => {
                    model.saw_log_start(partition, log_start.get(), sure.log_start)?;
                    self.reads_refused += 1;
                }
                Err(ReadError::Storage { .. }) if !self.disk.is_powered() || self.has_failed() => {}
                Err(error) => return Err(format!("read of p{partition} @{offset}: {error}")),
            }
        }
        Ok(())
    }

    fn take_deletions(&mut self, model: &mut Model, failed_before: bool) -> Verdict {
        let mut i = 0;
        while i < self.deleting.len() {
            let Some(answer) = self.deleting[i].reply.try_take() else {
                i += 1;
                continue;
            };
            let Deleting { partition, to, before, in_range, .. } = self.deleting.remove(i);
            match answer.map_err(|_| "the promise of a deletion was dropped".to_owned())? {
                Ok(_) if failed_before => {
                    return Err(format!("p{partition}: deleted after the directory failed"));
                }
                Ok(start) if !in_range || start.get() < to => {
                    return Err(format!("p{partition}: deleted to @{start}, asked for @{to}"));
                }
                Ok(start) => model.saw_log_start(partition, start.get(), before)?,
                Err(DeleteError::OutOfRange { .. }) if !in_range => {}
                Err(DeleteError::NoRoom { .. } | DeleteError::Stopping) => {}
                Err(DeleteError::Storage { .. })
                    if !self.disk.is_powered() || self.has_failed() => {}
                Err(error) => return Err(format!("p{partition}: deletion to @{to}: {error}")),
            }
        }
        Ok(())
    }

    fn take_answers(
        &mut self,
        model: &mut Model,
        producers: &mut [Producer],
        failed_before: bool,
    ) -> Verdict {
        let mut i = 0;
        while i < self.outstanding.len() {
            let Some(answer) = self.outstanding[i].reply.try_take() else {
                i += 1;
                continue;
            };
            let Outstanding { batches, .. } = self.outstanding.remove(i);
            let answers = answer.map_err(|_| "a promise was dropped".to_owned())?;
            for ((id, producer), answer) in batches.into_iter().zip(answers) {
                if answer.is_ok() && failed_before {
                    return Err(format!("batch {id} is acknowledged after the directory failed"));
                }
                let producer = producer.map(|p| &mut producers[p]);
                take_answer(model, producer, id, answer)?;
            }
        }
        Ok(())
    }

    /// Runs without new work until nothing moves any more: everybody must have his answer then.
    fn settle(
        &mut self,
        model: &mut Model,
        producers: &mut [Producer],
        rng: &mut SimRng,
    ) -> Verdict {
        for _ in 0..4 {
            // The reserve below which a full disk stays full is larger than these disks.
            self.shard.with_mut(ShardState::tick);
            let failed = self.has_failed();
            self.drain(rng)?;
            self.take_reads(model)?;
            self.take_deletions(model, failed)?;
            self.take_answers(model, producers, failed)?;
            self.take_transactional(model, failed)?;
        }
        match self.outstanding.len() + self.deleting.len() + self.in_transactions.len() {
            0 => Ok(()),
            waiting if self.disk.is_powered() => {
                let state = self.shard.with(|shard| format!("{:?}", shard.levels()));
                Err(format!("{waiting} requests are never answered: {state}"))
            }
            _ => Ok(()),
        }
    }

    /// Lets tasks and disk run until both are at rest.
    fn drain(&mut self, rng: &mut SimRng) -> Verdict {
        for _ in 0..200_000 {
            let moved = self.executor.step(rng);
            if !self.disk.complete_any(rng) && !moved {
                return Ok(());
            }
        }
        Err("the tasks never come to rest".to_owned())
    }

    /// The ordered stop, as the runtime does it.
    fn stop(&mut self, model: &mut Model, producers: &mut [Producer], rng: &mut SimRng) -> Verdict {
        self.shard.with_mut(ShardState::begin_stop);
        self.settle(model, producers, rng)?;
        if !self.disk.is_powered() || self.has_failed() {
            return Ok(());
        }
        if !self.shard.with(ShardState::is_committed) {
            return Err("the stop leaves batches staged".to_owned());
        }
        self.shard.with_mut(ShardState::close_all);
        self.settle(model, producers, rng)?;
        if !self.disk.is_powered() || self.has_failed() {
            return Ok(());
        }
        if !self.shard.with(ShardState::is_at_rest) || !self.shard.with(|s| s.ring.is_clean()) {
            return Err(format!("the stop leaves work: {:?}", self.shard.with(|s| s.levels())));
        }
        self.check_space(model)?;
        let state = JournalState::from(self.shard.with(|shard| shard.ring.clean_state()));
        let dir = Layout::new(PathBuf::from(ROOT)).journal(ShardId::new(0));
        if let Err(error) = state.write(&self.disk, &dir) {
            return if self.disk.is_powered() { Err(error.to_string()) } else { Ok(()) };
        }
        Ok(())
    }

    /// No file is left that lies wholly below its log start, the last of a partition apart.
    fn check_space(&self, model: &Model) -> Verdict {
        for partition in 0..self.plan.partitions {
            let open = &opens(self.plan, 0)[partition];
            let dir = Layout::new(PathBuf::from(ROOT));
            let dir = dir.partition(&open.topic_name, open.at.partition);
            let listing = Listing::read(&self.disk, &dir).map_err(|error| error.to_string())?;
            let start = model.log_start(partition);
            // What a pass could not remove when it was broken off, the next start does.
            let broken_off = self.metrics().cleaning.broken_off > 0;
            let counts = |id: &SegmentId| !(broken_off && id.cleaned.is_some());
            let mut segments = listing.segments.iter().filter(|id| counts(id));
            let kept = segments.nth(1).is_some_and(|next| next.base.get() <= start);
            let mut orphans = listing.orphans();
            orphans.retain(|(id, _)| counts(id));
            if kept || !orphans.is_empty() {
                let names = (&listing.segments, orphans);
                return Err(format!("p{partition}: left below the log start @{start}: {names:?}"));
            }
        }
        Ok(())
    }

    fn has_failed(&self) -> bool {
        self.shard.with(ShardState::has_failed)
    }

    pub fn metrics(&self) -> Metrics {
        self.shard.with(|shard| shard.metrics)
    }

    /// Ends the tasks, and with them every open file.
    pub fn end(self) {
        let Life { executor, shell, .. } = self;
        drop(executor);
        drop(shell);
    }
}

fn take_answer(
    model: &mut Model,
    producer: Option<&mut Producer>,
    id: BatchId,
    answer: Result<Appended, AppendError>,
) -> Verdict {
    if let Ok(appended) = &answer {
        model.acked(id, appended.base_offset.get())?;
    }
    let Some(producer) = producer else {
        return match answer {
            Ok(_) => Ok(()),
            Err(error) if is_open(&error) => Ok(()),
            Err(error) => Err(format!("plain batch {id}: {error}")),
        };
    };
    let Some(i) = producer.window.iter().position(|sent| sent.id == id) else {
        // The second answer to a batch that was sent twice.
        return Ok(());
    };
    let Err(error) = answer else {
        if let Some(sent) = producer.window.iter().find(|sent| sent.behind == Some(id)) {
            return Err(format!("batch {} was out of order behind {id}, which is stored", sent.id));
        }
        producer.window[i].state = SentState::Acked;
        producer.forget_acked();
        return Ok(());
    };
    if producer.window[i].state == SentState::Acked {
        // The other copy was stored, and this one was refused for what happened since.
        return if is_open(&error) { Ok(()) } else { Err(format!("batch {id}: {error}")) };
    }
    let open_before = |sent: &&Sent| sent.state != SentState::Acked;
    let before = producer.window.range(..i).rev().find(open_before).copied();
    producer.window[i].state = SentState::Failed;
    producer.retry = true;
    for sent in producer.window.iter_mut().filter(|sent| sent.behind == Some(id)) {
        sent.behind = None;
    }
    match (error, before) {
        (AppendError::OutOfOrderSequence { .. }, Some(before)) => {
            let waits = before.state == SentState::Waiting;
            producer.window[i].behind = waits.then_some(before.id);
            Ok(())
        }
        (error, _) if is_open(&error) => Ok(()),
        // It is stored, and the broker knows no more than what came behind it.
        (AppendError::OutOfOrderSequence { .. }, _) if model.producers_forgotten => Ok(()),
        (error, _) => {
            let (pid, state) = (producer.pid, model.batches[id as usize].state);
            Err(format!("batch {id} of producer {pid}: {error}; it is {state:?}"))
        }
    }
}

/// True for an error that leaves open whether the batch is stored.
fn is_open(error: &AppendError) -> bool {
    matches!(
        error,
        AppendError::Storage { .. }
            | AppendError::DiskFull { .. }
            | AppendError::Stalled { .. }
            | AppendError::Stopping
    )
}

fn bytes_of(plan: &ReadPlan) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in &plan.chunks {
        match chunk {
            Chunk::Memory(bytes) => out.extend_from_slice(bytes),
            Chunk::File { file, position, len } => {
                let mut bytes = vec![0; usize::try_from(*len).expect("small")];
                let got = file.file().read_at(&mut bytes, *position).unwrap_or(0);
                bytes.truncate(got);
                out.extend_from_slice(&bytes);
            }
        }
    }
    out
}
