//! Commit rounds of a shard: what goes straight to the segments, what goes into the journal frame,
//! and what follows when both are durable.
//!
//! A round has two steps. First the partitions with a large run write their full blocks to their
//! segments and sync them. Then one frame takes the small runs, and what is left of the large ones.
//! So a frame never speaks of bytes that are not durable, and each round ends with one flush.

use millstream_io::disk::DiskError;
use millstream_io::gather::Gather;
use millstream_io::journal::frame::{FRAME_HEADER_BYTES, frame_bytes, run_bytes};
use millstream_io::journal::{FrameWriter, Placement, Run, ring};
use millstream_io::limits::BLOCK_BYTES;
use millstream_io::units::{Offset, TopicPartition};

use crate::group_commit::Taken;
use crate::partition_log::{CommitShare, PartitionLog, WriteMode, WritePlan};
use crate::position::LogPosition;
use crate::segments::Piece;
use crate::table::Slot;

use super::{Home, Made, ShardState};

/// A large run on its way to the segments.
#[derive(Clone, Debug)]
pub struct DirectJob {
    pub slot: Slot,
    pub home: Home,
    pub plan: WritePlan,
    share: CommitShare,
}

/// How the writes of a [`DirectJob`] ended.
#[derive(Clone, Debug)]
pub struct DirectOutcome {
    pub job: DirectJob,
    /// What became of the files it needed.
    pub made: Made,
    pub result: Result<(), DiskError>,
}

/// A frame that has its place: to be encoded, written, and told to [`ShardState::finish_frame`].
#[derive(Debug)]
pub struct FramePlan {
    pub place: ring::Slot,
    pub runs: Vec<FrameRun>,
}

/// One partition in a frame.
#[derive(Clone, Debug)]
pub struct FrameRun {
    slot: Slot,
    at: TopicPartition,
    from: LogPosition,
    to: LogPosition,
    end: Offset,
    /// Offset up to which the segments are synced, for a run that went straight there.
    synced: Option<Offset>,
}

/// Where the frame of a round goes.
#[derive(Debug)]
pub enum Placed {
    /// Into the file at its place.
    Frame(FramePlan),
    /// The round has nothing for the journal.
    Nothing,
    /// The next file is not ready.
    Wait,
    /// Every file is needed.
    Full,
}

impl ShardState {
    /// Begins a round, and takes the large runs into it. `None` when no round is due.
    pub fn begin_round(&mut self) -> Option<Vec<DirectJob>> {
        if self.health.directory.failure().is_some() {
            // Another core may have found it after the last look: no round comes any more.
            let reason = self.health.reason();
            self.fail_waiting(&reason);
            return None;
        }
        if !self.commit.begin() {
            return None;
        }
        let mut jobs = Vec::new();
        let (partitions, layout) = (&mut self.partitions, &self.layout);
        let direct_bytes = self.limits.direct_bytes;
        // What is left of each large run must fit the frame, with room for the small ones.
        let jobs_max = self.ring.frame_bytes_max() / 2 / run_bytes(BLOCK_BYTES);
        self.commit.take(|slot| {
            let Some(log) = partitions.get_mut(slot) else { return Taken::Gone };
            match log.commit_share(direct_bytes) {
                CommitShare::Direct { .. } if jobs.len() >= jobs_max => Taken::Deferred,
                CommitShare::Nothing => gone(log),
                share @ CommitShare::Direct { from, .. } => {
                    let mode = WriteMode::Direct { to: from };
                    let Some(plan) = log.plan_write(mode) else { return Taken::Deferred };
                    log.commit_begun(share);
                    let home = log.home(layout);
                    jobs.push(DirectJob { slot, home, plan, share });
                    Taken::Whole
                }
                CommitShare::Journal { .. } | CommitShare::Repeat { .. } => Taken::Deferred,
            }
        });
        Some(jobs)
    }

    /// Finds the place of the round's frame: the small runs of all dirty partitions, as far as they
    /// fit, and the ends of `direct`. With a place, the round has departed.
    pub fn place_frame(&mut self, direct: &[DirectJob]) -> Placed {
        let mut runs: Vec<FrameRun> = Vec::new();
        let mut bytes = 0;
        for job in direct {
            let Some(log) = self.partitions.get(job.slot) else { continue };
            let CommitShare::Direct { from, to } = job.share else { continue };
            let (end, synced) = (log.in_flight_end(), Some(job.plan.end));
            runs.push(FrameRun { slot: job.slot, at: job.home.at, from, to, end, synced });
            bytes += measure(log, from, to);
        }
        let bytes_max = self.ring.frame_bytes_max() - FRAME_HEADER_BYTES;
        assert!(bytes <= bytes_max, "the ends of {} large runs fill {bytes} bytes", direct.len());
        let (partitions, direct_bytes) = (&self.partitions, self.limits.direct_bytes);
        let fits = |slot: Slot| -> Option<(CommitShare, usize)> {
            // A large run on its way keeps what was staged since for the next round.
            let log = partitions.get(slot).filter(|log| !log.is_in_flight())?;
            let share = log.commit_share(direct_bytes);
            match share {
                CommitShare::Journal { from, to } | CommitShare::Repeat { from, to } => {
                    Some((share, measure(log, from, to)))
                }
                CommitShare::Nothing | CommitShare::Direct { .. } => None,
            }
        };
        let mut shares: Vec<(Slot, CommitShare)> = Vec::new();
        for slot in self.commit.dirty_slots() {
            if let Some((share, run)) = fits(slot).filter(|(_, run)| bytes + run <= bytes_max) {
                bytes += run;
                shares.push((slot, share));
            }
        }
        if bytes == 0 {
            return Placed::Nothing;
        }
        match self.ring.place(frame_bytes(bytes)) {
            Placement::Wait => Placed::Wait,
            Placement::Full => {
                self.metrics.journal_full_total += 1;
                Placed::Full
            }
            Placement::Write(place) => {
                self.depart(shares, &mut runs);
                Placed::Frame(FramePlan { place, runs })
            }
        }
    }

    /// The bytes of a piece of a write plan; `None` when its partition was dropped.
    pub fn gather(&mut self, slot: Slot, piece: Piece) -> Option<Gather> {
        let gather = self.partitions.get_mut(slot)?.gather(piece);
        // What was open may be frozen now.
        self.list_for_eviction(slot);
        Some(gather)
    }

    /// Encodes a frame into `out`, which is as long as its place.
    pub fn encode_frame(&self, plan: &FramePlan, out: &mut [u8]) {
        let mut writer = FrameWriter::new(out);
        for run in &plan.runs {
            let Some(log) = self.partitions.get(run.slot) else {
                panic!("{}: a partition in a round in flight was dropped", run.at);
            };
            push_runs(&mut writer, log, run);
        }
        writer.finish(plan.place.id);
    }

    /// The frame is durable, or failed. Ends the round.
    pub fn finish_frame(
        &mut self,
        plan: &FramePlan,
        direct: &[DirectJob],
        result: Result<(), DiskError>,
    ) {
        match result {
            Ok(()) => {
                let ends = plan.runs.iter().map(|run| (run.at, run.end));
                self.ring.written(plan.place, ends);
                self.metrics.rounds_total += 1;
                self.health.directory.note_round();
                self.metrics.fsync_total += 1;
                let count = |len| millstream_io::units::bytes_u64(len);
                self.metrics.round_partitions_total += count(plan.runs.len());
                self.metrics.journal_bytes_total += count(plan.place.bytes);
                self.end_direct(direct, true);
                plan.runs.iter().for_each(|run| self.run_done(run));
            }
            Err(error) => {
                self.ring.failed(plan.place);
                self.end_direct(direct, false);
                for run in &plan.runs {
                    if let Some(log) = self.partitions.get_mut(run.slot) {
                        log.commit_failed();
                    }
                }
                self.storage_error(error, plan.runs.iter().map(|run| run.slot).collect());
            }
        }
        self.end_round();
    }

    /// Ends a round that had nothing for the journal.
    pub fn finish_empty(&mut self, direct: &[DirectJob]) {
        assert!(direct.is_empty(), "{} large runs without a frame", direct.len());
        self.end_round();
    }

    /// Large runs whose writes failed leave the round; those that went well stay.
    pub fn directs_written(&mut self, outcomes: Vec<DirectOutcome>) -> Vec<DirectJob> {
        let mut well = Vec::with_capacity(outcomes.len());
        for DirectOutcome { job, made, result } in outcomes {
            if let Some(log) = self.partitions.get_mut(job.slot) {
                log.home_made(&job.home, &job.plan.make, made);
            }
            match result {
                Ok(()) => {
                    self.release_journal(&job);
                    well.push(job);
                }
                Err(error) => {
                    self.end_direct(std::slice::from_ref(&job), false);
                    if let Some(log) = self.partitions.get_mut(job.slot) {
                        log.commit_failed();
                    }
                    self.storage_error(error, vec![job.slot]);
                    self.consider_work(job.slot);
                }
            }
        }
        well
    }

    /// What was committed before a large run is synced with it. The journal is told at once: it may
    /// be full of just those bytes, and the frame of this round needs its place.
    fn release_journal(&mut self, job: &DirectJob) {
        if let Some(log) = self.partitions.get(job.slot) {
            self.ring.synced(job.home.at, job.plan.end.min(log.marks.durable_end()));
        }
    }

    /// The disk is full, and the round can have no place in the journal: what is staged is refused,
    /// rather than kept waiting for space that may never come.
    pub fn refuse_round(&mut self, direct: &[DirectJob]) {
        assert!(self.health.full, "a round is refused on a disk that has space");
        self.end_direct(direct, false);
        let mut slots: Vec<Slot> = self.commit.dirty_slots().collect();
        for job in direct {
            if let Some(log) = self.partitions.get_mut(job.slot) {
                log.commit_failed();
                slots.push(job.slot);
            }
        }
        slots.sort_unstable();
        slots.dedup();
        let reason = self.health.reason();
        for slot in slots {
            self.refuse_staged(slot, &reason);
        }
        self.end_round();
    }

    /// A round is given up while it waits for a place: nothing of it went wrong, the shard stops or
    /// its storage failed elsewhere.
    pub fn abandon_round(&mut self, direct: &[DirectJob]) {
        self.end_direct(direct, false);
        for job in direct {
            if let Some(log) = self.partitions.get_mut(job.slot) {
                log.commit_failed();
                self.make_dirty(job.slot);
            }
        }
        self.end_round();
    }

    /// A write or sync failed. A final failure is latched and ends every promise; for want of space
    /// what is staged in `slots` is refused, and may be sent again later.
    pub fn storage_error(&mut self, error: DiskError, slots: Vec<Slot>) {
        if is_passing(&error) {
            self.disk_is_full();
            let reason = self.health.reason();
            for slot in slots {
                self.refuse_staged(slot, &reason);
            }
        } else {
            self.health.directory.fail(error);
            let reason = self.health.reason();
            self.fail_waiting(&reason);
            if let Some(failed) = self.deletions_failed() {
                self.fail_deletions(&failed);
            }
        }
        self.events.room.signal();
    }

    /// No append is taken before there is space again; what gives space back goes on.
    pub(super) fn disk_is_full(&mut self) {
        if !std::mem::replace(&mut self.health.full, true) {
            self.give_back_planned();
            self.look_for_removals();
        }
        self.events.full.signal();
        self.events.work.signal();
    }

    fn depart(&mut self, shares: Vec<(Slot, CommitShare)>, runs: &mut Vec<FrameRun>) {
        let partitions = &mut self.partitions;
        let mut shares = shares.into_iter().peekable();
        self.commit.take(|slot| {
            let Some((_, share)) = shares.next_if(|(next, _)| *next == slot) else {
                let log = partitions.get_mut(slot);
                return match log {
                    Some(log) if log.has_nothing_to_commit() => gone(log),
                    Some(_) => Taken::Deferred,
                    None => Taken::Gone,
                };
            };
            let Some(log) = partitions.get_mut(slot) else { return Taken::Gone };
            log.commit_begun(share);
            let (from, to, taken) = match share {
                CommitShare::Journal { from, to } => (from, to, Taken::Whole),
                CommitShare::Repeat { from, to } => (from, to, Taken::Part),
                CommitShare::Nothing | CommitShare::Direct { .. } => {
                    panic!("{}: {share:?} in a frame", log.at)
                }
            };
            let end = log.in_flight_end();
            runs.push(FrameRun { slot, at: log.at, from, to, end, synced: None });
            taken
        });
        self.commit.depart();
    }

    fn run_done(&mut self, run: &FrameRun) {
        if let Some(synced) = run.synced {
            self.ring.synced(run.at, synced);
        }
        let Some(log) = self.partitions.get_mut(run.slot) else { return };
        let unwritten = log.unwritten_bytes();
        let done = log.commit_done(run.from);
        self.staged_bytes -= done.bytes;
        self.unwritten_bytes = self.unwritten_bytes - unwritten + log.unwritten_bytes();
        if done.bytes > 0 {
            self.waiters.grown(run.slot, done.bytes, done.stable_bytes);
        }
        self.consider_work(run.slot);
    }

    fn end_direct(&mut self, direct: &[DirectJob], well: bool) {
        for job in direct {
            let Some(log) = self.partitions.get_mut(job.slot) else { continue };
            let unwritten = log.unwritten_bytes();
            log.write_done(&job.plan, well);
            self.unwritten_bytes = self.unwritten_bytes - unwritten + log.unwritten_bytes();
            if well {
                self.metrics.direct_bytes_total += job.plan.bytes();
                self.metrics.fsync_total += millstream_io::units::bytes_u64(job.plan.sync.len());
            }
        }
    }

    fn end_round(&mut self) {
        self.health.stalled_ms = None;
        if self.health.directory.failure().is_some() {
            // Another core may have found the directory failing: nothing is acknowledged after that.
            let reason = self.health.reason();
            self.fail_waiting(&reason);
        }
        self.forget_refused();
        self.settle_round();
        if self.commit.dirty() == 0 {
            self.settle_idle();
        }
        self.evict_tails();
        self.plan_under_pressure();
        self.events.room.signal();
        self.events.work.signal();
    }

    /// Takes partitions off the list of the dirty whose staged batches were all refused: nothing of
    /// them will ever be in a round, and whoever waited for them must be answered now.
    fn forget_refused(&mut self) {
        if !std::mem::take(&mut self.refused) {
            return;
        }
        let partitions = &mut self.partitions;
        self.commit.take(|slot| match partitions.get_mut(slot) {
            Some(log) if log.has_nothing_to_commit() => gone(log),
            Some(_) => Taken::Deferred,
            None => Taken::Gone,
        });
    }

    fn refuse_staged(&mut self, slot: Slot, reason: &crate::message::AppendError) {
        let Some(log) = self.partitions.get_mut(slot) else { return };
        let (staged, memory) = (log.staged_bytes(), log.tail.memory_bytes());
        let end = log.marks.durable_end();
        let repair = log.refuse_staged();
        self.refused = true;
        self.staged_bytes -= staged;
        self.tail_bytes = self.tail_bytes - memory + log.tail.memory_bytes();
        let at = log.at;
        if !repair.is_empty() {
            self.order_repair(slot, at, repair);
        }
        self.fail_behind(slot, end, reason);
    }
}

/// True for an error that may go away by itself: no space, no descriptor, no memory.
pub(super) fn is_passing(error: &DiskError) -> bool {
    use millstream_io::disk::DiskErrorKind as Kind;
    match error.kind {
        Kind::Full | Kind::TooManyFiles | Kind::NoMemory | Kind::Stopped => true,
        Kind::Io(_)
        | Kind::NotFound
        | Kind::Exists
        | Kind::Permission
        | Kind::ReadOnly
        | Kind::TooLarge
        | Kind::WrongKind
        | Kind::Locked
        | Kind::Unsupported
        | Kind::Unexpected(_) => false,
    }
}

/// A dirty partition that has nothing staged any more.
fn gone(log: &mut PartitionLog) -> Taken {
    log.clear_dirty();
    Taken::Gone
}

/// Bytes that `[from, to)` takes in a frame.
fn measure(log: &PartitionLog, from: LogPosition, to: LogPosition) -> usize {
    if from == to {
        return run_bytes(0);
    }
    log.segments.pieces(from, to).map(|piece| run_bytes(piece.len())).sum()
}

fn push_runs(writer: &mut FrameWriter<'_>, log: &PartitionLog, run: &FrameRun) {
    let (partition, end) = (run.at, run.end);
    for piece in log.segments.pieces(run.from, run.to) {
        let (segment, at) = (piece.segment, piece.position);
        let part = Run { partition, segment, at, end, direct: false };
        writer.push(&part, log.tail.slices(piece.from, piece.to));
    }
    if run.from == run.to {
        // All of it went straight to the segment: the run says only how far the log reaches.
        let Some(segment) = log.segments.at_position(run.to) else {
            panic!("{partition}: no segment at {:?}", run.to);
        };
        let at = segment.file_position(run.to);
        let segment = segment.id;
        writer.push(&Run { partition, segment, at, end, direct: false }, []);
    }
}
