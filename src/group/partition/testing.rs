//! A partition with its log, as tests need it.

use super::*;
use crate::group::ask::{ConsumerHeartbeat, FetchedBy, Listed, TopicOffsets};
use crate::group::classic::{JoinRules, Protocol, SyncRequest};
use crate::group::consumer::TopicFacts;
use crate::group::consumer::testing::Beat;
use bytes::Bytes;
use millstream_io::runtime::{Reply, oneshot};
use millstream_io::units::{TimestampMs, TopicId};

pub const TOPIC: TopicId = TopicId::from_bytes([7; 16]);

pub fn now(ms: u64) -> Now {
    Now { ms, wall: TimestampMs::new(1_700_000_000_000 + ms as i64) }
}

pub fn settings() -> GroupSettings {
    let classic = Settings { initial_delay_ms: 0, ..Settings::default() };
    GroupSettings { classic, ..GroupSettings::default() }
}

/// One topic of eight partitions.
pub struct Topics;

impl TopicsView for Topics {
    fn version(&self) -> u64 {
        1
    }

    fn by_name(&self, name: &str) -> Option<TopicFacts> {
        (name == "t").then_some(TopicFacts { id: TOPIC, partitions: 8 })
    }

    fn name_of(&self, id: TopicId) -> Option<Arc<str>> {
        (id == TOPIC).then(|| "t".into())
    }

    fn names_after(&self, after: Option<&str>, visit: &mut dyn FnMut(&Arc<str>) -> bool) {
        if after.is_none_or(|after| after < "t") {
            visit(&"t".into());
        }
    }
}

/// Walks to their end.
impl GroupPartition {
    pub fn list(&self) -> Vec<Listed> {
        let (mut all, mut last) = (Vec::new(), None);
        loop {
            let piece = self.listed_after(last.as_ref());
            let Some(end) = piece.last() else { return all };
            last = Some(end.group.clone());
            all.extend(piece);
        }
    }

    pub fn records(&self) -> Vec<NewRecord> {
        let (mut walk, mut records) = (Walk::BEGIN, Vec::new());
        while !walk.is_over() {
            records.extend(self.records_step(&mut walk));
        }
        records
    }

    pub fn expire(&mut self, retention_ms: u64, now: Now) -> Vec<Entry> {
        let (mut walk, mut entries) = (Walk::BEGIN, Vec::new());
        while !walk.is_over() {
            entries.extend(self.expire_step(&mut walk, retention_ms, now));
        }
        entries
    }

    pub fn topics_gone(
        &mut self,
        is_there: impl Fn(&str, TopicId) -> bool,
        now: Now,
    ) -> Vec<Entry> {
        let (mut walk, mut entries) = (Walk::BEGIN, Vec::new());
        while !walk.is_over() {
            entries.extend(self.topics_gone_step(&mut walk, &is_there, now));
        }
        entries
    }
}

pub fn name(text: &str) -> Name {
    Name::from(text)
}

pub fn offset(offset: i64, at: Now) -> CommittedOffset {
    CommittedOffset {
        offset,
        leader_epoch: 3,
        metadata: format!("at {offset}").into(),
        committed_at: at.wall,
        expires_at: -1,
        topic_id: TOPIC,
    }
}

pub fn commit(member: &str, generation: i32, offsets: Vec<(Name, i32, CommittedOffset)>) -> Commit {
    Commit {
        member_id: name(member),
        instance_id: None,
        generation,
        transaction: None,
        guard: None,
        version: 8,
        offsets,
    }
}

pub fn bench_join(member_id: Name) -> JoinRequest {
    JoinRequest {
        member_id,
        instance_id: None,
        client_id: name("client"),
        client_host: name("/127.0.0.1"),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 10_000,
        protocol_type: name("consumer"),
        protocols: vec![Protocol { name: name("range"), metadata: Bytes::new() }],
        new_member_uuid: name("uuid"),
        rules: JoinRules::of_version(2),
    }
}

/// A partition with its log, as the coordinator drives it.
pub struct Bench {
    pub groups: GroupPartition,
    pub log: Vec<Batch>,
    pub waiting: Vec<Entry>,
    /// Offset of the next batch.
    pub end: Offset,
}

/// A batch of the log, or a marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    pub at: Offset,
    pub content: Content,
    pub records: Vec<NewRecord>,
}

impl Bench {
    pub fn new() -> Bench {
        Bench {
            groups: GroupPartition::new(settings(), 1 << 20),
            log: Vec::new(),
            waiting: Vec::new(),
            end: Offset::ZERO,
        }
    }

    /// One whose log says this.
    pub fn of(records: Vec<NewRecord>) -> Bench {
        let mut bench = Bench::new();
        bench.append(Content::Plain, records);
        bench
    }

    fn append(&mut self, content: Content, records: Vec<NewRecord>) -> Offset {
        let at = self.end;
        let is_marker = matches!(content, Content::Marker(_));
        let count = records.len() + usize::from(is_marker);
        if count > 0 {
            self.log.push(Batch { at, content, records });
            self.end = at.add(count as u64);
        }
        at
    }

    pub fn ask<T>(
        &mut self,
        group: &str,
        at: Now,
        ask: impl FnOnce(Promise<T>) -> Ask,
    ) -> Reply<T> {
        let (promise, reply) = oneshot();
        let entry = self.groups.ask(&name(group), ask(promise), &Topics, at);
        self.waiting.extend(entry);
        reply
    }

    /// Appends everything that waits, and what follows from it.
    pub fn flush(&mut self, at: Now) {
        while !self.waiting.is_empty() {
            for entry in std::mem::take(&mut self.waiting) {
                let place = self.append(entry.content, entry.records);
                for then in entry.then {
                    self.waiting.extend(self.groups.durable(then, place, at));
                }
            }
        }
    }

    /// Says the log again in few records, as the coordinator does, and gives up what is not needed
    /// unless it crashes before that. With `lost` only so many of the records are written then.
    pub fn compact(&mut self, lost: Option<usize>) {
        let mut records = self.groups.records();
        if let Some(written) = lost {
            records.truncate(written);
            // Each in a batch of its own: any of them may be the last that is durable.
            for record in records {
                self.append(Content::Plain, vec![record]);
            }
            return;
        }
        if records.is_empty() {
            return;
        }
        let first = self.append(Content::Plain, records);
        self.groups.written_again(first);
        let before = self.groups.first_to_keep().map_or(first, |kept| kept.min(first));
        self.log.retain(|batch| batch.at >= before);
    }

    pub fn reload(&self, at: Now) -> GroupPartition {
        let mut groups = self.replayed(at);
        groups.loaded(at);
        groups
    }

    /// A crash, which loses what waits, and a start.
    pub fn restart(&mut self, at: Now) {
        self.waiting.clear();
        self.groups = self.reload(at);
    }

    /// The log read, and the reading not ended yet.
    pub fn replayed(&self, at: Now) -> GroupPartition {
        let mut groups = GroupPartition::new(settings(), 1 << 20);
        for batch in &self.log {
            let by = match batch.content {
                Content::Plain => None,
                Content::Transactional(transaction) => Some(transaction),
                Content::Marker(Ending { producer, outcome, .. }) => {
                    groups.replay(Logged::End { producer, outcome }, batch.at, at);
                    continue;
                }
            };
            for record in &batch.records {
                let key = record.key.as_deref().unwrap();
                let record = Box::new(LogRecord::decode(key, record.value.as_deref()).unwrap());
                groups.replay(Logged::Record { record, by }, batch.at, at);
            }
        }
        groups
    }

    pub fn fetch(&mut self, group: &str, at: Now) -> Vec<TopicOffsets> {
        let mut reply = self.ask(group, at, |reply| {
            let by = FetchedBy { member_id: None, epoch: -1, require_stable: false };
            Ask::Offsets(None, by, reply)
        });
        reply.try_take().unwrap().unwrap().unwrap()
    }

    pub fn commit(&mut self, group: &str, at: Now, partition: i32, value: i64) -> Reply<ErrorCode> {
        let offsets = vec![(name("t"), partition, offset(value, at))];
        self.ask(group, at, |reply| Ask::Commit(commit("", -1, offsets), reply))
    }

    /// A group of one member, Stable. Its id and generation.
    pub fn stable(&mut self, group: &str, at: Now) -> (Name, i32) {
        let mut joined = self.ask(group, at, |waiter| Ask::Join(bench_join(name("")), waiter));
        for entry in self.groups.tick(&Topics, at) {
            self.waiting.push(entry);
        }
        let Some(Ok(Answer::Join(answer))) = joined.try_take() else { panic!("not joined") };
        assert_eq!(answer.error, ErrorCode::None);
        let sync = SyncRequest {
            member_id: answer.member_id.clone(),
            instance_id: None,
            generation: answer.generation,
            protocol_type: None,
            protocol: None,
            assignments: vec![(answer.member_id.clone(), Bytes::from_static(b"all"))],
        };
        let mut synced = self.ask(group, at, |waiter| Ask::Sync(sync, waiter));
        assert!(synced.try_take().is_none(), "the assignment is not durable yet");
        self.flush(at);
        let Some(Ok(Answer::Sync(sync))) = synced.try_take() else { panic!("not synced") };
        assert_eq!((sync.error, &sync.assignment[..]), (ErrorCode::None, &b"all"[..]));
        (answer.member_id, answer.generation)
    }
}

/// A heartbeat of a member that reads the topic.
pub fn reader(member: &str, epoch: i32) -> Beat {
    if epoch == 0 { Beat::join(member, &["t"]) } else { Beat::new(member, epoch) }
}

pub fn beat(member: &str, epoch: i32) -> ConsumerHeartbeat {
    reader(member, epoch).sent()
}
