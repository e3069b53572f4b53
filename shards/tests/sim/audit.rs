//! Reads a whole partition behind a recovery, and has the judge say whether it may stand there so.

use millstream_io::disk_sim::SimRng;
use millstream_shards::message::{Isolation, ReadError, ReadPlan};
use millstream_shards::query::ActiveProducer;

use super::Life;
use super::reading::bytes_of;
use crate::model::{Model, Verdict};
use crate::plan::partition_of;
use crate::remembered::{Remembered, Standing};
use crate::transactions::Ledger;

impl Life<'_> {
    /// Reads everything and hands it to the judge.
    pub fn audit(&mut self, model: &mut Model, rng: &mut SimRng) -> Verdict {
        for partition in 0..self.plan.partitions {
            let start = self.find_log_start(partition, model, rng)?;
            let (mut next, mut standing) = (start, Standing::default());
            loop {
                let all = Isolation::ReadUncommitted;
                let plan = self.read_now(partition, next, all, model, rng)?;
                let plan = plan.map_err(|e| format!("p{partition} @{next}: {e}"))?;
                let bytes = bytes_of(&plan);
                if bytes.is_empty() {
                    if next != plan.high_watermark.get() {
                        return Err(format!("p{partition}: nothing to read at @{next}"));
                    }
                    break;
                }
                let sure = model.sure(partition);
                next = model.saw(partition, next, &bytes, sure)?;
                standing.add(&bytes);
            }
            model.recovered(partition, next)?;
            if model.producers_forgotten {
                // What belongs to which transaction is anybody's guess.
                continue;
            }
            let truth = Ledger::of(model, partition).at(next);
            model.complete(partition, start, truth.as_ref())?;
            if let Some(remembered) = Remembered::of(model, partition, next) {
                remembered.judge(partition, &self.producers_of(partition))?;
                remembered.judge_standing(partition, start, &standing)?;
            }
            if self.plan.clients > 0 {
                self.audit_transactions(partition, model, rng)?;
            }
        }
        Ok(())
    }

    /// Judges what readers of committed records were told in the last life, and what they are told now.
    fn audit_transactions(
        &mut self,
        partition: usize,
        model: &mut Model,
        rng: &mut SimRng,
    ) -> Verdict {
        let mut next = model.log_start(partition);
        loop {
            let plan = self.read_now(partition, next, Isolation::ReadCommitted, model, rng)?;
            let plan = plan.map_err(|e| format!("p{partition} @{next}: {e}"))?;
            let bytes = bytes_of(&plan);
            let sure = model.sure(partition);
            let to = model.saw(partition, next, &bytes, sure)?;
            model.claims.add(partition, (next, to), &plan, &bytes)?;
            if bytes.is_empty() {
                break;
            }
            next = to;
        }
        let ledger = Ledger::of(model, partition);
        model.claims.judge(&ledger, partition, self.plan.compacted)
    }

    fn producers_of(&self, partition: usize) -> Vec<ActiveProducer> {
        let told = self.shard.with(|shard| shard.producers(&[partition_of(partition)]));
        told.into_iter().next().expect("asked for one").expect("open")
    }

    /// Asks for the first record and learns where the log starts; what was asked for before and did
    /// not come to pass is known by now.
    fn find_log_start(
        &mut self,
        partition: usize,
        model: &mut Model,
        rng: &mut SimRng,
    ) -> Result<i64, String> {
        let before = model.log_start(partition);
        let all = Isolation::ReadUncommitted;
        let start = match self.read_now(partition, 0, all, model, rng)? {
            Ok(plan) => plan.log_start,
            Err(ReadError::OffsetOutOfRange { log_start, .. }) => log_start,
            Err(error) => return Err(format!("p{partition} @0: {error}")),
        };
        model.saw_log_start(partition, start.get(), before)?;
        model.settle_log_start(partition);
        Ok(start.get())
    }

    fn read_now(
        &mut self,
        partition: usize,
        offset: i64,
        isolation: Isolation,
        model: &Model,
        rng: &mut SimRng,
    ) -> Result<Result<ReadPlan, ReadError>, String> {
        self.read(partition, offset, isolation, 1 << 20, model);
        self.drain(rng)?;
        self.reading -= 1;
        let (.., result) = self.reads.borrow_mut().pop().expect("the read has ended");
        Ok(result)
    }
}
