//! Deletions of one shard for one request: asked for at once, answered when they are durable.

use std::time::Duration;

use millstream_io::runtime::{oneshot, timeout};
use millstream_io::units::Offset;

use crate::deletion::{DeleteError, Deletion};
use crate::shard::Shard;

/// The log starts after the deletions, in order. Those of one request wait for the disk together;
/// what is not done when `patience` is over is done later, and nobody is told.
pub async fn delete_before(
    shard: &Shard,
    deletions: &[Deletion],
    patience: Option<Duration>,
) -> Vec<Result<Offset, DeleteError>> {
    let ask = |deletion| {
        let (promise, reply) = oneshot();
        shard.with_mut(|shard| shard.delete_before(deletion, promise));
        (None, reply)
    };
    let mut asked: Vec<_> = deletions.iter().map(ask).collect();
    let wait = async {
        for (answer, reply) in &mut asked {
            *answer = Some(reply.await.unwrap_or(Err(DeleteError::Stopping)));
        }
    };
    match patience {
        // Those behind the one that was waited for may have an answer all the same.
        Some(patience) => drop(timeout(patience, wait).await),
        None => wait.await,
    }
    let late = |reply: &mut millstream_io::runtime::Reply<_>| match reply.try_take() {
        Some(answer) => answer.unwrap_or(Err(DeleteError::Stopping)),
        None => Err(DeleteError::TimedOut),
    };
    asked
        .into_iter()
        .map(|(answer, mut reply)| answer.unwrap_or_else(|| late(&mut reply)))
        .collect()
}
