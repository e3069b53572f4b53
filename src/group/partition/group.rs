//! One group with its offsets, whichever protocol it follows.

use super::super::ask::{GroupKind, Listed};
use super::super::classic::{ClassicGroup, State};
use super::super::consumer::{ConsumerGroup, ConsumerRecord};
use super::transactions::OnTheWay;
use super::*;
use millstream_io::units::TopicId;

/// A group. An id is of one protocol at a time; [`super::migration`] changes it.
#[derive(Debug)]
pub(super) struct Group {
    pub kind: Kind,
    pub offsets: GroupOffsets,
    /// Commits on their way to the log.
    pub on_the_way: OnTheWay,
    /// Rises when it changes its protocol: what an earlier group of this id waits for is no more.
    pub era: u64,
    /// A record of it may be in the log.
    pub is_on_disk: bool,
    /// The last record of a classic group.
    pub last: Option<Box<GroupSnapshot>>,
    /// Its end is on its way to the log: it takes no more.
    pub ending: bool,
    /// The deadline that stands in the heap.
    pub armed: Option<u64>,
    /// The generation or epoch up to which rebalances are counted.
    pub counted: i32,
}

/// The protocol of a group, and all that it is by it.
#[derive(Debug)]
pub(super) enum Kind {
    Classic(Box<ClassicGroup<Waiter>>),
    Consumer(Box<ConsumerGroup>),
}

impl Group {
    pub fn new(settings: Settings, now: Now) -> Group {
        Group {
            kind: Kind::Classic(Box::new(ClassicGroup::new(settings, now))),
            offsets: GroupOffsets::default(),
            on_the_way: OnTheWay::default(),
            era: 0,
            is_on_disk: false,
            last: None,
            ending: false,
            armed: None,
            counted: 0,
        }
    }

    /// Takes the record of a classic group.
    pub fn replay(&mut self, snapshot: Option<Box<GroupSnapshot>>, settings: Settings, now: Now) {
        self.last = snapshot.clone();
        let kind = match snapshot {
            Some(snapshot) => ClassicGroup::restore(settings, *snapshot, now),
            // It became a group of the other protocol before.
            None if matches!(self.kind, Kind::Consumer(_)) => return,
            None => {
                self.is_on_disk = false;
                self.kind = Kind::Classic(Box::new(ClassicGroup::new(settings, now)));
                return;
            }
        };
        self.is_on_disk = true;
        self.kind = Kind::Classic(Box::new(kind));
    }

    /// Takes a record of the consumer protocol.
    pub fn replay_consumer(&mut self, record: &ConsumerRecord, settings: &GroupSettings, now: Now) {
        if let ConsumerRecord::GroupMetadata(None) = record {
            if matches!(self.kind, Kind::Consumer(_)) {
                self.is_on_disk = false;
                self.kind = Kind::Classic(Box::new(ClassicGroup::new(settings.classic, now)));
            }
            return;
        }
        if let Kind::Classic(_) = self.kind {
            if record.is_tombstone() {
                return;
            }
            self.kind = Kind::Consumer(Box::new(ConsumerGroup::new(settings.consumer.clone())));
        }
        self.is_on_disk = true;
        if let Kind::Consumer(consumer) = &mut self.kind {
            consumer.replay(record);
        }
    }

    /// The generation of a classic group, the epoch of one of the consumer protocol.
    pub fn epoch(&self) -> i32 {
        match &self.kind {
            Kind::Classic(classic) => classic.generation(),
            Kind::Consumer(consumer) => consumer.epoch().get(),
        }
    }

    pub fn next_deadline(&self) -> Option<u64> {
        match &self.kind {
            Kind::Classic(classic) => classic.next_deadline(),
            Kind::Consumer(consumer) => consumer.next_deadline(),
        }
    }

    /// Nobody is in it, nothing is under way, and no transaction may add to it.
    pub fn is_removable(&self) -> bool {
        self.on_the_way.is_empty()
            && !self.offsets.has_pending()
            && match &self.kind {
                Kind::Classic(classic) => classic.is_removable(),
                Kind::Consumer(consumer) => consumer.is_empty(),
            }
    }

    pub fn has_members(&self) -> bool {
        match &self.kind {
            Kind::Classic(classic) => classic.members() > 0,
            Kind::Consumer(consumer) => !consumer.is_empty(),
        }
    }

    pub fn is_nothing(&self) -> bool {
        !self.is_on_disk && self.offsets.is_empty() && self.is_removable()
    }

    /// Whether a member of it reads the topic.
    pub fn reads(&self, topic: &str) -> bool {
        match &self.kind {
            Kind::Classic(classic) => match classic.subscribed_topics() {
                Some(subscribed) => subscribed.contains(topic),
                // Of members whose words nobody can read it must be thought that they need all.
                None => classic.members() > 0,
            },
            Kind::Consumer(consumer) => consumer.is_subscribed_to(topic),
        }
    }

    /// Whether a transaction may replace the offset.
    pub fn is_unstable(&self, topic: &str, partition: i32) -> bool {
        self.offsets.is_pending(topic, partition)
            || self.on_the_way.has_transactional(topic, partition)
    }

    /// The records that end the group, which takes no more calls.
    ///
    /// # Errors
    /// NON_EMPTY_GROUP.
    pub fn end(&mut self, name: &Name, now: Now) -> Result<Entry, ErrorCode> {
        let mut records = Vec::new();
        match &mut self.kind {
            Kind::Classic(classic) => {
                let outcome = classic.forget(now)?;
                send_all(outcome.answers);
                if self.is_on_disk {
                    records.push(group_record(name, None));
                }
            }
            Kind::Consumer(consumer) => {
                consumer.validate_delete().map_err(|error| error.code())?;
                records.extend(consumer_records(name, &consumer.tombstones()));
            }
        }
        self.ending = true;
        let offsets = self.places(|_, _| true);
        records.extend(offsets.iter().map(|(topic, p)| offset_record(name, topic, *p, None)));
        let then = vec![Then::Forgotten { group: name.clone(), offsets, whole: true }];
        Ok(Entry::plain(records, then))
    }

    /// Places of offsets that are committed, pending or on their way to the log, and for one of
    /// which `wanted` says so, each once.
    pub fn places(&self, wanted: impl Fn(&str, TopicId) -> bool) -> Vec<(Arc<str>, i32)> {
        let mut places = self.offsets.select(|topic, c| wanted(topic, c.topic_id));
        places.extend(self.on_the_way.select(&wanted));
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Records that, replayed behind what must be kept of the log, give the group again as its log
    /// has it, with its offsets.
    pub fn records(&self, name: &Name) -> Vec<NewRecord> {
        let mut records = match (&self.kind, &self.last) {
            (Kind::Consumer(consumer), _) => consumer_records(name, &consumer.records()),
            (Kind::Classic(_), Some(last)) if self.is_on_disk => {
                vec![group_record(name, Some(last))]
            }
            (Kind::Classic(_), _) => Vec::new(),
        };
        let offsets = self.offsets.to_write_again();
        records.extend(
            offsets.map(|(topic, p, committed)| offset_record(name, topic, p, Some(committed))),
        );
        records
    }

    /// A group of the consumer protocol stays one, though only classic members are left in it.
    pub fn stay(&mut self, topics: &dyn TopicsView, records: &mut Vec<ConsumerRecord>) {
        if let Kind::Consumer(consumer) = &mut self.kind {
            consumer.stay(topics, records);
        }
    }

    pub fn listed(&self, name: &Name) -> Listed {
        let (protocol_type, state, kind) = match &self.kind {
            Kind::Classic(classic) => {
                let protocol_type = Name::from(classic.protocol_type().unwrap_or(""));
                (protocol_type, state_name(classic.state()), GroupKind::Classic)
            }
            Kind::Consumer(consumer) => {
                (Name::from("consumer"), consumer.state().name(), GroupKind::Consumer)
            }
        };
        Listed { group: name.clone(), protocol_type, state, kind }
    }
}

fn state_name(state: State) -> &'static str {
    state.name()
}

/// # Panics
/// As [`group_record`].
pub(super) fn consumer_records(name: &str, records: &[ConsumerRecord]) -> Vec<NewRecord> {
    let one = |record| match log_record::consumer(name, record) {
        Ok(record) => record,
        Err(error) => panic!("a record of group {name:?} cannot be written: {error}"),
    };
    records.iter().map(one).collect()
}
