//! Exact answers about timestamps within one batch (KIP-79, KIP-734).

use super::{Keep, Records, RecordsError};
use crate::units::{Offset, TimestampMs};

/// One record, by offset and timestamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    pub offset: Offset,
    pub timestamp: TimestampMs,
}

/// The first record of `batch` at offset `from` or behind whose timestamp is `target` or later.
///
/// # Errors
/// As [`Records::next_record`].
pub fn first_at_or_after(
    batch: &[u8],
    from: Offset,
    target: TimestampMs,
) -> Result<Option<Found>, RecordsError> {
    let mut records = Records::open(batch, Keep::Nothing)?;
    while let Some(record) = records.next_record()? {
        if record.offset >= from && record.timestamp >= target {
            return Ok(Some(Found { offset: record.offset, timestamp: record.timestamp }));
        }
    }
    Ok(None)
}

/// The first record of `batch` at offset `from` or behind that has the largest timestamp of those.
///
/// # Errors
/// As [`Records::next_record`].
pub fn largest_timestamp(batch: &[u8], from: Offset) -> Result<Option<Found>, RecordsError> {
    let mut records = Records::open(batch, Keep::Nothing)?;
    let mut largest: Option<Found> = None;
    while let Some(record) = records.next_record()? {
        let found = Found { offset: record.offset, timestamp: record.timestamp };
        let larger = largest.is_none_or(|l| found.timestamp > l.timestamp);
        if found.offset >= from && larger {
            largest = Some(found);
        }
    }
    Ok(largest)
}
