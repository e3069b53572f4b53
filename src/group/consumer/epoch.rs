//! Epochs of the new group protocol: those of groups, of their assignments and of their members are
//! points on one line.

use std::fmt;

/// A point in the life of a consumer group. A group's epoch rises with every change that asks for
/// another assignment; a member's epoch says up to which assignment it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Epoch(i32);

impl Epoch {
    /// Before the first assignment; also what a member sends to join.
    pub const ZERO: Epoch = Epoch(0);
    /// What a member sends to leave.
    pub const LEAVE: Epoch = Epoch(-1);
    /// What a static member sends to leave for a while, and its epoch until it is back.
    pub const LEAVE_STATIC: Epoch = Epoch(-2);
    /// A group that has come here takes no heartbeats any more, so that no epoch ever wraps: its
    /// members' sessions run out, and it is to be deleted.
    pub const LAST: Epoch = Epoch(i32::MAX - 1);

    /// An epoch from the wire or from a log.
    #[inline]
    pub const fn new(value: i32) -> Epoch {
        Epoch(value)
    }

    #[inline]
    pub const fn get(self) -> i32 {
        self.0
    }

    /// The epoch behind this one; past [`Epoch::LAST`] it stays.
    #[inline]
    #[must_use]
    pub fn next(self) -> Epoch {
        if self >= Epoch::LAST { self } else { Epoch(self.0 + 1) }
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
