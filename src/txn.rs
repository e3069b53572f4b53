//! Transactions: who may write under a transactional id, what belongs to its transaction, and how it
//! ends (KIP-98, KIP-360, KIP-890).
//!
//! A transactional id lives on the core that owns its partition of `__transaction_state`. What it
//! decides is plain ([`transaction`], [`partition`]); [`coordinator`] stores it, answers, and has the
//! markers written that end a transaction in each of its partitions.
//!
//! ```text
//!              partitions are added            EndTxn, or the time is over
//!   Empty --------------------------> Ongoing --------------------------+
//!     ^                                 ^                               v
//!     | InitProducerId                  |                    PrepareCommit, PrepareAbort
//!     |                                 | partitions are added          |
//!     +---- CompleteCommit, ------------+                               | every partition
//!           CompleteAbort <---------------------------------------------+ has its marker
//! ```
//!
//! Each arrow is one durable record, and is answered when it is. From Prepare on the outcome is
//! settled: markers are written until all of them are, over restarts too.

pub mod ask;
pub mod coordinator;
pub mod handle;
pub mod limits;
mod loader;
pub mod log_record;
pub mod metrics;
pub mod partition;
pub mod placement;
pub mod state;
pub mod transaction;
