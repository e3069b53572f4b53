//! The write verb: one checked batch into its partition's log.

use millstream_io::batch::{CheckedBatch, EndMarker, TimestampType, stamp};
use millstream_io::units::{
    FilePosition, LeaderEpoch, Offset, ProducerStamp, SegmentId, TimestampMs, TopicPartition,
    bytes_u64,
};

use crate::group_commit::Due;
use crate::message::{Append, AppendError, Appended, InvalidRecord, Marker};
use crate::partition_log::PartitionLog;
use crate::placement;
use crate::producers::{Checked, Incoming, Place, ProducerBatch, ProducerError};
use crate::segments::{Index, Segment};

/// What became of a batch that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Staged {
    /// The answer, once everything below `end` is durable.
    pub appended: Appended,
    pub end: Offset,
    pub due: Due,
    /// Bytes added to the log; 0 for a retry of a batch that is there already.
    pub bytes: u64,
}

impl PartitionLog {
    /// Stages one batch: checks it against the partition, copies it to the tail and stamps base
    /// offset and leader epoch there. It is not durable and not visible before its round ends.
    ///
    /// A batch costs one copy, two hash look-ups when it has a producer, and no allocation except
    /// for a new tail chunk, a new index block or a new segment; nothing is done for a record. A
    /// LogAppendTime topic also pays a CRC pass.
    ///
    /// # Errors
    /// [`AppendError`]; nothing was changed then.
    pub fn append(
        &mut self,
        append: &Append,
        forget_producers_before: TimestampMs,
    ) -> Result<Staged, AppendError> {
        let batch = &append.batch;
        self.check_epoch(append.current)?;
        self.check_batch(batch)?;
        self.check_timestamps(batch, append.now)?;
        let incoming = incoming(append);
        if let Some(incoming) = &incoming {
            match self.producers.check(incoming, forget_producers_before) {
                Ok(Checked::Next) => {}
                Ok(Checked::Duplicate(original)) => return Ok(self.duplicate(original)),
                Err(error) => return Err(self.refusal(incoming.stamp, error)),
            }
        }
        let place = self.place(append.now);
        let staged = self.add(batch, append.now)?;
        if let Some(incoming) = &incoming {
            self.producers.staged(incoming, place);
        }
        Ok(staged)
    }

    /// Stages the marker that ends a producer's transaction here, whether it has one or not. Readers
    /// of committed records come past the transaction when the marker is durable.
    ///
    /// # Errors
    /// [`AppendError::InvalidProducerEpoch`] and [`AppendError::TransactionCoordinatorFenced`];
    /// nothing was changed then.
    pub fn append_marker(&mut self, marker: &Marker) -> Result<Staged, AppendError> {
        let Marker { producer, epoch, outcome, coordinator_epoch, .. } = *marker;
        let end = EndMarker { producer, epoch, outcome, coordinator_epoch };
        let checked = self.producers.check_marker(&end, marker.transaction_version);
        checked.map_err(|error| match error {
            ProducerError::CoordinatorFenced { current } => {
                let (at, got) = (self.at, coordinator_epoch);
                AppendError::TransactionCoordinatorFenced { at, producer, current, got }
            }
            error => self.refusal(ProducerStamp { id: producer, epoch, first: None }, error),
        })?;
        let place = self.place(marker.now);
        let staged = self.add(&end.compose(marker.now), marker.now)?;
        self.producers.marked(&end, place);
        Ok(staged)
    }

    /// Where the next batch goes.
    fn place(&self, at: TimestampMs) -> Place {
        Place {
            base: self.marks.log_end(),
            position: self.tail.end(),
            at,
            durable_end: self.marks.durable_end(),
        }
    }

    /// Adds a batch that passed every check.
    fn add(&mut self, batch: &CheckedBatch, now: TimestampMs) -> Result<Staged, AppendError> {
        let base = self.marks.log_end();
        let next = base.checked_add(u64::from(batch.record_count()));
        let Some(next) = next.filter(|next| *next < Offset::MAX) else {
            return Err(self.invalid(InvalidRecord::OffsetsExhausted));
        };
        self.roll_if_due(batch, base, next, now);
        self.stage(batch, base, next, now);
        let appended = self.appended(base, now);
        Ok(Staged { appended, end: next, due: Due::Next, bytes: bytes_u64(batch.len()) })
    }

    fn check_epoch(&self, current: Option<LeaderEpoch>) -> Result<(), AppendError> {
        let (at, ours) = (self.at, self.epoch);
        match current {
            Some(got) if got < ours => Err(AppendError::FencedEpoch { at, current: ours, got }),
            Some(got) if got > ours => Err(AppendError::UnknownEpoch { at, current: ours, got }),
            _ => Ok(()),
        }
    }

    fn check_batch(&self, batch: &CheckedBatch) -> Result<(), AppendError> {
        let (at, got) = (self.at, bytes_u64(batch.len()));
        let limit = self.config.message_bytes_max;
        if got > limit {
            return Err(AppendError::TooLarge { at, limit, got });
        }
        let limit = self.config.segment_bytes;
        if got > limit {
            return Err(AppendError::LargerThanSegment { at, limit, got });
        }
        if batch.attributes().is_control() {
            // Markers come as what they say: see `append_marker`.
            return Err(self.invalid(InvalidRecord::ControlBatch));
        }
        Ok(())
    }

    /// The broker's own stamp needs no check. A record without a timestamp passes.
    fn check_timestamps(&self, batch: &CheckedBatch, now: TimestampMs) -> Result<(), AppendError> {
        if self.config.timestamp_type == TimestampType::LogAppendTime {
            return Ok(());
        }
        let (oldest, newest) = (batch.base_timestamp(), batch.max_timestamp());
        let further = |ms: i64, limit: u64| u64::try_from(ms).is_ok_and(|ms| ms > limit);
        for got in [oldest, newest] {
            let late = further(got.since_ms(now), self.config.timestamp_after_max_ms);
            let early = further(now.since_ms(got), self.config.timestamp_before_max_ms);
            if !got.is_none() && (late || early) {
                return Err(AppendError::InvalidTimestamp { at: self.at, now, got });
            }
        }
        Ok(())
    }

    fn refusal(&self, stamp: ProducerStamp, error: ProducerError) -> AppendError {
        let ProducerStamp { id: producer, epoch: got, first } = stamp;
        let at = self.at;
        match (error, first) {
            (ProducerError::Fenced { current }, _) => {
                AppendError::InvalidProducerEpoch { at, producer, current, got }
            }
            (ProducerError::OutOfOrder { expected }, Some(got)) => {
                AppendError::OutOfOrderSequence { at, producer, expected, got }
            }
            (ProducerError::Transaction(reason), _) => {
                AppendError::InvalidTxnState { at, producer, reason }
            }
            (ProducerError::TooMany { limit }, _) => AppendError::TooManyTransactions { at, limit },
            (ProducerError::OutOfOrder { .. } | ProducerError::CoordinatorFenced { .. }, _) => {
                panic!(
                    "{at}: producer {producer} is refused for what its batch does not say: {error:?}"
                )
            }
        }
    }

    /// The answer to a retry is that to the original, and waits for the original to be durable.
    fn duplicate(&self, original: ProducerBatch) -> Staged {
        let end = original.base_offset.add(u64::from(original.records));
        let appended = self.appended(original.base_offset, original.at);
        Staged { appended, end, due: self.due(end), bytes: 0 }
    }

    fn appended(&self, base_offset: Offset, at: TimestampMs) -> Appended {
        let stamped = self.config.timestamp_type == TimestampType::LogAppendTime;
        Appended {
            base_offset,
            log_append_time: stamped.then_some(at),
            log_start: self.marks.log_start(),
        }
    }

    fn invalid(&self, reason: InvalidRecord) -> AppendError {
        AppendError::InvalidRecord { at: self.at, reason }
    }

    fn roll_if_due(&mut self, batch: &CheckedBatch, base: Offset, next: Offset, now: TimestampMs) {
        let due = match self.segments.last() {
            None => true,
            Some(last) => {
                last.closed || last.id.epoch != self.epoch || self.is_full(last, batch, next, now)
            }
        };
        if due {
            let id = SegmentId::new(self.epoch, base);
            self.segments.open(id, self.tail.end(), now);
        }
    }

    /// True when a batch that ends at `next` no longer belongs in `segment`.
    fn is_full(
        &self,
        segment: &Segment,
        batch: &CheckedBatch,
        next: Offset,
        now: TimestampMs,
    ) -> bool {
        if segment.bytes == 0 {
            return false;
        }
        let stamped = self.config.timestamp_type == TimestampType::LogAppendTime;
        let newest = if stamped { now } else { batch.max_timestamp() };
        let age_ms = self.age_at_roll(segment, newest, now);
        let jitter_max = self.config.segment_jitter_ms.min(self.config.segment_ms);
        let jitter_ms = jitter(jitter_max, self.at, segment.id.base);
        let index_bytes = match &segment.index {
            Index::Memory(index) => index.file_bytes(),
            Index::File(_) => 0,
        };
        segment.bytes + bytes_u64(batch.len()) > self.config.segment_bytes
            || age_ms > self.config.segment_ms.saturating_sub(jitter_ms)
            || index_bytes + INDEX_ENTRY_BYTES > self.config.segment_index_bytes
            || next.relative_to(segment.id.base).is_none()
    }

    /// How much time lies in a segment when a record of the time `newest` comes: records tell it
    /// themselves where they have timestamps, as with Apache Kafka, so that what is copied from an
    /// older log is divided as that was.
    fn age_at_roll(&self, segment: &Segment, newest: TimestampMs, now: TimestampMs) -> u64 {
        let age_ms = match segment.first_timestamp.get() {
            0.. => newest.since_ms(segment.first_timestamp),
            _ => now.since_ms(segment.opened_at),
        };
        u64::try_from(age_ms).unwrap_or(0)
    }

    /// Copies, stamps, indexes.
    fn stage(&mut self, batch: &CheckedBatch, base: Offset, next: Offset, now: TimestampMs) {
        let Some(segment) = self.segments.last() else {
            panic!("{}: offset {base} is staged without a segment", self.at);
        };
        let at = FilePosition::new(segment.bytes);
        let copy = self.tail.stage(batch.bytes(), (base, next), at);
        stamp::place(copy, base, self.epoch);
        let mut max_timestamp = batch.max_timestamp();
        if self.config.timestamp_type == TimestampType::LogAppendTime {
            stamp::log_append_time(copy, now);
            max_timestamp = now;
        }
        self.segments.append(base, next, batch.len(), max_timestamp, now);
        self.marks.staged(next);
        self.tasks.note_append();
    }
}

/// What the producer's state must know of a batch; `None` for one without a producer.
#[inline]
fn incoming(append: &Append) -> Option<Incoming> {
    let batch = &append.batch;
    let stamp = batch.producer()?;
    let transactional = batch.attributes().is_transactional();
    Some(Incoming {
        stamp,
        records: batch.record_count(),
        transactional,
        origin: batch.origin(),
        guard: append.transaction,
    })
}

/// What is taken off the age at which the segment at `base` is closed, below `max` and spread evenly
/// over segments and partitions.
fn jitter(max: u64, at: TopicPartition, base: Offset) -> u64 {
    match max {
        0 => 0,
        max => placement::spread(at, base.get().unsigned_abs()) % max,
    }
}

const INDEX_ENTRY_BYTES: u64 = bytes_u64(millstream_io::limits::INDEX_ENTRY_BYTES);

#[cfg(test)]
#[path = "append_tests.rs"]
mod append_tests;
