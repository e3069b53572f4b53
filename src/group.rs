//! Consumer groups: who reads what, and how far they have come.
//!
//! A group lives on the core that owns its partition of `__consumer_offsets`. What it decides is
//! plain ([`classic`], [`consumer`], [`partition`]); [`coordinator`] stores it and answers.
//!
//! ```text
//!                    a member of the consumer protocol joins
//!   classic group ---------------------------------------------> consumer group
//!    JoinGroup, SyncGroup,                                         ConsumerGroupHeartbeat, and
//!    Heartbeat, LeaveGroup  <--------------------------------------   those of the classic group
//!                    none of the consumer protocol is left
//! ```
//!
//! A group without members goes either way at once; one with members as
//! `group.consumer.migration.policy` says (KIP-848).

pub mod ask;
mod by_partition;
pub mod classic;
pub mod consumer;
pub mod coordinator;
pub mod handle;
pub mod limits;
mod loader;
pub mod log_record;
pub mod metrics;
pub mod offsets;
pub mod partition;
pub mod placement;
pub mod topics;
