//! The life of the partitions of one coordinator on one core.

use super::limits::{APPEND_BYTES_MAX, BATCH_OVERHEAD, LOAD_AGAIN_MS, SAY_AGAIN_BYTES_MAX};
use super::log_size::LogSize;
use crate::cluster::view::MetadataView;
use crate::wire::ErrorCode;
use millstream_io::batch::{NewRecord, compose};
use millstream_io::clock::{Clock, SystemClock};
use millstream_io::runtime::{Gate, Pool, Queue, Task, log, sleep, spawn};
use millstream_io::units::{LeaderEpoch, Offset, TimestampMs, TopicPartition};
use millstream_shards::deletion::{DeleteBefore, Deletion};
use millstream_shards::message::Append;
use millstream_shards::router::Router;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

/// What one coordinator does with its partitions. Clones are the same coordinator.
pub(crate) trait Room: Clone + 'static {
    type Place: Place;

    fn shell(&self) -> &Shell<Self::Place>;

    /// A partition whose log is not read yet.
    fn place(&self, at: TopicPartition, epoch: LeaderEpoch) -> Self::Place;

    /// Reads the log of a partition, which answers from then on.
    ///
    /// # Errors
    /// Why it cannot be read now, in words.
    async fn load(&self, place: &Rc<Self::Place>) -> Result<(), String>;

    /// Appends what waits and does what is due, until an append fails.
    ///
    /// # Errors
    /// Why the append failed, in words.
    async fn serve(&self, place: &Rc<Self::Place>) -> Result<(), String>;
}

/// One partition, as the shell knows it.
pub(crate) trait Place: 'static {
    fn at(&self) -> TopicPartition;

    /// The log may have changed under it: it looks whether there is something to do.
    fn look(&self);

    /// The log does not hold what was said: everybody who waits is told, and all is read again.
    fn begin_again(&self);

    /// Everybody who waits is told `error`, and nobody is answered any more.
    fn end(&self, error: ErrorCode);
}

/// The partitions of a coordinator that one core owns, and what it needs to keep them.
pub(crate) struct Shell<P> {
    pub router: Router,
    pub metadata: MetadataView,
    pub clock: SystemClock,
    pub readers: Pool,
    /// The internal topic.
    topic: &'static str,
    /// By which name it says something to the log of the process.
    area: &'static str,
    partitions: RefCell<HashMap<TopicPartition, (Rc<P>, Task<()>)>>,
    stopping: Cell<bool>,
    /// Around those who list for other cores.
    lists: Gate,
}

impl<P: Place> Shell<P> {
    pub fn new(
        (router, metadata, readers): (Router, MetadataView, Pool),
        (topic, area): (&'static str, &'static str),
    ) -> Shell<P> {
        Shell {
            router,
            metadata,
            clock: SystemClock::new(),
            readers,
            topic,
            area,
            partitions: RefCell::default(),
            stopping: Cell::new(false),
            lists: Gate::new(),
        }
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    pub fn places(&self) -> Vec<Rc<P>> {
        self.partitions.borrow().values().map(|(place, _)| place.clone()).collect()
    }

    pub fn wall(&self) -> TimestampMs {
        self.clock.wall()
    }

    pub fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.clock.monotonic().as_millis()).unwrap_or(u64::MAX)
    }

    /// The largest batch of records that the topic takes.
    pub fn append_bytes_max(&self) -> usize {
        let image = self.metadata.get();
        let topic = image.topic_by_name(self.topic);
        let message = topic.map_or(0, |topic| topic.config.max_message_bytes);
        let message = usize::try_from(message).unwrap_or(usize::MAX);
        message.saturating_sub(BATCH_OVERHEAD).min(APPEND_BYTES_MAX)
    }

    /// Appends records as one batch; the offset of the first.
    ///
    /// # Errors
    /// The log does not take them, in words.
    pub async fn append(
        &self,
        at: TopicPartition,
        records: &[NewRecord],
    ) -> Result<Offset, String> {
        let now = self.wall();
        let batch = compose(records, now);
        let append = Append { at, current: None, batch, transaction: None, now };
        match self.router.append(vec![append]).await.await.into_iter().next() {
            Some(Ok(appended)) => Ok(appended.base_offset),
            Some(Err(error)) => Err(error.to_string()),
            None => Err("an append was not answered".to_owned()),
        }
    }

    /// Begins a compaction: appends records that say all that the log says; the offset of the first,
    /// if there are any. A crash before the old ones are given up leaves both, which say the same.
    ///
    /// # Errors
    /// As [`Shell::append`].
    pub async fn say_again(
        &self,
        at: TopicPartition,
        size: &RefCell<LogSize>,
        records: Vec<NewRecord>,
    ) -> Result<Option<Offset>, String> {
        size.borrow_mut().compacted(&[], true);
        let mut first = None;
        for part in parts(records, self.append_bytes_max().min(SAY_AGAIN_BYTES_MAX)) {
            size.borrow_mut().compacted(&part, false);
            let base = self.append(at, &part).await?;
            first = first.or(Some(base));
        }
        Ok(first)
    }

    /// Ends a compaction: gives up what is not needed any more. When that fails the log keeps more
    /// than it needs, until the next time.
    pub async fn give_up(&self, at: TopicPartition, before: DeleteBefore) {
        let deletion = Deletion { at, before };
        let deleted = self.router.delete_before(vec![deletion], None).await;
        if let Some(Err(error)) = deleted.into_iter().next() {
            log::warn(self.area, "an internal topic could not give up old records")
                .field("topic", self.topic)
                .field("partition", at)
                .field("reason", &error)
                .emit();
        }
    }

    /// Makes a list for another core. When the coordinator stops it is dropped, and so is a promise
    /// in it: the asker learns that nobody answers.
    pub fn spawn_list(&self, list: impl Future<Output = ()> + 'static) {
        let _ = self.lists.spawn(Queue::Serve, list);
    }

    /// Answers everybody who waits, so that connections can be closed, and takes no more.
    pub async fn stop(&self) {
        self.stopping.set(true);
        let partitions = std::mem::take(&mut *self.partitions.borrow_mut());
        for (_, (place, task)) in partitions {
            place.end(ErrorCode::NotCoordinator);
            task.cancel().await;
        }
        // They find nothing more to list, and end at their next step.
        self.lists.close();
        self.lists.drained().await;
    }
}

/// Starts to load what this core owns and does not have yet, and ends what is gone.
pub(crate) fn look_at_metadata<R: Room>(room: &R) {
    let shell = room.shell();
    if shell.is_stopping() {
        return;
    }
    let image = shell.metadata.get();
    let topic = image.topic_by_name(shell.topic);
    let id = topic.map(|topic| topic.id);
    let mut partitions = shell.partitions.borrow_mut();
    partitions.retain(|at, (place, _)| {
        let stays = Some(at.topic) == id;
        if !stays {
            place.end(ErrorCode::NotCoordinator);
        }
        stays
    });
    partitions.values().for_each(|(place, _)| place.look());
    let own = shell.router.shard();
    let Some(topic) = topic else { return };
    for at in topic.all_partitions() {
        if shell.router.owner(at) == own && !partitions.contains_key(&at) {
            let place = Rc::new(room.place(at, topic.leader_epoch));
            let task = spawn(Queue::Serve, live(room.clone(), place.clone()));
            partitions.insert(at, (place, task));
        }
    }
}

/// A partition that this core owns; `None` when it does not, or stops.
pub(crate) fn find<R: Room>(room: &R, at: TopicPartition) -> Option<Rc<R::Place>> {
    let shell = room.shell();
    if !shell.partitions.borrow().contains_key(&at) {
        look_at_metadata(room);
    }
    let place = shell.partitions.borrow().get(&at).map(|(place, _)| place.clone());
    place.filter(|_| !shell.is_stopping())
}

/// The life of one partition.
async fn live<R: Room>(room: R, place: Rc<R::Place>) {
    let (area, topic) = (room.shell().area, room.shell().topic);
    loop {
        while let Err(reason) = room.load(&place).await {
            log::warn(area, "a partition of an internal topic cannot be loaded yet")
                .field("topic", topic)
                .field("partition", place.at())
                .field("reason", &reason)
                .emit();
            sleep(Duration::from_millis(LOAD_AGAIN_MS)).await;
        }
        if let Err(reason) = room.serve(&place).await {
            log::error(area, "a partition of an internal topic is loaded again")
                .field("topic", topic)
                .field("partition", place.at())
                .field("reason", &reason)
                .emit();
            place.begin_again();
            sleep(Duration::from_millis(LOAD_AGAIN_MS)).await;
        }
    }
}

/// Records in batches of at most `bytes_max` each; a larger one is alone.
fn parts(records: Vec<NewRecord>, bytes_max: usize) -> Vec<Vec<NewRecord>> {
    let mut parts: Vec<Vec<NewRecord>> = Vec::new();
    let mut bytes = 0;
    for record in records {
        bytes += record.bytes_max();
        match parts.last_mut() {
            Some(part) if bytes <= bytes_max => part.push(record),
            _ => {
                bytes = record.bytes_max();
                parts.push(vec![record]);
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_keep_the_order_and_the_limit() {
        let record = |bytes| NewRecord { key: None, value: Some(vec![0; bytes]) };
        let sizes = [400, 400, 400, 2000, 100];
        let parts = parts(sizes.map(record).into(), 1000);
        let lengths = |part: &Vec<NewRecord>| {
            part.iter().map(|r| r.value.as_ref().map_or(0, Vec::len)).collect::<Vec<_>>()
        };
        let lengths: Vec<_> = parts.iter().map(lengths).collect();
        assert_eq!(lengths, [vec![400, 400], vec![400], vec![2000], vec![100]]);
    }
}
