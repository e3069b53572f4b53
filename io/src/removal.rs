//! Giving the space of deleted files back, a piece at a time.
//!
//! A file system frees a file of gigabytes in one go, and whoever syncs something meanwhile waits
//! for it: mounted with `discard`, for the device too, which does nothing else until it has forgotten
//! the blocks. So a large file is cut shorter in steps, with a rest behind each in which others come in
//! between, and only what is left is removed.
//!
//! What is given to a [`RemovalQueue`] is under a name that no list knows, durably: a crash leaves
//! it there, shorter or not, and the next start gives it to the queue again. A reader may have
//! opened a file before, and must see none of its bytes go: it is cut only while nobody else has it
//! open. After a time the name goes all the same; then the space comes back when he closes it.
//!
//! Blocking: for a thread that does nothing else.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::disk::{Disk, DiskError, DiskFile, EntryKind, OpenHow, parent_of};
use crate::limits::BLOCK_BYTES_U64;

/// A file or a directory to be removed, with all that is in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Removal {
    pub path: PathBuf,
    /// Not before this.
    pub due: Instant,
}

/// How fast space is given back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemovalPace {
    /// A larger file is cut by so much at a time. Whole blocks.
    pub step_bytes: u64,
    /// Space is given back twice as fast when what is due first has waited for so long, and so on: whoever
    /// deletes more than usual for a long time must not fill the disk with it. Rests become shorter
    /// first, then steps longer.
    pub doubles_every: Duration,
    /// Steps are as long as they get while less than this is free.
    pub free_bytes_min: u64,
    /// The least rest behind a step. A step that took long is followed by a rest of three times as long.
    pub rest: Duration,
    /// Small files and directories that count as one step.
    pub small_at_once: u32,
    /// How long a file waits for others who have it open.
    pub patience: Duration,
}

impl RemovalPace {
    /// What a broker does: up to 125 MB a second, 250 behind a minute, and so on. On ext4 with
    /// `discard` a step took 0.25 ms and 0.3 ms more for each MiB, which a write beside it waits.
    pub const USUAL: RemovalPace = RemovalPace {
        step_bytes: 1 << 20,
        doubles_every: Duration::from_secs(60),
        free_bytes_min: 4 << 30,
        rest: Duration::from_millis(8),
        small_at_once: 8,
        patience: Duration::from_secs(60),
    };
}

/// Why something is still there, and will be until the next start.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotRemoved {
    pub path: PathBuf,
    pub error: DiskError,
}

/// What waits to be removed, the earliest due first. Plain: time is told.
#[derive(Debug)]
pub struct RemovalQueue {
    pace: RemovalPace,
    /// By time due, and among equals in the order they came.
    waiting: BTreeMap<(Instant, u64), Work>,
    came: u64,
    /// Nothing is touched before this.
    rests_until: Option<Instant>,
    small: u32,
}

#[derive(Debug)]
struct Work {
    /// What is at hand, and the directories it is in.
    stack: Vec<PathBuf>,
    /// Since when somebody else has the file at hand open.
    held_since: Option<Instant>,
}

/// What one look at the path at hand did.
enum Did {
    /// It is gone.
    Removed,
    /// It became shorter.
    Cut,
    /// Something in it comes first.
    Entered(Vec<PathBuf>),
    /// Somebody else has it open.
    Held,
}

impl RemovalQueue {
    pub fn new(pace: RemovalPace) -> RemovalQueue {
        let whole = pace.step_bytes > 0 && pace.step_bytes.is_multiple_of(BLOCK_BYTES_U64);
        assert!(whole, "steps of {} bytes are not whole blocks", pace.step_bytes);
        let waiting = BTreeMap::new();
        RemovalQueue { pace, waiting, came: 0, rests_until: None, small: 0 }
    }

    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub fn add(&mut self, removal: Removal) {
        let work = Work { stack: vec![removal.path], held_since: None };
        self.put(removal.due, work);
    }

    /// When [`RemovalQueue::turn`] has something to do; `None` while nothing waits.
    pub fn next_turn(&self) -> Option<Instant> {
        let ((due, _), _) = self.waiting.first_key_value()?;
        Some(self.rests_until.map_or(*due, |rest| rest.max(*due)))
    }

    /// Does one step of what is due first, if its time has come.
    ///
    /// # Errors
    /// [`NotRemoved`]: it is not tried again.
    pub fn turn<D: Disk>(&mut self, disk: &D, now: Instant) -> Result<(), NotRemoved> {
        if self.next_turn().is_none_or(|next| next > now) {
            return Ok(());
        }
        let Some(((due, came), mut work)) = self.waiting.pop_first() else { return Ok(()) };
        let Some(path) = work.stack.last().cloned() else { return Ok(()) };
        let begun = Instant::now();
        let (step_bytes, rest) = self.pace_of(disk, &path, now.saturating_duration_since(due));
        let did = self.look(disk, &path, &mut work, (now, step_bytes));
        match did.map_err(|error| NotRemoved { path, error })? {
            Did::Removed => {
                work.stack.pop();
                self.small += 1;
                if self.small >= self.pace.small_at_once {
                    self.rest(now, begun.elapsed(), rest);
                }
            }
            Did::Cut => self.rest(now, begun.elapsed(), rest),
            Did::Entered(inside) => work.stack.extend(inside),
            Did::Held => {
                self.put(now + HELD_PAUSE, work);
                return Ok(());
            }
        }
        if !work.stack.is_empty() {
            self.waiting.insert((due, came), work);
        }
        Ok(())
    }

    /// How much is given back at once, and the least rest behind it.
    fn pace_of<D: Disk>(&self, disk: &D, path: &Path, late: Duration) -> (u64, Duration) {
        let free = disk.free_bytes(&parent_of(path));
        let is_short = free.is_ok_and(|free| free < self.pace.free_bytes_min);
        let late = late.as_micros() / self.pace.doubles_every.as_micros().max(1);
        let late = u32::try_from(late).unwrap_or(u32::MAX).min(DOUBLINGS_MAX);
        let doublings = if is_short { DOUBLINGS_MAX } else { late };
        let halvings = doublings.min(HALVINGS_MAX);
        (self.pace.step_bytes << (doublings - halvings), self.pace.rest / (1 << halvings))
    }

    fn look<D: Disk>(
        &self,
        disk: &D,
        path: &Path,
        work: &mut Work,
        how: (Instant, u64),
    ) -> Result<Did, DiskError> {
        match disk.kind(path)? {
            None => Ok(Did::Removed),
            Some(EntryKind::Directory) => self.enter(disk, path),
            Some(EntryKind::File) => self.shrink(disk, path, work, how),
            Some(EntryKind::Other) => gone(disk.remove_file(path)),
        }
    }

    /// A directory of small files goes in one go, if they are no more than a step together. Of others,
    /// what is in them comes first.
    fn enter<D: Disk>(&self, disk: &D, dir: &Path) -> Result<Did, DiskError> {
        let (mut inside, mut bytes, mut deep) = (Vec::new(), 0, false);
        for entry in disk.list(dir)? {
            let path = dir.join(&entry.name);
            match entry.kind {
                EntryKind::Directory => deep = true,
                EntryKind::File => bytes += disk.open(&path, OpenHow::READ)?.len()?,
                EntryKind::Other => {}
            }
            inside.push(path);
        }
        if !deep && bytes <= self.pace.step_bytes {
            return gone(disk.remove_dir_all(dir));
        }
        Ok(Did::Entered(inside))
    }

    fn shrink<D: Disk>(
        &self,
        disk: &D,
        path: &Path,
        work: &mut Work,
        (now, step_bytes): (Instant, u64),
    ) -> Result<Did, DiskError> {
        let file = disk.open(path, OpenHow::WRITE)?;
        let len = file.len()?;
        if len > step_bytes {
            match file.is_shared() {
                Some(false) => {
                    work.held_since = None;
                    let steps = len.div_ceil(step_bytes) - 1;
                    file.set_len(steps * step_bytes)?;
                    return Ok(Did::Cut);
                }
                Some(true) => {
                    let since = *work.held_since.get_or_insert(now);
                    if now.saturating_duration_since(since) < self.pace.patience {
                        return Ok(Did::Held);
                    }
                }
                // Nobody can tell: in one go, which takes no byte from whoever has it open.
                None => {}
            }
        }
        work.held_since = None;
        drop(file);
        gone(disk.remove_file(path))
    }

    fn put(&mut self, due: Instant, work: Work) {
        self.came += 1;
        self.waiting.insert((due, self.came), work);
    }

    fn rest(&mut self, now: Instant, took: Duration, least: Duration) {
        self.small = 0;
        self.rests_until = Some(now + took + least.max(took * 3));
    }
}

fn gone(removed: Result<(), DiskError>) -> Result<Did, DiskError> {
    match removed {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(Did::Removed),
    }
}

/// 256 times as fast as usual.
const DOUBLINGS_MAX: u32 = 8;

/// The first of them are rests of a quarter; the others, steps of 64 times the length.
const HALVINGS_MAX: u32 = 2;

/// How often a file is looked at that somebody else has open.
const HELD_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
#[path = "removal_tests.rs"]
mod tests;
