//! The whole text of a made-up broker.

use super::super::core_task::CoreCounts;
use super::super::families::ALL;
use super::*;
use crate::cluster::image::tests::image;
use crate::cluster::store::{Stored, TopicRecord};
use crate::coordinator::load_times::Loads;
use crate::group::ask::GroupKind;
use crate::group::metrics::{CoreGroups, GroupFacts, GroupTotals, TopicCommits};
use crate::session::admission::Connections;
use crate::txn::metrics::{TransactionLevels, TransactionTotals};
use crate::wire::ApiKey;
use futures_lite::future::block_on;
use millstream_io::units::{Offset, PartitionIndex, TimestampMs, TopicPartition};
use millstream_shards::metrics::{Levels, Metrics};
use millstream_shards::watermarks::Marks as Offsets;
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

/// One topic of two partitions; a group that has committed in one, and in one that is no more.
fn seen(detail_max: usize) -> Observation {
    let id = TopicId::from_bytes([1; 16]);
    let mut stored = Stored { starts: 1, ..Stored::default() };
    let record = TopicRecord {
        name: "t".to_owned(),
        partitions: 2,
        created_at_start: 1,
        configs: Default::default(),
    };
    stored.topics.insert(id, record);
    let (time, longest) = (Duration::from_millis(1500), Duration::from_secs(1));
    let loads = Loads { count: 2, time, longest };
    let totals = TransactionTotals { aborted: 6, ..TransactionTotals::default() };
    let oldest_open = Some(TimestampMs::new(7000));
    let by_state = [1, 2, 3, 4, 5, 6];
    let transactions = TransactionLevels { by_state, oldest_open, completing: 7, loading: 0 };
    let counts = CoreCounts {
        metrics: Metrics { fsync_total: 7, ..Metrics::default() },
        levels: Levels { tail_bytes: 9, ..Levels::default() },
        requests: vec![(ApiKey::Fetch, 5)],
        batches_recompressed: 0,
        logins: Vec::new(),
        sessions_expired: 0,
        connections: 3,
        admitted: Connections::default(),
        request_memory_bytes: 0,
        groups: GroupTotals { commits: 8, loads, ..GroupTotals::default() },
        transactions: (totals, transactions),
        at: TimestampMs::new(9500),
        image: Arc::new(image(&stored)),
    };
    let at = |topic, partition| TopicPartition { topic, partition: PartitionIndex::at(partition) };
    let (log_start, last_stable) = (Offset::at(1), Offset::at(4));
    let (high_watermark, durable_end, log_end) = (Offset::at(6), Offset::at(6), Offset::at(8));
    let marks = Offsets { log_start, last_stable, high_watermark, durable_end, log_end };
    let gone = TopicId::from_bytes([2; 16]);
    let partitions = [at(id, 0), at(id, 1), at(gone, 0), at(id, 2)].map(|at| PartitionMarks {
        at,
        marks,
        bytes: 50,
    });
    let commits = |topic: &str, partitions| TopicCommits { topic: topic.into(), partitions };
    let group = GroupFacts {
        group: "g \"1\"".into(),
        kind: GroupKind::Classic,
        protocol_type: "consumer".into(),
        state: "Stable",
        members: 2,
        epoch: 11,
        commits: vec![commits("gone", vec![(0, 1)]), commits("t", vec![(1, 3), (2, 1)])],
    };
    Observation {
        started: SystemTime::UNIX_EPOCH,
        ready: true,
        counts: vec![Some(counts), None],
        groups: vec![Some(CoreGroups { groups: vec![group], loading: 1 }), None],
        partitions: partitions.into(),
        took: Duration::from_millis(5),
        detail_max,
    }
}

fn text_of(detail_max: usize) -> String {
    let seen = seen(detail_max);
    String::from_utf8(block_on(text(&seen)).to_vec()).unwrap()
}

#[test]
fn every_metric_of_the_table_is_told_once_and_no_other() {
    let text = text_of(100);
    let told: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let wanted: BTreeSet<&str> = ALL.iter().map(|family| family.name).collect();
    assert_eq!(told.iter().copied().collect::<BTreeSet<_>>(), wanted);
    assert_eq!(told.len(), wanted.len());
}

#[test]
fn values_stand_where_they_belong() {
    let text = text_of(100);
    for line in [
        "millstream_ready 1",
        "process_start_time_seconds 0",
        "millstream_observation_seconds 0.005",
        "millstream_core_up{core=\"0\"} 1",
        "millstream_core_up{core=\"1\"} 0",
        "millstream_fsync_total{core=\"0\"} 7",
        "millstream_tail_bytes{core=\"0\"} 9",
        "millstream_requests_total{core=\"0\",api=\"Fetch\"} 5",
        "millstream_group_offset_commits_total{core=\"0\"} 8",
        "millstream_group_rebalances_total{core=\"0\",protocol=\"classic\"} 0",
        "millstream_coordinator_loads_total{core=\"0\",coordinator=\"group\"} 2",
        "millstream_coordinator_load_seconds_total{core=\"0\",coordinator=\"group\"} 1.5",
        "millstream_coordinator_load_longest_seconds{core=\"0\",coordinator=\"transaction\"} 0",
        "millstream_transactional_ids{core=\"0\",state=\"PrepareCommit\"} 3",
        "millstream_transactions_ended_total{core=\"0\",outcome=\"abort\"} 6",
        "millstream_transaction_oldest_open_seconds{core=\"0\"} 2.5",
        "millstream_transactions_completing{core=\"0\"} 7",
        "millstream_topic_high_watermarks{topic=\"t\"} 12",
        "millstream_topic_log_bytes{topic=\"t\"} 100",
        "millstream_partition_log_start_offset{topic=\"t\",partition=\"1\"} 1",
        "millstream_partition_last_stable_offset{topic=\"t\",partition=\"1\"} 4",
        "millstream_partition_high_watermark{topic=\"t\",partition=\"1\"} 6",
        "millstream_partition_log_end_offset{topic=\"t\",partition=\"1\"} 8",
        "millstream_groups{protocol=\"classic\",state=\"Stable\"} 1",
        "millstream_group_state{group=\"g \\\"1\\\"\",state=\"Stable\"} 1",
        "millstream_group_members{group=\"g \\\"1\\\"\"} 2",
        "millstream_group_epoch{group=\"g \\\"1\\\"\"} 11",
        "millstream_group_lag_records{group=\"g \\\"1\\\"\",isolation=\"read_uncommitted\"} 3",
        "millstream_group_topic_lag_records{group=\"g \\\"1\\\"\",topic=\"t\",isolation=\"read_committed\"} 1",
        "millstream_group_partition_committed_offset{group=\"g \\\"1\\\"\",topic=\"t\",partition=\"1\"} 3",
    ] {
        assert!(text.lines().any(|told| told == line), "{line} is not in\n{text}");
    }
    let of_partitions = |line: &&str| line.starts_with("millstream_group_partition_lag_records{");
    assert_eq!(text.lines().filter(of_partitions).count(), 2, "one partition, two isolations");
    assert!(!text.contains("gone") && !text.contains("partition=\"2\""));
}

#[test]
fn beyond_the_bound_only_sums_are_told() {
    let has = |text: &str, name: &str| text.contains(&format!("# TYPE {name} "));
    let text = text_of(2);
    assert!(has(&text, "millstream_partition_high_watermark"));
    assert!(has(&text, "millstream_group_topic_lag_records"));
    assert!(!has(&text, "millstream_group_partition_lag_records"), "three offsets are committed");
    let text = text_of(1);
    assert!(!has(&text, "millstream_partition_high_watermark"));
    assert!(has(&text, "millstream_topic_high_watermarks"));
    let text = text_of(0);
    assert!(!has(&text, "millstream_topic_high_watermarks"));
    assert!(!has(&text, "millstream_group_lag_records") && has(&text, "millstream_groups"));
}
