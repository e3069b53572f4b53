//! Showing a visitor the part of a segment that needs no scan, by its batch headers.

use super::{BatchVisitor, Damage, RecoveryError};
use crate::disk::DiskFile;
use crate::index_footer::Coverage;
use crate::segment_reader::{BatchPlace, Walk, WalkError, read_batch};
use crate::sparse_index::{BatchStart, SparseIndex};
use crate::units::{FilePosition, Offset, SegmentId};

/// A part of a segment that was synced and indexed.
pub(super) struct Covered {
    pub id: SegmentId,
    pub coverage: Coverage,
    /// `None` when it cannot be read: the walk starts in front then.
    pub index: Option<SparseIndex>,
    pub allow_gaps: bool,
}

impl Covered {
    /// Shows every batch that ends behind `from`. What is damaged is passed by, as far as the index
    /// knows where the log goes on, and returned.
    pub(super) fn visit<F: DiskFile, V: BatchVisitor>(
        &self,
        file: &F,
        from: Offset,
        visitor: &mut V,
    ) -> Result<Vec<Damage>, RecoveryError> {
        let mut damage = Vec::new();
        let start = BatchStart { base: self.id.base, at: FilePosition::ZERO };
        let mut next = self.index.as_ref().map_or(start, |index| index.floor(from));
        loop {
            let walk = Walk::new(file, next, self.coverage.log_bytes);
            let mut walk = if self.allow_gaps { walk } else { walk.without_gaps() };
            let (at, error) = match visit_walk(file, &mut walk, from, visitor) {
                Ok(()) => return Ok(damage),
                Err(WalkError::Disk(error)) => return Err(error.into()),
                Err(WalkError::Damaged { at, error }) => (at, error),
            };
            let behind = self.index.as_ref().and_then(|index| index.first_behind(at));
            let end = BatchStart { base: self.coverage.next, at: self.coverage.log_bytes };
            let resumes = behind.unwrap_or(end);
            let (segment, offsets) = (self.id, (walk.due(), resumes.base));
            damage.push(Damage { segment, from: at, to: resumes.at, offsets, error });
            match behind {
                Some(behind) => next = behind,
                None => return Ok(damage),
            }
        }
    }
}

fn visit_walk<F: DiskFile, V: BatchVisitor>(
    file: &F,
    walk: &mut Walk<'_, F>,
    from: Offset,
    visitor: &mut V,
) -> Result<(), WalkError> {
    while let Some(place) = walk.next_place()? {
        if place.next <= from {
            continue;
        }
        if walk.header().is_some_and(|header| header.attributes().is_control()) {
            visitor.batch(&place, &read_batch(file, &place)?);
        } else {
            visitor.batch(&place, walk.header_bytes());
        }
    }
    Ok(())
}

/// Passes on only what the visitor asked for.
pub(super) struct Visible<'v, V> {
    pub visitor: &'v mut V,
    pub from: Offset,
}

impl<V: BatchVisitor> BatchVisitor for Visible<'_, V> {
    fn batch(&mut self, place: &BatchPlace, bytes: &[u8]) {
        if place.next > self.from {
            self.visitor.batch(place, bytes);
        }
    }
}
