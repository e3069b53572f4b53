//! A file that only takes space, for the day on which the disk is full: giving it up makes room for
//! the small writes that give space back.
//!
//! Blocking: for start and the helper pool.

use std::path::Path;

use crate::disk::{Disk, DiskError, DiskErrorKind, DiskFile, DiskOp, OpenHow, parent_of};

/// Makes the reserve at `path` unless it is there. On a disk with less than twice as much room
/// nothing is done.
///
/// # Errors
/// [`DiskError`]; of the kind [`DiskErrorKind::Full`] when there is no room for it.
pub fn keep<D: Disk>(disk: &D, path: &Path, bytes: u64) -> Result<(), DiskError> {
    let file = match disk.open(path, OpenHow::READ) {
        Ok(file) => Some(file),
        Err(error) if error.is_not_found() => None,
        Err(error) => return Err(error),
    };
    if let Some(file) = file
        && file.len()? >= bytes
    {
        return Ok(());
    }
    if disk.free_bytes(&parent_of(path))? < 2 * bytes {
        return Err(DiskError::new(DiskErrorKind::Full, DiskOp::Allocate, path));
    }
    disk.open(path, OpenHow::CREATE)?.allocate(bytes)
}

/// Gives the reserve up. True when there was one: whatever found no space may be tried again.
pub fn give_up<D: Disk>(disk: &D, path: &Path) -> bool {
    let gave = disk.remove_file(path).is_ok();
    // Some file systems give space back only when the change of names is durable. When this fails
    // the next write does too, and says so.
    gave && disk.sync_dir(&parent_of(path)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk_sim::SimDisk;
    use crate::units::FilePosition;

    const BYTES: u64 = 64 * 1024;

    #[test]
    fn reserve_makes_room_once_and_is_made_again_when_there_is_space() {
        let (disk, path) = (SimDisk::new(), Path::new("/reserve"));
        keep(&disk, path, BYTES).unwrap();
        keep(&disk, path, BYTES).unwrap();
        disk.set_capacity(Some(BYTES));
        let write = || {
            let file = disk.open(Path::new("/small"), OpenHow::CREATE)?;
            file.write_at(&[1; 4096], FilePosition::ZERO)
        };
        assert_eq!(write().unwrap_err().kind, DiskErrorKind::Full);
        assert!(give_up(&disk, path));
        write().unwrap();
        assert!(!give_up(&disk, path), "it is there once");
        assert_eq!(keep(&disk, path, BYTES).unwrap_err().kind, DiskErrorKind::Full);
        assert!(!give_up(&disk, path), "a reserve that does not fit is not begun");
        disk.set_capacity(None);
        keep(&disk, path, BYTES).unwrap();
        assert!(give_up(&disk, path));
    }
}
