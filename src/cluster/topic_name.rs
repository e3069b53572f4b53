//! What a topic may be called.

use std::fmt;

/// Most bytes of a name, as in Kafka: with `-<partition>` it has to fit a file name.
pub const TOPIC_NAME_BYTES_MAX: usize = 249;

/// Whether the name is one of the broker's own topics.
pub fn is_internal(name: &str) -> bool {
    matches!(name, "__consumer_offsets" | "__transaction_state")
}

/// Why a name is refused (INVALID_TOPIC_EXCEPTION, 17).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadTopicName {
    Empty,
    Dots,
    TooLong { bytes: usize },
    IllegalCharacter { name: String },
}

impl fmt::Display for BadTopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("Topic name is invalid: the empty string is not allowed"),
            Self::Dots => f.write_str("Topic name is invalid: '.' and '..' are not allowed"),
            Self::TooLong { bytes } => write!(
                f,
                "Topic name is invalid: {bytes} bytes are longer than the max allowed length \
                 {TOPIC_NAME_BYTES_MAX}"
            ),
            Self::IllegalCharacter { name } => write!(
                f,
                "Topic name is invalid: '{name}' contains one or more characters other than ASCII \
                 alphanumerics, '.', '_' and '-'"
            ),
        }
    }
}

/// Checks a name as Kafka does.
pub fn check_topic_name(name: &str) -> Result<(), BadTopicName> {
    if name.is_empty() {
        return Err(BadTopicName::Empty);
    }
    if name == "." || name == ".." {
        return Err(BadTopicName::Dots);
    }
    if name.len() > TOPIC_NAME_BYTES_MAX {
        return Err(BadTopicName::TooLong { bytes: name.len() });
    }
    let legal = |c: u8| c.is_ascii_alphanumeric() || b"._-".contains(&c);
    if !name.bytes().all(legal) {
        return Err(BadTopicName::IllegalCharacter { name: name.to_owned() });
    }
    Ok(())
}

/// The form in which two names may not be equal: metrics of Kafka tools write '.' as '_', so
/// `a.b` and `a_b` collide.
pub fn collision_form(name: &str) -> String {
    name.replace('.', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_as_kafka_judges_them() {
        for good in ["a", "A.b_c-1", "__consumer_offsets", &"x".repeat(249)] {
            assert_eq!(check_topic_name(good), Ok(()), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "a b", "ä", "a\0", "a:b", &"x".repeat(250)] {
            assert!(check_topic_name(bad).is_err(), "{bad}");
        }
        assert_eq!(collision_form("a.b"), collision_form("a_b"));
    }
}
