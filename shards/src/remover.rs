//! The thread that gives the space of deleted files back, and how it is told of them.
//!
//! One for the whole broker: however many partitions delete at a time, one step is under way.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millstream_io::disk::Disk;
use millstream_io::removal::{NotRemoved, Removal, RemovalPace, RemovalQueue};
use millstream_io::runtime::log;

use crate::limits::REMOVALS_WAITING_MAX;

/// Gives files to the remover. Clones give to the same one; any thread may have one.
#[derive(Clone, Debug)]
pub struct Removals(SyncSender<Order>);

/// The remover's thread.
pub struct Remover {
    thread: JoinHandle<()>,
    give: SyncSender<Order>,
    stop: Arc<AtomicBool>,
}

/// What was given and not taken yet: the remover's end.
pub struct GivenRemovals(Receiver<Order>);

#[derive(Debug)]
enum Order {
    Remove(Removal),
    /// Look whether the remover is to stop.
    Look,
}

impl Removals {
    /// Both ends, for whoever runs the removals himself.
    pub fn pair() -> (Removals, GivenRemovals) {
        let (give, take) = sync_channel(REMOVALS_WAITING_MAX);
        (Removals(give), GivenRemovals(take))
    }

    /// Starts the remover.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start<D: Disk>(disk: D, pace: RemovalPace) -> std::io::Result<(Removals, Remover)> {
        let (removals, given) = Removals::pair();
        let stop = Arc::new(AtomicBool::new(false));
        let (queue, seen) = (RemovalQueue::new(pace), stop.clone());
        let thread = std::thread::Builder::new().name("remover".into());
        let thread = thread.spawn(move || remove_all(&disk, queue, &given, &seen))?;
        let give = removals.0.clone();
        Ok((removals, Remover { thread, give, stop }))
    }

    /// Has `path` removed, with all that is in it, when `delay` has passed. Its name must be durable,
    /// and one that no list has.
    ///
    /// # Errors
    /// So many wait that there is no room for one more: `path` is given back.
    pub fn give(&self, path: PathBuf, delay: Duration) -> Result<(), PathBuf> {
        let now = Instant::now();
        // A time that no clock reaches is for ever.
        let due = now.checked_add(delay).unwrap_or(now + FOR_EVER);
        let order = Order::Remove(Removal { path: path.clone(), due });
        self.0.try_send(order).map_err(|_| path)
    }
}

impl Remover {
    /// Ends it behind the step at hand. What is left is removed after the next start.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Release);
        // Full: then it is awake, and looks by itself.
        let _ = self.give.try_send(Order::Look);
        // A panic of the thread was reported when it happened.
        let _ = self.thread.join();
    }
}

impl GivenRemovals {
    /// Moves what was given into a queue.
    pub fn take(&self, queue: &mut RemovalQueue) {
        for order in self.0.try_iter() {
            if let Order::Remove(removal) = order {
                queue.add(removal);
            }
        }
    }
}

fn remove_all<D: Disk>(
    disk: &D,
    mut queue: RemovalQueue,
    given: &GivenRemovals,
    stop: &AtomicBool,
) {
    while !stop.load(Ordering::Acquire) {
        let now = Instant::now();
        let wait = queue.next_turn().map(|next| next.saturating_duration_since(now));
        // Full: whoever has more to give removes it himself.
        let is_full = queue.len() >= REMOVALS_WAITING_MAX && wait == Some(Duration::ZERO);
        let next = if is_full {
            Err(RecvTimeoutError::Timeout)
        } else {
            given.0.recv_timeout(wait.unwrap_or(FOR_EVER))
        };
        match next {
            Ok(Order::Remove(removal)) => queue.add(removal),
            Ok(Order::Look) => {}
            Err(RecvTimeoutError::Timeout) => {
                if let Err(NotRemoved { path, error }) = queue.turn(disk, Instant::now()) {
                    log::warn("remover", "a deleted file is still there")
                        .field("path", path.display())
                        .field("reason", error)
                        .field("then", "the next start tries again")
                        .emit();
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Longer than any broker runs, and not so long that an [`Instant`] cannot hold it.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_io::disk_file::FileDisk;

    #[test]
    fn what_is_given_goes_and_what_is_due_later_is_left_at_the_end() {
        let root = tempfile::tempdir().unwrap();
        let (soon, late) = (root.path().join("soon"), root.path().join("late"));
        std::fs::create_dir_all(soon.join("0")).unwrap();
        std::fs::write(soon.join("0/a.log"), b"bytes").unwrap();
        std::fs::write(&late, b"bytes").unwrap();
        let (removals, remover) = Removals::start(FileDisk, RemovalPace::USUAL).unwrap();
        removals.give(late.clone(), Duration::MAX).unwrap();
        removals.give(soon.clone(), Duration::ZERO).unwrap();
        while soon.exists() {
            std::thread::yield_now();
        }
        remover.stop();
        assert!(late.exists(), "the next start removes it");
    }
}
