use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::disk::{CoreDisk, DirectHow};

fn path(text: &str) -> &Path {
    Path::new(text)
}

/// A durable file of `len` bytes of `fill`.
fn durable_file(disk: &SimDisk, name: &str, fill: u8, len: usize) -> SimFile {
    let file = disk.open(path(name), OpenHow::CREATE).unwrap();
    file.write_at(&vec![fill; len], FilePosition::ZERO).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(path("/")).unwrap();
    file
}

fn content(disk: &SimDisk, name: &str) -> Vec<u8> {
    disk.read_all(path(name), 1 << 30).unwrap()
}

#[test]
fn synced_bytes_survive_and_unsynced_bytes_may_not() {
    let disk = SimDisk::new();
    let file = durable_file(&disk, "/f", 1, 700);
    file.write_at(&[2; 700], FilePosition::new(700)).unwrap();
    assert_eq!(content(&disk, "/f").len(), 1400);
    disk.crash_as(CrashMode::LoseAll, 1);
    assert_eq!(content(&disk, "/f"), vec![1; 700]);
    assert_eq!(file.read_at(&mut [0], FilePosition::ZERO).unwrap_err().op, DiskOp::Read);
}

#[test]
fn file_without_a_synced_name_is_gone() {
    let disk = SimDisk::new();
    let file = disk.open(path("/f"), OpenHow::CREATE).unwrap();
    file.write_at(b"x", FilePosition::ZERO).unwrap();
    file.sync_data().unwrap();
    disk.crash_as(CrashMode::LoseAll, 1);
    assert_eq!(disk.kind(path("/f")).unwrap(), None);
}

#[test]
fn rename_is_whole_or_missing_after_a_crash() {
    let (mut old, mut new) = (0, 0);
    for seed in 0..200 {
        let disk = SimDisk::new();
        durable_file(&disk, "/f", 1, 10);
        let next = disk.open(path("/f.tmp"), OpenHow::CREATE).unwrap();
        next.write_at(&[2; 10], FilePosition::ZERO).unwrap();
        next.sync_data().unwrap();
        disk.rename(path("/f.tmp"), path("/f")).unwrap();
        disk.crash(seed);
        match content(&disk, "/f")[..] {
            [1, 1, 1, 1, 1, 1, 1, 1, 1, 1] => old += 1,
            [2, 2, 2, 2, 2, 2, 2, 2, 2, 2] => new += 1,
            ref other => panic!("seed {seed}: {other:?}"),
        }
    }
    assert!(old > 20 && new > 20, "{old} old, {new} new");
}

#[test]
fn unsynced_overwrite_is_torn_at_sectors_and_nowhere_else() {
    let mut torn = 0;
    for seed in 0..200 {
        let disk = SimDisk::new();
        let file = durable_file(&disk, "/f", 1, 4096);
        file.write_at(&[2; 4096], FilePosition::ZERO).unwrap();
        disk.crash(seed);
        let left = content(&disk, "/f");
        for sector in left.chunks(512) {
            assert!(sector.iter().all(|b| *b == sector[0]), "seed {seed}: torn within a sector");
        }
        torn += usize::from(left.contains(&1) && left.contains(&2));
    }
    assert!(torn > 50, "only {torn} of 200 torn");
}

#[test]
fn later_write_may_survive_an_earlier_one_that_is_lost() {
    let reordered = (0..200).any(|seed| {
        let disk = SimDisk::new();
        let file = durable_file(&disk, "/f", 0, 1024);
        file.write_at(&[1; 512], FilePosition::ZERO).unwrap();
        file.write_at(&[2; 512], FilePosition::new(512)).unwrap();
        disk.crash(seed);
        let left = content(&disk, "/f");
        left[0] == 0 && left[512] == 2
    });
    assert!(reordered);
}

#[test]
fn lost_write_into_allocated_space_reads_as_zeros() {
    let disk = SimDisk::new();
    let file = disk.open(path("/f"), OpenHow::CREATE).unwrap();
    file.allocate(8192).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(path("/")).unwrap();
    file.write_at(&[7; 4096], FilePosition::new(4096)).unwrap();
    disk.crash_as(CrashMode::LoseAll, 1);
    assert_eq!(content(&disk, "/f"), vec![0; 8192]);
}

#[test]
fn durable_write_needs_no_sync_and_syncs_nothing_else() {
    let disk = SimDisk::new();
    let plain = durable_file(&disk, "/f", 0, 8192);
    let durable = disk.open(path("/f"), OpenHow::WRITE.durable()).unwrap();
    plain.write_at(&[1; 512], FilePosition::ZERO).unwrap();
    durable.write_at(&[2; 512], FilePosition::new(4096)).unwrap();
    disk.crash_as(CrashMode::LoseAll, 1);
    let left = content(&disk, "/f");
    assert_eq!((left[0], left[4096]), (0, 2));
}

#[test]
fn sync_after_a_failed_sync_does_not_bring_the_pages_back() {
    let lost = (0..50).any(|seed| {
        let disk = SimDisk::new();
        disk.seed(seed);
        let file = durable_file(&disk, "/f", 1, 4096);
        file.write_at(&[2; 4096], FilePosition::ZERO).unwrap();
        disk.fault(Fault { times: 1, ..Fault::on_path("/f", DiskOp::Sync, libc::EIO) });
        assert_eq!(file.sync_data().unwrap_err().kind, DiskErrorKind::Io(libc::EIO));
        file.sync_data().unwrap();
        assert_eq!(content(&disk, "/f"), vec![2; 4096], "readers still see it");
        disk.crash_as(CrashMode::LoseAll, seed);
        content(&disk, "/f").contains(&1)
    });
    assert!(lost);
}

#[test]
fn full_disk_refuses_and_takes_writes_again_when_space_is_back() {
    let disk = SimDisk::new();
    disk.set_capacity(Some(16384));
    let first = durable_file(&disk, "/a", 1, 8192);
    let second = durable_file(&disk, "/b", 2, 4096);
    assert_eq!(disk.free_bytes(path("/")).unwrap(), 4096);
    let error = second.write_at(&[3; 8192], FilePosition::new(4096)).unwrap_err();
    assert_eq!(error.kind, DiskErrorKind::Full);
    first.write_at(&[4; 100], FilePosition::ZERO).unwrap();
    disk.remove_file(path("/a")).unwrap();
    second.write_at(&[3; 8192], FilePosition::new(4096)).unwrap();
}

#[test]
fn power_goes_at_the_ordered_operation_and_stays_off() {
    let disk = SimDisk::new();
    let file = durable_file(&disk, "/f", 1, 512);
    disk.power_off_at(disk.ops() + 2);
    file.write_at(&[2; 512], FilePosition::ZERO).unwrap();
    assert!(disk.is_powered());
    assert!(file.sync_data().is_err());
    assert!(!disk.is_powered());
    assert!(disk.list(path("/")).is_err());
    disk.crash_as(CrashMode::LoseAll, 1);
    assert_eq!(content(&disk, "/f"), vec![1; 512]);
}

#[test]
fn lock_is_exclusive_and_free_after_a_crash() {
    let disk = SimDisk::new();
    let first = durable_file(&disk, "/f", 1, 1);
    let second = disk.open(path("/f"), OpenHow::READ).unwrap();
    first.lock().unwrap();
    assert_eq!(second.lock().unwrap_err().kind, DiskErrorKind::Locked);
    disk.crash(1);
    disk.open(path("/f"), OpenHow::READ).unwrap().lock().unwrap();
}

#[test]
fn flipped_bit_is_seen_by_readers() {
    let disk = SimDisk::new();
    durable_file(&disk, "/f", 1, 600);
    disk.flip(path("/f"), FilePosition::new(599), 0x80).unwrap();
    assert_eq!(content(&disk, "/f")[598..], [1, 0x81]);
}

fn poll<F: Future>(future: &mut std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn stepped_operations_complete_when_and_in_the_order_the_test_says() {
    let disk = SimDisk::new();
    let how = DirectHow { create: true, durable: false };
    let file = match poll(&mut pin!(disk.open_direct(path("/f"), how))) {
        Poll::Ready(file) => file.unwrap(),
        Poll::Pending => panic!("at once"),
    };
    disk.stepped();
    let mut buf = disk.alloc(4096);
    assert!(buf.as_ref().iter().all(|b| *b != 0), "a fresh buffer holds rubbish");
    buf.as_mut().fill(1);
    let mut write = pin!(CoreDisk::write_at(&disk, &file, buf, FilePosition::ZERO));
    let mut job = pin!(disk.run(|| 42));
    assert!(poll(&mut write).is_pending() && poll(&mut job).is_pending());
    assert_eq!(disk.waiting(), [DiskOp::Write, DiskOp::Run]);
    assert!(disk.complete(1));
    assert!(matches!(poll(&mut job), Poll::Ready(Ok(42))));
    assert!(content(&disk, "/f").is_empty());
    assert!(disk.complete(0));
    assert!(matches!(poll(&mut write), Poll::Ready(Ok(()))));
    assert_eq!(content(&disk, "/f"), vec![1; 4096]);
}

#[test]
fn write_on_its_way_at_a_crash_may_arrive_and_is_never_answered() {
    let (mut arrived, mut missing) = (0, 0);
    for seed in 0..60 {
        let disk = SimDisk::new();
        durable_file(&disk, "/f", 1, 4096);
        let how = DirectHow { create: false, durable: true };
        let file = match poll(&mut pin!(disk.open_direct(path("/f"), how))) {
            Poll::Ready(file) => file.unwrap(),
            Poll::Pending => panic!("at once"),
        };
        disk.stepped();
        let mut buf = disk.alloc(4096);
        buf.as_mut().fill(2);
        let mut write = pin!(CoreDisk::write_at(&disk, &file, buf, FilePosition::ZERO));
        assert!(poll(&mut write).is_pending());
        disk.crash(seed);
        let Poll::Ready(Err(error)) = poll(&mut write) else { panic!("no answer but an error") };
        assert_eq!(error.kind, DiskErrorKind::Stopped);
        let left = content(&disk, "/f");
        arrived += usize::from(left.contains(&2));
        missing += usize::from(left.contains(&1));
    }
    assert!(arrived > 5 && missing > 5, "{arrived} arrived, {missing} missing");
}
