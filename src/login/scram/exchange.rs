//! One exchange: two messages of the client, two of the broker.

use super::credential::ScramCredential;
use super::message::{ClientFinal, ClientFirst};
use super::users::ScramUsers;
use crate::login::{LoginError, ScramMechanism, Step};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// How far an exchange has come.
pub enum ScramExchange {
    First(ScramMechanism),
    Final(Box<Final>),
    /// It has ended, one way or the other.
    Over,
}

/// What the first messages leave for the last ones.
pub struct Final {
    mechanism: ScramMechanism,
    user: String,
    header: String,
    client_first_bare: String,
    server_first: String,
    nonce: String,
}

impl ScramExchange {
    pub fn begin(mechanism: ScramMechanism) -> ScramExchange {
        ScramExchange::First(mechanism)
    }

    /// The next message of the client.
    ///
    /// # Errors
    /// [`LoginError`]; the exchange is over.
    pub fn step(&mut self, message: &[u8], users: &ScramUsers) -> Result<Step, LoginError> {
        match std::mem::replace(self, ScramExchange::Over) {
            ScramExchange::First(mechanism) => {
                let nonce = server_nonce()?;
                let (answer, next) = first(mechanism, message, &nonce, users)?;
                *self = ScramExchange::Final(Box::new(next));
                Ok(Step::Continue(answer))
            }
            ScramExchange::Final(exchange) => exchange.finish(message, users),
            ScramExchange::Over => Err(LoginError::Malformed { what: "the exchange is over" }),
        }
    }
}

/// Answers the first message. Whether the user exists shows in nothing.
pub fn first(
    mechanism: ScramMechanism,
    message: &[u8],
    server_nonce: &str,
    users: &ScramUsers,
) -> Result<(Vec<u8>, Final), LoginError> {
    let client = ClientFirst::parse(message)?;
    if client.is_token {
        return Err(LoginError::Malformed { what: "delegation tokens are not served" });
    }
    if !client.authorization_id.is_empty() && client.authorization_id != client.user {
        return Err(LoginError::AuthorizationId);
    }
    let (salt, iterations) = users.salt_of(mechanism, &client.user);
    let nonce = format!("{}{server_nonce}", client.nonce);
    let server_first = format!("r={nonce},s={},i={iterations}", STANDARD.encode(&salt));
    let next = Final {
        mechanism,
        header: client.header.to_owned(),
        client_first_bare: client.bare.to_owned(),
        server_first: server_first.clone(),
        nonce,
        user: client.user,
    };
    Ok((server_first.into_bytes(), next))
}

impl Final {
    /// Answers the last message. The credential is looked up anew: it may be gone by now.
    pub fn finish(self, message: &[u8], users: &ScramUsers) -> Result<Step, LoginError> {
        let client = ClientFinal::parse(message)?;
        if client.nonce != self.nonce {
            return Err(LoginError::Malformed { what: "the nonce is not that of the exchange" });
        }
        if client.header != self.header.as_bytes() {
            return Err(LoginError::Malformed {
                what: "the channel binding is not that of before",
            });
        }
        // As long for a user that does not exist.
        let known = users.credential(self.mechanism, &self.user);
        let nobodys = known.is_none().then(|| ScramCredential::nobodys(self.mechanism));
        let Some(credential) = known.map(|known| &**known).or(nobodys.as_ref()) else {
            return Err(LoginError::WrongCredentials);
        };
        let auth_message: [&[u8]; 5] = [
            self.client_first_bare.as_bytes(),
            b",",
            self.server_first.as_bytes(),
            b",",
            client.without_proof.as_bytes(),
        ];
        let is_right = credential.proves(self.mechanism, &auth_message, &client.proof);
        if !is_right || known.is_none() {
            return Err(LoginError::WrongCredentials);
        }
        let signature = credential.server_signature(self.mechanism, &auth_message);
        let token = format!("v={}", STANDARD.encode(signature)).into_bytes();
        Ok(Step::Done { user: self.user, token })
    }
}

fn server_nonce() -> Result<String, LoginError> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).map_err(|_| LoginError::NoRandomness)?;
    Ok(STANDARD.encode(bytes))
}
