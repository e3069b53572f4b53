//! Does the life of a log show in the latency of those who write? One steady load, in one run: alone,
//! while segments are rolled, while old segments are deleted, while a topic is compacted.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use millstream::wire::ApiKey;
use millstream::wire::messages::{delete_records as dr, incremental_alter_configs as iac};

use crate::batch::Batch;
use crate::client::{Admin, Topic, body};
use crate::figures::{Report, Target};
use crate::fill::{self, fill};
use crate::host::{self, Cpus, SyncCost, bytes_under, now_ms, on_cpus};
use crate::options::Options;
use crate::process::{Broker, data_root, default_broker, one_core, pause};
use crate::steady::{self, Steady, Window};

/// Flags of this command.
pub const FLAGS: &[&str] = &["assert"];

/// How many times the latency of the load alone it may be.
const RATIO_MAX: f64 = 1.3;
const FILL_CONNECTIONS: i32 = 4;
/// Batches that the compacted topic is filled with, over and over: each holds keys of its own.
const KEYED_BATCHES: u64 = 64;
/// Segments that are rolled: some four a second with the usual load.
const SMALL_SEGMENT_BYTES: u32 = 256 << 10;
/// How long one of the works may take.
const WORK_LIMIT: Duration = Duration::from_secs(300);

struct Plan {
    gb: f64,
    compact_gb: f64,
    rate: u32,
    window: Duration,
    /// In how many parts the works are done, by turns with the load alone.
    rounds: u32,
}

/// Measures and says whether the targets hold (with `--assert`: within the tolerance).
pub fn run(mut options: Options) -> Result<bool> {
    let tolerant = options.flag("assert");
    let program = options.text("broker").map_or_else(default_broker, PathBuf::from);
    let data = data_root(options.text("data").map(PathBuf::from))?;
    let out = options.text("out").map(PathBuf::from);
    let plan = Plan {
        gb: options.value("gb", 20.0)?,
        compact_gb: options.value("compact-gb", 4.0)?,
        rate: options.value("rate", 1000)?,
        window: Duration::from_secs_f64(options.value("seconds", 10.0)?),
        rounds: options.value("rounds", 5)?,
    };
    options.finish()?;
    ensure!(plan.gb > 0.0 && plan.compact_gb > 0.0, "there is nothing to delete or to compact");
    ensure!(plan.rounds > 0, "--rounds 0 measures nothing");
    let need = ((plan.gb * 1.2 + plan.compact_gb * 1.5) * 1e9) as u64 + (4 << 30);
    let free = host::free_bytes(&data)?;
    ensure!(
        free > need,
        "{} has {free} bytes free and this needs {need}; use --gb",
        data.display()
    );
    host::raise_descriptors()?;
    let cpus = Cpus::apart()?;
    let sync = SyncCost::measure(&data, 200)?;
    let mut report = Report::new(host::facts(&data, sync));
    let mut launch = one_core(&program, &data, &cpus);
    launch.settings.push("log.cleaner.backoff.ms=100".to_owned());
    let broker = launch.start()?;
    on_cpus(&cpus.client, || measure(&plan, &broker, &mut report))??;
    broker.stop()?;
    report.after(SyncCost::measure(&data, 200)?);
    print!("{}", report.table(tolerant));
    if tolerant {
        print!("\n{}", report.verdicts(tolerant));
    }
    if let Some(path) = out {
        let text = serde_json::to_string_pretty(&report.json())?;
        std::fs::write(&path, text + "\n").with_context(|| path.display().to_string())?;
    }
    Ok(report.holds(tolerant))
}

/// What the works are done to, a topic a round, and what the load writes into.
struct Topics {
    old: Vec<Topic>,
    /// Bytes of each that stay: the last segment of each partition, until the next is begun.
    stays: u64,
    keyed: Vec<Topic>,
    live: Topic,
    rolling: Topic,
}

/// One of the works: what was seen in each round.
struct Row {
    what: &'static str,
    ratios: Vec<f64>,
    notes: Vec<String>,
}

impl Row {
    fn new(what: &'static str) -> Row {
        Row { what, ratios: Vec::new(), notes: Vec::new() }
    }

    /// Against the mean of the windows right before and behind.
    fn add(&mut self, before: &Window, beside: &Window, behind: &Window, did: &str) {
        self.ratios.push(beside.p99() / ((before.p99() + behind.p99()) / 2.0));
        self.notes.push(format!("{did}; {}; p99 {} us", beside.note(), beside.p99()));
    }

    fn report(self, report: &mut Report) {
        let name = format!("produce p99 while {}, against alone", self.what);
        report.row(name, "x", Target::AtMost(RATIO_MAX), self.ratios, self.notes.join(" | "));
    }
}

fn measure(plan: &Plan, broker: &Broker, report: &mut Report) -> Result<()> {
    let mut admin = Admin::connect(broker.address)?;
    let Topics { old, stays, keyed, live, rolling } = prepare(plan, broker, &mut admin)?;
    let mut steady = Steady::new(&admin, broker.address, live, plan.rate)?;
    let mut into_small = Steady::new(&admin, broker.address, rolling, plan.rate)?;
    let (alone, warm_up) = ((plan.window, plan.window), Duration::from_secs(2));
    let limits = (Duration::from_secs(1), WORK_LIMIT);
    // Not measured: what both topics need once.
    steady.window((warm_up, warm_up), || Ok(false))?;
    into_small.window((warm_up, warm_up), || Ok(false))?;
    let mut rows = [
        Row::new("segments are rolled"),
        Row::new("old segments are deleted"),
        Row::new("a topic is compacted"),
    ];
    let mut rolled = Vec::new();
    let mut bases = vec![steady.window(alone, || Ok(false))?];
    for (old, keyed) in old.into_iter().zip(keyed) {
        let [rolls, deletes, compacts] = &mut rows;
        let segments = count(broker, "life-rolling")?;
        let beside = into_small.window(alone, || Ok(false))?;
        let segments = count(broker, "life-rolling")?.saturating_sub(segments);
        let behind = steady.window(alone, || Ok(false))?;
        let did = format!("{segments} segments of {} KiB", SMALL_SEGMENT_BYTES >> 10);
        rolls.add(&bases[bases.len() - 1], &beside, &behind, &did);
        rolled.push(segments as f64);
        bases.push(behind);

        let delete = Work::start(broker, move |admin, root| delete(admin, root, &old, stays));
        beside_work(&mut steady, (alone, limits), delete, deletes, &mut bases)?;
        let compact = Work::start(broker, move |admin, root| compact(admin, root, &keyed));
        beside_work(&mut steady, (alone, limits), compact, compacts, &mut bases)?;
    }
    steady.check(&mut admin)?;
    into_small.check(&mut admin)?;

    let notes: Vec<String> = bases.iter().map(Window::note).collect();
    let p99s = bases.iter().map(Window::p99).collect();
    report.row("produce p99, alone", "us", Target::None, p99s, notes.join(" | "));
    rows.into_iter().for_each(|row| row.report(report));
    let enough = Target::CountAtLeast(f64::from(steady::PARTITIONS));
    report.row("segments rolled meanwhile", "", enough, rolled, "one a partition");
    Ok(())
}

/// The load while a work goes on, and alone right behind it.
fn beside_work(
    steady: &mut Steady,
    (alone, limits): ((Duration, Duration), (Duration, Duration)),
    work: Work,
    row: &mut Row,
    bases: &mut Vec<Window>,
) -> Result<()> {
    let beside = steady.window(limits, || Ok(work.is_going_on()))?;
    let did = work.join()?;
    let behind = steady.window(alone, || Ok(false))?;
    row.add(&bases[bases.len() - 1], &beside, &behind, &did);
    bases.push(behind);
    Ok(())
}

/// Makes the topics, and writes what is to be deleted and compacted.
fn prepare(plan: &Plan, broker: &Broker, admin: &mut Admin) -> Result<Topics> {
    let rounds = f64::from(plan.rounds);
    let (old_gb, keyed_gb) = (plan.gb / rounds, plan.compact_gb / rounds);
    let old_segment = ((old_gb * 1e9 / 20.0) as u64).clamp(16 << 20, 1 << 30);
    let stays = old_segment * u64::from(FILL_CONNECTIONS.unsigned_abs());
    let old_segment = old_segment.to_string();
    // Closed segments, and one that is not, in each partition.
    let segment = (keyed_gb * 1e9 / f64::from(FILL_CONNECTIONS) / 4.0) as u64;
    let segment = segment.clamp(1 << 20, 256 << 20).to_string();
    let live = admin.create("life-live", steady::PARTITIONS, &[])?;
    let small = SMALL_SEGMENT_BYTES.to_string();
    let small = [("segment.bytes", small.as_str())];
    let rolling = admin.create("life-rolling", steady::PARTITIONS, &small)?;
    let batch = fill::batch(3);
    let keys = |number| number * u64::from(fill::RECORDS);
    let batches: Vec<Batch> = (0..KEYED_BATCHES)
        .map(|number| Batch::keyed(fill::RECORDS, keys(number), fill::VALUE_BYTES, now_ms()))
        .collect();
    let (mut old, mut keyed) = (Vec::new(), Vec::new());
    for round in 0..plan.rounds {
        let mut create = |name: &str, segment: &str| {
            let name = format!("{name}-{round}");
            admin.create(&name, FILL_CONNECTIONS, &[("segment.bytes", segment)])
        };
        let (to_delete, to_compact) =
            (create("life-old", &old_segment)?, create("life-keyed", &segment)?);
        let with_rest = old_gb + stays as f64 / 1e9;
        fill(broker.address, admin, &to_delete, with_rest, std::slice::from_ref(&batch))?;
        fill(broker.address, admin, &to_compact, keyed_gb, &batches)?;
        old.push(to_delete);
        keyed.push(to_compact);
    }
    broker.settle(Duration::from_secs(2), Duration::from_secs(60))?;
    Ok(Topics { old, stays, keyed, live, rolling })
}

/// Something that the broker does beside the load, ordered and watched by a thread of its own.
struct Work {
    done: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Result<String>>,
}

impl Work {
    fn start(
        broker: &Broker,
        work: impl FnOnce(&mut Admin, &Path) -> Result<String> + Send + 'static,
    ) -> Work {
        let done = Arc::new(AtomicBool::new(false));
        let (tell, address, root) = (done.clone(), broker.address, broker.data_dir());
        let thread = std::thread::spawn(move || {
            let root = root.ok_or_else(|| anyhow!("the broker is not ours"));
            let result = root.and_then(|root| work(&mut Admin::connect(address)?, &root));
            tell.store(true, Ordering::Release);
            result
        });
        Work { done, thread }
    }

    fn is_going_on(&self) -> bool {
        !self.done.load(Ordering::Acquire)
    }

    fn join(self) -> Result<String> {
        self.thread.join().map_err(|_| anyhow!("a thread of this client panicked"))?
    }
}

/// Deletes all records of a topic, and waits until their space is back.
fn delete(admin: &mut Admin, root: &Path, topic: &Topic, stays: u64) -> Result<String> {
    let begun = Instant::now();
    let before = host::free_bytes(root)?;
    let bytes =
        bytes_under(&root.join("topics").join(&topic.name)) + bytes_under(&root.join("__deleted"));
    let partitions = (0..topic.partitions)
        .map(|partition_index| dr::DeleteRecordsPartition { partition_index, offset: -1 });
    let request = dr::DeleteRecordsRequest {
        topics: vec![dr::DeleteRecordsTopic {
            name: &topic.name,
            partitions: partitions.collect(),
        }],
        timeout_ms: 30_000,
    };
    let version = admin.version(ApiKey::DeleteRecords, 2)?;
    admin.ask(&request, version, |bytes| {
        let response: dr::DeleteRecordsResponse<'_> = body(version, bytes)?;
        let parts = response.topics.iter().flat_map(|topic| &topic.partitions);
        for part in parts {
            ensure!(part.error_code == 0, "DeleteRecords: error {}", part.error_code);
        }
        Ok(())
    })?;
    let answered = begun.elapsed();
    let there = loop {
        let waiting = bytes_under(&root.join("__deleted"));
        let there = bytes_under(&root.join("topics").join(&topic.name)) + waiting;
        if waiting == 0 && there <= stays {
            break there;
        }
        ensure!(begun.elapsed() < WORK_LIMIT, "{there} bytes are still there after {WORK_LIMIT:?}");
        pause(Duration::from_millis(20));
    };
    let freed = host::free_bytes(root)?.saturating_sub(before);
    Ok(format!(
        "{:.1} GB deleted in {:.1} s, answered after {:.0} ms, {:.1} GB of space back",
        bytes.saturating_sub(there) as f64 / 1e9,
        begun.elapsed().as_secs_f64(),
        answered.as_secs_f64() * 1e3,
        freed as f64 / 1e9
    ))
}

/// Makes a topic compacted, and waits until every partition was.
fn compact(admin: &mut Admin, root: &Path, topic: &Topic) -> Result<String> {
    let dir = root.join("topics").join(&topic.name);
    let (begun, before) = (Instant::now(), bytes_under(&dir));
    let request = iac::IncrementalAlterConfigsRequest {
        resources: vec![iac::AlterConfigsResource {
            resource_type: 2,
            resource_name: &topic.name,
            configs: vec![iac::AlterableConfig {
                name: "cleanup.policy",
                config_operation: 0,
                value: Some("compact"),
            }],
        }],
        validate_only: false,
    };
    let version = admin.version(ApiKey::IncrementalAlterConfigs, 1)?;
    admin.ask(&request, version, |bytes| {
        let response: iac::IncrementalAlterConfigsResponse<'_> = body(version, bytes)?;
        for answer in &response.responses {
            ensure!(answer.error_code == 0, "cleanup.policy: error {}", answer.error_code);
        }
        Ok(())
    })?;
    let is_clean = |part: i32| dir.join(part.to_string()).join("cleaner-checkpoint.json").exists();
    while !(0..topic.partitions).all(is_clean) {
        ensure!(begun.elapsed() < WORK_LIMIT, "not compacted after {WORK_LIMIT:?}");
        pause(Duration::from_millis(20));
    }
    let took = begun.elapsed().as_secs_f64();
    // The files that were replaced go behind it.
    let mut after = bytes_under(&dir);
    loop {
        pause(Duration::from_millis(300));
        let now = bytes_under(&dir);
        if now >= after {
            break;
        }
        after = now;
    }
    Ok(format!(
        "{:.2} GB became {:.2} GB in {:.1} s",
        before as f64 / 1e9,
        after as f64 / 1e9,
        took
    ))
}

/// Segment files of a topic. A partition has none before the first write behind its journal.
fn count(broker: &Broker, topic: &str) -> Result<usize> {
    let root = broker.data_dir().ok_or_else(|| anyhow!("the broker is not ours"))?;
    let entries = |dir: PathBuf| std::fs::read_dir(dir).into_iter().flatten().flatten();
    let parts = entries(root.join("topics").join(topic));
    let files = parts.flat_map(|part| entries(part.path()));
    Ok(files.filter(|file| file.path().extension().is_some_and(|end| end == "log")).count())
}
