//! `millstream-bench COMMAND [--option value]`: see `bench/README.md`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use millstream_bench::allocations::Counting;
use millstream_bench::options::Options;
use millstream_bench::{
    figures, groups, ids, life, limits, micro, null, report, run, soak, workload,
};

#[global_allocator]
static HEAP: Counting = Counting;

const HELP: &str = "\
millstream-bench figures [--broker PATH] [--data DIR] [--out JSON] [--only NAME,..] [--quick]
                         [--assert] [--settings 'NAME=VALUE ..'] [--attach HOST:PORT --pid PID]
millstream-bench run [--workload NAME|FILE[,..]] [--driver FILE] [--out DIR] [--ceiling] [--quiet]
                     [--attach HOST:PORT [--pid PID] | --null | --broker PATH [--cores N|all]
                      [--settings 'NAME=VALUE ..']] [--data DIR] [--name TEXT]
                     [--topics N] [--partitions N] [--producers N] [--consumers N]
                     [--subscriptions N] [--reading tail|backfill|none] [--backlog-mb N]
                     [--size BYTES] [--records N] [--spread N] [--keyed] [--random SHARE]
                     [--codec NAME] [--acks 0|1|all] [--in-flight N] [--rate MESSAGES]
                     [--transactions REQUESTS] [--abort-every N] [--idle N] [--threads N] [--spin]
                     [--warm-up S] [--seconds S] [--interval S]
millstream-bench compare A.json B.json
millstream-bench workloads
millstream-bench life [--gb N] [--compact-gb N] [--rounds N] [--rate REQUESTS] [--seconds S]
                      [--assert] [--broker PATH] [--data DIR] [--out JSON]
millstream-bench limits [--only fetch,produce,memory,backfill] [--gb N] [--backlog-gb N]
                        [--rate REQUESTS] [--seconds S] [--windows N] [--quick] [--assert]
                        [--broker PATH] [--data DIR] [--out JSON]
millstream-bench groups [--groups N] [--members N] [--rate N] [--warm-up S] [--seconds S] [--reload]
                        [--broker PATH] [--cores N] [--data DIR] [--out JSON]
                        [--attach HOST:PORT --pid PID]
millstream-bench ids [--ids N] [--broker PATH] [--cores N] [--data DIR] [--out JSON]
millstream-bench soak [--minutes M] [--partitions N] [--producers N] [--mb-per-second N] [--idle N]
                      [--stall-ms MS] [--broker PATH] [--cores N|all] [--data DIR]
                      [--attach HOST:PORT --pid PID]
millstream-bench micro [--only PART-OF-A-NAME]
millstream-bench count --list | --question NAME [--calls N]
millstream-bench null --listen HOST:PORT
bench/README.md explains each.";

fn main() -> ExitCode {
    match command() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("millstream-bench: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn command() -> Result<bool> {
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    match command.as_str() {
        "run" => run::command::run(Options::parse(words, run::command::FLAGS)?),
        "compare" => {
            let files: Vec<PathBuf> = words.map(PathBuf::from).collect();
            let [one, other] = files.as_slice() else { bail!("compare A.json B.json") };
            report::compare::run(one, other)
        }
        "workloads" => {
            for (name, text) in workload::NAMED {
                let about = text.lines().take_while(|line| line.starts_with('#'));
                let about: Vec<&str> = about.map(|line| line.trim_start_matches("# ")).collect();
                println!("{name:28} {}", about.join(" "));
            }
            Ok(true)
        }
        "figures" => figures::run(Options::parse(words, figures::FLAGS)?),
        "ids" => ids::run(Options::parse(words, &[])?),
        "groups" => groups::run(Options::parse(words, groups::FLAGS)?),
        "life" => life::run(Options::parse(words, life::FLAGS)?),
        "limits" => limits::run(Options::parse(words, limits::FLAGS)?),
        "soak" => soak::run(Options::parse(words, &[])?),
        "count" => micro::count(Options::parse(words, &["list"])?),
        "micro" => micro::run(Options::parse(words, &[])?),
        "null" => null::run(Options::parse(words, &[])?),
        "" | "help" | "--help" | "-h" => {
            println!("{HELP}");
            Ok(true)
        }
        other => bail!("`{other}` is not a command\n{HELP}"),
    }
}
