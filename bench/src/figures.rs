//! The table of figures: what is promised, what was measured, and whether it holds. Nothing is
//! hard-coded and no losing row is left out.

mod commit;
mod consume;
mod device;
mod idle;
mod partitions;
mod produce;
mod start;
mod table;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use crate::client::{Admin, Topic};
use crate::host::{self, Cpus, SyncCost, now_ms, on_cpus};
use crate::options::Options;
use crate::process::{Broker, Launch, data_root, default_broker, one_core};

pub use table::{Report, Row, Target};

/// Bytes of the value of a message, in all figures.
const VALUE_BYTES: usize = 100;
/// Records of a large batch: about a megabyte, below the default `max.message.bytes`.
const BATCH_RECORDS: u32 = 9_000;
/// How long a broker may take to come to rest after a load.
const SETTLE_LIMIT: Duration = Duration::from_secs(60);

/// How the figures are taken.
pub struct Setup {
    launch: Launch,
    attached: Option<(SocketAddr, u32)>,
    cpus: Cpus,
    /// Length of one measured window.
    window: Duration,
    /// Windows of one figure; the median counts.
    windows: usize,
    /// Bytes after which a window of large batches ends early.
    window_bytes: u64,
    quick: bool,
}

type Figure = fn(&Setup, &mut Report) -> Result<()>;

/// Name, what takes it, and whether it has targets: `--quick` takes only those that have.
const FIGURES: &[(&str, Figure, bool)] = &[
    ("start", start::measure, true),
    ("commit", commit::measure, true),
    ("produce", produce::measure, true),
    ("consume", consume::measure, true),
    ("cores", produce::all_cores, false),
    ("idle", idle::measure, true),
    ("partitions", partitions::measure, true),
    ("device", device::measure, false),
    ("ceiling", produce::ceiling, false),
];

/// Flags of this command.
pub const FLAGS: &[&str] = &["quick", "assert"];

/// Takes the figures, prints the table, and says whether all targets hold (with `--assert`: within
/// the tolerance).
pub fn run(mut options: Options) -> Result<bool> {
    let quick = options.flag("quick");
    let tolerant = options.flag("assert");
    let program = options.text("broker").map_or_else(default_broker, PathBuf::from);
    let data = data_root(options.text("data").map(PathBuf::from))?;
    let out = options.text("out").map(PathBuf::from);
    let only = options.text("only");
    let settings = options.text("settings");
    let attach: Option<SocketAddr> = match options.text("attach") {
        Some(text) => Some(text.parse().context("--attach takes HOST:PORT")?),
        None => None,
    };
    let pid = options.value("pid", 0u32)?;
    options.finish()?;
    ensure!(attach.is_none() || pid > 0, "--attach needs --pid, to read the broker's CPU time");

    host::raise_descriptors()?;
    let cpus = Cpus::apart()?;
    let sync = SyncCost::measure(&data, if quick { 200 } else { 1000 })?;
    let mut report = Report::new(host::facts(&data, sync));
    let mut launch = one_core(&program, &data, &cpus);
    launch.settings.extend(settings.iter().flat_map(|text| text.split(' ')).map(str::to_owned));
    let setup = Setup {
        launch,
        attached: attach.map(|address| (address, pid)),
        window: Duration::from_millis(if quick { 700 } else { 4000 }),
        windows: if quick { 3 } else { 5 },
        window_bytes: if quick { 400 << 20 } else { 1500 << 20 },
        cpus,
        quick,
    };
    on_cpus(&setup.cpus.client, || {
        for (name, figure, has_targets) in FIGURES {
            let wanted = match only.as_deref() {
                Some(only) => only.split(',').any(|word| word == *name),
                None => *has_targets || !quick,
            };
            if wanted {
                eprintln!("measuring {name} ...");
                if let Err(error) = figure(&setup, &mut report) {
                    report.failed(name, &format!("{error:#}"));
                }
            }
        }
    })?;
    let after = SyncCost::measure(&setup.launch.data, if quick { 200 } else { 1000 })?;
    report.after(after);
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

impl Setup {
    /// A broker for one figure: a fresh one, or the attached one.
    fn broker(&self) -> Result<Broker> {
        match self.attached {
            Some((address, pid)) => Broker::attach(address, pid),
            None => self.launch.start(),
        }
    }

    /// A topic of its own for each measurement.
    fn topic(&self, admin: &mut Admin, what: &str, partitions: i32) -> Result<Topic> {
        let unique = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
        admin.create(&format!("bench-{what}-{unique}"), partitions, &[])
    }
}
