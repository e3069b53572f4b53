//! Compaction: of the records of a key the newest stays, as Kafka's log cleaner does it (KIP-58,
//! KIP-98, KIP-354, KIP-534).
//!
//! A [`pass`] works on copies and on the helper pool. The owner's core chooses what to clean
//! ([`crate::partition_log`]), and takes a written segment in for those it stands for.

pub mod filter;
pub mod offset_map;
mod output;
pub mod pass;
pub mod transactions;

#[cfg(test)]
#[path = "cleaning/cleaning_tests.rs"]
mod cleaning_tests;
