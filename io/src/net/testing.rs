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
