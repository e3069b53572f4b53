//! The load that is measured: requests due at fixed times, whatever became of those before.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hdrhistogram::Histogram;

use crate::batch::Batch;
use crate::client::{Admin, Driver, Topic};
use crate::host::now_ms;
use crate::load::{Shot, check_ends};

/// Partitions that the load writes to in turn.
pub const PARTITIONS: i32 = 16;
/// Connections that it uses in turn.
const CONNECTIONS: usize = 16;
/// Records of a request, of a hundred bytes.
const RECORDS: u32 = 10;
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// A steady load on one topic.
pub struct Steady {
    driver: Driver,
    version: i16,
    topic: Topic,
    shots: Vec<Shot>,
    interval: Duration,
    sent: u64,
}

/// What one window saw: microseconds from when a request was due to its answer.
pub struct Window {
    pub latencies: Histogram<u64>,
    pub length: Duration,
}

impl Window {
    pub fn p99(&self) -> f64 {
        self.latencies.value_at_quantile(0.99) as f64
    }

    pub fn note(&self) -> String {
        format!(
            "{} requests in {:.1} s: p50 {} us, p99.9 {} us, max {} us",
            self.latencies.len(),
            self.length.as_secs_f64(),
            self.latencies.value_at_quantile(0.5),
            self.latencies.value_at_quantile(0.999),
            self.latencies.max()
        )
    }
}

impl Steady {
    pub fn new(
        admin: &Admin,
        address: std::net::SocketAddr,
        topic: Topic,
        rate: u32,
    ) -> Result<Steady> {
        ensure!(rate > 0, "--rate 0 is no load");
        let batch = Batch::filled(RECORDS, 100, 11, now_ms());
        let shot = |partition| Shot::new(admin.versions, &topic, &[partition], &batch);
        let shots: Result<Vec<Shot>> = (0..topic.partitions).map(shot).collect();
        Ok(Steady {
            driver: Driver::connect(address, CONNECTIONS)?,
            version: admin.versions.produce,
            shots: shots?,
            topic,
            interval: Duration::from_secs(1) / rate,
            sent: 0,
        })
    }

    /// Loads for `least`, and then as long as `going_on` says so, at most `most`. It is asked between
    /// any two looks for answers, and may do a little work of its own there.
    pub fn window(
        &mut self,
        (least, most): (Duration, Duration),
        mut going_on: impl FnMut() -> Result<bool>,
    ) -> Result<Window> {
        let mut latencies = Histogram::new(3)?;
        let begun = Instant::now();
        let mut due_of = std::collections::HashMap::new();
        let mut due = begun;
        loop {
            let elapsed = begun.elapsed();
            if elapsed >= most || (elapsed >= least && !going_on()?) {
                break;
            }
            let now = Instant::now();
            while due <= now {
                let place = usize::try_from(self.sent)?;
                let shot = &self.shots[place % self.shots.len()];
                self.driver.outputs().send(place % CONNECTIONS, shot.frame(), self.sent);
                due_of.insert(self.sent, (due, place % self.shots.len()));
                self.sent += 1;
                due += self.interval;
            }
            // Polled: the kernel's timer is late by more than an answer takes.
            self.take(Duration::ZERO, &mut due_of, &mut latencies)?;
        }
        let waiting = Instant::now();
        while self.driver.outputs().open() > 0 {
            self.take(Duration::from_millis(1), &mut due_of, &mut latencies)?;
            ensure!(waiting.elapsed() < ANSWER_LIMIT, "no answer after {ANSWER_LIMIT:?}");
        }
        Ok(Window { latencies, length: begun.elapsed() })
    }

    /// Every record that was acknowledged is there.
    pub fn check(&self, admin: &mut Admin) -> Result<()> {
        let partitions = u64::from(self.topic.partitions.unsigned_abs());
        let records = u64::from(RECORDS);
        let share =
            |p: u64| (self.sent / partitions + u64::from(p < self.sent % partitions)) * records;
        let acked: Vec<u64> = (0..partitions).map(share).collect();
        check_ends(&admin.ends(&self.topic)?, &vec![0; acked.len()], &acked)
    }

    fn take(
        &mut self,
        limit: Duration,
        due_of: &mut std::collections::HashMap<u64, (Instant, usize)>,
        latencies: &mut Histogram<u64>,
    ) -> Result<()> {
        let (shots, version) = (&self.shots, self.version);
        self.driver.turn(limit, &mut |response, _| {
            let Some((due, place)) = due_of.remove(&response.tag) else {
                anyhow::bail!("request {} is answered twice", response.tag)
            };
            latencies.record(u64::try_from(due.elapsed().as_micros())?.max(1))?;
            shots[place].check(version, response.bytes)
        })?;
        Ok(())
    }
}
