//! Transactional clients, and the judge of what readers of committed records are told.
//!
//! A client sends batches of one transaction to one partition and ends it by a marker, which it sends
//! again until it is answered, as a coordinator does. When a batch failed, the transaction is
//! aborted under a newer epoch. Now and then a late batch comes behind the marker.
//!
//! What a reader of committed records was told is a *claim*. It is judged by brute force when the
//! log up to the claimed HighWatermark is known: from the batches that stand there, nothing else,
//! follow the LastStableOffset and the aborted transactions of that moment. Compaction may leave out
//! aborted transactions of which nothing is there any more; so each record is judged, too, that a
//! client hands on or withholds who filters by the list as all clients do.

use std::collections::{BTreeMap, HashSet};

use millstream_io::batch::{EndMarker, Outcome, stored};
use millstream_io::records::{Keep, Records};
use millstream_io::units::{ProducerEpoch, ProducerId, bytes_u64};
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
    Marker { pid: i64, epoch: i16, outcome: Outcome },
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Plain,
    Committed,
    Aborted,
    /// Its transaction has not ended.
    Open,
    Marker,
}

impl Fate {
    /// True for what readers of committed records get, and what replaces older records of its key.
    pub fn counts(self) -> bool {
        matches!(self, Fate::Plain | Fate::Committed)
    }
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
    /// Offsets of the records that a client gave to its reader, and of those that it did not.
    given: Vec<i64>,
    withheld: Vec<i64>,
}

/// Claims that are not judged yet, and how often which were.
#[derive(Debug, Default)]
pub struct Claims {
    open: Vec<Claim>,
    pub judged: u64,
    /// Of those, with a LastStableOffset in front of the HighWatermark, or with a list.
    pub held_back: u64,
    pub with_aborted: u64,
    /// Records withheld.
    pub withheld: u64,
}

impl Claims {
    /// A read of `[from, to)` was answered with this plan and these bytes.
    pub fn add(
        &mut self,
        partition: usize,
        (from, to): (i64, i64),
        plan: &ReadPlan,
        bytes: &[u8],
    ) -> Verdict {
        let Some(aborted) = &plan.aborted else {
            return Err(format!("p{partition} @{from}: no list of aborted transactions"));
        };
        let listed =
            |a: &millstream_shards::message::Aborted| (a.producer.get(), a.first_offset.get());
        let aborted: Vec<(i64, i64)> = aborted.iter().map(listed).collect();
        let (given, withheld) = filter(from, &aborted, bytes)?;
        let claim = Claim {
            partition,
            from,
            to,
            high_watermark: plan.high_watermark.get(),
            last_stable: plan.last_stable_offset.get(),
            log_start: plan.log_start.get(),
            aborted,
            given,
            withheld,
        };
        if from < to && to > claim.last_stable {
            return Err(format!("records of undecided transactions are served: {claim:?}"));
        }
        self.open.push(claim);
        Ok(())
    }

    /// Judges the claims of a partition whose log is wholly known.
    pub fn judge(&mut self, model_of: &Ledger, partition: usize, compacted: bool) -> Verdict {
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
            if compacted {
                due.retain(|aborted| claim.aborted.contains(aborted));
            }
            if claim.aborted != due {
                return Err(format!("the aborted transactions were {due:?}: {claim:?}"));
            }
            let counts = |at: &&i64| truth.fate(**at).counts() && **at < last_stable;
            if let Some(at) = claim.given.iter().find(|at| !counts(at)) {
                let fate = truth.fate(*at);
                return Err(format!(
                    "a reader of committed records got @{at}, {fate:?}: {claim:?}"
                ));
            }
            if let Some(at) = claim.withheld.iter().find(|at| truth.fate(**at) != Fate::Aborted) {
                let fate = truth.fate(*at);
                return Err(format!("a reader was not given @{at}, {fate:?}: {claim:?}"));
            }
            self.withheld += bytes_u64(claim.withheld.len());
            self.judged += 1;
            self.held_back += u64::from(last_stable < claim.high_watermark);
            self.with_aborted += u64::from(!due.is_empty());
        }
        Ok(())
    }
}

/// What a client that reads from `from` on gives to its reader, and what not, by the list of aborted
/// transactions that comes with the bytes: as the Java client does it.
fn filter(
    from: i64,
    aborted: &[(i64, i64)],
    mut bytes: &[u8],
) -> Result<(Vec<i64>, Vec<i64>), String> {
    if !aborted.is_sorted_by_key(|(_, first)| *first) {
        return Err(format!("the aborted transactions are not in order: {aborted:?}"));
    }
    let (mut ahead, mut skipped) = (aborted.iter().peekable(), HashSet::new());
    let (mut given, mut withheld) = (Vec::new(), Vec::new());
    while !bytes.is_empty() {
        let header = stored::whole(bytes).map_err(|e| e.to_string())?;
        let (batch, behind) = bytes.split_at(header.total_bytes().expect("whole"));
        bytes = behind;
        let (pid, last) =
            (header.producer_id_raw(), header.next_offset().expect("whole").get() - 1);
        while let Some((pid, _)) = ahead.next_if(|(_, first)| pid >= 0 && *first <= last) {
            skipped.insert(*pid);
        }
        if header.attributes().is_control() {
            if EndMarker::read(batch).is_some_and(|marker| marker.outcome == Outcome::Abort) {
                skipped.remove(&pid);
            }
            continue;
        }
        let is_aborted = header.attributes().is_transactional() && skipped.contains(&pid);
        let into = if is_aborted { &mut withheld } else { &mut given };
        let mut records = Records::open(batch, Keep::Nothing).map_err(|e| e.to_string())?;
        while let Some(record) = records.next_record().map_err(|e| e.to_string())? {
            into.extend(Some(record.offset.get()).filter(|at| *at >= from));
        }
    }
    Ok((given, withheld))
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
    /// Of each batch, by base offset.
    fates: BTreeMap<i64, Fate>,
}

#[derive(Debug)]
pub struct Ended {
    pub pid: i64,
    pub first: i64,
    pub marker: i64,
    pub aborted: bool,
    /// Its batches of data: base offset, and the offset behind it.
    pub batches: Vec<(i64, i64)>,
}

impl Ledger {
    pub fn of(model: &Model, partition: usize) -> Ledger {
        let placed = model.placed_in(partition);
        Ledger(placed.map(|(base, batch)| (base, batch.records, batch.role)).collect())
    }

    /// `None` when a batch in front of `end` is not known: it was deleted unseen.
    pub fn at(&self, end: i64) -> Option<Truth> {
        let mut truth = Truth::default();
        let mut open: BTreeMap<i64, Vec<(i64, i64)>> = BTreeMap::new();
        let mut next = 0;
        for (base, records, role) in &self.0 {
            if next >= end {
                break;
            }
            if *base != next {
                return None;
            }
            next = base + i64::from(*records);
            let fate = match *role {
                Role::Plain => Fate::Plain,
                Role::Data { pid } => {
                    open.entry(pid).or_default().push((*base, next));
                    Fate::Open
                }
                Role::Marker { pid, outcome, .. } => {
                    if let Some(batches) = open.remove(&pid) {
                        truth.end((pid, batches), *base, outcome);
                    }
                    Fate::Marker
                }
            };
            truth.fates.insert(*base, fate);
        }
        truth.open = open.into_iter().map(|(pid, batches)| (pid, batches[0].0)).collect();
        truth.first_open = truth.open.values().min().copied();
        (next == end).then_some(truth)
    }
}

impl Truth {
    /// What became of the record at an offset.
    pub fn fate(&self, offset: i64) -> Fate {
        self.fates.range(..=offset).next_back().map_or(Fate::Plain, |(_, fate)| *fate)
    }

    /// The transaction that a marker ended.
    pub fn ended_by(&self, marker: i64) -> Option<&Ended> {
        self.ended.iter().find(|ended| ended.marker == marker)
    }

    fn end(&mut self, (pid, batches): (i64, Vec<(i64, i64)>), marker: i64, outcome: Outcome) {
        let aborted = outcome == Outcome::Abort;
        let fate = if aborted { Fate::Aborted } else { Fate::Committed };
        self.fates.extend(batches.iter().map(|(base, _)| (*base, fate)));
        let first = batches[0].0;
        self.ended.push(Ended { pid, first, marker, aborted, batches });
    }
}
