//! One workload against one broker: open loop or as fast as possible, every batch checked, everything
//! that the kernel says about the broker beside it.

/// The command.
pub mod command;
mod conduct;
mod consumer;
mod ledger;
mod observe;
mod plan;
mod producer;
mod roles;
mod shape;
mod shared;
mod stats;
mod transactor;
mod worker;

#[cfg(test)]
mod ledger_tests;

pub use conduct::{Checks, Interval, Outcome, conduct};
pub use ledger::Faults;
pub use observe::{Look, Observer, Usage};
pub use plan::{IN_FLIGHT_MAX, Plan, Reading, Transactions};
pub use stats::Stats;
pub use transactor::await_coordinator;
