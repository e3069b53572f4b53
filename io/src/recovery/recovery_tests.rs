//! One partition directory, damaged in every way that people have met.

use std::path::{Path, PathBuf};

use super::*;
use crate::batch::testing::BatchBuilder;
use crate::checkpoint::{read_state, write_state};
use crate::disk::{Disk, DiskFile, OpenHow};
use crate::disk_sim::{Fault, SimDisk};
use crate::index_footer::Coverage;
use crate::indexes::Indexes;
use crate::partition_state::RecoveryCheckpoint;
use crate::sealing;
use crate::segment::SegmentFile;
use crate::segment_reader::{Walk, place_of};
use crate::units::{Cleaned, LeaderEpoch, PartitionIndex, bytes_u64};

const BATCHES: i64 = 40;
const RECORDS: i64 = 3;

fn dir() -> PathBuf {
    PathBuf::from("/t/0")
}

fn identity() -> TopicPartition {
    TopicPartition { topic: TopicId::METADATA, partition: PartitionIndex::at(0) }
}

/// A partition of three segments with 40 batches each, stopped cleanly.
struct Fixture {
    disk: SimDisk,
    ids: Vec<SegmentId>,
    /// Every batch of every segment: its place and its bytes.
    batches: Vec<Vec<(BatchPlace, Vec<u8>)>>,
}

fn batch(base: i64, epoch: i32) -> Vec<u8> {
    let values = (0..RECORDS).map(|i| vec![b'a' + (base % 26) as u8; 100 + i as usize]);
    let stamp = 1_000_000 + base * 7 % 1000;
    let builder = BatchBuilder { base_timestamp: stamp, ..BatchBuilder::of_values(values) };
    builder.at_offset(base, epoch).build().to_vec()
}

impl Fixture {
    fn new() -> Fixture {
        let disk = SimDisk::new();
        crate::disk::create_dir_durable(&disk, Path::new("/"), &dir()).unwrap();
        let mut fixture = Fixture { disk, ids: Vec::new(), batches: Vec::new() };
        for epoch in 0..3 {
            fixture.add_segment(epoch);
        }
        let manifest = Manifest {
            topic_id: identity().topic,
            topic: "t".to_owned(),
            partition: identity().partition,
            leader_epoch: LeaderEpoch::at(2),
            high_watermark: Offset::ZERO,
            log_start_offset: Offset::ZERO,
        };
        write_state(&fixture.disk, &dir(), &manifest).unwrap();
        fixture.checkpoint(true);
        fixture
    }

    fn end(&self) -> Offset {
        Offset::at(self.ids.len() as i64 * BATCHES * RECORDS)
    }

    fn add_segment(&mut self, epoch: i32) {
        let base = self.end();
        let id = SegmentId::new(LeaderEpoch::at(epoch), base);
        let file = self.disk.open(&id.path(&dir(), SegmentFile::Log), OpenHow::CREATE).unwrap();
        let (mut at, mut indexes, mut batches) = (FilePosition::ZERO, Indexes::new(id), vec![]);
        for i in 0..BATCHES {
            let bytes = batch(base.get() + i * RECORDS, epoch);
            let header = crate::batch::RecordBatchHeader::view(&bytes).unwrap();
            let place = place_of(header, at, bytes.len()).unwrap();
            file.write_at(&bytes, at).unwrap();
            indexes.note(place.start(), place.max_timestamp);
            at = place.end();
            batches.push((place, bytes));
        }
        let next = Offset::at(base.get() + BATCHES * RECORDS);
        let max_timestamp = indexes.times.max_timestamp();
        let coverage = Coverage { log_bytes: at, next, max_timestamp, sealed: true };
        sealing::seal(&self.disk, &dir(), &indexes, coverage, false).unwrap();
        self.ids.push(id);
        self.batches.push(batches);
    }

    fn checkpoint(&self, clean: bool) {
        let (id, batches) = (self.ids[2], &self.batches[2]);
        let (last, _) = batches.last().unwrap();
        write_state(
            &self.disk,
            &dir(),
            &RecoveryCheckpoint {
                segment_epoch: id.epoch,
                segment_base: id.base,
                byte_pos: last.end().get(),
                offset: last.next,
                log_start_offset: Offset::ZERO,
                clean,
            },
        )
        .unwrap();
    }

    fn path(&self, segment: usize, file: SegmentFile) -> PathBuf {
        self.ids[segment].path(&dir(), file)
    }

    fn log(&self, segment: usize) -> crate::disk_sim::SimFile {
        self.disk.open(&self.path(segment, SegmentFile::Log), OpenHow::WRITE).unwrap()
    }

    fn append(&self, bytes: &[u8]) {
        let log = self.log(2);
        let end = log.len().unwrap();
        log.write_at(bytes, FilePosition::new(end)).unwrap();
    }

    fn recover_with(&self, evidence: Evidence) -> RecoveredPartition {
        let mut seen = Seen::default();
        let dir = dir();
        let input = input(&dir, evidence);
        recover_partition(&self.disk, &input, &mut seen).unwrap()
    }

    /// As after a replay of sound journals that do not mention the partition.
    fn recover(&self) -> RecoveredPartition {
        self.recover_with(Evidence { floor: Offset::ZERO, complete: true })
    }

    /// The log as a reader finds it: base offsets of readable batches.
    fn readable(&self, found: &RecoveredPartition) -> Vec<i64> {
        let mut bases = Vec::new();
        for segment in &found.segments {
            let log = self.disk.open(&segment.id.path(&dir(), SegmentFile::Log), OpenHow::READ);
            let log = log.unwrap();
            let (indexes, _) =
                Indexes::load(&self.disk, &dir(), segment.id, segment.log_bytes).unwrap();
            let mut offset = segment.id.base;
            while offset < segment.next {
                let from = indexes.offsets.floor(offset);
                let mut walk = Walk::new(&log, from, segment.log_bytes).without_gaps();
                match walk.find_offset(offset) {
                    Ok(Some(place)) => {
                        let whole = crate::segment_reader::read_batch(&log, &place).is_ok();
                        if whole && bases.last() != Some(&place.base.get()) {
                            bases.push(place.base.get());
                        }
                        offset = place.next;
                    }
                    Ok(None) | Err(_) => offset = offset.next(),
                }
            }
        }
        bases
    }

    fn all_bases(&self) -> Vec<i64> {
        (0..self.end().get()).step_by(RECORDS as usize).collect()
    }

    fn assert_whole(&self, what: &str) -> RecoveredPartition {
        let found = self.recover();
        assert_eq!(found.end, self.end(), "{what}: {:?}", found.report);
        assert_eq!(self.readable(&found), self.all_bases(), "{what}");
        let again = self.recover();
        assert_eq!(again.report, RecoveryReport::default(), "{what}: second start had work");
        found
    }
}

fn input(dir: &Path, evidence: Evidence) -> PartitionInput<'_> {
    PartitionInput { dir, partition: identity(), topic: "t", evidence, visit_from: Offset::ZERO }
}

#[derive(Default)]
struct Seen(Vec<i64>);

impl BatchVisitor for Seen {
    fn batch(&mut self, place: &BatchPlace, bytes: &[u8]) {
        assert!(bytes.len() >= crate::limits::BATCH_HEADER_BYTES);
        self.0.push(place.base.get());
    }
}

#[test]
fn clean_partition_is_taken_as_it_is() {
    let fixture = Fixture::new();
    let before = fixture.disk.ops();
    let found = fixture.recover();
    assert_eq!(found.report, RecoveryReport::default());
    assert_eq!(fixture.disk.ops(), before, "a clean start changes nothing");
    assert_eq!((found.log_start, found.end), (Offset::ZERO, fixture.end()));
    let ids: Vec<_> = found.segments.iter().map(|s| s.id).collect();
    assert_eq!(ids, fixture.ids);
    assert_eq!(fixture.readable(&found), fixture.all_bases());
}

#[test]
fn missing_directory_is_an_empty_partition() {
    let disk = SimDisk::new();
    let dir = dir();
    let evidence = Evidence { floor: Offset::ZERO, complete: true };
    let found = recover_partition(&disk, &input(&dir, evidence), &mut ()).unwrap();
    assert_eq!((found.end, found.segments.len()), (Offset::ZERO, 0));
    assert_eq!(disk.kind(&dir).unwrap(), None);
}

/// F01: what stands behind the last whole batch in sequence is cut and never served.
#[test]
fn torn_tail_is_cut_and_never_brought_back_to_life() {
    let copy = |fixture: &Fixture| fixture.batches[1][7].1.clone();
    let half = |fixture: &Fixture| batch(fixture.end().get(), 2)[..150].to_vec();
    let tails: [(&str, Vec<u8>); 6] = [
        ("one byte", vec![7]),
        ("511 bytes", (0..511).map(|i| (i * 31 + 7) as u8).collect()),
        ("4095 bytes", (0..4095).map(|i| (i * 131 + 7) as u8).collect()),
        ("half a batch", half(&Fixture::new())),
        ("an older batch", copy(&Fixture::new())),
        ("an older batch behind rubbish", [&[9; 100][..], &copy(&Fixture::new())].concat()),
    ];
    for (what, tail) in tails {
        let fixture = Fixture::new();
        fixture.append(&tail);
        let found = fixture.recover();
        assert_eq!(found.report.bytes_cut, bytes_u64(tail.len()), "{what}");
        assert_eq!(found.report.damage, [], "{what}");
        fixture.assert_whole(what);
    }
}

#[test]
fn block_padding_is_no_torn_tail() {
    let fixture = Fixture::new();
    fixture.append(&[0; 3000]);
    let found = fixture.recover();
    assert_eq!(found.report.bytes_cut, 0);
    assert!(!found.report.is_notable());
    fixture.assert_whole("padding");
}

/// The checkpoint says how far the log was acknowledged: what is left of its last batch is damage,
/// stays where it is, and its offsets are not given to other records.
#[test]
fn damaged_last_batch_that_was_acknowledged_is_reported_and_never_cut() {
    for what in ["shorter", "flipped", "other bytes behind"] {
        let fixture = Fixture::new();
        let (place, _) = *fixture.batches[2].last().unwrap();
        let log = fixture.log(2);
        if what == "shorter" {
            log.set_len(log.len().unwrap() - 100).unwrap();
        } else {
            unseal(&fixture);
            let path = fixture.path(2, SegmentFile::Log);
            fixture.disk.flip(&path, place.at.add(80), 0x41).unwrap();
        }
        if what == "other bytes behind" {
            fixture.append(&[7; 300]);
        }
        let len = log.len().unwrap();
        let found = fixture.recover();
        assert_eq!(log.len().unwrap(), len, "{what}");
        assert_eq!((found.end, found.report.bytes_cut), (fixture.end(), 0), "{what}");
        assert_eq!(found.report.damage[0].offsets, (place.base, fixture.end()), "{what}");
        assert_eq!(found.report.lost, [], "{what}");
        let mut due = fixture.all_bases();
        assert_eq!(due.pop(), Some(place.base.get()));
        assert_eq!(fixture.readable(&found), due, "{what}");
        let again = fixture.recover();
        assert_eq!((again.end, again.report.bytes_scanned), (fixture.end(), 0), "{what}");
    }
}

/// A round that failed may stand in the journal whole, and what it spoke of was cut out of the
/// segment again: nobody was answered, so the rest of it is a torn tail.
#[test]
fn damaged_last_batch_that_only_the_journal_speaks_of_is_cut() {
    let fixture = Fixture::new();
    let end = fixture.end();
    let mut torn = batch(end.get(), 2);
    torn[80] ^= 0x41;
    fixture.append(&torn);
    let found = fixture.recover_with(Evidence { floor: end.add(RECORDS as u64), complete: true });
    assert_eq!((found.end, found.report.damage.len()), (end, 0));
    assert_eq!(found.report.bytes_cut, bytes_u64(torn.len()));
}

#[test]
fn missing_last_batch_that_was_acknowledged_is_reported_as_lost() {
    let fixture = Fixture::new();
    let (place, _) = *fixture.batches[2].last().unwrap();
    fixture.log(2).set_len(place.at.get()).unwrap();
    let found = fixture.recover();
    assert_eq!(found.end, place.base);
    assert_eq!(found.report.lost, [(place.base, fixture.end())]);
    let text = found.report.lines(&dir()).join("\n");
    assert!(text.contains("were acknowledged and are in no file"), "{text}");
}

/// F02: an index is derived, and never evidence about the log.
#[test]
fn damaged_index_files_are_built_again_and_answers_stay_the_same() {
    let kinds = [SegmentFile::Index, SegmentFile::TimeIndex];
    let change = |what: &str, f: &dyn Fn(&Fixture, &Path)| {
        for segment in 0..3 {
            for kind in kinds {
                let fixture = Fixture::new();
                f(&fixture, &fixture.path(segment, kind));
                let place = format!("{what} {segment} {kind:?}");
                let found = fixture.assert_whole(&place);
                assert_eq!(found.report.indexes_rebuilt.len(), 1, "{place}: {:?}", found.report);
                assert_eq!(found.report.indexes_rebuilt[0].0, fixture.ids[segment], "{place}");
            }
        }
    };
    let write = |fixture: &Fixture, path: &Path, bytes: &[u8]| {
        let file = fixture.disk.open(path, OpenHow::WRITE).unwrap();
        file.set_len(0).unwrap();
        file.write_at(bytes, FilePosition::ZERO).unwrap();
    };
    let read = |fixture: &Fixture, path: &Path| fixture.disk.read_all(path, 1 << 20).unwrap();
    change("deleted", &|f, path| f.disk.remove_file(path).unwrap());
    change("emptied", &|f, path| write(f, path, &[]));
    change("cut to an odd length", &|f, path| {
        let bytes = read(f, path);
        write(f, path, &bytes[..bytes.len() - 3]);
    });
    change("zeros", &|f, path| write(f, path, &vec![0; read(f, path).len()]));
    change("rubbish", &|f, path| {
        let rubbish: Vec<u8> = (0..read(f, path).len()).map(|i| (i * 37 + 11) as u8).collect();
        write(f, path, &rubbish);
    });
    change("an entry past the end", &|f, path| {
        let mut bytes = read(f, path);
        bytes.extend_from_slice(&[0, 0, 0xff, 0, 0, 0xff, 0, 0]);
        write(f, path, &bytes);
    });
    for kind in kinds {
        let fixture = Fixture::new();
        let (a, b) = (fixture.path(0, kind), fixture.path(1, kind));
        let (of_a, of_b) = (read(&fixture, &a), read(&fixture, &b));
        write(&fixture, &a, &of_b);
        write(&fixture, &b, &of_a);
        let found = fixture.assert_whole("swapped");
        assert_eq!(found.report.indexes_rebuilt.len(), 2);
    }
}

#[test]
fn lost_or_damaged_state_files_cost_no_record() {
    for name in ["manifest.json", "recovery-checkpoint.json"] {
        for bytes in [None, Some(&b""[..]), Some(b"{\"version\":1}"), Some(&[0; 200])] {
            let fixture = Fixture::new();
            let path = dir().join(name);
            match bytes {
                None => fixture.disk.remove_file(&path).unwrap(),
                Some(bytes) => {
                    crate::checkpoint::write_atomically(&fixture.disk, &path, bytes).unwrap();
                }
            }
            let found = fixture.recover();
            assert_eq!(found.end, fixture.end(), "{name} {bytes:?}");
            assert_eq!(fixture.readable(&found), fixture.all_bases());
            let manifest: Manifest = read_state(&fixture.disk, &dir()).unwrap().unwrap();
            assert_eq!(manifest.topic_partition(), identity());
            fixture.assert_whole("second start");
        }
    }
}

#[test]
fn log_start_survives_the_loss_of_the_manifest() {
    let fixture = Fixture::new();
    let mut checkpoint: RecoveryCheckpoint = read_state(&fixture.disk, &dir()).unwrap().unwrap();
    checkpoint.log_start_offset = Offset::at(17);
    write_state(&fixture.disk, &dir(), &checkpoint).unwrap();
    fixture.disk.remove_file(&dir().join("manifest.json")).unwrap();
    assert_eq!(fixture.recover().log_start, Offset::at(17));
}

#[test]
fn newer_files_are_refused_and_nothing_is_touched() {
    let fixture = Fixture::new();
    let path = dir().join("recovery-checkpoint.json");
    let text = b"{\"version\":7,\"of\":\"the future\"}";
    crate::checkpoint::write_atomically(&fixture.disk, &path, text).unwrap();
    let before = fixture.disk.ops();
    let (dir, evidence) = (dir(), Evidence::default());
    let error = recover_partition(&fixture.disk, &input(&dir, evidence), &mut ()).unwrap_err();
    assert_eq!(error, RecoveryError::Newer { path, found: 7, known: 1 });
    assert_eq!(fixture.disk.ops(), before);
}

#[test]
fn directory_of_another_topic_is_never_adopted() {
    let fixture = Fixture::new();
    let dir = dir();
    let other = TopicPartition { topic: TopicId::ZERO, ..identity() };
    let input = PartitionInput { partition: other, ..input(&dir, Evidence::default()) };
    let before = fixture.disk.ops();
    let error = recover_partition(&fixture.disk, &input, &mut ()).unwrap_err();
    assert!(matches!(error, RecoveryError::Foreign { found, .. } if found == identity().topic));
    assert_eq!(fixture.disk.ops(), before);
}

/// Makes the last segment one that was not sealed, so that it is read again.
fn unseal(fixture: &Fixture) {
    for kind in [SegmentFile::Index, SegmentFile::TimeIndex] {
        fixture.disk.remove_file(&fixture.path(2, kind)).unwrap();
    }
}

#[test]
fn damage_with_valid_batches_behind_it_is_reported_and_never_cut() {
    for (what, byte) in [("payload", 80), ("length", 10), ("magic", 16), ("base offset", 7)] {
        let fixture = Fixture::new();
        unseal(&fixture);
        let (place, _) = fixture.batches[2][20];
        let at = place.at.add(byte);
        fixture.disk.flip(&fixture.path(2, SegmentFile::Log), at, 0x41).unwrap();
        let found = fixture.recover();
        assert_eq!(found.end, fixture.end(), "{what}");
        assert_eq!(found.report.bytes_cut, 0, "{what}");
        let damage = found.report.damage[0];
        assert_eq!((damage.from, damage.to), (place.at, place.end()), "{what}");
        assert_eq!(damage.offsets, (place.base, place.next), "{what}");
        let mut due = fixture.all_bases();
        due.retain(|base| *base != place.base.get());
        assert_eq!(fixture.readable(&found), due, "{what}: the neighbours stay readable");
        assert!(found.report.lines(&dir())[0].contains("is damaged from byte"));
    }
}

#[test]
fn first_batch_of_a_segment_may_be_the_damaged_one() {
    let fixture = Fixture::new();
    unseal(&fixture);
    fixture.disk.flip(&fixture.path(2, SegmentFile::Log), FilePosition::new(16), 1).unwrap();
    let found = fixture.recover();
    let mut due = fixture.all_bases();
    due.retain(|base| *base != fixture.ids[2].base.get());
    assert_eq!(fixture.readable(&found), due);
    assert_eq!(found.end, fixture.end());
}

/// Two batches that were on their way at the power cut, of which only the second reached the disk.
#[test]
fn unacknowledged_write_out_of_order_is_cut_and_is_no_damage() {
    let fixture = Fixture::new();
    unseal(&fixture);
    let end = fixture.end().get();
    let (first, second) = (batch(end, 2), batch(end + RECORDS, 2));
    fixture.append(&vec![0; first.len()]);
    fixture.append(&second);
    let found = fixture.recover();
    assert_eq!((found.end, found.report.damage.len()), (fixture.end(), 0));
    assert_eq!(found.report.bytes_cut, bytes_u64(first.len() + second.len()));

    // The same bytes, when a journal is damaged and nobody knows what was acknowledged.
    let fixture = Fixture::new();
    unseal(&fixture);
    fixture.append(&vec![0; first.len()]);
    fixture.append(&second);
    let found = fixture.recover_with(Evidence { floor: Offset::ZERO, complete: false });
    assert_eq!(found.report.bytes_cut, 0);
    assert_eq!(found.report.damage.len(), 1);
    assert_eq!(found.end, Offset::at(end + 2 * RECORDS));

    // And when they were acknowledged.
    let fixture = Fixture::new();
    unseal(&fixture);
    fixture.append(&vec![0; first.len()]);
    fixture.append(&second);
    let floor = Offset::at(end + 2 * RECORDS);
    let found = fixture.recover_with(Evidence { floor, complete: true });
    assert_eq!((found.report.bytes_cut, found.report.damage.len()), (0, 1));
    assert_eq!((found.end, found.report.lost.len()), (floor, 0));
}

#[test]
fn segment_with_a_torn_end_and_acknowledged_segments_behind_it_is_damage() {
    let fixture = Fixture::new();
    let log = fixture.log(1);
    log.set_len(log.len().unwrap() - 50).unwrap();
    let found = fixture.recover();
    assert_eq!(found.end, fixture.end());
    assert_eq!(found.report.damage.len(), 1);
    let mut due = fixture.all_bases();
    due.retain(|base| *base != fixture.ids[2].base.get() - RECORDS);
    assert_eq!(fixture.readable(&found), due);
}

#[test]
fn missing_segment_in_the_middle_or_in_front_is_told() {
    for gone in [0, 1] {
        let fixture = Fixture::new();
        fixture.disk.remove_file(&fixture.path(gone, SegmentFile::Log)).unwrap();
        let found = fixture.recover();
        assert_eq!(found.end, fixture.end());
        assert!(found.report.is_notable());
        let (from, to) = (fixture.ids[gone].base, fixture.ids[gone + 1].base);
        let told = found.report.lost.contains(&(from, to))
            || found.report.damage.iter().any(|d| d.offsets == (from, to));
        assert!(told, "{:?}", found.report);
    }
}

/// Record bytes may hold what looks like a batch; a search behind damage must not fall for it when
/// it can know better.
#[test]
fn batch_forged_inside_a_record_is_not_adopted() {
    let fixture = Fixture::new();
    unseal(&fixture);
    let end = fixture.end().get();
    let forged = BatchBuilder::of_values(["forged"]).at_offset(end + 1_000_000, 2).build();
    let carrier = BatchBuilder::of_values([forged]).at_offset(end, 2).build();
    fixture.append(&carrier);
    fixture.append(&batch(end + 1, 2));
    // A flipped bit in the carrier's producer fields: its length still says where it ends.
    let at = FilePosition::new(fixture.log(2).len().unwrap());
    let at = FilePosition::new(at.get() - bytes_u64(carrier.len() + batch(end + 1, 2).len()) + 45);
    fixture.disk.flip(&fixture.path(2, SegmentFile::Log), at, 1).unwrap();
    let floor = Offset::at(end + 1 + RECORDS);
    let found = fixture.recover_with(Evidence { floor, complete: true });
    assert_eq!(found.end, floor);
    assert_eq!(found.report.damage[0].offsets, (Offset::at(end), Offset::at(end + 1)));
}

#[test]
fn visitor_sees_every_batch_from_where_it_asked() {
    let fixture = Fixture::new();
    let dir = dir();
    for from in [0, 1, 3, 100, 119, 120, 200, 359, 360] {
        for scanned in [false, true] {
            let fixture = Fixture::new();
            if scanned {
                unseal(&fixture);
            }
            let evidence = Evidence { floor: Offset::ZERO, complete: true };
            let input = PartitionInput { visit_from: Offset::at(from), ..input(&dir, evidence) };
            let mut seen = Seen::default();
            recover_partition(&fixture.disk, &input, &mut seen).unwrap();
            let mut due = fixture.all_bases();
            due.retain(|base| base + RECORDS > from);
            assert_eq!(seen.0, due, "from {from} scanned {scanned}");
        }
    }
    assert_eq!(fixture.end().get(), 360);
}

#[test]
fn control_batches_are_shown_whole() {
    struct Markers(Vec<usize>);
    impl BatchVisitor for Markers {
        fn batch(&mut self, _: &BatchPlace, bytes: &[u8]) {
            let header = crate::batch::RecordBatchHeader::view(bytes).unwrap();
            if header.attributes().is_control() {
                assert_eq!(header.total_bytes(), Some(bytes.len()));
                self.0.push(bytes.len());
            }
        }
    }
    let fixture = Fixture::new();
    let marker = BatchBuilder { attributes: 0x30, ..BatchBuilder::of_values(["marker"]) };
    fixture.append(&marker.at_offset(fixture.end().get(), 2).build());
    let dir = dir();
    for round in 0..2 {
        let mut markers = Markers(Vec::new());
        let evidence = Evidence { floor: Offset::ZERO, complete: true };
        let found = recover_partition(&fixture.disk, &input(&dir, evidence), &mut markers);
        assert_eq!(found.unwrap().end, fixture.end().next());
        assert_eq!(markers.0.len(), 1, "round {round}: scanned first, then walked by headers");
    }
}

#[test]
fn obsolete_segments_and_left_overs_are_removed() {
    let fixture = Fixture::new();
    let mut manifest: Manifest = read_state(&fixture.disk, &dir()).unwrap().unwrap();
    manifest.log_start_offset = Offset::at(fixture.ids[1].base.get() + 5);
    write_state(&fixture.disk, &dir(), &manifest).unwrap();
    let touch = |name: &str| fixture.disk.open(&dir().join(name), OpenHow::CREATE).unwrap();
    touch("manifest.json.tmp");
    touch("00000009-00000000000000009999.index");
    touch("notes of the operator.txt");
    let empty = SegmentId::new(LeaderEpoch::at(9), fixture.end());
    touch(&empty.file_name(SegmentFile::Log));
    let found = fixture.recover();
    assert_eq!(found.log_start, Offset::at(125));
    assert_eq!(found.report.segments_removed, [empty], "what must be seen stays");
    let (dir, evidence) = (dir(), Evidence { floor: Offset::ZERO, complete: true });
    let seen = PartitionInput { visit_from: fixture.ids[1].base, ..input(&dir, evidence) };
    let found = recover_partition(&fixture.disk, &seen, &mut ()).unwrap();
    assert_eq!(found.segments.iter().map(|s| s.id).collect::<Vec<_>>(), fixture.ids[1..]);
    assert_eq!(found.report.segments_removed, fixture.ids[..1]);
    let names = fixture.disk.list(&dir).unwrap();
    assert!(names.iter().any(|e| e.name == "notes of the operator.txt"));
    assert!(!names.iter().any(|e| e.name.ends_with(".tmp") || e.name.contains("9999")));
    assert_eq!(fixture.recover().report, RecoveryReport::default());
}

#[test]
fn damage_and_loss_below_the_log_start_are_nobodys() {
    let fixture = Fixture::new();
    unseal(&fixture);
    let (broken, _) = fixture.batches[2][3];
    fixture.log(2).write_at(&[0; 8], broken.at).unwrap();
    let floor = Evidence { floor: fixture.end(), complete: true };
    let report = fixture.recover_with(floor).report;
    assert_eq!(report.damage.len(), 1, "{report:?}");
    // The same with the records deleted, the log start within the segment.
    unseal(&fixture);
    let mut manifest: Manifest = read_state(&fixture.disk, &dir()).unwrap().unwrap();
    manifest.log_start_offset = broken.next;
    write_state(&fixture.disk, &dir(), &manifest).unwrap();
    let found = fixture.recover_with(floor);
    assert_eq!((found.log_start, found.end), (broken.next, fixture.end()));
    assert_eq!((found.report.damage, found.report.lost), (vec![], vec![]));
    // All of it deleted and its end missing: the log begins anew at its start.
    manifest.log_start_offset = fixture.end();
    write_state(&fixture.disk, &dir(), &manifest).unwrap();
    unseal(&fixture);
    fixture.log(2).set_len(broken.at.get()).unwrap();
    let found = fixture.recover_with(floor);
    assert_eq!((found.log_start, found.end), (fixture.end(), fixture.end()));
    assert_eq!((found.segments, found.report.lost), (vec![], vec![]));
}

#[test]
fn segment_of_a_newer_epoch_supersedes_the_tail_of_an_older_one() {
    let fixture = Fixture::new();
    unseal(&fixture);
    let at = 30;
    let base = fixture.batches[2][at].0.base;
    let id = SegmentId::new(LeaderEpoch::at(7), base);
    let file = fixture.disk.open(&id.path(&dir(), SegmentFile::Log), OpenHow::CREATE).unwrap();
    file.write_at(&batch(base.get(), 7), FilePosition::ZERO).unwrap();
    fixture.disk.remove_file(&dir().join("recovery-checkpoint.json")).unwrap();
    let found = fixture.recover();
    assert_eq!(found.end, base.add(RECORDS.unsigned_abs()));
    assert_eq!(found.segments[2].next, base);
    assert_eq!(found.segments[3].id, id);
    assert_eq!(found.report.damage, []);
}

#[test]
fn full_disk_keeps_no_partition_from_being_served() {
    let fixture = Fixture::new();
    unseal(&fixture);
    fixture.append(&[7; 100]);
    for name in ["index", "checkpoint"] {
        let fault = Fault::on_path(name, crate::disk::DiskOp::Write, libc::ENOSPC);
        fixture.disk.fault(fault);
    }
    let found = fixture.recover();
    assert!(found.report.disk_full);
    assert_eq!(found.end, fixture.end());
    fixture.disk.clear_faults();
    fixture.assert_whole("space is back");
}

#[test]
fn failing_disk_is_an_error_and_not_an_empty_log() {
    let fixture = Fixture::new();
    unseal(&fixture);
    let fault = Fault::on_path(".log", crate::disk::DiskOp::Read, libc::EIO);
    fixture.disk.fault(fault);
    let dir = dir();
    let evidence = Evidence { floor: Offset::ZERO, complete: true };
    let error = recover_partition(&fixture.disk, &input(&dir, evidence), &mut ()).unwrap_err();
    assert!(matches!(error, RecoveryError::Disk(_)), "{error}");
    fixture.disk.clear_faults();
    fixture.assert_whole("the disk is back");
}

#[test]
fn cleaned_segment_may_have_gaps() {
    let disk = SimDisk::new();
    let dir = dir();
    disk.create_dir_all(&dir).unwrap();
    let cleaned = Some(Cleaned { generation: 1, next: Offset::at(63) });
    let id = SegmentId { cleaned, ..SegmentId::new(LeaderEpoch::ZERO, Offset::ZERO) };
    let file = disk.open(&id.path(&dir, SegmentFile::Log), OpenHow::CREATE).unwrap();
    let mut at = FilePosition::ZERO;
    for base in [0, 9, 12, 60] {
        let bytes = batch(base, 0);
        file.write_at(&bytes, at).unwrap();
        at = at.add_len(bytes.len());
    }
    let evidence = Evidence { floor: Offset::at(63), complete: true };
    let found = recover_partition(&disk, &input(&dir, evidence), &mut ()).unwrap();
    assert_eq!((found.end, found.report.damage.len()), (Offset::at(63), 0));
}

/// Offsets and lengths of rubbish that passes every checksum must not reach what is 32 bits wide.
#[test]
fn batches_beyond_the_reach_of_a_segment_are_not_taken() {
    let fixture = Fixture::new();
    unseal(&fixture);
    let far = fixture.end().get() + (1 << 33);
    fixture.append(&BatchBuilder::of_values(["far"]).at_offset(far, 2).build());
    let dir = dir();
    for complete in [true, false] {
        let evidence = Evidence { floor: fixture.end(), complete };
        let found = recover_partition(&fixture.disk, &input(&dir, evidence), &mut ()).unwrap();
        assert_eq!(found.end, fixture.end());
    }
}

#[test]
fn journals_that_somebody_removed_are_no_evidence() {
    let disk = SimDisk::new();
    let layout = crate::data_dir::Layout::new("/d");
    disk.create_dir_all(&layout.topics()).unwrap();
    let fresh = replay(&disk, &layout, 1, |_| None).unwrap();
    assert!(fresh.evidence(identity()).complete);
    disk.create_dir_all(&layout.partition("t", PartitionIndex::at(0))).unwrap();
    let robbed = replay(&disk, &layout, 1, |_| None).unwrap();
    assert!(!robbed.evidence(identity()).complete);
}
