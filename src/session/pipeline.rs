//! The requests of one connection between reading and answering: answered in their order, bounded
//! in number and bytes.

use super::limits::{REQUEST_BYTES_IN_FLIGHT_MAX, REQUESTS_IN_FLIGHT_MAX};
use super::memory::Held;
use crate::api::{Answer, Close};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Poll, Waker};

/// A handler at work, or its answer when it was done before it got in line.
pub enum Work {
    Done(Result<Answer, Close>),
    Running(Pin<Box<dyn Future<Output = Result<Answer, Close>>>>),
}

/// One request in line.
pub struct InFlight {
    pub work: Work,
    /// Whether a later request may be begun before this one is answered.
    pub two_stage: bool,
    pub bytes: usize,
    /// The request's share of the core's memory.
    pub held: Held,
}

/// The line. The reader of the connection puts in, its writer takes out; both belong to one task,
/// so the one waker serves both.
#[derive(Default)]
pub struct Pipeline {
    line: RefCell<VecDeque<InFlight>>,
    /// Requests in line and the one that is being answered.
    count: Cell<usize>,
    bytes: Cell<usize>,
    /// Those of `count` that are answered before anything behind them is begun.
    single_stage: Cell<usize>,
    /// Nothing more comes in.
    closed: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl Pipeline {
    /// Waits until another request may be read.
    pub async fn room(&self) {
        self.until(|| {
            self.count.get() < REQUESTS_IN_FLIGHT_MAX
                && self.bytes.get() < REQUEST_BYTES_IN_FLIGHT_MAX
        })
        .await;
    }

    /// Waits until every request before has its order fixed, so that the next may be begun.
    pub async fn begun_before(&self) {
        self.until(|| self.single_stage.get() == 0).await;
    }

    /// Waits until no request is in line or being answered, or none is answered any more.
    pub async fn idle(&self) {
        self.until(|| self.is_idle() || self.closed.get()).await;
    }

    /// Puts a request in line.
    pub fn push(&self, request: InFlight) {
        self.count.set(self.count.get() + 1);
        self.bytes.set(self.bytes.get() + request.bytes);
        if !request.two_stage {
            self.single_stage.set(self.single_stage.get() + 1);
        }
        self.line.borrow_mut().push_back(request);
        self.wake();
    }

    /// The next request to answer; `None` when the line is closed and empty. [`Pipeline::answered`]
    /// has to be called for it.
    pub async fn next(&self) -> Option<InFlight> {
        let mut taken = None;
        self.until(|| {
            taken = self.line.borrow_mut().pop_front();
            taken.is_some() || self.closed.get()
        })
        .await;
        taken
    }

    /// A request is answered.
    pub fn answered(&self, bytes: usize, two_stage: bool) {
        self.count.set(self.count.get() - 1);
        self.bytes.set(self.bytes.get() - bytes);
        if !two_stage {
            self.single_stage.set(self.single_stage.get() - 1);
        }
        self.wake();
    }

    /// Nothing more comes in; what is in line is still answered.
    pub fn close(&self) {
        self.closed.set(true);
        self.wake();
    }

    /// Nothing is answered any more: the line is emptied.
    pub fn abandon(&self) {
        self.close();
        let dropped = self.line.take();
        for request in dropped {
            self.answered(request.bytes, request.two_stage);
        }
    }

    pub fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Whether no request is in line or being answered.
    pub fn is_idle(&self) -> bool {
        self.count.get() == 0
    }

    async fn until(&self, mut is_so: impl FnMut() -> bool) {
        poll_fn(|cx| {
            if is_so() {
                return Poll::Ready(());
            }
            self.waker.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::RequestMemory;
    use super::*;
    use futures_lite::future::{block_on, poll_once};

    async fn request(bytes: usize, two_stage: bool) -> InFlight {
        let held = RequestMemory::new(usize::MAX / 4).begin().await;
        InFlight { work: Work::Done(Ok(Answer::Nothing)), two_stage, bytes, held }
    }

    #[test]
    fn requests_leave_in_the_order_they_came() {
        block_on(async {
            let line = Pipeline::default();
            for bytes in 1..=3 {
                line.push(request(bytes, true).await);
            }
            line.close();
            for bytes in 1..=3 {
                let next = line.next().await.unwrap();
                assert_eq!(next.bytes, bytes);
                line.answered(bytes, true);
            }
            assert!(line.next().await.is_none());
            assert!(line.is_idle());
        });
    }

    #[test]
    fn full_line_has_no_room_by_count_or_by_bytes() {
        block_on(async {
            let line = Pipeline::default();
            for _ in 0..REQUESTS_IN_FLIGHT_MAX {
                assert!(poll_once(line.room()).await.is_some());
                line.push(request(1, true).await);
            }
            assert!(poll_once(line.room()).await.is_none());
            line.abandon();
            line.push(request(REQUEST_BYTES_IN_FLIGHT_MAX, true).await);
            assert!(poll_once(line.room()).await.is_none());
        });
    }

    #[test]
    fn next_produce_waits_for_a_request_that_is_answered_in_one_stage() {
        block_on(async {
            let line = Pipeline::default();
            line.push(request(1, true).await);
            assert!(poll_once(line.begun_before()).await.is_some());
            line.push(request(1, false).await);
            assert!(poll_once(line.begun_before()).await.is_none());
            let first = line.next().await.unwrap();
            line.answered(first.bytes, first.two_stage);
            assert!(poll_once(line.begun_before()).await.is_none());
            let second = line.next().await.unwrap();
            line.answered(second.bytes, second.two_stage);
            assert!(poll_once(line.begun_before()).await.is_some());
        });
    }
}
