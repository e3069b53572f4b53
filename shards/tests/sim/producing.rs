//! Idempotent and plain producers: what they send, and what they make of the answers.

use std::collections::VecDeque;

use millstream_io::batch::{CheckedBatch, Origin};
use millstream_io::disk_sim::SimRng;
use millstream_io::runtime::{Reply, oneshot};
use millstream_shards::message::{Append, AppendError, Appended};
use millstream_shards::shard::ShardState;

use super::Life;
use crate::model::{BatchId, Model, Verdict};
use crate::plan::{NOW, partition_of};

/// An idempotent producer of one partition.
#[derive(Debug)]
pub struct Producer {
    pid: i64,
    partition: usize,
    next_sequence: i32,
    /// In order, from the first that is not acknowledged: connections answer in order, so a client
    /// has no more than five batches beyond that.
    window: VecDeque<Sent>,
    /// Something went wrong: what is in the window is sent again, one after the other.
    retry: bool,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    id: BatchId,
    state: SentState,
    /// It was refused as out of order while the answer to this earlier one was still to come: that
    /// answer must then be a refusal too.
    behind: Option<BatchId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SentState {
    Waiting,
    Failed,
    Acked,
}

/// A request on its way.
pub(super) struct Outstanding {
    reply: Reply<Vec<Result<Appended, AppendError>>>,
    batches: Vec<(BatchId, Option<usize>)>,
}

impl Producer {
    pub fn new(pid: i64, partition: usize) -> Producer {
        Producer { pid, partition, next_sequence: 0, window: VecDeque::new(), retry: false }
    }

    /// The broker was started again: nobody will answer, so everything is sent again.
    pub fn reconnect(&mut self) {
        for sent in &mut self.window {
            if sent.state == SentState::Waiting {
                sent.state = SentState::Failed;
            }
            sent.behind = None;
        }
        self.retry = !self.window.is_empty();
    }

    fn forget_acked(&mut self) {
        while self.window.front().is_some_and(|sent| sent.state == SentState::Acked) {
            self.window.pop_front();
        }
        self.retry &= self.window.iter().any(|sent| sent.state == SentState::Failed);
    }
}

impl Life<'_> {
    pub(super) fn send(&mut self, model: &mut Model, producers: &mut [Producer], rng: &mut SimRng) {
        if !self.shard.with(ShardState::has_room) {
            return;
        }
        let mut batches: Vec<(BatchId, usize, Option<usize>)> = Vec::new();
        for _ in 0..1 + rng.index(3) {
            let used: Vec<usize> = batches.iter().map(|(_, partition, _)| *partition).collect();
            batches.extend(self.choose(model, producers, &used, rng));
        }
        if batches.is_empty() {
            return;
        }
        let append = |(id, partition, _): &(BatchId, usize, Option<usize>)| Append {
            at: partition_of(*partition),
            current: None,
            batch: CheckedBatch::parse(model.send(*id), Origin::Client).expect("a good batch"),
            transaction: None,
            now: NOW,
        };
        let appends = batches.iter().map(append).collect();
        let (promise, reply) = oneshot();
        for (id, _, producer) in &batches {
            if let Some(window) = producer.map(|p| &mut producers[p].window) {
                let sent =
                    window.iter_mut().find(|sent| sent.id == *id).expect("chosen from there");
                (sent.state, sent.behind) = (SentState::Waiting, None);
            }
        }
        let batches = batches.into_iter().map(|(id, _, producer)| (id, producer)).collect();
        self.shard.with_mut(|shard| shard.append(appends, promise));
        self.outstanding.push(Outstanding { reply, batches });
    }

    /// The next batch of some client: id, partition, producer.
    fn choose(
        &self,
        model: &mut Model,
        producers: &mut [Producer],
        used: &[usize],
        rng: &mut SimRng,
    ) -> Option<(BatchId, usize, Option<usize>)> {
        let records = 1 + rng.index(4);
        let value_bytes = match rng.below(12) {
            0 => self.plan.value_bytes_max * 8,
            n if n < 5 => 1 + rng.index(40),
            _ => 1 + rng.index(self.plan.value_bytes_max),
        };
        if rng.chance(25) {
            let partition = rng.index(self.plan.partitions);
            if used.contains(&partition) {
                return None;
            }
            return Some((model.new_batch(partition, records, value_bytes, None), partition, None));
        }
        let p = rng.index(producers.len());
        let producer = &mut producers[p];
        let partition = producer.partition;
        if used.contains(&partition) {
            return None;
        }
        if producer.retry {
            // One after the other, and only when every answer is in.
            let is = |state| move |sent: &&Sent| sent.state == state;
            let mut waiting = producer.window.iter().filter(is(SentState::Waiting));
            let mut failed = producer.window.iter().filter(is(SentState::Failed));
            let next = failed.next().filter(|_| waiting.next().is_none());
            return next.map(|sent| (sent.id, partition, Some(p)));
        }
        if rng.chance(5) {
            // A duplicate of something that was acknowledged, or is on its way.
            let sent = producer.window.back()?;
            return Some((sent.id, partition, Some(p)));
        }
        if producer.window.len() >= 5 {
            return None;
        }
        let named = Some((producer.pid, producer.next_sequence));
        let id = model.new_batch(partition, records, value_bytes, named);
        producer.next_sequence += records as i32;
        producer.window.push_back(Sent { id, state: SentState::Waiting, behind: None });
        Some((id, partition, Some(p)))
    }

    pub(super) fn take_answers(
        &mut self,
        model: &mut Model,
        producers: &mut [Producer],
        failed_before: bool,
    ) -> Verdict {
        let mut i = 0;
        while i < self.outstanding.len() {
            let Some(answer) = self.outstanding[i].reply.try_take() else {
                i += 1;
                continue;
            };
            let Outstanding { batches, .. } = self.outstanding.remove(i);
            let answers = answer.map_err(|_| "a promise was dropped".to_owned())?;
            for ((id, producer), answer) in batches.into_iter().zip(answers) {
                if answer.is_ok() && failed_before {
                    return Err(format!("batch {id} is acknowledged after the directory failed"));
                }
                let producer = producer.map(|p| &mut producers[p]);
                take_answer(model, producer, id, answer)?;
            }
        }
        Ok(())
    }
}

fn take_answer(
    model: &mut Model,
    producer: Option<&mut Producer>,
    id: BatchId,
    answer: Result<Appended, AppendError>,
) -> Verdict {
    if let Ok(appended) = &answer {
        model.acked(id, appended.base_offset.get())?;
    }
    let Some(producer) = producer else {
        return match answer {
            Ok(_) => Ok(()),
            Err(error) if is_open(&error) => Ok(()),
            Err(error) => Err(format!("plain batch {id}: {error}")),
        };
    };
    let Some(i) = producer.window.iter().position(|sent| sent.id == id) else {
        // The second answer to a batch that was sent twice.
        return Ok(());
    };
    let Err(error) = answer else {
        if let Some(sent) = producer.window.iter().find(|sent| sent.behind == Some(id)) {
            return Err(format!("batch {} was out of order behind {id}, which is stored", sent.id));
        }
        producer.window[i].state = SentState::Acked;
        producer.forget_acked();
        return Ok(());
    };
    if producer.window[i].state == SentState::Acked {
        // The other copy was stored, and this one was refused for what happened since.
        return if is_open(&error) { Ok(()) } else { Err(format!("batch {id}: {error}")) };
    }
    let open_before = |sent: &&Sent| sent.state != SentState::Acked;
    let before = producer.window.range(..i).rev().find(open_before).copied();
    producer.window[i].state = SentState::Failed;
    producer.retry = true;
    for sent in producer.window.iter_mut().filter(|sent| sent.behind == Some(id)) {
        sent.behind = None;
    }
    match (error, before) {
        (AppendError::OutOfOrderSequence { .. }, Some(before)) => {
            let waits = before.state == SentState::Waiting;
            producer.window[i].behind = waits.then_some(before.id);
            Ok(())
        }
        (error, _) if is_open(&error) => Ok(()),
        // It is stored, and the broker knows no more than what came behind it.
        (AppendError::OutOfOrderSequence { .. }, _) if model.producers_forgotten => Ok(()),
        (error, _) => {
            let (pid, state) = (producer.pid, model.batches[id as usize].state);
            Err(format!("batch {id} of producer {pid}: {error}; it is {state:?}"))
        }
    }
}

/// True for an error that leaves open whether the batch is stored.
pub(super) fn is_open(error: &AppendError) -> bool {
    matches!(
        error,
        AppendError::Storage { .. }
            | AppendError::DiskFull { .. }
            | AppendError::Stalled { .. }
            | AppendError::Stopping
    )
}
