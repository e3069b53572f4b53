//! What the threads of a run share. Lives on all of them; each field has one writer, or is a counter.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};

use super::ledger::Faults;
use super::plan::Plan;
use super::shape::Pool;
use super::stats::{Stats, nanos};
use crate::batch::known::Known;
use crate::client::{Topic, Versions};
use crate::process::pause;

/// How far the run is; 0 while connections are opened. Only the conductor moves it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// The backlog is written.
    Fill = 1,
    /// The measured load.
    Go = 2,
    /// All is written, and where the logs end is known: consumers read up to there.
    CatchUp = 3,
}

/// What a thread tells the conductor.
pub enum Message {
    /// All connections are open.
    Ready,
    /// The backlog is written and acknowledged.
    Filled,
    /// What one interval counted, by its number.
    Sample(usize, Box<Stats>),
    /// Every request is answered: topic, partition, records that were acknowledged.
    Drained(Vec<(usize, i32, u64)>),
    /// Consumers are done too: what was wrong, how often a backlog was read, records never read.
    Done {
        faults: Faults,
        passes: u64,
        unread: u64,
    },
    Failed(String),
}

/// See the module.
pub struct Shared {
    pub plan: Plan,
    pub address: SocketAddr,
    pub versions: Versions,
    /// Level of the feature `transaction.version`.
    pub transaction_version: i16,
    pub topics: Vec<Topic>,
    pub pool: Pool,
    pub known: Known,
    pub run: u32,
    origin: Instant,
    origin_ms: i64,
    phase: AtomicU8,
    go: AtomicU64,
    failed: AtomicBool,
    /// Bytes of the backlog that are acknowledged.
    pub filled: AtomicU64,
    /// Ends of the logs: of the backlog from [`Phase::Go`] on, of everything from [`Phase::CatchUp`] on.
    ends: Mutex<Vec<Vec<i64>>>,
    complaint: Mutex<Option<String>>,
}

impl Shared {
    #[expect(
        clippy::too_many_arguments,
        reason = "each is a fact of the run, named at the one call"
    )]
    pub fn new(
        plan: Plan,
        address: SocketAddr,
        versions: Versions,
        transaction_version: i16,
        topics: Vec<Topic>,
        pool: Pool,
        known: Known,
        run: u32,
    ) -> Shared {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Shared {
            plan,
            address,
            versions,
            transaction_version,
            topics,
            pool,
            known,
            run,
            origin: Instant::now(),
            origin_ms: i64::try_from(now.as_millis()).unwrap_or(0),
            phase: AtomicU8::new(0),
            go: AtomicU64::new(u64::MAX),
            failed: AtomicBool::new(false),
            filled: AtomicU64::new(0),
            ends: Mutex::new(Vec::new()),
            complaint: Mutex::new(None),
        }
    }

    /// Nanoseconds since the run's origin.
    pub fn now_ns(&self) -> u64 {
        nanos(self.origin.elapsed())
    }

    /// The time of day at such a moment.
    pub fn wall_ms(&self, at_ns: u64) -> i64 {
        self.origin_ms + i64::try_from(at_ns / 1_000_000).unwrap_or(0)
    }

    /// When the measured load began (with its warm-up); the end of time before.
    pub fn go_ns(&self) -> u64 {
        self.go.load(Ordering::Relaxed)
    }

    /// Moves the run on.
    pub fn enter(&self, phase: Phase) {
        if phase == Phase::Go {
            self.go.store(self.now_ns(), Ordering::Relaxed);
        }
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Whether the run is so far.
    pub fn has_entered(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Acquire) >= phase as u8
    }

    /// Waits until it is.
    ///
    /// # Errors
    /// When the run has failed elsewhere.
    pub fn await_phase(&self, phase: Phase) -> Result<()> {
        while !self.has_entered(phase) {
            self.still_on()?;
            pause(std::time::Duration::from_micros(200));
        }
        Ok(())
    }

    /// Ends the run everywhere.
    pub fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
    }

    /// An error once the run has failed elsewhere.
    pub fn still_on(&self) -> Result<()> {
        if self.failed.load(Ordering::Relaxed) {
            bail!("stopped by the failure of another thread");
        }
        Ok(())
    }

    /// Where the logs end, by topic.
    pub fn ends(&self) -> MutexGuard<'_, Vec<Vec<i64>>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the first complaint about the broker.
    pub fn complain(&self, text: impl FnOnce() -> String) {
        let mut kept = self.complaint.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_none() {
            *kept = Some(text());
        }
    }

    /// It.
    pub fn complaint(&self) -> Option<String> {
        self.complaint.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
