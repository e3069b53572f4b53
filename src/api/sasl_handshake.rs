//! SaslHandshake (key 17): chooses how to log in. KIP-43, KIP-152.

use super::logins::{fail, now_ms};
use super::{Answer, Call, Close};
use crate::login::{HandshakeAnswer, Mechanism};
use crate::wire::ErrorCode;
use crate::wire::messages::sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: SaslHandshakeRequest<'_> = call.request()?;
    let Some(login) = &call.caller.login else {
        return respond(call, ErrorCode::IllegalSaslState, &[]);
    };
    let offered = &login.rules.mechanisms;
    match login.handshake(request.mechanism, call.version, now_ms(&call.core)) {
        HandshakeAnswer::Begun => respond(call, ErrorCode::None, offered),
        HandshakeAnswer::LoggedIn => respond(call, ErrorCode::IllegalSaslState, &[]),
        HandshakeAnswer::Unsupported => {
            let answer = respond(call, ErrorCode::UnsupportedSaslMechanism, offered)?;
            let why =
                format!("it asked for a mechanism that listener {} does not offer", listener(call));
            Err(fail(&call.core, Some(answer), why).await)
        }
        HandshakeAnswer::OutOfTurn => {
            let answer = respond(call, ErrorCode::IllegalSaslState, &[])?;
            let why = "it sent a second SaslHandshake before its login was done".to_owned();
            Err(fail(&call.core, Some(answer), why).await)
        }
    }
}

fn listener(call: &Call) -> &str {
    &call.caller.listener
}

fn respond(call: &Call, code: ErrorCode, offered: &[Mechanism]) -> Result<Answer, Close> {
    let mechanisms = offered.iter().map(|mechanism| mechanism.name()).collect();
    call.respond(&SaslHandshakeResponse { error_code: code.number(), mechanisms })
}
