//! Walks over all groups, in steps that are short however many groups there are.

use super::group::Group;
use super::{Entry, GroupPartition, Name, NewRecord};
use crate::coordinator::walk::Walk;
use crate::group::limits::VISITED_AT_ONCE;
use std::ops::Bound;

impl GroupPartition {
    /// One step of a walk: visits groups, in the order of their names, until [`VISITED_AT_ONCE`] of
    /// them and of their offsets were looked at, and gives what is to be written.
    pub(super) fn step(
        &mut self,
        walk: &mut Walk<Name>,
        mut visit: impl FnMut(&Name, &mut Group) -> Option<Entry>,
    ) -> Vec<Entry> {
        let Some(last) = walk.step() else { return Vec::new() };
        let from = last.as_ref().map_or(Bound::Unbounded, |last| Bound::Excluded(&**last));
        let mut entries = Vec::new();
        let mut room = VISITED_AT_ONCE;
        for (name, group) in self.groups.range_mut::<str, _>((from, Bound::Unbounded)) {
            entries.extend(visit(name, group));
            room = room.saturating_sub(1 + group.offsets.committed().len());
            if room == 0 {
                walk.goes_on(name.clone());
                break;
            }
        }
        entries
    }

    /// One step of a walk that gives records which, replayed behind what
    /// [`GroupPartition::first_to_keep`] leaves of this log, give all that it says now. What is on its
    /// way to the log may be in it already; its own records come behind. Nothing may become durable
    /// between the steps.
    pub fn records_step(&self, walk: &mut Walk<Name>) -> Vec<NewRecord> {
        let Some(last) = walk.step() else { return Vec::new() };
        let from = last.as_ref().map_or(Bound::Unbounded, |last| Bound::Excluded(&**last));
        let mut records = Vec::new();
        for (count, (name, group)) in
            (1..).zip(self.groups.range::<str, _>((from, Bound::Unbounded)))
        {
            records.extend(group.records(name));
            if count + records.len() >= VISITED_AT_ONCE {
                walk.goes_on(name.clone());
                break;
            }
        }
        records
    }
}

#[cfg(test)]
mod tests {
    use super::super::{GroupSettings, Now};
    use super::*;
    use crate::group::metrics::NAMES_AT_ONCE;
    use crate::group::offsets::{CommittedOffset, Stored};
    use millstream_io::units::{Offset, TimestampMs, TopicId};

    /// Groups that each have committed offsets, at the time 1.
    fn groups_of(groups: usize, offsets: i32) -> GroupPartition {
        let now = Now { ms: 1, wall: TimestampMs::new(1) };
        let mut all = GroupPartition::new(GroupSettings::default(), 1 << 20);
        for number in 0..groups {
            let group = all.group_or_new(&format!("g{number:05}").into(), now);
            for partition in 0..offsets {
                let committed = CommittedOffset {
                    offset: 1,
                    leader_epoch: -1,
                    metadata: "".into(),
                    committed_at: now.wall,
                    expires_at: -1,
                    topic_id: TopicId::from_bytes([7; 16]),
                };
                group.offsets.put("t", partition, Stored { committed, at: Offset::ZERO });
            }
        }
        all
    }

    /// Goal: no step over 10,000 groups of one partition is longer than it may be, whatever it does,
    /// and together the steps miss none. Method: groups and offsets of each step are counted.
    #[test]
    fn steps_over_ten_thousand_groups_are_bounded_and_reach_each_once() {
        let later = Now { ms: 5000, wall: TimestampMs::new(5000) };
        let (groups, offsets) = (10_000, 3);
        let is_gone = |_: &str, _: TopicId| false;
        type Step<'a> = &'a dyn Fn(&mut GroupPartition, &mut Walk<Name>) -> Vec<Entry>;
        let idle: Step<'_> = &|all, walk| all.step(walk, |_, _| None);
        let expire: Step<'_> = &|all, walk| all.expire_step(walk, 1000, later);
        let purge: Step<'_> = &|all, walk| all.topics_gone_step(walk, is_gone, later);
        for (what, step) in [("idle", idle), ("expire", expire), ("topics gone", purge)] {
            let mut all = groups_of(groups, offsets);
            let (mut walk, mut steps, mut records) = (Walk::BEGIN, 0, 0);
            while !walk.is_over() {
                let written: usize =
                    step(&mut all, &mut walk).iter().map(|e| e.records.len()).sum();
                assert!(written <= VISITED_AT_ONCE, "{what}: {written} in a step");
                (steps, records) = (steps + 1, records + written);
            }
            let visited = groups * (1 + offsets as usize);
            assert_eq!(steps, visited / VISITED_AT_ONCE + 1, "{what}");
            let all_offsets = groups * offsets as usize;
            assert_eq!(records, if what == "idle" { 0 } else { all_offsets }, "{what}");
        }
        let mut all = groups_of(groups, offsets);
        let (mut names, mut last) = (Vec::new(), None);
        loop {
            let piece = all.listed_after(last.as_ref());
            assert!(piece.len() <= NAMES_AT_ONCE);
            let Some(end) = piece.last() else { break };
            last = Some(end.group.clone());
            names.extend(piece.into_iter().map(|listed| listed.group));
        }
        assert!(names.iter().eq(all.groups.keys()));
        let (mut walk, mut steps, mut records) = (Walk::BEGIN, 0, 0);
        while !walk.is_over() {
            let piece = all.records_step(&mut walk).len();
            assert!(piece <= VISITED_AT_ONCE);
            (steps, records) = (steps + 1, records + piece);
        }
        assert_eq!((steps, records), (groups * 4 / VISITED_AT_ONCE + 1, groups * 3));
        all.groups.clear();
        let mut walk = Walk::BEGIN;
        assert!(all.step(&mut walk, |_, _| None).is_empty() && walk.is_over());
    }

    #[test]
    fn walk_goes_on_where_it_was_though_groups_come_and_go() {
        let mut all = groups_of(2 * VISITED_AT_ONCE, 0);
        let (mut walk, mut seen) = (Walk::BEGIN, Vec::new());
        all.step(&mut walk, |name, _| {
            seen.push(name.clone());
            None
        });
        all.groups.remove(seen.last().unwrap());
        all.groups.remove("g00000");
        all.step(&mut walk, |name, _| {
            seen.push(name.clone());
            None
        });
        let wanted = (0..2 * VISITED_AT_ONCE).map(|number| Name::from(format!("g{number:05}")));
        assert!(seen.into_iter().eq(wanted));
    }
}
