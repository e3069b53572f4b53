use std::sync::Arc;

use millstream_io::batch::testing::BatchBuilder;
use millstream_io::batch::{Origin, RecordBatchHeader, stored};
use millstream_io::units::{
    PartitionIndex, ProducerEpoch, ProducerId, Sequence, TopicId, TopicPartition, bytes_usize,
};

use super::*;
use crate::message::{Isolation, OpenPartition, PartitionConfig};
use crate::partition_log::{CommitShare, RecoveredLog, WriteMode};

const NOW: TimestampMs = TimestampMs::new(1_700_000_000_000);
const LONG_AGO: TimestampMs = TimestampMs::new(i64::MIN);

fn id() -> TopicPartition {
    TopicPartition { topic: TopicId::from_bytes([7; 16]), partition: PartitionIndex::at(0) }
}

fn log_with(config: PartitionConfig) -> PartitionLog {
    let open =
        OpenPartition { at: id(), topic_name: Arc::from("t"), epoch: LeaderEpoch::at(3), config };
    PartitionLog::open(&open, RecoveredLog::default())
}

fn log() -> PartitionLog {
    log_with(PartitionConfig::default())
}

fn append_of(builder: &BatchBuilder) -> Append {
    let batch = CheckedBatch::parse(builder.build(), Origin::Client).expect("a good batch");
    Append { at: id(), current: None, batch, now: NOW }
}

fn send(log: &mut PartitionLog, builder: &BatchBuilder) -> Result<Staged, AppendError> {
    log.append(&append_of(builder), LONG_AGO)
}

fn values(count: usize, len: usize) -> BatchBuilder {
    BatchBuilder::of_values(vec![vec![b'v'; len]; count])
}

/// One round that succeeds.
fn commit(log: &mut PartitionLog) {
    let share = log.commit_share(128 << 10);
    let CommitShare::Journal { from, .. } = share else { panic!("small runs only: {share:?}") };
    log.commit_begun(share);
    log.commit_done(from);
}

#[test]
fn batch_is_stamped_in_place_and_invisible_until_durable() {
    let mut log = log();
    let staged = send(&mut log, &values(3, 10)).expect("taken");
    assert_eq!(staged.appended.base_offset, Offset::at(0));
    assert_eq!((staged.end, staged.due), (Offset::at(3), Due::Next));
    let second = send(&mut log, &values(2, 10)).expect("taken");
    assert_eq!(second.appended.base_offset, Offset::at(3));
    assert_eq!(log.readable(Isolation::ReadUncommitted).0, Offset::at(0));
    let stored: Vec<Vec<u8>> =
        log.tail.batches_from(crate::position::LogPosition::ZERO).map(|b| b.1.to_vec()).collect();
    let header = stored::whole(&stored[1]).expect("CRC still holds");
    assert_eq!(header.base_offset(), Some(Offset::at(3)));
    assert_eq!(header.leader_epoch(), Some(LeaderEpoch::at(3)));
    commit(&mut log);
    assert_eq!(log.readable(Isolation::ReadCommitted).0, Offset::at(5));
}

#[test]
fn retry_of_undurable_batch_waits_for_original() {
    let mut log = log();
    let batch = values(2, 10).from_producer(5, 0, 0);
    let original = send(&mut log, &batch).expect("taken");
    let retry = send(&mut log, &batch).expect("recognised");
    assert_eq!((retry.appended, retry.end), (original.appended, original.end));
    assert_eq!((retry.bytes, retry.due), (0, Due::Next));
    let share = log.commit_share(128 << 10);
    log.commit_begun(share);
    assert_eq!(send(&mut log, &batch).expect("recognised").due, Due::InFlight);
    log.commit_done(crate::position::LogPosition::ZERO);
    assert_eq!(send(&mut log, &batch).expect("recognised").due, Due::Now);
    assert_eq!(log.marks.log_end(), Offset::at(2));
}

#[test]
fn refusal_names_the_fact_and_changes_nothing() {
    let config =
        PartitionConfig { message_bytes_max: 400, segment_bytes: 300, ..Default::default() };
    let mut log = log_with(config);
    let at = id();
    let error = send(&mut log, &values(1, 500)).expect_err("too large");
    assert!(matches!(error, AppendError::TooLarge { limit: 400, .. }), "{error}");
    let error = send(&mut log, &values(1, 250)).expect_err("no segment holds it");
    assert!(matches!(error, AppendError::LargerThanSegment { limit: 300, .. }), "{error}");
    let error =
        send(&mut log, &BatchBuilder { attributes: 0x10, ..values(1, 1).from_producer(1, 0, 0) });
    let reason = InvalidRecord::Transactional;
    assert_eq!(error, Err(AppendError::InvalidRecord { at, reason }));
    let old = Append { current: Some(LeaderEpoch::at(2)), ..append_of(&values(1, 1)) };
    let (current, got) = (LeaderEpoch::at(3), LeaderEpoch::at(2));
    assert_eq!(log.append(&old, LONG_AGO), Err(AppendError::FencedEpoch { at, current, got }));
    let new = Append { current: Some(LeaderEpoch::at(4)), ..append_of(&values(1, 1)) };
    let got = LeaderEpoch::at(4);
    assert_eq!(log.append(&new, LONG_AGO), Err(AppendError::UnknownEpoch { at, current, got }));
    send(&mut log, &values(1, 1).from_producer(1, 2, 7))
        .expect("an unknown producer starts anywhere");
    let gap = send(&mut log, &values(1, 1).from_producer(1, 2, 9));
    let producer = ProducerId::new(1).expect("positive");
    let (expected, got) =
        (Sequence::new(8).expect("positive"), Sequence::new(9).expect("positive"));
    assert_eq!(gap, Err(AppendError::OutOfOrderSequence { at, producer, expected, got }));
    let zombie = send(&mut log, &values(1, 1).from_producer(1, 1, 8));
    let (current, got) = (ProducerEpoch::new(2), ProducerEpoch::new(1));
    let (current, got) = (current.expect("positive"), got.expect("positive"));
    assert_eq!(zombie, Err(AppendError::InvalidProducerEpoch { at, producer, current, got }));
    assert_eq!(log.marks.log_end(), Offset::at(1));
}

#[test]
fn batch_at_the_limit_is_taken_and_one_byte_more_is_not() {
    let len = bytes_u64(values(1, 100).build().len());
    let mut exact = log_with(PartitionConfig { message_bytes_max: len, ..Default::default() });
    assert!(send(&mut exact, &values(1, 100)).is_ok());
    let mut less = log_with(PartitionConfig { message_bytes_max: len - 1, ..Default::default() });
    assert!(send(&mut less, &values(1, 100)).is_err());
}

#[test]
fn timestamps_are_bounded_on_both_sides() {
    let config = PartitionConfig {
        timestamp_before_max_ms: 1000,
        timestamp_after_max_ms: 10,
        ..Default::default()
    };
    let mut log = log_with(config);
    let stamped = |ms: i64| BatchBuilder { base_timestamp: NOW.get() + ms, ..values(1, 1) };
    for (ms, taken) in [(0, true), (10, true), (11, false), (-1000, true), (-1001, false)] {
        assert_eq!(send(&mut log, &stamped(ms)).is_ok(), taken, "{ms} ms");
    }
    let none = BatchBuilder { base_timestamp: -1, ..values(1, 1) };
    assert!(send(&mut log, &none).is_ok(), "no timestamp is no wrong timestamp");
}

#[test]
fn log_append_time_is_the_brokers_and_the_crc_is_taken_anew() {
    let config =
        PartitionConfig { timestamp_type: TimestampType::LogAppendTime, ..Default::default() };
    let mut log = log_with(config);
    let ancient = BatchBuilder { base_timestamp: 5, ..values(2, 10) };
    let staged = send(&mut log, &ancient).expect("taken");
    assert_eq!(staged.appended.log_append_time, Some(NOW));
    let (_, bytes) =
        log.tail.batches_from(crate::position::LogPosition::ZERO).next().expect("one batch");
    assert_eq!(stored::whole(bytes).expect("CRC holds").max_timestamp(), NOW);
}

#[test]
fn segment_rolls_at_its_size_its_age_and_a_new_epoch() {
    let mut log =
        log_with(PartitionConfig { segment_bytes: 1000, segment_ms: 60_000, ..Default::default() });
    let segments = |log: &PartitionLog| -> Vec<String> {
        log.segments.iter().map(|segment| segment.id.to_string()).collect()
    };
    for _ in 0..4 {
        send(&mut log, &values(1, 300)).expect("taken");
    }
    assert_eq!(segments(&log), ["00000003-00000000000000000000", "00000003-00000000000000000002"]);
    let later = Append { now: NOW.plus(60_000), ..append_of(&values(1, 1)) };
    log.append(&later, LONG_AGO).expect("taken");
    assert_eq!(segments(&log)[2], "00000003-00000000000000000004");
    log.lead(LeaderEpoch::at(5));
    send(&mut log, &values(1, 1)).expect("taken");
    assert_eq!(segments(&log)[3], "00000005-00000000000000000005");
    let timeless = BatchBuilder { base_timestamp: -1, ..values(1, 1) };
    let earlier = Append { now: TimestampMs::ZERO, ..append_of(&timeless) };
    log.append(&earlier, LONG_AGO).expect("a clock that goes back ages nothing");
    assert_eq!(segments(&log).len(), 4);
}

#[test]
fn refused_batches_leave_no_trace() {
    let mut log = log_with(PartitionConfig { segment_bytes: 1000, ..Default::default() });
    let numbered = |n: i32| values(1, 300).from_producer(1, 0, n);
    send(&mut log, &numbered(0)).expect("taken");
    commit(&mut log);
    for n in 1..6 {
        send(&mut log, &numbered(n)).expect("taken");
    }
    assert_eq!(log.segments.len(), 3);
    let share = log.commit_share(128 << 10);
    log.commit_begun(share);
    log.commit_failed();
    assert!(log.refuse_staged().is_empty(), "nothing was written");
    assert_eq!(log.marks.log_end(), Offset::at(1));
    assert_eq!(log.segments.len(), 1);
    let again = send(&mut log, &numbered(1)).expect("its offset is given again");
    assert_eq!(again.appended.base_offset, Offset::at(1));
    commit(&mut log);
    let headers = log.tail.batches_from(crate::position::LogPosition::ZERO);
    let bases: Vec<Option<Offset>> = headers
        .map(|(_, bytes)| RecordBatchHeader::view(bytes).and_then(|h| h.base_offset()))
        .collect();
    assert_eq!(bases, [Some(Offset::at(0)), Some(Offset::at(1))]);
}

#[test]
fn large_run_goes_straight_to_the_segments_but_for_its_last_block() {
    let mut log = log_with(PartitionConfig { segment_bytes: 100_000, ..Default::default() });
    for _ in 0..5 {
        send(&mut log, &values(1, 40_000)).expect("taken");
    }
    let share = log.commit_share(128 << 10);
    let CommitShare::Direct { from, to } = share else { panic!("{share:?}") };
    assert!(to.since(from) < 4096, "{from:?} {to:?}");
    log.commit_begun(share);
    let plan = log.plan_write(WriteMode::Direct { to: from }).expect("something to write");
    assert_eq!(plan.make.len(), 3, "three segments get their files");
    for piece in &plan.pieces {
        let mut block = vec![0xa5; crate::partition_log::block_bytes(*piece)];
        log.fill(*piece, &mut block);
        assert!(block[piece.len()..].iter().all(|b| *b == 0), "padding is zeroed");
    }
    let wrote: u64 = plan.pieces.iter().map(|piece| bytes_u64(piece.len())).sum();
    assert_eq!(wrote, from.get());
    assert!(log.plan_write(WriteMode::Relief).is_none(), "one write at a time");
    log.files_made(&plan.make, crate::segments::FileState::Made);
    log.write_done(&plan, true);
    let done = log.commit_done(from);
    assert_eq!((done.bytes, done.durable_end), (to.get(), Offset::at(5)));
    assert_eq!(bytes_usize(log.unwritten_bytes()), bytes_usize(to.since(from)));
}
