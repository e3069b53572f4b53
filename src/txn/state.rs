//! The states of a transactional id, as Apache Kafka counts and names them.

use std::fmt;

/// State of a transactional id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(i8)]
pub enum State {
    /// Nothing was written since InitProducerId.
    Empty = 0,
    /// Partitions belong to a transaction that is open.
    Ongoing = 1,
    /// The transaction will be committed; markers are being written.
    PrepareCommit = 2,
    /// The transaction will be aborted; markers are being written.
    PrepareAbort = 3,
    CompleteCommit = 4,
    CompleteAbort = 5,
    /// Expired, on its way out of the log. Never stored.
    Dead = 6,
    /// The owner is being fenced; what it has open is then aborted. Never stored.
    PrepareEpochFence = 7,
}

impl State {
    pub const ALL: [State; 8] = [
        State::Empty,
        State::Ongoing,
        State::PrepareCommit,
        State::PrepareAbort,
        State::CompleteCommit,
        State::CompleteAbort,
        State::Dead,
        State::PrepareEpochFence,
    ];

    /// Those that records have, and so the ids that are known.
    pub const STORED: [State; 6] = [
        State::Empty,
        State::Ongoing,
        State::PrepareCommit,
        State::PrepareAbort,
        State::CompleteCommit,
        State::CompleteAbort,
    ];

    /// The number in the log.
    pub const fn number(self) -> i8 {
        self as i8
    }

    /// The state of a record of the log; `None` for numbers that none has.
    pub fn from_number(number: i8) -> Option<State> {
        State::ALL.into_iter().find(|state| state.number() == number)
    }

    /// The name that DescribeTransactions and ListTransactions tell (KIP-664).
    pub const fn name(self) -> &'static str {
        match self {
            State::Empty => "Empty",
            State::Ongoing => "Ongoing",
            State::PrepareCommit => "PrepareCommit",
            State::PrepareAbort => "PrepareAbort",
            State::CompleteCommit => "CompleteCommit",
            State::CompleteAbort => "CompleteAbort",
            State::Dead => "Dead",
            State::PrepareEpochFence => "PrepareEpochFence",
        }
    }

    pub fn from_name(name: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.name() == name)
    }

    /// The outcome is settled, and markers may be missing.
    pub const fn is_prepared(self) -> bool {
        matches!(self, State::PrepareCommit | State::PrepareAbort)
    }

    /// No transaction is open.
    pub const fn is_at_rest(self) -> bool {
        matches!(self, State::Empty | State::CompleteCommit | State::CompleteAbort)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_lead_back_to_their_states() {
        for (number, state) in (0..).zip(State::ALL) {
            assert_eq!(state.number(), number);
            assert_eq!(State::from_number(number), Some(state));
            assert_eq!(State::from_name(state.name()), Some(state));
        }
        assert_eq!((State::from_number(8), State::from_number(-1)), (None, None));
        assert_eq!(State::from_name("ongoing"), None, "names have their case, as in Apache Kafka");
    }
}
