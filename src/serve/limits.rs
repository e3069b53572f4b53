//! Bounds that the roof sets for what it starts.

use crate::session::limits::{DESCRIPTORS_KEPT_MIN, DESCRIPTORS_KEPT_SHARE};
use std::time::Duration;

/// A commit round that takes longer makes producers fail with a retriable error until it ends.
pub const WATCHDOG: Duration = Duration::from_secs(30);

/// How long a stop may take to write everything out. What is left is recovered at the next start.
pub const STOP_PATIENCE: Duration = Duration::from_secs(30);

/// How long a start waits for a port that is in use, and how often it looks.
pub const PORT_PATIENCE: Duration = Duration::from_secs(2);
/// See [`PORT_PATIENCE`].
pub const PORT_PAUSE: Duration = Duration::from_millis(20);

/// Descriptors that the process takes whatever it serves: standard streams, locks, the metadata
/// store, signals, the admin listener with a few connections (more wait when there are none left),
/// and for each core its rings, its bell and its journal files.
const DESCRIPTORS_FIXED: u64 = 24;
const DESCRIPTORS_PER_CORE: u64 = 20;

/// Segment files that a core may hold open at least, whatever the limit of the process.
const FILES_PER_CORE_MIN: u64 = 8;

/// Threads for what may block.
pub fn helper_threads(cores: usize) -> usize {
    (cores + 2).min(16)
}

/// Partitions that a start recovers at the same time. More than there are cores: after a crash each
/// waits for syncs, which the file system does together for all who wait.
pub fn recovery_threads(cores: usize) -> usize {
    cores.clamp(32, 128)
}

/// Threads that look into batches of topics with `batch.validation=deep`. Few: they use all of a CPU.
pub fn inspector_threads(cores: usize) -> usize {
    cores.div_ceil(2)
}

/// How many segment files each core may hold open to write past the page cache, and to read, when
/// the process may have so many descriptors.
pub fn files_per_core(descriptors: u64, cores: usize) -> (usize, usize) {
    let cores = u64::try_from(cores.max(1)).unwrap_or(u64::MAX);
    let kept = (descriptors / DESCRIPTORS_KEPT_SHARE).max(DESCRIPTORS_KEPT_MIN);
    let fixed = DESCRIPTORS_FIXED + DESCRIPTORS_PER_CORE * cores;
    let each = (kept.saturating_sub(fixed) / cores).max(FILES_PER_CORE_MIN);
    let count = |files: u64| usize::try_from(files).unwrap_or(usize::MAX);
    (count((each / 3).min(128)), count((each - each / 3).min(512)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_of_all_cores_fit_into_what_connections_leave() {
        for (descriptors, cores) in [(512, 1), (512, 2), (1024, 4), (20_000, 2), (65_536, 64)] {
            let (direct, read) = files_per_core(descriptors, cores);
            let kept = (descriptors / DESCRIPTORS_KEPT_SHARE).max(DESCRIPTORS_KEPT_MIN);
            let fixed = DESCRIPTORS_FIXED + DESCRIPTORS_PER_CORE * cores as u64;
            let files = ((direct + read) * cores) as u64;
            assert!(direct >= 2 && read >= 4, "{descriptors} {cores}");
            let is_tight = kept < fixed + FILES_PER_CORE_MIN * cores as u64;
            assert!(files + fixed <= kept || is_tight, "{descriptors} {cores}: {files} + {fixed}");
        }
    }
}
