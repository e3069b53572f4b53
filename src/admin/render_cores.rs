//! The metrics of the cores.

use super::core_task::CoreCounts;
use super::families::*;
use super::render_coordinators;
use super::text::Text;
use millstream_io::units::bytes_u64;
use millstream_shards::metrics::{CleaningCounts, Levels, Metrics, Refused};

/// Writes the counters of every core that answered.
pub fn write(text: &mut Text, counts: &[Option<CoreCounts>]) {
    let mut up = text.family(&CORE_UP);
    for (core, counts) in counts.iter().enumerate() {
        up.add(&[&core.to_string()], u8::from(counts.is_some()));
    }
    let named = |(core, counts): (usize, &Option<CoreCounts>)| {
        counts.clone().map(|counts| (core.to_string(), counts))
    };
    let cores: Vec<(String, CoreCounts)> = counts.iter().enumerate().filter_map(named).collect();
    let Some((_, first)) = cores.first() else { return };
    text.value(&CONNECTIONS_ACCEPTED, first.admitted.accepted);
    text.value(&CONNECTIONS_REFUSED, first.admitted.refused);
    of_each(text, &cores, |counts| {
        vec![
            (&CONNECTIONS, bytes_u64(counts.connections)),
            (&REQUEST_MEMORY, bytes_u64(counts.request_memory_bytes)),
            (&SESSIONS_EXPIRED, counts.sessions_expired),
        ]
    });
    let mut requests = text.family(&REQUESTS);
    for (core, counts) in &cores {
        for (api, count) in &counts.requests {
            requests.add(&[core, api.name()], count);
        }
    }
    let mut logins = text.family(&LOGINS);
    for (core, counts) in &cores {
        for (mechanism, done, failed) in &counts.logins {
            logins.add(&[core, mechanism.name(), "ok"], done);
            logins.add(&[core, mechanism.name(), "failed"], failed);
        }
    }
    let mut refused = text.family(&APPEND_REFUSED);
    for (core, counts) in &cores {
        for (reason, count) in reasons(counts.metrics.refused) {
            refused.add(&[core, reason], count);
        }
    }
    let mut reencoded = text.family(&BATCH_REENCODE);
    for (core, counts) in &cores {
        let metrics = &counts.metrics;
        reencoded.add(&[core, "compression"], counts.batches_recompressed);
        reencoded.add(&[core, "log_append_time"], metrics.batch_reencode_total);
        reencoded.add(&[core, "compaction"], metrics.cleaning.rewritten);
    }
    let mut decoded = text.family(&RECORD_DECODE);
    for (core, counts) in &cores {
        let metrics = &counts.metrics;
        decoded.add(&[core, "time"], metrics.record_decode_total);
        decoded.add(&[core, "compaction"], metrics.cleaning.decoded);
    }
    of_each(text, &cores, |counts| counters(counts.metrics));
    of_each(text, &cores, |counts| cleaning(counts.metrics.cleaning));
    of_each(text, &cores, |counts| levels(counts.levels));
    render_coordinators::write(text, &cores);
}

/// Writes families of one sample a core.
pub(super) fn of_each(
    text: &mut Text,
    cores: &[(String, CoreCounts)],
    values: impl Fn(&CoreCounts) -> Vec<(&'static Family, u64)>,
) {
    let values: Vec<_> = cores.iter().map(|(core, counts)| (core, values(counts))).collect();
    let families = values.first().map_or(0, |(_, values)| values.len());
    for place in 0..families {
        let mut samples = text.family(values[0].1[place].0);
        for (core, values) in &values {
            samples.add(&[core], values[place].1);
        }
    }
}

/// Takes every field apart, so that a new one is not forgotten here.
fn counters(metrics: Metrics) -> Vec<(&'static Family, u64)> {
    let Metrics {
        append_batches_total,
        append_records_total,
        append_bytes_total,
        transaction_markers_total,
        append_duplicates_total,
        append_refused_total: _, // By reason.
        refused: _,
        batch_reencode_total: _, // By reason.
        record_decode_total: _,
        rounds_total,
        round_partitions_total,
        journal_bytes_total,
        direct_bytes_total,
        journal_full_total,
        fsync_total,
        behind_bytes_total,
        checkpoints_total,
        segments_sealed_total,
        deletions_total,
        segments_deleted_total,
        retention_by_time_total,
        retention_by_size_total,
        cleaning: _, // By themselves.
        producers_forgotten_total,
        reads_total,
        read_memory_bytes_total,
        read_file_bytes_total,
        cold_reads_total,
        checked_reads_total,
        read_corrupt_total,
        tail_evicted_bytes_total,
    } = metrics;
    vec![
        (&APPEND_BATCHES, append_batches_total),
        (&APPEND_RECORDS, append_records_total),
        (&APPEND_BYTES, append_bytes_total),
        (&TRANSACTION_MARKERS, transaction_markers_total),
        (&APPEND_DUPLICATES, append_duplicates_total),
        (&ROUNDS, rounds_total),
        (&ROUND_PARTITIONS, round_partitions_total),
        (&JOURNAL_BYTES, journal_bytes_total),
        (&DIRECT_BYTES, direct_bytes_total),
        (&JOURNAL_FULL, journal_full_total),
        (&FSYNC, fsync_total),
        (&BEHIND_BYTES, behind_bytes_total),
        (&CHECKPOINTS, checkpoints_total),
        (&SEGMENTS_SEALED, segments_sealed_total),
        (&DELETIONS, deletions_total),
        (&SEGMENTS_DELETED, segments_deleted_total),
        (&RETENTION_BY_TIME, retention_by_time_total),
        (&RETENTION_BY_SIZE, retention_by_size_total),
        (&PRODUCERS_FORGOTTEN, producers_forgotten_total),
        (&READS, reads_total),
        (&READ_MEMORY_BYTES, read_memory_bytes_total),
        (&READ_FILE_BYTES, read_file_bytes_total),
        (&COLD_READS, cold_reads_total),
        (&CHECKED_READS, checked_reads_total),
        (&READ_CORRUPT, read_corrupt_total),
        (&TAIL_EVICTED_BYTES, tail_evicted_bytes_total),
    ]
}

fn cleaning(counts: CleaningCounts) -> Vec<(&'static Family, u64)> {
    let CleaningCounts { finished, broken_off, read_bytes, written_bytes, segments, .. } = counts;
    vec![
        (&CLEANINGS, finished),
        (&CLEANINGS_BROKEN_OFF, broken_off),
        (&CLEANED_READ_BYTES, read_bytes),
        (&CLEANED_WRITTEN_BYTES, written_bytes),
        (&SEGMENTS_CLEANED, segments),
        (&CLEANING_DAMAGED, counts.damaged),
    ]
}

fn levels(levels: Levels) -> Vec<(&'static Family, u64)> {
    let Levels {
        partitions,
        staged_bytes,
        unwritten_bytes,
        tail_bytes,
        waiting_appends,
        waiting_reads,
        journal_files_live,
        journal_files_max,
        failed,
        full,
        stalled,
        retention_from_future,
        retention_clock_held,
    } = levels;
    vec![
        (&PARTITIONS, partitions),
        (&STAGED_BYTES, staged_bytes),
        (&UNWRITTEN_BYTES, unwritten_bytes),
        (&TAIL_BYTES, tail_bytes),
        (&WAITING_APPENDS, waiting_appends),
        (&WAITING_READS, waiting_reads),
        (&JOURNAL_FILES, journal_files_live),
        (&JOURNAL_FILES_MAX, journal_files_max),
        (&STORAGE_FAILED, failed),
        (&STORAGE_FULL, full),
        (&STORAGE_STALLED, stalled),
        (&RETENTION_FROM_FUTURE, retention_from_future),
        (&RETENTION_CLOCK_HELD, retention_clock_held),
    ]
}

fn reasons(refused: Refused) -> [(&'static str, u64); 13] {
    let Refused {
        unknown_partition,
        leader_epoch,
        out_of_order_sequence,
        producer_epoch,
        transaction_state,
        coordinator_epoch,
        too_large,
        invalid_record,
        invalid_timestamp,
        storage_failed,
        storage_full,
        storage_stalled,
        stopping,
    } = refused;
    [
        ("unknown_partition", unknown_partition),
        ("leader_epoch", leader_epoch),
        ("out_of_order_sequence", out_of_order_sequence),
        ("producer_epoch", producer_epoch),
        ("transaction_state", transaction_state),
        ("coordinator_epoch", coordinator_epoch),
        ("too_large", too_large),
        ("invalid_record", invalid_record),
        ("invalid_timestamp", invalid_timestamp),
        ("storage_failed", storage_failed),
        ("storage_full", storage_full),
        ("storage_stalled", storage_stalled),
        ("stopping", stopping),
    ]
}
