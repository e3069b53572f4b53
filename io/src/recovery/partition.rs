//! Recovery of one partition: from what stands in its directory to a log that is whole.

use std::path::Path;

use super::search::{self, Bounds};
use super::segment_scan::{Around, SegmentScan, scan_segment};
use super::visit::{Covered, Visible};
use super::{BatchVisitor, Damage, Evidence, RecoveredPartition, RecoveryError, RecoveryReport};
use crate::batch::stored::StoredError;
use crate::checkpoint::{State, StateError, read_state, write_state};
use crate::disk::{Disk, DiskError, DiskErrorKind, DiskFile, OpenHow};
use crate::index_footer::{Coverage, IndexDamage};
use crate::indexes::{self, Indexes, LoadError};
use crate::partition_state::{Manifest, RecoveryCheckpoint};
use crate::read_ahead::ReadAhead;
use crate::sealing;
use crate::segment::{Listing, SegmentFile, SegmentMeta, remove_segment};
use crate::units::{FilePosition, LeaderEpoch, Offset, SegmentId, TopicPartition};

/// Which partition, and what is known about it.
#[derive(Clone, Copy, Debug)]
pub struct PartitionInput<'a> {
    pub dir: &'a Path,
    pub partition: TopicPartition,
    /// Name of the topic, for a manifest that has to be made again.
    pub topic: &'a str,
    /// What [`Replayed::evidence`](super::Replayed::evidence) says.
    pub evidence: Evidence,
    /// The visitor sees every batch that ends behind this: the offset of the producer snapshot, or
    /// zero when there is none.
    pub visit_from: Offset,
}

/// Recovers one partition. Run it after the journals were replayed, and before they are finished.
///
/// Reads no log bytes when the broker stopped cleanly. A missing directory is an empty partition.
///
/// # Errors
/// [`RecoveryError`]. Nothing was cut then.
pub fn recover_partition<D: Disk, V: BatchVisitor>(
    disk: &D,
    input: &PartitionInput<'_>,
    visitor: &mut V,
) -> Result<RecoveredPartition, RecoveryError> {
    let mut recovery = Recovery::open(disk, input)?;
    recovery.drop_obsolete()?;
    recovery.run(visitor)?;
    recovery.finish()
}

struct Recovery<'a, D: Disk> {
    disk: &'a D,
    input: &'a PartitionInput<'a>,
    listing: Listing,
    manifest: Option<Manifest>,
    checkpoint: Option<RecoveryCheckpoint>,
    log_start: Offset,
    /// Highest offset known to have been acknowledged.
    floor: Offset,
    segments: Vec<SegmentMeta>,
    /// Offset behind the log so far.
    end: Offset,
    report: RecoveryReport,
    /// Names in the directory changed.
    names_changed: bool,
}

impl<'a, D: Disk> Recovery<'a, D> {
    fn open(disk: &'a D, input: &'a PartitionInput<'a>) -> Result<Self, RecoveryError> {
        let dir = input.dir;
        let mut report = RecoveryReport::default();
        let listing = Listing::read(disk, dir)?;
        let manifest: Option<Manifest> = read_or_note(disk, dir, &mut report)?;
        if let Some(manifest) = &manifest
            && manifest.topic_partition() != input.partition
        {
            let (dir, found) = (dir.to_path_buf(), manifest.topic_id);
            return Err(RecoveryError::Foreign { dir, found, expected: input.partition });
        }
        let first = listing.segments.first().map(|first| first.base);
        if manifest.is_none() && first.is_some() && report.state_damaged.is_empty() {
            let path = dir.join(Manifest::FILE);
            report.state_damaged.push(StateError::damaged(&path, "it is missing"));
        }
        let checkpoint: Option<RecoveryCheckpoint> = read_or_note(disk, dir, &mut report)?;
        let written =
            [manifest.as_ref().map(|m| m.log_start_offset), checkpoint.map(|c| c.log_start_offset)];
        let written = written.into_iter().flatten().max();
        // Segments go only after a higher log start was written down.
        if let (Some(written), Some(first)) = (written, first)
            && written < first
        {
            report.lost.push((written, first));
        }
        let log_start = written.max(first).unwrap_or_default();
        let floor = input.evidence.floor.max(checkpoint.map_or(Offset::ZERO, |c| c.offset));
        Ok(Recovery {
            disk,
            input,
            listing,
            manifest,
            checkpoint,
            log_start,
            floor,
            segments: Vec::new(),
            end: log_start,
            report,
            names_changed: false,
        })
    }

    /// Finishes what a crash interrupted: half-written files, index files without a log, segments that
    /// a cleaned one stands for, and segments that lie wholly in front of the log start. Of these one
    /// stays as long as the visitor has to see it: removed now, its batches would be unknown to the next
    /// recovery.
    fn drop_obsolete(&mut self) -> Result<(), RecoveryError> {
        let orphans = self.listing.orphans();
        if !self.listing.replaced.is_empty() {
            // The name of what stands for them may not be durable yet.
            self.disk.sync_dir(self.input.dir)?;
        }
        for id in std::mem::take(&mut self.listing.replaced) {
            self.remove(id)?;
        }
        for name in &self.listing.temporary {
            self.disk.remove_file(&self.input.dir.join(name))?;
            self.names_changed = true;
        }
        for (id, file) in orphans {
            self.disk.remove_file(&id.path(self.input.dir, file))?;
            self.names_changed = true;
        }
        let ids = self.listing.segments.clone();
        let behind = ids.iter().skip(1).map(|next| next.base);
        for (id, next) in ids.iter().zip(behind) {
            let seen = next <= self.input.visit_from;
            if next <= self.log_start && next > id.base && seen {
                self.remove(*id)?;
            }
        }
        Ok(())
    }

    fn run<V: BatchVisitor>(&mut self, visitor: &mut V) -> Result<(), RecoveryError> {
        let ids = self.listing.segments.clone();
        self.end = ids.first().map_or(self.log_start, |first| first.base);
        let mut ended = false;
        for (i, id) in ids.iter().enumerate() {
            if ended {
                // Never acknowledged: the log ended in front of it.
                self.report.bytes_cut += self.open_log(*id)?.len()?;
                self.remove(*id)?;
                continue;
            }
            ended = self.segment(*id, &ids[i + 1..], visitor)?;
        }
        if self.end < self.log_start {
            self.drop_deleted()?;
        }
        if self.end < self.floor {
            self.report.lost.push((self.end, self.floor));
        }
        Ok(())
    }

    /// All there is was deleted, and something between it and the log start is lost: the log begins
    /// anew at its start.
    fn drop_deleted(&mut self) -> Result<(), RecoveryError> {
        for meta in std::mem::take(&mut self.segments) {
            self.remove(meta.id)?;
        }
        self.end = self.log_start;
        Ok(())
    }

    /// Takes one segment into the log. True when the log ends in it, whatever follows.
    fn segment<V: BatchVisitor>(
        &mut self,
        id: SegmentId,
        later: &[SegmentId],
        visitor: &mut V,
    ) -> Result<bool, RecoveryError> {
        let file = self.open_log(id)?;
        let len = FilePosition::new(file.len()?);
        let coverage = self.coverage(id, len)?;
        if coverage.is_some_and(|c| c.sealed) && !self.is_sealed_for_good(id) {
            let torn = sealing::restore(self.disk, self.input.dir, id)?;
            self.report.blocks_restored.extend(torn.then_some(id));
        }
        let next_base = later.first().map(|next| next.base);
        if let Some(sealed) = coverage.filter(|c| self.is_whole(c, len, next_base)) {
            self.visit_covered(&file, id, sealed, visitor)?;
            self.take(meta(id, sealed));
            return Ok(false);
        }
        let around = Around {
            limit: self.first_valid(later)?,
            unacknowledged_from: self.input.evidence.complete.then_some(self.floor),
            acknowledged_to: self.checkpoint.map_or(Offset::ZERO, |c| c.offset),
            allow_gaps: id.cleaned.is_some(),
        };
        let from = self.resume(id, len, coverage)?;
        self.visit_covered(&file, id, from.1, visitor)?;
        let mut visible = Visible { visitor, from: self.input.visit_from };
        let mut scan = scan_segment(&file, id, from, around, &mut visible)?;
        drop(file);
        if let Some(limit) = around.limit.filter(|limit| scan.next < *limit && !scan.ends_log) {
            scan.ends_log = self.gap(id, &scan, limit, around);
        }
        let ends_log = scan.ends_log;
        self.seal(id, scan)?;
        Ok(ends_log)
    }

    /// Offsets are missing between this segment and the next. True when the log ends here.
    fn gap(&mut self, id: SegmentId, scan: &SegmentScan, limit: Offset, around: Around) -> bool {
        let known = scan.damage.last().is_some_and(|d| d.offsets.1 == limit);
        if around.allow_gaps || known {
            return false;
        }
        if around.unacknowledged_from.is_some_and(|from| scan.next >= from) {
            return true;
        }
        self.note_damage([Damage {
            segment: id,
            from: scan.end,
            to: scan.end,
            offsets: (scan.next, limit),
            error: StoredError::Short { needed: crate::limits::BATCH_HEADER_BYTES, got: 0 },
        }]);
        false
    }

    /// Damage below the log start took nothing from anybody.
    fn note_damage(&mut self, found: impl IntoIterator<Item = Damage>) {
        let live = found.into_iter().filter(|damage| damage.offsets.1 > self.log_start);
        self.report.damage.extend(live);
    }

    /// Makes the scanned segment exact, synced and indexed; removes it when nothing is left.
    fn seal(&mut self, id: SegmentId, scan: SegmentScan) -> Result<(), RecoveryError> {
        self.report.bytes_scanned += scan.bytes;
        self.report.bytes_cut += scan.cut;
        self.note_damage(scan.damage.iter().copied());
        if scan.end == FilePosition::ZERO {
            return self.remove(id).map_err(RecoveryError::from);
        }
        let coverage = Coverage {
            log_bytes: scan.end,
            next: scan.next,
            max_timestamp: scan.indexes.times.max_timestamp(),
            sealed: true,
        };
        let sealed = sealing::seal(self.disk, self.input.dir, &scan.indexes, coverage, false);
        self.unless_full(sealed)?;
        self.take(meta(id, coverage));
        Ok(())
    }

    /// True when the checkpoint was written behind the seal of this segment: nothing of it was on its
    /// way when the power went.
    fn is_sealed_for_good(&self, id: SegmentId) -> bool {
        self.checkpoint.is_some_and(|c| c.segment() > id || (c.segment() == id && c.clean))
    }

    /// Writes down what was found, when anything had to be done.
    fn finish(mut self) -> Result<RecoveredPartition, RecoveryError> {
        let dir = self.input.dir;
        let last = self.segments.last().copied();
        let epoch = last.map_or(LeaderEpoch::ZERO, |last| last.id.epoch);
        let checkpoint = RecoveryCheckpoint {
            segment_epoch: epoch,
            segment_base: last.map_or(self.end, |last| last.id.base),
            byte_pos: last.map_or(0, |last| last.log_bytes.get()),
            offset: self.end,
            log_start_offset: self.log_start,
            clean: true,
        };
        if self.disk.kind(dir)?.is_some() {
            self.write_down(epoch, checkpoint)?;
        }
        assert!(self.log_start <= self.end, "{:?}: {} > {}", dir, self.log_start, self.end);
        Ok(RecoveredPartition {
            manifest: self.manifest,
            log_start: self.log_start,
            end: self.end,
            segments: self.segments,
            report: self.report,
        })
    }

    fn write_down(
        &mut self,
        epoch: LeaderEpoch,
        checkpoint: RecoveryCheckpoint,
    ) -> Result<(), RecoveryError> {
        let (disk, dir) = (self.disk, self.input.dir);
        if self.manifest.is_none() && !self.segments.is_empty() {
            let manifest = Manifest {
                topic_id: self.input.partition.topic,
                topic: self.input.topic.to_owned(),
                partition: self.input.partition.partition,
                leader_epoch: epoch,
                high_watermark: self.end,
                log_start_offset: self.log_start,
            };
            self.unless_full(write_state(disk, dir, &manifest))?;
        }
        if self.names_changed {
            disk.sync_dir(dir)?;
        }
        if self.checkpoint != Some(checkpoint) && !self.report.disk_full {
            self.unless_full(write_state(disk, dir, &checkpoint))?;
        }
        Ok(())
    }

    /// What the index files of a segment say, when they are sound.
    fn coverage(
        &mut self,
        id: SegmentId,
        len: FilePosition,
    ) -> Result<Option<Coverage>, RecoveryError> {
        match indexes::read_coverage(self.disk, self.input.dir, id, len) {
            Ok(coverage) => Ok(Some(coverage)),
            Err(error) => self.note_index(id, error).map(|()| None),
        }
    }

    /// Indexes to go on with, and how far they reach: nowhere, when they are not sound.
    fn resume(
        &mut self,
        id: SegmentId,
        len: FilePosition,
        coverage: Option<Coverage>,
    ) -> Result<(Indexes, Coverage), RecoveryError> {
        if coverage.is_some() {
            match Indexes::load(self.disk, self.input.dir, id, len) {
                Ok(loaded) => return Ok(loaded),
                Err(error) => self.note_index(id, error)?,
            }
        }
        let nothing = Coverage {
            log_bytes: FilePosition::ZERO,
            next: id.base,
            max_timestamp: crate::units::TimestampMs::NONE,
            sealed: false,
        };
        Ok((Indexes::new(id), nothing))
    }

    fn note_index(&mut self, id: SegmentId, error: LoadError) -> Result<(), RecoveryError> {
        let damage = match error {
            LoadError::Disk(error) => return Err(error.into()),
            LoadError::Damaged(damage) => damage,
        };
        if let IndexDamage::Newer { found, known } = damage {
            let path = id.path(self.input.dir, SegmentFile::Index);
            let (found, known) = (u32::from(found), u32::from(known));
            return Err(RecoveryError::Newer { path, found, known });
        }
        // An active segment has no indexes before its first checkpoint.
        let was_due = self.checkpoint.is_some_and(|c| c.segment() >= id && c.offset > id.base);
        if damage != IndexDamage::Missing || was_due {
            self.report.indexes_rebuilt.push((id, damage));
        }
        Ok(())
    }

    /// True when a segment needs no scan: it was complete and synced when its indexes were written,
    /// has that very length, and the next one goes on where it ends.
    fn is_whole(&self, coverage: &Coverage, len: FilePosition, next_base: Option<Offset>) -> bool {
        let follows = next_base.is_none_or(|base| coverage.next == base);
        coverage.sealed && coverage.log_bytes == len && follows
    }

    /// Base offset of the first of these segments that starts with the batch its name promises.
    fn first_valid(&self, later: &[SegmentId]) -> Result<Option<Offset>, RecoveryError> {
        for id in later {
            let file = self.open_log(*id)?;
            let mut reader = ReadAhead::new(&file, FilePosition::new(file.len()?));
            let bounds = Bounds { due: id.base, limit: Offset::MAX };
            let first = search::batch_at(&mut reader, FilePosition::ZERO, bounds)?;
            if first.is_some_and(|p| p.base == id.base || id.cleaned.is_some()) {
                return Ok(Some(id.base));
            }
        }
        Ok(None)
    }

    /// Shows the visitor what the indexes cover and it asked for.
    fn visit_covered<V: BatchVisitor>(
        &mut self,
        file: &D::File,
        id: SegmentId,
        coverage: Coverage,
        visitor: &mut V,
    ) -> Result<(), RecoveryError> {
        let from = self.input.visit_from;
        if coverage.next <= from || coverage.log_bytes == FilePosition::ZERO {
            return Ok(());
        }
        let len = FilePosition::new(file.len()?);
        let index = match Indexes::load(self.disk, self.input.dir, id, len) {
            Ok((indexes, _)) => Some(indexes.offsets),
            Err(LoadError::Damaged(_)) => None,
            Err(LoadError::Disk(error)) => return Err(error.into()),
        };
        let covered = Covered { id, coverage, index, allow_gaps: id.cleaned.is_some() };
        let damage = covered.visit(file, from, visitor)?;
        self.note_damage(damage);
        Ok(())
    }

    fn take(&mut self, meta: SegmentMeta) {
        self.end = meta.next;
        self.segments.push(meta);
    }

    fn remove(&mut self, id: SegmentId) -> Result<(), DiskError> {
        remove_segment(self.disk, self.input.dir, id)?;
        self.listing.segments.retain(|known| *known != id);
        self.report.segments_removed.push(id);
        self.names_changed = true;
        Ok(())
    }

    fn open_log(&self, id: SegmentId) -> Result<D::File, DiskError> {
        self.disk.open(&id.path(self.input.dir, SegmentFile::Log), OpenHow::READ)
    }

    /// A full disk keeps derived files from being written, not the partition from being served.
    fn unless_full<E: Into<RecoveryError>>(
        &mut self,
        written: Result<(), E>,
    ) -> Result<(), RecoveryError> {
        match written.map_err(Into::into) {
            Err(RecoveryError::Disk(error)) if error.kind == DiskErrorKind::Full => {
                self.report.disk_full = true;
                Ok(())
            }
            other => other,
        }
    }
}

fn meta(id: SegmentId, coverage: Coverage) -> SegmentMeta {
    let Coverage { log_bytes, next, max_timestamp, sealed: _ } = coverage;
    SegmentMeta { id, log_bytes, next, max_timestamp }
}

/// Reads a state file that recovery can do without.
fn read_or_note<D: Disk, S: State>(
    disk: &D,
    dir: &Path,
    report: &mut RecoveryReport,
) -> Result<Option<S>, RecoveryError> {
    match read_state(disk, dir) {
        Ok(state) => Ok(state),
        Err(error @ StateError::Damaged { .. }) => {
            report.state_damaged.push(error);
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
