//! One partition of `__transaction_state` as its task and its askers see it.

use crate::coordinator::limits::QUEUED_BYTES_MAX;
use crate::coordinator::log_size::LogSize;
use crate::coordinator::shell;
use crate::coordinator::walk::Walk;
use crate::txn::ask::{Ask, Filter, Listed};
use crate::txn::metrics::TransactionLevels;
use crate::txn::partition::{Completion, Entry, Name, TransactionPartition};
use crate::wire::ErrorCode;
use millstream_io::batch::NewRecord;
use millstream_io::units::{LeaderEpoch, TimestampMs, TopicPartition, bytes_u64};
use millstream_shards::event::Event;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

/// One partition with its transactional ids.
pub struct Place {
    pub at: TopicPartition,
    /// The coordinator's epoch, which markers carry: the partition's leader epoch.
    pub epoch: LeaderEpoch,
    pub log: RefCell<LogSize>,
    /// Something waits to be appended.
    pub work: Event,
    state: RefCell<State>,
    /// Rises with each load: what was begun before counts no more.
    era: Cell<u64>,
    /// Transactions that wait for their markers, and how many are at work on them.
    completing: RefCell<VecDeque<(u64, Completion)>>,
    pub writers: Cell<usize>,
}

enum State {
    /// The log is being read. Nobody waits here: clients come again.
    Loading,
    Active(Box<Active>),
    /// No answers from here any more.
    Ended,
}

struct Active {
    ids: TransactionPartition,
    queue: VecDeque<Entry>,
    queued_bytes: usize,
}

impl Active {
    fn queue(&mut self, entries: impl IntoIterator<Item = Entry>) {
        for entry in entries {
            self.queued_bytes += entry.record.bytes_max();
            self.queue.push_back(entry);
        }
    }
}

impl Place {
    pub fn new(at: TopicPartition, epoch: LeaderEpoch) -> Place {
        Place {
            at,
            epoch,
            log: RefCell::default(),
            work: Event::new(),
            state: RefCell::new(State::Loading),
            era: Cell::new(0),
            completing: RefCell::default(),
            writers: Cell::new(0),
        }
    }

    pub fn ask(&self, id: &Name, ask: Ask, now: TimestampMs) {
        match &mut *self.state.borrow_mut() {
            State::Active(active) if active.queued_bytes > QUEUED_BYTES_MAX => {
                ask.refuse(ErrorCode::CoordinatorNotAvailable);
            }
            State::Active(active) => {
                let entry = active.ids.ask(id, ask, now);
                if entry.is_some() {
                    active.queue(entry);
                    self.work.signal();
                }
            }
            State::Loading => ask.refuse(ErrorCode::CoordinatorLoadInProgress),
            State::Ended => ask.refuse(ErrorCode::NotCoordinator),
        }
    }

    /// One step of a list.
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS.
    pub fn list_step(
        &self,
        walk: &mut Walk<Name>,
        filter: &Filter,
        now: TimestampMs,
    ) -> Result<Vec<Listed>, ErrorCode> {
        match &*self.state.borrow() {
            State::Active(active) => Ok(active.ids.list_step(walk, filter, now)),
            State::Loading => Err(ErrorCode::CoordinatorLoadInProgress),
            State::Ended => {
                *walk = Walk::Over;
                Ok(Vec::new())
            }
        }
    }

    /// Adds what is here to what a core has.
    pub fn add_to(&self, levels: &mut TransactionLevels) {
        match &*self.state.borrow() {
            State::Active(active) => levels.add(active.ids.tally()),
            State::Loading => levels.loading += 1,
            State::Ended => {}
        }
        levels.completing += bytes_u64(self.completing.borrow().len() + self.writers.get());
    }

    pub fn activate(&self, ids: TransactionPartition) {
        let active = Active { ids, queue: VecDeque::new(), queued_bytes: 0 };
        let mut state = self.state.borrow_mut();
        if let State::Loading = *state {
            *state = State::Active(Box::new(active));
            self.era.set(self.era.get() + 1);
        }
    }

    fn leave(&self, for_state: State, error: ErrorCode) {
        self.era.set(self.era.get() + 1);
        self.completing.borrow_mut().clear();
        if let State::Active(mut active) = self.state.replace(for_state) {
            active.ids.abandon(error);
        }
    }

    /// What the ids want stored is queued.
    pub fn with_ids<I: IntoIterator<Item = Entry>>(
        &self,
        call: impl FnOnce(&mut TransactionPartition) -> I,
    ) {
        if let State::Active(active) = &mut *self.state.borrow_mut() {
            let entries = call(&mut active.ids);
            active.queue(entries);
        }
    }

    pub fn is_active(&self) -> bool {
        matches!(*self.state.borrow(), State::Active(_))
    }

    /// What the log says, in as few records as can be: one step.
    pub fn records_step(&self, walk: &mut Walk<Name>) -> Vec<NewRecord> {
        match &*self.state.borrow() {
            State::Active(active) => active.ids.records_step(walk),
            State::Loading | State::Ended => {
                *walk = Walk::Over;
                Vec::new()
            }
        }
    }

    /// What goes into the next batch: as many records as fit.
    pub fn take_batch(&self, bytes_max: usize) -> Vec<Entry> {
        let mut batch = Vec::new();
        if let State::Active(active) = &mut *self.state.borrow_mut() {
            let mut bytes = 0;
            while let Some(entry) = active.queue.front() {
                bytes += entry.record.bytes_max();
                if bytes > bytes_max && !batch.is_empty() {
                    break;
                }
                active.queued_bytes -= entry.record.bytes_max();
                batch.extend(active.queue.pop_front());
            }
        }
        batch
    }

    /// The records of these are durable; gives the transactions that want their markers now.
    pub fn durable(&self, ids: &[Name], now: TimestampMs) -> Vec<Completion> {
        let mut completions = Vec::new();
        self.with_ids(|all| {
            let mut entries = Vec::new();
            for id in ids {
                let outgoing = all.durable(id, now);
                entries.extend(outgoing.entry);
                completions.extend(outgoing.completion);
            }
            entries
        });
        completions
    }

    /// Puts transactions that want their markers into the line.
    pub fn line_up(&self, completions: Vec<Completion>) {
        let era = self.era.get();
        self.completing.borrow_mut().extend(completions.into_iter().map(|c| (era, c)));
    }

    pub fn next_in_line(&self) -> Option<(u64, Completion)> {
        self.completing.borrow_mut().pop_front()
    }

    /// Whether what was begun in `era` still counts.
    pub fn is_of(&self, era: u64) -> bool {
        self.era.get() == era
    }

    /// A transaction has all its markers.
    pub fn marked(&self, era: u64, id: &Name, now: TimestampMs) {
        if self.is_of(era) {
            self.with_ids(|ids| ids.marked(id, now));
            self.work.signal();
        }
    }
}

impl shell::Place for Place {
    fn at(&self) -> TopicPartition {
        self.at
    }

    /// Nothing here depends on other topics until markers are written.
    fn look(&self) {}

    fn begin_again(&self) {
        self.leave(State::Loading, ErrorCode::NotCoordinator);
    }

    fn end(&self, error: ErrorCode) {
        self.leave(State::Ended, error);
    }
}
