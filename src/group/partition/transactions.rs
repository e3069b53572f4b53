//! Offsets that are committed in transactions (KIP-98, KIP-447).
//!
//! ```text
//!   TxnOffsetCommit          durable             marker durable
//!   ---------------> on the way ----> pending ------------------> committed, or gone
//! ```
//! A tombstone (an offset or a group is deleted, its topic is gone) takes pending offsets with it.

use super::super::ask::{Guard, Verification};
use super::super::by_partition::ByPartition;
use super::super::limits::{PENDING_OFFSETS_MAX, VERIFYING_MAX};
use super::*;
use millstream_io::units::{ProducerEpoch, TopicId};
use millstream_shards::message::AppendError;
use std::collections::BTreeSet;

/// What a log says at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Logged {
    Record {
        record: Box<LogRecord>,
        /// Whose transaction its batch is part of.
        by: Option<InTransaction>,
    },
    /// A marker.
    End { producer: ProducerId, outcome: TransactionOutcome },
}

/// Transactions in the log of one partition.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    by_producer: BTreeMap<ProducerId, Open>,
    /// Places over all of them.
    places: usize,
    /// Those that are open behind all that is on its way to the log.
    open: BTreeMap<ProducerId, ProducerEpoch>,
    /// Those whose coordinator is being asked, with the guard of the question.
    verifying: BTreeMap<ProducerId, Guard>,
    guards: u64,
}

/// So many guards are not given in a millisecond.
const GUARDS_PER_MS_BITS: u32 = 20;

/// One of them.
#[derive(Debug)]
struct Open {
    /// Its first offset in the log.
    first: Offset,
    /// Group, topic and partition of its commits, some of which may be deleted since.
    places: BTreeSet<(Name, Name, i32)>,
}

impl Transactions {
    fn note(&mut self, producer: ProducerId, place: (Name, Name, i32), at: Offset) {
        let new = || Open { first: at, places: BTreeSet::new() };
        let open = self.by_producer.entry(producer).or_insert_with(new);
        self.places += usize::from(open.places.insert(place));
    }

    fn take(&mut self, producer: ProducerId) -> BTreeSet<(Name, Name, i32)> {
        let places = self.by_producer.remove(&producer).map(|open| open.places).unwrap_or_default();
        self.places -= places.len();
        places
    }

    /// No guard that was given before `ms` is good any more.
    pub fn begin_guards(&mut self, ms: u64) {
        self.guards = self.guards.max(ms << GUARDS_PER_MS_BITS);
    }

    /// Whether a commit of this transaction needs to be verified.
    pub fn verify(&mut self, of: InTransaction) -> Verification {
        if self.open.get(&of.producer) == Some(&of.epoch) {
            return Verification::Open;
        }
        if let Some(guard) = self.verifying.get(&of.producer) {
            return Verification::Needed(*guard);
        }
        if self.verifying.len() >= VERIFYING_MAX
            && let Some((oldest, _)) = self.verifying.iter().min_by_key(|(_, guard)| **guard)
        {
            let oldest = *oldest;
            self.verifying.remove(&oldest);
        }
        self.guards += 1;
        let guard = Guard(self.guards);
        self.verifying.insert(of.producer, guard);
        Verification::Needed(guard)
    }

    /// Whether it was, and nothing has ended it since.
    pub fn is_verified(&self, of: InTransaction, guard: Option<Guard>) -> bool {
        let is_open = self.open.get(&of.producer) == Some(&of.epoch);
        is_open || (guard.is_some() && self.verifying.get(&of.producer) == guard.as_ref())
    }

    /// A commit of it is in the log, or on its way there.
    pub fn opened(&mut self, of: InTransaction) {
        self.verifying.remove(&of.producer);
        self.open.insert(of.producer, of.epoch);
    }

    /// So is its end.
    pub fn closed(&mut self, producer: ProducerId) {
        self.verifying.remove(&producer);
        self.open.remove(&producer);
    }

    /// The first offset of the oldest.
    pub fn first(&self) -> Option<Offset> {
        self.by_producer.values().map(|open| open.first).min()
    }

    /// Whether there is no room for the places of a further commit.
    pub fn is_full(&self, places: usize) -> bool {
        self.places + places > PENDING_OFFSETS_MAX
    }
}

/// Commits of one group that are on their way to the log.
#[derive(Debug, Default)]
pub(super) struct OnTheWay(ByPartition<Coming>);

#[derive(Debug)]
struct Coming {
    commits: u32,
    /// Those of them that are part of transactions.
    transactional: u32,
    /// The topic's id in the last.
    topic: TopicId,
}

impl OnTheWay {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has(&self, topic: &str, partition: i32) -> bool {
        self.0.get(topic, partition).is_some()
    }

    /// Whether the last one that is on its way is to a topic that `is_there`.
    pub fn is_to(
        &self,
        topic: &str,
        partition: i32,
        is_there: impl Fn(&str, TopicId) -> bool,
    ) -> bool {
        self.0.get(topic, partition).is_some_and(|coming| is_there(topic, coming.topic))
    }

    /// Whether one of a transaction is on its way.
    pub fn has_transactional(&self, topic: &str, partition: i32) -> bool {
        self.0.get(topic, partition).is_some_and(|coming| coming.transactional > 0)
    }

    pub fn select(&self, wanted: impl Fn(&str, TopicId) -> bool) -> Vec<(Arc<str>, i32)> {
        self.0.select(|topic, _, coming| wanted(topic, coming.topic))
    }

    pub fn sent(&mut self, (topic, partition): (&str, i32), id: TopicId, transactional: bool) {
        let new = || Coming { commits: 0, transactional: 0, topic: id };
        let coming = self.0.get_or_new(topic, partition, new);
        coming.commits += 1;
        coming.transactional += u32::from(transactional);
        coming.topic = id;
    }

    /// It is durable, or it was refused.
    ///
    /// # Panics
    /// When none was on its way.
    pub fn arrived(&mut self, topic: &str, partition: i32, transactional: bool) {
        let Some(coming) = self.0.get_mut(topic, partition) else {
            panic!("no commit of {topic:?} {partition} was on its way");
        };
        coming.commits -= 1;
        coming.transactional -= u32::from(transactional);
        if coming.commits == 0 {
            self.0.remove(topic, partition);
        }
    }
}

impl GroupPartition {
    /// Ends a producer's transaction: what it committed counts, or is forgotten, once the marker is
    /// durable.
    pub fn end_transaction(
        &mut self,
        ending: Ending,
        reply: Promise<Result<(), EndError>>,
    ) -> Entry {
        let Ending { producer, outcome, .. } = ending;
        self.transactions.closed(producer);
        let then = vec![Then::Ended { producer, outcome, reply }];
        Entry { content: Content::Marker(ending), records: Vec::new(), then }
    }

    /// The log did not take a batch of a transaction, or a marker, for what it says; the log goes on.
    pub fn refused(&mut self, then: Then, code: ErrorCode, cause: &AppendError) {
        match then {
            Then::Committed { group: name, offsets, by, reply } => {
                // Whatever is open there, the next commit is verified.
                if let Some(InTransaction { producer, .. }) = by {
                    self.transactions.closed(producer);
                }
                if let Some(group) = self.groups.get_mut(&name) {
                    for (topic, partition, _) in offsets {
                        group.on_the_way.arrived(&topic, partition, by.is_some());
                    }
                }
                self.drop_if_nothing(&name);
                let _ = reply.send(code);
            }
            Then::Ended { reply, .. } => {
                let _ = reply.send(Err(EndError::Refused(cause.clone())));
            }
            other => panic!("{other:?} hangs on a batch of a producer"),
        }
    }

    /// Takes a commit that stands in the log.
    pub(super) fn keep(
        &mut self,
        name: &Name,
        (topic, partition): (&Name, i32),
        by: Option<InTransaction>,
        stored: Stored,
        now: Now,
    ) {
        let at = stored.at;
        let group = self.group_or_new(name, now);
        match by {
            None => group.offsets.put(topic, partition, stored),
            Some(InTransaction { producer, .. }) => {
                group.offsets.put_pending(topic, partition, producer, stored);
                self.transactions.note(producer, (name.clone(), topic.clone(), partition), at);
            }
        }
    }

    /// A producer's marker stands in the log.
    pub(super) fn end(&mut self, producer: ProducerId, outcome: TransactionOutcome) {
        for (name, topic, partition) in self.transactions.take(producer) {
            let Some(group) = self.groups.get_mut(&name) else { continue };
            match outcome {
                TransactionOutcome::Commit => group.offsets.commit(&topic, partition, producer),
                TransactionOutcome::Abort => group.offsets.abort(&topic, partition, producer),
            }
            self.drop_if_nothing(&name);
        }
    }
}
