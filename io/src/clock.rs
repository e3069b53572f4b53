//! Wall time and monotonic time behind one trait.
//!
//! Decisions take time as an argument; only shells ask a clock. The simulator and the tests use
//! [`ManualClock`], which moves only when told.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::units::TimestampMs;

/// A source of time. Any core.
pub trait Clock: Clone + Send + Sync + 'static {
    /// Milliseconds since 1970-01-01 UTC. May step in both directions; for stamps and retention.
    fn wall(&self) -> TimestampMs;

    /// Time since an arbitrary fixed point. Never goes back; for deadlines and sessions.
    fn monotonic(&self) -> Duration;
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    pub fn new() -> SystemClock {
        SystemClock { started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn wall(&self) -> TimestampMs {
        let ms = |d: Duration| i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => TimestampMs::new(ms(after)),
            Err(before) => TimestampMs::new(-ms(before.duration())),
        }
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}

/// A clock that moves only when told; clones share their time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    wall_ms: Arc<AtomicI64>,
    monotonic_us: Arc<AtomicU64>,
}

impl ManualClock {
    pub fn at(wall: TimestampMs) -> ManualClock {
        let clock = ManualClock::default();
        clock.wall_ms.store(wall.get(), Ordering::Relaxed);
        clock
    }

    /// Lets time pass on both clocks.
    pub fn advance(&self, by: Duration) {
        let us = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        let ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.monotonic_us.fetch_add(us, Ordering::Relaxed);
        self.wall_ms.fetch_add(ms, Ordering::Relaxed);
    }

    /// Steps the wall clock alone, as an operator or a time daemon does.
    pub fn step_wall(&self, to: TimestampMs) {
        self.wall_ms.store(to.get(), Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> TimestampMs {
        TimestampMs::new(self.wall_ms.load(Ordering::Relaxed))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.monotonic_us.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stepping_the_wall_leaves_monotonic_time_alone() {
        let clock = ManualClock::at(TimestampMs::new(1000));
        clock.advance(Duration::from_millis(5));
        clock.step_wall(TimestampMs::new(10));
        assert_eq!(clock.monotonic(), Duration::from_millis(5));
        assert_eq!(clock.wall(), TimestampMs::new(10));
    }

    #[test]
    fn system_clock_is_after_2020() {
        assert!(SystemClock::new().wall() > TimestampMs::new(1_577_836_800_000));
    }
}
