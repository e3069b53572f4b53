//! PLAIN (RFC 4616): the client sends name and password as they are.

use super::{LoginError, Step};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use subtle::ConstantTimeEq;

/// The users of one listener. Of passwords only hashes are held, which have one length.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PlainUsers(BTreeMap<String, [u8; 32]>);

impl fmt::Debug for PlainUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlainUsers {{ {} users }}", self.0.len())
    }
}

impl PlainUsers {
    pub fn new<'a>(users: impl Iterator<Item = (&'a str, &'a str)>) -> PlainUsers {
        let hashed = |(user, password): (&str, &str)| (user.to_owned(), hash(password));
        PlainUsers(users.map(hashed).collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the one message of a client: `[act as] NUL user NUL password`.
    ///
    /// # Errors
    /// [`LoginError`].
    pub fn login(&self, message: &[u8]) -> Result<Step, LoginError> {
        let Ok(message) = std::str::from_utf8(message) else {
            return Err(LoginError::Malformed { what: "it is not UTF-8" });
        };
        let mut parts = message.split('\0');
        let (Some(act_as), Some(user), Some(password), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(LoginError::Malformed { what: "it has not three parts" });
        };
        if user.is_empty() || password.is_empty() {
            return Err(LoginError::Malformed { what: "user name or password is empty" });
        }
        // As long for a user that does not exist.
        let (known, exists) = match self.0.get(user) {
            Some(known) => (*known, true),
            None => ([0; 32], false),
        };
        let is_right = bool::from(hash(password).ct_eq(&known)) & exists;
        match is_right {
            false => Err(LoginError::WrongCredentials),
            true if !act_as.is_empty() && act_as != user => Err(LoginError::AuthorizationId),
            true => Ok(Step::Done { user: user.to_owned(), token: Vec::new() }),
        }
    }
}

fn hash(password: &str) -> [u8; 32] {
    Sha256::digest(password.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_password_of_a_user_logs_in() {
        let users = PlainUsers::new([("alice", "secret"), ("bob", "s\u{e9}cret")].into_iter());
        let login = |message: &str| users.login(message.as_bytes());
        let done = |user: &str| Ok(Step::Done { user: user.to_owned(), token: Vec::new() });
        assert_eq!(login("\0alice\0secret"), done("alice"));
        assert_eq!(login("alice\0alice\0secret"), done("alice"));
        assert_eq!(login("\0bob\0s\u{e9}cret"), done("bob"));
        for wrong in
            ["\0alice\0secre", "\0alice\0secret1", "\0carol\0secret", "\0alice\0s\u{e9}cret"]
        {
            assert_eq!(login(wrong), Err(LoginError::WrongCredentials), "{wrong:?}");
        }
        assert_eq!(login("bob\0alice\0secret"), Err(LoginError::AuthorizationId));
        for bad in ["", "\0", "\0alice", "\0\0secret", "\0alice\0", "\0alice\0secret\0"] {
            assert!(matches!(login(bad), Err(LoginError::Malformed { .. })), "{bad:?}");
        }
        assert!(users.login(b"\0alice\0\xff").is_err());
        assert!(!format!("{users:?}").contains("alice"));
    }
}
