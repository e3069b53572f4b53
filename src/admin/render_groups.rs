//! The metrics of groups. Offsets come from the coordinators' cores, the ends of logs from the
//! partitions' owners; here they meet.

use super::families::*;
use super::render::{Marks, Turns};
use super::text::Text;
use super::watch::Observation;
use crate::cluster::image::MetadataImage;
use crate::group::metrics::GroupFacts;
use millstream_shards::query::PartitionMarks;
use std::collections::BTreeMap;

/// Writes what is known of all groups.
pub async fn write(text: &mut Text, seen: &Observation, image: &MetadataImage, marks: &Marks) {
    loading(text, seen);
    let mut groups: Vec<&GroupFacts> =
        seen.groups.iter().flatten().flat_map(|core| &core.groups).collect();
    groups.sort_unstable_by(|a, b| a.group.cmp(&b.group));
    totals(text, &groups);
    if groups.len() > seen.detail_max {
        return;
    }
    facts(text, &groups);
    let lags = lags(&groups, image, marks).await;
    let mut samples = text.family(&GROUP_LAG);
    for group in lags.iter().filter(|group| !group.topics.is_empty()) {
        let whole = group.topics.iter().fold(Lag::default(), |sum, topic| sum.plus(topic.lag));
        for (isolation, lag) in whole.by_isolation() {
            samples.add(&[group.name, isolation], lag);
        }
    }
    if lags.iter().map(|group| group.topics.len()).sum::<usize>() <= seen.detail_max {
        let mut samples = text.family(&GROUP_TOPIC_LAG);
        for group in &lags {
            for topic in &group.topics {
                for (isolation, lag) in topic.lag.by_isolation() {
                    samples.add(&[group.name, topic.name, isolation], lag);
                }
            }
        }
    }
    if groups.iter().map(|group| group.commits_len()).sum::<usize>() <= seen.detail_max {
        by_partition(text, &lags).await;
    }
}

fn loading(text: &mut Text, seen: &Observation) {
    let mut samples = text.family(&GROUP_PARTITIONS_LOADING);
    for (core, groups) in seen.groups.iter().enumerate() {
        if let Some(groups) = groups {
            samples.add(&[&core.to_string()], groups.loading);
        }
    }
}

fn totals(text: &mut Text, groups: &[&GroupFacts]) {
    let mut counts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for group in groups {
        *counts.entry((group.kind.name(), group.state)).or_default() += 1;
    }
    let mut samples = text.family(&GROUPS);
    for ((protocol, state), count) in counts {
        samples.add(&[protocol, state], count);
    }
}

fn facts(text: &mut Text, groups: &[&GroupFacts]) {
    let mut samples = text.family(&GROUP_INFO);
    for group in groups {
        samples.add(&[&group.group, group.kind.name(), &group.protocol_type], 1);
    }
    let mut samples = text.family(&GROUP_STATE);
    groups.iter().for_each(|group| samples.add(&[&group.group, group.state], 1));
    let mut samples = text.family(&GROUP_MEMBERS);
    groups.iter().for_each(|group| samples.add(&[&group.group], group.members));
    let mut samples = text.family(&GROUP_EPOCH);
    groups.iter().for_each(|group| samples.add(&[&group.group], group.epoch));
}

async fn by_partition(text: &mut Text, lags: &[GroupLag<'_>]) {
    let mut turns = Turns::default();
    let mut samples = text.family(&GROUP_COMMITTED);
    for group in lags {
        for topic in &group.topics {
            for partition in &topic.partitions {
                let index = partition.index.to_string();
                samples.add(&[group.name, topic.name, &index], partition.committed);
            }
            turns.after(topic.partitions.len()).await;
        }
    }
    let mut samples = text.family(&GROUP_PARTITION_LAG);
    for group in lags {
        for topic in &group.topics {
            for partition in &topic.partitions {
                let index = partition.index.to_string();
                for (isolation, lag) in partition.lag.by_isolation() {
                    samples.add(&[group.name, topic.name, &index, isolation], lag);
                }
            }
            turns.after(topic.partitions.len()).await;
        }
    }
}

/// How far a group is behind.
struct GroupLag<'a> {
    name: &'a str,
    topics: Vec<TopicLag<'a>>,
}

struct TopicLag<'a> {
    name: &'a str,
    partitions: Vec<PartitionLag>,
    /// Over all partitions.
    lag: Lag,
}

struct PartitionLag {
    index: i32,
    committed: i64,
    lag: Lag,
}

/// Offsets from a committed one to the end, for both kinds of readers. Never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lag {
    uncommitted: u64,
    committed: u64,
}

impl Lag {
    /// From the committed offset, wherever the log begins, as Apache Kafka's tools count it. A group
    /// may have committed ahead of the end: nothing is left for it to read then.
    fn of(committed: i64, partition: &PartitionMarks) -> Lag {
        let behind = |end: i64| u64::try_from(end.saturating_sub(committed)).unwrap_or(0);
        Lag {
            uncommitted: behind(partition.marks.high_watermark.get()),
            committed: behind(partition.marks.last_stable.get()),
        }
    }

    fn plus(self, other: Lag) -> Lag {
        Lag {
            uncommitted: self.uncommitted.saturating_add(other.uncommitted),
            committed: self.committed.saturating_add(other.committed),
        }
    }

    fn by_isolation(self) -> [(&'static str, u64); 2] {
        [("read_uncommitted", self.uncommitted), ("read_committed", self.committed)]
    }
}

/// Brings offsets and ends together. A partition whose end is not known has no lag.
async fn lags<'a>(
    groups: &[&'a GroupFacts],
    image: &MetadataImage,
    marks: &Marks,
) -> Vec<GroupLag<'a>> {
    let mut turns = Turns::default();
    let mut lags = Vec::with_capacity(groups.len());
    for group in groups {
        let mut topics = Vec::new();
        for commits in &group.commits {
            let id = image.topic_by_name(&commits.topic).map(|topic| topic.id);
            let Some(of_topic) = id.and_then(|id| marks.get(&id)) else { continue };
            let one = |(index, committed): &(i32, i64)| {
                let end = of_topic.get(usize::try_from(*index).ok()?)?.as_ref()?;
                let (index, committed) = (*index, *committed);
                Some(PartitionLag { index, committed, lag: Lag::of(committed, end) })
            };
            let partitions: Vec<PartitionLag> = commits.partitions.iter().filter_map(one).collect();
            turns.after(partitions.len()).await;
            if partitions.is_empty() {
                continue;
            }
            let lag = partitions.iter().fold(Lag::default(), |sum, p| sum.plus(p.lag));
            topics.push(TopicLag { name: &commits.topic, partitions, lag });
        }
        lags.push(GroupLag { name: &group.group, topics });
    }
    lags
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_io::units::{Offset, PartitionIndex, TopicId, TopicPartition};
    use millstream_shards::watermarks::Marks as Offsets;

    #[test]
    fn lag_counts_from_the_commit_to_both_ends_and_is_never_negative() {
        let offset = Offset::at;
        let marks = Offsets {
            log_start: offset(10),
            last_stable: offset(20),
            high_watermark: offset(30),
            durable_end: offset(40),
            log_end: offset(50),
        };
        let topic = TopicId::from_bytes([1; 16]);
        let at = TopicPartition { topic, partition: PartitionIndex::at(0) };
        let partition = PartitionMarks { at, marks, bytes: 0 };
        for (commit, uncommitted, committed) in
            [(0, 30, 20), (15, 15, 5), (20, 10, 0), (25, 5, 0), (30, 0, 0), (i64::MAX, 0, 0)]
        {
            assert_eq!(Lag::of(commit, &partition), Lag { uncommitted, committed }, "{commit}");
        }
        let most = Lag { uncommitted: u64::MAX, committed: 1 };
        assert_eq!(most.plus(most), Lag { uncommitted: u64::MAX, committed: 2 });
    }
}
