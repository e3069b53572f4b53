//! The group coordinator of one core: the partitions of `__consumer_offsets` that the core owns,
//! each with its groups.
//!
//! A question is answered by the plain [`GroupPartition`]; what it wants stored waits in the
//! partition's queue. One task a partition takes all that waits, appends it as one batch, and when
//! that is durable lets the partition go on: at high load one flush serves many commits.

mod place;
mod round;
mod watch;

use super::ask::{Ask, EndError, Ending, InTransaction, Listed};
use super::classic::{Name, Now, Settings};
use super::consumer::{ConsumerSettings, MemberTimes};
use super::loader;
use super::metrics::{GroupCounts, GroupTotals};
use super::partition::{Content, Entry, GroupPartition, GroupSettings};
use super::placement::OFFSETS_TOPIC;
use crate::cluster::view::MetadataView;
use crate::coordinator::log_size::LogSize;
use crate::coordinator::shell::{self, Room, Shell};
use crate::coordinator::walk::Walk;
use crate::wire::ErrorCode;
use futures_lite::future::zip;
use millstream_io::batch::{compose, compose_transactional};
use millstream_io::clock::Clock;
use millstream_io::runtime::{Breather, Pool, Promise, log, timeout};
use millstream_io::units::{LeaderEpoch, Offset, TimestampMs, TopicId, TopicPartition};
use millstream_shards::deletion::DeleteBefore;
use millstream_shards::message::{Append, AppendError, Marker};
use millstream_shards::router::Router;
use place::{Place, Waiting};
use round::Round;
use std::rc::Rc;
use std::time::Duration;

/// Groups of one core. Clones share it.
#[derive(Clone)]
pub struct Coordinator(Rc<Inner>);

struct Inner {
    shell: Shell<Place>,
    counts: Rc<GroupCounts>,
}

impl Coordinator {
    pub fn new(router: Router, metadata: MetadataView, readers: Pool) -> Coordinator {
        let shell = Shell::new((router, metadata, readers), (OFFSETS_TOPIC, "groups"));
        Coordinator(Rc::new(Inner { shell, counts: Rc::default() }))
    }

    /// Starts to load what this core owns and does not have yet, and ends what is gone. To be
    /// called at start and when the metadata changed.
    pub fn look_at_metadata(&self) {
        shell::look_at_metadata(self);
    }

    /// Asks a group of a partition that this core owns.
    pub fn ask(&self, at: TopicPartition, group: Name, ask: Ask) {
        self.take(at, Waiting::Ask(group, ask));
    }

    /// Ends a producer's transaction in a partition that this core owns.
    pub fn end_transaction(
        &self,
        at: TopicPartition,
        ending: Ending,
        reply: Promise<Result<(), EndError>>,
    ) {
        self.take(at, Waiting::End(ending, reply));
    }

    fn take(&self, at: TopicPartition, what: Waiting) {
        match shell::find(self, at) {
            Some(place) => place.take(what, &self.0.shell.metadata.get(), self.now()),
            None => what.refuse(ErrorCode::NotCoordinator),
        }
    }

    /// All groups of this core, gathered in steps of at most
    /// [`NAMES_AT_ONCE`](super::metrics::NAMES_AT_ONCE).
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS while one partition is not loaded.
    pub async fn list(&self) -> Result<Vec<Listed>, ErrorCode> {
        self.look_at_metadata();
        let mut breather = Breather::new();
        let mut all = Vec::new();
        for place in self.0.shell.places() {
            let mut last = None;
            loop {
                let piece = place.listed_after(last.as_ref())?;
                let Some(end) = piece.last() else { break };
                last = Some(end.group.clone());
                all.extend(piece);
                breather.after(0).await;
            }
        }
        Ok(all)
    }

    /// Answers another core with [`Coordinator::list`].
    pub fn answer_list(&self, reply: Promise<Result<Vec<Listed>, ErrorCode>>) {
        let coordinator = self.clone();
        self.0.shell.spawn_list(async move {
            // Nobody may be waiting any more.
            let _ = reply.send(coordinator.list().await);
        });
    }

    /// What the groups of this core have done since its start.
    pub fn totals(&self) -> GroupTotals {
        self.0.counts.get()
    }

    /// Answers everybody who waits, so that connections can be closed, and takes no more.
    pub async fn stop(&self) {
        self.0.shell.stop().await;
    }

    fn now(&self) -> Now {
        Now { ms: self.0.shell.monotonic_ms(), wall: self.0.shell.wall() }
    }

    fn settings(&self) -> GroupSettings {
        let broker = &self.0.shell.metadata.get().broker;
        let classic = Settings {
            session_ms_min: broker.group_session_ms_min,
            session_ms_max: broker.group_session_ms_max,
            initial_delay_ms: broker.group_initial_delay_ms,
            size_max: usize::try_from(broker.group_size_max).unwrap_or(usize::MAX),
            record_bytes_max: self.0.shell.append_bytes_max(),
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

    /// Writes a round, and lets what hangs on it follow.
    async fn write(&self, place: &Place, round: Round) -> Result<(), String> {
        let Round { batches, markers } = round;
        let now = self.0.shell.wall();
        let written = batches.iter().filter(|entry| !entry.records.is_empty());
        let appends = written.map(|entry| batch(place.at, entry, now)).collect();
        let endings = markers.iter().map(|(ending, _)| marker(place.at, ending, now)).collect();
        let entries: Vec<Entry> =
            batches.into_iter().chain(markers.into_iter().map(|(_, entry)| entry)).collect();
        place.grown(&entries);
        // Once it has given the ticket the partition takes nothing in front of these batches.
        let ticket = self.0.shell.router.append(appends).await;
        let (appended, marked) = zip(ticket, self.0.shell.router.write_markers(endings)).await;
        let mut places = appended.into_iter().map(|done| done.map(|done| done.base_offset));
        let mut marked = marked.into_iter();
        let mut entries = entries.into_iter();
        while let Some(entry) = entries.next() {
            let done = match entry.content {
                Content::Marker(_) => marked.next(),
                _ if entry.records.is_empty() => Some(Ok(Offset::ZERO)),
                _ => places.next(),
            };
            match done {
                Some(Ok(at)) => place.durable(entry.then, at, self.now()),
                Some(Err(error)) => match refusal(&entry.content, &error) {
                    Some(code) => place.refused(entry.then, code, &error),
                    None => {
                        place.give_back(std::iter::once(entry).chain(entries));
                        return Err(error.to_string());
                    }
                },
                None => {
                    place.give_back(std::iter::once(entry).chain(entries));
                    return Err("an append was not answered".to_owned());
                }
            }
        }
        Ok(())
    }

    /// Says again in few records what the log says in many, then gives up the many. Nothing else is
    /// written meanwhile. What transactions hold stays where it is.
    async fn compact(&self, place: &Place) -> Result<(), String> {
        let (mut walk, mut records) = (Walk::BEGIN, Vec::new());
        let mut breather = Breather::new();
        while !walk.is_over() && place.is_active() {
            place.with_groups(|groups| {
                records.extend(groups.records_step(&mut walk));
                None
            });
            breather.after(0).await;
        }
        let first = self.0.shell.say_again(place.at, &place.log, records).await?;
        let mut before = None;
        place.with_groups(|groups| {
            if let Some(first) = first {
                groups.written_again(first);
                before = Some(groups.first_to_keep().map_or(first, |kept| kept.min(first)));
            }
            None
        });
        // Without the groups nobody knows what must stay.
        if let Some(before) = before {
            self.0.shell.give_up(place.at, DeleteBefore::Offset(before)).await;
        }
        Ok(())
    }
}

impl Room for Coordinator {
    type Place = Place;

    fn shell(&self) -> &Shell<Place> {
        &self.0.shell
    }

    fn place(&self, at: TopicPartition, _: LeaderEpoch) -> Place {
        Place::new(at)
    }

    async fn load(&self, place: &Rc<Place>) -> Result<(), String> {
        let shell = &self.0.shell;
        let (now, begun) = (self.now(), shell.clock.monotonic());
        let mut groups = GroupPartition::new(self.settings(), shell.append_bytes_max());
        let replay = |read, at| groups.replay(read, at, now);
        let loaded = loader::load(&shell.router, &shell.readers, place.at, replay).await?;
        let image = shell.metadata.get();
        groups.set_configs(image.group_configs());
        groups.count_in(self.0.counts.clone());
        groups.loaded(self.now());
        self.0.counts.loaded(shell.clock.monotonic().saturating_sub(begun));
        *place.log.borrow_mut() = LogSize::loaded(loaded.bytes);
        if loaded.records > 0 {
            log::info("groups", "loaded a partition of the offsets topic")
                .field("partition", place.at)
                .field("groups", groups.len())
                .field("records", loaded.records)
                .field("unreadable", loaded.unreadable)
                .emit();
        }
        place.activate(groups, shell.append_bytes_max(), &image, self.now());
        Ok(())
    }

    async fn serve(&self, place: &Rc<Place>) -> Result<(), String> {
        let mut looks = Looks::new(self);
        let mut breather = Breather::new();
        loop {
            let seen = place.work.seen();
            let now = self.now();
            place.tick(&self.0.shell.metadata.get(), now);
            looks.look(self, place, now);
            if place.log.borrow().is_compaction_due() {
                self.compact(place).await?;
            }
            let round = place.next_round();
            if !round.is_empty() {
                self.write(place, round).await?;
            } else if looks.are_walking() {
                breather.after(0).await;
            } else {
                let until = place.next_deadline().unwrap_or(u64::MAX).min(looks.next_expiry_ms);
                let pause = Duration::from_millis(until.saturating_sub(now.ms).max(1));
                // Either something to do or a time that has come: the loop looks at both.
                let _ = timeout(pause, place.work.since(seen)).await;
            }
        }
    }
}

fn batch(at: TopicPartition, entry: &Entry, now: TimestampMs) -> Append {
    let batch = match entry.transaction() {
        Some(InTransaction { producer, epoch }) => {
            compose_transactional(&entry.records, now, (producer, epoch))
        }
        None => compose(&entry.records, now),
    };
    Append { at, current: None, batch, transaction: None, now }
}

fn marker(at: TopicPartition, ending: &Ending, now: TimestampMs) -> Marker {
    let Ending { producer, epoch, outcome, coordinator_epoch, transaction_version } = *ending;
    Marker { at, producer, epoch, outcome, coordinator_epoch, transaction_version, now }
}

/// What the asker is told when its batch or marker is not taken for what it says. `None` when the
/// log fails, and with it all that waits.
fn refusal(content: &Content, error: &AppendError) -> Option<ErrorCode> {
    match (content, error) {
        (Content::Plain, _) => None,
        (_, AppendError::InvalidProducerEpoch { .. }) => Some(ErrorCode::InvalidProducerEpoch),
        (_, AppendError::InvalidTxnState { .. }) => Some(ErrorCode::InvalidTxnState),
        (_, AppendError::TransactionCoordinatorFenced { .. }) => {
            Some(ErrorCode::TransactionCoordinatorFenced)
        }
        (_, AppendError::TooManyTransactions { .. }) => Some(ErrorCode::CoordinatorNotAvailable),
        (_, _) => None,
    }
}

/// What is looked at now and then, a step of each walk at a time.
struct Looks {
    next_expiry_ms: u64,
    topics_removed: u64,
    /// For offsets that may have expired, and for those of topics that are gone.
    expiry: Walk<Name>,
    removal: Walk<Name>,
}

impl Looks {
    fn new(coordinator: &Coordinator) -> Looks {
        // Right after the load: topics may have gone while nobody looked.
        let now = coordinator.now().ms;
        let (expiry, removal) = (Walk::Over, Walk::Over);
        Looks { next_expiry_ms: now, topics_removed: u64::MAX, expiry, removal }
    }

    fn are_walking(&self) -> bool {
        !self.expiry.is_over() || !self.removal.is_over()
    }

    fn look(&mut self, coordinator: &Coordinator, place: &Place, now: Now) {
        let image = coordinator.0.shell.metadata.get();
        if image.topics_removed() != self.topics_removed {
            self.topics_removed = image.topics_removed();
            self.removal = Walk::BEGIN;
        }
        if now.ms >= self.next_expiry_ms {
            self.next_expiry_ms = now.ms + image.broker.offsets_check_ms;
            self.expiry = Walk::BEGIN;
        }
        if !self.are_walking() {
            return;
        }
        let none = TopicId::from_bytes([0; 16]);
        let is_there = |name: &str, id: TopicId| {
            image.topic_by_name(name).is_some_and(|topic| id == none || topic.id == id)
        };
        place.with_groups(|groups| groups.topics_gone_step(&mut self.removal, is_there, now));
        let retention = image.broker.offsets_retention_ms;
        place.with_groups(|groups| groups.expire_step(&mut self.expiry, retention, now));
        if !place.is_active() {
            (self.expiry, self.removal) = (Walk::Over, Walk::Over);
        }
    }
}
