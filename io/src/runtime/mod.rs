//! The runtime of the cores: pinned executors, messages between them, helper threads, ordered
//! stop, and what the host must offer.
//!
//! Everything above this crate uses these types; the executor behind them is named only in
//! `executor`, in the sockets of `net` and in `disk_uring`, so that another can take its place.

mod breathe;
mod bulk;
pub mod cpus;
mod executor;
mod inbox;
pub mod limits;
pub mod log;
mod oneshot;
mod os;
mod pool;
pub mod probe;
mod queue;
pub mod signal;
mod stall;
mod stop;
mod uring_probe;
mod wake;

pub use breathe::{Breather, breathe, checkpoint};
pub use executor::{
    Core, CoreFailed, CoreSetup, Elapsed, Queue, Running, StartError, Task, now, on_core,
    run_alone, sleep, spawn, start, timeout,
};
pub use inbox::{Bundle, ForeignPost, Mailbox, MailboxClosed, Post, Seat, mesh};
pub use oneshot::{Promise, Reply, Unanswered, oneshot};
pub use os::{affinity, register_membarrier};
pub use pool::{JobError, Pool};
pub use stall::{Pulse, StallEvent, StallMonitor};
pub use stop::{Gate, GateClosed, Pass, StillInside, Stop, Stopped};

pub(crate) use bulk::Turn;
pub(crate) use os::pause_thread;
pub(crate) use wake::beat;
