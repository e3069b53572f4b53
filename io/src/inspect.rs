//! What stands in a file of a data directory, and whether a whole one is sound. Reads only.
//!
//! [`file::inspect`] is behind `millstream inspect FILE`, [`verify::verify`] behind
//! `millstream verify DIR`.

pub mod file;
pub mod verify;

pub use file::inspect;
pub use verify::{Verified, verify};

/// How a file or a directory was found. The exit status of the two commands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// All there is is as it was written.
    Sound,
    /// Something is not.
    Damaged,
    /// It could not be read, or is none of ours.
    Unreadable,
}

impl Verdict {
    /// 0 sound, 1 damaged, 2 unreadable.
    pub const fn exit_status(self) -> u8 {
        match self {
            Verdict::Sound => 0,
            Verdict::Damaged => 1,
            Verdict::Unreadable => 2,
        }
    }
}

#[cfg(test)]
#[path = "inspect/inspect_tests.rs"]
mod tests;
