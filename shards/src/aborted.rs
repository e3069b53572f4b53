//! The aborted transactions of a partition, which readers of committed records must skip (KIP-98).
//!
//! A transaction is listed once its abort marker is durable. Its records stay in the log; a reader
//! of committed records gets the list of those that overlap what it is given, and drops them.

use millstream_io::units::Offset;

use crate::cleaning::transactions::AbortedRange;
use crate::message::Aborted;

/// One aborted transaction, as its abort marker closed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    pub aborted: Aborted,
    /// Offset of the abort marker.
    pub marker: Offset,
    /// The LastStableOffset behind the marker: whatever was aborted later began there or behind.
    pub stable: Offset,
}

/// Aborted transactions by their markers, in log order. Lives on the owner's core.
#[derive(Clone, Debug, Default)]
pub struct AbortedTransactions {
    by_marker: Vec<AbortedTransaction>,
}

impl AbortedTransactions {
    /// Adds one; its marker is the newest.
    ///
    /// # Panics
    /// When markers come out of order, or one lies before the transaction it closes.
    pub fn closed(&mut self, transaction: AbortedTransaction) {
        let last = self.by_marker.last().map(|last| last.marker);
        assert!(
            last.is_none_or(|last| last < transaction.marker)
                && transaction.aborted.first_offset < transaction.marker,
            "abort marker out of order: {transaction:?} after {last:?}"
        );
        self.by_marker.push(transaction);
    }

    pub fn len(&self) -> usize {
        self.by_marker.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_marker.is_empty()
    }

    /// By their markers.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &AbortedTransaction> {
        self.by_marker.iter()
    }

    /// Those with records in `[from, to)`, by first offset, as the Fetch API wants them: the marker
    /// lies at `from` or behind, and the first record in front of `to`.
    ///
    /// Costs a binary search and a step for each marker in the range, and beyond it for as long as
    /// a transaction that began in the range is open.
    pub fn overlapping(&self, from: Offset, to: Offset) -> Vec<Aborted> {
        let behind = self.by_marker.partition_point(|t| t.marker < from);
        let mut found = Vec::new();
        for transaction in &self.by_marker[behind..] {
            if transaction.aborted.first_offset < to {
                found.push(transaction.aborted);
            }
            if transaction.stable >= to {
                break;
            }
        }
        found.sort_unstable_by_key(|aborted| aborted.first_offset);
        found
    }

    /// All of them, for compaction.
    pub fn ranges(&self) -> impl Iterator<Item = AbortedRange> {
        self.by_marker.iter().map(|t| AbortedRange {
            producer: t.aborted.producer,
            first: t.aborted.first_offset,
            marker: t.marker,
        })
    }

    /// Forgets those of these markers: compaction left no batch of them. True when there were some.
    pub fn forget(&mut self, markers: &[Offset]) -> bool {
        let before = self.by_marker.len();
        self.by_marker.retain(|t| !markers.contains(&t.marker));
        self.by_marker.len() < before
    }

    /// The log now starts at `log_start`.
    pub fn delete_before(&mut self, log_start: Offset) {
        let gone = self.by_marker.partition_point(|t| t.marker < log_start);
        self.by_marker.drain(..gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_io::units::ProducerId;

    fn transaction(id: i64, first: i64, marker: i64, stable: i64) -> AbortedTransaction {
        let producer = ProducerId::new(id).expect("not negative");
        let aborted = Aborted { producer, first_offset: Offset::at(first) };
        AbortedTransaction { aborted, marker: Offset::at(marker), stable: Offset::at(stable) }
    }

    fn firsts(list: &AbortedTransactions, from: i64, to: i64) -> Vec<i64> {
        let found = list.overlapping(Offset::at(from), Offset::at(to));
        found.iter().map(|aborted| aborted.first_offset.get()).collect()
    }

    #[test]
    fn overlapping_transactions_come_by_first_offset() {
        let mut list = AbortedTransactions::default();
        list.closed(transaction(1, 5, 10, 2));
        list.closed(transaction(2, 2, 20, 21));
        list.closed(transaction(3, 30, 40, 41));
        assert_eq!(firsts(&list, 0, 100), [2, 5, 30]);
        assert_eq!(firsts(&list, 11, 100), [2, 30]);
        assert_eq!(firsts(&list, 10, 30), [2, 5]);
        assert_eq!(firsts(&list, 41, 100), [] as [i64; 0]);
        list.delete_before(Offset::at(15));
        assert_eq!(firsts(&list, 0, 100), [2, 30]);
    }

    #[test]
    #[should_panic(expected = "out of order")]
    fn markers_come_in_log_order() {
        let mut list = AbortedTransactions::default();
        list.closed(transaction(1, 5, 10, 2));
        list.closed(transaction(2, 2, 9, 10));
    }
}
