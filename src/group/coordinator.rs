//! The group coordinator of one core: the partitions of `__consumer_offsets` that the core owns,
//! each with its groups.
//!
//! A question is answered by the plain [`GroupPartition`]; what it wants stored waits in the
//! partition's queue. One task a partition takes all that waits, appends it as one batch, and when
//! that is durable lets the partition go on: at high load one flush serves many commits.

mod watch;

use super::ask::{Ask, Listed};
use super::classic::{Name, Now, Settings};
use super::consumer::{ConsumerSettings, MemberTimes};
use super::limits::{
    APPEND_BYTES_MAX, BATCH_OVERHEAD, LOAD_AGAIN_MS, QUEUED_BYTES_MAX, WAITING_FOR_LOAD_MAX,
};
use super::loader;
use super::log_size::LogSize;
use super::partition::{Entry, GroupPartition, GroupSettings, Then};
use super::placement::OFFSETS_TOPIC;
use crate::cluster::image::MetadataImage;
use crate::cluster::view::MetadataView;
use crate::wire::ErrorCode;
use millstream_io::batch::{NewRecord, compose};
use millstream_io::clock::{Clock, SystemClock};
use millstream_io::runtime::{Pool, Promise, Queue, Task, log, sleep, spawn, timeout};
use millstream_io::units::{Offset, TopicId, TopicPartition};
use millstream_shards::deletion::{DeleteBefore, Deletion};
use millstream_shards::event::Event;
use millstream_shards::message::Append;
use millstream_shards::router::Router;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

/// Groups of one core. Clones share it.
#[derive(Clone)]
pub struct Coordinator(Rc<Inner>);

struct Inner {
    router: Router,
    metadata: MetadataView,
    clock: SystemClock,
    readers: Pool,
    partitions: RefCell<HashMap<TopicPartition, (Rc<Place>, Task<()>)>>,
    stopping: Cell<bool>,
}

/// One partition with its groups.
struct Place {
    at: TopicPartition,
    state: RefCell<State>,
    log: RefCell<LogSize>,
    /// Something waits to be appended, or a deadline came nearer.
    work: Event,
}

enum State {
    /// Questions wait until the log is read.
    Loading(Vec<(Name, Ask)>),
    Active(Box<Active>),
    /// No answers from here any more.
    Ended,
}

struct Active {
    groups: GroupPartition,
    batch_bytes_max: usize,
    queue: Vec<Entry>,
    queued_bytes: usize,
}

impl Coordinator {
    pub fn new(router: Router, metadata: MetadataView, readers: Pool) -> Coordinator {
        Coordinator(Rc::new(Inner {
            router,
            metadata,
            clock: SystemClock::new(),
            readers,
            partitions: RefCell::default(),
            stopping: Cell::new(false),
        }))
    }

    /// Starts to load what this core owns and does not have yet, and ends what is gone. To be
    /// called at start and when the metadata changed.
    pub fn look_at_metadata(&self) {
        let image = self.0.metadata.get();
        let topic = image.topic_by_name(OFFSETS_TOPIC);
        let mut partitions = self.0.partitions.borrow_mut();
        let id = topic.map(|topic| topic.id);
        partitions.retain(|at, (place, _)| {
            let stays = Some(at.topic) == id;
            if !stays {
                place.end(ErrorCode::NotCoordinator);
            }
            stays
        });
        for (place, _) in partitions.values() {
            // Topics may be gone, or settings of groups.
            place.work.signal();
        }
        let own = self.0.router.shard();
        for at in topic.into_iter().flat_map(|topic| topic.all_partitions()) {
            if self.0.router.owner(at) == own && !partitions.contains_key(&at) {
                let place = Rc::new(Place {
                    at,
                    state: RefCell::new(State::Loading(Vec::new())),
                    log: RefCell::default(),
                    work: Event::new(),
                });
                let task = spawn(Queue::Serve, self.clone().run(place.clone()));
                partitions.insert(at, (place, task));
            }
        }
    }

    /// Asks a group of a partition that this core owns.
    pub fn ask(&self, at: TopicPartition, group: Name, ask: Ask) {
        if !self.0.partitions.borrow().contains_key(&at) {
            self.look_at_metadata();
        }
        let place = self.0.partitions.borrow().get(&at).map(|(place, _)| place.clone());
        match place {
            Some(place) if !self.0.stopping.get() => {
                let image = self.0.metadata.get();
                place.ask(group, ask, &image, self.now());
            }
            Some(_) | None => ask.refuse(ErrorCode::NotCoordinator),
        }
    }

    /// All groups of this core.
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS while one partition is not loaded.
    pub fn list(&self) -> Result<Vec<Listed>, ErrorCode> {
        self.look_at_metadata();
        let mut all = Vec::new();
        for (place, _) in self.0.partitions.borrow().values() {
            match &*place.state.borrow() {
                State::Active(active) => all.extend(active.groups.list()),
                State::Loading(_) => return Err(ErrorCode::CoordinatorLoadInProgress),
                State::Ended => {}
            }
        }
        Ok(all)
    }

    /// Answers everybody who waits, so that connections can be closed, and takes no more.
    pub async fn stop(&self) {
        self.0.stopping.set(true);
        let partitions = std::mem::take(&mut *self.0.partitions.borrow_mut());
        for (_, (place, task)) in partitions {
            place.end(ErrorCode::NotCoordinator);
            task.cancel().await;
        }
    }

    fn now(&self) -> Now {
        let ms = u64::try_from(self.0.clock.monotonic().as_millis()).unwrap_or(u64::MAX);
        Now { ms, wall: self.0.clock.wall() }
    }

    fn settings(&self) -> GroupSettings {
        let broker = &self.0.metadata.get().broker;
        let classic = Settings {
            session_ms_min: broker.group_session_ms_min,
            session_ms_max: broker.group_session_ms_max,
            initial_delay_ms: broker.group_initial_delay_ms,
            size_max: usize::try_from(broker.group_size_max).unwrap_or(usize::MAX),
            record_bytes_max: self.append_bytes_max(),
            ..Settings::default()
        };
        let consumer = ConsumerSettings {
            times: MemberTimes {
                session_timeout_ms: broker.consumer_session_ms.value,
                heartbeat_interval_ms: broker.consumer_heartbeat_ms.value,
            },
            members_max: usize::try_from(broker.consumer_group_size_max).unwrap_or(usize::MAX),
            migration: broker.consumer_migration,
            classic_members_max: classic.size_max,
            ..ConsumerSettings::default()
        };
        GroupSettings { classic, consumer }
    }

    /// The largest batch of records that the topic takes.
    fn append_bytes_max(&self) -> usize {
        let image = self.0.metadata.get();
        let topic = image.topic_by_name(OFFSETS_TOPIC);
        let message = topic.map_or(0, |topic| topic.config.max_message_bytes);
        let message = usize::try_from(message).unwrap_or(usize::MAX);
        message.saturating_sub(BATCH_OVERHEAD).min(APPEND_BYTES_MAX)
    }

    /// The life of one partition.
    async fn run(self, place: Rc<Place>) {
        loop {
            self.load(&place).await;
            if let Err(reason) = self.serve(&place).await {
                log::error("groups", "a partition of the offsets topic is loaded again")
                    .field("partition", place.at)
                    .field("reason", &reason)
                    .emit();
                place.begin_again();
                sleep(Duration::from_millis(LOAD_AGAIN_MS)).await;
            }
        }
    }

    async fn load(&self, place: &Place) {
        loop {
            let mut groups = GroupPartition::new(self.settings(), self.append_bytes_max());
            let now = self.now();
            let replay = |record| groups.replay(record, now);
            match loader::load(&self.0.router, &self.0.readers, place.at, replay).await {
                Ok(loaded) => {
                    groups.set_configs(self.0.metadata.get().group_configs());
                    groups.loaded(self.now());
                    *place.log.borrow_mut() = LogSize::loaded(loaded.bytes);
                    if loaded.records > 0 {
                        log::info("groups", "loaded a partition of the offsets topic")
                            .field("partition", place.at)
                            .field("groups", groups.len())
                            .field("records", loaded.records)
                            .field("unreadable", loaded.unreadable)
                            .emit();
                    }
                    let image = self.0.metadata.get();
                    place.activate(groups, self.append_bytes_max(), &image, self.now());
                    return;
                }
                Err(reason) => {
                    log::warn("groups", "a partition of the offsets topic cannot be loaded yet")
                        .field("partition", place.at)
                        .field("reason", &reason)
                        .emit();
                    sleep(Duration::from_millis(LOAD_AGAIN_MS)).await;
                }
            }
        }
    }

    /// Appends what waits and does what is due, until an append fails.
    async fn serve(&self, place: &Place) -> Result<(), String> {
        let mut looks = Looks::new(self);
        loop {
            let seen = place.work.seen();
            let now = self.now();
            place.tick(&self.0.metadata.get(), now);
            looks.look(self, place, now);
            if place.log.borrow().is_compaction_due() {
                self.compact(place).await?;
            }
            let Some(batch) = place.take_batch() else {
                let until = place.next_deadline().unwrap_or(u64::MAX).min(looks.next_expiry_ms);
                let pause = Duration::from_millis(until.saturating_sub(now.ms).max(1));
                // Either something to do or a time that has come: the loop looks at both.
                let _ = timeout(pause, place.work.since(seen)).await;
                continue;
            };
            let Entry { records, then } = batch;
            place.log.borrow_mut().appended(&records);
            match self.append(place.at, &records).await {
                Ok(_) => place.durable(then, self.now()),
                Err(reason) => {
                    place.give_back(then);
                    return Err(reason);
                }
            }
        }
    }

    /// Says again in few records what the log says in many, then gives up the many. Nothing else is
    /// appended meanwhile. A crash in between leaves both, which say the same.
    async fn compact(&self, place: &Place) -> Result<(), String> {
        let mut all = Entry::default();
        place.with_groups(|groups| {
            all.records = groups.records();
            None
        });
        let mut first = None;
        for Entry { records, .. } in all.split(self.append_bytes_max()) {
            place.log.borrow_mut().compacted(&records, first.is_none());
            let base = self.append(place.at, &records).await?;
            first = first.or(base);
        }
        let Some(first) = first else { return Ok(()) };
        let deletion = Deletion { at: place.at, before: DeleteBefore::Offset(first) };
        match self.0.router.delete_before(vec![deletion], None).await.into_iter().next() {
            Some(Ok(_)) => {}
            // The log keeps more than it needs, until the next time.
            Some(Err(error)) => {
                log::warn("groups", "the offsets topic could not give up old records")
                    .field("partition", place.at)
                    .field("reason", &error)
                    .emit();
            }
            None => {}
        }
        Ok(())
    }

    /// Appends records as one batch; the offset of the first, when there is one.
    async fn append(
        &self,
        at: TopicPartition,
        records: &[NewRecord],
    ) -> Result<Option<Offset>, String> {
        if records.is_empty() {
            return Ok(None);
        }
        let now = self.0.clock.wall();
        let append =
            Append { at, current: None, batch: compose(records, now), transaction: None, now };
        match self.0.router.append(vec![append]).await.await.into_iter().next() {
            Some(Ok(appended)) => Ok(Some(appended.base_offset)),
            Some(Err(error)) => Err(error.to_string()),
            None => Err("an append was not answered".to_owned()),
        }
    }
}

/// What is looked at now and then.
struct Looks {
    next_expiry_ms: u64,
    topics_removed: u64,
}

impl Looks {
    fn new(coordinator: &Coordinator) -> Looks {
        // Right after the load: topics may have gone while nobody looked.
        let now = coordinator.now().ms;
        Looks { next_expiry_ms: now, topics_removed: u64::MAX }
    }

    fn look(&mut self, coordinator: &Coordinator, place: &Place, now: Now) {
        let image = coordinator.0.metadata.get();
        if image.topics_removed() != self.topics_removed {
            self.topics_removed = image.topics_removed();
            let none = TopicId::from_bytes([0; 16]);
            let is_there = |name: &str, id: TopicId| {
                image.topic_by_name(name).is_some_and(|topic| id == none || topic.id == id)
            };
            place.with_groups(|groups| groups.topics_gone(is_there, now));
        }
        if now.ms >= self.next_expiry_ms {
            self.next_expiry_ms = now.ms + image.broker.offsets_check_ms;
            let retention = image.broker.offsets_retention_ms;
            place.with_groups(|groups| groups.expire(retention, now));
        }
    }
}

impl Place {
    fn ask(&self, group: Name, ask: Ask, image: &MetadataImage, now: Now) {
        match &mut *self.state.borrow_mut() {
            State::Active(active) if active.queued_bytes > QUEUED_BYTES_MAX => {
                ask.refuse(ErrorCode::CoordinatorNotAvailable);
            }
            State::Active(active) => {
                active.groups.set_configs(image.group_configs());
                let entry = active.groups.ask(&group, ask, image, now);
                active.queue(entry);
            }
            State::Loading(waiting) if waiting.len() < WAITING_FOR_LOAD_MAX => {
                waiting.push((group, ask));
                return;
            }
            State::Loading(_) => ask.refuse(ErrorCode::CoordinatorLoadInProgress),
            State::Ended => ask.refuse(ErrorCode::NotCoordinator),
        }
        self.work.signal();
    }

    fn activate(
        &self,
        groups: GroupPartition,
        batch_bytes_max: usize,
        image: &MetadataImage,
        now: Now,
    ) {
        let active = Active { groups, batch_bytes_max, queue: Vec::new(), queued_bytes: 0 };
        let before = self.state.replace(State::Active(Box::new(active)));
        if let State::Loading(waiting) = before {
            for (group, ask) in waiting {
                self.ask(group, ask, image, now);
            }
        }
    }

    /// The log does not hold what was said: everybody who waits is told, and all is read again.
    fn begin_again(&self) {
        self.leave(State::Loading(Vec::new()), ErrorCode::NotCoordinator);
    }

    fn end(&self, error: ErrorCode) {
        self.leave(State::Ended, error);
    }

    fn leave(&self, for_state: State, error: ErrorCode) {
        match self.state.replace(for_state) {
            State::Active(mut active) => active.groups.abandon(active.queue, error),
            State::Loading(waiting) => waiting.into_iter().for_each(|(_, ask)| ask.refuse(error)),
            State::Ended => {}
        }
    }

    fn with_groups<I: IntoIterator<Item = Entry>>(
        &self,
        call: impl FnOnce(&mut GroupPartition) -> I,
    ) {
        if let State::Active(active) = &mut *self.state.borrow_mut() {
            let entries = call(&mut active.groups);
            active.queue(entries);
        }
    }

    fn tick(&self, image: &MetadataImage, now: Now) {
        self.with_groups(|groups| {
            groups.set_configs(image.group_configs());
            groups.tick(image, now)
        });
    }

    fn next_deadline(&self) -> Option<u64> {
        match &*self.state.borrow() {
            State::Active(active) => active.groups.next_deadline(),
            State::Loading(_) | State::Ended => None,
        }
    }

    /// What goes into the next batch: as many entries as fit, in one.
    fn take_batch(&self) -> Option<Entry> {
        let State::Active(active) = &mut *self.state.borrow_mut() else { return None };
        if active.queue.is_empty() {
            return None;
        }
        let mut bytes = 0;
        let fit = active.queue.iter().take_while(|entry| {
            bytes += entry.bytes();
            bytes <= active.batch_bytes_max
        });
        let count = fit.count().max(1);
        let mut batch = Entry::default();
        for entry in active.queue.drain(..count) {
            active.queued_bytes -= entry.bytes();
            batch.records.extend(entry.records);
            batch.then.extend(entry.then);
        }
        Some(batch)
    }

    fn durable(&self, then: Vec<Then>, now: Now) {
        self.with_groups(|groups| {
            then.into_iter().filter_map(|then| groups.durable(then, now)).collect::<Vec<_>>()
        });
    }

    /// The log does not hold a batch: its askers are told with all others.
    fn give_back(&self, then: Vec<Then>) {
        if let State::Active(active) = &mut *self.state.borrow_mut() {
            active.queue.insert(0, Entry { records: Vec::new(), then });
        }
    }
}

impl Active {
    fn queue(&mut self, entries: impl IntoIterator<Item = Entry>) {
        for entry in entries {
            for part in entry.split(self.batch_bytes_max) {
                self.queued_bytes += part.bytes();
                self.queue.push(part);
            }
        }
    }
}

/// Answers a list of all groups of this core.
pub fn answer_list(coordinator: &Coordinator, reply: Promise<Result<Vec<Listed>, ErrorCode>>) {
    // Nobody may be waiting any more.
    let _ = reply.send(coordinator.list());
}
