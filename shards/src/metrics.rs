//! What one core counts. Plain numbers, collected when somebody asks.

/// Counters of one shard since its start. Each only rises. Lives on the owner's core; a copy
/// travels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Batches, records and bytes that were staged.
    pub append_batches_total: u64,
    pub append_records_total: u64,
    pub append_bytes_total: u64,
    /// Retried batches that were recognised and not stored again.
    pub append_duplicates_total: u64,
    pub append_refused_total: u64,
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
    /// Removals on a full disk that took an older saved state of the producers with them.
    pub producers_forgotten_total: u64,
    /// Reads planned, and their bytes from memory and from files.
    pub reads_total: u64,
    pub read_memory_bytes_total: u64,
    pub read_file_bytes_total: u64,
    /// Look-ups that left the core because the batches are in a file.
    pub cold_reads_total: u64,
    /// Batches found damaged on the way to a reader.
    pub read_corrupt_total: u64,
    pub tail_evicted_bytes_total: u64,
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
}
