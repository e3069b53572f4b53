//! The shards on the machine's own disk and cores: produce and fetch through the routers of several
//! cores, stop in order, start again.

#![allow(clippy::expect_used, reason = "a broken expectation is the failure of the test")]

mod bench;

use std::path::Path;
use std::time::Duration;

use bench::{Bench, NOW, batch, id, open_of};
use millstream_io::batch::testing::BatchBuilder;
use millstream_io::batch::{CheckedBatch, Origin, RecordBatchHeader, stored};
use millstream_io::data_dir::Layout;
use millstream_io::disk_file::FileDisk;
use millstream_io::journal::RingLimits;
use millstream_io::removal::RemovalPace;
use millstream_io::runtime::{CoreSetup, Pool, affinity};
use millstream_io::units::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicPartition};
use millstream_shards::clean_task::CleanerConfig;
use millstream_shards::deletion::{DeleteBefore, DeleteError, Deletion};
use millstream_shards::limits::ShardLimits;
use millstream_shards::message::{
    Aborted, Append, AppendError, Appended, Isolation, Marker, OpenPartition, Outcome,
    PartitionConfig, Read, ReadError, ReadLimits, TransactionQuery, TransactionState, Want, Woken,
};
use millstream_shards::recover::{RecoverConfig, Recovered, recover};
use millstream_shards::remover::Removals;
use millstream_shards::retention_task::RetentionConfig;
use millstream_shards::router::Router;
use millstream_shards::runtime::{ShardContext, ShardEnd, ShardsConfig, start};

const RING: RingLimits = RingLimits { file_bytes: 4 << 20, files_max: 4 };

fn partitions(epoch: i32) -> Vec<OpenPartition> {
    let config = PartitionConfig { segment_bytes: 1 << 20, ..PartitionConfig::default() };
    let open = |p| OpenPartition { epoch: LeaderEpoch::at(epoch), ..open_of(id(1, p), &config) };
    (0..8).map(open).collect()
}

fn recovered(root: &Path, cores: usize, epoch: i32) -> Recovered {
    let config = RecoverConfig {
        layout: Layout::new(root),
        shard_count: u16::try_from(cores).expect("few"),
        ring: RING,
        threads: 2,
        now: NOW,
    };
    recover(&FileDisk, &config, partitions(epoch)).expect("recoverable")
}

/// Runs `door` on every core of a start in `root`; gives the ends and what recovery said.
fn run<F, Fut>(root: &Path, cores: usize, epoch: i32, door: F) -> (Vec<ShardEnd>, u64)
where
    F: FnOnce(ShardContext) -> Fut + Send + Clone + 'static,
    Fut: Future<Output = ()> + 'static,
{
    // As the release build does: a core that broke a promise must not leave the others waiting.
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        told(info);
        std::process::abort();
    }));
    let allowed = affinity().expect("a CPU");
    let cpus: Vec<usize> = allowed.iter().copied().cycle().take(cores).collect();
    let pool = Pool::start(2, &cpus, &allowed).expect("threads");
    let recovered = recovered(root, cores, epoch);
    let scanned = recovered.report.bytes_scanned;
    assert_eq!(recovered.report.lines(), [] as [String; 0]);
    let mut setup = CoreSetup::new(cpus);
    setup.data_dirs = vec![root.to_path_buf()];
    let (removals, remover) = Removals::start(FileDisk, RemovalPace::USUAL).expect("a thread");
    let config = ShardsConfig {
        cleaner: CleanerConfig::default(),
        setup,
        pool: pool.clone(),
        direct: FileDisk.probe_direct(root).is_ok(),
        layout: Layout::new(root),
        limits: ShardLimits::default(),
        watchdog: Duration::from_secs(30),
        stop_patience: Duration::from_secs(20),
        retention: RetentionConfig {
            check_every: Duration::from_secs(300),
            step_grace: Duration::ZERO,
            alive: None,
        },
        removals,
    };
    let running = start(config, recovered, door).expect("cores start");
    let ends = running.join().into_iter().map(|end| end.expect("a core ends well")).collect();
    pool.stop();
    remover.stop();
    (ends, scanned)
}

async fn send(
    router: &Router,
    at: TopicPartition,
    builder: &BatchBuilder,
) -> Result<Appended, AppendError> {
    let batch = CheckedBatch::parse(builder.build(), Origin::Client).expect("a good batch");
    let append = Append { at, current: None, batch, transaction: None, now: NOW };
    router.append(vec![append]).await.await.remove(0)
}

/// Base offsets of all batches of a partition, read in small fetches.
async fn read_all(router: &Router, at: TopicPartition) -> Vec<i64> {
    let (mut next, mut found) = (Offset::ZERO, Vec::new());
    loop {
        let bytes_max = 40_000;
        let read = Read { at, offset: next, bytes_max, current: None, last_fetched: None };
        let limits = ReadLimits { bytes_max, isolation: Isolation::ReadCommitted };
        let plan = router.read(vec![read], limits).await.remove(0).expect("in range");
        let bytes = Bench::bytes(&plan);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let header = stored::whole(rest).expect("whole batches");
            found.push(header.base_offset_raw());
            next = header.next_offset().expect("in range");
            rest = &rest[RecordBatchHeader::view(rest).and_then(|h| h.total_bytes()).expect("w")..];
        }
        if next >= plan.high_watermark {
            return found;
        }
        assert!(!bytes.is_empty(), "stuck at {next} of {}", plan.high_watermark);
    }
}

#[test]
fn every_core_reaches_every_partition_and_a_clean_stop_keeps_all() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ends, _) = run(dir.path(), 2, 0, |context| async move {
        let router = context.router;
        for n in 0..12 {
            for p in 0..8 {
                let len = if n % 6 == 5 { 200_000 } else { 2_000 };
                let sent = send(&router, id(1, p), &batch(n, 2, len)).await;
                sent.expect("stored");
            }
        }
        for p in 0..8 {
            let offsets = read_all(&router, id(1, p)).await;
            assert!(offsets.len() >= 12, "{} batches in partition {p}", offsets.len());
            assert!(offsets.iter().zip((0..).step_by(2)).all(|(a, b)| *a == b), "{offsets:?}");
        }
    });
    assert!(ends.iter().all(|end| end.clean), "{ends:?}");
    let (ends, scanned) = run(dir.path(), 2, 1, |context| async move {
        for p in 0..8 {
            let offsets = read_all(&context.router, id(1, p)).await;
            assert_eq!(offsets, (0..48).step_by(2).collect::<Vec<i64>>(), "partition {p}");
        }
        if context.core.index.get() == 0 {
            let sent = send(&context.router, id(1, 3), &batch(99, 1, 100)).await.expect("stored");
            assert_eq!(sent.base_offset, Offset::at(48));
        }
    });
    assert_eq!(scanned, 0, "a clean start reads no log bytes");
    assert!(ends.iter().all(|end| end.clean), "{ends:?}");
    let (ends, scanned) = run(dir.path(), 1, 2, |context| async move {
        let offsets = read_all(&context.router, id(1, 3)).await;
        assert_eq!(offsets.len(), 25, "another number of cores finds the same logs");
    });
    assert_eq!(scanned, 0);
    assert!(ends.iter().all(|end| end.clean), "{ends:?}");
}

#[test]
fn long_poll_is_woken_by_another_core() {
    let dir = tempfile::tempdir().expect("a directory");
    run(dir.path(), 2, 0, |context| async move {
        let router = context.router;
        let mine = |p: &i32| router.owner(id(1, *p)) == router.shard();
        let (own, other) = ((0..8).find(mine), (0..8).find(|p| !mine(p)));
        let at = id(1, other.expect("two cores share eight"));
        let read =
            Read { at, offset: Offset::ZERO, bytes_max: 1, current: None, last_fetched: None };
        let limits = ReadLimits { bytes_max: 1, isolation: Isolation::ReadUncommitted };
        let plan = router.read(vec![read], limits).await.remove(0).expect("in range");
        let want = Want { at, isolation: limits.isolation, seen: plan.readable_end };
        let own = id(1, own.expect("two cores share eight"));
        // Each core writes its own partition, and waits for the other's.
        send(&router, own, &batch(1, 1, 100)).await.expect("stored");
        let woken = router.wait_readable(vec![want], 1, Duration::from_secs(20)).await;
        assert_eq!(woken, Woken::Bytes);
        let never = router.wait_readable(Vec::new(), 1, Duration::from_millis(30)).await;
        assert_eq!(never, Woken::Deadline);
    });
}

/// Every core has a transaction in a partition of another: guards, batches and markers go there and
/// back, and who waits there for committed records is woken.
#[test]
fn transactions_reach_partitions_of_other_cores() {
    let dir = tempfile::tempdir().expect("a directory");
    let (ends, _) = run(dir.path(), 2, 0, |context| async move {
        let router = context.router;
        let at = (0..8).map(|p| id(1, p)).find(|at| router.owner(*at) != router.shard());
        let at = at.expect("two cores share eight");
        let producer = ProducerId::new(i64::from(at.partition.get())).expect("not negative");
        let epoch = ProducerEpoch::new(0).expect("not negative");
        let query = TransactionQuery { at, producer, epoch, first: None, bumps_epoch: false };
        let state = router.transactions(vec![query]).await.remove(0).expect("it is open");
        let TransactionState::Unverified(guard) = state else { panic!("nothing is open") };
        let builder = batch(1, 3, 100).from_producer(producer.get(), 0, 0);
        let builder = BatchBuilder { attributes: 0x10, ..builder };
        let batch = CheckedBatch::parse(builder.build(), Origin::Client).expect("a good batch");
        let append = Append { at, current: None, batch, transaction: Some(guard), now: NOW };
        router.append(vec![append]).await.await.remove(0).expect("stored");
        let state = router.transactions(vec![query]).await.remove(0);
        assert_eq!(state, Ok(TransactionState::Open));

        let isolation = Isolation::ReadCommitted;
        let read =
            Read { at, offset: Offset::ZERO, bytes_max: 1, current: None, last_fetched: None };
        let limits = ReadLimits { bytes_max: 1, isolation };
        let plan = router.read(vec![read], limits).await.remove(0).expect("in range");
        assert_eq!((plan.bytes(), plan.last_stable_offset), (0, Offset::ZERO));
        let want = Want { at, isolation, seen: plan.readable_end };
        let asleep = router.wait_readable(vec![want], 1, Duration::from_millis(30)).await;
        assert_eq!(asleep, Woken::Deadline);
        let marker = Marker {
            at,
            producer,
            epoch,
            outcome: Outcome::Abort,
            coordinator_epoch: 0,
            transaction_version: 0,
            now: NOW,
        };
        let waiting = router.wait_readable(vec![want], 1, Duration::from_secs(20));
        let ending = router.write_markers(vec![marker]);
        let (woken, offsets) = futures_lite::future::zip(waiting, ending).await;
        assert_eq!((woken, offsets), (Woken::Bytes, vec![Ok(Offset::at(3))]));
        let plan = router.read(vec![read], limits).await.remove(0).expect("in range");
        let aborted = plan.aborted.expect("asked for");
        assert_eq!(aborted, [Aborted { producer, first_offset: Offset::ZERO }]);
        let nowhere = router.write_markers(vec![Marker { at: id(9, 0), ..marker }]).await;
        assert_eq!(nowhere, [Err(AppendError::UnknownPartition { at: id(9, 0) })]);
    });
    assert!(ends.iter().all(|end| end.clean), "{ends:?}");
    let (ends, scanned) = run(dir.path(), 2, 1, |context| async move {
        for p in 0..8 {
            let found = context.router.producers(vec![id(1, p)]).await.remove(0).expect("open");
            assert!(found.iter().all(|producer| producer.transaction_start.is_none()));
        }
    });
    assert_eq!(scanned, 0, "the snapshot tells all of it");
    assert!(ends.iter().all(|end| end.clean), "{ends:?}");
}

#[test]
fn dropped_topic_is_gone_on_all_cores() {
    let dir = tempfile::tempdir().expect("a directory");
    run(dir.path(), 2, 0, |context| async move {
        if context.core.index.get() != 0 {
            return;
        }
        let router = context.router;
        for p in 0..8 {
            send(&router, id(1, p), &batch(1, 1, 300_000)).await.expect("stored");
        }
        let dropped = router.drop_topic(id(1, 0).topic).await;
        assert_eq!(dropped.partitions, 8);
        let refused = send(&router, id(1, 0), &batch(1, 1, 10)).await;
        assert!(matches!(refused, Err(AppendError::UnknownPartition { .. })), "{refused:?}");
        let counts = router.counts().await;
        assert_eq!(counts.iter().map(|(_, _, levels)| levels.partitions).sum::<u64>(), 0);
        assert_eq!(counts.iter().map(|(_, _, levels)| levels.staged_bytes).sum::<u64>(), 0);
    });
}

/// Blocks that the logs of a partition take, those of removed files that are open still included.
fn log_bytes(root: &Path, at: TopicPartition) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let dir = Layout::new(root).partition("t1", at.partition);
    let is_log = |path: &Path| path.extension().is_some_and(|extension| extension == "log");
    let blocks = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.blocks() * 512);
    let named = std::fs::read_dir(&dir).expect("a directory").map(|e| e.expect("named").path());
    let named: u64 = named.filter(|path| is_log(path)).map(|path| blocks(&path)).sum();
    let open = std::fs::read_dir("/proc/self/fd").expect("Linux").flatten().filter_map(|fd| {
        let to = std::fs::read_link(fd.path()).ok()?;
        let gone = to.starts_with(&dir) && to.to_string_lossy().ends_with(".log (deleted)");
        gone.then(|| blocks(&fd.path()))
    });
    named + open.sum::<u64>()
}

#[test]
fn deleted_records_give_their_space_back_and_stay_deleted() {
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path().to_path_buf();
    let (ends, _) = run(dir.path(), 2, 0, move |context| async move {
        if context.core.index.get() != 0 {
            return;
        }
        let router = context.router;
        for n in 0..40 {
            for p in 0..2 {
                send(&router, id(1, p), &batch(n, 1, 200_000)).await.expect("stored");
            }
        }
        let before = log_bytes(&root, id(1, 0));
        assert!(before >= 7 << 20, "{before} bytes in files");
        // Readers have had the files open.
        assert_eq!(read_all(&router, id(1, 0)).await.len(), 40);
        let to = DeleteBefore::Offset(Offset::at(38));
        let deletion = |p, before| Deletion { at: id(1, p), before };
        let asked = vec![
            deletion(0, to),
            deletion(1, DeleteBefore::HighWatermark),
            deletion(2, DeleteBefore::Offset(Offset::at(1))),
        ];
        let answers = router.delete_before(asked, None).await;
        assert_eq!(answers[0], Ok(Offset::at(38)));
        assert_eq!(answers[1], Ok(Offset::at(40)));
        assert!(matches!(answers[2], Err(DeleteError::OutOfRange { .. })), "{:?}", answers[2]);
        let limits = ReadLimits { bytes_max: 1, isolation: Isolation::ReadUncommitted };
        let offset = Offset::at(37);
        let read = Read { at: id(1, 0), offset, bytes_max: 1, current: None, last_fetched: None };
        let told = router.read(vec![read], limits).await.remove(0);
        assert!(matches!(told, Err(ReadError::OffsetOutOfRange { .. })), "{told:?}");
        // The files go behind the answer.
        let mut left = before;
        for _ in 0..500 {
            left = log_bytes(&root, id(1, 0)).max(log_bytes(&root, id(1, 1)));
            if left <= 2 << 20 {
                break;
            }
            millstream_io::runtime::sleep(Duration::from_millis(20)).await;
        }
        assert!(left <= 2 << 20, "{left} of {before} bytes are still taken");
    });
    assert!(ends.iter().all(|end| end.clean), "{ends:?}");
    let (ends, scanned) = run(dir.path(), 1, 1, |context| async move {
        let limits = ReadLimits { bytes_max: 1, isolation: Isolation::ReadUncommitted };
        for (p, start) in [(0, 38), (1, 40)] {
            let offset = Offset::at(start);
            let at = id(1, p);
            let read = Read { at, offset, bytes_max: 1, current: None, last_fetched: None };
            let plan = context.router.read(vec![read], limits).await.remove(0).expect("in range");
            assert_eq!((plan.log_start, plan.high_watermark), (offset, Offset::at(40)));
            assert_eq!(plan.chunks.is_empty(), start == 40);
        }
    });
    assert_eq!(scanned, 0);
    assert!(ends.iter().all(|end| end.clean), "{ends:?}");
}
