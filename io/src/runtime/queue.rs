//! A bounded queue between threads and cores, first in, first out, that can be closed.
//!
//! What makes it different from a channel crate's: closing and giving back are one step. After
//! [`Queue::close`] nothing enters any more, so nobody waits for an answer to something that lies
//! in a queue without a reader.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::wake::{Waiter, lock};

/// A handle on the queue; clones share it.
pub(crate) struct Queue<T>(Arc<Shared<T>>);

struct Shared<T> {
    state: Mutex<State<T>>,
    /// Told when an item comes or the queue is closed; for threads that take by blocking.
    filled: Condvar,
}

struct State<T> {
    items: VecDeque<T>,
    capacity: usize,
    closed: bool,
    /// The one core that waits for an item.
    taker: Option<Waker>,
    /// Those who wait for room, in order of arrival.
    givers: VecDeque<(u64, Waker)>,
    next_giver: u64,
}

/// Why an item did not enter; it is given back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused<T> {
    Full(T),
    Closed(T),
}

/// Why no item was taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Nothing {
    /// There is none now.
    Yet,
    /// There will never be one.
    More,
}

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Queue(self.0.clone())
    }
}

impl<T> Queue<T> {
    pub fn bounded(capacity: usize) -> Queue<T> {
        assert!(capacity > 0, "a queue of capacity {capacity} never takes anything");
        let state = State {
            items: VecDeque::new(),
            capacity,
            closed: false,
            taker: None,
            givers: VecDeque::new(),
            next_giver: 0,
        };
        Queue(Arc::new(Shared { state: Mutex::new(state), filled: Condvar::new() }))
    }

    pub fn len(&self) -> usize {
        lock(&self.0.state).items.len()
    }

    pub fn try_give(&self, item: T) -> Result<(), Refused<T>> {
        let mut state = lock(&self.0.state);
        if state.closed {
            return Err(Refused::Closed(item));
        }
        if state.items.len() >= state.capacity {
            return Err(Refused::Full(item));
        }
        state.items.push_back(item);
        let taker = state.taker.take();
        drop(state);
        match taker {
            Some(taker) => taker.wake(),
            None => self.0.filled.notify_one(),
        }
        Ok(())
    }

    /// Gives; waits for room. The error gives the item back: the queue is closed.
    pub fn give(&self, item: T) -> Give<'_, T> {
        Give { queue: self, item: Some(item), key: None, waiter: Waiter::default() }
    }

    /// Gives, and blocks the calling thread for room.
    pub fn give_blocking(&self, item: T) -> Result<(), T> {
        futures_lite::future::block_on(self.give(item))
    }

    pub fn try_take(&self) -> Result<T, Nothing> {
        let mut state = lock(&self.0.state);
        match state.items.pop_front() {
            Some(item) => {
                let giver = state.givers.pop_front();
                drop(state);
                if let Some((_, giver)) = giver {
                    giver.wake();
                }
                Ok(item)
            }
            None if state.closed => Err(Nothing::More),
            None => Err(Nothing::Yet),
        }
    }

    /// Takes; waits for an item. None: closed and empty. One task may wait at a time.
    pub fn take(&self) -> Take<'_, T> {
        Take { queue: self, waiter: Waiter::default() }
    }

    /// Takes, and blocks the calling thread for an item. Any number of threads may wait.
    pub fn take_blocking(&self) -> Option<T> {
        loop {
            match self.try_take() {
                Ok(item) => return Some(item),
                Err(Nothing::More) => return None,
                Err(Nothing::Yet) => {
                    let state: MutexGuard<'_, State<T>> = lock(&self.0.state);
                    let empty = |state: &mut State<T>| state.items.is_empty() && !state.closed;
                    let waited = self.0.filled.wait_while(state, empty);
                    drop(waited.unwrap_or_else(PoisonError::into_inner));
                }
            }
        }
    }

    /// Lets nothing in any more. What is inside can still be taken.
    pub fn close(&self) {
        let mut state = lock(&self.0.state);
        state.closed = true;
        let taker = state.taker.take();
        let givers = std::mem::take(&mut state.givers);
        drop(state);
        self.0.filled.notify_all();
        taker.into_iter().for_each(Waker::wake);
        givers.into_iter().for_each(|(_, giver)| giver.wake());
    }

    /// Closes, and drops what is inside.
    pub fn close_and_clear(&self) {
        self.close();
        let items = std::mem::take(&mut lock(&self.0.state).items);
        drop(items); // Outside the lock: dropping an item may run anything.
    }
}

/// The future of [`Queue::give`].
pub(crate) struct Give<'a, T> {
    queue: &'a Queue<T>,
    item: Option<T>,
    key: Option<u64>,
    waiter: Waiter,
}

impl<T> Unpin for Give<'_, T> {}

impl<T> Future for Give<'_, T> {
    type Output = Result<(), T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Some(item) = this.item.take() else {
            unreachable!("polled again after its end");
        };
        let item = match this.queue.try_give(item) {
            Ok(()) => return Poll::Ready(Ok(())),
            Err(Refused::Closed(item)) => return Poll::Ready(Err(item)),
            Err(Refused::Full(item)) => item,
        };
        this.item = Some(item);
        let waker = this.waiter.waker(cx);
        let mut state = lock(&this.queue.0.state);
        if state.closed || state.items.len() < state.capacity {
            drop(state);
            cx.waker().wake_by_ref(); // It changed in between: look again.
            return Poll::Pending;
        }
        let place = this.key.and_then(|key| state.givers.iter().position(|(k, _)| *k == key));
        match place {
            Some(place) => state.givers[place].1 = waker,
            None => {
                state.next_giver += 1;
                let key = state.next_giver;
                state.givers.push_back((key, waker));
                this.key = Some(key);
            }
        }
        Poll::Pending
    }
}

impl<T> Drop for Give<'_, T> {
    fn drop(&mut self) {
        let (Some(key), true) = (self.key, self.item.is_some()) else { return };
        let mut state = lock(&self.queue.0.state);
        let before = state.givers.len();
        state.givers.retain(|(k, _)| *k != key);
        // Woken, but gone before it could give: the room is for the next one.
        let next = if state.givers.len() == before && state.items.len() < state.capacity {
            state.givers.pop_front()
        } else {
            None
        };
        drop(state);
        if let Some((_, giver)) = next {
            giver.wake();
        }
    }
}

/// The future of [`Queue::take`].
pub(crate) struct Take<'a, T> {
    queue: &'a Queue<T>,
    waiter: Waiter,
}

impl<T> Future for Take<'_, T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let this = &mut *self;
        for registered in [false, true] {
            match this.queue.try_take() {
                Ok(item) => return Poll::Ready(Some(item)),
                Err(Nothing::More) => return Poll::Ready(None),
                Err(Nothing::Yet) if registered => break,
                Err(Nothing::Yet) => {
                    let waker = this.waiter.waker(cx);
                    let old = lock(&this.queue.0.state).taker.replace(waker);
                    drop(old);
                }
            }
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_lite::future::{block_on, poll_once};

    #[test]
    fn full_queue_refuses_and_closed_queue_gives_back() {
        let queue = Queue::bounded(1);
        queue.try_give(1).unwrap();
        assert_eq!(queue.try_give(2), Err(Refused::Full(2)));
        queue.close();
        assert_eq!(queue.try_give(3), Err(Refused::Closed(3)));
        assert_eq!(queue.give_blocking(4), Err(4));
        assert_eq!(queue.take_blocking(), Some(1), "what was inside is still taken");
        assert_eq!(queue.take_blocking(), None);
        assert_eq!(queue.try_take(), Err(Nothing::More));
    }

    #[test]
    fn closing_wakes_those_who_wait_on_either_side() {
        let queue = Queue::<u8>::bounded(1);
        let takers: Vec<_> = (0..3)
            .map(|_| {
                let queue = queue.clone();
                std::thread::spawn(move || queue.take_blocking())
            })
            .collect();
        crate::runtime::pause_thread(std::time::Duration::from_millis(20));
        queue.close();
        assert!(takers.into_iter().all(|taker| taker.join().unwrap().is_none()));
    }

    #[test]
    fn room_of_a_giver_who_went_away_goes_to_the_next() {
        block_on(async {
            let queue = Queue::bounded(1);
            queue.try_give(0).unwrap();
            let mut first = Box::pin(queue.give(1));
            let mut second = Box::pin(queue.give(2));
            assert!(poll_once(&mut first).await.is_none());
            assert!(poll_once(&mut second).await.is_none());
            assert_eq!(queue.try_take(), Ok(0)); // Wakes the first,
            drop(first); // which goes away.
            assert!(lock(&queue.0.state).givers.is_empty(), "the second was woken instead");
            assert_eq!(poll_once(&mut second).await, Some(Ok(())));
        });
    }

    #[test]
    fn many_givers_and_takers_lose_nothing() {
        let queue = Queue::bounded(3);
        let givers: Vec<_> = (0..4_u64)
            .map(|giver| {
                let queue = queue.clone();
                std::thread::spawn(move || {
                    (0..1000).for_each(|n| queue.give_blocking(giver * 1000 + n).unwrap());
                })
            })
            .collect();
        let takers: Vec<_> = (0..3)
            .map(|_| {
                let queue = queue.clone();
                std::thread::spawn(move || {
                    std::iter::from_fn(|| queue.take_blocking()).sum::<u64>()
                })
            })
            .collect();
        givers.into_iter().for_each(|giver| giver.join().unwrap());
        queue.close();
        let sum: u64 = takers.into_iter().map(|taker| taker.join().unwrap()).sum::<u64>();
        assert_eq!(sum, (0..4000).sum::<u64>());
    }
}
