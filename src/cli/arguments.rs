//! What was asked for on the command line.

use super::add_scram::{self, AddScram};
use crate::config::Layer;
use std::fmt;
use std::path::PathBuf;

/// The text of `--help`.
pub const HELP: &str = "\
millstream - a Kafka-compatible broker that answers after the bytes are on the disk

  millstream [serve] [OPTIONS]   run a broker
  millstream verify DIR          check a data directory of a stopped broker, change nothing
  millstream inspect FILE        print what a file of the data directory holds
  millstream add-scram SPEC...   add users to the data directory of a stopped broker, or before its
                                 first start: 'SCRAM-SHA-512=[name=NAME,password=PASSWORD]', or -
                                 to read such lines; --data-dir, --config and --set as for serve
  millstream settings            list the settings, what they may hold and their defaults;
                                 with --markdown as the tables of the README

Options of serve:
  --data-dir DIR           where everything is kept          [./millstream-data]
  --listen HOST:PORT       where to listen; port 0 takes a free one  [127.0.0.1:9092]
  --advertise HOST:PORT    what clients are told             [as --listen]
  --cores N|LIST           CPUs to run on: a number, or 0,2-3        [all]
  --config FILE            settings in TOML, one a line
  --set KEY=VALUE          one setting; may be given often
  --log-level LEVEL        error, warn, info or debug        [info]

The command line wins over the file.
";

/// A command with its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Serve(Arguments),
    Verify(PathBuf),
    Inspect(PathBuf),
    AddScram(AddScram),
    Settings(Form),
    Help,
    Version,
}

/// How `settings` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Markdown,
}

/// The options of `serve`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    pub config_file: Option<PathBuf>,
    pub log_level: Option<String>,
    /// Setting, value and the option it came by.
    pub settings: Vec<(String, String, String)>,
}

/// The command line makes no sense; the text says what does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError(pub String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (millstream --help shows what there is)", self.0)
    }
}

impl Command {
    /// Parses the arguments after the program's name.
    ///
    /// # Errors
    /// [`UsageError`].
    pub fn parse(arguments: &[String]) -> Result<Command, UsageError> {
        let (first, rest) = match arguments.split_first() {
            Some((first, rest)) => (first.as_str(), rest),
            None => return Ok(Command::Serve(Arguments::default())),
        };
        match first {
            "serve" => serve(rest),
            "verify" => Ok(Command::Verify(one_path("verify DIR", rest)?)),
            "inspect" => Ok(Command::Inspect(one_path("inspect FILE", rest)?)),
            "add-scram" => add_scram::parse(rest).map(Command::AddScram),
            "settings" => settings(rest),
            "help" => Ok(Command::Help),
            _ if first.starts_with('-') => serve(arguments),
            other => Err(UsageError(format!("there is no command {other}"))),
        }
    }
}

impl Arguments {
    /// The settings of the command line as a layer of the configuration.
    pub fn layer(&self) -> Layer {
        Layer { place: "the command line".to_owned(), settings: self.settings.clone() }
    }
}

fn serve(arguments: &[String]) -> Result<Command, UsageError> {
    let mut parsed = Arguments::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "-h" | "--help" => return Ok(Command::Help),
            "-V" | "--version" => return Ok(Command::Version),
            _ => serve_option(argument, &mut arguments, &mut parsed)?,
        }
    }
    Ok(Command::Serve(parsed))
}

/// Takes one option of serve, with its value.
pub(super) fn serve_option(
    argument: &str,
    arguments: &mut std::slice::Iter<'_, String>,
    parsed: &mut Arguments,
) -> Result<(), UsageError> {
    let (option, inline) = match argument.split_once('=') {
        Some((option, value)) if option.starts_with("--") => (option, Some(value.to_owned())),
        _ => (argument, None),
    };
    let setting = match option {
        "--data-dir" => Some("log.dirs"),
        "--listen" => Some("listeners"),
        "--advertise" => Some("advertised.listeners"),
        "--cores" => Some("cores"),
        "--config" | "--set" | "--log-level" => None,
        other => return Err(UsageError(format!("there is no option {other}"))),
    };
    let value = match inline.or_else(|| arguments.next().cloned()) {
        Some(value) => value,
        None => return Err(UsageError(format!("{option} needs a value"))),
    };
    match (option, setting) {
        (_, Some(setting)) => {
            parsed.settings.push((setting.to_owned(), value, option.to_owned()));
        }
        ("--config", None) => once(option, &mut parsed.config_file, PathBuf::from(value))?,
        ("--log-level", None) => once(option, &mut parsed.log_level, value)?,
        _ => parsed.settings.push(key_and_value(&value)?),
    }
    Ok(())
}

fn once<T>(option: &str, place: &mut Option<T>, value: T) -> Result<(), UsageError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(UsageError(format!("{option} is given twice"))),
    }
}

fn key_and_value(text: &str) -> Result<(String, String, String), UsageError> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.to_owned(), format!("--set {}", key.trim())))
        }
        _ => Err(UsageError(format!("--set {text} is not --set KEY=VALUE"))),
    }
}

fn settings(rest: &[String]) -> Result<Command, UsageError> {
    match rest {
        [] => Ok(Command::Settings(Form::Text)),
        [option] if option == "--markdown" => Ok(Command::Settings(Form::Markdown)),
        _ => Err(UsageError("the use is: millstream settings [--markdown]".to_owned())),
    }
}

fn one_path(usage: &str, rest: &[String]) -> Result<PathBuf, UsageError> {
    match rest {
        [path] if !path.starts_with('-') => Ok(PathBuf::from(path)),
        _ => Err(UsageError(format!("the use is: millstream {usage}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, UsageError> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Command::parse(&arguments)
    }

    #[test]
    fn no_argument_at_all_is_a_working_broker() {
        assert_eq!(parse(""), Ok(Command::Serve(Arguments::default())));
        assert_eq!(parse("serve"), parse(""));
    }

    #[test]
    fn options_become_settings_with_and_without_the_command() {
        let line = "--data-dir d --listen=h:1 --advertise x:2 --cores 0,2 --set a.b=c=d --config f";
        let Ok(Command::Serve(parsed)) = parse(line) else { panic!() };
        let settings: Vec<_> =
            parsed.settings.iter().map(|(key, value, _)| (key.as_str(), value.as_str())).collect();
        let expected = [
            ("log.dirs", "d"),
            ("listeners", "h:1"),
            ("advertised.listeners", "x:2"),
            ("cores", "0,2"),
            ("a.b", "c=d"),
        ];
        assert_eq!(settings, expected);
        assert_eq!(parse(&format!("serve {line}")), parse(line));
    }

    #[test]
    fn nonsense_is_refused_in_words() {
        for (line, part) in [
            ("fly", "no command fly"),
            ("--fly", "no option --fly"),
            ("--listen", "needs a value"),
            ("--set x", "KEY=VALUE"),
            ("--set =x", "KEY=VALUE"),
            ("--config a --config b", "twice"),
            ("verify", "verify DIR"),
            ("inspect a b", "inspect FILE"),
            ("settings --fly", "settings [--markdown]"),
            ("add-scram", "add-scram"),
            ("add-scram --fly", "no option --fly"),
        ] {
            let text = parse(line).unwrap_err().to_string();
            assert!(text.contains(part) && text.contains("--help"), "{line}: {text}");
        }
        let Ok(Command::AddScram(add)) = parse("add-scram --data-dir d X=[] - --set a=b Y=[]")
        else {
            panic!()
        };
        assert_eq!((add.specs.len(), add.from_input), (2, true));
        assert_eq!(add.settings.settings.len(), 2);
        assert_eq!(parse("--listen h:1 --help"), Ok(Command::Help));
        assert_eq!(parse("-V"), Ok(Command::Version));
        assert_eq!(parse("settings --markdown"), Ok(Command::Settings(Form::Markdown)));
    }
}
