//! Consumer groups: who reads what, and how far they have come.
//!
//! A group lives on the core that owns its partition of `__consumer_offsets`. What it decides is
//! plain ([`classic`], [`consumer`], [`partition`]); [`coordinator`] stores it and answers.

pub mod ask;
pub mod classic;
pub mod consumer;
pub mod coordinator;
pub mod handle;
pub mod limits;
mod loader;
pub mod log_record;
mod log_size;
pub mod offsets;
pub mod partition;
pub mod placement;
mod topics;
