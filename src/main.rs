//! The program: reads the command line and runs one command.

use millstream::cli::{Command, Form, arguments, settings};
use millstream::serve;
use millstream_io::disk_file::FileDisk;
use millstream_io::inspect::{Verdict, inspect, verify};
use millstream_io::runtime::{register_membarrier, signal};
use std::io::{BufWriter, Write};
use std::process::ExitCode;

/// The command line made no sense.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    register_membarrier();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match Command::parse(&arguments) {
        Err(error) => {
            eprintln!("millstream: {error}");
            return ExitCode::from(EXIT_USAGE);
        }
        Ok(Command::Help) => print(arguments::HELP),
        Ok(Command::Settings(Form::Text)) => print(&settings::list()),
        Ok(Command::Settings(Form::Markdown)) => print(&settings::markdown()),
        Ok(Command::Version) => print(concat!("millstream ", env!("CARGO_PKG_VERSION"), "\n")),
        Ok(Command::Verify(directory)) => {
            judge(|out| verify(&FileDisk, &directory, out).map(|verified| verified.verdict()))
        }
        Ok(Command::Inspect(file)) => judge(|out| inspect(&FileDisk, &file, out)),
        Ok(Command::AddScram(asked)) => serve::add_scram::run(&asked).and_then(|said| print(&said)),
        Ok(Command::Serve(arguments)) => match signal::block_stop_signals() {
            Ok(()) => serve::run(&arguments).map(|()| ExitCode::SUCCESS),
            Err(error) => Err(format!("cannot block the stop signals: {error}")),
        },
    };
    result.unwrap_or_else(|sentence| {
        eprintln!("millstream: {sentence}");
        ExitCode::FAILURE
    })
}

fn print(text: &str) -> Result<ExitCode, String> {
    let said = std::io::stdout().write_all(text.as_bytes());
    said.map(|()| ExitCode::SUCCESS).map_err(|error| unsaid(&error))
}

/// Runs a command that prints what it finds and ends with a verdict.
fn judge(
    look: impl FnOnce(&mut BufWriter<std::io::StdoutLock<'static>>) -> std::io::Result<Verdict>,
) -> Result<ExitCode, String> {
    let mut out = BufWriter::new(std::io::stdout().lock());
    let verdict = look(&mut out).and_then(|verdict| out.flush().map(|()| verdict));
    verdict.map(|verdict| ExitCode::from(verdict.exit_status())).map_err(|error| unsaid(&error))
}

fn unsaid(error: &std::io::Error) -> String {
    format!("cannot write to standard output: {error}")
}
