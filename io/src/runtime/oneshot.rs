//! One value from one place to another, once: the reply to a message, the result of a job.
//!
//! Both halves may live on any core or thread. The receiving half is awaited on a core or a
//! foreign runtime, or waited for by a plain thread.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use super::wake::{Waiter, lock};

/// A fresh pair. The value is stored in the one allocation made here.
pub fn oneshot<T>() -> (Promise<T>, Reply<T>) {
    let slot = Arc::new(Mutex::new(State::Waiting(None)));
    (Promise { slot: Some(slot.clone()) }, Reply { slot, waiter: Waiter::default() })
}

/// The duty to answer. Dropped without a value, the other side gets [`Unanswered`].
pub struct Promise<T> {
    slot: Option<Slot<T>>,
}

impl<T> std::fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = if self.is_abandoned() { "abandoned" } else { "awaited" };
        write!(f, "Promise({word})")
    }
}

impl<T> Promise<T> {
    /// Answers. Never waits.
    ///
    /// Errors: gives the value back when nobody waits for it any more.
    pub fn send(mut self, value: T) -> Result<(), T> {
        match self.slot.take() {
            Some(slot) => finish(&slot, State::Done(value)),
            None => Err(value),
        }
    }

    /// Whether the receiving half is gone, so that the work for the answer may be left out.
    pub fn is_abandoned(&self) -> bool {
        self.slot.as_ref().is_none_or(|slot| matches!(*lock(slot), State::Abandoned))
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            let _ = finish(&slot, State::Broken);
        }
    }
}

/// The answer to come: a future.
#[must_use = "an answer that nobody awaits is lost"]
pub struct Reply<T> {
    slot: Slot<T>,
    waiter: Waiter,
}

impl<T> Reply<T> {
    /// The answer, if it is there already. None also after it was taken.
    pub fn try_take(&mut self) -> Option<Result<T, Unanswered>> {
        take(&mut lock(&self.slot))
    }

    /// Waits on a plain thread. Must not be called on a core: it would block it.
    pub fn wait(self) -> Result<T, Unanswered> {
        futures_lite::future::block_on(self)
    }
}

impl<T> Future for Reply<T> {
    type Output = Result<T, Unanswered>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(done) = self.try_take() {
            return Poll::Ready(done);
        }
        let waker = self.waiter.waker(cx);
        let mut state = lock(&self.slot);
        if let Some(done) = take(&mut state) {
            return Poll::Ready(done);
        }
        match &mut *state {
            State::Waiting(waiting) => {
                let old = waiting.replace(waker);
                drop(state);
                drop(old);
                Poll::Pending
            }
            // The value was taken before: the future was polled again after its end.
            _ => Poll::Ready(Err(Unanswered)),
        }
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        let old = std::mem::replace(&mut *lock(&self.slot), State::Abandoned);
        drop(old);
    }
}

/// The other side went away without an answer: it stopped, or its work was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unanswered;

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the other side stopped without an answer")
    }
}

impl std::error::Error for Unanswered {}

type Slot<T> = Arc<Mutex<State<T>>>;

enum State<T> {
    Waiting(Option<Waker>),
    Done(T),
    /// The promise was dropped.
    Broken,
    /// The reply was taken or dropped.
    Abandoned,
}

fn finish<T>(slot: &Slot<T>, end: State<T>) -> Result<(), T> {
    let mut state = lock(slot);
    let State::Waiting(waker) = &mut *state else {
        drop(state);
        return match end {
            State::Done(value) => Err(value),
            _ => Ok(()),
        };
    };
    let waker = waker.take();
    *state = end;
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
    Ok(())
}

fn take<T>(state: &mut State<T>) -> Option<Result<T, Unanswered>> {
    match state {
        State::Waiting(_) | State::Abandoned => None,
        State::Done(_) | State::Broken => match std::mem::replace(state, State::Abandoned) {
            State::Done(value) => Some(Ok(value)),
            _ => Some(Err(Unanswered)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_sent_before_and_after_the_wait_arrives_once() {
        let (promise, reply) = oneshot();
        promise.send(7).unwrap();
        assert_eq!(reply.wait(), Ok(7));

        let (promise, reply) = oneshot();
        let sender = std::thread::spawn(move || {
            crate::runtime::pause_thread(std::time::Duration::from_millis(20));
            promise.send(8).unwrap();
        });
        assert_eq!(reply.wait(), Ok(8));
        sender.join().unwrap();
    }

    #[test]
    fn dropped_promise_ends_the_wait_with_an_error() {
        let (promise, reply) = oneshot::<u8>();
        drop(promise);
        assert_eq!(reply.wait(), Err(Unanswered));
    }

    #[test]
    fn value_comes_back_when_nobody_waits() {
        let (promise, reply) = oneshot();
        assert!(!promise.is_abandoned());
        drop(reply);
        assert!(promise.is_abandoned());
        assert_eq!(promise.send("late"), Err("late"));
    }
}
