//! Which pages of a file are in memory, so that sending them does not wait for the device.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::socket::read_at;
use crate::limits::{READ_AHEAD_PIECE_BYTES, READ_PIECE_BYTES};
use crate::runtime::limits::PREFETCH_AHEAD;

/// Whether the kernel has cachestat(2) (Linux 6.5). Without it every range counts as absent.
#[expect(unsafe_code, reason = "cachestat has no wrapper")]
pub fn is_supported() -> bool {
    // SAFETY: an invalid descriptor and null pointers; the kernel refuses before it touches them.
    let got = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            -1 as libc::c_long,
            std::ptr::null::<CacheRange>(),
            std::ptr::null::<CacheStat>(),
            0 as libc::c_long,
        )
    };
    got < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EBADF)
}

/// Whether every page of `[pos, pos + len)` is in memory. Takes about a microsecond. False when
/// the kernel cannot tell.
#[expect(unsafe_code, reason = "cachestat has no wrapper")]
pub fn is_resident(file: BorrowedFd<'_>, pos: u64, len: u64) -> bool {
    if len == 0 {
        return true;
    }
    let range = CacheRange { offset: pos, length: len };
    let mut stat = CacheStat::default();
    // SAFETY: both structs have the kernel's layout (asserted below) and outlive the call, which
    // reads the first and fills the second.
    let got = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            libc::c_long::from(file.as_raw_fd()),
            &raw const range,
            &raw mut stat,
            0 as libc::c_long,
        )
    };
    got == 0 && stat.cached >= pages(pos, len)
}

/// Brings `[pos, pos + len)` into memory and asks the kernel to read on. Blocks for the device:
/// for helper threads only. A range behind the end of the file is no error; the send finds out.
#[expect(unsafe_code, reason = "posix_fadvise has no wrapper")]
pub fn prefetch(file: BorrowedFd<'_>, pos: u64, len: u64) -> io::Result<()> {
    let ahead = len.saturating_add(PREFETCH_AHEAD);
    for begun in (0..ahead).step_by(READ_AHEAD_PIECE_BYTES as usize) {
        let piece = (ahead - begun).min(READ_AHEAD_PIECE_BYTES);
        let (Some(Ok(start)), Ok(piece)) =
            (pos.checked_add(begun).map(i64::try_from), i64::try_from(piece))
        else {
            break;
        };
        // SAFETY: takes three numbers and a descriptor that `file` keeps open; it is advice, so
        // its failure is not one of ours.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), start, piece, libc::POSIX_FADV_WILLNEED) };
    }
    // The advice does not wait. Reading does, and puts the pages in memory for whoever is next.
    let mut scratch = vec![0; READ_PIECE_BYTES.min(usize::try_from(len).unwrap_or(usize::MAX))];
    let mut done = 0;
    while done < len {
        let piece = (len - done).min(scratch.len() as u64) as usize;
        match read_at(file, &mut scratch[..piece], pos + done) {
            Ok(0) => return Ok(()),
            Ok(read) => done += read as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

const SYS_CACHESTAT: libc::c_long = 451; // The same on every architecture.
const PAGE: u64 = 4096;

#[repr(C)]
struct CacheRange {
    offset: u64,
    length: u64,
}

#[repr(C)]
#[derive(Default)]
struct CacheStat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

const _: () = assert!(size_of::<CacheRange>() == 16 && size_of::<CacheStat>() == 40);

fn pages(pos: u64, len: u64) -> u64 {
    let end = pos.saturating_add(len);
    end.div_ceil(PAGE) - pos / PAGE
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd;

    #[test]
    fn pages_are_counted_at_their_borders() {
        assert_eq!(pages(0, 1), 1);
        assert_eq!(pages(0, 4096), 1);
        assert_eq!(pages(4095, 2), 2);
        assert_eq!(pages(4096, 4097), 2);
    }

    #[test]
    fn prefetched_range_is_resident_and_dropped_range_is_not() {
        if !is_supported() {
            return; // Then is_resident always says no, and there is nothing to tell apart.
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, vec![7; 1 << 20]).unwrap();
        let file = File::open(&path).unwrap();
        file.sync_all().unwrap();
        assert!(is_resident(file.as_fd(), 0, 1 << 20));
        super::super::testing::drop_cache(&file);
        assert!(!is_resident(file.as_fd(), 0, 1 << 20));
        prefetch(file.as_fd(), 8192, 64 << 10).unwrap();
        assert!(is_resident(file.as_fd(), 8192, 64 << 10));
        prefetch(file.as_fd(), 5 << 20, 10).unwrap();
    }
}
