//! Reads a whole partition behind a recovery, and has the judge say whether it may stand there so.

use millstream_io::disk_sim::SimRng;
use millstream_shards::message::{Isolation, ReadError, ReadPlan};

use super::Life;
use super::reading::bytes_of;
use crate::model::{Model, Verdict};
use crate::plan::partition_of;
use crate::transactions::Ledger;

impl Life<'_> {
    /// Reads everything and hands it to the judge.
    pub fn audit(&mut self, model: &mut Model, rng: &mut SimRng) -> Verdict {
        for partition in 0..self.plan.partitions {
            let start = self.find_log_start(partition, model, rng)?;
            let mut next = start;
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
            }
            model.recovered(partition, next)?;
            model.complete(partition, start)?;
            if self.plan.clients > 0 && !model.producers_forgotten {
                self.audit_transactions(partition, model, rng)?;
            }
        }
        Ok(())
    }

    /// Judges what readers of committed records were told in the last life, what they are told now,
    /// and which transactions the partition thinks are open.
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
            model.claims.add(partition, (next, to), &plan)?;
            if bytes.is_empty() {
                break;
            }
            next = to;
        }
        let ledger = Ledger::of(model, partition);
        model.claims.judge(&ledger, partition)?;
        let Some(truth) = ledger.at(self.high_watermark(partition)) else { return Ok(()) };
        let active = self.shard.with(|shard| shard.producers(&[partition_of(partition)]));
        let active = active.into_iter().next().expect("asked for one").expect("open");
        let open = active.iter().filter_map(|p| Some((p.id.get(), p.transaction_start?.get())));
        let open = open.collect();
        if truth.open != open {
            return Err(format!("p{partition}: open are {:?}, not {open:?}", truth.open));
        }
        Ok(())
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
