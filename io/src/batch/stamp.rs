//! What the owner of a partition writes into a batch, in place.

use super::{Attributes, RecordBatchHeader, at, crc_of};
use crate::limits::BATCH_HEADER_BYTES;
use crate::units::{LeaderEpoch, Offset, TimestampMs};

/// Stamps base offset and partition leader epoch. Both lie outside the CRC, which stays valid.
///
/// # Panics
/// When `batch` is shorter than a header.
#[inline]
pub fn place(batch: &mut [u8], base: Offset, epoch: LeaderEpoch) {
    assert_header(batch);
    batch[at::BASE_OFFSET..at::LENGTH].copy_from_slice(&base.get().to_be_bytes());
    batch[at::LEADER_EPOCH..at::MAGIC].copy_from_slice(&epoch.get().to_be_bytes());
}

/// Stamps the broker's time on a batch of a LogAppendTime topic (KIP-32): sets the type bit and the
/// max timestamp, which then stands for every record, and sums the batch up again.
///
/// `batch` must be exactly one whole batch, and its CRC must have held before.
///
/// # Panics
/// When `batch` is not exactly one whole batch.
pub fn log_append_time(batch: &mut [u8], now: TimestampMs) {
    assert_header(batch);
    let header = RecordBatchHeader::view(batch);
    let total = header.and_then(RecordBatchHeader::total_bytes);
    assert_eq!(total, Some(batch.len()), "stamp of something else than one whole batch");
    let bits = header.map_or(0, |h| h.attributes().bits()) | Attributes::LOG_APPEND_TIME;
    batch[at::ATTRIBUTES..at::LAST_OFFSET_DELTA].copy_from_slice(&bits.to_be_bytes());
    batch[at::MAX_TIMESTAMP..at::PRODUCER_ID].copy_from_slice(&now.get().to_be_bytes());
    let crc = crc_of(batch);
    batch[at::CRC..at::ATTRIBUTES].copy_from_slice(&crc.to_be_bytes());
}

#[inline]
#[track_caller]
fn assert_header(batch: &[u8]) {
    assert!(
        batch.len() >= BATCH_HEADER_BYTES,
        "stamp of {} bytes, and a batch header has {BATCH_HEADER_BYTES}",
        batch.len()
    );
}
