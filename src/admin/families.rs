//! Every metric there is: the one table, from which the text and README's list come.

/// One metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static [&'static str],
    pub help: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
}

impl Kind {
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        }
    }
}

macro_rules! families {
    ($($const:ident = $kind:ident $name:literal [$($label:literal),*] $help:expr;)*) => {
        $(pub static $const: Family = Family {
            name: $name,
            kind: Kind::$kind,
            labels: &[$($label),*],
            help: $help,
        };)*

        /// All, in the order of the text.
        pub static ALL: &[&Family] = &[$(&$const),*];
    };
}

families! {
    BUILD_INFO = Gauge "millstream_build_info" ["version"] "Always 1; the label says what runs.";
    READY = Gauge "millstream_ready" [] "1 when /readyz answers 200.";
    CPU_SECONDS = Counter "process_cpu_seconds_total" [] "CPU time of the process, user and system.";
    RESIDENT_BYTES = Gauge "process_resident_memory_bytes" [] "Resident memory.";
    VIRTUAL_BYTES = Gauge "process_virtual_memory_bytes" [] "Virtual memory.";
    OPEN_FDS = Gauge "process_open_fds" [] "Open descriptors.";
    MAX_FDS = Gauge "process_max_fds" [] "Descriptors that the process may have open.";
    THREADS = Gauge "process_threads" [] "Threads.";
    START_SECONDS = Gauge "process_start_time_seconds" [] "When the process began, in Unix time.";
    OBSERVATION_SECONDS = Gauge "millstream_observation_seconds" []
        "How long the cores took to say what this text says.";
    TOPICS = Gauge "millstream_topics" [] "Topics, those of the broker's own included.";
    CONNECTIONS_ACCEPTED = Counter "millstream_connections_accepted_total" []
        "Connections that were let in.";
    CONNECTIONS_REFUSED = Counter "millstream_connections_refused_total" []
        "Connections that were closed at once, for max.connections, max.connections.per.ip or want \
         of descriptors.";
    CORE_UP = Gauge "millstream_core_up" ["core"]
        "0 when the core did not answer in time; its other series are missing then.";
    CONNECTIONS = Gauge "millstream_connections" ["core"] "Open connections.";
    REQUESTS = Counter "millstream_requests_total" ["core", "api"] "Requests begun, by API.";
    LOGINS = Counter "millstream_logins_total" ["core", "mechanism", "outcome"]
        "Logins and re-authentications that came to an end: ok, or failed.";
    SESSIONS_EXPIRED = Counter "millstream_login_sessions_expired_total" ["core"]
        "Logins that were over and not renewed in time.";
    REQUEST_MEMORY = Gauge "millstream_request_memory_bytes" ["core"]
        "Bytes of requests that are read in part or not answered.";
    APPEND_BATCHES = Counter "millstream_append_batches_total" ["core"] "Batches staged.";
    APPEND_RECORDS = Counter "millstream_append_records_total" ["core"] "Records staged.";
    APPEND_BYTES = Counter "millstream_append_bytes_total" ["core"] "Bytes of batches staged.";
    TRANSACTION_MARKERS = Counter "millstream_transaction_markers_total" ["core"]
        "Markers staged that ended a transaction in a partition, as committed or aborted.";
    APPEND_DUPLICATES = Counter "millstream_append_duplicates_total" ["core"]
        "Retried batches that were recognised and not stored again.";
    APPEND_REFUSED = Counter "millstream_append_refused_total" ["core", "reason"]
        "Batches refused, by reason: fenced producers, a failed, full or stalled disk and others.";
    BATCH_REENCODE = Counter "millstream_batch_reencode_total" ["core", "reason"]
        "Batches not stored as they came: compressed anew (compression.type), stamped with the \
         broker's time and summed up again (LogAppendTime), or written anew by compaction.";
    RECORD_DECODE = Counter "millstream_record_decode_total" ["core", "reason"]
        "Batches whose records were looked at: for exact offsets by time (time), or by compaction.";
    ROUNDS = Counter "millstream_rounds_total" ["core"] "Commit rounds: one flush each.";
    ROUND_PARTITIONS = Counter "millstream_round_partitions_total" ["core"]
        "Partitions in commit rounds.";
    JOURNAL_BYTES = Counter "millstream_journal_bytes_total" ["core"] "Bytes written to the journal.";
    DIRECT_BYTES = Counter "millstream_direct_bytes_total" ["core"]
        "Bytes that rounds wrote straight to segments.";
    JOURNAL_FULL = Counter "millstream_journal_full_total" ["core"]
        "Rounds that waited because every journal file was needed.";
    FSYNC = Counter "millstream_fsync_total" ["core"] "Flushes asked of the device.";
    BEHIND_BYTES = Counter "millstream_behind_bytes_total" ["core"]
        "Bytes written to segments behind the journal.";
    CHECKPOINTS = Counter "millstream_checkpoints_total" ["core"] "Checkpoints of partitions saved.";
    SEGMENTS_SEALED = Counter "millstream_segments_sealed_total" ["core"] "Segments closed.";
    DELETIONS = Counter "millstream_deletions_total" ["core"] "Times that a log start was raised.";
    SEGMENTS_DELETED = Counter "millstream_segments_deleted_total" ["core"]
        "Segments removed: below a log start, or replaced by compaction.";
    RETENTION_BY_TIME = Counter "millstream_retention_by_time_total" ["core"]
        "Log starts ordered to rise because records were older than retention.ms.";
    RETENTION_BY_SIZE = Counter "millstream_retention_by_size_total" ["core"]
        "Log starts ordered to rise because a partition was larger than retention.bytes.";
    CLEANINGS = Counter "millstream_cleanings_total" ["core"]
        "Passes of compaction over a partition that came to their end.";
    CLEANINGS_BROKEN_OFF = Counter "millstream_cleanings_broken_off_total" ["core"]
        "Passes of compaction that ended early: for want of space, a deletion, a failed disk or a stop.";
    CLEANED_READ_BYTES = Counter "millstream_cleaned_read_bytes_total" ["core"]
        "Bytes of log read by compaction.";
    CLEANED_WRITTEN_BYTES = Counter "millstream_cleaned_written_bytes_total" ["core"]
        "Bytes of log written by compaction.";
    SEGMENTS_CLEANED = Counter "millstream_segments_cleaned_total" ["core"]
        "Segments that compaction put others in the place of.";
    CLEANING_DAMAGED = Counter "millstream_cleaning_damaged_total" ["core"]
        "Segments that compaction found damaged and left as they are.";
    PRODUCERS_FORGOTTEN = Counter "millstream_producers_forgotten_total" ["core"]
        "Removals on a full disk that took an older saved state of the producers with them.";
    READS = Counter "millstream_reads_total" ["core"] "Reads of partitions planned.";
    READ_MEMORY_BYTES = Counter "millstream_read_memory_bytes_total" ["core"] "Bytes read from memory.";
    READ_FILE_BYTES = Counter "millstream_read_file_bytes_total" ["core"] "Bytes read from files.";
    COLD_READS = Counter "millstream_cold_reads_total" ["core"]
        "Reads that had to look into a file first.";
    CHECKED_READS = Counter "millstream_checked_reads_total" ["core"]
        "Reads of files that needed no look, since the batches were checked before.";
    READ_CORRUPT = Counter "millstream_read_corrupt_total" ["core"]
        "Batches found damaged on the way to a reader.";
    TAIL_EVICTED_BYTES = Counter "millstream_tail_evicted_bytes_total" ["core"]
        "Memory of tails given back.";
    PARTITIONS = Gauge "millstream_partitions" ["core"] "Open partitions.";
    STAGED_BYTES = Gauge "millstream_staged_bytes" ["core"] "Bytes staged and not durable.";
    UNWRITTEN_BYTES = Gauge "millstream_unwritten_bytes" ["core"]
        "Durable bytes that are in the journal and in no segment yet.";
    TAIL_BYTES = Gauge "millstream_tail_bytes" ["core"] "Memory of the tails of partitions.";
    WAITING_APPENDS = Gauge "millstream_waiting_appends" ["core"] "Requests that wait for a flush.";
    WAITING_READS = Gauge "millstream_waiting_reads" ["core"] "Fetches that wait for records.";
    JOURNAL_FILES = Gauge "millstream_journal_files" ["core"] "Journal files whose bytes are needed.";
    JOURNAL_FILES_MAX = Gauge "millstream_journal_files_max" ["core"] "Journal files there may be.";
    STORAGE_FAILED = Gauge "millstream_storage_failed" ["core"]
        "1 when the data directory has failed a write: nothing is stored until a restart.";
    STORAGE_FULL = Gauge "millstream_storage_full" ["core"] "1 while the disk is full.";
    STORAGE_STALLED = Gauge "millstream_storage_stalled" ["core"]
        "1 while a flush takes longer than the watchdog allows.";
    RETENTION_FROM_FUTURE = Gauge "millstream_retention_future_partitions" ["core"]
        "Partitions whose oldest segment has a record from the future, so that it does not grow old.";
    RETENTION_CLOCK_HELD = Gauge "millstream_retention_clock_held" ["core"]
        "1 while the clock of day is ahead of the time that passed, and no record is old by it yet.";
    GROUP_PARTITIONS_LOADING = Gauge "millstream_group_partitions_loading" ["core"]
        "Partitions of __consumer_offsets whose groups are not loaded, and so not told of here.";
    GROUP_REBALANCES = Counter "millstream_group_rebalances_total" ["core", "protocol"]
        "Generations and epochs that groups began.";
    GROUP_OFFSET_COMMITS = Counter "millstream_group_offset_commits_total" ["core"]
        "Offsets that groups committed, those in transactions included.";
    GROUP_OFFSETS_EXPIRED = Counter "millstream_group_offsets_expired_total" ["core"]
        "Offsets forgotten because nobody used them for offsets.retention.minutes.";
    GROUP_OFFSETS_DELETED = Counter "millstream_group_offsets_deleted_total" ["core"]
        "Offsets deleted by request, or with their topic or group.";
    TRANSACTIONAL_IDS = Gauge "millstream_transactional_ids" ["core", "state"]
        "Transactional ids that are known, by the state of their transaction.";
    TRANSACTIONS_ENDED = Counter "millstream_transactions_ended_total" ["core", "outcome"]
        "Transactions whose outcome became durable, as commit or abort.";
    TRANSACTIONS_TIMED_OUT = Counter "millstream_transactions_timed_out_total" ["core"]
        "Transactions aborted because they were open for longer than their transaction.timeout.ms.";
    TRANSACTION_OLDEST_OPEN = Gauge "millstream_transaction_oldest_open_seconds" ["core"]
        "How long the oldest transaction is open; 0 when none is.";
    TRANSACTIONS_COMPLETING = Gauge "millstream_transactions_completing" ["core"]
        "Transactions that are ended and whose markers are not all written.";
    TRANSACTION_PARTITIONS_LOADING = Gauge "millstream_transaction_partitions_loading" ["core"]
        "Partitions of __transaction_state whose transactional ids are not loaded.";
    COORDINATOR_LOADS = Counter "millstream_coordinator_loads_total" ["core", "coordinator"]
        "Loads of a partition of __consumer_offsets (group) or __transaction_state (transaction).";
    COORDINATOR_LOAD_SECONDS = Counter "millstream_coordinator_load_seconds_total"
        ["core", "coordinator"] "Time that these loads took together.";
    COORDINATOR_LOAD_LONGEST = Gauge "millstream_coordinator_load_longest_seconds"
        ["core", "coordinator"] "The longest of them since the start.";
    TOPIC_PARTITIONS = Gauge "millstream_topic_partitions" ["topic"]
        "Partitions, at most admin.metrics.detail.max topics.";
    TOPIC_LOG_BYTES = Gauge "millstream_topic_log_bytes" ["topic"]
        "Bytes of log over all partitions, at most admin.metrics.detail.max topics.";
    TOPIC_HIGH_WATERMARKS = Gauge "millstream_topic_high_watermarks" ["topic"]
        "Sum of the high watermarks of all partitions, at most admin.metrics.detail.max topics.";
    LOG_START = Gauge "millstream_partition_log_start_offset" ["topic", "partition"]
        "First offset that may be read; none when there are more than admin.metrics.detail.max \
         partitions.";
    LAST_STABLE = Gauge "millstream_partition_last_stable_offset" ["topic", "partition"]
        "Where readers of committed records stop; bounded like the log start.";
    HIGH_WATERMARK = Gauge "millstream_partition_high_watermark" ["topic", "partition"]
        "Where other readers stop; bounded like the log start.";
    LOG_END = Gauge "millstream_partition_log_end_offset" ["topic", "partition"]
        "The next record gets this offset; bounded like the log start.";
    LOG_BYTES = Gauge "millstream_partition_log_bytes" ["topic", "partition"]
        "Bytes of log; bounded like the log start.";
    GROUPS = Gauge "millstream_groups" ["protocol", "state"] "Groups.";
    GROUP_INFO = Gauge "millstream_group_info" ["group", "protocol", "protocol_type"]
        "Always 1; the labels say what a group is. No series of single groups when there are more \
         than admin.metrics.detail.max.";
    GROUP_STATE = Gauge "millstream_group_state" ["group", "state"]
        "Always 1; the label says the state that the group is in.";
    GROUP_MEMBERS = Gauge "millstream_group_members" ["group"] "Members.";
    GROUP_EPOCH = Gauge "millstream_group_epoch" ["group"]
        "Generation of a classic group, epoch of one of the consumer protocol.";
    GROUP_LAG = Gauge "millstream_group_lag_records" ["group", "isolation"]
        "Sum of the lag over all partitions with a committed offset.";
    GROUP_TOPIC_LAG = Gauge "millstream_group_topic_lag_records" ["group", "topic", "isolation"]
        "Sum of the lag over a topic's partitions with a committed offset; none when there are more \
         than admin.metrics.detail.max pairs of group and topic.";
    GROUP_COMMITTED = Gauge "millstream_group_partition_committed_offset"
        ["group", "topic", "partition"]
        "The next offset that the group wants; none when there are more than \
         admin.metrics.detail.max committed offsets.";
    GROUP_PARTITION_LAG = Gauge "millstream_group_partition_lag_records"
        ["group", "topic", "partition", "isolation"]
        "Offsets from the committed one up to the high watermark (read_uncommitted) or the last \
         stable offset (read_committed), 0 when it is ahead; none without a commit; bounded like the \
         committed offsets.";
}

/// The table as README shows it.
pub fn markdown() -> String {
    let mut table = String::from("| Metric | Kind | Labels | What it says |\n|---|---|---|---|\n");
    for family in ALL {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let (name, kind, help) = (family.name, family.kind.name(), family.help);
        table.push_str(&format!("| `{name}` | {kind} | {} | {help} |\n", labels.join(", ")));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// <https://prometheus.io/docs/practices/naming/>
    #[test]
    fn names_are_unique_and_follow_the_rules() {
        let names: BTreeSet<&str> = ALL.iter().map(|family| family.name).collect();
        assert_eq!(names.len(), ALL.len());
        for family in ALL {
            let plain = |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c == '_');
            assert!(plain(family.name) && family.labels.iter().all(|label| plain(label)));
            let is_counter = family.kind == Kind::Counter;
            assert_eq!(is_counter, family.name.ends_with("_total"), "{}", family.name);
            assert!(family.help.ends_with('.') && !family.help.contains('\n'), "{}", family.name);
            for suffix in ["_sum", "_count", "_bucket", "_ms", "_info_total"] {
                assert!(!family.name.ends_with(suffix), "{}", family.name);
            }
        }
    }
}
