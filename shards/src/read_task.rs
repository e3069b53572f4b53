//! Reads of one shard for one request: from memory at once, from files through the helper pool.

use millstream_io::disk::{CoreDisk, DiskErrorKind};

use crate::cold::{self, ColdError};
use crate::message::{Read, ReadError, ReadLimits, ReadPlan};
use crate::read::Room;
use crate::shard::{ColdLook, Shard};

/// Plans reads in order, within limits that they share.
///
/// A request whose partitions are all in memory never leaves the core; each look into a file takes
/// one job on the pool, one after the other, so that the limits hold over all.
pub async fn read<D: CoreDisk>(
    shard: &Shard,
    disk: &D,
    reads: &[Read],
    limits: ReadLimits,
) -> Vec<Result<ReadPlan, ReadError>> {
    let mut room = Room { bytes_left: limits.bytes_max, whole_first: true };
    let mut plans = Vec::with_capacity(reads.len());
    for read in reads {
        let plan = loop {
            let look = match shard.with_mut(|shard| shard.plan_read(read, &limits, room)) {
                Ok(Ok(plan)) => break Ok(plan),
                Ok(Err(look)) => look,
                Err(error) => break Err(error),
            };
            // Nothing means that compaction was quicker: each time for a reason of its own.
            if let Some(plan) = look_up(shard, disk, *look).await {
                break plan;
            }
        };
        if let Ok(plan) = &plan {
            let bytes = plan.bytes();
            room.bytes_left = room.bytes_left.saturating_sub(bytes);
            room.whole_first &= bytes == 0;
        }
        plans.push(plan);
    }
    plans
}

/// Looks into a file; `None` when it was compacted away before it could be opened.
async fn look_up<D: CoreDisk>(
    shard: &Shard,
    disk: &D,
    look: ColdLook,
) -> Option<Result<ReadPlan, ReadError>> {
    let (blocking, source, ask) = (disk.blocking(), look.source.clone(), look.ask.clone());
    let answer = match disk.run(move || cold::look(&blocking, &source, &ask)).await {
        Ok(answer) => answer,
        Err(error) => Err(ColdError::Disk(error)),
    };
    shard.with_mut(|shard| {
        if let Err(ColdError::Disk(error)) = &answer
            && error.kind == DiskErrorKind::TooManyFiles
        {
            shard.close_read_files();
        }
        if matches!(&answer, Err(ColdError::Disk(error)) if error.is_not_found())
            && shard.has_moved(&look)
        {
            return None;
        }
        Some(shard.finish_read(look, answer))
    })
}
