//! What a connection is doing, so that one task a core can end those that are idle or too slow.

use super::limits::{REQUEST_READ_RATE_MIN, REQUEST_READ_TIME_MIN};
use std::cell::Cell;

/// Seconds since the door opened, as counted by the reaper's beat. Requests read no clock.
pub type Beat = u32;

/// What the reading side of a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// It waits for the first byte of a request.
    ForRequest { since: Beat },
    /// It has some bytes of a request.
    Request { since: Beat, last: Beat, declared: Option<usize> },
    /// It does not read: earlier requests have to be answered first.
    Paused,
}

/// Why a connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    Idle,
    SlowRequest,
}

impl std::fmt::Display for Overdue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Idle => "it was idle for longer than connections.max.idle.ms",
            Self::SlowRequest => "its request came too slowly",
        })
    }
}

/// Kept by the connection, read by the reaper of the same core.
#[derive(Debug)]
pub struct Marks {
    reading: Cell<Reading>,
}

impl Marks {
    pub fn new(now: Beat) -> Marks {
        Marks { reading: Cell::new(Reading::ForRequest { since: now }) }
    }

    pub fn set(&self, reading: Reading) {
        self.reading.set(reading);
    }

    /// Notes that bytes of a request came; the time counts from the first of them.
    pub fn received(&self, now: Beat, declared: Option<usize>) {
        let since = match self.reading.get() {
            Reading::Request { since, .. } => since,
            Reading::ForRequest { .. } | Reading::Paused => now,
        };
        self.reading.set(Reading::Request { since, last: now, declared });
    }

    /// Whether the connection has to end. `is_idle`: no request of it is being answered.
    pub fn overdue(&self, now: Beat, idle_s_max: u64, is_idle: bool) -> Option<Overdue> {
        match self.reading.get() {
            Reading::ForRequest { since } => {
                let idle_s = u64::from(now.saturating_sub(since));
                (is_idle && idle_s > idle_s_max).then_some(Overdue::Idle)
            }
            Reading::Request { since, last, declared } => {
                let took_s = u64::from(now.saturating_sub(since));
                let idle_s = u64::from(now.saturating_sub(last));
                if took_s > request_seconds_max(declared) {
                    return Some(Overdue::SlowRequest);
                }
                (is_idle && idle_s > idle_s_max).then_some(Overdue::Idle)
            }
            Reading::Paused => None,
        }
    }
}

/// How long a request of this length may take.
fn request_seconds_max(declared: Option<usize>) -> u64 {
    let bytes = u64::try_from(declared.unwrap_or(0)).unwrap_or(u64::MAX);
    REQUEST_READ_TIME_MIN.as_secs() + bytes / REQUEST_READ_RATE_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_connection_ends_but_not_one_that_waits_for_an_answer() {
        let marks = Marks::new(5);
        assert_eq!(marks.overdue(65, 60, true), None);
        assert_eq!(marks.overdue(66, 60, false), None);
        assert_eq!(marks.overdue(66, 60, true), Some(Overdue::Idle));
        marks.set(Reading::Paused);
        assert_eq!(marks.overdue(1000, 60, true), None);
    }

    #[test]
    fn slow_request_ends_by_its_first_byte_and_length_not_by_its_last_byte() {
        let marks = Marks::new(0);
        marks.received(10, None);
        marks.received(39, Some(100));
        assert_eq!(marks.overdue(40, 600, true), None);
        assert_eq!(marks.overdue(41, 600, true), Some(Overdue::SlowRequest));
        marks.received(41, Some(100 << 20));
        assert_eq!(marks.overdue(41, 600, true), None);
        assert_eq!(marks.overdue(10 + 30 + 6401, 9999, true), Some(Overdue::SlowRequest));
    }

    #[test]
    fn half_a_request_that_goes_silent_is_idle() {
        let marks = Marks::new(0);
        marks.received(10, None);
        assert_eq!(marks.overdue(12, 2, true), None);
        assert_eq!(marks.overdue(13, 2, true), Some(Overdue::Idle));
    }
}
