//! Readers at any offset, and what they are told.

use millstream_io::disk_sim::SimRng;
use millstream_io::units::Offset;
use millstream_shards::message::{Chunk, Isolation, Read, ReadError, ReadLimits, ReadPlan};
use millstream_shards::read_task;

use super::Life;
use crate::model::{Model, Sure, Verdict};
use crate::plan::partition_of;

/// A read that has ended: partition, offset, isolation, what was sure when it began.
pub(super) type ReadResult = (usize, i64, Isolation, Sure, Result<ReadPlan, ReadError>);

impl Life<'_> {
    pub(super) fn read_somewhere(&mut self, model: &Model, rng: &mut SimRng) {
        if self.reading > 3 {
            return;
        }
        let partition = rng.index(self.plan.partitions);
        let from = if rng.chance(80) { model.log_start(partition) } else { 0 };
        let left = self.high_watermark(partition) - from;
        let offset = match self.stopped.get(&partition) {
            Some(stopped) if rng.chance(60) => *stopped,
            _ => from + rng.below(left.unsigned_abs() + 1) as i64,
        };
        self.read(partition, offset, Isolation::ReadUncommitted, 1 + rng.below(30_000), model);
    }

    pub(super) fn high_watermark(&self, partition: usize) -> i64 {
        self.readable(partition, Isolation::ReadUncommitted)
    }

    pub(super) fn last_stable(&self, partition: usize) -> i64 {
        self.readable(partition, Isolation::ReadCommitted)
    }

    /// Up to where a reader of this kind gets records.
    fn readable(&self, partition: usize, isolation: Isolation) -> i64 {
        let end = self.shard.with(|shard| {
            let slot = shard.partitions.slot_of(partition_of(partition)).expect("open");
            shard.partitions.get(slot).expect("open").readable(isolation).0
        });
        end.get()
    }

    pub(super) fn read(
        &mut self,
        partition: usize,
        offset: i64,
        isolation: Isolation,
        bytes_max: u64,
        model: &Model,
    ) {
        let sure = model.sure(partition);
        let at = partition_of(partition);
        let start = Offset::at(offset);
        let read = Read { at, offset: start, bytes_max, current: None, last_fetched: None };
        let limits = ReadLimits { bytes_max, isolation };
        let (shard, disk, results) = (self.shard.clone(), self.disk.clone(), self.reads.clone());
        self.reading += 1;
        self.executor.spawn(async move {
            let result = read_task::read(&shard, &disk, &[read], limits).await.remove(0);
            results.borrow_mut().push((partition, offset, isolation, sure, result));
        });
    }

    pub(super) fn take_reads(&mut self, model: &mut Model) -> Verdict {
        for (partition, offset, isolation, sure, result) in self.reads.take() {
            self.reading -= 1;
            match result {
                Ok(plan) => {
                    if offset < sure.log_start {
                        let start = sure.log_start;
                        return Err(format!("p{partition}: @{offset} is served below @{start}"));
                    }
                    model.saw_log_start(partition, plan.log_start.get(), sure.log_start)?;
                    // The power may have gone since: what was promised is gone with it.
                    if self.disk.is_powered() {
                        let bytes = bytes_of(&plan);
                        let to = model.saw(partition, offset, &bytes, sure)?;
                        if self.plan.compacted {
                            self.stopped.insert(partition, to);
                        }
                        if isolation == Isolation::ReadCommitted && !model.producers_forgotten {
                            model.claims.add(partition, (offset, to), &plan, &bytes)?;
                        }
                    }
                }
                Err(ReadError::OffsetOutOfRange { log_start, .. }) if offset < log_start.get() => {
                    model.saw_log_start(partition, log_start.get(), sure.log_start)?;
                    self.reads_refused += 1;
                }
                Err(ReadError::Storage { .. }) if !self.disk.is_powered() || self.has_failed() => {}
                Err(error) => return Err(format!("read of p{partition} @{offset}: {error}")),
            }
        }
        Ok(())
    }
}

pub(super) fn bytes_of(plan: &ReadPlan) -> Vec<u8> {
    let mut out = Vec::new();
    for chunk in &plan.chunks {
        match chunk {
            Chunk::Memory(bytes) => out.extend_from_slice(bytes),
            Chunk::File { file, position, len } => {
                let mut bytes = vec![0; usize::try_from(*len).expect("small")];
                let got = file.file().read_at(&mut bytes, *position).unwrap_or(0);
                bytes.truncate(got);
                out.extend_from_slice(&bytes);
            }
        }
    }
    out
}
