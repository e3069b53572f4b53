//! Random histories of transactions, with refusals, snapshots and replays, against brute force over
//! the list of everything that was stored.

use std::collections::BTreeMap;

use millstream_io::batch::Outcome;
use proptest::prelude::*;

use super::*;
use crate::message::Aborted;

/// One batch as it stands in the log.
#[derive(Clone, Copy, Debug)]
enum Stored {
    Data { pid: i64, epoch: i16, first: Option<i32>, records: u32, transactional: bool },
    Marker { pid: i64, epoch: i16, outcome: Outcome },
}

impl Stored {
    fn records(&self) -> i64 {
        match self {
            Stored::Data { records, .. } => i64::from(*records),
            Stored::Marker { .. } => 1,
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A client's batch, when it may have one.
    Send {
        pid: i64,
        records: u32,
    },
    /// A batch that a coordinator writes in the producer's name.
    Vouched {
        pid: i64,
    },
    Plain {
        pid: i64,
    },
    End {
        pid: i64,
        abort: bool,
        bumps: bool,
    },
    /// Everything staged becomes durable, or half of it.
    Commit {
        half: bool,
    },
    Refuse,
    /// A snapshot of what is durable is written; a crash follows some time later.
    Snapshot,
    Crash,
    Delete {
        part: u8,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pid = || 0i64..4;
    let step = prop_oneof![
        5 => (pid(), 1u32..4).prop_map(|(pid, records)| Step::Send { pid, records }),
        2 => pid().prop_map(|pid| Step::Vouched { pid }),
        1 => pid().prop_map(|pid| Step::Plain { pid }),
        4 => (pid(), any::<bool>(), any::<bool>())
            .prop_map(|(pid, abort, bumps)| Step::End { pid, abort, bumps }),
        3 => any::<bool>().prop_map(|half| Step::Commit { half }),
        1 => Just(Step::Refuse),
        1 => Just(Step::Snapshot),
        1 => Just(Step::Crash),
        1 => (0u8..4).prop_map(|part| Step::Delete { part }),
    ];
    proptest::collection::vec(step, 0..150)
}

/// The log, and what each producer would do next.
#[derive(Default)]
struct World {
    producers: Producers,
    log: Vec<(i64, Stored)>,
    end: i64,
    durable: i64,
    log_start: i64,
    snapshot: Option<Vec<u8>>,
    epochs: BTreeMap<i64, (i16, i32)>,
}

fn pid(value: i64) -> ProducerId {
    ProducerId::new(value).expect("not negative")
}

fn stamp(pid_: i64, epoch: i16, first: Option<i32>) -> ProducerStamp {
    let epoch = ProducerEpoch::new(epoch).expect("not negative");
    ProducerStamp { id: pid(pid_), epoch, first: first.and_then(Sequence::new) }
}

/// What brute force finds in a prefix of the log.
#[derive(Default)]
struct Found {
    open: BTreeMap<i64, i64>,
    /// Producer, first offset, marker.
    aborted: Vec<(i64, i64, i64)>,
    /// First offsets of transactions that ended, and their markers.
    ended: Vec<(i64, i64)>,
    /// Of the newest batch in each producer's name.
    epochs: BTreeMap<i64, i16>,
}

fn brute_force(log: &[(i64, Stored)], end: i64) -> Found {
    let mut found = Found::default();
    for (base, stored) in log.iter().take_while(|(base, _)| *base < end) {
        match *stored {
            Stored::Data { pid, transactional: true, epoch, .. } => {
                found.open.entry(pid).or_insert(*base);
                found.epochs.insert(pid, epoch);
            }
            Stored::Data { pid, epoch, .. } => drop(found.epochs.insert(pid, epoch)),
            Stored::Marker { pid, epoch, outcome } => {
                found.epochs.insert(pid, epoch);
                let Some(first) = found.open.remove(&pid) else { continue };
                found.ended.push((first, *base));
                if outcome == Outcome::Abort {
                    found.aborted.push((pid, first, *base));
                }
            }
        }
    }
    found
}

impl World {
    fn place(&self) -> Place {
        Place {
            base: Offset::at(self.end),
            position: LogPosition::new(self.end.unsigned_abs() * 10),
            at: TimestampMs::ZERO,
            durable_end: Offset::at(self.durable),
        }
    }

    fn store(&mut self, stored: Stored) {
        self.log.push((self.end, stored));
        self.end += stored.records();
    }

    fn send(&mut self, pid_: i64, records: u32, transactional: bool) {
        let (epoch, first) = *self.epochs.entry(pid_).or_default();
        let stamp = stamp(pid_, epoch, Some(first));
        let query = TransactionQuery {
            at: millstream_io::units::TopicPartition {
                topic: millstream_io::units::TopicId::from_bytes([1; 16]),
                partition: millstream_io::units::PartitionIndex::at(0),
            },
            producer: pid(pid_),
            epoch: stamp.epoch,
            first: stamp.first,
            bumps_epoch: false,
        };
        let open = brute_force(&self.log, self.end).open.contains_key(&pid_);
        let mut batch =
            Incoming { stamp, records, transactional, origin: Origin::Client, guard: None };
        if transactional {
            match self.producers.transaction(&query) {
                TransactionState::Open => assert!(open, "{pid_} has nothing open"),
                TransactionState::Unverified(guard) => {
                    assert!(!open, "{pid_} has a transaction open");
                    batch.guard = Some(guard);
                }
            }
        }
        let checked = self.producers.check(&batch, TimestampMs::new(i64::MIN));
        if !transactional && open {
            assert!(matches!(checked, Err(ProducerError::Transaction(_))), "{checked:?}");
            return;
        }
        assert_eq!(checked, Ok(Checked::Next));
        self.producers.staged(&batch, self.place());
        self.store(Stored::Data { pid: pid_, epoch, first: Some(first), records, transactional });
        self.epochs.insert(pid_, (epoch, stamp.first.expect("given").add(records).get()));
    }

    fn vouch(&mut self, pid_: i64) {
        let (epoch, _) = *self.epochs.entry(pid_).or_default();
        let batch = Incoming {
            stamp: stamp(pid_, epoch, None),
            records: 2,
            transactional: true,
            origin: Origin::Coordinator,
            guard: None,
        };
        assert_eq!(self.producers.check(&batch, TimestampMs::ZERO), Ok(Checked::Next));
        self.producers.staged(&batch, self.place());
        let (first, records, transactional) = (None, 2, true);
        self.store(Stored::Data { pid: pid_, epoch, first, records, transactional });
    }

    fn end(&mut self, pid_: i64, abort: bool, bumps: bool) {
        let (epoch, sequence) = *self.epochs.entry(pid_).or_default();
        let outcome = if abort { Outcome::Abort } else { Outcome::Commit };
        let epoch = epoch + i16::from(bumps);
        let marker = EndMarker {
            producer: pid(pid_),
            epoch: stamp(pid_, epoch, None).epoch,
            outcome,
            coordinator_epoch: 1,
        };
        assert_eq!(self.producers.check_marker(&marker, if bumps { 2 } else { 1 }), Ok(()));
        self.producers.marked(&marker, self.place());
        self.store(Stored::Marker { pid: pid_, epoch, outcome });
        self.epochs.insert(pid_, (epoch, if bumps { 0 } else { sequence }));
    }

    fn commit(&mut self, half: bool) {
        let staged: Vec<i64> = self
            .log
            .iter()
            .map(|(base, s)| base + s.records())
            .filter(|e| *e > self.durable)
            .collect();
        let upto = if half { staged.get(staged.len() / 2) } else { staged.last() };
        self.durable = upto.copied().unwrap_or(self.durable);
        self.producers.settle(Offset::at(self.durable));
    }

    /// Nothing staged is left; producers know it and go on from what is there.
    fn refuse(&mut self) {
        self.producers.refuse_from(Offset::at(self.durable));
        self.forget_staged();
    }

    fn forget_staged(&mut self) {
        let durable = self.durable;
        self.log.retain(|(base, _)| *base < durable);
        self.end = durable;
        for (pid, next) in &mut self.epochs {
            let mine = |stored: &Stored| match *stored {
                Stored::Data { pid: of, .. } | Stored::Marker { pid: of, .. } => of == *pid,
            };
            *next = (0, 0);
            for (_, stored) in self.log.iter().filter(|(_, stored)| mine(stored)) {
                *next = match *stored {
                    Stored::Data { epoch, first: Some(first), records, .. } => {
                        (epoch, Sequence::new(first).expect("stored").add(records).get())
                    }
                    Stored::Data { epoch, .. } | Stored::Marker { epoch, .. } => {
                        (epoch, if epoch > next.0 { 0 } else { next.1 })
                    }
                };
            }
        }
    }

    fn snapshot(&mut self) {
        let taken_at = Offset::at(self.durable);
        self.snapshot = Some(self.producers.encode(taken_at, |open| open.position));
    }

    fn crash(&mut self) {
        self.forget_staged();
        let (mut producers, taken_at) = match &self.snapshot {
            Some(bytes) => Producers::decode(2, bytes).expect("own bytes"),
            None => (Producers::new(), Offset::ZERO),
        };
        for (base, stored) in self.log.iter().filter(|(base, _)| *base >= taken_at.get()) {
            let position = LogPosition::new(base.unsigned_abs() * 10);
            let next = Offset::at(base + stored.records());
            let (base, at) = (Offset::at(*base), TimestampMs::ZERO);
            let (stamp, bits, bytes) = match *stored {
                Stored::Data { pid, epoch, first, transactional, .. } => {
                    (stamp(pid, epoch, first), if transactional { 0x10 } else { 0 }, None)
                }
                Stored::Marker { pid: of, epoch, outcome } => {
                    let stamp = stamp(of, epoch, None);
                    let (producer, epoch) = (stamp.id, stamp.epoch);
                    let marker = EndMarker { producer, epoch, outcome, coordinator_epoch: 1 };
                    (stamp, 0x30, Some(marker.compose(TimestampMs::ZERO)))
                }
            };
            let bytes = bytes.as_ref().map_or(&[][..], |batch| batch.bytes());
            let attributes = Attributes::from_bits(bits);
            producers.replay(stamp, &Replayed { base, next, at, position, attributes, bytes });
        }
        producers.delete_before(Offset::at(self.log_start));
        self.producers = producers;
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let (now, durable) =
            (brute_force(&self.log, self.end), brute_force(&self.log, self.durable));
        let unsettled = now.ended.iter().filter(|(_, marker)| *marker >= self.durable);
        let first = now.open.values().chain(unsettled.map(|(first, _)| first)).min().copied();
        let got = self.producers.first_unstable();
        prop_assert_eq!(got.map(|open| open.first.get()), first);
        prop_assert_eq!(
            got.map(|open| open.position.get()),
            first.map(|first| first.unsigned_abs() * 10)
        );
        let active = self.producers.active();
        let open: BTreeMap<i64, i64> =
            active.iter().filter_map(|p| Some((p.id.get(), p.transaction_start?.get()))).collect();
        prop_assert_eq!(open, now.open);
        let epochs: BTreeMap<i64, i16> =
            active.iter().map(|p| (p.id.get(), p.epoch.get())).collect();
        prop_assert_eq!(epochs, now.epochs);
        // Readers come no further than the first unstable offset.
        let stable = first.map_or(self.durable, |first| first.min(self.durable));
        let bounds: Vec<i64> = self.log.iter().map(|(base, _)| *base).collect();
        let bounds: Vec<i64> = bounds
            .into_iter()
            .chain([self.durable])
            .filter(|at| (self.log_start..=stable).contains(at))
            .collect();
        for (i, from) in bounds.iter().enumerate() {
            for to in &bounds[i..] {
                let mut due: Vec<Aborted> = durable
                    .aborted
                    .iter()
                    .filter(|(_, first, marker)| marker >= from && first < to)
                    .map(|(of, first, _)| Aborted {
                        producer: pid(*of),
                        first_offset: Offset::at(*first),
                    })
                    .collect();
                due.sort_by_key(|aborted| aborted.first_offset);
                let got = self.producers.aborted().overlapping(Offset::at(*from), Offset::at(*to));
                prop_assert_eq!(got, due, "[{}, {})", from, to);
            }
        }
        Ok(())
    }
}

proptest! {
    /// Goal: the first unstable offset, the aborted transactions of every range and the open ones are
    /// what the log says, at every moment, over refusals, snapshots and crashes.
    #[test]
    fn walk_agrees_with_brute_force(steps in steps()) {
        let mut world = World::default();
        for step in steps {
            match step {
                Step::Send { pid, records } => world.send(pid, records, true),
                Step::Plain { pid } => world.send(pid, 1, false),
                Step::Vouched { pid } => world.vouch(pid),
                Step::End { pid, abort, bumps } => world.end(pid, abort, bumps),
                Step::Commit { half } => world.commit(half),
                Step::Refuse => world.refuse(),
                Step::Snapshot => world.snapshot(),
                Step::Crash => world.crash(),
                Step::Delete { part } => {
                    let to = world.durable * i64::from(part) / 4;
                    world.log_start = world.log_start.max(to);
                    world.producers.delete_before(Offset::at(world.log_start));
                }
            }
            world.check()?;
        }
    }
}

/// A snapshot of version 1 is that of a partition without transactions.
#[test]
fn snapshot_of_version_one_is_read() {
    let mut world = World::default();
    world.send(1, 3, false);
    world.commit(false);
    let bytes = world.producers.encode(Offset::at(3), |open| open.position);
    let old = &bytes[..bytes.len() - 8];
    let (producers, taken_at) = Producers::decode(1, old).expect("it ends behind the batches");
    assert_eq!((taken_at, producers.active()), (Offset::at(3), world.producers.active()));
    assert_eq!(Producers::decode(2, old).err(), Some(SnapshotError));
}

#[test]
fn guards_are_bounded_and_the_oldest_is_forgotten() {
    let mut world = World::default();
    let max = i64::try_from(limits::VERIFICATIONS_PER_PARTITION_MAX).expect("small");
    let query = |producer: i64| TransactionQuery {
        at: millstream_io::units::TopicPartition {
            topic: millstream_io::units::TopicId::from_bytes([1; 16]),
            partition: millstream_io::units::PartitionIndex::at(0),
        },
        producer: pid(producer),
        epoch: stamp(0, 0, None).epoch,
        first: Some(Sequence::ZERO),
        bumps_epoch: false,
    };
    let guards: Vec<_> = (0..=max).map(|p| world.producers.transaction(&query(p))).collect();
    let taken = |producer: i64| {
        let TransactionState::Unverified(guard) = guards[usize::try_from(producer).expect("small")]
        else {
            panic!("nothing is open")
        };
        let batch = Incoming {
            stamp: stamp(producer, 0, Some(0)),
            records: 1,
            transactional: true,
            origin: Origin::Client,
            guard: Some(guard),
        };
        world.producers.check(&batch, TimestampMs::ZERO)
    };
    assert_eq!(taken(0), Err(ProducerError::Transaction(InvalidTxnState::NotVerified)));
    assert_eq!((taken(1), taken(max)), (Ok(Checked::Next), Ok(Checked::Next)));
}

#[test]
fn open_transactions_are_bounded_and_never_forgotten() {
    let mut world = World::default();
    let max = i64::try_from(limits::OPEN_TRANSACTIONS_PER_PARTITION_MAX).expect("small");
    for n in 0..max {
        let batch = Incoming {
            stamp: stamp(n, 0, Some(0)),
            records: 1,
            transactional: true,
            origin: Origin::Coordinator,
            guard: None,
        };
        world.producers.staged(&batch, Place { durable_end: Offset::MAX, ..world.place() });
        world.end += 1;
    }
    let one_more = Incoming {
        stamp: stamp(max, 0, Some(0)),
        records: 1,
        transactional: true,
        origin: Origin::Coordinator,
        guard: None,
    };
    let limit = limits::OPEN_TRANSACTIONS_PER_PARTITION_MAX;
    let refused = world.producers.check(&one_more, TimestampMs::ZERO);
    assert_eq!(refused, Err(ProducerError::TooMany { limit }));
    world.producers.settle(Offset::at(max));
    world.producers.expire(TimestampMs::new(i64::MAX), Offset::MAX);
    // Thousands of others press them out of the table, and cannot.
    for n in 0..=i64::try_from(limits::PRODUCERS_PER_PARTITION_MAX).expect("small") {
        let (base_offset, at) = (Offset::at(max + n), TimestampMs::new(n));
        let (epoch, first) = (stamp(0, 0, None).epoch, Sequence::ZERO);
        let batch = ProducerBatch { epoch, first, records: 1, base_offset, at };
        world.producers.record(pid(1_000_000 + n), batch, Offset::MAX);
    }
    let open = world.producers.active();
    let open = open.iter().filter(|producer| producer.transaction_start.is_some()).count();
    assert_eq!(open, limit);
    assert!(world.producers.len() <= limits::PRODUCERS_PER_PARTITION_MAX);
}
