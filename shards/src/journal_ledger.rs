//! Which journal files are still needed, and by which partitions.

use std::collections::{HashMap, VecDeque};

use millstream_io::units::JournalSeq;

use crate::position::LogPosition;
use crate::table::Slot;

/// For each journal file, the partitions whose bytes in it are nowhere else durable. Lives on the
/// owner's core.
///
/// A partition lets go of a file in one of two ways: its segment is synced past the bytes, or a
/// later frame holds all its bytes behind its last sync once more. The second is how the
/// unfinished last block of a segment never needs to be written before it is full: each block of a
/// segment is written once.
#[derive(Debug, Default)]
pub struct JournalLedger {
    /// Oldest first; the last one is being written.
    files: VecDeque<FileHolds>,
    holds: HashMap<Slot, VecDeque<Hold>>,
}

#[derive(Debug)]
struct FileHolds {
    seq: JournalSeq,
    /// How many partitions need it.
    needed: usize,
    /// Partitions that needed it at some time, each once.
    seen: Vec<Slot>,
}

/// One partition's bytes in one file: everything it has there ends at `end`.
#[derive(Clone, Copy, Debug)]
struct Hold {
    seq: JournalSeq,
    end: LogPosition,
}

impl JournalLedger {
    pub fn new() -> JournalLedger {
        JournalLedger::default()
    }

    /// Files known, the one being written included.
    pub fn files(&self) -> usize {
        self.files.len()
    }

    /// The writer goes on in a new or recycled file.
    ///
    /// # Panics
    /// When its number does not follow.
    pub fn opened(&mut self, seq: JournalSeq) {
        if let Some(last) = self.files.back() {
            assert!(last.seq < seq, "journal file {seq} comes after {}", last.seq);
        }
        self.files.push_back(FileHolds { seq, needed: 0, seen: Vec::new() });
    }

    /// A durable frame in the file being written holds the partition's bytes `[from, to)`. When
    /// they start at or below `synced`, nothing older is needed for this partition.
    ///
    /// # Panics
    /// When no file is open.
    pub fn journaled(
        &mut self,
        slot: Slot,
        from: LogPosition,
        to: LogPosition,
        synced: LogPosition,
    ) {
        let Some(file) = self.files.back_mut() else { panic!("a frame without a journal file") };
        let seq = file.seq;
        let holds = self.holds.entry(slot).or_default();
        match holds.back_mut() {
            Some(last) if last.seq == seq => last.end = last.end.max(to),
            _ => {
                holds.push_back(Hold { seq, end: to });
                file.needed += 1;
                file.seen.push(slot);
            }
        }
        if from <= synced {
            self.let_go(slot, |hold| hold.seq < seq);
        }
    }

    /// The partition's segments are durable below `to`.
    pub fn synced(&mut self, slot: Slot, to: LogPosition) {
        self.let_go(slot, |hold| hold.end <= to);
    }

    /// The partition is no more.
    pub fn dropped(&mut self, slot: Slot) {
        self.let_go(slot, |_| true);
    }

    /// Takes the oldest file off when nobody needs it and it is not being written. Files come off
    /// in order: one behind a needed file waits for it.
    pub fn pop_free(&mut self) -> Option<JournalSeq> {
        if self.files.len() < 2 || self.files.front()?.needed > 0 {
            return None;
        }
        self.files.pop_front().map(|file| file.seq)
    }

    /// The partitions that hold back the oldest file, unless that is the only one.
    pub fn holding_oldest(&self) -> impl Iterator<Item = Slot> {
        let oldest = self.files.front().filter(|_| self.files.len() > 1);
        oldest
            .into_iter()
            .flat_map(|file| file.seen.iter().copied().filter(|slot| self.needs(*slot, file.seq)))
    }

    /// All partitions that need any file.
    pub fn holding_any(&self) -> impl Iterator<Item = Slot> {
        self.holds.keys().copied()
    }

    /// True when no partition needs any file.
    pub fn is_clear(&self) -> bool {
        self.holds.is_empty()
    }

    fn needs(&self, slot: Slot, seq: JournalSeq) -> bool {
        self.holds.get(&slot).is_some_and(|holds| holds.iter().any(|hold| hold.seq == seq))
    }

    /// Holds are in order of file and of end, so those let go of are a prefix.
    fn let_go(&mut self, slot: Slot, of: impl Fn(&Hold) -> bool) {
        let Some(holds) = self.holds.get_mut(&slot) else { return };
        while let Some(hold) = holds.front().filter(|hold| of(hold)) {
            let i = self.files.partition_point(|file| file.seq < hold.seq);
            match self.files.get_mut(i) {
                Some(file) if file.seq == hold.seq => file.needed -= 1,
                _ => panic!("{slot:?} held journal file {}, which was given away", hold.seq),
            }
            holds.pop_front();
        }
        if holds.is_empty() {
            self.holds.remove(&slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;
    use millstream_io::units::{PartitionIndex, TopicId, TopicPartition};
    use proptest::prelude::*;

    fn slots(count: i32) -> Vec<Slot> {
        let mut table = Table::default();
        let topic = TopicId::from_bytes([9; 16]);
        let at = |partition| TopicPartition { topic, partition: PartitionIndex::at(partition) };
        (0..count).map(|partition| table.insert(at(partition), ())).collect()
    }

    fn at(position: u64) -> LogPosition {
        LogPosition::new(position)
    }

    fn seq(value: u64) -> JournalSeq {
        JournalSeq::new(value)
    }

    #[test]
    fn file_is_free_when_every_partition_synced_past_it() {
        let s = slots(2);
        let mut ledger = JournalLedger::new();
        ledger.opened(seq(5));
        ledger.journaled(s[0], at(0), at(100), at(0));
        ledger.journaled(s[1], at(0), at(50), at(0));
        assert_eq!(ledger.pop_free(), None, "it is being written");
        ledger.opened(seq(6));
        ledger.journaled(s[0], at(100), at(200), at(0));
        ledger.synced(s[0], at(100));
        assert_eq!(ledger.pop_free(), None, "the other partition needs it");
        assert_eq!(ledger.holding_oldest().collect::<Vec<_>>(), [s[1]]);
        ledger.synced(s[1], at(49));
        assert_eq!(ledger.pop_free(), None, "one byte is missing");
        ledger.synced(s[1], at(50));
        assert_eq!(ledger.pop_free(), Some(seq(5)));
        assert_eq!(ledger.pop_free(), None);
    }

    #[test]
    fn bytes_written_once_more_in_a_later_frame_free_the_older_file() {
        let s = slots(1);
        let mut ledger = JournalLedger::new();
        ledger.opened(seq(1));
        ledger.journaled(s[0], at(0), at(5000), at(0));
        ledger.opened(seq(2));
        ledger.synced(s[0], at(4096));
        ledger.journaled(s[0], at(5000), at(6000), at(4096));
        assert_eq!(ledger.pop_free(), None, "bytes 4096 to 5000 are only in the first");
        ledger.journaled(s[0], at(4096), at(6100), at(4096));
        assert_eq!(ledger.pop_free(), Some(seq(1)));
        assert!(!ledger.is_clear());
    }

    #[test]
    fn dropped_partition_needs_nothing() {
        let s = slots(1);
        let mut ledger = JournalLedger::new();
        ledger.opened(seq(1));
        ledger.journaled(s[0], at(0), at(10), at(0));
        ledger.opened(seq(2));
        ledger.dropped(s[0]);
        assert_eq!(ledger.pop_free(), Some(seq(1)));
        assert!(ledger.is_clear());
    }

    proptest! {
        /// Goal: no byte above the last sync is ever only in a file that was given away.
        /// Method: remember for each partition which byte ranges each live file holds.
        #[test]
        fn walk_never_frees_a_needed_byte(steps in proptest::collection::vec((0u8..8, 0usize..3, 1u64..3000), 1..200)) {
            let s = slots(3);
            let mut ledger = JournalLedger::new();
            let mut files: VecDeque<(u64, Vec<(usize, u64, u64)>)> = VecDeque::from([(0, vec![])]);
            ledger.opened(seq(0));
            let (mut end, mut synced) = ([0u64; 3], [0u64; 3]);
            let mut next = 1;
            for (step, p, len) in steps {
                match step {
                    0..=3 => {
                        let from = if step == 3 { synced[p] } else { end[p] };
                        end[p] += len;
                        ledger.journaled(s[p], at(from), at(end[p]), at(synced[p]));
                        files.back_mut().expect("open").1.push((p, from, end[p]));
                    }
                    4 | 5 => {
                        synced[p] = end[p] - end[p] % 4096;
                        ledger.synced(s[p], at(synced[p]));
                    }
                    6 => {
                        ledger.opened(seq(next));
                        files.push_back((next, vec![]));
                        next += 1;
                    }
                    _ => while let Some(free) = ledger.pop_free() {
                        prop_assert_eq!(files.pop_front().map(|f| f.0), Some(free.get()));
                    }
                }
                for p in 0..3 {
                    let mut have = synced[p];
                    for (_, runs) in &files {
                        for (_, from, to) in runs.iter().filter(|run| run.0 == p) {
                            if *from <= have { have = have.max(*to); }
                        }
                    }
                    prop_assert_eq!(have, end[p], "partition {}", p);
                }
            }
        }
    }
}
