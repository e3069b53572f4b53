//! Why bytes cannot be read as a message, and why a message cannot be written as bytes.

use std::fmt;

/// Why bytes are not the message they claim to be. `offset` counts from the first byte of the
/// frame that the reader was given. Apache Kafka closes the connection on every one of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The frame ends inside a value.
    Truncated { offset: usize, expected: usize, got: usize },
    /// A varint does not end within its five (`varint`) or ten (`varlong`) bytes.
    VarintTooLong { offset: usize, expected_bytes_max: usize },
    /// An array declares more elements than bytes remain.
    CountBeyondFrame { offset: usize, expected_max: usize, got: usize },
    /// A string declares more than [`STRING_BYTES_MAX`](super::primitives::STRING_BYTES_MAX) bytes.
    StringTooLong { offset: usize, expected_max: usize, got: usize },
    /// A string is not UTF-8. Apache Kafka would replace the faulty bytes; a broker that lends
    /// strings from the frame cannot, and no client library sends such a string.
    NotUtf8 { offset: usize, got: u8 },
    /// A null stands where this version does not allow one.
    UnexpectedNull { offset: usize, expected: &'static str },
    /// A known tagged field is longer or shorter than it says.
    TaggedFieldLength { offset: usize, tag: u32, expected: usize, got: usize },
    /// The arrays of this frame would take more memory than it may cost (see [`super::reader`]).
    BudgetExhausted { offset: usize, expected_max: usize, got: usize },
    /// No API has this key.
    UnknownApiKey { key: i16 },
    /// The message exists, but not at this version.
    UnknownVersion { message: &'static str, version: i16, min: i16, max: i16 },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { offset, expected, got } => {
                write!(f, "byte {offset}: a value of {expected} bytes, but {got} remain")
            }
            Self::VarintTooLong { offset, expected_bytes_max } => {
                write!(f, "byte {offset}: a varint longer than {expected_bytes_max} bytes")
            }
            Self::CountBeyondFrame { offset, expected_max, got } => {
                write!(
                    f,
                    "byte {offset}: an array of {got} elements, but {expected_max} bytes remain"
                )
            }
            Self::StringTooLong { offset, expected_max, got } => {
                write!(f, "byte {offset}: a string of {got} bytes, the longest is {expected_max}")
            }
            Self::NotUtf8 { offset, got } => {
                write!(f, "byte {offset}: 0x{got:02x} cannot stand here in a UTF-8 string")
            }
            Self::UnexpectedNull { offset, expected } => {
                write!(f, "before byte {offset}: null, but this version needs {expected}")
            }
            Self::TaggedFieldLength { offset, tag, expected, got } => {
                write!(f, "byte {offset}: tagged field {tag} says {expected} bytes and has {got}")
            }
            Self::BudgetExhausted { offset, expected_max, got } => write!(
                f,
                "byte {offset}: the arrays of this frame need {got} bytes, allowed are {expected_max}; \
                 split the request"
            ),
            Self::UnknownApiKey { key } => write!(f, "no API has key {key}"),
            Self::UnknownVersion { message, version, min, max } => {
                write!(f, "{message} has versions {min} to {max}, not {version}")
            }
        }
    }
}

impl std::error::Error for DecodeError {}

/// Why a message cannot be written. These are faults of the caller, not of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EncodeError {
    /// A field that this version does not have holds something else than its default, and
    /// dropping it would change the meaning.
    FieldNotInVersion { message: &'static str, field: &'static str, version: i16 },
    /// A field is null that must not be null at this version.
    UnexpectedNull { message: &'static str, field: &'static str, version: i16 },
    /// A value is longer than its length can say.
    TooLong { what: &'static str, expected_max: usize, got: usize },
    /// The message has no such version.
    UnknownVersion { message: &'static str, version: i16, min: i16, max: i16 },
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FieldNotInVersion { message, field, version } => {
                write!(f, "{message}.{field} is set, but version {version} cannot carry it")
            }
            Self::UnexpectedNull { message, field, version } => {
                write!(f, "{message}.{field} is null, but version {version} needs a value")
            }
            Self::TooLong { what, expected_max, got } => {
                write!(f, "{what} of {got} bytes, the longest is {expected_max}")
            }
            Self::UnknownVersion { message, version, min, max } => {
                write!(f, "{message} has versions {min} to {max}, not {version}")
            }
        }
    }
}

impl std::error::Error for EncodeError {}
