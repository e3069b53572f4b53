//! Reading one segment batch by batch, every byte checked, to the place where its log ends.

use super::search::{self, Behind, Bounds};
use super::{BatchVisitor, Damage};
use crate::batch::stored::{self, StoredError};
use crate::disk::{DiskError, DiskFile};
use crate::index_footer::Coverage;
use crate::indexes::Indexes;
use crate::limits::BATCH_HEADER_BYTES;
use crate::read_ahead::ReadAhead;
use crate::segment_reader::{BatchPlace, place_of};
use crate::units::{FilePosition, Offset, SegmentId, bytes_u64};

/// What a scan must know about the log around the segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around {
    /// Base offset of the next segment that has batches; none for the last.
    pub limit: Option<Offset>,
    /// Nothing at this offset or behind was acknowledged; `None` when that is not known.
    pub unacknowledged_from: Option<Offset>,
    /// Everything in front of this offset was acknowledged, and stood in the segments once: what a
    /// checkpoint says. The last frame of a journal may be one that nobody was answered for.
    pub acknowledged_to: Offset,
    /// Offsets may be missing between batches (compaction).
    pub allow_gaps: bool,
}

/// What a scan found.
#[derive(Debug)]
pub(crate) struct SegmentScan {
    pub indexes: Indexes,
    /// Where the log ends in this file; what stands behind is to be cut.
    pub end: FilePosition,
    pub next: Offset,
    pub damage: Vec<Damage>,
    /// Bytes read and checked.
    pub bytes: u64,
    /// Bytes behind `end` that are not just padding.
    pub cut: u64,
    /// The log ends here although segments follow: they were never acknowledged.
    pub ends_log: bool,
    /// No offset of this segment lies behind.
    reach: Offset,
}

/// Why the next bytes are not the batch that is due.
enum Stop {
    /// The end of the file.
    End,
    /// The next segment takes over.
    Superseded,
    Broken(StoredError),
}

/// Scans `[from.log_bytes, end of file)` of `segment`. `indexes` cover what is in front.
pub(crate) fn scan_segment<F: DiskFile, V: BatchVisitor>(
    file: &F,
    segment: SegmentId,
    (indexes, from): (Indexes, Coverage),
    around: Around,
    visitor: &mut V,
) -> Result<SegmentScan, DiskError> {
    // No segment of ours is longer, and what indexes store of a position and an offset is 32 bits.
    let len = FilePosition::new(file.len()?.min(u64::from(u32::MAX)));
    let reach = segment.base.checked_add(u64::from(u32::MAX)).unwrap_or(Offset::MAX);
    let mut reader = ReadAhead::new(file, len);
    let mut scan = SegmentScan {
        indexes,
        end: from.log_bytes,
        next: from.next,
        damage: Vec::new(),
        bytes: 0,
        cut: 0,
        ends_log: false,
        reach,
    };
    loop {
        let error = match scan.run(&mut reader, around, visitor)? {
            Stop::End => break,
            Stop::Superseded => {
                scan.cut = len.since(scan.end);
                break;
            }
            Stop::Broken(error) => error,
        };
        if !scan.judge(&mut reader, segment, error, around)? {
            break;
        }
    }
    Ok(scan)
}

impl SegmentScan {
    /// Takes batches as long as the due one stands there.
    fn run<F: DiskFile, V: BatchVisitor>(
        &mut self,
        reader: &mut ReadAhead<'_, F>,
        around: Around,
        visitor: &mut V,
    ) -> Result<Stop, DiskError> {
        while self.end < reader.end() {
            if around.limit.is_some_and(|limit| self.next >= limit) {
                return Ok(Stop::Superseded);
            }
            let left = reader.end().since(self.end);
            let batch = match whole_batch(reader, self.end, left)? {
                Ok(batch) => batch,
                Err(error) => return Ok(Stop::Broken(error)),
            };
            let place = match self.due(batch, around) {
                Ok(place) => place,
                Err(error) => return Ok(Stop::Broken(error)),
            };
            visitor.batch(&place, batch);
            self.indexes.note(place.start(), place.max_timestamp);
            self.bytes += bytes_u64(place.bytes);
            self.end = place.end();
            self.next = place.next;
        }
        Ok(Stop::End)
    }

    /// Is this whole batch the one that is due?
    fn due(&self, batch: &[u8], around: Around) -> Result<BatchPlace, StoredError> {
        let header = stored::whole(batch)?;
        let place = place_of(header, self.end, batch.len())?;
        let in_order =
            if around.allow_gaps { place.base >= self.next } else { place.base == self.next };
        let below = place.next <= around.limit.unwrap_or(self.reach).min(self.reach);
        if in_order && below {
            Ok(place)
        } else {
            let (base_offset, expected) = (place.base, self.next);
            Err(StoredError::Unexpected { base_offset, expected })
        }
    }

    /// Decides about the bytes behind the log's end so far. True when the log goes on behind damage.
    fn judge<F: DiskFile>(
        &mut self,
        reader: &mut ReadAhead<'_, F>,
        segment: SegmentId,
        error: StoredError,
        around: Around,
    ) -> Result<bool, DiskError> {
        let len = reader.end();
        let limit = around.limit.unwrap_or(self.reach).min(self.reach);
        let behind = search::behind(reader, self.end, Bounds { due: self.next, limit })?;
        let unacknowledged = around.unacknowledged_from.is_some_and(|from| self.next >= from);
        if unacknowledged {
            // Also when batches stand behind, here or in later segments: they were on their way.
            self.cut = if behind == Behind::Zeros { 0 } else { len.since(self.end) };
            self.ends_log = true;
            return Ok(false);
        }
        let damage = |to, offset| Damage {
            segment,
            from: self.end,
            to,
            offsets: (self.next, offset),
            error,
        };
        // What follows: the next segment, or the first offset that may be given again.
        let due = around.acknowledged_to.min(self.reach).max(self.next);
        let follows = around.limit.unwrap_or(due);
        match behind {
            Behind::Batch(place) => {
                let found = damage(place.at, place.base);
                self.damage.push(found);
                self.indexes.force(&place);
                (self.end, self.next) = (place.at, place.base);
                Ok(true)
            }
            Behind::Unknown => {
                // May hold acknowledged batches that nobody finds: the bytes stay.
                self.damage.push(damage(len, follows));
                self.keep_to(len, follows, around);
                Ok(false)
            }
            Behind::Zeros => Ok(false),
            Behind::Nothing if self.next < follows => {
                // The log goes on in the next segment, or it was acknowledged further than this:
                // the end of this one is damaged.
                self.damage.push(damage(len, follows));
                self.keep_to(len, follows, around);
                Ok(false)
            }
            Behind::Nothing => {
                self.cut = len.since(self.end);
                Ok(false)
            }
        }
    }

    /// Leaves the damaged end of the segment in place. In the last segment the offsets that were
    /// given to it are not given again.
    fn keep_to(&mut self, len: FilePosition, follows: Offset, around: Around) {
        self.end = len;
        if around.limit.is_none() {
            self.next = follows;
        }
    }
}

/// The whole batch at `at`, when its header makes sense and its bytes are there.
fn whole_batch<'r, F: DiskFile>(
    reader: &'r mut ReadAhead<'_, F>,
    at: FilePosition,
    left: u64,
) -> Result<Result<&'r [u8], StoredError>, DiskError> {
    let total = match stored::frame(reader.get(at, BATCH_HEADER_BYTES)?) {
        Ok((_, total)) => total,
        Err(error) => return Ok(Err(error)),
    };
    if bytes_u64(total) > left {
        let got = crate::units::bytes_usize(left);
        return Ok(Err(StoredError::Short { needed: total, got }));
    }
    let bytes = reader.get(at, total)?;
    match bytes.get(..total) {
        Some(batch) => Ok(Ok(batch)),
        // The file became shorter under us.
        None => Ok(Err(StoredError::Short { needed: total, got: bytes.len() })),
    }
}
