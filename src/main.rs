//! The program: reads the command line and runs one command.

use millstream::cli::{Command, arguments};
use millstream::serve;
use millstream_io::runtime::{register_membarrier, signal};
use std::process::ExitCode;

/// The command line made no sense.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    register_membarrier();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let command = match Command::parse(&arguments) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("millstream: {error}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let result = match command {
        Command::Help => {
            print!("{}", arguments::HELP);
            Ok(())
        }
        Command::Version => {
            println!("millstream {}", env!("CARGO_PKG_VERSION"));
            Ok(())
        }
        Command::Serve(arguments) => match signal::block_stop_signals() {
            Ok(()) => serve::run(&arguments),
            Err(error) => Err(format!("cannot block the stop signals: {error}")),
        },
        Command::Verify(_) | Command::Inspect(_) => Err("not in this build".to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("millstream: {sentence}");
            ExitCode::FAILURE
        }
    }
}
