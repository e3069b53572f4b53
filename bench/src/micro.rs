//! Small questions to single functions: how long, and how many allocations. Allocations are held to
//! bounds by `bench/tests/allocations.rs`; times are only printed.

/// The functions and their inputs.
pub mod subjects;

use std::hint::black_box;
use std::time::Duration;

use anyhow::Result;
use millstream_io::batch::crc_of;
use millstream_io::units::Offset;

use crate::allocations::{Heap, counted};
use crate::options::Options;
use subjects::*;

/// Time spent on one question, after as long again to warm up.
const LENGTH: Duration = Duration::from_millis(300);

/// Asks all questions, or those whose name holds `--only`.
pub fn run(mut options: Options) -> Result<bool> {
    let only = options.text("only").unwrap_or_default();
    options.finish()?;
    let asked = |name: &str| name.contains(&only);
    println!("{:58} {:>12} {:>12}", "question", "CPU ns each", "allocations");
    batches(&asked);
    logs(&asked);
    messages(&asked);
    indexes(&asked);
    Ok(true)
}

fn batches(asked: &dyn Fn(&str) -> bool) {
    let large = batch(9_000, 100);
    let name = "crc of a batch of 1 MB";
    ask(asked, name, large.len(), || crc_of(&large));
    let name = "check of a batch of 1 MB at the door";
    ask(asked, name, large.len(), || checked(&large));
    let small = batch(1, 100);
    ask(asked, "check of a batch of one record at the door", small.len(), || checked(&small));
}

fn logs(asked: &dyn Fn(&str) -> bool) {
    for (name, append) in [
        ("append and commit of one record of 100 B", append(1, 100)),
        ("append and commit of 100 records of 100 B", append(100, 100)),
        ("append and commit of 1000 records of 100 B", append(1000, 100)),
    ] {
        let mut log = log();
        let mut staged = 0;
        ask(asked, name, append.batch.len(), || {
            stage(&mut log, &append);
            commit(&mut log);
            staged += append.batch.len();
            // The tail is not evicted here: begin anew before it fills the memory.
            if staged > 64 << 20 {
                (log, staged) = (subjects::log(), 0);
            }
        });
    }
    let one = append(1, 100);
    let mut log = log();
    for _ in 0..1000 {
        stage(&mut log, &one);
    }
    commit(&mut log);
    let mut at = 0;
    ask(asked, "plan of a read at the tail, sequential", 0, || {
        let plan = plan(&mut log, at, 4096);
        at = (at + 20) % 900;
        plan
    });
}

fn messages(asked: &dyn Fn(&str) -> bool) {
    for (name, partitions, records) in [
        ("decode of a Produce, 1 partition, 1 record", 1, 1),
        ("decode of a Produce, 1 partition, 1000 records", 1, 1000),
        ("decode of a Produce, 256 partitions", 256, 1),
    ] {
        let frame = produce_frame(partitions, records);
        ask(asked, name, 0, || decode_produce(&frame));
    }
    for (name, partitions) in
        [("decode of a Fetch, 1 partition", 1), ("decode of a Fetch, 256 partitions", 256)]
    {
        let frame = fetch_frame(partitions);
        ask(asked, name, 0, || decode_fetch(&frame));
    }
    for (name, partitions) in [
        ("encode of a Produce answer, 1 partition", 1),
        ("encode of a Produce answer, 256 partitions", 256),
    ] {
        let response = produce_response(partitions);
        let mut buffer = Vec::new();
        ask(asked, name, 0, || {
            buffer = encode_produce(&response, std::mem::take(&mut buffer));
        });
    }
    for (name, partitions) in [
        ("frame of a Fetch answer, 1 partition", 1),
        ("frame of a Fetch answer, 256 partitions", 256),
    ] {
        let response = fetch_response(partitions);
        let mut buffer = Vec::new();
        ask(asked, name, 0, || {
            buffer = encode_fetch(&response, std::mem::take(&mut buffer));
        });
    }
}

fn indexes(asked: &dyn Fn(&str) -> bool) {
    let index = index();
    let mut target = 0u64;
    ask(asked, "floor in the index of a segment of 1 GiB, at random", 0, || {
        target = (target * 6_364_136_223 + 1_442_695) % (40 << 18);
        index.floor(Offset::ZERO.add(target))
    });
}

/// Runs `work` for a while; prints time and allocations of one call, and bytes a second if `bytes`.
fn ask<T>(asked: &dyn Fn(&str) -> bool, name: &str, bytes: usize, mut work: impl FnMut() -> T) {
    if !asked(name) {
        return;
    }
    spend(&mut work);
    let ((calls, elapsed), heap) = counted(|| spend(&mut work));
    let each = elapsed.as_secs_f64() / calls as f64;
    let Heap { allocations, .. } = heap;
    let rate =
        if bytes > 1000 { format!("{:.2} GB/s", bytes as f64 / each / 1e9) } else { String::new() };
    println!("{name:58} {:>12.1} {:>12.3}  {rate}", each * 1e9, allocations as f64 / calls as f64);
}

fn spend<T>(work: &mut impl FnMut() -> T) -> (u64, Duration) {
    let begun = cpu_time();
    let mut calls = 0;
    loop {
        for _ in 0..16 {
            black_box(work());
        }
        calls += 16;
        let elapsed = cpu_time().saturating_sub(begun);
        if elapsed >= LENGTH {
            return (calls, elapsed);
        }
    }
}

/// CPU time of this thread: a busy neighbour does not show in it.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}
