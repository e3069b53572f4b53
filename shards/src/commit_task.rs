//! The task that commits: one round after the other, as long as something is staged.

use millstream_io::disk::CoreDisk;

use crate::disk_shell::DiskShell;
use crate::shard::{DirectJob, Placed};

/// What one turn of the commit loop found to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A round has ended, well or badly.
    Round,
    /// No round is due, or none can begin now: wait for [`crate::shard::ShardEvents::commit`].
    Idle,
}

/// Commits until the future is dropped.
pub async fn commit<D: CoreDisk>(shell: DiskShell<D>) {
    let event = shell.shard.events().commit.clone();
    loop {
        let seen = event.seen();
        if commit_round(&shell).await == Turn::Idle {
            event.since(seen).await;
        }
    }
}

/// One round: large runs to their segments, then one frame with the small ones, then the answers.
pub async fn commit_round<D: CoreDisk>(shell: &DiskShell<D>) -> Turn {
    let Some(jobs) = shell.shard.with_mut(|shard| shard.begin_round()) else { return Turn::Idle };
    let mut direct = Vec::new();
    if !jobs.is_empty() {
        let outcomes = shell.write_directs(jobs).await;
        direct = shell.shard.with_mut(|shard| shard.directs_written(outcomes));
    }
    loop {
        let event = shell.shard.events().commit.clone();
        let seen = event.seen();
        if shell.shard.with(|shard| shard.health.directory.failure().is_some()) {
            shell.shard.with_mut(|shard| shard.abandon_round(&direct));
            return Turn::Idle;
        }
        match shell.shard.with_mut(|shard| shard.place_frame(&direct)) {
            Placed::Frame(plan) => {
                let result = shell.write_frame(&plan).await;
                shell.shard.with_mut(|shard| shard.finish_frame(&plan, &direct, result));
                return Turn::Round;
            }
            Placed::Nothing => return empty_round(shell, &direct),
            Placed::Wait | Placed::Full if shell.shard.with(|shard| shard.health.full) => {
                shell.shard.with_mut(|shard| shard.refuse_round(&direct));
                return Turn::Idle;
            }
            Placed::Wait | Placed::Full => {
                // A file is being made ready, or partitions are being synced so that one gets free.
                shell.shard.events().work.signal();
                event.since(seen).await;
            }
        }
    }
}

/// A round whose partitions all fell out, or can do nothing before a write has ended.
fn empty_round<D: CoreDisk>(shell: &DiskShell<D>, direct: &[DirectJob]) -> Turn {
    shell.shard.with_mut(|shard| shard.finish_empty(direct));
    Turn::Idle
}
