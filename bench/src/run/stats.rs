//! What was counted in an interval, on one thread or on all.

use std::time::Duration;

use anyhow::{Context, Result};
use hdrhistogram::Histogram;

/// Latencies above this are counted as this, in microseconds.
const MICROS_MAX: u64 = 600_000_000;

/// Counts and latencies. Latencies are in microseconds.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Acknowledged (with acks=0: sent).
    pub requests: u64,
    pub records: u64,
    /// Bytes of batches.
    pub bytes: u64,
    /// Requests that were refused.
    pub errors: u64,
    pub read_requests: u64,
    pub read_records: u64,
    pub read_bytes: u64,
    /// Transactions that were ended, either way.
    pub transactions: u64,
    /// Answers to connections that are otherwise idle.
    pub pokes: u64,
    /// Of a request, or of a transaction: from when it was due to its answer.
    pub due: Histogram<u64>,
    /// From when it was really sent.
    pub sent: Histogram<u64>,
    /// From when it was due to when it was sent.
    pub delay: Histogram<u64>,
    /// From when a message was due to when a consumer had it.
    pub end_to_end: Histogram<u64>,
}

impl Stats {
    pub fn new() -> Result<Stats> {
        let histogram =
            || Histogram::new_with_bounds(1, MICROS_MAX, 3).context("a histogram of microseconds");
        Ok(Stats {
            requests: 0,
            records: 0,
            bytes: 0,
            errors: 0,
            read_requests: 0,
            read_records: 0,
            read_bytes: 0,
            transactions: 0,
            pokes: 0,
            due: histogram()?,
            sent: histogram()?,
            delay: histogram()?,
            end_to_end: histogram()?,
        })
    }

    /// Adds what another thread, or another interval, counted.
    ///
    /// # Panics
    /// Never: all histograms have the same bounds.
    pub fn add(&mut self, other: &Stats) {
        self.requests += other.requests;
        self.records += other.records;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.read_requests += other.read_requests;
        self.read_records += other.read_records;
        self.read_bytes += other.read_bytes;
        self.transactions += other.transactions;
        self.pokes += other.pokes;
        self.add_latencies(other);
    }

    /// Adds only latencies: of requests that were due in time and answered late.
    pub fn add_latencies(&mut self, other: &Stats) {
        for (ours, theirs) in [
            (&mut self.due, &other.due),
            (&mut self.sent, &other.sent),
            (&mut self.delay, &other.delay),
            (&mut self.end_to_end, &other.end_to_end),
        ] {
            if let Err(error) = ours.add(theirs) {
                panic!("two histograms of the same bounds do not add up: {error}");
            }
        }
    }
}

/// Counts a time.
pub fn record(histogram: &mut Histogram<u64>, nanos: u64) {
    histogram.saturating_record(nanos / 1000);
}

/// A time in nanoseconds.
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
