//! Breathing: letting the executor look at its rings in the middle of long work.
//!
//! The executor polls for I/O only when no task is runnable, and a task that merely yields stays
//! runnable: beside such a task a request waits 100-200 ms. A breath parks the task for a few
//! microseconds, so that the executor reaches its rings.

use std::time::Instant;

use super::executor::sleep;
use super::limits::{BREATH, BREATHE_AFTER, BREATHE_BYTES};

/// Parks the calling task once, for a few microseconds.
pub async fn breathe() {
    sleep(BREATH).await;
}

/// Counts the work of one loop and says when to breathe: after about 1 MiB or 200 microseconds,
/// whichever comes first. One per loop; the clock is read once per call of [`Breather::after`].
#[derive(Debug)]
pub struct Breather {
    bytes: usize,
    since: Instant,
}

impl Default for Breather {
    fn default() -> Self {
        Breather::new()
    }
}

impl Breather {
    pub fn new() -> Breather {
        Breather { bytes: 0, since: Instant::now() }
    }

    /// Accounts one step of `bytes` (0 for work that is not measured in bytes) and breathes when
    /// it is time. Call it once per piece or per batch, never per record.
    pub async fn after(&mut self, bytes: usize) {
        if self.due(bytes, Instant::now()) {
            breathe().await;
            self.since = Instant::now();
        }
    }

    /// The decision behind [`Breather::after`], for loops that await by themselves.
    pub fn due(&mut self, bytes: usize, now: Instant) -> bool {
        self.bytes = self.bytes.saturating_add(bytes);
        let due = self.bytes >= BREATHE_BYTES
            || now.saturating_duration_since(self.since) >= BREATHE_AFTER;
        if due {
            self.bytes = 0;
            self.since = now;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breath_is_due_after_a_mebibyte_or_after_the_time() {
        let mut breather = Breather::new();
        let start = breather.since;
        assert!(!breather.due(BREATHE_BYTES - 1, start));
        assert!(breather.due(1, start));
        assert!(!breather.due(1, start), "the count starts anew after a breath");
        assert!(breather.due(0, start + BREATHE_AFTER));
    }
}
