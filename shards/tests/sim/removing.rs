//! The remover beside a life: a thread of its own in a broker, a step now and then here.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use millstream_io::data_dir::Layout;
use millstream_io::disk::Disk;
use millstream_io::disk_sim::SimDisk;
use millstream_io::limits::BLOCK_BYTES_U64;
use millstream_io::removal::{RemovalPace, RemovalQueue};
use millstream_shards::remover::{GivenRemovals, Removals};

use crate::model::Verdict;
use crate::plan::ROOT;

/// What was moved aside, and how far it is gone.
pub struct Removing {
    given: GivenRemovals,
    queue: RemovalQueue,
    /// The remover's clock.
    now: Instant,
}

impl Removing {
    /// Begins with what an earlier life has left.
    pub fn start(disk: &SimDisk) -> (Removals, Removing) {
        let (removals, given) = Removals::pair();
        let dir = Layout::new(PathBuf::from(ROOT)).deleted();
        for entry in disk.list(&dir).unwrap_or_default() {
            removals.give(dir.join(entry.name), Duration::ZERO).expect("there is room");
        }
        let pace = RemovalPace {
            step_bytes: BLOCK_BYTES_U64,
            doubles_every: Duration::MAX,
            free_bytes_min: 64 << 10,
            rest: Duration::ZERO,
            small_at_once: 1,
            // Who reads a file keeps it for as long as he likes.
            patience: Duration::MAX,
        };
        let queue = RemovalQueue::new(pace);
        (removals, Removing { given, queue, now: Instant::now() })
    }

    /// One step.
    pub fn step(&mut self, disk: &SimDisk) {
        self.given.take(&mut self.queue);
        // Later than whatever it rests for.
        self.now += Duration::from_secs(3600);
        // The disk may fail; then the next life tries again.
        let _ = self.queue.turn(disk, self.now);
    }

    /// Nothing that was moved aside is left when nobody reads it any more.
    pub fn check_end(&mut self, disk: &SimDisk) -> Verdict {
        for _ in 0..10_000 {
            self.step(disk);
            if self.queue.is_empty() {
                break;
            }
        }
        let left = disk.list(&Layout::new(PathBuf::from(ROOT)).deleted()).unwrap_or_default();
        if disk.is_powered() && !left.is_empty() {
            return Err(format!("the remover leaves {left:?}: {:?}", self.queue));
        }
        Ok(())
    }
}
