//! Logins by SASL: mechanisms, their exchanges, and what a login is held against. Pure: bytes in,
//! bytes or a refusal out; doors carry the bytes, and the metadata keeps the credentials.

mod conversation;
pub mod jaas;
pub mod limits;
pub mod mechanism;
pub mod plain;
pub mod scram;

pub use conversation::{Answered, HandshakeAnswer, Known, Login, LoginRules, Overdue, Refusal};
pub use mechanism::{Mechanism, ScramMechanism};

use std::fmt;

/// What the broker does with a token of the client's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The exchange goes on with this token.
    Continue(Vec<u8>),
    /// The client has shown who it is.
    Done { user: String, token: Vec<u8> },
}

/// Why a login failed. What the client is told is [`LoginError::told`]: it does not say whether
/// there is such a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginError {
    /// The token is not what the mechanism wants at this place.
    Malformed { what: &'static str },
    /// No such user, or not this user's password.
    WrongCredentials,
    /// The client wants to act as somebody else.
    AuthorizationId,
    /// A re-authentication as somebody else, or by another mechanism.
    Changed { what: String },
    /// The system has no random bytes.
    NoRandomness,
}

impl LoginError {
    /// What the client is told, in Apache Kafka's words where it has some.
    pub fn told(&self, mechanism: Mechanism) -> String {
        match self {
            Self::WrongCredentials if mechanism == Mechanism::Plain => {
                "Authentication failed: Invalid username or password".to_owned()
            }
            Self::Malformed { .. } | Self::WrongCredentials | Self::NoRandomness => format!(
                "Authentication failed during authentication due to invalid credentials with SASL \
                 mechanism {mechanism}"
            ),
            Self::AuthorizationId => "Authentication failed: Client requested an authorization id \
                                      that is different from username"
                .to_owned(),
            Self::Changed { what } => what.clone(),
        }
    }
}

/// For the log: it may say more than the client is told.
impl fmt::Display for LoginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed { what } => write!(f, "its message is malformed: {what}"),
            Self::WrongCredentials => f.write_str("wrong user name or password"),
            Self::AuthorizationId => f.write_str("it wants to act as another user than it is"),
            Self::Changed { what } => f.write_str(what),
            Self::NoRandomness => f.write_str("the system has no random bytes"),
        }
    }
}
