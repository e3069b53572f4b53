//! Asking the kernel for io_uring and its operations. (io_uring_setup(2), io_uring_register(2))

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// io_uring_setup refused, with this errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingRefusal {
    pub errno: i32,
}

/// Sets up a ring as the executor would, one with and one without polled I/O, and returns the
/// names of the operations that it needs and this kernel lacks.
pub fn probe() -> Result<Vec<&'static str>, RingRefusal> {
    set_up(SETUP_IOPOLL)?;
    let ring = set_up(0)?;
    let supported = supported_operations(&ring)?;
    let lacks = |code: u8| !supported.contains(&code);
    Ok(OPERATIONS.iter().filter(|(code, _)| lacks(*code)).map(|(_, name)| *name).collect())
}

/// Lets the kernel's helper threads of this thread's rings run on all of `cpus`. They inherit the
/// pin of the core otherwise, and then wait behind it for its own writes and syncs.
/// (IORING_REGISTER_IOWQ_AFF, Linux 5.14)
///
/// Call it on the core. Errors: an older kernel; nothing is changed then.
#[expect(unsafe_code, reason = "io_uring_register has no wrapper")]
pub fn spread_ring_helpers(cpus: &[usize]) -> Result<(), RingRefusal> {
    let mut mask = [0_u64; 16];
    for &cpu in cpus {
        if let Some(word) = mask.get_mut(cpu / 64) {
            *word |= 1 << (cpu % 64);
        }
    }
    // Any ring will do: the call is about the calling thread's helpers, which all its rings share.
    let ring = set_up(0)?;
    // SAFETY: the mask is a bit set of the length named, and the kernel only reads it.
    let done = unsafe {
        libc::syscall(
            libc::SYS_io_uring_register,
            libc::c_long::from(ring.as_raw_fd()),
            REGISTER_HELPER_CPUS,
            mask.as_ptr(),
            size_of_val(&mask) as libc::c_long,
        )
    };
    if done < 0 { Err(last_refusal()) } else { Ok(()) }
}

const REGISTER_HELPER_CPUS: libc::c_long = 17;
const SETUP_IOPOLL: u32 = 1;
const REGISTER_PROBE: libc::c_long = 8;
const PROBE_OPS: usize = 256;
const OP_SUPPORTED: u16 = 1;

/// What the executor's sockets, files and timers are made of.
const OPERATIONS: [(u8, &str); 24] = [
    (0, "NOP"),
    (1, "READV"),
    (2, "WRITEV"),
    (3, "FSYNC"),
    (4, "READ_FIXED"),
    (5, "WRITE_FIXED"),
    (6, "POLL_ADD"),
    (7, "POLL_REMOVE"),
    (9, "SENDMSG"),
    (10, "RECVMSG"),
    (11, "TIMEOUT"),
    (12, "TIMEOUT_REMOVE"),
    (13, "ACCEPT"),
    (14, "ASYNC_CANCEL"),
    (15, "LINK_TIMEOUT"),
    (16, "CONNECT"),
    (17, "FALLOCATE"),
    (18, "OPENAT"),
    (19, "CLOSE"),
    (21, "STATX"),
    (22, "READ"),
    (23, "WRITE"),
    (26, "SEND"),
    (27, "RECV"),
];

/// `struct io_uring_params`: 10 words, then the two offset tables (40 bytes each) that the kernel
/// fills in and we do not read.
#[repr(C)]
struct Params {
    sq_entries: u32,
    cq_entries: u32,
    flags: u32,
    rest: [u32; 7],
    offsets: [u64; 10],
}

const _: () = assert!(size_of::<Params>() == 120);

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ProbeOp {
    op: u8,
    reserved: u8,
    flags: u16,
    reserved2: u32,
}

/// `struct io_uring_probe` with room for every operation code.
#[repr(C)]
struct Probe {
    last_op: u8,
    ops_len: u8,
    reserved: u16,
    reserved2: [u32; 3],
    ops: [ProbeOp; PROBE_OPS],
}

const _: () = assert!(size_of::<Probe>() == 16 + 8 * PROBE_OPS);

#[expect(unsafe_code, reason = "io_uring_setup has no wrapper")]
fn set_up(flags: u32) -> Result<OwnedFd, RingRefusal> {
    let mut params = Params { sq_entries: 0, cq_entries: 0, flags, rest: [0; 7], offsets: [0; 10] };
    let entries: libc::c_long = 8;
    // SAFETY: `params` has the size and layout of io_uring_params (asserted above) and outlives
    // the call, which reads and fills it.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, entries, &raw mut params) };
    if fd < 0 {
        return Err(last_refusal());
    }
    // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

#[expect(unsafe_code, reason = "io_uring_register has no wrapper")]
fn supported_operations(ring: &OwnedFd) -> Result<Vec<u8>, RingRefusal> {
    let mut probe = Box::new(Probe {
        last_op: 0,
        ops_len: 0,
        reserved: 0,
        reserved2: [0; 3],
        ops: [ProbeOp::default(); PROBE_OPS],
    });
    // SAFETY: `probe` has the layout of io_uring_probe followed by PROBE_OPS entries, the count we
    // pass, is zeroed as the call demands, and outlives it.
    let done = unsafe {
        libc::syscall(
            libc::SYS_io_uring_register,
            libc::c_long::from(ring.as_raw_fd()),
            REGISTER_PROBE,
            &raw mut *probe,
            PROBE_OPS as libc::c_long,
        )
    };
    if done < 0 {
        return Err(last_refusal());
    }
    let filled = usize::from(probe.ops_len).min(PROBE_OPS);
    let is_supported = |op: &&ProbeOp| op.flags & OP_SUPPORTED != 0;
    Ok(probe.ops[..filled].iter().filter(is_supported).map(|op| op.op).collect())
}

fn last_refusal() -> RingRefusal {
    RingRefusal { errno: io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_offers_all_operations() {
        assert_eq!(probe(), Ok(Vec::new()));
    }

    #[test]
    fn operation_that_no_kernel_has_is_seen_as_missing() {
        let ring = set_up(0).unwrap();
        assert!(!supported_operations(&ring).unwrap().contains(&255));
    }
}
