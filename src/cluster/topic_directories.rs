//! The directories of deleted topics: moved out of the way at once, removed in the background.

use super::controller::TopicDirectories;
use super::limits::REMOVALS_WAITING_MAX;
use millstream_io::data_dir::Layout;
use millstream_io::disk::{Disk, DiskError};
use millstream_io::runtime::log;
use millstream_io::units::TopicId;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

/// Moves directories of deleted topics to `__deleted/<topic id>` and hands them to the remover.
/// Lives on the controller's thread.
pub struct DiskTopicDirectories<D: Disk> {
    disk: D,
    layout: Layout,
    removals: flume::Sender<PathBuf>,
}

/// The thread that removes what was set aside. It ends when the directories are dropped, after the
/// removal at hand; what is left is removed at the next start.
pub struct Remover {
    thread: JoinHandle<()>,
}

impl Remover {
    /// Waits for the end of the removal at hand.
    pub fn join(self) {
        // A panic of the thread was reported when it happened.
        let _ = self.thread.join();
    }
}

impl<D: Disk> DiskTopicDirectories<D> {
    /// Starts the remover, which begins with what an earlier run left in `__deleted`.
    ///
    /// # Errors
    /// `__deleted` cannot be listed, or the system refuses a thread.
    pub fn start(disk: D, layout: Layout) -> std::io::Result<(DiskTopicDirectories<D>, Remover)> {
        let (removals, waiting) = flume::bounded(REMOVALS_WAITING_MAX);
        let left = match disk.list(&layout.deleted()) {
            Ok(left) => left,
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => return Err(std::io::Error::other(error.to_string())),
        };
        for entry in left {
            if removals.try_send(layout.deleted().join(entry.name)).is_err() {
                break; // More than may wait: the next start goes on.
            }
        }
        let remover = disk.clone();
        let thread = std::thread::Builder::new().name("remover".into());
        let thread = thread.spawn(move || remove_all(&remover, &waiting))?;
        Ok((DiskTopicDirectories { disk, layout, removals }, Remover { thread }))
    }

    fn move_away(&self, name: &str, to: &Path) -> Result<(), DiskError> {
        let deleted = self.layout.deleted();
        self.disk.create_dir_all(&deleted)?;
        if self.disk.kind(to)?.is_some() {
            self.disk.remove_dir_all(to)?;
        }
        self.disk.rename(&self.layout.topic(name), to)?;
        self.disk.sync_dir(&deleted)?;
        self.disk.sync_dir(&self.layout.topics())?;
        self.disk.sync_dir(self.layout.root())
    }
}

impl<D: Disk> TopicDirectories for DiskTopicDirectories<D> {
    fn set_aside(&mut self, name: &str, id: TopicId) -> Result<(), String> {
        let to = self.layout.deleted_topic(id);
        match self.disk.kind(&self.layout.topic(name)) {
            Ok(None) => return Ok(()), // It never had bytes, or was moved before a crash.
            Ok(Some(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
        self.move_away(name, &to).map_err(|error| error.to_string())?;
        // Full: the next start removes it.
        let _ = self.removals.try_send(to);
        Ok(())
    }
}

fn remove_all<D: Disk>(disk: &D, waiting: &flume::Receiver<PathBuf>) {
    while waiting.sender_count() > 0 {
        let Ok(path) = waiting.recv() else { return };
        match disk.remove_dir_all(&path) {
            Ok(()) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => log::warn("cluster", "files of a deleted topic are still there")
                .field("path", path.display())
                .field("reason", error)
                .field("then", "the next start tries again")
                .emit(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_io::disk_file::FileDisk;

    #[test]
    fn deleted_directory_is_out_of_the_way_at_once_and_gone_soon() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let id = TopicId::from_bytes([9; 16]);
        let left_over = layout.deleted_topic(TopicId::from_bytes([8; 16]));
        std::fs::create_dir_all(left_over.join("0")).unwrap();
        std::fs::create_dir_all(layout.topic("a").join("0")).unwrap();
        std::fs::write(layout.topic("a").join("0/x.log"), b"bytes").unwrap();
        let (mut directories, remover) =
            DiskTopicDirectories::start(FileDisk, layout.clone()).unwrap();
        directories.set_aside("a", id).unwrap();
        assert!(!layout.topic("a").exists());
        directories.set_aside("a", id).unwrap();
        drop(directories);
        remover.join();
        // The remover stops at once when nobody is left to give it work: a later start goes on.
        let (directories, remover) = DiskTopicDirectories::start(FileDisk, layout.clone()).unwrap();
        while !directories.removals.is_empty() {
            std::thread::yield_now();
        }
        drop(directories);
        remover.join();
        assert!(!layout.deleted_topic(id).exists() && !left_over.exists());
    }
}
