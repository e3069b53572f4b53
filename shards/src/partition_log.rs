//! One partition as its owner holds it: what is staged, committed, written and synced, and where.

mod cleaning;
mod flow;
mod retain;
mod trim;
mod upkeep;

pub use cleaning::{Cleaning, Dirt, Swapped};
pub use retain::Retained;
pub use trim::Trim;
pub use upkeep::{SealPlan, Tasks};

pub use flow::{CommitShare, Committed, WriteMode, WritePlan};

use std::sync::Arc;

use millstream_io::units::{LeaderEpoch, Offset, TimestampMs, TopicPartition};

use crate::cursors::Cursors;
use crate::group_commit::Due;
use crate::leader_epochs::LeaderEpochs;
use crate::message::{
    Isolation, OpenPartition, PartitionConfig, ReadableEnd, TransactionQuery, TransactionState,
};
use crate::position::LogPosition;
use crate::producers::Producers;
use crate::segments::{Repair, Segments};
use crate::tail_cache::TailCache;
use crate::watermarks::Watermarks;

/// The log of one partition. Lives on the owner's core; plain: no async, no clock, no disk.
///
/// ```text
///  log start      synced    written      committed     in flight      staged
///      |  in files   |   in files  |  in memory, journal  |  in memory    |
///      |   durable   |  + journal  |       durable        |  not durable  |
/// ```
/// All five are positions in one run of bytes across the segments. The tail cache holds everything
/// from `written` on, and as much below as memory allows.
#[derive(Debug)]
pub struct PartitionLog {
    pub(crate) at: TopicPartition,
    pub(crate) topic_name: Arc<str>,
    pub(crate) config: Arc<PartitionConfig>,
    /// Under which epoch this broker leads it.
    pub(crate) epoch: LeaderEpoch,
    pub(crate) marks: Watermarks,
    pub(crate) epochs: LeaderEpochs,
    pub(crate) producers: Producers,
    pub(crate) segments: Segments,
    pub(crate) tail: TailCache,
    pub(crate) cursors: Cursors,
    pub(crate) tasks: Tasks,
    pub(crate) trim: Trim,
    pub(crate) cleaning: Cleaning,
    /// Its topic is being deleted: no append is taken.
    pub(crate) dropping: bool,
    /// The shard's eviction has it in its list.
    pub(crate) listed_for_eviction: bool,
    flow: flow::Flow,
}

/// What recovery found of a partition. All of it is durable.
#[derive(Debug, Default)]
pub struct RecoveredLog {
    pub log_start: Offset,
    pub log_end: Offset,
    pub epochs: LeaderEpochs,
    /// And their transactions, each with its position in the run of bytes that starts at zero.
    pub producers: Producers,
    pub segments: Segments,
    /// The directory stands with a manifest that says the same.
    pub home_made: bool,
    /// Everything in front of this is compacted.
    pub first_dirty: Offset,
}

impl PartitionLog {
    /// Takes over what recovery found, or nothing for a new partition, under `open.epoch`.
    ///
    /// # Panics
    /// When the epoch is older than one in the log, or the segments do not end at the log end.
    pub fn open(open: &OpenPartition, found: RecoveredLog) -> PartitionLog {
        let end = found.segments.last().map_or(LogPosition::ZERO, |last| last.end());
        if let Some(last) = found.segments.last() {
            assert!(
                last.next == found.log_end,
                "{}: the last segment ends at {}, the log at {}",
                open.at,
                last.next,
                found.log_end
            );
        }
        let first_unstable = found.producers.first_unstable().map(|open| open.first);
        let mut log = PartitionLog {
            at: open.at,
            topic_name: open.topic_name.clone(),
            config: Arc::new(open.config.clone()),
            epoch: open.epoch,
            marks: Watermarks::recovered(found.log_start, found.log_end, first_unstable),
            epochs: found.epochs,
            producers: found.producers,
            segments: found.segments,
            tail: TailCache::new(end, found.log_end),
            cursors: Cursors::default(),
            tasks: Tasks::recovered(end, found.home_made),
            trim: Trim::default(),
            cleaning: Cleaning::recovered(found.first_dirty),
            dropping: false,
            listed_for_eviction: false,
            flow: flow::Flow::at(end, found.log_end),
        };
        for segment in log.segments.iter_mut() {
            segment.closed = true;
        }
        log.epochs.assign(open.epoch, found.log_end);
        log
    }

    pub fn topic_name(&self) -> &Arc<str> {
        &self.topic_name
    }

    /// A newer epoch begins: the next append opens a new segment.
    pub fn lead(&mut self, epoch: LeaderEpoch) {
        assert!(epoch >= self.epoch, "{}: epoch goes back from {} to {epoch}", self.at, self.epoch);
        self.epoch = epoch;
        self.epochs.assign(epoch, self.marks.log_end());
    }

    pub fn configure(&mut self, config: Arc<PartitionConfig>) {
        self.config = config;
    }

    /// Which round makes everything below `end` durable.
    pub fn due(&self, end: Offset) -> Due {
        if end <= self.marks.durable_end() {
            Due::Now
        } else if self.flow.is_in_flight_below(end) {
            Due::InFlight
        } else {
            Due::Next
        }
    }

    /// The offset up to which a reader may see, and its position.
    pub fn readable(&self, isolation: Isolation) -> (Offset, LogPosition) {
        let (stable, end) = (self.marks.last_stable(), self.marks.high_watermark());
        if isolation == Isolation::ReadUncommitted || stable == end {
            return (end, self.flow.committed());
        }
        let Some(open) = self.producers.first_unstable() else {
            panic!("{}: no transaction keeps readers at {stable} of {end}", self.at);
        };
        // Its first records may be deleted, and their segments: then readers come further.
        let start = self.segments.first().map_or(open.position, |first| first.start);
        (stable, open.position.max(start).max(self.flow.stable()))
    }

    pub fn readable_end(&self, isolation: Isolation) -> ReadableEnd {
        ReadableEnd(self.readable(isolation).1.get())
    }

    /// Refuses everything staged: nobody has seen it, its offsets are given anew. Says which files
    /// must be put right first; until [`PartitionLog::repaired`] no append is taken.
    ///
    /// # Panics
    /// When a round with this partition is in flight.
    pub fn refuse_staged(&mut self) -> Repair {
        let (end, next) = (self.flow.committed(), self.marks.durable_end());
        self.flow.assert_idle(self.at);
        self.tail.refuse_from(end, next);
        let repair = self.segments.refuse_from(end, next);
        self.producers.refuse_from(next);
        self.cursors.refuse_from(next);
        self.marks.refused(next);
        self.flow.needs_repair |= !repair.is_empty();
        repair
    }

    /// The files of a refusal were put right.
    pub fn repaired(&mut self) {
        self.flow.needs_repair = false;
    }

    pub fn needs_repair(&self) -> bool {
        self.flow.needs_repair
    }

    /// Says whether a producer's next transactional batch needs its coordinator's word, and gives out
    /// the guard for it.
    pub fn transaction(&mut self, query: &TransactionQuery) -> TransactionState {
        self.producers.transaction(query)
    }

    /// Forgets producers that were silent since before `before`.
    pub fn expire_producers(&mut self, before: TimestampMs) {
        self.producers.expire(before, self.marks.durable_end());
    }
}
