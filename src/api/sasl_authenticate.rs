//! SaslAuthenticate (key 36): carries the tokens of a login. KIP-152, KIP-368.

use super::logins::{fail, take_token};
use super::{Answer, Call, Close};
use crate::login::{Answered, Refusal};
use crate::wire::ErrorCode;
use crate::wire::messages::sasl_authenticate::{SaslAuthenticateRequest, SaslAuthenticateResponse};

pub async fn handle(call: &Call) -> Result<Answer, Close> {
    let request: SaslAuthenticateRequest<'_> = call.request()?;
    let outcome = match &call.caller.login {
        Some(login) => take_token(&call.core, &call.caller, login, request.auth_bytes),
        None => Err(Refusal::LoggedIn),
    };
    match outcome {
        Ok(Answered::Continue { token }) => taken(call, &token, 0),
        Ok(Answered::Done { token, session_ms, .. }) => taken(call, &token, session_ms),
        Err(Refusal::LoggedIn) => refused(
            call,
            ErrorCode::IllegalSaslState,
            "SaslAuthenticate request received after successful authentication",
        ),
        Err(refusal @ Refusal::NoHandshake) => {
            let told = "SaslAuthenticate request received without a SaslHandshake before it";
            let answer = refused(call, ErrorCode::IllegalSaslState, told)?;
            Err(fail(&call.core, Some(answer), refusal.to_string()).await)
        }
        Err(Refusal::Failed { mechanism, error }) => {
            let told = error.told(mechanism);
            let answer = refused(call, ErrorCode::SaslAuthenticationFailed, &told)?;
            let why = Refusal::Failed { mechanism, error }.to_string();
            Err(fail(&call.core, Some(answer), why).await)
        }
    }
}

fn taken(call: &Call, token: &[u8], session_ms: u64) -> Result<Answer, Close> {
    call.respond(&SaslAuthenticateResponse {
        error_code: 0,
        error_message: None,
        auth_bytes: token,
        session_lifetime_ms: session_ms.cast_signed(),
    })
}

fn refused(call: &Call, code: ErrorCode, told: &str) -> Result<Answer, Close> {
    call.respond(&SaslAuthenticateResponse {
        error_code: code.number(),
        error_message: Some(told),
        auth_bytes: &[],
        session_lifetime_ms: 0,
    })
}
