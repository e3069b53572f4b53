//! What one partition writes at once: batches, then markers, all of which share a flush.

use crate::group::ask::{Ending, InTransaction};
use crate::group::limits::ROUND_PARTS_MAX;
use crate::group::partition::{Content, Entry};

/// Entries that are written together, in their order.
#[derive(Debug, Default)]
pub struct Round {
    /// Each one batch, or no batch when it has no records.
    pub batches: Vec<Entry>,
    /// Behind them.
    pub markers: Vec<(Ending, Entry)>,
}

impl Round {
    /// Takes what comes next out of `queue`: as many entries as fit into `bytes_max`, and at least
    /// one. Neighbours of one kind go into one batch. A batch behind a marker waits for the next
    /// round.
    pub fn next(queue: &mut Vec<Entry>, bytes_max: usize) -> Round {
        let mut round = Round::default();
        let mut bytes = 0;
        let count = queue
            .iter()
            .scan(false, |ending, entry| {
                bytes += entry.bytes();
                let is_marker = matches!(entry.content, Content::Marker(_));
                let fits = bytes <= bytes_max && (is_marker || !*ending);
                *ending |= is_marker;
                fits.then_some(())
            })
            .take(ROUND_PARTS_MAX)
            .count();
        let count = count.max(1).min(queue.len());
        for entry in queue.drain(..count) {
            round.add(entry);
        }
        round
    }

    fn add(&mut self, entry: Entry) {
        let Entry { content, records, then } = entry;
        match (content, self.batches.last_mut()) {
            (Content::Marker(ending), _) => {
                self.markers.push((ending, Entry { content, records, then }));
            }
            (_, Some(last)) if last.content == content => {
                last.records.extend(records);
                last.then.extend(then);
            }
            _ => self.batches.push(Entry { content, records, then }),
        }
    }

    /// What the entries took in the queue.
    pub fn bytes(&self) -> usize {
        let markers = self.markers.iter().map(|(_, entry)| entry);
        self.batches.iter().chain(markers).map(Entry::bytes).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.markers.is_empty()
    }
}

impl Entry {
    /// Whose transaction it is part of.
    pub fn transaction(&self) -> Option<InTransaction> {
        match self.content {
            Content::Transactional(transaction) => Some(transaction),
            Content::Plain | Content::Marker(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::partition::Then;
    use crate::wire::ErrorCode;
    use millstream_io::batch::{NewRecord, Outcome};
    use millstream_io::runtime::oneshot;
    use millstream_io::units::{ProducerEpoch, ProducerId};

    fn of(producer: i64) -> InTransaction {
        let producer = ProducerId::new(producer).expect("not negative");
        InTransaction { producer, epoch: ProducerEpoch::ZERO }
    }

    /// An entry of so many bytes, or a little more.
    fn entry(content: Content, bytes: usize) -> Entry {
        let (promise, _) = oneshot::<ErrorCode>();
        let records = vec![NewRecord { key: None, value: Some(vec![0; bytes]) }];
        Entry { content, records, then: vec![Then::Reply(promise)] }
    }

    fn marker(producer: i64) -> Entry {
        let InTransaction { producer, epoch } = of(producer);
        let ending = Ending {
            producer,
            epoch,
            outcome: Outcome::Commit,
            coordinator_epoch: 0,
            transaction_version: 2,
        };
        Entry { content: Content::Marker(ending), records: Vec::new(), then: Vec::new() }
    }

    fn shape(round: &Round) -> (Vec<(Option<i64>, usize)>, Vec<i64>) {
        let batch = |entry: &Entry| {
            assert_eq!(entry.records.len(), entry.then.len(), "each has what follows from it");
            (entry.transaction().map(|of| of.producer.get()), entry.records.len())
        };
        let markers = round.markers.iter().map(|(ending, _)| ending.producer.get());
        (round.batches.iter().map(batch).collect(), markers.collect())
    }

    #[test]
    fn neighbours_of_one_kind_share_a_batch_and_order_is_kept() {
        let of = |producer| Content::Transactional(of(producer));
        let mut queue: Vec<Entry> = [Content::Plain, Content::Plain, of(1), of(1), of(2)]
            .into_iter()
            .chain([Content::Plain, of(1)])
            .map(|content| entry(content, 10))
            .collect();
        queue.extend([marker(1), marker(2), entry(Content::Plain, 10), marker(3)]);
        let bytes: usize = queue.iter().map(Entry::bytes).sum();
        let first = Round::next(&mut queue, 1 << 20);
        let batches = vec![(None, 2), (Some(1), 2), (Some(2), 1), (None, 1), (Some(1), 1)];
        assert_eq!(shape(&first), (batches, vec![1, 2]));
        let second = Round::next(&mut queue, 1 << 20);
        assert_eq!(shape(&second), (vec![(None, 1)], vec![3]));
        assert!(queue.is_empty() && Round::next(&mut queue, 1 << 20).is_empty());
        assert_eq!(first.bytes() + second.bytes(), bytes);
    }

    #[test]
    fn round_takes_what_fits_and_at_least_one_entry() {
        let mut queue: Vec<Entry> =
            [500, 400, 5000, 10].map(|bytes| entry(Content::Plain, bytes)).into();
        let mut counts = Vec::new();
        while !queue.is_empty() {
            counts.push(Round::next(&mut queue, 1000).batches[0].records.len());
        }
        assert_eq!(counts, [2, 1, 1]);
    }
}
