//! Walking a whole data directory of a stopped broker.

use std::io::{self, Write};
use std::path::Path;

use super::Verdict;
use crate::checkpoint::{StateError, read_state};
use crate::data_dir::{Layout, MetaProperties, journal_shards};
use crate::disk::{Disk, DiskErrorKind, DiskFile, EntryKind, OpenHow};
use crate::index_footer::{Coverage, IndexDamage};
use crate::indexes::{Indexes, LoadError};
use crate::journal::scan::scan;
use crate::partition_state::{Manifest, RecoveryCheckpoint};
use crate::recovery::segment_scan::{Around, SegmentScan, scan_segment};
use crate::segment::{Listing, SegmentFile};
use crate::segment_reader::{Walk, WalkError};
use crate::sparse_index::BatchStart;
use crate::units::{FilePosition, Offset, SegmentId, TimestampMs};

/// What a walk found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Verified {
    pub partitions: u64,
    pub segments: u64,
    /// Bytes of log whose checksums were computed.
    pub bytes: u64,
    /// Things that are not as they were written.
    pub problems: u64,
    /// The next start has work to do, as after any crash; no problem.
    pub needs_recovery: bool,
}

impl Verified {
    pub fn verdict(&self) -> Verdict {
        if self.problems == 0 { Verdict::Sound } else { Verdict::Damaged }
    }
}

/// Reads every byte of every log in `root`, and everything that is derived from them, and prints a
/// line for each partition and for each problem. Changes nothing.
///
/// # Errors
/// When `out` cannot be written to. Everything else is a problem that is printed and counted.
pub fn verify<D: Disk>(disk: &D, root: &Path, out: &mut impl Write) -> io::Result<Verified> {
    let mut walk = Verify { disk, out, found: Verified::default(), replay_is_due: false };
    let layout = Layout::new(root);
    if let Some(reason) = not_to_be_read(disk, root) {
        walk.problem(&reason)?;
        return Ok(walk.found);
    }
    // Held until the walk is over, so that no broker starts in the middle of it.
    let lock = disk.open(&root.join(".lock"), OpenHow::READ).ok();
    if let Some(Err(error)) = lock.as_ref().map(DiskFile::lock)
        && error.kind == DiskErrorKind::Locked
    {
        walk.problem(&format!("{} is used by a broker; stop it first", root.display()))?;
        return Ok(walk.found);
    }
    walk.journals(&layout)?;
    walk.topics(&layout)?;
    walk.summary()?;
    Ok(walk.found)
}

fn not_to_be_read<D: Disk>(disk: &D, root: &Path) -> Option<String> {
    match MetaProperties::read(disk, root) {
        Ok(Some(_)) => None,
        Ok(None) => Some(format!("{} has no meta.properties: no data directory", root.display())),
        Err(error) => Some(error.to_string()),
    }
}

struct Verify<'a, D: Disk, W: Write> {
    disk: &'a D,
    out: &'a mut W,
    found: Verified,
    /// The journals hold rounds, which may mend what the segments show now.
    replay_is_due: bool,
}

impl<D: Disk, W: Write> Verify<'_, D, W> {
    fn problem(&mut self, text: &str) -> io::Result<()> {
        self.found.problems += 1;
        writeln!(self.out, "problem: {text}")
    }

    fn journals(&mut self, layout: &Layout) -> io::Result<()> {
        let shards = match journal_shards(self.disk, layout) {
            Ok(shards) => shards,
            Err(error) => return self.problem(&error.to_string()),
        };
        for shard in shards {
            let dir = layout.journal(shard);
            let report = match scan(self.disk, &dir, shard, |_| Ok(())) {
                Ok(report) => report,
                Err(error) => {
                    self.problem(&error.to_string())?;
                    continue;
                }
            };
            for damage in &report.damage {
                self.problem(&format!("{}: {damage}", dir.display()))?;
            }
            if !report.state_known {
                self.problem(&format!("{}: its state file is lost", dir.display()))?;
            }
            let (frames, bytes) = (report.frames, report.bytes);
            self.replay_is_due |= frames > 0;
            self.found.needs_recovery |= frames > 0;
            writeln!(self.out, "journal {shard}: {frames} rounds of {bytes} bytes to replay")?;
        }
        Ok(())
    }

    fn topics(&mut self, layout: &Layout) -> io::Result<()> {
        for topic in self.directories(&layout.topics())? {
            let dir = layout.topic(&topic);
            for partition in self.directories(&dir)? {
                self.partition(&dir.join(partition))?;
            }
        }
        Ok(())
    }

    fn directories(&mut self, dir: &Path) -> io::Result<Vec<String>> {
        match self.disk.list(dir) {
            Ok(entries) => {
                let directories = entries.into_iter().filter(|e| e.kind == EntryKind::Directory);
                Ok(directories.map(|e| e.name).collect())
            }
            Err(error) if error.is_not_found() => Ok(Vec::new()),
            Err(error) => {
                self.problem(&error.to_string())?;
                Ok(Vec::new())
            }
        }
    }

    fn partition(&mut self, dir: &Path) -> io::Result<()> {
        self.found.partitions += 1;
        let before = self.found.problems;
        let listing = match Listing::read(self.disk, dir) {
            Ok(listing) => listing,
            Err(error) => return self.problem(&error.to_string()),
        };
        let manifest = self.state(dir, read_state::<D, Manifest>(self.disk, dir))?;
        if manifest.is_none() && !listing.segments.is_empty() {
            self.problem(&format!("{}: manifest.json is missing", dir.display()))?;
        }
        let checkpoint = self.state(dir, read_state::<D, RecoveryCheckpoint>(self.disk, dir))?;
        let mut end = listing.segments.first().map_or(Offset::ZERO, |first| first.base);
        let first = end;
        let acknowledged = checkpoint.filter(|_| !self.replay_is_due).map(|c| c.offset);
        for (i, id) in listing.segments.iter().enumerate() {
            let limit = listing.segments.get(i + 1).map(|next| next.base);
            end = self.segment(dir, *id, limit, acknowledged)?.unwrap_or(end);
        }
        if let Some(checkpoint) = checkpoint.filter(|c| c.offset > end) {
            let acknowledged = checkpoint.offset;
            if self.replay_is_due {
                writeln!(self.out, "{}: ends at {end} before the replay", dir.display())?;
            } else {
                let text = format!(
                    "{}: ends at {end}, and {acknowledged} was acknowledged",
                    dir.display()
                );
                self.problem(&text)?;
            }
        }
        let (segments, problems) = (listing.segments.len(), self.found.problems - before);
        writeln!(
            self.out,
            "{}: offsets {first} to {end} in {segments} segments, {problems} problems",
            dir.display()
        )
    }

    fn state<S>(
        &mut self,
        dir: &Path,
        read: Result<Option<S>, StateError>,
    ) -> io::Result<Option<S>> {
        match read {
            Ok(state) => Ok(state),
            Err(error) => {
                self.problem(&format!("{}: {error}", dir.display()))?;
                Ok(None)
            }
        }
    }

    /// Reads one segment whole. Says where it ends.
    fn segment(
        &mut self,
        dir: &Path,
        id: SegmentId,
        limit: Option<Offset>,
        acknowledged: Option<Offset>,
    ) -> io::Result<Option<Offset>> {
        self.found.segments += 1;
        let nothing = Coverage {
            log_bytes: FilePosition::ZERO,
            next: id.base,
            max_timestamp: TimestampMs::NONE,
            sealed: false,
        };
        let acknowledged_to = acknowledged.unwrap_or_default();
        let around = Around {
            limit,
            unacknowledged_from: None,
            acknowledged_to,
            allow_gaps: id.cleaned.is_some(),
        };
        let path = id.path(dir, SegmentFile::Log);
        let scanned = self.disk.open(&path, OpenHow::READ).and_then(|file| {
            let scan = scan_segment(&file, id, (Indexes::new(id), nothing), around, &mut ())?;
            let len = file.len()?;
            Ok((file, scan, len))
        });
        let (file, scan, len) = match scanned {
            Ok(scanned) => scanned,
            Err(error) => {
                self.problem(&error.to_string())?;
                return Ok(None);
            }
        };
        self.found.bytes += scan.bytes;
        for damage in &scan.damage {
            self.problem(&format!("{}: {damage}", dir.display()))?;
        }
        if scan.cut > 0 {
            let (cut, end) = (scan.cut, scan.end);
            self.found.needs_recovery = true;
            writeln!(self.out, "{}: {cut} bytes behind byte {end} are no batch", path.display())?;
        }
        self.indexes(dir, id, &file, &scan, FilePosition::new(len))?;
        Ok(Some(scan.next))
    }

    /// Holds the index files to the log.
    fn indexes(
        &mut self,
        dir: &Path,
        id: SegmentId,
        file: &D::File,
        scan: &SegmentScan,
        len: FilePosition,
    ) -> io::Result<()> {
        let place = format!("{}: indexes of segment {id}", dir.display());
        let (indexes, coverage) = match Indexes::load(self.disk, dir, id, len) {
            Ok(loaded) => loaded,
            // A name without a byte says where the log of an emptied partition goes on.
            Err(LoadError::Damaged(IndexDamage::Missing)) if len == FilePosition::ZERO => {
                return Ok(());
            }
            Err(LoadError::Damaged(IndexDamage::Missing)) => {
                self.found.needs_recovery = true;
                return writeln!(self.out, "{place} are not written yet, or missing");
            }
            Err(error) => return self.problem(&format!("{place}: {error}")),
        };
        let sealed_short = coverage.sealed && coverage.log_bytes != scan.end;
        if sealed_short && scan.damage.is_empty() {
            self.found.needs_recovery = true;
            let (covered, end) = (coverage.log_bytes, scan.end);
            writeln!(self.out, "{place} cover {covered} bytes, and the log has {end}")?;
        }
        for entry in indexes.offsets.entries() {
            if let Err(reason) = is_batch_start(file, entry, coverage.log_bytes) {
                let BatchStart { base, at } = entry;
                self.problem(&format!("{place}: offset {base} is not at byte {at}: {reason}"))?;
            }
        }
        if indexes.times.max_timestamp() < scan_max(scan, &coverage) {
            self.problem(&format!("{place}: a later timestamp is in the log"))?;
        }
        Ok(())
    }

    fn summary(&mut self) -> io::Result<()> {
        let Verified { partitions, segments, bytes, problems, needs_recovery } = self.found;
        let work = if needs_recovery { "; the next start has work to do" } else { "" };
        writeln!(
            self.out,
            "{partitions} partitions, {segments} segments, {bytes} bytes read, {problems} problems{work}"
        )
    }
}

/// The log's largest timestamp, when the indexes speak of the same part of it.
fn scan_max(scan: &SegmentScan, coverage: &Coverage) -> TimestampMs {
    if coverage.log_bytes == scan.end {
        scan.indexes.times.max_timestamp()
    } else {
        TimestampMs::NONE
    }
}

fn is_batch_start<F: DiskFile>(
    file: &F,
    entry: BatchStart,
    end: FilePosition,
) -> Result<(), WalkError> {
    let mut walk = Walk::new(file, entry, end).without_gaps();
    walk.next_place().map(|_| ())
}
