//! Random walks: members join, acknowledge, lag, lose answers, crash, leave and come back, topics
//! are created, grown and deleted, the group is loaded again, and time passes.
//!
//! Method: each member is a small client that knows only what it is told. What it may use is what
//! it was told and has not yet said to have let go. After every step nobody may use what another
//! may, no epoch has gone back, and the log gives the same group (the bench compares at every
//! write). At the end all come in order and everybody must be where the target is.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::member::Partitions;
use super::testing::{Beat, Bench};
use super::{Epoch, GroupState, HeartbeatAnswer};
use crate::wire::ErrorCode;

const NAMES: [&str; 4] = ["a", "ab", "b", "c"];
const PATTERNS: [&str; 3] = ["a.*", "a|c", ".*"];
const ASSIGNORS: [&str; 2] = ["uniform", "range"];
const CLIENTS: usize = 6;

#[derive(Clone, Debug)]
enum Step {
    Join {
        client: usize,
        wants: Wants,
    },
    /// A heartbeat; it lets go of what it was told to, or not yet; the answer arrives, or not.
    Beat {
        client: usize,
        lets_go: bool,
        arrives: bool,
        is_full: bool,
    },
    Subscribe {
        client: usize,
        wants: Wants,
    },
    Leave {
        client: usize,
    },
    LeaveForAWhile {
        client: usize,
    },
    Crash {
        client: usize,
    },
    Create {
        name: usize,
        partitions: u32,
    },
    Grow {
        name: usize,
        by: u32,
    },
    Delete {
        name: usize,
    },
    Pass {
        ms: u64,
    },
    Reload,
}

#[derive(Clone, Debug)]
struct Wants {
    names: Vec<usize>,
    pattern: Option<usize>,
    assignor: Option<usize>,
}

fn wants() -> impl Strategy<Value = Wants> {
    let names = prop::collection::vec(0..NAMES.len(), 0..4);
    let pattern = prop::option::weighted(0.3, 0..PATTERNS.len());
    let assignor = prop::option::weighted(0.3, 0..ASSIGNORS.len());
    (names, pattern, assignor).prop_map(|(names, pattern, assignor)| Wants {
        names,
        pattern,
        assignor,
    })
}

fn steps() -> impl Strategy<Value = Step> {
    let client = || 0..CLIENTS;
    let name = || 0..NAMES.len();
    let beat = (client(), prop::bool::weighted(0.7), prop::bool::weighted(0.85), any::<bool>());
    prop_oneof![
        4 => (client(), wants()).prop_map(|(client, wants)| Step::Join { client, wants }),
        20 => beat.prop_map(|(client, lets_go, arrives, is_full)| {
            Step::Beat { client, lets_go, arrives, is_full }
        }),
        2 => (client(), wants()).prop_map(|(client, wants)| Step::Subscribe { client, wants }),
        1 => client().prop_map(|client| Step::Leave { client }),
        1 => client().prop_map(|client| Step::LeaveForAWhile { client }),
        1 => client().prop_map(|client| Step::Crash { client }),
        1 => (name(), 1u32..5).prop_map(|(name, partitions)| Step::Create { name, partitions }),
        1 => (name(), 1u32..3).prop_map(|(name, by)| Step::Grow { name, by }),
        1 => name().prop_map(|name| Step::Delete { name }),
        4 => (0u64..12_000).prop_map(|ms| Step::Pass { ms }),
        1 => Just(Step::Reload),
    ]
}

/// What one client knows.
#[derive(Clone, Debug, Default)]
struct Client {
    /// Its member id, while it is in the group as far as it knows.
    id: Option<String>,
    instance: Option<String>,
    epoch: i32,
    wants: Option<Wants>,
    /// The last assignment it was told.
    told: Partitions,
    /// What it uses, or may.
    uses: Partitions,
    /// It does not know whether its last request arrived.
    is_unsure: bool,
}

struct Walk {
    bench: Bench,
    clients: Vec<Client>,
    joined: u32,
    group_epochs: (Epoch, Epoch),
    member_epochs: BTreeMap<String, Epoch>,
}

impl Walk {
    fn new() -> Walk {
        let mut clients = vec![Client::default(); CLIENTS];
        for (number, client) in clients.iter_mut().take(2).enumerate() {
            client.instance = Some(format!("i{number}"));
        }
        Walk {
            bench: Bench::new(&[("a", 3), ("b", 2)]),
            clients,
            joined: 0,
            group_epochs: Default::default(),
            member_epochs: BTreeMap::new(),
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match step {
            Step::Join { client, wants } => self.join(*client, wants.clone()),
            Step::Beat { client, lets_go, arrives, is_full } => {
                self.beat(*client, *lets_go, *arrives, *is_full);
            }
            Step::Subscribe { client, wants } => {
                if self.clients[*client].id.is_some() {
                    self.clients[*client].wants = Some(wants.clone());
                    self.beat(*client, false, true, true);
                }
            }
            Step::Leave { client } => self.leave(*client, -1),
            Step::LeaveForAWhile { client } => self.leave(*client, -2),
            // Its process is gone, and so is all it used; the group learns it by its silence.
            Step::Crash { client } => self.clients[*client].forget(),
            Step::Create { name, partitions } => {
                if !self.exists(*name) {
                    self.bench.topics.create(NAMES[*name], *partitions);
                }
            }
            Step::Grow { name, by } => {
                if self.exists(*name) {
                    let now = self.bench.topics.all(&[NAMES[*name]]).len() as u32;
                    self.bench.topics.grow(NAMES[*name], now + by);
                }
            }
            Step::Delete { name } => self.bench.topics.delete(NAMES[*name]),
            Step::Pass { ms } => self.bench.pass(*ms),
            Step::Reload => self.bench.reload(),
        }
        self.check()
    }

    fn exists(&self, name: usize) -> bool {
        !self.bench.topics.all(&[NAMES[name]]).is_empty()
    }

    fn join(&mut self, at: usize, wants: Wants) {
        if self.clients[at].id.is_some() {
            return;
        }
        self.joined += 1;
        let client = &mut self.clients[at];
        let id = format!("m{}", self.joined);
        client.id = Some(id);
        client.wants = Some(wants);
        client.epoch = 0;
        self.rejoin(at);
    }

    /// Sends a request with epoch 0: it has let go of everything.
    fn rejoin(&mut self, at: usize) {
        let client = &mut self.clients[at];
        client.told.clear();
        client.uses.clear();
        client.epoch = 0;
        client.is_unsure = false;
        let beat = Beat { owned: Some(Partitions::new()), ..client.full() };
        match self.bench.beat(&beat) {
            Ok(answer) => self.hear(at, &answer),
            // A static member that crashed is not over yet: its successor comes again later.
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::UnreleasedInstanceId, "{error}");
                self.clients[at].forget();
            }
        }
    }

    fn beat(&mut self, at: usize, lets_go: bool, arrives: bool, is_full: bool) {
        let client = &mut self.clients[at];
        let Some(id) = client.id.clone() else { return };
        if lets_go {
            client.uses = client.told.clone();
        }
        let mut beat = if is_full || client.is_unsure {
            client.full()
        } else {
            Beat { instance: client.instance.clone(), ..Beat::new(&id, client.epoch) }
        };
        if is_full || lets_go || client.is_unsure {
            beat.owned = Some(client.uses.clone());
        }
        match self.bench.beat(&beat) {
            Ok(answer) if arrives => self.hear(at, &answer),
            Ok(_) => self.clients[at].is_unsure = true,
            Err(error) => match error.code() {
                ErrorCode::UnknownMemberId | ErrorCode::FencedMemberEpoch => self.rejoin(at),
                ErrorCode::FencedInstanceId => self.clients[at].forget(),
                code => panic!("{code}: {error}"),
            },
        }
    }

    fn hear(&mut self, at: usize, answer: &HeartbeatAnswer) {
        let client = &mut self.clients[at];
        client.is_unsure = false;
        client.epoch = answer.member_epoch.get();
        if let Some(assignment) = &answer.assignment {
            client.told = assignment.clone();
            client.uses.extend(assignment);
        }
    }

    fn leave(&mut self, at: usize, epoch: i32) {
        let client = &self.clients[at];
        let Some(id) = client.id.clone() else { return };
        if epoch == -2 && client.instance.is_none() {
            return;
        }
        let beat = Beat { instance: client.instance.clone(), ..Beat::new(&id, epoch) };
        match self.bench.beat(&beat) {
            Ok(answer) => assert_eq!(answer.member_epoch.get(), epoch),
            Err(error) => assert!(
                matches!(error.code(), ErrorCode::UnknownMemberId | ErrorCode::FencedInstanceId),
                "{error}"
            ),
        }
        self.clients[at].forget();
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        let state = &self.bench.group.state;
        let epochs = (state.epoch, state.assignment_epoch);
        let before = std::mem::replace(&mut self.group_epochs, epochs);
        prop_assert!(epochs.0 >= before.0 && epochs.1 >= before.1, "{epochs:?} < {before:?}");
        self.member_epochs.retain(|id, _| state.members.contains_key(id.as_str()));
        for (id, member) in state.members.iter().filter(|(_, member)| !member.is_away()) {
            let epoch = member.current.epoch;
            let before = self.member_epochs.insert(id.to_string(), epoch).unwrap_or_default();
            prop_assert!(epoch >= before, "{id} went back from {before} to {epoch}");
        }
        let mut held = BTreeMap::new();
        for (id, member) in &state.members {
            for partition in member.current.held() {
                prop_assert_eq!(held.insert(*partition, id), None, "{} is held twice", partition);
            }
        }
        prop_assert_eq!(held.len(), state.owners.len());
        self.check_use()
    }

    /// Nobody may use what another may. Who the group has removed does not count: it hears of it
    /// with its next heartbeat.
    fn check_use(&self) -> Result<(), TestCaseError> {
        let mut users = BTreeMap::new();
        for client in &self.clients {
            let Some(id) = &client.id else { continue };
            if !self.bench.group.state.members.contains_key(id.as_str()) {
                continue;
            }
            for partition in &client.uses {
                let other = users.insert(*partition, id);
                prop_assert_eq!(other, None, "{} is used by {} too", partition, id);
            }
        }
        Ok(())
    }

    /// Lets everybody come in order, long enough for those that crashed to be removed.
    fn calm_down(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..24 {
            self.bench.pass(5_000);
            for at in 0..CLIENTS {
                self.beat(at, true, true, false);
                self.check()?;
            }
        }
        let state = &self.bench.group.state;
        let live = self.clients.iter().filter(|client| client.id.is_some()).count();
        prop_assert_eq!(state.members.len(), live);
        let expected = if live == 0 { GroupState::Empty } else { GroupState::Stable };
        prop_assert_eq!(self.bench.group.state(), expected);
        let mut assigned = Partitions::new();
        for client in self.clients.iter().filter(|client| client.id.is_some()) {
            let id = client.id.as_deref().unwrap_or_default();
            prop_assert_eq!(&client.told, &state.targets[id]);
            prop_assert_eq!(&client.uses, &client.told);
            prop_assert_eq!(client.told.clone(), self.bench.assigned(id));
            assigned.extend(&client.told);
        }
        prop_assert_eq!(assigned, self.subscribed());
        Ok(())
    }

    /// All partitions that any live member subscribes to.
    fn subscribed(&self) -> Partitions {
        let mut all = Partitions::new();
        for client in self.clients.iter().filter(|client| client.id.is_some()) {
            let Some(wants) = &client.wants else { continue };
            let names: Vec<&str> = wants.names.iter().map(|name| NAMES[*name]).collect();
            all.extend(self.bench.topics.all(&names));
            let matched: &[&str] = match wants.pattern {
                None => &[],
                Some(0) => &["a", "ab"],
                Some(1) => &["a", "c"],
                Some(_) => &NAMES,
            };
            all.extend(self.bench.topics.all(matched));
        }
        all
    }
}

impl Client {
    fn forget(&mut self) {
        *self = Client { instance: self.instance.clone(), ..Client::default() };
    }

    /// A full request, owning what it uses.
    fn full(&self) -> Beat {
        let id = self.id.as_deref().unwrap_or_default();
        let wants = self.wants.clone().expect("a member wants something");
        let names: Vec<&str> = wants.names.iter().map(|name| NAMES[*name]).collect();
        Beat {
            instance: self.instance.clone(),
            rebalance_timeout_ms: 20_000,
            regex: Some(wants.pattern.map_or("", |pattern| PATTERNS[pattern]).to_owned()),
            assignor: wants.assignor.map(|assignor| ASSIGNORS[assignor].to_owned()),
            owned: Some(self.uses.clone()),
            ..Beat::new(id, self.epoch)
        }
        .names(&names)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn members_that_come_and_go_never_share_a_partition_and_end_where_the_target_is(
        steps in prop::collection::vec(steps(), 1..120),
    ) {
        let mut walk = Walk::new();
        for step in &steps {
            walk.step(step)?;
        }
        walk.calm_down()?;
    }
}
