//! What the host must offer, asked before any executor is started.
//!
//! The executor ends the process on a host that forbids io_uring or lacks an operation, and says
//! little. So each need is asked for here, and each failure is one plain sentence with the
//! command that mends it.

use std::ffi::CString;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::limits::{MEMLOCK_FLOOR, NOFILE_WARN, RING_MEMORY, RINGS_PER_CORE};
use super::os::{Limit, Resource, limit, may_lock_memory_freely, raise_limit};
use super::uring_probe::{self, RingRefusal};

/// What will be asked of the host.
#[derive(Clone, Debug)]
pub struct Needs {
    /// Cores to start.
    pub cores: usize,
    /// Existing data directories.
    pub data_dirs: Vec<PathBuf>,
    /// `storage.direct`: direct I/O is wanted (the default).
    pub direct: bool,
}

/// What the host offers. The limits of this process are raised already.
#[derive(Clone, Debug)]
pub struct Host {
    /// `uname -r`.
    pub kernel: String,
    /// Descriptors this process may open.
    pub descriptors: u64,
    /// The kernel tells which file pages are in memory (cachestat(2), Linux 6.5).
    pub cachestat: bool,
    /// What works, but should be known. Log each at every start.
    pub warnings: Vec<HostWarning>,
}

/// Checks all needs in order and raises the limits of this process. Blocks for some file system
/// calls; call it in main, before any executor.
///
/// Errors: the first need that is not met.
pub fn check(needs: &Needs) -> Result<Host, HostProblem> {
    let kernel = kernel_release();
    let mut warnings = Vec::new();
    check_rings(&kernel)?;
    check_locked_memory(needs.cores)?;
    let descriptors = check_descriptors(&mut warnings);
    for dir in &needs.data_dirs {
        check_data_dir(dir, needs.direct, &mut warnings)?;
    }
    if !needs.direct {
        warnings.push(HostWarning::DirectOff);
    }
    let cachestat = crate::net::residency::is_supported();
    Ok(Host { kernel, descriptors, cachestat, warnings })
}

/// A need that the host does not meet. `Display` is one sentence with what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostProblem {
    /// The kernel has no io_uring.
    NoRings { kernel: String },
    /// `kernel.io_uring_disabled` forbids it.
    RingsDisabled { sysctl: u8 },
    /// Something else forbids it: a seccomp filter of a container.
    RingsForbidden,
    /// It failed for another reason.
    RingsFailed { errno: i32 },
    /// Operations that the executor needs are missing.
    OperationsMissing { kernel: String, operations: Vec<&'static str> },
    /// Too little memory may be locked.
    LockedMemory { cores: usize, limit: u64, needed: u64 },
    /// The data directory cannot be read or written.
    DataDir { path: PathBuf, doing: &'static str, reason: String },
    /// Its file system cannot do direct I/O.
    NoDirect { path: PathBuf, file_system: String },
    /// The device below has no readable description in sysfs, which the executor ends at.
    Device { path: PathBuf, missing: PathBuf },
}

impl fmt::Display for HostProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostProblem::NoRings { kernel } => write!(
                f,
                "this kernel ({kernel}) has no io_uring; run Linux 5.15 or newer (check with \
                 `uname -r`)"
            ),
            HostProblem::RingsDisabled { sysctl } => write!(
                f,
                "io_uring is switched off on this host (kernel.io_uring_disabled={sysctl}); run \
                 `sysctl -w kernel.io_uring_disabled=0` as root"
            ),
            HostProblem::RingsForbidden => f.write_str(
                "io_uring is forbidden for this process, by a seccomp filter if it runs in a \
                 container; start the container with `--security-opt seccomp=unconfined` or a \
                 profile that allows io_uring_setup, io_uring_enter and io_uring_register",
            ),
            HostProblem::RingsFailed { errno } => write!(
                f,
                "io_uring could not be set up: {}; see `dmesg` and `ulimit -a`",
                io::Error::from_raw_os_error(*errno)
            ),
            HostProblem::OperationsMissing { kernel, operations } => write!(
                f,
                "io_uring of this kernel ({kernel}) lacks {}; run Linux 5.15 or newer (check \
                 with `uname -r`)",
                operations.join(", ")
            ),
            HostProblem::LockedMemory { cores, limit, needed } => write!(
                f,
                "only {limit} bytes of memory may be locked, but {cores} cores need {needed}; \
                 run `ulimit -l unlimited` before the start, or set `LimitMEMLOCK=infinity` in \
                 the systemd unit, or use fewer cores"
            ),
            HostProblem::DataDir { path, doing, reason } => write!(
                f,
                "cannot {doing} in the data directory {}: {reason}; check `ls -ld {}` and `df {}`",
                path.display(),
                path.display(),
                path.display()
            ),
            HostProblem::NoDirect { path, file_system } => write!(
                f,
                "the file system {file_system} of the data directory {} cannot do direct I/O; \
                 use a directory on ext4 or xfs, or set `storage.direct=false` to do without",
                path.display()
            ),
            HostProblem::Device { path, missing } => write!(
                f,
                "the device of the data directory {} is not described by {}; mount sysfs \
                 (`mount -t sysfs sysfs /sys`), or set `storage.direct=false`",
                path.display(),
                missing.display()
            ),
        }
    }
}

impl std::error::Error for HostProblem {}

/// Something to know about this host. `Display` is one sentence with what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostWarning {
    FewDescriptors { limit: u64 },
    DirectOff,
    Volatile { path: PathBuf, file_system: String },
}

impl fmt::Display for HostWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostWarning::FewDescriptors { limit } => write!(
                f,
                "this process may open {limit} descriptors only, shared by connections and \
                 files; run `ulimit -n 65536` before the start, or set `LimitNOFILE=65536` in \
                 the systemd unit"
            ),
            HostWarning::DirectOff => f.write_str(
                "storage.direct=false: writes go through the page cache and are flushed \
                 explicitly; acknowledged records are as safe, but latency and memory use are \
                 less even",
            ),
            HostWarning::Volatile { path, file_system } => write!(
                f,
                "the data directory {} lies on {file_system}, which keeps nothing over a power \
                 cut or reboot; use a directory on ext4 or xfs",
                path.display()
            ),
        }
    }
}

/// The name of a path's file system, as `stat -f` tells it.
pub fn file_system_name(path: &Path) -> io::Result<String> {
    Ok(name_of(file_system_magic(path)?))
}

fn check_rings(kernel: &str) -> Result<(), HostProblem> {
    match uring_probe::probe() {
        Ok(missing) if missing.is_empty() => Ok(()),
        Ok(operations) => {
            Err(HostProblem::OperationsMissing { kernel: kernel.to_owned(), operations })
        }
        Err(RingRefusal { errno: libc::ENOSYS }) => {
            Err(HostProblem::NoRings { kernel: kernel.to_owned() })
        }
        Err(RingRefusal { errno: libc::EPERM | libc::EACCES }) => match rings_disabled() {
            Some(sysctl) if sysctl > 0 => Err(HostProblem::RingsDisabled { sysctl }),
            _ => Err(HostProblem::RingsForbidden),
        },
        Err(RingRefusal { errno }) => Err(HostProblem::RingsFailed { errno }),
    }
}

fn rings_disabled() -> Option<u8> {
    std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok()?.trim().parse().ok()
}

fn check_locked_memory(cores: usize) -> Result<(), HostProblem> {
    let now = raise_limit(Resource::LockedMemory).or_else(|_| limit(Resource::LockedMemory));
    let allowed = now.map_or(0, |limit| limit.soft);
    let needed = locked_memory(cores, may_lock_memory_freely());
    if allowed < needed {
        return Err(HostProblem::LockedMemory { cores, limit: allowed, needed });
    }
    Ok(())
}

/// Memory that `cores` executors lock; `free` says that the limit is not counted against this
/// process. The executor refuses less than the floor, whoever asks.
fn locked_memory(cores: usize, free: bool) -> u64 {
    let pinned = if free { 0 } else { cores * RINGS_PER_CORE * RING_MEMORY };
    MEMLOCK_FLOOR.max(pinned as u64)
}

fn check_descriptors(warnings: &mut Vec<HostWarning>) -> u64 {
    let now = raise_limit(Resource::Descriptors).or_else(|_| limit(Resource::Descriptors));
    let limit = now.unwrap_or(Limit { soft: 0, hard: 0 }).soft;
    if limit < NOFILE_WARN {
        warnings.push(HostWarning::FewDescriptors { limit });
    }
    limit
}

fn check_data_dir(
    dir: &Path,
    direct: bool,
    warnings: &mut Vec<HostWarning>,
) -> Result<(), HostProblem> {
    let problem = |doing, error: io::Error| HostProblem::DataDir {
        path: dir.to_owned(),
        doing,
        reason: error.to_string(),
    };
    let magic = file_system_magic(dir).map_err(|e| problem("look up the file system", e))?;
    if magic == TMPFS || magic == RAMFS {
        let file_system = name_of(magic);
        warnings.push(HostWarning::Volatile { path: dir.to_owned(), file_system });
    }
    let path = dir.join(format!(".probe-{}", std::process::id()));
    let result = probe_file(&path, direct);
    let _ = std::fs::remove_file(&path);
    match result {
        Ok(()) => {}
        Err(error) if direct && error.raw_os_error() == Some(libc::EINVAL) => {
            let file_system = name_of(magic);
            return Err(HostProblem::NoDirect { path: dir.to_owned(), file_system });
        }
        // A full disk must still start and serve reads.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT)) => {}
        Err(error) => return Err(problem("write a file", error)),
    }
    if direct && magic != TMPFS {
        check_device(dir).map_err(|e| problem("look up the device", e))??;
    }
    Ok(())
}

fn probe_file(path: &Path, direct: bool) -> io::Result<()> {
    let flags = if direct { libc::O_DIRECT } else { 0 };
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(flags)
        .open(path)?;
    #[repr(align(4096))]
    struct Block([u8; 4096]);
    let block = Box::new(Block([0x5a; 4096]));
    file.write_all_at(&block.0, 0)
}

/// The executor reads these files of the whole device (it takes minor number 0 for that) when it
/// opens a first direct file, and takes a device without a directory for memory.
fn check_device(dir: &Path) -> io::Result<Result<(), HostProblem>> {
    const READ: [&str; 9] = [
        "rotational",
        "minimum_io_size",
        "optimal_io_size",
        "logical_block_size",
        "physical_block_size",
        "max_sectors_kb",
        "max_segment_size",
        "write_cache",
        "../slaves",
    ];
    let major = libc::major(File::open(dir)?.metadata()?.dev());
    let device = PathBuf::from(format!("/sys/dev/block/{major}:0"));
    if !device.exists() {
        return Ok(Ok(()));
    }
    let queue = std::fs::canonicalize(device)?.join("queue");
    let missing = READ.iter().map(|name| queue.join(name)).find(|path| !path.exists());
    Ok(match missing {
        Some(missing) => Err(HostProblem::Device { path: dir.to_owned(), missing }),
        None => Ok(()),
    })
}

fn kernel_release() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    read.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

#[expect(unsafe_code, reason = "statfs fills a plain struct")]
fn file_system_magic(path: &Path) -> io::Result<i64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut raw = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the path ends in NUL and outlives the call; `raw` is valid for a statfs.
    let got = unsafe { libc::statfs(path.as_ptr(), raw.as_mut_ptr()) };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call succeeded and filled the struct; zeroed was valid before as well.
    Ok(unsafe { raw.assume_init() }.f_type)
}

const TMPFS: i64 = 0x0102_1994;
const RAMFS: i64 = 0x8584_58f6;

fn name_of(magic: i64) -> String {
    let name = match magic {
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x2fc1_2fc1 => "zfs",
        0xf2f5_2010 => "f2fs",
        TMPFS => "tmpfs",
        RAMFS => "ramfs",
        0x794c_7630 => "overlayfs",
        0x6969 => "nfs",
        0xff53_4d42 => "cifs",
        0x6573_5546 => "fuse",
        0xca45_1a4e => "bcachefs",
        other => return format!("with magic number {other:#x}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_meets_the_needs_and_nothing_is_left_in_the_data_directory() {
        let dir = tempfile::tempdir().unwrap();
        let needs = Needs { cores: 2, data_dirs: vec![dir.path().to_owned()], direct: true };
        let host = check(&needs).unwrap();
        assert!(host.descriptors > 0 && !host.kernel.is_empty());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn doing_without_direct_io_is_warned_about_at_every_start() {
        let dir = tempfile::tempdir().unwrap();
        let needs = Needs { cores: 1, data_dirs: vec![dir.path().to_owned()], direct: false };
        let host = check(&needs).unwrap();
        assert!(host.warnings.contains(&HostWarning::DirectOff));
    }

    #[test]
    fn missing_data_directory_is_named() {
        let path = PathBuf::from("/nonexistent/data");
        let needs = Needs { cores: 1, data_dirs: vec![path.clone()], direct: true };
        let problem = check(&needs).unwrap_err();
        assert!(matches!(&problem, HostProblem::DataDir { path: p, .. } if *p == path));
        assert!(problem.to_string().contains("/nonexistent/data"), "{problem}");
    }

    #[test]
    fn file_system_without_direct_io_is_refused_by_name() {
        // proc takes no O_DIRECT; opening fails as a file system without direct I/O fails.
        let error = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open("/proc/self/status")
            .unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        let problem = HostProblem::NoDirect { path: "/d".into(), file_system: "zfs".into() };
        let text = problem.to_string();
        assert!(text.contains("zfs") && text.contains("storage.direct=false"), "{text}");
    }

    #[test]
    fn common_limit_of_locked_memory_is_enough_for_forty_cores() {
        let common = 8 << 20;
        assert!(locked_memory(40, false) <= common);
        assert!(locked_memory(50, false) > common);
        assert_eq!(locked_memory(1, false), MEMLOCK_FLOOR);
        assert_eq!(locked_memory(500, true), MEMLOCK_FLOOR, "not counted, but looked at");
    }
}
