//! What the tests of this module share.

use std::fs::File;
use std::os::fd::AsRawFd;

/// Drops the clean pages of a file from memory.
#[expect(unsafe_code, reason = "posix_fadvise has no wrapper")]
pub(crate) fn drop_cache(file: &File) {
    file.sync_all().unwrap();
    // SAFETY: three numbers and a descriptor that `file` keeps open.
    let done = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    assert_eq!(done, 0);
}

/// Bytes that differ at every place, the same for the same seed.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        // xorshift64: cheap and without short periods.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// An address of this host whose port the kernel chooses.
pub(crate) fn any_port() -> std::net::SocketAddr {
    std::net::SocketAddr::from(([127, 0, 0, 1], 0))
}
