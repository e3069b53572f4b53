use std::sync::Arc;

use millstream_io::segment::SegmentMeta;
use millstream_io::units::{Cleaned, LeaderEpoch, PartitionIndex, TopicId, TopicPartition};

use super::*;
use crate::message::{OpenPartition, PartitionConfig};
use crate::partition_log::RecoveredLog;
use crate::position::LogPosition;
use crate::segments::Segments;

const NOW: TimestampMs = TimestampMs::new(1_700_000_000_000);

fn id(base: i64) -> SegmentId {
    SegmentId::new(LeaderEpoch::ZERO, Offset::at(base))
}

/// A log of five sealed segments of ten records and 1000 bytes, the newest a minute old, each an hour
/// older than the next.
fn log(compaction: Compaction) -> PartitionLog {
    let mut segments = Segments::new();
    for n in 0..5 {
        let time = NOW.plus(-60_000 - 3_600_000 * (4 - n));
        segments.push(Segment {
            id: id(n * 10),
            start: LogPosition::new(n.unsigned_abs() * 1000),
            bytes: 1000,
            span: None,
            next: Offset::at(n * 10 + 10),
            max_timestamp: time,
            first_timestamp: time,
            opened_at: NOW,
            appended_at: NOW,
            index: Index::File(None),
            file: FileState::Sealed,
            closed: true,
        });
    }
    let at = TopicPartition { topic: TopicId::METADATA, partition: PartitionIndex::at(0) };
    let config = PartitionConfig { compaction: Some(compaction), ..PartitionConfig::default() };
    let open = OpenPartition { at, topic_name: Arc::from("t"), epoch: LeaderEpoch::at(1), config };
    let found = RecoveredLog { segments, log_end: Offset::at(50), ..RecoveredLog::default() };
    PartitionLog::open(&open, found)
}

fn lazy() -> Compaction {
    Compaction {
        min_cleanable_ppm: 500_000,
        min_lag_ms: 0,
        max_lag_ms: u64::MAX,
        delete_retention_ms: 0,
    }
}

/// As when the state files were written as of the log's end.
fn saved(log: &mut PartitionLog) {
    log.tasks.pretend_saved(LogPosition::new(5000));
}

fn plan(log: &mut PartitionLog) -> Option<(i64, i64, usize)> {
    let plan = log.plan_clean(NOW, 1 << 20, &Layout::new("/d"))?;
    let (first, last) = (plan.inputs.first()?, plan.inputs.last()?);
    Some((first.id.base.get(), last.next.get(), plan.inputs.len()))
}

#[test]
fn nothing_is_cleaned_before_the_producers_behind_it_are_saved() {
    let mut log = log(lazy());
    assert!(log.dirt(NOW).is_some_and(|dirt| dirt.total_bytes == 0));
    assert!(log.tasks.save_due, "that is asked for");
    assert_eq!(log.dirt(NOW), None, "and waited for");
    saved(&mut log);
    assert_eq!(log.dirt(NOW).map(|dirt| dirt.dirty_bytes), Some(4000), "never the last segment");
    assert_eq!(plan(&mut log), Some((0, 40, 4)));
}

#[test]
fn young_segments_wait_and_old_ones_are_overdue() {
    let mut young = log(Compaction { min_lag_ms: 2 * 3_600_000, ..lazy() });
    saved(&mut young);
    assert_eq!(plan(&mut young), Some((0, 30, 3)), "two hours and a minute old");
    let mut old = log(Compaction { max_lag_ms: 3_600_000, min_cleanable_ppm: 999_999, ..lazy() });
    saved(&mut old);
    old.clean_done(Some(Offset::at(30)), &[], false);
    let dirt = old.dirt(NOW).expect("free");
    assert_eq!((dirt.dirty_bytes, dirt.total_bytes, dirt.overdue), (1000, 4000, true));
    assert!(dirt.is_due(&old.config.compaction.expect("compacted")));
    assert!(!Dirt { overdue: false, ..dirt }.is_due(&lazy()), "a quarter is not half");
}

#[test]
fn swap_moves_nothing_behind_it_and_leaves_no_way_to_the_old_bytes() {
    let mut log = log(lazy());
    saved(&mut log);
    assert!(plan(&mut log).is_some());
    let group = [id(10), id(20)];
    assert_eq!(log.begin_group(&group), 0);
    assert!(log.may_go_on_cleaning());
    log.cursors.moved(Offset::at(0), Offset::at(23), LogPosition::new(2300));
    log.cursors.moved(Offset::at(1), Offset::at(30), LogPosition::new(3000));
    let cleaned = Some(Cleaned { generation: 1, next: Offset::at(30) });
    let new = SegmentId { cleaned, ..id(10) };
    let meta = SegmentMeta {
        id: new,
        log_bytes: FilePosition::new(300),
        next: Offset::at(30),
        max_timestamp: NOW,
    };
    let swapped = log.swap(&meta, Indexes::new(new), &[]);
    assert_eq!(swapped.gone, group);
    assert_eq!(log.cursors.find(Offset::at(23)), None, "the byte there is another now");
    assert_eq!(log.cursors.find(Offset::at(30)), Some(LogPosition::new(3000)));
    let ids: Vec<SegmentId> = log.segments.iter().map(|segment| segment.id).collect();
    assert_eq!(ids, [id(0), new, id(30), id(40)]);
    let held = log.segments.get(new).expect("there");
    assert_eq!((held.end(), held.bytes), (LogPosition::new(3000), 300));
    assert_eq!(held.file_position(held.end()), FilePosition::new(300));
    assert_eq!(held.position_behind(FilePosition::new(300)), held.end());
    assert_eq!(log.segments.at_offset(Offset::at(25)).map(|segment| segment.id), Some(new));
    assert_eq!(log.segments.bytes(), 3300);
    assert!(log.needs_trim(false), "the old files are to be removed");
    assert!(log.is_busy(), "the pass is not over");
    log.clean_done(Some(Offset::at(40)), &[id(30)], false);
    assert!(log.dirt(NOW).is_some_and(|dirt| dirt.dirty_bytes == 0));
}

#[test]
fn records_that_are_deleted_end_the_pass_that_reads_them() {
    let mut log = log(lazy());
    saved(&mut log);
    assert!(plan(&mut log).is_some());
    assert_eq!(log.begin_group(&[id(0), id(10)]), 0);
    log.marks.delete_before(Offset::at(10));
    assert!(!log.may_go_on_cleaning());
    assert!(!log.needs_trim(false), "not before it has ended");
    log.group_done();
    assert!(log.needs_trim(false));
    assert_eq!(log.begin_group(&[id(0)]), 1, "a segment that is to go is left");
    assert_eq!(log.begin_group(&[id(0), id(10), id(20)]), 1, "and no other with it");
    assert!(log.may_go_on_cleaning());
    log.clean_done(None, &[], true);
    assert_eq!(log.dirt(NOW), None, "files of unknown fate: no other pass before the next start");
}
