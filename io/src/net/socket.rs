//! The system calls on sockets that neither std nor the executor offers. None blocks.

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use bytes::{Bytes, BytesMut};

use crate::runtime::limits::{SEND_BYTES, SEND_PIECES};

/// Switches of a socket that are on or off, or carry a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    ReuseAddress,
    ReusePort,
    NoDelay,
    KeepAlive,
    /// Seconds of silence before the first keepalive probe.
    KeepAliveIdle,
    /// Seconds between probes.
    KeepAliveInterval,
    /// Probes without an answer after which the connection is dead.
    KeepAliveCount,
    SendBuffer,
    ReceiveBuffer,
}

impl Switch {
    fn raw(self) -> (libc::c_int, libc::c_int) {
        match self {
            Switch::ReuseAddress => (libc::SOL_SOCKET, libc::SO_REUSEADDR),
            Switch::ReusePort => (libc::SOL_SOCKET, libc::SO_REUSEPORT),
            Switch::NoDelay => (libc::IPPROTO_TCP, libc::TCP_NODELAY),
            Switch::KeepAlive => (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
            Switch::KeepAliveIdle => (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
            Switch::KeepAliveInterval => (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL),
            Switch::KeepAliveCount => (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
            Switch::SendBuffer => (libc::SOL_SOCKET, libc::SO_SNDBUF),
            Switch::ReceiveBuffer => (libc::SOL_SOCKET, libc::SO_RCVBUF),
        }
    }
}

/// setsockopt(2) of an integer option.
#[expect(unsafe_code, reason = "setsockopt has no wrapper for these options")]
pub fn set(socket: BorrowedFd<'_>, switch: Switch, value: i32) -> io::Result<()> {
    let (level, name) = switch.raw();
    // SAFETY: the pointer is valid for the four bytes named.
    check(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    })
}

/// Makes calls on the socket return instead of wait, and keeps it out of child processes.
#[expect(unsafe_code, reason = "fcntl has no wrapper")]
pub fn set_nonblocking_and_private(socket: BorrowedFd<'_>) -> io::Result<()> {
    let fd = socket.as_raw_fd();
    // SAFETY: fcntl with these commands takes and returns integers.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    check(flags)?;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) })
}

/// A new TCP socket of the address's family, blocking, private.
#[expect(unsafe_code, reason = "takes ownership of a fresh descriptor")]
pub fn tcp_socket(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: socket takes three integers.
    let fd = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    check(fd)?;
    // SAFETY: the kernel just gave us this descriptor; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// bind(2).
#[expect(unsafe_code, reason = "bind has no wrapper that leaves options to the caller")]
pub fn bind(socket: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()> {
    match address {
        SocketAddr::V4(v4) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(v4.ip().octets()) },
                sin_zero: [0; 8],
            };
            let size = size_of_val(&raw) as libc::socklen_t;
            // SAFETY: `raw` is a whole sockaddr_in of the size named.
            check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const raw).cast(), size) })
        }
        SocketAddr::V6(v6) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            let size = size_of_val(&raw) as libc::socklen_t;
            // SAFETY: `raw` is a whole sockaddr_in6 of the size named.
            check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const raw).cast(), size) })
        }
    }
}

/// listen(2).
#[expect(unsafe_code, reason = "listen has no wrapper")]
pub fn listen(socket: BorrowedFd<'_>, backlog: i32) -> io::Result<()> {
    // SAFETY: listen takes two integers.
    check(unsafe { libc::listen(socket.as_raw_fd(), backlog) })
}

/// Which direction to shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
}

/// shutdown(2). A connection that is gone already is no error.
#[expect(unsafe_code, reason = "shutdown has no wrapper for borrowed descriptors")]
pub fn shutdown(socket: BorrowedFd<'_>, direction: Direction) -> io::Result<()> {
    let how = match direction {
        Direction::Read => libc::SHUT_RD,
        Direction::Write => libc::SHUT_WR,
    };
    // SAFETY: shutdown takes two integers.
    match check(unsafe { libc::shutdown(socket.as_raw_fd(), how) }) {
        Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => Ok(()),
        other => other,
    }
}

/// Receives into the spare room of `buffer`, at most `at_most` bytes, without waiting. The bytes
/// received are appended. 0: the peer has ended its side, or there is no room.
#[expect(unsafe_code, reason = "receives into room that is not initialised yet")]
pub fn receive(socket: BorrowedFd<'_>, buffer: &mut BytesMut, at_most: usize) -> io::Result<usize> {
    let room = buffer.spare_capacity_mut();
    let asked = room.len().min(at_most);
    // SAFETY: the pointer is valid for writes of `asked` bytes, the part of `room` we name.
    let got = unsafe {
        libc::recv(socket.as_raw_fd(), room.as_mut_ptr().cast(), asked, libc::MSG_DONTWAIT)
    };
    let got = count(got)?;
    assert!(got <= asked, "recv returned {got} bytes for {asked}");
    let length = buffer.len() + got;
    // SAFETY: the kernel initialised `got` bytes behind the old length, within the capacity.
    unsafe { buffer.set_len(length) };
    Ok(got)
}

/// Sends from the front of `pieces` without waiting and returns how many bytes were taken; up to
/// `SEND_PIECES` pieces and `SEND_BYTES` bytes. `more` promises that more bytes follow at once,
/// so that the kernel may hold back a packet that is not full.
#[expect(unsafe_code, reason = "sendmsg has no wrapper")]
pub fn send<'a>(
    socket: BorrowedFd<'_>,
    pieces: impl Iterator<Item = &'a Bytes>,
    more: bool,
) -> io::Result<usize> {
    const EMPTY: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let mut vector = [EMPTY; SEND_PIECES];
    let mut filled = 0;
    let mut bytes = 0;
    for piece in pieces.take(SEND_PIECES) {
        let len = piece.len().min(SEND_BYTES - bytes);
        vector[filled] = libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: len };
        filled += 1;
        bytes += len;
        if bytes == SEND_BYTES {
            break;
        }
    }
    // SAFETY: all-zero is a valid msghdr: no address, no vector, no control data.
    let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    message.msg_iov = vector.as_mut_ptr();
    message.msg_iovlen = filled;
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | if more { libc::MSG_MORE } else { 0 };
    // SAFETY: the vector's first `filled` entries point into `pieces`, which are borrowed over the
    // call, with lengths within them; the kernel only reads them.
    count(unsafe { libc::sendmsg(socket.as_raw_fd(), &message, flags) })
}

/// Sends up to `len` bytes of `file` from `pos` without copying them here, and returns how many.
/// 0: the file ends at `pos`. Waits for the device when the pages are not in memory, but never
/// for a socket that does not block. (sendfile(2))
#[expect(unsafe_code, reason = "sendfile has no wrapper")]
pub fn send_file(
    socket: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    pos: u64,
    len: usize,
) -> io::Result<usize> {
    let mut offset = i64::try_from(pos).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: `offset` is valid for reads and writes of an off_t over the call.
    count(unsafe { libc::sendfile(socket.as_raw_fd(), file.as_raw_fd(), &raw mut offset, len) })
}

/// Reads at `pos` from a borrowed descriptor. (pread(2))
#[expect(unsafe_code, reason = "std reads at a position from a File only")]
pub fn read_at(file: BorrowedFd<'_>, buffer: &mut [u8], pos: u64) -> io::Result<usize> {
    let offset = i64::try_from(pos).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: the pointer is valid for writes of the length named.
    count(unsafe {
        libc::pread(file.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), offset)
    })
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn count(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
