//! Transactional clients at work: batches, retries, batches that come too late, and markers.

use millstream_io::batch::{CheckedBatch, Origin};
use millstream_io::disk_sim::SimRng;
use millstream_io::runtime::{Reply, oneshot};
use millstream_io::units::{ProducerEpoch, ProducerId, Sequence};
use millstream_shards::message::{
    Append, AppendError, Appended, Isolation, Marker, Outcome, TransactionQuery, TransactionState,
};
use millstream_shards::shard::ShardState;

use super::Life;
use super::producing::{Producer, is_open};
use crate::model::{Batch, BatchId, Model, Verdict};
use crate::plan::{NOW, partition_of};
use crate::transactions::{Client, Phase};

/// A batch or a marker of a transactional client on its way.
pub(super) struct InTransaction {
    reply: Reply<Vec<Result<Appended, AppendError>>>,
    client: usize,
    id: BatchId,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Batch,
    Retry,
    /// Of a producer that does not know that its transaction has ended.
    Late,
    Marker,
}

impl Life<'_> {
    /// One step of a transactional client, or of a reader of committed records.
    pub(super) fn act_in_transactions(&mut self, model: &mut Model, rng: &mut SimRng) -> Verdict {
        let failed_before = self.has_failed();
        match rng.below(100) {
            0..12 => {
                let client = rng.index(model.clients.len());
                if self.shard.with(ShardState::has_room) {
                    self.step_client(client, model, rng)?;
                }
            }
            12..16 if self.reading < 4 => {
                let partition = rng.index(self.plan.partitions);
                let from = model.log_start(partition);
                let left = (self.high_watermark(partition) - from).unsigned_abs();
                let offset = from + rng.below(left + 1) as i64;
                let isolation = Isolation::ReadCommitted;
                self.read(partition, offset, isolation, 1 + rng.below(30_000), model);
            }
            _ => {}
        }
        self.take_transactional(model, failed_before)
    }

    /// Ends every transaction, with nothing in the way: then no reader of committed records waits for
    /// anything.
    pub fn end_transactions(
        &mut self,
        model: &mut Model,
        producers: &mut [Producer],
        rng: &mut SimRng,
    ) -> Verdict {
        for client in 0..model.clients.len() {
            let Client { epoch, phase, .. } = model.clients[client];
            match phase {
                Phase::Idle => continue,
                Phase::Open { .. } => self.send_marker(client, Outcome::Abort, epoch + 1, model),
                Phase::Ending { outcome, epoch, .. } => {
                    self.send_marker(client, outcome, epoch, model);
                }
            }
            self.settle(model, producers, rng)?;
            let Client { pid, phase, .. } = model.clients[client];
            if phase != Phase::Idle {
                return Err(format!("the transaction of {pid} does not end: {phase:?}"));
            }
        }
        for partition in 0..self.plan.partitions {
            let (stable, end) = (self.last_stable(partition), self.high_watermark(partition));
            if stable != end {
                return Err(format!(
                    "p{partition}: every transaction has ended, and the LastStableOffset is @{stable} of @{end}"
                ));
            }
        }
        Ok(())
    }

    fn step_client(&mut self, client: usize, model: &mut Model, rng: &mut SimRng) -> Verdict {
        match model.clients[client].phase {
            Phase::Idle => self.send_in_transaction(client, Kind::Batch, model, rng),
            Phase::Open { waiting: 0, failed: true } => {
                let epoch = model.clients[client].epoch + 1;
                self.send_marker(client, Outcome::Abort, epoch, model);
                Ok(())
            }
            Phase::Open { failed: true, .. } => Ok(()),
            Phase::Open { waiting, .. } if waiting < 2 && rng.chance(60) => {
                let kind = if rng.chance(8) { Kind::Retry } else { Kind::Batch };
                self.send_in_transaction(client, kind, model, rng)
            }
            Phase::Open { waiting: 0, .. } => {
                let outcome = if rng.chance(50) { Outcome::Commit } else { Outcome::Abort };
                let bumps = model.clients[client].version >= 2
                    || (outcome == Outcome::Abort && rng.chance(30));
                let epoch = model.clients[client].epoch + i16::from(bumps);
                self.send_marker(client, outcome, epoch, model);
                Ok(())
            }
            Phase::Open { .. } => Ok(()),
            Phase::Ending { waiting: true, .. } if rng.chance(20) => {
                self.send_in_transaction(client, Kind::Late, model, rng)
            }
            Phase::Ending { waiting: true, .. } => Ok(()),
            Phase::Ending { outcome, epoch, .. } => {
                self.send_marker(client, outcome, epoch, model);
                Ok(())
            }
        }
    }

    /// Sends a batch as a door does: it asks the partition, and has the coordinator's word.
    fn send_in_transaction(
        &mut self,
        client: usize,
        kind: Kind,
        model: &mut Model,
        rng: &mut SimRng,
    ) -> Verdict {
        let is_last_of = |(_, batch): &(usize, &Batch)| {
            let Client { pid, epoch, .. } = model.clients[client];
            let builder = &batch.builder;
            (builder.producer_id, builder.producer_epoch) == (pid, epoch)
        };
        let last = model.batches.iter().enumerate().rev().find(is_last_of);
        let id = match (kind, last) {
            (Kind::Retry, Some((id, batch))) if batch.acked => id as BatchId,
            (Kind::Retry, _) => return Ok(()),
            _ => {
                let size = (client, 1 + rng.index(3), 1 + rng.index(self.plan.value_bytes_max));
                model.new_transactional(size)
            }
        };
        let Client { pid, partition, epoch, sequence, version, phase } = model.clients[client];
        let query = TransactionQuery {
            at: partition_of(partition),
            producer: ProducerId::new(pid).expect("not negative"),
            epoch: ProducerEpoch::new(epoch).expect("not negative"),
            first: Sequence::new(sequence),
            bumps_epoch: version >= 2,
        };
        let mut guard = None;
        if kind == Kind::Batch {
            let answer = self.shard.with_mut(|shard| shard.transactions(&[query]).remove(0));
            match answer.map_err(|error| error.to_string())? {
                TransactionState::Open => {}
                TransactionState::Unverified(_)
                    if phase == (Phase::Open { waiting: 0, failed: false })
                        && !model.producers_forgotten =>
                {
                    return Err(format!("the open transaction of {pid} is forgotten"));
                }
                TransactionState::Unverified(given) => guard = Some(given),
            }
            let records = model.batches[id as usize].records;
            let client = &mut model.clients[client];
            client.sequence = query.first.expect("not negative").add(records).get();
            client.phase = match client.phase {
                Phase::Open { waiting, failed } => Phase::Open { waiting: waiting + 1, failed },
                _ => Phase::Open { waiting: 1, failed: false },
            };
        }
        let append = Append {
            at: partition_of(partition),
            current: None,
            batch: CheckedBatch::parse(model.send(id), Origin::Client).expect("a good batch"),
            transaction: guard,
            now: NOW,
        };
        let (promise, reply) = oneshot();
        self.shard.with_mut(|shard| shard.append(vec![append], promise));
        self.in_transactions.push(InTransaction { reply, client, id, kind });
        Ok(())
    }

    fn send_marker(&mut self, client: usize, outcome: Outcome, epoch: i16, model: &mut Model) {
        let Client { partition, version, .. } = model.clients[client];
        let end = model.clients[client].marker(outcome, epoch);
        let (id, now) = model.new_marker(partition, &end);
        let marker = Marker {
            at: partition_of(partition),
            producer: end.producer,
            epoch: end.epoch,
            outcome,
            coordinator_epoch: end.coordinator_epoch,
            transaction_version: version,
            now,
        };
        model.clients[client].phase = Phase::Ending { outcome, epoch, waiting: true };
        let (promise, reply) = oneshot();
        self.shard.with_mut(|shard| shard.append_markers(vec![marker], promise));
        self.in_transactions.push(InTransaction { reply, client, id, kind: Kind::Marker });
    }

    pub(super) fn take_transactional(&mut self, model: &mut Model, failed_before: bool) -> Verdict {
        let mut i = 0;
        while i < self.in_transactions.len() {
            let Some(answer) = self.in_transactions[i].reply.try_take() else {
                i += 1;
                continue;
            };
            let InTransaction { client, id, kind, .. } = self.in_transactions.remove(i);
            let answer = answer.map_err(|_| "a promise was dropped".to_owned())?.remove(0);
            if answer.is_ok() && failed_before {
                return Err(format!("batch {id} is acknowledged after the directory failed"));
            }
            if let Ok(appended) = &answer {
                model.acked(id, appended.base_offset.get())?;
            }
            let phase = model.clients[client].phase;
            let fault = || Err(format!("{kind:?} {id} in {phase:?}: {answer:?}"));
            let well = answer.is_ok();
            match (&answer, kind) {
                (Ok(_), _) => {}
                (Err(error), _) if is_open(error) => {}
                (Err(AppendError::OutOfOrderSequence { .. }), Kind::Batch)
                    if matches!(phase, Phase::Open { waiting: 2.., .. })
                        || matches!(phase, Phase::Open { failed: true, .. }) => {}
                (Err(AppendError::InvalidTxnState { .. }), Kind::Batch)
                    if matches!(phase, Phase::Open { failed: true, .. }) => {}
                // A disk without room for their snapshot: the transaction begins in its middle now.
                (Err(AppendError::OutOfOrderSequence { .. }), Kind::Batch)
                    if model.producers_forgotten => {}
                (
                    Err(
                        AppendError::InvalidProducerEpoch { .. }
                        | AppendError::InvalidTxnState { .. }
                        | AppendError::OutOfOrderSequence { .. },
                    ),
                    Kind::Late,
                ) => {}
                // Behind more than five others, or behind its marker.
                (Err(_), Kind::Retry) => {}
                _ => return fault(),
            }
            let client = &mut model.clients[client];
            match kind {
                Kind::Batch => client.batch_answered(well),
                Kind::Marker => client.marker_answered(well),
                Kind::Retry | Kind::Late => {}
            }
        }
        Ok(())
    }
}
