//! The functions H, HMAC and Hi of RFC 5802, with the hash of a mechanism.

use crate::login::ScramMechanism;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};

/// Bytes of the hash.
pub const fn hash_bytes(mechanism: ScramMechanism) -> usize {
    match mechanism {
        ScramMechanism::Sha256 => 32,
        ScramMechanism::Sha512 => 64,
    }
}

/// H(data).
pub fn hash(mechanism: ScramMechanism, data: &[u8]) -> Vec<u8> {
    match mechanism {
        ScramMechanism::Sha256 => Sha256::digest(data).to_vec(),
        ScramMechanism::Sha512 => Sha512::digest(data).to_vec(),
    }
}

/// HMAC(key, the parts one after the other).
pub fn hmac(mechanism: ScramMechanism, key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    match mechanism {
        ScramMechanism::Sha256 => keyed::<Hmac<Sha256>>(key, parts),
        ScramMechanism::Sha512 => keyed::<Hmac<Sha512>>(key, parts),
    }
}

fn keyed<M: Mac + KeyInit>(key: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let Ok(mut mac) = M::new_from_slice(key) else {
        panic!("an HMAC takes keys of any length, so also of {} bytes", key.len());
    };
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().to_vec()
}

/// Hi(password, salt, iterations): slow on purpose, so not for a core.
pub fn salted_password(
    mechanism: ScramMechanism,
    password: &[u8],
    salt: &[u8],
    iterations: u32,
) -> Vec<u8> {
    let mut salted = vec![0; hash_bytes(mechanism)];
    match mechanism {
        ScramMechanism::Sha256 => {
            pbkdf2::pbkdf2_hmac::<Sha256>(password, salt, iterations, &mut salted);
        }
        ScramMechanism::Sha512 => {
            pbkdf2::pbkdf2_hmac::<Sha512>(password, salt, iterations, &mut salted);
        }
    }
    salted
}
