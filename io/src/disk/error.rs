//! The typed error of every disk operation.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a disk refused, where, and while doing what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskError {
    pub kind: DiskErrorKind,
    pub op: DiskOp,
    pub path: PathBuf,
}

/// The cause, one variant for each that somebody can act on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskErrorKind {
    /// No space or no quota left (ENOSPC, EDQUOT). Not final: space may come back.
    Full,
    /// The device failed (EIO and its kin), with the errno. Final for that data directory.
    Io(i32),
    /// Nothing of that name.
    NotFound,
    /// Something of that name exists already.
    Exists,
    /// No file descriptor left, here or in the whole system (EMFILE, ENFILE). Not final.
    TooManyFiles,
    /// The kernel has no memory left for this (ENOMEM). Not final.
    NoMemory,
    /// The process may not do that there (EACCES, EPERM).
    Permission,
    /// The file system is mounted read-only, often because it found damage (EROFS). Final.
    ReadOnly,
    /// Longer than the file system, the kernel or our own limit allows (EFBIG, ENAMETOOLONG).
    TooLarge,
    /// A file where a directory is needed, or the other way round, or a directory with content.
    WrongKind,
    /// Another process holds the lock.
    Locked,
    /// The file system cannot do this at all, as O_DIRECT or preallocation (EINVAL, EOPNOTSUPP).
    Unsupported,
    /// The helper pool is closing, or the job died.
    Stopped,
    /// An errno without a story here. Treated as final, since nothing is known about it.
    Unexpected(i32),
}

/// What was being done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskOp {
    Open,
    Create,
    Read,
    Write,
    Sync,
    SetLen,
    Allocate,
    Len,
    Lock,
    Close,
    List,
    CreateDir,
    Rename,
    Remove,
    SyncDir,
    SyncFs,
    FreeBytes,
    Run,
}

impl DiskError {
    pub fn new(kind: DiskErrorKind, op: DiskOp, path: &Path) -> DiskError {
        DiskError { kind, op, path: path.to_path_buf() }
    }

    /// From an errno value as libc names it.
    pub fn from_errno(errno: i32, op: DiskOp, path: &Path) -> DiskError {
        DiskError::new(DiskErrorKind::from_errno(errno), op, path)
    }

    /// From the standard library's error; one without an errno is taken by its kind.
    pub fn from_io(error: &std::io::Error, op: DiskOp, path: &Path) -> DiskError {
        let kind = match error.raw_os_error() {
            Some(errno) => DiskErrorKind::from_errno(errno),
            None => match error.kind() {
                std::io::ErrorKind::NotFound => DiskErrorKind::NotFound,
                std::io::ErrorKind::AlreadyExists => DiskErrorKind::Exists,
                std::io::ErrorKind::PermissionDenied => DiskErrorKind::Permission,
                std::io::ErrorKind::StorageFull => DiskErrorKind::Full,
                std::io::ErrorKind::WriteZero => DiskErrorKind::Full,
                _ => DiskErrorKind::Io(0),
            },
        };
        DiskError::new(kind, op, path)
    }

    /// True when the data directory must not be trusted with another write in this process.
    ///
    /// Meant for failed writes and syncs; a failed read condemns nothing.
    pub fn is_final(&self) -> bool {
        self.kind.is_final()
    }

    pub fn is_not_found(&self) -> bool {
        self.kind == DiskErrorKind::NotFound
    }
}

impl DiskErrorKind {
    /// Every errno a storage call of ours can meet has its story here.
    pub fn from_errno(errno: i32) -> DiskErrorKind {
        match errno {
            libc::ENOSPC | libc::EDQUOT => DiskErrorKind::Full,
            libc::EIO
            | libc::EUCLEAN
            | libc::ENXIO
            | libc::ENODEV
            | libc::ESTALE
            | libc::ETIMEDOUT
            | libc::EREMOTEIO
            | libc::EBADMSG
            | libc::ENODATA
            | libc::EILSEQ
            | libc::ESHUTDOWN => DiskErrorKind::Io(errno),
            libc::ENOENT => DiskErrorKind::NotFound,
            libc::EEXIST => DiskErrorKind::Exists,
            libc::EMFILE | libc::ENFILE => DiskErrorKind::TooManyFiles,
            libc::ENOMEM | libc::ENOBUFS => DiskErrorKind::NoMemory,
            libc::EACCES | libc::EPERM => DiskErrorKind::Permission,
            libc::EROFS => DiskErrorKind::ReadOnly,
            libc::EFBIG | libc::ENAMETOOLONG | libc::EOVERFLOW => DiskErrorKind::TooLarge,
            libc::EISDIR | libc::ENOTDIR | libc::ENOTEMPTY | libc::ELOOP | libc::EXDEV => {
                DiskErrorKind::WrongKind
            }
            libc::EWOULDBLOCK | libc::EBUSY | libc::ETXTBSY => DiskErrorKind::Locked,
            libc::EINVAL | libc::EOPNOTSUPP | libc::ENOSYS | libc::ENOTTY => {
                DiskErrorKind::Unsupported
            }
            other => DiskErrorKind::Unexpected(other),
        }
    }

    /// See [`DiskError::is_final`].
    pub fn is_final(self) -> bool {
        match self {
            DiskErrorKind::Io(_)
            | DiskErrorKind::ReadOnly
            | DiskErrorKind::Unsupported
            | DiskErrorKind::Unexpected(_) => true,
            DiskErrorKind::Full
            | DiskErrorKind::NotFound
            | DiskErrorKind::Exists
            | DiskErrorKind::TooManyFiles
            | DiskErrorKind::NoMemory
            | DiskErrorKind::Permission
            | DiskErrorKind::TooLarge
            | DiskErrorKind::WrongKind
            | DiskErrorKind::Locked
            | DiskErrorKind::Stopped => false,
        }
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.op, self.path.display(), self.kind)
    }
}

impl std::error::Error for DiskError {}

impl fmt::Display for DiskErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskErrorKind::Full => f.write_str("no space left; free some or raise the quota"),
            DiskErrorKind::Io(errno) => {
                write!(f, "the device failed (errno {errno}); see the kernel log, then restart")
            }
            DiskErrorKind::NotFound => f.write_str("no such file or directory"),
            DiskErrorKind::Exists => f.write_str("exists already"),
            DiskErrorKind::TooManyFiles => {
                f.write_str("too many open files; raise the limit (ulimit -n, LimitNOFILE)")
            }
            DiskErrorKind::NoMemory => f.write_str("the kernel has no memory for this"),
            DiskErrorKind::Permission => {
                f.write_str("permission denied; check owner and mode of the data directory")
            }
            DiskErrorKind::ReadOnly => {
                f.write_str("the file system is read-only; see the kernel log for why")
            }
            DiskErrorKind::TooLarge => f.write_str("larger than allowed"),
            DiskErrorKind::WrongKind => {
                f.write_str("a file where a directory is needed, or the other way round")
            }
            DiskErrorKind::Locked => f.write_str("locked by another process"),
            DiskErrorKind::Unsupported => f.write_str("the file system cannot do this"),
            DiskErrorKind::Stopped => f.write_str("the broker is stopping"),
            DiskErrorKind::Unexpected(errno) => write!(f, "unexpected errno {errno}"),
        }
    }
}

impl fmt::Display for DiskOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DiskOp::Open => "open",
            DiskOp::Create => "create",
            DiskOp::Read => "read",
            DiskOp::Write => "write",
            DiskOp::Sync => "sync",
            DiskOp::SetLen => "truncate",
            DiskOp::Allocate => "allocate",
            DiskOp::Len => "stat",
            DiskOp::Lock => "lock",
            DiskOp::Close => "close",
            DiskOp::List => "list",
            DiskOp::CreateDir => "create directory",
            DiskOp::Rename => "rename",
            DiskOp::Remove => "remove",
            DiskOp::SyncDir => "sync directory",
            DiskOp::SyncFs => "sync file system of",
            DiskOp::FreeBytes => "ask free space of",
            DiskOp::Run => "run a job for",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_disk_and_lost_descriptors_are_not_final() {
        assert!(!DiskErrorKind::from_errno(libc::ENOSPC).is_final());
        assert!(!DiskErrorKind::from_errno(libc::EMFILE).is_final());
        assert!(DiskErrorKind::from_errno(libc::EIO).is_final());
        assert!(DiskErrorKind::from_errno(libc::EROFS).is_final());
        assert!(DiskErrorKind::from_errno(9999).is_final());
    }

    #[test]
    fn message_names_the_act_the_path_and_the_fix() {
        let e = DiskError::from_errno(libc::EMFILE, DiskOp::Open, Path::new("/d/x.log"));
        let text = e.to_string();
        assert!(text.starts_with("open /d/x.log: "), "{text}");
        assert!(text.contains("ulimit"), "{text}");
    }
}
