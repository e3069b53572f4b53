//! Random walks of groups whose members speak both protocols: they come, answer, lag, crash, leave
//! and change their protocol, the coordinator is loaded again, and time passes; so the group changes its protocol to and
//! fro.
//!
//! Method: each member is a small client that knows only what it is told. One of the classic
//! protocol joins, syncs, sends heartbeats, and leads if it is told to; one of the consumer protocol
//! sends heartbeats. What a client uses is what it was told and has not let go of. After every step
//! no two members of the group use one partition and no epoch has gone back. At the end all come in
//! order: then everybody has a share, all partitions are used, and the group is classic exactly when
//! no member of the consumer protocol is left.

use super::testing::{Bench, TOPIC, Topics, name, now};
use super::*;
use crate::group::ask::ConsumerHeartbeat;
use crate::group::classic::{JoinRules, JoinedMember, Protocol};
use crate::group::consumer::testing::Beat;
use crate::wire::messages::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions, decode_prefixed,
    encode_prefixed,
};
use bytes::Bytes;
use millstream_io::runtime::Reply;
use millstream_io::units::{PartitionIndex, TopicPartition};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use std::collections::{BTreeMap, BTreeSet};

const CLIENTS: usize = 5;
/// The first of them are static members.
const STATIC_CLIENTS: usize = 2;
const PARTITIONS: i32 = 8;

type Share = BTreeSet<i32>;

#[derive(Clone, Debug)]
enum Step {
    Start {
        client: usize,
        is_classic: bool,
    },
    /// A static member ends without a word and begins anew under the other protocol.
    Change {
        client: usize,
    },
    /// The next thing that the client has to do; one of the consumer protocol may not let go yet.
    Act {
        client: usize,
        lets_go: bool,
    },
    Leave {
        client: usize,
    },
    Crash {
        client: usize,
    },
    Pass {
        ms: u64,
    },
    Reload,
}

fn steps() -> impl Strategy<Value = Step> {
    let client = 0..CLIENTS;
    prop_oneof![
        4 => (client.clone(), any::<bool>())
            .prop_map(|(client, is_classic)| Step::Start { client, is_classic }),
        24 => (client.clone(), any::<bool>())
            .prop_map(|(client, lets_go)| Step::Act { client, lets_go }),
        2 => (0..STATIC_CLIENTS).prop_map(|client| Step::Change { client }),
        2 => client.clone().prop_map(|client| Step::Leave { client }),
        1 => client.prop_map(|client| Step::Crash { client }),
        3 => (1u64..4_000).prop_map(|ms| Step::Pass { ms }),
        1 => Just(Step::Reload),
    ]
}

#[derive(Default)]
enum Client {
    #[default]
    Away,
    Consumer(Consumer),
    Classic(Classic),
}

/// A client of the consumer protocol.
#[derive(Debug, Default)]
struct Consumer {
    id: String,
    instance: Option<String>,
    epoch: i32,
    told: Share,
    uses: Share,
}

/// A client of the classic protocol.
#[derive(Default)]
struct Classic {
    id: String,
    instance: Option<String>,
    uuid: String,
    generation: i32,
    /// It keeps its partitions while it joins again.
    is_cooperative: bool,
    uses: Share,
    waits: Waits,
}

#[derive(Default)]
enum Waits {
    /// For nothing: it is to join.
    #[default]
    ToJoin,
    Join(Reply<Answer>),
    Sync(Reply<Answer>),
    /// For nothing: it is a member.
    Settled,
}

struct Walk {
    bench: Bench,
    clients: Vec<Client>,
    is_cooperative: bool,
    now_ms: u64,
    started: u32,
    epoch: i32,
}

impl Walk {
    fn new(is_cooperative: bool) -> Walk {
        let clients = (0..CLIENTS).map(|_| Client::Away).collect();
        Walk { bench: Bench::new(), clients, is_cooperative, now_ms: 0, started: 0, epoch: 0 }
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Start { client, is_classic } => self.start(*client, *is_classic),
            Step::Change { client } => self.change(*client),
            Step::Act { client, lets_go } => self.act(*client, *lets_go),
            Step::Leave { client } => self.leave(*client),
            Step::Crash { client } => self.clients[*client] = Client::Away,
            Step::Pass { ms } => self.pass(*ms),
            Step::Reload => self.reload(),
        }
        self.check()
    }

    fn start(&mut self, at: usize, is_classic: bool) {
        if !matches!(self.clients[at], Client::Away) {
            return;
        }
        self.started += 1;
        let instance = (at < STATIC_CLIENTS).then(|| format!("i{at}"));
        self.clients[at] = if is_classic {
            let uuid = format!("classic-{}", self.started);
            let is_cooperative = self.is_cooperative;
            Client::Classic(Classic { uuid, instance, is_cooperative, ..Classic::default() })
        } else {
            let id = format!("consumer-{}", self.started);
            Client::Consumer(Consumer { id, instance, ..Consumer::default() })
        };
    }

    fn change(&mut self, at: usize) {
        match std::mem::take(&mut self.clients[at]) {
            Client::Away => {}
            Client::Consumer(_) => self.start(at, true),
            Client::Classic(_) => self.start(at, false),
        }
    }

    fn act(&mut self, at: usize, lets_go: bool) {
        let when = now(self.now_ms);
        let mut client = std::mem::take(&mut self.clients[at]);
        match &mut client {
            Client::Away => {}
            Client::Consumer(consumer) => consumer.beat(&mut self.bench, when, lets_go),
            Client::Classic(classic) => classic.act(&mut self.bench, when),
        }
        self.clients[at] = client;
        self.bench.flush(when);
    }

    fn leave(&mut self, at: usize) {
        let when = now(self.now_ms);
        match std::mem::take(&mut self.clients[at]) {
            Client::Away => {}
            Client::Consumer(Consumer { id, instance, .. }) => {
                let beat = heartbeat(&id, instance.as_deref(), -1, None);
                drop(self.bench.ask("g", when, |reply| Ask::ConsumerHeartbeat(beat, reply)));
            }
            Client::Classic(Classic { id, instance, .. }) => {
                let instance_id = instance.as_deref().map(name);
                let leaving = vec![Leaving { member_id: name(&id), instance_id }];
                drop(self.bench.ask("g", when, |waiter| Ask::Leave(leaving, waiter)));
            }
        }
        self.bench.flush(when);
    }

    fn pass(&mut self, ms: u64) {
        // A static member that misses a round of joins keeps its place in a classic group, and so
        // may read what another has got. None of these is that slow.
        for at in (0..STATIC_CLIENTS).flat_map(|at| [at; 3]) {
            self.act(at, true);
        }
        self.now_ms += ms;
        let when = now(self.now_ms);
        while self.bench.groups.next_deadline().is_some_and(|due| due <= self.now_ms) {
            let entries = self.bench.groups.tick(&Topics, when);
            self.bench.waiting.extend(entries);
            self.bench.flush(when);
            if self.bench.groups.next_deadline() == Some(self.now_ms + 1) {
                break;
            }
        }
    }

    /// The coordinator crashes and reads its log. Answers that it owes do not come.
    fn reload(&mut self) {
        let groups = self.bench.reload(now(self.now_ms));
        let few = Bench::of(self.bench.groups.records());
        let records = few.reload(now(self.now_ms)).records();
        assert_eq!(records, groups.records(), "a compacted log tells of another group");
        self.bench.groups = groups;
        self.bench.waiting.clear();
        // A round that had begun a generation is forgotten with it.
        if self.kind() != Some(GroupKindOf::Consumer) {
            self.epoch = 0;
        }
    }

    fn kind(&self) -> Option<GroupKindOf> {
        Some(match &self.bench.groups.groups.get("g")?.kind {
            Kind::Classic(_) => GroupKindOf::Classic,
            Kind::Consumer(_) => GroupKindOf::Consumer,
        })
    }

    /// Ids of all members, and the epoch of the group.
    fn members(&mut self) -> (BTreeSet<String>, i32) {
        match self.bench.groups.groups.get("g").map(|group| &group.kind) {
            None => (BTreeSet::new(), 0),
            Some(Kind::Classic(classic)) => {
                let members = classic.describe().members;
                (members.iter().map(|m| m.member_id.to_string()).collect(), classic.generation())
            }
            Some(Kind::Consumer(consumer)) => {
                let members = consumer.describe(&Topics).members;
                let epoch = consumer.epoch().get();
                (members.iter().map(|member| member.id.to_string()).collect(), epoch)
            }
        }
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        let (members, epoch) = self.members();
        prop_assert!(epoch >= self.epoch, "the group went back from {} to {}", self.epoch, epoch);
        // A group that changes its protocol while it is empty begins anew.
        self.epoch = if members.is_empty() { 0 } else { epoch };
        let mut users: BTreeMap<i32, &str> = BTreeMap::new();
        for client in &self.clients {
            let (id, uses) = match client {
                Client::Away => continue,
                Client::Consumer(consumer) => (&consumer.id, &consumer.uses),
                Client::Classic(classic) => (&classic.id, &classic.uses),
            };
            // Who was removed hears of it with its next request.
            if !members.contains(id) {
                continue;
            }
            for partition in uses {
                let other = users.insert(*partition, id);
                prop_assert_eq!(other, None, "{} is used by {} too", partition, id);
            }
        }
        Ok(())
    }

    /// Lets everybody come in order, long enough for those that crashed to be removed.
    fn calm_down(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..80 {
            self.pass(1_000);
            for at in 0..CLIENTS {
                for _ in 0..3 {
                    self.act(at, true);
                    self.check()?;
                }
            }
        }
        let (members, _) = self.members();
        let mut all = Share::new();
        let (mut live, mut has_consumer) = (0, false);
        for client in &self.clients {
            let (id, uses) = match client {
                Client::Away => continue,
                Client::Consumer(consumer) => (&consumer.id, &consumer.uses),
                Client::Classic(classic) => {
                    let is_settled = matches!(classic.waits, Waits::Settled);
                    prop_assert!(is_settled, "{} waits", classic.id);
                    (&classic.id, &classic.uses)
                }
            };
            has_consumer |= matches!(client, Client::Consumer(_));
            live += 1;
            prop_assert!(members.contains(id), "{} is no member of {:?}", id, members);
            prop_assert!(!uses.is_empty(), "{} has nothing", id);
            all.extend(uses);
        }
        prop_assert_eq!(members.len(), live);
        if live > 0 {
            prop_assert_eq!(all, (0..PARTITIONS).collect::<Share>());
            let kind = if has_consumer { GroupKindOf::Consumer } else { GroupKindOf::Classic };
            prop_assert_eq!(self.kind(), Some(kind));
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GroupKindOf {
    Classic,
    Consumer,
}

impl Consumer {
    fn beat(&mut self, bench: &mut Bench, when: Now, lets_go: bool) {
        if lets_go {
            self.uses.clone_from(&self.told);
        }
        let beat = heartbeat(&self.id, self.instance.as_deref(), self.epoch, Some(&self.uses));
        let mut reply = bench.ask("g", when, |reply| Ask::ConsumerHeartbeat(beat, reply));
        bench.flush(when);
        match reply.try_take().unwrap().unwrap() {
            Ok(answer) => {
                self.epoch = answer.member_epoch.get();
                if let Some(assignment) = answer.assignment {
                    self.told = assignment.iter().map(|at| at.partition.get()).collect();
                    self.uses.extend(&self.told);
                }
            }
            Err(refusal) => {
                let expected = [
                    ErrorCode::UnknownMemberId,
                    ErrorCode::FencedMemberEpoch,
                    ErrorCode::GroupIdNotFound,
                    // A static member of this protocol crashed; its session is not over.
                    ErrorCode::UnreleasedInstanceId,
                ];
                assert!(expected.contains(&refusal.code), "{refusal:?}");
                self.told.clear();
                self.uses.clear();
                self.epoch = 0;
            }
        }
    }
}

impl Classic {
    fn act(&mut self, bench: &mut Bench, when: Now) {
        match &mut self.waits {
            Waits::ToJoin => {
                let join = self.join();
                self.waits = Waits::Join(bench.ask("g", when, |waiter| Ask::Join(join, waiter)));
            }
            Waits::Join(reply) => match reply.try_take() {
                None => {}
                Some(Ok(Answer::Join(answer))) => self.joined(answer, bench, when),
                Some(other) => self.lost(&other),
            },
            Waits::Sync(reply) => match reply.try_take() {
                None => {}
                Some(Ok(Answer::Sync(answer))) => self.synced(&answer),
                Some(other) => self.lost(&other),
            },
            Waits::Settled => {
                let beat = Heartbeat {
                    member_id: name(&self.id),
                    instance_id: self.instance.as_deref().map(name),
                    generation: self.generation,
                };
                let mut reply = bench.ask("g", when, |reply| Ask::Heartbeat(beat, reply));
                let error = reply.try_take().unwrap().unwrap();
                if error != ErrorCode::None {
                    self.fail(error);
                }
            }
        }
        bench.flush(when);
    }

    /// The coordinator is gone, and a retry is due.
    fn lost(&mut self, got: &Result<Answer, impl std::fmt::Debug>) {
        assert!(got.is_err(), "{got:?}");
        self.go_joining();
    }

    fn go_joining(&mut self) {
        if !self.is_cooperative {
            self.uses.clear();
        }
        self.waits = Waits::ToJoin;
    }

    fn fail(&mut self, error: ErrorCode) {
        match error {
            ErrorCode::RebalanceInProgress => {}
            // Fenced by its former self, which a restart brought back: its process ends and begins.
            ErrorCode::UnknownMemberId | ErrorCode::FencedInstanceId => {
                self.id.clear();
                self.uses.clear();
            }
            ErrorCode::IllegalGeneration => self.uses.clear(),
            other => panic!("{}: {other}", self.id),
        }
        self.go_joining();
    }

    fn join(&self) -> JoinRequest {
        let partitions = self.uses.iter().copied().collect();
        let owned = (!self.uses.is_empty()).then_some(TopicPartitions { topic: "t", partitions });
        let subscription = ConsumerProtocolSubscription {
            topics: vec!["t"],
            owned_partitions: owned.into_iter().collect(),
            ..Default::default()
        };
        let metadata = Bytes::from(encode_prefixed(&subscription, 1).unwrap());
        JoinRequest {
            member_id: name(&self.id),
            instance_id: self.instance.as_deref().map(name),
            client_id: name("client"),
            client_host: name("/127.0.0.1"),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 8_000,
            protocol_type: name("consumer"),
            protocols: vec![Protocol { name: name("p"), metadata }],
            new_member_uuid: name(&self.uuid),
            rules: JoinRules::of_version(9),
        }
    }

    fn joined(&mut self, answer: JoinAnswer, bench: &mut Bench, when: Now) {
        match answer.error {
            ErrorCode::None => {
                self.id = answer.member_id.to_string();
                self.generation = answer.generation;
                let is_leader = answer.leader == answer.member_id;
                let sync = SyncRequest {
                    member_id: answer.member_id,
                    instance_id: self.instance.as_deref().map(name),
                    generation: answer.generation,
                    protocol_type: answer.protocol_type,
                    protocol: answer.protocol,
                    assignments: if is_leader { assigned(&answer.members) } else { Vec::new() },
                };
                self.waits = Waits::Sync(bench.ask("g", when, |waiter| Ask::Sync(sync, waiter)));
            }
            ErrorCode::MemberIdRequired => {
                self.id = answer.member_id.to_string();
                self.waits = Waits::ToJoin;
            }
            error => self.fail(error),
        }
    }

    fn synced(&mut self, answer: &SyncAnswer) {
        if answer.error != ErrorCode::None {
            self.fail(answer.error);
            return;
        }
        let share = share(&answer.assignment);
        // What it must let go of it does at once, and says so by joining again.
        let must_rejoin = !self.uses.is_subset(&share);
        self.uses = share;
        self.waits = Waits::Settled;
        if must_rejoin {
            self.go_joining();
        }
    }
}

/// What a leader decides: everybody as much as another; what another still owns is given to nobody
/// yet, as cooperative assignors do.
fn assigned(members: &[JoinedMember]) -> Vec<(Name, Bytes)> {
    let owned = |member: &JoinedMember| {
        let read: ConsumerProtocolSubscription<'_> = decode_prefixed(&member.metadata).unwrap();
        read.owned_partitions.iter().flat_map(|owned| owned.partitions.clone()).collect::<Share>()
    };
    let owners: Vec<Share> = members.iter().map(owned).collect();
    let one = |(index, member): (usize, &JoinedMember)| {
        let is_mine = |partition: &i32| *partition as usize % members.len() == index;
        let is_free = |partition: &i32| {
            owners
                .iter()
                .enumerate()
                .all(|(other, owned)| other == index || !owned.contains(partition))
        };
        let partitions: Vec<i32> = (0..PARTITIONS).filter(is_mine).filter(is_free).collect();
        let topics = vec![TopicPartitions { topic: "t", partitions }];
        let assignment =
            ConsumerProtocolAssignment { assigned_partitions: topics, user_data: None };
        (member.member_id.clone(), Bytes::from(encode_prefixed(&assignment, 1).unwrap()))
    };
    members.iter().enumerate().map(one).collect()
}

fn share(assignment: &[u8]) -> Share {
    if assignment.is_empty() {
        return Share::new();
    }
    let read: ConsumerProtocolAssignment<'_> = decode_prefixed(assignment).unwrap();
    assert!(read.assigned_partitions.iter().all(|topic| topic.topic == "t"));
    read.assigned_partitions.iter().flat_map(|topic| topic.partitions.clone()).collect()
}

fn heartbeat(
    id: &str,
    instance: Option<&str>,
    epoch: i32,
    owned: Option<&Share>,
) -> ConsumerHeartbeat {
    let is_join = epoch == 0;
    let beat = if is_join { Beat::join(id, &["t"]) } else { Beat::new(id, epoch) };
    let one = |index: &i32| TopicPartition { topic: TOPIC, partition: PartitionIndex::at(*index) };
    let owned = owned.filter(|_| !is_join).map(|owned| owned.iter().map(one).collect());
    Beat {
        instance: instance.map(str::to_owned),
        rebalance_timeout_ms: if is_join { 8_000 } else { -1 },
        owned: owned.or(beat.owned.clone()),
        ..beat
    }
    .sent()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn members_of_both_protocols_never_share_a_partition_and_end_with_all_of_them(
        is_cooperative in any::<bool>(),
        steps in prop::collection::vec(steps(), 1..150),
    ) {
        let mut walk = Walk::new(is_cooperative);
        for step in &steps {
            walk.step(step)?;
        }
        walk.calm_down()?;
    }
}
