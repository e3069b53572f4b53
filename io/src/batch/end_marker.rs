//! The control batch that ends a transaction in a partition (KIP-98).
//!
//! ```text
//! batch   attributes: transactional, control; producer id and epoch; no sequence; one record
//!   key     version 2 (0), type 2 (0 abort, 1 commit)
//!   value   version 2 (0), coordinator epoch 4
//! ```

use super::compose::{Stamped, compose_stamped};
use super::{CheckedBatch, NewRecord, RecordBatchHeader};
use crate::records::{Keep, Records};
use crate::units::{ProducerEpoch, ProducerId, TimestampMs};

/// How a transaction ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Outcome {
    Abort,
    Commit,
}

/// What an end marker says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EndMarker {
    pub producer: ProducerId,
    /// With transactions v2 one more than that of the transaction's records (KIP-890).
    pub epoch: ProducerEpoch,
    pub outcome: Outcome,
    /// Epoch of the transaction coordinator that ordered it: of two the newer one counts.
    pub coordinator_epoch: i32,
}

const KEY_VERSION: i16 = 0;
const VALUE_VERSION: i16 = 0;

impl EndMarker {
    /// The batch to be stored, of 78 bytes.
    pub fn compose(&self, timestamp: TimestampMs) -> CheckedBatch {
        let mut key = KEY_VERSION.to_be_bytes().to_vec();
        key.extend_from_slice(&kind_of(self.outcome).to_be_bytes());
        let mut value = VALUE_VERSION.to_be_bytes().to_vec();
        value.extend_from_slice(&self.coordinator_epoch.to_be_bytes());
        let record = NewRecord { key: Some(key), value: Some(value) };
        let stamped =
            Stamped { producer: Some((self.producer, self.epoch)), control: true, timestamp };
        compose_stamped(&[record], stamped)
    }

    /// Reads one whole batch whose CRC held. `None` when it ends no transaction: no control batch,
    /// a kind of control record that is none of these, or one that compaction has emptied.
    pub fn read(batch: &[u8]) -> Option<EndMarker> {
        let header = RecordBatchHeader::view(batch)?;
        if !header.attributes().is_control() {
            return None;
        }
        let stamp = header.producer()?;
        let mut records = Records::open(batch, Keep::KeysAndValues).ok()?;
        let record = records.next_record().ok()??;
        let (_, kind) = record.key?.split_first_chunk::<2>()?;
        let outcome = match i16::from_be_bytes(*kind.first_chunk()?) {
            0 => Outcome::Abort,
            1 => Outcome::Commit,
            _ => return None,
        };
        let (_, epoch) = record.value?.split_first_chunk::<2>()?;
        let coordinator_epoch = i32::from_be_bytes(*epoch.first_chunk()?);
        Some(EndMarker { producer: stamp.id, epoch: stamp.epoch, outcome, coordinator_epoch })
    }
}

fn kind_of(outcome: Outcome) -> i16 {
    match outcome {
        Outcome::Abort => 0,
        Outcome::Commit => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::testing::BatchBuilder;

    fn marker(outcome: Outcome) -> EndMarker {
        let producer = ProducerId::new(4_000).expect("not negative");
        let epoch = ProducerEpoch::new(3).expect("not negative");
        EndMarker { producer, epoch, outcome, coordinator_epoch: 7 }
    }

    /// The bytes of Apache Kafka's `MemoryRecords.withEndTransactionMarker`, from the protocol page.
    #[test]
    fn marker_has_the_bytes_that_kafka_writes() {
        let batch = marker(Outcome::Commit).compose(TimestampMs::new(1_700_000_000_000));
        let golden: &[u8] = &[
            0, 0x30, // attributes: transactional, control
            0, 0, 0, 0, // last offset delta
            0, 0, 1, 0x8b, 0xcf, 0xe5, 0x68, 0, // base timestamp
            0, 0, 1, 0x8b, 0xcf, 0xe5, 0x68, 0, // max timestamp
            0, 0, 0, 0, 0, 0, 0x0f, 0xa0, // producer id
            0, 3, // producer epoch
            0xff, 0xff, 0xff, 0xff, // no sequence
            0, 0, 0, 1, // count
            32, 0, 0, 0, // length 16, attributes, timestamp delta, offset delta
            8, 0, 0, 0, 1, // key: version 0, type 1
            12, 0, 0, 0, 0, 0, 7, // value: version 0, coordinator epoch 7
            0, // headers
        ];
        assert_eq!(&batch.bytes()[21..], golden);
        assert_eq!(batch.len(), 78);
    }

    #[test]
    fn marker_reads_back() {
        for outcome in [Outcome::Abort, Outcome::Commit] {
            let batch = marker(outcome).compose(TimestampMs::ZERO);
            assert_eq!(EndMarker::read(batch.bytes()), Some(marker(outcome)));
        }
    }

    #[test]
    fn what_ends_no_transaction_is_no_marker() {
        let data = BatchBuilder::of_values(["a"]).from_producer(1, 0, 0);
        assert_eq!(EndMarker::read(&data.build()), None);
        let record = crate::batch::testing::TestRecord {
            key: Some(vec![0, 0, 0, 2]),
            value: Some(vec![0; 6]),
            ..Default::default()
        };
        let leader_change =
            BatchBuilder { attributes: 0x20, records: vec![record], ..data.clone() };
        assert_eq!(EndMarker::read(&leader_change.build()), None);
        let emptied = BatchBuilder { attributes: 0x30, last_offset_delta: Some(0), ..data };
        let emptied = BatchBuilder { records: Vec::new(), ..emptied };
        assert_eq!(EndMarker::read(&emptied.build()), None);
    }
}
