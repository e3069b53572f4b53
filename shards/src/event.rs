//! Telling the tasks of one core that something changed.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// An event of one core. Look at [`Event::seen`], then at the condition, and when it does not hold
/// wait with [`Event::since`]: a signal in between is not lost. Clones share the event.
#[derive(Clone, Default)]
pub struct Event(Rc<Inner>);

#[derive(Default)]
struct Inner {
    signals: Cell<u64>,
    waiting: RefCell<Vec<Waker>>,
}

impl Event {
    pub fn new() -> Event {
        Event::default()
    }

    /// Wakes everybody who waits.
    pub fn signal(&self) {
        self.0.signals.set(self.0.signals.get() + 1);
        let waiting = self.0.waiting.take();
        waiting.into_iter().for_each(Waker::wake);
    }

    /// How many signals there have been.
    pub fn seen(&self) -> u64 {
        self.0.signals.get()
    }

    /// Waits for a signal after the first `seen`.
    pub async fn since(&self, seen: u64) {
        poll_fn(|cx| {
            if self.seen() != seen {
                return Poll::Ready(());
            }
            let mut waiting = self.0.waiting.borrow_mut();
            if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Event({} signals)", self.seen())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_lite::future::{block_on, poll_once};

    #[test]
    fn signal_between_the_look_and_the_wait_is_not_lost() {
        let event = Event::new();
        let seen = event.seen();
        event.signal();
        block_on(event.since(seen));
        let seen = event.seen();
        let mut wait = Box::pin(event.since(seen));
        assert_eq!(block_on(poll_once(&mut wait)), None);
        event.signal();
        assert_eq!(block_on(poll_once(&mut wait)), Some(()));
    }
}
