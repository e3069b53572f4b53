//! The client's messages, as they are read. They come from strangers: nothing here panics.
//!
//! ```text
//! client-first:  n,[a=<authzid>],n=<user>,r=<nonce>[,<extensions>]
//! server-first:  r=<nonce><more of the nonce>,s=<salt, base64>,i=<iterations>
//! client-final:  c=<base64 of the header up to the second comma>,r=<nonce>[,<extensions>],p=<proof>
//! server-final:  v=<signature, base64>
//! ```

use crate::login::LoginError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The first message of a client.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientFirst<'a> {
    /// Header with both of its commas: what client-final repeats.
    pub header: &'a str,
    /// All behind the header: what is signed.
    pub bare: &'a str,
    /// Whom the client wants to act as; empty for itself.
    pub authorization_id: String,
    pub user: String,
    pub nonce: &'a str,
    /// Whether it says that it logs in with a delegation token (KIP-48).
    pub is_token: bool,
}

/// The second message of a client.
#[derive(Debug, PartialEq, Eq)]
pub struct ClientFinal<'a> {
    /// The header that the client says it has sent.
    pub header: Vec<u8>,
    pub nonce: &'a str,
    /// All before the proof: what is signed.
    pub without_proof: &'a str,
    pub proof: Vec<u8>,
}

const fn malformed<T>(what: &'static str) -> Result<T, LoginError> {
    Err(LoginError::Malformed { what })
}

fn text(bytes: &[u8]) -> Result<&str, LoginError> {
    std::str::from_utf8(bytes).map_err(|_| LoginError::Malformed { what: "it is not UTF-8" })
}

impl<'a> ClientFirst<'a> {
    /// # Errors
    /// [`LoginError::Malformed`].
    pub fn parse(bytes: &'a [u8]) -> Result<ClientFirst<'a>, LoginError> {
        let message = text(bytes)?;
        let (binding, rest) = message.split_once(',').unwrap_or((message, ""));
        // A client that could bind channels says y when the server offers no mechanism for it.
        if !matches!(binding, "n" | "y") {
            return malformed("channel binding is not offered");
        }
        let Some((authorization, bare)) = rest.split_once(',') else {
            return malformed("its header has no end");
        };
        let authorization_id = match authorization.strip_prefix("a=") {
            Some(name) => unescaped(name)?,
            None if authorization.is_empty() => String::new(),
            None => return malformed("its header has an unknown part"),
        };
        let mut attributes = bare.split(',');
        let Some(user) = attributes.next().and_then(|first| first.strip_prefix("n=")) else {
            return malformed("the user name is missing");
        };
        let user = unescaped(user)?;
        if user.is_empty() {
            return malformed("the user name is empty");
        }
        let nonce = nonce(attributes.next())?;
        let mut is_token = false;
        for extension in attributes {
            is_token |= extension == "tokenauth=true";
            check_extension(extension)?;
        }
        let header = &message[..message.len() - bare.len()];
        Ok(ClientFirst { header, bare, authorization_id, user, nonce, is_token })
    }
}

impl<'a> ClientFinal<'a> {
    /// # Errors
    /// [`LoginError::Malformed`].
    pub fn parse(bytes: &'a [u8]) -> Result<ClientFinal<'a>, LoginError> {
        let message = text(bytes)?;
        let Some((without_proof, proof)) = message.rsplit_once(",p=") else {
            return malformed("the proof is missing");
        };
        let mut attributes = without_proof.split(',');
        let Some(header) = attributes.next().and_then(|first| first.strip_prefix("c=")) else {
            return malformed("the channel binding is missing");
        };
        let header = base64(header)?;
        let nonce = nonce(attributes.next())?;
        attributes.try_for_each(check_extension)?;
        Ok(ClientFinal { header, nonce, without_proof, proof: base64(proof)? })
    }
}

/// Printable characters without a comma.
fn nonce(attribute: Option<&str>) -> Result<&str, LoginError> {
    let Some(nonce) = attribute.and_then(|attribute| attribute.strip_prefix("r=")) else {
        return malformed("the nonce is missing");
    };
    if nonce.is_empty() || !nonce.bytes().all(|byte| byte.is_ascii_graphic()) {
        return malformed("the nonce is not made of printable characters");
    }
    Ok(nonce)
}

/// Unknown extensions are passed over; `m` is for those that may not be, and none is known.
fn check_extension(extension: &str) -> Result<(), LoginError> {
    match extension.split_once('=') {
        Some(("m", _)) => malformed("it wants an extension that is not known"),
        Some((name, _)) if name.bytes().all(|byte| byte.is_ascii_alphabetic()) => Ok(()),
        _ => malformed("it has a part that is no extension"),
    }
}

fn base64(text: &str) -> Result<Vec<u8>, LoginError> {
    STANDARD.decode(text).map_err(|_| LoginError::Malformed { what: "a part is not base64" })
}

/// A name with `=2C` for a comma and `=3D` for an equals sign.
fn unescaped(name: &str) -> Result<String, LoginError> {
    let mut parts = name.split('=');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (char, rest) = match (part.strip_prefix("2C"), part.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return malformed("a name has an = that is not =2C or =3D"),
        };
        plain.push(char);
        plain.push_str(rest);
    }
    Ok(plain)
}
