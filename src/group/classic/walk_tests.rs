//! Random walks: clients that join, sync, hang, crash, come back and leave around one group, whose
//! records become durable late, whose coordinator restarts, and whose clock jumps. Method: every
//! answer is held against a small model of what was said before; at the end all clients behave, and
//! the group must become stable with every one of them.

use bytes::Bytes;
use proptest::prelude::*;
use std::collections::BTreeMap;

use super::testing::*;
use super::*;

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A client does what comes next.
    Act(usize),
    /// A client dies; it comes back without its member id.
    Crash(usize),
    /// A client joins again, whatever it is about.
    Rejoin {
        client: usize,
        is_changed: bool,
    },
    /// A client syncs with the generation it knows, whatever it is about.
    Resync(usize),
    Leave(usize),
    /// Seconds pass in which all clients do what comes next, but for one that hangs.
    Live {
        seconds: u64,
        hangs: usize,
    },
    Pass(u64),
    /// One record becomes durable.
    Durable,
    /// The coordinator begins again from the last durable record.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let client = || 0..CLIENTS;
    let step = prop_oneof![
        16 => client().prop_map(Step::Act),
        5 => (1_u64..20, client()).prop_map(|(seconds, hangs)| Step::Live { seconds, hangs }),
        2 => client().prop_map(Step::Crash),
        2 => (client(), any::<bool>())
            .prop_map(|(client, is_changed)| Step::Rejoin { client, is_changed }),
        3 => client().prop_map(Step::Resync),
        1 => client().prop_map(Step::Leave),
        4 => (0_u64..2_000).prop_map(Step::Pass),
        1 => (0_u64..10 * SESSION_MS).prop_map(Step::Pass),
        4 => Just(Step::Durable),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..200)
}

/// Two of each: dynamic of today, dynamic of old, static of today.
const CLIENTS: usize = 6;

/// Shorter than a session, so that static members outlast a round without joining it.
const ROUND_MS: u64 = SESSION_MS / 2;

#[derive(Clone, Debug, Default)]
struct Client {
    member_id: Option<Name>,
    /// Of the last join that was answered well.
    generation: i32,
    joining: Option<Ticket>,
    syncing: Option<Ticket>,
    /// True when it is to join: at the start, and after most errors.
    has_to_join: bool,
    is_synced: bool,
    /// The members that it is to assign to, as a leader.
    leads: Vec<Name>,
    metadata: u32,
}

/// What is known of a generation.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Leader and protocol, from the first answer that named them.
    of_all: Option<(Name, Option<Name>)>,
    /// What its leader gave to each member.
    shares: Option<BTreeMap<Name, Bytes>>,
}

struct Walk {
    scene: Scene,
    clients: Vec<Client>,
    /// Every id the group gave out, and to which client.
    owners: BTreeMap<Name, usize>,
    tickets: u32,
    known: BTreeMap<i32, Known>,
    generation: i32,
    generation_seen_ms: u64,
    durable: Option<GroupSnapshot>,
    given: u32,
}

impl Walk {
    fn new() -> Walk {
        let client = Client { has_to_join: true, ..Client::default() };
        Walk {
            scene: Scene::new(),
            clients: vec![client; CLIENTS],
            owners: BTreeMap::new(),
            tickets: 0,
            known: BTreeMap::new(),
            generation: 0,
            generation_seen_ms: 0,
            durable: None,
            given: 0,
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Act(client) => self.act(client),
            Step::Crash(client) => {
                let metadata = self.clients[client].metadata;
                self.clients[client] = Client { has_to_join: true, metadata, ..Client::default() };
            }
            Step::Rejoin { client, is_changed } => {
                self.clients[client].metadata += u32::from(is_changed);
                self.join(client);
            }
            Step::Resync(client) => self.sync(client),
            Step::Leave(client) => self.leave(client),
            Step::Live { seconds, hangs } => self.live(seconds, hangs),
            Step::Pass(ms) => self.scene.pass(ms),
            Step::Durable => self.one_durable(),
            Step::Restart => self.restart(),
        }
        self.check();
    }

    /// What holds after every step.
    fn check(&mut self) {
        let group = &self.scene.group;
        group.assert_sound();
        assert!(group.generation() >= self.generation, "generation went back");
        if group.generation() > self.generation && group.state() == State::CompletingRebalance {
            let leads = |answer: &&Answer| {
                matches!(answer, Answer::Join(join) if join.generation == group.generation()
                    && !join.members.is_empty())
            };
            let leaders = self.scene.answers.values().filter(leads).count();
            assert!(leaders > 0, "nobody was told to lead generation {}", group.generation());
        }
        if group.generation() != self.generation {
            self.generation_seen_ms = self.scene.now_ms;
        }
        if group.state() == State::CompletingRebalance && group.storing.is_none() {
            let ms = self.scene.now_ms - self.generation_seen_ms;
            assert!(ms <= ROUND_MS, "the leader's assignment is awaited for {ms} ms");
        }
        self.generation = group.generation();
        let unanswered = usize::try_from(self.tickets).unwrap() - self.scene.answers.len();
        assert_eq!(group.waiters(), unanswered, "a waiter is lost or kept after its answer");
    }

    fn live(&mut self, seconds: u64, hangs: usize) {
        for _ in 0..seconds {
            self.scene.pass(1_000);
            (0..CLIENTS).filter(|index| *index != hangs).for_each(|index| self.act(index));
        }
    }

    fn act(&mut self, index: usize) {
        self.hear(index);
        let client = &self.clients[index];
        if client.joining.is_some() || client.syncing.is_some() {
            return;
        }
        if client.has_to_join {
            self.join(index);
        } else if !client.is_synced {
            self.sync(index);
        } else {
            self.heartbeat(index);
        }
    }

    fn request(&self, index: usize) -> JoinRequest {
        let client = &self.clients[index];
        let request = match (&client.member_id, index % 3) {
            (Some(id), 2) => JoinRequest { instance_id: Some(name(&instance(index))), ..join(id) },
            (Some(id), _) => join(id),
            (None, 2) => static_join(&instance(index)),
            (None, 1) => old_join(),
            (None, _) => join(""),
        };
        let metadata = format!("{index}: {}", client.metadata);
        let both = [("range", &*metadata), ("sticky", &*metadata)];
        // Everybody knows both; some like one better, some the other. (With members that know one
        // only, a restart could shut them out: a record names the chosen protocol alone.)
        let likes_sticky = (index + usize::try_from(client.metadata).unwrap()).is_multiple_of(2);
        let of = if likes_sticky { [both[1], both[0]] } else { both };
        let rebalance_timeout_ms = i32::try_from(ROUND_MS).unwrap();
        JoinRequest { rebalance_timeout_ms, ..with_protocols(request, &of) }
    }

    fn join(&mut self, index: usize) {
        let ticket = self.scene.join(self.request(index));
        self.tickets += 1;
        let client = &mut self.clients[index];
        (client.joining, client.syncing) = (Some(ticket), None);
        client.has_to_join = false;
        client.is_synced = false;
        self.hear(index);
    }

    fn sync(&mut self, index: usize) {
        let client = &self.clients[index];
        let Some(id) = client.member_id.clone() else { return };
        // The leader leaves one member out; ids that are gone by now get something, too.
        let mut shares = BTreeMap::new();
        for (n, member) in client.leads.iter().enumerate() {
            if n % 4 != 3 {
                self.given += 1;
                let share = Bytes::from(format!("{} for {member}", self.given));
                shares.insert(member.clone(), share);
            }
        }
        let request = SyncRequest {
            instance_id: (index % 3 == 2).then(|| name(&instance(index))),
            protocol: None,
            assignments: shares.clone().into_iter().collect(),
            ..sync(&id, client.generation, &[])
        };
        let (generation, records) = (client.generation, self.scene.records.len());
        let ticket = self.scene.sync(request);
        self.tickets += 1;
        if self.scene.records.len() > records {
            let shares = shares.into_iter().map(|(id, share)| (self.who(&id), share)).collect();
            let known = self.known.entry(generation).or_default();
            assert_eq!(known.shares, None, "generation {generation} is assigned twice");
            known.shares = Some(shares);
        }
        let client = &mut self.clients[index];
        (client.joining, client.syncing) = (None, Some(ticket));
        client.has_to_join = false;
        self.hear(index);
    }

    fn heartbeat(&mut self, index: usize) {
        let client = &self.clients[index];
        let Some(id) = client.member_id.clone() else { return };
        let (generation, now) = (client.generation, self.scene.now());
        let instance = instance(index);
        let instance_id = (index % 3 == 2).then_some(&*instance);
        let caller = Caller { member_id: &id, instance_id };
        if let Err(error) = self.scene.group.heartbeat(caller, generation, now) {
            self.refused(index, error);
        }
    }

    fn leave(&mut self, index: usize) {
        let instance = instance(index);
        let client = &self.clients[index];
        let member = match (&client.member_id, index % 3) {
            (_, 2) => leaving("", Some(&instance)),
            (Some(id), _) => leaving(id, None),
            (None, _) => return,
        };
        let _ = self.scene.leave(&[member]);
        self.tickets += 1;
    }

    fn one_durable(&mut self) {
        if self.scene.records.is_empty() {
            return;
        }
        let (number, content) = self.scene.records.remove(0);
        self.durable = Some(content);
        let out = self.scene.group.stored(number, self.scene.now());
        self.scene.take(out);
    }

    fn restart(&mut self) {
        // What was answered before is heard before: the model forgets what is lost now.
        (0..CLIENTS).for_each(|index| self.hear(index));
        let now = self.scene.now();
        let group = match self.durable.clone() {
            Some(record) => ClassicGroup::restore(settings(), record, now),
            None => ClassicGroup::new(settings(), now),
        };
        let old = std::mem::replace(&mut self.scene.group, group);
        for (ticket, answer) in old.abandon(ErrorCode::NotCoordinator) {
            assert_eq!(self.scene.answers.insert(ticket, answer), None);
        }
        self.scene.records.clear();
        self.generation = self.scene.group.generation();
        // Generations that never became durable come again.
        self.known.retain(|generation, _| *generation <= self.generation);
    }

    /// A client takes the answers that are there for it.
    fn hear(&mut self, index: usize) {
        if let Some(ticket) = self.clients[index].joining
            && !self.scene.is_waiting(ticket)
        {
            self.clients[index].joining = None;
            let answer = self.scene.join_answer(ticket);
            self.joined(index, answer);
        }
        if let Some(ticket) = self.clients[index].syncing
            && !self.scene.is_waiting(ticket)
        {
            self.clients[index].syncing = None;
            let answer = self.scene.sync_answer(ticket);
            self.synced(index, answer);
        }
    }

    fn joined(&mut self, index: usize, answer: JoinAnswer) {
        if answer.error == ErrorCode::MemberIdRequired {
            self.owners.insert(answer.member_id.clone(), index);
            self.clients[index].member_id = Some(answer.member_id);
            self.clients[index].has_to_join = true;
            return;
        }
        if answer.error != ErrorCode::None {
            self.refused(index, answer.error);
            return;
        }
        let owner = *self.owners.entry(answer.member_id.clone()).or_insert(index);
        assert_eq!(owner, index, "{} has two clients", answer.member_id);
        // Clients hear late: ids of members that have not heard of theirs tell whose they are.
        for member in &answer.members {
            let owner = self.owner_of(member);
            self.owners.insert(member.member_id.clone(), owner);
        }
        let client = &mut self.clients[index];
        client.member_id = Some(answer.member_id.clone());
        client.generation = answer.generation;
        client.leads = answer.members.iter().map(|m| m.member_id.clone()).collect();
        if !answer.members.is_empty() {
            assert!(client.leads.contains(&answer.leader), "the leader is none of its members");
            assert_eq!(
                answer.leader, answer.member_id,
                "two lead generation {}",
                answer.generation
            );
        }
        if self.owners.contains_key(&answer.leader) {
            let of_all = (self.who(&answer.leader), answer.protocol);
            let known = self.known.entry(answer.generation).or_default();
            assert_eq!(*known.of_all.get_or_insert(of_all.clone()), of_all);
        }
    }

    /// A member, whatever its id is now: a static one keeps its place under another.
    fn who(&self, id: &Name) -> Name {
        match self.owners[id] {
            index if index % 3 == 2 => name(&instance(index)),
            _ => id.clone(),
        }
    }

    fn owner_of(&self, member: &JoinedMember) -> usize {
        let text = String::from_utf8(member.metadata.to_vec()).unwrap();
        text.split(':').next().unwrap().parse().unwrap()
    }

    fn synced(&mut self, index: usize, answer: SyncAnswer) {
        if answer.error != ErrorCode::None {
            self.refused(index, answer.error);
            return;
        }
        let who = self.who(self.clients[index].member_id.as_ref().unwrap());
        let client = &mut self.clients[index];
        client.is_synced = true;
        let given = self.known[&client.generation].shares.as_ref();
        let share = given.unwrap().get(&who).cloned().unwrap_or_default();
        assert_eq!(answer.assignment, share, "not what the leader gave to {index}");
    }

    fn refused(&mut self, index: usize, error: ErrorCode) {
        let client = &mut self.clients[index];
        match error {
            ErrorCode::RebalanceInProgress | ErrorCode::NotCoordinator => {}
            ErrorCode::UnknownMemberId
            | ErrorCode::IllegalGeneration
            | ErrorCode::FencedInstanceId => client.member_id = None,
            other => panic!("client {index} is answered {other:?}"),
        }
        client.leads.clear();
        client.has_to_join = true;
        client.is_synced = false;
    }

    /// All clients behave, and records become durable.
    fn settle(&mut self) {
        for _ in 0..2_000 {
            self.scene.pass(100);
            (0..CLIENTS).for_each(|index| self.act(index));
            while !self.scene.records.is_empty() {
                self.one_durable();
            }
            self.check();
        }
        assert_eq!(self.scene.group.state(), State::Stable);
        assert_eq!(self.scene.group.waiters(), 0);
        let members: Vec<_> =
            self.scene.group.describe().members.into_iter().map(|m| m.member_id).collect();
        let mut own: Vec<_> = self.clients.iter().filter_map(|c| c.member_id.clone()).collect();
        own.sort();
        assert_eq!(members, own);
        assert!(self.clients.iter().all(|client| client.is_synced));
    }
}

fn instance(index: usize) -> String {
    format!("instance-{index}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_walk_keeps_its_promises_and_ends_stable(steps in steps()) {
        let mut walk = Walk::new();
        for step in steps {
            walk.take(step);
        }
        walk.settle();
    }
}
