//! Whether a data directory may be written to.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use millstream_io::disk::DiskError;

use crate::message::AppendError;

/// The state of one data directory, shared by all cores: the first final failure is latched, and
/// nothing is acknowledged there any more until the broker is started again.
#[derive(Clone, Debug)]
pub struct DirectoryHealth(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: Arc<PathBuf>,
    failed: OnceLock<DiskError>,
    rounds: Apart<AtomicU64>,
}

/// On a cache line of its own: those who look at what lies beside it do not wait for it.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Apart<T>(T);

impl DirectoryHealth {
    pub fn new(path: PathBuf) -> DirectoryHealth {
        let (path, failed, rounds) = (Arc::new(path), OnceLock::new(), Apart::default());
        DirectoryHealth(Arc::new(Inner { path, failed, rounds }))
    }

    /// A commit round has ended, on whatever core.
    pub fn note_round(&self) {
        self.0.rounds.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Commit rounds so far, of all cores: whether somebody writes just now.
    pub fn rounds(&self) -> u64 {
        self.0.rounds.0.load(Ordering::Relaxed)
    }

    /// The failure, once there was one. One atomic load.
    #[inline]
    pub fn failure(&self) -> Option<&DiskError> {
        self.0.failed.get()
    }

    /// Latches a failed write or sync; the first one stays. True for the first.
    pub fn fail(&self, error: DiskError) -> bool {
        self.0.failed.set(error).is_ok()
    }

    pub fn path(&self) -> &Arc<PathBuf> {
        &self.0.path
    }
}

/// One shard's view of its directory. Lives on the owner's core.
#[derive(Debug)]
pub struct Health {
    pub directory: DirectoryHealth,
    /// A write found no space. Appends are refused until one has succeeded again.
    pub full: bool,
    /// The round in flight is older than the watchdog allows.
    pub stalled_ms: Option<u64>,
    /// Appends are over: the shard stops.
    pub stopping: bool,
}

impl Health {
    pub fn new(directory: DirectoryHealth) -> Health {
        Health { directory, full: false, stalled_ms: None, stopping: false }
    }

    /// Why no append is taken now, if so.
    #[inline]
    pub fn refusal(&self) -> Option<AppendError> {
        if self.directory.failure().is_none()
            && !self.full
            && self.stalled_ms.is_none()
            && !self.stopping
        {
            return None;
        }
        Some(self.reason())
    }

    /// The gravest of what is wrong.
    ///
    /// # Panics
    /// When nothing is.
    pub fn reason(&self) -> AppendError {
        let directory = self.directory.path().clone();
        if let Some(failure) = self.directory.failure() {
            return AppendError::Storage { directory, cause: failure.kind };
        }
        if let Some(since_ms) = self.stalled_ms {
            return AppendError::Stalled { since_ms };
        }
        if self.full {
            return AppendError::DiskFull { directory };
        }
        assert!(self.stopping, "nothing is wrong with {}", directory.display());
        AppendError::Stopping
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_io::disk::{DiskErrorKind, DiskOp};
    use std::path::Path;

    fn error(kind: DiskErrorKind) -> DiskError {
        DiskError::new(kind, DiskOp::Sync, Path::new("/d/x"))
    }

    #[test]
    fn first_failure_is_latched_for_all_cores() {
        let directory = DirectoryHealth::new(PathBuf::from("/d"));
        let other_core = Health::new(directory.clone());
        assert_eq!(other_core.refusal(), None);
        assert!(directory.fail(error(DiskErrorKind::Io(5))));
        assert!(!directory.fail(error(DiskErrorKind::ReadOnly)));
        let cause = DiskErrorKind::Io(5);
        let directory = directory.path().clone();
        assert_eq!(other_core.refusal(), Some(AppendError::Storage { directory, cause }));
    }

    #[test]
    fn full_disk_is_not_latched() {
        let mut health = Health::new(DirectoryHealth::new(PathBuf::from("/d")));
        health.full = true;
        assert!(matches!(health.refusal(), Some(AppendError::DiskFull { .. })));
        health.full = false;
        assert_eq!(health.refusal(), None);
        health.stopping = true;
        assert_eq!(health.refusal(), Some(AppendError::Stopping));
    }
}
