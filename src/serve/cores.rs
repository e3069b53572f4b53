//! The cores with the doors of each, and their ordered stop.

use super::host::{BoundListener, Sentence, sentence};
use super::{limits, report};
use crate::admin::core_task::{self as look_task, Look, Watched};
use crate::admin::health::Phase;
use crate::admin::watch::Watcher;
use crate::api::fetch_session::FetchSessions;
use crate::api::logins::Logins;
use crate::api::{CoreContext, FreeSpace, Requests};
use crate::cluster::controller_task::ControllerHandle;
use crate::cluster::core_task::{self, CoreOrder, cleaner_config};
use crate::cluster::image::MetadataImage;
use crate::cluster::producer_ids::ProducerIds;
use crate::cluster::view::MetadataView;
use crate::group::coordinator::Coordinator;
use crate::group::handle::{self, GroupOrder, Groups};
use crate::session::admission::Admission;
use crate::session::door::Door;
use crate::session::limits::{STOP_LOOK, STOP_PATIENCE};
use crate::session::{listener_task, reaper_task};
use crate::txn::coordinator as txn;
use crate::txn::handle::{self as txn_handle, TransactionOrder, Transactions};
use millstream_io::clock::{Clock, SystemClock};
use millstream_io::data_dir::Layout;
use millstream_io::disk_file::volume;
use millstream_io::net::{BindError, Bound, ConnOptions};
use millstream_io::runtime::probe::Host;
use millstream_io::runtime::{
    CoreSetup, Gate, Pool, Promise, Queue, Reply, Seat, StallMonitor, Stop, Task, log, oneshot,
    spawn, timeout,
};
use millstream_io::units::TimestampMs;
use millstream_shards::limits::ShardLimits;
use millstream_shards::recover::Recovered;
use millstream_shards::remover::Removals;
use millstream_shards::retention_task::RetentionConfig;
use millstream_shards::router::Router;
use millstream_shards::runtime::{self, ShardContext, ShardsConfig};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// All that the cores are started with.
pub struct Plan {
    pub cpus: Vec<usize>,
    pub allowed_cpus: Vec<usize>,
    pub offered: Host,
    pub layout: Layout,
    /// Who gives the space of deleted files back.
    pub removals: Removals,
    /// When something was last written to the data directory before this start.
    pub alive: Option<TimestampMs>,
    pub image: Arc<MetadataImage>,
    pub controller: ControllerHandle,
    /// One for each core, in order.
    pub seats: Vec<Seat<CoreOrder>>,
    /// The same, between the coordinators of groups.
    pub group_seats: Vec<Seat<GroupOrder>>,
    /// The same, between the coordinators of transactions.
    pub transaction_seats: Vec<Seat<TransactionOrder>>,
    /// The same, for whoever watches the broker.
    pub look_seats: Vec<Seat<Look>>,
    pub watch: Watcher,
    pub listeners: Vec<BoundListener>,
    pub stop: Stop,
}

/// Starts the cores, calls `ready` when every door is open, and returns when all cores have ended.
///
/// # Errors
/// A core or door that cannot start, or one that did not end cleanly, in words.
pub fn run(
    plan: Plan,
    recovered: Recovered,
    ready: impl FnOnce() -> Result<(), Sentence>,
) -> Result<(), Sentence> {
    let cores = plan.cpus.len();
    let pool = Pool::start(limits::helper_threads(cores), &plan.cpus, &plan.allowed_cpus)
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    let inspectors = Pool::start(limits::inspector_threads(cores), &plan.cpus, &plan.allowed_cpus)
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    let config = shards_config(&plan, &pool);
    let (stop, watch) = (plan.stop.clone(), plan.watch.clone());
    let (parts, opened) = parts(plan, &pool, &inspectors);
    let parts = Arc::new(Mutex::new(parts));
    let running = runtime::start(config, recovered, move |context: ShardContext| async move {
        let own = parts.lock().unwrap_or_else(PoisonError::into_inner)
            [context.core.index.to_usize()]
        .take();
        let Some(own) = own else { panic!("core {} has no doors", context.core.index) };
        drop(parts);
        serve(own, context.router).await;
    })
    .map_err(sentence)?;
    let monitor = StallMonitor::start(running.pulses(), report::log_stall);
    let opened = all_open(opened).and_then(|()| {
        watch.enter(Phase::Running);
        ready()
    });
    if opened.is_err() {
        stop.trigger();
    }
    stop.wait();
    watch.enter(Phase::Stopping);
    if let Ok(monitor) = monitor {
        monitor.stop();
    }
    let ended = report::ends(running.join());
    // A job that hangs on a dead device must not keep the process from ending.
    let hanging =
        pool.stop_within(limits::STOP_PATIENCE) + inspectors.stop_within(limits::STOP_PATIENCE);
    if hanging > 0 {
        log::warn("serve", "helper threads hang, probably on the disk; ending without them")
            .field("threads", hanging)
            .emit();
    }
    opened.and(ended)
}

/// Waits until every core's doors are open. A door that is gone without a word belongs to a core
/// that failed, which says why when it ends.
fn all_open(opened: Vec<Reply<Result<(), BindError>>>) -> Result<(), Sentence> {
    for reply in opened {
        match reply.wait() {
            Ok(result) => result.map_err(sentence)?,
            Err(_) => return Err("a core ended before it was ready; see the log".to_owned()),
        }
    }
    Ok(())
}

fn shards_config(plan: &Plan, pool: &Pool) -> ShardsConfig {
    let config = &plan.image.start.config;
    let broker = &plan.image.broker;
    let data_dirs = vec![plan.layout.root().to_path_buf()];
    let setup = CoreSetup { data_dirs, ..CoreSetup::new(plan.cpus.clone()) };
    let (direct_files_max, read_files_max) =
        limits::files_per_core(plan.offered.descriptors, plan.cpus.len());
    ShardsConfig {
        setup,
        pool: pool.clone(),
        direct: config.storage_direct,
        layout: plan.layout.clone(),
        removals: plan.removals.clone(),
        limits: ShardLimits {
            direct_files_max,
            read_files_max,
            producer_expiry_ms: broker.producer_expiry_ms,
            ..ShardLimits::default()
        },
        cleaner: cleaner_config(broker),
        watchdog: limits::WATCHDOG,
        stop_patience: limits::STOP_PATIENCE,
        retention: RetentionConfig {
            check_every: Duration::from_millis(broker.retention_check_ms),
            step_grace: Duration::from_millis(broker.retention_grace_ms),
            alive: plan.alive,
        },
    }
}

/// One core's share of the plan, and how its doors say that they are open.
fn parts(
    plan: Plan,
    pool: &Pool,
    inspectors: &Pool,
) -> (Vec<Option<Parts>>, Vec<Reply<Result<(), BindError>>>) {
    let cores = plan.cpus.len();
    let admission = Admission::default();
    let mut sockets: Vec<Vec<(String, Bound)>> = (0..cores).map(|_| Vec::new()).collect();
    for listener in plan.listeners {
        for (core, socket) in listener.sockets.into_iter().enumerate() {
            sockets[core].push((listener.name.clone(), socket));
        }
    }
    let part = |((((seat, group_seat), transaction_seat), look_seat), sockets)| {
        let (open, opened) = oneshot();
        let parts = Parts {
            image: plan.image.clone(),
            controller: plan.controller.clone(),
            seat,
            group_seat,
            transaction_seat,
            look_seat,
            sockets,
            admission: admission.clone(),
            pool: pool.clone(),
            inspectors: inspectors.clone(),
            data_dir: plan.layout.root().to_path_buf(),
            descriptors: plan.offered.descriptors,
            cores,
            stop: plan.stop.clone(),
            open,
        };
        (Some(parts), opened)
    };
    let seats = plan.seats.into_iter().zip(plan.group_seats).zip(plan.transaction_seats);
    seats.zip(plan.look_seats).zip(sockets).map(part).unzip()
}

/// What one core's doors are made of. Moves to the core.
struct Parts {
    image: Arc<MetadataImage>,
    controller: ControllerHandle,
    seat: Seat<CoreOrder>,
    group_seat: Seat<GroupOrder>,
    transaction_seat: Seat<TransactionOrder>,
    look_seat: Seat<Look>,
    /// One socket of each listener, with the listener's name.
    pub sockets: Vec<(String, Bound)>,
    pub admission: Admission,
    pub pool: Pool,
    pub inspectors: Pool,
    pub data_dir: PathBuf,
    /// Descriptors this process may have open.
    pub descriptors: u64,
    pub cores: usize,
    pub stop: Stop,
    /// Kept when the doors are open.
    pub open: Promise<Result<(), BindError>>,
}

/// Opens the doors of one core, serves until the word to stop, and closes them: nothing of them is
/// left when this returns.
async fn serve(parts: Parts, router: Router) {
    let view = MetadataView::new(parts.image);
    let (post, mailbox) = parts.seat.open();
    let options = conn_options(&view);
    let (group_post, group_mailbox) = parts.group_seat.open();
    let coordinator = Coordinator::new(router.clone(), view.clone(), parts.pool.clone());
    let group_agent = spawn(Queue::Serve, handle::serve(group_mailbox, coordinator.clone()));
    coordinator.look_at_metadata();
    let groups =
        || Groups::new(coordinator.clone(), group_post.clone(), router.clone(), view.clone());
    let (transaction_post, transaction_mailbox) = parts.transaction_seat.open();
    let transactions =
        txn::Coordinator::new(router.clone(), view.clone(), groups(), parts.pool.clone());
    let transaction_agent =
        spawn(Queue::Serve, txn_handle::serve(transaction_mailbox, transactions.clone()));
    transactions.look_at_metadata();
    let looking = (coordinator.clone(), transactions.clone());
    let changed = move || {
        looking.0.look_at_metadata();
        looking.1.look_at_metadata();
    };
    let agent = spawn(Queue::Serve, core_task::run(mailbox, router.clone(), view.clone(), changed));
    let groups = groups();
    let reached = (transaction_post, router.clone(), view.clone());
    let core = Rc::new(CoreContext {
        fetch_sessions: RefCell::new(fetch_sessions(&view, parts.cores)),
        router,
        metadata: view,
        controller: parts.controller,
        producer_ids: RefCell::new(ProducerIds::default()),
        groups,
        transactions: Transactions::new(transactions.clone(), reached.0, reached.1, reached.2),
        clock: SystemClock::new(),
        inspectors: parts.inspectors,
        free_space: Rc::new(VolumeOf { path: parts.data_dir.clone(), pool: parts.pool.clone() }),
        data_dir: parts.data_dir,
        requests: Requests::default(),
        logins: Logins::default(),
    });
    let door = Rc::new(Door::new(core, parts.admission, parts.pool, parts.descriptors));
    let coordinators = (coordinator.clone(), transactions.clone());
    let (look_agent, looks) = watched(parts.look_seat, coordinators, &door);
    let gate = Gate::new();
    let listening = listen(parts.sockets, options, &door, &gate, &parts.stop);
    let (listeners, result) = match listening {
        Ok(listeners) => (listeners, Ok(())),
        Err(error) => (Vec::new(), Err(error)),
    };
    // Nobody waits any more when another core has failed.
    let _ = parts.open.send(result);
    let reaper = spawn(Queue::Background, reaper_task::run(door.clone()));
    parts.stop.stopped().await;
    for listener in listeners {
        listener.await;
    }
    // Members that wait for others would keep their connections open.
    transactions.stop().await;
    coordinator.stop().await;
    transactions.drain(STOP_PATIENCE).await;
    drain(&door, &gate).await;
    reaper.cancel().await;
    look_agent.cancel().await;
    // A walk ends at its next step: nobody can ask any more.
    let _ = looks.close_and_drain(STOP_PATIENCE).await;
    drop(door);
    transaction_agent.cancel().await;
    group_agent.cancel().await;
    agent.cancel().await;
    drop(post);
}

/// Starts to answer whoever watches the broker.
fn watched(
    seat: Seat<Look>,
    (coordinator, transactions): (Coordinator, txn::Coordinator),
    door: &Rc<Door>,
) -> (Task<()>, Gate) {
    let watched = Watched {
        router: door.core.router.clone(),
        metadata: door.core.metadata.clone(),
        coordinator,
        transactions,
        door: door.clone(),
    };
    let (_, mailbox) = seat.open();
    let gate = Gate::new();
    (spawn(Queue::Serve, look_task::run(mailbox, watched, gate.clone())), gate)
}

/// Starts to accept on each socket.
fn listen(
    sockets: Vec<(String, Bound)>,
    options: ConnOptions,
    door: &Rc<Door>,
    gate: &Gate,
    stop: &Stop,
) -> Result<Vec<Task<()>>, BindError> {
    let listeners: Result<Vec<_>, BindError> = sockets
        .into_iter()
        .map(|(name, socket)| Ok((Rc::from(name), socket.listen(options)?)))
        .collect();
    let accept = |(name, listener)| {
        let accepting =
            listener_task::run(listener, name, door.clone(), gate.clone(), stop.clone());
        spawn(Queue::Serve, accepting)
    };
    Ok(listeners?.into_iter().map(accept).collect())
}

/// Ends the reading side of every connection and waits until what is under way is answered.
async fn drain(door: &Door, gate: &Gate) {
    gate.close();
    let rounds = STOP_PATIENCE.as_millis() / STOP_LOOK.as_millis();
    for _ in 0..rounds {
        reaper_task::end_all(door);
        if timeout(STOP_LOOK, gate.drained()).await.is_ok() {
            return;
        }
    }
    log::warn("serve", "connections were cut off by the stop")
        .field("connections", gate.inside())
        .emit();
}

fn conn_options(view: &MetadataView) -> ConnOptions {
    let settings = &view.get().broker.sockets;
    ConnOptions {
        write_stall: Duration::from_millis(settings.write_stall_ms_max),
        send_buffer: settings.send_buffer_bytes,
        receive_buffer: settings.receive_buffer_bytes,
    }
}

fn fetch_sessions(view: &MetadataView, cores: usize) -> FetchSessions {
    let slots = usize::try_from(view.get().broker.fetch_sessions_max).unwrap_or(usize::MAX);
    let clock = SystemClock::new();
    // Differs between cores and starts; it need not be secret.
    let seed = std::ptr::from_ref(view).addr() as u64 ^ clock.wall().get().cast_unsigned();
    FetchSessions::new(slots.div_ceil(cores), seed)
}

/// The space of the data directory's file system, asked on the helper pool.
struct VolumeOf {
    path: PathBuf,
    pool: Pool,
}

impl FreeSpace for VolumeOf {
    fn ask(&self) -> Pin<Box<dyn Future<Output = Option<(u64, u64)>>>> {
        let (path, pool) = (self.path.clone(), self.pool.clone());
        Box::pin(async move {
            let asked = pool.run(move || volume(Path::new(&path))).await;
            let volume = asked.ok()?.ok()?;
            Some((volume.total, volume.usable))
        })
    }
}
