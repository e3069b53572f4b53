//! Small questions to single functions: how long, and how many allocations. Allocations are held to
//! bounds by `bench/tests/allocations.rs`, instructions to a baseline by `bench/guard/run`; times are
//! only printed.

/// Between two cores.
pub mod hop;
/// The questions.
pub mod questions;
/// The functions and their inputs.
pub mod subjects;

use std::time::Duration;

use anyhow::{Context, Result};

use crate::allocations::{Heap, counted};
use crate::options::Options;
use questions::{QUESTIONS, Question};

/// Time spent on one question, after as long again to warm up.
const LENGTH: Duration = Duration::from_millis(300);
/// Hops that are timed.
const HOPS: u64 = 20_000;

/// Asks all questions, or those whose name holds `--only`.
pub fn run(mut options: Options) -> Result<bool> {
    let only = options.text("only").unwrap_or_default();
    options.finish()?;
    println!("{:58} {:>12} {:>12}", "question", "CPU ns each", "allocations");
    let asked = |question: &&Question| question.name.contains(&only) || question.key == only;
    QUESTIONS.iter().filter(asked).for_each(ask);
    if "hop between cores".contains(&only) {
        hops()?;
    }
    Ok(true)
}

/// The `count` command: so many calls of one function and nothing else, for who counts instructions.
pub fn count(mut options: Options) -> Result<bool> {
    if options.flag("list") {
        options.finish()?;
        QUESTIONS.iter().for_each(|question| println!("{}", question.key));
        return Ok(true);
    }
    let key = options.text("question").context("--question names one, --list tells which")?;
    let calls: u64 = options.value("calls", 100)?;
    options.finish()?;
    let question = QUESTIONS.iter().find(|question| question.key == key);
    let mut work = (question.with_context(|| format!("no question {key}"))?.make)();
    (0..calls).for_each(|_| work());
    Ok(true)
}

/// Runs one for a while; prints time and allocations of a call, and bytes a second.
fn ask(question: &Question) {
    let mut work = (question.make)();
    spend(&mut work);
    let ((calls, elapsed), heap) = counted(|| spend(&mut work));
    let each = elapsed.as_secs_f64() / calls as f64;
    let Heap { allocations, .. } = heap;
    let rate = match question.bytes {
        0 => String::new(),
        bytes => format!("{:.2} GB/s", bytes as f64 / each / 1e9),
    };
    println!(
        "{:58} {:>12.1} {:>12.3}  {rate}",
        question.name,
        each * 1e9,
        allocations as f64 / calls as f64
    );
}

/// A hop is elapsed time, which is what a request waits.
fn hops() -> Result<()> {
    for (name, at_once) in
        [("hop between cores and back, one", 1), ("hop between cores and back, of 64 at once", 64)]
    {
        let found = hop::measure(HOPS, at_once)?;
        println!(
            "{name:58} {:>12.1} {:>12.3}  elapsed, {}",
            found.elapsed.as_secs_f64() / found.hops as f64 * 1e9,
            found.heap.allocations as f64 / found.hops as f64,
            if found.one_cpu { "both on one CPU" } else { "CPUs apart" }
        );
    }
    Ok(())
}

fn spend(work: &mut dyn FnMut()) -> (u64, Duration) {
    let begun = cpu_time();
    let mut calls = 0;
    loop {
        for _ in 0..16 {
            work();
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
