//! What the roof says in the log about what it started.

use super::host::Sentence;
use millstream_io::recovery::RecoveryReport;
use millstream_io::runtime::{CoreFailed, StallEvent, log};
use millstream_shards::recover::StartReport;
use millstream_shards::runtime::ShardEnd;
use std::path::Path;

/// Lines about single partitions that one start writes; the others are counted.
const PARTITION_LINES_MAX: usize = 50;

/// What recovery found and did.
pub fn log_recovery(report: &StartReport) {
    for (path, found) in report.partitions.iter().take(PARTITION_LINES_MAX) {
        log_partition(path, found);
    }
    let left_out = report.partitions.len().saturating_sub(PARTITION_LINES_MAX);
    if left_out > 0 {
        log::warn("recovery", "more partitions have something to say")
            .field("count", left_out)
            .emit();
    }
    for (from, to) in &report.set_aside {
        log::warn("recovery", "moved a directory aside that no topic claims")
            .field("from", from.display())
            .field("to", to.display())
            .emit();
    }
    for (shard, damage) in &report.journal_damage {
        log::warn("recovery", damage).field("journal", shard).emit();
    }
    if report.bytes_replayed > 0 || report.bytes_scanned > 0 {
        log::info("recovery", "brought the logs back")
            .field("journal_bytes", report.bytes_replayed)
            .field("log_bytes_read", report.bytes_scanned)
            .emit();
    }
}

/// What recovery has to say of one partition.
fn log_partition(path: &Path, found: &RecoveryReport) {
    let at = path.display();
    if found.bytes_cut > 0 {
        log::warn("recovery", "cut a torn tail: bytes behind the last whole batch")
            .field("bytes", found.bytes_cut)
            .field("partition", at)
            .emit();
    }
    for damage in found.damage.iter().take(PARTITION_LINES_MAX) {
        log::error(
            "recovery",
            "damaged on disk: these offsets cannot be read; the log goes on behind them",
        )
        .field("offsets", format_args!("{}..{}", damage.offsets.0, damage.offsets.1))
        .field("segment", damage.segment)
        .field("bytes", format_args!("{}..{}", damage.from, damage.to))
        .field("reason", damage.error)
        .field("partition", path.display())
        .emit();
    }
    for (from, to) in found.lost.iter().take(PARTITION_LINES_MAX) {
        log::error("recovery", "acknowledged records are in no file: a file was removed or cut")
            .field("offsets", format_args!("{from}..{to}"))
            .field("partition", path.display())
            .emit();
    }
    if let Some((segment, reason)) = found.indexes_rebuilt.first() {
        log::info("recovery", "rebuilt indexes")
            .field("segments", found.indexes_rebuilt.len())
            .field("first", segment)
            .field("reason", reason)
            .field("partition", path.display())
            .emit();
    }
    for error in found.state_damaged.iter().take(PARTITION_LINES_MAX) {
        log::warn("recovery", "a state file was built again from the log")
            .field("reason", error)
            .field("partition", path.display())
            .emit();
    }
    if found.disk_full {
        log::warn("recovery", "the disk is full: indexes and checkpoints are written later")
            .field("partition", path.display())
            .emit();
    }
}

/// A core that went silent, or came back.
pub fn log_stall(event: StallEvent) {
    match event {
        StallEvent::Stalled { .. } => log::error("runtime", event).emit(),
        StallEvent::Recovered { .. } => log::warn("runtime", event).emit(),
    }
}

/// How the cores ended, in one sentence when it was not well.
pub fn ends(ends: Vec<Result<ShardEnd, CoreFailed>>) -> Result<(), Sentence> {
    let mut first = Ok(());
    for (core, end) in ends.into_iter().enumerate() {
        let sentence = match end {
            Ok(ShardEnd { clean: true, .. }) => continue,
            Ok(ShardEnd { reason, .. }) => format!(
                "core {core} could not write everything out ({}); the next start recovers it from \
                 the journal",
                reason.unwrap_or_else(|| "no reason was given".to_owned())
            ),
            Err(failed) => failed.to_string(),
        };
        log::error("serve", &sentence).emit();
        first = first.and(Err(sentence));
    }
    first
}
