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
use super::loader;
use super::metrics::{TransactionCounts, TransactionLevels, TransactionTotals};
use super::partition::{Name, Settings, TransactionPartition};
use super::placement::TRANSACTIONS_TOPIC;
use crate::cluster::view::MetadataView;
use crate::coordinator::log_size::LogSize;
use crate::coordinator::shell::{self, Room, Shell};
use crate::coordinator::walk::Walk;
use crate::group::handle::Groups;
use crate::wire::ErrorCode;
use millstream_io::batch::NewRecord;
use millstream_io::clock::Clock;
use millstream_io::runtime::{Breather, Gate, Pool, Promise, log, timeout};
use millstream_io::units::{LeaderEpoch, TimestampMs, TopicPartition};
use millstream_shards::deletion::DeleteBefore;
use millstream_shards::event::Event;
use millstream_shards::router::Router;
use place::Place;
use std::rc::Rc;
use std::time::Duration;

/// Transactional ids of one core. Clones share it.
#[derive(Clone)]
pub struct Coordinator(Rc<Inner>);

struct Inner {
    shell: Shell<Place>,
    groups: Groups,
    /// Signalled when the coordinator stops.
    stop: Event,
    /// Around those who write markers.
    writers: Gate,
    counts: Rc<TransactionCounts>,
}

impl Coordinator {
    pub fn new(
        router: Router,
        metadata: MetadataView,
        groups: Groups,
        readers: Pool,
    ) -> Coordinator {
        let shell = Shell::new((router, metadata, readers), (TRANSACTIONS_TOPIC, "transactions"));
        let (stop, writers) = (Event::new(), Gate::new());
        Coordinator(Rc::new(Inner { shell, groups, stop, writers, counts: Rc::default() }))
    }

    /// Starts to load what this core owns and does not have yet, and ends what is gone. To be
    /// called at start and when the metadata changed.
    pub fn look_at_metadata(&self) {
        shell::look_at_metadata(self);
    }

    /// Asks a transactional id of a partition that this core owns.
    pub fn ask(&self, at: TopicPartition, id: &Name, ask: Ask) {
        match shell::find(self, at) {
            Some(place) => place.ask(id, ask, self.now()),
            None => ask.refuse(ErrorCode::NotCoordinator),
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
        for place in self.0.shell.places() {
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
        self.0.shell.spawn_list(async move {
            // Nobody may be waiting any more.
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
        self.0.shell.places().iter().for_each(|place| place.add_to(&mut levels));
        levels
    }

    /// Answers everybody who waits, so that connections can be closed, and takes no more. Markers
    /// that are not written yet are written after the next start.
    pub async fn stop(&self) {
        self.0.shell.stop().await;
        self.0.stop.signal();
        self.0.writers.close();
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
        self.0.shell.wall()
    }

    fn settings(&self) -> Settings {
        let broker = &self.0.shell.metadata.get().broker;
        Settings {
            timeout_ms_max: broker.transactions.timeout_ms_max,
            expiration_ms: broker.transactions.id_expiration_ms,
            record_bytes_max: self.0.shell.append_bytes_max(),
        }
    }

    /// Says again in few records what the log says in many, then gives up the many. Nothing else is
    /// appended meanwhile.
    async fn compact(&self, place: &Place) -> Result<(), String> {
        let (mut walk, mut records) = (Walk::BEGIN, Vec::new());
        let mut breather = Breather::new();
        while !walk.is_over() {
            records.extend(place.records_step(&mut walk));
            breather.after(0).await;
        }
        if !place.is_active() {
            // What was gathered is not all there is.
            return Ok(());
        }
        let first = self.0.shell.say_again(place.at, &place.log, records).await?;
        // Without an id that lives nothing is worth keeping: all of it is known to be durable.
        let before = first.map_or(DeleteBefore::HighWatermark, DeleteBefore::Offset);
        self.0.shell.give_up(place.at, before).await;
        Ok(())
    }
}

impl Room for Coordinator {
    type Place = Place;

    fn shell(&self) -> &Shell<Place> {
        &self.0.shell
    }

    fn place(&self, at: TopicPartition, epoch: LeaderEpoch) -> Place {
        Place::new(at, epoch)
    }

    async fn load(&self, place: &Rc<Place>) -> Result<(), String> {
        let shell = &self.0.shell;
        let begun = shell.clock.monotonic();
        let mut ids = TransactionPartition::new(self.settings());
        let replay = |record| ids.replay(record);
        let loaded = loader::load(&shell.router, &shell.readers, place.at, replay).await?;
        ids.count_in(self.0.counts.clone());
        let completions = ids.loaded();
        self.0.counts.loaded(shell.clock.monotonic().saturating_sub(begun));
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
        Ok(())
    }

    async fn serve(&self, place: &Rc<Place>) -> Result<(), String> {
        let shell = &self.0.shell;
        let mut looks = Looks::new(self);
        let mut breather = Breather::new();
        loop {
            let seen = place.work.seen();
            looks.look(self, place);
            if place.log.borrow().is_compaction_due() {
                self.compact(place).await?;
            }
            let batch = place.take_batch(shell.append_bytes_max());
            if !batch.is_empty() {
                let (ids, records): (Vec<Name>, Vec<NewRecord>) =
                    batch.into_iter().map(|entry| (entry.id, entry.record)).unzip();
                place.log.borrow_mut().appended(&records);
                // On an error those who wait for these are told with all others.
                shell.append(place.at, &records).await?;
                let completions = place.durable(&ids, self.now());
                self.complete_all(place, completions);
            } else if looks.are_walking() {
                breather.after(0).await;
            } else {
                let pause = looks.next_ms().saturating_sub(shell.monotonic_ms()).max(1);
                // Either something to do or a time that has come: the loop looks at both.
                let _ = timeout(Duration::from_millis(pause), place.work.since(seen)).await;
            }
        }
    }
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
        let broker = &coordinator.0.shell.metadata.get().broker;
        let now = coordinator.0.shell.monotonic_ms();
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
        let broker = coordinator.0.shell.metadata.get().broker.clone();
        let (now, wall) = (coordinator.0.shell.monotonic_ms(), coordinator.now());
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
