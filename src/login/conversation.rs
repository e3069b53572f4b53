//! How far the login of one connection has come, and what it may do meanwhile. KIP-43, KIP-152,
//! KIP-368.

use super::limits::{LOGIN_MS_MAX, REAUTHENTICATION_MS_MIN, TOKEN_BYTES_MAX};
use super::plain::PlainUsers;
use super::scram::exchange::ScramExchange;
use super::scram::users::ScramUsers;
use super::{LoginError, Mechanism, Step};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;

/// What a listener asks of those who come in by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoginRules {
    /// What it offers, in the order that it is told.
    pub mechanisms: Vec<Mechanism>,
    pub plain: PlainUsers,
    /// How long a login counts, by [`Mechanism::index`]; 0 is for ever.
    pub session_ms: [u64; 3],
}

/// Whom a login is held against.
pub struct Known<'a> {
    pub rules: &'a LoginRules,
    pub scram: &'a ScramUsers,
}

/// The login of one connection. Lives on its core; times are milliseconds of one monotonic clock.
pub struct Login {
    pub rules: Arc<LoginRules>,
    state: RefCell<State>,
    /// Who has logged in, how, and whether that is over.
    done: RefCell<Option<Done>>,
    /// When the present state is over.
    due_ms: Cell<Option<u64>>,
    /// Whether any request may be made: the one thing that each request looks at.
    open: Cell<bool>,
    /// When the last re-authentication began.
    renewed_ms: Cell<Option<u64>>,
}

#[derive(Clone)]
struct Done {
    user: String,
    mechanism: Mechanism,
}

enum State {
    /// Nobody has asked to log in, or to log in anew.
    Idle,
    Exchange {
        mechanism: Mechanism,
        /// Whether tokens come in requests, not by themselves.
        framed: bool,
        exchange: Exchange,
    },
    Failed,
}

enum Exchange {
    Plain,
    Scram(ScramExchange),
    /// A re-authentication by another mechanism than before: it fails at its first token.
    OtherMechanism {
        before: Mechanism,
    },
}

/// What a SaslHandshake is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeAnswer {
    /// The exchange may begin.
    Begun,
    /// There is nothing to log in for; the connection goes on.
    LoggedIn,
    /// The mechanism is not offered; the connection ends.
    Unsupported,
    /// An exchange is under way; the connection ends.
    OutOfTurn,
}

/// What a token is answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The exchange goes on.
    Continue { token: Vec<u8> },
    /// The client is logged in, for so long (0: for ever).
    Done { user: String, mechanism: Mechanism, token: Vec<u8>, session_ms: u64 },
}

/// Why a token is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is nothing to log in for; the connection goes on.
    LoggedIn,
    /// No handshake came before; the connection ends.
    NoHandshake,
    /// The connection ends.
    Failed { mechanism: Mechanism, error: LoginError },
}

/// For the log.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LoggedIn => f.write_str("it has logged in already"),
            Self::NoHandshake => f.write_str("it sent a token without a SaslHandshake before"),
            Self::Failed { mechanism, error } => {
                write!(f, "its login by {mechanism} failed: {error}")
            }
        }
    }
}

/// What is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    /// The login took too long.
    Login,
    /// The session ended; noticed now.
    Session,
}

impl Login {
    /// Of a connection that came in now.
    pub fn new(rules: Arc<LoginRules>, now_ms: u64) -> Login {
        Login {
            rules,
            state: RefCell::new(State::Idle),
            done: RefCell::new(None),
            due_ms: Cell::new(Some(now_ms + LOGIN_MS_MAX)),
            open: Cell::new(false),
            renewed_ms: Cell::new(None),
        }
    }

    /// Whether any request may be made: the client has logged in, its session has not ended, and
    /// no re-authentication is under way.
    pub fn is_open(&self) -> bool {
        self.open.get()
    }

    /// Whether nothing of a login is to come next.
    pub fn is_settled(&self) -> bool {
        self.done.borrow().is_some() && matches!(*self.state.borrow(), State::Idle)
    }

    /// Whether an exchange is under way: nothing but its tokens may come.
    pub fn is_exchanging(&self) -> bool {
        matches!(*self.state.borrow(), State::Exchange { .. })
    }

    /// Whether the next frame is a token by itself.
    pub fn expects_raw_token(&self) -> bool {
        matches!(*self.state.borrow(), State::Exchange { framed: false, .. })
    }

    /// Takes a SaslHandshake; since version 1 tokens come in requests of their own.
    pub fn handshake(&self, mechanism: &str, version: i16, now_ms: u64) -> HandshakeAnswer {
        let mut state = self.state.borrow_mut();
        if !matches!(*state, State::Idle) {
            self.open.set(false);
            *state = State::Failed;
            return HandshakeAnswer::OutOfTurn;
        }
        let done = self.done.borrow();
        if done.is_some() && !self.may_begin_anew(version, now_ms) {
            return HandshakeAnswer::LoggedIn;
        }
        let offered = |known: &Mechanism| self.rules.mechanisms.contains(known);
        let Some(mechanism) = Mechanism::from_name(mechanism).filter(offered) else {
            self.open.set(false);
            *state = State::Failed;
            return HandshakeAnswer::Unsupported;
        };
        let exchange = match (&*done, mechanism) {
            (Some(done), _) if done.mechanism != mechanism => {
                Exchange::OtherMechanism { before: done.mechanism }
            }
            (_, Mechanism::Plain) => Exchange::Plain,
            (_, Mechanism::Scram(scram)) => Exchange::Scram(ScramExchange::begin(scram)),
        };
        if done.is_some() {
            self.due_ms.set(Some(now_ms + LOGIN_MS_MAX));
            self.renewed_ms.set(Some(now_ms));
        }
        self.open.set(false);
        *state = State::Exchange { mechanism, framed: version >= 1, exchange };
        HandshakeAnswer::Begun
    }

    /// A session that does not end needs no renewal, and one is not renewed all the time.
    fn may_begin_anew(&self, version: i16, now_ms: u64) -> bool {
        let renewed = self.renewed_ms.get();
        let is_early = renewed.is_some_and(|at| now_ms < at + REAUTHENTICATION_MS_MIN);
        version >= 1 && self.due_ms.get().is_some() && !is_early
    }

    /// Takes a token of the client.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn token(
        &self,
        token: &[u8],
        scram: &ScramUsers,
        now_ms: u64,
    ) -> Result<Answered, Refusal> {
        let mut state = self.state.borrow_mut();
        let State::Exchange { mechanism, exchange, .. } = &mut *state else {
            return Err(match (&*state, self.done.borrow().is_some()) {
                (State::Idle, true) => Refusal::LoggedIn,
                _ => Refusal::NoHandshake,
            });
        };
        let mechanism = *mechanism;
        let known = Known { rules: &self.rules, scram };
        let step = exchange.step(token, mechanism, &known).and_then(|step| match step {
            Step::Done { user, token } => Ok(Step::Done { user: self.same(user)?, token }),
            step => Ok(step),
        });
        match step {
            Ok(Step::Continue(token)) => Ok(Answered::Continue { token }),
            Ok(Step::Done { user, token }) => {
                *state = State::Idle;
                let session_ms = self.settle(&user, mechanism, now_ms);
                Ok(Answered::Done { user, mechanism, token, session_ms })
            }
            Err(error) => {
                *state = State::Failed;
                Err(Refusal::Failed { mechanism, error })
            }
        }
    }

    /// Who re-authenticates is who was here before.
    fn same(&self, user: String) -> Result<String, LoginError> {
        match &*self.done.borrow() {
            Some(done) if done.user != user => Err(LoginError::Changed {
                what: format!(
                    "Cannot change principals during re-authentication from User.{} to User.{user}",
                    done.user
                ),
            }),
            _ => Ok(user),
        }
    }

    fn settle(&self, user: &str, mechanism: Mechanism, now_ms: u64) -> u64 {
        let session_ms = self.rules.session_ms[mechanism.index()];
        *self.done.borrow_mut() = Some(Done { user: user.to_owned(), mechanism });
        self.open.set(true);
        self.due_ms.set((session_ms > 0).then_some(now_ms + session_ms));
        session_ms
    }

    /// Looks at the clock; called about once a second.
    pub fn look(&self, now_ms: u64) -> Option<Overdue> {
        let is_due = self.due_ms.get().is_some_and(|due| now_ms >= due);
        match self.is_settled() {
            _ if !is_due => None,
            false => Some(Overdue::Login),
            true => self.open.replace(false).then_some(Overdue::Session),
        }
    }
}

impl Exchange {
    fn step(
        &mut self,
        token: &[u8],
        mechanism: Mechanism,
        known: &Known<'_>,
    ) -> Result<Step, LoginError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(LoginError::Malformed { what: "it is too long" });
        }
        match self {
            Exchange::Plain => known.rules.plain.login(token),
            Exchange::Scram(exchange) => exchange.step(token, known.scram),
            Exchange::OtherMechanism { before } => Err(LoginError::Changed {
                what: format!(
                    "SASL mechanism '{mechanism}' requested by client is not supported for \
                     re-authentication of mechanism '{before}'"
                ),
            }),
        }
    }
}

#[cfg(test)]
#[path = "conversation_tests.rs"]
mod tests;
