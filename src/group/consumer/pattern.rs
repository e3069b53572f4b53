//! Regular expressions of topic names, in the syntax that Kafka promises: RE2's.
//!
//! Matching takes time linear in the name, whatever the pattern; patterns are bounded in text and
//! in compiled size, so that neither building nor matching one can hold up a core.

use std::fmt;

use regex::bytes::{Regex, RegexBuilder};

use super::settings::{PATTERN_BYTES_MAX, PATTERN_SIZES, PATTERN_UNICODE_BYTES_MAX};

mod syntax;

/// A pattern that is ready to match whole names.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
    units: u32,
}

/// Why a pattern is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternError {
    TooLong {
        bytes: usize,
    },
    /// It is not of the syntax, or what it compiles to is too large.
    Invalid {
        reason: String,
    },
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PatternError::TooLong { bytes } => {
                write!(f, "it has {bytes} bytes, at most {PATTERN_BYTES_MAX} are allowed")
            }
            PatternError::Invalid { reason } => f.write_str(reason),
        }
    }
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// [`PatternError`], also for a pattern that is valid and too large.
    pub fn new(text: &str) -> Result<Pattern, PatternError> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(PatternError::TooLong { bytes: text.len() });
        }
        let translated = syntax::from_re2(text)?;
        let ascii = compile(&translated, false);
        if ascii.is_err() && text.len() <= PATTERN_UNICODE_BYTES_MAX {
            // Classes of Unicode are known to the other mode alone. They match no topic name beyond
            // ASCII, but are valid.
            return compile(&translated, true).or(ascii);
        }
        ascii
    }

    /// Whether it matches the whole of `name`.
    pub fn matches(&self, name: &str) -> bool {
        self.regex.is_match(name.as_bytes())
    }

    /// What a match costs at most, in units of work.
    pub fn units(&self) -> u32 {
        self.units
    }
}

fn compile(text: &str, unicode: bool) -> Result<Pattern, PatternError> {
    let mut refused = PatternError::Invalid { reason: String::new() };
    for (size, units) in PATTERN_SIZES {
        let built = build(text, unicode, size)
            .and_then(|_| build(&format!(r"\A(?:{text})\z"), unicode, size));
        match built {
            Ok(regex) => return Ok(Pattern { regex, units }),
            Err(regex::Error::CompiledTooBig(_)) => {
                refused = PatternError::Invalid { reason: "it is too large".to_owned() };
            }
            Err(error) => return Err(PatternError::Invalid { reason: error.to_string() }),
        }
    }
    Err(refused)
}

fn build(text: &str, unicode: bool, size: usize) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text)
        .unicode(unicode)
        .octal(true)
        .size_limit(size)
        .dfa_size_limit(size)
        .nest_limit(64)
        .build()
}

#[cfg(test)]
#[path = "pattern_tests.rs"]
mod tests;
