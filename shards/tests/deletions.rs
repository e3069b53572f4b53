//! Deleting the oldest records of a shard's partitions on a simulated disk, step by step: what is
//! promised to those who ask, to readers meanwhile, and to a disk that runs full.

#![allow(clippy::expect_used, reason = "a broken expectation is the failure of the test")]

mod bench;

use std::path::{Path, PathBuf};

use bench::{Bench, batch, id};
use futures_lite::future::{block_on, poll_once};
use millstream_io::checkpoint::read_state;
use millstream_io::disk::{Disk, DiskOp};
use millstream_io::disk_sim::Fault;
use millstream_io::journal::RingLimits;
use millstream_io::limits::RESERVE_BYTES;
use millstream_io::partition_state::Manifest;
use millstream_io::reserve;
use millstream_io::runtime::{Reply, oneshot};
use millstream_io::segment::Listing;
use millstream_io::units::{Offset, TimestampMs, TopicPartition};
use millstream_shards::cold;
use millstream_shards::deletion::{DeleteBefore, DeleteError, Deletion};
use millstream_shards::limits::{ShardLimits, TRIMS_AT_ONCE};
use millstream_shards::message::{
    AppendError, Chunk, Isolation, PartitionConfig, Read, ReadError, ReadLimits,
};
use millstream_shards::query::{OffsetQuery, OffsetSpec};
use millstream_shards::query_task;
use millstream_shards::read::Room;
use millstream_shards::shard::Job;

type Answer = Result<Offset, DeleteError>;

fn small() -> PartitionConfig {
    PartitionConfig { segment_bytes: 20_000, ..PartitionConfig::default() }
}

fn at(offset: i64) -> Offset {
    Offset::at(offset)
}

fn dir() -> PathBuf {
    PathBuf::from("/data/topics/t1/0")
}

fn ask(bench: &Bench, partition: TopicPartition, before: DeleteBefore) -> Reply<Answer> {
    let (promise, reply) = oneshot();
    let deletion = Deletion { at: partition, before };
    bench.shard().with_mut(|shard| shard.delete_before(&deletion, promise));
    reply
}

fn delete(bench: &Bench, partition: TopicPartition, before: i64) -> Answer {
    let mut reply = ask(bench, partition, DeleteBefore::Offset(at(before)));
    bench.work(1000);
    reply.try_take().expect("answered").expect("kept")
}

/// Partition 0 with `count` records of 900 bytes in files, some twenty to a segment.
fn filled(bench: &Bench, count: u32) {
    bench.open(id(1, 0), &small());
    for n in 0..count {
        bench.append_now(id(1, 0), &batch(n, 1, 900));
    }
    bench.work(1000);
}

/// A bench that keeps little in memory.
fn cold_bench() -> Bench {
    let limits = ShardLimits { tail_bytes_max: 0, behind_bytes: 4096, ..ShardLimits::default() };
    Bench::with(RingLimits { file_bytes: 1 << 20, files_max: 4 }, limits)
}

fn bases(bench: &Bench) -> Vec<i64> {
    let listing = Listing::read(&bench.disk, &dir()).expect("a directory");
    assert_eq!(listing.orphans(), [], "indexes go with their logs");
    listing.segments.iter().map(|id| id.base.get()).collect()
}

fn log_start_on_disk(bench: &Bench) -> Option<i64> {
    let manifest: Option<Manifest> = read_state(&bench.disk, &dir()).expect("sound");
    manifest.map(|manifest| manifest.log_start_offset.get())
}

#[test]
fn log_start_is_told_when_durable_and_seen_only_then() {
    let bench = Bench::new();
    bench.open(id(1, 0), &small());
    for n in 0..9 {
        bench.append_now(id(1, 0), &batch(n, 1, 100));
    }
    assert_eq!(log_start_on_disk(&bench), None, "nothing of it is in files");
    let mut first = ask(&bench, id(1, 0), DeleteBefore::Offset(at(4)));
    let mut second = ask(&bench, id(1, 0), DeleteBefore::Offset(at(6)));
    assert!(first.try_take().is_none() && second.try_take().is_none());
    let plan = bench.plan(id(1, 0), 0, 10_000).expect("not deleted yet");
    assert_eq!(plan.log_start, Offset::ZERO);
    assert_eq!(bench.work(100), 1, "one write for both");
    for reply in [&mut first, &mut second] {
        assert_eq!(reply.try_take().expect("answered").expect("kept"), Ok(at(6)));
    }
    assert_eq!(log_start_on_disk(&bench), Some(6));
    let below = bench.plan(id(1, 0), 5, 10_000).expect_err("deleted");
    let (log_start, log_end) = (at(6), at(9));
    let expected = ReadError::OffsetOutOfRange { at: id(1, 0), got: at(5), log_start, log_end };
    assert_eq!(below, expected);
    let plan = bench.plan(id(1, 0), 6, 10_000).expect("still there");
    assert_eq!((plan.log_start, plan.high_watermark), (at(6), at(9)));
    assert!(!plan.chunks.is_empty());
}

#[test]
fn offsets_beyond_the_high_watermark_are_refused_and_old_ones_change_nothing() {
    let bench = Bench::new();
    bench.open(id(1, 0), &small());
    for n in 0..9 {
        bench.append_now(id(1, 0), &batch(n, 1, 100));
    }
    let staged = bench.send(id(1, 0), &batch(9, 1, 100));
    let refused = delete(&bench, id(1, 0), 10);
    let (log_start, high_watermark) = (at(0), at(9));
    let expected = DeleteError::OutOfRange { at: id(1, 0), got: at(10), log_start, high_watermark };
    assert_eq!(refused, Err(expected), "nobody has seen it");
    assert_eq!(delete(&bench, id(1, 0), 5), Ok(at(5)));
    for old in [0, 4, 5] {
        let mut reply = ask(&bench, id(1, 0), DeleteBefore::Offset(at(old)));
        assert_eq!(reply.try_take().expect("at once").expect("kept"), Ok(at(5)));
    }
    assert_eq!(bench.work(10), 0, "and nothing to do for it");
    let unknown = delete(&bench, id(2, 0), 0);
    assert_eq!(unknown, Err(DeleteError::UnknownPartition { at: id(2, 0) }));
    drop(staged);
    bench.round();
    let mut all = ask(&bench, id(1, 0), DeleteBefore::HighWatermark);
    bench.work(10);
    assert_eq!(all.try_take().expect("answered").expect("kept"), Ok(at(10)));
    assert_eq!(bench.append_now(id(1, 0), &batch(10, 1, 100)), at(10), "the numbering stays");
}

#[test]
fn segments_below_the_log_start_go_and_open_readers_keep_theirs() {
    let bench = cold_bench();
    filled(&bench, 100);
    let before = bases(&bench);
    assert!(before.len() >= 5, "{before:?}");
    let plan = bench.plan(id(1, 0), 3, 5000).expect("in range");
    assert!(matches!(plan.chunks[..], [Chunk::File { .. }]), "{plan:?}");
    let (middle, last) = (before[3] + 1, before[before.len() - 1]);
    let sealed = |bench: &Bench| bench.shard().with(|shard| shard.metrics.segments_sealed_total);
    assert!(sealed(&bench) >= 4, "{}", sealed(&bench));
    assert_eq!(delete(&bench, id(1, 0), middle), Ok(at(middle)));
    assert_eq!(bases(&bench), before[3..]);
    assert!(!Bench::bytes(&plan).is_empty(), "what was promised to a reader is sent");
    let told = bench.plan(id(1, 0), 3, 5000).expect_err("deleted");
    assert!(matches!(told, ReadError::OffsetOutOfRange { .. }), "{told}");
    let plan = bench.plan(id(1, 0), middle, 5000).expect("in range");
    assert!(!Bench::bytes(&plan).is_empty());
    let mut all = ask(&bench, id(1, 0), DeleteBefore::HighWatermark);
    bench.work(1000);
    assert_eq!(all.try_take().expect("answered").expect("kept"), Ok(at(100)));
    assert_eq!(bases(&bench), [last], "the last one stays");
    let metrics = bench.shard().with(|shard| shard.metrics);
    assert_eq!(metrics.deletions_total, 2);
    assert_eq!(metrics.segments_deleted_total, before.len() as u64 - 1);
}

#[test]
fn journal_files_are_not_held_back_by_deleted_records() {
    let ring = RingLimits { file_bytes: 64 * 1024, files_max: 3 };
    let bench = Bench::with(ring, ShardLimits { direct_bytes: 16_000, ..ShardLimits::default() });
    for p in 0..2 {
        bench.open(id(1, p), &small());
    }
    for n in 0..300 {
        let partition = id(1, i32::from(n % 50 == 0));
        bench.append_now(partition, &batch(n, 1, 900));
        if n % 20 == 0 {
            ask(&bench, partition, DeleteBefore::HighWatermark).try_take();
            bench.work(4);
        }
    }
    let (metrics, levels) = bench.shard().with(|shard| (shard.metrics, shard.levels()));
    assert!(metrics.journal_bytes_total > 3 * 64 * 1024, "{metrics:?}");
    assert!(levels.journal_files_live <= 3 && metrics.segments_deleted_total > 3, "{metrics:?}");
}

#[test]
fn deletions_of_many_partitions_leave_workers_to_the_rounds() {
    let bench = Bench::new();
    for p in 0..20 {
        bench.open(id(1, p), &small());
        bench.append_now(id(1, p), &batch(1, 2, 900));
    }
    let mut replies: Vec<_> =
        (0..20).map(|p| ask(&bench, id(1, p), DeleteBefore::HighWatermark)).collect();
    let take = || bench.shard().with_mut(|shard| shard.take_job());
    let mut jobs: Vec<Job> = std::iter::from_fn(take).collect();
    assert!(jobs.iter().all(|job| matches!(job, Job::Trim(_))), "{jobs:?}");
    assert_eq!(jobs.len(), TRIMS_AT_ONCE);
    // A segment runs full: its write finds a worker, also when the next deletion may begin.
    for _ in 0..2 {
        bench.append_now(id(1, 19), &batch(1, 1, 15_000));
    }
    block_on(bench.shell.run_job(jobs.remove(0)));
    let next: Vec<Job> = (0..2).filter_map(|_| take()).collect();
    assert!(next.iter().any(|job| matches!(job, Job::Write(_))), "{next:?}");
    jobs.extend(next);
    jobs.into_iter().for_each(|job| block_on(bench.shell.run_job(job)));
    bench.work(1000);
    for reply in &mut replies {
        assert_eq!(reply.try_take().expect("answered").expect("kept"), Ok(at(2)));
    }
}

#[test]
fn read_whose_segment_is_removed_meanwhile_is_told_so() {
    let bench = cold_bench();
    filled(&bench, 60);
    let read =
        Read { at: id(1, 0), offset: at(3), bytes_max: 5000, current: None, last_fetched: None };
    let limits = ReadLimits { bytes_max: 5000, isolation: Isolation::ReadUncommitted };
    let room = Room { bytes_left: 5000, whole_first: true };
    let plan = || bench.shard().with_mut(|shard| shard.plan_read(&read, &limits, room));
    let look = || plan().expect("in range").expect_err("in a file");
    // One that comes to the file too late, and one that has looked and comes back too late.
    let (late, looked) = (look(), look());
    let found = cold::look(&bench.disk, &looked.source, &looked.ask);
    assert!(found.is_ok(), "{found:?}");
    assert_eq!(delete(&bench, id(1, 0), 50), Ok(at(50)));
    let missing = cold::look(&bench.disk, &late.source, &late.ask);
    assert!(missing.is_err(), "{missing:?}");
    for (look, answer) in [(late, missing), (looked, found)] {
        let told = bench.shard().with_mut(|shard| shard.finish_read(*look, answer));
        assert!(matches!(told, Err(ReadError::OffsetOutOfRange { .. })), "{told:?}");
    }
}

#[test]
fn search_by_time_goes_on_behind_what_is_deleted_meanwhile() {
    let bench = cold_bench();
    filled(&bench, 60);
    let spec = OffsetSpec::Timestamp(TimestampMs::ZERO);
    let query =
        OffsetQuery { at: id(1, 0), current: None, isolation: Isolation::ReadUncommitted, spec };
    bench.disk.stepped();
    let queries = [query];
    let mut search = Box::pin(query_task::offsets(bench.shard(), &bench.shell.disk, &queries));
    assert!(block_on(poll_once(&mut search)).is_none(), "it looks into the first segment");
    // The look waits on its helper while the records are deleted and the file is removed.
    let mut reply = ask(&bench, id(1, 0), DeleteBefore::Offset(at(50)));
    while let Some(job) = bench.shard().with_mut(|shard| shard.take_job()) {
        let mut job = Box::pin(bench.shell.run_job(job));
        while block_on(poll_once(&mut job)).is_none() {
            assert!(bench.disk.complete(1), "the job waits for something");
        }
    }
    assert_eq!(reply.try_take().expect("answered").expect("kept"), Ok(at(50)));
    assert!(bases(&bench)[0] > 20);
    bench.disk.at_once();
    let found = block_on(search).remove(0).expect("an answer");
    assert_eq!(found.offset, Some(at(50)), "the first that is left");
}

#[test]
fn segment_that_a_write_may_still_sync_is_not_removed() {
    let limits = ShardLimits { behind_bytes: 4096, direct_bytes: 16_000, ..Default::default() };
    let bench = Bench::with(RingLimits { file_bytes: 64 * 1024, files_max: 3 }, limits);
    bench.open(id(1, 0), &small());
    let (mut seal, mut checkpoint, mut n) = (None, None, 0);
    while checkpoint.is_none() {
        bench.append_now(id(1, 0), &batch(n, 1, 900));
        n += 1;
        match bench.shard().with_mut(|shard| shard.take_job()) {
            Some(Job::Seal(job)) if seal.is_none() => seal = Some(Job::Seal(job)),
            Some(Job::Write(job)) if seal.is_some() && job.plan.sync.len() > 1 => {
                checkpoint = Some(Job::Write(job));
            }
            Some(job) => block_on(bench.shell.run_job(job)),
            None => {}
        }
        assert!(n < 200, "the journal never runs short");
    }
    // The checkpoint is held back; the first of its segments is sealed and then deleted.
    block_on(bench.shell.run_job(seal.expect("held back")));
    let end = i64::from(n);
    assert_eq!(delete(&bench, id(1, 0), end), Ok(at(end)));
    assert_eq!(bases(&bench)[0], 0, "the checkpoint is to sync it");
    block_on(bench.shell.run_job(checkpoint.expect("held back")));
    bench.work(100);
    assert!(bases(&bench)[0] > 0);
    assert!(!bench.shard().with(|shard| shard.has_failed()));
}

#[test]
fn full_disk_takes_deletions_and_gets_its_space_back() {
    let bench = Bench::new();
    let layout = bench.shard().with(|shard| shard.layout.clone());
    reserve::keep(&bench.disk, &layout.reserve(), RESERVE_BYTES).expect("space");
    filled(&bench, 100);
    let before = bases(&bench);
    // Something has taken the last byte.
    bench.disk.set_capacity(Some(used(&bench)));
    assert_eq!(delete(&bench, id(1, 0), 90), Ok(at(90)), "out of the reserve");
    assert!(bases(&bench).len() < before.len());
    assert!(bench.disk.free_bytes(Path::new("/")).expect("known") > 50_000);
    let mut refused = bench.send(id(1, 0), &batch(1, 1, 100));
    let answers = refused.try_take().expect("at once").expect("kept");
    assert!(matches!(answers[0], Err(AppendError::DiskFull { .. })), "{answers:?}");
    assert_eq!(delete(&bench, id(1, 0), 95), Ok(at(95)), "and again");
    bench.disk.set_capacity(Some(used(&bench)));
    let refused = delete(&bench, id(1, 0), 97);
    assert!(matches!(refused, Err(DeleteError::NoRoom { .. })), "no reserve is left: {refused:?}");
    bench.disk.set_capacity(None);
    bench.shard().with_mut(|shard| shard.tick());
    bench.work(10);
    bench.append_now(id(1, 0), &batch(2, 1, 100));
    assert!(reserve::give_up(&bench.disk, &layout.reserve()), "it is made up again");
}

#[test]
fn writes_planned_on_a_full_disk_hold_up_no_deletion() {
    let limits = ShardLimits { unwritten_bytes_max: 50_000, ..ShardLimits::default() };
    let bench = Bench::with(RingLimits { file_bytes: 1 << 20, files_max: 4 }, limits);
    let layout = bench.shard().with(|shard| shard.layout.clone());
    reserve::keep(&bench.disk, &layout.reserve(), RESERVE_BYTES).expect("space");
    for p in 0..5 {
        bench.open(id(1, p), &small());
        bench.append_now(id(1, p), &batch(1, 8, 900));
    }
    let job = bench.shard().with_mut(|shard| shard.take_job()).expect("memory runs short");
    let Job::Write(write) = &job else { panic!("{job:?}") };
    let first = write.home.at;
    let others: Vec<TopicPartition> = (0..5).map(|p| id(1, p)).filter(|p| *p != first).collect();
    let busy = others.iter().filter(|p| !bench.shard().with_mut(|shard| shard.try_drop(**p)));
    assert_eq!(busy.count(), 4, "the writes of all are planned");
    bench.disk.set_capacity(Some(used(&bench)));
    block_on(bench.shell.run_job(job));
    assert!(bench.shard().with(|shard| shard.health.full));
    assert!(others.iter().all(|p| bench.shard().with_mut(|shard| shard.try_drop(*p))));
    assert_eq!(delete(&bench, first, 8), Ok(at(8)), "out of the reserve");
}

/// Bytes that the files take.
fn used(bench: &Bench) -> u64 {
    bench.disk.set_capacity(Some(u64::MAX / 4));
    let free = bench.disk.free_bytes(Path::new("/")).expect("known");
    u64::MAX / 4 - free
}

#[test]
fn deletion_that_finds_no_room_is_told_and_leaves_everything_as_it_was() {
    let bench = Bench::new();
    filled(&bench, 60);
    let before = bases(&bench);
    bench.disk.fault(Fault { times: 1, ..Fault::on_path("manifest", DiskOp::Write, libc::ENOSPC) });
    let refused = delete(&bench, id(1, 0), 50);
    assert!(matches!(refused, Err(DeleteError::NoRoom { .. })), "{refused:?}");
    assert_eq!((bases(&bench), log_start_on_disk(&bench)), (before, Some(0)));
    assert_eq!(bench.plan(id(1, 0), 0, 100).expect("in range").log_start, Offset::ZERO);
    assert!(!bench.shard().with(|shard| shard.has_failed()), "it may be tried again");
    assert_eq!(delete(&bench, id(1, 0), 50), Ok(at(50)));
    assert!(bases(&bench)[0] > 0);
}

#[test]
fn failed_write_of_a_log_start_is_final() {
    let bench = Bench::new();
    filled(&bench, 60);
    let before = bases(&bench);
    bench.disk.fault(Fault::on_path("manifest", DiskOp::Sync, libc::EIO));
    let mut waiting = ask(&bench, id(1, 0), DeleteBefore::Offset(at(55)));
    let refused = delete(&bench, id(1, 0), 50);
    assert!(matches!(refused, Err(DeleteError::Storage { .. })), "{refused:?}");
    let waiting = waiting.try_take().expect("told too").expect("kept");
    assert!(matches!(waiting, Err(DeleteError::Storage { .. })), "{waiting:?}");
    bench.disk.clear_faults();
    let refused = delete(&bench, id(1, 0), 50);
    assert!(matches!(refused, Err(DeleteError::Storage { .. })), "latched: {refused:?}");
    assert_eq!(bases(&bench), before);
    assert_eq!(bench.plan(id(1, 0), 0, 100).expect("readable").log_start, Offset::ZERO);
}

#[test]
fn deletion_of_the_topic_ends_deletions_of_its_records() {
    let bench = Bench::new();
    filled(&bench, 60);
    let mut waiting = ask(&bench, id(1, 0), DeleteBefore::Offset(at(50)));
    let job = bench.shard().with_mut(|shard| shard.take_job()).expect("the log start");
    assert!(matches!(job, Job::Trim(_)), "{job:?}");
    let mut later = ask(&bench, id(1, 0), DeleteBefore::Offset(at(55)));
    assert!(!bench.shard().with_mut(|shard| shard.try_drop(id(1, 0))), "one is being written");
    let refused = delete(&bench, id(1, 0), 58);
    assert_eq!(refused, Err(DeleteError::UnknownPartition { at: id(1, 0) }));
    block_on(bench.shell.run_job(job));
    assert_eq!(waiting.try_take().expect("answered").expect("kept"), Ok(at(50)));
    assert_eq!(bench.work(10), 0, "nothing more is begun");
    assert!(bench.shard().with_mut(|shard| shard.try_drop(id(1, 0))));
    let gone = later.try_take().expect("answered").expect("kept");
    assert_eq!(gone, Err(DeleteError::UnknownPartition { at: id(1, 0) }));
}

#[test]
fn stop_ends_what_was_asked_and_takes_nothing_more() {
    let bench = Bench::new();
    filled(&bench, 60);
    let mut waiting = ask(&bench, id(1, 0), DeleteBefore::Offset(at(50)));
    bench.shard().with_mut(|shard| shard.begin_stop());
    assert_eq!(delete(&bench, id(1, 0), 55), Err(DeleteError::Stopping));
    bench.shard().with_mut(|shard| shard.close_all());
    bench.work(1000);
    assert_eq!(waiting.try_take().expect("answered").expect("kept"), Ok(at(50)));
    assert!(bench.shard().with(|shard| shard.is_at_rest()));
    assert!(bases(&bench)[0] > 20);
}
