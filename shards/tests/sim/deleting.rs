//! Deletion of records by request and by age, and the space that comes back.

use std::path::PathBuf;

use millstream_io::data_dir::Layout;
use millstream_io::disk_sim::SimRng;
use millstream_io::runtime::{Reply, oneshot};
use millstream_io::segment::Listing;
use millstream_io::units::{Offset, SegmentId};
use millstream_shards::deletion::{DeleteBefore, DeleteError, Deletion};

use super::Life;
use crate::model::{Model, Verdict};
use crate::plan::{NOW, ROOT, opens, partition_of};

/// A deletion on its way.
pub(super) struct Deleting {
    reply: Reply<Result<Offset, DeleteError>>,
    partition: usize,
    /// The log start asked for, and the one that was sure before.
    to: i64,
    before: i64,
    in_range: bool,
}

impl Life<'_> {
    /// Asks for the deletion of some records, of all, or of more than there are.
    pub(super) fn delete_somewhere(&mut self, model: &mut Model, rng: &mut SimRng) {
        let partition = rng.index(self.plan.partitions);
        let (before, end) = (model.log_start(partition), self.high_watermark(partition));
        let left = (end - before).unsigned_abs();
        let (to, order) = match rng.below(10) {
            0 | 1 => (end, DeleteBefore::HighWatermark),
            2 => (end + 1, DeleteBefore::Offset(Offset::at(end + 1))),
            3 => (before / 2, DeleteBefore::Offset(Offset::at(before / 2))),
            n => {
                let share = if n < 6 { left } else { left / 4 };
                let to = before + rng.below(share + 1) as i64;
                (to, DeleteBefore::Offset(Offset::at(to)))
            }
        };
        let in_range = to <= end;
        if in_range {
            model.asks_deletion(partition, to);
        }
        let (promise, reply) = oneshot();
        let deletion = Deletion { at: partition_of(partition), before: order };
        self.shard.with_mut(|shard| shard.delete_before(&deletion, promise));
        self.deleting.push(Deleting { reply, partition, to, before, in_range });
    }

    /// Looks for what is too old, at some time between the first batch and behind the last.
    pub(super) fn retain(&mut self, model: &mut Model, rng: &mut SimRng) {
        for partition in 0..self.plan.partitions {
            model.asks_deletion(partition, self.high_watermark(partition));
        }
        let now = NOW.plus(rng.below(model.batch_count() * 2) as i64);
        let mut from = Some(0);
        while let Some(place) = from {
            from = self.shard.with_mut(|shard| shard.retain_piece(place, now)).next;
        }
    }

    pub(super) fn take_deletions(&mut self, model: &mut Model, failed_before: bool) -> Verdict {
        let mut i = 0;
        while i < self.deleting.len() {
            let Some(answer) = self.deleting[i].reply.try_take() else {
                i += 1;
                continue;
            };
            let Deleting { partition, to, before, in_range, .. } = self.deleting.remove(i);
            match answer.map_err(|_| "the promise of a deletion was dropped".to_owned())? {
                Ok(_) if failed_before => {
                    return Err(format!("p{partition}: deleted after the directory failed"));
                }
                Ok(start) if !in_range || start.get() < to => {
                    return Err(format!("p{partition}: deleted to @{start}, asked for @{to}"));
                }
                Ok(start) => model.saw_log_start(partition, start.get(), before)?,
                Err(DeleteError::OutOfRange { .. }) if !in_range => {}
                Err(DeleteError::NoRoom { .. } | DeleteError::Stopping) => {}
                Err(DeleteError::Storage { .. })
                    if !self.disk.is_powered() || self.has_failed() => {}
                Err(error) => return Err(format!("p{partition}: deletion to @{to}: {error}")),
            }
        }
        Ok(())
    }

    /// No file is left that lies wholly below its log start, the last of a partition apart.
    pub(super) fn check_space(&self, model: &Model) -> Verdict {
        for partition in 0..self.plan.partitions {
            let open = &opens(self.plan, 0)[partition];
            let dir = Layout::new(PathBuf::from(ROOT));
            let dir = dir.partition(&open.topic_name, open.at.partition);
            let listing = Listing::read(&self.disk, &dir).map_err(|error| error.to_string())?;
            let start = model.log_start(partition);
            // What a pass could not remove when it was broken off, the next start does.
            let broken_off = self.metrics().cleaning.broken_off > 0;
            let counts = |id: &SegmentId| !(broken_off && id.cleaned.is_some());
            let mut segments = listing.segments.iter().filter(|id| counts(id));
            let kept = segments.nth(1).is_some_and(|next| next.base.get() <= start);
            let mut orphans = listing.orphans();
            orphans.retain(|(id, _)| counts(id));
            if kept || !orphans.is_empty() {
                let names = (&listing.segments, orphans);
                return Err(format!("p{partition}: left below the log start @{start}: {names:?}"));
            }
        }
        Ok(())
    }
}
