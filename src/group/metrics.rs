//! What is told of groups to whoever watches the broker: copies, taken piece by piece, so that
//! many groups with many offsets never hold up their core.

use super::ask::GroupKind;
use super::classic::Name;
use crate::coordinator::load_times::Loads;
use millstream_io::units::bytes_u64;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// Offsets that one step copies: some tens of microseconds, behind which the core sees to other
/// things.
pub const OFFSETS_AT_ONCE: usize = 1024;

/// Names of groups that one step copies: less than a hundred microseconds, as above.
pub const NAMES_AT_ONCE: usize = 1024;

/// One group at one moment. Its offsets may be a little younger than the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupFacts {
    pub group: Name,
    pub kind: GroupKind,
    pub protocol_type: Name,
    pub state: &'static str,
    pub members: usize,
    /// Generation of a classic group, epoch of one of the consumer protocol.
    pub epoch: i32,
    /// By name of the topic; none of topics that are gone.
    pub commits: Vec<TopicCommits>,
}

/// What a group has committed in one topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicCommits {
    pub topic: Arc<str>,
    /// Partition and offset, by partition.
    pub partitions: Vec<(i32, i64)>,
}

impl GroupFacts {
    /// Committed offsets over all topics.
    pub fn commits_len(&self) -> usize {
        self.commits.iter().map(|topic| topic.partitions.len()).sum()
    }

    /// Adds a piece behind those that were added before.
    pub(super) fn add(&mut self, piece: Vec<TopicCommits>) {
        for topic in piece {
            match self.commits.last_mut() {
                Some(last) if last.topic == topic.topic => last.partitions.extend(topic.partitions),
                _ => self.commits.push(topic),
            }
        }
    }
}

/// What the groups of one core have done since its start. Lives on the core; its partitions share it.
#[derive(Debug, Default)]
pub struct GroupCounts(Cell<GroupTotals>);

/// A copy of [`GroupCounts`], with the loads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupTotals {
    /// Generations and epochs that were begun.
    pub classic_rebalances: u64,
    pub consumer_rebalances: u64,
    /// Offsets that were committed, those in transactions included.
    pub commits: u64,
    /// Offsets that were forgotten because they were kept long enough.
    pub expired: u64,
    /// Offsets that were deleted by request, or with their topics or groups.
    pub deleted: u64,
    pub loads: Loads,
}

impl GroupCounts {
    pub fn get(&self) -> GroupTotals {
        self.0.get()
    }

    pub(super) fn rebalanced(&self, kind: GroupKind) {
        self.change(|totals| match kind {
            GroupKind::Classic => totals.classic_rebalances += 1,
            GroupKind::Consumer => totals.consumer_rebalances += 1,
        });
    }

    pub(super) fn committed(&self, offsets: usize) {
        self.change(|totals| totals.commits += bytes_u64(offsets));
    }

    pub(super) fn expired(&self, offsets: usize) {
        self.change(|totals| totals.expired += bytes_u64(offsets));
    }

    pub(super) fn deleted(&self, offsets: usize) {
        self.change(|totals| totals.deleted += bytes_u64(offsets));
    }

    pub(super) fn loaded(&self, took: Duration) {
        self.change(|totals| totals.loads.add(took));
    }

    fn change(&self, change: impl FnOnce(&mut GroupTotals)) {
        let mut totals = self.0.get();
        change(&mut totals);
        self.0.set(totals);
    }
}

/// The groups of one core.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoreGroups {
    pub groups: Vec<GroupFacts>,
    /// Partitions of the offsets topic whose groups are not known yet.
    pub loading: u64,
}

/// A piece of the offsets of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitsPiece {
    pub commits: Vec<TopicCommits>,
    /// Behind which the next piece begins; `None` when there is no more.
    pub last: Option<(Arc<str>, i32)>,
}
