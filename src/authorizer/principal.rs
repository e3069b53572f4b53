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
    /// Comes before all others.
    pub(super) const LOWEST: Principal =
        Principal { kind: Cow::Borrowed(""), name: Cow::Borrowed("") };

    /// In a rule, everybody.
    pub const EVERYBODY: Principal =
        Principal { kind: Cow::Borrowed(USER), name: Cow::Borrowed("*") };

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
    /// `None` when there is no colon.
    pub fn parse(text: &str) -> Option<Principal> {
        let (kind, name) = text.split_once(':')?;
        let kind = if kind == USER { Cow::Borrowed(USER) } else { Cow::Owned(kind.to_owned()) };
        Some(Principal { kind, name: Cow::Owned(name.to_owned()) })
    }

    pub fn kind(&self) -> &str {
        &self.kind
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether `text` is how it is written.
    pub fn is_written(&self, text: &str) -> bool {
        let name = text.strip_prefix(self.kind()).and_then(|rest| rest.strip_prefix(':'));
        name == Some(self.name())
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
            let principal = Principal::parse(text).unwrap();
            assert_eq!(principal.to_string(), text);
            assert!(principal.is_written(text) && !principal.is_written("User:bob"));
        }
        assert_eq!(Principal::parse("User:ANONYMOUS"), Some(Principal::ANONYMOUS));
        assert_eq!(Principal::parse("User:alice"), Some(Principal::user("alice")));
    }

    #[test]
    fn text_without_a_colon_is_no_principal() {
        for text in ["", "alice", "User"] {
            assert_eq!(Principal::parse(text), None, "{text:?}");
        }
    }
}
