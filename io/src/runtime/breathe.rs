//! Breathing: letting the executor look at its rings in the middle of work.
//!
//! The executor polls for I/O only when no task is runnable, and a task that merely yields stays
//! runnable: beside such a task a request waits 100-200 ms. So does a request beside tasks that
//! keep each other runnable without ever waiting for I/O. A breath parks the task for a few
//! microseconds; when every busy task takes one, the executor reaches its rings.

use std::cell::Cell;
use std::time::Instant;

use super::executor::sleep;
use super::limits::{BREATH, BREATHE_AFTER, BREATHE_BYTES};

/// Parks the calling task once, for a few microseconds.
pub async fn breathe() {
    sleep(BREATH).await;
}

/// Breathes if this core has not looked at its rings for `BREATHE_AFTER` (200 microseconds), else
/// goes on at once. Reads the clock. Reading from a connection and receiving from a mailbox pass
/// here by themselves; other loops that may always find their next item ready should too.
pub async fn checkpoint() {
    if is_stale(Instant::now()) {
        breathe().await;
    }
}

/// Counts the work of one loop and breathes when it is time: after about 1 MiB, or when the core
/// has not looked at its rings for 200 microseconds, whichever comes first.
#[derive(Debug, Default)]
pub struct Breather {
    bytes: usize,
}

impl Breather {
    pub fn new() -> Breather {
        Breather::default()
    }

    /// Accounts one step of `bytes` (0 for work that is not measured in bytes) and breathes when
    /// it is time. Call it once per piece or per batch, never per record: it reads the clock.
    pub async fn after(&mut self, bytes: usize) {
        if self.full(bytes) || is_stale(Instant::now()) {
            self.bytes = 0;
            breathe().await;
        }
    }

    fn full(&mut self, bytes: usize) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        self.bytes >= BREATHE_BYTES
    }
}

/// Notes that this core looks at its rings: called by what runs only after such a look.
pub(super) fn looked() {
    LAST_LOOK.set(Some(Instant::now()));
}

/// Whether the last look is too long ago. The first question of a thread begins the count.
pub(super) fn is_stale(now: Instant) -> bool {
    match LAST_LOOK.get() {
        Some(last) => now.saturating_duration_since(last) >= BREATHE_AFTER,
        None => {
            LAST_LOOK.set(Some(now));
            false
        }
    }
}

thread_local! {
    static LAST_LOOK: Cell<Option<Instant>> = const { Cell::new(None) };
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::Duration;

    use super::*;
    use crate::runtime::executor::{Queue, run_alone, spawn};

    #[test]
    fn breath_is_due_after_a_mebibyte_or_when_the_last_look_is_too_old() {
        let mut breather = Breather::new();
        assert!(!breather.full(BREATHE_BYTES - 1));
        assert!(breather.full(1));
        let now = Instant::now();
        assert!(!is_stale(now), "the first question begins the count");
        assert!(!is_stale(now + BREATHE_AFTER / 2));
        assert!(is_stale(now + BREATHE_AFTER));
        looked();
        assert!(!is_stale(Instant::now()));
    }

    /// Two tasks that wake each other without end would keep the executor from its timers; with
    /// checkpoints a third task's sleep ends.
    #[test]
    fn tasks_that_keep_each_other_runnable_do_not_hold_up_the_rings() {
        run_alone(|_| async {
            let done = Rc::new(Cell::new(false));
            let turns = Rc::new(RefCell::new(0_u64));
            let busy: Vec<_> = (0..2)
                .map(|_| {
                    let (done, turns) = (done.clone(), turns.clone());
                    spawn(Queue::Serve, async move {
                        while !done.get() {
                            *turns.borrow_mut() += 1;
                            futures_lite::future::yield_now().await;
                            checkpoint().await;
                        }
                    })
                })
                .collect();
            let begin = Instant::now();
            for _ in 0..50 {
                sleep(Duration::from_micros(100)).await;
            }
            let took = begin.elapsed();
            done.set(true);
            for task in busy {
                task.await;
            }
            assert!(*turns.borrow() > 1000, "the two were busy indeed");
            // Without checkpoints each sleep takes the preemption timer's 100 ms: 5 seconds.
            assert!(took < Duration::from_secs(2), "fifty sleeps of 100 us took {took:?}");
        });
    }
}
