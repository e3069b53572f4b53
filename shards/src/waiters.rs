//! Long polls: who waits for more readable bytes of which partition.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use millstream_io::runtime::{Promise, Reply, oneshot};
use millstream_io::units::IdMap;

use crate::limits::WAITS_PER_PARTITION_MAX;
use crate::message::{Isolation, Woken};
use crate::table::Slot;

/// One waiting fetch. Shared by the door and by all shards whose partitions it waits for: each
/// adds what became readable there, and whoever brings the sum over the mark wakes the door.
pub struct Wait {
    bytes_wanted: u64,
    bytes_grown: AtomicU64,
    wake: Mutex<Option<Promise<Woken>>>,
}

impl Wait {
    /// A wait for `bytes_wanted` (at least 1) more bytes, and where its end is told.
    pub fn new(bytes_wanted: u64) -> (Arc<Wait>, Reply<Woken>) {
        let (promise, reply) = oneshot();
        let wait = Wait {
            bytes_wanted: bytes_wanted.max(1),
            bytes_grown: AtomicU64::new(0),
            wake: Mutex::new(Some(promise)),
        };
        (Arc::new(wait), reply)
    }

    /// Adds bytes that became readable. True when the wait is over.
    pub fn grow(&self, bytes: u64) -> bool {
        let before = self.bytes_grown.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) >= self.bytes_wanted {
            self.end(Woken::Bytes);
            return true;
        }
        self.is_over()
    }

    /// Ends the wait; only the first end is told.
    pub fn end(&self, how: Woken) {
        if let Some(promise) = self.promise().take() {
            // Nobody waits any more when this fails, which is what an end is for.
            let _ = promise.send(how);
        }
    }

    /// True when it has ended, or the door has gone away.
    pub fn is_over(&self) -> bool {
        self.promise().as_ref().is_none_or(Promise::is_abandoned)
    }

    fn promise(&self) -> std::sync::MutexGuard<'_, Option<Promise<Woken>>> {
        self.wake.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Wait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let grown = self.bytes_grown.load(Ordering::Relaxed);
        write!(f, "Wait({grown} of {} bytes)", self.bytes_wanted)
    }
}

/// The waits on one shard's partitions. Lives on the owner's core.
///
/// Bounded for each partition; a wait beyond the bound ends at once as if its time were over.
/// Waits whose door has gone are swept out when a partition's list has doubled.
#[derive(Debug, Default)]
pub struct Waiters {
    of: IdMap<Slot, List>,
}

#[derive(Debug, Default)]
struct List {
    waits: Vec<(Isolation, Arc<Wait>)>,
    sweep_at: usize,
}

impl Waiters {
    pub fn new() -> Waiters {
        Waiters::default()
    }

    /// Adds a wait on a partition, for bytes that are readable under an isolation.
    pub fn add(&mut self, slot: Slot, isolation: Isolation, wait: Arc<Wait>) {
        let list = self.of.entry(slot).or_default();
        if list.waits.len() >= list.sweep_at.max(SWEEP_FROM) {
            list.waits.retain(|(_, wait)| !wait.is_over());
            list.sweep_at = list.waits.len() * 2;
        }
        if list.waits.len() >= WAITS_PER_PARTITION_MAX {
            wait.end(Woken::Deadline);
            return;
        }
        list.waits.push((isolation, wait));
    }

    /// More became readable in a partition: `bytes` of all records, `stable_bytes` of committed ones.
    /// Costs one step for each that waits on it.
    pub fn grown(&mut self, slot: Slot, bytes: u64, stable_bytes: u64) {
        let Some(list) = self.of.get_mut(&slot) else { return };
        list.waits.retain(|(isolation, wait)| {
            let grown = match isolation {
                Isolation::ReadUncommitted => bytes,
                Isolation::ReadCommitted => stable_bytes,
            };
            !wait.grow(grown)
        });
        if list.waits.is_empty() {
            self.of.remove(&slot);
        }
    }

    /// The partition went away or changed: everybody looks again.
    pub fn changed(&mut self, slot: Slot) {
        let list = self.of.remove(&slot).unwrap_or_default();
        list.waits.iter().for_each(|(_, wait)| wait.end(Woken::Changed));
    }

    /// The shard stops, or its storage failed: everybody looks again.
    pub fn all_changed(&mut self) {
        for list in std::mem::take(&mut self.of).into_values() {
            list.waits.iter().for_each(|(_, wait)| wait.end(Woken::Changed));
        }
    }

    /// Waits held, those that are over and not swept yet included.
    pub fn len(&self) -> usize {
        self.of.values().map(|list| list.waits.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }
}

/// A list shorter than this is not worth a sweep.
const SWEEP_FROM: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;
    use millstream_io::units::{PartitionIndex, TopicId, TopicPartition};

    const ALL: Isolation = Isolation::ReadUncommitted;

    fn slots() -> [Slot; 2] {
        let mut table = Table::default();
        let topic = TopicId::from_bytes([9; 16]);
        [0, 1].map(|p| table.insert(TopicPartition { topic, partition: PartitionIndex::at(p) }, ()))
    }

    #[test]
    fn bytes_of_several_partitions_add_up() {
        let [a, b] = slots();
        let mut waiters = Waiters::new();
        let (wait, mut reply) = Wait::new(100);
        waiters.add(a, ALL, wait.clone());
        waiters.add(b, ALL, wait);
        waiters.grown(a, 60, 60);
        assert_eq!(reply.try_take(), None);
        waiters.grown(b, 40, 40);
        assert_eq!(reply.try_take(), Some(Ok(Woken::Bytes)));
        waiters.grown(a, 1, 1);
        assert!(waiters.is_empty(), "a finished wait leaves nothing behind");
    }

    #[test]
    fn reader_of_committed_records_sleeps_until_they_are_stable() {
        let [a, _] = slots();
        let mut waiters = Waiters::new();
        let (all, mut all_reply) = Wait::new(100);
        let (committed, mut committed_reply) = Wait::new(100);
        waiters.add(a, ALL, all);
        waiters.add(a, Isolation::ReadCommitted, committed);
        waiters.grown(a, 100, 0);
        assert_eq!(all_reply.try_take(), Some(Ok(Woken::Bytes)));
        assert_eq!(committed_reply.try_take(), None);
        waiters.grown(a, 78, 178);
        assert_eq!(committed_reply.try_take(), Some(Ok(Woken::Bytes)));
    }

    #[test]
    fn change_wakes_at_once() {
        let [a, b] = slots();
        let mut waiters = Waiters::new();
        let (first, mut first_reply) = Wait::new(100);
        let (second, mut second_reply) = Wait::new(100);
        waiters.add(a, ALL, first);
        waiters.add(b, ALL, second);
        waiters.changed(a);
        assert_eq!(first_reply.try_take(), Some(Ok(Woken::Changed)));
        assert_eq!(second_reply.try_take(), None);
        waiters.all_changed();
        assert_eq!(second_reply.try_take(), Some(Ok(Woken::Changed)));
    }

    #[test]
    fn given_up_waits_are_swept_and_the_list_is_bounded() {
        let [a, _] = slots();
        let mut waiters = Waiters::new();
        for _ in 0..10_000 {
            let (wait, reply) = Wait::new(1);
            drop(reply);
            waiters.add(a, ALL, wait);
        }
        assert!(waiters.len() <= SWEEP_FROM + 1, "{} are held", waiters.len());
        let mut replies = Vec::new();
        for _ in 0..=WAITS_PER_PARTITION_MAX {
            let (wait, reply) = Wait::new(1);
            waiters.add(a, ALL, wait);
            replies.push(reply);
        }
        assert!(waiters.len() <= WAITS_PER_PARTITION_MAX);
        let refused = replies.last_mut().and_then(Reply::try_take);
        assert_eq!(refused, Some(Ok(Woken::Deadline)));
        waiters.grown(a, 1, 1);
        assert_eq!(replies[0].try_take(), Some(Ok(Woken::Bytes)));
    }
}
