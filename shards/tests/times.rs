//! Offsets by time: the first record of a time or later, and the one with the largest timestamp, also
//! when others were deleted, are not readable yet, or lie in compressed batches.

#![allow(clippy::expect_used, reason = "a broken expectation is the failure of the test")]

mod bench;

use bench::{Bench, NOW, batch, id};
use futures_lite::future::block_on;
use millstream_io::batch::testing::BatchBuilder;
use millstream_io::batch::{CheckedBatch, Codec, Origin};
use millstream_io::disk_sim::SimRng;
use millstream_io::journal::RingLimits;
use millstream_io::records::recompress::recompress;
use millstream_io::runtime::oneshot;
use millstream_io::units::Offset;
use millstream_shards::deletion::{DeleteBefore, Deletion};
use millstream_shards::limits::ShardLimits;
use millstream_shards::message::{Isolation, PartitionConfig};
use millstream_shards::query::{OffsetQuery, OffsetSpec};
use millstream_shards::query_task;

/// Offset and timestamp, against [`NOW`], of the record with the largest timestamp.
fn latest(bench: &Bench) -> Option<(i64, i64)> {
    ask(bench, OffsetSpec::MaxTimestamp)
}

/// Offset and timestamp of the first record at or behind a time.
fn first_at(bench: &Bench, time: i64) -> Option<(i64, i64)> {
    ask(bench, OffsetSpec::Timestamp(NOW.plus(time)))
}

fn ask(bench: &Bench, spec: OffsetSpec) -> Option<(i64, i64)> {
    let (at, isolation) = (id(1, 0), Isolation::ReadUncommitted);
    let queries = [OffsetQuery { at, current: None, isolation, spec }];
    let found = block_on(query_task::offsets(bench.shard(), &bench.shell.disk, &queries)).remove(0);
    let found = found.expect("an answer");
    Some((found.offset?.get(), found.timestamp?.since_ms(NOW)))
}

fn stamped(mark: u32, times: &[i64]) -> BatchBuilder {
    let mut builder = batch(mark, times.len(), 300);
    builder.base_timestamp = NOW.get();
    for (record, time) in builder.records.iter_mut().zip(times) {
        record.timestamp_delta = *time;
    }
    builder
}

fn delete(bench: &Bench, before: i64) {
    let (promise, mut reply) = oneshot();
    let deletion = Deletion { at: id(1, 0), before: DeleteBefore::Offset(Offset::at(before)) };
    bench.shard().with_mut(|shard| shard.delete_before(&deletion, promise));
    bench.work(1000);
    assert_eq!(reply.try_take().expect("answered").expect("kept"), Ok(Offset::at(before)));
}

fn open(tail_bytes_max: u64) -> Bench {
    let limits = ShardLimits { tail_bytes_max, behind_bytes: 4096, ..ShardLimits::default() };
    let bench = Bench::with(RingLimits { file_bytes: 1 << 20, files_max: 4 }, limits);
    bench.open(id(1, 0), &small());
    bench
}

fn small() -> PartitionConfig {
    PartitionConfig { segment_bytes: 20_000, ..PartitionConfig::default() }
}

#[test]
fn records_that_nobody_can_read_yet_do_not_count() {
    let bench = open(1 << 20);
    assert_eq!(latest(&bench), None);
    for (n, times) in [[5, 9], [7, 8]].iter().enumerate() {
        bench.append_now(id(1, 0), &stamped(n as u32, times));
    }
    let staged = bench.send(id(1, 0), &stamped(3, &[100, 200]));
    assert_eq!(latest(&bench), Some((1, 9)), "the staged ones are later");
    bench.round();
    assert_eq!(latest(&bench), Some((5, 200)));
    drop(staged);
}

#[test]
fn deleted_records_do_not_count() {
    for tail_bytes_max in [1 << 20, 0] {
        let bench = open(tail_bytes_max);
        for (n, times) in [[1, 2, 90], [80, 3, 70], [60, 60, 4]].iter().enumerate() {
            bench.append_now(id(1, 0), &stamped(n as u32, times));
        }
        bench.append_now(id(1, 0), &stamped(9, &[0; 8]));
        bench.work(1000);
        let steps =
            [(0, (2, 90)), (3, (3, 80)), (4, (5, 70)), (6, (6, 60)), (7, (7, 60)), (8, (8, 4))];
        for (before, expected) in steps {
            delete(&bench, before);
            assert_eq!(latest(&bench), Some(expected), "below {before} of {tail_bytes_max}");
        }
        delete(&bench, 17);
        assert_eq!(latest(&bench), None, "nothing is left");
    }
}

/// Against the plainest model, over many segments, in memory and in files.
#[test]
fn answer_is_exact_after_every_deletion() {
    for seed in 0..30 {
        let mut rng = SimRng::new(seed);
        let bench = open(rng.below(30_000));
        let mut records: Vec<i64> = Vec::new();
        let mut start = 0;
        for n in 0..150 {
            let rise = n * i64::from(seed % 3 == 0) * 10;
            let times: Vec<i64> =
                (0..1 + rng.below(4)).map(|_| rise + rng.below(1000) as i64).collect();
            bench.append_now(id(1, 0), &stamped(n as u32, &times));
            records.extend(times);
            bench.work(3);
            if rng.chance(15) {
                let left = records.len() as u64 - start;
                start += rng.below(left + 1) / 2;
                delete(&bench, start as i64);
            }
            let live = records.iter().enumerate().skip(start as usize);
            let expected = live.max_by_key(|(offset, time)| (**time, -(*offset as i64)));
            let expected = expected.map(|(offset, time)| (offset as i64, *time));
            assert_eq!(latest(&bench), expected, "seed {seed}, batch {n}, start {start}");
        }
    }
}

/// Against the plainest model: stamps that do not rise, equal ones, batches of every codec, in memory
/// and in files, after deletions and after restarts, to the millisecond.
#[test]
fn first_record_of_a_time_is_exact_in_every_codec_after_deletions_and_restarts() {
    let codecs = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
    for seed in 0..20 {
        let mut rng = SimRng::new(seed);
        let mut bench = open(rng.below(30_000));
        let mut records: Vec<i64> = Vec::new();
        let (mut start, mut epoch) = (0, 0);
        for n in 0..100 {
            let rise = n * i64::from(seed % 3 == 0) * 7;
            let times: Vec<i64> =
                (0..1 + rng.below(9)).map(|_| rise + rng.below(300) as i64).collect();
            let plain = CheckedBatch::parse(stamped(n as u32, &times).build(), Origin::Client);
            let codec = codecs[rng.index(codecs.len())];
            let batch = recompress(&plain.expect("good"), codec.into(), None, u64::MAX);
            bench.append_batch(id(1, 0), batch.expect("compressed"));
            records.extend(times);
            bench.work(3);
            match rng.below(20) {
                0..3 => {
                    let left = records.len() as u64 - start;
                    start += rng.below(left + 1) / 2;
                    delete(&bench, start as i64);
                }
                3 => {
                    epoch += 1;
                    bench = bench.restarted(id(1, 0), &small(), epoch);
                }
                _ => {}
            }
            let live = || records.iter().enumerate().skip(start as usize);
            for time in [0, 1, rise, rise + rng.below(320) as i64, rise + 299, rise + 300, 10_000] {
                let expected = live().find(|(_, stamp)| **stamp >= time);
                let expected = expected.map(|(offset, stamp)| (offset as i64, *stamp));
                let place = format!("seed {seed}, batch {n}, start {start}, time {time}");
                assert_eq!(first_at(&bench, time), expected, "{place}");
            }
            let newest = live().max_by_key(|(offset, time)| (**time, -(*offset as i64)));
            assert_eq!(latest(&bench), newest.map(|(offset, time)| (offset as i64, *time)));
        }
        assert!(epoch > 0, "seed {seed} has restarts");
    }
}
