//! One shard on a simulated disk, driven step by step.

#![allow(dead_code, reason = "each test uses its own part of the bench")]

use std::path::PathBuf;
use std::sync::Arc;

use futures_lite::future::block_on;
use millstream_io::batch::testing::BatchBuilder;
use millstream_io::batch::{CheckedBatch, Origin};
use millstream_io::data_dir::Layout;
use millstream_io::disk::Disk;
use millstream_io::disk_sim::SimDisk;
use millstream_io::journal::{JournalRing, RingLimits, files, frame::JournalId};
use millstream_io::runtime::{Reply, oneshot};
use millstream_io::units::{
    LeaderEpoch, Offset, PartitionIndex, RoundNumber, ShardId, TimestampMs, TopicId, TopicPartition,
};
use millstream_shards::commit_task::{Turn, commit_round};
use millstream_shards::disk_shell::DiskShell;
use millstream_shards::health::{DirectoryHealth, Health};
use millstream_shards::limits::ShardLimits;
use millstream_shards::message::{
    Append, AppendError, Appended, Chunk, Isolation, OpenPartition, PartitionConfig, Read,
    ReadError, ReadLimits, ReadPlan,
};
use millstream_shards::partition_log::RecoveredLog;
use millstream_shards::read_task;
use millstream_shards::recover::{RecoverConfig, recover};
use millstream_shards::remover::Removals;
use millstream_shards::shard::{Shard, ShardState};

pub const NOW: TimestampMs = TimestampMs::new(1_700_000_000_000);
pub const ROOT: &str = "/data";
pub const RING: RingLimits = RingLimits { file_bytes: 1 << 20, files_max: 4 };

pub type Answers = Vec<Result<Appended, AppendError>>;

pub struct Bench {
    pub disk: SimDisk,
    pub shell: DiskShell<SimDisk>,
}

pub fn id(topic: u8, partition: i32) -> TopicPartition {
    let partition = PartitionIndex::at(partition);
    TopicPartition { topic: TopicId::from_bytes([topic; 16]), partition }
}

pub fn open_of(at: TopicPartition, config: &PartitionConfig) -> OpenPartition {
    let topic_name = Arc::from(format!("t{}", at.topic.as_bytes()[0]));
    OpenPartition { at, topic_name, epoch: LeaderEpoch::at(0), config: config.clone() }
}

impl Bench {
    pub fn new() -> Bench {
        Bench::with(RING, ShardLimits::default())
    }

    pub fn with(ring: RingLimits, limits: ShardLimits) -> Bench {
        let disk = SimDisk::new();
        let layout = Layout::new(PathBuf::from(ROOT));
        let id = ShardId::new(0);
        let journal = layout.journal(id);
        disk.create_dir_all(&journal).expect("a fresh disk");
        journal.ancestors().for_each(|dir| disk.sync_dir(dir).expect("a fresh disk"));
        let ids = (id, JournalId::new(7));
        let start = files::reset(&disk, &journal, ids, RoundNumber::ZERO, ring).expect("fresh");
        let health = Health::new(DirectoryHealth::new(PathBuf::from(ROOT)));
        let ring_state = JournalRing::new(start, ring);
        let state = ShardState::new(id, layout.clone(), ring_state, health, limits);
        let shell = DiskShell::new(
            disk.clone(),
            Shard::new(state),
            (&layout, id),
            ring,
            Removals::pair().0,
        );
        Bench { disk, shell }
    }

    /// What a start finds after the process was killed here, with one partition.
    pub fn restarted(self, at: TopicPartition, config: &PartitionConfig, epoch: i32) -> Bench {
        let ring = self.shell.ring_limits();
        let layout = Layout::new(PathBuf::from(ROOT));
        let limits = self.shard().with(|shard| shard.limits);
        let recover_config =
            RecoverConfig { layout: layout.clone(), shard_count: 1, ring, threads: 1, now: NOW };
        let open = OpenPartition { epoch: LeaderEpoch::at(epoch), ..open_of(at, config) };
        let mut found = recover(&self.disk, &recover_config, vec![open]).expect("a start");
        let health = Health::new(DirectoryHealth::new(PathBuf::from(ROOT)));
        let ring_state = JournalRing::new(found.journals.remove(0), ring);
        let id = ShardId::new(0);
        let mut state = ShardState::new(id, layout.clone(), ring_state, health, limits);
        for (open, log) in found.logs {
            state.open(&open, log).expect("a recovered partition");
        }
        let shell = DiskShell::new(
            self.disk.clone(),
            Shard::new(state),
            (&layout, id),
            ring,
            Removals::pair().0,
        );
        Bench { disk: self.disk, shell }
    }

    pub fn shard(&self) -> &Shard {
        &self.shell.shard
    }

    pub fn open(&self, at: TopicPartition, config: &PartitionConfig) {
        let open = open_of(at, config);
        let opened = self.shard().with_mut(|s| s.open(&open, RecoveredLog::default()));
        opened.expect("a new partition");
    }

    pub fn send(&self, at: TopicPartition, batch: &BatchBuilder) -> Reply<Answers> {
        self.send_all(vec![(at, batch.clone())])
    }

    pub fn send_all(&self, batches: Vec<(TopicPartition, BatchBuilder)>) -> Reply<Answers> {
        let (promise, reply) = oneshot();
        let append = |(at, builder): (TopicPartition, BatchBuilder)| {
            let batch = CheckedBatch::parse(builder.build(), Origin::Client).expect("a good batch");
            Append { at, current: None, batch, transaction: None, now: NOW }
        };
        let appends = batches.into_iter().map(append).collect();
        self.shard().with_mut(|shard| shard.append(appends, promise));
        reply
    }

    /// Appends a batch that is made already, durably.
    pub fn append_batch(&self, at: TopicPartition, batch: CheckedBatch) {
        let (promise, mut reply) = oneshot();
        let append = Append { at, current: None, batch, transaction: None, now: NOW };
        self.shard().with_mut(|shard| shard.append(vec![append], promise));
        while self.round() == Turn::Round {}
        let answers = reply.try_take().expect("answered").expect("kept");
        answers[0].as_ref().expect("stored");
    }

    /// One turn of the commit loop; a round that waits for a journal file gets it.
    pub fn round(&self) -> Turn {
        let shell = self.shell.clone();
        let mut turn = Box::pin(async move { commit_round(&shell).await });
        for _ in 0..100 {
            if let Some(turn) = block_on(futures_lite::future::poll_once(&mut turn)) {
                return turn;
            }
            self.work(1000);
        }
        panic!("a round neither ends nor finds work to wait for");
    }

    /// Does what there is to do behind the journal, at most `jobs` jobs; says how many it did.
    pub fn work(&self, jobs: usize) -> usize {
        for done in 0..jobs {
            let Some(job) = self.shard().with_mut(ShardState::take_job) else { return done };
            block_on(self.shell.run_job(job));
        }
        jobs
    }

    pub fn append_now(&self, at: TopicPartition, batch: &BatchBuilder) -> Offset {
        let mut reply = self.send(at, batch);
        while self.round() == Turn::Round {}
        let mut answers = reply.try_take().expect("answered").expect("kept");
        answers.pop().expect("one batch").expect("stored").base_offset
    }

    pub fn plan(&self, at: TopicPartition, offset: i64, max: u64) -> Result<ReadPlan, ReadError> {
        let offset = Offset::at(offset);
        let read = Read { at, offset, bytes_max: max, current: None, last_fetched: None };
        let limits = ReadLimits { bytes_max: max, isolation: Isolation::ReadUncommitted };
        block_on(read_task::read(self.shard(), &self.shell.disk, &[read], limits)).remove(0)
    }

    /// The bytes of a plan, as a door would send them.
    pub fn bytes(plan: &ReadPlan) -> Vec<u8> {
        let mut out = Vec::new();
        for chunk in &plan.chunks {
            match chunk {
                Chunk::Memory(bytes) => out.extend_from_slice(bytes),
                Chunk::File { file, position, len } => {
                    let mut bytes = vec![0; usize::try_from(*len).expect("small")];
                    let got = file.file().read_at(&mut bytes, *position).expect("readable");
                    assert_eq!(got, bytes.len(), "a promised range is there");
                    out.extend_from_slice(&bytes);
                }
            }
        }
        out
    }
}

/// A batch of `count` values of `len` bytes that begin with `mark`.
pub fn batch(mark: u32, count: usize, len: usize) -> BatchBuilder {
    let mut value = mark.to_be_bytes().to_vec();
    value.resize(len.max(4), b'v');
    BatchBuilder::of_values(vec![value; count])
}
