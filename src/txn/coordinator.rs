//! The transaction coordinator of one core: the partitions of `__transaction_state` that the core
//! owns, each with its transactional ids.
//!
//! A question is answered by the plain [`TransactionPartition`]; what it wants stored waits in the
//! partition's queue. One task a partition takes all that waits, appends it as one batch, and when
//! that is durable lets the partition go on. A transaction whose outcome is durable goes to the
//! [`markers`], whose word that all are written comes back the same way.

mod markers;
mod place;

use super::ask::{Ask, Filter, Listed};
use super::limits::{APPEND_BYTES_MAX, BATCH_OVERHEAD, LOAD_AGAIN_MS};
use super::loader;
use super::metrics::{TransactionCounts, TransactionLevels, TransactionTotals};
use super::partition::{Name, Settings, TransactionPartition};
use super::placement::TRANSACTIONS_TOPIC;
use crate::cluster::view::MetadataView;
use crate::group::handle::Groups;
use crate::group::log_size::LogSize;
use crate::group::walk::Walk;
use crate::wire::ErrorCode;
use millstream_io::batch::{NewRecord, compose};
use millstream_io::clock::{Clock, SystemClock};
use millstream_io::runtime::{
    Breather, Gate, Pool, Promise, Queue, Task, log, sleep, spawn, timeout,
};
use millstream_io::units::{Offset, TimestampMs, TopicPartition};
use millstream_shards::deletion::{DeleteBefore, Deletion};
use millstream_shards::event::Event;
use millstream_shards::message::Append;
use millstream_shards::router::Router;
use place::Place;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

/// Transactional ids of one core. Clones share it.
#[derive(Clone)]
pub struct Coordinator(Rc<Inner>);

struct Inner {
    router: Router,
    metadata: MetadataView,
    groups: Groups,
    clock: SystemClock,
    readers: Pool,
    partitions: RefCell<HashMap<TopicPartition, (Rc<Place>, Task<()>)>>,
    stopping: Cell<bool>,
    /// Signalled when the coordinator stops.
    stop: Event,
    /// Around those who write markers.
    writers: Gate,
    /// Around those who list ids for other cores.
    lists: Gate,
    counts: Rc<TransactionCounts>,
}

impl Coordinator {
    pub fn new(
        router: Router,
        metadata: MetadataView,
        groups: Groups,
        readers: Pool,
    ) -> Coordinator {
        Coordinator(Rc::new(Inner {
            router,
            metadata,
            groups,
            clock: SystemClock::new(),
            readers,
            partitions: RefCell::default(),
            stopping: Cell::new(false),
            stop: Event::new(),
            writers: Gate::new(),
            lists: Gate::new(),
            counts: Rc::default(),
        }))
    }

    /// Starts to load what this core owns and does not have yet, and ends what is gone. To be
    /// called at start and when the metadata changed.
    pub fn look_at_metadata(&self) {
        if self.0.stopping.get() {
            return;
        }
        let image = self.0.metadata.get();
        let topic = image.topic_by_name(TRANSACTIONS_TOPIC);
        let mut partitions = self.0.partitions.borrow_mut();
        let id = topic.map(|topic| topic.id);
        partitions.retain(|at, (place, _)| {
            let stays = Some(at.topic) == id;
            if !stays {
                place.end(ErrorCode::NotCoordinator);
            }
            stays
        });
        let own = self.0.router.shard();
        let Some(topic) = topic else { return };
        for at in topic.all_partitions() {
            if self.0.router.owner(at) == own && !partitions.contains_key(&at) {
                let place = Rc::new(Place::new(at, topic.leader_epoch));
                let task = spawn(Queue::Serve, self.clone().run(place.clone()));
                partitions.insert(at, (place, task));
            }
        }
    }

    /// Asks a transactional id of a partition that this core owns.
    pub fn ask(&self, at: TopicPartition, id: &Name, ask: Ask) {
        if !self.0.partitions.borrow().contains_key(&at) {
            self.look_at_metadata();
        }
        let place = self.0.partitions.borrow().get(&at).map(|(place, _)| place.clone());
        match place {
            Some(place) if !self.0.stopping.get() => place.ask(id, ask, self.now()),
            Some(_) | None => ask.refuse(ErrorCode::NotCoordinator),
        }
    }

    /// The transactional ids of this core that `filter` takes, gathered in steps.
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS while one partition is not loaded.
    pub async fn list(&self, filter: &Filter) -> Result<Vec<Listed>, ErrorCode> {
        self.look_at_metadata();
        let now = self.now();
        let mut breather = Breather::new();
        let mut all = Vec::new();
        for place in self.places() {
            let mut walk = Walk::BEGIN;
            while !walk.is_over() {
                all.extend(place.list_step(&mut walk, filter, now)?);
                breather.after(0).await;
            }
        }
        Ok(all)
    }

    /// Answers another core with [`Coordinator::list`].
    pub fn answer_list(&self, filter: Filter, reply: Promise<Result<Vec<Listed>, ErrorCode>>) {
        let coordinator = self.clone();
        // A closed gate drops the promise: nobody answers. Nobody may be waiting any more, either.
        let _ = self.0.lists.spawn(Queue::Serve, async move {
            let _ = reply.send(coordinator.list(&filter).await);
        });
    }

    /// What transactions of this core have done since its start.
    pub fn totals(&self) -> TransactionTotals {
        self.0.counts.get()
    }

    /// What they are now. Costs a look at each partition, none at the ids.
    pub fn levels(&self) -> TransactionLevels {
        let mut levels = TransactionLevels::default();
        self.places().iter().for_each(|place| place.add_to(&mut levels));
        levels
    }

    fn places(&self) -> Vec<Rc<Place>> {
        self.0.partitions.borrow().values().map(|(place, _)| place.clone()).collect()
    }

    /// Answers everybody who waits, so that connections can be closed, and takes no more. Markers
    /// that are not written yet are written after the next start.
    pub async fn stop(&self) {
        self.0.stopping.set(true);
        let partitions = std::mem::take(&mut *self.0.partitions.borrow_mut());
        for (_, (place, task)) in partitions {
            place.end(ErrorCode::NotCoordinator);
            task.cancel().await;
        }
        self.0.stop.signal();
        self.0.writers.close();
        // They find nothing more to list, and end at their next step.
        self.0.lists.close();
        self.0.lists.drained().await;
    }

    /// Waits until nobody writes markers any more, for so long at most. To be called after
    /// [`Coordinator::stop`], when the groups have stopped too.
    pub async fn drain(&self, patience: Duration) {
        if let Err(still) = self.0.writers.close_and_drain(patience).await {
            log::warn("transactions", "markers are still being written")
                .field("reason", still)
                .emit();
        }
    }

    fn now(&self) -> TimestampMs {
        self.0.clock.wall()
    }

    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.0.clock.monotonic().as_millis()).unwrap_or(u64::MAX)
    }

    fn settings(&self) -> Settings {
        let broker = &self.0.metadata.get().broker;
        Settings {
            timeout_ms_max: broker.transactions.timeout_ms_max,
            expiration_ms: broker.transactions.id_expiration_ms,
            record_bytes_max: self.append_bytes_max(),
        }
    }

    /// The largest batch of records that the topic takes.
    fn append_bytes_max(&self) -> usize {
        let image = self.0.metadata.get();
        let topic = image.topic_by_name(TRANSACTIONS_TOPIC);
        let message = topic.map_or(0, |topic| topic.config.max_message_bytes);
        let message = usize::try_from(message).unwrap_or(usize::MAX);
        message.saturating_sub(BATCH_OVERHEAD).min(APPEND_BYTES_MAX)
    }

    /// The life of one partition.
    async fn run(self, place: Rc<Place>) {
        loop {
            self.load(&place).await;
            if let Err(reason) = self.serve(&place).await {
                log::error("transactions", "a partition of the transactions topic is loaded again")
                    .field("partition", place.at)
                    .field("reason", &reason)
                    .emit();
                place.begin_again();
                sleep(Duration::from_millis(LOAD_AGAIN_MS)).await;
            }
        }
    }

    async fn load(&self, place: &Rc<Place>) {
        loop {
            let begun = self.0.clock.monotonic();
            let mut ids = TransactionPartition::new(self.settings());
            ids.count_in(self.0.counts.clone());
            let replay = |record| ids.replay(record);
            match loader::load(&self.0.router, &self.0.readers, place.at, replay).await {
                Ok(loaded) => {
                    let completions = ids.loaded();
                    self.0.counts.loaded(self.0.clock.monotonic().saturating_sub(begun));
                    *place.log.borrow_mut() = LogSize::loaded(loaded.bytes);
                    if loaded.records > 0 {
                        log::info("transactions", "loaded a partition of the transactions topic")
                            .field("partition", place.at)
                            .field("ids", ids.len())
                            .field("to_be_completed", completions.len())
                            .field("records", loaded.records)
                            .field("unreadable", loaded.unreadable)
                            .emit();
                    }
                    place.activate(ids);
                    self.complete_all(place, completions);
                    return;
                }
                Err(reason) => {
                    log::warn(
                        "transactions",
                        "a partition of the transactions topic cannot be loaded yet",
                    )
                    .field("partition", place.at)
                    .field("reason", &reason)
                    .emit();
                    sleep(Duration::from_millis(LOAD_AGAIN_MS)).await;
                }
            }
        }
    }

    /// Appends what waits and does what is due, until an append fails.
    async fn serve(&self, place: &Rc<Place>) -> Result<(), String> {
        let mut looks = Looks::new(self);
        let mut breather = Breather::new();
        loop {
            let seen = place.work.seen();
            looks.look(self, place);
            if place.log.borrow().is_compaction_due() {
                self.compact(place).await?;
            }
            let batch = place.take_batch(self.append_bytes_max());
            if batch.is_empty() && looks.are_walking() {
                breather.after(0).await;
                continue;
            }
            if batch.is_empty() {
                let pause = looks.next_ms().saturating_sub(self.monotonic_ms()).max(1);
                // Either something to do or a time that has come: the loop looks at both.
                let _ = timeout(Duration::from_millis(pause), place.work.since(seen)).await;
                continue;
            }
            let (ids, records): (Vec<Name>, Vec<NewRecord>) =
                batch.into_iter().map(|entry| (entry.id, entry.record)).unzip();
            place.log.borrow_mut().appended(&records);
            // On an error those who wait for these are told with all others.
            self.append(place.at, &records).await?;
            let completions = place.durable(&ids, self.now());
            self.complete_all(place, completions);
        }
    }

    /// Says again in few records what the log says in many, then gives up the many. Nothing else is
    /// appended meanwhile. A crash in between leaves both, which say the same.
    async fn compact(&self, place: &Place) -> Result<(), String> {
        let bytes_max = self.append_bytes_max();
        place.log.borrow_mut().compacted(&[], true);
        let mut first = None;
        for records in parts(place.records(), bytes_max) {
            place.log.borrow_mut().compacted(&records, false);
            let base = self.append(place.at, &records).await?;
            first = first.or(Some(base));
        }
        // Without an id that lives nothing is worth keeping: all of it is known to be durable.
        let before = first.map_or(DeleteBefore::HighWatermark, DeleteBefore::Offset);
        let deletion = Deletion { at: place.at, before };
        let deleted = self.0.router.delete_before(vec![deletion], None).await;
        if let Some(Err(error)) = deleted.into_iter().next() {
            // The log keeps more than it needs, until the next time.
            log::warn("transactions", "the transactions topic could not give up old records")
                .field("partition", place.at)
                .field("reason", &error)
                .emit();
        }
        Ok(())
    }

    /// Appends records as one batch; the offset of the first.
    async fn append(&self, at: TopicPartition, records: &[NewRecord]) -> Result<Offset, String> {
        let now = self.now();
        let batch = compose(records, now);
        let append = Append { at, current: None, batch, transaction: None, now };
        match self.0.router.append(vec![append]).await.await.into_iter().next() {
            Some(Ok(appended)) => Ok(appended.base_offset),
            Some(Err(error)) => Err(error.to_string()),
            None => Err("an append was not answered".to_owned()),
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

/// What is looked at now and then, a step of each walk at a time. In milliseconds of the monotonic
/// clock.
struct Looks {
    next_abort_ms: u64,
    next_expiry_ms: u64,
    abort: Walk<(TimestampMs, Name)>,
    expiry: Walk<Name>,
}

impl Looks {
    fn new(coordinator: &Coordinator) -> Looks {
        let broker = &coordinator.0.metadata.get().broker;
        let now = coordinator.monotonic_ms();
        Looks {
            next_abort_ms: now + broker.transactions.abort_check_ms,
            next_expiry_ms: now + broker.transactions.id_check_ms,
            abort: Walk::Over,
            expiry: Walk::Over,
        }
    }

    fn next_ms(&self) -> u64 {
        self.next_abort_ms.min(self.next_expiry_ms)
    }

    fn are_walking(&self) -> bool {
        !self.abort.is_over() || !self.expiry.is_over()
    }

    fn look(&mut self, coordinator: &Coordinator, place: &Place) {
        let broker = coordinator.0.metadata.get().broker.clone();
        let (now, wall) = (coordinator.monotonic_ms(), coordinator.now());
        if now >= self.next_abort_ms {
            self.next_abort_ms = now + broker.transactions.abort_check_ms;
            self.abort = Walk::BEGIN;
        }
        if now >= self.next_expiry_ms {
            self.next_expiry_ms = now + broker.transactions.id_check_ms;
            self.expiry = Walk::BEGIN;
            let settings = coordinator.settings();
            place.with_ids(|ids| {
                ids.set(settings);
                None
            });
        }
        if !self.are_walking() {
            return;
        }
        place.with_ids(|ids| ids.abort_timed_out_step(&mut self.abort, wall));
        place.with_ids(|ids| ids.expire_step(&mut self.expiry, wall));
        if !place.is_active() {
            (self.abort, self.expiry) = (Walk::Over, Walk::Over);
        }
    }
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
