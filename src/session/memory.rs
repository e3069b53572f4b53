//! Bytes of requests that one core holds: a bound that makes doors stop reading.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The request memory of one core. Clones share it.
#[derive(Clone)]
pub struct RequestMemory(Rc<Inner>);

struct Inner {
    limit: usize,
    used: Cell<usize>,
    waiting: RefCell<Vec<Waker>>,
}

impl RequestMemory {
    pub fn new(limit: usize) -> RequestMemory {
        RequestMemory(Rc::new(Inner {
            limit,
            used: Cell::new(0),
            waiting: RefCell::new(Vec::new()),
        }))
    }

    /// Waits until a request may be begun, and begins one of no bytes.
    pub async fn begin(&self) -> Held {
        self.wait_below(self.0.limit).await;
        Held { memory: self.clone(), bytes: 0 }
    }

    pub fn used(&self) -> usize {
        self.0.used.get()
    }

    async fn wait_below(&self, limit: usize) {
        poll_fn(|cx| {
            if self.0.used.get() < limit {
                return Poll::Ready(());
            }
            self.0.waiting.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// The bytes that one request holds, given back when it is dropped.
pub struct Held {
    memory: RequestMemory,
    bytes: usize,
}

impl Held {
    /// Counts bytes that have come; waits while twice the bound is in use. Half-read requests wait
    /// so that a whole one can always be finished; who stays half-read is closed by its deadline.
    pub async fn grow(&mut self, bytes: usize) {
        self.add(bytes);
        if self.memory.0.used.get() > 2 * self.memory.0.limit {
            self.memory.wait_below(2 * self.memory.0.limit).await;
        }
    }

    /// Counts bytes without waiting.
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.memory.0.used.set(self.memory.0.used.get() + bytes);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let inner = &self.memory.0;
        let used = inner.used.get();
        assert!(used >= self.bytes, "{} bytes given back of {used}", self.bytes);
        inner.used.set(used - self.bytes);
        let waiting = inner.waiting.take();
        waiting.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_lite::future::{block_on, poll_once};

    #[test]
    fn full_memory_begins_no_request_until_one_is_done() {
        block_on(async {
            let memory = RequestMemory::new(100);
            let mut first = memory.begin().await;
            first.add(100);
            assert!(poll_once(memory.begin()).await.is_none());
            drop(first);
            assert!(poll_once(memory.begin()).await.is_some());
            assert_eq!(memory.used(), 0);
        });
    }

    #[test]
    fn half_read_request_goes_on_up_to_twice_the_bound() {
        block_on(async {
            let memory = RequestMemory::new(100);
            let mut first = memory.begin().await;
            let mut second = memory.begin().await;
            assert!(poll_once(first.grow(150)).await.is_some());
            assert!(poll_once(second.grow(60)).await.is_none());
            assert_eq!(memory.used(), 210);
        });
    }
}
