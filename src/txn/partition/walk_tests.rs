//! Random walks: producers of one transactional id, old and new ones, that write, end, retry with what
//! they knew long ago, and hang, while records become durable late, markers are late, the id expires,
//! its epochs come to their end, and the coordinator restarts: with or without the record that was on
//! its way, of which nobody was told, and for longer or shorter than a transaction may be open. Method:
//! the answers are held against a small model of what was promised:
//!
//! * an identity that was given to a new owner makes all before it powerless, for good;
//! * the last epoch of a producer id is given to nobody: it fences whoever holds the one before;
//! * a transaction ends once, as its owner was told, with markers in exactly the partitions that were
//!   added to it; what is open does not expire;
//! * whatever happened, it ends: once everything is durable and marked nothing is left half done, and no
//!   partition waits for a marker, so that its LastStableOffset is its end.

use super::tests::{Bench, at, fresh, settings};
use super::*;
use crate::txn::ask::Filter;
use millstream_io::runtime::Reply;
use millstream_io::units::ProducerEpoch;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug)]
enum Move {
    /// A producer begins, saying who it was or not.
    Init {
        producer: usize,
        says_who: bool,
    },
    Add {
        producer: usize,
        partition: i32,
    },
    /// A producer waits no more for what it added.
    GiveUp {
        producer: usize,
    },
    End {
        producer: usize,
        commits: bool,
    },
    /// A producer asks again with what it knew before its last answer.
    EndAgain {
        producer: usize,
        commits: bool,
    },
    Durable,
    Marked,
    Pass(i64),
    /// Nobody uses the id for as long as it takes to be forgotten.
    Expire,
    Restart {
        /// What was on its way is in the log, and nobody was told.
        kept: bool,
        /// How long nobody is there.
        ms: i64,
    },
}

const PRODUCERS: usize = 3;

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let who = || 0..PRODUCERS;
    let one = prop_oneof![
        4 => (who(), any::<bool>())
            .prop_map(|(producer, says_who)| Move::Init { producer, says_who }),
        8 => (who(), 0..4).prop_map(|(producer, partition)| Move::Add { producer, partition }),
        2 => who().prop_map(|producer| Move::GiveUp { producer }),
        6 => (who(), any::<bool>())
            .prop_map(|(producer, commits)| Move::End { producer, commits }),
        2 => (who(), any::<bool>())
            .prop_map(|(producer, commits)| Move::EndAgain { producer, commits }),
        20 => Just(Move::Durable),
        8 => Just(Move::Marked),
        2 => (0_i64..1500).prop_map(Move::Pass),
        1 => Just(Move::Expire),
        2 => (any::<bool>(), 0_i64..1500).prop_map(|(kept, ms)| Move::Restart { kept, ms }),
    ];
    prop::collection::vec(one, 1..300)
}

/// The epoch that the log knows when the walk begins: of a new id, or of one that is nearly used up.
fn epochs() -> impl Strategy<Value = Option<i16>> {
    prop::option::of(i16::MAX - 20..=i16::MAX)
}

/// One producer, as it knows itself. The first speaks the old protocol.
#[derive(Default)]
struct Producer {
    me: Option<Identity>,
    before: Option<Identity>,
    waits: Option<Waits>,
}

enum Waits {
    Init(Reply<Result<Identity, Refusal>>),
    Add(i32, Identity, Reply<ErrorCode>),
    End(Outcome, Identity, Reply<Result<Identity, Refusal>>),
}

#[derive(Default)]
struct World {
    producers: [Producer; PRODUCERS],
    /// Who each identity was given to: the newest of them is the owner.
    owners: BTreeMap<Identity, usize>,
    /// Partitions whose addition was acknowledged since the last end.
    open: BTreeSet<i32>,
    /// Those that were asked for and not acknowledged: they may be in or not.
    maybe: BTreeSet<i32>,
    /// What the owner of an identity was told of the end of its transaction.
    told: BTreeMap<Identity, Outcome>,
    /// How the transaction of an identity really ended.
    marked: BTreeMap<Identity, Outcome>,
    last: Option<Completion>,
    next_id: i64,
}

fn protocol_of(producer: usize) -> Protocol {
    if producer == 0 { Protocol::V0 } else { Protocol::V2 }
}

impl World {
    fn act(&mut self, bench: &mut Bench, step: Move) {
        match step {
            Move::Init { producer, says_who } if self.is_free(producer) => {
                self.next_id += 1;
                let expected = self.producers[producer].me.filter(|_| says_who);
                let reply = bench.init(expected, fresh(self.next_id));
                self.producers[producer].waits = Some(Waits::Init(reply));
            }
            Move::Add { producer, partition } if self.is_free(producer) => {
                let Some(me) = self.producers[producer].me else { return };
                let reply = bench.add(me, partition);
                self.maybe.insert(partition);
                self.producers[producer].waits = Some(Waits::Add(partition, me, reply));
            }
            Move::GiveUp { producer } => {
                self.producers[producer].waits.take_if(|waits| matches!(waits, Waits::Add(..)));
            }
            Move::End { producer, commits } if self.is_free(producer) => {
                self.end(bench, producer, self.producers[producer].me, commits);
            }
            Move::EndAgain { producer, commits } if self.is_free(producer) => {
                self.end(bench, producer, self.producers[producer].before, commits);
            }
            Move::Durable => drop(bench.durable()),
            Move::Marked => self.mark(bench),
            Move::Pass(ms) => {
                bench.now = bench.now.plus(ms);
                let aborted = bench.ids.abort_timed_out(bench.now);
                bench.waiting.extend(aborted);
            }
            Move::Expire => {
                bench.now = bench.now.plus(settings().expiration_ms);
                let expired = bench.ids.expire(bench.now);
                let is_open = !expired.is_empty() && !self.open.is_empty();
                assert!(!is_open, "the id expires with {:?} open", self.open);
                bench.waiting.extend(expired);
            }
            Move::Restart { kept, ms } => {
                let on_its_way: Vec<Entry> = bench.waiting.drain(..).collect();
                if kept {
                    bench.log.extend(on_its_way.into_iter().map(|entry| entry.record));
                }
                bench.now = bench.now.plus(ms);
                bench.restart();
                // What was under way was taken back, or stands in the log already.
                for producer in &mut self.producers {
                    if let Some(Waits::Init(_)) = producer.waits {
                        producer.waits = None;
                    }
                }
            }
            _ => {}
        }
        self.listen();
    }

    fn is_free(&self, producer: usize) -> bool {
        self.producers[producer].waits.is_none()
    }

    fn end(&mut self, bench: &mut Bench, producer: usize, by: Option<Identity>, commits: bool) {
        let Some(by) = by else { return };
        let outcome = if commits { Outcome::Commit } else { Outcome::Abort };
        self.next_id += 1;
        let end = End { by, outcome, protocol: protocol_of(producer), fresh: fresh(self.next_id) };
        let reply = bench.ask("tx", |reply| Ask::End(end, reply));
        self.producers[producer].waits = Some(Waits::End(outcome, by, reply));
    }

    /// Takes all answers that came.
    fn listen(&mut self) {
        for number in 0..PRODUCERS {
            let Some(mut waits) = self.producers[number].waits.take() else { continue };
            let is_answered = match &mut waits {
                Waits::Init(reply) => match reply.try_take() {
                    Some(Ok(Ok(identity))) => {
                        self.given(number, identity);
                        true
                    }
                    answer => answer.is_some(),
                },
                Waits::Add(partition, by, reply) => match reply.try_take() {
                    Some(Ok(ErrorCode::None)) => {
                        self.assert_owner(number, *by);
                        self.open.insert(*partition);
                        true
                    }
                    answer => answer.is_some(),
                },
                Waits::End(outcome, by, reply) => match reply.try_take() {
                    Some(Ok(Ok(identity))) => {
                        self.ended(number, *outcome, *by, identity);
                        true
                    }
                    answer => answer.is_some(),
                },
            };
            if !is_answered {
                self.producers[number].waits = Some(waits);
            }
        }
    }

    fn given(&mut self, number: usize, identity: Identity) {
        assert!(identity.epoch.get() < i16::MAX, "{identity:?} cannot be fenced");
        let newest = self.owners.last_key_value().map(|(newest, owner)| (*newest, *owner));
        match newest {
            Some((newest, owner)) if newest == identity => {
                // The answer of its own bump, again.
                assert_eq!(owner, number, "{identity:?} is given to two");
            }
            Some((newest, _)) => assert!(identity > newest, "{identity:?} after {newest:?}"),
            None => {}
        }
        self.owners.insert(identity, number);
        let producer = &mut self.producers[number];
        producer.before = producer.me;
        producer.me = Some(identity);
    }

    fn assert_owner(&self, number: usize, by: Identity) {
        let newer = self.owners.range(by..).skip(1).find(|(_, owner)| **owner != number);
        assert_eq!(newer, None, "{by:?} of producer {number} should be powerless");
    }

    fn ended(&mut self, number: usize, outcome: Outcome, by: Identity, identity: Identity) {
        let bumps = protocol_of(number).bumps_epoch();
        assert!(if bumps { identity > by } else { identity == by }, "{by:?} ends as {identity:?}");
        if bumps {
            let told = self.told.insert(by, outcome);
            assert!(told.is_none_or(|told| told == outcome), "{by:?} ends both ways");
            self.given(number, identity);
        }
    }

    /// A transaction's markers are written: they lie where its owner was told.
    fn mark(&mut self, bench: &mut Bench) {
        let Some(completion) = bench.marked() else { return };
        if self.open.is_empty() && self.last.as_ref() == Some(&completion) {
            // The coordinator restarted before it knew that it was through.
            return;
        }
        let marked: BTreeSet<i32> = completion.partitions.iter().map(|(_, p)| *p).collect();
        assert!(marked.is_superset(&self.open), "{:?} lack markers: {marked:?}", self.open);
        let allowed: BTreeSet<i32> = self.open.union(&self.maybe).copied().collect();
        assert!(marked.is_subset(&allowed), "{marked:?} have markers, of {allowed:?}");
        self.open.clear();
        // What waits for these markers goes into the next transaction.
        let waits = self.producers.iter().filter_map(|producer| producer.waits.as_ref());
        self.maybe = waits
            .filter_map(|waits| match waits {
                Waits::Add(partition, ..) => Some(*partition),
                Waits::Init(_) | Waits::End(..) => None,
            })
            .collect();
        if completion.protocol.bumps_epoch() {
            let epoch = ProducerEpoch::new(completion.by.epoch.get() - 1).unwrap();
            let by = Identity { epoch, ..completion.by };
            let told = self.told.get(&by);
            assert!(
                told.is_none_or(|told| *told == completion.outcome),
                "{by:?} was told {told:?}"
            );
            self.marked.insert(by, completion.outcome);
        }
        self.last = Some(completion);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn transactions_end_once_as_their_owner_was_told(epoch in epochs(), moves in moves()) {
        let mut bench = Bench::new();
        if let Some(epoch) = epoch {
            let epoch = ProducerEpoch::new(epoch).unwrap();
            let known = Transaction { epoch, ..Transaction::new(fresh(0).unwrap(), 1000, at(0)) };
            bench.log.push(log_record::encode("tx", Some(&known)).unwrap());
            bench.restart();
        }
        let mut world = World::default();
        for step in moves {
            world.act(&mut bench, step);
        }
        // Time passes, and everything that is due is done.
        for _ in 0..8 {
            world.act(&mut bench, Move::Pass(2000));
            while bench.durable() {}
            world.act(&mut bench, Move::Marked);
            while bench.durable() {}
        }
        prop_assert!(bench.waiting.is_empty() && bench.marking.is_empty());
        prop_assert!(world.open.is_empty(), "{:?} wait for a marker", world.open);
        for listed in bench.ids.list(&Filter::default(), at(0)) {
            prop_assert!(listed.state.is_at_rest(), "{listed:?}");
        }
        for (by, outcome) in world.told.iter().filter(|(_, told)| **told == Outcome::Commit) {
            prop_assert_eq!(world.marked.get(by), Some(outcome), "{:?}", by);
        }
        // The log says what memory says.
        let memory = bench.ids.describe(&"tx".into());
        bench.restart();
        prop_assert_eq!(bench.ids.describe(&"tx".into()), memory);
    }
}
