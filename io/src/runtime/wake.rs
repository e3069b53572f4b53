//! Waking a task of a core from another thread.
//!
//! The executor's own wakers may be cloned and dropped safely only on the core they belong to:
//! their state word is plain, and the last drop on a foreign thread races with the end of the
//! task. So no foreign thread ever holds one. What waits for a foreign thread registers a *slot*
//! of its core; the foreign side gets a [`RemoteWaker`], which writes the slot's number in the
//! core's ready list and rings the core's bell. The bell wakes one task that lives as long as
//! the core, the pump, and the pump wakes the slots' tasks from inside the core.
//!
//! The ready list holds each slot at most once, so it is bounded by the number of waiting tasks;
//! the bell is rung once for all that is written before the pump runs.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// The waiting side of one task: owns a slot of the core it was last polled on.
#[derive(Default)]
pub(crate) struct Waiter {
    remote: Option<Arc<RemoteWaker>>,
}

impl Waiter {
    /// A waker for this poll that any thread may clone, wake and drop.
    pub fn waker(&mut self, cx: &Context<'_>) -> Waker {
        HERE.with_borrow(|here| {
            let Some(here) = here else { return cx.waker().clone() };
            let mine = self.remote.as_ref().filter(|r| Arc::ptr_eq(&r.line, &here.line));
            let remote = match mine {
                Some(remote) => remote.clone(),
                None => {
                    let fresh = here.take_slot();
                    if let Some(old) = self.remote.replace(fresh.clone()) {
                        old.release(Some(here));
                    }
                    fresh
                }
            };
            here.arm(&remote, cx.waker());
            Waker::from(remote)
        })
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(remote) = self.remote.take() {
            // Thread-local storage may be gone when a thread ends; then so is the core.
            let _ = HERE.try_with(|here| match here.try_borrow() {
                Ok(here) => remote.release(here.as_deref()),
                Err(_) => remote.release(None),
            });
        }
    }
}

/// What foreign threads hold to wake one slot of a core.
pub(crate) struct RemoteWaker {
    line: Arc<Line>,
    slot: u32,
    /// The slot's number stands in the ready list.
    queued: AtomicBool,
    /// The waiter is gone; the pump frees the slot.
    abandoned: AtomicBool,
}

impl RemoteWaker {
    fn release(&self, here: Option<&LocalLine>) {
        match here {
            Some(here) if Arc::ptr_eq(&here.line, &self.line) => here.free_slot(self.slot),
            _ => {
                self.abandoned.store(true, Ordering::Release);
                self.line.enqueue(self);
            }
        }
    }
}

impl Wake for RemoteWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let local = HERE.try_with(|here| match here.try_borrow() {
            Ok(here) => here.as_ref().is_some_and(|here| {
                Arc::ptr_eq(&here.line, &self.line) && here.wake_slot(self.slot)
            }),
            Err(_) => false,
        });
        if !local.unwrap_or(false) {
            self.line.enqueue(self);
        }
    }
}

/// The shared part of a core: the ready list, the bell and the signs of life.
pub(crate) struct Line {
    ready: Mutex<Vec<u32>>,
    rung: AtomicBool,
    bell: Mutex<Option<Waker>>,
    /// Counts signs of life; read by the stall monitor.
    beats: AtomicU64,
    /// The number of the last poke, and of the last poke that the pump has seen.
    poked: AtomicU64,
    answered: AtomicU64,
}

impl Line {
    pub fn new() -> Arc<Line> {
        Arc::new(Line {
            ready: Mutex::new(Vec::new()),
            rung: AtomicBool::new(false),
            bell: Mutex::new(None),
            beats: AtomicU64::new(0),
            poked: AtomicU64::new(0),
            answered: AtomicU64::new(0),
        })
    }

    fn enqueue(&self, remote: &RemoteWaker) {
        if !remote.queued.swap(true, Ordering::AcqRel) {
            lock(&self.ready).push(remote.slot);
            self.ring();
        }
    }

    /// Rings once until the pump has run. The pump clears `rung` before it reads the ready list,
    /// so what was written before a suppressed ring is always seen.
    fn ring(&self) {
        if !self.rung.swap(true, Ordering::AcqRel)
            && let Some(pump) = lock(&self.bell).as_ref()
        {
            pump.wake_by_ref();
        }
    }

    /// Asks the core for a sign of life; [`Line::answered`] tells when it came.
    pub fn poke(&self) -> u64 {
        let number = self.poked.fetch_add(1, Ordering::AcqRel) + 1;
        self.ring();
        number
    }

    pub fn answered(&self) -> u64 {
        self.answered.load(Ordering::Acquire)
    }

    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// Counted only by the core itself, so no read-modify-write is needed.
    fn beat(&self) {
        let beats = self.beats.load(Ordering::Relaxed);
        self.beats.store(beats.wrapping_add(1), Ordering::Relaxed);
    }

    /// The pump answers; the sign of life is counted before the answer can be seen.
    fn answer(&self) {
        let poked = self.poked.load(Ordering::Acquire);
        self.beat();
        self.answered.store(poked, Ordering::Release);
    }

    #[cfg(test)]
    pub fn answer_for_test(&self) {
        self.answer();
    }
}

/// Counts a sign of life of the core this runs on. Nearly free; elsewhere it does nothing.
pub(crate) fn beat() {
    HERE.with_borrow(|here| {
        if let Some(here) = here {
            here.line.beat();
        }
    });
}

/// Makes this thread the core of `line` until the guard is dropped.
pub(crate) fn attach(line: Arc<Line>) -> Attached {
    let local = Rc::new(LocalLine { line, slots: RefCell::default() });
    HERE.with_borrow_mut(|here| {
        assert!(here.is_none(), "a thread can be one core only");
        *here = Some(local);
    });
    Attached { _private: () }
}

/// Undoes [`attach`] and takes the pump's waker out of foreign reach, on the core itself.
pub(crate) struct Attached {
    _private: (),
}

impl Drop for Attached {
    fn drop(&mut self) {
        let here = HERE.with_borrow_mut(Option::take);
        if let Some(here) = here {
            let bell = lock(&here.line.bell).take();
            drop(bell);
        }
    }
}

/// The task that wakes what foreign threads made ready. Runs until it is cancelled.
pub(crate) async fn pump() {
    let Some(here) = HERE.with_borrow(Option::clone) else {
        return;
    };
    let mut batch = Vec::new();
    poll_fn(move |cx| {
        let mut bell = lock(&here.line.bell);
        if !bell.as_ref().is_some_and(|old| old.will_wake(cx.waker())) {
            *bell = Some(cx.waker().clone());
        }
        drop(bell);
        here.line.rung.swap(false, Ordering::AcqRel);
        here.line.answer();
        super::breathe::looked(); // Foreign wakes arrive only when the executor looks for them.
        std::mem::swap(&mut batch, &mut *lock(&here.line.ready));
        for slot in batch.drain(..) {
            here.serve(slot);
        }
        Poll::<()>::Pending
    })
    .await
}

/// The core's own part: which task waits in which slot.
struct LocalLine {
    line: Arc<Line>,
    slots: RefCell<Slots>,
}

#[derive(Default)]
struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    remote: Arc<RemoteWaker>,
    local: Option<Waker>,
}

impl LocalLine {
    fn take_slot(&self) -> Arc<RemoteWaker> {
        let mut table = self.slots.borrow_mut();
        if let Some(slot) = table.free.pop() {
            let remote = &table.slots[slot as usize].remote;
            remote.abandoned.store(false, Ordering::Release);
            return remote.clone();
        }
        let count = table.slots.len();
        assert!(count < u32::MAX as usize, "waiting tasks {count} exceed the slot numbers");
        let remote = Arc::new(RemoteWaker {
            line: self.line.clone(),
            slot: count as u32,
            queued: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
        });
        table.slots.push(Slot { remote: remote.clone(), local: None });
        remote
    }

    fn arm(&self, remote: &RemoteWaker, waker: &Waker) {
        let mut table = self.slots.borrow_mut();
        let local = &mut table.slots[remote.slot as usize].local;
        if local.as_ref().is_some_and(|old| old.will_wake(waker)) {
            return;
        }
        let old = local.replace(waker.clone());
        drop(table);
        drop(old); // Outside the borrow: dropping a waker may run foreign code.
    }

    fn free_slot(&self, slot: u32) {
        let mut table = self.slots.borrow_mut();
        let waker = table.slots[slot as usize].local.take();
        table.free.push(slot);
        drop(table);
        drop(waker);
    }

    /// Wakes the task of a slot; false when the table is in use right now.
    fn wake_slot(&self, slot: u32) -> bool {
        let Ok(table) = self.slots.try_borrow() else { return false };
        if let Some(waker) = &table.slots[slot as usize].local {
            waker.wake_by_ref();
        }
        true
    }

    fn serve(&self, slot: u32) {
        let remote = self.slots.borrow().slots[slot as usize].remote.clone();
        // Cleared before the wake, so that a wake from now on is written again. A swap, because
        // it must see what the thread that found the slot queued wrote before.
        remote.queued.swap(false, Ordering::AcqRel);
        if remote.abandoned.swap(false, Ordering::AcqRel) {
            self.free_slot(slot);
        } else {
            self.wake_slot(slot);
        }
    }
}

/// The data under these locks is whole at every moment, so a panic elsewhere does not spoil it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    static HERE: RefCell<Option<Rc<LocalLine>>> = const { RefCell::new(None) };
}

#[cfg(test)]
#[path = "wake_tests.rs"]
mod tests;
