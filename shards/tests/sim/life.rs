//! One life of a shard, from its recovery to its end: clients, readers, faults, and the tasks under
//! test, all driven by the seed.

mod audit;
mod deleting;
mod producing;
mod reading;
mod removing;
mod transacting;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;

use millstream_io::data_dir::Layout;
use millstream_io::disk_sim::{Fault, SimDisk, SimRng};
use millstream_io::journal::{JournalRing, JournalState};
use millstream_io::units::ShardId;
use millstream_shards::clean_task::{CleanerConfig, Cleaners, clean_next};
use millstream_shards::commit_task::commit;
use millstream_shards::disk_shell::DiskShell;
use millstream_shards::health::{DirectoryHealth, Health};
use millstream_shards::housekeeping_task::work;
use millstream_shards::metrics::Metrics;
use millstream_shards::recover::Recovered;
use millstream_shards::shard::{Shard, ShardState};

use super::executor::Executor;
use super::model::{Model, Verdict};
use super::plan::{Plan, ROOT};

pub use producing::Producer;

use deleting::Deleting;
use producing::Outstanding;
use reading::ReadResult;
use removing::Removing;
use transacting::InTransaction;

/// How a life ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The power goes, or the process is killed.
    Crash,
    /// The ordered stop.
    Stop,
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
    /// The power goes in the pass behind so many others.
    passes_to_cut: Option<u64>,
    /// A pass is under way.
    cleaning: Rc<Cell<bool>>,
    cleaners: Cleaners,
    /// Where the last reader of a compacted partition stopped: another goes on there.
    stopped: HashMap<usize, i64>,
    /// Reads that were told that their records are deleted.
    pub reads_refused: u64,
    removing: Removing,
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
        let cleaner = CleanerConfig {
            dedupe_bytes: 200 + plan.limits.tail_bytes_max / 8,
            ..CleanerConfig::default()
        };
        shard.with_mut(|shard| shard.cleaner = cleaner);
        for (open, log) in recovered.logs {
            shard.with_mut(|shard| shard.open(&open, log)).expect("it was recovered");
        }
        disk.stepped();
        let (removals, removing) = Removing::start(&disk);
        let home = (&layout, id);
        let shell = DiskShell::new(disk.clone(), shard.clone(), home, plan.ring, removals);
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
            passes_to_cut: None,
            cleaning: Rc::default(),
            cleaners: Cleaners::new(cleaner),
            stopped: HashMap::new(),
            reads_refused: 0,
            removing,
        }
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

    fn order_faults(&mut self, rng: &mut SimRng) {
        let ahead = self.disk.ops() + 1 + rng.below(self.plan.fault_ops);
        match rng.below(10) {
            0..4 => self.disk.power_off_at(ahead),
            4 => self.disk.fault(Fault::at_op(ahead, libc::EIO)),
            5 => self
                .disk
                .fault(Fault { times: 1 + rng.below(4), ..Fault::at_op(ahead, libc::ENOSPC) }),
            _ => {}
        }
        if self.plan.compacted && rng.chance(30) {
            self.passes_to_cut = Some(rng.below(8));
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
            // A log that is deleted all the time is never cleaned twice.
            17..19 if self.plan.compacted && rng.chance(90) => {}
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
        if self.plan.compacted && rng.chance(5) {
            self.clean(model, rng);
        }
        self.take_reads(model)?;
        self.take_deletions(model, failed_before)?;
        self.take_answers(model, producers, failed_before)
    }

    /// Begins a pass, unless one is under way.
    fn clean(&mut self, model: &mut Model, rng: &mut SimRng) {
        if self.cleaning.replace(true) {
            return;
        }
        model.skipped_ms += rng.below(60);
        if self.passes_to_cut == Some(0) {
            self.disk.power_off_at(self.disk.ops() + 1 + rng.below(60));
        }
        self.passes_to_cut = self.passes_to_cut.and_then(|passes| passes.checked_sub(1));
        let now = model.now();
        let (shell, cleaners, busy) =
            (self.shell.clone(), self.cleaners.clone(), self.cleaning.clone());
        self.executor.spawn(async move {
            clean_next(&shell, &cleaners, now, |_| std::future::ready(())).await;
            busy.set(false);
        });
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
            if rng.chance(20) {
                self.removing.step(&self.disk);
            }
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
        self.removing.check_end(&self.disk)?;
        let state = JournalState::from(self.shard.with(|shard| shard.ring.clean_state()));
        let dir = Layout::new(PathBuf::from(ROOT)).journal(ShardId::new(0));
        if let Err(error) = state.write(&self.disk, &dir) {
            return if self.disk.is_powered() { Err(error.to_string()) } else { Ok(()) };
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
