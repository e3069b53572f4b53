//! The classic consumer group: members join, a leader assigns, all get their share
//! (JoinGroup, SyncGroup, Heartbeat, LeaveGroup; KIP-62, KIP-345, KIP-394, KIP-814).
//!
//! ```text
//!            first join              all joined, or time is up
//!   Empty ---------------> PreparingRebalance ---------------> CompletingRebalance
//!     ^                      |    ^      ^                       |            |
//!     +----------------------+    |      +-----------------------+            | leader's assignment
//!          nobody is left         |          someone new, gone or silent      | is durable
//!                                 +------------------ Stable <----------------+
//! ```

mod calls;
mod describe;
mod expiry;
mod heartbeat;
mod join;
mod leave;
mod limits;
mod members;
mod rebalance;
mod roster;
mod snapshot;
mod static_join;
mod sync;

#[cfg(test)]
mod testing;
#[cfg(test)]
#[path = "classic/walk_tests.rs"]
mod walk_tests;

pub use calls::{
    Answer, Caller, CommitKind, JoinAnswer, JoinRequest, JoinRules, JoinedMember, LeaveAnswer,
    Leaving, Left, Name, Protocol, SyncAnswer, SyncRequest,
};
pub(super) use describe::CONSUMER_PROTOCOL_TYPE;
pub use describe::{Description, MemberDescription, OffsetExpiry};
pub use roster::{Roster, RosterMember};
pub use snapshot::{GroupSnapshot, MemberSnapshot};

use bytes::Bytes;
use members::Members;
use millstream_io::units::TimestampMs;
use std::collections::BTreeMap;

use crate::wire::error_code::ErrorCode;

/// The time of a call, on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds of a clock that only goes forward: all deadlines are on it.
    pub ms: u64,
    /// What the group's record says about when it changed.
    pub wall: TimestampMs,
}

/// Settings of the broker that concern classic groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `group.min.session.timeout.ms`, `group.max.session.timeout.ms`.
    pub session_ms_min: i32,
    pub session_ms_max: i32,
    /// `group.initial.rebalance.delay.ms`.
    pub initial_delay_ms: u64,
    /// `group.max.size`; the room's own bound counts where that is smaller.
    pub size_max: usize,
    pub pending_max: usize,
    /// Memory of a group, and size of its record.
    pub bytes_max: usize,
    pub record_bytes_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            session_ms_min: 6_000,
            session_ms_max: 1_800_000,
            initial_delay_ms: 3_000,
            size_max: limits::MEMBERS_MAX,
            pending_max: limits::PENDING_MEMBERS_MAX,
            bytes_max: limits::GROUP_BYTES_MAX,
            record_bytes_max: limits::RECORD_BYTES_MAX,
        }
    }
}

impl Settings {
    /// # Errors
    /// INVALID_SESSION_TIMEOUT, before any group is asked.
    pub fn check_session_timeout(&self, session_timeout_ms: i32) -> Result<(), ErrorCode> {
        if (self.session_ms_min..=self.session_ms_max).contains(&session_timeout_ms) {
            Ok(())
        } else {
            Err(ErrorCode::InvalidSessionTimeout)
        }
    }
}

/// The phase of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    Empty,
    PreparingRebalance,
    CompletingRebalance,
    Stable,
    Dead,
}

impl State {
    pub const fn name(self) -> &'static str {
        match self {
            State::Empty => "Empty",
            State::PreparingRebalance => "PreparingRebalance",
            State::CompletingRebalance => "CompletingRebalance",
            State::Stable => "Stable",
            State::Dead => "Dead",
        }
    }
}

/// Number of a record that a group wants stored: 1, 2, 3 ... within the life of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct StoreNumber(u64);

/// What a call on a group leads to.
#[derive(Debug)]
#[must_use = "waiters hang and records are lost"]
pub struct Outcome<W> {
    /// To send now. What has to wait for a record is kept inside until [`ClassicGroup::stored`].
    pub answers: Vec<(W, Answer)>,
    pub store: Store,
}

/// What a call wants written to the group's partition.
#[derive(Debug, PartialEq, Eq)]
pub enum Store {
    Nothing,
    /// The group's record. When it is durable, [`ClassicGroup::stored`] is to be called.
    Group {
        number: StoreNumber,
        content: Box<GroupSnapshot>,
    },
    /// The record that removes the group's. When it is durable the group is to be dropped.
    Tombstone,
}

/// Who waited for a group that is no more.
#[derive(Debug)]
#[must_use = "waiters hang"]
pub struct Dissolved<W> {
    /// To send now.
    pub answers: Vec<(W, Answer)>,
    /// To send when all records that the group has asked for are durable.
    pub held: Vec<(W, Answer)>,
}

impl<W> Outcome<W> {
    fn nothing() -> Outcome<W> {
        Outcome { answers: Vec::new(), store: Store::Nothing }
    }

    fn join(&mut self, waiter: W, answer: JoinAnswer) {
        self.answers.push((waiter, Answer::Join(answer)));
    }

    fn sync(&mut self, waiter: W, answer: SyncAnswer) {
        self.answers.push((waiter, Answer::Sync(answer)));
    }
}

/// One classic group. Lives on the core that owns its partition of `__consumer_offsets`; `W` is
/// what a client waits by, and comes back with its answer exactly once.
///
/// A call costs a look-up among the members, and a pass over them when a round ends or a deadline
/// has come. Bounded by [`Settings`]; what does not fit is refused with GROUP_MAX_SIZE_REACHED.
#[derive(Debug)]
pub struct ClassicGroup<W> {
    settings: Settings,
    state: State,
    /// When the state began; none in records of old brokers.
    state_since: Option<TimestampMs>,
    generation: i32,
    protocol_type: Option<Name>,
    /// The protocol chosen for the generation.
    protocol: Option<Name>,
    leader: Option<Name>,
    members: Members<W>,
    /// Ids given to members that have not joined with them, and when each is forgotten.
    pending: BTreeMap<Name, u64>,
    phase: Phase,
    /// No session ends before this. Heartbeats leave it behind; a look at the members moves it.
    sessions_from: Option<u64>,
    /// Records asked for so far.
    stores: StoreNumber,
    /// True when the log may hold a record of the group.
    is_on_disk: bool,
    /// The leader's assignment on its way to the log.
    storing: Option<Storing>,
    /// Static members whose new ids are on their way to the log; they wait for the join's answer.
    replaced: Vec<Replaced>,
    /// Answers that rest on a record.
    held: Vec<(StoreNumber, W, Answer)>,
}

/// What the group waits for, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Untimed,
    /// PreparingRebalance of an empty group: more members are given time to come.
    Gathering {
        until: u64,
        delay_ms: u64,
        remaining_ms: u64,
        has_newcomers: bool,
    },
    /// PreparingRebalance: members are to join again.
    Joining {
        until: u64,
    },
    /// CompletingRebalance or Stable: members are to sync.
    Syncing {
        until: u64,
    },
}

#[derive(Debug)]
struct Storing {
    number: StoreNumber,
    assignments: BTreeMap<Name, Bytes>,
}

#[derive(Debug)]
struct Replaced {
    number: StoreNumber,
    member_id: Name,
    can_skip_assignment: bool,
    leader_before: Option<Name>,
}

impl<W> ClassicGroup<W> {
    /// A group that nobody knows of yet.
    pub fn new(mut settings: Settings, now: Now) -> ClassicGroup<W> {
        settings.size_max = settings.size_max.min(limits::MEMBERS_MAX);
        ClassicGroup {
            settings,
            state: State::Empty,
            state_since: Some(now.wall),
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: Members::new(),
            pending: BTreeMap::new(),
            phase: Phase::Untimed,
            sessions_from: None,
            stores: StoreNumber::default(),
            is_on_disk: false,
            storing: None,
            replaced: Vec::new(),
            held: Vec::new(),
        }
    }

    pub fn state(&self) -> State {
        self.state
    }

    pub fn generation(&self) -> i32 {
        self.generation
    }

    pub fn protocol_type(&self) -> Option<&str> {
        self.protocol_type.as_deref()
    }

    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// Members that were given an id and have not come back with it.
    pub fn pending_members(&self) -> usize {
        self.pending.len()
    }

    /// Gives up: every waiter with `error`, in an answer of the kind that it waits for. For when
    /// the partition is lost, or a record of it.
    pub fn abandon(self, error: ErrorCode) -> Vec<(W, Answer)> {
        let Dissolved { mut answers, held } = self.dissolve(error);
        answers.extend(held.into_iter().map(|(waiter, answer)| (waiter, answer.refused(error))));
        answers
    }

    /// Ends the group in memory, for another takes its place: who waits for others is told `error`.
    pub fn dissolve(mut self, error: ErrorCode) -> Dissolved<W> {
        let mut out = Outcome::nothing();
        for id in self.members.ids() {
            if let Some(waiter) = self.members.take_join(&id) {
                out.join(waiter, JoinAnswer::refused(error, id.clone()));
            }
            if let Some(waiter) = self.members.take_sync(&id) {
                out.sync(waiter, SyncAnswer::refused(error));
            }
        }
        let held = self.held.into_iter().map(|(_, waiter, answer)| (waiter, answer));
        Dissolved { answers: out.answers, held: held.collect() }
    }

    fn enter(&mut self, state: State, now: Now) {
        let from = self.state;
        let is_allowed = match state {
            State::Empty => from == State::PreparingRebalance,
            State::PreparingRebalance => {
                matches!(from, State::Empty | State::CompletingRebalance | State::Stable)
            }
            State::CompletingRebalance => from == State::PreparingRebalance,
            State::Stable => from == State::CompletingRebalance,
            State::Dead => from == State::Empty,
        };
        assert!(is_allowed, "a group goes from {from:?} to {state:?}");
        self.state = state;
        self.state_since = Some(now.wall);
    }

    /// Asks for the group's record as it is now.
    fn store(&mut self, out: &mut Outcome<W>) -> StoreNumber {
        self.stores.0 += 1;
        self.is_on_disk = true;
        let content = Box::new(self.snapshot());
        out.store = Store::Group { number: self.stores, content };
        self.stores
    }

    fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }
}
