use std::sync::Arc;

use millstream_io::batch::testing::BatchBuilder;
use millstream_io::batch::{Origin, RecordBatchHeader, stored};
use millstream_io::units::{
    PartitionIndex, ProducerEpoch, ProducerId, Sequence, TopicId, TopicPartition, bytes_usize,
};

use super::*;
use crate::message::{InvalidTxnState, Isolation, OpenPartition, PartitionConfig};
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
    Append { at: id(), current: None, batch, transaction: None, now: NOW }
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
    let producer = ProducerId::new(1).expect("positive");
    let reason = InvalidTxnState::NotVerified;
    assert_eq!(error, Err(AppendError::InvalidTxnState { at, producer, reason }));
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
    let at = |ms: i64| BatchBuilder { base_timestamp: NOW.get() + ms, ..values(1, 1) };
    let slow = Append { now: NOW.plus(600_000), ..append_of(&at(60_000)) };
    log.append(&slow, LONG_AGO).expect("taken");
    assert_eq!(segments(&log).len(), 2, "records tell the time, and it is not over");
    send(&mut log, &at(60_001)).expect("taken");
    assert_eq!(segments(&log)[2], "00000003-00000000000000000005");
    log.lead(LeaderEpoch::at(5));
    send(&mut log, &values(1, 1)).expect("taken");
    assert_eq!(segments(&log)[3], "00000005-00000000000000000006");
    let timeless = BatchBuilder { base_timestamp: -1, ..values(1, 1) };
    let earlier = Append { now: TimestampMs::ZERO, ..append_of(&timeless) };
    log.append(&earlier, LONG_AGO).expect("a clock that goes back ages nothing");
    assert_eq!(segments(&log).len(), 4);
}

#[test]
fn segment_of_records_without_a_timestamp_rolls_by_the_clock() {
    let mut log = log_with(PartitionConfig { segment_ms: 60_000, ..Default::default() });
    let timeless = BatchBuilder { base_timestamp: -1, ..values(1, 1) };
    for (after_ms, segments) in [(0, 1), (60_000, 1), (60_001, 2), (120_001, 2), (120_002, 3)] {
        let append = Append { now: NOW.plus(after_ms), ..append_of(&timeless) };
        log.append(&append, LONG_AGO).expect("taken");
        assert_eq!(log.segments.len(), segments, "after {after_ms} ms");
    }
}

#[test]
fn jitter_shortens_the_age_at_which_a_segment_rolls_within_its_bound() {
    let mut after = Vec::new();
    for topic in 0..50 {
        let config = PartitionConfig {
            segment_ms: 100_000,
            segment_jitter_ms: 40_000,
            ..PartitionConfig::default()
        };
        let at = TopicPartition { topic: TopicId::from_bytes([topic; 16]), ..id() };
        let (topic_name, epoch) = (Arc::from("t"), LeaderEpoch::at(0));
        let open = OpenPartition { at, topic_name, epoch, config };
        let mut log = PartitionLog::open(&open, RecoveredLog::default());
        let rolled = (0i64..1001).find(|hundredths| {
            let builder =
                BatchBuilder { base_timestamp: NOW.get() + hundredths * 100, ..values(1, 1) };
            let append = Append { at, now: NOW.plus(200_000), ..append_of(&builder) };
            log.append(&append, LONG_AGO).expect("taken");
            log.segments.len() == 2
        });
        after.push(rolled.expect("at the latest behind segment.ms") * 100);
    }
    assert!(after.iter().all(|ms| (60_000..=100_100).contains(ms)), "{after:?}");
    let wide = PartitionConfig { segment_ms: 2, segment_jitter_ms: u64::MAX, ..Default::default() };
    let mut log = log_with(wide);
    for _ in 0..3 {
        send(&mut log, &values(1, 1)).expect("taken");
    }
    assert_eq!(log.segments.len(), 1, "more jitter than time leaves some time");
    after.sort_unstable();
    assert!(after[45] - after[5] > 20_000, "segments of several partitions differ: {after:?}");
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
        let gather = log.gather(*piece);
        let mut block = vec![0xa5; gather.len()];
        gather.copy_to(&mut block);
        assert!(block.len() < piece.len() + 4096, "no block more than it takes");
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

mod transactions {
    use super::*;
    use crate::message::{
        InvalidTxnState, Marker, Outcome, TransactionQuery, TransactionState, VerificationGuard,
    };
    use crate::read::{Planned, Room};

    fn pid(value: i64) -> ProducerId {
        ProducerId::new(value).expect("not negative")
    }

    fn epoch(value: i16) -> ProducerEpoch {
        ProducerEpoch::new(value).expect("not negative")
    }

    fn guard(log: &mut PartitionLog, producer: i64, e: i16, first: i32) -> TransactionState {
        log.producers.transaction(&TransactionQuery {
            at: id(),
            producer: pid(producer),
            epoch: epoch(e),
            first: Sequence::new(first),
            bumps_epoch: false,
        })
    }

    fn transactional(producer: i64, e: i16, first: i32, count: usize) -> BatchBuilder {
        let batch = values(count, 10).from_producer(producer, e, first);
        BatchBuilder { attributes: 0x10, ..batch }
    }

    fn send_with(
        log: &mut PartitionLog,
        builder: &BatchBuilder,
        guard: Option<VerificationGuard>,
    ) -> Result<Staged, AppendError> {
        log.append(&Append { transaction: guard, ..append_of(builder) }, LONG_AGO)
    }

    /// As the door does it: asks, and sends with what it is given.
    fn send_verified(log: &mut PartitionLog, producer: i64, e: i16, first: i32, count: usize) {
        let guard = match guard(log, producer, e, first) {
            TransactionState::Open => None,
            TransactionState::Unverified(guard) => Some(guard),
        };
        send_with(log, &transactional(producer, e, first, count), guard).expect("verified");
    }

    fn end(log: &mut PartitionLog, producer: i64, e: i16, outcome: Outcome) -> Staged {
        log.append_marker(&marker(producer, e, outcome)).expect("taken")
    }

    fn marker(producer: i64, e: i16, outcome: Outcome) -> Marker {
        Marker {
            at: id(),
            producer: pid(producer),
            epoch: epoch(e),
            outcome,
            coordinator_epoch: 4,
            transaction_version: 1,
            now: NOW,
        }
    }

    fn stable(log: &PartitionLog) -> i64 {
        log.readable(Isolation::ReadCommitted).0.get()
    }

    fn committed_read(log: &mut PartitionLog, offset: i64) -> crate::message::ReadPlan {
        let read = crate::message::Read {
            at: id(),
            offset: Offset::at(offset),
            bytes_max: 1 << 20,
            current: None,
            last_fetched: None,
        };
        let room = Room { bytes_left: 1 << 20, whole_first: true };
        match log.plan_read(&read, Isolation::ReadCommitted, room).expect("in range") {
            Planned::Ready(plan) => plan,
            Planned::Cold(ask) => panic!("all is in memory: {ask:?}"),
        }
    }

    #[test]
    fn batch_without_a_good_guard_opens_no_transaction() {
        let mut log = log();
        let refused = Err(AppendError::InvalidTxnState {
            at: id(),
            producer: pid(1),
            reason: InvalidTxnState::NotVerified,
        });
        assert_eq!(send_with(&mut log, &transactional(1, 0, 0, 1), None), refused);
        let TransactionState::Unverified(first) = guard(&mut log, 1, 0, 0) else {
            panic!("nothing is open")
        };
        let another = Some(VerificationGuard(first.0 + 1));
        assert_eq!(send_with(&mut log, &transactional(1, 0, 0, 1), another), refused);
        // A marker between the question and the batch: the coordinator's word is an old one.
        end(&mut log, 1, 0, Outcome::Abort);
        assert_eq!(send_with(&mut log, &transactional(1, 0, 0, 1), Some(first)), refused);
        let TransactionState::Unverified(second) = guard(&mut log, 1, 0, 0) else {
            panic!("nothing is open")
        };
        assert_ne!(first, second);
        send_with(&mut log, &transactional(1, 0, 0, 1), Some(second)).expect("verified");
        assert_eq!(guard(&mut log, 1, 0, 1), TransactionState::Open);
        send_with(&mut log, &transactional(1, 0, 1, 1), None).expect("open");
        let retry = send_with(&mut log, &transactional(1, 0, 1, 1), None).expect("recognised");
        assert_eq!(retry.bytes, 0);
        end(&mut log, 1, 0, Outcome::Commit);
        let retry = send_with(&mut log, &transactional(1, 0, 1, 1), None).expect("recognised");
        assert_eq!(retry.bytes, 0, "a retry is one, also behind the marker");
        assert_eq!(send_with(&mut log, &transactional(1, 0, 2, 1), None), refused);
    }

    #[test]
    fn last_stable_offset_waits_for_the_durable_marker() {
        let mut log = log();
        send(&mut log, &values(2, 10)).expect("taken");
        commit(&mut log);
        send_verified(&mut log, 1, 0, 0, 3);
        send(&mut log, &values(1, 10)).expect("taken");
        commit(&mut log);
        assert_eq!((stable(&log), log.marks.high_watermark().get()), (2, 6));
        send_verified(&mut log, 2, 0, 0, 1);
        end(&mut log, 1, 0, Outcome::Commit);
        assert_eq!(stable(&log), 2, "a crash may take the marker back");
        commit(&mut log);
        assert_eq!(stable(&log), 6, "the second is open");
        assert_eq!(committed_read(&mut log, 0).last_stable_offset, Offset::at(6));
        end(&mut log, 2, 0, Outcome::Abort);
        commit(&mut log);
        assert_eq!(stable(&log), 9);
        let plan = committed_read(&mut log, 0);
        let aborted = plan.aborted.expect("asked for");
        assert_eq!(aborted.len(), 1);
        assert_eq!((aborted[0].producer, aborted[0].first_offset), (pid(2), Offset::at(6)));
        assert!(committed_read(&mut log, 9).aborted.is_some_and(|none| none.is_empty()));
    }

    #[test]
    fn committed_read_ends_in_front_of_the_open_transaction() {
        let mut log = log();
        send(&mut log, &values(2, 10)).expect("taken");
        send_verified(&mut log, 1, 0, 0, 3);
        commit(&mut log);
        let plan = committed_read(&mut log, 0);
        assert_eq!(plan.bytes(), bytes_u64(values(2, 10).build().len()));
        assert_eq!(committed_read(&mut log, 2).bytes(), 0);
    }

    #[test]
    fn refusal_undoes_what_staged_batches_opened_and_ended() {
        let mut log = log();
        send_verified(&mut log, 1, 0, 0, 1);
        commit(&mut log);
        end(&mut log, 1, 0, Outcome::Abort);
        send_verified(&mut log, 1, 0, 1, 1);
        send_verified(&mut log, 2, 0, 0, 1);
        let share = log.commit_share(128 << 10);
        log.commit_begun(share);
        log.commit_failed();
        log.refuse_staged();
        let active = log.producers.active();
        assert_eq!(active.len(), 1, "the second was never there: {active:?}");
        assert_eq!(active[0].transaction_start, Some(Offset::at(0)));
        assert_eq!(active[0].coordinator_epoch, None);
        assert_eq!(guard(&mut log, 1, 0, 1), TransactionState::Open);
        send_with(&mut log, &transactional(1, 0, 1, 1), None).expect("its number is free again");
        end(&mut log, 1, 0, Outcome::Abort);
        commit(&mut log);
        assert_eq!((stable(&log), log.producers.aborted().len()), (3, 1));
    }

    #[test]
    fn plain_batch_has_no_place_in_an_open_transaction() {
        let mut log = log();
        send_verified(&mut log, 1, 0, 0, 1);
        let reason = InvalidTxnState::Open { first: Offset::at(0) };
        let refused = Err(AppendError::InvalidTxnState { at: id(), producer: pid(1), reason });
        assert_eq!(send(&mut log, &values(1, 1).from_producer(1, 0, 1)), refused);
        end(&mut log, 1, 0, Outcome::Commit);
        send(&mut log, &values(1, 1).from_producer(1, 0, 1)).expect("it is over");
    }

    #[test]
    fn stale_markers_are_refused_and_newer_ones_fence() {
        let mut log = log();
        send_verified(&mut log, 1, 5, 0, 1);
        let fenced = |current, got| {
            let (current, got) = (epoch(current), epoch(got));
            Err(AppendError::InvalidProducerEpoch { at: id(), producer: pid(1), current, got })
        };
        assert_eq!(log.append_marker(&marker(1, 4, Outcome::Abort)), fenced(5, 4));
        let v2 = |e| Marker { transaction_version: 2, ..marker(1, e, Outcome::Abort) };
        assert_eq!(log.append_marker(&v2(5)), fenced(5, 5), "v2 markers carry a newer epoch");
        log.append_marker(&v2(6)).expect("newer");
        log.append_marker(&v2(6)).expect("a repeated marker ends nothing, and is taken");
        let older = Marker { coordinator_epoch: 3, ..v2(7) };
        let (current, got) = (4, 3);
        let error =
            AppendError::TransactionCoordinatorFenced { at: id(), producer: pid(1), current, got };
        assert_eq!(log.append_marker(&older), Err(error));
        assert_eq!(send_with(&mut log, &transactional(1, 5, 1, 1), None), fenced(6, 5));
        let TransactionState::Unverified(guard) = guard(&mut log, 1, 6, 0) else {
            panic!("nothing is open")
        };
        let gap = send_with(&mut log, &transactional(1, 6, 1, 1), Some(guard));
        assert!(matches!(gap, Err(AppendError::OutOfOrderSequence { .. })), "{gap:?}");
        send_with(&mut log, &transactional(1, 6, 0, 1), Some(guard)).expect("begins at zero");
    }

    #[test]
    fn coordinators_batch_needs_no_sequence_and_a_clients_does() {
        let mut log = log();
        let record = millstream_io::batch::NewRecord { key: Some(vec![1]), value: None };
        let batch = millstream_io::batch::compose_transactional(&[record], NOW, (pid(1), epoch(2)));
        let bytes = batch.bytes().clone();
        assert!(CheckedBatch::parse(bytes, Origin::Client).is_err());
        let append = Append { at: id(), current: None, batch, transaction: None, now: NOW };
        for n in 0..2 {
            let staged = log.append(&append, LONG_AGO).expect("taken");
            assert_eq!(staged.appended.base_offset, Offset::at(n), "none is a retry of another");
        }
        assert_eq!(log.producers.active()[0].transaction_start, Some(Offset::at(0)));
        end(&mut log, 1, 3, Outcome::Abort);
        let stale = log.append(&append, LONG_AGO);
        assert!(matches!(stale, Err(AppendError::InvalidProducerEpoch { .. })), "{stale:?}");
    }
}
