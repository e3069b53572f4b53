//! The real disk for threads that may block: the standard library, and the few calls it lacks.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::{io, mem};

use crate::aligned::AlignedBuf;
use crate::disk::{Disk, DiskError, DiskErrorKind, DiskFile, DiskOp, Entry, EntryKind, OpenHow};
use crate::last_written::modified;
use crate::limits::{BLOCK_BYTES, BLOCK_BYTES_U64, READ_AHEAD_PIECE_BYTES, READ_PIECE_BYTES};
use crate::units::{FilePosition, TimestampMs, bytes_u64};

/// The machine's file systems. Holds nothing; every clone is the same.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileDisk;

/// An open file of the machine.
#[derive(Debug)]
pub struct RealFile {
    file: File,
    path: PathBuf,
    direct: bool,
}

impl FileDisk {
    /// Finds out by trying whether the file system under `dir` takes direct writes (O_DIRECT).
    ///
    /// # Errors
    /// [`DiskErrorKind::Unsupported`] when it does not; any other error as it came.
    pub fn probe_direct(&self, dir: &Path) -> Result<(), DiskError> {
        let path = dir.join(".direct-probe");
        let outcome = self.open(&path, OpenHow::CREATE.direct()).and_then(|file| {
            file.write_at(AlignedBuf::zeroed(BLOCK_BYTES).as_ref(), FilePosition::ZERO)
        });
        match self.remove_file(&path) {
            Err(error) if !error.is_not_found() => outcome.and(Err(error)),
            _ => outcome,
        }
    }
}

impl Disk for FileDisk {
    type File = RealFile;

    fn open(&self, path: &Path, how: OpenHow) -> Result<RealFile, DiskError> {
        let mut flags = libc::O_CLOEXEC;
        if how.direct {
            flags |= libc::O_DIRECT;
        }
        if how.durable {
            flags |= libc::O_DSYNC;
        }
        let opened = OpenOptions::new()
            .read(true)
            .write(how.write)
            .create(how.create && !how.exclusive)
            .create_new(how.create && how.exclusive)
            .custom_flags(flags)
            .open(path);
        let file = opened.map_err(|e| DiskError::from_io(&e, DiskOp::Open, path))?;
        Ok(RealFile { file, path: path.to_path_buf(), direct: how.direct })
    }

    fn list(&self, dir: &Path) -> Result<Vec<Entry>, DiskError> {
        let failed = |e: io::Error| DiskError::from_io(&e, DiskOp::List, dir);
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let kind = kind_of(entry.file_type().map_err(failed)?);
            entries.push(Entry { name, kind });
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn kind(&self, path: &Path) -> Result<Option<EntryKind>, DiskError> {
        match fs::symlink_metadata(path) {
            Ok(meta) => Ok(Some(kind_of(meta.file_type()))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(DiskError::from_io(&e, DiskOp::Len, path)),
        }
    }

    fn create_dir_all(&self, dir: &Path) -> Result<(), DiskError> {
        fs::create_dir_all(dir).map_err(|e| DiskError::from_io(&e, DiskOp::CreateDir, dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        fs::rename(from, to).map_err(|e| DiskError::from_io(&e, DiskOp::Rename, from))
    }

    fn remove_file(&self, path: &Path) -> Result<(), DiskError> {
        fs::remove_file(path).map_err(|e| DiskError::from_io(&e, DiskOp::Remove, path))
    }

    fn remove_dir_all(&self, dir: &Path) -> Result<(), DiskError> {
        fs::remove_dir_all(dir).map_err(|e| DiskError::from_io(&e, DiskOp::Remove, dir))
    }

    fn sync_dir(&self, dir: &Path) -> Result<(), DiskError> {
        let synced = File::open(dir).and_then(|dir| dir.sync_all());
        synced.map_err(|e| DiskError::from_io(&e, DiskOp::SyncDir, dir))
    }

    fn sync_fs(&self, path: &Path) -> Result<(), DiskError> {
        let synced = File::open(path).and_then(|file| sync_fs(file.as_raw_fd()));
        synced.map_err(|e| DiskError::from_io(&e, DiskOp::SyncFs, path))
    }

    fn free_bytes(&self, path: &Path) -> Result<u64, DiskError> {
        free_bytes(path).map_err(|e| DiskError::from_io(&e, DiskOp::FreeBytes, path))
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, buf: &mut [u8], at: FilePosition) -> Result<usize, DiskError> {
        self.check_direct(buf, at);
        let mut done = 0;
        while done < buf.len() {
            let piece = self.piece(buf.len() - done);
            match self.file.read_at(&mut buf[done..done + piece], at.add_len(done).get()) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.error(&e, DiskOp::Read)),
            }
            // A direct read that ends within a block has met the end of the file.
            if self.direct && !done.is_multiple_of(BLOCK_BYTES) {
                break;
            }
        }
        Ok(done)
    }

    fn write_at(&self, buf: &[u8], at: FilePosition) -> Result<(), DiskError> {
        self.write_slices_at(&[buf], at)
    }

    fn sync_data(&self) -> Result<(), DiskError> {
        self.file.sync_data().map_err(|e| self.error(&e, DiskOp::Sync))
    }

    fn read_only_what_is_asked(&self) {
        self.advise(FilePosition::ZERO, 0, libc::POSIX_FADV_RANDOM);
    }

    fn begin_read(&self, at: FilePosition, len: u64) {
        let mut done = 0;
        while done < len {
            let piece = (len - done).min(READ_AHEAD_PIECE_BYTES);
            self.advise(at.add(done), piece, libc::POSIX_FADV_WILLNEED);
            done += piece;
        }
    }

    fn begin_write_back(&self, at: FilePosition, len: u64) {
        let (Ok(at), Ok(len)) = (i64::try_from(at.get()), i64::try_from(len)) else { return };
        let fd = self.file.as_raw_fd();
        // SAFETY: sync_file_range takes four integers and touches no memory of ours.
        #[expect(unsafe_code, reason = "the standard library has no sync_file_range")]
        unsafe {
            libc::sync_file_range(fd, at, len, libc::SYNC_FILE_RANGE_WRITE)
        };
    }

    fn set_len(&self, len: u64) -> Result<(), DiskError> {
        self.file.set_len(len).map_err(|e| self.error(&e, DiskOp::SetLen))
    }

    fn allocate(&self, len: u64) -> Result<(), DiskError> {
        allocate(self.file.as_raw_fd(), len).map_err(|e| self.error(&e, DiskOp::Allocate))
    }

    fn blank_from(&self) -> Result<FilePosition, DiskError> {
        let len = self.len()?;
        Ok(FilePosition::new(first_hole(self.file.as_raw_fd()).unwrap_or(len).min(len)))
    }

    fn len(&self) -> Result<u64, DiskError> {
        let meta = self.file.metadata().map_err(|e| self.error(&e, DiskOp::Len))?;
        Ok(meta.len())
    }

    fn modified(&self) -> Option<TimestampMs> {
        modified(&self.file.metadata().ok()?)
    }

    fn is_shared(&self) -> Option<bool> {
        is_shared(self.file.as_raw_fd())
    }

    fn lock(&self) -> Result<(), DiskError> {
        match self.file.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => {
                Err(DiskError::new(DiskErrorKind::Locked, DiskOp::Lock, &self.path))
            }
            Err(TryLockError::Error(e)) => Err(self.error(&e, DiskOp::Lock)),
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}

impl AsFd for RealFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl RealFile {
    /// Writes all of `slices` at `at`, one behind the other. Of a direct write that the system cuts
    /// short, as on a disk that is just getting full, the rest is written again from a block boundary;
    /// then the cause shows as an error. (pwritev(2))
    ///
    /// # Errors
    /// [`DiskErrorKind::Full`], or any other of a write.
    ///
    /// # Panics
    /// When the file was opened for direct writes and one of them is not in blocks.
    pub fn write_slices_at(&self, slices: &[&[u8]], at: FilePosition) -> Result<(), DiskError> {
        let mut len = 0;
        for slice in slices {
            self.check_direct(slice, at.add_len(len));
            len += slice.len();
        }
        let mut done = 0;
        while done < len {
            let written = match write_some(self.file.as_raw_fd(), slices, done, at) {
                Ok(written) => written,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(self.error(&e, DiskOp::Write)),
            };
            let is_whole = done + written == len;
            let kept = if self.direct && !is_whole {
                written / BLOCK_BYTES * BLOCK_BYTES
            } else {
                written
            };
            if kept == 0 {
                return Err(DiskError::new(DiskErrorKind::Full, DiskOp::Write, &self.path));
            }
            done += kept;
        }
        Ok(())
    }

    fn advise(&self, at: FilePosition, len: u64, what: libc::c_int) {
        let (Ok(at), Ok(len)) = (i64::try_from(at.get()), i64::try_from(len)) else { return };
        let fd = self.file.as_raw_fd();
        // SAFETY: posix_fadvise takes four integers and touches no memory of ours.
        #[expect(unsafe_code, reason = "the standard library has no posix_fadvise")]
        unsafe {
            libc::posix_fadvise(fd, at, len, what)
        };
    }

    /// The descriptor, for `sendfile` and residency questions; valid while this file lives.
    pub fn raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// How much of `len` bytes one call reads: of a file in the page cache a little at a time.
    fn piece(&self, len: usize) -> usize {
        if self.direct { len } else { len.min(READ_PIECE_BYTES) }
    }

    fn error(&self, error: &io::Error, op: DiskOp) -> DiskError {
        DiskError::from_io(error, op, &self.path)
    }

    #[track_caller]
    fn check_direct(&self, buf: &[u8], at: FilePosition) {
        if self.direct {
            let aligned = buf.as_ptr().addr().is_multiple_of(BLOCK_BYTES)
                && buf.len().is_multiple_of(BLOCK_BYTES)
                && at.get().is_multiple_of(BLOCK_BYTES_U64);
            assert!(aligned, "direct transfer of {} bytes at {at} is not in blocks", buf.len());
        }
    }
}

/// One write of what is behind byte `done` of `slices`, whose first byte is to stand at `at`.
fn write_some(fd: RawFd, slices: &[&[u8]], done: usize, at: FilePosition) -> io::Result<usize> {
    let position = libc::off_t::try_from(at.add_len(done).get())
        .map_err(|_| io::Error::from_raw_os_error(libc::EFBIG))?;
    let mut skip = done;
    let mut vector = Vec::with_capacity(slices.len().min(VECTOR_MAX));
    for slice in slices {
        let left = slice.get(skip..).unwrap_or_default();
        skip -= slice.len() - left.len();
        if !left.is_empty() && vector.len() < VECTOR_MAX {
            vector.push(libc::iovec {
                iov_base: left.as_ptr().cast_mut().cast(),
                iov_len: left.len(),
            });
        }
    }
    let count = vector.len() as libc::c_int;
    // SAFETY: each of the `count` entries describes a slice that is borrowed over the call, and the
    // kernel only reads them.
    #[expect(unsafe_code, reason = "the standard library has no pwritev")]
    let written = unsafe { libc::pwritev(fd, vector.as_ptr(), count, position) };
    usize::try_from(written).map_err(|_| io::Error::last_os_error())
}

/// Parts of one write, at most (IOV_MAX). What is more follows with the next.
const VECTOR_MAX: usize = 1024;

fn kind_of(kind: fs::FileType) -> EntryKind {
    if kind.is_file() {
        EntryKind::File
    } else if kind.is_dir() {
        EntryKind::Directory
    } else {
        EntryKind::Other
    }
}

fn allocate(fd: RawFd, len: u64) -> io::Result<()> {
    let Ok(len) = libc::off_t::try_from(len) else {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    };
    loop {
        // SAFETY: fallocate reads its four integers and no memory of ours; a bad descriptor or
        // length is answered with an errno.
        #[expect(unsafe_code, reason = "the standard library has no fallocate")]
        let answer = unsafe { libc::fallocate(fd, 0, 0, len) };
        if answer == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// First byte of the first hole, where the file system knows. (lseek(2), SEEK_HOLE)
fn first_hole(fd: RawFd) -> Option<u64> {
    // SAFETY: lseek takes three integers and touches no memory of ours.
    #[expect(unsafe_code, reason = "the standard library cannot ask for holes")]
    let at = unsafe { libc::lseek(fd, 0, libc::SEEK_HOLE) };
    u64::try_from(at).ok()
}

/// Whether an inode has more than this one open file: a write lease is given to no other. It is given
/// back at once; should somebody open the file just then, the kernel would tell us by a signal, and
/// SIGURG is one that does nothing unless it is asked for. (fcntl(2), F_SETLEASE)
fn is_shared(fd: RawFd) -> Option<bool> {
    /// The C library's header has it, the crate does not on this target.
    const F_SETSIG: libc::c_int = 10;
    let ask = |command, value: libc::c_int| {
        // SAFETY: fcntl with these commands takes integers and touches no memory of ours.
        #[expect(unsafe_code, reason = "the standard library has no leases")]
        let answer = unsafe { libc::fcntl(fd, command, value) };
        if answer < 0 { Err(io::Error::last_os_error().raw_os_error()) } else { Ok(()) }
    };
    ask(F_SETSIG, libc::SIGURG).ok()?;
    match ask(libc::F_SETLEASE, libc::F_WRLCK) {
        Ok(()) => ask(libc::F_SETLEASE, libc::F_UNLCK).ok().map(|()| false),
        Err(Some(libc::EAGAIN)) => Some(true),
        // A file system without leases, or a file of another user.
        Err(_) => None,
    }
}

fn sync_fs(fd: RawFd) -> io::Result<()> {
    // SAFETY: syncfs takes a descriptor and touches no memory of ours.
    #[expect(unsafe_code, reason = "the standard library has no syncfs")]
    let answer = unsafe { libc::syncfs(fd) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn free_bytes(path: &Path) -> io::Result<u64> {
    volume(path).map(|volume| volume.usable)
}

/// What the file system that holds a path has, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Volume {
    pub total: u64,
    /// What an unprivileged writer could still write.
    pub usable: u64,
}

/// Asks the file system that holds `path`. May block.
///
/// # Errors
/// As statvfs(3).
pub fn volume(path: &Path) -> io::Result<Volume> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
    // SAFETY: statvfs is plain integers, for which all zeros is a valid value.
    #[expect(unsafe_code, reason = "the kernel fills it in")]
    let mut stat: libc::statvfs = unsafe { mem::zeroed() };
    // SAFETY: `path` is a C string and `stat` a statvfs, both alive over the call.
    #[expect(unsafe_code, reason = "the standard library has no statvfs")]
    let answer = unsafe { libc::statvfs(path.as_ptr(), &mut stat) };
    if answer != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Volume {
        total: stat.f_blocks.saturating_mul(stat.f_frsize),
        usable: stat.f_bavail.saturating_mul(stat.f_frsize),
    })
}

const _: () = assert!(bytes_u64(BLOCK_BYTES) == BLOCK_BYTES_U64);

#[cfg(test)]
#[path = "disk_file_tests.rs"]
mod tests;
