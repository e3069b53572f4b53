//! The asynchronous half of the simulated disk.

use std::future::poll_fn;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use super::names::NodeId;
use super::rng::SimRng;
use super::world::World;
use super::{SimDisk, SimFile};
use crate::aligned::AlignedBuf;
use crate::disk::{CoreDisk, DirectHow, Disk, DiskError, DiskErrorKind, DiskFile, DiskOp, OpenHow};
use crate::limits::BLOCK_BYTES_U64;
use crate::units::FilePosition;

/// A file opened for direct writes on a core.
pub type SimCoreFile = Arc<SimFile>;

/// A buffer for a direct write. Starts full of rubbish, as the real one may.
pub struct SimBuf(AlignedBuf);

const RUBBISH: u8 = 0xa5;

/// Core operations that wait for the test to complete them.
#[derive(Default)]
pub(super) struct Pending {
    stepped: bool,
    ops: Vec<PendingOp>,
}

struct PendingOp {
    /// What a power cut may find half done.
    in_flight: Option<InFlight>,
    act: Box<dyn FnOnce() + Send>,
    what: DiskOp,
}

struct InFlight {
    node: NodeId,
    generation: u64,
    bytes: Arc<SimBuf>,
    at: u64,
}

impl SimDisk {
    /// From now on core operations wait until they are completed by the test.
    pub fn stepped(&self) {
        self.pending().stepped = true;
    }

    /// From now on core operations complete at once; those that wait are completed now.
    pub fn at_once(&self) {
        self.pending().stepped = false;
        while self.complete(0) {}
    }

    /// Core operations that wait, in the order in which they were begun.
    pub fn waiting(&self) -> Vec<DiskOp> {
        self.pending().ops.iter().map(|op| op.what).collect()
    }

    /// Completes the waiting operation at `index`; false when there is none.
    pub fn complete(&self, index: usize) -> bool {
        let mut pending = self.pending();
        if index >= pending.ops.len() {
            return false;
        }
        let op = pending.ops.remove(index);
        drop(pending);
        (op.act)();
        true
    }

    /// Completes one waiting operation, by chance; false when there is none.
    pub fn complete_any(&self, rng: &mut SimRng) -> bool {
        let waiting = self.pending().ops.len();
        waiting > 0 && self.complete(rng.index(waiting))
    }

    /// Does `act` now, or when the test completes it.
    async fn core_op<T: Send + 'static>(
        &self,
        what: DiskOp,
        path: &Path,
        in_flight: Option<InFlight>,
        act: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DiskError> {
        let slot = Arc::new(Slot::default());
        let answer = Answer(slot.clone());
        let act: Box<dyn FnOnce() + Send> = Box::new(move || {
            let value = act();
            answer.0.set(Outcome::Done(value));
        });
        {
            let mut pending = self.pending();
            if pending.stepped {
                pending.ops.push(PendingOp { in_flight, act, what });
            } else {
                drop(pending);
                act();
            }
        }
        let done = poll_fn(|cx| slot.poll(cx.waker())).await;
        done.ok_or_else(|| DiskError::new(DiskErrorKind::Stopped, what, path))
    }
}

impl Pending {
    /// The power goes: writes on their way may have arrived, nobody hears of them.
    pub(super) fn abandon(&mut self, world: &Mutex<World>) {
        let mut world = world.lock().unwrap_or_else(PoisonError::into_inner);
        let ops: Vec<PendingOp> = self.ops.drain(..).collect();
        for flying in ops.iter().filter_map(|op| op.in_flight.as_ref()) {
            if flying.generation == world.generation && world.powered {
                world.content_mut(flying.node).write((*flying.bytes).as_ref(), flying.at);
            }
        }
        drop(world);
        drop(ops);
    }
}

impl CoreDisk for SimDisk {
    type File = SimCoreFile;
    type Buf = SimBuf;
    type Blocking = SimDisk;

    fn alloc(&self, len: usize) -> SimBuf {
        let mut buf = AlignedBuf::zeroed(len);
        buf.as_mut().fill(RUBBISH);
        SimBuf(buf)
    }

    async fn open_direct(&self, path: &Path, how: DirectHow) -> Result<SimCoreFile, DiskError> {
        let open = OpenHow {
            write: true,
            create: how.create,
            exclusive: false,
            direct: true,
            durable: how.durable,
        };
        let (disk, owned) = (self.clone(), path.to_path_buf());
        let opened = self.core_op(DiskOp::Open, path, None, move || disk.open(&owned, open));
        opened.await?.map(Arc::new)
    }

    async fn write_at(
        &self,
        file: &SimCoreFile,
        buf: SimBuf,
        at: FilePosition,
    ) -> Result<(), DiskError> {
        assert!(at.get().is_multiple_of(BLOCK_BYTES_U64), "direct write at {at}, within a block");
        let bytes = Arc::new(buf);
        let flying = InFlight {
            node: file.node,
            generation: file.generation,
            bytes: bytes.clone(),
            at: at.get(),
        };
        let target = file.clone();
        let act = move || target.write_at((*bytes).as_ref(), at);
        self.core_op(DiskOp::Write, &file.path, Some(flying), act).await?
    }

    async fn sync(&self, file: &SimCoreFile) -> Result<(), DiskError> {
        let target = file.clone();
        self.core_op(DiskOp::Sync, &file.path, None, move || target.sync_data()).await?
    }

    async fn close(&self, file: SimCoreFile) -> Result<(), DiskError> {
        drop(file);
        Ok(())
    }

    async fn run<T, J>(&self, job: J) -> Result<T, DiskError>
    where
        T: Send + 'static,
        J: FnOnce() -> T + Send + 'static,
    {
        self.core_op(DiskOp::Run, Path::new("the helper pool"), None, job).await
    }

    fn widened(&self, _threads: usize) -> SimDisk {
        self.clone()
    }

    fn background(&self) -> SimDisk {
        self.clone()
    }

    fn blocking(&self) -> SimDisk {
        self.clone()
    }
}

impl AsRef<[u8]> for SimBuf {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref()
    }
}

impl AsMut<[u8]> for SimBuf {
    fn as_mut(&mut self) -> &mut [u8] {
        self.0.as_mut()
    }
}

/// Where an operation leaves its answer and its caller waits for it.
struct Slot<T>(Mutex<SlotState<T>>);

struct SlotState<T> {
    outcome: Outcome<T>,
    waker: Option<Waker>,
}

enum Outcome<T> {
    Waiting,
    Done(T),
    /// The operation went with the power.
    Gone,
}

/// The operation's end of a slot: dropped without an answer, it says so.
struct Answer<T>(Arc<Slot<T>>);

impl<T> Default for Slot<T> {
    fn default() -> Slot<T> {
        Slot(Mutex::new(SlotState { outcome: Outcome::Waiting, waker: None }))
    }
}

impl<T> Slot<T> {
    fn set(&self, outcome: Outcome<T>) {
        let mut state = self.state();
        state.outcome = outcome;
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll(&self, waker: &Waker) -> Poll<Option<T>> {
        let mut state = self.state();
        match std::mem::replace(&mut state.outcome, Outcome::Gone) {
            Outcome::Done(value) => Poll::Ready(Some(value)),
            Outcome::Gone => Poll::Ready(None),
            Outcome::Waiting => {
                state.outcome = Outcome::Waiting;
                state.waker = Some(waker.clone());
                Poll::Pending
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, SlotState<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        let waiting = matches!(self.0.state().outcome, Outcome::Waiting);
        if waiting {
            self.0.set(Outcome::Gone);
        }
    }
}
