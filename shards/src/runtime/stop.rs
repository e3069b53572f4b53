//! The ordered stop of one shard: no append more, everything committed, everything written, sealed
//! and saved, the journal empty.

use std::time::Duration;

use millstream_io::disk::CoreDisk;
use millstream_io::journal::JournalState;
use millstream_io::runtime::{Gate, Queue, Task, spawn, timeout};

use crate::disk_shell::DiskShell;
use crate::housekeeping_task;
use crate::limits::{STOP_WORKERS, WORKERS};
use crate::shard::ShardState;

use super::{ShardEnd, until};

/// Stops a shard whose doors are shut. Commit and work tasks still run, and are cancelled by the
/// caller afterwards.
pub(super) async fn stop<D: CoreDisk>(
    shell: &DiskShell<D>,
    gate: &Gate,
    serving: Vec<Task<()>>,
    (patience, cores): (Duration, usize),
) -> ShardEnd {
    let shard = &shell.shard;
    shard.with_mut(ShardState::begin_stop);
    let drained = gate.close_and_drain(patience).await;
    for task in serving {
        task.cancel().await;
    }
    let result = match drained {
        Ok(()) => match timeout(patience, settle(shell, cores)).await {
            Ok(result) => result,
            Err(_) => Err(format!("it was not done within {} s", patience.as_secs())),
        },
        Err(still) => Err(still.to_string()),
    };
    let metrics = shard.with(|shard| shard.metrics);
    ShardEnd { clean: result.is_ok(), reason: result.err(), metrics }
}

/// Further workers for a stop with very many partitions to be written, sealed and saved. Each of these
/// steps is a few syncs of small files, and the file system makes those durable together for which
/// somebody waits at the same time: what the usual workers do in a minute takes a few seconds so.
fn crew<D: CoreDisk>(shell: &DiskShell<D>, cores: usize) -> Vec<Task<()>> {
    let waiting = shell.shard.with(ShardState::partitions_waiting);
    let size = waiting.min(STOP_WORKERS / cores.max(1));
    if size <= WORKERS {
        return Vec::new();
    }
    let wide = shell.widened(size);
    (0..size).map(|_| spawn(Queue::Background, housekeeping_task::work(wide.clone()))).collect()
}

async fn settle<D: CoreDisk>(shell: &DiskShell<D>, cores: usize) -> Result<(), String> {
    let shard = &shell.shard;
    let events = shard.events().clone();
    until(shard, &events.room, |shard| shard.has_failed() || shard.is_committed()).await;
    if !shard.with(ShardState::has_failed) {
        shard.with_mut(ShardState::close_all);
        let crew = crew(shell, cores);
        until(shard, &events.work, |shard| shard.has_failed() || shard.is_at_rest()).await;
        for task in crew {
            task.cancel().await;
        }
    }
    if let Some(failure) = shard.with(|shard| shard.health.directory.failure().cloned()) {
        return Err(failure.to_string());
    }
    if !shard.with(|shard| shard.ring.is_clean()) {
        return Err("the journal still holds what is in no segment".to_owned());
    }
    let state = JournalState::from(shard.with(|shard| shard.ring.clean_state()));
    let dir = shard.with(|shard| shard.layout.journal(shard.id));
    let disk = shell.disk.blocking();
    let wrote = shell.disk.run(move || state.write(&disk, &dir)).await;
    wrote.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}
