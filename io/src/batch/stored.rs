//! Judging a batch that comes back from a file, before anything in it is believed.
//!
//! The rules differ from those at the door: compaction may have taken records away, our own control
//! batches and append-time stamps are there, and codecs of the future are none of recovery's business
//! as long as the bytes are whole.

use std::fmt;

use super::{LENGTH_OVERHEAD, MAGIC, RecordBatchHeader, crc_of};
use crate::limits::{BATCH_BYTES_MAX, BATCH_HEADER_BYTES};
use crate::units::Offset;

/// Why the bytes at some place of a log are not the batch that should stand there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoredError {
    /// Fewer bytes than a header, or fewer than the header says.
    Short { needed: usize, got: usize },
    /// The length field is smaller than a header or larger than any batch.
    Length { length: i32 },
    /// Not format 2. Zeros land here.
    Magic { magic: u8 },
    /// Offsets are negative, or the last one lies before the first.
    Offsets { base_offset: i64, last_offset_delta: i32 },
    /// A whole batch, but of another place: a left-over of older data.
    Unexpected { base_offset: Offset, expected: Offset },
    /// The bytes are not those that were written.
    Crc { stored: u32, computed: u32 },
}

/// Reads the header of a stored batch and checks all that the header alone can tell. Says how many
/// bytes the whole batch has; they need not be in `bytes`.
///
/// # Errors
/// Everything of [`StoredError`] but `Crc` and `Unexpected`; `Short` only for a short header.
pub fn frame(bytes: &[u8]) -> Result<(RecordBatchHeader<'_>, usize), StoredError> {
    let Some(header) = RecordBatchHeader::view(bytes) else {
        return Err(StoredError::Short { needed: BATCH_HEADER_BYTES, got: bytes.len() });
    };
    // Magic first: in a run of zeros it is the field that says the most.
    if header.magic() != MAGIC {
        return Err(StoredError::Magic { magic: header.magic() });
    }
    let length = header.length_raw();
    let total = match header.total_bytes() {
        Some(total) if total <= BATCH_BYTES_MAX + LENGTH_OVERHEAD => total,
        _ => return Err(StoredError::Length { length }),
    };
    if header.next_offset().is_none() {
        return Err(StoredError::Offsets {
            base_offset: header.base_offset_raw(),
            last_offset_delta: header.last_offset_delta(),
        });
    }
    Ok((header, total))
}

/// Checks the CRC of one whole stored batch.
///
/// # Errors
/// `Short` when `batch` has fewer bytes than its header says, `Crc` when they changed, and all of
/// [`frame`].
pub fn whole(batch: &[u8]) -> Result<RecordBatchHeader<'_>, StoredError> {
    let (header, total) = frame(batch)?;
    let Some(batch) = batch.get(..total) else {
        return Err(StoredError::Short { needed: total, got: batch.len() });
    };
    let (stored, computed) = (header.crc(), crc_of(batch));
    if stored != computed {
        return Err(StoredError::Crc { stored, computed });
    }
    Ok(header)
}

impl fmt::Display for StoredError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            StoredError::Short { needed, got } => {
                write!(f, "{needed} bytes are needed and {got} are left")
            }
            StoredError::Length { length } => write!(f, "batch length {length} is impossible"),
            StoredError::Magic { magic } => write!(f, "magic is {magic} and must be {MAGIC}"),
            StoredError::Offsets { base_offset, last_offset_delta } => {
                write!(f, "base offset {base_offset} with last delta {last_offset_delta}")
            }
            StoredError::Unexpected { base_offset, expected } => {
                write!(f, "a batch of offset {base_offset} stands where {expected} is due")
            }
            StoredError::Crc { stored, computed } => {
                write!(f, "CRC-32C is {computed:08x} and the batch says {stored:08x}")
            }
        }
    }
}

impl std::error::Error for StoredError {}
