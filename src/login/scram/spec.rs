//! Credentials as they are written for kafka-storage and kafka-configs:
//! `SCRAM-SHA-256=[name=alice,password=secret,iterations=8192]`.

use super::credential::ScramCredential;
use crate::login::ScramMechanism;
use crate::login::limits::{ITERATIONS_MAX, ITERATIONS_MIN, SALT_BYTES_MAX, USER_NAME_BYTES_MAX};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::BTreeMap;

/// A credential with whose it is.
#[derive(Debug, PartialEq, Eq)]
pub struct NamedCredential {
    pub user: String,
    pub mechanism: ScramMechanism,
    pub credential: ScramCredential,
}

const KEYS: [&str; 5] = ["name", "password", "iterations", "salt", "saltedpassword"];

/// Reads one credential; without a salt it gets a random one. Slow on purpose, as a password is
/// salted here.
///
/// # Errors
/// What is wrong, in words, without a value: it may be the password.
pub fn parse(text: &str) -> Result<NamedCredential, String> {
    let form = "write SCRAM-SHA-256=[name=NAME,password=PASSWORD], or SCRAM-SHA-512";
    let (mechanism, rest) = text.trim().split_once('=').ok_or(form)?;
    let mechanism = ScramMechanism::from_name(mechanism)
        .ok_or("only SCRAM-SHA-256 and SCRAM-SHA-512 have credentials")?;
    let inner = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).ok_or(form)?;
    let options = options(inner)?;
    let option = |key: &str| options.get(key).map(String::as_str);
    let user = option("name").filter(|name| !name.is_empty()).ok_or("name is missing")?;
    if user.len() > USER_NAME_BYTES_MAX {
        return Err(format!("name is longer than {USER_NAME_BYTES_MAX} bytes"));
    }
    let iterations = match option("iterations") {
        None => ITERATIONS_MIN,
        Some(text) => text.parse().map_err(|_| "iterations is not a number")?,
    };
    if !(ITERATIONS_MIN..=ITERATIONS_MAX).contains(&iterations) {
        return Err(format!("iterations is not from {ITERATIONS_MIN} to {ITERATIONS_MAX}"));
    }
    let decoded = |key: &'static str| {
        let decode = |text| STANDARD.decode(text).map_err(|_| format!("{key} is not base64"));
        option(key).map(decode).transpose()
    };
    let salt = match decoded("salt")? {
        Some(salt) => salt,
        None => random_salt()?,
    };
    if salt.is_empty() || salt.len() > SALT_BYTES_MAX {
        return Err(format!("salt has not 1 to {SALT_BYTES_MAX} bytes"));
    }
    let credential = match (option("password"), decoded("saltedpassword")?) {
        (Some(""), None) | (None, None) => return Err("password is missing".to_owned()),
        (Some(password), None) => {
            ScramCredential::from_password(mechanism, password.as_bytes(), &salt, iterations)
        }
        (None, Some(salted)) if options.contains_key("salt") => {
            if salted.len() != super::hash::hash_bytes(mechanism) {
                return Err(format!("saltedpassword has not the length of {mechanism}"));
            }
            ScramCredential::from_salted_password(mechanism, &salted, &salt, iterations)
        }
        (None, Some(_)) => return Err("saltedpassword needs its salt beside it".to_owned()),
        (Some(_), Some(_)) => return Err("give password or saltedpassword".to_owned()),
    };
    Ok(NamedCredential { user: user.to_owned(), mechanism, credential })
}

/// Splits `key=value,key="value"`; a quoted value may hold commas.
fn options(text: &str) -> Result<BTreeMap<&str, String>, String> {
    let mut options = BTreeMap::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (key, behind) = rest.split_once('=').ok_or("an option is not KEY=VALUE")?;
        let key = key.trim();
        if !KEYS.contains(&key) {
            return Err(format!("an option is not one of {}", KEYS.join(", ")));
        }
        let (value, behind) = match behind.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or("a closing quote is missing")?,
            None => behind.split_at(behind.find(',').unwrap_or(behind.len())),
        };
        rest = match behind.strip_prefix(',') {
            Some(rest) => rest,
            None if behind.is_empty() => "",
            None => return Err("behind a quoted value a comma is expected".to_owned()),
        };
        if options.insert(key, value.to_owned()).is_some() {
            return Err(format!("{key} is given twice"));
        }
    }
    Ok(options)
}

fn random_salt() -> Result<Vec<u8>, String> {
    let mut salt = vec![0; 32];
    let filled = getrandom::fill(&mut salt);
    filled.map_err(|error| format!("the system has no random bytes: {error}"))?;
    Ok(salt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_and_salted_password_make_the_same_credential() {
        let salt = "W22ZaJ0SNY7soEsUEjb6gQ==";
        let plain = parse(&format!("SCRAM-SHA-256=[name=user,password=pencil,salt=\"{salt}\"]"));
        let salted = crate::login::scram::hash::salted_password(
            ScramMechanism::Sha256,
            b"pencil",
            &STANDARD.decode(salt).unwrap(),
            4096,
        );
        let salted = STANDARD.encode(salted);
        let other = parse(&format!(
            "SCRAM-SHA-256=[name=\"user\",salt=\"{salt}\",saltedpassword=\"{salted}\",iterations=4096]"
        ));
        assert_eq!(plain, other);
        let plain = plain.unwrap();
        assert_eq!((&*plain.user, plain.credential.iterations), ("user", 4096));
        let quoted = parse("SCRAM-SHA-512=[name=a,password=\"x,y\",iterations=8192]").unwrap();
        assert_eq!(quoted.mechanism, ScramMechanism::Sha512);
        assert_eq!(quoted.credential.salt.len(), 32);
    }

    #[test]
    fn what_is_wrong_is_told_without_a_password() {
        for (text, part) in [
            ("", "write SCRAM"),
            ("PLAIN=[name=a,password=hunter2]", "only SCRAM"),
            ("SCRAM-SHA-256=name=a,password=hunter2", "write SCRAM"),
            ("SCRAM-SHA-256=[password=hunter2]", "name is missing"),
            ("SCRAM-SHA-256=[name=a]", "password is missing"),
            ("SCRAM-SHA-256=[name=a,password=hunter2,iterations=4095]", "4096"),
            ("SCRAM-SHA-256=[name=a,password=hunter2,iterations=x]", "number"),
            ("SCRAM-SHA-256=[name=a,password=hunter2,salt=*]", "base64"),
            ("SCRAM-SHA-256=[name=a,saltedpassword=aHVudGVyMg==]", "salt beside"),
            ("SCRAM-SHA-256=[name=a,salt=aaaa,saltedpassword=aHVudGVyMg==]", "length"),
            ("SCRAM-SHA-256=[name=a,password=hunter2,hunter2]", "KEY=VALUE"),
            ("SCRAM-SHA-256=[name=a,password=hunter2,hunter2=x]", "one of"),
            ("SCRAM-SHA-256=[name=a,password=\"hunter2]", "quote"),
            ("SCRAM-SHA-256=[name=a,name=b,password=hunter2]", "twice"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part) && !error.contains("hunter2"), "{text}: {error}");
        }
    }
}
