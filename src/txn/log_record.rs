//! Records of `__transaction_state` as the coordinator thinks of them, to and from bytes.

use super::state::State;
use super::transaction::{Participant, Protocol, Transaction};
use crate::wire::messages::group_log::{decode_key, decode_value, encode_key, encode_value};
use crate::wire::messages::transaction_log::{
    PartitionsSchema, TransactionLogKey, TransactionLogValue,
};
use crate::wire::{DecodeError, EncodeError, Reader};
use millstream_io::batch::NewRecord;
use millstream_io::units::{ProducerEpoch, ProducerId, TimestampMs};
use std::collections::BTreeSet;
use std::sync::Arc;

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogRecord {
    /// A transactional id; `None` when it expired.
    Id { transactional_id: String, transaction: Option<Box<Transaction>> },
    /// A kind or a state that this broker does not know.
    Other,
}

/// The record type in front of a key.
const TRANSACTIONAL_ID: i16 = 0;

/// The version that we write: the one of `transaction.version` 1 and later.
const VALUE_VERSION: i16 = 1;

/// The record of a transactional id; `None` removes it.
///
/// # Errors
/// A text too long for its field.
pub fn encode(id: &str, transaction: Option<&Transaction>) -> Result<NewRecord, EncodeError> {
    let key = encode_key(TRANSACTIONAL_ID, &TransactionLogKey { transactional_id: id })?;
    let value = transaction.map(|transaction| encode_value(&value_of(transaction), VALUE_VERSION));
    Ok(NewRecord { key: Some(key), value: value.transpose()? })
}

fn value_of(transaction: &Transaction) -> TransactionLogValue<'_> {
    let number = |id: Option<ProducerId>| id.map_or(-1, ProducerId::get);
    let partitions = match transaction.state {
        State::Empty => None,
        _ => Some(by_topic(&transaction.partitions)),
    };
    TransactionLogValue {
        producer_id: transaction.producer.get(),
        previous_producer_id: number(transaction.previous),
        next_producer_id: number(transaction.next),
        producer_epoch: transaction.epoch.get(),
        transaction_timeout_ms: transaction.timeout_ms,
        transaction_status: transaction.state.number(),
        transaction_partitions: partitions,
        transaction_last_update_timestamp_ms: transaction.updated_at.get(),
        transaction_start_timestamp_ms: transaction.started_at.map_or(-1, TimestampMs::get),
        client_transaction_version: i16::from(transaction.protocol.number()),
    }
}

/// Partitions under the names of their topics, in order.
pub fn by_topic(partitions: &BTreeSet<Participant>) -> Vec<PartitionsSchema<'_>> {
    let mut topics: Vec<PartitionsSchema<'_>> = Vec::new();
    for (topic, partition) in partitions {
        match topics.last_mut() {
            Some(last) if last.topic == &**topic => last.partition_ids.push(*partition),
            _ => topics.push(PartitionsSchema { topic, partition_ids: vec![*partition] }),
        }
    }
    topics
}

impl LogRecord {
    /// Reads a record of the log.
    ///
    /// # Errors
    /// Bytes that are no such record, or a value of a version from tomorrow.
    pub fn decode(key: &[u8], value: Option<&[u8]>) -> Result<LogRecord, DecodeError> {
        let mut reader = Reader::new(key);
        if reader.i16()? != TRANSACTIONAL_ID {
            return Ok(LogRecord::Other);
        }
        let key: TransactionLogKey<'_> = decode_key(&mut reader)?;
        let transactional_id = key.transactional_id.to_owned();
        let Some(value) = value else {
            return Ok(LogRecord::Id { transactional_id, transaction: None });
        };
        let value: TransactionLogValue<'_> = decode_value(value)?;
        Ok(match transaction_of(&value) {
            Some(transaction) => {
                LogRecord::Id { transactional_id, transaction: Some(Box::new(transaction)) }
            }
            None => LogRecord::Other,
        })
    }
}

/// The transaction that a value tells of; `None` when its numbers mean nothing to us.
fn transaction_of(value: &TransactionLogValue<'_>) -> Option<Transaction> {
    let mut partitions = BTreeSet::new();
    for topic in value.transaction_partitions.iter().flatten() {
        let name: Arc<str> = topic.topic.into();
        partitions.extend(topic.partition_ids.iter().map(|index| (name.clone(), *index)));
    }
    let started_at = value.transaction_start_timestamp_ms;
    let state = State::from_number(value.transaction_status)?;
    let is_stored = !matches!(state, State::Dead | State::PrepareEpochFence);
    is_stored.then_some(())?;
    Some(Transaction {
        producer: ProducerId::new(value.producer_id)?,
        previous: ProducerId::new(value.previous_producer_id),
        next: ProducerId::new(value.next_producer_id),
        epoch: ProducerEpoch::new(value.producer_epoch)?,
        // The schema has no place for it: who asks again after a restart is fenced, as in Apache
        // Kafka.
        last_epoch: None,
        timeout_ms: value.transaction_timeout_ms,
        state,
        partitions: Arc::new(partitions),
        started_at: (started_at >= 0).then(|| TimestampMs::new(started_at)),
        updated_at: TimestampMs::new(value.transaction_last_update_timestamp_ms),
        protocol: Protocol::new(value.client_transaction_version)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transaction(state: State) -> Transaction {
        let participant = |topic: &str, partition| (Arc::from(topic), partition);
        let partitions = [participant("a", 1), participant("b", 0), participant("a", 0)];
        Transaction {
            producer: ProducerId::new(7).unwrap(),
            previous: ProducerId::new(6),
            next: ProducerId::new(8),
            epoch: ProducerEpoch::new(3).unwrap(),
            last_epoch: None,
            timeout_ms: 60_000,
            state,
            partitions: Arc::new(partitions.into()),
            started_at: Some(TimestampMs::new(11)),
            updated_at: TimestampMs::new(12),
            protocol: Protocol::V2,
        }
    }

    #[test]
    fn record_reads_back_as_it_was_written() {
        for state in [State::Ongoing, State::PrepareCommit, State::CompleteAbort] {
            let due = transaction(state);
            let record = encode("tx", Some(&due)).unwrap();
            let read = LogRecord::decode(&record.key.unwrap(), record.value.as_deref()).unwrap();
            let transaction = Some(Box::new(due));
            assert_eq!(read, LogRecord::Id { transactional_id: "tx".into(), transaction });
        }
        let tombstone = encode("tx", None).unwrap();
        assert_eq!(tombstone.value, None);
        let read = LogRecord::decode(&tombstone.key.unwrap(), None).unwrap();
        assert_eq!(read, LogRecord::Id { transactional_id: "tx".into(), transaction: None });
    }

    /// As `TransactionLog.keyToBytes` and `valueToBytes` of Apache Kafka write them.
    #[test]
    fn record_has_these_bytes() {
        let mut due = transaction(State::Ongoing);
        (due.next, due.previous) = (None, None);
        let record = encode("tx", Some(&due)).unwrap();
        assert_eq!(record.key.unwrap(), [0, 0, 0, 2, b't', b'x']);
        let value = [
            &[0, 1][..],
            &7_i64.to_be_bytes(),
            &3_i16.to_be_bytes(),
            &60_000_i32.to_be_bytes(),
            &[1, 3],
            &[2, b'a', 3, 0, 0, 0, 0, 0, 0, 0, 1, 0],
            &[2, b'b', 2, 0, 0, 0, 0, 0],
            &12_i64.to_be_bytes(),
            &11_i64.to_be_bytes(),
            &[1, 2, 2, 0, 2],
        ];
        assert_eq!(record.value.unwrap(), value.concat());
    }

    #[test]
    fn what_is_not_understood_is_told_apart_from_rubbish() {
        assert_eq!(LogRecord::decode(&[0, 9], None).unwrap(), LogRecord::Other);
        assert!(LogRecord::decode(&[0, 0, 0, 9, b'a'], None).is_err());
        assert!(LogRecord::decode(&[0], None).is_err());
        let mut dead = transaction(State::Dead);
        dead.partitions = Arc::default();
        let record = encode("tx", Some(&dead)).unwrap();
        let read = LogRecord::decode(&record.key.unwrap(), record.value.as_deref()).unwrap();
        assert_eq!(read, LogRecord::Other);
    }
}
