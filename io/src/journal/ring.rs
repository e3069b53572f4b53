//! Which journal file and which place in it comes next, and which file may be written again.
//!
//! A plain struct: it knows numbers and what holds a file back, and touches no file. Its owner is
//! the commit task of one core, which has at most one round in flight.

use std::collections::VecDeque;

use crate::journal::frame::{FrameId, JournalId};
use crate::limits::{
    BLOCK_BYTES, JOURNAL_BLANK_BYTES, JOURNAL_FILE_BYTES, JOURNAL_FILE_BYTES_MIN,
    JOURNAL_FILES_MAX, JOURNAL_FRAME_BYTES_MAX,
};
use crate::units::{
    FilePosition, IdMap, JournalSeq, Offset, RoundNumber, ShardId, TopicId, TopicPartition,
    bytes_u64, bytes_usize,
};

/// Size of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingLimits {
    pub file_bytes: u64,
    pub files_max: usize,
}

impl Default for RingLimits {
    fn default() -> RingLimits {
        RingLimits { file_bytes: JOURNAL_FILE_BYTES, files_max: JOURNAL_FILES_MAX }
    }
}

impl RingLimits {
    /// The default, or smaller files where the journals of all `shards` would take more than a
    /// quarter of the `free` bytes of their disk.
    pub fn fitting(free: u64, shards: u16) -> RingLimits {
        let files_max = JOURNAL_FILES_MAX;
        let files = bytes_u64(files_max) * u64::from(shards.max(1));
        let share = free / 4 / files;
        let whole = share - share % bytes_u64(BLOCK_BYTES);
        RingLimits {
            file_bytes: whole.clamp(JOURNAL_FILE_BYTES_MIN, JOURNAL_FILE_BYTES),
            files_max,
        }
    }
}

/// Where a journal starts: what [`crate::journal::files::reset`] found and wrote down.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RingStart {
    pub shard: ShardId,
    /// Carried by every frame of this start.
    pub journal: JournalId,
    /// Number for the next new or recycled file.
    pub next_seq: JournalSeq,
    /// Number for the next round.
    pub next_round: RoundNumber,
    /// Files of earlier starts, which may be written again at once.
    pub free: Vec<JournalSeq>,
}

/// Place of one frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    pub id: FrameId,
    pub at: FilePosition,
    /// Bytes of the frame, padding included.
    pub bytes: usize,
    /// Zeros to write behind the frame, before it is written: whole blocks, mostly none. See
    /// [`JOURNAL_BLANK_BYTES`].
    pub blank: usize,
}

/// Answer to the question where a frame goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// There.
    Write(Slot),
    /// In a file that is not prepared yet: run what [`JournalRing::prepare`] says, then ask again.
    Wait,
    /// Nowhere: every file is held back. Sync the segments of [`JournalRing::holders`]; appends wait.
    Full,
}

/// A blocking job that gets a file ready.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Prepare {
    /// Create and preallocate a new file.
    Create { seq: JournalSeq },
    /// Write down `state`, durably, and only then rename `from` to `to`.
    Recycle { from: JournalSeq, to: JournalSeq, state: RecycleState },
}

/// What must be on the disk before a file is written again: from which round on a replay starts,
/// and how far segments were synced whose runs are in no file any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecycleState {
    pub journal: JournalId,
    pub replay_from: RoundNumber,
    pub next_seq: JournalSeq,
    pub floors: Vec<(TopicPartition, Offset)>,
}

/// The ring of one core's journal files.
#[derive(Debug)]
pub struct JournalRing {
    limits: RingLimits,
    shard: ShardId,
    journal: JournalId,
    /// Files with live frames, oldest first; the last one is being filled.
    live: VecDeque<LiveFile>,
    /// Prepared for use, not written yet; with the place from which on it never was.
    ready: Option<(JournalSeq, FilePosition)>,
    preparing: Option<Prepare>,
    /// A round waits for the next file.
    awaited: bool,
    /// Hold nothing that is needed; by their old numbers.
    free: VecDeque<JournalSeq>,
    next_seq: JournalSeq,
    next_round: RoundNumber,
    in_flight: Option<Slot>,
    /// How far each partition's segments are synced, as long as no checkpoint file says so.
    floors: IdMap<TopicPartition, Offset>,
}

#[derive(Debug)]
struct LiveFile {
    seq: JournalSeq,
    first_round: RoundNumber,
    written: FilePosition,
    /// Nothing was ever written from here on.
    blank: FilePosition,
    /// For each partition mentioned and not yet synced past: its highest end offset in this file.
    ends: IdMap<TopicPartition, Offset>,
}

impl LiveFile {
    /// Zeros to write behind the next frame, of `bytes`.
    fn blank_behind(&self, bytes: usize, file_bytes: u64) -> usize {
        let end = self.written.add_len(bytes);
        if end <= self.blank {
            return 0;
        }
        let filled = end.get().next_multiple_of(JOURNAL_BLANK_BYTES).min(file_bytes);
        bytes_usize(filled - end.get())
    }
}

impl JournalRing {
    /// # Panics
    /// When the limits cannot hold a largest frame, or fewer than two files.
    pub fn new(start: RingStart, limits: RingLimits) -> JournalRing {
        assert!(limits.files_max >= 2, "a ring of {} files", limits.files_max);
        assert!(limits.file_bytes.is_multiple_of(bytes_u64(BLOCK_BYTES)), "{limits:?}");
        JournalRing {
            limits,
            shard: start.shard,
            journal: start.journal,
            live: VecDeque::new(),
            ready: None,
            preparing: None,
            awaited: false,
            free: start.free.into(),
            next_seq: start.next_seq,
            next_round: start.next_round,
            in_flight: None,
            floors: IdMap::default(),
        }
    }

    /// Largest frame that fits a file of this ring.
    pub fn frame_bytes_max(&self) -> usize {
        let file = bytes_usize(self.limits.file_bytes);
        file.min(JOURNAL_FRAME_BYTES_MAX)
    }

    /// Finds the place of the next frame, of `bytes` with padding. When it answers
    /// [`Placement::Write`], the round is in flight until [`JournalRing::written`] or
    /// [`JournalRing::failed`].
    ///
    /// # Panics
    /// When a round is in flight, or `bytes` is no frame.
    pub fn place(&mut self, bytes: usize) -> Placement {
        assert!(self.in_flight.is_none(), "two rounds in flight: {:?}", self.in_flight);
        assert!(bytes > 0 && bytes.is_multiple_of(BLOCK_BYTES), "a frame of {bytes} bytes");
        assert!(bytes <= self.frame_bytes_max(), "{bytes} > {}", self.frame_bytes_max());
        let fits = |file: &LiveFile| file.written.add_len(bytes).get() <= self.limits.file_bytes;
        if !self.live.back().is_some_and(fits) {
            match self.ready.take() {
                Some((seq, blank)) => {
                    self.awaited = false;
                    self.live.push_back(LiveFile {
                        seq,
                        first_round: self.next_round,
                        written: FilePosition::ZERO,
                        blank,
                        ends: IdMap::default(),
                    });
                    // The one filled before may have been needed by nobody for long.
                    self.release();
                }
                None if self.preparing.is_some() || self.can_prepare() => {
                    self.awaited = true;
                    return Placement::Wait;
                }
                None => return Placement::Full,
            }
        }
        let Some(file) = self.live.back() else { return Placement::Wait };
        let (shard, journal) = (self.shard, self.journal);
        let id = FrameId { shard, journal, seq: file.seq, round: self.next_round };
        let blank = file.blank_behind(bytes, self.limits.file_bytes);
        let slot = Slot { id, at: file.written, bytes, blank };
        self.in_flight = Some(slot);
        Placement::Write(slot)
    }

    /// The frame at `slot` is durable; `runs` are the partitions in it with their end offsets.
    ///
    /// # Panics
    /// When `slot` is not the one in flight.
    pub fn written(
        &mut self,
        slot: Slot,
        runs: impl IntoIterator<Item = (TopicPartition, Offset)>,
    ) {
        assert_eq!(self.in_flight.take(), Some(slot), "another round is in flight");
        let Some(file) = self.live.back_mut() else { panic!("{slot:?} is in no live file") };
        assert_eq!(file.seq, slot.id.seq, "the file changed under a round in flight");
        file.written = slot.at.add_len(slot.bytes);
        file.blank = file.blank.max(file.written.add_len(slot.blank));
        for (partition, end) in runs {
            let known = file.ends.entry(partition).or_insert(end);
            *known = end.max(*known);
        }
        self.next_round = self.next_round.next();
    }

    /// The frame at `slot` was not written, and may be tried again in the same place.
    ///
    /// Only for failures that are not final, as a full disk; the next frame overwrites whatever of
    /// this one arrived, under the same round number.
    ///
    /// # Panics
    /// When `slot` is not the one in flight.
    pub fn failed(&mut self, slot: Slot) {
        assert_eq!(self.in_flight.take(), Some(slot), "another round is in flight");
    }

    /// The segments of a partition are synced up to `end`: its runs up to there are not needed.
    pub fn synced(&mut self, partition: TopicPartition, end: Offset) {
        for file in &mut self.live {
            if file.ends.get(&partition).is_some_and(|needed| *needed <= end) {
                file.ends.remove(&partition);
            }
        }
        let floor = self.floors.entry(partition).or_insert(end);
        *floor = end.max(*floor);
        self.release();
    }

    /// The partition's own recovery checkpoint says `end`, durably: the ring need not remember.
    pub fn checkpointed(&mut self, partition: TopicPartition, end: Offset) {
        if self.floors.get(&partition).is_some_and(|floor| *floor <= end) {
            self.floors.remove(&partition);
        }
    }

    /// The partition is gone; nothing of it is needed.
    pub fn forget(&mut self, partition: TopicPartition) {
        self.retain(|p| *p != partition);
    }

    /// The topic is gone; nothing of it is needed.
    pub fn forget_topic(&mut self, topic: TopicId) {
        self.retain(|p| p.topic != topic);
    }

    /// The next file to get ready, if one is wanted now and none is being made. Ask after each
    /// round: a file is made ready when the one being filled is half full.
    pub fn prepare(&mut self) -> Option<Prepare> {
        let half_full = |file: &LiveFile| file.written.get() * 2 >= self.limits.file_bytes;
        // A frame may be too large for what is left of a file that is not half full.
        let wanted = self.awaited || self.live.back().is_none_or(half_full);
        if !wanted || self.ready.is_some() || self.preparing.is_some() || !self.can_prepare() {
            return None;
        }
        let to = self.next_seq;
        self.next_seq = to.next();
        let prepare = match self.free.pop_front() {
            Some(from) => Prepare::Recycle { from, to, state: self.recycle_state() },
            None => Prepare::Create { seq: to },
        };
        self.preparing = Some(prepare.clone());
        Some(prepare)
    }

    /// The job that [`JournalRing::prepare`] gave is done, and nothing was ever written to the file
    /// from `blank` on.
    ///
    /// # Panics
    /// When there was none.
    pub fn prepared(&mut self, blank: FilePosition) {
        match self.preparing.take() {
            Some(Prepare::Create { seq } | Prepare::Recycle { to: seq, .. }) => {
                self.ready = Some((seq, blank));
            }
            None => panic!("no file is being prepared"),
        }
    }

    /// The job failed, not finally. A file to recycle keeps its old name or has the new one: which,
    /// `named` says.
    ///
    /// # Panics
    /// When there was none.
    pub fn prepare_failed(&mut self, named: Option<JournalSeq>) {
        assert!(self.preparing.take().is_some(), "no file is being prepared");
        if let Some(seq) = named {
            self.free.push_front(seq);
        }
    }

    /// Partitions that hold back the oldest file that is not being filled, with the offsets up to
    /// which they must be synced; empty when nothing is held back.
    pub fn holders(&self) -> impl Iterator<Item = (TopicPartition, Offset)> + '_ {
        let oldest = if self.live.len() > 1 { self.live.front() } else { None };
        oldest.into_iter().flat_map(|file| file.ends.iter().map(|(p, end)| (*p, *end)))
    }

    /// All partitions that any file still mentions, with the offsets up to which they must be synced
    /// for the journal to be empty.
    pub fn unsynced(&self) -> IdMap<TopicPartition, Offset> {
        let mut all: IdMap<TopicPartition, Offset> = IdMap::default();
        for (partition, end) in self.live.iter().flat_map(|file| &file.ends) {
            let known = all.entry(*partition).or_insert(*end);
            *known = (*end).max(*known);
        }
        all
    }

    /// Files that hold live frames, out of how many there may be. The checkpointer starts when the
    /// first nears the second.
    pub fn files_live(&self) -> (usize, usize) {
        (self.live.len(), self.limits.files_max)
    }

    /// True when no run is needed: every partition is synced past all of them.
    pub fn is_clean(&self) -> bool {
        self.in_flight.is_none() && self.live.iter().all(|file| file.ends.is_empty())
    }

    /// Number of the next round.
    pub fn next_round(&self) -> RoundNumber {
        self.next_round
    }

    /// What to write down at a clean stop: nothing is replayed at the next start.
    ///
    /// # Panics
    /// When a run is still needed.
    pub fn clean_state(&self) -> RecycleState {
        assert!(self.is_clean(), "the journal still holds what is in no segment");
        self.recycle_state()
    }

    fn recycle_state(&self) -> RecycleState {
        // The oldest file that is needed; everything in front of it may be lost from now on.
        let oldest = self.live.iter().find(|file| !file.ends.is_empty());
        let replay_from = match oldest {
            Some(file) => file.first_round,
            None => self.next_round,
        };
        let mut floors: Vec<_> = self.floors.iter().map(|(p, end)| (*p, *end)).collect();
        floors.sort();
        RecycleState { journal: self.journal, replay_from, next_seq: self.next_seq, floors }
    }

    fn can_prepare(&self) -> bool {
        let preparing = usize::from(self.preparing.is_some());
        let made = self.live.len() + usize::from(self.ready.is_some()) + preparing;
        !self.free.is_empty() || made + self.free.len() < self.limits.files_max
    }

    /// Frees the oldest files that nobody needs. The one being filled stays.
    fn release(&mut self) {
        while self.live.len() > 1 && self.live[0].ends.is_empty() {
            self.free.extend(self.live.pop_front().map(|file| file.seq));
        }
    }

    fn retain(&mut self, keep: impl Fn(&TopicPartition) -> bool) {
        for file in &mut self.live {
            file.ends.retain(|partition, _| keep(partition));
        }
        self.floors.retain(|partition, _| keep(partition));
        self.release();
    }
}
