//! The one thing that is read of JAAS: the users of PLAIN, as Apache Kafka's brokers have them.
//!
//! ```text
//! org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="other";
//! ```

use std::fmt;

/// Name and password of each user.
pub type Users = Vec<(String, String)>;

/// What is wrong. Never holds a value: it may be a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JaasError(pub String);

impl fmt::Display for JaasError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

const MODULE: &str = "org.apache.kafka.common.security.plain.PlainLoginModule";
const USER_PREFIX: &str = "user_";

/// Reads an entry. Options other than `user_NAME` are for brokers among each other and have no
/// meaning here.
///
/// # Errors
/// [`JaasError`].
pub fn plain_users(text: &str) -> Result<Users, JaasError> {
    let refuse = |what: &str| {
        Err(JaasError(format!("{what}; write {MODULE} required user_NAME=\"PASSWORD\" ... ;")))
    };
    let mut words = Words { rest: text };
    match words.next() {
        Some(Ok(Word::Plain(MODULE))) => {}
        Some(Ok(Word::Plain(_))) => return refuse("it names another login module"),
        _ => return refuse("it does not begin with a login module"),
    }
    match words.next() {
        Some(Ok(Word::Plain("required" | "requisite" | "sufficient" | "optional"))) => {}
        _ => return refuse("behind the login module stands no control flag such as required"),
    }
    let mut users = Users::new();
    loop {
        let name = match words.next() {
            Some(Ok(Word::End)) => break,
            Some(Ok(Word::Plain(name))) => name,
            _ => return refuse("an option is not NAME=\"VALUE\", or the ; at the end is missing"),
        };
        let is_assigned = matches!(words.next(), Some(Ok(Word::Equals)));
        let value = match words.next() {
            Some(Ok(Word::Quoted(value))) if is_assigned => value,
            Some(Ok(Word::Plain(value))) if is_assigned => value.to_owned(),
            _ => return refuse("an option is not NAME=\"VALUE\""),
        };
        let Some(user) = name.strip_prefix(USER_PREFIX) else { continue };
        if user.is_empty() || value.is_empty() {
            return refuse("a user has no name or no password");
        }
        if users.iter().any(|(known, _)| known == user) {
            return Err(JaasError(format!("the user {user} is there twice")));
        }
        users.push((user.to_owned(), value));
    }
    if words.next().is_some() {
        return refuse("there is more behind the ;");
    }
    match users.is_empty() {
        true => refuse("it has no user"),
        false => Ok(users),
    }
}

enum Word<'a> {
    Plain(&'a str),
    Quoted(String),
    Equals,
    End,
}

struct Words<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Words<'a> {
    type Item = Result<Word<'a>, ()>;

    fn next(&mut self) -> Option<Self::Item> {
        self.rest = self.rest.trim_start();
        let first = self.rest.chars().next()?;
        match first {
            '=' | ';' => {
                self.rest = &self.rest[1..];
                Some(Ok(if first == '=' { Word::Equals } else { Word::End }))
            }
            '"' => Some(self.quoted().ok_or(())),
            _ => {
                let is_end = |c: char| c.is_whitespace() || "=;\"".contains(c);
                let end = self.rest.find(is_end).unwrap_or(self.rest.len());
                let (word, rest) = self.rest.split_at(end);
                self.rest = rest;
                Some(Ok(Word::Plain(word)))
            }
        }
    }
}

impl<'a> Words<'a> {
    /// Up to the closing quote; a backslash takes the next character as it is.
    fn quoted(&mut self) -> Option<Word<'a>> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, char)) = chars.next() {
            match char {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Some(Word::Quoted(text));
                }
                '\\' => text.push(chars.next()?.1),
                other => text.push(other),
            }
        }
        self.rest = "";
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_read_as_kafkas_brokers_have_them() {
        let text = format!(
            "{MODULE} required\n  username=\"admin\" password=\"a;b\" user_alice=\"se=c \\\"ret\" \
             user_bob = plain;"
        );
        let expected = [("alice", "se=c \"ret"), ("bob", "plain")];
        let expected = expected.map(|(user, password)| (user.to_owned(), password.to_owned()));
        assert_eq!(plain_users(&text), Ok(expected.to_vec()));
    }

    #[test]
    fn what_is_wrong_is_told_without_a_value() {
        for (text, part) in [
            ("", "login module"),
            ("hunter2", "another login module"),
            ("M required user_a=\"hunter2\";", "another login module"),
            ("% user_a=\"hunter2\";", "control flag"),
            ("% required user_a=\"hunter2\"", "; at the end"),
            ("% required user_a=\"hunter2;", "NAME=\"VALUE\""),
            ("% required user_a hunter2;", "NAME=\"VALUE\""),
            ("% required user_=\"hunter2\";", "no name"),
            ("% required user_a=\"\";", "no password"),
            ("% required user_a=\"hunter2\" user_a=\"hunter2\";", "twice"),
            ("% required password=\"hunter2\";", "no user"),
            ("% required user_a=\"hunter2\"; hunter2", "behind the ;"),
        ] {
            let error = plain_users(&text.replace('%', MODULE)).unwrap_err();
            assert!(error.0.contains(part) && !error.0.contains("hunter2"), "{text}: {error}");
        }
    }
}
