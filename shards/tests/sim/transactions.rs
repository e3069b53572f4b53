//! Transactional clients, and the judge of what readers of committed records are told.
//!
//! A client sends batches of one transaction to one partition and ends it by a marker, which it sends
//! again until it is answered, as a coordinator does. When a batch failed, the transaction is
//! aborted under a newer epoch. Now and then a late batch comes behind the marker.
//!
//! What a reader of committed records was told is a *claim*. It is judged by brute force when the
//! log up to the claimed HighWatermark is known: from the batches that stand there, nothing else,
//! follow the LastStableOffset and the aborted transactions of that moment.

use std::collections::BTreeMap;

use millstream_io::batch::{EndMarker, Outcome};
use millstream_io::units::{ProducerEpoch, ProducerId};
use millstream_shards::message::ReadPlan;

use super::model::{Model, Verdict};

/// A transactional producer of one partition, with its coordinator.
#[derive(Clone, Debug)]
pub struct Client {
    pub pid: i64,
    pub partition: usize,
    pub epoch: i16,
    pub sequence: i32,
    /// From 2 on every transaction has an epoch of its own.
    pub version: u8,
    pub phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Idle,
    Open {
        waiting: u32,
        /// A batch was refused, or its answer will never come.
        failed: bool,
    },
    Ending {
        outcome: Outcome,
        epoch: i16,
        /// A marker is on its way.
        waiting: bool,
    },
}

impl Client {
    pub fn new(pid: i64, partition: usize, version: u8) -> Client {
        Client { pid, partition, epoch: 0, sequence: 0, version, phase: Phase::Idle }
    }

    /// The broker was started again.
    pub fn reconnect(&mut self, goes_on: bool) {
        self.phase = match self.phase {
            Phase::Idle => Phase::Idle,
            Phase::Open { waiting: 0, failed: false } if goes_on => self.phase,
            Phase::Open { .. } => Phase::Open { waiting: 0, failed: true },
            Phase::Ending { outcome, epoch, .. } => {
                Phase::Ending { outcome, epoch, waiting: false }
            }
        };
    }

    /// A batch of the transaction was answered.
    pub fn batch_answered(&mut self, well: bool) {
        if let Phase::Open { waiting, failed } = &mut self.phase {
            *waiting -= 1;
            *failed |= !well;
        }
    }

    /// The marker was answered.
    pub fn marker_answered(&mut self, well: bool) {
        let Phase::Ending { outcome, epoch, .. } = self.phase else { return };
        if !well {
            self.phase = Phase::Ending { outcome, epoch, waiting: false };
            return;
        }
        if epoch > self.epoch {
            (self.epoch, self.sequence) = (epoch, 0);
        }
        self.phase = Phase::Idle;
    }

    pub fn marker(&self, outcome: Outcome, epoch: i16) -> EndMarker {
        EndMarker {
            producer: ProducerId::new(self.pid).expect("not negative"),
            epoch: ProducerEpoch::new(epoch).expect("not negative"),
            outcome,
            coordinator_epoch: 0,
        }
    }
}

/// What a batch says about transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Plain,
    Data { pid: i64 },
    Marker { pid: i64, outcome: Outcome },
}

/// What a reader of committed records was told.
#[derive(Clone, Debug)]
pub struct Claim {
    partition: usize,
    from: i64,
    to: i64,
    high_watermark: i64,
    last_stable: i64,
    log_start: i64,
    aborted: Vec<(i64, i64)>,
}

/// Claims that are not judged yet, and how often which were.
#[derive(Debug, Default)]
pub struct Claims {
    open: Vec<Claim>,
    pub judged: u64,
    /// Of those, with a LastStableOffset in front of the HighWatermark, or with a list.
    pub held_back: u64,
    pub with_aborted: u64,
}

impl Claims {
    /// A read of `[from, to)` was answered with this plan.
    pub fn add(&mut self, partition: usize, (from, to): (i64, i64), plan: &ReadPlan) -> Verdict {
        let Some(aborted) = &plan.aborted else {
            return Err(format!("p{partition} @{from}: no list of aborted transactions"));
        };
        let listed =
            |a: &millstream_shards::message::Aborted| (a.producer.get(), a.first_offset.get());
        let claim = Claim {
            partition,
            from,
            to,
            high_watermark: plan.high_watermark.get(),
            last_stable: plan.last_stable_offset.get(),
            log_start: plan.log_start.get(),
            aborted: aborted.iter().map(listed).collect(),
        };
        if from < to && to > claim.last_stable {
            return Err(format!("records of undecided transactions are served: {claim:?}"));
        }
        self.open.push(claim);
        Ok(())
    }

    /// Judges the claims of a partition whose log is wholly known.
    pub fn judge(&mut self, model_of: &Ledger, partition: usize) -> Verdict {
        for claim in self.open.extract_if(.., |claim| claim.partition == partition) {
            let Some(truth) = model_of.at(claim.high_watermark) else { continue };
            let end = truth.first_open.unwrap_or(claim.high_watermark);
            let last_stable = end.min(claim.high_watermark).max(claim.log_start);
            if claim.last_stable != last_stable {
                return Err(format!("the LastStableOffset was @{last_stable}: {claim:?}"));
            }
            let got = claim.from < claim.to;
            let overlaps =
                |t: &&Ended| got && t.aborted && t.marker >= claim.from && t.first < claim.to;
            let mut due: Vec<(i64, i64)> =
                truth.ended.iter().filter(overlaps).map(|t| (t.pid, t.first)).collect();
            due.sort_by_key(|(_, first)| *first);
            if claim.aborted != due {
                return Err(format!("the aborted transactions were {due:?}: {claim:?}"));
            }
            self.judged += 1;
            self.held_back += u64::from(last_stable < claim.high_watermark);
            self.with_aborted += u64::from(!due.is_empty());
        }
        Ok(())
    }
}

/// The batches of one partition in log order: base offset, records, role.
#[derive(Debug)]
pub struct Ledger(Vec<(i64, u32, Role)>);

/// What follows from the log in front of an offset.
#[derive(Debug, Default)]
pub struct Truth {
    pub first_open: Option<i64>,
    /// Producer to first offset.
    pub open: BTreeMap<i64, i64>,
    pub ended: Vec<Ended>,
}

#[derive(Debug)]
pub struct Ended {
    pub pid: i64,
    pub first: i64,
    pub marker: i64,
    pub aborted: bool,
}

impl Ledger {
    pub fn of(model: &Model, partition: usize) -> Ledger {
        Ledger(model.placed_in(partition).collect())
    }

    /// `None` when a batch in front of `end` is not known: it was deleted unseen.
    pub fn at(&self, end: i64) -> Option<Truth> {
        let mut truth = Truth::default();
        let mut next = 0;
        for (base, records, role) in &self.0 {
            if next >= end {
                break;
            }
            if *base != next {
                return None;
            }
            next = base + i64::from(*records);
            match *role {
                Role::Plain => {}
                Role::Data { pid } => {
                    truth.open.entry(pid).or_insert(*base);
                }
                Role::Marker { pid, outcome } => {
                    if let Some(first) = truth.open.remove(&pid) {
                        let aborted = outcome == Outcome::Abort;
                        truth.ended.push(Ended { pid, first, marker: *base, aborted });
                    }
                }
            }
        }
        truth.first_open = truth.open.values().min().copied();
        (next == end).then_some(truth)
    }
}
