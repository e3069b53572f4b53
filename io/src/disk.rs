//! The seam to storage: [`Disk`] for threads that may block, [`CoreDisk`] for a pinned core.
//!
//! Both speak of the same files. The real ones are `disk_file::FileDisk` and
//! `disk_uring::UringDisk`; `disk_sim::SimDisk` is a fake of the same shape that implements both
//! and can lose, tear and refuse.

mod error;

use std::future::Future;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

pub use error::{DiskError, DiskErrorKind, DiskOp};

use crate::gather::Gather;
use crate::units::{FilePosition, TimestampMs};

/// How to open a file. Start from one of the three constructors and add.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenHow {
    /// Open for writing too.
    pub write: bool,
    /// Create the file when it is missing.
    pub create: bool,
    /// With `create`: refuse a file that exists ([`DiskErrorKind::Exists`]).
    pub exclusive: bool,
    /// Pass the page cache by (O_DIRECT): positions, lengths and memory must be whole blocks.
    pub direct: bool,
    /// Each write is durable when it returns (O_DSYNC).
    pub durable: bool,
}

impl OpenHow {
    /// An existing file, to read.
    pub const READ: OpenHow =
        OpenHow { write: false, create: false, exclusive: false, direct: false, durable: false };
    /// An existing file, to read and write.
    pub const WRITE: OpenHow = OpenHow { write: true, ..OpenHow::READ };
    /// A file to read and write, created when missing, content kept when not.
    pub const CREATE: OpenHow = OpenHow { create: true, ..OpenHow::WRITE };
    /// A new file to read and write; one of that name is an error.
    pub const CREATE_NEW: OpenHow = OpenHow { exclusive: true, ..OpenHow::CREATE };

    pub const fn direct(self) -> OpenHow {
        OpenHow { direct: true, ..self }
    }

    pub const fn durable(self) -> OpenHow {
        OpenHow { durable: true, ..self }
    }
}

/// What a directory entry is. Anything that is neither is not ours and is left alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    File,
    Directory,
    Other,
}

/// One entry of a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Name within the directory. Names that are not UTF-8 are not ours and are not listed.
    pub name: String,
    pub kind: EntryKind,
}

/// A disk for threads that may block: start and recovery, the helper pool, tools, the simulator.
///
/// Never used on a pinned core. Nothing here is durable before the matching sync: bytes by
/// [`DiskFile::sync_data`], names (created, renamed, removed) by [`Disk::sync_dir`] on the
/// directory that holds them.
pub trait Disk: Clone + Send + Sync + 'static {
    type File: DiskFile;

    /// Opens a file.
    fn open(&self, path: &Path, how: OpenHow) -> Result<Self::File, DiskError>;

    /// Entries of a directory, sorted by name.
    fn list(&self, dir: &Path) -> Result<Vec<Entry>, DiskError>;

    /// What stands at `path`; `None` when nothing does.
    fn kind(&self, path: &Path) -> Result<Option<EntryKind>, DiskError>;

    /// Creates a directory and its missing parents. An existing directory is no error.
    fn create_dir_all(&self, dir: &Path) -> Result<(), DiskError>;

    /// Renames a file or a directory; a file at `to` is replaced in one step.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError>;

    fn remove_file(&self, path: &Path) -> Result<(), DiskError>;

    /// Removes a directory with all that is in it.
    fn remove_dir_all(&self, dir: &Path) -> Result<(), DiskError>;

    /// Makes the names in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> Result<(), DiskError>;

    /// Makes everything on the file system that holds `path` durable.
    fn sync_fs(&self, path: &Path) -> Result<(), DiskError>;

    /// Bytes an unprivileged writer could still write to the file system that holds `path`.
    fn free_bytes(&self, path: &Path) -> Result<u64, DiskError>;

    /// Reads a whole small file.
    ///
    /// # Errors
    /// [`DiskErrorKind::TooLarge`] when it is longer than `limit`; memory is never reserved beyond
    /// the real length.
    fn read_all(&self, path: &Path, limit: usize) -> Result<Vec<u8>, DiskError> {
        let file = self.open(path, OpenHow::READ)?;
        let len = file.len()?;
        let fits = usize::try_from(len).ok().filter(|len| *len <= limit);
        let Some(len) = fits else {
            return Err(DiskError::new(DiskErrorKind::TooLarge, DiskOp::Read, path));
        };
        let mut bytes = vec![0; len];
        let got = file.read_at(&mut bytes, FilePosition::ZERO)?;
        bytes.truncate(got);
        Ok(bytes)
    }
}

/// An open file of a [`Disk`]. Closed when dropped.
pub trait DiskFile: Send + Sync + 'static {
    /// Fills `buf` from `at` on and says how many bytes there were: fewer only at the end of file.
    fn read_at(&self, buf: &mut [u8], at: FilePosition) -> Result<usize, DiskError>;

    /// Writes all of `buf` at `at`, growing the file as needed.
    fn write_at(&self, buf: &[u8], at: FilePosition) -> Result<(), DiskError>;

    /// Makes the bytes written so far, and a length they need, durable (fdatasync).
    ///
    /// # Errors
    /// A failed sync is final: what was written may be gone, and a second sync that succeeds proves
    /// nothing. Callers latch.
    fn sync_data(&self) -> Result<(), DiskError>;

    /// Has the system read what is asked for and no more. By itself it reads on, up to megabytes as the
    /// device is set, and whoever syncs something meanwhile waits for that.
    fn read_only_what_is_asked(&self) {}

    /// Has the system begin to read `[at, at + len)`, and does not wait for it. Advice.
    fn begin_read(&self, _at: FilePosition, _len: u64) {}

    /// Has the system begin to write `[at, at + len)` to the device, and does not wait for it: so that
    /// a later [`DiskFile::sync_data`] finds little left to do. Advice: nothing is durable by it.
    fn begin_write_back(&self, _at: FilePosition, _len: u64) {}

    /// Cuts the file to `len`, or grows it with zeros.
    fn set_len(&self, len: u64) -> Result<(), DiskError>;

    /// Reserves space for `[0, len)`; the file grows to `len`, and new bytes read as zeros.
    fn allocate(&self, len: u64) -> Result<(), DiskError>;

    /// Where the part begins that was never written: a hole, or space that is only reserved. The
    /// length when there is none, or when the file system cannot tell.
    fn blank_from(&self) -> Result<FilePosition, DiskError>;

    /// Length in bytes, asked of the open file, not of its name.
    fn len(&self) -> Result<u64, DiskError>;

    /// When it was last written to, where that is known.
    fn modified(&self) -> Option<TimestampMs> {
        None
    }

    fn is_empty(&self) -> Result<bool, DiskError> {
        Ok(self.len()? == 0)
    }

    /// Whether the same file is open a second time, by whomever; `None` when that cannot be told. Only
    /// for a file that is open for writing.
    fn is_shared(&self) -> Option<bool>;

    /// Takes the exclusive lock of this file (flock), held until the file is dropped.
    ///
    /// # Errors
    /// [`DiskErrorKind::Locked`] when another open file holds it.
    fn lock(&self) -> Result<(), DiskError>;

    /// The name it was opened by, for messages.
    fn path(&self) -> &Path;

    /// The kernel's handle, for `sendfile` and residency; `None` when the file is not a kernel's.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// How a core opens a file for direct writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectHow {
    /// Create the file when it is missing (its name is not durable before [`Disk::sync_dir`]).
    pub create: bool,
    /// Each write is durable when it completes (O_DSYNC).
    pub durable: bool,
}

/// The disk as one pinned core sees it: direct writes that do not block, and a way to the helper
/// pool for all that would.
///
/// Lives on its core and is not `Send`. A future dropped before it is done may or may not have
/// taken effect.
pub trait CoreDisk: Clone + 'static {
    /// An open file; the last clone or [`CoreDisk::close`] closes it.
    type File: Clone + 'static;
    /// Memory fit for a direct write: block aligned, a whole number of blocks long. Its content is
    /// undefined at first: whoever fills it zeroes the padding.
    type Buf: AsRef<[u8]> + AsMut<[u8]> + 'static;
    /// The same disk for helper threads.
    type Blocking: Disk;

    /// A buffer of exactly `len` bytes.
    ///
    /// # Panics
    /// When `len` is zero or not a whole number of blocks.
    fn alloc(&self, len: usize) -> Self::Buf;

    /// Opens a file for direct writes.
    fn open_direct(
        &self,
        path: &Path,
        how: DirectHow,
    ) -> impl Future<Output = Result<Self::File, DiskError>>;

    /// Writes all of `buf` at `at`, which must be a block boundary.
    fn write_at(
        &self,
        file: &Self::File,
        buf: Self::Buf,
        at: FilePosition,
    ) -> impl Future<Output = Result<(), DiskError>>;

    /// Writes all of `gather` at `at`, which must be a block boundary. A disk that cannot write from
    /// several places copies it.
    fn write_gathered(
        &self,
        file: &Self::File,
        gather: Gather,
        at: FilePosition,
    ) -> impl Future<Output = Result<(), DiskError>> {
        write_copied(self, file, gather, at)
    }

    /// Makes what was written to `file` durable (fdatasync). A failure is final, as for
    /// [`DiskFile::sync_data`].
    fn sync(&self, file: &Self::File) -> impl Future<Output = Result<(), DiskError>>;

    /// Closes a file once its last clone is given back.
    fn close(&self, file: Self::File) -> impl Future<Output = Result<(), DiskError>>;

    /// Runs a blocking job on the helper pool, off the core.
    ///
    /// # Errors
    /// [`DiskErrorKind::Stopped`] when the pool is closing or the job panicked.
    fn run<T, J>(&self, job: J) -> impl Future<Output = Result<T, DiskError>>
    where
        T: Send + 'static,
        J: FnOnce() -> T + Send + 'static;

    /// The same disk, with helper threads of its own: for a time in which very many files are synced,
    /// which the file system does together for all who ask at the same time. The same one where the
    /// system has no thread to give, or the disk needs none.
    fn widened(&self, threads: usize) -> Self;

    /// The same disk, whose jobs have a thread of their own that gives way to everything else: for
    /// long work that nobody waits for. It may stand still for as long as the machine is busy, so
    /// it must not write: others would wait for what it holds. The same one where the system has no
    /// thread to give, or the disk needs none.
    fn background(&self) -> Self;

    /// The disk to use inside a job given to [`CoreDisk::run`].
    fn blocking(&self) -> Self::Blocking;
}

/// [`CoreDisk::write_gathered`] by way of one buffer.
pub(crate) async fn write_copied<D: CoreDisk>(
    disk: &D,
    file: &D::File,
    gather: Gather,
    at: FilePosition,
) -> Result<(), DiskError> {
    let mut buf = disk.alloc(gather.len());
    gather.copy_to(buf.as_mut());
    drop(gather);
    disk.write_at(file, buf, at).await
}

/// The directory that holds `path`, for [`Disk::sync_dir`] after a change of names.
pub fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// Creates `dir` and its missing parents below `top`, and makes their names durable. `top` must
/// exist already and be durable.
///
/// # Errors
/// [`DiskError`].
///
/// # Panics
/// When `dir` does not lie below `top`.
pub fn create_dir_durable<D: Disk>(disk: &D, top: &Path, dir: &Path) -> Result<(), DiskError> {
    assert!(dir.starts_with(top), "{} is not below {}", dir.display(), top.display());
    disk.create_dir_all(dir)?;
    let holders = dir.ancestors().skip(1).take_while(|holder| holder.starts_with(top));
    for holder in holders {
        disk.sync_dir(holder)?;
    }
    Ok(())
}
