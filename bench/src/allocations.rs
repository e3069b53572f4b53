//! A heap that counts what the current thread asks of it. Counts do not depend on the machine, so a
//! test can hold them to small fixed bounds where times would only be noise.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static COUNTED: Cell<Heap> = const { Cell::new(Heap { allocations: 0, bytes: 0 }) };
}

/// What was asked of the heap: new blocks and growths, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heap {
    pub allocations: u64,
    pub bytes: u64,
}

/// The system's heap, counting. Install it with `#[global_allocator]`.
pub struct Counting;

/// What `work` asks of the heap, on this thread. Without [`Counting`] installed: nothing.
pub fn counted<T>(work: impl FnOnce() -> T) -> (T, Heap) {
    let before = COUNTED.with(Cell::get);
    let out = work();
    let after = COUNTED.with(Cell::get);
    let heap = Heap {
        allocations: after.allocations - before.allocations,
        bytes: after.bytes - before.bytes,
    };
    (out, heap)
}

fn count(bytes: usize) {
    // A thread that is ending has no counter any more; nobody measures there.
    let _ = COUNTED.try_with(|cell| {
        let heap = cell.get();
        cell.set(Heap { allocations: heap.allocations + 1, bytes: heap.bytes + bytes as u64 });
    });
}

// SAFETY: every call is handed on to `System` unchanged, which keeps the contract of `GlobalAlloc`;
// counting touches a constant-initialised thread local without destructor and never allocates.
#[expect(unsafe_code, reason = "a global allocator can only be written so")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises about `layout` are those that `System` needs.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: as above; `block` came from `System`, since all blocks do.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}
