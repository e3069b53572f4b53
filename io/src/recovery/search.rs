//! Is there a valid batch behind bytes that are not one?

use crate::batch::stored;
use crate::batch::{LENGTH_OVERHEAD, MAGIC, RecordBatchHeader, at};
use crate::disk::{DiskError, DiskFile};
use crate::limits::{BATCH_HEADER_BYTES, SCAN_CHUNK_BYTES};
use crate::read_ahead::ReadAhead;
use crate::segment_reader::{BatchPlace, place_of};
use crate::units::{FilePosition, Offset, bytes_u64};

/// What stands behind a broken place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Behind {
    /// Only zeros: padding, or space that was allocated and never written.
    Zeros,
    /// No valid batch.
    Nothing,
    /// This one.
    Batch(BatchPlace),
    /// The search was given up: so much looks like batches and is none that it would take too long.
    /// It must be taken for data.
    Unknown,
}

/// The batch that a search may accept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Its base offset is this or higher...
    pub due: Offset,
    /// ... and its last offset is below this.
    pub limit: Offset,
}

/// A batch behind damage may skip at most as many offsets as one batch can hold, for each block of
/// damage; more is a forgery inside of record bytes or rubbish.
const SKIP_MAX: u64 = 1 << 31;

/// Bytes summed up for each byte searched, at most: what producers sent may be made to look like
/// headers of huge batches.
const CRC_EFFORT: u64 = 16;

/// Looks for the first valid batch in `[from, end of the reader)`. `from` is where the batch of
/// offset `bounds.due` should stand and does not.
///
/// The place where the broken batch itself says it ends is tried first: record bytes may hold
/// something that looks like a batch, and then only a search past them does not fall for it.
pub(super) fn behind<F: DiskFile>(
    reader: &mut ReadAhead<'_, F>,
    from: FilePosition,
    bounds: Bounds,
) -> Result<Behind, DiskError> {
    if is_zeros(reader, from)? {
        return Ok(Behind::Zeros);
    }
    let own_end = match stored::frame(reader.get(from, BATCH_HEADER_BYTES)?) {
        Ok((_, total)) => from.checked_add(bytes_u64(total)),
        Err(_) => None,
    };
    if let Some(end) = own_end.filter(|end| *end < reader.end())
        && let Some(place) = batch_at(reader, end, bounds)?
    {
        return Ok(Behind::Batch(place));
    }
    search_bytes(reader, from.add(1), bounds)
}

fn search_bytes<F: DiskFile>(
    reader: &mut ReadAhead<'_, F>,
    from: FilePosition,
    bounds: Bounds,
) -> Result<Behind, DiskError> {
    let end = reader.end();
    let mut effort = 0u64;
    let mut at = from;
    while at.add_len(BATCH_HEADER_BYTES) <= end {
        let window = reader.get(at, BATCH_HEADER_BYTES)?;
        let Some(skip) = next_candidate(window, bounds) else {
            // The last header's worth of bytes may start a batch that the next window shows whole.
            at = at.add_len((window.len() + 1).saturating_sub(BATCH_HEADER_BYTES).max(1));
            continue;
        };
        at = at.add_len(skip);
        if let Some(place) = batch_at(reader, at, bounds)? {
            return Ok(Behind::Batch(place));
        }
        effort += claimed_bytes(reader, at)?;
        if effort > CRC_EFFORT * (end.since(from) + bytes_u64(SCAN_CHUNK_BYTES)) {
            return Ok(Behind::Unknown);
        }
        at = at.add(1);
    }
    Ok(Behind::Nothing)
}

/// Index of the next byte at which a header within the bounds could start.
fn next_candidate(window: &[u8], bounds: Bounds) -> Option<usize> {
    window.windows(BATCH_HEADER_BYTES).position(|bytes| {
        bytes[at::MAGIC] == MAGIC
            && RecordBatchHeader::view(bytes).is_some_and(|header| {
                header.total_bytes().is_some()
                    && header.base_offset().is_some_and(|base| in_bounds(base, bounds))
            })
    })
}

fn in_bounds(base: Offset, bounds: Bounds) -> bool {
    base < bounds.limit && base.checked_since(bounds.due).is_some_and(|skip| skip <= SKIP_MAX)
}

/// The batch at `at`, when one stands there that is whole, valid and within the bounds.
pub(super) fn batch_at<F: DiskFile>(
    reader: &mut ReadAhead<'_, F>,
    at: FilePosition,
    bounds: Bounds,
) -> Result<Option<BatchPlace>, DiskError> {
    let left = reader.end().get().saturating_sub(at.get());
    let total = match stored::frame(reader.get(at, BATCH_HEADER_BYTES)?) {
        Ok((_, total)) if bytes_u64(total) <= left => total,
        _ => return Ok(None),
    };
    let batch = reader.get(at, total)?;
    let Ok(header) = stored::whole(batch) else { return Ok(None) };
    let place = place_of(header, at, total).ok();
    Ok(place.filter(|place| in_bounds(place.base, bounds) && place.next <= bounds.limit))
}

/// Bytes that the header at `at` made us sum up.
fn claimed_bytes<F: DiskFile>(
    reader: &mut ReadAhead<'_, F>,
    at: FilePosition,
) -> Result<u64, DiskError> {
    let left = reader.end().get().saturating_sub(at.get());
    let header = RecordBatchHeader::view(reader.get(at, BATCH_HEADER_BYTES)?);
    let total = header.and_then(RecordBatchHeader::total_bytes).unwrap_or(LENGTH_OVERHEAD);
    let total = bytes_u64(total);
    Ok(if total <= left { total } else { bytes_u64(BATCH_HEADER_BYTES) })
}

fn is_zeros<F: DiskFile>(
    reader: &mut ReadAhead<'_, F>,
    from: FilePosition,
) -> Result<bool, DiskError> {
    let mut at = from;
    while at < reader.end() {
        let window = reader.get(at, 1)?;
        if window.is_empty() || window.iter().any(|b| *b != 0) {
            return Ok(window.is_empty());
        }
        at = at.add_len(window.len());
    }
    Ok(true)
}
