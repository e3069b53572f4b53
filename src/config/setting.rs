//! One setting: its name, what it may hold, and what it holds unless told.

use std::fmt;

/// The type a setting shows in DescribeConfigs (KIP-569); the number is the wire's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum ConfigType {
    Boolean = 1,
    Text = 2,
    Int = 3,
    Short = 4,
    Long = 5,
    Double = 6,
    List = 7,
    Password = 9,
}

impl ConfigType {
    /// The number that DescribeConfigs v3 and later carry.
    pub fn code(self) -> i8 {
        self as i8
    }
}

/// What a setting may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowed {
    Bool,
    /// A whole number that fits 32 bits, bounds included.
    Int {
        min: i64,
        max: i64,
    },
    /// The same, or this one number besides.
    IntOr {
        or: i64,
        min: i64,
        max: i64,
    },
    /// A whole number that fits 64 bits, bounds included.
    Long {
        min: i64,
        max: i64,
    },
    /// A number, with a point or an exponent if need be, bounds included; without an upper bound when
    /// `max` is none.
    Decimal {
        min: u32,
        max: Option<u32>,
    },
    /// Exactly one of these words.
    OneOf(&'static [&'static str]),
    /// One or more of these words, separated by commas, none twice.
    ListOf(&'static [&'static str]),
    /// Any text; what it means is checked where it is parsed.
    Text,
    /// A comma-separated list; what it means is checked where it is parsed.
    List,
    /// A text that nobody is shown.
    Password,
    /// The broker always behaves as with this value; no other can be asked for.
    Only {
        kind: ConfigType,
        value: &'static str,
        why: &'static str,
    },
}

/// When a broker setting can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// At start only: file or command line.
    AtStart,
    /// Also while the broker runs, by IncrementalAlterConfigs or AlterConfigs.
    AnyTime,
}

/// One row of a table of settings.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub name: &'static str,
    pub allowed: Allowed,
    /// `None` shows as null.
    pub default: Option<&'static str>,
    pub change: Change,
    /// For a topic setting: the broker setting that gives its default.
    pub broker_name: Option<&'static str>,
    pub doc: &'static str,
}

/// A value that a setting cannot hold. The text names key, value and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadValue {
    pub key: String,
    pub value: String,
    pub allowed: String,
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Invalid value {} for configuration {}: allowed is {}",
            self.value, self.key, self.allowed
        )
    }
}

impl Setting {
    pub fn kind(&self) -> ConfigType {
        match self.allowed {
            Allowed::Bool => ConfigType::Boolean,
            Allowed::Int { .. } | Allowed::IntOr { .. } => ConfigType::Int,
            Allowed::Long { .. } => ConfigType::Long,
            Allowed::Decimal { .. } => ConfigType::Double,
            Allowed::OneOf(_) | Allowed::Text => ConfigType::Text,
            Allowed::ListOf(_) | Allowed::List => ConfigType::List,
            Allowed::Password => ConfigType::Password,
            Allowed::Only { kind, .. } => kind,
        }
    }

    /// Whether nobody is shown the value.
    pub fn is_sensitive(&self) -> bool {
        self.kind() == ConfigType::Password
    }

    /// Whether the value is a list, so that append and subtract mean something (KIP-339).
    pub fn is_list(&self) -> bool {
        self.kind() == ConfigType::List
    }

    /// Checks `value` and brings it into its one spelling (no blanks around, words as listed).
    pub fn check(&self, value: &str) -> Result<String, BadValue> {
        let trimmed = value.trim();
        let checked = match self.allowed {
            Allowed::Bool => checked_bool(trimmed),
            Allowed::Int { min, max } | Allowed::Long { min, max } => {
                checked_number(trimmed, min, max)
            }
            Allowed::IntOr { or, min, max } => {
                checked_number(trimmed, or, or).or_else(|| checked_number(trimmed, min, max))
            }
            Allowed::Decimal { min, max } => checked_decimal(trimmed, min, max),
            Allowed::OneOf(words) => words.contains(&trimmed).then(|| trimmed.to_owned()),
            Allowed::ListOf(words) => checked_list(trimmed, words),
            Allowed::Text | Allowed::List | Allowed::Password => Some(trimmed.to_owned()),
            Allowed::Only { value, .. } => (trimmed == value).then(|| trimmed.to_owned()),
        };
        checked.ok_or_else(|| BadValue {
            key: self.name.to_owned(),
            value: shown(value),
            allowed: self.allowed_text(),
        })
    }

    /// What a number counts: number settings say it in the last part of their name, as Kafka's do.
    pub fn unit(&self) -> Option<&'static str> {
        let is_number = matches!(self.kind(), ConfigType::Int | ConfigType::Long);
        match self.name.rsplit('.').next() {
            Some("ms") if is_number => Some("milliseconds"),
            Some("bytes") if is_number => Some("bytes"),
            _ => None,
        }
    }

    /// What is allowed, in words, for refusals and documents.
    pub fn allowed_text(&self) -> String {
        match self.allowed {
            Allowed::Bool => "true or false".to_owned(),
            Allowed::Int { min, max } | Allowed::Long { min, max } => {
                let unit = self.unit().map(|unit| format!(" of {unit}")).unwrap_or_default();
                format!("a whole number{unit} from {min} to {max}")
            }
            Allowed::IntOr { or, min, max } => {
                format!("{or}, or a whole number from {min} to {max}")
            }
            Allowed::Decimal { min, max: Some(max) } => format!("a number from {min} to {max}"),
            Allowed::Decimal { min, max: None } => format!("a number from {min} on"),
            Allowed::OneOf(words) => format!("one of {}", words.join(", ")),
            Allowed::ListOf(words) => {
                format!("a comma-separated list of {}, none twice", words.join(", "))
            }
            Allowed::Text | Allowed::Password => "text".to_owned(),
            Allowed::List => "a comma-separated list".to_owned(),
            Allowed::Only { value, why, .. } => format!("only {value} ({why})"),
        }
    }
}

/// A stranger's value may be long; a refusal repeats a glance of it.
fn shown(value: &str) -> String {
    const CHARS_MAX: usize = 100;
    if value.chars().count() <= CHARS_MAX {
        return value.to_owned();
    }
    let head: String = value.chars().take(CHARS_MAX).collect();
    format!("{head}… ({} bytes)", value.len())
}

fn checked_bool(value: &str) -> Option<String> {
    ["true", "false"].iter().find(|word| value.eq_ignore_ascii_case(word)).map(|w| (*w).to_owned())
}

fn checked_number(value: &str, min: i64, max: i64) -> Option<String> {
    let number: i64 = value.parse().ok()?;
    (min..=max).contains(&number).then(|| number.to_string())
}

fn checked_decimal(value: &str, min: u32, max: Option<u32>) -> Option<String> {
    let number: f64 = value.parse().ok()?;
    let within = number >= f64::from(min) && max.is_none_or(|max| number <= f64::from(max));
    (number.is_finite() && within).then(|| value.to_owned())
}

fn checked_list(value: &str, words: &[&str]) -> Option<String> {
    let mut seen: Vec<&str> = Vec::new();
    for word in value.split(',').map(str::trim) {
        if !words.contains(&word) || seen.contains(&word) {
            return None;
        }
        seen.push(word);
    }
    Some(seen.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(name: &'static str, allowed: Allowed) -> Setting {
        let (default, doc) = (None, "");
        Setting { name, allowed, default, change: Change::AtStart, broker_name: None, doc }
    }

    #[test]
    fn bad_value_names_key_value_and_range() {
        let ms = setting("segment.ms", Allowed::Long { min: 1, max: 100 });
        for bad in ["7d", "", "-1", "0", "101", "1e3", "9223372036854775808", "null"] {
            let text = ms.check(bad).unwrap_err().to_string();
            assert!(text.contains("segment.ms") && text.contains(bad), "{text}");
            assert!(text.contains("milliseconds from 1 to 100"), "{text}");
        }
        assert_eq!(ms.check(" 7 ").unwrap(), "7");
        assert_eq!(ms.check("007").unwrap(), "7");
    }

    #[test]
    fn fixed_setting_takes_its_own_value_and_says_why_no_other() {
        let only = Allowed::Only { kind: ConfigType::Int, value: "1", why: "one node" };
        let setting = setting("min.insync.replicas", only);
        assert_eq!(setting.check("1").unwrap(), "1");
        assert!(setting.check("2").unwrap_err().to_string().contains("one node"));
        assert_eq!(setting.kind().code(), 3);
    }

    #[test]
    fn decimal_takes_what_lies_within_its_bounds_and_nothing_that_is_no_number() {
        let ratio = setting("ratio", Allowed::Decimal { min: 0, max: Some(1) });
        for good in ["0", "0.5", "1", "1e-3", " 1.0 "] {
            assert_eq!(ratio.check(good).unwrap(), good.trim());
        }
        for bad in ["1.1", "-0.1", "NaN", "inf", "", "half"] {
            assert!(ratio.check(bad).is_err(), "{bad}");
        }
        let rate = setting("rate", Allowed::Decimal { min: 0, max: None });
        assert!(rate.check("1.7976931348623157E308").is_ok());
        assert_eq!(rate.kind().code(), 6);
    }

    #[test]
    fn list_refuses_unknown_and_double_words() {
        let list = setting("x", Allowed::ListOf(&["a", "b"]));
        assert_eq!(list.check("a, b").unwrap(), "a,b");
        assert!(list.check("a,a").is_err());
        assert!(list.check("a,c").is_err());
        assert!(list.check("").is_err());
    }

    #[test]
    fn long_stranger_value_is_shortened_in_the_refusal() {
        let flag = setting("flag", Allowed::Bool);
        let text = flag.check(&"x".repeat(100_000)).unwrap_err().to_string();
        assert!(text.len() < 400, "{}", text.len());
        assert_eq!(flag.check("TRUE").unwrap(), "true");
    }
}
