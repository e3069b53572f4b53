//! One shard on a simulated disk: what is promised to producers and readers, step by step.

#![allow(clippy::expect_used, reason = "a broken expectation is the failure of the test")]

mod bench;

use bench::{Bench, batch, id};
use millstream_io::batch::{RecordBatchHeader, stored};
use millstream_io::disk::{Disk, DiskError, DiskErrorKind, DiskOp};
use millstream_io::disk_sim::Fault;
use millstream_io::journal::RingLimits;
use millstream_io::units::Offset;
use millstream_shards::commit_task::Turn;
use millstream_shards::limits::ShardLimits;
use millstream_shards::message::{AppendError, Chunk, PartitionConfig, ReadError};

fn small() -> PartitionConfig {
    PartitionConfig { segment_bytes: 20_000, ..PartitionConfig::default() }
}

/// Offsets of the batches in some bytes, each checked as a client would.
fn offsets(mut bytes: &[u8]) -> Vec<i64> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let header = stored::whole(bytes).expect("whole batches only");
        out.push(header.base_offset_raw());
        let len = RecordBatchHeader::view(bytes).and_then(|h| h.total_bytes()).expect("whole");
        bytes = &bytes[len..];
    }
    out
}

#[test]
fn batch_is_answered_when_durable_and_not_before() {
    let bench = Bench::new();
    bench.open(id(1, 0), &small());
    let mut reply = bench.send(id(1, 0), &batch(1, 3, 100));
    assert!(reply.try_take().is_none(), "staged is not durable");
    assert!(bench.plan(id(1, 0), 0, 1000).expect("in range").chunks.is_empty());
    assert_eq!(bench.round(), Turn::Round);
    let answers = reply.try_take().expect("answered").expect("kept");
    assert_eq!(answers[0].as_ref().expect("stored").base_offset, Offset::at(0));
    let plan = bench.plan(id(1, 0), 2, 1000).expect("in range");
    assert_eq!(offsets(&Bench::bytes(&plan)), [0], "the whole batch that holds the offset");
    assert_eq!(plan.high_watermark, Offset::at(3));
    assert_eq!(bench.round(), Turn::Idle);
}

#[test]
fn one_frame_commits_many_partitions() {
    let bench = Bench::new();
    let all: Vec<_> = (0..50).map(|p| id(1, p)).collect();
    all.iter().for_each(|at| bench.open(*at, &small()));
    let mut reply = bench.send_all(all.iter().map(|at| (*at, batch(1, 1, 100))).collect());
    assert_eq!(bench.round(), Turn::Round);
    let answers = reply.try_take().expect("answered").expect("kept");
    assert_eq!(answers.len(), 50);
    assert!(answers.iter().all(Result::is_ok));
    let metrics = bench.shard().with(|shard| shard.metrics);
    assert_eq!((metrics.rounds_total, metrics.fsync_total), (1, 1));
    assert_eq!(metrics.round_partitions_total, 50);
}

#[test]
fn reader_gets_the_same_batches_from_memory_and_from_files() {
    let limits =
        ShardLimits { tail_bytes_max: 8_000, behind_bytes: 4096, ..ShardLimits::default() };
    let bench = Bench::with(RingLimits { file_bytes: 1 << 20, files_max: 4 }, limits);
    bench.open(id(1, 0), &small());
    let mut sent = 0;
    for n in 0..200 {
        let offset = bench.append_now(id(1, 0), &batch(n, 2, 300));
        assert_eq!(offset, Offset::at(sent));
        sent += 2;
        bench.work(100);
    }
    let mut next = 0;
    let (mut from_files, mut from_memory) = (0, 0);
    while next < sent {
        let plan = bench.plan(id(1, 0), next, 3000).expect("in range");
        for chunk in &plan.chunks {
            match chunk {
                Chunk::Memory(_) => from_memory += 1,
                Chunk::File { .. } => from_files += 1,
            }
        }
        let got = offsets(&Bench::bytes(&plan));
        assert!(!got.is_empty(), "stuck at {next}");
        for offset in got {
            assert_eq!(offset, next);
            next += 2;
        }
    }
    assert!(from_files > 10 && from_memory > 0, "{from_files} of files, {from_memory} of memory");
    for middle in [1, 77, 201, 399] {
        let plan = bench.plan(id(1, 0), middle, 1).expect("in range");
        assert_eq!(offsets(&Bench::bytes(&plan)), [middle - 1], "first batch whole");
        assert!(plan.over_limit);
    }
    let sealed = bench.shard().with(|shard| shard.metrics.segments_sealed_total);
    assert!(sealed >= 5, "{sealed} segments were sealed");
}

#[test]
fn large_run_is_written_once() {
    let bench = Bench::new();
    bench.open(id(1, 0), &PartitionConfig::default());
    let before = bench.shard().with(|shard| shard.metrics);
    let offset = bench.append_now(id(1, 0), &batch(1, 10, 50_000));
    assert_eq!(offset, Offset::at(0));
    let after = bench.shard().with(|shard| shard.metrics);
    assert!(after.direct_bytes_total - before.direct_bytes_total >= 496_000);
    assert!(after.journal_bytes_total - before.journal_bytes_total <= 8192);
    let plan = bench.plan(id(1, 0), 0, 1 << 20).expect("in range");
    assert_eq!(offsets(&Bench::bytes(&plan)), [0]);
}

#[test]
fn journal_goes_round_and_round() {
    let ring = RingLimits { file_bytes: 64 * 1024, files_max: 3 };
    let bench = Bench::with(ring, ShardLimits { direct_bytes: 16_000, ..ShardLimits::default() });
    for p in 0..5 {
        bench.open(id(1, p), &small());
    }
    for n in 0..400 {
        bench.append_now(id(1, i32::try_from(n % 5).expect("small")), &batch(n, 1, 900));
        if n % 7 == 0 {
            bench.work(3);
        }
    }
    let (metrics, levels) = bench.shard().with(|shard| (shard.metrics, shard.levels()));
    assert!(metrics.journal_bytes_total > 6 * 3 * 64 * 1024, "{metrics:?}");
    assert!(levels.journal_files_live <= 3);
    for p in 0..5 {
        let plan = bench.plan(id(1, p), 0, 1 << 20).expect("in range");
        assert!(!plan.chunks.is_empty());
        assert_eq!(plan.high_watermark, Offset::at(80));
    }
}

#[test]
fn failed_flush_is_final() {
    let bench = Bench::new();
    bench.open(id(1, 0), &small());
    bench.append_now(id(1, 0), &batch(1, 1, 100));
    bench.disk.fault(Fault::on_path("journal", DiskOp::Write, libc::EIO));
    let mut reply = bench.send(id(1, 0), &batch(2, 1, 100));
    bench.round();
    let answers = reply.try_take().expect("answered").expect("kept");
    assert!(matches!(answers[0], Err(AppendError::Storage { .. })), "{answers:?}");
    bench.disk.clear_faults();
    let mut reply = bench.send(id(1, 0), &batch(3, 1, 100));
    let answers = reply.try_take().expect("at once").expect("kept");
    assert!(matches!(answers[0], Err(AppendError::Storage { .. })), "latched: {answers:?}");
    let plan = bench.plan(id(1, 0), 0, 1000).expect("durable data is readable");
    assert_eq!(offsets(&Bench::bytes(&plan)), [0]);
    assert_eq!(plan.high_watermark, Offset::at(1));
}

/// Goal: what was staged on this core just before another one found the directory failing is answered,
/// with an error: no round comes for it any more.
#[test]
fn failure_that_another_core_has_found_is_told_to_those_who_wait_here() {
    let bench = Bench::new();
    bench.open(id(1, 0), &small());
    let mut reply = bench.send(id(1, 0), &batch(1, 1, 100));
    let failed =
        DiskError::new(DiskErrorKind::Io(libc::EIO), DiskOp::Write, std::path::Path::new("/other"));
    assert!(bench.shard().with(|shard| shard.health.directory.fail(failed)));
    assert_eq!(bench.round(), Turn::Idle);
    let answers = reply.try_take().expect("answered").expect("kept");
    assert!(matches!(answers[0], Err(AppendError::Storage { .. })), "{answers:?}");
}

/// Goal: checkpoints of a log of large runs come as often as they should, and cost no bytes of log.
#[test]
fn what_large_runs_have_synced_is_checkpointed_without_a_write() {
    let limits = ShardLimits { checkpoint_bytes: 2_000_000, ..ShardLimits::default() };
    let bench = Bench::with(RingLimits { file_bytes: 1 << 20, files_max: 4 }, limits);
    bench.open(id(1, 0), &PartitionConfig::default());
    for n in 0..40 {
        bench.append_now(id(1, 0), &batch(n, 1, 200_000));
        bench.work(10);
    }
    let metrics = bench.shard().with(|shard| shard.metrics);
    assert_eq!(metrics.behind_bytes_total, 0, "a block was written for the sake of a checkpoint");
    assert!(metrics.direct_bytes_total > 7_900_000, "{metrics:?}");
    assert_eq!(
        metrics.checkpoints_total, 4,
        "one for each 2 MB, less the batch that ends behind it"
    );
    let bench = bench.restarted(id(1, 0), &PartitionConfig::default(), 1);
    let end = bench.plan(id(1, 0), 0, 1000).expect("readable").high_watermark;
    assert_eq!(end, Offset::at(40));
}

#[test]
fn full_disk_refuses_and_resumes_by_itself() {
    let bench = Bench::new();
    bench.open(id(1, 0), &PartitionConfig::default());
    bench.append_now(id(1, 0), &batch(1, 1, 100));
    bench.disk.set_capacity(Some(2 << 20));
    let mut refused = None;
    for n in 0..20 {
        let mut reply = bench.send(id(1, 0), &batch(n, 10, 50_000));
        bench.round();
        let answers = reply.try_take().expect("answered").expect("kept");
        if let Err(error) = &answers[0] {
            refused = Some((n, error.clone()));
            break;
        }
    }
    let (n, error) = refused.expect("the disk fills up");
    assert!(matches!(error, AppendError::DiskFull { .. }), "{error}");
    let end = bench.plan(id(1, 0), 0, 1000).expect("readable").high_watermark;
    assert_eq!(end, Offset::at(1 + 10 * i64::from(n)));
    let mut reply = bench.send(id(1, 0), &batch(99, 1, 100));
    let answers = reply.try_take().expect("refused at once").expect("kept");
    assert!(matches!(answers[0], Err(AppendError::DiskFull { .. })), "{answers:?}");
    bench.shard().with_mut(|shard| shard.tick());
    bench.work(10);
    assert!(bench.shard().with(|shard| shard.health.full), "still full");
    bench.disk.set_capacity(None);
    bench.shard().with_mut(|shard| shard.tick());
    bench.work(10);
    let offset = bench.append_now(id(1, 0), &batch(100, 10, 50_000));
    assert_eq!(offset, end, "offsets of refused batches are given anew");
}

/// Goal: who reads what was read before is answered on the core, with whole batches that end where the
/// index says, and never with what nobody has checked.
#[test]
fn batches_that_were_checked_need_no_second_look() {
    let limits = ShardLimits { tail_bytes_max: 0, behind_bytes: 4096, ..ShardLimits::default() };
    let bench = Bench::with(RingLimits { file_bytes: 1 << 20, files_max: 4 }, limits);
    bench.open(id(1, 0), &PartitionConfig { segment_bytes: 40_000, ..Default::default() });
    for n in 0..200 {
        bench.append_now(id(1, 0), &batch(n, 1, 900));
        bench.work(100);
    }
    let looks = || bench.shard().with(|s| s.metrics.cold_reads_total);
    let checked = || bench.shard().with(|s| s.metrics.checked_reads_total);
    let read_all = |max| {
        let mut next = 0;
        while next < 180 {
            let plan = bench.plan(id(1, 0), next, max).expect("in range");
            let got = offsets(&Bench::bytes(&plan));
            let due: Vec<i64> = (next..).take(got.len()).collect();
            assert_eq!(got, due, "whole batches without a gap");
            assert!(plan.bytes() <= max && !got.is_empty());
            next += i64::try_from(got.len()).expect("small");
        }
    };
    read_all(9000);
    let first = looks();
    assert!(first > 15 && checked() <= 5, "{first} looks, {} without", checked());
    for max in [9000, 20_000] {
        read_all(max);
    }
    let again = looks() - first;
    assert!(again <= 2 * 5, "{again} looks of readers who came later; each segment's first is one");
    assert!(checked() > 20, "{} reads without a look", checked());
}

/// Goal: what no reader has come to is checked when one does, also behind what was checked.
#[test]
fn damage_behind_what_was_checked_is_seen() {
    let limits = ShardLimits { tail_bytes_max: 0, behind_bytes: 4096, ..ShardLimits::default() };
    let bench = Bench::with(RingLimits { file_bytes: 1 << 20, files_max: 4 }, limits);
    bench.open(id(1, 0), &PartitionConfig { segment_bytes: 40_000, ..Default::default() });
    for n in 0..100 {
        bench.append_now(id(1, 0), &batch(n, 1, 900));
        bench.work(100);
    }
    bench.plan(id(1, 0), 0, 9000).expect("sound");
    let dir = std::path::Path::new("/data/topics/t1/0");
    let names = bench.disk.list(dir).expect("a directory");
    let log = names.iter().find(|e| e.name.ends_with(".log")).expect("a segment");
    let at = millstream_io::units::FilePosition::new(10_000);
    bench.disk.flip(&dir.join(&log.name), at, 0x40).expect("a file");
    let plan = bench.plan(id(1, 0), 0, 20_000).expect("its front is sound");
    let got = offsets(&Bench::bytes(&plan));
    assert_eq!(got, (0..10).collect::<Vec<i64>>(), "the eleventh batch is damaged");
}

#[test]
fn damaged_batch_is_named_and_what_lies_behind_it_is_served() {
    let limits = ShardLimits { tail_bytes_max: 0, behind_bytes: 4096, ..ShardLimits::default() };
    let bench = Bench::with(RingLimits { file_bytes: 1 << 20, files_max: 4 }, limits);
    bench.open(id(1, 0), &PartitionConfig { segment_bytes: 40_000, ..Default::default() });
    for n in 0..100 {
        bench.append_now(id(1, 0), &batch(n, 1, 900));
        bench.work(100);
    }
    let dir = std::path::Path::new("/data/topics/t1/0");
    let names = bench.disk.list(dir).expect("a directory");
    let log = names.iter().find(|e| e.name.ends_with(".log")).expect("a segment");
    let at = millstream_io::units::FilePosition::new(10_000);
    bench.disk.flip(&dir.join(&log.name), at, 0x40).expect("a file");
    let mut next = 0;
    let mut corrupt = Vec::new();
    while next < 100 {
        match bench.plan(id(1, 0), next, 5000) {
            Ok(plan) => {
                let got = offsets(&Bench::bytes(&plan));
                assert!(!got.is_empty(), "stuck at {next}");
                next += i64::try_from(got.len()).expect("small");
            }
            Err(ReadError::Corrupt { offset, readable_from, .. }) => {
                corrupt.push(offset.get());
                next = readable_from.expect("sound data behind").get();
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(corrupt, [10], "one batch is damaged, and told once");
}

#[test]
fn full_disk_without_a_journal_file_refuses_instead_of_waiting() {
    let bench = Bench::new();
    bench.open(id(1, 0), &small());
    bench.disk.set_capacity(Some(64 * 1024));
    let mut reply = bench.send(id(1, 0), &batch(1, 1, 100));
    bench.round();
    let answers = reply.try_take().expect("answered").expect("kept");
    assert!(matches!(answers[0], Err(AppendError::DiskFull { .. })), "{answers:?}");
    bench.disk.set_capacity(None);
    bench.shard().with_mut(|shard| shard.tick());
    bench.work(10);
    assert_eq!(bench.append_now(id(1, 0), &batch(2, 1, 100)), Offset::at(0));
}
