//! What the device gives to direct writes with a flush behind each round of them: the work of a commit
//! and nothing else, over a file whose space is there and was written before, or, as a log has to, into
//! a new one that grows.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use tempfile::TempDir;

/// Unit of direct writes.
const BLOCK_BYTES: usize = 4096;
/// Bytes of one write of the broker: larger runs are cut.
const PIECE_BYTES: f64 = 960.0 * 1024.0;
/// Bytes of one write that makes the file.
const FILL_BYTES: usize = 1 << 20;
/// Writes of one partition that the broker has under way at once.
const PIECES_MAX: f64 = 8.0;

/// Writes of one round: so many at once, each of so many bytes, then one flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub piece: usize,
    pub at_once: usize,
}

impl Shape {
    /// As the rounds of the broker: `bytes` of them on average, from so many partitions.
    pub fn of_rounds(bytes: f64, partitions: f64) -> Shape {
        let pieces = (bytes / PIECE_BYTES).round();
        let at_once = pieces.min(partitions.max(1.0) * PIECES_MAX).max(1.0);
        let blocks = (bytes / at_once / BLOCK_BYTES as f64).round().max(1.0);
        Shape { piece: blocks as usize * BLOCK_BYTES, at_once: at_once as usize }
    }

    /// The same bytes by one write.
    pub fn one_by_one(self) -> Shape {
        Shape { piece: self.piece * self.at_once, at_once: 1 }
    }
}

/// Where the writes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Over what was written before, from the start again and again.
    Written,
    /// Into a new file, until it is as large as the other one.
    New,
}

/// The file that is written over.
pub struct Probe {
    file: File,
    bytes: u64,
    /// Removed with it.
    dir: TempDir,
}

impl Probe {
    /// Makes a file of so many bytes under `dir`, all written once.
    pub fn new(dir: &Path, bytes: u64) -> Result<Probe> {
        let dir = tempfile::Builder::new().prefix("millstream-direct-").tempdir_in(dir)?;
        let file = new_file(&dir.path().join("file"))?;
        fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
        let probe = Probe { file, bytes, dir };
        let buffer = Aligned::new(FILL_BYTES);
        ensure!(bytes.is_multiple_of(FILL_BYTES as u64), "{bytes} are not whole pieces");
        for at in (0..bytes).step_by(buffer.bytes().len()) {
            probe.file.write_all_at(buffer.bytes(), at)?;
        }
        probe.file.sync_all()?;
        Ok(probe)
    }

    /// Bytes a second of rounds of this shape, for `time`.
    pub fn rate(&self, shape: Shape, space: Space, time: Duration) -> Result<f64> {
        if space == Space::Written {
            return self.rate_of(&self.file, shape, space, time);
        }
        let path = self.dir.path().join("new");
        let rate = self.rate_of(&new_file(&path)?, shape, space, time);
        std::fs::remove_file(&path)?;
        rate
    }

    fn rate_of(&self, file: &File, shape: Shape, space: Space, time: Duration) -> Result<f64> {
        ensure!(
            (shape.piece * shape.at_once) as u64 <= self.bytes,
            "a round of {shape:?} does not fit a file of {} bytes",
            self.bytes
        );
        let round = Round {
            barrier: Barrier::new(shape.at_once),
            stop: AtomicBool::new(false),
            rounds: AtomicU64::new(0),
            until: Instant::now() + time,
            most: match space {
                Space::Written => u64::MAX,
                Space::New => self.bytes / (shape.piece * shape.at_once) as u64,
            },
        };
        let begun = Instant::now();
        std::thread::scope(|scope| -> Result<()> {
            let work = |index| self.work(file, shape, index, &round);
            let threads: Vec<_> =
                (0..shape.at_once).map(|index| scope.spawn(move || work(index))).collect();
            for thread in threads {
                thread.join().map_err(|_| anyhow!("a thread of this client panicked"))??;
            }
            Ok(())
        })?;
        let bytes = round.rounds.load(Ordering::Relaxed) * (shape.piece * shape.at_once) as u64;
        Ok(bytes as f64 / begun.elapsed().as_secs_f64())
    }

    /// One of the threads: its piece of each round; the last to be done flushes.
    fn work(&self, file: &File, shape: Shape, index: usize, round: &Round) -> Result<()> {
        let buffer = Aligned::new(shape.piece);
        let slots = self.bytes / shape.piece as u64;
        let mut slot = index as u64;
        let mut result = Ok(());
        loop {
            let at = slot % slots * shape.piece as u64;
            slot += shape.at_once as u64;
            // Who fails goes on to the barrier: the others wait there.
            result = result.and_then(|()| file.write_all_at(buffer.bytes(), at));
            if round.barrier.wait().is_leader() {
                result = result.and_then(|()| file.sync_data());
                let rounds = round.rounds.fetch_add(1, Ordering::Relaxed) + 1;
                if Instant::now() >= round.until || rounds >= round.most {
                    round.stop.store(true, Ordering::Relaxed);
                }
            }
            if result.is_err() {
                round.stop.store(true, Ordering::Relaxed);
            }
            // Orders the flag for all: it is set before, and read behind.
            round.barrier.wait();
            if round.stop.load(Ordering::Relaxed) {
                return Ok(result?);
            }
        }
    }
}

/// What the threads of a round share.
struct Round {
    barrier: Barrier,
    stop: AtomicBool,
    rounds: AtomicU64,
    until: Instant,
    /// Rounds that fit.
    most: u64,
}

fn new_file(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.create_new(true).write(true).custom_flags(OFlags::DIRECT.bits().cast_signed());
    options.open(path).context("no direct writes here")
}

/// Memory for direct writes, filled with what does not compress.
struct Aligned {
    memory: Vec<u8>,
    from: usize,
    len: usize,
}

impl Aligned {
    fn new(len: usize) -> Aligned {
        let mut memory = vec![0; len + BLOCK_BYTES];
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for word in memory.chunks_exact_mut(8) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        let from = memory.as_ptr().align_offset(BLOCK_BYTES);
        Aligned { memory, from, len }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.from..self.from + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::data_root;

    #[test]
    fn a_round_is_cut_as_the_broker_cuts_it() {
        let shape = |piece, at_once| Shape { piece, at_once };
        let mib = 1024.0 * 1024.0;
        assert_eq!(Shape::of_rounds(3.75 * mib, 4.0), shape(960 << 10, 4));
        assert_eq!(Shape::of_rounds(4.0 * mib, 4.0), shape(1 << 20, 4));
        assert_eq!(Shape::of_rounds(4.1 * mib, 4.0), shape(1_073_152, 4));
        assert_eq!(Shape::of_rounds(0.2 * mib, 1.0), shape(208_896, 1));
        assert_eq!(Shape::of_rounds(32.0 * mib, 2.0), shape(2 << 20, 16), "no more at once");
        assert_eq!(Shape::of_rounds(0.0, 0.0), shape(4096, 1));
        assert_eq!(shape(1 << 20, 4).one_by_one(), shape(4 << 20, 1));
    }

    #[test]
    fn rounds_are_written_until_the_time_is_over() {
        let probe = Probe::new(&data_root(None).unwrap(), 4 << 20).unwrap();
        let shape = Shape { piece: 64 << 10, at_once: 3 };
        let time = Duration::from_millis(20);
        for space in [Space::Written, Space::New] {
            assert!(probe.rate(shape, space, time).unwrap() > 0.0);
            assert!(probe.rate(shape.one_by_one(), space, time).unwrap() > 0.0);
            let large = Shape { piece: 2 << 20, at_once: 3 };
            assert!(probe.rate(large, space, time).is_err(), "more than the file");
        }
        let begun = Instant::now();
        assert!(probe.rate(shape, Space::New, Duration::from_secs(600)).unwrap() > 0.0);
        assert!(begun.elapsed() < Duration::from_secs(300), "it ends when it is as large");
    }

    #[test]
    fn memory_begins_at_a_block() {
        let aligned = Aligned::new(10_000);
        assert_eq!(aligned.bytes().len(), 10_000);
        assert_eq!(aligned.bytes().as_ptr().addr() % BLOCK_BYTES, 0);
        assert!(aligned.bytes().iter().any(|byte| *byte != 0));
    }
}
