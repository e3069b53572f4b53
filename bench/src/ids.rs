//! Transactional ids: how long their coordinator takes to be back with all of them.
//!
//! Each id is made by InitProducerId, one after the other, and is known again when DescribeTransactions
//! tells the producer id that it was given.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use millstream::wire::messages::{describe_transactions as dt, init_producer_id as ip};
use serde_json::json;

use crate::client::{Admin, body};
use crate::host::{self, Cpus, SyncCost, on_cpus};
use crate::options::Options;
use crate::process::{Launch, data_root, default_broker, one_core, pause};
use crate::run::await_coordinator;

const INIT: i16 = 4;
const DESCRIBE: i16 = 0;
/// Ids that one DescribeTransactions asks for.
const ASKED_AT_ONCE: usize = 500;
/// COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR: ask again.
const RETRIED: [i16; 3] = [14, 15, 16];
/// A coordinator that is not back by then is not coming back.
const RELOAD_LIMIT: Duration = Duration::from_secs(120);

/// Makes the ids, restarts the broker, and times the return of all of them.
pub fn run(mut options: Options) -> Result<bool> {
    let count: usize = options.value("ids", 10_000)?;
    let program = options.text("broker").map_or_else(default_broker, PathBuf::from);
    let data = data_root(options.text("data").map(PathBuf::from))?;
    let cores = options.value("cores", "1".to_owned())?;
    let out = options.text("out").map(PathBuf::from);
    options.finish()?;
    ensure!(count > 0, "no id, no load");

    let cpus = if cores == "1" { Cpus::apart()? } else { Cpus { broker: vec![], client: vec![] } };
    let mut launch = one_core(&program, &data, &cpus);
    launch.cores = cores;
    let facts = host::facts(&data, SyncCost::measure(&data, 500)?);
    let (made_in, back_after) = on_cpus(&cpus.client, || measure(&launch, count))??;
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    println!(
        "{count} transactional ids: made in {:.0} ms, back {:.0} ms after exec",
        ms(made_in),
        ms(back_after)
    );
    if let Some(path) = out {
        let report = json!({
            "host": facts, "ids": count, "made_in_ms": ms(made_in), "reload_ms": ms(back_after),
        });
        let text = serde_json::to_string_pretty(&report)?;
        std::fs::write(&path, text + "\n").with_context(|| path.display().to_string())?;
    }
    Ok(true)
}

fn measure(launch: &Launch, count: usize) -> Result<(Duration, Duration)> {
    let mut broker = launch.start()?;
    let mut admin = Admin::connect(broker.address)?;
    let names: Vec<String> = (0..count).map(|number| format!("id-{number}")).collect();
    await_coordinator(&mut admin, &names[0])?;
    let begun = Instant::now();
    let mut producers = Vec::with_capacity(count);
    for name in &names {
        producers.push(init(&mut admin, name)?);
    }
    let made_in = begun.elapsed();
    drop(admin);
    let (_, data) = broker.stop_keeping()?;
    let data = data.context("the broker was started here")?;
    let begun = Instant::now();
    let broker = launch.start_on(data)?;
    let mut admin = Admin::connect(broker.address)?;
    for (names, producers) in names.chunks(ASKED_AT_ONCE).zip(producers.chunks(ASKED_AT_ONCE)) {
        while !are_back(&mut admin, names, producers)? {
            ensure!(begun.elapsed() < RELOAD_LIMIT, "{} is not back", names[0]);
            pause(Duration::from_millis(1));
        }
    }
    let back_after = begun.elapsed();
    broker.stop()?;
    Ok((made_in, back_after))
}

/// The producer id that a new transactional id is given.
fn init(admin: &mut Admin, name: &str) -> Result<i64> {
    let request = ip::InitProducerIdRequest {
        transactional_id: Some(name),
        transaction_timeout_ms: 60_000,
        producer_id: -1,
        producer_epoch: -1,
    };
    let begun = Instant::now();
    loop {
        let (code, producer) = admin.ask(&request, INIT, |bytes| {
            let answer: ip::InitProducerIdResponse = body(INIT, bytes)?;
            Ok((answer.error_code, answer.producer_id))
        })?;
        if code == 0 {
            return Ok(producer);
        }
        ensure!(RETRIED.contains(&code), "InitProducerId of {name}: error {code}");
        ensure!(begun.elapsed() < RELOAD_LIMIT, "no coordinator of {name}");
        pause(Duration::from_millis(1));
    }
}

/// Whether the coordinator has loaded all of these.
fn are_back(admin: &mut Admin, names: &[String], producers: &[i64]) -> Result<bool> {
    let transactional_ids = names.iter().map(String::as_str).collect();
    let request = dt::DescribeTransactionsRequest { transactional_ids };
    admin.ask(&request, DESCRIBE, |bytes| {
        let answer: dt::DescribeTransactionsResponse<'_> = body(DESCRIBE, bytes)?;
        ensure!(answer.transaction_states.len() == names.len(), "not every id was described");
        for (state, producer) in answer.transaction_states.iter().zip(producers) {
            let (name, code) = (state.transactional_id, state.error_code);
            if RETRIED.contains(&code) {
                return Ok(false);
            }
            ensure!(code == 0, "DescribeTransactions of {name}: error {code}");
            ensure!(state.producer_id == *producer, "{name} came back as {}", state.producer_id);
        }
        Ok(true)
    })
}
