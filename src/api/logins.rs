//! What the requests of a login have in common, and what may be asked before it.

use super::{Answer, Call, Caller, Close, CoreContext};
use crate::authorizer::principal::Principal;
use crate::login::{Answered, Login, Mechanism, Refusal};
use crate::wire::apis::{self, LoginGate};
use crate::wire::{ApiKey, frame};
use bytes::Bytes;
use millstream_io::clock::Clock;
use millstream_io::runtime::sleep;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Logins of one core, since its start.
#[derive(Default)]
pub struct Logins {
    done: [Cell<u64>; 3],
    failed: [Cell<u64>; 3],
    expired: Cell<u64>,
}

impl Logins {
    fn count(counts: &[Cell<u64>; 3], mechanism: Mechanism) {
        let count = &counts[mechanism.index()];
        count.set(count.get() + 1);
    }

    /// A session ended because it was not renewed.
    pub fn count_expired(&self) {
        self.expired.set(self.expired.get() + 1);
    }

    /// Mechanism, logins and re-authentications that succeeded, and those that failed.
    pub fn counts(&self) -> Vec<(Mechanism, u64, u64)> {
        let counts = |mechanism: Mechanism| {
            let at = mechanism.index();
            (mechanism, self.done[at].get(), self.failed[at].get())
        };
        Mechanism::ALL.into_iter().map(counts).collect()
    }

    pub fn expired(&self) -> u64 {
        self.expired.get()
    }
}

/// A login that failed: what the client is told last, and what the log says.
#[derive(Debug)]
pub struct FailedLogin {
    pub answer: Option<Vec<u8>>,
    pub why: String,
}

/// The milliseconds that logins are measured by.
pub fn now_ms(core: &CoreContext) -> u64 {
    u64::try_from(core.clock.monotonic().as_millis()).unwrap_or(u64::MAX)
}

/// Whether a request of this API may be begun while the login is not open.
pub fn gate(login: &Login, key: ApiKey) -> Result<(), Close> {
    let may = if login.is_settled() {
        key == ApiKey::SaslHandshake
    } else if login.is_exchanging() {
        matches!(key, ApiKey::SaslHandshake | ApiKey::SaslAuthenticate)
    } else {
        apis::find(key).is_some_and(|api| api.login == LoginGate::Open)
    };
    match may {
        true => Ok(()),
        false if login.is_settled() => Err(Close::SessionExpired),
        false => Err(Close::BeforeLogin { key }),
    }
}

/// Takes a token; on success the caller is who it has shown to be.
pub fn take_token(
    core: &CoreContext,
    caller: &Caller,
    login: &Login,
    token: &[u8],
) -> Result<Answered, Refusal> {
    let outcome = login.token(token, core.metadata.get().scram(), now_ms(core));
    match &outcome {
        Ok(Answered::Done { user, mechanism, .. }) => {
            Logins::count(&core.logins.done, *mechanism);
            caller.set_principal(Rc::new(Principal::user(user.as_str())));
        }
        Err(Refusal::Failed { mechanism, .. }) => Logins::count(&core.logins.failed, *mechanism),
        Ok(Answered::Continue { .. }) | Err(Refusal::LoggedIn | Refusal::NoHandshake) => {}
    }
    outcome
}

/// Ends a connection whose login failed: after a delay, as guesses should cost time.
pub async fn fail(core: &CoreContext, answer: Option<Answer>, why: String) -> Close {
    let delay_ms = core.metadata.get().broker.failed_login_delay_ms;
    if delay_ms > 0 {
        sleep(Duration::from_millis(delay_ms)).await;
    }
    let answer = match answer {
        Some(Answer::Frame(frame)) => Some(frame),
        _ => None,
    };
    Close::FailedLogin(Box::new(FailedLogin { answer, why }))
}

/// Answers a token that comes by itself, as those of a SaslHandshake v0 do.
///
/// # Errors
/// [`Close`].
pub async fn answer_raw(
    core: Rc<CoreContext>,
    caller: Rc<Caller>,
    token: Bytes,
) -> Result<Answer, Close> {
    let Some(login) = &caller.login else { panic!("a token by itself without a login") };
    match take_token(&core, &caller, login, &token) {
        Ok(Answered::Continue { token } | Answered::Done { token, .. }) => {
            Ok(Answer::Frame(frame::frame_of(&token)?))
        }
        Err(refusal) => Err(fail(&core, None, refusal.to_string()).await),
    }
}

impl Call {
    /// Whether this request may be begun now.
    pub(super) fn check_login(&self) -> Result<(), Close> {
        match &self.caller.login {
            Some(login) if !login.is_open() => gate(login, self.key),
            _ => Ok(()),
        }
    }
}
