use std::time::{Duration, Instant};

use bytes::Bytes;

use super::*;
use crate::net::testing::pattern;
use crate::runtime::{Core, CoreSetup, Queue, affinity, now, run_alone, sleep, spawn, start};

const HOW: DirectHow = DirectHow { create: true, durable: false };
const DURABLE: DirectHow = DirectHow { create: true, durable: true };

/// Runs `body` on one core with a disk and a directory.
fn with_disk<F, Fut>(direct: bool, body: F)
where
    F: FnOnce(UringDisk, std::path::PathBuf) -> Fut + Send + Clone + 'static,
    Fut: Future<Output = ()> + 'static,
{
    with_disk_by(direct, WRITTEN_BY, body);
}

fn with_disk_by<F, Fut>(direct: bool, by: WrittenBy, body: F)
where
    F: FnOnce(UringDisk, std::path::PathBuf) -> Fut + Send + Clone + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_owned();
    let allowed = affinity().unwrap();
    let pool = Pool::start(2, &allowed[..1], &allowed).unwrap();
    let on_core = pool.clone();
    run_alone(move |_: Core| async move {
        body(UringDisk::with(on_core, direct, by).unwrap(), path).await;
    });
    pool.stop();
}

fn filled(disk: &UringDisk, bytes: &[u8]) -> UringBuf {
    let mut buf = disk.alloc(bytes.len().next_multiple_of(BLOCK_BYTES));
    buf.as_mut().fill(0);
    buf.as_mut()[..bytes.len()].copy_from_slice(bytes);
    buf
}

async fn write_and_read_back(disk: UringDisk, dir: std::path::PathBuf) {
    let path = dir.join("file");
    for how in [HOW, DURABLE] {
        let file = disk.open_direct(&path, how).await.unwrap();
        let bytes = pattern(5, 3 * BLOCK_BYTES);
        disk.write_at(&file, filled(&disk, &bytes), FilePosition::ZERO).await.unwrap();
        // The last block again, as a tail is rewritten.
        let tail = pattern(6, 100);
        let at = FilePosition::ZERO.add_len(2 * BLOCK_BYTES);
        disk.write_at(&file, filled(&disk, &tail), at).await.unwrap();
        disk.sync(&file).await.unwrap();
        disk.close(file).await.unwrap();
        let found = std::fs::read(&path).unwrap();
        let mut expected = bytes;
        expected[2 * BLOCK_BYTES..].fill(0);
        expected[2 * BLOCK_BYTES..2 * BLOCK_BYTES + 100].copy_from_slice(&tail);
        assert!(found == expected);
    }
}

#[test]
fn direct_writes_are_in_the_file_whole() {
    with_disk_by(true, WrittenBy::Ring, write_and_read_back);
    with_disk_by(true, WrittenBy::Threads, write_and_read_back);
}

#[test]
fn buffered_writes_are_in_the_file_whole() {
    with_disk(false, write_and_read_back);
}

/// Pieces that lie as in the file, and others, and an end within a block.
async fn gather_and_read_back(disk: UringDisk, dir: std::path::PathBuf) {
    let path = dir.join("file");
    let file = disk.open_direct(&path, HOW).await.unwrap();
    let bytes = Bytes::from(pattern(7, 500_000));
    let lead = bytes.as_ptr().align_offset(BLOCK_BYTES);
    let cuts = [lead..lead + 100_000, lead + 100_000..lead + 300_003, lead + 9..lead + 150_000];
    let pieces: Vec<Bytes> = cuts.iter().map(|cut| bytes.slice(cut.clone())).collect();
    let gather = Gather::of(&pieces);
    assert!(gather.shared_bytes() > 280_000 && gather.slices().count() > 3);
    let at = FilePosition::ZERO.add_len(2 * BLOCK_BYTES);
    disk.write_gathered(&file, gather, at).await.unwrap();
    disk.close(file).await.unwrap();
    let mut expected = vec![0; 2 * BLOCK_BYTES];
    pieces.iter().for_each(|piece| expected.extend_from_slice(piece));
    expected.resize(expected.len().next_multiple_of(BLOCK_BYTES), 0);
    assert!(std::fs::read(&path).unwrap() == expected);
}

#[test]
fn gathered_writes_are_in_the_file_whole() {
    with_disk_by(true, WrittenBy::Ring, gather_and_read_back);
    with_disk_by(true, WrittenBy::Threads, gather_and_read_back);
    with_disk(false, gather_and_read_back);
}

#[test]
fn missing_file_is_told_with_its_path() {
    for direct in [true, false] {
        with_disk(direct, |disk, dir| async move {
            let path = dir.join("missing");
            let how = DirectHow { create: false, durable: false };
            let error = disk.open_direct(&path, how).await.err().unwrap();
            assert!(error.is_not_found() && error.path == path, "{error}");
        });
    }
}

#[test]
fn many_files_are_written_and_synced_at_once() {
    with_disk(true, |disk, dir| async move {
        let tasks: Vec<_> = (0..64_u64)
            .map(|n| {
                let (disk, path) = (disk.clone(), dir.join(n.to_string()));
                spawn(Queue::Commit, async move {
                    let file = disk.open_direct(&path, HOW).await.unwrap();
                    let buf = filled(&disk, &pattern(n, 2 * BLOCK_BYTES));
                    disk.write_at(&file, buf, FilePosition::ZERO).await.unwrap();
                    disk.sync(&file).await.unwrap();
                    disk.close(file).await.unwrap();
                    std::fs::read(path).unwrap() == pattern(n, 2 * BLOCK_BYTES)
                })
            })
            .collect();
        for task in tasks {
            assert!(task.await);
        }
    });
}

#[test]
fn clones_keep_a_file_open_until_the_last_is_closed() {
    with_disk(true, |disk, dir| async move {
        let file = disk.open_direct(&dir.join("file"), HOW).await.unwrap();
        let clone = file.clone();
        disk.close(file).await.unwrap();
        let buf = filled(&disk, &[1; BLOCK_BYTES]);
        disk.write_at(&clone, buf, FilePosition::ZERO).await.unwrap();
        disk.close(clone).await.unwrap();
    });
}

#[test]
fn file_whose_directory_is_gone_is_still_opened_or_refused_but_never_ends_the_core() {
    with_disk(true, |disk, dir| async move {
        // The directory of a deleted topic is renamed while its files are being opened.
        let (here, there) = (dir.join("topic"), dir.join("deleted"));
        std::fs::create_dir(&here).unwrap();
        let path = here.join("file");
        for _ in 0..50 {
            let moves = (here.clone(), there.clone());
            let mover = disk.run(move || {
                std::fs::rename(&moves.0, &moves.1).unwrap();
                std::fs::rename(&moves.1, &moves.0).unwrap();
            });
            let both = futures_lite::future::zip(disk.open_direct(&path, HOW), mover).await;
            match both.0 {
                Ok(file) => disk.close(file).await.unwrap(),
                Err(error) => assert!(error.is_not_found(), "{error}"),
            }
        }
    });
}

#[test]
fn failed_write_tells_its_cause_by_errno() {
    with_disk(true, |disk, dir| async move {
        // A file opened to be written, whose write the kernel refuses: beyond what a file may be.
        let file = disk.open_direct(&dir.join("file"), HOW).await.unwrap();
        let at = FilePosition::new((i64::MAX as u64) - (i64::MAX as u64) % BLOCK_BYTES_U64);
        let buf = filled(&disk, &[1; 2 * BLOCK_BYTES]);
        let error = disk.write_at(&file, buf, at).await.unwrap_err();
        let kinds = [DiskErrorKind::TooLarge, DiskErrorKind::Unsupported];
        assert!(kinds.contains(&error.kind) && error.op == DiskOp::Write, "{error}");
        disk.close(file).await.unwrap();
    });
}

#[test]
fn blocking_work_runs_off_the_core_and_a_stopped_pool_is_told() {
    with_disk(true, |disk, dir| async move {
        let here = std::thread::current().id();
        let there = disk.run(|| std::thread::current().id()).await.unwrap();
        assert_ne!(here, there);
        let blocking = disk.blocking();
        let made = disk.run(move || blocking.create_dir_all(&dir.join("a/b"))).await.unwrap();
        made.unwrap();
    });
    let allowed = affinity().unwrap();
    let pool = Pool::start(1, &allowed[..1], &allowed).unwrap();
    pool.stop();
    run_alone(move |_| async move {
        let disk = UringDisk::new(pool, true).unwrap();
        let error = disk.run(|| ()).await.unwrap_err();
        assert_eq!(error.kind, DiskErrorKind::Stopped);
    });
}

/// Not a test but a measurement, for the table in `runtime/README.md`: one durable write in
/// flight over blocks written before, by the ring and by a thread in turns, so that both see the
/// same machine. Run it alone:
/// `cargo test --release -p millstream-io -- --ignored --nocapture journal_writes_measured`
#[test]
#[ignore = "a measurement; `./tests/run --long` makes it"]
fn journal_writes_measured() {
    for (load, name) in [(None, "idle"), (Some(200), "half busy"), (Some(3), "busy")] {
        for size in [4 << 10, 64 << 10, 256 << 10, 1 << 20] {
            let [ring, thread] = measure(size, load.map(Duration::from_micros));
            let text = |mut times: Vec<Duration>| {
                times.sort();
                let at = |q: usize| times[times.len() * q / 1000].as_micros();
                format!("{:5} {:6} {:6}", at(500), at(900), at(990))
            };
            println!(
                "{size:7} {name:9} | ring p50 p90 p99 us {} | thread {}",
                text(ring),
                text(thread)
            );
        }
    }
}

const ROUNDS: usize = 1500;
const JOURNAL_BYTES: u64 = 32 << 20;

/// `rest`: each core works for 200 microseconds, rests for so long, and so on.
fn measure(size: usize, rest: Option<Duration>) -> [Vec<Duration>; 2] {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal");
    std::fs::write(&path, vec![1; JOURNAL_BYTES as usize]).unwrap();
    std::fs::File::open(&path).unwrap().sync_all().unwrap();
    let cpus = affinity().unwrap();
    let pool = Pool::start(1, &cpus, &cpus).unwrap();
    let setup = CoreSetup { data_dirs: vec![dir.path().to_owned()], ..CoreSetup::new(cpus) };
    let times = Arc::new(std::sync::Mutex::new([Vec::new(), Vec::new()]));
    let done = crate::runtime::Stop::new();
    let told = times.clone();
    let cores = start(&setup, move |core| async move {
        if let Some(rest) = rest {
            spawn(Queue::Serve, work(rest, done.clone())).detach();
        }
        if core.index.get() > 0 {
            done.stopped().await;
            return;
        }
        let both = spawn(Queue::Commit, write_in_turns(pool, path, size)).await;
        *told.lock().unwrap() = both;
        done.trigger();
    })
    .unwrap();
    cores.join().into_iter().for_each(|core| core.unwrap());
    std::mem::take(&mut *times.lock().unwrap())
}

async fn work(rest: Duration, until: crate::runtime::Stop) {
    while !until.is_given() {
        let begin = now();
        while now() - begin < Duration::from_micros(200) {
            std::hint::black_box(begin);
        }
        sleep(rest).await;
    }
}

async fn write_in_turns(pool: Pool, path: std::path::PathBuf, size: usize) -> [Vec<Duration>; 2] {
    let mut ways = Vec::new();
    for by in [WrittenBy::Ring, WrittenBy::Threads] {
        let disk = UringDisk::with(pool.clone(), true, by).unwrap();
        let file = disk.open_direct(&path, DURABLE).await.unwrap();
        ways.push((disk, file));
    }
    let mut times = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        let at = FilePosition::new((round * size) as u64 % JOURNAL_BYTES);
        for ((disk, file), times) in ways.iter().zip(&mut times) {
            let buf = filled(disk, &vec![round as u8; size]);
            let begin = Instant::now();
            disk.write_at(file, buf, at).await.unwrap();
            times.push(begin.elapsed());
        }
    }
    for (disk, file) in ways {
        disk.close(file).await.unwrap();
    }
    times
}
