//! The tasks behind the journal: several workers a core, each with one job at a time.

use millstream_io::disk::CoreDisk;

use crate::disk_shell::DiskShell;

/// Does the shard's jobs until the future is dropped.
pub async fn work<D: CoreDisk>(shell: DiskShell<D>) {
    let event = shell.shard.events().work.clone();
    loop {
        let seen = event.seen();
        match shell.shard.with_mut(|shard| shard.take_job()) {
            Some(job) => shell.run_job(job).await,
            None => {
                shell.close_gone().await;
                event.since(seen).await;
            }
        }
    }
}
