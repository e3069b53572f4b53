//! The aborted transactions of a partition, which readers of committed records must skip (KIP-98).
//!
//! No coordinator writes transaction markers yet and transactional batches are refused at the
//! append, so every list is empty and the LastStableOffset equals the HighWatermark. The reads
//! already go through here, so that markers are all that is missing.

use millstream_io::units::Offset;

use crate::message::Aborted;

/// One aborted transaction, as its abort marker closed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    pub aborted: Aborted,
    /// Offset of the abort marker.
    pub marker: Offset,
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

    /// Those with records in `[from, to)`, by first offset, as the Fetch API wants them.
    pub fn overlapping(&self, from: Offset, to: Offset) -> Vec<Aborted> {
        let behind = self.by_marker.partition_point(|t| t.marker < from);
        let live = self.by_marker[behind..].iter().map(|t| t.aborted);
        let mut found: Vec<Aborted> = live.filter(|aborted| aborted.first_offset < to).collect();
        found.sort_unstable_by_key(|aborted| aborted.first_offset);
        found
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

    fn transaction(id: i64, first: i64, marker: i64) -> AbortedTransaction {
        let producer = ProducerId::new(id).expect("not negative");
        let aborted = Aborted { producer, first_offset: Offset::at(first) };
        AbortedTransaction { aborted, marker: Offset::at(marker) }
    }

    fn firsts(list: &AbortedTransactions, from: i64, to: i64) -> Vec<i64> {
        let found = list.overlapping(Offset::at(from), Offset::at(to));
        found.iter().map(|aborted| aborted.first_offset.get()).collect()
    }

    #[test]
    fn overlapping_transactions_come_by_first_offset() {
        let mut list = AbortedTransactions::default();
        list.closed(transaction(1, 5, 10));
        list.closed(transaction(2, 2, 20));
        list.closed(transaction(3, 30, 40));
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
        list.closed(transaction(1, 5, 10));
        list.closed(transaction(2, 2, 9));
    }
}
