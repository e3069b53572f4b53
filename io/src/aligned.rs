//! Block-aligned memory for direct reads and writes of the blocking disks.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};

use crate::limits::BLOCK_BYTES;

/// A zeroed buffer that starts at a block boundary and is a whole number of blocks long.
///
/// Owned by one thread at a time; may move between threads.
pub struct AlignedBuf {
    start: NonNull<u8>,
    len: usize,
}

impl AlignedBuf {
    /// A buffer of `len` zero bytes.
    ///
    /// # Panics
    /// When `len` is zero or not a whole number of blocks.
    pub fn zeroed(len: usize) -> AlignedBuf {
        let layout = layout_of(len);
        // SAFETY: the layout has a size above zero, as `layout_of` asserts.
        #[expect(unsafe_code, reason = "memory aligned to blocks has no safe allocator")]
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => AlignedBuf { start, len },
            None => handle_alloc_error(layout),
        }
    }

    /// A buffer that holds `bytes`, filled up with zeros to a whole number of blocks.
    ///
    /// # Panics
    /// When `bytes` is empty.
    pub fn padded(bytes: &[u8]) -> AlignedBuf {
        AlignedBuf::of(&[bytes])
    }

    /// A buffer that holds the bytes of `slices`, one behind the other, filled up with zeros to a whole
    /// number of blocks.
    ///
    /// # Panics
    /// When there are none.
    pub fn of(slices: &[&[u8]]) -> AlignedBuf {
        let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        let len = bytes.next_multiple_of(BLOCK_BYTES);
        let layout = layout_of(len);
        // SAFETY: the layout has a size above zero, as `layout_of` asserts.
        #[expect(unsafe_code, reason = "zeroing first would cost as much as the copy")]
        let Some(start) = NonNull::new(unsafe { alloc(layout) }) else {
            handle_alloc_error(layout)
        };
        let mut done = 0;
        for slice in slices {
            // SAFETY: `done` and the slice's length add up to at most `bytes`, within the allocation;
            // nobody else has a reference into it yet.
            #[expect(unsafe_code, reason = "the memory is not initialised before")]
            unsafe {
                ptr::copy_nonoverlapping(slice.as_ptr(), start.as_ptr().add(done), slice.len());
            }
            done += slice.len();
        }
        // SAFETY: `[done, len)` is the rest of the allocation; with it all of `len` is initialised.
        #[expect(unsafe_code, reason = "the memory is not initialised before")]
        unsafe {
            ptr::write_bytes(start.as_ptr().add(done), 0, len - done);
        }
        AlignedBuf { start, len }
    }
}

#[track_caller]
fn layout_of(len: usize) -> Layout {
    assert!(len > 0 && len.is_multiple_of(BLOCK_BYTES), "{len} bytes are not whole blocks");
    match Layout::from_size_align(len, BLOCK_BYTES) {
        Ok(layout) => layout,
        Err(_) => panic!("a buffer of {len} bytes is larger than memory can be"),
    }
}

impl AsRef<[u8]> for AlignedBuf {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `start` points at `len` initialised bytes of one allocation that lives as long as
        // `self`, and nobody writes them while `self` is borrowed shared.
        #[expect(unsafe_code, reason = "the slice over our own allocation")]
        unsafe {
            std::slice::from_raw_parts(self.start.as_ptr(), self.len)
        }
    }
}

impl AsMut<[u8]> for AlignedBuf {
    #[inline]
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `as_ref`, and `&mut self` makes this the only borrow.
        #[expect(unsafe_code, reason = "the slice over our own allocation")]
        unsafe {
            std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len)
        }
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        // SAFETY: `start` came from the allocator with this very layout and is freed once.
        #[expect(unsafe_code, reason = "the other half of the allocation")]
        unsafe {
            dealloc(self.start.as_ptr(), layout_of(self.len));
        }
    }
}

// SAFETY: the buffer is the only owner of its memory; nothing in it is tied to a thread.
#[expect(unsafe_code, reason = "a raw pointer hides that the memory is owned")]
unsafe impl Send for AlignedBuf {}

// SAFETY: a shared borrow gives only shared access to the bytes.
#[expect(unsafe_code, reason = "a raw pointer hides that the memory is owned")]
unsafe impl Sync for AlignedBuf {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_is_aligned_zeroed_and_padded() {
        let buf = AlignedBuf::padded(&[7; BLOCK_BYTES + 1]);
        assert_eq!(buf.as_ref().len(), 2 * BLOCK_BYTES);
        assert!(buf.as_ref().as_ptr().addr().is_multiple_of(BLOCK_BYTES));
        assert_eq!(buf.as_ref()[BLOCK_BYTES], 7);
        assert!(buf.as_ref()[BLOCK_BYTES + 1..].iter().all(|b| *b == 0));
    }

    #[test]
    #[should_panic(expected = "not whole blocks")]
    fn odd_length_is_refused() {
        AlignedBuf::zeroed(BLOCK_BYTES - 1);
    }
}
