//! The `run` command: workloads, one after the other, against one broker.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::conduct::{Outcome, conduct};
use super::observe::Observer;
use super::plan::{Plan, Reading, Transactions};
use crate::host::{self, Cpus, Device, SyncCost, on_cpus};
use crate::options::Options;
use crate::process::{Broker, data_root, default_broker, one_core};
use crate::report::{html, json as report, table};
use crate::workload::{Batching, load, parse_acks, parse_reading};

/// Flags of this command.
pub const FLAGS: &[&str] = &["spin", "keyed", "null", "ceiling", "quiet"];

/// How long the ceiling is measured.
const CEILING: Duration = Duration::from_secs(3);

struct Target {
    broker: Broker,
    /// Whether its process may be looked at.
    visible: bool,
    null: bool,
    driver: String,
    facts: Value,
    data: PathBuf,
    cpus: Cpus,
}

/// Runs them; false when the data of one did not pass its checks.
pub fn run(mut options: Options) -> Result<bool> {
    let driver_file = options.text("driver").map(PathBuf::from);
    let batching = Batching::load(driver_file.as_deref())?;
    let mut notes = Vec::new();
    let mut plans = Vec::new();
    match options.text("workload") {
        Some(names) => {
            for name in names.split(',') {
                plans.push(load(name, &batching, &mut notes)?);
            }
        }
        None => plans.push(Plan { name: "by-options".to_owned(), ..Plan::default() }),
    }
    let changes = Changes::take(&mut options)?;
    for plan in &mut plans {
        changes.apply(plan);
        plan.check().with_context(|| plan.name.clone())?;
    }
    let (quiet, ceiling) = (options.flag("quiet"), options.flag("ceiling"));
    let out = options.text("out").map(PathBuf::from);
    let target = target(&mut options)?;
    notes.iter().for_each(|note| eprintln!("{note}"));
    host::raise_descriptors()?;
    let mut good = true;
    for plan in &plans {
        if !quiet {
            eprintln!("{}:", plan.name);
        }
        let outcome = on_cpus(&target.cpus.client, || drive(plan, &target, quiet))??;
        let ceiling = if ceiling { Some(null_ceiling(plan, &target)?) } else { None };
        good &= outcome.checks.hold(plan.acks);
        tell(&outcome, &target, ceiling, out.as_deref())?;
    }
    if target.null {
        target.broker.stop_null();
    } else {
        target.broker.stop()?;
    }
    Ok(good)
}

fn drive(plan: &Plan, target: &Target, quiet: bool) -> Result<Outcome> {
    let observer = Observer {
        broker: target.visible.then_some(&target.broker),
        device: Device::under(&target.data).ok(),
    };
    conduct(plan, target.broker.address, &observer, &mut |line| {
        if !quiet {
            eprintln!("{line}");
        }
    })
    .with_context(|| plan.name.clone())
}

fn tell(
    outcome: &Outcome,
    target: &Target,
    ceiling: Option<f64>,
    out: Option<&Path>,
) -> Result<()> {
    let mut text = table::table(outcome, &target.driver, &target.facts);
    let mut json = report::report(outcome, &target.driver, &target.facts);
    if let Some(ceiling) = ceiling {
        let reached = outcome.total.records as f64 / outcome.usage.seconds / ceiling * 100.0;
        text += &format!(
            "{:>24}  {ceiling:.0} messages/s against a server that does nothing; this run reached \
             {reached:.0} % of it\n",
            "ceiling of this client"
        );
        json["millstream"]["clientCeilingRecordsPerSecond"] = json!(ceiling);
    }
    println!("{text}");
    let Some(out) = out else { return Ok(()) };
    std::fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    let name: String =
        outcome
            .plan
            .name
            .chars()
            .map(|letter| {
                if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '-' }
            })
            .collect();
    let write = |ending: &str, content: String| {
        let path = out.join(format!("{name}.{ending}"));
        std::fs::write(&path, content).with_context(|| path.display().to_string())
    };
    write("html", html::page(outcome, &text, &json))?;
    write("json", serde_json::to_string_pretty(&json)? + "\n")
}

/// Messages a second of the same plan, as fast as possible, against a server that does nothing.
fn null_ceiling(plan: &Plan, target: &Target) -> Result<f64> {
    let launch = one_core(&default_broker(), &target.data, &target.cpus);
    let server = launch.start_null()?;
    let mut plan = plan.clone();
    (plan.rate, plan.warm_up, plan.length) = (0.0, plan.interval, CEILING.max(plan.interval));
    (plan.length, plan.backlog_bytes) = (plan.interval * whole(plan.length, plan.interval), 0);
    if plan.reading == Some(Reading::Backfill) {
        (plan.reading, plan.consumers) = (None, 0);
    }
    let observer = Observer { broker: None, device: None };
    let outcome =
        on_cpus(&target.cpus.client, || conduct(&plan, server.address, &observer, &mut |_| {}))??;
    ensure!(outcome.checks.hold(plan.acks), "against the null server: {:?}", outcome.checks);
    server.stop_null();
    Ok(outcome.total.records as f64 / outcome.usage.seconds)
}

fn whole(time: Duration, interval: Duration) -> u32 {
    (time.as_secs_f64() / interval.as_secs_f64()).ceil().max(1.0) as u32
}

fn target(options: &mut Options) -> Result<Target> {
    let program = options.text("broker").map_or_else(default_broker, PathBuf::from);
    let data = data_root(options.text("data").map(PathBuf::from))?;
    let cores = options.value("cores", "1".to_owned())?;
    let settings: Vec<String> = options
        .text("settings")
        .map(|text| text.split_whitespace().map(str::to_owned).collect())
        .unwrap_or_default();
    let (attach, pid) = (options.text("attach"), options.text("pid"));
    let (name, null) = (options.text("name"), options.flag("null"));
    std::mem::take(options).finish()?;
    let cpus = if cores == "1" { Cpus::apart()? } else { Cpus { broker: vec![], client: vec![] } };
    let mut launch = one_core(&program, &data, &cpus);
    launch.cores.clone_from(&cores);
    launch.settings.clone_from(&settings);
    let visible = attach.is_none() || pid.is_some();
    let mut facts = host::facts(&data, SyncCost::measure(&data, 500)?);
    let (broker, driver) = match (attach, null) {
        (Some(text), _) => {
            let pid = pid.map_or(Ok(std::process::id()), |text| text.parse()).context("--pid")?;
            let address = text.parse().context("--attach takes HOST:PORT")?;
            (Broker::attach(address, pid)?, text)
        }
        (None, true) => (launch.start_null()?, "a server that does nothing".to_owned()),
        (None, false) => {
            facts["broker"] = json!(program.display().to_string());
            facts["cores"] = json!(cores);
            (launch.start()?, "Millstream".to_owned())
        }
    };
    facts["settings"] = json!(settings);
    facts["bench"] = json!(env!("CARGO_PKG_VERSION"));
    Ok(Target { broker, visible, null, driver: name.unwrap_or(driver), facts, data, cpus })
}

/// What the command line changes of every workload.
struct Changes(Vec<Change>);

type Change = Box<dyn Fn(&mut Plan)>;

impl Changes {
    fn take(options: &mut Options) -> Result<Changes> {
        let mut all = Changes(Vec::new());
        all.number(options, "topics", |plan, value: usize| plan.topics = value)?;
        all.number(options, "partitions", |plan, value: i32| plan.partitions = value)?;
        all.number(options, "producers", |plan, value: usize| plan.producers = value)?;
        all.number(options, "subscriptions", |plan, value: usize| plan.subscriptions = value)?;
        all.number(options, "consumers", |plan, value: usize| {
            plan.consumers = value;
            plan.reading = (value > 0).then(|| plan.reading.unwrap_or(Reading::Tail));
        })?;
        all.number(options, "size", |plan, value: usize| plan.message_bytes = value)?;
        all.number(options, "records", |plan, value: u32| plan.records = value)?;
        all.number(options, "spread", |plan, value: usize| plan.spread = value)?;
        all.number(options, "random", |plan, value: f64| plan.random = value)?;
        all.number(options, "in-flight", |plan, value: usize| plan.in_flight = value)?;
        all.number(options, "rate", |plan, value: f64| plan.rate = value)?;
        all.number(options, "backlog-mb", |plan, value: f64| {
            plan.backlog_bytes = (value * 1e6) as u64
        })?;
        all.number(options, "idle", |plan, value: usize| plan.idle = value)?;
        all.number(options, "threads", |plan, value: usize| plan.threads = value)?;
        all.number(options, "transactions", |plan, requests: u32| {
            let abort_every = plan.transactions.map_or(0, |old| old.abort_every);
            plan.transactions = (requests > 0).then_some(Transactions { requests, abort_every });
        })?;
        all.number(options, "abort-every", |plan, value: u64| {
            if let Some(transactions) = &mut plan.transactions {
                transactions.abort_every = value;
            }
        })?;
        for (name, set) in [
            ("seconds", (|plan, time| plan.length = time) as fn(&mut Plan, Duration)),
            ("warm-up", |plan, time| plan.warm_up = time),
            ("interval", |plan, time| plan.interval = time),
        ] {
            all.number(options, name, move |plan, value: f64| {
                set(plan, Duration::from_secs_f64(value.max(0.0)));
            })?;
        }
        if let Some(text) = options.text("codec") {
            let codec = text.parse()?;
            all.0.push(Box::new(move |plan| plan.codec = codec));
        }
        if let Some(text) = options.text("acks") {
            let acks = parse_acks(&text)?;
            all.0.push(Box::new(move |plan| plan.acks = acks));
        }
        if let Some(text) = options.text("reading") {
            let reading = parse_reading(&text)?;
            all.0.push(Box::new(move |plan| plan.reading = reading));
        }
        let (keyed, spin) = (options.flag("keyed"), options.flag("spin"));
        all.0.push(Box::new(move |plan| {
            plan.keyed |= keyed;
            plan.spin |= spin;
        }));
        Ok(all)
    }

    fn number<T: std::str::FromStr + Copy + 'static>(
        &mut self,
        options: &mut Options,
        name: &str,
        set: impl Fn(&mut Plan, T) + 'static,
    ) -> Result<()> {
        if let Some(text) = options.text(name) {
            let value: T =
                text.parse().map_err(|_| anyhow::anyhow!("--{name} cannot be `{text}`"))?;
            self.0.push(Box::new(move |plan| set(plan, value)));
        }
        Ok(())
    }

    fn apply(&self, plan: &mut Plan) {
        self.0.iter().for_each(|change| change(plan));
    }
}
