//! What one core counts. Plain numbers, collected when somebody asks.

use crate::message::AppendError;

/// Counters of one shard since its start. Each only rises. Lives on the owner's core; a copy
/// travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Batches, records and bytes that were staged.
    pub append_batches_total: u64,
    pub append_records_total: u64,
    pub append_bytes_total: u64,
    /// Markers that ended transactions, of all batches above.
    pub transaction_markers_total: u64,
    /// Retried batches that were recognised and not stored again.
    pub append_duplicates_total: u64,
    pub append_refused_total: u64,
    /// The same by reason.
    pub refused: Refused,
    /// Batches stamped with the broker's time, and so summed up again (LogAppendTime).
    pub batch_reencode_total: u64,
    /// Batches whose records were looked at (exact offsets by time).
    pub record_decode_total: u64,
    /// Commit rounds, and partitions and bytes in them.
    pub rounds_total: u64,
    pub round_partitions_total: u64,
    pub journal_bytes_total: u64,
    pub direct_bytes_total: u64,
    /// Rounds that waited because every journal file was needed.
    pub journal_full_total: u64,
    /// Flushes asked of the device: journal frames and segment syncs.
    pub fsync_total: u64,
    /// Bytes written to segments behind the journal.
    pub behind_bytes_total: u64,
    pub checkpoints_total: u64,
    pub segments_sealed_total: u64,
    /// Times a log start was raised, and segments removed behind it.
    pub deletions_total: u64,
    pub segments_deleted_total: u64,
    /// Log starts ordered to rise by retention, since records were too old, or too much.
    pub retention_by_time_total: u64,
    pub retention_by_size_total: u64,
    pub cleaning: CleaningCounts,
    /// Removals on a full disk that took an older saved state of the producers with them.
    pub producers_forgotten_total: u64,
    /// Reads planned, and their bytes from memory and from files.
    pub reads_total: u64,
    pub read_memory_bytes_total: u64,
    pub read_file_bytes_total: u64,
    /// Look-ups that left the core because the batches are in a file.
    pub cold_reads_total: u64,
    /// Reads of a file that needed no look, since the batches were checked before.
    pub checked_reads_total: u64,
    /// Batches found damaged on the way to a reader.
    pub read_corrupt_total: u64,
    pub tail_evicted_bytes_total: u64,
}

/// What compaction has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleaningCounts {
    /// Passes over a partition that came to their end, and those that ended early: for want of space, a
    /// deletion, a failed disk, or a stop.
    pub finished: u64,
    pub broken_off: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Segments that others took the place of.
    pub segments: u64,
    /// Segments found damaged, which stay as they are.
    pub damaged: u64,
    /// Batches whose records were looked at, and those that were written anew.
    pub decoded: u64,
    pub rewritten: u64,
}

/// Batches that were refused, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    pub unknown_partition: u64,
    /// The client's leader epoch is not ours.
    pub leader_epoch: u64,
    /// The batch does not continue its producer's stream.
    pub out_of_order_sequence: u64,
    /// The producer was fenced.
    pub producer_epoch: u64,
    /// The batch does not fit the state of its producer's transactions, or more of them cannot be
    /// remembered.
    pub transaction_state: u64,
    /// The marker came from a coordinator that another has taken over from.
    pub coordinator_epoch: u64,
    pub too_large: u64,
    pub invalid_record: u64,
    pub invalid_timestamp: u64,
    /// The data directory failed, ran full, or hangs.
    pub storage_failed: u64,
    pub storage_full: u64,
    pub storage_stalled: u64,
    pub stopping: u64,
}

impl Metrics {
    /// Counts a refused batch.
    pub(crate) fn refuse(&mut self, error: &AppendError) {
        self.append_refused_total += 1;
        let refused = &mut self.refused;
        *match error {
            AppendError::UnknownPartition { .. } => &mut refused.unknown_partition,
            AppendError::FencedEpoch { .. } | AppendError::UnknownEpoch { .. } => {
                &mut refused.leader_epoch
            }
            AppendError::OutOfOrderSequence { .. } => &mut refused.out_of_order_sequence,
            AppendError::InvalidProducerEpoch { .. } => &mut refused.producer_epoch,
            AppendError::InvalidTxnState { .. } | AppendError::TooManyTransactions { .. } => {
                &mut refused.transaction_state
            }
            AppendError::TransactionCoordinatorFenced { .. } => &mut refused.coordinator_epoch,
            AppendError::TooLarge { .. } | AppendError::LargerThanSegment { .. } => {
                &mut refused.too_large
            }
            AppendError::InvalidRecord { .. } => &mut refused.invalid_record,
            AppendError::InvalidTimestamp { .. } => &mut refused.invalid_timestamp,
            AppendError::Storage { .. } => &mut refused.storage_failed,
            AppendError::DiskFull { .. } => &mut refused.storage_full,
            AppendError::Stalled { .. } => &mut refused.storage_stalled,
            AppendError::Stopping => &mut refused.stopping,
        } += 1;
    }
}

/// What one shard holds now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    pub partitions: u64,
    /// Bytes staged and not durable.
    pub staged_bytes: u64,
    /// Durable bytes that are in no segment file yet.
    pub unwritten_bytes: u64,
    /// Memory of the tails.
    pub tail_bytes: u64,
    /// Requests that wait for a round.
    pub waiting_appends: u64,
    /// Fetches that wait for records.
    pub waiting_reads: u64,
    pub journal_files_live: u64,
    pub journal_files_max: u64,
    /// 1 when the data directory failed, ran full, or the device hangs.
    pub failed: u64,
    pub full: u64,
    pub stalled: u64,
    /// Partitions that records from the future kept from growing old at the last look.
    pub retention_from_future: u64,
    /// 1 while retention does not believe the clock of day.
    pub retention_clock_held: u64,
}
