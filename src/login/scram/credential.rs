//! What is kept of a user's password: enough to check a proof, too little to log in with.

use super::hash::{hash, hash_bytes, hmac, salted_password};
use crate::login::ScramMechanism;
use serde::{Deserialize, Serialize};
use std::fmt;
use subtle::ConstantTimeEq;

/// A credential of one user for one mechanism. Field names are part of the stored format.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScramCredential {
    pub salt: Vec<u8>,
    pub iterations: u32,
    /// H(ClientKey).
    pub stored_key: Vec<u8>,
    pub server_key: Vec<u8>,
}

/// Keys do not belong into a log.
impl fmt::Debug for ScramCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScramCredential {{ iterations: {}, .. }}", self.iterations)
    }
}

impl ScramCredential {
    /// From Hi(password, salt, iterations), which clients send (KIP-554).
    pub fn from_salted_password(
        mechanism: ScramMechanism,
        salted_password: &[u8],
        salt: &[u8],
        iterations: u32,
    ) -> ScramCredential {
        let client_key = hmac(mechanism, salted_password, &[b"Client Key"]);
        ScramCredential {
            salt: salt.to_vec(),
            iterations,
            stored_key: hash(mechanism, &client_key),
            server_key: hmac(mechanism, salted_password, &[b"Server Key"]),
        }
    }

    /// From the password's bytes as they are: like Apache Kafka, without SASLprep. Slow on purpose.
    pub fn from_password(
        mechanism: ScramMechanism,
        password: &[u8],
        salt: &[u8],
        iterations: u32,
    ) -> ScramCredential {
        let salted = salted_password(mechanism, password, salt, iterations);
        ScramCredential::from_salted_password(mechanism, &salted, salt, iterations)
    }

    /// Stands for the credential of a user that does not exist; nothing proves it.
    pub fn nobodys(mechanism: ScramMechanism) -> ScramCredential {
        let key = vec![0; hash_bytes(mechanism)];
        ScramCredential {
            salt: Vec::new(),
            iterations: 0,
            stored_key: key.clone(),
            server_key: key,
        }
    }

    /// Whether `proof` was made by whoever has the password, for an exchange of these messages.
    pub fn proves(&self, mechanism: ScramMechanism, auth_message: &[&[u8]], proof: &[u8]) -> bool {
        let signature = hmac(mechanism, &self.stored_key, auth_message);
        if proof.len() != signature.len() {
            return false;
        }
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(p, s)| p ^ s).collect();
        hash(mechanism, &client_key).ct_eq(&self.stored_key).into()
    }

    /// What shows the client that the broker has its credential.
    pub fn server_signature(&self, mechanism: ScramMechanism, auth_message: &[&[u8]]) -> Vec<u8> {
        hmac(mechanism, &self.server_key, auth_message)
    }
}
