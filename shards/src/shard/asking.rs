//! Questions that a shard answers from memory.

use millstream_io::units::{LeaderEpoch, TopicId, TopicPartition};

use crate::limits::MARKS_AT_ONCE;
use crate::message::{EpochEnd, TransactionQuery, TransactionState};
use crate::partition_log::PartitionLog;
use crate::query::{
    ActiveProducer, EpochQuery, MarksPiece, PartitionMarks, PartitionSize, QueryError,
};

use super::ShardState;

impl ShardState {
    /// Ends of leader epochs, of durable records only: an answer must not be taken back by a crash.
    pub fn epoch_ends(&self, queries: &[EpochQuery]) -> Vec<Result<Option<EpochEnd>, QueryError>> {
        let one = |query: &EpochQuery| {
            let log = self.known(query.at, query.current)?;
            Ok(log.epochs.end_of(query.epoch, log.marks.high_watermark()))
        };
        queries.iter().map(one).collect()
    }

    /// Says whether producers' next transactional batches need their coordinator's word, and gives
    /// out the guards for it.
    pub fn transactions(
        &mut self,
        queries: &[TransactionQuery],
    ) -> Vec<Result<TransactionState, QueryError>> {
        let one = |query: &TransactionQuery| match self.partitions.find_mut(query.at) {
            Some((_, log)) => Ok(log.transaction(query)),
            None => Err(QueryError::UnknownPartition { at: query.at }),
        };
        queries.iter().map(one).collect()
    }

    pub fn producers(
        &self,
        partitions: &[TopicPartition],
    ) -> Vec<Result<Vec<ActiveProducer>, QueryError>> {
        let one = |at: &TopicPartition| Ok(self.known(*at, None)?.producers.active());
        partitions.iter().map(one).collect()
    }

    pub fn sizes(&self, partitions: &[TopicPartition]) -> Vec<Result<PartitionSize, QueryError>> {
        let one = |at: &TopicPartition| {
            let bytes = self.known(*at, None)?.segments.bytes();
            Ok(PartitionSize { at: *at, bytes })
        };
        partitions.iter().map(one).collect()
    }

    /// A piece of a walk over all partitions, from place `from` on. Partitions that come and go
    /// between two pieces may be missed; no other is, and none comes twice.
    pub fn marks_piece(&self, from: u32) -> MarksPiece {
        let mut piece = MarksPiece::default();
        for (place, log) in self.partitions.iter_from(from) {
            if piece.partitions.len() == MARKS_AT_ONCE {
                piece.next = Some(place);
                break;
            }
            if !log.dropping {
                let (marks, bytes) = (log.marks.get(), log.segments.bytes());
                piece.partitions.push(PartitionMarks { at: log.at, marks, bytes });
            }
        }
        piece
    }

    /// Marks a topic's partitions as going away, and names them.
    pub fn begin_drop(&mut self, topic: TopicId) -> Vec<TopicPartition> {
        let mut dropped = Vec::new();
        for slot in self.partitions.slots_of(topic) {
            if let Some(log) = self.partitions.get_mut(slot) {
                log.dropping = true;
                dropped.push(log.at);
            }
        }
        dropped
    }

    /// A partition, if the asker's leader epoch is ours.
    pub(crate) fn known(
        &self,
        at: TopicPartition,
        epoch: Option<LeaderEpoch>,
    ) -> Result<&PartitionLog, QueryError> {
        let slot = self.partitions.slot_of(at);
        let Some(log) = slot.and_then(|slot| self.partitions.get(slot)) else {
            return Err(QueryError::UnknownPartition { at });
        };
        let current = log.epoch;
        match epoch {
            Some(got) if got < current => Err(QueryError::FencedEpoch { at, current, got }),
            Some(got) if got > current => Err(QueryError::UnknownEpoch { at, current, got }),
            _ => Ok(log),
        }
    }
}
