//! Ordered stop: the word to stop, told to everyone at once, and the gate that is empty when the
//! last one has left.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::executor::{Queue, spawn, timeout};
use super::wake::{Waiter, lock};

/// The word to stop: given once by any thread, heard by every core and thread that holds a clone.
#[derive(Clone, Default)]
pub struct Stop(Arc<StopInner>);

#[derive(Default)]
struct StopInner {
    given: AtomicBool,
    waiting: Mutex<Listeners>,
}

#[derive(Default)]
struct Listeners {
    next: u64,
    wakers: HashMap<u64, Waker>,
}

impl Stop {
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Gives the word. Again is harmless.
    pub fn trigger(&self) {
        if self.0.given.swap(true, Ordering::AcqRel) {
            return;
        }
        let woken = std::mem::take(&mut lock(&self.0.waiting).wakers);
        woken.into_values().for_each(Waker::wake);
    }

    pub fn is_given(&self) -> bool {
        self.0.given.load(Ordering::Acquire)
    }

    /// Waits for the word. Make one future for each waiting task and keep it over a loop.
    pub fn stopped(&self) -> Stopped {
        Stopped { stop: self.clone(), key: None, waiter: Waiter::default() }
    }

    /// Waits on a plain thread.
    pub fn wait(&self) {
        futures_lite::future::block_on(self.stopped());
    }
}

/// The future of [`Stop::stopped`].
pub struct Stopped {
    stop: Stop,
    key: Option<u64>,
    waiter: Waiter,
}

impl Future for Stopped {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.stop.is_given() {
            return Poll::Ready(());
        }
        let waker = self.waiter.waker(cx);
        let this = &mut *self;
        let mut waiting = lock(&this.stop.0.waiting);
        // Asked again under the lock: the word may have been given since.
        if this.stop.is_given() {
            return Poll::Ready(());
        }
        let key = *this.key.get_or_insert_with(|| {
            waiting.next += 1;
            waiting.next
        });
        let old = waiting.wakers.insert(key, waker);
        drop(waiting);
        drop(old);
        Poll::Pending
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let old = lock(&self.stop.0.waiting).wakers.remove(&key);
            drop(old);
        }
    }
}

/// A gate of one core: tasks enter and leave, and once it is closed nobody enters any more. The
/// stop of a floor is: close its gate, wait until it is empty.
#[derive(Clone, Default)]
pub struct Gate(Rc<GateInner>);

#[derive(Default)]
struct GateInner {
    inside: Cell<usize>,
    closed: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

impl Gate {
    pub fn new() -> Gate {
        Gate::default()
    }

    /// Enters; leaving is dropping the pass.
    pub fn enter(&self) -> Result<Pass, GateClosed> {
        if self.0.closed.get() {
            return Err(GateClosed);
        }
        self.0.inside.set(self.0.inside.get() + 1);
        Ok(Pass(self.clone()))
    }

    /// Spawns a task that is inside the gate until it ends.
    pub fn spawn(
        &self,
        queue: Queue,
        future: impl Future<Output = ()> + 'static,
    ) -> Result<(), GateClosed> {
        let pass = self.enter()?;
        spawn(queue, async move {
            future.await;
            drop(pass);
        })
        .detach();
        Ok(())
    }

    /// How many are inside.
    pub fn inside(&self) -> usize {
        self.0.inside.get()
    }

    /// Lets nobody in any more.
    pub fn close(&self) {
        self.0.closed.set(true);
    }

    pub fn is_closed(&self) -> bool {
        self.0.closed.get()
    }

    /// Waits until nobody is inside. Close the gate first, or others may enter meanwhile.
    pub async fn drained(&self) {
        poll_fn(|cx| {
            if self.0.inside.get() == 0 {
                return Poll::Ready(());
            }
            self.0.waiting.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Closes the gate and waits at most `time` until it is empty.
    ///
    /// Errors: how many were still inside then.
    pub async fn close_and_drain(&self, time: Duration) -> Result<(), StillInside> {
        self.close();
        match timeout(time, self.drained()).await {
            Ok(()) => Ok(()),
            Err(_) => Err(StillInside { count: self.inside(), time }),
        }
    }
}

/// Being inside a [`Gate`].
pub struct Pass(Gate);

impl Drop for Pass {
    fn drop(&mut self) {
        let gate = &self.0.0;
        let inside = gate.inside.get();
        assert!(inside > 0, "left a gate with {inside} inside");
        gate.inside.set(inside - 1);
        if inside == 1 {
            let waiting = gate.waiting.take();
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

/// The gate was closed: the floor is stopping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateClosed;

impl fmt::Display for GateClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("stopping: nothing new is begun")
    }
}

impl std::error::Error for GateClosed {}

/// The deadline of a stop passed with tasks still at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StillInside {
    pub count: usize,
    pub time: Duration,
}

impl fmt::Display for StillInside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tasks had not ended after {:?}", self.count, self.time)
    }
}

impl std::error::Error for StillInside {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::executor::{run_alone, sleep};

    #[test]
    fn word_to_stop_reaches_a_core_and_a_thread() {
        let stop = Stop::new();
        let thread = std::thread::spawn({
            let stop = stop.clone();
            move || stop.wait()
        });
        let giver = std::thread::spawn({
            let stop = stop.clone();
            move || {
                crate::runtime::pause_thread(Duration::from_millis(30));
                stop.trigger();
                stop.trigger();
            }
        });
        run_alone({
            let stop = stop.clone();
            move |_| async move { stop.stopped().await }
        });
        thread.join().unwrap();
        giver.join().unwrap();
        assert!(stop.is_given());
        assert!(lock(&stop.0.waiting).wakers.is_empty(), "nobody is left on the list");
    }

    #[test]
    fn closed_gate_lets_nobody_in_and_is_drained_by_the_last_who_leaves() {
        run_alone(|_| async {
            let gate = Gate::new();
            let inner = gate.clone();
            gate.spawn(Queue::Serve, async move {
                sleep(Duration::from_millis(20)).await;
                assert!(inner.enter().is_err(), "the gate is closed by now");
            })
            .unwrap();
            assert_eq!(gate.inside(), 1);
            gate.close_and_drain(Duration::from_secs(10)).await.unwrap();
            assert_eq!(gate.inside(), 0);
        });
    }

    #[test]
    fn drain_gives_up_at_its_deadline_and_says_how_many_are_left() {
        run_alone(|_| async {
            let gate = Gate::new();
            let pass = gate.enter().unwrap();
            let left = gate.close_and_drain(Duration::from_millis(10)).await.unwrap_err();
            assert_eq!(left.count, 1);
            drop(pass);
            gate.drained().await;
        });
    }
}
