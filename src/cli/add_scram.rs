//! `millstream add-scram`: the first users, before anybody can log in.

use super::arguments::{Arguments, UsageError, serve_option};

/// What `add-scram` is to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddScram {
    /// Where the data directory is: options as those of serve.
    pub settings: Arguments,
    /// Credentials as kafka-storage takes them.
    pub specs: Vec<String>,
    /// Whether more of them come by standard input, one a line.
    pub from_input: bool,
}

/// Parses what stands behind `add-scram`.
///
/// # Errors
/// [`UsageError`].
pub fn parse(arguments: &[String]) -> Result<AddScram, UsageError> {
    let mut parsed = AddScram::default();
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "-" => parsed.from_input = true,
            option if option.starts_with('-') => {
                serve_option(argument, &mut arguments, &mut parsed.settings)?;
            }
            spec => parsed.specs.push(spec.to_owned()),
        }
    }
    if parsed.specs.is_empty() && !parsed.from_input {
        return Err(UsageError(
            "the use is: millstream add-scram [--data-dir DIR] [--config FILE] [--set KEY=VALUE] \
             'SCRAM-SHA-512=[name=NAME,password=PASSWORD]' ..., or - to read them from standard input"
                .to_owned(),
        ));
    }
    Ok(parsed)
}
