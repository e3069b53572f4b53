//! Frames, ring and scan together, over the simulated disk.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;

use super::files;
use super::frame::{FRAME_HEADER_BYTES, FrameHead, frame_bytes, run_bytes};
use super::scan::{ScanReport, scan};
use super::*;
use crate::disk::{Disk, DiskFile, OpenHow};
use crate::disk_sim::{CrashMode, SimDisk, SimRng};
use crate::limits::{BLOCK_BYTES, BLOCK_BYTES_U64};
use crate::units::{
    FilePosition, JournalSeq, LeaderEpoch, Offset, PartitionIndex, RoundNumber, SegmentId, ShardId,
    TopicId, TopicPartition,
};

const SHARD: ShardId = ShardId::new(3);
const LIMITS: RingLimits = RingLimits { file_bytes: 8 * BLOCK_BYTES_U64, files_max: 3 };

fn dir() -> &'static Path {
    Path::new("/journal/3")
}

fn partition(n: i32) -> TopicPartition {
    TopicPartition { topic: TopicId::METADATA, partition: PartitionIndex::at(n) }
}

fn run(n: i32, at: u64, end: i64) -> Run {
    Run {
        partition: partition(n),
        segment: SegmentId::new(LeaderEpoch::at(1), Offset::ZERO),
        at: FilePosition::new(at),
        end: Offset::at(end),
        direct: false,
    }
}

fn id(seq: u64, round: u64) -> FrameId {
    FrameId {
        shard: SHARD,
        journal: JournalId::new(7),
        seq: JournalSeq::new(seq),
        round: RoundNumber::new(round),
    }
}

fn encode(id: FrameId, runs: &[(Run, &[u8])]) -> Vec<u8> {
    let mut buf = vec![0xa5; frame_bytes(runs.iter().map(|(_, b)| run_bytes(b.len())).sum())];
    let mut writer = FrameWriter::new(&mut buf);
    for (run, bytes) in runs {
        let (front, back) = bytes.split_at(bytes.len() / 2);
        writer.push(run, [front, back]);
    }
    writer.finish(id);
    buf
}

#[test]
fn frame_has_these_bytes() {
    let frame = encode(id(5, 9), &[(run(2, 0x1000, 7), b"abc")]);
    assert_eq!(frame.len(), BLOCK_BYTES);
    let head = [
        b'M', b'S', b'J', b'F', 0, 1, 0, 3, // magic, version, shard
        0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 5, // journal, file
        0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 112, 0, 0, 0, 1, // round, length, runs
    ];
    assert_eq!(frame[..40], head);
    let crc = crc32c::crc32c_append(crc32c::crc32c(&frame[..40]), &frame[44..112]);
    assert_eq!(frame[40..44], crc.to_be_bytes());
    let rest = [
        0, 0, 0, 0, // zero
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, // topic, partition
        0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, // epoch, base
        0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 7, // position, end
        0, 0, 0, 3, 0, 0, 0, 0, // bytes, zero
        b'a', b'b', b'c', 0, 0, 0, 0, 0, // the bytes, padded
    ];
    assert_eq!(frame[44..112], rest);
    assert!(frame[112..].iter().all(|b| *b == 0), "padding is zero, not what was in memory");
}

#[test]
fn frame_round_trips_and_any_flipped_bit_is_seen() {
    let direct = Run { direct: true, ..run(1, 8192, 100) };
    let runs: [(Run, &[u8]); 3] =
        [(run(0, 0, 1), b"x"), (direct, b""), (run(2, 77, 5), &[9; 5000])];
    let bytes = encode(id(1, 2), &runs);
    let frame = Frame::parse(&bytes).unwrap();
    assert_eq!((frame.id, frame.run_count(), frame.padded()), (id(1, 2), 3, bytes.len()));
    let back: Vec<_> = frame.runs().collect();
    assert_eq!(back, runs);
    let length = FrameHead::read(&bytes).unwrap().length;
    for at in (0..length).step_by(13) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 0x20;
        assert!(Frame::parse(&flipped).is_err(), "byte {at}");
    }
    assert!(Frame::parse(&bytes[..length - 1]).is_err());
    let empty = encode(id(1, 2), &[]);
    assert_eq!(Frame::parse(&empty).unwrap().runs().count(), 0);
    assert_eq!(empty.len(), FRAME_HEADER_BYTES.next_multiple_of(BLOCK_BYTES));
}

/// A journal and what was acknowledged by it, driven as the commit task of a core drives it.
struct Driver {
    disk: SimDisk,
    ring: JournalRing,
    /// Every run of every acknowledged round, by round.
    acked: BTreeMap<u64, Vec<(Run, Vec<u8>)>>,
    ends: BTreeMap<i32, i64>,
}

enum Step {
    Done,
    Full,
    PowerOff,
}

impl Driver {
    fn start(disk: SimDisk) -> Driver {
        crate::disk::create_dir_durable(&disk, Path::new("/"), dir()).unwrap();
        let first = RoundNumber::new(0);
        let ids = (SHARD, JournalId::new(7));
        let start = files::reset(&disk, dir(), ids, first, LIMITS).unwrap();
        let ring = JournalRing::new(start, LIMITS);
        Driver { disk, ring, acked: BTreeMap::new(), ends: BTreeMap::new() }
    }

    fn prepare(&mut self) -> bool {
        while let Some(job) = self.ring.prepare() {
            match files::prepare(&self.disk, dir(), &job, LIMITS.file_bytes) {
                Ok(blank) => self.ring.prepared(blank),
                Err(_) => return false,
            }
        }
        true
    }

    fn commit(&mut self, partitions: &[i32], fill: u8, len: usize) -> Step {
        let payload = vec![fill; len];
        let runs: Vec<(Run, &[u8])> = partitions
            .iter()
            .map(|n| {
                let end = self.ends.entry(*n).or_insert(0);
                *end += 10;
                (run(*n, 0, *end), &payload[..])
            })
            .collect();
        let bytes = frame_bytes(runs.iter().map(|(_, b)| run_bytes(b.len())).sum());
        let slot = loop {
            match self.ring.place(bytes) {
                Placement::Write(slot) => break slot,
                Placement::Full => return Step::Full,
                Placement::Wait => {
                    if !self.prepare() {
                        return Step::PowerOff;
                    }
                }
            }
        };
        let path = files::path(dir(), slot.id.seq);
        let written = self.disk.open(&path, OpenHow::WRITE.direct().durable());
        let mut bytes = encode(slot.id, &runs);
        bytes.resize(bytes.len() + slot.blank, 0);
        let written = written.and_then(|f| f.write_at(&bytes, slot.at));
        if written.is_err() {
            return Step::PowerOff;
        }
        let ends = runs.iter().map(|(run, _)| (run.partition, run.end));
        self.ring.written(slot, ends);
        let runs = runs.into_iter().map(|(run, bytes)| (run, bytes.to_vec())).collect();
        self.acked.insert(slot.id.round.get(), runs);
        if self.prepare() { Step::Done } else { Step::PowerOff }
    }

    fn sync_holders(&mut self) {
        let holders: Vec<_> = self.ring.holders().collect();
        for (partition, end) in holders {
            self.ring.synced(partition, end);
        }
    }
}

type Rounds = BTreeMap<u64, Vec<(Run, Vec<u8>)>>;

fn read_back(disk: &SimDisk) -> (Rounds, ScanReport) {
    let mut rounds = BTreeMap::new();
    let report = scan(disk, dir(), SHARD, |frame| {
        let runs = frame.runs().map(|(run, bytes)| (run, bytes.to_vec())).collect();
        rounds.insert(frame.id.round.get(), runs);
        Ok(())
    });
    (rounds, report.unwrap())
}

#[test]
fn rounds_come_back_in_order_and_recycled_ones_do_not() {
    let mut driver = Driver::start(SimDisk::new());
    for i in 0..60u8 {
        match driver.commit(&[i32::from(i % 5)], i, 3000) {
            Step::Done => {}
            Step::Full => {
                driver.sync_holders();
                assert!(driver.ring.files_live().0 < 3, "syncing the holders frees a file");
                assert!(matches!(driver.commit(&[0], i, 3000), Step::Done));
            }
            Step::PowerOff => panic!("power is on"),
        }
    }
    assert!(files::list(&driver.disk, dir()).unwrap().len() <= LIMITS.files_max);
    driver.disk.crash_as(CrashMode::LoseAll, 1);
    let (rounds, report) = read_back(&driver.disk);
    assert!(report.is_sound(), "{report:?}");
    let first = *rounds.keys().next().unwrap();
    assert!(first > 0, "something was recycled");
    let due: Rounds = driver.acked.split_off(&first);
    assert_eq!(rounds, due);
    assert_eq!(report.next_round, driver.ring.next_round());
    assert!(!report.floors.is_empty(), "what was recycled is remembered by its synced end");
}

#[test]
fn full_ring_says_so_and_names_who_holds_it() {
    let mut driver = Driver::start(SimDisk::new());
    let mut rounds = 0;
    while let Step::Done = driver.commit(&[1, 2], 7, 100) {
        rounds += 1;
    }
    assert_eq!(rounds, 24, "three files of eight blocks");
    let mut holders: Vec<_> = driver.ring.holders().collect();
    holders.sort();
    assert_eq!(holders, [(partition(1), Offset::at(80)), (partition(2), Offset::at(80))]);
    driver.ring.synced(partition(1), Offset::at(1000));
    assert!(matches!(driver.commit(&[1], 7, 100), Step::Full));
    driver.ring.forget(partition(2));
    assert_eq!(driver.ring.files_live().0, 1);
    assert!(matches!(driver.commit(&[1], 7, 100), Step::Done));
}

/// The first round in a part that was never written pays for all that follow there, and in a
/// recycled file nobody pays.
#[test]
fn never_written_part_of_a_file_is_filled_ahead_once() {
    let window = crate::units::bytes_usize(crate::limits::JOURNAL_BLANK_BYTES);
    let limits =
        RingLimits { file_bytes: (2 * window + 2 * BLOCK_BYTES) as u64, ..RingLimits::default() };
    let start = RingStart {
        shard: SHARD,
        journal: JournalId::new(7),
        next_seq: JournalSeq::new(0),
        next_round: RoundNumber::new(0),
        free: Vec::new(),
    };
    let mut ring = JournalRing::new(start, limits);
    let blanks = |ring: &mut JournalRing, blocks: &[usize]| -> Vec<usize> {
        let mut place = |blocks: &usize| {
            let Placement::Write(slot) = ring.place(blocks * BLOCK_BYTES) else { panic!() };
            ring.written(slot, []);
            slot.blank
        };
        blocks.iter().map(&mut place).collect()
    };
    let whole = window / BLOCK_BYTES;
    let asked = [1, 1, whole - 3, 2, 1, whole - 1, 1];
    let left = window - BLOCK_BYTES;
    assert_eq!(ring.place(BLOCK_BYTES), Placement::Wait);
    assert!(ring.prepare().is_some());
    ring.prepared(FilePosition::ZERO);
    assert_eq!(blanks(&mut ring, &asked), [left, 0, 0, left, 0, BLOCK_BYTES, 0]);
    // A file of which the first block was written before, and one that was filled.
    for (known, due) in [(BLOCK_BYTES_U64, [0, left - BLOCK_BYTES]), (limits.file_bytes, [0, 0])] {
        assert_eq!(ring.place(BLOCK_BYTES), Placement::Wait);
        assert!(ring.prepare().is_some());
        ring.prepared(FilePosition::new(known));
        assert_eq!(blanks(&mut ring, &[1, 1]), due);
        blanks(&mut ring, &[2 * whole]);
    }
}

#[test]
fn clean_stop_leaves_nothing_to_replay() {
    let mut driver = Driver::start(SimDisk::new());
    for i in 0..10 {
        driver.commit(&[i], 1, 100);
    }
    for (partition, end) in driver.ring.unsynced() {
        driver.ring.synced(partition, end);
    }
    assert!(driver.ring.is_clean());
    JournalState::from(driver.ring.clean_state()).write(&driver.disk, dir()).unwrap();
    let (rounds, report) = read_back(&driver.disk);
    assert_eq!((rounds.len(), report.next_round.get()), (0, 10));
    let (next, ids) = (report.next_round, (SHARD, JournalId::new(8)));
    let start = files::reset(&driver.disk, dir(), ids, next, LIMITS).unwrap();
    assert_eq!((start.next_round.get(), start.free.len()), (10, 2));
    assert!(start.next_seq > JournalSeq::new(1), "numbers go on over a restart");
}

#[test]
fn damaged_round_in_the_middle_is_reported_and_later_ones_still_count() {
    let mut driver = Driver::start(SimDisk::new());
    for i in 0..12 {
        driver.commit(&[i], 1, 100);
    }
    let path = files::path(dir(), JournalSeq::new(0));
    driver.disk.flip(&path, FilePosition::new(3 * BLOCK_BYTES_U64 + 60), 1).unwrap();
    let (rounds, report) = read_back(&driver.disk);
    let due: Vec<u64> = (0..12).filter(|r| *r != 3).collect();
    assert_eq!(rounds.keys().copied().collect::<Vec<_>>(), due);
    let damage = report.damage[0];
    assert_eq!((damage.seq.get(), damage.at.get()), (0, 3 * BLOCK_BYTES_U64));
    assert_eq!((damage.missing_from.get(), damage.found.get()), (3, 4));
    // A whole file that is gone is damage too.
    driver.disk.remove_file(&path).unwrap();
    let (rounds, report) = read_back(&driver.disk);
    assert_eq!((rounds.len(), report.damage[0].missing_from.get()), (4, 0));
}

/// What a producer sends stands in the journal as it came, and may look like frames.
#[test]
fn frame_forged_in_a_record_is_never_replayed() {
    let mut driver = Driver::start(SimDisk::new());
    driver.commit(&[0], 1, 100);
    let forged_id = FrameId { journal: JournalId::new(99), ..id(0, 2) };
    let forged = encode(forged_id, &[(run(66, 0, 1_000_000), b"forged")]);
    let mut payload = vec![0; BLOCK_BYTES - FRAME_HEADER_BYTES - 56];
    payload.extend_from_slice(&forged);
    let bytes = encode(id(0, 1), &[(run(1, 0, 10), &payload)]);
    let path = files::path(dir(), JournalSeq::new(0));
    let file = driver.disk.open(&path, OpenHow::WRITE).unwrap();
    file.write_at(&bytes, FilePosition::new(BLOCK_BYTES_U64)).unwrap();
    // The round that carries it is torn.
    driver.disk.flip(&path, FilePosition::new(BLOCK_BYTES_U64 + 50), 1).unwrap();
    let (rounds, report) = read_back(&driver.disk);
    assert_eq!(rounds.keys().copied().collect::<Vec<_>>(), [0]);
    assert!(report.is_sound());
}

/// Goal: whatever the moment of the power cut and its luck, every acknowledged round that is not
/// synced into segments comes back, in order, and nothing comes back that was not written.
/// Method: a run of a few dozen rounds with recycling, cut at every operation, several seeds each.
#[test]
fn acknowledged_rounds_survive_a_power_cut_at_every_operation() {
    let workload = |driver: &mut Driver, rng: &mut SimRng| {
        for i in 0..40u8 {
            let count = rng.below(4) + 1;
            let partitions: Vec<i32> = (0..count).map(|_| rng.below(6) as i32).collect();
            let mut distinct = partitions.clone();
            distinct.sort();
            distinct.dedup();
            let len = rng.below(9000) as usize;
            match driver.commit(&distinct, i, len) {
                Step::Done => {}
                Step::Full => driver.sync_holders(),
                Step::PowerOff => return,
            }
        }
    };
    let total = {
        let mut driver = Driver::start(SimDisk::new());
        workload(&mut driver, &mut SimRng::new(1));
        driver.disk.ops()
    };
    let first = Driver::start(SimDisk::new()).disk.ops() + 1;
    for at in first..=total {
        for seed in 0..6 {
            let disk = SimDisk::new();
            let mut driver = Driver::start(disk.clone());
            disk.power_off_at(at);
            workload(&mut driver, &mut SimRng::new(1));
            disk.crash(seed);
            let (rounds, report) = read_back(&disk);
            let place = format!("op {at} seed {seed}: {report:?}");
            assert!(report.is_sound(), "{place}");
            for (round, runs) in &rounds {
                if let Some(acked) = driver.acked.get(round) {
                    assert_eq!(runs, acked, "round {round}, {place}");
                } else {
                    assert_eq!(*round, driver.ring.next_round().get(), "{place}");
                }
            }
            // Runs that are missing must be synced ones: their partitions no longer need them.
            let needed = driver.ring.unsynced();
            for (round, runs) in
                driver.acked.iter().filter(|(round, _)| !rounds.contains_key(*round))
            {
                for (run, _) in runs {
                    let needs = needed.get(&run.partition).copied();
                    let floor = report.floors.iter().find(|(p, _)| *p == run.partition);
                    let synced = floor.is_some_and(|(_, floor)| *floor >= run.end);
                    assert!(
                        synced,
                        "round {round} of {} lost, needed {needs:?}, {place}",
                        run.partition
                    );
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_journal_panic(bytes: Vec<u8>, at in 0usize..200, byte: u8) {
        let _ = Frame::parse(&bytes);
        let _ = JournalState::decode(Path::new("x"), &bytes);
        let mut frame = encode(id(1, 1), &[(run(0, 0, 1), b"some bytes"), (run(1, 0, 1), b"")]);
        frame[at] = byte;
        let length = FrameHead::read(&frame).map_or(0, |h| h.length).min(frame.len());
        if length >= FRAME_HEADER_BYTES {
            let crc = crc32c::crc32c(&frame[..40]);
            let crc = crc32c::crc32c_append(crc, &frame[44..length]);
            frame[40..44].copy_from_slice(&crc.to_be_bytes());
        }
        if let Ok(frame) = Frame::parse(&frame) {
            let _ = frame.runs().map(|(_, bytes)| bytes.len()).sum::<usize>();
        }
    }
}
