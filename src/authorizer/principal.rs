//! Whom a client acts as, as Apache Kafka names it: a kind, nearly always `User`, and a name.

use std::borrow::Cow;
use std::fmt;

/// Whom a client acts as. Two are the same when kind and name are, letter by letter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Principal {
    kind: Cow<'static, str>,
    name: Cow<'static, str>,
}

/// The kind of everyone who has logged in, or has not.
pub const USER: &str = "User";

impl Principal {
    /// Whoever has not logged in.
    pub const ANONYMOUS: Principal =
        Principal { kind: Cow::Borrowed(USER), name: Cow::Borrowed("ANONYMOUS") };

    /// The user of that name.
    pub fn user(name: impl Into<String>) -> Principal {
        Principal { kind: Cow::Borrowed(USER), name: Cow::Owned(name.into()) }
    }

    /// Reads `User:alice`. The name is what follows the first colon, colons included.
    ///
    /// # Errors
    /// `None` when there is no colon, or nothing before or behind it.
    pub fn parse(text: &str) -> Option<Principal> {
        let (kind, name) = text.split_once(':')?;
        if kind.is_empty() || name.is_empty() {
            return None;
        }
        let kind = if kind == USER { Cow::Borrowed(USER) } else { Cow::Owned(kind.to_owned()) };
        Some(Principal { kind, name: Cow::Owned(name.to_owned()) })
    }

    pub fn kind(&self) -> &str {
        &self.kind
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_back_as_the_same_principal() {
        for text in ["User:alice", "User:CN=a,O=b:c", "Group:staff", "User:*"] {
            assert_eq!(Principal::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Principal::parse("User:ANONYMOUS"), Some(Principal::ANONYMOUS));
        assert_eq!(Principal::parse("User:alice"), Some(Principal::user("alice")));
    }

    #[test]
    fn text_without_a_kind_or_a_name_is_no_principal() {
        for text in ["", "alice", ":alice", "User:", ":"] {
            assert_eq!(Principal::parse(text), None, "{text:?}");
        }
    }
}
