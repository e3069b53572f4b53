use std::sync::Arc;

use millstream_io::batch::testing::BatchBuilder;
use millstream_io::batch::{CheckedBatch, Origin};
use millstream_io::units::{LeaderEpoch, Offset, PartitionIndex, TopicId, TopicPartition};

use super::*;
use crate::message::{Append, OpenPartition};
use crate::partition_log::{CommitShare, RecoveredLog};

const NOW: TimestampMs = TimestampMs::new(1_700_000_000_000);
const LONG_AGO: TimestampMs = TimestampMs::new(i64::MIN);

fn at() -> TopicPartition {
    TopicPartition { topic: TopicId::from_bytes([7; 16]), partition: PartitionIndex::at(0) }
}

/// A log with a segment for each of these timestamps, of about 1000 bytes each.
fn log(config: PartitionConfig, stamps: &[i64]) -> PartitionLog {
    let config = PartitionConfig { segment_bytes: 1000, ..config };
    let (topic_name, epoch) = (Arc::from("t"), LeaderEpoch::at(3));
    let open = OpenPartition { at: at(), topic_name, epoch, config };
    let mut log = PartitionLog::open(&open, RecoveredLog::default());
    stamps.iter().for_each(|stamp| append(&mut log, *stamp));
    commit(&mut log);
    log
}

fn append(log: &mut PartitionLog, stamp: i64) {
    let values = BatchBuilder::of_values(vec![vec![b'v'; 800]]);
    let builder = BatchBuilder { base_timestamp: stamp, ..values };
    let batch = CheckedBatch::parse(builder.build(), Origin::Client).expect("a good batch");
    let append = Append { at: at(), current: None, batch, transaction: None, now: NOW };
    log.append(&append, LONG_AGO).expect("taken");
}

fn commit(log: &mut PartitionLog) {
    let share = log.commit_share(u64::MAX);
    let CommitShare::Journal { from, .. } = share else { panic!("{share:?}") };
    log.commit_begun(share);
    log.commit_done(from);
}

fn by_time(ms: u64) -> PartitionConfig {
    PartitionConfig {
        retention_ms: Some(ms),
        timestamp_after_max_ms: u64::MAX,
        ..PartitionConfig::default()
    }
}

/// The log start that is ordered, and what was found, when time is so far behind `NOW`.
fn retain(log: &mut PartitionLog, after_ms: i64) -> (i64, Retained) {
    let found = log.retain(NOW.plus(after_ms));
    (log.trim.asked.get(), found)
}

#[test]
fn segments_go_from_the_oldest_on_while_their_newest_records_are_too_old() {
    let stamp = |ms: i64| NOW.get() + ms;
    let mut log = log(by_time(1000), &[stamp(0), stamp(100), stamp(5000), stamp(200)]);
    assert_eq!(retain(&mut log, 1000), (0, Retained::default()), "not older than retention.ms");
    let first = Retained { by_time: true, ..Retained::default() };
    assert_eq!(retain(&mut log, 1001), (1, first));
    assert_eq!(retain(&mut log, 1101).0, 2);
    assert_eq!(retain(&mut log, 6000).0, 2, "a younger one in front keeps the last");
    assert_eq!(log.segments.len(), 4);
    let all = Retained { rolled: true, ..first };
    assert_eq!(retain(&mut log, 6001), (4, all), "the last one is closed for it");
    let last = log.segments.last().expect("a new one");
    assert_eq!((last.id.base, last.bytes, last.closed), (Offset::at(4), 0, false));
    assert_eq!(log.segments.len(), 5);
    assert!(!retain(&mut log, 9_000_000).1.rolled, "and no other behind it");
    append(&mut log, stamp(9000));
    assert_eq!(log.segments.len(), 5, "it takes the next record");
    assert_eq!(log.marks.log_end(), Offset::at(5));
}

#[test]
fn records_from_the_future_keep_their_segment_until_their_time_has_come() {
    let year = 365 * 86_400_000;
    let mut log = log(by_time(1000), &[NOW.get() + year, NOW.get()]);
    let future = Retained { from_future: true, ..Retained::default() };
    assert_eq!(retain(&mut log, 5000), (0, future));
    assert_eq!(retain(&mut log, -year), (0, future), "a clock that went back deletes nothing");
    assert_eq!(retain(&mut log, year + 1001).0, 2);
}

#[test]
fn records_without_a_timestamp_are_as_old_as_their_append() {
    let mut log = log(by_time(1000), &[-1, -1]);
    assert_eq!(retain(&mut log, 1000).0, 0);
    assert_eq!(retain(&mut log, 1001).0, 2);
}

#[test]
fn oldest_segments_go_while_the_size_stays_at_the_bound() {
    let bytes = |log: &PartitionLog| log.segments.first().expect("one").bytes;
    let one = bytes(&log(PartitionConfig::default(), &[0]));
    let sized = |retention_bytes| PartitionConfig {
        retention_bytes: Some(retention_bytes),
        ..PartitionConfig::default()
    };
    for (bound, start) in [(5 * one, 0), (4 * one, 0), (4 * one - 1, 0), (3 * one, 1), (one, 3)] {
        let mut log = log(sized(bound), &[NOW.get(); 4]);
        let found = Retained { by_size: start > 0, ..Retained::default() };
        assert_eq!(retain(&mut log, 0), (start, found), "{bound} of {}", 4 * one);
        assert!(log.segments.bytes() - one * start.unsigned_abs() >= bound.min(4 * one));
    }
    let mut all = log(sized(0), &[NOW.get(); 2]);
    let found = Retained { by_size: true, rolled: true, ..Retained::default() };
    assert_eq!(retain(&mut all, 0), (2, found));
}

#[test]
fn what_is_not_durable_stays_and_so_does_everything_without_a_bound() {
    let mut log = log(by_time(0), &[NOW.get(), NOW.get()]);
    append(&mut log, NOW.get());
    assert_eq!(retain(&mut log, 10_000).0, 2, "the third nobody has seen");
    commit(&mut log);
    assert_eq!(retain(&mut log, 10_000).0, 3);
    let mut kept = self::log(PartitionConfig::default(), &[0, 0, 0]);
    assert_eq!(retain(&mut kept, i64::MAX / 2), (0, Retained::default()));
}

#[test]
fn deleted_records_do_not_count_and_a_wholly_deleted_log_is_given_back() {
    let one = log(PartitionConfig::default(), &[0]).segments.bytes();
    let config = PartitionConfig { retention_bytes: Some(2 * one), ..by_time(1_000_000) };
    let mut log = log(config, &[NOW.get(); 4]);
    log.marks.delete_before(Offset::at(2));
    log.trim.asked = Offset::at(2);
    assert_eq!(retain(&mut log, 0).0, 2, "two are left, and two may stay");
    log.marks.delete_before(Offset::at(4));
    log.trim.asked = Offset::at(4);
    assert_eq!(retain(&mut log, 0), (4, Retained::default()));
    let found = Retained { rolled: true, by_time: true, ..Retained::default() };
    assert_eq!(retain(&mut log, 1_000_001), (4, found), "its last segment goes when it is old");
}
