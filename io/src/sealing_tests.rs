//! Tests of seals that a power cut interrupts.

use super::*;
use crate::disk_sim::{CrashMode, Fault, SimDisk};
use crate::limits::BLOCK_BYTES;
use crate::sparse_index::BatchStart;
use crate::units::{LeaderEpoch, Offset, TimestampMs};

const LOG_BYTES: usize = 5 * BLOCK_BYTES + 1700;

fn id() -> SegmentId {
    SegmentId::new(LeaderEpoch::ZERO, Offset::ZERO)
}

fn dir() -> &'static Path {
    Path::new("/t/0")
}

fn log_path() -> std::path::PathBuf {
    id().path(dir(), SegmentFile::Log)
}

fn bytes() -> Vec<u8> {
    (0..LOG_BYTES).map(|i| (i % 251 + 1) as u8).collect()
}

fn indexes() -> Indexes {
    let mut indexes = Indexes::new(id());
    let batch = BatchStart { base: Offset::ZERO, at: FilePosition::ZERO };
    indexes.note(batch, TimestampMs::new(5));
    indexes
}

fn coverage() -> Coverage {
    let log_bytes = FilePosition::new(LOG_BYTES as u64);
    let (next, max_timestamp) = (Offset::at(10), TimestampMs::new(5));
    Coverage { log_bytes, next, max_timestamp, sealed: true }
}

/// A log that is durable with its last block padded: what a checkpoint leaves.
fn padded() -> SimDisk {
    let disk = SimDisk::new();
    disk.create_dir_all(dir()).unwrap();
    let log = disk.open(&log_path(), OpenHow::CREATE).unwrap();
    let mut padded = bytes();
    padded.resize(LOG_BYTES.next_multiple_of(BLOCK_BYTES), 0);
    log.write_at(&padded, FilePosition::ZERO).unwrap();
    log.sync_data().unwrap();
    disk.sync_fs(dir()).unwrap();
    disk
}

fn log(disk: &SimDisk) -> Vec<u8> {
    disk.read_all(&log_path(), 1 << 20).unwrap()
}

/// Goal: wherever the power goes in a seal, and though the disk leaves rubbish in sectors that were
/// being written, the log's bytes are there after the restore, and a second seal ends well.
#[test]
fn torn_cut_takes_no_byte() {
    let steps = {
        let disk = padded();
        let before = disk.ops();
        seal(&disk, dir(), &indexes(), coverage(), true).unwrap();
        assert_eq!(log(&disk), bytes());
        disk.ops() - before
    };
    let mut torn = 0;
    for step in 1..=steps {
        for seed in 0..60 {
            let disk = padded();
            disk.power_off_at(disk.ops() + step);
            seal(&disk, dir(), &indexes(), coverage(), true).unwrap_err();
            disk.crash_as(CrashMode::Torn, seed);
            if disk.kind(&id().path(dir(), SegmentFile::Index)).unwrap().is_some() {
                torn += u32::from(restore(&disk, dir(), id()).unwrap());
            }
            assert_eq!(log(&disk)[..LOG_BYTES], bytes(), "power off at {step}, seed {seed}");
            assert!(!restored_again(&disk), "restored twice: {step}, seed {seed}");
            seal(&disk, dir(), &indexes(), coverage(), false).unwrap();
            assert_eq!(log(&disk), bytes());
        }
    }
    assert!(torn > 0, "no cut was torn in {steps} steps");
}

fn restored_again(disk: &SimDisk) -> bool {
    disk.kind(&id().path(dir(), SegmentFile::Index)).unwrap().is_some()
        && restore(disk, dir(), id()).unwrap()
}

#[test]
fn full_disk_leaves_the_log_as_it_was() {
    let disk = padded();
    let before = log(&disk);
    disk.fault(Fault::on_path(".index", DiskOp::Write, libc::ENOSPC));
    let error = seal(&disk, dir(), &indexes(), coverage(), true).unwrap_err();
    assert_eq!(error.kind, crate::disk::DiskErrorKind::Full);
    assert_eq!(log(&disk), before);
}

#[test]
fn log_shorter_than_its_index_is_not_grown() {
    let disk = padded();
    let log = disk.open(&log_path(), OpenHow::WRITE).unwrap();
    log.set_len(LOG_BYTES as u64 - 1).unwrap();
    seal(&disk, dir(), &indexes(), coverage(), true).unwrap_err();
    assert_eq!(log.len().unwrap(), LOG_BYTES as u64 - 1);
}
