//! One partition of `__consumer_offsets` with its groups and what waits to be written.

use super::round::Round;
use crate::cluster::image::MetadataImage;
use crate::coordinator::limits::QUEUED_BYTES_MAX;
use crate::coordinator::log_size::LogSize;
use crate::coordinator::shell;
use crate::group::ask::{Ask, EndError, Ending, Listed};
use crate::group::classic::{Name, Now};
use crate::group::limits::WAITING_FOR_LOAD_MAX;
use crate::group::partition::{Content, Entry, GroupPartition, Then};
use crate::wire::ErrorCode;
use millstream_io::runtime::Promise;
use millstream_io::units::{Offset, TopicPartition};
use millstream_shards::event::Event;
use millstream_shards::message::AppendError;
use std::cell::RefCell;

/// One partition with its groups.
pub(crate) struct Place {
    pub at: TopicPartition,
    pub(super) state: RefCell<State>,
    pub log: RefCell<LogSize>,
    /// Something waits to be appended, or a deadline came nearer.
    pub work: Event,
}

pub(super) enum State {
    /// Questions and ends of transactions wait until the log is read.
    Loading(Vec<Waiting>),
    Active(Box<Active>),
    /// No answers from here any more.
    Ended,
}

/// What waits for a partition to be loaded.
pub(super) enum Waiting {
    Ask(Name, Ask),
    End(Ending, Promise<Result<(), EndError>>),
}

impl Waiting {
    pub(super) fn refuse(self, error: ErrorCode) {
        match self {
            Waiting::Ask(_, ask) => ask.refuse(error),
            Waiting::End(_, reply) => {
                let _ = reply.send(Err(EndError::NotReady));
            }
        }
    }
}

pub(super) struct Active {
    pub groups: GroupPartition,
    batch_bytes_max: usize,
    queue: Vec<Entry>,
    queued_bytes: usize,
}

impl Place {
    /// One whose log is to be read.
    pub(super) fn new(at: TopicPartition) -> Place {
        Place {
            at,
            state: RefCell::new(State::Loading(Vec::new())),
            log: RefCell::default(),
            work: Event::new(),
        }
    }

    pub(super) fn take(&self, what: Waiting, image: &MetadataImage, now: Now) {
        match &mut *self.state.borrow_mut() {
            State::Active(active) if active.queued_bytes > QUEUED_BYTES_MAX => {
                what.refuse(ErrorCode::CoordinatorNotAvailable);
            }
            State::Active(active) => active.take(what, image, now),
            State::Loading(waiting) if waiting.len() < WAITING_FOR_LOAD_MAX => {
                waiting.push(what);
                return;
            }
            State::Loading(_) => what.refuse(ErrorCode::CoordinatorLoadInProgress),
            State::Ended => what.refuse(ErrorCode::NotCoordinator),
        }
        self.work.signal();
    }

    pub(super) fn activate(
        &self,
        groups: GroupPartition,
        batch_bytes_max: usize,
        image: &MetadataImage,
        now: Now,
    ) {
        let active = Active { groups, batch_bytes_max, queue: Vec::new(), queued_bytes: 0 };
        let before = self.state.replace(State::Active(Box::new(active)));
        if let State::Loading(waiting) = before {
            for what in waiting {
                self.take(what, image, now);
            }
        }
    }

    fn leave(&self, for_state: State, error: ErrorCode) {
        match self.state.replace(for_state) {
            State::Active(mut active) => active.groups.abandon(active.queue, error),
            State::Loading(waiting) => waiting.into_iter().for_each(|what| what.refuse(error)),
            State::Ended => {}
        }
    }

    pub(super) fn with_groups<I: IntoIterator<Item = Entry>>(
        &self,
        call: impl FnOnce(&mut GroupPartition) -> I,
    ) {
        if let State::Active(active) = &mut *self.state.borrow_mut() {
            let entries = call(&mut active.groups);
            active.queue(entries);
        }
    }

    /// At most so many as one step lists, those behind `last`.
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS.
    pub(super) fn listed_after(&self, last: Option<&Name>) -> Result<Vec<Listed>, ErrorCode> {
        match &*self.state.borrow() {
            State::Active(active) => Ok(active.groups.listed_after(last)),
            State::Loading(_) => Err(ErrorCode::CoordinatorLoadInProgress),
            State::Ended => Ok(Vec::new()),
        }
    }

    pub(super) fn is_active(&self) -> bool {
        matches!(*self.state.borrow(), State::Active(_))
    }

    pub(super) fn tick(&self, image: &MetadataImage, now: Now) {
        self.with_groups(|groups| {
            groups.set_configs(image.group_configs());
            groups.tick(image, now)
        });
    }

    pub(super) fn next_deadline(&self) -> Option<u64> {
        match &*self.state.borrow() {
            State::Active(active) => active.groups.next_deadline(),
            State::Loading(_) | State::Ended => None,
        }
    }

    pub(super) fn next_round(&self) -> Round {
        let State::Active(active) = &mut *self.state.borrow_mut() else { return Round::default() };
        let round = Round::next(&mut active.queue, active.batch_bytes_max);
        active.queued_bytes -= round.bytes();
        round
    }

    /// These are written now.
    pub(super) fn grown(&self, entries: &[Entry]) {
        let mut log = self.log.borrow_mut();
        for entry in entries {
            match entry.content {
                Content::Marker(_) => log.marked(entry.bytes()),
                Content::Plain | Content::Transactional(_) => log.appended(&entry.records),
            }
        }
    }

    pub(super) fn durable(&self, then: Vec<Then>, at: Offset, now: Now) {
        self.with_groups(|groups| {
            then.into_iter().filter_map(|then| groups.durable(then, at, now)).collect::<Vec<_>>()
        });
    }

    /// The log goes on without a batch or a marker.
    pub(super) fn refused(&self, then: Vec<Then>, code: ErrorCode, cause: &AppendError) {
        self.with_groups(|groups| {
            then.into_iter().for_each(|then| groups.refused(then, code, cause));
            None
        });
    }

    /// The log may not hold these: their askers are told with all others.
    pub(super) fn give_back(&self, entries: impl Iterator<Item = Entry>) {
        if let State::Active(active) = &mut *self.state.borrow_mut() {
            active.queue.splice(0..0, entries);
        }
    }
}

impl shell::Place for Place {
    fn at(&self) -> TopicPartition {
        self.at
    }

    /// Topics may be gone, or settings of groups.
    fn look(&self) {
        self.work.signal();
    }

    fn begin_again(&self) {
        self.leave(State::Loading(Vec::new()), ErrorCode::NotCoordinator);
    }

    fn end(&self, error: ErrorCode) {
        self.leave(State::Ended, error);
    }
}

impl Active {
    fn take(&mut self, what: Waiting, image: &MetadataImage, now: Now) {
        let entry = match what {
            Waiting::Ask(group, ask) => {
                self.groups.set_configs(image.group_configs());
                self.groups.ask(&group, ask, image, now)
            }
            Waiting::End(ending, reply) => Some(self.groups.end_transaction(ending, reply)),
        };
        self.queue(entry);
    }

    fn queue(&mut self, entries: impl IntoIterator<Item = Entry>) {
        for entry in entries {
            for part in entry.split(self.batch_bytes_max) {
                self.queued_bytes += part.bytes();
                self.queue.push(part);
            }
        }
    }
}
