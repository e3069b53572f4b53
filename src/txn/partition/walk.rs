//! Walks over all transactional ids, in steps that are short however many there are.

use super::{Entry, Name, Step, Then, TransactionPartition, record};
use crate::coordinator::walk::Walk;
use crate::txn::ask::{Filter, Listed};
use crate::txn::limits::VISITED_AT_ONCE;
use millstream_io::batch::NewRecord;
use millstream_io::units::TimestampMs;
use std::ops::Bound;

impl TransactionPartition {
    /// Begins to abort what is open for too long: one step over the open transactions.
    pub fn abort_timed_out_step(
        &mut self,
        walk: &mut Walk<(TimestampMs, Name)>,
        now: TimestampMs,
    ) -> Vec<Entry> {
        let Some(last) = walk.step() else { return Vec::new() };
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.tally.open().range((from, Bound::Unbounded));
        let seen: Vec<(TimestampMs, Name)> = behind.take(VISITED_AT_ONCE).cloned().collect();
        if let Some(last) = seen.last().filter(|_| seen.len() == VISITED_AT_ONCE) {
            walk.goes_on(last.clone());
        }
        let abort = |(_, id): (TimestampMs, Name)| {
            let slot = self.ids.get(&id).filter(|slot| slot.step.is_none())?;
            let current = slot.current.as_ref().filter(|current| current.is_timed_out(now))?;
            let next = current.fenced(now);
            self.counts.timed_out();
            self.store(&id, next, Then::Nothing)
        };
        seen.into_iter().filter_map(abort).collect()
    }

    /// Begins to remove ids that nobody used for long: one step.
    pub fn expire_step(&mut self, walk: &mut Walk<Name>, now: TimestampMs) -> Vec<Entry> {
        let Some(last) = walk.step() else { return Vec::new() };
        let from = last.as_ref().map_or(Bound::Unbounded, |last| Bound::Excluded(&**last));
        let behind = self.ids.range_mut::<str, _>((from, Bound::Unbounded));
        let mut entries = Vec::new();
        for (count, (id, slot)) in (1..).zip(behind) {
            let current = slot.current.as_ref();
            let is_over = current.is_some_and(|c| c.is_expired(now, self.settings.expiration_ms));
            if slot.step.is_none() && is_over {
                slot.step = Some(Step::Expiring);
                entries.push(Entry { id: id.clone(), record: record(id, None) });
            }
            if count == VISITED_AT_ONCE {
                walk.goes_on(id.clone());
                break;
            }
        }
        entries
    }

    /// Records that, replayed into an empty log, give all that this log says: one step. What is on its
    /// way to the log comes behind. Nothing may become durable between the steps.
    pub fn records_step(&self, walk: &mut Walk<Name>) -> Vec<NewRecord> {
        let Some(last) = walk.step() else { return Vec::new() };
        let from = last.as_ref().map_or(Bound::Unbounded, |last| Bound::Excluded(&**last));
        let behind = self.ids.range::<str, _>((from, Bound::Unbounded));
        let mut records = Vec::new();
        for (count, (id, slot)) in (1..).zip(behind) {
            records.extend(slot.current.as_ref().map(|current| record(id, Some(current))));
            if count == VISITED_AT_ONCE {
                walk.goes_on(id.clone());
                break;
            }
        }
        records
    }

    /// The ids that `filter` takes: one step.
    pub fn list_step(
        &self,
        walk: &mut Walk<Name>,
        filter: &Filter,
        now: TimestampMs,
    ) -> Vec<Listed> {
        let Some(last) = walk.step() else { return Vec::new() };
        let from = last.as_ref().map_or(Bound::Unbounded, |last| Bound::Excluded(&**last));
        let behind = self.ids.range::<str, _>((from, Bound::Unbounded));
        let mut taken = Vec::new();
        for (count, (id, slot)) in (1..).zip(behind) {
            let listed = slot.current.as_ref().map(|current| Listed {
                transactional_id: id.clone(),
                producer: current.producer,
                state: current.state,
                started_at: current.started_at,
            });
            taken.extend(listed.filter(|listed| filter.takes(listed, now)));
            if count == VISITED_AT_ONCE {
                walk.goes_on(id.clone());
                break;
            }
        }
        taken
    }
}

/// Walks to their end, for tests.
#[cfg(test)]
impl TransactionPartition {
    pub fn abort_timed_out(&mut self, now: TimestampMs) -> Vec<Entry> {
        let (mut walk, mut entries) = (Walk::BEGIN, Vec::new());
        while !walk.is_over() {
            entries.extend(self.abort_timed_out_step(&mut walk, now));
        }
        entries
    }

    pub fn expire(&mut self, now: TimestampMs) -> Vec<Entry> {
        let (mut walk, mut entries) = (Walk::BEGIN, Vec::new());
        while !walk.is_over() {
            entries.extend(self.expire_step(&mut walk, now));
        }
        entries
    }

    pub fn list(&self, filter: &Filter, now: TimestampMs) -> Vec<Listed> {
        let (mut walk, mut all) = (Walk::BEGIN, Vec::new());
        while !walk.is_over() {
            all.extend(self.list_step(&mut walk, filter, now));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::super::tests::{Bench, at, fresh, participant};
    use super::*;
    use crate::txn::ask::{Add, Ask, Init};
    use crate::txn::metrics::TransactionLevels;
    use crate::txn::transaction::Protocol;

    /// Goal: no step over 10,000 ids of one partition looks at more of them than it may, together they
    /// reach each once, and what is told of all is what they are. Method: every third id has an open
    /// transaction; the steps abort those, list all, and expire all.
    #[test]
    fn steps_over_ten_thousand_ids_are_bounded_and_reach_each_once() {
        let count: usize = 10_000;
        let mut bench = Bench::new();
        let names: Vec<Name> = (0..count).map(|n| format!("tx{n:05}").into()).collect();
        for (number, name) in (0..).zip(&names) {
            let init = Init { expected: None, timeout_ms: 1000, fresh: fresh(number) };
            let given = bench.ask(name, |reply| Ask::Init(init, reply));
            assert!(bench.durable());
            let by = given.wait().unwrap().unwrap();
            if number % 3 == 0 {
                let add = Add { by, partitions: vec![participant(0)], protocol: Protocol::V2 };
                let _added = bench.ask(name, |reply| Ask::Add(add, reply));
                bench.now = bench.now.plus(1);
                assert!(bench.durable());
            }
        }
        let open = count.div_ceil(3);
        let levels = |bench: &Bench| {
            let mut levels = TransactionLevels::default();
            levels.add(bench.ids.tally());
            (levels.by_state, levels.oldest_open)
        };
        let closed = (count - open) as u64;
        assert_eq!(levels(&bench), ([closed, open as u64, 0, 0, 0, 0], Some(at(0))));

        let (mut walk, mut listed) = (Walk::BEGIN, Vec::new());
        while !walk.is_over() {
            let piece = bench.ids.list_step(&mut walk, &Filter::default(), bench.now);
            assert!(piece.len() <= VISITED_AT_ONCE);
            listed.extend(piece.into_iter().map(|listed| listed.transactional_id));
        }
        assert_eq!(listed, names);
        let (mut walk, mut records) = (Walk::BEGIN, 0);
        while !walk.is_over() {
            let piece = bench.ids.records_step(&mut walk).len();
            assert!(piece <= VISITED_AT_ONCE);
            records += piece;
        }
        assert_eq!(records, count);

        bench.now = bench.now.plus(1001);
        let mut walk = Walk::BEGIN;
        while !walk.is_over() {
            let piece = bench.ids.abort_timed_out_step(&mut walk, bench.now);
            assert!(piece.len() <= VISITED_AT_ONCE);
            bench.waiting.extend(piece);
        }
        assert_eq!(bench.waiting.len(), open);
        while bench.durable() {}
        assert_eq!(levels(&bench), ([closed, 0, 0, open as u64, 0, 0], None));
        while bench.marked().is_some() {}
        while bench.durable() {}
        assert_eq!(levels(&bench), ([closed, 0, 0, 0, 0, open as u64], None));
        let totals = bench.ids.counts.get();
        assert_eq!(
            (totals.committed, totals.aborted, totals.timed_out),
            (0, open as u64, open as u64)
        );

        bench.now = bench.now.plus(1 << 40);
        let mut walk = Walk::BEGIN;
        while !walk.is_over() {
            let piece = bench.ids.expire_step(&mut walk, bench.now);
            assert!(piece.len() <= VISITED_AT_ONCE);
            bench.waiting.extend(piece);
        }
        assert_eq!(bench.waiting.len(), count);
        while bench.durable() {}
        assert!(bench.ids.is_empty());
        assert_eq!(levels(&bench), ([0; State::STORED.len()], None));
    }
}
