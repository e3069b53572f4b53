//! Changes of SCRAM credentials: what they may be, and how they are made. KIP-554.

use super::change::Refused;
use super::controller::{Controller, Cores, TopicDirectories};
use super::store::{MetadataChange, MetadataStore};
use crate::login::ScramMechanism;
use crate::login::limits::{
    ITERATIONS_MAX, ITERATIONS_MIN, SALT_BYTES_MAX, USER_NAME_BYTES_MAX, USERS_MAX,
};
use crate::login::scram::credential::ScramCredential;
use crate::login::scram::hash_bytes;
use crate::login::scram::users::ScramUsers;
use std::collections::BTreeMap;
use std::fmt;

/// One change to one user, as the request says it.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramAlteration {
    pub user: String,
    /// The number on the wire.
    pub mechanism: i8,
    /// `None` deletes.
    pub upsertion: Option<Upsertion>,
}

/// A credential to be, as clients send it: they salt the password.
#[derive(Clone, PartialEq, Eq)]
pub struct Upsertion {
    pub iterations: i32,
    pub salt: Vec<u8>,
    pub salted_password: Vec<u8>,
}

/// Why a credential is not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadCredential {
    Twice,
    NotThere,
    NoName,
    LongName,
    Mechanism,
    TooFewIterations,
    TooManyIterations,
    Salt,
    SaltedPassword { expected: usize },
}

/// Apache Kafka's words, where it has some.
impl fmt::Display for BadCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice => {
                f.write_str("A user credential cannot be altered twice in the same request")
            }
            Self::NotThere => {
                f.write_str("Attempt to delete a user credential that does not exist")
            }
            Self::NoName => f.write_str("Username must not be empty"),
            Self::LongName => {
                write!(f, "The user name is longer than {USER_NAME_BYTES_MAX} bytes")
            }
            Self::Mechanism => f.write_str("Unknown SCRAM mechanism"),
            Self::TooFewIterations => f.write_str("Too few iterations"),
            Self::TooManyIterations => f.write_str("Too many iterations"),
            Self::Salt => write!(f, "The salt must have 1 to {SALT_BYTES_MAX} bytes"),
            Self::SaltedPassword { expected } => write!(
                f,
                "The salted password must have {expected} bytes: nobody could log in with another"
            ),
        }
    }
}

/// What becomes of a request: for each user, in order of the names, one change or why not.
pub type Planned = BTreeMap<String, Result<MetadataChange, BadCredential>>;

/// Decides. A user that is named twice gets nothing.
pub fn plan(alterations: &[ScramAlteration], users: &ScramUsers) -> Planned {
    let mut planned = Planned::new();
    for alteration in alterations {
        let outcome = match planned.get(&alteration.user) {
            None => plan_one(alteration, users),
            Some(Ok(_)) => Err(BadCredential::Twice),
            // The first fault is told, as Apache Kafka does.
            Some(Err(first)) => Err(*first),
        };
        planned.insert(alteration.user.clone(), outcome);
    }
    planned
}

fn plan_one(
    alteration: &ScramAlteration,
    users: &ScramUsers,
) -> Result<MetadataChange, BadCredential> {
    let user = alteration.user.clone();
    match user.len() {
        0 => return Err(BadCredential::NoName),
        1..=USER_NAME_BYTES_MAX => {}
        _ => return Err(BadCredential::LongName),
    }
    let mechanism = ScramMechanism::from_number(alteration.mechanism);
    let mechanism = mechanism.ok_or(BadCredential::Mechanism)?;
    let Some(Upsertion { iterations, salt, salted_password }) = &alteration.upsertion else {
        let exists = users.credential(mechanism, &user).is_some();
        let removal = MetadataChange::RemoveScram { user, mechanism };
        return if exists { Ok(removal) } else { Err(BadCredential::NotThere) };
    };
    let iterations = match u32::try_from(*iterations) {
        Ok(iterations @ ITERATIONS_MIN..=ITERATIONS_MAX) => iterations,
        Ok(more) if more > ITERATIONS_MAX => return Err(BadCredential::TooManyIterations),
        _ => return Err(BadCredential::TooFewIterations),
    };
    if !(1..=SALT_BYTES_MAX).contains(&salt.len()) {
        return Err(BadCredential::Salt);
    }
    let expected = hash_bytes(mechanism);
    if salted_password.len() != expected {
        return Err(BadCredential::SaltedPassword { expected });
    }
    let credential =
        ScramCredential::from_salted_password(mechanism, salted_password, salt, iterations);
    Ok(MetadataChange::PutScram { user, mechanism, credential })
}

/// How many users a change adds at most, against how many there may be.
///
/// # Errors
/// [`Refused::TooMany`].
pub fn check_room(changes: &[MetadataChange], users: &ScramUsers) -> Result<(), Refused> {
    let is_new = |change: &&MetadataChange| match change {
        MetadataChange::PutScram { user, .. } => users.get(user).is_none(),
        _ => false,
    };
    if users.len() + changes.iter().filter(is_new).count() <= USERS_MAX {
        return Ok(());
    }
    Err(Refused::TooMany { what: format!("{USERS_MAX} users have credentials, and no more may") })
}

impl<S: MetadataStore, C: Cores, D: TopicDirectories> Controller<S, C, D> {
    /// Changes credentials; an answer for each user, in order of the names.
    pub fn alter_scram(
        &mut self,
        alterations: &[ScramAlteration],
    ) -> Vec<(String, Result<(), Refused>)> {
        let planned = plan(alterations, self.image().scram());
        let changes: Vec<_> = planned.values().flatten().cloned().collect();
        let made = check_room(&changes, self.image().scram())
            .and_then(|()| self.commit(&changes).map_err(Refused::Store));
        if made.is_ok() && !changes.is_empty() {
            self.change_scram(&changes);
        }
        let answer = |(user, planned): (String, Result<_, BadCredential>)| match planned {
            Ok(_) => (user, made.clone()),
            Err(bad) => (user, Err(Refused::Credential(bad))),
        };
        planned.into_iter().map(answer).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upsertion(user: &str, iterations: i32) -> ScramAlteration {
        let salted_password = vec![1; 32];
        let upsertion = Some(Upsertion { iterations, salt: b"salt".to_vec(), salted_password });
        ScramAlteration { user: user.to_owned(), mechanism: 1, upsertion }
    }

    fn deletion(user: &str) -> ScramAlteration {
        ScramAlteration { user: user.to_owned(), mechanism: 1, upsertion: None }
    }

    fn outcome(alteration: ScramAlteration) -> Option<BadCredential> {
        plan(&[alteration], &ScramUsers::default()).into_values().next().unwrap().err()
    }

    #[test]
    fn bounds_of_a_credential_are_apache_kafkas_and_what_nobody_could_use_is_refused() {
        assert_eq!(outcome(upsertion("a", 4096)), None);
        assert_eq!(outcome(upsertion("a", 16_384)), None);
        assert_eq!(outcome(upsertion("a", 4095)), Some(BadCredential::TooFewIterations));
        assert_eq!(outcome(upsertion("a", -1)), Some(BadCredential::TooFewIterations));
        assert_eq!(outcome(upsertion("a", 16_385)), Some(BadCredential::TooManyIterations));
        assert_eq!(outcome(upsertion("", 4096)), Some(BadCredential::NoName));
        assert_eq!(outcome(upsertion(&"a".repeat(1025), 4096)), Some(BadCredential::LongName));
        for mechanism in [-1, 0, 3] {
            let other = ScramAlteration { mechanism, ..upsertion("a", 4096) };
            assert_eq!(outcome(other), Some(BadCredential::Mechanism));
        }
        let with = |change: fn(&mut Upsertion)| {
            let mut alteration = upsertion("a", 4096);
            alteration.upsertion.as_mut().map(change);
            outcome(alteration)
        };
        assert_eq!(with(|own| own.salt.clear()), Some(BadCredential::Salt));
        let short = with(|own| own.salted_password.truncate(31));
        assert_eq!(short, Some(BadCredential::SaltedPassword { expected: 32 }));
        let long = ScramAlteration { mechanism: 2, ..upsertion("a", 4096) };
        assert_eq!(outcome(long), Some(BadCredential::SaltedPassword { expected: 64 }));
    }

    #[test]
    fn user_that_is_named_twice_gets_nothing_and_the_others_their_due() {
        let mut users = ScramUsers::default();
        let credential = ScramCredential::nobodys(ScramMechanism::Sha256);
        users.put(ScramMechanism::Sha256, "b", Some(credential));
        let request = [
            deletion("b"),
            deletion("c"),
            upsertion("c", 4096),
            upsertion("a", 4096),
            upsertion("a", 8192),
            deletion("a"),
        ];
        let planned = plan(&request, &users);
        assert_eq!(planned["a"], Err(BadCredential::Twice));
        assert!(matches!(planned["b"], Ok(MetadataChange::RemoveScram { .. })));
        assert_eq!(planned["c"], Err(BadCredential::NotThere));
    }
}
