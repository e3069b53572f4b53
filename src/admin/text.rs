//! The text format of Prometheus, version 0.0.4, and nothing else of it.
//!
//! ```text
//! # HELP name What it says.
//! # TYPE name gauge
//! name{label="value"} 1
//! ```
//!
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>

use super::families::Family;
use std::fmt::{Display, Write};

/// What a scrape is answered with.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A text that grows. The samples of one family come together, families in any order, none twice.
#[derive(Debug, Default)]
pub struct Text {
    out: String,
}

impl Text {
    /// Begins a family; a family without samples is left out by not beginning it.
    pub fn family(&mut self, family: &'static Family) -> Samples<'_> {
        let Family { name, kind, help, .. } = family;
        self.push(format_args!("# HELP {name} {help}\n# TYPE {name} {}\n", kind.name()));
        Samples { text: self, family }
    }

    /// A family of one sample without labels.
    pub fn value(&mut self, family: &'static Family, value: impl Display) {
        self.family(family).add(&[], value);
    }

    pub fn into_string(self) -> String {
        self.out
    }

    fn push(&mut self, words: std::fmt::Arguments<'_>) {
        // Writing to memory does not fail.
        let _ = self.out.write_fmt(words);
    }
}

/// The samples of one family.
pub struct Samples<'t> {
    text: &'t mut Text,
    family: &'static Family,
}

impl Samples<'_> {
    /// Adds a sample with its labels in the family's order.
    ///
    /// # Panics
    /// When there are not as many as the family has.
    pub fn add(&mut self, labels: &[&str], value: impl Display) {
        let (name, names) = (self.family.name, self.family.labels);
        assert!(labels.len() == names.len(), "{name}: {labels:?} for {names:?}");
        self.text.out.push_str(name);
        for (index, (label, value)) in names.iter().zip(labels).enumerate() {
            self.text.out.push(if index == 0 { '{' } else { ',' });
            self.text.out.push_str(label);
            self.text.out.push_str("=\"");
            self.escaped(value);
            self.text.out.push('"');
        }
        let close = if names.is_empty() { "" } else { "}" };
        self.text.push(format_args!("{close} {value}\n"));
    }

    fn escaped(&mut self, value: &str) {
        for part in value.split_inclusive(['\\', '"', '\n']) {
            match part.as_bytes().last() {
                Some(last @ (b'\\' | b'"' | b'\n')) => {
                    self.text.out.push_str(&part[..part.len() - 1]);
                    self.text.out.push_str(match last {
                        b'\\' => "\\\\",
                        b'"' => "\\\"",
                        _ => "\\n",
                    });
                }
                Some(_) | None => self.text.out.push_str(part),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::families::Kind;
    use super::*;

    static FAMILY: Family =
        Family { name: "x", kind: Kind::Counter, labels: &["a", "b"], help: "Words." };
    static PLAIN: Family = Family { name: "y", kind: Kind::Gauge, labels: &[], help: "More." };

    #[test]
    fn text_is_what_the_format_asks_for() {
        let mut text = Text::default();
        let mut samples = text.family(&FAMILY);
        samples.add(&["", "ü"], 1);
        samples.add(&["\\ \"q\"\n", "\\"], u64::MAX);
        text.value(&PLAIN, 0.5);
        let wanted = "# HELP x Words.\n# TYPE x counter\nx{a=\"\",b=\"ü\"} 1\n\
             x{a=\"\\\\ \\\"q\\\"\\n\",b=\"\\\\\"} 18446744073709551615\n\
             # HELP y More.\n# TYPE y gauge\ny 0.5\n";
        assert_eq!(text.into_string(), wanted);
    }

    #[test]
    #[should_panic(expected = "for [\"a\", \"b\"]")]
    fn sample_with_the_wrong_labels_is_a_broken_promise() {
        Text::default().family(&FAMILY).add(&["one"], 1);
    }
}
