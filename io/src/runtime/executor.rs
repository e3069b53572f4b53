//! One pinned executor a core: start, tasks, time.
//!
//! This is the only place that builds executors. A task lives on the core that spawned it; it is
//! never moved. The three queues share a core by weight: what commits goes before what serves,
//! and what serves before what cleans up. All three leave the executor's preemption timer at its
//! default, because a shorter one can park it with runnable tasks.

use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use glommio::{ExecutorJoinHandle, Latency, LocalExecutorBuilder, Placement, Shares};

use super::limits::RING_MEMORY;
use super::oneshot::{Promise, Reply, oneshot};
use super::stall::Pulse;
use super::uring_probe::spread_ring_helpers;
use super::wake::{self, Line};
use crate::units::ShardId;

/// How the cores are set up.
#[derive(Clone, Debug)]
pub struct CoreSetup {
    /// One core for each of these CPUs, pinned to it. See `CoreChoice::resolve`.
    pub cpus: Vec<usize>,
    /// How long a core polls before it sleeps. `None` (the default) saves power; some ten
    /// microseconds make hops between cores quicker on a machine that has nothing else to do.
    pub spin: Option<Duration>,
    /// Data directories, looked at once by each core before it does anything else.
    pub data_dirs: Vec<PathBuf>,
}

impl CoreSetup {
    pub fn new(cpus: Vec<usize>) -> CoreSetup {
        CoreSetup { cpus, spin: None, data_dirs: Vec::new() }
    }
}

/// What a core's main future knows about itself.
#[derive(Clone, Debug)]
pub struct Core {
    /// Its number among the cores of this process. Not its CPU.
    pub index: ShardId,
    /// How many cores there are.
    pub count: usize,
    /// The CPU it is pinned to.
    pub cpu: usize,
}

/// Starts one core for each CPU of `setup`; each runs `body` as its main future. Returns when all
/// run. When a main future returns its core ends, so it must stop the core's other tasks first.
///
/// Errors: the first core that cannot be set up, after the others were taken down.
pub fn start<F, Fut, T>(setup: &CoreSetup, body: F) -> Result<Running<T>, StartError>
where
    F: FnOnce(Core) -> Fut + Send + Clone + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    let count = setup.cpus.len();
    assert!(count > 0 && count <= usize::from(u16::MAX), "cores {count} must be 1 to 65535");
    let mut begun = Vec::with_capacity(count);
    for (index, &cpu) in setup.cpus.iter().enumerate() {
        let core = Core { index: ShardId::new(index as u16), count, cpu };
        begun.push(begin(setup, core, body.clone())?);
    }
    let mut cores = Vec::with_capacity(count);
    let mut gates = Vec::with_capacity(count);
    for begun in begun {
        let Begun { cpu, handle, pulse, ready, go } = begun;
        if ready.wait().is_err() {
            let reason = match handle.join() {
                Err(error) => error.to_string(),
                Ok(_) => "it ended before it began".to_owned(),
            };
            return Err(StartError { cpu, reason }); // Dropping the gates ends the others.
        }
        gates.push(go);
        cores.push(RunningCore { cpu, handle, pulse });
    }
    for go in gates {
        // A core that died in the meantime is told by `join`.
        let _ = go.send(());
    }
    Ok(Running { cores })
}

/// Runs `body` alone on one core, on the first CPU this process may use, and returns its result.
/// For tools and tests.
///
/// Panics: when the core cannot be set up, or `body` panics.
pub fn run_alone<F, Fut, T>(body: F) -> T
where
    F: FnOnce(Core) -> Fut + Send + Clone + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    let cpus = super::os::affinity().map(|cpus| cpus[..1].to_vec());
    let setup = CoreSetup::new(cpus.unwrap_or_else(|error| panic!("no CPU to run on: {error}")));
    let running = start(&setup, body).unwrap_or_else(|error| panic!("{error}"));
    match running.join().pop() {
        Some(Ok(value)) => value,
        Some(Err(error)) => panic!("{error}"),
        None => unreachable!("one core was started"),
    }
}

/// The running cores.
#[must_use = "join the cores, or the process ends under them"]
pub struct Running<T: Send + 'static> {
    cores: Vec<RunningCore<T>>,
}

struct RunningCore<T: Send + 'static> {
    cpu: usize,
    handle: ExecutorJoinHandle<Option<T>>,
    pulse: Pulse,
}

impl<T: Send + 'static> Running<T> {
    /// The signs of life of each core, for the stall monitor.
    pub fn pulses(&self) -> Vec<Pulse> {
        self.cores.iter().map(|core| core.pulse.clone()).collect()
    }

    /// Waits until every core's main future has returned.
    pub fn join(self) -> Vec<Result<T, CoreFailed>> {
        let end = |core: RunningCore<T>| match core.handle.join() {
            Ok(Some(value)) => Ok(value),
            Ok(None) => unreachable!("a core was let go without the word to begin"),
            Err(error) => Err(CoreFailed { cpu: core.cpu, reason: error.to_string() }),
        };
        self.cores.into_iter().map(end).collect()
    }
}

/// A core could not be set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError {
    pub cpu: usize,
    pub reason: String,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the executor on CPU {} did not start: {}", self.cpu, self.reason)
    }
}

impl std::error::Error for StartError {}

/// A core ended by a panic (only where panics unwind) or an executor error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreFailed {
    pub cpu: usize,
    pub reason: String,
}

impl fmt::Display for CoreFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the core on CPU {} failed: {}", self.cpu, self.reason)
    }
}

impl std::error::Error for CoreFailed {}

/// The queue a task runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// What stands between an append and its acknowledgement, and messages between cores.
    Commit,
    /// Connections and requests.
    Serve,
    /// Write-behind, checkpoints, retention.
    Background,
}

/// Starts a task on this core. The handle owns it: dropping the handle cancels the task.
///
/// Panics: when called off the cores.
pub fn spawn<T: 'static>(queue: Queue, future: impl Future<Output = T> + 'static) -> Task<T> {
    let Some(queues) = QUEUES.get() else {
        panic!("spawn was called on a thread that is no core");
    };
    let handle = match queue {
        Queue::Commit => queues.commit,
        Queue::Serve => queues.serve,
        Queue::Background => queues.background,
    };
    match glommio::spawn_local_into(future, handle) {
        Ok(task) => Task(Some(task)),
        Err(error) => panic!("queue {queue:?} of this core is gone: {error}"),
    }
}

/// A task of this core: a future of its result.
///
/// Dropping it cancels the task at its next await. A cancelled pending task leaves about 100
/// bytes behind, so cancel long-lived tasks only, and let tasks of single requests end by
/// themselves.
#[must_use = "dropping the handle cancels the task; await, keep or detach it"]
pub struct Task<T>(Option<glommio::Task<T>>);

impl<T: 'static> Task<T> {
    /// Lets the task run to its end by itself. Enter a [`super::Gate`] inside, so that the stop
    /// can wait for it.
    pub fn detach(mut self) {
        if let Some(task) = self.0.take() {
            task.detach();
        }
    }

    /// Cancels the task and waits until its future is dropped. The result, if it was finished.
    pub async fn cancel(mut self) -> Option<T> {
        self.0.take()?.cancel().await
    }
}

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match &mut self.0 {
            Some(task) => Pin::new(task).poll(cx),
            None => unreachable!("a task without a handle is never polled"),
        }
    }
}

/// Parks the calling task for at least `time`; timers are about 80 microseconds late. Zero does
/// not park: see `breathe` for looking at the rings.
///
/// Panics: when called off the cores.
pub async fn sleep(time: Duration) {
    assert!(QUEUES.get().is_some(), "sleep was called on a thread that is no core");
    glommio::timer::Timer::new(time).await;
    super::breathe::looked(); // Timers end only when the executor looks at its rings.
    wake::beat();
}

/// The time of this core, for deadlines.
pub fn now() -> Instant {
    Instant::now()
}

/// Awaits `future` for at most `time`; then it is dropped.
pub async fn timeout<F: Future>(time: Duration, future: F) -> Result<F::Output, Elapsed> {
    let done = async { Ok(future.await) };
    let late = async {
        sleep(time).await;
        Err(Elapsed)
    };
    futures_lite::future::or(done, late).await
}

/// The time given to a future ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time ran out")
    }
}

impl std::error::Error for Elapsed {}

struct Begun<T: Send + 'static> {
    cpu: usize,
    handle: ExecutorJoinHandle<Option<T>>,
    pulse: Pulse,
    ready: Reply<()>,
    go: Promise<()>,
}

fn begin<F, Fut, T>(setup: &CoreSetup, core: Core, body: F) -> Result<Begun<T>, StartError>
where
    F: FnOnce(Core) -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    let cpu = core.cpu;
    let line = Line::new();
    let pulse = Pulse::new(core.index, cpu, line.clone());
    let (is_ready, ready) = oneshot();
    let (go, may_go) = oneshot();
    let dirs = setup.data_dirs.clone();
    let all_cpus = super::os::affinity().unwrap_or_default();
    let mut builder =
        LocalExecutorBuilder::new(Placement::Fixed(cpu)).name("core").io_memory(RING_MEMORY);
    if let Some(spin) = setup.spin {
        builder = builder.spin_before_park(spin);
    }
    let main = move || async move {
        let queues = Queues::create();
        QUEUES.set(Some(queues));
        super::os::take_short_turns(super::os::Turns::Short);
        let attached = wake::attach(line);
        let pump = spawn(Queue::Commit, wake::pump());
        // Older kernels cannot: then the helpers stay on this CPU.
        let _ = spread_ring_helpers(&all_cpus);
        for dir in &dirs {
            prime(dir, core.index).await;
        }
        let _ = is_ready.send(());
        let value = match may_go.await {
            Ok(()) => Some(body(core).await),
            Err(_) => None,
        };
        pump.cancel().await;
        drop(attached);
        QUEUES.set(None);
        value
    };
    let handle = builder.spawn(main).map_err(|e| StartError { cpu, reason: e.to_string() })?;
    Ok(Begun { cpu, handle, pulse, ready, go })
}

#[derive(Clone, Copy)]
struct Queues {
    commit: glommio::TaskQueueHandle,
    serve: glommio::TaskQueueHandle,
    background: glommio::TaskQueueHandle,
}

impl Queues {
    fn create() -> Queues {
        let executor = glommio::executor();
        let create = |shares, name| {
            executor.create_task_queue(Shares::Static(shares), Latency::NotImportant, name)
        };
        Queues {
            commit: create(1000, "commit"),
            serve: create(500, "serve"),
            background: create(50, "background"),
        }
    }
}

/// Opens a file with really written bytes in `dir` before any other file there. The executor asks
/// the device of the first file it opens whether it can be polled, and misreads the answer of an
/// empty one; the core would then burn its CPU on every write.
async fn prime(dir: &Path, core: ShardId) {
    let path = dir.join(format!(".prime-{}-{core}", std::process::id()));
    let result = match write_prime(&path) {
        Ok(()) => open_and_close(&path).await,
        // A full or read-only disk: any file that holds data will do.
        Err(_) => match first_file_with_data(dir) {
            Some(found) => open_and_close(&found).await,
            None => Ok(()),
        },
    };
    let _ = std::fs::remove_file(&path);
    if let Err(reason) = result {
        crate::runtime::log::warn("runtime", "could not look at the data directory's device")
            .field("path", dir.display())
            .field("reason", reason)
            .emit();
    }
}

fn write_prime(path: &Path) -> io::Result<()> {
    std::fs::write(path, [0x5a_u8; 4096])?;
    std::fs::File::open(path)?.sync_data()
}

async fn open_and_close(path: &Path) -> Result<(), String> {
    let file = glommio::io::DmaFile::open(path).await.map_err(|e| e.to_string())?;
    file.close().await.map_err(|e| e.to_string())
}

fn first_file_with_data(dir: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?;
    entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() > 0))
}

thread_local! {
    static QUEUES: Cell<Option<Queues>> = const { Cell::new(None) };
}

/// Whether this thread is a core, so that blocking calls are out of place.
pub fn on_core() -> bool {
    QUEUES.get().is_some()
}
