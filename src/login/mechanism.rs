//! The SASL mechanisms that are served.

use std::fmt;

/// A mechanism, as a listener offers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mechanism {
    /// RFC 4616: the password itself.
    Plain,
    Scram(ScramMechanism),
}

/// A mechanism of RFC 5802 and RFC 7677, which never sends the password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScramMechanism {
    Sha256,
    Sha512,
}

impl Mechanism {
    pub const ALL: [Mechanism; 3] = [
        Mechanism::Plain,
        Mechanism::Scram(ScramMechanism::Sha256),
        Mechanism::Scram(ScramMechanism::Sha512),
    ];

    /// Its registered name.
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::Scram(scram) => scram.name(),
        }
    }

    /// The mechanism of this name, letter by letter.
    pub fn from_name(name: &str) -> Option<Mechanism> {
        Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }

    /// Its place in tables.
    pub const fn index(self) -> usize {
        match self {
            Mechanism::Plain => 0,
            Mechanism::Scram(ScramMechanism::Sha256) => 1,
            Mechanism::Scram(ScramMechanism::Sha512) => 2,
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ScramMechanism {
    pub const ALL: [ScramMechanism; 2] = [ScramMechanism::Sha256, ScramMechanism::Sha512];

    pub const fn name(self) -> &'static str {
        match self {
            ScramMechanism::Sha256 => "SCRAM-SHA-256",
            ScramMechanism::Sha512 => "SCRAM-SHA-512",
        }
    }

    /// The number in requests about credentials (KIP-554).
    pub const fn number(self) -> i8 {
        match self {
            ScramMechanism::Sha256 => 1,
            ScramMechanism::Sha512 => 2,
        }
    }

    pub fn from_number(number: i8) -> Option<ScramMechanism> {
        ScramMechanism::ALL.into_iter().find(|mechanism| mechanism.number() == number)
    }

    pub fn from_name(name: &str) -> Option<ScramMechanism> {
        ScramMechanism::ALL.into_iter().find(|mechanism| mechanism.name() == name)
    }
}

impl fmt::Display for ScramMechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_numbers_and_places_are_one_to_one() {
        for (place, mechanism) in Mechanism::ALL.into_iter().enumerate() {
            assert_eq!(mechanism.index(), place);
            assert_eq!(Mechanism::from_name(mechanism.name()), Some(mechanism));
        }
        for scram in ScramMechanism::ALL {
            assert_eq!(ScramMechanism::from_number(scram.number()), Some(scram));
            assert_eq!(ScramMechanism::from_name(scram.name()), Some(scram));
        }
        assert_eq!(Mechanism::from_name("plain"), None);
        assert_eq!(ScramMechanism::from_number(0), None);
        assert_eq!(ScramMechanism::from_name("PLAIN"), None);
    }
}
