//! Which leader epoch wrote which part of a partition's log (KIP-101, KIP-279, KIP-320).

use millstream_io::units::{LeaderEpoch, Offset};

use crate::message::EpochEnd;

/// One epoch and the offset its first record has, or would have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochStart {
    pub epoch: LeaderEpoch,
    pub start: Offset,
}

/// The epochs of one partition, oldest first: epochs rise strictly, and so do their start offsets.
/// Lives on the owner's core. Its length is bounded by the number of leader changes that left
/// records which are still in the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderEpochs {
    starts: Vec<EpochStart>,
}

impl LeaderEpochs {
    pub fn new() -> LeaderEpochs {
        LeaderEpochs::default()
    }

    pub fn starts(&self) -> &[EpochStart] {
        &self.starts
    }

    /// The newest epoch known.
    pub fn latest(&self) -> Option<LeaderEpoch> {
        self.starts.last().map(|last| last.epoch)
    }

    /// A leader of `epoch` begins to write at `start`. The same epoch again changes nothing; an
    /// epoch that never wrote a record is forgotten.
    ///
    /// # Panics
    /// When an older epoch comes after a newer one: an epoch never goes back.
    pub fn assign(&mut self, epoch: LeaderEpoch, start: Offset) {
        if let Some(latest) = self.latest() {
            assert!(latest <= epoch, "leader epoch goes back from {latest} to {epoch} at {start}");
            if latest == epoch {
                return;
            }
        }
        while self.starts.last().is_some_and(|last| last.start >= start) {
            self.starts.pop();
        }
        self.starts.push(EpochStart { epoch, start });
    }

    /// The epoch that wrote the record at `offset`, or would write it.
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        let above = self.starts.partition_point(|entry| entry.start <= offset);
        above.checked_sub(1).map(|i| self.starts[i].epoch)
    }

    /// Where `asked` ends in a log that ends at `log_end` (the OffsetForLeaderEpoch API).
    ///
    /// The newest epoch ends at the log end; an older one where the next begins. For an epoch we
    /// never had, the largest one below it answers; below all of them, the asked one itself ends
    /// where the first known begins. `None` above the newest: nothing is known about it.
    pub fn end_of(&self, asked: LeaderEpoch, log_end: Offset) -> Option<EpochEnd> {
        let latest = self.latest()?;
        if asked > latest {
            return None;
        }
        if asked == latest {
            return Some(EpochEnd { epoch: latest, end: log_end });
        }
        let above = self.starts.partition_point(|entry| entry.epoch <= asked);
        let end = self.starts[above].start;
        let epoch = above.checked_sub(1).map_or(asked, |i| self.starts[i].epoch);
        Some(EpochEnd { epoch, end })
    }

    /// The log now starts at `log_start`: epochs that lie wholly below are forgotten.
    pub fn delete_before(&mut self, log_start: Offset) {
        let above = self.starts.partition_point(|entry| entry.start <= log_start);
        if let Some(covering) = above.checked_sub(1) {
            self.starts.drain(..covering);
            self.starts[0].start = log_start.max(self.starts[0].start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn epoch(value: i32) -> LeaderEpoch {
        LeaderEpoch::at(value)
    }

    fn at(offset: i64) -> Offset {
        Offset::at(offset)
    }

    fn end(value: i32, offset: i64) -> Option<EpochEnd> {
        Some(EpochEnd { epoch: epoch(value), end: at(offset) })
    }

    fn sample() -> LeaderEpochs {
        let mut epochs = LeaderEpochs::new();
        epochs.assign(epoch(2), at(0));
        epochs.assign(epoch(5), at(10));
        epochs.assign(epoch(6), at(30));
        epochs
    }

    /// The cases of KIP-320 and of trap 11: known, between, above, below.
    #[test]
    fn epoch_ends_where_the_next_begins() {
        let epochs = sample();
        assert_eq!(epochs.end_of(epoch(2), at(40)), end(2, 10));
        assert_eq!(epochs.end_of(epoch(3), at(40)), end(2, 10));
        assert_eq!(epochs.end_of(epoch(5), at(40)), end(5, 30));
        assert_eq!(epochs.end_of(epoch(6), at(40)), end(6, 40));
        assert_eq!(epochs.end_of(epoch(7), at(40)), None);
        assert_eq!(epochs.end_of(epoch(1), at(40)), end(1, 0));
        assert_eq!(LeaderEpochs::new().end_of(epoch(0), at(0)), None);
    }

    #[test]
    fn epoch_without_records_is_forgotten() {
        let mut epochs = sample();
        epochs.assign(epoch(8), at(40));
        epochs.assign(epoch(9), at(40));
        assert_eq!(epochs.end_of(epoch(8), at(50)), end(6, 40));
        assert_eq!(epochs.latest(), Some(epoch(9)));
    }

    #[test]
    #[should_panic(expected = "goes back")]
    fn epoch_never_goes_back() {
        sample().assign(epoch(4), at(50));
    }

    #[test]
    fn deleting_records_keeps_the_epoch_they_belong_to() {
        let mut epochs = sample();
        epochs.delete_before(at(12));
        assert_eq!(epochs.starts()[0], EpochStart { epoch: epoch(5), start: at(12) });
        assert_eq!(epochs.end_of(epoch(2), at(40)), end(2, 12));
        epochs.delete_before(at(30));
        assert_eq!(epochs.starts(), &[EpochStart { epoch: epoch(6), start: at(30) }]);
    }

    proptest! {
        /// Model: the epoch of each single record. An epoch's end is one behind its last record.
        #[test]
        fn walk_matches_a_record_by_record_model(steps in proptest::collection::vec((1i32..3, 0i64..5), 1..40)) {
            let mut epochs = LeaderEpochs::new();
            let mut records: Vec<i32> = Vec::new();
            let mut now = 0;
            for (jump, count) in steps {
                now += jump;
                epochs.assign(epoch(now), at(records.len() as i64));
                for _ in 0..count { records.push(now); }
            }
            let log_end = at(records.len() as i64);
            for (i, wrote) in records.iter().enumerate() {
                prop_assert_eq!(epochs.epoch_at(at(i as i64)), Some(epoch(*wrote)));
                let behind = records.iter().rposition(|e| e <= wrote).expect("itself") as i64 + 1;
                let got = epochs.end_of(epoch(*wrote), log_end).expect("known");
                prop_assert_eq!((got.epoch, got.end), (epoch(*wrote), at(behind)));
            }
        }
    }
}
