//! The users that have SCRAM credentials, and what is told of users that have none.

use super::credential::ScramCredential;
use super::hash::hmac;
use crate::login::ScramMechanism;
use crate::login::limits::ITERATIONS_MIN;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Credentials by user. Part of the metadata's image: all cores share one.
#[derive(Clone, Default)]
pub struct ScramUsers {
    users: BTreeMap<Arc<str>, UserCredentials>,
    /// What made-up salts come from; it has to be kept from strangers and over restarts.
    secret: Vec<u8>,
}

/// The credentials of one user: at most one for each mechanism.
#[derive(Clone, Default)]
pub struct UserCredentials([Option<Arc<ScramCredential>>; 2]);

impl fmt::Debug for ScramUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScramUsers {{ {} users }}", self.users.len())
    }
}

const fn place(mechanism: ScramMechanism) -> usize {
    match mechanism {
        ScramMechanism::Sha256 => 0,
        ScramMechanism::Sha512 => 1,
    }
}

impl UserCredentials {
    pub fn get(&self, mechanism: ScramMechanism) -> Option<&Arc<ScramCredential>> {
        self.0[place(mechanism)].as_ref()
    }

    /// Mechanism and iterations of each.
    pub fn told(&self) -> impl Iterator<Item = (ScramMechanism, u32)> {
        let told = |mechanism| Some((mechanism, self.get(mechanism)?.iterations));
        ScramMechanism::ALL.into_iter().filter_map(told)
    }
}

impl ScramUsers {
    pub fn new(secret: Vec<u8>) -> ScramUsers {
        ScramUsers { users: BTreeMap::new(), secret }
    }

    pub fn get(&self, user: &str) -> Option<&UserCredentials> {
        self.users.get(user)
    }

    pub fn credential(
        &self,
        mechanism: ScramMechanism,
        user: &str,
    ) -> Option<&Arc<ScramCredential>> {
        self.users.get(user)?.get(mechanism)
    }

    /// All users, in order.
    pub fn all(&self) -> impl Iterator<Item = (&str, &UserCredentials)> {
        self.users.iter().map(|(user, credentials)| (&**user, credentials))
    }

    pub fn len(&self) -> usize {
        self.users.len()
    }

    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Sets a credential, or removes it; a user without any is not here any more.
    pub fn put(
        &mut self,
        mechanism: ScramMechanism,
        user: &str,
        credential: Option<ScramCredential>,
    ) {
        let mut own = self.users.remove(user).unwrap_or_default();
        own.0[place(mechanism)] = credential.map(Arc::new);
        if own.0.iter().any(Option::is_some) {
            self.users.insert(user.into(), own);
        }
    }

    /// What a user is told to salt with. One that does not exist is told the same each time, in the
    /// form that the first user's credential has: nobody learns from it who exists.
    pub fn salt_of(&self, mechanism: ScramMechanism, user: &str) -> (Cow<'_, [u8]>, u32) {
        if let Some(own) = self.credential(mechanism, user) {
            return (Cow::Borrowed(&own.salt), own.iterations);
        }
        let like = self.users.values().find_map(|user| user.get(mechanism));
        let (bytes, iterations) = match like {
            Some(like) => (like.salt.len(), like.iterations),
            None => (SALT_BYTES, ITERATIONS_MIN),
        };
        let mut salt = Vec::with_capacity(bytes);
        for part in 0_u32.. {
            if salt.len() >= bytes {
                break;
            }
            let name = mechanism.name().as_bytes();
            let parts = [name, &part.to_be_bytes()[..], user.as_bytes()];
            salt.extend(hmac(ScramMechanism::Sha256, &self.secret, &parts));
        }
        salt.truncate(bytes);
        if like.is_some_and(|like| like.salt.iter().all(u8::is_ascii_alphanumeric)) {
            // So kafka-configs makes its salts.
            const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
            salt.iter_mut().for_each(|byte| *byte = DIGITS[usize::from(*byte) % DIGITS.len()]);
        }
        (Cow::Owned(salt), iterations)
    }
}

/// Bytes of a salt when nobody has one yet.
const SALT_BYTES: usize = 32;
