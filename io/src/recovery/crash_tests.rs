//! Journal, segments and recovery together on the simulated disk.
//!
//! Goal: whatever the moment of a power cut and its luck, also in the middle of a recovery, every
//! acknowledged batch is in its place afterwards, at most batches whose answer was open are there
//! besides, nothing is reported as damaged or lost, and a second recovery finds nothing to do.
//!
//! Method: a small broker core of plain code (rounds through the journal, large runs straight to the
//! segment, write-behind, checkpoints, rolls, deletion of old segments, clean stops) runs by a seed
//! and is cut at a numbered operation; a model outside remembers what was acknowledged.

use std::path::{Path, PathBuf};

use super::*;
use crate::batch::testing::BatchBuilder;
use crate::checkpoint::{read_state, write_state};
use crate::data_dir::Layout;
use crate::disk::{Disk, DiskFile, OpenHow, create_dir_durable};
use crate::disk_sim::{SimDisk, SimRng};
use crate::index_footer::Coverage;
use crate::indexes::Indexes;
use crate::journal::frame::{frame_bytes, run_bytes};
use crate::journal::{
    FrameWriter, JournalId, JournalRing, JournalState, Placement, RingLimits, RingStart, Run, files,
};
use crate::limits::{BLOCK_BYTES, BLOCK_BYTES_U64};
use crate::partition_state::RecoveryCheckpoint;
use crate::sealing;
use crate::segment::{Listing, SegmentFile, remove_segment};
use crate::segment_reader::place_of;
use crate::units::{LeaderEpoch, PartitionIndex, ShardId, bytes_u64, bytes_usize};

const PARTITIONS: i32 = 4;
const SHARD: ShardId = ShardId::new(0);
const LIMITS: RingLimits = RingLimits { file_bytes: 24 * BLOCK_BYTES_U64, files_max: 3 };
/// Runs from this size on go straight to the segment.
const DIRECT: usize = 6000;
const SEGMENT: u64 = 40_000;

fn layout() -> Layout {
    Layout::new("/data")
}

fn partition(n: i32) -> TopicPartition {
    TopicPartition { topic: TopicId::METADATA, partition: PartitionIndex::at(n) }
}

fn home(partition: TopicPartition) -> Option<replay::Home> {
    let dir = layout().partition("t", partition.partition);
    Some(replay::Home { topic: "t".to_owned(), dir })
}

/// What clients were told of one partition. Survives every crash.
#[derive(Clone, Default)]
struct Model {
    /// Bytes of each acknowledged batch, with its base offset and the one behind it.
    acked: Vec<(i64, i64, Vec<u8>)>,
    /// The same for batches whose answer is open.
    open: Vec<(i64, i64, Vec<u8>)>,
    log_start: i64,
    /// A log start that may or may not be in force.
    log_start_open: i64,
}

/// One partition as its core sees it.
struct Part {
    n: i32,
    dir: PathBuf,
    end: i64,
    segment: Option<Active>,
    older: Vec<SegmentId>,
    made: bool,
}

struct Active {
    id: SegmentId,
    bytes: Vec<u8>,
    /// Bytes that were committed, by journal or directly.
    committed: u64,
    /// Whole blocks that were given to the segment's file.
    written: u64,
    indexes: Indexes,
}

struct Broker {
    disk: SimDisk,
    ring: JournalRing,
    epoch: i32,
    parts: Vec<Part>,
    rng: SimRng,
}

type Step = Result<(), RecoveryError>;

/// Recovers everything. Returns the partitions as they were found.
fn recover(
    disk: &SimDisk,
    start: u64,
) -> Result<(Vec<RecoveredPartition>, RingStart), RecoveryError> {
    let layout = layout();
    create_dir_durable(disk, Path::new("/"), &layout.topic("t"))?;
    let replayed = replay(disk, &layout, 1, home)?;
    assert_eq!(replayed.damage().count(), 0, "the journal is never damaged by a power cut");
    let mut found = Vec::new();
    // What lies below the log start goes only when the visitor need not see it.
    let visit_from = if start.is_multiple_of(2) { Offset::ZERO } else { Offset::MAX };
    for n in 0..PARTITIONS {
        let home = home(partition(n)).unwrap();
        let input = PartitionInput {
            dir: &home.dir,
            partition: partition(n),
            topic: "t",
            evidence: replayed.evidence(partition(n)),
            visit_from,
        };
        found.push(recover_partition(disk, &input, &mut ())?);
    }
    let id = || JournalId::new(start);
    let mut starts = finish_journals(disk, &layout, &replayed, 1, LIMITS, id)?;
    Ok((found, starts.remove(0)))
}

impl Broker {
    fn start(disk: SimDisk, epoch: i32, seed: u64) -> Result<Broker, RecoveryError> {
        let (found, ring) = recover(&disk, seed ^ u64::from(epoch.unsigned_abs()))?;
        let parts = found.into_iter().zip(0..).map(|(found, n)| Part {
            n,
            dir: home(partition(n)).unwrap().dir,
            end: found.end.get(),
            segment: None,
            older: found.segments.iter().map(|s| s.id).collect(),
            made: found.manifest.is_some() || !found.segments.is_empty(),
        });
        let rng = SimRng::new(seed);
        Ok(Broker {
            parts: parts.collect(),
            disk,
            ring: JournalRing::new(ring, LIMITS),
            epoch,
            rng,
        })
    }

    /// Some work by chance.
    fn act(&mut self, models: &mut [Model]) -> Step {
        match self.rng.below(20) {
            0..=11 => self.commit(models),
            12..=14 => self.write_behind(),
            15 | 16 => self.checkpoint(),
            17 => self.roll(),
            18 => self.delete_old(models),
            _ => self.release_journal(),
        }
    }

    /// One commit round over some partitions.
    fn commit(&mut self, models: &mut [Model]) -> Step {
        let mut rounds: Vec<(Run, Vec<u8>, bool)> = Vec::new();
        for n in 0..PARTITIONS {
            if self.rng.chance(50) {
                rounds.push(self.stage(n, models));
            }
        }
        // The direct writes of a round and its frame may be done in either order.
        let direct_first = self.rng.chance(50);
        if direct_first {
            self.write_direct(&rounds)?;
        }
        self.write_frame(&rounds)?;
        if !direct_first {
            self.write_direct(&rounds)?;
        }
        for (run, _, _) in &rounds {
            let n = run.partition.partition.to_usize();
            let (part, model) = (&mut self.parts[n], &mut models[n]);
            if let Some(active) = &mut part.segment {
                active.committed = bytes_u64(active.bytes.len());
            }
            model.acked.append(&mut model.open);
        }
        Ok(())
    }

    /// Gives a partition new batches; says what goes into the frame, and whether more goes straight.
    fn stage(&mut self, n: i32, models: &mut [Model]) -> (Run, Vec<u8>, bool) {
        self.open_segment(n);
        let count = self.rng.below(3) + 1;
        let epoch = self.epoch;
        let mut batches = Vec::new();
        for _ in 0..count {
            let size = if self.rng.chance(20) { 9000 } else { self.rng.below(700) as usize + 1 };
            let values = vec![vec![self.rng.next_u64() as u8; size]; self.rng.index(3) + 1];
            batches.push(BatchBuilder::of_values(values));
        }
        let (part, model) = (&mut self.parts[n as usize], &mut models[n as usize]);
        let Some(active) = &mut part.segment else { panic!("opened just now") };
        let from = active.committed;
        for batch in batches {
            let bytes = batch.at_offset(part.end, epoch).build();
            let header = crate::batch::RecordBatchHeader::view(&bytes).unwrap();
            let at = FilePosition::new(bytes_u64(active.bytes.len()));
            let place = place_of(header, at, bytes.len()).unwrap();
            active.indexes.note(place.start(), place.max_timestamp);
            active.bytes.extend_from_slice(&bytes);
            model.open.push((part.end, place.next.get(), bytes.to_vec()));
            part.end = place.next.get();
        }
        let len = bytes_u64(active.bytes.len());
        let direct = len - from >= bytes_u64(DIRECT);
        let at = if direct { FilePosition::new(len).block_floor().get() } else { from };
        let run = Run {
            partition: partition(n),
            segment: active.id,
            at: FilePosition::new(at),
            end: Offset::at(part.end),
            direct,
        };
        (run, active.bytes[bytes_usize(at)..].to_vec(), direct)
    }

    fn open_segment(&mut self, n: i32) {
        let part = &mut self.parts[n as usize];
        if part.segment.is_none() {
            let epoch = LeaderEpoch::at(self.epoch);
            let id = SegmentId::new(epoch, Offset::at(part.end));
            let indexes = Indexes::new(id);
            part.segment = Some(Active { id, bytes: vec![], committed: 0, written: 0, indexes });
        }
    }

    /// The directory of a partition is made when the first bytes go to a segment, not before.
    fn make_dir(&mut self, n: usize) -> Step {
        let part = &mut self.parts[n];
        if !part.made {
            create_dir_durable(&self.disk, layout().root(), &part.dir)?;
            write_state(&self.disk, &part.dir, &manifest(part.n, 0))?;
            part.made = true;
        }
        Ok(())
    }

    fn write_direct(&mut self, rounds: &[(Run, Vec<u8>, bool)]) -> Step {
        for (run, _, _) in rounds.iter().filter(|(_, _, direct)| *direct) {
            let n = run.partition.partition.to_usize();
            self.make_dir(n)?;
            let part = &mut self.parts[n];
            let Some(active) = &mut part.segment else { continue };
            let file = write_blocks(&self.disk, &part.dir, active, run.at.get(), 0)?;
            file.sync_data()?;
        }
        Ok(())
    }

    fn write_frame(&mut self, rounds: &[(Run, Vec<u8>, bool)]) -> Step {
        let bytes = frame_bytes(rounds.iter().map(|(_, b, _)| run_bytes(b.len())).sum());
        let slot = loop {
            match self.ring.place(bytes) {
                Placement::Write(slot) => break slot,
                Placement::Full => self.release_journal()?,
                Placement::Wait => self.prepare()?,
            }
        };
        let mut frame = vec![0xa5; bytes];
        let mut writer = FrameWriter::new(&mut frame);
        for (run, bytes, _) in rounds {
            writer.push(run, [&bytes[..]]);
        }
        writer.finish(slot.id);
        frame.resize(bytes + slot.blank, 0);
        let path = files::path(&layout().journal(SHARD), slot.id.seq);
        let file = self.disk.open(&path, OpenHow::WRITE.direct().durable())?;
        file.write_at(&frame, slot.at)?;
        self.ring.written(slot, rounds.iter().map(|(run, _, _)| (run.partition, run.end)));
        self.prepare()
    }

    fn prepare(&mut self) -> Step {
        while let Some(job) = self.ring.prepare() {
            let dir = layout().journal(SHARD);
            let blank = files::prepare(&self.disk, &dir, &job, LIMITS.file_bytes)?;
            self.ring.prepared(blank);
        }
        Ok(())
    }

    /// Whole blocks go to the segment, not synced.
    fn write_behind(&mut self) -> Step {
        let n = self.rng.index(self.parts.len());
        if self.parts[n].segment.is_some() {
            self.make_dir(n)?;
        }
        let part = &mut self.parts[n];
        if let Some(active) = &mut part.segment {
            let to = FilePosition::new(active.committed).block_floor().get();
            write_blocks(&self.disk, &part.dir, active, to, 0)?;
        }
        Ok(())
    }

    /// A segment is synced to its end and its indexes and checkpoint are written.
    fn checkpoint(&mut self) -> Step {
        let n = self.rng.index(self.parts.len());
        self.sync_part(n, false)?;
        if self.rng.chance(50) && self.parts[n].segment.is_some() {
            let part = &self.parts[n];
            write_checkpoint(&self.disk, part, false)?;
            self.ring.checkpointed(partition(part.n), Offset::at(part.end));
        }
        Ok(())
    }

    fn roll(&mut self) -> Step {
        let n = self.rng.index(self.parts.len());
        let full = |active: &Active| bytes_u64(active.bytes.len()) > SEGMENT / 4;
        if self.parts[n].segment.as_ref().is_some_and(full) {
            self.sync_part(n, true)?;
            let part = &mut self.parts[n];
            part.older.extend(part.segment.take().map(|active| active.id));
        }
        Ok(())
    }

    /// Writes and syncs all of a partition. Sealing makes the file exact.
    fn sync_part(&mut self, n: usize, seal: bool) -> Step {
        if self.parts[n].segment.as_ref().is_none_or(|active| active.bytes.is_empty()) {
            return Ok(());
        }
        self.make_dir(n)?;
        let part = &mut self.parts[n];
        let Some(active) = &mut part.segment else { return Ok(()) };
        let len = active.committed;
        let whole = FilePosition::new(len).block_floor().get();
        let file = write_blocks(&self.disk, &part.dir, active, whole, len - whole)?;
        let coverage = Coverage {
            log_bytes: FilePosition::new(len),
            next: Offset::at(part.end),
            max_timestamp: active.indexes.times.max_timestamp(),
            sealed: seal,
        };
        if seal {
            sealing::seal(&self.disk, &part.dir, &active.indexes, coverage, false)?;
        } else {
            file.sync_data()?;
            active.indexes.write(&self.disk, &part.dir, coverage, &[])?;
            self.disk.sync_dir(&part.dir)?;
        }
        self.ring.synced(partition(part.n), Offset::at(part.end));
        Ok(())
    }

    /// Records of a partition are deleted up to any offset, the log start first; then the segments
    /// that lie wholly below.
    fn delete_old(&mut self, models: &mut [Model]) -> Step {
        let n = self.rng.index(self.parts.len());
        let model = &mut models[n];
        let left = self.parts[n].end - model.log_start;
        if left == 0 {
            return Ok(());
        }
        self.make_dir(n)?;
        let most = if self.rng.chance(20) { left } else { left / 2 };
        let start = model.log_start + 1 + self.rng.below(most.max(1).unsigned_abs()) as i64;
        let part = &mut self.parts[n];
        model.log_start_open = start;
        write_state(&self.disk, &part.dir, &manifest(part.n, start))?;
        model.log_start = start;
        let active = part.segment.as_ref().filter(|active| active.committed > 0);
        let bases = part.older.iter().map(|id| id.base).chain(active.map(|active| active.id.base));
        let gone = bases.skip(1).take_while(|next| next.get() <= start).count();
        // The name of the next one tells a replay that those before it were removed.
        if let Some(next) = active.filter(|_| gone == part.older.len()) {
            self.disk.open(&next.id.path(&part.dir, SegmentFile::Log), OpenHow::CREATE)?;
            self.disk.sync_dir(&part.dir)?;
        }
        for gone in part.older.drain(..gone) {
            remove_segment(&self.disk, &part.dir, gone)?;
        }
        self.disk.sync_dir(&part.dir)?;
        Ok(())
    }

    /// Syncs what holds back the oldest journal file.
    fn release_journal(&mut self) -> Step {
        let holders: Vec<_> = self.ring.holders().collect();
        for (partition, _) in holders {
            self.sync_part(partition.partition.to_usize(), false)?;
        }
        self.prepare()
    }

    fn stop(&mut self) -> Step {
        for n in 0..self.parts.len() {
            self.sync_part(n, true)?;
            if self.parts[n].segment.as_ref().is_some_and(|active| !active.bytes.is_empty()) {
                write_checkpoint(&self.disk, &self.parts[n], true)?;
            }
        }
        let state = JournalState::from(self.ring.clean_state());
        Ok(state.write(&self.disk, &layout().journal(SHARD))?)
    }
}

fn manifest(n: i32, log_start: i64) -> Manifest {
    Manifest {
        topic_id: TopicId::METADATA,
        topic: "t".to_owned(),
        partition: PartitionIndex::at(n),
        leader_epoch: LeaderEpoch::ZERO,
        high_watermark: Offset::ZERO,
        log_start_offset: Offset::at(log_start),
    }
}

fn write_checkpoint(disk: &SimDisk, part: &Part, clean: bool) -> Step {
    let Some(active) = &part.segment else { return Ok(()) };
    let manifest: Option<Manifest> = read_state(disk, &part.dir)?;
    let log_start_offset = manifest.map_or(Offset::ZERO, |m| m.log_start_offset);
    Ok(write_state(
        disk,
        &part.dir,
        &RecoveryCheckpoint {
            segment_epoch: active.id.epoch,
            segment_base: active.id.base,
            byte_pos: active.committed,
            offset: Offset::at(part.end),
            log_start_offset,
            clean,
        },
    )?)
}

/// Writes the blocks of a segment up to `to` that are not written yet, and a partial one of
/// `partial` bytes behind them, padded with zeros.
fn write_blocks(
    disk: &SimDisk,
    dir: &Path,
    active: &mut Active,
    to: u64,
    partial: u64,
) -> Result<<SimDisk as Disk>::File, RecoveryError> {
    let path = active.id.path(dir, SegmentFile::Log);
    let known = disk.kind(&path)?.is_some();
    let file = disk.open(&path, OpenHow::CREATE.direct())?;
    if !known {
        disk.sync_dir(dir)?;
    }
    let bytes = |from: u64, to: u64| &active.bytes[bytes_usize(from)..bytes_usize(to)];
    if to > active.written {
        let from = active.written;
        file.write_at(bytes(from, to), FilePosition::new(from))?;
        active.written = to;
    }
    if partial > 0 {
        let mut block = vec![0; BLOCK_BYTES];
        block[..bytes_usize(partial)]
            .copy_from_slice(&active.bytes[bytes_usize(to)..][..bytes_usize(partial)]);
        file.write_at(&block, FilePosition::new(to))?;
    }
    Ok(file)
}

/// Compares a recovered partition with what clients were told, and takes over what was open.
fn check(disk: &SimDisk, n: i32, found: &RecoveredPartition, model: &mut Model, place: &str) {
    let report = &found.report;
    assert!(report.damage.is_empty(), "{place}: damage {report:?}");
    assert!(report.lost.is_empty(), "{place}: lost {report:?}");
    assert!(report.state_damaged.is_empty(), "{place}: {report:?}");
    let start = found.log_start.get();
    assert!(start == model.log_start || start == model.log_start_open, "{place}: start {start}");
    model.log_start = start;
    model.log_start_open = start;
    let dir = home(partition(n)).unwrap().dir;
    let mut bytes = Vec::new();
    for segment in &found.segments {
        let path = segment.id.path(&dir, SegmentFile::Log);
        let log = disk.read_all(&path, 1 << 30).unwrap();
        assert_eq!(bytes_u64(log.len()), segment.log_bytes.get(), "{place}: {path:?} is not exact");
        bytes.extend_from_slice(&log);
        let (indexes, coverage) = Indexes::load(disk, &dir, segment.id, segment.log_bytes).unwrap();
        assert!(coverage.sealed && coverage.next == segment.next, "{place}: {coverage:?}");
        assert_eq!(coverage.max_timestamp, indexes.times.max_timestamp(), "{place}");
    }
    // Everything acknowledged that is not deleted, then perhaps some of what was open, in order.
    let first_base = found.segments.first().map_or(found.end, |s| s.id.base).get();
    let told = model.acked.iter().filter(|(base, _, _)| *base >= first_base);
    let mut rest = &bytes[..];
    for (base, _, batch) in told {
        assert!(rest.starts_with(batch), "{place}: batch {base} is not in its place");
        rest = &rest[batch.len()..];
    }
    for (base, next, batch) in std::mem::take(&mut model.open) {
        if !rest.starts_with(&batch) {
            break;
        }
        rest = &rest[batch.len()..];
        model.acked.push((base, next, batch));
    }
    assert!(rest.is_empty(), "{place}: {} bytes that nobody wrote", rest.len());
    let end = model.acked.last().map_or(0, |(_, next, _)| *next);
    assert_eq!(found.end.get(), end.max(start), "{place}: end");
}

fn check_all(disk: &SimDisk, found: &[RecoveredPartition], models: &mut [Model], place: &str) {
    for (n, (found, model)) in found.iter().zip(models).enumerate() {
        check(disk, n as i32, found, model, &format!("{place} partition {n}"));
    }
}

fn models() -> Vec<Model> {
    vec![Model::default(); PARTITIONS as usize]
}

/// A run of `acts` pieces of work, then a stop. True when it got that far.
fn life(disk: &SimDisk, epoch: i32, seed: u64, acts: u64, models: &mut [Model]) -> bool {
    let Ok(mut broker) = Broker::start(disk.clone(), epoch, seed) else { return false };
    (0..acts).all(|_| broker.act(models).is_ok()) && broker.stop().is_ok()
}

/// After the power is back: recover, perhaps with another cut in the middle, and compare.
fn recover_and_check(disk: &SimDisk, seed: u64, models: &mut [Model], place: &str) {
    let mut rng = SimRng::new(seed ^ 0x5eed);
    let odd = seed % 2;
    if rng.chance(40) {
        let at = disk.ops() + 1 + rng.below(40);
        disk.power_off_at(at);
        let _ = recover(disk, 2 + odd);
        disk.crash(rng.next_u64());
    }
    let (found, _) = match recover(disk, 4 + odd) {
        Ok(found) => found,
        Err(error) => panic!("{place}: {error}"),
    };
    check_all(disk, &found, models, place);
    let (again, _) = recover(disk, 6 + odd).unwrap();
    for partition in &again {
        let report = &partition.report;
        assert_eq!(*report, RecoveryReport::default(), "{place}: the second recovery had work");
    }
}

fn cut_at_every_operation(seeds: std::ops::Range<u64>, acts: u64) {
    for seed in seeds {
        let total = {
            let disk = SimDisk::new();
            assert!(life(&disk, 0, seed, acts, &mut models()), "seed {seed}");
            disk.ops()
        };
        for at in 1..=total {
            let disk = SimDisk::new();
            let mut models = models();
            disk.power_off_at(at);
            let stopped = life(&disk, 0, seed, acts, &mut models);
            assert!(!stopped, "the power went at {at} of {total}");
            disk.crash(seed.wrapping_mul(1_000_003) ^ at);
            recover_and_check(&disk, at, &mut models, &format!("seed {seed} op {at}"));
        }
    }
}

fn live_and_die(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        let disk = SimDisk::new();
        let (mut rng, mut models) = (SimRng::new(seed), models());
        for epoch in 0..6 {
            let place = format!("seed {seed} life {epoch}");
            let clean = rng.chance(25);
            if !clean {
                disk.power_off_at(disk.ops() + 1 + rng.below(250));
            }
            let stopped = life(&disk, epoch, rng.next_u64(), 50, &mut models);
            disk.crash(rng.next_u64());
            if stopped {
                for model in &models {
                    assert!(model.open.is_empty(), "{place}: an answer was open after a stop");
                }
            }
            recover_and_check(&disk, rng.next_u64(), &mut models, &place);
        }
    }
}

#[test]
fn acknowledged_batches_survive_a_power_cut_at_every_operation() {
    cut_at_every_operation(0..2, 40);
}

#[test]
fn acknowledged_batches_survive_many_lives_and_deaths() {
    live_and_die(100..150);
}

#[test]
#[ignore = "takes minutes; ./tests/run --long runs it"]
fn acknowledged_batches_survive_thousands_of_power_cuts() {
    cut_at_every_operation(0..20, 80);
    live_and_die(1000..3000);
}

#[test]
fn clean_stop_is_followed_by_a_start_that_reads_no_log() {
    let (disk, mut models) = (SimDisk::new(), models());
    assert!(life(&disk, 0, 7, 80, &mut models));
    disk.crash(1);
    let (found, _) = recover(&disk, 1).unwrap();
    for partition in &found {
        assert_eq!(partition.report, RecoveryReport::default());
    }
    check_all(&disk, &found, &mut models, "after a clean stop");
    assert!(found.iter().any(|p| p.segments.len() > 1), "several segments were there");
    let listing = Listing::read(&disk, &home(partition(0)).unwrap().dir).unwrap();
    assert!(listing.temporary.is_empty() && listing.orphans().is_empty());
}
