//! One flush for all that was staged since the last one.

use std::collections::VecDeque;

use crate::table::Slot;

/// Decides when a commit round begins, what is in it, and who is answered at its end. Lives on the
/// owner's core; `T` is what a request waits by.
///
/// At most one round is in flight. The next begins as soon as it ends, with everything staged
/// meanwhile: at low load a record costs one flush, at high load the rounds grow. No timer.
///
/// Costs no allocation a batch once its queues have grown to the load.
#[derive(Debug)]
pub struct GroupCommit<T> {
    /// Partitions with staged bytes that are in no round yet, each once, longest waiting first.
    dirty: VecDeque<Slot>,
    in_flight: bool,
    rounds: u64,
    /// Who waits for the round in flight, and for the next.
    flying: Vec<T>,
    next: Vec<T>,
}

/// The round that makes a batch durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// It is durable now.
    Now,
    /// With the round in flight.
    InFlight,
    /// With the round after that.
    Next,
}

impl<T> Default for GroupCommit<T> {
    fn default() -> GroupCommit<T> {
        GroupCommit {
            dirty: VecDeque::new(),
            in_flight: false,
            rounds: 0,
            flying: Vec::new(),
            next: Vec::new(),
        }
    }
}

impl<T> GroupCommit<T> {
    pub fn new() -> GroupCommit<T> {
        GroupCommit::default()
    }

    /// Rounds departed so far.
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    pub fn is_in_flight(&self) -> bool {
        self.in_flight
    }

    /// Partitions that wait for a round.
    pub fn dirty(&self) -> usize {
        self.dirty.len()
    }

    /// The partitions that wait for a round, in their order.
    pub fn dirty_slots(&self) -> impl Iterator<Item = Slot> {
        self.dirty.iter().copied()
    }

    /// Requests that wait for an answer.
    pub fn waiting(&self) -> usize {
        self.flying.len() + self.next.len()
    }

    /// True when a round may begin.
    pub fn is_due(&self) -> bool {
        !self.in_flight && !self.dirty.is_empty()
    }

    /// A partition got its first staged bytes since it was last taken into a round. The caller
    /// keeps each partition here at most once.
    pub fn staged(&mut self, slot: Slot) {
        self.dirty.push_back(slot);
    }

    /// Puts a request where its last batch becomes durable.
    ///
    /// # Panics
    /// When it waits for a round in flight and there is none, or for nothing at all.
    pub fn wait(&mut self, due: Due, ticket: T) {
        match due {
            Due::Now => panic!("a request that is durable does not wait"),
            Due::InFlight => {
                assert!(self.in_flight, "a request waits for a round that is not in flight");
                self.flying.push(ticket);
            }
            Due::Next => self.next.push(ticket),
        }
    }

    /// Begins a round if none is in flight and a partition is dirty. It must be finished.
    pub fn begin(&mut self) -> bool {
        if !self.is_due() {
            return false;
        }
        assert!(self.flying.is_empty(), "{} requests wait for a past round", self.flying.len());
        self.in_flight = true;
        true
    }

    /// Gives each dirty partition to `take`, which says what of it is in the round. Those that are
    /// not wholly in it stay dirty, in their order. Says how many are in.
    ///
    /// # Panics
    /// When no round was begun.
    pub fn take(&mut self, mut take: impl FnMut(Slot) -> Taken) -> usize {
        assert!(self.in_flight, "partitions are taken into a round that was not begun");
        let mut taken = 0;
        for _ in 0..self.dirty.len() {
            let Some(slot) = self.dirty.pop_front() else { break };
            match take(slot) {
                Taken::Whole => taken += 1,
                Taken::Part => {
                    taken += 1;
                    self.dirty.push_back(slot);
                }
                Taken::Deferred => self.dirty.push_back(slot),
                Taken::Gone => {}
            }
        }
        taken
    }

    /// The round is complete: whoever waits now waits for it, and who comes later for the next.
    pub fn depart(&mut self) {
        assert!(self.in_flight, "a round departs that was not begun");
        self.rounds += 1;
        self.flying.append(&mut self.next);
    }

    /// The round in flight has ended, well or badly: gives everybody who waited for it to `settle`,
    /// which answers, or gives back a request that a partition left out of the round holds up.
    ///
    /// # Panics
    /// When none is in flight.
    pub fn finish(&mut self, mut settle: impl FnMut(T) -> Option<T>) {
        assert!(self.in_flight, "a round ends that is not in flight");
        self.in_flight = false;
        for ticket in self.flying.drain(..) {
            if let Some(unsettled) = settle(ticket) {
                self.next.push(unsettled);
            }
        }
    }

    /// Everybody who waits.
    pub fn waiting_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.flying.iter_mut().chain(&mut self.next)
    }

    /// Takes everybody out who waits, to tell them that no answer can be given. The round in
    /// flight goes on.
    pub fn give_up(&mut self) -> Vec<T> {
        let mut all = std::mem::take(&mut self.flying);
        all.append(&mut self.next);
        all
    }
}

/// What became of a dirty partition when a round began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// All its staged bytes are in the round.
    Whole,
    /// Some of it is in the round, and the rest waits for the next.
    Part,
    /// It waits for the next round.
    Deferred,
    /// The partition went away, or has nothing staged any more.
    Gone,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;
    use millstream_io::units::{PartitionIndex, TopicId, TopicPartition};
    use proptest::prelude::*;

    fn slots(count: i32) -> Vec<Slot> {
        let mut table = Table::default();
        let topic = TopicId::from_bytes([9; 16]);
        let at = |partition| TopicPartition { topic, partition: PartitionIndex::at(partition) };
        (0..count).map(|partition| table.insert(at(partition), ())).collect()
    }

    /// Begins a round of all that `take` takes, and departs.
    fn depart(commit: &mut GroupCommit<u32>, take: impl FnMut(Slot) -> Taken) -> usize {
        assert!(commit.begin());
        let taken = commit.take(take);
        commit.depart();
        taken
    }

    fn depart_all<T>(commit: &mut GroupCommit<T>) {
        assert!(commit.begin());
        commit.take(|_| Taken::Whole);
        commit.depart();
    }

    fn settled(commit: &mut GroupCommit<u32>) -> Vec<u32> {
        let mut done = Vec::new();
        commit.finish(|ticket| {
            done.push(ticket);
            None
        });
        done
    }

    #[test]
    fn one_round_takes_all_that_was_staged_meanwhile() {
        let slots = slots(3);
        let mut commit = GroupCommit::new();
        assert!(!commit.begin(), "nothing is staged");
        commit.staged(slots[0]);
        commit.wait(Due::Next, 1);
        depart(&mut commit, |_| Taken::Whole);
        commit.staged(slots[1]);
        commit.wait(Due::Next, 2);
        commit.staged(slots[2]);
        commit.wait(Due::Next, 3);
        assert!(!commit.begin(), "one round at a time");
        assert_eq!(settled(&mut commit), [1]);
        let mut taken = Vec::new();
        depart(&mut commit, |slot| {
            taken.push(slot);
            Taken::Whole
        });
        assert_eq!(taken, slots[1..]);
        assert_eq!(settled(&mut commit), [2, 3]);
        assert_eq!(commit.rounds(), 2);
    }

    #[test]
    fn retry_of_a_batch_in_flight_is_answered_with_its_round() {
        let slots = slots(1);
        let mut commit = GroupCommit::new();
        commit.staged(slots[0]);
        commit.wait(Due::Next, 1);
        depart(&mut commit, |_| Taken::Whole);
        commit.wait(Due::InFlight, 2);
        assert_eq!(settled(&mut commit), [1, 2]);
        assert!(!commit.is_due());
    }

    #[test]
    fn partition_that_did_not_fit_comes_first_next_time() {
        let slots = slots(3);
        let mut commit = GroupCommit::new();
        slots.iter().for_each(|slot| commit.staged(*slot));
        commit.wait(Due::Next, 7);
        let fits = |slot| if slot == slots[1] { Taken::Deferred } else { Taken::Whole };
        assert_eq!(depart(&mut commit, fits), 2);
        commit.finish(Some);
        assert_eq!(commit.waiting(), 1);
        let mut taken = Vec::new();
        commit.staged(slots[0]);
        depart(&mut commit, |slot| {
            taken.push(slot);
            Taken::Whole
        });
        assert_eq!(taken, [slots[1], slots[0]]);
        assert_eq!(settled(&mut commit), [7]);
    }

    #[test]
    fn round_of_vanished_partitions_is_empty() {
        let slots = slots(1);
        let mut commit: GroupCommit<u32> = GroupCommit::new();
        commit.staged(slots[0]);
        assert_eq!(depart(&mut commit, |_| Taken::Gone), 0);
        commit.finish(Some);
        assert!(!commit.is_due());
    }

    proptest! {
        /// Goal: every request is settled exactly once, never before its round has ended.
        /// Method: a model that numbers rounds and remembers which one each request needs.
        #[test]
        fn walk_settles_each_request_with_its_round(steps in proptest::collection::vec(0u8..4, 0..200)) {
            let slots = slots(4);
            let mut commit: GroupCommit<(u32, u64)> = GroupCommit::new();
            let mut staged = [false; 4];
            let (mut begun, mut ended, mut asked, mut answered) = (0u64, 0u64, 0u32, 0u32);
            for (i, step) in steps.into_iter().enumerate() {
                match step {
                    0 | 1 => {
                        if !staged[i % 4] { staged[i % 4] = true; commit.staged(slots[i % 4]); }
                        commit.wait(Due::Next, (asked, begun + 1));
                        asked += 1;
                    }
                    2 if begun == ended && commit.is_due() => {
                        depart_all(&mut commit);
                        begun += 1;
                        staged = [false; 4];
                    }
                    2 if begun == ended => {}
                    2 => {
                        commit.wait(Due::InFlight, (asked, begun));
                        asked += 1;
                    }
                    _ if begun > ended => {
                        ended += 1;
                        let mut due = Vec::new();
                        commit.finish(|ticket| { due.push(ticket); None });
                        for (_, round) in due { prop_assert_eq!(round, ended); answered += 1; }
                    }
                    _ => {}
                }
                prop_assert_eq!(asked - answered, commit.waiting() as u32);
            }
        }
    }
}
