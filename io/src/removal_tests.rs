//! The steps of a removal, on a simulated and on a real disk.

use super::*;
use crate::disk::DiskOp;
use crate::disk_file::FileDisk;
use crate::disk_sim::{Fault, SimDisk};
use crate::units::FilePosition;

const STEP: u64 = 4 * BLOCK_BYTES_U64;
const PACE: RemovalPace = RemovalPace {
    step_bytes: STEP,
    doubles_every: Duration::from_secs(1000),
    free_bytes_min: 0,
    rest: Duration::from_millis(10),
    small_at_once: 2,
    patience: Duration::from_secs(1),
};

fn write<D: Disk>(disk: &D, path: &Path, bytes: u64) {
    let file = disk.open(path, OpenHow::CREATE).unwrap();
    let bytes = usize::try_from(bytes).unwrap();
    file.write_at(&vec![7; bytes], FilePosition::ZERO).unwrap();
    file.sync_data().unwrap();
}

fn len<D: Disk>(disk: &D, path: &Path) -> Option<u64> {
    disk.open(path, OpenHow::READ).ok().map(|file| file.len().unwrap())
}

/// Takes turns until nothing waits; says how many did something and how long that rested in all.
fn run<D: Disk>(queue: &mut RemovalQueue, disk: &D, mut now: Instant) -> (u32, Duration) {
    let (mut turns, begun) = (0, now);
    while let Some(next) = queue.next_turn() {
        now = now.max(next);
        queue.turn(disk, now).unwrap();
        turns += 1;
        assert!(turns < 1000, "no end: {queue:?}");
    }
    (turns, now - begun)
}

fn in_steps<D: Disk>(disk: &D, dir: &Path) {
    let path = dir.join("a.log");
    write(disk, &path, 3 * STEP + 5);
    let (mut queue, now) = (RemovalQueue::new(PACE), Instant::now());
    queue.add(Removal { path: path.clone(), due: now });
    let mut seen = Vec::new();
    let mut at = now;
    while let Some(next) = queue.next_turn() {
        at = at.max(next);
        queue.turn(disk, at).unwrap();
        seen.push(len(disk, &path));
    }
    assert_eq!(seen, [Some(3 * STEP), Some(2 * STEP), Some(STEP), None]);
    assert!(at - now >= 3 * PACE.rest, "it rests behind each step: {:?}", at - now);
}

#[test]
fn large_file_goes_in_steps_with_rests() {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/d")).unwrap();
    in_steps(&disk, Path::new("/d"));
    let dir = tempfile::tempdir().unwrap();
    in_steps(&FileDisk, dir.path());
}

/// Goal: what has waited for long goes faster, and on a nearly full disk everything does.
#[test]
fn late_removals_and_those_of_a_nearly_full_disk_are_in_a_hurry() {
    let (disk, path) = (SimDisk::new(), Path::new("/d/a.log"));
    disk.create_dir_all(Path::new("/d")).unwrap();
    let turns = |late: u32, free_bytes_min| {
        write(&disk, path, 200 * STEP);
        let pace = RemovalPace { free_bytes_min, ..PACE };
        let (mut queue, due) = (RemovalQueue::new(pace), Instant::now());
        queue.add(Removal { path: path.to_path_buf(), due });
        run(&mut queue, &disk, due + late * pace.doubles_every)
    };
    for (late, rest) in [(0, PACE.rest), (1, PACE.rest / 2), (2, PACE.rest / 4)] {
        let (turns, rested) = turns(late, 0);
        assert_eq!(turns, 200, "{late} times late");
        // What a step takes is part of it, and next to nothing here.
        let exact = 199 * rest;
        assert!((exact..exact * 3 / 2).contains(&rested), "{rested:?} for {exact:?}");
    }
    assert_eq!((turns(3, 0).0, turns(5, 0).0), (100, 25));
    assert_eq!((turns(100, 0).0, turns(0, u64::MAX).0), (4, 4));
}

fn held<D: Disk>(disk: &D, dir: &Path) {
    let path = dir.join("a.log");
    write(disk, &path, 2 * STEP);
    let reader = disk.open(&path, OpenHow::READ).unwrap();
    let (mut queue, now) = (RemovalQueue::new(PACE), Instant::now());
    queue.add(Removal { path: path.clone(), due: now });
    for tenth in 0..10 {
        queue.turn(disk, now + tenth * HELD_PAUSE).unwrap();
        assert_eq!(reader.len().unwrap(), 2 * STEP, "after {tenth} looks");
    }
    drop(reader);
    queue.turn(disk, now + 10 * HELD_PAUSE).unwrap();
    assert_eq!(len(disk, &path), Some(STEP));
    // Another who never closes it keeps his bytes, and the name goes all the same.
    write(disk, &path, 2 * STEP);
    let reader = disk.open(&path, OpenHow::READ).unwrap();
    run(&mut queue, disk, now + Duration::from_secs(2));
    assert_eq!(len(disk, &path), None);
    let mut byte = [0];
    assert_eq!(reader.read_at(&mut byte, FilePosition::new(2 * STEP - 1)), Ok(1));
    assert_eq!(byte, [7]);
}

#[test]
fn reader_who_has_a_file_open_sees_all_of_it() {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/d")).unwrap();
    held(&disk, Path::new("/d"));
    let dir = tempfile::tempdir().unwrap();
    held(&FileDisk, dir.path());
}

#[test]
fn directory_goes_with_all_that_is_in_it_and_no_more_than_a_step_at_once() {
    let disk = SimDisk::new();
    let dir = Path::new("/deleted/t");
    for partition in ["0", "1", "2"] {
        disk.create_dir_all(&dir.join(partition)).unwrap();
        write(&disk, &dir.join(partition).join("a.log"), STEP - 10);
        write(&disk, &dir.join(partition).join("a.index"), 10);
    }
    write(&disk, &dir.join("1").join("b.log"), 2 * STEP);
    for name in ["b.log", "c.log", "d.log"] {
        write(&disk, &dir.join("2").join(name), STEP / 2);
    }
    let (mut queue, now) = (RemovalQueue::new(PACE), Instant::now());
    queue.add(Removal { path: dir.to_path_buf(), due: now });
    let (turns, rested) = run(&mut queue, &disk, now);
    assert_eq!(disk.kind(dir), Ok(None));
    // The topic twice, partition 0 once, the others twice with each of their files, the large one in two.
    assert_eq!(turns, 2 + 1 + (2 + 2 + 2) + (2 + 5));
    assert!(rested >= 6 * PACE.rest, "{rested:?}");
}

#[test]
fn what_is_due_later_waits_and_what_is_missing_is_no_error() {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/d")).unwrap();
    let (late, soon) = (Path::new("/d/late"), Path::new("/d/soon"));
    write(&disk, late, 10);
    write(&disk, soon, 10);
    let (mut queue, now) = (RemovalQueue::new(PACE), Instant::now());
    queue.add(Removal { path: late.to_path_buf(), due: now + Duration::from_secs(60) });
    queue.add(Removal { path: soon.to_path_buf(), due: now });
    queue.add(Removal { path: "/d/missing".into(), due: now });
    for _ in 0..10 {
        queue.turn(&disk, now + Duration::from_secs(59)).unwrap();
    }
    assert_eq!((len(&disk, soon), len(&disk, late)), (None, Some(10)));
    assert_eq!(queue.next_turn(), Some(now + Duration::from_secs(60)));
    run(&mut queue, &disk, now);
    assert_eq!(len(&disk, late), None);
}

#[test]
fn disk_that_refuses_is_told_of_once() {
    let disk = SimDisk::new();
    disk.create_dir_all(Path::new("/d")).unwrap();
    let path = Path::new("/d/a");
    write(&disk, path, 10);
    disk.fault(Fault::on_path("/d/a", DiskOp::Remove, libc::EIO));
    let (mut queue, now) = (RemovalQueue::new(PACE), Instant::now());
    queue.add(Removal { path: path.to_path_buf(), due: now });
    assert_eq!(queue.turn(&disk, now).unwrap_err().path, path);
    assert!(queue.is_empty(), "the next start tries again");
}
