//! The system calls of the runtime that std does not offer. Each wrapper turns `errno` into
//! `io::Error`; none allocates or blocks unless it says so.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};

/// Registers the process for fast memory barriers. The first registration of a process waits
/// 15-30 ms, so it belongs at the very start of main, before any thread. (membarrier(2))
///
/// Errors are not told: a kernel without it uses a slower barrier and works.
#[expect(unsafe_code, reason = "membarrier has no wrapper")]
pub fn register_membarrier() {
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;
    // SAFETY: membarrier takes two integers, touches no memory of ours and fails with an errno.
    unsafe {
        libc::syscall(libc::SYS_membarrier, REGISTER_PRIVATE_EXPEDITED, 0 as libc::c_int);
    }
}

/// The CPUs this thread may run on, ascending. (sched_getaffinity(2))
#[expect(unsafe_code, reason = "sched_getaffinity fills a plain bit set")]
pub fn affinity() -> io::Result<Vec<usize>> {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: the pointer is valid for size_of::<cpu_set_t>() bytes, the size we pass.
    let got = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), set.as_mut_ptr()) };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: zeroed is a valid (empty) cpu_set_t, and the call above filled it.
    let set = unsafe { set.assume_init() };
    let size = libc::CPU_SETSIZE as usize;
    // SAFETY: CPU_ISSET reads bit `cpu` of the set, and cpu < CPU_SETSIZE.
    Ok((0..size).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// Lets the calling thread run on these CPUs only. (sched_setaffinity(2))
///
/// Errors: EINVAL when none of them is allowed, or one is beyond the kernel's set.
#[expect(unsafe_code, reason = "sched_setaffinity reads a plain bit set")]
pub fn set_affinity(cpus: &[usize]) -> io::Result<()> {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    for &cpu in cpus {
        if cpu >= libc::CPU_SETSIZE as usize {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: zeroed is a valid cpu_set_t; cpu < CPU_SETSIZE was checked just above.
        unsafe { libc::CPU_SET(cpu, &mut *set.as_mut_ptr()) };
    }
    // SAFETY: the pointer is valid for the size we pass, and the kernel only reads it.
    let done = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set.as_ptr()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// From now on the calling thread runs, and its reads are served, only while nobody else has anything
/// for the CPU or the device to do. There is no way back without rights: for threads that do nothing
/// else, and that hold no lock of the file system others wait for. (sched_setscheduler(2),
/// ioprio_set(2); the second is for schedulers that know it)
///
/// Errors are not told: where the system refuses, the thread works as others do.
#[expect(unsafe_code, reason = "neither has a wrapper in std")]
pub fn give_way() {
    const WHO_PROCESS: libc::c_int = 1;
    const CLASS_IDLE: libc::c_int = 3 << 13;
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: the pointer is valid, and the kernel only reads it; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const none) };
    // SAFETY: ioprio_set takes three integers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0 as libc::c_int, CLASS_IDLE) };
}

/// The calling thread takes short turns on its CPU, and in exchange gets it at once from threads that
/// take longer ones, when it wakes up. (sched_setattr(2), the slice of SCHED_OTHER since Linux 6.12;
/// kernels before it do not look at it)
///
/// Errors are not told: where the system refuses, the thread waits its turn as others do.
#[expect(unsafe_code, reason = "sched_setattr has no wrapper in std")]
pub fn take_short_turns(turns: Turns) {
    let attributes = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        runtime: turns as u64,
        ..SchedAttr::default()
    };
    // SAFETY: the pointer is valid for the size that the struct states, and the kernel only reads
    // it; 0 is the calling thread.
    unsafe {
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0 as libc::c_uint);
    }
}

/// The calling thread gets a quarter of a CPU that it shares with a busy thread of the usual priority, and
/// all that is left where nobody is busy. There is no way back without rights. (setpriority(2), which
/// on Linux concerns the thread)
///
/// Errors are not told: where the system refuses, the thread works as others do.
#[expect(unsafe_code, reason = "setpriority has no wrapper in std")]
pub fn come_second() {
    // SAFETY: setpriority takes three integers and touches no memory of ours; 0 is the calling thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 5) };
}

/// The first version of the kernel's struct.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const _: () = assert!(size_of::<SchedAttr>() == 48);

/// How short the turns of a thread are, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Turns {
    /// The shortest that Linux knows: for threads that work for some microseconds and then wait.
    Shortest = 100_000,
    /// For a core: shorter than those of others, and longer than those of the threads that it has write.
    Short = 400_000,
}

/// A limit of the process: what holds now, and how far it may be raised without rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    pub soft: u64,
    pub hard: u64,
}

/// Which limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Bytes that may be pinned in memory.
    LockedMemory,
    /// Open descriptors.
    Descriptors,
}

impl Resource {
    fn raw(self) -> libc::__rlimit_resource_t {
        match self {
            Resource::LockedMemory => libc::RLIMIT_MEMLOCK,
            Resource::Descriptors => libc::RLIMIT_NOFILE,
        }
    }
}

/// Reads a limit. (getrlimit(2))
#[expect(unsafe_code, reason = "getrlimit fills a plain struct")]
pub fn limit(resource: Resource) -> io::Result<Limit> {
    let mut raw = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `raw` is a valid rlimit, owned by this frame.
    let got = unsafe { libc::getrlimit(resource.raw(), &mut raw) };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Limit { soft: raw.rlim_cur, hard: raw.rlim_max })
}

/// Raises the soft limit to the hard limit and returns what holds then.
#[expect(unsafe_code, reason = "setrlimit reads a plain struct")]
pub fn raise_limit(resource: Resource) -> io::Result<Limit> {
    let now = limit(resource)?;
    if now.soft == now.hard {
        return Ok(now);
    }
    let raw = libc::rlimit { rlim_cur: now.hard, rlim_max: now.hard };
    // SAFETY: `raw` is a valid rlimit, and the kernel only reads it.
    let done = unsafe { libc::setrlimit(resource.raw(), &raw) };
    if done == 0 { limit(resource) } else { Err(io::Error::last_os_error()) }
}

/// Whether this process may pin memory beyond RLIMIT_MEMLOCK (CAP_IPC_LOCK in effect).
pub fn may_lock_memory_freely() -> bool {
    const CAP_IPC_LOCK: u32 = 14;
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .is_some_and(|set| set & (1 << CAP_IPC_LOCK) != 0)
}

/// Blocks the calling thread. For helper threads and tests, never on a core.
#[expect(clippy::disallowed_methods, reason = "the one place for threads that are no cores")]
pub fn pause_thread(time: std::time::Duration) {
    std::thread::sleep(time);
}

/// A new eventfd, for poll loops of helper threads. (eventfd(2))
#[expect(unsafe_code, reason = "takes ownership of a fresh descriptor")]
pub fn eventfd() -> io::Result<OwnedFd> {
    // SAFETY: eventfd takes two integers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affinity_of_a_thread_can_be_narrowed_and_read_back() {
        std::thread::spawn(|| {
            let all = affinity().unwrap();
            assert!(!all.is_empty());
            set_affinity(&all[..1]).unwrap();
            assert_eq!(affinity().unwrap(), all[..1]);
            assert!(set_affinity(&[1 << 20]).is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn raising_a_limit_reaches_the_hard_limit() {
        let limit = raise_limit(Resource::Descriptors).unwrap();
        assert_eq!(limit.soft, limit.hard);
    }
}
