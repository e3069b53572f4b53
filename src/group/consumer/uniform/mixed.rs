//! The uniform assignor where members subscribe to different topics.
//!
//! First everybody keeps what it had and still wants, and what is left goes to the subscriber with
//! the least. Then partitions move while that makes two members more equal: at first from member
//! to member within a topic, then along chains, where one gives to a second what it has, and the
//! second to a third something else. When no chain helps the assignment is as even as can be.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use millstream_io::units::{TopicId, TopicPartition};

use super::super::assignor::GroupSpec;
use super::super::member::Partitions;
use super::super::settings::BALANCE_STEPS_MAX;

pub(super) fn assign(group: &GroupSpec<'_>) -> Vec<Partitions> {
    let mut balance = Balance::new(group);
    balance.hand_out(group);
    while balance.even_out_topics() {}
    while balance.even_out_along_a_chain() {}
    balance.assigned()
}

/// An assignment in the making.
struct Balance {
    /// Per topic: who subscribes, and what of it each has.
    topics: Vec<TopicShares>,
    /// Per member: the topics it subscribes to, as places in `topics`.
    wants: Vec<Vec<usize>>,
    /// Per member: partitions it has.
    loads: Vec<usize>,
    /// Steps of search left.
    steps: usize,
}

struct TopicShares {
    id: TopicId,
    subscribers: Vec<usize>,
    /// Partitions of each member that has any.
    shares: BTreeMap<usize, Vec<TopicPartition>>,
}

impl Balance {
    fn new(group: &GroupSpec<'_>) -> Balance {
        let ids: Vec<TopicId> = group.topics.keys().copied().collect();
        let none = |id: &TopicId| TopicShares {
            id: *id,
            subscribers: Vec::new(),
            shares: BTreeMap::new(),
        };
        let mut topics: Vec<TopicShares> = ids.iter().map(none).collect();
        let mut wants = Vec::with_capacity(group.members.len());
        for (member, spec) in group.members.iter().enumerate() {
            let places: Vec<usize> =
                spec.topics.iter().filter_map(|id| ids.binary_search(id).ok()).collect();
            for place in &places {
                topics[*place].subscribers.push(member);
            }
            wants.push(places);
        }
        let retained = group.retained();
        let loads = retained.iter().map(Vec::len).collect();
        for (member, partitions) in retained.into_iter().enumerate() {
            for partition in partitions {
                if let Ok(place) = ids.binary_search(&partition.topic) {
                    topics[place].shares.entry(member).or_default().push(partition);
                }
            }
        }
        Balance { topics, wants, loads, steps: BALANCE_STEPS_MAX }
    }

    /// Gives what nobody has to the subscriber with the least, topics with few subscribers first.
    fn hand_out(&mut self, group: &GroupSpec<'_>) {
        let mut order: Vec<usize> = (0..self.topics.len()).collect();
        order.sort_by_key(|place| self.topics[*place].subscribers.len());
        for place in order {
            let topic = &mut self.topics[place];
            let had: BTreeSet<TopicPartition> = topic.shares.values().flatten().copied().collect();
            let mut least: BinaryHeap<Reverse<(usize, usize)>> =
                topic.subscribers.iter().map(|m| Reverse((self.loads[*m], *m))).collect();
            for partition in group.partitions(topic.id).filter(|p| !had.contains(p)) {
                let Some(Reverse((load, member))) = least.pop() else { break };
                topic.shares.entry(member).or_default().push(partition);
                self.loads[member] = load + 1;
                least.push(Reverse((load + 1, member)));
            }
        }
    }

    /// Moves partitions within topics, each from who has most to who has least, while that differs
    /// by two. Gives whether anything moved.
    fn even_out_topics(&mut self) -> bool {
        let mut moved = false;
        for place in 0..self.topics.len() {
            let topic = &self.topics[place];
            let Some(cost) = self.steps.checked_sub(topic.subscribers.len()) else { return false };
            self.steps = cost;
            let mut takers: BTreeSet<(usize, usize)> =
                topic.subscribers.iter().map(|m| (self.loads[*m], *m)).collect();
            let mut givers: BTreeSet<(usize, usize)> =
                topic.shares.keys().map(|m| (self.loads[*m], *m)).collect();
            while let (Some(most), Some(least)) = (givers.pop_last(), takers.pop_first()) {
                if most.0 < least.0 + 2 || self.steps == 0 {
                    break;
                }
                self.steps -= 1;
                self.give(place, most.1, least.1);
                moved = true;
                takers.remove(&most);
                takers.insert((most.0 - 1, most.1));
                takers.insert((least.0 + 1, least.1));
                givers.remove(&least);
                givers.insert((least.0 + 1, least.1));
                if self.topics[place].shares.contains_key(&most.1) {
                    givers.insert((most.0 - 1, most.1));
                }
            }
        }
        moved
    }

    /// Finds the fullest member from which a chain leads to one that has two fewer, and moves a
    /// partition along each link. Gives whether there was one.
    fn even_out_along_a_chain(&mut self) -> bool {
        let mut fullest: Vec<usize> = (0..self.loads.len()).collect();
        fullest.sort_by_key(|member| Reverse(self.loads[*member]));
        let mut searched = vec![false; self.loads.len()];
        for from in fullest {
            if self.loads[from] < 2 {
                return false;
            }
            // Where a chain from a fuller member came by, no chain begins.
            if searched[from] {
                continue;
            }
            match self.search(from, &mut searched) {
                Search::Found(chain) => {
                    for (giver, place, taker) in chain {
                        self.give(place, giver, taker);
                    }
                    return true;
                }
                Search::NoChain => {}
                Search::OutOfSteps => return false,
            }
        }
        false
    }

    /// Walks breadth first from a member over what it has to who could take it.
    fn search(&mut self, from: usize, searched: &mut [bool]) -> Search {
        let mut came_by: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
        let mut topics_seen: BTreeSet<usize> = BTreeSet::new();
        let mut queue = VecDeque::from([from]);
        while let Some(giver) = queue.pop_front() {
            searched[giver] = true;
            if self.loads[giver] + 2 <= self.loads[from] {
                return Search::Found(chain(giver, from, &came_by));
            }
            for place in &self.wants[giver] {
                let topic = &self.topics[*place];
                if !topic.shares.contains_key(&giver) || !topics_seen.insert(*place) {
                    continue;
                }
                let Some(left) = self.steps.checked_sub(topic.subscribers.len()) else {
                    return Search::OutOfSteps;
                };
                self.steps = left;
                for taker in &topic.subscribers {
                    if *taker != from && !came_by.contains_key(taker) {
                        came_by.insert(*taker, (giver, *place));
                        queue.push_back(*taker);
                    }
                }
            }
        }
        Search::NoChain
    }

    fn give(&mut self, place: usize, giver: usize, taker: usize) {
        let topic = &mut self.topics[place];
        let share = topic.shares.get_mut(&giver);
        let given = share.and_then(|share| share.pop().map(|given| (given, share.is_empty())));
        let Some((partition, was_last)) = given else {
            panic!("member {giver} gives a partition of topic {} that it has not", topic.id);
        };
        if was_last {
            topic.shares.remove(&giver);
        }
        topic.shares.entry(taker).or_default().push(partition);
        self.loads[giver] -= 1;
        self.loads[taker] += 1;
    }

    fn assigned(self) -> Vec<Partitions> {
        let mut assigned = vec![Partitions::new(); self.loads.len()];
        for topic in self.topics {
            for (member, share) in topic.shares {
                assigned[member].extend(share);
            }
        }
        assigned
    }
}

enum Search {
    /// The links of the chain, the last first: giver, place of the topic, taker.
    Found(Vec<(usize, usize, usize)>),
    NoChain,
    OutOfSteps,
}

fn chain(
    to: usize,
    from: usize,
    came_by: &BTreeMap<usize, (usize, usize)>,
) -> Vec<(usize, usize, usize)> {
    let mut links = Vec::new();
    let mut taker = to;
    while taker != from {
        let Some((giver, place)) = came_by.get(&taker) else {
            panic!("a chain from member {from} to {to} breaks at {taker}");
        };
        links.push((*giver, *place, taker));
        taker = *giver;
    }
    links
}

#[cfg(test)]
#[path = "mixed_tests.rs"]
mod tests;
