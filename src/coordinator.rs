//! What the coordinators of groups and of transactions share: partitions of an internal topic, each on
//! the core that owns it. What a partition's log says is read once; then everything that is asked of it
//! is decided from memory, stored in the log, and answered when it is durable.
//!
//! ```text
//!   load: read the whole log  ----->  serve: append what waits, go on with what is durable,
//!     ^                                      do what is due, compact
//!     +------ an append has failed ----------+
//! ```
//!
//! The [`shell`] leads partitions through this life; what they decide is the matter of its rooms
//! ([`crate::group`], [`crate::txn`]).

pub mod limits;
pub mod load_times;
pub mod log_scan;
pub mod log_size;
pub mod shell;
pub mod walk;
