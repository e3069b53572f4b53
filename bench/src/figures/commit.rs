//! Does a commit cost more when many partitions are written? The same requests, all to one partition
//! and each to a partition of its own, in turn within one run, one core; all answers awaited.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{Report, Setup, Target, VALUE_BYTES, now_ms};
use crate::batch::Batch;
use crate::client::{Admin, Driver};
use crate::host::{Device, micros};
use crate::load::{Shot, check_ends};

const PARTITIONS: i32 = 256;
/// Connections of the cases with many requests.
const CONNECTIONS: usize = 16;
/// Rounds of each kind before the kinds change.
const BLOCK: usize = 20;
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

struct Kind {
    name: &'static str,
    /// The kind it stands against, and how many times that it may cost.
    against: Option<(usize, Target)>,
    shots: Vec<Shot>,
    times: Vec<f64>,
    block_medians: Vec<f64>,
    written: u64,
    device_writes: u64,
    flushes: u64,
}

pub fn measure(setup: &Setup, report: &mut Report) -> Result<()> {
    let broker = setup.broker()?;
    let mut admin = Admin::connect(broker.address)?;
    let one = setup.topic(&mut admin, "commit-1", 1)?;
    let many = setup.topic(&mut admin, "commit-256", PARTITIONS)?;
    let versions = admin.versions;
    let batch = Batch::filled(1, VALUE_BYTES, 1, now_ms());
    let all: Vec<i32> = (0..PARTITIONS).collect();
    let kind = |name, against, shots| Kind {
        name,
        against,
        shots,
        times: Vec::new(),
        block_medians: Vec::new(),
        written: 0,
        device_writes: 0,
        flushes: 0,
    };
    let shot = |topic, part: &[i32]| Shot::new(versions, topic, part, &batch);
    let spread: Result<Vec<Shot>> = all.iter().map(|index| shot(&many, &[*index])).collect();
    let same: Result<Vec<Shot>> = all.iter().map(|_| shot(&one, &[0])).collect();
    let same_load = Some((0, Target::AtMost(1.5)));
    let more_load = Some((2, Target::None));
    let mut kinds = [
        kind("256 requests, all to 1 partition", None, same?),
        kind("256 requests, each to its own of 256 partitions", same_load, spread?),
        kind("1 request, 1 partition", None, vec![shot(&one, &[0])?]),
        // 256 times the records, so no figure for what partitions cost.
        kind("1 request, 256 partitions", more_load, vec![shot(&many, &all)?]),
    ];
    let mut driver = Driver::connect(broker.address, CONNECTIONS)?;
    for kind in &mut kinds {
        for _ in 0..BLOCK {
            round(&mut driver, kind, versions.produce)?;
        }
        kind.times.clear();
    }
    let device = Device::under(&setup.launch.data).ok();
    let begun = Instant::now();
    let length = setup.window * u32::try_from(setup.windows)? * 2;
    let mut rounds = BLOCK as u64;
    while begun.elapsed() < length {
        for kind in &mut kinds {
            let before = device.as_ref().and_then(|device| device.counters().ok());
            let written = broker.written()?;
            let from = kind.times.len();
            for _ in 0..BLOCK {
                round(&mut driver, kind, versions.produce)?;
            }
            kind.block_medians.push(median(&mut kind.times[from..].to_vec()));
            kind.written += broker.written()? - written;
            let after = device.as_ref().and_then(|device| device.counters().ok());
            if let (Some(before), Some(after)) = (before, after) {
                kind.device_writes += after.writes - before.writes;
                kind.flushes += after.flushes - before.flushes;
            }
        }
        rounds += BLOCK as u64;
    }
    check_ends(&admin.ends(&one)?, &[0], &[rounds * (1 + u64::from(PARTITIONS.unsigned_abs()))])?;
    let starts = vec![0; all.len()];
    check_ends(&admin.ends(&many)?, &starts, &vec![rounds * 2; all.len()])?;
    add_rows(report, &mut kinds);
    if setup.attached.is_none() {
        broker.stop()?;
    }
    Ok(())
}

/// The ratio of the whole run is the figure; the blocks, taken in turn, show its spread.
fn add_rows(report: &mut Report, kinds: &mut [Kind]) {
    let p50s: Vec<f64> = kinds.iter_mut().map(|kind| median(&mut kind.times)).collect();
    for (kind, p50) in kinds.iter().zip(&p50s) {
        let rounds = kind.times.len().max(1) as f64;
        let note = format!(
            "p50 {p50:.0} us over {rounds} rounds; a round: {:.0} bytes written, on the device \
             {:.1} writes, {:.1} flushes",
            kind.written as f64 / rounds,
            kind.device_writes as f64 / rounds,
            kind.flushes as f64 / rounds
        );
        let Some((base, target)) = kind.against else {
            let name = format!("commit p50, {}", kind.name);
            report.row(name, "us", Target::None, vec![*p50], note);
            continue;
        };
        let blocks = kind.block_medians.iter().zip(&kinds[base].block_medians);
        let mut ratios: Vec<f64> = blocks.map(|(many, one)| many / one).collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let (low, high) = (ratios[ratios.len() / 10], ratios[ratios.len() * 9 / 10]);
        report.row(
            format!("commit p50, {}, against {}", kind.name, kinds[base].name),
            "x",
            target,
            vec![p50 / p50s[base]],
            format!("{note}; blocks {low:.2} .. {high:.2}"),
        );
    }
}

fn round(driver: &mut Driver, kind: &mut Kind, version: i16) -> Result<()> {
    let begun = Instant::now();
    for (index, shot) in kind.shots.iter().enumerate() {
        driver.outputs().send(index % CONNECTIONS, &Rc::clone(shot.frame()), index as u64);
    }
    let mut last = begun;
    let shots = &kind.shots;
    let mut answers = Vec::with_capacity(shots.len());
    while driver.outputs().open() > 0 {
        driver.turn(Duration::from_millis(100), &mut |response, _| {
            last = Instant::now();
            answers.push((usize::try_from(response.tag)?, response.bytes.to_vec()));
            Ok(())
        })?;
        ensure!(begun.elapsed() < ANSWER_LIMIT, "no answer after {ANSWER_LIMIT:?}");
    }
    kind.times.push(micros(last - begun));
    // The clock has stopped: reading the answers is not the broker's time.
    for (index, bytes) in &answers {
        shots[*index].check(version, bytes)?;
    }
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
