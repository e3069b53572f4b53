//! A cluster's topics, a group and its members, as tests need them.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_io::units::{PartitionIndex, TopicId, TopicPartition};

use super::answer::by_topic;
use super::member::{Member, Partitions};
use super::{
    Caller, ConsumerGroup, ConsumerRecord, ConsumerSettings, HeartbeatAnswer, HeartbeatError,
    TopicFacts, TopicsView,
};
use crate::group::ask::ConsumerHeartbeat;
use crate::group::classic::{
    Caller as ClassicCaller, JoinAnswer, JoinRequest, JoinRules, Leaving, Protocol, SyncRequest,
};
use crate::wire::messages::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, TopicPartitions,
};
use crate::wire::messages::consumer_protocol as embedded;
use crate::wire::{ErrorCode, Message, Uuid, Writer};
use bytes::Bytes;

/// Topics that a test creates, grows and deletes.
#[derive(Clone, Debug, Default)]
pub(super) struct Topics {
    version: u64,
    made: u32,
    by_name: BTreeMap<Arc<str>, TopicFacts>,
}

impl Topics {
    pub fn new(topics: &[(&str, u32)]) -> Topics {
        let mut all = Topics::default();
        for (name, partitions) in topics {
            all.create(name, *partitions);
        }
        all
    }

    /// Creates a topic under a new id, or another in the place of one.
    pub fn create(&mut self, name: &str, partitions: u32) {
        self.made += 1;
        let mut id = [0x10; 16];
        id[12..].copy_from_slice(&self.made.to_be_bytes());
        let facts = TopicFacts { id: TopicId::from_bytes(id), partitions };
        self.by_name.insert(name.into(), facts);
        self.version += 1;
    }

    pub fn grow(&mut self, name: &str, partitions: u32) {
        self.by_name.get_mut(name).expect("a topic").partitions = partitions;
        self.version += 1;
    }

    pub fn delete(&mut self, name: &str) {
        self.by_name.remove(name);
        self.version += 1;
    }

    pub fn partition(&self, name: &str, index: i32) -> TopicPartition {
        let topic = self.by_name[name].id;
        TopicPartition { topic, partition: PartitionIndex::at(index) }
    }

    /// All partitions of these topics.
    pub fn all(&self, names: &[&str]) -> Partitions {
        let topics = names.iter().filter_map(|name| Some((*name, self.by_name.get(*name)?)));
        topics
            .flat_map(|(name, facts)| {
                (0..facts.partitions as i32).map(|index| self.partition(name, index))
            })
            .collect()
    }
}

impl TopicsView for Topics {
    fn version(&self) -> u64 {
        self.version
    }

    fn by_name(&self, name: &str) -> Option<TopicFacts> {
        self.by_name.get(name).copied()
    }

    fn name_of(&self, id: TopicId) -> Option<Arc<str>> {
        self.by_name.iter().find(|(_, facts)| facts.id == id).map(|(name, _)| name.clone())
    }

    fn names_after(&self, after: Option<&str>, visit: &mut dyn FnMut(&Arc<str>) -> bool) {
        for name in self.by_name.keys() {
            if after.is_none_or(|after| **name > *after) && !visit(name) {
                return;
            }
        }
    }
}

/// One heartbeat in the making: the only builder of heartbeats that tests of groups have.
#[derive(Clone, Debug)]
pub(in crate::group) struct Beat {
    pub version: i16,
    pub group: String,
    pub member: String,
    pub epoch: i32,
    pub instance: Option<String>,
    pub rack: Option<String>,
    pub rebalance_timeout_ms: i32,
    pub names: Option<Vec<String>>,
    pub regex: Option<String>,
    pub assignor: Option<String>,
    pub owned: Option<Partitions>,
}

impl Beat {
    /// A light heartbeat.
    pub fn new(member: &str, epoch: i32) -> Beat {
        Beat {
            version: 1,
            group: "g".to_owned(),
            member: member.to_owned(),
            epoch,
            instance: None,
            rack: None,
            rebalance_timeout_ms: -1,
            names: None,
            regex: None,
            assignor: None,
            owned: None,
        }
    }

    pub fn join(member: &str, names: &[&str]) -> Beat {
        Beat {
            rebalance_timeout_ms: 30_000,
            owned: Some(Partitions::new()),
            ..Beat::new(member, 0)
        }
        .names(names)
    }

    pub fn join_by_regex(member: &str, regex: &str) -> Beat {
        Beat { names: None, regex: Some(regex.to_owned()), ..Beat::join(member, &[]) }
    }

    pub fn names(mut self, names: &[&str]) -> Beat {
        self.names = Some(names.iter().map(|name| (*name).to_owned()).collect());
        self
    }

    pub fn instance(mut self, instance: &str) -> Beat {
        self.instance = Some(instance.to_owned());
        self
    }

    pub fn assignor(mut self, name: &str) -> Beat {
        self.assignor = Some(name.to_owned());
        self
    }

    pub fn owns(mut self, owned: &Partitions) -> Beat {
        self.owned = Some(owned.clone());
        self
    }

    pub fn request(&self) -> ConsumerGroupHeartbeatRequest<'_> {
        let owned = self.owned.as_ref().map(|owned| {
            let topics = by_topic(owned).map(|(topic, partitions)| TopicPartitions {
                topic_id: Uuid(*topic.as_bytes()),
                partitions,
            });
            topics.collect()
        });
        ConsumerGroupHeartbeatRequest {
            group_id: &self.group,
            member_id: &self.member,
            member_epoch: self.epoch,
            instance_id: self.instance.as_deref(),
            rack_id: self.rack.as_deref(),
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            subscribed_topic_names: self
                .names
                .as_ref()
                .map(|names| names.iter().map(String::as_str).collect()),
            subscribed_topic_regex: self.regex.as_deref(),
            server_assignor: self.assignor.as_deref(),
            topic_partitions: owned,
        }
    }

    /// As it reaches the coordinator.
    pub fn sent(&self) -> ConsumerHeartbeat {
        let mut writer = Writer::new();
        self.request().encode(&mut writer, self.version).expect("a heartbeat");
        ConsumerHeartbeat {
            body: writer.into_bytes().into(),
            version: self.version,
            client_id: "client".into(),
            client_host: "/127.0.0.1".into(),
            fresh_member_id: "fresh".into(),
            searcher: None,
        }
    }
}

/// What a member of the classic protocol says it wants and owns, in version 1.
pub(super) fn subscription(topics: &[&str], owned: &[(&str, &[i32])]) -> Bytes {
    let owned = owned.iter();
    let owned = owned.map(|(topic, partitions)| embedded::TopicPartitions {
        topic,
        partitions: partitions.to_vec(),
    });
    let value = embedded::ConsumerProtocolSubscription {
        topics: topics.to_vec(),
        owned_partitions: owned.collect(),
        ..Default::default()
    };
    embedded::encode_prefixed(&value, 1).expect("a subscription").into()
}

/// What such a member is told, in version 1.
pub(super) fn assignment(assigned: &[(&str, &[i32])]) -> Bytes {
    let topics = assigned.iter();
    let topics = topics.map(|(topic, partitions)| embedded::TopicPartitions {
        topic,
        partitions: partitions.to_vec(),
    });
    let value = embedded::ConsumerProtocolAssignment {
        assigned_partitions: topics.collect(),
        user_data: None,
    };
    embedded::encode_prefixed(&value, 1).expect("an assignment").into()
}

/// A JoinGroup of a member of the classic protocol that has an id.
pub(super) fn guest_join(member: &str, subscription: Bytes) -> JoinRequest {
    let protocol = |name: &str| Protocol { name: name.into(), metadata: subscription.clone() };
    JoinRequest {
        member_id: member.into(),
        instance_id: None,
        client_id: "classic".into(),
        client_host: "/127.0.0.2".into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 7_000,
        protocol_type: "consumer".into(),
        protocols: vec![protocol("range"), protocol("sticky")],
        new_member_uuid: "fresh".into(),
        rules: JoinRules::of_version(9),
    }
}

/// A SyncGroup of one.
pub(super) fn guest_sync(member: &str, generation: i32) -> SyncRequest {
    SyncRequest {
        member_id: member.into(),
        instance_id: None,
        generation,
        protocol_type: Some("consumer".into()),
        protocol: Some("range".into()),
        assignments: Vec::new(),
    }
}

/// A group whose log is replayed into a second one at every step; both must stay the same.
pub(super) struct Bench {
    pub topics: Topics,
    pub now: u64,
    pub group: ConsumerGroup,
    shadow: ConsumerGroup,
    pub log: Vec<ConsumerRecord>,
}

impl Bench {
    pub fn new(topics: &[(&str, u32)]) -> Bench {
        Bench::with_settings(topics, ConsumerSettings::default())
    }

    pub fn with_settings(topics: &[(&str, u32)], settings: ConsumerSettings) -> Bench {
        Bench {
            topics: Topics::new(topics),
            now: 1_000_000,
            group: ConsumerGroup::new(settings.clone()),
            shadow: ConsumerGroup::new(settings),
            log: Vec::new(),
        }
    }

    /// Goes on with another group, which is written as a whole.
    pub fn begin_with(&mut self, group: ConsumerGroup) {
        let settings = group.settings.clone();
        (self.shadow, self.log) = (ConsumerGroup::new(settings), Vec::new());
        let records = group.records();
        self.group = group;
        self.written(records);
    }

    pub fn beat(&mut self, beat: &Beat) -> Result<HeartbeatAnswer, HeartbeatError> {
        let caller = Caller {
            version: beat.version,
            client_id: "client",
            client_host: "/127.0.0.1",
            fresh_member_id: "fresh",
        };
        let before = self.group.state.clone();
        match self.group.heartbeat(&beat.request(), &caller, &self.topics, self.now) {
            Ok((answer, records)) => {
                self.written(records);
                Ok(answer)
            }
            Err(error) => {
                assert_eq!(self.group.state, before, "a refused heartbeat changed the group");
                Err(error)
            }
        }
    }

    pub fn ok(&mut self, beat: &Beat) -> HeartbeatAnswer {
        self.beat(beat).expect("a good heartbeat")
    }

    pub fn refused(&mut self, beat: &Beat) -> HeartbeatError {
        self.beat(beat).expect_err("a bad heartbeat")
    }

    /// A JoinGroup of a member of the classic protocol.
    pub fn guest_joins(&mut self, request: &JoinRequest) -> Result<JoinAnswer, ErrorCode> {
        let before = self.group.state.clone();
        match self.group.join(request, &self.topics, self.now) {
            Ok((answer, records)) => {
                self.written(records);
                Ok(answer)
            }
            Err(answer) => {
                assert_eq!(self.group.state, before, "a refused join changed the group");
                Err(answer.error)
            }
        }
    }

    pub fn guest_syncs(&mut self, request: &SyncRequest) -> Result<Bytes, ErrorCode> {
        let answer = self.group.sync(request, &self.topics, self.now)?;
        Ok(answer.assignment)
    }

    pub fn guest_beats(&mut self, member: &str, generation: i32) -> Result<(), ErrorCode> {
        let caller = ClassicCaller { member_id: member, instance_id: None };
        self.group.classic_heartbeat(caller, generation, self.now)
    }

    /// A LeaveGroup; the errors of its members.
    pub fn leaves(&mut self, leaving: &[(&str, Option<&str>)]) -> Vec<ErrorCode> {
        let one = |(member, instance): &(&str, Option<&str>)| Leaving {
            member_id: (*member).into(),
            instance_id: instance.map(Into::into),
        };
        let leaving = leaving.iter().map(one).collect();
        let (left, records) = self.group.leave_classic(leaving, &self.topics);
        self.written(records);
        left.into_iter().map(|left| left.error).collect()
    }

    pub fn tick(&mut self) -> Vec<ConsumerRecord> {
        let records = self.group.tick(&self.topics, self.now);
        self.written(records.clone());
        records
    }

    /// Lets time pass, with a tick at its end.
    pub fn pass(&mut self, ms: u64) {
        self.now += ms;
        self.tick();
    }

    /// Throws the group away and loads it from its log.
    pub fn reload(&mut self) {
        let settings = self.group.settings.clone();
        let mut group = ConsumerGroup::new(settings);
        self.log.iter().for_each(|record| group.replay(record));
        group.loaded(self.now);
        self.group = group;
    }

    /// Lets a member come in light heartbeats, owning what it is told, until nothing changes.
    pub fn settle(&mut self, member: &str) -> HeartbeatAnswer {
        loop {
            let current = self.member(member).current.clone();
            let owned: Partitions = current.assigned.keys().copied().collect();
            let answer = self.ok(&Beat::new(member, current.epoch.get()).owns(&owned));
            if self.member(member).current == current {
                return answer;
            }
        }
    }

    pub fn settle_all(&mut self, members: &[&str]) {
        for _ in 0..3 {
            for member in members {
                self.settle(member);
            }
        }
    }

    pub fn member(&self, id: &str) -> &Member {
        &self.group.state.members[id]
    }

    pub fn assigned(&self, id: &str) -> Partitions {
        self.member(id).current.assigned.keys().copied().collect()
    }

    pub fn target(&self, id: &str) -> Partitions {
        self.group.state.targets[id].clone()
    }

    fn written(&mut self, records: Vec<ConsumerRecord>) {
        records.iter().for_each(|record| self.shadow.replay(record));
        assert_eq!(self.shadow.state, self.group.state, "the log tells of another group");
        self.log.extend(records);
    }
}
