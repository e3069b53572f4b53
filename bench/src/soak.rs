//! Minutes of everything at once: producers on every core for partitions of every core, consumers
//! at the tail, idle connections, connections that come and go. Each record carries who sent it and
//! its number; each is read back once, in order. A request that is not answered in time is a stall.

mod consume;
mod idle;
mod produce;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hdrhistogram::Histogram;

use crate::client::{Admin, Topic, Versions};
use crate::host;
use crate::options::Options;
use crate::process::{Broker, data_root, default_broker, one_core, pause};

/// How long consumers may wait for data (`max_wait_ms` of a Fetch).
const MAX_WAIT: Duration = Duration::from_millis(500);
/// Time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(30);
/// What a consumer has not read so long after the last produce is lost.
const CATCH_UP: Duration = Duration::from_secs(60);

struct Plan {
    length: Duration,
    partitions: i32,
    /// Producer connections; connection c writes to partition c mod partitions.
    producers: usize,
    bytes_per_second: f64,
    idle: usize,
    stall: Duration,
}

/// What the threads share. Lives on all of them; each field has one writer or is a counter.
struct Shared {
    plan: Plan,
    broker: std::net::SocketAddr,
    topic: Topic,
    versions: Versions,
    begun: Instant,
    /// No thread starts anything new.
    stop: AtomicBool,
    /// All is produced: where each partition ends. Consumers stop there.
    ends: Mutex<Option<Vec<i64>>>,
    /// Batches of each producer that were acknowledged, written at the end.
    acked: Mutex<Vec<u64>>,
    acked_records: AtomicU64,
    acked_bytes: AtomicU64,
    read_records: AtomicU64,
    pokes: AtomicU64,
    stalls: AtomicU64,
    waits: Mutex<Histogram<u64>>,
    failure: Mutex<Option<String>>,
}

/// Runs the soak; false when anything was wrong.
pub fn run(mut options: Options) -> Result<bool> {
    let minutes: f64 = options.value("minutes", 1.0)?;
    let plan = Plan {
        length: Duration::from_secs_f64(minutes * 60.0),
        partitions: options.value("partitions", 8)?,
        producers: options.value("producers", 16)?,
        bytes_per_second: options.value("mb-per-second", 10.0)? * 1e6,
        idle: options.value("idle", 500)?,
        stall: Duration::from_millis(options.value("stall-ms", 5000)?),
    };
    let program = options.text("broker").map_or_else(default_broker, PathBuf::from);
    let data = data_root(options.text("data").map(PathBuf::from))?;
    let cores = options.value("cores", "all".to_owned())?;
    let attach = options.text("attach");
    let pid = options.value("pid", std::process::id())?;
    options.finish()?;
    ensure!(plan.partitions > 0 && plan.producers > 0, "nothing to do");

    host::raise_descriptors()?;
    let broker = match attach {
        Some(text) => Broker::attach(text.parse().context("--attach takes HOST:PORT")?, pid)?,
        None => {
            let nowhere = host::Cpus { broker: Vec::new(), client: Vec::new() };
            let mut launch = one_core(&program, &data, &nowhere);
            launch.cores = cores;
            launch.start()?
        }
    };
    let memory = broker.rss()?;
    let shared = Shared::new(plan, &broker)?;
    shared.work();
    let good = shared.verdict();
    println!(
        "broker memory {} MiB at the start, {} MiB at the end",
        memory >> 20,
        broker.rss()? >> 20
    );
    if good {
        broker.stop()?;
    }
    Ok(good)
}

impl Shared {
    fn new(plan: Plan, broker: &Broker) -> Result<Shared> {
        let mut admin = Admin::connect(broker.address)?;
        let unique = std::process::id();
        // Small segments, so that rolling is part of it.
        let configs = [("segment.bytes", "33554432")];
        let topic = admin.create(&format!("soak-{unique}"), plan.partitions, &configs)?;
        Ok(Shared {
            acked: Mutex::new(vec![0; plan.producers]),
            plan,
            broker: broker.address,
            topic,
            versions: admin.versions,
            begun: Instant::now(),
            stop: AtomicBool::new(false),
            ends: Mutex::new(None),
            acked_records: AtomicU64::new(0),
            acked_bytes: AtomicU64::new(0),
            read_records: AtomicU64::new(0),
            pokes: AtomicU64::new(0),
            stalls: AtomicU64::new(0),
            waits: Mutex::new(Histogram::new_with_bounds(1, 600_000_000, 3)?),
            failure: Mutex::new(None),
        })
    }

    fn work(&self) {
        std::thread::scope(|scope| {
            scope.spawn(|| self.watch(consume::run(self)));
            scope.spawn(|| self.watch(idle::run(self)));
            let producing = scope.spawn(|| self.watch(produce::run(self)));
            let mut next = PROGRESS;
            while !producing.is_finished() && !self.failed() {
                pause(Duration::from_millis(100));
                if self.begun.elapsed() >= next {
                    next += PROGRESS;
                    self.progress();
                }
                if self.begun.elapsed() >= self.plan.length {
                    self.stop.store(true, Ordering::Relaxed);
                }
            }
            let ends = Admin::connect(self.broker).and_then(|mut admin| admin.ends(&self.topic));
            match ends {
                Ok(ends) => *lock(&self.ends) = Some(ends),
                Err(error) => self.watch(Err(error)),
            }
        });
        self.progress();
    }

    /// Keeps the first failure and stops everything.
    fn watch(&self, result: Result<()>) {
        if let Err(error) = result {
            let text = format!("{error:#}");
            eprintln!("FAILED: {text}");
            lock(&self.failure).get_or_insert(text);
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn failed(&self) -> bool {
        lock(&self.failure).is_some()
    }

    fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Notes how long an answer took that was due within `allowed`.
    fn waited(&self, what: &str, took: Duration, allowed: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        lock(&self.waits).saturating_record(micros);
        if took > allowed + self.plan.stall {
            self.stalls.fetch_add(1, Ordering::Relaxed);
            eprintln!("stall at {:.1?}: {what} took {took:.1?}", self.begun.elapsed());
        }
    }

    fn progress(&self) {
        let waits = lock(&self.waits);
        println!(
            "{:5.0} s: {} records ({} MB) acknowledged, {} read, {} idle pokes; answers p50 {} us, \
             p99 {} us, max {} us; {} stalls",
            self.begun.elapsed().as_secs_f64(),
            self.acked_records.load(Ordering::Relaxed),
            self.acked_bytes.load(Ordering::Relaxed) / 1_000_000,
            self.read_records.load(Ordering::Relaxed),
            self.pokes.load(Ordering::Relaxed),
            waits.value_at_quantile(0.5),
            waits.value_at_quantile(0.99),
            waits.max(),
            self.stalls.load(Ordering::Relaxed)
        );
    }

    fn verdict(&self) -> bool {
        let acked = self.acked_records.load(Ordering::Relaxed);
        let read = self.read_records.load(Ordering::Relaxed);
        let stalls = self.stalls.load(Ordering::Relaxed);
        if let Some(failure) = &*lock(&self.failure) {
            println!("FAIL: {failure}");
            return false;
        }
        let good = stalls == 0 && acked == read && acked > 0;
        println!(
            "{}: {acked} records acknowledged, {read} read back, {stalls} stalls over {:?}",
            if good { "pass" } else { "FAIL" },
            self.plan.stall
        );
        good
    }

    /// Ends of the log, once all is produced; an error when nothing more will come.
    fn final_ends(&self) -> Result<Option<Vec<i64>>> {
        if self.failed() {
            bail!("stopped by the failure of another thread");
        }
        Ok(lock(&self.ends).clone())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
