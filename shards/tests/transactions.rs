//! Transactions in one partition, step by step: over crashes, rolls, deletions and expiry. The
//! simulator walks at random through the same; here each promise has its name.

#![allow(clippy::expect_used, reason = "a broken expectation is the failure of the test")]

mod bench;

use bench::{Bench, NOW, RING, batch, id};
use futures_lite::future::block_on;
use millstream_io::batch::testing::BatchBuilder;
use millstream_io::batch::{CheckedBatch, Origin};
use millstream_io::disk::Disk;
use millstream_io::disk_sim::CrashMode;
use millstream_io::partition_state::producer_snapshot_in;
use millstream_io::runtime::oneshot;
use millstream_io::units::{Offset, ProducerEpoch, ProducerId, Sequence, TimestampMs};
use millstream_shards::commit_task::Turn;
use millstream_shards::deletion::{DeleteBefore, Deletion};
use millstream_shards::limits::ShardLimits;
use millstream_shards::message::{
    Append, AppendError, Appended, InvalidTxnState, Isolation, Marker, Outcome, PartitionConfig,
    Read, ReadLimits, ReadPlan, TransactionQuery, TransactionState, VerificationGuard, Woken,
};
use millstream_shards::query::{ActiveProducer, OffsetQuery, OffsetSpec};
use millstream_shards::waiters::Wait;
use millstream_shards::{query_task, read_task};

/// A bench with partition 0 of topic 1, small segments, and little in memory when `cold`.
fn opened(cold: bool) -> Bench {
    let tail_bytes_max = if cold { 0 } else { 1 << 20 };
    let limits = ShardLimits {
        tail_bytes_max,
        behind_bytes: 4096,
        checkpoint_bytes: 16_384,
        ..ShardLimits::default()
    };
    let bench = Bench::with(RING, limits);
    bench.open(id(1, 0), &config());
    bench
}

fn config() -> PartitionConfig {
    PartitionConfig { segment_bytes: 20_000, ..PartitionConfig::default() }
}

fn pid(value: i64) -> ProducerId {
    ProducerId::new(value).expect("not negative")
}

fn epoch(value: i16) -> ProducerEpoch {
    ProducerEpoch::new(value).expect("not negative")
}

/// A producer's numbers: id, epoch, sequence.
type Numbers = (i64, i16, i32);

fn transactional((producer, epoch, first): Numbers, count: usize) -> BatchBuilder {
    let batch = batch(7, count, 900).from_producer(producer, epoch, first);
    BatchBuilder { attributes: 0x10, ..batch }
}

fn query((producer, e, first): Numbers) -> TransactionQuery {
    TransactionQuery {
        at: id(1, 0),
        producer: pid(producer),
        epoch: epoch(e),
        first: Sequence::new(first),
        bumps_epoch: false,
    }
}

fn ask(bench: &Bench, query: TransactionQuery) -> TransactionState {
    let answers = bench.shard().with_mut(|shard| shard.transactions(&[query]));
    answers.into_iter().next().expect("one answer").expect("it is open")
}

fn guard(bench: &Bench, query: TransactionQuery) -> VerificationGuard {
    match ask(bench, query) {
        TransactionState::Unverified(guard) => guard,
        TransactionState::Open => panic!("a transaction is open"),
    }
}

/// Sends a batch and waits for its round.
fn send(
    bench: &Bench,
    builder: &BatchBuilder,
    (guard, now): (Option<VerificationGuard>, TimestampMs),
) -> Result<Appended, AppendError> {
    let batch = CheckedBatch::parse(builder.build(), Origin::Client).expect("a good batch");
    let append = Append { at: id(1, 0), current: None, batch, transaction: guard, now };
    let (promise, mut reply) = oneshot();
    bench.shard().with_mut(|shard| shard.append(vec![append], promise));
    while bench.round() == Turn::Round {}
    reply.try_take().expect("answered").expect("kept").remove(0)
}

/// Records of nobody in particular, of 900 bytes each.
fn fill(bench: &Bench, count: u32) {
    for n in 0..count {
        bench.append_now(id(1, 0), &batch(n, 1, 900));
    }
}

/// Sends a batch as a door does, when its coordinator agrees.
fn add(bench: &Bench, numbers: Numbers, count: usize) -> Result<Appended, AppendError> {
    let guard = match ask(bench, query(numbers)) {
        TransactionState::Open => None,
        TransactionState::Unverified(guard) => Some(guard),
    };
    send(bench, &transactional(numbers, count), (guard, NOW))
}

fn marker(producer: i64, e: i16, outcome: Outcome) -> Marker {
    Marker {
        at: id(1, 0),
        producer: pid(producer),
        epoch: epoch(e),
        outcome,
        coordinator_epoch: 0,
        transaction_version: 1,
        now: NOW,
    }
}

fn end(bench: &Bench, marker: Marker) -> Result<Appended, AppendError> {
    let (promise, mut reply) = oneshot();
    bench.shard().with_mut(|shard| shard.append_markers(vec![marker], promise));
    while bench.round() == Turn::Round {}
    reply.try_take().expect("answered").expect("kept").remove(0)
}

fn commit(bench: &Bench, producer: i64, e: i16) {
    end(bench, marker(producer, e, Outcome::Commit)).expect("taken");
}

fn abort(bench: &Bench, producer: i64, e: i16) {
    end(bench, marker(producer, e, Outcome::Abort)).expect("taken");
}

fn committed(bench: &Bench, offset: i64) -> ReadPlan {
    let (at, offset, bytes_max) = (id(1, 0), Offset::at(offset), 1 << 20);
    let read = Read { at, offset, bytes_max, current: None, last_fetched: None };
    let limits = ReadLimits { bytes_max, isolation: Isolation::ReadCommitted };
    let plans = block_on(read_task::read(bench.shard(), &bench.shell.disk, &[read], limits));
    plans.into_iter().next().expect("one plan").expect("in range")
}

fn stable(bench: &Bench) -> i64 {
    committed(bench, bench_log_start(bench)).last_stable_offset.get()
}

fn bench_log_start(bench: &Bench) -> i64 {
    bench.shard().with(|shard| shard.marks_piece(0).partitions[0].marks.log_start.get())
}

/// Aborted transactions told to a reader from the log start on: producer, first offset.
fn aborted(bench: &Bench, from: i64) -> Vec<(i64, i64)> {
    let list = committed(bench, from).aborted.expect("asked for");
    list.iter().map(|a| (a.producer.get(), a.first_offset.get())).collect()
}

fn active(bench: &Bench) -> Vec<ActiveProducer> {
    let found = bench.shard().with(|shard| shard.producers(&[id(1, 0)]));
    let mut found = found.into_iter().next().expect("one answer").expect("it is open");
    found.sort_by_key(|producer| producer.id);
    found
}

fn restarted(bench: Bench) -> Bench {
    bench.disk.crash_as(CrashMode::LoseAll, 7);
    bench.restarted(id(1, 0), &config(), 1)
}

fn refused(reason: InvalidTxnState) -> Result<Appended, AppendError> {
    Err(AppendError::InvalidTxnState { at: id(1, 0), producer: pid(1), reason })
}

#[test]
fn open_transaction_is_open_after_a_crash_and_ends_as_before() {
    for save in [false, true] {
        let bench = opened(false);
        bench.append_now(id(1, 0), &batch(0, 2, 100));
        add(&bench, (1, 0, 0), 3).expect("taken");
        add(&bench, (2, 5, 9), 1).expect("an unknown producer begins anywhere");
        abort(&bench, 2, 5);
        add(&bench, (2, 6, 0), 2).expect("taken");
        if save {
            // Rolls often enough for a snapshot, with the first transaction still open.
            fill(&bench, 60);
            bench.work(1000);
            assert!(bench.disk.read_all(&snapshot(), 1 << 20).is_ok(), "it was saved");
        }
        let before = active(&bench);
        let lists = (stable(&bench), aborted(&bench, 0));
        let bench = restarted(bench);
        assert_eq!((stable(&bench), aborted(&bench, 0)), lists);
        let numbers = |all: Vec<ActiveProducer>| -> Vec<_> {
            let of = |p: ActiveProducer| {
                (p.id, p.epoch, p.last_sequence, p.coordinator_epoch, p.transaction_start)
            };
            all.into_iter().map(of).collect()
        };
        assert_eq!(numbers(active(&bench)), numbers(before), "saved: {save}");
        assert_eq!(stable(&bench), 2);
        assert_eq!(ask(&bench, query((1, 0, 3))), TransactionState::Open);
        let late = send(&bench, &transactional((2, 5, 10), 1), (None, NOW));
        assert!(matches!(late, Err(AppendError::InvalidProducerEpoch { .. })), "{late:?}");
        abort(&bench, 1, 0);
        assert_eq!(stable(&bench), 7, "the second of producer 2 is still open");
        commit(&bench, 2, 6);
        let end = committed(&bench, 0).high_watermark.get();
        assert_eq!((stable(&bench), aborted(&bench, 0)), (end, vec![(1, 2), (2, 5)]));
    }
}

fn snapshot() -> std::path::PathBuf {
    producer_snapshot_in(std::path::Path::new("/data/topics/t1/0"))
}

/// Field cases F08 to F11: the retry of a batch in a transaction keeps its offset over a roll of the
/// segment, over its marker and over a restart.
#[test]
fn retry_in_a_transaction_keeps_its_offset_over_roll_marker_and_restart() {
    let bench = opened(true);
    let mut offsets = Vec::new();
    for n in 0..30 {
        let appended = add(&bench, (1, 0, n), 1).expect("taken");
        offsets.push(appended.base_offset);
    }
    bench.work(1000);
    let retry = |bench: &Bench, n: i32| send(bench, &transactional((1, 0, n), 1), (None, NOW));
    let place = |n: usize| Some(offsets[n]);
    for n in 25..30 {
        assert_eq!(retry(&bench, n).ok().map(|a| a.base_offset), place(n as usize));
    }
    commit(&bench, 1, 0);
    assert_eq!(retry(&bench, 29).ok().map(|a| a.base_offset), place(29), "over the marker");
    let bench = restarted(bench);
    for n in 25..30 {
        assert_eq!(retry(&bench, n).ok().map(|a| a.base_offset), place(n as usize));
    }
    assert_eq!(retry(&bench, 30), refused(InvalidTxnState::NotVerified), "nothing is open");
    let late = retry(&bench, 20);
    assert_eq!(late, refused(InvalidTxnState::NotVerified), "too old to be known");
    assert_eq!(committed(&bench, 0).high_watermark, Offset::at(31), "nothing was stored twice");
}

/// F08 within a transaction.
#[test]
fn sequence_wraps_inside_a_transaction() {
    let bench = opened(false);
    add(&bench, (1, 0, i32::MAX - 2), 6).expect("an unknown producer begins anywhere");
    let gap = add(&bench, (1, 0, 4), 1);
    assert!(matches!(gap, Err(AppendError::OutOfOrderSequence { .. })), "{gap:?}");
    let bench = restarted(bench);
    add(&bench, (1, 0, 3), 1).expect("2^31 - 1 is followed by 0");
    commit(&bench, 1, 0);
    add(&bench, (1, 0, 4), 1).expect("sequences go on over a marker of the same epoch");
}

/// The last epoch is one like any other; behind it a coordinator gives out another producer id.
#[test]
fn last_epoch_of_a_producer_is_served_and_fences() {
    let bench = opened(false);
    add(&bench, (1, i16::MAX - 1, 0), 1).expect("taken");
    end(&bench, Marker { transaction_version: 2, ..marker(1, i16::MAX, Outcome::Abort) })
        .expect("the newer epoch of transactions v2");
    let zombie = add(&bench, (1, i16::MAX - 1, 1), 1);
    assert!(matches!(zombie, Err(AppendError::InvalidProducerEpoch { .. })), "{zombie:?}");
    add(&bench, (1, i16::MAX, 0), 1).expect("taken");
    commit(&bench, 1, i16::MAX);
    assert_eq!(stable(&bench), 4);
}

/// F11: a batch that comes when its transaction has timed out opens none that nobody would end.
#[test]
fn late_batch_opens_no_transaction_that_nobody_would_end() {
    let bench = opened(false);
    add(&bench, (1, 0, 0), 1).expect("taken");
    let asked = guard(&bench, query((2, 0, 0)));
    // The coordinator gives up on both, and fences their epochs.
    abort(&bench, 1, 1);
    abort(&bench, 2, 1);
    for (producer, guard) in [(1, None), (2, Some(asked))] {
        let late = send(&bench, &transactional((producer, 0, 1), 1), (guard, NOW));
        assert!(matches!(late, Err(AppendError::InvalidProducerEpoch { .. })), "{late:?}");
    }
    let current = send(&bench, &transactional((1, 1, 0), 1), (None, NOW));
    assert_eq!(current, refused(InvalidTxnState::NotVerified), "never added");
    assert_eq!(stable(&bench), 3);
    assert!(active(&bench).iter().all(|producer| producer.transaction_start.is_none()));
}

/// F10 and F11: a stale epoch needs no word of the coordinator, who may know nothing of it any more.
#[test]
fn stale_epoch_is_refused_without_the_coordinator() {
    let bench = opened(false);
    add(&bench, (1, 0, 0), 1).expect("taken");
    assert_eq!(ask(&bench, query((1, 0, 1))), TransactionState::Open);
    abort(&bench, 1, 1);
    assert_eq!(ask(&bench, query((1, 0, 1))), TransactionState::Open);
    let late = send(&bench, &transactional((1, 0, 1), 1), (None, NOW));
    assert!(matches!(late, Err(AppendError::InvalidProducerEpoch { .. })), "{late:?}");
    for e in [1, 2] {
        guard(&bench, query((1, e, 0)));
    }
}

/// F09: expiry forgets the silent, but none with an open transaction.
#[test]
fn producer_with_an_open_transaction_never_expires() {
    let bench = opened(false);
    add(&bench, (1, 0, 5), 1).expect("taken");
    add(&bench, (2, 0, 5), 1).expect("taken");
    commit(&bench, 2, 0);
    let later = NOW.plus(2 * ShardLimits::default().producer_expiry_ms);
    bench.shard().with_mut(|shard| shard.retain_piece(0, later));
    let left: Vec<i64> = active(&bench).iter().map(|producer| producer.id.get()).collect();
    assert_eq!(left, [1]);
    let gap = send(&bench, &transactional((1, 0, 9), 1), (None, later));
    assert!(matches!(gap, Err(AppendError::OutOfOrderSequence { .. })), "{gap:?}");
    send(&bench, &transactional((1, 0, 6), 1), (None, later)).expect("it goes on");
    let forgotten = guard(&bench, query((2, 0, 77)));
    send(&bench, &transactional((2, 0, 77), 1), (Some(forgotten), later)).expect("taken on anew");
}

/// KIP-890: with transactions v2 a producer that is not known begins at 0; and no batch comes in
/// front of a lower one that waits for its verification.
#[test]
fn batches_wait_for_the_lowest_that_is_being_verified() {
    let bench = opened(false);
    let second = TransactionQuery { bumps_epoch: true, ..query((1, 0, 3)) };
    let held = guard(&bench, second);
    let middle = send(&bench, &transactional((1, 0, 3), 1), (Some(held), NOW));
    assert!(matches!(middle, Err(AppendError::OutOfOrderSequence { .. })), "{middle:?}");
    assert_eq!(guard(&bench, TransactionQuery { first: Sequence::new(0), ..second }), held);
    send(&bench, &transactional((1, 0, 0), 3), (Some(held), NOW)).expect("the lowest");
    send(&bench, &transactional((1, 0, 3), 1), (None, NOW)).expect("the next");
    // Of version 1 the same for one that is known.
    let (high, low) = (query((2, 0, 12)), query((2, 0, 10)));
    let held = guard(&bench, high);
    assert_eq!(guard(&bench, low), held);
    let high = send(&bench, &transactional((2, 0, 12), 1), (Some(held), NOW));
    assert!(matches!(high, Err(AppendError::OutOfOrderSequence { .. })), "{high:?}");
    send(&bench, &transactional((2, 0, 10), 2), (Some(held), NOW)).expect("the lowest");
}

#[test]
fn deleted_records_of_an_open_transaction_hold_nobody_back() {
    let bench = opened(true);
    add(&bench, (1, 0, 0), 2).expect("taken");
    fill(&bench, 60);
    assert_eq!(stable(&bench), 0);
    delete(&bench, 50);
    assert_eq!((bench_log_start(&bench), stable(&bench)), (50, 50));
    bench.append_now(id(1, 0), &batch(1, 1, 900));
    assert_eq!(stable(&bench), 50, "it is open, and no reader goes back");
    delete(&bench, 63);
    assert_eq!(stable(&bench), 63);
    bench.append_now(id(1, 0), &batch(2, 1, 900));
    assert_eq!((stable(&bench), committed(&bench, 63).bytes()), (63, 0));
    let bench = restarted(bench);
    assert_eq!(stable(&bench), 63, "also after a crash");
    abort(&bench, 1, 0);
    assert_eq!((stable(&bench), aborted(&bench, 63)), (65, vec![(1, 0)]));
    delete(&bench, 65);
    bench.append_now(id(1, 0), &batch(3, 1, 900));
    assert_eq!(aborted(&bench, 65), [], "nothing of it is left");
}

fn delete(bench: &Bench, before: i64) {
    let (promise, mut reply) = oneshot();
    let deletion = Deletion { at: id(1, 0), before: DeleteBefore::Offset(Offset::at(before)) };
    bench.shard().with_mut(|shard| shard.delete_before(&deletion, promise));
    bench.work(1000);
    assert_eq!(reply.try_take().expect("answered").expect("kept"), Ok(Offset::at(before)));
}

/// In memory and in files: offsets, times and bytes all end in front of the open transaction.
#[test]
fn questions_of_committed_readers_end_at_the_last_stable_offset() {
    for cold in [false, true] {
        let bench = opened(cold);
        let stamped = |ms: i64| BatchBuilder { base_timestamp: NOW.get() + ms, ..batch(0, 1, 900) };
        let send = |ms| {
            bench.append_now(id(1, 0), &stamped(ms));
        };
        (0..30).for_each(send);
        add(&bench, (1, 0, 0), 1).expect("taken");
        (31..70).for_each(send);
        bench.work(1000);
        let ask = |spec, isolation| {
            let query = OffsetQuery { at: id(1, 0), current: None, isolation, spec };
            let (shard, disk) = (bench.shard(), &bench.shell.disk);
            let found = block_on(query_task::offsets(shard, disk, &[query])).remove(0);
            found.expect("an answer").offset.map(Offset::get)
        };
        let both =
            |spec| (ask(spec, Isolation::ReadCommitted), ask(spec, Isolation::ReadUncommitted));
        let time = |ms: i64| OffsetSpec::Timestamp(NOW.plus(ms));
        assert_eq!(both(OffsetSpec::Latest), (Some(30), Some(70)), "cold: {cold}");
        assert_eq!(both(OffsetSpec::MaxTimestamp), (Some(29), Some(69)), "cold: {cold}");
        assert_eq!(both(time(29)), (Some(29), Some(29)), "cold: {cold}");
        assert_eq!(both(time(31)), (None, Some(31)), "cold: {cold}");
        let mut next = 0;
        loop {
            let plan = committed(&bench, next);
            let bytes = Bench::bytes(&plan);
            let len = batch(0, 1, 900).build().len();
            next += i64::try_from(bytes.len() / len).expect("few");
            if bytes.is_empty() {
                break;
            }
        }
        assert_eq!(next, 30, "cold: {cold}");
        abort(&bench, 1, 0);
        assert_eq!(both(OffsetSpec::Latest), (Some(71), Some(71)));
        assert_eq!(both(time(31)), (Some(31), Some(31)));
    }
}

#[test]
fn long_poll_of_committed_records_sleeps_until_the_marker_is_durable() {
    let bench = opened(false);
    add(&bench, (1, 0, 0), 1).expect("taken");
    let plan = committed(&bench, 0);
    assert_eq!(plan.bytes(), 0);
    let want = |isolation| millstream_shards::message::Want {
        at: id(1, 0),
        isolation,
        seen: plan.readable_end,
    };
    let (wait, mut woken) = Wait::new(1);
    bench.shard().with_mut(|shard| shard.wait_for(&[want(Isolation::ReadCommitted)], &wait));
    bench.append_now(id(1, 0), &batch(1, 1, 900));
    add(&bench, (1, 0, 1), 1).expect("taken");
    assert!(woken.try_take().is_none(), "nothing is decided");
    commit(&bench, 1, 0);
    assert_eq!(woken.try_take(), Some(Ok(Woken::Bytes)));
    let grown = committed(&bench, 0);
    assert_eq!(grown.last_stable_offset, Offset::at(4));
}

/// What a guard says counts for one partition and one life.
#[test]
fn guard_of_another_life_is_a_strangers() {
    let bench = opened(false);
    let old = guard(&bench, query((1, 0, 0)));
    let bench = restarted(bench);
    let answer = send(&bench, &transactional((1, 0, 0), 1), (Some(old), NOW));
    assert_eq!(answer, refused(InvalidTxnState::NotVerified));
}
