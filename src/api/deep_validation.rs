//! A look into the records of a produced batch, where its topic asks for one: to check them
//! (`batch.validation=deep`), to compress them anew (`compression.type`), or to see that each has a
//! key (`cleanup.policy=compact`).
//!
//! Reading records takes long and may take very long when they are compressed, so it is done by
//! threads of its own: neither the cores nor the helpers of the disk wait for it. Its memory is
//! bounded by the reader and by `max.message.bytes`, its time by what a batch may decompress to.

use super::{Call, produce::RefusedBatch};
use crate::config::{BatchValidation, TimestampType, TopicConfig};
use crate::wire::ErrorCode;
use millstream_io::batch::{CheckedBatch, Codec};
use millstream_io::records::RecordsError;
use millstream_io::records::recompress::recompress;
use millstream_io::records::validate::{BadRecord, DeepError, Fault, Rules, validate};
use millstream_io::units::{TimestampMs, bytes_u64};

/// Uncompressed batches up to this size are looked into on the core: it takes some microseconds.
const INLINE_BYTES_MAX: usize = 4096;

/// The batch as its topic stores it. As it came, unless the topic wants it looked into: then every
/// record is read, and where the topic's codec is another one it is compressed anew.
///
/// # Errors
/// What the client is told, with the records that are at fault.
pub async fn fit(
    call: &Call,
    config: &TopicConfig,
    batch: CheckedBatch,
    now: TimestampMs,
) -> Result<CheckedBatch, RefusedBatch> {
    let bytes_max = u64::from(config.max_message_bytes);
    // One that is too large is refused by its owner, and needs no work before.
    let fits = bytes_u64(batch.len()) <= bytes_max;
    let to = config.compression.filter(|to| fits && to.codec != batch.codec());
    let checks_all = to.is_some() || config.batch_validation == BatchValidation::Deep;
    let keys_required = config.compaction.is_some();
    if !checks_all && !keys_required {
        return Ok(batch);
    }
    let timestamps = allowed_times(config, now).filter(|_| checks_all);
    let rules = Rules { keys_required, timestamps };
    if to.is_none() && batch.codec() == Codec::None && batch.len() <= INLINE_BYTES_MAX {
        return validate(&batch, rules).map(|_| batch).map_err(|error| refused(&error));
    }
    let work = move || match (validate(&batch, rules), to) {
        (Err(error), _) => Err(refused(&error)),
        (Ok(_), None) => Ok(batch),
        (Ok(latest), Some(to)) => {
            recompress(&batch, to, Some(latest), bytes_max).map_err(|error| unfit(&error))
        }
    };
    let fitted = match call.core.inspectors.run(work).await {
        Ok(fitted) => fitted?,
        Err(job) => {
            let message = Some(job.to_string());
            return Err(RefusedBatch::new(ErrorCode::UnknownServerError, message));
        }
    };
    if to.is_some() {
        call.core.requests.recompressed();
    }
    Ok(fitted)
}

/// Why a batch whose records are sound cannot be compressed anew.
fn unfit(error: &RecordsError) -> RefusedBatch {
    match error {
        RecordsError::TooLarge { limit } => RefusedBatch::new(
            ErrorCode::MessageTooLarge,
            Some(format!(
                "under the topic's compression.type the batch is over max.message.bytes={limit}"
            )),
        ),
        error => RefusedBatch::new(code_of(error), Some(error.to_string())),
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
