//! What both directions share: ids, versions and limits of the wire's primitives.
//!
//! [`super::reader`] reads the primitives, [`super::writer`] writes them; [`super::schema`] makes
//! messages of them.

use std::fmt;

/// Longest string the protocol can carry, in bytes (its length is an `i16`).
pub const STRING_BYTES_MAX: usize = 0x7fff;

/// A universally unique id as the protocol carries it: 16 raw bytes, big-endian; zero means "none".
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// The id that stands for "no id".
    pub const ZERO: Uuid = Uuid([0; 16]);

    /// Whether this is [`Uuid::ZERO`].
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let dash = if matches!(index, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

/// The version a message is read or written at, and whether that version is flexible: compact
/// lengths and tagged fields (KIP-482).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    pub number: i16,
    pub flexible: bool,
}

#[cfg(test)]
#[path = "primitives_tests.rs"]
mod tests;
