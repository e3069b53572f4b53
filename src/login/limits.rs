//! Bounds of logins, each with its reason and with what happens when it is reached.

/// Longest token of an exchange; none of a client in use has a twentieth of it. A longer one fails
/// the login.
pub const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Iterations of a SCRAM credential, as in Apache Kafka: fewer are refused as too weak (RFC 7677),
/// more since each login costs the client that much.
pub const ITERATIONS_MIN: u32 = 4096;

/// See [`ITERATIONS_MIN`].
pub const ITERATIONS_MAX: u32 = 16_384;

/// Longest salt of a credential; a longer one is refused. Every login sends it.
pub const SALT_BYTES_MAX: usize = 1024;

/// Longest name of a user with credentials; a longer one is refused.
pub const USER_NAME_BYTES_MAX: usize = 1024;

/// Users that may have SCRAM credentials, since they are all held in memory; for more of them
/// changes are refused.
pub const USERS_MAX: usize = 100_000;

/// How long a client may take from its connection to the end of its login, in milliseconds, and how
/// long for a re-authentication. Slower: the connection is closed.
pub const LOGIN_MS_MAX: u64 = 30_000;

/// A connection re-authenticates at most once in this time, as in Apache Kafka.
pub const REAUTHENTICATION_MS_MIN: u64 = 1000;

const _: () = assert!(ITERATIONS_MIN < ITERATIONS_MAX && SALT_BYTES_MAX < TOKEN_BYTES_MAX);
