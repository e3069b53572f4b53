//! What a cleaning knows of the transactions in the batches that it reads in log order (KIP-98,
//! KIP-534).

use std::collections::{HashMap, HashSet, VecDeque};

use millstream_io::batch::RecordBatchHeader;
use millstream_io::records::{Keep, Records, RecordsError};
use millstream_io::units::{Offset, ProducerId};

/// An aborted transaction: its producer, its first offset, and that of its marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedRange {
    pub producer: ProducerId,
    pub first: Offset,
    pub marker: Offset,
}

/// Who still needs a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    Readers,
    /// It is data of an aborted transaction, or a marker of a transaction of which no batch is left.
    Nobody,
    /// Such a marker, of a transaction that readers are told of until this pass is over, and by a start
    /// that finds an older state also behind it. It may go when that is forgotten for good: then the
    /// next pass is told of no such transaction.
    Listed,
}

/// Follows the transactions through the batches of a log. Every batch must be told, in order.
#[derive(Debug, Default)]
pub struct Transactions {
    /// Those that begin behind the last batch told, by first offset.
    ahead: VecDeque<AbortedRange>,
    /// Aborted ones that have begun and not ended, at most one a producer.
    aborted: HashMap<ProducerId, Begun>,
    /// Producers of which a batch was met that belongs to a transaction that is not aborted.
    committed: HashSet<ProducerId>,
    /// Markers of aborted transactions that have no batch left, since they were last asked for.
    over: Vec<Offset>,
}

#[derive(Clone, Copy, Debug)]
struct Begun {
    /// Where its marker stands, or stood before an earlier cleaning.
    marker: Offset,
    /// A batch of it was met.
    met: bool,
}

impl Transactions {
    pub fn new(mut aborted: Vec<AbortedRange>) -> Transactions {
        aborted.sort_unstable_by_key(|range| range.first);
        Transactions { ahead: aborted.into(), ..Transactions::default() }
    }

    /// Takes the next batch, and says who needs it.
    ///
    /// # Errors
    /// [`RecordsError`] when a control batch does not read.
    pub fn met(
        &mut self,
        batch: &[u8],
        header: RecordBatchHeader<'_>,
    ) -> Result<Need, RecordsError> {
        let (Some(base), Some(last)) = (header.base_offset(), header.last_offset()) else {
            return Ok(Need::Readers);
        };
        self.begin_to(last);
        let attributes = header.attributes();
        let Some(producer) = header.producer().map(|stamp| stamp.id) else {
            return Ok(Need::Readers);
        };
        if self.aborted.get(&producer).is_some_and(|begun| begun.marker < base) {
            // Its marker is gone with the last of its batches.
            self.aborted.remove(&producer);
        }
        if attributes.is_control() {
            return Ok(match control_kind(batch)? {
                // An earlier cleaning has emptied it.
                Control::Empty => Need::Nobody,
                Control::Abort => self.aborted_ends(producer, base),
                Control::Commit if self.committed.remove(&producer) => Need::Readers,
                Control::Commit => Need::Nobody,
                Control::Other => Need::Readers,
            });
        }
        if !attributes.is_transactional() {
            return Ok(Need::Readers);
        }
        match self.aborted.get_mut(&producer) {
            Some(begun) => {
                begun.met = true;
                Ok(Need::Nobody)
            }
            None => {
                self.committed.insert(producer);
                Ok(Need::Readers)
            }
        }
    }

    /// Markers met since the last call of aborted transactions that have no batch left. Readers must
    /// not be told of these any more: without the marker they would not see where one ends.
    pub fn take_over(&mut self) -> Vec<Offset> {
        std::mem::take(&mut self.over)
    }

    /// Who needs the marker of the aborted transaction that ends.
    fn aborted_ends(&mut self, producer: ProducerId, marker: Offset) -> Need {
        match self.aborted.remove(&producer) {
            Some(begun) if begun.met => Need::Readers,
            Some(_) => {
                self.over.push(marker);
                Need::Listed
            }
            None => Need::Nobody,
        }
    }

    /// Transactions begin whose first offset is `last` or lies in front of it.
    fn begin_to(&mut self, last: Offset) {
        while let Some(range) = self.ahead.front().copied().filter(|range| range.first <= last) {
            self.ahead.pop_front();
            let begun = self.aborted.entry(range.producer);
            let begun = begun.or_insert(Begun { marker: range.marker, met: false });
            if begun.marker < range.first {
                *begun = Begun { marker: range.marker, met: false };
            }
        }
    }
}

enum Control {
    Empty,
    Abort,
    Commit,
    Other,
}

/// The kind of a control batch: the second 16-bit number of its only record's key.
fn control_kind(batch: &[u8]) -> Result<Control, RecordsError> {
    let mut records = Records::open(batch, Keep::Keys)?;
    let Some(record) = records.next_record()? else { return Ok(Control::Empty) };
    Ok(match record.key {
        Some([_, _, 0, 0, ..]) => Control::Abort,
        Some([_, _, 0, 1, ..]) => Control::Commit,
        _ => Control::Other,
    })
}
