use std::path::{Path, PathBuf};

use super::*;
use crate::batch::testing::BatchBuilder;
use crate::checkpoint::{write_blob, write_state};
use crate::data_dir::{Claim, DataDir, Layout};
use crate::disk::{Disk, DiskFile, OpenHow, create_dir_durable};
use crate::disk_sim::SimDisk;
use crate::journal::frame::{frame_bytes, run_bytes};
use crate::journal::{FrameId, FrameWriter, JournalId, JournalState, Run, files};
use crate::partition_state::{Manifest, PRODUCER_SNAPSHOT, producer_snapshot_in};
use crate::recovery::{Evidence, PartitionInput, recover_partition};
use crate::segment::SegmentFile;
use crate::units::{
    FilePosition, JournalSeq, LeaderEpoch, NodeId, Offset, PartitionIndex, RoundNumber, SegmentId,
    ShardId, TopicId, TopicPartition,
};

const ROOT: &str = "/data";

fn partition() -> TopicPartition {
    TopicPartition { topic: TopicId::METADATA, partition: PartitionIndex::at(0) }
}

fn id() -> SegmentId {
    SegmentId::new(LeaderEpoch::ZERO, Offset::ZERO)
}

fn dir() -> PathBuf {
    Layout::new(ROOT).partition("t", partition().partition)
}

/// A data directory with one partition of 30 batches, recovered and stopped.
fn data_dir() -> SimDisk {
    let disk = SimDisk::new();
    let claim = Claim { node_id: NodeId::new(1).unwrap(), cluster_id: None, shard_count: 1 };
    drop(DataDir::open(&disk, Path::new(ROOT), &claim).unwrap());
    create_dir_durable(&disk, Path::new(ROOT), &dir()).unwrap();
    let manifest = Manifest {
        topic_id: partition().topic,
        topic: "t".to_owned(),
        partition: partition().partition,
        leader_epoch: LeaderEpoch::ZERO,
        high_watermark: Offset::ZERO,
        log_start_offset: Offset::ZERO,
    };
    write_state(&disk, &dir(), &manifest).unwrap();
    write_blob(&disk, &producer_snapshot_in(&dir()), PRODUCER_SNAPSHOT, b"states").unwrap();
    let log = disk.open(&id().path(&dir(), SegmentFile::Log), OpenHow::CREATE).unwrap();
    let mut at = FilePosition::ZERO;
    for i in 0..30 {
        let batch = BatchBuilder::of_values([vec![b'x'; 500]]).from_producer(7, 0, i);
        let bytes = batch.at_offset(i64::from(i), 0).build();
        log.write_at(&bytes, at).unwrap();
        at = at.add_len(bytes.len());
    }
    let dir = dir();
    let input = PartitionInput {
        dir: &dir,
        partition: partition(),
        topic: "t",
        evidence: Evidence { floor: Offset::at(30), complete: true },
        visit_from: Offset::ZERO,
    };
    recover_partition(&disk, &input, &mut ()).unwrap();
    let journal = Layout::new(ROOT).journal(ShardId::new(0));
    create_dir_durable(&disk, Path::new(ROOT), &journal).unwrap();
    JournalState::default().write(&disk, &journal).unwrap();
    disk
}

fn show(disk: &SimDisk, path: &Path) -> (Verdict, String) {
    let mut out = Vec::new();
    let verdict = inspect(disk, path, &mut out).unwrap();
    (verdict, String::from_utf8(out).unwrap())
}

fn check(disk: &SimDisk) -> (Verified, String) {
    let before = disk.ops();
    let mut out = Vec::new();
    let found = verify(disk, Path::new(ROOT), &mut out).unwrap();
    assert_eq!(disk.ops(), before, "verify changes nothing");
    (found, String::from_utf8(out).unwrap())
}

#[test]
fn every_kind_of_file_is_printed_for_what_it_is() {
    let disk = data_dir();
    let parts = [
        (dir().join(id().file_name(SegmentFile::Log)), "offsets 29 to 29, 1 records"),
        (dir().join(id().file_name(SegmentFile::Index)), "cover"),
        (dir().join(id().file_name(SegmentFile::TimeIndex)), "sealed"),
        (dir().join("manifest.json"), "\"topic\": \"t\""),
        (dir().join("recovery-checkpoint.json"), "\"offset\": 30"),
        (dir().join("producer-state.snapshot"), "6 bytes"),
        (PathBuf::from("/data/meta.properties"), "node 1"),
        (PathBuf::from("/data/journal/0/state"), "replay from round 0"),
    ];
    for (path, text) in parts {
        let (verdict, shown) = show(&disk, &path);
        assert_eq!(verdict, Verdict::Sound, "{path:?}: {shown}");
        assert!(shown.contains(text), "{path:?}: {shown}");
    }
    let (_, shown) = show(&disk, &dir().join(id().file_name(SegmentFile::Log)));
    assert_eq!(shown.lines().count(), 31);
    assert!(shown.contains("producer 7 epoch 0 seq 3"), "{shown}");
    let (verdict, _) = show(&disk, Path::new("/data/.lock"));
    assert_eq!(verdict, Verdict::Unreadable);
    let (verdict, shown) = show(&disk, Path::new("/nowhere/manifest.json"));
    assert_eq!((verdict, shown.contains("does not exist")), (Verdict::Unreadable, true));
}

#[test]
fn journal_file_shows_rounds_and_runs() {
    let disk = data_dir();
    let path = files::path(Path::new("/data/journal/0"), JournalSeq::new(4));
    let run = Run {
        partition: partition(),
        segment: id(),
        at: FilePosition::new(100),
        end: Offset::at(31),
        direct: false,
    };
    let mut bytes = vec![0; frame_bytes(run_bytes(3))];
    let mut writer = FrameWriter::new(&mut bytes);
    writer.push(&run, [&b"abc"[..]]);
    let (shard, journal) = (ShardId::new(0), JournalId::new(0));
    writer.finish(FrameId { shard, journal, seq: JournalSeq::new(4), round: RoundNumber::new(9) });
    let file = disk.open(&path, OpenHow::CREATE).unwrap();
    file.write_at(&bytes, FilePosition::ZERO).unwrap();
    let (verdict, shown) = show(&disk, &path);
    assert_eq!(verdict, Verdict::Sound);
    assert!(shown.contains("round 9, 1 runs"), "{shown}");
    assert!(shown.contains("at byte 100: 3 bytes up to offset 31"), "{shown}");
}

#[test]
fn sound_directory_has_no_problems() {
    let disk = data_dir();
    let (found, text) = check(&disk);
    assert_eq!((found.problems, found.needs_recovery), (0, false), "{text}");
    assert_eq!((found.partitions, found.segments), (1, 1));
    assert!(text.contains("offsets 0 to 30 in 1 segments, 0 problems"), "{text}");
}

#[test]
fn name_without_a_byte_that_an_emptied_partition_leaves_is_no_work() {
    let disk = data_dir();
    let next = SegmentId::new(LeaderEpoch::ZERO, Offset::at(30));
    disk.open(&next.path(&dir(), SegmentFile::Log), OpenHow::CREATE).unwrap();
    let (found, text) = check(&disk);
    assert_eq!((found.segments, found.problems, found.needs_recovery), (2, 0, false), "{text}");
}

#[test]
fn each_damage_is_a_problem_with_its_place() {
    let damages: [(&str, u64, &str); 5] = [
        ("log", 5 * 569 + 300, "is damaged from byte"),
        ("log", 29 * 569 + 300, "is damaged from byte 16530"), // The last batch: no torn tail.
        ("index", 4, "checksum"),
        ("timeindex", 30, "checksum"),
        ("manifest.json", 60, "manifest.json is damaged"),
    ];
    for (which, at, text) in damages {
        let disk = data_dir();
        let path = match which {
            "log" => id().path(&dir(), SegmentFile::Log),
            "index" => id().path(&dir(), SegmentFile::Index),
            "timeindex" => id().path(&dir(), SegmentFile::TimeIndex),
            other => dir().join(other),
        };
        disk.flip(&path, FilePosition::new(at), 1).unwrap();
        let (found, shown) = check(&disk);
        assert!(found.problems >= 1, "{which}: {shown}");
        assert!(shown.contains(text), "{which}: {shown}");
        assert_eq!(found.verdict().exit_status(), 1);
    }
}

#[test]
fn torn_tail_is_work_for_the_next_start_and_lost_records_are_a_problem() {
    let disk = data_dir();
    let path = id().path(&dir(), SegmentFile::Log);
    let log = disk.open(&path, OpenHow::WRITE).unwrap();
    let len = log.len().unwrap();
    log.write_at(&[7; 99], FilePosition::new(len)).unwrap();
    let (found, text) = check(&disk);
    assert_eq!((found.problems, found.needs_recovery), (0, true), "{text}");
    assert!(text.contains("99 bytes behind byte"), "{text}");
    log.set_len(len - 1).unwrap();
    let (found, text) = check(&disk);
    assert!(found.problems > 0, "{text}");
}

#[test]
fn running_broker_and_foreign_directories_are_left_alone() {
    let disk = data_dir();
    let claim = Claim { node_id: NodeId::new(1).unwrap(), cluster_id: None, shard_count: 1 };
    let broker = DataDir::open(&disk, Path::new(ROOT), &claim).unwrap();
    let (found, text) = check(&disk);
    assert!(found.problems == 1 && text.contains("is used by a broker"), "{text}");
    drop(broker);
    let mut out = Vec::new();
    let found = verify(&disk, Path::new("/data/topics"), &mut out).unwrap();
    assert_eq!(found.problems, 1);
}
