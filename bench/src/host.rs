//! Facts about this machine: without them a result says nothing.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::{Value, json};

/// CPUs for the broker and for the client, apart when there are two.
#[derive(Clone, Debug)]
pub struct Cpus {
    pub broker: Vec<usize>,
    pub client: Vec<usize>,
}

impl Cpus {
    /// The first CPU we may use for the broker, the others for the client. With one CPU both lists
    /// are empty: nothing is pinned.
    pub fn apart() -> Result<Cpus> {
        let set = sched_getaffinity(None)?;
        let all: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect();
        Ok(match all.split_first() {
            Some((first, rest)) if !rest.is_empty() => {
                Cpus { broker: vec![*first], client: rest.to_vec() }
            }
            _ => Cpus { broker: Vec::new(), client: Vec::new() },
        })
    }
}

/// Runs `work` with this thread bound to `cpus` (threads and processes begun in it stay there), and
/// puts the old binding back. No CPUs: changes nothing.
pub fn on_cpus<T>(cpus: &[usize], work: impl FnOnce() -> T) -> Result<T> {
    if cpus.is_empty() {
        return Ok(work());
    }
    let before = sched_getaffinity(None)?;
    let mut wanted = CpuSet::new();
    for cpu in cpus {
        wanted.set(*cpu);
    }
    sched_setaffinity(None, &wanted)?;
    let out = work();
    sched_setaffinity(None, &before)?;
    Ok(out)
}

/// Cost of making 4 KiB durable on the file system of a directory: overwrite and fdatasync, by one
/// thread.
#[derive(Clone, Copy, Debug)]
pub struct SyncCost {
    pub p50: Duration,
    pub p99: Duration,
}

impl SyncCost {
    /// Measures `rounds` of them in a file of its own.
    pub fn measure(dir: &Path, rounds: usize) -> Result<SyncCost> {
        ensure!(rounds > 0, "no round, no cost");
        let dir = tempfile::Builder::new().prefix("millstream-sync-").tempdir_in(dir)?;
        let path = dir.path().join("file");
        let file = OpenOptions::new().create_new(true).write(true).open(path)?;
        let block = [0x5a; 4096];
        for index in 0..64 {
            file.write_all_at(&block, index * 4096)?;
        }
        file.sync_all()?;
        let mut times = Vec::with_capacity(rounds);
        for index in 0..rounds as u64 {
            let begun = Instant::now();
            file.write_all_at(&block, index % 64 * 4096)?;
            file.sync_data()?;
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        Ok(SyncCost { p50: times[rounds / 2], p99: times[rounds * 99 / 100] })
    }
}

/// Counters of one block device (`/proc/diskstats`).
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceCounters {
    pub writes: u64,
    pub bytes_written: u64,
    pub flushes: u64,
}

/// The block device under a directory.
#[derive(Clone, Debug)]
pub struct Device {
    pub name: String,
    numbers: (u32, u32),
}

impl Device {
    /// Finds it. Some file systems have none (overlay, network): that is an error, and callers do
    /// without.
    pub fn under(dir: &Path) -> Result<Device> {
        let dev = fs::metadata(dir)?.dev();
        let numbers = (rustix::fs::major(dev), rustix::fs::minor(dev));
        let device = Device { name: String::new(), numbers };
        let (name, _) = device.read()?;
        Ok(Device { name, numbers })
    }

    /// Its counters since boot. They count everybody's writes.
    pub fn counters(&self) -> Result<DeviceCounters> {
        Ok(self.read()?.1)
    }

    fn read(&self) -> Result<(String, DeviceCounters)> {
        let (major, minor) = (self.numbers.0.to_string(), self.numbers.1.to_string());
        for line in fs::read_to_string("/proc/diskstats")?.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words.len() > 10 && words[0] == major && words[1] == minor {
                // Words 3..: reads, merged, sectors, ms, writes, merged, sectors, ms, ...; flushes
                // are the 16th counter (kernel 5.5 and later).
                let number = |index: usize| words.get(index).map_or(Ok(0), |w| w.parse::<u64>());
                let counters = DeviceCounters {
                    writes: number(7)?,
                    bytes_written: number(9)? * 512,
                    flushes: number(18)?,
                };
                return Ok((words[2].to_owned(), counters));
            }
        }
        Err(anyhow!("no block device {major}:{minor} in /proc/diskstats"))
    }
}

/// What stands above every table: machine, kernel, file system, device, sync cost, load.
pub fn facts(data: &Path, sync: SyncCost) -> Value {
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown", |rest| rest.trim_start_matches(['\t', ' ', ':']));
    let device = Device::under(data).map_or_else(|error| error.to_string(), |d| d.name);
    let queue = format!("/sys/class/block/{device}/queue");
    json!({
        "cpu": model,
        "cpus": std::thread::available_parallelism().map_or(0, usize::from),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "memory_bytes": memory_bytes(),
        "file_system": file_system(data).unwrap_or_else(|_| "unknown".to_owned()),
        "device": device,
        "device_write_cache": read(&format!("{queue}/write_cache")).trim(),
        "device_rotational": read(&format!("{queue}/rotational")).trim() == "1",
        "congestion_control": read("/proc/sys/net/ipv4/tcp_congestion_control").trim(),
        "sync_4k_p50_us": micros(sync.p50),
        "sync_4k_p99_us": micros(sync.p99),
        "load_average": read("/proc/loadavg").trim(),
    })
}

/// Microseconds with a fraction.
pub fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Milliseconds since 1970, for record timestamps.
pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Bytes of all files under a path; what goes while it is counted counts as gone.
pub fn bytes_under(path: &Path) -> u64 {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| bytes_under(&entry.path())).sum()
        }
        Ok(found) => found.len(),
        Err(_) => 0,
    }
}

/// Bytes that may be written to the file system under a path.
pub fn free_bytes(path: &Path) -> Result<u64> {
    let fs = rustix::fs::statvfs(path).with_context(|| path.display().to_string())?;
    Ok(fs.f_bavail.saturating_mul(fs.f_frsize))
}

/// Lets this process open as many connections as the kernel allows.
pub fn raise_descriptors() -> io::Result<u64> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    Ok(limit.current.unwrap_or(u64::MAX))
}

fn memory_bytes() -> u64 {
    let text = read("/proc/meminfo");
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = total.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Type and options of the mount that holds `path`.
fn file_system(path: &Path) -> Result<String> {
    let path = path.canonicalize()?;
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mut best: Option<(usize, String)> = None;
    for line in mounts.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, point, kind, options, ..] = words[..] else { continue };
        let length = point.len();
        if path.starts_with(point) && best.as_ref().is_none_or(|(best, _)| length >= *best) {
            best = Some((length, format!("{kind} ({options})")));
        }
    }
    best.map(|(_, text)| text).ok_or_else(|| anyhow!("no mount holds {}", path.display()))
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
