//! Incremental fetch sessions (KIP-227): a client names its partitions once, then only changes.
//!
//! A session lives on the core of the connection that made it, and goes with that connection. Its
//! id, used on another core or after it was given up for a newer one, is not found, which clients
//! answer with a full fetch.

use super::limits::{SESSION_EVICTION_MS_MIN, SESSION_PARTITIONS_MAX};
use crate::wire::{ErrorCode, Uuid};
use std::collections::HashMap;
use std::rc::Rc;

/// The session id that means "none".
pub const NO_SESSION: i32 = 0;
/// The epoch of a full fetch that asks for a session.
pub const INITIAL_EPOCH: i32 = 0;
/// The epoch of a full fetch that asks for none, and gives up the one it names.
pub const FINAL_EPOCH: i32 = -1;

/// How a request names a topic: by name up to version 12, by id from 13 on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TopicLabel {
    Name(Rc<str>),
    Id(Uuid),
}

/// What a client asks of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub topic: TopicLabel,
    pub partition: i32,
    pub fetch_offset: i64,
    pub bytes_max: i32,
    pub current_epoch: i32,
    pub last_fetched_epoch: i32,
}

/// What the client was last told of a partition, so that only changes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    pub high_watermark: i64,
    pub last_stable_offset: i64,
    pub log_start: i64,
}

impl Told {
    /// What no partition has: the next answer names it.
    const NOTHING: Told = Told { high_watermark: -2, last_stable_offset: -2, log_start: -2 };
}

/// One partition of a session.
#[derive(Clone, Debug)]
struct Remembered {
    wanted: Wanted,
    told: Told,
}

#[derive(Debug)]
struct Session {
    epoch: i32,
    connection: u64,
    used_ms: u64,
    by_id: bool,
    /// `None` was forgotten; swept when half of them are.
    partitions: Vec<Option<Remembered>>,
    places: HashMap<(TopicLabel, i32), usize>,
    /// Where the next answer begins, so that none starves behind busy ones.
    start: usize,
}

/// A fetch request as far as sessions go.
#[derive(Debug)]
pub struct Request {
    pub session_id: i32,
    pub session_epoch: i32,
    pub by_id: bool,
    pub connection: u64,
    pub wanted: Vec<Wanted>,
    pub forgotten: Vec<(TopicLabel, i32)>,
}

/// What to read, and how to answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Context {
    /// Every partition asked for is answered, and no session is kept.
    Sessionless(Vec<Wanted>),
    /// Every partition is answered, and `session_id` begins (0: there was no room).
    Full { session_id: i32, wanted: Vec<Wanted> },
    /// Only changes are answered; `places` are those of the session, in order of `wanted`.
    Incremental { session_id: i32, wanted: Vec<Wanted>, places: Vec<usize> },
}

/// The sessions of one core.
#[derive(Debug)]
pub struct FetchSessions {
    slots_max: usize,
    sessions: HashMap<i32, Session>,
    partitions: usize,
    /// State of the generator of ids.
    seed: u64,
}

impl FetchSessions {
    /// `seed` should differ between cores and starts, so that ids do not meet.
    pub fn new(slots_max: usize, seed: u64) -> FetchSessions {
        FetchSessions { slots_max, sessions: HashMap::new(), partitions: 0, seed }
    }

    /// Decides what a request means.
    ///
    /// # Errors
    /// The codes of KIP-227 and KIP-516, to be answered for the whole request.
    pub fn open(&mut self, request: Request, now_ms: u64) -> Result<Context, ErrorCode> {
        if request.session_epoch == FINAL_EPOCH {
            self.close(request.session_id);
            return Ok(Context::Sessionless(request.wanted));
        }
        if request.session_epoch == INITIAL_EPOCH {
            self.close(request.session_id);
            let session_id = self.create(&request, now_ms);
            return Ok(Context::Full { session_id, wanted: request.wanted });
        }
        let id = request.session_id;
        let session = self.sessions.get_mut(&id).ok_or(ErrorCode::FetchSessionIdNotFound)?;
        if session.epoch != request.session_epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if session.by_id != request.by_id {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        let before = session.places.len();
        session.update(request.wanted, &request.forgotten);
        session.used_ms = now_ms;
        session.connection = request.connection;
        session.epoch = next_epoch(session.epoch);
        let after = session.places.len();
        let (wanted, places) = session.in_order();
        self.partitions = self.partitions + after - before;
        if after == 0 {
            self.close(id);
            return Ok(Context::Sessionless(Vec::new()));
        }
        Ok(Context::Incremental { session_id: id, wanted, places })
    }

    /// Whether an answer for the partition at `place` says something new; remembers it then.
    /// An answer with records or an error always does.
    pub fn tell(&mut self, session_id: i32, place: usize, told: Told, always: bool) -> bool {
        let remembered = self.sessions.get_mut(&session_id);
        let Some(remembered) = remembered.and_then(|s| s.partitions.get_mut(place)?.as_mut())
        else {
            return true; // The session went meanwhile: a full answer is never wrong.
        };
        let is_news = remembered.told != told;
        remembered.told = told;
        is_news || always
    }

    /// As [`FetchSessions::tell`] for an error, which the next answer without one has to undo.
    pub fn tell_error(&mut self, session_id: i32, place: usize) {
        self.tell(session_id, place, Told::NOTHING, true);
    }

    /// Lets the next answer begin behind `place`, which had records in this one.
    pub fn rotate(&mut self, session_id: i32, place: usize) {
        if let Some(session) = self.sessions.get_mut(&session_id) {
            session.start = place + 1;
        }
    }

    /// The place in a new session of the partition that was asked for as number `index`.
    pub fn place_of(&self, session_id: i32, wanted: &Wanted) -> Option<usize> {
        let key = (wanted.topic.clone(), wanted.partition);
        self.sessions.get(&session_id)?.places.get(&key).copied()
    }

    /// Ends the sessions that a connection made or took over.
    pub fn close_connection(&mut self, connection: u64) {
        let ended = self.sessions.iter().filter(|(_, session)| session.connection == connection);
        let ended: Vec<i32> = ended.map(|(id, _)| *id).collect();
        ended.into_iter().for_each(|id| self.close(id));
    }

    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    fn close(&mut self, id: i32) {
        if let Some(session) = self.sessions.remove(&id) {
            self.partitions -= session.places.len();
        }
    }

    /// Makes a session of all that a full fetch names; 0 when there is nothing to remember or no
    /// room for it.
    fn create(&mut self, request: &Request, now_ms: u64) -> i32 {
        let is_possible = !request.wanted.is_empty() && self.slots_max > 0;
        if !is_possible || !self.make_room(request.wanted.len(), now_ms) {
            return NO_SESSION;
        }
        let mut session = Session {
            epoch: next_epoch(INITIAL_EPOCH),
            connection: request.connection,
            used_ms: now_ms,
            by_id: request.by_id,
            partitions: Vec::with_capacity(request.wanted.len()),
            places: HashMap::with_capacity(request.wanted.len()),
            start: 0,
        };
        session.update(request.wanted.clone(), &[]);
        self.partitions += session.places.len();
        let id = self.new_id();
        self.sessions.insert(id, session);
        id
    }

    /// Gives up the session that was unused for longest, if it was unused for long enough.
    fn make_room(&mut self, partitions: usize, now_ms: u64) -> bool {
        loop {
            let fits = self.sessions.len() < self.slots_max
                && self.partitions + partitions <= SESSION_PARTITIONS_MAX;
            if fits {
                return true;
            }
            let oldest = self.sessions.iter().min_by_key(|(_, session)| session.used_ms);
            let Some((&id, session)) = oldest else { return false };
            if now_ms.saturating_sub(session.used_ms) < SESSION_EVICTION_MS_MIN {
                return false;
            }
            self.close(id);
        }
    }

    /// A positive id that no session has.
    fn new_id(&mut self) -> i32 {
        loop {
            // splitmix64
            self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.seed;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            let bits = (z ^ (z >> 31)) & 0x7fff_ffff;
            if let Ok(id) = i32::try_from(bits)
                && id != NO_SESSION
                && !self.sessions.contains_key(&id)
            {
                return id;
            }
        }
    }
}

impl Session {
    fn update(&mut self, wanted: Vec<Wanted>, forgotten: &[(TopicLabel, i32)]) {
        for key in forgotten {
            if let Some(place) = self.places.remove(key) {
                self.partitions[place] = None;
            }
        }
        for wanted in wanted {
            let key = (wanted.topic.clone(), wanted.partition);
            match self.places.get(&key).map(|place| &mut self.partitions[*place]) {
                Some(Some(remembered)) => remembered.wanted = wanted,
                _ => {
                    self.places.insert(key, self.partitions.len());
                    self.partitions.push(Some(Remembered { wanted, told: Told::NOTHING }));
                }
            }
        }
        if self.partitions.len() > 2 * self.places.len() + 16 {
            self.sweep();
        }
    }

    /// Closes the gaps that forgotten partitions left.
    fn sweep(&mut self) {
        self.partitions.retain(Option::is_some);
        self.start = 0;
        self.places = self
            .partitions
            .iter()
            .flatten()
            .enumerate()
            .map(|(place, one)| ((one.wanted.topic.clone(), one.wanted.partition), place))
            .collect();
    }

    /// All partitions, those first that waited longest for their turn.
    fn in_order(&self) -> (Vec<Wanted>, Vec<usize>) {
        let count = self.partitions.len();
        let start = if count == 0 { 0 } else { self.start % count };
        let order = (start..count).chain(0..start);
        let present = order
            .filter_map(|place| Some((self.partitions[place].as_ref()?.wanted.clone(), place)));
        present.unzip()
    }
}

/// 1 follows the largest: 0 and -1 mean something else.
fn next_epoch(epoch: i32) -> i32 {
    if epoch == i32::MAX { 1 } else { epoch + 1 }
}

#[cfg(test)]
#[path = "fetch_session_tests.rs"]
mod tests;
