//! Which records of a batch stay, as Kafka's log cleaner decides it.

use std::collections::HashMap;

use millstream_io::batch::RecordBatchHeader;
use millstream_io::records::rewrite::{Rewrite, Rewritten, rewrite, without_records};
use millstream_io::records::{Record, RecordsError};
use millstream_io::units::{Offset, ProducerEpoch, ProducerId, TimestampMs};

use super::offset_map::OffsetMap;
use super::transactions::{Need, Transactions};

/// The last batches of a producer that the partition still remembers: its state can be read off them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastOfProducer {
    pub epoch: ProducerEpoch,
    /// Offset of its last record of data; `None` when markers are all there is of it.
    pub data: Option<Offset>,
}

/// What becomes of one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It stays, byte for byte.
    Stays,
    Gone,
    /// This stands in its place, with the same offsets.
    Changed(Vec<u8>),
}

/// Judges the batches of one pass, in log order. Plain.
#[derive(Debug)]
pub struct Filter {
    map: OffsetMap,
    transactions: Transactions,
    producers: HashMap<ProducerId, LastOfProducer>,
    now: TimestampMs,
    /// When tombstones that are met for the first time may go.
    horizon: TimestampMs,
    /// Something in front could not be cleaned, and may hold older records of any key.
    in_front_uncleaned: bool,
}

impl Filter {
    pub fn new(
        map: OffsetMap,
        transactions: Transactions,
        producers: HashMap<ProducerId, LastOfProducer>,
        now: TimestampMs,
        delete_retention_ms: i64,
    ) -> Filter {
        let horizon = now.plus(delete_retention_ms);
        Filter { map, transactions, producers, now, horizon, in_front_uncleaned: false }
    }

    /// A segment was passed by. Older values may stand there: from now on no tombstone and no
    /// marker goes, whatever its time, or those values would come back to life.
    pub fn passed_by(&mut self) {
        self.in_front_uncleaned = true;
    }

    /// As [`Transactions::take_over`].
    pub fn take_over(&mut self) -> Vec<Offset> {
        self.transactions.take_over()
    }

    /// Decides about a batch whose CRC held. `keep_offsets` says that something must stay that tells its
    /// offsets, if only an empty batch.
    ///
    /// # Errors
    /// [`RecordsError`]: its records do not read, so nothing may be concluded from them.
    pub fn judge(&mut self, batch: &[u8], keep_offsets: bool) -> Result<Fate, RecordsError> {
        let Some(header) = RecordBatchHeader::view(batch) else {
            panic!("{} bytes are no batch", batch.len());
        };
        let attributes = header.attributes();
        let need = self.transactions.met(batch, header)?;
        let over = need != Need::Readers;
        let has_horizon = attributes.has_delete_horizon();
        let past = has_horizon && header.base_timestamp() <= self.now && !self.in_front_uncleaned;
        let last = self.is_last_of_producer(header);
        let emptied = || match keep_offsets || last {
            true => emptied(batch, header, last),
            false => Fate::Gone,
        };
        let drops_all = over && (!attributes.is_control() || (past && need == Need::Nobody));
        if drops_all {
            return Ok(emptied());
        }
        let always = over && attributes.is_control() && !self.in_front_uncleaned;
        let keep = |record: &Record<'_>| attributes.is_control() || self.stays(record, past);
        Ok(match rewrite(batch, Rewrite { horizon: self.horizon, always }, keep)? {
            Rewritten::AsItWas => Fate::Stays,
            Rewritten::Batch(changed) => Fate::Changed(changed),
            Rewritten::Nothing => emptied(),
        })
    }

    fn stays(&self, record: &Record<'_>, past: bool) -> bool {
        if record.offset >= self.map.end() {
            return true;
        }
        // A record without a key is from before the topic was compacted.
        let Some(key) = record.key else { return false };
        let newest = self.map.get(key).is_none_or(|newest| record.offset >= newest);
        newest && (record.value_bytes.is_some() || !past)
    }

    fn is_last_of_producer(&self, header: RecordBatchHeader<'_>) -> bool {
        let Some(stamp) = header.producer() else { return false };
        let Some(last) = self.producers.get(&stamp.id) else { return false };
        match last.data {
            Some(data) => header.last_offset() == Some(data),
            None => header.attributes().is_control() && stamp.epoch == last.epoch,
        }
    }
}

/// What is left of a batch without records: its offsets, and its producer if that is needed.
fn emptied(batch: &[u8], header: RecordBatchHeader<'_>, keep_producer: bool) -> Fate {
    let is_so = header.record_count() == 0 && keep_producer == header.producer().is_some();
    if is_so { Fate::Stays } else { Fate::Changed(without_records(batch, keep_producer)) }
}
