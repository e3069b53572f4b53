//! The directories of deleted topics: moved out of the way at once, removed in the background.

use super::controller::TopicDirectories;
use millstream_io::data_dir::Layout;
use millstream_io::disk::{Disk, DiskError};
use millstream_io::units::TopicId;
use millstream_shards::remover::Removals;
use std::path::Path;
use std::time::Duration;

/// Moves directories of deleted topics to `__deleted/<topic id>` and hands them to the remover.
/// Lives on the controller's thread.
pub struct DiskTopicDirectories<D: Disk> {
    disk: D,
    layout: Layout,
    removals: Removals,
}

impl<D: Disk> DiskTopicDirectories<D> {
    /// Hands what an earlier run left in `__deleted` to the remover, files of segments too.
    ///
    /// # Errors
    /// `__deleted` cannot be listed.
    pub fn start(disk: D, layout: Layout, removals: Removals) -> Result<Self, DiskError> {
        let left = match disk.list(&layout.deleted()) {
            Ok(left) => left,
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => return Err(error),
        };
        for entry in left {
            if removals.give(layout.deleted().join(entry.name), Duration::ZERO).is_err() {
                break; // More than may wait: the next start goes on.
            }
        }
        Ok(DiskTopicDirectories { disk, layout, removals })
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
    fn set_aside(&mut self, name: &str, id: TopicId, delay: Duration) -> Result<(), String> {
        let to = self.layout.deleted_topic(id);
        match self.disk.kind(&self.layout.topic(name)) {
            Ok(None) => return Ok(()), // It never had bytes, or was moved before a crash.
            Ok(Some(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
        self.move_away(name, &to).map_err(|error| error.to_string())?;
        // Full: the next start removes it.
        let _ = self.removals.give(to, delay);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_io::disk_file::FileDisk;
    use millstream_io::removal::RemovalPace;

    #[test]
    fn deleted_directory_is_out_of_the_way_at_once_and_gone_soon() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::new(root.path());
        let id = TopicId::from_bytes([9; 16]);
        let left_over = layout.deleted_topic(TopicId::from_bytes([8; 16]));
        std::fs::create_dir_all(left_over.join("0")).unwrap();
        std::fs::create_dir_all(layout.topic("a").join("0")).unwrap();
        std::fs::write(layout.topic("a").join("0/x.log"), b"bytes").unwrap();
        let (removals, remover) = Removals::start(FileDisk, RemovalPace::USUAL).unwrap();
        let mut directories =
            DiskTopicDirectories::start(FileDisk, layout.clone(), removals).unwrap();
        directories.set_aside("a", id, Duration::ZERO).unwrap();
        assert!(!layout.topic("a").exists());
        directories.set_aside("a", id, Duration::ZERO).unwrap();
        while layout.deleted_topic(id).exists() || left_over.exists() {
            std::thread::yield_now();
        }
        remover.stop();
    }
}
