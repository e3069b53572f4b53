//! What one core owns: its partitions, their commit rounds, and what is to be done behind them.

mod appending;
mod asking;
mod cleaning;
mod deleting;
mod job;
mod reading;
mod retaining;
mod rounds;
mod work;

pub use appending::{Answer, PendingAppend};
pub use cleaning::Cleaned;
pub use deleting::DeletePromise;
pub use job::{
    Aside, Home, Job, JobOutcome, Made, RemoveJob, RepairJob, SaveJob, SealJob, TrimJob, Trimmed,
    WriteJob,
};
pub use reading::{ColdLook, ReadStep};
pub use retaining::RetainPiece;
pub use rounds::{DirectJob, DirectOutcome, FramePlan, FrameRun, Placed};
pub use work::may_be_retried;

pub(crate) use work::coverage;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use millstream_io::data_dir::Layout;
use millstream_io::journal::JournalRing;
use millstream_io::units::{ShardId, TopicId, TopicPartition, bytes_u64};

use crate::clean_task::CleanerConfig;
use crate::event::Event;
use crate::group_commit::GroupCommit;
use crate::health::Health;
use crate::limits::{PARTITIONS_PER_SHARD_MAX, ShardLimits};
use crate::message::{OpenError, OpenPartition, PartitionConfig};
use crate::metrics::{Levels, Metrics};
use crate::partition_log::{PartitionLog, RecoveredLog};
use crate::table::{Slot, Table};
use crate::waiters::Waiters;

/// One core's shard: shared by the tasks of that core, borrowed only for the length of a closure
/// that does not await.
#[derive(Clone)]
pub struct Shard {
    state: Rc<RefCell<ShardState>>,
    events: ShardEvents,
}

/// What the tasks of a shard wake each other with.
#[derive(Clone, Debug, Default)]
pub struct ShardEvents {
    /// A round may begin, or go on.
    pub commit: Event,
    /// There may be work behind the journal.
    pub work: Event,
    /// There may be room for appends.
    pub room: Event,
    /// The disk has run full.
    pub full: Event,
}

/// The state behind a [`Shard`]. Plain: decides everything, awaits nothing.
#[derive(Debug)]
pub struct ShardState {
    pub id: ShardId,
    pub limits: ShardLimits,
    pub layout: Layout,
    pub partitions: Table<PartitionLog>,
    pub commit: GroupCommit<PendingAppend>,
    pub ring: JournalRing,
    pub waiters: Waiters,
    pub health: Health,
    pub metrics: Metrics,
    pub events: ShardEvents,
    /// Bytes staged and not durable, over all partitions.
    staged_bytes: u64,
    /// Durable bytes in no segment file yet, over all partitions.
    unwritten_bytes: u64,
    /// Memory of all tails.
    tail_bytes: u64,
    /// Partitions whose tails may have something to give back, each once.
    evict: VecDeque<Slot>,
    /// Staged batches were refused since the last round ended.
    refused: bool,
    work: work::Work,
    reads: reading::ReadCache,
    deletes: deleting::Deletes,
    retention: retaining::Retention,
    /// How this core compacts.
    pub cleaner: CleanerConfig,
}

impl Shard {
    pub fn new(state: ShardState) -> Shard {
        let events = state.events.clone();
        Shard { state: Rc::new(RefCell::new(state)), events }
    }

    /// Borrows the state for the length of `body`.
    pub fn with<R>(&self, body: impl FnOnce(&ShardState) -> R) -> R {
        body(&self.state.borrow())
    }

    /// Borrows the state for the length of `body`.
    pub fn with_mut<R>(&self, body: impl FnOnce(&mut ShardState) -> R) -> R {
        body(&mut self.state.borrow_mut())
    }

    pub fn events(&self) -> &ShardEvents {
        &self.events
    }
}

impl ShardState {
    pub fn new(
        id: ShardId,
        layout: Layout,
        ring: JournalRing,
        health: Health,
        limits: ShardLimits,
    ) -> ShardState {
        let frame_bytes = bytes_u64(ring.frame_bytes_max());
        assert!(
            frame_bytes >= 2 * (limits.direct_bytes + FRAME_SLACK_BYTES),
            "a frame of {frame_bytes} bytes cannot hold a run of {}",
            limits.direct_bytes
        );
        ShardState {
            id,
            limits,
            layout,
            partitions: Table::default(),
            commit: GroupCommit::new(),
            ring,
            waiters: Waiters::new(),
            health,
            metrics: Metrics::default(),
            events: ShardEvents::default(),
            staged_bytes: 0,
            unwritten_bytes: 0,
            tail_bytes: 0,
            evict: VecDeque::new(),
            refused: false,
            work: work::Work::default(),
            reads: reading::ReadCache::default(),
            deletes: deleting::Deletes::default(),
            retention: retaining::Retention::default(),
            cleaner: CleanerConfig::default(),
        }
    }

    /// Takes a partition that recovery found, or a new one.
    ///
    /// # Errors
    /// [`OpenError`]; a partition that is open under the same epoch is no error and stays.
    pub fn open(&mut self, open: &OpenPartition, found: RecoveredLog) -> Result<(), OpenError> {
        if self.health.stopping {
            return Err(OpenError::Stopping);
        }
        if let Some((slot, log)) = self.partitions.find_mut(open.at) {
            let current = log.epoch;
            if open.epoch < current {
                let (at, got) = (open.at, open.epoch);
                return Err(OpenError::StaleEpoch { at, current, got });
            }
            if open.epoch > current {
                log.lead(open.epoch);
                self.waiters.changed(slot);
            }
            log.configure(Arc::new(open.config.clone()));
            return Ok(());
        }
        if self.partitions.len() >= PARTITIONS_PER_SHARD_MAX {
            return Err(OpenError::TooManyPartitions { limit: PARTITIONS_PER_SHARD_MAX });
        }
        let slot = self.partitions.insert(open.at, PartitionLog::open(open, found));
        // A crash may have left files to be removed.
        self.consider_work(slot);
        Ok(())
    }

    /// Gives a topic's partitions new settings.
    pub fn configure(&mut self, topic: TopicId, config: &PartitionConfig) {
        let config = Arc::new(config.clone());
        for slot in self.partitions.slots_of(topic) {
            if let Some(log) = self.partitions.get_mut(slot) {
                log.configure(config.clone());
            }
        }
    }

    /// Drops one partition, unless something is being written for it: then `false`, and the caller
    /// tries again after the next [`ShardEvents::work`].
    pub fn try_drop(&mut self, at: TopicPartition) -> bool {
        let Some(slot) = self.partitions.slot_of(at) else { return true };
        let Some(log) = self.partitions.get_mut(slot) else { return true };
        log.dropping = true;
        if log.is_busy() {
            return false;
        }
        self.staged_bytes -= log.staged_bytes();
        self.unwritten_bytes -= log.unwritten_bytes();
        self.tail_bytes -= log.tail.memory_bytes();
        self.partitions.remove(slot);
        self.waiters.changed(slot);
        self.ring.forget(at);
        self.forget_read_files(slot);
        self.forget_deletions(slot, at);
        self.settle_idle();
        self.events.room.signal();
        self.events.work.signal(); // Its open files are to be closed.
        true
    }

    /// True when appends may be staged: what is not durable and what is in no segment file yet are
    /// both within their bounds. Otherwise doors wait, which stops the reading of their sockets. A
    /// shard that refuses everything has room.
    pub fn has_room(&self) -> bool {
        self.health.refusal().is_some()
            || (self.staged_bytes < self.limits.staged_bytes_max
                && self.unwritten_bytes < self.limits.unwritten_bytes_max)
    }

    /// The round `round` has been in flight for so long that nobody shall wait for it: everybody is
    /// told, and appends are refused until it ends. True when that is news.
    pub fn stall(&mut self, round: u64, waited: Duration) -> bool {
        if !self.commit.is_in_flight() || self.commit.rounds() != round {
            return false;
        }
        let since_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        let news = self.health.stalled_ms.replace(since_ms).is_none();
        let reason = self.health.reason();
        self.fail_waiting(&reason);
        self.events.room.signal();
        news
    }

    /// No append is taken from now on, and nobody waits for records any more.
    pub fn begin_stop(&mut self) {
        self.health.stopping = true;
        self.waiters.all_changed();
        self.events.room.signal();
        self.events.commit.signal();
    }

    /// True when everything that was staged is durable.
    pub fn is_committed(&self) -> bool {
        self.staged_bytes == 0 && self.commit.dirty() == 0 && !self.commit.is_in_flight()
    }

    pub fn has_failed(&self) -> bool {
        self.health.directory.failure().is_some()
    }

    pub fn levels(&self) -> Levels {
        let (files_live, files_max) = self.ring.files_live();
        let count = millstream_io::units::bytes_u64;
        Levels {
            partitions: count(self.partitions.len()),
            staged_bytes: self.staged_bytes,
            unwritten_bytes: self.unwritten_bytes,
            tail_bytes: self.tail_bytes,
            waiting_appends: count(self.commit.waiting()),
            waiting_reads: count(self.waiters.len()),
            journal_files_live: count(files_live),
            journal_files_max: count(files_max),
            failed: u64::from(self.health.directory.failure().is_some()),
            full: u64::from(self.health.full),
            stalled: u64::from(self.health.stalled_ms.is_some()),
            retention_from_future: self.retention.from_future,
            retention_clock_held: u64::from(self.retention.clock_held),
        }
    }

    /// Puts a partition into the group commit's list, once.
    fn make_dirty(&mut self, slot: Slot) {
        if let Some(log) = self.partitions.get_mut(slot)
            && log.mark_dirty()
        {
            self.commit.staged(slot);
            self.events.commit.signal();
        }
    }

    /// Brings the tails' memory under its bound, oldest chunks of each partition in turn, a bounded
    /// number of steps at a time. What is in no segment file yet stays.
    fn evict_tails(&mut self) {
        for _ in 0..EVICT_STEPS {
            if self.tail_bytes <= self.limits.tail_bytes_max {
                return;
            }
            let Some(slot) = self.evict.pop_front() else { return };
            let Some(log) = self.partitions.get_mut(slot) else { continue };
            let below = log.evictable();
            if let Some(freed) = log.tail.evict_one(below) {
                self.tail_bytes -= freed;
                self.metrics.tail_evicted_bytes_total += freed;
            }
            if log.tail.has_frozen() {
                self.evict.push_back(slot);
            } else {
                log.listed_for_eviction = false;
            }
        }
    }

    /// A partition's tail has frozen chunks: eviction may come to it.
    fn list_for_eviction(&mut self, slot: Slot) {
        if let Some(log) = self.partitions.get_mut(slot)
            && log.tail.has_frozen()
            && !std::mem::replace(&mut log.listed_for_eviction, true)
        {
            self.evict.push_back(slot);
        }
    }
}

/// What a run takes in a frame besides its bytes, and what it may repeat.
const FRAME_SLACK_BYTES: u64 = 8192;

/// Chunks looked at in one call of the eviction.
const EVICT_STEPS: usize = 16;
