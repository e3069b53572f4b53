//! Splitting a request by owner, and putting the answers together again.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use millstream_io::runtime::Reply;
use millstream_io::units::{ShardId, TopicPartition};

use crate::message::{AppendError, Appended, ReadError, ReadPlan};

use super::Router;

/// The parts of a request: shard, places of its items in the request, the items.
pub(super) struct Split<T> {
    pub parts: Vec<(ShardId, Vec<usize>, Vec<T>)>,
}

impl<T> Split<T> {
    /// Splits by owner; the order within a shard is that of the request.
    pub fn of(items: Vec<T>, router: &Router, at: impl Fn(&T) -> TopicPartition) -> Split<T> {
        let mut parts: Vec<(ShardId, Vec<usize>, Vec<T>)> = Vec::new();
        for (place, item) in items.into_iter().enumerate() {
            let shard = router.owner(at(&item));
            match parts.iter_mut().find(|part| part.0 == shard) {
                Some((_, places, part)) => {
                    places.push(place);
                    part.push(item);
                }
                None => parts.push((shard, vec![place], vec![item])),
            }
        }
        Split { parts }
    }
}

/// Puts the answers of one shard to their places.
pub(super) fn place<A>(answers: &mut [Option<A>], places: Vec<usize>, part: Vec<A>) {
    assert!(part.len() == places.len(), "{} answers to {} questions", part.len(), places.len());
    for (place, answer) in places.into_iter().zip(part) {
        answers[place] = Some(answer);
    }
}

/// The answers of all shards in the order of the request; `stopping` for those that give none.
pub(super) async fn gather<A>(
    count: usize,
    own: Option<(Vec<usize>, Vec<A>)>,
    replies: Vec<(Vec<usize>, Reply<Vec<A>>)>,
    stopping: impl Fn() -> A,
) -> Vec<A> {
    let mut answers: Vec<Option<A>> = (0..count).map(|_| None).collect();
    if let Some((places, part)) = own {
        place(&mut answers, places, part);
    }
    for (places, reply) in replies {
        let part = match reply.await {
            Ok(part) => part,
            Err(_) => places.iter().map(|_| stopping()).collect(),
        };
        place(&mut answers, places, part);
    }
    answers.into_iter().map(|answer| answer.unwrap_or_else(&stopping)).collect()
}

/// Each shard kept to the request's limit by itself: keeps to it over all of them, in the order of
/// the request. The first partition that has something keeps its first batch in any case.
pub(super) fn share_limit(
    mut plans: Vec<Result<ReadPlan, ReadError>>,
    bytes_max: &[u64],
    limit: u64,
) -> Vec<Result<ReadPlan, ReadError>> {
    let (mut left, mut first) = (limit, true);
    for (plan, bytes_max) in plans.iter_mut().zip(bytes_max) {
        let Ok(plan) = plan else { continue };
        let bytes = plan.bytes();
        if bytes == 0 {
            continue;
        }
        let fits = bytes <= left && bytes <= *bytes_max;
        if !fits && !first {
            plan.chunks.clear();
            plan.over_limit = false;
            if let Some(aborted) = &mut plan.aborted {
                aborted.clear();
            }
            continue;
        }
        first = false;
        left = left.saturating_sub(bytes);
    }
    plans
}

/// Resolves to one answer a batch, in input order, when all are durable or refused.
#[must_use = "the batches are durable only when the ticket has resolved"]
pub struct AppendTicket {
    answers: Vec<Option<Result<Appended, AppendError>>>,
    waiting: Vec<(Vec<usize>, Reply<AppendAnswers>)>,
}

/// The answers of one shard.
type AppendAnswers = Vec<Result<Appended, AppendError>>;

impl AppendTicket {
    pub(super) fn of(count: usize) -> AppendTicket {
        AppendTicket { answers: (0..count).map(|_| None).collect(), waiting: Vec::new() }
    }

    pub(super) fn wait_for(&mut self, places: Vec<usize>, reply: Reply<AppendAnswers>) {
        self.waiting.push((places, reply));
    }
}

impl Future for AppendTicket {
    type Output = Vec<Result<Appended, AppendError>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut i = 0;
        while i < this.waiting.len() {
            match Pin::new(&mut this.waiting[i].1).poll(cx) {
                Poll::Pending => i += 1,
                Poll::Ready(part) => {
                    let (places, _) = this.waiting.swap_remove(i);
                    let part = part.unwrap_or_else(|_| {
                        places.iter().map(|_| Err(AppendError::Stopping)).collect()
                    });
                    place(&mut this.answers, places, part);
                }
            }
        }
        if !this.waiting.is_empty() {
            return Poll::Pending;
        }
        let answers = std::mem::take(&mut this.answers);
        let stopping = |answer: Option<_>| answer.unwrap_or(Err(AppendError::Stopping));
        Poll::Ready(answers.into_iter().map(stopping).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Chunk;
    use bytes::Bytes;

    fn plan(bytes: usize) -> Result<ReadPlan, ReadError> {
        let chunks = match bytes {
            0 => Vec::new(),
            _ => vec![Chunk::Memory(Bytes::from(vec![0; bytes]))],
        };
        Ok(ReadPlan { chunks, ..ReadPlan::default() })
    }

    fn kept(sizes: &[usize], max: &[u64], limit: u64) -> Vec<u64> {
        let plans = sizes.iter().map(|bytes| plan(*bytes)).collect();
        let shared = share_limit(plans, max, limit);
        shared.iter().map(|plan| plan.as_ref().map_or(0, ReadPlan::bytes)).collect()
    }

    #[test]
    fn limit_holds_over_all_shards_and_the_first_batch_is_whole() {
        assert_eq!(kept(&[40, 40, 40], &[50; 3], 100), [40, 40, 0]);
        assert_eq!(kept(&[0, 400, 10], &[50; 3], 100), [0, 400, 0]);
        assert_eq!(kept(&[10, 400, 10], &[50; 3], 100), [10, 0, 10], "too large and not first");
        assert_eq!(kept(&[10, 60, 10], &[50; 3], 100), [10, 0, 10], "over its own limit");
    }
}
