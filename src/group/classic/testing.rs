//! A group with clients around it, for tests: tickets are the waiters, and time is told.

use bytes::Bytes;
use std::collections::BTreeMap;

use super::*;

pub const SESSION_MS: u64 = 10_000;
pub const REBALANCE_MS: u64 = 60_000;
pub const DELAY_MS: u64 = 3_000;

pub fn name(text: &str) -> Name {
    Name::from(text)
}

pub fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub fn protocols(of: &[(&str, &str)]) -> Vec<Protocol> {
    of.iter().map(|(n, m)| Protocol { name: name(n), metadata: bytes(m) }).collect()
}

/// A join as a consumer of today sends it.
pub fn join(member_id: &str) -> JoinRequest {
    JoinRequest {
        member_id: name(member_id),
        instance_id: None,
        client_id: name("client"),
        client_host: name("/10.0.0.1"),
        session_timeout_ms: i32::try_from(SESSION_MS).unwrap(),
        rebalance_timeout_ms: i32::try_from(REBALANCE_MS).unwrap(),
        protocol_type: name("consumer"),
        protocols: protocols(&[("range", "topics")]),
        new_member_uuid: name(""),
        rules: JoinRules::of_version(9),
    }
}

pub fn static_join(instance_id: &str) -> JoinRequest {
    JoinRequest { instance_id: Some(name(instance_id)), ..join("") }
}

/// A join as a consumer of old sends it: it gets its id with the answer.
pub fn old_join() -> JoinRequest {
    JoinRequest { rules: JoinRules::of_version(3), ..join("") }
}

pub fn with_protocols(request: JoinRequest, of: &[(&str, &str)]) -> JoinRequest {
    JoinRequest { protocols: protocols(of), ..request }
}

pub fn sync(member_id: &str, generation: i32, assignments: &[(&str, &str)]) -> SyncRequest {
    SyncRequest {
        member_id: name(member_id),
        instance_id: None,
        generation,
        protocol_type: Some(name("consumer")),
        protocol: Some(name("range")),
        assignments: assignments.iter().map(|(id, share)| (name(id), bytes(share))).collect(),
    }
}

pub fn caller(member_id: &str) -> Caller<'_> {
    Caller { member_id, instance_id: None }
}

pub fn leaving(member_id: &str, instance_id: Option<&str>) -> Leaving {
    Leaving { member_id: name(member_id), instance_id: instance_id.map(name) }
}

pub fn settings() -> Settings {
    Settings { initial_delay_ms: DELAY_MS, ..Settings::default() }
}

/// What a waiter waits by, in tests.
pub type Ticket = u32;

pub struct Scene {
    pub group: ClassicGroup<Ticket>,
    pub now_ms: u64,
    pub answers: BTreeMap<Ticket, Answer>,
    /// Records asked for and not durable yet.
    pub records: Vec<(StoreNumber, GroupSnapshot)>,
    pub tombstones: usize,
    next_ticket: Ticket,
}

impl Scene {
    pub fn new() -> Scene {
        Scene::with(settings())
    }

    pub fn with(settings: Settings) -> Scene {
        let start = Now { ms: 1_000, wall: TimestampMs::new(1_001_000) };
        Scene::around(ClassicGroup::new(settings, start))
    }

    pub fn around(group: ClassicGroup<Ticket>) -> Scene {
        Scene {
            group,
            now_ms: 1_000,
            answers: BTreeMap::new(),
            records: Vec::new(),
            tombstones: 0,
            next_ticket: 0,
        }
    }

    /// A stable group of old clients' members; the ids are "client-1", "client-2" ...
    pub fn stable(members: usize) -> Scene {
        let mut scene = Scene::new();
        let tickets: Vec<_> = (0..members).map(|_| scene.join(old_join())).collect();
        scene.pass(2 * DELAY_MS);
        let ids: Vec<_> = tickets.iter().map(|t| scene.joined(*t).member_id).collect();
        scene.sync_all(&ids);
        assert_eq!(scene.group.state(), State::Stable);
        scene
    }

    /// A stable group of one static member each.
    pub fn stable_static(instances: &[&str]) -> (Scene, Vec<Name>) {
        let mut scene = Scene::new();
        let tickets: Vec<_> = instances.iter().map(|i| scene.join(static_join(i))).collect();
        scene.pass(2 * DELAY_MS);
        let ids: Vec<_> = tickets.iter().map(|t| scene.joined(*t).member_id).collect();
        scene.sync_all(&ids);
        assert_eq!(scene.group.state(), State::Stable);
        (scene, ids)
    }

    pub fn now(&self) -> Now {
        let wall = TimestampMs::new(1_000_000 + i64::try_from(self.now_ms).unwrap());
        Now { ms: self.now_ms, wall }
    }

    fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        self.next_ticket
    }

    pub fn take(&mut self, out: Outcome<Ticket>) {
        for (ticket, answer) in out.answers {
            let former = self.answers.insert(ticket, answer);
            assert_eq!(former, None, "waiter {ticket} is answered twice");
        }
        match out.store {
            Store::Nothing => {}
            Store::Group { number, content } => self.records.push((number, *content)),
            Store::Tombstone => self.tombstones += 1,
        }
    }

    pub fn join(&mut self, mut request: JoinRequest) -> Ticket {
        let ticket = self.ticket();
        request.new_member_uuid = name(&ticket.to_string());
        let out = self.group.join(request, ticket, self.now());
        self.take(out);
        ticket
    }

    pub fn sync(&mut self, request: SyncRequest) -> Ticket {
        let ticket = self.ticket();
        let out = self.group.sync(request, ticket, self.now());
        self.take(out);
        ticket
    }

    pub fn leave(&mut self, members: &[Leaving]) -> Ticket {
        let ticket = self.ticket();
        let out = self.group.leave(members.to_vec(), ticket, self.now());
        self.take(out);
        ticket
    }

    pub fn heartbeat(&mut self, member_id: &str) -> Result<(), ErrorCode> {
        let generation = self.group.generation();
        self.group.heartbeat(caller(member_id), generation, self.now())
    }

    pub fn commit(&mut self, member_id: &str, generation: i32) -> Result<(), ErrorCode> {
        let kind = CommitKind::Plain;
        self.group.validate_commit(caller(member_id), generation, kind, self.now())
    }

    /// All members sync; the leader gives each "share of" its id.
    pub fn sync_all(&mut self, ids: &[Name]) {
        let generation = self.group.generation();
        let shares: Vec<_> = ids.iter().map(|id| format!("share of {id}")).collect();
        let shares: Vec<_> = ids.iter().zip(&shares).map(|(id, s)| (&**id, &**s)).collect();
        let tickets: Vec<_> =
            ids.iter().map(|id| self.sync(sync(id, generation, &shares))).collect();
        self.durable();
        for (ticket, (_, share)) in tickets.iter().zip(&shares) {
            assert_eq!(self.synced(*ticket).assignment, bytes(share));
        }
    }

    /// All records asked for are durable.
    pub fn durable(&mut self) -> Vec<GroupSnapshot> {
        let records = std::mem::take(&mut self.records);
        for (number, _) in &records {
            let out = self.group.stored(*number, self.now());
            self.take(out);
        }
        records.into_iter().map(|(_, content)| content).collect()
    }

    /// Time passes, with a tick at each deadline.
    pub fn pass(&mut self, ms: u64) {
        let until = self.now_ms + ms;
        let mut ticks = 0;
        while let Some(deadline) = self.group.next_deadline().filter(|d| *d <= until) {
            self.now_ms = self.now_ms.max(deadline);
            let out = self.group.tick(self.now());
            self.take(out);
            ticks += 1;
            assert!(ticks < 10_000, "the group spins at {}", self.now_ms);
        }
        self.now_ms = until;
    }

    /// As [`Scene::pass`], with heartbeats of these members each second.
    pub fn pass_with_heartbeats(&mut self, ms: u64, of: &[&str]) {
        for _ in 0..ms / 1_000 {
            self.pass(1_000);
            for id in of {
                let _ = self.heartbeat(id);
            }
        }
    }

    pub fn is_waiting(&self, ticket: Ticket) -> bool {
        !self.answers.contains_key(&ticket)
    }

    pub fn join_answer(&self, ticket: Ticket) -> JoinAnswer {
        match self.answers.get(&ticket) {
            Some(Answer::Join(answer)) => answer.clone(),
            other => panic!("{ticket} has no answer to a join: {other:?}"),
        }
    }

    pub fn joined(&self, ticket: Ticket) -> JoinAnswer {
        let answer = self.join_answer(ticket);
        assert_eq!(answer.error, ErrorCode::None);
        answer
    }

    pub fn sync_answer(&self, ticket: Ticket) -> SyncAnswer {
        match self.answers.get(&ticket) {
            Some(Answer::Sync(answer)) => answer.clone(),
            other => panic!("{ticket} has no answer to a sync: {other:?}"),
        }
    }

    pub fn synced(&self, ticket: Ticket) -> SyncAnswer {
        let answer = self.sync_answer(ticket);
        assert_eq!(answer.error, ErrorCode::None);
        answer
    }

    pub fn left(&self, ticket: Ticket) -> Vec<ErrorCode> {
        match self.answers.get(&ticket) {
            Some(Answer::Leave(answer)) => answer.members.iter().map(|left| left.error).collect(),
            other => panic!("{ticket} has no answer to a leave: {other:?}"),
        }
    }
}

impl<W> ClassicGroup<W> {
    /// Waiters that are inside.
    pub fn waiters(&self) -> usize {
        let syncing = self.members.iter().filter(|(_, member)| member.is_syncing()).count();
        self.members.joining() + syncing + self.held.len()
    }

    /// Relations between the parts of a group that hold after every call.
    pub fn assert_sound(&self) {
        self.members.assert_sound();
        let has_members = !self.members.is_empty();
        match self.state {
            State::Empty | State::Dead => {
                assert!(!has_members && self.leader.is_none() && self.phase == Phase::Untimed);
            }
            State::PreparingRebalance => {
                assert!(matches!(self.phase, Phase::Gathering { .. } | Phase::Joining { .. }))
            }
            State::CompletingRebalance | State::Stable => {
                assert!(has_members);
                let is_syncing = matches!(self.phase, Phase::Syncing { .. });
                assert!(is_syncing || self.phase == Phase::Untimed);
                let late = self.members.iter().any(|(_, m)| m.has_to_sync() && !m.is_joining());
                assert!(is_syncing || !late, "nobody waits for a member's sync");
            }
        }
        if let Some(leader) = &self.leader {
            assert!(self.members.contains(leader), "{leader} leads and is no member");
        }
        assert!(self.storing.is_none() || self.state == State::CompletingRebalance);
        assert!(self.replaced.is_empty() || self.state == State::Stable);
        let ends = self.members.iter().filter_map(|(_, member)| member.session_end());
        if let Some(first) = ends.chain(self.pending.values().copied()).min() {
            let from = self.sessions_from;
            assert!(from.is_some_and(|f| f <= first), "{first} is overlooked: {from:?}");
        }
    }
}
