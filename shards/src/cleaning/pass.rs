//! One cleaning of one partition: notes the newest offset of each key in the part of the log that was
//! not cleaned yet, as far as the map holds them, then writes every segment in front of that anew
//! without the records that newer ones replace.
//!
//! Blocking, and cut into steps of bounded size, so that the pool has other things done in between. Front
//! to back: when a tombstone goes, nothing older of its key is left in any segment in front of it.

use std::collections::HashMap;
use std::path::PathBuf;

use millstream_io::batch::RecordBatchHeader;
use millstream_io::batch_stream::{BatchStream, Next};
use millstream_io::disk::{Disk, DiskError, OpenHow};
use millstream_io::indexes::Indexes;
use millstream_io::records::{Keep, Records, RecordsError};
use millstream_io::segment::{SegmentFile, SegmentMeta};
use millstream_io::segment_reader::WalkError;
use millstream_io::units::{
    Cleaned, FilePosition, Offset, ProducerId, SegmentId, TimestampMs, bytes_u64,
};

use super::filter::{Fate, Filter, LastOfProducer};
use super::offset_map::OffsetMap;
use super::output::{Output, TooLong};
use super::transactions::{AbortedRange, Need, Transactions};

/// A sealed segment to be cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    pub id: SegmentId,
    /// Length of its log.
    pub bytes: FilePosition,
    /// Offset behind its last record.
    pub next: Offset,
    /// It is known to be damaged, and stays as it is.
    pub damaged: bool,
}

/// What to clean, and by which rules. Owned: it travels to the pool.
#[derive(Clone, Debug)]
pub struct PassPlan {
    pub dir: PathBuf,
    /// In log order, without a gap.
    pub inputs: Vec<Input>,
    /// Keys of records in front of this were noted by an earlier pass.
    pub first_dirty: Offset,
    /// `segment.bytes`: cleaned segments are put together up to this size.
    pub segment_bytes: u64,
    pub aborted: Vec<AbortedRange>,
    pub producers: HashMap<ProducerId, LastOfProducer>,
    pub now: TimestampMs,
    /// `delete.retention.ms`
    pub delete_retention_ms: i64,
    /// Memory of the offset map, at most.
    pub map_bytes: u64,
}

impl PassPlan {
    /// Bytes that one of the segments takes that are written, at most.
    pub fn space_needed(&self) -> u64 {
        let sizes = || self.inputs.iter().map(|input| input.bytes.get());
        let largest = sizes().max().unwrap_or(0).max(self.segment_bytes);
        largest.min(sizes().sum())
    }
}

/// How a step ended.
#[derive(Debug)]
pub enum Step {
    /// There is more to do.
    More,
    /// Everything is noted that there is room for.
    Mapped,
    /// A segment is written and has its name; it stands for the group's segments from now on.
    Written {
        meta: SegmentMeta,
        indexes: Box<Indexes>,
        /// Markers in it of aborted transactions of which no batch is left.
        over: Vec<Offset>,
    },
    /// The group stays as it is.
    Left,
}

/// What a pass has done since it was last asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassCounts {
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Batches whose records were looked at, and those that were written anew.
    pub batches_decoded: u64,
    pub batches_rewritten: u64,
}

/// A cleaning under way.
#[derive(Debug)]
pub struct Pass<D: Disk> {
    plan: PassPlan,
    stage: Stage<D::File>,
    /// Places of those inputs in the plan that follow.
    next_input: usize,
    /// Inputs that were found damaged.
    damaged: Vec<SegmentId>,
    /// From here on keys were noted, and a group was left all the same.
    left_from: Offset,
    leaves_files: bool,
    counts: PassCounts,
}

#[derive(Debug)]
enum Stage<F: millstream_io::disk::DiskFile> {
    Mapping { map: OffsetMap, transactions: Transactions, open: Option<BatchStream<F>> },
    Writing { filter: Filter, end: Offset, group: Option<Box<Group<F>>> },
}

/// The segments that become one.
#[derive(Debug)]
struct Group<F: millstream_io::disk::DiskFile> {
    inputs: Vec<Input>,
    next: Offset,
    at: usize,
    open: Option<BatchStream<F>>,
    output: Option<Output<F>>,
    changed: bool,
}

impl<F: millstream_io::disk::DiskFile> Group<F> {
    /// The file is to be made, written to, or brought to its end.
    fn writes_next(&self) -> bool {
        let is_read = self.at == self.inputs.len();
        self.output.as_ref().is_none_or(|output| is_read || output.is_full())
    }
}

impl<D: Disk> Pass<D> {
    /// # Panics
    /// Without a segment.
    pub fn new(plan: PassPlan) -> Pass<D> {
        let (Some(first), Some(last)) = (plan.inputs.first(), plan.inputs.last()) else {
            panic!("a cleaning of nothing in {}", plan.dir.display());
        };
        let dirty = plan.first_dirty.max(first.id.base);
        let keys = last.next.checked_since(dirty).unwrap_or(0);
        let mut map = OffsetMap::new(plan.map_bytes, keys);
        map.seen_to(dirty);
        let transactions = Transactions::new(plan.aborted.clone());
        let next_input = plan.inputs.partition_point(|input| input.next <= dirty);
        let stage = Stage::Mapping { map, transactions, open: None };
        let counts = PassCounts::default();
        let (damaged, left_from) = (Vec::new(), Offset::MAX);
        Pass { plan, stage, next_input, damaged, left_from, leaves_files: false, counts }
    }

    /// What was done since the last call.
    pub fn take_counts(&mut self) -> PassCounts {
        std::mem::take(&mut self.counts)
    }

    /// Segments that were found damaged.
    pub fn damaged(&self) -> &[SegmentId] {
        &self.damaged
    }

    /// A segment may stand there that nobody knows of: no other pass may begin before the next start.
    pub fn leaves_files(&self) -> bool {
        self.leaves_files
    }

    /// Everything in front of this is clean when all groups are written. What lies behind the front of
    /// a group that was left is for the next pass, which knows what is damaged.
    pub fn end(&self) -> Offset {
        match &self.stage {
            Stage::Mapping { map, .. } => map.end(),
            Stage::Writing { end, .. } => self.left_from.min(*end),
        }
    }

    /// Chooses the segments that become one next; `None` when there are no more. Ask whether they are
    /// still there, and tell by [`Pass::leave_deleted`]; then step, or [`Pass::skip_group`].
    ///
    /// # Panics
    /// Before everything is noted, or while a group is under way.
    pub fn next_group(&mut self) -> Option<Vec<SegmentId>> {
        let Stage::Writing { filter, end, group } = &mut self.stage else {
            panic!("{}: nothing is noted yet", self.plan.dir.display());
        };
        assert!(group.is_none(), "{}: a group is under way", self.plan.dir.display());
        let known = |input: &&Input| input.damaged || self.damaged.contains(&input.id);
        while self.plan.inputs.get(self.next_input).filter(known).is_some() {
            filter.passed_by();
            self.next_input += 1;
        }
        let first = *self.plan.inputs.get(self.next_input).filter(|input| input.id.base < *end)?;
        let mut bytes = 0;
        let mut next = first.id.base;
        let fits = |input: &&Input| {
            bytes += input.bytes.get();
            let fits = input.id.base == next
                && input.id.epoch == first.id.epoch
                && input.id.base < *end
                && (bytes <= self.plan.segment_bytes || input.id == first.id)
                && input.next.relative_to(first.id.base).is_some()
                && !known(input);
            next = input.next;
            fits
        };
        let inputs = self.plan.inputs[self.next_input..].iter().take_while(fits);
        let inputs: Vec<Input> = inputs.copied().take(GROUP_SEGMENTS_MAX).collect();
        let next = inputs.last().map_or(first.next, |last| last.next);
        self.next_input += inputs.len();
        let ids = inputs.iter().map(|input| input.id).collect();
        let new = Group { inputs, next, at: 0, open: None, output: None, changed: false };
        *group = Some(Box::new(new));
        Some(ids)
    }

    /// The records of the group's first segments were deleted, so those are left. False when none
    /// remains. The others must be cleaned: their keys were noted, and no later pass looks for them.
    ///
    /// # Panics
    /// When no group is under way, or it was begun with.
    pub fn leave_deleted(&mut self, count: usize) -> bool {
        let Stage::Writing { group: place, .. } = &mut self.stage else {
            panic!("{}: nothing is noted yet", self.plan.dir.display());
        };
        let Some(group) = place.as_mut().filter(|group| group.output.is_none()) else {
            panic!("{}: no group, or one that is being written", self.plan.dir.display());
        };
        group.inputs.drain(..count);
        let remains = !group.inputs.is_empty();
        if !remains {
            *place = None;
        }
        remains
    }

    /// Gives the group up.
    pub fn skip_group(&mut self, disk: &D) {
        if let Stage::Writing { group, .. } = &mut self.stage
            && let Some(output) = group.take().and_then(|group| group.output)
        {
            output.abandon(disk);
        }
    }

    /// The next step writes. The others only read and compute: they hold nothing that others wait for,
    /// and may be interrupted for as long as one likes.
    pub fn writes_next(&self) -> bool {
        match &self.stage {
            Stage::Writing { group: Some(group), .. } => group.writes_next(),
            Stage::Mapping { .. } | Stage::Writing { .. } => false,
        }
    }

    /// Goes on by about `bytes` of log, or by one write.
    ///
    /// # Errors
    /// [`DiskError`]. The pass is over then; what it wrote and did not name is removed.
    pub fn step(&mut self, disk: &D, bytes: u64) -> Result<Step, DiskError> {
        let until = self.counts.bytes_read + bytes;
        match &mut self.stage {
            Stage::Mapping { .. } => self.map(disk, until),
            Stage::Writing { .. } => {
                let written = self.write(disk, until);
                if written.is_err() {
                    self.skip_group(disk);
                }
                written
            }
        }
    }

    fn map(&mut self, disk: &D, until: u64) -> Result<Step, DiskError> {
        let Stage::Mapping { map, transactions, open } = &mut self.stage else {
            panic!("everything is noted already");
        };
        while let Some(input) = self.plan.inputs.get(self.next_input) {
            let damaged = input.damaged || self.damaged.contains(&input.id);
            if damaged {
                // It stays as it is, and so do the older records of what it holds.
                map.seen_to(input.next);
                self.next_input += 1;
                *open = None;
                continue;
            }
            let stream = opened(disk, &self.plan, input, open)?;
            match note(stream, self.plan.first_dirty, map, transactions, &mut self.counts, until) {
                Ok(Noted::Paused) => return Ok(Step::More),
                Ok(Noted::Full) => break,
                Ok(Noted::Ended) if stream.due() == input.next => {
                    map.seen_to(input.next);
                    self.next_input += 1;
                    *open = None;
                }
                Ok(Noted::Ended) | Err(Trouble::Damaged) => self.damaged.push(input.id),
                Err(Trouble::Disk(error)) => return Err(error),
            }
        }
        let end = map.end();
        let map = std::mem::replace(map, OffsetMap::new(0, 0));
        let aborted = Transactions::new(self.plan.aborted.clone());
        let PassPlan { now, delete_retention_ms, .. } = self.plan;
        let producers = self.plan.producers.clone();
        let filter = Filter::new(map, aborted, producers, now, delete_retention_ms);
        self.stage = Stage::Writing { filter, end, group: None };
        self.next_input = 0;
        Ok(Step::Mapped)
    }

    fn write(&mut self, disk: &D, until: u64) -> Result<Step, DiskError> {
        let Stage::Writing { filter, group: place, .. } = &mut self.stage else {
            panic!("{}: nothing is noted yet", self.plan.dir.display());
        };
        let Some(group) = place else { panic!("{}: no group", self.plan.dir.display()) };
        let Some(output) = &mut group.output else {
            group.output = Some(Output::create(disk, &self.plan.dir, group_id(&group.inputs))?);
            return Ok(Step::More);
        };
        if output.is_full() {
            self.counts.bytes_written += output.flush()?;
            return Ok(Step::More);
        }
        if let Some(input) = group.inputs.get(group.at) {
            let stream = opened(disk, &self.plan, input, &mut group.open)?;
            let copied = copy(stream, output, filter, group.next, &mut self.counts, until);
            match copied {
                Ok(Copied { changed, ended }) => {
                    group.changed |= changed;
                    if ended && stream.due() == input.next {
                        group.at += 1;
                        group.open = None;
                        return Ok(Step::More);
                    }
                    if !ended {
                        return Ok(Step::More);
                    }
                    self.damaged.push(input.id);
                }
                Err(Trouble::Damaged) => self.damaged.push(input.id),
                Err(Trouble::Disk(error)) => return Err(error),
            }
            // Nothing of the group is cleaned, and nothing behind it may forget a tombstone.
            filter.passed_by();
            self.left_from = self.left_from.min(group.inputs[0].id.base);
            self.skip_group(disk);
            return Ok(Step::Left);
        }
        let group = place.take().map(|group| *group);
        let Some(Group { inputs, output: Some(mut output), changed, .. }) = group else {
            panic!("{}: a group without a segment", self.plan.dir.display());
        };
        if !changed && inputs.len() == 1 {
            output.abandon(disk);
            return Ok(Step::Left);
        }
        let over = filter.take_over();
        match output.finish(disk, &mut self.counts.bytes_written) {
            Ok(meta) => Ok(Step::Written { meta, indexes: Box::new(output.into_indexes()), over }),
            Err(error) => {
                self.leaves_files |= !output.abandon(disk);
                Err(error)
            }
        }
    }
}

/// The name of what becomes of a group.
fn group_id(inputs: &[Input]) -> SegmentId {
    let (Some(first), Some(last)) = (inputs.first(), inputs.last()) else {
        panic!("a group without a segment");
    };
    let highest = inputs.iter().map(|input| input.id.generation()).max().unwrap_or(0);
    let Some(generation) = highest.checked_add(1) else {
        panic!("segment {} was cleaned {highest} times", first.id);
    };
    let cleaned = Cleaned { generation, next: last.next };
    SegmentId { cleaned: Some(cleaned), ..first.id }
}

enum Trouble {
    Disk(DiskError),
    /// A batch is not what was written, or does not read: nothing of its segment is concluded from it,
    /// and nothing of it is written under a fresh checksum.
    Damaged,
}

impl From<WalkError> for Trouble {
    fn from(error: WalkError) -> Trouble {
        match error {
            WalkError::Disk(error) => Trouble::Disk(error),
            WalkError::Damaged { .. } => Trouble::Damaged,
        }
    }
}

impl From<RecordsError> for Trouble {
    fn from(_: RecordsError) -> Trouble {
        Trouble::Damaged
    }
}

fn opened<'o, D: Disk>(
    disk: &D,
    plan: &PassPlan,
    input: &Input,
    open: &'o mut Option<BatchStream<D::File>>,
) -> Result<&'o mut BatchStream<D::File>, DiskError> {
    if open.is_none() {
        let file = disk.open(&input.id.path(&plan.dir, SegmentFile::Log), OpenHow::READ)?;
        *open = Some(BatchStream::new(file, input.id, input.bytes));
    }
    match open {
        Some(stream) => Ok(stream),
        None => panic!("{} was opened just now", input.id),
    }
}

enum Noted {
    Paused,
    Full,
    Ended,
}

/// Notes the keys of a segment's batches from `first_dirty` on.
fn note<F: millstream_io::disk::DiskFile>(
    stream: &mut BatchStream<F>,
    first_dirty: Offset,
    map: &mut OffsetMap,
    transactions: &mut Transactions,
    counts: &mut PassCounts,
    until: u64,
) -> Result<Noted, Trouble> {
    while counts.bytes_read < until {
        let (place, batch) = match stream.step()? {
            Next::Batch(place, batch) => (place, batch),
            Next::Read(bytes) => {
                counts.bytes_read += bytes_u64(bytes);
                continue;
            }
            Next::End => return Ok(Noted::Ended),
        };
        let Some(header) = RecordBatchHeader::view(batch) else { return Err(Trouble::Damaged) };
        let is_needed = transactions.met(batch, header)? == Need::Readers;
        let is_data = is_needed && !header.attributes().is_control();
        if is_data && place.next > first_dirty {
            counts.batches_decoded += 1;
            // To the end, before anything is concluded from its front.
            let mut records = Records::open(batch, Keep::Nothing)?;
            while records.next_record()?.is_some() {}
            let mut records = Records::open(batch, Keep::Keys)?;
            while let Some(record) = records.next_record()? {
                let Some(key) = record.key.filter(|_| record.offset >= first_dirty) else {
                    continue;
                };
                if !map.put(key, record.offset) {
                    map.seen_to(record.offset);
                    return Ok(Noted::Full);
                }
            }
        }
        map.seen_to(place.next);
    }
    Ok(Noted::Paused)
}

struct Copied {
    changed: bool,
    ended: bool,
}

/// Copies what stays of a segment's batches.
fn copy<F: millstream_io::disk::DiskFile>(
    stream: &mut BatchStream<F>,
    output: &mut Output<F>,
    filter: &mut Filter,
    group_next: Offset,
    counts: &mut PassCounts,
    until: u64,
) -> Result<Copied, Trouble> {
    let mut changed = false;
    while counts.bytes_read < until && !output.is_full() {
        let (place, batch) = match stream.step()? {
            Next::Batch(place, batch) => (place, batch),
            Next::Read(bytes) => {
                counts.bytes_read += bytes_u64(bytes);
                continue;
            }
            Next::End => return Ok(Copied { changed, ended: true }),
        };
        counts.batches_decoded += 1;
        // The last one tells where the segment ends.
        let fate = filter.judge(batch, place.next == group_next)?;
        let pushed = match &fate {
            Fate::Gone => {
                changed = true;
                continue;
            }
            Fate::Stays => output.push(&place, batch, place.max_timestamp),
            Fate::Changed(new) => {
                changed = true;
                counts.batches_rewritten += 1;
                let header = RecordBatchHeader::view(new);
                let max_timestamp = header.map_or(place.max_timestamp, |h| h.max_timestamp());
                output.push(&place, new, max_timestamp)
            }
        };
        // Too long for a segment is what cannot be cleaned either.
        pushed.map_err(|TooLong| Trouble::Damaged)?;
    }
    Ok(Copied { changed, ended: false })
}

/// Segments that become one, at most: what one job removes then.
const GROUP_SEGMENTS_MAX: usize = 250;
