//! `millstream-bench COMMAND [--option value]`: see `bench/README.md`.

use std::process::ExitCode;

use anyhow::{Result, bail};
use millstream_bench::allocations::Counting;
use millstream_bench::load::command as load;
use millstream_bench::options::Options;
use millstream_bench::{figures, groups, latency, micro, null, soak};

#[global_allocator]
static HEAP: Counting = Counting;

const HELP: &str = "\
millstream-bench figures [--broker PATH] [--data DIR] [--out JSON] [--only NAME,..] [--quick]
                         [--assert] [--settings 'NAME=VALUE ..'] [--attach HOST:PORT --pid PID]
millstream-bench latency [--rate N] [--connections N] [--partitions N] [--records N] [--size BYTES]
                         [--warm-up S] [--seconds S] [--spin] [--broker PATH] [--cores N]
                         [--data DIR] [--out JSON] [--attach HOST:PORT --pid PID]
millstream-bench groups [--groups N] [--members N] [--rate N] [--warm-up S] [--seconds S] [--reload]
                        [--broker PATH] [--cores N] [--data DIR] [--out JSON]
                        [--attach HOST:PORT --pid PID]
millstream-bench load --attach HOST:PORT [--pid PID] [--connections N] [--in-flight N]
                      [--partitions N] [--records N] [--size BYTES] [--warm-up S] [--seconds S]
                      [--fetch] [--out JSON]
millstream-bench soak [--minutes M] [--partitions N] [--producers N] [--mb-per-second N] [--idle N]
                      [--stall-ms MS] [--broker PATH] [--cores N|all] [--data DIR]
                      [--attach HOST:PORT --pid PID]
millstream-bench micro [--only PART-OF-A-NAME]
millstream-bench null --listen HOST:PORT
bench/README.md explains each.";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("millstream-bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool> {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    match command.as_str() {
        "figures" => figures::run(Options::parse(words, figures::FLAGS)?),
        "latency" => latency::run(Options::parse(words, latency::FLAGS)?),
        "groups" => groups::run(Options::parse(words, groups::FLAGS)?),
        "soak" => soak::run(Options::parse(words, &[])?),
        "micro" => micro::run(Options::parse(words, &[])?),
        "load" => load::run(Options::parse(words, load::FLAGS)?),
        "null" => null::run(Options::parse(words, &[])?),
        "" | "help" | "--help" | "-h" => {
            println!("{HELP}");
            Ok(true)
        }
        other => bail!("`{other}` is not a command\n{HELP}"),
    }
}
