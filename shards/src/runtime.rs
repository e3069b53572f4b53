//! Starting the shards on their cores, and stopping them in order.

mod stop;
mod watch;

use std::future::Future;
use std::num::NonZeroU16;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream_io::clock::SystemClock;
use millstream_io::data_dir::Layout;
use millstream_io::disk::CoreDisk;
use millstream_io::disk_uring::UringDisk;
use millstream_io::journal::{JournalRing, RingLimits, ring::RingStart};
use millstream_io::runtime::{
    Core, CoreSetup, Gate, Pool, Queue, Running, Seat, StartError, Stop, Task, mesh, spawn,
};

use crate::clean_task::{self, CleanerConfig, Cleaners};
use crate::disk_shell::DiskShell;
use crate::event::Event;
use crate::health::{DirectoryHealth, Health};
use crate::limits::{ShardLimits, WORKERS};
use crate::mesh::{AppendOrder, Ask, LocalShard, ShardOnDisk, serve_appends, serve_asks};
use crate::message::OpenPartition;
use crate::metrics::Metrics;
use crate::partition_log::RecoveredLog;
use crate::placement;
use crate::recover::Recovered;
use crate::remover::Removals;
use crate::retention_task::RetentionConfig;
use crate::router::Router;
use crate::shard::{Shard, ShardState};
use crate::{commit_task, housekeeping_task, retention_task};

/// How the shards run.
#[derive(Clone)]
pub struct ShardsConfig {
    /// One shard for each of its CPUs.
    pub setup: CoreSetup,
    pub pool: Pool,
    /// `storage.direct`: pass the page cache by when writing.
    pub direct: bool,
    pub layout: Layout,
    pub limits: ShardLimits,
    /// A round that takes longer is reported, and producers are refused until it ends.
    pub watchdog: Duration,
    /// The seats for compaction, and how it is throttled.
    pub cleaner: CleanerConfig,
    /// How long a stop may take to write everything out. What is left then is recovered at the
    /// next start.
    pub stop_patience: Duration,
    pub retention: RetentionConfig,
    pub removals: Removals,
}

/// What a door gets on its core.
pub struct ShardContext {
    pub core: Core,
    pub router: Router,
    pub pool: Pool,
}

/// How a shard ended.
#[derive(Clone, Debug)]
pub struct ShardEnd {
    /// Everything is in its segments and the journal is empty: the next start reads no log bytes.
    pub clean: bool,
    /// Why not, when it is not.
    pub reason: Option<String>,
    pub metrics: Metrics,
}

/// Starts one shard a core with its share of the recovered partitions, then calls `door` on each
/// core and awaits it. A door ends when it is told to stop and has drained; when all have, the
/// shards stop: everything is committed, written, sealed and saved.
///
/// # Errors
/// The first core that cannot be set up; none is left running then.
pub fn start<F, Fut>(
    config: ShardsConfig,
    recovered: Recovered,
    door: F,
) -> Result<Running<ShardEnd>, StartError>
where
    F: FnOnce(ShardContext) -> Fut + Send + Clone + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let ring = recovered.ring;
    let shares = Arc::new(Mutex::new(shares(&config, recovered)));
    let doors =
        Doors { open: Arc::new(AtomicUsize::new(config.setup.cpus.len())), shut: Stop::new() };
    let setup = config.setup.clone();
    let health = DirectoryHealth::new(config.layout.root().to_path_buf());
    let cleaners = Cleaners::new(config.cleaner);
    let body = move |core: Core| async move {
        let share =
            shares.lock().unwrap_or_else(PoisonError::into_inner)[core.index.to_usize()].take();
        let Some(share) = share else { panic!("core {} has no share of its own", core.index) };
        match UringDisk::new(config.pool.clone(), config.direct) {
            Ok(disk) => {
                run(core, disk, Common { config, ring, health, cleaners, doors }, share, door).await
            }
            Err(error) => {
                doors.left();
                let reason = Some(format!("the thread for the journal cannot start: {error}"));
                ShardEnd { clean: false, reason, metrics: Metrics::default() }
            }
        }
    };
    millstream_io::runtime::start(&setup, body)
}

/// What one core takes over at its start.
struct Share {
    journal: RingStart,
    logs: Vec<(OpenPartition, RecoveredLog)>,
    appends: Seat<AppendOrder>,
    asks: Seat<Ask>,
}

/// What all cores have alike.
struct Common {
    config: ShardsConfig,
    ring: RingLimits,
    health: DirectoryHealth,
    cleaners: Cleaners,
    doors: Doors,
}

/// Doors that are open yet. A shard serves until the last one has left, on whatever core.
#[derive(Clone)]
struct Doors {
    open: Arc<AtomicUsize>,
    shut: Stop,
}

impl Doors {
    fn left(&self) {
        if self.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.shut.trigger();
        }
    }
}

fn shares(config: &ShardsConfig, recovered: Recovered) -> Vec<Option<Share>> {
    let cores = config.setup.cpus.len();
    let count = shard_count(cores);
    assert!(
        recovered.journals.len() == cores,
        "{} journals were made ready for {cores} cores",
        recovered.journals.len()
    );
    let mut logs: Vec<Vec<(OpenPartition, RecoveredLog)>> =
        (0..cores).map(|_| Vec::new()).collect();
    for (open, log) in recovered.logs {
        logs[placement::owner(open.at, count).to_usize()].push((open, log));
    }
    let ((appends, _), (asks, _)) = (mesh(cores), mesh(cores));
    let seats = appends.into_iter().zip(asks);
    let share = |((journal, logs), (appends, asks))| Some(Share { journal, logs, appends, asks });
    recovered.journals.into_iter().zip(logs).zip(seats).map(share).collect()
}

fn shard_count(cores: usize) -> NonZeroU16 {
    match u16::try_from(cores).ok().and_then(NonZeroU16::new) {
        Some(count) => count,
        None => panic!("{cores} cores cannot be numbered"),
    }
}

/// The life of one shard on its core.
async fn run<D, F, Fut>(core: Core, disk: D, common: Common, share: Share, door: F) -> ShardEnd
where
    D: CoreDisk,
    F: FnOnce(ShardContext) -> Fut,
    Fut: Future<Output = ()>,
{
    let Common { config, ring: ring_limits, health, cleaners, doors } = common;
    let (id, cores) = (core.index, core.count);
    let ring = JournalRing::new(share.journal, ring_limits);
    let state =
        ShardState::new(id, config.layout.clone(), ring, Health::new(health), config.limits);
    let shard = Shard::new(state);
    shard.with_mut(|shard| shard.cleaner = config.cleaner);
    for (open, log) in share.logs {
        if let Err(error) = shard.with_mut(|shard| shard.open(&open, log)) {
            panic!("{}: a recovered partition was refused: {error}", open.at);
        }
    }
    let home = (&config.layout, id);
    let removals = config.removals.clone();
    let shell = DiskShell::new(disk.clone(), shard.clone(), home, ring_limits, removals);
    let local: Rc<dyn LocalShard> = Rc::new(ShardOnDisk { shard: shard.clone(), disk });
    let gate = Gate::new();
    let (appends, append_box) = share.appends.open();
    let (asks, ask_box) = share.asks.open();
    let tasks = Tasks::spawn(&shell, &config, cleaners);
    let serving = [
        spawn(Queue::Serve, serve_appends(shard.clone(), append_box)),
        spawn(Queue::Serve, serve_asks(shard.clone(), local.clone(), gate.clone(), ask_box)),
    ];
    let posts = (appends, asks);
    let router = Router::new(shard_count(cores), id, shard.clone(), local, posts);
    door(ShardContext { core, router, pool: config.pool.clone() }).await;
    doors.left();
    doors.shut.stopped().await;
    let end = stop::stop(&shell, &gate, serving.into(), (config.stop_patience, cores)).await;
    tasks.cancel().await;
    shell.close_all().await;
    end
}

/// The tasks that live as long as the shard.
struct Tasks(Vec<Task<()>>);

impl Tasks {
    fn spawn<D: CoreDisk>(
        shell: &DiskShell<D>,
        config: &ShardsConfig,
        cleaners: Cleaners,
    ) -> Tasks {
        let (shard, watchdog) = (shell.shard.clone(), config.watchdog);
        let retain = retention_task::retain(shard, config.retention, SystemClock::new());
        let mut tasks = vec![
            spawn(Queue::Commit, commit_task::commit(shell.clone())),
            spawn(Queue::Background, watch::rounds(shell.shard.clone(), watchdog)),
            spawn(Queue::Background, watch::full_disk(shell.shard.clone())),
            spawn(Queue::Background, retain),
            spawn(Queue::Background, clean_task::clean(shell.clone(), cleaners)),
        ];
        for _ in 0..WORKERS {
            tasks.push(spawn(Queue::Background, housekeeping_task::work(shell.clone())));
        }
        Tasks(tasks)
    }

    async fn cancel(self) {
        for task in self.0 {
            task.cancel().await;
        }
    }
}

/// Waits for a condition of the shard that `event` may bring about.
async fn until(shard: &Shard, event: &Event, holds: impl Fn(&mut ShardState) -> bool) {
    loop {
        let seen = event.seen();
        if shard.with_mut(&holds) {
            return;
        }
        event.since(seen).await;
    }
}
