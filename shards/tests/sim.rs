//! The seeded simulator: a shard with all its tasks on a disk that loses, tears, reorders, fails and
//! fills up; crashes at any operation, also of the recovery; and a judge who knows only what
//! clients know.
//!
//! Judged are the three promises of the disk: an acknowledged batch is there for ever at its offset;
//! nothing that a reader has seen is taken back, and no offset is given to two records; after any
//! crash the log holds the acknowledged batches, in order, without a gap, plus at most batches whose
//! answer was open. Records are deleted up to the log start that was acknowledged or seen, and none
//! behind the highest that was asked for. Besides: an idempotent producer's retry across a crash is
//! stored once, a failed directory acknowledges nothing more, everybody gets an answer when the disk
//! works, and a clean stop leaves nothing to read for the next start.
//!
//! What readers of committed records are told (LastStableOffset, aborted transactions) is what follows
//! from the log, and so is what a partition remembers of each producer behind a start. One of three seeds
//! has compacted partitions, most of them with transactions: what a pass may take away, and what it must
//! leave, is judged record by record (`sim/compacted.rs`), with the power going in the middle of passes.
//!
//! `MILLSTREAM_SIM_SEEDS=n` runs the seeds below n, `MILLSTREAM_SIM_SEED=s` one of them with a trace of
//! its disk.

#![allow(clippy::expect_used, reason = "a broken expectation is the failure of the test")]

#[path = "sim/covered.rs"]
mod covered;
#[path = "sim/executor.rs"]
mod executor;
#[path = "sim/life.rs"]
mod life;
#[path = "sim/model.rs"]
mod model;
#[path = "sim/plan.rs"]
mod plan;
#[path = "sim/remembered.rs"]
mod remembered;
#[path = "sim/transactions.rs"]
mod transactions;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use covered::Covered;
use life::{End, Life, Producer};
use millstream_io::disk::Disk;
use millstream_io::disk_sim::{CrashMode, SimDisk, SimRng};
use millstream_io::recovery::RecoveryReport;
use millstream_shards::recover::{Recovered, recover};
use model::{Compacted, Model, Verdict};
use plan::{Plan, ROOT, opens, recover_config};
use transactions::Client;

/// Seeds of a run that asks for no number.
const SEEDS: u64 = 300;

#[test]
fn no_crash_takes_back_what_was_acknowledged_or_seen() {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    if let Some(seed) = number("MILLSTREAM_SIM_SEED") {
        run_seed(seed, with_transactions(seed), true, &mut Covered::default());
        return;
    }
    run_seeds(number("MILLSTREAM_SIM_SEEDS").unwrap_or(SEEDS));
}

#[test]
#[ignore = "minutes without optimisation; `./tests/run` and `./tests/run --long` run it optimised"]
fn ten_thousand_seeds_keep_every_promise() {
    run_seeds(10_000);
}

/// A torn rewrite of a checkpoint's last block; a torn cut of a sealed segment; a large run that ends
/// on a block's border, with more staged behind it; a transaction forgotten by a full disk; segments that
/// were not cleaned, because those that were to become one with them were deleted; a marker that was
/// cleaned away before it was forgotten for good that it is missed; a producer's last batch, cleaned away
/// for the sake of one that a crash took back.
#[test]
fn seeds_that_once_failed_keep_every_promise() {
    for (seed, transactions) in [
        (6530, false),
        (30278, false),
        (9032, true),
        (2521, true),
        (7167, true),
        (4917, true),
        (5127, true),
    ] {
        run_seed(seed, transactions, false, &mut Covered::default());
    }
}

fn run_seeds(seeds: u64) {
    let began = std::time::Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let part = |first: usize| {
        let mut covered = Covered::default();
        for seed in (0..seeds).skip(first).step_by(threads) {
            run_seed(seed, with_transactions(seed), false, &mut covered);
        }
        covered
    };
    let mut covered = Covered::default();
    std::thread::scope(|scope| {
        let parts: Vec<_> = (0..threads).map(|first| scope.spawn(move || part(first))).collect();
        for part in parts {
            covered.join(&part.join().expect("a seed that failed has said so"));
        }
    });
    println!("{seeds} seeds in {:?}: {covered:?}", began.elapsed());
    // A simulator that never comes to these places proves nothing about them.
    if seeds >= SEEDS {
        covered.check();
    }
}

/// One of three seeds has compacted partitions, and one of three of those no transactional clients.
fn with_transactions(seed: u64) -> bool {
    !seed.is_multiple_of(9)
}

/// Runs one seed; a broken promise, or a panic of the code under test, names it.
fn run_seed(seed: u64, transactions: bool, trace: bool, covered: &mut Covered) {
    let disk = SimDisk::new();
    if trace {
        disk.start_trace();
    }
    let verdict = catch_unwind(AssertUnwindSafe(|| live(seed, transactions, &disk, covered)));
    let fault = match verdict {
        Ok(Ok(())) => return,
        Ok(Err(fault)) => fault,
        Err(_) => "a panic, see above".to_owned(),
    };
    for line in disk.trace() {
        println!("{line}");
    }
    panic!("seed {seed}: {fault}\nrun it alone with MILLSTREAM_SIM_SEED={seed}");
}

fn live(seed: u64, transactions: bool, disk: &SimDisk, covered: &mut Covered) -> Verdict {
    let mut rng = SimRng::new(seed);
    disk.seed(rng.next_u64());
    let mut plan = Plan::draw(&mut rng);
    plan.retain = !seed.is_multiple_of(2);
    if plan.retain {
        plan.config.retention_ms = Some(rng.below(100));
        plan.config.retention_bytes = rng.chance(50).then(|| rng.below(300_000));
    }
    let mut model = Model::default();
    if seed.is_multiple_of(3) {
        let keys = plan::compact(&mut plan, &mut SimRng::new(!seed));
        model.compaction = Some(Compacted::new(keys));
    }
    let mut theirs = SimRng::new(!seed);
    plan.clients = if transactions { 1 + theirs.index(2 * plan.partitions) } else { 0 };
    for client in 0..plan.clients {
        let version = 1 + theirs.below(2) as u8;
        let partition = client % plan.partitions;
        model.clients.push(Client::new(200 + client as i64, partition, version));
    }
    let mut producers: Vec<Producer> = (0..plan.partitions + 2)
        .map(|p| Producer::new(100 + p as i64, p % plan.partitions))
        .collect();
    // The directory is there before the broker comes, as after its formatting.
    let made = disk.create_dir_all(Path::new(ROOT)).and_then(|()| disk.sync_dir(Path::new("/")));
    made.map_err(|error| error.to_string())?;
    let mut last = None;
    for epoch in 0..plan.lives {
        let recovered = recover_through_crashes(&plan, disk, epoch as i32, &mut rng, covered)?;
        check_report(&recovered, last)?;
        let mut life = Life::start(&plan, disk.clone(), recovered);
        life.audit(&mut model, &mut rng)?;
        producers.iter_mut().for_each(Producer::reconnect);
        model.clients.iter_mut().for_each(|client| client.reconnect(theirs.chance(50)));
        let end = life.run(&mut model, &mut producers, &mut rng)?;
        last = Some(end);
        covered.add(&life.metrics(), end);
        covered.reads_refused += life.reads_refused;
        model.producers_forgotten |= life.metrics().producers_forgotten_total > 0;
        life.end();
        match rng.below(4) {
            _ if end == End::Stop => disk.crash_as(CrashMode::LoseAll, rng.next_u64()),
            0 => disk.crash_as(CrashMode::LoseAll, rng.next_u64()),
            1 => disk.crash_as(CrashMode::Torn, rng.next_u64()),
            _ => disk.crash(rng.next_u64()),
        }
        disk.set_capacity(None);
    }
    // What is open ends, and then nobody waits any more.
    disk.clear_faults();
    let recovered = recover_through_crashes(&plan, disk, plan.lives as i32, &mut rng, covered)?;
    let mut life = Life::start(&plan, disk.clone(), recovered);
    life.audit(&mut model, &mut rng)?;
    producers.iter_mut().for_each(Producer::reconnect);
    model.clients.iter_mut().for_each(|client| client.reconnect(false));
    life.end_transactions(&mut model, &mut producers, &mut rng)?;
    life.end();
    covered.add_judged(&model);
    Ok(())
}

/// Recovers, with the power going at any operation of the recovery now and then.
fn recover_through_crashes(
    plan: &Plan,
    disk: &SimDisk,
    epoch: i32,
    rng: &mut SimRng,
    covered: &mut Covered,
) -> Result<Recovered, String> {
    loop {
        if rng.chance(30) {
            disk.power_off_at(disk.ops() + 1 + rng.below(60));
        }
        let result = recover(disk, &recover_config(plan), opens(plan, epoch));
        match result {
            Ok(recovered) if disk.is_powered() => {
                disk.power_off_at(u64::MAX);
                let cut = |(_, report): &(_, RecoveryReport)| report.bytes_cut;
                covered.cut_bytes += recovered.report.partitions.iter().map(cut).sum::<u64>();
                covered.scanned_bytes += recovered.report.bytes_scanned;
                covered.replayed_bytes += recovered.report.bytes_replayed;
                return Ok(recovered);
            }
            Ok(_) => {}
            Err(error) if disk.is_powered() => return Err(format!("recovery: {error}")),
            Err(_) => {}
        }
        covered.recoveries_cut += 1;
        disk.crash(rng.next_u64());
    }
}

/// Nothing was damaged, so nothing may be reported as damaged or lost.
fn check_report(recovered: &Recovered, last: Option<End>) -> Verdict {
    let report = &recovered.report;
    for (dir, partition) in &report.partitions {
        if !partition.damage.is_empty() || !partition.lost.is_empty() {
            return Err(format!("recovery: {}", partition.lines(dir).join("; ")));
        }
    }
    if !report.journal_damage.is_empty() || !report.set_aside.is_empty() {
        return Err(format!("recovery: {}", report.lines().join("; ")));
    }
    match last {
        Some(End::Stop) if report.bytes_scanned + report.bytes_replayed > 0 => Err(format!(
            "a clean stop left {} bytes to scan and {} to replay",
            report.bytes_scanned, report.bytes_replayed
        )),
        _ => Ok(()),
    }
}
