//! Words of the command line: `--name value`, `--flag`, and nothing that is not known.

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::{Result, anyhow, bail, ensure};

/// The options of one command, each used exactly once or reported.
#[derive(Debug, Default)]
pub struct Options {
    given: BTreeMap<String, Option<String>>,
}

impl Options {
    /// Parses the words behind the command. `flags` take no value.
    pub fn parse(words: impl Iterator<Item = String>, flags: &[&str]) -> Result<Options> {
        let mut given = BTreeMap::new();
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            let Some(name) = word.strip_prefix("--") else {
                bail!("`{word}` is not an option; options begin with --");
            };
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None if flags.contains(&name) => (name, None),
                None => {
                    let value = words.next().ok_or_else(|| anyhow!("--{name} needs a value"))?;
                    (name, Some(value))
                }
            };
            ensure!(given.insert(name.to_owned(), value).is_none(), "--{name} is given twice");
        }
        Ok(Options { given })
    }

    /// Whether a flag was given.
    pub fn flag(&mut self, name: &str) -> bool {
        self.given.remove(name).is_some()
    }

    /// The text of an option, if it was given.
    pub fn text(&mut self, name: &str) -> Option<String> {
        self.given.remove(name).flatten()
    }

    /// The value of an option, or its default.
    pub fn value<T: FromStr>(&mut self, name: &str, default: T) -> Result<T> {
        match self.text(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| anyhow!("--{name} cannot be `{text}`")),
        }
    }

    /// Fails when an option is left that nobody asked for.
    pub fn finish(self) -> Result<()> {
        match self.given.keys().next() {
            Some(name) => bail!("--{name} is not an option of this command; see --help"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options> {
        Options::parse(line.split_whitespace().map(str::to_owned), &["quick"])
    }

    #[test]
    fn unknown_repeated_and_half_options_are_refused() {
        let mut options = parse("--rate 5 --quick --size=7").unwrap();
        assert!(options.flag("quick"));
        assert_eq!(options.value("rate", 1u64).unwrap(), 5);
        assert_eq!(options.value("size", 1u64).unwrap(), 7);
        assert_eq!(options.value("other", 3u64).unwrap(), 3);
        options.finish().unwrap();
        assert!(parse("--rate").is_err());
        assert!(parse("rate").is_err());
        assert!(parse("--rate 1 --rate 2").is_err());
        assert!(parse("--rate x").unwrap().value("rate", 1u64).is_err());
        assert!(parse("--what 1").unwrap().finish().is_err());
    }
}
