//! A look into the records of a produced batch, where its topic asks for one
//! (`batch.validation=deep`).
//!
//! Reading records takes long and may take very long when they are compressed, so it is done by
//! threads of its own: neither the cores nor the helpers of the disk wait for it. Its memory is
//! bounded by the reader, its time by what a batch may decompress to.

use super::{Call, produce::RefusedBatch};
use crate::config::{TimestampType, TopicConfig};
use crate::wire::ErrorCode;
use millstream_io::batch::{CheckedBatch, Codec};
use millstream_io::records::RecordsError;
use millstream_io::records::validate::{BadRecord, DeepError, Fault, Rules, validate};
use millstream_io::units::TimestampMs;

/// Uncompressed batches up to this size are looked into on the core: it takes some microseconds.
const INLINE_BYTES_MAX: usize = 4096;

/// Reads every record of `batch`.
///
/// # Errors
/// What the client is told, with the records that are at fault.
pub async fn check(
    call: &Call,
    config: &TopicConfig,
    batch: &CheckedBatch,
    now: TimestampMs,
) -> Result<(), RefusedBatch> {
    let rules = Rules { keys_required: false, timestamps: allowed_times(config, now) };
    if batch.codec() == Codec::None && batch.len() <= INLINE_BYTES_MAX {
        return validate(batch, rules).map(|_| ()).map_err(|error| refused(&error));
    }
    let looked_into = batch.clone();
    let looked = call.core.inspectors.run(move || validate(&looked_into, rules)).await;
    match looked {
        Ok(result) => result.map(|_| ()).map_err(|error| refused(&error)),
        Err(job) => Err(RefusedBatch::new(ErrorCode::UnknownServerError, Some(job.to_string()))),
    }
}

/// The timestamps that the topic takes; `None` when the broker sets them itself.
fn allowed_times(config: &TopicConfig, now: TimestampMs) -> Option<(TimestampMs, TimestampMs)> {
    match config.timestamp_type {
        TimestampType::LogAppendTime => None,
        TimestampType::CreateTime => Some((
            now.plus(config.timestamp_before_max_ms.saturating_neg()),
            now.plus(config.timestamp_after_max_ms),
        )),
    }
}

fn refused(error: &DeepError) -> RefusedBatch {
    match error {
        DeepError::Records(records) => {
            RefusedBatch::new(code_of(records), Some(format!("the batch does not read: {error}")))
        }
        DeepError::Bad(bad) => {
            let is_time = |bad: &BadRecord| matches!(bad.fault, Fault::Timestamp { .. });
            let code = match bad.iter().all(is_time) {
                true => ErrorCode::InvalidTimestamp,
                false => ErrorCode::InvalidRecord,
            };
            let record = |bad: &BadRecord| {
                let index = i32::try_from(bad.index).unwrap_or(i32::MAX);
                (index, format!("record {} {}", bad.index, bad.fault))
            };
            let records = bad.iter().map(record).collect();
            RefusedBatch { records, ..RefusedBatch::new(code, Some(error.to_string())) }
        }
    }
}

fn code_of(error: &RecordsError) -> ErrorCode {
    match error {
        RecordsError::UnknownCodec { .. } => ErrorCode::UnsupportedCompressionType,
        RecordsError::Compressed { .. } => ErrorCode::CorruptMessage,
        RecordsError::Ends { .. }
        | RecordsError::Varint { .. }
        | RecordsError::Length { .. }
        | RecordsError::Field { .. }
        | RecordsError::Slack { .. }
        | RecordsError::OffsetDelta { .. }
        | RecordsError::Trailing
        | RecordsError::TooLarge { .. } => ErrorCode::InvalidRecord,
    }
}
